//! Path and query to what is asked for, by the rules that Kubernetes' apiserver reads requests by.
//!
//! Guarantee: a value that is not understood is refused with its name. A parameter that is not known is ignored, as in Kubernetes, and its name is
//! told: [`ListRequest::ignored`], [`ignored`].
//! Source of the path rules: `RequestInfo` of <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use std::{collections::BTreeSet, num::NonZeroUsize};

use fleetdex_core::{
    model::{ClusterName, Namespace, StoreName},
    selector::{FieldSelector, LabelSelector},
};

use super::{clusterpedia, follow::Follow, options::Options, status::ApiError};

mod changes;
mod counts;
mod native;
#[cfg(test)]
mod tests;
mod words;

pub use changes::ChangesRequest;
pub use counts::AggregateRequest;
pub use native::NativePath;
use words::{limit, words};
pub(super) use words::{parameters, path_segments};

/// Our API group, and Karmada's, whose clients find the same paths below it.
pub const GROUPS: [&str; 2] = ["search.fleetdex.io", "search.karmada.io"];
/// The version of both.
pub const VERSION: &str = "v1alpha1";

/// What clients always send and what changes nothing about a list: how it is laid out, which
/// [`Representation`](super::representation::Representation) reads, how long they wait for it, and a flag of watches.
const IGNORED: [&str; 5] = [
    "includeObject",
    "pretty",
    "timeout",
    "timeoutSeconds",
    "allowWatchBookmarks",
];
/// Parts of the API that do not exist yet. Their empty value means "not given", as in Kubernetes.
const LATER: [&str; 1] = ["shardSelector"];

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRequest {
    /// Which version runs.
    Version,
    /// What the server itself serves.
    Own(OwnDiscovery),
    /// What the schemas of the server's own groups are.
    OpenApi(OpenApi),
    /// Objects.
    List(Box<ListRequest>),
    /// How many objects there are.
    Aggregate(Box<AggregateRequest>),
    /// What this replica changes, asked by another one.
    Changes(Box<ChangesRequest>),
    /// Whether the documents of these clusters, or of all if it is empty, are as their objects.
    Verify(Vec<ClusterName>),
}

impl ApiRequest {
    /// Whether it lasts as long as the client likes: a watch, or a verification.
    pub fn lasts(&self) -> bool {
        match self {
            Self::List(list) => list.follow.watch,
            Self::Changes(changes) => changes.watch,
            Self::Verify(_) => true,
            Self::Version | Self::Own(_) | Self::OpenApi(_) | Self::Aggregate(_) => false,
        }
    }

    /// The method that it is served for.
    pub fn method(&self) -> &'static str {
        match self {
            // It repairs what it finds.
            Self::Verify(_) => "POST",
            Self::Version
            | Self::Own(_)
            | Self::OpenApi(_)
            | Self::List(_)
            | Self::Aggregate(_)
            | Self::Changes(_) => "GET",
        }
    }
}

/// Discovery of the server's own groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnDiscovery {
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(&'static str),
    /// `/apis/<group>/v1alpha1`
    Resources(&'static str),
}

/// `OpenAPI` documents of the server's own groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApi {
    /// `/openapi/v2`
    V2,
    /// `/openapi/v3`
    Index,
    /// `/openapi/v3/apis/<group>/v1alpha1`
    V3(&'static str),
}

/// Discovery of what is registered, below `proxying/karmada/proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetDiscovery {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/<version>` (with the empty group) and `/apis/<group>/<version>`
    Resources {
        /// API group; empty for the core group.
        group: String,
        /// Version in the group.
        version: String,
    },
}

/// A list of objects of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The resource.
    pub native: NativePath,
    /// The cluster that the path names; it must exist.
    pub path_cluster: Option<ClusterName>,
    /// Only these clusters; empty: all. Holds the path's.
    pub clusters: Vec<ClusterName>,
    /// Only these namespaces; empty: all. Holds the path's.
    pub namespaces: Vec<Namespace>,
    /// Only these names; empty: all. Holds the path's.
    pub names: Vec<String>,
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// One page of at most so many; `None`: everything.
    pub limit: Option<NonZeroUsize>,
    /// Where to go on.
    pub continue_token: Option<String>,
    /// The store to ask, where several hold the resource.
    pub store: Option<StoreName>,
    /// The kind of store that the path names.
    pub engine: Option<Engine>,
    /// What goes beyond Kubernetes.
    pub options: Options,
    /// From which version on, and whether changes follow.
    pub follow: Follow,
    /// Whether objects have the fleet's resource version in place of their member's: below `proxying/`.
    pub rewrites_version: bool,
    /// Parameters that are not known.
    pub ignored: Vec<String>,
}

/// A kind of store, as Karmada's paths name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `search/cache`: the one in this process.
    Embedded,
    /// `search/opensearch`
    OpenSearch,
}

impl Engine {
    /// Whether a store is of this kind.
    pub fn is_of(self, store: &StoreName) -> bool {
        (self == Self::Embedded) == (*store == StoreName::embedded())
    }
}

