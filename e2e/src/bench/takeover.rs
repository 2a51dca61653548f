//! Three replicas share clusters: how long after one is killed the others read all clusters.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    figures::{Figures, verdict},
    sizes::DEADLINE,
};
use crate::{
    fleet::{Fleet, Registration},
    operator::{Operator, OperatorOptions},
    poll::eventually,
    scenario::clusters_read_by,
};

/// Name of the registry, and prefix of its indices and of its members' names.
const NAME: &str = "takeover";
const NAMESPACE: &str = "default";
const CLUSTERS: usize = 12;
const REPLICAS: usize = 3;
/// Limit of the time until the clusters of a killed replica are read again.
const SECONDS: f64 = 15.0;

/// Measures a takeover.
pub async fn measure(fleet: &Fleet, figures: &mut Figures) -> Result<()> {
    println!("{REPLICAS} replicas share {CLUSTERS} clusters; one is killed …");
    let hub = fleet.control_plane().kubectl()?;
    let names: Vec<String> = (0..CLUSTERS)
        .map(|number| format!("{NAME}{number}"))
        .collect();
    for name in &names {
        hub.apply(&Registration::new(fleet.member(1), name, NAMESPACE).manifest())
            .await?;
    }
    let registry = json!({
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": { "name": NAME },
        "spec": {
            "targetCluster": { "clusterNames": names },
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "Namespace" }],
            "backendStore": { "openSearch": {
                "addresses": [fleet.opensearch()?.url()], "indexPrefix": NAME, "numberOfReplicas": 0,
            } },
        },
    });
    hub.apply(&registry.to_string()).await?;
    let mut replicas = (0..REPLICAS)
        .map(|number| start(fleet, number))
        .collect::<Result<Vec<_>>>()?;
    until_shared(&replicas).await?;
    let dead = replicas.remove(0);
    let lost = clusters_read_by(&dead).await?.len();
    dead.kill();
    let killed = Instant::now();
    until_shared(&replicas).await?;
    let seconds = killed.elapsed().as_secs_f64();
    figures.set("takeover_seconds", seconds);
    figures.set("takeover_clusters", lost as f64);
    let text = format!(
        "{seconds:.1} s for the {lost} clusters of the one that was killed; at most {SECONDS} s: {}",
        verdict(seconds <= SECONDS)
    );
    figures.line("takeover by other replicas", text);

    hub.run(&["delete", "resourceregistries", NAME]).await?;
    for name in &names {
        hub.run(&["delete", "clusters.cluster.karmada.io", name])
            .await?;
    }
    for replica in &replicas {
        replica.terminate(Duration::from_secs(30)).await?;
    }
    Ok(())
}

fn start(fleet: &Fleet, number: usize) -> Result<Operator> {
    let arguments = [
        "--allow-same-cluster".to_owned(),
        "--replicas".to_owned(),
        format!("--replica-name=replica-{number}"),
    ];
    Operator::start(OperatorOptions {
        arguments: arguments.into(),
        ..OperatorOptions::of(fleet)
    })
}

/// Waits until each cluster is read by exactly one of these replicas.
async fn until_shared(replicas: &[Operator]) -> Result<()> {
    eventually("every cluster is read by one replica", DEADLINE, || async {
        let mut read = Vec::new();
        for replica in replicas {
            read.extend(clusters_read_by(replica).await?);
        }
        let count = read.len();
        read.sort_unstable();
        read.dedup();
        ensure!(
            count == CLUSTERS && read.len() == CLUSTERS,
            "{count} of {CLUSTERS}: {read:?}"
        );
        Ok(())
    })
    .await
}
