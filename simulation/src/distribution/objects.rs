//! Random templates and policies.

use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

use super::servers::{MEMBERS, NAMESPACE};

/// Number of `ConfigMap` names in each namespace: few, so that names are deleted and reused.
const MAP_NAMES: usize = 8;
const WEB_NAMES: usize = 3;
/// The annotation of a template by which it takes over what is there.
const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// A random `ConfigMap` of the control plane. `write` makes each one different.
pub fn config_map(random: &mut StdRng, write: u64) -> Value {
    let namespace = if random.random_ratio(2, 3) {
        NAMESPACE
    } else {
        "default"
    };
    let name = format!("config{}", random.random_range(0..MAP_NAMES));
    let mut data = json!({ "write": write.to_string() });
    for key in ["a", "b", "c"] {
        if random.random_ratio(1, 2) {
            data[key] = random.random_range(0..4).to_string().into();
        }
    }
    json!({ "metadata": metadata(random, namespace, &name), "data": data })
}

/// A random `Deployment` of the control plane.
pub fn deployment(random: &mut StdRng, write: u64) -> Value {
    let name = format!("web{}", random.random_range(0..WEB_NAMES));
    let mut container = json!({ "name": "web", "image": format!("web:{write}") });
    if random.random_ratio(1, 2) {
        container["args"] = json!([write.to_string()]);
    }
    let mut containers = vec![container];
    if random.random_ratio(1, 3) {
        containers.push(json!({ "name": "log", "image": "log:1" }));
    }
    json!({
        "metadata": metadata(random, NAMESPACE, &name),
        "spec": {
            "replicas": random.random_range(1..10),
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": containers },
            },
        },
    })
}

fn metadata(random: &mut StdRng, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({
        "namespace": namespace, "name": name, "labels": { "tier": tier(random) },
    });
    if random.random_ratio(1, 3) {
        metadata["labels"]["more"] = random.random_range(0..3).to_string().into();
    }
    match random.random_range(0..16) {
        0 => metadata["annotations"] = json!({ CONFLICT_RESOLUTION: "overwrite" }),
        1 | 2 => metadata["annotations"] = json!({ "note": random.random_range(0..3).to_string() }),
        _ => {}
    }
    metadata
}

/// The value of the label by which policies select. Nothing selects `none`.
pub fn tier(random: &mut StdRng) -> &'static str {
    ["front", "front", "back", "back", "none"][random.random_range(0..5)]
}

/// The policies: resource, namespace, name.
pub const POLICY_NAMES: [(&str, Option<&str>, &str); 4] = [
    (super::servers::POLICIES, Some(NAMESPACE), "front"),
    (super::servers::POLICIES, Some(NAMESPACE), "back"),
    (super::servers::POLICIES, Some(NAMESPACE), "web"),
    (super::servers::CLUSTER_POLICIES, None, "everywhere"),
];

/// A policy of that number of [`POLICY_NAMES`].
pub fn policy(random: &mut StdRng, number: usize) -> Value {
    let (_, namespace, name) = POLICY_NAMES[number];
    let labels = |tier: &str| json!({ "matchLabels": { "tier": tier } });
    let maps = |tier: &str| json!([{ "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": labels(tier) }]);
    let selectors = match name {
        "web" => json!([{ "apiVersion": "apps/v1", "kind": "Deployment" }]),
        "everywhere" => json!([
            { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "labelSelector": labels("front") },
            { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "labelSelector": labels("back") },
        ]),
        tier => maps(tier),
    };
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({ "metadata": metadata, "spec": spec(random, &selectors, name == "web") })
}

fn spec(random: &mut StdRng, selectors: &Value, has_replicas: bool) -> Value {
    let mut spec =
        json!({ "resourceSelectors": selectors, "placement": placement(random, has_replicas) });
    if random.random_ratio(1, 4) {
        spec["preserveResourcesOnDeletion"] = true.into();
    }
    if random.random_ratio(1, 6) {
        spec["conflictResolution"] = "Overwrite".into();
    }
    if random.random_ratio(1, 3) {
        let mode = ["Directly", "Gracefully"][random.random_range(0..2)];
        spec["failover"] = json!({ "cluster": { "purgeMode": mode } });
    }
    match random.random_range(0..12) {
        0 => spec["suspension"] = json!({ "dispatching": true }),
        1 => {
            let clusters = json!({ "clusterNames": some_members(random) });
            spec["suspension"] = json!({ "dispatchingOnClusters": clusters });
        }
        _ => {}
    }
    spec
}

fn placement(random: &mut StdRng, has_replicas: bool) -> Value {
    let mut placement = json!({});
    match random.random_range(0..8) {
        // No cluster fits.
        0 => placement["clusterAffinity"] = json!({ "clusterNames": ["elsewhere"] }),
        1 => {
            let selector = json!({ "matchLabels": { "size": "small" } });
            placement["clusterAffinity"] = json!({ "labelSelector": selector });
        }
        2 | 3 => {}
        _ => placement["clusterAffinity"] = json!({ "clusterNames": some_members(random) }),
    }
    if has_replicas && random.random_ratio(3, 4) {
        let weights: Vec<Value> = MEMBERS
            .iter()
            .filter_map(|member| {
                let weight = random.random_range(0..5);
                let cluster = json!({ "clusterNames": [member] });
                (weight > 0).then(|| json!({ "targetCluster": cluster, "weight": weight }))
            })
            .collect();
        placement["replicaScheduling"] = json!({
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": { "staticWeightList": weights },
        });
    }
    placement
}

/// One to three members.
pub fn some_members(random: &mut StdRng) -> Vec<&'static str> {
    let mut chosen: Vec<&str> = MEMBERS
        .into_iter()
        .filter(|_| random.random_ratio(1, 2))
        .collect();
    if chosen.is_empty() {
        chosen.push(MEMBERS[random.random_range(0..MEMBERS.len())]);
    }
    chosen
}

/// An override policy.
pub fn override_policy(random: &mut StdRng) -> Value {
    let value = random.random_range(0..4).to_string();
    let rules: Vec<Value> = some_members(random)
        .into_iter()
        .map(|member| {
            let overriders = if random.random_ratio(1, 2) {
                json!({ "plaintext": [{ "path": "/data/override", "operator": "add", "value": value }] })
            } else {
                json!({ "labelsOverrider": [{ "operator": "add", "value": { "member": member } }] })
            };
            json!({ "targetCluster": { "clusterNames": [member] }, "overriders": overriders })
        })
        .collect();
    json!({
        "metadata": { "namespace": NAMESPACE, "name": "differences" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
            "overrideRules": rules,
        },
    })
}
