//! Bad input and faults: each is reported in the registry's status, everything else keeps working,
//! and recovery needs no restart.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique},
    load::Load,
    objects::{Objects, config_map_path},
    opensearch::OpenSearch,
    oracle::{Oracle, indices},
    poll::eventually,
    query_api::{bare_names_of, list_with_warnings, names_of},
    scenario::{
        DEADLINE, Registry, SECRETS, Stage, cluster_path, register, secret_path, until_equal,
    },
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];
const CONFIG_MAPS: &str = "api/v1/configmaps";

fn config_maps() -> Value {
    json!([{ "apiVersion": "v1", "kind": "ConfigMap" }])
}

fn maps_of(stage: &Stage, registry: &Registry, clusters: &[(&str, usize)]) -> Oracle {
    let mut oracle = registry.oracle();
    for (name, number) in clusters {
        oracle = oracle
            .expects(name, stage.fleet.member(*number).unwrap(), CONFIG_MAPS)
            .unwrap();
    }
    oracle
}

async fn change(objects: &Objects, name: &str, value: &str) {
    objects
        .apply_config_map("default", name, &json!({ "value": value }))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_unknown_kind_and_a_missing_cluster_are_reported_and_stop_nothing_else() {
    let stage = Stage::enter().await.unwrap();
    let ghost = unique("ghost");
    let mut selectors = config_maps();
    selectors
        .as_array_mut()
        .unwrap()
        .push(json!({ "apiVersion": "nowhere.example/v1", "kind": "Nothing" }));
    let mut registry = Registry::new(&stage, "unknown", &["member1", &ghost], &selectors).unwrap();
    registry.apply().await.unwrap();
    registry
        .until("Ready", "False", "ClustersFailing", "Nothing")
        .await
        .unwrap();
    registry
        .until("Synced", "False", "ClustersFailing", "member1")
        .await
        .unwrap();
    registry
        .until("StoreReachable", "True", "ReachableWithoutCredentials", "")
        .await
        .unwrap();
    registry
        .until_phase(&ghost, "NotFound", &ghost)
        .await
        .unwrap();
    registry
        .until_phase("member1", "Failed", "nowhere.example/v1")
        .await
        .unwrap();
    let member1 = [("member1", 1)];
    until_equal(&maps_of(&stage, &registry, &member1))
        .await
        .unwrap();
    change(&stage.member(1).unwrap(), "reported", "works").await;
    until_equal(&maps_of(&stage, &registry, &member1))
        .await
        .unwrap();

    registry.spec["resourceSelectors"] = config_maps();
    registry.apply().await.unwrap();
    registry
        .until("Ready", "False", "ClustersNotFound", &ghost)
        .await
        .unwrap();
    stage.register(2, &ghost).await.unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&maps_of(&stage, &registry, &[("member1", 1), (&ghost, 2)]))
        .await
        .unwrap();

    registry.remove().await.unwrap();
    stage.hub.delete(&cluster_path(&ghost)).await.unwrap();
}

