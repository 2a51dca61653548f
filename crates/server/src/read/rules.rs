//! Operations of resource interpreters, as they are configured.

use std::sync::{Arc, LazyLock};

use fleetdex_core::{
    model::{Gvk, Resource, split_api_version},
    query::ResourceName,
};
use fleetdex_interpreter::{
    Request, Response, levels::LevelAnswer, rules::RuleSet,
    webhook::configuration::guessed_resource,
};
use tokio::sync::watch;

use crate::{catalog::Catalog, request::api_error::ApiError};

/// The rules that are configured now. The default has the built-in ones.
#[derive(Clone, Debug)]
pub struct ConfiguredRules(watch::Receiver<Arc<RuleSet>>);

impl ConfiguredRules {
    /// The rules that a channel publishes.
    pub fn published(rules: watch::Receiver<Arc<RuleSet>>) -> Self {
        Self(rules)
    }

    /// The rules, as they are now.
    pub fn current(&self) -> Arc<RuleSet> {
        Arc::clone(&self.0.borrow())
    }
}

impl Default for ConfiguredRules {
    fn default() -> Self {
        static BUILT_IN: LazyLock<watch::Sender<Arc<RuleSet>>> =
            LazyLock::new(watch::Sender::default);
        Self(BUILT_IN.subscribe())
    }
}

/// The result of an operation, and the level that has answered: `built-in`, `customization/<name>` …
#[derive(Clone, Debug, PartialEq)]
pub struct Interpreted {
    /// The result.
    pub response: Response,
    /// The level.
    pub interpreted_by: String,
}

/// Runs an operation on an object. A webhook is not asked: an operation that one decides is an error. Scripts take the processor until their limits end
/// them, so that it is for a thread that may be blocked.
pub fn interpret(
    rules: &RuleSet,
    catalog: &Catalog,
    request: &Request<'_>,
) -> Result<Interpreted, ApiError> {
    let resource = resource_of(catalog, request);
    let operation = request.operation();
    let kind = &resource.gvk.kind;
    match rules.levels().answer(request, &resource) {
        LevelAnswer::Decided { by, result } => match result {
            Ok(response) => Ok(Interpreted {
                response,
                interpreted_by: by.to_string(),
            }),
            Err(error) => Err(ApiError::Unprocessable(format!(
                "{operation} of the {kind} failed by the rule of {by}: {error}"
            ))),
        },
        LevelAnswer::AskWebhook(webhook) => Err(ApiError::NotImplemented(format!(
            "{operation} of {kind} is for webhook {} to decide, which this server does not ask; run fleetdex interpret --webhooks",
            webhook.id
        ))),
        LevelAnswer::NoRule => Err(ApiError::Unprocessable(format!(
            "there is no rule for {operation} of {} {kind}",
            resource.gvk.api_version()
        ))),
    }
}

/// The resource of an object: as it is registered, or by a guess of its plural, which webhooks may name.
fn resource_of(catalog: &Catalog, request: &Request<'_>) -> Resource {
    let object = request.object();
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let gvk = Gvk::new(group, version, text("kind"));
    let is_same = |name: &ResourceName, kind: &str| *name.group == *group && *kind == *gvk.kind;
    let mut resources = catalog.resources();
    match resources.find(|registered| is_same(&registered.name, &registered.kind)) {
        Some(registered) => Resource {
            plural: Arc::clone(&registered.name.plural),
            namespaced: registered.namespaced,
            gvk,
        },
        None => guessed_resource(object),
    }
}

/// Runs operations on a thread that may be blocked.
pub async fn blocking<T: Send + 'static>(
    operations: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(operations).await;
    done.map_err(|error| ApiError::Internal(format!("an interpretation was aborted: {error}")))
}

#[cfg(test)]
mod tests {
    use fleetdex_interpreter::{
        customization::{Customization, CustomizationSet},
        script::ArgoHealth,
        webhook::configuration::WebhookConfiguration,
    };
    use serde_json::json;

    use super::*;

    fn rules() -> RuleSet {
        let script = "function InterpretHealth(obj) return obj.spec.good end";
        let customization = Customization::parse(&json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": { "name": "foo" },
            "spec": {
                "target": { "apiVersion": "example.io/v1", "kind": "Foo" },
                "customizations": { "healthInterpretation": { "luaScript": script } },
            },
        }));
        let webhooks = WebhookConfiguration::parse(&json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": { "name": "foo" },
            "webhooks": [{
                "name": "foo.example.io",
                "clientConfig": { "url": "https://foo.example.io" },
                "rules": [{ "operations": ["*"], "apiGroups": ["example.io"], "apiVersions": ["*"], "kinds": ["Foo"] }],
                "interpreterContextVersions": ["v1alpha1"],
            }],
        }));
        RuleSet::new(
            CustomizationSet::new(&[customization.unwrap()]),
            ArgoHealth::default(),
            webhooks.unwrap().webhooks,
        )
    }

    #[test]
    fn customizations_answer_and_webhooks_are_not_asked() {
        let (rules, catalog) = (rules(), Catalog::default());
        let object = json!({ "apiVersion": "example.io/v1", "kind": "Foo", "metadata": { "name": "a" }, "spec": { "good": true } });
        let health = interpret(&rules, &catalog, &Request::Health { object: &object }).unwrap();
        assert_eq!(health.interpreted_by, "customization/foo");
        assert!(matches!(
            health.response,
            Response::Health { healthy: true, .. }
        ));
        let broken =
            json!({ "apiVersion": "example.io/v1", "kind": "Foo", "metadata": { "name": "a" } });
        let failed = interpret(&rules, &catalog, &Request::Health { object: &broken }).unwrap_err();
        assert_eq!(failed.code(), 422);
        assert!(
            failed.to_string().starts_with(
                "InterpretHealth of the Foo failed by the rule of customization/foo: "
            ),
            "{failed}"
        );
        let awaited =
            interpret(&rules, &catalog, &Request::Status { object: &object }).unwrap_err();
        assert_eq!(awaited.code(), 501);
        assert_eq!(
            awaited.to_string(),
            "InterpretStatus of Foo is for webhook foo/foo.example.io to decide, which this server does not ask; run fleetdex interpret --webhooks"
        );
    }
}
