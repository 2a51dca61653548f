use fleetdex_core::model::Resource;
use serde_json::{Value, json};

use super::*;
use crate::test_rows::rows;
use crate::{
    Operation,
    customization::Customization,
    health::{Assessment, Health},
    request::DependentObject,
    webhook::configuration::{WebhookConfiguration, guessed_resource},
};

fn foo() -> Value {
    json!({
        "apiVersion": "example.io/v1",
        "kind": "Foo",
        "metadata": {"name": "a", "namespace": "web", "generation": 2},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 2},
    })
}

fn foo_resource() -> Resource {
    guessed_resource(&foo())
}

fn customization(name: &str, member: &str, script: &str) -> Customization {
    Customization::parse(&json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": "Foo"},
            "customizations": {member: {"luaScript": script}},
        },
    }))
    .unwrap()
}

fn healthy(name: &str, answer: &str) -> CustomizationSet {
    let script = format!("function InterpretHealth(obj) return {answer} end");
    CustomizationSet::new(&[customization(name, "healthInterpretation", &script)])
}

fn argocd(script: &str) -> ArgoHealth {
    let data = json!({"resource.customizations.health.example.io_Foo": script});
    ArgoHealth::from_data(data.as_object().unwrap()).unwrap()
}

fn webhook(kind: &str, name: &str, operation: &str, failure_policy: &str) -> Vec<Webhook> {
    let configuration = json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "hooks"},
        "webhooks": [{
            "name": name,
            "clientConfig": {"url": "https://foo.example.io/"},
            "rules": [{
                "operations": [operation],
                "apiGroups": ["example.io"],
                "apiVersions": ["*"],
                "kinds": ["Foo"],
                "resources": ["foos"],
            }],
            "failurePolicy": failure_policy,
            "interpreterContextVersions": ["v1alpha1"],
            "exploreReviewVersions": ["v1alpha1"],
        }],
    });
    WebhookConfiguration::parse(&configuration)
        .unwrap()
        .webhooks
}

fn released_webhook() -> Vec<Webhook> {
    webhook(
        "ResourceInterpreterWebhookConfiguration",
        "a.example.io",
        "InterpretHealth",
        "",
    )
}

fn proposed_webhook(failure_policy: &str) -> Vec<Webhook> {
    webhook(
        "ResourceExploringWebhookConfiguration",
        "b.example.io",
        "ExploreHealthy",
        failure_policy,
    )
}

fn assessed(health: Health, healthy: bool) -> Response {
    Response::Health {
        assessment: Assessment::plain(health),
        healthy,
    }
}

/// The level that decided, and its result; or the webhook that is to be asked.
fn shown(answer: LevelAnswer<'_>) -> (String, Option<Result<Response, InterpretError>>) {
    match answer {
        LevelAnswer::Decided { by, result } => (by.to_string(), Some(result)),
        LevelAnswer::AskWebhook(webhook) => (format!("ask {}", webhook.id), None),
        LevelAnswer::NoRule => ("no rule".to_owned(), None),
    }
}

fn health_by(levels: &Levels) -> String {
    let object = foo();
    shown(levels.answer(&Request::Health { object: &object }, &foo_resource())).0
}

#[test]
fn the_first_level_with_a_rule_decides() {
    let all = Levels::built_in()
        .with_customizations(&healthy("c", "true"))
        .with_argocd(argocd("return {status = 'Healthy'}"))
        .with_webhooks(released_webhook());
    assert_eq!(health_by(&all), "customization/c");
    let without_customizations = Levels::built_in()
        .with_argocd(argocd("return {status = 'Healthy'}"))
        .with_webhooks(released_webhook());
    assert_eq!(health_by(&without_customizations), "argocd");
    let with_webhooks = Levels::built_in().with_webhooks(released_webhook());
    assert_eq!(health_by(&with_webhooks), "ask hooks/a.example.io");
    assert_eq!(health_by(&Levels::built_in()), "built-in");
    assert_eq!(
        health_by(&Levels::built_in().without_built_in_rules()),
        "no rule"
    );
}

#[test]
fn a_level_decides_only_operations_and_kinds_that_it_has_rules_for() {
    let levels = Levels::built_in()
        .with_customizations(&healthy("c", "true"))
        .with_argocd(argocd("return {status = 'Healthy'}"))
        .with_webhooks(released_webhook());
    let object = foo();
    let resource = foo_resource();
    for (request, expected) in [
        (Request::Health { object: &object }, "customization/c"),
        (Request::Status { object: &object }, "built-in"),
        (Request::Replica { object: &object }, "no rule"),
        (Request::Component { object: &object }, "no rule"),
        (Request::Prune { object: &object }, "built-in"),
    ] {
        let (by, _) = shown(levels.answer(&request, &resource));
        assert_eq!(by, expected, "{}", request.operation());
    }
    let mut other = foo();
    other["apiVersion"] = json!("example.io/v2");
    let (by, _) = shown(levels.answer(
        &Request::Health { object: &other },
        &guessed_resource(&other),
    ));
    assert_eq!(
        by, "argocd",
        "a customization is for one version, Argo CD's scripts are for all"
    );
}

