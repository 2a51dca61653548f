//! The page "Install", typed from its first command to its last: from an empty control plane to
//! answers, and to nothing again.
//!
//! A shell runs the commands. Beside it is what a cluster has and this fleet has not: a kubelet,
//! which runs the operator with the chart's account, and the controllers of namespaces and of
//! tokens.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options},
    objects::Objects,
    operator::{API_PORT, Operator, OperatorOptions, fleetdex_program},
    parts::Part,
    poll::eventually,
    scenario::{DEADLINE, until},
    test_result::Tested,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::tool::{
    NAMESPACE, Release, kubeconfig_of_account, make_default_account, make_reachable, run_hook_job,
    run_test_pod,
};

const RELEASE: Release<'_> = Release {
    name: "fleetdex",
    namespace: NAMESPACE,
};
const MEMBER: &str = "member1";
/// Commands that make what is here already, or need a registry of images.
const NOT_TYPED: [&str; 3] = ["cargo install", "make image", "skopeo copy"];
/// What the chart's Deployment sets and a process on this machine has otherwise.
const OF_THE_POD: [&str; 3] = [
    "FLEETDEX_ADMIN_ADDRESS",
    "FLEETDEX_API_ADDRESS",
    "FLEETDEX_API_SERVICE",
];
/// Kinds of the control plane that a release and its users leave nothing of.
const KINDS: &str = "services,deployments,serviceaccounts,secrets,configmaps,leases,roles,rolebindings,clusterroles,clusterrolebindings,\
                     apiservices,customresourcedefinitions,namespaces";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/install.md")).unwrap()
}

/// The commands of each section, as one text.
fn sections(page: &str) -> Vec<(String, String)> {
    let mut sections: Vec<(String, String)> = Vec::new();
    let mut is_shell = false;
    for line in page.lines() {
        if let Some(title) = line
            .strip_prefix("# ")
            .or(line.strip_prefix("## "))
            .filter(|_| !is_shell)
        {
            sections.push((title.to_owned(), String::new()));
        } else if line == "```sh" {
            is_shell = true;
        } else if line == "```" {
            is_shell = false;
        } else if is_shell && !NOT_TYPED.iter().any(|command| line.starts_with(command)) {
            writeln!(sections.last_mut().unwrap().1, "{line}").unwrap();
        }
    }
    sections
}

/// A reader of the page, with programs and a kubeconfig.
struct Reader<'f> {
    fleet: &'f Fleet,
    folder: tempfile::TempDir,
}

impl<'f> Reader<'f> {
    fn new(fleet: &'f Fleet) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        symlink(Part::Helm.ensure().unwrap(), programs.join("helm")).unwrap();
        symlink(fleetdex_program().unwrap(), programs.join("fleetdex")).unwrap();
        // `kubectl exec` runs a command where the Pod runs: beside the operator, with its
        // environment.
        let kubectl = Part::Kubectl.ensure().unwrap();
        let script = format!(
            "#!/bin/bash\n\
             if [[ \" $* \" == *' exec deployment/fleetdex -- '* ]]; then\n\
             while [[ $1 != -- ]]; do shift; done\n\
             shift\n\
             unset KUBECONFIG\n\
             set -a; source '{}'; set +a\n\
             exec \"$@\"\n\
             fi\n\
             exec '{}' \"$@\"\n",
            folder.path().join("pod.env").display(),
            kubectl.display()
        );
        let path = programs.join("kubectl");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let reader = Self { fleet, folder };
        reader.write_kubeconfig();
        reader
    }

