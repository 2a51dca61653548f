use std::{fs, os::unix::fs::PermissionsExt as _};

use clap::Parser;
use kube::config::Kubeconfig;
use reqwest::Url;
use serde_json::{Value, json};

use super::{
    entries::{URL_USER, is_fleet_url},
    *,
};
use crate::test_server::TestServer;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: KubeconfigArgs,
}

const SOURCE: &str = r#"
apiVersion: v1
kind: Config
current-context: prod
preferences: {}
clusters:
- name: prod
  cluster: {server: "https://control.example.com:6443/", certificate-authority-data: QQ==, tls-server-name: control}
users:
- name: admin
  user: {token: "0123", unknown: kept}
contexts:
- name: prod
  context: {cluster: prod, user: admin, namespace: web}
extensions:
- name: other
  extension: {a: b}
"#;

fn source() -> Kubeconfig {
    Kubeconfig::from_yaml(SOURCE).unwrap()
}

fn value(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn the_context_has_the_users_credentials_and_the_path_of_the_fleet() {
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    let document = serde_json::to_value(entries.into_kubeconfig()).unwrap();
    assert_eq!(
        document["clusters"][0]["cluster"],
        json!({
            "server": "https://control.example.com:6443/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy",
            "certificate-authority-data": "QQ==",
            "tls-server-name": "control",
        })
    );
    assert_eq!(
        document["contexts"][0],
        json!({ "name": "fleet", "context": { "cluster": "fleet", "user": "admin", "namespace": "web" } })
    );
    assert_eq!(document["users"][0]["user"]["token"], "0123");
    let unknown = through_apiserver("fleet", &source(), Some("gone"), "config").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "config has no context \"gone\"; name one of its contexts with --context"
    );
}

#[test]
fn a_merge_keeps_everything_else_and_a_second_one_replaces_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, SOURCE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    assert_eq!(file.merge(&entries, false).unwrap().to_string(), "created");
    let merged = value(&fs::read_to_string(&path).unwrap());
    assert_eq!(merged["current-context"], "prod");
    assert_eq!(
        merged["users"],
        json!([{ "name": "admin", "user": { "token": "0123", "unknown": "kept" } }])
    );
    assert_eq!(
        merged["extensions"],
        json!([{ "name": "other", "extension": { "a": "b" } }])
    );
    assert_eq!(merged["contexts"].as_array().unwrap().len(), 2);
    // The new context is the source this time, as after --use.
    let read = Kubeconfig::from_yaml(&fs::read_to_string(&path).unwrap()).unwrap();
    let again = through_apiserver("fleet", &read, Some("fleet"), "config").unwrap();
    assert_eq!(file.merge(&again, true).unwrap().to_string(), "modified");
    let mut expected = merged;
    expected["current-context"] = json!("fleet");
    assert_eq!(value(&fs::read_to_string(&path).unwrap()), expected);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no lock and no temporary file"
    );
}

#[test]
fn a_name_that_is_taken_a_lock_and_a_file_of_another_kind_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, SOURCE).unwrap();
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    let named = |name: &str| through_apiserver(name, &source(), None, "config").unwrap();
    let taken = file.merge(&named("prod"), false).unwrap_err().to_string();
    assert!(
        taken.contains("has a cluster \"prod\", which is not of a fleet"),
        "{taken}"
    );
    let lock = folder.path().join("config.lock");
    fs::write(&lock, "").unwrap();
    let locked = file.merge(&named("fleet"), false).unwrap_err().to_string();
    assert!(locked.contains("config.lock exists"), "{locked}");
    fs::remove_file(&lock).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), SOURCE);
    fs::write(&path, "- a list\n").unwrap();
    let malformed = file.merge(&named("fleet"), false).unwrap_err().to_string();
    assert!(malformed.contains("is not a kubeconfig"), "{malformed}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "- a list\n");
}

#[tokio::test]
async fn a_server_on_this_machine_gets_its_token_in_the_url() {
    let server = TestServer::with(vec![]).await;
    let args = Command::parse_from(server.words("kubeconfig", &["--name", "here"])).args;
    let (is_complete, text, err) = server
        .run(async |console: &mut Console<'_>| kubeconfig(&args, console).await)
        .await;
    assert!(is_complete && err.is_empty(), "{err}");
    let document = value(&text);
    let url = Url::parse(
        document["clusters"][0]["cluster"]["server"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    let token = fs::read_to_string(server.token_file()).unwrap();
    assert_eq!(
        (url.username(), url.password()),
        (URL_USER, Some(token.trim()))
    );
    assert!(
        is_fleet_url(url.as_str()) && url.host_str() == Some("127.0.0.1"),
        "{url}"
    );
    assert_eq!(
        (&document["current-context"], &document["users"]),
        (&json!("here"), &json!([]))
    );
}

#[tokio::test]
async fn an_unreachable_server_is_reported_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    fs::write(
        &config,
        SOURCE.replace("control.example.com:6443", "127.0.0.1:1"),
    )
    .unwrap();
    let server = TestServer::with(vec![]).await;
    let path = config.display().to_string();
    let args = Command::parse_from(["kubeconfig", "--kubeconfig", &path, "--merge"]).args;
    let (is_complete, out, err) = server
        .run(async |console: &mut Console<'_>| kubeconfig(&args, console).await)
        .await;
    assert!(
        !is_complete && out.is_empty() && err.starts_with("error: cannot reach context prod"),
        "{err}"
    );
    assert!(!fs::read_to_string(&config).unwrap().contains("proxying"));
}
