//! Names of objects in 16 bytes.

use std::sync::LazyLock;

use ahash::RandomState;

/// Fixed seeds would let objects be named so that their hashes are equal.
static SEEDS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// What no two objects of a cluster have in common that are there at the same time: kind, namespace and name, as a hash of 128 bits.
///
/// Objects of different UIDs have one name where the earlier one was deleted. Whoever keeps objects by their names, as informers do, has to hear of
/// that deletion first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameHash([u64; 2]);

impl NameHash {
    /// The hash of a name within `scope`, which is the same for all objects that it distinguishes: a kind, or a cluster.
    pub fn new(scope: &str, namespace: &str, name: &str) -> Self {
        Self([0, 1].map(|half| SEEDS[half].hash_one((scope, namespace, name))))
    }
}
