//! Which revision answers queries: swaps of read aliases, and deletion of indices.

use std::collections::BTreeSet;

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::{ResourceName, dsl::resources_clause},
};
use http::Method;
use serde_json::{Value, json};

use super::{
    engine::Engine, feed::RevisionSwap, partitions::too_many_changes, shared_index::SharedIndex,
    surveyed_index::SurveyedIndex, visible_resources::VisibleResources,
};
use crate::{IndexRevision, StoreError};

/// How often a swap is made again because another change of a shared index was faster: each time at
/// least one of them has succeeded.
const ATTEMPTS: usize = 50;

/// The request of a swap.
#[derive(Default)]
struct SwapRequest {
    actions: Vec<Value>,
    /// The shared indices that lose a partition.
    left: Vec<IndexName>,
}

impl Engine {
    /// Makes resources of a revision visible to queries, or all of it. With all of it the cluster's
    /// other indices are removed, in one atomic request.
    pub(super) async fn swap_to(
        &self,
        revision: &IndexRevision,
        visible: VisibleResources,
    ) -> Result<(), StoreError> {
        let IndexRevision {
            cluster,
            index,
            target,
            id,
            ..
        } = revision;
        let indices = self.indices_of(cluster).await?;
        let own: Vec<IndexRevision> = self
            .revisions_of(cluster, &indices)
            .into_iter()
            .map(|found| found.revision)
            .collect();
        let earlier: Vec<&IndexRevision> = own
            .iter()
            .filter(|other| other.number < revision.number)
            .collect();
        let current = own.iter().find(|other| other.id == *id);
        let shown = resources_to_show(visible, current);
        if current.is_some_and(|current| current.live) {
            let left = self.swap_aliases(revision, shown.as_ref()).await?;
            if self.feed.is_live(revision) {
                self.feed.note_live(cluster, target, shown);
            } else {
                // An earlier request made it live, and its response was lost.
                self.feed.end_untracked(cluster, Some(target), shown);
            }
            self.sweep_left(left).await;
            return Ok(());
        }
        let Some(mut swap) = self.feed.begin_swap(cluster, Some(target), shown.clone()) else {
            let left = self.swap_aliases(revision, shown.as_ref()).await?;
            self.feed.end_untracked(cluster, Some(target), shown);
            self.sweep_left(left).await;
            return Ok(());
        };
        let current = current.filter(|current| current.is_read());
        let old = earlier.iter().find(|other| other.is_read()).copied();
        self.log_swap(&mut swap, index, shown.as_ref(), current, old)
            .await?;
        let left = self.swap_aliases(revision, shown.as_ref()).await?;
        swap.finish();
        self.sweep_left(left).await;
        Ok(())
    }

    /// Deletes the documents of partitions that a swap has removed. No query sees them; what fails
    /// here is repeated by garbage collection.
    async fn sweep_left(&self, left: Vec<IndexName>) {
        for index in left {
            if let Err(error) = self.sweep_shared_indices(index.as_str()).await {
                tracing::debug!(%index, %error, "documents of a removed partition stay for now");
            }
        }
    }

    /// Logs what queries see differently after a swap to `index`. `current`: the same revision, if
    /// queries read a part of it already; `old`: the earlier revision that they read.
    async fn log_swap(
        &self,
        swap: &mut RevisionSwap,
        index: &IndexName,
        shown: Option<&BTreeSet<ResourceName>>,
        current: Option<&IndexRevision>,
        old: Option<&IndexRevision>,
    ) -> Result<(), StoreError> {
        if swap.old.as_ref() != current.or(old).map(|seen| &seen.target)
            || current.is_some() && old.is_some()
        {
            swap.mark_incomplete();
        }
        swap.wait_for_writes().await;
        // The comparison does not see what is not refreshed.
        self.refresh_index(index).await?;
        if let Some(old) = old
            && self.refresh_index(&old.index).await.is_err()
        {
            swap.mark_incomplete();
        }
        let difference = |resource: &ResourceName| {
            let is_new = shown.is_none_or(|shown| shown.contains(resource));
            let to = Some(index).filter(|_| is_new);
            let from = current
                .or(old)
                .filter(|seen| seen.shows(resource))
                .map(|seen| &seen.index);
            (from, to)
        };
        self.log_all_differences(swap, difference).await;
        Ok(())
    }

