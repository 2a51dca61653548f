use std::sync::Arc;

use fleetdex_clusters::{
    definitions::Definitions,
    discovery::{Discovery, ResourceCapabilities, ServedResource, Subresource},
};
use fleetdex_core::model::{Gvk, JsonTree, Resource, Scope, StoreName};
use fleetdex_interpreter::rules::{KindRules, WebhookAnswers};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{resolve::group_kind, *};

fn plan(registries: &[RegistryView], members: &[MemberView]) -> Plan {
    super::plan(registries, members, &RuleSet::default())
}

fn served(api_version: &str, kind: &str, namespaced: bool, preferred: bool) -> ServedResource {
    let resource = Resource {
        gvk: Gvk::from_api_version(api_version, kind),
        plural: format!("{}s", kind.to_lowercase()).into(),
        namespaced,
    };
    ServedResource {
        resource,
        singular: kind.to_lowercase().into(),
        short_names: Vec::new(),
        list_and_watch: true,
        preferred,
        capabilities: std::sync::Arc::default(),
    }
}

fn discovery() -> Discovery {
    let mut binding = served("v1", "Binding", true, true);
    binding.list_and_watch = false;
    Discovery {
        served: vec![
            served("v1", "Pod", true, true),
            served("v1", "Secret", true, true),
            served("v1", "Node", false, true),
            served("v1", "Event", true, true),
            binding,
            served("events.k8s.io/v1", "Event", true, true),
            served("apps/v1", "Deployment", true, true),
            served("batch/v1", "Job", true, true),
            served("batch/v1beta1", "CronJob", true, false),
            served("a.example/v2", "Widget", true, true),
            served("a.example/v1", "Widget", true, false),
            served("b.example/v1", "Widget", true, true),
            served("b.example/v1", "Gadget", true, true),
        ],
        ..Discovery::default()
    }
}

fn member_with(name: &str, discovery: Option<Discovery>) -> MemberView {
    MemberView {
        name: name.parse().unwrap(),
        labels: BTreeMap::new(),
        provider: String::new(),
        region: String::new(),
        zones: Vec::new(),
        discovery: discovery.map(Arc::new),
        definitions: Some(Arc::default()),
        is_duplicate: false,
    }
}

#[test]
fn a_duplicate_member_has_a_row_and_nothing_of_it_is_stored() {
    let mut duplicate = member("twin");
    duplicate.is_duplicate = true;
    let plan = plan(
        &[registry(
            "one",
            1,
            json!([{ "apiVersion": "v1", "kind": "Pod" }]),
        )],
        &[member("first"), duplicate],
    );
    let names: Vec<&str> = plan.registries["one"]
        .clusters
        .keys()
        .map(ClusterName::as_str)
        .collect();
    assert_eq!(names, ["first", "twin"]);
    assert!(
        plan.streams
            .keys()
            .all(|stream| stream.unit.cluster.as_str() == "first")
    );
    // A cluster without a scope is dropped from the store.
    assert!(
        plan.coverage
            .keys()
            .all(|(_, cluster)| cluster.as_str() == "first")
    );
}

fn member(name: &str) -> MemberView {
    member_with(name, Some(discovery()))
}

fn registry_from(name: &str, created: i64, spec: Value) -> RegistryView {
    RegistryView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created: Some(Timestamp::from_second(created).unwrap()),
        spec: serde_json::from_value(spec).unwrap(),
    }
}

fn registry(name: &str, created: i64, selectors: Value) -> RegistryView {
    let store = json!({"openSearch": {"addresses": ["https://os:9200"]}});
    registry_from(
        name,
        created,
        json!({"resourceSelectors": selectors, "backendStore": store}),
    )
}

