//! Tells the authors of interpreter configurations what is not in use: in the condition `Accepted`,
//! or where the CRD has no status, as Karmada's, in an Event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_replicas::Replicas;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::DynamicObject,
    runtime::events::{Event, EventType, Recorder},
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    inputs::{RuleInputs, RuleObject, RuleObjectKey},
    publisher::AssessedObjects,
};
use crate::{
    FIELD_MANAGER,
    interpreter_rules::{RuleProblem, acceptance},
};

/// How long the control plane may take for one request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to try again what could not be written, and to check whether this replica leads.
const RETRY: Duration = Duration::from_secs(30);
/// Changes within this time are handled together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The longest note of an Event, in bytes: Kubernetes refuses 1,024 and more.
const MAX_NOTE_BYTES: usize = 1_000;

/// Writes the conditions of all objects, as long as this replica leads.
pub(super) struct AcceptanceWriter {
    pub(super) control_plane: Client,
    pub(super) recorder: Arc<Recorder>,
    pub(super) replicas: Replicas,
    pub(super) inputs: watch::Receiver<RuleInputs>,
    pub(super) assessed: watch::Receiver<Arc<AssessedObjects>>,
    /// What was reported of objects that have no status.
    pub(super) reported: BTreeMap<RuleObjectKey, Reported>,
}

/// What was reported of an object that has no status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reported {
    uid: Option<String>,
    generation: Option<i64>,
    is_accepted: bool,
    message: String,
}

/// Whether a status could be written.
enum StatusWrite {
    Written,
    /// The kind has no status.
    NoStatus,
    /// The object no longer exists.
    Gone,
}

impl AcceptanceWriter {
    /// Writes until aborted.
    pub(super) async fn run(mut self) {
        loop {
            if self.replicas.assignment().is_leader() {
                self.write_all().await;
            }
            tokio::select! {
                result = self.inputs.changed() => if result.is_err() { return },
                result = self.assessed.changed() => if result.is_err() { return },
                () = sleep(RETRY) => {}
            }
            sleep(DEBOUNCE).await;
        }
    }

    /// Writes each condition that differs. Objects that have not been assessed yet are left out.
    async fn write_all(&mut self) {
        let inputs = self.inputs.borrow_and_update().clone();
        let assessed = Arc::clone(&self.assessed.borrow_and_update());
        let contents = inputs.contents();
        self.reported.retain(|key, _| contents.contains_key(key));
        for (source, object) in inputs.objects() {
            let key = (source, object.name().to_owned());
            let Some(problems) = assessed.problems(&key, object) else {
                continue;
            };
            let now = Timestamp::now();
            let due = acceptance::due(&object.conditions, problems, object.generation, now);
            if let Some(condition) = due {
                self.report(key, object, problems, condition).await;
            }
        }
    }

    async fn report(
        &mut self,
        key: RuleObjectKey,
        object: &RuleObject,
        problems: &[RuleProblem],
        condition: Condition,
    ) {
        let report = Reported {
            uid: object.reference.uid.clone(),
            generation: object.generation,
            is_accepted: problems.is_empty(),
            message: condition.message.clone(),
        };
        if self.reported.get(&key) == Some(&report) {
            return;
        }
        let write = if key.0.may_have_status() {
            self.write_status(&key, &condition).await
        } else {
            Ok(StatusWrite::NoStatus)
        };
        match write {
            Ok(StatusWrite::Written | StatusWrite::Gone) => {}
            Ok(StatusWrite::NoStatus) => {
                let before = self.reported.insert(key, report);
                let was_refused = before.is_some_and(|before| !before.is_accepted);
                // Most objects are accepted; that is news only after a refusal.
                if was_refused || !problems.is_empty() {
                    self.announce(object, problems, &condition).await;
                }
            }
            Err(error) => {
                let kind = key.0.resource().kind;
                tracing::warn!(%kind, name = %key.1, %error, "cannot write the status of an interpreter configuration; it is tried again");
            }
        }
    }

    async fn write_status(
        &self,
        (source, name): &RuleObjectKey,
        condition: &Condition,
    ) -> Result<StatusWrite, String> {
        let resource = source.resource();
        let api = Api::<DynamicObject>::all_with(self.control_plane.clone(), &resource);
        let patch = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name },
            "status": { "conditions": [condition] },
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let write = async {
            match api
                .patch_status(name, &parameters, &Patch::Apply(&patch))
                .await
            {
                Ok(_) => Ok(StatusWrite::Written),
                // So the control plane responds both without a status and without an object.
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    let found = api.get_opt(name).await?;
                    Ok(found.map_or(StatusWrite::Gone, |_| StatusWrite::NoStatus))
                }
                Err(error) => Err(error),
            }
        };
        match timeout(WRITE_TIMEOUT, write).await {
            Ok(result) => result.map_err(|error| causes(&error)),
            Err(_) => Err("the control plane does not respond".to_owned()),
        }
    }

    async fn announce(&self, object: &RuleObject, problems: &[RuleProblem], condition: &Condition) {
        let message = &condition.message;
        let event = Event {
            type_: if problems.is_empty() {
                EventType::Normal
            } else {
                EventType::Warning
            },
            reason: condition.reason.clone(),
            note: Some(message[..message.floor_char_boundary(MAX_NOTE_BYTES)].to_owned()),
            action: "Validate".to_owned(),
            secondary: None,
        };
        // The recorder counts an Event about the same part of the same version as a repetition.
        let reference = ObjectReference {
            field_path: problems.first().map(|problem| problem.field.path.clone()),
            ..object.reference.clone()
        };
        let publish = self.recorder.publish(&event, &reference);
        match timeout(WRITE_TIMEOUT, publish).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = %causes(&error), "cannot write an Event"),
            Err(_) => tracing::debug!("timed out writing an Event"),
        }
    }
}
