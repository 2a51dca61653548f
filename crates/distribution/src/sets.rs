//! Sets of objects that have no templates on the control plane: what a `Distribution` was rendered
//! to.

mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::split_api_version;
use fleetdex_crds::{
    affinity::ClusterAffinity, distribution::DistributionOverride, policy::PropagationSpec,
};
use fleetdex_interpreter::value::{at, text};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use self::objects::{ObjectInCluster, ObjectVariants, SetObjects, SetVariant};
use crate::{
    binding_name::{LONGEST_NAME, binding_name},
    claim::Policy,
    marks,
    template_name::{NamedTemplate, TemplateName},
};

/// Group and version of sets.
pub const SET_API_VERSION: &str = "distribute.fleetdex.io/v1alpha1";
/// The kind of sets.
pub const SET_KIND: &str = "Distribution";

/// The annotation of an object that keeps its copies when it leaves its set, as in helm.
const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// The annotation of a binding with the name of its object's set.
const SET_ANNOTATION: &str = "distribute.fleetdex.io/distribution";
/// The label of a binding with the UID of that set, by which its bindings are selected.
pub const SET_UID_LABEL: &str = "distribute.fleetdex.io/distribution-uid";
/// So many digits of a hash tell the objects of a set from others with the same name.
const HASH_DIGITS: usize = 10;

/// Which set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SetName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The UID of the `Distribution`.
    pub uid: String,
}

/// The objects of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum SetContents {
    /// All of them, in the order in which they are written.
    Known(SetObjects),
    /// They are not known: what clusters have of the set stays as it is.
    Unknown(String),
}

/// What clusters have that the rollout of a set has not reached.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreachedContents {
    /// The objects of the stable revision.
    pub objects: SetObjects,
    /// The clusters that are reached: they have the contents of the set.
    pub reached: BTreeSet<String>,
}

/// Which clusters get a set that has hooks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAdmission {
    /// The clusters that get its objects; others get its definitions only.
    pub clusters: BTreeSet<String>,
    /// The namespaces that the hooks of clusters need.
    pub namespaces: BTreeMap<String, BTreeSet<String>>,
}

/// A set of objects that go to clusters together.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectSet {
    /// Its name.
    pub name: Arc<SetName>,
    /// When it was made, as Kubernetes writes it: of several sets with an object of one name, the
    /// oldest one has it.
    pub created: String,
    /// Where its objects go.
    pub policy: Policy,
    /// The same for objects whose copies stay when they leave the set.
    pub keeping_policy: Policy,
    /// How they differ in some clusters.
    pub overrides: Vec<DistributionOverride>,
    /// Whether deletions are let go that would be held.
    pub allows_deletion: bool,
    /// Its objects.
    pub contents: SetContents,
    /// What clusters have that its rollout has not reached; `None`: all have its objects.
    pub unreached: Option<UnreachedContents>,
    /// Which clusters get its objects; `None`: it has no hooks, and all do.
    pub admission: Option<HookAdmission>,
}

/// An object of a set that is not distributed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedMember {
    /// The set.
    pub set: Arc<SetName>,
    /// The object.
    pub resource: TemplateName,
    /// Why.
    pub reason: String,
    /// Whether no policy and no set distributes such an object.
    #[serde(skip)]
    pub is_never_distributed: bool,
}

impl SetName {
    /// The set that a binding names.
    pub fn of_binding(binding: &Value) -> Option<Self> {
        let of = |member: &str, key: &str| text(binding, &["metadata", member, key]).to_owned();
        let name = of("annotations", SET_ANNOTATION);
        let uid = of("labels", SET_UID_LABEL);
        (!name.is_empty() && !uid.is_empty()).then(|| Self {
            namespace: text(binding, &["metadata", "namespace"]).to_owned(),
            name,
            uid,
        })
    }

    /// The name of the binding of one of its objects. Objects of one name in several namespaces
    /// have bindings in the namespace of the set, and an object that clusters have in several
    /// versions of its kind has one for each.
    pub fn binding_name(&self, object: &TemplateName) -> String {
        let name = binding_name(object);
        let (_, version) = split_api_version(&object.api_version);
        let text = format!("{}/{}/{version}", self.uid, object.namespace);
        let mut hash = marks::hash_of_text(&text);
        hash.truncate(HASH_DIGITS);
        if name.len() + 1 + hash.len() <= LONGEST_NAME {
            return format!("{name}-{hash}");
        }
        format!("{}-{hash}", marks::hash_of_text(&name))
    }

