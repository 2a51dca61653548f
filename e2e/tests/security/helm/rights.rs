//! The service accounts of the chart have exactly the permissions that they need: none of their
//! requests is denied, and each grant that is taken away leads to one that is.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, fs, path::Path};

use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options, Registration},
    objects::Objects,
    operator::{API_PORT, Operator, OperatorOptions},
    oracle::{Oracle, indices},
    query_api::{kubectl_of, raw},
    scenario::{DEADLINE, SECRETS, cluster_path, flags, register, secret_path, until, until_equal},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use super::grants::{Audit, Needs, is_allowed};
use super::tool::{
    Helm, NAMESPACE, Release, chart, each_crd_is, fleetdex, kubeconfig_of_account, make_reachable,
    on_release, run_helm_test, until_served,
};

const RELEASE: Release<'_> = Release {
    name: "fleetdex",
    namespace: NAMESPACE,
};
/// Grants that this test does not prove to be needed, and why the operator has them.
const UNUSED: [(&str, &str); 6] = [
    (
        "fleetdex: get resourceinterpretercustomizations.config.karmada.io *",
        "reads an object whose status another client has changed meanwhile",
    ),
    (
        "fleetdex: get resourceinterpreterwebhookconfigurations.config.karmada.io *",
        "likewise",
    ),
    (
        "fleetdex: get resourceexploringwebhookconfigurations.config.karmada.io *",
        "likewise",
    ),
    (
        "fleetdex: patch events.events.k8s.io *",
        "counts an Event that occurs again",
    ),
    (
        "fleetdex-replicas: create leases.coordination.k8s.io *",
        "a server-side apply that creates is one request, and its verb is patch",
    ),
    ("fleetdex-replicas: create configmaps. *", "likewise"),
];

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn the_charts_service_account_may_run_the_operator_and_nothing_more() -> Tested {
    let options = Options {
        members: 1,
        opensearch: OpenSearchKind::Plain,
        audit: true,
        ..Options::default()
    };
    let fleet = Fleet::start(options).await?;
    let (control_plane, member) = (fleet.control_plane(), fleet.member(1));
    let hub = Objects::of(control_plane)?;
    hub.create_namespace(SECRETS).await?;
    let (helm, chart) = (Helm::of(control_plane), chart());
    let secrets = format!("secrets[0].namespace={SECRETS},clusterStatus=true,replicas=2");
    let values = ["--create-namespace", "--set", &secrets];
    let install = on_release("install", &RELEASE, &chart, &values);
    let (notes, printed) = helm.run_with_job(&RELEASE, &install).await;
    each_crd_is(&printed, "created").unwrap();
    let manifest = helm
        .run(&["get", "manifest", RELEASE.name, "-n", NAMESPACE])
        .await;
    assert_contains(
        &manifest,
        "name: FLEETDEX_LEAVE_CLUSTER_STATUS\n              value: \"false\"",
    );
    assert_contains(
        &manifest,
        "name: FLEETDEX_REPLICAS\n              value: \"true\"",
    );
    assert_contains(&manifest, "kind: APIService");
    assert_contains(&manifest, "name: FLEETDEX_API_SERVICE");
    until_served(&hub).await?;
    make_reachable(&hub).await;

    let kubeconfig = kubeconfig_of_account(control_plane, NAMESPACE, "fleetdex").await;
    let operator = Operator::start(OperatorOptions {
        kubeconfig: kubeconfig.clone(),
        dir: fleet.dir().to_owned(),
        // Ready only with all permissions that the query API needs at the control plane.
        arguments: [
            flags(),
            vec![
                format!("--api-service={NAMESPACE}/fleetdex-api"),
                format!("--api-service-port={API_PORT}"),
            ],
        ]
        .concat(),
        // The chart's flags for several replicas.
        environment: [
            ("REPLICAS", "true"),
            ("REPLICA_NAME", "fleetdex-0"),
            ("REPLICA_NAMESPACE", NAMESPACE),
        ]
        .into_iter()
        .chain([
            ("SERVING_SECRET", "fleetdex-serving"),
            ("CONTINUE_TOKEN_SECRET", "fleetdex-continue-tokens"),
        ])
        .map(|(name, value)| (format!("FLEETDEX_{name}"), value.to_owned()))
        .collect(),
    })?;
    operator.wait_ready(DEADLINE).await?;
    register(&hub, &Registration::new(member, "member1", SECRETS)).await?;
    make_configurations(&hub).await?;
    let path = "apis/search.karmada.io/v1alpha1/resourceregistries/chart";
    let registry = json!({
        "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "chart" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
            "backendStore": { "openSearch": {
                "addresses": [fleet.opensearch().unwrap().url()], "numberOfReplicas": 0,
                "secretRef": { "namespace": SECRETS, "name": "opensearch" },
            } },
        },
    });
    let credentials = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "opensearch", "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
        "stringData": { "userName": "anyone", "password": "anything" } });
    hub.apply(&secret_path("opensearch"), &credentials).await?;
    hub.apply(path, &registry).await?;
    let opensearch = fleet.opensearch()?.client()?;
    let oracle =
        Oracle::new(&opensearch, "fleetdex").expects("member1", member, "api/v1/configmaps");
    until_equal(&oracle).await?;
    until(
        "the registry is ready, the Cluster has a status, an Event exists",
        || async {
            let found = hub.get(path).await?;
            anyhow::ensure!(
                found["status"]["conditions"][0]["status"] == "True",
                "{found}"
            );
            let cluster = hub.get(&cluster_path("member1")).await?;
            anyhow::ensure!(
                cluster["status"]["conditions"][0]["status"] == "True",
                "{cluster}"
            );
            let events = hub
                .get("apis/events.k8s.io/v1/namespaces/default/events")
                .await?;
            anyhow::ensure!(events.to_string().contains("ResourceRegistry"), "{events}");
            Ok(())
        },
    )
    .await?;
    until_configurations_have_a_status(&hub).await?;
    users_of_the_charts_role_may_ask(control_plane, &hub).await?;
    registry_of_the_notes_answers(control_plane, &notes).await?;
    let tested = run_helm_test(control_plane, &RELEASE, &operator.admin_url()).await;
    assert_contains(&tested, "readyz check passed");
    assert_contains(&tested, "serves /apis/search.fleetdex.io/v1alpha1");
    doctor_finds_nothing(&kubeconfig, &control_plane.kubeconfig(), &operator).await;
    hub.delete(path).await?;
    until("the registry is gone", || async {
        anyhow::ensure!(hub.find(path).await?.is_none(), "it is still there");
        Ok(())
    })
    .await?;
    assert_eq!(indices(&opensearch, "fleetdex").await?, [""; 0]);
    let report = format!("api/v1/namespaces/{NAMESPACE}/configmaps/fleetdex-replica-fleetdex-0");
    until("the replica reports its share", || async {
        anyhow::ensure!(hub.find(&report).await?.is_some(), "there is no report");
        Ok(())
    })
    .await?;
    let serving = hub
        .get(&format!(
            "api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-serving"
        ))
        .await?;
    let keys = hub
        .get(&format!(
            "api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-continue-tokens"
        ))
        .await?;
    assert_eq!(
        keys["data"].as_object().map(serde_json::Map::len),
        Some(1),
        "the keys of continue tokens are shared"
    );
    let service = hub
        .get("apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.search.fleetdex.io")
        .await?;
    assert_eq!(
        service["spec"]["caBundle"], serving["data"]["ca.crt"],
        "{service}"
    );
    assert!(service["spec"]["caBundle"].is_string(), "{service}");
    only_replicas_may_read_changes(control_plane, &operator.api_address()).await?;
    assert!(operator.terminate(DEADLINE).await?.success());
    let lease = format!(
        "apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fleetdex-replica-fleetdex-0"
    );
    assert!(
        hub.find(&lease).await?.is_none(),
        "a replica that stopped in order did not delete its Lease"
    );
    let log = fs::read_to_string(operator.process().log())?;
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("orbidden"))
        .collect();
    assert!(
        refused.is_empty(),
        "the operator was denied permissions that the chart does not grant:\n{}",
        refused.join("\n")
    );

    may_not(control_plane).await?;
    let hooks = helm
        .run(&["get", "hooks", RELEASE.name, "-n", NAMESPACE])
        .await;
    let audit = Audit::read(control_plane);
    let denied: Vec<&Value> = audit
        .of_account("fleetdex")
        .filter(|event| !is_allowed(event) && !is_attempt(event))
        .collect();
    assert!(denied.is_empty(), "requests were denied: {denied:?}");
    let known: BTreeSet<String> = UNUSED.map(|(grant, _)| grant.to_owned()).into();
    let mut proven = BTreeSet::new();
    let mut needs = Needs::of(&hub, &manifest, "fleetdex", &audit);
    needs.also(json!({ "verb": "replicate", "group": "search.fleetdex.io", "version": "v1alpha1", "resource": "changes" }));
    let unused = needs.unused(&mut proven).await;
    let excess: Vec<&String> = unused.difference(&known).collect();
    assert!(
        excess.is_empty(),
        "without these the API server denies no request of the operator: {excess:#?}"
    );
    let of_hook = Needs::of(&hub, &hooks, "fleetdex-crds", &audit);
    let unused_by_hook = of_hook.unused(&mut proven).await;
    // That an apply creates is part of one request, whose verb is patch.
    assert!(
        unused_by_hook
            .iter()
            .all(|grant| grant.contains(": create ")),
        "{unused_by_hook:#?}"
    );
    eprintln!("needed: {proven:#?}\nnot requested here: {unused:#?} {unused_by_hook:#?}");
    helm.run(&["uninstall", RELEASE.name, "-n", NAMESPACE])
        .await;
    Ok(())
}

