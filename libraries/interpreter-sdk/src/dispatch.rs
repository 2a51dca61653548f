//! From a request to the method of its operation, and from what that answers to the response.

use fleetdex_interpreter::{
    Request, Response,
    health::{Assessment, Health},
    webhook::ReviewRequest,
};

use crate::{
    change::{TypedChange, decoded},
    failure::{InterpreterFailure, InterpreterResult},
    interpreter::Interpreter,
};

const OBJECT: &str = "request.object";
const OBSERVED_OBJECT: &str = "request.observedObject";

/// What the interpreter answers to a request.
pub(crate) async fn interpret<I: Interpreter>(
    interpreter: &I,
    received: &ReviewRequest,
) -> InterpreterResult<Response> {
    let request = received
        .request()
        .map_err(|error| InterpreterFailure::bad_request(error.to_string()))?;
    Ok(match request {
        Request::Replica { object } => {
            let object = decoded(OBJECT, object)?;
            let declared = interpreter.interpret_replica(&object).await?;
            Response::Replica {
                replicas: declared.replicas.into(),
                requirements: declared.requirements,
            }
        }
        Request::Component { object } => {
            let object = decoded(OBJECT, object)?;
            Response::Components(interpreter.interpret_component(&object).await?)
        }
        Request::Status { object } => {
            let object = decoded(OBJECT, object)?;
            Response::Status(interpreter.interpret_status(&object).await?)
        }
        Request::Health { object } => {
            let object = decoded(OBJECT, object)?;
            health(interpreter.interpret_health(&object).await?)
        }
        Request::Dependency { object } => {
            let object = decoded(OBJECT, object)?;
            Response::Dependencies(interpreter.interpret_dependency(&object).await?)
        }
        Request::Revise { object, replicas } => {
            let (change, object) = TypedChange::of(object)?;
            let replicas = i32::try_from(replicas)?;
            let revised = interpreter.revise_replica(object, replicas).await?;
            Response::Revised(change.to(&revised)?)
        }
        Request::Retain { desired, observed } => {
            let (change, desired) = TypedChange::of(desired)?;
            let observed = decoded(OBSERVED_OBJECT, observed)?;
            let retained = interpreter.retain(desired, observed).await?;
            Response::Retained(change.to(&retained)?)
        }
        Request::AggregateStatus { object, items } => {
            let (change, object) = TypedChange::of(object)?;
            let items = items.to_vec();
            let aggregated = interpreter.aggregate_status(object, items).await?;
            Response::AggregatedStatus(change.to(&aggregated)?)
        }
        Request::Prune { object } => {
            let (change, object) = TypedChange::of(object)?;
            Response::Pruned(change.to(&interpreter.prune(object).await?)?)
        }
    })
}

/// Only the boolean is sent.
fn health(healthy: bool) -> Response {
    let word = if healthy {
        Health::Healthy
    } else {
        Health::Degraded
    };
    Response::Health {
        assessment: Assessment::plain(word),
        healthy,
    }
}