#[tokio::test]
async fn an_unreachable_member_keeps_its_documents_and_catches_up() {
    let stage = Stage::enter().await.unwrap();
    let registry = Registry::new(&stage, "silent", &BOTH, &config_maps()).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let both = [("member1", 1), ("member2", 2)];
    let count = until_equal(&maps_of(&stage, &registry, &both))
        .await
        .unwrap();

    stage.fleet.member(2).unwrap().kill();
    registry
        .until("Ready", "False", "ClustersFailing", "member2")
        .await
        .unwrap();
    registry
        .until_phase("member2", "Failed", "Unreachable")
        .await
        .unwrap();
    registry
        .until_phase("member2", "Failed", "stay as they were")
        .await
        .unwrap();
    let status = registry.status().await.unwrap();
    assert_eq!(
        status["summary"]["objects"], count,
        "the documents that stay are counted: {status}"
    );
    let cluster = stage.hub.get(&cluster_path("member2")).await.unwrap();
    let ready = &cluster["status"]["conditions"][0];
    assert!(
        ready["type"] == "Ready" && ready["status"] == "False",
        "{cluster}"
    );
    let first = stage.member(1).unwrap();
    change(&first, "meanwhile", "works").await;
    eventually(
        "the other member's change shows, the silent one's documents stay",
        DEADLINE,
        || async {
            let documents = stage.opensearch.documents(&registry.prefix).await?;
            anyhow::ensure!(
                documents.len() == count + 1,
                "{} documents",
                documents.len()
            );
            Ok(())
        },
    )
    .await
    .unwrap();

    stage.fleet.member(2).unwrap().restart().await.unwrap();
    change(&stage.member(2).unwrap(), "afterwards", "works").await;
    registry.until_ready().await.unwrap();
    until_equal(&maps_of(&stage, &registry, &both))
        .await
        .unwrap();

    registry.remove().await.unwrap();
    first
        .delete(&config_map_path("default", "meanwhile"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_member_that_hangs_resumes_where_it_was() {
    let stage = Stage::enter().await.unwrap();
    let mut selectors = config_maps();
    selectors
        .as_array_mut()
        .unwrap()
        .push(json!({ "apiVersion": "v1", "kind": "Namespace" }));
    let mut registry = Registry::new(&stage, "hangs", &BOTH, &selectors).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let members = [("member1", 1), ("member2", 2)];
    let namespaces = |oracle: Oracle| {
        let member = |number| stage.fleet.member(number).unwrap();
        let first = oracle
            .expects("member1", member(1), "api/v1/namespaces")
            .unwrap();
        first
            .expects("member2", member(2), "api/v1/namespaces")
            .unwrap()
    };
    let everything = || namespaces(maps_of(&stage, &registry, &members));
    let count = until_equal(&everything()).await.unwrap();
    let operator = &stage.operator;
    let lists = |kind: &str| {
        let labels = format!("cluster=\"member2\",kind=\"v1/{kind}\"");
        async move {
            operator
                .metric("fleetdex_list_pages_total", &labels)
                .await
                .unwrap()
        }
    };
    let (maps_before, namespaces_before) = (lists("ConfigMap").await, lists("Namespace").await);

    let member = stage.fleet.member(2).unwrap();
    member.pause().unwrap();
    registry
        .until_phase("member2", "Failed", "Unreachable")
        .await
        .unwrap();
    let status = registry.status().await.unwrap();
    assert_eq!(status["summary"]["objects"], count, "{status}");
    // While the member is unreachable, one kind is deselected, which deletes its documents, and
    // selected again.
    let is_namespace = json!({ "term": { "kind": "Namespace" } });
    registry.spec["resourceSelectors"] = config_maps();
    registry.apply().await.unwrap();
    eventually("the namespaces are removed", DEADLINE, || async {
        let left = stage
            .opensearch
            .count(&registry.prefix, &is_namespace)
            .await?;
        anyhow::ensure!(left == 0, "{left} left");
        Ok(())
    })
    .await
    .unwrap();
    registry.spec["resourceSelectors"] = selectors;
    registry.apply().await.unwrap();
    registry.until_phase("member1", "Synced", "").await.unwrap();

    member.resume().unwrap();
    change(&stage.member(2).unwrap(), "awake", "again").await;
    registry.until_ready().await.unwrap();
    let count = until_equal(&namespaces(maps_of(&stage, &registry, &members)))
        .await
        .unwrap();
    let status = registry.status().await.unwrap();
    assert_eq!(status["summary"]["objects"], count, "{status}");
    let (maps_after, namespaces_after) = (lists("ConfigMap").await, lists("Namespace").await);
    assert!(
        (maps_after - maps_before).abs() < 0.5,
        "the ConfigMaps were listed again: {maps_before}, {maps_after}"
    );
    assert!(
        namespaces_after > namespaces_before,
        "the Namespaces have to be listed again"
    );
    registry.remove().await.unwrap();
}

#[tokio::test]
async fn a_missing_secret_or_wrong_token_is_reported_until_it_is_corrected() {
    let stage = Stage::enter().await.unwrap();
    let late = unique("late");
    let member = stage.fleet.member(2).unwrap();
    let right = Registration::new(member, &late, SECRETS);
    stage
        .hub
        .apply(&cluster_path(&late), &right.cluster)
        .await
        .unwrap();
    let registry = Registry::new(&stage, "late", &["member1", &late], &config_maps()).unwrap();
    registry.apply().await.unwrap();
    registry
        .until_phase(&late, "Failed", "SecretNotFound")
        .await
        .unwrap();
    registry
        .until(
            "Ready",
            "False",
            "ClustersFailing",
            &format!("{SECRETS}/{late}"),
        )
        .await
        .unwrap();
    until_equal(&maps_of(&stage, &registry, &[("member1", 1)]))
        .await
        .unwrap();

    // A Secret of another owner, who has not allowed its use for this store.
    let mut foreign = right.secret.clone();
    foreign["metadata"]["annotations"] =
        json!({ "fleetdex.io/allowed-hosts": "elsewhere.example.com" });
    stage
        .hub
        .apply(&secret_path(&late), &foreign)
        .await
        .unwrap();
    registry
        .until_phase(&late, "Failed", "HostNotAllowed")
        .await
        .unwrap();

    let wrong = Registration::with_token(member, &late, SECRETS, "no-such-token");
    stage
        .hub
        .apply(&secret_path(&late), &wrong.secret)
        .await
        .unwrap();
    registry
        .until_phase(&late, "Failed", "Unauthorized")
        .await
        .unwrap();

    // A certificate of another authority: the token must not be sent to an unverified server.
    let mut stranger = right.secret.clone();
    stranger["data"]["caBundle"] = json!(STANDARD.encode(stage.fleet.member(1).unwrap().ca_pem()));
    stage
        .hub
        .apply(&secret_path(&late), &stranger)
        .await
        .unwrap();
    registry
        .until_phase(&late, "Failed", "CertificateInvalid")
        .await
        .unwrap();

    stage
        .hub
        .apply(&secret_path(&late), &right.secret)
        .await
        .unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&maps_of(&stage, &registry, &[("member1", 1), (&late, 2)]))
        .await
        .unwrap();

    registry.remove().await.unwrap();
    stage.hub.delete(&cluster_path(&late)).await.unwrap();
    stage.hub.delete(&secret_path(&late)).await.unwrap();
}

/// Waits until a query finds `count` objects, with exactly these warnings.
async fn until_answered(stage: &Stage, path: &str, count: usize, expected: &[String]) -> Value {
    let expected: Vec<String> = expected
        .iter()
        .map(|warning| format!("299 - \"{warning}\""))
        .collect();
    eventually(
        &format!("{path}: {count} objects, warnings {expected:?}"),
        DEADLINE,
        || async {
            let (list, warnings) = list_with_warnings(&stage.operator, path).await?;
            let found = bare_names_of(&list)?.len();
            anyhow::ensure!(
                (found, &warnings) == (count, &expected),
                "{found} objects, {warnings:?}"
            );
            Ok(list)
        },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_forbidden_kind_hides_no_other_and_causes_warnings_until_it_is_allowed() {
    let stage = Stage::enter().await.unwrap();
    let member = stage.member(1).unwrap();
    let cluster = unique("half");
    change(&member, "seen", "at once").await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "unseen" } });
    member
        .apply("api/v1/namespaces/default/secrets/unseen", &secret)
        .await
        .unwrap();
    member
        .grant(&cluster, &["namespaces", "configmaps"])
        .await
        .unwrap();
    let token = member
        .service_account_token_with(&cluster, &cluster)
        .await
        .unwrap();
    let registration =
        Registration::with_token(stage.fleet.member(1).unwrap(), &cluster, SECRETS, &token);
    register(&stage.hub, &registration).await.unwrap();

    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
    let registry = Registry::new(&stage, "half", &[&cluster, "member2"], &selectors).unwrap();
    registry.apply().await.unwrap();
    let count = async |number: usize, path: &str| {
        bare_names_of(&stage.member(number).unwrap().get(path).await.unwrap())
            .unwrap()
            .len()
    };
    let [maps, secrets] = [CONFIG_MAPS, "api/v1/secrets"];
    let of_cluster = |path: &str| format!("{path}?clusters={cluster}");
    // Other queries over these clusters are not affected.
    until_answered(&stage, &of_cluster(maps), count(1, maps).await, &[]).await;
    until_answered(
        &stage,
        maps,
        count(1, maps).await + count(2, maps).await,
        &[],
    )
    .await;
    let warning = format!("secrets of cluster {cluster} are not shown (Forbidden)");
    until_answered(
        &stage,
        &of_cluster(secrets),
        0,
        std::slice::from_ref(&warning),
    )
    .await;
    until_answered(&stage, secrets, count(2, secrets).await, &[warning]).await;
    until_answered(
        &stage,
        &format!("{secrets}?clusters=member2"),
        count(2, secrets).await,
        &[],
    )
    .await;
    registry
        .until_phase(&cluster, "Failed", "Secret")
        .await
        .unwrap();
    // Visible kinds stay up to date.
    change(&member, "seen-later", "at once").await;
    until_answered(&stage, &of_cluster(maps), count(1, maps).await, &[]).await;

    member
        .grant(&cluster, &["namespaces", "configmaps", "secrets"])
        .await
        .unwrap();
    registry.until_ready().await.unwrap();
    until_answered(&stage, &of_cluster(secrets), count(1, secrets).await, &[]).await;
    until_answered(
        &stage,
        maps,
        count(1, maps).await + count(2, maps).await,
        &[],
    )
    .await;
    let oracle = maps_of(&stage, &registry, &[(&cluster, 1), ("member2", 2)]);
    let (first, second) = (
        stage.fleet.member(1).unwrap(),
        stage.fleet.member(2).unwrap(),
    );
    let oracle = oracle
        .expects(&cluster, first, secrets)
        .unwrap()
        .expects("member2", second, secrets)
        .unwrap();
    until_equal(&oracle).await.unwrap();

    registry.remove().await.unwrap();
    stage.unregister(&cluster).await.unwrap();
    for name in ["seen", "seen-later"] {
        member
            .delete(&config_map_path("default", name))
            .await
            .unwrap();
    }
    member
        .delete("api/v1/namespaces/default/secrets/unseen")
        .await
        .unwrap();
}

#[tokio::test]
async fn documents_of_an_unreachable_member_are_served_with_a_warning_after_a_restart() {
    let stage = Stage::enter().await.unwrap();
    change(&stage.member(2).unwrap(), "kept", "since before").await;
    let registry = Registry::new(&stage, "remembered", &BOTH, &config_maps()).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let of_second = format!("{CONFIG_MAPS}?clusters=member2");
    let (before, warnings) = list_with_warnings(&stage.operator, CONFIG_MAPS)
        .await
        .unwrap();
    assert_eq!(warnings, [""; 0]);
    let names = |list: &Value| names_of::<Vec<String>>(list).unwrap();

    stage
        .operator
        .terminate(Duration::from_secs(30))
        .await
        .unwrap();
    stage.fleet.member(2).unwrap().kill();
    stage.operator.restart().unwrap();
    stage.operator.wait_ready(DEADLINE).await.unwrap();
    for path in [CONFIG_MAPS, &of_second] {
        eventually("the documents of the member that is down are shown as they were", DEADLINE, || async {
            let (list, warnings) = list_with_warnings(&stage.operator, path).await?;
            let of_members = names(&before).into_iter().filter(|name| path == CONFIG_MAPS || name.starts_with("member2/"));
            anyhow::ensure!(names(&list) == of_members.collect::<Vec<_>>(), "{list}");
            let as_of = list["metadata"]["asOf"]["member2"].as_str().unwrap_or_default();
            let warning = format!(
                "299 - \"cluster member2 is not read since the start of Fleetdex, and as it was at {as_of} (Unreachable)\""
            );
            anyhow::ensure!(as_of.ends_with('Z') && warnings == [warning], "{warnings:?} {as_of}");
            Ok(())
        })
        .await
        .unwrap();
    }
    let unknown = list_with_warnings(&stage.operator, "api/v1/endpoints")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("not known yet") && unknown.contains("member2"),
        "{unknown}"
    );

    stage.fleet.member(2).unwrap().restart().await.unwrap();
    registry.until_ready().await.unwrap();
    let list = until_answered(&stage, CONFIG_MAPS, names(&before).len(), &[]).await;
    assert_eq!(
        (names(&list), &list["metadata"]["asOf"]),
        (names(&before), &Value::Null)
    );
    registry.remove().await.unwrap();
    stage
        .member(2)
        .unwrap()
        .delete(&config_map_path("default", "kept"))
        .await
        .unwrap();
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn missing_or_wrong_store_credentials_are_reported_and_never_omitted() {
    let stage = Stage::enter().await.unwrap();
    let secured = Fleet::start(Options {
        opensearch: OpenSearchKind::Secure,
        ..Options::default()
    })
    .await
    .unwrap();
    let server = secured.opensearch().unwrap();
    let neighbour = Registry::new(&stage, "neighbour", &["member1"], &config_maps()).unwrap();
    neighbour.apply().await.unwrap();
    neighbour.until_ready().await.unwrap();

    let credentials = unique("credentials");
    let mut registry = Registry::new(&stage, "secure", &["member1"], &config_maps()).unwrap();
    registry.store()["addresses"] = json!([server.url()]);
    registry.store()["secretRef"] = json!({ "namespace": SECRETS, "name": credentials });
    registry.apply().await.unwrap();
    let secret = |password: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": credentials, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
            "stringData": { "username": "admin", "password": password } })
    };
    registry
        .until(
            "StoreReachable",
            "False",
            "SecretNotFound",
            &format!("{SECRETS}/{credentials}"),
        )
        .await
        .unwrap();
    registry
        .until("Ready", "False", "SecretNotFound", "")
        .await
        .unwrap();
    neighbour.until_ready().await.unwrap();

    let mut foreign = secret(server.password().unwrap());
    foreign["metadata"]["annotations"] =
        json!({ "fleetdex.io/allowed-hosts": "elsewhere.example.com" });
    stage
        .hub
        .apply(&secret_path(&credentials), &foreign)
        .await
        .unwrap();
    registry
        .until(
            "StoreReachable",
            "False",
            "HostNotAllowed",
            "fleetdex.io/allowed-hosts",
        )
        .await
        .unwrap();

    stage
        .hub
        .apply(
            &secret_path(&credentials),
            &secret(server.password().unwrap()),
        )
        .await
        .unwrap();
    let message = registry
        .until("StoreReachable", "False", "Unreachable", "ertificate")
        .await
        .unwrap();
    eprintln!("{message}");

    stage
        .hub
        .apply(&secret_path(&credentials), &secret("wrong-Password-1"))
        .await
        .unwrap();
    registry.store()["caBundle"] = json!(server.ca_pem().unwrap());
    registry.apply().await.unwrap();
    let message = registry
        .until("StoreReachable", "False", "Unauthorized", server.url())
        .await
        .unwrap();
    assert!(!message.contains("wrong-Password-1"), "{message}");

    stage
        .hub
        .apply(
            &secret_path(&credentials),
            &secret(server.password().unwrap()),
        )
        .await
        .unwrap();
    registry.until_ready().await.unwrap();
    registry
        .until("StoreReachable", "True", "Reachable", "")
        .await
        .unwrap();
    let member = stage.fleet.member(1).unwrap();
    let oracle = Oracle::new(&server.client().unwrap(), &registry.prefix)
        .expects("member1", member, CONFIG_MAPS)
        .unwrap();
    until_equal(&oracle).await.unwrap();

    // A password that becomes wrong while everything runs, and is corrected.
    stage
        .hub
        .apply(&secret_path(&credentials), &secret("wrong-Password-1"))
        .await
        .unwrap();
    registry
        .until("StoreReachable", "False", "Unauthorized", "")
        .await
        .unwrap();
    change(&stage.member(1).unwrap(), "unauthorized", "meanwhile").await;
    stage
        .hub
        .apply(
            &secret_path(&credentials),
            &secret(server.password().unwrap()),
        )
        .await
        .unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&oracle).await.unwrap();

    registry.delete().await.unwrap();
    registry.until_absent().await.unwrap();
    assert_eq!(
        indices(&server.client().unwrap(), &registry.prefix)
            .await
            .unwrap(),
        [""; 0]
    );
    neighbour.remove().await.unwrap();
    stage.hub.delete(&secret_path(&credentials)).await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_down_at_the_start_is_filled_when_it_comes_up() {
    let stage = Stage::enter().await.unwrap();
    stage
        .operator
        .terminate(Duration::from_secs(30))
        .await
        .unwrap();
    let server = stage.fleet.opensearch().unwrap();
    server.kill();
    stage.operator.restart().unwrap();
    let registry = Registry::new(&stage, "down", &BOTH, &config_maps()).unwrap();
    registry.apply().await.unwrap();
    registry
        .until("StoreReachable", "False", "Unreachable", server.url())
        .await
        .unwrap();
    stage.operator.wait_ready(DEADLINE).await.unwrap();

    server.restart().await.unwrap();
    registry.until_ready().await.unwrap();
    until_equal(&maps_of(
        &stage,
        &registry,
        &[("member1", 1), ("member2", 2)],
    ))
    .await
    .unwrap();
    registry.remove().await.unwrap();
}

