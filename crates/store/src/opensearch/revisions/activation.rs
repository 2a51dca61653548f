//! Which revision answers queries, and what they see of it: changes of read aliases.

use std::{collections::BTreeSet, slice};

use fleetdex_core::{model::IndexName, query::ResourceName};
use http::Method;
use serde_json::{Value, json};

use super::planned_activation::PlannedActivation;
use crate::{
    CompleteResources, IndexRevision, StoreError,
    opensearch::{
        dsl::resources_clause,
        engine::Engine,
        feed::RevisionSwap,
        indices::{
            complete_resources::shown_by, survey::FoundRevision, surveyed_index::SurveyedIndex,
        },
        sharing::{partitions::too_many_changes, shared_index::SharedIndex},
    },
};

/// How often an activation is made again because another change of a shared index was faster: each
/// time at least one of them has succeeded.
const ATTEMPTS: usize = 50;
/// The same for several activations together, before each is made alone.
const ATTEMPTS_TOGETHER: usize = 3;
/// The operation, in errors.
const ACTIVATING: &str = "activating a revision";

/// The shared indices that an activation has removed partitions from.
type Left = Vec<IndexName>;

impl Engine {
    /// Makes resources of a revision visible to queries, or all of it. With all of it the cluster's
    /// other indices are removed, in one atomic request.
    pub(crate) async fn activate_revision(
        &self,
        revision: &IndexRevision,
        visible: &CompleteResources,
    ) -> Result<(), StoreError> {
        let (cluster, target) = (&revision.cluster, &revision.target);
        let own: Vec<IndexRevision> = self
            .own_revisions_of(cluster)
            .await?
            .into_iter()
            .map(|found| found.revision)
            .collect();
        let earlier: Vec<&IndexRevision> = own
            .iter()
            .filter(|other| other.number < revision.number)
            .collect();
        let current = own.iter().find(|other| other.id == revision.id);
        let shown = resources_to_show(visible, current);
        if current.is_some_and(|current| current.live) {
            let left = self.activate_by_aliases(revision, shown.as_ref()).await?;
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
            let left = self.activate_by_aliases(revision, shown.as_ref()).await?;
            self.feed.end_untracked(cluster, Some(target), shown);
            self.sweep_left(left).await;
            return Ok(());
        };
        let current = current.filter(|current| current.is_read());
        let old = earlier.iter().find(|other| other.is_read()).copied();
        self.log_activation(&mut swap, &revision.index, shown.as_ref(), current, old)
            .await?;
        let left = self.activate_by_aliases(revision, shown.as_ref()).await?;
        swap.finish();
        self.sweep_left(left).await;
        Ok(())
    }

    /// Deletes the documents of partitions that an activation has removed. No query sees them; what
    /// fails here is repeated by garbage collection.
    async fn sweep_left(&self, left: Left) {
        for index in left {
            if let Err(error) = self.sweep_shared_indices(index.as_str()).await {
                tracing::debug!(%index, %error, "documents of a removed partition stay for now");
            }
        }
    }

