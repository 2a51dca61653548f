//! The objects of the control plane that distribution looks at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{
    discovery::{Discovery, ServedResource},
    fetch::DiscoveryCache,
    watch::Collection,
};
use fleetdex_core::model::{Gvk, Resource, Scope, causes};
use fleetdex_distribution::template_name::{KindName, TemplateName};
use fleetdex_interpreter::value::list;
use kube::Client;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    changed_objects::ChangedObjects,
    copy_memory::CopyMemory,
    object_client::FIELD_MANAGER,
    reflector::{Reflect, Reflected},
};

/// How long one response of the discovery may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often is read what the control plane serves.
const DISCOVER_AGAIN: Duration = Duration::from_secs(10);
/// The same while a kind that policies select is not served.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(1);

/// The kinds that are always looked at.
pub mod kinds {
    use fleetdex_distribution::sets::{SET_API_VERSION, SET_KIND};

    /// Which objects go where.
    pub const PROPAGATION_POLICY: (&str, &str) =
        ("policy.karmada.io/v1alpha1", "PropagationPolicy");
    /// The same for all namespaces.
    pub const CLUSTER_PROPAGATION_POLICY: (&str, &str) =
        ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy");
    /// How objects differ.
    pub const OVERRIDE_POLICY: (&str, &str) = ("policy.karmada.io/v1alpha1", "OverridePolicy");
    /// The same for all namespaces.
    pub const CLUSTER_OVERRIDE_POLICY: (&str, &str) =
        ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy");
    /// Where namespaced objects are.
    pub const BINDING: (&str, &str) = ("work.karmada.io/v1alpha2", "ResourceBinding");
    /// Where cluster-scoped objects are.
    pub const CLUSTER_BINDING: (&str, &str) =
        ("work.karmada.io/v1alpha2", "ClusterResourceBinding");
    /// Which workloads are placed anew.
    pub const REBALANCER: (&str, &str) = ("apps.karmada.io/v1alpha1", "WorkloadRebalancer");
    /// Member clusters.
    pub const CLUSTER: (&str, &str) = ("cluster.karmada.io/v1alpha1", "Cluster");
    /// Which objects are placed first.
    pub const PRIORITY_CLASS: (&str, &str) = ("scheduling.k8s.io/v1", "PriorityClass");
    /// Sets of objects from charts and folders.
    pub const SET: (&str, &str) = (SET_API_VERSION, SET_KIND);
    /// Namespaces, which are made where objects need them.
    pub const NAMESPACE: (&str, &str) = ("v1", "Namespace");

    /// Without these nothing can be distributed.
    pub const REQUIRED: [(&str, &str); 7] = [
        PROPAGATION_POLICY,
        CLUSTER_PROPAGATION_POLICY,
        OVERRIDE_POLICY,
        CLUSTER_OVERRIDE_POLICY,
        BINDING,
        CLUSTER_BINDING,
        NAMESPACE,
    ];
    /// Looked at where they are served.
    pub const OPTIONAL: [(&str, &str); 3] = [REBALANCER, CLUSTER, SET];
}

/// The text of a kind's name.
pub fn kind_name((api_version, kind): (&str, &str)) -> KindName {
    (api_version.to_owned(), kind.to_owned())
}

/// An object of the control plane.
#[derive(Clone, Debug)]
pub struct ControlPlaneObject {
    /// The object without its status and what changes with every write.
    pub object: Arc<Value>,
    /// Its status.
    pub status: Arc<Value>,
    /// Whether a controller of the control plane itself writes its status.
    pub has_controller: bool,
}

impl ControlPlaneObject {
    /// Whether nothing of it has changed.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object) && Arc::ptr_eq(&self.status, &other.status)
    }
}

struct ReflectControlPlane {
    changed: Arc<Notify>,
    changes: Arc<ChangedObjects>,
}

impl Reflect for ReflectControlPlane {
    type Kept = ControlPlaneObject;

