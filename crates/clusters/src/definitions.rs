//! What a member's custom resource definitions say about reading their objects: the columns that they are shown with, and the fields that
//! selectors may name. Read in the background.
//!
//! They are read when a connection begins and whenever discovery changes, which is when kinds come and go; and now and then, because a
//! definition may change alone, which no discovery tells. No query ever waits for it. A member that does not let us read them has none.

use std::{collections::BTreeMap, convert::Infallible, future::pending, sync::Arc, time::Duration};

use fleetdex_core::{
    kinds,
    model::{FieldPath, First, PrinterColumn, Resource},
    query::ResourceName,
};
use http::{HeaderMap, StatusCode};
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

use super::{
    discovery::{Discovery, is_group, is_name},
    request::{self, RequestError},
};
use crate::watch::MAX_TOKEN;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Definitions in one answer. Each is at most 1.5 MB, which is what etcd takes; most are a tenth of that, and all but a few lines of it
/// schema.
const PAGE: usize = 10;
/// Answers that are read at a time, over all members: with full pages of the largest definitions they take 60 MB.
const READS: usize = 4;
/// Answers of one member that are read: with all of the definitions that the greatest discovery answer has kinds, and as many if a member sends empty pages.
const MAX_PAGES: usize = 10_000 / PAGE;
/// Versions of a definition. Few have more than three.
const MAX_VERSIONS: usize = 32;
/// Columns of a version. Few have more than ten.
const MAX_COLUMNS: usize = 64;
/// Source: API servers take 8 `selectableFields` of a version.
const MAX_FIELDS: usize = 8;
/// Bytes of what a column or field says, all in all. Most have a tenth.
const MAX_TEXT: usize = 4_096;
/// What is kept of one member's definitions: 1,000 definitions in two versions of ten columns each take 4 MiB.
const MAX_BYTES: usize = 8 << 20;
/// What a version, a column or a field takes besides its text.
const OVERHEAD: usize = 128;
/// Time between two looks at a member whose discovery does not change.
const INTERVAL: Duration = Duration::from_mins(10);
/// Time after a look that failed.
const RETRY: Duration = Duration::from_mins(1);
/// How long the objects of custom resources wait for their definitions before they are read without. Later it costs writing them twice.
const PATIENCE: Duration = Duration::from_secs(5);

static READING: Semaphore = Semaphore::const_new(READS);

/// By resource and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    known: BTreeMap<(ResourceName, Arc<str>), Definition>,
    /// Memory that they take.
    bytes: usize,
    left_out: usize,
}

/// One version of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// The columns that its objects are shown with.
    pub columns: Arc<[PrinterColumn]>,
    /// `selectableFields`: what field selectors may name besides name and namespace.
    pub fields: Vec<FieldPath>,
}

impl Definitions {
    /// All of them: the resource, its version, and what is defined.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, &Arc<str>, &Definition)> {
        self.known
            .iter()
            .map(|((name, version), definition)| (name, version, definition))
    }

    /// How many versions, columns, fields and pages are left out because they are too many or too long.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The fields of a resource that selectors may name.
    pub fn fields(&self, resource: &Resource) -> &[FieldPath] {
        let key = (
            ResourceName::from(resource),
            Arc::clone(&resource.gvk.version),
        );
        self.known
            .get(&key)
            .map_or(&[], |definition| &definition.fields)
    }

    /// Those of some `CustomResourceDefinition`s.
    #[cfg(any(test, feature = "testing"))]
    #[allow(
        clippy::missing_panics_doc,
        clippy::unwrap_used,
        reason = "for tests only"
    )]
    pub fn of<const N: usize>(definitions: [serde_json::Value; N]) -> Self {
        let mut all = Self::default();
        for definition in definitions {
            all.add(serde_json::from_value(definition).unwrap());
        }
        all
    }

    /// Adds a definition, as far as it is within the limits.
    fn add(&mut self, Custom { spec }: Custom) {
        let plural = &spec.names.plural;
        self.left_out += spec.versions.more;
        for Version {
            name,
            additional_printer_columns: columns,
            selectable_fields: fields,
        } in spec.versions.first
        {
            let is_named = is_group(&spec.group) && is_name(plural) && is_name(&name);
            if !is_named || !self.has_room_for(spec.group.len() + plural.len() + name.len()) {
                self.left_out += 1;
                continue;
            }
            self.left_out += columns.more + fields.more;
            let columns = columns
                .first
                .into_iter()
                .filter(|column| self.has_room_for(length(column)))
                .collect();
            let fields = fields
                .first
                .iter()
                .filter(|field| self.has_room_for(field.json_path.len()));
            let fields = fields.filter_map(SelectableField::path).collect();
            self.known.insert(
                (ResourceName::new(&spec.group, plural), name.into()),
                Definition { columns, fields },
            );
        }
    }

    /// Whether so much text can be kept; counts it.
    fn has_room_for(&mut self, text: usize) -> bool {
        let bytes = self.bytes + text + OVERHEAD;
        let has_room = text <= MAX_TEXT && bytes <= MAX_BYTES;
        if has_room {
            self.bytes = bytes;
        } else {
            self.left_out += 1;
        }
        has_room
    }
}

