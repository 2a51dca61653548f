//! A hundred members, all served by one simulated process: whether twenty broken ones delay the
//! others, and what a hundred idle ones of thirty kinds each cost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{
    broken::Broken,
    figures::{Figures, verdict},
    members::{Members, MembersSpec},
    scrape::Scrape,
    sizes::{DEADLINE, Sizes},
};
use crate::{
    fleet::Fleet,
    operator::{Operator, OperatorOptions},
    poll::eventually,
};

/// The name of the registry and the members of this part.
const NAME: &str = "fleet";
/// Pods of each member.
const PODS: usize = 50;
/// Watched kinds of each idle member.
const KINDS: usize = 30;
/// Events per second of each healthy member.
const RATE: u32 = 3;
/// Limit of the latency of healthy members beside broken ones, as a ratio to the latency without
/// them.
const SLOWER: f64 = 1.1;
/// Limits while idle: processor cores, and memory per watch.
const IDLE_CORES: f64 = 0.05;
const BYTES_PER_WATCH: f64 = 60e3;

/// Measures both.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    let (all, broken) = (sizes.members, sizes.members / 5);
    println!("a fleet of {all} members, {broken} of them broken …");
    let members = Members::start(
        fleet,
        MembersSpec {
            name: NAME,
            members: all,
            kinds: KINDS,
            pods: PODS,
        },
    )
    .await?;
    let whole = all - broken;
    members.register(&members.urls[..whole], 0).await?;
    members.apply_registry(1).await?;
    let operator = start_operator(fleet)?;
    members.until_watching(&operator, whole).await?;
    members.set_rate(whole, RATE).await?;
    tokio::time::sleep(sizes.warm_up).await;
    let alone = latency(&operator, sizes).await?;

    let servers = Broken::start().await?;
    let urls: Vec<String> = (0..broken)
        .map(|number| servers.url(number))
        .collect::<Result<_>>()?;
    members.register(&urls, whole).await?;
    tokio::time::sleep(sizes.warm_up).await;
    let beside = latency(&operator, sizes).await?;
    report_latency(alone, beside, whole, broken, figures);
    members.set_rate(whole, 0).await?;
    members.remove_registries().await?;
    operator.terminate(Duration::from_secs(30)).await?;

    idle(fleet, &members, sizes, figures).await?;
    members.unregister().await
}

fn start_operator(fleet: &Fleet) -> Result<Operator> {
    Operator::start(OperatorOptions::of(fleet))
}

/// Milliseconds from an event to its acknowledgement: median and 99th percentile.
#[derive(Clone, Copy)]
struct Latency {
    middle: f64,
    late: f64,
    events: f64,
}

async fn latency(operator: &Operator, sizes: &Sizes) -> Result<Latency> {
    let before = Scrape::of(operator).await?;
    tokio::time::sleep(sizes.latency).await;
    let acks = Scrape::of(operator).await?.event_to_ack_since(&before);
    Ok(Latency {
        middle: acks.quantile(0.5) * 1000.0,
        late: acks.quantile(0.99) * 1000.0,
        events: acks.total(),
    })
}

fn report_latency(
    alone: Latency,
    beside: Latency,
    whole: usize,
    broken: usize,
    figures: &mut Figures,
) {
    figures.set("fleet_members_whole", whole as f64);
    figures.set("fleet_members_broken", broken as f64);
    figures.set("fleet_alone_p50_ms", alone.middle);
    figures.set("fleet_alone_p99_ms", alone.late);
    figures.set("fleet_beside_broken_p50_ms", beside.middle);
    figures.set("fleet_beside_broken_p99_ms", beside.late);
    let holds = beside.middle <= alone.middle * SLOWER
        && beside.late <= alone.late * SLOWER
        && beside.events > 0.0;
    let text = format!(
        "p50 {:.0} ms, p99 {:.0} ms; beside {broken} broken p50 {:.0} ms, p99 {:.0} ms; at most 10 % more: {}",
        alone.middle,
        alone.late,
        beside.middle,
        beside.late,
        verdict(holds)
    );
    println!("  {text}");
    figures.line(&format!("event to acknowledged of {whole} members"), text);
}

/// The cost of all members, healthy and idle.
async fn idle(
    fleet: &Fleet,
    members: &Members,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    let all = members.urls.len();
    println!("{all} members of {KINDS} kinds, while nothing happens …");
    members.register(&members.urls, 0).await?;
    let operator = start_operator(fleet)?;
    eventually("all members are connected", DEADLINE, || async {
        let up = operator.count_of("fleetdex_cluster_up", "").await?;
        ensure!(up > all as f64, "{up} of {all} and one more");
        Ok(())
    })
    .await?;
    tokio::time::sleep(sizes.quiet).await;
    let without = operator.usage()?.memory_bytes as f64;
    members.apply_registry(KINDS).await?;
    let watches = all * KINDS;
    members.until_watching(&operator, watches).await?;
    tokio::time::sleep(2 * sizes.quiet).await;
    let (before, started) = (operator.usage()?, Instant::now());
    tokio::time::sleep(sizes.latency).await;
    let after = operator.usage()?;
    let cores = (after.cpu_seconds - before.cpu_seconds) / started.elapsed().as_secs_f64();
    let bytes = (after.memory_bytes as f64 - without) / watches as f64;
    figures.set("fleet_idle_cores", cores);
    figures.set("fleet_watches", watches as f64);
    figures.set("fleet_bytes_per_watch", bytes);
    figures.set("fleet_idle_rss_bytes", after.memory_bytes as f64);
    let text = format!(
        "{cores:.3} cores; at most {IDLE_CORES}: {}",
        verdict(cores <= IDLE_CORES)
    );
    println!("  idle: {text}");
    figures.line(&format!("idle, {all} clusters × {KINDS} kinds"), text);
    let text = format!(
        "{:.1} kB; at most {:.0} kB: {}",
        bytes / 1e3,
        BYTES_PER_WATCH / 1e3,
        verdict(bytes <= BYTES_PER_WATCH)
    );
    println!("  memory per watch: {text}");
    figures.line("memory per watch", text);
    members.remove_registries().await?;
    operator.terminate(Duration::from_secs(30)).await.map(drop)
}
