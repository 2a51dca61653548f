//! Kubernetes over the fleet: everything below `proxying/karmada/proxy`.
//!
//! [`request`] reads what is asked for. Lists come from the index, as those below `search/`. What concerns one object goes on to the
//! member that has it: [`locate`] asks the index which one that is, [`body`] puts what is written in the member's words, [`forward`] sends it
//! as the caller, by the clients of [`clients`], with the headers of [`headers`], through a [`tunnel`] where another protocol is spoken.
//! [`documents`] are what clients read before they ask: discovery, OpenAPI, the version.
//!
//! Objects carry the fleet's resource version and, as annotations, the member's own and the member's name: see [`crate::model::told`].

pub mod body;
pub mod clients;
pub mod documents;
pub mod forward;
pub mod headers;
pub mod locate;
pub mod request;
pub mod tunnel;

use std::sync::Arc;

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderValue, Method, StatusCode, header};
use tokio_util::sync::CancellationToken;

use self::{
    body::{BodyError, BodyKind},
    clients::{Clients, impersonation},
    documents::Documents,
    forward::{Answer, Destination, ForwardError, Forwarder, JSON, Manner},
    request::{Asked, ResourceInfo, Verb},
};
use super::{
    caller::Caller,
    catalog::{Catalog, qualified},
    percent::decode_query,
    request::list_of_fleet,
    serve::{self, Api},
    status::ApiError,
};
use crate::{
    cluster::Clusters,
    model::{
        ClusterName,
        told::{Told, tell},
    },
    query::{Hit, ResourceName},
};

/// The largest body that an apiserver takes.
const MAX_BODY: usize = 3 << 20;
/// Parameters of lists over the fleet, which mean nothing to a member.
const OF_LISTS: [&str; 11] = [
    "namespaces",
    "names",
    "store",
    "orderBy",
    "ownerUID",
    "ownerName",
    "ownerSeniority",
    "since",
    "before",
    "onlyMetadata",
    "withRemainingCount",
];
/// How a caller says which cluster is meant.
const HOW_TO_CHOOSE: &str =
    "name one cluster with the parameter clusters, or use …/proxying/karmada/proxy/clusters/<cluster> as the server";

/// The members, as requests of users see them.
#[derive(Debug)]
pub struct Members {
    forwarder: Forwarder,
    documents: Documents,
}

impl Members {
    /// Requests go on to these clusters, and sessions with them last until `cancel` is cancelled.
    pub fn new(clusters: Arc<Clusters>, cancel: CancellationToken) -> Self {
        Self { forwarder: Forwarder::new(Clients::new(clusters), cancel), documents: Documents::default() }
    }

    /// Waits until all sessions have ended; to be called after the token was cancelled.
    pub async fn stopped(&self) {
        self.forwarder.tunnels.stopped().await;
    }
}

/// Answers a request below `proxying/karmada/proxy`; `inner` is the path from there on.
pub async fn answer(api: &Api, caller: &Caller, inner: &str, request: Request) -> Result<Response, ApiError> {
    let info = request::parse(request.method().as_str(), inner, request.uri().query())?;
    let catalog = Arc::clone(&api.catalog.borrow());
    let scope = Scope { api, catalog: &catalog, caller };
    match info.asked {
        Asked::Path(path) => {
            let (head, _unread_body) = request.into_parts();
            documents::answer(&scope, info.cluster.as_ref(), &path, &head).await
        }
        Asked::Resource(resource) => scope.resource(info.cluster, &resource, request).await,
    }
}

/// What every step of one answer needs.
pub(super) struct Scope<'s> {
    pub(super) api: &'s Api,
    pub(super) catalog: &'s Catalog,
    pub(super) caller: &'s Caller,
}

