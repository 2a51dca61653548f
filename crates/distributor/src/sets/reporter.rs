//! Writes the statuses of `Distribution`s.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_crds::distribution::DistributionStatus;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

use super::{
    finalizer::object_name,
    report::{SetReport, SetReports},
};
use crate::{
    control_plane::ControlPlaneObjects,
    object_client::{ObjectClient, ObjectPart, ObjectRequestError},
    published::PublishedPlan,
    status_board::{ClusterCount, StatusBoard},
    wall_clock::WallClock,
};

/// How often is looked at what clusters report.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failure.
const AGAIN: Duration = Duration::from_secs(10);
/// How long after a start is awaited what clusters report, before a status is written anew.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looking takes at most one part of so many of the time.
const SHARE: u32 = 20;

/// What was reported of a set.
struct SentReport {
    status: DistributionStatus,
    counts: BTreeMap<String, ClusterCount>,
}

/// Writes the statuses of `Distribution`s.
pub struct SetReporter {
    /// What is known of sets.
    pub reports: Arc<SetReports>,
    /// What clusters report.
    pub board: Arc<StatusBoard>,
    /// The `Distribution`s.
    pub objects: ControlPlaneObjects,
    /// The plans that are applied.
    pub published: watch::Receiver<Arc<PublishedPlan>>,
    /// Notified when clusters of a rollout report another thing than before.
    pub changed: Arc<Notify>,
    /// Writes them.
    pub client: ObjectClient,
    /// The time of day.
    pub clock: WallClock,
}

impl SetReporter {
    /// Writes until aborted.
    pub async fn run(self) {
        let mut sent: BTreeMap<String, SentReport> = BTreeMap::new();
        let started = Instant::now();
        loop {
            let began = Instant::now();
            let reports = self.reports.all();
            let mut pause = LOOK;
            sent.retain(|uid, _| reports.iter().any(|one| one.name.uid == *uid));
            for report in reports {
                if let Err(error) = self.report(&report, started, &mut sent).await {
                    pause = AGAIN;
                    tracing::warn!(set = %report.name.shown(), error = %causes(&error), "cannot write the status of a Distribution");
                }
            }
            sleep(pause.max(began.elapsed() * SHARE)).await;
        }
    }

    async fn report(
        &self,
        report: &SetReport,
        started: Instant,
        sent: &mut BTreeMap<String, SentReport>,
    ) -> Result<(), ObjectRequestError> {
        let uid = &report.name.uid;
        let name = object_name(&report.name);
        let Some(current) = self.objects.object(&name) else {
            return Ok(());
        };
        if current.object["metadata"]["uid"] != uid.as_str() {
            return Ok(());
        }
        let published = Arc::clone(&self.published.borrow());
        let counts = self.board.count(&report.members, &published);
        let is_known = report.generation.is_some() && counts.values().all(|one| one.unknown == 0);
        let was_reported = !current.status["observedGeneration"].is_null();
        let waits = was_reported && !sent.contains_key(uid) && started.elapsed() < PATIENCE;
        let is_other = sent.get(uid).is_none_or(|sent| sent.counts != counts);
        if is_other && report.is_rolled_out() {
            self.changed.notify_one();
        }
        if waits && !is_known {
            return Ok(());
        }
        let before = match sent.get(uid) {
            Some(before) => before.status.clone(),
            None => serde_json::from_value(Value::clone(&current.status)).unwrap_or_default(),
        };
        let before = DistributionStatus {
            rollout: None,
            hooks: None,
            ..before
        };
        let status = report.status(&counts, &before, (self.clock)());
        let is_same = status == before;
        let report = SentReport {
            status: status.clone(),
            counts,
        };
        if is_same {
            sent.insert(uid.clone(), report);
            return Ok(());
        }
        // With the UID another object of this name is refused, and none is made.
        let object = json!({
            "apiVersion": name.api_version, "kind": name.kind,
            "metadata": {"name": name.name, "namespace": name.namespace, "uid": uid},
            "status": status,
        });
        self.client
            .apply(&name, &object, ObjectPart::Status)
            .await?;
        sent.insert(uid.clone(), report);
        Ok(())
    }
}
