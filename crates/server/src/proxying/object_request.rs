//! A request for one object: the member that has the object gets it, and the response is passed to
//! the client.

use std::slice;

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use fleetdex_core::{
    model::{
        ClusterName, Interpretation, Json,
        client_metadata::{ClientMetadata, add_client_metadata},
    },
    query::{HeldMemory, Hit, ResourceName},
};
use fleetdex_limits::request::UserRequest;
use fleetdex_query_api::{
    fleet_request::{ResourceInfo, Verb},
    uri::RequestUri,
};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};

use super::{
    body::BodyError,
    client_cache::impersonation,
    context::ProxyContext,
    forward::{Destination, ForwardError, Forwarder, ForwardingMode, JSON, MemberResponse},
    headers, locate, member_query,
    member_version::{self, resource_version},
    request_body::{RequestBody, refused_body},
};
use crate::{
    answers::{request_body::read_body, response},
    api_error::{ApiError, RequestedObject},
    read::{
        counted_bytes::CountedBytes, query_plan::QueryPlan, snapshot, store_moves::PlannedCatalog,
    },
    render::representation::{Endpoint, OutputKind, Representation},
};

/// How a caller names the cluster of an object.
const HOW_TO_CHOOSE: &str = "name one cluster with the parameter clusters, or use …/proxying/karmada/proxy/clusters/<cluster> as the server";

/// Handles a request for one object. `cluster` is the one that the path names.
pub(super) async fn handle(
    context: &ProxyContext<'_>,
    cluster: Option<ClusterName>,
    info: &ResourceInfo,
    uri: &RequestUri<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    let (clusters, query) = member_query::split(cluster, info, uri.query())?;
    let resource = ResourceName::new(&info.group, &info.plural);
    let answers = context.answers;
    let planned = answers.moves.planned(context.catalog, &answers.catalog);
    let catalog = context.visible_catalog(&clusters, Some(&resource)).await?;
    let context = ProxyContext {
        catalog: &catalog,
        ..*context
    };
    let plan = locate::check(&catalog, info, &clusters)?;
    let object = ObjectRequest {
        context: &context,
        info,
        planned,
        plan,
        uri,
        query,
    };
    match (info.verb, clusters.as_slice()) {
        (Verb::DeleteCollection, _) => Err(ApiError::NotServed(format!(
            "deleting {resource} of many clusters at once is not served; delete them by name, or ask the cluster itself"
        ))),
        (Verb::Create, [one]) if info.name.is_none() => object.send(one, request, None).await,
        (Verb::Create, _) if info.name.is_none() => Err(ApiError::NotServed(format!(
            "an object is created in one cluster: {HOW_TO_CHOOSE}"
        ))),
        // The index may not have the object yet, and need not.
        (Verb::Get, [one]) if info.subresource.is_some() => object.send(one, request, None).await,
        (verb, [one]) if verb != Verb::Get => object.send(one, request, None).await,
        _ => object.send_to_holder(&clusters, request).await,
    }
}

/// What an object is shown with.
struct ResponseContext<'t> {
    cluster: &'t ClusterName,
    /// The resource version of the fleet.
    version: Option<String>,
    representation: Representation,
    /// The object in the index.
    indexed: Option<&'t Hit>,
}

impl ResponseContext<'_> {
    /// What an object of the member means, if it is still the one that the index has.
    fn interpretation_of(&self, live: &str) -> Option<Box<Interpretation>> {
        let indexed = self.indexed?;
        let is_unchanged = resource_version(live)? == resource_version(indexed.object.get())?;
        indexed.interpretation.clone().filter(|_| is_unchanged)
    }
}

/// A request for one object.
struct ObjectRequest<'o> {
    context: &'o ProxyContext<'o>,
    info: &'o ResourceInfo,
    planned: PlannedCatalog,
    plan: QueryPlan,
    uri: &'o RequestUri<'o>,
    /// The query for the member.
    query: String,
}

