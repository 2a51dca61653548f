//! Waves of a plain policy: a changed template reaches the next members when those before are
//! healthy.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::Result;
use e2e::{
    scenario::DEADLINE,
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use crate::fixture::{Distributing, binding_path, clusters, nginx, path_of, policy, selector};

const ROLLOUT: &str = "distribute.fleetdex.io/rollout";
const STATUS: &str = "distribute.fleetdex.io/rollout-status";
/// `member2`, and the others when a user resumes it.
const WAVES: &str = "waves: [{clusterAffinity: {clusterNames: [member2]}, pause: true}]";

fn web(image: &str) -> Value {
    let mut object = nginx("web", 1);
    object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    object
}

fn has_image(object: &Value, image: &str) -> bool {
    object["spec"]["template"]["spec"]["containers"][0]["image"] == image
}

fn rollout(binding: &Value) -> Value {
    let text = binding["metadata"]["annotations"][STATUS].as_str();
    serde_json::from_str(text.unwrap_or_default()).unwrap_or_default()
}

/// What the controllers of a member do.
async fn is_well(fixture: &Distributing, member: usize) -> Result<()> {
    let path = path_of(&web("a"))?;
    let objects = &fixture.members[member - 1];
    let found = objects.get(&path).await?;
    let status = json!({"status": {
        "observedGeneration": found["metadata"]["generation"], "replicas": 1,
        "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
    }});
    objects.merge(&format!("{path}/status"), &status).await?;
    Ok(())
}

/// Waits until the rollout has a phase, and returns it.
async fn until_phase(fixture: &Distributing, phase: &str) -> Result<Value> {
    let binding = binding_path(&web("a"));
    let found = fixture
        .until_hub(&binding, phase, |found| rollout(found)["phase"] == phase)
        .await?;
    Ok(rollout(&found))
}

#[tokio::test]
async fn a_changed_template_waits_for_the_members_before() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    let spec = json!({
        "resourceSelectors": [selector(&web("a"))],
        "placement": clusters(&["member1", "member2"]),
    });
    let mut policy = policy("web", &spec);
    policy["metadata"]["annotations"] = json!({ROLLOUT: WAVES});
    fixture.apply(&policy).await?;
    fixture.apply(&web("a")).await?;
    let path = path_of(&web("a"))?;
    let binding = binding_path(&web("a"));
    fixture
        .until_member(2, &path, "the first wave has it", |_| true)
        .await?;
    let message = fixture
        .until_condition(&binding, "FullyApplied", "False")
        .await?;
    assert_contains(&message, "member1: waits for its wave");
    is_well(&fixture, 2).await?;
    let paused = until_phase(&fixture, "Paused").await?;
    assert!(fixture.members[0].find(&path).await?.is_none());

    let resume = format!("{}/1", paused["revision"].as_str().unwrap());
    let resumed = json!({"metadata": {"annotations": {"distribute.fleetdex.io/resume": resume}}});
    fixture.hub.merge(&binding, &resumed).await?;
    fixture
        .until_member(1, &path, "the second wave has it", |_| true)
        .await?;
    is_well(&fixture, 1).await?;
    until_phase(&fixture, "Complete").await?;

    // A change waits again, also for another process, and the others keep what they have.
    fixture.apply(&web("b")).await?;
    fixture
        .until_member(2, &path, "the change", |found| has_image(found, "b"))
        .await?;
    let before = fixture.members[0].get(&path).await?;
    assert!(has_image(&before, "a"), "{before}");
    fixture.operator.restart_until_ready(DEADLINE).await?;
    is_well(&fixture, 2).await?;
    until_phase(&fixture, "Paused").await?;
    let after = fixture.members[0].get(&path).await?;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    // Without waves nothing waits.
    policy["metadata"]["annotations"] = json!({});
    fixture.apply(&policy).await?;
    fixture
        .until_member(1, &path, "the change", |found| has_image(found, "b"))
        .await?;
    Ok(())
}
