//! Resident memory of the operator, at its peak and when idle.

use anyhow::Result;

use super::{
    figures::{Figures, verdict},
    run::Run,
    simulated::SimulatedSetup,
    sizes::Sizes,
};
use crate::fleet::Fleet;

/// Memory limit without objects, and per object.
const BASE_BYTES: f64 = 73e6;
const BYTES_PER_OBJECT: f64 = 100.0;

/// Measures a run that has written `objects` documents; names of figures contain `label`.
pub async fn of_run(
    label: &str,
    run: &Run,
    objects: usize,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    tokio::time::sleep(sizes.quiet).await;
    let usage = run.operator.usage()?;
    let (peak, settled) = (usage.peak_memory_bytes as f64, usage.memory_bytes as f64);
    let limit = BASE_BYTES + BYTES_PER_OBJECT * objects as f64;
    // A memory limit must allow the peak.
    figures.set(&format!("rss_{label}_bytes"), peak);
    figures.set(&format!("rss_{label}_settled_bytes"), settled);
    figures.set(&format!("rss_{label}_limit_bytes"), limit);
    figures.set(&format!("rss_{label}_objects"), objects as f64);
    let text = format!(
        "peak {:.1} MB, settled {:.1} MB; at most {:.0} MB + {BYTES_PER_OBJECT} B each = {:.1} MB: {}",
        peak / 1e6,
        settled / 1e6,
        BASE_BYTES / 1e6,
        limit / 1e6,
        verdict(peak <= limit)
    );
    println!("  memory: {text}");
    figures.line(&format!("memory with {objects} objects"), text);
    Ok(())
}

/// Measures a first sync of many objects of a simulated API server.
pub async fn of_many(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!(
        "memory with {} objects of a simulated API server …",
        sizes.objects
    );
    let setup = SimulatedSetup::start(fleet, sizes.objects, "memory").await?;
    of_run("200k", &setup.run, sizes.objects, sizes, figures).await?;
    setup.finish().await
}
