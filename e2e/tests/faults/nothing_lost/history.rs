//! Faults of a member's API server and of its etcd history.

use std::{collections::BTreeSet, path::PathBuf};

use e2e::{
    churn::Churn,
    fleet::{ApiServer, unique},
    objects::Objects,
    oracle::revisions,
    proxy::Fault,
    scenario::Stage,
    test_result::Tested,
};
use serde_json::json;

use super::{BOTH, Fixture, stop, until_written};

#[tokio::test]
async fn no_change_is_lost_when_an_apiserver_is_killed() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "killed").await;
    let churns = fixture.start_churn();
    for (number, churn) in (1..).zip(&churns) {
        churn.goes_on_for(100).await;
        let member = stage.fleet.member(number);
        member.kill();
        member.restart().await?;
    }
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.check_and_remove().await
}

#[tokio::test]
async fn a_compacted_history_is_replaced_by_a_list() -> Tested {
    let stage = Stage::enter().await?;
    let cluster = unique("expired");
    let proxy = stage.register_behind_proxy(1, &cluster).await?;
    let fixture = Fixture::new(&stage, "expired", vec![(1, cluster.clone())], |_| ()).await;
    let label = format!("cluster=\"{cluster}\"");
    let expired = || async {
        stage
            .operator
            .count_of("fleetdex_watch_expired_total", &label)
            .await
            .unwrap()
    };
    let before = expired().await;

    proxy.set(Fault::Refuse);
    let churns = fixture.start_churn();
    until_written(&churns, 300).await;
    stop(churns).await?;
    let revision = stage.fleet.etcd_of(1).compact().await?;
    eprintln!("compacted at {revision}");
    // Its watch cache would still have the history.
    stage.fleet.member(1).restart().await?;
    proxy.set(Fault::None);

    fixture.until_equal().await;
    let after = expired().await;
    assert!(after > before, "no 410 was counted: {before}, {after}");
    fixture.registry.until_ready().await?;
    fixture.registry.remove().await?;
    Ok(stage.unregister(&cluster).await?)
}

#[tokio::test]
async fn a_recreated_member_of_the_same_name_is_indexed_from_the_start() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "recreated").await;
    let objects = stage.member(2)?;
    let old = identity(&objects).await?;
    let old_indices = indices_of(&stage, &fixture).await?;

    let member = stage.fleet.member(2);
    member.kill();
    stage.fleet.etcd_of(2).wipe().await?;
    member.restart().await?;
    let new = identity(&objects).await?;
    assert_ne!(old, new, "it has the identity of the old one");
    let namespace = unique("other");
    objects.create_namespace(&namespace).await?;
    for number in 0..20 {
        objects
            .apply_config_map(&namespace, &format!("other-{number}"), &json!({ "a": "b" }))
            .await?;
    }

    let count = fixture.until_equal().await;
    eprintln!("{count} documents");
    let new_indices = indices_of(&stage, &fixture).await?;
    assert_eq!(
        old_indices[0], new_indices[0],
        "the indices of member1 must not change"
    );
    assert_ne!(
        old_indices[1], new_indices[1],
        "the documents of two clusters were in one index"
    );
    fixture.registry.until_ready().await?;
    Ok(fixture.registry.remove().await?)
}

#[tokio::test]
async fn a_member_restored_to_an_older_etcd_revision_is_indexed_correctly() -> Tested {
    let stage = Stage::enter().await?;
    let fixture = Fixture::both_members(&stage, "restored").await;
    let etcd = stage.fleet.etcd_of(2);
    let saved = Saved::of(&stage).await;
    let churns = fixture.start_churn();
    until_written(&churns, 300).await;
    stop(churns).await?;
    fixture.until_equal().await;
    let objects = stage.member(2)?;
    let before = revision(&objects).await?;

    let member = stage.fleet.member(2);
    member.kill();
    etcd.restore_snapshot(&saved.folder).await?;
    member.restart().await?;
    let after = revision(&objects).await?;
    assert!(after < before, "the revision went from {before} to {after}");
    fixture.until_equal().await;

    // Later changes are indexed too.
    let churns = fixture.start_churn();
    until_written(&churns, 100).await;
    stop(churns).await?;
    fixture.check_and_remove().await
}

