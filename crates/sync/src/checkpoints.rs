//! Tracks the checkpoints of one store: from which version each unit can resume, as stored and as
//! it is now.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, Gvk, Resource, Scope, Unit},
    planted::{Bug, planted},
};
use fleetdex_store::{Checkpoint, Checkpoints, IndexRevision, KindOfUnit};
use parking_lot::Mutex;

use super::progress::{Progress, StreamPosition};

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

/// The resources that checkpoints name. A kind whose list was in progress has no checkpoint.
pub fn resources(checkpoints: &Checkpoints) -> BTreeSet<Resource> {
    let resource = |(key, checkpoint): (&String, &Checkpoint)| {
        let KindOfUnit { kind, namespaced } = checkpoint.kind.as_ref()?;
        let unit = key
            .split_once('@')
            .map_or(key.as_str(), |(unit, _namespace)| unit);
        let (api_version, plural) = unit.rsplit_once('/')?;
        Some(Resource {
            gvk: Gvk::from_api_version(api_version, kind),
            plural: plural.into(),
            namespaced: *namespaced,
        })
    };
    checkpoints.units.iter().filter_map(resource).collect()
}

/// The checkpoint of a unit.
enum TrackedUnit {
    /// As it was stored when the process started.
    Stored(Checkpoint),
    /// As the progress of the running unit is at the time of the call.
    Running {
        plan: String,
        kind: KindOfUnit,
        progress: Arc<Progress>,
    },
}

impl TrackedUnit {
    fn checkpoint(&self) -> Option<Checkpoint> {
        match self {
            Self::Stored(checkpoint) => Some(checkpoint.clone()),
            Self::Running {
                plan,
                kind,
                progress,
            } => {
                // Objects that a list could not identify are counted by the next list, and only if
                // the unit does not resume.
                let StreamPosition {
                    version,
                    objects,
                    selected,
                } = progress
                    .acknowledged()
                    .filter(|_| progress.skipped() == 0)?;
                Some(Checkpoint {
                    plan: plan.clone(),
                    version,
                    objects,
                    selected,
                    kind: Some(kind.clone()),
                })
            }
        }
    }
}

/// The checkpoints of one cluster.
struct TrackedCluster {
    revision: u64,
    index: Arc<str>,
    units: BTreeMap<UnitKey, TrackedUnit>,
    /// What the store holds.
    saved: Option<Checkpoints>,
}

impl TrackedCluster {
    fn checkpoints(&self, cluster: &ClusterName) -> Checkpoints {
        let units = self
            .units
            .iter()
            .filter_map(|(key, entry)| Some((key.0.clone(), entry.checkpoint()?)));
        Checkpoints {
            cluster: cluster.clone(),
            revision: self.revision,
            index: Arc::clone(&self.index),
            units: units.collect(),
            at: None,
        }
    }
}

/// The checkpoints of all clusters of a store.
#[derive(Default)]
pub struct CheckpointTracker(Mutex<BTreeMap<ClusterName, TrackedCluster>>);

impl CheckpointTracker {
    /// Starts with an index revision that is opened. `stored`: the checkpoints of the cluster in
    /// the store.
    pub fn open(&self, revision: &IndexRevision, stored: Option<Checkpoints>) {
        let mut clusters = self.0.lock();
        if clusters
            .get(&revision.cluster)
            .is_some_and(|tracked| tracked.index == revision.id)
        {
            return;
        }
        let is_of_this = |stored: &&Checkpoints| {
            stored.index == revision.id
                || planted(Bug::TrustOtherCheckpoints)
                || revision.replaces.is_some() && planted(Bug::MoveWithoutList)
        };
        let of_this = stored
            .iter()
            .filter(is_of_this)
            .flat_map(|stored| &stored.units);
        let units = of_this
            .map(|(key, checkpoint)| {
                (
                    UnitKey(key.clone()),
                    TrackedUnit::Stored(checkpoint.clone()),
                )
            })
            .collect();
        // The time of writing is not compared.
        let saved = stored.map(|stored| Checkpoints { at: None, ..stored });
        let tracked = TrackedCluster {
            revision: revision.number,
            index: Arc::clone(&revision.id),
            units,
            saved,
        };
        clusters.insert(revision.cluster.clone(), tracked);
    }

    /// The position that a unit can resume from in an index revision, if its plan is unchanged.
    pub fn resume(
        &self,
        revision: &IndexRevision,
        key: &UnitKey,
        plan: &str,
    ) -> Option<StreamPosition> {
        let checkpoint = self
            .checkpoint_of(revision, key)
            .filter(|checkpoint| checkpoint.plan == plan)?;
        Some(StreamPosition {
            version: checkpoint.version,
            objects: checkpoint.objects,
            selected: checkpoint.selected,
        })
    }

    /// The plan of the checkpoint of a unit.
    pub fn plan_of(&self, revision: &IndexRevision, key: &UnitKey) -> Option<String> {
        let checkpoint = self.checkpoint_of(revision, key)?;
        Some(checkpoint.plan)
    }

