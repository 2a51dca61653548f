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

pub use super::{
    certificates::CertificateInUse,
    distribution::{DistributionMetrics, DistributionWrite, RolloutCount, SetPhase},
    families::{Description, MetricLabel},
    handles::{SpanMetrics, StoreMetrics, UnitMetrics},
    labels::{
        AbortReason, BulkOutcome, BulkVerdict, CertificateUse, CloseReason, Drift, DropReason,
        EventType, RelistReason, TaskKind, UnitPhase,
    },
    lag::LaggingStream,
    webhooks::{CallEnd, JobEnd, WebhookMetrics},
};
use super::{
    certificates::Certificates,
    evaluations::EvaluationSteps,
    families::{PREFIX, families},
    gauges::saturating,
    labels::{
        AbortLabels, CertificateLabels, CloseLabels, ClusterLabels, CodeLabels, DriftLabels,
        DropLabels, EventLabels, LimitLabels, OutcomeLabels, PhaseLabels, ReasonLabels,
        RelistLabels, SourceLabels, StoreLabels, TaskLabels, UnitLabels, VerdictLabels,
    },
    process::ProcessCollector,
};

/// Upper bounds of the buckets from event to acknowledgement: 5 ms to 164 s, doubling. A healthy
/// store acknowledges well under a second, a slow one in up to minutes.
const ACK_BUCKETS: (f64, f64, u16) = (0.005, 2.0, 16);
/// Upper bounds of the query buckets: 1 ms to 33 s.
const QUERY_BUCKETS: (f64, f64, u16) = (0.001, 2.0, 16);

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const BUILD_HELP: &str = "The version of this process";

type Seconds = Family<StoreLabels, Histogram, fn() -> Histogram>;

