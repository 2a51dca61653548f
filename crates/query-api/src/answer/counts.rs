//! Counts of objects in groups.

use serde::{Deserialize, Serialize};

use super::ListMetadata;

/// How many objects there are in each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// `Aggregate`
    pub kind: String,
    /// Our API group and version.
    pub api_version: String,
    /// Empty: counts have no version and no pages.
    pub metadata: ListMetadata,
    /// The keys of the groups.
    pub by: Vec<String>,
    /// Objects in all groups.
    pub total: u64,
    /// Objects in groups that are not listed.
    pub others: u64,
    /// The groups, the largest first.
    pub items: Vec<GroupCount>,
}

/// A group of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCount {
    /// One value for each key; `None` where the objects have none.
    pub values: Vec<Option<String>>,
    /// Number of objects.
    pub count: u64,
}
