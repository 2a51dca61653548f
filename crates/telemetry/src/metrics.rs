//! Metrics in the `OpenMetrics` text format.
//!
//! Label sets are bounded: clusters, kinds (`apps/v1/Deployment`) and stores, never object names. What runs per event asks
//! once for its handles ([`Metrics::unit`], [`Metrics::store`]) and then only touches atomics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
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

use super::labels::{
    ClusterLabels, CodeLabels, CutLabels, DriftLabels, EndLabels, EventLabels, OutcomeLabels,
    PhaseLabels, PlaceLabels, ReasonLabels, RelistLabels, SourceLabels, StoreLabels, UnitLabels,
    VerdictLabels,
};
pub use super::{
    handles::{StoreMetrics, UnitMetrics},
    labels::{
        AnswerCut, BulkOutcome, BulkVerdict, ConnectionEnd, Drift, RelistReason, UnitPhase,
        WatchEvent,
    },
};

/// Upper bounds of the event-to-acknowledged buckets: 5 ms to 164 s, each double the one before. A healthy store acknowledges well
/// under a second, and a slow one shows up to minutes.
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
    /// Which units have series, so that they go when their cluster goes.
    known_units: Mutex<BTreeSet<UnitLabels>>,
    /// Which of them have documents that the store refused.
    known_rejected: Mutex<BTreeSet<UnitLabels>>,
    watch_events: Family<EventLabels, Counter>,
    lists: Family<UnitLabels, Counter>,
    list_bytes: Family<UnitLabels, Counter>,
    relists: Family<RelistLabels, Counter>,
    watch_restarts: Family<UnitLabels, Counter>,
    watch_expired: Family<UnitLabels, Counter>,
    watch_paused: Family<UnitLabels, Counter>,
    list_unchanged: Family<UnitLabels, Counter>,
    audits: Family<UnitLabels, Counter>,
    audits_failed: Family<UnitLabels, Counter>,
    drift: Family<DriftLabels, Counter>,
    rejected: Family<UnitLabels, Gauge>,
    cluster_up: Family<ClusterLabels, Gauge>,
    cluster_source_up: Family<SourceLabels, Gauge>,
    clusters_left_out: Family<ReasonLabels, Gauge>,
    units: Family<PhaseLabels, Gauge>,
    bulk_requests: Family<OutcomeLabels, Counter>,
    bulk_items: Family<VerdictLabels, Counter>,
    bulk_bytes: Family<StoreLabels, Counter>,
    bulk_in_flight: Family<StoreLabels, Gauge>,
    pending_documents: Family<StoreLabels, Gauge>,
    pending_bytes: Family<StoreLabels, Gauge>,
    event_to_ack: Seconds,
    generations_renewed: Family<StoreLabels, Counter>,
    replicas: Gauge,
    query_requests: Family<CodeLabels, Counter>,
    query_seconds: Histogram,
    requests_refused: Family<PlaceLabels, Counter>,
    answers_cut: Family<CutLabels, Counter>,
    connections_ended: Family<EndLabels, Counter>,
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
            watch_events: Family::default(),
            lists: Family::default(),
            list_bytes: Family::default(),
            relists: Family::default(),
            watch_restarts: Family::default(),
            watch_expired: Family::default(),
            watch_paused: Family::default(),
            list_unchanged: Family::default(),
            audits: Family::default(),
            audits_failed: Family::default(),
            drift: Family::default(),
            rejected: Family::default(),
            cluster_up: Family::default(),
            cluster_source_up: Family::default(),
            clusters_left_out: Family::default(),
            units: Family::default(),
            bulk_requests: Family::default(),
            bulk_items: Family::default(),
            bulk_bytes: Family::default(),
            bulk_in_flight: Family::default(),
            pending_documents: Family::default(),
            pending_bytes: Family::default(),
            event_to_ack: Family::new_with_constructor(|| histogram(ACK_BUCKETS)),
            generations_renewed: Family::default(),
            replicas: Gauge::default(),
            query_requests: Family::default(),
            query_seconds: histogram(QUERY_BUCKETS),
            requests_refused: Family::default(),
            answers_cut: Family::default(),
            connections_ended: Family::default(),
        };
        metrics.register_reading();
        metrics.register_writing();
        metrics.register_serving();
        metrics
    }

    fn register_reading(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "watch_events",
            "Events that watches delivered",
            self.watch_events.clone(),
        );
        registry.register(
            "lists",
            "List requests that were completed, one per page",
            self.lists.clone(),
        );
        registry.register(
            "list_bytes",
            "Bytes of list answers after decompression",
            self.list_bytes.clone(),
        );
        registry.register(
            "relists",
            "Complete lists after the first, by cause",
            self.relists.clone(),
        );
        registry.register(
            "watch_restarts",
            "Watches that ended and were opened again",
            self.watch_restarts.clone(),
        );
        let expired = "Answers that said the version to resume from is gone (410), as a status or as an event";
        registry.register("watch_expired", expired, self.watch_expired.clone());
        let paused =
            "Watches that were given up for a while because the store is slower than the member";
        registry.register("watch_paused", paused, self.watch_paused.clone());
        let unchanged = "Listed objects that were stored as they are, so that nothing was written";
        registry.register("list_unchanged", unchanged, self.list_unchanged.clone());
        registry.register(
            "audits",
            "Comparisons of what is stored with what the member has",
            self.audits.clone(),
        );
        let failed = "Audits that came to no result, because the member or the store failed or the kind was not in sync";
        registry.register("audits_failed", failed, self.audits_failed.clone());
        let drift = "Documents that an audit found missing, of another version, or of no object";
        registry.register("drift_documents", drift, self.drift.clone());
        let rejected = "Documents by which only a part of their objects can be found: the store refused them, or the objects are too large or too deep";
        registry.register("rejected_documents", rejected, self.rejected.clone());
        registry.register(
            "cluster_up",
            "Whether a member answers (1) or not (0)",
            self.cluster_up.clone(),
        );
        let source =
            "Whether a source of clusters has been read and can be followed (1) or not (0)";
        registry.register("cluster_source_up", source, self.cluster_source_up.clone());
        let left_out = "Registrations of clusters that are left out for another one";
        registry.register(
            "clusters_left_out",
            left_out,
            self.clusters_left_out.clone(),
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
            "Bulk requests that ended",
            self.bulk_requests.clone(),
        );
        registry.register(
            "bulk_items",
            "Items of bulk requests by what became of them",
            self.bulk_items.clone(),
        );
        registry.register(
            "bulk_bytes",
            "Bytes of bulk requests, before compression",
            self.bulk_bytes.clone(),
        );
        registry.register(
            "bulk_in_flight",
            "Bulk requests that wait for their answer",
            self.bulk_in_flight.clone(),
        );
        registry.register(
            "pending_documents",
            "Changes that wait to be sent",
            self.pending_documents.clone(),
        );
        registry.register(
            "pending_bytes",
            "Bytes of the changes that wait to be sent",
            self.pending_bytes.clone(),
        );
        let renewed = "Generations made because a cluster's history went back";
        registry.register(
            "generations_renewed",
            renewed,
            self.generations_renewed.clone(),
        );
        let to_ack = "Seconds from an event's arrival to the store's acknowledgement";
        registry.register("event_to_ack_seconds", to_ack, self.event_to_ack.clone());
    }

    fn register_serving(&mut self) {
        let registry = &mut self.registry;
        let replicas = "Replicas that share the clusters, as this one sees it; 0: it may read none, because its Lease is not renewed";
        registry.register("replicas", replicas, self.replicas.clone());
        registry.register(
            "query_requests",
            "Answered requests of the query API by HTTP status",
            self.query_requests.clone(),
        );
        let seconds = "Seconds until the first byte of an answer of the query API";
        registry.register("query_seconds", seconds, self.query_seconds.clone());
        let refused = "Requests that got no place of a kind: all were taken, or the share of the user or address was";
        registry.register("requests_refused", refused, self.requests_refused.clone());
        let cut = "Answers that were ended because the client did not take them, or because their time was over";
        registry.register("answers_cut", cut, self.answers_cut.clone());
        let ended = "Connections to our ports that were refused, or ended while they were idle";
        registry.register("connections_ended", ended, self.connections_ended.clone());
        registry.register(
            "build",
            "What runs",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
    }

    /// The handles of one cluster's kind. Scopes of the same kind share them.
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
            added: event(WatchEvent::Added),
            modified: event(WatchEvent::Modified),
            deleted: event(WatchEvent::Deleted),
            bookmarks: event(WatchEvent::Bookmark),
            errors: event(WatchEvent::Error),
            lists: self.lists.get_or_create_owned(&labels),
            list_bytes: self.list_bytes.get_or_create_owned(&labels),
            watch_restarts: self.watch_restarts.get_or_create_owned(&labels),
            watch_expired: self.watch_expired.get_or_create_owned(&labels),
            watch_paused: self.watch_paused.get_or_create_owned(&labels),
            unchanged: self.list_unchanged.get_or_create_owned(&labels),
            audits: self.audits.get_or_create_owned(&labels),
            audits_failed: self.audits_failed.get_or_create_owned(&labels),
            missing: drift(Drift::Missing),
            differing: drift(Drift::Differing),
            surplus: drift(Drift::Surplus),
            relists: self.relists.clone(),
            labels,
        }
    }

    /// Whether a member answers.
    pub fn set_cluster_up(&self, cluster: &ClusterName, up: bool) {
        self.cluster_up
            .get_or_create(&ClusterLabels {
                cluster: cluster.as_str().into(),
            })
            .set(i64::from(up));
    }

    /// How many replicas share the clusters.
    pub fn set_replicas(&self, count: usize) {
        self.replicas.set(saturating(count));
    }

    /// Whether a source of clusters has been read and can be followed.
    pub fn set_cluster_source_up(&self, source: &str, up: bool) {
        self.cluster_source_up
            .get_or_create(&SourceLabels {
                source: source.into(),
            })
            .set(i64::from(up));
    }

    /// How many registrations of clusters are left out, for a reason such as `NameTaken`.
    pub fn set_clusters_left_out(&self, reason: &'static str, count: usize) {
        self.clusters_left_out
            .get_or_create(&ReasonLabels {
                reason: reason.into(),
            })
            .set(saturating(count));
    }

    /// How many units of a cluster are in a phase.
    pub fn set_units(&self, cluster: &ClusterName, phase: UnitPhase, count: usize) {
        let labels = PhaseLabels {
            cluster: cluster.as_str().into(),
            phase,
        };
        self.units.get_or_create(&labels).set(saturating(count));
    }

    /// How many documents of each kind the store has refused; a kind without any has no series.
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

    /// Removes every series of a member that is gone.
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

    /// Removes the series of one kind of one cluster, when its last stream has ended.
    pub fn forget_unit(&self, cluster: &ClusterName, kind: &Gvk) {
        let labels = UnitLabels {
            cluster: cluster.as_str().into(),
            kind: kind.to_string().into(),
        };
        self.remove_unit(&labels);
        self.known_units.lock().remove(&labels);
    }

    fn remove_unit(&self, labels: &UnitLabels) {
        use RelistReason as Reason;
        use WatchEvent as Event;
        let by_unit = [
            &self.lists,
            &self.list_bytes,
            &self.list_unchanged,
            &self.audits,
            &self.audits_failed,
        ];
        for family in by_unit.into_iter().chain([
            &self.watch_restarts,
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
            renewed: self.generations_renewed.get_or_create_owned(&labels),
            bulk_bytes: self.bulk_bytes.get_or_create_owned(&labels),
            bulk_in_flight: self.bulk_in_flight.get_or_create_owned(&labels),
            pending_documents: self.pending_documents.get_or_create_owned(&labels),
            pending_bytes: self.pending_bytes.get_or_create_owned(&labels),
            event_to_ack: self.event_to_ack.get_or_create_owned(&labels),
        }
    }

    /// Counts one answered request of the query API.
    pub fn query_answered(&self, code: u16, seconds: f64) {
        self.query_requests
            .get_or_create(&CodeLabels { code })
            .inc();
        self.query_seconds.observe(seconds);
    }

    /// Counts requests that get no place of a kind, such as `requests`.
    pub fn refused_requests(&self, places: &'static str) -> Counter {
        self.requests_refused.get_or_create_owned(&PlaceLabels {
            places: places.into(),
        })
    }

    /// Counts one answer that was ended before its time.
    pub fn answer_cut(&self, reason: AnswerCut) {
        self.answers_cut.get_or_create(&CutLabels { reason }).inc();
    }

    /// Counts one connection that was ended, or not begun.
    pub fn connection_ended(&self, reason: ConnectionEnd) {
        self.connections_ended
            .get_or_create(&EndLabels { reason })
            .inc();
    }

    /// All metrics as text, in the format that [`CONTENT_TYPE`] names.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn histogram((start, factor, length): (f64, f64, u16)) -> Histogram {
    Histogram::new(exponential_buckets(start, factor, length))
}

