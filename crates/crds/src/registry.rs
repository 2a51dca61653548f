//! `ResourceRegistry`: which objects of which member clusters go to which store.
//!
//! Every field of Karmada's `search.karmada.io/v1alpha1` is here, so that its manifests apply
//! unchanged; every other field is optional.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    affinity::{ClusterAffinity, FieldSelectorRequirement, requirements},
    aws::{AWS_RULES, AwsSigning},
    schema::{self, rules},
};

/// Annotation that lets a registry be deleted although its documents cannot be.
pub const ORPHAN_ANNOTATION: &str = "fleetdex.io/orphan";
/// Keeps a registry until its documents are gone.
pub const FINALIZER: &str = "search.fleetdex.io/documents";

/// What to index: which resources of which member clusters, and in which store.
#[expect(clippy::duplicated_attributes, reason = "columns have types in common")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "search.karmada.io",
    version = "v1alpha1",
    kind = "ResourceRegistry",
    plural = "resourceregistries",
    shortname = "rr",
    status = "ResourceRegistryStatus",
    derive = "PartialEq",
    doc = "ResourceRegistry says which resources of which member clusters are indexed, and in which store.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Clusters",
        type_ = "integer",
        json_path = ".status.summary.clusters"
    ),
    printcolumn(
        name = "Objects",
        type_ = "integer",
        json_path = ".status.summary.objects"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRegistrySpec {
    /// Which member clusters; all of them when it is absent.
    #[serde(default)]
    pub target_cluster: ClusterAffinity,
    /// Which resources; an empty list, which Karmada takes, selects nothing.
    #[serde(default, deserialize_with = "null_is_empty")]
    #[schemars(schema_with = "resource_selectors")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The store of the documents; the embedded in-memory store when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_store: Option<BackendStore>,
    /// Resources to leave out, even if `resourceSelectors` selects them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "excluded_selectors")]
    pub exclude: Vec<ResourceSelector>,
    /// Paths of the values that are removed from every object before it is stored, as `JSONPath`s
    /// of kubectl such as `spec.template.spec.containers[*].env`. Values of Secrets and the
    /// last-applied-configuration annotation are always removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::redactions")]
    pub redact: Vec<String>,
    /// Which rules say what objects mean, such as their health: none (`Off`), the built-in ones
    /// (`BuiltIn`), or these with customizations, scripts and interpreter webhooks (`All`, the
    /// default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "interpret")]
    pub interpret: Option<InterpretMode>,
}

/// Which rules say what objects mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InterpretMode {
    /// None.
    Off,
    /// The built-in rules.
    BuiltIn,
    /// The built-in rules, customizations, scripts and webhooks.
    #[default]
    All,
}

/// A kind, and which objects of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(SELECTOR_RULES)))]
pub struct ResourceSelector {
    /// Group and version, such as `v1` or `apps/v1`. When it is absent each member resolves the
    /// kind, built-in groups first. A version that a member does not serve becomes the group's
    /// preferred version there. `*` goes with kind `*` and means everything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317), extend("x-kubernetes-validations" = rules(API_VERSION_RULES)))]
    pub api_version: String,
    /// Kind, such as `Deployment`; `*` for every kind of the `apiVersion` that can be listed and
    /// watched.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules(KIND_RULES)))]
    pub kind: String,
    /// One namespace; empty: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
    /// Several namespaces; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespaces")]
    pub namespaces: Vec<String>,
    /// Namespaces to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::namespaces")]
    pub exclude_namespaces: Vec<String>,
    /// Only objects whose labels match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// Only objects whose fields match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<ObjectFieldSelector>,
}

impl ResourceSelector {
    /// `kind: "*"`.
    pub fn every_kind(&self) -> bool {
        self.kind == "*"
    }

    /// The group and version; `None` when it is left to the member.
    pub fn api_version(&self) -> Option<&str> {
        Some(self.api_version.as_str()).filter(|text| !text.is_empty())
    }
}

