//! Verification: audits of the kinds that are followed, now, told line by line as they end.

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

use super::{
    catalog::Catalog,
    followed::Followed,
    report::{Counts, Line, Outcome, Row},
    status::ApiError,
};

/// Audits under way for one request. Few of them read at any time, whoever asks; the others wait for their turn, or for changes to arrive.
const UNDER_WAY: usize = 16;
/// How often to say how far it is. Clients take a connection for dead that says nothing for a minute.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Lines that wait for a slow client. One that does not read at all holds up its own verification and nothing else: audits that have begun
/// go on without it.
const WAITING_LINES: usize = 64;

impl Followed {
    fn row(&self, outcome: Outcome) -> Row {
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
            Err(reason) => Outcome::NotVerified {
                reason: reason.clone(),
            },
        };
        self.row(outcome)
    }
}

fn outcome(audited: Result<Findings, AuditError>) -> Outcome {
    let findings = match audited {
        Ok(findings) => findings,
        Err(error) => {
            return Outcome::NotVerified {
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
    let counts = Counts {
        objects: listed,
        documents: stored,
        missing,
        differing,
        surplus,
        examples,
    };
    if has_drift {
        Outcome::Drift(counts)
    } else {
        Outcome::Clean(counts)
    }
}

/// Begins to verify these clusters, or all of them, as far as they are `visible`. The body ends when all is verified; dropping it ends the
/// verification.
pub fn answer(
    catalog: &Catalog,
    clusters: &[ClusterName],
    visible: Option<&BTreeSet<ClusterName>>,
) -> Result<Body, ApiError> {
    if let Some(unknown) = clusters.iter().find(|name| !catalog.follows_cluster(name)) {
        return Err(ApiError::NoSuchCluster(unknown.clone()));
    }
    let is_asked = |name: &ClusterName| {
        (clusters.is_empty() || clusters.contains(name))
            && visible.is_none_or(|visible| visible.contains(name))
    };
    let followed = spread(
        catalog
            .followed()
            .iter()
            .filter(|followed| is_asked(&followed.unit.cluster)),
    );
    let unknown = catalog
        .uncertain()
        .iter()
        .filter(|(cluster, _)| is_asked(cluster))
        .map(uncertain_row)
        .collect();
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    let task = AbortOnDropHandle::new(tokio::spawn(verify(followed, unknown, sender)));
    Ok(Body::from_stream(lines(receiver, task)))
}

/// A cluster of which something may be missing that nobody knows of.
fn uncertain_row((cluster, store): &(ClusterName, StoreName)) -> Row {
    let reason = "not all of the kinds that should be stored are known; the status of its registries says why".to_owned();
    Row {
        cluster: cluster.to_string(),
        api_version: String::new(),
        kind: String::new(),
        namespace: String::new(),
        store: store.to_string(),
        outcome: Outcome::NotVerified { reason },
    }
}

/// One of each cluster in turn, because those of one cluster wait for each other.
fn spread<'f>(all: impl Iterator<Item = &'f Followed>) -> Vec<Followed> {
    let mut seen: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    let mut numbered: Vec<(usize, &Followed)> = Vec::new();
    for followed in all {
        let count = seen.entry(&followed.unit.cluster).or_default();
        numbered.push((*count, followed));
        *count += 1;
    }
    numbered.sort_by_key(|(number, _)| *number);
    numbered
        .into_iter()
        .map(|(_, followed)| followed.clone())
        .collect()
}

/// Sends everything there is to tell, unless nobody listens any more.
async fn verify(followed: Vec<Followed>, known: Vec<Row>, sender: mpsc::Sender<Line>) {
    let total = followed.len() + known.len();
    let mut waiting = followed.into_iter();
    // Tasks of their own: one that has a permit to read must not depend on how fast the client takes lines.
    let mut audits: JoinSet<Row> = JoinSet::new();
    for first in waiting.by_ref().take(UNDER_WAY) {
        audits.spawn(first.verify());
    }
    let mut done = 0;
    for row in known {
        done += 1;
        if sender.send(Line::Row(row)).await.is_err() {
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
                    Line::Row(row)
                }
                Err(error) => {
                    // Without the last line the client knows that the report is not complete.
                    tracing::error!(%error, "an audit ended unexpectedly");
                    return;
                }
            },
            _ = progress.tick() => Line::Progress { done, total },
        };
        if sender.send(line).await.is_err() {
            return;
        }
    }
    // Whether anybody hears it makes no difference any more.
    let _heard = sender.send(Line::End { rows: done }).await;
}

fn lines(
    receiver: mpsc::Receiver<Line>,
    task: AbortOnDropHandle<()>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    unfold((receiver, task), async |(mut receiver, task)| {
        let line = receiver.recv().await?;
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        Some((Ok(Bytes::from(text)), (receiver, task)))
    })
}
