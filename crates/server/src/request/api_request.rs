//! Parses path and query into an [`ApiRequest`], by the rules of Kubernetes' apiserver.
//!
//! Guarantee: an invalid value is refused, and the error names its parameter. An unknown parameter is ignored, as in Kubernetes, and its name is
//! reported: [`ListRequest::ignored`], [`ignored`].
//! Source of the path rules: `RequestInfo` of <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use fleetdex_core::model::ClusterName;

use super::{
    api_error::ApiError,
    uri::{QueryParameter, QueryParameters, RequestUri},
};

mod across_kinds;
mod changes;
mod completions;
mod counts;
mod errors;
mod interpret;
mod list;
mod parameters;
mod resource_path;
mod search;
mod store_kind;
#[cfg(test)]
mod tests;
mod values;

pub use across_kinds::{ImagesRequest, MergedRequest, ObjectsRequest, RelatedRequest};
pub use changes::ChangesRequest;
pub use completions::CompletionsRequest;
pub use counts::AggregateRequest;
pub use interpret::InterpretRequest;
pub use list::ListRequest;
use parameters::WITHOUT_EFFECT;
pub use resource_path::ResourcePath;
pub use search::{SearchRequest, SearchWatch};
pub use store_kind::StoreKind;
use values::comma_separated;

/// Our API group, and Karmada's, below which its clients find the same paths.
pub const GROUPS: [&str; 2] = ["search.fleetdex.io", "search.karmada.io"];
/// The version of both groups.
pub const VERSION: &str = "v1alpha1";

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRequest {
    /// The version of this server.
    Version,
    /// Discovery of the server's own groups.
    Discovery(GroupDiscovery),
    /// `OpenAPI` documents of the server's own groups.
    OpenApi(OpenApi),
    /// A list or a watch.
    List(Box<ListRequest>),
    /// Counts of objects.
    Aggregate(Box<AggregateRequest>),
    /// Objects of every kind.
    Objects(Box<ObjectsRequest>),
    /// A search over all kinds.
    Search(Box<SearchRequest>),
    /// Completions of a search.
    Completions(Box<CompletionsRequest>),
    /// The relations of an object.
    Related(Box<RelatedRequest>),
    /// One object as all clusters have it.
    Merged(Box<MergedRequest>),
    /// The images of Pods.
    Images(Box<ImagesRequest>),
    /// An operation of a resource interpreter; the body says which.
    Interpret,
    /// The changes that this replica makes, for another replica.
    Changes(Box<ChangesRequest>),
    /// How the clusters are read.
    Clusters,
    /// Verification of the documents of clusters.
    Verify(VerifyRequest),
}

/// A verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyRequest {
    /// These clusters; empty: all.
    pub clusters: Vec<ClusterName>,
    /// Whether another replica asks, for the clusters that this one reads.
    pub is_of_replica: bool,
}

impl ApiRequest {
    /// Whether one step of its response may compute much: on a page of objects that are not sent
    /// one by one.
    pub fn computes_much(&self) -> bool {
        match self {
            Self::Search(search) => search.watch.is_none(),
            Self::Aggregate(_)
            | Self::Objects(_)
            | Self::Completions(_)
            | Self::Related(_)
            | Self::Merged(_)
            | Self::Images(_)
            | Self::Interpret => true,
            Self::Version
            | Self::Discovery(_)
            | Self::OpenApi(_)
            | Self::List(_)
            | Self::Clusters
            | Self::Changes(_)
            | Self::Verify(_) => false,
        }
    }

    /// Whether it is long-running: a watch, or a verification.
    pub fn is_long_running(&self) -> bool {
        match self {
            Self::List(list) => list.watch_options.watch,
            Self::Search(search) => search.watch.is_some(),
            Self::Changes(changes) => changes.watch,
            Self::Verify(_) => true,
            Self::Version
            | Self::Discovery(_)
            | Self::OpenApi(_)
            | Self::Aggregate(_)
            | Self::Objects(_)
            | Self::Completions(_)
            | Self::Related(_)
            | Self::Merged(_)
            | Self::Images(_)
            | Self::Clusters
            | Self::Interpret => false,
        }
    }

