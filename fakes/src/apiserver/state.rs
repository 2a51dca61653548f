//! The state of a server, behind one lock that is never held across an await.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::Resource;
use jiff::Timestamp;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    fault::{Fault, FaultKind, Faults},
    identity::Identity,
    list::Counts,
    managed::Writer,
    name::Name,
    object::{Form, Object},
    observer::Observer,
    options::Options,
    resource::{key, split_key},
    status::Status,
    store::Etcd,
    stored::Stored,
};

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

#[derive(Debug)]
pub(super) struct State {
    pub(super) etcd: Etcd,
    pub(super) faults: Faults,
    pub(super) counts: Counts,
    pub(super) options: Options,
    /// Decides the effects of faults.
    pub(super) random: StdRng,
    /// Generates UIDs. It is separate, so that UIDs do not depend on the requests in between.
    identities: StdRng,
    /// Number of restarts; requests and watches from before a restart end.
    pub(super) run: u64,
    /// Requests for pods so far.
    pub(super) pod_requests: u64,
    /// The users who may do nothing.
    pub(super) denied: BTreeSet<String>,
    /// Called with each write of a client.
    pub(super) observer: Option<Observer>,
    started: Instant,
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        let mut state = Self {
            etcd: new_etcd(&options),
            faults: Faults::default(),
            counts: Counts::default(),
            random: StdRng::seed_from_u64(options.seed),
            identities: StdRng::seed_from_u64(options.seed ^ 0x1de7_717e),
            options,
            run: 0,
            pod_requests: 0,
            denied: BTreeSet::new(),
            observer: None,
            started: Instant::now(),
        };
        state.create_namespaces();
        state
    }

    fn create_namespaces(&mut self) {
        for name in NAMESPACES {
            let namespace = json!({ "metadata": { "name": name } });
            if let Err(error) = self.apply(&"namespaces".into(), namespace) {
                tracing::debug!(%error, "this server has no namespaces");
            }
        }
    }

    /// Creates the identity of a new object.
    pub(super) fn new_identity(&mut self) -> Identity {
        Identity {
            uid: uid(self.identities.random()),
            created: self.timestamp(),
            deleted: None,
        }
    }

    /// The time, as metadata has it.
    pub(super) fn timestamp(&self) -> String {
        let now = self.options.epoch + Instant::now().duration_since(self.started);
        Timestamp::from_second(now.as_second())
            .unwrap_or(now)
            .to_string()
    }

    pub(super) fn apply(&mut self, resource: &Name, object: Value) -> Result<Stored, Status> {
        self.apply_as(resource, object, None)
    }

    /// Creates or replaces an object, in the name of a writer.
    pub(super) fn apply_as(
        &mut self,
        resource: &Name,
        object: Value,
        writer: Option<&Writer>,
    ) -> Result<Stored, Status> {
        let Value::Object(object) = object else {
            return Err(Status::bad_request("the object is no JSON object"));
        };
        if !object.get("metadata").is_some_and(Value::is_object) {
            return Err(Status::bad_request("the object has no metadata"));
        }
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            Status::invalid("metadata.name: Required value: name or generateName is required")
        })?;
        let key = key(self.namespace_of(resource, metadata)?.as_deref(), name);
        let (revision, object) = self.put(resource, key.clone(), object, writer)?;
        Ok(stored(&key, revision, &object))
    }

    fn namespace_of(&self, resource: &Name, metadata: &Value) -> Result<Option<String>, Status> {
        if !self.etcd.table(resource)?.resource.namespaced {
            return Ok(None);
        }
        let namespace = metadata["namespace"]
            .as_str()
            .filter(|namespace| !namespace.is_empty());
        let namespace =
            namespace.ok_or_else(|| Status::bad_request("metadata.namespace: Required value"))?;
        Ok(Some(namespace.to_owned()))
    }

    pub(super) fn delete(
        &mut self,
        resource: &Name,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<bool, Status> {
        let key = key(namespace, name);
        if self.etcd.table(resource)?.get(&key).is_none() {
            return Ok(false);
        }
        self.remove(resource, &key).map(|_| true)
    }

    /// Writes at the next revision. A lag fault delays the event for watches.
    pub(super) fn write(
        &mut self,
        resource: &Name,
        key: Arc<str>,
        object: Option<Object>,
    ) -> Result<u64, Status> {
        let now = Instant::now();
        let lag = self
            .faults
            .strike(now, |fault| fault.kind() == FaultKind::Lag);
        let visible_at = match lag {
            Some(Fault::Lag(by)) => now + by,
            _ => now,
        };
        self.etcd.write(resource, key, object, now, visible_at)
    }

    pub(super) fn objects(
        &self,
        resource: &Name,
        namespace: Option<&str>,
    ) -> Result<Vec<Stored>, Status> {
        let table = self.etcd.table(resource)?;
        let prefix = namespace
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        let objects = table.scan(&prefix, "", self.etcd.revision());
        Ok(objects
            .map(|(key, revision, object)| stored(key, revision, object))
            .collect())
    }

    pub(super) fn object(
        &self,
        resource: &Name,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Status> {
        let table = self.etcd.table(resource)?;
        let Some((revision, object)) = table.get(&key(namespace, name)) else {
            return Ok(None);
        };
        let mut text = String::new();
        Form::new(&table.resource, false).object(object, revision, &mut text);
        let object =
            serde_json::from_str(&text).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Some(object))
    }

    pub(super) fn identity(&self) -> String {
        let namespaces = self.etcd.table(&"namespaces".into()).ok();
        namespaces
            .and_then(|table| table.get("kube-system"))
            .map(|(_, object)| object.identity().uid)
            .unwrap_or_default()
    }

    pub(super) fn heal(&mut self) {
        self.faults.heal();
        self.etcd.make_all_visible(Instant::now());
    }

    pub(super) fn restart(&mut self) {
        self.run += 1;
        self.etcd.empty_caches();
    }

    pub(super) fn restore(&mut self, revision: u64) -> Result<(), Status> {
        self.etcd.restore(revision)?;
        self.counts = Counts::default();
        self.restart();
        Ok(())
    }

    pub(super) fn recreate(&mut self) {
        let before = std::mem::replace(&mut self.etcd, new_etcd(&self.options));
        self.counts = Counts::default();
        self.create_namespaces();
        self.restart();
        before.notify_all();
    }
}

fn new_etcd(options: &Options) -> Etcd {
    let resources: Vec<Resource> = options.resources.clone();
    Etcd::new(resources, options.cached_events, options.first_revision)
}

fn stored(key: &str, version: u64, object: &Object) -> Stored {
    let (namespace, name) = split_key(key);
    Stored {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        uid: object.identity().uid,
        version,
    }
}

/// Adds the fields that an API server adds to a namespace: the name label, a finalizer and a phase.
pub(super) fn complete_namespace(name: &str, object: &mut Map<String, Value>) {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    let labels = &mut object["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/metadata.name"] = name.into();
    object
        .entry("spec")
        .or_insert_with(|| json!({ "finalizers": ["kubernetes"] }));
    object
        .entry("status")
        .or_insert_with(|| json!({ "phase": "Active" }));
}

/// Formats a random UID (RFC 9562, version 4).
fn uid(random: u128) -> String {
    let bits = random & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_has_the_version_and_variant_bits_of_a_random_uuid() {
        assert_eq!(uid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
