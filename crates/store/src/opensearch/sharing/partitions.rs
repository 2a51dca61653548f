//! Partitions of shared indices: how they are added, completed and removed.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{IndexName, Partition},
    planted::{Bug, planted},
};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    alias_filters::ClusterPartition,
    shared_index::{SharedIndex, first_aliases},
};
use crate::{
    IndexRevision, StoreError,
    opensearch::{
        engine::Engine,
        indices::{
            alias_actions::lacks_alias,
            index_template::revision_index,
            survey::FoundRevision,
            surveyed_index::{IndexMetadata, SharedIndexMetadata},
        },
        revisions::deletion_permit::DeletionPermit,
    },
};

/// How often a change of a shared index is made again because another one was faster: each time at
/// least one of them has succeeded.
const ATTEMPTS: usize = 50;
/// The operation, in errors.
const ADDING: &str = "adding a partition";

impl Engine {
    /// The shared indices of this installation that match a pattern, with their metadata.
    pub(crate) async fn shared_indices(
        &self,
        pattern: &str,
    ) -> Result<Vec<(SharedIndex, SharedIndexMetadata)>, StoreError> {
        let prefix = &self.options.prefix;
        let found = self.survey(pattern).await?;
        let own = found.iter().filter(|found| self.is_own(found));
        Ok(own
            .filter_map(|found| Some((SharedIndex::of(found, prefix), found.shared()?.clone())))
            .collect())
    }

    /// Adds a partition for a revision to a shared index that has room, or to a new one. False if
    /// another instance has added one.
    pub(crate) async fn create_partition(
        &self,
        metadata: IndexMetadata,
    ) -> Result<bool, StoreError> {
        let required = SharedIndexMetadata {
            owner: metadata.owner,
            mapping_version: metadata.mapping_version,
            projection: metadata.projection,
        };
        let added = ClusterPartition {
            cluster: metadata.cluster,
            uid: metadata.uid,
            revision: metadata.revision,
            is_written: true,
            visible: None,
        };
        // All of them have the same metadata, which is that of the engine.
        self.placement
            .add_in_turn(added, |added| self.add_partitions(added, &required))
            .await
    }

    /// The same for several revisions, with as few requests as there are indices.
    async fn add_partitions(
        &self,
        added: Vec<ClusterPartition>,
        required: &SharedIndexMetadata,
    ) -> Vec<Result<bool, StoreError>> {
        let mut results: Vec<Option<Result<bool, StoreError>>> = vec![None; added.len()];
        let mut attempts = ATTEMPTS;
        while attempts > 0 {
            let left = (0..added.len()).filter(|position| results[*position].is_none());
            let surveys = left.map(|position| {
                let added = &added[position];
                async move { (position, self.is_late(added).await) }
            });
            let surveyed = join_all(surveys).await;
            let mut missing = Vec::new();
            let mut clusters = BTreeSet::new();
            for (position, is_late) in surveyed {
                match is_late {
                    // The next round finds that a second one of the same cluster is late.
                    Ok(false) if !clusters.insert(&added[position].cluster) => {}
                    Ok(false) => missing.push(position),
                    Ok(true) => results[position] = Some(Ok(false)),
                    Err(error) => results[position] = Some(Err(error)),
                }
            }
            if missing.is_empty() {
                break;
            }
            let some = |positions: &[usize]| -> Vec<ClusterPartition> {
                positions.iter().map(|at| added[*at].clone()).collect()
            };
            let (positions, outcome) = match self.shared_index_with_room(required).await {
                Ok(Some((chosen, room))) => {
                    missing.truncate(room);
                    let outcome = self.add_to(&chosen, some(&missing)).await;
                    (missing, outcome)
                }
                Ok(None) => {
                    missing.truncate(self.options.placement.clusters_per_index.max(1));
                    // A number that none has had before: a request that deletes another index may
                    // arrive late.
                    let index = self.options.prefix.shared_index(fastrand::u32(1..).into());
                    let first = some(&missing);
                    let outcome = self.create_shared_index(&index, required, &first).await;
                    (missing, outcome)
                }
                Err(error) => (missing, Err(error)),
            };
            match outcome {
                Ok(false) => attempts -= 1,
                decided => {
                    for position in positions {
                        results[position] = Some(decided.clone());
                    }
                }
            }
        }
        let result = |result: Option<_>| result.unwrap_or_else(|| Err(too_many_changes(ADDING)));
        results.into_iter().map(result).collect()
    }

    /// Whether there is such a revision already, or a newer one.
    async fn is_late(&self, added: &ClusterPartition) -> Result<bool, StoreError> {
        let own = self.own_revisions_of(&added.cluster).await?;
        let is_newer = |other: &FoundRevision| other.revision.number >= added.revision;
        Ok(own.iter().any(is_newer))
    }

    /// Adds partitions to a shared index; false if it has changed meanwhile.
    async fn add_to(
        &self,
        chosen: &SharedIndex,
        added: Vec<ClusterPartition>,
    ) -> Result<bool, StoreError> {
        let mut change = chosen.change();
        for added in added {
            change.add(added);
        }
        match change.actions(&self.options.prefix) {
            Some(actions) => self.try_change(ADDING, &actions).await,
            None => Ok(false),
        }
    }

