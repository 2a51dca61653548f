//! Members that are away, and an operator that is killed amid changes.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::{scenario::DEADLINE, test_result::Tested};

use crate::fixture::{
    Distributing, binding_path, clusters, condition, config_map, nginx, path_of, weights,
};

#[tokio::test]
async fn a_member_that_was_away_is_caught_up() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let both = clusters(&["member1", "member2"]);
    let [changed, deleted] = ["changed", "deleted"].map(|name| config_map(name, "1"));
    for object in [&changed, &deleted] {
        fixture.apply(object).await?;
        let name = object["metadata"]["name"].as_str().unwrap();
        fixture.propagate(name, object, &both).await?;
        fixture
            .until_condition(&binding_path(object), "FullyApplied", "True")
            .await?;
    }
    fixture.fleet.member(2).kill();
    fixture
        .until_hub(&binding_path(&changed), "a cluster is away", |binding| {
            let message = condition(binding, "FullyApplied")["message"].as_str();
            message.is_some_and(|text| text.starts_with("member2: the cluster is not connected ("))
        })
        .await?;
    fixture.apply(&config_map("changed", "2")).await?;
    fixture.hub.delete(&path_of(&deleted)?).await?;
    let created = config_map("created", "1");
    fixture.apply(&created).await?;
    fixture.propagate("created", &created, &both).await?;
    let is_new = |found: &serde_json::Value| found["data"]["value"] == "2";
    fixture
        .until_member(1, &path_of(&changed)?, "it is new", is_new)
        .await?;
    fixture.until_gone(1, &path_of(&deleted)?).await?;
    // The binding of what is gone stays until the other member has no copy either.
    let tombstone = fixture.hub.get(&binding_path(&deleted)).await?;
    assert!(!tombstone["spec"]["clusters"].is_null());

    fixture.fleet.member(2).restart().await?;
    fixture
        .until_member(2, &path_of(&changed)?, "it is new", is_new)
        .await?;
    fixture.until_gone(2, &path_of(&deleted)?).await?;
    fixture
        .until_member(2, &path_of(&created)?, "it is there", |_| true)
        .await?;
    fixture
        .until_condition(&binding_path(&changed), "FullyApplied", "True")
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_operator_that_is_killed_amid_a_rollout_ends_it_afterwards() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let mut objects: Vec<serde_json::Value> = (0..10)
        .map(|number| nginx(&format!("web-{number}"), 4))
        .collect();
    for object in &objects {
        fixture.apply(object).await?;
        let name = object["metadata"]["name"].as_str().unwrap();
        fixture.propagate(name, object, &weights(1, 1)).await?;
    }
    for round in 0..3_u32 {
        for object in &mut objects {
            object["spec"]["replicas"] = (6 + 2 * round).into();
            fixture.apply(object).await?;
        }
        fixture.operator.kill();
        fixture.operator.restart_until_ready(DEADLINE).await?;
    }
    for object in &objects {
        for member in [1, 2] {
            fixture
                .until_member(member, &path_of(object)?, "half of ten", |found| {
                    found["spec"]["replicas"] == 5
                })
                .await?;
        }
        fixture
            .until_condition(&binding_path(object), "FullyApplied", "True")
            .await?;
    }
    Ok(())
}
