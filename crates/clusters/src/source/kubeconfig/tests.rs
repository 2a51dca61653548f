//! Kubeconfigs of every form.

use serde_json::{Value, json};

use super::*;

const CERTIFICATE: &str = include_str!("../../testdata/ca.pem");

fn kubeconfig(cluster: &Value, user: &Value) -> Kubeconfig {
    serde_json::from_value(json!({
        "clusters": [{ "name": "c", "cluster": cluster }], "users": [{ "name": "u", "user": user }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
    }))
    .unwrap()
}

async fn read(cluster: &Value, user: &Value) -> Result<Credentials, KubeconfigProblem> {
    ResolvedContext::of(&kubeconfig(cluster, user), None)?
        .credentials(&Plugins::default(), false)
        .await
}

#[tokio::test]
async fn every_field_that_a_connection_needs_is_read() {
    let encoded = STANDARD.encode(CERTIFICATE);
    let cluster = json!({ "server": "https://10.0.0.1:6443", "certificate-authority-data": encoded,
                          "tls-server-name": "api.example.com", "proxy-url": "socks5://proxy:1080" });
    let user = json!({ "token": " abc\n", "client-certificate-data": encoded, "client-key-data": STANDARD.encode("key"), "as": "alice",
                       "as-uid": "7", "as-groups": ["dev"], "as-user-extra": { "scopes": ["view"] } });
    let credentials = read(&cluster, &user).await.unwrap();
    assert_eq!(
        (credentials.server.as_str(), credentials.token.as_deref()),
        ("https://10.0.0.1:6443", Some("abc"))
    );
    assert!(matches!(&credentials.trust, ServerTrust::Roots(roots) if roots.len() == 1));
    assert_eq!(credentials.server_name.as_deref(), Some("api.example.com"));
    assert_eq!(
        credentials.proxy_url.as_deref(),
        Some("socks5://proxy:1080")
    );
    assert_eq!(credentials.client_certificate.as_ref().unwrap().key, b"key");
    let as_whom = credentials.impersonation.clone();
    assert_eq!(
        (
            as_whom.user.as_deref(),
            as_whom.uid.as_deref(),
            as_whom.groups
        ),
        (Some("alice"), Some("7"), vec!["dev".to_owned()])
    );
    assert_eq!(as_whom.extra["scopes"], ["view"]);
}

#[tokio::test]
async fn system_certificates_are_trusted_unless_the_kubeconfig_says_otherwise() {
    let server = "https://a";
    assert_eq!(
        read(&json!({ "server": server }), &json!({}))
            .await
            .unwrap()
            .trust,
        ServerTrust::System
    );
    let insecure = json!({ "server": server, "insecure-skip-tls-verify": true });
    assert_eq!(
        read(&insecure, &json!({})).await.unwrap().trust,
        ServerTrust::Insecure
    );
    let garbage =
        json!({ "server": server, "certificate-authority-data": STANDARD.encode("garbage") });
    assert_eq!(
        read(&garbage, &json!({})).await.unwrap_err().reason(),
        "KubeconfigInvalid"
    );
}

#[tokio::test]
async fn named_files_are_read_and_a_token_file_takes_precedence_over_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "from-file\n").unwrap();
    let cluster = json!({ "server": "https://a" });
    let user = json!({ "tokenFile": token, "token": "inline" });
    assert_eq!(
        read(&cluster, &user).await.unwrap().token.as_deref(),
        Some("from-file")
    );
    std::fs::remove_file(&token).unwrap();
    assert_eq!(
        read(&cluster, &user).await.unwrap().token.as_deref(),
        Some("inline")
    );
    let problem = read(&cluster, &json!({ "tokenFile": token }))
        .await
        .unwrap_err();
    assert_eq!(problem.reason(), "FileUnreadable");
    assert!(problem.to_string().contains("tokenFile"), "{problem}");
}

