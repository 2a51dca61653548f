//! Steps of a release, and the hooks that run in them.

use std::collections::BTreeSet;

use fleetdex_core::model::split_api_version;

use crate::template_name::NamedTemplate;

/// What changes in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReleaseChange {
    /// It gets a set that it did not have.
    Install,
    /// It gets another revision.
    Upgrade,
    /// It goes back to a revision of before, because a user has undone another one.
    Rollback,
    /// It loses the set.
    Delete,
}

/// When hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookMoment {
    /// Before the change.
    Pre,
    /// After it.
    Post,
}

/// A step in which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookStep {
    /// When.
    pub moment: HookMoment,
    /// What changes.
    pub change: ReleaseChange,
}

/// When the object of a hook is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookDeletion {
    /// Before it is made again.
    pub before_creation: bool,
    /// When all hooks of its step have succeeded.
    pub when_succeeded: bool,
    /// When it has failed.
    pub when_failed: bool,
}

/// A hook of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetHook {
    /// The object.
    pub template: NamedTemplate,
    /// The steps that it runs in.
    pub steps: BTreeSet<HookStep>,
    /// When the object is deleted.
    pub deletion: HookDeletion,
}

impl HookStep {
    /// All steps.
    pub const ALL: [Self; 8] = [
        Self::pre(ReleaseChange::Install),
        Self::post(ReleaseChange::Install),
        Self::pre(ReleaseChange::Upgrade),
        Self::post(ReleaseChange::Upgrade),
        Self::pre(ReleaseChange::Rollback),
        Self::post(ReleaseChange::Rollback),
        Self::pre(ReleaseChange::Delete),
        Self::post(ReleaseChange::Delete),
    ];

    /// Before a change.
    pub const fn pre(change: ReleaseChange) -> Self {
        Self {
            moment: HookMoment::Pre,
            change,
        }
    }

    /// After a change.
    pub const fn post(change: ReleaseChange) -> Self {
        Self {
            moment: HookMoment::Post,
            change,
        }
    }

    /// Its name, as helm has it.
    pub fn as_str(self) -> &'static str {
        match (self.moment, self.change) {
            (HookMoment::Pre, ReleaseChange::Install) => "pre-install",
            (HookMoment::Post, ReleaseChange::Install) => "post-install",
            (HookMoment::Pre, ReleaseChange::Upgrade) => "pre-upgrade",
            (HookMoment::Post, ReleaseChange::Upgrade) => "post-upgrade",
            (HookMoment::Pre, ReleaseChange::Rollback) => "pre-rollback",
            (HookMoment::Post, ReleaseChange::Rollback) => "post-rollback",
            (HookMoment::Pre, ReleaseChange::Delete) => "pre-delete",
            (HookMoment::Post, ReleaseChange::Delete) => "post-delete",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|step| step.as_str() == name)
    }
}

impl SetHook {
    /// Whether its object is never deleted, whatever its policy says: what others have put into a
    /// namespace, the objects of a definition and the data of a volume would go with it.
    pub fn is_never_deleted(&self) -> bool {
        let name = &self.template.name;
        let (group, _) = split_api_version(&name.api_version);
        matches!(
            (group, name.kind.as_str()),
            ("apiextensions.k8s.io", "CustomResourceDefinition")
                | (
                    "",
                    "Namespace" | "PersistentVolume" | "PersistentVolumeClaim"
                )
        )
    }
}

/// The hooks of a step, in the order in which they run.
pub fn hooks_of(hooks: &[SetHook], step: HookStep) -> Vec<&SetHook> {
    let hooks = hooks.iter();
    hooks.filter(|hook| hook.steps.contains(&step)).collect()
}
