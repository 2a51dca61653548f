use fleetdex_core::{
    model::Gvk,
    query::{HeldMemory, Hit},
};
use fleetdex_query_api::answer::ListMetadata;
use http::{HeaderValue, header::ACCEPT};
use jiff::Timestamp;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::*;
use crate::render::table::TablePrinter;

const KUBECTL_GET: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

fn negotiated(endpoint: Endpoint, accept: &str) -> String {
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
    match Representation::negotiate(endpoint, &headers, &QueryParameters::default()) {
        Ok(Representation {
            output,
            encoding,
            pretty,
        }) => format!(
            "{output:?} {encoding:?}{}",
            if pretty { " pretty" } else { "" }
        ),
        Err(error) => format!("{} {error}", error.code()),
    }
}

#[test]
fn the_first_clause_that_can_be_served_wins() {
    let mut lines = Vec::new();
    for accept in [
        "",
        KUBECTL_GET,
        "application/vnd.kubernetes.protobuf,application/json",
        "application/json;q=0.4, application/yaml;q=0.9",
        "*/*;q=0.1, application/yaml",
        "*/*",
        "application/*",
        "text/html, */*",
        "application/json;as=Table;v=v2;g=meta.k8s.io, application/json",
        "application/json;as=Table;v=v1;g=example.com, application/yaml",
        "application/yaml;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
        "application/json;pretty=1",
        "application/json;stream=watch",
        "application/json;stream=other, application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "text/plain",
        "nonsense",
    ] {
        lines.push(format!(
            "{accept:?}\n  {}",
            negotiated(Endpoint::List, accept)
        ));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ""
      Object Json
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
      Table(V1, Metadata) Json
    "application/vnd.kubernetes.protobuf,application/json"
      Object Json
    "application/json;q=0.4, application/yaml;q=0.9"
      Object Yaml
    "*/*;q=0.1, application/yaml"
      Object Yaml
    "*/*"
      Object Json
    "application/*"
      Object Json
    "text/html, */*"
      Object Json
    "application/json;as=Table;v=v2;g=meta.k8s.io, application/json"
      Object Json
    "application/json;as=Table;v=v1;g=example.com, application/yaml"
      Object Yaml
    "application/yaml;as=Table;v=v1;g=meta.k8s.io"
      Table(V1, Metadata) Yaml
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io"
      PartialMetadata(V1) Json
    "application/json;pretty=1"
      Object Json pretty
    "application/json;stream=watch"
      Object Json
    "application/json;stream=other, application/yaml"
      Object Yaml
    "application/vnd.kubernetes.protobuf"
      406 none of the accepted media types (application/vnd.kubernetes.protobuf) is served here; accept application/json or application/yaml
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
      406 none of the accepted media types (application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io) is served here; accept application/json or application/yaml
    "text/plain"
      406 none of the accepted media types (text/plain) is served here; accept application/json or application/yaml
    "nonsense"
      406 none of the accepted media types (nonsense) is served here; accept application/json or application/yaml
    "#);
}

#[test]
fn an_invalid_quality_is_0() {
    // 32 of them in this order made a sort panic that found no total order.
    let qualities = ["0.1", "0.2"]
        .into_iter()
        .chain(["NaN"; 13])
        .chain(["0.9"])
        .chain(["0.5"; 16]);
    let clauses: Vec<String> = qualities
        .map(|quality| format!("a/b;q={quality}"))
        .collect();
    assert!(negotiated(Endpoint::List, &clauses.join(",")).starts_with("406"));
    for odd in ["NaN", "2", "-1", "inf"] {
        let accept = format!("application/json;q={odd}, application/yaml;q=0.1");
        assert_eq!(negotiated(Endpoint::List, &accept), "Object Yaml", "{odd}");
    }
}

#[test]
fn each_endpoint_serves_its_own_representations() {
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(
        negotiated(Endpoint::Object, metadata),
        "PartialMetadata(V1) Json"
    );
    assert_eq!(
        negotiated(Endpoint::Watch, metadata),
        "PartialMetadata(V1) Json"
    );
    assert_eq!(negotiated(Endpoint::Document, KUBECTL_GET), "Object Json");
    assert_eq!(
        negotiated(Endpoint::Watch, "application/yaml, application/json"),
        "Object Json"
    );
    let discovery =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert_eq!(negotiated(Endpoint::Document, discovery), "Object Json");
}

fn with_query(query: &str, agent: &'static str) -> Result<Representation, ApiError> {
    let headers = HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static(KUBECTL_GET)),
        (header::USER_AGENT, HeaderValue::from_static(agent)),
    ]);
    Representation::negotiate(Endpoint::List, &headers, &QueryParameters::parse(query))
}

