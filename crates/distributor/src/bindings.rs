//! Writes the bindings of a plan to the control plane.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::causes,
    planted::{Bug, planted},
};
use fleetdex_distribution::{
    binding::{self, BINDING_API_VERSION, BindingPlace, COPIES_FINALIZER},
    contains::contains,
    marks::{self, CopyOrigin},
    plan::{DistributionPlan, Leftovers, PlannedBinding},
    sets::SetName,
    template_name::{NameParts, TemplateName},
};
use fleetdex_interpreter::value::text;
use futures::{StreamExt as _, stream};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use crate::{
    control_plane::ControlPlaneObject,
    inputs::ReadInputs,
    object_client::{ObjectClient, ObjectPart, ObjectRequestError},
    status_board::StatusBoard,
};

/// Writes under way.
const CONCURRENT_WRITES: usize = 16;

/// Reads and writes both kinds of bindings.
#[derive(Clone)]
pub struct BindingClient {
    /// `ResourceBinding`.
    pub namespaced: ObjectClient,
    /// `ClusterResourceBinding`.
    pub cluster_scoped: ObjectClient,
    /// The sets that objects belong to.
    pub sets: Arc<RwLock<BTreeMap<TemplateName, Arc<SetName>>>>,
}

impl BindingClient {
    /// The client for the binding of an object, and the binding's name.
    pub fn of(&self, name: &TemplateName) -> (&ObjectClient, TemplateName) {
        let set = self.sets.read().get(name).cloned();
        let place = BindingPlace::of(name, set.as_deref());
        let client = if place.namespace.is_empty() {
            &self.cluster_scoped
        } else {
            &self.namespaced
        };
        let binding = TemplateName::from(NameParts {
            api_version: BINDING_API_VERSION.to_owned(),
            kind: place.kind.to_owned(),
            namespace: place.namespace,
            name: place.name,
        });
        (client, binding)
    }

    /// Notes which objects belong to sets, by a plan and by the bindings that there are.
    fn note_sets(&self, plan: &DistributionPlan, read: &ReadInputs) {
        let bound = read.plan.previous.iter();
        let bound = bound.filter_map(|(name, one)| Some((name.clone(), one.set.clone()?)));
        let planned = plan.bindings.iter();
        let planned = planned.filter_map(|one| Some((one.resource.clone(), one.set.clone()?)));
        *self.sets.write() = bound.chain(planned).collect();
    }
}

/// Writes bindings.
pub struct BindingWriter {
    /// The client.
    pub client: BindingClient,
    /// The control plane.
    pub origin: CopyOrigin,
    /// The bindings that were as they shall be in the last plan.
    pub right: Mutex<BTreeMap<TemplateName, RightBinding>>,
}

/// A binding that was as it shall be, and by what.
pub struct RightBinding {
    planned: PlannedBinding,
    leaving: BTreeSet<String>,
    uid: String,
    current: Arc<Value>,
}

/// What was written.
#[derive(Default)]
pub struct WrittenBindings {
    /// The bindings that say now where objects go, until the watch shows them.
    pub written: BTreeMap<TemplateName, Value>,
    /// The objects whose bindings do not say yet where they go.
    pub unwritten: BTreeSet<TemplateName>,
    /// The objects whose bindings a user has deleted.
    pub let_go: BTreeSet<TemplateName>,
}

/// The object of a binding, and what is to be done with it.
pub type NamedTask = (TemplateName, BindingTask);

/// What is to be done with a binding.
pub enum BindingTask {
    /// It is written.
    Apply(Value),
    /// Nothing has a copy any more.
    Remove,
    /// A user has deleted it, and the object is still there, or its kind is not served any more.
    LetGo,
    /// Another object has a binding of this name.
    Refuse,
}

