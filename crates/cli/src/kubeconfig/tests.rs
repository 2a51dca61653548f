use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
};

use clap::Parser;
use fleetdex_clusters::source::is_fleet_url;
use fleetdex_core::model::causes;
use kube::config::Kubeconfig;
use reqwest::Url;
use serde_json::{Value, json};

use super::{
    entries::{Entries, URL_USER},
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

/// The entries for a server without TLS, whose URL has a password.
fn with_password(folder: &std::path::Path) -> Entries {
    let token_file = folder.join("token");
    fs::write(&token_file, "0123").unwrap();
    direct("fleet", "http://127.0.0.1:8443", &token_file).unwrap()
}

#[test]
fn a_malformed_file_is_reported_with_the_line_and_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let malformed = SOURCE.replace(r#"{token: "0123""#, r#"{token: {"hunter2": hunter3}"#);
    fs::write(&path, malformed).unwrap();
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    let error = causes(&file.merge(&entries, false).unwrap_err());
    assert!(
        error.contains("users and contexts at line 11, column 17;") && !error.contains("hunter"),
        "{error}"
    );
}

#[test]
fn a_file_into_which_a_password_is_written_becomes_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, SOURCE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    file.merge(&with_password(folder.path()), false).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_file_keeps_its_owner_and_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, SOURCE).unwrap();
    let (owner, group) = (12_345, 23_456);
    if chown(&path, Some(owner), Some(group)).is_err() {
        return; // Only root may do that.
    }
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    file.merge(&entries, false).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (owner, group));
}

#[test]
fn a_link_to_a_file_that_does_not_exist_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    symlink("second", &path).unwrap();
    symlink("dotfiles/config", folder.path().join("second")).unwrap();
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    file.merge(&entries, false).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    let created = fs::read_to_string(folder.path().join("dotfiles/config")).unwrap();
    assert_eq!(value(&created)["contexts"][0]["name"], "fleet");
}

#[test]
fn a_file_is_read_in_every_encoding_that_kube_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let file = KubeconfigTarget::locate(Some(&path)).unwrap();
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    let marked = format!("\u{feff}{SOURCE}");
    let utf16 = |encode: fn(u16) -> [u8; 2]| marked.encode_utf16().flat_map(encode).collect();
    let encodings: [Vec<u8>; 3] = [
        marked.clone().into_bytes(),
        utf16(u16::to_le_bytes),
        utf16(u16::to_be_bytes),
    ];
    for encoded in encodings {
        fs::write(&path, encoded).unwrap();
        file.merge(&entries, false).unwrap();
        let merged = Kubeconfig::read_from(&path).unwrap();
        assert_eq!(merged.contexts.len(), 2);
    }
    fs::write(&path, b"\xff\xfea").unwrap();
    let error = causes(&file.merge(&entries, false).unwrap_err());
    assert!(error.contains("it is not Unicode text"), "{error}");
}

#[test]
fn a_name_in_another_file_of_kubeconfig_is_taken_too() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    fs::write(&first, SOURCE).unwrap();
    let absent = folder.path().join("absent");
    let files = vec![absent, first.clone(), second.clone()];
    let target = KubeconfigTarget::first_of(files).unwrap();
    assert_eq!(target.path(), first);
    let entries = through_apiserver("fleet", &source(), None, "config").unwrap();
    fs::write(&second, SOURCE.replace("name: prod", "name: fleet")).unwrap();
    let taken = target.merge(&entries, false).unwrap_err().to_string();
    assert!(
        taken.starts_with(&format!("{} has a cluster \"fleet\"", second.display())),
        "{taken}"
    );
    fs::write(&second, SOURCE.replace("name: admin", "name: fleet")).unwrap();
    let with_user = direct("fleet", "https://127.0.0.1:8443", &second).unwrap();
    let taken = target.merge(&with_user, false).unwrap_err().to_string();
    assert!(taken.contains("has a user \"fleet\""), "{taken}");
    assert_eq!(fs::read_to_string(&first).unwrap(), SOURCE);
    // Another context of a fleet may have the name.
    let alone = KubeconfigTarget::locate(Some(&second)).unwrap();
    alone.merge(&entries, false).unwrap();
    target.merge(&entries, false).unwrap();
}

#[tokio::test]
async fn the_printed_context_of_a_server_on_this_machine_authenticates() {
    let server = TestServer::with(vec![]).await;
    let args = Command::parse_from(server.words("kubeconfig", &[])).args;
    let (_, text, _) = server
        .run(async |console: &mut Console<'_>| kubeconfig(&args, console).await)
        .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, text).unwrap();
    let config = ClientConfig::Apiserver {
        kubeconfig: Some(path),
        context: Some("fleet".to_owned()),
    };
    Api::new(&config).await.unwrap().check().await.unwrap();
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
