//! OpenSearch of three nodes with a copy of each shard, of which one is killed under writes and
//! queries, and after its return another.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::header::WARNING;

use super::{
    figures::Figures,
    query_client::{QueryClient, url_encoded},
    simulated::SimulatedSetup,
    sizes::{DEADLINE, Sizes},
    times::Times,
};
use crate::fleet::{Fleet, OpenSearchServer};

/// Nodes besides the first one; each of them is killed in turn.
pub(super) const MORE_NODES: usize = 2;
/// Writes per second.
const RATE: u32 = 300;
/// The pause between two queries.
const PAUSE: Duration = Duration::from_millis(50);

/// The state of the node that is killed.
#[derive(Clone, Copy, Debug)]
enum NodeState {
    Running,
    Killed,
    Returned,
}

impl NodeState {
    async fn enter(self, node: &OpenSearchServer) -> Result<()> {
        match self {
            Self::Running => {}
            Self::Killed => node.kill(),
            Self::Returned => node.restart().await?,
        }
        Ok(())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Killed => "killed",
            Self::Returned => "returned",
        }
    }
}

/// What happened while the nodes were in one state.
struct Period {
    written_per_s: f64,
    to_ack_p99_ms: f64,
    queries: Times,
    /// Queries without a response.
    failed: usize,
    /// Queries whose response has a warning, as it may lack objects.
    incomplete: usize,
}

/// Measures before each node is killed, while it is gone, and after its return.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("three OpenSearch nodes at {RATE} writes/s …");
    let setup = SimulatedSetup::start(fleet, sizes.pods, "nodes").await?;
    let query_client = QueryClient::new(fleet, &setup.run.operator, sizes.pods)?;
    query_client.until_found("opensearch").await?;
    for (number, node) in (2..).zip(fleet.more_opensearch_nodes()) {
        fleet.until_all_copies_are_there(DEADLINE).await?;
        setup.simulated.set_rate(RATE).await?;
        tokio::time::sleep(sizes.warm_up).await;
        for state in [NodeState::Running, NodeState::Killed, NodeState::Returned] {
            state.enter(node).await?;
            let period = observe(&setup, &query_client, sizes.churn).await?;
            report(number, state, &period, figures);
        }
        // Fails unless there is a document for every pod.
        setup.until_complete().await?;
    }
    setup.finish().await
}

/// Queries one after the other for `duration`, while changes are written.
async fn observe(
    setup: &SimulatedSetup,
    query_client: &QueryClient<'_>,
    duration: Duration,
) -> Result<Period> {
    let before = setup.run.scrape().await?;
    let started = Instant::now();
    let (mut queries, mut failed, mut incomplete) = (Times::default(), 0, 0);
    for number in 0.. {
        if started.elapsed() >= duration {
            break;
        }
        let asked = Instant::now();
        match is_complete(query_client, number).await {
            Ok(complete) => {
                queries.push(asked.elapsed().as_secs_f64() * 1000.0);
                incomplete += usize::from(!complete);
            }
            Err(error) => {
                println!("  {error:#}");
                failed += 1;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let after = setup.run.scrape().await?;
    Ok(Period {
        written_per_s: (after.acknowledged() - before.acknowledged()) / elapsed,
        to_ack_p99_ms: after.event_to_ack_since(&before).quantile(0.99) * 1000.0,
        queries,
        failed,
        incomplete,
    })
}

/// Selects about fifty objects; returns whether the response has no warning.
async fn is_complete(query_client: &QueryClient<'_>, number: usize) -> Result<bool> {
    let url = format!(
        "{}/search/opensearch/api/v1/pods?labelSelector={}",
        query_client.server,
        url_encoded(&query_client.selector(number))
    );
    let request = query_client
        .client
        .get(url)
        .bearer_auth(&query_client.token);
    let response = request.send().await?.error_for_status()?;
    let complete = !response.headers().contains_key(WARNING);
    response.bytes().await.context("reading a response")?;
    Ok(complete)
}

fn report(number: usize, state: NodeState, period: &Period, figures: &mut Figures) {
    let Period {
        written_per_s,
        to_ack_p99_ms,
        queries,
        failed,
        incomplete,
    } = period;
    let state = state.name();
    let name = format!("nodes_{number}_{state}");
    figures.set(&format!("{name}_written_per_s"), *written_per_s);
    figures.set(&format!("{name}_event_to_ack_p99_ms"), *to_ack_p99_ms);
    figures.set(&format!("{name}_failed_queries"), *failed as f64);
    figures.set(&format!("{name}_incomplete_queries"), *incomplete as f64);
    queries.set(&format!("{name}_query"), figures);
    let text = format!(
        "{written_per_s:.0} writes/s, p99 {to_ack_p99_ms:.0} ms; {} queries, {}; {failed} failed, {incomplete} with a warning",
        queries.len(),
        queries.text()
    );
    println!("  node {number} {state}: {text}");
    figures.line(
        &format!("OpenSearch of 3 nodes, node {number} {state}"),
        text,
    );
}
