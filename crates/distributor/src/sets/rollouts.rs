//! The steps of rollouts: how the clusters of a set are, what follows from it, and writing it down.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::model::causes;
use fleetdex_crds::distribution::RolloutStatus;
use fleetdex_distribution::{
    cluster::TargetCluster,
    hooks::{HookRollout, HookState, named, reaches_all},
    plan::{DistributionInputs, selected_clusters},
    rollout::{RolloutInputs, RolloutPhase, RolloutState, SetHealth, short},
    sets::{SET_API_VERSION, SET_KIND, SetName},
};
use fleetdex_telemetry::metrics::DistributionMetrics;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use serde_json::{Value, json};

use super::{
    finalizer::object_name,
    hook_board::HookBoard,
    hook_steps::{self, HookView, next_ending, next_hooks},
    set_spec::waves,
    set_state::SetState,
};
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

/// What decides about the next steps of rollouts.
pub struct RolloutView<'a> {
    /// What the next plan is made from.
    pub plan: &'a DistributionInputs,
    /// What clusters report.
    pub board: &'a StatusBoard,
    /// What they say of hooks.
    pub hooks: &'a HookBoard,
    /// The plan that is applied.
    pub published: &'a PublishedPlan,
    /// The present.
    pub now: Timestamp,
}

/// A step of a rollout that is not written yet.
pub struct RolloutStep {
    set: Arc<SetName>,
    has_waves: bool,
    before: Option<RolloutState>,
    /// The state.
    pub state: RolloutState,
    /// The same as it is written.
    pub status: RolloutStatus,
    hooks_before: Option<HookState>,
    /// How far the hooks are; `None`: there are none.
    pub hooks: Option<HookState>,
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
    placed: Option<&BTreeSet<String>>,
    view: &RolloutView<'_>,
) -> Option<RolloutStep> {
    if set.spec.is_ending {
        return ending(set, placed.is_some(), view);
    }
    let (rendering, spec) = (
        &set.rendering.as_ref()?.rendering,
        set.spec.spec.as_ref().ok()?,
    );
    let (revision, undone) = (rendering.digest.as_str(), set.spec.undone.as_deref());
    let before = set.rollout.state();
    let has_hooks = set.rollout.hooks().is_some();
    let is_at_rest = before.is_some_and(|before| rests(before, revision, undone)) && !has_hooks;
    if !set.is_writable() || is_at_rest {
        return None;
    }
    let clusters = clusters_of(set, placed, view.plan);
    let rules = waves(spec).ok()?;
    let counts = view.board.count(&set.members, view.published);
    let placed_now = view.board.clusters_of(&set.members);
    let names: BTreeSet<String> = clusters.iter().map(|one| one.name.clone()).collect();
    let health = clusters.iter().map(|cluster| {
        let health = health(set, &placed_now, cluster, counts.get(&cluster.name));
        (cluster.name.clone(), health)
    });
    let state = RolloutState::next(
        before,
        &RolloutInputs {
            revision,
            kept: &set.rollout.kept(),
            rules: &rules,
            clusters: &clusters,
            health: &health.collect(),
            is_paused: spec.rollout.as_ref().is_some_and(|rollout| rollout.paused),
            resumed: set.spec.resumed.as_ref(),
            undone,
            now: view.now,
        },
    );
    let nowhere = BTreeSet::new();
    let change = HookRollout {
        before,
        now: &state,
        clusters: &names,
        placed: placed.unwrap_or(&nowhere),
    };
    let reports = view.hooks.of(&set.spec.name.uid);
    let known = HookView {
        counts: &counts,
        placed: &placed_now,
        reports: &reports,
        rules: &rules,
        now: view.now,
    };
    let hooks = next_hooks(set, &change, &known);
    let is_same = before == Some(&state) && set.rollout.hooks() == hooks.as_ref();
    (!is_same).then(|| RolloutStep::new(set, state, hooks))
}

/// The clusters of a set: those that its placement selects, and those where it is.
fn clusters_of<'p>(
    set: &SetState,
    placed: Option<&BTreeSet<String>>,
    plan: &'p DistributionInputs,
) -> Vec<&'p TargetCluster> {
    let object_set = set.placement();
    let selected: BTreeSet<&str> = selected_clusters(plan, &object_set)
        .map(|cluster| cluster.name.as_str())
        .collect();
    let is_of_set = |cluster: &&TargetCluster| {
        let is_placed = placed.is_some_and(|placed| placed.contains(&cluster.name));
        selected.contains(cluster.name.as_str()) || (is_placed && !cluster.is_terminating)
    };
    plan.clusters.iter().filter(is_of_set).collect()
}

