use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::{distribution::HookStatus, policy::PropagationSpec};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::TargetCluster,
    marks::CopyOrigin,
    rollout::{RolloutPhase, RolloutState},
    sets::{ObjectSet, SetName},
    template_name::NamedTemplate,
};

mod laws;

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"ttlSecondsAfterFinished": 1, "template": {}},
    })
}

/// A hook of these steps, that is deleted when these words say it.
fn hook(name: &str, steps: &str, deletion: &str) -> SetHook {
    SetHook {
        template: NamedTemplate::from(job(name)),
        steps: steps
            .split(' ')
            .map(|step| HookStep::parse(step).unwrap())
            .collect(),
        deletion: HookDeletion {
            before_creation: deletion.contains("before"),
            when_succeeded: deletion.contains("succeeded"),
            when_failed: deletion.contains("failed"),
        },
    }
}

fn set() -> ObjectSet {
    let name = SetName {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
    };
    ObjectSet::new(name, &PropagationSpec::default(), true)
}

/// A set in clusters that do what they are told.
struct Scene {
    hooks: Vec<SetHook>,
    clusters: BTreeSet<String>,
    due: BTreeSet<String>,
    written: BTreeSet<String>,
    reports: BTreeMap<String, HookReport>,
    retried: String,
    now: i64,
    state: HookState,
}

impl Scene {
    fn new(hooks: Vec<SetHook>, clusters: &[&str]) -> Self {
        Self {
            hooks,
            clusters: names(clusters),
            due: names(clusters),
            written: names(clusters),
            reports: BTreeMap::new(),
            retried: String::new(),
            now: 0,
            state: HookState {
                revision: "r1".to_owned(),
                ..HookState::default()
            },
        }
    }

    /// The clusters get another revision.
    fn another_revision(&mut self, revision: &str, is_rollback: bool) {
        self.state = HookState {
            revision: revision.to_owned(),
            is_rollback,
            installed: self.state.installed.clone(),
            ..HookState::default()
        };
    }

    fn look(&mut self) {
        self.now += 1;
        let next = self.state.next(&HookInputs {
            hooks: Some(&self.hooks),
            clusters: &self.clusters,
            due: Some(&self.due),
            written: &self.written,
            reports: &self.reports,
            deadline: SignedDuration::from_mins(1),
            retried: &self.retried,
            now: Timestamp::from_second(self.now).unwrap(),
        });
        self.state = stored(&next);
    }

    fn tasks(&self) -> Vec<HookTask> {
        let clusters = self.clusters.iter().map(|name| TargetCluster {
            name: name.clone(),
            ..TargetCluster::default()
        });
        let clusters: Vec<TargetCluster> = clusters.collect();
        self.state.tasks(&set(), &self.hooks, &clusters)
    }

    /// Does what is to be done, and says what that was. What `fails` names does.
    fn run(&mut self, fails: &str) -> Vec<String> {
        let mut done = Vec::new();
        for task in self.tasks() {
            let shown = shown(&task);
            let outcome = if !fails.is_empty() && shown.contains(fails) {
                HookOutcome::failed("exit code 1")
            } else {
                HookOutcome::Succeeded
            };
            let report = HookReport {
                key: task.key.clone(),
                outcome,
            };
            self.reports.insert(task.cluster.clone(), report);
            done.push(shown);
        }
        done
    }

    /// Everything that is done until nothing is left to do.
    fn run_all(&mut self, fails: &str) -> Vec<String> {
        let mut done = Vec::new();
        for _ in 0..20 {
            self.look();
            done.extend(self.run(fails));
        }
        done
    }
}

/// What another process reads.
fn stored(state: &HookState) -> HookState {
    let status = serde_json::to_value(state.status()).unwrap();
    let status: HookStatus = serde_json::from_value(status).unwrap();
    let read = HookState {
        waits: state.waits,
        ..HookState::read(&status).unwrap()
    };
    assert_eq!(read, *state);
    read
}

/// Such as `m1 pre-install a` or `m1 deletes a`.
fn shown(task: &HookTask) -> String {
    let cluster = &task.cluster;
    match &task.action {
        HookAction::Run(hook) => {
            let (step, _) = hook.run.rsplit_once('-').unwrap();
            format!("{cluster} {step} {}", hook.name.name)
        }
        HookAction::Delete(hooks) => {
            let names: Vec<&str> = hooks.iter().map(|(name, _)| &*name.name).collect();
            format!("{cluster} deletes {}", names.join(" "))
        }
    }
}