#[test]
fn the_error_of_a_customization_is_final() {
    for (name, answer) in [
        ("raises", "error('no')"),
        ("no-boolean", "3"),
        ("no-lua", "end end"),
    ] {
        let levels = Levels::built_in()
            .with_customizations(&healthy(name, answer))
            .with_argocd(argocd("return {status = 'Healthy'}"))
            .with_webhooks(released_webhook());
        let object = foo();
        let (by, result) =
            shown(levels.answer(&Request::Health { object: &object }, &foo_resource()));
        assert_eq!(by, format!("customization/{name}"));
        assert!(result.unwrap().is_err());
    }
}

#[test]
fn an_argocd_script_without_a_result_leaves_the_answer_to_the_next_level() {
    for nothing in ["return nil", "return {}", "return {status = 3}", ""] {
        let levels = Levels::built_in().with_argocd(argocd(nothing));
        assert_eq!(health_by(&levels), "built-in", "{nothing}");
        let levels = levels.with_webhooks(released_webhook());
        assert_eq!(health_by(&levels), "ask hooks/a.example.io", "{nothing}");
    }
}

#[test]
fn an_argocd_script_assesses_in_its_words() {
    let object = foo();
    let request = Request::Health { object: &object };
    for (word, health, is_healthy) in [
        ("Healthy", Health::Healthy, true),
        ("Suspended", Health::Suspended, true),
        ("Progressing", Health::Progressing, false),
        ("Degraded", Health::Degraded, false),
        ("Missing", Health::Missing, false),
        ("Odd", Health::Unknown, false),
    ] {
        let levels =
            Levels::built_in().with_argocd(argocd(&format!("return {{status = '{word}'}}")));
        let (_, result) = shown(levels.answer(&request, &foo_resource()));
        let Some(Ok(Response::Health {
            assessment,
            healthy,
        })) = result
        else {
            panic!("{word}: {result:?}");
        };
        assert_eq!((assessment.health, healthy), (health, is_healthy), "{word}");
    }
}

#[test]
fn a_pending_deletion_counts_more_than_an_argocd_script() {
    let mut object = foo();
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let levels = Levels::built_in().with_argocd(argocd("return {status = 'Healthy'}"));
    let (_, result) = shown(levels.answer(&Request::Health { object: &object }, &foo_resource()));
    let Some(Ok(Response::Health { assessment, .. })) = result else {
        panic!("{result:?}");
    };
    assert_eq!(assessment.health, Health::Progressing);
}

#[test]
fn a_boolean_false_is_progressing_while_the_status_is_old_and_degraded_else() {
    let levels = Levels::built_in().with_customizations(&healthy("c", "false"));
    for (observed, health) in [(1, Health::Progressing), (2, Health::Degraded)] {
        let mut object = foo();
        object["status"]["observedGeneration"] = json!(observed);
        let request = Request::Health { object: &object };
        let (_, result) = shown(levels.answer(&request, &foo_resource()));
        let Some(Ok(Response::Health {
            assessment,
            healthy,
        })) = result
        else {
            panic!("{result:?}");
        };
        assert_eq!((assessment.health, healthy), (health, false));
        let [webhook] = &proposed_webhook("")[..] else {
            panic!("one webhook")
        };
        let answer = levels.after_webhook(webhook, &request, Ok(assessed(Health::Degraded, false)));
        let Some(Ok(Response::Health { assessment, .. })) = shown(answer).1 else {
            panic!("no health");
        };
        assert_eq!(assessment.health, health, "of a webhook");
    }
}

#[test]
fn of_several_webhooks_the_one_with_the_smallest_id_is_asked() {
    let mut webhooks = proposed_webhook("Ignore");
    webhooks.extend(released_webhook());
    let levels = Levels::built_in().with_webhooks(webhooks);
    assert_eq!(health_by(&levels), "ask hooks/a.example.io");
}

#[test]
fn the_failure_of_a_webhook_is_final_unless_it_may_be_ignored() {
    let object = foo();
    let request = Request::Health { object: &object };
    let failed = |webhooks: Vec<Webhook>, levels: Levels| {
        let answer = levels.after_webhook(&webhooks[0], &request, Err("no answer".to_owned()));
        let (by, result) = shown(answer);
        (
            by,
            result.map(|result| result.map_err(|error| error.to_string())),
        )
    };
    let (by, result) = failed(released_webhook(), Levels::built_in());
    assert_eq!(by, "webhook/hooks/a.example.io");
    assert_eq!(
        result,
        Some(Err("webhook hooks/a.example.io: no answer".to_owned()))
    );
    assert_eq!(
        failed(proposed_webhook("Fail"), Levels::built_in()).0,
        "webhook/hooks/b.example.io"
    );
    let (by, result) = failed(proposed_webhook("Ignore"), Levels::built_in());
    assert_eq!(by, "built-in");
    assert!(result.unwrap().is_ok());
    let none = Levels::built_in().without_built_in_rules();
    assert_eq!(failed(proposed_webhook("Ignore"), none).0, "no rule");
}