#[tokio::test]
async fn no_change_is_lost_when_the_store_is_killed() {
    let stage = Stage::enter().await.unwrap();
    let member = stage.fleet.member(1).unwrap();
    let namespace = unique("busy");
    stage
        .member(1)
        .unwrap()
        .create_namespace(&namespace)
        .await
        .unwrap();
    let selectors = json!([{ "apiVersion": "v1", "kind": "Pod" }]);
    let registry = Registry::new(&stage, "dies", &["member1"], &selectors).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let oracle = registry
        .oracle()
        .expects("member1", member, "api/v1/pods")
        .unwrap();

    let load = Load {
        concurrency: 4,
        ..Load::new(&namespace, 300)
    };
    let server = stage.fleet.opensearch().unwrap();
    let dies = async {
        eventually("the first pods arrive", DEADLINE, || async {
            let documents = stage.opensearch.documents(&registry.prefix).await?;
            anyhow::ensure!(!documents.is_empty(), "none");
            Ok(())
        })
        .await
        .unwrap();
        server.kill();
    };
    let (created, ()) = tokio::join!(load.create(member), dies);
    created.unwrap();
    load.patch_statuses(member, 1).await.unwrap();
    Load {
        pods: 0..100,
        ..load.clone()
    }
    .delete(member)
    .await
    .unwrap();
    registry
        .until("StoreReachable", "False", "Unreachable", server.url())
        .await
        .unwrap();
    server.restart().await.unwrap();
    assert_eq!(until_equal(&oracle).await.unwrap(), 200);
    registry.until_ready().await.unwrap();

    Load {
        pods: 100..300,
        ..load
    }
    .delete(member)
    .await
    .unwrap();
    assert_eq!(until_equal(&oracle).await.unwrap(), 0);
    registry.remove().await.unwrap();
}