/// Reads a request's path and query.
pub fn parse(path: &str, query: Option<&str>) -> Result<ApiRequest, ApiError> {
    let decoded = path_segments(path)?;
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let parameters = parameters(query.unwrap_or_default())?;
    let no_such_path = || ApiError::NoSuchPath {
        path: path.to_owned(),
    };
    let request = match segments.as_slice() {
        ["version"] => ApiRequest::Version,
        ["openapi", "v2"] => ApiRequest::OpenApi(OpenApi::V2),
        ["openapi", "v3"] => ApiRequest::OpenApi(OpenApi::Index),
        ["openapi", "v3", "apis", group, VERSION] => {
            ApiRequest::OpenApi(OpenApi::V3(own_group(group).ok_or_else(no_such_path)?))
        }
        ["apis"] => ApiRequest::Own(OwnDiscovery::Groups),
        ["apis", group] => ApiRequest::Own(OwnDiscovery::Group(
            own_group(group).ok_or_else(no_such_path)?,
        )),
        ["apis", group, VERSION] => ApiRequest::Own(OwnDiscovery::Resources(
            own_group(group).ok_or_else(no_such_path)?,
        )),
        ["apis", group, VERSION, rest @ ..] if own_group(group).is_some() => {
            below_group(path, rest)?
        }
        _ => return Err(no_such_path()),
    };
    match request {
        ApiRequest::List(list) => Ok(ApiRequest::List(Box::new(list.with(&parameters)?))),
        ApiRequest::Aggregate(counts) => {
            Ok(ApiRequest::Aggregate(Box::new(counts.with(&parameters)?)))
        }
        ApiRequest::Changes(changes) => {
            Ok(ApiRequest::Changes(Box::new(changes.with(&parameters)?)))
        }
        ApiRequest::Verify(_) => clusters_to_verify(&parameters).map(ApiRequest::Verify),
        discovery => Ok(discovery),
    }
}

fn own_group(group: &str) -> Option<&'static str> {
    GROUPS.into_iter().find(|own| *own == group)
}

/// What follows `/apis/<group>/v1alpha1/`.
fn below_group(path: &str, rest: &[&str]) -> Result<ApiRequest, ApiError> {
    match rest {
        ["search", "cache", native @ ..] => Ok(ListRequest::of(path, native, None)?
            .from(Engine::Embedded)
            .boxed()),
        ["search", "opensearch", native @ ..] => Ok(ListRequest::of(path, native, None)?
            .from(Engine::OpenSearch)
            .boxed()),
        ["search", native @ ..] => Ok(ListRequest::of(path, native, None)?.boxed()),
        ["clusters", cluster, native @ ..] if !native.is_empty() => {
            let name = cluster
                .parse()
                .map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
            Ok(ListRequest::of(path, native, Some(name))?.boxed())
        }
        ["verify"] => Ok(ApiRequest::Verify(Vec::new())),
        ["changes", native @ ..] => Ok(ApiRequest::Changes(Box::new(ChangesRequest::of(
            path, native,
        )?))),
        ["aggregate", native @ ..] => Ok(ApiRequest::Aggregate(Box::new(AggregateRequest::of(
            path, native,
        )?))),
        _ => Err(ApiError::NoSuchPath {
            path: path.to_owned(),
        }),
    }
}

/// A list below `proxying/`: `native` is what follows there, decoded, and `cluster` the one that the path names.
pub fn list_of_fleet(
    path: &str,
    native: &[&str],
    cluster: Option<ClusterName>,
    query: Option<&str>,
) -> Result<ListRequest, ApiError> {
    let list =
        ListRequest::of(path, native, cluster)?.with(&parameters(query.unwrap_or_default())?)?;
    Ok(ListRequest {
        rewrites_version: true,
        ..list
    })
}

fn not_yet(what: &str) -> ApiError {
    ApiError::bad_request(format!("{what} is not supported yet"))
}

impl ListRequest {
    fn of(
        path: &str,
        segments: &[&str],
        path_cluster: Option<ClusterName>,
    ) -> Result<Self, ApiError> {
        let native = NativePath::parse(path, segments)?;
        Ok(Self {
            clusters: path_cluster.iter().cloned().collect(),
            namespaces: native.namespace.iter().cloned().collect(),
            names: native.name.iter().cloned().collect(),
            path_cluster,
            native,
            ..Self::default()
        })
    }

    /// What of it says which stores answer: neither names nor selectors.
    #[must_use]
    pub fn of_stores(&self) -> Self {
        Self {
            native: self.native.clone(),
            path_cluster: self.path_cluster.clone(),
            clusters: self.clusters.clone(),
            namespaces: self.namespaces.clone(),
            store: self.store.clone(),
            engine: self.engine,
            ..Self::default()
        }
    }

    fn from(self, engine: Engine) -> Self {
        Self {
            engine: Some(engine),
            ..self
        }
    }

    fn boxed(self) -> ApiRequest {
        ApiRequest::List(Box::new(self))
    }

