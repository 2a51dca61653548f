//! Which kinds have namespaces: built-in ones, those of definitions in the same set, and those that
//! clusters serve.

use std::collections::BTreeMap;

use fleetdex_core::{kinds, model::Gvk};
use serde_json::Value;

use crate::rendered::RenderedSet;

/// Whether the kinds of a set have namespaces, by group and kind.
#[derive(Clone, Debug, Default)]
pub struct KindScopes(BTreeMap<(String, String), bool>);

impl KindScopes {
    /// Of the definitions of a set.
    pub fn of(set: &RenderedSet) -> Self {
        let defined = set.crds.iter().chain(&set.objects);
        Self(defined.filter_map(scope_of).collect())
    }

    /// Adds a kind that a cluster serves, unless the set defines it.
    pub fn add(&mut self, group: &str, kind: &str, namespaced: bool) {
        let key = (group.to_owned(), kind.to_owned());
        self.0.entry(key).or_insert(namespaced);
    }

    /// A kind that nothing defines has namespaces, as most kinds do.
    pub fn is_namespaced(&self, kind: &Gvk) -> bool {
        let mut built_in = kinds::all().iter();
        let found = built_in.find(|known| known.group == &*kind.group && known.kind == &*kind.kind);
        match found {
            Some(known) => known.namespaced,
            None => {
                let key = (kind.group.to_string(), kind.kind.to_string());
                self.0.get(&key).copied().unwrap_or(true)
            }
        }
    }
}

fn scope_of(object: &Value) -> Option<((String, String), bool)> {
    if object["kind"] != "CustomResourceDefinition" {
        return None;
    }
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let group = text("/spec/group")?.to_owned();
    let kind = text("/spec/names/kind")?.to_owned();
    Some(((group, kind), text("/spec/scope") != Some("Cluster")))
}
