//! A restart with nothing changed, with the checkpoint and without it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::Figures;
use super::figures::verdict;
use super::run::Run;
use super::scrape::Scrape;
use super::sizes::CLUSTER;
use super::sizes::DEADLINE;
use super::sizes::Sizes;
use crate::{fleet::Fleet, objects::Objects, opensearch::OpenSearch, poll::eventually};

/// A restart is short: it is looked at more closely than other things.
const LOOK: Duration = Duration::from_millis(10);
/// From the member's answer to everything being followed.
const SECONDS: f64 = 2.0;

/// What a restart came to.
struct Restarted {
    /// From the first look at which the member had answered.
    seconds: f64,
    /// From the start of the process.
    seconds_from_start: f64,
    /// Items of bulk requests, of whatever verdict.
    writes: f64,
    /// Full pages of lists.
    lists: f64,
}

/// Measures both.
pub async fn measure(fleet: &Fleet, run: &Run, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("restart with nothing changed …");
    let opensearch = fleet.opensearch()?.client()?;
    let state = format!("{}.state", run.prefix);
    until_checkpoint(&opensearch, &state).await?;
    let with = restart(fleet, run, sizes, async || Ok(())).await?;
    until_checkpoint(&opensearch, &state).await?;
    let without = restart(fleet, run, sizes, async || {
        forget(&opensearch, &state).await
    })
    .await?;
    keep("restart", &with, figures);
    keep("restart_without_checkpoint", &without, figures);
    let holds = with.writes == 0.0 && with.lists == 0.0 && with.seconds <= SECONDS;
    let text = format!(
        "{}; no write, no list, at most {SECONDS} s: {}",
        with.text(),
        verdict(holds)
    );
    println!("  {text}");
    figures.line("restart with nothing changed", text);
    let text = format!(
        "{}; no write: {}",
        without.text(),
        verdict(without.writes == 0.0)
    );
    println!("  without checkpoint: {text}");
    figures.line("  without the checkpoint", text);
    Ok(())
}

fn keep(name: &str, restarted: &Restarted, figures: &mut Figures) {
    figures.set(&format!("{name}_seconds"), restarted.seconds);
    figures.set(
        &format!("{name}_seconds_from_start"),
        restarted.seconds_from_start,
    );
    figures.set(&format!("{name}_writes"), restarted.writes);
    figures.set(&format!("{name}_lists"), restarted.lists);
}

impl Restarted {
    fn text(&self) -> String {
        let Self {
            seconds,
            seconds_from_start,
            writes,
            lists,
        } = self;
        format!(
            "{seconds:.2} s ({seconds_from_start:.2} s from process start), {writes:.0} writes, {lists:.0} lists"
        )
    }
}

/// Stops the operator, does something, starts it again, and waits until it follows everything.
async fn restart(
    fleet: &Fleet,
    run: &Run,
    sizes: &Sizes,
    between: impl AsyncFnOnce() -> Result<()>,
) -> Result<Restarted> {
    run.operator.terminate(Duration::from_secs(30)).await?;
    between().await?;
    let hub = Objects::of(fleet.control_plane())?;
    let started = Instant::now();
    run.operator.restart()?;
    let answered = until(run, member_answers).await?;
    loop {
        until(run, follows_everything).await?;
        if is_ready(&hub, &run.prefix).await? {
            break;
        }
        ensure!(
            started.elapsed() < DEADLINE,
            "the registry is not ready\n{}",
            run.operator.process().log_tail(30)
        );
        tokio::time::sleep(LOOK).await;
    }
    let (seconds, seconds_from_start) = (
        answered.elapsed().as_secs_f64(),
        started.elapsed().as_secs_f64(),
    );
    // What should not happen gets time to happen.
    tokio::time::sleep(sizes.quiet).await;
    let scrape = run.scrape().await?;
    let (writes, lists) = (
        scrape.count("fleetdex_bulk_items_total", ""),
        scrape.count("fleetdex_lists_total", ""),
    );
    Ok(Restarted {
        seconds,
        seconds_from_start,
        writes,
        lists,
    })
}

/// Waits until the metrics show something. Gives the moment of the look that saw it.
async fn until(run: &Run, check: impl Fn(&Scrape) -> bool) -> Result<Instant> {
    let started = Instant::now();
    while started.elapsed() < DEADLINE {
        // It does not answer before it has started.
        if run.scrape().await.is_ok_and(|scrape| check(&scrape)) {
            return Ok(Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
    anyhow::bail!(
        "not restarted within {} s\n{}",
        DEADLINE.as_secs(),
        run.operator.process().log_tail(30)
    )
}

fn member_answers(scrape: &Scrape) -> bool {
    scrape.count("fleetdex_cluster_up", &format!(r#"cluster="{CLUSTER}""#)) == 1.0
}

/// Whether every unit says so, and a watch has been opened.
fn follows_everything(scrape: &Scrape) -> bool {
    let units = scrape.count("fleetdex_units", "");
    let watching = scrape.count("fleetdex_units", r#"phase="watching""#);
    units > 0.0 && units == watching && scrape.count("fleetdex_watch_restarts_total", "") >= units
}

async fn is_ready(hub: &Objects, registry: &str) -> Result<bool> {
    let object = hub
        .get(&format!(
            "apis/search.karmada.io/v1alpha1/resourceregistries/{registry}"
        ))
        .await?;
    let conditions = object["status"]["conditions"]
        .as_array()
        .context("a registry without conditions")?;
    Ok(conditions
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True"))
}

/// Waits until a checkpoint of every cluster is stored.
async fn until_checkpoint(opensearch: &OpenSearch, state: &str) -> Result<()> {
    eventually("the checkpoint is stored", DEADLINE, || async {
        let stored = opensearch.documents(state).await?;
        let has_units = |hit: &Value| {
            hit["_source"]["units"]
                .as_object()
                .is_some_and(|units| !units.is_empty())
        };
        ensure!(
            !stored.is_empty() && stored.iter().all(has_units),
            "stored: {stored:?}"
        );
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// Deletes all checkpoints.
async fn forget(opensearch: &OpenSearch, state: &str) -> Result<()> {
    for hit in opensearch.documents(state).await? {
        let id = hit["_id"]
            .as_str()
            .with_context(|| format!("no id in {hit}"))?;
        opensearch
            .delete(&format!("{state}/_doc/{id}?refresh=true"))
            .await?;
    }
    let left = opensearch.documents(state).await?;
    ensure!(left.is_empty(), "checkpoints are left: {left:?}");
    Ok(())
}
