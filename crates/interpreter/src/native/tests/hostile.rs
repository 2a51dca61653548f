//! No object makes a rule panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::request;
use crate::{Operation, Request, native::interpret, request::AggregatedStatusItem};

const KINDS: [(&str, &str); 18] = [
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("policy/v1", "PodDisruptionBudget"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
    ("source.toolkit.fluxcd.io/v1", "OCIRepository"),
];
const NAMES: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "labels",
    "annotations",
    "template",
    "name",
    "type",
    "replicas",
    "parallelism",
    "completions",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "volumes",
    "env",
    "envFrom",
    "secretRef",
    "tls",
    "secretName",
    "loadBalancer",
    "ingress",
    "ports",
    "port",
    "conditions",
    "active",
    "startTime",
    "phase",
    "containerStatuses",
    "state",
    "generation",
    "observedGeneration",
    "secrets",
    "disruptedPods",
    "clusterIP",
    "data",
    "resourcetemplate.karmada.io/retain-replicas",
    "resourcetemplate.karmada.io/generation",
    "volumeMounts",
    "volumeClaimTemplates",
    "overhead",
    "selector",
    "matchLabels",
    "artifact",
    "chart",
    "kind",
    "lastAttemptedRevision",
    "message",
    "reason",
    "resourceTemplateGeneration",
    "revision",
    "sourceRef",
    "valuesFrom",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(
            &[
                "",
                "true",
                "True",
                "1",
                "-1Gi",
                "1e500",
                "½Ki",
                "LoadBalancer",
                "Complete",
                "Ready",
                "Failed",
                "kubernetes.io/service-account-token",
                "2026-01-01T00:00:00Z",
            ][..]
        )
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 8, |inner| {
        let name = prop::sample::select(NAMES);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name, inner), 0..8).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_makes_a_rule_panic(
        kind in prop::sample::select(&KINDS[..]),
        metadata in any_json(),
        spec in any_json(),
        status in any_json(),
        reports in prop::collection::vec(any_json(), 0..3),
    ) {
        let object = json!({
            "apiVersion": kind.0,
            "kind": kind.1,
            "metadata": metadata,
            "spec": spec,
            "status": status,
            "secrets": status,
            "type": "kubernetes.io/service-account-token",
        });
        for operation in Operation::ALL {
            let _ = interpret(&request(operation, &object));
        }
        let items: Vec<AggregatedStatusItem> = reports
            .iter()
            .map(|report| AggregatedStatusItem { status: Some(report.clone()), ..Default::default() })
            .collect();
        let _ = interpret(&Request::AggregateStatus { object: &object, items: &items });
        for observed in &reports {
            let _ = interpret(&Request::Retain { desired: &object, observed });
        }
    }
}

#[test]
fn what_is_no_object_has_no_rule_and_no_panic() {
    for value in [json!(null), json!([]), json!("x"), json!({"kind": 1})] {
        for operation in Operation::ALL {
            assert!(
                interpret(&request(operation, &value)).is_ok(),
                "{operation}"
            );
        }
    }
}
