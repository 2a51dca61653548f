//! The index revisions of each cluster, and which one answers queries.

mod reads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, IndexName, IndexPrefix},
    query::ResourceName,
};

use super::{contents::Contents, order::Chunk};
use crate::{
    Checkpoints, CompleteResources, IndexRevision,
    bulk::{Verdict, Write},
    changes::Change,
    compressed_document::CompressedDocument,
};

/// Whose documents a revision holds, and in what shape.
pub(super) struct RevisionIdentity {
    /// UID of the cluster's namespace kube-system; absent: not known.
    pub(super) uid: Option<String>,
    pub(super) projection: Arc<str>,
}

struct StoredRevision {
    revision: IndexRevision,
    identity: RevisionIdentity,
    contents: Contents,
}

/// The result of a change of revisions.
#[derive(Default)]
pub(super) struct RevisionChange {
    /// The changes that queries see.
    pub(super) changes: Vec<Change>,
    /// Removed documents, to be dropped when nothing is locked any more.
    pub(super) removed: Vec<Contents>,
}

/// All revisions, by their write alias.
#[derive(Default)]
pub(super) struct StoredRevisions {
    by_target: BTreeMap<IndexName, StoredRevision>,
    pub(super) checkpoints: BTreeMap<ClusterName, Checkpoints>,
    /// How many have been created.
    created: u64,
}

impl StoredRevisions {
    pub(super) fn document_count(&self) -> usize {
        self.by_target
            .values()
            .map(|stored| stored.contents.len())
            .sum()
    }

    pub(super) fn all(&self) -> Vec<IndexRevision> {
        self.by_target
            .values()
            .map(|stored| stored.revision.clone())
            .collect()
    }

    /// Whether a revision exists, and is live if it should be.
    pub(super) fn is_intact(&self, expected: &IndexRevision) -> bool {
        self.get(expected).is_some_and(|stored| {
            stored.revision.live
                || !expected.live && stored.revision.shown.is_superset(&expected.shown)
        })
    }

    /// Whether queries see a change of a revision's documents.
    pub(super) fn shows(&self, target: &IndexName, change: &Change) -> bool {
        self.by_target
            .get(target)
            .is_some_and(|stored| is_shown(&stored.revision, change))
    }

    fn get(&self, revision: &IndexRevision) -> Option<&StoredRevision> {
        self.by_target
            .get(&revision.target)
            .filter(|stored| stored.revision.id == revision.id)
    }

    fn of<'g>(&'g self, cluster: &'g ClusterName) -> impl Iterator<Item = &'g StoredRevision> {
        self.by_target
            .values()
            .filter(move |stored| stored.revision.cluster == *cluster)
    }

    /// Returns the newest revision of a cluster if it fits, or else creates one.
    pub(super) fn open(
        &mut self,
        cluster: &ClusterName,
        identity: RevisionIdentity,
        above: u64,
    ) -> IndexRevision {
        let newest = self.of(cluster).max_by_key(|stored| stored.revision.number);
        let newest = newest.map(|stored| (stored.revision.target.clone(), stored.revision.number));
        if let Some((target, number)) = &newest {
            let replaces = self.read_beside(cluster, target);
            if *number > above
                && let Some(stored) = self
                    .by_target
                    .get_mut(target)
                    .filter(|stored| stored.identity.fits(&identity))
            {
                stored.identity.uid = stored.identity.uid.take().or(identity.uid);
                return IndexRevision {
                    replaces,
                    ..stored.revision.clone()
                };
            }
        }
        let remembered = self
            .checkpoints
            .get(cluster)
            .map_or(0, |checkpoints| checkpoints.revision);
        let number = newest
            .map_or(0, |(_, number)| number)
            .max(above)
            .max(remembered)
            + 1;
        self.create(cluster, identity, number)
    }

    fn create(
        &mut self,
        cluster: &ClusterName,
        identity: RevisionIdentity,
        number: u64,
    ) -> IndexRevision {
        self.created += 1;
        let prefix = IndexPrefix::default();
        let revision = IndexRevision {
            cluster: cluster.clone(),
            number,
            id: format!("memory-{}", self.created).into(),
            index: prefix.revision(cluster, number),
            target: prefix.write_alias(cluster, number),
            live: false,
            shown: BTreeSet::new(),
            replaces: None,
        };
        tracing::info!(%cluster, number, "created an index revision in memory");
        let stored = StoredRevision {
            revision: revision.clone(),
            identity,
            contents: Contents::default(),
        };
        self.by_target.insert(revision.target.clone(), stored);
        IndexRevision {
            replaces: self.read_beside(cluster, &revision.target),
            ..revision
        }
    }

    /// The revision that answers a cluster's queries, unless its write alias is `target`.
    fn read_beside(&self, cluster: &ClusterName, target: &IndexName) -> Option<Box<IndexRevision>> {
        let mut others = self
            .of(cluster)
            .map(|stored| &stored.revision)
            .filter(|other| other.is_read() && other.target != *target);
        others.next().cloned().map(Box::new)
    }

