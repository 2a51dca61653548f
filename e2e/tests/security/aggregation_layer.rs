//! The query API behind the aggregation layer of a real API server: authentication, and what each
//! user sees.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, net::SocketAddr};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    objects::Objects,
    operator::{API_PORT, Operator},
    poll::eventually,
    query_api::{GROUP, kubectl_of, make_service, names_of, raw, refusal},
    scenario::{DEADLINE, prepare, start_operator, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

const HOST: &str = "fleetdex.search.svc";
/// Objects in web of each member; db has as many.
const CONFIG_MAPS: usize = 5;

fn names(list: &Value) -> Vec<String> {
    names_of(list).unwrap()
}

/// Creates objects in two namespaces of two members, a registry for them, and a Service for the
/// operator.
async fn fill(fleet: &Fleet) -> Tested {
    let hub = Objects::of(fleet.control_plane())?;
    for number in [1, 2] {
        let member = Objects::of(fleet.member(number))?;
        for namespace in ["web", "db"] {
            member.create_namespace(namespace).await?;
            for count in 0..CONFIG_MAPS {
                member
                    .apply_config_map(namespace, &format!("cm-{count}"), &json!({ "a": "b" }))
                    .await?;
            }
        }
    }
    for namespace in ["web", "db"] {
        hub.create_namespace(namespace).await?;
    }
    make_service(&hub).await?;
    let selector = |namespace: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace });
    let registry = json!({
        "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "front" },
        "spec": { "resourceSelectors": [selector("web"), selector("db")] },
    });
    hub.apply(
        "apis/search.karmada.io/v1alpha1/resourceregistries/front",
        &registry,
    )
    .await?;
    Ok(())
}

/// alice and bob may use the query API; alice may list config maps in web.
async fn give_rights(hub: &Objects) -> Tested {
    let rbac = "apis/rbac.authorization.k8s.io/v1";
    let user = |name: &str| json!({ "kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io" });
    let role = |kind: &str, name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    let outer = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "fleetdex-user" },
        "rules": [{ "apiGroups": ["search.fleetdex.io"], "resources": ["*"], "verbs": ["get"] }] });
    hub.apply(&format!("{rbac}/clusterroles/fleetdex-user"), &outer)
        .await?;
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "fleetdex-user" }, "roleRef": role("ClusterRole", "fleetdex-user"), "subjects": [user("alice"), user("bob")] });
    let path = format!("{rbac}/clusterrolebindings/fleetdex-user");
    hub.apply(&path, &binding).await?;
    let reader = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }] });
    hub.apply(&format!("{rbac}/namespaces/web/roles/reader"), &reader)
        .await?;
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "reader" },
        "roleRef": role("Role", "reader"), "subjects": [user("alice")] });
    let path = format!("{rbac}/namespaces/web/rolebindings/reader");
    hub.apply(&path, &binding).await?;
    Ok(())
}

async fn until_available(hub: &Objects) -> Tested {
    until(
        "the API is available through the aggregation layer",
        || async {
            let service = hub
                .get("apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.search.fleetdex.io")
                .await?;
            let conditions = service["status"]["conditions"]
                .as_array()
                .context("no conditions")?;
            let available = conditions
                .iter()
                .any(|found| found["type"] == "Available" && found["status"] == "True");
            ensure!(available, "{conditions:?}");
            Ok(())
        },
    )
    .await?;
    Ok(())
}

/// Sends requests to the operator directly, without the API server.
struct Direct {
    client: reqwest::Client,
    address: SocketAddr,
}

