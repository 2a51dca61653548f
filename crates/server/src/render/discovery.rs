//! Discovery documents: of the server's own groups, and of the registered resources as an API
//! server would serve them.
//!
//! [`group_discovery`](super::group_discovery) has aggregated discovery of the server's own groups.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use fleetdex_core::model::Gvk;
use fleetdex_query_api::{
    group::{GROUP_RESOURCES, GROUPS, VERSION},
    question::{FleetDiscovery, GroupDiscovery},
};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{
        APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions, GroupVersionForDiscovery,
    },
    version::Info,
};
use kube::core::Version;
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    api_error::ApiError,
    catalog::{Catalog, RegisteredResource},
};

/// The server's version, in the format of `/version`.
pub fn version() -> Result<Box<RawValue>, ApiError> {
    json(&Info {
        major: env!("CARGO_PKG_VERSION_MAJOR").to_owned(),
        minor: env!("CARGO_PKG_VERSION_MINOR").to_owned(),
        git_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        ..Info::default()
    })
}

/// Discovery of the server's own groups.
pub fn group_discovery(request: &GroupDiscovery) -> Result<Box<RawValue>, ApiError> {
    let group = |name: &str| group(name, &[VERSION.to_owned()]);
    match request {
        GroupDiscovery::Groups => json(&APIGroupList {
            groups: GROUPS.map(group).to_vec(),
        }),
        GroupDiscovery::Group(name) => json(&group(name)),
        GroupDiscovery::Resources(name) => json(&APIResourceList {
            group_version: format!("{name}/{VERSION}"),
            resources: GROUP_RESOURCES
                .map(|(plural, kind, verbs)| group_resource(plural, kind, verbs))
                .to_vec(),
        }),
    }
}

fn group_resource(plural: &str, kind: &str, verbs: &[&str]) -> APIResource {
    APIResource {
        name: plural.to_owned(),
        singular_name: kind.to_ascii_lowercase(),
        kind: kind.to_owned(),
        namespaced: false,
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..APIResource::default()
    }
}

/// Discovery of the registered resources.
pub fn fleet(catalog: &Catalog, request: &FleetDiscovery) -> Result<Box<RawValue>, ApiError> {
    let mut groups = versions_by_group(catalog);
    match request {
        FleetDiscovery::CoreVersions => json(&APIVersions {
            versions: groups.remove("").unwrap_or_default(),
            ..APIVersions::default()
        }),
        FleetDiscovery::Groups => {
            groups.remove("");
            let groups = groups.iter().map(|(name, versions)| group(name, versions));
            json(&APIGroupList {
                groups: groups.collect(),
            })
        }
        FleetDiscovery::Group(name) => match groups.get(name.as_str()) {
            Some(versions) if !name.is_empty() => json(&group(name, versions)),
            _ => Err(ApiError::NoSuchPath {
                path: format!("/apis/{name}"),
            }),
        },
        FleetDiscovery::Resources { group, version } => resources(catalog, group, version),
    }
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Result<Box<RawValue>, ApiError> {
    let in_version = |registered: &&RegisteredResource| {
        &*registered.name.group == group
            && registered.versions.iter().any(|known| &**known == version)
    };
    let resources = catalog.resources().filter(in_version);
    let resources: Vec<APIResource> = resources.flat_map(fleet_resources).collect();
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    if resources.is_empty() {
        let root = if group.is_empty() { "api" } else { "apis" };
        return Err(ApiError::NoSuchPath {
            path: format!("/{root}/{group_version}"),
        });
    }
    json(&APIResourceList {
        group_version,
        resources,
    })
}

/// A resource and its subresources.
fn fleet_resources(registered: &RegisteredResource) -> Vec<APIResource> {
    let name = &registered.name;
    let below = registered
        .capabilities
        .subresources
        .iter()
        .map(|subresource| {
            let is_other = subresource.kind.group != name.group
                || !registered.versions.contains(&subresource.kind.version);
            APIResource {
                name: format!("{}/{}", name.plural, subresource.name),
                kind: subresource.kind.kind.to_string(),
                group: is_other.then(|| subresource.kind.group.to_string()),
                version: is_other.then(|| subresource.kind.version.to_string()),
                namespaced: registered.namespaced,
                verbs: texts(&subresource.verbs),
                ..APIResource::default()
            }
        });
    std::iter::once(fleet_resource(registered))
        .chain(below)
        .collect()
}

fn texts<'w>(words: impl IntoIterator<Item = &'w Arc<str>>) -> Vec<String> {
    words.into_iter().map(ToString::to_string).collect()
}