#[test]
fn custom_resources_wait_for_their_definitions_and_get_the_fields_of_these() {
    let selectors = json!([{ "apiVersion": "v1", "kind": "Pod" }, { "apiVersion": "b.example/v1", "kind": "Gadget" }]);
    let registries = [registry("r", 1, selectors)];
    let unknown = MemberView {
        definitions: None,
        ..member("m1")
    };
    let waiting = plan(&registries, &[unknown]);
    assert_eq!(units(&waiting), ["m1:v1/Pod"]);
    assert!(
        !coverage(&waiting).certain,
        "nothing may be deleted meanwhile"
    );
    assert!(!waiting.registries["r"].clusters[&"m1".parse().unwrap()].discovered);

    let defined = json!({ "spec": { "group": "b.example", "names": { "plural": "gadgets" }, "versions": [
        { "name": "v1", "selectableFields": [{ "jsonPath": ".spec.color" }] },
        { "name": "v2", "selectableFields": [{ "jsonPath": ".spec.colour" }] },
    ] } });
    let known = MemberView {
        definitions: Some(Arc::new(Definitions::of([defined]))),
        ..member("m1")
    };
    let complete = plan(&registries, &[known]);
    let fields: Vec<String> = complete
        .streams
        .iter()
        .map(|(stream, unit)| format!("{}: {:?}", stream.unit, unit.fields))
        .collect();
    assert_eq!(
        fields,
        [
            "m1:v1/Pod: []",
            r#"m1:b.example/v1/Gadget: [FieldPath("spec.color")]"#
        ]
    );
    assert!(coverage(&complete).certain);
}

#[test]
fn an_object_without_a_status_is_healthy_if_the_schema_of_its_kind_has_none_or_no_object_has_had_one()
 {
    let mut found = discovery();
    for served in &mut found.served {
        let status = Subresource {
            name: "status".into(),
            kind: served.resource.gvk.clone(),
            verbs: Vec::new(),
        };
        served.capabilities = Arc::new(ResourceCapabilities {
            subresources: vec![status],
            ..ResourceCapabilities::default()
        });
    }
    let rules = |properties: Value| {
        let defined = json!({ "spec": { "group": "b.example", "names": { "plural": "gadgets" }, "versions": [
            { "name": "v1", "schema": { "openAPIV3Schema": { "properties": properties } } },
        ] } });
        let member = MemberView {
            definitions: Some(Arc::new(Definitions::of([defined]))),
            ..member_with("m1", Some(found.clone()))
        };
        let selectors = json!([{ "apiVersion": "b.example/v1", "kind": "Gadget" }]);
        let plan = plan(&[registry("r", 1, selectors)], &[member]);
        let unit = plan.streams.values().next().unwrap();
        unit.rules.clone().unwrap()
    };
    let health = |rules: &KindRules, status: Value| {
        let gadget = json!({
            "apiVersion": "b.example/v1", "kind": "Gadget", "metadata": { "name": "g" }, "spec": {}, "status": status,
        });
        let found = rules.interpret_with(&JsonTree::from(&gadget), &WebhookAnswers::default());
        format!("{} {}", found.health, found.health_reason)
    };
    let unaware = rules(json!({ "spec": {}, "status": {} }));
    for blank in [Value::Null, json!({}), json!({ "phase": "" })] {
        assert_eq!(health(&unaware, blank), "Healthy NoController");
    }
    assert!(!unaware.have_seen_status());
    let failed = json!({ "phase": "Failed" });
    assert_eq!(health(&unaware, failed), "Degraded Failed");
    assert!(unaware.have_seen_status());
    let aware = unaware.of_written_status().unwrap();
    assert_ne!(aware.hash(), unaware.hash());
    assert_eq!(health(&aware, Value::Null), "Progressing NoStatus");
    assert!(aware.of_written_status().is_none() && !aware.have_seen_status());
    let without = rules(json!({ "spec": {} }));
    assert_eq!(health(&without, Value::Null), "Healthy ");
    assert!(without.of_written_status().is_none());
}

/// The units of a plan as text.
fn units(plan: &Plan) -> Vec<String> {
    plan.streams
        .keys()
        .map(|stream| stream.unit.to_string())
        .collect()
}

