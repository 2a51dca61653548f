//! What is asked for below `proxying/karmada/proxy`: the inner path and method, read as an apiserver reads them.
//!
//! Guarantee: what is judged here is what a member is asked. The path that goes on is written anew from the parts that were read, and
//! parts that servers read in different ways (encoded slashes, dot segments, empty segments, double encodings) are refused.
//! Source: `RequestInfo` of <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use std::fmt;

use fleetdex_core::model::{ClusterName, Namespace};

use super::super::{
    flag::flag,
    percent::{decode_query, decode_segment, encode},
    request::{GROUPS, VERSION},
    status::ApiError,
};

/// Subresources of a namespace; anything else behind one is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];
/// Subresources that last as long as the client likes: those of Kubernetes' API server.
const LASTING: [&str; 5] = ["exec", "attach", "portforward", "proxy", "log"];
/// What an apiserver of long ago had in front of a resource.
const FORMER_PREFIXES: [&str; 2] = ["watch", "proxy"];
/// The methods that have a verb.
pub const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The one cluster that the path names, in front of everything else: `clusters/<name>`.
    pub cluster: Option<ClusterName>,
    /// The rest.
    pub asked: Asked,
}

impl RequestInfo {
    /// Whether it lasts as long as the client likes.
    pub fn lasts(&self) -> bool {
        let Asked::Resource(info) = &self.asked else {
            return false;
        };
        info.verb == Verb::Watch
            || info
                .subresource
                .as_deref()
                .is_some_and(|name| LASTING.contains(&name))
    }
}

/// What is asked for, of a cluster or of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Objects, or something of an object.
    Resource(ResourceInfo),
    /// The decoded segments of a path that leads to no resource: discovery, `version`.
    Path(Vec<String>),
}

/// A request for objects, or for something of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// What is to be done.
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
    /// What follows the subresource, such as the path behind `proxy`.
    pub rest: Vec<String>,
    /// Whether the path ends with a slash, which means something to what is behind `proxy`.
    pub ends_with_slash: bool,
}

/// Kubernetes' verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One object.
    Get,
    /// Objects.
    List,
    /// Their changes.
    Watch,
    /// A new object, or an action of one.
    Create,
    /// A whole object.
    Update,
    /// Parts of an object.
    Patch,
    /// One object is to go.
    Delete,
    /// Several are.
    DeleteCollection,
}

impl Verb {
    /// As it stands in roles.
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

    fn of(method: &str) -> Result<Self, ApiError> {
        match method {
            // OPTIONS comes here for what is behind a proxy only.
            "GET" | "HEAD" | "OPTIONS" => Ok(Self::Get),
            "POST" => Ok(Self::Create),
            "PUT" => Ok(Self::Update),
            "PATCH" => Ok(Self::Patch),
            "DELETE" => Ok(Self::Delete),
            other => Err(ApiError::MethodNotAllowed {
                method: other.to_owned(),
                allowed: METHODS,
            }),
        }
    }

    /// Without a name, a get is a list or a watch, and a delete is one of many.
    fn without_name(self, query: Option<&str>) -> Self {
        match self {
            Self::Get if is_watch(query) => Self::Watch,
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

/// What of a path lies below `proxying/karmada/proxy`: nothing, or a path that begins with a slash.
pub fn below(path: &str) -> Option<&str> {
    GROUPS.into_iter().find_map(|group| {
        let inner =
            path.strip_prefix(&format!("/apis/{group}/{VERSION}/proxying/karmada/proxy"))?;
        (inner.is_empty() || inner.starts_with('/')).then_some(inner)
    })
}

/// Whether a path leads to something behind an API server, which every method is passed on to.
pub fn is_proxied(path: &str) -> Result<bool, ApiError> {
    let asked = parse("GET", path, None)?.asked;
    Ok(matches!(asked, Asked::Resource(info) if info.subresource.as_deref() == Some("proxy")))
}

/// Reads the method, the inner path as [`below`] gives it, and the query.
pub fn parse(method: &str, path: &str, query: Option<&str>) -> Result<RequestInfo, ApiError> {
    let (segments, ends_with_slash) = segments(path)?;
    let (cluster, inner) = match segments.as_slice() {
        [first, name, rest @ ..] if first == "clusters" => {
            let name = name
                .parse()
                .map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
            (Some(name), rest)
        }
        all => (None, all),
    };
    if let Some(tricky) = inner.iter().find(|segment| segment.contains('/')) {
        return Err(refused(
            path,
            &format!("segment {tricky:?} holds an encoded slash"),
        ));
    }
    let asked = resource(method, path, inner, query)?.map_or_else(
        || Asked::Path(inner.to_vec()),
        |info| {
            Asked::Resource(ResourceInfo {
                ends_with_slash,
                ..info
            })
        },
    );
    Ok(RequestInfo { cluster, asked })
}

/// The decoded segments, and whether a slash follows the last one.
fn segments(path: &str) -> Result<(Vec<String>, bool), ApiError> {
    let inside = path.strip_prefix('/').unwrap_or(path);
    let (inside, ends_with_slash) = inside
        .strip_suffix('/')
        .map_or((inside, false), |shorter| (shorter, true));
    if inside.is_empty() {
        return if ends_with_slash {
            Err(refused(path, "it has an empty segment"))
        } else {
            Ok((Vec::new(), false))
        };
    }
    let mut decoded = Vec::new();
    for segment in inside.split('/') {
        let text = decode_segment(segment)
            .map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
        match text.as_str() {
            "" => return Err(refused(path, "it has an empty segment")),
            "." | ".." => return Err(refused(path, "it has a dot segment")),
            plain if plain.chars().any(char::is_control) => {
                return Err(refused(path, "it holds a control character"));
            }
            _ => decoded.push(text),
        }
    }
    Ok((decoded, ends_with_slash))
}

fn refused(path: &str, problem: &str) -> ApiError {
    ApiError::bad_request(format!(
        "path {path:?} is refused: {problem}, which servers read in different ways"
    ))
}

/// `None` for a path that leads to no resource.
fn resource(
    method: &str,
    path: &str,
    segments: &[String],
    query: Option<&str>,
) -> Result<Option<ResourceInfo>, ApiError> {
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match words.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(None),
    };
    if let Some(prefix) = rest.first().filter(|first| FORMER_PREFIXES.contains(first)) {
        let problem = format!(
            "path {path:?}: the prefix {prefix:?} is of former times; use the parameter watch, or the subresource proxy"
        );
        return Err(ApiError::bad_request(problem));
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
    let single = [
        Some(group),
        Some(version),
        namespace,
        Some(plural),
        name,
        subresource,
    ];
    if let Some(twice) = single.into_iter().flatten().find(|word| word.contains('%')) {
        return Err(refused(path, &format!("{twice:?} is encoded twice")));
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
        namespace: namespace.map_err(|error| ApiError::bad_request(format!("path: {error}")))?,
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        rest: beyond.iter().map(|&word| word.to_owned()).collect(),
        ends_with_slash: false,
    }))
}

/// Whether a query asks for a watch. The first value counts, as in Kubernetes.
pub fn is_watch(query: Option<&str>) -> bool {
    let value = pairs(query)
        .find(|(key, _)| decode_query(key).is_ok_and(|key| key == "watch"))
        .map(|(_, value)| value);
    value.is_some_and(|value| decode_query(value).is_ok_and(|value| flag(&value)))
}

/// Keys and values of a query, still encoded.
pub fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
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
#[path = "request_tests.rs"]
mod tests;
