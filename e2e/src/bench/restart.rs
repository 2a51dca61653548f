//! A restart without changes, with the checkpoint and without it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    figures::{Figures, verdict},
    run::Run,
    scrape::Scrape,
    sizes::{CLUSTER, DEADLINE, Sizes},
};
use crate::{fleet::Fleet, objects::Objects, opensearch::OpenSearch, poll::eventually};

/// Shorter than the usual interval, because a restart is short.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Limit of the time from the member's connection to all units watching.
const SECONDS: f64 = 2.0;

/// The result of a restart.
struct RestartResult {
    /// Since the member was first observed as connected.
    seconds: f64,
    /// Since the start of the process.
    seconds_from_start: f64,
    /// Items of bulk requests, with any verdict.
    writes: f64,
    /// Full pages of lists.
    lists: f64,
}

/// Measures both restarts.
pub async fn measure(fleet: &Fleet, run: &Run, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("restart with nothing changed …");
    let opensearch = fleet.opensearch()?.client()?;
    let state = format!("{}.state", run.prefix);
    until_checkpoint(&opensearch, &state).await?;
    let with = restart(fleet, run, sizes, async || Ok(())).await?;
    until_checkpoint(&opensearch, &state).await?;
    let without = restart(fleet, run, sizes, async || {
        delete_checkpoints(&opensearch, &state).await
    })
    .await?;
    set_figures("restart", &with, figures);
    set_figures("restart_without_checkpoint", &without, figures);
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

fn set_figures(name: &str, result: &RestartResult, figures: &mut Figures) {
    figures.set(&format!("{name}_seconds"), result.seconds);
    figures.set(
        &format!("{name}_seconds_from_start"),
        result.seconds_from_start,
    );
    figures.set(&format!("{name}_writes"), result.writes);
    figures.set(&format!("{name}_lists"), result.lists);
}

impl RestartResult {
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

/// Stops the operator, runs `between`, restarts it, and waits until it watches everything.
async fn restart(
    fleet: &Fleet,
    run: &Run,
    sizes: &Sizes,
    between: impl AsyncFnOnce() -> Result<()>,
) -> Result<RestartResult> {
    run.operator.terminate(Duration::from_secs(30)).await?;
    between().await?;
    let hub = Objects::of(fleet.control_plane())?;
    let started = Instant::now();
    run.operator.restart()?;
    let answered = until(run, member_answers).await?;
    loop {
        until(run, watches_everything).await?;
        if is_ready(&hub, &run.prefix).await? {
            break;
        }
        ensure!(
            started.elapsed() < DEADLINE,
            "the registry is not ready\n{}",
            run.operator.process().log_tail(30)
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let (seconds, seconds_from_start) = (
        answered.elapsed().as_secs_f64(),
        started.elapsed().as_secs_f64(),
    );
    // Leaves time for writes and lists that should not happen.
    tokio::time::sleep(sizes.quiet).await;
    let scrape = run.scrape().await?;
    let (writes, lists) = (
        scrape.count("fleetdex_bulk_items_total", ""),
        scrape.count("fleetdex_list_pages_total", ""),
    );
    Ok(RestartResult {
        seconds,
        seconds_from_start,
        writes,
        lists,
    })
}

/// Waits until the metrics pass a check. Returns when they were observed to.
async fn until(run: &Run, check: impl Fn(&Scrape) -> bool) -> Result<Instant> {
    let started = Instant::now();
    while started.elapsed() < DEADLINE {
        // It does not respond before it has started.
        if run.scrape().await.is_ok_and(|scrape| check(&scrape)) {
            return Ok(Instant::now());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
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

/// Whether every unit is watching, and has opened a watch.
fn watches_everything(scrape: &Scrape) -> bool {
    let units = scrape.count("fleetdex_units", "");
    let watching = scrape.count("fleetdex_units", r#"phase="watching""#);
    units > 0.0 && units == watching && scrape.count("fleetdex_watches_opened_total", "") >= units
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
async fn delete_checkpoints(opensearch: &OpenSearch, state: &str) -> Result<()> {
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