fn planned(selectors: Value) -> Plan {
    plan(&[registry("r", 1, selectors)], &[member("m1")])
}

fn problems(plan: &Plan) -> Vec<String> {
    let clusters = plan
        .registries
        .values()
        .flat_map(|registry| registry.clusters.values());
    clusters
        .flat_map(|cluster| &cluster.problems)
        .map(|problem| problem.problem.to_string())
        .collect()
}

fn coverage(plan: &Plan) -> &Coverage {
    plan.coverage.values().next().unwrap()
}

#[test]
fn a_selector_names_exactly_the_resources_that_the_member_serves() {
    // Kind, version and namespace of a selector; whether the coverage is certain; its units or
    // problems.
    let cases = r#"
        Pod v1 | certain | m1:v1/Pod
        Pod | certain | m1:v1/Pod
        Event | certain | m1:v1/Event
        Event events.k8s.io/v1 | certain | m1:events.k8s.io/v1/Event
        Deployment apps/v1beta1 | certain | m1:apps/v1/Deployment
        CronJob batch/v1 | certain | m1:batch/v1beta1/CronJob
        Widget a.example/v1 | certain | m1:a.example/v1/Widget
        Widget a.example/v9 | certain | m1:a.example/v2/Widget
        Gadget | certain | m1:b.example/v1/Gadget
        Widget | uncertain | the server has "Widget" in several groups (a.example, b.example): set apiVersion to one of them
        Nothing | certain | the server doesn't have a resource type "Nothing"
        Pod apps/v1 | certain | the server doesn't have a resource type "Pod" in apps/v1
        Binding | certain | the server's "Binding" cannot be listed and watched
        * b.example/v7 | certain | m1:b.example/v1/Gadget, m1:b.example/v1/Widget
        * v1 | certain | m1:v1/Event, m1:v1/Node, m1:v1/Pod, m1:v1/Secret
        * v1 web | certain | m1:v1/Event in web, m1:v1/Pod in web, m1:v1/Secret in web
        * c.example/v1 | certain | the server doesn't have a resource type "*" in c.example/v1
    "#;
    for case in cases.trim().lines().map(str::trim) {
        let selector = case.split_once(" | ").unwrap().0;
        let mut parts = selector.split(' ');
        let mut object = json!({"kind": parts.next()});
        for (member, part) in ["apiVersion", "namespace"].into_iter().zip(parts) {
            object[member] = part.into();
        }
        let plan = planned(json!([object]));
        let certain = if coverage(&plan).certain {
            "certain"
        } else {
            "uncertain"
        };
        let found = [units(&plan), problems(&plan)].concat().join(", ");
        assert_eq!(format!("{selector} | {certain} | {found}"), case);
    }
}

#[test]
fn everything_is_every_kind_once() {
    let plan = planned(json!([{"apiVersion": "*", "kind": "*"}]));
    let expected = [
        "m1:v1/Event",
        "m1:v1/Node",
        "m1:v1/Pod",
        "m1:v1/Secret",
        "m1:a.example/v2/Widget",
        "m1:apps/v1/Deployment",
        "m1:b.example/v1/Gadget",
        "m1:b.example/v1/Widget",
        "m1:batch/v1/Job",
        "m1:batch/v1beta1/CronJob",
    ];
    assert_eq!(units(&plan), expected);
}

