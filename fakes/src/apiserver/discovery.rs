//! Endpoints that are not about objects: health, version and discovery.

use std::collections::BTreeMap;

use bytes::Bytes;
use fleetdex_core::{kinds, model::Resource};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    body::{self, Body},
    status::{Status, plain},
    store::Etcd,
};

const VERSION: &str = "v1.36.3";
const VERBS: [&str; 7] = [
    "create", "delete", "get", "list", "patch", "update", "watch",
];

/// Handles paths that name no resource.
pub(super) fn respond(etcd: &Etcd, request: &Request<Bytes>) -> Response<Body> {
    if request.method() != Method::GET {
        return Status::method_not_allowed().response();
    }
    let resources: Vec<&Resource> = etcd.tables().map(|(_, table)| &table.resource).collect();
    let segments: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    match segments[..] {
        ["readyz" | "livez" | "healthz"] => plain(200, "ok"),
        ["version"] => ok_json(
            &json!({ "major": "1", "minor": "36", "gitVersion": VERSION, "platform": "linux/amd64" }),
        ),
        ["api"] if accepts_aggregated(request.headers()) => {
            with_etag(request, &aggregated(&resources, true))
        }
        ["apis"] if accepts_aggregated(request.headers()) => {
            with_etag(request, &aggregated(&resources, false))
        }
        ["api"] => ok_json(&json!({ "kind": "APIVersions", "versions": ["v1"] })),
        ["apis"] => ok_json(
            &json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&resources) }),
        ),
        ["api", version] => resource_list("", version, &resources),
        ["apis", group, version] => resource_list(group, version, &resources),
        _ => plain(404, "404 page not found\n"),
    }
}

fn ok_json(value: &Value) -> Response<Body> {
    body::json(200, value.to_string().into())
}

fn accepts_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("v=v2;as=APIGroupDiscoveryList"))
}

/// Responds with an `ETag`, or with 304 if the client has the current version.
fn with_etag(request: &Request<Bytes>, value: &Value) -> Response<Body> {
    let text = value.to_string();
    let tag = format!(
        "\"{}-{}\"",
        text.len(),
        text.bytes().fold(0_u64, |sum, byte| sum
            .wrapping_mul(31)
            .wrapping_add(byte.into()))
    );
    let is_unchanged = request
        .headers()
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known == tag.as_str());
    let mut response = if is_unchanged {
        body::json(304, Bytes::new())
    } else {
        body::json(200, text.into())
    };
    if is_unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if let Ok(tag) = tag.parse() {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Groups the resources by group and version, the core group first.
fn by_version<'a>(resources: &[&'a Resource]) -> BTreeMap<(String, String), Vec<&'a Resource>> {
    let mut versions: BTreeMap<(String, String), Vec<&Resource>> = BTreeMap::new();
    for resource in resources {
        let gvk = &resource.gvk;
        versions
            .entry((gvk.group.to_string(), gvk.version.to_string()))
            .or_default()
            .push(resource);
    }
    versions
}

fn aggregated(resources: &[&Resource], core: bool) -> Value {
    let versions = by_version(resources)
        .into_iter()
        .filter(|((group, _), _)| group.is_empty() == core);
    let items: Vec<Value> = versions
        .map(|((group, version), resources)| {
            let resources: Vec<Value> = resources
                .iter()
                .map(|resource| aggregated_resource(resource))
                .collect();
            let metadata = if core {
                json!({})
            } else {
                json!({ "name": group })
            };
            let version =
                json!({ "version": version, "resources": resources, "freshness": "Current" });
            json!({ "metadata": metadata, "versions": [version] })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let gvk = &resource.gvk;
    json!({
        "resource": &*resource.plural,
        "responseKind": { "group": &*gvk.group, "version": &*gvk.version, "kind": &*gvk.kind },
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": gvk.kind.to_lowercase(),
        "verbs": VERBS,
        "shortNames": short_names(resource),
    })
}

fn short_names(resource: &Resource) -> &'static [&'static str] {
    kinds::find(&resource.gvk).map_or(&[], |built_in| built_in.short_names)
}

fn groups(resources: &[&Resource]) -> Vec<Value> {
    let versions = by_version(resources)
        .into_keys()
        .filter(|(group, _)| !group.is_empty());
    let group = |(group, version): (String, String)| {
        let version = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
        json!({ "name": group, "versions": [version], "preferredVersion": version })
    };
    versions.map(group).collect()
}

fn resource_list(group: &str, version: &str, resources: &[&Resource]) -> Response<Body> {
    let served = by_version(resources);
    let Some(resources) = served.get(&(group.to_owned(), version.to_owned())) else {
        return plain(404, "404 page not found\n");
    };
    let resources: Vec<Value> = resources
        .iter()
        .map(|resource| {
            json!({
                "name": &*resource.plural, "singularName": resource.gvk.kind.to_lowercase(), "namespaced": resource.namespaced,
                "kind": &*resource.gvk.kind, "verbs": VERBS, "shortNames": short_names(resource),
            })
        })
        .collect();
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ok_json(
        &json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources }),
    )
}
