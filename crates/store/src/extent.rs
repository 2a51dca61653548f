//! Extents: which documents of a cluster a visit covers.

use fleetdex_core::model::{Namespace, Scope, Unit, Version};

/// Documents of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those of one kind, in one namespace or in all.
    Kind(KindExtent),
    /// Those outside of all of these.
    Outside(Vec<KindExtent>),
}

/// The documents of one kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindExtent {
    /// `apiVersion` of the documents.
    pub api_version: String,
    /// Kind of the documents.
    pub kind: String,
    /// Only this namespace; absent: all.
    pub namespace: Option<Namespace>,
}

impl Extent {
    /// The documents of a unit.
    pub fn of(unit: &Unit) -> Self {
        Self::Kind(KindExtent::of(unit))
    }
}

impl KindExtent {
    /// The kind of a unit, and its namespace if it has one.
    pub fn of(unit: &Unit) -> Self {
        let namespace = match &unit.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace.clone()),
        };
        let gvk = &unit.resource.gvk;
        Self {
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            namespace,
        }
    }
}

/// The id and version of a stored document.
#[derive(Clone, Copy, Debug)]
pub struct StoredVersion<'s> {
    /// Its id.
    pub id: &'s str,
    /// The object's resource version.
    pub version: Version,
    /// The object's namespace; empty: none.
    pub namespace: &'s str,
    /// The object's name; empty if it is too long to be indexed.
    pub name: &'s str,
}

/// Called for every document of an [`Extent`].
pub type Visit<'v> = &'v mut (dyn FnMut(StoredVersion<'_>) + Send);
