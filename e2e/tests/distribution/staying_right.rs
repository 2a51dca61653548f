//! Drift is repaired, fields of others stay, fields that left the template go, and what has not
//! changed is not written.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use e2e::{scenario::DEADLINE, test_result::Tested};
use serde_json::{Value, json};

use crate::fixture::{Distributing, binding_path, clusters, config_map, nginx, path_of, weights};

#[tokio::test]
async fn drift_is_repaired_and_fields_of_others_stay() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let mut web = nginx("web", 2);
    web["metadata"]["labels"]["gone"] = "soon".into();
    fixture.apply(&web).await?;
    fixture
        .propagate("web", &web, &clusters(&["member1", "member2"]))
        .await?;
    let path = path_of(&web)?;
    fixture
        .until_member(1, &path, "it is there", |_| true)
        .await?;

    // Edited and deleted by hand.
    fixture.members[0]
        .merge(&path, &json!({"spec": {"replicas": 9}, "metadata": {"labels": {"app": "other", "own": "yes"}}}))
        .await?;
    fixture
        .until_member(1, &path, "it is as it was", |found| {
            found["spec"]["replicas"] == 2 && found["metadata"]["labels"]["app"] == "web"
        })
        .await?;
    let found = fixture.members[0].get(&path).await?;
    assert_eq!(found["metadata"]["labels"]["own"], "yes");
    fixture.members[1].delete(&path).await?;
    fixture
        .until_member(2, &path, "it is back", |_| true)
        .await?;

    // A field that left the template goes.
    web["metadata"]["labels"] = json!({"app": "web"});
    fixture.apply(&web).await?;
    for member in [1, 2] {
        fixture
            .until_member(member, &path, "the label is gone", |found| {
                found["metadata"]["labels"]["gone"].is_null()
            })
            .await?;
    }

    // An autoscaler sets replicas by the subresource, and keeps them; what kubectl scale sets is
    // set back.
    let scale = json!({"spec": {"replicas": 5}});
    let scale_path = format!("{path}/scale?fieldManager=kube-controller-manager");
    fixture.members[0].merge(&scale_path, &scale).await?;
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2".into();
    fixture.apply(&web).await?;
    fixture
        .until_member(
            1,
            &path,
            "the image is new and replicas are kept",
            |found| {
                found["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
                    && found["spec"]["replicas"] == 5
            },
        )
        .await?;
    let scale_path = format!("{path}/scale?fieldManager=kubectl");
    fixture.members[1].merge(&scale_path, &scale).await?;
    fixture
        .until_member(2, &path, "replicas are set back", |found| {
            found["spec"]["replicas"] == 2
        })
        .await?;
    Ok(())
}

/// The versions of the objects of both members and of the bindings.
async fn versions(fixture: &Distributing, paths: &[String]) -> anyhow::Result<Vec<Value>> {
    let mut versions = Vec::new();
    for path in paths {
        for member in &fixture.members {
            let found = member.find(path).await?.unwrap_or_default();
            versions.push(found["metadata"]["resourceVersion"].clone());
        }
    }
    let bindings = fixture
        .hub
        .get("apis/work.karmada.io/v1alpha2/resourcebindings")
        .await?;
    for binding in bindings["items"].as_array().into_iter().flatten() {
        versions.push(binding["metadata"]["resourceVersion"].clone());
    }
    Ok(versions)
}

#[tokio::test]
async fn replicas_are_divided_steadily_and_a_restart_writes_nothing() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let mut web = nginx("web", 3);
    let path = path_of(&web)?;
    fixture.apply(&web).await?;
    fixture.propagate("web", &web, &weights(1, 1)).await?;
    for replicas in [3, 7, 2] {
        web["spec"]["replicas"] = replicas.into();
        fixture.apply(&web).await?;
        let binding = fixture
            .until_hub(&binding_path(&web), "all replicas are placed", |binding| {
                let clusters = binding["spec"]["clusters"].as_array();
                let placed = clusters.into_iter().flatten();
                placed
                    .filter_map(|one| one["replicas"].as_u64())
                    .sum::<u64>()
                    == replicas
            })
            .await?;
        for (index, cluster) in binding["spec"]["clusters"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            fixture
                .until_member(index + 1, &path, "its share", |found| {
                    found["spec"]["replicas"] == cluster["replicas"]
                })
                .await?;
        }
    }
    let settings = config_map("settings", "1");
    fixture.apply(&settings).await?;
    fixture.propagate("settings", &settings, &json!({})).await?;
    for object in [&web, &settings] {
        fixture
            .until_condition(&binding_path(object), "FullyApplied", "True")
            .await?;
    }
    let paths = [path, path_of(&settings)?];
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = versions(&fixture, &paths).await?;
    fixture.operator.restart_until_ready(DEADLINE).await?;
    // A change that comes after it shows that everything before was looked at.
    let marker = config_map("marker", "1");
    fixture.apply(&marker).await?;
    let placement = clusters(&["member1", "member2"]);
    let made = versions(&fixture, &paths).await?;
    assert_eq!(made, before);
    fixture.propagate("marker", &marker, &placement).await?;
    for member in [1, 2] {
        fixture
            .until_member(member, &path_of(&marker)?, "it is there", |_| true)
            .await?;
    }
    fixture
        .until_condition(&binding_path(&marker), "FullyApplied", "True")
        .await?;
    let mut after = versions(&fixture, &paths).await?;
    let marker = fixture.hub.get(&binding_path(&marker)).await?;
    after.retain(|version| *version != marker["metadata"]["resourceVersion"]);
    assert_eq!(after, before);
    Ok(())
}
