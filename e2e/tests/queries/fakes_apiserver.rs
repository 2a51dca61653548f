//! The simulated API server responds to a script of requests like a real kube-apiserver on a real
//! etcd.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    generate::widget_definition,
    http,
    objects::Objects,
    scenario::until,
};
use fakes::apiserver;
use http_body_util::BodyExt;
use reqwest::Method;
use serde_json::{Map, Value, json};

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const PARTIAL_OBJECTS: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// One name is a prefix of the other: etcd's order of keys is not that of (namespace, name) pairs.
const NAMESPACES: [&str; 2] = ["likeness", "likeness-2"];
const MAPS: &str = "api/v1/namespaces/likeness/configmaps";
const ALL_MAPS: &str = "api/v1/configmaps?labelSelector=of%3Dus";
const ELSEWHERE: &str = "api/v1/namespaces/likeness-2/configmaps";
const FUTURE: &str = "?limit=1&resourceVersion=999999999&resourceVersionMatch=NotOlderThan";
const WIDGETS: &str = "apis/example.com/v1/namespaces/likeness/widgets";

/// One of the two servers.
enum Side {
    Fake(apiserver::Server),
    Real {
        fleet: Box<Fleet>,
        client: reqwest::Client,
    },
}

impl Side {
    async fn real() -> Self {
        let options = Options::of(0, OpenSearchKind::None);
        let fleet = Fleet::start(options).await.unwrap();
        let server = fleet.control_plane();
        let objects = Objects::of(server).unwrap();
        let definitions =
            "apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
        objects
            .apply(definitions, &widget_definition())
            .await
            .unwrap();
        until("widgets are served", || {
            objects.get("apis/example.com/v1/widgets")
        })
        .await
        .unwrap();
        let client = http::client(Some(server.ca_pem())).unwrap();
        Self::Real {
            fleet: Box::new(fleet),
            client,
        }
    }

    /// The HTTP status and the body.
    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> (u16, String) {
        self.send_as(method, path, accept, JSON, body).await
    }

    async fn send_as(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> (u16, String) {
        let body = body.map(Value::to_string).unwrap_or_default();
        match self {
            Self::Fake(server) => {
                let request = ::http::Request::builder()
                    .method(method)
                    .uri(format!("/{path}"))
                    .header("Content-Type", content_type)
                    .header("Accept", accept);
                let response = server
                    .respond(request.body(Bytes::from(body)).unwrap())
                    .await
                    .unwrap();
                let status = response.status().as_u16();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                (status, String::from_utf8(body.to_vec()).unwrap())
            }
            Self::Real { fleet, client } => {
                let server = fleet.control_plane();
                let request = client
                    .request(method, format!("{}/{path}", server.url()))
                    .bearer_auth(server.token());
                let request = request
                    .header("Accept", accept)
                    .header("Content-Type", content_type);
                let response = request.body(body).send().await.unwrap();
                (response.status().as_u16(), response.text().await.unwrap())
            }
        }
    }

    /// Compacts the history, and restarts the API server to clear its watch cache.
    async fn compact_and_restart(&self) {
        match self {
            Self::Fake(server) => {
                server.compact(server.revision());
                server.restart();
            }
            Self::Real { fleet, .. } => {
                fleet.etcd().compact().await.unwrap();
                fleet.control_plane().restart().await.unwrap();
            }
        }
    }
}

/// The responses of one server, step by step.
struct Transcript {
    side: Side,
    steps: Vec<(String, Value)>,
}

impl Transcript {
    fn note(&mut self, what: &str, answer: Value) {
        self.steps.push((what.to_owned(), answer));
    }

    async fn ask(&mut self, what: &str, method: Method, path: &str, body: Option<&Value>) -> Value {
        self.ask_as(what, method, path, JSON, body).await
    }

