//! One operator with one registry of pods.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    scrape::Scrape,
    sizes::{DEADLINE, POLL_INTERVAL},
};
use crate::{
    fleet::Fleet,
    kubectl::Kubectl,
    operator::{Operator, OperatorOptions},
    poll::eventually,
};

/// A running operator with one registry.
#[derive(Debug)]
pub struct Run {
    /// The operator, with its usual settings.
    pub operator: Operator,
    /// The name of the registry, and the prefix of its indices.
    pub prefix: String,
    /// When the operator was started, after the registry was applied.
    pub started: Instant,
    hub: Kubectl,
}

impl Run {
    /// Registers the pods of a cluster, and starts an operator.
    pub async fn start(fleet: &Fleet, cluster: &str, prefix: &str) -> Result<Self> {
        Self::start_with(fleet, cluster, prefix, &[]).await
    }

    /// The same with environment variables of the operator.
    pub async fn start_with(
        fleet: &Fleet,
        cluster: &str,
        prefix: &str,
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let hub = fleet.control_plane().kubectl()?;
        hub.apply(&registry(fleet, cluster, prefix)?).await?;
        let started = Instant::now();
        let operator = Operator::start(OperatorOptions {
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            ..OperatorOptions::of(fleet)
        })?;
        Ok(Self {
            operator,
            prefix: prefix.to_owned(),
            started,
            hub,
        })
    }

    /// Waits until this many documents are acknowledged.
    pub async fn until_indexed(&self, count: usize) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < DEADLINE {
            let indexed = self
                .operator
                .metric("fleetdex_bulk_items_total", r#"verdict="indexed""#)
                .await;
            if indexed.is_ok_and(|indexed| indexed >= count as f64) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        anyhow::bail!(
            "not synced within {} s\n{}",
            DEADLINE.as_secs(),
            self.operator.process().log_tail(30)
        )
    }

    /// The current metrics.
    pub async fn scrape(&self) -> Result<Scrape> {
        Scrape::of(&self.operator).await
    }

    /// Deletes the registry with its documents, and stops the operator.
    pub async fn finish(self) -> Result<()> {
        self.hub
            .run(&["delete", "resourceregistries", &self.prefix, "--wait=false"])
            .await?;
        eventually("the registry is gone", Duration::from_mins(2), || async {
            let names = self.hub.run("get resourceregistries -o name").await?;
            ensure!(names.trim().is_empty(), "still there: {names}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        self.operator
            .terminate(Duration::from_secs(30))
            .await
            .map(drop)
    }
}

/// A registry of the pods of a cluster; where there are several nodes, with a copy of each shard.
fn registry(fleet: &Fleet, cluster: &str, prefix: &str) -> Result<String> {
    let addresses = fleet.opensearch_urls()?;
    let replicas = usize::from(addresses.len() > 1);
    Ok(json!({
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": { "name": prefix },
        "spec": {
            "targetCluster": { "clusterNames": [cluster] },
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "Pod" }],
            "backendStore": { "openSearch": { "addresses": addresses, "indexPrefix": prefix, "numberOfReplicas": replicas } },
        },
    })
    .to_string())
}