impl BindingWriter {
    /// Writes what has changed.
    pub async fn write(&self, tasks: Vec<NamedTask>, written: &mut WrittenBindings) {
        let running = stream::iter(tasks).map(async |(name, task)| {
            let result = self.run(&name, &task).await;
            (name, task, result)
        });
        let mut running = Box::pin(running.buffer_unordered(CONCURRENT_WRITES));
        while let Some((name, task, result)) = running.next().await {
            if let Err(error) = &result {
                tracing::warn!(object = %name, error = %causes(error), "cannot write a binding");
            }
            match (task, result.is_ok()) {
                (BindingTask::Apply(wanted), true) => {
                    written.written.insert(name, wanted);
                }
                (BindingTask::LetGo, true) => {
                    written.let_go.insert(name);
                }
                (BindingTask::Apply(_) | BindingTask::Refuse, false)
                    if !planted(Bug::DistributionWritesBeforeBinding) =>
                {
                    written.unwritten.insert(name);
                }
                _ => {}
            }
        }
    }

    /// What has changed.
    pub fn tasks(
        &self,
        plan: &DistributionPlan,
        read: &ReadInputs,
        board: &StatusBoard,
        leftovers: &Leftovers,
        is_complete: bool,
    ) -> Vec<NamedTask> {
        self.client.note_sets(plan, read);
        let clusters = read.plan.clusters.iter();
        let known: BTreeSet<&str> = clusters.map(|one| one.name.as_str()).collect();
        let may_have_copy = |name: &TemplateName, cluster: &str| {
            known.contains(cluster)
                && !board.is_absent(name, cluster)
                && !is_noted_elsewhere(name, cluster, read, leftovers)
        };
        let templates = read.plan.templates.iter();
        let templates: BTreeMap<&TemplateName, &Value> =
            templates.map(|one| (&one.name, &*one.object)).collect();
        let mut tasks = Vec::new();
        let mut planned = BTreeSet::new();
        let mut taken = BTreeSet::new();
        let mut right = self.right.lock();
        // Those that have their binding already come first.
        let has_binding = |one: &&PlannedBinding| read.bindings.contains_key(&one.resource);
        let (bound, new): (Vec<_>, Vec<_>) = plan.bindings.iter().partition(has_binding);
        for one in bound.into_iter().chain(new) {
            let name = &one.resource;
            planned.insert(name);
            let template = match &one.set {
                Some(_) => &Value::Null,
                None => match templates.get(name) {
                    Some(template) => *template,
                    None => continue,
                },
            };
            let place = BindingPlace::of(name, one.set.as_deref());
            let is_ending = read.ending_namespaces.contains(&place.namespace);
            if !taken.insert((place.namespace, place.name)) {
                // Two groups have a kind of this name, and objects of one name.
                tasks.push((name.clone(), BindingTask::Refuse));
                continue;
            }
            let current = read.bindings.get(name);
            // With its namespace the object will go, too, and the binding knows its copies.
            if current.is_some_and(is_being_deleted) && !is_ending {
                tasks.push((name.clone(), BindingTask::LetGo));
                continue;
            }
            let leaving = leaving(one, read, &may_have_copy);
            let uid = text(template, &["metadata", "uid"]);
            let is_right = current.is_some_and(|current| {
                right.get(name).is_some_and(|right| {
                    Arc::ptr_eq(&right.current, &current.object)
                        && right.uid == uid
                        && right.leaving == leaving
                        && right.planned == *one
                })
            });
            if is_right {
                continue;
            }
            let wanted = self.wanted(one, template, &leaving, read);
            match current.filter(|current| is_as_wanted(&current.object, &wanted)) {
                Some(current) => {
                    let binding = RightBinding {
                        planned: one.clone(),
                        leaving,
                        uid: uid.to_owned(),
                        current: Arc::clone(&current.object),
                    };
                    right.insert(name.clone(), binding);
                }
                None => tasks.push((name.clone(), BindingTask::Apply(wanted))),
            }
        }
        right.retain(|name, _| planned.contains(name));
        drop(right);
        for (name, current) in &read.bindings {
            if planned.contains(name) {
                continue;
            }
            let previous = read.plan.previous.get(name);
            let mut with_copies = previous
                .into_iter()
                .flat_map(|previous| previous.clusters_with_copies());
            let has_copies = with_copies.any(|cluster| may_have_copy(name, cluster));
            let is_ending = read.ending_namespaces.contains(&name.namespace);
            let is_gone = !leftovers.has_template(name)
                || leftovers.is_unneeded(name)
                || leftovers.is_replaced(name);
            // What clusters have of a set is known by its bindings alone.
            let is_of_set = previous.is_some_and(|previous| previous.set.is_some());
            let keeps = planted(Bug::DistributionKeepsBindings);
            if is_gone && is_complete && !has_copies && !keeps {
                tasks.push((name.clone(), BindingTask::Remove));
            } else if is_being_deleted(current)
                && !is_of_set
                && ((!is_gone && !is_ending) || !read.is_followed(name))
            {
                tasks.push((name.clone(), BindingTask::LetGo));
            }
        }
        tasks
    }

