use serde_json::{Value, json};

use super::{leaf_terms::stored_value, *};
use crate::model::{
    CLUSTER_ANNOTATION, FieldPath, FieldType, Gvk, Interpret, Interpretation, JsonTree,
    MAX_FIELD_VALUE_BYTES, MemberMask, Object, Projection, Quantity, Resource, SelectableField,
    encode_sort_key, number, quantity, sort_field,
    well_known::{LAST_APPLIED, REDACTED_ANNOTATION},
};

fn resource(api_version: &str, kind: &str, plural: &str) -> Resource {
    Resource {
        gvk: Gvk::from_api_version(api_version, kind),
        plural: plural.into(),
        namespaced: true,
    }
}

fn text_field(path: &str) -> SelectableField {
    SelectableField {
        path: FieldPath::new(path),
        sources: vec![FieldPath::new(path)],
        kind: FieldType::Text,
    }
}

fn encode(
    resource: &Resource,
    projection: &Projection,
    fields: &[SelectableField],
    object: &Value,
) -> (Document, Value) {
    let json = object.to_string();
    let projector = Projector::new(&"member1".parse().unwrap(), resource, projection, fields);
    let parsed = Object::parse(&json).unwrap();
    let document = projector.document(&parsed, "2026-01-01T00:00:00Z").unwrap();
    let body = serde_json::from_slice(document.body.as_deref().unwrap()).unwrap();
    (document, body)
}

#[test]
fn a_pod_keeps_its_shape_and_gets_search_terms() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
                "labels": {"app": "web", "app.kubernetes.io/part-of": "shop", "tier": "3"},
                "annotations": {LAST_APPLIED: "{secret}", "note": "a\"b"},
                "ownerReferences": [{"kind": "ReplicaSet", "uid": "rs1"}],
                "managedFields": [{"manager": "x"}], "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}]}, "status": {"phase": "Running"}});
    let fields = [
        text_field("spec.nodeName"),
        text_field("status.phase"),
        text_field("spec.schedulerName"),
    ];
    let (document, body) = encode(
        &resource("v1", "Pod", "pods"),
        &Projection::default(),
        &fields,
        &pod,
    );
    assert_eq!(&*document.id, "v1/Pod/u1");
    assert_eq!(document.version.get(), 7);
    assert_eq!(body["spec"], pod["spec"]);
    assert_eq!(body["status"], pod["status"]);
    assert_eq!(body["cluster"], "member1");
    assert_eq!(body["metadata"]["annotations"], json!({"note": "a\"b"}));
    assert!(body["metadata"].get("managedFields").is_none());
    assert_eq!(
        body["search"]["labels"],
        json!(["app=web", "app.kubernetes.io/part-of=shop", "tier=3"])
    );
    assert_eq!(
        body["search"]["labelKeys"],
        json!(["app", "app.kubernetes.io/part-of", "tier"])
    );
    assert_eq!(
        body["search"]["fields"],
        json!([
            "spec.nodeName=n1",
            "status.phase=Running",
            "spec.schedulerName="
        ])
    );
    assert_eq!(
        body["search"]["numbers"],
        json!([number::label_term("tier", 3)])
    );
    assert_eq!(body["search"]["owners"], json!(["rs1"]));
}

#[test]
fn a_secret_keeps_its_keys_and_loses_its_values() {
    let secret = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "1"},
            "data": {"password": "aHVudGVyMg=="}, "stringData": {"k": "v"}, "type": "Opaque"});
    let (document, body) = encode(
        &resource("v1", "Secret", "secrets"),
        &Projection::default(),
        &[],
        &secret,
    );
    assert_eq!(body["data"], json!({"password": ""}));
    assert_eq!(body["stringData"], json!({"k": ""}));
    assert_eq!(body["type"], "Opaque");
    assert_eq!(
        body["metadata"]["annotations"],
        json!({REDACTED_ANNOTATION: "$.data, $.stringData"})
    );
    assert!(!String::from_utf8_lossy(document.body.as_deref().unwrap()).contains("aHVudGVyMg"));
}

