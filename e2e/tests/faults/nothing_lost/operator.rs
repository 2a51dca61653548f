//! Faults of the operator itself: killed, paused, stopped, and two at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{ApiServer, unique},
    http,
    load::Load,
    objects::Objects,
    operator::Operator,
    oracle::{documents, revisions},
    poll::always,
    proxy::Fault,
    scenario::{DEADLINE, Registry, Stage, until, until_equal},
    test_result::Tested,
};
use serde_json::{Value, json};

use super::{Fixture, stop, until_written};

/// Six pages of a list.
const PODS: usize = 3_000;
const PAGE: usize = 500;
/// How many pages the operator has received whenever it is killed.
const KILLED_AFTER_PAGES: [usize; 5] = [1, 2, 3, 4, 5];
/// How soon OpenSearch forgets tombstones, and a longer time.
const GC_DELETES: &str = "1s";
const LONGER_THAN_GC_DELETES: Duration = Duration::from_secs(6);
/// Two kinds of two members.
const STREAMS: f64 = 4.0;
/// How long a state must not change.
const STABLE_PERIOD: Duration = Duration::from_secs(5);
/// How long an operator may take to stop.
pub const STOP: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_first_sync_completes_though_the_operator_is_killed_five_times() -> Tested {
    let stage = Stage::enter().await?;
    let cluster = unique("midsync");
    let member = stage.fleet.member(1);
    let namespace = unique("midsync");
    stage.member(1)?.create_namespace(&namespace).await?;
    Load::new(&namespace, PODS).create(member).await?;
    let proxy = stage.register_behind_proxy(1, &cluster).await?;
    let selectors = json!([{ "apiVersion": "v1", "kind": "Pod", "namespace": namespace }]);
    let registry = Registry::new(&stage, "midsync", &[&cluster], &selectors)?;
    let pods = format!("api/v1/namespaces/{namespace}/pods");
    let page = page_bytes(member, &pods).await?;
    // Half a page more, for what else is asked of a member.
    let hold_after = |pages: usize| Fault::HoldAfter(page * (2 * pages as u64 + 1) / 2);
    proxy.set(hold_after(KILLED_AFTER_PAGES[0]));
    registry.apply().await?;

    for (kill, pages) in KILLED_AFTER_PAGES.into_iter().enumerate() {
        let expected = PAGE * pages;
        until(&format!("{pages} pages are acknowledged"), || async {
            let found = acknowledged(&stage, &registry, &cluster).await?;
            ensure!(found >= expected, "{found}");
            Ok(())
        })
        .await?;
        proxy.set(Fault::BlackHole);
        stage.operator.kill();
        let found = acknowledged(&stage, &registry, &cluster).await?;
        eprintln!("killed at {found} of {PODS}");
        assert!(
            found * 10 <= PODS * 9,
            "the sync was over when the operator was killed: {found} of {PODS}"
        );
        let visible = documents(&stage.opensearch, &registry.prefix).await?;
        assert!(
            visible.is_empty(),
            "a query sees {} documents of a sync that is under way",
            visible.len()
        );
        let next = KILLED_AFTER_PAGES.get(kill + 1);
        proxy.set(next.map_or(Fault::None, |pages| hold_after(*pages)));
        stage.operator.restart()?;
    }
    let oracle = registry.oracle().expects(&cluster, member, &pods);
    assert_eq!(until_equal(&oracle).await?, PODS);
    registry.until_ready().await?;
    registry.remove().await?;
    stage.unregister(&cluster).await?;
    Load::new(&namespace, PODS).delete(member).await?;
    Ok(())
}

/// How many bytes a member sends for a page of pods.
async fn page_bytes(member: &ApiServer, pods: &str) -> Result<u64> {
    let client = http::plain_client(Some(member.ca_pem()))?;
    let page = client
        .get(format!("{}/{pods}?limit={PAGE}", member.url()))
        .bearer_auth(member.token())
        .header("Accept-Encoding", "gzip")
        .send()
        .await?
        .error_for_status()?;
    Ok(page.bytes().await?.len() as u64)
}

/// The number of documents of the newest revision, complete or not.
async fn acknowledged(stage: &Stage, registry: &Registry, cluster: &str) -> Result<usize> {
    let all = revisions(&stage.opensearch, &registry.prefix, cluster).await?;
    let newest = all.last().context("no revision yet")?;
    stage.opensearch.refresh(newest).await?;
    let count = stage
        .opensearch
        .count(newest, &json!({ "match_all": {} }))
        .await?;
    Ok(usize::try_from(count)?)
}

#[tokio::test]
async fn a_paused_operator_restores_no_deleted_objects_after_gc_deletes() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "stopped").await;
    let second = stage.another_operator(&[]).await?;
    // A list that it began during the writes would miss an object that was deleted before, and that
    // a write of the first operator, still in flight, stores afterwards: only the first operator
    // learns of that deletion, when it resumes.
    until("the second operator watches", || async {
        let found = second
            .count_of("fleetdex_units", "phase=\"watching\"")
            .await?;
        ensure!(found == STREAMS, "{found} of {STREAMS}");
        Ok(())
    })
    .await?;
    let churns = fixture.start_churn();
    until_written(&churns, 100).await;
    // Paused during writes: what it has read and not sent yet is outdated when it resumes.
    stage.operator.process().pause()?;
    until_written(&churns, 200).await;
    stop(churns).await?;
    fixture.until_equal().await;
    // Not earlier: with tombstones of one second, a write of the first operator that a slow disk
    // delays beyond the other one's deletion would come back, and nothing deletes it while the
    // first one is paused.
    let settings = json!({ "index.gc_deletes": GC_DELETES });
    stage
        .opensearch
        .put(&format!("{}/_settings", fixture.indices()), &settings)
        .await?;
    // Searches refresh, and a refresh drops tombstones that are older than `gc_deletes`.
    always(
        "the other one keeps everything equal",
        LONGER_THAN_GC_DELETES,
        || fixture.compare(),
    )
    .await?;
    stage.operator.process().resume()?;
    fixture.until_equal().await;
    always("nothing comes back", STABLE_PERIOD, || fixture.compare()).await?;

    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    stop(churns).await?;
    fixture.until_equal().await;
    second.terminate(STOP).await?;
    fixture.registry.until_ready().await?;
    Ok(fixture.registry.remove().await?)
}

