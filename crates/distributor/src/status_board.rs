//! What is known of distributed objects in their clusters, between those that find it out and
//! those that report it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_distribution::{
    failover::{CopyHealth, HealthInClusters},
    object_text::ObjectText,
    plan::{DistributionPlan, PlannedBinding},
    template_name::TemplateName,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    inputs::{Problems, ReadInputs},
    wall_clock::WallClock,
};

mod counting;

pub use counting::ClusterCount;

/// What a cluster has of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyReport {
    /// Whether the cluster has the object as it shall be.
    pub is_applied: bool,
    /// Why not, or what waits.
    pub message: String,
    /// What its status says, as `InterpretStatus` has it.
    pub status: Option<Value>,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    pub health: &'static str,
    /// Why it is not healthy.
    pub cause: String,
    /// What the cluster was to have when this was reported; `None`: it has not got it.
    pub of: Option<ObjectText>,
}

impl CopyReport {
    /// The cluster does not have the object as it shall be.
    pub fn not_applied(message: String) -> Self {
        Self {
            message,
            health: "Unknown",
            ..Self::default()
        }
    }
}

/// A binding with what its clusters report.
#[derive(Clone, Debug)]
pub struct BindingReport {
    /// The planned binding.
    pub planned: PlannedBinding,
    /// When its clusters were chosen.
    pub placed_at: Timestamp,
    /// What the clusters report.
    pub clusters: BTreeMap<String, CopyReport>,
}

impl BindingReport {
    /// Whether a cluster has not reported yet.
    pub fn is_incomplete(&self) -> bool {
        let mut targets = self.planned.clusters.iter();
        targets.any(|target| {
            !self.clusters.contains_key(&target.name)
                && !self.planned.suspended.contains(&target.name)
                && !self.planned.awaiting.contains(&target.name)
        })
    }
}

/// A report, and since when the cluster reports that the object is not healthy.
struct ReportedCopy {
    report: CopyReport,
    unhealthy_since: Option<Timestamp>,
}

#[derive(Default)]
struct BoardState {
    bindings: BTreeMap<TemplateName, (PlannedBinding, Timestamp)>,
    reports: BTreeMap<TemplateName, BTreeMap<String, ReportedCopy>>,
    /// Clusters that were seen to have no copy.
    absent: BTreeMap<TemplateName, BTreeSet<String>>,
    /// What clusters may have had and do not get any more.
    awaited: BTreeMap<String, BTreeSet<TemplateName>>,
    changed: BTreeSet<TemplateName>,
    faults: Vec<String>,
    problems: Problems,
    /// The deletions that are held, by cluster.
    held: BTreeMap<String, BTreeSet<TemplateName>>,
}

/// What is known of distributed objects in their clusters.
pub struct StatusBoard {
    clock: WallClock,
    state: Mutex<BoardState>,
    has_reports: Notify,
    /// A copy is gone: bindings may go, too.
    pub is_gone: Arc<Notify>,
}

