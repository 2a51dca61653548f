//! What the CRD refuses of a registry that another server has accepted: the same rules as in the
//! schema, for the fields that Karmada has.
//!
//! karmada-search validates nothing, so that its registries may hold values that no custom resource
//! may have. The API server has the last word; this finds them before the CRD is installed.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    affinity::{CLUSTER_KEYS, CLUSTER_OPERATORS, ClusterAffinity, FieldSelectorRequirement},
    registry::{
        ANY_VERSION_HELP, API_VERSION_HELP, EVERY_KIND_HELP, KIND_HELP, OpenSearch,
        ResourceRegistrySpec, ResourceSelector, SELECTORS,
    },
    schema::{
        ADDRESS_HELP, LABEL_OPERATORS, NAMESPACE_HELP, PLAIN_ADDRESS_HELP, VALUES_NEEDED_HELP,
        VALUES_REFUSED_HELP,
    },
};

/// A value that the CRD does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// Its path, such as `spec.resourceSelectors[0].kind`.
    pub path: String,
    /// What it has to be.
    pub problem: String,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.problem)
    }
}

/// Everything that the CRD does not accept in the fields that Karmada has.
pub fn invalid_fields(spec: &ResourceRegistrySpec) -> Vec<InvalidField> {
    let mut found = InvalidFields::default();
    found.affinity("spec.targetCluster", &spec.target_cluster);
    let path = "spec.resourceSelectors";
    found.count(path, spec.resource_selectors.len(), SELECTORS);
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        found.selector(&format!("{path}[{index}]"), selector);
    }
    let store = spec.backend_store.as_ref();
    if let Some(store) = store.and_then(|backend| backend.open_search.as_ref()) {
        found.store("spec.backendStore.openSearch", store);
    }
    found.into_fields()
}

/// What was found so far.
#[derive(Default)]
pub(crate) struct InvalidFields(Vec<InvalidField>);

impl InvalidFields {
    /// What was found.
    pub(crate) fn into_fields(self) -> Vec<InvalidField> {
        self.0
    }

    fn add(&mut self, path: &str, problem: impl Into<String>) {
        self.0.push(InvalidField {
            path: path.to_owned(),
            problem: problem.into(),
        });
    }

    /// Adds a problem unless the value is valid.
    pub(crate) fn require(&mut self, is_valid: bool, path: &str, problem: &str) {
        if !is_valid {
            self.add(path, problem);
        }
    }

    /// Adds a problem if a list has too many entries.
    pub(crate) fn count(&mut self, path: &str, entries: usize, most: usize) {
        if entries > most {
            self.add(path, format!("it has {entries} entries, at most {most}"));
        }
    }

    /// API servers count characters.
    fn length(&mut self, path: &str, text: &str, most: usize) {
        let length = text.chars().count();
        if length > most {
            self.add(path, format!("it has {length} characters, at most {most}"));
        }
    }

    fn texts(&mut self, path: &str, texts: &[String], most: usize, longest: usize) {
        self.count(path, texts.len(), most);
        for (index, text) in texts.iter().enumerate() {
            self.length(&format!("{path}[{index}]"), text, longest);
        }
    }

    /// Adds the problems of an affinity.
    pub(crate) fn affinity(&mut self, path: &str, affinity: &ClusterAffinity) {
        for (field, names) in [
            ("clusterNames", &affinity.cluster_names),
            ("exclude", &affinity.exclude),
        ] {
            self.texts(&format!("{path}.{field}"), names, 4096, 317);
        }
        if let Some(labels) = &affinity.label_selector {
            self.labels(&format!("{path}.labelSelector"), labels);
        }
        let fields = affinity.field_selector.iter();
        let requirements: Vec<&FieldSelectorRequirement> = fields
            .flat_map(|fields| &fields.match_expressions)
            .collect();
        let path = format!("{path}.fieldSelector.matchExpressions");
        self.count(&path, requirements.len(), 32);
        for (index, requirement) in requirements.into_iter().enumerate() {
            self.cluster_requirement(&format!("{path}[{index}]"), requirement);
        }
    }

    fn cluster_requirement(&mut self, path: &str, requirement: &FieldSelectorRequirement) {
        let FieldSelectorRequirement {
            key,
            operator,
            values,
        } = requirement;
        let is_key = ["provider", "region", "zone"].contains(&key.as_str());
        self.require(is_key, path, CLUSTER_KEYS);
        let is_operator = ["In", "NotIn"].contains(&operator.as_str());
        self.require(is_operator, path, CLUSTER_OPERATORS);
        self.require(!is_operator || !values.is_empty(), path, VALUES_NEEDED_HELP);
        self.texts(&format!("{path}.values"), values, 256, 1024);
    }

