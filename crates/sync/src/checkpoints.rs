//! The checkpoints of one store: from which version each unit can go on, as the store remembers it and as it is now.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, Gvk, Resource, Scope, Unit},
    planted::{Bug, planted},
};
use fleetdex_store::{Checkpoint, Checkpoints, Generation, KindOfUnit};
use parking_lot::{Mutex, MutexGuard};

use super::progress::{Mark, Progress};

/// Names a unit within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitKey(String);

impl From<&Unit> for UnitKey {
    fn from(unit: &Unit) -> Self {
        let api_version = unit.resource.gvk.api_version();
        let plural = &unit.resource.plural;
        Self(match &unit.scope {
            Scope::All => format!("{api_version}/{plural}"),
            Scope::Namespace(namespace) => format!("{api_version}/{plural}@{namespace}"),
        })
    }
}

/// The resources that checkpoints are of, as far as they tell. A kind whose list was under way has none.
pub fn resources(checkpoints: &Checkpoints) -> BTreeSet<Resource> {
    let resource = |(key, checkpoint): (&String, &Checkpoint)| {
        let KindOfUnit { kind, namespaced } = checkpoint.kind.as_ref()?;
        let unit = key
            .split_once('@')
            .map_or(key.as_str(), |(unit, _namespace)| unit);
        let (api_version, plural) = unit.rsplit_once('/')?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Resource {
            gvk: Gvk::new(group, version, kind),
            plural: plural.into(),
            namespaced: *namespaced,
        })
    };
    checkpoints.units.iter().filter_map(resource).collect()
}

/// Where a unit is.
enum Entry {
    /// As it was when the process started.
    Remembered(Checkpoint),
    /// As its progress says, now and whenever the book is read.
    Followed {
        plan: String,
        kind: KindOfUnit,
        progress: Arc<Progress>,
    },
}

impl Entry {
    fn checkpoint(&self) -> Option<Checkpoint> {
        match self {
            Self::Remembered(checkpoint) => Some(checkpoint.clone()),
            Self::Followed {
                plan,
                kind,
                progress,
            } => {
                // What a list could not read is counted by the next list, and only while its version is not gone on from.
                let Mark { version, objects } = progress
                    .acknowledged()
                    .filter(|_| progress.skipped() == 0)?;
                Some(Checkpoint {
                    plan: plan.clone(),
                    version,
                    objects,
                    kind: Some(kind.clone()),
                })
            }
        }
    }
}

/// One cluster's checkpoints.
struct Page {
    generation: u64,
    index: Arc<str>,
    units: BTreeMap<UnitKey, Entry>,
    /// What the store has.
    saved: Option<Checkpoints>,
}

impl Page {
    fn checkpoints(&self, cluster: &ClusterName) -> Checkpoints {
        let units = self
            .units
            .iter()
            .filter_map(|(key, entry)| Some((key.0.clone(), entry.checkpoint()?)));
        Checkpoints {
            cluster: cluster.clone(),
            generation: self.generation,
            index: Arc::clone(&self.index),
            units: units.collect(),
            at: None,
        }
    }
}

/// The checkpoints of all clusters of a store.
#[derive(Default)]
pub struct Book(Mutex<BTreeMap<ClusterName, Page>>);

impl Book {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Page>> {
        self.0.lock()
    }

    /// A generation is written to from now on; `stored` is what the store remembers of the cluster.
    pub fn open(&self, generation: &Generation, stored: Option<Checkpoints>) {
        let mut pages = self.lock();
        if pages
            .get(&generation.cluster)
            .is_some_and(|page| page.index == generation.id)
        {
            return;
        }
        let is_of_this = |stored: &&Checkpoints| {
            stored.index == generation.id || planted(Bug::TrustOtherCheckpoints)
        };
        let of_this = stored
            .iter()
            .filter(is_of_this)
            .flat_map(|stored| &stored.units);
        let units = of_this
            .map(|(key, checkpoint)| (UnitKey(key.clone()), Entry::Remembered(checkpoint.clone())))
            .collect();
        // When they were written does not count when they are compared.
        let saved = stored.map(|stored| Checkpoints { at: None, ..stored });
        let page = Page {
            generation: generation.number,
            index: Arc::clone(&generation.id),
            units,
            saved,
        };
        pages.insert(generation.cluster.clone(), page);
    }

    /// From where a unit can go on in a generation, if it is planned as it was.
    pub fn resume(&self, generation: &Generation, key: &UnitKey, plan: &str) -> Option<Mark> {
        let pages = self.lock();
        let page = pages
            .get(&generation.cluster)
            .filter(|page| page.index == generation.id)?;
        let checkpoint = page
            .units
            .get(key)?
            .checkpoint()
            .filter(|checkpoint| checkpoint.plan == plan)?;
        Some(Mark {
            version: checkpoint.version,
            objects: checkpoint.objects,
        })
    }

    /// A unit's checkpoint is what its progress says from now on.
    pub fn follow(
        &self,
        generation: &Generation,
        unit: &Unit,
        plan: String,
        progress: Arc<Progress>,
    ) {
        let Resource {
            gvk, namespaced, ..
        } = &unit.resource;
        let kind = KindOfUnit {
            kind: Arc::clone(&gvk.kind),
            namespaced: *namespaced,
        };
        if let Some(page) = self
            .lock()
            .get_mut(&generation.cluster)
            .filter(|page| page.index == generation.id)
        {
            page.units.insert(
                UnitKey::from(unit),
                Entry::Followed {
                    plan,
                    kind,
                    progress,
                },
            );
        }
    }

