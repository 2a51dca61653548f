//! Whose a prefix is: of one installation, which the index of checkpoints names.
//!
//! Two installations that share a prefix would share the alias over all clusters, the index template and the checkpoints, whatever their
//! clusters are called. OpenSearch makes an index of one name once, so of two installations that begin at the same time one gets the prefix.

use std::collections::BTreeMap;

use fleetdex_core::model::IndexName;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{client::parse, engine::Engine, template::state_index};
use crate::StoreError;

const OPERATION: &str = "claiming the index prefix";

#[derive(Deserialize, Default)]
#[serde(default)]
struct Index {
    mappings: Mappings,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Mappings {
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    fleetdex: Option<Claim>,
}

/// `_meta.fleetdex` of the index of checkpoints.
#[derive(Deserialize)]
struct Claim {
    owner: String,
}

impl Engine {
    /// Makes the prefix this installation's, if it is not yet.
    ///
    /// An error if it is another installation's, or if an index of another one is seen through the alias over all clusters. Indices of releases
    /// that made no claim count by what they say of themselves.
    pub(super) async fn claim_prefix(&self) -> Result<(), StoreError> {
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
                self.send(
                    OPERATION,
                    Method::DELETE,
                    format!("/{state}?ignore_unavailable=true"),
                    None,
                )
                .await?;
            }
            return Err(refused);
        }
        if owner.is_none() {
            let claim = json!({ "_meta": { "fleetdex": { "owner": self.options.owner } } });
            self.send(
                OPERATION,
                Method::PUT,
                format!("/{state}/_mapping"),
                Some(&claim),
            )
            .await?;
        }
        Ok(())
    }

    /// Whether it was made by this request; otherwise it was there already.
    async fn create_state_index(&self, state: &IndexName) -> Result<bool, StoreError> {
        if self
            .get_optional(OPERATION, format!("/{state}/_mapping"))
            .await?
            .is_some()
        {
            return Ok(false);
        }
        let body = state_index(&self.options.settings, &self.options.owner);
        match self
            .send(OPERATION, Method::PUT, format!("/{state}"), Some(&body))
            .await
        {
            Ok(_) => Ok(true),
            Err(StoreError::Refused { reason, .. })
                if reason.contains("resource_already_exists_exception") =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The installation that an index of checkpoints names.
    async fn owner_of(&self, state: &IndexName) -> Result<Option<String>, StoreError> {
        let Some(body) = self
            .get_optional(OPERATION, format!("/{state}/_mapping"))
            .await?
        else {
            return Ok(None);
        };
        let indices: BTreeMap<IndexName, Index> = parse(OPERATION, &body)?;
        Ok(indices
            .into_values()
            .find_map(|index| index.mappings.meta.fleetdex)
            .map(|claim| claim.owner))
    }

    async fn refuse_other_indices(&self) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let all = prefix.all();
        let found = self
            .survey(&format!("{all},{}", prefix.every_generation()))
            .await?;
        let is_in_the_way = |index: &&super::generation::Found| {
            (index.is_generation_under(prefix) || index.is_read_through(&all))
                && !self.is_own(index)
        };
        match found.iter().find(is_in_the_way) {
            Some(index) => Err(self.foreign(index)),
            None => Ok(()),
        }
    }
}
