//! What every result has to fulfil, whether a client received it or a server is about to send it.

use fleetdex_core::model::{Quantity, quoted};
use serde_json::Value;

use super::{
    answer_error::{AnswerError, invalid},
    patch,
};
use crate::{
    Request, Response, dependency,
    request::{Component, DependentObject, ReplicaRequirements},
};

/// Checks a result of the request's operation.
pub(super) fn check(request: &Request<'_>, response: &Response) -> Result<(), AnswerError> {
    match response {
        Response::Replica {
            replicas,
            requirements,
        } => {
            check_replicas("replicas", *replicas)?;
            check_requirements("replicaRequirements", requirements.as_ref())
        }
        Response::Components(components) => check_all("components", components, check_component),
        Response::Dependencies(dependencies) => {
            check_all("dependencies", dependencies, check_dependency)
        }
        Response::Revised(object)
        | Response::Retained(object)
        | Response::AggregatedStatus(object)
        | Response::Pruned(object) => Ok(patch::same_object(request.object(), object)?),
        Response::Status(Value::Null) => Err(AnswerError::Absent(request.operation(), "rawStatus")),
        Response::Status(_) | Response::Health { .. } => Ok(()),
    }
}

fn check_all<T>(
    list: &str,
    items: &[T],
    check_one: impl Fn(&str, &T) -> Result<(), AnswerError>,
) -> Result<(), AnswerError> {
    items
        .iter()
        .enumerate()
        .try_for_each(|(index, item)| check_one(&format!("{list}[{index}]"), item))
}

fn check_replicas(path: &str, replicas: i64) -> Result<(), AnswerError> {
    if (0..=i64::from(i32::MAX)).contains(&replicas) {
        return Ok(());
    }
    let problem = format!("is {replicas}: it must be from 0 to {}", i32::MAX);
    Err(invalid(path, problem))
}

fn check_component(path: &str, component: &Component) -> Result<(), AnswerError> {
    if component.name.is_empty() {
        return Err(invalid(format!("{path}.name"), "is absent or empty"));
    }
    check_replicas(&format!("{path}.replicas"), component.replicas)?;
    let requirements = component.replica_requirements.as_ref();
    check_requirements(&format!("{path}.replicaRequirements"), requirements)
}

/// Checks the types that the API server gives these members.
fn check_requirements(
    path: &str,
    requirements: Option<&ReplicaRequirements>,
) -> Result<(), AnswerError> {
    let Some(requirements) = requirements else {
        return Ok(());
    };
    for (name, quantity) in &requirements.resource_request {
        if !is_quantity(quantity) {
            let member = format!("{path}.resourceRequest[\"{}\"]", quoted(name));
            return Err(invalid(member, "is not a quantity such as 500m or 2Gi"));
        }
    }
    let Some(claim) = &requirements.node_claim else {
        return Ok(());
    };
    let affinity = claim.hard_node_affinity.as_ref();
    let parts = [
        (
            "hardNodeAffinity",
            affinity.is_none_or(Value::is_object),
            "is not a NodeSelector",
        ),
        (
            "nodeSelector",
            claim.node_selector.values().all(Value::is_string),
            "has a value that is no text",
        ),
        (
            "tolerations",
            claim.tolerations.iter().all(Value::is_object),
            "has an item that is no toleration",
        ),
    ];
    match parts.into_iter().find(|(_, fits, _)| !fits) {
        Some((member, _, problem)) => Err(invalid(format!("{path}.nodeClaim.{member}"), problem)),
        None => Ok(()),
    }
}

fn is_quantity(value: &Value) -> bool {
    match value {
        Value::String(text) => Quantity::parse(text).is_some(),
        Value::Number(number) => Quantity::parse(&number.to_string()).is_some(),
        _ => false,
    }
}

fn check_dependency(path: &str, dependency: &DependentObject) -> Result<(), AnswerError> {
    match dependency::fault(dependency) {
        None => Ok(()),
        Some(("", problem)) => Err(invalid(path, problem)),
        Some((member, problem)) => Err(invalid(format!("{path}.{member}"), problem)),
    }
}
