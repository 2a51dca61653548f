//! Annotations, keys and limits that several modules share.

use super::index_fields;

/// The annotation with the member of an object, on every object in a response. Source: Karmada's
/// search API.
pub const CLUSTER_ANNOTATION: &str = "resource.karmada.io/cached-from-cluster";
/// The annotation with the `resourceVersion` of an object in its member.
pub const MEMBER_VERSION_ANNOTATION: &str = "fleetdex.io/resource-version";
/// The annotation with the `JSONPath`s of what is not stored of an object.
pub const REDACTED_ANNOTATION: &str = "fleetdex.io/redacted";
/// The annotation with the reason why an object comes from the index instead of its member.
pub const INDEXED_ANNOTATION: &str = "fleetdex.io/answered-from-index";
/// The annotation in which kubectl keeps a copy of the whole object, values of Secrets included.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Top-level keys that a document adds to those of its object.
pub(super) const DOCUMENT_KEYS: [&str; 2] = [index_fields::CLUSTER, index_fields::SEARCH];

/// Bytes of the value of a selectable field: documents hold longer ones cut, and a query for a
/// longer one is refused.
pub const MAX_FIELD_VALUE_BYTES: usize = 1024;