    fn wanted(
        &self,
        planned: &PlannedBinding,
        template: &Value,
        leaving: &BTreeSet<String>,
        read: &ReadInputs,
    ) -> Value {
        let previous = read.plan.previous.get(&planned.resource);
        let previous = previous.map(Arc::as_ref);
        let wanted = binding::binding(planned, template, leaving, previous);
        let hash = marks::hash(&wanted);
        marks::marked(wanted, &self.origin, &hash)
    }

    async fn run(&self, name: &TemplateName, task: &BindingTask) -> Result<(), ObjectRequestError> {
        let (client, binding) = self.client.of(name);
        match task {
            BindingTask::Apply(wanted) => client
                .apply(&binding, wanted, ObjectPart::Main)
                .await
                .map(drop),
            BindingTask::Remove => {
                let Some(current) = client.get(&binding).await? else {
                    return Ok(());
                };
                let uid = text(&current, &["metadata", "uid"]);
                client.delete(&binding, uid, None).await?;
                self.let_go(name).await
            }
            BindingTask::LetGo => self.let_go(name).await,
            BindingTask::Refuse => Err(ObjectRequestError::Name(binding.name.clone())),
        }
    }

    /// Takes the finalizer away.
    async fn let_go(&self, name: &TemplateName) -> Result<(), ObjectRequestError> {
        let (client, binding) = self.client.of(name);
        let Some(current) = client.get(&binding).await? else {
            return Ok(());
        };
        let finalizers = current["metadata"]["finalizers"].as_array();
        let others: Vec<&Value> = finalizers
            .into_iter()
            .flatten()
            .filter(|finalizer| *finalizer != COPIES_FINALIZER)
            .collect();
        let patch = json!({"metadata": {
            "finalizers": others, "resourceVersion": current["metadata"]["resourceVersion"],
        }});
        match client.merge(&binding, &patch, ObjectPart::Main).await {
            Err(error) if error.status() == Some(http::StatusCode::NOT_FOUND) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Whether the copy of a cluster is that of another binding, which has the object in another
/// version of its kind.
fn is_noted_elsewhere(
    name: &TemplateName,
    cluster: &str,
    read: &ReadInputs,
    leftovers: &Leftovers,
) -> bool {
    let is_noted = |other: &TemplateName| {
        let noted = read.plan.previous.get(other);
        noted.is_some_and(|noted| noted.clusters.contains_key(cluster))
    };
    leftovers.is_in_another_version(name, cluster) && leftovers.other_versions(name).any(is_noted)
}

/// The clusters that may still have a copy, and do not get it any more.
fn leaving(
    planned: &PlannedBinding,
    read: &ReadInputs,
    may_have_copy: &impl Fn(&TemplateName, &str) -> bool,
) -> BTreeSet<String> {
    let name = &planned.resource;
    let previous = read.plan.previous.get(name);
    if planted(Bug::DistributionForgetsLeaving) {
        return BTreeSet::new();
    }
    let left = previous.map(|previous| previous.left_by(&planned.clusters));
    let left = left.into_iter().flatten();
    left.filter(|cluster| may_have_copy(name, cluster))
        .map(str::to_owned)
        .collect()
}

/// Whether a binding is as it shall be; others may have finalizers of their own.
pub fn is_as_wanted(current: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.clone();
    if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("finalizers");
    }
    let finalizers = current["metadata"]["finalizers"].as_array();
    let mut finalizers = finalizers.into_iter().flatten();
    finalizers.any(|one| *one == COPIES_FINALIZER) && contains(current, &wanted)
}

fn is_being_deleted(binding: &ControlPlaneObject) -> bool {
    !text(&*binding.object, &["metadata", "deletionTimestamp"]).is_empty()
}
