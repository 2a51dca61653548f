//! Realistic load: pods as large, as diverse and as hard to compress as those of busy clusters.
//!
//! A pod is about 5 kB of JSON with the managed fields that the API server adds, and carries more than 600 bytes that no
//! compression can remove: checksums, tokens, image digests, container ids. Content depends on seed and number alone.

use std::{
    io::Write,
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, TryStreamExt, stream};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{fleet::ApiServer, http};

/// How many applications, and therefore values of most labels, a namespace has.
const APPLICATIONS: usize = 40;
const NODES: usize = 50;
const TIERS: [&str; 4] = ["frontend", "backend", "cache", "batch"];
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
    pub seed: u64,
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
            body: pod(&self.namespace, self.seed, number),
        })
        .await
    }

    /// Gives every pod a status, as a kubelet does. Each `round` changes every pod once more.
    pub async fn patch_statuses(&self, server: &ApiServer, round: u64) -> Result<Pace> {
        self.each(server, |number| Request {
            method: Method::PATCH,
            path: format!(
                "api/v1/namespaces/{}/pods/{}/status?fieldManager=kubelet",
                self.namespace,
                pod_name(number)
            ),
            content_type: "application/merge-patch+json",
            body: json!({ "status": pod_status(self.seed, number, round) }),
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
                pod_name(number)
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

/// The name of a pod: that of its application, a hash and a number.
pub fn pod_name(number: usize) -> String {
    format!(
        "{}-7d9c6b{:04x}-{number:07}",
        application(number),
        number % APPLICATIONS * 977
    )
}

/// The application that a pod belongs to: the value of its label `app.kubernetes.io/name`.
pub fn application(number: usize) -> String {
    format!("service-{:02}", number % APPLICATIONS)
}

/// A pod as a controller creates it.
pub fn pod(namespace: &str, seed: u64, number: usize) -> Value {
    let mut random = random_for(seed, number, 0);
    let app = application(number);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(number),
            "namespace": namespace,
            "labels": labels(&app, number),
            "annotations": {
                "checksum/config": hex(&mut random, 32),
                "checksum/secrets": hex(&mut random, 32),
                "example.com/session-ticket": STANDARD.encode(bytes(&mut random, 384)),
                "example.com/trace": hex(&mut random, 16),
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7d9c6b"), "uid": uid(&mut random),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec(&app, number, &mut random),
    })
}

fn labels(app: &str, number: usize) -> Value {
    json!({
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": format!("{app}-{}", number % 3),
        "app.kubernetes.io/version": format!("1.{}.{}", number % 7, number % 11),
        "tier": TIERS[number % TIERS.len()],
        "track": if number.is_multiple_of(10) { "canary" } else { "stable" },
        "pod-template-hash": format!("7d9c6b{:04x}", number % APPLICATIONS * 977),
    })
}

fn spec(app: &str, number: usize, random: &mut StdRng) -> Value {
    let environment: Vec<Value> = (0..2)
        .map(|index| json!({ "name": format!("SETTING_{index}"), "value": hex(random, 24) }))
        .collect();
    json!({
        "nodeName": format!("node-{:02}", number % NODES),
        "restartPolicy": "Always",
        "serviceAccountName": app,
        "containers": [{
            "name": "main",
            "image": format!("registry.example.com/shop/{app}@sha256:{}", hex(random, 32)),
            "env": environment,
            "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
            "resources": {
                "requests": { "cpu": "100m", "memory": "128Mi" },
                "limits": { "cpu": "1", "memory": "512Mi" },
            },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/service", "readOnly": true }],
        }],
        "volumes": [{ "name": "config", "configMap": { "name": format!("{app}-config") } }],
    })
}

/// The status that a kubelet would report: nine of ten pods run.
pub fn pod_status(seed: u64, number: usize, round: u64) -> Value {
    let mut random = random_for(seed, number, round + 1);
    let phase = match number % 20 {
        7 => "Pending",
        13 => "Failed",
        _ => "Running",
    };
    let runs = phase == "Running";
    let at = format!(
        "2026-01-{:02}T{:02}:{:02}:{:02}Z",
        round % 28 + 1,
        number % 24,
        number % 60,
        number % 59
    );
    let condition = |kind: &str| json!({ "type": kind, "status": if runs { "True" } else { "False" }, "lastTransitionTime": at, "lastProbeTime": null });
    let conditions = ["Ready"].map(condition);
    let address = format!(
        "10.{}.{}.{}",
        number / 65_536 % 256,
        number / 256 % 256,
        number % 256
    );
    let state = match phase {
        "Running" => json!({ "running": { "startedAt": at } }),
        "Failed" => json!({ "terminated": { "exitCode": 1, "reason": "Error", "finishedAt": at } }),
        _ => json!({ "waiting": { "reason": "ContainerCreating" } }),
    };
    json!({
        "phase": phase,
        "conditions": conditions,
        "hostIP": format!("192.168.0.{}", number % NODES),
        "podIP": address,
        "podIPs": [{ "ip": address }],
        "startTime": at,
        "qosClass": "Burstable",
        "containerStatuses": [{
            "name": "main", "ready": runs, "started": runs, "restartCount": round, "state": state, "lastState": {},
            "image": format!("registry.example.com/shop/{}", application(number)),
            "imageID": format!("registry.example.com/shop/{}@sha256:{}", application(number), hex(&mut random, 32)),
            "containerID": format!("containerd://{}", hex(&mut random, 32)),
        }],
    })
}

/// By how much the compression that API servers use shrinks `data`: 4.0 is to a quarter.
pub fn gzip_ratio(data: &[u8]) -> Result<f64> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(API_SERVER_GZIP));
    encoder.write_all(data).context("compressing")?;
    let compressed = encoder.finish().context("compressing")?;
    let length = |bytes: usize| f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
    Ok(length(data.len()) / length(compressed.len()))
}

fn random_for(seed: u64, number: usize, round: u64) -> StdRng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    key[16..24].copy_from_slice(&round.to_le_bytes());
    StdRng::from_seed(key)
}

fn bytes(random: &mut StdRng, count: usize) -> Vec<u8> {
    let mut all = vec![0; count];
    random.fill(all.as_mut_slice());
    all
}

fn hex(random: &mut StdRng, count: usize) -> String {
    let mut text = String::with_capacity(2 * count);
    for byte in bytes(random, count) {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    text
}

fn uid(random: &mut StdRng) -> String {
    let text = hex(random, 16);
    [
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_depends_on_seed_and_number_alone() {
        assert_eq!(pod("n", 1, 2), pod("n", 1, 2));
        assert_ne!(
            pod("n", 1, 2)["metadata"]["annotations"],
            pod("n", 2, 2)["metadata"]["annotations"]
        );
        assert_ne!(pod_status(1, 2, 0), pod_status(1, 2, 1));
    }

    #[test]
    fn many_pods_together_keep_600_bytes_each_that_cannot_be_compressed() {
        let pods: Vec<Value> = (0..200).map(|number| pod("n", 0, number)).collect();
        let text = serde_json::to_vec(&pods).unwrap();
        let mut best = GzEncoder::new(Vec::new(), Compression::best());
        best.write_all(&text).unwrap();
        assert!(best.finish().unwrap().len() >= 200 * 600);
    }

    #[test]
    fn names_are_unique_and_short_enough() {
        let names: std::collections::HashSet<String> = (0..2_000).map(pod_name).collect();
        assert_eq!(names.len(), 2_000);
        assert!(names.iter().all(|name| name.len() <= 63));
    }
}
