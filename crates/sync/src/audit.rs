//! Anti-entropy: compares the versions of the stored documents with those of the member's objects,
//! and repairs drift.
//!
//! A stream trusts the watch to deliver every change, and the store to retain every write; it
//! cannot notice when either does not. An audit reads the metadata of a list and the versions of
//! the documents, a small part of what a list costs. A difference is drift only when two passes
//! show it, with time in between for everything to arrive. A list repairs drift.

mod compare;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

pub use compare::Findings;
use compare::{Differences, FirstPass};
use fleetdex_clusters::watch::{FaultKind, ListPage, ListerWatcher, StreamFault};
use fleetdex_core::model::{ClusterName, Object, Unit, Version, causes};
use fleetdex_store::{Extent, IndexRevision, IndexWriter, StoreError, StoredVersion};
use fleetdex_telemetry::metrics::{Drift, UnitMetrics};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    progress::{Progress, UnitState},
    sink::Sink,
};

/// Audits of the process that read concurrently. Each holds 24 bytes for every object of its unit.
const CONCURRENT_AUDITS: usize = 2;
/// The timeout of a pass: enough for a million objects at three pages a second. It frees the
/// permits for the audits that wait.
const PASS_TIMEOUT: Duration = Duration::from_mins(15);
/// A list may have twice as many objects as the stream has observed, and this many more, which take
/// some 3 MiB in a hash map.
const MAX_UNKNOWN_OBJECTS: u64 = 100_000;
/// Audits of one cluster that read concurrently: its API server and its index have other work to
/// do.
const CONCURRENT_AUDITS_PER_CLUSTER: usize = 1;
/// Objects of a page, as for any list. Of metadata alone, a page has some hundred kilobytes.
const PAGE_SIZE: u32 = 500;
/// The interval between checks whether everything has arrived that could explain a difference.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait for that. Without changes, a bookmark shows it, and API servers send one every
/// minute: `defaultBookmarkFrequency` of <https://pkg.go.dev/k8s.io/apiserver/pkg/storage/cacher>
const MAX_WAIT: Duration = Duration::from_secs(75);

/// Why an audit has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuditError {
    /// The unit is not in sync, so that differences are expected.
    #[error("the kind is not in sync: {0}")]
    NotInSync(String),
    /// The stream was restarted during the audit.
    #[error("the stream of the kind was restarted during the audit")]
    Interrupted,
    /// The member or the store is too slow.
    #[error("objects and documents were not read within {} minutes", PASS_TIMEOUT.as_secs() / 60)]
    TooSlow,
    /// The list is far longer than the stream has observed.
    #[error(
        "the member lists more than {0} objects, more than twice as many as its watch has shown"
    )]
    TooMany(u64),
    /// Received changes cannot be written.
    #[error("the store does not accept the changes that the audit has to wait for")]
    Behind,
    /// The member cannot be listed.
    #[error("the member cannot be listed: {0}")]
    FakeMember(StreamFault),
    /// The stored versions cannot be read.
    #[error("the stored versions cannot be read")]
    Store(#[from] StoreError),
}

/// Bounds the concurrent audits of a process.
pub struct Permits {
    process: Arc<Semaphore>,
    clusters: BTreeMap<ClusterName, Arc<Semaphore>>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            process: Arc::new(Semaphore::new(CONCURRENT_AUDITS)),
            clusters: BTreeMap::new(),
        }
    }
}

impl Permits {
    /// The permits of one unit.
    pub fn for_unit(&mut self, cluster: &ClusterName) -> UnitPermits {
        let new = || Arc::new(Semaphore::new(CONCURRENT_AUDITS_PER_CLUSTER));
        let of_cluster = self.clusters.entry(cluster.clone()).or_insert_with(new);
        UnitPermits {
            process: Arc::clone(&self.process),
            cluster: Arc::clone(of_cluster),
            unit: Arc::new(Semaphore::new(1)),
        }
    }
}

/// The permits that the audits of one unit acquire before they read.
pub struct UnitPermits {
    process: Arc<Semaphore>,
    cluster: Arc<Semaphore>,
    /// One audit of a unit at a time, including the time between its passes.
    unit: Arc<Semaphore>,
}

impl UnitPermits {
    /// Acquires the permit of the cluster first, because an audit that waits for it must not block
    /// those of other clusters.
    async fn acquire(&self) -> Result<[OwnedSemaphorePermit; 2], AuditError> {
        Ok([permit(&self.cluster).await?, permit(&self.process).await?])
    }
}

