//! Saturating churn beside raw `_bulk`, both with OpenSearch on one core.
//!
//! Both update random documents of the same cluster repeatedly: an update costs OpenSearch more
//! than a new document, and updates in order cost less than random ones, because segments of
//! deleted documents alone need no merging. Raw bulk is measured before and after, because
//! OpenSearch gets faster while it is compiled; each time in a new index, filled just before,
//! because merges become more expensive with time.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{
    figures::{Figures, verdict},
    pinning::Pinned,
    raw,
    raw_updates::{BATCH_BYTES, RawUpdates},
    simulated::{Simulated, SimulatedSetup},
    sizes::{DEADLINE, Sizes},
};
use crate::fleet::Fleet;

/// Raw bulk is tried with each of these numbers of connections; the best is measured.
const CONNECTIONS: [usize; 4] = [1, 2, 3, 4];
/// The offered rate, as a multiple of the raw bulk rate.
const SATURATION: f64 = 1.5;
/// The expected share of the raw bulk rate: below all that were seen, which differ by a quarter
/// (ADR 18).
const SHARE: f64 = 0.85;

/// The result of a period of churn.
struct ChurnResult {
    written_per_s: f64,
    taken_per_s: f64,
    offered_per_s: f64,
    /// Processor seconds of the operator per second.
    cores: f64,
    watches_paused: f64,
    lists: f64,
}

/// Measures both rates and their ratio.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("churn, with OpenSearch on one core …");
    let pinned = Pinned::new(fleet)?;
    let simulated = Simulated::start(fleet, sizes.pods).await?;
    let lines = raw::watch_lines(simulated.client()?).await?;
    let connections = best_connections(fleet, &lines, sizes).await?;
    let before = raw_updates(fleet, &lines, connections, sizes).await?;
    let setup = simulated.start_operator(fleet, "churn").await?;
    let churned = saturate(&setup, saturating(before), sizes).await?;
    let caught_up = setup.until_complete().await?;
    setup.finish().await?;
    let after = raw_updates(fleet, &lines, connections, sizes).await?;
    drop(pinned);
    report(before, after, &churned, caught_up, figures);
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive rate, far below 2^32"
)]
fn saturating(raw: f64) -> u32 {
    (raw * SATURATION).ceil() as u32
}

/// The number of connections with the highest raw bulk rate.
async fn best_connections(fleet: &Fleet, lines: &[Vec<u8>], sizes: &Sizes) -> Result<usize> {
    let mut raw = RawUpdates::open(fleet, lines).await?;
    // Lets OpenSearch warm up.
    raw.update_for(CONNECTIONS[0], 4 * sizes.warm_up).await?;
    let mut best = (0.0, CONNECTIONS[0]);
    for connections in CONNECTIONS {
        let rate = raw.update_for(connections, sizes.raw).await?;
        println!(
            "  trying {connections} × {} MiB: {rate:.0} docs/s",
            BATCH_BYTES >> 20
        );
        if rate > best.0 {
            best = (rate, connections);
        }
    }
    raw.remove().await?;
    Ok(best.1)
}

/// The rate of raw bulk updates, in documents per second, over the same duration as Fleetdex's.
async fn raw_updates(
    fleet: &Fleet,
    lines: &[Vec<u8>],
    connections: usize,
    sizes: &Sizes,
) -> Result<f64> {
    let mut raw = RawUpdates::open(fleet, lines).await?;
    raw.update_for(connections, sizes.warm_up).await?;
    let rate = raw.update_for(connections, sizes.churn).await?;
    println!(
        "  raw, {connections} × {} MiB: {rate:.0} docs/s",
        BATCH_BYTES >> 20
    );
    raw.remove().await?;
    Ok(rate)
}

async fn saturate(setup: &SimulatedSetup, rate: u32, sizes: &Sizes) -> Result<ChurnResult> {
    let run = &setup.run;
    setup.simulated.set_rate(rate).await?;
    tokio::time::sleep(sizes.warm_up).await;
    let (totals_before, usage_before, before) = (
        setup.simulated.totals().await?,
        run.operator.usage()?,
        run.scrape().await?,
    );
    let started = Instant::now();
    tokio::time::sleep(sizes.churn.min(DEADLINE)).await;
    let (totals, usage, after) = (
        setup.simulated.totals().await?,
        run.operator.usage()?,
        run.scrape().await?,
    );
    let elapsed = started.elapsed().as_secs_f64();
    let gained = |name: &str| after.count(name, "") - before.count(name, "");
    Ok(ChurnResult {
        written_per_s: (after.acknowledged() - before.acknowledged()) / elapsed,
        taken_per_s: (after.received() - before.received()) / elapsed,
        offered_per_s: (totals.writes - totals_before.writes) as f64 / elapsed,
        cores: (usage.cpu_seconds - usage_before.cpu_seconds) / elapsed,
        watches_paused: gained("fleetdex_watch_paused_total"),
        lists: gained("fleetdex_list_pages_total"),
    })
}

fn report(
    raw_before: f64,
    raw_after: f64,
    churned: &ChurnResult,
    caught_up: Duration,
    figures: &mut Figures,
) {
    let ChurnResult {
        written_per_s,
        taken_per_s,
        offered_per_s,
        cores,
        watches_paused,
        lists,
    } = *churned;
    let raw = f64::midpoint(raw_before, raw_after);
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
    let text = format!("{raw:.0} docs/s: {raw_before:.0} before, {raw_after:.0} after");
    figures.line("raw _bulk of updates, OpenSearch on one core", text);
    let text = format!(
        "{written_per_s:.0} docs/s, {ratio:.2} × raw; at least {SHARE} ×: {}",
        verdict(ratio >= SHARE)
    );
    figures.line("churn, OpenSearch on one core", text);
    figures.line(
        "  events taken, offered",
        format!("{taken_per_s:.0}/s, {offered_per_s:.0}/s"),
    );
    figures.line(
        "  operator",
        format!("{cores:.2} cores, {watches_paused:.0} watches paused, {lists:.0} lists"),
    );
}
