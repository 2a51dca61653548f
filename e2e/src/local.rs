//! `fleetdex local` as a child process, and commands that query it.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    arguments::Arguments,
    fleet::{
        Fleet,
        ports::Port,
        process::{Guard, Process, Start},
    },
    operator::{CommandResult, fleetdex_program},
    scenario::until,
};

/// A kubeconfig with a context for each member, a second one for the first member, and one that is
/// unreachable.
pub fn kubeconfig(fleet: &Fleet) -> Value {
    let mut config = kubeconfig_of_members(fleet);
    config["current-context"] = json!("east");
    let nowhere = json!({ "server": "https://127.0.0.1:1" });
    push(&mut config, "cluster", "nowhere", &nowhere);
    push(&mut config, "user", "unused", &json!({ "token": "x" }));
    let lost = json!({ "cluster": "nowhere", "user": "unused" });
    push(&mut config, "context", "lost", &lost);
    let again = json!({ "cluster": "east", "user": "east" });
    push(&mut config, "context", "east-again", &again);
    config
}

/// A kubeconfig with a context for each member.
pub fn kubeconfig_of_members(fleet: &Fleet) -> Value {
    let mut config = json!({ "apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [] });
    for (name, member) in ["east", "west"].iter().zip(fleet.members()) {
        let authority = STANDARD.encode(member.ca_pem());
        let cluster = json!({ "server": member.url(), "certificate-authority-data": authority });
        let context = json!({ "cluster": name, "user": name });
        push(&mut config, "cluster", name, &cluster);
        let body = json!({ "token": member.token() });
        push(&mut config, "user", name, &body);
        push(&mut config, "context", name, &context);
    }
    config
}

/// Adds a named cluster, user or context.
fn push(config: &mut Value, field: &str, name: &str, value: &Value) {
    let list = &mut config[format!("{field}s")];
    if let Some(entries) = list.as_array_mut() {
        entries.push(json!({ "name": name, field: value }));
    }
}

/// A running `fleetdex local`.
pub struct Local {
    /// Its process.
    pub process: Process,
    /// The file with its token.
    pub runtime_folder: std::path::PathBuf,
    port: Port,
    _guard: Guard,
}

impl Local {
    /// Starts it in `folder`.
    pub fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let guard = Guard::start(&[])?;
        let port = Port::reserve()?;
        let (runtime_folder, log) = (folder.join("run"), folder.join("local.log"));
        // The log and the token of an earlier run in this folder say nothing about this one.
        if fs::exists(&runtime_folder)? {
            fs::remove_dir_all(&runtime_folder)?;
        }
        if fs::exists(&log)? {
            fs::remove_file(&log)?;
        }
        fs::create_dir_all(&runtime_folder)?;
        let usual = [
            "local".to_owned(),
            format!("--api-address=127.0.0.1:{}", port.number()),
        ];
        let start = Start {
            program: fleetdex_program()?,
            arguments: usual
                .into_iter()
                .chain(arguments.iter().map(|&argument| argument.to_owned()))
                .collect(),
            environment: vec![
                ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
                (
                    "XDG_RUNTIME_DIR".to_owned(),
                    runtime_folder.display().to_string(),
                ),
            ],
            user: None,
            folder: folder.to_owned(),
        };
        let process = Process::new("local", start, log, guard.group());
        process.spawn()?;
        Ok(Self {
            process,
            runtime_folder,
            port,
            _guard: guard,
        })
    }

    /// Runs a command that queries it and finds the token by itself.
    pub async fn run_command(
        &self,
        arguments: &(impl Arguments + ?Sized),
    ) -> Result<CommandResult> {
        CommandResult::of(&self.command(arguments)?.output().await?)
    }

    /// `127.0.0.1:<port>` of its query API.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// A command that queries it, not yet started. It is killed when its handle is dropped.
    pub fn command(&self, arguments: &(impl Arguments + ?Sized)) -> Result<Command> {
        let mut command = Command::new(fleetdex_program()?);
        command
            .args(arguments.words())
            .env("XDG_RUNTIME_DIR", &self.runtime_folder)
            .kill_on_drop(true);
        command.env(
            "FLEETDEX_SERVER",
            format!("http://127.0.0.1:{}", self.port.number()),
        );
        Ok(command)
    }

    /// Runs `fleetdex get` and returns its standard output.
    pub async fn get(&self, arguments: &(impl Arguments + ?Sized)) -> Result<String> {
        let all = [&["get"], &arguments.words()[..]].concat();
        let result = self.run_command(&all).await?;
        ensure!(result.code == 0, "{}", result.err);
        Ok(result.out)
    }

    /// Waits until `fleetdex get` shows a line for each of these texts.
    pub async fn until(&self, arguments: &str, expected: &[&str]) -> Result<()> {
        let what = format!("fleetdex get {arguments} shows {expected:?}");
        until(&what, || async {
            self.process.check_running()?;
            let shown = self.get(arguments).await?;
            let lines: Vec<&str> = shown.lines().collect();
            ensure!(
                lines.len() == expected.len() && expected.iter().all(|part| shown.contains(part)),
                "{shown}"
            );
            Ok(())
        })
        .await
    }

    /// Waits until its log contains all of these texts.
    pub async fn until_logged(&self, parts: &[&str]) -> Result<()> {
        until(&format!("fleetdex local logs {parts:?}"), || async {
            let log = fs::read_to_string(self.process.log()).context("reading the output")?;
            let missing: Vec<&&str> = parts.iter().filter(|part| !log.contains(**part)).collect();
            ensure!(missing.is_empty(), "missing {missing:?} in\n{log}");
            Ok(())
        })
        .await
    }
}
