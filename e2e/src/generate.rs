//! Random objects and selectors, as diverse and as awkward as API servers accept. Equal seeds
//! generate equal ones.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fleetdex_core::{
    kinds,
    model::{FieldPath, FieldType, Gvk, Resource, SelectableField},
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

/// The environment variable that sets the seed, to reproduce a failure.
pub const SEED_VARIABLE: &str = "FLEETDEX_SEED";

/// Namespaces of generated objects; one name is the start of another.
pub const NAMESPACES: [&str; 5] = ["web", "web-2", "shop", "data", "x"];

/// Label keys: plain, dotted, prefixed, words of the grammar, upper case, and keys that start like
/// other keys.
const KEYS: [&str; 12] = [
    "app",
    "app.kubernetes.io/name",
    "app-x",
    "a",
    "tier",
    "Tier",
    "canary",
    "in",
    "weight",
    "weight.x",
    "example.com/weight",
    "never.set/anywhere",
];
const WORDS: [&str; 9] = [
    "web", "api", "db", "", "cache", "notin", "Web", "x.y", "web-2",
];
/// Values that `>` and `<` read as numbers, and values that only look like numbers.
const NUMBERS: [&str; 18] = [
    "0",
    "3",
    "007",
    "7",
    "10",
    "9",
    "100",
    "00",
    "1-5",
    "0x10",
    "1e3",
    "1.5",
    "v3",
    "1_000",
    "",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999",
];
const BOUNDS: [&str; 8] = [
    "0",
    "3",
    "007",
    "8",
    "10",
    "99",
    "1000",
    "9223372036854775807",
];
/// Values that a field selector has to escape, and values that look like its syntax.
const AWKWARD: [&str; 8] = [
    r"a,b=c\d", "x=y", "red,blue", r"\", "(x)", "in (a)", " padded ", "é🚀",
];
/// Selectors that API servers refuse, or accept unexpectedly.
const ODD_LABELS: [&str; 26] = [
    "",
    ",",
    "app,",
    ",app",
    "app==",
    "app=,tier",
    "app!=",
    "app=a b",
    "app in",
    "app in ()",
    "app in (,)",
    "app in (a",
    "in",
    "in in (in)",
    "notin notin (notin)",
    "!",
    "!!app",
    "app>",
    "weight>-1",
    "weight>1.5",
    "weight>9223372036854775808",
    "weight<007",
    "-a",
    "a/b/c",
    "UPPER.example/x",
    "app=x,app!=x",
];
const ODD_FIELDS: [&str; 22] = [
    "",
    ",",
    "=",
    "!=",
    "==",
    "metadata.name",
    "metadata.name=,",
    "metadata.name=a=b",
    r"metadata.name=\a",
    r"metadata.name=a\",
    " metadata.name=a",
    "metadata.name =a",
    "metadata.name= a",
    "metadata.uid=a",
    "metadata.labels=a",
    "spec.nodeName=",
    "spec.host!=",
    "status.podIPs=10.0.0.1",
    "status.podIPs!=10.0.0.1",
    "type=",
    "spec.color=",
    "metadata.namespace=",
];

/// The seed from [`SEED_VARIABLE`], or a new one.
pub fn seed() -> Result<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{SEED_VARIABLE} is {text:?}, which is no whole number")),
        Err(_) => Ok(rand::random()),
    }
}

/// A kind whose objects are generated or at least compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// The resource.
    pub resource: Resource,
    /// Selectable fields: those of a built-in kind, or those of the custom resource definition.
    pub fields: Vec<SelectableField>,
    /// The field labels that a field selector may name.
    pub labels: Vec<String>,
}

impl Family {
    fn built_in(group: &str, plural: &str) -> Result<Self> {
        let found = kinds::find_plural(group, plural);
        let built_in = found.with_context(|| format!("{plural} of {group:?} is not built in"))?;
        let gvk = built_in.gvk();
        Ok(Self {
            resource: built_in.resource(),
            fields: kinds::selectable_fields(&gvk).unwrap_or_default().to_vec(),
            labels: kinds::field_labels(&gvk)
                .map(|(label, _)| label.to_owned())
                .collect(),
        })
    }

