//! Which streams are complete: for query results, for the other replicas, and for leaving a former
//! store location.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_replicas::ReplicaName;
use fleetdex_store::IndexRevision;
use fleetdex_sync::{
    pipeline::Pipeline,
    progress::{Progress, UnitState},
};
use jiff::{SignedDuration, Timestamp};

use super::{applied::AppliedPlan, desired::PeerCompleteness, revisions::WrittenRevisions};
use crate::{
    activation::is_refused_for_good,
    completeness::{CompletenessReport, IncompleteReason, StreamCompleteness},
    plan::StreamKey,
};

/// Whether each stream of the plan is complete, as last reported by the replica that reads it.
#[derive(Default)]
pub(super) struct CompletenessTracker(StreamCompleteness);

/// Two times of waiting changes that differ by less are of the same change.
const SAME_CHANGE: SignedDuration = SignedDuration::from_secs(1);

/// Why query results lack something of a running stream; `None` if it is complete.
fn incomplete_reason(
    stream: &StreamKey,
    progress: &Progress,
    revision: Option<&IndexRevision>,
) -> Option<IncompleteReason> {
    let resource = ResourceName::from(&stream.unit.resource);
    let is_shown = revision.is_some_and(|revision| revision.answers(&resource));
    match progress.state() {
        UnitState::Failing { reason, .. } => {
            let is_given_up =
                revision.is_some_and(|revision| is_refused_for_good(progress, revision));
            Some(IncompleteReason::Failing {
                reason,
                is_shown,
                is_given_up,
            })
        }
        _ if !is_shown || !progress.has_been_synced() => Some(IncompleteReason::FirstList),
        _ => None,
    }
}

/// That changes of a stream have waited too long for the store. `last` is what was found before:
/// while the same change waits, the time stays the same.
fn delay(
    progress: &Progress,
    pipeline: Option<&Pipeline>,
    last: Option<&IncompleteReason>,
) -> Option<IncompleteReason> {
    let waiting = SignedDuration::try_from(progress.delayed_since()?.elapsed()).ok()?;
    let since = Timestamp::now().checked_sub(waiting).ok()?;
    let since = match last {
        Some(IncompleteReason::Delayed { since: before, .. })
            if since.duration_since(*before).abs() <= SAME_CHANGE =>
        {
            *before
        }
        _ => Timestamp::from_second(since.as_second()).ok()?,
    };
    let availability = pipeline.and_then(|pipeline| pipeline.store.availability());
    let reason = match availability {
        Some(Err(unavailable)) => Some(unavailable.reason.into()),
        _ => None,
    };
    Some(IncompleteReason::Delayed { since, reason })
}

impl CompletenessTracker {
    /// What this replica reports to the others about the streams that it reads.
    pub(super) fn report(&self, applied: &AppliedPlan) -> CompletenessReport {
        let is_own = |stream: &StreamKey| {
            applied.is_shared(&stream.store) && applied.assignment.may_keep(&stream.unit.cluster)
        };
        CompletenessReport::of(self.0.iter().filter(|(stream, _)| is_own(stream)))
    }

    /// The streams of the plan whose objects are not all stored yet, or cannot be read now, and
    /// why. Clusters that this replica is not connected to are left out where only that is the
    /// reason: query results already say so for the whole cluster.
    pub(super) fn incomplete(
        &self,
        applied: &AppliedPlan,
    ) -> BTreeMap<StreamKey, IncompleteReason> {
        let incomplete = |(stream, reason): (&StreamKey, &Option<IncompleteReason>)| {
            Some((stream.clone(), reason.clone()?))
        };
        let is_reported = |(stream, reason): &(StreamKey, IncompleteReason)| {
            *reason != IncompleteReason::Disconnected || applied.is_connected(&stream.unit.cluster)
        };
        self.0
            .iter()
            .filter_map(incomplete)
            .filter(is_reported)
            .collect()
    }

    /// Whether changes wait for a store.
    pub(super) fn has_delays(&self) -> bool {
        let is_delayed = |reason: &Option<IncompleteReason>| {
            matches!(reason, Some(IncompleteReason::Delayed { .. }))
        };
        self.0.values().any(is_delayed)
    }

