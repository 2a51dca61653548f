//! Metrics in the `OpenMetrics` text format.
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>. Label sets are bounded: clusters,
//! kinds (`apps/v1/Deployment`) and stores, never object names. Code that runs for each event looks
//! up its handles once ([`Metrics::unit`], [`Metrics::store`]) and then only touches atomics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak, atomic::AtomicU64},
    time::Duration,
};

use fleetdex_core::model::{ClusterName, Gvk, StoreName};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

use super::{
    gauges::saturating,
    labels::{
        AbortLabels, CloseLabels, ClusterLabels, CodeLabels, DriftLabels, EventLabels, LimitLabels,
        OutcomeLabels, PhaseLabels, ReasonLabels, RelistLabels, SourceLabels, StoreLabels,
        UnitLabels, VerdictLabels,
    },
};
pub use super::{
    handles::{StoreMetrics, UnitMetrics},
    labels::{
        AbortReason, BulkOutcome, BulkVerdict, CloseReason, Drift, EventType, RelistReason,
        UnitPhase,
    },
    lag::LaggingStream,
    webhooks::{CallEnd, JobEnd, WebhookMetrics},
};

/// Upper bounds of the buckets from event to acknowledgement: 5 ms to 164 s, doubling. A healthy
/// store acknowledges well under a second, a slow one in up to minutes.
const ACK_BUCKETS: (f64, f64, u16) = (0.005, 2.0, 16);
/// Upper bounds of the query buckets: 1 ms to 33 s.
const QUERY_BUCKETS: (f64, f64, u16) = (0.001, 2.0, 16);

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Seconds = Family<StoreLabels, Histogram, fn() -> Histogram>;

