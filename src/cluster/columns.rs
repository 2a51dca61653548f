//! The columns that a member's custom resource definitions show their objects with, read in the background.
//!
//! They are read when a connection begins and whenever discovery changes, which is when kinds come and go; and now and then, because a
//! definition may change its columns alone, which no discovery tells. No query ever waits for it. A member that does not let us read
//! them has none.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

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
use crate::{kinds, model::PrinterColumn, query::ResourceName};

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

static READING: Semaphore = Semaphore::const_new(READS);

/// By resource and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrinterColumns(BTreeMap<(ResourceName, Arc<str>), Arc<[PrinterColumn]>>);

impl PrinterColumns {
    /// All of them: the resource, its version, and the columns, of which there may be none.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, &Arc<str>, &Arc<[PrinterColumn]>)> {
        self.0.iter().map(|((name, version), columns)| (name, version, columns))
    }

    fn add(&mut self, Definition { spec }: Definition) {
        for Version { name, additional_printer_columns } in spec.versions {
            let key = (ResourceName::new(&spec.group, &spec.names.plural), name.into());
            self.0.insert(key, additional_printer_columns.into());
        }
    }
}

/// Keeps `tell` up to date, until dropped.
pub(super) async fn follow(
    client: Client,
    timeout: Duration,
    mut discovery: watch::Receiver<Arc<Discovery>>,
    tell: impl Fn(PrinterColumns),
) -> Infallible {
    loop {
        let has_custom_kinds = has_custom_kinds(&discovery.borrow_and_update());
        let pause = if has_custom_kinds { look(&client, timeout, &tell).await } else { INTERVAL };
        tokio::select! {
            Ok(()) = discovery.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// How long to wait before the next look.
async fn look(client: &Client, timeout: Duration, tell: &impl Fn(PrinterColumns)) -> Duration {
    match read(client, timeout).await {
        Ok(found) => {
            tell(found);
            INTERVAL
        }
        Err(error) => {
            tracing::debug!(%error, "the columns of custom resources are not known");
            let is_final = matches!(error.status(), Some(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND));
            if is_final { INTERVAL } else { RETRY }
        }
    }
}

/// Whether there is anything to look for.
fn has_custom_kinds(discovery: &Discovery) -> bool {
    let is_definition = |resource: &crate::model::Resource| &*resource.gvk.group == GROUP && &*resource.plural == PLURAL;
    let is_built_in = |resource: &crate::model::Resource| {
        kinds::all().iter().any(|entry| entry.group == &*resource.gvk.group && entry.kind == &*resource.gvk.kind)
    };
    let served = || discovery.served.iter().filter(|served| served.list_and_watch).map(|served| &served.resource);
    served().any(is_definition) && !served().all(is_built_in)
}

/// Reads all definitions, page by page. Each request takes at most `timeout`.
async fn read(client: &Client, timeout: Duration) -> Result<PrinterColumns, RequestError> {
    let mut columns = PrinterColumns::default();
    let mut token = String::new();
    let mut seen = 0;
    loop {
        let path = format!("{PATH}?limit={PAGE}&continue={}", utf8_percent_encode(&token, NON_ALPHANUMERIC));
        // It is never closed.
        let place = READING.acquire().await;
        let answer = request::get(client, &path, HeaderMap::new(), timeout).await?;
        let unreadable = |source| RequestError::Unreadable { path, source };
        let List { metadata, items } = serde_json::from_slice(&answer.body).map_err(unreadable)?;
        drop(answer);
        drop(place);
        seen += items.len();
        for definition in items {
            columns.add(definition);
        }
        token = metadata.next;
        if token.is_empty() || seen >= MAX_DEFINITIONS {
            return Ok(columns);
        }
    }
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<Definition>,
}

#[derive(Deserialize, Default)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Definition {
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
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::{
        cluster::discovery::Served,
        model::{Gvk, Resource},
    };

    fn definition(plural: &str, columns: &Value) -> Value {
        json!({ "metadata": { "name": plural }, "spec": { "group": "example.com", "names": { "plural": plural, "kind": "X" },
            "versions": [{ "name": "v1", "served": true, "schema": { "openAPIV3Schema": { "type": "object" } },
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
    async fn the_columns_of_every_version_are_read_page_by_page() {
        let columns = json!([{ "name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1 }]);
        let pages = vec![json!([definition("widgets", &columns)]), json!([definition("gadgets", &json!([]))])];
        let (client, asked) = member(200, pages);
        let found = read(&client, Duration::from_secs(1)).await.unwrap();
        let shown: Vec<String> = found
            .iter()
            .map(|(name, version, columns)| {
                let paths: Vec<&str> = columns.iter().map(|column| &*column.json_path).collect();
                format!("{} {version} {paths:?}", name.plural)
            })
            .collect();
        assert_eq!(shown, ["gadgets v1 []", "gadgets v1beta1 []", "widgets v1 [\".spec.size\"]", "widgets v1beta1 []"]);
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

    #[tokio::test(start_paused = true)]
    async fn definitions_are_read_again_when_discovery_changes_and_now_and_then() {
        let (client, asked) = member(200, vec![json!([definition("widgets", &json!([]))])]);
        let (sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS])));
        let told: Arc<Mutex<usize>> = Arc::default();
        let count = Arc::clone(&told);
        let following = tokio::spawn(follow(client, Duration::from_secs(1), receiver, move |_| *count.lock().unwrap() += 1));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(asked.lock().unwrap().len(), 0);
        sender.send_replace(Arc::new(discovery(&[DEFINITIONS, ("example.com", "Widget", "widgets")])));
        sleep(Duration::from_secs(1)).await;
        assert_eq!((asked.lock().unwrap().len(), *told.lock().unwrap()), (1, 1));
        sleep(INTERVAL).await;
        assert_eq!(asked.lock().unwrap().len(), 2);
        following.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_forbids_it_is_asked_rarely() {
        let (client, asked) = member(403, vec![json!([])]);
        let (_sender, receiver) = watch::channel(Arc::new(discovery(&[DEFINITIONS, ("example.com", "Widget", "widgets")])));
        let following = tokio::spawn(follow(client, Duration::from_secs(1), receiver, |_| panic!("nothing was read")));
        sleep(INTERVAL / 2).await;
        assert_eq!(asked.lock().unwrap().len(), 1);
        following.abort();
    }
}
