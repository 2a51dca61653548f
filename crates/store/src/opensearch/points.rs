//! Points in time: views of indices that stay as they are while pages are read from them.
//!
//! OpenSearch keeps 300 contexts a node (`search.max_open_pit_context`), one for each shard of a point in time, for as long as it was told to
//! when one was used last. Whoever opens one here holds it, and it is closed when it is dropped, also where a request is cancelled. What users may
//! hold together is less than the 300, so that lists and audits of the operator find room.

use std::sync::atomic::Ordering;

use fleetdex_core::{
    planted::{Bug, planted},
    query::{Cursor, Requester},
};
use http::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use super::{
    client::parse,
    contexts::KEEP_ALIVE,
    engine::{Engine, Shards},
};
use crate::{StoreError, quota::Ledger};

/// An open point in time. Dropped, it is closed.
pub(super) struct PointInTime {
    engine: Engine,
    id: String,
    is_over: bool,
}

#[derive(Deserialize)]
struct Opened {
    pit_id: String,
    #[serde(rename = "_shards")]
    shards: Shards,
}

impl PointInTime {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The name that it has after a search.
    pub(super) fn renamed(&mut self, id: Option<String>) {
        if let Some(id) = id.filter(|id| *id != self.id) {
            self.id = id;
        }
    }

    /// Leaves it open for further pages.
    pub(super) fn keep(mut self) -> String {
        self.is_over = true;
        std::mem::take(&mut self.id)
    }

    /// Closes it. If this is cancelled, it is closed nevertheless.
    pub(super) async fn close(mut self) {
        self.engine.close_pit(&self.id).await;
        self.is_over = true;
    }
}

impl Drop for PointInTime {
    fn drop(&mut self) {
        if !self.is_over {
            self.engine.close_later(std::mem::take(&mut self.id));
        }
    }
}

/// Room in the ledger for a point in time that is being opened.
struct Reserved<'l> {
    ledger: &'l Ledger,
    number: Option<u64>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.ledger.cancel(number);
        }
    }
}

/// What OpenSearch says (3.4, 2.19) when none of the indices for a point in time exist and these are to be left out.
const OF_NOTHING: &str = "invalid id: [null]";

impl Engine {
    /// `may_lack`: whether indices that do not exist are left out, or an error. [`StoreError::Expired`] if all of them are left out.
    pub(super) async fn open_pit(
        &self,
        target: &str,
        may_lack: bool,
        requester: &Requester,
    ) -> Result<PointInTime, StoreError> {
        let contexts = &*self.contexts.0;
        let mut reserved = Reserved {
            ledger: &contexts.ledger,
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
                .ledger
                .reserve(user, cost)
                .map_err(|full| self.contexts.crowded(full))?;
            reserved.number = Some(room.0);
            for ended in room.1 {
                self.close_later(ended.to_string());
            }
        }
        let Opened { pit_id, shards } = self.request_pit(target, may_lack).await?;
        if is_of_all {
            contexts.last.store(shards.total, Ordering::Relaxed);
        }
        if let Some(number) = reserved.number.take() {
            contexts
                .ledger
                .opened(number, pit_id.as_str().into(), shards.total);
        }
        Ok(PointInTime {
            engine: self.clone(),
            id: pit_id,
            is_over: false,
        })
    }

    async fn request_pit(&self, target: &str, may_lack: bool) -> Result<Opened, StoreError> {
        let operation = "opening a point in time";
        // A partial view would look like deleted documents.
        let path = format!(
            "/{target}/_search/point_in_time?keep_alive={KEEP_ALIVE}&allow_partial_pit_creation=false&ignore_unavailable={may_lack}"
        );
        match self.send(operation, Method::POST, path, None).await {
            Ok(answer) => parse(operation, &answer),
            // Of no index at all there is no view.
            Err(StoreError::Refused {
                status: 400,
                reason,
                ..
            }) if may_lack && reason.contains(OF_NOTHING) => Err(StoreError::Expired),
            Err(error) => Err(error),
        }
    }

    /// Notes that a page is read from the point in time of a cursor, which another replica may have opened.
    pub(super) fn use_pit(&self, cursor: &Cursor) -> Result<(), StoreError> {
        let ledger = &self.contexts.0.ledger;
        if !ledger.used(&cursor.snapshot) && ledger.has_ended(&cursor.snapshot) {
            return Err(StoreError::Superseded);
        }
        Ok(())
    }

    /// Enters a point in time that another replica has opened, so that it is this user's here, too.
    pub(super) fn adopt_pit(&self, id: &str, cost: u64, requester: &Requester) {
        let Requester::User(user) = requester else {
            return;
        };
        let ledger = &self.contexts.0.ledger;
        if ledger.used(id) {
            return;
        }
        // Without room it goes on nevertheless: it is open.
        if let Ok((number, ended)) = ledger.reserve(user, cost) {
            ledger.opened(number, id.into(), cost);
            for ended in ended {
                self.close_later(ended.to_string());
            }
        }
    }

    pub(super) fn pin_pit(&self, cursor: &Cursor) {
        self.contexts.0.ledger.pin(&cursor.snapshot);
    }

    pub(super) async fn close_pit(&self, pit: &str) {
        let body = json!({ "pit_id": [pit] });
        let path = "/_search/point_in_time".to_owned();
        if let Err(error) = self
            .send("closing a point in time", Method::DELETE, path, Some(&body))
            .await
        {
            tracing::debug!(%error, "a point in time stays until it expires");
        }
        self.contexts.0.ledger.closed(pit);
    }

    /// Closes a point in time while other things go on.
    pub(super) fn close_later(&self, pit: String) {
        self.contexts.0.ledger.closed(&pit);
        if planted(Bug::LeavePointInTimeOpen) {
            return;
        }
        // At the end of the process it expires by itself.
        if let Ok(runtime) = Handle::try_current() {
            let engine = self.clone();
            runtime.spawn(async move { engine.close_pit(&pit).await });
        }
    }
}
