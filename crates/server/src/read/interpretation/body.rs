//! The body of a request to interpret an object.

use fleetdex_interpreter::{Operation, Request, request::AggregatedStatusItem};
use fleetdex_limits::parsed::{Parsed, ReservedJson};
use serde::Deserialize;
use serde_json::Value;

use crate::api_error::ApiError;

/// An operation of a resource interpreter, and what it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct InterpretRequest {
    operation: Operation,
    body: InterpretBody,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterpretBody {
    operation: String,
    object: Value,
    #[serde(default)]
    observed_object: Option<Value>,
    #[serde(default)]
    desired_replicas: Option<i64>,
    #[serde(default)]
    aggregated_status: Option<Vec<AggregatedStatusItem>>,
}

impl InterpretRequest {
    /// Parses a body.
    pub fn parse(body: ReservedJson) -> Result<Parsed<Self>, ApiError> {
        let body: Parsed<InterpretBody> = body.parse().map_err(|error| {
            ApiError::bad_request(format!(
                "the body is not valid: {error}; expected {{\"operation\": \"InterpretHealth\", \"object\": {{…}}}}"
            ))
        })?;
        body.try_map(Self::of)
    }

    fn of(body: InterpretBody) -> Result<Self, ApiError> {
        let operation = Operation::from_name(&body.operation).ok_or_else(|| {
            let names = Operation::ALL.map(Operation::name).join(", ");
            ApiError::bad_request(format!(
                "operation {:?} is not supported; use one of {names}",
                body.operation
            ))
        })?;
        check_object("object", &body.object)?;
        if let Some(observed) = &body.observed_object {
            check_object("observedObject", observed)?;
        }
        Ok(Self { operation, body })
    }

    /// The request to an interpreter. An error if the operation needs something that the body does
    /// not have.
    pub fn request(&self) -> Result<Request<'_>, ApiError> {
        let InterpretBody {
            object,
            observed_object,
            desired_replicas,
            aggregated_status,
            ..
        } = &self.body;
        Ok(match self.operation {
            Operation::InterpretReplica => Request::Replica { object },
            Operation::InterpretComponent => Request::Component { object },
            Operation::InterpretStatus => Request::Status { object },
            Operation::InterpretHealth => Request::Health { object },
            Operation::InterpretDependency => Request::Dependency { object },
            Operation::Prune => Request::Prune { object },
            Operation::ReviseReplica => Request::Revise {
                object,
                replicas: desired_replicas.ok_or_else(|| self.lacks("desiredReplicas"))?,
            },
            Operation::Retain => Request::Retain {
                desired: object,
                observed: observed_object
                    .as_ref()
                    .ok_or_else(|| self.lacks("observedObject"))?,
            },
            Operation::AggregateStatus => Request::AggregateStatus {
                object,
                items: aggregated_status
                    .as_deref()
                    .ok_or_else(|| self.lacks("aggregatedStatus"))?,
            },
        })
    }

    fn lacks(&self, member: &str) -> ApiError {
        ApiError::Unprocessable(format!("{} needs {member} in the body", self.operation))
    }
}

fn check_object(member: &str, object: &Value) -> Result<(), ApiError> {
    let has_text = |key: &str| object[key].as_str().is_some_and(|text| !text.is_empty());
    if has_text("apiVersion") && has_text("kind") {
        return Ok(());
    }
    Err(ApiError::Unprocessable(format!(
        "{member} is no Kubernetes object: it needs apiVersion and kind"
    )))
}