    /// The HTTP method that it is served with.
    pub fn method(&self) -> &'static str {
        match self {
            // A verification repairs drift, and an interpretation has a body.
            Self::Verify(_) | Self::Interpret => "POST",
            Self::Version
            | Self::Discovery(_)
            | Self::OpenApi(_)
            | Self::List(_)
            | Self::Aggregate(_)
            | Self::Objects(_)
            | Self::Search(_)
            | Self::Completions(_)
            | Self::Related(_)
            | Self::Merged(_)
            | Self::Images(_)
            | Self::Clusters
            | Self::Changes(_) => "GET",
        }
    }
}

/// Discovery of the server's own groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupDiscovery {
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

/// Discovery of the registered resources, below `proxying/karmada/proxy`.
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

/// Parses a request that is not below `proxying/`.
pub fn parse(uri: &RequestUri<'_>) -> Result<ApiRequest, ApiError> {
    let path = uri.path();
    let parameters = uri.query().distinct()?;
    let no_such_path = || ApiError::NoSuchPath {
        path: path.to_owned(),
    };
    let request = match uri.segments().as_slice() {
        ["version"] => ApiRequest::Version,
        ["openapi", "v2"] => ApiRequest::OpenApi(OpenApi::V2),
        ["openapi", "v3"] => ApiRequest::OpenApi(OpenApi::Index),
        ["openapi", "v3", "apis", group, VERSION] => {
            ApiRequest::OpenApi(OpenApi::V3(own_group(group).ok_or_else(no_such_path)?))
        }
        ["apis"] => ApiRequest::Discovery(GroupDiscovery::Groups),
        ["apis", group] => ApiRequest::Discovery(GroupDiscovery::Group(
            own_group(group).ok_or_else(no_such_path)?,
        )),
        ["apis", group, VERSION] => ApiRequest::Discovery(GroupDiscovery::Resources(
            own_group(group).ok_or_else(no_such_path)?,
        )),
        ["apis", group, VERSION, rest @ ..] if own_group(group).is_some() => {
            below_group(path, rest, parameters)?
        }
        _ => return Err(no_such_path()),
    };
    match request {
        ApiRequest::List(list) => Ok(ApiRequest::List(Box::new(list.with(parameters)?))),
        ApiRequest::Aggregate(counts) => {
            Ok(ApiRequest::Aggregate(Box::new(counts.with(parameters)?)))
        }
        ApiRequest::Changes(changes) => {
            Ok(ApiRequest::Changes(Box::new(changes.with(parameters)?)))
        }
        ApiRequest::Verify(verify) => Ok(ApiRequest::Verify(VerifyRequest {
            clusters: clusters_to_verify(parameters)?,
            ..verify
        })),
        complete => Ok(complete),
    }
}

fn own_group(group: &str) -> Option<&'static str> {
    GROUPS.into_iter().find(|own| *own == group)
}

