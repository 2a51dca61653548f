//! What is deleted, what is kept, and what is held.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::ensure;
use e2e::{
    scenario::until,
    test_result::{Tested, assert_contains},
};
use serde_json::json;

use crate::fixture::{Distributing, binding_path, clusters, config_map, path_of, policy, selector};

const BINDINGS: &str = "apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

#[tokio::test]
async fn copies_follow_their_object_and_a_deleted_policy_deletes_nothing() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let both = clusters(&["member1", "member2"]);
    let [gone, kept, moved, unclaimed] =
        ["gone", "kept", "moved", "unclaimed"].map(|name| config_map(name, "1"));
    for object in [&gone, &kept, &moved, &unclaimed] {
        fixture.apply(object).await?;
        let name = object["metadata"]["name"].as_str().unwrap();
        fixture.propagate(name, object, &both).await?;
    }
    let mut preserving = policy(
        "kept",
        &json!({"resourceSelectors": [selector(&kept)], "placement": both}),
    );
    preserving["spec"]["preserveResourcesOnDeletion"] = true.into();
    fixture.apply(&preserving).await?;
    for object in [&gone, &kept, &moved, &unclaimed] {
        fixture
            .until_condition(&binding_path(object), "FullyApplied", "True")
            .await?;
    }
    fixture
        .until_hub(&binding_path(&kept), "it is preserved", |binding| {
            binding["spec"]["preserveResourcesOnDeletion"] == true
        })
        .await?;

    fixture
        .hub
        .delete(&path_of(&policy("unclaimed", &json!({})))?)
        .await?;
    fixture.hub.delete(&path_of(&gone)?).await?;
    fixture.hub.delete(&path_of(&kept)?).await?;
    fixture
        .propagate("moved", &moved, &clusters(&["member2"]))
        .await?;
    for member in [1, 2] {
        fixture.until_gone(member, &path_of(&gone)?).await?;
        fixture
            .until_member(
                member,
                &path_of(&kept)?,
                "it is the member's own",
                |found| {
                    found["metadata"]["labels"]["distribute.fleetdex.io/control-plane"].is_null()
                },
            )
            .await?;
    }
    fixture.until_gone(1, &path_of(&moved)?).await?;
    fixture
        .until_member(2, &path_of(&moved)?, "it stays", |_| true)
        .await?;
    for object in [&gone, &kept] {
        let binding = binding_path(object);
        until(&format!("{binding} is gone"), || async {
            let found = fixture.hub.find(&binding).await?;
            ensure!(found.is_none(), "{found:?}\n{}", fixture.log());
            Ok(())
        })
        .await?;
    }
    let binding = fixture
        .until_hub(&binding_path(&moved), "nothing is left over", |binding| {
            binding["spec"]["gracefulEvictionTasks"].is_null()
        })
        .await?;
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "member2"}]));
    for member in [1, 2] {
        fixture
            .until_member(member, &path_of(&unclaimed)?, "it stays", |_| true)
            .await?;
    }

    // What is deleted while the operator is not running is deleted when it is back.
    fixture.operator.kill();
    fixture.hub.delete(&path_of(&moved)?).await?;
    fixture
        .operator
        .restart_until_ready(e2e::scenario::DEADLINE)
        .await?;
    fixture.until_gone(2, &path_of(&moved)?).await?;
    Ok(())
}

#[tokio::test]
async fn a_change_that_deletes_too_much_is_held_until_it_is_let_go() -> Tested {
    let fixture = Distributing::start(1, &[]).await?;
    let spec = json!({
        "resourceSelectors": [{
            "apiVersion": "v1", "kind": "ConfigMap",
            "labelSelector": {"matchLabels": {"app": "shop"}},
        }],
        "placement": {},
    });
    let objects: Vec<serde_json::Value> = (0..20)
        .map(|number| {
            let mut object = config_map(&format!("shop-{number:02}"), "1");
            object["metadata"]["labels"] = json!({"app": "shop"});
            object
        })
        .collect();
    for object in &objects {
        fixture.apply(object).await?;
    }
    fixture.apply(&policy("shop", &spec)).await?;
    for object in &objects {
        fixture
            .until_condition(&binding_path(object), "FullyApplied", "True")
            .await?;
    }
    for object in &objects[..15] {
        fixture.hub.delete(&path_of(object)?).await?;
    }
    let message = fixture
        .until_condition(&binding_path(&objects[0]), "DeletionHeld", "True")
        .await?;
    assert_contains(&message, "too much would be deleted at once in member1");
    for object in &objects {
        fixture
            .until_member(1, &path_of(object)?, "it stays", |_| true)
            .await?;
    }
    let held = fixture
        .operator
        .metric(
            "fleetdex_distribution_held_deletions",
            "cluster=\"member1\"",
        )
        .await?;
    assert!((14.5..15.5).contains(&held), "{held}");
    let annotation =
        json!({"metadata": {"annotations": {"distribute.fleetdex.io/allow-deletion": "true"}}});
    for object in &objects[..15] {
        let name = object["metadata"]["name"].as_str().unwrap();
        fixture
            .hub
            .merge(&format!("{BINDINGS}/{name}-configmap"), &annotation)
            .await?;
    }
    for object in &objects[..15] {
        fixture.until_gone(1, &path_of(object)?).await?;
    }
    for object in &objects[15..] {
        fixture
            .until_member(1, &path_of(object)?, "it stays", |_| true)
            .await?;
    }
    Ok(())
}
