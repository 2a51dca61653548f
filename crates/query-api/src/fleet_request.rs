//! Parses requests below `proxying/karmada/proxy` as an apiserver does.
//!
//! Guarantee: the member gets the same request that is checked here. The forwarded path is encoded
//! again from the parsed parts, and parts that servers read in different ways (encoded slashes, dot
//! segments, empty segments, double encodings) are refused. Source: `RequestInfo` of
//! <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use std::fmt;

use fleetdex_core::model::{ClusterName, Namespace};

use crate::{
    error::QuestionError,
    group::{GROUPS, VERSION},
    percent::encode,
    uri::{QueryParameters, RequestUri},
};

/// Subresources of a namespace; any other segment after a namespace is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];
/// Subresources of long-running requests: those of Kubernetes' API server.
const LONG_RUNNING: [&str; 5] = ["exec", "attach", "portforward", "proxy", "log"];
/// Deprecated prefixes of a resource.
const DEPRECATED_PREFIXES: [&str; 2] = ["watch", "proxy"];
/// The methods that have a verb.
pub const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRequest {
    /// The one cluster that the path names, in front of everything else: `clusters/<name>`.
    pub cluster: Option<ClusterName>,
    /// The rest of the path.
    pub target: RequestTarget,
}

impl FleetRequest {
    /// Whether it is long-running: a watch or a connection to a container, a service or a node.
    pub fn is_long_running(&self) -> bool {
        let RequestTarget::Resource(info) = &self.target else {
            return false;
        };
        info.verb == Verb::Watch
            || info
                .subresource
                .as_deref()
                .is_some_and(|name| LONG_RUNNING.contains(&name))
    }

    /// Whether it leads to something behind an API server, to which every method is forwarded.
    pub fn is_proxied(&self) -> bool {
        matches!(&self.target, RequestTarget::Resource(info) if info.subresource.as_deref() == Some("proxy"))
    }

    /// Whether the index answers it: a list.
    pub fn is_of_index(&self) -> bool {
        matches!(&self.target, RequestTarget::Resource(info) if info.verb == Verb::List)
    }
}

/// A resource request or a non-resource request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// Objects, or a subresource of an object.
    Resource(ResourceInfo),
    /// The decoded segments of a non-resource path: discovery, `version`.
    NonResource(Vec<String>),
}

/// A request for objects, or for a subresource of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// The verb.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Plural.
    pub plural: String,
    /// The namespace; none for all, and for namespaces themselves.
    pub namespace: Option<Namespace>,
    /// The object.
    pub name: Option<String>,
    /// `status`, `log`, …
    pub subresource: Option<String>,
    /// The segments after the subresource, such as the path behind `proxy`.
    pub rest: Vec<String>,
    /// Whether the path ends with a slash, which matters to a server behind `proxy`.
    pub ends_with_slash: bool,
}

/// Kubernetes' verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads objects.
    List,
    /// Streams changes of objects.
    Watch,
    /// Creates an object, or runs an action of one.
    Create,
    /// Replaces an object.
    Update,
    /// Changes parts of an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes several objects.
    DeleteCollection,
}

