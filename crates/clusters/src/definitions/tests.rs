use std::future::pending;

use fleetdex_core::model::Gvk;
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, service_fn};

use super::{wire::MAX_COLUMNS, *};
use crate::discovery::ServedResource;

fn definition(plural: &str, columns: &Value) -> Value {
    json!({ "metadata": { "name": plural }, "spec": { "group": "example.com", "names": { "plural": plural, "kind": "X" },
            "versions": [{ "name": "v1", "served": true, "schema": { "openAPIV3Schema": { "type": "object" } },
                "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": "spec.size" }],
                "additionalPrinterColumns": columns }, { "name": "v1beta1" }] } })
}

/// A member with these pages of definitions, which records its requests.
fn member(code: u16, pages: Vec<Value>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let number: usize = query
            .rsplit('=')
            .next()
            .unwrap()
            .parse()
            .unwrap_or_default();
        notes.lock().push(query);
        let next = if number + 1 < pages.len() {
            (number + 1).to_string()
        } else {
            String::new()
        };
        let list = json!({ "metadata": { "continue": next }, "items": pages[number] });
        let response = Response::builder()
            .status(code)
            .body(Body::from(list.to_string().into_bytes()))
            .unwrap();
        async move { Ok::<_, BoxError>(response) }
    });
    (Client::new(service, "default"), asked)
}

fn discovery(kinds: &[(&str, &str, &str)]) -> Discovery {
    let served = kinds.iter().map(|(group, kind, plural)| ServedResource {
        resource: Resource {
            gvk: Gvk::new(group, "v1", kind),
            plural: (*plural).into(),
            namespaced: true,
        },
        singular: "".into(),
        short_names: Vec::new(),
        list_and_watch: true,
        preferred: true,
        capabilities: std::sync::Arc::default(),
    });
    Discovery {
        served: served.collect(),
        ..Discovery::default()
    }
}

const DEFINITIONS: (&str, &str, &str) = (GROUP, "CustomResourceDefinition", PLURAL);

