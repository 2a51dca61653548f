//! Queries: one value for what a client asks, which every store can answer.

use serde::{Deserialize, Serialize};

use crate::{
    model::{
        ClusterName, FieldPath, FieldType, Interpretation, Json, MAX_FIELD_VALUE_BYTES, Namespace,
    },
    selector::{FieldSelector, InvalidRequirement, LabelSelector, LabelTest},
};

pub mod aggregate;
mod checked;
mod held_memory;
pub mod merge;
pub mod owners;
mod permitted;
pub mod ranked;
mod requester;
mod resource_name;
mod selectable;
mod terms;
pub mod values;
pub mod words;

pub use aggregate::{Group, GroupKey, Groups};
pub use checked::{
    CheckedQuery, CheckedRelatives, MAX_CLAUSES, MAX_LIMIT, StoredField, check_clauses,
};
pub use held_memory::HeldMemory;
pub use owners::{Owners, Relation, Relative, RelativesQuery};
pub use permitted::{Grant, InCluster, Permitted};
pub use ranked::{CountsByFacet, Facet, RankPosition, RankedHit, RankedPage, RankedQuery};
pub use requester::Requester;
pub use resource_name::ResourceName;
pub use selectable::{Selectable, SortField, UnsupportedField};
pub use terms::{field_term, label_number_term, label_term};
pub use values::{ValueCounts, ValueField, ValuePrefix, ValuesQuery};
pub use words::{Word, WordMatch, WordSelector, WordText};

/// A query is invalid or too large. An HTTP server responds with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The kind has no such selectable field.
    #[error(transparent)]
    UnsupportedField(#[from] UnsupportedField),
    /// The field holds texts or flags.
    #[error(
        "field {0:?} holds no numbers, and '>', '>=', '<' and '<=' compare numbers and quantities"
    )]
    NotNumeric(String),
    /// No label can have this key.
    #[error(transparent)]
    Label(InvalidRequirement),
    /// Documents hold longer values cut.
    #[error(
        "the value of field {path:?} is {bytes} bytes long, and a field selector compares at most {MAX_FIELD_VALUE_BYTES}"
    )]
    ValueTooLong {
        /// The field, as the selector names it.
        path: String,
        /// Length of the value.
        bytes: usize,
    },
    /// Documents hold no such text.
    #[error(
        "a word is {bytes} bytes long, and a search compares words of 1 to {MAX_FIELD_VALUE_BYTES}"
    )]
    WordLength {
        /// Length of the word.
        bytes: usize,
    },
    /// OpenSearch refuses larger queries.
    #[error(
        "the query asks for {found} {what}, and at most {limit} are possible; ask in several queries"
    )]
    TooLarge {
        /// The things that are too many.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
}

/// Bytes that a value in a list or a set takes beside its text: a `String`, the overhead of the
/// allocator, and a part of the node that holds it.
const VALUE_BYTES: usize = 64;

/// A search over the documents of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The requested resource.
    pub resource: ResourceName,
    /// Only these clusters; empty: all.
    pub clusters: Vec<ClusterName>,
    /// Only these namespaces; empty: all.
    pub namespaces: Vec<Namespace>,
    /// Only these names; empty: all.
    pub names: Vec<String>,
    /// The objects that the caller may see.
    pub permitted: Permitted,
    /// The requester whose share of the store the query uses: of open views and, in the embedded
    /// store, of the reading threads.
    pub requester: Requester,
    /// Created then or later, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Created before that, in milliseconds since 1970.
    pub before: Option<i64>,
    /// Owned by one of these; absent: by any owner or none.
    pub owners: Option<Owners>,
    /// Label selector; empty: all.
    pub labels: LabelSelector,
    /// Field selector; empty: all.
    pub fields: FieldSelector,
    /// Free words; empty: all.
    pub words: WordSelector,
    /// The fields that `fields` may name, and how absent fields read.
    pub selectable: Selectable,
    /// Order; [`Sort::standard`] unless the client asks for another. The store adds a tie-breaker.
    pub sort: Vec<Sort>,
    /// Objects in one page at most. A limit over [`MAX_LIMIT`] is refused, so a server lowers the
    /// limit of a client.
    pub limit: usize,
}

impl Query {
    /// Every object of a resource, in the standard order.
    pub fn all_of(resource: ResourceName, selectable: Selectable, limit: usize) -> Self {
        Self {
            resource,
            clusters: Vec::new(),
            namespaces: Vec::new(),
            names: Vec::new(),
            permitted: Permitted::Everything,
            requester: Requester::Operator,
            since: None,
            before: None,
            owners: None,
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
            words: WordSelector::default(),
            selectable,
            sort: Sort::standard(),
            limit,
        }
    }

    /// Approximate bytes of its lists and selectors, which a client can make large.
    pub fn bytes(&self) -> usize {
        let mut bytes = self.words.bytes();
        let mut add = |text: &str| bytes += text.len() + VALUE_BYTES;
        self.clusters.iter().for_each(|name| add(name.as_str()));
        self.namespaces.iter().for_each(|name| add(name.as_str()));
        self.names.iter().for_each(|name| add(name));
        for requirement in self.labels.requirements() {
            add(requirement.key());
            if let LabelTest::In(values) | LabelTest::NotIn(values) = requirement.test() {
                for value in values {
                    add(value);
                }
            }
        }
        for requirement in self.fields.requirements() {
            add(requirement.path.as_str());
            requirement
                .test
                .values()
                .iter()
                .for_each(|value| add(value));
        }
        for (_, uids) in self.owners.iter().flat_map(Owners::by_cluster) {
            for uid in uids {
                add(uid);
            }
        }
        if let Permitted::Only(grants) = &self.permitted {
            for grant in grants {
                let (clusters, namespaces) = (grant.clusters.iter(), grant.namespaces.iter());
                clusters.flatten().for_each(|name| add(name.as_str()));
                namespaces.flatten().for_each(|name| add(name.as_str()));
            }
        }
        bytes
    }
}

/// One key of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sort {
    /// What to order by.
    pub key: SortKey,
    /// Largest first.
    pub descending: bool,
}

/// The keys that results can be sorted by.
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
    /// A selectable field, by its least value: numbers before texts.
    Field(FieldPath, FieldType),
}

impl Sort {
    /// Namespace, name, cluster: the stable default.
    pub fn standard() -> Vec<Self> {
        [SortKey::Namespace, SortKey::Name, SortKey::Cluster]
            .into_iter()
            .map(|key| Self {
                key,
                descending: false,
            })
            .collect()
    }
}

/// Where the next page starts. Opaque outside of the store that made it, or of the code that merges
/// the results of several stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The frozen view of the store that the pages are read from.
    pub snapshot: String,
    /// Sort values of the last object of the page before.
    pub after: Vec<serde_json::Value>,
    /// How many objects come after that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
}

/// One page of a result.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The objects, in order.
    pub items: Vec<Hit>,
    /// Where the next page starts; absent on the last page.
    pub next: Option<Cursor>,
    /// How many objects come after this page, where that is known.
    pub remaining: Option<u64>,
}

/// One object of a result.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The member that holds it.
    pub cluster: ClusterName,
    /// The object in its native shape, as JSON.
    pub object: Json,
    /// What its document says that it means.
    pub interpretation: Option<Box<Interpretation>>,
    /// The memory that is reserved for it and for other objects of its page.
    pub memory: HeldMemory,
}