#[test]
fn nothing_is_certain_while_discovery_of_a_group_fails() {
    let broken = Discovery {
        unknown: ["metrics.example/v1".to_owned()].into(),
        ..discovery()
    };
    let of = |selector: Value| {
        plan(
            &[registry("r", 1, json!([selector]))],
            &[member_with("m1", Some(broken.clone()))],
        )
    };
    let named = of(json!({"kind": "Thing", "apiVersion": "metrics.example/v1"}));
    assert!(!coverage(&named).certain && units(&named).is_empty());
    assert_eq!(
        problems(&named),
        [
            r#"the server did not answer for metrics.example/v1: it is not certain which resources "Thing" in metrics.example/v1 stands for"#
        ]
    );
    let unnamed = of(json!({"kind": "Thing"}));
    assert!(!coverage(&unnamed).certain);
    let everything = of(json!({"kind": "*", "apiVersion": "*"}));
    assert!(!coverage(&everything).certain && units(&everything).len() == 10);
    let unconcerned = of(json!({"kind": "Pod", "apiVersion": "v1"}));
    assert!(coverage(&unconcerned).certain && problems(&unconcerned).is_empty());
}

#[test]
fn a_member_without_discovery_has_no_units_and_nothing_is_certain() {
    let plan = plan(
        &[registry("r", 1, json!([{"kind": "Pod"}]))],
        &[member_with("m1", None)],
    );
    assert!(plan.streams.is_empty() && !coverage(&plan).certain);
    assert!(
        !plan.registries["r"]
            .clusters
            .values()
            .next()
            .unwrap()
            .discovered
    );
}

#[test]
fn a_resource_is_one_stream_if_any_route_selects_all_namespaces_and_else_one_per_namespace() {
    let named = planned(
        json!([{"kind": "Pod", "namespace": "web"}, {"kind": "Pod", "namespaces": ["db", "web"]}]),
    );
    assert_eq!(units(&named), ["m1:v1/Pod in db", "m1:v1/Pod in web"]);
    let routes: Vec<usize> = named
        .streams
        .values()
        .map(|unit| unit.routes.len())
        .collect();
    assert_eq!(routes, [1, 2]);
    let extent =
        NamespaceExtent::Namespaces(["db".parse().unwrap(), "web".parse().unwrap()].into());
    assert_eq!(
        coverage(&named).kinds.values().collect::<Vec<_>>(),
        [&extent]
    );
    let all = planned(
        json!([{"kind": "Pod", "namespace": "web"}, {"kind": "Pod", "excludeNamespaces": ["db"]}]),
    );
    assert_eq!(units(&all), ["m1:v1/Pod"]);
    assert_eq!(
        coverage(&all).kinds.values().collect::<Vec<_>>(),
        [&NamespaceExtent::All]
    );
}

#[test]
fn registries_of_one_stream_are_counted_apart_if_they_select_different_objects() {
    let of = |name: &str, created: i64, selector: Value| registry(name, created, json!([selector]));
    let all = json!({"kind": "Pod"});
    let web = json!({"kind": "Pod", "namespace": "web"});
    let differing = plan(
        &[
            of("a", 1, all.clone()),
            of("b", 2, web.clone()),
            of("c", 3, web),
        ],
        &[member("m1")],
    );
    let stream = differing.streams.values().next().unwrap();
    assert_eq!(stream.selections.len(), 3);
    assert_eq!(stream.selections["b"], stream.selections["c"]);
    let routes: BTreeMap<Arc<str>, Vec<usize>> =
        stream.routes_of_selections().into_iter().collect();
    assert_eq!(routes[&stream.selections["a"]], [0]);
    assert_eq!(routes[&stream.selections["b"]], [1, 2]);
    let same = plan(&[of("a", 1, all.clone()), of("b", 2, all)], &[member("m1")]);
    assert!(same.streams.values().next().unwrap().selections.is_empty());
    let named = |registry: &str| differing.registries[registry].namespaces.clone();
    assert!(named("a").is_empty());
    assert_eq!(named("b"), BTreeSet::from(["web".to_owned()]));
}

