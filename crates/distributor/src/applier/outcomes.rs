//! What becomes of requests to a member.

use std::time::Duration;

use fleetdex_core::{
    model::causes,
    planted::{Bug, planted},
};
use fleetdex_distribution::{desired::write_order, template_name::TemplateName};
use fleetdex_telemetry::metrics::DistributionWrite;
use tokio::time::Instant;

use super::{AppliedObject, ConnectedMember, Done};
use crate::{
    applying::{ApplyOutcome, WrittenObject},
    published::DesiredObject,
    status_board::CopyReport,
};

/// So long a write that was not answered may still arrive.
const MAY_ARRIVE: Duration = Duration::from_mins(1);
/// After how long a conflict is looked at again.
const CONFLICT_AGAIN: Duration = Duration::from_mins(1);

impl ConnectedMember<'_> {
    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Applied(name, desired, outcome) => {
                let key = (write_order(&name), name.clone());
                self.busy.remove(&key);
                self.applied(&name, desired, outcome);
                if !self.desired.objects.contains_key(&name) {
                    self.applied.remove(&name);
                    self.queue.insert(key);
                }
            }
            Done::Removed(name, result) => {
                self.busy.remove(&(write_order(&name), name.clone()));
                self.count(match &result {
                    Ok(()) => DistributionWrite::Deleted,
                    Err(_) => DistributionWrite::Failed,
                });
                if let Err(error) = result {
                    tracing::warn!(cluster = %self.cluster, object = %name, error = %causes(&error), "cannot delete a copy");
                    self.retries.failed(&name);
                } else {
                    self.retries.forget(&name);
                }
            }
        }
    }

    fn applied(&mut self, name: &TemplateName, desired: DesiredObject, outcome: ApplyOutcome) {
        match outcome {
            ApplyOutcome::Applied {
                version,
                written,
                report,
            } => {
                self.retries.forget(name);
                if let Some(written) = written {
                    self.is_written(name, version, written);
                }
                if let Some(report) = report {
                    let cluster = self.cluster.as_str();
                    self.context.board.report(name, cluster, *report);
                    let applied = AppliedObject { version, desired };
                    self.applied.insert(name.clone(), applied);
                }
            }
            ApplyOutcome::Conflict(message) => {
                self.not_applied(name, message);
                self.retries.at(name, Instant::now() + CONFLICT_AGAIN);
            }
            ApplyOutcome::Failed {
                message,
                lacks_namespace,
                is_answered,
            } => {
                if !is_answered {
                    let until = Instant::now() + MAY_ARRIVE;
                    self.unanswered.insert(name.clone(), until);
                }
                tracing::debug!(cluster = %self.cluster, object = %name, %message, "not written");
                self.count(DistributionWrite::Failed);
                self.not_applied(name, message);
                let is_forgotten = planted(Bug::DistributionForgetsFailure)
                    || (lacks_namespace && planted(Bug::DistributionForgetsMissingNamespace));
                if !is_forgotten {
                    self.retries.failed(name);
                }
                if lacks_namespace && !is_forgotten {
                    let namespaces =
                        self.desired.objects.keys().filter(|other| {
                            other.kind == "Namespace" && other.name == name.namespace
                        });
                    let namespaces = namespaces.map(|name| (write_order(name), name.clone()));
                    self.queue.extend(namespaces);
                }
            }
        }
    }

    fn is_written(&mut self, name: &TemplateName, version: u64, written: WrittenObject) {
        tracing::debug!(cluster = %self.cluster, object = %name, "written");
        self.count(DistributionWrite::Written);
        self.repairs.written(name);
        self.written.insert(name.clone(), version);
        let until = Instant::now() + MAY_ARRIVE;
        self.written_until.insert(name.clone(), until);
        match written.accepted {
            Some(form) => self.accepted.insert(name.clone(), form),
            None => self.accepted.remove(name),
        };
        if name.kind == "CustomResourceDefinition" {
            self.context.clusters.refresh(self.cluster);
        }
    }

    fn count(&self, result: DistributionWrite) {
        self.context.metrics.wrote(self.cluster, result);
    }

    pub(super) fn count_objects(&self) {
        let missing = self.wanted.saturating_sub(self.applied.len());
        self.context
            .metrics
            .set_objects(self.cluster, self.wanted, missing);
    }

    pub(super) fn not_applied(&mut self, name: &TemplateName, message: String) {
        self.applied.remove(name);
        let report = CopyReport::not_applied(message);
        let board = &self.context.board;
        board.report(name, self.cluster.as_str(), report);
    }
}