/// Requirements on the fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectFieldSelector {
    /// Requirements that must all hold. The key is a dotted path such as `status.phase`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "object_requirements")]
    pub match_expressions: Vec<FieldSelectorRequirement>,
}

/// The store of the documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendStore {
    /// An OpenSearch cluster; the embedded in-memory store when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_search: Option<OpenSearch>,
}

/// How to reach an OpenSearch cluster, and how its indices are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenSearch {
    /// URLs of its nodes. Without any the store cannot be used, which a condition says.
    #[serde(default, deserialize_with = "null_is_empty")]
    #[schemars(schema_with = "addresses")]
    pub addresses: Vec<String>,
    /// Secret with the keys `username` (or `userName`) and `password`, or with a bearer `token`, or
    /// for `aws` with `accessKeyID` and `secretAccessKey`; and with `proxyUsername` and
    /// `proxyPassword`. Without it requests carry no credentials, unless `aws` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Certificates that the nodes' certificates are checked against: PEM, or PEM in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub ca_bundle: Option<String>,
    /// Secret of type `kubernetes.io/tls` with the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(CLIENT_CERTIFICATE_RULES)))]
    pub client_cert_secret_ref: Option<SecretReference>,
    /// Sign requests for the OpenSearch Service of AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(AWS_RULES)))]
    pub aws: Option<AwsSigning>,
    /// Proxy to reach the nodes through: an `http`, `https` or `socks5` URL. Proxies of the
    /// environment are not used.
    #[serde(default, rename = "proxyURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules(PROXY_RULES)))]
    pub proxy_url: Option<String>,
    /// Accept any certificate of the nodes. For tests only.
    #[serde(
        default,
        rename = "insecureSkipTLSVerify",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub insecure_skip_tls_verify: bool,
    /// The start of the names of all indices and aliases; `fleetdex` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules(PREFIX_RULES)))]
    pub index_prefix: Option<String>,
    /// Primary shards of each index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub number_of_shards: Option<i32>,
    /// Copies of each shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub number_of_replicas: Option<i32>,
    /// How soon a written document can be found, such as `1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = rules(REFRESH_RULES)))]
    pub refresh_interval: Option<String>,
    /// Whether small clusters share indices once an index for each cluster would take too many of
    /// the shards that OpenSearch allows (`Auto`, the default), or each cluster always has its own
    /// (`Never`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "packing")]
    pub packing: Option<Packing>,
    /// What selectors may name: labels and the selectable fields (`Selectable`, the default), or
    /// any path (`Full`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "indexing")]
    pub indexing: Option<Indexing>,
    /// Further selectable fields, as dotted paths such as `spec.template.spec.schedulerName`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::field_paths")]
    pub field_paths: Vec<String>,
}

/// The fields that selectors may name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Indexing {
    /// Labels and the selectable fields.
    #[default]
    Selectable,
    /// Labels and every field.
    Full,
}

/// Whether clusters share indices.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Packing {
    /// Small clusters do where shards are scarce.
    #[default]
    Auto,
    /// Every cluster has an index of its own.
    Never,
}

/// A Secret by name.
///
/// Karmada accepts a reference with either part empty and then sends no credentials; here
/// [`SecretReference::complete`] is an error.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Its namespace.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A reference to a Secret has a namespace or a name, but not both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "secretRef needs both a namespace and a name (namespace {namespace:?}, name {name:?}); remove it to send no credentials"
)]
pub struct IncompleteReference {
    namespace: String,
    name: String,
}

