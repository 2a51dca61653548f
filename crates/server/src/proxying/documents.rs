//! What clients read before they ask for objects: discovery, the version, `OpenAPI`.
//!
//! Discovery is made from what is registered. `OpenAPI` documents come from a member that serves what is asked about, as the caller, and are
//! kept for a minute: `kubectl explain` and the validation of `kubectl apply` read the same ones again and again.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use fleetdex_clusters::MemberState;
use fleetdex_core::model::ClusterName;
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use k8s_openapi::apimachinery::pkg::version::Info;
use serde_json::{Map, Value, json, value::to_raw_value};

use super::{
    super::{
        discovery,
        representation::{Endpoint, Representation},
        request::{ApiRequest, FleetDiscovery, ignored},
        respond,
        status::ApiError,
    },
    clients::impersonation,
    document_cache::Key,
    forward::Destination,
    headers,
    scope::Scope,
};

/// The answer to "are you there?".
const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];
/// The media type of discovery in one document.
pub(super) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a path that leads to no resource.
pub(super) async fn answer(
    scope: &Scope<'_>,
    cluster: Option<&ClusterName>,
    path: &[String],
    request: &Parts,
) -> Result<Response, ApiError> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(ApiError::MethodNotAllowed {
            method: request.method.to_string(),
            allowed: "GET",
        });
    }
    let named: Vec<ClusterName> = cluster.iter().map(|name| (*name).clone()).collect();
    let mut catalog = scope.sight(&named, None).await?;
    if let Some(name) = cluster {
        if !catalog.knows_cluster(name) {
            return Err(ApiError::NoSuchCluster(name.clone()));
        }
        catalog = Arc::new(catalog.of_clusters(&named.into_iter().collect(), None));
    }
    let scope = &Scope {
        catalog: &catalog,
        ..*scope
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let fleet = |which: &FleetDiscovery| -> Result<Response, ApiError> {
        let unknown =
            respond::unknown_parameters(&ignored(&ApiRequest::Version, request.uri.query())?);
        if matches!(which, FleetDiscovery::CoreVersions | FleetDiscovery::Groups)
            && wants_aggregated(request)
        {
            let document =
                discovery::aggregated(scope.catalog, *which == FleetDiscovery::CoreVersions)?;
            let mut response = respond::document(&document, Representation::PLAIN)?;
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
            return Ok(respond::with_warnings(response, &unknown));
        }
        let response = respond::document(
            &discovery::fleet(scope.catalog, which)?,
            represented(request)?,
        )?;
        Ok(respond::with_warnings(response, &unknown))
    };
    match *path.as_slice() {
        [] => Ok(value(&roots())),
        ["api"] => fleet(&FleetDiscovery::CoreVersions),
        ["apis"] => fleet(&FleetDiscovery::Groups),
        ["apis", group] => fleet(&FleetDiscovery::Group(group.to_owned())),
        ["api", version] => fleet(&FleetDiscovery::Resources {
            group: String::new(),
            version: version.to_owned(),
        }),
        ["apis", group, version] => fleet(&FleetDiscovery::Resources {
            group: group.to_owned(),
            version: version.to_owned(),
        }),
        ["version"] => version(scope, represented(request)?),
        [health] if HEALTH.contains(&health) => Ok(text("ok")),
        ["openapi", "v3"] => Ok(value(&open_api_index(scope))),
        ["openapi", "v2"] => {
            let members = scope
                .catalog
                .resources()
                .flat_map(|registered| registered.holdings.values());
            let members: Vec<&ClusterName> =
                members.flat_map(|holding| &holding.clusters).collect();
            open_api(scope, &members, "/openapi/v2", request).await
        }
        ["openapi", "v3", ref rest @ ..] => {
            let (group, version) = match *rest {
                ["api", version] => ("", version),
                ["apis", group, version] => (group, version),
                _ => return Err(nothing_at(request)),
            };
            let members = serving(scope, group, version);
            if members.is_empty() {
                return Err(nothing_at(request));
            }
            let path = format!("/openapi/v3/{}", rest.join("/"));
            open_api(scope, &members, &path, request).await
        }
        _ => Err(nothing_at(request)),
    }
}

