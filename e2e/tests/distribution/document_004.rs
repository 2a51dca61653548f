//! The examples of document 004: nginx in two members, a `Workload` divided 2:1 by the example
//! webhook, `paused` of a member that stays, and the summed status.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::ensure;
use e2e::{
    interpreter::{WorkloadInterpreter, manifest},
    scenario::until,
    test_result::{Tested, assert_contains},
};
use serde_json::json;

use crate::fixture::{Distributing, binding_path, clusters, condition, nginx, path_of, weights};

const WEBHOOK: &str =
    "apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations/workload-interpreter";

#[tokio::test]
async fn nginx_runs_in_both_members_and_its_status_is_summed() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let object = nginx("nginx", 2);
    fixture.apply(&object).await?;
    let placement = clusters(&["member1", "member2"]);
    fixture
        .propagate("nginx-propagation", &object, &placement)
        .await?;
    let path = path_of(&object)?;
    for member in [1, 2] {
        let has_two = |found: &serde_json::Value| found["spec"]["replicas"] == 2;
        fixture
            .until_member(member, &path, "2 replicas", has_two)
            .await?;
        let status =
            json!({"status": {"replicas": 2, "readyReplicas": member, "observedGeneration": 1}});
        fixture.members[member - 1]
            .merge(&format!("{path}/status"), &status)
            .await?;
    }
    let binding = fixture
        .until_hub(&binding_path(&object), "both are applied", |binding| {
            condition(binding, "FullyApplied")["status"] == "True"
        })
        .await?;
    assert_eq!(
        binding["spec"]["clusters"],
        json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}])
    );
    let is_summed = |found: &serde_json::Value| {
        found["status"]["readyReplicas"] == 3 && found["status"]["replicas"] == 4
    };
    fixture
        .until_hub(&path, "3 of 4 are ready", is_summed)
        .await?;
    is_shown(&fixture).await
}

/// The command and the page show both members with what they shall have and have.
async fn is_shown(fixture: &Distributing) -> Tested {
    let printed = until("the command shows both members", || async {
        let printed = fixture.status("deployment/nginx").await?;
        let lines = printed.out.lines();
        let cells: Vec<Vec<&str>> = lines
            .map(|line| line.split_whitespace().collect())
            .collect();
        for (line, member, ready) in [(1, "member1", "1"), (2, "member2", "2")] {
            let row = cells.get(line).and_then(|cells| cells.get(..5));
            let expected = ["deployment.apps/nginx", member, "2", ready, "yes"];
            ensure!(row == Some(&expected[..]), "{printed:?}");
        }
        Ok(printed)
    })
    .await?;
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_contains(&printed.out, "FullyApplied   True");
    let html = fixture.page().await?;
    for expected in [
        "Deployment nginx",
        "/ui/clusters/member1/apis/apps/v1/namespaces/default/deployments/nginx",
        "FullyApplied is True",
        "by the policy default/nginx-propagation",
    ] {
        assert_contains(&html, expected);
    }
    Ok(())
}

#[tokio::test]
async fn a_workload_is_divided_by_the_webhook_and_paused_of_a_member_stays() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let interpreter = WorkloadInterpreter::start(fixture.fleet.dir()).await?;
    interpreter.make_service(&fixture.hub).await?;
    let definition = manifest("crd.yaml")?;
    fixture.apply(&definition).await?;
    let workloads = "apis/workload.example.io/v1alpha1/namespaces/default/workloads";
    until("workloads are served", || fixture.hub.get(workloads)).await?;
    let configuration = interpreter.configuration("webhook-released.yaml")?;
    fixture.hub.apply(WEBHOOK, &configuration).await?;

    // The definition goes first, to both members.
    let of_definitions = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "definitions"},
        "spec": {
            "resourceSelectors": [{
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "name": "workloads.workload.example.io",
            }],
            "placement": {},
        },
    });
    let mut workload = manifest("workload.yaml")?;
    workload["metadata"]["namespace"] = "default".into();
    workload["spec"]["replicas"] = 3.into();
    fixture.apply(&workload).await?;
    fixture
        .propagate("nginx-workload-propagation", &workload, &weights(2, 1))
        .await?;
    fixture.apply(&of_definitions).await?;
    let path = path_of(&workload)?;
    for (member, replicas) in [(1, 2), (2, 1)] {
        fixture
            .until_member(member, &path, "its share", |found| {
                found["spec"]["replicas"] == replicas
            })
            .await?;
    }

    // `Retain` keeps what the member sets; replicas that are changed there are set back.
    let edited = json!({"spec": {"paused": true, "replicas": 9}});
    fixture.members[0].merge(&path, &edited).await?;
    fixture
        .until_member(
            1,
            &path,
            "replicas are set back and it stays paused",
            |found| found["spec"]["replicas"] == 2 && found["spec"]["paused"] == true,
        )
        .await?;

    for (member, ready) in [(0, 2), (1, 1)] {
        let status = json!({"status": {"readyReplicas": ready}});
        fixture.members[member]
            .merge(&format!("{path}/status"), &status)
            .await?;
    }
    fixture
        .until_hub(&path, "3 are ready", |found| {
            found["status"]["readyReplicas"] == 3
        })
        .await?;
    let binding = fixture.hub.get(&binding_path(&workload)).await?;
    let items = binding["status"]["aggregatedStatus"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{binding}");
    Ok(())
}