    /// Forgets the units of a cluster that are not among these: their documents are about to be deleted.
    pub fn retain(&self, cluster: &ClusterName, keys: &BTreeSet<UnitKey>) {
        if let Some(page) = self.lock().get_mut(cluster)
            && !planted(Bug::KeepSweptCheckpoints)
        {
            page.units.retain(|key, _| keys.contains(key));
        }
    }

    /// Whether the store's checkpoints of a cluster have been read.
    pub fn is_open(&self, cluster: &ClusterName) -> bool {
        self.lock().contains_key(cluster)
    }

    /// Forgets a cluster that has no documents any more.
    pub fn drop_cluster(&self, cluster: &ClusterName) {
        self.lock().remove(cluster);
    }

    /// What the store does not have yet.
    pub fn unsaved(&self) -> Vec<Checkpoints> {
        let pages = self.lock();
        let current = pages
            .iter()
            .map(|(cluster, page)| (page, page.checkpoints(cluster)));
        current
            .filter(|(page, checkpoints)| page.saved.as_ref() != Some(checkpoints))
            .map(|(_, checkpoints)| checkpoints)
            .collect()
    }

    /// The store has these now.
    pub fn saved(&self, checkpoints: Vec<Checkpoints>) {
        let mut pages = self.lock();
        for saved in checkpoints {
            if let Some(page) = pages.get_mut(&saved.cluster) {
                page.saved = Some(saved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::IndexPrefix;

    use super::*;

    fn generation(number: u64, id: &str) -> Generation {
        let cluster: ClusterName = "member1".parse().unwrap();
        let prefix = IndexPrefix::default();
        Generation {
            number,
            id: id.into(),
            index: prefix.generation(&cluster, number),
            target: prefix.write_alias(&cluster, number),
            live: true,
            shown: BTreeSet::new(),
            replaces: None,
            cluster,
        }
    }

    fn mark(version: &str) -> Mark {
        Mark {
            version: version.parse().unwrap(),
            objects: 3,
        }
    }

    fn stored(index: &str) -> Checkpoints {
        let kind = Some(KindOfUnit {
            kind: "Pod".into(),
            namespaced: true,
        });
        let checkpoint = Checkpoint {
            plan: "all".to_owned(),
            version: "7".parse().unwrap(),
            objects: 3,
            kind,
        };
        Checkpoints {
            cluster: "member1".parse().unwrap(),
            generation: 1,
            index: index.into(),
            units: BTreeMap::from([("v1/pods".to_owned(), checkpoint)]),
            at: None,
        }
    }

    fn pods() -> Unit {
        let resource = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        Unit {
            cluster: "member1".parse().unwrap(),
            resource,
            scope: Scope::All,
        }
    }

    #[test]
    fn checkpoints_tell_which_resources_are_stored() {
        let checkpoint = |kind: &str, namespaced| Checkpoint {
            kind: Some(KindOfUnit {
                kind: kind.into(),
                namespaced,
            }),
            ..stored("a").units["v1/pods"].clone()
        };
        let former = Checkpoint {
            kind: None,
            ..checkpoint("Secret", true)
        };
        let units = [
            ("v1/pods@web", checkpoint("Pod", true)),
            ("v1/pods@db", checkpoint("Pod", true)),
            ("v1/nodes", checkpoint("Node", false)),
            ("apps/v1/deployments", checkpoint("Deployment", true)),
            ("v1/secrets", former),
        ];
        let units = units
            .into_iter()
            .map(|(key, checkpoint)| (key.to_owned(), checkpoint))
            .collect();
        let found = resources(&Checkpoints {
            units,
            ..stored("a")
        });
        let told: Vec<String> = found
            .iter()
            .map(|found| {
                format!(
                    "{} {} {}",
                    found.gvk.api_version(),
                    found.plural,
                    found.namespaced
                )
            })
            .collect();
        assert_eq!(
            told,
            ["v1 nodes false", "v1 pods true", "apps/v1 deployments true"]
        );
    }

    #[test]
    fn a_checkpoint_holds_for_the_index_and_the_plan_that_it_was_made_for() {
        let key = UnitKey("v1/pods".to_owned());
        let book = Book::default();
        book.open(&generation(1, "a"), Some(stored("a")));
        assert_eq!(
            book.resume(&generation(1, "a"), &key, "all"),
            Some(mark("7"))
        );
        assert_eq!(book.resume(&generation(1, "a"), &key, "some"), None);
        assert_eq!(book.resume(&generation(1, "b"), &key, "all"), None);
        book.open(&generation(1, "b"), Some(stored("a")));
        assert_eq!(
            book.resume(&generation(1, "b"), &key, "all"),
            None,
            "the index was made anew under its old name"
        );
    }

    #[test]
    fn what_changed_is_saved_once() {
        let key = UnitKey("v1/pods".to_owned());
        let book = Book::default();
        let current = generation(1, "a");
        book.open(&current, Some(stored("a")));
        assert_eq!(book.unsaved(), Vec::new());
        let progress = Progress::new(current.cluster.clone(), Arc::default());
        progress.resumes(mark("7"));
        book.follow(&current, &pods(), "all".to_owned(), Arc::clone(&progress));
        assert_eq!(book.unsaved(), Vec::new());
        progress.reached("9".parse().unwrap());
        let unsaved = book.unsaved();
        assert_eq!(unsaved[0].units["v1/pods"].version.get(), 9);
        book.saved(unsaved);
        assert_eq!(book.unsaved(), Vec::new());
        progress.list_begins();
        assert!(
            book.unsaved()[0].units.is_empty(),
            "while a list is under way there is nothing to go on from"
        );
        book.retain(&current.cluster, &BTreeSet::new());
        assert_eq!(book.resume(&current, &key, "all"), None);
    }
}
