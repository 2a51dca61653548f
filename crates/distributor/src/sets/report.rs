//! The status of a `Distribution`.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_crds::{
    condition::{self, Finding, Truth},
    distribution::{DistributionClusterStatus, DistributionStatus},
};
use fleetdex_distribution::{
    rollout::{RolloutPhase, RolloutState},
    sets::{RefusedMember, SetName},
    template_name::TemplateName,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{failure::SetFailure, set_rendering::SetRendering};
use crate::status_board::ClusterCount;

/// Clusters in a status, at most.
const MOST_CLUSTERS: usize = 100;
/// Names in a message, at most.
const NAMED: usize = 5;

/// What is known of a set after a plan.
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct SetReport {
    /// Which set.
    pub name: Arc<SetName>,
    /// The generation that was rendered, or could not be.
    pub generation: Option<i64>,
    /// Whether it is that of the spec.
    pub is_current: bool,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// Whether it is suspended.
    pub is_suspended: bool,
    /// What it was rendered to last.
    pub rendering: Option<Arc<SetRendering>>,
    /// Why it is not what its source is.
    pub failure: Option<SetFailure>,
    /// The objects that something else has.
    pub refused: Vec<RefusedMember>,
    /// The objects that are placed.
    pub members: Vec<TemplateName>,
    /// Why an object could not be placed: the first one.
    pub not_placed: Option<String>,
    /// Why it is not known what clusters shall have.
    pub not_known: Option<String>,
    /// How far its rollout is.
    pub rollout: Option<RolloutState>,
    /// Whether its clusters get changes one after the other.
    pub has_waves: bool,
    /// What is to be said of its hooks, and whether one has failed.
    pub hooks: Option<(bool, String)>,
}

/// The reports of all sets, from the planner to the reporter.
#[derive(Default)]
pub struct SetReports(Mutex<Vec<SetReport>>);

impl SetReports {
    /// Replaces all of them.
    pub fn set(&self, reports: Vec<SetReport>) {
        *self.0.lock() = reports;
    }

    /// All of them.
    pub fn all(&self) -> Vec<SetReport> {
        self.0.lock().clone()
    }
}

impl SetReport {
    /// Whether its rollout depends on how its clusters are.
    pub fn is_rolled_out(&self) -> bool {
        let phase = self.rollout.as_ref().map(|rollout| rollout.phase);
        let rests = [RolloutPhase::Complete, RolloutPhase::Undone];
        phase.is_some_and(|phase| !rests.contains(&phase)) || self.hooks.is_some()
    }

    /// The status. `counts`: what clusters have of the objects that are placed.
    pub fn status(
        &self,
        counts: &BTreeMap<String, ClusterCount>,
        before: &DistributionStatus,
        now: Timestamp,
    ) -> DistributionStatus {
        let mut clusters: Vec<&String> = counts.keys().collect();
        clusters.sort_by_key(|name| counts.get(*name).is_some_and(ClusterCount::is_ready));
        let ready = counts.values().filter(|count| count.is_ready()).count();
        let clusters = clusters.into_iter().filter_map(|name| {
            let count = counts.get(name)?;
            Some(DistributionClusterStatus {
                name: name.clone(),
                objects: count.objects,
                applied: count.applied,
                healthy: count.healthy,
                message: count.message.clone(),
            })
        });
        let rendering = self.rendering.as_ref();
        let findings = vec![self.rendered(), self.ready(counts)];
        let conditions = condition::merge(&before.conditions, findings, self.generation, now);
        DistributionStatus {
            observed_generation: self.generation,
            conditions,
            digest: rendering
                .map(|one| one.digest.to_string())
                .unwrap_or_default(),
            version: rendering.map(|one| one.version.clone()).unwrap_or_default(),
            kubernetes_versions: rendering
                .map(|one| one.kubernetes_versions())
                .unwrap_or_default(),
            renderings: rendering.and_then(|one| i64::try_from(one.targets.len()).ok()),
            objects: rendering.and_then(|one| i64::try_from(one.number).ok()),
            ready_clusters: format!("{ready}/{}", counts.len()),
            clusters: clusters.take(MOST_CLUSTERS).collect(),
            notes: rendering.map(|one| one.notes.clone()).unwrap_or_default(),
            warnings: rendering
                .map(|one| one.warnings.clone())
                .unwrap_or_default(),
            // They are written before a plan acts on them, and apart.
            rollout: None,
            hooks: None,
        }
    }

    /// Whether the objects are those of the source.
    fn rendered(&self) -> Finding {
        const KIND: &str = "Rendered";
        match (&self.failure, &self.rendering) {
            (Some(failure), before) => {
                let rest = match before {
                    Some(_) if failure.stops_writing => {
                        ": what clusters have stays, and nothing is written"
                    }
                    Some(_) => ": what was rendered before stays in force",
                    None => ": nothing is written, and nothing is deleted",
                };
                Finding::fails(KIND, failure.reason, format!("{}{rest}", failure.message))
            }
            _ if self.is_suspended => Finding::unknown(KIND, "Suspended", "spec.suspend is true"),
            (None, Some(rendering)) if self.is_current => {
                let objects = rendering.number;
                if !rendering.is_kept {
                    let message = format!(
                        "{objects} objects, which are too large to be kept: an undo and waves are \
                         not possible"
                    );
                    return Finding::holds(KIND, "RenderingTooLarge", message);
                }
                Finding::holds(KIND, "Rendered", format!("{objects} objects"))
            }
            _ => Finding::unknown(KIND, "Rendering", "not rendered yet"),
        }
    }

    /// Whether all clusters have the objects, and they are healthy.
    fn ready(&self, counts: &BTreeMap<String, ClusterCount>) -> Finding {
        const KIND: &str = "Ready";
        if let (true, Some((_, message))) = (self.is_ending, &self.hooks) {
            return Finding::fails(KIND, "Deleting", format!("hooks come first: {message}"));
        }
        if self.is_ending {
            let message = "its objects are being deleted in clusters: deletions that are held are \
                           in the condition DeletionHeld of its ResourceBindings";
            return Finding::fails(KIND, "Deleting", message);
        }
        if self.is_suspended {
            let message = "spec.suspend is true: nothing is written, and nothing is deleted";
            return Finding::fails(KIND, "Suspended", message);
        }
        if let Some(failure) = &self.failure {
            return Finding::fails(KIND, failure.reason, failure.message.clone());
        }
        if let Some(first) = self.refused.first() {
            let shown: Vec<String> = self
                .refused
                .iter()
                .take(NAMED)
                .map(|one| format!("{}: {}", one.resource, one.reason))
                .collect();
            let number = self.refused.len();
            let reason = if first.is_never_distributed {
                "NeverDistributed"
            } else {
                "NameTaken"
            };
            let message = format!("{number} objects are not distributed: {}", shown.join("; "));
            return Finding::fails(KIND, reason, message);
        }
        if let Some(reason) = &self.not_placed {
            return Finding::fails(KIND, "NotPlaced", reason.clone());
        }
        if !self.is_current || self.rendering.is_none() {
            return Finding::unknown(KIND, "Rendering", "not rendered yet");
        }
        if let Some(reason) = &self.not_known {
            return Finding::unknown(KIND, "RevisionNotKnown", reason.clone());
        }
        self.rolled_out(in_clusters(counts))
    }

    /// What is to be said of hooks and the rollout, if that comes before how the clusters are.
    fn rolled_out(&self, in_clusters: Finding) -> Finding {
        let found = match &self.hooks {
            Some((true, message)) => Finding::fails("Ready", "HookFailed", message.clone()),
            _ => self.of_rollout(in_clusters),
        };
        match &self.hooks {
            Some((false, message))
                if found.truth == Truth::True || found.reason == "WaitingForWave" =>
            {
                Finding::fails("Ready", "HooksRunning", message.clone())
            }
            _ => found,
        }
    }

    fn of_rollout(&self, in_clusters: Finding) -> Finding {
        let Some(rollout) = &self.rollout else {
            return in_clusters;
        };
        let fails = |reason| Finding::fails("Ready", reason, rollout.message.clone());
        match rollout.phase {
            RolloutPhase::Undone => fails("Undone"),
            RolloutPhase::Failed if self.has_waves => fails("RolloutFailed"),
            RolloutPhase::Paused => fails("RolloutPaused"),
            _ if in_clusters.truth != Truth::True => in_clusters,
            RolloutPhase::Progressing if rollout.wave < rollout.waves => fails("WaitingForWave"),
            _ => in_clusters,
        }
    }
}

/// Whether all clusters have all objects, and they are healthy.
fn in_clusters(counts: &BTreeMap<String, ClusterCount>) -> Finding {
    const KIND: &str = "Ready";
    let message_of = |is_it: &dyn Fn(&ClusterCount) -> bool, what: &str| {
        let found = counts.iter().filter(|(_, count)| is_it(count));
        let shown: Vec<String> = found
            .take(NAMED)
            .map(|(name, count)| match count.message.as_str() {
                "" => name.clone(),
                message => format!("{name}: {message}"),
            })
            .collect();
        (!shown.is_empty()).then(|| format!("{what}: {}", shown.join("; ")))
    };
    let is_missing = |count: &ClusterCount| count.applied < count.objects;
    if let Some(message) = message_of(&is_missing, "not all objects are there") {
        return Finding::fails(KIND, "NotApplied", message);
    }
    let is_sick = |count: &ClusterCount| count.healthy < count.objects;
    if let Some(message) = message_of(&is_sick, "not all objects are healthy") {
        return Finding::fails(KIND, "NotHealthy", message);
    }
    let message = format!("in {} clusters", counts.len());
    Finding::holds(KIND, "Ready", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> SetReport {
        SetReport {
            name: Arc::default(),
            generation: Some(2),
            is_current: true,
            is_ending: false,
            is_suspended: false,
            rendering: None,
            failure: None,
            refused: Vec::new(),
            members: Vec::new(),
            not_placed: None,
            not_known: None,
            rollout: None,
            has_waves: true,
            hooks: None,
        }
    }

    fn count(applied: i64, healthy: i64, message: &str) -> ClusterCount {
        ClusterCount {
            objects: 2,
            applied,
            healthy,
            message: message.to_owned(),
            ..ClusterCount::default()
        }
    }

    #[test]
    fn the_reason_is_the_first_thing_that_is_in_the_way() {
        let refused = |is_never_distributed: bool| RefusedMember {
            set: Arc::default(),
            resource: TemplateName::default(),
            reason: String::new(),
            is_never_distributed,
        };
        let failure = SetFailure::new("FetchFailed", "no answer");
        for (report, expected) in [
            (report(), "Rendering"),
            (
                SetReport {
                    is_ending: true,
                    ..report()
                },
                "Deleting",
            ),
            (
                SetReport {
                    is_suspended: true,
                    ..report()
                },
                "Suspended",
            ),
            (
                SetReport {
                    failure: Some(failure),
                    ..report()
                },
                "FetchFailed",
            ),
            (
                SetReport {
                    refused: vec![refused(false)],
                    ..report()
                },
                "NameTaken",
            ),
            (
                SetReport {
                    refused: vec![refused(true)],
                    ..report()
                },
                "NeverDistributed",
            ),
            (
                SetReport {
                    not_placed: Some("no cluster".to_owned()),
                    ..report()
                },
                "NotPlaced",
            ),
        ] {
            assert_eq!(report.ready(&BTreeMap::new()).reason, expected);
        }
    }

    #[test]
    fn clusters_that_are_not_ready_come_first() {
        let counts = [
            ("a".to_owned(), count(2, 2, "")),
            ("b".to_owned(), count(1, 1, "no namespace")),
            ("c".to_owned(), count(2, 1, "")),
        ];
        let counts = BTreeMap::from(counts);
        let status = report().status(
            &counts,
            &DistributionStatus::default(),
            Timestamp::UNIX_EPOCH,
        );
        let names: Vec<&str> = status
            .clusters
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["b", "c", "a"]);
        assert_eq!(status.ready_clusters, "1/3");
        assert_eq!(status.observed_generation, Some(2));
        let finding = in_clusters(&counts);
        assert_eq!(finding.reason, "NotApplied");
        assert_eq!(
            finding.message,
            "not all objects are there: b: no namespace"
        );
    }

    #[test]
    fn the_rollout_comes_before_clusters_that_are_well() {
        let state = |phase: RolloutPhase, wave: usize| RolloutState {
            phase,
            wave,
            waves: 2,
            message: "wave 1 of 2: m1: sick".to_owned(),
            ..RolloutState::new("r", Timestamp::UNIX_EPOCH)
        };
        for (rollout, is_well, expected) in [
            (state(RolloutPhase::Progressing, 1), true, "WaitingForWave"),
            (state(RolloutPhase::Progressing, 1), false, "NotHealthy"),
            (state(RolloutPhase::Progressing, 2), true, "Ready"),
            (state(RolloutPhase::Paused, 1), true, "RolloutPaused"),
            (state(RolloutPhase::Failed, 1), false, "RolloutFailed"),
            (state(RolloutPhase::Undone, 0), true, "Undone"),
            (state(RolloutPhase::Complete, 2), true, "Ready"),
            (state(RolloutPhase::Complete, 2), false, "NotHealthy"),
        ] {
            let report = SetReport {
                rollout: Some(rollout.clone()),
                ..report()
            };
            let counts = count(2, if is_well { 2 } else { 1 }, "");
            let found = report.rolled_out(in_clusters(&[("m1".to_owned(), counts)].into()));
            assert_eq!(found.reason, expected, "{rollout:?}");
        }
    }

    #[test]
    fn hooks_that_run_or_have_failed_come_before_clusters_that_are_well() {
        let hooks = |has_failed: bool| Some((has_failed, "m1: Job migrate".to_owned()));
        for (hooks, is_well, expected) in [
            (hooks(true), true, "HookFailed"),
            (hooks(true), false, "HookFailed"),
            (hooks(false), true, "HooksRunning"),
            (hooks(false), false, "NotHealthy"),
            (None, true, "Ready"),
        ] {
            let report = SetReport { hooks, ..report() };
            let counts = count(2, if is_well { 2 } else { 1 }, "");
            let found = report.rolled_out(in_clusters(&[("m1".to_owned(), counts)].into()));
            assert_eq!(found.reason, expected);
        }
    }

    #[test]
    fn a_failure_says_what_stays() {
        let failed = |stops_writing: bool| SetReport {
            failure: Some(SetFailure {
                stops_writing,
                ..SetFailure::new("Forbidden", "no rights")
            }),
            ..report()
        };
        let finding = failed(true).rendered();
        assert_eq!(finding.reason, "Forbidden");
        assert!(
            finding.message.ends_with("nothing is deleted"),
            "{}",
            finding.message
        );
    }
}
