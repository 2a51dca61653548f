//! Generated pods: as large, as diverse and as hard to compress as those of busy clusters.
//!
//! A pod is about 5 kB of JSON, of which more than 600 bytes are random: checksums, tokens, image
//! digests, container IDs. It depends on four numbers alone, so that a server with a million pods
//! stores none of them. The simulated API server serves them ([`Pod::write_metadata`],
//! [`Pod::write_rest`]), and load tests create them on real ones ([`Pod::manifest`],
//! [`Pod::status`]).

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::{json::push_number, template::Template};

/// How many namespaces the pods are spread over.
pub const NAMESPACES: u32 = 20;
const APPLICATIONS: u32 = 40;
const NODES: u32 = 50;
const TIERS: [&str; 4] = ["frontend", "backend", "cache", "batch"];

/// Members of the metadata that API servers set.
const SET_BY_SERVERS: [&str; 5] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
];

/// The numbers that determine a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    seed: u32,
    /// Determines the name and most of the content.
    number: u32,
    /// Distinguishes pods that had the same name one after another; determines the UID.
    life: u32,
    /// How often the status changed.
    round: u32,
}

/// The namespace of the pod with this number.
pub fn namespace(number: u32) -> String {
    format!("load-{:02}", number % NAMESPACES)
}

impl Pod {
    /// The first pod of a name, before any change of its status.
    pub fn new(seed: u32, number: u32) -> Self {
        Self {
            seed,
            number,
            life: 0,
            round: 0,
        }
    }

    /// The pod after the next change of its status.
    #[must_use]
    pub fn changed(self) -> Self {
        self.at_round(self.round + 1)
    }

    /// The pod after that many changes of its status.
    #[must_use]
    pub fn at_round(self, round: u32) -> Self {
        Self { round, ..self }
    }

    /// Another pod of this name.
    #[must_use]
    pub fn recreated(self, life: u32) -> Self {
        Self {
            life,
            round: 0,
            ..self
        }
    }

    /// The name: application, hash, number.
    pub fn name(self) -> String {
        format!("{}-{}-{:07}", self.application(), self.hash(), self.number)
    }

    /// The namespace in which the simulated API server has the pod.
    pub fn namespace(self) -> String {
        namespace(self.number)
    }

    fn application(self) -> String {
        format!("service-{:02}", self.number % APPLICATIONS)
    }

    fn hash(self) -> String {
        format!("7d9c6b{:04x}", self.number % APPLICATIONS * 977)
    }

    /// Random bits for one part of it.
    fn random(self, part: u64) -> Random {
        let numbers = (
            u64::from(self.seed) << 32 | u64::from(self.number),
            u64::from(self.life) << 32 | part,
        );
        Random(
            numbers.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ numbers.1.wrapping_mul(0xc2b2_ae3d_27d4_eb4f),
        )
    }

    /// The UID.
    pub fn uid(self) -> String {
        let hex = self.random(1).hex(32);
        format!(
            "{}-{}-4{}-a{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[13..16],
            &hex[17..20],
            &hex[20..]
        )
    }

    /// The creation timestamp.
    pub fn created(self) -> String {
        time(self.number, self.life)
    }

    /// The labels, in their order.
    pub fn labels(self) -> Vec<(String, String)> {
        let application = self.application();
        let track = if self.number.is_multiple_of(10) {
            "canary"
        } else {
            "stable"
        };
        let labels = [
            ("app.kubernetes.io/name", application.clone()),
            (
                "app.kubernetes.io/instance",
                format!("{application}-{}", self.number % 3),
            ),
            (
                "app.kubernetes.io/version",
                format!("1.{}.{}", self.number % 7, self.number % 11),
            ),
            ("pod-template-hash", self.hash()),
            ("tier", TIERS[self.number as usize % TIERS.len()].to_owned()),
            ("track", track.to_owned()),
        ];
        labels
            .map(|(label, value)| (label.to_owned(), value))
            .to_vec()
    }