impl Direct {
    async fn new(hub: &Objects, operator: &Operator, identity: Option<String>) -> Self {
        let secret = hub
            .get("api/v1/namespaces/search/secrets/fleetdex-serving")
            .await
            .unwrap();
        let authority = STANDARD
            .decode(secret["data"]["ca.crt"].as_str().unwrap())
            .unwrap();
        let address: SocketAddr = operator.api_address().parse().unwrap();
        let mut builder = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(&authority).unwrap()])
            .resolve(HOST, address);
        if let Some(pem) = identity {
            builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
        }
        Self {
            client: builder.build().unwrap(),
            address,
        }
    }

    async fn code(&self, path: &str, headers: &[(&str, String)]) -> u16 {
        let mut request = self
            .client
            .get(format!("https://{HOST}:{}{path}", self.address.port()));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.send().await.unwrap().status().as_u16()
    }
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn users_see_through_the_apiserver_what_their_rights_allow_and_other_identities_are_refused()
-> Tested {
    let fleet = Fleet::start(Options::of(2, OpenSearchKind::None)).await?;
    prepare(&fleet).await?;
    fill(&fleet).await?;
    let (control_plane, hub) = (fleet.control_plane(), Objects::of(fleet.control_plane())?);
    let port = format!("--api-service-port={API_PORT}");
    let operator = start_operator(&fleet, &["--api-service=search/fleetdex", &port]).await?;
    until_available(&hub).await?;
    let (admin, alice, bob) = (
        control_plane.kubectl()?,
        kubectl_of(control_plane, "alice")?,
        kubectl_of(control_plane, "bob")?,
    );
    until("everything is indexed", || async {
        let list = raw(&admin, "search/api/v1/configmaps").await?;
        ensure!(names(&list).len() == 4 * CONFIG_MAPS, "{:?}", names(&list));
        Ok(())
    })
    .await?;

    // Without any permission the API server refuses.
    assert!(
        refusal(&alice, "search/api/v1/configmaps")
            .await?
            .contains("cannot get resource \"search/v1\"")
    );
    give_rights(&hub).await?;
    let of_web: BTreeSet<String> = ["member1", "member2"]
        .iter()
        .flat_map(|cluster| (0..CONFIG_MAPS).map(move |count| format!("{cluster}/web/cm-{count}")))
        .collect();
    until("alice sees her namespace and no other", || async {
        let found = names(&raw(&alice, "search/api/v1/configmaps").await?);
        ensure!(
            found.iter().cloned().collect::<BTreeSet<_>>() == of_web && found.len() == of_web.len(),
            "{found:?}"
        );
        Ok(())
    })
    .await?;

    // Pages and counts include only what she may see.
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = raw(&alice, &format!("search/api/v1/configmaps?limit=4{token}")).await?;
        found.extend(names(&page));
        let metadata = &page["metadata"];
        if let Some(remaining) = metadata["remainingItemCount"].as_u64() {
            assert_eq!(
                usize::try_from(remaining).unwrap() + found.len(),
                of_web.len(),
                "{metadata}"
            );
        }
        match metadata["continue"]
            .as_str()
            .filter(|token| !token.is_empty())
        {
            Some(next) => token = format!("&continue={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), of_web.len());
    let counts = raw(&alice, "aggregate/api/v1/configmaps?by=metadata.namespace").await?;
    assert_eq!(
        (
            counts["total"].as_u64(),
            counts["items"].as_array().map(Vec::len)
        ),
        (Some(of_web.len() as u64), Some(1)),
        "{counts}"
    );

    let everywhere = refusal(&bob, "search/api/v1/configmaps").await?;
    assert_contains(
        &everywhere,
        "User \"bob\" cannot list resource \"configmaps\" in API group \"\" at the cluster scope",
    );
    let in_db = refusal(&alice, "clusters/member1/api/v1/namespaces/db/configmaps").await?;
    assert_contains(
        &in_db,
        "User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"db\"",
    );

    // The API server does not send a request that exceeds the advertised limit of headers.
    let too_long = refusal(
        &admin,
        &format!(
            "search/api/v1/configmaps?labelSelector={}",
            "x".repeat(100_000)
        ),
    )
    .await?;
    assert!(too_long.contains("(ServiceUnavailable)"), "{too_long}");

    // kubectl discovers the group.
    let resources = alice
        .run("api-resources --api-group=search.fleetdex.io -o name")
        .await?;
    let with_verbs = ["completions", "images", "interpret", "objects", "verify"]
        .map(|resource| format!("{resource}.search.fleetdex.io"));
    assert_eq!(
        resources.lines().collect::<Vec<_>>(),
        with_verbs,
        "the others have no verbs of their own"
    );

    // Direct requests must authenticate.
    let direct = Direct::new(&hub, &operator, None).await;
    let spoofed = [
        ("x-remote-user", "admin".to_owned()),
        ("x-remote-group", "system:masters".to_owned()),
    ];
    let path = format!("{GROUP}/search/api/v1/configmaps");
    assert_eq!(direct.code(&path, &spoofed).await, 401);
    assert_eq!(direct.code(&path, &[]).await, 401);
    assert_eq!(direct.code("/livez", &[]).await, 200);
    let bearer = |user: &str| {
        [(
            "authorization",
            format!("Bearer {}", control_plane.token_of(user).unwrap()),
        )]
    };
    assert_eq!(direct.code(&path, &bearer("alice")).await, 200);
    assert_eq!(direct.code(&path, &bearer("bob")).await, 403);
    let pem = |identity: &e2e::fleet::certificates::Identity| {
        format!("{}{}", identity.certificate, identity.key)
    };
    let certified = Direct::new(
        &hub,
        &operator,
        Some(pem(control_plane.admin_certificate())),
    )
    .await;
    assert_eq!(certified.code(&path, &[]).await, 200);
    let of_client_authority = control_plane
        .authority()
        .client("front-proxy-client", None)?;
    let impostor = Direct::new(&hub, &operator, Some(pem(&of_client_authority))).await;
    assert_eq!(
        impostor.code(&path, &spoofed).await,
        403,
        "the caller is the user of the certificate, who has no permissions"
    );

    // The API server fetches schemas with a delay, and retries after a minute.
    eventually("kubectl explains what there is", 2 * DEADLINE, || async {
        let explained = alice
            .run("explain search --api-version=search.fleetdex.io/v1alpha1")
            .await?;
        ensure!(explained.contains("KIND:       Search"), "{explained}");
        Ok(())
    })
    .await?;

    // The command line still works over loopback with the token.
    let result = operator.run_command("get configmaps -A -o json").await?;
    assert_eq!(
        (
            result.code,
            names(&serde_json::from_str(&result.out)?).len()
        ),
        (0, 4 * CONFIG_MAPS),
        "{}",
        result.err
    );
    fleet.check_running().unwrap();
    Ok(())
}
