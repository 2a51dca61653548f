//! Media types that clients of the query API ask for.

/// Objects and documents.
pub const JSON: &str = "application/json";
/// A Table, as kubectl asks for it.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