#[tokio::test]
async fn a_write_block_is_reported_and_waited_out() {
    let stage = Stage::enter().await.unwrap();
    let registry = Registry::new(&stage, "blocked", &["member1"], &config_maps()).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let oracle = maps_of(&stage, &registry, &[("member1", 1)]);
    until_equal(&oracle).await.unwrap();

    let settings = format!("{}-member1/_settings", registry.prefix);
    stage
        .opensearch
        .put(&settings, &json!({ "index.blocks.write": true }))
        .await
        .unwrap();
    let objects = stage.member(1).unwrap();
    change(&objects, "blocked", "one").await;
    registry
        .until("StoreReachable", "False", "Blocked", "")
        .await
        .unwrap();
    change(&objects, "blocked", "two").await;
    stage
        .opensearch
        .put(&settings, &json!({ "index.blocks.write": null }))
        .await
        .unwrap();
    until_equal(&oracle).await.unwrap();
    registry.until_ready().await.unwrap();
    registry.remove().await.unwrap();
}

#[tokio::test]
async fn an_index_that_another_client_deletes_is_filled_again() {
    let stage = Stage::enter().await.unwrap();
    let registry = Registry::new(&stage, "deleted", &BOTH, &config_maps()).unwrap();
    registry.apply().await.unwrap();
    registry.until_ready().await.unwrap();
    let oracle = maps_of(&stage, &registry, &[("member1", 1), ("member2", 2)]);
    until_equal(&oracle).await.unwrap();
    let starts = stage.stream_starts().unwrap()["member2:v1/ConfigMap"];

    delete_index(&stage.opensearch, &registry.prefix, "member1").await;
    change(&stage.member(1).unwrap(), "after", "the index was deleted").await;
    until_equal(&oracle).await.unwrap();
    registry.until_ready().await.unwrap();
    assert_eq!(
        stage.stream_starts().unwrap()["member2:v1/ConfigMap"],
        starts
    );

    // Nothing is written to this index; the health check finds that it is missing.
    delete_index(&stage.opensearch, &registry.prefix, "member2").await;
    until_equal(&oracle).await.unwrap();
    // Bulk writes must never create an index.
    let made = indices(&stage.opensearch, &registry.prefix).await.unwrap();
    assert_eq!(made.len(), 2, "{made:?}");
    registry.remove().await.unwrap();
}

async fn delete_index(opensearch: &OpenSearch, prefix: &str, cluster: &str) {
    opensearch
        .delete(&format!("{prefix}-{cluster}.g1"))
        .await
        .unwrap();
}
