//! Members from every source: Karmada's Clusters, Cluster API's, labelled Secrets and the contexts
//! of a kubeconfig file.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{ApiServer, Fleet, Options, Registration},
    objects::{Objects, config_map_path},
    operator::{Operator, OperatorOptions},
    oracle::revisions,
    poll::{always, eventually},
    scenario::{
        DEADLINE, Registry, SECRETS, cluster_path, register, repository_file, secret_path,
        until_equal,
    },
};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "api/v1/configmaps";
const CAPI: &str = "apis/cluster.x-k8s.io/v1beta1";

async fn fleet(members: usize) -> (Fleet, Objects) {
    fleet_of(Options {
        members,
        ..Options::default()
    })
    .await
}

async fn fleet_of(options: Options) -> (Fleet, Objects) {
    let fleet = Fleet::start(options).await.unwrap();
    let kubectl = fleet.control_plane().kubectl().unwrap();
    for file in [
        "cluster.karmada.io_clusters.yaml",
        "search.karmada.io_resourceregistries.yaml",
    ] {
        kubectl
            .apply_server_side(&repository_file(&format!("crds/{file}")).unwrap())
            .await
            .unwrap();
    }
    let hub = Objects::of(fleet.control_plane()).unwrap();
    hub.create_namespace(SECRETS).await.unwrap();
    eventually("the CRDs are served", DEADLINE, || async {
        hub.get("apis/cluster.karmada.io/v1alpha1/clusters").await?;
        hub.get("apis/search.karmada.io/v1alpha1/resourceregistries")
            .await
    })
    .await
    .unwrap();
    (fleet, hub)
}

fn operator(fleet: &Fleet, arguments: &[&str]) -> Operator {
    let usual = ["--probe-interval=1", "--connect-retry=1"];
    Operator::start(OperatorOptions {
        kubeconfig: fleet.control_plane().kubeconfig(),
        dir: fleet.dir().to_owned(),
        arguments: usual
            .iter()
            .chain(arguments)
            .map(|&flag| flag.to_owned())
            .collect(),
        environment: Vec::new(),
    })
    .unwrap()
}

/// A self-contained kubeconfig with a context for each name.
fn kubeconfig(contexts: &[(&str, &ApiServer)], user: Option<&Value>) -> String {
    let named = |field: &str, value: &dyn Fn(&ApiServer, &str) -> Value| -> Vec<Value> {
        contexts
            .iter()
            .map(|(name, server)| json!({ "name": name, field: value(server, name) }))
            .collect()
    };
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": contexts[0].0,
        "clusters": named("cluster", &|server, _| json!({
            "server": server.url(), "certificate-authority-data": STANDARD.encode(server.ca_pem()),
        })),
        "users": named("user", &|server, _| user.cloned().unwrap_or(json!({ "token": server.token() }))),
        "contexts": named("context", &|_, name| json!({ "cluster": name, "user": name })),
    })
    .to_string()
}

fn secret(name: &str, label: Option<&str>, key: &str, content: &str) -> Value {
    let labels = label.map_or(
        json!({}),
        |label| json!({ "fleetdex.io/cluster": label, "tier": "secret" }),
    );
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "labels": labels },
            "data": { key: STANDARD.encode(content) } })
}

async fn put_secret(hub: &Objects, secret: &Value) {
    hub.apply(
        &secret_path(secret["metadata"]["name"].as_str().unwrap()),
        secret,
    )
    .await
    .unwrap();
}

/// The CRD of Cluster API's Cluster, as far as the tests need it.
fn cluster_api_crd() -> Value {
    let version = |name: &str, storage: bool| {
        json!({ "name": name, "served": true, "storage": storage, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "clusters.cluster.x-k8s.io" },
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": { "kind": "Cluster", "plural": "clusters", "singular": "cluster" },
            "versions": [version("v1beta2", false), version("v1beta1", true)],
        },
    })
}

