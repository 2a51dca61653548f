//! Non-resource requests: discovery, the version, `OpenAPI`.
//!
//! Discovery lists the registered resources. `OpenAPI` documents come from a member that serves the
//! group, impersonating the caller, and are cached for a minute: `kubectl explain` and the
//! validation of `kubectl apply` read the same ones again and again.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use fleetdex_clusters::{MemberState, kubernetes_version::version_numbers};
use fleetdex_core::model::ClusterName;
use fleetdex_query_api::{
    question::{FleetDiscovery, Question, ignored},
    uri::QueryParameters,
};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use k8s_openapi::apimachinery::pkg::version::Info;
use serde_json::{Map, Value, json, value::to_raw_value};

use super::{
    super::catalog::Catalog, client_cache::impersonation, context::ProxyContext,
    document_cache::DocumentKey, forward::Destination, headers,
};
use crate::{
    answers::response,
    api_error::ApiError,
    render::{
        discovery,
        group_discovery::{AGGREGATED, AGGREGATED_TYPE},
        representation::{Endpoint, Representation, accept_header},
    },
};

/// Health endpoints.
const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];

/// Handles a non-resource request.
pub(super) async fn handle(
    context: &ProxyContext<'_>,
    cluster: Option<&ClusterName>,
    path: &[String],
    query: &QueryParameters<'_>,
    request: &Parts,
) -> Result<Response, ApiError> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(ApiError::MethodNotAllowed {
            method: request.method.to_string(),
            allowed: "GET",
        });
    }
    let catalog = requested_catalog(context, cluster).await?;
    let context = &ProxyContext {
        catalog: &catalog,
        ..*context
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let fleet = |which: FleetDiscovery| fleet_discovery(context, &which, query, request);
    match *path.as_slice() {
        [] => Ok(value(&roots())),
        ["api"] => fleet(FleetDiscovery::CoreVersions),
        ["apis"] => fleet(FleetDiscovery::Groups),
        ["apis", group] => fleet(FleetDiscovery::Group(group.to_owned())),
        ["api", version] => fleet(FleetDiscovery::Resources {
            group: String::new(),
            version: version.to_owned(),
        }),
        ["apis", group, version] => fleet(FleetDiscovery::Resources {
            group: group.to_owned(),
            version: version.to_owned(),
        }),
        ["version"] => version(context, represented(request, query)?),
        [health] if HEALTH.contains(&health) => Ok(ok()),
        ["openapi", "v3"] => Ok(value(&open_api_index(context))),
        ["openapi", "v2"] => open_api_v2(context, request).await,
        ["openapi", "v3", ref rest @ ..] => open_api_v3(context, rest, request).await,
        _ => Err(no_such_path(request)),
    }
}

/// The part of the catalog that the caller can see; of the named cluster, or of all.
async fn requested_catalog(
    context: &ProxyContext<'_>,
    cluster: Option<&ClusterName>,
) -> Result<Arc<Catalog>, ApiError> {
    let Some(name) = cluster else {
        return context.visible_catalog(&[], None).await;
    };
    let catalog = context
        .visible_catalog(std::slice::from_ref(name), None)
        .await?;
    if !catalog.knows_cluster(name) {
        return Err(ApiError::NoSuchCluster(name.clone()));
    }
    let only = BTreeSet::from([name.clone()]);
    Ok(Arc::new(catalog.of_clusters(&only, None)))
}

/// A discovery document of the registered resources, in the format that the client accepts.
fn fleet_discovery(
    context: &ProxyContext<'_>,
    which: &FleetDiscovery,
    query: &QueryParameters<'_>,
    request: &Parts,
) -> Result<Response, ApiError> {
    let unknown = response::unknown_parameters(&ignored(&Question::Version, query)?);
    let has_aggregated = matches!(which, FleetDiscovery::CoreVersions | FleetDiscovery::Groups);
    let response = if has_aggregated && wants_aggregated(request) {
        let document =
            discovery::aggregated(context.catalog, *which == FleetDiscovery::CoreVersions)?;
        let mut response = response::document(&document, Representation::PLAIN)?;
        let media_type = HeaderValue::from_static(AGGREGATED_TYPE);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, media_type);

        response
    } else {
        response::document(
            &discovery::fleet(context.catalog, which)?,
            represented(request, query)?,
        )?
    };
    Ok(response::with_warnings(response, &unknown))
}

fn no_such_path(request: &Parts) -> ApiError {
    ApiError::NoSuchPath {
        path: request.uri.path().to_owned(),
    }
}

/// Whether the client accepts aggregated discovery in the served version.
fn wants_aggregated(request: &Parts) -> bool {
    let ranges = accept_header(&request.headers);
    ranges.split(',').any(|range| {
        let parts: Vec<&str> = range.split(';').map(str::trim).collect();
        AGGREGATED.iter().all(|part| parts.contains(part))
    })
}

