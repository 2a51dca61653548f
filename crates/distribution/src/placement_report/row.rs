//! What a cluster shall have of an object, and what it has.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_interpreter::value::{at, flag, integer, list, text};
use serde::Serialize;
use serde_json::Value;

use super::{
    messages::{self, BindingCondition, failures, is_cut},
    ready::ready_replicas,
};
use crate::template_name::TemplateName;

/// An object in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRow {
    /// The cluster.
    pub cluster: String,
    /// The replicas that it shall have; `None` for an object without replicas, and for a cluster
    /// that the object leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<i64>,
    /// The replicas that are ready there, if the cluster reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<i64>,
    /// Whether the cluster has the object as it shall be.
    pub applied: AppliedState,
    /// `Healthy`, `Unhealthy`, `Unknown`, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
    /// Why the cluster does not have it so, or why the object leaves it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Whether a cluster has an object as it shall be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AppliedState {
    /// It has.
    Yes,
    /// It has not; the message says why.
    No,
    /// The cluster is not chosen any more, and may still have a copy.
    Leaving,
    /// The binding does not say it.
    #[default]
    Unknown,
}

impl AppliedState {
    /// As one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Leaving => "leaving",
            Self::Unknown => "unknown",
        }
    }
}

impl PlacementRow {
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.cluster.len() + self.health.len() + self.message.len()
    }
}

/// Reads the rows of a binding.
pub(super) struct RowReader<'b> {
    binding: &'b Value,
    object: &'b TemplateName,
    /// The replicas of the object, if it has some.
    pub(super) replicas: Option<i64>,
    /// The replicas of the clusters that are chosen.
    chosen: BTreeMap<&'b str, i64>,
    /// What the clusters report.
    items: BTreeMap<&'b str, &'b Value>,
    fully_applied: BindingCondition<'b>,
    /// What `FullyApplied` says of clusters.
    failures: BTreeMap<&'b str, String>,
    /// Whether clusters that are well may be missing among the items, so that the status stays
    /// small.
    leaves_out: bool,
}

impl<'b> RowReader<'b> {
    pub(super) fn new(binding: &'b Value, object: &'b TemplateName) -> Self {
        let chosen = list(binding, &["spec", "clusters"]).iter();
        let chosen = chosen.map(|one| (text(one, &["name"]), integer(one, &["replicas"])));
        let chosen: BTreeMap<&str, i64> = chosen
            .map(|(name, replicas)| (name, replicas.unwrap_or(0)))
            .collect();
        let items = list(binding, &["status", "aggregatedStatus"]).iter();
        let items: BTreeMap<&str, &Value> = items
            .map(|item| (text(item, &["clusterName"]), item))
            .collect();
        let fully_applied = BindingCondition::of(binding, "FullyApplied");
        let names: BTreeSet<&str> = chosen.keys().copied().collect();
        let is_well =
            |item: &Value| flag(item, &["applied"]) && text(item, &["health"]) != "Unhealthy";
        Self {
            binding,
            object,
            replicas: integer(binding, &["spec", "replicas"]),
            failures: failures(fully_applied.message, &names),
            leaves_out: items
                .values()
                .all(|item| !is_well(item) && at(*item, &["status"]).is_null()),
            chosen,
            items,
            fully_applied,
        }
    }

    pub(super) fn rows(&self) -> Vec<PlacementRow> {
        let suspended = self.suspended();
        let chosen = self.chosen.iter().map(|(&cluster, &replicas)| {
            let (applied, message) = match &suspended {
                Suspended::Everywhere => suspended_here(),
                Suspended::In(clusters) if clusters.contains(cluster) => suspended_here(),
                Suspended::In(_) => self.applied(cluster),
            };
            PlacementRow {
                desired: self.replicas.map(|_| replicas),
                applied,
                message,
                ..self.observed(cluster)
            }
        });
        let mut rows: Vec<PlacementRow> = chosen.collect();
        let is_held = BindingCondition::of(self.binding, "DeletionHeld").status == "True";
        let tasks = list(self.binding, &["spec", "gracefulEvictionTasks"]).iter();
        let tasks: BTreeMap<&str, &Value> = tasks
            .map(|task| (text(task, &["fromCluster"]), task))
            .filter(|(cluster, _)| !self.chosen.contains_key(cluster))
            .collect();
        rows.extend(tasks.into_iter().map(|(cluster, task)| PlacementRow {
            applied: AppliedState::Leaving,
            message: messages::of_leaving(task, is_held),
            ..self.observed(cluster)
        }));
        rows
    }

    /// What a cluster reports, whatever it shall have.
    fn observed(&self, cluster: &str) -> PlacementRow {
        let item = self.items.get(cluster).copied().unwrap_or(&Value::Null);
        PlacementRow {
            cluster: cluster.to_owned(),
            actual: ready_replicas(self.object, at(item, &["status"]), self.replicas.is_some()),
            health: text(item, &["health"]).to_owned(),
            ..PlacementRow::default()
        }
    }

    /// Whether a chosen cluster has the object as it shall be, and why not.
    fn applied(&self, cluster: &str) -> (AppliedState, String) {
        if let Some(item) = self.items.get(cluster) {
            let message = text(*item, &["appliedMessage"]).to_owned();
            let is_applied = flag(*item, &["applied"]);
            let state = if is_applied {
                AppliedState::Yes
            } else {
                AppliedState::No
            };
            return (state, message);
        }
        if let Some(why) = self.failures.get(cluster) {
            return (AppliedState::No, why.clone());
        }
        let names_all_failures = match self.fully_applied.status {
            "True" => true,
            "False" => !is_cut(self.fully_applied.message),
            _ => false,
        };
        if self.leaves_out && names_all_failures {
            return (AppliedState::Yes, String::new());
        }
        (AppliedState::Unknown, "not reported yet".to_owned())
    }

    fn suspended(&self) -> Suspended<'b> {
        let suspension = at(self.binding, &["spec", "suspension"]);
        if flag(suspension, &["dispatching"]) {
            return Suspended::Everywhere;
        }
        let names = list(suspension, &["dispatchingOnClusters", "clusterNames"]);
        Suspended::In(names.iter().filter_map(Value::as_str).collect())
    }
}

/// Where nothing is written.
enum Suspended<'b> {
    Everywhere,
    In(BTreeSet<&'b str>),
}

fn suspended_here() -> (AppliedState, String) {
    (AppliedState::No, "suspended by the policy".to_owned())
}
