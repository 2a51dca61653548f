//! What a search of one kind or of several has found.

use std::collections::BTreeSet;

use fleetdex_core::{
    model::Gvk,
    query::{Hit, Permitted, ResourceName},
};

/// What is kept of an object that a search has found.
pub trait FromHit: Sized + Send {
    /// Reads it. `kind` is that of the resource, in its best version.
    fn of(resource: &ResourceName, kind: &Gvk, hit: &Hit) -> Self;
}

/// Nothing is kept: only their number counts.
impl FromHit for () {
    fn of(_: &ResourceName, _: &Gvk, _: &Hit) -> Self {}
}

/// Objects of one resource, or of several.
pub struct FoundHits<T> {
    /// The objects.
    pub objects: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
    /// What the result lacks.
    pub warnings: BTreeSet<String>,
    /// The resource and what the caller may see of it, if only one was searched.
    pub(super) searched: Option<(ResourceName, Permitted)>,
}

impl<T> Default for FoundHits<T> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            has_more: false,
            warnings: BTreeSet::new(),
            searched: None,
        }
    }
}

impl<T> FoundHits<T> {
    /// Adds what was found elsewhere.
    pub fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.has_more |= other.has_more;
        self.warnings.extend(other.warnings);
    }
}