    /// Answers queries about these resources of a revision; `None` if it is gone.
    pub(super) fn activate(
        &mut self,
        revision: &IndexRevision,
        visible: &CompleteResources,
    ) -> Option<RevisionChange> {
        self.get(revision)?;
        match visible {
            CompleteResources::All => self.activate_all(revision),
            CompleteResources::Only(resources) => self.activate_some(revision, resources),
        }
    }

    /// Answers all queries from a revision, and removes the cluster's earlier ones.
    fn activate_all(&mut self, revision: &IndexRevision) -> Option<RevisionChange> {
        let earlier: Vec<IndexName> = self
            .of(&revision.cluster)
            .filter(|stored| stored.revision.number < revision.number)
            .map(|stored| stored.revision.target.clone())
            .collect();
        let mut removed: Vec<StoredRevision> = earlier
            .iter()
            .filter_map(|target| self.by_target.remove(target))
            .collect();
        removed.retain(|stored| !stored.contents.is_empty());
        let stored = self.by_target.get_mut(&revision.target)?;
        let was = stored.revision.clone();
        stored.revision.live = true;
        stored.revision.shown.clear();
        let before = removed.iter().find(|stored| stored.revision.is_read());
        let mut changes = if was.live {
            Vec::new()
        } else {
            stored
                .contents
                .changes_since(before.map(|stored| &stored.contents))
        };
        changes.retain(|change| !is_shown(&was, change));
        if let Some(before) = before.filter(|before| !before.revision.live) {
            changes = changes
                .into_iter()
                .filter_map(|change| as_visible_before(&before.revision, change))
                .collect();
        }
        tracing::info!(cluster = %revision.cluster, number = revision.number, documents = stored.contents.len(), "queries are answered from this index revision");
        Some(RevisionChange {
            changes,
            removed: removed.into_iter().map(|stored| stored.contents).collect(),
        })
    }

    fn activate_some(
        &mut self,
        revision: &IndexRevision,
        resources: &BTreeSet<ResourceName>,
    ) -> Option<RevisionChange> {
        let stored = self.by_target.get_mut(&revision.target)?;
        let was = stored.revision.clone();
        if was.live {
            return Some(RevisionChange::default());
        }
        stored.revision.shown.extend(resources.iter().cloned());
        let mut changes = stored.contents.changes_since(None);
        changes.retain(|change| is_shown(&stored.revision, change) && !is_shown(&was, change));
        Some(RevisionChange {
            changes,
            removed: Vec::new(),
        })
    }

    /// Writes or deletes one document.
    pub(super) fn write(
        &mut self,
        write: &Write,
        compressed: Option<CompressedDocument>,
    ) -> (Verdict, Option<Change>) {
        let Some(stored) = self.by_target.get_mut(&write.index) else {
            return (
                Verdict::IndexMissing(format!("{} does not exist", write.index)),
                None,
            );
        };
        match compressed {
            Some(compressed) => stored.contents.index(&write.document.id, compressed),
            None => stored
                .contents
                .delete(&write.document.id, write.document.version),
        }
    }

    /// Every document of a revision, frozen.
    pub(super) fn freeze(&self, revision: &IndexRevision) -> Option<Vec<Arc<Chunk>>> {
        Some(self.get(revision)?.contents.freeze())
    }

    pub(super) fn drop_revision(&mut self, revision: &IndexRevision) -> RevisionChange {
        if self.get(revision).is_none() {
            return RevisionChange::default();
        }
        self.by_target
            .remove(&revision.target)
            .map(StoredRevision::end)
            .unwrap_or_default()
    }

    pub(super) fn drop_cluster(&mut self, cluster: &ClusterName) -> RevisionChange {
        self.checkpoints.remove(cluster);
        let targets: Vec<IndexName> = self
            .of(cluster)
            .map(|stored| stored.revision.target.clone())
            .collect();
        let mut step = RevisionChange::default();
        for stored in targets
            .iter()
            .filter_map(|target| self.by_target.remove(target))
        {
            let ended = stored.end();
            step.changes.extend(ended.changes);
            step.removed.extend(ended.removed);
        }
        step
    }
}

impl StoredRevision {
    fn end(self) -> RevisionChange {
        let mut changes = if self.revision.is_read() {
            Contents::default().changes_since(Some(&self.contents))
        } else {
            Vec::new()
        };
        changes.retain(|change| is_shown(&self.revision, change));
        RevisionChange {
            changes,
            removed: vec![self.contents],
        }
    }
}

/// Whether queries of a revision see a change of its documents.
fn is_shown(revision: &IndexRevision, change: &Change) -> bool {
    change
        .document()
        .is_some_and(|document| revision.shows(&document.origin.resource))
}

/// A change as seen by queries of a revision that was visible in part; `None` if they do not see
/// it.
fn as_visible_before(revision: &IndexRevision, change: Change) -> Option<Change> {
    let Change { before, after } = change;
    let before = before.filter(|document| revision.shows(&document.origin.resource));
    (before.is_some() || after.is_some()).then_some(Change { before, after })
}

impl RevisionIdentity {
    /// Whether documents of this identity may be stored with those of another. A UID that is
    /// unknown on either side is no difference.
    fn fits(&self, other: &Self) -> bool {
        let same_cluster = self.uid.is_none() || other.uid.is_none() || self.uid == other.uid;
        same_cluster && self.projection == other.projection
    }
}
