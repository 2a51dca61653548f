//! Faults of the operator itself: killed, paused, stopped, and two at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{ApiServer, unique},
    http,
    load::Load,
    objects::{Objects, config_map_path},
    operator::Operator,
    oracle::{documents, revisions},
    poll::{always, eventually},
    proxy::Fault,
    scenario::{DEADLINE, Registry, Stage, until_equal},
};
use serde_json::{Value, json};

use super::{Fixture, enter, stop, until_written};

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
async fn the_first_sync_completes_though_the_operator_is_killed_five_times() {
    let stage = enter().await;
    let cluster = unique("midsync");
    let member = stage.fleet.member(1).unwrap();
    let namespace = unique("midsync");
    stage
        .member(1)
        .unwrap()
        .create_namespace(&namespace)
        .await
        .unwrap();
    Load::new(&namespace, PODS).create(member).await.unwrap();
    let proxy = stage.register_behind_proxy(1, &cluster).await.unwrap();
    let selectors = json!([{ "apiVersion": "v1", "kind": "Pod", "namespace": namespace }]);
    let registry = Registry::new(&stage, "midsync", &[&cluster], &selectors).unwrap();
    let pods = format!("api/v1/namespaces/{namespace}/pods");
    let page = page_bytes(member, &pods).await.unwrap();
    // Half a page more, for what else is asked of a member.
    let hold_after = |pages: usize| Fault::HoldAfter(page * (2 * pages as u64 + 1) / 2);
    proxy.set(hold_after(KILLED_AFTER_PAGES[0]));
    registry.apply().await.unwrap();

    for (kill, pages) in KILLED_AFTER_PAGES.into_iter().enumerate() {
        let expected = PAGE * pages;
        eventually(
            &format!("{pages} pages are acknowledged"),
            DEADLINE,
            || async {
                let found = acknowledged(&stage, &registry, &cluster).await?;
                ensure!(found >= expected, "{found}");
                Ok(())
            },
        )
        .await
        .unwrap();
        proxy.set(Fault::BlackHole);
        stage.operator.kill();
        let found = acknowledged(&stage, &registry, &cluster).await.unwrap();
        eprintln!("killed at {found} of {PODS}");
        assert!(
            found * 10 <= PODS * 9,
            "the sync was over when the operator was killed: {found} of {PODS}"
        );
        let visible = documents(&stage.opensearch, &registry.prefix)
            .await
            .unwrap();
        assert!(
            visible.is_empty(),
            "a query sees {} documents of a sync that is under way",
            visible.len()
        );
        let next = KILLED_AFTER_PAGES.get(kill + 1);
        proxy.set(next.map_or(Fault::None, |pages| hold_after(*pages)));
        stage.operator.restart().unwrap();
    }
    let oracle = registry.oracle().expects(&cluster, member, &pods).unwrap();
    assert_eq!(until_equal(&oracle).await.unwrap(), PODS);
    registry.until_ready().await.unwrap();
    registry.remove().await.unwrap();
    stage.unregister(&cluster).await.unwrap();
    Load::new(&namespace, PODS).delete(member).await.unwrap();
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
async fn a_paused_operator_restores_no_deleted_objects_after_gc_deletes() {
    let stage = enter().await;
    let fixture = Fixture::both_members(&stage, "stopped").await;
    let second = stage.another_operator(&[]).await.unwrap();
    // A list that it began during the writes would miss an object that was deleted before, and that
    // a write of the first operator, still in flight, stores afterwards: only the first operator
    // learns of that deletion, when it resumes.
    eventually("the second operator watches", DEADLINE, || async {
        let found = second
            .count_of("fleetdex_units", "phase=\"watching\"")
            .await?;
        ensure!(found == STREAMS, "{found} of {STREAMS}");
        Ok(())
    })
    .await
    .unwrap();
    let churns = fixture.start_churn();
    until_written(&churns, 100).await;
    // Paused during writes: what it has read and not sent yet is outdated when it resumes.
    stage.operator.process().pause().unwrap();
    until_written(&churns, 200).await;
    stop(churns).await;
    fixture.until_equal().await;
    // Not earlier: with tombstones of one second, a write of the first operator that a slow disk
    // delays beyond the other one's deletion would come back, and nothing deletes it while the
    // first one is paused.
    let settings = json!({ "index.gc_deletes": GC_DELETES });
    stage
        .opensearch
        .put(&format!("{}/_settings", fixture.indices()), &settings)
        .await
        .unwrap();
    // Searches refresh, and a refresh drops tombstones that are older than `gc_deletes`.
    always(
        "the other one keeps everything equal",
        LONGER_THAN_GC_DELETES,
        || fixture.compare(),
    )
    .await
    .unwrap();
    stage.operator.process().resume().unwrap();
    fixture.until_equal().await;
    always("nothing comes back", STABLE_PERIOD, || fixture.compare())
        .await
        .unwrap();

    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    stop(churns).await;
    fixture.until_equal().await;
    second.terminate(STOP).await.unwrap();
    fixture.registry.until_ready().await.unwrap();
    fixture.registry.remove().await.unwrap();
}

#[tokio::test]
async fn no_change_is_lost_with_two_operators_and_then_none() {
    let stage = enter().await;
    let second = stage.another_operator(&[]).await.unwrap();
    let fixture = Fixture::both_members(&stage, "two").await;
    let churns = fixture.start_churn();
    until_written(&churns, 500).await;
    stop(churns).await;
    fixture.until_equal().await;
    for operator in [&second, &stage.operator] {
        let ended = operator.terminate(STOP).await.unwrap();
        assert!(ended.success(), "{ended}");
    }
    fixture.compare().await.unwrap();
    stage.operator.restart().unwrap();
    fixture.check_and_remove().await;
}

#[tokio::test]
async fn a_restart_writes_missed_changes_without_a_list() {
    let stage = enter().await;
    let fixture = Fixture::both_members(&stage, "away").await;
    let [objects, _] = [stage.member(1).unwrap(), stage.member(2).unwrap()];
    let namespace = unique("away");
    objects.create_namespace(&namespace).await.unwrap();
    for number in 0..10 {
        put(&objects, &namespace, number, "first").await;
    }
    fixture.until_equal().await;

    stage.operator.terminate(STOP).await.unwrap();
    restart(&stage.operator).await;
    fixture.registry.until_ready().await.unwrap();
    always(
        "nothing is written and nothing is listed",
        STABLE_PERIOD,
        || expect(&stage.operator, 0, 0),
    )
    .await
    .unwrap();
    fixture.compare().await.unwrap();

    stage.operator.terminate(STOP).await.unwrap();
    for number in 0..4 {
        objects
            .delete(&config_map_path(&namespace, &format!("map-{number}")))
            .await
            .unwrap();
    }
    for number in 7..13 {
        put(&objects, &namespace, number, "second").await;
    }
    restart(&stage.operator).await;
    fixture.until_equal().await;
    fixture.registry.until_ready().await.unwrap();
    always("exactly what changed is written", STABLE_PERIOD, || {
        expect(&stage.operator, 6, 4)
    })
    .await
    .unwrap();

    // After a kill the checkpoint is older, and nothing is lost either.
    stage.operator.kill();
    objects
        .delete(&config_map_path(&namespace, "map-5"))
        .await
        .unwrap();
    put(&objects, &namespace, 6, "third").await;
    restart(&stage.operator).await;
    fixture.check_and_remove().await;
}

async fn put(objects: &Objects, namespace: &str, number: usize, value: &str) {
    let data = json!({ "value": value });
    objects
        .apply_config_map(namespace, &format!("map-{number}"), &data)
        .await
        .unwrap();
}

async fn restart(operator: &Operator) {
    operator.restart().unwrap();
    operator.wait_ready(DEADLINE).await.unwrap();
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
async fn restart_without_state(fixture: &Fixture<'_>) {
    let stage = fixture.stage;
    let state = format!("{}.state", fixture.registry.prefix);
    let deleted = stage
        .opensearch
        .send(reqwest::Method::DELETE, &state, None)
        .await
        .unwrap();
    assert!([200, 404].contains(&deleted.status), "{deleted:?}");
    restart(&stage.operator).await;
}

#[tokio::test]
async fn a_deleted_state_index_causes_a_list_and_nothing_else() {
    let stage = enter().await;
    let fixture = Fixture::both_members(&stage, "stateless").await;
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    stage.operator.kill();
    until_written(&churns, 50).await;
    stop(churns).await;
    restart_without_state(&fixture).await;
    fixture.until_equal().await;
    fixture.registry.until_ready().await.unwrap();
    let status: Value = fixture.registry.status().await.unwrap();
    assert_eq!(status["conditions"][0]["status"], "True", "{status}");

    // Each document says by which rules it was made.
    stage.operator.terminate(STOP).await.unwrap();
    restart_without_state(&fixture).await;
    fixture.registry.until_ready().await.unwrap();
    always("nothing is written", STABLE_PERIOD, || {
        expect_writes(&stage.operator, 0, 0)
    })
    .await
    .unwrap();
    let lists = stage
        .operator
        .count_of("fleetdex_list_pages_total", "")
        .await
        .unwrap();
    assert!(lists > 0.0, "a checkpoint was used");
    fixture.compare().await.unwrap();
    fixture.registry.remove().await.unwrap();
}