#[test]
fn the_named_context_is_used_else_the_current_one_else_the_only_one() {
    let mut config = kubeconfig(&json!({ "server": "https://a" }), &json!({}));
    assert!(
        ResolvedContext::of(&config, None).is_ok()
            && ResolvedContext::of(&config, Some("x")).is_ok()
    );
    let unknown = ResolvedContext::of(&config, Some("y")).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no context \"y\"; there is x");
    let mut second = config.contexts[0].clone();
    second.name = "second".into();
    config.contexts.push(second);
    assert_eq!(
        ResolvedContext::of(&config, None).unwrap_err(),
        KubeconfigProblem::CurrentContextMissing
    );
    config.current_context = Some("second".into());
    assert!(ResolvedContext::of(&config, None).is_ok());
    config.auth_infos.clear();
    assert_eq!(
        ResolvedContext::of(&config, None).unwrap_err().to_string(),
        "context \"second\" names the user \"u\", which is not in it"
    );
    config.clusters.clear();
    assert!(matches!(
        ResolvedContext::of(&config, None).unwrap_err(),
        KubeconfigProblem::Dangling {
            what: "cluster",
            ..
        }
    ));
}

#[test]
fn an_untrusted_kubeconfig_may_not_run_programs_or_read_files() {
    let server = json!({ "server": "https://a" });
    let file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    for (cluster, user, reason) in [
        (
            server.clone(),
            json!({ "exec": { "command": "sh" } }),
            "ExecRefused",
        ),
        (server.clone(), json!({ "tokenFile": file }), "FileRefused"),
        (
            server.clone(),
            json!({ "client-certificate": file }),
            "FileRefused",
        ),
        (server.clone(), json!({ "client-key": file }), "FileRefused"),
        (
            json!({ "server": "https://a", "certificate-authority": file }),
            json!({}),
            "FileRefused",
        ),
    ] {
        let refused = ResolvedContext::of(&kubeconfig(&cluster, &user), None)
            .unwrap()
            .refuse_plugins_and_files()
            .unwrap_err();
        assert_eq!(refused.reason(), reason, "{user}");
    }
    assert!(
        ResolvedContext::of(&kubeconfig(&server, &json!({ "token": "t" })), None)
            .unwrap()
            .refuse_plugins_and_files()
            .is_ok()
    );
}

#[tokio::test]
async fn an_unusable_kubeconfig_is_refused_without_showing_a_secret() {
    let server = json!({ "server": "https://a" });
    for (cluster, user, reason) in [
        (json!({}), json!({}), "KubeconfigInvalid"),
        (
            json!({ "server": "https://user:hunter2@a" }),
            json!({}),
            "KubeconfigInvalid",
        ),
        (
            server.clone(),
            json!({ "token": "hunter2 hunter2" }),
            "KubeconfigInvalid",
        ),
        (
            server.clone(),
            json!({ "client-certificate-data": "hunter2?" , "client-key-data": "aGk=" }),
            "KubeconfigInvalid",
        ),
        (
            server.clone(),
            json!({ "client-key-data": STANDARD.encode("hunter2") }),
            "KubeconfigInvalid",
        ),
        (
            server.clone(),
            json!({ "auth-provider": { "name": "gcp", "config": { "access-token": "hunter2" } } }),
            "AuthProviderRefused",
        ),
        (
            server.clone(),
            json!({ "exec": { "command": "/no/such" } }),
            "ExecFailed",
        ),
    ] {
        let problem = read(&cluster, &user).await.unwrap_err();
        assert_eq!(problem.reason(), reason, "{problem}");
        assert!(
            !format!("{problem} {problem:?}").contains("hunter2"),
            "{problem:?}"
        );
    }
}

#[tokio::test]
async fn a_plugin_runs_only_without_a_token_and_gets_the_cluster_info() {
    let script = r#"printf '{"status":{"token":"%s"}}' "$(echo "$KUBERNETES_EXEC_INFO" | grep -o 'https://[a-z]*' | tr -cd a-z)""#;
    let exec = json!({ "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script], "provideClusterInfo": true });
    let cluster = json!({ "server": "https://asked" });
    assert_eq!(
        read(&cluster, &json!({ "exec": exec }))
            .await
            .unwrap()
            .token
            .as_deref(),
        Some("httpsasked")
    );
    assert_eq!(
        read(&cluster, &json!({ "exec": exec, "token": "mine" }))
            .await
            .unwrap()
            .token
            .as_deref(),
        Some("mine")
    );
}
