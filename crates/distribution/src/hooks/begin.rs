//! The state of hooks when a rollout takes a step.

use std::collections::BTreeSet;

use super::{state::HookState, steps::SetHook};
use crate::rollout::{RolloutPhase, RolloutState};

/// A step of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct HookRollout<'a> {
    /// The rollout before; `None`: there was none.
    pub before: Option<&'a RolloutState>,
    /// The rollout now.
    pub now: &'a RolloutState,
    /// The clusters of the set.
    pub clusters: &'a BTreeSet<String>,
    /// The clusters that have objects of the set by bindings.
    pub placed: &'a BTreeSet<String>,
}

impl HookRollout<'_> {
    /// The state to go on from; `None`: the set has no hooks. `hooks`: those of the revision that
    /// clusters shall have, if they are known. `retried`: what has asked for another run so far.
    pub fn hooks(
        &self,
        before: Option<&HookState>,
        hooks: Option<&[SetHook]>,
        retried: &str,
    ) -> Option<HookState> {
        let revision = target(self.now);
        let is_rollback = self.now.phase == RolloutPhase::Undone;
        if let Some(before) = before.filter(|before| before.revision == revision) {
            return Some(HookState {
                is_rollback,
                ..before.clone()
            });
        }
        if before.is_none() && hooks.is_some_and(<[SetHook]>::is_empty) {
            return None;
        }
        let installed = match before {
            Some(before) => before.installed.clone(),
            None => self.installed(),
        };
        let prepared = if before.is_none() && self.before.map(target) == Some(revision) {
            // The state is lost, and what clusters have is not.
            installed.clone()
        } else if is_rollback {
            let undone = self.undone(before);
            installed.difference(&undone).cloned().collect()
        } else {
            BTreeSet::new()
        };
        Some(HookState {
            revision: revision.to_owned(),
            is_rollback,
            installed,
            prepared,
            waits: true,
            retried: retried.to_owned(),
            ..HookState::default()
        })
    }

    /// The clusters that shall have the revision that the hooks belong to.
    pub fn due(&self) -> BTreeSet<String> {
        let is_due = |cluster: &&String| reaches_all(self.now) || self.now.reaches(cluster);
        self.clusters.iter().filter(is_due).cloned().collect()
    }

    /// The clusters that have the set by the rollout before.
    fn installed(&self) -> BTreeSet<String> {
        let Some(before) = self.before else {
            return BTreeSet::new();
        };
        let installed = match before.stable {
            Some(_) => self.placed,
            None => &before.reached,
        };
        installed & self.clusters
    }

    /// The clusters that have the revision that is undone.
    fn undone(&self, hooks: Option<&HookState>) -> BTreeSet<String> {
        if let Some(hooks) = hooks.filter(|hooks| hooks.revision == self.now.revision) {
            return hooks.prepared.clone();
        }
        let Some(before) = self.before else {
            return BTreeSet::new();
        };
        let has_it = before.revision == self.now.revision;
        let had = |cluster: &&String| reaches_all(before) || before.reaches(cluster);
        let clusters = self.clusters.iter().filter(|_| has_it);
        clusters.filter(had).cloned().collect()
    }
}

impl HookState {
    /// Whether nothing is left to say of hooks: the revision has none, and all clusters have it
    /// that shall.
    pub fn is_needless(&self, hooks: Option<&[SetHook]>, due: &BTreeSet<String>) -> bool {
        hooks.is_some_and(<[SetHook]>::is_empty)
            && self.under_way.is_empty()
            && self.unfinished.is_empty()
            && due.is_subset(&self.prepared)
    }
}

/// The revision that clusters shall have in the end.
pub fn target(rollout: &RolloutState) -> &str {
    let stable = rollout.stable.as_deref();
    let undone = stable.filter(|_| rollout.phase == RolloutPhase::Undone);
    undone.unwrap_or(&rollout.revision)
}

/// Whether a rollout has reached all clusters, also those that join.
pub fn reaches_all(rollout: &RolloutState) -> bool {
    match rollout.phase {
        RolloutPhase::Complete | RolloutPhase::Undone => true,
        _ => rollout.wave == rollout.waves && rollout.waves > 0,
    }
}
