//! Small clusters move into an index that they share, and out of it again, while they change.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::{
    fleet::{OpenSearchKind, Options},
    oracle::revisions,
    poll::eventually,
    query_api::{bare_names_of, list_with_warnings},
    scenario::{DEADLINE, Stage},
    test_result::Tested,
};
use serde_json::{Value, json};

use super::{BOTH, Fixture, stop, until_written};

/// Objects that do not change.
const STEADY: usize = 20;

/// Placement is decided again once a minute.
const MOVES: std::time::Duration = DEADLINE.saturating_mul(3);

#[tokio::test]
async fn clusters_move_into_a_shared_index_and_out_of_it_and_no_question_misses_an_object() -> Tested
{
    let stage = Stage::with(Options::of(2, OpenSearchKind::Plain)).await?;
    for number in 1..=BOTH.len() {
        let member = stage.member(number)?;
        for object in 0..STEADY {
            let name = format!("steady-{object}");
            member
                .apply_config_map("default", &name, &json!({ "steady": "true" }))
                .await?;
        }
    }
    let mut fixture = Fixture::both_members(&stage, "packing").await;
    let prefix = fixture.registry.prefix.clone();
    let own: BTreeSet<String> = BTreeSet::from(BOTH.map(|name| format!("{prefix}-{name}.g1")));
    assert_eq!(places(&stage, &prefix).await?, own);

    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    // An index for each of the two clusters is more than 40 % of this.
    set_limit(&stage, json!(4)).await?;
    let is_shared = |places: &BTreeSet<String>| {
        let shared = format!("{prefix}.shared.");
        places.len() == 1 && places.iter().all(|index| index.starts_with(&shared))
    };
    until_placed(&stage, &prefix, is_shared).await?;
    let shown = stage.opensearch.get(&prefix).await?;
    let indices = shown.as_object().unwrap().keys().cloned().collect();
    assert!(is_shared(&indices), "{indices:?}");
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.until_equal().await;
    // People who read the alias of a cluster see that cluster, and all of it.
    for name in BOTH {
        let alias = format!("{prefix}-{name}");
        let documents = stage.opensearch.documents(&alias).await?;
        assert!(documents.len() >= STEADY);
        assert!(
            documents
                .iter()
                .all(|document| document["_source"]["cluster"] == name)
        );
    }

    let churns = fixture.start_churn();
    set_limit(&stage, Value::Null).await?;
    fixture.registry.store()["packing"] = json!("Never");
    fixture.registry.apply().await?;
    let own: BTreeSet<String> = BTreeSet::from(BOTH.map(|name| format!("{prefix}-{name}.g3")));
    until_placed(&stage, &prefix, |places| *places == own).await?;
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.check_and_remove().await
}

async fn set_limit(stage: &Stage, limit: Value) -> Tested {
    let body = json!({ "persistent": { "cluster.max_shards_per_node": limit } });
    stage.opensearch.put("_cluster/settings", &body).await?;
    Ok(())
}

/// The indices of both clusters.
async fn places(stage: &Stage, prefix: &str) -> Result<BTreeSet<String>> {
    let mut places = BTreeSet::new();
    for cluster in BOTH {
        places.extend(revisions(&stage.opensearch, prefix, cluster).await?);
    }
    Ok(places)
}

/// Waits until the documents of both clusters are in these indices. Meanwhile every list has every
/// object that does not change, once.
async fn until_placed(
    stage: &Stage,
    prefix: &str,
    is_expected: impl Fn(&BTreeSet<String>) -> bool,
) -> Tested {
    eventually("the clusters have moved", MOVES, || async {
        let path = "api/v1/namespaces/default/configmaps?limit=500";
        let (list, warnings) = list_with_warnings(&stage.operator, path).await?;
        let names = bare_names_of(&list)?;
        let steady = names.iter().filter(|name| name.starts_with("steady-"));
        let steady = steady.count();
        assert_eq!(steady, BOTH.len() * STEADY, "{warnings:?}");
        let places = places(stage, prefix).await?;
        ensure!(is_expected(&places), "{places:?}");
        Ok(())
    })
    .await?;
    Ok(())
}