#[tokio::test]
async fn no_change_is_lost_with_two_operators_and_then_none() -> Tested {
    let stage = Stage::enter().await?;
    let second = stage.another_operator(&[]).await?;
    let fixture = Fixture::both_members(&stage, "two").await;
    let churns = fixture.start_churn();
    until_written(&churns, 500).await;
    stop(churns).await?;
    fixture.until_equal().await;
    for operator in [&second, &stage.operator] {
        let ended = operator.terminate(STOP).await?;
        assert!(ended.success(), "{ended}");
    }
    fixture.compare().await?;
    stage.operator.restart()?;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn a_restart_writes_missed_changes_without_a_list() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "away").await;
    let [objects, _] = [stage.member(1)?, stage.member(2)?];
    let namespace = unique("away");
    objects.create_namespace(&namespace).await?;
    for number in 0..10 {
        put(&objects, &namespace, number, "first").await?;
    }
    fixture.until_equal().await;

    stage.operator.terminate(STOP).await?;
    restart(&stage.operator).await?;
    fixture.registry.until_ready().await?;
    always(
        "nothing is written and nothing is listed",
        STABLE_PERIOD,
        || expect(&stage.operator, 0, 0),
    )
    .await?;
    fixture.compare().await?;

    stage.operator.terminate(STOP).await?;
    for number in 0..4 {
        objects
            .delete_config_map(&namespace, &format!("map-{number}"))
            .await?;
    }
    for number in 7..13 {
        put(&objects, &namespace, number, "second").await?;
    }
    restart(&stage.operator).await?;
    fixture.until_equal().await;
    fixture.registry.until_ready().await?;
    always("exactly what changed is written", STABLE_PERIOD, || {
        expect(&stage.operator, 6, 4)
    })
    .await?;

    // After a kill the checkpoint is older, and nothing is lost either.
    stage.operator.kill();
    objects.delete_config_map(&namespace, "map-5").await?;
    put(&objects, &namespace, 6, "third").await?;
    restart(&stage.operator).await?;
    fixture.check_and_remove().await
}

async fn put(objects: &Objects, namespace: &str, number: usize, value: &str) -> Tested {
    let data = json!({ "value": value });
    objects
        .apply_config_map(namespace, &format!("map-{number}"), &data)
        .await?;
    Ok(())
}

async fn restart(operator: &Operator) -> Tested {
    operator.restart_until_ready(DEADLINE).await?;
    Ok(())
}

/// Checks the writes of an operator since its start, and that it read no list.
async fn expect(operator: &Operator, indexed: u32, deleted: u32) -> Result<()> {
    let lists = operator.count_of("fleetdex_list_pages_total", "").await?;
    ensure!(lists == 0.0, "{lists} lists");
    expect_writes(operator, indexed, deleted).await
}

async fn expect_writes(operator: &Operator, indexed: u32, deleted: u32) -> Result<()> {
    let items = |verdict: &str| {
        let labels = format!("verdict=\"{verdict}\"");
        async move {
            operator
                .count_of("fleetdex_bulk_items_total", &labels)
                .await
        }
    };
    let seen = (items("indexed").await?, items("deleted").await?);
    ensure!(
        seen == (f64::from(indexed), f64::from(deleted)),
        "indexed, deleted: {seen:?}"
    );
    Ok(())
}

/// Deletes the checkpoints of an operator that does not run, and starts it.
async fn restart_without_state(fixture: &Fixture<'_>) -> Tested {
    let stage = fixture.stage;
    let state = format!("{}.state", fixture.registry.prefix);
    let deleted = stage
        .opensearch
        .send(reqwest::Method::DELETE, &state, None)
        .await?;
    assert!([200, 404].contains(&deleted.status), "{deleted:?}");
    restart(&stage.operator).await
}

#[tokio::test]
async fn a_deleted_state_index_causes_a_list_and_nothing_else() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "stateless").await;
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    stage.operator.kill();
    until_written(&churns, 50).await;
    stop(churns).await?;
    restart_without_state(&fixture).await?;
    fixture.until_equal().await;
    fixture.registry.until_ready().await?;
    let status: Value = fixture.registry.status().await?;
    assert_eq!(status["conditions"][0]["status"], "True", "{status}");

    // Each document says by which rules it was made.
    stage.operator.terminate(STOP).await?;
    restart_without_state(&fixture).await?;
    fixture.registry.until_ready().await?;
    always("nothing is written", STABLE_PERIOD, || {
        expect_writes(&stage.operator, 0, 0)
    })
    .await?;
    let lists = stage
        .operator
        .count_of("fleetdex_list_pages_total", "")
        .await?;
    assert!(lists > 0.0, "a checkpoint was used");
    fixture.compare().await?;
    Ok(fixture.registry.remove().await?)
}