    fn widgets() -> Self {
        let paths = ["spec.color", "spec.size", "spec.on"];
        let field = |path: &str| SelectableField {
            path: FieldPath::new(path),
            sources: vec![FieldPath::new(path)],
            kind: FieldType::Optional,
        };
        let resource = Resource {
            gvk: Gvk::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            namespaced: true,
        };
        let labels = ["metadata.name", "metadata.namespace"].iter().chain(&paths);
        Self {
            resource,
            fields: paths.map(field).to_vec(),
            labels: labels.map(|label| (*label).to_owned()).collect(),
        }
    }
}

/// Every kind of [`objects`], and Events once more as another group serves them.
pub fn families() -> Result<Vec<Family>> {
    let core = [
        "pods",
        "secrets",
        "services",
        "events",
        "namespaces",
        "nodes",
        "configmaps",
        "replicationcontrollers",
    ];
    let others = [
        ("batch", "jobs"),
        ("resource.k8s.io", "resourceslices"),
        ("events.k8s.io", "events"),
    ];
    let built_in = core.map(|plural| ("", plural)).into_iter().chain(others);
    let families = built_in.map(|(group, plural)| Family::built_in(group, plural));
    families.chain([Ok(Family::widgets())]).collect()
}

/// The definition of a custom resource with a selectable field of every type.
pub fn widget_definition() -> Value {
    let spec = json!({ "type": "object", "properties": {
        "color": { "type": "string" }, "size": { "type": "integer" }, "on": { "type": "boolean" },
    } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
                "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }, { "jsonPath": ".spec.on" }],
            }],
        },
    })
}

/// An object to create, and its status.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Group and plural.
    pub resource: (&'static str, &'static str),
    /// The object.
    pub object: Value,
    /// Its status; absent: the API server's own.
    pub status: Option<Value>,
    /// Delete it at once. A namespace then stays Terminating, as no controller empties it.
    pub delete: bool,
}

/// Makes objects and selectors.
#[derive(Debug)]
pub struct Generator {
    random: StdRng,
}

impl Generator {
    /// A generator whose output depends only on the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// 300 objects: first the namespaces, then all others in [`NAMESPACES`] or in none. Widgets
    /// need [`widget_definition`].
    pub fn objects(&mut self) -> Vec<Planned> {
        let counts: [(&'static str, &'static str, usize); 11] = [
            ("", "namespaces", 10),
            ("", "nodes", 12),
            ("", "pods", 178),
            ("", "secrets", 16),
            ("", "services", 12),
            ("", "events", 20),
            ("", "configmaps", 10),
            ("", "replicationcontrollers", 8),
            ("batch", "jobs", 10),
            ("resource.k8s.io", "resourceslices", 8),
            ("example.com", "widgets", 16),
        ];
        let mut planned = Vec::new();
        for (group, plural, count) in counts {
            planned.extend((0..count).map(|number| self.object((group, plural), number)));
        }
        planned
    }