    fn with(mut self, parameters: &[(String, String)]) -> Result<Self, ApiError> {
        for (key, value) in parameters {
            self.set(key, value)?;
        }
        self.read_labels(parameters)?;
        retain_first(&mut self.clusters);
        retain_first(&mut self.namespaces);
        retain_first(&mut self.names);
        self.options.check().map_err(ApiError::bad_request)?;
        self.follow.check(self.continue_token.is_some())?;
        self.check_watch()?;
        Ok(self)
    }

    /// Takes the parameters that stand as pseudo-labels in the label selector; those of the URL win.
    fn read_labels(&mut self, parameters: &[(String, String)]) -> Result<(), ApiError> {
        let refused =
            |problem: String| ApiError::bad_request(format!("parameter labelSelector: {problem}"));
        let (labels, pseudos) =
            clusterpedia::take(std::mem::take(&mut self.labels)).map_err(refused)?;
        self.labels = labels;
        for pseudo in pseudos {
            let is_given = parameters
                .iter()
                .any(|(key, value)| key == pseudo.parameter && !value.is_empty());
            if !is_given {
                self.set(pseudo.parameter, &pseudo.value)?;
            }
        }
        Ok(())
    }

    /// What a watch cannot do.
    fn check_watch(&self) -> Result<(), ApiError> {
        let Options {
            order_by,
            owner,
            explain,
            ..
        } = &self.options;
        let problems = [
            (
                !owner.names.is_empty(),
                "parameter ownerName: owners are looked up once, so a watch cannot follow them",
            ),
            (
                !owner.uids.is_empty(),
                "parameter ownerUID: owners are looked up once, so a watch cannot follow them",
            ),
            (
                !order_by.is_empty(),
                "parameter orderBy: a watch tells changes in the order in which they come",
            ),
            (
                *explain,
                "parameter explain: only lists and counts are explained",
            ),
        ];
        match problems
            .into_iter()
            .find(|(is_asked, _)| *is_asked && self.follow.watch)
        {
            None => Ok(()),
            Some((_, problem)) => Err(ApiError::bad_request(problem)),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ApiError> {
        let refused =
            |problem: String| ApiError::bad_request(format!("parameter {key}: {problem}"));
        if self.follow.set(key, value).map_err(refused)? {
            return Ok(());
        }
        match key {
            "labelSelector" => {
                self.labels = value
                    .parse()
                    .map_err(|error| refused(format!("{value:?}: {error}")))?;
            }
            "fieldSelector" => {
                self.fields = value
                    .parse()
                    .map_err(|error| refused(format!("{value:?}: {error}")))?;
            }
            "limit" => self.limit = limit(value).map_err(refused)?,
            "continue" => {
                self.continue_token = Some(value.to_owned()).filter(|token| !token.is_empty());
            }
            "clusters" => words(value, &mut self.clusters).map_err(refused)?,
            "namespaces" => words(value, &mut self.namespaces).map_err(refused)?,
            "names" => words(value, &mut self.names).map_err(refused)?,
            "store" if value.is_empty() => {}
            "store" => {
                self.store = Some(value.parse().map_err(|error| refused(format!("{error}")))?);
            }
            ignored if IGNORED.contains(&ignored) => {}
            later if LATER.contains(&later) => {
                if !value.is_empty() {
                    return Err(not_yet(&format!("parameter {later}")));
                }
            }
            other => {
                if !self.options.set(other, value).map_err(refused)? {
                    self.ignored.push(other.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Each value once, where it stands first.
fn retain_first<T: Ord + Clone>(values: &mut Vec<T>) {
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.clone()));
}

fn unknown(key: &str, known: &str) -> ApiError {
    ApiError::bad_request(format!("parameter {key:?} is unknown; known are {known}"))
}

/// Parameters that are not known of a request that is no list and no count.
pub fn ignored(request: &ApiRequest, query: Option<&str>) -> Result<Vec<String>, ApiError> {
    let known: &[&str] = match request {
        ApiRequest::Version | ApiRequest::Own(_) => &[],
        ApiRequest::Verify(_) => &["clusters"],
        // Clients bring what they found in the index, such as a hash. Lists tell themselves.
        ApiRequest::OpenApi(_)
        | ApiRequest::List(_)
        | ApiRequest::Aggregate(_)
        | ApiRequest::Changes(_) => return Ok(Vec::new()),
    };
    let names = parameters(query.unwrap_or_default())?
        .into_iter()
        .map(|(key, _)| key);
    Ok(names
        .filter(|key| !IGNORED.contains(&key.as_str()) && !known.contains(&key.as_str()))
        .collect())
}

fn clusters_to_verify(parameters: &[(String, String)]) -> Result<Vec<ClusterName>, ApiError> {
    let mut clusters = Vec::new();
    for (key, value) in parameters {
        if key == "clusters" {
            words(value, &mut clusters).map_err(|problem| {
                ApiError::bad_request(format!("parameter clusters: {problem}"))
            })?;
        }
    }
    Ok(clusters)
}
