//! The open views of lists, which further pages are read from.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fleetdex_core::query::{Cursor, Requester};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::view::View;
use crate::{
    StoreError,
    view_quota::{QuotaExceeded, ViewLimits, ViewQuota},
};

/// What users' views may take, in units of [`UNIT_BYTES`]: a view that shares all its chunks with
/// the store takes one unit, and the largest views take all of a user's share. So 16 users have
/// their full share at the same time, which is 64 lists each or 4 MiB of orders of their own.
const VIEW_LIMITS: ViewLimits = ViewLimits {
    per_user: 64,
    all_users: 1_024,
    keep_alive: Duration::from_mins(5),
};
/// Bytes that a view alone holds for each unit.
const UNIT_BYTES: usize = 64 << 10;
/// Bytes of replaced or deleted documents that views may retain; beyond it the oldest views end.
const RETAINED_BYTES: u64 = 32 << 20;

/// The open views.
pub(super) struct Views {
    quota: ViewQuota,
    open: Mutex<OpenViews>,
}

#[derive(Default)]
struct OpenViews {
    /// By the name in cursors: 128 random bits, which cannot be guessed and which no other process
    /// gives.
    views: HashMap<Arc<str>, RetainedView>,
    /// Bytes of documents that were replaced or deleted since the start.
    retired: u64,
}

struct RetainedView {
    view: Arc<View>,
    used: Instant,
    /// [`OpenViews::retired`] when it was opened.
    retired: u64,
}

impl Views {
    pub(super) fn new() -> Self {
        Self {
            quota: ViewQuota::new(VIEW_LIMITS),
            open: Mutex::default(),
        }
    }

    /// Keeps a view open for a user; returns the name for cursors.
    pub(super) fn keep(
        &self,
        view: Arc<View>,
        requester: &Requester,
    ) -> Result<String, StoreError> {
        let id: Arc<str> = format!("{:032x}", rand::random::<u128>()).into();
        let mut open = self.open.lock();
        self.expire(&mut open);
        if let Requester::User(user) = requester {
            let cost = cost_of(&view);
            let (number, ended) = self.quota.reserve(user, cost).map_err(too_many_views)?;
            self.quota.opened(number, Arc::clone(&id), cost);
            for ended in ended {
                open.views.remove(&ended);
            }
        }
        let (used, retired) = (Instant::now(), open.retired);
        let retained = RetainedView {
            view,
            used,
            retired,
        };
        open.views.insert(Arc::clone(&id), retained);
        Ok(id.to_string())
    }

    /// The view of a cursor, if it is still open.
    pub(super) fn find(&self, cursor: &Cursor) -> Result<Arc<View>, StoreError> {
        let mut open = self.open.lock();
        self.expire(&mut open);
        let name = cursor.snapshot.as_str();
        let gone = || {
            if self.quota.has_ended(name) {
                StoreError::Superseded
            } else {
                StoreError::Expired
            }
        };
        let retained = open.views.get_mut(name).ok_or_else(gone)?;
        retained.used = Instant::now();
        self.quota.used(name);
        Ok(Arc::clone(&retained.view))
    }

    /// Protects the view of a cursor from ending for another one.
    pub(super) fn pin(&self, cursor: &Cursor) {
        self.quota.pin(&cursor.snapshot);
    }

    /// Closes a view.
    pub(super) fn close(&self, name: &str) {
        self.open.lock().views.remove(name);
        self.quota.closed(name);
    }

    /// Records that this many bytes of documents are retained by views alone from now on.
    pub(super) fn retire(&self, bytes: usize) {
        let mut open = self.open.lock();
        open.retired += bytes as u64;
        if !open.views.is_empty() {
            self.expire(&mut open);
        }
    }

    fn expire(&self, open: &mut OpenViews) {
        let retired = open.retired;
        open.views.retain(|name, retained| {
            let stays = retained.used.elapsed() < VIEW_LIMITS.keep_alive
                && retired - retained.retired <= RETAINED_BYTES;
            if !stays {
                self.quota.closed(name);
            }
            stays
        });
    }

    /// How many views are open.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.lock().views.len()
    }
}

fn too_many_views(full: QuotaExceeded) -> StoreError {
    let (per_user, all_users) = (VIEW_LIMITS.per_user, VIEW_LIMITS.all_users);
    StoreError::Crowded(match full {
        QuotaExceeded::User => {
            format!(
                "your lists in progress hold as many views as one user may ({per_user}); try again when one has ended"
            )
        }
        QuotaExceeded::Users => format!(
            "lists in pages hold as many views as they may ({all_users}); try again, or list without a limit"
        ),
    })
}

/// The share of a user that a view takes.
fn cost_of(view: &View) -> u64 {
    ((1 + view.own_bytes() / UNIT_BYTES) as u64).min(VIEW_LIMITS.per_user)
}