    /// The control plane is the current context; the member is another one.
    fn write_kubeconfig(&self) {
        let servers = [
            ("control-plane", self.fleet.control_plane()),
            (MEMBER, self.fleet.member(1)),
        ];
        let all = |make: &dyn Fn(&str, &ApiServer) -> Value| -> Vec<Value> {
            servers
                .iter()
                .map(|(name, server)| make(name, server))
                .collect()
        };
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "control-plane",
            "clusters": all(&|name, server| json!({ "name": name, "cluster": { "server": server.url(), "certificate-authority": server.ca_path() } })),
            "users": all(&|name, server| json!({ "name": name, "user": { "token": server.token() } })),
            "contexts": all(&|name, _| json!({ "name": name, "context": { "cluster": name, "user": name } })),
        });
        fs::write(self.path("kubeconfig"), config.to_string()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the page lets the reader set.
    fn settings(&self) -> BTreeMap<&'static str, String> {
        let mut settings = BTreeMap::from([
            ("MEMBER", MEMBER.to_owned()),
            ("ADDRESS", self.fleet.member(1).url().to_owned()),
        ]);
        if let Ok(server) = self.fleet.opensearch() {
            let (user, password) = server.username().zip(server.password()).unwrap();
            settings.insert("STORE", server.url().to_owned());
            settings.insert("STORE_CA", server.ca_path().unwrap().display().to_string());
            settings.insert("STORE_ADMIN", format!("{user}:{password}"));
        }
        settings
    }

    /// The commands, with the reader's settings in their places.
    fn script(&self, sections: &[(String, String)]) -> String {
        let settings = self.settings();
        let mut script = String::from("set -euo pipefail\n");
        for (title, commands) in sections {
            writeln!(script, "echo '== {title}'").unwrap();
            for line in commands.lines() {
                let set = line
                    .split_once('=')
                    .and_then(|(name, _)| Some((name, settings.get(name)?)));
                match set {
                    Some((name, value)) => writeln!(script, "{name}='{value}'").unwrap(),
                    None => writeln!(script, "{line}").unwrap(),
                }
            }
        }
        script
    }

    /// Runs them; fails unless each ends well. Returns what each section printed.
    async fn type_all(&self, sections: &[(String, String)]) -> BTreeMap<String, String> {
        let script = self.path("script");
        fs::write(&script, self.script(sections)).unwrap();
        let programs = self.path("bin").display().to_string();
        let output = Command::new("bash")
            .arg(&script)
            .current_dir(repository())
            .env(
                "PATH",
                format!("{programs}:{}", std::env::var("PATH").unwrap()),
            )
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("HOME", self.folder.path())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        eprintln!("{text}\n{errors}");
        assert!(output.status.success(), "{}", output.status);
        let printed = text.split("== ").skip(1);
        printed
            .map(|section| {
                let (title, text) = section.split_once('\n').unwrap();
                (title.to_owned(), text.to_owned())
            })
            .collect()
    }

    /// What a cluster does for a release, until it is uninstalled.
    async fn run_cluster(&self) {
        let server = self.fleet.control_plane();
        let hub = Objects::of(server).unwrap();
        run_hook_job(server, &RELEASE).await;
        let path = format!("apis/apps/v1/namespaces/{NAMESPACE}/deployments/fleetdex");
        let deployment = until("helm creates the Deployment", || hub.get(&path))
            .await
            .unwrap();
        let operator = self.start_pod(&hub, &deployment).await;
        run_test_pod(server, &RELEASE, &operator.admin_url()).await;
        until_gone(&hub, &path).await;
        assert!(operator.terminate(DEADLINE).await.unwrap().success());
        end_namespace(&hub).await;
    }

    async fn start_pod(&self, hub: &Objects, deployment: &Value) -> Operator {
        let server = self.fleet.control_plane();
        let pod = &deployment["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().unwrap();
        let variables = pod["containers"][0]["env"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let environment: Vec<(String, String)> = variables
            .map(|variable| (text(&variable["name"]), text(&variable["value"])))
            .collect();
        let has_api = environment
            .iter()
            .any(|(name, _)| name == "FLEETDEX_API_SERVICE");
        let kubeconfig = kubeconfig_of_account(server, NAMESPACE, account).await;
        let mut arguments = ["--probe-interval=1", "--connect-retry=1"]
            .map(str::to_owned)
            .to_vec();
        if has_api {
            make_reachable(hub).await;
            arguments.push(format!("--api-service={NAMESPACE}/fleetdex-api"));
            arguments.push(format!("--api-service-port={API_PORT}"));
        } else {
            make_default_account(hub, NAMESPACE).await;
        }
        let of_process = environment
            .into_iter()
            .filter(|(name, _)| !OF_THE_POD.contains(&name.as_str()));
        let operator = Operator::start(OperatorOptions {
            kubeconfig: kubeconfig.clone(),
            dir: self.fleet.dir().to_owned(),
            arguments,
            environment: of_process.clone().collect(),
        })
        .unwrap();
        let mut file = format!(
            "FLEETDEX_KUBECONFIG='{}'\nFLEETDEX_DOCTOR_ADMIN_URL={}\nFLEETDEX_SERVER=http://{}\nFLEETDEX_TOKEN_FILE='{}'\n",
            kubeconfig.display(),
            operator.admin_url(),
            operator.api_address(),
            operator.token_file().display(),
        );
        if has_api {
            writeln!(file, "FLEETDEX_API_SERVICE={NAMESPACE}/fleetdex-api").unwrap();
        }
        for (name, value) in of_process {
            writeln!(file, "{name}='{value}'").unwrap();
        }
        fs::write(self.path("pod.env"), file).unwrap();
        operator
    }

    /// What a cluster does for the account in the member.
    async fn run_member(&self) {
        let server = self.fleet.member(1);
        let member = Objects::of(server).unwrap();
        let path = format!("api/v1/namespaces/{NAMESPACE}/secrets/fleetdex-token");
        eventually("the Secret of the token", Duration::from_mins(5), || {
            member.get(&path)
        })
        .await
        .unwrap();
        let kubectl = server.kubectl().unwrap();
        let create = [
            "create",
            "token",
            "fleetdex",
            "-n",
            NAMESPACE,
            "--duration=8760h",
        ];
        let token = kubectl.run(&create).await.unwrap();
        let data = json!({ "stringData": { "token": token.trim(), "ca.crt": server.ca_pem() } });
        member.merge(&path, &data).await.unwrap();
        end_namespace(&member).await;
    }
}

async fn until_gone(objects: &Objects, path: &str) {
    eventually("it is deleted", Duration::from_mins(10), || async {
        anyhow::ensure!(objects.find(path).await?.is_none(), "{path} is there");
        Ok(())
    })
    .await
    .unwrap();
}

/// What the controller of namespaces does once the namespace is being deleted, for what is left in
/// it here.
async fn end_namespace(objects: &Objects) {
    let path = format!("api/v1/namespaces/{NAMESPACE}");
    let mut namespace = eventually(
        "the namespace is deleted",
        Duration::from_mins(10),
        || async {
            let found = objects.get(&path).await?;
            anyhow::ensure!(
                found["metadata"]["deletionTimestamp"].is_string(),
                "not yet"
            );
            Ok(found)
        },
    )
    .await
    .unwrap();
    for collection in ["secrets", "serviceaccounts", "configmaps", "services"] {
        let list = objects.get(&format!("{path}/{collection}")).await.unwrap();
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            objects
                .delete(&format!("{path}/{collection}/{name}"))
                .await
                .unwrap();
        }
    }
    namespace["spec"]["finalizers"] = json!([]);
    let finalize = format!("{path}/finalize");
    objects.replace(&finalize, &namespace).await.unwrap();
}

