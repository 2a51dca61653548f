//! What the two fields of documents that only searches read cost OpenSearch: bytes of the index,
//! and bulk throughput.

use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use fleetdex_store::bulk;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    figures::{Figures, verdict},
    raw::{self, Target},
};
use crate::fleet::Fleet;

/// The fields, below `search`.
const FIELDS: [&str; 2] = ["ownerNames", "annotationKeys"];
/// Pods of a `ReplicaSet`.
const REPLICAS: usize = 4;
/// Bytes of a bulk request.
const BATCH: usize = 2 << 20;
/// Each variant is written so often, in turn; the fastest counts.
const ROUNDS: usize = 8;
/// The part of the bytes and of the throughput that the fields may cost. They take about 90 bytes a
/// pod; what that is a part of depends on which segments OpenSearch has merged.
const MAX_COST: f64 = 0.12;

/// What was measured of one variant.
struct Variant {
    /// Bulk requests, each with its number of items.
    bodies: Vec<(Bytes, usize)>,
    best_seconds: f64,
    index_bytes: f64,
}

/// Writes pods with the fields and without, in turn.
pub(super) async fn measure(fleet: &Fleet, pods: usize, figures: &mut Figures) -> Result<()> {
    println!("the fields of searches, {pods} pods …");
    let lines: Vec<Vec<u8>> = (0..pods).map(line).collect();
    let mut variants = [Vec::new(), Vec::new()].map(|bodies| Variant {
        bodies,
        best_seconds: f64::INFINITY,
        index_bytes: 0.0,
    });
    for round in 0..ROUNDS {
        for (number, variant) in variants.iter_mut().enumerate() {
            let target = Target::open(fleet, &format!("fields{round}x{number}")).await?;
            let writes = target.writes(&lines)?;
            variant.bodies = raw::batches(&writes, BATCH)
                .into_iter()
                .map(|batch| {
                    let body = bulk::encode(&writes[batch.clone()]).body;
                    Ok((without(&body, number == 1)?, batch.len()))
                })
                .collect::<Result<_>>()?;
            let started = Instant::now();
            for (body, count) in &variant.bodies {
                target.send(body.clone(), *count).await?;
            }
            let seconds = started.elapsed().as_secs_f64();
            variant.best_seconds = seconds.min(variant.best_seconds);
            variant.index_bytes = index_bytes(fleet, target.index()).await?;
            target.remove().await?;
        }
    }
    report(&variants, pods, figures);
    Ok(())
}

fn report([with, without]: &[Variant; 2], pods: usize, figures: &mut Figures) {
    let bytes = with.index_bytes / without.index_bytes - 1.0;
    let throughput = 1.0 - without.best_seconds / with.best_seconds;
    figures.set("search_fields_index_cost", bytes);
    figures.set("search_fields_bulk_cost", throughput);
    let each = pods as f64;
    figures.line(
        "the two fields of searches",
        format!(
            "index {:.0} B a pod with them, {:.0} without ({:+.1} %); bulk {:.0} pods/s, {:.0} without ({:.1} % slower); at most {:.0} % each: {}",
            with.index_bytes / each,
            without.index_bytes / each,
            bytes * 100.0,
            each / with.best_seconds,
            each / without.best_seconds,
            throughput * 100.0,
            MAX_COST * 100.0,
            verdict(bytes <= MAX_COST && throughput <= MAX_COST)
        ),
    );
}

/// The same body, without the fields if `are_removed`; printed anew either way.
fn without(body: &[u8], are_removed: bool) -> Result<Bytes> {
    let mut printed = Vec::with_capacity(body.len());
    for line in body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let mut line: Value = serde_json::from_slice(line)?;
        let search = line.get_mut("search").and_then(Value::as_object_mut);
        if let Some(search) = search.filter(|_| are_removed) {
            for field in FIELDS {
                search
                    .remove(field)
                    .with_context(|| format!("a document without search.{field}"))?;
            }
        }
        serde_json::to_writer(&mut printed, &line)?;
        printed.push(b'\n');
    }
    Ok(printed.into())
}

/// The bytes of an index with a single segment.
async fn index_bytes(fleet: &Fleet, index: &str) -> Result<f64> {
    let opensearch = fleet.opensearch()?.client()?;
    let send = async |method, path: &str| opensearch.send(method, path, None).await;
    let target = format!("{index}/_forcemerge?max_num_segments=1&flush=true");
    send(Method::POST, &target).await?;
    send(Method::POST, &format!("{index}/_refresh")).await?;
    let stats = send(Method::GET, &format!("{index}/_stats/store"))
        .await?
        .body;
    let bytes = stats["_all"]["primaries"]["store"]["size_in_bytes"].as_f64();
    bytes.with_context(|| format!("no size in {stats}"))
}

/// A pod as a cluster with Deployments, a network plugin and metrics has it, as a line of a watch.
fn line(number: usize) -> Vec<u8> {
    let set = number / REPLICAS;
    let hash = format!("{:08x}", set * 0x9e37_79b1 % 0xffff_ffff);
    let application = format!("service-{}", set % 500);
    let name = format!("{application}-{hash}-{:05x}", number * 7_919 % 0xf_ffff);
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/shop/{application}:1.{}.{}", set % 30, set % 7), "imagePullPolicy": "IfNotPresent",
            "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
            "env": [{ "name": "POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "volumeMounts": [{ "name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true }],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    let condition = |name: &str| json!({ "type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z" });
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let address = format!(
        "10.{}.{}.{}",
        number >> 16,
        number >> 8 & 0xff,
        number & 0xff
    );
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "generateName": format!("{application}-{hash}-"), "namespace": format!("team-{}", set % 50),
            "uid": format!("5f0c8a4e-0000-4000-8000-{number:012x}"), "resourceVersion": (number + 1_000).to_string(), "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": { "app.kubernetes.io/name": application, "app.kubernetes.io/instance": application, "app.kubernetes.io/version": format!("1.{}", set % 30), "pod-template-hash": hash },
            "annotations": {
                "cni.projectcalico.org/containerID": format!("{number:064x}"), "cni.projectcalico.org/podIP": format!("{address}/32"),
                "prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": format!("{set:064x}"),
            },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{application}-{hash}"), "uid": format!("5f0c8a4e-0000-4000-9000-{set:012x}"), "controller": true, "blockOwnerDeletion": true }],
        },
        "spec": {
            "containers": [container("main"), container("proxy")], "nodeName": format!("node-{}", number % 200), "restartPolicy": "Always", "serviceAccountName": application,
            "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
            "volumes": [{ "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } }, { "configMap": { "name": "kube-root-ca.crt" } }] } }],
        },
        "status": {
            "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }], "hostIP": "10.0.0.1", "qosClass": "Burstable", "startTime": "2026-01-02T03:04:05Z",
            "conditions": conditions,
        },
    });
    format!(r#"{{"type":"ADDED","object":{pod}}}"#).into_bytes()
}