    fn object(&mut self, resource: (&'static str, &'static str), number: usize) -> Planned {
        let (plural, namespace) = (resource.1, NAMESPACES[number % NAMESPACES.len()]);
        let (mut object, status) = match plural {
            "namespaces" => (json!({ "apiVersion": "v1", "kind": "Namespace" }), None),
            "nodes" => (self.node(), None),
            "pods" => self.pod(),
            "secrets" => (self.secret(), None),
            "services" => (self.service(), None),
            "events" => (self.event(namespace), None),
            "configmaps" => (
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "search": "x" } }),
                None,
            ),
            "replicationcontrollers" => self.replication_controller(),
            "jobs" => self.job(),
            "resourceslices" => (self.resource_slice(), None),
            _ => (self.widget(), None),
        };
        let is_namespaced = !matches!(plural, "namespaces" | "nodes" | "resourceslices");
        let name = match (plural, NAMESPACES.get(number)) {
            ("namespaces", Some(name)) => (*name).to_owned(),
            _ => format!("{plural}-{number}"),
        };
        object["metadata"] = json!({ "name": name, "labels": self.labels() });
        if is_namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        let delete =
            plural == "namespaces" && number >= NAMESPACES.len() && number.is_multiple_of(2);
        Planned {
            resource,
            object,
            status,
            delete,
        }
    }

    fn labels(&mut self) -> BTreeMap<&'static str, &'static str> {
        let mut labels = BTreeMap::new();
        for key in &KEYS[..KEYS.len() - 1] {
            if self.random.random_bool(0.45) {
                labels.insert(*key, self.label_value(key));
            }
        }
        labels
    }

    fn label_value(&mut self, key: &str) -> &'static str {
        if key.contains("weight") {
            self.one_of(&NUMBERS)
        } else {
            self.one_of(&WORDS[..6])
        }
    }

    fn node(&mut self) -> Value {
        let spec = match self.random.random_range(0..3) {
            0 => json!({ "unschedulable": true }),
            1 => json!({ "unschedulable": false }),
            _ => json!({}),
        };
        json!({ "apiVersion": "v1", "kind": "Node", "spec": spec })
    }

    fn pod(&mut self) -> (Value, Option<Value>) {
        let mut spec = json!({ "containers": [{ "name": "main", "image": "example.com/main" }] });
        self.maybe(&mut spec, "nodeName", &["node-1", "node-2", "node-10"]);
        self.maybe(
            &mut spec,
            "restartPolicy",
            &["Always", "Never", "OnFailure"],
        );
        self.maybe(&mut spec, "schedulerName", &["default-scheduler", "packer"]);
        self.maybe(
            &mut spec,
            "serviceAccountName",
            &["default", "builder", "web"],
        );
        if self.random.random_bool(0.4) {
            spec["hostNetwork"] = self.random.random_bool(0.7).into();
        }
        let mut status = json!({});
        self.maybe(
            &mut status,
            "phase",
            &["Running", "Pending", "Failed", "Succeeded"],
        );
        if spec["nodeName"].is_null() {
            self.maybe(&mut status, "nominatedNodeName", &["node-1", "node-2"]);
        }
        if self.random.random_bool(0.5) {
            let address = format!("10.0.0.{}", self.random.random_range(1..6));
            status["podIPs"] = json!([{ "ip": address }]);
            status["podIP"] = address.into();
        }
        let status = self.random.random_bool(0.8).then_some(status);
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec }),
            status,
        )
    }

    fn secret(&mut self) -> Value {
        let mut secret =
            json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "key": "value" } });
        let odd = self.one_of(&AWKWARD);
        self.maybe(&mut secret, "type", &["Opaque", "example.com/token", odd]);
        secret
    }

    fn service(&mut self) -> Value {
        let mut spec = json!({ "ports": [{ "port": 80 }] });
        match self.random.random_range(0..4) {
            0 => spec = json!({ "type": "ExternalName", "externalName": "example.com" }),
            1 => spec["clusterIP"] = "None".into(),
            2 => spec["type"] = "NodePort".into(),
            _ => {}
        }
        json!({ "apiVersion": "v1", "kind": "Service", "spec": spec })
    }

    fn event(&mut self, namespace: &str) -> Value {
        let mut involved = json!({ "namespace": namespace });
        self.maybe(&mut involved, "kind", &["Pod", "Job"]);
        self.maybe(&mut involved, "name", &["pods-0", "pods-1", "jobs-0"]);
        self.maybe(&mut involved, "uid", &["uid-1", "uid-2"]);
        self.maybe(&mut involved, "apiVersion", &["v1", "batch/v1"]);
        self.maybe(&mut involved, "resourceVersion", &["7", "70"]);
        self.maybe(
            &mut involved,
            "fieldPath",
            &["spec.containers{main}", "spec"],
        );
        let mut event = json!({ "apiVersion": "v1", "kind": "Event", "involvedObject": involved });
        let odd = self.one_of(&AWKWARD);
        self.maybe(&mut event, "reason", &["Started", "Killing", odd]);
        self.maybe(&mut event, "type", &["Normal", "Warning"]);
        self.maybe(
            &mut event,
            "reportingComponent",
            &["kubelet", "example.com/controller"],
        );
        let mut source = json!({});
        self.maybe(&mut source, "component", &["kubelet", "scheduler"]);
        event["source"] = source;
        event
    }

    fn replication_controller(&mut self) -> (Value, Option<Value>) {
        let template = json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/main" }] },
        });
        let spec = json!({ "replicas": 2, "selector": { "app": "web" }, "template": template });
        let status = json!({ "replicas": self.random.random_range(0..3) });
        (
            json!({ "apiVersion": "v1", "kind": "ReplicationController", "spec": spec }),
            Some(status),
        )
    }

    fn job(&mut self) -> (Value, Option<Value>) {
        let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.com/main" }] } });
        let spec = json!({ "template": template, "parallelism": 3, "completions": 20 });
        let status = json!({ "succeeded": self.random.random_range(0..12) });
        (
            json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": spec }),
            Some(status),
        )
    }

    fn resource_slice(&mut self) -> Value {
        let node = self.one_of(&["node-1", "node-2"]);
        let mut spec = json!({ "driver": self.one_of(&["gpu.example.com", "nic.example.com"]) });
        spec["pool"] = json!({ "name": node, "generation": 1, "resourceSliceCount": 1 });
        if self.random.random_bool(0.6) {
            spec["nodeName"] = node.into();
        } else {
            spec["allNodes"] = true.into();
        }
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec })
    }

    fn widget(&mut self) -> Value {
        let mut spec = json!({});
        let odd = self.one_of(&AWKWARD);
        self.maybe(&mut spec, "color", &["red", "blue", "", odd]);
        if self.random.random_bool(0.6) {
            spec["size"] = self.random.random_range(-1..3).into();
        }
        if self.random.random_bool(0.6) {
            spec["on"] = self.random.random_bool(0.5).into();
        }
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "spec": spec })
    }

    /// Sets a field to one of the values, or leaves it out.
    fn maybe(&mut self, object: &mut Value, key: &str, values: &[&str]) {
        if self.random.random_bool(0.7) {
            object[key] = values
                .choose(&mut self.random)
                .copied()
                .unwrap_or_default()
                .into();
        }
    }

    fn one_of(&mut self, values: &[&'static str]) -> &'static str {
        values.choose(&mut self.random).copied().unwrap_or_default()
    }
}

/// Generated selectors for one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedSelectors {
    /// Only this namespace; absent: all.
    pub namespace: Option<&'static str>,
    /// The label selector.
    pub labels: String,
    /// The field selector.
    pub fields: String,
    /// Whether an API server understands them: they use no syntax that only Fleetdex has.
    pub is_plain_kubernetes: bool,
}

