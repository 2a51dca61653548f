//! The metadata of lists and Tables.

use std::collections::BTreeMap;

use fleetdex_core::model::ClusterName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The metadata of a list or a Table: that of Kubernetes, and what is known of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMetadata {
    /// The version from which a watch continues.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The token of the next page; empty on the last one.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many more objects there are, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<u64>,
    /// Whether objects are missing that no further page has.
    #[serde(skip_serializing_if = "is_false")]
    pub incomplete: bool,
    /// The requested counts, of the objects of all pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facets: Vec<FacetCounts>,
    /// The clusters that are not read at present, and the time of what is shown of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub as_of: BTreeMap<ClusterName, Timestamp>,
}

/// A list that is made from what the server knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerList<T> {
    /// The kind of the list, such as `ImageCountList`.
    pub kind: String,
    /// Our API group and version; of a `PartialObjectMetadataList`, the version of `meta.k8s.io`
    /// that the client understands.
    pub api_version: String,
    /// The version and the page of the list, and whether it is complete.
    pub metadata: ListMetadata,
    /// The items.
    pub items: Vec<T>,
}

/// How many of the found objects have each value of a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FacetCounts {
    /// The property, such as `kind`.
    pub name: String,
    /// Its most frequent values.
    pub values: Vec<FacetCount>,
    /// Objects with other values.
    #[serde(default)]
    pub others: u64,
}

/// How many of the found objects have a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FacetCount {
    /// The value; empty for objects without one.
    pub value: String,
    /// Number of objects.
    pub count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}
