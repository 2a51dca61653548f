//! The OpenSearch of the simulation held to the real one: the same requests to both, and equal answers.
//!
//! Left out of the comparison is what is different on every server (ids, times, counters) and how OpenSearch's JSON parser words its
//! complaints.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use e2e::fleet::{Fleet, Options};
use e2e::http;
use fleetdex::model::FieldPath;
use fleetdex::store::opensearch::{IndexSettings, OpenSearchService, index_template};
use reqwest::Method;
use serde_json::{Map, Value, json};
use simulation::opensearch::OpenSearch;
use tower::ServiceExt;

/// One of the two servers, and what it answered so far.
struct Server {
    kind: Kind,
    answers: Vec<Answer>,
}

enum Kind {
    Fake(OpenSearchService),
    Real { url: String, client: reqwest::Client },
}

struct Answer {
    request: String,
    status: u16,
    body: Value,
}

impl Server {
    /// Sends a request and notes the answer.
    async fn send(&mut self, method: Method, path: &str, body: &str) -> Result<Value> {
        let (status, text) = match &self.kind {
            Kind::Fake(service) => {
                let request =
                    ::http::Request::builder().method(method.as_str()).uri(path).body(Bytes::copy_from_slice(body.as_bytes()))?;
                let response = service.clone().oneshot(request).await?;
                (response.status().as_u16(), String::from_utf8(response.into_body().to_vec())?)
            }
            Kind::Real { url, client } => {
                let content_type = if path.contains("_bulk") { "application/x-ndjson" } else { "application/json" };
                let request = client.request(method.clone(), format!("{url}{path}")).header("content-type", content_type);
                let request = if body.is_empty() { request } else { request.body(body.to_owned()) };
                let response = request.send().await?;
                (response.status().as_u16(), response.text().await?)
            }
        };
        let body_read: Value = serde_json::from_str(&text).with_context(|| format!("{method} {path}: {text}"))?;
        let shown: String = body.chars().take(400).collect();
        self.answers.push(Answer { request: format!("{method} {path} {shown}"), status, body: body_read.clone() });
        Ok(body_read)
    }

    async fn get(&mut self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "").await
    }

    async fn put(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PUT, path, &body.to_string()).await
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, &body.to_string()).await
    }

    async fn delete(&mut self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, "").await
    }

    async fn bulk(&mut self, lines: &[String]) -> Result<Value> {
        self.send(Method::POST, "/_bulk", &lines.concat()).await
    }

    async fn refresh(&mut self, target: &str) -> Result<Value> {
        self.send(Method::POST, &format!("/{target}/_refresh"), "").await
    }

    async fn open(&mut self, target: &str) -> Result<String> {
        let path = format!("/{target}/_search/point_in_time?keep_alive=5m&allow_partial_pit_creation=false");
        let opened = self.send(Method::POST, &path, "").await?;
        Ok(opened["pit_id"].as_str().context("no pit_id")?.to_owned())
    }

    async fn aliases(&mut self, actions: Value) -> Result<Value> {
        self.post("/_aliases", &json!({ "actions": actions })).await
    }
}

/// Runs a script on both servers, and compares every answer.
async fn compare(script: impl AsyncFn(&mut Server) -> Result<()>) -> Result<()> {
    http::install_tls_provider();
    let url = Fleet::shared(Options::default()).await?.opensearch()?.url().to_owned();
    let mut real = Server { kind: Kind::Real { url, client: http::client(None)? }, answers: Vec::new() };
    let mut fake = Server { kind: Kind::Fake(OpenSearch::new(1).service()), answers: Vec::new() };
    script(&mut real).await.context("the real server")?;
    script(&mut fake).await.context("the fake server")?;
    assert_eq!(real.answers.len(), fake.answers.len());
    let mut differences = Vec::new();
    for (real, fake) in real.answers.into_iter().zip(fake.answers) {
        let (real_body, fake_body) = (normalized(real.body), normalized(fake.body));
        if (real.status, &real_body) != (fake.status, &fake_body) {
            let request = real.request;
            differences.push(format!("{request}\n  real {} {real_body}\n  fake {} {fake_body}", real.status, fake.status));
        }
    }
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
    Ok(())
}

/// A body without what is different on every server.
fn normalized(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(normalized).collect(),
        Value::Object(members) => normalized_object(members).into(),
        other => other,
    }
}

fn normalized_object(members: Map<String, Value>) -> Map<String, Value> {
    let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_syntax_error = kind.starts_with("json_") || kind == "input_coercion_exception";
    let mut kept = Map::new();
    for (key, value) in members {
        match (key.as_str(), value) {
            (
                "took" | "_seq_no" | "_primary_term" | "creation_date" | "creation_time" | "created" | "node" | "line" | "col",
                _,
            ) => {}
            ("reason", _) if is_syntax_error => {}
            ("pit_id", _) => drop(kept.insert(key, "PIT".into())),
            ("uuid", Value::String(_)) => drop(kept.insert(key, "UUID".into())),
            ("index_uuid", Value::String(uuid)) if uuid != "_na_" => drop(kept.insert(key, "UUID".into())),
            ("reason" | "error", Value::String(text)) => drop(kept.insert(key, normalized_text(&text).into())),
            (_, value) => drop(kept.insert(key, normalized(value))),
        }
    }
    kept
}

/// A reason without positions in the request, numbers of contexts and UUIDs.
fn normalized_text(text: &str) -> String {
    let text = text.split("\n at [Source").next().unwrap_or_default();
    let mut words = Vec::new();
    for word in text.split(' ') {
        let digits_only = word.trim_matches(|letter: char| letter.is_ascii_digit() || "[]:.".contains(letter)).is_empty();
        let is_position = digits_only && word.contains(':');
        let is_context = digits_only && words.last() == Some(&"id".to_owned());
        match word.rsplit_once('/') {
            _ if is_position || is_context => {}
            Some((name, uuid)) if uuid.trim_end_matches(']').len() == 22 => words.push(format!("{name}/UUID]")),
            _ => words.push(word.to_owned()),
        }
    }
    words.join(" ").replace(" found at", " found").replace("START_OBJECT at", "START_OBJECT")
}

