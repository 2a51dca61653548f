//! The benchmark: Fleetdex beside the limits of the servers, measured in one run on one machine.
//!
//! The limits are a bare paged LIST by the same client, and raw `_bulk` of encoded documents with
//! the same index template. Ratios to the limits are comparable between machines; absolute seconds
//! are not.

#![expect(
    clippy::cast_precision_loss,
    reason = "figures for people: counts far below 2^52"
)]
#![expect(
    clippy::float_cmp,
    reason = "bounds of buckets are compared with themselves, as printed"
)]

mod broken;
mod churn;
mod comparison;
mod distribute;
mod figures;
mod first_sync;
mod first_view;
mod fleet;
mod interpreters;
mod latency;
mod limits;
mod members;
mod memory;
mod nodes;
mod outage;
mod patches;
mod pinning;
mod queries;
mod query_client;
mod raw;
mod raw_updates;
mod render;
mod restart;
mod run;
mod scrape;
mod search;
mod search_fields;
mod simulated;
mod sizes;
mod steps;
mod takeover;
mod times;
mod tracing;
mod watcher;
mod watchers;

use self::sizes::{CLUSTER, Sizes};
use std::fs;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use self::{comparison::Comparison, figures::Figures};
use crate::{
    fleet::{Fleet, OpenSearchKind, Options, Registration, target_folder},
    load::Load,
};

const NAMESPACE: &str = "bench";

/// `e2e bench`
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// The parts to measure (default: all).
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Small and short, to check that it works: the figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// How many pods (default: 20,000).
    #[arg(long)]
    pods: Option<usize>,
    /// How many first syncs to measure (default: 3); the median counts.
    #[arg(long)]
    syncs: Option<usize>,
    /// Add the ratios of this run to the baseline that later runs are compared with.
    #[arg(long, conflicts_with_all = ["quick", "pods"])]
    record: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The first sync beside the limits, and the memory after it.
    Sync,
    /// One more status of every pod, as fast as the API server accepts it.
    Patches,
    /// A restart without changes, with a checkpoint and without.
    Restart,
    /// Scripts on one core, calls of a webhook, and the first sync while a webhook hangs.
    Interpreters,
    /// Saturating churn beside raw `_bulk`, with OpenSearch on one core.
    Churn,
    /// From event to acknowledgement at a steady rate.
    Latency,
    /// Memory with many objects.
    Memory,
    /// How fast the store is complete again after an outage.
    Outage,
    /// Writes and queries while one of three OpenSearch nodes is killed, and then another.
    Nodes,
    /// A hundred members: the latency of eighty beside twenty broken ones, and the cost of a
    /// hundred idle ones.
    Fleet,
    /// What the fields that only searches read cost OpenSearch.
    SearchFields,
    /// Selectors over ten clusters beside the bare search and beside lists of the members; all
    /// objects, page by page.
    Queries,
    /// The latency of a thousand watchers over TLS, and the memory of their connections.
    Watchers,
    /// How soon other replicas read the clusters of a killed replica.
    Takeover,
    /// What it costs to record traces of changes.
    Traces,
    /// Two thousand templates to ten members, beside bare server-side apply.
    Distribute,
    /// Renderings of a chart and a folder, beside the bare programs.
    Render,
}

impl Part {
    const ON_REAL_SERVERS: [Self; 4] =
        [Self::Sync, Self::Patches, Self::Restart, Self::Interpreters];
}

impl BenchArgs {
    fn includes(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn sizes(&self) -> Sizes {
        let sizes = if self.quick {
            Sizes::QUICK
        } else {
            Sizes::WHOLE
        };
        Sizes {
            pods: self.pods.unwrap_or(sizes.pods),
            syncs: self.syncs.unwrap_or(sizes.syncs).max(1),
            ..sizes
        }
    }

    /// Results of a part are in a file of their own, so that they are not mistaken for complete
    /// ones.
    fn file(&self) -> &'static str {
        if self.quick || !self.only.is_empty() {
            "partial.json"
        } else {
            "results.json"
        }
    }
}

/// Runs the benchmark, prints what it measures beside the run before and the baseline, and writes
/// `target/bench/results.json` (`partial.json` if not all of it ran). Fails if a ratio is worse
/// than the noise of the baseline explains.
pub async fn run(arguments: BenchArgs) -> Result<()> {
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(arguments.file());
    // Before anything is measured, as what cannot be read ends the benchmark.
    let comparison = Comparison::read(&path)?;
    let mut figures = Figures::default();
    let on_own_servers = [Part::Nodes, Part::Distribute, Part::Render];
    if !is_only(&arguments, &on_own_servers) {
        measure(&start(0).await?, &arguments, &mut figures).await?;
    }
    if arguments.includes(Part::Nodes) {
        let fleet = start(nodes::MORE_NODES).await?;
        nodes::measure(&fleet, &arguments.sizes(), &mut figures).await?;
    }
    if arguments.includes(Part::Distribute) {
        distribute::measure(&arguments.sizes(), &mut figures).await?;
    }
    if arguments.includes(Part::Render) {
        render::measure(&arguments.sizes(), &mut figures).await?;
    }
    println!("\n{figures}");
    fs::write(&path, figures.json()).with_context(|| format!("writing {}", path.display()))?;
    println!("figures in {}", path.display());
    if arguments.record {
        return comparison.record(figures.values(), comparison::machine());
    }
    // Fewer objects have other ratios.
    if arguments.quick || arguments.pods.is_some() {
        return Ok(());
    }
    comparison.print(figures.values())
}

