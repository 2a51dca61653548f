use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_rows::{rows, typed};

fn released(webhook: &Value) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "examples"},
        "webhooks": [webhook],
    })
}

/// The example of Karmada's repository.
fn workloads() -> Value {
    json!({
        "name": "workloads.example.com",
        "rules": [{
            "operations": ["InterpretReplica", "ReviseReplica", "Retain", "AggregateStatus"],
            "apiGroups": ["workload.example.io"],
            "apiVersions": ["v1alpha1"],
            "kinds": ["Workload"],
        }],
        "clientConfig": {"url": "https://karmada-interpreter-webhook-example.karmada-system.svc:443/interpreter-workload", "caBundle": "LS0t"},
        "interpreterContextVersions": ["v1alpha1"],
        "timeoutSeconds": 3,
    })
}

fn founding() -> Value {
    serde_saphyr::from_str(
        "
apiVersion: config.karmada.io/v1alpha1
kind: ResourceExploringWebhookConfiguration
metadata:
  name: example
webhooks:
  - name: foo.example.com
    rules:
      - operations: [ExploreRetaining, ExploreHealthy]
        apiGroups: [foo.example.com]
        apiVersions: ['*']
        resources: [foos]
        scope: Namespaced
    clientConfig:
      url: https://xxx:443/explore-foo
      caBundle: LS0tLS1CRUdJTi4uLg==
    failurePolicy: Ignore
    exploreReviewVersions: [v1alpha1]
  - name: bar.example.com
    rules:
      - operations: [ExploreDependencies, ExploreHealthy]
        apiGroups: [bar.example.com]
        apiVersions: ['*']
        resources: [bars]
        scope: Cluster
    clientConfig:
      url: https://xxx:443/explore-bar
      caBundle: LS0tLS1CRUdJTi4uLg==
    exploreReviewVersions: [v1alpha1]
    timeoutSeconds: 30
",
    )
    .unwrap()
}

