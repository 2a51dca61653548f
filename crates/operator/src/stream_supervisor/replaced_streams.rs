//! Streams of earlier plans whose kind is now read in another version. Their documents stay until
//! those of the new version are stored.

use std::collections::BTreeSet;

use crate::plan::{Plan, StreamKey};

#[derive(Default)]
pub(super) struct ReplacedStreams(BTreeSet<StreamKey>);

impl ReplacedStreams {
    pub(super) fn keys(&self) -> &BTreeSet<StreamKey> {
        &self.0
    }

    /// Adds the streams that a plan replaces.
    pub(super) fn add(&mut self, before: &Plan, plan: &Plan) {
        self.0.extend(plan.replaced(before));
    }

    /// Forgets the streams whose kind is stored in its new version by now, or is no longer
    /// selected. Returns whether there were any.
    pub(super) fn forget_stored(
        &mut self,
        plan: &Plan,
        is_synced: impl Fn(&StreamKey) -> bool,
    ) -> bool {
        let before = self.0.len();
        self.0.retain(|stream| {
            !plan.streams.contains_key(stream)
                && plan
                    .successors(stream)
                    .any(|successor| !is_synced(successor))
        });
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Scope, Unit};

    use super::*;
    use crate::plan::StreamPlan;

    fn stream(version: &str) -> StreamKey {
        StreamKey {
            unit: Unit {
                cluster: "member1".parse().unwrap(),
                resource: Resource {
                    gvk: Gvk::new("apps", version, "Deployment"),
                    plural: "deployments".into(),
                    namespaced: true,
                },
                scope: Scope::All,
            },
            store: "main".parse().unwrap(),
        }
    }

    fn plan(versions: &[&str]) -> Plan {
        let streams = versions.iter();
        Plan {
            streams: streams
                .map(|version| (stream(version), StreamPlan::default()))
                .collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn a_replaced_stream_is_kept_until_its_successor_is_in_sync_or_its_kind_is_not_selected() {
        for (next, is_synced, is_forgotten) in [
            (plan(&["v1"]), false, false),
            (plan(&["v1"]), true, true),
            (plan(&["v1", "v1beta1"]), false, true),
            (plan(&[]), false, true),
        ] {
            let mut replaced = ReplacedStreams::default();
            replaced.add(&plan(&["v1beta1"]), &plan(&["v1"]));
            assert!(replaced.keys().contains(&stream("v1beta1")));
            assert_eq!(replaced.forget_stored(&next, |_| is_synced), is_forgotten);
            assert_eq!(replaced.keys().is_empty(), is_forgotten);
        }
    }
}