    fn phase(self) -> &'static str {
        match self.number % 20 {
            7 => "Pending",
            13 => "Failed",
            _ => "Running",
        }
    }

    /// The pod as a controller creates it in a namespace: without status and without what API
    /// servers and their admission add.
    pub fn manifest(self, namespace: &str) -> Value {
        let mut metadata = self.object(metadata_template(), 2);
        metadata.retain(|member, _| !SET_BY_SERVERS.contains(&member.as_str()));
        metadata.insert("namespace".to_owned(), namespace.into());
        let mut spec = Value::from(self.object(spec_template(), 3));
        spec["tolerations"].take();
        for mounts in ["/volumes", "/containers/0/volumeMounts"] {
            if let Some(Value::Array(mounts)) = spec.pointer_mut(mounts) {
                mounts.retain(|mount| mount["name"] != "kube-api-access");
            }
        }
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }

    /// The status as a kubelet reports it: nine of ten pods run. It has one condition: the managed
    /// fields of a real API server are longer than those here, and the pod is to be as large there.
    pub fn status(self) -> Value {
        let mut status = self.object(status_template(), self.status_part());
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            conditions.retain(|condition| condition["type"] == "Ready");
        }
        status.into()
    }

    fn object(self, template: &Template<Hole>, part: u64) -> Map<String, Value> {
        let mut text = String::new();
        self.write(template, 0, self.random(part), &mut text);
        // A template is an object, and what fills it needs no escapes.
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes the metadata at a resource version.
    pub fn write_metadata(self, version: u64, out: &mut String) {
        self.write(metadata_template(), version, self.random(2), out);
    }

    /// Writes the members `spec` and `status`, each after a comma.
    pub fn write_rest(self, out: &mut String) {
        out.push_str(",\"spec\":");
        self.write(spec_template(), 0, self.random(3), out);
        out.push_str(",\"status\":");
        self.write(status_template(), 0, self.random(self.status_part()), out);
    }

    fn status_part(self) -> u64 {
        4 + u64::from(self.round)
    }

    fn write(self, template: &Template<Hole>, version: u64, mut random: Random, out: &mut String) {
        template.write(out, |hole, out| self.fill(hole, version, &mut random, out));
    }

    fn fill(self, hole: Hole, version: u64, random: &mut Random, out: &mut String) {
        let is_running = self.phase() == "Running";
        match hole {
            Hole::Name => out.push_str(&self.name()),
            Hole::Namespace => out.push_str(&namespace(self.number)),
            Hole::Application => push_application(self.number, out),
            Hole::Hash => out.push_str(&self.hash()),
            Hole::Uid => out.push_str(&self.uid()),
            Hole::OwnerUid => out.push_str(
                &Self {
                    number: self.number % APPLICATIONS,
                    life: 0,
                    ..self
                }
                .uid(),
            ),
            Hole::Version => push_number(out, version),
            Hole::Created => out.push_str(&self.created()),
            Hole::Changed => out.push_str(&time(self.number, self.round)),
            Hole::Labels => self.write_labels(out),
            Hole::Node => push_number(out, (self.number % NODES).into()),
            Hole::Restarts => push_number(out, self.round.into()),
            Hole::Address => push_address(self.number, out),
            Hole::Phase => out.push_str(self.phase()),
            Hole::Ready => out.push_str(if is_running { "True" } else { "False" }),
            Hole::Runs => out.push_str(if is_running { "true" } else { "false" }),
            Hole::State => self.write_state(out),
            Hole::Hex32 => random.push_hex(32, out),
            Hole::Hex48 => random.push_hex(48, out),
            Hole::Hex64 => random.push_hex(64, out),
            Hole::Ticket => random.push_base64(512, out),
        }
    }

    fn write_labels(self, out: &mut String) {
        for (index, (label, value)) in self.labels().iter().enumerate() {
            for part in [
                if index > 0 { ",\"" } else { "{\"" },
                label,
                "\":\"",
                value,
                "\"",
            ] {
                out.push_str(part);
            }
        }
        out.push('}');
    }

    fn write_state(self, out: &mut String) {
        let at = time(self.number, self.round);
        let (start, end) = match self.phase() {
            "Running" => ("{\"running\":{\"startedAt\":\"", "\"}}"),
            "Failed" => (
                "{\"terminated\":{\"exitCode\":1,\"reason\":\"Error\",\"finishedAt\":\"",
                "\"}}",
            ),
            _ => (
                "{\"waiting\":{\"reason\":\"ContainerCreating\",\"message\":\"since ",
                "\"}}",
            ),
        };
        for part in [start, &at, end] {
            out.push_str(part);
        }
    }
}

