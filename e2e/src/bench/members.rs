//! Many members, all served by one simulated process, and their registries.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{simulated::start_apiserver, sizes::DEADLINE};
use crate::{
    fleet::{Fleet, Process, unique},
    http,
    kubectl::Kubectl,
    operator::Operator,
    poll::eventually,
};

const NAMESPACE: &str = "default";

/// The number of members, and the contents of each.
#[derive(Debug, Clone, Copy)]
pub struct MembersSpec {
    /// Name of the registry, prefix of its indices, and label of the members.
    pub name: &'static str,
    /// The number of members.
    pub members: usize,
    /// Additional kinds of each member.
    pub kinds: usize,
    /// Pods of each member.
    pub pods: usize,
}

/// The members, and the control plane that they are registered with.
#[derive(Debug)]
pub struct Members {
    spec: MembersSpec,
    process: Process,
    ready_file: PathBuf,
    hub: Kubectl,
    opensearch: String,
    /// The URLs of the members.
    pub urls: Vec<String>,
}

impl Members {
    /// Starts the members, without registrations.
    pub async fn start(fleet: &Fleet, spec: MembersSpec) -> Result<Self> {
        let name = unique("members");
        let ready_file = fleet.dir().join(format!("{name}.ready"));
        let arguments = [
            format!("--clusters={}", spec.members),
            format!("--kinds={}", spec.kinds),
            format!("--objects={}", spec.pods),
            format!("--ready-file={}", ready_file.display()),
        ];
        let process = start_apiserver(fleet, &name, &arguments)?;
        let hub = fleet.control_plane().kubectl()?;
        let opensearch = fleet.opensearch()?.url().to_owned();
        let mut members = Self {
            spec,
            process,
            ready_file,
            hub,
            opensearch,
            urls: Vec::new(),
        };
        members.urls = eventually("the simulated API servers answer", DEADLINE, || async {
            members.addresses()
        })
        .await?;
        Ok(members)
    }

    /// Requests for pods to all members so far.
    pub async fn requests(&self) -> Result<u64> {
        let mut requests = 0;
        for url in &self.urls {
            let totals: Value = http::json(&format!("{url}/churn")).await?;
            requests += totals["podRequests"]
                .as_u64()
                .context("a member that does not count its requests")?;
        }
        Ok(requests)
    }

    fn addresses(&self) -> Result<Vec<String>> {
        self.process.check_running()?;
        let lines = fs::read_to_string(&self.ready_file).context("no addresses yet")?;
        let url = |line: &str| {
            let ready: Value =
                serde_json::from_str(line).context("a line of the simulated API servers")?;
            ready["url"]
                .as_str()
                .map(str::to_owned)
                .context("a line without a URL")
        };
        lines.lines().map(url).collect()
    }

