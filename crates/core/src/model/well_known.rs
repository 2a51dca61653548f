//! Annotations and keys with a meaning of their own.

/// The annotation on every answered object that names its member. Source: Karmada's search API.
pub const CLUSTER_ANNOTATION: &str = "resource.karmada.io/cached-from-cluster";
/// The annotation that keeps the `resourceVersion` that an object has in its own cluster.
pub const OWN_VERSION_ANNOTATION: &str = "fleetdex.io/resource-version";
/// The annotation of an object of which something is not stored: what that is, as `JSONPath`s.
pub const REDACTED_ANNOTATION: &str = "fleetdex.io/redacted";
/// The annotation of an object that was answered from the index although it should have come from its member: why.
pub const INDEXED_ANNOTATION: &str = "fleetdex.io/answered-from-index";
/// kubectl's copy of the whole object, with the values of a Secret.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keys that the document needs for itself.
pub(super) const OWN_KEYS: [&str; 2] = ["cluster", "search"];

/// Longer values of selectable fields are cut; a query for a longer one is refused.
pub const MAX_FIELD_VALUE_BYTES: usize = 1024;
