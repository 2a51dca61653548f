//! Discovery documents: of the server's own groups, and of what is registered as an apiserver would tell it.
//!
//! The classic form only; clients that prefer the aggregated one fall back to it.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions, GroupVersionForDiscovery},
    version::Info,
};
use kube::core::Version;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    catalog::{Catalog, Registered},
    request::{FleetDiscovery, GROUPS, OwnDiscovery, VERSION},
    status::ApiError,
};

/// The resources of the server's own groups. Most are reached through sub-paths only, and so have no verbs.
pub(super) const OWN_RESOURCES: [(&str, &str, &[&str]); 5] = [
    ("aggregate", "Aggregate", &[]),
    ("clusters", "Cluster", &[]),
    ("proxying", "Proxying", &[]),
    ("search", "Search", &[]),
    ("verify", "Verification", &["create"]),
];

/// Which version runs, in the shape of `kubectl version`.
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
pub fn own(request: &OwnDiscovery) -> Result<Box<RawValue>, ApiError> {
    let group = |name: &str| group(name, &[VERSION.to_owned()]);
    match request {
        OwnDiscovery::Groups => json(&APIGroupList { groups: GROUPS.map(group).to_vec() }),
        OwnDiscovery::Group(name) => json(&group(name)),
        OwnDiscovery::Resources(name) => json(&APIResourceList {
            group_version: format!("{name}/{VERSION}"),
            resources: OWN_RESOURCES.map(|(plural, kind, verbs)| own_resource(plural, kind, verbs)).to_vec(),
        }),
    }
}

fn own_resource(plural: &str, kind: &str, verbs: &[&str]) -> APIResource {
    APIResource {
        name: plural.to_owned(),
        singular_name: kind.to_ascii_lowercase(),
        kind: kind.to_owned(),
        namespaced: false,
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..APIResource::default()
    }
}

/// Discovery of what is registered.
pub fn fleet(catalog: &Catalog, request: &FleetDiscovery) -> Result<Box<RawValue>, ApiError> {
    let mut groups = versions_by_group(catalog);
    match request {
        FleetDiscovery::CoreVersions => {
            json(&APIVersions { versions: groups.remove("").unwrap_or_default(), ..APIVersions::default() })
        }
        FleetDiscovery::Groups => {
            groups.remove("");
            json(&APIGroupList { groups: groups.iter().map(|(name, versions)| group(name, versions)).collect() })
        }
        FleetDiscovery::Group(name) => match groups.get(name.as_str()) {
            Some(versions) if !name.is_empty() => json(&group(name, versions)),
            _ => Err(ApiError::NoSuchPath { path: format!("/apis/{name}") }),
        },
        FleetDiscovery::Resources { group, version } => resources(catalog, group, version),
    }
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Result<Box<RawValue>, ApiError> {
    let in_version = |registered: &&Registered| {
        &*registered.name.group == group && registered.versions.iter().any(|known| &**known == version)
    };
    let resources: Vec<APIResource> = catalog.resources().filter(in_version).map(fleet_resource).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    if resources.is_empty() {
        let root = if group.is_empty() { "api" } else { "apis" };
        return Err(ApiError::NoSuchPath { path: format!("/{root}/{group_version}") });
    }
    json(&APIResourceList { group_version, resources })
}

fn fleet_resource(registered: &Registered) -> APIResource {
    let short_names: Vec<String> = registered.short_names.iter().map(ToString::to_string).collect();
    APIResource {
        name: registered.name.plural.to_string(),
        singular_name: registered.singular.to_string(),
        kind: registered.kind.to_string(),
        namespaced: registered.namespaced,
        short_names: Some(short_names).filter(|names| !names.is_empty()),
        verbs: vec!["get".to_owned(), "list".to_owned()],
        ..APIResource::default()
    }
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
    let listed =
        |version: &String| GroupVersionForDiscovery { group_version: format!("{name}/{version}"), version: version.clone() };
    let all: Vec<GroupVersionForDiscovery> = versions.iter().map(listed).collect();
    APIGroup { name: name.to_owned(), preferred_version: all.first().cloned(), versions: all, ..APIGroup::default() }
}

fn json(document: &impl Serialize) -> Result<Box<RawValue>, ApiError> {
    to_raw_value(document).map_err(|error| ApiError::Internal(format!("cannot encode the discovery document: {error}")))
}
