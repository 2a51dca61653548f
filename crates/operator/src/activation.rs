//! When queries are answered from a new index revision. One that replaces another is activated as
//! soon as it is complete. The first one of a cluster becomes visible resource by resource, each as
//! soon as it is complete, and never before.

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
use fleetdex_store::{CompleteResources, IndexRevision};
use fleetdex_sync::{
    pipeline::Pipeline,
    progress::{FailureCause, Progress},
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// How long a revision that replaces another waits for kinds that the member refuses. Their
/// documents in the old revision are lost then; but the old revision also has what must no longer
/// be stored.
pub const REPLACING_PATIENCE: Duration = Duration::from_mins(10);
/// The longest pause between two attempts to write to a store.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(15);
/// How long no part of a first revision is shown: most are complete by then. Each part changes the
/// cluster state of OpenSearch, so the next one has to wait twice as long as the one before: a
/// thousand clusters that start at once would otherwise ask for 200 changes a second until the last
/// one is complete.
const FIRST_PARTIAL_DELAY: Duration = Duration::from_secs(5);
const MAX_PARTIAL_DELAY: Duration = Duration::from_mins(1);

/// The revisions that queries are not answered from yet.
pub(super) struct Activations {
    pending: BTreeMap<(StoreName, ClusterName), PendingActivation>,
    changed: Arc<Notify>,
}

struct PendingActivation {
    revision: IndexRevision,
    since: Instant,
    /// When a part of it was last shown, or when it was created.
    last_partial: Instant,
    /// How long after that the next part is shown.
    partial_delay: Duration,
    /// The task that shows a part of it.
    partial_task: Option<AbortOnDropHandle<()>>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Activations {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            pending: BTreeMap::new(),
            changed,
        }
    }

    /// Decides what of a revision becomes visible now. `units` are the resources that are written
    /// to it, each with its progress if its stream runs; `is_certain` states whether these are all
    /// that there should be.
    ///
    /// A revision that replaces another becomes visible when all of it is complete, or as much as
    /// will ever be. A first one becomes visible resource by resource: a resource that is refused
    /// or fails does not delay the others, and is itself hidden until it is complete.
    pub(super) fn update(
        &mut self,
        store: &StoreName,
        pipeline: &Pipeline,
        revision: IndexRevision,
        units: &[(ResourceName, Option<&Progress>)],
        is_certain: bool,
    ) {
        let key = (store.clone(), revision.cluster.clone());
        if revision.live {
            self.pending.remove(&key);
            return;
        }
        let pending = self
            .pending
            .entry(key)
            .or_insert_with(|| PendingActivation::new(revision.clone()));
        if pending.revision.id != revision.id {
            *pending = PendingActivation::new(revision.clone());
        }
        let is_busy = |task: &Option<AbortOnDropHandle<()>>| {
            task.as_ref().is_some_and(|task| !task.is_finished())
        };
        if is_busy(&pending.task) || is_busy(&pending.partial_task) {
            return;
        }
        if revision.replaces.is_none() {
            pending.revision = revision;
            pending.update_first(pipeline, units, is_certain, &self.changed);
            return;
        }
        let is_final = |unit: &(ResourceName, Option<&Progress>)| {
            unit.1.is_some_and(|progress| {
                progress.is_synced_to(&revision) || is_refused_for_good(progress, &revision)
            })
        };
        let is_complete =
            planted(Bug::ShowHalfFilled) || !units.is_empty() && units.iter().all(is_final);
        if is_complete && (is_certain || pending.since.elapsed() >= REPLACING_PATIENCE) {
            pending.activate(pipeline, &self.changed);
        }
    }

    /// Aborts every activation, and waits until all have ended.
    pub(super) async fn stop(&mut self) {
        for task in std::mem::take(&mut self.pending)
            .into_values()
            .filter_map(|pending| pending.task)
        {
            task.abort();
            // It was aborted, or had ended.
            let _ended = task.await;
        }
    }
}

impl PendingActivation {
    fn new(revision: IndexRevision) -> Self {
        let now = Instant::now();
        Self {
            revision,
            since: now,
            last_partial: now,
            partial_delay: FIRST_PARTIAL_DELAY,
            partial_task: None,
            task: None,
        }
    }

