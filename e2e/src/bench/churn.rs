//! Saturating churn beside raw `_bulk`, both with OpenSearch on one core.
//!
//! Both write the same documents of the same cluster, again and again, in no order: a document that is there already costs OpenSearch
//! more than a new one.

use std::time::{Duration, Instant};

use anyhow::Result;
use fleetdex::bulk::{self, Write};
use futures::{StreamExt, TryStreamExt, stream};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::figures::{Figures, verdict};
use super::pinning::Pinned;
use super::raw::{self, Target};
use super::simulated::{Scene, Simulated};
use super::{DEADLINE, Sizes};
use crate::fleet::Fleet;

/// Raw bulk is measured with every one of these, and this size of batches, which is that of Fleetdex.
const CONNECTIONS: [usize; 4] = [1, 2, 3, 4];
const BATCH_BYTES: usize = 2 << 20;
/// As many writes are offered as raw bulk takes, times this.
const SATURATION: f64 = 1.5;
/// What Fleetdex should reach of raw bulk.
const SHARE: f64 = 0.9;

/// What a time of churn came to.
struct Churned {
    written_per_s: f64,
    taken_per_s: f64,
    offered_per_s: f64,
    /// Processor seconds of the operator per second.
    cores: f64,
    watches_paused: f64,
    lists: f64,
}

/// Measures both, and their ratio.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("churn, with OpenSearch on one core …");
    let pinned = Pinned::new(fleet)?;
    let simulated = Simulated::start(fleet, sizes.pods).await?;
    let raw = raw_updates(fleet, &simulated, sizes).await?;
    let scene = simulated.followed(fleet, "churn").await?;
    let churned = saturate(&scene, saturating(raw), sizes).await?;
    let caught_up = scene.until_complete().await?;
    scene.finish().await?;
    drop(pinned);
    report(raw, &churned, caught_up, figures);
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive rate, far below 2^32")]
fn saturating(raw: f64) -> u32 {
    (raw * SATURATION).ceil() as u32
}

/// Raw `_bulk` of documents that are there already, per second: the best of several numbers of connections.
async fn raw_updates(fleet: &Fleet, simulated: &Simulated, sizes: &Sizes) -> Result<f64> {
    let target = Target::open(fleet, "rawupdates").await?;
    let lines = raw::watch_lines(simulated.client()?).await?;
    let mut writes = target.writes(&lines)?;
    writes.shuffle(&mut StdRng::seed_from_u64(1));
    let mut round = 0;
    // Fills the index, and lets OpenSearch warm up.
    rewrite(&target, &mut writes, &mut round, CONNECTIONS[0], sizes.warm_up).await?;
    let mut best = 0_f64;
    for connections in CONNECTIONS {
        let rate = rewrite(&target, &mut writes, &mut round, connections, sizes.raw).await?;
        println!("  raw, {connections} × {} MiB: {rate:.0} docs/s", BATCH_BYTES >> 20);
        best = best.max(rate);
    }
    target.remove().await?;
    Ok(best)
}

/// Writes all documents in ever newer versions, at least once, until a time is over. Gives the documents per second.
async fn rewrite(target: &Target, writes: &mut [Write], round: &mut u64, connections: usize, duration: Duration) -> Result<f64> {
    let mut sent = 0;
    let started = Instant::now();
    while sent == 0 || started.elapsed() < duration {
        *round += 1;
        for write in &mut *writes {
            write.version = (write.version.get() + *round).to_string().parse()?;
        }
        let batches = raw::batches(writes, BATCH_BYTES).into_iter();
        let bodies = batches.map(|batch| (bulk::encode(&writes[batch.clone()]).body, batch.len()));
        let answers = stream::iter(bodies).map(|(body, count)| target.send(body, count)).buffer_unordered(connections);
        answers.try_collect::<Vec<()>>().await?;
        sent += writes.len();
    }
    Ok(sent as f64 / started.elapsed().as_secs_f64())
}

async fn saturate(scene: &Scene, rate: u32, sizes: &Sizes) -> Result<Churned> {
    let run = &scene.run;
    scene.simulated.set_rate(rate).await?;
    tokio::time::sleep(sizes.warm_up).await;
    let (totals_before, usage_before, before) = (scene.simulated.totals().await?, run.operator.usage()?, run.scrape().await?);
    let started = Instant::now();
    tokio::time::sleep(sizes.churn.min(DEADLINE)).await;
    let (totals, usage, after) = (scene.simulated.totals().await?, run.operator.usage()?, run.scrape().await?);
    let elapsed = started.elapsed().as_secs_f64();
    let gained = |name: &str| after.count(name, "") - before.count(name, "");
    Ok(Churned {
        written_per_s: (after.acknowledged() - before.acknowledged()) / elapsed,
        taken_per_s: (after.taken() - before.taken()) / elapsed,
        offered_per_s: (totals.writes - totals_before.writes) as f64 / elapsed,
        cores: (usage.cpu_seconds - usage_before.cpu_seconds) / elapsed,
        watches_paused: gained("fleetdex_watch_paused_total"),
        lists: gained("fleetdex_lists_total"),
    })
}

fn report(raw: f64, churned: &Churned, caught_up: Duration, figures: &mut Figures) {
    let Churned { written_per_s, taken_per_s, offered_per_s, cores, watches_paused, lists } = *churned;
    let ratio = written_per_s / raw;
    figures.set("raw_bulk_one_core_docs_per_s", raw);
    figures.set("churn_docs_per_s", written_per_s);
    figures.set("churn_ratio", ratio);
    figures.set("churn_events_per_s", taken_per_s);
    figures.set("churn_offered_per_s", offered_per_s);
    figures.set("churn_operator_cores", cores);
    figures.set("churn_watches_paused", watches_paused);
    figures.set("churn_lists", lists);
    figures.set("churn_caught_up_seconds", caught_up.as_secs_f64());
    println!("  {written_per_s:.0} docs/s, {ratio:.2} × raw");
    figures.line("raw _bulk of updates, OpenSearch on one core", format!("{raw:.0} docs/s"));
    let text = format!("{written_per_s:.0} docs/s, {ratio:.2} × raw; at least {SHARE} ×: {}", verdict(ratio >= SHARE));
    figures.line("churn, OpenSearch on one core", text);
    figures.line("  events taken, offered", format!("{taken_per_s:.0}/s, {offered_per_s:.0}/s"));
    figures.line("  operator", format!("{cores:.2} cores, {watches_paused:.0} watches paused, {lists:.0} lists"));
}