impl Scope<'_> {
    fn members(&self) -> &Members {
        &self.api.members
    }

    async fn resource(&self, cluster: Option<ClusterName>, info: &ResourceInfo, request: Request) -> Result<Response, ApiError> {
        let path = request.uri().path().to_owned();
        if matches!(info.verb, Verb::List | Verb::Watch) {
            serve::check_accept(request.headers())?;
            let list = list_of_fleet(&path, &info.segments(), cluster, request.uri().query())?;
            return serve::answer_list(self.catalog, &list).await;
        }
        let (chosen, query) = chosen(cluster, info, request.uri().query())?;
        locate::check(self.catalog, info, &chosen)?;
        match (info.verb, chosen.as_slice()) {
            (Verb::DeleteCollection, _) => Err(ApiError::NotServed(format!(
                "deleting {} of many clusters at once is not served; delete them by name, or ask the cluster itself",
                qualified(&ResourceName::new(&info.group, &info.plural))
            ))),
            (Verb::Create, [one]) if info.name.is_none() => {
                let to = self.destination(one.clone(), info, &query);
                self.forward(to, info, request, None).await
            }
            (Verb::Create, _) if info.name.is_none() => {
                Err(ApiError::NotServed(format!("an object is created in one cluster: {HOW_TO_CHOOSE}")))
            }
            _ => self.named(info, &chosen, &query, request).await,
        }
    }

    /// What concerns one object.
    async fn named(
        &self,
        info: &ResourceInfo,
        chosen: &[ClusterName],
        query: &str,
        request: Request,
    ) -> Result<Response, ApiError> {
        let found = match chosen {
            // No need to be in the index, which may not have heard of it yet.
            [one] if info.verb != Verb::Get || info.subresource.is_some() => {
                let to = self.destination(one.clone(), info, query);
                return self.forward(to, info, request, None).await;
            }
            _ => locate::locate(self.catalog, info, chosen).await?,
        };
        match (found.as_slice(), chosen) {
            ([hit], _) => {
                let to = self.destination(hit.cluster.clone(), info, query);
                self.forward(to, info, request, Some(hit)).await
            }
            ([], [one]) => {
                let to = self.destination(one.clone(), info, query);
                self.forward(to, info, request, None).await
            }
            ([], _) => Err(ApiError::NoSuchObject {
                group: info.group.clone(),
                plural: info.plural.clone(),
                name: info.name.clone().unwrap_or_default(),
            }),
            (several, _) => Err(ApiError::Ambiguous {
                group: info.group.clone(),
                plural: info.plural.clone(),
                name: info.name.clone().unwrap_or_default(),
                clusters: several.iter().map(|hit| hit.cluster.clone()).collect(),
                remedy: HOW_TO_CHOOSE.to_owned(),
            }),
        }
    }

    fn destination(&self, cluster: ClusterName, info: &ResourceInfo, query: &str) -> Destination {
        let mark = if query.is_empty() { "" } else { "?" };
        let who = impersonation(self.caller, self.catalog.is_local());
        Destination { cluster, who, uri: format!("{}{mark}{query}", info.path()) }
    }

    /// Sends a request on; `indexed` is what the index holds of the object.
    async fn forward(
        &self,
        to: Destination,
        info: &ResourceInfo,
        request: Request,
        indexed: Option<&Hit>,
    ) -> Result<Response, ApiError> {
        let forwarder = &self.members().forwarder;
        let query = to.uri.split_once('?').map_or("", |(_, query)| query);
        let manner = Manner::of(info, request.headers(), query);
        if manner == Manner::Session {
            return Ok(forwarder.session(&to, request).await?);
        }
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, MAX_BODY).await;
        let body =
            body.map_err(|error| ApiError::TooLarge(format!("the body is cut short, or over {MAX_BODY} bytes: {error}")))?;
        if let Manner::Stream { endless } = manner {
            let accept = head.headers.get(header::ACCEPT).cloned().unwrap_or(HeaderValue::from_static("*/*"));
            let headers = headers::to_member(&head.headers, &accept);
            return Ok(forwarder.stream(&to, &head.method, headers, body, endless).await?);
        }
        serve::check_accept(&head.headers)?;
        let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = body_kind(&head.method, info, media_type);
        let body = body::rewrite(kind, media_type, &body, &|_| None).map_err(|error| refused_body(info, error))?;
        let asked = forwarder.ask(&to, &head.method, headers::to_member(&head.headers, &JSON), body.into()).await;
        match (asked, indexed) {
            (Ok(answer), _) => told(&to.cluster, answer),
            (Err(error), Some(hit)) if info.verb == Verb::Get && info.subresource.is_none() && error.is_unreachable() => {
                from_index(hit, &error)
            }
            (Err(error), _) => Err(error.into()),
        }
    }
}

