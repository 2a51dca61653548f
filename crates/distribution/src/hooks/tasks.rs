//! What is to be done in clusters for hooks, and how their objects are told from others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::split_api_version;
use fleetdex_interpreter::value::{group, text};
use serde_json::{Value, json};

use super::{
    state::{ClusterHook, HookPhase, HookState},
    steps::{SetHook, hooks_of},
};
use crate::{
    cluster::TargetCluster,
    marks::{self, CopyOrigin},
    overrides,
    sets::{ObjectSet, SetName},
    template_name::TemplateName,
    templates::CONTROL_PLANE_LABEL,
};

/// The annotation of the object of a hook in its cluster: which run of which hook it is.
pub const HOOK_MARK: &str = "distribute.fleetdex.io/hook";

/// What is to be done in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct HookTask {
    /// The set.
    pub set: Arc<SetName>,
    /// The cluster.
    pub cluster: String,
    /// What tells it from other tasks of the set in this cluster.
    pub key: String,
    /// What is to be done.
    pub action: HookAction,
}

/// What is to be done for a hook.
#[derive(Clone, Debug, PartialEq)]
pub enum HookAction {
    /// Its object is made, unless it is there, and has to end.
    Run(Box<MadeHook>),
    /// The objects of these runs are deleted.
    Delete(Vec<(TemplateName, String)>),
}

/// The object of a hook in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeHook {
    /// Its name.
    pub name: TemplateName,
    /// The object; an error: it cannot be made.
    pub object: Result<Value, String>,
    /// The run.
    pub run: String,
    /// Whether that of another run is deleted first.
    pub replaces: bool,
    /// Whether that of another run becomes this one.
    pub is_never_deleted: bool,
}

/// Whose object an object of a cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookMark {
    /// That of another hook, or of something else.
    Other,
    /// That of the hook, of this run.
    Run(String),
}

impl HookMark {
    /// Of an object of a cluster.
    pub fn of(object: &Value, set: &SetName, origin: &CopyOrigin) -> Self {
        let mark = text(object, &["metadata", "annotations", HOOK_MARK]);
        let label = text(object, &["metadata", "labels", CONTROL_PLANE_LABEL]);
        match mark.split_once('.') {
            Some((run, found))
                if label == &*origin.control_plane && found == identity(object, set, origin) =>
            {
                Self::Run(run.to_owned())
            }
            _ => Self::Other,
        }
    }

    /// An object with the mark of a run.
    pub fn marked(object: Value, set: &SetName, origin: &CopyOrigin, run: &str) -> Value {
        let mark = format!("{run}.{}", identity(&object, set, origin));
        marks::with_entries(
            object,
            [
                ("labels", CONTROL_PLANE_LABEL, &*origin.control_plane),
                ("annotations", HOOK_MARK, &*mark),
            ],
        )
    }
}

/// The hash of which hook of which set an object is. Labels and annotations are copied to other
/// objects by operators and users.
fn identity(object: &Value, set: &SetName, origin: &CopyOrigin) -> String {
    let name = TemplateName::of(object);
    let (group, _) = split_api_version(&name.api_version);
    let parts = json!([
        set.uid,
        origin.cluster,
        group,
        name.kind,
        name.namespace,
        name.name
    ]);
    marks::hash(&parts)
}

impl HookState {
    /// What is to be done. `hooks`: those of the revision.
    pub fn tasks(
        &self,
        set: &ObjectSet,
        hooks: &[SetHook],
        clusters: &[TargetCluster],
    ) -> Vec<HookTask> {
        let clusters: BTreeMap<&str, &TargetCluster> = clusters
            .iter()
            .map(|cluster| (cluster.name.as_str(), cluster))
            .collect();
        let mut tasks = Vec::new();
        for (cluster, hook) in &self.under_way {
            let target = clusters.get(cluster.as_str());
            let of_step = hooks_of(hooks, hook.step);
            let action = target.and_then(|target| self.action(hook, &of_step, set, target));
            tasks.extend(action.map(|action| HookTask {
                set: Arc::clone(&set.name),
                cluster: cluster.clone(),
                key: self.key(hook),
                action,
            }));
        }
        tasks
    }

    /// The namespaces that the hooks of clusters need.
    pub fn namespaces(&self, hooks: &[SetHook]) -> BTreeMap<String, BTreeSet<String>> {
        let mut needed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let running = self.under_way.iter();
        for (cluster, hook) in running.filter(|(_, hook)| hook.phase == HookPhase::Running) {
            let of_step = hooks_of(hooks, hook.step);
            let namespaces = of_step.iter().map(|hook| &hook.template.name.namespace);
            let namespaces = namespaces.filter(|namespace| !namespace.is_empty());
            needed
                .entry(cluster.clone())
                .or_default()
                .extend(namespaces.cloned());
        }
        needed
    }

    fn action(
        &self,
        hook: &ClusterHook,
        of_step: &[&SetHook],
        set: &ObjectSet,
        cluster: &TargetCluster,
    ) -> Option<HookAction> {
        match hook.phase {
            HookPhase::Failed => None,
            HookPhase::Running => {
                let current = of_step.get(hook.position)?;
                Some(HookAction::Run(Box::new(MadeHook {
                    name: current.template.name.clone(),
                    object: made(current, set, cluster),
                    run: self.run(hook, hook.position),
                    replaces: current.deletion.before_creation,
                    is_never_deleted: current.is_never_deleted(),
                })))
            }
            HookPhase::CleaningUp | HookPhase::CleaningFailed => {
                let goes = |(position, one): &(usize, &&SetHook)| {
                    let has_failed =
                        hook.phase == HookPhase::CleaningFailed && *position == hook.position;
                    let deletion = one.deletion;
                    let goes = if has_failed {
                        deletion.when_failed
                    } else {
                        deletion.when_succeeded
                    };
                    goes && !one.is_never_deleted()
                };
                let known = of_step.iter().enumerate().take(hook.position + 1);
                let deleted = known
                    .filter(goes)
                    .map(|(position, one)| (one.template.name.clone(), self.run(hook, position)));
                Some(HookAction::Delete(deleted.collect()))
            }
        }
    }

    /// What tells a run of a hook from others.
    fn run(&self, hook: &ClusterHook, position: usize) -> String {
        let step = hook.step.as_str();
        let parts = json!([self.revision, step, position, hook.began.as_second()]);
        format!("{step}-{}", marks::hash(&parts))
    }

    /// What tells a task from others of the set in a cluster.
    pub(super) fn key(&self, hook: &ClusterHook) -> String {
        let run = self.run(hook, hook.position);
        format!("{run}/{}", hook.phase.as_str())
    }
}

/// The object of a hook in a cluster.
fn made(hook: &SetHook, set: &ObjectSet, cluster: &TargetCluster) -> Result<Value, String> {
    let template = &hook.template.object;
    let object = overrides::overridden_by_set(set, template, Value::clone(template), cluster);
    let mut object = object.map_err(|error| error.to_string())?;
    if TemplateName::of(&object) != hook.template.name {
        return Err("an override gives it another name".to_owned());
    }
    if group(&object) == "batch"
        && text(&object, &["kind"]) == "Job"
        && let Some(Value::Object(spec)) = object.get_mut("spec")
    {
        // The cluster would delete a Job that has ended, and it would be made and run again.
        spec.shift_remove("ttlSecondsAfterFinished");
    }
    Ok(object)
}
