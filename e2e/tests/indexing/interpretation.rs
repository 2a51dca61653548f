//! The built-in rules on statuses that real API servers accept: documents follow each status, and
//! `spec.interpret` of a registry decides whether they have an interpretation at all.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Result, ensure};
use e2e::{
    fleet::unique,
    objects::Objects,
    oracle::document,
    poll::eventually,
    query_api::{names_by_field, store_at},
    scenario::{DEADLINE, Registry, Stage},
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
            eventually(&what, DEADLINE, || async {
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
async fn health_follows_each_status_and_interpretation_can_be_switched_off() {
    let stage = Stage::enter().await.unwrap();
    let member = stage.member(1).unwrap();
    let namespace = unique("meaning");
    member.create_namespace(&namespace).await.unwrap();
    let cases = [
        deployment(),
        stateful_set(),
        claim(),
        load_balancer(),
        pod(),
    ];
    for case in &cases {
        member
            .apply(&case.path(&namespace), &case.object)
            .await
            .unwrap();
    }
    let selectors: Vec<Value> = cases.iter().map(|case| case.selector(&namespace)).collect();
    let mut registry = Registry::new(&stage, "meaning", &["member1"], &json!(selectors)).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    for case in &cases {
        case.follow(&member, &namespace, &stage, &registry.prefix)
            .await;
    }

    let store = store_at(stage.fleet.opensearch().unwrap().url(), &registry.prefix).unwrap();
    let pods = format!("api/v1/namespaces/{namespace}/pods");
    let found = |selector: &'static str| names_by_field(&stage.operator, &store, &pods, selector);
    assert_eq!(
        found("health=Healthy,image=nginx").await.unwrap(),
        Ok(vec!["web".to_owned()])
    );

    let pod = member.get(&format!("{pods}/web")).await.unwrap();
    registry.spec["interpret"] = json!("Off");
    registry.apply().await.unwrap();
    eventually("the documents have no interpretation", DEADLINE, || async {
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
    .await
    .unwrap();
    registry.until_ready().await.unwrap();

    registry.spec["interpret"] = json!("BuiltIn");
    registry.apply().await.unwrap();
    eventually("the documents are interpreted again", DEADLINE, || async {
        let search = interpretation(&stage, &registry.prefix, &pod).await?;
        ensure!(search["interpretedBy"] == json!(["built-in"]), "{search}");
        let names = found("health=Healthy,image=nginx:1.27").await?;
        ensure!(names == Ok(vec!["web".to_owned()]), "{names:?}");
        Ok(())
    })
    .await
    .unwrap();
    registry.remove().await.unwrap();
}
