//! Which generations there are of each cluster, and which one queries are answered from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, IndexName, IndexPrefix},
    query::{Query, Relative, Relatives, ResourceName},
};

use super::{
    contents::Contents,
    order::{Chunk, Entry},
    table::Selected,
};
use crate::{
    Checkpoints, Generation,
    bulk::{Verdict, Write},
    changes::Change,
    codec::Walk,
    document::Document,
    draft::Draft,
    filter::Filter,
};

/// Whose documents a generation holds, and in what shape.
pub(super) struct Identity {
    /// UID of the cluster's namespace kube-system; absent: not known.
    pub(super) uid: Option<String>,
    pub(super) projection: Arc<str>,
}

struct Held {
    generation: Generation,
    identity: Identity,
    contents: Contents,
}

/// What a step has changed.
#[derive(Default)]
pub(super) struct Step {
    /// What queries see of it.
    pub(super) changes: Vec<Change>,
    /// Documents that are gone; to be dropped when nothing is locked any more.
    pub(super) removed: Vec<Contents>,
}

/// All generations, by the alias that they are written to.
#[derive(Default)]
pub(super) struct Generations {
    held: BTreeMap<IndexName, Held>,
    checkpoints: BTreeMap<ClusterName, Checkpoints>,
    /// How many have been made.
    made: u64,
}

impl Generations {
    pub(super) fn document_count(&self) -> usize {
        self.held.values().map(|held| held.contents.len()).sum()
    }

    pub(super) fn all(&self) -> Vec<Generation> {
        self.held
            .values()
            .map(|held| held.generation.clone())
            .collect()
    }

    /// Whether a generation is there, and live if it should be.
    pub(super) fn is_as(&self, wanted: &Generation) -> bool {
        self.get(wanted).is_some_and(|held| {
            held.generation.live || !wanted.live && held.generation.shown.is_superset(&wanted.shown)
        })
    }

    /// Whether queries see a change of a generation's documents.
    pub(super) fn shows(&self, target: &IndexName, change: &Change) -> bool {
        self.held
            .get(target)
            .is_some_and(|held| is_shown(&held.generation, change))
    }

    fn get(&self, generation: &Generation) -> Option<&Held> {
        self.held
            .get(&generation.target)
            .filter(|held| held.generation.id == generation.id)
    }

    fn of<'g>(&'g self, cluster: &'g ClusterName) -> impl Iterator<Item = &'g Held> {
        self.held
            .values()
            .filter(move |held| held.generation.cluster == *cluster)
    }

    /// The newest generation of a cluster if it fits, else a new one.
    pub(super) fn open(
        &mut self,
        cluster: &ClusterName,
        identity: Identity,
        above: u64,
    ) -> Generation {
        let newest = self.of(cluster).max_by_key(|held| held.generation.number);
        let newest = newest.map(|held| (held.generation.target.clone(), held.generation.number));
        if let Some((target, number)) = &newest {
            let replaces = self.read_beside(cluster, target);
            if *number > above
                && let Some(held) = self
                    .held
                    .get_mut(target)
                    .filter(|held| held.identity.fits(&identity))
            {
                held.identity.uid = held.identity.uid.take().or(identity.uid);
                return Generation {
                    replaces,
                    ..held.generation.clone()
                };
            }
        }
        let remembered = self
            .checkpoints
            .get(cluster)
            .map_or(0, |checkpoints| checkpoints.generation);
        let number = newest
            .map_or(0, |(_, number)| number)
            .max(above)
            .max(remembered)
            + 1;
        self.create(cluster, identity, number)
    }

    fn create(&mut self, cluster: &ClusterName, identity: Identity, number: u64) -> Generation {
        self.made += 1;
        let prefix = IndexPrefix::default();
        let generation = Generation {
            cluster: cluster.clone(),
            number,
            id: format!("memory-{}", self.made).into(),
            index: prefix.generation(cluster, number),
            target: prefix.write_alias(cluster, number),
            live: false,
            shown: BTreeSet::new(),
            replaces: None,
        };
        tracing::info!(%cluster, number, "created a generation in memory");
        let held = Held {
            generation: generation.clone(),
            identity,
            contents: Contents::default(),
        };
        self.held.insert(generation.target.clone(), held);
        Generation {
            replaces: self.read_beside(cluster, &generation.target),
            ..generation
        }
    }

