//! The answers of the query API, as they are on the wire.
//!
//! The server writes them, the page and the command line read them. Lists of objects of one kind
//! are not here: their objects are sent as they are stored, byte for byte, and only their head is
//! known ([`ListMetadata`]).
//!
//! Guarantee: `serde_json::from_str(&serde_json::to_string(&answer)) == answer`. Members that a
//! newer server adds are ignored.

mod completions;
mod counts;
mod explanation;
mod fleet;
mod found;
mod images;
mod list_metadata;
mod related;
mod table;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::{
    completions::{CompletionItem, ReplacedBytes, SearchCompletions, TextProblem},
    counts::{Counts, GroupCount},
    explanation::{Explanation, StoreRequests},
    fleet::{ClusterReport, ClusterState, FleetReport, RegistryReport},
    found::{FoundAnnotations, FoundMetadata, FoundObject, FoundObjects},
    images::{ImageCount, ImageCountList},
    list_metadata::{AnswerList, FacetCount, FacetCounts, ListMetadata},
    related::{Direction, ObjectRelation, RelatedObject, RelatedObjectList},
    table::{Table, TableColumn, TableRow},
};

/// An answer that is made from what the server knows, not from the bytes of stored objects.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// Found, related or counted objects as a Table.
    Table(Table<FoundObject>),
    /// Objects of several kinds.
    Objects(FoundObjects),
    /// The relations of an object.
    Related(RelatedObjectList),
    /// Images and their Pods.
    Images(ImageCountList),
    /// Counts of objects.
    Counts(Counts),
    /// Completions of a search.
    Completions(SearchCompletions),
    /// How a question is translated for the stores.
    Explanation(Explanation),
    /// How the clusters are read.
    Fleet(Box<FleetReport>),
}
