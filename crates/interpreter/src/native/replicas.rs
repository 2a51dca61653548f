//! The number of replicas that an object declares (`InterpretReplica`), and the object with another
//! number (`ReviseReplica`).
//!
//! Source: `replica.go` and `revisereplica.go` of Karmada's native interpreter.

use fleetdex_core::model::quoted;
use serde_json::Value;

use super::{edit, kind::NativeKind, requirements};
use crate::{
    InterpretError, Response,
    value::{as_integer, at, integer},
};

/// The replicas of an object and what each one requires; `None` if its kind has none.
pub fn interpret(kind: NativeKind, object: &Value) -> Result<Option<Response>, InterpretError> {
    let replicas = match kind {
        NativeKind::Deployment | NativeKind::ReplicaSet | NativeKind::StatefulSet => {
            declared(object, "replicas")?.unwrap_or_default()
        }
        NativeKind::Job => parallel_pods(object)?,
        NativeKind::Pod => 1,
        _ => return Ok(None),
    };
    let requirements = match kind.pod_template(object) {
        Some(template) => requirements::of_pod_template(&template.into())?,
        None => None,
    };
    Ok(Some(Response::Replica {
        replicas,
        requirements,
    }))
}

/// More pods than completions never run:
/// <https://kubernetes.io/docs/concepts/workloads/controllers/job/>.
fn parallel_pods(job: &Value) -> Result<i64, InterpretError> {
    let parallelism = declared(job, "parallelism")?.unwrap_or_default();
    let completions = declared(job, "completions")?;
    Ok(completions.map_or(parallelism, |completions| parallelism.min(completions)))
}

/// A number of pods in the spec, an `int32` of the API; `None` if it is not set.
fn declared(object: &Value, field: &str) -> Result<Option<i64>, InterpretError> {
    let value = at(object, &["spec", field]);
    if value.is_null() {
        return Ok(None);
    }
    let number = as_integer(value).filter(|number| i32::try_from(*number).is_ok());
    let error = || {
        let found = quoted(&value.to_string());
        InterpretError(format!(
            "spec.{field} is {found}, expected a 32-bit integer"
        ))
    };
    number.map(Some).ok_or_else(error)
}

/// The object with a number of replicas; `None` if its kind has none. An object without the field
/// is left as it is.
pub fn revised(kind: NativeKind, object: &Value, replicas: i64) -> Option<Value> {
    let field = match kind {
        NativeKind::Deployment | NativeKind::ReplicaSet | NativeKind::StatefulSet => "replicas",
        NativeKind::Job => "parallelism",
        _ => return None,
    };
    let path = ["spec", field];
    let mut revised = object.clone();
    if integer(object, &path).is_some() {
        edit::set(&mut revised, &path, replicas.into());
    }
    Some(revised)
}
