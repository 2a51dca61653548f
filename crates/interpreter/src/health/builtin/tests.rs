#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "tables of cases"
)]

mod apis;
mod argo_cd;
mod autoscalers;
mod clusters;
mod flux;
mod gateways;
mod jobs;
mod karmada;
mod nodes;
mod odd;
mod pods;
mod services;
mod volumes;
mod workloads;

use serde_json::{Value, json};

use super::*;
use crate::{
    health::{self, Health},
    reads,
    test_rows::rows,
};

/// Asserts each case, and that no odd variant of its object panics.
///
/// A case is a name, a health, a reason, a part of the message, and an object's members without
/// `apiVersion` and `kind`.
fn check(api_version: &str, kind: &str, cases: &str) {
    for [name, health, reason, message, members] in rows(cases) {
        let object = object(api_version, kind, members);
        let found = health::assess(&(&object).into(), health::KnownStatus::Written);
        assert_eq!(
            (format!("{:?}", found.health), found.reason.as_str()),
            (health.to_owned(), reason),
            "{kind}: {name}: {found:?}"
        );
        assert!(
            found.message.contains(message),
            "{kind}: {name}: {:?}",
            found.message
        );
        odd::assess_variants(&object);
    }
}

fn object(api_version: &str, kind: &str, members: &str) -> Value {
    let mut object: Value = serde_saphyr::from_str(members)
        .unwrap_or_else(|error| panic!("{kind}: {error}: {members}"));
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    reads::assert_sufficient(&object);
    object
}

#[test]
fn a_kind_without_a_rule_is_left_to_the_generic_rule() {
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("example.org/v1", "Deployment"),
        ("example.org/v1", "Pod"),
        ("example.org/v1", "HTTPRoute"),
        ("example.org/v1", "NetworkPolicy"),
        ("cluster.x-k8s.io/v1beta1", "MachineSet"),
        (
            "controlplane.cluster.x-k8s.io/v1beta1",
            "KubeadmControlPlane",
        ),
        ("gateway.networking.k8s.io/v1", "ReferenceGrant"),
        ("", ""),
    ] {
        assert_eq!(
            assess(&(&object(api_version, kind, "{}")).into()),
            None,
            "{kind}"
        );
    }
    assert_eq!(assess(&(&json!(null)).into()), None);
    assert_eq!(
        assess(&(&json!({"apiVersion": 1, "kind": []})).into()),
        None
    );
}

#[test]
fn a_kind_is_chosen_by_its_group_in_any_version() {
    for api_version in ["apps/v1", "apps/v1beta1", "apps/v2", "extensions/v1beta1"] {
        let paused = object(api_version, "Deployment", "{spec: {paused: true}}");
        assert_eq!(assess(&(&paused).into()).unwrap().health, Health::Suspended);
    }
}

#[test]
fn a_pending_deletion_precedes_every_rule() {
    const DELETED: &str = "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a.io/x, b.io/y]}, \
                           spec: {paused: true, suspend: true}, status: {phase: Failed}}";
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("v1", "ConfigMap"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("example.org/v1", "Widget"),
        ("example.org/v1", "Namespace"),
    ] {
        let found = health::assess(
            &(&object(api_version, kind, DELETED)).into(),
            health::KnownStatus::Unknown,
        );
        let message = "pending deletion, waiting for finalizers: a.io/x, b.io/y";
        let expected = Assessment::new(Health::Progressing, "Deleting", message);
        assert_eq!(found, expected, "{kind}");
    }
    let odd = object(
        "v1",
        "Pod",
        "{metadata: {deletionTimestamp: 1}, status: {phase: Succeeded}}",
    );
    assert_eq!(
        health::assess(&(&odd).into(), health::KnownStatus::Unknown).health,
        Health::Healthy
    );
    let free = object(
        "v1",
        "Secret",
        "{metadata: {deletionTimestamp: now, finalizers: {}}}",
    );
    assert_eq!(
        health::assess(&(&free).into(), health::KnownStatus::Unknown).message,
        "pending deletion"
    );
}