#[test]
fn a_secret_keeps_the_values_of_well_known_annotations_only() {
    let secret = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "1", "annotations": {
            "kapp.k14s.io/original": "{\"data\":{\"password\":\"aHVudGVyMg==\"}}", "it's/odd": "hunter2", "no-value": "",
            "meta.helm.sh/release-name": "web", LAST_APPLIED: "hunter2", "openshift.io/token-secret.value": "hunter2"}},
            "data": {"password": "aHVudGVyMg=="}});
    let paths = [
        "metadata.annotations['kapp.k14s.io/original']",
        "metadata.annotations['meta.helm.sh/release-name']",
    ];
    let projection = Projection::new(&[], &paths.map(FieldPath::new))
        .unwrap()
        .and_every_path();
    let (document, body) = encode(
        &resource("v1", "Secret", "secrets"),
        &projection,
        &[],
        &secret,
    );
    let expected = json!({"kapp.k14s.io/original": "", "it's/odd": "", "no-value": "", "meta.helm.sh/release-name": "web",
            "openshift.io/token-secret.value": "",
            REDACTED_ANNOTATION: "$.data, $.metadata.annotations['kapp.k14s.io/original'], $.metadata.annotations['it\\'s/odd'], \
                                  $.metadata.annotations['openshift.io/token-secret.value']"});
    assert_eq!(body["metadata"]["annotations"], expected);
    assert_eq!(
        body["search"]["fields"],
        json!(["metadata.annotations['meta.helm.sh/release-name']=web"])
    );
    let text = String::from_utf8_lossy(document.body.as_deref().unwrap());
    assert!(
        !text.contains("aHVudGVyMg") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn copies_of_an_object_in_its_annotations_are_not_stored() {
    let pod = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "1", "annotations": {
            "kapp.k14s.io/original": "{\"spec\":{\"token\":\"t0p\"}}", "note": "kept"}}, "spec": {"token": "t0p"}});
    let projection = Projection::new(&["spec.token".to_owned()], &[]).unwrap();
    let (document, body) = encode(&resource("v1", "Pod", "pods"), &projection, &[], &pod);
    let expected = json!({"kapp.k14s.io/original": "", "note": "kept",
            REDACTED_ANNOTATION: "$.spec.token, $.metadata.annotations['kapp.k14s.io/original']"});
    assert_eq!(body["metadata"]["annotations"], expected);
    assert!(!String::from_utf8_lossy(document.body.as_deref().unwrap()).contains("t0p"));
}

#[test]
fn fields_below_metadata_are_found_too() {
    let object = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "7", "generation": 3,
            "labels": {"app": "web"}, "annotations": {"a.b/c": "x", LAST_APPLIED: "{}"}}});
    let paths = [
        "metadata.annotations['a.b/c']",
        "metadata.labels.app",
        "metadata.generation",
        "metadata.uid",
        "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
    ];
    let projection = Projection::new(&[], &paths.map(FieldPath::new)).unwrap();
    let (_, body) = encode(
        &resource("x.io/v1", "Foo", "foos"),
        &projection,
        &[],
        &object,
    );
    let expected = [
        "metadata.annotations['a.b/c']=x",
        "metadata.labels.app=web",
        "metadata.generation=3",
        "metadata.uid=u",
    ];
    assert_eq!(body["search"]["fields"], json!(expected));
    let number = quantity::field_term("metadata.generation", Quantity::from(3));
    assert_eq!(body["search"]["numbers"], json!([number]));
    let sorts = json!({"metadata/annotations['a/b//c']": "=x", "metadata/labels/app": "=web", "metadata/uid": "=u",
            "metadata/generation": format!("#{}=3", Quantity::from(3).ordered())});
    assert_eq!(body["search"]["sort"], sorts);
}

#[test]
fn redactions_apply_to_selectable_fields_too() {
    let object = json!({"metadata": {"name": "s", "uid": "u", "resourceVersion": "1"}, "spec": {"token": "t0p", "a": 1}});
    let projection = Projection::new(
        &["spec.token".to_owned()],
        &[FieldPath::new("spec.token"), FieldPath::new("spec.a")],
    )
    .unwrap();
    let (document, body) = encode(
        &resource("x.io/v1", "Foo", "foos"),
        &projection,
        &[],
        &object,
    );
    assert_eq!(body["spec"], json!({"a": 1}));
    assert_eq!(
        body["metadata"]["annotations"],
        json!({REDACTED_ANNOTATION: "$.spec.token"})
    );
    assert_eq!(body["search"]["fields"], json!(["spec.a=1"]));
    assert!(!String::from_utf8_lossy(document.body.as_deref().unwrap()).contains("t0p"));
}

