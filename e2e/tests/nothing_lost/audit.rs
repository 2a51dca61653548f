//! Faults that nobody is told of: only an audit finds them, here one that is asked for.

use e2e::churn::Churn;
use e2e::fleet::{ApiServer, unique};
use e2e::oracle::{documents, generations};
use e2e::proxy::Fault;
use e2e::scenario::Stage;
use serde_json::json;

use super::history::{Saved, revision};
use super::{Scene, enter, go_on_for, stop};

/// So many documents are deleted.
const DELETED: usize = 10;

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
    stage.fleet.etcd_of(2).put_back(&saved.folder).await.unwrap();
    member.restart().await.unwrap();
    let namespace = unique("further");
    objects.create_namespace(&namespace).await.unwrap();
    let mut number = 0;
    while revision(&objects).await <= before + 10 {
        objects.apply_config_map(&namespace, "counter", &json!({ "number": number.to_string() })).await.unwrap();
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

#[tokio::test]
async fn documents_that_somebody_deletes_and_adds_in_the_store() {
    let stage = enter().await;
    let scene = Scene::of_both(&stage, "tampered").await;
    let prefix = &scene.registry.prefix;
    let member = stage.fleet.member(1).unwrap();
    let index = &generations(&stage.opensearch, prefix, "member1").await.unwrap()[0];
    // What OpenSearch remembers of a deletion keeps older versions out for a while.
    stage.opensearch.put(&format!("{index}/_settings"), &json!({ "index.gc_deletes": "1s" })).await.unwrap();
    let mut stranger = documents(&stage.opensearch, prefix).await.unwrap().swap_remove(0)["_source"].take();
    for hit in &stage.opensearch.documents(index).await.unwrap()[..DELETED] {
        let id = hit["_id"].as_str().unwrap();
        stage.opensearch.delete(&document_path(index, id)).await.unwrap();
    }
    drift_is_found(&stage, member, "member1").await;
    scene.until_equal().await;

    let uid = "00000000-0000-0000-0000-000000000000";
    stranger["cluster"] = json!("member1");
    stranger["kind"] = json!("ConfigMap");
    stranger["metadata"]["uid"] = json!(uid);
    let version = stranger["metadata"]["resourceVersion"].as_str().unwrap();
    let path = document_path(index, &format!("v1/ConfigMap/{uid}"));
    let path = format!("{path}?refresh=true&version_type=external&version={version}");
    stage.opensearch.put(&path, &stranger).await.unwrap();
    assert!(scene.compare().await.is_err(), "the oracle does not see the stranger");
    drift_is_found(&stage, member, "member1").await;
    scene.until_equal().await;
    nothing_is_found(&stage, &scene, "member1").await;
    scene.registry.remove().await.unwrap();
}

fn document_path(index: &str, id: &str) -> String {
    format!("{index}/_doc/{}", id.replace('/', "%2F"))
}

/// Amid changes of other objects: where nothing changes, an audit waits for a bookmark, which takes a minute.
async fn drift_is_found(stage: &Stage, member: &ApiServer, cluster: &str) {
    let labels = format!("cluster=\"{cluster}\"");
    let counted = || async { stage.operator.count_of("fleetdex_drift_documents_total", &labels).await.unwrap() };
    let before = counted().await;
    let changes = Churn::new(member, &unique("beside"), 20, 10).await.unwrap().start();
    let ran = stage.operator.ask(&["verify", "--cluster", cluster]).await.unwrap();
    changes.stop().await.unwrap();
    eprintln!("{}", ran.out);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("ConfigMap"), "{ran:?}");
    assert!(counted().await > before, "no drift is counted");
}

async fn nothing_is_found(stage: &Stage, scene: &Scene<'_>, cluster: &str) {
    scene.registry.until_ready().await.unwrap();
    let ran = stage.operator.ask(&["verify", "--cluster", cluster]).await.unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
}
