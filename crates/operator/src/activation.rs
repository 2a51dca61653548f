//! When queries are answered from a new generation: from one that replaces another as soon as it is complete, from a first one resource by
//! resource as these are complete, and never before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use fleetdex_core::{
    model::{ClusterName, StoreName},
    planted::{Bug, planted},
    query::ResourceName,
};
use fleetdex_store::Generation;
use fleetdex_sync::{
    pipeline::Pipeline,
    progress::{Obstacle, Progress},
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// How long one that replaces another waits for kinds that the member refuses. What the old one has of them is lost then; but it also has
/// what must no longer be stored.
pub const REPLACING_PATIENCE: Duration = Duration::from_mins(10);
const MAX_DELAY: Duration = Duration::from_secs(15);
/// How long a first generation is not shown in parts, and how long between two parts: most are complete by then, and each part is a change of the
/// cluster state of OpenSearch. With a thousand clusters that begin at once these are 200 a second, of some milliseconds each.
const PART_INTERVAL: Duration = Duration::from_secs(5);

/// The generations that queries are not answered from yet.
pub(super) struct Activations {
    waiting: BTreeMap<(StoreName, ClusterName), Waiting>,
    changed: Arc<Notify>,
}

struct Waiting {
    generation: Generation,
    since: Instant,
    /// When a part of it was last shown, or when it was made.
    part_shown: Instant,
    /// Shows a part of it.
    showing: Option<AbortOnDropHandle<()>>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Activations {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            waiting: BTreeMap::new(),
            changed,
        }
    }

    /// Looks what of a generation can be seen now. `units` are the streams that fill it, as far as they run, with their resources; `is_certain`:
    /// whether these are all that there should be.
    ///
    /// One that replaces another is seen when all of it is complete, or as much as will ever be. A first one is seen resource by resource: what is
    /// refused or fails keeps nothing else from being seen, and is itself not seen before it is complete.
    pub(super) fn consider(
        &mut self,
        store: &StoreName,
        pipeline: &Pipeline,
        generation: Generation,
        units: &[(ResourceName, Option<&Progress>)],
        is_certain: bool,
    ) {
        let key = (store.clone(), generation.cluster.clone());
        if generation.live {
            self.waiting.remove(&key);
            return;
        }
        let waiting = self
            .waiting
            .entry(key)
            .or_insert_with(|| Waiting::new(generation.clone()));
        if waiting.generation.id != generation.id {
            *waiting = Waiting::new(generation.clone());
        }
        let is_busy = |task: &Option<AbortOnDropHandle<()>>| {
            task.as_ref().is_some_and(|task| !task.is_finished())
        };
        if is_busy(&waiting.task) || is_busy(&waiting.showing) {
            return;
        }
        if generation.replaces.is_none() {
            waiting.generation = generation;
            waiting.consider_first(pipeline, units, is_certain, &self.changed);
            return;
        }
        let is_settled = |unit: &(ResourceName, Option<&Progress>)| {
            unit.1.is_some_and(|progress| {
                progress.is_synced_in(&generation) || is_hopeless(progress, &generation)
            })
        };
        let is_complete =
            planted(Bug::ShowHalfFilled) || !units.is_empty() && units.iter().all(is_settled);
        if is_complete && (is_certain || waiting.since.elapsed() >= REPLACING_PATIENCE) {
            waiting.activate(pipeline, &self.changed);
        }
    }

    /// Ends everything that is under way, and waits for the end.
    pub(super) async fn stop(&mut self) {
        for task in std::mem::take(&mut self.waiting)
            .into_values()
            .filter_map(|waiting| waiting.task)
        {
            task.abort();
            // Cancelled, or done.
            let _ended = task.await;
        }
    }
}

impl Waiting {
    fn new(generation: Generation) -> Self {
        let now = Instant::now();
        Self {
            generation,
            since: now,
            part_shown: now,
            showing: None,
            task: None,
        }
    }

    fn consider_first(
        &mut self,
        pipeline: &Pipeline,
        units: &[(ResourceName, Option<&Progress>)],
        is_certain: bool,
        changed: &Arc<Notify>,
    ) {
        let is_synced = |unit: &&(ResourceName, Option<&Progress>)| {
            planted(Bug::ShowHalfFilled)
                || unit
                    .1
                    .is_some_and(|progress| progress.is_synced_in(&self.generation))
        };
        let is_whole = !units.is_empty() && units.iter().all(|unit| is_synced(&unit));
        if is_whole && is_certain {
            self.activate(pipeline, changed);
            return;
        }
        let incomplete: BTreeSet<&ResourceName> = units
            .iter()
            .filter(|unit| !is_synced(unit))
            .map(|(resource, _)| resource)
            .collect();
        let complete = units
            .iter()
            .map(|(resource, _)| resource)
            .filter(|resource| !incomplete.contains(resource));
        let resources: BTreeSet<ResourceName> = complete.cloned().collect();
        if resources.is_subset(&self.generation.shown) || self.part_shown.elapsed() < PART_INTERVAL
        {
            return;
        }
        self.part_shown = Instant::now();
        let showing = show(
            pipeline.clone(),
            self.generation.clone(),
            resources,
            Arc::clone(changed),
        );
        self.showing = Some(AbortOnDropHandle::new(tokio::spawn(showing)));
    }

    fn activate(&mut self, pipeline: &Pipeline, changed: &Arc<Notify>) {
        let activation = activate(
            pipeline.clone(),
            self.generation.clone(),
            Arc::clone(changed),
        );
        self.task = Some(AbortOnDropHandle::new(tokio::spawn(activation)));
    }
}

/// Whether there is no use in waiting for a unit any longer.
pub(super) fn is_hopeless(progress: &Progress, generation: &Generation) -> bool {
    progress.kept_from(generation, REPLACING_PATIENCE) == Some(Obstacle::Refusal)
}

/// Once: what is complete by the next time may be more.
async fn show(
    pipeline: Pipeline,
    generation: Generation,
    resources: BTreeSet<ResourceName>,
    changed: Arc<Notify>,
) {
    if let Err(error) = pipeline.show(&generation, &resources).await {
        tracing::debug!(index = %generation.index, %error, "what is complete of a generation cannot be shown yet");
    }
    changed.notify_one();
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
