//! The built-in rules on statuses that real API servers accept: documents follow each status, an
//! object waits for one only if its kind has ever had one, and `spec.interpret` of a registry
//! decides whether documents have an interpretation at all.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{
    fleet::unique,
    objects::Objects,
    oracle::document,
    poll::always,
    query_api::{names_by_field, store_at},
    scenario::{DEADLINE, Registry, Stage, until},
    test_result::Tested,
};
use serde_json::{Value, json};

/// A status, and the health and the reason that it means.
struct Step {
    status: Value,
    health: &'static str,
    reason: &'static str,
}

fn step(status: Value, health: &'static str, reason: &'static str) -> Step {
    Step {
        status,
        health,
        reason,
    }
}

/// An object, and statuses that are patched one after the other.
struct Case {
    collection: &'static str,
    object: Value,
    steps: Vec<Step>,
}

fn template() -> Value {
    let spec = json!({ "containers": [{ "name": "web", "image": "nginx:1.27" }], "restartPolicy": "Always" });
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": spec })
}

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "web" }, "spec": spec })
}

fn deployment() -> Case {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let spec = json!({ "replicas": 2, "selector": selector, "template": template() });
    let condition = |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason });
    let progressing =
        |status: &str, reason: &str| json!([condition("Progressing", status, reason)]);
    let counts = |updated: u32, ready: u32, conditions: Value| {
        json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": updated, "readyReplicas": ready,
            "availableReplicas": ready, "conditions": conditions })
    };
    Case {
        collection: "apps/v1/deployments",
        object: object("apps/v1", "Deployment", &spec),
        steps: vec![
            step(
                counts(1, 1, progressing("True", "ReplicaSetUpdated")),
                "Progressing",
                "RolloutInProgress",
            ),
            step(
                counts(2, 2, progressing("True", "NewReplicaSetAvailable")),
                "Healthy",
                "",
            ),
            step(
                counts(1, 1, progressing("False", "ProgressDeadlineExceeded")),
                "Degraded",
                "ProgressDeadlineExceeded",
            ),
        ],
    }
}

fn stateful_set() -> Case {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let spec = json!({ "replicas": 2, "serviceName": "web", "selector": selector, "template": template() });
    let counts = |ready: u32| {
        json!({ "observedGeneration": 1, "replicas": 2, "readyReplicas": ready, "availableReplicas": ready,
            "currentReplicas": 2, "updatedReplicas": 2, "currentRevision": "web-1", "updateRevision": "web-1" })
    };
    Case {
        collection: "apps/v1/statefulsets",
        object: object("apps/v1", "StatefulSet", &spec),
        steps: vec![
            step(counts(1), "Progressing", "ReplicasNotReady"),
            step(counts(2), "Healthy", ""),
        ],
    }
}

fn claim() -> Case {
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let phase = |phase: &str| json!({ "phase": phase });
    Case {
        collection: "v1/persistentvolumeclaims",
        object: object("v1", "PersistentVolumeClaim", &spec),
        steps: vec![
            step(phase("Pending"), "Progressing", "Pending"),
            step(phase("Bound"), "Healthy", ""),
            step(phase("Lost"), "Degraded", "Lost"),
        ],
    }
}

fn load_balancer() -> Case {
    let spec =
        json!({ "type": "LoadBalancer", "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    Case {
        collection: "v1/services",
        object: object("v1", "Service", &spec),
        steps: vec![
            step(
                json!({ "loadBalancer": {} }),
                "Progressing",
                "LoadBalancerPending",
            ),
            step(
                json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } }),
                "Healthy",
                "",
            ),
        ],
    }
}

