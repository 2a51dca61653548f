//! What the store removes of itself when no registry names it and no documents are left: the
//! checkpoint index and the index templates. Should it be used again, they are made again first.

use std::sync::Arc;

use http::Method;
use tokio::sync::OwnedRwLockReadGuard;

use super::surveyed_index::SurveyedIndex;
use crate::{StoreError, opensearch::engine::Engine};

/// While this exists, the store is not retired.
pub(crate) type InUse = OwnedRwLockReadGuard<bool>;

impl Engine {
    /// Removes them, unless an index may belong to the prefix. Goes on when the caller is
    /// cancelled: a late request must not remove what a registry needs that names this store
    /// location again.
    pub(crate) async fn remove_leftovers(&self) -> Result<(), StoreError> {
        let engine = self.clone();
        let removal = tokio::spawn(async move { engine.try_remove_leftovers().await });
        removal.await.unwrap_or_else(|error| {
            let reason = format!("removing what a store has besides documents: {error}");
            Err(StoreError::busy(503, reason))
        })
    }

    async fn try_remove_leftovers(&self) -> Result<(), StoreError> {
        let prefix = &self.options.prefix;
        let mut is_retired = self.is_retired.write().await;
        let may_be_under =
            |found: &SurveyedIndex| !found.is_of_fleetdex() || found.is_under(prefix);
        let found = self.survey(&self.every_index()).await?;
        if found.iter().any(may_be_under) {
            return Ok(());
        }
        *is_retired = true;
        for path in [
            format!("/{}?ignore_unavailable=true", prefix.state()),
            format!("/_index_template/{}", prefix.state()),
            format!("/_index_template/{}", prefix.all()),
        ] {
            let operation = "removing the checkpoint index and the index templates";
            match self.send(operation, Method::DELETE, path, None).await {
                // It is gone already.
                Ok(_) | Err(StoreError::Refused { status: 404, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes them again if they were removed, and keeps them as long as the guard exists.
    pub(crate) async fn keep_in_use(&self) -> Result<InUse, StoreError> {
        loop {
            let is_retired = Arc::clone(&self.is_retired).read_owned().await;
            if !*is_retired {
                return Ok(is_retired);
            }
            drop(is_retired);
            let mut is_retired = self.is_retired.write().await;
            if *is_retired {
                self.prepare().await?;
                *is_retired = false;
            }
        }
    }
}