#[test]
fn a_cut_value_is_longer_than_any_value_that_a_query_may_ask_for() {
    let longest = "x".repeat(MAX_FIELD_VALUE_BYTES);
    assert_eq!(stored_value(&longest), longest);
    // The cut falls within a character of four bytes, or between two characters.
    for start in ["", "x", "xx", "xxx"] {
        let value = format!("{start}{}", "🚀".repeat(MAX_FIELD_VALUE_BYTES / 4 + 1));
        let stored = stored_value(&value);
        assert!(
            stored.len() > MAX_FIELD_VALUE_BYTES && stored.ends_with(" (cut)"),
            "{stored}"
        );
    }
}

#[test]
fn sources_are_tried_in_order() {
    let source = SelectableField {
        path: FieldPath::new("source"),
        sources: vec![
            FieldPath::new("source.component"),
            FieldPath::new("reportingComponent"),
        ],
        kind: FieldType::Text,
    };
    let meta = json!({"name": "e", "uid": "u", "resourceVersion": "1"});
    let events = resource("v1", "Event", "events");
    for (object, expected) in [
        (
            json!({"metadata": meta, "reportingComponent": "r", "source": {"component": "c"}}),
            "source=c",
        ),
        (
            json!({"metadata": meta, "reportingComponent": "r", "source": {}}),
            "source=r",
        ),
        (json!({"metadata": meta}), "source="),
    ] {
        let (_, body) = encode(
            &events,
            &Projection::default(),
            std::slice::from_ref(&source),
            &object,
        );
        assert_eq!(body["search"]["fields"], json!([expected]));
    }
}

#[test]
fn two_fields_may_read_the_same_source() {
    let reporter = FieldPath::new("reportingComponent");
    let field = |path: &str, sources: &[&FieldPath]| SelectableField {
        path: FieldPath::new(path),
        sources: sources.iter().map(|source| (*source).clone()).collect(),
        kind: FieldType::Text,
    };
    let fields = [
        field("reportingComponent", &[&reporter]),
        field("source", &[&FieldPath::new("source.component"), &reporter]),
    ];
    let object = json!({"metadata": {"name": "e", "uid": "u", "resourceVersion": "1"}, "reportingComponent": "r"});
    let (_, body) = encode(
        &resource("v1", "Event", "events"),
        &Projection::default(),
        &fields,
        &object,
    );
    assert_eq!(
        body["search"]["fields"],
        json!(["reportingComponent=r", "source=r"])
    );
}

#[test]
fn members_with_the_names_of_document_keys_are_restored() {
    let object = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "s", "uid": "u", "resourceVersion": "1"},
            "cluster": {"a": 1}, "search": "mine", "data": [1]});
    let (document, body) = encode(
        &resource("x.io/v1", "Foo", "foos"),
        &Projection::default(),
        &[],
        &object,
    );
    assert_eq!(body["cluster"], "member1");
    let Restored {
        cluster,
        object: restored,
        ..
    } = Restored::parse(document.body.as_deref().unwrap()).unwrap();
    assert_eq!(cluster.as_str(), "member1");
    let mut expected = object.clone();
    expected["metadata"]["annotations"] = json!({CLUSTER_ANNOTATION: "member1"});
    assert_eq!(
        serde_json::from_str::<Value>(restored.get()).unwrap(),
        expected
    );
}

#[test]
fn a_name_with_a_dot_is_no_path_into_the_document() {
    let object = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "search.resource": "pods", "search.rejected": "x", "search.sort.k1": "a", "metadata.namespace": "team-a",
            "metadata.labels.app": "web", "cluster.x": 1, ".": 2, "spec": {"a.b": 1}, "search": {"labels": ["x=y"]}});
    for projection in [
        Projection::default(),
        Projection::default().and_every_path(),
    ] {
        let (document, body) = encode(
            &resource("x.io/v1", "Foo", "foos"),
            &projection,
            &[],
            &object,
        );
        let names: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert!(names.iter().all(|name| !name.contains('.')), "{names:?}");
        let unindexed = crate::model::fallback(
            document.body.as_deref().unwrap(),
            crate::model::DocumentShape::Unindexed,
            "odd",
        )
        .unwrap();
        for stored in [document.body.as_deref().unwrap(), &unindexed] {
            let Restored {
                object: restored, ..
            } = Restored::parse(stored).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["annotations"] = json!({CLUSTER_ANNOTATION: "member1"});
            assert_eq!(
                serde_json::from_str::<Value>(restored.get()).unwrap(),
                expected
            );
        }
    }
}