/// On a healthy install doctor, with the account and the environment of the operator, finds nothing
/// to do.
async fn doctor_finds_nothing(kubeconfig: &Path, administrator: &Path, operator: &Operator) {
    let admin_url = format!("--admin-url={}", operator.admin_url());
    let service = format!("--api-service={NAMESPACE}/fleetdex-api");
    let namespace = format!("--replica-namespace={NAMESPACE}");
    let arguments = ["doctor", &admin_url, &service, "--replicas", &namespace];
    let printed = fleetdex(kubeconfig, &arguments).await;
    assert!(printed.success, "{}", printed.text);
    assert!(
        printed.text.contains("permissions") && !printed.text.contains("may not"),
        "{}",
        printed.text
    );
    for status in ["Error", "Skipped", "Warning"] {
        assert!(!printed.text.contains(status), "{}", printed.text);
    }
    // Without the roles that the chart binds, and with nothing but the right to ask.
    let without = ["doctor", &admin_url, &service, "--as=nobody"];
    let printed = fleetdex(administrator, &without).await;
    assert!(!printed.success, "{}", printed.text);
}

/// Paths of objects whose status the operator writes, besides registries and clusters.
const CONFIGURATIONS: [&str; 5] = [
    "apis/cluster.karmada.io/v1alpha1/clustercaches/chart",
    "apis/clustercaches.karmada.io/v1alpha1/clustercaches/chart",
    "apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations/chart",
    "apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations/chart",
    "apis/config.karmada.io/v1alpha1/resourceexploringwebhookconfigurations/chart",
];