    fn checkpoint_of(&self, revision: &IndexRevision, key: &UnitKey) -> Option<Checkpoint> {
        let clusters = self.0.lock();
        let tracked = clusters
            .get(&revision.cluster)
            .filter(|tracked| tracked.index == revision.id)?;
        tracked.units.get(key)?.checkpoint()
    }

    /// Takes the checkpoint of a unit from its progress from now on.
    pub fn track(
        &self,
        revision: &IndexRevision,
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
        if let Some(tracked) = self
            .0
            .lock()
            .get_mut(&revision.cluster)
            .filter(|tracked| tracked.index == revision.id)
        {
            tracked.units.insert(
                UnitKey::from(unit),
                TrackedUnit::Running {
                    plan,
                    kind,
                    progress,
                },
            );
        }
    }

    /// Forgets the units of a cluster that are not in `keys`: their documents are about to be
    /// deleted.
    pub fn retain(&self, cluster: &ClusterName, keys: &BTreeSet<UnitKey>) {
        if let Some(tracked) = self.0.lock().get_mut(cluster)
            && !planted(Bug::KeepSweptCheckpoints)
        {
            tracked.units.retain(|key, _| keys.contains(key));
        }
    }

    /// Whether the stored checkpoints of a cluster were read.
    pub fn is_open(&self, cluster: &ClusterName) -> bool {
        self.0.lock().contains_key(cluster)
    }

    /// Forgets a cluster that has no documents any more.
    pub fn remove_cluster(&self, cluster: &ClusterName) {
        self.0.lock().remove(cluster);
    }

    /// The checkpoints that are not saved yet.
    pub fn unsaved(&self) -> Vec<Checkpoints> {
        let clusters = self.0.lock();
        let current = clusters
            .iter()
            .map(|(cluster, tracked)| (tracked, tracked.checkpoints(cluster)));
        current
            .filter(|(tracked, checkpoints)| tracked.saved.as_ref() != Some(checkpoints))
            .map(|(_, checkpoints)| checkpoints)
            .collect()
    }

    /// Notes that checkpoints were saved.
    pub fn saved(&self, checkpoints: Vec<Checkpoints>) {
        let mut clusters = self.0.lock();
        for saved in checkpoints {
            if let Some(tracked) = clusters.get_mut(&saved.cluster) {
                tracked.saved = Some(saved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::IndexPrefix;

    use super::*;

    fn revision(number: u64, id: &str) -> IndexRevision {
        let cluster: ClusterName = "member1".parse().unwrap();
        let prefix = IndexPrefix::default();
        IndexRevision {
            number,
            id: id.into(),
            index: prefix.revision(&cluster, number),
            target: prefix.write_alias(&cluster, number),
            live: true,
            shown: BTreeSet::new(),
            replaces: None,
            cluster,
        }
    }

    fn position(version: &str) -> StreamPosition {
        StreamPosition {
            version: version.parse().unwrap(),
            objects: 3,
            selected: Arc::default(),
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
            selected: Arc::default(),
            kind,
        };
        Checkpoints {
            cluster: "member1".parse().unwrap(),
            revision: 1,
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
    fn checkpoints_name_the_stored_resources() {
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
        let names: Vec<String> = found
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
            names,
            ["v1 nodes false", "v1 pods true", "apps/v1 deployments true"]
        );
    }

    #[test]
    fn a_checkpoint_is_valid_for_its_index_and_plan_only() {
        let key = UnitKey("v1/pods".to_owned());
        let tracker = CheckpointTracker::default();
        tracker.open(&revision(1, "a"), Some(stored("a")));
        assert_eq!(
            tracker.resume(&revision(1, "a"), &key, "all"),
            Some(position("7"))
        );
        assert_eq!(tracker.resume(&revision(1, "a"), &key, "some"), None);
        assert_eq!(tracker.resume(&revision(1, "b"), &key, "all"), None);
        tracker.open(&revision(1, "b"), Some(stored("a")));
        assert_eq!(
            tracker.resume(&revision(1, "b"), &key, "all"),
            None,
            "the index was created again under its old name"
        );
    }

    #[test]
    fn a_changed_checkpoint_is_saved_once() {
        let key = UnitKey("v1/pods".to_owned());
        let tracker = CheckpointTracker::default();
        let current = revision(1, "a");
        tracker.open(&current, Some(stored("a")));
        assert_eq!(tracker.unsaved(), Vec::new());
        let progress = Progress::new(current.cluster.clone(), Arc::default());
        progress.resume_from(position("7"));
        tracker.track(&current, &pods(), "all".to_owned(), Arc::clone(&progress));
        assert_eq!(tracker.unsaved(), Vec::new());
        progress.reached("9".parse().unwrap());
        let unsaved = tracker.unsaved();
        assert_eq!(unsaved[0].units["v1/pods"].version.get(), 9);
        tracker.saved(unsaved);
        assert_eq!(tracker.unsaved(), Vec::new());
        progress.list_started();
        assert!(
            tracker.unsaved()[0].units.is_empty(),
            "there is no checkpoint while a list is in progress"
        );
        tracker.retain(&current.cluster, &BTreeSet::new());
        assert_eq!(tracker.resume(&current, &key, "all"), None);
    }
}