/// Whether nothing else is measured than these parts.
fn is_only(arguments: &BenchArgs, parts: &[Part]) -> bool {
    let only = &arguments.only;
    !only.is_empty() && only.iter().all(|part| parts.contains(part))
}

/// Starts the servers, with this many OpenSearch nodes besides one.
async fn start(more_opensearch_nodes: usize) -> Result<Fleet> {
    println!("starting kube-apiserver, etcd and OpenSearch …");
    let options = Options {
        members: 1,
        opensearch: OpenSearchKind::Plain,
        own_opensearch: true,
        more_opensearch_nodes,
        ..Options::default()
    };
    let fleet = Fleet::start(options).await?;
    prepare(&fleet).await?;
    Ok(fleet)
}

/// Installs the CRDs and registers the real member.
async fn prepare(fleet: &Fleet) -> Result<()> {
    let hub = fleet.control_plane().kubectl()?;
    for crd in fleetdex_cli::crd::without_distribution() {
        hub.apply(&crd.yaml()?).await?;
    }
    hub.run("wait --for=condition=Established crd --all --timeout=60s")
        .await?;
    hub.apply(&Registration::new(fleet.member(1), CLUSTER, "default").manifest())
        .await
        .map(drop)
}

async fn measure(fleet: &Fleet, arguments: &BenchArgs, figures: &mut Figures) -> Result<()> {
    let sizes = arguments.sizes();
    if Part::ON_REAL_SERVERS
        .iter()
        .any(|part| arguments.includes(*part))
    {
        on_real_servers(fleet, arguments, figures).await?;
    }
    if arguments.includes(Part::Memory) {
        memory::of_many(fleet, &sizes, figures).await?;
    }
    if arguments.includes(Part::SearchFields) {
        search_fields::measure(fleet, sizes.pods, figures).await?;
    }
    if arguments.includes(Part::Latency) {
        latency::measure(fleet, &sizes, figures).await?;
    }
    if arguments.includes(Part::Churn) {
        churn::measure(fleet, &sizes, figures).await?;
    }
    if arguments.includes(Part::Outage) {
        outage::measure(fleet, &sizes, figures).await?;
    }
    if arguments.includes(Part::Fleet) {
        fleet::measure(fleet, &sizes, figures).await?;
    }
    if arguments.includes(Part::Queries) {
        for objects in [sizes.pods, sizes.objects] {
            queries::measure(fleet, objects, &sizes, figures).await?;
        }
    }
    if arguments.includes(Part::Watchers) {
        watchers::measure(fleet, &sizes, figures).await?;
    }
    if arguments.includes(Part::Takeover) {
        takeover::measure(fleet, figures).await?;
    }
    if arguments.includes(Part::Traces) {
        tracing::measure(fleet, &sizes, figures).await?;
    }
    Ok(())
}

/// Measures what needs pods of a real API server.
async fn on_real_servers(
    fleet: &Fleet,
    arguments: &BenchArgs,
    figures: &mut Figures,
) -> Result<()> {
    let sizes = arguments.sizes();
    let member = fleet.member(1);
    println!("creating {} pods with statuses …", sizes.pods);
    member
        .kubectl()?
        .run(&["create", "namespace", NAMESPACE])
        .await?;
    let load = Load::new(NAMESPACE, sizes.pods);
    let pace = load.create_with_statuses(member).await?;
    println!("  {:.0} requests/s", pace.per_second());

    if arguments.includes(Part::Sync) {
        limits::measure(fleet, sizes.pods, figures).await?;
    }
    let on_run = [Part::Sync, Part::Patches, Part::Restart];
    if on_run.iter().any(|part| arguments.includes(*part)) {
        on_one_run(fleet, arguments, &load, figures).await?;
    }
    if arguments.includes(Part::Interpreters) {
        interpreters::measure(fleet, &sizes, figures).await?;
    }
    Ok(())
}

/// Measures what needs an operator that has indexed these pods.
async fn on_one_run(
    fleet: &Fleet,
    arguments: &BenchArgs,
    load: &Load,
    figures: &mut Figures,
) -> Result<()> {
    let sizes = arguments.sizes();
    let syncs = if arguments.includes(Part::Sync) {
        sizes.syncs
    } else {
        1
    };
    let run = first_sync::measure(fleet, sizes.pods, syncs, figures).await?;
    if arguments.includes(Part::Patches) {
        patches::measure(fleet.member(1), load, &run, figures).await?;
    }
    if arguments.includes(Part::Sync) {
        memory::of_run("20k", &run, sizes.pods, &sizes, figures).await?;
    }
    if arguments.includes(Part::Restart) {
        restart::measure(fleet, &run, &sizes, figures).await?;
    }
    run.finish().await
}
