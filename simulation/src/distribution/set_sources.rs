//! Random sources of sets.

use fleetdex_interpreter::value::text;
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

use super::servers::NAMESPACE;

/// The names of sets: few, so that they are deleted and made again.
pub const SET_NAMES: [&str; 4] = ["app0", "app1", "app2", "app3"];
/// `ConfigMap`s that one set may have.
const MAPS: usize = 4;
/// A text that is no object.
pub const BROKEN: &str = "kind: [";

/// When an object of a set was changed last, and which set has it; `None`: it is of no set, or its
/// mark was removed by hand.
pub fn mark(object: &Value) -> Option<&str> {
    let containers = object["spec"]["template"]["spec"]["containers"].as_array();
    let mut containers = containers.into_iter().flatten();
    let web = containers.find(|one| one["name"] == "web");
    let mark = match web {
        Some(web) => text(web, &["image"]),
        None => text(object, &["data", "mark"]),
    };
    SET_NAMES
        .iter()
        .any(|name| mark.starts_with(*name))
        .then_some(mark)
}

/// The text of a source.
pub fn source_text(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    documents.join("\n---\n")
}

/// The next objects of a set. `write` makes each change different.
pub fn next_source(random: &mut StdRng, set: &str, before: &[Value], write: u64) -> Vec<Value> {
    let mut writer = SourceWriter {
        random,
        set,
        before,
        mark: format!("{set}-{write}"),
        objects: Vec::new(),
    };
    for number in 0..MAPS {
        writer.add_map(NAMESPACE, &format!("{set}-config{number}"), 2);
    }
    writer.add_deployment();
    // Names that other sets and templates have, too.
    writer.add_map("default", "shared", 16);
    writer.add_map(NAMESPACE, "config7", 24);
    if writer.objects == before {
        writer.objects.retain(|one| one["kind"] != "Deployment");
        writer.push_deployment();
    }
    writer.objects
}

struct SourceWriter<'s> {
    random: &'s mut StdRng,
    set: &'s str,
    before: &'s [Value],
    mark: String,
    objects: Vec<Value>,
}

impl SourceWriter<'_> {
    /// The object of before, if it stays as it was; otherwise whether there is one, by chance.
    fn kept(&mut self, name: &str, rarity: u32) -> Result<Value, bool> {
        let mut before = self.before.iter();
        let before = before.find(|one| one["metadata"]["name"] == name);
        match (before, self.random.random_range(0..4)) {
            (Some(object), 0 | 1) => Ok(object.clone()),
            (Some(_), choice) => Err(choice == 2),
            (None, _) => Err(self.random.random_ratio(1, rarity)),
        }
    }

    fn add_map(&mut self, namespace: &str, name: &str, rarity: u32) {
        let is_there = match self.kept(name, rarity) {
            Ok(object) => return self.objects.push(object),
            Err(is_there) => is_there,
        };
        if !is_there {
            return;
        }
        let labels = json!({ "set": self.set });
        let mut metadata = json!({ "namespace": namespace, "name": name, "labels": labels });
        if self.random.random_ratio(1, 12) {
            metadata["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
        }
        let data = json!({ "mark": self.mark, "a": self.random.random_range(0..4).to_string() });
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data,
        }));
    }

    fn add_deployment(&mut self) {
        match self.kept(&format!("{}-web", self.set), 1) {
            Ok(object) => self.objects.push(object),
            Err(true) => self.push_deployment(),
            Err(false) => {}
        }
    }

    fn push_deployment(&mut self) {
        let name = format!("{}-web", self.set);
        let container = json!({ "name": "web", "image": self.mark });
        self.objects.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "namespace": NAMESPACE, "name": name, "labels": { "set": self.set },
            },
            "spec": {
                "replicas": self.random.random_range(1..5),
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [container] },
                },
            },
        }));
    }
}