    /// A shared index with this metadata, and how many further partitions fit, if any does. The one
    /// that had room last time is looked at first: all of them have the aliases of all clusters.
    async fn shared_index_with_room(
        &self,
        required: &SharedIndexMetadata,
    ) -> Result<Option<(SharedIndex, usize)>, StoreError> {
        let every_index = self.options.prefix.every_shared_index();
        let clusters = self.options.placement.clusters_per_index;
        let last = self.placement.0.state.lock().with_room.clone();
        for looked_at in last.into_iter().chain([every_index]) {
            let shared = self.shared_indices(looked_at.as_str()).await?;
            let of_engine = shared
                .into_iter()
                .filter(|(_, metadata)| metadata == required);
            let with_room = of_engine.map(|(shared, _)| (shared.room(clusters), shared));
            if let Some((room, chosen)) = with_room.into_iter().find(|(room, _)| *room > 0) {
                self.placement.0.state.lock().with_room = Some(chosen.index.clone());
                return Ok(Some((chosen, room)));
            }
        }
        Ok(None)
    }

    /// Creates a shared index with its first partitions; false if it existed already.
    async fn create_shared_index(
        &self,
        index: &IndexName,
        metadata: &SharedIndexMetadata,
        first: &[ClusterPartition],
    ) -> Result<bool, StoreError> {
        let mut body = revision_index(&self.options.settings, &self.options.fields);
        body["aliases"] = first_aliases(index, first, &self.options.prefix);
        body["mappings"]["_meta"] = json!({ "fleetdex": metadata });
        let is_new = self
            .create_index("creating a shared index", index, &body)
            .await?;
        if is_new {
            tracing::info!(%index, "created an index that small clusters share");
        }
        Ok(is_new)
    }

    /// Sends a change of aliases that was made from the state of shared indices; false if that
    /// state is not the current one.
    pub(crate) async fn try_change(
        &self,
        operation: &str,
        actions: &[Value],
    ) -> Result<bool, StoreError> {
        match self.change_aliases(operation, actions).await {
            Ok(()) => Ok(true),
            Err(error) if lacks_alias(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes the partitions of the shared index that has the one of a revision, and returns that
    /// index. `None` if there is no such partition.
    async fn change_partition(
        &self,
        operation: &str,
        revision: &IndexRevision,
        permit: Option<&DeletionPermit>,
        change: impl Fn(&mut BTreeMap<Partition, ClusterPartition>, Partition) + Sync,
    ) -> Result<Option<IndexName>, StoreError> {
        let Some(partition) = revision.target.partition() else {
            return Ok(None);
        };
        let prefix = &self.options.prefix;
        let _change = self.placement.0.changes.lock().await;
        // One of them may be lost.
        let aliases = format!(
            "{},{}",
            revision.target,
            prefix.cluster_alias(&revision.cluster)
        );
        for _ in 0..ATTEMPTS {
            let shared = self.shared_indices(&aliases).await?;
            let has_it = |(shared, _): &&(SharedIndex, SharedIndexMetadata)| {
                shared.partition_of(revision).is_some()
            };
            let Some((shared, _)) = shared.iter().find(has_it) else {
                return Ok(None);
            };
            let mut changed = shared.change();
            change(&mut changed.after, partition);
            let Some(mut actions) = changed.actions(prefix) else {
                return Ok(None);
            };
            actions.extend(permit.map(DeletionPermit::use_up));
            match self.change_aliases(operation, &actions).await {
                Ok(()) => return Ok(Some(shared.index.clone())),
                Err(error) if permit.is_some_and(|permit| permit.is_missing_in(&error)) => {
                    return Err(error);
                }
                Err(error) if lacks_alias(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(too_many_changes(operation))
    }

    /// Completes a partition: its write alias, and the UID of its cluster.
    pub(crate) async fn complete_partition(
        &self,
        revision: &IndexRevision,
        uid: Option<&str>,
    ) -> Result<(), StoreError> {
        let complete = |partitions: &mut BTreeMap<Partition, ClusterPartition>, partition| {
            if let Some(completed) = partitions.get_mut(&partition) {
                completed.is_written = true;
                completed.uid = uid.map(str::to_owned).or(completed.uid.take());
            }
        };
        self.change_partition("completing a partition", revision, None, complete)
            .await
            .map(drop)
    }

    /// Removes a partition. No query sees its documents then; a sweep deletes them, or the index if
    /// it has no other partition.
    pub(crate) async fn delete_partition(
        &self,
        revision: &IndexRevision,
    ) -> Result<(), StoreError> {
        let remove = |partitions: &mut BTreeMap<Partition, ClusterPartition>, partition| {
            partitions.remove(&partition);
            if planted(Bug::DropTheNeighbour) {
                partitions.pop_first();
            }
        };
        let permit = self.permit_deletion(&revision.cluster).await?;
        let changed = self
            .change_partition("removing a partition", revision, permit.as_ref(), remove)
            .await?;
        if let Some(index) = changed {
            tracing::info!(cluster = %revision.cluster, %index, "removed a cluster from a shared index");
        }
        Ok(())
    }
}

pub(crate) fn too_many_changes(operation: &str) -> StoreError {
    let reason = format!("{operation}: the aliases of a shared index keep changing");
    StoreError::busy(409, reason)
}