#[test]
fn the_document_of_an_object_that_cannot_be_stored_has_its_identity_and_the_reason() {
    let deep = format!("{}1{}", "[".repeat(600), "]".repeat(600));
    let json = format!(
        r#"{{"metadata":{{"name":"s","namespace":"n","uid":"u","resourceVersion":"7","labels":{{"a":"b"}},"annotations":{{"c":"d"}}}},"spec":{deep}}}"#
    );
    let (object, unfit) = Object::parse_any(&json).unwrap();
    assert_eq!(object.label("a"), Some("b"));
    let projector = Projector::new(
        &"member1".parse().unwrap(),
        &resource("x.io/v1", "Foo", "foos"),
        &Projection::default(),
        &[],
    );
    let document = projector.identity(&object, &unfit.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(
        (&*document.id, document.version.get(), document.is_partial),
        ("x.io/v1/Foo/u", 7, true)
    );
    assert_eq!(
        serde_json::from_slice::<Value>(document.body.as_deref().unwrap()).unwrap(),
        json!({"apiVersion": "x.io/v1", "kind": "Foo", "cluster": "member1",
            "search": {"resource": "foos", "group": "x.io", "indexedAt": "2026-01-01T00:00:00Z",
                "rejected": "the object is nested deeper than the 500 levels that are indexed"},
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7", "annotations": {REDACTED_ANNOTATION: "$"}}})
    );
}

#[test]
fn a_fallback_document_indexes_the_identity_and_holds_the_whole_object() {
    let object = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "labels": {"a": "b"}, "creationTimestamp": "odd"}, "search": 1, "spec": {"x": "y"}});
    let (document, _) = encode(
        &resource("x.io/v1", "Foo", "foos"),
        &Projection::default(),
        &[],
        &object,
    );
    let body = crate::model::fallback(
        document.body.as_deref().unwrap(),
        crate::model::DocumentShape::Unindexed,
        "mapper_parsing_exception: odd",
    )
    .unwrap();
    let parsed: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        parsed["search"]["rejected"],
        "mapper_parsing_exception: odd"
    );
    assert_eq!(
        parsed["metadata"],
        json!({"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1"})
    );
    assert!(parsed.get("spec").is_none());
    let Restored {
        object: restored, ..
    } = Restored::parse(&body).unwrap();
    let mut expected = object.clone();
    expected["metadata"]["annotations"] = json!({CLUSTER_ANNOTATION: "member1"});
    assert_eq!(
        serde_json::from_str::<Value>(restored.get()).unwrap(),
        expected
    );
}

#[test]
fn an_id_too_long_for_the_store_becomes_a_hash() {
    let projector = Projector::new(
        &"m".parse().unwrap(),
        &resource("v1", "Pod", "pods"),
        &Projection::default(),
        &[],
    );
    assert_eq!(projector.id(&"u".repeat(600)).len(), 64);
}

#[test]
fn an_object_without_identity_is_refused() {
    for (json, missing) in [
        (r#"{"metadata":{"uid":"u","resourceVersion":"1"}}"#, "name"),
        (r#"{"metadata":{"name":"n","resourceVersion":"1"}}"#, "uid"),
    ] {
        assert!(
            Object::parse(json)
                .unwrap_err()
                .to_string()
                .contains(missing)
        );
    }
    assert!(Object::parse(r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"x"}}"#).is_err());
    assert!(Object::parse("[]").is_err());
}

#[test]
fn a_webhook_is_sent_no_copy_of_the_object_in_an_annotation() {
    let secret = json!({"metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"app": "web"},
        "annotations": {"helm.sh/hook": "test", "odd": "hunter2", LAST_APPLIED: "hunter2"}},
        "type": "Opaque", "data": {"password": "hunter2"}})
    .to_string();
    let projector = Projector::new(
        &"a".parse().unwrap(),
        &resource("v1", "Secret", "secrets"),
        &Projection::default(),
        &[],
    );
    let stored = projector.stored_value(&Object::parse(&secret).unwrap());
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"app": "web"},
            "annotations": {"helm.sh/hook": "test", "odd": null}}});
    assert_eq!(stored.unwrap(), expected);
}

/// Says the same of every object that has a status, and nothing of others.
#[derive(Debug)]
struct StatusReader;

