use fleetdex_interpreter::Operation;
use serde_json::json;

use super::*;

fn customization(name: &str, customizations: &Value) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": { "name": name },
        "spec": {
            "target": { "apiVersion": "example.io/v1", "kind": "Workload" },
            "customizations": customizations,
        },
    })
}

fn health_script(text: &str) -> Value {
    json!({ "healthInterpretation": { "luaScript": text } })
}

const HEALTHY: &str = "function InterpretHealth(observedObj) return true end";

fn webhooks(timeout: i64) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceExploringWebhookConfiguration",
        "metadata": { "name": "workloads" },
        "webhooks": [{
            "name": "workload.example.io",
            "clientConfig": { "url": "https://interpreter.example.io/explore", "caBundle": "" },
            "rules": [{
                "operations": ["ExploreHealthy"],
                "apiGroups": ["example.io"],
                "apiVersions": ["v1"],
                "resources": ["workloads"],
            }],
            "timeoutSeconds": timeout,
            "exploreReviewVersions": ["v1alpha1"],
        }],
    })
}

fn config_map(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "argocd-cm" }, "data": data })
}

fn shown(problems: &[RuleProblem]) -> Vec<String> {
    problems
        .iter()
        .map(|problem| format!("{:?} {}", problem.reason, problem.field))
        .collect()
}

#[test]
fn objects_of_all_kinds_have_rules() {
    let objects = [
        customization("a", &health_script(HEALTHY)),
        webhooks(10),
        config_map(&json!({ "resource.customizations.health.example.io_Workload": "return nil" })),
    ];
    let assembled = assemble(&objects);
    let none: [RuleProblem; 0] = [];
    assert_eq!(assembled.problems, [none.clone(), none.clone(), none]);
    let target = assembled.customizations.targets().next().unwrap();
    let scripts = assembled
        .customizations
        .scripts(target, Operation::InterpretHealth);
    assert_eq!(scripts.len(), 1);
    assert_eq!(assembled.webhooks[0].id, "workloads/workload.example.io");
    assert!(
        assembled
            .argocd
            .script_for("example.io", "Workload")
            .is_some()
    );
}

#[test]
fn each_problem_belongs_to_its_object() {
    let objects = [
        customization("b", &health_script(HEALTHY)),
        customization("a", &health_script("function InterpretHealth(")),
        webhooks(31),
        config_map(&json!({ "resource.customizations.health.Pod": "return (" })),
    ];
    let assembled = assemble(&objects);
    let starts = [
        "DefinedElsewhere spec.customizations.healthInterpretation: is not used: customization \"a\"",
        "InvalidScript spec.customizations.healthInterpretation.luaScript: line 1: ",
        "InvalidField webhooks[0].timeoutSeconds: ",
        "InvalidScript data: the health script of \"Pod\" does not compile: ",
    ];
    for (problems, start) in assembled.problems.iter().zip(starts) {
        let problems = shown(problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with(start), "{problems:?}");
    }
}

#[test]
fn a_script_without_its_function_and_a_wildcard_are_problems() {
    let mut object = customization("a", &health_script("x = 1"));
    object["spec"]["target"]["kind"] = json!("*");
    let problems = shown(&assemble([&object]).problems[0]);
    assert!(
        problems[0].starts_with("InvalidField spec.target.kind: \"*\""),
        "{problems:?}"
    );
    assert!(
        problems[1].contains("script does not define the function InterpretHealth; correct the script, or remove healthInterpretation"),
        "{problems:?}"
    );
}

#[test]
fn a_key_that_argo_cd_refuses_takes_all_its_scripts_away() {
    let object = config_map(&json!({
        "resource.customizations.health.Pod": "return nil",
        "resource.customizations.healthy.Pod": "return nil",
    }));
    let assembled = assemble([&object]);
    assert!(assembled.argocd.is_empty());
    let problems = shown(&assembled.problems[0]);
    assert!(
        problems[0].starts_with("InvalidField data: resource.customizations.healthy.Pod: "),
        "{problems:?}"
    );
}
