//! Kinds of stores.

use fleetdex_core::model::StoreName;

/// A kind of store, as Karmada's paths name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreKind {
    /// `search/cache`: the embedded store.
    Embedded,
    /// `search/opensearch`
    OpenSearch,
}

impl StoreKind {
    /// Whether a store is of this kind.
    pub fn is_of(self, store: &StoreName) -> bool {
        (self == Self::Embedded) == (*store == StoreName::embedded())
    }
}