/// The revision alone does not reveal the restore: when the operator reconnects, the member's
/// revision is higher than before.
#[tokio::test]
async fn an_audit_finds_the_drift_of_a_restored_member_that_has_passed_its_old_revision() -> Tested
{
    let stage = Stage::enter().await?;
    let cluster = unique("moved");
    let proxy = stage.register_behind_proxy(2, &cluster).await?;
    let fixture = Fixture::new(&stage, "moved", vec![(2, cluster.clone())], |_| ()).await;
    let saved = Saved::of(&stage).await;
    let churns = fixture.start_churn();
    until_written(&churns, 200).await;
    stop(churns).await?;
    fixture.until_equal().await;
    let objects = stage.member(2)?;
    let before = revision(&objects).await?;

    proxy.set(Fault::Refuse);
    let member = stage.fleet.member(2);
    member.kill();
    stage
        .fleet
        .etcd_of(2)
        .restore_snapshot(&saved.folder)
        .await?;
    member.restart().await?;
    let namespace = unique("further");
    objects.create_namespace(&namespace).await?;
    let mut number = 0;
    while revision(&objects).await? <= before + 10 {
        let data = json!({ "number": number.to_string() });
        objects
            .apply_config_map(&namespace, "counter", &data)
            .await?;
        number += 1;
    }
    proxy.set(Fault::None);
    fixture.registry.until_ready().await?;
    assert!(
        fixture.compare().await.is_err(),
        "the index has no drift to find"
    );
    assert_audit_finds_drift(&stage, member, &cluster).await?;
    fixture.until_equal().await;
    assert_audit_finds_nothing(&stage, &fixture, &cluster).await?;
    fixture.registry.remove().await?;
    Ok(stage.unregister(&cluster).await?)
}

/// Changes other objects meanwhile: without changes, an audit waits up to a minute for a bookmark.
async fn assert_audit_finds_drift(stage: &Stage, member: &ApiServer, cluster: &str) -> Tested {
    let labels = format!("cluster=\"{cluster}\"");
    let counted = || async {
        stage
            .operator
            .count_of("fleetdex_drift_documents_total", &labels)
            .await
            .unwrap()
    };
    let before = counted().await;
    let changes = Churn::new(member, &unique("beside"), 20, 10).await?.start();
    let result = stage
        .operator
        .run_command(&["verify", "--cluster", cluster])
        .await?;
    changes.stop().await?;
    eprintln!("{}", result.out);
    assert_eq!(result.code, 1, "{result:?}");
    assert!(result.out.contains("ConfigMap"), "{result:?}");
    assert!(counted().await > before, "no drift is counted");
    Ok(())
}

async fn assert_audit_finds_nothing(stage: &Stage, fixture: &Fixture<'_>, cluster: &str) -> Tested {
    fixture.registry.until_ready().await?;
    let result = stage
        .operator
        .run_command(&["verify", "--cluster", cluster])
        .await?;
    assert_eq!(result.code, 0, "{result:?}");
    Ok(())
}

/// A copy of the second member's data.
struct Saved {
    folder: PathBuf,
}

impl Saved {
    async fn of(stage: &Stage) -> Self {
        let folder = stage.fleet.dir().join(unique("saved"));
        stage.fleet.etcd_of(2).save_snapshot(&folder).await.unwrap();
        Self { folder }
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn identity(objects: &Objects) -> Tested<String> {
    let namespace = objects.get("api/v1/namespaces/kube-system").await?;
    Ok(namespace["metadata"]["uid"].as_str().unwrap().to_owned())
}

async fn revision(objects: &Objects) -> Tested<u64> {
    let list = objects.get("api/v1/namespaces?limit=1").await?;
    Ok(list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap())
}

/// UUIDs of the indices of both members: names may be reused.
async fn indices_of(stage: &Stage, fixture: &Fixture<'_>) -> Tested<Vec<BTreeSet<String>>> {
    let mut all = Vec::new();
    for cluster in BOTH {
        let mut ids = BTreeSet::new();
        for index in revisions(&stage.opensearch, &fixture.registry.prefix, cluster).await? {
            let settings = stage
                .opensearch
                .get(&format!("{index}/_settings/index.uuid"))
                .await?;
            ids.insert(
                settings[&index]["settings"]["index"]["uuid"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        all.push(ids);
    }
    Ok(all)
}
