//! A small OpenSearch client for tests that exposes the raw responses.

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use crate::http;

/// How many documents are fetched per request.
const PAGE: usize = 1_000;

/// A client of one server. It belongs to the async runtime that made it: make one per test.
#[derive(Debug, Clone)]
pub struct OpenSearch {
    url: String,
    client: reqwest::Client,
    credentials: Option<(String, String)>,
}

/// Status and body of a response, also of an error.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; text that is no JSON is a JSON string, no body is null.
    pub body: Value,
}

impl OpenSearch {
    /// A client of the server at `url` that trusts `ca_pem` alone.
    pub fn new(url: &str, ca_pem: Option<&str>, credentials: Option<(&str, &str)>) -> Result<Self> {
        let credentials =
            credentials.map(|(username, password)| (username.to_owned(), password.to_owned()));
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            client: http::client(ca_pem)?,
            credentials,
        })
    }

    /// Sends a request and returns the response, also of an error. `path` has no leading slash.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let mut request = self
            .client
            .request(method.clone(), format!("{}/{path}", self.url));
        if let Some((username, password)) = &self.credentials {
            request = request.basic_auth(username, Some(password));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        let status = response.status().as_u16();
        let text = response
            .text()
            .await
            .with_context(|| format!("{method} {path}: reading the answer"))?;
        Ok(Answer {
            status,
            body: parsed(text),
        })
    }

    /// GET; a status other than 2xx is an error with the response.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.checked(Method::GET, path, None).await
    }

    /// PUT with a body.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.checked(Method::PUT, path, Some(body)).await
    }

    /// POST with a body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.checked(Method::POST, path, Some(body)).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Result<Value> {
        self.checked(Method::DELETE, path, None).await
    }

    /// Refreshes an index, so that searches find everything written so far.
    pub async fn refresh(&self, index: &str) -> Result<()> {
        self.checked(Method::POST, &format!("{index}/_refresh"), None)
            .await
            .map(drop)
    }

    /// How many documents match, after a refresh.
    pub async fn count(&self, index: &str, query: &Value) -> Result<u64> {
        self.refresh(index).await?;
        let answer = self
            .post(&format!("{index}/_count"), &json!({ "query": query }))
            .await?;
        answer["count"]
            .as_u64()
            .with_context(|| format!("no count in {answer}"))
    }

    /// Every document of an index (or alias, or pattern) that matches, after a refresh: whole hits
    /// with `_index`, `_id`, `_version` and `_source`, in a stable order.
    pub async fn search_all(&self, index: &str, query: &Value) -> Result<Vec<Value>> {
        self.refresh(index).await?;
        let path = format!("{index}/_search/point_in_time?keep_alive=1m");
        let opened = self.checked(Method::POST, &path, None).await?;
        let point_in_time = opened["pit_id"]
            .as_str()
            .with_context(|| format!("no pit_id in {opened}"))?;
        let hits = self.pages(point_in_time, query).await;
        let body = json!({ "pit_id": [point_in_time] });
        self.checked(Method::DELETE, "_search/point_in_time", Some(&body))
            .await?;
        hits
    }

    /// Every document of an index.
    pub async fn documents(&self, index: &str) -> Result<Vec<Value>> {
        self.search_all(index, &json!({ "match_all": {} })).await
    }

    async fn pages(&self, point_in_time: &str, query: &Value) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after: Option<Value> = None;
        loop {
            let mut body = json!({
                "size": PAGE,
                "query": query,
                "version": true,
                "pit": { "id": point_in_time, "keep_alive": "1m" },
                // Ids repeat in other indices, and `_shard_doc` is unknown to 2.19.
                "sort": [{ "_index": "asc" }, { "_id": "asc" }],
            });
            if let Some(sort_values) = after.take() {
                body["search_after"] = sort_values;
            }
            let mut answer = self.post("_search", &body).await?;
            ensure!(answer["_shards"]["failed"] == 0, "a shard failed: {answer}");
            let Value::Array(hits) = answer["hits"]["hits"].take() else {
                bail!("no hits in {answer}")
            };
            let is_last = hits.len() < PAGE;
            after = hits.last().map(|hit| hit["sort"].clone());
            all.extend(hits);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn checked(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.send(method.clone(), path, body).await?;
        let is_good = (200..300).contains(&answer.status);
        ensure!(
            is_good,
            "{method} {path}: {}: {}",
            answer.status,
            answer.body
        );
        Ok(answer.body)
    }
}

fn parsed(text: String) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
