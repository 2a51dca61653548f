//! Metric handles for code that runs for each event: atomics that are looked up once.

use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use super::{
    gauges::saturating,
    labels::{BulkOutcome, BulkVerdict, Drift, EventType, RelistLabels, RelistReason, UnitLabels},
};

/// The counters of traces.
#[derive(Clone, Debug)]
pub struct SpanMetrics {
    /// Spans that the collector accepted.
    pub exported: Counter,
    /// Spans that were dropped because too many waited.
    pub queue_full: Counter,
    /// Spans that were dropped because the collector did not accept them.
    pub not_accepted: Counter,
}

/// The counters of one kind of one cluster.
#[derive(Clone, Debug)]
pub struct UnitMetrics {
    pub(super) events: [Counter; EventType::ALL.len()],
    /// Pages of lists.
    pub list_pages: Counter,
    /// Bytes of those pages.
    pub list_bytes: Counter,
    /// Watches that were opened.
    pub watches_opened: Counter,
    /// Responses and events with code 410.
    pub watch_expired: Counter,
    /// Watches that were closed for a while because the store is slower than the member.
    pub watch_paused: Counter,
    /// Listed objects that were stored in the same version already.
    pub unchanged: Counter,
    /// Audits with a result.
    pub audits: Counter,
    /// Audits without a result.
    pub audits_failed: Counter,
    pub(super) drift: [Counter; Drift::ALL.len()],
    pub(super) relists: Family<RelistLabels, Counter>,
    pub(super) labels: UnitLabels,
}

impl UnitMetrics {
    /// The counter of one type of event.
    pub fn events(&self, event: EventType) -> &Counter {
        &self.events[event as usize]
    }

    /// The counter of one kind of drift.
    pub fn drift(&self, drift: Drift) -> &Counter {
        &self.drift[drift as usize]
    }

    /// Counts a complete list after the first one.
    pub fn relisted(&self, reason: RelistReason) {
        let UnitLabels { cluster, kind } = self.labels.clone();
        let labels = RelistLabels::new(cluster, kind, reason);
        self.relists.get_or_create(&labels).inc();
    }
}

/// The metrics of one store's writer.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    pub(super) requests: [Counter; BulkOutcome::ALL.len()],
    pub(super) items: [Counter; BulkVerdict::ALL.len()],
    /// Index revisions that were replaced because the history of their cluster went back.
    pub revisions_replaced: Counter,
    /// Bytes of bulk requests, before compression.
    pub bulk_bytes: Counter,
    /// Bulk requests that wait for their response.
    pub bulk_requests_in_flight: Gauge,
    /// Documents with a write that is queued or in flight.
    pub pending_documents: Gauge,
    /// The bytes of those writes.
    pub pending_bytes: Gauge,
    /// Seconds from an event's arrival to the store's acknowledgement.
    pub event_to_ack: Histogram,
}

impl StoreMetrics {
    /// The counter of requests with an outcome.
    pub fn requests(&self, outcome: BulkOutcome) -> &Counter {
        &self.requests[outcome as usize]
    }

    /// The counter of items with a verdict.
    pub fn items(&self, verdict: BulkVerdict) -> &Counter {
        &self.items[verdict as usize]
    }

    /// Sets the gauges of pending writes.
    pub fn set_pending(&self, documents: usize, bytes: usize) {
        self.pending_documents.set(saturating(documents));
        self.pending_bytes.set(saturating(bytes));
    }
}
