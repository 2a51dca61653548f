//! Anti-entropy: what is stored is compared with what the member has, as versions, and drift is repaired.
//!
//! The watch is trusted to deliver every change, and the store to keep every write. Where either does not, a stream alone would never
//! know. An audit needs the metadata of a list and the versions of the documents, a small part of what a list costs; only when both have
//! differed twice, with time in between for everything to arrive, is it drift. What is then wrong is found and put right by a list.

mod compare;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use compare::Findings;
use compare::{FirstLook, Suspects};
use fleetdex_clusters::watch::{Fault, FaultKind, ListPage, Source};
use fleetdex_core::model::{ClusterName, Object, Unit, Version, causes};
use fleetdex_store::{Extent, Generation, Store, StoreError, Stored};
use fleetdex_telemetry::metrics::{Drift, UnitMetrics};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    outlet::Outlet,
    progress::{Progress, UnitState},
};

/// Audits of the process that read at once. Each holds 32 bytes for every object of its unit.
const AT_ONCE: usize = 2;
/// How long a look may take: a million objects, of which a page comes in a third of a second. Who waits for the same permits comes next.
const LOOK_TIMEOUT: Duration = Duration::from_mins(15);
/// A list may have twice as many objects as the stream has followed, and so many more: 3 MiB.
const UNFOLLOWED: u64 = 100_000;
/// Audits of one cluster that read at once: its apiserver and its index have other work to do.
const AT_ONCE_PER_CLUSTER: usize = 1;
/// Objects per page, as of any list: of metadata alone, some hundred kilobytes.
const PAGE_SIZE: u32 = 500;
/// How often to look whether everything has arrived that could explain a difference.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait for that. Where nothing happens, a bookmark tells, and apiservers send one every minute:
/// `defaultBookmarkFrequency` of <https://pkg.go.dev/k8s.io/apiserver/pkg/storage/cacher>
const PATIENCE: Duration = Duration::from_secs(75);

/// An audit came to no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuditError {
    /// Differences would mean nothing yet.
    #[error("the kind is not in sync: {0}")]
    NotInSync(String),
    /// The stream ended before the audit did.
    #[error("the kind began to be read anew meanwhile")]
    Interrupted,
    /// The member, or the store, takes too long.
    #[error("objects and documents were not read within {} minutes", LOOK_TIMEOUT.as_secs() / 60)]
    TooSlow,
    /// What is listed has no measure with what has been followed.
    #[error(
        "the member lists more than {0} objects, more than twice as many as its watch has shown"
    )]
    TooMany(u64),
    /// Changes that have arrived cannot be written.
    #[error("the store does not take the changes that it should be compared with")]
    Behind,
    /// The member did not answer as it should.
    #[error("the member cannot be listed: {0}")]
    Member(Fault),
    /// What is stored cannot be read.
    #[error("what is stored cannot be read")]
    Store(#[from] StoreError),
}

/// Bounds what the audits of a process read at once.
pub struct Permits {
    process: Arc<Semaphore>,
    clusters: BTreeMap<ClusterName, Arc<Semaphore>>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            process: Arc::new(Semaphore::new(AT_ONCE)),
            clusters: BTreeMap::new(),
        }
    }
}

impl Permits {
    /// The share of one unit.
    pub fn for_unit(&mut self, cluster: &ClusterName) -> UnitPermits {
        let new = || Arc::new(Semaphore::new(AT_ONCE_PER_CLUSTER));
        let of_cluster = self.clusters.entry(cluster.clone()).or_insert_with(new);
        UnitPermits {
            process: Arc::clone(&self.process),
            cluster: Arc::clone(of_cluster),
            unit: Arc::new(Semaphore::new(1)),
        }
    }
}

/// What one unit's audits ask before they read.
pub struct UnitPermits {
    process: Arc<Semaphore>,
    cluster: Arc<Semaphore>,
    /// One audit of a unit at a time, the time between its looks included.
    unit: Arc<Semaphore>,
}

impl UnitPermits {
    /// The cluster first: whoever waits for that must not keep others from reading.
    async fn to_read(&self) -> Result<[OwnedSemaphorePermit; 2], AuditError> {
        Ok([permit(&self.cluster).await?, permit(&self.process).await?])
    }
}

