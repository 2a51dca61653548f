//! Credential rotation, first at the server and then at the operator.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique},
    objects::service_account_path,
    oracle::{Oracle, indices},
    poll::eventually,
    proxy::FaultProxy,
    scenario::{SECRETS, Stage, register, secret_path, until_equal},
    test_result::Tested,
};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Fixture, stop, until_written};

#[tokio::test]
async fn no_change_is_lost_when_tokens_of_a_member_are_rotated() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.fleet.member(1);
    let objects = stage.member(1)?;
    let accounts = [unique("old-account"), unique("new-account")];
    let cluster = unique("rotated");
    // Cutting connections makes the operator authenticate again.
    let proxy = FaultProxy::start(member.url())?;
    let token = objects.service_account_token(&accounts[0]).await?;
    let registration =
        Registration::with_token(member, &cluster, SECRETS, &token).through(&proxy.url());
    register(&stage.hub, &registration).await?;
    let fixture = Fixture::new(&stage, "rotated", vec![(1, cluster.clone())], |_| ()).await;

    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    objects.delete(&service_account_path(&accounts[0])).await?;
    proxy.cut();
    fixture
        .registry
        .until_failed(&cluster, "Unauthorized")
        .await?;
    until_written(&churns, 50).await;
    let token = objects.service_account_token(&accounts[1]).await?;
    let secret = json!({ "data": { "token": STANDARD.encode(token) } });
    stage.hub.merge(&secret_path(&cluster), &secret).await?;
    fixture.registry.until_ready().await?;
    stop(churns).await?;
    fixture.until_equal().await;
    fixture.registry.remove().await?;
    Ok(stage.unregister(&cluster).await?)
}

/// Started streams and restarted watches of one cluster.
async fn starts(stage: &Stage, cluster: &str) -> (usize, f64) {
    let starts = stage.stream_starts().unwrap();
    let of_cluster = starts
        .iter()
        .filter(|(unit, _)| unit.contains(cluster))
        .map(|(_, count)| *count)
        .sum();
    let labels = format!(r#"cluster="{cluster}""#);
    let restarts = stage
        .operator
        .count_of("fleetdex_watches_opened_total", &labels)
        .await
        .unwrap();
    (of_cluster, restarts)
}

#[tokio::test]
async fn a_renewed_token_restarts_no_stream_and_a_new_ca_reconnects() -> Tested {
    let stage = Stage::enter().await?;
    let member = stage.fleet.member(1);
    let objects = stage.member(1)?;
    let (account, cluster) = (unique("renewed-account"), unique("renewed"));
    let bound = [unique("first-token"), unique("second-token")];
    objects.service_account_token(&account).await?;
    let first = objects.token_bound_to(&bound[0], &account).await?;
    register(
        &stage.hub,
        &Registration::with_token(member, &cluster, SECRETS, &first),
    )
    .await?;
    let fixture = Fixture::new(&stage, "renewed", vec![(1, cluster.clone())], |_| ()).await;
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    let before = starts(&stage, &cluster).await;
    assert!(before.0 > 0, "{before:?}");

    let second = objects.token_bound_to(&bound[1], &account).await?;
    let renewed = Registration::with_token(member, &cluster, SECRETS, &second).secret;
    stage.put_secret(&cluster, &renewed).await?;
    objects
        .delete(&format!("api/v1/namespaces/default/secrets/{}", bound[0]))
        .await?;
    let with_first = objects.with_token(&first);
    eventually(
        "the first token is refused",
        Duration::from_mins(1),
        || async {
            let (status, _) = with_first
                .send(Method::GET, "readyz", "application/json", None)
                .await?;
            anyhow::ensure!(status == StatusCode::UNAUTHORIZED, "{status}");
            Ok(())
        },
    )
    .await?;
    until_written(&churns, 100).await;
    // A Secret that is deleted and created again unchanged has no effect.
    stage.hub.delete(&secret_path(&cluster)).await?;
    until_written(&churns, 100).await;
    stage.put_secret(&cluster, &renewed).await?;
    until_written(&churns, 100).await;
    assert_eq!(starts(&stage, &cluster).await, before);
    fixture.registry.until_ready().await?;

    // The old authority and one more: the trusted set differs, so the member is connected again.
    let both = format!(
        "{}{}",
        member.ca_pem(),
        stage.fleet.control_plane().ca_pem()
    );
    let other = json!({ "data": { "caBundle": STANDARD.encode(both) } });
    stage.hub.merge(&secret_path(&cluster), &other).await?;
    eventually(
        "the streams begin again",
        Duration::from_mins(1),
        || async {
            let (count, _) = starts(&stage, &cluster).await;
            anyhow::ensure!(count > before.0, "{count}, as before");
            Ok(())
        },
    )
    .await?;
    until_written(&churns, 50).await;
    stop(churns).await?;
    fixture.check_and_remove().await?;
    Ok(stage.unregister(&cluster).await?)
}

#[tokio::test]
async fn no_change_is_lost_when_the_user_of_the_store_is_rotated() -> Tested {
    let secured = Fleet::start(Options::of(0, OpenSearchKind::Secure)).await?;
    let server = secured.opensearch()?;
    let stage = Stage::enter().await?;
    let credentials = unique("credentials");
    let secret = |user: &str, password: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": credentials, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
            "stringData": { "username": user, "password": password } })
    };
    let roles = ["all_access"];
    let passwords = [
        "1st-Moonlight-Sonata",
        "2nd-Moonlight-Sonata",
        "3rd-Moonlight-Sonata",
    ];
    server.create_user("writer", passwords[0], &roles).await?;
    stage
        .put_secret(&credentials, &secret("writer", passwords[0]))
        .await?;
    let mut registry =
        e2e::scenario::Registry::new(&stage, "secured", &["member1"], &super::kinds())?;
    registry.store()["addresses"] = json!([server.url()]);
    registry.store()["caBundle"] = json!(server.ca_pem().unwrap());
    registry.store()["secretRef"] = json!({ "namespace": SECRETS, "name": credentials });
    let member = stage.fleet.member(1);
    let client = server.client()?;
    let oracle = Oracle::new(&client, &registry.prefix);
    let oracle = oracle.expects_all([("member1", member)], &super::COLLECTIONS);
    let churn =
        e2e::churn::Churn::new(member, &unique("secured"), super::NAMES, super::RATE).await?;
    churn.begin().await?;
    registry.apply_until_ready().await?;

    let churns = vec![churn.start()];
    until_written(&churns, 50).await;
    server
        .change_password("writer", [passwords[0], passwords[1]], &roles)
        .await?;
    registry.until_store_fails("Unauthorized", "").await?;
    until_written(&churns, 50).await;
    stage
        .put_secret(&credentials, &secret("writer", passwords[1]))
        .await?;
    registry.until_ready().await?;
    until_written(&churns, 50).await;
    // A different user, in one step.
    server
        .create_user("successor", "4th-Moonlight-Sonata", &roles)
        .await?;
    stage
        .put_secret(&credentials, &secret("successor", "4th-Moonlight-Sonata"))
        .await?;
    server
        .change_password("writer", [passwords[1], passwords[2]], &roles)
        .await?;
    until_written(&churns, 50).await;
    stop(churns).await?;
    until_equal(&oracle).await?;
    registry.until_ready().await?;
    registry.delete().await?;
    registry.until_absent().await?;
    assert_eq!(indices(&client, &registry.prefix).await?, [""; 0]);
    Ok(stage.hub.delete(&secret_path(&credentials)).await?)
}