    pub(super) async fn refresh_index(&self, index: &IndexName) -> Result<(), StoreError> {
        self.send(
            "refreshing an index",
            Method::POST,
            format!("/{index}/_refresh"),
            None,
        )
        .await
        .map(drop)
    }

    /// `shown`: the resources that the aliases show; `None`: everything, and the earlier revisions of
    /// the cluster are removed. An alias never shows less than before: one that was there alone when
    /// the other one was lost still shows everything. Returns the shared indices that have lost a
    /// partition.
    async fn swap_aliases(
        &self,
        revision: &IndexRevision,
        shown: Option<&BTreeSet<ResourceName>>,
    ) -> Result<Vec<IndexName>, StoreError> {
        let IndexRevision { cluster, index, .. } = revision;
        // Queries would lack what is not refreshed.
        self.refresh_index(index).await?;
        let operation = "activating a revision";
        let mut swapped = None;
        let mut change = None;
        for _ in 0..ATTEMPTS {
            if revision.target.partition().is_some() && change.is_none() {
                change = Some(self.placement.begin_change().await);
            }
            let indices = self.indices_of(cluster).await?;
            let swap = self.aliases_of_swap(revision, shown, &indices)?;
            if swap.actions.is_empty() || self.try_change(operation, &swap.actions).await? {
                swapped = Some(swap.left);
                break;
            }
        }
        drop(change);
        let left = swapped.ok_or_else(|| too_many_changes(operation))?;
        match shown {
            None => {
                self.placement.end_move(cluster);
                tracing::info!(%cluster, %index, "queries are answered from this index revision");
            }
            Some(shown) => {
                tracing::info!(%cluster, %index, resources = shown.len(), "queries about the complete resources are answered from this index revision");
            }
        }
        Ok(left)
    }

    fn aliases_of_swap(
        &self,
        revision: &IndexRevision,
        shown: Option<&BTreeSet<ResourceName>>,
        indices: &[SurveyedIndex],
    ) -> Result<SwapRequest, StoreError> {
        let IndexRevision { cluster, .. } = revision;
        let visible = shown.map_or(VisibleResources::All, |shown| {
            VisibleResources::Only(shown.clone())
        });
        let is_replaced = |number: u64| shown.is_none() && number < revision.number;
        let mut request = SwapRequest::default();
        let mut is_found = false;
        for found in indices {
            if found.shared().is_some() {
                let shared = SharedIndex::of(found, &self.options.prefix);
                let mut change = shared.change();
                change.after.retain(|_, partition| {
                    partition.cluster != *cluster || !is_replaced(partition.revision)
                });
                if change.after.len() < shared.partitions.len() {
                    request.left.push(found.index.clone());
                }
                if let Some(shown) = shared.partition_of(revision) {
                    is_found = true;
                    change.show(shown, &visible);
                }
                if change.after == shared.partitions && shared.is_consistent() {
                    continue;
                }
                match change.actions(&self.options.prefix) {
                    Some(actions) => request.actions.extend(actions),
                    None => return Err(index_is_gone(revision)),
                }
                continue;
            }
            for other in self.revisions_in(found) {
                if other.revision.id == revision.id {
                    is_found = true;
                    request
                        .actions
                        .extend(self.show_actions(revision, &visible, found));
                } else if is_replaced(other.revision.number) {
                    request
                        .actions
                        .push(json!({ "remove_index": { "index": found.index } }));
                }
            }
        }
        if !is_found {
            return Err(index_is_gone(revision));
        }
        Ok(request)
    }

