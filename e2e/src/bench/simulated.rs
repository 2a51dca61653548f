//! The simulated API server in its own process: many objects and writes at little cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::RequestBuilder;
use serde::Deserialize;
use serde_json::json;

use super::{
    run::Run,
    sizes::{DEADLINE, POLL_INTERVAL},
};
use crate::{
    fleet::{
        Fleet,
        ports::Port,
        process::{Process, Start},
        unique,
    },
    http,
    kubectl::Kubectl,
    operator::built_program,
    poll::eventually,
};

/// The name of its registration.
const CLUSTER: &str = "simulated";
/// Events in its watch cache: enough that a slow reader can resume throughout a measurement.
const CACHED_EVENTS: usize = 400_000;

/// A running simulated API server, registered as a member. It is killed when dropped.
#[derive(Debug)]
pub struct Simulated {
    process: Process,
    hub: Kubectl,
    port: Port,
}

/// Totals of writes so far.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Totals {
    /// All writes.
    pub writes: u64,
    /// Existing pods.
    pub pods: u64,
}

/// Starts the program of simulated API servers, whose log has this name.
pub fn start_apiserver(fleet: &Fleet, name: &str, arguments: &[String]) -> Result<Process> {
    let start = Start {
        program: built_program("apiserver")?,
        arguments: arguments.to_vec(),
        folder: fleet.dir().to_owned(),
        ..Start::default()
    };
    let log = fleet.dir().join(format!("{name}.log"));
    let process = Process::new(name, start, log, fleet.process_group());
    process.spawn()?;
    Ok(process)
}

impl Simulated {
    /// Starts it with pods, and registers it.
    pub async fn start(fleet: &Fleet, pods: usize) -> Result<Self> {
        let port = Port::reserve()?;
        let arguments = [
            format!("--objects={pods}"),
            format!("--cached-events={CACHED_EVENTS}"),
            format!("--listen=127.0.0.1:{}", port.number()),
        ];
        let process = start_apiserver(fleet, &unique("simulated"), &arguments)?;
        let simulated = Self {
            process,
            hub: fleet.control_plane().kubectl()?,
            port,
        };
        eventually("the simulated API server answers", DEADLINE, || async {
            simulated.process.check_running()?;
            simulated.totals().await
        })
        .await?;
        simulated.hub.apply(&simulated.registration()).await?;
        Ok(simulated)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    fn registration(&self) -> String {
        json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": CLUSTER, "namespace": "default", "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
                // The token is not checked, but required.
                "data": { "token": STANDARD.encode("simulated") },
            },
            {
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": { "name": CLUSTER },
                "spec": {
                    "syncMode": "Push",
                    "apiEndpoint": self.url(),
                    "insecureSkipTLSVerification": true,
                    "secretRef": { "namespace": "default", "name": CLUSTER },
                },
            },
        ] })
        .to_string()
    }

    /// A client as Fleetdex configures it.
    pub fn client(&self) -> Result<kube::Client> {
        http::install_tls_provider();
        let config = kube::Config::new(
            self.url()
                .parse()
                .context("the URL of the simulated API server")?,
        );
        kube::Client::try_from(config).context("client of the simulated API server")
    }

    /// Sets the rate of writes per second; 0 stops. Returns the totals until then.
    pub async fn set_rate(&self, rate: u32) -> Result<Totals> {
        Self::read_totals(http::client(None)?.post(format!("{}/churn?rate={rate}", self.url())))
            .await
    }

    /// The totals until now.
    pub async fn totals(&self) -> Result<Totals> {
        Self::read_totals(http::client(None)?.get(format!("{}/churn", self.url()))).await
    }

    async fn read_totals(request: RequestBuilder) -> Result<Totals> {
        let answer = request
            .timeout(Duration::from_secs(5))
            .send()
            .await
            .context("asking the simulated API server")?;
        answer
            .error_for_status()?
            .json()
            .await
            .context("reading what the simulated API server wrote")
    }

    /// Starts an operator that indexes it, and waits for the first sync.
    pub async fn start_operator(self, fleet: &Fleet, prefix: &str) -> Result<SimulatedSetup> {
        self.start_operator_with(fleet, prefix, &[]).await
    }

    /// The same with environment variables of the operator.
    pub async fn start_operator_with(
        self,
        fleet: &Fleet,
        prefix: &str,
        environment: &[(&str, String)],
    ) -> Result<SimulatedSetup> {
        let run = Run::start_with(fleet, CLUSTER, prefix, environment).await?;
        let pods = self.totals().await?.pods;
        run.until_indexed(usize::try_from(pods)?).await?;
        let setup = SimulatedSetup {
            run,
            simulated: self,
            opensearch: fleet.opensearch()?.client()?,
        };
        // The aliases are added after the last document.
        setup.until_complete().await?;
        Ok(setup)
    }
}

/// A simulated API server and an operator that indexes it.
#[derive(Debug)]
pub struct SimulatedSetup {
    /// The operator, which is dropped before its member.
    pub run: Run,
    /// The member.
    pub simulated: Simulated,
    opensearch: crate::opensearch::OpenSearch,
}

impl SimulatedSetup {
    /// Starts both, and waits for the first sync.
    pub async fn start(fleet: &Fleet, pods: usize, prefix: &str) -> Result<Self> {
        Simulated::start(fleet, pods)
            .await?
            .start_operator(fleet, prefix)
            .await
    }

    /// Stops the writes, and waits until the index has as many documents as there are pods: figures
    /// of an incomplete index mean nothing. Returns how long that took.
    pub async fn until_complete(&self) -> Result<Duration> {
        let started = Instant::now();
        self.simulated.set_rate(0).await?;
        let pods = self.simulated.totals().await?.pods;
        eventually("there is a document for every pod", DEADLINE, || async {
            let documents = self
                .opensearch
                .count(&self.run.prefix, &json!({ "match_all": {} }))
                .await?;
            ensure!(documents == pods, "{documents} documents of {pods} pods");
            let pending = self.run.scrape().await?.pending_documents();
            ensure!(pending == 0.0, "{pending} changes are pending");
            Ok(())
        })
        .await?;
        tokio::time::sleep(POLL_INTERVAL).await;
        Ok(started.elapsed())
    }

    /// Deletes the documents, and stops both programs.
    pub async fn finish(self) -> Result<()> {
        self.run.finish().await?;
        self.simulated
            .hub
            .run(&["delete", "clusters.cluster.karmada.io", CLUSTER])
            .await
            .map(drop)
    }
}