/// The verbs that are served: `deletecollection` is not, because a request never goes to several
/// members.
fn served_verbs(registered: &RegisteredResource) -> Vec<String> {
    let mut verbs = texts(&registered.capabilities.verbs);
    verbs.retain(|verb| verb != "deletecollection");
    verbs
}

fn fleet_resource(registered: &RegisteredResource) -> APIResource {
    let short_names = texts(&registered.short_names);
    let categories = texts(&registered.capabilities.categories);
    APIResource {
        name: registered.name.plural.to_string(),
        singular_name: registered.singular.to_string(),
        kind: registered.kind.to_string(),
        namespaced: registered.namespaced,
        short_names: Some(short_names).filter(|names| !names.is_empty()),
        verbs: served_verbs(registered),
        categories: Some(categories).filter(|names| !names.is_empty()),
        ..APIResource::default()
    }
}

/// Aggregated discovery of the registered resources: of the core group, or of all other groups.
pub fn aggregated(catalog: &Catalog, core: bool) -> Result<Box<RawValue>, ApiError> {
    let groups = versions_by_group(catalog)
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let versions = versions.iter().map(|version| {
                let in_version = |registered: &&RegisteredResource| {
                    *registered.name.group == *group && registered.versions.iter().any(|known| **known == **version)
                };
                let resources: Vec<Value> =
                    catalog.resources().filter(in_version).map(|one| aggregated_resource(one, version)).collect();
                json!({ "version": version, "resources": resources, "freshness": "Current" })
            });
            json!({ "metadata": { "name": group, "creationTimestamp": null }, "versions": versions.collect::<Vec<_>>() })
        })
        .collect();
    json(
        &json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items }),
    )
}

fn aggregated_resource(registered: &RegisteredResource, version: &str) -> Value {
    let subresources: Vec<Value> = registered
        .capabilities
        .subresources
        .iter()
        .map(|subresource| {
            let Gvk { group, version, kind } = &subresource.kind;
            let kind = json!({ "group": group, "version": version, "kind": kind });
            json!({ "subresource": subresource.name, "responseKind": kind, "verbs": subresource.verbs })
        })
        .collect();
    let kind =
        json!({ "group": registered.name.group, "version": version, "kind": registered.kind });
    let mut resource = json!({
        "resource": registered.name.plural,
        "responseKind": kind,
        "scope": if registered.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": registered.singular,
        "verbs": served_verbs(registered),
    });
    if let Some(members) = resource.as_object_mut() {
        let lists = [
            ("shortNames", json!(registered.short_names)),
            ("categories", json!(registered.capabilities.categories)),
            ("subresources", Value::Array(subresources)),
        ];
        let given = lists.into_iter().filter(|(_, list)| *list != json!([]));
        members.extend(given.map(|(key, list)| (key.to_owned(), list)));
    }
    resource
}

/// The versions of each group, the most stable and newest first.
fn versions_by_group(catalog: &Catalog) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for registered in catalog.resources() {
        let versions = groups.entry(registered.name.group.to_string()).or_default();
        for version in &registered.versions {
            if !versions.iter().any(|known| **known == **version) {
                versions.push(version.to_string());
            }
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_cached_key(|version| Reverse(Version::parse(version).priority()));
    }
    groups
}

fn group(name: &str, versions: &[String]) -> APIGroup {
    let listed = |version: &String| GroupVersionForDiscovery {
        group_version: format!("{name}/{version}"),
        version: version.clone(),
    };
    let all: Vec<GroupVersionForDiscovery> = versions.iter().map(listed).collect();
    APIGroup {
        name: name.to_owned(),
        preferred_version: all.first().cloned(),
        versions: all,
        ..APIGroup::default()
    }
}

fn json(document: &impl Serialize) -> Result<Box<RawValue>, ApiError> {
    to_raw_value(document).map_err(|error| {
        ApiError::Internal(format!("cannot encode the discovery document: {error}"))
    })
}
