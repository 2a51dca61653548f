//! Hooks of charts: before and after a set is installed, upgraded, undone and deleted in members.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context as _, Result, ensure};
use e2e::{
    scenario::{DEADLINE, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

use crate::{
    fixture::{Distributing, clusters, config_map, path_of},
    sets::{CHART, DISTRIBUTIONS, archive, distribution, grant, start_with, until_reason},
};

const SETTINGS: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {value: {{ .Values.value | quote }}}
";

/// A template with Jobs that are hooks: names, steps, and further annotations.
fn jobs(hooks: &[(&str, &str, &str)]) -> String {
    let documents = hooks.iter().map(|(name, steps, more)| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n    \
             helm.sh/hook: {steps}\n{more}spec:\n  template:\n    spec:\n      restartPolicy: Never\n\
             \x20     containers: [{{name: a, image: busybox, env: [{{name: VALUE, value: {{{{ \
             .Values.value | quote }}}}}}]}}]\n"
        )
    });
    documents.collect::<Vec<_>>().join("---\n")
}

fn job_path(name: &str) -> String {
    format!("apis/batch/v1/namespaces/default/jobs/{name}")
}

/// A control plane with so many members, with the chart of these hooks.
async fn start(members: usize, hooks: &[(&str, &str, &str)]) -> Result<Distributing> {
    let fixture = start_with(members).await?;
    let rule = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
    ]);
    grant(&fixture, "deployer", &rule).await?;
    let hooks = jobs(hooks);
    let files = [
        ("web/Chart.yaml", CHART),
        ("web/templates/settings.yaml", SETTINGS),
        ("web/templates/hooks.yaml", &hooks),
    ];
    fixture.apply(&archive("chart", &files)).await?;
    Ok(fixture)
}

fn web(value: &str, members: &[&str]) -> Value {
    let source = json!({"helm": {
        "configMapRef": {"name": "chart", "key": "archive.tgz"}, "values": {"value": value},
    }});
    distribution("web", &source, &clusters(members))
}

/// Waits until a Job is there, other than one with this UID, and returns its UID.
async fn until_job(
    fixture: &Distributing,
    member: usize,
    name: &str,
    other: &str,
) -> Result<String> {
    let found = fixture
        .until_member(member, &job_path(name), "it is there", |found| {
            found["metadata"]["uid"] != other
        })
        .await?;
    Ok(found["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// What the Job controller of a member does when a Job has ended.
async fn end(fixture: &Distributing, member: usize, name: &str, succeeds: bool) -> Result<()> {
    let time = "2026-12-01T00:00:00Z";
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Test", "message": "by a test",
            "lastProbeTime": time, "lastTransitionTime": time})
    };
    let kinds = if succeeds {
        ["SuccessCriteriaMet", "Complete"]
    } else {
        ["FailureTarget", "Failed"]
    };
    let mut status = json!({
        "startTime": time, "active": 0, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}, "conditions": kinds.map(condition),
    });
    if succeeds {
        status["completionTime"] = time.into();
        status["succeeded"] = 1.into();
    }
    let path = format!("{}/status", job_path(name));
    let objects = &fixture.members[member - 1];
    objects.merge(&path, &json!({"status": status})).await?;
    Ok(())
}

async fn is_absent(fixture: &Distributing, member: usize, path: &str) -> Result<()> {
    let found = fixture.members[member - 1].find(path).await?;
    ensure!(found.is_none(), "{path} is there: {found:?}");
    Ok(())
}

