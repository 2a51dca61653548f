//! When an object leaves a cluster that its policy selects: it is not healthy there, or a taint
//! `NoExecute` drives it out. Only where the policy asks for it (`failover`), and only where the
//! object can go elsewhere.
//!
//! The cluster gets a task on the binding (`gracefulEvictionTasks`) and is not chosen while that is
//! there. What is in the cluster stays until the object is healthy in its other clusters or the
//! task's time is over; the task ends when the copy is gone. Tasks of others count as much.
//! Other than in Karmada an object that is not healthy stays where no other cluster takes over:
//! one that is nowhere is no better.

use std::{borrow::Cow, collections::BTreeMap};

use fleetdex_core::{
    planted::{Bug, planted},
    selector::{LabelRequirement, LabelTest},
};
use fleetdex_crds::{
    binding::GracefulEvictionTask,
    policy::{
        PropagationSpec, StatePreservation,
        state_path::{StateStep, state_steps},
    },
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Taint, Toleration},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    candidates::AvoidedClusters,
    cluster::{TargetCluster, taint_text, tolerates},
    placing::{Placed, PlacedReplicas, PreviousPlacement},
};

/// Who makes the eviction tasks of moves and of failovers.
pub const PRODUCER: &str = "fleetdex";
/// How long an object has to be unhealthy where the policy does not say it, in seconds; Karmada's.
const DEFAULT_TOLERATION: i32 = 300;
/// After how long a graceful eviction ends in any case, in seconds; Karmada's.
const DEFAULT_GRACE: i32 = 600;
/// Why an object leaves a cluster where it is not healthy, as Karmada names it.
const UNHEALTHY: &str = "ApplicationFailure";
/// Why an object leaves a cluster that has a taint, as Karmada names it.
const TAINTED: &str = "TaintUntolerated";

/// How an object is in a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyHealth {
    /// Whether the cluster has the object as it shall be, and reports that it is healthy.
    pub is_healthy: bool,
    /// Since when the cluster reports that it is not; `None`: it does not report that.
    pub unhealthy_since: Option<Timestamp>,
    /// What its status says, as `InterpretStatus` has it, where the policy keeps parts of it.
    pub status: Option<Value>,
}

/// How an object is in its clusters, as far as it is known.
pub type HealthInClusters = BTreeMap<String, CopyHealth>;

/// What decides about the evictions of an object.
#[derive(Clone, Copy, Debug)]
pub struct FailoverDecision<'a> {
    /// What its policy says.
    pub spec: &'a PropagationSpec,
    /// All clusters.
    pub clusters: &'a [TargetCluster],
    /// How it is in them.
    pub health: &'a HealthInClusters,
    /// The present; `None`: nothing begins or ends because of time.
    pub now: Option<Timestamp>,
}

/// Where an object goes, and which clusters it leaves.
#[derive(Debug)]
pub struct PlacedWithEvictions {
    /// Where it goes.
    pub placed: Placed,
    /// The clusters that it leaves, by name.
    pub evictions: Vec<GracefulEvictionTask>,
    /// The clusters that it would leave if others took over.
    pub blocked: Vec<BlockedEviction>,
}

/// A cluster that an object would leave if others took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedEviction {
    /// The cluster.
    pub cluster: String,
    /// Why it would leave.
    pub reason: String,
}

