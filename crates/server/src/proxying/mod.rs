//! Kubernetes over the fleet: everything below `proxying/karmada/proxy`.
//!
//! [`request`] reads what is asked for. Lists come from the index, as those below `search/`. What concerns one object goes on to the
//! member that has it: [`locate`] asks the index which one that is, [`body`] puts what is written in the member's words, [`forward`] sends it
//! as the caller, by the clients of [`clients`], with the headers of [`headers`], through a [`tunnel`] where another protocol is spoken.
//! [`documents`] are what clients read before they ask: discovery, `OpenAPI`, the version.
//!
//! Objects carry the fleet's resource version and, as annotations, the member's own and the member's name: see [`fleetdex_core::model::told`].

pub mod body;
pub mod clients;
mod document_cache;
pub mod documents;
pub mod forward;
pub mod headers;
pub mod locate;
mod members;
pub mod protobuf;
pub mod request;
mod scope;
pub mod tunnel;
pub mod versions;

use std::{slice, sync::Arc};

use axum::{body::Body, extract::Request, response::Response};
use fleetdex_core::{
    model::{
        ClusterName, Json, causes,
        told::{Told, tell},
    },
    query::{Hit, ResourceName},
};
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::LengthLimitError;
use tokio::time::timeout;

pub use self::members::Members;
use self::{
    body::{BodyError, BodyKind, Own},
    clients::impersonation,
    forward::{Answer, Destination, ForwardError, JSON, Manner},
    request::{Asked, ResourceInfo, Verb},
    scope::Scope,
};
use super::{
    answers::{answer_list, answer_watch, attributes},
    api::Api,
    caller::Caller,
    catalog::qualified,
    front::limits::MAX_BODY_BYTES,
    holding::holding,
    moment,
    percent::decode_query,
    representation::{Endpoint, Form, Representation},
    request::list_of_fleet,
    respond,
    status::ApiError,
    target::Target,
};

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
const HOW_TO_CHOOSE: &str = "name one cluster with the parameter clusters, or use …/proxying/karmada/proxy/clusters/<cluster> as the server";

/// Answers a request below `proxying/karmada/proxy`; `inner` is the path from there on.
pub async fn answer(
    api: &Api,
    caller: &Caller,
    inner: &str,
    request: Request,
) -> Result<Response, ApiError> {
    if request.method() == Method::OPTIONS && !request::is_proxied(inner)? {
        // Only the path is looked at: a wrong one is told as such.
        request::parse("GET", inner, None)?;
        return Ok(respond::options(request::METHODS));
    }
    let info = request::parse(request.method().as_str(), inner, request.uri().query())?;
    let catalog = Arc::clone(&api.catalog.borrow());
    let scope = Scope {
        api,
        catalog: &catalog,
        caller,
    };
    match info.asked {
        Asked::Path(path) => {
            let (head, _unread_body) = request.into_parts();
            documents::answer(&scope, info.cluster.as_ref(), &path, &head).await
        }
        Asked::Resource(resource) => scope.resource(info.cluster, &resource, request).await,
    }
}

