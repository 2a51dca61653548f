//! Changes of the rules of a plan by what its streams have seen.

use std::collections::BTreeMap;

use fleetdex_clusters::MemberState;
use fleetdex_core::model::ClusterName;
use fleetdex_telemetry::metrics::Metrics;
use tokio::time::Instant;

use super::{
    script_suspensions::ScriptSuspensions,
    streams::RunningStreams,
    written_statuses::{WrittenStatuses, uid_of},
};
use crate::plan::Plan;

/// What streams have seen: a status of a kind, and scripts of which too many runs reach a limit.
#[derive(Default)]
pub(super) struct RuleChanges {
    suspensions: ScriptSuspensions,
    written_statuses: WrittenStatuses,
}

impl RuleChanges {
    /// Notes what the running streams have seen by now, and changes the rules of a plan by it.
    pub(super) fn apply(
        &mut self,
        plan: &mut Plan,
        streams: &RunningStreams,
        members: &BTreeMap<ClusterName, MemberState>,
        metrics: &Metrics,
    ) {
        let now = Instant::now();
        for (stream, running) in streams.plans() {
            if let Some(rules) = &running.rules {
                self.suspensions.suspend(stream, rules, metrics, now);
                let uid = uid_of(members, &stream.unit.cluster);
                self.written_statuses.note(stream, rules, uid);
            }
        }
        self.suspensions.apply(plan, now);
        self.written_statuses
            .apply(plan, |cluster| uid_of(members, cluster));
    }

    /// Whether a script that a plan suspends is to be run again.
    pub(super) fn has_ended_suspension(&self, plan: &Plan) -> bool {
        self.suspensions.has_ended(plan, Instant::now())
    }
}