impl Interpret for StatusReader {
    fn reads(&self) -> &MemberMask {
        MemberMask::everything()
    }

    fn interpret(&self, object: &JsonTree<'_>) -> Interpretation {
        if object.get("data").is_some() || object.get("status").is_none() {
            return Interpretation::default();
        }
        Interpretation {
            health: "Degraded",
            health_reason: "CrashLoopBackOff".to_owned(),
            health_message: "back-off 5m0s \"restarting\"".to_owned(),
            desired_replicas: Some(3),
            ready_replicas: Some(0),
            cpu: Some(0.5),
            memory: Some(1 << 30),
            images: vec![
                "nginx:1.27".to_owned(),
                "docker.io/library/nginx".to_owned(),
            ],
            dependencies: vec!["v1/Secret/web/db".to_owned()],
            interpreted_by: vec!["built-in".to_owned()],
        }
    }
}

fn interpreted(projection: &Projection, fields: &[SelectableField], object: &Value) -> Value {
    let json = object.to_string();
    let projector = Projector::new(
        &"member1".parse().unwrap(),
        &resource("v1", "Pod", "pods"),
        projection,
        fields,
    )
    .interpreted_by(Arc::new(StatusReader));
    let parsed = Object::parse(&json).unwrap();
    let document = projector.document(&parsed, "2026-01-01T00:00:00Z").unwrap();
    serde_json::from_slice(document.body.as_deref().unwrap()).unwrap()
}

#[test]
fn a_document_has_what_its_interpreter_says_for_people_and_as_terms() {
    let pod =
        json!({ "metadata": { "name": "a", "uid": "u", "resourceVersion": "1" }, "status": {} });
    let body = interpreted(&Projection::default(), &[], &pod);
    let search = &body["search"];
    assert_eq!(search["health"], "Degraded");
    assert_eq!(search["healthMessage"], "back-off 5m0s \"restarting\"");
    assert_eq!(search["replicas"], json!({ "desired": 3, "ready": 0 }));
    assert_eq!(
        search["resources"],
        json!({ "cpu": 0.5, "memory": 1 << 30 })
    );
    assert_eq!(search["dependencies"], json!(["v1/Secret/web/db"]));
    assert_eq!(search["interpretedBy"], json!(["built-in"]));
    let terms = search["fields"].as_array().unwrap();
    for term in [
        "health=Degraded",
        "healthReason=CrashLoopBackOff",
        "image=nginx:1.27",
        "image=docker.io/library/nginx",
        "dependsOn=v1/Secret/web/db",
        "replicas.ready=0",
        "resources.cpu=0.5",
    ] {
        assert!(terms.contains(&term.into()), "{term} in {terms:?}");
    }
    assert_eq!(
        search["sort"][&*sort_field(&FieldPath::new("health"))],
        encode_sort_key(FieldType::Optional, "Degraded")
    );
    assert_eq!(search["numbers"].as_array().unwrap().len(), 4);
}

#[test]
fn an_object_has_no_say_in_what_it_is_said_to_mean() {
    let pod = json!({ "metadata": { "name": "a", "uid": "u", "resourceVersion": "1" },
        "health": "Healthy", "image": "x", "replicas": { "ready": 7 }, "search": { "health": "Healthy" } });
    let named = [SelectableField::optional(&FieldPath::new("health"))];
    let full = Projection::new(&[], &[FieldPath::new("image")])
        .unwrap()
        .and_every_path();
    let body = interpreted(&full, &named, &pod);
    assert!(body["search"]["health"].is_null());
    let text = body["search"]["fields"].to_string()
        + &body["search"]["leaves"].to_string()
        + &body["search"]["numbers"].to_string();
    for path in ["\"health=", "\"image=", "\"replicas.ready="] {
        assert!(!text.contains(path), "{path} in {text}");
    }
}

#[test]
fn an_interpreter_sees_an_object_as_it_is_stored() {
    let pod = json!({ "metadata": { "name": "a", "uid": "u", "resourceVersion": "1" }, "status": { "phase": "Running" } });
    let redacting = Projection::new(&["status".to_owned()], &[]).unwrap();
    assert!(interpreted(&redacting, &[], &pod)["search"]["health"].is_null());
    assert_eq!(
        interpreted(&Projection::default(), &[], &pod)["search"]["health"],
        "Degraded"
    );
}
