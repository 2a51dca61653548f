//! Members from every source: Karmada's Clusters, Cluster API's, labelled Secrets and the contexts
//! of a kubeconfig file.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options, Registration},
    objects::Objects,
    operator::{Operator, OperatorOptions},
    oracle::revisions,
    poll::always,
    scenario::{
        DEADLINE, Registry, SECRETS, cluster_path, register, repository_file, secret_path, until,
        until_equal,
    },
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "api/v1/configmaps";
const CAPI: &str = "apis/cluster.x-k8s.io/v1beta1";

async fn fleet(members: usize) -> (Fleet, Objects) {
    fleet_of(Options::of(members, OpenSearchKind::Plain)).await
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
    until("the CRDs are served", || async {
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
        arguments: usual
            .iter()
            .chain(arguments)
            .map(|&flag| flag.to_owned())
            .collect(),
        ..OperatorOptions::of(fleet)
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

async fn put_secret(hub: &Objects, secret: &Value) -> Tested {
    let name = secret["metadata"]["name"].as_str().unwrap();
    hub.apply(&secret_path(name), secret).await?;
    Ok(())
}

/// Creates a Secret that registers a server under a name of its own.
async fn put_kubeconfig(hub: &Objects, name: &str, cluster: &str, server: &ApiServer) -> Tested {
    let content = kubeconfig(&[("x", server)], None);
    put_secret(hub, &secret(name, Some(cluster), "kubeconfig", &content)).await
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
    let config_maps = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let mut registry = Registry::in_fleet(fleet, name, &[], &config_maps).unwrap();
    registry.spec["targetCluster"] = json!({});
    registry
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn members_of_every_source_are_indexed_and_an_unreadable_source_deletes_nothing() -> Tested {
    let (fleet, hub) = fleet(3).await;
    let [one, two, three] = [1, 2, 3].map(|number| fleet.member(number));
    let file: PathBuf = fleet.dir().join("contexts");
    let contexts = [("Admin@one", one), ("two", two), ("unwanted", three)];
    fs::write(&file, kubeconfig(&contexts, None))?;
    register(&hub, &Registration::new(one, "one", SECRETS)).await?;
    put_kubeconfig(&hub, "third", "by-secret", three).await?;
    let exec = json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh" } });
    let by_program = kubeconfig(&[("x", three)], Some(&exec));
    let program = secret("program", Some("with-program"), "value", &by_program);
    put_secret(&hub, &program).await?;
    let unlabelled = secret("unlabelled", None, "value", "not a kubeconfig");
    put_secret(&hub, &unlabelled).await?;

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
    operator.wait_ready(DEADLINE).await?;
    let registry = registry(&fleet, "sources");
    registry.apply().await?;
    let oracle = |clusters: &[(&'static str, _)]| {
        let clusters = clusters.iter().copied();
        registry.oracle().expects_all(clusters, &[CONFIG_MAPS])
    };
    let (of_one, of_two, of_three) = (("one", one), ("two", two), ("by-secret", three));
    let listed = || oracle(&[of_one, ("Admin@one", one), of_two, of_three]);
    until_equal(&listed()).await?;
    registry.until_failed("with-program", "ExecRefused").await?;
    let report = operator.readiness().await?;
    assert_contains(&report, "clusters from Cluster API");
    assert_contains(&report, "install Cluster API");
    assert!(
        operator
            .metric("fleetdex_cluster_source_up", "source=\"Cluster API")
            .await?
            < 0.5
    );

    // Cluster API is installed later.
    hub.apply(
        "apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.cluster.x-k8s.io",
        &cluster_api_crd(),
    )
    .await?;
    let path = format!("{CAPI}/namespaces/{SECRETS}/clusters/prod");
    let cluster = json!({ "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
                          "metadata": { "name": "prod", "labels": { "tier": "capi" } }, "spec": { "paused": true } });
    until("Cluster API's kind is served", || {
        hub.apply(&path, &cluster)
    })
    .await?;
    let name = format!("{SECRETS}/prod");
    registry
        .until_phase(&name, "Pending", "WaitingForInfrastructure")
        .await?;
    let provisioned =
        json!({ "status": { "initialization": { "infrastructureProvisioned": true } } });
    hub.merge(&format!("{path}/status"), &provisioned).await?;
    registry.until_failed(&name, "SecretNotFound").await?;
    put_secret(&hub, &secret("prod-kubeconfig", None, "value", "rubbish")).await?;
    registry.until_failed(&name, "KubeconfigInvalid").await?;
    let content = kubeconfig(&[("x", three)], None);
    let right = secret("prod-kubeconfig", None, "value", &content);
    put_secret(&hub, &right).await?;
    let all = || listed().expects(&name, three, CONFIG_MAPS);
    let count = until_equal(&all()).await?;
    let after = hub.get(&path).await?;
    assert!(
        after["metadata"]["finalizers"].is_null() && after["status"] == provisioned["status"],
        "{after}"
    );

    // Started with an unreadable source, the operator deletes nothing of it, and continues with the
    // others.
    let good = fs::read_to_string(&file)?;
    operator.terminate(Duration::from_secs(30)).await?;
    fs::write(&file, "rubbish")?;
    put_config_map(three, "while-away").await?;
    operator.restart_until_ready(DEADLINE).await?;
    assert_eq!(until_equal(&all()).await?, count + 2);
    registry
        .until("Synced", "False", "ClustersFailing", "with-program")
        .await?;
    always(
        "documents of an unread source stay",
        Duration::from_secs(3),
        || async { all().compare().await.map(drop) },
    )
    .await?;
    assert!(operator.readiness().await?.contains("contexts degraded"));
    fs::write(&file, good.replace("Admin@one", "renamed"))?;
    let without = oracle(&[of_one, of_two, of_three]).expects(&name, three, CONFIG_MAPS);
    until_equal(&without).await?;

    // Only the documents of clusters that a source no longer lists are deleted.
    hub.delete(&path).await?;
    hub.delete(&secret_path("third")).await?;
    until_equal(&oracle(&[of_one, of_two])).await?;
    Ok(registry.remove().await?)
}

async fn put_config_map(member: &ApiServer, name: &str) -> Tested {
    let objects = Objects::of(member)?;
    objects
        .apply_config_map("default", name, &json!({ "a": "b" }))
        .await?;
    objects.get_config_map("default", name).await?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_registered_twice_is_indexed_once_and_fails_over() -> Tested {
    let (fleet, hub) = fleet(2).await;
    let [one, two] = [1, 2].map(|number| fleet.member(number));
    register(&hub, &Registration::new(one, "first", SECRETS)).await?;
    // creationTimestamp has whole seconds, and the next registration must be younger.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    put_kubeconfig(&hub, "second", "again", one).await?;
    put_kubeconfig(&hub, "third", "first", two).await?;
    let namespace = format!("--cluster-namespace={SECRETS}");
    let operator = operator(&fleet, &["--cluster-source=karmada,secrets", &namespace]);
    operator.wait_ready(DEADLINE).await?;
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
        until("both registrations are connected", is_up).await?;
    }
    let registry = registry(&fleet, "duplicates");
    registry.apply().await?;
    let first = || registry.oracle().expects("first", one, CONFIG_MAPS);
    let row = registry.until_failed("again", "SameClusterAs").await?;
    assert_contains(&row["message"], "same cluster as first (Cluster first)");
    until_equal(&first()).await?;
    let row = registry.until_phase("first", "Synced", "NameTaken").await?;
    assert_contains(&row["message"], &format!("Secret {SECRETS}/third"));
    assert!(
        operator
            .metric("fleetdex_clusters_ignored", "NameTaken")
            .await?
            > 0.5
    );

    hub.delete(&secret_path("third")).await?;
    hub.delete(&cluster_path("first")).await?;
    until_equal(&registry.oracle().expects("again", one, CONFIG_MAPS)).await?;
    registry.until_ready().await?;
    Ok(registry.remove().await?)
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
        self.fleet.member(number)
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
    async fn until_both_are_indexed(&self) -> Tested {
        let oracle = self
            .registry
            .oracle()
            .expects("origin", self.member(1), CONFIG_MAPS);
        until_equal(&oracle.expects("elder", self.member(2), CONFIG_MAPS)).await?;
        Ok(())
    }

    /// Waits until `elder` is recognised as the same cluster.
    async fn until_elder_is_a_duplicate(&self) -> Tested {
        let row = self.registry.until_failed("elder", "SameClusterAs").await?;
        assert_contains(&row["message"], "same cluster as origin (Cluster origin)");
        until_equal(
            &self
                .registry
                .oracle()
                .expects("origin", self.member(1), CONFIG_MAPS),
        )
        .await?;
        Ok(())
    }

    /// Waits until the status of both reports one UID and two clusters.
    async fn until_both_report_each_other(&self) -> Tested {
        for (name, other) in [("elder", "origin"), ("origin", "elder")] {
            let seen = format!(
                "also that of {other} (Cluster {other}), as after a restore from a backup: both are indexed"
            );
            let row = self.registry.until_phase(name, "Synced", &seen).await?;
            assert_contains(&row["message"], "their histories differ");
        }
        Ok(())
    }

    async fn restart_operator(&self) -> Tested {
        self.operator.terminate(Duration::from_secs(30)).await?;
        self.operator.restart_until_ready(DEADLINE).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_restored_cluster_is_indexed_beside_its_origin_and_displaces_no_established_member()
-> Tested {
    // A backup has the keys of its origin.
    let options = Options {
        members: 2,
        own_etcds: true,
        member_flags: vec![&[], &["--etcd-prefix=/member1"]],
        ..Options::default()
    };
    let (fleet, hub) = fleet_of(options).await;
    let [origin, other] = [1, 2].map(|number| fleet.member(number));
    register(&hub, &Registration::new(other, "elder", SECRETS)).await?;
    // creationTimestamp has whole seconds, and the next registration must be younger.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    register(&hub, &Registration::new(origin, "origin", SECRETS)).await?;
    let backup = fleet.dir().join("backup");
    put_config_map(origin, "before-the-backup").await?;
    let operator = operator(&fleet, &[]);
    operator.wait_ready(DEADLINE).await?;
    let registry = registry(&fleet, "restored");
    registry.apply().await?;
    let mut scene = Restored {
        fleet,
        operator,
        registry,
        revisions: Vec::new(),
    };
    scene.until_both_are_indexed().await?;
    scene.revisions = scene.revisions().await;

    // The older registration is changed to the cluster of the other one.
    register(&hub, &Registration::new(scene.member(1), "elder", SECRETS)).await?;
    scene.until_elder_is_a_duplicate().await?;
    scene.restart_operator().await?;
    put_config_map(scene.member(1), "after-a-restart").await?;
    scene.until_elder_is_a_duplicate().await?;
    assert_eq!(scene.revisions().await, scene.revisions);

    // It is changed back, to a cluster that was meanwhile restored from a backup of the other one.
    scene.fleet.etcd_of(1).save_snapshot(&backup).await?;
    scene.member(2).kill();
    scene.fleet.etcd_of(2).restore_snapshot(&backup).await?;
    scene.member(2).restart().await?;
    register(&hub, &Registration::new(scene.member(2), "elder", SECRETS)).await?;
    for (number, name) in [(1, "origin-goes-on"), (2, "restored-goes-on")] {
        put_config_map(scene.member(number), name).await?;
    }
    scene.until_both_are_indexed().await?;
    scene.until_both_report_each_other().await?;
    scene.restart_operator().await?;
    for number in [1, 2] {
        put_config_map(scene.member(number), "after-the-restore").await?;
    }
    scene.until_both_are_indexed().await?;
    scene.until_both_report_each_other().await?;
    assert_eq!(scene.revisions().await, scene.revisions);

    // Both have been indexed under this UID now; the older one becomes the same cluster again, and
    // displaces nothing.
    register(&hub, &Registration::new(scene.member(1), "elder", SECRETS)).await?;
    scene
        .registry
        .until_phase("origin", "Synced", "they cannot be distinguished now")
        .await?;
    put_config_map(scene.member(1), "at-the-end").await?;
    let oracle = scene
        .registry
        .oracle()
        .expects("origin", scene.member(1), CONFIG_MAPS);
    until_equal(&oracle.expects("elder", scene.member(1), CONFIG_MAPS)).await?;
    assert_eq!(scene.revisions().await, scene.revisions);
    Ok(scene.registry.remove().await?)
}