fn registry(fleet: &Fleet, name: &str) -> Registry {
    let mut registry = Registry::in_fleet(
        fleet,
        name,
        &[],
        &json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]),
    )
    .unwrap();
    registry.spec["targetCluster"] = json!({});
    registry
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn members_of_every_source_are_indexed_and_an_unreadable_source_deletes_nothing() {
    let (fleet, hub) = fleet(3).await;
    let [one, two, three] = [1, 2, 3].map(|number| fleet.member(number).unwrap());
    let file: PathBuf = fleet.dir().join("contexts");
    fs::write(
        &file,
        kubeconfig(
            &[("Admin@one", one), ("two", two), ("unwanted", three)],
            None,
        ),
    )
    .unwrap();
    register(&hub, &Registration::new(one, "one", SECRETS))
        .await
        .unwrap();
    put_secret(
        &hub,
        &secret(
            "third",
            Some("by-secret"),
            "kubeconfig",
            &kubeconfig(&[("x", three)], None),
        ),
    )
    .await;
    let exec = json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh" } });
    put_secret(
        &hub,
        &secret(
            "program",
            Some("with-program"),
            "value",
            &kubeconfig(&[("x", three)], Some(&exec)),
        ),
    )
    .await;
    put_secret(
        &hub,
        &secret("unlabelled", None, "value", "not a kubeconfig"),
    )
    .await;

    let file_flag = format!("--kubeconfig-clusters={}", file.display());
    let operator = operator(
        &fleet,
        &[
            "--cluster-source=karmada,cluster-api,secrets,kubeconfig",
            &format!("--cluster-namespace={SECRETS}"),
            &file_flag,
            "--cluster-context=Admin@one,two",
            "--allow-same-cluster",
        ],
    );
    operator.wait_ready(DEADLINE).await.unwrap();
    let registry = registry(&fleet, "sources");
    registry.apply().await.unwrap();
    let oracle = || {
        let oracle = registry
            .oracle()
            .expects("one", one, CONFIG_MAPS)
            .unwrap()
            .expects("Admin@one", one, CONFIG_MAPS)
            .unwrap();
        oracle
            .expects("two", two, CONFIG_MAPS)
            .unwrap()
            .expects("by-secret", three, CONFIG_MAPS)
            .unwrap()
    };
    until_equal(&oracle()).await.unwrap();
    registry
        .until_phase("with-program", "Failed", "ExecRefused")
        .await
        .unwrap();
    let report = operator.readiness().await.unwrap();
    assert!(
        report.contains("clusters from Cluster API") && report.contains("install Cluster API"),
        "{report}"
    );
    assert!(
        operator
            .metric("fleetdex_cluster_source_up", "source=\"Cluster API")
            .await
            .unwrap()
            < 0.5
    );

    // Cluster API is installed later.
    hub.apply(
        "apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.cluster.x-k8s.io",
        &cluster_api_crd(),
    )
    .await
    .unwrap();
    let path = format!("{CAPI}/namespaces/{SECRETS}/clusters/prod");
    let cluster = json!({ "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
                          "metadata": { "name": "prod", "labels": { "tier": "capi" } }, "spec": { "paused": true } });
    eventually("Cluster API's kind is served", DEADLINE, || {
        hub.apply(&path, &cluster)
    })
    .await
    .unwrap();
    let name = format!("{SECRETS}/prod");
    registry
        .until_phase(&name, "Pending", "WaitingForInfrastructure")
        .await
        .unwrap();
    let provisioned =
        json!({ "status": { "initialization": { "infrastructureProvisioned": true } } });
    hub.merge(&format!("{path}/status"), &provisioned)
        .await
        .unwrap();
    registry
        .until_phase(&name, "Failed", "SecretNotFound")
        .await
        .unwrap();
    put_secret(&hub, &secret("prod-kubeconfig", None, "value", "rubbish")).await;
    registry
        .until_phase(&name, "Failed", "KubeconfigInvalid")
        .await
        .unwrap();
    put_secret(
        &hub,
        &secret(
            "prod-kubeconfig",
            None,
            "value",
            &kubeconfig(&[("x", three)], None),
        ),
    )
    .await;
    let all = || oracle().expects(&name, three, CONFIG_MAPS).unwrap();
    let count = until_equal(&all()).await.unwrap();
    let after = hub.get(&path).await.unwrap();
    assert!(
        after["metadata"]["finalizers"].is_null() && after["status"] == provisioned["status"],
        "{after}"
    );

    // Started with an unreadable source, the operator deletes nothing of it, and continues with the
    // others.
    let good = fs::read_to_string(&file).unwrap();
    operator.terminate(Duration::from_secs(30)).await.unwrap();
    fs::write(&file, "rubbish").unwrap();
    put_config_map(three, "while-away").await;
    operator.restart().unwrap();
    operator.wait_ready(DEADLINE).await.unwrap();
    assert_eq!(until_equal(&all()).await.unwrap(), count + 2);
    registry
        .until("Synced", "False", "ClustersFailing", "with-program")
        .await
        .unwrap();
    always(
        "documents of an unread source stay",
        Duration::from_secs(3),
        || async { all().compare().await.map(drop) },
    )
    .await
    .unwrap();
    assert!(
        operator
            .readiness()
            .await
            .unwrap()
            .contains("contexts degraded")
    );
    fs::write(&file, good.replace("Admin@one", "renamed")).unwrap();
    let without = || {
        let oracle = registry
            .oracle()
            .expects("one", one, CONFIG_MAPS)
            .unwrap()
            .expects("two", two, CONFIG_MAPS)
            .unwrap();
        oracle
            .expects("by-secret", three, CONFIG_MAPS)
            .unwrap()
            .expects(&name, three, CONFIG_MAPS)
            .unwrap()
    };
    until_equal(&without()).await.unwrap();

    // Only the documents of clusters that a source no longer lists are deleted.
    hub.delete(&path).await.unwrap();
    hub.delete(&secret_path("third")).await.unwrap();
    let left = registry
        .oracle()
        .expects("one", one, CONFIG_MAPS)
        .unwrap()
        .expects("two", two, CONFIG_MAPS)
        .unwrap();
    until_equal(&left).await.unwrap();
    registry.remove().await.unwrap();
}