    async fn ask_as(
        &mut self,
        what: &str,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Value {
        let (status, text) = self.side.send(method, path, accept, body).await;
        let answer = serde_json::from_str(&text).unwrap_or(Value::String(text));
        self.note(
            &format!("{what}: {path}"),
            json!({ "http": status, "body": answer }),
        );
        answer
    }

    async fn get(&mut self, what: &str, path: &str) -> Value {
        self.ask(what, Method::GET, path, None).await
    }

    /// Records only status and reason: the messages of the parsers differ.
    async fn refused(&mut self, what: &str, path: &str) {
        let (status, text) = self.side.send(Method::GET, path, JSON, None).await;
        let body: Value = serde_json::from_str(&text).unwrap();
        self.note(
            &format!("{what}: {path}"),
            json!({ "http": status, "reason": body["reason"], "code": body["code"] }),
        );
    }

    async fn create(&mut self, what: &str, collection: &str, object: &Value) -> Value {
        self.ask(what, Method::POST, collection, Some(object)).await
    }

    async fn update(&mut self, what: &str, collection: &str, object: &Value) -> Value {
        let path = format!(
            "{collection}/{}",
            object["metadata"]["name"].as_str().unwrap()
        );
        self.ask(what, Method::PUT, &path, Some(object)).await
    }

    async fn apply(&mut self, what: &str, path: &str, manager: &str, object: &Value) -> Value {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.patch(what, &path, APPLY, object).await
    }

    async fn patch(&mut self, what: &str, path: &str, media: &str, body: &Value) -> Value {
        let sent = self
            .side
            .send_as(Method::PATCH, path, JSON, media, Some(body));
        let (status, text) = sent.await;
        let answer = serde_json::from_str(&text).unwrap_or(Value::String(text));
        self.note(
            &format!("{what}: {path}"),
            json!({ "http": status, "body": answer }),
        );
        answer
    }

    /// Records only status and reason.
    async fn refused_write(
        &mut self,
        what: &str,
        method: Method,
        path: &str,
        media: &str,
        body: &Value,
    ) {
        let sent = self.side.send_as(method, path, JSON, media, Some(body));
        let (status, text) = sent.await;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        self.note(
            &format!("{what}: {path}"),
            json!({ "http": status, "reason": answer["reason"] }),
        );
    }

    async fn delete(&mut self, what: &str, path: &str) {
        self.ask(what, Method::DELETE, path, None).await;
    }

    /// All events of a watch until its deadline.
    async fn watch(&mut self, what: &str, path: &str) {
        self.watch_for(what, path, JSON, 2).await;
    }

    async fn watch_for(&mut self, what: &str, path: &str, accept: &str, seconds: u32) {
        let answer = watched(&self.side, path, accept, seconds).await;
        self.note(&format!("{what}: {path}"), answer);
    }

    /// Gets objects or lists of [`MAPS`], by what follows that path.
    async fn get_maps<const N: usize>(&mut self, requests: [(&str, &str); N]) {
        for (what, rest) in requests {
            self.get(what, &format!("{MAPS}{rest}")).await;
        }
    }

    /// The page of [`MAPS`] after another one.
    async fn next_page(&mut self, what: &str, query: &str, list: &Value) -> Value {
        let path = format!("{MAPS}?{query}limit=2&continue={}", token(list));
        self.get(what, &path).await
    }
}

async fn watched(side: &Side, path: &str, accept: &str, seconds: u32) -> Value {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=true&timeoutSeconds={seconds}");
    let (status, text) = side.send(Method::GET, &path, accept, None).await;
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Near the end, a real server may repeat its latest bookmark.
    lines.dedup_by(|again, line| line["type"] == "BOOKMARK" && line == again);
    json!({ "http": status, "lines": lines })
}

fn map(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": { "app": app, "of": "us" } },
        "data": { "key": name },
    })
}

fn widget(name: &str, color: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": { "color": color } })
}

