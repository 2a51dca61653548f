//! Verification: audits all streams now, and reports each result as soon as it is known. Clusters
//! that other replicas read are verified by these, which are asked for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::Future,
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::model::{ClusterName, Scope, StoreName, causes};
use fleetdex_query_api::report::{ComparisonCounts, ReportLine, Row, VerificationResult};
use fleetdex_sync::audit::{AuditError, Findings};
use futures::{Stream, stream::unfold};
use tokio::{sync::mpsc, task::JoinSet, time::interval};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    api_error::ApiError,
    catalog::{
        Catalog,
        planned_stream::{NoAudit, PlannedStream},
    },
};

/// Clusters in one request to another replica, so that the address of the request is not too long.
const CLUSTERS_PER_REQUEST: usize = 100;
/// Concurrent audits of one request. Few of them read at any time, over all requests; the others
/// wait for a permit, or for changes to arrive.
const CONCURRENT: usize = 16;
/// The interval of progress lines. Clients close a connection that is silent for a minute.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Lines that wait for a slow client. A client that does not read stops its own verification and
/// nothing else: running audits continue without it.
const QUEUED_LINES: usize = 64;

impl PlannedStream {
    fn row(&self, outcome: VerificationResult) -> Row {
        let gvk = &self.unit.resource.gvk;
        Row {
            cluster: self.unit.cluster.to_string(),
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            namespace: match &self.unit.scope {
                Scope::All => String::new(),
                Scope::Namespace(namespace) => namespace.to_string(),
            },
            store: self.store.to_string(),
            outcome,
        }
    }

    async fn verify(self) -> Row {
        let outcome = match &self.audit {
            Ok(audit) => outcome(audit.run().await),
            Err(NoAudit::NotRunning(reason)) => VerificationResult::NotVerified {
                reason: reason.clone(),
            },
            Err(NoAudit::ReadBy(replica)) => VerificationResult::NotVerified {
                reason: format!("replica {replica} reads it"),
            },
        };
        self.row(outcome)
    }
}

fn outcome(audited: Result<Findings, AuditError>) -> VerificationResult {
    let findings = match audited {
        Ok(findings) => findings,
        Err(error) => {
            let reason = causes(&error);
            return VerificationResult::NotVerified { reason };
        }
    };
    let has_drift = findings.drift() > 0;
    let counts = ComparisonCounts {
        objects: findings.listed,
        documents: findings.stored,
        missing: findings.missing,
        differing: findings.differing,
        surplus: findings.surplus,
        examples: findings.examples,
    };
    if has_drift {
        VerificationResult::Drift(counts)
    } else {
        VerificationResult::Clean(counts)
    }
}

/// What a request verifies, and where.
#[derive(Default)]
pub struct Verification {
    here: Vec<PlannedStream>,
    /// By the replica that reads them.
    elsewhere: BTreeMap<String, Vec<PlannedStream>>,
    /// Rows of clusters that may lack streams.
    incomplete: Vec<Row>,
}

impl Verification {
    /// These clusters, or all of them, as far as they are `visible`.
    pub fn of(
        catalog: &Catalog,
        clusters: &[ClusterName],
        visible: Option<&BTreeSet<ClusterName>>,
    ) -> Result<Self, ApiError> {
        if let Some(unknown) = clusters.iter().find(|name| !catalog.has_streams_of(name)) {
            return Err(ApiError::NoSuchCluster(unknown.clone()));
        }
        let is_requested = |name: &ClusterName| {
            (clusters.is_empty() || clusters.contains(name))
                && visible.is_none_or(|visible| visible.contains(name))
        };
        let mut verification = Self::default();
        let streams = catalog.streams.iter();
        for stream in streams.filter(|stream| is_requested(&stream.unit.cluster)) {
            let streams = match &stream.audit {
                Err(NoAudit::ReadBy(replica)) => {
                    verification.elsewhere.entry(replica.clone()).or_default()
                }
                _ => &mut verification.here,
            };
            streams.push(stream.clone());
        }
        let incomplete = catalog.incomplete.iter();
        let incomplete = incomplete.filter(|(cluster, _)| is_requested(cluster));
        verification.incomplete = incomplete.map(incomplete_row).collect();
        Ok(verification)
    }

    /// Those of these clusters that this replica reads, for another replica.
    pub fn for_replica(catalog: &Catalog, clusters: &[ClusterName]) -> Self {
        let streams = catalog.streams.iter();
        let here = streams
            .filter(|stream| stream.audit.is_ok() && clusters.contains(&stream.unit.cluster));
        Self {
            here: here.cloned().collect(),
            ..Self::default()
        }
    }

    /// Starts it. The body ends when everything is verified; dropping it cancels the verification.
    pub fn start(self, peers: impl VerifyingPeers) -> Body {
        let (sender, receiver) = mpsc::channel(QUEUED_LINES);
        let task = AbortOnDropHandle::new(tokio::spawn(self.run(Arc::new(peers), sender)));
        Body::from_stream(lines(receiver, task))
    }

