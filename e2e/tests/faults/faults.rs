//! Bad input and faults: each is reported in the registry's status, everything else keeps working,
//! and recovery needs no restart.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique},
    load::Load,
    objects::Objects,
    opensearch::OpenSearch,
    oracle::{Oracle, indices},
    query_api::{bare_names_of, list_with_warnings, names_of},
    scenario::{
        DEADLINE, Registry, SECRETS, Stage, cluster_path, register, secret_path, until, until_equal,
    },
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];
const CONFIG_MAPS: &str = "api/v1/configmaps";

fn config_maps() -> Value {
    json!([{ "apiVersion": "v1", "kind": "ConfigMap" }])
}

fn maps_of(stage: &Stage, registry: &Registry, clusters: &[(&str, usize)]) -> Oracle {
    let clusters = clusters
        .iter()
        .map(|(name, number)| (*name, stage.fleet.member(*number)));
    registry.oracle().expects_all(clusters, &[CONFIG_MAPS])
}

async fn change(objects: &Objects, name: &str, value: &str) {
    objects
        .apply_config_map("default", name, &json!({ "value": value }))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_unknown_kind_and_a_missing_cluster_are_reported_and_stop_nothing_else() -> Tested {
    let stage = Stage::enter().await?;
    let ghost = unique("ghost");
    let selectors =
        json!([config_maps()[0], { "apiVersion": "nowhere.example/v1", "kind": "Nothing" }]);
    let mut registry = Registry::new(&stage, "unknown", &["member1", &ghost], &selectors)?;
    registry.apply().await?;
    registry
        .until_not_ready("ClustersFailing", "Nothing")
        .await?;
    registry
        .until("Synced", "False", "ClustersFailing", "member1")
        .await?;
    registry
        .until("StoreReachable", "True", "ReachableWithoutCredentials", "")
        .await?;
    registry.until_phase(&ghost, "NotFound", &ghost).await?;
    registry
        .until_failed("member1", "nowhere.example/v1")
        .await?;
    let member1 = [("member1", 1)];
    until_equal(&maps_of(&stage, &registry, &member1)).await?;
    change(&stage.member(1)?, "reported", "works").await;
    until_equal(&maps_of(&stage, &registry, &member1)).await?;

    registry.spec["resourceSelectors"] = config_maps();
    registry.apply().await?;
    registry.until_not_ready("ClustersNotFound", &ghost).await?;
    stage.register(2, &ghost).await?;
    registry.until_ready().await?;
    until_equal(&maps_of(&stage, &registry, &[("member1", 1), (&ghost, 2)])).await?;

    registry.remove().await?;
    Ok(stage.hub.delete(&cluster_path(&ghost)).await?)
}

#[tokio::test]
async fn an_unreachable_member_keeps_its_documents_and_catches_up() -> Tested {
    let stage = Stage::enter().await?;
    let registry = Registry::ready(&stage, "silent", &BOTH, &config_maps()).await?;
    let both = [("member1", 1), ("member2", 2)];
    let count = until_equal(&maps_of(&stage, &registry, &both)).await?;

    stage.fleet.member(2).kill();
    registry
        .until_not_ready("ClustersFailing", "member2")
        .await?;
    registry.until_failed("member2", "Unreachable").await?;
    registry
        .until_failed("member2", "stay as they were")
        .await?;
    let status = registry.status().await?;
    assert_eq!(
        status["summary"]["objects"], count,
        "the documents that stay are counted: {status}"
    );
    let cluster = stage.hub.get(&cluster_path("member2")).await?;
    let ready = &cluster["status"]["conditions"][0];
    assert!(
        ready["type"] == "Ready" && ready["status"] == "False",
        "{cluster}"
    );
    let first = stage.member(1)?;
    change(&first, "meanwhile", "works").await;
    until(
        "the other member's change shows, the silent one's documents stay",
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
    .await?;

    stage.fleet.member(2).restart().await?;
    change(&stage.member(2)?, "afterwards", "works").await;
    registry.until_ready().await?;
    until_equal(&maps_of(&stage, &registry, &both)).await?;

    registry.remove().await?;
    first.delete_config_map("default", "meanwhile").await?;
    Ok(())
}

#[tokio::test]
async fn a_member_that_hangs_resumes_where_it_was() -> Tested {
    let stage = Stage::enter().await?;
    let selectors = json!([config_maps()[0], { "apiVersion": "v1", "kind": "Namespace" }]);
    let mut registry = Registry::ready(&stage, "hangs", &BOTH, &selectors).await?;
    let (members, collections) = (
        stage.fleet.named_members(),
        [CONFIG_MAPS, "api/v1/namespaces"],
    );
    let oracle = registry.oracle().expects_all(members, &collections);
    let count = until_equal(&oracle).await?;
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

    let member = stage.fleet.member(2);
    member.pause()?;
    registry.until_failed("member2", "Unreachable").await?;
    let status = registry.status().await?;
    assert_eq!(status["summary"]["objects"], count, "{status}");
    // While the member is unreachable, one kind is deselected, which deletes its documents, and
    // selected again.
    let is_namespace = json!({ "term": { "kind": "Namespace" } });
    registry.spec["resourceSelectors"] = config_maps();
    registry.apply().await?;
    until("the namespaces are removed", || async {
        let left = stage
            .opensearch
            .count(&registry.prefix, &is_namespace)
            .await?;
        anyhow::ensure!(left == 0, "{left} left");
        Ok(())
    })
    .await?;
    registry.spec["resourceSelectors"] = selectors;
    registry.apply().await?;
    registry.until_phase("member1", "Synced", "").await?;

    member.resume()?;
    change(&stage.member(2)?, "awake", "again").await;
    registry.until_ready().await?;
    let count = until_equal(&oracle).await?;
    let status = registry.status().await?;
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
    Ok(registry.remove().await?)
}

#[tokio::test]
async fn a_missing_secret_or_wrong_token_is_reported_until_it_is_corrected() -> Tested {
    let stage = Stage::enter().await?;
    let late = unique("late");
    let member = stage.fleet.member(2);
    let right = Registration::new(member, &late, SECRETS);
    stage
        .hub
        .apply(&cluster_path(&late), &right.cluster)
        .await?;
    let registry = Registry::new(&stage, "late", &["member1", &late], &config_maps())?;
    registry.apply().await?;
    registry.until_failed(&late, "SecretNotFound").await?;
    registry
        .until_not_ready("ClustersFailing", &format!("{SECRETS}/{late}"))
        .await?;
    until_equal(&maps_of(&stage, &registry, &[("member1", 1)])).await?;

    // A Secret of another owner, who has not allowed its use for this store.
    let mut foreign = right.secret.clone();
    foreign["metadata"]["annotations"] =
        json!({ "fleetdex.io/allowed-hosts": "elsewhere.example.com" });
    stage.put_secret(&late, &foreign).await?;
    registry.until_failed(&late, "HostNotAllowed").await?;

    let wrong = Registration::with_token(member, &late, SECRETS, "no-such-token");
    stage.put_secret(&late, &wrong.secret).await?;
    registry.until_failed(&late, "Unauthorized").await?;

    // A certificate of another authority: the token must not be sent to an unverified server.
    let mut stranger = right.secret.clone();
    stranger["data"]["caBundle"] = json!(STANDARD.encode(stage.fleet.member(1).ca_pem()));
    stage.put_secret(&late, &stranger).await?;
    registry.until_failed(&late, "CertificateInvalid").await?;

    stage.put_secret(&late, &right.secret).await?;
    registry.until_ready().await?;
    until_equal(&maps_of(&stage, &registry, &[("member1", 1), (&late, 2)])).await?;

    registry.remove().await?;
    stage.hub.delete(&cluster_path(&late)).await?;
    Ok(stage.hub.delete(&secret_path(&late)).await?)
}

/// Waits until a query finds `count` objects, with exactly these warnings.
async fn until_answered(
    stage: &Stage,
    path: &str,
    count: usize,
    expected: &[String],
) -> Tested<Value> {
    let expected: Vec<String> = expected
        .iter()
        .map(|warning| format!("299 - \"{warning}\""))
        .collect();
    Ok(until(
        &format!("{path}: {count} objects, warnings {expected:?}"),
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
    .await?)
}

#[tokio::test]
async fn a_forbidden_kind_hides_no_other_and_causes_warnings_until_it_is_allowed() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.member(1)?;
    let cluster = unique("half");
    change(&member, "seen", "at once").await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "unseen" } });
    member
        .apply("api/v1/namespaces/default/secrets/unseen", &secret)
        .await?;
    member
        .grant(&cluster, &["namespaces", "configmaps"])
        .await?;
    let token = member
        .service_account_token_with(&cluster, &cluster)
        .await?;
    let registration = Registration::with_token(stage.fleet.member(1), &cluster, SECRETS, &token);
    register(&stage.hub, &registration).await?;

    let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Secret" }]);
    let registry = Registry::new(&stage, "half", &[&cluster, "member2"], &selectors)?;
    registry.apply().await?;
    let count = async |number: usize, path: &str| {
        bare_names_of(&stage.member(number).unwrap().get(path).await.unwrap())
            .unwrap()
            .len()
    };
    let [maps, secrets] = [CONFIG_MAPS, "api/v1/secrets"];
    let of_cluster = |path: &str| format!("{path}?clusters={cluster}");
    // Other queries over these clusters are not affected.
    until_answered(&stage, &of_cluster(maps), count(1, maps).await, &[]).await?;
    let both = count(1, maps).await + count(2, maps).await;
    until_answered(&stage, maps, both, &[]).await?;
    let warning = format!("secrets of cluster {cluster} are not shown (Forbidden)");
    let (warnings, of_second) = ([warning], count(2, secrets).await);
    until_answered(&stage, &of_cluster(secrets), 0, &warnings).await?;
    until_answered(&stage, secrets, of_second, &warnings).await?;
    let path = format!("{secrets}?clusters=member2");
    until_answered(&stage, &path, of_second, &[]).await?;
    registry.until_failed(&cluster, "Secret").await?;
    // Visible kinds stay up to date.
    change(&member, "seen-later", "at once").await;
    until_answered(&stage, &of_cluster(maps), count(1, maps).await, &[]).await?;

    member
        .grant(&cluster, &["namespaces", "configmaps", "secrets"])
        .await?;
    registry.until_ready().await?;
    until_answered(&stage, &of_cluster(secrets), count(1, secrets).await, &[]).await?;
    let both = count(1, maps).await + count(2, maps).await;
    until_answered(&stage, maps, both, &[]).await?;
    let oracle = maps_of(&stage, &registry, &[(&cluster, 1), ("member2", 2)]);
    let (first, second) = (stage.fleet.member(1), stage.fleet.member(2));
    let oracle = oracle
        .expects(&cluster, first, secrets)
        .expects("member2", second, secrets);
    until_equal(&oracle).await?;

    registry.remove().await?;
    stage.unregister(&cluster).await?;
    for name in ["seen", "seen-later"] {
        member.delete_config_map("default", name).await?;
    }
    member
        .delete("api/v1/namespaces/default/secrets/unseen")
        .await?;
    Ok(())
}

