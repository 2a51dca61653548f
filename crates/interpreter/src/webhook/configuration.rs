//! Configurations of webhooks, of both kinds, as one type.
//!
//! Reading is lenient, because an object may be older than the rules for it: [`validate`] says what
//! is wrong, for the object's status, and a webhook that can never be called still answers for its
//! kinds, with that problem.

use std::time::Duration;

use fleetdex_core::{
    kinds,
    model::{Gvk, Resource},
};
use serde_json::{Value, json};

mod address;
mod names;
mod rule;
mod timeout;
mod validate;

use super::dialect::{Dialect, REVIEW_VERSION};
use crate::{Operation, field_problem::FieldProblem, value};
pub use address::{WebhookAddress, WebhookEndpoint};
pub use rule::WebhookRule;
pub use timeout::{DEFAULT_TIMEOUT, MAX_TIMEOUT};
pub use validate::validate;

/// A `ResourceInterpreterWebhookConfiguration` or a `ResourceExploringWebhookConfiguration`.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookConfiguration {
    /// Its name.
    pub name: String,
    /// Its webhooks.
    pub webhooks: Vec<Webhook>,
}

/// One webhook of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// `<name of the configuration>/<name of the webhook>`.
    pub id: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// How it is reached, or why it cannot be called.
    pub endpoint: Result<WebhookEndpoint, FieldProblem>,
    /// What it answers; it is asked if one of these rules matches.
    pub rules: Vec<WebhookRule>,
    /// How long a call may take.
    pub timeout: Duration,
    /// What its failure means.
    pub failure_policy: FailurePolicy,
}

/// What the failure of a webhook means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// There is no result, and the webhook is asked again later. The released kind knows no other
    /// policy.
    Fail,
    /// The next level answers.
    Ignore,
}

impl WebhookConfiguration {
    /// The configuration that an object is; `None` if it is of another kind.
    pub fn parse(object: &Value) -> Option<Self> {
        let dialect = Dialect::of_configuration(object)?;
        let name = value::text(object, &["metadata", "name"]);
        let webhooks = value::list(object, &["webhooks"])
            .iter()
            .enumerate()
            .map(|(index, webhook)| Webhook::parse(dialect, name, index, webhook));
        Some(Self {
            name: name.to_owned(),
            webhooks: webhooks.collect(),
        })
    }
}

impl Webhook {
    /// All that identifies it, in a form that no change of the code changes: it decides whether
    /// documents are written again.
    pub fn identity(&self) -> Value {
        let Self {
            id,
            dialect,
            endpoint,
            rules,
            timeout,
            failure_policy,
        } = self;
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint.identity(),
            // Documents show it.
            Err(FieldProblem { path, message }) => json!({ path: message }),
        };
        let rules: Vec<Value> = rules.iter().map(WebhookRule::identity).collect();
        let ignores_failures = *failure_policy == FailurePolicy::Ignore;
        json!([
            id,
            dialect.configuration_kind(),
            endpoint,
            rules,
            timeout.as_millis(),
            ignores_failures
        ])
    }

    fn parse(dialect: Dialect, configuration: &str, index: usize, webhook: &Value) -> Self {
        Self {
            id: format!("{configuration}/{}", value::text(webhook, &["name"])),
            dialect,
            endpoint: endpoint(dialect, &format!("webhooks[{index}]"), webhook),
            rules: value::list(webhook, &["rules"])
                .iter()
                .map(|rule| WebhookRule::parse(dialect, rule))
                .collect(),
            timeout: timeout::timeout(webhook),
            failure_policy: failure_policy(dialect, webhook),
        }
    }

    /// Whether it is asked for an operation on objects of a resource.
    pub fn matches(&self, operation: Operation, resource: &Resource) -> bool {
        let Some(operation) = self.dialect.operation_name(operation) else {
            return false;
        };
        self.rules
            .iter()
            .any(|rule| rule.matches(operation, resource))
    }
}

/// The one webhook that is asked: of those that match, the one with the smallest id in byte order.
pub fn select<'w>(
    webhooks: impl IntoIterator<Item = &'w Webhook>,
    operation: Operation,
    resource: &Resource,
) -> Option<&'w Webhook> {
    webhooks
        .into_iter()
        .filter(|webhook| webhook.matches(operation, resource))
        .min_by(|left, right| (&left.id, left.dialect).cmp(&(&right.id, right.dialect)))
}

/// The resource of an object where no cluster says it: that of a built-in kind, or else a guess as
/// kubectl makes it. An object without a namespace counts as cluster-scoped.
pub fn guessed_resource(object: &Value) -> Resource {
    let kind = value::text(object, &["kind"]);
    let gvk = Gvk::from_api_version(value::text(object, &["apiVersion"]), kind);
    if let Some(built_in) = kinds::find(&gvk) {
        return built_in.resource();
    }
    let lower = kind.to_lowercase();
    let plural = match (lower.strip_suffix('y'), lower.ends_with('s')) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{lower}es"),
        (None, false) => format!("{lower}s"),
    };
    Resource {
        gvk,
        plural: plural.into(),
        namespaced: !value::text(object, &["metadata", "namespace"]).is_empty(),
    }
}

fn endpoint(
    dialect: Dialect,
    path: &str,
    webhook: &Value,
) -> Result<WebhookEndpoint, FieldProblem> {
    let versions = dialect.versions_member();
    let accepted = value::list(webhook, &[versions])
        .iter()
        .any(|version| version == REVIEW_VERSION);
    if !accepted {
        return Err(validate::version_needed(&format!("{path}.{versions}")));
    }
    let client = value::at(webhook, &["clientConfig"]);
    WebhookEndpoint::parse(&format!("{path}.clientConfig"), client)
}

fn failure_policy(dialect: Dialect, webhook: &Value) -> FailurePolicy {
    match (dialect, value::text(webhook, &["failurePolicy"])) {
        (Dialect::Proposal, "Ignore") => FailurePolicy::Ignore,
        _ => FailurePolicy::Fail,
    }
}

#[cfg(test)]
mod tests;
