//! The simulated OpenSearch compared with the real one: equal responses to the same requests.
//!
//! The comparison excludes what differs between servers (ids, times, counters) and the messages of
//! OpenSearch's JSON parser.

mod indices;
mod partitions;
mod searches;
mod writes;

use anyhow::{Context, Result};
use bytes::Bytes;
use e2e::{
    fleet::{Fleet, Options},
    http,
    test_result::Tested,
};
use fakes::opensearch::OpenSearch;
use fleetdex_store::opensearch::OpenSearchService;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tower::ServiceExt;

/// One of the two servers, and its responses so far.
struct Server {
    kind: Kind,
    answers: Vec<Answer>,
}

enum Kind {
    Fake(OpenSearchService),
    Real {
        url: String,
        client: reqwest::Client,
    },
}

struct Answer {
    request: String,
    status: u16,
    body: Value,
}

impl Server {
    /// Sends a request and records the response.
    async fn send(&mut self, method: Method, path: &str, body: &str) -> Result<Value> {
        let (status, text) = match &self.kind {
            Kind::Fake(service) => {
                let request = ::http::Request::builder()
                    .method(method.as_str())
                    .uri(path)
                    .body(Bytes::copy_from_slice(body.as_bytes()))?;
                let response = service.clone().oneshot(request).await?;
                (
                    response.status().as_u16(),
                    String::from_utf8(response.into_body().to_vec())?,
                )
            }
            Kind::Real { url, client } => {
                let content_type = if path.contains("_bulk") {
                    "application/x-ndjson"
                } else {
                    "application/json"
                };
                let request = client
                    .request(method.clone(), format!("{url}{path}"))
                    .header("content-type", content_type);
                let request = if body.is_empty() {
                    request
                } else {
                    request.body(body.to_owned())
                };
                let response = request.send().await?;
                (response.status().as_u16(), response.text().await?)
            }
        };
        let body_read: Value =
            serde_json::from_str(&text).with_context(|| format!("{method} {path}: {text}"))?;
        let shown: String = body.chars().take(400).collect();
        self.answers.push(Answer {
            request: format!("{method} {path} {shown}"),
            status,
            body: body_read.clone(),
        });
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
        self.send(Method::POST, &format!("/{target}/_refresh"), "")
            .await
    }

    async fn open(&mut self, target: &str) -> Result<String> {
        let path = format!(
            "/{target}/_search/point_in_time?keep_alive=5m&allow_partial_pit_creation=false&preference=_local"
        );
        let opened = self.send(Method::POST, &path, "").await?;
        Ok(opened["pit_id"].as_str().context("no pit_id")?.to_owned())
    }

    async fn aliases(&mut self, actions: Value) -> Result<Value> {
        self.post("/_aliases", &json!({ "actions": actions })).await
    }
}

/// Runs a script on both servers, and compares every response.
async fn compare(script: impl AsyncFn(&mut Server) -> Result<()>) -> Tested {
    http::install_tls_provider();
    let fleet = Fleet::shared(Options::default()).await?;
    let url = fleet.opensearch()?.url().to_owned();
    let mut real = Server {
        kind: Kind::Real {
            url,
            client: http::client(None)?,
        },
        answers: Vec::new(),
    };
    let mut fake = Server {
        kind: Kind::Fake(OpenSearch::new(1).service()),
        answers: Vec::new(),
    };
    script(&mut real).await.context("the real server")?;
    script(&mut fake).await.context("the fake server")?;
    assert_eq!(real.answers.len(), fake.answers.len());
    let mut differences = Vec::new();
    for (real, fake) in real.answers.into_iter().zip(fake.answers) {
        let (real_body, fake_body) = (normalized(real.body), normalized(fake.body));
        if (real.status, &real_body) != (fake.status, &fake_body) {
            let request = real.request;
            differences.push(format!(
                "{request}\n  real {} {real_body}\n  fake {} {fake_body}",
                real.status, fake.status
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} answers differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    Ok(())
}

/// A body without what differs between servers.
fn normalized(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(normalized).collect(),
        Value::Object(members) => normalized_object(members).into(),
        other => other,
    }
}

fn normalized_object(members: Map<String, Value>) -> Map<String, Value> {
    let kind = members
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_syntax_error = kind.starts_with("json_") || kind == "input_coercion_exception";
    let mut kept = Map::new();
    for (key, value) in members {
        match (key.as_str(), value) {
            (
                "took" | "_seq_no" | "_primary_term" | "creation_date" | "creation_time"
                | "created" | "node" | "line" | "col",
                _,
            ) => {}
            ("reason", _) if is_syntax_error => {}
            ("pit_id", _) => drop(kept.insert(key, "PIT".into())),
            ("uuid", Value::String(_)) => drop(kept.insert(key, "UUID".into())),
            ("index_uuid", Value::String(uuid)) if uuid != "_na_" => {
                drop(kept.insert(key, "UUID".into()));
            }
            ("reason" | "error", Value::String(text)) => {
                drop(kept.insert(key, normalized_text(&text).into()));
            }
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
        let digits_only = word
            .trim_matches(|letter: char| letter.is_ascii_digit() || "[]:.".contains(letter))
            .is_empty();
        let is_position = digits_only && word.contains(':');
        let is_context = digits_only && words.last() == Some(&"id".to_owned());
        match word.rsplit_once('/') {
            _ if is_position || is_context => {}
            Some((name, uuid)) if uuid.trim_end_matches(']').len() == 22 => {
                words.push(format!("{name}/UUID]"));
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
        .join(" ")
        .replace(" found at", " found")
        .replace("START_OBJECT at", "START_OBJECT")
}

/// A document with a version, written to an alias that must exist.
fn index(alias: &str, id: &str, version: u64, document: &Value) -> String {
    item(
        "index",
        &versioned(alias, id, version),
        &document.to_string(),
    )
}

/// A delete with a version, from an alias that must exist.
fn remove(alias: &str, id: &str, version: u64) -> String {
    item("delete", &versioned(alias, id, version), "")
}

fn versioned(alias: &str, id: &str, version: u64) -> Value {
    json!({ "_index": alias, "_id": id, "version": version, "version_type": "external_gte", "require_alias": true })
}

/// An item without version and `require_alias`.
fn plain(action: &str, index: &str, id: &str) -> String {
    let document = if action == "delete" { "" } else { r#"{"a":1}"# };
    item(action, &json!({ "_index": index, "_id": id }), document)
}

/// The lines of an item.
fn item(action: &str, details: &Value, document: &str) -> String {
    let end = if document.is_empty() { "" } else { "\n" };
    format!("{}\n{document}{end}", json!({ action: details }))
}

/// Settings without replica shards, which a single node could not assign, and additional settings.
fn alone(more: &Value) -> Value {
    let mut settings = json!({ "number_of_replicas": 0 });
    extend(&mut settings, more);
    settings
}

/// Adds the members of one object to another.
fn extend(object: &mut Value, more: &Value) {
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
}
