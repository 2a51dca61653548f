//! Faults of a member's API server and of its history.

use std::{collections::BTreeSet, path::PathBuf};

use e2e::{
    churn::Churn,
    fleet::{ApiServer, unique},
    objects::Objects,
    oracle::revisions,
    proxy::Fault,
    scenario::Stage,
};
use serde_json::json;

use super::{BOTH, Scene, enter, go_on_for, stop};

#[tokio::test]
async fn an_apiserver_that_is_killed_amid_changes() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "killed").await;
    let churns = scene.start_churn();
    for (number, churn) in (1..).zip(&churns) {
        churn.goes_on_for(100).await;
        let member = stage.fleet.member(number).unwrap();
        member.kill();
        member.restart().await.unwrap();
    }
    go_on_for(&churns, 100).await;
    stop(churns).await;
    scene.ends_well().await;
}

#[tokio::test]
async fn a_history_that_is_gone_is_made_up_for_by_a_list() {
    let stage = enter().await;
    let cluster = unique("expired");
    let proxy = stage.register_behind_proxy(1, &cluster).await.unwrap();
    let scene = Scene::new(&stage, "expired", vec![(1, cluster.clone())], |_| ()).await;
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
    let churns = scene.start_churn();
    go_on_for(&churns, 300).await;
    stop(churns).await;
    let revision = stage.fleet.etcd_of(1).compact().await.unwrap();
    eprintln!("compacted at {revision}");
    // Its memory would still hold the history.
    stage.fleet.member(1).unwrap().restart().await.unwrap();
    proxy.set(Fault::None);

    scene.until_equal().await;
    let after = expired().await;
    assert!(after > before, "no 410 was counted: {before}, {after}");
    scene.registry.until_ready().await.unwrap();
    scene.registry.remove().await.unwrap();
    stage.unregister(&cluster).await.unwrap();
}

#[tokio::test]
async fn a_member_that_is_created_anew_under_the_same_name() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "anew").await;
    let objects = stage.member(2).unwrap();
    let old = identity(&objects).await;
    let old_indices = indices_of(&stage, &scene).await;

    let member = stage.fleet.member(2).unwrap();
    member.kill();
    stage.fleet.etcd_of(2).start_over().await.unwrap();
    member.restart().await.unwrap();
    let new = identity(&objects).await;
    assert_ne!(old, new, "it has the identity of the old one");
    let namespace = unique("other");
    objects.create_namespace(&namespace).await.unwrap();
    for number in 0..20 {
        objects
            .apply_config_map(&namespace, &format!("other-{number}"), &json!({ "a": "b" }))
            .await
            .unwrap();
    }

    let count = scene.until_equal().await;
    eprintln!("{count} documents");
    let new_indices = indices_of(&stage, &scene).await;
    assert_eq!(
        old_indices[0], new_indices[0],
        "member1 has nothing to do with it"
    );
    assert_ne!(
        old_indices[1], new_indices[1],
        "the documents of two clusters were in one index"
    );
    scene.registry.until_ready().await.unwrap();
    scene.registry.remove().await.unwrap();
}

#[tokio::test]
async fn a_member_that_is_set_back_to_an_older_revision() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "restored").await;
    let etcd = stage.fleet.etcd_of(2);
    let saved = Saved::of(&stage).await;
    let churns = scene.start_churn();
    go_on_for(&churns, 300).await;
    stop(churns).await;
    scene.until_equal().await;
    let objects = stage.member(2).unwrap();
    let before = revision(&objects).await;

    let member = stage.fleet.member(2).unwrap();
    member.kill();
    etcd.put_back(&saved.folder).await.unwrap();
    member.restart().await.unwrap();
    let after = revision(&objects).await;
    assert!(after < before, "the revision went from {before} to {after}");
    scene.until_equal().await;

    // What happens from now on shows too.
    let churns = scene.start_churn();
    go_on_for(&churns, 100).await;
    stop(churns).await;
    scene.ends_well().await;
}

