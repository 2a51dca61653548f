//! Signed requests: the real OpenSearch behind the edge of a domain.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{process::Stdio, time::Duration};

use axum::{Router, http::HeaderMap, response::IntoResponse, routing::get};
use bytes::Bytes;
use e2e::{
    http,
    operator::fleetdex_program,
    scenario::{Registry, SECRETS, Stage, secret_path},
    test_result::{Tested, assert_contains},
};
use fleetdex_store::opensearch::{Authentication, AwsAuthentication, AwsKeys, Settings, connect};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use super::{
    aws_domain::{ACCESS_KEY_ID, AwsDomain, REGION, SECRET_ACCESS_KEY, SESSION_TOKEN},
    store_credentials::{assert_indexed, write_config_map, write_secret},
};

fn keys(id: &str, secret: &str) -> Value {
    json!({ "accessKeyID": id, "secretAccessKey": secret, "sessionToken": SESSION_TOKEN })
}

fn right_keys() -> Value {
    keys(ACCESS_KEY_ID, SECRET_ACCESS_KEY)
}

/// A registry whose store is the domain.
fn registry(stage: &Stage, domain: &AwsDomain, name: &str) -> Registry {
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Namespace" }]);
    let mut registry = Registry::new(stage, name, &["member1"], &kinds).unwrap();
    let reference = json!({ "namespace": SECRETS, "name": registry.name });
    let store = registry.store();
    store["addresses"] = json!([domain.address()]);
    store["aws"] = json!({ "region": REGION });
    store["secretRef"] = reference;
    registry
}

#[tokio::test]
async fn objects_are_indexed_and_queried_with_signed_requests() -> Tested {
    let stage = Stage::enter().await?;
    let server = stage.fleet.opensearch()?;
    let domain = AwsDomain::start(server.url()).await?;
    let registry = registry(&stage, &domain, "signed");
    write_secret(&stage, &registry, &right_keys()).await?;
    registry.apply_until_ready().await?;
    write_config_map(&stage, "signed").await?;
    assert_indexed(&stage, &registry).await?;
    let listed = stage.operator.run_command("get configmaps -A").await;
    let listed = listed.unwrap();
    assert_eq!(listed.code, 0, "{}", listed.err);
    assert!(listed.out.contains("signed-"), "{}", listed.out);
    assert_eq!(domain.refusals(), Vec::<String>::new());
    assert!(domain.accepted() > 20, "{}", domain.accepted());

    for (wrong, part) in [
        (
            keys(ACCESS_KEY_ID, "wrong"),
            "correct the secret access key",
        ),
        (
            keys("AKIAI44QH8DHBEXAMPLE", SECRET_ACCESS_KEY),
            "AWS does not know the access key",
        ),
    ] {
        write_secret(&stage, &registry, &wrong).await?;
        registry.until_store_fails("Unauthorized", part).await?;
    }
    write_config_map(&stage, "while-refused").await?;
    write_secret(&stage, &registry, &right_keys()).await?;
    registry.until_ready().await?;
    assert_indexed(&stage, &registry).await?;

    domain.set_ahead(Duration::from_mins(10));
    registry
        .until_store_fails("ClockSkew", "synchronize it")
        .await?;
    domain.set_ahead(Duration::ZERO);
    registry.until_ready().await?;
    assert_indexed(&stage, &registry).await?;
    registry.remove().await?;
    let secret = secret_path(&registry.name);
    Ok(stage.hub.delete(&secret).await?)
}