impl Scope<'_> {
    async fn resource(
        &self,
        cluster: Option<ClusterName>,
        info: &ResourceInfo,
        request: Request,
    ) -> Result<Response, ApiError> {
        if matches!(info.verb, Verb::List | Verb::Watch) {
            let query = request.uri().query();
            let list = list_of_fleet(request.uri().path(), &info.segments(), cluster, query)?;
            let endpoint = if list.follow.watch {
                Endpoint::Watch
            } else {
                Endpoint::List
            };
            let representation = Representation::negotiate(endpoint, request.headers(), query)?;
            if list.follow.watch {
                let let_in_as = attributes(&request);
                return answer_watch(
                    self.api,
                    self.caller,
                    self.catalog,
                    &list,
                    representation,
                    let_in_as,
                )
                .await;
            }
            return answer_list(self.api, self.caller, self.catalog, &list, representation).await;
        }
        let (chosen, query) = chosen(cluster, info, request.uri().query())?;
        let catalog = self
            .sight(&chosen, Some(&ResourceName::new(&info.group, &info.plural)))
            .await?;
        let scope = Scope {
            catalog: &catalog,
            ..*self
        };
        let target = locate::check(&catalog, info, &chosen)?;
        let onward = Onward {
            scope: &scope,
            info,
            target,
            query,
        };
        match (info.verb, chosen.as_slice()) {
            (Verb::DeleteCollection, _) => Err(ApiError::NotServed(format!(
                "deleting {} of many clusters at once is not served; delete them by name, or ask the cluster itself",
                qualified(&ResourceName::new(&info.group, &info.plural))
            ))),
            (Verb::Create, [one]) if info.name.is_none() => onward.send(one, request, None).await,
            (Verb::Create, _) if info.name.is_none() => Err(ApiError::NotServed(format!(
                "an object is created in one cluster: {HOW_TO_CHOOSE}"
            ))),
            // No need for it to be in the index, which may not have heard of it yet.
            (Verb::Get, [one]) if info.subresource.is_some() => {
                onward.send(one, request, None).await
            }
            (verb, [one]) if verb != Verb::Get => onward.send(one, request, None).await,
            _ => onward.to_holder(&chosen, request).await,
        }
    }
}

/// What a client has written.
struct Written<'w> {
    kind: BodyKind,
    media_type: &'w str,
    bytes: &'w [u8],
}

impl Written<'_> {
    fn for_member(&self, own: Own<'_>) -> Result<Vec<u8>, BodyError> {
        body::rewrite(self.kind, self.media_type, self.bytes, own)
    }
}

/// How an object is told.
struct Telling<'t> {
    cluster: &'t ClusterName,
    version: Option<String>,
    representation: Representation,
}

/// A request about one object, on its way to a member.
struct Onward<'o> {
    scope: &'o Scope<'o>,
    info: &'o ResourceInfo,
    target: Target,
    query: String,
}