/// They are never closed; if they were, nothing would be audited any more.
async fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, AuditError> {
    Arc::clone(semaphore)
        .acquire_owned()
        .await
        .map_err(|_| AuditError::Interrupted)
}

/// Compares one unit's documents with its objects.
pub struct Audit {
    /// The unit.
    pub unit: Unit,
    /// Its lists.
    pub source: Source,
    /// Where its objects go.
    pub outlet: Arc<Outlet>,
    /// How far it is, and where findings are noted.
    pub progress: Arc<Progress>,
    /// Its counters.
    pub metrics: UnitMetrics,
    /// Bounds what is read at once.
    pub permits: UnitPermits,
    /// Ends with the unit's stream.
    pub stop: CancellationToken,
}

impl Audit {
    /// Audits now and then, at random times, so that the audits of a fleet are spread evenly: first after a part of the interval, then
    /// after half of it to one and a half of it. Never ends.
    pub async fn repeat(&self, interval: Duration) {
        let mut pause = interval.mul_f64(fastrand::f64());
        loop {
            sleep(pause).await;
            // What it found is noted where it belongs. Boxed, because most of the time there is none.
            let _noted = Box::pin(self.run()).await;
            pause = interval.mul_f64(0.5 + fastrand::f64());
        }
    }

    /// Audits now. Drift is counted, told, and repaired: the stream begins anew with a list.
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
                tracing::debug!(unit = %self.unit, error = %causes(error), "an audit came to no result");
                if matches!(error, AuditError::TooMany(_)) {
                    tracing::warn!(unit = %self.unit, %error, "an audit was given up; the kind is read anew");
                    self.progress.distrust();
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
        self.progress.audited(findings.drift());
        let Findings {
            listed,
            stored,
            missing,
            differing,
            surplus,
            examples,
        } = findings;
        if findings.drift() == 0 {
            tracing::debug!(unit = %self.unit, listed, stored, "an audit found nothing wrong");
            return;
        }
        tracing::warn!(
            unit = %self.unit, listed, stored, missing, differing, surplus, examples = examples.join(", "),
            "an audit found documents that are not as their objects; the kind is read anew"
        );
        self.progress.distrust();
    }

    async fn compare(&self) -> Result<Findings, AuditError> {
        let _alone = permit(&self.permits.unit).await?;
        let (mut suspects, list_version, generation) = self.first_look().await?;
        if !suspects.is_empty() {
            let conclusive = suspects.conclusive_from(list_version);
            tracing::debug!(unit = %self.unit, suspects = suspects.len(), version = %conclusive, "an audit waits to look again");
            self.wait_for(conclusive).await?;
            self.second_look(&mut suspects, &generation).await?;
        }
        Ok(suspects.finish())
    }

    async fn first_look(&self) -> Result<(Suspects, Version, Generation), AuditError> {
        let _permits = self.permits.to_read().await?;
        timeout(LOOK_TIMEOUT, self.look_first())
            .await
            .unwrap_or(Err(AuditError::TooSlow))
    }

    async fn look_first(&self) -> Result<(Suspects, Version, Generation), AuditError> {
        let (store, generation) = self.in_sync()?;
        let mut look = FirstLook::default();
        let list_version = self.list(|id, version| look.listed(id, version)).await?;
        look.list_ends(list_version);
        let visit = &mut |stored: Stored<'_>| look.stored(stored.id, stored.version);
        store
            .visit_versions(&generation, &Extent::of(&self.unit), visit)
            .await?;
        let current = if look.shows_later_documents() {
            Some(self.current_version().await?)
        } else {
            None
        };
        Ok((look.finish(current), list_version, generation))
    }

    async fn current_version(&self) -> Result<Version, AuditError> {
        self.source
            .current_version()
            .await
            .map_err(AuditError::Member)
    }

    /// Waits until everything up to a version is stored, or for so long that it does not matter why it is not.
    async fn wait_for(&self, version: Version) -> Result<(), AuditError> {
        let deadline = Instant::now() + PATIENCE;
        let has_arrived = || {
            self.progress
                .acknowledged()
                .is_some_and(|mark| mark.version >= version)
        };
        while Instant::now() < deadline {
            sleep(LOOK_INTERVAL).await;
            if has_arrived() {
                return Ok(());
            }
        }
        let is_blocked = self.progress.outstanding() > 0 || !self.outlet.pipeline.has_room();
        if is_blocked {
            Err(AuditError::Behind)
        } else {
            Ok(())
        }
    }