/// The semaphores are never closed.
async fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, AuditError> {
    Arc::clone(semaphore)
        .acquire_owned()
        .await
        .map_err(|_| AuditError::Interrupted)
}

/// Compares the documents of one unit with its objects.
pub struct Audit {
    /// The unit.
    pub unit: Unit,
    /// Its lists.
    pub source: ListerWatcher,
    /// Selects its objects.
    pub sink: Arc<Sink>,
    /// Its progress, which records findings.
    pub progress: Arc<Progress>,
    /// Its counters.
    pub metrics: UnitMetrics,
    /// Bounds concurrent audits.
    pub permits: UnitPermits,
    /// Cancelled with the stream of the unit.
    pub stop: CancellationToken,
}

impl Audit {
    /// Audits at random times, so that the audits of many units are spread evenly: first within the
    /// interval, then after 0.5 to 1.5 intervals. Never ends.
    pub async fn repeat(&self, interval: Duration) -> Infallible {
        let mut pause = interval.mul_f64(fastrand::f64());
        loop {
            sleep(pause).await;
            // The result is recorded in `progress`. Boxed, because most of the time no audit runs.
            let _recorded = Box::pin(self.run()).await;
            pause = interval.mul_f64(0.5 + fastrand::f64());
        }
    }

    /// Audits now. Drift is counted, logged, and repaired: the stream is restarted with a list.
    pub async fn run(&self) -> Result<Findings, AuditError> {
        let outcome = self
            .stop
            .run_until_cancelled(self.compare())
            .await
            .unwrap_or(Err(AuditError::Interrupted));
        match &outcome {
            Ok(findings) => self.note(findings),
            Err(error) => {
                self.metrics.audits_failed.inc();
                tracing::debug!(unit = %self.unit, error = %causes(error), "an audit failed");
                if matches!(error, AuditError::TooMany(_)) {
                    tracing::warn!(unit = %self.unit, %error, "aborting an audit; the kind is listed again");
                    self.progress.require_list();
                }
            }
        }
        outcome
    }

    fn note(&self, findings: &Findings) {
        self.metrics.audits.inc();
        for drift in [Drift::Missing, Drift::Differing, Drift::Surplus] {
            self.metrics.drift(drift).inc_by(findings.count(drift));
        }
        self.progress.record_audit(findings.drift());
        let Findings {
            listed,
            stored,
            missing,
            differing,
            surplus,
            examples,
        } = findings;
        if findings.drift() == 0 {
            tracing::debug!(unit = %self.unit, listed, stored, "an audit found no drift");
            return;
        }
        tracing::warn!(
            unit = %self.unit, listed, stored, missing, differing, surplus, examples = examples.join(", "),
            "an audit found documents that differ from their objects; the kind is listed again"
        );
        self.progress.require_list();
    }

    async fn compare(&self) -> Result<Findings, AuditError> {
        let _alone = permit(&self.permits.unit).await?;
        let (mut differences, list_version, revision) = self.first_pass().await?;
        if !differences.is_empty() {
            let conclusive = differences.conclusive_from(list_version);
            tracing::debug!(unit = %self.unit, differences = differences.len(), version = %conclusive, "an audit waits for its second pass");
            self.wait_for(conclusive).await?;
            self.second_pass(&mut differences, &revision).await?;
        }
        Ok(differences.finish())
    }

    async fn first_pass(&self) -> Result<(Differences, Version, IndexRevision), AuditError> {
        let _permits = self.permits.acquire().await?;
        timeout(PASS_TIMEOUT, self.run_first_pass())
            .await
            .unwrap_or(Err(AuditError::TooSlow))
    }

    async fn run_first_pass(&self) -> Result<(Differences, Version, IndexRevision), AuditError> {
        let (store, revision) = self.in_sync()?;
        let mut pass = FirstPass::default();
        let list_version = self.list(|id, version| pass.listed(id, version)).await?;
        pass.list_ends(list_version);
        let visit = &mut |stored: StoredVersion<'_>| pass.stored(stored.id, stored.version);
        store
            .visit_versions(&revision, &Extent::of(&self.unit), visit)
            .await?;
        let current = if pass.has_newer_documents() {
            Some(self.current_version().await?)
        } else {
            None
        };
        Ok((pass.finish(current), list_version, revision))
    }

    async fn current_version(&self) -> Result<Version, AuditError> {
        self.source
            .current_version()
            .await
            .map_err(AuditError::FakeMember)
    }

