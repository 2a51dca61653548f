//! How much room there is in clusters, by their nodes and the pods that run on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_clusters::{Clusters, MemberState, watch::Collection};
use fleetdex_core::model::{ClusterName, Gvk, Resource, Scope};
use fleetdex_distribution::{
    placing::needs_room, plan::DistributionInputs, room::ClusterRoom, template_name::TemplateName,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    copy_memory::CopyMemory,
    reflector::{Reflect, Reflected},
};

/// What nodes and pods of one member may take.
const OF_MEMBER: usize = 128 << 20;
/// What is counted is this old at most, while pods change.
const OLDEST: Duration = Duration::from_secs(2);

/// After this time a cluster whose nodes and pods could not be read has no room.
const LONGEST_READ: Duration = Duration::from_secs(20);

/// Keeps what placing asks of a node or a pod.
struct ReflectRoom {
    has_changed: Arc<AtomicBool>,
    /// The members of the spec that are kept.
    spec: &'static [&'static str],
}

impl Reflect for ReflectRoom {
    type Kept = Arc<Value>;

    fn keep(&self, object: Value, _: Option<&Arc<Value>>) -> Option<(Arc<Value>, usize)> {
        let kept = kept(&object, self.spec);
        // A parsed value takes some five times its text.
        let bytes = 5 * kept.to_string().len();
        Some((Arc::new(kept), bytes))
    }

    fn changed(&self, _: &TemplateName, before: Option<&Arc<Value>>, now: Option<&Arc<Value>>) {
        if before != now {
            self.has_changed.store(true, Ordering::Relaxed);
        }
    }

    fn replaced(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }
}

fn kept(object: &Value, spec: &[&str]) -> Value {
    let pick = |from: &Value, names: &[&str]| {
        let found = names.iter().filter_map(|name| {
            let value = from.get(*name)?;
            Some(((*name).to_owned(), value.clone()))
        });
        Value::Object(found.collect::<Map<String, Value>>())
    };
    let mut spec = pick(&object["spec"], spec);
    for list in ["containers", "initContainers"] {
        if let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) {
            for container in containers {
                *container = pick(container, &["name", "resources", "restartPolicy"]);
            }
        }
    }
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": pick(&object["metadata"], &["name", "namespace", "labels"]),
        "spec": spec,
        "status": pick(&object["status"], &["phase", "allocatable", "conditions"]),
    })
}

/// The nodes and pods of one cluster.
struct ClusterObjects {
    connection: u64,
    since: Instant,
    nodes: Reflected<ReflectRoom>,
    pods: Reflected<ReflectRoom>,
    has_changed: Arc<AtomicBool>,
    counted: Option<(Instant, ClusterRoom)>,
}

/// Reads the room in clusters, while a policy divides replicas by it.
pub struct RoomReader {
    clusters: BTreeMap<ClusterName, ClusterObjects>,
    held: CopyMemory,
}

impl RoomReader {
    /// Holds as much of nodes and pods as `held` allows.
    pub fn new(held: CopyMemory) -> Self {
        Self {
            clusters: BTreeMap::new(),
            held,
        }
    }

    /// Adds the room in clusters to what a plan is made from, if a policy needs it. Returns whether
    /// it is known: a cluster that has just connected may be read any moment.
    pub fn add_to(&mut self, inputs: &mut DistributionInputs, clusters: &Clusters) -> bool {
        let mut policies = inputs.policies.iter();
        if !policies.any(|policy| needs_room(&policy.spec.placement)) {
            self.clusters.clear();
            return true;
        }
        let states = clusters.states();
        let connected: BTreeSet<&ClusterName> = states
            .iter()
            .filter(|(_, state)| state.connection.is_some())
            .map(|(name, _)| name)
            .collect();
        self.clusters.retain(|name, _| connected.contains(name));
        let mut is_known = true;
        for (name, state) in &states {
            self.follow(name, state);
            let Some(objects) = self.clusters.get_mut(name) else {
                continue;
            };
            match objects.room() {
                Some(room) => {
                    inputs.room.insert(name.as_str().to_owned(), room);
                }
                None => is_known &= objects.since.elapsed() >= LONGEST_READ,
            }
        }
        is_known
    }

    fn follow(&mut self, name: &ClusterName, state: &MemberState) {
        let Some(connection) = &state.connection else {
            return;
        };
        let known = self.clusters.get(name);
        if known.is_some_and(|known| known.connection == connection.id) {
            return;
        }
        let has_changed: Arc<AtomicBool> = Arc::default();
        let held = self.held.share(OF_MEMBER);
        let start = |kind: &str, plural: &str, namespaced, spec| {
            let collection = Collection {
                resource: Resource {
                    gvk: Gvk::new("", "v1", kind),
                    plural: plural.into(),
                    namespaced,
                },
                scope: Scope::All,
                label_selector: None,
                field_selector: None,
            };
            let reflect = ReflectRoom {
                has_changed: Arc::clone(&has_changed),
                spec,
            };
            Reflected::start(connection.client.clone(), collection, reflect, held.clone())
        };
        let objects = ClusterObjects {
            connection: connection.id,
            since: Instant::now(),
            nodes: start("Node", "nodes", false, &["taints", "unschedulable"]),
            pods: start(
                "Pod",
                "pods",
                true,
                &[
                    "nodeName",
                    "containers",
                    "initContainers",
                    "overhead",
                    "resources",
                    "nodeSelector",
                    "affinity",
                    "tolerations",
                ],
            ),
            has_changed,
            counted: None,
        };
        self.clusters.insert(name.clone(), objects);
    }
}

impl ClusterObjects {
    /// The room; `None` while it is not known.
    fn room(&mut self) -> Option<ClusterRoom> {
        if !self.nodes.is_complete() || !self.pods.is_complete() {
            // What was counted last is better than nothing.
            return self.counted.as_ref().map(|(_, room)| room.clone());
        }
        let is_old = |(since, _): &(Instant, ClusterRoom)| since.elapsed() >= OLDEST;
        if self.counted.as_ref().is_none_or(is_old)
            && (self.counted.is_none() || self.has_changed.swap(false, Ordering::Relaxed))
        {
            let (nodes, pods) = (self.nodes.all(), self.pods.all());
            let room = ClusterRoom::of_nodes(
                nodes.iter().map(|one| &**one),
                pods.iter().map(|one| &**one),
            );
            self.counted = Some((Instant::now(), room));
        }
        self.counted.as_ref().map(|(_, room)| room.clone())
    }
}
