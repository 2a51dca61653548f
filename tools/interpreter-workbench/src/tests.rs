use std::{fmt::Write as _, fs, sync::Mutex};

use async_trait::async_trait;
use clap::Parser;
use fleetdex_interpreter::{
    Request, Response,
    webhook::{configuration::Webhook, decode, encode},
};
use fleetdex_webhooks::client::{CallError, CallFailure};
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: InterpretArgs,
}

/// Answers with this text, and keeps the message, whose UID is `UID`.
struct FakeCaller {
    answer: Result<String, ()>,
    message: Arc<Mutex<Value>>,
}

#[async_trait]
impl CallWebhook for FakeCaller {
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        let body = encode(webhook.dialect, "UID", request).unwrap();
        *self.message.lock().unwrap() = serde_json::from_slice(&body).unwrap();
        let response = match &self.answer {
            Ok(answer) => decode(webhook.dialect, "UID", request, answer.as_bytes())
                .map_err(CallFailure::from),
            Err(()) => Err(CallFailure::Connection("connection refused".to_owned())),
        };
        response.map_err(|failure| CallError::new(&webhook.id, failure))
    }
}

const CUSTOMIZATION: &str = r#"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata:
  name: customization
spec:
  target:
    apiVersion: apps/v1
    kind: Deployment
  customizations:
    retention:
      luaScript: |
        function Retain(desiredObj, observedObj)
          desiredObj.metadata.annotations = observedObj.metadata.annotations
          return desiredObj
        end
    replicaResource:
      luaScript: |
        function GetReplicas(obj)
          local requirement = {resourceRequest = obj.spec.template.spec.containers[1].resources.limits}
          return obj.spec.replicas, requirement
        end
    componentResource:
      luaScript: |
        function GetComponents(obj)
          return {{name = "main", replicas = obj.spec.replicas}}
        end
    replicaRevision:
      luaScript: |
        function ReviseReplica(obj, desiredReplica)
          obj.spec.replicas = desiredReplica
          return obj
        end
    statusReflection:
      luaScript: |
        function ReflectStatus(observedObj)
          return {readyReplicas = observedObj.status.readyReplicas}
        end
    statusAggregation:
      luaScript: |
        function AggregateStatus(desiredObj, items)
          local ready = 0
          for i = 1, #items do
            ready = ready + items[i].status.readyReplicas
          end
          desiredObj.status = {readyReplicas = ready}
          return desiredObj
        end
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          return observedObj.status.readyReplicas == observedObj.spec.replicas
        end
    dependencyInterpretation:
      luaScript: |
        function GetDependencies(desiredObj)
          return {{apiVersion = "v1", kind = "ServiceAccount", namespace = "web", name = "nginx"}}
        end
"#;

const DESIRED: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
spec:
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec:
      containers:
      - name: nginx
        image: nginx:alpine
        resources: {limits: {cpu: 100m}}
";

const OBSERVED: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  annotations: {cluster: m1}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: nginx
        image: nginx:alpine
        resources: {limits: {cpu: 100m}}
status:
  readyReplicas: 3
";

const STATUS: &str = "
clusterName: m1
status: {readyReplicas: 2}
applied: true
---
clusterName: m2
status: {readyReplicas: 3}
applied: true
";

const WEBHOOKS: &str = "
apiVersion: config.karmada.io/v1alpha1
kind: ResourceExploringWebhookConfiguration
metadata: {name: proposed}
webhooks:
- name: a.example.io
  clientConfig: {service: {namespace: web, name: workloads}}
  rules:
  - {operations: ['ExploreReplica'], apiGroups: [apps], apiVersions: ['*'], resources: [deployments], scope: '*'}
  exploreReviewVersions: [v1alpha1]
  failurePolicy: Ignore
---
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {name: released}
webhooks:
- name: b.example.io
  clientConfig: {service: {namespace: web, name: workloads}}
  rules:
  - {operations: ['*'], apiGroups: [apps], apiVersions: [v1], kinds: [Deployment]}
  interpreterContextVersions: [v1alpha1]
";

/// A folder with files, and runs of the command in it.
struct Workbench {
    folder: tempfile::TempDir,
    message: Arc<Mutex<Value>>,
}

