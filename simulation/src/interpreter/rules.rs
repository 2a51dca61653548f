//! The rules that interpret widgets, and what documents have to say by them.

use std::sync::Arc;

use fleetdex_interpreter::rules::RuleSet;
use fleetdex_operator::interpreter_rules::assemble;
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

/// The kind that the rules are for.
pub const INTERPRETED_KIND: &str = "Widget";

/// What is configured about the interpretation of widgets. `spec.value` decides everything, so that
/// a change of an object changes what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Nothing: the built-in rules answer.
    BuiltIn,
    /// A webhook answers for health, replicas and dependencies.
    Webhook,
    /// The same webhook, configured in the dialect of the proposal to answer for health only. Where
    /// it fails, the built-in rules answer.
    Ignore,
    /// A script answers for health, the webhook for the rest.
    Script,
}

impl Rules {
    /// Random rules, mostly with a webhook.
    pub fn random(random: &mut StdRng) -> Self {
        match random.random_range(0..8) {
            0 => Self::BuiltIn,
            1 | 2 => Self::Ignore,
            3 | 4 => Self::Script,
            _ => Self::Webhook,
        }
    }

    /// The rules as the operator has them after reading the objects that configure them.
    ///
    /// # Panics
    ///
    /// If the operator finds a problem in them.
    pub fn rule_set(self) -> Arc<RuleSet> {
        let assembled = assemble(&self.configuration());
        let problems = &assembled.problems;
        assert!(problems.iter().all(Vec::is_empty), "{problems:?}");
        Arc::new(assembled.into_rules())
    }

    /// Whether a webhook is asked about widgets.
    pub fn ask_webhooks(self) -> bool {
        self != Self::BuiltIn
    }

    fn configuration(self) -> Vec<Value> {
        match self {
            Self::BuiltIn => Vec::new(),
            Self::Webhook => vec![released_configuration()],
            Self::Ignore => vec![proposed_configuration()],
            Self::Script => vec![released_configuration(), customization()],
        }
    }

    /// What `search` of the document of a widget has to say; several if the rules leave it open. Of
    /// absent members there must be none.
    pub fn acceptable(self, object: &Value) -> Vec<Value> {
        let value = object["spec"]["value"].as_u64().unwrap_or_default();
        let built_in = built_in(INTERPRETED_KIND);
        match self {
            Self::BuiltIn => vec![built_in],
            Self::Webhook => vec![with_rest(
                object,
                json!({ "health": health(value.is_multiple_of(2)), "interpretedBy": ["webhook/released/widgets.example.com"] }),
            )],
            Self::Ignore => vec![
                built_in,
                json!({ "health": health(value.is_multiple_of(2)), "interpretedBy": ["webhook/proposed/widgets.example.com"] }),
            ],
            Self::Script => vec![with_rest(
                object,
                json!({ "health": health(value.is_multiple_of(3)), "interpretedBy": ["customization/widgets", "webhook/released/widgets.example.com"] }),
            )],
        }
    }
}

/// What the built-in rules say of an object of a kind without a status.
pub fn built_in(kind: &str) -> Value {
    let mut search = json!({ "health": "Healthy", "interpretedBy": ["built-in"] });
    if kind == "Pod" {
        search["health"] = "Progressing".into();
    }
    if matches!(kind, "Pod" | "Deployment") {
        search["replicas"] = json!({ "desired": 1 });
    }
    search
}

fn health(is_healthy: bool) -> &'static str {
    if is_healthy { "Healthy" } else { "Degraded" }
}

/// Adds what the webhook says of replicas and dependencies.
fn with_rest(object: &Value, mut search: Value) -> Value {
    let (replicas, dependency) = (replicas(object), dependency(object));
    search["replicas"] = json!({ "desired": replicas });
    let path = ["apiVersion", "kind", "namespace", "name"]
        .map(|part| dependency[part].as_str().unwrap_or_default());
    search["dependencies"] = json!([path.join("/")]);
    search
}

/// What the webhook says of the replicas of a widget.
pub(super) fn replicas(object: &Value) -> u64 {
    object["spec"]["value"].as_u64().unwrap_or_default() % 7
}

/// What the webhook says of the dependency of a widget.
pub(super) fn dependency(object: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": object["metadata"]["namespace"],
        "name": format!("value-{}", object["spec"]["value"]),
    })
}

fn released_configuration() -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": { "name": "released" },
        "webhooks": [{
            "name": "widgets.example.com",
            "rules": [{
                "operations": ["InterpretHealth", "InterpretReplica", "InterpretDependency"],
                "apiGroups": ["example.com"],
                "apiVersions": ["v1"],
                "kinds": [INTERPRETED_KIND],
            }],
            "clientConfig": { "url": "https://interpreter.example.com/" },
            "interpreterContextVersions": ["v1alpha1"],
            "timeoutSeconds": 10,
        }],
    })
}

fn proposed_configuration() -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceExploringWebhookConfiguration",
        "metadata": { "name": "proposed" },
        "webhooks": [{
            "name": "widgets.example.com",
            "rules": [{
                "operations": ["ExploreHealthy"],
                "apiGroups": ["example.com"],
                "apiVersions": ["v1"],
                "resources": ["widgets"],
                "scope": "Namespaced",
            }],
            "clientConfig": { "url": "https://interpreter.example.com/" },
            "exploreReviewVersions": ["v1alpha1"],
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
        }],
    })
}

fn customization() -> Value {
    let script = "function InterpretHealth(observedObj) return observedObj.spec.value % 3 == 0 end";
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": { "name": "widgets" },
        "spec": {
            "target": { "apiVersion": "example.com/v1", "kind": INTERPRETED_KIND },
            "customizations": { "healthInterpretation": { "luaScript": script } },
        },
    })
}
