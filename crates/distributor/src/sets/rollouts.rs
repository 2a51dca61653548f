//! The steps of rollouts: how the clusters of a set are, what follows from it, and writing it down.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::{
    model::causes,
    planted::{Bug, planted},
};
use fleetdex_crds::distribution::RolloutStatus;
use fleetdex_distribution::{
    cluster::TargetCluster,
    plan::{DistributionInputs, selected_clusters},
    rollout::{RolloutInputs, RolloutPhase, RolloutState, SetHealth, short},
    sets::{SET_API_VERSION, SET_KIND, SetName},
};
use fleetdex_telemetry::metrics::DistributionMetrics;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use serde_json::{Value, json};

use super::{finalizer::object_name, set_spec::waves, set_state::SetState};
use crate::{
    object_client::{ObjectClient, ObjectPart},
    published::PublishedPlan,
    status_board::{ClusterCount, StatusBoard},
};

/// The members of a status that are absent where they are empty: a merge has to name them.
const OPTIONAL: [&str; 7] = [
    "stable",
    "previous",
    "reached",
    "waveBeganAt",
    "healthySince",
    "message",
    "revisions",
];

/// The reason of the Event that says that a wave has failed.
const FAILED: &str = "RolloutFailed";
/// So long clusters may take to say how objects are: to connect, and to list what they have.
const PATIENCE: Duration = Duration::from_mins(1);

/// A step of a rollout that is not written yet.
pub struct RolloutStep {
    set: Arc<SetName>,
    has_waves: bool,
    before: Option<RolloutState>,
    /// The state.
    pub state: RolloutState,
    /// The same as it is written.
    pub status: RolloutStatus,
}

/// The clusters that have objects of sets by bindings, by the UID of the set.
pub fn placed_clusters(plan: &DistributionInputs) -> BTreeMap<String, BTreeSet<String>> {
    let mut placed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for previous in plan.previous.values() {
        if let Some(set) = &previous.set {
            let clusters = previous.clusters.keys().cloned();
            placed.entry(set.uid.clone()).or_default().extend(clusters);
        }
    }
    placed
}

/// The next step of a set's rollout; `None`: it stays as it is. `placed`: where the set is.
pub fn next(
    set: &SetState,
    plan: &DistributionInputs,
    placed: Option<&BTreeSet<String>>,
    board: &StatusBoard,
    published: &PublishedPlan,
    now: Timestamp,
) -> Option<RolloutStep> {
    let (rendering, spec) = (
        &set.rendering.as_ref()?.rendering,
        set.spec.spec.as_ref().ok()?,
    );
    let (revision, undone) = (rendering.digest.as_str(), set.spec.undone.as_deref());
    let before = set.rollout.state();
    if !set.is_writable() || before.is_some_and(|before| rests(before, revision, undone)) {
        return None;
    }
    let object_set = set.placement();
    let selected: BTreeSet<&str> = selected_clusters(plan, &object_set)
        .map(|cluster| cluster.name.as_str())
        .collect();
    let is_of_set = |cluster: &&TargetCluster| {
        let is_placed = placed.is_some_and(|placed| placed.contains(&cluster.name));
        selected.contains(cluster.name.as_str()) || (is_placed && !cluster.is_terminating)
    };
    let clusters: Vec<&TargetCluster> = plan.clusters.iter().filter(is_of_set).collect();
    let counts = board.count(&set.members, published);
    let health = clusters.iter().map(|cluster| {
        let health = health(set, cluster, counts.get(&cluster.name));
        (cluster.name.clone(), health)
    });
    let state = RolloutState::next(
        before,
        &RolloutInputs {
            revision,
            kept: &set.rollout.kept(),
            rules: &waves(spec).ok()?,
            clusters: &clusters,
            health: &health.collect(),
            is_paused: spec.rollout.as_ref().is_some_and(|rollout| rollout.paused),
            resumed: set.spec.resumed.as_ref(),
            undone,
            now,
        },
    );
    (before != Some(&state)).then(|| RolloutStep {
        set: Arc::clone(&set.spec.name),
        has_waves: set.has_waves(),
        before: before.cloned(),
        status: set.rollout.status(&state),
        state,
    })
}

/// Whether nothing but another revision or an annotation changes a rollout.
fn rests(state: &RolloutState, revision: &str, undone: Option<&str>) -> bool {
    let is_undone = undone == Some(revision);
    state.revision == revision
        && match state.phase {
            RolloutPhase::Complete => !is_undone && state.message.is_empty(),
            RolloutPhase::Undone => is_undone,
            _ => false,
        }
}

