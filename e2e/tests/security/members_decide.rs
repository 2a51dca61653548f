//! With authorization by the members, no user sees more through the fleet than in the members
//! themselves.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options},
    objects::Objects,
    operator::API_PORT,
    query_api::{GROUP, kubectl_of, make_service, name_of, names_of, raw, refusal},
    scenario::{prepare, start_operator, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "api/v1/pods";

/// Creates two pods in each of two namespaces of both members, a registry for them, and a Service
/// for the operator.
async fn fill(fleet: &Fleet) -> Tested {
    let hub = Objects::of(fleet.control_plane())?;
    for number in [1, 2] {
        let member = Objects::of(fleet.member(number))?;
        for namespace in ["web", "db"] {
            member.create_namespace(namespace).await?;
            for name in ["both", &format!("of-{number}")] {
                let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": namespace } },
                    "spec": { "containers": [{ "name": "main", "image": "example.com/main" }] } });
                member
                    .apply(&format!("api/v1/namespaces/{namespace}/pods/{name}"), &pod)
                    .await?;
            }
        }
    }
    for member in ["member1", "member2"] {
        // Single objects are read with impersonation of the caller.
        let path = format!("apis/cluster.karmada.io/v1alpha1/clusters/{member}");
        let cluster = hub.get(&path).await?;
        let impersonates =
            json!({ "spec": { "impersonatorSecretRef": cluster["spec"]["secretRef"] } });
        hub.merge(&path, &impersonates).await?;
    }
    make_service(&hub).await?;
    let registry = json!({
        "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "pods" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Pod" }] },
    });
    hub.apply(
        "apis/search.karmada.io/v1alpha1/resourceregistries/pods",
        &registry,
    )
    .await?;
    Ok(())
}

/// Gives alice a role on a server, in one namespace or, if it is empty, in all.
async fn give(server: &ApiServer, namespace: &str, name: &str, rule: Value) -> Tested {
    let objects = Objects::of(server)?;
    let (kind, folder) = if namespace.is_empty() {
        ("ClusterRole", RBAC.to_owned())
    } else {
        ("Role", format!("{RBAC}/namespaces/{namespace}"))
    };
    let plural = kind.to_lowercase();
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "rules": [rule] });
    objects
        .apply(&format!("{folder}/{plural}s/{name}"), &role)
        .await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice" }],
    });
    objects
        .apply(&format!("{folder}/{plural}bindings/{name}"), &binding)
        .await?;
    Ok(())
}

fn names(list: &Value) -> BTreeSet<String> {
    names_of(list).unwrap()
}

/// What alice may list in the members themselves, namespace by namespace.
async fn shown_by_members(fleet: &Fleet) -> Tested<BTreeSet<String>> {
    let mut shown = BTreeSet::new();
    for number in [1, 2] {
        let kubectl = kubectl_of(fleet.member(number), "alice")?;
        for namespace in ["web", "db"] {
            let output = kubectl
                .output(&["get", "pods", "-n", namespace, "-o", "name"])
                .await?;
            let pods = output
                .stdout
                .lines()
                .filter_map(|line| line.strip_prefix("pod/"));
            shown.extend(pods.map(|name| format!("member{number}/{namespace}/{name}")));
        }
    }
    Ok(shown)
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn users_see_no_more_of_a_member_than_the_member_itself_shows() -> Tested {
    let fleet = Fleet::start(Options::of(2, OpenSearchKind::None)).await?;
    prepare(&fleet).await?;
    fill(&fleet).await?;
    let hub = fleet.control_plane();
    // The control plane's permissions allow requests to the API; that they also allow all pods must
    // have no effect.
    let asks = json!({ "apiGroups": ["search.fleetdex.io"], "resources": ["*"], "verbs": ["get"] });
    give(hub, "", "asks", asks).await?;
    let reads =
        json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] });
    give(hub, "", "reads", reads.clone()).await?;
    give(fleet.member(1), "web", "reads", reads).await?;
    let port = format!("--api-service-port={API_PORT}");
    let flags = [
        "--api-service=search/fleetdex",
        &port,
        "--authorization=members",
    ];
    let _operator = start_operator(&fleet, &flags).await?;
    let (admin, alice) = (hub.kubectl()?, kubectl_of(hub, "alice")?);
    until("everything is indexed", || async {
        let found = names(&raw(&admin, &format!("search/{PODS}")).await?);
        ensure!(found.len() == 8, "{found:?}");
        Ok(())
    })
    .await?;

    let shown = shown_by_members(&fleet).await?;
    assert_eq!(
        shown,
        ["member1/web/both", "member1/web/of-1"]
            .map(str::to_owned)
            .into()
    );
    until("alice sees what the members show her", || async {
        let found = names(&raw(&alice, &format!("search/{PODS}")).await?);
        ensure!(found == shown, "{found:?}");
        Ok(())
    })
    .await?;

    // With every type of request.
    let proxy = "proxying/karmada/proxy";
    for path in [
        format!("{proxy}/{PODS}"),
        format!("clusters/member1/{PODS}"),
        format!("search/{PODS}?limit=500&labelSelector=app"),
    ] {
        assert_eq!(names(&raw(&alice, &path).await?), shown, "{path}");
    }
    let target = format!("aggregate/{PODS}?by=cluster,metadata.namespace");
    let counts = raw(&alice, &target).await?;
    assert_eq!(
        (&counts["total"], counts["items"].as_array().unwrap().len()),
        (&json!(shown.len()), 1),
        "{counts}"
    );
    let watched = alice
        .run(&[
            "get",
            "--raw",
            &format!("{GROUP}/{proxy}/{PODS}?watch=true&timeoutSeconds=2"),
        ])
        .await?;
    let events: Vec<Value> = watched
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        events.iter().all(|event| event["type"] == "ADDED"),
        "{watched}"
    );
    assert_eq!(
        events
            .iter()
            .map(|event| name_of(&event["object"]).unwrap())
            .collect::<BTreeSet<_>>(),
        shown
    );

    // A name that also exists in another member is no conflict for a user who may not see it there.
    let got = raw(&alice, &format!("{proxy}/api/v1/namespaces/web/pods/both")).await?;
    assert_eq!(name_of(&got).unwrap(), "member1/web/both");
    let conflict = refusal(&admin, &format!("{proxy}/api/v1/namespaces/web/pods/both")).await?;
    assert_contains(&conflict, "is in several clusters: member1, member2");
    let hidden = [
        format!("clusters/member2/{PODS}"),
        format!("{proxy}/clusters/member2/{PODS}"),
        format!("{proxy}/clusters/member2/api/v1/namespaces/web/pods/both"),
        "clusters/member1/api/v1/namespaces/db/pods".to_owned(),
        "search/api/v1/namespaces/db/pods".to_owned(),
        format!("{proxy}/api/v1/namespaces/db/pods/of-1"),
        "aggregate/api/v1/namespaces/db/pods?by=cluster".to_owned(),
    ];
    for path in hidden {
        let refused = refusal(&alice, &path).await?;
        assert!(
            refused.contains("(Forbidden)") && refused.contains("User \"alice\" cannot"),
            "{path}: {refused}"
        );
    }
    fleet.check_running().unwrap();
    Ok(())
}
