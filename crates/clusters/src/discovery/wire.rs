//! The JSON of discovery responses, with limits on the length of each list.

use std::borrow::Cow;

use fleetdex_core::model::First;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{GroupVersion, MAX_RESOURCES};

/// Group versions of a response, at most. A control plane with every provider of Crossplane has
/// about 1,500.
pub(super) const MAX_GROUP_VERSIONS: usize = 5_000;
/// Verbs, short names or categories of a resource, at most. Kubernetes has 8 verbs.
pub(super) const MAX_NAMES_IN_LIST: usize = 32;
/// Subresources of a resource, at most. Pods have 10.
pub(super) const MAX_SUBRESOURCES: usize = 64;
/// Entries of a classic list, at most; subresources are entries, too.
pub(super) const MAX_ENTRIES: usize = 5 * MAX_RESOURCES;

pub(super) type NameList = First<String, MAX_NAMES_IN_LIST>;

#[derive(Deserialize)]
pub(super) struct RawDiscoveryResponse<'a> {
    pub(super) kind: DiscoveryResponseKind,
    #[serde(borrow, default)]
    pub(super) items: First<&'a RawValue, MAX_GROUP_VERSIONS>,
    #[serde(borrow)]
    pub(super) groups: Option<First<&'a RawValue, MAX_GROUP_VERSIONS>>,
    pub(super) versions: Option<First<String, MAX_NAMES_IN_LIST>>,
}

#[derive(Deserialize)]
pub(super) enum DiscoveryResponseKind {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated,
    #[serde(rename = "APIGroupList")]
    Groups,
    #[serde(rename = "APIVersions")]
    CoreVersions,
}

#[derive(Deserialize)]
pub(super) struct RawDiscoveryGroup<'a> {
    #[serde(default)]
    pub(super) metadata: RawName,
    #[serde(borrow, default)]
    pub(super) versions: First<&'a RawValue, MAX_GROUP_VERSIONS>,
}

#[derive(Deserialize, Default)]
pub(super) struct RawName {
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct RawDiscoveryVersion<'a> {
    #[serde(borrow)]
    pub(super) version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) resources: First<&'a RawValue, MAX_RESOURCES>,
    #[serde(default)]
    pub(super) freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawDiscoveryResource {
    pub(super) resource: String,
    pub(super) response_kind: Option<RawKind>,
    #[serde(default)]
    pub(super) scope: String,
    #[serde(default)]
    pub(super) singular_resource: String,
    #[serde(default)]
    pub(super) verbs: NameList,
    #[serde(default)]
    pub(super) short_names: NameList,
    #[serde(default)]
    pub(super) categories: NameList,
    #[serde(default)]
    pub(super) subresources: First<RawSubresource, MAX_SUBRESOURCES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawSubresource {
    pub(super) subresource: String,
    pub(super) response_kind: Option<RawKind>,
    #[serde(default)]
    pub(super) verbs: NameList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawGroup {
    pub(super) versions: First<RawGroupVersion, MAX_GROUP_VERSIONS>,
    pub(super) preferred_version: Option<RawGroupVersion>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawGroupVersion {
    pub(super) group_version: String,
}

impl RawGroup {
    /// Its versions, the preferred one first.
    pub(super) fn versions(&self) -> Vec<GroupVersion> {
        let versions = &self.versions.first;
        let preferred = self.preferred_version.as_ref().or(versions.first());
        let version = |raw: &RawGroupVersion| GroupVersion {
            name: raw.group_version.clone(),
            preferred: preferred == Some(raw),
        };
        let mut versions: Vec<GroupVersion> = versions.iter().map(version).collect();
        versions.sort_by_key(|version| !version.preferred);
        versions
    }
}

#[derive(Deserialize)]
pub(super) struct RawResourceList<'a> {
    #[serde(borrow, default)]
    pub(super) resources: First<&'a RawValue, MAX_ENTRIES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawResource {
    pub(super) name: String,
    #[serde(default)]
    pub(super) singular_name: String,
    #[serde(default)]
    pub(super) namespaced: bool,
    #[serde(default)]
    pub(super) kind: String,
    /// Group of a subresource's kind, if it is not that of the resource.
    #[serde(default)]
    pub(super) group: String,
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) verbs: NameList,
    #[serde(default)]
    pub(super) short_names: NameList,
    #[serde(default)]
    pub(super) categories: NameList,
}
