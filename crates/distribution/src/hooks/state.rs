//! How far the hooks of a set are, in all of its clusters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::steps::{HookStep, ReleaseChange};
use crate::template_name::KindName;

/// The annotation of a set that runs the hooks again that have failed, when its value changes.
pub const RETRY_HOOKS: &str = "distribute.fleetdex.io/retry-hooks";

/// Clusters that a message names, at most.
const NAMED: usize = 3;

/// How far the hooks of a set are, as it is written to the control plane before anything acts on
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookState {
    /// The revision that clusters shall have.
    pub revision: String,
    /// Whether they go back to it.
    pub is_rollback: bool,
    /// The kinds of its hooks.
    pub kinds: BTreeSet<KindName>,
    /// The clusters that have the set, in whatever revision.
    pub installed: BTreeSet<String>,
    /// Those of them that have the revision: the hooks that come first have succeeded.
    pub prepared: BTreeSet<String>,
    /// Those of these in which hooks run when all objects are written.
    pub unfinished: BTreeMap<String, ReleaseChange>,
    /// Whether hooks have not begun in clusters that shall have the revision. It is not kept.
    pub waits: bool,
    /// The clusters in which a hook runs, or has failed. At most [`MOST_UNDER_WAY`]: others wait.
    pub under_way: BTreeMap<String, ClusterHook>,
    /// What asked last for another run of what has failed.
    pub retried: String,
    /// How far the deletion of the set is; `None`: it is not being deleted.
    pub ending: Option<EndingPhase>,
    /// The clusters in which that phase is over.
    pub ended: BTreeSet<String>,
}

/// Clusters in which hooks run or have failed, at most: a status has no more entries.
pub const MOST_UNDER_WAY: usize = 200;

/// The hook of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterHook {
    /// The step.
    pub step: HookStep,
    /// Which of the hooks of the step, from 0 on.
    pub position: usize,
    /// What happens.
    pub phase: HookPhase,
    /// The object, such as `Job shop/migrate`.
    pub hook: String,
    /// When the step began, in whole seconds.
    pub began: Timestamp,
    /// When the phase began, in whole seconds.
    pub since: Timestamp,
    /// What it waits for, or why it has failed.
    pub message: String,
}

/// What happens with a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPhase {
    /// It is made, and has to end.
    Running,
    /// All hooks of the step have succeeded, and those go that are not kept then.
    CleaningUp,
    /// It has failed, and those go that are not kept then.
    CleaningFailed,
    /// It has failed.
    Failed,
}

/// How far the deletion of a set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingPhase {
    /// Hooks run before anything is deleted.
    PreDelete,
    /// The objects are being deleted.
    Deleting,
    /// Hooks run after everything is deleted.
    PostDelete,
    /// Nothing is left to do.
    Ended,
}

impl HookPhase {
    /// All phases.
    const ALL: [Self; 4] = [
        Self::Running,
        Self::CleaningUp,
        Self::CleaningFailed,
        Self::Failed,
    ];

    /// Its name in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::CleaningUp => "CleaningUp",
            Self::CleaningFailed => "CleaningFailed",
            Self::Failed => "Failed",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|phase| phase.as_str() == name)
    }
}

impl EndingPhase {
    /// All phases.
    const ALL: [Self; 4] = [
        Self::PreDelete,
        Self::Deleting,
        Self::PostDelete,
        Self::Ended,
    ];

    /// Its name in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreDelete => "PreDelete",
            Self::Deleting => "Deleting",
            Self::PostDelete => "PostDelete",
            Self::Ended => "Ended",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|phase| phase.as_str() == name)
    }
}

impl ClusterHook {
    /// Whether it has failed, or is about to be reported as failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.phase, HookPhase::CleaningFailed | HookPhase::Failed)
    }

    /// Such as `Job shop/migrate (pre-upgrade): the Job has not ended`.
    pub fn shown(&self) -> String {
        let (hook, step) = (&self.hook, self.step.as_str());
        match self.message.as_str() {
            "" => format!("{hook} ({step}) runs"),
            message => format!("{hook} ({step}): {message}"),
        }
    }
}

impl HookState {
    /// Why a cluster that shall have the revision is not done with its hooks; `None`: it is.
    pub fn hindrance(&self, cluster: &str) -> Option<String> {
        if let Some(hook) = self.under_way.get(cluster) {
            return Some(hook.shown());
        }
        if !self.prepared.contains(cluster) {
            return Some("its hooks wait for those of other clusters".to_owned());
        }
        let change = self.unfinished.get(cluster)?;
        let step = HookStep::post(*change).as_str();
        Some(format!("{step} hooks wait for the objects"))
    }

    /// Whether all clusters have the revision that have the set.
    pub fn is_everywhere(&self) -> bool {
        self.installed == self.prepared
    }

    /// Whether nothing is left to do before the set is gone.
    pub fn is_ended(&self) -> bool {
        self.ending == Some(EndingPhase::Ended)
    }

    /// Whether clusters keep their objects although the set is being deleted.
    pub fn keeps_objects(&self) -> bool {
        matches!(self.ending, None | Some(EndingPhase::PreDelete))
    }

    /// The clusters whose hooks have failed here and not in `before`, with the hooks.
    pub fn failed_since<'s>(&'s self, before: Option<&Self>) -> Vec<(&'s String, &'s ClusterHook)> {
        let had_failed = |cluster: &String, hook: &ClusterHook| {
            let before = before.and_then(|before| before.under_way.get(cluster));
            before.is_some_and(|before| before.has_failed() && before.began == hook.began)
        };
        let all = self.under_way.iter();
        all.filter(|(cluster, hook)| hook.has_failed() && !had_failed(cluster, hook))
            .collect()
    }

    /// What is to be said of hooks that run or have failed, and whether one has failed; `None`:
    /// there is nothing to say.
    pub fn summary(&self) -> Option<(bool, String)> {
        let has_failed = self.under_way.values().any(ClusterHook::has_failed);
        let hooks = self.under_way.iter();
        let hooks: Vec<(&String, &ClusterHook)> = hooks
            .filter(|(_, hook)| hook.has_failed() || !has_failed)
            .collect();
        if !hooks.is_empty() {
            return Some((has_failed, named(&hooks)));
        }
        if let Some((cluster, change)) = self.unfinished.first_key_value() {
            let step = HookStep::post(*change).as_str();
            return Some((
                false,
                format!("{cluster}: {step} hooks wait for the objects"),
            ));
        }
        let message = "hooks have not begun in all clusters";
        self.waits.then(|| (false, message.to_owned()))
    }
}

/// The first hooks of a list.
pub fn named(hooks: &[(&String, &ClusterHook)]) -> String {
    let first = hooks.iter().take(NAMED);
    let first: Vec<String> = first
        .map(|(cluster, hook)| format!("{cluster}: {}", hook.shown()))
        .collect();
    match hooks.len().saturating_sub(NAMED) {
        0 => first.join("; "),
        more => format!("{}; and {more} more clusters", first.join("; ")),
    }
}
