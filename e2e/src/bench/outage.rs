//! An outage of OpenSearch under churn: how soon after it everything is in the index again, and what waits meanwhile.

use std::{
    convert::Infallible,
    fmt::{self, Display},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::figures::Figures;
use super::figures::verdict;
use super::run::Run;
use super::simulated::Scene;
use super::sizes::DEADLINE;
use super::sizes::LOOK;
use super::sizes::Sizes;
use crate::{
    fleet::{Fleet, OpenSearchServer},
    poll::eventually,
};

/// Writes per second, before, during and after the outage.
const RATE: u32 = 300;
/// What may wait when everything is drained: writes go on, so that something always waits. This is what is written in a tenth of a second.
const AFLOAT: f64 = RATE as f64 / 10.0;
/// From OpenSearch taking writes again to everything acknowledged.
const SECONDS: f64 = 10.0;
/// What may wait beyond the limit: a watch stops reading after the event that fills it.
const SLACK_BYTES: f64 = 1e6;

/// How OpenSearch goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    /// SIGKILL, and started again: connections are refused, and it comes back cold.
    Killed,
    /// SIGSTOP and SIGCONT: requests hang, and it comes back warm.
    Paused,
}

impl Display for Outage {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(if *self == Self::Killed {
            "killed"
        } else {
            "paused"
        })
    }
}

impl Outage {
    /// The whole outage, until OpenSearch takes writes again.
    async fn happen(self, server: &OpenSearchServer, duration: Duration) -> Result<()> {
        match self {
            Self::Killed => {
                server.kill();
                tokio::time::sleep(duration).await;
                server.restart().await
            }
            Self::Paused => {
                server.pause()?;
                tokio::time::sleep(duration).await;
                server.resume()?;
                let client = server.client()?;
                eventually("OpenSearch answers", DEADLINE, || {
                    client.get("_cluster/health?wait_for_status=yellow")
                })
                .await
                .map(drop)
            }
        }
    }
}

/// What was seen of an outage.
struct Seen {
    /// From OpenSearch taking writes again to everything acknowledged.
    recovery: Duration,
    peak_pending_bytes: f64,
    lists: f64,
}

/// Measures one outage of each kind.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    let scene = Scene::start(fleet, sizes.pods, "outage").await?;
    for outage in [Outage::Killed, Outage::Paused] {
        println!(
            "outage of {} s at {RATE} writes/s, OpenSearch {outage} …",
            sizes.outage.as_secs()
        );
        let seen = one(fleet, &scene, outage, sizes).await?;
        report(outage, &seen, sizes, figures);
        scene.until_complete().await?;
    }
    figures.set(
        "outage_peak_rss_bytes",
        scene.run.operator.usage()?.peak_memory_bytes as f64,
    );
    scene.finish().await
}

async fn one(fleet: &Fleet, scene: &Scene, outage: Outage, sizes: &Sizes) -> Result<Seen> {
    let before = scene.run.scrape().await?;
    let written_before = scene.simulated.set_rate(RATE).await?.writes;
    tokio::time::sleep(sizes.warm_up).await;
    let mut peak_pending_bytes = 0_f64;
    tokio::select! {
        over = outage.happen(fleet.opensearch()?, sizes.outage) => over?,
        never = watch_pending(&scene.run, &mut peak_pending_bytes) => match never {},
    }
    let answering = Instant::now();
    let written = scene.simulated.totals().await?.writes - written_before;
    tokio::select! {
        drained = until_drained(&scene.run, before.taken() + written as f64) => drained?,
        never = watch_pending(&scene.run, &mut peak_pending_bytes) => match never {},
    }
    let recovery = answering.elapsed();
    let lists = scene.run.scrape().await?.count("fleetdex_lists_total", "")
        - before.count("fleetdex_lists_total", "");
    Ok(Seen {
        recovery,
        peak_pending_bytes,
        lists,
    })
}

/// Looks at what waits, for ever.
async fn watch_pending(run: &Run, peak: &mut f64) -> Infallible {
    loop {
        if let Ok(scrape) = run.scrape().await {
            *peak = peak.max(scrape.pending_bytes());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until so many events were taken, and until no more than is afloat waited at an acknowledgement after that. Writes go on meanwhile.
async fn until_drained(run: &Run, events: f64) -> Result<()> {
    let started = Instant::now();
    let mut acknowledged_then: Option<f64> = None;
    loop {
        let scrape = run.scrape().await?;
        let acknowledged = scrape.acknowledged();
        match acknowledged_then {
            None if scrape.taken() >= events => acknowledged_then = Some(acknowledged),
            // The gauge tells what waited at the last answer of the store.
            Some(then) if acknowledged > then && scrape.pending_documents() <= AFLOAT => {
                return Ok(());
            }
            _ => {}
        }
        let left = events - scrape.taken();
        ensure!(
            started.elapsed() < DEADLINE,
            "not drained: {left} events to come\n{}",
            run.operator.process().log_tail(30)
        );
        tokio::time::sleep(LOOK).await;
    }
}

fn report(outage: Outage, seen: &Seen, sizes: &Sizes, figures: &mut Figures) {
    let seconds = seen.recovery.as_secs_f64();
    let limit =
        fleetdex_sync::pipeline::PipelineLimits::default().pending_bytes as f64 + SLACK_BYTES;
    let name = if outage == Outage::Killed {
        "recovery"
    } else {
        "recovery_after_pause"
    };
    figures.set(&format!("{name}_seconds"), seconds);
    figures.set(&format!("{name}_pending_bytes"), seen.peak_pending_bytes);
    figures.set(&format!("{name}_lists"), seen.lists);
    let text = format!(
        "{seconds:.1} s to drained, {:.0} lists; at most {SECONDS:.0} s: {}",
        seen.lists,
        verdict(seconds <= SECONDS)
    );
    println!("  {text}");
    figures.line(
        &format!(
            "OpenSearch {outage} for {} s at {RATE} writes/s",
            sizes.outage.as_secs()
        ),
        text,
    );
    let peak = seen.peak_pending_bytes;
    let text = format!(
        "{:.1} MB; at most {:.1} MB: {}",
        peak / 1e6,
        limit / 1e6,
        verdict(peak <= limit)
    );
    figures.line("  pending bytes at most", text);
}