impl Generator {
    /// A random index below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    /// Selectors for a kind. `values` are values that its fields have in some object.
    pub fn selectors(
        &mut self,
        family: &Family,
        values: &BTreeMap<String, Vec<String>>,
    ) -> GeneratedSelectors {
        if self.random.random_bool(0.08) {
            return self.odd_selectors();
        }
        let is_plain_kubernetes = self.random.random_bool(0.8);
        let (label_count, field_count) = *[
            (1, 0),
            (1, 0),
            (2, 0),
            (0, 1),
            (0, 1),
            (0, 2),
            (1, 1),
            (1, 1),
            (2, 1),
            (1, 2),
            (3, 0),
        ]
        .choose(&mut self.random)
        .unwrap_or(&(1, 1));
        let labels: Vec<String> = (0..label_count).map(|_| self.label_requirement()).collect();
        let fields: Vec<String> = (0..field_count)
            .map(|_| self.field_requirement(family, values, is_plain_kubernetes))
            .collect();
        let namespace = (family.resource.namespaced && self.random.random_bool(0.15))
            .then(|| self.one_of(&NAMESPACES));
        GeneratedSelectors {
            namespace,
            labels: labels.join(","),
            fields: fields.join(","),
            is_plain_kubernetes,
        }
    }

    fn odd_selectors(&mut self) -> GeneratedSelectors {
        let labels = self.one_of(&ODD_LABELS).to_owned();
        let fields = self.one_of(&ODD_FIELDS).to_owned();
        let (labels, fields) = if self.random.random_bool(0.5) {
            (labels, String::new())
        } else {
            (String::new(), fields)
        };
        // The one odd selector that only Fleetdex accepts.
        let is_plain_kubernetes = fields != "metadata.name";
        GeneratedSelectors {
            namespace: None,
            labels,
            fields,
            is_plain_kubernetes,
        }
    }