impl StatusBoard {
    /// A board that notifies `is_gone` when a copy is gone.
    pub fn new(is_gone: Arc<Notify>, clock: WallClock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            has_reports: Notify::new(),
            is_gone,
        }
    }

    /// What a cluster has of an object.
    pub fn report(&self, name: &TemplateName, cluster: &str, report: CopyReport) {
        let mut state = self.state.lock();
        if let Some(absent) = state.absent.get_mut(name) {
            absent.remove(cluster);
        }
        let reports = state.reports.entry(name.clone()).or_default();
        let before = reports.get(cluster);
        if before.is_some_and(|before| before.report == report) {
            return;
        }
        let since = before.and_then(|before| before.unhealthy_since);
        let is_unhealthy = report.health == "Unhealthy";
        let unhealthy_since = is_unhealthy.then(|| since.unwrap_or_else(self.clock));
        let reported = ReportedCopy {
            report,
            unhealthy_since,
        };
        reports.insert(cluster.to_owned(), reported);
        state.changed.insert(name.clone());
        drop(state);
        self.has_reports.notify_one();
    }

    /// A cluster has no copy of an object that it shall not have.
    pub fn report_absent(&self, name: &TemplateName, cluster: &str) {
        let mut state = self.state.lock();
        let is_new = state
            .absent
            .entry(name.clone())
            .or_default()
            .insert(cluster.to_owned());
        let had_report = state
            .reports
            .get_mut(name)
            .is_some_and(|reports| reports.remove(cluster).is_some());
        if had_report {
            state.changed.insert(name.clone());
        }
        drop(state);
        if had_report {
            self.has_reports.notify_one();
        }
        if is_new {
            self.is_gone.notify_one();
        }
    }

    /// It is not known any more what a cluster has.
    pub fn forget_cluster(&self, cluster: &str) {
        let mut state = self.state.lock();
        for absent in state.absent.values_mut() {
            absent.remove(cluster);
        }
        state.held.remove(cluster);
    }

    /// Whether a cluster was seen to have no copy.
    pub fn is_absent(&self, name: &TemplateName, cluster: &str) -> bool {
        let state = self.state.lock();
        let absent = state.absent.get(name);
        absent.is_some_and(|absent| absent.contains(cluster))
    }

    /// What a cluster may have had and does not get any more.
    pub fn awaited(&self, cluster: &str) -> BTreeSet<TemplateName> {
        let state = self.state.lock();
        state.awaited.get(cluster).cloned().unwrap_or_default()
    }

    /// A new plan.
    pub fn set_plan(&self, plan: &DistributionPlan, read: &ReadInputs, now: Timestamp) {
        let awaited = awaited(plan, read);
        let mut state = self.state.lock();
        state.awaited = awaited;
        for binding in &plan.bindings {
            if let Some(absent) = state.absent.get_mut(&binding.resource)
                && !absent.is_empty()
            {
                for target in &binding.clusters {
                    absent.remove(&target.name);
                }
            }
        }
        let mut bindings = BTreeMap::new();
        for planned in &plan.bindings {
            let name = &planned.resource;
            let before = state.bindings.remove(name);
            let previous = read.plan.previous.get(name);
            let is_rebalanced = previous.is_some_and(|previous| previous.is_rebalanced);
            let has_same_clusters = before
                .as_ref()
                .is_some_and(|(before, _)| before.clusters == planned.clusters && !is_rebalanced);
            let placed_at = match (&before, read.last_scheduled.get(name)) {
                (Some((_, placed_at)), _) if has_same_clusters => *placed_at,
                (None, Some(placed_at)) if is_where_it_was(planned, read) => *placed_at,
                _ => now,
            };
            let is_same = |(before, when): &(PlannedBinding, Timestamp)| {
                before == planned && *when == placed_at
            };
            let binding = before.filter(is_same).unwrap_or_else(|| {
                state.changed.insert(name.clone());
                (planned.clone(), placed_at)
            });
            bindings.insert(name.clone(), binding);
        }
        let gone = std::mem::replace(&mut state.bindings, bindings);
        let BoardState {
            bindings,
            reports,
            absent,
            ..
        } = &mut *state;
        let is_known =
            |name: &TemplateName| bindings.contains_key(name) || read.bindings.contains_key(name);
        reports.retain(|name, _| is_known(name));
        absent.retain(|name, _| is_known(name));
        state.changed.extend(gone.into_keys());
        drop(state);
        self.has_reports.notify_one();
    }

    /// What is not known of the control plane.
    pub fn set_faults(&self, faults: Vec<String>) {
        let mut state = self.state.lock();
        if state.faults != faults {
            for fault in &faults {
                tracing::warn!(%fault, "distribution does not know all of the control plane");
            }
            state.faults = faults;
        }
    }

    /// Policies that have no effect.
    pub fn set_problems(&self, problems: Problems) {
        let mut state = self.state.lock();
        for (name, problem) in &problems {
            if state.problems.get(name) != Some(problem) {
                tracing::warn!(policy = %name, %problem, "a policy has no effect");
            }
        }
        state.problems = problems;
    }

    /// The deletions that are held in a cluster. Returns whether these are others than before.
    pub fn set_held(&self, cluster: &str, held: BTreeSet<TemplateName>) -> bool {
        let mut state = self.state.lock();
        let before = state.held.get(cluster);
        if before.map_or(held.is_empty(), |before| *before == held) {
            return false;
        }
        let mut changed: BTreeSet<TemplateName> = before.cloned().unwrap_or_default();
        changed.extend(held.iter().cloned());
        if held.is_empty() {
            state.held.remove(cluster);
        } else {
            state.held.insert(cluster.to_owned(), held);
        }
        state.changed.append(&mut changed);
        drop(state);
        self.has_reports.notify_one();
        true
    }

    /// The clusters in which the deletion of an object is held.
    pub fn held_in(&self, name: &TemplateName) -> Vec<String> {
        let state = self.state.lock();
        let clusters = state.held.iter().filter(|(_, held)| held.contains(name));
        clusters.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// Waits until something is to be reported.
    pub async fn has_changed(&self) {
        while self.state.lock().changed.is_empty() {
            self.has_reports.notified().await;
        }
    }

    /// The objects about which something is to be reported.
    pub fn take_changed(&self) -> BTreeSet<TemplateName> {
        std::mem::take(&mut self.state.lock().changed)
    }

    /// Whether the last plan has this binding.
    pub fn is_planned(&self, binding: &PlannedBinding) -> bool {
        let state = self.state.lock();
        let planned = state.bindings.get(&binding.resource);
        planned.is_some_and(|(planned, _)| planned == binding)
    }

    /// What is known of an object; `None`: it is not distributed.
    pub fn of(&self, name: &TemplateName) -> Option<BindingReport> {
        let state = self.state.lock();
        let (planned, placed_at) = state.bindings.get(name)?.clone();
        let reports = state.reports.get(name).into_iter().flatten();
        Some(BindingReport {
            planned,
            placed_at,
            clusters: reports
                .map(|(cluster, copy)| (cluster.clone(), copy.report.clone()))
                .collect(),
        })
    }

    /// How an object is in its clusters; with what it reports, if that is needed.
    pub fn health_of(&self, name: &TemplateName, needs_status: bool) -> HealthInClusters {
        let state = self.state.lock();
        let reports = state.reports.get(name).into_iter().flatten();
        reports
            .map(|(cluster, copy)| {
                let report = &copy.report;
                let health = CopyHealth {
                    is_healthy: report.is_applied && report.health == "Healthy",
                    unhealthy_since: copy.unhealthy_since,
                    status: report.status.as_ref().filter(|_| needs_status).cloned(),
                };
                (cluster.clone(), health)
            })
            .collect()
    }
}