    /// The generation of a cluster that queries are answered from, if it is not the one that is written to by this alias.
    fn read_beside(&self, cluster: &ClusterName, target: &IndexName) -> Option<Box<Generation>> {
        let mut others = self
            .of(cluster)
            .map(|held| &held.generation)
            .filter(|other| other.is_read() && other.target != *target);
        others.next().cloned().map(Box::new)
    }

    /// Lets queries be answered from a generation, and removes the cluster's earlier ones; nothing if it is gone.
    pub(super) fn activate(&mut self, generation: &Generation) -> Option<Step> {
        self.get(generation)?;
        let earlier: Vec<IndexName> = self
            .of(&generation.cluster)
            .filter(|held| held.generation.number < generation.number)
            .map(|held| held.generation.target.clone())
            .collect();
        let mut removed: Vec<Held> = earlier
            .iter()
            .filter_map(|target| self.held.remove(target))
            .collect();
        removed.retain(|held| !held.contents.is_empty());
        let held = self.held.get_mut(&generation.target)?;
        let was = held.generation.clone();
        held.generation.live = true;
        held.generation.shown.clear();
        let before = removed.iter().find(|held| held.generation.is_read());
        let mut changes = if was.live {
            Vec::new()
        } else {
            held.contents
                .changes_since(before.map(|held| &held.contents))
        };
        changes.retain(|change| !is_shown(&was, change));
        if let Some(before) = before.filter(|before| !before.generation.live) {
            changes = changes
                .into_iter()
                .filter_map(|change| seen_before(&before.generation, change))
                .collect();
        }
        tracing::info!(cluster = %generation.cluster, number = generation.number, documents = held.contents.len(), "queries are answered from this generation");
        Some(Step {
            changes,
            removed: removed.into_iter().map(|held| held.contents).collect(),
        })
    }

    /// Lets queries about some resources be answered from a generation; nothing if it is gone.
    pub(super) fn show(
        &mut self,
        generation: &Generation,
        resources: &BTreeSet<ResourceName>,
    ) -> Option<Step> {
        self.get(generation)?;
        let held = self.held.get_mut(&generation.target)?;
        let was = held.generation.clone();
        if was.live {
            return Some(Step::default());
        }
        held.generation.shown.extend(resources.iter().cloned());
        let mut changes = held.contents.changes_since(None);
        changes.retain(|change| is_shown(&held.generation, change) && !is_shown(&was, change));
        Some(Step {
            changes,
            removed: Vec::new(),
        })
    }

    /// Writes one document, or deletes it.
    pub(super) fn write(
        &mut self,
        write: &Write,
        draft: Option<Draft>,
    ) -> (Verdict, Option<Change>) {
        let Some(held) = self.held.get_mut(&write.index) else {
            return (
                Verdict::IndexMissing(format!("{} is not there", write.index)),
                None,
            );
        };
        match draft {
            Some(draft) => held.contents.index(&write.id, draft),
            None => held.contents.delete(&write.id, write.version),
        }
    }

    /// What a query finds, by cluster.
    pub(super) fn select(&self, query: &Query, filter: &Filter) -> Vec<Selected> {
        let is_asked =
            |cluster: &ClusterName| query.clusters.is_empty() || query.clusters.contains(cluster);
        let shows = |held: &&Held| {
            held.generation.shows(&query.resource) && is_asked(&held.generation.cluster)
        };
        let live = self.held.values().filter(shows);
        let select = |held: &Held| {
            let permitted = filter.in_cluster(&held.generation.cluster)?;
            Some(
                held.contents
                    .table(&query.resource)?
                    .select(&permitted, query.limit),
            )
        };
        live.filter_map(select).collect()
    }