#[test]
fn two_versions_of_a_kind_are_one_stream_in_the_version_that_was_selected_first() {
    let widgets =
        |version: &str| json!([{"kind": "Widget", "apiVersion": format!("a.example/{version}")}]);
    let plan = plan(
        &[
            registry("young", 2, widgets("v2")),
            registry("old", 1, widgets("v1")),
        ],
        &[member("m1")],
    );
    assert_eq!(units(&plan), ["m1:a.example/v1/Widget"]);
    assert_eq!(plan.streams.values().next().unwrap().routes.len(), 1 + 1);
    let notes = |name: &str| {
        plan.registries[name]
            .clusters
            .values()
            .flat_map(|cluster| cluster.notes.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(notes("old"), [] as [&str; 0]);
    assert_eq!(
        notes("young"),
        [
            "a.example/v2/Widget is stored in version v1, which was selected before: an object is stored once"
        ]
    );
}

#[test]
fn a_stream_whose_version_is_no_longer_served_is_replaced_by_one_of_another_version() {
    let selectors = json!([{"kind": "Widget", "apiVersion": "a.example/v2"}, {"kind": "Gadget"}]);
    let of = |discovery: Discovery| {
        plan(
            &[registry("r", 1, selectors.clone())],
            &[member_with("m1", Some(discovery))],
        )
    };
    let before = of(discovery());
    let mut later = discovery();
    later.served.retain(|served| {
        served.group_version() != "a.example/v2" && &*served.resource.gvk.kind != "Gadget"
    });
    let after = of(later);
    let names = |streams: BTreeSet<StreamKey>| {
        streams
            .iter()
            .map(|stream| stream.unit.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(after.replaced(&before)), ["m1:a.example/v2/Widget"]);
    assert_eq!(names(before.replaced(&after)), ["m1:a.example/v1/Widget"]);
    assert_eq!(names(before.replaced(&before)), [] as [&str; 0]);
}

#[test]
fn a_namespace_of_a_cluster_scoped_kind_is_ignored_with_a_note() {
    let plan = planned(json!([{"kind": "Node", "namespace": "web"}]));
    assert_eq!(units(&plan), ["m1:v1/Node"]);
    let cluster = plan.registries["r"].clusters.values().next().unwrap();
    assert_eq!(
        cluster.notes.iter().collect::<Vec<_>>(),
        ["v1/Node is cluster-scoped: all of it is indexed"]
    );
}

#[test]
fn a_selector_reaches_the_member_only_when_every_route_has_it() {
    let web = json!({"kind": "Pod", "labelSelector": {"matchLabels": {"app": "web"}}});
    let named = json!({"kind": "Secret", "fieldSelector": {"matchExpressions": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}});
    let running = json!({"kind": "Job", "fieldSelector": {"matchExpressions": [{"key": "status.x", "operator": "In", "values": ["a"]}]}});
    let pushed = |plan: &Plan| {
        plan.streams
            .values()
            .map(|unit| (unit.label_selector.clone(), unit.field_selector.clone()))
            .collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(pushed(&planned(json!([web]))), [(text("app=web"), None)]);
    assert_eq!(
        pushed(&planned(json!([named]))),
        [(None, text("metadata.name=a"))]
    );
    assert_eq!(pushed(&planned(json!([running]))), [(None, None)]);
    assert_eq!(
        pushed(&planned(json!([web, {"kind": "Pod"}]))),
        [(None, None)]
    );
    let phases = |operator: &str| {
        let requirement =
            json!({"key": "status.phase", "operator": operator, "values": ["Failed", "Running"]});
        json!([{"kind": "Pod", "fieldSelector": {"matchExpressions": [requirement]}}])
    };
    assert_eq!(
        pushed(&planned(phases("NotIn"))),
        [(None, text("status.phase!=Failed,status.phase!=Running"))]
    );
    assert_eq!(pushed(&planned(phases("In"))), [(None, None)]);
    let shared = plan(
        &[
            registry("a", 1, json!([web])),
            registry("b", 2, json!([web])),
        ],
        &[member("m1")],
    );
    assert_eq!(pushed(&shared), [(text("app=web"), None)]);
}

#[test]
fn exclude_takes_kinds_and_namespaces_out() {
    let store = json!({"openSearch": {"addresses": ["https://os:9200"]}});
    let spec = json!({
        "resourceSelectors": [{"apiVersion": "v1", "kind": "*"}],
        "exclude": [{"kind": "Secret"}, {"kind": "Event"}, {"apiVersion": "*", "kind": "*", "namespace": "kube-system"}],
        "backendStore": store,
    });
    let plan = plan(&[registry_from("r", 1, spec)], &[member("m1")]);
    assert_eq!(units(&plan), ["m1:v1/Node", "m1:v1/Pod"]);
    let pods = plan.streams.values().last().unwrap();
    let wants = |namespace: &str| {
        pods.routes[0]
            .filter
            .selects(Some(namespace), |_| None, |_| true)
    };
    assert!(wants("web") && !wants("kube-system"));
}

#[test]
fn clusters_are_selected_and_missing_names_are_reported() {
    let mut registry = registry("r", 1, json!([{"kind": "Pod"}]));
    registry.spec.target_cluster.cluster_names = vec!["m2".to_owned(), "gone".to_owned()];
    let plan = plan(&[registry], &[member("m1"), member("m2")]);
    assert_eq!(units(&plan), ["m2:v1/Pod"]);
    assert_eq!(
        plan.registries["r"].not_found.iter().collect::<Vec<_>>(),
        ["gone"]
    );
    assert_eq!(plan.coverage.len(), 1);
}

fn with_store(name: &str, created: i64, store: Value, redact: &[&str]) -> RegistryView {
    let spec = json!({"resourceSelectors": [{"kind": "Pod"}], "backendStore": {"openSearch": store}, "redact": redact});
    registry_from(name, created, spec)
}

#[test]
fn a_store_whose_address_shows_a_password_is_refused_without_showing_it() {
    let plan = plan(
        &[with_store(
            "r",
            3,
            json!({"addresses": ["https://user:hunter2@a:9200"]}),
            &[],
        )],
        &[],
    );
    let invalid = plan.registries["r"].invalid.as_deref().unwrap();
    assert!(
        invalid.contains("secretRef") && !invalid.contains("hunter2"),
        "{invalid}"
    );
    assert!(plan.stores.is_empty());
}

#[test]
fn registries_of_one_store_unite_redactions_and_fields_and_the_oldest_decides_the_rest() {
    let young = json!({"addresses": ["https://b:9200", "https://A:9200/"], "numberOfShards": 2, "fieldPaths": ["spec.y"]});
    let old = json!({"addresses": ["https://a:9200", "https://b:9200"], "numberOfShards": 1, "fieldPaths": ["spec.x"]});
    let plan = plan(
        &[
            with_store("young", 9, young, &["spec.b"]),
            with_store("old", 3, old, &["spec.a"]),
        ],
        &[],
    );
    assert_eq!(
        plan.stores
            .keys()
            .map(StoreName::as_str)
            .collect::<Vec<_>>(),
        ["fleetdex-f42efcc7f0e98855"]
    );
    let store = plan.stores.values().next().unwrap();
    assert_eq!(store.config.as_ref().unwrap().number_of_shards, Some(1));
    assert_eq!(store.registries, ["old", "young"]);
    assert_eq!(
        store.redact.iter().collect::<Vec<_>>(),
        ["spec.a", "spec.b"]
    );
    assert_eq!(store.field_paths.len(), 2);
    assert_eq!(store.projection.field_paths().len(), 2);
    assert_eq!(plan.registries["old"].conflict, None);
    let conflict = plan.registries["young"].conflict.as_deref().unwrap();
    assert!(
        conflict.starts_with(
            "ResourceRegistry old is older and shares this store, so its numberOfShards counts"
        ),
        "{conflict}"
    );
}

#[test]
fn another_prefix_is_another_store_with_its_own_streams() {
    let store = |prefix: &str| json!({"addresses": ["http://os:9200"], "indexPrefix": prefix});
    let plan = plan(
        &[
            with_store("a", 1, store("one"), &[]),
            with_store("b", 2, store("two"), &[]),
        ],
        &[member("m1")],
    );
    assert_eq!(plan.stores.len(), 2);
    assert_eq!(units(&plan), ["m1:v1/Pod", "m1:v1/Pod"]);
    assert!(
        plan.streams
            .iter()
            .all(|(stream, unit)| unit.routes.len() == 1 && unit.routes[0].store == stream.store)
    );
}

#[test]
fn registries_without_a_backend_share_the_embedded_store() {
    let pods = json!({"resourceSelectors": [{"kind": "Pod"}], "redact": ["spec.a"]});
    let nodes = json!({"resourceSelectors": [{"kind": "Node"}], "backendStore": {}});
    let plan = plan(
        &[registry_from("r", 1, pods), registry_from("s", 2, nodes)],
        &[member("m1")],
    );
    assert_eq!(units(&plan), ["m1:v1/Node", "m1:v1/Pod"]);
    let store = &plan.stores[&StoreName::embedded()];
    assert_eq!(
        (
            plan.stores.len(),
            store.config.is_none(),
            store.redact.len()
        ),
        (1, true, 1)
    );
    assert_eq!(plan.registries["s"].store, Some(StoreName::embedded()));
    assert_eq!(plan.registries["s"].conflict, None);
}

#[test]
fn a_registry_without_a_valid_store_starts_nothing() {
    let spec = json!({"resourceSelectors": [{"kind": "Pod"}], "backendStore": {"openSearch": {"addresses": []}}});
    let plan = plan(&[registry_from("r", 1, spec)], &[member("m1")]);
    assert!(plan.stores.is_empty() && plan.streams.is_empty() && plan.coverage.is_empty());
    assert!(plan.registries["r"].invalid.is_some());
    assert_eq!(plan.registries["r"].clusters.len(), 1);
}

#[test]
fn an_unreadable_redaction_stops_every_registry_of_its_store_but_deletes_nothing() {
    let store = |prefix: &str| json!({"addresses": ["http://os:9200"], "indexPrefix": prefix});
    let bad = with_store(
        "bad",
        1,
        store("shared"),
        &["spec.a", "metadata.labels['a.b']"],
    );
    let beside = with_store("beside", 2, store("shared"), &[]);
    let elsewhere = with_store("elsewhere", 3, store("other"), &[]);
    let plan = plan(&[bad, beside, elsewhere], &[member("m1")]);
    let invalid = |name: &str| plan.registries[name].invalid.as_deref().unwrap_or_default();
    assert_eq!(
        invalid("bad"),
        r#"redact: JSONPath "metadata.labels['a.b']": a '.' in quotes ends the key, as in kubectl; write ['a\.b'] for one key"#
    );
    assert_eq!(
        invalid("beside"),
        "ResourceRegistry bad shares this store and has a redaction that cannot be read, which would hold here, too: correct it"
    );
    assert_eq!(invalid("elsewhere"), "");
    let shared = plan.registries["bad"].store.as_ref().unwrap();
    assert_eq!(
        plan.stores[shared].redact.iter().collect::<Vec<_>>(),
        ["spec.a"]
    );
    assert_eq!(units(&plan), ["m1:v1/Pod"]);
    assert!(plan.streams.keys().all(|stream| stream.store != *shared));
    let certain = |name: &StoreName| plan.coverage[&(name.clone(), "m1".parse().unwrap())].certain;
    assert!(!certain(shared) && certain(plan.registries["elsewhere"].store.as_ref().unwrap()));
}

fn any_selector() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "Pod",
        "Secret",
        "Node",
        "Event",
        "Deployment",
        "Widget",
        "Nothing",
        "*",
    ]);
    let versions = prop::sample::select(vec![
        "",
        "v1",
        "apps/v1",
        "a.example/v1",
        "a.example/v2",
        "*",
    ]);
    let namespaces = prop::collection::vec(prop::sample::select(vec!["web", "db"]), 0..2);
    let label = prop::option::of(prop::sample::select(vec!["x", "y"]));
    (kinds, versions, namespaces, label).prop_map(|(kind, version, namespaces, label)| {
        let labels = label.map(|app| json!({"matchLabels": {"app": app}}));
        json!({"kind": kind, "apiVersion": version, "namespaces": namespaces, "labelSelector": labels})
    })
}

prop_compose! {
    fn any_registry(name: &'static str)(
        created in 0_i64..3,
        selectors in prop::collection::vec(any_selector(), 0..4),
        exclude in prop::collection::vec(any_selector(), 0..2),
        prefix in prop::sample::select(vec!["one", "two"]),
        clusters in prop::collection::vec(prop::sample::select(vec!["m1", "m2"]), 0..2),
    ) -> RegistryView {
        registry_from(name, created, json!({
            "targetCluster": {"clusterNames": clusters},
            "resourceSelectors": selectors,
            "exclude": exclude,
            "backendStore": {"openSearch": {"addresses": ["http://os:9200"], "indexPrefix": prefix}},
        }))
    }
}

proptest! {
    #[test]
    fn the_order_of_registries_and_members_does_not_matter(
        a in any_registry("a"), b in any_registry("b"), c in any_registry("c"),
    ) {
        let forward = plan(&[a.clone(), b.clone(), c.clone()], &[member("m1"), member("m2")]);
        let backward = plan(&[c, b, a], &[member("m2"), member("m1")]);
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn every_stream_has_a_route_and_its_routes_are_within_what_may_exist(a in any_registry("a"), b in any_registry("b")) {
        let plan = plan(&[a, b], &[member("m1"), member("m2")]);
        for (StreamKey { unit, store }, planned) in &plan.streams {
            prop_assert!(!planned.routes.is_empty(), "{unit} runs without a route");
            for route in &planned.routes {
                prop_assert_eq!(&route.store, store);
                let coverage = &plan.coverage[&(route.store.clone(), unit.cluster.clone())];
                let extent = &coverage.kinds[&unit.resource.gvk];
                let covered = match (extent, &unit.scope) {
                    (NamespaceExtent::All, _) => true,
                    (NamespaceExtent::Namespaces(names), Scope::Namespace(namespace)) => names.contains(namespace),
                    (NamespaceExtent::Namespaces(names), Scope::All) => route.filter.namespaces().is_some_and(|own| own.is_subset(names)),
                };
                prop_assert!(covered, "{unit} for {}", route.registry);
                prop_assert!(plan.registries[&route.registry].clusters[&unit.cluster].units.contains(unit));
            }
        }
    }

    #[test]
    fn a_registry_of_another_cluster_changes_no_stream(a in any_registry("a"), mut other in any_registry("other")) {
        let mut here = a;
        here.spec.target_cluster.cluster_names = vec!["m1".to_owned()];
        other.spec.target_cluster.cluster_names = vec!["m2".to_owned()];
        let members = [member("m1"), member("m2")];
        let alone = plan(std::slice::from_ref(&here), &members);
        let both = plan(&[here, other], &members);
        let here_only: BTreeMap<_, _> = both.streams.iter().filter(|(stream, _)| stream.unit.cluster.as_str() == "m1").collect();
        prop_assert_eq!(here_only, alone.streams.iter().collect::<BTreeMap<_, _>>());
    }

    #[test]
    fn no_two_streams_of_a_store_show_the_same_object(a in any_registry("a"), b in any_registry("b")) {
        let plan = plan(&[a, b], &[member("m1")]);
        for stream in plan.streams.keys().filter(|stream| stream.unit.scope == Scope::All) {
            let same = plan.streams.keys().filter(|other| {
                let is_same_kind = group_kind(&other.unit.resource.gvk) == group_kind(&stream.unit.resource.gvk);
                other.store == stream.store && is_same_kind && other.unit.cluster == stream.unit.cluster
            });
            prop_assert_eq!(same.count(), 1);
        }
    }
}
