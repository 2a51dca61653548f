//! Aggregated discovery and `OpenAPI` of the server's own groups, which the aggregation layer and
//! kubectl request besides classic discovery.
//!
//! The resources of these groups are paths to objects of other groups, so their schemas are objects
//! without fields.

use fleetdex_query_api::{
    group::{GROUP_RESOURCES, GROUPS, VERSION},
    question::OpenApi,
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::api_error::ApiError;

/// The parameters of the media type by which clients request aggregated discovery.
pub(crate) const AGGREGATED: [&str; 3] =
    ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
/// The media type of aggregated discovery.
pub const AGGREGATED_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether a client prefers aggregated discovery to everything else that is served.
pub fn wants_aggregated(accept: &str) -> bool {
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let is_json = parts
            .next()
            .is_some_and(|media| matches!(media, "application/json" | "application/*" | "*/*"));
        let parameters: Vec<&str> = parts
            .filter(|parameter| !parameter.starts_with("q="))
            .collect();
        if is_json && parameters.is_empty() {
            return false;
        }
        let has = |parameter: &&str| parameters.contains(parameter);
        if is_json && AGGREGATED.iter().all(has) {
            return true;
        }
    }
    false
}

/// Aggregated discovery of the server's own groups.
pub fn aggregated() -> Value {
    let groups = GROUPS.map(|group| {
        let resources =
            GROUP_RESOURCES.map(|(plural, kind, verbs)| resource(group, plural, kind, verbs));
        let version = json!({ "version": VERSION, "resources": resources, "freshness": "Current" });
        json!({ "metadata": { "name": group }, "versions": [version] })
    });
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups })
}

fn resource(group: &str, plural: &str, kind: &str, verbs: &[&str]) -> Value {
    json!({
        "resource": plural,
        "responseKind": { "group": group, "version": VERSION, "kind": kind },
        "scope": "Cluster",
        "singularResource": kind.to_ascii_lowercase(),
        "verbs": verbs,
    })
}

/// One of the `OpenAPI` documents.
pub fn open_api(which: OpenApi) -> Result<Box<RawValue>, ApiError> {
    let document = match which {
        OpenApi::V2 => open_api_v2(),
        OpenApi::Index => open_api_index(),
        OpenApi::V3(group) => open_api_v3(group),
    };
    to_raw_value(&document)
        .map_err(|error| ApiError::Internal(format!("cannot encode the OpenAPI document: {error}")))
}

/// The index of the `OpenAPI` 3 documents.
fn open_api_index() -> Value {
    let paths = GROUPS.map(|group| {
        let path = format!("apis/{group}/{VERSION}");
        let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
        (path, json!({ "serverRelativeURL": url }))
    });
    json!({ "paths": paths.into_iter().collect::<serde_json::Map<String, Value>>() })
}

/// The `OpenAPI` 3 document of a group's only version.
fn open_api_v3(group: &str) -> Value {
    let mut paths = serde_json::Map::new();
    let discovery = json!({
        "description": "get available resources",
        "operationId": format!("get{}APIResources", identifier(group)),
        "responses": { "200": { "description": "OK" } },
    });
    paths.insert(
        format!("/apis/{group}/{VERSION}/"),
        json!({ "get": discovery }),
    );
    for (plural, kind, verbs) in GROUP_RESOURCES {
        let (path, operation) = operation(group, plural, kind, verbs);
        paths.insert(path, operation);
    }
    json!({ "openapi": "3.0.0", "info": info(), "paths": paths, "components": { "schemas": schemas(&[group]) } })
}

/// The operation of a resource. kubectl finds the kind of a resource in its operations.
fn operation(group: &str, plural: &str, kind: &str, verbs: &[&str]) -> (String, Value) {
    let is_created = verbs.contains(&"create");
    let is_listed = verbs.contains(&"list");
    let operation = json!({
        "description": format!("what {plural} leads to"),
        "operationId": format!("{}{}{kind}", verbs.first().unwrap_or(&"get"), identifier(group)),
        "responses": { "200": { "description": "OK" } },
        "x-kubernetes-action": if is_created { "post" } else if is_listed { "list" } else { "get" },
        "x-kubernetes-group-version-kind": { "group": group, "version": VERSION, "kind": kind },
    });
    let path = format!("/apis/{group}/{VERSION}/{plural}");
    if is_created {
        return (path, json!({ "post": operation }));
    }
    if is_listed {
        return (path, json!({ "get": operation }));
    }
    let name = json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true } });
    (
        format!("{path}/{{name}}"),
        json!({ "get": operation, "parameters": [name] }),
    )
}

/// The Swagger 2 document of all groups.
fn open_api_v2() -> Value {
    json!({ "swagger": "2.0", "info": info(), "paths": {}, "definitions": schemas(&GROUPS) })
}

fn info() -> Value {
    json!({ "title": "Fleetdex", "version": concat!("v", env!("CARGO_PKG_VERSION")) })
}

fn schemas(groups: &[&str]) -> Value {
    let mut schemas = serde_json::Map::new();
    for group in groups {
        for (plural, kind, _) in GROUP_RESOURCES {
            let name = format!("io.fleetdex.{}.{VERSION}.{kind}", group.replace('.', "_"));
            schemas.insert(name, schema(group, plural, kind));
        }
    }
    Value::Object(schemas)
}

fn schema(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "description": format!("{kind} has no fields of its own: below {plural} are paths to the objects of the fleet."),
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string", "description": "The version of this representation." },
            "kind": { "type": "string", "description": "What this is." },
        },
        "x-kubernetes-group-version-kind": [{ "group": group, "version": VERSION, "kind": kind }],
    })
}

/// A group as a part of an identifier: `SearchFleetdexIo` for `search.fleetdex.io`.
fn identifier(group: &str) -> String {
    let capital = |word: &str| format!("{}{}", word[..1].to_ascii_uppercase(), &word[1..]);
    let words = group.split('.').filter(|word| !word.is_empty());
    words.map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_discovery_is_served_to_clients_that_prefer_it() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert!(wants_aggregated(kubectl));
        assert!(wants_aggregated(AGGREGATED_TYPE));
        let others = [
            "",
            "*/*",
            "application/json",
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        ];
        assert_eq!(others.map(wants_aggregated), [false; 4]);
        assert!(!wants_aggregated(&format!(
            "application/json, {AGGREGATED_TYPE}"
        )));
    }

    #[test]
    fn every_resource_has_a_schema_with_its_kind() {
        let document = open_api_v3(GROUPS[0]);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert_eq!(schemas.len(), GROUP_RESOURCES.len());
        let search = &schemas["io.fleetdex.search_fleetdex_io.v1alpha1.Search"]["x-kubernetes-group-version-kind"]
            [0];
        assert_eq!(
            search,
            &json!({ "group": "search.fleetdex.io", "version": "v1alpha1", "kind": "Search" })
        );
        assert_eq!(
            open_api_v2()["definitions"].as_object().unwrap().len(),
            2 * GROUP_RESOURCES.len()
        );
        assert_eq!(
            aggregated()["items"][1]["metadata"]["name"],
            "search.karmada.io"
        );
        let url =
            &open_api_index()["paths"]["apis/search.fleetdex.io/v1alpha1"]["serverRelativeURL"];
        assert!(
            url.as_str()
                .unwrap()
                .starts_with("/openapi/v3/apis/search.fleetdex.io/v1alpha1?hash=")
        );
        assert_eq!(
            document["paths"]["/apis/search.fleetdex.io/v1alpha1/"]["get"]["operationId"],
            "getSearchFleetdexIoAPIResources"
        );
    }
}
