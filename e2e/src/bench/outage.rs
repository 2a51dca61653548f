//! An outage of OpenSearch under churn: the recovery time, and the bytes that are pending
//! meanwhile.

use std::{
    convert::Infallible,
    fmt::{self, Display},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use fleetdex_sync::pipeline::PipelineLimits;

use super::{
    figures::{Figures, verdict},
    raw,
    raw_updates::RawUpdates,
    run::Run,
    scrape::Scrape,
    simulated::SimulatedSetup,
    sizes::{DEADLINE, POLL_INTERVAL, Sizes},
};
use crate::{
    fleet::{Fleet, OpenSearchServer},
    poll::eventually,
};

/// Writes per second, before, during and after the outage.
const RATE: u32 = 300;
/// Pending documents that count as drained: with continuing writes, as many as are written in a
/// tenth of a second.
const STEADY_PENDING: f64 = RATE as f64 / 10.0;
/// Limit from a paused OpenSearch accepting writes again to everything acknowledged. Its programs
/// are compiled, so that this is not what takes the time.
const SECONDS: f64 = 10.0;
/// The same of one that is started again, by the time in which it takes as many raw updates after
/// another start: a cold OpenSearch takes a fraction of the writes of a warm one (docs/adr/0018).
const COLD_RATIO: f64 = 1.5;
/// Allowance above the limit of pending bytes: a watch stops reading after the event that exceeds
/// it.
const SLACK_BYTES: f64 = 1e6;

/// How OpenSearch fails.
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
    /// Runs the outage until OpenSearch accepts writes again.
    async fn run(self, server: &OpenSearchServer, duration: Duration) -> Result<()> {
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

/// The result of an outage.
struct OutageResult {
    /// From OpenSearch accepting writes again to everything acknowledged.
    recovery: Duration,
    /// Documents that were acknowledged in that time.
    documents: f64,
    peak_pending_bytes: f64,
    lists: f64,
}

/// What the recovery may take.
#[derive(Clone, Copy)]
enum Limit {
    Seconds(f64),
    /// A multiple of the time of raw updates of as many documents.
    Raw(Duration),
}

/// Measures one outage of each kind.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    let setup = SimulatedSetup::start(fleet, sizes.pods, "outage").await?;
    for outage in [Outage::Killed, Outage::Paused] {
        println!(
            "outage of {} s at {RATE} writes/s, OpenSearch {outage} …",
            sizes.outage.as_secs()
        );
        let result = measure_one(fleet, &setup, outage, sizes).await?;
        setup.until_complete().await?;
        let limit = match outage {
            Outage::Killed => Limit::Raw(raw_recovery(fleet, &setup, result.documents).await?),
            Outage::Paused => Limit::Seconds(SECONDS),
        };
        report(outage, &result, limit, sizes, figures);
    }
    figures.set(
        "outage_peak_rss_bytes",
        setup.run.operator.usage()?.peak_memory_bytes as f64,
    );
    setup.finish().await
}

async fn measure_one(
    fleet: &Fleet,
    setup: &SimulatedSetup,
    outage: Outage,
    sizes: &Sizes,
) -> Result<OutageResult> {
    let before = setup.run.scrape().await?;
    let written_before = setup.simulated.set_rate(RATE).await?.writes;
    tokio::time::sleep(sizes.warm_up).await;
    let mut peak_pending_bytes = 0_f64;
    tokio::select! {
        over = outage.run(fleet.opensearch()?, sizes.outage) => over?,
        never = watch_pending(&setup.run, &mut peak_pending_bytes) => match never {},
    }
    let answering = Instant::now();
    let acknowledged = setup.run.scrape().await?.acknowledged();
    let written = setup.simulated.totals().await?.writes - written_before;
    tokio::select! {
        drained = until_drained(&setup.run, before.received() + written as f64) => drained?,
        never = watch_pending(&setup.run, &mut peak_pending_bytes) => match never {},
    }
    let recovery = answering.elapsed();
    let after = setup.run.scrape().await?;
    let pages = |scrape: &Scrape| scrape.count("fleetdex_list_pages_total", "");
    Ok(OutageResult {
        recovery,
        documents: after.acknowledged() - acknowledged,
        peak_pending_bytes,
        lists: pages(&after) - pages(&before),
    })
}

/// How long raw updates of so many documents take once OpenSearch was killed and started again.
async fn raw_recovery(fleet: &Fleet, setup: &SimulatedSetup, documents: f64) -> Result<Duration> {
    let lines = raw::watch_lines(setup.simulated.client()?).await?;
    let mut raw = RawUpdates::open(fleet, &lines).await?;
    fleet.opensearch()?.restart().await?;
    // As many connections as Fleetdex has bulk requests in flight.
    let connections = PipelineLimits::default().in_flight;
    let taken = raw.update_documents(connections, documents).await?;
    raw.remove().await?;
    Ok(taken)
}

/// Samples the pending bytes, without end.
async fn watch_pending(run: &Run, peak: &mut f64) -> Infallible {
    loop {
        if let Ok(scrape) = run.scrape().await {
            *peak = peak.max(scrape.pending_bytes());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until this many events are received, and until a later acknowledgement leaves at most
/// `STEADY_PENDING` documents pending. Writes continue meanwhile.
async fn until_drained(run: &Run, events: f64) -> Result<()> {
    let started = Instant::now();
    let mut acknowledged_then: Option<f64> = None;
    loop {
        let scrape = run.scrape().await?;
        let acknowledged = scrape.acknowledged();
        match acknowledged_then {
            None if scrape.received() >= events => acknowledged_then = Some(acknowledged),
            // The gauge is as of the store's last response.
            Some(then) if acknowledged > then && scrape.pending_documents() <= STEADY_PENDING => {
                return Ok(());
            }
            _ => {}
        }
        let left = events - scrape.received();
        ensure!(
            started.elapsed() < DEADLINE,
            "not drained: {left} events to come\n{}",
            run.operator.process().log_tail(30)
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn report(
    outage: Outage,
    result: &OutageResult,
    limit: Limit,
    sizes: &Sizes,
    figures: &mut Figures,
) {
    let seconds = result.recovery.as_secs_f64();
    let name = match outage {
        Outage::Killed => "recovery",
        Outage::Paused => "recovery_after_pause",
    };
    figures.set(&format!("{name}_seconds"), seconds);
    figures.set(&format!("{name}_documents"), result.documents);
    figures.set(&format!("{name}_pending_bytes"), result.peak_pending_bytes);
    figures.set(&format!("{name}_lists"), result.lists);
    let expected = match limit {
        Limit::Seconds(most) => format!("at most {most:.0} s: {}", verdict(seconds <= most)),
        Limit::Raw(taken) => {
            let raw = taken.as_secs_f64();
            figures.set(&format!("{name}_raw_seconds"), raw);
            format!(
                "raw _bulk of as many after a start {raw:.1} s; at most {COLD_RATIO} ×: {}",
                verdict(seconds <= COLD_RATIO * raw)
            )
        }
    };
    let text = format!(
        "{seconds:.1} s to drained, {:.0} documents, {:.0} lists; {expected}",
        result.documents, result.lists
    );
    println!("  {text}");
    figures.line(
        &format!(
            "OpenSearch {outage} for {} s at {RATE} writes/s",
            sizes.outage.as_secs()
        ),
        text,
    );
    let peak = result.peak_pending_bytes;
    let limit = PipelineLimits::default().pending_bytes as f64 + SLACK_BYTES;
    let text = format!(
        "{:.1} MB; at most {:.1} MB: {}",
        peak / 1e6,
        limit / 1e6,
        verdict(peak <= limit)
    );
    figures.line("  pending bytes at most", text);
}