fn pod() -> Case {
    let container = |ready: bool, state: Value| json!([{ "name": "web", "image": "nginx:1.27", "imageID": "", "ready": ready, "restartCount": 4, "state": state }]);
    let ready = |status: &str| json!([{ "type": "Ready", "status": status }]);
    let waiting = |reason: &str| json!({ "phase": "Pending", "conditions": ready("False"), "containerStatuses": container(false, json!({ "waiting": { "reason": reason } })) });
    let killed = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    let unschedulable = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" });
    Case {
        collection: "v1/pods",
        object: object("v1", "Pod", &template()["spec"]),
        steps: vec![
            step(
                json!({ "phase": "Pending", "conditions": [unschedulable] }),
                "Degraded",
                "FailedScheduling",
            ),
            step(
                waiting("ContainerCreating"),
                "Progressing",
                "ContainerCreating",
            ),
            step(waiting("ImagePullBackOff"), "Degraded", "ImagePullBackOff"),
            step(waiting("CrashLoopBackOff"), "Degraded", "CrashLoopBackOff"),
            step(
                json!({ "phase": "Running", "conditions": ready("False"), "containerStatuses": container(false, killed) }),
                "Degraded",
                "OOMKilled",
            ),
            step(
                json!({ "phase": "Running", "conditions": ready("True"), "containerStatuses": container(true, running) }),
                "Healthy",
                "",
            ),
        ],
    }
}

impl Case {
    /// The path of the object in a namespace.
    fn path(&self, namespace: &str) -> String {
        let (group_version, plural) = self.collection.rsplit_once('/').unwrap();
        let root = if group_version == "v1" { "api" } else { "apis" };
        format!("{root}/{group_version}/namespaces/{namespace}/{plural}/web")
    }

    fn selector(&self, namespace: &str) -> Value {
        json!({ "apiVersion": self.object["apiVersion"], "kind": self.object["kind"], "namespace": namespace })
    }

    /// Patches each status, and waits until the document says what it means.
    async fn follow(&self, member: &Objects, namespace: &str, stage: &Stage, prefix: &str) {
        let path = self.path(namespace);
        for step in &self.steps {
            let status = json!({ "status": step.status });
            let object = member
                .merge(&format!("{path}/status"), &status)
                .await
                .unwrap();
            let what = format!("{path} is {} {}", step.health, step.reason);
            until(&what, || async {
                let search = interpretation(stage, prefix, &object).await?;
                let found = (
                    &search["health"],
                    search["healthReason"].as_str().unwrap_or_default(),
                );
                ensure!(found == (&json!(step.health), step.reason), "{search}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }
}

/// The member `search` of an object's document.
async fn interpretation(stage: &Stage, prefix: &str, object: &Value) -> Result<Value> {
    let mut document = document(&stage.opensearch, prefix, object).await?;
    Ok(document["search"].take())
}

#[tokio::test]
async fn health_follows_each_status_and_interpretation_can_be_switched_off() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.member(1)?;
    let namespace = unique("meaning");
    member.create_namespace(&namespace).await?;
    let cases = [
        deployment(),
        stateful_set(),
        claim(),
        load_balancer(),
        pod(),
    ];
    for case in &cases {
        member.apply(&case.path(&namespace), &case.object).await?;
    }
    let selectors: Vec<Value> = cases.iter().map(|case| case.selector(&namespace)).collect();
    let mut registry = Registry::ready(&stage, "meaning", &["member1"], &json!(selectors)).await?;
    for case in &cases {
        case.follow(&member, &namespace, &stage, &registry.prefix)
            .await;
    }

    let store = store_at(stage.fleet.opensearch()?.url(), &registry.prefix)?;
    let pods = format!("api/v1/namespaces/{namespace}/pods");
    let found = |selector: &'static str| names_by_field(&stage.operator, &store, &pods, selector);
    assert_eq!(
        found("health=Healthy,image=nginx").await?,
        Ok(vec!["web".to_owned()])
    );

    let pod = member.get(&format!("{pods}/web")).await?;
    registry.spec["interpret"] = json!("Off");
    registry.apply().await?;
    until("the documents have no interpretation", || async {
        let search = interpretation(&stage, &registry.prefix, &pod).await?;
        let left = [
            "health",
            "images",
            "replicas",
            "dependencies",
            "interpretedBy",
        ];
        let left = left.map(|field| search.get(field));
        ensure!(left.iter().all(Option::is_none), "{search}");
        let refused = found("health=Healthy").await?;
        ensure!(
            refused
                .as_ref()
                .is_err_and(|text| text.contains("field label not supported: health")),
            "{refused:?}"
        );
        Ok(())
    })
    .await?;
    registry.until_ready().await?;

    registry.spec["interpret"] = json!("BuiltIn");
    registry.apply().await?;
    until("the documents are interpreted again", || async {
        let search = interpretation(&stage, &registry.prefix, &pod).await?;
        ensure!(search["interpretedBy"] == json!(["built-in"]), "{search}");
        let names = found("health=Healthy,image=nginx:1.27").await?;
        ensure!(names == Ok(vec!["web".to_owned()]), "{names:?}");
        Ok(())
    })
    .await?;
    Ok(registry.remove().await?)
}

/// The label of the metrics of the kind.
const ROUTE: &str = r#"kind="mesh.example.com/v1/Route""#;
/// How long nothing happens after a restart.
const STABLE_PERIOD: Duration = Duration::from_secs(3);
const ROUTES: &str = "apis/mesh.example.com/v1/namespaces/default/routes";

/// A kind with a status, which some controller may write.
fn routes() -> Value {
    let any = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "routes.mesh.example.com" },
        "spec": {
            "group": "mesh.example.com", "scope": "Namespaced", "names": { "plural": "routes", "kind": "Route" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any(), "status": any() } } },
            }],
        },
    })
}