    /// Registers members at these addresses, numbered from `first` on.
    pub async fn register(&self, urls: &[String], first: usize) -> Result<()> {
        let items: Vec<Value> = (first..)
            .zip(urls)
            .flat_map(|(number, url)| registration(self.spec.name, number, url))
            .collect();
        self.hub
            .apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())
            .await
            .map(drop)
    }

    /// Registers `kinds` kinds of every member: pods, and kinds without objects.
    pub async fn apply_registry(&self, kinds: usize) -> Result<()> {
        let others = (1..kinds).map(|number| json!({ "apiVersion": "bench.example.com/v1", "kind": format!("Kind{number}") }));
        let selectors: Vec<Value> = std::iter::once(json!({ "apiVersion": "v1", "kind": "Pod" }))
            .chain(others)
            .collect();
        let store = json!({ "openSearch": {
            "addresses": [self.opensearch], "indexPrefix": self.spec.name, "numberOfReplicas": 0,
        } });
        self.apply(self.spec.name, &selectors, Some(store)).await
    }

    /// Registers the pods of every member for the embedded store, too.
    pub async fn apply_embedded_registry(&self) -> Result<()> {
        let pods = [json!({ "apiVersion": "v1", "kind": "Pod" })];
        self.apply(&format!("{}-embedded", self.spec.name), &pods, None)
            .await
    }

    /// Deletes that registry.
    pub async fn remove_embedded_registry(&self) -> Result<()> {
        let name = format!("{}-embedded", self.spec.name);
        self.hub
            .run(&["delete", "resourceregistries", &name, "--timeout=60s"])
            .await
            .map(drop)
    }

    async fn apply(&self, name: &str, selectors: &[Value], store: Option<Value>) -> Result<()> {
        let mut registry = json!({
            "apiVersion": "search.karmada.io/v1alpha1",
            "kind": "ResourceRegistry",
            "metadata": { "name": name },
            "spec": {
                "targetCluster": { "labelSelector": { "matchLabels": { "bench": self.spec.name } } },
                "resourceSelectors": selectors,
            },
        });
        if let Some(store) = store {
            registry["spec"]["backendStore"] = store;
        }
        self.hub.apply(&registry.to_string()).await.map(drop)
    }

    /// Waits until this many streams are watching.
    pub async fn until_watching(&self, operator: &Operator, streams: usize) -> Result<()> {
        eventually("all streams are watching", DEADLINE, || async {
            self.process.check_running()?;
            let watching = operator
                .count_of("fleetdex_units", r#"phase="watching""#)
                .await?;
            ensure!(watching >= streams as f64, "{watching} of {streams}");
            Ok(())
        })
        .await
    }

    /// Sets the rate of changes per second of the first `members` members.
    pub async fn set_rate(&self, members: usize, rate: u32) -> Result<()> {
        let client = http::client(None)?;
        for url in &self.urls[..members] {
            let request = client
                .post(format!("{url}/churn?rate={rate}"))
                .timeout(Duration::from_secs(5));
            request
                .send()
                .await
                .and_then(reqwest::Response::error_for_status)
                .context("setting the rate of a member")?;
        }
        Ok(())
    }

    /// The number of pods of the first member.
    pub async fn pods_of_first(&self) -> Result<u64> {
        let url = self.urls.first().context("no member")?;
        let totals: Value = http::json(&format!("{url}/churn")).await?;
        totals["pods"]
            .as_u64()
            .context("a member that does not count its pods")
    }

    /// The URL of a watch of the first member's pods from the current version.
    pub async fn watch_url(&self) -> Result<String> {
        let url = format!("{}/api/v1/pods", self.urls.first().context("no member")?);
        let list: Value = http::json(&format!("{url}?limit=1")).await?;
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .context("a list without a version")?;
        Ok(format!("{url}?watch=1&resourceVersion={version}"))
    }

    /// The times of the first member's latest changes since its rate was set, in microseconds since
    /// 1970, by revision.
    pub async fn change_times(&self) -> Result<BTreeMap<u64, u64>> {
        let url = self.urls.first().context("no member")?;
        let change_times: Vec<(u64, u64)> = http::json(&format!("{url}/churn/moments")).await?;
        Ok(change_times.into_iter().collect())
    }

    /// Deletes the registries with their documents.
    pub async fn remove_registries(&self) -> Result<()> {
        self.hub
            .run("delete resourceregistries --all --wait=false")
            .await?;
        eventually("the registries are gone", DEADLINE, || async {
            let names = self.hub.run("get resourceregistries -o name").await?;
            ensure!(names.trim().is_empty(), "still there: {names}");
            Ok(())
        })
        .await
    }

    /// Deletes the members' Clusters and Secrets.
    pub async fn unregister(self) -> Result<()> {
        let label = format!("bench={}", self.spec.name);
        self.hub
            .run(&["delete", "clusters.cluster.karmada.io", "-l", &label])
            .await?;
        self.hub
            .run(&["delete", "secrets", "-n", NAMESPACE, "-l", &label])
            .await
            .map(drop)
    }
}

fn registration(name: &str, number: usize, url: &str) -> [Value; 2] {
    let label = json!({ "bench": name });
    let cluster = format!("{name}{number}");
    [
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": cluster, "namespace": NAMESPACE, "labels": label, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
            // The token is not checked, but required.
            "data": { "token": STANDARD.encode(name) },
        }),
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": cluster, "labels": label },
            "spec": {
                "syncMode": "Push",
                "apiEndpoint": url,
                "insecureSkipTLSVerification": true,
                "secretRef": { "namespace": NAMESPACE, "name": cluster },
            },
        }),
    ]
}
