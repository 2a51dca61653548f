//! The objects of one kind of one member, with indexes: what reads are answered from. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use kube::ResourceExt;

use super::kind::Kind;

/// What an object is found by under an index: none, one or several values.
pub(super) type Values<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// What happened to an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It is new, or was there when the watch began.
    Added(Arc<K>),
    /// It is another than before.
    Modified {
        /// As it was.
        old: Arc<K>,
        /// As it is.
        new: Arc<K>,
    },
    /// It is gone.
    Deleted(Arc<K>),
    /// Nothing; all objects are told of again now and then.
    Resync(Arc<K>),
}

impl<K> Change<K> {
    /// The object as it is, or as it last was.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added(object)
            | Self::Deleted(object)
            | Self::Resync(object)
            | Self::Modified { new: object, .. } => object,
        }
    }
}

/// Namespace, if there is one, and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of<K: Kind>(object: &K) -> Self {
        Self {
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }
}

struct Index<K> {
    values: Values<K>,
    keys: BTreeMap<String, BTreeSet<Key>>,
}

impl<K> Index<K> {
    fn add(&mut self, key: &Key, object: &K) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, object: &K) {
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

/// All objects of a kind.
pub(super) struct Objects<K> {
    all: BTreeMap<Key, Arc<K>>,
    indexes: BTreeMap<&'static str, Index<K>>,
}

impl<K: Kind> Objects<K> {
    pub(super) fn new(indexes: &[(&'static str, Values<K>)]) -> Self {
        let index = |(name, values): &(&'static str, Values<K>)| {
            (
                *name,
                Index {
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

    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
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

    /// Puts an object in place. `None` if it is the same as before, by its resourceVersion.
    pub(super) fn apply(&mut self, object: K) -> Option<Change<K>> {
        let key = Key::of(&object);
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
            Some(old) => Some(Change::Modified { old, new }),
            None => Some(Change::Added(new)),
        }
    }

    pub(super) fn delete(&mut self, key: &Key) -> Option<Change<K>> {
        let old = self.all.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(Change::Deleted(old))
    }

    /// Makes a complete list all that there is, and tells what is different.
    pub(super) fn replace(&mut self, list: BTreeMap<Key, K>) -> Vec<Change<K>> {
        let gone: Vec<Key> = self
            .all
            .keys()
            .filter(|key| !list.contains_key(*key))
            .cloned()
            .collect();
        let mut changes: Vec<Change<K>> = gone.iter().filter_map(|key| self.delete(key)).collect();
        changes.extend(list.into_values().filter_map(|object| self.apply(object)));
        changes
    }
}

impl<K> fmt::Debug for Objects<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Objects")
            .field("count", &self.all.len())
            .finish_non_exhaustive()
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

    fn objects() -> Objects<ConfigMap> {
        let values: Values<ConfigMap> = Arc::new(|map| {
            map.data
                .iter()
                .filter_map(|data| data.get("team").cloned())
                .collect()
        });
        Objects::new(&[("team", values)])
    }

    fn names(found: &[Arc<ConfigMap>]) -> Vec<String> {
        found.iter().map(|object| object.name_any()).collect()
    }

    fn told(changes: &[Change<ConfigMap>]) -> Vec<String> {
        let tell = |change: &Change<ConfigMap>| {
            let kind = match change {
                Change::Added(_) => "added",
                Change::Modified { .. } => "modified",
                Change::Deleted(_) => "deleted",
                Change::Resync(_) => "resync",
            };
            format!("{kind} {}", change.object().name_any())
        };
        changes.iter().map(tell).collect()
    }

    #[test]
    fn a_complete_list_tells_only_what_is_different() {
        let mut objects = objects();
        let list =
            |maps: Vec<ConfigMap>| maps.into_iter().map(|map| (Key::of(&map), map)).collect();
        let first = objects.replace(list(vec![
            object("a", 1, "red"),
            object("b", 1, "red"),
            object("c", 1, "blue"),
        ]));
        assert_eq!(told(&first), ["added a", "added b", "added c"]);
        let second = objects.replace(list(vec![
            object("a", 1, "red"),
            object("c", 2, "red"),
            object("d", 3, "red"),
        ]));
        assert_eq!(told(&second), ["deleted b", "modified c", "added d"]);
        assert_eq!(
            names(&objects.by_index("team", "red").unwrap()),
            ["a", "c", "d"]
        );
        assert!(objects.by_index("team", "blue").unwrap().is_empty());
        assert!(objects.by_index("colour", "red").is_none());
    }

    proptest! {
        #[test]
        fn an_index_finds_what_a_search_finds(
            steps in prop::collection::vec((0_u8..6, prop::option::of(0_u8..3)), 0..60),
        ) {
            let mut objects = objects();
            for (version, (name, team)) in steps.into_iter().enumerate() {
                let version = u32::try_from(version).unwrap();
                let map = object(&format!("n{name}"), version, &format!("t{}", team.unwrap_or(0)));
                match team {
                    Some(_) => drop(objects.apply(map)),
                    None => drop(objects.delete(&Key::of(&map))),
                }
            }
            for team in ["t0", "t1", "t2"] {
                let searched = objects.all().filter(|map| map.data.as_ref().unwrap()["team"] == team);
                let searched: Vec<String> = searched.map(|map| map.name_any()).collect();
                prop_assert_eq!(names(&objects.by_index("team", team).unwrap()), searched);
            }
        }
    }
}