    /// The annotations that name it in a binding.
    pub(crate) fn annotations(&self) -> Map<String, Value> {
        Map::from_iter([(SET_ANNOTATION.to_owned(), self.name.as_str().into())])
    }

    /// The labels that select its bindings.
    pub(crate) fn labels(&self) -> Map<String, Value> {
        Map::from_iter([(SET_UID_LABEL.to_owned(), self.uid.as_str().into())])
    }

    /// The reference by which a binding belongs to it.
    pub fn owner_reference(&self) -> Value {
        json!({
            "apiVersion": SET_API_VERSION, "kind": SET_KIND, "name": self.name, "uid": self.uid,
        })
    }

    /// Its kind and name, such as `Distribution shop/web`.
    pub fn shown(&self) -> String {
        format!("{SET_KIND} {}/{}", self.namespace, self.name)
    }
}

impl ObjectSet {
    /// A set whose objects go where `spec` says. `prunes`: whether objects that left the set are
    /// deleted.
    pub fn new(name: SetName, spec: &PropagationSpec, prunes: bool) -> Self {
        let policy = |preserves: bool| Policy {
            namespace: Some(name.namespace.clone()),
            name: name.name.clone(),
            created: None,
            spec: Arc::new(PropagationSpec {
                preserve_resources_on_deletion: preserves.then_some(true),
                ..spec.clone()
            }),
        };
        Self {
            policy: policy(!prunes),
            keeping_policy: policy(true),
            name: Arc::new(name),
            created: String::new(),
            overrides: Vec::new(),
            allows_deletion: false,
            contents: SetContents::Known(SetObjects::default()),
            unreached: None,
            admission: None,
        }
    }

    /// Its objects; `None`: they are not known.
    pub fn objects(&self) -> Option<&SetObjects> {
        match &self.contents {
            SetContents::Known(objects) => Some(objects),
            SetContents::Unknown(_) => None,
        }
    }

    /// Its objects, and those of clusters that its rollout has not reached.
    pub fn all_objects(&self) -> impl Iterator<Item = &NamedTemplate> {
        let unreached = self.unreached.iter();
        let unreached = unreached.map(|unreached| &unreached.objects);
        let all = self.objects().into_iter().chain(unreached);
        all.flat_map(SetObjects::all)
    }

    /// Whether its objects are known.
    pub fn is_known(&self) -> bool {
        matches!(self.contents, SetContents::Known(_))
    }

    /// Where an object goes.
    pub(crate) fn policy_of(&self, object: &Value) -> &Policy {
        let annotation = text(object, &["metadata", "annotations", RESOURCE_POLICY]);
        if annotation.trim().eq_ignore_ascii_case("keep") {
            &self.keeping_policy
        } else {
            &self.policy
        }
    }
}

/// The object of a binding. That of a set may be in any namespace, or in none; one without a set is
/// in the binding's own.
pub fn bound_object(binding: &Value, set: Option<&SetName>) -> TemplateName {
    let namespace = match set {
        Some(_) => "",
        None => text(binding, &["metadata", "namespace"]),
    };
    TemplateName::of_reference_in(at(binding, &["spec", "resource"]), namespace)
}

/// Whether a binding is of an object of a set.
pub fn is_of_set(binding: &Value) -> bool {
    SetName::of_binding(binding).is_some()
}

/// Whether the placement of a set selects a cluster by its name, its labels and its fields. Taints
/// and spread constraints may still keep the set away.
pub fn may_select(spec: &PropagationSpec, matches: impl Fn(&ClusterAffinity) -> bool) -> bool {
    let placement = &spec.placement;
    let single = placement.cluster_affinity.as_ref();
    let terms = placement.cluster_affinities.iter();
    let mut all = single
        .into_iter()
        .chain(terms.map(|term| &term.affinity))
        .peekable();
    all.peek().is_none() || all.any(matches)
}

#[cfg(test)]
mod tests;
