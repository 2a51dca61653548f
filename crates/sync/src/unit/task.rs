//! The task of a unit before it lists or watches.

use std::{sync::Arc, time::Duration};

use fleetdex_clusters::watch::ListerWatcher;
use fleetdex_core::model::{Unit, Version};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_store::{Extent, IndexRevision, StoreError};
use fleetdex_telemetry::{Traces, metrics::UnitMetrics};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::end::Interruption;
use crate::{
    audit::Audit,
    checkpoints::UnitKey,
    enrichment::UnitEnrichment,
    progress::{FailureCause, Progress},
    sink::Sink,
};

/// The task of a unit, before it runs.
pub struct UnitTask {
    /// The unit.
    pub unit: Unit,
    /// The UID of the cluster, if it is known.
    pub uid: Option<String>,
    /// Former streams of the unit, perhaps with writes in flight.
    pub predecessors: Vec<Arc<Progress>>,
    /// Its lists and watches.
    pub source: ListerWatcher,
    /// Receives its objects.
    pub sink: Arc<Sink>,
    /// Identifies which objects are selected. A checkpoint of another plan is not resumed from.
    pub plan: String,
    /// A hash of the rules by which documents are made, which each of them names; `None`: none but
    /// those that every document of the index is made by. Documents of other rules are written
    /// again by the next list, although their versions are those of the member.
    pub rules_hash: Option<Arc<str>>,
    /// The same of the rules that hold once any object of the kind has had a status; `None`: these
    /// do, or it makes no difference.
    pub written_status_hash: Option<Arc<str>>,
    /// Ends the task.
    pub stop: CancellationToken,
    /// Whether selectors are sent to the member, so that an object that it does not list may still
    /// exist.
    pub is_selective: bool,
    /// Its progress.
    pub progress: Arc<Progress>,
    /// The interpretation rules of the kind, if any.
    pub rules: Option<KindRules>,
    /// Asks webhooks about its objects; `None` if no webhook answers for its kind.
    pub enrichment: Option<Arc<UnitEnrichment>>,
    /// Bounds the concurrent lists of its cluster.
    pub lists: Arc<Semaphore>,
    /// Its counters.
    pub metrics: UnitMetrics,
    /// Begins the traces of changes.
    pub traces: Traces,
    /// Compares the stored documents with the objects of the member.
    pub audit: Arc<Audit>,
    /// The interval between audits; absent: none.
    pub audit_interval: Option<Duration>,
}

impl UnitTask {
    /// Opens the index revision to write to.
    pub(super) async fn open(&self) -> Result<IndexRevision, Interruption<StoreError>> {
        let pipeline = &self.sink.pipeline;
        let uid = self.uid.as_deref();
        let delay = uid.map_or(Duration::ZERO, |uid| {
            pipeline.revisions.identity_delay(&self.unit.cluster, uid)
        });
        if !delay.is_zero() {
            let message = format!(
                "another cluster answers again; it is read in {} s at the earliest",
                delay.as_secs()
            );
            self.progress
                .failing(FailureCause::Member, "IdentityChanged", message);
            tokio::time::sleep(delay).await;
        }
        let revision = pipeline.revisions.open(&self.unit.cluster, uid).await?;
        let rejected = pipeline
            .store
            .opened()
            .await
            .rejected(&revision, &Extent::of(&self.unit))
            .await?;
        self.progress.set_rejected(&rejected);
        self.check_rules_of_checkpoint(&revision)?;
        Ok(revision)
    }

    /// The version to resume the watch from; `None` if the unit has to be listed.
    pub(super) fn resume(&self, revision: &IndexRevision) -> Option<Version> {
        let tracker = &self.sink.pipeline.checkpoints.tracker;
        let key = UnitKey::from(&self.unit);
        let filters = &self.sink.filters;
        // Only a list counts the objects of each selection.
        let position = tracker
            .resume(revision, &key, &self.plan)
            .filter(|position| filters.are_counted(&position.selected));
        let version = position.as_ref().map(|position| position.version);
        match position {
            Some(position) => self.progress.resume_from(position),
            None => self.progress.list_started(),
        }
        self.progress.set_revision(revision);
        tracker.track(
            revision,
            &self.unit,
            self.plan.clone(),
            Arc::clone(&self.progress),
        );
        version
    }
}
