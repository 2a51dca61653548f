//! Permits to delete what a cluster has: a deletion takes effect only as long as its permit exists.
//!
//! OpenSearch may apply a request long after its sender has given up. Meanwhile the cluster may be
//! read again, and its documents may go to the very index that was to be deleted, or to a new one
//! of the same name. So each deletion removes, in the same atomic request, an alias of the
//! checkpoint index that was made for it alone, and opening a revision of the cluster removes these
//! aliases first.

use std::collections::BTreeMap;

use fleetdex_core::model::{ClusterName, IndexName};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    StoreError,
    opensearch::{
        connection::client::parse,
        engine::Engine,
        indices::alias_actions::{lacks_alias, remove, remove_existing},
    },
};

/// The operation, in errors.
const WITHDRAWING: &str = "withdrawing deletions";

#[derive(Deserialize)]
struct Aliases {
    #[serde(default)]
    aliases: BTreeMap<IndexName, Box<RawValue>>,
}

/// The permit of one deletion.
pub(crate) struct DeletionPermit {
    state: IndexName,
    alias: IndexName,
}

impl DeletionPermit {
    /// The action that fails if the permit was withdrawn or used.
    pub(crate) fn use_up(&self) -> Value {
        remove_existing(&self.state, &self.alias)
    }

    /// Whether a request was refused for lack of this permit.
    pub(crate) fn is_missing_in(&self, refusal: &StoreError) -> bool {
        lacks_alias(refusal) && refusal.to_string().contains(self.alias.as_str())
    }
}

impl Engine {
    /// Permits one deletion. Takes the place of the permit of an earlier attempt of this process,
    /// so that failing ones leave one alias. `None` if the checkpoint index is gone, or takes no
    /// alias as the disks are full: what frees them goes on without a permit.
    pub(crate) async fn permit_deletion(
        &self,
        cluster: &ClusterName,
    ) -> Result<Option<DeletionPermit>, StoreError> {
        let prefix = &self.options.prefix;
        let permit = DeletionPermit {
            state: prefix.state(),
            alias: prefix.deletion_permit(cluster, fastrand::u64(..)),
        };
        let former = self
            .permits
            .lock()
            .insert(cluster.clone(), permit.alias.clone());
        let former = former.map(|alias| remove(&permit.state, &alias));
        let add = json!({ "add": { "index": permit.state, "alias": permit.alias } });
        let actions: Vec<Value> = former.into_iter().chain([add]).collect();
        match self.change_aliases("permitting a deletion", &actions).await {
            Ok(()) => Ok(Some(permit)),
            Err(StoreError::Refused { status: 404, .. }) => Ok(None),
            Err(error) if error.reason() == "Blocked" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the deletions ineffective that were begun for a cluster, and may not be applied yet.
    pub(crate) async fn withdraw_deletions(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let path = format!(
            "/{}?allow_no_indices=true&ignore_unavailable=true&filter_path=*.aliases",
            prefix.deletion_permits(cluster)
        );
        let Some(body) = self.get_optional(WITHDRAWING, path).await? else {
            return Ok(());
        };
        let found: BTreeMap<IndexName, Aliases> = parse(WITHDRAWING, &body)?;
        let mut actions = Vec::new();
        for (index, Aliases { aliases }) in &found {
            let permits = aliases
                .keys()
                .filter(|alias| prefix.is_deletion_permit(cluster, alias));
            actions.extend(permits.map(|alias| remove(index, alias)));
        }
        self.permits.lock().remove(cluster);
        if actions.is_empty() {
            return Ok(());
        }
        match self.change_aliases(WITHDRAWING, &actions).await {
            // The deletions have been applied meanwhile.
            Err(StoreError::Refused { status: 404, .. }) => Ok(()),
            withdrawn => withdrawn,
        }
    }
}
