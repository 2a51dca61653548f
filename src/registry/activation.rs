//! When queries are answered from a new generation: as soon as it is complete, and not before.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    model::{ClusterName, StoreName},
    pipeline::Pipeline,
    planted::{Bug, planted},
    store::Generation,
    sync::progress::{Obstacle, Progress},
};

/// How long the first generation of a cluster waits for kinds that fail, and for clusters that cannot say what they serve. After that
/// the kinds that work should be seen.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How long one that replaces another waits for kinds that the member refuses. What the old one has of them is lost then; but it also has
/// what must no longer be stored.
pub const REPLACING_PATIENCE: Duration = Duration::from_mins(10);
const MAX_DELAY: Duration = Duration::from_secs(15);

/// The generations that queries are not answered from yet.
pub(super) struct Activations {
    waiting: BTreeMap<(StoreName, ClusterName), Waiting>,
    /// See [`PATIENCE`].
    patience: Duration,
    changed: Arc<Notify>,
}

struct Waiting {
    generation: Generation,
    since: Instant,
    task: Option<AbortOnDropHandle<()>>,
}

impl Activations {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { waiting: BTreeMap::new(), patience: PATIENCE, changed }
    }

    /// The first generation of a cluster waits so long for what fails.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Looks whether a generation can be seen now. `units` are the streams that fill it, as far as they run; `is_certain`: whether
    /// these are all that there should be.
    pub(super) fn consider(
        &mut self,
        store: &StoreName,
        pipeline: &Pipeline,
        generation: Generation,
        units: &[Option<&Progress>],
        is_certain: bool,
    ) {
        let key = (store.clone(), generation.cluster.clone());
        if generation.live {
            self.waiting.remove(&key);
            return;
        }
        let waiting = self.waiting.entry(key).and_modify(|waiting| {
            if waiting.generation != generation {
                *waiting = Waiting::new(generation.clone());
            }
        });
        let waiting = waiting.or_insert_with(|| Waiting::new(generation));
        let patience = if waiting.generation.replaces { REPLACING_PATIENCE } else { self.patience };
        let is_settled = |unit: Option<&Progress>| {
            let generation = &waiting.generation;
            unit.is_some_and(|progress| progress.is_synced_in(generation) || is_hopeless(progress, generation, patience))
        };
        let is_complete = planted(Bug::ShowHalfFilled) || !units.is_empty() && units.iter().copied().all(is_settled);
        if is_complete && (is_certain || waiting.since.elapsed() >= patience) && waiting.task.is_none() {
            let activation = activate(pipeline.clone(), waiting.generation.clone(), Arc::clone(&self.changed));
            waiting.task = Some(AbortOnDropHandle::new(tokio::spawn(activation)));
        }
    }

    /// Ends everything that is under way, and waits for the end.
    pub(super) async fn stop(&mut self) {
        for task in std::mem::take(&mut self.waiting).into_values().filter_map(|waiting| waiting.task) {
            task.abort();
            // Cancelled, or done.
            let _ended = task.await;
        }
    }
}

impl Waiting {
    fn new(generation: Generation) -> Self {
        Self { generation, since: Instant::now(), task: None }
    }
}

/// Whether there is no use in waiting for a unit any longer.
fn is_hopeless(progress: &Progress, generation: &Generation, patience: Duration) -> bool {
    match progress.kept_from(generation, patience) {
        Some(Obstacle::Refusal) => true,
        Some(Obstacle::Member) => !generation.replaces,
        Some(Obstacle::Store) | None => false,
    }
}

async fn activate(pipeline: Pipeline, generation: Generation, changed: Arc<Notify>) {
    let schedule = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(MAX_DELAY)
        .with_jitter()
        .without_max_times();
    let mut delays = schedule.build();
    while let Err(error) = pipeline.activate(&generation).await {
        tracing::debug!(index = %generation.index, %error, "a generation cannot be made the live one yet");
        tokio::time::sleep(delays.next().unwrap_or(MAX_DELAY)).await;
    }
    changed.notify_one();
}
