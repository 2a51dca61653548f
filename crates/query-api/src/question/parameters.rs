//! Names of query parameters that every list treats alike.

/// Parameters that do not change which objects a list has: the layout, which content negotiation
/// reads, the client's timeout, and a flag of watches. Clients send them with every request.
pub(super) const WITHOUT_EFFECT: [&str; 5] = [
    "includeObject",
    "pretty",
    "timeout",
    "timeoutSeconds",
    "allowWatchBookmarks",
];
/// Parameters that are not supported yet. An empty value means that the parameter is not given, as
/// in Kubernetes.
pub(super) const UNSUPPORTED: [&str; 1] = ["shardSelector"];