#[tokio::test]
async fn documents_of_an_unreachable_member_are_served_with_a_warning_after_a_restart() -> Tested {
    let stage = Stage::enter().await?;
    change(&stage.member(2)?, "kept", "since before").await;
    let registry = Registry::ready(&stage, "remembered", &BOTH, &config_maps()).await?;
    let of_second = format!("{CONFIG_MAPS}?clusters=member2");
    let (before, warnings) = list_with_warnings(&stage.operator, CONFIG_MAPS).await?;
    assert_eq!(warnings, [""; 0]);
    let names = |list: &Value| names_of::<Vec<String>>(list).unwrap();

    stage.operator.terminate(Duration::from_secs(30)).await?;
    stage.fleet.member(2).kill();
    stage.operator.restart_until_ready(DEADLINE).await?;
    for path in [CONFIG_MAPS, &of_second] {
        until("the documents of the member that is down are shown as they were", || async {
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
        .await?;
    }
    let unknown = list_with_warnings(&stage.operator, "api/v1/endpoints")
        .await
        .unwrap_err()
        .to_string();
    assert_contains(&unknown, "not known yet");
    assert_contains(&unknown, "member2");

    stage.fleet.member(2).restart().await?;
    registry.until_ready().await?;
    let list = until_answered(&stage, CONFIG_MAPS, names(&before).len(), &[]).await?;
    assert_eq!(
        (names(&list), &list["metadata"]["asOf"]),
        (names(&before), &Value::Null)
    );
    registry.remove().await?;
    stage
        .member(2)?
        .delete_config_map("default", "kept")
        .await?;
    Ok(())
}

#[tokio::test]
async fn missing_or_wrong_store_credentials_are_reported_and_never_omitted() -> Tested {
    let stage = Stage::enter().await?;
    let secured = Fleet::start(Options::of(0, OpenSearchKind::Secure)).await?;
    let server = secured.opensearch()?;
    let neighbour = Registry::ready(&stage, "neighbour", &["member1"], &config_maps()).await?;

    let credentials = unique("credentials");
    let credentials_path = format!("{SECRETS}/{credentials}");
    let mut registry = Registry::new(&stage, "secure", &["member1"], &config_maps())?;
    registry.store()["addresses"] = json!([server.url()]);
    registry.store()["secretRef"] = json!({ "namespace": SECRETS, "name": credentials });
    registry.apply().await?;
    let secret = |password: &str, hosts: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": credentials, "annotations": { "fleetdex.io/allowed-hosts": hosts } },
            "stringData": { "username": "admin", "password": password } })
    };
    let password = server.password().unwrap();
    let right = secret(password, "127.0.0.1");
    let wrong = secret("wrong-Password-1", "127.0.0.1");
    registry
        .until_store_fails("SecretNotFound", &credentials_path)
        .await?;
    registry.until_not_ready("SecretNotFound", "").await?;
    neighbour.until_ready().await?;

    let foreign = secret(password, "elsewhere.example.com");
    stage.put_secret(&credentials, &foreign).await?;
    registry
        .until_store_fails("HostNotAllowed", "fleetdex.io/allowed-hosts")
        .await?;

    stage.put_secret(&credentials, &right).await?;
    let message = registry
        .until_store_fails("Unreachable", "ertificate")
        .await?;
    eprintln!("{message}");

    stage.put_secret(&credentials, &wrong).await?;
    registry.store()["caBundle"] = json!(server.ca_pem().unwrap());
    registry.apply().await?;
    let message = registry
        .until_store_fails("Unauthorized", server.url())
        .await?;
    assert!(!message.contains("wrong-Password-1"), "{message}");

    stage.put_secret(&credentials, &right).await?;
    registry.until_ready().await?;
    registry
        .until("StoreReachable", "True", "Reachable", "")
        .await?;
    let member = stage.fleet.member(1);
    let oracle =
        Oracle::new(&server.client()?, &registry.prefix).expects("member1", member, CONFIG_MAPS);
    until_equal(&oracle).await?;

    // A password that becomes wrong while everything runs, and is corrected.
    stage.put_secret(&credentials, &wrong).await?;
    registry.until_store_fails("Unauthorized", "").await?;
    change(&stage.member(1)?, "unauthorized", "meanwhile").await;
    stage.put_secret(&credentials, &right).await?;
    registry.until_ready().await?;
    until_equal(&oracle).await?;

    registry.delete().await?;
    registry.until_absent().await?;
    assert_eq!(indices(&server.client()?, &registry.prefix).await?, [""; 0]);
    neighbour.remove().await?;
    Ok(stage.hub.delete(&secret_path(&credentials)).await?)
}

