//! Tables for every kind and operation.

use serde_json::{Value, json};

use crate::{
    InterpretError, Operation, Request, Response,
    native::interpret,
    request::{AggregatedStatusItem, DependentObject},
    test_rows::typed,
};

mod aggregate;
mod aggregate_kinds;
mod dependencies;
mod flux;
mod hostile;
mod prune;
mod reflect;
mod replicas;
mod requirements;
mod retain;

/// An object of a kind with further members.
fn object(api_version: &str, kind: &str, members: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
    });
    let Value::Object(members) = members else {
        panic!("members are a map");
    };
    object.as_object_mut().unwrap().extend(members);
    object
}

fn answer(request: Request<'_>) -> Option<Response> {
    interpret(&request).unwrap()
}

fn status_of(object: &Value) -> Result<Value, InterpretError> {
    match interpret(&Request::Status { object })? {
        Some(Response::Status(status)) => Ok(status),
        other => panic!("not a status: {other:?}"),
    }
}

fn dependencies_of(object: &Value) -> Option<Vec<DependentObject>> {
    match answer(Request::Dependency { object }) {
        Some(Response::Dependencies(needed)) => Some(needed),
        None => None,
        other => panic!("not dependencies: {other:?}"),
    }
}

/// The object after aggregating what the members `m1`, `m2`, … report.
fn aggregated(object: &Value, statuses: &[Value]) -> Value {
    let items: Vec<AggregatedStatusItem> = statuses
        .iter()
        .enumerate()
        .map(|(position, status)| AggregatedStatusItem {
            cluster_name: format!("m{}", position + 1),
            status: Some(status.clone()).filter(|status| !status.is_null()),
            ..AggregatedStatusItem::default()
        })
        .collect();
    let items = &items;
    match answer(Request::AggregateStatus { object, items }) {
        Some(Response::AggregatedStatus(object)) => object,
        other => panic!("not an aggregated status: {other:?}"),
    }
}

/// The aggregated status alone; everything else of the object must be as before.
fn aggregated_status(object: &Value, statuses: &[Value]) -> Value {
    let mut changed = aggregated(object, statuses);
    let status = changed["status"].take();
    let mut before = object.clone();
    before["status"] = Value::Null;
    changed["status"] = Value::Null;
    assert_eq!(changed, before);
    status
}

fn request(operation: Operation, object: &Value) -> Request<'_> {
    match operation {
        Operation::InterpretReplica => Request::Replica { object },
        Operation::InterpretComponent => Request::Component { object },
        Operation::ReviseReplica => Request::Revise {
            object,
            replicas: 3,
        },
        Operation::Retain => Request::Retain {
            desired: object,
            observed: object,
        },
        Operation::AggregateStatus => Request::AggregateStatus { object, items: &[] },
        Operation::InterpretStatus => Request::Status { object },
        Operation::InterpretHealth => Request::Health { object },
        Operation::InterpretDependency => Request::Dependency { object },
        Operation::Prune => Request::Prune { object },
    }
}

/// Which operations have a rule for a kind, but those that have one for every kind.
fn operations_with_a_rule(api_version: &str, kind: &str) -> Vec<Operation> {
    let object = object(api_version, kind, json!({}));
    Operation::ALL
        .into_iter()
        .filter(|operation| answer(request(*operation, &object)).is_some())
        .filter(|operation| {
            !matches!(
                operation,
                Operation::InterpretStatus | Operation::InterpretHealth | Operation::Prune
            )
        })
        .collect()
}

#[test]
fn each_kind_has_its_operations_and_of_kubernetes_one_version_only() {
    let cases = r"
        apps/v1 | Deployment | InterpretReplica, ReviseReplica, Retain, AggregateStatus,
            InterpretDependency
        apps/v1 | ReplicaSet | InterpretReplica, ReviseReplica, AggregateStatus, InterpretDependency
        apps/v1 | StatefulSet | InterpretReplica, ReviseReplica, AggregateStatus,
            InterpretDependency
        apps/v1 | DaemonSet | AggregateStatus, InterpretDependency
        batch/v1 | Job | InterpretReplica, ReviseReplica, Retain, AggregateStatus,
            InterpretDependency
        batch/v1 | CronJob | AggregateStatus, InterpretDependency
        v1 | Pod | InterpretReplica, Retain, AggregateStatus, InterpretDependency
        v1 | Service | Retain, AggregateStatus
        v1 | ServiceAccount | Retain
        v1 | Secret | Retain
        v1 | PersistentVolume | Retain, AggregateStatus
        v1 | PersistentVolumeClaim | Retain, AggregateStatus
        networking.k8s.io/v1 | Ingress | AggregateStatus, InterpretDependency
        policy/v1 | PodDisruptionBudget | AggregateStatus
        autoscaling/v2 | HorizontalPodAutoscaler | AggregateStatus
        multicluster.x-k8s.io/v1alpha1 | ServiceImport | InterpretDependency
        helm.toolkit.fluxcd.io/v2 | HelmRelease | AggregateStatus, InterpretDependency
        helm.toolkit.fluxcd.io/v2beta1 | HelmRelease | AggregateStatus, InterpretDependency
        kustomize.toolkit.fluxcd.io/v1 | Kustomization | AggregateStatus, InterpretDependency
        source.toolkit.fluxcd.io/v1beta2 | Bucket | AggregateStatus, InterpretDependency
        source.toolkit.fluxcd.io/v1 | GitRepository | AggregateStatus, InterpretDependency
        source.toolkit.fluxcd.io/v1 | HelmChart | AggregateStatus, InterpretDependency
        source.toolkit.fluxcd.io/v1 | HelmRepository | AggregateStatus, InterpretDependency
        source.toolkit.fluxcd.io/v1 | OCIRepository | AggregateStatus, InterpretDependency
        notification.toolkit.fluxcd.io/v1 | Receiver |
        apps/v1beta1 | Deployment |
        example.io/v1 | Deployment |
        autoscaling/v1 | HorizontalPodAutoscaler |
        batch/v1beta1 | CronJob |
        extensions/v1beta1 | Ingress |
        v1 | ConfigMap |
        | |
    ";
    for (api_version, kind, operations) in typed::<(&str, &str, Vec<&str>)>(cases) {
        let found = operations_with_a_rule(api_version, kind);
        let found: Vec<&str> = found.into_iter().map(Operation::name).collect();
        assert_eq!(found, operations, "{kind}");
    }
}

#[test]
fn health_and_pruning_have_an_answer_for_every_kind_and_components_for_none() {
    for object in [
        object("apps/v1", "Deployment", json!({})),
        object("example.io/v1", "Widget", json!({})),
    ] {
        for operation in [Operation::InterpretHealth, Operation::Prune] {
            assert!(answer(request(operation, &object)).is_some(), "{operation}");
        }
        assert_eq!(
            answer(request(Operation::InterpretComponent, &object)),
            None
        );
    }
}