    /// Sends the whole report, unless the client leaves.
    async fn run(self, peers: Arc<impl VerifyingPeers>, sender: mpsc::Sender<ReportLine>) {
        let elsewhere: usize = self.elsewhere.values().map(Vec::len).sum();
        let total = self.here.len() + elsewhere + self.incomplete.len();
        let mut waiting = interleaved(&self.here).into_iter();
        // Tasks of their own: an audit with a permit to read must not wait for the client to read
        // lines.
        let mut audits: JoinSet<Vec<Row>> = JoinSet::new();
        let audit = |stream: PlannedStream| async move { vec![stream.verify().await] };
        for first in waiting.by_ref().take(CONCURRENT) {
            audits.spawn(audit(first));
        }
        // One request for each replica, beside the audits here.
        let mut answers: JoinSet<Vec<Row>> = JoinSet::new();
        for (replica, streams) in self.elsewhere {
            let peers = Arc::clone(&peers);
            answers.spawn(async move { rows_of_replica(&*peers, &replica, &streams).await });
        }
        let mut done = 0;
        for row in self.incomplete {
            done += 1;
            if sender.send(ReportLine::Row(row)).await.is_err() {
                return;
            }
        }
        let mut progress = interval(PROGRESS_INTERVAL);
        progress.reset();
        while !audits.is_empty() || !answers.is_empty() {
            let ended = tokio::select! {
                biased;
                Some(ended) = audits.join_next() => {
                    waiting.next().map(|next| audits.spawn(audit(next)));
                    ended
                }
                Some(ended) = answers.join_next() => ended,
                _ = progress.tick() => {
                    if sender.send(ReportLine::Progress { done, total }).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            let rows = match ended {
                Ok(rows) => rows,
                Err(error) => {
                    // Without the last line the client knows that the report is not complete.
                    tracing::error!(%error, "an audit ended unexpectedly");
                    return;
                }
            };
            for row in rows {
                done += 1;
                if sender.send(ReportLine::Row(row)).await.is_err() {
                    return;
                }
            }
        }
        // Fails if the client has left, which makes no difference at the end.
        let _sent = sender.send(ReportLine::End { rows: done }).await;
    }
}

/// The other replicas, which verify the clusters that they read.
pub trait VerifyingPeers: Send + Sync + 'static {
    /// The rows of a replica for these clusters; an error without those that it has not sent.
    fn verify(
        &self,
        replica: &str,
        clusters: &[ClusterName],
    ) -> impl Future<Output = Result<Vec<Row>, String>> + Send;
}

/// One row for each stream that another replica reads: its own, or why there is none.
async fn rows_of_replica(
    peers: &impl VerifyingPeers,
    replica: &str,
    streams: &[PlannedStream],
) -> Vec<Row> {
    let clusters: BTreeSet<&ClusterName> =
        streams.iter().map(|stream| &stream.unit.cluster).collect();
    let clusters: Vec<ClusterName> = clusters.into_iter().cloned().collect();
    let mut found: Vec<Row> = Vec::new();
    let mut problem = "it does not read it any more; verify again".to_owned();
    for some in clusters.chunks(CLUSTERS_PER_REQUEST) {
        match peers.verify(replica, some).await {
            Ok(rows) => found.extend(rows),
            Err(error) => problem = error,
        }
    }
    let key = |row: &Row| {
        let Row {
            cluster,
            api_version,
            kind,
            namespace,
            store,
            ..
        } = row.clone();
        [cluster, api_version, kind, namespace, store]
    };
    let mut found: BTreeMap<[String; 5], Row> =
        found.into_iter().map(|row| (key(&row), row)).collect();
    let row = |stream: &PlannedStream| {
        let reason = format!("replica {replica} reads it: {problem}");
        let missing = stream.row(VerificationResult::NotVerified { reason });
        found.remove(&key(&missing)).unwrap_or(missing)
    };
    streams.iter().map(row).collect()
}

/// The row of a cluster that may lack streams.
fn incomplete_row((cluster, store): &(ClusterName, StoreName)) -> Row {
    let reason = "not all of the kinds that should be stored are known; the status of its registries says why".to_owned();
    Row {
        cluster: cluster.to_string(),
        api_version: String::new(),
        kind: String::new(),
        namespace: String::new(),
        store: store.to_string(),
        outcome: VerificationResult::NotVerified { reason },
    }
}

/// One stream of each cluster in turn, because audits of one cluster wait for each other.
fn interleaved(all: &[PlannedStream]) -> Vec<PlannedStream> {
    let mut counts: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    let mut numbered: Vec<(usize, &PlannedStream)> = Vec::new();
    for stream in all {
        let count = counts.entry(&stream.unit.cluster).or_default();
        numbered.push((*count, stream));
        *count += 1;
    }
    numbered.sort_by_key(|(number, _)| *number);
    let streams = numbered.into_iter();
    streams.map(|(_, stream)| stream.clone()).collect()
}

fn lines(
    receiver: mpsc::Receiver<ReportLine>,
    task: AbortOnDropHandle<()>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    unfold((receiver, task), async |(mut receiver, task)| {
        let line = receiver.recv().await?;
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        Some((Ok(Bytes::from(text)), (receiver, task)))
    })
}