    /// Adds the problems of a selector of labels.
    pub(crate) fn labels(&mut self, path: &str, selector: &LabelSelector) {
        let exact = selector.match_labels.iter().flatten();
        self.count(&format!("{path}.matchLabels"), exact.clone().count(), 32);
        for (key, value) in exact {
            self.length(&format!("{path}.matchLabels[{key}]"), value, 63);
        }
        let requirements = selector.match_expressions.as_deref().unwrap_or_default();
        let path = format!("{path}.matchExpressions");
        self.count(&path, requirements.len(), 32);
        for (index, requirement) in requirements.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let values = requirement.values.as_deref().unwrap_or_default();
            self.length(&format!("{path}.key"), &requirement.key, 317);
            self.texts(&format!("{path}.values"), values, 256, 63);
            match requirement.operator.as_str() {
                "In" | "NotIn" => self.require(!values.is_empty(), &path, VALUES_NEEDED_HELP),
                "Exists" | "DoesNotExist" => {
                    self.require(values.is_empty(), &path, VALUES_REFUSED_HELP);
                }
                _ => self.add(&path, LABEL_OPERATORS),
            }
        }
    }

    fn selector(&mut self, path: &str, selector: &ResourceSelector) {
        let ResourceSelector {
            api_version,
            kind,
            namespace,
            ..
        } = selector;
        let field = |name: &str| format!("{path}.{name}");
        self.length(&field("apiVersion"), api_version, 317);
        self.require(
            api_version.is_empty() || api_version == "*" || is_api_version(api_version),
            &field("apiVersion"),
            API_VERSION_HELP,
        );
        self.length(&field("kind"), kind, 63);
        let is_kind = selector.every_kind() || is_kind(kind);
        self.require(is_kind, &field("kind"), KIND_HELP);
        self.length(&field("namespace"), namespace, 63);
        let is_namespace = namespace.is_empty() || is_name(namespace, b"-");
        self.require(is_namespace, &field("namespace"), NAMESPACE_HELP);
        let names_one_kind = api_version == "*" && !selector.every_kind();
        self.require(!names_one_kind, path, ANY_VERSION_HELP);
        let names_no_version = selector.every_kind() && api_version.is_empty();
        self.require(!names_no_version, path, EVERY_KIND_HELP);
    }

    fn store(&mut self, path: &str, store: &OpenSearch) {
        let addresses = format!("{path}.addresses");
        self.texts(&addresses, &store.addresses, 64, 2048);
        for (index, address) in store.addresses.iter().enumerate() {
            let path = format!("{addresses}[{index}]");
            self.require(is_http_url(address), &path, ADDRESS_HELP);
            self.require(
                !address.contains(['@', '?', '#']),
                &path,
                PLAIN_ADDRESS_HELP,
            );
        }
        if let Some(reference) = &store.secret_ref {
            self.length(
                &format!("{path}.secretRef.namespace"),
                &reference.namespace,
                63,
            );
            self.length(&format!("{path}.secretRef.name"), &reference.name, 253);
        }
    }
}

/// Lower-case letters, digits and `inner` characters, which neither begin nor end it.
fn is_name(text: &str, inner: &[u8]) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter()
        .all(|end| end.is_some_and(|&byte| is_plain(byte)))
        && bytes
            .iter()
            .all(|&byte| is_plain(byte) || inner.contains(&byte))
}

fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        Some((group, version)) => is_name(group, b"-.") && is_name(version, b"-"),
        None => is_name(text, b"-"),
    }
}

fn is_kind(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_inner)
}

fn is_http_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_http = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let is_printable = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    is_http && is_printable && !host.is_empty() && !host.starts_with(':')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn invalid(spec: Value) -> Vec<String> {
        let spec = serde_json::from_value(spec).unwrap();
        invalid_fields(&spec)
            .iter()
            .map(InvalidField::to_string)
            .collect()
    }

    #[test]
    fn what_the_crd_accepts_has_no_problem() {
        let spec = json!({
            "targetCluster": {
                "clusterNames": ["member1"],
                "fieldSelector": { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] },
                "labelSelector": { "matchExpressions": [{ "key": "tier", "operator": "Exists" }] },
            },
            "resourceSelectors": [
                { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web" },
                { "apiVersion": "v1", "kind": "Pod" },
                { "apiVersion": "*", "kind": "*" },
            ],
            "backendStore": { "openSearch": { "addresses": ["https://search.example.com:9200", "http://[::1]:9200/"] } },
        });
        assert_eq!(invalid(spec), Vec::<String>::new());
        assert!(invalid(json!({ "resourceSelectors": [] })).is_empty());
    }

    #[test]
    fn every_problem_is_named_with_its_path() {
        let spec = json!({
            "targetCluster": {
                "fieldSelector": { "matchExpressions": [{ "key": "country", "operator": "Exists" }] },
                "labelSelector": { "matchExpressions": [{ "key": "tier", "operator": "In" }] },
            },
            "resourceSelectors": [
                { "apiVersion": "Apps/v1", "kind": "Deployment" },
                { "apiVersion": "v1", "kind": "po ds", "namespace": "Web" },
                { "apiVersion": "*", "kind": "Pod" },
                { "kind": "*" },
            ],
            "backendStore": { "openSearch": { "addresses": ["search:9200", "https://user:secret@search"] } },
        });
        let found = invalid(spec);
        for path in [
            "spec.targetCluster.fieldSelector.matchExpressions[0]: key must be",
            "spec.targetCluster.fieldSelector.matchExpressions[0]: operator must be In or NotIn",
            "spec.targetCluster.labelSelector.matchExpressions[0]: In and NotIn need",
            "spec.resourceSelectors[0].apiVersion: apiVersion is",
            "spec.resourceSelectors[1].kind: kind is",
            "spec.resourceSelectors[1].namespace: a namespace is",
            "spec.resourceSelectors[2]: apiVersion \"*\"",
            "spec.resourceSelectors[3]: kind \"*\" needs",
            "spec.backendStore.openSearch.addresses[0]: an address is a URL",
            "spec.backendStore.openSearch.addresses[1]: an address must not hold",
        ] {
            let is_found = found.iter().any(|problem| problem.starts_with(path));
            assert!(is_found, "{path} is not in {found:#?}");
        }
        assert_eq!(found.len(), 10, "{found:#?}");
    }
}