/// A template that leaves no copies without a node to be on.
fn template(patterns: &Value, priority: u64, template: &Value) -> Value {
    json!({ "index_patterns": patterns, "priority": priority, "template": template })
}

fn index(index: &str, id: &str, version: u64, document: &Value) -> String {
    let action = json!({ "index": {
        "_index": index, "_id": id, "version": version, "version_type": "external_gte", "require_alias": true,
    } });
    format!("{action}\n{document}\n")
}

fn remove(index: &str, id: &str, version: u64) -> String {
    let action = json!({ "delete": {
        "_index": index, "_id": id, "version": version, "version_type": "external_gte", "require_alias": true,
    } });
    format!("{action}\n")
}

/// An item without version and requirement.
fn plain(action: &str, index: &str, id: &str) -> String {
    let document = if action == "delete" { "" } else { "{\"a\":1}\n" };
    format!("{}\n{document}", json!({ action: { "_index": index, "_id": id } }))
}

#[tokio::test]
async fn indices_come_from_templates_and_requests() {
    compare(async |server| {
        let wanted = json!({
            "settings": { "index": { "number_of_replicas": 0, "gc_deletes": "15m", "mapping": { "total_fields": { "limit": 2000 } } } },
            "mappings": { "dynamic": false, "_meta": { "of": { "template": 1 } }, "properties": {
                "kind": { "type": "keyword" }, "o": { "properties": { "b": { "type": "keyword" } } },
            } },
            "aliases": { "made": {} },
        });
        server.put("/_index_template/made", &template(&json!(["*-made.g*"]), 505, &wanted)).await?;
        server.put("/_index_template/made", &template(&json!(["*-made.g*"]), 505, &wanted)).await?;
        server.put("/_index_template/made-2", &template(&json!(["a-made.*"]), 505, &json!({}))).await?;
        server.put("/_index_template/made-3", &template(&json!(["a-made.*", "b-made.*"]), 7, &json!({ "aliases": { "low": {} } }))).await?;
        server.put("/_index_template/made-4", &json!({ "template": {} })).await?;
        server.put("/_index_template/made-4", &json!({ "index_patterns": ["q*"], "bogus": 1 })).await?;
        server.put("/_index_template/made-4", &template(&json!(["q*"]), 1, &json!({ "settings": { "bogus": 1 } }))).await?;
        let request = json!({ "aliases": { "a-made.w1": {} }, "mappings": { "_meta": { "of": { "request": 2 } } } });
        server.put("/a-made.g1", &request).await?;
        server.put("/a-made.g1", &request).await?;
        server.get("/a-made.g1").await?;
        let narrower = json!({ "mappings": { "properties": { "kind": { "type": "long" }, "o": { "properties": { "c": { "type": "date" } } } } } });
        server.put("/b-made.g1", &narrower).await?;
        server.put("/b-made.g2", &json!({ "mappings": { "properties": { "kind": { "properties": { "x": { "type": "long" } } } } } })).await?;
        server.put("/a-made.h1", &json!({ "settings": { "index.number_of_replicas": 0, "refresh_interval": "3s" } })).await?;
        server.get("/*-made.*").await?;
        server.get("/*-made.g*?filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta").await?;
        server.get("/none-made.g*?filter_path=*.aliases,*.settings.index.uuid,*.mappings._meta").await?;
        server.get("/made,a-made.h1?filter_path=*.aliases").await?;
        server.get("/none-made").await?;
        server.get("/a-made.g1,none-made").await?;
        server.get("/none-made?ignore_unavailable=true").await?;
        server.get("/none-made*?allow_no_indices=false").await?;
        server.get("/a-made.g1/_mapping").await?;
        server.get("/none-made/_mapping").await?;
        server.get("/none-made*/_mapping").await?;
        server.get("/b-made.g1/_settings").await?;
        for (path, body) in [
            ("/a-made.w1", json!({})),
            ("/A-made", json!({})),
            ("/_made", json!({})),
            ("/c-made", json!({ "bogus": {} })),
            ("/c-made", json!({ "settings": { "bogus": 1 } })),
            ("/c-made", json!({ "mappings": { "properties": { "a": { "type": "bogus" } } } })),
            ("/c-made", json!({ "aliases": { "a-made.g1": {} } })),
            ("/c-made?bogus=1", json!({})),
        ] {
            server.put(path, &body).await?;
        }
        server.send(Method::PUT, "/c-made", "{\"aliases\":").await?;
        server.send(Method::PUT, "/c-made", "garbage").await?;
        server.delete("/a-made.w1").await?;
        server.delete("/a-made.g1").await?;
        server.delete("/a-made.g1").await?;
        server.delete("/none-made*").await?;
        server.delete("/b-made.g1,a-made.h1").await?;
        server.get("/*-made*?filter_path=*.aliases").await?;
        server.delete("/_index_template/made-3").await?;
        server.delete("/_index_template/made-3").await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_template_of_fleetdex_makes_the_same_indices() {
    compare(async |server| {
        let settings = IndexSettings { replicas: 0, ..IndexSettings::default() };
        let fields = ["status.phase", "spec.nodeName", "metadata.name"].map(FieldPath::new);
        let prefix = "fleet-template".parse()?;
        server.put("/_index_template/fleet-template", &index_template(&prefix, &settings, &fields)).await?;
        let identity = json!({ "fleetdex": { "cluster": "a", "generation": 1 } });
        server.put("/fleet-template-a.g1", &json!({ "aliases": { "w": {} }, "mappings": { "_meta": identity } })).await?;
        server.get("/fleet-template-a.g1").await?;
        server.put("/fleet-template-a.g1/_mapping", &json!({ "_meta": { "fleetdex": { "uid": "u" } } })).await?;
        server.get("/fleet-template-a.g1/_mapping?filter_path=*.mappings._meta").await?;
        server.delete("/fleet-template-a.g1").await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn mappings_grow_but_do_not_change() {
    compare(async |server| {
        let mappings =
            json!({ "properties": { "k": { "type": "keyword" }, "o": { "properties": { "x": { "type": "keyword" } } } } });
        server
            .put("/mapped", &json!({ "settings": { "number_of_replicas": 0 }, "mappings": mappings, "aliases": { "map": {} } }))
            .await?;
        for (path, update) in [
            ("/mapped/_mapping", json!({ "_meta": { "a": { "b": 1 } } })),
            ("/map/_mapping", json!({ "_meta": { "a": { "c": 1 } } })),
            ("/mapp*/_mapping", json!({ "properties": { "o": { "properties": { "y": { "type": "date" } } } } })),
            ("/mapped/_mapping", json!({ "properties": { "k": { "type": "text" } } })),
            ("/mapped/_mapping", json!({ "properties": { "k": { "properties": { "z": { "type": "text" } } } } })),
            ("/mapped/_mapping", json!({ "properties": { "o": { "type": "keyword" } } })),
            ("/mapped/_mapping", json!({ "properties": { "n": { "type": "bogus" } } })),
            ("/mapped/_mapping", json!({ "properties": { "n": {} } })),
            ("/mapped/_mapping", json!({ "bogus": { "a": 2 } })),
            ("/mapped/_mapping", json!({ "properties": { "e": { "type": "object", "enabled": false } } })),
            ("/mapped/_mapping", json!({ "dynamic": "strict" })),
            ("/unmapped/_mapping", json!({ "_meta": {} })),
            ("/unmapped*/_mapping", json!({ "_meta": {} })),
        ] {
            server.put(path, &update).await?;
        }
        server.get("/mapped/_mapping").await?;
        server.send(Method::PUT, "/mapped/_mapping", "").await?;
        let strict = |document: Value| index("map", "1", 1, &document);
        let documents = [json!({ "z": 1 }), json!({ "o": { "z": 1 } }), json!({ "e": { "z": 1 } }), json!({ "o": { "x": 1 } })];
        server.bulk(&documents.map(strict)).await?;
        server.put("/mapped/_settings", &json!({ "number_of_shards": 3 })).await?;
        server.put("/mapped/_settings", &json!({ "index": { "refresh_interval": "5s", "gc_deletes": "1s" } })).await?;
        server.put("/mapped/_settings", &json!({ "bogus": 3 })).await?;
        server.put("/unmapped/_settings", &json!({ "gc_deletes": "1s" })).await?;
        server.get("/mapped/_settings").await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_mapping_without_rules_grows_with_the_documents() {
    compare(async |server| {
        server.put("/dynamic", &json!({ "settings": { "number_of_replicas": 0 }, "aliases": { "dyn": {} } })).await?;
        let first = json!({
            "a": 1, "b": 1.5, "c": true, "d": "Some Text", "e": "2026-01-01T00:00:00Z", "f": { "g": ["x"] }, "h": [], "i": null,
            "j": {}, "k": [{ "l": 1 }, { "m": 2 }], "n.o": 1, "n.p": 2, "q": "5", "r": "2026-01-01",
        });
        server.bulk(&[index("dyn", "1", 1, &first)]).await?;
        server.get("/dynamic/_mapping").await?;
        let others = [json!({ "a": "x" }), json!({ "f": 1 }), json!({ "j": 1 }), json!({ "a": "7", "d": 5 })];
        server.bulk(&others.map(|document| index("dyn", "2", 1, &document))).await?;
        server.refresh("dynamic").await?;
        for query in [
            json!({ "term": { "d": "text" } }),
            json!({ "term": { "d.keyword": "Some Text" } }),
            json!({ "term": { "c": true } }),
            json!({ "exists": { "field": "k" } }),
            json!({ "range": { "a": { "gte": 2 } } }),
        ] {
            server.post("/dynamic/_search?filter_path=hits.total,hits.hits._id", &json!({ "query": query })).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn versions_decide_what_is_written() {
    compare(async |server| {
        server.put("/versions.g1", &json!({ "settings": { "number_of_replicas": 0 }, "aliases": { "versions.w1": {} } })).await?;
        let alias = "versions.w1";
        let document = json!({ "kind": "Pod" });
        let put = |id: &str, version: u64| index(alias, id, version, &document);
        // Older, equal and newer; deleted older, equal, newer, twice; made again below, at and above the delete's version; absent.
        for line in [
            put("a", 5), put("a", 5), put("a", 4), remove(alias, "a", 4), remove(alias, "a", 6), remove(alias, "a", 6),
            remove(alias, "a", 5), put("a", 5), put("a", 6), put("a", 7), remove(alias, "absent", 7), put("absent", 6),
            remove(alias, "absent", 9), put("a", 0), put("b", 9_223_372_036_854_775_807), put("v1/Pod/a b", 1),
        ] {
            server.bulk(&[line]).await?;
        }
        server.bulk(&[put("c", 2), put("c", 1), remove(alias, "c", 3), put("c", 2), put("c", 4)]).await?;
        server.bulk(&[plain("index", alias, "p"), plain("index", alias, "p"), plain("create", alias, "p")]).await?;
        server.bulk(&[plain("delete", alias, "p"), plain("delete", alias, "p"), plain("create", alias, "p")]).await?;
        server.bulk(&[plain("index", alias, "a"), put("p", 1), plain("delete", alias, "never")]).await?;
        let path = "/_bulk?filter_path=errors,items.*.status,items.*.error";
        server.send(Method::POST, path, &[put("a", 1), put("a", 90), remove(alias, "x", 1)].concat()).await?;
        server.send(Method::POST, path, &put("a", 91)).await?;
        for (version, version_type) in [("3", "external"), ("95", "external"), ("95", "external"), ("96", "external_gt")] {
            let line = format!(
                "{{\"index\":{{\"_index\":\"{alias}\",\"_id\":\"a\",\"version\":{version},\"version_type\":\"{version_type}\"}}}}\n{{}}\n"
            );
            server.bulk(&[line]).await?;
        }
        for id in ["a", "b", "c", "absent", "never", "v1%2FPod%2Fa%20b"] {
            server.get(&format!("/{alias}/_doc/{id}")).await?;
        }
        server.get(&format!("/{alias}/_doc/a?filter_path=_source")).await?;
        server.get(&format!("/{alias}/_doc/absent?filter_path=found,_source")).await?;
        server.get("/no-versions/_doc/a").await?;
        server.refresh(alias).await?;
        server.post(&format!("/{alias}/_search"), &json!({ "version": true, "sort": [{ "_id": "asc" }] })).await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_delete_is_forgotten_after_gc_deletes() {
    compare(async |server| {
        let settings = json!({ "number_of_replicas": 0, "gc_deletes": "3s" });
        server.put("/gc.g1", &json!({ "settings": settings, "aliases": { "gc.w1": {} } })).await?;
        let put = |id: &str, version: u64| index("gc.w1", id, version, &json!({}));
        server.bulk(&[put("a", 10), remove("gc.w1", "a", 20), remove("gc.w1", "b", 20), plain("delete", "gc.w1", "c")]).await?;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        server.bulk(&[put("a", 15), remove("gc.w1", "b", 19), plain("delete", "gc.w1", "c")]).await?;
        // Waited out, with what the server's coarse clock may lag behind.
        tokio::time::sleep(Duration::from_secs(4)).await;
        server.bulk(&[put("a", 15), remove("gc.w1", "b", 19), put("b", 18), plain("delete", "gc.w1", "c")]).await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn writes_to_what_is_missing_are_refused_or_make_an_index() {
    compare(async |server| {
        let settings = json!({ "settings": { "number_of_replicas": 0 } });
        server.put("/_index_template/missing", &template(&json!(["missing*"]), 5, &settings)).await?;
        server.put("/missing.g1", &json!({ "aliases": { "missing.w1": {} } })).await?;
        let document = json!({ "a": 1 });
        server.bulk(&[index("missing.w9", "a", 7, &document), index("missing.g1", "a", 7, &document)]).await?;
        // Deletes take no notice of `require_alias`, unless a document beside them does.
        server.bulk(&[index("missing.w9", "a", 7, &document), remove("missing.w9", "a", 7)]).await?;
        server.bulk(&[remove("missing.w9", "a", 7), remove("missing.g1", "a", 7), remove("missing.W9", "a", 7)]).await?;
        server.get("/missing*?filter_path=*.aliases,*.settings.index.gc_deletes").await?;
        server.bulk(&[index("missing.w9", "a", 7, &document)]).await?;
        server.aliases(json!([{ "add": { "index": "missing.g1", "alias": "missing.w9" } }])).await?;
        server
            .bulk(&[plain("delete", "missing-1", "a"), plain("index", "missing-2", "a"), plain("create", "missing-3", "a")])
            .await?;
        server
            .bulk(&[plain("index", "MISSING", "a"), plain("index", "missing.w1", ""), plain("delete", "missing-1", "a")])
            .await?;
        server.get("/missing*?filter_path=*.aliases").await?;
        server.aliases(json!([{ "add": { "index": "missing-2", "alias": "missing.w1" } }])).await?;
        server.bulk(&[index("missing.w1", "a", 7, &document), remove("missing.w1", "a", 7)]).await?;
        server.aliases(json!([{ "add": { "index": "missing-2", "alias": "missing.w1", "is_write_index": true } }])).await?;
        server.bulk(&[index("missing.w1", "a", 7, &document), remove("missing.w1", "a", 7)]).await?;
        server.send(Method::POST, "/missing-2/_bulk", "{\"index\":{\"_id\":\"1\"}}\n{}\n").await?;
        server.send(Method::POST, "/missing-2/_bulk?require_alias=true", "{\"index\":{\"_id\":\"1\"}}\n{}\n").await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_malformed_bulk_request_is_refused_as_a_whole() {
    compare(async |server| {
        server.put("/malformed", &json!({ "settings": { "number_of_replicas": 0 } })).await?;
        let long = "x".repeat(513);
        for body in [
            "",
            "\n",
            "garbage\n",
            "[]\n",
            "{}\n",
            "{\"index\":\"x\"}\n",
            "{\"bogus\":{\"_index\":\"malformed\",\"_id\":\"q\"}}\n{}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\",\"bogus\":1}}\n{}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\"}}\n{}",
            "{\"index\":{\"_id\":\"q\"}}\n{}\n",
            "{\"delete\":{\"_index\":\"malformed\"}}\n",
            &format!("{{\"index\":{{\"_index\":\"malformed\",\"_id\":\"{long}\"}}}}\n{{}}\n"),
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\",\"version\":3}}\n{}\n{\"delete\":{\"_index\":\"malformed\",\"_id\":\"q\",\"version_type\":\"external_gte\"}}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\",\"version\":-1,\"version_type\":\"external_gte\"}}\n{}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\",\"version\":9223372036854775808,\"version_type\":\"external_gte\"}}\n{}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\",\"version\":1,\"version_type\":\"bogus\"}}\n{}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"good\"}}\n{}\n{\"index\":{\"_index\":\"malformed\",\"_id\":\"bad\"}}\n",
            "{\"index\":{\"_index\":\"malformed\",\"_id\":\"good\"}}\n{}\n\n{\"index\":{\"_index\":\"malformed\",\"_id\":7,\"version\":\"12\",\"version_type\":\"external_gte\"}}\n{}\n",
        ] {
            server.send(Method::POST, "/_bulk", body).await?;
        }
        server.send(Method::POST, "/_bulk?bogus=1", "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\"}}\n{}\n").await?;
        server.send(Method::POST, "/_bulk?refresh=true", "{\"index\":{\"_index\":\"malformed\",\"_id\":\"q\"}}\n{}\n").await?;
        server.get("/malformed/_count").await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn documents_that_do_not_fit_are_refused_alone() {
    compare(async |server| {
        let mappings = json!({ "dynamic": false, "properties": {
            "k": { "type": "keyword" }, "short": { "type": "keyword", "ignore_above": 5 },
            "time": { "type": "date", "ignore_malformed": true }, "at": { "type": "date" }, "flatter": { "type": "flat_object" },
            "long": { "type": "long" }, "o": { "properties": { "x": { "type": "keyword" } } }, "off": { "type": "object", "enabled": false },
            "flag": { "type": "boolean" },
        } });
        server.put("/refused", &json!({ "settings": { "number_of_replicas": 0 }, "mappings": mappings })).await?;
        let text = |length: usize| "x".repeat(length);
        let documents = [
            json!({ "k": text(32_766) }), json!({ "k": text(32_767) }), json!({ "o": { "x": ["a", text(32_767)] } }),
            json!({ "short": text(40_000) }), json!({ "short": "äöüäö" }), json!({ "short": "äöüäöü" }),
            json!({ "flatter": { "abc": text(32_746) } }), json!({ "flatter": { "abc": text(32_747) } }),
            json!({ "flatter": { "abc": { "de": text(32_743) } } }), json!({ "flatter": { "abc": { "de": text(32_744) } } }),
            json!({ "k": { "a": 1 } }), json!({ "k": ["a", { "b": 1 }] }), json!({ "k": 5 }), json!({ "k": true }), json!({ "k": [["a"], null] }),
            json!({ "time": "soon" }), json!({ "time": { "a": 1 } }), json!({ "at": "soon" }), json!({ "at": "2026-01-01T00:00:00Z" }),
            json!({ "at": 12345 }), json!({ "at": { "a": 1 } }), json!({ "flatter": "text" }), json!({ "flatter": { "a": { "b": ["x", 1, true, null] } } }),
            json!({ "flatter": null }), json!({ "flatter": [{ "a": 1 }] }), json!({ "flatter": { "app.kubernetes.io/name": "a", "app": "b" } }),
            json!({ "long": "x" }), json!({ "long": "5" }), json!({ "long": 5.7 }), json!({ "o": "text" }), json!({ "o": [{ "x": "a" }, { "x": "b" }] }),
            json!({ "o": null }), json!({ "o": [] }), json!({ "o": ["s"] }), json!({ "off": "text" }), json!({ "flag": "nope" }), json!({ "flag": "true" }),
            json!([]), json!("text"), json!({}), json!({ "": 1 }), json!({ "a": { "": 1 } }), json!({ "a..b": 1 }), json!({ "_id": "x" }),
            json!({ "o.x": "dotted" }), json!({ "unmapped": { "a": 1 } }),
        ];
        for (number, document) in documents.iter().enumerate() {
            let action = json!({ "index": { "_index": "refused", "_id": number.to_string() } });
            server.bulk(&[format!("{action}\n{document}\n")]).await?;
        }
        for document in ["", "{\"k\":", "{\"k\":1,\"k\":2}", "not json"] {
            server.bulk(&[format!("{{\"index\":{{\"_index\":\"refused\",\"_id\":\"text\"}}}}\n{document}\n")]).await?;
        }
        server.refresh("refused").await?;
        server.post("/refused/_search", &json!({ "size": 100, "_source": false })).await?;
        server.post("/refused/_search", &json!({ "query": { "exists": { "field": "short" } }, "_source": ["short"] })).await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn blocks_refuse_writes_until_they_are_lifted() {
    compare(async |server| {
        server.put("/blocked.g1", &json!({ "settings": { "number_of_replicas": 0 }, "aliases": { "blocked.w1": {} } })).await?;
        let lines = |version: u64| {
            [
                index("blocked.w1", "a", version, &json!({})),
                remove("blocked.w1", "b", version),
                index("blocked.w9", "a", 1, &json!({})),
            ]
        };
        server.bulk(&lines(1)).await?;
        for (block, version) in [("write", 2), ("read_only_allow_delete", 3), ("read_only", 4)] {
            let name = format!("index.blocks.{block}");
            server.put("/blocked.g1/_settings", &json!({ name.as_str(): true })).await?;
            server.bulk(&lines(version)).await?;
            server.get("/blocked.g1/_doc/a").await?;
            server.refresh("blocked.g1").await?;
            server.post("/blocked.g1/_count", &json!({})).await?;
            if block != "read_only" {
                server.put("/blocked.g1/_mapping", &json!({ "_meta": { "block": block } })).await?;
                server.aliases(json!([{ "add": { "index": "blocked.g1", "alias": format!("blocked-{block}") } }])).await?;
            }
            server.put("/blocked.g1/_settings", &json!({ name.as_str(): null })).await?;
            server.bulk(&lines(version)).await?;
        }
        server.put("/blocked.g1/_settings", &json!({ "index.blocks.read_only_allow_delete": true })).await?;
        server.delete("/blocked.g1").await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn aliases_change_together_or_not_at_all() {
    compare(async |server| {
        let settings = json!({ "settings": { "number_of_replicas": 0 } });
        for name in ["swap.g1", "swap.g2", "swap-other"] {
            server.put(&format!("/{name}"), &settings).await?;
        }
        for actions in [
            json!([{ "add": { "index": "swap.g1", "alias": "swap" } }]),
            json!([{ "add": { "index": "swap.g1", "alias": "swap-b" } }, { "add": { "index": "swap-none", "alias": "swap-b" } }]),
            json!([{ "add": { "index": "swap.g1", "alias": "swap-c" } }, { "remove": { "index": "swap.g1", "alias": "swap-none" } }]),
            json!([{ "remove": { "index": "swap.g1", "alias": "swap-none" } }]),
            json!([{ "remove": { "index": "swap.g1", "alias": "swap-none", "must_exist": true } }]),
            json!([{ "remove": { "index": "swap.g1", "alias": "swap-none", "must_exist": false } }]),
            json!([{ "remove": { "index": "swap.g1", "alias": "swap-none", "must_exist": true } }, { "add": { "index": "swap.g1", "alias": "swap-d" } }]),
            json!([{ "add": { "index": "swap.g1", "alias": "swap.g1" } }]),
            json!([{ "add": { "index": "swap.g1", "alias": "swap-other" } }]),
            json!([{ "add": { "index": "swap.g1", "alias": "swap*" } }]),
            json!([{ "add": { "index": "swap.g1" } }]),
            json!([{ "bogus": { "index": "swap.g1" } }]),
            json!([]),
            json!([{ "remove_index": { "index": "swap-none" } }]),
            json!([{ "remove_index": { "index": "swap-none*" } }]),
            json!([{ "remove_index": { "index": "swap" } }]),
            json!([{ "add": { "index": "swap.g1", "alias": "swap-e" } }, { "remove_index": { "index": "swap.g1" } }]),
            // The swap, and the same once more.
            json!([{ "add": { "index": "swap.g2", "alias": "swap" } }, { "remove": { "index": "swap.g1", "alias": "swap" } }, { "remove_index": { "index": "swap.g1" } }]),
            json!([{ "add": { "index": "swap.g2", "alias": "swap" } }, { "remove_index": { "index": "swap.g1" } }]),
            json!([{ "add": { "index": "swap.g2", "alias": "swap-other" } }, { "remove_index": { "index": "swap-other" } }]),
            json!([{ "add": { "indices": ["swap.g*"], "aliases": ["swap-m", "swap-n"] } }]),
            json!([{ "remove": { "index": "*", "alias": "swap-n*" } }]),
            json!([{ "remove": { "index": "swap*", "aliases": ["swap-m", "swap-none"] } }]),
            json!([{ "remove": { "index": "swap-none*", "alias": "swap-m" } }]),
        ] {
            server.aliases(actions).await?;
            server.get("/swap*?filter_path=*.aliases").await?;
        }
        server.send(Method::POST, "/_aliases", "").await?;
        for path in ["/_alias/swap", "/_alias/swap*", "/_alias/none-swap", "/_alias/none-swap*", "/_alias/swap,none-swap",
            "/_alias/none-swap?filter_path=*.aliases", "/swap.g2/_alias", "/swap/_alias/swap-*", "/_alias/swap*?filter_path=*.aliases"]
        {
            server.get(path).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_point_in_time_stays_as_it_was_until_it_or_its_index_is_gone() {
    compare(async |server| {
        let mappings = json!({ "dynamic": false, "properties": { "n": { "type": "keyword" }, "kind": { "type": "keyword" } } });
        let body = json!({ "settings": { "number_of_replicas": 0, "refresh_interval": "-1" }, "mappings": mappings });
        for name in ["view.g1", "view.g2"] {
            server.put(&format!("/{name}"), &body).await?;
        }
        server.aliases(json!([{ "add": { "index": "view.g1", "alias": "view.w1" } }, { "add": { "index": "view.g*", "alias": "view" } }])).await?;
        let put = |id: &str, version: u64| index("view.w1", id, version, &json!({ "n": id, "kind": "Pod" }));
        server.bulk(&[put("a", 1), put("b", 2), put("c", 3), put("d", 4)]).await?;
        server.refresh("view.g1").await?;
        let pit = server.open("view.g1").await?;
        server.bulk(&[put("a", 11), remove("view.w1", "b", 12), put("e", 13)]).await?;
        let unrefreshed = server.open("view.w1").await?;
        server.refresh("view").await?;
        let refreshed = server.open("view").await?;
        for pit in [&pit, &unrefreshed, &refreshed] {
            let mut after = Value::Null;
            for _ in 0..3 {
                let mut page = json!({
                    "size": 2, "pit": { "id": pit, "keep_alive": "5m" }, "sort": [{ "n": "asc" }], "_source": false, "version": true,
                    "track_total_hits": false, "query": { "bool": { "filter": [{ "term": { "kind": "Pod" } }] } },
                });
                if !after.is_null() {
                    page["search_after"] = after.clone();
                }
                let found = server.post("/_search", &page).await?;
                after = found["hits"]["hits"].as_array().and_then(|hits| hits.last()).map_or(after, |hit| hit["sort"].clone());
                let path = "/_search?filter_path=pit_id,timed_out,_shards.failed,hits.hits._id,hits.hits._version,hits.hits.sort";
                server.post(path, &page).await?;
            }
        }
        let search = |id: &str| json!({ "pit": { "id": id }, "sort": [{ "n": "asc" }] });
        server.post("/view.g1/_search", &search(&pit)).await?;
        server.post("/_search?ignore_unavailable=true", &search(&pit)).await?;
        server.post("/_search", &search("bogus")).await?;
        server.post("/_search", &json!({ "pit": { "keep_alive": "1m" } })).await?;
        server.post("/_search", &json!({ "pit": { "id": pit, "bogus": 1 } })).await?;
        let close = |ids: &[&str]| json!({ "pit_id": ids }).to_string();
        for _ in 0..2 {
            server.send(Method::DELETE, "/_search/point_in_time", &close(&[&unrefreshed])).await?;
            server.post("/_search", &search(&unrefreshed)).await?;
        }
        server.send(Method::DELETE, "/_search/point_in_time", &close(&[])).await?;
        server.send(Method::DELETE, "/_search/point_in_time", &close(&["bogus"])).await?;
        server.send(Method::DELETE, "/_search/point_in_time", "").await?;
        for path in ["/view.g1/_search/point_in_time", "/none-view/_search/point_in_time?keep_alive=1m",
            "/none-view/_search/point_in_time?keep_alive=1m&ignore_unavailable=true", "/none-view*/_search/point_in_time?keep_alive=1m",
            "/view.g1/_search/point_in_time?keep_alive=bogus", "/view.g1/_search/point_in_time?keep_alive=1m&bogus=1"]
        {
            server.send(Method::POST, path, "").await?;
        }
        server.delete("/view.g1").await?;
        server.post("/_search", &search(&pit)).await?;
        server.post("/_search", &search(&refreshed)).await?;
        server.put("/view.g1", &body).await?;
        server.post("/_search", &search(&pit)).await?;
        server.send(Method::DELETE, "/_search/point_in_time", &close(&[&pit, &refreshed])).await?;
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn searches_find_and_order_alike() {
    compare(async |server| {
        let mappings = json!({ "dynamic": false, "properties": {
            "k": { "type": "keyword" }, "time": { "type": "date", "ignore_malformed": true }, "flat": { "type": "flat_object" },
            "long": { "type": "long" }, "ns": { "type": "keyword" }, "o": { "properties": { "x": { "type": "keyword" } } },
        } });
        let body = json!({ "settings": { "number_of_replicas": 0, "refresh_interval": "-1" }, "mappings": mappings, "aliases": { "found": {} } });
        server.put("/found.g1", &body).await?;
        server.put("/found.g2", &json!({ "settings": { "number_of_replicas": 0 } })).await?;
        let documents = [
            ("1", json!({ "k": ["a", "b"], "time": "2026-01-01T00:00:00Z", "long": 5, "flat": { "a": { "b": "c" }, "x.y": "z" }, "ns": "n1" })),
            ("2", json!({ "k": "c", "time": "bad", "long": 7, "ns": "", "o": { "x": "y" } })),
            ("3", json!({ "k": null, "time": "2026-01-01T00:00:01.5Z", "other": "x" })),
            ("4", json!({ "k": "b", "time": "2025-12-31T00:00:00+01:00", "long": -7, "ns": "n2", "flat": { "a": { "b": ["c", "d"] } } })),
        ];
        let lines: Vec<String> = documents.iter().map(|(id, document)| index("found", id, 10, document)).collect();
        server.bulk(&lines).await?;
        server.post("/found/_search", &json!({})).await?;
        server.refresh("found").await?;
        for query in queries() {
            server.post("/found/_search?filter_path=hits,error,status,_shards", &json!({ "query": query, "_source": false })).await?;
            server.post("/found/_count", &json!({ "query": query })).await?;
        }
        for body in orders() {
            server.post("/found/_search?filter_path=hits,error,status,_shards", &body).await?;
        }
        for body in pages() {
            server.post("/found/_search", &body).await?;
        }
        for path in [
            "/none-found/_search", "/none-found/_search?ignore_unavailable=true", "/none-found/_search?ignore_unavailable=true&allow_no_indices=false",
            "/none-found*/_search", "/none-found*/_search?allow_no_indices=false", "/found,none-found/_search?ignore_unavailable=true",
            "/found,found.g1/_search", "/found.g1,found.g2/_search", "/found/_search?bogus=1", "/found/_search?ignore_unavailable=perhaps",
            "/found/_search?filter_path=hits.hits.*,-hits.hits._source", "/found/_search?filter_path=-hits", "/found/_search?filter_path=**._id",
            "/found/_search?filter_path=hits.h*s._i*", "/found/_search?filter_path=nothing", "/found.g2/_search?filter_path=hits.hits._id,timed_out",
            "/found.g2/_search?filter_path=hits.hits", "/none-found/_search?filter_path=nothing", "/none-found/_count", "/none-found/_count?ignore_unavailable=true",
        ] {
            server.send(Method::POST, path, "{}").await?;
        }
        for body in ["", "{\"size\":", "garbage", "{\"size\":\"x\"}", "{\"size\":-5}", "{\"bogus\":1}", "{\"bogus\":{}}"] {
            server.send(Method::POST, "/found/_search", body).await?;
        }
        for path in ["/none-found/_refresh", "/none-found*/_refresh", "/none-found/_refresh?ignore_unavailable=true"] {
            server.send(Method::POST, path, "").await?;
        }
        for (method, path) in [(Method::GET, "/found.g1/_bogus"), (Method::POST, "/found.g1/_bogus"), (Method::GET, "/_bogus")] {
            server.send(method, path, "").await?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

fn queries() -> Vec<Value> {
    vec![
        json!({ "match_all": {} }),
        json!({ "match_none": {} }),
        json!({ "term": { "k": "a" } }),
        json!({ "term": { "k": { "value": "b" } } }),
        json!({ "terms": { "k": ["b", "c"] } }),
        json!({ "terms": { "k": [] } }),
        json!({ "terms": { "long": [5, "7"] } }),
        json!({ "exists": { "field": "k" } }),
        json!({ "exists": { "field": "time" } }),
        json!({ "exists": { "field": "flat" } }),
        json!({ "exists": { "field": "other" } }),
        json!({ "exists": { "field": "ns" } }),
        json!({ "exists": { "field": "o" } }),
        json!({ "term": { "other": "x" } }),
        json!({ "term": { "ns": "" } }),
        json!({ "term": { "flat.a.b": "c" } }),
        json!({ "term": { "flat": "z" } }),
        json!({ "terms": { "flat.a.b": ["d"] } }),
        json!({ "term": { "_id": "2" } }),
        json!({ "range": { "k": { "gt": "a", "lt": "c" } } }),
        json!({ "range": { "k": { "gt": "a", "lte": "c" } } }),
        json!({ "range": { "long": { "gte": 6 } } }),
        json!({ "range": { "time": { "gte": "2026-01-01T00:00:00Z" } } }),
        json!({ "range": { "other": { "gte": 6 } } }),
        json!({ "prefix": { "k": "a" } }),
        json!({ "ids": { "values": ["1", "3"] } }),
        json!({ "bool": { "must_not": [{ "terms": { "k": ["a"] } }] } }),
        json!({ "bool": {} }),
        json!({ "bool": { "should": [{ "term": { "k": "a" } }, { "term": { "k": "c" } }] } }),
        json!({ "bool": { "filter": [{ "term": { "k": "a" } }], "should": [{ "term": { "k": "c" } }] } }),
        json!({ "bool": { "filter": [{ "term": { "k": "a" } }], "should": [{ "term": { "k": "c" } }], "minimum_should_match": 1 } }),
        json!({ "bool": { "filter": { "term": { "k": "b" } }, "must": [{ "exists": { "field": "ns" } }] } }),
        json!({ "bool": { "must_not": [{ "exists": { "field": "k" } }], "filter": [{ "bool": { "must_not": [{ "term": { "ns": "n1" } }] } }] } }),
        json!({ "bogus": {} }),
        json!({ "term": { "k": "a", "long": 5 } }),
        json!({ "term": { "k": ["a"] } }),
        json!({ "terms": { "k": "a" } }),
        json!({ "terms": {} }),
        json!({ "bool": { "bogus": [] } }),
        json!({ "range": { "k": { "bogus": 1 } } }),
        json!({ "exists": {} }),
        json!({}),
        json!({ "exists": { "field": "k" }, "term": { "k": "a" } }),
    ]
}

fn orders() -> Vec<Value> {
    vec![
        json!({ "sort": [{ "k": "asc" }] }),
        json!({ "sort": [{ "k": "desc" }] }),
        json!({ "sort": [{ "ns": { "order": "asc", "missing": "_first" } }, { "k": { "order": "asc" } }] }),
        json!({ "sort": [{ "ns": { "order": "desc", "missing": "_last" } }, { "k": { "order": "desc" } }] }),
        json!({ "sort": [{ "time": { "order": "desc", "missing": "_first" } }, { "k": { "order": "asc", "missing": "_first" } }] }),
        json!({ "sort": [{ "time": { "order": "asc", "missing": "_first" } }] }),
        json!({ "sort": [{ "time": { "order": "desc", "missing": "_last" } }] }),
        json!({ "sort": [{ "long": "asc" }, { "_id": "asc" }] }),
        json!({ "sort": [{ "_index": "asc" }, { "_id": "desc" }] }),
        json!({ "sort": ["long", { "k": "desc" }] }),
        json!({ "sort": [{ "other": "asc" }] }),
        json!({ "sort": [{ "other": { "order": "asc", "unmapped_type": "keyword" } }, { "_id": "desc" }] }),
        json!({ "sort": [{ "k": { "order": "asc", "bogus": 1 } }] }),
        json!({ "sort": [{ "_doc": "asc" }] }),
        json!({ "sort": [{ "long": "asc" }], "search_after": [5] }),
        json!({ "sort": [{ "long": "asc" }], "search_after": [9_223_372_036_854_775_807_i64] }),
        json!({ "sort": [{ "k": "asc" }], "search_after": [null] }),
        json!({ "sort": [{ "ns": { "order": "asc", "missing": "_first" } }, { "_id": "asc" }], "search_after": [null, "3"] }),
        json!({ "sort": [{ "ns": { "order": "asc", "missing": "_first" } }, { "_id": "asc" }], "search_after": [null, "0"] }),
        json!({ "sort": [{ "ns": { "order": "desc", "missing": "_last" } }, { "_id": "asc" }], "search_after": ["n1", "1"] }),
        json!({ "sort": [{ "time": { "order": "desc", "missing": "_last" } }, { "_id": "asc" }], "search_after": [1_767_225_600_000_i64, "1"] }),
        json!({ "sort": [{ "k": "asc" }, { "long": "asc" }], "search_after": ["a"] }),
        json!({ "search_after": ["a"] }),
    ]
}

fn pages() -> Vec<Value> {
    vec![
        json!({ "size": 0 }),
        json!({ "size": 10_001 }),
        json!({ "from": 1, "size": 1 }),
        json!({ "from": 9_999, "size": 2 }),
        json!({ "track_total_hits": false, "size": 1 }),
        json!({ "track_total_hits": 2, "size": 1 }),
        json!({ "track_total_hits": true, "size": 0 }),
        json!({ "size": 1, "version": true }),
        json!({ "size": 1, "_source": ["flat.a", "long"] }),
        json!({ "size": 1, "_source": "l*" }),
        json!({ "size": 1, "_source": "none" }),
        json!({ "size": 1, "_source": true, "version": false }),
        json!({ "size": 2, "sort": [{ "_id": "asc" }], "_source": false }),
    ]
}