async fn make_configurations(hub: &Objects) -> Tested {
    let service = json!({ "service": { "namespace": SECRETS, "name": "interpreter", "path": "/interpret" }, "caBundle": "LS0tLS1CRUdJTi4uLg==" });
    let cache = json!({ "clusterSelectors": [{}], "resourceSelectors": [{ "apiVersion": "v1", "kind": "Namespace" }], "statusUpdatePeriodSeconds": 1 });
    let script = json!({ "healthInterpretation": { "luaScript": "function InterpretHealth(obj) return true end" } });
    let customization = json!({ "target": { "apiVersion": "apps/v1", "kind": "Deployment" }, "customizations": script });
    let interpreters = json!([{
        "name": "health.example.com", "clientConfig": service, "interpreterContextVersions": ["v1alpha1"],
        "rules": [{ "operations": ["InterpretHealth"], "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["ConfigMap"] }],
    }]);
    let explorers = json!([{
        "name": "explore.example.com", "clientConfig": service, "exploreReviewVersions": ["v1alpha1"],
        "rules": [{ "operations": ["ExploreHealthy"], "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["foos"] }],
    }]);
    let kinds = [
        ("cluster.karmada.io", "ClusterCache", "spec", &cache),
        ("clustercaches.karmada.io", "ClusterCache", "spec", &cache),
        (
            "config.karmada.io",
            "ResourceInterpreterCustomization",
            "spec",
            &customization,
        ),
        (
            "config.karmada.io",
            "ResourceInterpreterWebhookConfiguration",
            "webhooks",
            &interpreters,
        ),
        (
            "config.karmada.io",
            "ResourceExploringWebhookConfiguration",
            "webhooks",
            &explorers,
        ),
    ];
    for (path, (group, kind, field, content)) in CONFIGURATIONS.iter().zip(kinds) {
        let object = json!({ "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": { "name": "chart" }, field: content });
        hub.apply(path, &object).await?;
    }
    Ok(())
}

async fn until_configurations_have_a_status(hub: &Objects) -> Tested {
    until("configurations have a status", || async {
        for path in CONFIGURATIONS {
            let found = hub.get(path).await?;
            anyhow::ensure!(found["status"].is_object(), "{found}");
        }
        Ok(())
    })
    .await?;
    Ok(())
}

/// alice asks through the API server, with the chart's role and the right to list.
async fn users_of_the_charts_role_may_ask(server: &ApiServer, hub: &Objects) -> Tested {
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }],
    });
    let path = "apis/rbac.authorization.k8s.io/v1/clusterroles/reader";
    hub.apply(path, &reader).await?;
    for (binding, role) in [("chart-user", "fleetdex-user"), ("chart-reader", "reader")] {
        let binding_object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": binding },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io" }],
        });
        let path = format!("apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{binding}");
        hub.apply(&path, &binding_object).await?;
    }
    let alice = kubectl_of(server, "alice")?;
    until("alice gets an answer", || async {
        let list = raw(&alice, "search/api/v1/configmaps").await?;
        let count = list["items"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(count > 0, "{list}");
        Ok(())
    })
    .await?;
    Ok(())
}

