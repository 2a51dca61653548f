//! Pages of a search across kinds.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::page::{ListShape, ObjectPage, RawList, RawTable};

/// One page of a search across kinds.
#[derive(Debug)]
pub struct FoundPage {
    /// The objects.
    pub page: ObjectPage,
    /// How many more objects the next pages have, if that is known.
    pub remaining: Option<u64>,
    /// The counts that were requested, of all pages.
    pub facets: Vec<FacetCounts>,
}

/// How many of the found objects have each value of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FacetCounts {
    /// The property, such as `kind`.
    pub name: String,
    /// Its most frequent values.
    pub values: Vec<FacetValue>,
    /// Objects with other values.
    #[serde(default)]
    pub others: u64,
}

/// How many of the found objects have a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FacetValue {
    /// The value; empty or absent for objects without one.
    #[serde(default)]
    pub value: Option<String>,
    /// Number of objects.
    pub count: u64,
}

#[derive(Deserialize)]
struct RawFound {
    #[serde(default)]
    metadata: FoundMetadata,
}

/// What the metadata of a search has beside that of a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundMetadata {
    #[serde(default)]
    remaining_item_count: Option<u64>,
    #[serde(default)]
    facets: Vec<FacetCounts>,
}

impl FoundPage {
    pub(super) fn parse(body: &RawValue, shape: ListShape) -> Result<Self, serde_json::Error> {
        let RawFound { metadata } = serde_json::from_str(body.get())?;
        let page = match shape {
            ListShape::Objects => serde_json::from_str::<RawList>(body.get())?.into(),
            ListShape::Table => serde_json::from_str::<RawTable>(body.get())?.into(),
        };
        Ok(Self {
            page,
            remaining: metadata.remaining_item_count,
            facets: metadata.facets,
        })
    }
}
