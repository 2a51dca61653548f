//! Watch line → bulk line: what one core can do per second, on pods as an apiserver sends them (5
//! kB with managed fields), without and with the rules that say what objects mean.

use std::sync::Arc;

use divan::{Bencher, counter::ItemsCount};
use fleetdex_clusters::watch::WatchEvent;
use fleetdex_core::{
    kinds,
    model::{Gvk, IndexPrefix, InterpretationLevel, Object, Projection, Projector, Resource},
};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_store::bulk::{Write, encode};
use serde_json::json;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lines per iteration, so that no cache holds just the one line.
const LINES: usize = 256;

fn main() {
    divan::main();
}

fn pod_line(number: usize) -> Vec<u8> {
    let random = |salt: usize| {
        let mut state = (number * 7_919 + salt * 104_729 + 1) as u64;
        let mut text = String::new();
        for _ in 0..32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push(char::from(
                b'a' + u8::try_from(state >> 59).unwrap_or(0) % 26,
            ));
        }
        text
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T10:00:00Z"});
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example/{}:{}", random(1), number), "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "TOKEN", "value": random(2)}, {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"})
    };
    let fields = |paths: usize| {
        let mut fields = serde_json::Map::new();
        for path in 0..paths {
            fields.insert(format!("f:field{path}"), json!({".": {}, "f:name": {}, "f:value": {}, format!("k:{{\"containerPort\":{path}}}"): {".": {}, "f:protocol": {}}}));
        }
        json!({"f:spec": fields})
    };
    let pod = json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": format!("web-{number}-{}", &random(3)[..5]), "generateName": "web-", "namespace": format!("team-{}", number % 20),
            "uid": format!("00000000-0000-4000-8000-{number:012}"), "resourceVersion": (1_000 + number).to_string(), "creationTimestamp": "2026-11-21T10:00:00Z",
            "labels": {"app": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": &random(4)[..9], "tier": (number % 5).to_string()},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": random(5)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "11111111-0000-4000-8000-000000000001", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-11-21T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields(9)},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-21T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields(7), "subresource": "status"}]},
        "spec": {"nodeName": format!("node-{}", number % 50), "containers": [container("web"), container("sidecar")], "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "serviceAccountName": "web", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}], "defaultMode": 420}}]},
        "status": {"phase": "Running", "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
            "hostIP": "10.0.0.1", "podIP": format!("10.1.{}.{}", number / 250 % 250, number % 250), "podIPs": [{"ip": "10.1.0.1"}], "startTime": "2026-11-21T10:00:00Z",
            "containerStatuses": [{"name": "web", "ready": true, "restartCount": 0, "image": "web", "imageID": random(6), "containerID": format!("containerd://{}", random(7)), "started": true, "state": {"running": {"startedAt": "2026-11-21T10:00:00Z"}}, "lastState": {}}],
            "qosClass": "Burstable"}});
    format!(r#"{{"type":"MODIFIED","object":{pod}}}"#).into_bytes()
}

#[divan::bench]
fn watch_line_to_bulk_line(bencher: Bencher<'_, '_>) {
    encode_lines(bencher, InterpretationLevel::Off);
}

#[divan::bench]
fn watch_line_to_interpreted_bulk_line(bencher: Bencher<'_, '_>) {
    encode_lines(bencher, InterpretationLevel::All);
}

fn encode_lines(bencher: Bencher<'_, '_>, level: InterpretationLevel) {
    let lines: Vec<Vec<u8>> = (0..LINES).map(pod_line).collect();
    let bytes: usize = lines.iter().map(Vec::len).sum();
    eprintln!("{} bytes per watch line", bytes / LINES);
    let gvk = Gvk::new("", "v1", "Pod");
    let fields = kinds::selectable_fields(&gvk).unwrap_or_default();
    let resource = Resource {
        gvk,
        plural: "pods".into(),
        namespaced: true,
    };
    let Ok(cluster) = "member1".parse() else {
        return;
    };
    let mut projector = Projector::new(&cluster, &resource, &Projection::default(), fields);
    if let Some(rules) = RuleSet::default().of_kind(&resource, true, level) {
        projector = projector.interpreted_by(Arc::new(rules));
    }
    let index = IndexPrefix::default().cluster_alias(&cluster);
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| {
        let mut writes = Vec::with_capacity(LINES);
        for line in &lines {
            let Ok(WatchEvent::Modified(json)) = WatchEvent::parse(line) else {
                continue;
            };
            let Ok(object) = Object::parse(json) else {
                continue;
            };
            let Ok(document) = projector.document(&object, "2026-11-21T10:00:00Z") else {
                continue;
            };
            writes.push(Write {
                index: index.clone(),
                document,
            });
        }
        encode(&writes)
    });
}
