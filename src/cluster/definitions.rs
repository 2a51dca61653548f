//! What a member's custom resource definitions say about reading their objects: the columns that they are shown with, and the fields that
//! selectors may name. Read in the background.
//!
//! They are read when a connection begins and whenever discovery changes, which is when kinds come and go; and now and then, because a
//! definition may change alone, which no discovery tells. No query ever waits for it. A member that does not let us read them has none.

use std::{collections::BTreeMap, convert::Infallible, future::pending, sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

use super::{
    discovery::Discovery,
    request::{self, RequestError},
};
use crate::{
    kinds,
    model::{FieldPath, PrinterColumn, Resource},
    query::ResourceName,
};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Definitions in one answer. Each is at most 1.5 MB, which is what etcd takes; most are a tenth of that, and all but a few lines of it
/// schema.
const PAGE: usize = 10;
/// Answers that are read at a time, over all members: with full pages of the largest definitions they take 60 MB.
const READS: usize = 4;
/// Definitions of one member that are looked at: the kinds of the greatest discovery answer that is read.
const MAX_DEFINITIONS: usize = 10_000;
/// Time between two looks at a member whose discovery does not change.
const INTERVAL: Duration = Duration::from_mins(10);
/// Time after a look that failed.
const RETRY: Duration = Duration::from_mins(1);
/// How long the objects of custom resources wait for their definitions before they are read without. Later it costs writing them twice.
const PATIENCE: Duration = Duration::from_secs(5);

static READING: Semaphore = Semaphore::const_new(READS);

/// By resource and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions(BTreeMap<(ResourceName, Arc<str>), Definition>);

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
        self.0.iter().map(|((name, version), definition)| (name, version, definition))
    }

    /// The fields of a resource that selectors may name.
    pub fn fields(&self, resource: &Resource) -> &[FieldPath] {
        let key = (ResourceName::from(resource), Arc::clone(&resource.gvk.version));
        self.0.get(&key).map_or(&[], |definition| &definition.fields)
    }

    /// Those of some `CustomResourceDefinition`s.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(definitions: [serde_json::Value; N]) -> Self {
        let mut all = Self::default();
        for definition in definitions {
            all.add(serde_json::from_value(definition).unwrap());
        }
        all
    }

    fn add(&mut self, Custom { spec }: Custom) {
        for Version { name, additional_printer_columns, selectable_fields } in spec.versions {
            let key = (ResourceName::new(&spec.group, &spec.names.plural), name.into());
            let fields = selectable_fields.iter().filter_map(SelectableField::path).collect();
            self.0.insert(key, Definition { columns: additional_printer_columns.into(), fields });
        }
    }
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
            let is_final = matches!(error.status(), Some(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND));
            tell(is_final.then(Definitions::default));
            if is_final { INTERVAL } else { RETRY }
        }
    }
}

/// Whether there is anything to look for.
fn has_custom_kinds(discovery: &Discovery) -> bool {
    let is_definition = |resource: &Resource| &*resource.gvk.group == GROUP && &*resource.plural == PLURAL;
    let is_built_in = |resource: &Resource| kinds::is_built_in(&resource.gvk);
    let served = || discovery.served.iter().filter(|served| served.list_and_watch).map(|served| &served.resource);
    served().any(is_definition) && !served().all(is_built_in)
}

