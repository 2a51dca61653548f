//! Hashes of 128 bits, which stand for names and ids in maps: 16 bytes whatever the length of the
//! text.

use std::{hash::Hash, sync::LazyLock};

use ahash::RandomState;

/// With fixed seeds, objects could be named so that their hashes collide.
static SEEDS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);

fn hash(value: impl Hash) -> [u64; 2] {
    [0, 1].map(|half| SEEDS[half].hash_one(&value))
}

/// The hash of an object's kind, namespace and name, which no two objects of a cluster share at the
/// same time.
///
/// Objects of different UIDs have the same name after the earlier one was deleted. Readers that
/// store objects by name, as informers do, must see that deletion first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameHash([u64; 2]);

impl NameHash {
    /// The hash of a name within `scope`: the kind, or the cluster, of all objects that are
    /// compared.
    pub fn new(scope: &str, namespace: &str, name: &str) -> Self {
        Self(hash((scope, namespace, name)))
    }
}

/// The hash of a document's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdHash([u64; 2]);

impl IdHash {
    /// The hash of an id.
    pub fn new(id: &str) -> Self {
        Self(hash(id))
    }
}