fn length(column: &PrinterColumn) -> usize {
    let PrinterColumn {
        name,
        kind,
        format,
        description,
        priority: _,
        json_path,
    } = column;
    [name, kind, format, description, json_path]
        .map(|text| text.len())
        .iter()
        .sum()
}

/// Keeps `tell` up to date, until dropped: with nothing when they cannot be read for now.
pub(super) async fn follow(
    client: Client,
    timeout: Duration,
    discovery: watch::Receiver<Arc<Discovery>>,
    tell: impl Fn(Option<Definitions>),
) -> Infallible {
    let impatience = async {
        sleep(PATIENCE).await;
        tell(None);
        pending().await
    };
    tokio::select! {
        never = look_again_and_again(&client, timeout, discovery, &tell) => never,
        never = impatience => never,
    }
}

async fn look_again_and_again(
    client: &Client,
    timeout: Duration,
    mut discovery: watch::Receiver<Arc<Discovery>>,
    tell: &impl Fn(Option<Definitions>),
) -> Infallible {
    loop {
        let has_custom_kinds = has_custom_kinds(&discovery.borrow_and_update());
        let pause = if has_custom_kinds {
            look(client, timeout, tell).await
        } else {
            tell(Some(Definitions::default()));
            INTERVAL
        };
        tokio::select! {
            Ok(()) = discovery.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// How long to wait before the next look.
async fn look(client: &Client, timeout: Duration, tell: &impl Fn(Option<Definitions>)) -> Duration {
    match read(client, timeout).await {
        Ok(found) => {
            tell(Some(found));
            INTERVAL
        }
        Err(error) => {
            tracing::debug!(%error, "the definitions of custom resources are not known");
            let is_final = matches!(
                error.status(),
                Some(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
            );
            tell(is_final.then(Definitions::default));
            if is_final { INTERVAL } else { RETRY }
        }
    }
}

/// Whether there is anything to look for.
fn has_custom_kinds(discovery: &Discovery) -> bool {
    let is_definition =
        |resource: &Resource| &*resource.gvk.group == GROUP && &*resource.plural == PLURAL;
    let is_built_in = |resource: &Resource| kinds::is_built_in(&resource.gvk);
    let served = || {
        discovery
            .served
            .iter()
            .filter(|served| served.list_and_watch)
            .map(|served| &served.resource)
    };
    served().any(is_definition) && !served().all(is_built_in)
}

/// Reads all definitions, page by page. Each request takes at most `timeout`.
async fn read(client: &Client, timeout: Duration) -> Result<Definitions, RequestError> {
    let mut definitions = Definitions::default();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let path = format!(
            "{PATH}?limit={PAGE}&continue={}",
            utf8_percent_encode(&token, NON_ALPHANUMERIC)
        );
        // It is never closed.
        let place = READING.acquire().await;
        let answer = request::get(client, &path, HeaderMap::new(), timeout).await?;
        let unreadable = |error: serde_json::Error| RequestError::unreadable(&path, &error);
        let List { metadata, items } = serde_json::from_slice(&answer.body).map_err(unreadable)?;
        drop(answer);
        drop(place);
        definitions.left_out += items.more;
        for definition in items.first {
            definitions.add(definition);
        }
        token = metadata.next;
        if token.is_empty() {
            return Ok(definitions);
        }
        if token.len() > MAX_TOKEN {
            let fault = format!(
                "its continue token has {} bytes, more than {MAX_TOKEN}",
                token.len()
            );
            return Err(RequestError::Unreadable {
                path: PATH.to_owned(),
                fault,
            });
        }
    }
    definitions.left_out += 1;
    Ok(definitions)
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: First<Custom, PAGE>,
}

#[derive(Deserialize, Default)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// A `CustomResourceDefinition`.
#[derive(Deserialize)]
struct Custom {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    names: Names,
    versions: First<Version, MAX_VERSIONS>,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    #[serde(default)]
    additional_printer_columns: First<PrinterColumn, MAX_COLUMNS>,
    #[serde(default)]
    selectable_fields: First<SelectableField, MAX_FIELDS>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectableField {
    json_path: String,
}

impl SelectableField {
    /// As field selectors name it. API servers take paths without lists only, such as `.spec.color`.
    fn path(&self) -> Option<FieldPath> {
        let path = FieldPath::new(self.json_path.strip_prefix('.')?);
        path.canonical().filter(|canonical| *canonical == path)
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::Gvk;
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio_util::task::AbortOnDropHandle;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::discovery::Served;

    fn definition(plural: &str, columns: &Value) -> Value {
        json!({ "metadata": { "name": plural }, "spec": { "group": "example.com", "names": { "plural": plural, "kind": "X" },
            "versions": [{ "name": "v1", "served": true, "schema": { "openAPIV3Schema": { "type": "object" } },
                "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": "spec.size" }],
                "additionalPrinterColumns": columns }, { "name": "v1beta1" }] } })
    }

    /// A member with these pages of definitions, which notes what it is asked for.
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
        let served = kinds.iter().map(|(group, kind, plural)| Served {
            resource: Resource {
                gvk: Gvk::new(group, "v1", kind),
                plural: (*plural).into(),
                namespaced: true,
            },
            singular: "".into(),
            short_names: Vec::new(),
            list_and_watch: true,
            preferred: true,
            offers: std::sync::Arc::default(),
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
            .map(|(name, version, Definition { columns, fields })| {
                let columns: Vec<&str> = columns.iter().map(|column| &*column.json_path).collect();
                let fields: Vec<&str> = fields.iter().map(FieldPath::as_str).collect();
                format!("{} {version} {columns:?} {fields:?}", name.plural)
            })
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
    fn of_definitions_without_end_little_is_kept() {
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
    async fn pages_without_end_come_to_an_end() {
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
    async fn a_long_token_is_not_kept() {
        let list = json!({ "metadata": { "continue": "x".repeat(MAX_TOKEN + 1) }, "items": [] })
            .to_string();
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
    fn a_member_without_custom_kinds_is_not_asked() {
        let pods = ("", "Pod", "pods");
        let widgets = ("example.com", "Widget", "widgets");
        assert!(has_custom_kinds(&discovery(&[pods, DEFINITIONS, widgets])));
        assert!(!has_custom_kinds(&discovery(&[pods, DEFINITIONS])));
        assert!(
            !has_custom_kinds(&discovery(&[pods, widgets])),
            "its kinds are an aggregated API's"
        );
    }

    type Told = Arc<Mutex<Vec<Option<usize>>>>;

    /// What is told, as the number of definitions, if they are known.
    fn follow_and_note(
        client: Client,
        receiver: watch::Receiver<Arc<Discovery>>,
    ) -> (AbortOnDropHandle<Infallible>, Told) {
        let told = Told::default();
        let notes = Arc::clone(&told);
        let note = move |found: Option<Definitions>| {
            notes.lock().push(found.map(|found| found.iter().count()));
        };
        (
            AbortOnDropHandle::new(tokio::spawn(follow(
                client,
                Duration::from_secs(1),
                receiver,
                note,
            ))),
            told,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn definitions_are_read_again_when_discovery_changes_and_now_and_then() {
        let (client, asked) = member(200, vec![json!([definition("widgets", &json!([]))])]);
        let (sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS])));
        let (_following, told) = follow_and_note(client, receiver);
        sleep(Duration::from_secs(1)).await;
        assert_eq!((asked.lock().len(), &*told.lock()), (0, &vec![Some(0)]));
        sender.send_replace(Arc::new(discovery(&[
            DEFINITIONS,
            ("example.com", "Widget", "widgets"),
        ])));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(
            (asked.lock().len(), &*told.lock()),
            (1, &vec![Some(0), Some(2)])
        );
        sleep(INTERVAL).await;
        assert_eq!(asked.lock().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_forbids_it_is_asked_rarely_and_has_none() {
        let (client, asked) = member(403, vec![json!([])]);
        let (_sender, receiver) = watch::channel(Arc::new(discovery(&[
            DEFINITIONS,
            ("example.com", "Widget", "widgets"),
        ])));
        let (_following, told) = follow_and_note(client, receiver);
        sleep(PATIENCE / 2).await;
        assert_eq!(*told.lock(), [Some(0)]);
        sleep(INTERVAL / 2).await;
        assert_eq!(asked.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_definitions_that_are_slow_to_come() {
        let never = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, BoxError>>());
        let (_sender, receiver) = watch::channel(Arc::new(discovery(&[
            DEFINITIONS,
            ("example.com", "Widget", "widgets"),
        ])));
        let (_following, told) = follow_and_note(Client::new(never, "default"), receiver);
        sleep(PATIENCE + Duration::from_millis(1)).await;
        assert_eq!(told.lock().last(), Some(&None));
    }
}