fn version(answer: &Value) -> u64 {
    answer["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap()
}

async fn script(side: Side) -> Transcript {
    let mut at = Transcript {
        side,
        steps: Vec::new(),
    };
    writes(&mut at).await;
    patches(&mut at).await;
    lists(&mut at).await;
    custom_resources(&mut at).await;
    watches(&mut at).await;
    expiry(&mut at).await;
    at
}

async fn writes(at: &mut Transcript) {
    for name in NAMESPACES {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        at.create("a namespace", "api/v1/namespaces", &namespace)
            .await;
    }
    for (name, app) in [
        ("a", "web"),
        ("b", "web"),
        ("c", "db"),
        ("d", "web"),
        ("e", "cache"),
    ] {
        at.create("an object", MAPS, &map(name, app)).await;
    }
    let a = map("a", "web");
    at.create("the same again", MAPS, &a).await;
    for (what, collection) in [
        ("in a namespace that is not there", "nowhere/configmaps"),
        ("of a resource that is not there", "likeness/nothings"),
    ] {
        let path = format!("api/v1/namespaces/{collection}");
        at.create(what, &path, &a).await;
    }
    let path = format!("{MAPS}/a");
    at.ask("onto an object", Method::POST, &path, Some(&a))
        .await;
    let first = at.get("an object", &format!("{MAPS}/a")).await;
    at.get_maps([("an object that is not there", "/zzz")]).await;
    at.get("a path that is not there", "nothing/here").await;

    let mut changed = first.clone();
    changed["data"]["key"] = json!("changed");
    at.update("a change", MAPS, &changed).await;
    at.update("a change of what was changed meanwhile", MAPS, &changed)
        .await;
    changed["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    at.update("no change at all", MAPS, &changed).await;
    changed["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    at.update("a change of another object of that name", MAPS, &changed)
        .await;
    let absent = map("zzz", "web");
    at.update("a change of nothing", MAPS, &absent).await;
    let path = format!("{MAPS}/b");
    at.ask("under another name", Method::PUT, &path, Some(&a))
        .await;
    let path = format!("{MAPS}/zzz");
    at.delete("a deletion of nothing", &path).await;
}

async fn patches(at: &mut Transcript) {
    let path = format!("{MAPS}/patched");
    let patched = |data: Value| {
        let metadata = json!({ "name": "patched", "namespace": "likeness" });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
    };
    let both = patched(json!({ "x": "1", "y": "1" }));
    let created = at.apply("an applied object", &path, "us", &both).await;
    at.apply("the same again", &path, "us", &both).await;
    let other = patched(json!({ "y": "1", "z": "1" }));
    at.apply("by another manager", &path, "them", &other).await;
    let less = patched(json!({ "x": "2" }));
    at.apply("without a field that both own", &path, "us", &less)
        .await;
    let unforced = format!("{path}?fieldManager=us");
    let theirs = patched(json!({ "z": "2" }));
    at.refused_write(
        "a field of another manager",
        Method::PATCH,
        &unforced,
        APPLY,
        &theirs,
    )
    .await;
    at.apply("with force", &path, "us", &theirs).await;
    at.apply("without any field", &path, "us", &patched(json!({})))
        .await;
    let mut absent = patched(json!({}));
    absent["metadata"]["namespace"] = json!("nowhere");
    let nowhere = "api/v1/namespaces/nowhere/configmaps/patched";
    at.apply("in a namespace that is not there", nowhere, "us", &absent)
        .await;
    only_created(at).await;
    let merged = format!("{path}?fieldManager=us");
    let finalizers =
        json!({ "data": { "y": null, "m": "1" }, "metadata": { "finalizers": ["example.com/a"] } });
    at.patch("a merge patch", &merged, MERGE, &finalizers).await;
    at.refused_write(
        "a patch of no known kind",
        Method::PATCH,
        &merged,
        "text/plain",
        &json!({}),
    )
    .await;
    let options = |uid: &Value| json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid } });
    let another = json!("00000000-0000-4000-8000-000000000000");
    at.refused_write(
        "a deletion of another object of that name",
        Method::DELETE,
        &path,
        JSON,
        &options(&another),
    )
    .await;
    let uid = &created["metadata"]["uid"];
    for what in ["a deletion of an object with a finalizer", "the same again"] {
        at.ask(what, Method::DELETE, &path, Some(&options(uid)))
            .await;
    }
    let none = json!({ "metadata": { "finalizers": [] } });
    at.patch("without the finalizer", &merged, MERGE, &none)
        .await;
    at.get("what is gone", &path).await;
}

/// With a version that no object has, what is applied is created or refused.
async fn only_created(at: &mut Transcript) {
    for (collection, api_version, kind) in [
        (MAPS, "v1", "ConfigMap"),
        (WIDGETS, "example.com/v1", "Widget"),
    ] {
        let path = format!("{collection}/created");
        for (manager, label) in [("us", "first"), ("us", "second"), ("them", "first")] {
            let object = json!({
                "apiVersion": api_version, "kind": kind,
                "metadata": {
                    "name": "created", "namespace": "likeness", "resourceVersion": "1",
                    "labels": {"at": label},
                },
            });
            at.apply("only if there is none", &path, manager, &object)
                .await;
        }
        at.get("what was created", &path).await;
        at.delete("what was created", &path).await;
    }
}