    /// Objects of any kind, by names or owners.
    pub(super) fn relatives(&self, asked: &Relatives) -> BTreeSet<Relative> {
        let mut found = BTreeSet::new();
        let is_asked =
            |cluster: &ClusterName| asked.clusters.is_empty() || asked.clusters.contains(cluster);
        for held in self
            .held
            .values()
            .filter(|held| held.generation.is_read() && is_asked(&held.generation.cluster))
        {
            let cluster = &held.generation.cluster;
            for table in held.contents.tables() {
                for document in table.relatives(asked, cluster) {
                    if !held.generation.shows(&document.origin.resource) {
                        continue;
                    }
                    found.insert(Relative {
                        cluster: cluster.clone(),
                        namespace: document.namespace().to_owned(),
                        resource: document.origin.resource.clone(),
                        uid: document.uid().into_owned(),
                    });
                }
            }
        }
        found
    }

    /// Every document of a generation, as of now.
    pub(super) fn freeze(&self, generation: &Generation) -> Option<Vec<Arc<Chunk>>> {
        Some(self.get(generation)?.contents.freeze())
    }

    /// The next documents of a kind on a walk through all generations, `limit` at most; none at its end.
    pub(super) fn next_documents(
        &self,
        resource: &ResourceName,
        walk: &mut Walk,
        limit: usize,
    ) -> Vec<Arc<Document>> {
        let is_left =
            |target: &IndexName| walk.target.as_ref().is_none_or(|current| target >= current);
        let left: Vec<(&IndexName, &Held)> = self
            .held
            .iter()
            .filter(|(target, _)| is_left(target))
            .collect();
        for (target, held) in left {
            if walk.target.as_ref() != Some(target) {
                *walk = Walk {
                    target: Some(target.clone()),
                    position: 0,
                };
            }
            let Some(table) = held.contents.table(resource) else {
                continue;
            };
            let entries: Vec<Entry> = table.from(walk.position).take(limit).collect();
            if let Some(last) = entries.last() {
                walk.position = last.position.saturating_add(1);
                return entries.into_iter().map(|entry| entry.document).collect();
            }
        }
        Vec::new()
    }

    pub(super) fn checkpoints(&self, cluster: &ClusterName) -> Option<Checkpoints> {
        self.checkpoints.get(cluster).cloned()
    }

    pub(super) fn save_checkpoints(&mut self, checkpoints: &[Checkpoints]) {
        for of_cluster in checkpoints {
            self.checkpoints
                .insert(of_cluster.cluster.clone(), of_cluster.clone());
        }
    }

    pub(super) fn drop_generation(&mut self, generation: &Generation) -> Step {
        if self.get(generation).is_none() {
            return Step::default();
        }
        self.held
            .remove(&generation.target)
            .map(Held::end)
            .unwrap_or_default()
    }

    pub(super) fn drop_cluster(&mut self, cluster: &ClusterName) -> Step {
        self.checkpoints.remove(cluster);
        let targets: Vec<IndexName> = self
            .of(cluster)
            .map(|held| held.generation.target.clone())
            .collect();
        let mut step = Step::default();
        for held in targets.iter().filter_map(|target| self.held.remove(target)) {
            let ended = held.end();
            step.changes.extend(ended.changes);
            step.removed.extend(ended.removed);
        }
        step
    }
}

impl Held {
    fn end(self) -> Step {
        let mut changes = if self.generation.is_read() {
            Contents::default().changes_since(Some(&self.contents))
        } else {
            Vec::new()
        };
        changes.retain(|change| is_shown(&self.generation, change));
        Step {
            changes,
            removed: vec![self.contents],
        }
    }
}

/// Whether queries that are answered from a generation see a change of its documents.
fn is_shown(generation: &Generation, change: &Change) -> bool {
    change
        .document()
        .is_some_and(|document| generation.shows(&document.origin.resource))
}

/// A change as queries see it that were answered from a part of a generation; nothing if they see none.
fn seen_before(generation: &Generation, change: Change) -> Option<Change> {
    let Change { before, after } = change;
    let before = before.filter(|document| generation.shows(&document.origin.resource));
    (before.is_some() || after.is_some()).then_some(Change { before, after })
}

impl Identity {
    /// Whether documents of this one belong where those of another are. A UID that is not known on either side is no difference.
    fn fits(&self, other: &Self) -> bool {
        let same_cluster = self.uid.is_none() || other.uid.is_none() || self.uid == other.uid;
        same_cluster && self.projection == other.projection
    }
}
