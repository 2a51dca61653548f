//! The objects of one kind of one member, with indexes, as in client-go's indexer. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt;

use super::resource::CacheableResource;

/// Returns the values of an object in an index: none, one or several.
pub(super) type IndexFunction<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// A change of an object.
#[derive(Clone, Debug)]
pub enum ObjectChange<K> {
    /// The object is new, or existed when the watch started.
    Added(Arc<K>),
    /// The object was modified.
    Modified {
        /// The object before the change.
        old: Arc<K>,
        /// The object after the change.
        new: Arc<K>,
    },
    /// The object was deleted.
    Deleted(Arc<K>),
    /// No change: a periodic resync passes all objects again.
    Resync(Arc<K>),
}

impl<K> ObjectChange<K> {
    /// The current object, or the last state of a deleted one.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added(object)
            | Self::Deleted(object)
            | Self::Resync(object)
            | Self::Modified { new: object, .. } => object,
        }
    }
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl ObjectKey {
    pub(super) fn of<K: CacheableResource>(object: &K) -> Self {
        Self {
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }
}

struct ObjectIndex<K> {
    values: IndexFunction<K>,
    keys: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl<K> ObjectIndex<K> {
    fn add(&mut self, key: &ObjectKey, object: &K) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &ObjectKey, object: &K) {
        for value in (self.values)(object) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}

/// All objects of a kind, with indexes.
pub(super) struct Indexer<K> {
    all: BTreeMap<ObjectKey, Arc<K>>,
    indexes: BTreeMap<&'static str, ObjectIndex<K>>,
}

impl<K: CacheableResource> Indexer<K> {
    pub(super) fn new(indexes: &[(&'static str, IndexFunction<K>)]) -> Self {
        let index = |(name, values): &(&'static str, IndexFunction<K>)| {
            (
                *name,
                ObjectIndex {
                    values: values.clone(),
                    keys: BTreeMap::new(),
                },
            )
        };
        Self {
            all: BTreeMap::new(),
            indexes: indexes.iter().map(index).collect(),
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.all.get(key).cloned()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.all.values()
    }

    /// The objects with a value under an index; `None` if there is no such index.
    pub(super) fn by_index(&self, index: &str, value: &str) -> Option<Vec<Arc<K>>> {
        let keys = self.indexes.get(index)?.keys.get(value);
        Some(
            keys.into_iter()
                .flatten()
                .filter_map(|key| self.get(key))
                .collect(),
        )
    }

    /// Adds or replaces an object. Returns `None` if its UID and resourceVersion are unchanged.
    pub(super) fn apply(&mut self, object: K) -> Option<ObjectChange<K>> {
        let key = ObjectKey::of(&object);
        let new = Arc::new(object);
        let old = self.all.insert(key.clone(), new.clone());
        for index in self.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            index.add(&key, &new);
        }
        match old {
            Some(old)
                if old.uid() == new.uid() && old.resource_version() == new.resource_version() =>
            {
                None
            }
            Some(old) => Some(ObjectChange::Modified { old, new }),
            None => Some(ObjectChange::Added(new)),
        }
    }

    pub(super) fn delete(&mut self, key: &ObjectKey) -> Option<ObjectChange<K>> {
        let old = self.all.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(ObjectChange::Deleted(old))
    }

    /// Replaces all objects by a complete list, and returns the changes.
    pub(super) fn replace(&mut self, list: BTreeMap<ObjectKey, K>) -> Vec<ObjectChange<K>> {
        let deleted: Vec<ObjectKey> = self
            .all
            .keys()
            .filter(|key| !list.contains_key(*key))
            .cloned()
            .collect();
        let mut changes: Vec<ObjectChange<K>> =
            deleted.iter().filter_map(|key| self.delete(key)).collect();
        changes.extend(list.into_values().filter_map(|object| self.apply(object)));
        changes
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u32, team: &str) -> ConfigMap {
        serde_json::from_value(
            json!({ "metadata": { "namespace": "web", "name": name, "uid": name,
            "resourceVersion": version.to_string() }, "data": { "team": team } }),
        )
        .unwrap()
    }

    fn indexer() -> Indexer<ConfigMap> {
        let values: IndexFunction<ConfigMap> = Arc::new(|map| {
            map.data
                .iter()
                .filter_map(|data| data.get("team").cloned())
                .collect()
        });
        Indexer::new(&[("team", values)])
    }

    fn names(found: &[Arc<ConfigMap>]) -> Vec<String> {
        found.iter().map(|object| object.name_any()).collect()
    }

    fn described(changes: &[ObjectChange<ConfigMap>]) -> Vec<String> {
        let describe = |change: &ObjectChange<ConfigMap>| {
            let kind = match change {
                ObjectChange::Added(_) => "added",
                ObjectChange::Modified { .. } => "modified",
                ObjectChange::Deleted(_) => "deleted",
                ObjectChange::Resync(_) => "resync",
            };
            format!("{kind} {}", change.object().name_any())
        };
        changes.iter().map(describe).collect()
    }

    #[test]
    fn a_complete_list_returns_only_the_differences() {
        let mut indexer = indexer();
        let list = |maps: Vec<ConfigMap>| {
            maps.into_iter()
                .map(|map| (ObjectKey::of(&map), map))
                .collect()
        };
        let first = indexer.replace(list(vec![
            object("a", 1, "red"),
            object("b", 1, "red"),
            object("c", 1, "blue"),
        ]));
        assert_eq!(described(&first), ["added a", "added b", "added c"]);
        let second = indexer.replace(list(vec![
            object("a", 1, "red"),
            object("c", 2, "red"),
            object("d", 3, "red"),
        ]));
        assert_eq!(described(&second), ["deleted b", "modified c", "added d"]);
        assert_eq!(
            names(&indexer.by_index("team", "red").unwrap()),
            ["a", "c", "d"]
        );
        assert!(indexer.by_index("team", "blue").unwrap().is_empty());
        assert!(indexer.by_index("colour", "red").is_none());
    }

    proptest! {
        #[test]
        fn an_index_finds_the_same_objects_as_a_scan(
            steps in prop::collection::vec((0_u8..6, prop::option::of(0_u8..3)), 0..60),
        ) {
            let mut indexer = indexer();
            for (version, (name, team)) in steps.into_iter().enumerate() {
                let version = u32::try_from(version).unwrap();
                let map = object(&format!("n{name}"), version, &format!("t{}", team.unwrap_or(0)));
                match team {
                    Some(_) => drop(indexer.apply(map)),
                    None => drop(indexer.delete(&ObjectKey::of(&map))),
                }
            }
            for team in ["t0", "t1", "t2"] {
                let searched = indexer.all().filter(|map| map.data.as_ref().unwrap()["team"] == team);
                let searched: Vec<String> = searched.map(|map| map.name_any()).collect();
                prop_assert_eq!(names(&indexer.by_index("team", team).unwrap()), searched);
            }
        }
    }
}