fn nothing_at(request: &Parts) -> ApiError {
    ApiError::NoSuchPath {
        path: request.uri.path().to_owned(),
    }
}

/// Whether discovery in one document is asked for, in the version that is served.
fn wants_aggregated(request: &Parts) -> bool {
    let ranges = request
        .headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
        let parts: Vec<&str> = range.split(';').map(str::trim).collect();
        ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
            .iter()
            .all(|part| parts.contains(part))
    })
}

fn represented(request: &Parts) -> Result<Representation, ApiError> {
    Representation::negotiate(Endpoint::Document, &request.headers, request.uri.query())
}

fn roots() -> Value {
    json!({ "paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] })
}

fn value(document: &Value) -> Response {
    respond::json(StatusCode::OK, Body::from(document.to_string()))
}

fn text(content: &'static str) -> Response {
    let mut response = Response::new(Body::from(content));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// The oldest version of the members: clients do what a server of that version can do.
fn version(scope: &Scope<'_>, representation: Representation) -> Result<Response, ApiError> {
    let states = scope.members().forwarder.clients.states();
    let members = states
        .iter()
        .filter(|(name, _)| scope.catalog.knows_cluster(name));
    let versions = members.filter_map(|(_, state)| state.kubernetes_version.as_deref());
    let oldest = versions
        .filter_map(|text| Some((numbers(text)?, text)))
        .min();
    let Some(((major, minor, _), git_version)) = oldest else {
        return respond::document(&discovery::version()?, representation);
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
    respond::document(&document, representation)
}

/// The numbers of `v1.36.3+more`.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version
        .trim_start_matches('v')
        .split(['.', '-', '+'])
        .map(str::parse);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next().and_then(Result::ok).unwrap_or_default(),
    ))
}

/// One entry for each group and version of which anything is registered.
fn open_api_index(scope: &Scope<'_>) -> Value {
    let mut paths = Map::new();
    for registered in scope.catalog.resources() {
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

/// The clusters that are read in a group and version.
fn serving<'s>(scope: &Scope<'s>, group: &str, version: &str) -> Vec<&'s ClusterName> {
    let registered = scope
        .catalog
        .resources()
        .filter(|registered| &*registered.name.group == group);
    let holdings = registered.flat_map(|registered| registered.holdings.values());
    holdings
        .filter_map(|holding| holding.versions.get(version))
        .flatten()
        .collect()
}

/// A document of the first of the members that is connected.
async fn open_api(
    scope: &Scope<'_>,
    members: &[&ClusterName],
    path: &str,
    request: &Parts,
) -> Result<Response, ApiError> {
    let forwarder = &scope.members().forwarder;
    let states = forwarder.clients.states();
    let is_connected = |name: &ClusterName| {
        states
            .get(name)
            .is_some_and(|state: &MemberState| state.connection.is_some())
    };
    let asked = members.iter().find(|name| is_connected(name));
    let asked = asked.ok_or_else(|| {
        ApiError::Unavailable("no cluster that serves this is connected; try again".to_owned())
    })?;
    let who = impersonation(scope.caller, scope.catalog.is_local());
    let accept = request
        .headers
        .get(header::ACCEPT)
        .cloned()
        .unwrap_or(HeaderValue::from_static("*/*"));
    let key = Key {
        cluster: (*asked).clone(),
        who: who.clone(),
        uri: path.to_owned(),
        accept: accept.as_bytes().to_vec(),
    };
    let documents = &scope.members().documents;
    if let Some(answer) = documents.find(&key) {
        return Ok(answer.into_response());
    }
    let to = Destination {
        cluster: (*asked).clone(),
        who,
        uri: path.to_owned(),
    };
    let passed = headers::to_member(&request.headers, &accept);
    let answer = forwarder
        .ask(&to, &Method::GET, passed, Bytes::new())
        .await?;
    if answer.status.is_success() {
        documents.keep(key, &answer);
    }
    Ok(answer.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_version_are_compared_as_numbers() {
        assert!(numbers("v1.9.11").unwrap() < numbers("v1.36.3+k3s1").unwrap());
        assert_eq!(numbers("v1.31-eks"), Some((1, 31, 0)));
        assert_eq!(numbers("main"), None);
    }
}
