//! Brings one object of one member to what it shall be.

use std::sync::Arc;

use fleetdex_core::{
    model::causes,
    planted::{Bug, planted},
};
use fleetdex_distribution::{
    contains::contains,
    marks::{self, CopyOrigin},
    template_name::TemplateName,
    templates::CONTROL_PLANE_LABEL,
};
use fleetdex_interpreter::{Operation, Request, Response, health::Assessment};
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    copies::{self, Copy},
    interpreting::{Interpreting, OperationQuestion},
    object_client::{ObjectClient, ObjectPart, ObjectRequestError},
    published::DesiredObject,
    status_board::CopyReport,
};

/// The version of no object: applied with it, an object is created, or refused if the cluster has
/// one of its name. Versions are those of etcd, of which the first one is no object's.
const VERSION_OF_NONE: &str = "1";

/// Bytes of a status that is reported, at most.
const LARGEST_STATUS: usize = 32 << 10;

/// The form in which a member has accepted what it was sent, where that is another one.
#[derive(Clone, Debug)]
pub struct AcceptedForm {
    /// Of what was sent.
    pub hash: String,
    /// What the member has made of it.
    pub object: Value,
}

/// What is to be done with one object.
pub struct ObjectTask {
    /// The object.
    pub name: TemplateName,
    /// What it shall be.
    pub desired: DesiredObject,
    /// What it is; `None`: there is no copy.
    pub copy: Option<Copy>,
    /// In which form the member has accepted it.
    pub accepted: Option<AcceptedForm>,
}

/// What came of it.
#[derive(Debug)]
pub enum ApplyOutcome {
    /// The member has the object.
    Applied {
        /// Its version.
        version: u64,
        /// What was written; `None`: nothing had to be.
        written: Option<WrittenObject>,
        /// What to report; `None`: nothing.
        report: Option<Box<CopyReport>>,
    },
    /// The member has another object of that name.
    Conflict(String),
    /// It failed, and may succeed later.
    Failed {
        /// Why.
        message: String,
        /// Whether the namespace is missing.
        lacks_namespace: bool,
        /// Whether the member has answered: what it has not may still arrive.
        is_answered: bool,
    },
}

/// An object as a member has stored it.
#[derive(Debug)]
pub struct WrittenObject {
    /// Its form, if it is not the one that was sent.
    pub accepted: Option<AcceptedForm>,
}

/// How objects are brought to what they shall be.
#[derive(Clone)]
pub struct Applying {
    /// The objects of the kind in the member.
    pub client: ObjectClient,
    /// Rules and webhooks.
    pub interpreting: Interpreting,
    /// The control plane and the member.
    pub origin: CopyOrigin,
}

impl Applying {
    /// Applies an object where the member has another one.
    pub async fn apply(&self, task: ObjectTask) -> ApplyOutcome {
        match self.try_apply(task).await {
            Ok(outcome) => outcome,
            Err(error) => failed(&error),
        }
    }

    async fn try_apply(&self, task: ObjectTask) -> Result<ApplyOutcome, ObjectRequestError> {
        let hash = task.desired.hash();
        if let Some(copy) = &task.copy {
            return self.update(&task, copy, hash).await;
        }
        // Most members have nothing of that name, and one request is enough.
        if !task.desired.is_only_needed
            && let Some(created) = self.create(&task, &hash).await?
        {
            return Ok(created);
        }
        let Some(found) = self.client.get(&task.name).await? else {
            let created = self.create(&task, &hash).await?;
            let gone = || not_written("another object of this name comes and goes".to_owned());
            return Ok(created.unwrap_or_else(gone));
        };
        let is_ours =
            self.origin.has_written(&found) || planted(Bug::DistributionOverwritesConflicts);
        if !is_ours && task.desired.is_only_needed {
            return Ok(ApplyOutcome::Applied {
                version: copies::version(&found),
                written: None,
                report: None,
            });
        }
        if !is_ours && !task.desired.overwrites {
            return Ok(ApplyOutcome::Conflict(conflict(&found)));
        }
        self.update(&task, &Copy::of(found), hash).await
    }

