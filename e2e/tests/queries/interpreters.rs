//! The example interpreter webhook and scripts, with `Workload`s in real members: the fleet's
//! answers follow objects, rules, and the webhook's end and return.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, time::Instant};

use anyhow::{Context, Result, ensure};
use e2e::{
    interpreter::{WorkloadInterpreter, manifest},
    objects::Objects,
    query_api::{list_with_warnings, names_of},
    scenario::{DEADLINE, Registry, Stage, until, until_equal},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};

const WORKLOADS: &str = "apis/workload.example.io/v1alpha1/namespaces/default/workloads";
const RULES: &str = "apis/config.karmada.io/v1alpha1";
const RELEASED: &str = "resourceinterpreterwebhookconfigurations/workload-interpreter";
const PROPOSAL: &str = "resourceexploringwebhookconfigurations/workload-interpreter";
const WEBHOOK: &str = "interpretedBy=webhook/workload-interpreter/workloads.example.io";
/// All workloads of both members.
const ALL: [&str; 4] = [
    "member1/default/nginx",
    "member1/default/shop",
    "member2/default/nginx",
    "member2/default/shop",
];

/// Two ready workloads of three replicas in each of two members, a registry of them, and the
/// running interpreter, which nothing asks yet.
struct Fixture {
    stage: Stage,
    members: [Objects; 2],
    registry: Registry,
    interpreter: WorkloadInterpreter,
}

impl Fixture {
    async fn start(name: &str) -> Self {
        let stage = Stage::enter().await.unwrap();
        let members = [stage.member(1).unwrap(), stage.member(2).unwrap()];
        for member in &members {
            define_workloads(member).await.unwrap();
            for name in ["nginx", "shop"] {
                apply_workload(member, name, 3).await.unwrap();
            }
        }
        let interpreter = WorkloadInterpreter::start(stage.fleet.dir()).await.unwrap();
        interpreter.make_service(&stage.hub).await.unwrap();
        let selectors =
            json!([{ "apiVersion": "workload.example.io/v1alpha1", "kind": "Workload" }]);
        let clusters = ["member1", "member2"];
        let registry = Registry::new(&stage, name, &clusters, &selectors).unwrap();
        registry.apply_until_ready().await.unwrap();
        Self {
            stage,
            members,
            registry,
            interpreter,
        }
    }

    /// Waits until exactly these objects, as `cluster/namespace/name`, match a field selector.
    async fn until_found(&self, selector: &str, expected: &[&str]) {
        until(&format!("{selector} finds {expected:?}"), || {
            self.check_found(selector, expected)
        })
        .await
        .unwrap();
    }

    async fn check_found(&self, selector: &str, expected: &[&str]) -> Result<()> {
        let parameter =
            reqwest::Url::parse_with_params("http://localhost/", [("fieldSelector", selector)])?;
        let query = parameter.query().unwrap_or_default();
        let list = list_with_warnings(&self.stage.operator, &format!("{WORKLOADS}?{query}")).await;
        let found: BTreeSet<String> = names_of(&list?.0)?;
        let is_same = found
            .iter()
            .map(String::as_str)
            .eq(expected.iter().copied());
        ensure!(is_same, "{found:?}; {}", self.health_of_all().await?);
        Ok(())
    }

    /// What the fleet says about all workloads, for messages.
    async fn health_of_all(&self) -> Result<String> {
        let arguments = [
            "unhealthy",
            "--health",
            "Healthy,Progressing,Degraded,Suspended,Unknown",
        ];
        let command = [&arguments[..], &["-o", "wide"]].concat();
        let result = self.stage.operator.run_command(&command).await?;
        Ok(format!("{}{}", result.out, result.err))
    }

