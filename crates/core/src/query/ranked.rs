//! Searches over several resources: the best matches first, then the newest objects.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{CheckedQuery, Hit, Query, QueryError, Requester};
use crate::model::index_fields;

/// Values of a facet at most. Objects with others are counted together.
pub const MAX_FACET_VALUES: usize = 50;

/// A search over several resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedQuery {
    /// What is selected of each resource, one query for each. They differ in resource, clusters,
    /// permission and selectable fields only. Their orders and limits are not used.
    pub queries: Vec<Query>,
    /// The requester whose share of the store the search uses.
    pub requester: Requester,
    /// Objects in the page at most.
    pub limit: usize,
    /// The last object of the page before.
    pub after: Option<RankPosition>,
    /// By what all selected objects are counted.
    pub facets: Vec<Facet>,
}

/// A property that the objects of a search are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Facet {
    /// Their kind, whatever its group.
    Kind,
    /// The member that holds them.
    Cluster,
    /// Their namespace. Objects without one are not counted.
    Namespace,
    /// Their health. Objects without one are not counted.
    Health,
}

impl Facet {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kind, Self::Cluster, Self::Namespace, Self::Health];

    /// Its name in requests and responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Health => "health",
        }
    }

    /// The mapped field of documents that it counts.
    pub fn field(self) -> &'static str {
        match self {
            Self::Kind => index_fields::KIND,
            Self::Cluster => index_fields::CLUSTER,
            Self::Namespace => index_fields::NAMESPACE,
            Self::Health => index_fields::HEALTH,
        }
    }
}

/// Where an object is in the order of a search: best match, newest, cluster, UID, `apiVersion`,
/// kind. The last four identify an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RankPosition {
    /// The score of [`WordSelector::score`](super::WordSelector::score), the greatest first.
    pub score: Reverse<u32>,
    /// When it was created, in milliseconds since 1970, the newest first; objects without a time
    /// are the oldest.
    pub created: Reverse<Option<i64>>,
    /// The member that holds it.
    pub cluster: String,
    /// Its UID.
    pub uid: String,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
}

/// An object of a search, and its place in the order.
#[derive(Clone, Debug)]
pub struct RankedHit {
    /// The object. It may lack everything but what identifies it.
    pub hit: Hit,
    /// Its place.
    pub position: RankPosition,
}

/// How many objects have each value of a facet.
pub type CountsByFacet = BTreeMap<Facet, BTreeMap<String, u64>>;

/// A page of a search.
#[derive(Clone, Debug, Default)]
pub struct RankedPage {
    /// The objects, in order.
    pub items: Vec<RankedHit>,
    /// Whether there are more.
    pub more: bool,
    /// How many objects all pages have together.
    pub total: u64,
    /// How many objects of all pages have each value. A store counts the values of most objects,
    /// 1,000 at least.
    pub facets: CountsByFacet,
    /// How many objects have values that are not among these.
    pub others: BTreeMap<Facet, u64>,
}

impl RankedPage {
    /// The first objects of several pages, of stores that hold different objects.
    pub fn merged(pages: Vec<Self>, limit: usize) -> Self {
        let mut all = Self::default();
        for page in pages {
            all.items.extend(page.items);
            all.more |= page.more;
            all.total += page.total;
            for (facet, others) in page.others {
                *all.others.entry(facet).or_default() += others;
            }
            for (facet, counts) in page.facets {
                let of_facet = all.facets.entry(facet).or_default();
                for (value, count) in counts {
                    *of_facet.entry(value).or_default() += count;
                }
            }
        }
        all.items
            .sort_by(|left, right| left.position.cmp(&right.position));
        all.more |= all.items.len() > limit;
        all.items.truncate(limit);
        all
    }
}

impl RankedQuery {
    /// Checks each query.
    pub fn checked(&self) -> Result<Vec<CheckedQuery<'_>>, QueryError> {
        self.queries.iter().map(CheckedQuery::new).collect()
    }
}
