//! The authorization attributes of a request: what RBAC decides about.
//!
//! Source of the rules: `RequestInfo` of
//! <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::ResourceName,
};
use http::Method;

use crate::{
    group::{GROUPS, VERSION},
    uri::RequestUri,
};

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// It accesses a resource.
    Resource(ResourceAccess),
    /// It accesses a non-resource path.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

/// A request's access to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAccess {
    /// `get`, `list` …
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Plural.
    pub resource: String,
    /// The subresource, if there is one.
    pub subresource: Option<String>,
    /// The object's name, if there is one.
    pub name: Option<String>,
    /// The namespace; `None`: all namespaces, or cluster-scoped.
    pub namespace: Option<String>,
}

/// The RBAC verb that a caller needs to open a watch of objects, and to keep it open.
pub const WATCH_VERB: &str = "watch";

impl Attributes {
    /// The attributes of a request to this server, by its method and its path.
    pub fn of(method: &Method, uri: &RequestUri<'_>) -> Self {
        let segments = uri.segments();
        let ["apis", group, version, resource, rest @ ..] = segments.as_slice() else {
            return Self::Path {
                verb: method.as_str().to_ascii_lowercase(),
                path: format!("/{}", segments.join("/")),
            };
        };
        if *resource == "changes" && GROUPS.contains(group) {
            return Self::of_replication();
        }
        let name = rest.first().map(|name| (*name).to_owned());
        let verb = match (method.as_str(), &name) {
            // OPTIONS lists the methods at most, or is forwarded to a member, which decides itself.
            ("GET" | "HEAD" | "OPTIONS", None) => "list",
            ("GET" | "HEAD" | "OPTIONS", Some(_)) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", None) => "deletecollection",
            ("DELETE", Some(_)) => "delete",
            // No RBAC rule allows an empty verb: only superusers can send other methods.
            _ => "",
        };
        Self::Resource(ResourceAccess {
            verb: verb.to_owned(),
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            resource: (*resource).to_owned(),
            subresource: rest.get(1).map(|name| (*name).to_owned()),
            name,
            namespace: None,
        })
    }

    /// Reading the whole change log of a replica, whatever the caller can see: a verb of its own,
    /// so that no role for users grants it by accident. By its path a request would be one for a
    /// subresource such as `changes/v1` or `changes/apps`, and RBAC has no rule for all of them.
    fn of_replication() -> Self {
        Self::Resource(ResourceAccess {
            verb: "replicate".to_owned(),
            group: GROUPS[0].to_owned(),
            version: VERSION.to_owned(),
            resource: "changes".to_owned(),
            ..ResourceAccess::default()
        })
    }

    /// Seeing one cluster, or all of them.
    pub fn of_cluster(cluster: Option<&ClusterName>) -> Self {
        Self::Resource(ResourceAccess {
            verb: "get".to_owned(),
            group: GROUPS[0].to_owned(),
            version: VERSION.to_owned(),
            resource: "clusters".to_owned(),
            name: cluster.map(ToString::to_string),
            ..ResourceAccess::default()
        })
    }

    /// Reading objects of the fleet, in one namespace or all.
    pub fn of_objects(
        verb: &str,
        resource: &ResourceName,
        version: &str,
        namespace: Option<&Namespace>,
        name: Option<&str>,
    ) -> Self {
        Self::Resource(ResourceAccess {
            verb: verb.to_owned(),
            group: resource.group.to_string(),
            version: version.to_owned(),
            resource: resource.plural.to_string(),
            subresource: None,
            name: name.map(str::to_owned),
            namespace: namespace.map(ToString::to_string),
        })
    }

    /// Whether it is a health check, which needs no authorization.
    pub fn is_health(&self) -> bool {
        matches!(self, Self::Path { path, .. } if matches!(path.as_str(), "/healthz" | "/livez" | "/readyz"))
    }

    /// Bytes that the caller has chosen.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Path { verb, path } => verb.len() + path.len(),
            Self::Resource(access) => {
                let optional = [&access.subresource, &access.name, &access.namespace];
                let optional: usize = optional.into_iter().flatten().map(String::len).sum();
                access.verb.len()
                    + access.group.len()
                    + access.version.len()
                    + access.resource.len()
                    + optional
            }
        }
    }
}