    fn update_first(
        &mut self,
        pipeline: &Pipeline,
        units: &[(ResourceName, Option<&Progress>)],
        is_certain: bool,
        changed: &Arc<Notify>,
    ) {
        let is_synced = |progress: Option<&Progress>| {
            planted(Bug::ShowHalfFilled)
                || progress.is_some_and(|progress| progress.is_synced_to(&self.revision))
        };
        let states: Vec<(&ResourceName, bool)> = units
            .iter()
            .map(|(resource, progress)| (resource, is_synced(*progress)))
            .collect();
        let is_whole = !states.is_empty() && states.iter().all(|(_, is_synced)| *is_synced);
        if is_whole && is_certain {
            self.activate(pipeline, changed);
            return;
        }
        let resources = complete_resources(&states);
        if resources.is_subset(&self.revision.shown)
            || self.last_partial.elapsed() < self.partial_delay
        {
            return;
        }
        self.last_partial = Instant::now();
        self.partial_delay = (2 * self.partial_delay).min(MAX_PARTIAL_DELAY);
        let partial_task = activate_resources(
            pipeline.clone(),
            self.revision.clone(),
            CompleteResources::Only(resources),
            Arc::clone(changed),
        );
        self.partial_task = Some(AbortOnDropHandle::new(tokio::spawn(partial_task)));
    }

    fn activate(&mut self, pipeline: &Pipeline, changed: &Arc<Notify>) {
        let activation = activate(pipeline.clone(), self.revision.clone(), Arc::clone(changed));
        self.task = Some(AbortOnDropHandle::new(tokio::spawn(activation)));
    }
}

/// The resources of which every stream is in sync.
fn complete_resources(states: &[(&ResourceName, bool)]) -> BTreeSet<ResourceName> {
    let incomplete: BTreeSet<&ResourceName> = states
        .iter()
        .filter(|(_, is_synced)| !is_synced)
        .map(|(resource, _)| *resource)
        .collect();
    states
        .iter()
        .map(|(resource, _)| *resource)
        .filter(|resource| !incomplete.contains(resource))
        .cloned()
        .collect()
}

/// Whether the member has refused a stream for so long that nothing waits for it any more.
pub(super) fn is_refused_for_good(progress: &Progress, revision: &IndexRevision) -> bool {
    progress.blocking_failure(revision, REPLACING_PATIENCE) == Some(FailureCause::Refusal)
}

/// Tries once: by the next attempt more resources may be complete.
async fn activate_resources(
    pipeline: Pipeline,
    revision: IndexRevision,
    visible: CompleteResources,
    changed: Arc<Notify>,
) {
    if let Err(error) = pipeline.revisions.activate(&revision, &visible).await {
        tracing::debug!(index = %revision.index, %error, "cannot show the complete resources of a revision yet");
    }
    changed.notify_one();
}

/// The pauses between attempts to write to a store, without end.
pub(super) fn retry_delays() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(MAX_DELAY)
        .with_jitter()
        .without_max_times()
        .build()
}

async fn activate(pipeline: Pipeline, revision: IndexRevision, changed: Arc<Notify>) {
    let mut delays = retry_delays();
    while let Err(error) = pipeline
        .revisions
        .activate(&revision, &CompleteResources::All)
        .await
    {
        tracing::debug!(index = %revision.index, %error, "cannot activate a revision yet");
        tokio::time::sleep(delays.next().unwrap_or(MAX_DELAY)).await;
    }
    changed.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_complete_when_its_streams_of_all_namespaces_are_in_sync() {
        let (pods, nodes) = (
            ResourceName::new("", "pods"),
            ResourceName::new("", "nodes"),
        );
        for (states, expected) in [
            (&[][..], &[][..]),
            (&[(&pods, true)], &[&pods]),
            (&[(&pods, false)], &[]),
            (&[(&pods, true), (&nodes, false)], &[&pods]),
            (&[(&pods, true), (&pods, false), (&nodes, true)], &[&nodes]),
            (
                &[(&pods, true), (&pods, true), (&nodes, true)],
                &[&nodes, &pods],
            ),
        ] {
            let expected: BTreeSet<ResourceName> =
                expected.iter().map(|&name| name.clone()).collect();
            assert_eq!(complete_resources(states), expected, "{states:?}");
        }
    }
}
