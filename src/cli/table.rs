//! The columns that people are used to from kubectl, for the kinds where they are cheap to compute; `AGE` for all others.
//!
//! Objects come from the index, so everything is read defensively: what is absent shows as kubectl shows it.

mod pod;
mod workload;

use jiff::Timestamp;
use serde_json::Value;

pub use crate::server::table::human_duration;

/// What stands for nothing.
pub(crate) const NONE: &str = "<none>";

/// One column of a kind's table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its title.
    pub header: &'static str,
    /// Shown with `-o wide` only.
    pub wide: bool,
    cell: fn(&Object<'_>) -> String,
}

impl Column {
    /// What stands in this column for an object.
    pub fn cell(&self, object: &Object<'_>) -> String {
        (self.cell)(object)
    }
}

/// An object, at the moment that it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Object<'o> {
    /// The object.
    pub value: &'o Value,
    /// The moment.
    pub now: Timestamp,
}

impl<'o> Object<'o> {
    /// Text at a JSON pointer; empty text counts as absent.
    fn text(&self, pointer: &str) -> Option<&'o str> {
        self.value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn text_or_none(&self, pointer: &str) -> String {
        self.text(pointer).unwrap_or(NONE).to_owned()
    }

    /// A number at a JSON pointer; absent reads 0.
    fn number(&self, pointer: &str) -> i64 {
        self.value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &'o [Value] {
        self.value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn count(&self, pointer: &str) -> usize {
        self.value.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
    }

    /// How long ago the moment at a JSON pointer was.
    fn since(&self, pointer: &str) -> Option<String> {
        let moment: Timestamp = self.text(pointer)?.parse().ok()?;
        Some(human_duration(self.now.as_second() - moment.as_second()))
    }
}

/// The columns of a kind, after `NAME`.
pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "Pod") => pod::COLUMNS,
        ("", "Service") => SERVICE,
        ("", "Node") => NODE,
        ("", "Namespace") => NAMESPACE,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "Secret") => SECRET,
        ("", "PersistentVolumeClaim") => CLAIM,
        ("" | "events.k8s.io", "Event") => EVENT,
        ("apps", "Deployment") => workload::DEPLOYMENT,
        ("apps", "StatefulSet") => workload::STATEFUL_SET,
        ("apps", "DaemonSet") => workload::DAEMON_SET,
        ("apps", "ReplicaSet") => workload::REPLICA_SET,
        ("batch", "Job") => workload::JOB,
        ("batch", "CronJob") => workload::CRON_JOB,
        ("networking.k8s.io", "Ingress") => INGRESS,
        _ => OTHER,
    }
}

pub(crate) const fn column(header: &'static str, cell: fn(&Object<'_>) -> String) -> Column {
    Column { header, wide: false, cell }
}

pub(crate) const fn wide(header: &'static str, cell: fn(&Object<'_>) -> String) -> Column {
    Column { header, wide: true, cell }
}

pub(crate) const AGE: Column =
    column("AGE", |object| object.since("/metadata/creationTimestamp").unwrap_or_else(|| "<unknown>".to_owned()));

const OTHER: &[Column] = &[AGE];

const NAMESPACE: &[Column] = &[column("STATUS", |object| object.text_or_none("/status/phase")), AGE];

const CONFIG_MAP: &[Column] = &[column("DATA", |object| (object.count("/data") + object.count("/binaryData")).to_string()), AGE];

const SECRET: &[Column] =
    &[column("TYPE", |object| object.text_or_none("/type")), column("DATA", |object| object.count("/data").to_string()), AGE];

const CLAIM: &[Column] = &[
    column("STATUS", |object| {
        let terminating = object.text("/metadata/deletionTimestamp").map(|_| "Terminating");
        terminating.or(object.text("/status/phase")).unwrap_or_default().to_owned()
    }),
    column("VOLUME", |object| object.text("/spec/volumeName").unwrap_or_default().to_owned()),
    column("CAPACITY", |object| object.text("/status/capacity/storage").unwrap_or_default().to_owned()),
    column("ACCESS MODES", |object| {
        let short = |mode: &Value| match mode.as_str()? {
            "ReadWriteOnce" => Some("RWO"),
            "ReadOnlyMany" => Some("ROX"),
            "ReadWriteMany" => Some("RWX"),
            "ReadWriteOncePod" => Some("RWOP"),
            _ => None,
        };
        object.list("/status/accessModes").iter().filter_map(short).collect::<Vec<_>>().join(",")
    }),
    column("STORAGECLASS", |object| object.text("/spec/storageClassName").unwrap_or_default().to_owned()),
    AGE,
];

