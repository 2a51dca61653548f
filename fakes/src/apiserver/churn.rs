//! Load for benchmarks: many generated pods, and writes to them at a rate.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Server, name::Name, object::Object, resource::key, state::State, status::Status};
use crate::{
    churn::{Action, Writes},
    pods::{NAMESPACES, Pod, namespace},
};

/// Short enough that events come evenly, long enough to cost nothing.
const TICK: Duration = Duration::from_millis(2);
/// Writes under one lock, so that requests get their turn.
const BATCH: u64 = 200;
/// Of how many changes one is a deletion.
const DELETIONS: u32 = 20;
/// How many revisions are kept at least, and how many are forgotten at a time: more than the watch
/// cache holds, less than memory notices.
const KEPT_REVISIONS: u64 = 150_000;
const FORGOTTEN_AT_ONCE: u64 = 10_000;
/// Of how many of the last writes the moments are remembered.
const MOMENTS: usize = 100_000;

/// The pods of a server, and the writes to them. A clone is the same.
#[derive(Clone, Debug)]
pub struct Churn {
    server: Server,
    progress: Arc<Mutex<Progress>>,
}

#[derive(Debug)]
struct Progress {
    pods: u32,
    seed: u32,
    random: StdRng,
    /// Since when the rate is what it is, and how many writes it has made since.
    since: Instant,
    done: u64,
    /// When the last writes at this rate were made.
    moments: VecDeque<Moment>,
    totals: Totals,
}

/// The revision of a write, and when it was made: microseconds since 1970, for clocks of other
/// processes.
pub type Moment = (u64, u64);

/// What was written since the server was filled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// The writes per second that are asked for now.
    pub rate: u32,
    /// All writes.
    pub writes: u64,
    /// Pods created, pods whose status changed, pods deleted.
    #[serde(flatten)]
    pub of_each: Writes,
    /// Milliseconds since the rate was set.
    pub milliseconds: u64,
    /// Writes since the rate was set.
    pub writes_at_this_rate: u64,
    /// Pods that there are now.
    pub pods: usize,
    /// The newest revision.
    pub revision: u64,
    /// Requests for pods, lists and watches included.
    pub pod_requests: u64,
}

impl Churn {
    /// Fills a server with pods that are made whenever they are read. Nothing is written until a
    /// rate is set.
    pub fn fill(server: &Server, pods: u32, seed: u32) -> Result<Self, Status> {
        let resource = Name::from("pods");
        let mut state = server.lock();
        for number in 0..NAMESPACES.min(pods) {
            state.apply(
                &"namespaces".into(),
                json!({ "metadata": { "name": namespace(number) } }),
            )?;
        }
        for number in 0..pods {
            let pod = Pod::new(seed, number);
            state.write(&resource, key_of(pod), Some(Object::Pod(pod)))?;
        }
        let revision = state.etcd.revision();
        state.etcd.compact(revision);
        drop(state);
        let random = StdRng::seed_from_u64(seed.into());
        let since = Instant::now();
        let progress = Progress {
            pods,
            seed,
            random,
            since,
            done: 0,
            moments: VecDeque::new(),
            totals: Totals::default(),
        };
        Ok(Self {
            server: server.clone(),
            progress: Arc::new(Mutex::new(progress)),
        })
    }

    /// Writes so many times per second from now on; 0 stops. Gives what was written until then.
    pub fn set_rate(&self, rate: u32) -> Totals {
        let until_now = self.totals();
        let mut progress = self.progress();
        progress.totals.rate = rate;
        progress.since = Instant::now();
        progress.done = 0;
        progress.moments.clear();
        until_now
    }

    /// When the last writes since the rate was set were made, in their order.
    pub fn moments(&self) -> Vec<Moment> {
        self.progress().moments.iter().copied().collect()
    }

