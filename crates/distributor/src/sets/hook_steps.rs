//! The next step of the hooks of a set, by what its clusters say.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fleetdex_distribution::{
    cluster::TargetCluster,
    hooks::{EndingInputs, HookInputs, HookRollout, HookState, HookTask, LONGEST_HOOK},
    rollout::{SetHealth, WaveRules},
};
use jiff::{SignedDuration, Timestamp};

use super::{hook_board::ClusterReports, set_state::SetState};
use crate::status_board::ClusterCount;

/// So long is tried to read what a set was rendered to that is being deleted.
const GIVE_UP: Duration = Duration::from_mins(10);

/// What is known of the clusters of a set.
pub struct HookView<'a> {
    /// What they have of its objects.
    pub counts: &'a BTreeMap<String, ClusterCount>,
    /// Where the last plan places objects.
    pub placed: &'a BTreeSet<String>,
    /// What they say of hooks.
    pub reports: &'a ClusterReports,
    /// The waves.
    pub rules: &'a [WaveRules],
    /// The present.
    pub now: Timestamp,
}

/// The hooks of a set after a step of its rollout; `None`: it has none.
pub fn next_hooks(
    set: &SetState,
    change: &HookRollout<'_>,
    view: &HookView<'_>,
) -> Option<HookState> {
    let hooks = set.rollout.hooks_of(change.now).map(|hooks| &**hooks);
    let retried = set.spec.retried.as_str();
    let before = change.hooks(set.rollout.hooks(), hooks, retried)?;
    let is_planned = set.rollout.planned_for().is_some();
    let mut due = change.due();
    due.retain(|cluster| is_placed(set, view.placed, cluster));
    let is_written = |cluster: &&String| {
        let count = view.counts.get(*cluster);
        let is_whole = count.is_none_or(|count| count.applied == count.objects);
        is_planned && set.obstacle.is_none() && is_whole
    };
    let written: BTreeSet<String> = due.iter().filter(is_written).cloned().collect();
    let next = before.next(&HookInputs {
        hooks,
        clusters: change.clusters,
        due: Some(&due).filter(|_| is_planned),
        written: &written,
        reports: view.reports,
        deadline: deadline(change, view.rules),
        retried,
        now: view.now,
    });
    (!is_planned || !next.is_needless(hooks, &due)).then_some(next)
}

/// Whether a plan places objects of a set in a cluster. A set without objects has its hooks in all
/// clusters.
fn is_placed(set: &SetState, placed: &BTreeSet<String>, cluster: &str) -> bool {
    set.members.is_empty() || placed.contains(cluster)
}

/// How long a hook may take: as the wave that began last.
fn deadline(change: &HookRollout<'_>, rules: &[WaveRules]) -> SignedDuration {
    let wave = change.now.wave.checked_sub(1);
    let rules = wave.and_then(|wave| rules.get(wave));
    rules.map_or(LONGEST_HOOK, |rules| rules.deadline)
}

/// How a set is in a cluster that shall have the revision. `placed`: where the last plan places
/// objects; `objects`: how these are.
pub fn health(
    set: &SetState,
    placed: &BTreeSet<String>,
    cluster: &str,
    objects: SetHealth,
) -> SetHealth {
    let hooks = set.rollout.hooks();
    let Some(hooks) = hooks.filter(|_| is_placed(set, placed, cluster)) else {
        return objects;
    };
    let Some(hindrance) = hooks.hindrance(cluster) else {
        return objects;
    };
    let comes_first = hooks.under_way.contains_key(cluster) || !hooks.prepared.contains(cluster);
    match objects {
        SetHealth::Unhealthy(reason) if !comes_first => SetHealth::Unhealthy(reason),
        _ => SetHealth::Unhealthy(hindrance),
    }
}

/// The hooks of a set that is being deleted, after one look at its clusters; `None`: it has none,
/// or they are not known yet. `has_objects`: clusters may still have objects of it.
pub fn next_ending(
    set: &SetState,
    clusters: &BTreeSet<String>,
    has_objects: bool,
    reports: &ClusterReports,
    now: Timestamp,
) -> Option<HookState> {
    let before = set.rollout.hooks()?;
    if before.is_ended() {
        return Some(before.clone());
    }
    let known = set.rollout.renderings().get(&before.revision);
    let is_given_up = set.ending_hooks_are_lost(GIVE_UP);
    if known.is_none() && !is_given_up {
        return None;
    }
    if known.is_none() {
        tracing::warn!(set = %set.spec.name.shown(), "hooks of a deleted Distribution are skipped: what it was rendered to cannot be read");
    }
    let hooks = known.map(|known| &*known.hooks).unwrap_or_default();
    Some(before.next_ending(&EndingInputs {
        hooks,
        clusters,
        has_objects,
        reports,
        now,
    }))
}

/// What is to be done in clusters for the hooks of a set.
pub fn tasks(set: &SetState, clusters: &[TargetCluster]) -> Vec<HookTask> {
    let Some(state) = set.rollout.hooks() else {
        return Vec::new();
    };
    if !set.is_writable() && !set.spec.is_ending {
        return Vec::new();
    }
    let Some(known) = set.rollout.renderings().get(&state.revision) else {
        return Vec::new();
    };
    state.tasks(&set.placement(), &known.hooks, clusters)
}