async fn put_config_map(member: &ApiServer, name: &str) {
    let objects = Objects::of(member).unwrap();
    objects
        .apply_config_map("default", name, &json!({ "a": "b" }))
        .await
        .unwrap();
    objects
        .get(&config_map_path("default", name))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cluster_registered_twice_is_indexed_once_and_fails_over() {
    let (fleet, hub) = fleet(2).await;
    let [one, two] = [1, 2].map(|number| fleet.member(number).unwrap());
    register(&hub, &Registration::new(one, "first", SECRETS))
        .await
        .unwrap();
    // creationTimestamp has whole seconds, and the next registration must be younger.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    put_secret(
        &hub,
        &secret(
            "second",
            Some("again"),
            "kubeconfig",
            &kubeconfig(&[("x", one)], None),
        ),
    )
    .await;
    put_secret(
        &hub,
        &secret(
            "third",
            Some("first"),
            "kubeconfig",
            &kubeconfig(&[("x", two)], None),
        ),
    )
    .await;
    let operator = operator(
        &fleet,
        &[
            "--cluster-source=karmada,secrets",
            &format!("--cluster-namespace={SECRETS}"),
        ],
    );
    operator.wait_ready(DEADLINE).await.unwrap();
    // Of two connected registrations the older one is used. If its first attempt failed, as on a
    // busy machine, the other one would be indexed first.
    for name in ["first", "again"] {
        let is_up = || async {
            let up = operator
                .metric("fleetdex_cluster_up", &format!("cluster=\"{name}\""))
                .await?;
            anyhow::ensure!(up > 0.5, "{name} is not connected");
            Ok(())
        };
        eventually("both registrations are connected", DEADLINE, is_up)
            .await
            .unwrap();
    }
    let registry = registry(&fleet, "duplicates");
    registry.apply().await.unwrap();
    let first = || {
        registry
            .oracle()
            .expects("first", one, CONFIG_MAPS)
            .unwrap()
    };
    let row = registry
        .until_phase("again", "Failed", "SameClusterAs")
        .await
        .unwrap();
    assert!(
        row["message"]
            .as_str()
            .unwrap()
            .contains("same cluster as first (Cluster first)"),
        "{row}"
    );
    until_equal(&first()).await.unwrap();
    let row = registry
        .until_phase("first", "Synced", "NameTaken")
        .await
        .unwrap();
    assert!(
        row["message"]
            .as_str()
            .unwrap()
            .contains(&format!("Secret {SECRETS}/third")),
        "{row}"
    );
    assert!(
        operator
            .metric("fleetdex_clusters_ignored", "NameTaken")
            .await
            .unwrap()
            > 0.5
    );

    hub.delete(&secret_path("third")).await.unwrap();
    hub.delete(&cluster_path("first")).await.unwrap();
    until_equal(
        &registry
            .oracle()
            .expects("again", one, CONFIG_MAPS)
            .unwrap(),
    )
    .await
    .unwrap();
    registry.until_ready().await.unwrap();
    registry.remove().await.unwrap();
}

/// Members with one UID: `origin` is `member1`, `elder` is registered before it.
struct Restored {
    fleet: Fleet,
    operator: Operator,
    registry: Registry,
    /// The indices of `origin`, which must never be deleted.
    revisions: Vec<String>,
}

impl Restored {
    fn member(&self, number: usize) -> &ApiServer {
        self.fleet.member(number).unwrap()
    }

    async fn revisions(&self) -> Vec<String> {
        revisions(
            &self.fleet.opensearch().unwrap().client().unwrap(),
            &self.registry.prefix,
            "origin",
        )
        .await
        .unwrap()
    }

    /// Waits until `elder` is indexed as a separate cluster.
    async fn until_both_are_indexed(&self) {
        let oracle = self
            .registry
            .oracle()
            .expects("origin", self.member(1), CONFIG_MAPS)
            .unwrap();
        until_equal(
            &oracle
                .expects("elder", self.member(2), CONFIG_MAPS)
                .unwrap(),
        )
        .await
        .unwrap();
    }

