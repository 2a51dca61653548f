//! A watch of a search over kinds in two stores: the real OpenSearch and the embedded store.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    objects::{Objects, config_map_path},
    operator::Operator,
    query_api::request,
    scenario::{DEADLINE, Registry, prepare, start_operator, until},
    test_result::Tested,
};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

const NAMESPACE: &str = "shop";
const EMBEDDED: &str = "apis/search.karmada.io/v1alpha1/resourceregistries/searched-embedded";
/// Words of a label, and of the name of a cluster.
const SEARCH: &str = "member1 searchable kind:cm,svc ns:shop";

/// The lines of a watch.
struct WatchLines {
    response: Response,
    left: Vec<u8>,
}

impl WatchLines {
    async fn open(operator: &Operator, version: Option<&str>) -> Result<Self> {
        let version = version.map(|version| ("resourceVersion", version));
        let parameters = [("q", SEARCH), ("watch", "true")]
            .into_iter()
            .chain(version);
        let parameters: Vec<(&str, &str)> = parameters.collect();
        let response = ask(operator, &parameters).await?;
        ensure!(response.status() == StatusCode::OK, "{response:?}");
        let left = Vec::new();
        Ok(Self { response, left })
    }

    /// The next event: `ADDED Service a`, and its version.
    async fn next(&mut self) -> Result<(String, String)> {
        let line = timeout(DEADLINE, self.line()).await;
        let event: Value = serde_json::from_slice(&line.context("no event in time")??)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (object, metadata) = (&event["object"], &event["object"]["metadata"]);
        let words = [&event["type"], &object["kind"], &metadata["name"]].map(text);
        let what = words.join(" ").trim_end().to_owned();
        Ok((what, text(&metadata["resourceVersion"])))
    }

    async fn line(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == b'\n') {
                return Ok(self.left.drain(..=end).collect());
            }
            let chunk = self.response.chunk().await?;
            self.left.extend(chunk.context("the watch has ended")?);
        }
    }
}

async fn ask(operator: &Operator, parameters: &[(&str, &str)]) -> Result<Response> {
    let request = request(operator, "objects")?;
    Ok(request.query(parameters).send().await?)
}

/// The names of what is found, at a version or now.
async fn found(operator: &Operator, version: Option<&str>) -> Result<Vec<String>> {
    let version = version.map(|version| ("resourceVersion", version));
    let parameters: Vec<(&str, &str)> = [("q", SEARCH)].into_iter().chain(version).collect();
    let list: Value = ask(operator, &parameters).await?.json().await?;
    let items = list["items"].as_array().with_context(|| list.to_string())?;
    let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
    let mut names: Vec<String> = items.iter().filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

fn config_map(name: &str, label: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": { "note": label } } })
}

fn service(name: &str, label: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "labels": { "note": label } },
        "spec": { "ports": [{ "port": 80 }] } })
}

fn service_path(name: &str) -> String {
    format!("api/v1/namespaces/{NAMESPACE}/services/{name}")
}

/// `ConfigMap`s in OpenSearch, Services in the embedded store.
async fn start(fleet: &Fleet) -> (Operator, Objects) {
    prepare(fleet).await.unwrap();
    let hub = Objects::of(fleet.control_plane()).unwrap();
    let member = Objects::of(fleet.member(1)).unwrap();
    member.create_namespace(NAMESPACE).await.unwrap();
    let before = service("before", "searchable");
    member
        .apply(&service_path("before"), &before)
        .await
        .unwrap();
    let operator = start_operator(fleet, &[]).await.unwrap();
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::in_fleet(fleet, "searched", &["member1"], &kinds).unwrap();
    registry.apply().await.unwrap();
    let embedded = json!({
        "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "searched-embedded" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Service" }] },
    });
    hub.apply(EMBEDDED, &embedded).await.unwrap();
    registry.until_ready().await.unwrap();
    until("the embedded store answers", || async {
        let names = found(&operator, None).await?;
        ensure!(names == ["before"], "{names:?}");
        Ok(())
    })
    .await
    .unwrap();
    (operator, member)
}

#[tokio::test]
async fn a_watch_of_a_search_sends_the_changes_of_every_store() -> Tested {
    let fleet = Fleet::start(Options::of(1, OpenSearchKind::Plain)).await?;
    let (operator, member) = start(&fleet).await;
    let mut watch = WatchLines::open(&operator, None).await?;
    let (first, begun) = watch.next().await?;
    assert!(first.starts_with("BOOKMARK"), "{first}");
    assert_eq!(found(&operator, Some(&begun)).await?, ["before"]);

    // It is added, changes, ceases to match, and matches again until it is deleted.
    let path = config_map_path(NAMESPACE, "map");
    for (label, expected) in [
        ("searchable", "ADDED ConfigMap map"),
        ("a-searchable-one", "MODIFIED ConfigMap map"),
        ("other", "DELETED ConfigMap map"),
        ("searchable", "ADDED ConfigMap map"),
    ] {
        member.apply(&path, &config_map("map", label)).await?;
        let (event, version) = watch.next().await?;
        assert_eq!(event, expected, "{label}");
        let names = found(&operator, Some(&version)).await?;
        let shown = ["before", "map"];
        let shown = &shown[..=usize::from(label != "other")];
        assert_eq!(names, shown, "{label}: a list shows the event's version");
    }
    for (label, expected) in [
        ("searchable", "ADDED Service service"),
        ("other", "DELETED Service service"),
        ("searchable", "ADDED Service service"),
    ] {
        let object = service("service", label);
        member.apply(&service_path("service"), &object).await?;
        assert_eq!(watch.next().await?.0, expected, "{label}");
    }

    // Another watch continues from the last event.
    member.delete(&path).await?;
    assert_eq!(watch.next().await?.0, "DELETED ConfigMap map");
    member.delete(&service_path("service")).await?;
    let (event, last) = watch.next().await?;
    assert_eq!(event, "DELETED Service service");
    member.delete(&service_path("before")).await?;
    let mut next = WatchLines::open(&operator, Some(&last)).await?;
    let (bookmark, _) = next.next().await?;
    assert!(bookmark.starts_with("BOOKMARK"), "{bookmark}");
    for watch in [&mut watch, &mut next] {
        assert_eq!(watch.next().await?.0, "DELETED Service before");
    }
    Ok(())
}
