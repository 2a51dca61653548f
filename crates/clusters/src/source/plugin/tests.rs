//! Small shell scripts as plugins.

use std::collections::HashMap;

use super::*;

fn shell(script: &str) -> ExecConfig {
    ExecConfig {
        api_version: Some("client.authentication.k8s.io/v1".into()),
        command: Some("/bin/sh".into()),
        args: Some(vec!["-c".into(), script.into()]),
        ..ExecConfig::default()
    }
}

fn credential(status: &str) -> String {
    format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#
    )
}

#[tokio::test]
async fn a_plugin_gets_its_environment_and_gives_a_token() {
    let mut exec = shell(
        r#"printf '{"status":{"token":"%s-%s"}}' "$FLAVOUR" "$(echo $KUBERNETES_EXEC_INFO | tr -cd a-z | head -c 20)""#,
    );
    exec.env = Some(vec![HashMap::from([
        ("name".into(), "FLAVOUR".into()),
        ("value".into(), "mint".into()),
    ])]);
    let credential = Plugins::default()
        .credential(&exec, None, false)
        .await
        .unwrap();
    assert_eq!(
        credential.token.as_deref(),
        Some("mint-apiersionclientauthe")
    );
}

#[tokio::test]
async fn a_credential_is_cached_until_it_expires_or_the_cache_is_bypassed() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let exec = shell(&format!(
        "echo x >> {0}; printf '{1}'",
        count.display(),
        credential(r#"{"token":"abc","expirationTimestamp":"2999-01-01T00:00:00Z"}"#)
    ));
    let runs = || std::fs::read_to_string(&count).unwrap().lines().count();
    let plugins = Plugins::default();
    for _ in 0..2 {
        assert_eq!(
            plugins
                .credential(&exec, None, false)
                .await
                .unwrap()
                .token
                .as_deref(),
            Some("abc")
        );
    }
    assert_eq!(runs(), 1);
    plugins.credential(&exec, None, true).await.unwrap();
    assert_eq!(runs(), 2);
}

#[test]
fn a_credential_expires_a_minute_early_or_after_ten_minutes() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let expires = |status: &str| read(credential(status).as_bytes(), now).unwrap().1;
    assert_eq!(
        expires(r#"{"token":"a","expirationTimestamp":"2026-01-01T00:15:00Z"}"#).to_string(),
        "2026-01-01T00:14:00Z"
    );
    assert_eq!(
        expires(r#"{"token":"a"}"#).to_string(),
        "2026-01-01T00:10:00Z"
    );
    let client_certificate = read(
        credential(r#"{"clientCertificateData":"c","clientKeyData":"k"}"#).as_bytes(),
        now,
    )
    .unwrap()
    .0
    .client_certificate;
    assert!(
        client_certificate.is_some_and(|client_certificate| client_certificate.certificate == b"c"
            && client_certificate.key == b"k")
    );
    for useless in [
        "{}",
        r#"{"clientKeyData":"k"}"#,
        r#"{"token":"a b"}"#,
        r#"{"token":"a","expirationTimestamp":"soon"}"#,
    ] {
        assert!(
            read(credential(useless).as_bytes(), now).is_none(),
            "{useless}"
        );
    }
}

#[tokio::test]
async fn every_failure_has_its_error_and_no_output_is_shown() {
    let plugins = Plugins::default();
    let error =
        async |exec: &ExecConfig| plugins.credential(exec, None, false).await.err().unwrap();
    assert_eq!(
        error(&ExecConfig::default()).await,
        PluginError::CommandMissing
    );
    let interactive = ExecConfig {
        interactive_mode: Some(ExecInteractiveMode::Always),
        ..shell("true")
    };
    assert!(matches!(
        error(&interactive).await,
        PluginError::Interactive { .. }
    ));
    let absent = ExecConfig {
        command: Some("/no/such".into()),
        install_hint: Some("get it".into()),
        ..ExecConfig::default()
    };
    assert!(error(&absent).await.to_string().ends_with("get it"));
    let failed = error(&shell("echo hunter2; echo log in first >&2; exit 3"))
        .await
        .to_string();
    assert!(
        failed.contains("exit status: 3")
            && failed.contains("log in first")
            && !failed.contains("hunter2"),
        "{failed}"
    );
    let garbage = error(&shell("echo hunter2")).await;
    assert!(
        matches!(&garbage, PluginError::Unreadable { .. })
            && !garbage.to_string().contains("hunter2"),
        "{garbage}"
    );
}