#[test]
fn a_cluster_gets_objects_between_the_hooks_before_and_those_after() {
    let hooks = vec![
        hook("a", "pre-install", "before"),
        hook("b", "pre-install pre-upgrade", "before"),
        hook("c", "post-install", "before"),
        hook("d", "post-upgrade pre-rollback", "before"),
    ];
    let mut scene = Scene::new(hooks, &["m1"]);
    scene.written.clear();
    let done = scene.run_all("");
    assert_eq!(done, ["m1 pre-install a", "m1 pre-install b"]);
    assert_eq!(scene.state.prepared, names(&["m1"]));
    let waits = scene.state.hindrance("m1").unwrap();
    assert_eq!(waits, "post-install hooks wait for the objects");
    let (_, summary) = scene.state.summary().unwrap();
    assert_eq!(summary, "m1: post-install hooks wait for the objects");
    scene.written = names(&["m1"]);
    assert_eq!(scene.run_all(""), ["m1 post-install c"]);
    assert_eq!(scene.state.hindrance("m1"), None);
    assert_eq!(scene.state.summary(), None);
    // Nothing runs again.
    assert_eq!(scene.run_all(""), [""; 0]);

    for (revision, is_rollback, expected) in [
        ("r2", false, &["m1 pre-upgrade b", "m1 post-upgrade d"][..]),
        ("r1", true, &["m1 pre-rollback d"]),
    ] {
        scene.another_revision(revision, is_rollback);
        assert!(!scene.state.is_everywhere());
        assert_eq!(scene.run_all(""), expected);
        assert!(scene.state.is_everywhere());
    }
}

#[test]
fn objects_are_not_known_to_be_written_before_the_cluster_was_to_have_them() {
    let mut scene = Scene::new(vec![hook("c", "post-install", "")], &["m1"]);
    scene.look();
    assert_eq!(scene.state.prepared, names(&["m1"]));
    assert!(scene.tasks().is_empty(), "reports are of the plan before");
    scene.look();
    assert_eq!(scene.run(""), ["m1 post-install c"]);
}

#[test]
fn what_fails_holds_its_cluster_only_until_a_user_asks_for_another_run() {
    let hooks = vec![
        hook("a", "pre-install", "before"),
        hook("b", "pre-install", "before"),
    ];
    let mut scene = Scene::new(hooks, &["m1", "m2"]);
    scene.run_all("m1 pre-install b");
    assert_eq!(scene.state.prepared, names(&["m2"]));
    let hindrance = scene.state.hindrance("m1").unwrap();
    assert_eq!(hindrance, "Job shop/b (pre-install): exit code 1");
    let (has_failed, summary) = scene.state.summary().unwrap();
    assert!(has_failed);
    assert_eq!(summary, "m1: Job shop/b (pre-install): exit code 1");
    assert_eq!(scene.run_all(""), [""; 0]);
    scene.retried = "again".to_owned();
    // The whole step is run again, as helm would.
    let done = scene.run_all("");
    assert_eq!(done, ["m1 pre-install a", "m1 pre-install b"]);
    assert_eq!(scene.state.prepared, names(&["m1", "m2"]));
    assert_eq!(scene.run_all(""), [""; 0]);
}

#[test]
fn a_hook_that_does_not_end_fails_by_its_deadline() {
    let hooks = vec![hook("a", "pre-install", "before")];
    let mut scene = Scene::new(hooks, &["m1"]);
    scene.look();
    let task = scene.tasks().remove(0);
    let report = HookReport {
        key: task.key,
        outcome: HookOutcome::waits("the Job has not ended"),
    };
    scene.reports.insert("m1".to_owned(), report);
    scene.now += 58;
    scene.look();
    let shown = |scene: &Scene| scene.state.hindrance("m1").unwrap();
    assert_eq!(
        shown(&scene),
        "Job shop/a (pre-install): the Job has not ended"
    );
    let before = scene.state.clone();
    scene.look();
    assert_eq!(
        shown(&scene),
        "Job shop/a (pre-install): it has not ended within 1m: the Job has not ended"
    );
    assert_eq!(scene.state.failed_since(Some(&before)).len(), 1);
    assert_eq!(scene.state.failed_since(Some(&scene.state)).len(), 0);
}

