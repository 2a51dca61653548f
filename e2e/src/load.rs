//! Load: creates, changes and deletes the generated pods of [`fakes::pods`] on a real API server.

use std::{
    io::Write,
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use fakes::pods::Pod;
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{fleet::ApiServer, http};

/// The compression level of the API server.
const API_SERVER_GZIP: u32 = 1;
const ATTEMPTS: u32 = 6;

/// What to create, where, and how fast.
#[derive(Debug, Clone)]
pub struct Load {
    /// The namespace, which has to exist.
    pub namespace: String,
    /// The numbers of the pods; names and contents follow from them.
    pub pods: Range<usize>,
    /// Makes the contents of two clusters different.
    pub seed: u32,
    /// How many requests are under way at any time.
    pub concurrency: usize,
}

/// How fast it went.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests that succeeded.
    pub requests: usize,
    /// From the first to the last.
    pub elapsed: Duration,
}

impl Pace {
    /// Requests per second.
    pub fn per_second(&self) -> f64 {
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX);
        f64::from(requests) / self.elapsed.as_secs_f64().max(1e-9)
    }
}

impl Load {
    /// Pods `0..count` of a namespace, with 32 requests at a time.
    pub fn new(namespace: &str, count: usize) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pods: 0..count,
            seed: 0,
            concurrency: 32,
        }
    }

    /// Creates the pods, without a status: the API server makes them Pending.
    pub async fn create(&self, server: &ApiServer) -> Result<Pace> {
        let path = format!(
            "api/v1/namespaces/{}/pods?fieldManager=kube-controller-manager",
            self.namespace
        );
        self.each(server, |number| Request {
            method: Method::POST,
            path: path.clone(),
            content_type: "application/json",
            body: self.pod(number).manifest(&self.namespace),
        })
        .await
    }

    /// Gives every pod a status, as a kubelet does. Each `round` changes every pod once more.
    pub async fn patch_statuses(&self, server: &ApiServer, round: u32) -> Result<Pace> {
        self.each(server, |number| Request {
            method: Method::PATCH,
            path: format!(
                "api/v1/namespaces/{}/pods/{}/status?fieldManager=kubelet",
                self.namespace,
                self.pod(number).name()
            ),
            content_type: "application/merge-patch+json",
            body: json!({ "status": self.pod(number).at_round(round).status() }),
        })
        .await
    }

    /// Deletes the pods at once: there is no kubelet that would say goodbye to them.
    pub async fn delete(&self, server: &ApiServer) -> Result<Pace> {
        self.each(server, |number| Request {
            method: Method::DELETE,
            path: format!(
                "api/v1/namespaces/{}/pods/{}",
                self.namespace,
                self.pod(number).name()
            ),
            content_type: "application/json",
            body: json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0 }),
        })
        .await
    }

    /// Creates the pods with their statuses.
    pub async fn create_with_statuses(&self, server: &ApiServer) -> Result<Pace> {
        let created = self.create(server).await?;
        let patched = self.patch_statuses(server, 0).await?;
        Ok(Pace {
            requests: created.requests + patched.requests,
            elapsed: created.elapsed + patched.elapsed,
        })
    }

    fn pod(&self, number: usize) -> Pod {
        // No load has more pods than fit.
        Pod::new(self.seed, u32::try_from(number).unwrap_or(u32::MAX))
    }

    async fn each(&self, server: &ApiServer, make: impl Fn(usize) -> Request) -> Result<Pace> {
        let client = http::client(Some(server.ca_pem()))?;
        let started = Instant::now();
        let requests =
            stream::iter(self.pods.clone()).map(|number| make(number).send(&client, server));
        let sent = requests.buffer_unordered(self.concurrency.max(1));
        let count = sent
            .try_fold(0, |count, ()| async move { Ok(count + 1) })
            .await?;
        Ok(Pace {
            requests: count,
            elapsed: started.elapsed(),
        })
    }
}

struct Request {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Value,
}

impl Request {
    /// Sends it, and again when the server is too busy or the connection breaks.
    async fn send(self, client: &reqwest::Client, server: &ApiServer) -> Result<()> {
        let url = format!("{}/{}", server.url(), self.path);
        let body = serde_json::to_vec(&self.body).context("encoding a pod")?;
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            tokio::time::sleep(Duration::from_millis(100) * attempt).await;
            let request = client
                .request(self.method.clone(), &url)
                .bearer_auth(server.token());
            let sent = request
                .header("Content-Type", self.content_type)
                .body(body.clone())
                .send()
                .await;
            let response = match sent {
                Ok(response) => response,
                Err(error) => {
                    last = format!("{error:?}");
                    continue;
                }
            };
            let status = response.status();
            // The body is read in any case, so that the connection can be used again.
            let text = response.text().await.unwrap_or_default();
            let was_done_before = attempt > 0 && self.is_done(status);
            if status.is_success() || was_done_before {
                return Ok(());
            }
            last = format!("{status}: {text}");
            let may_pass = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            if !may_pass {
                break;
            }
        }
        bail!("{} {url}: {last}", self.method)
    }

    /// Whether a repeated request is refused because its first try had succeeded.
    fn is_done(&self, status: StatusCode) -> bool {
        match self.method {
            Method::POST => status == StatusCode::CONFLICT,
            Method::DELETE => status == StatusCode::NOT_FOUND,
            _ => false,
        }
    }
}

/// By how much the compression that API servers use shrinks `data`: 4.0 is to a quarter.
pub fn gzip_ratio(data: &[u8]) -> Result<f64> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(API_SERVER_GZIP));
    encoder.write_all(data).context("compressing")?;
    let compressed = encoder.finish().context("compressing")?;
    let length = |bytes: usize| f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
    Ok(length(data.len()) / length(compressed.len()))
}
