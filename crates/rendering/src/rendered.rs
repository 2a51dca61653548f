//! The objects of a rendering.

use fleetdex_core::model::{Gvk, value_size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    digest::Sha256Digest,
    hooks::{ChartHook, ObjectRole, UnsupportedHook, role_of},
    kind_order::{install_key, sort_for_install},
    manifests::SourcedObject,
};

/// What a source is rendered to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedSet {
    /// The digest of everything that was rendered.
    pub inputs: Sha256Digest,
    /// The objects of `crds/` of a chart, which come first: they have to be established before
    /// others are applied. Of templates, such objects are among `objects`.
    pub crds: Vec<Value>,
    /// The objects, in the order in which kinds are installed.
    pub objects: Vec<Value>,
    /// The hooks, in the order in which those of one step run.
    pub hooks: Vec<ChartHook>,
    /// The notes of a chart.
    pub notes: String,
    /// What the renderer warned of.
    pub warnings: Vec<String>,
}

impl RenderedSet {
    /// Sorts what a renderer has printed.
    pub(crate) fn of(
        inputs: Sha256Digest,
        objects: Vec<SourcedObject>,
    ) -> Result<Self, UnsupportedHook> {
        let mut set = Self {
            inputs,
            ..Self::default()
        };
        for SourcedObject { file, object } in objects {
            if is_crd_file(&file) {
                set.crds.push(object);
                continue;
            }
            match role_of(object)? {
                ObjectRole::Member(object) => set.objects.push(object),
                ObjectRole::Hook(hook) => set.hooks.push(hook),
                ObjectRole::Test => {}
            }
        }
        sort_for_install(&mut set.objects);
        set.hooks
            .sort_by(|one, other| hook_key(one).cmp(&hook_key(other)));
        Ok(set)
    }

    /// Fills in the namespace of objects that have none, and removes that of objects that cannot
    /// have one.
    pub fn fill_namespaces(&mut self, namespace: &str, is_namespaced: impl Fn(&Gvk) -> bool) {
        let hooks = self.hooks.iter_mut().map(|hook| &mut hook.object);
        for object in self.crds.iter_mut().chain(&mut self.objects).chain(hooks) {
            let text = |field: &str| {
                object
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let kind = Gvk::from_api_version(text("apiVersion"), text("kind"));
            let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
                continue;
            };
            if !is_namespaced(&kind) {
                metadata.shift_remove("namespace");
            } else if metadata
                .get("namespace")
                .is_none_or(|own| own == "" || own.is_null())
            {
                metadata.insert("namespace".to_owned(), namespace.into());
            }
        }
    }

    /// How many bytes it takes in memory, approximately.
    pub fn size(&self) -> usize {
        let hooks = self.hooks.iter().map(|hook| &hook.object);
        let objects = self.crds.iter().chain(&self.objects).chain(hooks);
        let texts = self.warnings.iter().chain([&self.notes]).map(String::len);
        objects.map(value_size).sum::<usize>() + texts.sum::<usize>()
    }
}

/// As helm runs them. Source: `hookByWeight` of helm's `pkg/action`, which sorts what is in the
/// order of kinds.
fn hook_key(hook: &ChartHook) -> (i32, Option<&str>, (usize, &str)) {
    let name = hook.object.pointer("/metadata/name");
    let name = name.and_then(Value::as_str);
    (hook.weight, name, install_key(&hook.object))
}

/// Whether helm reads a file as it is: `CHART/crds/FILE`, also in charts within `charts`.
fn is_crd_file(file: &str) -> bool {
    let mut folders = file.split('/').skip(1);
    loop {
        match folders.next() {
            Some("crds") => return true,
            Some("charts") => folders.next(),
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sourced(file: &str, kind: &str, metadata: &Value) -> SourcedObject {
        SourcedObject {
            file: file.to_owned(),
            object: json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}),
        }
    }

    #[test]
    fn objects_are_sorted_by_what_they_are_for() {
        let hook = |name: &str, weight: &str| {
            let annotations = json!({"helm.sh/hook": "pre-install", "helm.sh/hook-weight": weight});
            let metadata = json!({"name": name, "annotations": annotations});
            sourced("web/templates/hook.yaml", "Job", &metadata)
        };
        let set = RenderedSet::of(
            Sha256Digest::default(),
            vec![
                sourced(
                    "web/charts/db/crds/a.yaml",
                    "CustomResourceDefinition",
                    &json!({"name": "a"}),
                ),
                sourced(
                    "web/crds/b.yaml",
                    "CustomResourceDefinition",
                    &json!({"name": "b"}),
                ),
                sourced(
                    "web/templates/crds/c.yaml",
                    "CustomResourceDefinition",
                    &json!({"name": "c"}),
                ),
                hook("late", "5"),
                hook("second", "-1"),
                hook("first", "-1"),
                sourced("web/templates/d.yaml", "Secret", &json!({"name": "d"})),
            ],
        )
        .unwrap();
        let names = |objects: &[Value]| -> Vec<String> {
            let names = objects
                .iter()
                .map(|one| one["metadata"]["name"].as_str().unwrap());
            names.map(str::to_owned).collect()
        };
        assert_eq!(names(&set.crds), ["a", "b"]);
        assert_eq!(names(&set.objects), ["d", "c"]);
        let hooks: Vec<Value> = set.hooks.into_iter().map(|hook| hook.object).collect();
        assert_eq!(names(&hooks), ["first", "second", "late"]);
    }

    #[test]
    fn namespaces_are_filled_in_where_objects_can_have_one() {
        let mut set = RenderedSet::of(
            Sha256Digest::default(),
            vec![
                sourced("", "Namespace", &json!({"name": "a", "namespace": "x"})),
                sourced("", "Secret", &json!({"name": "b"})),
                sourced("", "Secret", &json!({"name": "c", "namespace": "other"})),
                sourced("", "Secret", &json!({"name": "d", "namespace": ""})),
            ],
        )
        .unwrap();
        set.fill_namespaces("shop", |kind| &*kind.kind != "Namespace");
        let namespaces: Vec<&Value> = set
            .objects
            .iter()
            .map(|one| &one["metadata"]["namespace"])
            .collect();
        assert_eq!(
            namespaces,
            [
                &json!(null),
                &json!("shop"),
                &json!("other"),
                &json!("shop")
            ]
        );
        assert!(set.size() > 100);
    }
}