#[test]
fn objects_of_hooks_go_as_their_policies_say() {
    let hooks = || {
        vec![
            hook("a", "pre-install", "before succeeded"),
            hook("b", "pre-install", "failed"),
            hook("c", "pre-install", "succeeded failed"),
        ]
    };
    for (fails, expected) in [
        ("", "m1 deletes a c"),
        ("pre-install a", ""),
        ("pre-install b", "m1 deletes a b"),
        ("pre-install c", "m1 deletes a c"),
    ] {
        let mut scene = Scene::new(hooks(), &["m1"]);
        let done = scene.run_all(fails);
        let deleted = done.iter().filter(|one| one.contains("deletes"));
        let deleted: Vec<&String> = deleted.collect();
        let expected: Vec<&str> = [expected]
            .into_iter()
            .filter(|one| !one.is_empty())
            .collect();
        assert_eq!(deleted, expected, "{fails}");
        assert_eq!(scene.state.prepared.is_empty(), !fails.is_empty());
    }
}

#[test]
fn what_data_or_other_objects_would_go_with_is_never_deleted() {
    let mut volume = hook("data", "pre-install", "before succeeded failed");
    volume.template = NamedTemplate::from(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
    }));
    let mut scene = Scene::new(vec![volume], &["m1"]);
    scene.look();
    let HookAction::Run(made) = scene.tasks().remove(0).action else {
        panic!("it runs");
    };
    assert!(made.is_never_deleted);
    assert_eq!(scene.run_all("").len(), 1, "and is not deleted");
}

#[test]
fn hooks_run_in_so_many_clusters_at_once() {
    let clusters: Vec<String> = (0..300).map(|number| format!("m{number:03}")).collect();
    let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let hooks = vec![hook("a", "pre-install", "before")];
    let mut scene = Scene::new(hooks, &clusters);
    scene.look();
    assert_eq!(scene.tasks().len(), MOST_UNDER_WAY);
    let hindrance = scene.state.hindrance("m250").unwrap();
    assert_eq!(hindrance, "its hooks wait for those of other clusters");
    scene.run_all("");
    assert_eq!(scene.state.prepared.len(), 300);
}

#[test]
fn clusters_that_are_not_due_wait_and_those_that_leave_are_forgotten() {
    let hooks = vec![hook("a", "pre-install", "before")];
    let mut scene = Scene::new(hooks, &["m1", "m2"]);
    scene.due = names(&["m1"]);
    assert_eq!(scene.run_all(""), ["m1 pre-install a"]);
    scene.clusters = names(&["m2"]);
    scene.look();
    assert_eq!(scene.state.installed, names(&[]));
    scene.clusters = names(&["m1", "m2"]);
    // It has the set anew.
    assert_eq!(scene.run_all(""), ["m1 pre-install a"]);
}

#[test]
fn hooks_that_are_not_known_hold_everything() {
    let mut scene = Scene::new(vec![hook("a", "pre-install", "")], &["m1"]);
    let next = scene.state.next(&HookInputs {
        hooks: None,
        clusters: &scene.clusters,
        due: Some(&scene.due),
        written: &scene.written,
        reports: &scene.reports,
        deadline: LONGEST_HOOK,
        retried: "",
        now: Timestamp::UNIX_EPOCH,
    });
    assert_eq!(next, scene.state);
    // Without hooks a cluster has the revision at once.
    scene.hooks.clear();
    scene.look();
    assert_eq!(scene.state.prepared, names(&["m1"]));
    let is_needless = |clusters: &[&str]| {
        let state = &scene.state;
        state.is_needless(Some(&[]), &names(clusters))
    };
    assert!(is_needless(&["m1"]) && !is_needless(&["m1", "m2"]));
}

fn rollout(phase: RolloutPhase, revision: &str, stable: Option<&str>) -> RolloutState {
    RolloutState {
        phase,
        stable: stable.map(str::to_owned),
        wave: 1,
        waves: 2,
        reached: names(&["m1"]),
        ..RolloutState::new(revision, Timestamp::UNIX_EPOCH)
    }
}