impl FailoverDecision<'_> {
    /// Places an object without the clusters that it leaves. `place` places it by what was before
    /// and without the clusters to be avoided.
    pub fn place(
        &self,
        previous: &PreviousPlacement,
        place: impl Fn(&PreviousPlacement, &AvoidedClusters) -> Placed,
    ) -> PlacedWithEvictions {
        let mut evictions = previous.evictions.clone();
        if planted(Bug::DistributionForgetsEvictions) {
            evictions.clear();
        }
        let mut avoided: AvoidedClusters = evictions
            .iter()
            .map(|task| (task.from_cluster.clone(), reason(task)))
            .collect();
        avoided.extend(self.tainted(previous));
        let mut placed = place(&remaining(previous, &evictions), &avoided);
        let mut blocked = Vec::new();
        let mut due = self.due(previous).into_iter();
        for task in due.by_ref() {
            let is_taint = task.reason == TAINTED;
            avoided.insert(task.from_cluster.clone(), reason(&task));
            evictions.push(task);
            let tried = place(&remaining(previous, &evictions), &avoided);
            if !is_possible(&tried) || !(is_taint || takes_over(&tried, &placed)) {
                blocked.extend(evictions.pop().map(blocked_by));
                break;
            }
            placed = tried;
        }
        // They would leave more behind than this one, and are not tried in vain with each plan.
        blocked.extend(due.map(blocked_by));
        evictions.sort_by(|one, other| one.from_cluster.cmp(&other.from_cluster));
        PlacedWithEvictions {
            placed,
            evictions,
            blocked,
        }
    }

    /// The other clusters whose taints would drive the object out at once.
    fn tainted(&self, previous: &PreviousPlacement) -> AvoidedClusters {
        if self.spec.failover.is_none() {
            return AvoidedClusters::new();
        }
        let others = self
            .clusters
            .iter()
            .filter(|cluster| !previous.clusters.contains_key(&cluster.name));
        others
            .filter_map(|cluster| Some((cluster.name.clone(), self.driven_out_by(cluster)?)))
            .collect()
    }

    /// The evictions that are due and have not begun: those of taints first, and those that leave
    /// the fewest replicas behind.
    fn due(&self, previous: &PreviousPlacement) -> Vec<GracefulEvictionTask> {
        let (Some(now), Some(_)) = (self.now, &self.spec.failover) else {
            return Vec::new();
        };
        let is_new = |cluster: &&TargetCluster| {
            let mut tasks = previous.evictions.iter();
            previous.clusters.contains_key(&cluster.name)
                && !tasks.any(|task| task.from_cluster == cluster.name)
        };
        let is_suspended = self.spec.suspension.as_ref().is_some_and(|suspension| {
            suspension.dispatching == Some(true) || suspension.dispatching_on_clusters.is_some()
        });
        let clusters = self.clusters.iter().filter(is_new);
        let due = clusters
            // Nothing would take over.
            .filter(|_| !is_suspended)
            .filter_map(|cluster| {
                let (mut task, preservation) = match self.driven_out_by(cluster) {
                    Some(message) => self.taint_task(message),
                    None => self.health_task(&cluster.name, now)?,
                };
                PRODUCER.clone_into(&mut task.producer);
                task.creation_timestamp = Some(Time(now));
                task.replicas = previous
                    .clusters
                    .get(&cluster.name)
                    .and_then(|replicas| i32::try_from(*replicas).ok())
                    .filter(|replicas| *replicas > 0);
                task.clusters_before_failover = previous.clusters.keys().cloned().collect();
                let status = self.health.get(&cluster.name);
                let status = status.and_then(|health| health.status.as_ref());
                task.preserved_label_state = preserved(preservation, status);
                task.from_cluster.clone_from(&cluster.name);
                Some(task)
            });
        let mut due: Vec<GracefulEvictionTask> = due.collect();
        due.sort_by_key(|task| (task.reason != TAINTED, task.replicas));
        due
    }

    fn taint_task(&self, message: String) -> (GracefulEvictionTask, Option<&StatePreservation>) {
        let failover = self.spec.failover.as_ref();
        let failover = failover.and_then(|failover| failover.cluster.as_ref());
        let mode = failover.and_then(|failover| failover.purge_mode.as_deref());
        let task = GracefulEvictionTask {
            reason: TAINTED.to_owned(),
            message,
            ..task_of(mode, None)
        };
        (
            task,
            failover.and_then(|failover| failover.state_preservation.as_ref()),
        )
    }

    /// The task of an object that has not been healthy for too long.
    fn health_task(
        &self,
        cluster: &str,
        now: Timestamp,
    ) -> Option<(GracefulEvictionTask, Option<&StatePreservation>)> {
        let failover = self.spec.failover.as_ref()?.application.as_ref()?;
        let since = self.health.get(cluster)?.unhealthy_since?;
        let tolerated = failover.decision_conditions.toleration_seconds;
        let tolerated = tolerated.unwrap_or(DEFAULT_TOLERATION);
        if now.duration_since(since) < SignedDuration::from_secs(tolerated.into()) {
            return None;
        }
        let mode = failover.purge_mode.as_deref();
        let task = GracefulEvictionTask {
            reason: UNHEALTHY.to_owned(),
            message: format!("it was not healthy there for {tolerated} s"),
            ..task_of(mode, failover.grace_period_seconds)
        };
        Some((task, failover.state_preservation.as_ref()))
    }

    /// The taint that drives the object out of a cluster now, if the policy asks for that.
    fn driven_out_by(&self, cluster: &TargetCluster) -> Option<String> {
        self.spec.failover.as_ref()?.cluster.as_ref()?;
        let tolerations = &self.spec.placement.cluster_tolerations;
        let now = self.now?;
        let mut taints = cluster
            .taints
            .iter()
            .filter(|taint| taint.effect == "NoExecute");
        let taint = taints.find(|taint| is_over_for(taint, tolerations, now))?;
        Some(format!("its taint {} is not tolerated", taint_text(taint)))
    }

    /// Whether what is in the cluster of a task may go: it is healthy elsewhere, or the time is
    /// over.
    pub fn is_over(&self, task: &GracefulEvictionTask, targets: &[PlacedReplicas]) -> bool {
        if planted(Bug::DistributionEvictsNever) {
            return false;
        }
        match (task.suppress_deletion, task.purge_mode.as_deref()) {
            (Some(true), _) | (None, Some("Never")) => return false,
            (Some(false), _) | (None, Some("Directly")) => return true,
            _ => {}
        }
        let is_healthy = |target: &PlacedReplicas| {
            let health = self.health.get(&target.name);
            health.is_some_and(|health| health.is_healthy)
        };
        let is_healthy_elsewhere = !targets.is_empty() && targets.iter().all(is_healthy);
        if is_healthy_elsewhere || planted(Bug::DistributionEvictsAtOnce) {
            return true;
        }
        let grace = task.grace_period_seconds.unwrap_or(DEFAULT_GRACE);
        let (Some(now), Some(Time(begun))) = (self.now, &task.creation_timestamp) else {
            return false;
        };
        now.duration_since(*begun) >= SignedDuration::from_secs(grace.into())
    }
}

