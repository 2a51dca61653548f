//! Runs helm, and does for its hooks what a kubelet would.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use e2e::{
    fleet::ApiServer, objects::Objects, operator::fleetdex_program, parts::Part, scenario::until,
    test_result::Tested,
};
use serde_json::{Value, json};
use tokio::process::Command;

/// The namespace of the release.
pub const NAMESPACE: &str = "fleetdex-system";
/// A time at which hooks of tests begin and end.
const TIME: &str = "2026-01-01T00:00:00Z";

/// The chart of this repository.
pub fn chart() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../helm/fleetdex");
    folder.display().to_string()
}

/// The package of an earlier version of the chart.
pub fn earlier_chart() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/security/charts");
    folder.join("fleetdex-0.1.0.tgz").display().to_string()
}

/// What a program printed, and whether it succeeded.
#[derive(Debug)]
pub struct Printed {
    pub success: bool,
    pub text: String,
}

async fn run(mut command: Command) -> Printed {
    let output = command.kill_on_drop(true).output().await.unwrap();
    Printed {
        success: output.status.success(),
        text: String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    }
}

/// helm at one control plane, or at none.
#[derive(Clone)]
pub struct Helm<'s> {
    program: PathBuf,
    server: Option<&'s ApiServer>,
}

impl<'s> Helm<'s> {
    /// Without a control plane: renders and checks charts.
    pub fn offline() -> Self {
        Self {
            program: Part::Helm.ensure().unwrap(),
            server: None,
        }
    }

    pub fn of(server: &'s ApiServer) -> Self {
        Self {
            server: Some(server),
            ..Self::offline()
        }
    }

    /// helm 3.
    pub fn before(self) -> Self {
        Self {
            program: Part::Helm3.ensure().unwrap(),
            ..self
        }
    }

    pub async fn output(&self, arguments: &[&str]) -> Printed {
        let mut command = Command::new(&self.program);
        if let Some(server) = self.server {
            let kubeconfig = server.kubeconfig();
            command.args(["--kubeconfig", &kubeconfig.display().to_string()]);
            for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
                command.env(variable, kubeconfig.with_extension("helm"));
            }
        }
        command.args(arguments);
        run(command).await
    }

    pub async fn run(&self, arguments: &[&str]) -> String {
        let printed = self.output(arguments).await;
        assert!(
            printed.success,
            "helm {}: {}",
            arguments.join(" "),
            printed.text
        );
        printed.text
    }

    /// Fails unless helm fails with all of these texts.
    pub async fn refuses(&self, arguments: &[&str], texts: &[&str]) {
        let Printed { success, text } = self.output(arguments).await;
        let is_named = texts.iter().all(|part| text.contains(part));
        assert!(!success && is_named, "{arguments:?}: {text}");
    }

    /// Runs helm with a chart whose hook Job applies the CRDs; returns what helm and the Job print.
    pub async fn run_with_job(
        &self,
        release: &Release<'_>,
        arguments: &[&str],
    ) -> (String, String) {
        let server = self.server.unwrap();
        tokio::join!(self.run(arguments), run_hook_job(server, release))
    }
}

/// A release by its name and namespace.
#[derive(Clone, Copy)]
pub struct Release<'r> {
    pub name: &'r str,
    pub namespace: &'r str,
}

impl Release<'_> {
    /// The name of its objects.
    pub fn full_name(&self) -> String {
        if self.name.contains("fleetdex") {
            self.name.to_owned()
        } else {
            format!("{}-fleetdex", self.name)
        }
    }
}

/// The arguments of `helm install` and `helm upgrade`.
pub fn on_release<'a>(
    verb: &'a str,
    release: &Release<'a>,
    chart: &'a str,
    more: &[&'a str],
) -> Vec<&'a str> {
    [
        &[verb, release.name, chart, "-n", release.namespace][..],
        more,
    ]
    .concat()
}

/// A kubeconfig with a token of a service account.
pub async fn kubeconfig_of_account(server: &ApiServer, namespace: &str, account: &str) -> PathBuf {
    let kubectl = server.kubectl().unwrap();
    let create = ["create", "token", account, "-n", namespace, "--duration=1h"];
    let token = kubectl.run(&create).await.unwrap();
    let path = server
        .kubeconfig()
        .with_extension(format!("{namespace}-{account}"));
    std::fs::write(&path, server.kubeconfig_with(account, token.trim())).unwrap();
    path
}

/// `fleetdex` with these arguments, as an account whose kubeconfig this is.
pub async fn fleetdex(kubeconfig: &Path, arguments: &[&str]) -> Printed {
    let mut command = Command::new(fleetdex_program().unwrap());
    command
        .args(arguments)
        .env("FLEETDEX_KUBECONFIG", kubeconfig);
    run(command).await
}