    /// What was written until now.
    pub fn totals(&self) -> Totals {
        let state = self.server.lock();
        let pods = state
            .etcd
            .table(&"pods".into())
            .map_or(0, super::store::Table::live);
        let (revision, pod_requests) = (state.etcd.revision(), state.pod_requests);
        drop(state);
        let progress = self.progress();
        let milliseconds = u64::try_from(progress.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Totals {
            milliseconds,
            writes_at_this_rate: progress.done,
            pods,
            revision,
            pod_requests,
            ..progress.totals.clone()
        }
    }

    /// Writes at the rate that is set, until it is dropped.
    pub async fn run(&self) -> Result<(), Status> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            while self.write_due()? {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Makes some of the writes that are due, and says whether more are.
    fn write_due(&self) -> Result<bool, Status> {
        let mut progress = self.progress();
        let elapsed = u64::try_from(progress.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let due =
            (u64::from(progress.totals.rate) * elapsed / 1_000_000).saturating_sub(progress.done);
        if due == 0 || progress.pods == 0 {
            return Ok(false);
        }
        let mut state = self.server.lock();
        for _ in 0..due.min(BATCH) {
            progress.write(&mut state)?;
        }
        let old = state.etcd.revision().saturating_sub(KEPT_REVISIONS);
        if old > state.etcd.compacted() + FORGOTTEN_AT_ONCE {
            state.etcd.compact(old);
        }
        Ok(due > BATCH)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

impl Progress {
    /// Changes the status of a pod, deletes it, or creates it if it is not there.
    fn write(&mut self, state: &mut State) -> Result<(), Status> {
        let resource = Name::from("pods");
        let number = self.random.random_range(0..self.pods);
        let first = Pod::new(self.seed, number);
        let key = key_of(first);
        let present = match state.etcd.table(&resource)?.get(&key) {
            Some((_, Object::Pod(pod))) => Some(*pod),
            _ => None,
        };
        let action = Action::next(present.is_some(), || self.random.random_ratio(1, DELETIONS));
        let pod = match action {
            Action::Create => {
                let life = u32::try_from(state.etcd.revision() % u64::from(u32::MAX)).unwrap_or(1);
                Some(first.recreated(life))
            }
            Action::Update => present.map(Pod::changed),
            Action::Delete => None,
        };
        let revision = state.write(&resource, key, pod.map(Object::Pod))?;
        self.totals.of_each.count(action);
        self.totals.writes += 1;
        self.done += 1;
        if self.moments.len() == MOMENTS {
            self.moments.pop_front();
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.moments
            .push_back((revision, u64::try_from(now.as_micros()).unwrap_or(u64::MAX)));
        Ok(())
    }
}

fn key_of(pod: Pod) -> Arc<str> {
    key(Some(&pod.namespace()), &pod.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::Options;

    #[tokio::test(start_paused = true)]
    async fn pods_are_written_at_the_rate_that_is_set_and_stay_about_as_many() {
        let server = Server::new(Options::new(1));
        let churn = Churn::fill(&server, 100, 1).unwrap();
        let started = churn.totals();
        assert_eq!((started.pods, server.compacted()), (100, server.revision()));
        churn.set_rate(1_000);
        let writes = tokio::time::timeout(Duration::from_secs(3), churn.run());
        assert!(writes.await.is_err());
        let totals = churn.totals();
        assert!((2_990..=3_000).contains(&totals.writes), "{totals:?}");
        assert_eq!(totals.writes, totals.of_each.total());
        assert_eq!(totals.revision - started.revision, totals.writes);
        let moments = churn.moments();
        assert_eq!(
            (
                moments.len() as u64,
                moments.last().map(|(revision, _)| *revision)
            ),
            (totals.writes, Some(totals.revision))
        );
        assert_eq!(totals.pods, server.objects("pods", None).unwrap().len());
        assert!(
            totals.pods > 80 && totals.of_each.created > 50,
            "{totals:?}"
        );
    }
}