/// Reads all definitions, page by page. Each request takes at most `timeout`.
async fn read(client: &Client, timeout: Duration) -> Result<Definitions, RequestError> {
    let mut definitions = Definitions::default();
    let mut token = String::new();
    let mut seen = 0;
    loop {
        let path = format!("{PATH}?limit={PAGE}&continue={}", utf8_percent_encode(&token, NON_ALPHANUMERIC));
        // It is never closed.
        let place = READING.acquire().await;
        let answer = request::get(client, &path, HeaderMap::new(), timeout).await?;
        let unreadable = |error: serde_json::Error| RequestError::unreadable(&path, &error);
        let List { metadata, items } = serde_json::from_slice(&answer.body).map_err(unreadable)?;
        drop(answer);
        drop(place);
        seen += items.len();
        for definition in items {
            definitions.add(definition);
        }
        token = metadata.next;
        if token.is_empty() || seen >= MAX_DEFINITIONS {
            return Ok(definitions);
        }
    }
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<Custom>,
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
    versions: Vec<Version>,
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
    additional_printer_columns: Vec<PrinterColumn>,
    #[serde(default)]
    selectable_fields: Vec<SelectableField>,
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
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio_util::task::AbortOnDropHandle;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::{cluster::discovery::Served, model::Gvk};

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
            let number: usize = query.rsplit('=').next().unwrap().parse().unwrap_or_default();
            notes.lock().unwrap().push(query);
            let next = if number + 1 < pages.len() { (number + 1).to_string() } else { String::new() };
            let list = json!({ "metadata": { "continue": next }, "items": pages[number] });
            let response = Response::builder().status(code).body(Body::from(list.to_string().into_bytes())).unwrap();
            async move { Ok::<_, BoxError>(response) }
        });
        (Client::new(service, "default"), asked)
    }

    fn discovery(kinds: &[(&str, &str, &str)]) -> Discovery {
        let served = kinds.iter().map(|(group, kind, plural)| Served {
            resource: Resource { gvk: Gvk::new(group, "v1", kind), plural: (*plural).into(), namespaced: true },
            singular: "".into(),
            short_names: Vec::new(),
            list_and_watch: true,
            preferred: true,
            offers: std::sync::Arc::default(),
        });
        Discovery { served: served.collect(), ..Discovery::default() }
    }

    const DEFINITIONS: (&str, &str, &str) = (GROUP, "CustomResourceDefinition", PLURAL);

    #[tokio::test]
    async fn the_columns_and_fields_of_every_version_are_read_page_by_page() {
        let columns = json!([{ "name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1 }]);
        let pages = vec![json!([definition("widgets", &columns)]), json!([definition("gadgets", &json!([]))])];
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
        assert_eq!(shown, [r#"gadgets v1 [] ["spec.color"]"#, "gadgets v1beta1 [] []", widgets, "widgets v1beta1 [] []"]);
        assert_eq!(*asked.lock().unwrap(), ["limit=10&continue=", "limit=10&continue=1"]);
    }

    #[test]
    fn a_member_without_custom_kinds_is_not_asked() {
        let pods = ("", "Pod", "pods");
        let widgets = ("example.com", "Widget", "widgets");
        assert!(has_custom_kinds(&discovery(&[pods, DEFINITIONS, widgets])));
        assert!(!has_custom_kinds(&discovery(&[pods, DEFINITIONS])));
        assert!(!has_custom_kinds(&discovery(&[pods, widgets])), "its kinds are an aggregated API's");
    }

    type Told = Arc<Mutex<Vec<Option<usize>>>>;

    /// What is told, as the number of definitions, if they are known.
    fn follow_and_note(client: Client, receiver: watch::Receiver<Arc<Discovery>>) -> (AbortOnDropHandle<Infallible>, Told) {
        let told = Told::default();
        let notes = Arc::clone(&told);
        let note = move |found: Option<Definitions>| notes.lock().unwrap().push(found.map(|found| found.iter().count()));
        (AbortOnDropHandle::new(tokio::spawn(follow(client, Duration::from_secs(1), receiver, note))), told)
    }

    #[tokio::test(start_paused = true)]
    async fn definitions_are_read_again_when_discovery_changes_and_now_and_then() {
        let (client, asked) = member(200, vec![json!([definition("widgets", &json!([]))])]);
        let (sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS])));
        let (_following, told) = follow_and_note(client, receiver);
        sleep(Duration::from_secs(1)).await;
        assert_eq!((asked.lock().unwrap().len(), &*told.lock().unwrap()), (0, &vec![Some(0)]));
        sender.send_replace(Arc::new(discovery(&[DEFINITIONS, ("example.com", "Widget", "widgets")])));
        sleep(Duration::from_secs(1)).await;
        assert_eq!((asked.lock().unwrap().len(), &*told.lock().unwrap()), (1, &vec![Some(0), Some(2)]));
        sleep(INTERVAL).await;
        assert_eq!(asked.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_forbids_it_is_asked_rarely_and_has_none() {
        let (client, asked) = member(403, vec![json!([])]);
        let (_sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS, ("example.com", "Widget", "widgets")])));
        let (_following, told) = follow_and_note(client, receiver);
        sleep(PATIENCE / 2).await;
        assert_eq!(*told.lock().unwrap(), [Some(0)]);
        sleep(INTERVAL / 2).await;
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_definitions_that_are_slow_to_come() {
        let never = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, BoxError>>());
        let (_sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS, ("example.com", "Widget", "widgets")])));
        let (_following, told) = follow_and_note(Client::new(never, "default"), receiver);
        sleep(PATIENCE + Duration::from_millis(1)).await;
        assert_eq!(told.lock().unwrap().last(), Some(&None));
    }
}