    /// Logs what queries see differently after the activation of `index`. `current`: the same
    /// revision, if queries read a part of it already; `old`: the earlier revision that they read.
    async fn log_activation(
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
            swap.is_complete = false;
        }
        swap.wait_for_writes().await;
        // The comparison does not see what is not refreshed.
        self.refresh_index(index).await?;
        if let Some(old) = old
            && self.refresh_index(&old.index).await.is_err()
        {
            swap.is_complete = false;
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

    pub(crate) async fn refresh_index(&self, index: &IndexName) -> Result<(), StoreError> {
        let (operation, path) = ("refreshing an index", format!("/{index}/_refresh"));
        let sent = self.send(operation, Method::POST, path, None);
        sent.await.map(drop)
    }

    /// Changes the aliases of a revision. An alias never shows less than before: one that was there
    /// alone when the other one was lost still shows everything. Returns the shared indices that
    /// have lost a partition.
    async fn activate_by_aliases(
        &self,
        revision: &IndexRevision,
        shown: Option<&BTreeSet<ResourceName>>,
    ) -> Result<Left, StoreError> {
        let IndexRevision { cluster, index, .. } = revision;
        // Queries would lack what is not refreshed.
        self.refresh_index(index).await?;
        let activation = PlannedActivation {
            revision: revision.clone(),
            shown: shown.cloned(),
        };
        let left = if revision.target.partition().is_some() {
            self.placement
                .activate_in_turn(activation, |planned| self.activate_all(planned))
                .await?
        } else {
            self.activate_alone(activation).await?
        };
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

    /// Makes several activations with one request; if that is refused, one after the other, so that
    /// none fails for the reason of another.
    async fn activate_all(&self, planned: Vec<PlannedActivation>) -> Vec<Result<Left, StoreError>> {
        if planned.len() > 1 {
            match self.activate_together(&planned).await {
                Ok(Some(results)) => return results,
                Ok(None) => {}
                // The next attempt is for each of them to make.
                Err(
                    error @ (StoreError::Unreachable { .. }
                    | StoreError::Unauthorized { .. }
                    | StoreError::Unsigned { .. }
                    | StoreError::Busy { .. }),
                ) => return vec![Err(error); planned.len()],
                Err(error) => {
                    tracing::debug!(%error, swaps = planned.len(), "cannot activate revisions together");
                }
            }
        }
        let mut results = Vec::with_capacity(planned.len());
        for activation in planned {
            results.push(self.activate_alone(activation).await);
        }
        results
    }

    async fn activate_alone(&self, activation: PlannedActivation) -> Result<Left, StoreError> {
        for _ in 0..ATTEMPTS {
            let indices = self.indices_of(&activation.revision.cluster).await?;
            let results = self
                .try_activations(slice::from_ref(&activation), &indices)
                .await?;
            if let Some(result) = results.and_then(|mut results| results.pop()) {
                return result;
            }
        }
        Err(too_many_changes(ACTIVATING))
    }

    /// `None` if other instances change the indices meanwhile.
    async fn activate_together(
        &self,
        planned: &[PlannedActivation],
    ) -> Result<Option<Vec<Result<Left, StoreError>>>, StoreError> {
        for _ in 0..ATTEMPTS_TOGETHER {
            let clusters = planned
                .iter()
                .map(|activation| &activation.revision.cluster)
                .collect();
            let indices = self.indices_of_all(&clusters).await?;
            let results = self.try_activations(planned, &indices).await?;
            if results.is_some() {
                return Ok(results);
            }
        }
        Ok(None)
    }

    /// Makes activations from the state of the indices of their clusters; `None` if that is not the
    /// current one.
    async fn try_activations(
        &self,
        planned: &[PlannedActivation],
        indices: &[SurveyedIndex],
    ) -> Result<Option<Vec<Result<Left, StoreError>>>, StoreError> {
        let (actions, results) = self.actions_of(planned, indices);
        let is_made = actions.is_empty() || self.try_change(ACTIVATING, &actions).await?;
        Ok(is_made.then_some(results))
    }

    /// The actions of the request, and the result of each activation if it succeeds.
    fn actions_of(
        &self,
        planned: &[PlannedActivation],
        indices: &[SurveyedIndex],
    ) -> (Vec<Value>, Vec<Result<Left, StoreError>>) {
        let found = indices.iter().flat_map(|found| self.revisions_in(found));
        let found: BTreeSet<_> = found.map(|found| found.revision.id).collect();
        let mut results: Vec<Result<Left, StoreError>> = planned
            .iter()
            .map(|activation| {
                let is_there = found.contains(&activation.revision.id);
                let gone = || index_is_gone(&activation.revision);
                is_there.then(Vec::new).ok_or_else(gone)
            })
            .collect();
        let mut actions = Vec::new();
        for found in indices {
            let possible = planned.iter().zip(&mut results);
            let possible = possible
                .filter_map(|(activation, result)| Some((activation, result.as_mut().ok()?)));
            if found.shared().is_some() {
                let shared = SharedIndex::of(found, &self.options.prefix);
                let mut change = shared.change();
                // One sweep deletes what all of them leave.
                let mut is_swept = false;
                for (activation, left) in possible {
                    let before = change.after.len();
                    change.after.retain(|_, partition| {
                        !activation.replaces(&partition.cluster, partition.revision)
                    });
                    if change.after.len() < before && !is_swept {
                        is_swept = true;
                        left.push(found.index.clone());
                    }
                    if let Some(shown) = shared.partition_of(&activation.revision) {
                        change.show(shown, &activation.visible());
                    }
                }
                if change.after != shared.partitions || !shared.is_consistent() {
                    // One that is about to be deleted has no partitions.
                    let of_index = change.actions(&self.options.prefix);
                    actions.extend(of_index.into_iter().flatten());
                }
                continue;
            }
            let others = self.revisions_in(found);
            for (activation, _) in possible {
                for FoundRevision { revision, .. } in &others {
                    if revision.id == activation.revision.id {
                        actions.extend(self.show_actions(revision, &activation.visible(), found));
                    } else if activation.replaces(&revision.cluster, revision.number) {
                        actions.push(json!({ "remove_index": { "index": found.index } }));
                    }
                }
            }
        }
        (actions, results)
    }

    /// The actions that make resources of a cluster's own index visible.
    fn show_actions(
        &self,
        revision: &IndexRevision,
        visible: &CompleteResources,
        found: &SurveyedIndex,
    ) -> Vec<Value> {
        let add = |alias: &IndexName| {
            let before = shown_by(found.alias(alias.as_str()).as_ref());
            let mut action = json!({ "add": { "index": revision.index, "alias": alias } });
            if let CompleteResources::Only(shown) = visible.clone().or(before) {
                action["add"]["filter"] = resources_clause(&shown);
            }
            action
        };
        self.read_aliases(&revision.cluster)
            .iter()
            .map(add)
            .collect()
    }

    pub(crate) async fn change_aliases(
        &self,
        operation: &str,
        actions: &[Value],
    ) -> Result<(), StoreError> {
        let body = json!({ "actions": actions });
        let sent = self.send(operation, Method::POST, "/_aliases".to_owned(), Some(&body));
        sent.await.map(drop)
    }
}

/// The resources of a revision that queries see after an activation; `None`: all. `current` is its
/// state before. Visible resources stay visible.
fn resources_to_show(
    visible: &CompleteResources,
    current: Option<&IndexRevision>,
) -> Option<BTreeSet<ResourceName>> {
    match (visible, current) {
        (CompleteResources::Only(resources), Some(current)) if !current.live => {
            Some(resources.union(&current.shown).cloned().collect())
        }
        (CompleteResources::Only(resources), None) => Some(resources.clone()),
        (CompleteResources::All, _) | (CompleteResources::Only(_), Some(_)) => None,
    }
}

fn index_is_gone(revision: &IndexRevision) -> StoreError {
    StoreError::Refused {
        operation: ACTIVATING.to_owned(),
        status: 404,
        reason: format!("{} is gone", revision.index),
    }
}
