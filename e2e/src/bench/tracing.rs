//! What it costs an operator to record traces: the same steady rate of changes without an endpoint,
//! with one of a hundred changes recorded, and with all of them, to a collector that accepts
//! everything.
//!
//! The collector runs in this process, and decodes nothing. The rate is one that the operator keeps
//! up with in each case, so that its processor time per change can be compared; the store is the
//! same.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{
    figures::Figures,
    simulated::{Simulated, SimulatedSetup},
    sizes::Sizes,
};
use crate::{collector::TraceCollector, fleet::Fleet};

/// Changes per second.
const RATE: u32 = 1_000;
/// The measured cases: the name of the figures, what is printed, and the sampled ratio.
const CASES: [(&str, &str, Option<&str>); 3] = [
    ("off", "no endpoint", None),
    ("hundredth", "1 % recorded", Some("0.01")),
    ("all", "all recorded", Some("1")),
];

/// What one case costs.
struct TracingCost {
    changes_per_s: f64,
    /// Processor time of the operator for each change.
    micros_per_change: f64,
    p50_ms: f64,
    p99_ms: f64,
    peak_bytes: f64,
    exported_per_s: f64,
    dropped: f64,
}

/// Measures all cases, one after the other.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("traces, at {RATE} changes/s …");
    for (name, text, ratio) in CASES {
        let collector = TraceCollector::start().await?;
        collector.forget();
        let environment = ratio.map_or_else(Vec::new, |ratio| {
            vec![
                ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url().to_owned()),
                ("OTEL_TRACES_SAMPLER", "traceidratio".to_owned()),
                ("OTEL_TRACES_SAMPLER_ARG", ratio.to_owned()),
            ]
        });
        let simulated = Simulated::start(fleet, sizes.pods).await?;
        let prefix = format!("traces{name}");
        let setup = simulated
            .start_operator_with(fleet, &prefix, &environment)
            .await?;
        let cost = cost(&setup, sizes).await?;
        setup.until_complete().await?;
        setup.finish().await?;
        report(name, text, &cost, figures);
        let is_exported = cost.exported_per_s > 0.0;
        ensure!(
            is_exported == ratio.is_some(),
            "{text}: {} spans/s",
            cost.exported_per_s
        );
    }
    Ok(())
}

async fn cost(setup: &SimulatedSetup, sizes: &Sizes) -> Result<TracingCost> {
    let run = &setup.run;
    setup.simulated.set_rate(RATE).await?;
    tokio::time::sleep(sizes.warm_up).await;
    let (usage_before, before) = (run.operator.usage()?, run.scrape().await?);
    let started = Instant::now();
    tokio::time::sleep(sizes.churn).await;
    let (usage, after) = (run.operator.usage()?, run.scrape().await?);
    let elapsed = started.elapsed().as_secs_f64();
    let gained = |name: &str| after.count(name, "") - before.count(name, "");
    let changes = after.received() - before.received();
    let acknowledgements = after.event_to_ack_since(&before);
    Ok(TracingCost {
        changes_per_s: changes / elapsed,
        micros_per_change: (usage.cpu_seconds - usage_before.cpu_seconds) * 1e6 / changes,
        p50_ms: acknowledgements.quantile(0.5) * 1000.0,
        p99_ms: acknowledgements.quantile(0.99) * 1000.0,
        peak_bytes: usage.peak_memory_bytes as f64,
        exported_per_s: gained("fleetdex_trace_spans_exported_total") / elapsed,
        dropped: gained("fleetdex_trace_spans_dropped_total"),
    })
}

fn report(name: &str, text: &str, cost: &TracingCost, figures: &mut Figures) {
    let TracingCost {
        changes_per_s,
        micros_per_change,
        p50_ms,
        p99_ms,
        peak_bytes,
        exported_per_s,
        dropped,
    } = *cost;
    for (figure, value) in [
        ("changes_per_s", changes_per_s),
        ("cpu_us_per_change", micros_per_change),
        ("event_to_ack_p50_ms", p50_ms),
        ("event_to_ack_p99_ms", p99_ms),
        ("peak_rss_bytes", peak_bytes),
        ("spans_per_s", exported_per_s),
        ("spans_dropped", dropped),
    ] {
        figures.set(&format!("traces_{name}_{figure}"), value);
    }
    let line = format!(
        "{micros_per_change:.0} µs of a core per change at {changes_per_s:.0}/s, p50 {p50_ms:.0} ms, p99 {p99_ms:.0} ms, {:.0} MB; {exported_per_s:.0} spans/s, {dropped:.0} dropped",
        peak_bytes / 1e6
    );
    println!("  {text}: {line}");
    figures.line(&format!("traces, {text}"), line);
}
