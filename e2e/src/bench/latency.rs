//! From an event's arrival to the store's acknowledgement, at a steady rate.

use std::time::Instant;

use anyhow::{Context as _, Result};
use fleetdex_store::bulk;

use super::{
    figures::{Figures, verdict},
    raw::{self, Target},
    simulated::SimulatedSetup,
    sizes::Sizes,
};
use crate::fleet::Fleet;

/// Events per second.
const RATE: u32 = 500;
/// Limit of the 99th percentile, in milliseconds.
const LATE_MILLISECONDS: f64 = 500.0;
/// Sequential bulk requests of one document each for the limit.
const BARE_REQUESTS: usize = 500;

/// Measures the latency with a simulated API server.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("event to acknowledged at {RATE} events/s …");
    let setup = SimulatedSetup::start(fleet, sizes.pods, "latency").await?;
    let lines = raw::watch_lines(setup.simulated.client()?).await?;
    let bare = bare(fleet, &lines[..lines.len().min(BARE_REQUESTS)]).await?;
    drop(lines);
    setup.simulated.set_rate(RATE).await?;
    tokio::time::sleep(sizes.warm_up).await;
    let before = setup.run.scrape().await?;
    let started = Instant::now();
    tokio::time::sleep(sizes.latency).await;
    let after = setup.run.scrape().await?;
    let elapsed = started.elapsed().as_secs_f64();
    setup.until_complete().await?;
    setup.finish().await?;

    let acks = after.event_to_ack_since(&before);
    let (middle, late) = (acks.quantile(0.5) * 1000.0, acks.quantile(0.99) * 1000.0);
    let rate = (after.received() - before.received()) / elapsed;
    figures.set("event_to_ack_events_per_s", rate);
    figures.set("event_to_ack_count", acks.total());
    figures.set("event_to_ack_p50_ms", middle);
    figures.set("event_to_ack_p99_ms", late);
    figures.set("bare_bulk_p50_ms", bare);
    let holds = late <= LATE_MILLISECONDS;
    let text = format!(
        "p50 {middle:.0} ms, p99 {late:.0} ms; a bare bulk request of one document {bare:.0} ms; at most {LATE_MILLISECONDS:.0} ms: {}",
        verdict(holds)
    );
    println!("  {text}");
    figures.line(&format!("event to acknowledged, {rate:.0} events/s"), text);
    Ok(())
}

/// The limit: the median time of a bulk request with one document, in milliseconds.
async fn bare(fleet: &Fleet, lines: &[Vec<u8>]) -> Result<f64> {
    let target = Target::open(fleet, "latency_raw").await?;
    let mut times = Vec::with_capacity(lines.len());
    for write in target.writes(lines)? {
        let body = bulk::encode(&[write]).body;
        let started = Instant::now();
        target.send(body, 1).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    target.remove().await?;
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("no document")
}
