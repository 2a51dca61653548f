//! OpenSearch of three nodes, of which one is killed, and after its return another.

use std::time::Duration;

use anyhow::Result;
use e2e::{
    fleet::{OpenSearchKind, Options},
    query_api::list_with_warnings,
    scenario::{DEADLINE, Stage},
    test_result::Tested,
};
use serde_json::json;

use super::{BOTH, Fixture, stop, until_written};

/// Questions that are asked while a node is gone.
const QUESTIONS: usize = 20;

#[tokio::test]
async fn no_change_is_lost_and_questions_are_answered_while_nodes_of_opensearch_are_killed()
-> Tested {
    let stage = Stage::with(Options {
        members: 2,
        opensearch: OpenSearchKind::Plain,
        more_opensearch_nodes: 2,
        own_etcds: true,
        ..Options::default()
    })
    .await?;
    let more_nodes = stage.fleet.more_opensearch_nodes();
    let addresses = stage.fleet.opensearch_urls().unwrap();
    let clusters = (1..).zip(BOTH.map(str::to_owned)).collect();
    let fixture = Fixture::new(&stage, "nodes", clusters, |registry| {
        let store = registry.store();
        store["addresses"] = json!(addresses);
        store["numberOfReplicas"] = json!(1);
    })
    .await;
    for node in more_nodes {
        let all_copies = stage.fleet.until_all_copies_are_there(DEADLINE);
        all_copies.await?;
        let churns = fixture.start_churn();
        until_written(&churns, 50).await;
        node.kill();
        let mut unanswered = 0;
        for _ in 0..QUESTIONS {
            let attempts = answered(&stage).await?;
            unanswered += attempts - 1;
        }
        eprintln!("{unanswered} requests failed before {QUESTIONS} questions were answered");
        until_written(&churns, 200).await;
        node.restart().await?;
        until_written(&churns, 100).await;
        stop(churns).await?;
        fixture.until_equal().await;
    }
    fixture.check_and_remove().await
}

/// Asks for objects of both clusters until all of them answer. Returns how often it had to ask.
async fn answered(stage: &Stage) -> Result<usize> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match list_with_warnings(&stage.operator, "api/v1/configmaps?limit=50").await {
            Ok((_, warnings)) if warnings.is_empty() => return Ok(attempts),
            other if attempts == 60 => {
                let (_, warnings) = other?;
                anyhow::bail!(
                    "not all clusters have answered after {attempts} requests: {warnings:?}"
                );
            }
            other => {
                eprintln!("{:?}", other.map(|(_, warnings)| warnings));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