async fn until_settings(fixture: &Distributing, member: usize, value: &str) -> Result<()> {
    let path = path_of(&config_map("settings", value))?;
    fixture
        .until_member(member, &path, value, |found| {
            found["data"]["value"] == value
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn hooks_run_in_their_order_and_a_restart_neither_repeats_nor_skips_one() -> Tested {
    let weight = |weight: i32| format!("    helm.sh/hook-weight: \"{weight}\"\n");
    let (early, late) = (weight(-5), weight(5));
    let succeeded = "    helm.sh/hook-delete-policy: hook-succeeded\n";
    let hooks = [
        ("second", "pre-install", &*late),
        ("first", "pre-install", &*early),
        ("after", "post-install", succeeded),
        ("check", "test", ""),
    ];
    let fixture = start(2, &hooks).await?;
    let mut set = web("1", &["member1", "member2"]);
    set["spec"]["rollout"] = json!({"waves": [{"clusterAffinity": {"clusterNames": ["member1"]}}]});
    fixture.apply(&set).await?;
    let settings = path_of(&config_map("settings", "1"))?;

    let first = until_job(&fixture, 1, "first", "").await?;
    is_absent(&fixture, 1, &job_path("second")).await?;
    // It is killed while a hook runs, and while the next one is to be made.
    fixture.operator.restart_until_ready(DEADLINE).await?;
    end(&fixture, 1, "first", true).await?;
    let second = until_job(&fixture, 1, "second", "").await?;
    end(&fixture, 1, "second", true).await?;
    fixture.operator.restart_until_ready(DEADLINE).await?;
    until_settings(&fixture, 1, "1").await?;
    until_job(&fixture, 1, "after", "").await?;
    let uid = |found: &Value| found["metadata"]["uid"].as_str().map(str::to_owned);
    let objects = &fixture.members[0];
    for (name, before) in [("first", first), ("second", second)] {
        let found = objects.get(&job_path(name)).await?;
        assert_eq!(uid(&found), Some(before), "{name} ran once");
    }
    // The next wave waits for the hooks that come last, too.
    until_reason(&fixture, "web", "Ready", "HooksRunning").await?;
    is_absent(&fixture, 2, &job_path("first")).await?;
    is_absent(&fixture, 2, &settings).await?;
    end(&fixture, 1, "after", true).await?;
    fixture.until_gone(1, &job_path("after")).await?;

    for name in ["first", "second"] {
        until_job(&fixture, 2, name, "").await?;
        is_absent(&fixture, 2, &settings).await?;
        end(&fixture, 2, name, true).await?;
    }
    until_settings(&fixture, 2, "1").await?;
    until_job(&fixture, 2, "after", "").await?;
    end(&fixture, 2, "after", true).await?;
    until_reason(&fixture, "web", "Ready", "Ready").await?;
    is_absent(&fixture, 1, &job_path("check")).await?;
    let found = fixture.hub.get(&format!("{DISTRIBUTIONS}/web")).await?;
    let hooks = &found["status"]["hooks"];
    assert_eq!(hooks["installed"], json!(["member1", "member2"]));
    assert_eq!(hooks["clusters"], json!([]));
    Ok(())
}

#[tokio::test]
async fn a_failed_upgrade_holds_the_objects_an_undo_and_a_deletion_run_their_hooks() -> Tested {
    let hooks = [
        ("migrate", "pre-upgrade", ""),
        ("restore", "pre-rollback", ""),
        ("goodbye", "pre-delete", ""),
        ("farewell", "post-delete", ""),
    ];
    let fixture = start(1, &hooks).await?;
    fixture.apply(&web("1", &["member1"])).await?;
    until_settings(&fixture, 1, "1").await?;
    until_reason(&fixture, "web", "Ready", "Ready").await?;

    fixture.apply(&web("2", &["member1"])).await?;
    let failed = until_job(&fixture, 1, "migrate", "").await?;
    end(&fixture, 1, "migrate", false).await?;
    let message = until_reason(&fixture, "web", "Ready", "HookFailed").await?;
    assert_contains(
        &message,
        "member1: Job default/migrate (pre-upgrade): Test: by a test",
    );
    until_settings(&fixture, 1, "1").await?;
    let kubectl = fixture.fleet.control_plane().kubectl()?;
    until("an Event says it", || async {
        let events = kubectl.run(&["get", "events"]).await?;
        ensure!(events.contains("HookFailed"), "{events}");
        Ok(())
    })
    .await?;

    // Another revision is tried anew.
    fixture.apply(&web("3", &["member1"])).await?;
    until_job(&fixture, 1, "migrate", &failed).await?;
    let settings = path_of(&config_map("settings", "1"))?;
    let found = fixture.members[0].get(&settings).await?;
    assert_eq!(found["data"]["value"], "1");
    end(&fixture, 1, "migrate", true).await?;
    until_settings(&fixture, 1, "3").await?;
    until_reason(&fixture, "web", "Ready", "Ready").await?;

    let kubeconfig = fixture.fleet.control_plane().kubeconfig();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let undo = ["rollout", "undo", "web", "--namespace=default", &kubeconfig];
    let undone = fixture.operator.run_command(&undo).await?;
    assert_eq!(undone.code, 0, "{}", undone.err);
    until_job(&fixture, 1, "restore", "").await?;
    until_settings(&fixture, 1, "3").await?;
    end(&fixture, 1, "restore", true).await?;
    until_settings(&fixture, 1, "1").await?;

    let set = format!("{DISTRIBUTIONS}/web");
    fixture.hub.delete(&set).await?;
    until_job(&fixture, 1, "goodbye", "").await?;
    // Another process knows what to run.
    fixture.operator.restart_until_ready(DEADLINE).await?;
    until_settings(&fixture, 1, "1").await?;
    end(&fixture, 1, "goodbye", true).await?;
    fixture
        .until_gone(1, &path_of(&config_map("settings", "1"))?)
        .await?;
    until_job(&fixture, 1, "farewell", "").await?;
    fixture.hub.get(&set).await?;
    end(&fixture, 1, "farewell", true).await?;
    until("the Distribution is gone", || async {
        let found = fixture.hub.find(&set).await?;
        ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await
    .with_context(|| fixture.log())?;
    // As with helm, what hooks have made stays.
    fixture.members[0].get(&job_path("farewell")).await?;
    Ok(())
}

#[tokio::test]
async fn a_hook_touches_nothing_of_others_and_waits_for_its_namespace() -> Tested {
    let hooks = [
        ("taken", "pre-install", ""),
        (
            "elsewhere",
            "pre-install",
            "    helm.sh/hook-weight: \"1\"\n  namespace: jobs\n",
        ),
    ];
    let fixture = start(1, &hooks).await?;
    let jobs = json!([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]);
    let api_version = "rbac.authorization.k8s.io/v1";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs"}});
    fixture.apply(&namespace).await?;
    fixture
        .apply(&json!({
            "apiVersion": api_version, "kind": "Role",
            "metadata": {"name": "deployer", "namespace": "jobs"}, "rules": jobs,
        }))
        .await?;
    fixture
        .apply(&json!({
            "apiVersion": api_version, "kind": "RoleBinding",
            "metadata": {"name": "deployer", "namespace": "jobs"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "deployer", "namespace": "default"},
            ],
        }))
        .await?;
    let own = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "taken", "namespace": "default"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "own"}],
        }}},
    });
    let member = &fixture.members[0];
    member.apply(&job_path("taken"), &own).await?;
    fixture.apply(&web("1", &["member1"])).await?;
    let message = until_reason(&fixture, "web", "Ready", "HookFailed").await?;
    assert_contains(&message, "the cluster has this object already");
    let found = member.get(&job_path("taken")).await?;
    let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "own");

    // Who has moved it asks for another run.
    member.delete(&job_path("taken")).await?;
    // Without controllers of its own the member does not orphan what the Job has made.
    let orphaned = json!({"metadata": {"finalizers": null}});
    member.merge(&job_path("taken"), &orphaned).await?;
    fixture.until_gone(1, &job_path("taken")).await?;
    let retry = json!({"metadata": {"annotations": {"distribute.fleetdex.io/retry-hooks": "1"}}});
    let set = format!("{DISTRIBUTIONS}/web");
    fixture.hub.merge(&set, &retry).await?;
    until_job(&fixture, 1, "taken", "").await?;
    end(&fixture, 1, "taken", true).await?;
    let elsewhere = "apis/batch/v1/namespaces/jobs/jobs/elsewhere";
    let found = fixture
        .until_member(1, elsewhere, "it is there", |_| true)
        .await?;
    let label = &found["metadata"]["labels"]["distribute.fleetdex.io/control-plane"];
    assert!(label.is_string(), "{found}");
    is_absent(&fixture, 1, &path_of(&config_map("settings", "1"))?).await?;
    Ok(())
}