impl Onward<'_> {
    /// Sends the request to the one cluster that has the object.
    async fn to_holder(
        &self,
        chosen: &[ClusterName],
        request: Request,
    ) -> Result<Response, ApiError> {
        let found = locate::locate(self.scope, self.info, chosen).await?;
        let (group, plural) = (self.info.group.clone(), self.info.plural.clone());
        let name = self.info.name.clone().unwrap_or_default();
        match (found.as_slice(), chosen) {
            ([hit], _) => self.send(&hit.cluster, request, Some(hit)).await,
            ([], [one]) => self.send(one, request, None).await,
            ([], _) => Err(ApiError::NoSuchObject {
                group,
                plural,
                name,
            }),
            (several, _) => {
                let clusters = several.iter().map(|hit| hit.cluster.clone()).collect();
                Err(ApiError::Ambiguous {
                    group,
                    plural,
                    name,
                    clusters,
                    remedy: HOW_TO_CHOOSE.to_owned(),
                })
            }
        }
    }

    /// Sends the request to a cluster; `indexed` is what the index holds of the object.
    async fn send(
        &self,
        cluster: &ClusterName,
        request: Request,
        indexed: Option<&Hit>,
    ) -> Result<Response, ApiError> {
        let forwarder = &self.scope.members().forwarder;
        let mark = if self.query.is_empty() { "" } else { "?" };
        let who = impersonation(self.scope.caller, self.scope.catalog.is_local());
        let to = Destination {
            cluster: cluster.clone(),
            who,
            uri: format!("{}{mark}{}", self.info.path(), self.query),
        };
        let manner = Manner::of(self.info, request.headers(), &self.query);
        if manner == Manner::Session {
            let place = self.scope.api.limits.session(self.scope.caller)?;
            return Ok(forwarder.session(&to, request, place).await?);
        }
        let (head, body) = request.into_parts();
        // A request that lasts has this long, too, to say what it wants.
        let limit = self.scope.api.limits.request_timeout();
        let read = timeout(limit, axum::body::to_bytes(body, MAX_BODY_BYTES)).await;
        let body = read
            .map_err(|_| ApiError::RequestTimeout(limit.as_secs()))?
            .map_err(unread)?;
        // What is behind a proxy has answers of its own to HEAD. An API server has none: the head of its answer to GET is sent.
        let is_proxy = self.info.subresource.as_deref() == Some("proxy");
        if let Manner::Stream { endless } = manner {
            let accept = head
                .headers
                .get(header::ACCEPT)
                .cloned()
                .unwrap_or(HeaderValue::from_static("*/*"));
            let headers = headers::to_member(&head.headers, &accept);
            let method = if head.method == Method::HEAD && !is_proxy {
                Method::GET
            } else {
                head.method
            };
            return Ok(forwarder
                .stream(&to, &method, headers, body, endless)
                .await?);
        }
        let endpoint = if self.info.subresource.is_none() {
            Endpoint::Object
        } else {
            Endpoint::Document
        };
        let representation = Representation::negotiate(endpoint, &head.headers, head.uri.query())?;
        let media_type = head
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let written = Written {
            kind: body_kind(&head.method, self.info, media_type),
            media_type,
            bytes: &body,
        };
        let body = self.body(cluster, &written).await?;
        // Before the member is asked: whoever goes on from there must not miss what comes while it answers.
        let telling = Telling {
            cluster,
            version: self.version().await,
            representation,
        };
        let method = if head.method == Method::HEAD {
            &Method::GET
        } else {
            &head.method
        };
        let asked = forwarder
            .ask(
                &to,
                method,
                headers::to_member(&head.headers, &JSON),
                body.into(),
            )
            .await;
        match (asked, indexed) {
            (Ok(answer), _) => self.told(&telling, answer),
            (Err(error), Some(hit)) if self.is_plain_get() && error.is_unreachable() => {
                self.as_indexed(&telling, hit, &error)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// The version that the fleet has now. Without one, which a store may fail to give, objects are told with their own.
    async fn version(&self) -> Option<String> {
        match moment::now(&self.target.stores).await {
            Ok(version) => Some(version.to_string()),
            Err(error) => {
                tracing::debug!(%error, "an object is told without a version of the fleet");
                None
            }
        }
    }

    /// The body as the member has to see it. A version of the fleet that comes without the member's is looked up in the index.
    async fn body(
        &self,
        cluster: &ClusterName,
        written: &Written<'_>,
    ) -> Result<Vec<u8>, ApiError> {
        let version = match written.for_member(&|_| None) {
            Ok(body) => return Ok(body),
            Err(BodyError::UnknownVersion(version)) => version,
            Err(error) => return Err(refused_body(self.info, &error)),
        };
        let mut own = None;
        // With the caller's own rights: what is answered must not show whether there is an object that the caller may not read.
        for wanted in locate::targets(self.scope, self.info, slice::from_ref(cluster)).await? {
            // One store at a time, as each has a log of its own.
            for part in wanted.stores.parts() {
                let query = part.query(&wanted.query);
                if let Some(hit) = locate::search(&*part.store, &query).await?.items.first() {
                    own =
                        versions::own(&moment::log_of(&*part.store).await?, &query, hit, &version)
                            .await;
                }
            }
        }
        let known = |asked: &str| own.clone().filter(|_| asked == version);
        written
            .for_member(&known)
            .map_err(|error| refused_body(self.info, &error))
    }

    fn is_plain_get(&self) -> bool {
        self.info.verb == Verb::Get && self.info.subresource.is_none()
    }

    /// A member's answer as the caller is told it.
    fn told(&self, telling: &Telling<'_>, answer: Answer) -> Result<Response, ApiError> {
        let Telling {
            cluster,
            representation,
            ..
        } = telling;
        if !answer.status.is_success() || !answer.is_json() || answer.body.is_empty() {
            return Ok(answer.into_response());
        }
        let garbled = |error: &dyn std::fmt::Display| {
            ApiError::Unavailable(format!("cluster {cluster} answers no JSON: {error}"))
        };
        let text = std::str::from_utf8(&answer.body).map_err(|error| garbled(&error))?;
        let told = Told {
            cluster,
            version: telling.version.as_deref(),
            from_index: None,
        };
        let object = tell(text, &told).map_err(|error| garbled(&error))?;
        let mut headers = answer.headers.clone();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(representation.encoding.media_type()),
        );
        let body = self.laid_out(telling, object)?.into();
        // What was read stays counted for the user as long as what was made of it is in memory.
        Ok(Answer {
            status: answer.status,
            headers,
            body,
        }
        .into_response()
        .map(|body| holding(body, answer.body)))
    }

    /// The next best answer, marked as such.
    fn as_indexed(
        &self,
        telling: &Telling<'_>,
        hit: &Hit,
        why: &ForwardError,
    ) -> Result<Response, ApiError> {
        let why = why.to_string();
        let told = Told {
            cluster: telling.cluster,
            version: telling.version.as_deref(),
            from_index: Some(&why),
        };
        let object = tell(hit.object.get(), &told)
            .map_err(|error| ApiError::Internal(format!("an object of the index: {error}")))?;
        let body = Body::from(self.laid_out(telling, object)?);
        let mut response = respond::json(StatusCode::OK, body);
        let media_type = HeaderValue::from_static(telling.representation.encoding.media_type());
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, media_type);
        Ok(respond::with_warnings(
            response,
            &[format!("{why}; this is the object as it was last seen")],
        ))
    }

    /// An object as the client wants to see it. What is of another kind than the resource, such as a `Status`, is shown as it is.
    fn laid_out(&self, telling: &Telling<'_>, object: Json) -> Result<Vec<u8>, ApiError> {
        #[derive(serde::Deserialize)]
        struct Typed {
            kind: Option<String>,
        }
        let kind = serde_json::from_str::<Typed>(object.get())
            .ok()
            .and_then(|typed| typed.kind);
        if self.info.subresource.is_some() || kind.as_deref() != Some(&*self.target.kind.kind) {
            return Representation {
                form: Form::Whole,
                ..telling.representation
            }
            .document(object.get());
        }
        self.target.layout(telling.representation).object(
            &Hit {
                cluster: telling.cluster.clone(),
                object,
            },
            true,
        )
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
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let malformed = |error| ApiError::bad_request(format!("query: {error}"));
        let (key, value) = (
            decode_query(key).map_err(malformed)?,
            decode_query(value).map_err(malformed)?,
        );
        match key.as_str() {
            "clusters" if value.is_empty() => {}
            "clusters" if !clusters.is_empty() => {
                return Err(ApiError::bad_request(
                    "parameter clusters: the clusters are named already".to_owned(),
                ));
            }
            "clusters" => {
                for name in value.split(',') {
                    let name = name.parse().map_err(|error| {
                        ApiError::bad_request(format!("parameter clusters: {error}"))
                    })?;
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
        ("PATCH", "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
            BodyKind::MergePatch
        }
        ("PATCH", "application/apply-patch+yaml") => BodyKind::Apply,
        ("DELETE", _) => BodyKind::DeleteOptions,
        ("POST", _) if info.subresource.is_some() => BodyKind::Opaque,
        ("POST", _) => BodyKind::NewObject,
        ("GET" | "HEAD", _) => BodyKind::Opaque,
        _ => BodyKind::Object,
    }
}

/// Why a body was not read to its end.
fn unread(error: axum::Error) -> ApiError {
    match error.into_inner() {
        limited if limited.is::<LengthLimitError>() => ApiError::TooLarge(MAX_BODY_BYTES),
        broken => ApiError::bad_request(format!(
            "the body of the request cannot be read: {}",
            causes(broken.as_ref())
        )),
    }
}

fn refused_body(info: &ResourceInfo, error: &BodyError) -> ApiError {
    match error {
        BodyError::Malformed(_) => ApiError::bad_request(error.to_string()),
        BodyError::MediaType(_) | BodyError::Yaml(_) => {
            ApiError::UnsupportedMediaType(error.to_string())
        }
        BodyError::Redacted(_) | BodyError::FromIndex(_) | BodyError::UnknownVersion(_) => {
            ApiError::Conflict {
                group: info.group.clone(),
                plural: info.plural.clone(),
                name: info.name.clone().unwrap_or_default(),
                problem: error.to_string(),
            }
        }
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