/// The revision alone does not tell: when the operator looks again, the member is further than it was.
#[tokio::test]
async fn a_member_that_is_set_back_and_goes_on_before_anybody_looks() {
    let stage = enter().await;
    let cluster = unique("moved");
    let proxy = stage.register_behind_proxy(2, &cluster).await.unwrap();
    let scene = Scene::new(&stage, "moved", vec![(2, cluster.clone())], |_| ()).await;
    let saved = Saved::of(&stage).await;
    let churns = scene.start_churn();
    go_on_for(&churns, 200).await;
    stop(churns).await;
    scene.until_equal().await;
    let objects = stage.member(2).unwrap();
    let before = revision(&objects).await;

    proxy.set(Fault::Refuse);
    let member = stage.fleet.member(2).unwrap();
    member.kill();
    stage
        .fleet
        .etcd_of(2)
        .put_back(&saved.folder)
        .await
        .unwrap();
    member.restart().await.unwrap();
    let namespace = unique("further");
    objects.create_namespace(&namespace).await.unwrap();
    let mut number = 0;
    while revision(&objects).await <= before + 10 {
        objects
            .apply_config_map(
                &namespace,
                "counter",
                &json!({ "number": number.to_string() }),
            )
            .await
            .unwrap();
        number += 1;
    }
    proxy.set(Fault::None);
    scene.registry.until_ready().await.unwrap();
    assert!(scene.compare().await.is_err(), "there is nothing to find");
    drift_is_found(&stage, member, &cluster).await;
    scene.until_equal().await;
    nothing_is_found(&stage, &scene, &cluster).await;
    scene.registry.remove().await.unwrap();
    stage.unregister(&cluster).await.unwrap();
}

/// Amid changes of other objects: where nothing changes, an audit waits for a bookmark, which takes a minute.
async fn drift_is_found(stage: &Stage, member: &ApiServer, cluster: &str) {
    let labels = format!("cluster=\"{cluster}\"");
    let counted = || async {
        stage
            .operator
            .count_of("fleetdex_drift_documents_total", &labels)
            .await
            .unwrap()
    };
    let before = counted().await;
    let changes = Churn::new(member, &unique("beside"), 20, 10)
        .await
        .unwrap()
        .start();
    let ran = stage
        .operator
        .ask(&["verify", "--cluster", cluster])
        .await
        .unwrap();
    changes.stop().await.unwrap();
    eprintln!("{}", ran.out);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("ConfigMap"), "{ran:?}");
    assert!(counted().await > before, "no drift is counted");
}

async fn nothing_is_found(stage: &Stage, scene: &Scene<'_>, cluster: &str) {
    scene.registry.until_ready().await.unwrap();
    let ran = stage
        .operator
        .ask(&["verify", "--cluster", cluster])
        .await
        .unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// A copy of the second member's data.
struct Saved {
    folder: PathBuf,
}

impl Saved {
    async fn of(stage: &Stage) -> Self {
        let folder = stage.fleet.dir().join(unique("saved"));
        stage.fleet.etcd_of(2).save(&folder).await.unwrap();
        Self { folder }
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn identity(objects: &Objects) -> String {
    let namespace = objects.get("api/v1/namespaces/kube-system").await.unwrap();
    namespace["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn revision(objects: &Objects) -> u64 {
    let list = objects.get("api/v1/namespaces?limit=1").await.unwrap();
    list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// The indices of both members, by their unique ids: a name may be used again.
async fn indices_of(stage: &Stage, scene: &Scene<'_>) -> Vec<BTreeSet<String>> {
    let mut all = Vec::new();
    for cluster in BOTH {
        let mut ids = BTreeSet::new();
        for index in revisions(&stage.opensearch, &scene.registry.prefix, cluster)
            .await
            .unwrap()
        {
            let settings = stage
                .opensearch
                .get(&format!("{index}/_settings/index.uuid"))
                .await
                .unwrap();
            ids.insert(
                settings[&index]["settings"]["index"]["uuid"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        all.push(ids);
    }
    all
}