    async fn second_look(
        &self,
        suspects: &mut Suspects,
        before: &Generation,
    ) -> Result<(), AuditError> {
        let _permits = self.permits.to_read().await?;
        timeout(LOOK_TIMEOUT, self.look_again(suspects, before))
            .await
            .unwrap_or(Err(AuditError::TooSlow))
    }

    async fn look_again(
        &self,
        suspects: &mut Suspects,
        before: &Generation,
    ) -> Result<(), AuditError> {
        let (store, generation) = self.in_sync()?;
        if generation.id != before.id {
            return Err(AuditError::Interrupted);
        }
        suspects.look_again();
        let visit = &mut |stored: Stored<'_>| suspects.stored(stored.id, stored.version);
        store
            .visit_versions(&generation, &Extent::of(&self.unit), visit)
            .await?;
        self.list(|id, version| suspects.listed(id, version))
            .await
            .map(drop)
    }

    /// Where the documents are, if they should be as their objects.
    fn in_sync(&self) -> Result<(Arc<dyn Store>, Generation), AuditError> {
        let not_in_sync = |what: &str| AuditError::NotInSync(what.to_owned());
        match self.progress.state() {
            UnitState::Synced if self.progress.is_broken() => {
                return Err(not_in_sync("it is about to be read anew"));
            }
            UnitState::Synced => {}
            UnitState::Starting => return Err(not_in_sync("its stream has not begun")),
            UnitState::Listing => return Err(not_in_sync("a list is under way")),
            UnitState::Failing { reason, message } => {
                return Err(AuditError::NotInSync(format!("{reason}: {message}")));
            }
        }
        let pipeline = &self.outlet.pipeline;
        let store = pipeline
            .store()
            .ok_or_else(|| not_in_sync("the store has not been reached"))?;
        let generation = pipeline.open_generation_of(&self.unit.cluster);
        Ok((
            store,
            generation.ok_or_else(|| not_in_sync("its index is about to be made anew"))?,
        ))
    }

    /// Reads a list to its end. Gives the version that it shows.
    async fn list(&self, mut listed: impl FnMut(&str, Version)) -> Result<Version, AuditError> {
        // A list that never ends would fill the memory.
        let most = self
            .progress
            .objects()
            .saturating_mul(2)
            .saturating_add(UNFOLLOWED);
        let mut wanted = 0;
        let mut continue_token: Option<String> = None;
        let mut version: Option<Version> = None;
        loop {
            let body = self
                .page(continue_token.as_deref())
                .await
                .map_err(AuditError::Member)?;
            let page = ListPage::parse(&body).and_then(|page| page.within(Some(PAGE_SIZE)));
            let page = page.map_err(|error| garbled(error.to_string()))?;
            if version.is_some_and(|version| version != page.version) {
                return Err(garbled(
                    "the pages of a list show several versions".to_owned(),
                ));
            }
            version = Some(page.version);
            for item in &page.items {
                match Object::parse_any(item.get()) {
                    Ok((object, _)) if self.outlet.wants(&object) => {
                        wanted += 1;
                        if wanted > most {
                            return Err(AuditError::TooMany(most));
                        }
                        listed(&self.outlet.projector.id(object.uid()), object.version());
                    }
                    Ok(_) => {}
                    // The stream has skipped it, too, and counted it.
                    Err(error) => {
                        tracing::debug!(unit = %self.unit, %error, "an object is left out of an audit");
                    }
                }
            }
            continue_token = page.continue_token;
            if continue_token.is_none() {
                return Ok(page.version);
            }
        }
    }

    async fn page(&self, continue_token: Option<&str>) -> Result<bytes::Bytes, Fault> {
        if self.outlet.decides_by_metadata() {
            self.source
                .list_metadata(continue_token, Some(PAGE_SIZE))
                .await
        } else {
            self.source.list(continue_token, Some(PAGE_SIZE)).await
        }
    }
}

fn garbled(message: String) -> AuditError {
    AuditError::Member(Fault {
        kind: FaultKind::Garbled,
        message,
    })
}
