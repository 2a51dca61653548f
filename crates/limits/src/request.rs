//! What one request of a user may hold and compute.
//!
//! Everything that a request makes this process hold counts in one account, whichever part of it
//! reserves: its body, pages of stores, what is parsed of them, results. So no request waits for
//! memory that it holds itself, and requests that each hold a part never wait for each other for
//! ever: one of them at a time gets the reserve, and ends.

use std::sync::{Arc, LazyLock};

use tokio::task_local;

use crate::{
    computing::{ComputingTurns, UserComputing},
    intake::{Budget, Intake, MemoryLimits},
    poll_time::LongestPoll,
};

/// The memory of the requests of all users: of one request, of one user, and of all, beside one
/// more request.
pub const MEMORY: MemoryLimits = MemoryLimits {
    // A page of a store, and what is parsed of it.
    page: 64 << 20,
    line: 0,
    answer: 32 << 20,
    refusal: 64 << 10,
    small: 16 << 20,
    request: 96 << 20,
    share: 96 << 20,
    shared: 96 << 20,
};

/// Pages of up to this size of the embedded store are not counted: there are at most two of them
/// for each request in flight.
pub const SMALL_PAGE_BYTES: usize = 64 << 10;

task_local! {
    static CURRENT: UserRequest;
}

/// The memory and the turns of one request of a user. Clones share them.
#[derive(Clone, Debug)]
pub struct UserRequest {
    memory: Intake,
    computing: UserComputing,
    longest: LongestPoll,
}

impl UserRequest {
    /// A request of a user that begins now.
    pub fn new(memory: &Budget, computing: &ComputingTurns, user: &str) -> Self {
        Self {
            memory: memory.share(user).of_one_request(),
            computing: computing.of_user(user),
            longest: LongestPoll::default(),
        }
    }

    /// The same, whose steps are measured.
    #[must_use]
    pub fn measured(self, longest: LongestPoll) -> Self {
        Self { longest, ..self }
    }

    /// The request that this task works for; a new one of no user, if it works for none.
    pub fn current() -> Self {
        static TURNS: LazyLock<ComputingTurns> = LazyLock::new(ComputingTurns::default);
        CURRENT
            .try_with(Self::clone)
            .unwrap_or_else(|_| Self::new(&Budget::of_users(), &TURNS, ""))
    }

    /// Runs a future that works for this request.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        let longest = self.longest.clone();
        longest.of(CURRENT.scope(self, work)).await
    }

    /// Does something for this request.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        self.longest.step(|| CURRENT.sync_scope(self.clone(), work))
    }

    /// The memory of the request.
    pub fn memory(&self) -> &Intake {
        &self.memory
    }

    /// The user; empty, if there is none.
    pub fn user(&self) -> Arc<str> {
        self.computing.user()
    }

    /// Computes for the request.
    pub fn computing(&self) -> UserComputing {
        self.computing.clone()
    }
}

impl Budget {
    /// The budget of this process for users.
    pub fn of_users() -> Self {
        static OF_USERS: LazyLock<Budget> = LazyLock::new(|| Budget::new(MEMORY));
        OF_USERS.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::intake::IntakeError;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn requests_that_each_hold_a_part_end_one_after_the_other() {
        let budget = Budget::new(MEMORY);
        let turns = ComputingTurns::default();
        let requests: Vec<_> = (0..20)
            .map(|number| {
                let request = UserRequest::new(&budget, &turns, &format!("user{number}"));
                tokio::spawn(request.scope(async {
                    let mut held = Vec::new();
                    for _ in 0..3 {
                        let mut part = UserRequest::current().memory().reservation();
                        part.grow(32 * MIB).await.unwrap();
                        held.push(part);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    held.len()
                }))
            })
            .collect();
        let mut peak = 0;
        for request in requests {
            let held = timeout(Duration::from_mins(1), request).await;
            assert_eq!(held.expect("they wait for each other").unwrap(), 3);
            peak = peak.max(budget.peak());
        }
        assert!(peak <= MEMORY.bound(), "{peak}");
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_the_others_of_its_user_and_then_ends_with_an_error() {
        let budget = Budget::new(MEMORY);
        let turns = ComputingTurns::default();
        let of = |user| {
            UserRequest::new(&budget, &turns, user)
                .memory()
                .reservation()
        };
        let mut views = [of("alice"), of("alice")];
        for view in &mut views {
            view.grow(40 * MIB).await.unwrap();
        }
        let mut third = of("alice");
        let waiting = tokio::spawn(async move { third.grow(40 * MIB).await.map(|()| third) });
        tokio::time::sleep(Duration::from_secs(10)).await;
        // Another user has the reserve meanwhile.
        let mut other = of("bob");
        other.grow(64 * MIB).await.unwrap();
        drop((views, other));
        let third = waiting.await.unwrap().unwrap();
        let mut further = of("alice");
        let refused = further.grow(64 * MIB).await;
        assert!(
            matches!(refused, Err(IntakeError::ShareExhausted(bytes)) if bytes == 40 * MIB),
            "{refused:?}"
        );
        drop((third, further));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_holds_no_more_than_one_may_and_gives_back_what_it_does_not_need() {
        let budget = Budget::new(MEMORY);
        let turns = ComputingTurns::default();
        let alice = UserRequest::new(&budget, &turns, "alice");
        let mut first = alice.memory().reservation();
        first.grow(70 * MIB).await.unwrap();
        let mut second = alice.memory().reservation();
        let refused = second.grow(32 * MIB).await;
        assert!(
            matches!(refused, Err(IntakeError::RequestTooLarge(bytes)) if bytes == MEMORY.request)
        );
        first.shrink(50 * MIB);
        assert_eq!(budget.held(), 50 * MIB);
        second.grow(32 * MIB).await.unwrap();
        drop((first, second));
        assert_eq!(budget.held(), 0);
    }
}
