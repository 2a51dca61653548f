//! Turns of users to compute.
//!
//! Threads that serve must not compute for longer than about a millisecond at a time: every other
//! request, and the health check, waits meanwhile. What takes longer has a turn, of which there is
//! one for each core, and of which one user has half at most; it runs on a thread that serves
//! nothing until it has ended.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Poll, ready},
    thread::available_parallelism,
    time::Duration,
};

use futures::FutureExt as _;
use prometheus_client::metrics::counter::Counter;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::{block_in_place, yield_now},
};

use crate::{fair_semaphore::FairSemaphore, poll_time::beside};

/// Bytes that are looked at within a fraction of a millisecond.
const BRIEF_BYTES: usize = 64 * 1024;
/// Pieces of work that wait for a turn.
const QUEUE: usize = 800;
/// How long one waits.
const MAX_WAIT: Duration = Duration::from_secs(15);

thread_local! {
    /// Whether this thread does something that has a turn.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

/// The turns of all users. Clones share them.
#[derive(Clone, Debug)]
pub struct ComputingTurns(FairSemaphore<Arc<str>>);

/// Computes for one request of a user.
#[derive(Clone, Debug)]
pub struct UserComputing {
    turns: ComputingTurns,
    user: Arc<str>,
    /// Bytes that were looked at without a turn since this gave way to others.
    brief: usize,
}

impl ComputingTurns {
    /// One turn for each core, and two at least, so that one user never has all of them.
    pub fn new(rejected: Counter) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self(FairSemaphore::new(cores.max(2), QUEUE, rejected))
    }

    /// For a request of a user.
    pub fn of_user(&self, user: &str) -> UserComputing {
        UserComputing {
            turns: self.clone(),
            user: user.into(),
            brief: 0,
        }
    }
}

impl Default for ComputingTurns {
    /// Turns of which no metric counts the refusals.
    fn default() -> Self {
        Self::new(Counter::default())
    }
}

impl UserComputing {
    pub(crate) fn user(&self) -> Arc<str> {
        Arc::clone(&self.user)
    }

    /// Runs `work` on `bytes` bytes, at once if these are few. `None`: there was no turn for it.
    pub async fn run<T>(&mut self, bytes: usize, work: impl FnOnce() -> T) -> Option<T> {
        if HAS_TURN.get() {
            return Some(work());
        }
        if bytes <= BRIEF_BYTES {
            self.brief += bytes;
            if self.brief > BRIEF_BYTES {
                self.brief = 0;
                yield_now().await;
            }
            return Some(work());
        }
        let turn = self.turns.0.acquire(Arc::clone(&self.user), MAX_WAIT);
        let _turn = turn.await?;
        Some(beside_serving(work))
    }

    /// Runs a task that may compute much in any of its steps: each step has a turn, and what it
    /// runs itself needs no further one. `None`: there was no turn for it.
    pub async fn run_task<F: Future>(self, task: F) -> Option<F::Output> {
        let mut task = pin!(task);
        let mut waiting = None;
        poll_fn(move |context| {
            if HAS_TURN.get() {
                return task.as_mut().poll(context).map(Some);
            }
            let turn = waiting.get_or_insert_with(|| {
                let (turns, user) = (self.turns.0.clone(), Arc::clone(&self.user));
                async move { turns.acquire(user, MAX_WAIT).await }.boxed()
            });
            let turn = ready!(turn.poll_unpin(context));
            waiting = None;
            let Some(_turn) = turn else {
                return Poll::Ready(None);
            };
            beside_serving(|| {
                HAS_TURN.set(true);
                let _end = EndOfTurn;
                task.as_mut().poll(context).map(Some)
            })
        })
        .await
    }
}

/// Ends the turn of this thread, also if what has it panics.
struct EndOfTurn;

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}

/// Does something with `bytes` bytes that no user waits for; beside serving, if these are many.
pub fn beside_serving_if_long<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= BRIEF_BYTES || HAS_TURN.get() {
        work()
    } else {
        beside_serving(work)
    }
}

/// Runs `work` while another thread takes over what this one serves.
fn beside_serving<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(|| beside(work)),
        // There is no other thread.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        thread::{self, ThreadId},
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_are_served_while_much_is_computed() {
        let turns = ComputingTurns::default();
        let (sender, receiver) = mpsc::channel::<ThreadId>();
        // The only thread that serves has this task, which computes until the other has run.
        let computing = tokio::spawn(async move {
            let mut alice = turns.of_user("alice");
            let other = tokio::spawn(async move { sender.send(thread::current().id()).unwrap() });
            let served_by = alice
                .run(BRIEF_BYTES + 1, move || receiver.recv().unwrap())
                .await;
            other.await.unwrap();
            served_by.unwrap()
        });
        computing.await.unwrap();
    }

    #[tokio::test]
    async fn the_steps_of_a_task_have_turns_that_are_free_while_it_waits() {
        let turns = ComputingTurns::default();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let mut within = turns.of_user("alice");
        let task = turns.of_user("alice").run_task(async move {
            // Needs no turn of its own, although the user has no other.
            let before = within.run(BRIEF_BYTES + 1, || HAS_TURN.get()).await;
            receiver.await.unwrap();
            let nested = within.clone().run_task(async { HAS_TURN.get() }).await;
            (before, nested)
        });
        let other = async {
            yield_now().await;
            let ran = turns.of_user("alice").run(BRIEF_BYTES + 1, || 1).await;
            sender.send(()).unwrap();
            ran
        };
        let (task, other) = tokio::join!(task, other);
        assert_eq!(task, Some((Some(true), Some(true))));
        assert_eq!(other, Some(1));
        assert!(!HAS_TURN.get());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_has_half_of_the_turns_and_little_work_needs_none() {
        let turns = ComputingTurns::default();
        let mut held = Vec::new();
        while let Some(turn) = turns.0.try_acquire("alice".into()) {
            held.push(turn);
        }
        let mut alice = turns.of_user("alice");
        assert_eq!(alice.run(BRIEF_BYTES, || 1).await, Some(1));
        assert_eq!(alice.run(BRIEF_BYTES + 1, || 1).await, None);
        let mut bob = turns.of_user("bob");
        assert_eq!(bob.run(BRIEF_BYTES + 1, || 1).await, Some(1));
    }
}
