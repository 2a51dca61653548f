//! A registry without `backendStore`: its objects are stored only in the memory of `fleetdex`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    objects::Objects,
    operator::Operator,
    scenario::{DEADLINE, prepare, start_operator, until},
    test_result::Tested,
};
use serde_json::{Value, json};

const REGISTRY: &str = "apis/search.karmada.io/v1alpha1/resourceregistries/embedded";

async fn apply(hub: &Objects, kinds: &[&str]) -> Tested {
    let selectors: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({ "apiVersion": "v1", "kind": kind, "namespace": "web" }))
        .collect();
    let registry = json!({
        "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "embedded" },
        "spec": { "resourceSelectors": selectors },
    });
    hub.apply(REGISTRY, &registry).await?;
    Ok(())
}

/// Waits until `fleetdex get` returns exactly these objects, as `cluster/name`.
async fn until_found(operator: &Operator, arguments: &[&str], expected: &[&str]) -> Tested {
    let what = format!("fleetdex get {} answers {expected:?}", arguments.join(" "));
    until(&what, || async {
        let found = get(operator, arguments).await?;
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
    .await?;
    Ok(())
}

async fn get(operator: &Operator, arguments: &[&str]) -> Result<BTreeSet<String>> {
    let asked: Vec<&str> = ["get"]
        .iter()
        .chain(arguments)
        .chain(&["-o", "json"])
        .copied()
        .collect();
    let result = operator.run_command(&asked).await?;
    ensure!(result.code == 0, "{}", result.err);
    let list: Value = serde_json::from_str(&result.out).with_context(|| result.out.clone())?;
    let items = list["items"].as_array().context("no items")?;
    let name = |item: &Value| {
        let metadata = &item["metadata"];
        let cluster = metadata["annotations"]["resource.karmada.io/cached-from-cluster"]
            .as_str()
            .unwrap_or("?");
        format!("{cluster}/{}", metadata["name"].as_str().unwrap_or("?"))
    };
    Ok(items.iter().map(name).collect())
}

#[tokio::test]
async fn a_registry_without_a_backend_is_served_from_memory() -> Tested {
    let fleet = Fleet::start(Options::of(2, OpenSearchKind::None)).await?;
    prepare(&fleet).await?;
    let hub = Objects::of(fleet.control_plane())?;
    let members = [Objects::of(fleet.member(1))?, Objects::of(fleet.member(2))?];
    for member in &members {
        member.create_namespace("web").await?;
        for name in ["one", "two"] {
            member
                .apply_config_map("web", name, &json!({ "a": "b" }))
                .await?;
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key", "labels": { "app": "shop" } },
            "stringData": { "password": "moonlight" },
        });
        member
            .apply("api/v1/namespaces/web/secrets/key", &secret)
            .await?;
    }
    let operator = start_operator(&fleet, &[]).await?;
    apply(&hub, &["ConfigMap", "Secret"]).await?;

    let all = ["member1/one", "member1/two", "member2/one", "member2/two"];
    until_found(&operator, &["configmaps", "-A"], &all).await?;
    until_found(
        &operator,
        &[
            "secrets",
            "-A",
            "-l",
            "app=shop",
            "--field-selector",
            "type=Opaque",
        ],
        &["member1/key", "member2/key"],
    )
    .await?;
    let secret = operator.run_command("get secrets -A -o json").await?;
    assert!(
        secret.out.contains("password") && !secret.out.contains("bW9vbmxpZ2h0"),
        "{}",
        secret.out
    );
    until(
        "the registry is ready and says where its objects are",
        || async {
            let registry = hub.get(REGISTRY).await?;
            let conditions = registry["status"]["conditions"]
                .as_array()
                .context("no conditions")?;
            let reason = |kind: &str| {
                conditions
                    .iter()
                    .find(|found| found["type"] == kind)
                    .map(|found| found["reason"].clone())
            };
            ensure!(
                reason("Ready") == Some(json!("Ready"))
                    && reason("StoreReachable") == Some(json!("Embedded")),
                "{conditions:?}"
            );
            Ok(())
        },
    )
    .await?;

    members[0]
        .apply_config_map("web", "three", &json!({ "a": "b" }))
        .await?;
    members[1].delete_config_map("web", "two").await?;
    let changed = ["member1/one", "member1/two", "member1/three", "member2/one"];
    until_found(&operator, &["configmaps", "-A"], &changed).await?;

    apply(&hub, &["ConfigMap"]).await?;
    until("Secrets are not registered any more", || async {
        let result = operator.run_command("get secrets -A").await?;
        ensure!(
            result.code != 0 && result.err.contains("secrets"),
            "{result:?}"
        );
        Ok(())
    })
    .await?;
    apply(&hub, &["ConfigMap", "Secret"]).await?;
    until_found(
        &operator,
        &["secrets", "-A", "-l", "app=shop"],
        &["member1/key", "member2/key"],
    )
    .await?;

    operator.restart_until_ready(DEADLINE).await?;
    until_found(&operator, &["configmaps", "-A"], &changed).await?;

    hub.delete(REGISTRY).await?;
    until("the registry is deleted", || async {
        ensure!(hub.find(REGISTRY).await?.is_none(), "it is still there");
        Ok(())
    })
    .await?;
    Ok(())
}
