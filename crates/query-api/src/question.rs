//! Parses path and query into a [`Question`], by the rules of Kubernetes' apiserver.
//!
//! Guarantee: an invalid value is refused, and the error names its parameter. An unknown parameter
//! is ignored, as in Kubernetes, and its name is reported: [`ListRequest::ignored`], [`ignored`].
//! Source of the path rules: `RequestInfo` of
//! <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use fleetdex_core::model::ClusterName;
use http::Method;

use super::uri::{QueryParameter, QueryParameters, RequestUri};
use crate::{
    error::QuestionError,
    group::{GROUPS, VERSION},
};

mod across_kinds;
mod changes;
mod completions;
mod counts;
mod list;
mod parameters;
mod resource_path;
mod search;
mod store_kind;
#[cfg(test)]
mod tests;
mod to_uri;
#[cfg(test)]
mod uri_laws;
mod values;

pub use across_kinds::{ImagesRequest, MergedRequest, ObjectsRequest, RelatedRequest};
pub use changes::ChangesRequest;
pub use completions::CompletionsRequest;
pub use counts::AggregateRequest;
pub use list::ListRequest;
use parameters::WITHOUT_EFFECT;
pub use resource_path::ResourcePath;
pub use search::{SearchRequest, SearchWatch};
pub use store_kind::StoreKind;
use values::comma_separated;

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
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

impl Question {
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

