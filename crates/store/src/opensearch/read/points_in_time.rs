//! Points in time: frozen views of indices, from which pages are read.
//!
//! OpenSearch keeps 300 contexts a node (`search.max_open_pit_context`), one for each shard of a
//! point in time, until it has been unused for its keep-alive. An [`OpenPointInTime`] is closed
//! when it is dropped, also where a request is cancelled. What users may hold together is less than
//! the 300, so that lists and audits of the operator find room.

use std::sync::atomic::Ordering;

use fleetdex_core::{
    planted::{Bug, planted},
    query::{Cursor, Requester},
};
use http::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use super::{contexts::KEEP_ALIVE, search_response::Shards};
use crate::{
    StoreError,
    opensearch::{
        connection::client::parse,
        engine::{Engine, LOCAL_COPIES},
    },
    view_quota::ViewQuota,
};

/// An open point in time, closed when it is dropped.
pub(crate) struct OpenPointInTime {
    engine: Engine,
    pub(crate) id: String,
    is_over: bool,
}

#[derive(Deserialize)]
struct PointInTimeResponse {
    pit_id: String,
    #[serde(rename = "_shards")]
    shards: Shards,
}

impl OpenPointInTime {
    /// Updates the id after a search.
    pub(crate) fn renamed(&mut self, id: Option<String>) {
        if let Some(id) = id.filter(|id| *id != self.id) {
            self.id = id;
        }
    }

    /// Leaves it open for further pages; returns its id.
    pub(crate) fn keep(mut self) -> String {
        self.is_over = true;
        std::mem::take(&mut self.id)
    }

    /// Closes it, even if this is cancelled.
    pub(crate) async fn close(mut self) {
        self.engine.close_pit(&self.id).await;
        self.is_over = true;
    }
}

impl Drop for OpenPointInTime {
    fn drop(&mut self) {
        if !self.is_over {
            self.engine.close_later(std::mem::take(&mut self.id));
        }
    }
}

/// Room in the quota for a point in time that is being opened.
struct QuotaReservation<'l> {
    quota: &'l ViewQuota,
    number: Option<u64>,
}

impl Drop for QuotaReservation<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.quota.cancel(number);
        }
    }
}

/// What OpenSearch (3.4, 2.19) says if none of the indices of a point in time exist and missing
/// ones are left out.
const NO_INDICES_MESSAGE: &str = "invalid id: [null]";

impl Engine {
    /// Opens a point in time. `may_lack`: whether missing indices are left out, or are an error.
    /// Fails with [`StoreError::Expired`] if all of them are left out.
    pub(crate) async fn open_pit(
        &self,
        target: &str,
        may_lack: bool,
        requester: &Requester,
    ) -> Result<OpenPointInTime, StoreError> {
        let contexts = &*self.contexts.0;
        let mut reserved = QuotaReservation {
            quota: &contexts.quota,
            number: None,
        };
        let clusters = target.split(',').count() as u64;
        let is_of_all = target == self.options.prefix.as_str();
        if let Requester::User(user) = requester {
            let cost = if is_of_all {
                contexts.last.load(Ordering::Relaxed)
            } else {
                clusters
            };
            let room = contexts
                .quota
                .reserve(user, cost)
                .map_err(|full| self.contexts.too_many(full))?;
            reserved.number = Some(room.0);
            for ended in room.1 {
                self.close_later(ended.to_string());
            }
        }
        let PointInTimeResponse { pit_id, shards } = self.request_pit(target, may_lack).await?;
        if is_of_all {
            contexts.last.store(shards.total, Ordering::Relaxed);
        }
        if let Some(number) = reserved.number.take() {
            contexts
                .quota
                .opened(number, pit_id.as_str().into(), shards.total);
        }
        Ok(OpenPointInTime {
            engine: self.clone(),
            id: pit_id,
            is_over: false,
        })
    }

    async fn request_pit(
        &self,
        target: &str,
        may_lack: bool,
    ) -> Result<PointInTimeResponse, StoreError> {
        let operation = "opening a point in time";
        // A partial view would look like deleted documents. A search in a point in time reads its
        // copies, and takes no preference.
        let path = format!(
            "/{target}/_search/point_in_time?keep_alive={KEEP_ALIVE}&allow_partial_pit_creation=false&ignore_unavailable={may_lack}&preference={LOCAL_COPIES}"
        );
        match self.send(operation, Method::POST, path, None).await {
            Ok(answer) => parse(operation, &answer),
            // There is no view of no index.
            Err(StoreError::Refused {
                status: 400,
                reason,
                ..
            }) if may_lack && reason.contains(NO_INDICES_MESSAGE) => Err(StoreError::Expired),
            Err(error) => Err(error),
        }
    }

    /// Notes that a page is read from the point in time of a cursor, which another replica may have
    /// opened.
    pub(crate) fn use_pit(&self, cursor: &Cursor) -> Result<(), StoreError> {
        let quota = &self.contexts.0.quota;
        if !quota.used(&cursor.snapshot) && quota.has_ended(&cursor.snapshot) {
            return Err(StoreError::Superseded);
        }
        Ok(())
    }

    /// Counts a point in time that another replica opened against its user's share here, too.
    pub(crate) fn adopt_pit(&self, id: &str, cost: u64, requester: &Requester) {
        let Requester::User(user) = requester else {
            return;
        };
        let quota = &self.contexts.0.quota;
        if quota.used(id) {
            return;
        }
        // Without room it stays uncounted: it is open already.
        if let Ok((number, ended)) = quota.reserve(user, cost) {
            quota.opened(number, id.into(), cost);
            for ended in ended {
                self.close_later(ended.to_string());
            }
        }
    }

    pub(crate) async fn close_pit(&self, pit: &str) {
        let body = json!({ "pit_id": [pit] });
        let path = "/_search/point_in_time".to_owned();
        if let Err(error) = self
            .send("closing a point in time", Method::DELETE, path, Some(&body))
            .await
        {
            tracing::debug!(%error, "a point in time stays until it expires");
        }
        self.contexts.0.quota.closed(pit);
    }

    /// Closes a point in time in the background.
    pub(crate) fn close_later(&self, pit: String) {
        self.contexts.0.quota.closed(&pit);
        if planted(Bug::LeavePointInTimeOpen) {
            return;
        }
        // When the process ends, it expires by itself.
        if let Ok(runtime) = Handle::try_current() {
            let engine = self.clone();
            runtime.spawn(async move { engine.close_pit(&pit).await });
        }
    }
}