families! {
    /// Every family except those of webhooks.
    Families {
        watch_events: Family<EventLabels, Counter> = Family::default(), "watch_events", Count,
            "Events received from watches";
        list_pages: Family<UnitLabels, Counter> = Family::default(), "list_pages", Count,
            "Pages of lists that were received";
        list_bytes: Family<UnitLabels, Counter> = Family::default(), "list", Bytes,
            "Size of list responses after decompression";
        relists: Family<RelistLabels, Counter> = Family::default(), "relists", Count,
            "Complete lists after the first one: the resourceVersion to resume from is gone (expired), or the watch failed and its state is in doubt (error)";
        watches_opened: Family<UnitLabels, Counter> = Family::default(), "watches_opened", Count,
            "Watches that were opened";
        watch_expired: Family<UnitLabels, Counter> = Family::default(), "watch_expired", Count,
            "Responses or events with code 410: the resourceVersion to resume from is gone";
        watch_paused: Family<UnitLabels, Counter> = Family::default(), "watch_paused", Count,
            "Watches that were closed for a while because the store is slower than the member";
        listed_objects_unchanged: Family<UnitLabels, Counter> = Family::default(), "listed_objects_unchanged", Count,
            "Listed objects that were stored in the same version already and not written";
        audits: Family<UnitLabels, Counter> = Family::default(), "audits", Count,
            "Audits that compared the stored documents with the objects of the member";
        audits_failed: Family<UnitLabels, Counter> = Family::default(), "audits_failed", Count,
            "Audits without a result: the member or the store failed, or the kind was not in sync";
        drift: Family<DriftLabels, Counter> = Family::default(), "drift_documents", Count,
            "Documents that an audit found wrong: missing, of another version (differing), or without an object (surplus)";
        rejected: Family<UnitLabels, Gauge> = Family::default(), "rejected_documents", Count,
            "Fallback documents, by which only a part of their objects can be found, 10,000 of a kind at most: the store refused the whole document, or the object is too large or too deep. There is no series where there are none";
        script_suspensions: Family<UnitLabels, Counter> = Family::default(), "script_suspensions", Count,
            "Times that a script was suspended, because too many of its runs on objects of the kind reached a limit";
        cluster_up: Family<ClusterLabels, Gauge> = Family::default(), "cluster_up", Count,
            "Whether a member is connected (1) or not (0); it is until five probes in a row fail";
        lag: Family<ClusterLabels, Gauge<f64, AtomicU64>> = Family::default(), "lag", Seconds,
            "How long the oldest received change of a cluster that no store has acknowledged has waited; 0 if there is none. What a disconnected member does not send is not in it";
        cluster_source_up: Family<SourceLabels, Gauge> = Family::default(), "cluster_source_up", Count,
            "Whether a source of clusters was read and can be watched (1) or not (0)";
        clusters_ignored: Family<ReasonLabels, Gauge> = Family::default(), "clusters_ignored", Count,
            "Registrations of clusters that are ignored in favor of another registration";
        units: Family<PhaseLabels, Gauge> = Family::default(), "units", Count,
            "List and watch streams by phase: in their first list or a later one (listing), watching, waiting to try again after a failure (waiting), or failed until the cause is removed (failed)";
        bulk_requests: Family<OutcomeLabels, Counter> = Family::default(), "bulk_requests", Count,
            "Bulk requests that completed: the store answered item by item (answered), or refused the request or did not answer (failed)";
        bulk_items: Family<VerdictLabels, Counter> = Family::default(), "bulk_items", Count,
            "Items of bulk requests: the document was written (indexed) or deleted; the store holds a newer version (superseded); there was nothing to delete (absent); it is sent again (retried); the store refused it (rejected) and a fallback document was stored (fallback); it was dropped because its index is gone, and its cluster is read again (given_up)";
        bulk_bytes: Family<StoreLabels, Counter> = Family::default(), "bulk", Bytes,
            "Size of bulk requests before compression";
        bulk_requests_in_flight: Family<StoreLabels, Gauge> = Family::default(), "bulk_requests_in_flight", Count,
            "Bulk requests that wait for their response";
        pending_documents: Family<StoreLabels, Gauge> = Family::default(), "pending_documents", Count,
            "Documents with a write that is queued or in flight";
        pending_bytes: Family<StoreLabels, Gauge> = Family::default(), "pending", Bytes,
            "Size of the writes that are queued or in flight. From 8 MiB on, lists wait and watches are paused; 40 MiB is the limit";
        index_revisions_replaced: Family<StoreLabels, Counter> = Family::default(), "index_revisions_replaced", Count,
            "Index revisions that were replaced because a cluster's history went back";
        event_to_ack: Seconds = Family::new_with_constructor(|| histogram(ACK_BUCKETS)), "event_to_ack", Seconds,
            "Time from the arrival of an event to the store's acknowledgement";
        replicas: Gauge = Gauge::default(), "replicas", Count,
            "Replicas that share the clusters, as seen by this replica; 1 without --replicas, 0 while its Lease is not renewed and it may read no cluster";
        query_requests: Family<CodeLabels, Counter> = Family::default(), "query_requests", Count,
            "Requests that the query API answered, by HTTP status";
        query_duration: Histogram = histogram(QUERY_BUCKETS), "query_duration", Seconds,
            "Time until the first byte of a response of the query API";
        evaluation_steps: EvaluationSteps = EvaluationSteps, "evaluation_steps", Ratio,
            "The largest share of the steps it may take that an evaluation took: the cells of a Table, or of all Table events of a watch (table), all redactions of an object (redaction), a change that is compared with the selectors and words of a watch (watched_change), the patch of a webhook (patch). Those that took none are not counted";
        requests_rejected: Family<LimitLabels, Counter> = Family::default(), "requests_rejected", Count,
            "Requests that were rejected because a concurrency limit was reached, in total or for their user or address";
        responses_aborted: Family<AbortLabels, Counter> = Family::default(), "responses_aborted", Count,
            "Responses that were aborted because the client read nothing for 30 s (slow_client), or at their deadline (deadline_exceeded)";
        connections_closed: Family<CloseLabels, Counter> = Family::default(), "connections_closed", Count,
            "Connections to any port of this process that were refused at the limit, closed for a new one while they were idle (evicted), or idle for too long (idle)";
        longest_poll: Family<TaskLabels, Gauge<f64, AtomicU64>> = Family::default(), "longest_poll", Seconds,
            "The longest time since the start that one step of a task kept a thread that serves: of requests and their responses, and of streams of members";
        spans_exported: Counter = Counter::default(), "trace_spans_exported", Count,
            "Spans of traces that the collector accepted";
        spans_dropped: Family<DropLabels, Counter> = Family::default(), "trace_spans_dropped", Count,
            "Spans of traces that were dropped: too many waited for the collector (queue_full), or it did not accept them (not_accepted)";
        certificate_expiry: Family<CertificateLabels, Gauge> = Family::default(), "certificate_expiry_timestamp", TimestampSeconds,
            "When a certificate in use ends: that of the query API (serving), or one with which Fleetdex authenticates to the member (member_client) or store (store_client) in the label name";
    }
}