#[test]
fn parameters_choose_the_objects_of_rows_and_indentation() {
    let output = |query: &str| with_query(query, "kubectl/v1.36").unwrap().output;
    assert_eq!(
        output("limit=500"),
        OutputKind::Table(MetaVersion::V1, IncludeObject::Metadata)
    );
    assert_eq!(
        output("limit=500&includeObject=Object"),
        OutputKind::Table(MetaVersion::V1, IncludeObject::Object)
    );
    assert_eq!(
        output("includeObject=None"),
        OutputKind::Table(MetaVersion::V1, IncludeObject::None)
    );
    let refused = with_query("includeObject=all", "kubectl").unwrap_err();
    assert_eq!(
        (refused.code(), refused.to_string().as_str()),
        (
            400,
            "parameter includeObject: \"all\" is not one of None, Metadata and Object"
        )
    );
    let pretty = |query: &str, agent: &'static str| with_query(query, agent).unwrap().pretty;
    assert!(
        pretty("pretty=true", "kubectl")
            && pretty("", "curl/8.0")
            && pretty("pretty=", "Mozilla/5.0 (X11)")
    );
    assert!(!pretty("pretty=0", "curl/8.0") && !pretty("", "kubectl"));
}

fn hit(object: &Value) -> Hit {
    Hit {
        interpretation: None,
        cluster: "member1".parse().unwrap(),
        object: to_raw_value(object).unwrap().into(),
        memory: HeldMemory::default(),
    }
}

#[test]
fn an_object_that_indentation_makes_too_long_stays_on_one_line() {
    let zeros = vec!["0"; 170_000].join(",");
    let nested = format!("{}{zeros}{}", "[".repeat(50), "]".repeat(50));
    let object: Value = serde_json::from_str(&format!(r#"{{"a":{nested}}}"#)).unwrap();
    let [deep, flat] = [hit(&object), hit(&json!({ "a": [1, 2] }))];
    for encoding in [Encoding::Json, Encoding::Yaml] {
        let show = |hits: &[&Hit]| {
            let mut list =
                encoder(OutputKind::Object, encoding, true).list(&ListMetadata::default());
            let mut out = Vec::new();
            for hit in hits {
                list.write(&mut out, hit).unwrap();
            }
            list.finish(&mut out).unwrap();
            out
        };
        let shown = show(&[&flat, &deep, &flat]);
        let length = deep.object.get().len();
        assert!(shown.len() < length + 1_000, "{} of {length}", shown.len());
        let items: Value = match encoding {
            Encoding::Json => serde_json::from_slice(&shown).unwrap(),
            Encoding::Yaml => serde_saphyr::from_slice(&shown).unwrap(),
        };
        assert_eq!(
            items["items"],
            json!([{ "a": [1, 2] }, object, { "a": [1, 2] }])
        );
    }
}

#[test]
fn an_object_that_is_nested_too_deeply_for_parsers_stays_on_one_line() {
    let shown = |levels: usize, encoding| {
        let nested = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let object = Hit {
            object: RawValue::from_string(nested.clone()).unwrap().into(),
            ..hit(&json!({}))
        };
        let encoder = encoder(OutputKind::Object, encoding, true);
        let shown = encoder.object(&object, true).unwrap();
        (String::from_utf8(shown).unwrap(), nested)
    };
    for encoding in [Encoding::Json, Encoding::Yaml] {
        assert!(shown(100, encoding).0.lines().count() >= 100);
        for levels in [101, 150] {
            let (shown, nested) = shown(levels, encoding);
            assert_eq!(shown.trim_end(), nested);
        }
    }
}

fn namespaces() -> Vec<Hit> {
    let namespace = |name: &str| {
        hit(&json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "status": { "phase": "Active" } }))
    };
    ["a", "b"].map(namespace).to_vec()
}