impl SecretReference {
    /// The reference, or `None` when both parts are empty.
    pub fn complete(&self) -> Result<Option<&Self>, IncompleteReference> {
        match (self.namespace.is_empty(), self.name.is_empty()) {
            (false, false) => Ok(Some(self)),
            (true, true) => Ok(None),
            _ => Err(IncompleteReference {
                namespace: self.namespace.clone(),
                name: self.name.clone(),
            }),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The state of a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRegistryStatus {
    /// `Ready`, `StoreReachable` and `Synced`; and while they apply `MissingFields`, `Conflict` and
    /// `OldStoresSwept`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The selected clusters: all of them up to 2,000. Of more, only those that are not synced, or
    /// that have a message or drift.
    // One list for the API server: as a map, its managed fields would be longer than the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub clusters: Vec<RegistryClusterStatus>,
    /// How many selected clusters are not in `clusters`; `summary` counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub omitted_clusters: u64,
    /// Counts over all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Every store location in OpenSearch that may hold documents of this registry. One that
    /// `spec.backendStore` no longer names is emptied as soon as the new location answers queries,
    /// and then leaves this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stores: Vec<StoreStatus>,
}

/// A store location in OpenSearch, with what is needed to reach it after the registry has named
/// another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    /// Addresses and prefix.
    pub name: String,
    /// URLs of its nodes.
    pub addresses: Vec<String>,
    /// The start of the names of all indices and aliases.
    pub index_prefix: String,
    /// Fleetdex has never opened this location for the registry, so it holds none of its documents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_opened: bool,
    /// Secret with the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Certificates that the nodes' certificates are checked against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Secret with the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<SecretReference>,
    /// How requests are signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsSigning>,
    /// Proxy to reach the nodes through.
    #[serde(default, rename = "proxyURL", skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Accept any certificate of the nodes.
    #[serde(
        default,
        rename = "insecureSkipTLSVerify",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub insecure_skip_tls_verify: bool,
}

/// One cluster of a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryClusterStatus {
    /// The member.
    pub name: String,
    /// The phase.
    #[schemars(with = "String")]
    pub phase: Phase,
    /// Why it is not synced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Documents in the store.
    #[serde(default)]
    #[schemars(with = "i64")]
    pub objects: u64,
    /// When every kind was last complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// Every kind has been compared with the member's objects at this time or later. Absent until
    /// all of them have been since the operator started. It is brought up to date every ten
    /// minutes, or with any other change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_audit_time: Option<Time>,
    /// The drift that these audits found and repaired. Absent if there was none since the operator
    /// started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// The kinds that are not in sync, or that have a message: all of them up to 3. Of more, the
    /// first with each reason, 3 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindStatus>,
    /// How many such kinds are not in `kinds`; `message` names more of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub omitted_kinds: u64,
}

/// Documents that differed from their objects although every change seemed to be stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// How many documents were missing, of another version, or of no object.
    #[schemars(with = "i64")]
    pub documents: u64,
    /// When the last of them were found.
    pub last_found_time: Time,
}

/// A kind that is not in sync, or that has fallback documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindStatus {
    /// Group and version, where they are known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, where only one is indexed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The phase.
    #[schemars(with = "String")]
    pub phase: Phase,
    /// Why it is not synced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The phase of a cluster or a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// A named cluster does not exist.
    NotFound,
    /// Its state is not known yet.
    Pending,
    /// The first complete list is being read.
    Syncing,
    /// Complete, and following changes.
    Synced,
    /// Something keeps it from being in sync.
    Failed,
    /// A phase that another version of Fleetdex wrote.
    #[serde(other)]
    Unknown,
}

impl Phase {
    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Pending => "Pending",
            Self::Syncing => "Syncing",
            Self::Synced => "Synced",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

/// Counts over all clusters of a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Selected clusters.
    #[schemars(with = "i64")]
    pub clusters: u64,
    /// Documents in the store.
    #[schemars(with = "i64")]
    pub objects: u64,
    /// How many clusters are in each phase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, i64>")]
    pub clusters_by_phase: BTreeMap<Phase, u64>,
    /// How many kinds (of any cluster) are in each phase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, i64>")]
    pub kinds_by_phase: BTreeMap<Phase, u64>,
}

pub(super) const API_VERSION_HELP: &str =
    "apiVersion is <version> for the core group or <group>/<version>, such as v1 or apps/v1";
