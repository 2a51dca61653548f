//! What one core can do per second with scripts, on an object of 5 kB: Argo CD's form and Karmada's.

#![expect(clippy::expect_used, reason = "a benchmark may panic")]

use divan::{Bencher, counter::ItemsCount};
use fleetdex_interpreter::{
    Operation, Request,
    script::{HealthScript, Script},
};
use serde_json::{Value, json};

const ARGO_CD: &str = "
local hs = {}
if obj.status ~= nil then
  if obj.status.conditions ~= nil then
    for i, condition in ipairs(obj.status.conditions) do
      if condition.type == 'Issuing' and condition.status == 'True' then
        hs.status = 'Progressing'
        hs.message = condition.message
        return hs
      end
    end
    for i, condition in ipairs(obj.status.conditions) do
      if condition.type == 'Ready' and condition.status == 'False' then
        hs.status = 'Degraded'
        hs.message = condition.message
        return hs
      end
      if condition.type == 'Ready' and condition.status == 'True' then
        hs.status = 'Healthy'
        hs.message = condition.message
        return hs
      end
    end
  end
end
hs.status = 'Progressing'
hs.message = 'Waiting for the certificate'
return hs
";

const KARMADA: &str = "
function InterpretHealth(observedObj)
  if observedObj.status == nil or observedObj.status.conditions == nil then
    return false
  end
  for i = 1, #observedObj.status.conditions do
    local condition = observedObj.status.conditions[i]
    if condition.type == 'Ready' and condition.status == 'True' then
      return true
    end
  end
  return false
end
";

fn main() {
    divan::main();
}

/// A custom resource with a pod template, labels, managed fields and conditions: 5 kB, 200 values.
fn object() -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "AsExpected", "message": format!("{kind} is as expected"),
            "observedGeneration": 4, "lastTransitionTime": "2026-11-21T10:00:00Z"})
    };
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example/team/{name}:1.27.3"), "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 8080, "protocol": "TCP", "name": "http"}],
            "env": [{"name": "TOKEN", "value": "0123456789abcdef0123456789abcdef"}, {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "readOnly": true, "mountPath": "/etc/config"}],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1}})
    };
    json!({"apiVersion": "example.io/v1", "kind": "Workload",
        "metadata": {"name": "web-7c9d8f6b5", "namespace": "shop", "uid": "3f1b7a52-7f0e-4c9a-9d56-1f2e3d4c5b6a", "generation": 4, "resourceVersion": "123456789",
            "creationTimestamp": "2026-11-21T10:00:00Z", "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "tier": "frontend"},
            "annotations": {"example.io/owner": "team-a", "example.io/note": "x".repeat(1200)}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container("app"), container("proxy"), container("log")],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "web", "items": [{"key": "a", "path": "b"}]}}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}}},
        "status": {"replicas": 3, "readyReplicas": 3, "observedGeneration": 4,
            "conditions": [condition("Available"), condition("Reconciled"), condition("Synced"), condition("Ready")]}})
}

#[divan::bench(sample_count = 1000)]
fn argo_cd_health_script(bencher: Bencher) {
    let object = object();
    assert!(
        (4_500..5_500).contains(&object.to_string().len()),
        "{}",
        object.to_string().len()
    );
    let script = HealthScript::compile(ARGO_CD).expect("the script is well-formed");
    // The first run makes the state.
    assert!(script.run(&object).is_some());
    bencher
        .counter(ItemsCount::new(1_usize))
        .bench_local(|| script.run(&object));
}

#[divan::bench(sample_count = 1000)]
fn karmada_health_script(bencher: Bencher) {
    let object = object();
    let script =
        Script::compile(Operation::InterpretHealth, KARMADA).expect("the script is well-formed");
    bencher
        .counter(ItemsCount::new(1_usize))
        .bench_local(|| script.run(&Request::Health { object: &object }));
}
