//! The chart installs, and its service account has exactly the permissions that the operator needs.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, path::Path};

use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options, Registration},
    objects::Objects,
    operator::{Operator, OperatorOptions},
    oracle::{Oracle, indices},
    parts::Part,
    poll::eventually,
    scenario::{DEADLINE, SECRETS, cluster_path, flags, register, secret_path, until_equal},
};
use serde_json::json;
use tokio::process::Command;

const NAMESPACE: &str = "fleetdex-system";

async fn helm(server: &ApiServer, arguments: &[&str]) -> String {
    let folder = server.kubeconfig().with_extension("helm");
    let mut command = Command::new(Part::Helm.ensure().unwrap());
    command
        .args(["--kubeconfig", &server.kubeconfig().display().to_string()])
        .args(arguments);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, &folder);
    }
    let output = command.kill_on_drop(true).output().await.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success(),
        "helm {}: {text}",
        arguments.join(" ")
    );
    text
}

/// A kubeconfig with a token of the chart's service account.
async fn kubeconfig_of_the_chart(server: &ApiServer) -> std::path::PathBuf {
    let kubectl = server.kubectl().unwrap();
    let token = kubectl
        .run(&[
            "create",
            "token",
            "fleetdex",
            "-n",
            NAMESPACE,
            "--duration=1h",
        ])
        .await
        .unwrap();
    let text = server
        .kubeconfig_of("admin")
        .unwrap()
        .replace(server.token(), token.trim());
    assert!(!text.contains(server.token()));
    let path = server.kubeconfig().with_extension("chart");
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn the_charts_service_account_may_run_the_operator_and_nothing_more() {
    let options = Options {
        members: 1,
        opensearch: OpenSearchKind::Plain,
        ..Options::default()
    };
    let fleet = Fleet::start(options).await.unwrap();
    let (control_plane, member) = (fleet.control_plane(), fleet.member(1).unwrap());
    let hub = Objects::of(control_plane).unwrap();
    hub.create_namespace(SECRETS).await.unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../helm/fleetdex")
        .display()
        .to_string();
    let secrets = format!("secrets[0].namespace={SECRETS}");
    let values = [
        "--set",
        &secrets,
        "--set",
        "clusterStatus=true",
        "--set",
        "replicas=2",
    ];
    let install = [
        "install",
        "fleetdex",
        &chart,
        "-n",
        NAMESPACE,
        "--create-namespace",
    ];
    let notes = helm(control_plane, &[&install[..], &values].concat()).await;
    let manifest = helm(
        control_plane,
        &["get", "manifest", "fleetdex", "-n", NAMESPACE],
    )
    .await;
    assert!(
        manifest.contains("name: FLEETDEX_LEAVE_CLUSTER_STATUS\n              value: \"false\""),
        "{manifest}"
    );
    assert!(
        manifest.contains("name: FLEETDEX_REPLICAS\n              value: \"true\""),
        "{manifest}"
    );
    assert!(notes.contains("kubectl get resourceregistries"), "{notes}");
    assert!(
        manifest.contains("kind: APIService") && manifest.contains("name: FLEETDEX_API_SERVICE"),
        "{manifest}"
    );
    eventually("the CRDs are served", DEADLINE, || async {
        hub.get("apis/cluster.karmada.io/v1alpha1/clusters").await?;
        hub.get("apis/search.karmada.io/v1alpha1/resourceregistries")
            .await
    })
    .await
    .unwrap();

    let kubeconfig = kubeconfig_of_the_chart(control_plane).await;
    let operator = Operator::start(OperatorOptions {
        kubeconfig: kubeconfig.clone(),
        dir: fleet.dir().to_owned(),
        // Ready only with all permissions that the query API needs at the control plane.
        arguments: [
            flags(),
            vec![format!("--api-service={NAMESPACE}/fleetdex-api")],
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
    })
    .unwrap();
    operator.wait_ready(DEADLINE).await.unwrap();
    register(&hub, &Registration::new(member, "member1", SECRETS))
        .await
        .unwrap();
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
    hub.apply(&secret_path("opensearch"), &credentials)
        .await
        .unwrap();
    hub.apply(path, &registry).await.unwrap();
    let opensearch = fleet.opensearch().unwrap().client().unwrap();
    let oracle = Oracle::new(&opensearch, "fleetdex")
        .expects("member1", member, "api/v1/configmaps")
        .unwrap();
    until_equal(&oracle).await.unwrap();
    eventually(
        "the registry is ready, the Cluster has a status, an Event exists",
        DEADLINE,
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
    .await
    .unwrap();
    hub.delete(path).await.unwrap();
    eventually("the registry is gone", DEADLINE, || async {
        anyhow::ensure!(hub.find(path).await?.is_none(), "it is still there");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(indices(&opensearch, "fleetdex").await.unwrap(), [""; 0]);
    let report = format!("api/v1/namespaces/{NAMESPACE}/configmaps/fleetdex-replica-fleetdex-0");
    eventually("the replica reports its share", DEADLINE, || async {
        anyhow::ensure!(hub.find(&report).await?.is_some(), "there is no report");
        Ok(())
    })
    .await
    .unwrap();
    let serving = hub
        .get(&format!(
            "api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-serving"
        ))
        .await
        .unwrap();
    let keys = hub
        .get(&format!(
            "api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-continue-tokens"
        ))
        .await
        .unwrap();
    assert_eq!(
        keys["data"].as_object().map(serde_json::Map::len),
        Some(1),
        "the keys of continue tokens are shared"
    );
    let service = hub
        .get("apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.search.fleetdex.io")
        .await
        .unwrap();
    assert_eq!(
        service["spec"]["caBundle"], serving["data"]["ca.crt"],
        "{service}"
    );
    assert!(service["spec"]["caBundle"].is_string(), "{service}");
    assert!(operator.terminate(DEADLINE).await.unwrap().success());
    let lease = format!(
        "apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fleetdex-replica-fleetdex-0"
    );
    assert!(
        hub.find(&lease).await.unwrap().is_none(),
        "a replica that stopped in order did not delete its Lease"
    );
    let log = fs::read_to_string(operator.process().log()).unwrap();
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("orbidden"))
        .collect();
    assert!(
        refused.is_empty(),
        "the operator was denied permissions that the chart does not grant:\n{}",
        refused.join("\n")
    );

    may_not(control_plane).await;
    helm(control_plane, &["uninstall", "fleetdex", "-n", NAMESPACE]).await;
}

/// The chart's manifests with these values.
async fn render(values: &[&str]) -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../helm/fleetdex")
        .display()
        .to_string();
    let mut command = Command::new(Part::Helm.ensure().unwrap());
    command.args([
        "template",
        "fleetdex",
        &chart,
        "-n",
        NAMESPACE,
        "--set",
        "api.enabled=false",
    ]);
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.kill_on_drop(true).output().await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn rights_are_those_of_the_chosen_sources() {
    const KARMADA: &str = "[cluster.karmada.io]";
    const CLUSTER_API: &str = "[cluster.x-k8s.io]";
    const LISTS_SECRETS: &str = "resources: [secrets]\n    # Kubernetes cannot";
    let default = render(&[]).await;
    assert!(
        default.contains(KARMADA)
            && !default.contains(CLUSTER_API)
            && !default.contains("resources: [secrets]"),
        "{default}"
    );

    let anywhere = render(&["clusters.sources={cluster-api}"]).await;
    assert!(
        !anywhere.contains(KARMADA)
            && anywhere.contains(CLUSTER_API)
            && !anywhere.contains("resources: [secrets]"),
        "{anywhere}"
    );

    let bounded = render(&[
        "clusters.sources={cluster-api}",
        "clusters.namespaces={one,two}",
        "clusters.watchFilter=ours",
    ])
    .await;
    let (cluster_wide, roles) = bounded.split_once("kind: ClusterRoleBinding").unwrap();
    assert!(
        !cluster_wide.contains(CLUSTER_API) && roles.matches(CLUSTER_API).count() == 2,
        "{bounded}"
    );
    assert!(
        roles.contains("namespace: one") && !roles.contains(LISTS_SECRETS),
        "{roles}"
    );
    assert!(
        bounded.contains("name: FLEETDEX_CLUSTER_NAMESPACE\n              value: \"one,two\""),
        "{bounded}"
    );

    let labelled = render(&["clusters.sources={secrets}"]).await;
    let role = labelled
        .split("---")
        .find(|manifest| manifest.contains(LISTS_SECRETS))
        .unwrap();
    assert!(
        role.contains("kind: Role\n") && role.contains(&format!("namespace: {NAMESPACE}")),
        "{role}"
    );

    let file = render(&[
        "clusters.sources={kubeconfig}",
        "clusters.kubeconfigSecret=fleet",
    ])
    .await;
    assert!(
        file.contains("secretName: fleet")
            && file.contains("value: /etc/fleetdex/clusters/kubeconfig"),
        "{file}"
    );
    assert!(!file.contains("resources: [secrets]"), "{file}");
}

/// Permissions that a stolen token of the operator must not have.
async fn may_not(server: &ApiServer) {
    let kubectl = server.kubectl().unwrap();
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
            .await
            .unwrap();
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
        .await
        .unwrap();
    assert_eq!(answer.stdout.trim(), "yes", "{answer:?}");
}
