//! What thousands of clusters cost: memory and processor time of `fleetdex run` for each cluster
//! and each watch, the first sync, a quiet time, a rolling restart, the death of a replica, a list
//! by label over all clusters, the writes of the registry's status, and the distribution of
//! templates to all clusters.
//!
//! Fleetdex and the control plane are real. The members and the store are simulated, each in a
//! process of its own, so that what they use is not counted. Every size starts anew. Processor
//! times are those of the processes, and so do not depend on what else the machine does.

#![expect(
    clippy::cast_precision_loss,
    reason = "bytes, milliseconds and counts are below 2^53"
)]

mod distribution;
mod figures;
mod line;
mod replicas;
mod simulated_fleet;
mod status_writes;
mod times;

use std::{fs, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::{
    figures::{ScaleFigures, table},
    replicas::ReplicaSet,
    simulated_fleet::{SimulatedFleet, SimulatedFleetSpec},
    status_writes::StatusWrites,
    times::{SETTLING, SYNC_DEADLINE},
};
use crate::fleet::{Fleet, OpenSearchKind, Options, target_folder};

/// `e2e scale`
#[derive(Args, Debug)]
pub struct ScaleArgs {
    /// The numbers of clusters, measured one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 200, 400])]
    clusters: Vec<usize>,
    /// Kinds of each cluster that are indexed.
    #[arg(long, default_value_t = 30)]
    kinds: usize,
    /// Objects of each kind in each cluster.
    #[arg(long, default_value_t = 10)]
    objects: usize,
    /// Replicas that share the clusters. With more than one, restarts and a death are measured.
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Templates that are distributed to all clusters; 0: Fleetdex distributes nothing.
    #[arg(long, default_value_t = 0)]
    templates: usize,
    /// Seconds of the quiet time.
    #[arg(long, default_value_t = 60)]
    quiet: u64,
    /// Use only HTTP/1.1 towards the members.
    #[arg(long)]
    http1: bool,
    /// A name for the results: target/scale/NAME.json.
    #[arg(long, default_value = "results")]
    name: String,
}

/// Measures each size, prints the table after each, and writes `target/scale/NAME.json`.
pub async fn run(arguments: ScaleArgs) -> Result<()> {
    ensure!(arguments.replicas > 0, "--replicas must be at least 1");
    let folder = target_folder()?.join("scale");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(format!("{}.json", arguments.name));
    let mut sizes = Vec::new();
    for clusters in &arguments.clusters {
        sizes.push(measure(&arguments, *clusters).await?);
        println!("\n{}", table(&sizes));
        let json = serde_json::to_string_pretty(&sizes).context("writing the figures")?;
        fs::write(&path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    println!("{}", line::lines(&sizes));
    println!("figures in {}", path.display());
    Ok(())
}

/// What the replicas are started with.
fn flags(arguments: &ScaleArgs) -> Vec<&'static str> {
    let http1 = arguments.http1.then_some("--member-http1");
    let distribute = (arguments.templates > 0).then_some("--distribute");
    http1.into_iter().chain(distribute).collect()
}

async fn measure(arguments: &ScaleArgs, clusters: usize) -> Result<ScaleFigures> {
    println!("starting the control plane and {clusters} simulated clusters …");
    let options = Options::of(0, OpenSearchKind::None);
    let fleet = Fleet::start(options).await?;
    let spec = SimulatedFleetSpec {
        clusters,
        kinds: arguments.kinds,
        objects: arguments.objects,
    };
    let simulated = SimulatedFleet::start(&fleet, spec).await?;
    simulated.register().await?;
    let mut figures = ScaleFigures {
        clusters,
        kinds: arguments.kinds,
        objects: arguments.objects,
        replicas: arguments.replicas,
        ..ScaleFigures::default()
    };
    let mut replicas = ReplicaSet::start(&fleet, arguments.replicas, &flags(arguments))?;
    connect(&mut figures, &simulated, &replicas).await?;
    let writes = StatusWrites::follow(&fleet).await?;
    first_sync(&mut figures, &simulated, &replicas, &writes).await?;
    quiet(
        &mut figures,
        &replicas,
        &writes,
        Duration::from_secs(arguments.quiet),
    )
    .await?;
    list(&mut figures, &replicas).await?;
    if arguments.templates > 0 {
        figures.distribution = Some(
            distribution::measure(arguments.templates, clusters, &simulated, &replicas).await?,
        );
    }
    if arguments.replicas > 1 {
        rolling_restart(&mut figures, &simulated, &mut replicas).await?;
        death(&mut figures, &simulated, &mut replicas).await?;
    }
    replicas.stop().await?;
    Ok(figures)
}

/// All clusters are connected, and none is indexed.
async fn connect(
    figures: &mut ScaleFigures,
    simulated: &SimulatedFleet,
    replicas: &ReplicaSet,
) -> Result<()> {
    let clusters = figures.clusters;
    figures.connect_seconds = replicas
        .until("all clusters are connected", SYNC_DEADLINE, || async {
            simulated.check_running()?;
            replicas.until_connected(clusters).await
        })
        .await?;
    tokio::time::sleep(SETTLING).await;
    let usage = replicas.usage()?;
    figures.connect_cpu_seconds = usage.cpu_seconds;
    figures.connected_bytes = usage.memory_bytes;
    println!("  connected: {usage:?}");
    Ok(())
}

async fn first_sync(
    figures: &mut ScaleFigures,
    simulated: &SimulatedFleet,
    replicas: &ReplicaSet,
    writes: &StatusWrites,
) -> Result<()> {
    let before = replicas.usage()?;
    let control_plane = simulated.control_plane_usage()?;
    let started = simulated.apply_registry().await?;
    replicas
        .until("the registry is ready", SYNC_DEADLINE, || async {
            simulated.check_running()?;
            simulated.check_ready().await
        })
        .await?;
    figures.sync_seconds = started.elapsed().as_secs_f64();
    let after = replicas.usage()?;
    figures.sync_cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    figures.control_plane_sync_cpu_seconds =
        simulated.control_plane_usage()?.cpu_seconds - control_plane.cpu_seconds;
    let written = writes.count();
    figures.sync_status_writes = written.writes;
    figures.sync_status_bytes = written.bytes;
    println!("  synced in {:.1} s: {after:?}", figures.sync_seconds);
    tokio::time::sleep(SETTLING).await;
    let usage = replicas.usage()?;
    figures.synced_bytes = usage.memory_bytes;
    figures.peak_bytes = usage.peak_memory_bytes;
    figures.sockets = usage.sockets;
    figures.registry_bytes = simulated.registry_bytes().await?;
    Ok(())
}

async fn quiet(
    figures: &mut ScaleFigures,
    replicas: &ReplicaSet,
    writes: &StatusWrites,
    duration: Duration,
) -> Result<()> {
    let (before, written) = (replicas.usage()?, writes.count());
    tokio::time::sleep(duration).await;
    let (after, rewritten) = (replicas.usage()?, writes.count());
    figures.quiet_cores = (after.cpu_seconds - before.cpu_seconds) / duration.as_secs_f64();
    figures.quiet_status_writes = rewritten.writes - written.writes;
    println!(
        "  quiet: {:.3} cores, {} writes of the status",
        figures.quiet_cores, figures.quiet_status_writes
    );
    Ok(())
}

async fn list(figures: &mut ScaleFigures, replicas: &ReplicaSet) -> Result<()> {
    let before = replicas.usage()?;
    let listed = replicas.list_by_label().await?;
    figures.list_objects = listed.objects;
    figures.list_seconds = listed.seconds;
    figures.list_cpu_seconds = replicas.usage()?.cpu_seconds - before.cpu_seconds;
    println!("  list by label: {listed:?}");
    Ok(())
}

async fn rolling_restart(
    figures: &mut ScaleFigures,
    simulated: &SimulatedFleet,
    replicas: &mut ReplicaSet,
) -> Result<()> {
    let (clusters, watches) = (figures.clusters, figures.watches());
    let before = replicas.usage()?.cpu_seconds;
    let started = std::time::Instant::now();
    let mut spent = 0.0;
    let mut pages = 0.0;
    for position in 0..figures.replicas {
        spent += replicas.restart(position).await?;
        replicas
            .until("every watch is open again", SYNC_DEADLINE, || async {
                simulated.check_running()?;
                replicas.until_shared(clusters, watches).await
            })
            .await?;
        pages += replicas.pages_of(position).await?;
    }
    figures.restart_seconds = started.elapsed().as_secs_f64();
    // What ended with the processes counts, too.
    figures.restart_cpu_seconds = spent + replicas.usage()?.cpu_seconds - before;
    figures.restart_pages = pages;
    println!(
        "  rolling restart: {:.1} s, {:.1} s of processor time, {pages} pages",
        figures.restart_seconds, figures.restart_cpu_seconds
    );
    Ok(())
}

async fn death(
    figures: &mut ScaleFigures,
    simulated: &SimulatedFleet,
    replicas: &mut ReplicaSet,
) -> Result<()> {
    let (clusters, watches) = (figures.clusters, figures.watches());
    let (before, pages) = {
        replicas.kill_last()?;
        (replicas.usage()?.cpu_seconds, replicas.pages().await?)
    };
    figures.death_seconds = replicas
        .until("the others read every cluster", SYNC_DEADLINE, || async {
            simulated.check_running()?;
            replicas.until_shared(clusters, watches).await
        })
        .await?;
    figures.death_cpu_seconds = replicas.usage()?.cpu_seconds - before;
    figures.death_pages = replicas.pages().await? - pages;
    println!(
        "  death of one: {:.1} s, {} pages",
        figures.death_seconds, figures.death_pages
    );
    Ok(())
}
