use serde_json::{Value, json};

use super::*;
use crate::health::Health;
use crate::request::{AggregatedStatusItem, Component, NodeClaim, ReplicaRequirements};
use crate::test_rows::{rows, typed};
use crate::{customization::united, request::DependentObject};

fn run(text: &str, request: &Request<'_>) -> Result<Response, ScriptError> {
    Script::compile(request.operation(), text)?.run(request)
}

fn error(text: &str, request: &Request<'_>) -> String {
    run(text, request).unwrap_err().to_string()
}

fn object() -> Value {
    json!({
        "apiVersion": "example.io/v1", "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop", "generation": 3, "labels": {}},
        "spec": {"replicas": 3, "paused": false, "tolerations": [], "emptyDir": {}, "ratio": 0.5,
                 "template": {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "app", "env": []}]}}},
        "status": {"readyReplicas": 2, "observedGeneration": 3}
    })
}

fn dependency(kind: &str, namespace: &str, name: &str) -> DependentObject {
    DependentObject {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        label_selector: None,
    }
}

#[test]
fn a_script_counts_replicas_and_says_what_each_requires() {
    let object = object();
    let request = Request::Replica { object: &object };
    let text = "
        function GetReplicas(desiredObj)
          local requirement = {nodeClaim = {nodeSelector = desiredObj.spec.template.spec.nodeSelector, tolerations = {}}}
          return desiredObj.spec.replicas, requirement
        end";
    let node_claim = NodeClaim {
        node_selector: json!({"disk": "ssd"}).as_object().unwrap().clone(),
        ..NodeClaim::default()
    };
    let requirements = ReplicaRequirements {
        node_claim: Some(node_claim),
        ..ReplicaRequirements::default()
    };
    let expected = Response::Replica {
        replicas: 3,
        requirements: Some(requirements),
    };
    assert_eq!(run(text, &request), Ok(expected));
}

#[test]
fn replicas_must_be_a_number_and_requirements_a_table_or_nil() {
    let object = object();
    let request = Request::Replica { object: &object };
    let returning = |values: &str| format!("function GetReplicas(o) return {values} end");
    let replicas = |values: &str| run(&returning(values), &request);
    let plain = |replicas| {
        Ok(Response::Replica {
            replicas,
            requirements: None,
        })
    };
    assert_eq!(replicas("2"), plain(2));
    assert_eq!(replicas("2.9, nil"), plain(2));
    assert_eq!(replicas("-2.9, nil"), plain(-2));
    let empty = Response::Replica {
        replicas: 1,
        requirements: Some(ReplicaRequirements::default()),
    };
    assert_eq!(replicas("1, {}"), Ok(empty));
    for (values, expected) in [
        ("", "GetReplicas must return number, but returned nil"),
        ("'2'", "must return number, but returned string"),
        ("true", "but returned boolean"),
        ("3e9", "out of range"),
        ("2^31", "out of range"),
        ("0/0", "out of range"),
        ("1, 5", "must return table or nil, but returned number"),
        ("1, {1}", "result of the script is invalid"),
        (
            "1, {resourceRequest = {cpu = {a = 1}}}",
            "cpu is no quantity",
        ),
        ("1, {nodeClaim = 'x'}", "result of the script is invalid"),
    ] {
        let text = error(&returning(values), &request);
        assert!(text.contains(expected), "{values}: {text}");
    }
}

