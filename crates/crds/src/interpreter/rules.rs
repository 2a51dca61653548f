//! Parts of the schemas that both kinds of webhook configuration have.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::schema::{VALIDATIONS, rules};

/// Most webhooks of a configuration, and most rules of a webhook: they bound the cost of the rules
/// for their members.
pub(super) const WEBHOOKS: usize = 64;
/// See [`WEBHOOKS`].
pub(super) const RULES: usize = 64;
/// Most names in one list of a rule.
const NAMES: usize = 128;

const LABEL: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
const URL_RULES: &[(&str, &str)] = &[
    (
        "isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",
        "url must start with https:// and name a host: webhooks are called over TLS only",
    ),
    (
        "!self.contains('?') && !self.contains('#')",
        "url must have neither a query nor a fragment: remove '?' and '#'",
    ),
    (
        "!self.matches('^[^/]*//[^/]*@')",
        "url must have no user and no password: remove everything up to '@'",
    ),
];
const ALONE: (&str, &str) = (
    "size(self) == 1 || !('*' in self)",
    "must have no other entries beside \"*\", which stands for all",
);
const SOME: (&str, &str) = (
    "size(self) > 0",
    "needs at least one entry; [\"*\"] stands for all",
);

/// How a webhook is reached: by a URL or a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[("has(self.url) != has(self.service)", "set either url or service")])))]
pub struct WebhookClientConfig {
    /// Where the webhook is: `https://HOST:PORT/PATH`, without user, query and fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules(URL_RULES)))]
    pub url: Option<String>,
    /// The Service of the control plane that the webhook is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<WebhookService>,
    /// Certificates in PEM (in base64, as all bytes are in manifests) that the webhook's
    /// certificate is checked against. Empty: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte", "maxLength" = 1_048_576))]
    pub ca_bundle: Option<String>,
}

/// A Service of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookService {
    /// Its namespace.
    #[schemars(schema_with = "service_part")]
    pub namespace: String,
    /// Its name.
    #[schemars(schema_with = "service_part")]
    pub name: String,
    /// The path of requests; `/` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "service_path")]
    pub path: Option<String>,
    /// The port of the Service; 443 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

fn service_part(_: &mut SchemaGenerator) -> Schema {
    let help = "must be a DNS label: lower-case letters, digits and '-', at most 63";
    json_schema!({"type": "string", "maxLength": 63, VALIDATIONS: rules(&[(LABEL, help)])})
}

fn service_path(_: &mut SchemaGenerator) -> Schema {
    let segments = "self == '' || self.matches('^/([a-z0-9]([-.a-z0-9]*[a-z0-9])?(/[a-z0-9]([-.a-z0-9]*[a-z0-9])?)*/?)?$')";
    let help = "path must start with '/', and its segments be of lower-case letters, digits, '-' and '.', such as /interpret/workload";
    json_schema!({"type": "string", "maxLength": 1024, VALIDATIONS: rules(&[(segments, help)])})
}

/// The name of a webhook: a domain name of at least two labels.
pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    let qualified = "self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+[.]?$')";
    let help = "name must be a domain name of at least two labels, such as workloads.example.com";
    json_schema!({"type": "string", "maxLength": 254, VALIDATIONS: rules(&[(qualified, help)])})
}

/// The versions of messages that a webhook accepts.
pub(super) fn versions(_: &mut SchemaGenerator) -> Schema {
    let accepted = "'v1alpha1' in self";
    let help = "must include v1alpha1, the only version that is spoken";
    let version = "self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')";
    let version_help = "must be a version such as v1alpha1";
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        VALIDATIONS: rules(&[(accepted, help)]),
        "items": {"type": "string", "maxLength": 63, VALIDATIONS: rules(&[(version, version_help)])},
    })
}

/// The operations of a rule. They are an enumeration and no CEL rule, which would cost too much for
/// so many lists.
pub(super) fn operations(names: &[&str]) -> Schema {
    let names: Vec<&str> = ["*"].into_iter().chain(names.iter().copied()).collect();
    json_schema!({
        "type": "array",
        "maxItems": 16,
        VALIDATIONS: rules(&[SOME, ALONE]),
        "items": {"type": "string", "enum": names},
    })
}

/// API groups; the empty text is the core group.
pub(super) fn groups(_: &mut SchemaGenerator) -> Schema {
    rule_names(0, 253)
}

/// Versions, kinds or plural names.
pub(super) fn names(_: &mut SchemaGenerator) -> Schema {
    rule_names(1, 253)
}

fn rule_names(shortest: usize, longest: usize) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": NAMES,
        VALIDATIONS: rules(&[SOME, ALONE]),
        "items": {"type": "string", "minLength": shortest, "maxLength": longest},
    })
}

/// The webhooks of a configuration, whose names are unique.
pub(super) fn webhooks<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<T>();
    json_schema!({
        "type": "array",
        "maxItems": WEBHOOKS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": json!(items),
    })
}