    fn label_requirement(&mut self) -> String {
        let key = self.one_of(&KEYS);
        let blank = self.one_of(&["", "", " ", "\t"]);
        let value = if self.random.random_bool(0.9) {
            self.label_value(key)
        } else {
            self.one_of(&WORDS)
        };
        match self.random.random_range(0..11) {
            0 | 1 => format!("{key}{blank}={blank}{value}"),
            2 => format!("{key}=={value}"),
            3 | 4 => format!("{key}{blank}!={value}"),
            5 => format!("{key} in{blank}({value},{blank}{})", self.label_value(key)),
            6 => format!("{key} notin ({value},{})", self.label_value(key)),
            7 => format!("{blank}{key}"),
            8 => format!("!{blank}{key}"),
            _ => self.comparison(),
        }
    }

    fn comparison(&mut self) -> String {
        let key = self.one_of(&["weight", "weight", "weight.x", "example.com/weight", "app"]);
        format!("{key}{}{}", self.one_of(&[">", "<"]), self.one_of(&BOUNDS))
    }

    fn field_requirement(
        &mut self,
        family: &Family,
        values: &BTreeMap<String, Vec<String>>,
        is_plain_kubernetes: bool,
    ) -> String {
        // Names select one object each, so they are rare.
        let from = if self.random.random_bool(0.85) {
            family.labels.len().min(1)
        } else {
            0
        };
        let path = family.labels[from..]
            .choose(&mut self.random)
            .or(family.labels.first())
            .cloned()
            .unwrap_or_default();
        let first = self.field_value(values.get(&path));
        let second = self.field_value(values.get(&path));
        let form = self
            .random
            .random_range(0..if is_plain_kubernetes { 5 } else { 9 });
        match form {
            0 | 1 => format!("{path}={}", escaped(&first, false)),
            2 => format!("{path}=={}", escaped(&first, false)),
            3 => format!("{path}!={}", escaped(&first, false)),
            4 => format!(
                "{path}!={},{path}!={}",
                escaped(&first, false),
                escaped(&second, false)
            ),
            5 => format!(
                "{path} in ({},{})",
                escaped(&first, true),
                escaped(&second, true)
            ),
            6 => format!(
                "{path} notin ({}, {})",
                escaped(&first, true),
                escaped(&second, true)
            ),
            7 => path,
            _ => format!("!{path}"),
        }
    }

    fn field_value(&mut self, values: Option<&Vec<String>>) -> String {
        let known = values
            .and_then(|values| values.choose(&mut self.random))
            .cloned();
        match (known, self.random.random_range(0..10)) {
            (Some(value), 0..7) => value,
            (_, 7) => self.one_of(&AWKWARD).to_owned(),
            _ => self
                .one_of(&["", "0", "false", "true", "1", "x"])
                .to_owned(),
        }
    }
}

/// A value as a field selector spells it; in a set, parentheses and blanks need an escape too.
fn escaped(value: &str, in_set: bool) -> String {
    let needs_escape = |letter: char| {
        matches!(letter, '\\' | ',' | '=') || (in_set && matches!(letter, '(' | ')' | ' '))
    };
    let mut text = String::new();
    for letter in value.chars() {
        if needs_escape(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_objects_and_selectors() {
        let made = |seed| {
            let mut generator = Generator::new(seed);
            let objects: Vec<Value> = generator
                .objects()
                .into_iter()
                .map(|planned| planned.object)
                .collect();
            let family = Family::built_in("", "pods").unwrap();
            (objects, generator.selectors(&family, &BTreeMap::new()))
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        assert_eq!(made(7).0.len(), 300);
    }

    #[test]
    fn field_selector_syntax_is_escaped() {
        assert_eq!(escaped(r"a,b=c\d (e)", false), r"a\,b\=c\\d (e)");
        assert_eq!(escaped("a (b)", true), r"a\ \(b\)");
    }
}