#[test]
fn a_script_names_components() {
    let object = object();
    let request = Request::Component { object: &object };
    let text = "
        function GetComponents(o)
          return {
            {name = 'driver', replicas = 1},
            {name = 'worker', replicas = o.spec.replicas, replicaRequirements = {priorityClassName = 'high', nodeClaim = {}}},
          }
        end";
    let requirements = ReplicaRequirements {
        priority_class_name: "high".to_owned(),
        ..ReplicaRequirements::default()
    };
    let components = vec![
        Component {
            name: "driver".to_owned(),
            replicas: 1,
            replica_requirements: None,
        },
        Component {
            name: "worker".to_owned(),
            replicas: 3,
            replica_requirements: Some(requirements),
        },
    ];
    assert_eq!(run(text, &request), Ok(Response::Components(components)));
    for nothing in ["nil", "{}", ""] {
        let text = format!("function GetComponents() return {nothing} end");
        assert_eq!(run(&text, &request), Ok(Response::Components(Vec::new())));
    }
    for (value, expected) in [
        ("1", "must return table or nil, but returned number"),
        ("{a = 1}", "invalid"),
        ("{{name = 'a', replicas = 1.5}}", "invalid"),
        ("{{replicas = 1}}", "missing field `name`"),
    ] {
        let text = error(
            &format!("function GetComponents() return {value} end"),
            &request,
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_revised_object_keeps_its_empty_values_and_whole_numbers() {
    let object = object();
    let request = Request::Revise {
        object: &object,
        replicas: 7,
    };
    let text = "function ReviseReplica(o, replicas) o.spec.replicas = replicas o.spec.new = {} return o end";
    let mut expected = object.clone();
    expected["spec"]["replicas"] = json!(7);
    assert_eq!(run(text, &request), Ok(Response::Revised(expected)));
    let text = error("function ReviseReplica(o) return {} end", &request);
    assert!(text.contains("has no kind"), "{text}");
    let text = error("function ReviseReplica(o) return {1, 2} end", &request);
    assert!(text.contains("has no kind"), "{text}");
}

#[test]
fn a_retained_object_has_the_empty_values_of_both_objects() {
    let desired = object();
    let observed = json!({"kind": "Workload", "spec": {"volumes": [], "selector": {}, "claims": [{"spec": {}}]}});
    let request = Request::Retain {
        desired: &desired,
        observed: &observed,
    };
    let text = "
        function Retain(desiredObj, observedObj)
          desiredObj.spec.volumes = observedObj.spec.volumes
          desiredObj.spec.selector = observedObj.spec.selector
          desiredObj.spec.claims = observedObj.spec.claims
          desiredObj.spec.unknown = {}
          return desiredObj
        end";
    let mut expected = desired.clone();
    expected["spec"]["volumes"] = json!([]);
    expected["spec"]["selector"] = json!({});
    expected["spec"]["claims"] = json!([{"spec": {}}]);
    assert_eq!(run(text, &request), Ok(Response::Retained(expected)));
}

#[test]
fn an_aggregated_status_loses_empty_values() {
    let object = object();
    let items = [
        AggregatedStatusItem {
            cluster_name: "a".to_owned(),
            status: Some(json!({"ready": 2})),
            applied: true,
            ..AggregatedStatusItem::default()
        },
        AggregatedStatusItem {
            cluster_name: "b".to_owned(),
            ..AggregatedStatusItem::default()
        },
    ];
    let request = Request::AggregateStatus {
        object: &object,
        items: &items,
    };
    let text = "
        function AggregateStatus(desiredObj, statusItems)
          local ready, names, applied = 0, {}, 0
          for i = 1, #statusItems do
            local item = statusItems[i]
            names[i] = item.clusterName
            if item.status ~= nil then ready = ready + item.status.ready end
            if item.applied then applied = applied + 1 end
          end
          desiredObj.status = {ready = ready, clusters = names, applied = applied, conditions = {}}
          return desiredObj
        end";
    let Ok(Response::AggregatedStatus(aggregated)) = run(text, &request) else {
        panic!("no object");
    };
    assert_eq!(
        aggregated["status"],
        json!({"ready": 2, "clusters": ["a", "b"], "applied": 1})
    );
    assert_eq!(aggregated["spec"].get("emptyDir"), None);
}

#[test]
fn items_are_nil_while_no_member_reports_unless_the_script_fails_with_that() {
    let object = object();
    let request = Request::AggregateStatus {
        object: &object,
        items: &[],
    };
    let cases = r#"
        if statusItems == nil then o.status = {given = 'nil'} end | {"given": "nil"}
        o.status = {given = type(statusItems), count = #statusItems}
            | {"given": "table", "count": 0}
    "#;
    for (body, expected) in typed::<(&str, Value)>(cases) {
        let text = format!("function AggregateStatus(o, statusItems) {body} return o end");
        let Ok(Response::AggregatedStatus(aggregated)) = run(&text, &request) else {
            panic!("no object");
        };
        assert_eq!(aggregated["status"], expected, "{body}");
    }
    let failing = "function AggregateStatus(o, statusItems) error('as ever') end";
    assert!(error(failing, &request).contains("as ever"));
}

#[test]
fn a_reflected_status_is_a_table() {
    let object = object();
    let request = Request::Status { object: &object };
    let reflect = |value: &str| {
        run(
            &format!("function ReflectStatus(o) return {value} end"),
            &request,
        )
    };
    assert_eq!(
        reflect("{ready = o.status.readyReplicas, half = 0.5, big = 10^15, none = {}}"),
        Ok(Response::Status(
            json!({"ready": 2, "half": 0.5, "big": 1_000_000_000_000_000_i64})
        ))
    );
    assert_eq!(reflect("{}"), Ok(Response::Status(json!({}))));
    assert_eq!(reflect("{1, 2}"), Ok(Response::Status(json!([1, 2]))));
    for value in ["nil", "1", "'x'"] {
        assert!(matches!(
            reflect(value),
            Err(ScriptError::ReturnType { .. })
        ));
    }
}

#[test]
fn health_is_a_boolean_and_an_observed_generation_that_lags_means_progressing() {
    let mut object = object();
    let text = "function InterpretHealth(o) return o.status.readyReplicas == o.spec.replicas end";
    let health = |object: &Value| match run(text, &Request::Health { object }) {
        Ok(Response::Health {
            assessment,
            healthy,
        }) => (assessment.health, healthy),
        other => panic!("{other:?}"),
    };
    assert_eq!(health(&object), (Health::Degraded, false));
    object["status"]["observedGeneration"] = json!(2);
    assert_eq!(health(&object), (Health::Progressing, false));
    object["status"]["readyReplicas"] = json!(3);
    assert_eq!(health(&object), (Health::Healthy, true));
    for value in ["nil", "1", "'true'", "{}", ""] {
        let text = format!("function InterpretHealth() return {value} end");
        let text = error(&text, &Request::Health { object: &object });
        assert!(
            text.contains("InterpretHealth must return boolean"),
            "{text}"
        );
    }
}

#[test]
fn dependencies_are_references() {
    let object = object();
    let request = Request::Dependency { object: &object };
    let text = "
        function GetDependencies(o)
          local found = {}
          table.insert(found, {apiVersion = 'v1', kind = 'Secret', namespace = o.metadata.namespace, name = 'key'})
          table.insert(found, {apiVersion = 'v1', kind = 'Pod', labelSelector = {matchLabels = {app = 'web'}}})
          return found
        end";
    let selected = DependentObject {
        label_selector: Some(json!({"matchLabels": {"app": "web"}})),
        ..dependency("Pod", "", "")
    };
    let expected = vec![dependency("Secret", "shop", "key"), selected];
    assert_eq!(run(text, &request), Ok(Response::Dependencies(expected)));
    let nothing = run("function GetDependencies() return {} end", &request);
    assert_eq!(nothing, Ok(Response::Dependencies(Vec::new())));
    let text = error("function GetDependencies() return nil end", &request);
    assert!(
        text.contains("must return table, but returned nil"),
        "{text}"
    );
}

#[test]
fn a_dependency_that_cannot_be_found_is_an_error() {
    let object = object();
    let request = Request::Dependency { object: &object };
    let cases = r"
        {name = 'x'} | missing field `apiVersion`
        {apiVersion = '', kind = 'Secret', name = 'x'}
            | apiVersion of dependency 2 is absent or empty
        {apiVersion = 'v1', kind = '', name = 'x'} | kind of dependency 2 is absent or empty
        {apiVersion = 'v1', kind = 'Secret', namespace = 'shop'}
            | dependency 2 has neither a name nor a labelSelector
        {apiVersion = 'v1', kind = 'Secret', labelSelector = {}}
            | dependency 2 has neither a name nor a labelSelector
        {apiVersion = 'v1', kind = 'Pod', labelSelector = {matchLabels = {['a b'] = 'c'}}}
            | labelSelector of dependency 2 cannot work
        {apiVersion = 'v1', kind = 'Pod', labelSelector = 'app=web'}
            | labelSelector of dependency 2 is not a LabelSelector
    ";
    for [reference, expected] in rows(cases) {
        let text = format!(
            "function GetDependencies()
              return {{{{apiVersion = 'v1', kind = 'Secret', name = 'key'}}, {reference}}}
            end"
        );
        let text = error(&text, &request);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn dependencies_of_several_scripts_are_united_and_sorted() {
    let (a, b, c) = (
        dependency("Secret", "x", "b"),
        dependency("ConfigMap", "y", "z"),
        dependency("Secret", "x", "a"),
    );
    let united = united(vec![
        vec![a.clone(), b.clone()],
        vec![c.clone(), a.clone()],
        Vec::new(),
    ]);
    assert_eq!(united, [b, c, a]);
}

#[test]
fn a_script_that_cannot_work_is_found_when_it_is_compiled() {
    let health = Operation::InterpretHealth;
    for (operation, text, expected) in [
        (
            health,
            "function Other() end",
            "script does not define the function InterpretHealth",
        ),
        (
            health,
            "InterpretHealth = 1",
            "does not define the function",
        ),
        (
            health,
            "local function InterpretHealth() end",
            "does not define the function",
        ),
        (health, "", "does not define the function"),
        (
            health,
            "function InterpretHealth(o)\n  return o.x +\nend",
            "line 3: ",
        ),
        (
            health,
            "function InterpretHealth(o)\n  goto out\nend",
            "line 2: goto out: ",
        ),
        (health, "error('at once')", "at once"),
        (health, "while true do end", "took more than"),
        (
            Operation::Prune,
            "function Prune(o) return o end",
            "script does not answer Prune",
        ),
    ] {
        let text = Script::compile(operation, text).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    let long = format!("-- {}", "x".repeat(300_000));
    let too_long = Script::compile(health, &long).unwrap_err();
    assert!(matches!(too_long, ScriptError::TooLong(_)));
}

#[test]
fn a_script_answers_its_own_operation_only() {
    let object = object();
    let script = Script::compile(
        Operation::InterpretHealth,
        "function InterpretHealth() return true end",
    )
    .unwrap();
    assert_eq!(
        script.run(&Request::Status { object: &object }),
        Err(ScriptError::Operation(Operation::InterpretStatus))
    );
}

#[test]
fn scripts_that_overwrite_globals_poison_nobody() {
    let object = object();
    let poison = "function InterpretHealth(o) type = 1 error = 'x' tostring = nil return true end";
    let check =
        "function InterpretHealth(o) return type(error) == 'function' and tostring(1) == '1' end";
    let request = Request::Health { object: &object };
    for text in [poison, check, poison, check] {
        let Ok(Response::Health { healthy: true, .. }) = run(text, &request) else {
            panic!("{text}");
        };
    }
}

#[test]
fn the_kube_library_checks_its_arguments() {
    let object = object();
    let request = Request::Status { object: &object };
    let call = |call: &str| {
        error(
            &format!(
                "local kube = require('kube') function ReflectStatus(o) return {{x = kube.{call}}} end"
            ),
            &request,
        )
    };
    let cases = r"
        resourceAdd(1) | bad argument #1 to resourceAdd (string expected, got number)
        resourceAdd(nil, {}) | bad argument #2 to resourceAdd (string expected, got table)
        resourceAdd('1', true) | bad argument #2
        accuratePodRequirements() | accuratePodRequirements takes 1 arguments, but was called with 0
        accuratePodRequirements({}, {}) | was called with 2
        accuratePodRequirements(nil) | table expected, got nil
        accuratePodRequirements({f = print}) | no JSON
        getPodDependencies({}) | getPodDependencies takes 2 arguments, but was called with 1
        getPodDependencies('x', 'y') | table expected, got string
        getPodDependencies({}, {})
            | bad argument #2 to getPodDependencies (string expected, got table)
        getResourceQuantity() | takes 1 arguments
        getResourceQuantity(5) | bad argument #1 to getResourceQuantity
        missing() | attempt to call a nil value
    ";
    for [text, expected] in rows(cases) {
        let error = call(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn the_kube_library_answers() {
    let object = object();
    let text = "
        local kube = require('kube')
        function ReflectStatus(o)
          local pod = o.spec.template
          return {
            none = kube.resourceAdd(),
            nils = kube.resourceAdd(nil, nil),
            zero = kube.getResourceQuantity(nil),
            requirements = type(kube.accuratePodRequirements(pod)),
            dependencies = type(kube.getPodDependencies(pod, nil)),
            caught = {pcall(kube.resourceAdd, 1)},
          }
        end";
    let Ok(Response::Status(status)) = run(text, &Request::Status { object: &object }) else {
        panic!("no status");
    };
    assert_eq!(status["none"], json!("0"));
    assert_eq!(status["nils"], json!("0"));
    assert_eq!(status["zero"], json!(0));
    assert_eq!(status["dependencies"], json!("table"));
    let error = "bad argument #1 to resourceAdd (string expected, got number)";
    assert_eq!(status["caught"], json!([false, error]));
}

#[test]
fn any_number_of_results_of_any_type_gets_an_answer() {
    let object = object();
    let requests = [
        Request::Replica { object: &object },
        Request::Component { object: &object },
        Request::Revise {
            object: &object,
            replicas: i64::MAX,
        },
        Request::Retain {
            desired: &object,
            observed: &Value::Null,
        },
        Request::AggregateStatus {
            object: &object,
            items: &[],
        },
        Request::Status { object: &object },
        Request::Health { object: &object },
        Request::Dependency { object: &object },
    ];
    let values = [
        "",
        "nil",
        "1",
        "-1e300",
        "'\\255'",
        "true",
        "{}",
        "{1}",
        "{{}}",
        "{a = {}}",
        "print",
        "{[1.5] = 1}",
        "{[-1] = 1}",
        "1, 2, 3",
    ];
    for request in &requests {
        for value in values {
            let function = function_of(request.operation()).unwrap();
            let text = format!("function {function}(...) return {value} end");
            let _ = run(&text, request);
        }
    }
}

#[test]
fn quantities_come_out_as_kubernetes_writes_them() {
    let object = object();
    let request = Request::Replica { object: &object };
    let text = "
        local kube = require('kube')
        function GetReplicas(o)
          return 2, {resourceRequest = {cpu = kube.resourceAdd('500m', nil, '1'), memory = ' 1024Mi ', gpu = 2}}
        end";
    let sum = |quantities: &[&str]| json!(crate::native::quantity::sum(quantities).unwrap());
    let Ok(Response::Replica {
        requirements: Some(requirements),
        ..
    }) = run(text, &request)
    else {
        panic!("no requirements");
    };
    let requested = requirements.resource_request;
    assert_eq!(requested["cpu"], sum(&["500m", "1"]));
    assert_eq!(requested["memory"], sum(&["1024Mi"]));
    assert_eq!(requested["gpu"], sum(&["2"]));
}
