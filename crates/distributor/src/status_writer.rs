//! Reports what clusters have: on bindings, and as the status of the object itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::discovery::Discovery;
use fleetdex_core::model::causes;
use fleetdex_distribution::{contains::contains, template_name::TemplateName};
use fleetdex_interpreter::{Request, Response, request::AggregatedStatusItem};
use fleetdex_replicas::write_fence::WriteFence;
use futures::{StreamExt as _, stream};
use http::StatusCode;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    bindings::BindingClient,
    control_plane::{ControlPlaneObjects, resource_of},
    interpreting::{Interpreting, OperationQuestion},
    object_client::{ObjectClient, ObjectPart, ObjectRequestError},
    status_board::{BindingReport, StatusBoard},
    wall_clock::WallClock,
};

mod conditions;

use conditions::{ReportedBinding, binding_status};

/// Changes that come together are reported together.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The pause after a failure.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the reports of clusters that have not reported yet are awaited: a new object comes to
/// all of them at about the same time, and is reported once.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after a start the reports of members are awaited.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// Objects that are reported at a time.
const CONCURRENT: usize = 8;

/// What came of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportOutcome {
    Reported,
    Later,
}

/// Reports what clusters have.
pub struct StatusWriter {
    /// What is known.
    pub board: Arc<StatusBoard>,
    /// The objects of the control plane.
    pub objects: ControlPlaneObjects,
    /// What the control plane serves.
    pub served: watch::Receiver<Arc<Discovery>>,
    /// Writes bindings.
    pub bindings: BindingClient,
    /// The control plane.
    pub client: Client,
    /// Closed while another replica writes.
    pub fence: WriteFence,
    /// Rules and webhooks.
    pub interpreting: Interpreting,
    /// The statuses that were sent, until the watch of bindings has them.
    pub sent: Mutex<BTreeMap<TemplateName, Value>>,
    /// Since when bindings are known of which clusters have not reported yet.
    pub incomplete: Mutex<BTreeMap<TemplateName, Instant>>,
    /// The time of day.
    pub clock: WallClock,
}

impl StatusWriter {
    /// Reports until aborted.
    pub async fn run(self) {
        let mut again: BTreeSet<TemplateName> = BTreeSet::new();
        let mut again_at = Instant::now();
        let started = Instant::now();
        loop {
            tokio::select! {
                () = self.board.has_changed() => {}
                () = sleep_until(again_at), if !again.is_empty() => {}
            }
            sleep(DEBOUNCE).await;
            let mut changed = self.board.take_changed();
            if again_at <= Instant::now() {
                changed.append(&mut again);
            }
            let reported = stream::iter(changed).map(async |name| {
                let result = self.report(&name, started).await;
                (name, result)
            });
            let mut reported = Box::pin(reported.buffer_unordered(CONCURRENT));
            while let Some((name, result)) = reported.next().await {
                if let Err(error) = &result {
                    tracing::warn!(object = %name, error = %causes(error), "cannot report the status of a distributed object");
                }
                if !matches!(result, Ok(ReportOutcome::Reported)) {
                    if again.is_empty() {
                        again_at = Instant::now() + AGAIN;
                    }
                    again.insert(name);
                }
            }
        }
    }

    async fn report(
        &self,
        name: &TemplateName,
        started: Instant,
    ) -> Result<ReportOutcome, ObjectRequestError> {
        let (client, binding) = self.bindings.of(name);
        let report = self.board.of(name);
        if report.is_none() {
            self.sent.lock().remove(&binding);
            self.incomplete.lock().remove(&binding);
        }
        let Some(current) = self.objects.object(&binding) else {
            // The watch will send the binding of an object that is distributed.
            let is_expected = report.is_some();
            return Ok(if is_expected {
                ReportOutcome::Later
            } else {
                ReportOutcome::Reported
            });
        };
        let held = self.board.held_in(name);
        let Some(report) = report else {
            self.report_leftover(client, &binding, &current.status, &held)
                .await?;
            return Ok(ReportOutcome::Reported);
        };
        if self.awaits_more(&binding, &report, &current.status, started) {
            return Ok(ReportOutcome::Later);
        }
        let reported = ReportedBinding {
            report: &report,
            held: &held,
            before: &current.status,
            now: (self.clock)(),
        };
        let status = binding_status(&reported);
        if self.is_other(&binding, &current.status, &status) {
            write_status(client, &binding, &status).await?;
        }
        self.report_on_template(name, &report).await
    }

