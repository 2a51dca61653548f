//! The kinds of which objects have had a status.
//!
//! An object without a status waits for its controller, or there is none in its cluster. Until an
//! object of the kind is seen that has a status, the rules of its streams take the latter for true.
//! The first status is a change of the rules of all streams of the kind in the cluster: their
//! objects are listed again, and documents of the former rules are written again. Checkpoints and
//! documents tell it to later processes (docs/adr/0010).

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_clusters::MemberState;
use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_interpreter::rules::KindRules;

use crate::plan::{Plan, StreamKey};

/// A kind of a cluster, as a store has it.
type KindKey = (StoreName, ClusterName, ResourceName);
/// The UID of a cluster, if it is known.
type ClusterUid = Option<String>;

/// The kinds of which objects have had a status, with the UIDs of their clusters.
#[derive(Default)]
pub(super) struct WrittenStatuses(BTreeMap<KindKey, ClusterUid>);

fn key(stream: &StreamKey) -> KindKey {
    let StreamKey { unit, store } = stream;
    let resource = ResourceName::from(&unit.resource);
    (store.clone(), unit.cluster.clone(), resource)
}

/// The UID of a member, while it is connected.
pub(super) fn uid_of(
    members: &BTreeMap<ClusterName, MemberState>,
    cluster: &ClusterName,
) -> ClusterUid {
    let connection = members.get(cluster)?.connection.as_ref()?;
    connection.uid.clone()
}

impl WrittenStatuses {
    /// Notes what a running stream of a cluster has seen.
    pub(super) fn note(&mut self, stream: &StreamKey, rules: &KindRules, uid: ClusterUid) {
        if rules.have_seen_status() && self.0.insert(key(stream), uid).is_none() {
            tracing::info!(unit = %stream.unit, "objects of the kind have a status; those without wait for one");
        }
    }

    /// Gives the streams of a plan the rules that know it. Forgets the kinds that are not read any
    /// more, and those of a cluster that another one has replaced: `uid_of` says which UID one has.
    pub(super) fn apply(&mut self, plan: &mut Plan, uid_of: impl Fn(&ClusterName) -> ClusterUid) {
        if self.0.is_empty() {
            return;
        }
        let of_plan: BTreeSet<KindKey> = plan.streams.keys().map(key).collect();
        self.0.retain(|kind, uid| {
            let now = uid_of(&kind.1);
            let is_replaced = uid.is_some() && now.is_some() && *uid != now;
            of_plan.contains(kind) && !is_replaced
        });
        for (stream, plan) in &mut plan.streams {
            if !self.0.contains_key(&key(stream)) {
                continue;
            }
            if let Some(rules) = plan.rules.as_ref().and_then(KindRules::of_written_status) {
                plan.rules = Some(rules);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, InterpretationLevel, Resource, Scope, Unit};
    use fleetdex_interpreter::rules::RuleSet;

    use super::*;
    use crate::plan::StreamPlan;

    fn stream(cluster: &str, namespace: &str) -> StreamKey {
        StreamKey {
            unit: Unit {
                cluster: cluster.parse().unwrap(),
                resource: Resource {
                    gvk: Gvk::new("example.com", "v1", "Widget"),
                    plural: "widgets".into(),
                    namespaced: true,
                },
                scope: Scope::Namespace(namespace.parse().unwrap()),
            },
            store: "embedded".parse().unwrap(),
        }
    }

    /// A plan as the registries say, of streams that know nothing of any status.
    fn plan(streams: &[&StreamKey]) -> Plan {
        let of_stream = |stream: &&StreamKey| {
            let of_kind = |level| RuleSet::default().of_kind(&stream.unit.resource, true, level);
            let plan = StreamPlan {
                rules: of_kind(InterpretationLevel::BuiltIn),
                ..StreamPlan::default()
            };
            ((*stream).clone(), plan)
        };
        Plan {
            streams: streams.iter().map(of_stream).collect(),
            ..Plan::default()
        }
    }

    /// The streams of a plan that know that there is a status, in clusters with this UID.
    fn aware(statuses: &mut WrittenStatuses, streams: &[&StreamKey], uid: &str) -> Vec<String> {
        let mut plan = plan(streams);
        statuses.apply(&mut plan, |_| Some(uid.to_owned()));
        let aware = plan.streams.into_iter();
        aware
            .filter(|(_, plan)| plan.rules.as_ref().is_some_and(KindRules::know_of_status))
            .map(|(stream, _)| stream.unit.to_string())
            .collect()
    }

    /// What is known once a stream has seen a status, in a cluster with the UID "x".
    fn noted(stream: &StreamKey) -> WrittenStatuses {
        let mut statuses = WrittenStatuses::default();
        let rules = plan(&[stream]).streams[stream].rules.clone().unwrap();
        statuses.note(stream, &rules, Some("x".to_owned()));
        assert!(statuses.0.is_empty());
        rules.note_status();
        statuses.note(stream, &rules, Some("x".to_owned()));
        statuses
    }

    #[test]
    fn a_status_changes_the_rules_of_all_streams_of_its_kind_in_its_cluster() {
        let (a, b, other) = (stream("m1", "a"), stream("m1", "b"), stream("m2", "a"));
        let mut statuses = noted(&a);
        let expected = [a.unit.to_string(), b.unit.to_string()];
        assert_eq!(aware(&mut statuses, &[&a, &b, &other], "x"), expected);
        let rest = aware(&mut statuses, &[&b, &other], "x");
        assert_eq!(rest, [b.unit.to_string()]);
    }

    #[test]
    fn a_kind_that_is_not_read_and_a_cluster_that_is_replaced_are_forgotten() {
        let (a, other) = (stream("m1", "a"), stream("m2", "a"));
        for (streams, uid) in [([&other], "x"), ([&a], "y")] {
            let mut statuses = noted(&a);
            assert_eq!(aware(&mut statuses, &streams, uid), [""; 0], "{uid}");
            assert_eq!(aware(&mut statuses, &[&a], "x"), [""; 0], "{uid}");
        }
    }
}
