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

/// Where a kind has a selector.
struct SelectorRule {
    group: &'static str,
    kind: &'static str,
    path: &'static [&'static str],
    form: SelectorForm,
    selected: &'static str,
    relation: &'static str,
}

/// How a selector is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SelectorForm {
    /// A map of labels; an empty one selects nothing.
    Labels,
    /// A `LabelSelector`; an empty one selects all objects.
    Selector,
}

/// Sources: <https://kubernetes.io/docs/reference/kubernetes-api/>,
/// <https://prometheus-operator.dev/docs/api-reference/api/>.
const RULES: &[SelectorRule] = &[
    SelectorRule {
        group: "",
        kind: "Service",
        path: &["spec", "selector"],
        form: SelectorForm::Labels,
        selected: "Pod",
        relation: "routesTo",
    },
    SelectorRule {
        group: "policy",
        kind: "PodDisruptionBudget",
        path: &["spec", "selector"],
        form: SelectorForm::Selector,
        selected: "Pod",
        relation: "protects",
    },
    SelectorRule {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        path: &["spec", "podSelector"],
        form: SelectorForm::Selector,
        selected: "Pod",
        relation: "restricts",
    },
    SelectorRule {
        group: "monitoring.coreos.com",
        kind: "PodMonitor",
        path: &["spec", "selector"],
        form: SelectorForm::Selector,
        selected: "Pod",
        relation: "monitors",
    },
    SelectorRule {
        group: "monitoring.coreos.com",
        kind: "ServiceMonitor",
        path: &["spec", "selector"],
        form: SelectorForm::Selector,
        selected: "Service",
        relation: "monitors",
    },
];

/// The objects that an object selects by label; `None` if it has no selector. A selector may be
/// large: there is one, however many namespaces it is for.
pub fn selector_edge(object: Tree<'_>) -> Option<SelectorEdge> {
    let (group, kind) = (group(object), text(object, &["kind"]));
    let rule = RULES
        .iter()
        .find(|rule| rule.group == group && rule.kind == kind)?;
    Some(SelectorEdge {
        api_version: "v1",
        kind: rule.selected,
        namespaces: namespaces(object, rule),
        selector: selector(object, rule)?,
        relation: rule.relation,
    })
}

fn selector(object: Tree<'_>, rule: &SelectorRule) -> Option<Value> {
    let selector = at(object, rule.path).as_object()?;
    let is_empty = ["matchLabels", "matchExpressions"]
        .iter()
        .all(|key| selector.get(key).is_none_or(has_no_entries));
    match rule.form {
        SelectorForm::Labels => labels(selector),
        // An empty selector of the first version of budgets selects nothing.
        SelectorForm::Selector if is_empty && version(object) == "v1beta1" => None,
        SelectorForm::Selector if is_empty => Some(json!({})),
        SelectorForm::Selector => Some(Value::Object(selector.into())),
    }
}

fn has_no_entries(value: Tree<'_>) -> bool {
    match value {
        JsonTree::Null => true,
        JsonTree::Array(items) => items.is_empty(),
        JsonTree::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn labels(selector: TreeObject<'_>) -> Option<Value> {
    let is_selector = !selector.is_empty() && selector.values().all(JsonTree::is_string);
    is_selector.then(|| json!({ "matchLabels": Map::from(selector) }))
}

/// The namespaces of the selected objects: the object's, but those that a monitor names.
fn namespaces(object: Tree<'_>, rule: &SelectorRule) -> Vec<String> {
    let other = at(object, &["spec", "namespaceSelector"]);
    if rule.relation == "monitors" && flag(other, &["any"]) {
        return vec![String::new()];
    }
    let named: Vec<String> = list(other, &["matchNames"])
        .iter()
        .filter(|_| rule.relation == "monitors")
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