    /// Whether clusters that have not reported yet are awaited. After a start the members are
    /// looked at one by one, and what was known before still holds.
    fn awaits_more(
        &self,
        binding: &TemplateName,
        report: &BindingReport,
        status: &Value,
        started: Instant,
    ) -> bool {
        let mut incomplete = self.incomplete.lock();
        if !report.is_incomplete() {
            incomplete.remove(binding);
            return false;
        }
        let since = incomplete.entry(binding.clone());
        let since = since.or_insert_with(Instant::now).elapsed();
        since < PATIENCE || (!status.is_null() && started.elapsed() < FIRST_LOOK)
    }

    /// Whether a status has to be written: the watch may not have sent yet what was sent last.
    fn is_other(&self, binding: &TemplateName, known: &Value, status: &Value) -> bool {
        let mut sent = self.sent.lock();
        let is_known = is_same(known, status);
        if is_known && sent.get(binding).is_none_or(|sent| is_same(sent, status)) {
            sent.remove(binding);
            return false;
        }
        sent.insert(binding.clone(), status.clone());
        true
    }

    /// An object that is gone, whose copies are not.
    async fn report_leftover(
        &self,
        client: &ObjectClient,
        binding: &TemplateName,
        before: &Value,
        held: &[String],
    ) -> Result<(), ObjectRequestError> {
        let mut status = before.clone();
        conditions::set_held(&mut status, held, (self.clock)());
        if is_same(before, &status) {
            return Ok(());
        }
        write_status(client, binding, &status).await
    }

    /// Aggregates what clusters report into the status of the object.
    async fn report_on_template(
        &self,
        name: &TemplateName,
        report: &BindingReport,
    ) -> Result<ReportOutcome, ObjectRequestError> {
        if report.planned.set.is_some() {
            // A template of this name is another object.
            return Ok(ReportOutcome::Reported);
        }
        let Some(template) = self.objects.object(name) else {
            return Ok(ReportOutcome::Reported);
        };
        if template.has_controller || report.clusters.values().all(|one| one.status.is_none()) {
            return Ok(ReportOutcome::Reported);
        }
        let mut object = (*template.object).clone();
        if !template.status.is_null() {
            object["status"] = (*template.status).clone();
        }
        let items = items(report);
        let question = OperationQuestion::of(&Request::AggregateStatus {
            object: &object,
            items: &items,
        });
        let aggregated = match self.interpreting.run(question).await {
            Ok(Some(Response::AggregatedStatus(aggregated))) => aggregated,
            Ok(_) => return Ok(ReportOutcome::Reported),
            Err(error) => {
                tracing::warn!(object = %name, %error, "AggregateStatus failed");
                return Ok(ReportOutcome::Later);
            }
        };
        let status = aggregated.get("status").cloned().unwrap_or_default();
        if status.is_null() || is_same(&template.status, &status) {
            return Ok(ReportOutcome::Reported);
        }
        let kind = name.kind_name();
        let Some(resource) = resource_of(&self.served.borrow(), &kind) else {
            return Ok(ReportOutcome::Reported);
        };
        let client = ObjectClient::new(self.client.clone(), resource, self.fence.clone());
        match write_status(&client, name, &status).await {
            // The kind has no status of its own.
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {}
            other => other?,
        }
        Ok(ReportOutcome::Reported)
    }
}

/// What clusters report, in the form of Karmada.
fn items(report: &BindingReport) -> Vec<AggregatedStatusItem> {
    let targets = report.planned.clusters.iter();
    let known = targets.filter_map(|target| {
        let one = report.clusters.get(&target.name)?;
        Some(AggregatedStatusItem {
            cluster_name: target.name.clone(),
            status: one.status.clone(),
            applied: one.is_applied,
            applied_message: one.message.clone(),
            health: one.health.to_owned(),
        })
    });
    known.collect()
}

/// Whether a status has the same fields and values.
fn is_same(before: &Value, now: &Value) -> bool {
    contains(before, now) && contains(now, before)
}

async fn write_status(
    client: &ObjectClient,
    name: &TemplateName,
    status: &Value,
) -> Result<(), ObjectRequestError> {
    let mut metadata: BTreeMap<&str, &str> = [("name", name.name.as_str())].into();
    if !name.namespace.is_empty() {
        metadata.insert("namespace", &name.namespace);
    }
    let object = json!({
        "apiVersion": name.api_version, "kind": name.kind, "metadata": metadata, "status": status,
    });
    client
        .apply(name, &object, ObjectPart::Status)
        .await
        .map(drop)
}