#[tokio::test]
async fn a_store_that_is_down_at_the_start_is_filled_when_it_comes_up() -> Tested {
    let stage = Stage::enter().await?;
    stage.operator.terminate(Duration::from_secs(30)).await?;
    let server = stage.fleet.opensearch()?;
    server.kill();
    stage.operator.restart()?;
    let registry = Registry::new(&stage, "down", &BOTH, &config_maps())?;
    registry.apply().await?;
    registry
        .until_store_fails("Unreachable", server.url())
        .await?;
    stage.operator.wait_ready(DEADLINE).await?;

    server.restart().await?;
    registry.until_ready().await?;
    let both = [("member1", 1), ("member2", 2)];
    until_equal(&maps_of(&stage, &registry, &both)).await?;
    Ok(registry.remove().await?)
}

#[tokio::test]
async fn no_change_is_lost_when_the_store_is_killed() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.fleet.member(1);
    let namespace = unique("busy");
    stage.member(1)?.create_namespace(&namespace).await?;
    let selectors = json!([{ "apiVersion": "v1", "kind": "Pod" }]);
    let registry = Registry::ready(&stage, "dies", &["member1"], &selectors).await?;
    let oracle = registry.oracle().expects("member1", member, "api/v1/pods");

    let load = Load {
        concurrency: 4,
        ..Load::new(&namespace, 300)
    };
    let server = stage.fleet.opensearch()?;
    let dies = async {
        until("the first pods arrive", || async {
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
    load.patch_statuses(member, 1).await?;
    Load {
        pods: 0..100,
        ..load.clone()
    }
    .delete(member)
    .await?;
    registry
        .until_store_fails("Unreachable", server.url())
        .await?;
    server.restart().await?;
    assert_eq!(until_equal(&oracle).await?, 200);
    registry.until_ready().await?;

    Load {
        pods: 100..300,
        ..load
    }
    .delete(member)
    .await?;
    assert_eq!(until_equal(&oracle).await?, 0);
    Ok(registry.remove().await?)
}

#[tokio::test]
async fn a_write_block_is_reported_and_waited_out() -> Tested {
    let stage = Stage::enter().await?;
    let registry = Registry::ready(&stage, "blocked", &["member1"], &config_maps()).await?;
    let oracle = maps_of(&stage, &registry, &[("member1", 1)]);
    until_equal(&oracle).await?;

    let settings = format!("{}-member1/_settings", registry.prefix);
    let block = json!({ "index.blocks.write": true });
    stage.opensearch.put(&settings, &block).await?;
    let objects = stage.member(1)?;
    change(&objects, "blocked", "one").await;
    registry.until_store_fails("Blocked", "").await?;
    change(&objects, "blocked", "two").await;
    let block = json!({ "index.blocks.write": null });
    stage.opensearch.put(&settings, &block).await?;
    until_equal(&oracle).await?;
    registry.until_ready().await?;
    Ok(registry.remove().await?)
}

#[tokio::test]
async fn an_index_that_another_client_deletes_is_filled_again() -> Tested {
    let stage = Stage::enter().await?;
    let registry = Registry::ready(&stage, "deleted", &BOTH, &config_maps()).await?;
    let oracle = maps_of(&stage, &registry, &[("member1", 1), ("member2", 2)]);
    until_equal(&oracle).await?;
    let starts = stage.stream_starts()?["member2:v1/ConfigMap"];

    delete_index(&stage.opensearch, &registry.prefix, "member1").await?;
    change(&stage.member(1)?, "after", "the index was deleted").await;
    until_equal(&oracle).await?;
    registry.until_ready().await?;
    assert_eq!(stage.stream_starts()?["member2:v1/ConfigMap"], starts);

    // Nothing is written to this index; the health check finds that it is missing.
    delete_index(&stage.opensearch, &registry.prefix, "member2").await?;
    until_equal(&oracle).await?;
    // Bulk writes must never create an index.
    let made = indices(&stage.opensearch, &registry.prefix).await?;
    assert_eq!(made.len(), 2, "{made:?}");
    Ok(registry.remove().await?)
}

async fn delete_index(opensearch: &OpenSearch, prefix: &str, cluster: &str) -> Tested {
    opensearch.delete(&format!("{prefix}-{cluster}.g1")).await?;
    Ok(())
}
