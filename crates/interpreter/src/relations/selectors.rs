//! The objects that an object selects by their labels.

use fleetdex_core::model::JsonTree;
use serde_json::{Map, Value, json};

use crate::value::{Tree, TreeObject, at, flag, group, list, text, version};

/// How many namespaces the selector of one object may name.
const MAX_NAMESPACES: usize = 100;

/// Objects that an object selects.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectorEdge {
    /// Group and version of the selected objects.
    pub api_version: &'static str,
    /// Their kind.
    pub kind: &'static str,
    /// Their namespaces, at least one; an empty one: any.
    pub namespaces: Vec<String>,
    /// A `LabelSelector`, with at least one requirement unless it selects all objects of the
    /// namespace. Not validated.
    pub selector: Value,
    /// What the object does with them, such as `routesTo`.
    pub relation: &'static str,
}

/// The objects that an object selects by label; `None` if it has no selector. A selector may be
/// large: there is one, however many namespaces it is for.
///
/// Sources: <https://kubernetes.io/docs/reference/kubernetes-api/>,
/// <https://prometheus-operator.dev/docs/api-reference/api/>.
pub fn selector_edge(object: Tree<'_>) -> Option<SelectorEdge> {
    let group = group(object);
    let (member, selected, relation) = match (group, text(object, &["kind"])) {
        ("", "Service") => ("selector", "Pod", "routesTo"),
        ("policy", "PodDisruptionBudget") => ("selector", "Pod", "protects"),
        ("networking.k8s.io", "NetworkPolicy") => ("podSelector", "Pod", "restricts"),
        ("monitoring.coreos.com", "PodMonitor") => ("selector", "Pod", "monitors"),
        ("monitoring.coreos.com", "ServiceMonitor") => ("selector", "Service", "monitors"),
        _ => return None,
    };
    let selector = at(object, &["spec", member]).as_object()?;
    let selector = match group {
        "" => labels(selector)?,
        _ => label_selector(selector, version(object))?,
    };
    Some(SelectorEdge {
        api_version: "v1",
        kind: selected,
        namespaces: namespaces(object, relation == "monitors"),
        selector,
        relation,
    })
}

/// A `LabelSelector`; an empty one selects all objects, but of the first version of budgets none.
fn label_selector(selector: TreeObject<'_>, version: &str) -> Option<Value> {
    let is_empty = ["matchLabels", "matchExpressions"]
        .iter()
        .all(|key| selector.get(key).is_none_or(has_no_entries));
    if !is_empty {
        return Some(Value::Object(selector.into()));
    }
    (version != "v1beta1").then(|| json!({}))
}

fn has_no_entries(value: Tree<'_>) -> bool {
    match value {
        JsonTree::Null => true,
        JsonTree::Array(items) => items.is_empty(),
        JsonTree::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A map of labels; an empty one selects nothing.
fn labels(selector: TreeObject<'_>) -> Option<Value> {
    let is_selector = !selector.is_empty() && selector.values().all(JsonTree::is_string);
    is_selector.then(|| json!({ "matchLabels": Map::from(selector) }))
}

/// The namespaces of the selected objects: the object's, but those that a monitor names.
fn namespaces(object: Tree<'_>, is_monitor: bool) -> Vec<String> {
    let other = at(object, &["spec", "namespaceSelector"]);
    if is_monitor && flag(other, &["any"]) {
        return vec![String::new()];
    }
    let named: Vec<String> = list(other, &["matchNames"])
        .iter()
        .filter(|_| is_monitor)
        .filter_map(JsonTree::as_str)
        .filter(|name| !name.is_empty())
        .take(MAX_NAMESPACES)
        .map(str::to_owned)
        .collect();
    if named.is_empty() {
        return vec![text(object, &["metadata", "namespace"]).to_owned()];
    }
    named
}