/// What clusters may have had by their bindings, and do not get by a plan.
fn awaited(plan: &DistributionPlan, read: &ReadInputs) -> BTreeMap<String, BTreeSet<TemplateName>> {
    let planned = plan.bindings.iter();
    let planned: BTreeMap<&TemplateName, &PlannedBinding> = planned
        .map(|binding| (&binding.resource, binding))
        .collect();
    let mut awaited: BTreeMap<String, BTreeSet<TemplateName>> = BTreeMap::new();
    for (name, previous) in &read.plan.previous {
        let planned = planned.get(name);
        let targets = planned.map_or(&[][..], |planned| &planned.clusters);
        for cluster in previous.left_by(targets) {
            let names = awaited.entry(cluster.to_owned()).or_default();
            names.insert(name.clone());
        }
    }
    awaited
}

/// Whether an object stays where its binding says.
fn is_where_it_was(planned: &PlannedBinding, read: &ReadInputs) -> bool {
    let Some(previous) = read.plan.previous.get(&planned.resource) else {
        return false;
    };
    let clusters = planned.clusters.iter();
    let now: BTreeMap<&String, i64> = clusters.map(|one| (&one.name, one.replicas)).collect();
    let before = previous.clusters.iter();
    let before: BTreeMap<&String, i64> = before.map(|(name, number)| (name, *number)).collect();
    !previous.is_rebalanced && now == before
}
