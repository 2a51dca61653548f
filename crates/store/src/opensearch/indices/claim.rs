//! Which installation owns a prefix; the checkpoint index names it.
//!
//! Two installations that share a prefix would share the alias over all clusters, the index
//! template and the checkpoints, whatever their clusters are called. OpenSearch creates an index of
//! one name once, so of two installations that begin at the same time one gets the prefix.

use std::collections::BTreeMap;

use fleetdex_core::model::IndexName;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{index_template::state_index, surveyed_index::SurveyedIndex};
use crate::{
    StoreError,
    opensearch::{connection::client::parse, engine::Engine},
};

const OPERATION: &str = "claiming the index prefix";

#[derive(Deserialize, Default)]
#[serde(default)]
struct StateIndex {
    mappings: StateMappings,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StateMappings {
    #[serde(rename = "_meta")]
    meta: StateMeta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StateMeta {
    fleetdex: Option<PrefixClaim>,
}

/// `_meta.fleetdex` of the checkpoint index.
#[derive(Deserialize)]
struct PrefixClaim {
    owner: String,
}

impl Engine {
    /// Claims the prefix for this installation, unless it has it already.
    ///
    /// Fails if it is another installation's, or if an index of another one can be read through the
    /// alias over all clusters. Indices of releases that made no claim count by their own metadata.
    pub(crate) async fn claim_prefix(&self) -> Result<(), StoreError> {
        let state = self.options.prefix.state();
        let is_new = self.create_state_index(&state).await?;
        let owner = if is_new {
            Some(self.options.owner.clone())
        } else {
            self.owner_of(&state).await?
        };
        if let Some(other) = owner.as_ref().filter(|owner| **owner != self.options.owner) {
            return Err(StoreError::Foreign {
                index: state.to_string(),
                owner: format!("another installation ({other})"),
            });
        }
        if let Err(refused) = self.refuse_other_indices().await {
            if is_new {
                let path = format!("/{state}?ignore_unavailable=true");
                self.send(OPERATION, Method::DELETE, path, None).await?;
            }
            return Err(refused);
        }
        if owner.is_none() {
            let claim = json!({ "_meta": { "fleetdex": { "owner": self.options.owner } } });
            let path = format!("/{state}/_mapping");
            self.send(OPERATION, Method::PUT, path, Some(&claim))
                .await?;
        }
        Ok(())
    }

    /// Creates the checkpoint index; false if it existed already.
    async fn create_state_index(&self, state: &IndexName) -> Result<bool, StoreError> {
        let path = format!("/{state}/_mapping");
        if self.get_optional(OPERATION, path).await?.is_some() {
            return Ok(false);
        }
        let body = state_index(&self.options.settings, &self.options.owner);
        self.create_index(OPERATION, state, &body).await
    }

    /// The installation that a checkpoint index names.
    async fn owner_of(&self, state: &IndexName) -> Result<Option<String>, StoreError> {
        let path = format!("/{state}/_mapping");
        let Some(body) = self.get_optional(OPERATION, path).await? else {
            return Ok(None);
        };
        let indices: BTreeMap<IndexName, StateIndex> = parse(OPERATION, &body)?;
        Ok(indices
            .into_values()
            .find_map(|index| index.mappings.meta.fleetdex)
            .map(|claim| claim.owner))
    }

    async fn refuse_other_indices(&self) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let all = prefix.all();
        let found = self
            .survey(&format!("{all},{}", self.every_index()))
            .await?;
        let is_foreign = |index: &&SurveyedIndex| {
            (index.is_under(prefix) || index.is_read_through(&all)) && !self.is_own(index)
        };
        match found.iter().find(is_foreign) {
            Some(index) => Err(self.foreign(index)),
            None => Ok(()),
        }
    }
}