    /// What has not changed is the same value as before: much is known by that.
    fn keep(
        &self,
        mut object: Value,
        before: Option<&ControlPlaneObject>,
    ) -> Option<(ControlPlaneObject, usize)> {
        let has_controller = list(&object, &["metadata", "managedFields"])
            .iter()
            .any(|entry| {
                let manager = entry["manager"].as_str().unwrap_or_default();
                let is_distributor = manager == FIELD_MANAGER || manager.contains("karmada");
                entry["subresource"] == "status" && !is_distributor
            });
        let mut status = Value::Null;
        if let Some(members) = object.as_object_mut() {
            status = members.shift_remove("status").unwrap_or_default();
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("managedFields");
            metadata.shift_remove("resourceVersion");
        }
        let kept = ControlPlaneObject {
            object: same_or_new(object, before.map(|before| &before.object)),
            status: same_or_new(status, before.map(|before| &before.status)),
            has_controller,
        };
        Some((kept, 0))
    }

    /// A status that changes asks for no other plan.
    fn changed(
        &self,
        name: &TemplateName,
        before: Option<&ControlPlaneObject>,
        now: Option<&ControlPlaneObject>,
    ) {
        let is_same = match (before, now) {
            (Some(before), Some(now)) => Arc::ptr_eq(&before.object, &now.object),
            _ => false,
        };
        if !is_same {
            self.changes.add(name);
        }
    }

    fn replaced(&self) {
        self.changed.notify_one();
    }
}

fn same_or_new(value: Value, before: Option<&Arc<Value>>) -> Arc<Value> {
    match before {
        Some(before) if **before == value => Arc::clone(before),
        _ => Arc::new(value),
    }
}

type Followed = BTreeMap<KindName, (Resource, Arc<Reflected<ReflectControlPlane>>)>;

/// The objects of the followed kinds. Clones share them.
#[derive(Clone, Default)]
pub struct ControlPlaneObjects(Arc<RwLock<Followed>>);

impl ControlPlaneObjects {
    fn kind(&self, kind: &KindName) -> Option<Arc<Reflected<ReflectControlPlane>>> {
        let followed = self.0.read();
        followed
            .get(kind)
            .map(|(_, reflected)| Arc::clone(reflected))
    }

    /// Whether all objects of all followed kinds are known.
    pub fn is_complete(&self) -> bool {
        let followed = self.0.read();
        followed.values().all(|(_, kind)| kind.is_complete())
    }

    /// Whether a kind may be known any moment that never was.
    pub fn awaits_any(&self) -> bool {
        let followed = self.0.read();
        followed.values().any(|(_, kind)| kind.is_awaited())
    }

    /// Whether all objects of a kind are known.
    pub fn knows(&self, kind: (&str, &str)) -> bool {
        let followed = self.kind(&kind_name(kind));
        followed.is_some_and(|followed| followed.is_complete())
    }

    /// Why not all objects are known.
    pub fn faults(&self) -> Vec<String> {
        let followed = self.0.read();
        let faults = followed.iter().filter_map(|((_, kind), (_, reflected))| {
            let fault = reflected.fault()?;
            Some(format!("{kind}: {fault}"))
        });
        faults.collect()
    }

    /// All objects of a kind.
    pub fn objects(&self, kind: (&str, &str)) -> Vec<ControlPlaneObject> {
        let followed = self.kind(&kind_name(kind));
        followed.map(|followed| followed.all()).unwrap_or_default()
    }

    /// All objects of a kind, with their names.
    pub fn named_objects(&self, kind: &KindName) -> Vec<(TemplateName, ControlPlaneObject)> {
        let followed = self.kind(kind);
        followed
            .map(|followed| followed.named())
            .unwrap_or_default()
    }

    /// One object.
    pub fn object(&self, name: &TemplateName) -> Option<ControlPlaneObject> {
        let kind = name.kind_name();
        self.kind(&kind)?.get(name)
    }

    /// The kinds that are followed.
    pub fn followed(&self) -> BTreeSet<KindName> {
        self.0.read().keys().cloned().collect()
    }
}