#[tokio::test]
async fn the_columns_and_fields_of_every_version_are_read_page_by_page() {
    let columns =
        json!([{ "name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1 }]);
    let pages = vec![
        json!([definition("widgets", &columns)]),
        json!([definition("gadgets", &json!([]))]),
    ];
    let (client, asked) = member(200, pages);
    let found = read(&client, Duration::from_secs(1)).await.unwrap();
    let shown: Vec<String> = found
        .iter()
        .map(
            |(
                name,
                version,
                Definition {
                    columns, fields, ..
                },
            )| {
                let columns: Vec<&str> = columns.iter().map(|column| &*column.json_path).collect();
                let fields: Vec<&str> = fields.iter().map(FieldPath::as_str).collect();
                format!("{} {version} {columns:?} {fields:?}", name.plural)
            },
        )
        .collect();
    let widgets = r#"widgets v1 [".spec.size"] ["spec.color"]"#;
    assert_eq!(
        shown,
        [
            r#"gadgets v1 [] ["spec.color"]"#,
            "gadgets v1beta1 [] []",
            widgets,
            "widgets v1beta1 [] []"
        ]
    );
    assert_eq!(*asked.lock(), ["limit=10&continue=", "limit=10&continue=1"]);
}

#[test]
fn a_schema_says_whether_there_is_a_status() {
    let gvk = Gvk::new("example.com", "v1", "X");
    let resource = Resource {
        gvk,
        plural: "widgets".into(),
        namespaced: true,
    };
    let spec = json!({ "type": "object" });
    for (schema, expected) in [
        (json!({ "properties": { "spec": spec } }), true),
        (
            json!({ "properties": { "spec": spec, "status": spec } }),
            false,
        ),
        (
            json!({ "properties": { "spec": spec }, "x-kubernetes-preserve-unknown-fields": true }),
            false,
        ),
        (json!({ "type": "object" }), false),
    ] {
        let mut defined = definition("widgets", &json!([]));
        defined["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
        let found = Definitions::of([defined]);
        assert_eq!(found.lacks_status(&resource), expected, "{schema}");
    }
    assert!(!Definitions::default().lacks_status(&resource));
}

#[test]
fn oversized_definitions_are_limited() {
    let long = "x".repeat(MAX_TEXT + 1);
    let column = |path: &str| json!({ "name": "Size", "type": "integer", "jsonPath": path });
    let columns: Vec<Value> = (0..1_000)
        .map(|number| column(&format!(".spec.a{number}")))
        .collect();
    let found = Definitions::of([definition(
        "widgets",
        &json!([column(&long), column(".spec.b")]),
    )]);
    assert_eq!(
        found
            .iter()
            .map(|(_, _, found)| found.columns.len())
            .collect::<Vec<_>>(),
        [1, 0]
    );
    assert_eq!(found.left_out, 1);
    let found = Definitions::of([definition("widgets", &json!(columns))]);
    assert_eq!(found.iter().next().unwrap().2.columns.len(), MAX_COLUMNS);
    assert_eq!(
        Definitions::of([definition(&long, &json!([]))])
            .iter()
            .count(),
        0
    );
    let mut found = Definitions::default();
    for number in 0..10_000 {
        let columns: Vec<Value> = (0..MAX_COLUMNS)
            .map(|_| column(&"x".repeat(3_000)))
            .collect();
        found.add(
            serde_json::from_value(definition(&format!("widgets{number}"), &json!(columns)))
                .unwrap(),
        );
        if found.bytes > MAX_BYTES - 3_000 {
            break;
        }
    }
    let kept: usize = found
        .iter()
        .flat_map(|(_, _, found)| found.columns.iter())
        .map(length)
        .sum();
    assert!(kept <= MAX_BYTES && found.left_out > 0, "{kept}");
}

#[tokio::test]
async fn the_number_of_pages_is_limited() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let service = service_fn(move |_: Request<Body>| {
        *count.lock() += 1;
        let list = json!({ "metadata": { "continue": count.lock().to_string() }, "items": [] });
        async move { Ok::<_, BoxError>(Response::new(Body::from(list.to_string().into_bytes()))) }
    });
    assert_eq!(
        read(&Client::new(service, "default"), Duration::from_secs(1))
            .await
            .unwrap()
            .left_out,
        1
    );
    assert_eq!(*asked.lock(), MAX_PAGES);
}

#[tokio::test]
async fn a_long_continue_token_is_an_error() {
    let list =
        json!({ "metadata": { "continue": "x".repeat(MAX_TOKEN + 1) }, "items": [] }).to_string();
    let service = service_fn(move |_: Request<Body>| {
        let body = Body::from(list.clone().into_bytes());
        async move { Ok::<_, BoxError>(Response::new(body)) }
    });
    let error = read(&Client::new(service, "default"), Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(
        error.to_string().len() < 1_000 && error.reason() == "NotKubernetes",
        "{error}"
    );
}

#[test]
fn a_member_without_custom_kinds_is_not_read() {
    let pods = ("", "Pod", "pods");
    let widgets = ("example.com", "Widget", "widgets");
    assert!(has_custom_kinds(&discovery(&[pods, DEFINITIONS, widgets])));
    assert!(!has_custom_kinds(&discovery(&[pods, DEFINITIONS])));
    assert!(
        !has_custom_kinds(&discovery(&[pods, widgets])),
        "its kinds are an aggregated API's"
    );
}

type Published = Arc<Mutex<Vec<Option<usize>>>>;

/// Records the number of published definitions; `None` if they are not known.
fn poll_and_record(
    client: Client,
    receiver: watch::Receiver<Arc<Discovery>>,
) -> (AbortOnDropHandle<Infallible>, Published) {
    let published = Published::default();
    let notes = Arc::clone(&published);
    let note = move |found: Option<Definitions>| {
        notes.lock().push(found.map(|found| found.iter().count()));
    };
    (
        AbortOnDropHandle::new(tokio::spawn(poll(
            client,
            Duration::from_secs(1),
            receiver,
            note,
        ))),
        published,
    )
}

#[tokio::test(start_paused = true)]
async fn definitions_are_read_again_when_discovery_changes_and_after_the_interval() {
    let (client, asked) = member(200, vec![json!([definition("widgets", &json!([]))])]);
    let (sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS])));
    let (_polling, published) = poll_and_record(client, receiver);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        (asked.lock().len(), &*published.lock()),
        (0, &vec![Some(0)])
    );
    sender.send_replace(Arc::new(discovery(&[
        DEFINITIONS,
        ("example.com", "Widget", "widgets"),
    ])));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        (asked.lock().len(), &*published.lock()),
        (1, &vec![Some(0), Some(2)])
    );
    sleep(INTERVAL).await;
    assert_eq!(asked.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_forbids_reading_them_has_none_and_is_read_rarely() {
    let (client, asked) = member(403, vec![json!([])]);
    let (_sender, receiver) = watch::channel(Arc::new(discovery(&[
        DEFINITIONS,
        ("example.com", "Widget", "widgets"),
    ])));
    let (_polling, published) = poll_and_record(client, receiver);
    sleep(INITIAL_TIMEOUT / 2).await;
    assert_eq!(*published.lock(), [Some(0)]);
    sleep(INTERVAL / 2).await;
    assert_eq!(asked.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_definitions_are_published_as_unknown_after_five_seconds() {
    let never = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, BoxError>>());
    let (_sender, receiver) = watch::channel(Arc::new(discovery(&[
        DEFINITIONS,
        ("example.com", "Widget", "widgets"),
    ])));
    let (_polling, published) = poll_and_record(Client::new(never, "default"), receiver);
    sleep(INITIAL_TIMEOUT + Duration::from_millis(1)).await;
    assert_eq!(published.lock().last(), Some(&None));
}
