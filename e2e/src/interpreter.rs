//! The example interpreter webhook, `examples/workload-interpreter`, as a child process with a
//! certificate of its own authority.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    fleet::{
        certificates::Authority,
        ports::Port,
        process::{Guard, Process, Start},
        unique,
    },
    http,
    objects::Objects,
    operator::built_program,
    poll::eventually,
    scenario::repository_file,
};

/// The name of its Service and of the Service's namespace, which its manifests refer to.
const SERVICE: &str = "workload-interpreter";
/// The name by which Fleetdex verifies the certificate when it calls the Service.
const SERVICE_HOST: &str = "workload-interpreter.workload-interpreter.svc";
/// How long its start may take on a busy machine.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// A running interpreter of `Workload`s. It is killed when dropped.
#[derive(Debug)]
pub struct WorkloadInterpreter {
    process: Process,
    port: Port,
    authority: Authority,
    _guard: Guard,
}

impl WorkloadInterpreter {
    /// Starts it; logs and certificates go to `folder`.
    pub async fn start(folder: &Path) -> Result<Self> {
        let name = unique("workload-interpreter");
        let authority = Authority::new("workload-interpreter-ca")?;
        let identity = authority.server_at(&name, &[SERVICE_HOST, "127.0.0.1"])?;
        let (certificate, key) = identity.write(folder, &name)?;
        let (guard, port) = (Guard::start(&[])?, Port::reserve()?);
        let start = Start {
            program: built_program("workload-interpreter")?,
            arguments: vec![
                format!("--address=127.0.0.1:{}", port.number()),
                format!("--tls-cert-file={}", certificate.display()),
                format!("--tls-private-key-file={}", key.display()),
            ],
            folder: folder.to_owned(),
            ..Start::default()
        };
        let log = folder.join(format!("{name}.log"));
        let process = Process::new(&name, start, log, guard.group());
        let interpreter = Self {
            process,
            port,
            authority,
            _guard: guard,
        };
        interpreter.restart().await?;
        Ok(interpreter)
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts it with the same certificate and port; kills it first if it runs.
    pub async fn restart(&self) -> Result<()> {
        self.process.kill();
        self.process.spawn()?;
        let client = http::client(Some(self.authority.pem()))?;
        let url = format!("https://127.0.0.1:{}/healthz", self.port.number());
        eventually("the interpreter is ready", START_DEADLINE, || async {
            self.process.check_running()?;
            let status = client.get(&url).send().await?.status();
            ensure!(status.is_success(), "{status}");
            Ok(())
        })
        .await
    }

    /// Creates the Service of its manifests, which leads to this machine, on the control plane.
    pub async fn make_service(&self, hub: &Objects) -> Result<()> {
        hub.create_namespace(SERVICE).await?;
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVICE },
            "spec": { "type": "ExternalName", "externalName": "localhost" } });
        hub.apply(
            &format!("api/v1/namespaces/{SERVICE}/services/{SERVICE}"),
            &service,
        )
        .await
        .map(drop)
    }

    /// A webhook configuration of its manifests, which calls this process through the
    /// [Service](Self::make_service).
    pub fn configuration(&self, file: &str) -> Result<Value> {
        let authority = STANDARD.encode(self.authority.pem());
        let text = repository_file(&manifest_path(file))?.replace("<ca.crt>", &authority);
        let mut configuration: Value =
            serde_saphyr::from_str(&text).with_context(|| file.to_owned())?;
        configuration["webhooks"][0]["clientConfig"]["service"]["port"] = json!(self.port.number());
        Ok(configuration)
    }

    /// The same, but it calls this process by its URL.
    pub fn configuration_with_url(&self, file: &str) -> Result<Value> {
        let mut configuration = self.configuration(file)?;
        let client = &mut configuration["webhooks"][0]["clientConfig"];
        *client = json!({
            "url": format!("https://127.0.0.1:{}/interpret-workload", self.port.number()),
            "caBundle": client["caBundle"],
        });
        Ok(configuration)
    }
}

/// An object of the manifests of the example.
pub fn manifest(file: &str) -> Result<Value> {
    let text = repository_file(&manifest_path(file))?;
    serde_saphyr::from_str(&text).with_context(|| file.to_owned())
}

fn manifest_path(file: &str) -> String {
    format!("examples/workload-interpreter/manifests/{file}")
}
