//! What the author of an interpreter writes.

use std::future::{Future, ready};

use fleetdex_interpreter::{
    Operation,
    request::{AggregatedStatusItem, Component, DependentObject, ReplicaRequirements},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::failure::{InterpreterFailure, InterpreterResult};

/// Says what objects mean. Each method is one operation; those that are not implemented answer that
/// they are not supported.
///
/// Methods may be written as `async fn`. Requests are answered concurrently; work that takes longer
/// than some milliseconds without an `await` belongs on a thread of its own.
pub trait Interpreter: Send + Sync + 'static {
    /// The type of the objects: one for a kind, with the fields that matter, or [`Value`].
    ///
    /// Methods that change an object receive it and return it changed. Fields that the type does
    /// not have stay as they are. In a list that gets longer or shorter, they are lost.
    type Object: DeserializeOwned + Serialize + Send + Sync;

    /// `InterpretReplica`: how many replicas the object declares, and what each one requires.
    fn interpret_replica(
        &self,
        _object: &Self::Object,
    ) -> impl Future<Output = InterpreterResult<DeclaredReplicas>> + Send {
        unsupported(Operation::InterpretReplica)
    }

    /// `InterpretComponent`: the pod templates of an object with several.
    fn interpret_component(
        &self,
        _object: &Self::Object,
    ) -> impl Future<Output = InterpreterResult<Vec<Component>>> + Send {
        unsupported(Operation::InterpretComponent)
    }

    /// `ReviseReplica`: the object with another number of replicas, which is not negative.
    fn revise_replica(
        &self,
        _object: Self::Object,
        _replicas: i32,
    ) -> impl Future<Output = InterpreterResult<Self::Object>> + Send {
        unsupported(Operation::ReviseReplica)
    }

    /// `Retain`: the desired object with the values that controllers of the member have set in the
    /// observed one.
    fn retain(
        &self,
        _desired: Self::Object,
        _observed: Self::Object,
    ) -> impl Future<Output = InterpreterResult<Self::Object>> + Send {
        unsupported(Operation::Retain)
    }

    /// `AggregateStatus`: the object with one status of what each member reports.
    fn aggregate_status(
        &self,
        _object: Self::Object,
        _items: Vec<AggregatedStatusItem>,
    ) -> impl Future<Output = InterpreterResult<Self::Object>> + Send {
        unsupported(Operation::AggregateStatus)
    }

    /// `InterpretStatus`: the part of the status that is reported. Null is no valid answer.
    fn interpret_status(
        &self,
        _object: &Self::Object,
    ) -> impl Future<Output = InterpreterResult<Value>> + Send {
        unsupported(Operation::InterpretStatus)
    }

    /// `InterpretHealth`: whether the object is healthy.
    fn interpret_health(
        &self,
        _object: &Self::Object,
    ) -> impl Future<Output = InterpreterResult<bool>> + Send {
        unsupported(Operation::InterpretHealth)
    }

    /// `InterpretDependency`: the objects that the object needs.
    fn interpret_dependency(
        &self,
        _object: &Self::Object,
    ) -> impl Future<Output = InterpreterResult<Vec<DependentObject>>> + Send {
        unsupported(Operation::InterpretDependency)
    }

    /// `ExplorePacking`: the object without what belongs to its cluster. Only the proposal's
    /// dialect asks this.
    fn prune(
        &self,
        _object: Self::Object,
    ) -> impl Future<Output = InterpreterResult<Self::Object>> + Send {
        unsupported(Operation::Prune)
    }
}

fn unsupported<T: Send>(operation: Operation) -> impl Future<Output = InterpreterResult<T>> + Send {
    ready(Err(InterpreterFailure::unsupported(operation)))
}

/// How many replicas an object declares, and what each one requires.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredReplicas {
    /// The number, which must not be negative.
    pub replicas: i32,
    /// What each replica requires, if anything: for a pod template, see
    /// [`pod_template::requirements`](crate::pod_template::requirements).
    pub requirements: Option<ReplicaRequirements>,
}
