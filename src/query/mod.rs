//! What a client asks for, as one value that every store can answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    model::{ClusterName, FieldPath, Namespace},
    selector::{FieldSelector, LabelSelector},
};

pub mod dsl;

/// A resource as clients name it: group and plural, and the version when they insist on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceName {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural, as in URLs.
    pub plural: Arc<str>,
}

/// A search over the documents of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The resource asked for.
    pub resource: ResourceName,
    /// Only these clusters; empty: all.
    pub clusters: Vec<ClusterName>,
    /// Only these namespaces; empty: all.
    pub namespaces: Vec<Namespace>,
    /// Only these names; empty: all.
    pub names: Vec<String>,
    /// Label selector; empty: all.
    pub labels: LabelSelector,
    /// Field selector; empty: all.
    pub fields: FieldSelector,
    /// Order; [`Sort::standard`] unless the client asks for another. The store adds a tie-breaker.
    pub sort: Vec<Sort>,
    /// At most this many objects in one page.
    pub limit: usize,
}

/// One key of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sort {
    /// What to order by.
    pub key: SortKey,
    /// Largest first.
    pub descending: bool,
}

/// What answers can be ordered by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SortKey {
    /// `metadata.namespace`
    Namespace,
    /// `metadata.name`
    Name,
    /// The member.
    Cluster,
    /// `metadata.creationTimestamp`
    CreationTimestamp,
}

impl Sort {
    /// Namespace, name, cluster: the stable default.
    pub fn standard() -> Vec<Self> {
        [SortKey::Namespace, SortKey::Name, SortKey::Cluster]
            .into_iter()
            .map(|key| Self { key, descending: false })
            .collect()
    }
}

/// Where the next page starts. Opaque outside of the store that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The frozen view of the store that the pages are read from.
    pub snapshot: String,
    /// Sort values of the last object of the page before.
    pub after: Vec<serde_json::Value>,
}

/// One page of an answer.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The objects, in order.
    pub items: Vec<Hit>,
    /// Where the next page starts; absent on the last page.
    pub next: Option<Cursor>,
    /// How many objects come after this page, where that is known.
    pub remaining: Option<u64>,
}

/// One object of an answer.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The member that holds it.
    pub cluster: ClusterName,
    /// The object in its native shape, as JSON.
    pub object: Box<serde_json::value::RawValue>,
}

/// A path that queries may select on, for error messages.
pub type KnownFields<'a> = &'a [FieldPath];