pub(super) fn saturating(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Gvk {
        Gvk::new("", "v1", "Pod")
    }

    #[test]
    fn series_carry_the_cluster_the_kind_and_what_happened() {
        let metrics = Metrics::new();
        let unit = metrics.unit(&"member1".parse().unwrap(), &pods());
        unit.events(WatchEvent::Modified).inc();
        unit.relisted(RelistReason::Expired);
        let store = metrics.store(&"main".parse().unwrap());
        store.items(BulkVerdict::Superseded).inc_by(3);
        store.set_pending(2, 700);
        store.event_to_ack.observe(0.02);
        metrics.set_cluster_up(&"member1".parse().unwrap(), true);
        metrics.set_units(&"member1".parse().unwrap(), UnitPhase::Watching, 4);
        metrics.query_answered(410, 0.1);
        metrics.refused_requests("sessions").inc();
        metrics.answer_cut(AnswerCut::Unread);
        metrics.connection_ended(ConnectionEnd::Displaced);
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
            r#"fleetdex_requests_refused_total{places="sessions"} 1"#,
            r#"fleetdex_answers_cut_total{reason="unread"} 1"#,
            r#"fleetdex_connections_ended_total{reason="displaced"} 1"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in:\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn refused_documents_are_counted_by_kind_while_there_are_any() {
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
    fn a_cluster_that_goes_takes_its_series_along_and_leaves_the_others() {
        let metrics = Metrics::new();
        for cluster in ["member1", "member2"] {
            let unit = metrics.unit(&cluster.parse().unwrap(), &pods());
            unit.events(WatchEvent::Added).inc();
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
