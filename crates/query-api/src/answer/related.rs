//! The relations of an object.

use serde::{Deserialize, Serialize};

use super::{AnswerList, FoundMetadata};

/// A `RelatedObjectList`: the objects that an object uses, and those that use it.
pub type RelatedObjectList = AnswerList<RelatedObject>;

/// A related object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelatedObject {
    /// The API group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The metadata, as much as identifies it.
    pub metadata: FoundMetadata,
    /// How it is related.
    pub relation: ObjectRelation,
}

/// How an object is related to the named one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRelation {
    /// Which way the relation goes.
    pub direction: Direction,
    /// What the using object does with the used one.
    pub name: String,
    /// The object in between, nearer to the named one.
    pub via: String,
    /// How many steps it is away.
    pub depth: usize,
    /// Whether it exists. One that does not is shown if it surely would be in the index.
    pub exists: bool,
}

/// Which way a relation goes from the named object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// The named object uses this one.
    #[serde(rename = "uses")]
    Uses,
    /// This one uses the named object.
    #[serde(rename = "used by")]
    UsedBy,
}

impl Direction {
    /// The word in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uses => "uses",
            Self::UsedBy => "used by",
        }
    }
}