/// Follows the objects of the control plane that distribution looks at.
pub struct ControlPlane {
    client: Client,
    served: watch::Receiver<Arc<Discovery>>,
    looks_for_kinds: watch::Sender<bool>,
    objects: ControlPlaneObjects,
    changed: Arc<Notify>,
    changes: Arc<ChangedObjects>,
    _discovery: AbortOnDropHandle<()>,
}

impl ControlPlane {
    /// `changed` is notified when anything may have changed, and not of changes of objects: see
    /// [`ControlPlane::changed_objects`].
    pub fn new(client: Client, changed: Arc<Notify>) -> Self {
        let (sender, served) = watch::channel(Arc::default());
        let looks_for_kinds = watch::Sender::new(false);
        let discovery = discover(client.clone(), sender, looks_for_kinds.subscribe());
        Self {
            client,
            served,
            looks_for_kinds,
            objects: ControlPlaneObjects::default(),
            changed,
            changes: Arc::default(),
            _discovery: AbortOnDropHandle::new(tokio::spawn(discovery)),
        }
    }

    /// The objects of the followed kinds.
    pub fn objects(&self) -> &ControlPlaneObjects {
        &self.objects
    }

    /// The objects that change.
    pub fn changed_objects(&self) -> &Arc<ChangedObjects> {
        &self.changes
    }

    /// What the control plane serves.
    pub fn served(&self) -> watch::Receiver<Arc<Discovery>> {
        self.served.clone()
    }

    /// Whether to look often for kinds that are not served yet.
    pub fn look_for_kinds(&self, looks: bool) {
        self.looks_for_kinds
            .send_if_modified(|before| std::mem::replace(before, looks) != looks);
    }

    /// The resource of a kind; `None`: it is not served.
    pub fn resource(&self, kind: &KindName) -> Option<Resource> {
        resource_of(&self.served.borrow(), kind)
    }

    /// Follows these kinds, and no others. Those that are not served are left out.
    pub fn follow(&self, wanted: &BTreeSet<KindName>) {
        let served: BTreeMap<&KindName, Resource> = wanted
            .iter()
            .filter_map(|kind| Some((kind, self.resource(kind)?)))
            .collect();
        let mut followed = self.objects.0.write();
        followed.retain(|kind, (resource, _)| served.get(kind) == Some(resource));
        for (kind, resource) in served {
            if followed.contains_key(kind) {
                continue;
            }
            let collection = Collection {
                resource: resource.clone(),
                scope: Scope::All,
                label_selector: None,
                field_selector: None,
            };
            let reflect = ReflectControlPlane {
                changed: Arc::clone(&self.changed),
                changes: Arc::clone(&self.changes),
            };
            let held = CopyMemory::limited_to(usize::MAX);
            let reflected = Reflected::start(self.client.clone(), collection, reflect, held);
            followed.insert(kind.clone(), (resource, Arc::new(reflected)));
        }
    }
}

/// Reads again and again what the control plane serves.
async fn discover(
    client: Client,
    served: watch::Sender<Arc<Discovery>>,
    mut looks_for_kinds: watch::Receiver<bool>,
) {
    let mut cache = DiscoveryCache::default();
    loop {
        match cache.refresh(&client, DISCOVERY_TIMEOUT).await {
            Ok(found) => {
                served.send_if_modified(|before| {
                    let is_other = !Arc::ptr_eq(before, &found);
                    *before = found;
                    is_other
                });
            }
            Err(error) => {
                tracing::warn!(error = %causes(&error), "cannot read what the control plane serves");
            }
        }
        let pause = if *looks_for_kinds.borrow_and_update() {
            LOOK_FOR_KINDS
        } else {
            DISCOVER_AGAIN
        };
        tokio::select! {
            () = sleep(pause) => {}
            changed = looks_for_kinds.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// The resource of a kind that is served.
pub fn resource_of(discovery: &Discovery, (api_version, kind): &KindName) -> Option<Resource> {
    let gvk = Gvk::from_api_version(api_version, kind);
    let is_it = |served: &&ServedResource| served.list_and_watch && served.resource.gvk == gvk;
    let served = discovery.served.iter().find(is_it)?;
    Some(served.resource.clone())
}