/// What follows `/apis/<group>/v1alpha1/`.
fn below_group(
    path: &str,
    rest: &[&str],
    parameters: &[QueryParameter<'_>],
) -> Result<ApiRequest, ApiError> {
    match rest {
        ["search", "cache", resource_path @ ..] => Ok(boxed(
            ListRequest::of(path, resource_path, None)?.from(StoreKind::Embedded),
        )),
        ["search", "opensearch", resource_path @ ..] => Ok(boxed(
            ListRequest::of(path, resource_path, None)?.from(StoreKind::OpenSearch),
        )),
        ["search", resource_path @ ..] => Ok(boxed(ListRequest::of(path, resource_path, None)?)),
        ["clusters"] => Ok(ApiRequest::Clusters),
        ["clusters", cluster, resource_path @ ..] if !resource_path.is_empty() => {
            let name = cluster
                .parse()
                .map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
            Ok(boxed(ListRequest::of(path, resource_path, Some(name))?))
        }
        ["objects"]
            if parameters
                .iter()
                .any(|parameter| parameter.key == search::TEXT) =>
        {
            let request = SearchRequest::with(parameters)?;
            Ok(ApiRequest::Search(Box::new(request)))
        }
        ["objects"] => {
            let request = ObjectsRequest::with(parameters)?;
            Ok(ApiRequest::Objects(Box::new(request)))
        }
        ["completions"] => {
            let request = CompletionsRequest::with(parameters)?;
            Ok(ApiRequest::Completions(Box::new(request)))
        }
        ["images"] => {
            let request = ImagesRequest::with(parameters)?;
            Ok(ApiRequest::Images(Box::new(request)))
        }
        ["related", resource_path @ ..] => {
            let request = RelatedRequest::of(path, resource_path, parameters)?;
            Ok(ApiRequest::Related(Box::new(request)))
        }
        ["merged", resource_path @ ..] => {
            let request = MergedRequest::of(path, resource_path, parameters)?;
            Ok(ApiRequest::Merged(Box::new(request)))
        }
        ["interpret"] => Ok(ApiRequest::Interpret),
        ["verify"] => Ok(ApiRequest::Verify(VerifyRequest::default())),
        // Another replica asks for it, with the right to replicate changes.
        ["changes", "verify"] => Ok(ApiRequest::Verify(VerifyRequest {
            is_of_replica: true,
            ..VerifyRequest::default()
        })),
        ["changes", resource_path @ ..] => Ok(ApiRequest::Changes(Box::new(ChangesRequest::of(
            path,
            resource_path,
        )?))),
        ["aggregate", resource_path @ ..] => Ok(ApiRequest::Aggregate(Box::new(
            AggregateRequest::of(path, resource_path)?,
        ))),
        _ => Err(ApiError::NoSuchPath {
            path: path.to_owned(),
        }),
    }
}

fn boxed(list: ListRequest) -> ApiRequest {
    ApiRequest::List(Box::new(list))
}

/// Parses a list below `proxying/`: `resource_path` is the resource's path, decoded, and `cluster` the one that the path names.
pub fn list_of_fleet(
    uri: &RequestUri<'_>,
    resource_path: &[&str],
    cluster: Option<ClusterName>,
) -> Result<ListRequest, ApiError> {
    let list =
        ListRequest::of(uri.path(), resource_path, cluster)?.with(uri.query().distinct()?)?;
    Ok(ListRequest {
        rewrites_version: true,
        ..list
    })
}

/// Unknown parameters of a request. Lists and counts report their own.
pub fn ignored(request: &ApiRequest, query: &QueryParameters<'_>) -> Result<Vec<String>, ApiError> {
    let known: &[&str] = match request {
        ApiRequest::Version
        | ApiRequest::Discovery(_)
        | ApiRequest::Clusters
        | ApiRequest::Interpret => &[],
        ApiRequest::Verify(_) => &["clusters"],
        // Clients of OpenAPI send parameters of the index's links, such as a hash. The others report or refuse unknown parameters themselves.
        ApiRequest::OpenApi(_)
        | ApiRequest::List(_)
        | ApiRequest::Aggregate(_)
        | ApiRequest::Objects(_)
        | ApiRequest::Search(_)
        | ApiRequest::Completions(_)
        | ApiRequest::Related(_)
        | ApiRequest::Merged(_)
        | ApiRequest::Images(_)
        | ApiRequest::Changes(_) => return Ok(Vec::new()),
    };
    let names = query.distinct()?.iter().map(|parameter| &*parameter.key);
    Ok(names
        .filter(|key| !WITHOUT_EFFECT.contains(key) && !known.contains(key))
        .map(str::to_owned)
        .collect())
}

fn clusters_to_verify(parameters: &[QueryParameter<'_>]) -> Result<Vec<ClusterName>, ApiError> {
    let mut clusters = Vec::new();
    for QueryParameter { key, value, .. } in parameters {
        if key == "clusters" {
            comma_separated(value, &mut clusters).map_err(|problem| {
                ApiError::bad_request(format!("parameter clusters: {problem}"))
            })?;
        }
    }
    Ok(clusters)
}