/// Waits until the documents of these routes have these reasons.
async fn until_reasons(
    stage: &Stage,
    member: &Objects,
    prefix: &str,
    expected: [&str; 2],
) -> Tested {
    until(&format!("the reasons are {expected:?}"), || async {
        for (name, reason) in ["a", "b"].into_iter().zip(expected) {
            let route = member.get(&format!("{ROUTES}/{name}")).await?;
            let search = interpretation(stage, prefix, &route).await?;
            let found = search["healthReason"].as_str().unwrap_or_default();
            ensure!(found == reason, "{name}: {search}");
        }
        Ok(())
    })
    .await?;
    Ok(())
}

/// Restarts the operator, which finds its documents right and writes none.
async fn restart_without_a_write(
    stage: &Stage,
    member: &Objects,
    registry: &Registry,
    expected: [&str; 2],
) -> Tested {
    stage.operator.terminate(DEADLINE).await?;
    stage.operator.restart_until_ready(DEADLINE).await?;
    let count = async |name: &str, labels: &str| stage.operator.count_of(name, labels).await;
    until("the kind is watched", || async {
        let watches = count("fleetdex_watches_opened_total", ROUTE).await?;
        ensure!(watches > 0.0, "{watches} watches");
        Ok(())
    })
    .await?;
    always("nothing is listed or written", STABLE_PERIOD, || async {
        let lists = count("fleetdex_list_pages_total", ROUTE).await?;
        let written = count("fleetdex_bulk_items_total", r#"verdict="indexed""#).await?;
        ensure!(lists + written == 0.0, "{lists} lists, {written} writes");
        anyhow::Ok(())
    })
    .await?;
    registry.until_ready().await?;
    until_reasons(stage, member, &registry.prefix, expected).await
}

#[tokio::test]
async fn an_object_waits_for_a_status_only_if_its_kind_has_ever_had_one_also_after_a_restart()
-> Tested {
    let stage = Stage::enter().await?;
    let member = stage.member(1)?;
    let path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/routes.mesh.example.com";
    member.apply(path, &routes()).await?;
    for name in ["a", "b"] {
        let route = json!({
            "apiVersion": "mesh.example.com/v1", "kind": "Route", "metadata": { "name": name }, "spec": {},
        });
        until("a route is made", || async {
            member.apply(&format!("{ROUTES}/{name}"), &route).await
        })
        .await?;
    }
    let selectors = json!([{ "apiVersion": "mesh.example.com/v1", "kind": "Route" }]);
    let registry = Registry::ready(&stage, "routes", &["member1"], &selectors).await?;
    let none = ["NoController", "NoController"];
    until_reasons(&stage, &member, &registry.prefix, none).await?;
    restart_without_a_write(&stage, &member, &registry, none).await?;

    let refused = json!({ "status": { "phase": "Failed" } });
    member
        .merge(&format!("{ROUTES}/a/status"), &refused)
        .await?;
    let waiting = ["Failed", "NoStatus"];
    until_reasons(&stage, &member, &registry.prefix, waiting).await?;
    restart_without_a_write(&stage, &member, &registry, waiting).await?;
    Ok(registry.remove().await?)
}