async fn lists(at: &mut Transcript) {
    let a = map("a", "web");
    at.create("one more, elsewhere", ELSEWHERE, &a).await;
    let first = at.get("the first page", &format!("{MAPS}?limit=2")).await;
    let changed = map("c", "changed");
    at.update("a change between pages", MAPS, &changed).await;
    let path = format!("{MAPS}/d");
    at.delete("a deletion between pages", &path).await;
    let f = map("f", "web");
    at.create("a new object between pages", MAPS, &f).await;
    let second = at.next_page("the second page", "", &first).await;
    at.next_page("the second page again", "", &first).await;
    at.next_page("the last page", "", &second).await;
    at.get("everything", MAPS).await;
    at.get("all namespaces", ALL_MAPS).await;
    let path = format!("{ALL_MAPS}&limit=1");
    at.get("the first of all namespaces", &path).await;
    at.get_maps([
        ("by labels", "?labelSelector=app%3Dweb"),
        ("by labels", "?labelSelector=app!%3Dweb"),
        ("by labels", "?labelSelector=app%20in%20(web,db)"),
        ("by labels", "?labelSelector=!app"),
        ("by labels", "?labelSelector=app,of%3Dus"),
        ("by labels", "?labelSelector=app%3Dnone"),
    ])
    .await;
    let labels = "labelSelector=app%3Dweb&";
    let path = format!("{MAPS}?{labels}limit=2");
    let page = at.get("a page by labels", &path).await;
    at.next_page("the rest by labels", labels, &page).await;
    for fields in [
        "metadata.name%3Db",
        "metadata.name!%3Db",
        "metadata.namespace%3Dlikeness",
        "metadata.name%3Db,metadata.name!%3Db",
    ] {
        let rest = format!("?fieldSelector={fields}");
        at.get_maps([("by fields", &rest)]).await;
    }
    let (token, version) = (token(&first), version(&first));
    let both = format!("limit=2&continue={token}&resourceVersion={version}");
    for (what, query) in [
        ("labels that cannot be read", "labelSelector=a%20b"),
        ("fields that are not there", "fieldSelector=data.key%3Da"),
        ("a limit that is none", "limit=x"),
        ("a continue token that is none", "limit=2&continue=x"),
        ("a token and a version", &both),
    ] {
        at.refused(what, &format!("{MAPS}?{query}")).await;
    }
    let at_least = format!("?resourceVersion={version}");
    let exact = format!("?limit=100&resourceVersion={version}&resourceVersionMatch=Exact");
    at.get_maps([
        ("at least a version", &at_least),
        ("exactly a version", &exact),
        ("a version of the future", FUTURE),
    ])
    .await;
    for (what, path, accept) in [
        ("only metadata", format!("{MAPS}?limit=3"), METADATA_ONLY),
        ("only metadata of one", format!("{MAPS}/b"), PARTIAL_OBJECTS),
    ] {
        at.ask_as(what, Method::GET, &path, accept, None).await;
    }
    for (what, path) in [
        ("a list of what is not there", "api/v1/nothings"),
        (
            "of a group that is not there",
            "apis/nothing.example/v1/things",
        ),
    ] {
        at.get(what, path).await;
    }
}

async fn custom_resources(at: &mut Transcript) {
    let a = widget("a", "red");
    let created = at.create("a custom resource", WIDGETS, &a).await;
    at.create("another", WIDGETS, &widget("b", "blue")).await;
    at.create("the same again", WIDGETS, &a).await;
    at.get("one", &format!("{WIDGETS}/a")).await;
    let path = format!("{WIDGETS}/zzz");
    at.get("one that is not there", &path).await;
    let page = at.get("a page", &format!("{WIDGETS}?limit=1")).await;
    let path = format!("{WIDGETS}?limit=1&continue={}", token(&page));
    at.get("the rest", &path).await;
    let all = "apis/example.com/v1/widgets";
    at.ask_as("only metadata", Method::GET, all, METADATA_ONLY, None)
        .await;
    let mut changed = created.clone();
    changed["spec"]["color"] = json!("green");
    for what in ["a change", "a change of what was changed meanwhile"] {
        at.update(what, WIDGETS, &changed).await;
    }
    for what in ["a deletion", "a deletion of nothing"] {
        at.delete(what, &format!("{WIDGETS}/b")).await;
    }
    let path = format!("{WIDGETS}?resourceVersion={}", version(&page));
    at.watch("what happened", &path).await;
}