impl Workbench {
    fn new() -> Self {
        let workbench = Self {
            folder: tempfile::tempdir().unwrap(),
            message: Arc::default(),
        };
        for (name, text) in [
            ("customization.yaml", CUSTOMIZATION),
            ("desired.yaml", DESIRED),
            ("observed.yaml", OBSERVED),
            ("status.yaml", STATUS),
            ("webhooks.yaml", WEBHOOKS),
        ] {
            workbench.write(name, text);
        }
        workbench
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Runs a command line in which `@` stands for the folder; returns whether it succeeded,
    /// standard output and standard error.
    async fn run(&self, line: &str) -> (bool, String, String) {
        self.run_with(line, "", Err(())).await
    }

    fn message(&self) -> Value {
        self.message.lock().unwrap().clone()
    }

    async fn run_with(
        &self,
        line: &str,
        standard_input: &str,
        answer: Result<&str, ()>,
    ) -> (bool, String, String) {
        let folder = format!("{}/", self.folder.path().display());
        let words = line
            .split_whitespace()
            .map(|word| word.replace('@', &folder));
        let command =
            Command::try_parse_from(std::iter::once("interpret".to_owned()).chain(words)).unwrap();
        let caller = FakeCaller {
            answer: answer.map(str::to_owned),
            message: Arc::clone(&self.message),
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            has_colours: false,
        };
        let result = interpret(
            &command.args,
            &mut standard_input.as_bytes(),
            |_| Arc::new(caller),
            &mut console,
        )
        .await;
        let is_complete = console.finish(result);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (is_complete, text(out), text(err).replace(&folder, "@"))
    }
}

/// The flags that each operation needs.
const OPERATIONS: [(&str, &str); 9] = [
    (
        "Retain",
        "--desired-file @desired.yaml --observed-file @observed.yaml",
    ),
    ("InterpretReplica", "--desired-file @desired.yaml"),
    ("InterpretComponent", "--desired-file @desired.yaml"),
    (
        "ReviseReplica",
        "--desired-file @desired.yaml --desired-replica 2",
    ),
    ("InterpretStatus", "--observed-file @observed.yaml"),
    (
        "AggregateStatus",
        "--desired-file @desired.yaml --status-file @status.yaml",
    ),
    ("InterpretHealth", "--observed-file @observed.yaml"),
    ("InterpretDependency", "--desired-file @desired.yaml"),
    ("Prune", "--observed-file @observed.yaml"),
];

#[tokio::test]
async fn every_rule_of_a_customization_runs_and_prints_what_karmadactl_prints() {
    let workbench = Workbench::new();
    let mut printed = String::new();
    for (operation, flags) in OPERATIONS {
        let line = format!("-f @customization.yaml --operation {operation} {flags}");
        let (is_complete, out, err) = workbench.run(&line).await;
        assert_eq!(is_complete, operation != "Prune", "{operation}: {err}");
        write!(printed, "===== {operation}\n{out}{err}").unwrap();
    }
    insta::assert_snapshot!(printed);
}

#[tokio::test]
async fn json_is_one_object_with_the_results_by_their_names() {
    let workbench = Workbench::new();
    let mut printed = String::new();
    for (operation, flags) in OPERATIONS {
        let line = format!("-f @customization.yaml --operation {operation} {flags} -o json");
        let (is_complete, out, err) = workbench.run(&line).await;
        if is_complete {
            let object: Value = serde_json::from_str(&out).unwrap();
            assert!(object.is_object());
            assert_eq!(err, "");
        } else {
            assert_eq!((operation, out.as_str()), ("Prune", ""));
        }
        write!(printed, "===== {operation}\n{out}{err}").unwrap();
    }
    insta::assert_snapshot!(printed);
}

#[tokio::test]
async fn operations_have_the_names_of_both_dialects_in_any_case() {
    let workbench = Workbench::new();
    for (operation, flags) in OPERATIONS {
        let parsed = Operation::from_name(operation).unwrap();
        let (_, expected, _) = workbench
            .run(&format!("--operation {operation} {flags}"))
            .await;
        for name in [Some(parsed.name()), parsed.proposal_name()]
            .into_iter()
            .flatten()
        {
            for spelling in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                let (_, out, _) = workbench
                    .run(&format!("--operation {spelling} {flags}"))
                    .await;
                assert_eq!(out, expected, "{spelling}");
            }
        }
    }
    let (is_complete, out, err) = workbench
        .run("--operation Explore --desired-file @desired.yaml")
        .await;
    assert!(!is_complete && out.is_empty());
    assert_eq!(
        err,
        "error: operation Explore is not supported. Use one of: Retain, InterpretReplica, InterpretComponent, ReviseReplica, \
         InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency, Prune, ExploreRetaining, ExploreReplica, \
         ExploreReplicaRevising, ExploreStatus, ExploreStatusAggregating, ExploreHealthy, ExploreDependencies, ExplorePacking\n"
    );
    for name in rules::names() {
        assert!(Operation::from_name(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn without_customizations_the_built_in_rules_answer() {
    let workbench = Workbench::new();
    let mut printed = String::new();
    for (operation, flags) in OPERATIONS {
        let (is_complete, out, err) = workbench
            .run(&format!("--operation {operation} {flags} -o json"))
            .await;
        assert_eq!(
            is_complete,
            operation != "InterpretComponent",
            "{operation}: {err}"
        );
        write!(printed, "===== {operation}\n{out}{err}").unwrap();
    }
    insta::assert_snapshot!(printed);
    workbench.write("foo.yaml", "{apiVersion: example.io/v1, kind: Foo}");
    let (is_complete, _, err) = workbench
        .run("--operation InterpretReplica --desired-file @foo.yaml")
        .await;
    assert!(!is_complete);
    assert_eq!(
        err,
        "Execute InterpretReplica error: no built-in rule for InterpretReplica of example.io/v1 Foo\n"
    );
    let (is_complete, out, _) = workbench
        .run("--operation InterpretHealth --observed-file @foo.yaml -o json")
        .await;
    assert!(is_complete, "every kind has a health: {out}");
}

#[tokio::test]
async fn files_have_several_documents_and_a_dash_is_standard_input() {
    let workbench = Workbench::new();
    let two = format!(
        "{CUSTOMIZATION}\n---\n{}",
        CUSTOMIZATION.replace("Deployment", "StatefulSet")
    );
    workbench.write("two.yaml", &two);
    for line in [
        "-f @two.yaml --operation InterpretReplica --observed-file -",
        "-f @customization.yaml -f @two.yaml --operation InterpretReplica --desired-file -",
        "-f @customization.yaml,@two.yaml --operation InterpretReplica --desired-file -",
    ] {
        let (is_complete, out, err) = workbench.run_with(line, OBSERVED, Err(())).await;
        assert!(is_complete, "{err}");
        assert!(
            out.starts_with("---\n# [1/2] replica:\n3\n---\n# [2/2] requires:\n"),
            "{out}"
        );
    }
    let line = "-f - --operation InterpretReplica --observed-file @observed.yaml";
    let (is_complete, _, err) = workbench.run_with(line, CUSTOMIZATION, Err(())).await;
    assert!(is_complete, "{err}");
}

#[tokio::test]
async fn of_several_customizations_an_error_names_the_one_that_failed_and_its_file() {
    let workbench = Workbench::new();
    let of = |name: &str, member: &str, script: &str| {
        json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": name},
            "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": {member: {"luaScript": script}}},
        })
        .to_string()
    };
    let health = "function InterpretHealth(o) error('no health') end";
    let dependencies = "function GetDependencies(o) error('no dependencies') end";
    for (file, text) in [
        ("a.yaml", of("first", "healthInterpretation", health)),
        ("b.yaml", of("second", "healthInterpretation", health)),
        (
            "c.yaml",
            of("third", "dependencyInterpretation", dependencies),
        ),
        ("d.yaml", of("", "replicaResource", "end end")),
    ] {
        workbench.write(file, &text);
    }
    let mut printed = String::new();
    for line in [
        "-f @a.yaml --operation InterpretHealth",
        "-f @a.yaml -f @c.yaml --operation InterpretHealth",
        "-f @b.yaml,@a.yaml --operation InterpretHealth",
        "-f @a.yaml -f @b.yaml -f @c.yaml --operation InterpretDependency",
        "-f @customization.yaml -f @c.yaml --operation InterpretDependency",
        "-f @a.yaml -f @d.yaml --operation InterpretReplica",
        "-f @a.yaml -f @c.yaml --operation InterpretReplica",
        "-f @a.yaml -f @desired.yaml --operation InterpretHealth",
    ] {
        let (is_complete, out, err) = workbench
            .run(&format!("{line} --desired-file @desired.yaml"))
            .await;
        assert!(!is_complete && out.is_empty(), "{line}: {out}");
        write!(printed, "$ interpret {line}\n{err}").unwrap();
    }
    insta::assert_snapshot!(printed);
}

#[tokio::test]
async fn wrong_arguments_say_what_is_wrong() {
    let workbench = Workbench::new();
    workbench.write("empty.yaml", "---\n");
    workbench.write("no-kind.yaml", "a: 1");
    workbench.write("bad.yaml", "a: [");
    let mut printed = String::new();
    for line in [
        "",
        "-f @customization.yaml",
        "-f @none.yaml --operation Retain",
        "-f @desired.yaml --operation Retain --desired-file @desired.yaml --observed-file @observed.yaml",
        "-f @customization.yaml --operation Retain --desired-file @desired.yaml",
        "-f @customization.yaml --operation Retain --observed-file @desired.yaml",
        "-f @customization.yaml --operation InterpretReplica",
        "-f @customization.yaml --operation Prune --desired-file @desired.yaml",
        "-f @customization.yaml --operation InterpretReplica --desired-file @status.yaml",
        "-f @customization.yaml --operation InterpretReplica --desired-file @webhooks.yaml",
        "-f @customization.yaml --operation InterpretReplica --desired-file @empty.yaml",
        "--operation InterpretReplica --desired-file @no-kind.yaml",
        "--operation InterpretReplica --desired-file @bad.yaml",
        "--operation Retain --desired-file - --observed-file -",
        "--webhooks @desired.yaml --operation InterpretReplica --desired-file @desired.yaml",
        "--argocd-health @desired.yaml --operation InterpretHealth --desired-file @desired.yaml",
        "--check",
    ] {
        let (is_complete, out, err) = workbench.run(line).await;
        assert!(!is_complete && out.is_empty(), "{line}: {out}");
        write!(printed, "$ interpret {line}\n{err}").unwrap();
    }
    insta::assert_snapshot!(printed);
}

#[tokio::test]
async fn a_check_reports_each_rule() {
    let workbench = Workbench::new();
    let (is_complete, out, err) = workbench.run("-f @customization.yaml --check").await;
    assert!(is_complete, "{out}{err}");
    let broken = CUSTOMIZATION.replace(
        "function ReflectStatus(observedObj)",
        "function ReflectStatus(",
    );
    workbench.write("broken.yaml", &broken);
    let (is_valid, report, _) = workbench.run("-f @broken.yaml --check").await;
    assert!(!is_valid);
    insta::assert_snapshot!(format!("{out}{report}"));
}

#[tokio::test]
async fn documents_of_rules_are_printed() {
    let workbench = Workbench::new();
    let (is_complete, out, _) = workbench.run("--show-doc --operation reviseReplica").await;
    assert!(is_complete);
    insta::assert_snapshot!(out);
    let (_, all, _) = workbench.run("--show-doc").await;
    assert_eq!(all.matches("---@rule: ").count(), RULES.len());
}

#[tokio::test]
async fn the_examples_of_the_documents_are_valid_scripts() {
    for rule in RULES {
        let (_, script) = rule.document.split_once('\n').unwrap();
        assert_eq!(
            execute::compile(rule.operation, script),
            Ok(()),
            "{}",
            rule.operation
        );
    }
}

#[tokio::test]
async fn argocd_scripts_answer_before_the_built_in_rules() {
    let workbench = Workbench::new();
    workbench.write(
        "health.lua",
        "hs = {}\nif obj.status.readyReplicas == 3 then\n  hs.status = 'Suspended'\n  hs.message = 'resting'\nend\nreturn hs\n",
    );
    let line = "--argocd-health @health.lua --operation InterpretHealth -o json --observed-file";
    let (_, out, _) = workbench.run(&format!("{line} @observed.yaml")).await;
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap(),
        json!({"healthy": true, "health": "Suspended", "reason": "", "message": "resting"})
    );
    let observed = OBSERVED.replace("readyReplicas: 3", "readyReplicas: 2");
    workbench.write("fewer.yaml", &observed);
    let (_, built_in, _) = workbench
        .run("--operation InterpretHealth -o json --observed-file @fewer.yaml")
        .await;
    let (_, out, _) = workbench.run(&format!("{line} @fewer.yaml")).await;
    assert_eq!(out, built_in, "the script has no result");
    let (_, out, _) = workbench
        .run("--argocd-health @health.lua --operation InterpretHealth --observed-file @observed.yaml")
        .await;
    assert_eq!(out, "---\n# [1/1] healthy:\ntrue\n# Suspended: resting\n");
    let (is_complete, out, _) = workbench
        .run("--argocd-health @health.lua --operation InterpretReplica --desired-file @desired.yaml -o json")
        .await;
    assert!(
        is_complete && out.contains("\"replica\": 3"),
        "other operations are not Argo CD's: {out}"
    );
}

