//! What code that runs for each event holds of the metrics: atomics that were looked up once.

use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use super::{
    labels::{BulkOutcome, BulkVerdict, Drift, RelistLabels, RelistReason, UnitLabels, WatchEvent},
    metrics::saturating,
};

/// The counters of one kind of one cluster.
#[derive(Clone, Debug)]
pub struct UnitMetrics {
    pub(super) added: Counter,
    pub(super) modified: Counter,
    pub(super) deleted: Counter,
    pub(super) bookmarks: Counter,
    pub(super) errors: Counter,
    /// Pages of lists that were read.
    pub lists: Counter,
    /// Bytes of those pages.
    pub list_bytes: Counter,
    /// Watches that ended and were opened again.
    pub watch_restarts: Counter,
    /// 410 answers, as a status or as an event.
    pub watch_expired: Counter,
    /// Watches that were given up for a while because the store is slower.
    pub watch_paused: Counter,
    /// Listed objects that were stored as they are.
    pub unchanged: Counter,
    /// Audits that came to a result.
    pub audits: Counter,
    /// Audits that came to none.
    pub audits_failed: Counter,
    pub(super) missing: Counter,
    pub(super) differing: Counter,
    pub(super) surplus: Counter,
    pub(super) relists: Family<RelistLabels, Counter>,
    pub(super) labels: UnitLabels,
}

impl UnitMetrics {
    /// The counter of one type of event.
    pub fn events(&self, event: WatchEvent) -> &Counter {
        match event {
            WatchEvent::Added => &self.added,
            WatchEvent::Modified => &self.modified,
            WatchEvent::Deleted => &self.deleted,
            WatchEvent::Bookmark => &self.bookmarks,
            WatchEvent::Error => &self.errors,
        }
    }

    /// The counter of one sort of drift.
    pub fn drift(&self, drift: Drift) -> &Counter {
        match drift {
            Drift::Missing => &self.missing,
            Drift::Differing => &self.differing,
            Drift::Surplus => &self.surplus,
        }
    }

    /// Counts a complete list after the first.
    pub fn relisted(&self, reason: RelistReason) {
        let UnitLabels { cluster, kind } = self.labels.clone();
        self.relists
            .get_or_create(&RelistLabels {
                cluster,
                kind,
                reason,
            })
            .inc();
    }
}

/// The metrics of one store's writer.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    pub(super) answered: Counter,
    pub(super) failed: Counter,
    pub(super) indexed: Counter,
    pub(super) deleted: Counter,
    pub(super) superseded: Counter,
    pub(super) absent: Counter,
    pub(super) retried: Counter,
    pub(super) rejected: Counter,
    pub(super) fallback: Counter,
    pub(super) given_up: Counter,
    /// Generations that took the place of one whose cluster's history went back.
    pub renewed: Counter,
    /// Bytes of bulk requests, before compression.
    pub bulk_bytes: Counter,
    /// Bulk requests that wait for their answer.
    pub bulk_in_flight: Gauge,
    /// Changes that wait to be sent.
    pub pending_documents: Gauge,
    /// Their bytes.
    pub pending_bytes: Gauge,
    /// Seconds from an event's arrival to the store's acknowledgement.
    pub event_to_ack: Histogram,
}

impl StoreMetrics {
    /// The counter of requests that ended so.
    pub fn requests(&self, outcome: BulkOutcome) -> &Counter {
        match outcome {
            BulkOutcome::Answered => &self.answered,
            BulkOutcome::Failed => &self.failed,
        }
    }

    /// The counter of items of which this became.
    pub fn items(&self, verdict: BulkVerdict) -> &Counter {
        match verdict {
            BulkVerdict::Indexed => &self.indexed,
            BulkVerdict::Deleted => &self.deleted,
            BulkVerdict::Superseded => &self.superseded,
            BulkVerdict::Absent => &self.absent,
            BulkVerdict::Retried => &self.retried,
            BulkVerdict::Rejected => &self.rejected,
            BulkVerdict::Fallback => &self.fallback,
            BulkVerdict::GivenUp => &self.given_up,
        }
    }

    /// Sets what waits to be sent.
    pub fn set_pending(&self, documents: usize, bytes: usize) {
        self.pending_documents.set(saturating(documents));
        self.pending_bytes.set(saturating(bytes));
    }
}
