//! Attacks on relations: H2, H3 and H7.

use serde_json::{Value, json};

use super::{
    attack::{Attack, AttackSize, Planted, TEXT},
    names::{ATTACKED, ATTACKERS, TENANT, TENANTS},
    texts::list,
    volley::{Users, Volley},
};
use crate::query_api::GROUP;

/// References of each workload: half of what a document may have.
const REFERENCES: usize = 1_000;
/// Values of a large selector: 1.48 MB.
const VALUES: usize = 36_000;
const NAMESPACES: usize = 100;

/// H2: workloads that refer to much, and a tenant who looks at all of them.
pub fn references(size: AttackSize) -> Attack {
    let sources = list(REFERENCES, |number| {
        format!(r#"{{"secretRef":{{"name":"secret-{number:04}"}}}}"#)
    });
    let deployment = |number: usize| {
        let container = json!({ "name": "main", "image": "example.com/main", "envFrom": TEXT });
        let object = json!({
            "metadata": { "name": format!("references-{number:04}"), "namespace": TENANT },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "references" } },
                "template": { "metadata": { "labels": { "app": "references" } }, "spec": { "containers": [container] } },
            },
        });
        Planted::new("deployments.apps", object).with_text(sources.clone())
    };
    let secret = format!("related/api/v1/namespaces/{TENANT}/secrets/secret-0000");
    let used = json!({ "metadata": { "name": "secret-0000", "namespace": TENANT }, "data": {} });
    let mut planted: Vec<Planted> = (0..size.of(1_000, 300)).map(deployment).collect();
    planted.push(Planted::new("secrets", used));
    let path = |path: &str| format!("{GROUP}/{path}");
    Attack {
        name: "h2",
        what: "40 related and 100 objects, workloads of 1,000 references",
        planted,
        probe: Some(path(&format!("{secret}?limit=1"))),
        volleys: vec![
            Volley::get(
                Users::Group(TENANTS, 16),
                40,
                path(&format!("{secret}?depth=2&limit=1000")),
            ),
            Volley::get(
                Users::Group(TENANTS, 25),
                100,
                path(&format!("objects?limit=1000&namespaces={TENANT}")),
            ),
        ],
    }
}

/// H3: monitors with a large selector for many namespaces, and the page of a Service.
pub fn monitors(_: AttackSize) -> Attack {
    let namespaces: Vec<String> = (0..NAMESPACES)
        .map(|number| match number {
            0 => ATTACKED.to_owned(),
            _ => format!("namespace-{number}"),
        })
        .collect();
    let monitor = |resource: &str| {
        let object = json!({
            "metadata": { "name": "large", "namespace": ATTACKED },
            "spec": { "namespaceSelector": { "matchNames": namespaces }, "selector": selector() },
        });
        Planted::new(resource, object).with_text(values())
    };
    let metadata =
        json!({ "name": "monitored", "namespace": ATTACKED, "labels": { "app": "monitored" } });
    let service = json!({ "metadata": metadata, "spec": { "selector": { "app": "monitored" } } });
    let pod = json!({ "metadata": metadata, "spec": { "containers": [] } });
    let path = |resource: &str| {
        format!("/ui/clusters/hostile1/api/v1/namespaces/{ATTACKED}/{resource}/monitored")
    };
    Attack {
        name: "h3",
        what: "8 object views, monitors of 36,000 values for 100 namespaces",
        planted: vec![
            monitor("servicemonitors.monitoring.coreos.com"),
            monitor("podmonitors.monitoring.coreos.com"),
            Planted::new("services", service),
            Planted::new("pods", pod),
        ],
        probe: Some(path("services")),
        volleys: vec![
            Volley::get(Users::Group(ATTACKERS, 4), 6, path("services")),
            Volley::get(Users::Group(ATTACKERS, 2), 2, path("pods")),
        ],
    }
}

/// H7: policies with large selectors, and many pods of one owner.
pub fn policies(size: AttackSize) -> Attack {
    let mut planted = Vec::new();
    for number in 0..size.of(20, 6) {
        let name = format!("policy-{number}");
        let metadata = json!({ "name": name, "namespace": ATTACKED });
        let policy = json!({ "metadata": metadata, "spec": { "podSelector": selector() } });
        planted.push(Planted::new("networkpolicies.networking.k8s.io", policy).with_text(values()));
    }
    let metadata = json!({ "name": "budget", "namespace": ATTACKED });
    let budget = json!({ "metadata": metadata, "spec": { "selector": selector() } });
    planted.push(Planted::new("poddisruptionbudgets.policy", budget).with_text(values()));
    let owner = json!({ "metadata": { "name": "owner", "namespace": ATTACKED }, "spec": { "replicas": 1 } });
    planted.push(Planted::new("deployments.apps", owner));
    for number in 0..size.of(1_000, 300) {
        let metadata = json!({ "name": format!("owned-{number:04}"), "namespace": ATTACKED, "labels": { "app": format!("x{number}") } });
        let pod = json!({ "metadata": metadata, "spec": { "containers": [] } });
        planted.push(Planted::new("pods", pod).owned_by("deployments.apps", "owner"));
    }
    let path = format!("{GROUP}/related/apis/apps/v1/namespaces/{ATTACKED}/deployments/owner");
    Attack {
        name: "h7",
        what: "60 related of a workload, policies of 1.48 MB",
        planted,
        probe: Some(format!("{path}?limit=1")),
        volleys: vec![Volley::get(
            Users::Group(ATTACKERS, 20),
            60,
            format!("{path}?depth=2&limit=1000"),
        )],
    }
}

fn selector() -> Value {
    json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": TEXT }] })
}

fn values() -> String {
    list(VALUES, |number| {
        format!(r#""value-of-a-label-of-some-length-{number:06}""#)
    })
}
