//! Verification: audits all streams now, and reports each result as soon as it is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::model::{ClusterName, Scope, StoreName, causes};
use fleetdex_sync::audit::{AuditError, Findings};
use futures::{Stream, stream::unfold};
use tokio::{sync::mpsc, task::JoinSet, time::interval};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    catalog::{Catalog, planned_stream::PlannedStream},
    render::report::{ComparisonCounts, ReportLine, Row, VerificationResult},
    request::api_error::ApiError,
};

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
            Err(reason) => VerificationResult::NotVerified {
                reason: reason.clone(),
            },
        };
        self.row(outcome)
    }
}

fn outcome(audited: Result<Findings, AuditError>) -> VerificationResult {
    let findings = match audited {
        Ok(findings) => findings,
        Err(error) => {
            return VerificationResult::NotVerified {
                reason: causes(&error),
            };
        }
    };
    let has_drift = findings.drift() > 0;
    let Findings {
        listed,
        stored,
        missing,
        differing,
        surplus,
        examples,
    } = findings;
    let counts = ComparisonCounts {
        objects: listed,
        documents: stored,
        missing,
        differing,
        surplus,
        examples,
    };
    if has_drift {
        VerificationResult::Drift(counts)
    } else {
        VerificationResult::Clean(counts)
    }
}

/// Starts to verify these clusters, or all of them, as far as they are `visible`. The body ends
/// when everything is verified; dropping it cancels the verification.
pub fn respond(
    catalog: &Catalog,
    clusters: &[ClusterName],
    visible: Option<&BTreeSet<ClusterName>>,
) -> Result<Body, ApiError> {
    if let Some(unknown) = clusters.iter().find(|name| !catalog.has_streams_of(name)) {
        return Err(ApiError::NoSuchCluster(unknown.clone()));
    }
    let is_requested = |name: &ClusterName| {
        (clusters.is_empty() || clusters.contains(name))
            && visible.is_none_or(|visible| visible.contains(name))
    };
    let streams = interleaved(
        catalog
            .streams()
            .iter()
            .filter(|stream| is_requested(&stream.unit.cluster)),
    );
    let incomplete = catalog
        .incomplete()
        .iter()
        .filter(|(cluster, _)| is_requested(cluster))
        .map(incomplete_row)
        .collect();
    let (sender, receiver) = mpsc::channel(QUEUED_LINES);
    let task = AbortOnDropHandle::new(tokio::spawn(verify(streams, incomplete, sender)));
    Ok(Body::from_stream(lines(receiver, task)))
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
fn interleaved<'s>(all: impl Iterator<Item = &'s PlannedStream>) -> Vec<PlannedStream> {
    let mut counts: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    let mut numbered: Vec<(usize, &PlannedStream)> = Vec::new();
    for stream in all {
        let count = counts.entry(&stream.unit.cluster).or_default();
        numbered.push((*count, stream));
        *count += 1;
    }
    numbered.sort_by_key(|(number, _)| *number);
    numbered
        .into_iter()
        .map(|(_, stream)| stream.clone())
        .collect()
}

/// Sends the whole report, unless the client leaves.
async fn verify(
    streams: Vec<PlannedStream>,
    incomplete: Vec<Row>,
    sender: mpsc::Sender<ReportLine>,
) {
    let total = streams.len() + incomplete.len();
    let mut waiting = streams.into_iter();
    // Tasks of their own: an audit with a permit to read must not wait for the client to read
    // lines.
    let mut audits: JoinSet<Row> = JoinSet::new();
    for first in waiting.by_ref().take(CONCURRENT) {
        audits.spawn(first.verify());
    }
    let mut done = 0;
    for row in incomplete {
        done += 1;
        if sender.send(ReportLine::Row(row)).await.is_err() {
            return;
        }
    }
    let mut progress = interval(PROGRESS_INTERVAL);
    progress.reset();
    while !audits.is_empty() {
        let line = tokio::select! {
            biased;
            Some(ended) = audits.join_next() => match ended {
                Ok(row) => {
                    done += 1;
                    waiting.next().map(|next| audits.spawn(next.verify()));
                    ReportLine::Row(row)
                }
                Err(error) => {
                    // Without the last line the client knows that the report is not complete.
                    tracing::error!(%error, "an audit ended unexpectedly");
                    return;
                }
            },
            _ = progress.tick() => ReportLine::Progress { done, total },
        };
        if sender.send(line).await.is_err() {
            return;
        }
    }
    // Fails if the client has left, which makes no difference at the end.
    let _sent = sender.send(ReportLine::End { rows: done }).await;
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
