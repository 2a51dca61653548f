//! The replicas of Fleetdex, measured together.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::simulated_fleet::NAME;
use crate::{
    fleet::Fleet,
    http,
    operator::{Operator, OperatorOptions, sum_of_samples},
};

/// How often the replicas are asked. Metrics of thousands of clusters cost processor time, too.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Deadline for the end of a replica.
const TERMINATION: Duration = Duration::from_mins(1);
/// Objects of a page of a list.
const PAGE: usize = 500;

/// All replicas.
#[derive(Debug)]
pub struct ReplicaSet {
    replicas: Vec<Operator>,
}

/// What all replicas use together.
#[derive(Clone, Copy, Debug, Default)]
pub struct TotalUsage {
    pub memory_bytes: u64,
    pub peak_memory_bytes: u64,
    pub cpu_seconds: f64,
    pub sockets: usize,
}

/// A complete list.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    pub objects: u64,
    pub seconds: f64,
}

impl ReplicaSet {
    /// Starts so many replicas, with flags besides those of replicas.
    pub fn start(fleet: &Fleet, count: usize, flags: &[&str]) -> Result<Self> {
        let replicas = (0..count).map(|number| {
            let mut arguments: Vec<String> = flags.iter().copied().map(str::to_owned).collect();
            if count > 1 {
                arguments.push("--replicas".to_owned());
                arguments.push(format!("--replica-name=replica-{number}"));
            }
            Operator::start(OperatorOptions {
                arguments,
                ..OperatorOptions::of(fleet)
            })
        });
        Ok(Self {
            replicas: replicas.collect::<Result<_>>()?,
        })
    }

    pub fn usage(&self) -> Result<TotalUsage> {
        let mut total = TotalUsage::default();
        for replica in &self.replicas {
            let usage = replica.usage()?;
            total.memory_bytes += usage.memory_bytes;
            total.peak_memory_bytes += usage.peak_memory_bytes;
            total.cpu_seconds += usage.cpu_seconds;
            let process = replica.process().pid().context("a replica does not run")?;
            total.sockets += fs::read_dir(format!("/proc/{process}/fd"))?.count();
        }
        Ok(total)
    }

    /// Seconds until `condition` holds; an error of it means that it does not yet.
    pub async fn until<F: Future<Output = Result<()>>>(
        &self,
        what: &str,
        deadline: Duration,
        condition: impl Fn() -> F,
    ) -> Result<f64> {
        let started = Instant::now();
        let mut shown = Instant::now();
        loop {
            for replica in &self.replicas {
                replica
                    .process()
                    .check_running()
                    .with_context(|| replica.process().log_tail(20))?;
            }
            let Err(error) = condition().await else {
                return Ok(started.elapsed().as_secs_f64());
            };
            if started.elapsed() > deadline {
                return Err(error.context(format!("waiting until {what}")));
            }
            if shown.elapsed() > 10 * POLL_INTERVAL {
                shown = Instant::now();
                println!("    {what}: {error:#}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Fails until each replica has connected so many clusters.
    pub async fn until_connected(&self, clusters: usize) -> Result<()> {
        for replica in &self.replicas {
            let connected = replica.count_of("fleetdex_cluster_up", "").await?;
            ensure!(connected >= clusters as f64, "{connected} of {clusters}");
        }
        Ok(())
    }

    /// Fails until each cluster is read by one replica and each watch is open.
    pub async fn until_shared(&self, clusters: usize, watches: usize) -> Result<()> {
        let mut watching = 0.0;
        for replica in &self.replicas {
            watching += replica
                .count_of("fleetdex_units", r#"phase="watching""#)
                .await?;
        }
        ensure!(
            (watching - watches as f64).abs() < 0.5,
            "{watching} of {watches} watches of {clusters} clusters"
        );
        Ok(())
    }

    /// Stops a replica and starts it again. Returns the processor time of the process that ended.
    pub async fn restart(&self, position: usize) -> Result<f64> {
        let replica = self.replicas.get(position).context("no such replica")?;
        let usage = replica.usage()?;
        replica.terminate(TERMINATION).await?;
        replica.restart()?;
        Ok(usage.cpu_seconds)
    }

    /// Stops all replicas, and starts them again.
    pub async fn restart_all(&self) -> Result<()> {
        for position in 0..self.replicas.len() {
            self.restart(position).await?;
        }
        Ok(())
    }

    /// Kills the last replica.
    pub fn kill_last(&mut self) -> Result<()> {
        let killed = self.replicas.pop().context("no replica")?;
        killed.kill();
        Ok(())
    }

    /// The sum of a metric over all replicas.
    pub async fn sum_of(&self, metric: &str) -> Result<f64> {
        let mut sum = 0.0;
        for replica in &self.replicas {
            sum += replica.count_of(metric, "").await?;
        }
        Ok(sum)
    }

    /// Pages of lists that the replicas have read.
    pub async fn pages(&self) -> Result<f64> {
        let mut pages = 0.0;
        for position in 0..self.replicas.len() {
            pages += self.pages_of(position).await?;
        }
        Ok(pages)
    }

    /// The same of one replica since its start.
    pub async fn pages_of(&self, position: usize) -> Result<f64> {
        let replica = self.replicas.get(position).context("no such replica")?;
        let metrics = replica.metrics().await?;
        Ok(sum_of_samples(&metrics, "fleetdex_list_pages_total", "").unwrap_or(0.0))
    }

    /// Lists the objects of one kind with one label in all clusters, page by page.
    pub async fn list_by_label(&self) -> Result<Listed> {
        let replica = self.replicas.first().context("no replica")?;
        let client = http::plain_client(None)?;
        let url = format!(
            "http://{}/apis/search.fleetdex.io/v1alpha1/search/apis/{NAME}.example.com/v1/kind0s",
            replica.api_address()
        );
        let started = Instant::now();
        let mut objects = 0;
        let mut next = String::new();
        loop {
            let limit = PAGE.to_string();
            let request = client.get(&url).bearer_auth(replica.token()?).query(&[
                ("labelSelector", "app=application-03"),
                ("limit", &limit),
                ("continue", &next),
            ]);
            let response = request.send().await.context("listing")?;
            let status = response.status();
            let page: Value = response.json().await.context("reading a list")?;
            ensure!(status.is_success(), "{status}: {page}");
            objects += page["items"].as_array().map_or(0, Vec::len) as u64;
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => token.clone_into(&mut next),
                _ => break,
            }
        }
        Ok(Listed {
            objects,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    pub async fn stop(self) -> Result<()> {
        for replica in &self.replicas {
            replica.terminate(TERMINATION).await?;
        }
        Ok(())
    }
}
