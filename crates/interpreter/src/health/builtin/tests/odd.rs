//! No object makes a rule panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{health, reads};

/// Assesses an object with each of its values replaced by odd ones.
pub fn assess_variants(object: &Value) {
    for path in paths(object) {
        for odd in [
            json!(null),
            json!(true),
            json!(i64::MIN),
            json!(i64::MAX),
            json!(u64::MAX),
            json!(-1.5),
            json!("odd"),
            json!(["odd", null, 1]),
            json!({"odd": {}}),
        ] {
            let mut variant = object.clone();
            if let Some(value) = variant.pointer_mut(&path) {
                *value = odd;
            }
            assess_all(&variant);
        }
    }
}

fn assess_all(object: &Value) {
    reads::assert_sufficient(object);
    let found = health::assess(&object.into(), health::KnownStatus::Unknown);
    assert!(found.reason.len() <= health::MAX_REASON_BYTES);
    assert!(found.message.len() <= health::MAX_MESSAGE_BYTES);
    let _: bool = health::healthy(&object.into(), &found);
    health::from_boolean(object, false);
}

fn paths(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, child)| (key.replace('~', "~0").replace('/', "~1"), child))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, child)| (index.to_string(), child))
            .collect(),
        _ => Vec::new(),
    };
    children
        .into_iter()
        .flat_map(|(key, child)| {
            std::iter::once(format!("/{key}")).chain(
                paths(child)
                    .into_iter()
                    .map(move |path| format!("/{key}{path}")),
            )
        })
        .collect()
}

const KINDS: &[(&str, &str)] = &[
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("v1", "Service"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("networking.k8s.io/v1", "Ingress"),
    ("autoscaling/v1", "HorizontalPodAutoscaler"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("gateway.networking.k8s.io/v1", "GatewayClass"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("gateway.networking.k8s.io/v1", "BackendTLSPolicy"),
    ("cluster.x-k8s.io/v1beta1", "Cluster"),
    ("cluster.x-k8s.io/v1beta2", "Cluster"),
    ("cluster.x-k8s.io/v1beta1", "Machine"),
    ("cluster.x-k8s.io/v1beta1", "MachineDeployment"),
    ("cluster.x-k8s.io/v1beta1", "MachinePool"),
    ("cluster.x-k8s.io/v1beta1", "MachineHealthCheck"),
];

const KEYS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "conditions",
    "type",
    "reason",
    "message",
    "phase",
    "generation",
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "availableReplicas",
    "readyReplicas",
    "containerStatuses",
    "initContainerStatuses",
    "state",
    "waiting",
    "terminated",
    "lastState",
    "exitCode",
    "restartCount",
    "name",
    "annotations",
    "loadBalancer",
    "ingress",
    "ports",
    "error",
    "parents",
    "ancestors",
    "listeners",
    "updateStrategy",
    "rollingUpdate",
    "partition",
];

const WORDS: &[&str] = &[
    "",
    "True",
    "False",
    "Ready",
    "Programmed",
    "Accepted",
    "Running",
    "Failed",
    "Pending",
    "OnDelete",
    "LoadBalancer",
    "CrashLoopBackOff",
    "Unschedulable",
    "PodScheduled",
    "\u{1f980}",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2..4_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let member = (prop::sample::select(KEYS), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..6).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                Value::Object(members.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_makes_a_rule_panic(
        (api_version, kind) in prop::sample::select(KINDS),
        metadata in value(),
        spec in value(),
        status in value(),
    ) {
        assess_all(&json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status,
        }));
    }
}

#[test]
fn every_kind_of_the_list_has_a_rule() {
    for (api_version, kind) in KINDS {
        let object = json!({"apiVersion": api_version, "kind": kind});
        let has_rule = super::assess(&(&object).into()).is_some();
        let is_left_to_the_generic_rule =
            (*api_version, *kind) == ("cluster.x-k8s.io/v1beta2", "Cluster");
        assert_ne!(
            has_rule, is_left_to_the_generic_rule,
            "{api_version} {kind}"
        );
    }
}

#[test]
fn an_object_without_a_status_is_judged() {
    let expected = |kind: &str| match kind {
        "DaemonSet"
        | "Deployment"
        | "ReplicaSet"
        | "ReplicationController"
        | "Service"
        | "CronJob" => health::Health::Healthy,
        _ => health::Health::Progressing,
    };
    for (api_version, kind) in KINDS {
        let object = json!({"apiVersion": api_version, "kind": kind});
        if let Some(found) = super::assess(&(&object).into()) {
            assert_eq!(found.health, expected(kind), "{api_version} {kind}");
        }
    }
}