#[test]
fn what_clusters_have_follows_from_the_rollout_before() {
    use RolloutPhase::{Complete, Progressing, Undone};
    let clusters = names(&["m1", "m2", "m3"]);
    let placed = names(&["m1", "m2"]);
    let first = rollout(Progressing, "r1", None);
    let complete = rollout(Complete, "r1", Some("r1"));
    let second = rollout(Progressing, "r2", Some("r1"));
    let undone = rollout(Undone, "r2", Some("r1"));
    let hooks = [hook("a", "pre-upgrade", "")];
    let known = HookState {
        revision: "r2".to_owned(),
        installed: names(&["m1", "m2"]),
        prepared: names(&["m2"]),
        ..HookState::default()
    };
    for (before, now, state, expected) in [
        (None, &first, None, "r1 [] []"),
        // A chart that has got hooks.
        (Some(&first), &second, None, "r2 [m1] []"),
        (Some(&complete), &second, None, "r2 [m1 m2] []"),
        // The state is lost, and nothing runs again.
        (Some(&complete), &complete, None, "r1 [m1 m2] [m1 m2]"),
        // Clusters that did not have the revision have the one before.
        (Some(&second), &undone, None, "r1 [m1 m2] [m2]"),
        (Some(&second), &undone, Some(&known), "r1 [m1 m2] [m1]"),
        (Some(&second), &second, Some(&known), "r2 [m1 m2] [m2]"),
    ] {
        let change = HookRollout {
            before,
            now,
            clusters: &clusters,
            placed: &placed,
        };
        let found = change.hooks(state, Some(&hooks), "").unwrap();
        let listed = |all: &BTreeSet<String>| {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            all.join(" ")
        };
        let shown = format!(
            "{} [{}] [{}]",
            found.revision,
            listed(&found.installed),
            listed(&found.prepared)
        );
        assert_eq!(shown, expected, "{before:?}");
        assert_eq!(found.is_rollback, now.phase == Undone);
        assert_eq!(
            found.summary().is_some(),
            state.is_none() || now.phase == Undone
        );
        let has_none = before.is_none() || state.is_none();
        assert_eq!(change.hooks(state, Some(&[]), "").is_none(), has_none);
        assert!(change.hooks(state, None, "").is_some());
    }
}