fn time(number: u32, round: u32) -> String {
    format!(
        "2026-01-{:02}T{:02}:{:02}:{:02}Z",
        round % 28 + 1,
        number % 24,
        number % 60,
        number % 59
    )
}

fn push_application(number: u32, out: &mut String) {
    let number = number % APPLICATIONS;
    out.push_str(if number < 10 { "service-0" } else { "service-" });
    push_number(out, number.into());
}

fn push_address(number: u32, out: &mut String) {
    out.push_str("10");
    for part in [number / 65_536 % 256, number / 256 % 256, number % 256] {
        out.push('.');
        push_number(out, part.into());
    }
}

/// What is different in each pod.
#[derive(Clone, Copy, Debug)]
enum Hole {
    Name,
    Namespace,
    Application,
    Hash,
    Uid,
    OwnerUid,
    Version,
    Created,
    Changed,
    Labels,
    Node,
    Restarts,
    Address,
    Phase,
    Ready,
    Runs,
    State,
    Hex32,
    Hex48,
    Hex64,
    Ticket,
}

fn metadata_template() -> &'static Template<Hole> {
    static TEMPLATE: LazyLock<Template<Hole>> = LazyLock::new(|| cut(&metadata()));
    &TEMPLATE
}

fn spec_template() -> &'static Template<Hole> {
    static TEMPLATE: LazyLock<Template<Hole>> = LazyLock::new(|| cut(&spec()));
    &TEMPLATE
}

fn status_template() -> &'static Template<Hole> {
    static TEMPLATE: LazyLock<Template<Hole>> = LazyLock::new(|| cut(&status()));
    &TEMPLATE
}

fn cut(value: &Value) -> Template<Hole> {
    Template::new(value, |name| {
        let hole = match name {
            "name" => Hole::Name,
            "namespace" => Hole::Namespace,
            "application" => Hole::Application,
            "hash" => Hole::Hash,
            "uid" => Hole::Uid,
            "owner uid" => Hole::OwnerUid,
            "version" => Hole::Version,
            "created" => Hole::Created,
            "changed" => Hole::Changed,
            "labels" => Hole::Labels,
            "node" => Hole::Node,
            "restarts" => Hole::Restarts,
            "address" => Hole::Address,
            "phase" => Hole::Phase,
            "ready" => Hole::Ready,
            "runs" => Hole::Runs,
            "state" => Hole::State,
            "hex32" => Hole::Hex32,
            "hex48" => Hole::Hex48,
            "hex64" => Hole::Hex64,
            "ticket" => Hole::Ticket,
            _ => return None,
        };
        Some(hole)
    })
}

fn metadata() -> Value {
    json!({
        "name": "<name>", "generateName": "<application>-<hash>-", "namespace": "<namespace>", "uid": "<uid>",
        "resourceVersion": "<version>", "generation": 1, "creationTimestamp": "<created>", "labels": "<<labels>>",
        "annotations": {
            "checksum/config": "<hex64>", "checksum/secrets": "<hex64>", "example.com/session-ticket": "<ticket>",
            "example.com/trace": "<hex32>",
        },
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "<application>-<hash>", "uid": "<owner uid>",
            "controller": true, "blockOwnerDeletion": true,
        }],
        "managedFields": [
            { "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "<created>",
                "fieldsType": "FieldsV1", "fieldsV1": controllers_fields() },
            { "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "<changed>", "fieldsType": "FieldsV1",
                "fieldsV1": kubelets_fields(), "subresource": "status" },
        ],
    })
}