/// Every metric of the process. Share it in an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Families,
    certificates: Certificates,
    /// Units that have series, which are removed with their cluster.
    known_units: Mutex<BTreeSet<UnitLabels>>,
    /// Units that have fallback documents.
    known_rejected: Mutex<BTreeSet<UnitLabels>>,
    /// The streams whose lag is measured when it is asked for.
    streams: Mutex<Vec<Weak<dyn LaggingStream>>>,
    webhooks: WebhookMetrics,
    distribution: DistributionMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All families, registered under `fleetdex_`, with no series yet.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Registry::default(),
            families: Families::default(),
            certificates: Certificates::default(),
            known_units: Mutex::default(),
            known_rejected: Mutex::default(),
            streams: Mutex::default(),
            webhooks: WebhookMetrics::default(),
            distribution: DistributionMetrics::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let own = self.registry.sub_registry_with_prefix(PREFIX);
        self.families.register(own);
        self.webhooks.register(own);
        self.distribution.register(own);
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        own.register("build", BUILD_HELP, Info::new(version));
        self.registry
            .register_collector(Box::new(ProcessCollector::new()));
        self
    }

    /// Every family that [`Self::encode`] may print, sorted by name.
    pub fn descriptions() -> Vec<Description> {
        let build = Description {
            name: format!("{PREFIX}_build_info"),
            kind: "info".to_owned(),
            unit: None,
            labels: &[MetricLabel {
                name: "version",
                values: &[],
            }],
            help: BUILD_HELP,
        };
        let mut all = Families::descriptions();
        all.extend(WebhookMetrics::descriptions());
        all.extend(DistributionMetrics::descriptions());
        all.extend(ProcessCollector::descriptions());
        all.push(build);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The handles of one kind of one cluster. Units of the same kind share them.
    pub fn unit(&self, cluster: &ClusterName, kind: &Gvk) -> UnitMetrics {
        let labels = UnitLabels::new(cluster.as_str(), kind.to_string());
        self.known_units.lock().insert(labels.clone());
        let UnitLabels { cluster, kind } = &labels;
        let event = |event| {
            let labels = EventLabels::new(Arc::clone(cluster), Arc::clone(kind), event);
            self.families.watch_events.get_or_create_owned(&labels)
        };
        let drift = |drift| {
            let labels = DriftLabels::new(Arc::clone(cluster), Arc::clone(kind), drift);
            self.families.drift.get_or_create_owned(&labels)
        };
        UnitMetrics {
            events: EventType::ALL.map(event),
            list_pages: self.families.list_pages.get_or_create_owned(&labels),
            list_bytes: self.families.list_bytes.get_or_create_owned(&labels),
            watches_opened: self.families.watches_opened.get_or_create_owned(&labels),
            watch_expired: self.families.watch_expired.get_or_create_owned(&labels),
            watch_paused: self.families.watch_paused.get_or_create_owned(&labels),
            unchanged: self
                .families
                .listed_objects_unchanged
                .get_or_create_owned(&labels),
            audits: self.families.audits.get_or_create_owned(&labels),
            audits_failed: self.families.audits_failed.get_or_create_owned(&labels),
            drift: Drift::ALL.map(drift),
            relists: self.families.relists.clone(),
            labels,
        }
    }

    /// The handles of interpreter webhooks.
    pub fn webhooks(&self) -> WebhookMetrics {
        self.webhooks.clone()
    }

    /// The handles of distribution.
    pub fn distribution(&self) -> DistributionMetrics {
        self.distribution.clone()
    }

    /// Sets whether a member is connected.
    pub fn set_cluster_up(&self, cluster: &ClusterName, up: bool) {
        let labels = ClusterLabels::new(cluster.as_str());
        let gauge = self.families.cluster_up.get_or_create(&labels);
        gauge.set(i64::from(up));
    }

    /// Sets how many replicas share the clusters.
    pub fn set_replicas(&self, count: usize) {
        self.families.replicas.set(saturating(count));
    }

    /// Sets whether a source of clusters was read and can be watched.
    pub fn set_cluster_source_up(&self, source: &str, up: bool) {
        let labels = SourceLabels::new(source);
        let gauge = self.families.cluster_source_up.get_or_create(&labels);
        gauge.set(i64::from(up));
    }

    /// Sets how many registrations of clusters are ignored, for a reason such as `NameTaken`.
    pub fn set_clusters_ignored(&self, reason: &'static str, count: usize) {
        let labels = ReasonLabels::new(reason);
        let gauge = self.families.clusters_ignored.get_or_create(&labels);
        gauge.set(saturating(count));
    }

    /// Sets how many units of a cluster are in a phase.
    pub fn set_units(&self, cluster: &ClusterName, phase: UnitPhase, count: usize) {
        let labels = PhaseLabels::new(cluster.as_str(), phase);
        let gauge = self.families.units.get_or_create(&labels);
        gauge.set(saturating(count));
    }

    /// Sets the number of fallback documents of each kind; a kind without any has no series.
    pub fn set_rejected<'u>(&self, counts: impl Iterator<Item = (&'u ClusterName, &'u Gvk, u64)>) {
        let mut current: BTreeMap<UnitLabels, u64> = BTreeMap::new();
        for (cluster, kind, count) in counts.filter(|(_, _, count)| *count > 0) {
            let labels = UnitLabels::new(cluster.as_str(), kind.to_string());
            *current.entry(labels).or_default() += count;
        }
        let mut known = self.known_rejected.lock();
        for gone in known.iter().filter(|labels| !current.contains_key(labels)) {
            self.families.rejected.remove(gone);
        }
        for (labels, count) in &current {
            let gauge = self.families.rejected.get_or_create(labels);
            gauge.set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        *known = current.into_keys().collect();
    }

    /// Counts one suspension of a script.
    pub fn script_suspended(&self, cluster: &ClusterName, kind: &Gvk) {
        let labels = UnitLabels::new(cluster.as_str(), kind.to_string());
        let counter = self
            .families
            .script_suspensions
            .get_or_create_owned(&labels);
        counter.inc();
        self.known_units.lock().insert(labels);
    }

    /// Removes every series of a member that was removed.
    pub fn forget_cluster(&self, cluster: &ClusterName) {
        let name: Arc<str> = cluster.as_str().into();
        let labels = ClusterLabels::new(Arc::clone(&name));
        self.families.cluster_up.remove(&labels);
        for phase in UnitPhase::ALL {
            let labels = PhaseLabels::new(Arc::clone(&name), phase);
            self.families.units.remove(&labels);
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
        let labels = UnitLabels::new(cluster.as_str(), kind.to_string());
        self.remove_unit(&labels);
        self.known_units.lock().remove(&labels);
    }

    fn remove_unit(&self, labels: &UnitLabels) {
        for family in [
            &self.families.list_pages,
            &self.families.list_bytes,
            &self.families.listed_objects_unchanged,
            &self.families.audits,
            &self.families.audits_failed,
            &self.families.script_suspensions,
            &self.families.watches_opened,
            &self.families.watch_expired,
            &self.families.watch_paused,
        ] {
            family.remove(labels);
        }
        let UnitLabels { cluster, kind } = labels;
        for event in EventType::ALL {
            let labels = EventLabels::new(Arc::clone(cluster), Arc::clone(kind), event);
            self.families.watch_events.remove(&labels);
        }
        for drift in Drift::ALL {
            let labels = DriftLabels::new(Arc::clone(cluster), Arc::clone(kind), drift);
            self.families.drift.remove(&labels);
        }
        for reason in RelistReason::ALL {
            let labels = RelistLabels::new(Arc::clone(cluster), Arc::clone(kind), reason);
            self.families.relists.remove(&labels);
        }
    }

    /// The handles of one store.
    pub fn store(&self, store: &StoreName) -> StoreMetrics {
        let labels = StoreLabels::new(store.as_str());
        let items = |verdict| {
            let labels = VerdictLabels::new(Arc::clone(&labels.store), verdict);
            self.families.bulk_items.get_or_create_owned(&labels)
        };
        let requests = |outcome| {
            let labels = OutcomeLabels::new(Arc::clone(&labels.store), outcome);
            self.families.bulk_requests.get_or_create_owned(&labels)
        };
        StoreMetrics {
            requests: BulkOutcome::ALL.map(requests),
            items: BulkVerdict::ALL.map(items),
            revisions_replaced: self
                .families
                .index_revisions_replaced
                .get_or_create_owned(&labels),
            bulk_bytes: self.families.bulk_bytes.get_or_create_owned(&labels),
            bulk_requests_in_flight: self
                .families
                .bulk_requests_in_flight
                .get_or_create_owned(&labels),
            pending_documents: self.families.pending_documents.get_or_create_owned(&labels),
            pending_bytes: self.families.pending_bytes.get_or_create_owned(&labels),
            event_to_ack: self.families.event_to_ack.get_or_create_owned(&labels),
        }
    }

    /// The handles of traces.
    pub fn spans(&self) -> SpanMetrics {
        let dropped = |reason| {
            let labels = DropLabels::new(reason);
            self.families.spans_dropped.get_or_create_owned(&labels)
        };
        SpanMetrics {
            exported: self.families.spans_exported.clone(),
            queue_full: dropped(DropReason::QueueFull),
            not_accepted: dropped(DropReason::NotAccepted),
        }
    }

    /// Counts one request that the query API answered.
    pub fn query_answered(&self, code: u16, seconds: f64) {
        let labels = CodeLabels::new(code);
        self.families.query_requests.get_or_create(&labels).inc();
        self.families.query_duration.observe(seconds);
    }

    /// The counter of requests that a limit such as `sessions` rejects.
    pub fn rejected_requests(&self, limit: &'static str) -> Counter {
        let labels = LimitLabels::new(limit);
        self.families.requests_rejected.get_or_create_owned(&labels)
    }

    /// The longest step of the tasks of a kind.
    pub fn longest_poll(&self, task: TaskKind) -> Gauge<f64, AtomicU64> {
        let labels = TaskLabels::new(task);
        self.families.longest_poll.get_or_create_owned(&labels)
    }

    /// Counts one response that was aborted.
    pub fn response_aborted(&self, reason: AbortReason) {
        let labels = AbortLabels::new(reason);
        self.families.responses_aborted.get_or_create(&labels).inc();
    }

    /// Counts one connection that was closed or refused.
    pub fn connection_closed(&self, reason: CloseReason) {
        let labels = CloseLabels::new(reason);
        let closed = self.families.connections_closed.get_or_create(&labels);
        closed.inc();
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

    /// Measures when a certificate ends (seconds since 1970), until the returned value is dropped.
    /// `name`: of the member or store that it is for; empty for the query API.
    pub fn certificate_in_use(
        &self,
        certificate: CertificateUse,
        name: &str,
        not_after: i64,
    ) -> CertificateInUse {
        self.certificates.add(certificate, name, not_after)
    }

    /// All metrics as text, in the format that [`CONTENT_TYPE`] names.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        // Held until the end, so that each text has the gauges of its own time.
        let mut streams = self.streams.lock();
        self.families.lag.clear();
        for (cluster, lag) in longest(&mut streams) {
            let labels = ClusterLabels::new(cluster.as_str());
            let gauge = self.families.lag.get_or_create(&labels);
            gauge.set(lag.as_secs_f64());
        }
        self.families.certificate_expiry.clear();
        for (labels, not_after) in self.certificates.current() {
            let gauge = self.families.certificate_expiry.get_or_create(&labels);
            gauge.set(not_after);
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
    use fleetdex_core::fuel::{Fuel, MeteredEvaluation};

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
        let fuel = Fuel::of(MeteredEvaluation::Table, 10);
        fuel.take(4).unwrap();
        drop(fuel);
        let text = metrics.encode().unwrap();
        for line in [
            r#"fleetdex_watch_events_total{cluster="member1",kind="v1/Pod",event="modified"} 1"#,
            r#"fleetdex_relists_total{cluster="member1",kind="v1/Pod",reason="expired"} 1"#,
            r#"fleetdex_evaluation_steps_ratio_bucket{le="0.5",evaluation="table"} 1"#,
            r#"fleetdex_evaluation_steps_ratio_count{evaluation="patch"} 0"#,
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
    fn a_certificate_has_a_metric_while_it_is_in_use() {
        let metrics = Metrics::new();
        let earlier = metrics.certificate_in_use(CertificateUse::MemberClient, "member1", 1_000);
        let _newer = metrics.certificate_in_use(CertificateUse::MemberClient, "member1", 2_000);
        let serving = metrics.certificate_in_use(CertificateUse::Serving, "", 3_000);
        drop(earlier);
        let series = |metrics: &Metrics| -> Vec<String> {
            let text = metrics.encode().unwrap();
            let lines = text
                .lines()
                .filter(|line| line.starts_with("fleetdex_certificate_"));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let member = "fleetdex_certificate_expiry_timestamp_seconds{certificate=\"member_client\",name=\"member1\"} 2000";
        let server =
            "fleetdex_certificate_expiry_timestamp_seconds{certificate=\"serving\",name=\"\"} 3000";
        assert_eq!(series(&metrics), [member, server]);
        drop(serving);
        assert_eq!(series(&metrics), [member]);
    }

    #[test]
    fn every_name_and_unit_that_is_printed_is_described() {
        let metrics = Metrics::new();
        let unit = metrics.unit(&"member1".parse().unwrap(), &pods());
        unit.relisted(RelistReason::Error);
        let _store = metrics.store(&"main".parse().unwrap());
        metrics.query_answered(200, 0.1);
        let text = metrics.encode().unwrap();
        let described = Metrics::descriptions();
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut count = 0;
        for (name, kind) in families.filter_map(|family| family.split_once(' ')) {
            let found = described.iter().find(|one| {
                one.name == name
                    || ["_total", "_info"]
                        .map(|end| format!("{name}{end}"))
                        .contains(&one.name)
            });
            assert_eq!(found.map(|one| one.kind.as_str()), Some(kind), "{name}");
            count += 1;
        }
        assert!(count > 20, "{text}");
        for one in described
            .iter()
            .filter(|one| one.name.ends_with("_bytes") || one.name.ends_with("_seconds"))
        {
            assert!(one.unit.is_some(), "{} has no unit", one.name);
        }
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
