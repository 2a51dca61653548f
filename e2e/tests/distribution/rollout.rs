//! Waves of a `Distribution`: the clusters of a new revision one after the other, and back.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Result, ensure};
use e2e::{
    operator::CommandResult,
    scenario::{DEADLINE, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use crate::{
    fixture::{Distributing, clusters, condition, config_map, nginx, path_of},
    sets::{CHART, DISTRIBUTIONS, SECRET, archive, distribution, inline, start_with, until_reason},
};

const UNDO: &str = "distribute.fleetdex.io/undo";

/// `nginx` with an image of this version.
fn web(version: &str) -> Value {
    let mut object = nginx("web", 1);
    object["spec"]["template"]["spec"]["containers"][0]["image"] =
        format!("nginx:{version}").into();
    object
}

fn image(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"][0]["image"]
}

/// A set in waves of one cluster each.
fn in_waves(name: &str, source: &Value, waves: &Value) -> Value {
    let all = clusters(&["member1", "member2", "member3"]);
    let mut set = distribution(name, source, &all);
    set["spec"]["rollout"] = json!({"waves": waves});
    set
}

/// The waves: `member2`, then as many that two of three have it, then the rest.
fn waves() -> Value {
    json!([
        {"clusterAffinity": {"clusterNames": ["member2"]}, "deadline": "3s"},
        {"percent": 50},
    ])
}

/// What the controllers of a member do: it says that the Deployment is as its spec says, or not.
async fn report(fixture: &Distributing, member: usize, is_healthy: bool) -> Result<()> {
    let path = path_of(&web("1"))?;
    let objects = &fixture.members[member - 1];
    let found = objects.get(&path).await?;
    let ready = i64::from(is_healthy);
    let status = json!({"status": {
        "observedGeneration": found["metadata"]["generation"], "replicas": 1,
        "updatedReplicas": ready, "readyReplicas": ready, "availableReplicas": ready,
    }});
    objects.merge(&format!("{path}/status"), &status).await?;
    Ok(())
}

/// Waits until a member has an image, and reports that it is healthy.
async fn is_well(fixture: &Distributing, member: usize, version: &str) -> Result<()> {
    let expected = format!("nginx:{version}");
    let path = path_of(&web("1"))?;
    fixture
        .until_member(member, &path, &expected, |found| *image(found) == *expected)
        .await?;
    report(fixture, member, true).await
}

/// Waits until the rollout has a phase and a number of waves, and returns its status.
async fn until_rollout(
    fixture: &Distributing,
    name: &str,
    phase: &str,
    progress: &str,
) -> Result<Value> {
    let path = format!("{DISTRIBUTIONS}/{name}");
    let what = format!("its rollout is {phase} {progress}");
    let found = fixture
        .until_hub(&path, &what, |found| {
            let rollout = &found["status"]["rollout"];
            rollout["phase"] == phase && rollout["progress"] == progress
        })
        .await?;
    Ok(found["status"]["rollout"].clone())
}

/// Whether these members have these images.
async fn assert_images(fixture: &Distributing, expected: [&str; 3]) -> Result<()> {
    let path = path_of(&web("1"))?;
    for (member, expected) in fixture.members.iter().zip(expected) {
        let found = member.find(&path).await?.unwrap_or_default();
        let found = image(&found).as_str().unwrap_or("none");
        let found = found.trim_start_matches("nginx:");
        ensure!(found == expected, "{found} instead of {expected}");
    }
    Ok(())
}

/// Runs `fleetdex rollout`.
async fn rollout(fixture: &Distributing, words: &[&str]) -> Result<CommandResult> {
    let kubeconfig = fixture.fleet.control_plane().kubeconfig();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let first = ["rollout"].into_iter().chain(words.iter().copied());
    let words: Vec<&str> = first.chain(["--namespace=default", &*kubeconfig]).collect();
    fixture.operator.run_command(&words).await
}

/// The versions of the Deployment of some members.
async fn versions(fixture: &Distributing, members: &[usize]) -> Result<Vec<Value>> {
    let path = path_of(&web("1"))?;
    let mut versions = Vec::new();
    for member in members {
        let found = fixture.members[member - 1].get(&path).await?;
        versions.push(found["metadata"]["resourceVersion"].clone());
    }
    Ok(versions)
}

/// A set that is rolled out and complete.
async fn installed(fixture: &Distributing) -> Result<Value> {
    let mut set = in_waves(
        "web",
        &inline(&[web("1"), config_map("old", "1")]),
        &waves(),
    );
    fixture.apply(&set).await?;
    is_well(fixture, 2, "1").await?;
    is_well(fixture, 1, "1").await?;
    is_well(fixture, 3, "1").await?;
    until_rollout(fixture, "web", "Complete", "3/3").await?;
    set["spec"]["source"] = inline(&[web("2"), config_map("new", "2")]);
    Ok(set)
}

#[tokio::test]
async fn waves_begin_when_those_before_are_healthy_and_a_restart_changes_nothing() -> Tested {
    let fixture = start_with(3).await?;
    let set = in_waves("web", &inline(&[web("1")]), &waves());
    fixture.apply(&set).await?;
    // The first wave alone has it, until it is healthy.
    fixture
        .until_member(2, &path_of(&web("1"))?, "it is there", |_| true)
        .await?;
    let failed = until_rollout(&fixture, "web", "Failed", "1/3").await?;
    assert_contains(&failed["message"], "wave 1 of 3: member2: ");
    assert_contains(&failed["message"], "Deployment default/web");
    assert_images(&fixture, ["none", "1", "none"]).await?;
    let status = rollout(&fixture, &["status", "web"]).await?;
    assert_eq!(status.code, 1, "{}", status.out);
    let page = fixture.view("/distribution/sets/default/web").await?;
    for shown in ["member1 (waits for its wave)", "member2 (new revision)"] {
        assert_contains(&page, shown);
    }
    until_reason(&fixture, "web", "Ready", "RolloutFailed").await?;
    // It goes on by itself.
    is_well(&fixture, 2, "1").await?;
    until_rollout(&fixture, "web", "Progressing", "2/3").await?;
    fixture
        .until_member(1, &path_of(&web("1"))?, "it is there", |_| true)
        .await?;
    assert_images(&fixture, ["1", "1", "none"]).await?;

    // Another process neither steps back nor writes anything again.
    let before = versions(&fixture, &[1, 2]).await?;
    fixture.operator.restart_until_ready(DEADLINE).await?;
    let other = distribution(
        "other",
        &inline(&[config_map("other", "1")]),
        &clusters(&["member3"]),
    );
    fixture.apply(&other).await?;
    let of_other = path_of(&config_map("other", "1"))?;
    fixture
        .until_member(3, &of_other, "it is there", |_| true)
        .await?;
    let state = until_rollout(&fixture, "web", "Progressing", "2/3").await?;
    assert_eq!(state["reached"], json!(["member1", "member2"]));
    assert_eq!(versions(&fixture, &[1, 2]).await?, before);
    assert_images(&fixture, ["1", "1", "none"]).await?;
    is_well(&fixture, 1, "1").await?;
    is_well(&fixture, 3, "1").await?;
    let complete = until_rollout(&fixture, "web", "Complete", "3/3").await?;
    assert_eq!(complete["stable"], complete["revision"]);
    until_reason(&fixture, "web", "Ready", "Ready").await?;
    let kubectl = fixture.fleet.control_plane().kubectl()?;
    let events = kubectl.run(&["get", "events"]).await?;
    for reason in ["WaveBegan", "RolloutFailed", "RolloutFinished"] {
        assert_contains(&events, reason);
    }
    Ok(())
}

#[tokio::test]
async fn an_undo_brings_the_old_objects_back() -> Tested {
    let fixture = start_with(3).await?;
    let set = installed(&fixture).await?;
    let nothing = rollout(&fixture, &["undo", "web"]).await?;
    assert_contains(&nothing.err, "nothing stable to go back to");
    let [old, new] = [
        path_of(&config_map("old", "1"))?,
        path_of(&config_map("new", "2"))?,
    ];
    fixture.apply(&set).await?;
    fixture.until_gone(2, &old).await?;
    fixture
        .until_member(2, &new, "it is there", |_| true)
        .await?;
    until_rollout(&fixture, "web", "Failed", "1/3").await?;
    // The others have the stable revision, which is repaired there.
    assert_images(&fixture, ["1", "2", "1"]).await?;
    for member in [1, 3] {
        fixture.members[member - 1].get(&old).await?;
        assert_eq!(fixture.members[member - 1].find(&new).await?, None);
    }
    fixture.members[0]
        .merge(&old, &json!({"data": {"value": "9"}}))
        .await?;
    fixture
        .until_member(1, &old, "it is repaired", |found| {
            found["data"]["value"] == "1"
        })
        .await?;
    let history = rollout(&fixture, &["history", "web"]).await?;
    assert_contains(&history.out, "current");
    assert_contains(&history.out, "stable");

    let undone = rollout(&fixture, &["undo", "web"]).await?;
    assert_eq!(undone.code, 0, "{}", undone.err);
    is_well(&fixture, 2, "1").await?;
    fixture.until_gone(2, &new).await?;
    fixture
        .until_member(2, &old, "it is there", |_| true)
        .await?;
    until_rollout(&fixture, "web", "Undone", "0/3").await?;
    assert_images(&fixture, ["1", "1", "1"]).await?;
    until_reason(&fixture, "web", "Ready", "Undone").await?;
    let again = rollout(&fixture, &["undo", "web"]).await?;
    assert_contains(&again.err, "it is undone already");

    // Another process has it from the Secret.
    let before = versions(&fixture, &[1, 2, 3]).await?;
    fixture.operator.restart_until_ready(DEADLINE).await?;
    fixture.members[1]
        .merge(&old, &json!({"data": {"value": "9"}}))
        .await?;
    fixture
        .until_member(2, &old, "it is repaired", |found| {
            found["data"]["value"] == "1"
        })
        .await?;
    assert_eq!(versions(&fixture, &[1, 2, 3]).await?, before);

    // Without the annotation it is rolled out again.
    let resumed = rollout(&fixture, &["resume", "web"]).await?;
    assert_contains(&resumed.out, "is rolled out again");
    for member in [2, 1, 3] {
        is_well(&fixture, member, "2").await?;
    }
    until_rollout(&fixture, "web", "Complete", "3/3").await?;
    for member in [1, 2, 3] {
        fixture.until_gone(member, &old).await?;
    }
    let found = fixture.hub.get(&format!("{DISTRIBUTIONS}/web")).await?;
    assert_eq!(found["metadata"]["annotations"][UNDO], Value::Null);
    Ok(())
}

#[tokio::test]
async fn a_wave_waits_for_who_resumes_it() -> Tested {
    let fixture = start_with(3).await?;
    let source = inline(&[config_map("settings", "1")]);
    let waves = json!([{"clusterAffinity": {"clusterNames": ["member1"]}, "pause": true}]);
    let mut set = in_waves("settings", &source, &waves);
    fixture.apply(&set).await?;
    until_rollout(&fixture, "settings", "Paused", "1/2").await?;
    until_reason(&fixture, "settings", "Ready", "RolloutPaused").await?;
    let settings = path_of(&config_map("settings", "1"))?;
    assert_eq!(fixture.members[1].find(&settings).await?, None);
    let resumed = rollout(&fixture, &["resume", "settings"]).await?;
    assert_contains(&resumed.out, "wave 2 of 2 begins");
    until_rollout(&fixture, "settings", "Complete", "2/2").await?;
    let again = rollout(&fixture, &["resume", "settings"]).await?;
    assert_contains(&again.err, "it is not paused, and has not failed");

    // A rollout that is paused does not begin at all.
    let paused = rollout(&fixture, &["pause", "settings"]).await?;
    assert_contains(&paused.out, "distribution/settings paused");
    let again = rollout(&fixture, &["pause", "settings"]).await?;
    assert_contains(&again.err, "it is paused already");
    set["spec"]["source"] = inline(&[config_map("settings", "2")]);
    set["spec"]["rollout"]["paused"] = true.into();
    fixture.apply(&set).await?;
    until_rollout(&fixture, "settings", "Paused", "0/2").await?;
    let found = fixture.members[0].get(&settings).await?;
    assert_eq!(found["data"]["value"], "1");
    let unknown = rollout(&fixture, &["status", "nothing"]).await?;
    assert_eq!(unknown.code, 2);
    assert_contains(&unknown.err, "there is no Distribution nothing");

    // What the rules of the definition refuse.
    for (wave, expected) in [
        (json!({"deadline": "0s"}), "deadline must be longer than 0s"),
        (
            json!({"percent": 1, "clusterAffinity": {}}),
            "use clusterAffinity or percent, not both",
        ),
    ] {
        let refused = in_waves("refused", &source, &json!([wave]));
        let refused = fixture.apply(&refused).await;
        assert_contains(&format!("{:#}", refused.unwrap_err()), expected);
    }
    Ok(())
}

#[tokio::test]
async fn random_values_of_a_chart_outlive_the_process() -> Tested {
    let fixture = start_with(1).await?;
    let files = [
        ("web/Chart.yaml", CHART),
        ("web/templates/secret.yaml", SECRET),
    ];
    fixture.apply(&archive("chart", &files)).await?;
    let source = json!({"helm": {"configMapRef": {"name": "chart", "key": "archive.tgz"}}});
    let one = clusters(&["member1"]);
    fixture.apply(&distribution("web", &source, &one)).await?;
    let secret = "api/v1/namespaces/default/secrets/password";
    let password = |found: &Value| found["data"]["password"].clone();
    let found = fixture
        .until_member(1, secret, "it is there", |_| true)
        .await?;
    let before = password(&found);
    until_rollout(&fixture, "web", "Complete", "1/1").await?;
    let kept = "api/v1/namespaces/default/secrets";
    let kept = fixture.hub.get(kept).await?;
    let kept = kept["items"].as_array().unwrap().iter();
    let kept: Vec<&Value> = kept
        .filter(|one| one["type"] == "distribute.fleetdex.io/rendering")
        .collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["immutable"], true);
    fixture.operator.restart_until_ready(DEADLINE).await?;
    // It is repaired by what it was, so that it is known again.
    let other = json!({"data": {"password": "eA=="}});
    fixture.members[0].merge(secret, &other).await?;
    fixture
        .until_member(1, secret, "it is what it was", |found| {
            password(found) == before
        })
        .await?;
    until("it is ready", || async {
        let found = fixture.hub.get(&format!("{DISTRIBUTIONS}/web")).await?;
        ensure!(condition(&found, "Ready")["status"] == "True", "{found}");
        Ok(())
    })
    .await?;
    Ok(())
}
