//! The built-in rules: what an operation results in for the kinds that Kubernetes brings, and for
//! those of Flux.
//!
//! The rules are those of Karmada's native interpreter, with its bugs mended where a comment says
//! so: <https://github.com/karmada-io/karmada/tree/master/pkg/resourceinterpreter/default/native>.

use fleetdex_core::model::JsonTree;
use serde_json::Value;

use crate::{InterpretError, Request, Response, health};

mod aggregate;
mod counters;
mod dependencies;
mod edit;
mod kind;
mod prune;
pub mod quantity;
mod reflect;
mod replicas;
pub mod requirements;
mod retain;

#[cfg(test)]
mod tests;

use kind::NativeKind;
pub use reflect::TEMPLATE_GENERATION_ANNOTATION;

/// Runs the built-in rule of an operation; `None` if the object's kind has none.
///
/// The status, the health and the pruning of an object have a rule for every kind. Components have
/// none for any kind.
pub fn interpret(request: &Request<'_>) -> Result<Option<Response>, InterpretError> {
    let kind = NativeKind::of(request.object());
    Ok(match (*request, kind) {
        (Request::Status { object }, _) => Some(Response::Status(reflect::status(kind, object)?)),
        (Request::Health { object }, _) => Some(health_of(object)),
        (Request::Prune { object }, _) => Some(Response::Pruned(prune::pruned(kind, object))),
        (Request::Component { .. }, _) | (_, None) => None,
        (Request::Replica { object }, Some(kind)) => replicas::interpret(kind, object)?,
        (Request::Revise { object, replicas }, Some(kind)) => {
            replicas::revised(kind, object, replicas).map(Response::Revised)
        }
        (Request::Retain { desired, observed }, Some(kind)) => {
            retain::retained(kind, desired, observed)?.map(Response::Retained)
        }
        (Request::AggregateStatus { object, items }, Some(kind)) => {
            aggregate::with_aggregated_status(kind, object, items).map(Response::AggregatedStatus)
        }
        (Request::Dependency { object }, Some(kind)) => {
            dependencies::of_object(kind, &object.into())?.map(Response::Dependencies)
        }
    })
}

fn health_of(object: &Value) -> Response {
    let object = &JsonTree::from(object);
    let assessment = health::assess(object, health::KnownStatus::Unknown);
    let healthy = health::healthy(object, &assessment);
    Response::Health {
        assessment,
        healthy,
    }
}