const EVENT: &[Column] = &[
    column("LAST SEEN", |object| {
        let moments = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/deprecatedLastTimestamp", "/firstTimestamp"];
        moments.iter().find_map(|pointer| object.since(pointer)).unwrap_or_else(|| "<unknown>".to_owned())
    }),
    column("TYPE", |object| object.text_or_none("/type")),
    column("REASON", |object| object.text_or_none("/reason")),
    column("OBJECT", |object| {
        let about = |field: &str| {
            ["involvedObject", "regarding"].iter().find_map(|owner| object.text(&format!("/{owner}/{field}"))).unwrap_or("")
        };
        format!("{}/{}", about("kind").to_ascii_lowercase(), about("name"))
    }),
    column("MESSAGE", |object| {
        let message = object.text("/message").or(object.text("/note")).unwrap_or_default();
        message.trim().replace('\n', " ")
    }),
];

const NODE: &[Column] = &[
    column("STATUS", |object| {
        let conditions = object.list("/status/conditions");
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        let status = ready.map_or("Unknown", |condition| if condition["status"] == "True" { "Ready" } else { "NotReady" });
        let cordoned = object.value.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
        format!("{status}{}", if cordoned { ",SchedulingDisabled" } else { "" })
    }),
    column("ROLES", |object| {
        let labels = object.value.pointer("/metadata/labels").and_then(Value::as_object);
        let roles = labels.into_iter().flatten().filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            label => label.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()),
        });
        let mut sorted: Vec<&str> = roles.collect();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.is_empty() { NONE.to_owned() } else { sorted.join(",") }
    }),
    AGE,
    column("VERSION", |object| object.text("/status/nodeInfo/kubeletVersion").unwrap_or_default().to_owned()),
    wide("INTERNAL-IP", |object| node_address(object, "InternalIP")),
    wide("EXTERNAL-IP", |object| node_address(object, "ExternalIP")),
    wide("OS-IMAGE", |object| object.text("/status/nodeInfo/osImage").unwrap_or("<unknown>").to_owned()),
    wide("KERNEL-VERSION", |object| object.text("/status/nodeInfo/kernelVersion").unwrap_or("<unknown>").to_owned()),
    wide("CONTAINER-RUNTIME", |object| object.text("/status/nodeInfo/containerRuntimeVersion").unwrap_or("<unknown>").to_owned()),
];

fn node_address(object: &Object<'_>, kind: &str) -> String {
    let addresses = object.list("/status/addresses");
    let found = addresses.iter().find(|address| address["type"] == kind);
    found.and_then(|address| address["address"].as_str()).unwrap_or(NONE).to_owned()
}

const SERVICE: &[Column] = &[
    column("TYPE", |object| object.text_or_none("/spec/type")),
    column("CLUSTER-IP", |object| object.text_or_none("/spec/clusterIP")),
    column("EXTERNAL-IP", external_address),
    column("PORT(S)", |object| {
        let ports: Vec<String> = object.list("/spec/ports").iter().map(service_port).collect();
        if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
    }),
    AGE,
    wide("SELECTOR", |object| labels(object, "/spec/selector")),
];

fn external_address(object: &Object<'_>) -> String {
    let mut addresses: Vec<&str> = Vec::new();
    let kind = object.text("/spec/type").unwrap_or_default();
    if kind == "ExternalName" {
        addresses.extend(object.text("/spec/externalName"));
    }
    if kind == "LoadBalancer" {
        let ingress = object.list("/status/loadBalancer/ingress").iter();
        addresses.extend(ingress.filter_map(|entry| entry["ip"].as_str().or(entry["hostname"].as_str())));
    }
    addresses.extend(object.list("/spec/externalIPs").iter().filter_map(Value::as_str));
    match (addresses.is_empty(), kind) {
        (true, "LoadBalancer") => "<pending>".to_owned(),
        (true, _) => NONE.to_owned(),
        (false, _) => addresses.join(","),
    }
}

fn service_port(port: &Value) -> String {
    let number = port["port"].as_i64().unwrap_or_default();
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    match port["nodePort"].as_i64() {
        Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

const INGRESS: &[Column] = &[
    column("CLASS", |object| object.text_or_none("/spec/ingressClassName")),
    column("HOSTS", |object| {
        let hosts: Vec<&str> = object.list("/spec/rules").iter().filter_map(|rule| rule["host"].as_str()).collect();
        if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }
    }),
    column("ADDRESS", |object| {
        let ingress = object.list("/status/loadBalancer/ingress").iter();
        ingress.filter_map(|entry| entry["ip"].as_str().or(entry["hostname"].as_str())).collect::<Vec<_>>().join(",")
    }),
    column("PORTS", |object| if object.list("/spec/tls").is_empty() { "80" } else { "80, 443" }.to_owned()),
    AGE,
];

/// `key=value` pairs of a map, sorted.
pub(crate) fn labels(object: &Object<'_>, pointer: &str) -> String {
    let map = object.value.pointer(pointer).and_then(Value::as_object);
    let mut pairs: Vec<String> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

#[cfg(test)]
mod tests;
