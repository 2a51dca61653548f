//! The copies of one kind in one member.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::watch::Collection;
use fleetdex_core::{
    model::{Resource, Scope},
    planted::{Bug, planted},
};
use fleetdex_distribution::{
    marks::CopyOrigin,
    object_text::ObjectText,
    template_name::{KindName, TemplateName},
    templates::CONTROL_PLANE_LABEL,
};
use fleetdex_interpreter::value::{list, text};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    copy_memory::CopyMemory,
    reflector::{Reflect, Reflected},
};

/// The names of objects to look at again.
#[derive(Default)]
pub struct LookAgain {
    names: Mutex<BTreeSet<TemplateName>>,
    /// There are some.
    pub notify: Notify,
}

impl LookAgain {
    /// Adds names.
    pub fn add(&self, names: impl IntoIterator<Item = TemplateName>) {
        self.names.lock().extend(names);
        self.notify.notify_one();
    }

    /// Takes all of them.
    pub fn take(&self) -> BTreeSet<TemplateName> {
        std::mem::take(&mut self.names.lock())
    }
}

/// An object of this control plane, as its cluster has it.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The object without its managed fields.
    pub object: ObjectText,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its version; 0 if that is not a number.
    pub version: u64,
    /// Whether an autoscaler sets its replicas.
    pub is_scaled: bool,
    /// Whether it will be gone when its finalizers are.
    pub is_being_deleted: bool,
}

impl Copy {
    /// Reads an object.
    pub fn of(mut object: Value) -> Self {
        let is_scaled = is_scaled(&object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("managedFields");
        }
        Self {
            uid: text(&object, &["metadata", "uid"]).into(),
            version: version(&object),
            is_being_deleted: !text(&object, &["metadata", "deletionTimestamp"]).is_empty(),
            object: ObjectText::from(&object),
            is_scaled,
        }
    }
}

/// The version of an object; 0 if that is not a number.
pub fn version(object: &Value) -> u64 {
    let version = text(object, &["metadata", "resourceVersion"]);
    version.parse().unwrap_or(0)
}

/// Whether an autoscaler sets the replicas of an object: a controller owns them by the subresource
/// `scale`. `kubectl scale` is a change by hand, and is repaired.
fn is_scaled(object: &Value) -> bool {
    let entries = list(object, &["metadata", "managedFields"]).iter();
    let mut scaling = entries
        .filter(|entry| entry["subresource"] == "scale" && entry["manager"] != "kubectl")
        .filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    scaling.next().is_some()
}

/// Selects the copies of a control plane.
fn label_selector(control_plane: &str) -> String {
    if planted(Bug::DistributionIgnoresControlPlane) {
        return CONTROL_PLANE_LABEL.to_owned();
    }
    format!("{CONTROL_PLANE_LABEL}={control_plane}")
}

struct ReflectCopies {
    origin: CopyOrigin,
    look_again: Arc<LookAgain>,
    kind: KindName,
    /// A complete list was read, or a view is not complete any more: all of the kind is looked at
    /// again.
    replaced: Arc<Mutex<BTreeSet<KindName>>>,
}

impl Reflect for ReflectCopies {
    type Kept = Copy;

    fn keep(&self, object: Value, _: Option<&Copy>) -> Option<(Copy, usize)> {
        let takes_any = planted(Bug::DistributionIgnoresControlPlane);
        if !self.origin.has_written(&object) && !takes_any {
            return None;
        }
        let copy = Copy::of(object);
        let bytes = copy.object.as_str().len();
        Some((copy, bytes))
    }

    fn changed(&self, name: &TemplateName, _: Option<&Copy>, now: Option<&Copy>) {
        if now.is_none() && planted(Bug::DistributionForgetsHandDeletion) {
            return;
        }
        self.look_again.add([name.clone()]);
    }

    fn replaced(&self) {
        self.replaced.lock().insert(self.kind.clone());
        self.look_again.notify.notify_one();
    }
}

/// The copies in one member, over one connection.
pub struct Copies {
    client: Client,
    origin: CopyOrigin,
    kinds: BTreeMap<KindName, (Resource, Reflected<ReflectCopies>)>,
    replaced: Arc<Mutex<BTreeSet<KindName>>>,
    held: CopyMemory,
    /// What is to be looked at again.
    pub look_again: Arc<LookAgain>,
}

impl Copies {
    /// The copies that a control plane has in a member.
    pub fn new(client: Client, origin: CopyOrigin, held: CopyMemory) -> Self {
        Self {
            client,
            origin,
            kinds: BTreeMap::new(),
            replaced: Arc::default(),
            held,
            look_again: Arc::default(),
        }
    }

    /// Follows these kinds, and no others. Returns the kinds whose resource is another one now.
    pub fn follow(&mut self, served: &BTreeMap<KindName, Resource>) -> Vec<KindName> {
        let mut changed = Vec::new();
        self.kinds.retain(|kind, (resource, _)| {
            let is_same = served.get(kind) == Some(resource);
            if !is_same {
                changed.push(kind.clone());
            }
            is_same
        });
        for (kind, resource) in served {
            if self.kinds.contains_key(kind) {
                continue;
            }
            changed.push(kind.clone());
            let collection = Collection {
                resource: resource.clone(),
                scope: Scope::All,
                label_selector: Some(label_selector(&self.origin.control_plane)),
                field_selector: None,
            };
            let reflect = ReflectCopies {
                origin: self.origin.clone(),
                look_again: Arc::clone(&self.look_again),
                kind: kind.clone(),
                replaced: Arc::clone(&self.replaced),
            };
            let client = self.client.clone();
            let reflected = Reflected::start(client, collection, reflect, self.held.clone());
            self.kinds
                .insert(kind.clone(), (resource.clone(), reflected));
        }
        changed
    }

    /// The kinds of which everything is to be looked at again.
    pub fn take_replaced(&self) -> BTreeSet<KindName> {
        std::mem::take(&mut self.replaced.lock())
    }

    /// The resource of a kind; `None`: the member does not serve it.
    pub fn resource(&self, kind: &KindName) -> Option<&Resource> {
        self.kinds.get(kind).map(|(resource, _)| resource)
    }

    /// Whether all copies of a kind are known.
    pub fn knows(&self, kind: &KindName) -> bool {
        let kind = self.kinds.get(kind);
        kind.is_some_and(|(_, reflected)| reflected.is_complete())
    }

    /// Whether all copies of all kinds are known.
    pub fn knows_all(&self) -> bool {
        let mut kinds = self.kinds.values();
        kinds.all(|(_, reflected)| reflected.is_complete())
    }

    /// Why not all copies of a kind are known.
    pub fn fault(&self, kind: &KindName) -> Option<String> {
        self.kinds.get(kind)?.1.fault()
    }

    /// One copy.
    pub fn get(&self, name: &TemplateName) -> Option<Copy> {
        let kind = name.kind_name();
        self.kinds.get(&kind)?.1.get(name)
    }

    /// The names of all copies of a kind.
    pub fn names(&self, kind: &KindName) -> Vec<TemplateName> {
        let kind = self.kinds.get(kind);
        kind.map(|(_, reflected)| reflected.names())
            .unwrap_or_default()
    }

    /// How many copies there are.
    pub fn count(&self) -> usize {
        let kinds = self.kinds.values();
        kinds.map(|(_, reflected)| reflected.count()).sum()
    }
}
