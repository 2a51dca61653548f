//! `fleetdex doctor` finds nothing wrong with a healthy fleet, and names each planted fault.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::process::Stdio;

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique},
    operator::fleetdex_program,
    scenario::{Registry, SECRETS, Stage, register, secret_path},
    test_result::Tested,
};
use serde_json::{Value, json};

const BOTH: [&str; 2] = ["member1", "member2"];

/// The exit code, and the results.
async fn doctor(stage: &Stage, more: &[&str]) -> Tested<(i32, Vec<Value>)> {
    let kubeconfig = stage.fleet.control_plane().kubeconfig();
    let mut command = tokio::process::Command::new(fleetdex_program().unwrap());
    command
        .args(["doctor", "-o", "json", "--kubeconfig"])
        .arg(kubeconfig)
        .args(["--admin-url", &stage.operator.admin_url()])
        .args(more)
        .stdin(Stdio::null());
    let output = command.output().await?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let results = report["results"].as_array().unwrap().clone();
    Ok((output.status.code().unwrap(), results))
}

/// The results with this status, as `subject, check: message`.
fn with_status(results: &[Value], status: &str) -> Vec<String> {
    let text = |result: &Value, key: &str| result[key].as_str().unwrap_or_default().to_owned();
    results
        .iter()
        .filter(|result| result["status"] == status)
        .map(|result| {
            let [subject, check, message] =
                ["subject", "check", "message"].map(|key| text(result, key));
            format!("{subject}, {check}: {message}")
        })
        .collect()
}

fn assert_named(results: &[Value], status: &str, start: &str, part: &str) {
    let found = with_status(results, status);
    let is_named = found
        .iter()
        .any(|line| line.starts_with(start) && line.contains(part));
    assert!(is_named, "no {status} {start} … {part} in {results:#?}");
    let with_action = results
        .iter()
        .filter(|result| result["status"] == "Error" || result["status"] == "Warning");
    for result in with_action {
        assert!(
            result["action"].is_string(),
            "{result} does not say what to do"
        );
    }
}

async fn registry(stage: &Stage, name: &str, clusters: &[&str]) -> Registry {
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Namespace" }]);
    let registry = Registry::new(stage, name, clusters, &kinds).unwrap();
    registry.apply().await.unwrap();
    registry
}

#[tokio::test]
async fn a_healthy_fleet_is_all_ok_and_a_full_opensearch_is_warned_of() -> Tested {
    let stage = Stage::enter().await?;
    let registry = registry(&stage, "healthy", &BOTH).await;
    registry.until_ready().await?;

    let (code, results) = doctor(&stage, &[]).await?;
    for status in ["Error", "Warning", "Skipped"] {
        assert_eq!(with_status(&results, status), Vec::<String>::new());
    }
    assert_eq!(code, 0);
    for start in [
        "control plane, connection: v",
        "control plane, clock",
        "control plane, permissions",
        "operator, version",
        "operator, readiness",
        "operator, lag",
        "cluster member1, connection: v",
        "cluster member2, clock",
        "cluster member2, permissions: may list and watch all 2 registered kinds",
    ] {
        assert_named(&results, "OK", start, "");
    }
    for part in [
        "connection: OpenSearch 3",
        "clock",
        "disks: the fullest is of node fleet-1",
        "blocks: no index is read-only",
        "contexts",
        "shards",
        "mapping: 2 indices",
    ] {
        assert_named(&results, "OK", "store ", part);
    }

    let limit = |shards: Value| json!({ "persistent": { "cluster.max_shards_per_node": shards } });
    let health = stage.opensearch.get("_cluster/health").await?;
    let used =
        health["active_shards"].as_u64().unwrap() + health["unassigned_shards"].as_u64().unwrap();
    stage
        .opensearch
        .put("_cluster/settings", &limit(json!(used + 1)))
        .await?;
    let (code, results) = doctor(&stage, &[]).await?;
    let expected = if used >= 6 { "Warning" } else { "OK" };
    assert_named(&results, expected, "store ", "shards are in use");
    assert_eq!(code, 0);
    stage
        .opensearch
        .put("_cluster/settings", &limit(json!(used)))
        .await?;
    let (code, results) = doctor(&stage, &[]).await?;
    assert_named(&results, "Error", "store ", "no index can be created");
    assert_eq!(code, 1);
    stage
        .opensearch
        .put("_cluster/settings", &limit(Value::Null))
        .await?;
    a_full_disk_and_a_block_are_named(&stage, &registry.prefix).await?;
    Ok(registry.remove().await?)
}