async fn watches(at: &mut Transcript) {
    let start = version(&at.get("where the watches start", MAPS).await);
    at.create("a new object", MAPS, &map("new", "web")).await;
    at.update("into the selector", MAPS, &map("e", "web")).await;
    let labels = json!({ "app": "web", "of": "us", "more": "labels" });
    let labelled = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "e", "labels": labels } });
    at.update("within the selector", MAPS, &labelled).await;
    at.update("out of the selector", MAPS, &map("a", "db"))
        .await;
    at.update("never within", MAPS, &map("c", "other")).await;
    at.delete("a deletion within", &format!("{MAPS}/new")).await;
    at.delete("a deletion without", &format!("{MAPS}/c")).await;
    let new = map("new", "web");
    at.create("a new object of an old name", MAPS, &new).await;
    at.create("elsewhere", ELSEWHERE, &map("b", "web")).await;
    let from = format!("resourceVersion={start}");
    let by_name = "fieldSelector=metadata.name%3De";
    for (what, path) in [
        ("everything", format!("{MAPS}?{from}")),
        ("all namespaces", format!("{ALL_MAPS}&{from}")),
        (
            "by labels",
            format!("{MAPS}?labelSelector=app%3Dweb&{from}"),
        ),
        ("by name", format!("{MAPS}?{by_name}&{from}")),
    ] {
        at.watch(what, &path).await;
    }
    let path = format!("{MAPS}?{from}");
    at.watch_for("only metadata", &path, PARTIAL_OBJECTS, 2)
        .await;
    let path = format!("{MAPS}?allowWatchBookmarks=true&{from}");
    let what = "without a bookmark, as nothing is new";
    at.watch_for(what, &path, JSON, 5).await;
    let path = format!("{MAPS}?watch=1&labelSelector=a%20b&{from}");
    at.refused("labels that cannot be read", &path).await;
    let path = format!("api/v1/nothings?{from}");
    at.watch("of what is not there", &path).await;
    live(at, start).await;
}

/// A watch during changes, with a bookmark before its end, and a watch from a future version.
async fn live(at: &mut Transcript, start: u64) {
    let now = version(&at.get("now", MAPS).await);
    assert!(now > start);
    let present = format!("{MAPS}?allowWatchBookmarks=true&resourceVersion={now}");
    let future = format!("{MAPS}?resourceVersion={}", now + 1_000_000);
    let changes = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        for (method, path, object) in [
            (Method::POST, MAPS.to_owned(), Some(map("live", "web"))),
            (Method::DELETE, format!("{MAPS}/live"), None),
        ] {
            let (status, _) = at.side.send(method, &path, JSON, object.as_ref()).await;
            assert!(status < 300);
        }
    };
    let (present, future, ()) = tokio::join!(
        watched(&at.side, &present, JSON, 7),
        watched(&at.side, &future, JSON, 3),
        changes
    );
    at.note("a watch meanwhile", present);
    at.note("a watch from the future", future);
}

async fn expiry(at: &mut Transcript) {
    let page = at.get("the first page", &format!("{MAPS}?limit=2")).await;
    let old = version(&page);
    at.create("after it", MAPS, &map("after", "web")).await;
    at.delete("a deletion", &format!("{MAPS}/b")).await;
    at.side.compact_and_restart().await;
    let path = format!("{MAPS}?resourceVersion={old}");
    at.watch_for("from before the compaction", &path, JSON, 5)
        .await;
    let expired = at.next_page("the second page", "", &page).await;
    let what = "the rest, inconsistently";
    at.next_page(what, "", &expired).await;
    let exact = format!("?limit=100&resourceVersion={old}&resourceVersionMatch=Exact");
    at.get_maps([("exactly a version that is gone", &*exact)])
        .await;
    at.get("everything", MAPS).await;
    for name in ["a", "e", "f", "new", "after"] {
        at.delete("the end", &format!("{MAPS}/{name}")).await;
    }
    at.get("nothing", MAPS).await;
}

/// A name without digits: `uid-a`, `uid-b`, …
fn name_of(number: usize) -> String {
    let letters = number
        .to_string()
        .bytes()
        .map(|digit| char::from(b'a' + digit - b'0'))
        .collect::<String>();
    format!("uid-{letters}")
}

