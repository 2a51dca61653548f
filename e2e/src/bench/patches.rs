//! One more status of every pod, as fast as a real API server accepts it: the highest rate of a
//! busy cluster.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{
    figures::Figures,
    run::Run,
    sizes::{DEADLINE, POLL_INTERVAL},
};
use crate::{fleet::ApiServer, load::Load};

/// Patches every pod, and waits until everything is acknowledged.
pub async fn measure(
    member: &ApiServer,
    load: &Load,
    run: &Run,
    figures: &mut Figures,
) -> Result<()> {
    println!("patches: one more status for every pod …");
    let before = run.scrape().await?;
    let started = Instant::now();
    let pace = load.patch_statuses(member, 1).await?;
    let expected = before.received() + load.pods.len() as f64;
    let after = loop {
        let now = run.scrape().await?;
        if now.received() >= expected && now.pending_documents() == 0.0 {
            break now;
        }
        ensure!(
            started.elapsed() < DEADLINE,
            "the patches were not all acknowledged"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    let elapsed = started.elapsed().as_secs_f64();
    let events = load.pods.len() as f64 / elapsed;
    let acks = after.event_to_ack_since(&before);
    let (middle, late) = (acks.quantile(0.5) * 1000.0, acks.quantile(0.99) * 1000.0);
    figures.set("patches_events_per_s", events);
    figures.set(
        "patches_written_per_s",
        (after.acknowledged() - before.acknowledged()) / elapsed,
    );
    figures.set("patches_offered_per_s", pace.per_second());
    figures.set("patches_ack_p50_ms", middle);
    figures.set("patches_ack_p99_ms", late);
    let offered = pace.per_second();
    let text = format!(
        "{events:.0} events/s taken, {offered:.0} offered; acknowledged p50 {middle:.0} ms, p99 {late:.0} ms"
    );
    println!("  {text}");
    figures.line("patches of a real API server", text);
    Ok(())
}