/// The next step of the hooks of a set that is being deleted.
fn ending(set: &SetState, has_objects: bool, view: &RolloutView<'_>) -> Option<RolloutStep> {
    let state = set.rollout.state()?;
    let clusters = view.plan.clusters.iter();
    let clusters = clusters.filter(|cluster| !cluster.is_terminating);
    let clusters = clusters.map(|cluster| cluster.name.clone()).collect();
    let reports = view.hooks.of(&set.spec.name.uid);
    let hooks = next_ending(set, &clusters, has_objects, &reports, view.now)?;
    let is_same = set.rollout.hooks() == Some(&hooks);
    (!is_same).then(|| RolloutStep::new(set, state.clone(), Some(hooks)))
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

/// How a set is in a cluster. Before a plan was made by the state, reports are of what the cluster
/// was to have before.
fn health(
    set: &SetState,
    placed: &BTreeSet<String>,
    cluster: &TargetCluster,
    count: Option<&ClusterCount>,
) -> SetHealth {
    let Some(planned_for) = set.rollout.planned_for() else {
        return SetHealth::Unknown;
    };
    // Nothing is placed in a cluster that was never connected.
    let is_connected = cluster.served.is_some();
    let unknown = (!is_connected && !set.members.is_empty()).then_some(SetHealth::Unknown);
    let objects = match (&set.obstacle, count.map(ClusterCount::health).or(unknown)) {
        (Some(obstacle), _) => SetHealth::Unhealthy(obstacle.clone()),
        (None, Some(SetHealth::Unknown)) if planned_for > PATIENCE => {
            let reason = "the cluster does not say how the objects are";
            SetHealth::Unhealthy(reason.to_owned())
        }
        (None, Some(health)) => health,
        (None, None) => SetHealth::Healthy,
    };
    // Before hooks, others than those of the revision that is rolled out say nothing of it.
    let is_reached = set
        .rollout
        .state()
        .is_some_and(|state| reaches_all(state) || state.reaches(&cluster.name));
    if is_reached {
        hook_steps::health(set, placed, &cluster.name, objects)
    } else {
        objects
    }
}

impl RolloutStep {
    fn new(set: &SetState, state: RolloutState, hooks: Option<HookState>) -> Self {
        Self {
            set: Arc::clone(&set.spec.name),
            has_waves: set.has_waves(),
            before: set.rollout.state().cloned(),
            status: set.rollout.status(&state),
            state,
            hooks_before: set.rollout.hooks().cloned(),
            hooks,
        }
    }

    /// Whether hooks are further than before.
    pub fn has_other_hooks(&self) -> bool {
        self.hooks != self.hooks_before
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
        let hooks = step.hooks.as_ref().map(HookState::status);
        let patch = json!({
            "metadata": {"uid": uid}, "status": {"rollout": rollout, "hooks": hooks},
        });
        let name = object_name(&step.set);
        match self.client.merge(&name, &patch, ObjectPart::Status).await {
            Ok(_) => {
                self.announce(&step);
                Some((uid.to_owned(), step))
            }
            Err(error) => {
                tracing::warn!(set = %step.set.shown(), error = %causes(&error), "cannot write a step of a rollout, which waits for that");
                None
            }
        }
    }

    /// Says what has changed, in the log and by Events.
    fn announce(&self, step: &RolloutStep) {
        let events: Vec<_> = [event(step), hook_event(step)]
            .into_iter()
            .flatten()
            .collect();
        if events.is_empty() {
            return;
        }
        let reference = ObjectReference {
            api_version: Some(SET_API_VERSION.to_owned()),
            kind: Some(SET_KIND.to_owned()),
            namespace: Some(step.set.namespace.clone()),
            name: Some(step.set.name.clone()),
            uid: Some(step.set.uid.clone()),
            ..ObjectReference::default()
        };
        for (type_, reason, message) in events {
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
            let (recorder, reference) = (Arc::clone(&self.recorder), reference.clone());
            tokio::spawn(async move {
                if let Err(error) = recorder.publish(&event, &reference).await {
                    tracing::debug!(error = %causes(&error), "cannot write an Event");
                }
            });
        }
    }
}

/// The Event of hooks that have failed in a step.
fn hook_event(step: &RolloutStep) -> Option<(EventType, &'static str, String)> {
    let hooks = step.hooks.as_ref()?;
    let failed = hooks.failed_since(step.hooks_before.as_ref());
    let has_failed = !failed.is_empty();
    has_failed.then(|| (EventType::Warning, "HookFailed", named(&failed)))
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