fn encoder(output: OutputKind, encoding: Encoding, pretty: bool) -> ObjectEncoder {
    let kind = Gvk::new("", "v1", "Namespace");
    let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
    ObjectEncoder::new(
        Representation {
            output,
            encoding,
            pretty,
        },
        kind.clone(),
        || TablePrinter::of(&kind, None),
        now,
    )
}

fn list(output: OutputKind, encoding: Encoding, pretty: bool, hits: &[Hit]) -> String {
    let mut list_encoder = encoder(output, encoding, pretty).list(&ListMetadata {
        continue_token: "abc".to_owned(),
        ..ListMetadata::default()
    });
    let mut out = Vec::new();
    for hit in hits {
        list_encoder.write(&mut out, hit).unwrap();
    }
    list_encoder.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const TABLE: OutputKind = OutputKind::Table(MetaVersion::V1, IncludeObject::Metadata);

#[test]
fn a_list_is_encoded_in_every_representation() {
    let hits = namespaces();
    insta::assert_snapshot!(list(OutputKind::Object, Encoding::Json, false, &hits), @r#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{"continue":"abc"},"items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Active"}},{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"b","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Active"}}]}"#);
    insta::assert_snapshot!(list(TABLE, Encoding::Json, false, &hits), @r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"continue":"abc"},"columnDefinitions":[{"name":"Cluster","type":"string","format":"","priority":0,"description":"The member cluster that holds the object."},{"name":"Name","type":"string","format":"name","description":"From .metadata.name.","priority":0},{"name":"Status","type":"string","format":"","description":"From .status.phase.","priority":0},{"name":"Age","type":"string","format":"","description":"From .metadata.creationTimestamp.","priority":0}],"rows":[{"cells":["member1","a","Active","5m"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"}}},{"cells":["member1","b","Active","5m"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"b","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"}}}]}"#);
    insta::assert_snapshot!(list(OutputKind::PartialMetadata(MetaVersion::V1Beta1), Encoding::Json, false, &hits[..1]), @r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1beta1","metadata":{"continue":"abc"},"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{"name":"a","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"}}]}"#);
    insta::assert_snapshot!(list(OutputKind::Object, Encoding::Yaml, false, &hits), @r#"
    kind: NamespaceList
    apiVersion: v1
    metadata:
      continue: abc
    items:
    - apiVersion: v1
      kind: Namespace
      metadata:
        name: a
        resourceVersion: "7"
        creationTimestamp: "2026-01-01T00:00:00Z"
      status:
        phase: Active
    - apiVersion: v1
      kind: Namespace
      metadata:
        name: b
        resourceVersion: "7"
        creationTimestamp: "2026-01-01T00:00:00Z"
      status:
        phase: Active
    "#);
    insta::assert_snapshot!(list(OutputKind::Object, Encoding::Json, true, &hits[..1]), @r#"
    {
      "kind": "NamespaceList",
      "apiVersion": "v1",
      "metadata": {
        "continue": "abc"
      },
      "items": [
        {
          "apiVersion": "v1",
          "kind": "Namespace",
          "metadata": {
            "name": "a",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z"
          },
          "status": {
            "phase": "Active"
          }
        }
      ]
    }
    "#);
}

#[test]
fn an_empty_list_is_valid_in_every_encoding() {
    assert_eq!(
        list(OutputKind::Object, Encoding::Yaml, false, &[]),
        "kind: NamespaceList\napiVersion: v1\nmetadata:\n  continue: abc\nitems: []\n"
    );
    let indented = list(OutputKind::Object, Encoding::Json, true, &[]);
    assert!(indented.ends_with("\"items\": []\n}\n"), "{indented}");
    let rows: Value = serde_json::from_str(&list(TABLE, Encoding::Json, false, &[])).unwrap();
    assert_eq!(rows["rows"], json!([]));
}

#[test]
fn every_encoding_of_a_list_has_the_same_content() {
    let hits = namespaces();
    for output in [
        OutputKind::Object,
        TABLE,
        OutputKind::PartialMetadata(MetaVersion::V1),
    ] {
        let compact: Value =
            serde_json::from_str(&list(output, Encoding::Json, false, &hits)).unwrap();
        let indented: Value =
            serde_json::from_str(&list(output, Encoding::Json, true, &hits)).unwrap();
        let yaml: Value =
            serde_saphyr::from_str(&list(output, Encoding::Yaml, false, &hits)).unwrap();
        assert_eq!((&indented, &yaml), (&compact, &compact));
    }
}

#[test]
fn one_object_is_itself_its_metadata_or_a_table_of_one_row() {
    let object = &namespaces()[0];
    let shown = |output, with_columns| {
        let bytes = encoder(output, Encoding::Json, false)
            .object(object, with_columns)
            .unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    assert_eq!(shown(OutputKind::Object, true)["status"]["phase"], "Active");
    let metadata = shown(OutputKind::PartialMetadata(MetaVersion::V1), true);
    assert_eq!(
        (&metadata["kind"], &metadata["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    let table = shown(TABLE, true);
    assert_eq!(table["metadata"], json!({ "resourceVersion": "7" }));
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["member1", "a", "Active", "5m"])
    );
    assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 4);
    assert_eq!(shown(TABLE, false)["columnDefinitions"], json!(null));
}

/// Every text that YAML 1.1 or 1.2 could take for something else, and every shape.
#[test]
fn yaml_comes_back_as_the_same_json() {
    let words = [
        "",
        " ",
        "a",
        "yes",
        "No",
        "ON",
        "off",
        "y",
        "N",
        "true",
        "False",
        "null",
        "~",
        "Null",
        "1",
        "1.0",
        "1e3",
        "0x1F",
        "0o17",
        "017",
        "1_000",
        "1:30",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        ".inf",
        "-.INF",
        ".nan",
        "-",
        "--- a",
        "- a",
        "? a",
        ": a",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!a",
        "!!int 1",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "{",
        "[a]",
        "\"a\"",
        "'a'",
        "a,b",
        "a\nb",
        "a\nb\n",
        "a\n\nb\n\n",
        " a\nb",
        "\na\nb",
        "a\n  b",
        "a \nb",
        "a\tb",
        "a\r\nb",
        "a\u{7f}b",
        "\u{feff}a",
        "a\u{2028}b",
        "é",
        "🚀",
        "<<",
        "=",
        "\\",
        "a\\nb",
        "key=value",
        "example.com/path:1.2",
        "sha256:abc",
        "10Gi",
        "100m",
        "\u{1}",
        "a\nb\u{1}",
    ];
    let object = json!({
        "texts": words.to_vec(),
        "by key": words.iter().map(|word| ((*word).to_owned(), json!({ "v": word }))).collect::<serde_json::Map<String, Value>>(),
        "numbers": [0, -1, 1.5, 1.0, 1e300, u64::MAX, i64::MIN],
        "others": [true, false, null, [], {}, [[]], [[1, [2]], [{ "a": [{ "b": null }] }]]],
        "deep": { "list": [{ "name": "a", "env": [{ "name": "x", "value": "1" }] }, {}], "empty": {}, "none": [] },
    });
    let mut out = Vec::new();
    yaml::write(&mut out, object.to_string().as_bytes()).unwrap();
    let text = String::from_utf8(out).unwrap();
    let back: Value =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(back, object, "{text}");
}

#[test]
fn strings_of_several_lines_are_literal_blocks_in_yaml() {
    let object = json!({ "metadata": { "name": "a", "labels": { "on": "yes" } }, "data": { "run.sh": "#!/bin/sh\necho hello\n", "n": "1" },
        "spec": { "containers": [{ "name": "main", "args": ["-v", "x: y"] }] } });
    let mut out = Vec::new();
    yaml::write(&mut out, object.to_string().as_bytes()).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
    metadata:
      name: a
      labels:
        "on": "yes"
    data:
      run.sh: |
        #!/bin/sh
        echo hello
      "n": "1"
    spec:
      containers:
      - name: main
        args:
        - -v
        - 'x: y'
    "#);
}

#[test]
fn indentation_does_not_depend_on_how_the_json_is_split() {
    let json = r#"{"a":[1,{"b":"x\"],{y"}],"c":{},"d":[],"e":"\\"}"#;
    let expected = format!("{:#}", serde_json::from_str::<Value>(json).unwrap());
    for size in [1, 2, 3, 100] {
        let mut indenter = indent::Indenter::default();
        let mut out = Vec::new();
        json.as_bytes()
            .chunks(size)
            .for_each(|piece| indenter.write(&mut out, piece));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