    /// Sets a number of ready replicas, waits for the answer and prints how long it took.
    async fn until_status_is_answered(
        &self,
        member: usize,
        ready: u32,
        selector: &str,
        expected: &[&str],
    ) -> Tested {
        set_ready(&self.members[member], "nginx", ready).await?;
        let started = Instant::now();
        self.until_found(selector, expected).await;
        println!(
            "{selector} was right {:.2} s after a status was patched",
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    async fn apply_rules(&self, path: &str, object: &Value) -> Tested {
        let path = format!("{RULES}/{path}");
        self.stage.hub.apply(&path, object).await?;
        Ok(())
    }

    async fn delete_rules(&self, path: &str) {
        self.stage
            .hub
            .delete(&format!("{RULES}/{path}"))
            .await
            .unwrap();
    }

    /// Waits until the control plane says that every part of a configuration is in use.
    async fn until_accepted(&self, path: &str) -> Tested {
        let path = format!("{RULES}/{path}");
        until(&format!("{path} is accepted"), || async {
            let object = self.stage.hub.get(&path).await?;
            let condition = &object["status"]["conditions"][0];
            let is_accepted = condition["type"] == "Accepted" && condition["reason"] == "InUse";
            ensure!(is_accepted, "{}", object["status"]);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Waits until the documents are those of the members' objects, whatever they mean.
    async fn until_indexed(&self) {
        let members = self.stage.fleet.named_members();
        let oracle = self.registry.oracle().expects_all(members, &[WORKLOADS]);
        until_equal(&oracle).await.unwrap();
    }

    async fn end(self) {
        for path in [RELEASED, PROPOSAL] {
            self.delete_rules(path).await;
        }
        for member in &self.members {
            for name in ["nginx", "shop", "new"] {
                member.delete(&format!("{WORKLOADS}/{name}")).await.unwrap();
            }
        }
        self.registry.remove().await.unwrap();
    }
}

async fn define_workloads(member: &Objects) -> Result<()> {
    let definition = manifest("crd.yaml")?;
    let path =
        "apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.workload.example.io";
    member.apply(path, &definition).await?;
    until("workloads are served", || member.get(WORKLOADS))
        .await
        .map(drop)
}

async fn apply_workload(member: &Objects, name: &str, ready: u32) -> Result<()> {
    let mut workload = manifest("workload.yaml")?;
    workload["metadata"]["name"] = json!(name);
    member
        .apply(&format!("{WORKLOADS}/{name}"), &workload)
        .await?;
    set_ready(member, name, ready).await
}

async fn set_ready(member: &Objects, name: &str, ready: u32) -> Result<()> {
    let status = json!({ "status": { "readyReplicas": ready } });
    let path = format!("{WORKLOADS}/{name}/status");
    member.merge(&path, &status).await.map(drop)
}

/// One ready replica is enough, which is not what the webhook says.
fn lenient_customization() -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": { "name": "lenient" },
        "spec": {
            "target": { "apiVersion": "workload.example.io/v1alpha1", "kind": "Workload" },
            "customizations": { "healthInterpretation": {
                "luaScript": "function InterpretHealth(obj) return obj.status.readyReplicas >= 1 end",
            } },
        },
    })
}

#[tokio::test]
async fn answers_about_workloads_follow_objects_rules_and_the_webhook() -> Tested {
    let fixture = Fixture::start("workloads").await;
    fixture.until_found("interpretedBy=built-in", &ALL).await;

    let configuration = fixture.interpreter.configuration("webhook-released.yaml");
    fixture
        .apply_rules(RELEASED, &configuration.unwrap())
        .await?;
    fixture.until_found(WEBHOOK, &ALL).await;
    fixture
        .until_found("health=Healthy,replicas.desired=3", &ALL)
        .await;
    let certificate = "dependsOn=v1/Secret/default/nginx-certificate";
    fixture.until_found(certificate, &ALL).await;
    fixture.until_accepted(RELEASED).await?;

    let degraded = ["member2/default/nginx"];
    for selector in ["health=Degraded", "health=Degraded,replicas.ready<3"] {
        fixture
            .until_status_is_answered(1, 1, selector, &degraded)
            .await?;
        fixture
            .until_status_is_answered(1, 3, selector, &[])
            .await?;
    }
    fixture
        .until_status_is_answered(1, 1, "health=Degraded", &degraded)
        .await?;

    // No object changes; the rule does.
    let lenient = "resourceinterpretercustomizations/lenient";
    fixture
        .apply_rules(lenient, &lenient_customization())
        .await?;
    let by_both = format!("health=Healthy,interpretedBy=customization/lenient,{WEBHOOK}");
    fixture.until_found(&by_both, &ALL).await;
    fixture.until_accepted(lenient).await?;
    fixture.delete_rules(lenient).await;
    fixture.until_found("health=Degraded", &degraded).await;
    fixture
        .until_found("interpretedBy=customization/lenient", &[])
        .await;
    fixture.until_found(WEBHOOK, &ALL).await;
    fixture.until_indexed().await;
    fixture.end().await;
    Ok(())
}

#[tokio::test]
async fn objects_are_indexed_while_the_webhook_is_away_and_answered_when_it_is_back() -> Tested {
    let fixture = Fixture::start("away").await;
    let configuration = fixture.interpreter.configuration("webhook-released.yaml");
    fixture
        .apply_rules(RELEASED, &configuration.unwrap())
        .await?;
    fixture.until_found(WEBHOOK, &ALL).await;

    fixture.interpreter.kill();
    let [first, second] = &fixture.members;
    apply_workload(first, "new", 3).await?;
    set_ready(second, "nginx", 1).await?;
    let changed = ["member1/default/new", "member2/default/nginx"];
    let unknown = "health=Unknown,healthReason=InterpretationFailed";
    fixture.until_found(unknown, &changed).await;
    fixture.until_indexed().await;
    let list = list_with_warnings(&fixture.stage.operator, WORKLOADS)
        .await?
        .0;
    assert_eq!(names_of::<BTreeSet<String>>(&list)?.len(), 5);
    let shown = fixture.health_of_all().await?;
    let row = shown.lines().find(|line| line.contains(" new ")).unwrap();
    assert_contains(&row, "workload-interpreter/workloads.example.io");

    // A restart loses what the operator had to ask.
    fixture.stage.operator.restart_until_ready(DEADLINE).await?;
    let started = Instant::now();
    fixture.interpreter.restart().await?;
    fixture
        .until_found("health=Degraded", &["member2/default/nginx"])
        .await;
    fixture.until_found("health=Unknown", &[]).await;
    println!(
        "all answers were right {:.2} s after the webhook was started again",
        started.elapsed().as_secs_f64()
    );
    let healthy = ["member1/default/new", ALL[0], ALL[1], ALL[3]];
    let mut healthy = healthy.to_vec();
    healthy.sort_unstable();
    fixture.until_found("health=Healthy", &healthy).await;
    fixture.until_indexed().await;
    fixture.end().await;
    Ok(())
}

#[tokio::test]
async fn the_webhook_is_asked_in_the_dialect_of_the_proposal_and_ignored_while_it_fails() -> Tested
{
    let fixture = Fixture::start("proposal").await;
    let configuration = fixture
        .interpreter
        .configuration_with_url("webhook-proposal.yaml");
    let mut configuration = configuration.unwrap();
    configuration["webhooks"][0]["failurePolicy"] = json!("Ignore");
    fixture.apply_rules(PROPOSAL, &configuration).await?;
    fixture.until_accepted(PROPOSAL).await?;
    fixture.until_found(WEBHOOK, &ALL).await;
    fixture
        .until_found("health=Healthy,replicas.desired=3", &ALL)
        .await;
    let degraded = ["member1/default/nginx"];
    fixture
        .until_status_is_answered(0, 2, "health=Degraded", &degraded)
        .await?;

    fixture.interpreter.kill();
    set_ready(&fixture.members[1], "shop", 0).await?;
    let by_rules = "replicas.ready=0,interpretedBy=built-in,health!=Unknown";
    fixture
        .until_found(by_rules, &["member2/default/shop"])
        .await;
    fixture.until_found("health=Unknown", &[]).await;

    // The next change of an object asks the webhook again.
    fixture.interpreter.restart().await?;
    set_ready(&fixture.members[1], "shop", 3).await?;
    fixture.until_found(WEBHOOK, &ALL).await;
    fixture.until_found("health=Degraded", &degraded).await;

    configuration["webhooks"][0]["failurePolicy"] = json!("Fail");
    fixture.interpreter.kill();
    fixture.apply_rules(PROPOSAL, &configuration).await?;
    fixture
        .until_found("health=Unknown,healthReason=InterpretationFailed", &ALL)
        .await;
    fixture.until_indexed().await;
    let list = fixture
        .stage
        .operator
        .metrics()
        .await
        .context("metrics")
        .unwrap();
    assert!(
        list.contains(r#"result="connection""#),
        "no failed call is counted"
    );
    fixture.interpreter.restart().await?;
    fixture.until_found(WEBHOOK, &ALL).await;
    fixture.until_found("health=Degraded", &degraded).await;
    fixture.end().await;
    Ok(())
}