/// A task of a purge mode.
fn task_of(mode: Option<&str>, grace: Option<i32>) -> GracefulEvictionTask {
    let mode = mode.unwrap_or("Gracefully");
    GracefulEvictionTask {
        purge_mode: Some(mode.to_owned()),
        grace_period_seconds: (mode == "Gracefully").then_some(grace.unwrap_or(DEFAULT_GRACE)),
        suppress_deletion: (mode == "Never").then_some(true),
        ..GracefulEvictionTask::default()
    }
}

fn blocked_by(task: GracefulEvictionTask) -> BlockedEviction {
    BlockedEviction {
        cluster: task.from_cluster,
        reason: task.message,
    }
}

/// Why a cluster is not chosen.
fn reason(task: &GracefulEvictionTask) -> String {
    let why = match task.message.as_str() {
        "" => &task.reason,
        message => message,
    };
    format!("the object is being evicted from it: {why}")
}

/// Where an object was without the clusters that it leaves.
fn remaining<'p>(
    previous: &'p PreviousPlacement,
    evictions: &[GracefulEvictionTask],
) -> Cow<'p, PreviousPlacement> {
    let is_left = |name: &String| evictions.iter().any(|task| task.from_cluster == *name);
    if !previous.clusters.keys().any(is_left) {
        return Cow::Borrowed(previous);
    }
    let mut remaining = previous.clone();
    remaining.clusters.retain(|name, _| !is_left(name));
    Cow::Owned(remaining)
}

fn is_possible(tried: &Placed) -> bool {
    tried.unschedulable.is_none() && !tried.clusters.is_empty()
}

/// Whether a cluster gets what another one loses.
fn takes_over(tried: &Placed, placed: &Placed) -> bool {
    let before = placed.clusters.iter();
    let before: BTreeMap<&str, i64> = before
        .map(|one| (one.name.as_str(), one.replicas))
        .collect();
    tried.clusters.iter().any(|one| {
        let before = before.get(one.name.as_str());
        before.is_none_or(|before| one.replicas > *before)
    })
}

/// Whether a taint drives out what has these tolerations: as in Kubernetes the shortest
/// `tolerationSeconds` of those that match counts, from `timeAdded` on.
fn is_over_for(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> bool {
    let matching: Vec<&Toleration> = tolerations
        .iter()
        .filter(|toleration| tolerates(toleration, taint))
        .collect();
    if matching.is_empty() {
        return true;
    }
    let seconds = matching.iter().filter_map(|one| one.toleration_seconds);
    let (Some(seconds), Some(Time(added))) = (seconds.min(), &taint.time_added) else {
        return false;
    };
    now.duration_since(*added) >= SignedDuration::from_secs(seconds)
}

/// The labels that the object has in its new clusters. What is absent, and what is no label, is
/// left out.
fn preserved(
    preservation: Option<&StatePreservation>,
    status: Option<&Value>,
) -> BTreeMap<String, String> {
    let rules = preservation.map_or(&[][..], |one| &one.rules);
    let found = rules.iter().filter_map(|rule| {
        let value = match value_at(status?, &rule.json_path)? {
            Value::String(text) => text.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            other => other.to_string(),
        };
        let key = &rule.alias_label_name;
        is_label(key, &value).then(|| (key.clone(), value))
    });
    found.collect()
}

/// The value at a path such as `{.jobStatus.checkpoints[0].id}`.
fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut steps = state_steps(path)?.into_iter();
    steps.try_fold(value, |value, step| match step {
        StateStep::Member(name) => value.get(name),
        StateStep::Item(number) => value.get(number.parse::<usize>().ok()?),
    })
}

/// Whether API servers accept it.
fn is_label(key: &str, value: &str) -> bool {
    let test = LabelTest::In([value.to_owned()].into());
    LabelRequirement::new(key, test).is_ok()
}
