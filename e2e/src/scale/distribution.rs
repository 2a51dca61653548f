//! What it costs to distribute templates to all clusters, to change one, and to restart.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{
    figures::DistributionFigures,
    replicas::ReplicaSet,
    simulated_fleet::SimulatedFleet,
    times::{SETTLING, SYNC_DEADLINE},
};
use crate::templates::{NAMESPACE, apply_all, apply_policy, binding_path, path, template};

/// How often is looked whether a change has arrived. Metrics of many clusters cost time, too.
const LOOK: Duration = Duration::from_millis(250);
const WRITES: &str = "fleetdex_distribution_writes_total";

/// Distributes so many templates to so many clusters.
pub async fn measure(
    templates: usize,
    clusters: usize,
    simulated: &SimulatedFleet,
    replicas: &ReplicaSet,
) -> Result<DistributionFigures> {
    let hub = simulated.hub();
    hub.create_namespace(NAMESPACE).await?;
    apply_all(hub, NAMESPACE, templates).await?;
    let before = replicas.usage()?;
    apply_policy(hub).await?;
    let wanted = (templates * clusters) as f64;
    let mut figures = DistributionFigures {
        templates,
        ..DistributionFigures::default()
    };
    figures.seconds = until_applied(simulated, replicas, wanted).await?;
    figures.cpu_seconds = replicas.usage()?.cpu_seconds - before.cpu_seconds;
    tokio::time::sleep(SETTLING).await;
    let after = replicas.usage()?;
    figures.bytes = after.memory_bytes.saturating_sub(before.memory_bytes);
    figures.peak_bytes = after.peak_memory_bytes;
    figures.binding_bytes = hub.get(&binding_path(0)).await?.to_string().len();
    println!(
        "  distributed in {:.1} s, {:.1} s of processor time: {after:?}",
        figures.seconds, figures.cpu_seconds
    );
    figures.change_seconds = change(clusters, simulated, replicas).await?;
    println!(
        "  a change in all clusters: {:.1} s",
        figures.change_seconds
    );
    let started = Instant::now();
    replicas.restart_all().await?;
    until_applied(simulated, replicas, wanted).await?;
    figures.restart_seconds = started.elapsed().as_secs_f64();
    figures.restart_writes = replicas.sum_of(WRITES).await?;
    println!(
        "  restart: all known after {:.1} s, {} writes",
        figures.restart_seconds, figures.restart_writes
    );
    Ok(figures)
}

/// Seconds until all clusters have all objects.
async fn until_applied(
    simulated: &SimulatedFleet,
    replicas: &ReplicaSet,
    wanted: f64,
) -> Result<f64> {
    replicas
        .until("all objects are applied", SYNC_DEADLINE, || async {
            simulated.check_running()?;
            let objects = replicas.sum_of("fleetdex_distributed_objects").await?;
            let missing = replicas
                .sum_of("fleetdex_distributed_objects_not_applied")
                .await?;
            ensure!(
                objects >= wanted && missing < 0.5,
                "{objects} objects of {wanted}, {missing} are not applied"
            );
            Ok(())
        })
        .await
}

/// Seconds until a change of one template is written to all clusters.
async fn change(clusters: usize, simulated: &SimulatedFleet, replicas: &ReplicaSet) -> Result<f64> {
    let before = replicas.sum_of(WRITES).await?;
    let started = Instant::now();
    let changed = template(NAMESPACE, 0, 1);
    simulated.hub().apply(&path(NAMESPACE, 0), &changed).await?;
    loop {
        let written = replicas.sum_of(WRITES).await? - before;
        if written >= clusters as f64 {
            return Ok(started.elapsed().as_secs_f64());
        }
        ensure!(
            started.elapsed() < SYNC_DEADLINE,
            "a change was written {written} times, and not {clusters} times"
        );
        tokio::time::sleep(LOOK).await;
    }
}
