//! `fleetdex local` with two clusters of a kubeconfig, queried from another process.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    local::{Local, kubeconfig},
    objects::{Objects, config_map_path},
    scenario::DEADLINE,
};
use serde_json::json;

#[tokio::test]
async fn the_contexts_of_a_kubeconfig_form_one_fleet() {
    let fleet = Fleet::start(Options {
        members: 2,
        opensearch: OpenSearchKind::None,
        ..Options::default()
    })
    .await
    .unwrap();
    let members = [
        Objects::of(fleet.member(1).unwrap()).unwrap(),
        Objects::of(fleet.member(2).unwrap()).unwrap(),
    ];
    for member in &members {
        member.create_namespace("web").await.unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-1", "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/web" }] },
        });
        member
            .apply("api/v1/namespaces/web/pods/web-1", &pod)
            .await
            .unwrap();
        member
            .apply_config_map("web", "one", &json!({ "a": "b" }))
            .await
            .unwrap();
    }
    let folder = fleet.dir().join("local");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kubeconfig.json");
    fs::write(&path, kubeconfig(&fleet).to_string()).unwrap();

    let local = Local::start(&folder, &path, &[]).unwrap();
    local
        .until(
            &["pods", "-A", "-l", "app=web", "-o", "name"],
            &["pod/web-1", "pod/web-1"],
        )
        .await
        .unwrap();
    local
        .until(
            &["pods", "-A", "-l", "app=web"],
            &["CLUSTER", "east", "west"],
        )
        .await
        .unwrap();
    local
        .until_logged(&[
            "east: in sync, 20 kinds",
            "west: in sync",
            "lost: not reachable",
            "east-again: left out",
            "ready: fleetdex get",
        ])
        .await
        .unwrap();
    members[0]
        .delete("api/v1/namespaces/web/pods/web-1?gracePeriodSeconds=0")
        .await
        .unwrap();
    local
        .until(&["pods", "-A", "-l", "app=web"], &["CLUSTER", "west"])
        .await
        .unwrap();
    members[1]
        .delete(&config_map_path("web", "one"))
        .await
        .unwrap();
    local
        .until(
            &["cm", "-n", "web", "--field-selector", "metadata.name=one"],
            &["CLUSTER", "east"],
        )
        .await
        .unwrap();
    let refused = local.get(&["secrets", "-A"]).await.unwrap_err().to_string();
    assert!(
        refused.contains("secrets"),
        "Secrets are only read if they are named: {refused}"
    );
    let ended = local.process.terminate(DEADLINE).await.unwrap();
    assert!(ended.success(), "{ended}");
    assert!(
        !local.runtime_folder.join("fleetdex/token").exists(),
        "the token outlives its server"
    );

    let some = Local::start(
        &folder,
        &path,
        &["--context=west", "--resource=secrets,namespaces"],
    )
    .unwrap();
    some.until(
        &["ns", "--field-selector", "metadata.name=web"],
        &["CLUSTER", "west"],
    )
    .await
    .unwrap();
    assert!(some.get(&["pods", "-A"]).await.is_err());
}
