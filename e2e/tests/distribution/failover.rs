//! Objects leave clusters that fail, where their policies ask for it.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::test_result::Tested;
use serde_json::{Value, json};

use crate::fixture::{
    Distributing, binding_path, condition, config_map, nginx, path_of, policy, selector,
};

/// More than the brake lets go at once.
const MANY: usize = 12;

/// What a policy says that places objects in one cluster.
fn in_one_cluster(selectors: &Value) -> Value {
    json!({
        "resourceSelectors": selectors, "propagateDeps": true,
        "placement": {"spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
        ]},
    })
}

/// Waits until an object is in a cluster; returns the number of that member.
async fn until_placed(fixture: &Distributing, object: &Value) -> anyhow::Result<usize> {
    let binding = fixture
        .until_hub(&binding_path(object), "it has a cluster", |binding| {
            !binding["spec"]["clusters"].is_null()
        })
        .await?;
    let member = member_of(&binding);
    fixture
        .until_member(member, &path_of(object)?, "it is there", |_| true)
        .await?;
    Ok(member)
}

/// The cluster of a binding, as its number.
fn member_of(binding: &Value) -> usize {
    if binding["spec"]["clusters"][0]["name"] == "member1" {
        1
    } else {
        2
    }
}

fn task(binding: &Value) -> &Value {
    &binding["spec"]["gracefulEvictionTasks"][0]
}

#[tokio::test]
async fn a_workload_that_is_not_healthy_moves_and_stays_until_it_is_healthy_elsewhere() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let web = nginx("web", 2);
    // Nothing runs in these members, so that no workload is healthy by itself.
    fixture.apply(&web).await?;
    let mut spec = in_one_cluster(&json!([selector(&web)]));
    fixture.apply(&policy("web", &spec)).await?;
    let old = until_placed(&fixture, &web).await?;
    let path = path_of(&web)?;
    let failed = json!({"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}});
    fixture.members[old - 1]
        .merge(&format!("{path}/status"), &failed)
        .await?;
    fixture
        .until_hub(&path, "its status is reported", |web| {
            web["status"]["replicas"] == 2
        })
        .await?;
    spec["failover"] = json!({"application": {
        "decisionConditions": {"tolerationSeconds": 1},
        "statePreservation": {"rules": [
            {"aliasLabelName": "seen", "jsonPath": "{.replicas}"},
        ]},
    }});
    fixture.apply(&policy("web", &spec)).await?;
    let binding = fixture
        .until_hub(&binding_path(&web), "it leaves a cluster", |binding| {
            task(binding)["reason"] == "ApplicationFailure"
        })
        .await?;
    let new = member_of(&binding);
    assert_eq!(new, 3 - old);
    assert_eq!(task(&binding)["fromCluster"], format!("member{old}"));
    assert_eq!(task(&binding)["preservedLabelState"], json!({"seen": "2"}));
    assert_eq!(task(&binding)["purgeMode"], "Gracefully");
    assert_eq!(task(&binding)["gracePeriodSeconds"], 600);
    fixture
        .until_member(new, &path, "it is there, with what is kept", |web| {
            web["metadata"]["labels"]["seen"] == "2"
        })
        .await?;
    fixture
        .until_member(old, &path, "it is still there", |_| true)
        .await?;
    let healthy = json!({"status": {
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 2,
    }});
    fixture.members[new - 1]
        .merge(&format!("{path}/status"), &healthy)
        .await?;
    fixture.until_gone(old, &path).await?;
    fixture
        .until_hub(&binding_path(&web), "the task has ended", |binding| {
            binding["spec"]["gracefulEvictionTasks"].is_null()
        })
        .await?;
    assert_eq!(
        fixture.members[new - 1].get(&path).await?["spec"]["replicas"],
        2
    );
    Ok(())
}

#[tokio::test]
async fn a_taint_no_execute_drives_everything_out_at_once() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let web = nginx("web", 2);
    let mut objects: Vec<Value> = (0..MANY)
        .map(|number| config_map(&format!("config{number}"), "1"))
        .collect();
    objects.push(web.clone());
    let mut spec = in_one_cluster(&objects.iter().map(selector).collect());
    spec["failover"] = json!({"cluster": {"purgeMode": "Directly"}});
    fixture.apply(&policy("web", &spec)).await?;
    for object in &objects {
        fixture.apply(object).await?;
    }
    let mut placed = Vec::new();
    for object in &objects {
        placed.push(until_placed(&fixture, object).await?);
    }
    let old = placed[0];
    assert!(placed.iter().all(|member| *member == old), "{placed:?}");
    let new = 3 - old;
    let taint = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}});
    fixture
        .hub
        .merge(
            &format!("apis/cluster.karmada.io/v1alpha1/clusters/member{old}"),
            &taint,
        )
        .await?;
    // The brake does not hold them.
    for object in &objects {
        let path = path_of(object)?;
        fixture.until_gone(old, &path).await?;
        fixture
            .until_member(new, &path, "it is there", |_| true)
            .await?;
    }
    let binding = fixture
        .until_hub(&binding_path(&web), "the task has ended", |binding| {
            let message = condition(binding, "Scheduled")["message"].as_str();
            binding["spec"]["gracefulEvictionTasks"].is_null()
                && message.is_some_and(|text| text.contains("its taint down:NoExecute"))
        })
        .await?;
    assert_eq!(member_of(&binding), new);
    Ok(())
}
