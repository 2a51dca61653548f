//! Objects leave clusters that fail, where their policies ask for it.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::test_result::Tested;
use serde_json::{Value, json};

use crate::fixture::{Distributing, binding_path, condition, nginx, path_of, policy, selector};

/// Applies a workload that is in one cluster, with a policy that has `failover`; returns its path.
async fn apply_in_one_cluster(
    fixture: &Distributing,
    web: &Value,
    failover: &Value,
) -> anyhow::Result<String> {
    fixture.apply(web).await?;
    let spec = json!({
        "resourceSelectors": [selector(web)], "propagateDeps": true, "failover": failover,
        "placement": {"spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
        ]},
    });
    fixture.apply(&policy("web", &spec)).await?;
    path_of(web)
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
    let failover = json!({"application": {
        "decisionConditions": {"tolerationSeconds": 1},
        "statePreservation": {"rules": [
            {"aliasLabelName": "seen", "jsonPath": "{.observedGeneration}"},
        ]},
    }});
    let path = apply_in_one_cluster(&fixture, &web, &failover).await?;
    let binding = fixture
        .until_hub(&binding_path(&web), "it leaves a cluster", |binding| {
            task(binding)["reason"] == "ApplicationFailure"
        })
        .await?;
    let new = member_of(&binding);
    let old = 3 - new;
    assert_eq!(task(&binding)["fromCluster"], format!("member{old}"));
    assert_eq!(task(&binding)["purgeMode"], "Gracefully");
    assert_eq!(task(&binding)["gracePeriodSeconds"], 600);
    for member in [old, new] {
        fixture
            .until_member(member, &path, "it is there", |_| true)
            .await?;
    }
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
async fn a_taint_no_execute_drives_a_workload_out() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let web = nginx("web", 2);
    let failover = json!({"cluster": {"purgeMode": "Directly"}});
    let path = apply_in_one_cluster(&fixture, &web, &failover).await?;
    let binding = fixture
        .until_hub(&binding_path(&web), "it has a cluster", |binding| {
            !binding["spec"]["clusters"].is_null()
        })
        .await?;
    let old = member_of(&binding);
    let new = 3 - old;
    fixture
        .until_member(old, &path, "it is there", |_| true)
        .await?;
    let taint = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}});
    fixture
        .hub
        .merge(
            &format!("apis/cluster.karmada.io/v1alpha1/clusters/member{old}"),
            &taint,
        )
        .await?;
    fixture.until_gone(old, &path).await?;
    fixture
        .until_member(new, &path, "it is there", |_| true)
        .await?;
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
