//! `fleetdex local` with two clusters of a kubeconfig, queried from another process.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;

use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    local::{Local, kubeconfig},
    objects::Objects,
    scenario::DEADLINE,
    test_result::Tested,
};
use serde_json::json;

#[tokio::test]
async fn the_contexts_of_a_kubeconfig_form_one_fleet() -> Tested {
    let fleet = Fleet::start(Options::of(2, OpenSearchKind::None)).await?;
    let members = [Objects::of(fleet.member(1))?, Objects::of(fleet.member(2))?];
    for member in &members {
        member.create_namespace("web").await?;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-1", "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/web" }] },
        });
        member
            .apply("api/v1/namespaces/web/pods/web-1", &pod)
            .await?;
        member
            .apply_config_map("web", "one", &json!({ "a": "b" }))
            .await?;
    }
    let folder = fleet.dir().join("local");
    fs::create_dir_all(&folder)?;
    let path = folder.join("kubeconfig.json");
    fs::write(&path, kubeconfig(&fleet).to_string())?;

    let local = Local::start(&folder, &path, &[]).unwrap();
    local
        .until("pods -A -l app=web -o name", &["pod/web-1", "pod/web-1"])
        .await?;
    local
        .until("pods -A -l app=web", &["CLUSTER", "east", "west"])
        .await?;
    local
        .until_logged(&[
            "east: in sync, 20 kinds",
            "west: in sync",
            "lost: not reachable",
            "east-again: left out",
            "ready: fleetdex get",
        ])
        .await?;
    members[0]
        .delete("api/v1/namespaces/web/pods/web-1?gracePeriodSeconds=0")
        .await?;
    local
        .until("pods -A -l app=web", &["CLUSTER", "west"])
        .await?;
    members[1].delete_config_map("web", "one").await?;
    local
        .until(
            "cm -n web --field-selector metadata.name=one",
            &["CLUSTER", "east"],
        )
        .await?;
    let refused = local.get("secrets -A").await.unwrap_err().to_string();
    assert!(
        refused.contains("secrets"),
        "Secrets are only read if they are named: {refused}"
    );
    let ended = local.process.terminate(DEADLINE).await?;
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
        "ns --field-selector metadata.name=web",
        &["CLUSTER", "west"],
    )
    .await?;
    assert!(some.get("pods -A").await.is_err());
    Ok(())
}