#[test]
fn dependencies_of_one_customization_are_sorted_and_each_there_once() {
    let script = "function GetDependencies(obj)
      local found = {}
      for _, kind in ipairs({'Secret', 'ConfigMap', 'Secret'}) do
        table.insert(found, {apiVersion = 'v1', kind = kind, namespace = 'web', name = 'x'})
      end
      return found
    end";
    let one = customization("a", "dependencyInterpretation", script);
    let levels = Levels::built_in().with_customizations(&CustomizationSet::new(&[one]));
    let object = foo();
    let request = Request::Dependency { object: &object };
    let (_, result) = shown(levels.answer(&request, &foo_resource()));
    let Some(Ok(Response::Dependencies(found))) = result else {
        panic!("no dependencies: {result:?}");
    };
    let kinds: Vec<&str> = found.iter().map(|object| object.kind.as_str()).collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"]);
}

#[test]
fn dependencies_of_several_customizations_are_united() {
    let script = |kind: &str, name: &str| {
        format!(
            "function GetDependencies(obj) return {{{{apiVersion = 'v1', kind = '{kind}', namespace = 'web', name = '{name}'}}}} end"
        )
    };
    let of = |name: &str, text: &str| customization(name, "dependencyInterpretation", text);
    let levels = Levels::built_in().with_customizations(&CustomizationSet::new(&[
        of("b", &script("Secret", "x")),
        of("a", &script("Secret", "x")),
        of("c", &script("ConfigMap", "y")),
    ]));
    let object = foo();
    let request = Request::Dependency { object: &object };
    let (by, result) = shown(levels.answer(&request, &foo_resource()));
    assert_eq!(by, "customization/a, customization/b, customization/c");
    let dependency = |kind: &str, name: &str| DependentObject {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "web".to_owned(),
        name: name.to_owned(),
        label_selector: None,
    };
    assert_eq!(
        result,
        Some(Ok(Response::Dependencies(vec![
            dependency("ConfigMap", "y"),
            dependency("Secret", "x"),
        ])))
    );
    let broken = Levels::built_in().with_customizations(&CustomizationSet::new(&[
        of("a", &script("Secret", "x")),
        of("b", "end end"),
    ]));
    let (_, result) = shown(broken.answer(&request, &foo_resource()));
    let error = result.unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("customization b: "),
        "the error of one is the error of all: {error}"
    );
}

#[test]
fn every_operation_has_an_answer_for_a_customization_of_it() {
    let object = foo();
    let resource = foo_resource();
    let request = |operation| match operation {
        Operation::Retain => Request::Retain {
            desired: &object,
            observed: &object,
        },
        Operation::InterpretReplica => Request::Replica { object: &object },
        Operation::InterpretComponent => Request::Component { object: &object },
        Operation::ReviseReplica => Request::Revise {
            object: &object,
            replicas: 5,
        },
        Operation::InterpretStatus => Request::Status { object: &object },
        Operation::AggregateStatus => Request::AggregateStatus {
            object: &object,
            items: &[],
        },
        Operation::InterpretHealth => Request::Health { object: &object },
        Operation::InterpretDependency => Request::Dependency { object: &object },
        Operation::Prune => Request::Prune { object: &object },
    };
    let cases = r"
        retention | Retain | function Retain(a, b) return a end
        replicaResource | InterpretReplica | function GetReplicas(a) return a.spec.replicas end
        componentResource | InterpretComponent
            | function GetComponents(a) return {{name = 'x', replicas = 1}} end
        replicaRevision | ReviseReplica
            | function ReviseReplica(a, n) a.spec.replicas = n return a end
        statusReflection | InterpretStatus | function ReflectStatus(a) return a.status end
        statusAggregation | AggregateStatus | function AggregateStatus(a, items) return a end
        healthInterpretation | InterpretHealth | function InterpretHealth(a) return true end
        dependencyInterpretation | InterpretDependency | function GetDependencies(a) return {} end
    ";
    for [member, operation, script] in rows(cases) {
        let operation = Operation::from_name(operation).unwrap();
        let set = CustomizationSet::new(&[customization("c", member, script)]);
        let levels = Levels::built_in().with_customizations(&set);
        let (by, result) = shown(levels.answer(&request(operation), &resource));
        assert_eq!(by, "customization/c", "{operation}");
        assert!(matches!(result, Some(Ok(_))), "{operation}: {result:?}");
    }
}