    /// Updates whether each stream is complete. The last known state of a stream counts until the
    /// replica that reads it reports another one.
    pub(super) fn update(
        &mut self,
        applied: &AppliedPlan,
        WrittenRevisions { stores, streams }: WrittenRevisions<'_>,
        peers: &PeerCompleteness,
    ) {
        let mut revisions: BTreeMap<(&StoreName, ClusterName), IndexRevision> = BTreeMap::new();
        for (name, store) in stores.iter() {
            let of_store = store.pipeline.revisions.all().into_iter();
            revisions.extend(of_store.map(|revision| ((name, revision.cluster.clone()), revision)));
        }
        let mut readers: BTreeMap<&ClusterName, Option<&ReplicaName>> = BTreeMap::new();
        let mut before = std::mem::take(&mut self.0);
        for stream in applied.plan.streams.keys() {
            let cluster = &stream.unit.cluster;
            let reader = readers
                .entry(cluster)
                .or_insert_with(|| applied.assignment.other_reader(cluster))
                .filter(|_| applied.is_shared(&stream.store));
            let last = before.remove(stream);
            let now = match (reader, streams.running_progress(stream)) {
                (Some(reader), _) => peers
                    .get(reader)
                    .and_then(|report| report.get(stream))
                    .cloned()
                    .or(last),
                (None, Some(progress)) => {
                    let revision = revisions.get(&(&stream.store, cluster.clone()));
                    let pipeline = stores.pipeline(&stream.store);
                    let before = last.as_ref().and_then(Option::as_ref);
                    let delay = || delay(progress, pipeline, before);
                    Some(incomplete_reason(stream, progress, revision).or_else(delay))
                }
                (None, None) if !applied.is_connected(cluster) => {
                    Some(Some(IncompleteReason::Disconnected))
                }
                (None, None) => last,
            };
            let unknown = || {
                Some(reader.map_or(IncompleteReason::FirstList, |reader| {
                    IncompleteReason::Unknown(reader.clone())
                }))
            };
            self.0.insert(stream.clone(), now.unwrap_or_else(unknown));
        }
    }

    /// Whether a store will get no more of each cluster that it has streams of: every stream is
    /// complete, or its member has refused it for too long.
    pub(super) fn is_final_by_cluster(&self) -> BTreeMap<(&StoreName, &ClusterName), bool> {
        let mut clusters: BTreeMap<(&StoreName, &ClusterName), bool> = BTreeMap::new();
        for (stream, reason) in &self.0 {
            let is_final = matches!(
                reason,
                None | Some(IncompleteReason::Failing {
                    is_given_up: true,
                    ..
                })
            );
            *clusters
                .entry((&stream.store, &stream.unit.cluster))
                .or_insert(true) &= is_final;
        }
        clusters
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Scope, Unit};

    use super::*;

    #[test]
    fn a_cluster_is_final_when_each_stream_is_complete_or_refused_for_too_long() {
        let stream = |kind: &str| StreamKey {
            unit: Unit {
                cluster: "member1".parse().unwrap(),
                resource: Resource {
                    gvk: Gvk::new("", "v1", kind),
                    plural: kind.to_lowercase().into(),
                    namespaced: true,
                },
                scope: Scope::All,
            },
            store: "main".parse().unwrap(),
        };
        let failing = |is_given_up| {
            Some(IncompleteReason::Failing {
                reason: "Forbidden".into(),
                is_shown: false,
                is_given_up,
            })
        };
        for (pods, nodes, expected) in [
            (None, None, true),
            (None, failing(true), true),
            (failing(true), failing(true), true),
            (None, failing(false), false),
            (Some(IncompleteReason::FirstList), None, false),
            (None, Some(IncompleteReason::Disconnected), false),
        ] {
            let completeness = [(stream("Pod"), pods), (stream("Node"), nodes)].into();
            let tracker = CompletenessTracker(completeness);
            let clusters: Vec<bool> = tracker.is_final_by_cluster().into_values().collect();
            assert_eq!(clusters, [expected], "{:?}", tracker.0);
        }
    }
}
