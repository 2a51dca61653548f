//! `fleetdex local`, as people start it: two clusters of a kubeconfig, and questions from another process.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::fleet::ports::Port;
use e2e::fleet::process::{Guard, Process, Start};
use e2e::fleet::{Fleet, OpenSearchKind, Options};
use e2e::objects::{Objects, config_map_path};
use e2e::operator::fleetdex_program;
use e2e::poll::eventually;
use e2e::scenario::PATIENCE;
use serde_json::{Value, json};

/// A kubeconfig with a context for each member, another for the first one, and one that leads nowhere.
fn kubeconfig(fleet: &Fleet) -> Value {
    let mut config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "east",
        "clusters": [{ "name": "nowhere", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "nobody", "user": { "token": "x" } }],
        "contexts": [{ "name": "lost", "context": { "cluster": "nowhere", "user": "nobody" } }],
    });
    let mut push = |list: &str, entry: Value| config[list].as_array_mut().unwrap().push(entry);
    for (name, member) in ["east", "west"].iter().zip(fleet.members()) {
        let authority = STANDARD.encode(member.ca_pem());
        push("clusters", json!({ "name": name, "cluster": { "server": member.url(), "certificate-authority-data": authority } }));
        push("users", json!({ "name": name, "user": { "token": member.token() } }));
        push("contexts", json!({ "name": name, "context": { "cluster": name, "user": name } }));
    }
    push("contexts", json!({ "name": "east-again", "context": { "cluster": "east", "user": "east" } }));
    config
}

struct Local {
    process: Process,
    runtime_folder: std::path::PathBuf,
    port: Port,
    _guard: Guard,
}

impl Local {
    fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let guard = Guard::start(&[])?;
        let port = Port::reserve()?;
        let runtime_folder = folder.join("run");
        fs::create_dir_all(&runtime_folder)?;
        let usual = ["local".to_owned(), format!("--api-address=127.0.0.1:{}", port.number())];
        let start = Start {
            program: fleetdex_program()?,
            arguments: usual.into_iter().chain(arguments.iter().map(|&argument| argument.to_owned())).collect(),
            environment: vec![
                ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
                ("XDG_RUNTIME_DIR".to_owned(), runtime_folder.display().to_string()),
            ],
            user: None,
            folder: folder.to_owned(),
        };
        let process = Process::new("local", start, folder.join("local.log"), guard.group());
        process.spawn()?;
        Ok(Self { process, runtime_folder, port, _guard: guard })
    }

    /// Runs `fleetdex get`, which finds the token by itself.
    async fn get(&self, arguments: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::new(fleetdex_program()?);
        command.arg("get").args(arguments).env("XDG_RUNTIME_DIR", &self.runtime_folder);
        command.env("FLEETDEX_SERVER", format!("http://127.0.0.1:{}", self.port.number()));
        let output = command.kill_on_drop(true).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn until(&self, arguments: &[&str], expected: &[&str]) {
        let what = format!("fleetdex get {} shows {expected:?}", arguments.join(" "));
        eventually(&what, PATIENCE, || async {
            self.process.check_running()?;
            let shown = self.get(arguments).await?;
            let lines: Vec<&str> = shown.lines().collect();
            ensure!(lines.len() == expected.len() && expected.iter().all(|part| shown.contains(part)), "{shown}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn until_told(&self, parts: &[&str]) {
        eventually(&format!("fleetdex local says {parts:?}"), PATIENCE, || async {
            let log = fs::read_to_string(self.process.log()).context("reading the output")?;
            let missing: Vec<&&str> = parts.iter().filter(|part| !log.contains(**part)).collect();
            ensure!(missing.is_empty(), "missing {missing:?} in\n{log}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn the_contexts_of_a_kubeconfig_are_one_fleet() {
    let fleet = Fleet::start(Options { members: 2, opensearch: OpenSearchKind::None, ..Options::default() }).await.unwrap();
    let members = [Objects::of(fleet.member(1).unwrap()).unwrap(), Objects::of(fleet.member(2).unwrap()).unwrap()];
    for member in &members {
        member.create_namespace("web").await.unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-1", "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/web" }] },
        });
        member.apply("api/v1/namespaces/web/pods/web-1", &pod).await.unwrap();
        member.apply_config_map("web", "one", &json!({ "a": "b" })).await.unwrap();
    }
    let folder = fleet.dir().join("local");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kubeconfig.json");
    fs::write(&path, kubeconfig(&fleet).to_string()).unwrap();

    let local = Local::start(&folder, &path, &[]).unwrap();
    local.until(&["pods", "-A", "-l", "app=web", "-o", "name"], &["pod/web-1", "pod/web-1"]).await;
    local.until(&["pods", "-A", "-l", "app=web"], &["CLUSTER", "east", "west"]).await;
    local
        .until_told(&[
            "east: in sync, 20 kinds",
            "west: in sync",
            "lost: not reachable",
            "east-again: left out",
            "ready: fleetdex get",
        ])
        .await;
    members[0].delete("api/v1/namespaces/web/pods/web-1?gracePeriodSeconds=0").await.unwrap();
    local.until(&["pods", "-A", "-l", "app=web"], &["CLUSTER", "west"]).await;
    members[1].delete(&config_map_path("web", "one")).await.unwrap();
    local.until(&["cm", "-n", "web", "--field-selector", "metadata.name=one"], &["CLUSTER", "east"]).await;
    let refused = local.get(&["secrets", "-A"]).await.unwrap_err().to_string();
    assert!(refused.contains("secrets"), "Secrets are only read when somebody names them: {refused}");
    let ended = local.process.terminate(PATIENCE).await.unwrap();
    assert!(ended.success(), "{ended}");
    assert!(!local.runtime_folder.join("fleetdex/token").exists(), "the token outlives its server");

    let some = Local::start(&folder, &path, &["--context=west", "--resource=secrets,namespaces"]).unwrap();
    some.until(&["ns", "--field-selector", "metadata.name=web"], &["CLUSTER", "west"]).await;
    assert!(some.get(&["pods", "-A"]).await.is_err());
}