    /// Waits until `elder` is recognised as the same cluster.
    async fn until_elder_is_a_duplicate(&self) {
        let row = self
            .registry
            .until_phase("elder", "Failed", "SameClusterAs")
            .await
            .unwrap();
        assert!(
            row["message"]
                .as_str()
                .unwrap()
                .contains("same cluster as origin (Cluster origin)"),
            "{row}"
        );
        until_equal(
            &self
                .registry
                .oracle()
                .expects("origin", self.member(1), CONFIG_MAPS)
                .unwrap(),
        )
        .await
        .unwrap();
    }

    /// Waits until the status of both reports one UID and two clusters.
    async fn until_both_report_each_other(&self) {
        for (name, other) in [("elder", "origin"), ("origin", "elder")] {
            let seen = format!(
                "also that of {other} (Cluster {other}), as after a restore from a backup: both are indexed"
            );
            let row = self
                .registry
                .until_phase(name, "Synced", &seen)
                .await
                .unwrap();
            assert!(
                row["message"]
                    .as_str()
                    .unwrap()
                    .contains("their histories differ"),
                "{row}"
            );
        }
    }

    async fn restart_operator(&self) {
        self.operator
            .terminate(Duration::from_secs(30))
            .await
            .unwrap();
        self.operator.restart().unwrap();
        self.operator.wait_ready(DEADLINE).await.unwrap();
    }
}

#[tokio::test]
async fn a_restored_cluster_is_indexed_beside_its_origin_and_displaces_no_established_member() {
    // A backup has the keys of its origin.
    let options = Options {
        members: 2,
        own_etcds: true,
        member_flags: vec![&[], &["--etcd-prefix=/member1"]],
        ..Options::default()
    };
    let (fleet, hub) = fleet_of(options).await;
    let [origin, other] = [1, 2].map(|number| fleet.member(number).unwrap());
    register(&hub, &Registration::new(other, "elder", SECRETS))
        .await
        .unwrap();
    // creationTimestamp has whole seconds, and the next registration must be younger.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    register(&hub, &Registration::new(origin, "origin", SECRETS))
        .await
        .unwrap();
    let backup = fleet.dir().join("backup");
    put_config_map(origin, "before-the-backup").await;
    let operator = operator(&fleet, &[]);
    operator.wait_ready(DEADLINE).await.unwrap();
    let registry = registry(&fleet, "restored");
    registry.apply().await.unwrap();
    let mut scene = Restored {
        fleet,
        operator,
        registry,
        revisions: Vec::new(),
    };
    scene.until_both_are_indexed().await;
    scene.revisions = scene.revisions().await;

    // The older registration is changed to the cluster of the other one.
    register(&hub, &Registration::new(scene.member(1), "elder", SECRETS))
        .await
        .unwrap();
    scene.until_elder_is_a_duplicate().await;
    scene.restart_operator().await;
    put_config_map(scene.member(1), "after-a-restart").await;
    scene.until_elder_is_a_duplicate().await;
    assert_eq!(scene.revisions().await, scene.revisions);

    // It is changed back, to a cluster that was meanwhile restored from a backup of the other one.
    scene.fleet.etcd_of(1).save_snapshot(&backup).await.unwrap();
    scene.member(2).kill();
    scene
        .fleet
        .etcd_of(2)
        .restore_snapshot(&backup)
        .await
        .unwrap();
    scene.member(2).restart().await.unwrap();
    register(&hub, &Registration::new(scene.member(2), "elder", SECRETS))
        .await
        .unwrap();
    for (number, name) in [(1, "origin-goes-on"), (2, "restored-goes-on")] {
        put_config_map(scene.member(number), name).await;
    }
    scene.until_both_are_indexed().await;
    scene.until_both_report_each_other().await;
    scene.restart_operator().await;
    for number in [1, 2] {
        put_config_map(scene.member(number), "after-the-restore").await;
    }
    scene.until_both_are_indexed().await;
    scene.until_both_report_each_other().await;
    assert_eq!(scene.revisions().await, scene.revisions);

    // Both have been indexed under this UID now; the older one becomes the same cluster again, and
    // displaces nothing.
    register(&hub, &Registration::new(scene.member(1), "elder", SECRETS))
        .await
        .unwrap();
    scene
        .registry
        .until_phase("origin", "Synced", "they cannot be distinguished now")
        .await
        .unwrap();
    put_config_map(scene.member(1), "at-the-end").await;
    let oracle = scene
        .registry
        .oracle()
        .expects("origin", scene.member(1), CONFIG_MAPS)
        .unwrap();
    until_equal(
        &oracle
            .expects("elder", scene.member(1), CONFIG_MAPS)
            .unwrap(),
    )
    .await
    .unwrap();
    assert_eq!(scene.revisions().await, scene.revisions);
    scene.registry.remove().await.unwrap();
}