#[tokio::test]
async fn every_path_and_query_string_is_signed_as_it_is_sent() -> Tested {
    http::install_tls_provider();
    let stage = Stage::enter().await?;
    let server = stage.fleet.opensearch()?;
    let domain = AwsDomain::start(server.url()).await?;
    let settings = |region: &str| Settings {
        addresses: vec![domain.address().to_owned()],
        authentication: Authentication::Aws(AwsAuthentication {
            region: region.to_owned(),
            service: "es".to_owned(),
            role_arn: None,
            keys: Some(AwsKeys {
                access_key_id: ACCESS_KEY_ID.to_owned(),
                secret_access_key: SECRET_ACCESS_KEY.to_owned(),
                session_token: Some(SESSION_TOKEN.to_owned()),
            }),
        }),
        client_certificate: None,
        ca_bundle: None,
        insecure: false,
        proxy: None,
    };
    let ask = async |region: &str, path: &str, body: &'static str| {
        let request = axum::http::Request::post(path)
            .header("content-type", "application/json")
            .body(Bytes::from_static(body.as_bytes()))
            .unwrap();
        let service = connect(&settings(region)).unwrap();
        service.oneshot(request).await.unwrap()
    };
    for path in [
        "/_search?filter_path=hits.total.value,*.x&ignore_unavailable=true",
        "/%3Cfleetdex%3E/_search?ignore_unavailable=true",
        "/%3Cfleetdex-%7Bnow%2Fd%7D%3E/_search?ignore_unavailable=true&allow_no_indices",
        "/fleetdex-*.g*,-a.b~c_d/_search?expand_wildcards=open%2Cclosed",
        "/_search?q=a%2Bb%20c&size=0&q=%C3%A9",
    ] {
        let body = r#"{"query":{"match_all":{}}}"#;
        let answer = ask(REGION, path, body).await;
        assert_ne!(answer.status(), 403, "{path}: {:?}", domain.refusals());
        assert_ne!(answer.status(), 502, "{path}");
    }
    assert_eq!(domain.refusals(), Vec::<String>::new());
    let elsewhere = ask("us-east-1", "/_search", "{}").await;
    assert_eq!(elsewhere.status(), 403);
    Ok(())
}

/// Answers like the agent of a node that knows the role of a Pod.
async fn agent() -> Tested<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1/credentials", listener.local_addr().unwrap());
    let credentials = async |headers: HeaderMap| {
        if headers
            .get("authorization")
            .is_none_or(|token| token != "agent-token")
        {
            return axum::http::StatusCode::UNAUTHORIZED.into_response();
        }
        let answer = json!({ "AccessKeyId": ACCESS_KEY_ID, "SecretAccessKey": SECRET_ACCESS_KEY, "Token": SESSION_TOKEN,
            "Expiration": "2999-01-01T00:00:00Z" });
        axum::Json(answer).into_response()
    };
    let router = Router::new().route("/v1/credentials", get(credentials));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

#[tokio::test]
async fn doctor_signs_with_the_role_of_its_pod_or_says_that_there_is_none() -> Tested {
    let stage = Stage::enter().await?;
    let server = stage.fleet.opensearch()?;
    let domain = AwsDomain::start(server.url()).await?;
    let mut registry = registry(&stage, &domain, "role");
    registry.store()["secretRef"] = Value::Null;
    registry.apply().await?;
    // This machine has no role.
    let message = registry
        .until_store_fails("NoAWSCredentials", "no AWS credentials")
        .await?;
    assert_contains(&message, "give the service account a role");

    let token_file = stage.fleet.dir().join("agent-token");
    std::fs::write(&token_file, "agent-token\n")?;
    let doctor = async |uri: &str| {
        let mut command = tokio::process::Command::new(fleetdex_program().unwrap());
        command
            .args(["doctor", "-o", "json", "--kubeconfig"])
            .arg(stage.fleet.control_plane().kubeconfig())
            .args(["--admin-url", &stage.operator.admin_url()])
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)
            .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token_file)
            .stdin(Stdio::null());
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let url = agent().await?;
    let report = doctor(&url).await;
    assert!(report.contains("OpenSearch 3"), "{report}");
    let report = doctor(&url.replace("credentials", "nothing")).await;
    assert_contains(&report, "ECS credentials endpoint not found");
    // Only a store that can be reached is emptied.
    write_secret(&stage, &registry, &right_keys()).await?;
    let reference = json!({ "namespace": SECRETS, "name": registry.name });
    registry.store()["secretRef"] = reference;
    registry.apply_until_ready().await?;
    registry.remove().await?;
    let secret = secret_path(&registry.name);
    Ok(stage.hub.delete(&secret).await?)
}