impl ObjectRequest<'_> {
    /// Sends the request to the one cluster that has the object.
    async fn send_to_holder(
        &self,
        clusters: &[ClusterName],
        request: Request,
    ) -> Result<Response, ApiError> {
        let found = locate::locate(self.context, self.info, clusters).await?;
        let (info, name) = (self.info, self.info.name.as_deref());
        let object = RequestedObject::new(&info.group, &info.plural, name);

        match (found.as_slice(), clusters) {
            ([hit], _) => self.send(&hit.cluster, request, Some(hit)).await,
            ([], [one]) => self.send(one, request, None).await,
            ([], _) => Err(ApiError::NoSuchObject(object)),
            (several, _) => Err(ApiError::Ambiguous {
                object,
                clusters: several.iter().map(|hit| hit.cluster.clone()).collect(),
                remedy: HOW_TO_CHOOSE.to_owned(),
            }),
        }
    }

    /// Sends the request to a cluster; `indexed` is the object in the index.
    async fn send(
        &self,
        cluster: &ClusterName,
        request: Request,
        indexed: Option<&Hit>,
    ) -> Result<Response, ApiError> {
        let mark = if self.query.is_empty() { "" } else { "?" };
        let to = Destination {
            cluster: cluster.clone(),
            who: impersonation(self.context.caller, self.context.catalog.is_local),
            uri: format!("{}{mark}{}", self.info.path(), self.query),
        };
        let mode = ForwardingMode::of(self.info, request.headers(), self.uri.query());
        if mode == ForwardingMode::Upgrade {
            let share = self.context.answers.limits.session(self.context.caller)?;
            return Ok(self.forwarder().session(&to, request, share).await?);
        }
        let (head, body) = request.into_parts();
        let body = read_body(&self.context.answers.limits, body).await?;
        match mode {
            ForwardingMode::Stream { endless } => self.stream(&to, &head, body, endless).await,
            _ => self.exchange(&to, &head, &body, indexed).await,
        }
    }

    fn forwarder(&self) -> &Forwarder {
        &self.context.members.forwarder
    }

    /// Passes the member's response on while it arrives.
    async fn stream(
        &self,
        to: &Destination,
        head: &Parts,
        body: Bytes,
        endless: bool,
    ) -> Result<Response, ApiError> {
        let headers = headers::to_member(&head.headers, &headers::accept(&head.headers));
        // A server behind a proxy may answer HEAD in its own way.
        let method = match self.info.subresource.as_deref() {
            Some("proxy") => head.method.clone(),
            _ => method_for_api_server(&head.method),
        };
        let streamed = self.forwarder().stream(to, &method, headers, body, endless);
        Ok(streamed.await?)
    }

    /// Sends the request and reads the whole response, an object.
    async fn exchange(
        &self,
        to: &Destination,
        head: &Parts,
        body: &[u8],
        indexed: Option<&Hit>,
    ) -> Result<Response, ApiError> {
        let endpoint = if self.info.subresource.is_none() {
            Endpoint::Object
        } else {
            Endpoint::Document
        };
        let representation = Representation::negotiate(endpoint, &head.headers, self.uri.query())?;
        let body = RequestBody::new(head, self.info, body);
        let computing = UserRequest::current().computing();
        let rewritten = Box::pin(self.body_for_member(&to.cluster, &body));
        let rewritten = computing.run_task(rewritten).await;
        let body = rewritten.ok_or(ApiError::TooManyRequests)??;
        // Read before the request is sent: a watch from this version must not miss changes during
        // the request.
        let shown = ResponseContext {
            cluster: &to.cluster,
            version: self.fleet_version().await,
            representation,
            indexed,
        };
        let headers = headers::to_member(&head.headers, &JSON);
        let method = method_for_api_server(&head.method);
        let answer = self.forwarder().ask(to, &method, headers, body.into());
        match (answer.await, indexed) {
            (Ok(response), _) => self.respond_from_member(&shown, response).await,
            (Err(error), Some(hit)) if self.is_plain_get() && error.is_unreachable() => {
                self.respond_from_index(&shown, hit, &error).await
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// The current resource version of the fleet. If a store fails to give it, objects keep the
    /// resource version of their member.
    async fn fleet_version(&self) -> Option<String> {
        let request = locate::request(self.info, &[]);
        match snapshot::current_version(&self.planned, &self.plan.stores, &request).await {
            Ok(version) => Some(version.to_string()),
            Err(error) => {
                tracing::debug!(%error, "an object is shown without a resource version of the fleet");
                None
            }
        }
    }

    /// The body with member resource versions. A fleet version that comes without the member's is
    /// looked up in the index.
    async fn body_for_member(
        &self,
        cluster: &ClusterName,
        body: &RequestBody<'_>,
    ) -> Result<Vec<u8>, ApiError> {
        let version = match body.for_member(&|_| None) {
            Ok(body) => return Ok(body),
            Err(BodyError::UnknownVersion(version)) => version,
            Err(error) => return Err(refused_body(self.info, &error)),
        };
        let mut known = None;
        // The lookup has the caller's own rights: the response must not show whether an object
        // exists that the caller may not read.
        for plan in locate::plans(self.context, self.info, slice::from_ref(cluster)).await? {
            // One store at a time, as each has a log of its own.
            for part in plan.stores.parts() {
                let query = part.query(&plan.query);
                if let Some(hit) = locate::search(&*part.store, &query).await?.items.first() {
                    let log = snapshot::log_of(&*part.store).await?;
                    known = member_version::resolve(&log, &query, hit, &version).await;
                }
            }
        }
        let lookup = |requested: &str| known.clone().filter(|_| requested == version);
        body.for_member(&lookup)
            .map_err(|error| refused_body(self.info, &error))
    }

    fn is_plain_get(&self) -> bool {
        self.info.verb == Verb::Get && self.info.subresource.is_none()
    }

    /// The response of a member, with the object annotated and encoded as the client wants it.
    async fn respond_from_member(
        &self,
        shown: &ResponseContext<'_>,
        response: MemberResponse,
    ) -> Result<Response, ApiError> {
        let cluster = shown.cluster;
        if !response.status.is_success() || !response.is_json() || response.body.is_empty() {
            return Ok(response.into_response());
        }
        let invalid = |error: &dyn std::fmt::Display| {
            ApiError::Unavailable(format!(
                "cluster {cluster} did not respond with JSON: {error}"
            ))
        };
        let text = std::str::from_utf8(&response.body).map_err(|error| invalid(&error))?;
        let metadata = ClientMetadata {
            cluster,
            version: shown.version.as_deref(),
            from_index: None,
        };
        let object = add_client_metadata(text, &metadata).map_err(|error| invalid(&error))?;
        let interpretation = shown.interpretation_of(text);
        let mut headers = response.headers.clone();
        let media_type = HeaderValue::from_static(shown.representation.encoding.media_type());
        headers.insert(header::CONTENT_TYPE, media_type);
        let encoded = MemberResponse {
            status: response.status,
            headers,
            body: self.encoded(shown, object, interpretation).await?,
        };
        Ok(encoded.into_response())
    }

    /// The object of the index, with a warning, for a member that is unreachable.
    async fn respond_from_index(
        &self,
        shown: &ResponseContext<'_>,
        hit: &Hit,
        why: &ForwardError,
    ) -> Result<Response, ApiError> {
        let why = why.to_string();
        let metadata = ClientMetadata {
            cluster: shown.cluster,
            version: shown.version.as_deref(),
            from_index: Some(&why),
        };
        let object = add_client_metadata(hit.object.get(), &metadata)
            .map_err(|error| ApiError::Internal(format!("an object of the index: {error}")))?;
        let body = self.encoded(shown, object, hit.interpretation.clone());
        let body = Body::from(body.await?);
        let media_type = shown.representation.encoding.media_type();
        Ok(response::with_warnings(
            response::typed(StatusCode::OK, media_type, body),
            &[format!("{why}; this is the object as it was last seen")],
        ))
    }

    /// An object as the client wants it. One of another kind than the resource, such as a `Status`,
    /// is only encoded.
    async fn encoded(
        &self,
        shown: &ResponseContext<'_>,
        object: Json,
        interpretation: Option<Box<Interpretation>>,
    ) -> Result<Bytes, ApiError> {
        let representation = shown.representation;
        let hit = &Hit {
            interpretation,
            cluster: shown.cluster.clone(),
            object,
            memory: HeldMemory::default(),
        };
        let mut computing = UserRequest::current().computing();
        let json = hit.object.get();
        let mut encoded = CountedBytes::new();
        encoded.make_room(representation.needed(json)).await?;
        let encode = || self.encode(representation, hit);
        let shown = computing.run(json.len(), encode).await;
        encoded.bytes = shown.ok_or(ApiError::TooManyRequests)??;
        Ok(encoded.finish())
    }

    fn encode(&self, representation: Representation, hit: &Hit) -> Result<Vec<u8>, ApiError> {
        #[derive(serde::Deserialize)]
        struct TypeMeta {
            kind: Option<String>,
        }
        let meta: Option<TypeMeta> = serde_json::from_str(hit.object.get()).ok();
        let kind = meta.and_then(|meta| meta.kind);
        if self.info.subresource.is_some() || kind.as_deref() != Some(&*self.plan.kind.kind) {
            return Representation {
                output: OutputKind::Object,
                ..representation
            }
            .document(hit.object.get());
        }
        self.plan.encoder(representation).object(hit, true)
    }
}

/// An API server does not serve HEAD: the response to HEAD is the head of the response to GET.
fn method_for_api_server(method: &Method) -> Method {
    if method == Method::HEAD {
        Method::GET
    } else {
        method.clone()
    }
}