    /// Whether it is served with a method. The response to HEAD is the head of that to GET.
    pub fn is_served_with(&self, method: &Method) -> bool {
        let asked = if method == Method::HEAD {
            "GET"
        } else {
            method.as_str()
        };
        asked == self.method()
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
pub fn parse(uri: &RequestUri<'_>) -> Result<Question, QuestionError> {
    let path = uri.path();
    let parameters = uri.query().distinct()?;
    let no_such_path = || QuestionError::NoSuchPath {
        path: path.to_owned(),
    };
    let request = match uri.segments().as_slice() {
        ["version"] => Question::Version,
        ["openapi", "v2"] => Question::OpenApi(OpenApi::V2),
        ["openapi", "v3"] => Question::OpenApi(OpenApi::Index),
        ["openapi", "v3", "apis", group, VERSION] => {
            Question::OpenApi(OpenApi::V3(own_group(group).ok_or_else(no_such_path)?))
        }
        ["apis"] => Question::Discovery(GroupDiscovery::Groups),
        ["apis", group] => Question::Discovery(GroupDiscovery::Group(
            own_group(group).ok_or_else(no_such_path)?,
        )),
        ["apis", group, VERSION] => Question::Discovery(GroupDiscovery::Resources(
            own_group(group).ok_or_else(no_such_path)?,
        )),
        ["apis", group, VERSION, rest @ ..] if own_group(group).is_some() => {
            below_group(path, rest, parameters)?
        }
        _ => return Err(no_such_path()),
    };
    match request {
        Question::List(list) => Ok(Question::List(Box::new(list.with(parameters)?))),
        Question::Aggregate(counts) => Ok(Question::Aggregate(Box::new(counts.with(parameters)?))),
        Question::Changes(changes) => Ok(Question::Changes(Box::new(changes.with(parameters)?))),
        Question::Verify(verify) => Ok(Question::Verify(VerifyRequest {
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
) -> Result<Question, QuestionError> {
    match rest {
        ["search", "cache", resource_path @ ..] => Ok(boxed(
            ListRequest::of(path, resource_path, None)?.from(StoreKind::Embedded),
        )),
        ["search", "opensearch", resource_path @ ..] => Ok(boxed(
            ListRequest::of(path, resource_path, None)?.from(StoreKind::OpenSearch),
        )),
        ["search", resource_path @ ..] => Ok(boxed(ListRequest::of(path, resource_path, None)?)),
        ["clusters"] => Ok(Question::Clusters),
        ["clusters", cluster, resource_path @ ..] if !resource_path.is_empty() => {
            let name = cluster.parse().map_err(QuestionError::path)?;
            Ok(boxed(ListRequest::of(path, resource_path, Some(name))?))
        }
        ["objects"] => objects(parameters),
        ["completions"] => Ok(Question::Completions(Box::new(CompletionsRequest::with(
            parameters,
        )?))),
        ["images"] => Ok(Question::Images(Box::new(ImagesRequest::with(parameters)?))),
        ["related", resource_path @ ..] => {
            let request = RelatedRequest::of(path, resource_path, parameters)?;
            Ok(Question::Related(Box::new(request)))
        }
        ["merged", resource_path @ ..] => {
            let request = MergedRequest::of(path, resource_path, parameters)?;
            Ok(Question::Merged(Box::new(request)))
        }
        ["interpret"] => Ok(Question::Interpret),
        ["verify"] => Ok(Question::Verify(VerifyRequest::default())),
        // Another replica asks for it, with the right to replicate changes.
        ["changes", "verify"] => Ok(Question::Verify(VerifyRequest {
            is_of_replica: true,
            ..VerifyRequest::default()
        })),
        ["changes", resource_path @ ..] => Ok(Question::Changes(Box::new(ChangesRequest::of(
            path,
            resource_path,
        )?))),
        ["aggregate", resource_path @ ..] => Ok(Question::Aggregate(Box::new(
            AggregateRequest::of(path, resource_path)?,
        ))),
        _ => Err(QuestionError::NoSuchPath {
            path: path.to_owned(),
        }),
    }
}

/// A search by a text, or by selectors alone.
fn objects(parameters: &[QueryParameter<'_>]) -> Result<Question, QuestionError> {
    let mut keys = parameters.iter().map(|parameter| &*parameter.key);
    if keys.any(|key| key == search::TEXT) {
        let request = SearchRequest::with(parameters)?;
        return Ok(Question::Search(Box::new(request)));
    }
    let request = ObjectsRequest::with(parameters)?;
    Ok(Question::Objects(Box::new(request)))
}

fn boxed(list: ListRequest) -> Question {
    Question::List(Box::new(list))
}

/// Parses a list below `proxying/`: `resource_path` is the resource's path, decoded, and `cluster`
/// the one that the path names.
pub fn list_of_fleet(
    uri: &RequestUri<'_>,
    resource_path: &[&str],
    cluster: Option<ClusterName>,
) -> Result<ListRequest, QuestionError> {
    let list =
        ListRequest::of(uri.path(), resource_path, cluster)?.with(uri.query().distinct()?)?;
    Ok(ListRequest {
        rewrites_version: true,
        ..list
    })
}

/// Unknown parameters of a request. Lists and counts report their own.
pub fn ignored(
    request: &Question,
    query: &QueryParameters<'_>,
) -> Result<Vec<String>, QuestionError> {
    let known: &[&str] = match request {
        Question::Version | Question::Discovery(_) | Question::Clusters | Question::Interpret => {
            &[]
        }
        Question::Verify(_) => &["clusters"],
        // Clients of OpenAPI send parameters of the index's links, such as a hash. The others
        // report or refuse unknown parameters themselves.
        Question::OpenApi(_)
        | Question::List(_)
        | Question::Aggregate(_)
        | Question::Objects(_)
        | Question::Search(_)
        | Question::Completions(_)
        | Question::Related(_)
        | Question::Merged(_)
        | Question::Images(_)
        | Question::Changes(_) => return Ok(Vec::new()),
    };
    let names = query.distinct()?.iter().map(|parameter| &*parameter.key);
    Ok(names
        .filter(|key| !WITHOUT_EFFECT.contains(key) && !known.contains(key))
        .map(str::to_owned)
        .collect())
}

fn clusters_to_verify(
    parameters: &[QueryParameter<'_>],
) -> Result<Vec<ClusterName>, QuestionError> {
    let mut clusters = Vec::new();
    for QueryParameter { key, value, .. } in parameters {
        if key == "clusters" {
            comma_separated(value, &mut clusters)
                .map_err(|problem| QuestionError::parameter(key, problem))?;
        }
    }
    Ok(clusters)
}