/// How the objects of a set are in a cluster. Before a plan was made by the state, reports are of
/// what the cluster was to have before.
fn health(set: &SetState, cluster: &TargetCluster, count: Option<&ClusterCount>) -> SetHealth {
    let Some(planned_for) = set.rollout.planned_for() else {
        return SetHealth::Unknown;
    };
    // Nothing is placed in a cluster that was never connected.
    let is_connected = cluster.served.is_some();
    let unknown = (!is_connected && !set.members.is_empty()).then_some(SetHealth::Unknown);
    match (&set.obstacle, count.map(ClusterCount::health).or(unknown)) {
        (Some(obstacle), _) => SetHealth::Unhealthy(obstacle.clone()),
        (None, Some(SetHealth::Unknown)) if planned_for > PATIENCE => {
            let reason = "the cluster does not say how the objects are";
            SetHealth::Unhealthy(reason.to_owned())
        }
        (None, Some(health)) => health,
        (None, None) => SetHealth::Healthy,
    }
}

/// Writes the steps of rollouts.
pub struct RolloutWriter {
    /// Writes `Distribution`s.
    pub client: ObjectClient,
    /// Writes Events.
    pub recorder: Arc<Recorder>,
    /// Counts waves that fail.
    pub metrics: DistributionMetrics,
}

impl RolloutWriter {
    /// Writes a step of the set with a UID; `None`: it is not written, and not to be acted on.
    pub async fn write(&self, uid: &str, step: RolloutStep) -> Option<(String, RolloutStep)> {
        let mut rollout: Value = OPTIONAL.iter().map(|name| (*name, Value::Null)).collect();
        if let (Some(members), Ok(Value::Object(status))) =
            (rollout.as_object_mut(), serde_json::to_value(&step.status))
        {
            members.extend(status);
        }
        // With the UID another object of this name is refused.
        let patch = json!({"metadata": {"uid": uid}, "status": {"rollout": rollout}});
        let name = object_name(&step.set);
        match self.client.merge(&name, &patch, ObjectPart::Status).await {
            Ok(_) => {
                self.announce(&step);
                Some((uid.to_owned(), step))
            }
            Err(error) => {
                tracing::warn!(set = %step.set.shown(), error = %causes(&error), "cannot write a step of a rollout, which waits for that");
                planted(Bug::SetActsBeforeWriting).then(|| (uid.to_owned(), step))
            }
        }
    }

    /// Says what has changed, in the log and by an Event.
    fn announce(&self, step: &RolloutStep) {
        let Some((type_, reason, message)) = event(step) else {
            return;
        };
        if reason == FAILED {
            self.metrics.wave_failed();
        }
        tracing::info!(set = %step.set.shown(), reason, "{message}");
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(message),
            action: "RollOut".to_owned(),
            secondary: None,
        };
        let reference = ObjectReference {
            api_version: Some(SET_API_VERSION.to_owned()),
            kind: Some(SET_KIND.to_owned()),
            namespace: Some(step.set.namespace.clone()),
            name: Some(step.set.name.clone()),
            uid: Some(step.set.uid.clone()),
            ..ObjectReference::default()
        };
        let recorder = Arc::clone(&self.recorder);
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &reference).await {
                tracing::debug!(error = %causes(&error), "cannot write an Event");
            }
        });
    }
}

/// The Event of a step, if it has one.
fn event(step: &RolloutStep) -> Option<(EventType, &'static str, String)> {
    let (before, now) = (step.before.as_ref(), &step.state);
    let revision = short(&now.revision);
    let has_entered = |phase: RolloutPhase| {
        let was = before.filter(|before| before.revision == now.revision);
        now.phase == phase && was.is_none_or(|was| was.phase != phase)
    };
    if has_entered(RolloutPhase::Undone) {
        return Some((EventType::Normal, "RolloutUndone", now.message.clone()));
    }
    if !step.has_waves {
        return None;
    }
    if has_entered(RolloutPhase::Failed) {
        return Some((EventType::Warning, FAILED, now.message.clone()));
    }
    if has_entered(RolloutPhase::Complete) {
        let message = format!("all clusters have revision {revision}, and were healthy");
        return Some((EventType::Normal, "RolloutFinished", message));
    }
    let began = |before: &RolloutState| {
        before.revision == now.revision
            && before.phase != RolloutPhase::Undone
            && before.wave >= now.wave
    };
    if now.wave == 0 || before.is_some_and(began) {
        return None;
    }
    let (wave, waves) = (now.wave, now.waves);
    let message = format!("wave {wave} of {waves} of revision {revision} begins");
    Some((EventType::Normal, "WaveBegan", message))
}