async fn everything_on(server: &ApiServer) -> Tested<Vec<String>> {
    let kubectl = server.kubectl()?;
    let list = kubectl.run(&["get", KINDS, "-A", "-o", "name"]).await?;
    let mut names: Vec<String> = list.lines().map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

async fn fill(member: &Objects) -> Tested {
    let template = json!({ "metadata": { "labels": { "app": "shop" } }, "spec": { "containers": [{ "name": "main", "image": "example.com/shop" }] } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "shop-0" }, "spec": template["spec"] });
    make_default_account(member, "default").await;
    member
        .apply("api/v1/namespaces/default/pods/shop-0", &pod)
        .await?;
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop" },
        "spec": { "selector": { "matchLabels": { "app": "shop" } }, "template": template } });
    member
        .apply(
            "apis/apps/v1/namespaces/default/deployments/shop",
            &deployment,
        )
        .await?;
    Ok(())
}

/// Types the sections on a new fleet, and checks that they leave nothing.
async fn type_page(
    opensearch: OpenSearchKind,
    sections: &[(String, String)],
) -> Tested<BTreeMap<String, String>> {
    let options = Options::of(1, opensearch);
    let fleet = Fleet::start(options).await?;
    let (server, member) = (fleet.control_plane(), fleet.member(1));
    fill(&Objects::of(member)?).await?;
    let before = [everything_on(server).await?, everything_on(member).await?];
    let reader = Reader::new(&fleet);
    let (printed, (), ()) = tokio::join!(
        reader.type_all(sections),
        reader.run_cluster(),
        reader.run_member(),
    );
    assert_eq!(
        [everything_on(server).await?, everything_on(member).await?],
        before
    );
    if let Ok(opensearch) = fleet.opensearch() {
        let client = opensearch.client()?;
        let indices = client.get("fleetdex*/_alias?expand_wildcards=all").await?;
        assert_eq!(indices, json!({}));
        let templates = client
            .send(Method::GET, "_index_template/fleetdex*", None)
            .await?;
        assert_eq!(templates.body["index_templates"], json!([]));
    }
    Ok(printed)
}

#[tokio::test]
async fn the_page_leads_to_an_answer_and_to_nothing_again() -> Tested {
    let printed = type_page(OpenSearchKind::Secure, &sections(&page())).await?;
    let answer = &printed["6. The first answer"];
    for part in ["member1", "Current", "shop-0", "DeploymentList"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let (_, doctor) = answer.split_once("fleetdex-users created").unwrap();
    assert!(doctor.contains("permissions"), "{doctor}");
    for status in ["Error", "Skipped", "Warning"] {
        assert!(!doctor.contains(status), "{doctor}");
    }
    Ok(())
}

/// What the page says about other ways: no query API at the control plane, and no OpenSearch.
#[tokio::test]
async fn the_page_leads_to_an_answer_without_opensearch_and_api() -> Tested {
    let page = page();
    let in_the_pod = page
        .lines()
        .find_map(|line| line.trim().strip_prefix('`')?.strip_suffix("`."))
        .filter(|command| command.ends_with("fleetdex get pods -A"))
        .expect("the command for api.enabled=false");
    let mut sections = sections(&page);
    sections.retain(|(title, _)| !title.starts_with("4."));
    for (title, commands) in &mut sections {
        let number = title.chars().next().unwrap_or_default();
        match number {
            '2' => {
                *commands = commands.replace(
                    "--set clusterStatus=true",
                    "--set clusterStatus=true --set api.enabled=false",
                );
            }
            '5' => {
                let start = commands.find("  backendStore:").unwrap();
                let end = commands.find("END\nkubectl wait").unwrap();
                commands.replace_range(start..end, "");
            }
            '6' => *commands = format!("{in_the_pod}\n"),
            _ => {}
        }
        // There is no role for users without the API.
        *commands = commands.replace("kubectl delete clusterrolebinding fleetdex-users\n", "");
    }
    let printed = type_page(OpenSearchKind::None, &sections).await?;
    let answer = &printed["6. The first answer"];
    assert!(answer.contains("shop-0"), "{answer}");
    Ok(())
}