pub(super) const KIND_HELP: &str = "kind is a kind such as Deployment, or \"*\" for every kind";
pub(super) const ANY_VERSION_HELP: &str =
    "apiVersion \"*\" goes with kind \"*\" only; name the apiVersion of this kind or leave it out";
pub(super) const EVERY_KIND_HELP: &str =
    "kind \"*\" needs an apiVersion; use apiVersion \"*\" for everything";

const API_VERSION_RULES: &[(&str, &str)] = &[(
    "self == '' || self == '*' || self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    API_VERSION_HELP,
)];
const KIND_RULES: &[(&str, &str)] = &[(
    "self == '*' || self.matches('^[A-Za-z][A-Za-z0-9-]*$')",
    KIND_HELP,
)];
const SELECTOR_RULES: &[(&str, &str)] = &[
    (
        "!has(self.apiVersion) || self.apiVersion != '*' || self.kind == '*'",
        ANY_VERSION_HELP,
    ),
    (
        "self.kind != '*' || (has(self.apiVersion) && self.apiVersion != '')",
        EVERY_KIND_HELP,
    ),
    (
        "!has(self.namespace) || self.namespace == '' || !has(self.namespaces) || size(self.namespaces) == 0",
        "set either namespace or namespaces, not both",
    ),
];
const CLIENT_CERTIFICATE_RULES: &[(&str, &str)] = &[(
    "has(self.namespace) && self.namespace != '' && has(self.name) && self.name != ''",
    "clientCertSecretRef needs both namespace and name",
)];
const PROXY_RULES: &[(&str, &str)] = &[
    (
        "isURL(self) && url(self).getScheme() in ['http', 'https', 'socks5'] && url(self).getHostname() != ''",
        "proxyURL is the URL of a proxy: write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT",
    ),
    (
        "!self.contains('@') && !self.contains('?') && !self.contains('#')",
        "proxyURL must not hold a user or a password: put proxyUsername and proxyPassword into the Secret that secretRef names",
    ),
];
const PREFIX_RULES: &[(&str, &str)] = &[(
    "self.matches('^[a-z][a-z0-9_]*$')",
    "indexPrefix starts with a lower-case letter and holds only lower-case letters, digits and '_'",
)];
const REFRESH_RULES: &[(&str, &str)] = &[(
    "self.matches('^(-1|[1-9][0-9]*(ms|s|m|h))$')",
    "refreshInterval is a duration such as 1s or 500ms, or -1 to turn refreshing off",
)];

/// Most selectors of one list. With [`schema::namespaces`] it bounds the cost of the rules.
pub(super) const SELECTORS: usize = 128;

fn resource_selectors(generator: &mut SchemaGenerator) -> Schema {
    nullable(schema::list_of::<ResourceSelector>(generator, SELECTORS))
}

/// Karmada takes `null` for an empty list.
fn nullable(mut schema: Schema) -> Schema {
    schema.insert("nullable".to_owned(), true.into());
    schema
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn addresses(generator: &mut SchemaGenerator) -> Schema {
    nullable(schema::addresses(generator))
}

fn excluded_selectors(generator: &mut SchemaGenerator) -> Schema {
    schema::list_of::<ResourceSelector>(generator, SELECTORS)
}

fn indexing(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": ["Selectable", "Full"]})
}

fn packing(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": ["Auto", "Never"]})
}

fn interpret(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": ["Off", "BuiltIn", "All"]})
}

fn object_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(
        generator,
        &[
            (
                "self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']",
                schema::LABEL_OPERATORS,
            ),
            (schema::VALUES_NEEDED, schema::VALUES_NEEDED_HELP),
            (schema::VALUES_REFUSED, schema::VALUES_REFUSED_HELP),
            (
                r"self.key.matches('^[A-Za-z_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*$')",
                "key is a dotted path such as status.phase",
            ),
        ],
    )
}