#[test]
fn a_deleted_set_runs_its_hooks_before_and_after_its_objects_are_deleted() {
    let mut scene = Scene::new(
        vec![
            hook("a", "pre-delete post-delete", "before"),
            hook("b", "pre-delete", "before succeeded"),
        ],
        &["m1", "m2", "m3"],
    );
    scene.state.installed = names(&["m1", "m2", "gone"]);
    let mut has_objects = true;
    let mut done = Vec::new();
    let mut phases: Vec<&str> = Vec::new();
    for number in 0..30 {
        if number == 15 {
            has_objects = false;
        }
        let next = scene.state.next_ending(&EndingInputs {
            hooks: &scene.hooks,
            clusters: &scene.clusters,
            has_objects,
            reports: &scene.reports,
            now: Timestamp::from_second(number).unwrap(),
        });
        scene.state = stored(&next);
        done.extend(scene.run("m2 pre-delete a"));
        let phase = scene.state.ending.unwrap().as_str();
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    assert_eq!(phases, ["PreDelete", "Deleting", "PostDelete", "Ended"]);
    // What fails is not waited for.
    assert_eq!(
        done,
        [
            "m1 pre-delete a",
            "m2 pre-delete a",
            "m1 pre-delete b",
            "m1 deletes b",
            "m1 post-delete a",
            "m2 post-delete a",
        ]
    );
    assert!(scene.state.is_ended());
}

#[test]
fn a_set_without_delete_hooks_is_deleted_at_once() {
    let scene = Scene::new(vec![hook("a", "pre-install", "")], &["m1"]);
    let ending = |has_objects: bool| {
        let next = scene.state.next_ending(&EndingInputs {
            hooks: &scene.hooks,
            clusters: &scene.clusters,
            has_objects,
            reports: &scene.reports,
            now: Timestamp::UNIX_EPOCH,
        });
        (next.ending, next.keeps_objects())
    };
    assert_eq!(ending(true), (Some(EndingPhase::Deleting), false));
    assert_eq!(ending(false), (Some(EndingPhase::Ended), false));
    assert!(scene.state.keeps_objects());
}

#[test]
fn a_hook_has_ended_when_its_object_says_so() {
    let with = |kind: &str, status: &Value| {
        let (api_version, kind) = kind.rsplit_once(' ').unwrap();
        HookOutcome::of(&json!({"apiVersion": api_version, "kind": kind, "status": status}))
    };
    let condition = |kind: &str, status: &str| {
        json!({"conditions": [{"type": kind, "status": status, "reason": "BackoffLimitExceeded",
            "message": "no more tries"}]})
    };
    let failed = || HookOutcome::failed("BackoffLimitExceeded: no more tries");
    for (kind, status, expected) in [
        (
            "batch/v1 Job",
            json!({}),
            HookOutcome::waits("the Job has not ended"),
        ),
        (
            "batch/v1 Job",
            condition("Complete", "True"),
            HookOutcome::Succeeded,
        ),
        (
            "batch/v1 Job",
            condition("Complete", "False"),
            HookOutcome::waits("the Job has not ended"),
        ),
        ("batch/v1 Job", condition("Failed", "True"), failed()),
        (
            "v1 Pod",
            json!({"phase": "Running"}),
            HookOutcome::waits("the Pod has not ended"),
        ),
        (
            "v1 Pod",
            json!({"phase": "Succeeded"}),
            HookOutcome::Succeeded,
        ),
        (
            "v1 Pod",
            json!({"phase": "Failed"}),
            HookOutcome::failed("the Pod has failed"),
        ),
        (
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            json!({}),
            HookOutcome::waits("the definition is not established"),
        ),
        (
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            condition("Established", "True"),
            HookOutcome::Succeeded,
        ),
        ("v1 ConfigMap", json!({}), HookOutcome::Succeeded),
        // Kinds of others with the same names.
        ("example.com/v1 Job", json!({}), HookOutcome::Succeeded),
    ] {
        assert_eq!(with(kind, &status), expected, "{kind} {status}");
    }
    let HookOutcome::Failed(long) = HookOutcome::failed(&"é".repeat(1_000)) else {
        panic!("it has failed");
    };
    assert!(long.len() <= 256);
}

#[test]
fn the_object_of_a_hook_is_told_from_all_others() {
    let set = set();
    let origin = |control_plane: &str, cluster: &str| CopyOrigin {
        control_plane: control_plane.into(),
        cluster: cluster.into(),
    };
    let own = origin("c", "m1");
    let marked = HookMark::marked(job("a"), &set.name, &own, "run");
    let run = HookMark::Run("run".to_owned());
    assert_eq!(HookMark::of(&marked, &set.name, &own), run);
    assert!(!own.has_written(&marked), "it is no object of a set");
    let other_set = SetName {
        uid: "v".to_owned(),
        ..(*set.name).clone()
    };
    assert_eq!(HookMark::of(&marked, &other_set, &own), HookMark::Other);
    for other in [origin("d", "m1"), origin("c", "m2")] {
        assert_eq!(HookMark::of(&marked, &set.name, &other), HookMark::Other);
    }
    let mut copied = marked;
    copied["metadata"]["name"] = "b".into();
    assert_eq!(HookMark::of(&copied, &set.name, &own), HookMark::Other);
    assert_eq!(HookMark::of(&job("a"), &set.name, &own), HookMark::Other);
}

#[test]
fn the_object_of_a_hook_is_changed_by_the_overrides_of_its_set() {
    let mut scene = Scene::new(vec![hook("a", "pre-install", "before")], &["m1"]);
    scene.look();
    let mut web = set();
    web.overrides = serde_json::from_value(json!([{"overriders": {"plaintext": [
        {"path": "/spec/parallelism", "operator": "add", "value": 2}]}}]))
    .unwrap();
    let clusters = [TargetCluster {
        name: "m1".to_owned(),
        ..TargetCluster::default()
    }];
    let made = |web: &ObjectSet| {
        let mut tasks = scene.state.tasks(web, &scene.hooks, &clusters);
        match tasks.remove(0).action {
            HookAction::Run(made) => made.object,
            HookAction::Delete(_) => panic!("it runs"),
        }
    };
    let object = made(&web).unwrap();
    assert_eq!(object["spec"], json!({"template": {}, "parallelism": 2}));
    web.overrides = serde_json::from_value(json!([{"overriders": {"plaintext": [
        {"path": "/metadata/name", "operator": "replace", "value": "other"}]}}]))
    .unwrap();
    assert_eq!(
        made(&web),
        Err("an override gives it another name".to_owned())
    );
    let namespaces = scene.state.namespaces(&scene.hooks);
    assert_eq!(namespaces["m1"], names(&["shop"]));
}