/// Every metric of the process. Share it in an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Units that have series, which are removed with their cluster.
    known_units: Mutex<BTreeSet<UnitLabels>>,
    /// Units that have fallback documents.
    known_rejected: Mutex<BTreeSet<UnitLabels>>,
    /// The streams whose lag is measured when it is asked for.
    streams: Mutex<Vec<Weak<dyn LaggingStream>>>,
    watch_events: Family<EventLabels, Counter>,
    list_pages: Family<UnitLabels, Counter>,
    list_bytes: Family<UnitLabels, Counter>,
    relists: Family<RelistLabels, Counter>,
    watches_opened: Family<UnitLabels, Counter>,
    watch_expired: Family<UnitLabels, Counter>,
    watch_paused: Family<UnitLabels, Counter>,
    listed_objects_unchanged: Family<UnitLabels, Counter>,
    audits: Family<UnitLabels, Counter>,
    audits_failed: Family<UnitLabels, Counter>,
    drift: Family<DriftLabels, Counter>,
    rejected: Family<UnitLabels, Gauge>,
    script_suspensions: Family<UnitLabels, Counter>,
    cluster_up: Family<ClusterLabels, Gauge>,
    lag: Family<ClusterLabels, Gauge<f64, AtomicU64>>,
    cluster_source_up: Family<SourceLabels, Gauge>,
    clusters_ignored: Family<ReasonLabels, Gauge>,
    units: Family<PhaseLabels, Gauge>,
    bulk_requests: Family<OutcomeLabels, Counter>,
    bulk_items: Family<VerdictLabels, Counter>,
    bulk_bytes: Family<StoreLabels, Counter>,
    bulk_requests_in_flight: Family<StoreLabels, Gauge>,
    pending_documents: Family<StoreLabels, Gauge>,
    pending_bytes: Family<StoreLabels, Gauge>,
    event_to_ack: Seconds,
    index_revisions_replaced: Family<StoreLabels, Counter>,
    replicas: Gauge,
    query_requests: Family<CodeLabels, Counter>,
    query_duration: Histogram,
    requests_rejected: Family<LimitLabels, Counter>,
    responses_aborted: Family<AbortLabels, Counter>,
    connections_closed: Family<CloseLabels, Counter>,
    webhooks: WebhookMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All families, registered under `fleetdex_`, with no series yet.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("fleetdex"),
            known_units: Mutex::default(),
            known_rejected: Mutex::default(),
            streams: Mutex::default(),
            watch_events: Family::default(),
            list_pages: Family::default(),
            list_bytes: Family::default(),
            relists: Family::default(),
            watches_opened: Family::default(),
            watch_expired: Family::default(),
            watch_paused: Family::default(),
            listed_objects_unchanged: Family::default(),
            audits: Family::default(),
            audits_failed: Family::default(),
            drift: Family::default(),
            rejected: Family::default(),
            script_suspensions: Family::default(),
            cluster_up: Family::default(),
            lag: Family::default(),
            cluster_source_up: Family::default(),
            clusters_ignored: Family::default(),
            units: Family::default(),
            bulk_requests: Family::default(),
            bulk_items: Family::default(),
            bulk_bytes: Family::default(),
            bulk_requests_in_flight: Family::default(),
            pending_documents: Family::default(),
            pending_bytes: Family::default(),
            event_to_ack: Family::new_with_constructor(|| histogram(ACK_BUCKETS)),
            index_revisions_replaced: Family::default(),
            replicas: Gauge::default(),
            query_requests: Family::default(),
            query_duration: histogram(QUERY_BUCKETS),
            requests_rejected: Family::default(),
            responses_aborted: Family::default(),
            connections_closed: Family::default(),
            webhooks: WebhookMetrics::default(),
        };
        metrics.register_reading();
        metrics.register_writing();
        metrics.register_serving();
        metrics.webhooks.register(&mut metrics.registry);
        metrics
    }

    fn register_reading(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "watch_events",
            "Events received from watches",
            self.watch_events.clone(),
        );
        registry.register(
            "list_pages",
            "Pages of lists that were received",
            self.list_pages.clone(),
        );
        registry.register(
            "list_bytes",
            "Bytes of list responses after decompression",
            self.list_bytes.clone(),
        );
        registry.register(
            "relists",
            "Complete lists after the first one, by reason",
            self.relists.clone(),
        );
        registry.register(
            "watches_opened",
            "Watches that were opened",
            self.watches_opened.clone(),
        );
        registry.register(
            "watch_expired",
            "Responses or events with code 410: the resourceVersion to resume from is gone",
            self.watch_expired.clone(),
        );
        registry.register(
            "watch_paused",
            "Watches that were closed for a while because the store is slower than the member",
            self.watch_paused.clone(),
        );
        registry.register(
            "listed_objects_unchanged",
            "Listed objects that were stored in the same version already and not written",
            self.listed_objects_unchanged.clone(),
        );
        registry.register(
            "audits",
            "Audits that compared the stored documents with the objects of the member",
            self.audits.clone(),
        );
        registry.register(
            "audits_failed",
            "Audits without a result: the member or the store failed, or the kind was not in sync",
            self.audits_failed.clone(),
        );
        registry.register(
            "drift_documents",
            "Documents that an audit found missing, of another version, or without an object",
            self.drift.clone(),
        );
        registry.register(
            "rejected_documents",
            "Fallback documents, by which only a part of their objects can be found: the store refused the whole document, or the object is too large or too deep",
            self.rejected.clone(),
        );
        registry.register(
            "script_suspensions",
            "Times that a script was suspended, because too many of its runs on objects of the kind reached a limit",
            self.script_suspensions.clone(),
        );
        registry.register(
            "cluster_up",
            "Whether a member is connected (1) or not (0); it is until five probes in a row fail",
            self.cluster_up.clone(),
        );
        registry.register(
            "lag_seconds",
            "How long the oldest received change of a cluster that no store has acknowledged has waited; 0 if there is none",
            self.lag.clone(),
        );
        registry.register(
            "cluster_source_up",
            "Whether a source of clusters was read and can be watched (1) or not (0)",
            self.cluster_source_up.clone(),
        );
        registry.register(
            "clusters_ignored",
            "Registrations of clusters that are ignored in favor of another registration",
            self.clusters_ignored.clone(),
        );
        registry.register(
            "units",
            "List and watch streams by phase",
            self.units.clone(),
        );
    }

    fn register_writing(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "bulk_requests",
            "Bulk requests that completed, by outcome",
            self.bulk_requests.clone(),
        );
        registry.register(
            "bulk_items",
            "Items of bulk requests, by verdict of the store",
            self.bulk_items.clone(),
        );
        registry.register(
            "bulk_bytes",
            "Bytes of bulk requests before compression",
            self.bulk_bytes.clone(),
        );
        registry.register(
            "bulk_requests_in_flight",
            "Bulk requests that wait for their response",
            self.bulk_requests_in_flight.clone(),
        );
        registry.register(
            "pending_documents",
            "Documents with a write that is queued or in flight",
            self.pending_documents.clone(),
        );
        registry.register(
            "pending_bytes",
            "Bytes of the writes that are queued or in flight",
            self.pending_bytes.clone(),
        );
        registry.register(
            "index_revisions_replaced",
            "Index revisions that were replaced because a cluster's history went back",
            self.index_revisions_replaced.clone(),
        );
        registry.register(
            "event_to_ack_seconds",
            "Seconds from the arrival of an event to the store's acknowledgement",
            self.event_to_ack.clone(),
        );
    }

    fn register_serving(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "replicas",
            "Replicas that share the clusters, as seen by this replica; 0 while its Lease is not renewed and it may read none",
            self.replicas.clone(),
        );
        registry.register(
            "query_requests",
            "Requests that the query API answered, by HTTP status",
            self.query_requests.clone(),
        );
        registry.register(
            "query_duration_seconds",
            "Seconds until the first byte of a response of the query API",
            self.query_duration.clone(),
        );
        registry.register(
            "requests_rejected",
            "Requests that were rejected because a concurrency limit was reached, in total or for their user or address",
            self.requests_rejected.clone(),
        );
        registry.register(
            "responses_aborted",
            "Responses that were aborted because the client did not read them, or at their deadline",
            self.responses_aborted.clone(),
        );
        registry.register(
            "connections_closed",
            "Connections to the ports of this process that were refused, or closed while they were idle",
            self.connections_closed.clone(),
        );
        registry.register(
            "build",
            "The version of this process",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
    }

    /// The handles of one kind of one cluster. Units of the same kind share them.
    pub fn unit(&self, cluster: &ClusterName, kind: &Gvk) -> UnitMetrics {
        let labels = UnitLabels {
            cluster: cluster.as_str().into(),
            kind: kind.to_string().into(),
        };
        self.known_units.lock().insert(labels.clone());
        let event = |event| {
            let event_labels = EventLabels {
                cluster: Arc::clone(&labels.cluster),
                kind: Arc::clone(&labels.kind),
                event,
            };
            self.watch_events.get_or_create_owned(&event_labels)
        };
        let drift = |drift| {
            let drift_labels = DriftLabels {
                cluster: Arc::clone(&labels.cluster),
                kind: Arc::clone(&labels.kind),
                drift,
            };
            self.drift.get_or_create_owned(&drift_labels)
        };
        UnitMetrics {
            added: event(EventType::Added),
            modified: event(EventType::Modified),
            deleted: event(EventType::Deleted),
            bookmarks: event(EventType::Bookmark),
            errors: event(EventType::Error),
            list_pages: self.list_pages.get_or_create_owned(&labels),
            list_bytes: self.list_bytes.get_or_create_owned(&labels),
            watches_opened: self.watches_opened.get_or_create_owned(&labels),
            watch_expired: self.watch_expired.get_or_create_owned(&labels),
            watch_paused: self.watch_paused.get_or_create_owned(&labels),
            unchanged: self.listed_objects_unchanged.get_or_create_owned(&labels),
            audits: self.audits.get_or_create_owned(&labels),
            audits_failed: self.audits_failed.get_or_create_owned(&labels),
            missing: drift(Drift::Missing),
            differing: drift(Drift::Differing),
            surplus: drift(Drift::Surplus),
            relists: self.relists.clone(),
            labels,
        }
    }

    /// The handles of interpreter webhooks.
    pub fn webhooks(&self) -> WebhookMetrics {
        self.webhooks.clone()
    }

    /// Sets whether a member is connected.
    pub fn set_cluster_up(&self, cluster: &ClusterName, up: bool) {
        self.cluster_up
            .get_or_create(&ClusterLabels {
                cluster: cluster.as_str().into(),
            })
            .set(i64::from(up));
    }

    /// Sets how many replicas share the clusters.
    pub fn set_replicas(&self, count: usize) {
        self.replicas.set(saturating(count));
    }

    /// Sets whether a source of clusters was read and can be watched.
    pub fn set_cluster_source_up(&self, source: &str, up: bool) {
        self.cluster_source_up
            .get_or_create(&SourceLabels {
                source: source.into(),
            })
            .set(i64::from(up));
    }

    /// Sets how many registrations of clusters are ignored, for a reason such as `NameTaken`.
    pub fn set_clusters_ignored(&self, reason: &'static str, count: usize) {
        self.clusters_ignored
            .get_or_create(&ReasonLabels {
                reason: reason.into(),
            })
            .set(saturating(count));
    }

    /// Sets how many units of a cluster are in a phase.
    pub fn set_units(&self, cluster: &ClusterName, phase: UnitPhase, count: usize) {
        let labels = PhaseLabels {
            cluster: cluster.as_str().into(),
            phase,
        };
        self.units.get_or_create(&labels).set(saturating(count));
    }

    /// Sets the number of fallback documents of each kind; a kind without any has no series.
    pub fn set_rejected<'u>(&self, counts: impl Iterator<Item = (&'u ClusterName, &'u Gvk, u64)>) {
        let mut current: BTreeMap<UnitLabels, u64> = BTreeMap::new();
        for (cluster, kind, count) in counts.filter(|(_, _, count)| *count > 0) {
            *current
                .entry(UnitLabels {
                    cluster: cluster.as_str().into(),
                    kind: kind.to_string().into(),
                })
                .or_default() += count;
        }
        let mut known = self.known_rejected.lock();
        for gone in known.iter().filter(|labels| !current.contains_key(labels)) {
            self.rejected.remove(gone);
        }
        for (labels, count) in &current {
            self.rejected
                .get_or_create(labels)
                .set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        *known = current.into_keys().collect();
    }

    /// Counts one suspension of a script.
    pub fn script_suspended(&self, cluster: &ClusterName, kind: &Gvk) {
        let labels = UnitLabels {
            cluster: cluster.as_str().into(),
            kind: kind.to_string().into(),
        };
        self.script_suspensions.get_or_create(&labels).inc();
        self.known_units.lock().insert(labels);
    }

    /// Removes every series of a member that was removed.
    pub fn forget_cluster(&self, cluster: &ClusterName) {
        let name: Arc<str> = cluster.as_str().into();
        self.cluster_up.remove(&ClusterLabels {
            cluster: Arc::clone(&name),
        });
        for phase in UnitPhase::ALL {
            self.units.remove(&PhaseLabels {
                cluster: Arc::clone(&name),
                phase,
            });
        }
        let mut known = self.known_units.lock();
        let gone: Vec<UnitLabels> = known
            .iter()
            .filter(|unit| unit.cluster == name)
            .cloned()
            .collect();
        for unit in gone {
            self.remove_unit(&unit);
            known.remove(&unit);
        }
    }

    /// Removes the series of one kind of one cluster. Call it when the last stream of the kind has
    /// ended.
    pub fn forget_unit(&self, cluster: &ClusterName, kind: &Gvk) {
        let labels = UnitLabels {
            cluster: cluster.as_str().into(),
            kind: kind.to_string().into(),
        };
        self.remove_unit(&labels);
        self.known_units.lock().remove(&labels);
    }

    fn remove_unit(&self, labels: &UnitLabels) {
        use EventType as Event;
        use RelistReason as Reason;
        let by_unit = [
            &self.list_pages,
            &self.list_bytes,
            &self.listed_objects_unchanged,
            &self.audits,
            &self.audits_failed,
            &self.script_suspensions,
        ];
        for family in by_unit.into_iter().chain([
            &self.watches_opened,
            &self.watch_expired,
            &self.watch_paused,
        ]) {
            family.remove(labels);
        }
        let UnitLabels { cluster, kind } = labels;
        for event in [
            Event::Added,
            Event::Modified,
            Event::Deleted,
            Event::Bookmark,
            Event::Error,
        ] {
            self.watch_events.remove(&EventLabels {
                cluster: Arc::clone(cluster),
                kind: Arc::clone(kind),
                event,
            });
        }
        for drift in [Drift::Missing, Drift::Differing, Drift::Surplus] {
            self.drift.remove(&DriftLabels {
                cluster: Arc::clone(cluster),
                kind: Arc::clone(kind),
                drift,
            });
        }
        for reason in [Reason::Expired, Reason::Error] {
            self.relists.remove(&RelistLabels {
                cluster: Arc::clone(cluster),
                kind: Arc::clone(kind),
                reason,
            });
        }
    }

    /// The handles of one store.
    pub fn store(&self, store: &StoreName) -> StoreMetrics {
        let labels = StoreLabels {
            store: store.as_str().into(),
        };
        let items = |verdict| {
            self.bulk_items.get_or_create_owned(&VerdictLabels {
                store: Arc::clone(&labels.store),
                verdict,
            })
        };
        let requests = |outcome| {
            self.bulk_requests.get_or_create_owned(&OutcomeLabels {
                store: Arc::clone(&labels.store),
                outcome,
            })
        };
        StoreMetrics {
            answered: requests(BulkOutcome::Answered),
            failed: requests(BulkOutcome::Failed),
            indexed: items(BulkVerdict::Indexed),
            deleted: items(BulkVerdict::Deleted),
            superseded: items(BulkVerdict::Superseded),
            absent: items(BulkVerdict::Absent),
            retried: items(BulkVerdict::Retried),
            rejected: items(BulkVerdict::Rejected),
            fallback: items(BulkVerdict::Fallback),
            given_up: items(BulkVerdict::GivenUp),
            revisions_replaced: self.index_revisions_replaced.get_or_create_owned(&labels),
            bulk_bytes: self.bulk_bytes.get_or_create_owned(&labels),
            bulk_requests_in_flight: self.bulk_requests_in_flight.get_or_create_owned(&labels),
            pending_documents: self.pending_documents.get_or_create_owned(&labels),
            pending_bytes: self.pending_bytes.get_or_create_owned(&labels),
            event_to_ack: self.event_to_ack.get_or_create_owned(&labels),
        }
    }

    /// Counts one request that the query API answered.
    pub fn query_answered(&self, code: u16, seconds: f64) {
        self.query_requests
            .get_or_create(&CodeLabels { code })
            .inc();
        self.query_duration.observe(seconds);
    }

    /// The counter of requests that a limit such as `sessions` rejects.
    pub fn rejected_requests(&self, limit: &'static str) -> Counter {
        self.requests_rejected.get_or_create_owned(&LimitLabels {
            limit: limit.into(),
        })
    }

    /// Counts one response that was aborted.
    pub fn response_aborted(&self, reason: AbortReason) {
        self.responses_aborted
            .get_or_create(&AbortLabels { reason })
            .inc();
    }

    /// Counts one connection that was closed or refused.
    pub fn connection_closed(&self, reason: CloseReason) {
        self.connections_closed
            .get_or_create(&CloseLabels { reason })
            .inc();
    }

    /// Measures the lag of a stream from now on, as long as it exists.
    pub fn measure_lag(&self, stream: &Arc<impl LaggingStream + 'static>) {
        let stream: Weak<dyn LaggingStream> = Arc::downgrade(stream) as _;
        let mut streams = self.streams.lock();
        // Streams that have ended must not stay if the metrics are never read.
        if streams.len() == streams.capacity() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(stream);
    }

    /// The lag of each cluster that has a stream: the longest of its streams.
    pub fn lags(&self) -> BTreeMap<ClusterName, Duration> {
        longest(&mut self.streams.lock())
    }

    /// All metrics as text, in the format that [`CONTENT_TYPE`] names.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        // Held until the end, so that each text has the gauges of its own time.
        let mut streams = self.streams.lock();
        self.lag.clear();
        for (cluster, lag) in longest(&mut streams) {
            let labels = ClusterLabels {
                cluster: cluster.as_str().into(),
            };
            self.lag.get_or_create(&labels).set(lag.as_secs_f64());
        }
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Drops the streams that have ended.
fn longest(streams: &mut Vec<Weak<dyn LaggingStream>>) -> BTreeMap<ClusterName, Duration> {
    let mut lags: BTreeMap<ClusterName, Duration> = BTreeMap::new();
    streams.retain(|stream| {
        let Some(stream) = stream.upgrade() else {
            return false;
        };
        let longest = lags.entry(stream.cluster()).or_default();
        *longest = stream.lag().max(*longest);
        true
    });
    lags
}