fn represented(request: &Parts, query: &QueryParameters<'_>) -> Result<Representation, ApiError> {
    Representation::negotiate(Endpoint::Document, &request.headers, query)
}

fn roots() -> Value {
    json!({ "paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] })
}

fn value(document: &Value) -> Response {
    response::json(StatusCode::OK, Body::from(document.to_string()))
}

fn ok() -> Response {
    let media_type = "text/plain; charset=utf-8";
    response::typed(StatusCode::OK, media_type, Body::from("ok"))
}

/// The oldest Kubernetes version of the members: clients use only features of that version.
fn version(
    context: &ProxyContext<'_>,
    representation: Representation,
) -> Result<Response, ApiError> {
    let states = context.members.forwarder.clients.states();
    let members = states
        .iter()
        .filter(|(name, _)| context.catalog.knows_cluster(name));
    let versions = members.filter_map(|(_, state)| state.kubernetes_version.as_deref());
    let oldest = versions
        .filter_map(|text| Some((version_numbers(text)?, text)))
        .min();
    let Some(((major, minor, _), git_version)) = oldest else {
        return response::document(&discovery::version()?, representation);
    };
    let info = Info {
        major: major.to_string(),
        minor: minor.to_string(),
        git_version: git_version.to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        ..Info::default()
    };
    let document =
        to_raw_value(&info).map_err(|error| ApiError::Internal(format!("the version: {error}")))?;
    response::document(&document, representation)
}

/// One entry for each group and version with registered resources.
fn open_api_index(context: &ProxyContext<'_>) -> Value {
    let mut paths = Map::new();
    for registered in context.catalog.resources() {
        for version in &registered.versions {
            let group = &registered.name.group;
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// The clusters whose objects of a group are indexed in a version.
fn serving<'s>(context: &ProxyContext<'s>, group: &str, version: &str) -> Vec<&'s ClusterName> {
    let registered = context
        .catalog
        .resources()
        .filter(|registered| &*registered.name.group == group);
    let by_store = registered.flat_map(|registered| registered.by_store.values());
    by_store
        .filter_map(|holding| holding.versions.get(version))
        .flatten()
        .collect()
}

async fn open_api_v2(context: &ProxyContext<'_>, request: &Parts) -> Result<Response, ApiError> {
    let by_store = context
        .catalog
        .resources()
        .flat_map(|registered| registered.by_store.values());
    let members: Vec<&ClusterName> = by_store.flat_map(|stored| &stored.clusters).collect();
    open_api(context, &members, "/openapi/v2", request).await
}

/// The document of one group and version; `rest` is the path below `/openapi/v3`.
async fn open_api_v3(
    context: &ProxyContext<'_>,
    rest: &[&str],
    request: &Parts,
) -> Result<Response, ApiError> {
    let (group, version) = match *rest {
        ["api", version] => ("", version),
        ["apis", group, version] => (group, version),
        _ => return Err(no_such_path(request)),
    };
    let members = serving(context, group, version);
    if members.is_empty() {
        return Err(no_such_path(request));
    }
    let path = format!("/openapi/v3/{}", rest.join("/"));
    open_api(context, &members, &path, request).await
}

/// A document of the first connected member.
async fn open_api(
    context: &ProxyContext<'_>,
    members: &[&ClusterName],
    path: &str,
    request: &Parts,
) -> Result<Response, ApiError> {
    let forwarder = &context.members.forwarder;
    let states = forwarder.clients.states();
    let is_connected = |name: &ClusterName| {
        states
            .get(name)
            .is_some_and(|state: &MemberState| state.connection.is_some())
    };
    let member = members.iter().find(|name| is_connected(name));
    let member = member.ok_or_else(|| {
        ApiError::Unavailable("no cluster that serves this is connected; try again".to_owned())
    })?;
    let who = impersonation(context.caller, context.catalog.is_local);
    let accept = headers::accept(&request.headers);

    let key = DocumentKey {
        cluster: (*member).clone(),
        who: who.clone(),
        uri: path.to_owned(),
        accept: accept.as_bytes().to_vec(),
    };
    let documents = &context.members.documents;
    if let Some(response) = documents.get(&key) {
        return Ok(response.into_response());
    }
    let to = Destination {
        cluster: (*member).clone(),
        who,
        uri: path.to_owned(),
    };
    let passed = headers::to_member(&request.headers, &accept);
    let response = forwarder
        .ask(&to, &Method::GET, passed, Bytes::new())
        .await?;
    if response.status.is_success() {
        documents.insert(key, &response);
    }
    Ok(response.into_response())
}
