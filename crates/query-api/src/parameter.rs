//! Names of parameters that clients send, too.

/// Selects by labels, as in Kubernetes.
pub const LABEL_SELECTOR: &str = "labelSelector";
/// Selects by fields, as in Kubernetes.
pub const FIELD_SELECTOR: &str = "fieldSelector";