/// Watermarks in free bytes that every disk is over, or under, so that it does not matter how full
/// the disk of this machine is.
async fn a_full_disk_and_a_block_are_named(stage: &Stage, prefix: &str) -> Tested {
    let disk = "cluster.routing.allocation.disk";
    let watermarks = |high: Value, is_enabled: Value| {
        let set = json!({
            format!("{disk}.watermark.low"): high,
            format!("{disk}.watermark.high"): high,
            format!("{disk}.watermark.flood_stage"): if high.is_null() { Value::Null } else { json!("0b") },
            format!("{disk}.threshold_enabled"): is_enabled,
        });
        json!({ "transient": set })
    };
    for (high, status, part) in [
        (
            "1000pb",
            "Warning",
            "disks: over the high watermark (1000pb): node fleet-1",
        ),
        ("0b", "OK", "disks: the fullest is of node fleet-1"),
    ] {
        let set = watermarks(json!(high), json!(true));
        stage.opensearch.put("_cluster/settings", &set).await?;
        // The exit code depends on whether OpenSearch looks at its disk meanwhile.
        let (_, results) = doctor(stage, &[]).await?;
        assert_named(&results, status, "store ", part);
    }
    let mut unset = watermarks(Value::Null, Value::Null);
    // What OpenSearch sets when it looks at its disk.
    unset["persistent"] = json!({ "cluster.blocks.create_index": null });
    stage.opensearch.put("_cluster/settings", &unset).await?;

    let path = format!("{prefix}-*.g*/_settings");
    // Not that of the flood-stage watermark, which OpenSearch may remove at any time.
    let block = |value: Value| json!({ "index.blocks.write": value });
    stage.opensearch.put(&path, &block(json!(true))).await?;
    let (code, results) = doctor(stage, &[]).await?;
    let named = "blocks: index.blocks.write is set on ";
    assert_named(&results, "Error", "store ", named);
    assert_eq!(code, 1);
    stage.opensearch.put(&path, &block(Value::Null)).await?;
    Ok(())
}

#[tokio::test]
async fn a_member_that_is_down_and_missing_rights_are_named() -> Tested {
    let stage = Stage::enter().await?;
    let (down, half) = (unique("down"), unique("half"));
    drop(stage.register_behind_proxy(1, &down).await?);
    let member = stage.member(2)?;
    member.grant(&half, &["namespaces"]).await?;
    let token = member.service_account_token_with(&half, &half).await?;
    let server = stage.fleet.member(2);
    let registration = Registration::with_token(server, &half, SECRETS, &token);
    register(&stage.hub, &registration).await?;
    let registry = registry(&stage, "faulty", &["member1", &down, &half]).await;

    let (code, results) = doctor(&stage, &["--allow-same-cluster"]).await?;
    assert_eq!(code, 1);
    let start = format!("cluster {down}, connection");
    assert_named(&results, "Error", &start, "Unreachable");
    let start = format!("cluster {half}, permissions");
    assert_named(&results, "Error", &start, "may not list, watch configmaps");
    assert_named(&results, "OK", "cluster member1, permissions", "");
    let of_half = with_status(&results, "Error");
    assert!(
        !of_half.iter().any(|line| line.contains("namespaces")),
        "{of_half:?}"
    );

    // Another account on the control plane than the operator's.
    let (code, results) = doctor(&stage, &["--as", "alice"]).await?;
    assert_eq!(code, 1);
    assert_named(
        &results,
        "Error",
        "control plane, custom resources",
        "alice",
    );

    registry.remove().await?;
    for cluster in [&down, &half] {
        stage.unregister(cluster).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_of_opensearch_is_named() -> Tested {
    let stage = Stage::enter().await?;
    let secured = Fleet::start(Options::of(0, OpenSearchKind::Secure)).await?;
    let server = secured.opensearch()?;
    let credentials = unique("credentials");
    let mut registry = registry(&stage, "secure", &["member1"]).await;
    registry.store()["addresses"] = json!([server.url()]);
    registry.store()["caBundle"] = json!(server.ca_pem().unwrap());
    registry.store()["secretRef"] = json!({ "namespace": SECRETS, "name": credentials });
    registry.apply().await?;
    let (_, results) = doctor(&stage, &[]).await?;
    assert_named(
        &results,
        "Error",
        "store ",
        "login: backendStore.openSearch.secretRef: Secret",
    );

    for (password, status, part) in [
        (
            "wrong-Password-1",
            "Error",
            "login: OpenSearch refuses the user or the password",
        ),
        (server.password().unwrap(), "OK", "connection: OpenSearch 2"),
    ] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": credentials, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
            "stringData": { "username": "admin", "password": password },
        });
        stage.put_secret(&credentials, &secret).await?;
        let (_, results) = doctor(&stage, &[]).await?;
        assert_named(&results, status, "store ", part);
    }
    registry.until_ready().await?;
    registry.remove().await?;
    Ok(stage.hub.delete(&secret_path(&credentials)).await?)
}