impl Verb {
    /// As it is written in roles.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    fn of(method: &str) -> Result<Self, QuestionError> {
        match method {
            // OPTIONS is only forwarded to servers behind a proxy.
            "GET" | "HEAD" | "OPTIONS" => Ok(Self::Get),
            "POST" => Ok(Self::Create),
            "PUT" => Ok(Self::Update),
            "PATCH" => Ok(Self::Patch),
            "DELETE" => Ok(Self::Delete),
            other => Err(QuestionError::MethodNotAllowed {
                method: other.to_owned(),
                allowed: METHODS,
            }),
        }
    }

    /// Without a name, a get is a list or a watch, and a delete is a deletecollection.
    fn without_name(self, query: &QueryParameters<'_>) -> Self {
        match self {
            Self::Get if query.is_watch() => Self::Watch,
            Self::Get => Self::List,
            Self::Delete => Self::DeleteCollection,
            other => other,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The part of a request's path below `proxying/karmada/proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProxiedPath<'p> {
    /// Still encoded: empty, or with a slash in front.
    path: &'p str,
    /// Decoded.
    segments: Vec<&'p str>,
}

/// The part of a path below `proxying/karmada/proxy`, if the path is there.
fn below<'p>(uri: &'p RequestUri<'_>) -> Option<ProxiedPath<'p>> {
    GROUPS.into_iter().find_map(|group| {
        let prefix = format!("/apis/{group}/{VERSION}/proxying/karmada/proxy");
        let path = uri.path().strip_prefix(&prefix)?;
        let depth = prefix.matches('/').count();
        (path.is_empty() || path.starts_with('/')).then(|| ProxiedPath {
            path,
            segments: uri.segments().split_off(depth),
        })
    })
}

/// Whether a path is below `proxying/karmada/proxy`.
pub(crate) fn is_below(uri: &RequestUri<'_>) -> bool {
    below(uri).is_some()
}

/// Reads the method, the path and the query of a request; `None` if it is not one of Kubernetes
/// over the fleet.
pub fn parse(method: &str, uri: &RequestUri<'_>) -> Option<Result<FleetRequest, QuestionError>> {
    below(uri).map(|path| parse_path(method, &path, uri.query()))
}

fn parse_path(
    method: &str,
    path: &ProxiedPath<'_>,
    query: &QueryParameters<'_>,
) -> Result<FleetRequest, QuestionError> {
    path.check()?;
    let (cluster, inner) = match path.segments.as_slice() {
        ["clusters", name, rest @ ..] => (Some(name.parse().map_err(QuestionError::path)?), rest),
        all => (None, all),
    };
    if let Some(tricky) = inner.iter().find(|segment| segment.contains('/')) {
        return Err(path.refused(&format!("segment {tricky:?} holds an encoded slash")));
    }
    let target = resource(method, path, inner, query)?.map_or_else(
        || RequestTarget::NonResource(inner.iter().map(|&segment| segment.to_owned()).collect()),
        RequestTarget::Resource,
    );
    Ok(FleetRequest { cluster, target })
}

impl ProxiedPath<'_> {
    /// Refuses what servers read in different ways.
    fn check(&self) -> Result<(), QuestionError> {
        for &segment in &self.segments {
            if matches!(segment, "." | "..") {
                return Err(self.refused("it has a dot segment"));
            }
            if segment.chars().any(char::is_control) {
                return Err(self.refused("it holds a control character"));
            }
        }
        // `RequestUri` refuses empty segments, but for those at the end.
        if self.path.ends_with("//") {
            return Err(self.refused("it has an empty segment"));
        }
        Ok(())
    }

    fn refused(&self, problem: &str) -> QuestionError {
        QuestionError::invalid(format!(
            "path {:?} is refused: {problem}, which servers interpret differently",
            self.path
        ))
    }
}

/// The resource request; `None` for a non-resource path.
fn resource(
    method: &str,
    path: &ProxiedPath<'_>,
    segments: &[&str],
    query: &QueryParameters<'_>,
) -> Result<Option<ResourceInfo>, QuestionError> {
    let (group, version, rest) = match segments {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(None),
    };
    if let Some(prefix) = rest
        .first()
        .filter(|first| DEPRECATED_PREFIXES.contains(first))
    {
        let problem = format!(
            "path {:?}: the prefix {prefix:?} is deprecated and not served; use the parameter watch, or the subresource proxy",
            path.path
        );
        return Err(QuestionError::invalid(problem));
    }
    let (namespace, parts) = match rest {
        ["namespaces", _, third, ..] if NAMESPACE_SUBRESOURCES.contains(third) => (None, rest),
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (Some(*namespace), inside),
        all => (None, all),
    };
    let (plural, name, subresource, beyond) = match parts {
        [plural] => (*plural, None, None, &[][..]),
        [plural, name] => (*plural, Some(*name), None, &[][..]),
        [plural, name, subresource, beyond @ ..] => {
            (*plural, Some(*name), Some(*subresource), beyond)
        }
        [] => return Ok(None),
    };
    let words = [group, version].into_iter().chain(namespace);
    let mut words = words.chain([plural]).chain(name).chain(subresource);
    if let Some(twice) = words.find(|word| word.contains('%')) {
        return Err(path.refused(&format!("{twice:?} is encoded twice")));
    }
    let verb = Verb::of(method)?;
    let namespace = namespace.map(str::parse).transpose();
    Ok(Some(ResourceInfo {
        verb: if name.is_none() {
            verb.without_name(query)
        } else {
            verb
        },
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespace: namespace.map_err(QuestionError::path)?,
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        rest: beyond.iter().map(|&word| word.to_owned()).collect(),
        ends_with_slash: path.path.ends_with('/'),
    }))
}

impl ResourceInfo {
    /// The segments of its path on an apiserver, decoded.
    pub fn segments(&self) -> Vec<&str> {
        let mut segments = if self.group.is_empty() {
            vec!["api"]
        } else {
            vec!["apis", self.group.as_str()]
        };
        segments.push(&self.version);
        if let Some(namespace) = &self.namespace {
            segments.extend(["namespaces", namespace.as_str()]);
        }
        segments.push(&self.plural);
        segments.extend(self.name.as_deref());
        segments.extend(self.subresource.as_deref());
        segments.extend(self.rest.iter().map(String::as_str));
        segments
    }

    /// Its path on an apiserver, encoded.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.segments() {
            path.push('/');
            path.push_str(&encode(segment));
        }
        if self.ends_with_slash && self.subresource.as_deref() == Some("proxy") {
            path.push('/');
        }
        path
    }
}

#[cfg(test)]
mod tests;