fn controllers_fields() -> Value {
    json!({
        "f:metadata": {
            "f:annotations": { ".": {}, "f:checksum/config": {}, "f:checksum/secrets": {}, "f:example.com/session-ticket": {},
                "f:example.com/trace": {} },
            "f:generateName": {},
            "f:labels": { ".": {}, "f:app.kubernetes.io/name": {}, "f:pod-template-hash": {}, "f:tier": {}, "f:track": {} },
            "f:ownerReferences": { ".": {} },
        },
        "f:spec": {
            "f:containers": { "k:{\"name\":\"main\"}": { ".": {}, "f:env": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                "f:ports": {}, "f:resources": {}, "f:volumeMounts": {} } },
            "f:dnsPolicy": {}, "f:nodeName": {}, "f:restartPolicy": {}, "f:serviceAccountName": {}, "f:volumes": {},
        },
    })
}

fn kubelets_fields() -> Value {
    json!({ "f:status": {
        "f:conditions": {}, "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:podIPs": {}, "f:startTime": {},
    } })
}

fn spec() -> Value {
    let toleration = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
    json!({
        "volumes": [
            { "name": "config", "configMap": { "name": "<application>-config", "defaultMode": 420 } },
            { "name": "kube-api-access", "projected": { "defaultMode": 420, "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            ] } },
        ],
        "containers": [{
            "name": "main", "image": "registry.example.com/shop/<application>@sha256:<hex64>",
            "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
            "env": [{ "name": "SETTING_0", "value": "<hex48>" }, { "name": "SETTING_1", "value": "<hex48>" }],
            "resources": { "limits": { "cpu": "1", "memory": "512Mi" }, "requests": { "cpu": "100m", "memory": "128Mi" } },
            "volumeMounts": [
                { "name": "config", "readOnly": true, "mountPath": "/etc/service" },
                { "name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
            ],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        }],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "<application>", "serviceAccount": "<application>", "nodeName": "node-<node>",
        "securityContext": {}, "schedulerName": "default-scheduler",
        "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
        "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
    })
}

fn status() -> Value {
    let conditions = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let conditions = conditions
        .map(|kind| json!({ "type": kind, "status": "<ready>", "lastProbeTime": null, "lastTransitionTime": "<changed>" }));
    json!({
        "phase": "<phase>", "conditions": conditions, "hostIP": "192.168.0.<node>", "hostIPs": [{ "ip": "192.168.0.<node>" }],
        "podIP": "<address>", "podIPs": [{ "ip": "<address>" }], "startTime": "<created>",
        "containerStatuses": [{
            "name": "main", "state": "<<state>>", "lastState": {}, "ready": "<<runs>>", "restartCount": "<<restarts>>",
            "image": "registry.example.com/shop/<application>",
            "imageID": "registry.example.com/shop/<application>@sha256:<hex64>", "containerID": "containerd://<hex64>",
            "started": "<<runs>>",
        }],
        "qosClass": "Burstable",
    })
}

/// The longest random text.
const LONGEST: usize = 512;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Of these, only the first 16 are used.
const HEX: &[u8; 64] = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// `SplitMix64`: fast, and good enough to be hard to compress.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn push_hex(&mut self, digits: usize, out: &mut String) {
        self.push_digits(HEX, 4, digits, out);
    }

    fn push_base64(&mut self, digits: usize, out: &mut String) {
        self.push_digits(BASE64, 6, digits, out);
    }

    fn push_digits(&mut self, alphabet: &[u8; 64], bits: usize, digits: usize, out: &mut String) {
        let mut text = [b'0'; LONGEST];
        let text = &mut text[..digits.min(LONGEST)];
        for word in text.chunks_mut(64 / bits) {
            let mut random = self.next();
            for digit in word {
                // The lowest byte holds enough.
                *digit = alphabet[usize::from(random.to_le_bytes()[0]) & ((1 << bits) - 1)];
                random >>= bits;
            }
        }
        out.push_str(std::str::from_utf8(text).unwrap_or_default());
    }

    fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits);
        self.push_hex(digits, &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, io::Write as _};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn text(pod: Pod) -> String {
        let mut text = String::from("{\"metadata\":");
        pod.write_metadata(42, &mut text);
        pod.write_rest(&mut text);
        text.push('}');
        text
    }

    #[test]
    fn a_pod_is_valid_and_of_the_size_of_real_ones() {
        for number in [0, 7, 13, 123_456] {
            let pod = Pod::new(1, number);
            let text = text(pod);
            let value: Value = serde_json::from_str(&text).unwrap();
            let metadata = &value["metadata"];
            assert_eq!(metadata["labels"]["tier"], pod.labels()[4].1);
            assert_eq!(metadata["uid"], pod.uid());
            assert_eq!(metadata["resourceVersion"], "42");
            assert_eq!(metadata["namespace"], pod.namespace());
            assert_eq!(metadata["name"], pod.name());
            assert!(!text.contains('<'), "{text}");
            assert!((4_400..5_500).contains(&text.len()), "{}", text.len());
        }
    }

    #[test]
    fn a_pod_depends_on_its_numbers_alone() {
        let pod = Pod::new(1, 5);
        assert_eq!(text(pod), text(pod));
        assert_ne!(text(pod), text(pod.changed()));
        assert_eq!(pod.uid(), pod.changed().uid());
        assert_ne!(pod.uid(), pod.recreated(1).uid());
        assert_eq!(pod.name(), pod.recreated(1).name());
        assert_ne!(pod.uid(), Pod::new(2, 5).uid());
    }

    #[test]
    fn a_manifest_has_what_a_client_sends_and_names_its_namespace() {
        let pod = Pod::new(1, 5);
        let served: Value = serde_json::from_str(&text(pod)).unwrap();
        let created = pod.manifest("elsewhere");
        assert_eq!(created["metadata"]["namespace"], "elsewhere");
        for member in ["name", "labels", "annotations", "ownerReferences"] {
            assert_eq!(created["metadata"][member], served["metadata"][member]);
        }
        for member in SET_BY_SERVERS {
            assert_eq!(created["metadata"][member], Value::Null, "{member}");
        }
        let (spec, container) = (&created["spec"], &created["spec"]["containers"][0]);
        assert_eq!(spec["nodeName"], served["spec"]["nodeName"]);
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
        assert_eq!(container["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(spec["tolerations"], Value::Null);
        assert_eq!(created["status"], Value::Null);
    }

    #[test]
    fn a_reported_status_is_the_served_one_with_one_condition() {
        let pod = Pod::new(1, 5).changed();
        let mut served: Value = serde_json::from_str(&text(pod)).unwrap();
        let ready = served["status"]["conditions"][2].clone();
        assert_eq!(ready["type"], "Ready");
        served["status"]["conditions"] = json!([ready]);
        assert_eq!(pod.status(), served["status"]);
    }

    #[test]
    fn many_pods_together_keep_600_bytes_each_that_cannot_be_compressed() {
        let pods: Vec<Value> = (0..200)
            .map(|number| Pod::new(0, number).manifest("n"))
            .collect();
        let text = serde_json::to_vec(&pods).unwrap();
        let mut best = GzEncoder::new(Vec::new(), Compression::best());
        best.write_all(&text).unwrap();
        assert!(best.finish().unwrap().len() >= 200 * 600);
    }

    #[test]
    fn names_are_unique_and_short_enough() {
        let names: HashSet<String> = (0..2_000)
            .map(|number| Pod::new(0, number).name())
            .collect();
        assert_eq!(names.len(), 2_000);
        assert!(names.iter().all(|name| name.len() <= 63));
    }
}
