//! Bearer tokens and proxies of a store, on the real secured OpenSearch.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{
    fleet::unique,
    scenario::{Registry, SECRETS, Stage, secret_path, until_equal},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use super::{dashboards_roles::secured, forward_proxy::ForwardProxy};

const DAY: u64 = 24 * 3600;
/// Long enough for the registry to become ready again.
const SHORT_LIVED: u64 = 25;
const ALLOWED_HOSTS: &str = "fleetdex.io/allowed-hosts";

fn kinds() -> Value {
    json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Namespace" }])
}

/// A registry on the secured OpenSearch, whose Secret has the name of the registry.
fn registry(stage: &Stage, name: &str) -> Registry {
    let mut registry = Registry::new(stage, name, &["member1"], &kinds()).unwrap();
    let server = stage.fleet.opensearch().unwrap();
    let reference = json!({ "namespace": SECRETS, "name": registry.name });
    let store = registry.store();
    store["caBundle"] = json!(server.ca_pem().unwrap());
    store["secretRef"] = reference;
    registry
}

/// Writes the Secret of a registry: exactly these keys.
pub async fn write_secret(stage: &Stage, registry: &Registry, data: &Value) -> Tested {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": { "name": registry.name, "annotations": { ALLOWED_HOSTS: "127.0.0.1" } } });
    let path = secret_path(&registry.name);
    if stage.hub.find(&path).await?.is_some() {
        // Keys that an earlier version has stay when another one is applied.
        let nothing = json!({ "data": Value::Null });
        stage.hub.merge(&path, &nothing).await?;
        let secret = json!({ "stringData": data });
        stage.hub.merge(&path, &secret).await?;
    } else {
        stage.hub.apply(&path, &secret).await?;
    }
    Ok(())
}

/// Writes a config map in the member.
pub async fn write_config_map(stage: &Stage, name: &str) -> Tested {
    let member = stage.member(1)?;
    let data = json!({ "a": "b" });
    member
        .apply_config_map("default", &unique(name), &data)
        .await?;
    Ok(())
}

/// Compares the documents with the objects of the member.
pub async fn assert_indexed(stage: &Stage, registry: &Registry) -> Tested {
    let first = [("member1", stage.fleet.member(1))];
    let collections = ["api/v1/configmaps", "api/v1/namespaces"];
    let oracle = registry.oracle().expects_all(first, &collections);
    assert!(until_equal(&oracle).await? > 0);
    Ok(())
}

#[tokio::test]
async fn a_token_that_expires_is_named_and_a_new_one_is_used_without_a_restart() -> Tested {
    let stage = Stage::with(secured()).await?;
    let server = stage.fleet.opensearch()?;
    let token = |seconds: u64| server.token("fleetdex", &["admin"], seconds).unwrap();
    let registry = registry(&stage, "tokens");
    write_secret(&stage, &registry, &json!({ "token": token(DAY) + "\n" })).await?;
    registry.apply_until_ready().await?;
    assert_indexed(&stage, &registry).await?;

    // Rotated while the old one is valid, and soon not valid any longer.
    write_secret(&stage, &registry, &json!({ "token": token(SHORT_LIVED) })).await?;
    let message = registry
        .until_store_fails("TokenExpired", "HTTP 401")
        .await?;
    let remedy = format!("write a new one to the key token of Secret {SECRETS}/");
    assert_contains(&message, "; the token expired at 20");
    assert_contains(&message, &remedy);
    write_config_map(&stage, "while-expired").await?;

    let both = json!({ "token": token(DAY), "username": "admin", "password": "x" });
    write_secret(&stage, &registry, &both).await?;
    registry
        .until_store_fails(
            "InvalidSecret",
            "has a token as well as username or password",
        )
        .await?;

    write_secret(&stage, &registry, &json!({ "token": token(DAY) })).await?;
    registry.until_ready().await?;
    assert_indexed(&stage, &registry).await?;
    // A token without the right role is another condition.
    let powerless = server.token("mallory", &["none"], DAY)?;
    write_secret(&stage, &registry, &json!({ "token": powerless })).await?;
    registry
        .until_store_fails("Unauthorized", "no permissions")
        .await?;
    write_secret(&stage, &registry, &json!({ "token": token(DAY) })).await?;
    registry.until_ready().await?;
    registry.remove().await?;
    let secret = secret_path(&registry.name);
    Ok(stage.hub.delete(&secret).await?)
}

#[tokio::test]
async fn a_store_behind_a_proxy_is_reached_through_it_alone() -> Tested {
    let stage = Stage::with(secured()).await?;
    let server = stage.fleet.opensearch()?;
    let proxy = ForwardProxy::start("us@er", "p:w%").await?;
    let login = |password: &str| {
        json!({ "username": "admin", "password": server.password().unwrap(),
            "proxyUsername": "us@er", "proxyPassword": password })
    };
    for scheme in ["http", "socks5"] {
        let mut registry = registry(&stage, &format!("through-{scheme}"));
        registry.store()["proxyURL"] = json!(proxy.url(scheme));
        write_secret(&stage, &registry, &login("wrong")).await?;
        registry.apply().await?;
        registry.until_store_fails("Unreachable", "").await?;
        assert_eq!(proxy.tunnels(), 0);
        write_secret(&stage, &registry, &login("p:w%")).await?;
        registry.until_ready().await?;
        assert_indexed(&stage, &registry).await?;
        assert!(
            proxy.tunnels() > 0,
            "the store was reached without the proxy"
        );
        // Only the store: the proxy saw no other destination.
        let expected = server.url().trim_start_matches("https://").to_owned();
        assert_eq!(proxy.destinations(), [expected]);
        proxy.forget();
        registry.remove().await?;
        let secret = secret_path(&registry.name);
        stage.hub.delete(&secret).await?;
        proxy.forget();
    }
    Ok(())
}