fn histogram((start, factor, length): (f64, f64, u16)) -> Histogram {
    Histogram::new(exponential_buckets(start, factor, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Gvk {
        Gvk::new("", "v1", "Pod")
    }

    #[test]
    fn series_have_the_documented_names_and_labels() {
        let metrics = Metrics::new();
        let unit = metrics.unit(&"member1".parse().unwrap(), &pods());
        unit.events(EventType::Modified).inc();
        unit.relisted(RelistReason::Expired);
        let store = metrics.store(&"main".parse().unwrap());
        store.items(BulkVerdict::Superseded).inc_by(3);
        store.set_pending(2, 700);
        store.event_to_ack.observe(0.02);
        metrics.set_cluster_up(&"member1".parse().unwrap(), true);
        metrics.set_units(&"member1".parse().unwrap(), UnitPhase::Watching, 4);
        metrics.query_answered(410, 0.1);
        metrics.rejected_requests("sessions").inc();
        metrics.response_aborted(AbortReason::SlowClient);
        metrics.connection_closed(CloseReason::Evicted);
        let text = metrics.encode().unwrap();
        for line in [
            r#"fleetdex_watch_events_total{cluster="member1",kind="v1/Pod",event="modified"} 1"#,
            r#"fleetdex_relists_total{cluster="member1",kind="v1/Pod",reason="expired"} 1"#,
            r#"fleetdex_bulk_items_total{store="main",verdict="superseded"} 3"#,
            r#"fleetdex_pending_bytes{store="main"} 700"#,
            r#"fleetdex_event_to_ack_seconds_count{store="main"} 1"#,
            r#"fleetdex_cluster_up{cluster="member1"} 1"#,
            r#"fleetdex_units{cluster="member1",phase="watching"} 4"#,
            r#"fleetdex_query_requests_total{code="410"} 1"#,
            r#"fleetdex_requests_rejected_total{limit="sessions"} 1"#,
            r#"fleetdex_responses_aborted_total{reason="slow_client"} 1"#,
            r#"fleetdex_connections_closed_total{reason="evicted"} 1"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in:\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[derive(Debug)]
    struct Stream(&'static str, u64);

    impl LaggingStream for Stream {
        fn cluster(&self) -> ClusterName {
            self.0.parse().unwrap()
        }

        fn lag(&self) -> Duration {
            Duration::from_millis(self.1)
        }
    }

    #[test]
    fn the_lag_of_a_cluster_is_the_longest_of_its_streams_that_exist() {
        let metrics = Metrics::new();
        let streams = [
            Stream("member1", 250),
            Stream("member1", 500),
            Stream("member2", 0),
        ]
        .map(Arc::new);
        for stream in &streams {
            metrics.measure_lag(stream);
        }
        let text = metrics.encode().unwrap();
        assert!(text.contains("fleetdex_lag_seconds{cluster=\"member1\"} 0.5\n"));
        assert!(text.contains("fleetdex_lag_seconds{cluster=\"member2\"} 0.0\n"));
        drop(streams);
        assert_eq!(metrics.lags(), BTreeMap::new());
        assert!(!metrics.encode().unwrap().contains("fleetdex_lag_seconds{"));
    }

    #[test]
    fn a_kind_without_fallback_documents_has_no_series() {
        let metrics = Metrics::new();
        let (cluster, pod) = ("member1".parse().unwrap(), pods());
        metrics.set_rejected(
            [
                (&cluster, &pod, 2),
                (&cluster, &pod, 1),
                (&cluster, &Gvk::new("", "v1", "Node"), 0),
            ]
            .into_iter(),
        );
        let text = metrics.encode().unwrap();
        let series: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("fleetdex_rejected_documents{"))
            .collect();
        assert_eq!(
            series,
            [r#"fleetdex_rejected_documents{cluster="member1",kind="v1/Pod"} 3"#]
        );
        metrics.set_rejected(std::iter::empty());
        assert!(!metrics.encode().unwrap().contains("v1/Pod"));
    }

    #[test]
    fn only_the_series_of_a_removed_cluster_are_removed() {
        let metrics = Metrics::new();
        for cluster in ["member1", "member2"] {
            let unit = metrics.unit(&cluster.parse().unwrap(), &pods());
            unit.events(EventType::Added).inc();
            unit.relisted(RelistReason::Error);
            metrics.set_cluster_up(&cluster.parse().unwrap(), false);
            metrics.set_units(&cluster.parse().unwrap(), UnitPhase::Listing, 1);
        }
        metrics.forget_cluster(&"member1".parse().unwrap());
        let text = metrics.encode().unwrap();
        assert!(!text.contains("member1"), "{text}");
        assert!(text.contains("member2"));
        metrics.forget_unit(&"member2".parse().unwrap(), &pods());
        assert!(!metrics.encode().unwrap().contains("v1/Pod"));
    }
}
