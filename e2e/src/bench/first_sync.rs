//! The first sync: from process start, the registry already applied, to the last document
//! acknowledged.

use anyhow::{Context, Result};

use super::{
    figures::{Figures, verdict},
    run::Run,
    sizes::CLUSTER,
};
use crate::fleet::Fleet;

/// A first sync may take this many times both limits together: the servers and Fleetdex share the
/// cores of one machine, and each works all the time. What Fleetdex does with its part:
/// docs/adr/0018.
const FACTOR: f64 = 1.35;

/// Measures several first syncs, each into a new index; the median counts. The last operator keeps
/// running.
pub async fn measure(
    fleet: &Fleet,
    pods: usize,
    syncs: usize,
    figures: &mut Figures,
) -> Result<Run> {
    println!("first sync of Fleetdex …");
    let mut seconds = Vec::new();
    let mut last: Option<Run> = None;
    for round in 0..syncs {
        if let Some(run) = last.take() {
            run.finish().await?;
        }
        let run = Run::start(fleet, CLUSTER, &format!("bench{round}")).await?;
        run.until_indexed(pods).await?;
        seconds.push(run.started.elapsed().as_secs_f64());
        note_usage(&run, figures).await?;
        last = Some(run);
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    println!("  {median:.2} s");
    figures.set("first_sync_seconds", median);
    figures.set("first_sync_docs_per_s", pods as f64 / median);
    report(median, figures);
    last.context("no sync was run")
}

async fn note_usage(run: &Run, figures: &mut Figures) -> Result<()> {
    let usage = run.operator.usage()?;
    figures.set("first_sync_peak_rss_bytes", usage.peak_memory_bytes as f64);
    figures.set("first_sync_cpu_seconds", usage.cpu_seconds);
    figures.set(
        "first_sync_list_requests",
        run.scrape().await?.count("fleetdex_list_pages_total", ""),
    );
    Ok(())
}

fn report(seconds: f64, figures: &mut Figures) {
    let limits = figures.get("list_seconds") + figures.get("raw_bulk_seconds");
    if limits.is_nan() {
        figures.line(
            "first sync",
            format!("{seconds:.2} s; the limits were not measured"),
        );
        return;
    }
    let ratio = seconds / limits;
    figures.set("first_sync_ratio", ratio);
    let text = format!(
        "{seconds:.2} s, {ratio:.2} × LIST and raw _bulk together; at most {FACTOR} ×: {}",
        verdict(ratio <= FACTOR)
    );
    figures.line("first sync", text);
    let usage = format!(
        "{:.0}, {:.2}, {:.1} MB",
        figures.get("first_sync_list_requests"),
        figures.get("first_sync_cpu_seconds"),
        figures.get("first_sync_peak_rss_bytes") / 1e6
    );
    figures.line("  LIST requests, CPU seconds, peak memory", usage);
}