    /// Writes an object of which the member has none; `None`: it has one.
    async fn create(
        &self,
        task: &ObjectTask,
        hash: &str,
    ) -> Result<Option<ApplyOutcome>, ObjectRequestError> {
        let wanted = match self.wanted(task, None, hash).await {
            Ok(wanted) => wanted,
            Err(message) => return Ok(Some(not_written(message))),
        };
        let mut sent = wanted.clone();
        sent["metadata"]["resourceVersion"] = VERSION_OF_NONE.into();
        match self.send(task, &wanted, &sent, hash.to_owned()).await {
            Ok(applied) => Ok(Some(applied)),
            Err(error) if error.status() == Some(StatusCode::CONFLICT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Brings a copy to what it shall be.
    async fn update(
        &self,
        task: &ObjectTask,
        copy: &Copy,
        hash: String,
    ) -> Result<ApplyOutcome, ObjectRequestError> {
        let wanted = match self.wanted(task, Some(copy), &hash).await {
            Ok(wanted) => wanted,
            Err(message) => return Ok(not_written(message)),
        };
        let accepted = task.accepted.as_ref().filter(|form| form.hash == hash);
        let compared = accepted.map_or(&wanted, |form| &form.object);
        let observed = copy.object.value();
        if contains(&observed, compared) {
            let report = self.report(task, observed).await;
            return Ok(ApplyOutcome::Applied {
                version: copy.version,
                written: None,
                report,
            });
        }
        let mut sent = wanted.clone();
        if !planted(Bug::DistributionOverwritesReplaced) {
            // Another object of this name is refused.
            sent["metadata"]["uid"] = (*copy.uid).into();
        }
        self.send(task, &wanted, &sent, hash).await
    }

    async fn send(
        &self,
        task: &ObjectTask,
        wanted: &Value,
        sent: &Value,
        hash: String,
    ) -> Result<ApplyOutcome, ObjectRequestError> {
        let stored = self
            .client
            .apply(&task.name, sent, ObjectPart::Main)
            .await?;
        let version = copies::version(&stored);
        let written = Some(WrittenObject {
            accepted: accepted_form(hash, wanted, &stored),
        });
        let report = self.report(task, stored).await;
        Ok(ApplyOutcome::Applied {
            version,
            written,
            report,
        })
    }

    /// The object to write, with what the member owns of it.
    async fn wanted(
        &self,
        task: &ObjectTask,
        copy: Option<&Copy>,
        hash: &str,
    ) -> Result<Value, String> {
        let mut wanted = task.desired.object.value();
        if let Some(copy) = copy {
            let observed = copy.object.value();
            let question = OperationQuestion::of(&Request::Retain {
                desired: &wanted,
                observed: &observed,
            });
            match self.interpreting.run(question).await {
                Ok(Some(Response::Retained(retained))) => wanted = retained,
                Ok(_) => {}
                Err(error) => return Err(format!("Retain: {error}")),
            }
            if copy.is_scaled
                && !planted(Bug::DistributionOverwritesAutoscaler)
                && let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut)
            {
                spec.shift_remove("replicas");
            }
        }
        if let Some(members) = wanted.as_object_mut() {
            members.shift_remove("status");
        }
        Ok(marks::marked(wanted, &self.origin, hash))
    }

    /// What the member reports of the object.
    async fn report(&self, task: &ObjectTask, observed: Value) -> Option<Box<CopyReport>> {
        if task.desired.is_only_needed {
            return None;
        }
        let observed = Arc::new(observed);
        let status = OperationQuestion::about(Operation::InterpretStatus, Arc::clone(&observed));
        let health = OperationQuestion::about(Operation::InterpretHealth, observed);
        let status = match self.interpreting.run(status).await {
            Ok(Some(Response::Status(status))) if !status.is_null() => Some(status),
            _ => None,
        };
        let status = status.filter(|status| status.to_string().len() <= LARGEST_STATUS);
        let (health, cause) = match self.interpreting.run(health).await {
            Ok(Some(Response::Health { healthy: true, .. })) => ("Healthy", String::new()),
            Ok(Some(Response::Health { assessment, .. })) => ("Unhealthy", cause(assessment)),
            _ => ("Unknown", String::new()),
        };
        Some(Box::new(CopyReport {
            is_applied: true,
            message: String::new(),
            status,
            health,
            cause,
            of: Some(task.desired.object.clone()),
        }))
    }

    /// Makes a copy the cluster's own: it stays, and Fleetdex forgets it.
    pub async fn release(
        &self,
        name: &TemplateName,
        copy: &Copy,
    ) -> Result<(), ObjectRequestError> {
        let mut patch = json!({"metadata": {
            // Another object that has taken its name keeps its labels.
            "uid": *copy.uid,
            "labels": {CONTROL_PLANE_LABEL: null},
            "annotations": {marks::WRITTEN_ANNOTATION: null},
        }});
        if copy.version > 0 {
            patch["metadata"]["resourceVersion"] = copy.version.to_string().into();
        }
        match self.client.merge(name, &patch, ObjectPart::Main).await {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Why an object is not healthy.
fn cause(assessment: Assessment) -> String {
    let Assessment {
        reason, message, ..
    } = assessment;
    match (reason.is_empty(), message.is_empty()) {
        (_, true) => reason,
        (true, false) => message,
        (false, false) => format!("{reason}: {message}"),
    }
}

/// The form that a member has accepted, if it is not the one that was sent. One that is far larger
/// is not kept.
fn accepted_form(hash: String, wanted: &Value, stored: &Value) -> Option<AcceptedForm> {
    if contains(stored, wanted) {
        return None;
    }
    let object = marks::accepted(wanted, stored);
    let is_usual = object.to_string().len() <= 2 * wanted.to_string().len();
    is_usual.then_some(AcceptedForm { hash, object })
}

fn not_written(message: String) -> ApplyOutcome {
    ApplyOutcome::Failed {
        message,
        lacks_namespace: false,
        is_answered: true,
    }
}

fn failed(error: &ObjectRequestError) -> ApplyOutcome {
    let message = causes(error);
    ApplyOutcome::Failed {
        lacks_namespace: error.status() == Some(StatusCode::NOT_FOUND)
            && message.contains("namespaces"),
        is_answered: error.status().is_some(),
        message,
    }
}

/// What is in the way.
fn conflict(found: &Value) -> String {
    let entries = found["metadata"]["managedFields"].as_array();
    let manager = entries
        .into_iter()
        .flatten()
        .find_map(|entry| entry["manager"].as_str());
    let manager = manager.map(|name| format!(", which {name} manages"));
    format!(
        "the cluster has this object already{}, and Fleetdex did not make it: set \
         conflictResolution: Overwrite to take it over",
        manager.unwrap_or_default()
    )
}
