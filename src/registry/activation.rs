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
    sync::progress::Progress,
};

/// How long a generation waits for kinds that fail, and for clusters that cannot say what they serve. After that it is as complete
/// as it will be, and the kinds that work should be seen.
pub const PATIENCE: Duration = Duration::from_mins(1);
const MAX_DELAY: Duration = Duration::from_secs(15);

/// The generations that queries are not answered from yet.
pub(super) struct Activations {
    waiting: BTreeMap<(StoreName, ClusterName), Waiting>,
    changed: Arc<Notify>,
}

struct Waiting {
    generation: Generation,
    since: Instant,
    task: Option<AbortOnDropHandle<()>>,
}

impl Activations {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { waiting: BTreeMap::new(), changed }
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
        let is_settled = |progress: Option<&Progress>| progress.is_some_and(|progress| progress.is_settled(PATIENCE));
        let is_complete = planted(Bug::ShowHalfFilled) || !units.is_empty() && units.iter().copied().all(is_settled);
        if is_complete && (is_certain || waiting.since.elapsed() >= PATIENCE) && waiting.task.is_none() {
            let activation = activate(pipeline.clone(), waiting.generation.clone(), Arc::clone(&self.changed));
            waiting.task = Some(AbortOnDropHandle::new(tokio::spawn(activation)));
        }
    }

    /// Ends everything that is under way.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
    }
}

impl Waiting {
    fn new(generation: Generation) -> Self {
        Self { generation, since: Instant::now(), task: None }
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