fn resource(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Resource {
    Resource {
        gvk: Gvk::from_api_version(api_version, kind),
        plural: plural.into(),
        namespaced,
    }
}

fn named(operation: &str) -> Operation {
    Operation::from_name(operation).unwrap()
}

fn workload() -> Resource {
    resource(
        "workload.example.io/v1alpha1",
        "Workload",
        "workloads",
        true,
    )
}

fn only_webhook(object: &Value) -> Webhook {
    let [webhook] = WebhookConfiguration::parse(object)
        .unwrap()
        .webhooks
        .try_into()
        .unwrap();
    webhook
}

#[test]
fn a_released_configuration_is_read() {
    assert_eq!(validate(&released(&workloads())), []);
    let webhook = only_webhook(&released(&workloads()));
    assert_eq!(webhook.id, "examples/workloads.example.com");
    assert_eq!(webhook.dialect, Dialect::Released);
    assert_eq!(webhook.timeout, Duration::from_secs(3));
    assert_eq!(webhook.failure_policy, FailurePolicy::Fail);
    let endpoint = webhook.endpoint.clone().unwrap();
    assert_eq!(endpoint.ca_bundle.as_deref(), Some(&b"---"[..]));
    assert!(
        matches!(endpoint.address, WebhookAddress::Url(url) if url.ends_with("/interpreter-workload"))
    );
    let cases = r"
        Retain | workload.example.io/v1alpha1 | Workload | true
        InterpretHealth | workload.example.io/v1alpha1 | Workload | false
        Retain | workload.example.io/v1 | Workload | false
        Retain | example.io/v1alpha1 | Workload | false
        Retain | workload.example.io/v1alpha1 | workload | false
    ";
    for (operation, api_version, kind, matches) in typed::<(&str, &str, &str, bool)>(cases) {
        let resource = resource(api_version, kind, "workloads", true);
        assert_eq!(
            webhook.matches(named(operation), &resource),
            matches,
            "{operation} {resource:?}"
        );
    }
}

#[test]
fn a_proposed_configuration_is_read() {
    assert_eq!(validate(&founding()), []);
    let webhooks = WebhookConfiguration::parse(&founding()).unwrap().webhooks;
    let [foo, bar] = &webhooks[..] else {
        panic!("{webhooks:?}");
    };
    assert_eq!(foo.failure_policy, FailurePolicy::Ignore);
    assert_eq!(bar.failure_policy, FailurePolicy::Fail);
    assert_eq!(foo.timeout, DEFAULT_TIMEOUT);
    assert_eq!(bar.timeout, MAX_TIMEOUT);
    let cases = r"
        foo | Retain | v7 | Foo | foos | true | true
        foo | Retain | v7 | Foo | foos | false | false
        foo | Retain | v7 | Foo | foo | true | false
        foo | InterpretDependency | v7 | Foo | foos | true | false
        bar | InterpretDependency | v1 | Bar | bars | false | true
        bar | InterpretDependency | v1 | Bar | bars | true | false
    ";
    for [
        webhook,
        operation,
        version,
        kind,
        plural,
        namespaced,
        matches,
    ] in rows(cases)
    {
        let api_version = format!("{webhook}.example.com/{version}");
        let resource = resource(&api_version, kind, plural, namespaced.parse().unwrap());
        let webhook = if webhook == "foo" { foo } else { bar };
        assert_eq!(
            webhook.matches(named(operation), &resource),
            matches.parse::<bool>().unwrap(),
            "{} {operation} {resource:?}",
            webhook.id
        );
    }
}

#[test]
fn a_star_stands_for_everything_that_the_dialect_has() {
    let mut webhook = workloads();
    webhook["rules"] = json!([{"operations": ["*", "odd"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*", "Pod"]}]);
    let webhook = only_webhook(&released(&webhook));
    let node = resource("v1", "Node", "nodes", false);
    for operation in Operation::ALL {
        assert_eq!(
            webhook.matches(operation, &node),
            operation != Operation::Prune,
            "{operation}"
        );
    }
}

#[test]
fn resources_are_matched_as_those_of_admission_webhooks() {
    let pods = resource("v1", "Pod", "pods", true);
    for (resources, matches) in [
        (json!(["pods"]), true),
        (json!(["*"]), true),
        (json!(["*/*"]), true),
        (json!(["pods/*"]), true),
        (json!(["nodes", "pods"]), true),
        (json!(["pods/log"]), false),
        (json!(["*/log"]), false),
        (json!(["Pod"]), false),
        (json!([]), false),
        (json!("pods"), false),
    ] {
        let mut object = founding();
        let rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources});
        object["webhooks"] = json!([{"name": "a.b", "rules": [rule]}]);
        let webhook = only_webhook(&object);
        assert_eq!(
            webhook.matches(Operation::InterpretHealth, &pods),
            matches,
            "{resources}"
        );
        assert!(!webhook.matches(Operation::InterpretComponent, &pods));
    }
}

#[test]
fn the_webhook_with_the_smallest_id_is_asked() {
    let webhook = |configuration: &str, name: &str| {
        let mut object = released(&workloads());
        object["metadata"]["name"] = json!(configuration);
        object["webhooks"][0]["name"] = json!(name);
        only_webhook(&object)
    };
    let webhooks = [
        webhook("b", "a.x"),
        webhook("a", "b.x"),
        webhook("a-b", "a.x"),
        webhook("B", "z.x"),
    ];
    let workload = workload();
    let asked = |webhooks: &[Webhook]| {
        select(webhooks, Operation::Retain, &workload).map(|webhook| webhook.id.clone())
    };
    assert_eq!(asked(&webhooks).as_deref(), Some("B/z.x"));
    assert_eq!(asked(&webhooks[..3]).as_deref(), Some("a-b/a.x"));
    assert_eq!(asked(&[]), None);
    assert_eq!(
        select(&webhooks, Operation::InterpretHealth, &workload),
        None
    );
}

#[test]
fn a_service_has_defaults_and_counts_before_a_url() {
    let mut webhook = workloads();
    webhook["clientConfig"] = json!({"service": {"namespace": "web", "name": "hook"}});
    let endpoint = only_webhook(&released(&webhook)).endpoint.unwrap();
    assert_eq!(
        endpoint.address,
        WebhookAddress::Service {
            namespace: "web".to_owned(),
            name: "hook".to_owned(),
            path: "/".to_owned(),
            port: 443,
        }
    );
    assert_eq!(endpoint.ca_bundle, None);
    webhook["clientConfig"]["url"] = json!("https://x");
    webhook["clientConfig"]["service"]["path"] = json!("/a/b.c/");
    webhook["clientConfig"]["service"]["port"] = json!(8443);
    let both = released(&webhook);
    assert!(matches!(
        only_webhook(&both).endpoint.unwrap().address,
        WebhookAddress::Service { port: 8443, path, .. } if path == "/a/b.c/"
    ));
    assert_eq!(
        validate(&both)[0].to_string(),
        "webhooks[0].clientConfig: set either url or service, not both"
    );
}

#[test]
fn urls_are_checked() {
    for url in [
        "https://a",
        "HTTPS://a.b:8443/x/y",
        "https://127.0.0.1:1/",
        "https://[::1]:443/a",
        "https://[::1]",
        "https://xxx:443/explore-foo@v1",
    ] {
        let mut webhook = workloads();
        webhook["clientConfig"] = json!({"url": url});
        assert_eq!(validate(&released(&webhook)), [], "{url}");
    }
    for (url, expected) in [
        ("", "must be a URL"),
        ("example.com/x", "must be a URL"),
        ("https://", "must be a URL"),
        ("https:///x", "must be a URL"),
        ("https://:443/x", "must be a URL"),
        ("https://a:0/x", "must be a URL"),
        ("https://a:99999/x", "must be a URL"),
        ("https://a:b:1/x", "must be a URL"),
        ("https://[::1/x", "must be a URL"),
        ("https://[::1]x/y", "must be a URL"),
        ("https://a b/", "must be a URL"),
        ("http://a/x", "must start with https://"),
        ("https://u:p@a/x", "must have no user"),
        ("https://a/x?y=1", "neither a query nor a fragment"),
        ("https://a/x#y", "neither a query nor a fragment"),
    ] {
        let mut webhook = workloads();
        webhook["clientConfig"] = json!({"url": url});
        let object = released(&webhook);
        let problems = validate(&object);
        assert_eq!(problems.len(), 1, "{url} {problems:?}");
        assert_eq!(problems[0].path, "webhooks[0].clientConfig.url");
        assert!(problems[0].message.contains(expected), "{url} {problems:?}");
        assert_eq!(only_webhook(&object).endpoint, Err(problems[0].clone()));
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let cases = r#"
        released | /name | "workloads"
            | webhooks[0].name: "workloads" must be a domain name of at least two labels
        released | /name | "A.b" | webhooks[0].name: "A.b" must be
        released | /name | 5 | webhooks[0].name: "" must be
        released | /clientConfig | {} | webhooks[0].clientConfig: set either url or service
        released | /clientConfig | {"service": {"name": "a"}}
            | webhooks[0].clientConfig.service.namespace: is needed
        released | /clientConfig | {"service": {"name": "a", "namespace": "b", "port": 65536}}
            | webhooks[0].clientConfig.service.port: must be a port from 1 to 65535
        released | /clientConfig | {"service": {"name": "a", "namespace": "b", "path": "x"}}
            | webhooks[0].clientConfig.service.path: "x" must start with '/'
        released | /clientConfig | {"service": {"name": "a", "namespace": "b", "path": "/a//b"}}
            | webhooks[0].clientConfig.service.path: the segment "" must be
        released | /clientConfig | {"service": {"name": "a", "namespace": "b", "path": "/A_b"}}
            | webhooks[0].clientConfig.service.path: the segment "A_b" must be
        released | /clientConfig/caBundle | "?"
            | webhooks[0].clientConfig.caBundle: write the PEM certificates
        released | /timeoutSeconds | 0 | webhooks[0].timeoutSeconds: must be from 1 to 30
        released | /timeoutSeconds | 31 | webhooks[0].timeoutSeconds: must be from 1 to 30
        released | /interpreterContextVersions | []
            | webhooks[0].interpreterContextVersions: must include v1alpha1
        released | /interpreterContextVersions | ["v2"]
            | webhooks[0].interpreterContextVersions: must include v1alpha1
        released | /interpreterContextVersions | ["v1alpha1", "v1alpha1"]
            | webhooks[0].interpreterContextVersions[1]: "v1alpha1" is listed twice
        released | /interpreterContextVersions | ["v1alpha1", "1v"]
            | webhooks[0].interpreterContextVersions[1]: "1v" must be a version
        released | /rules/0/operations | []
            | webhooks[0].rules[0].operations: needs at least one entry
        released | /rules/0/operations | ["*", "Retain"]
            | webhooks[0].rules[0].operations: must have no other entries beside "*"
        released | /rules/0/operations | ["Prune"]
            | webhooks[0].rules[0].operations[0]: "Prune" must be one of *, InterpretReplica,
            InterpretComponent
        released | /rules/0/operations | ["ExploreHealthy"]
            | webhooks[0].rules[0].operations[0]: "ExploreHealthy" must be
        released | /rules/0/apiGroups | ["*", ""]
            | webhooks[0].rules[0].apiGroups: must have no other entries
        released | /rules/0/apiVersions | [""]
            | webhooks[0].rules[0].apiVersions[0]: must not be empty
        released | /rules/0/kinds | ["Pod", ""] | webhooks[0].rules[0].kinds[1]: must not be empty
        released | /rules/0/kinds | null | webhooks[0].rules[0].kinds: needs at least one entry
        proposed | /failurePolicy | "Retry" | webhooks[0].failurePolicy: must be Fail or Ignore
        proposed | /rules/0/scope | "All"
            | webhooks[0].rules[0].scope: must be *, Cluster or Namespaced
        proposed | /rules/0/resources | ["*/*", "pods"]
            | webhooks[0].rules[0].resources: must have no other entries beside "*/*"
        proposed | /rules/0/operations | ["InterpretHealth"]
            | "InterpretHealth" must be one of *, ExploreReplica, ExploreReplicaRevising
        proposed | /exploreReviewVersions | null
            | webhooks[0].exploreReviewVersions: must include v1alpha1
        proposed | /name | "bar.example.com" | webhooks[1].name: "bar.example.com" is taken
    "#;
    for (dialect, path, value, expected) in typed::<(&str, &str, Value, &str)>(cases) {
        let mut webhook = workloads();
        let mut object = founding();
        let changed = match dialect {
            "released" => &mut webhook,
            _ => &mut object["webhooks"][0],
        };
        let (parent, last) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[last] = value;
        if dialect == "released" {
            object = released(&webhook);
        }
        let problems: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 1, "{expected} {problems:?}");
        assert!(
            problems[0].starts_with(expected) || problems[0].contains(expected),
            "{expected}\n{problems:?}"
        );
    }
}

#[test]
fn a_webhook_that_speaks_no_known_version_matches_and_cannot_be_called() {
    let mut webhook = workloads();
    webhook["interpreterContextVersions"] = json!(["v2"]);
    let webhook = only_webhook(&released(&webhook));
    let workload = workload();
    assert!(webhook.matches(Operation::Retain, &workload));
    assert_eq!(
        webhook.endpoint.unwrap_err().path,
        "webhooks[0].interpreterContextVersions"
    );
}

#[test]
fn timeouts_out_of_range_are_mended() {
    for (timeout, seconds) in [
        (json!(null), 10),
        (json!(0), 10),
        (json!(-3), 10),
        (json!("5"), 10),
        (json!(1), 1),
        (json!(600), 30),
    ] {
        let mut webhook = workloads();
        webhook["timeoutSeconds"] = timeout;
        assert_eq!(
            only_webhook(&released(&webhook)).timeout,
            Duration::from_secs(seconds)
        );
    }
}

/// If this fails, every document that the webhook decides about is written again after an upgrade.
#[test]
fn a_webhook_is_identified_by_what_it_stands_for() {
    let identity = |object: &Value| {
        let configuration = WebhookConfiguration::parse(object).unwrap();
        let webhooks = configuration.webhooks.iter().map(Webhook::identity);
        webhooks
            .map(|webhook| webhook.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let mut broken = workloads();
    broken["clientConfig"] = json!({});
    insta::assert_snapshot!(
        [released(&workloads()), founding(), released(&broken)].each_ref().map(identity).join("\n"),
        @r#"
    ["examples/workloads.example.com","ResourceInterpreterWebhookConfiguration",[["url","https://karmada-interpreter-webhook-example.karmada-system.svc:443/interpreter-workload"],"LS0t"],[[["AggregateStatus","InterpretReplica","Retain","ReviseReplica"],["workload.example.io"],["v1alpha1"],["kinds",["Workload"]]]],3000,false]
    ["example/foo.example.com","ResourceExploringWebhookConfiguration",[["url","https://xxx:443/explore-foo"],"LS0tLS1CRUdJTi4uLg=="],[[["ExploreHealthy","ExploreRetaining"],["foo.example.com"],"*",["resources",["foos"],true]]],10000,true]
    ["example/bar.example.com","ResourceExploringWebhookConfiguration",[["url","https://xxx:443/explore-bar"],"LS0tLS1CRUdJTi4uLg=="],[[["ExploreDependencies","ExploreHealthy"],["bar.example.com"],"*",["resources",["bars"],false]]],30000,false]
    ["examples/workloads.example.com","ResourceInterpreterWebhookConfiguration",{"webhooks[0].clientConfig":"set either url or service"},[[["AggregateStatus","InterpretReplica","Retain","ReviseReplica"],["workload.example.io"],["v1alpha1"],["kinds",["Workload"]]]],3000,false]
    "#
    );
}

#[test]
fn other_objects_are_no_configurations() {
    for object in [
        json!(null),
        json!({"apiVersion": "v1", "kind": "ResourceInterpreterWebhookConfiguration"}),
        json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization"}),
    ] {
        assert_eq!(WebhookConfiguration::parse(&object), None);
        assert_eq!(validate(&object).len(), 1);
    }
}

#[test]
fn resources_are_guessed_where_nobody_serves_them() {
    let cases = r"
        apps/v1 | Deployment | | deployments | true
        networking.k8s.io/v1 | NetworkPolicy | | networkpolicies | true
        v1 | Node | | nodes | false
        example.io/v1 | Policy | a | policies | true
        example.io/v1 | Bus | | buses | false
        example.io/v1 | Workload | a | workloads | true
        | | | s | false
    ";
    for (api_version, kind, namespace, plural, namespaced) in
        typed::<(&str, &str, &str, &str, bool)>(cases)
    {
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}});
        let resource = guessed_resource(&object);
        assert_eq!(
            (&*resource.plural, resource.namespaced),
            (plural, namespaced),
            "{kind}"
        );
    }
}

proptest! {
    #[test]
    fn no_configuration_makes_reading_panic(
        path in prop::sample::select(vec![
            "", "/webhooks", "/webhooks/0", "/webhooks/0/name", "/webhooks/0/rules", "/webhooks/0/rules/0", "/webhooks/0/rules/0/operations",
            "/webhooks/0/clientConfig", "/webhooks/0/clientConfig/url", "/webhooks/0/clientConfig/caBundle", "/webhooks/0/timeoutSeconds",
        ]),
        odd in prop_oneof![
            Just(json!(null)), Just(json!([])), Just(json!({})), Just(json!([null, 1, "*", {}])), any::<f64>().prop_map(Value::from), any::<String>().prop_map(Value::from),
        ],
    ) {
        let mut object = released(&workloads());
        *object.pointer_mut(path).unwrap() = odd;
        let _ = validate(&object);
        let _ = WebhookConfiguration::parse(&object);
    }
}