/// The request of another replica, which the operator has the control plane review: as the chart's
/// account, and as alice, who has the chart's role for users.
async fn only_replicas_may_read_changes(server: &ApiServer, api_address: &str) -> Tested {
    let kubectl = server.kubectl()?;
    let create = ["create", "token", "fleetdex", "-n", NAMESPACE];
    let account = kubectl.run(&create).await?;
    let client = reqwest::Client::builder()
        .no_proxy()
        // Its certificate is for the Service.
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let path = "apis/search.fleetdex.io/v1alpha1/changes/api/v1/configmaps?store=other&watch=true";
    let answer = async |token: &str| {
        let request = client.get(format!("https://{api_address}/{path}"));
        let response = request.bearer_auth(token).send().await.unwrap();
        response.text().await.unwrap()
    };
    let of_account = answer(account.trim()).await;
    assert_contains(&of_account, "store other is not connected yet");
    let of_alice = answer(server.token_of("alice").unwrap()).await;
    assert_contains(&of_alice, "cannot replicate resource \\\"changes\\\"");
    Ok(())
}

/// The second and third command that helm prints after an installation; the first is `helm test`.
async fn registry_of_the_notes_answers(server: &ApiServer, notes: &str) -> Tested {
    let (_, rest) = notes.split_once("kubectl apply -f - <<'END'\n").unwrap();
    let (manifest, rest) = rest.split_once("\n  END\n").unwrap();
    let lines = manifest
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap());
    let manifest = lines.collect::<Vec<_>>().join("\n");
    let (_, path) = rest.split_once("kubectl get --raw ").unwrap();
    let path = path.lines().next().unwrap();
    let kubectl = server.kubectl()?;
    kubectl.apply(&manifest).await?;
    until("the registry of the notes answers", || async {
        let list = kubectl.run(&["get", "--raw", path]).await?;
        anyhow::ensure!(list.contains("PodList"), "{list}");
        anyhow::Ok(())
    })
    .await?;
    Ok(())
}

/// Without `secrets[].names` the operator may not watch a Secret by its name. It tries once, and
/// then reads it from time to time.
fn is_attempt(event: &Value) -> bool {
    let object = &event["objectRef"];
    object["resource"] == "secrets"
        && object["namespace"] == SECRETS
        && matches!(event["verb"].as_str(), Some("list" | "watch"))
}

/// Permissions that a stolen token of the operator must not have.
async fn may_not(server: &ApiServer) -> Tested {
    let kubectl = server.kubectl()?;
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:fleetdex");
    let forbidden: [&[&str]; 10] = [
        &["list", "secrets", "-A"],
        &["list", "secrets", "-n", SECRETS],
        &["watch", "secrets", "-n", SECRETS],
        &["get", "secrets/any", "-n", "default"],
        &["update", "secrets/any", "-n", SECRETS],
        &["get", "secrets/any", "-n", NAMESPACE],
        &["get", "configmaps", "-A"],
        &["delete", "resourceregistries.search.karmada.io/any"],
        &["patch", "clusters.cluster.karmada.io/any"],
        &["create", "clusterrolebindings"],
    ];
    for request in forbidden {
        let answer = kubectl
            .output(&[&["auth", "can-i"], request, &[&account]].concat())
            .await?;
        assert_eq!(answer.stdout.trim(), "no", "{request:?}: {answer:?}");
    }
    let answer = kubectl
        .output(&[
            "auth",
            "can-i",
            "get",
            "secrets/any",
            "-n",
            SECRETS,
            &account,
        ])
        .await?;
    assert_eq!(answer.stdout.trim(), "yes", "{answer:?}");
    Ok(())
}