#[tokio::test]
async fn webhooks_of_both_dialects_are_called() {
    let workbench = Workbench::new();
    let line = "--webhooks @webhooks.yaml -o json --operation";
    let proposed = r#"{"response": {"uid": "UID", "replicas": 7}}"#;
    let (is_complete, out, err) = workbench
        .run_with(
            &format!("{line} ExploreReplica --desired-file @desired.yaml"),
            "",
            Ok(proposed),
        )
        .await;
    assert!(is_complete, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["replica"], 7);
    let message = workbench.message();
    assert_eq!(message["kind"], "ExploreReview");
    assert_eq!(message["request"]["operation"], "ExploreReplica");
    let released = r#"{"response": {"uid": "UID", "successful": true, "healthy": false}}"#;
    let (is_complete, out, err) = workbench
        .run_with(
            &format!("{line} InterpretHealth --observed-file @observed.yaml"),
            "",
            Ok(released),
        )
        .await;
    assert!(is_complete, "{err}");
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap()["healthy"],
        false
    );
    assert_eq!(workbench.message()["kind"], "ResourceInterpreterContext");
}

#[tokio::test]
async fn a_webhook_that_fails_is_an_error_or_ignored() {
    let workbench = Workbench::new();
    let run = async |operation: &str, answer: Result<&str, ()>| {
        let line = format!(
            "--webhooks @webhooks.yaml --operation {operation} --desired-file @desired.yaml"
        );
        workbench.run_with(&line, "", answer).await
    };
    let (is_complete, out, err) = run("InterpretReplica", Err(())).await;
    assert!(
        is_complete && out.contains("# [1/2] replica:\n3\n"),
        "{out}{err}"
    );
    assert!(
        err.starts_with("Warning: webhook proposed/a.example.io is ignored: connection refused"),
        "{err}"
    );
    let (is_complete, out, err) = run("InterpretHealth", Err(())).await;
    assert!(!is_complete && out.is_empty());
    assert!(
        err.starts_with(
            "Execute InterpretHealth error: webhook released/b.example.io: connection refused"
        ),
        "{err}"
    );
    assert!(
        err.contains("kubectl port-forward -n web service/workloads 8443:443"),
        "{err}"
    );
    for wrong in [
        "no JSON",
        r#"{"response": {"uid": "another", "successful": true, "healthy": true}}"#,
        r#"{"response": {"uid": "UID", "successful": false}}"#,
        r#"{"response": {"uid": "UID", "successful": true}}"#,
    ] {
        let (is_complete, out, err) = run("InterpretHealth", Ok(wrong)).await;
        assert!(
            !is_complete && out.is_empty() && err.contains("released/b.example.io"),
            "{wrong}: {err}"
        );
    }
}

#[tokio::test]
async fn with_customizations_the_built_in_rules_are_off_but_webhooks_are_not() {
    let workbench = Workbench::new();
    let only_health = CUSTOMIZATION
        .split("    retention:")
        .next()
        .unwrap()
        .to_owned()
        + "    healthInterpretation: {luaScript: 'function InterpretHealth(o) return true end'}\n";
    workbench.write("health.yaml", &only_health);
    let (is_complete, _, err) = workbench
        .run("-f @health.yaml --operation InterpretReplica --desired-file @desired.yaml")
        .await;
    assert!(!is_complete);
    assert_eq!(err, "Execute InterpretReplica error: rule is not enabled\n");
    let (is_complete, out, _) = workbench
        .run_with(
            "-f @health.yaml --webhooks @webhooks.yaml --operation InterpretReplica --desired-file @desired.yaml -o json",
            "",
            Ok(r#"{"response": {"uid": "UID", "replicas": 7}}"#),
        )
        .await;
    assert!(is_complete && out.contains("\"replica\": 7"), "{out}");
}