    /// The actions that make resources of a cluster's own index visible.
    fn show_actions(
        &self,
        revision: &IndexRevision,
        visible: &VisibleResources,
        found: &SurveyedIndex,
    ) -> Vec<Value> {
        let add = |alias: &IndexName| {
            let before = VisibleResources::of(found.aliases.get(alias.as_str()));
            let mut action = json!({ "add": { "index": revision.index, "alias": alias } });
            if let VisibleResources::Only(shown) = visible.clone().or(before) {
                action["add"]["filter"] = resources_clause(&shown);
            }
            action
        };
        self.read_aliases(&revision.cluster)
            .iter()
            .map(add)
            .collect()
    }

    pub(super) async fn change_aliases(
        &self,
        operation: &str,
        actions: &[Value],
    ) -> Result<(), StoreError> {
        let body = json!({ "actions": actions });
        self.send(operation, Method::POST, "/_aliases".to_owned(), Some(&body))
            .await
            .map(drop)
    }

    /// Deletes the checkpoint index, by its exact name, unless an index may belong to the prefix.
    /// The templates stay: a request that arrives late must not take them from a registry that
    /// names this store location again.
    pub(super) async fn remove_leftovers(&self) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let may_be_under =
            |found: &SurveyedIndex| !found.is_of_fleetdex() || found.is_under(prefix);
        if self
            .survey(&self.every_index())
            .await?
            .iter()
            .any(may_be_under)
        {
            return Ok(());
        }
        let path = format!("/{}?ignore_unavailable=true", prefix.state());
        match self
            .send("deleting the checkpoint index", Method::DELETE, path, None)
            .await
        {
            // It is gone already.
            Ok(_) | Err(StoreError::Refused { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes every revision of a cluster, by exact names.
    pub(super) async fn delete_revisions(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        for found in self.own_revisions().await? {
            if found.revision.cluster == *cluster {
                self.delete_revision(&found.revision).await?;
            }
        }
        Ok(())
    }

    /// Deletes one revision. If queries are answered from it, its visible objects are logged as
    /// deleted.
    pub(super) async fn delete_revision(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        let cluster = &revision.cluster;
        if !revision.is_read() && !self.feed.is_live(revision) {
            return self.delete_index(revision).await;
        }
        let Some(mut swap) = self.feed.begin_swap(cluster, None, None) else {
            self.delete_index(revision).await?;
            self.feed.end_untracked(cluster, None, None);
            return Ok(());
        };
        swap.wait_for_writes().await;
        // Nothing can be read of an index that is gone already.
        match self.refresh_index(&revision.index).await {
            Ok(()) => {
                let seen = |resource: &ResourceName| {
                    (
                        Some(&revision.index).filter(|_| revision.shows(resource)),
                        None,
                    )
                };
                self.log_all_differences(&mut swap, seen).await;
            }
            Err(_) => swap.mark_incomplete(),
        }
        self.delete_index(revision).await?;
        swap.finish();
        Ok(())
    }

    async fn delete_index(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        if revision.target.partition().is_some() {
            return self.delete_partition(revision).await;
        }
        let path = format!("/{}?ignore_unavailable=true", revision.index);
        self.send("deleting an index", Method::DELETE, path, None)
            .await?;
        tracing::info!(cluster = %revision.cluster, index = %revision.index, "deleted an index");
        Ok(())
    }
}

/// The resources of a revision that queries see after a swap; `None`: all. `current` is its state
/// before. Visible resources stay visible.
fn resources_to_show(
    visible: VisibleResources,
    current: Option<&IndexRevision>,
) -> Option<BTreeSet<ResourceName>> {
    match (visible, current) {
        (VisibleResources::Only(resources), Some(current)) if !current.live => {
            Some(resources.union(&current.shown).cloned().collect())
        }
        (VisibleResources::Only(resources), None) => Some(resources),
        (VisibleResources::All, _) | (VisibleResources::Only(_), Some(_)) => None,
    }
}

fn index_is_gone(revision: &IndexRevision) -> StoreError {
    StoreError::Refused {
        operation: "activating a revision".to_owned(),
        status: 404,
        reason: format!("{} is gone", revision.index),
    }
}