/// The arguments of the only container of a Pod.
pub fn arguments_of(pod_spec: &Value) -> Vec<String> {
    serde_json::from_value(pod_spec["containers"][0]["args"].clone()).unwrap()
}

/// What a kubelet would do for the hook Job: runs its command with the rights of its service
/// account, and reports its end.
pub async fn run_hook_job(server: &ApiServer, release: &Release<'_>) -> String {
    let hub = Objects::of(server).unwrap();
    let namespace = release.namespace;
    let path = format!(
        "apis/batch/v1/namespaces/{namespace}/jobs/{}-crds",
        release.full_name()
    );
    let job = until("helm creates the hook Job", || hub.get(&path))
        .await
        .unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().unwrap();
    let kubeconfig = kubeconfig_of_account(server, namespace, account).await;
    let arguments = arguments_of(pod);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let printed = fleetdex(&kubeconfig, &arguments).await;
    assert!(printed.success, "{}", printed.text);
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastProbeTime": TIME, "lastTransitionTime": TIME });
    let status = json!({ "status": {
        "startTime": TIME, "completionTime": TIME, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    } });
    hub.merge(&format!("{path}/status"), &status).await.unwrap();
    printed.text
}

/// Runs `helm test`, and what its Pod runs.
pub async fn run_helm_test(server: &ApiServer, release: &Release<'_>, admin_url: &str) -> String {
    let test = ["test", release.name, "-n", release.namespace];
    let helm = Helm::of(server);
    let (ended, printed) = tokio::join!(helm.run(&test), run_test_pod(server, release, admin_url));
    assert!(ended.contains("Succeeded"), "{ended}");
    printed
}

/// What a kubelet would do for the Pod of `helm test`, with the address of the admin port instead
/// of that of the Service, which only a cluster's network has.
pub async fn run_test_pod(server: &ApiServer, release: &Release<'_>, admin_url: &str) -> String {
    let hub = Objects::of(server).unwrap();
    let namespace = release.namespace;
    let path = format!(
        "api/v1/namespaces/{namespace}/pods/{}-test",
        release.full_name()
    );
    let pod = until("helm creates the Pod", || hub.get(&path))
        .await
        .unwrap();
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
    let kubeconfig = kubeconfig_of_account(server, namespace, account).await;
    let mut arguments = arguments_of(&pod["spec"]);
    for argument in &mut arguments {
        if argument.starts_with("--admin-url=") {
            *argument = format!("--admin-url={admin_url}");
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let printed = fleetdex(&kubeconfig, &arguments).await;
    assert!(printed.success, "{}", printed.text);
    let status = json!({ "status": { "phase": "Succeeded" } });
    hub.merge(&format!("{path}/status"), &status).await.unwrap();
    printed.text
}

/// Lets the API server forward requests to an operator that runs on this machine instead of in a
/// Pod.
pub async fn make_reachable(hub: &Objects) {
    let path = format!("api/v1/namespaces/{NAMESPACE}/services/fleetdex-api");
    hub.delete(&path).await.unwrap();
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "fleetdex-api" },
        "spec": { "type": "ExternalName", "externalName": "localhost" } });
    hub.apply(&path, &service).await.unwrap();
    make_default_account(hub, NAMESPACE).await;
}

/// The account of Pods that name none, which a controller makes in each namespace.
pub async fn make_default_account(objects: &Objects, namespace: &str) {
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    let path = format!("api/v1/namespaces/{namespace}/serviceaccounts/default");
    objects.apply(&path, &account).await.unwrap();
}

/// Waits until the CRDs' resources are served.
pub async fn until_served(hub: &Objects) -> Tested {
    until("the CRDs are served", || async {
        hub.get("apis/cluster.karmada.io/v1alpha1/clusters").await?;
        hub.get("apis/search.karmada.io/v1alpha1/resourceregistries")
            .await
    })
    .await?;
    Ok(())
}

/// Reads one CRD.
pub async fn crd(hub: &Objects, name: &str) -> Option<Value> {
    let path = format!("apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    hub.find(&path).await.unwrap()
}

/// Fails unless `lines` has a line for each CRD, but for those of distribution, that begins with
/// its name and this result.
pub fn each_crd_is(lines: &str, result: &str) -> anyhow::Result<()> {
    for file in fleetdex_cli::crd::without_distribution() {
        let name = file.crd.metadata.name.context("a CRD without a name")?;
        let line = format!("{name}: {result}\n");
        ensure!(lines.contains(&line), "no line {line:?} in\n{lines}");
    }
    Ok(())
}