    /// Waits until everything up to a version is stored, or for `MAX_WAIT`.
    async fn wait_for(&self, version: Version) -> Result<(), AuditError> {
        let deadline = Instant::now() + MAX_WAIT;
        let has_arrived = || {
            self.progress
                .acknowledged()
                .is_some_and(|mark| mark.version >= version)
        };
        while Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
            if has_arrived() {
                return Ok(());
            }
        }
        let is_blocked = self.progress.outstanding() > 0 || !self.sink.pipeline.queue.has_room();
        if is_blocked {
            Err(AuditError::Behind)
        } else {
            Ok(())
        }
    }

    async fn second_pass(
        &self,
        differences: &mut Differences,
        before: &IndexRevision,
    ) -> Result<(), AuditError> {
        let _permits = self.permits.acquire().await?;
        timeout(PASS_TIMEOUT, self.run_second_pass(differences, before))
            .await
            .unwrap_or(Err(AuditError::TooSlow))
    }

    async fn run_second_pass(
        &self,
        differences: &mut Differences,
        before: &IndexRevision,
    ) -> Result<(), AuditError> {
        let (store, revision) = self.in_sync()?;
        if revision.id != before.id {
            return Err(AuditError::Interrupted);
        }
        differences.begin_second_pass();
        let visit = &mut |stored: StoredVersion<'_>| differences.stored(stored.id, stored.version);
        store
            .visit_versions(&revision, &Extent::of(&self.unit), visit)
            .await?;
        self.list(|id, version| differences.listed(id, version))
            .await
            .map(drop)
    }

    /// The store and the index revision of the documents, if the unit is in sync.
    fn in_sync(&self) -> Result<(Arc<dyn IndexWriter>, IndexRevision), AuditError> {
        let not_in_sync = |what: &str| AuditError::NotInSync(what.to_owned());
        match self.progress.state() {
            UnitState::Synced if self.progress.is_broken() => {
                return Err(not_in_sync("its stream is about to be restarted"));
            }
            UnitState::Synced => {}
            UnitState::Starting => return Err(not_in_sync("its stream has not begun")),
            UnitState::Listing => return Err(not_in_sync("a list is in progress")),
            UnitState::Failing { reason, message } => {
                return Err(AuditError::NotInSync(format!("{reason}: {message}")));
            }
        }
        let pipeline = &self.sink.pipeline;
        let store = pipeline
            .store
            .writer()
            .ok_or_else(|| not_in_sync("the store has not been reached"))?;
        let revision = pipeline.revisions.of_cluster(&self.unit.cluster);
        Ok((
            store,
            revision.ok_or_else(|| not_in_sync("its index is about to be created again"))?,
        ))
    }

    /// Reads a list to its end. Returns its version.
    async fn list(&self, mut listed: impl FnMut(&str, Version)) -> Result<Version, AuditError> {
        // A list without end would fill the memory.
        let most = self
            .progress
            .objects()
            .saturating_mul(2)
            .saturating_add(MAX_UNKNOWN_OBJECTS);
        let mut selected = 0;
        let mut continue_token: Option<String> = None;
        let mut version: Option<Version> = None;
        loop {
            let body = self
                .page(continue_token.as_deref())
                .await
                .map_err(AuditError::FakeMember)?;
            let page = ListPage::parse(&body).and_then(|page| page.within(Some(PAGE_SIZE)));
            let page = page.map_err(|error| garbled(error.to_string()))?;
            if version.is_some_and(|version| version != page.version) {
                return Err(garbled(
                    "the pages of a list show several versions".to_owned(),
                ));
            }
            version = Some(page.version);
            for item in &page.items {
                match Object::parse_any(item) {
                    Ok((object, _)) if self.sink.filters.selects(&object) => {
                        selected += 1;
                        if selected > most {
                            return Err(AuditError::TooMany(most));
                        }
                        listed(&self.sink.projector.id(object.uid()), object.version());
                    }
                    Ok(_) => {}
                    // The stream has skipped and counted it, too.
                    Err(error) => {
                        tracing::debug!(unit = %self.unit, %error, "skipping an object in an audit");
                    }
                }
            }
            continue_token = page.continue_token;
            if continue_token.is_none() {
                return Ok(page.version);
            }
        }
    }

    async fn page(&self, continue_token: Option<&str>) -> Result<bytes::Bytes, StreamFault> {
        if self.sink.filters.decide_by_metadata() {
            self.source
                .list_metadata(continue_token, Some(PAGE_SIZE))
                .await
        } else {
            self.source.list(continue_token, Some(PAGE_SIZE)).await
        }
    }
}

fn garbled(message: String) -> AuditError {
    AuditError::FakeMember(StreamFault {
        kind: FaultKind::Garbled,
        message,
    })
}