/// Normalizes what always differs: UIDs, times and revisions. Removes managed fields and
/// generations, which the simulation lacks.
#[derive(Default)]
struct Normalizer {
    uids: BTreeMap<String, String>,
    revisions: BTreeSet<u64>,
}

impl Normalizer {
    fn of(steps: &[(String, Value)]) -> Vec<(String, Value)> {
        let mut normal = Self::default();
        for (_, answer) in steps {
            normal.learn(answer);
        }
        steps
            .iter()
            .map(|(what, answer)| (normal.text(what), normal.value("", answer)))
            .collect()
    }

    /// Notes UIDs in the order of their appearance, and the revisions at which our objects changed.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(members) => {
                if let Some(uid) = members.get("uid").and_then(Value::as_str) {
                    let next = name_of(self.uids.len());
                    self.uids.entry(uid.to_owned()).or_insert(next);
                }
                if members.contains_key("name") {
                    self.revisions.extend(
                        members
                            .get("resourceVersion")
                            .and_then(Value::as_str)
                            .and_then(|text| text.parse::<u64>().ok()),
                    );
                }
                members.values().for_each(|member| self.learn(member));
            }
            _ => {}
        }
    }

    /// A revision as the number of changes up to it: other writes to the same etcd do not count.
    fn revision(&self, revision: u64) -> String {
        format!("after change {}", self.revisions.range(..=revision).count())
    }

    fn value(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.value("", item)).collect(),
            Value::Object(members) => Value::Object(self.members(members)),
            Value::String(text) => match name {
                "resourceVersion" => self.revision(text.parse().unwrap()).into(),
                "continue" => self.token(text),
                "creationTimestamp" | "deletionTimestamp" => "a time".into(),
                "message" => self.text(text).into(),
                _ => self.uids.get(text).unwrap_or(text).clone().into(),
            },
            other => other.clone(),
        }
    }

    fn members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let is_dropped = |name: &str, value: &Value| {
            matches!(name, "managedFields" | "generation")
                || (name == "continue" && value == "")
                || value.is_null()
        };
        let kept = members
            .iter()
            .filter(|(name, value)| !is_dropped(name, value));
        let mut normal: Vec<(String, Value)> = kept
            .map(|(name, value)| (name.clone(), self.value(name, value)))
            .collect();
        normal.sort_by(|one, other| one.0.cmp(&other.0));
        normal.into_iter().collect()
    }

    fn token(&self, text: &str) -> Value {
        let token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let revision = token["rv"].as_i64().unwrap();
        let revision = u64::try_from(revision)
            .map_or_else(|_| revision.to_string(), |revision| self.revision(revision));
        json!({ "v": token["v"], "rv": revision, "start": token["start"] })
    }

    /// Text without the numbers and UIDs in it, paths without their tokens, keys of etcd without
    /// their prefix.
    fn text(&self, text: &str) -> String {
        let path = text.split('&').map(|part| {
            if part.starts_with("continue=") {
                "continue"
            } else {
                part
            }
        });
        let mut normal = path
            .collect::<Vec<_>>()
            .join("&")
            .replace("Key: /control-plane/", "Key: /registry/");
        for (uid, name) in &self.uids {
            normal = normal.replace(uid, name);
        }
        let mut short = String::new();
        for letter in normal.chars() {
            let letter = if letter.is_ascii_digit() { '0' } else { letter };
            if letter != '0' || !short.ends_with('0') {
                short.push(letter);
            }
        }
        short
    }
}

#[tokio::test]
async fn the_simulated_apiserver_answers_as_a_real_one() {
    let fake = Side::Fake(apiserver::Server::new(apiserver::Options::new(1)));
    let (fake, real) = tokio::join!(script(fake), async { script(Side::real().await).await });
    assert_eq!(fake.steps.len(), real.steps.len());
    let mut different = 0;
    for (fake, real) in Normalizer::of(&fake.steps)
        .iter()
        .zip(Normalizer::of(&real.steps))
    {
        if *fake != real {
            different += 1;
            eprintln!(
                "\n== {}\nsimulated: {}\nreal:      {}",
                real.0, fake.1, real.1
            );
        }
    }
    eprintln!("{} answers compared", fake.steps.len());
    assert_eq!(different, 0, "answers that differ, of {}", fake.steps.len());
}