/// The clusters that were chosen, and the query without them.
fn chosen(
    cluster: Option<ClusterName>,
    info: &ResourceInfo,
    query: Option<&str>,
) -> Result<(Vec<ClusterName>, String), ApiError> {
    let mut clusters: Vec<ClusterName> = cluster.into_iter().collect();
    if info.subresource.as_deref() == Some("proxy") {
        // The query is that of what is behind it.
        return Ok((clusters, query.unwrap_or_default().to_owned()));
    }
    let mut kept = Vec::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let malformed = |error| ApiError::bad_request(format!("query: {error}"));
        let (key, value) = (decode_query(key).map_err(malformed)?, decode_query(value).map_err(malformed)?);
        match key.as_str() {
            "clusters" if value.is_empty() => {}
            "clusters" if !clusters.is_empty() => {
                return Err(ApiError::bad_request("parameter clusters: the clusters are named already".to_owned()));
            }
            "clusters" => {
                for name in value.split(',') {
                    let name = name.parse().map_err(|error| ApiError::bad_request(format!("parameter clusters: {error}")))?;
                    clusters.push(name);
                }
            }
            "resourceVersion" | "resourceVersionMatch" if info.verb == Verb::Get => {
                // What is read from the member itself is never older than what the caller has seen.
            }
            list if OF_LISTS.contains(&list) => {
                return Err(ApiError::bad_request(format!(
                    "parameter {list}: it is for lists, and this request is for one object"
                )));
            }
            _ => kept.push(pair),
        }
    }
    Ok((clusters, kept.join("&")))
}

fn body_kind(method: &Method, info: &ResourceInfo, media_type: &str) -> BodyKind {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    match (method.as_str(), essence) {
        ("PATCH", "application/json-patch+json") => BodyKind::JsonPatch,
        ("PATCH", "application/merge-patch+json" | "application/strategic-merge-patch+json") => BodyKind::MergePatch,
        ("PATCH", "application/apply-patch+yaml") => BodyKind::Apply,
        ("DELETE", _) => BodyKind::DeleteOptions,
        ("POST", _) if info.subresource.is_some() => BodyKind::Opaque,
        ("GET" | "HEAD", _) => BodyKind::Opaque,
        _ => BodyKind::Object,
    }
}

fn refused_body(info: &ResourceInfo, error: BodyError) -> ApiError {
    match error {
        BodyError::Malformed(_) => ApiError::bad_request(error.to_string()),
        BodyError::MediaType(_) | BodyError::Yaml(_) => ApiError::UnsupportedMediaType(error.to_string()),
        BodyError::Redacted(_) | BodyError::FromIndex(_) | BodyError::UnknownVersion(_) => ApiError::Conflict {
            group: info.group.clone(),
            plural: info.plural.clone(),
            name: info.name.clone().unwrap_or_default(),
            problem: error.to_string(),
        },
    }
}

/// A member's answer as the caller is told it.
fn told(cluster: &ClusterName, answer: Answer) -> Result<Response, ApiError> {
    if !answer.status.is_success() || !answer.is_json() || answer.body.is_empty() {
        return Ok(answer.into_response());
    }
    let garbled = |error: &dyn std::fmt::Display| ApiError::Unavailable(format!("cluster {cluster} answers no JSON: {error}"));
    let text = std::str::from_utf8(&answer.body).map_err(|error| garbled(&error))?;
    let object = tell(text, &Told { cluster, version: None, from_index: None }).map_err(|error| garbled(&error))?;
    let text: Box<str> = object.into();
    Ok(Answer { body: String::from(text).into(), ..answer }.into_response())
}

/// The next best answer, marked as such.
fn from_index(hit: &Hit, why: &ForwardError) -> Result<Response, ApiError> {
    let why = why.to_string();
    let told = Told { cluster: &hit.cluster, version: None, from_index: Some(&why) };
    let object = tell(hit.object.get(), &told).map_err(|error| ApiError::Internal(format!("an object of the index: {error}")))?;
    let text: Box<str> = object.into();
    let mut response = serve::json(StatusCode::OK, Body::from(String::from(text)));
    if let Some(value) = serve::warning(&format!("{why}; this is the object as it was last seen")) {
        response.headers_mut().append(header::WARNING, value);
    }
    Ok(response)
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
