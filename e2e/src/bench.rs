//! The benchmark: Fleetdex's first sync and its churn beside the two limits, all measured in one run on one machine.
//!
//! The limits are what the servers can do at all: a bare paged LIST by the same client, and raw `_bulk` of documents that are encoded
//! already, through the same template. Ratios to them mean something on any machine; the seconds alone do not.

#![expect(clippy::cast_precision_loss, reason = "figures for people: counts far below 2^52")]
#![expect(clippy::float_cmp, reason = "bounds of buckets are compared with themselves, as printed")]

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::Args;
use fleetdex::bulk::{self, Write};
use fleetdex::kinds;
use fleetdex::model::{Gvk, IndexPrefix, Object, Projection, Projector, Resource, Scope};
use fleetdex::store::Store;
use fleetdex::store::opensearch::{Engine, EngineOptions, IndexSettings, Settings, connect};
use fleetdex::watch::{Collection, ListPage, Source, WatchEvent};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};

use crate::fleet::{ApiServer, Fleet, OpenSearchKind, Options, Registration, target_folder};
use crate::load::{Load, gzip_ratio};
use crate::operator::{Operator, OperatorOptions};

const NAMESPACE: &str = "bench";
const CLUSTER: &str = "member1";
const PAGE: u32 = 500;
/// Raw bulk is measured with every one of these.
const CONNECTIONS: [usize; 4] = [1, 2, 3, 4];
const BATCH_MEBIBYTES: [usize; 3] = [1, 2, 5];
const DEADLINE: Duration = Duration::from_mins(10);
/// How closely the end of a sync is watched; each look is a request to the operator.
const LOOK: Duration = Duration::from_millis(50);

/// `e2e bench`
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// How many pods.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// How many first syncs are measured; the median counts.
    #[arg(long, default_value_t = 3)]
    syncs: usize,
}

/// Figures by name, in the order measured.
#[derive(Default)]
struct Figures(Map<String, Value>);

impl Figures {
    fn set(&mut self, name: &str, value: f64) {
        // Three decimals are more than any of these figures is worth.
        self.0.insert(name.to_owned(), json!((value * 1000.0).round() / 1000.0));
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }
}

/// Runs the benchmark, prints what it measures, and writes `target/bench/results.json`.
pub async fn run(arguments: BenchArgs) -> Result<()> {
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    println!("starting kube-apiserver, etcd and OpenSearch …");
    let options = Options { members: 1, opensearch: OpenSearchKind::Plain, ..Options::default() };
    let fleet = Fleet::start(options).await?;
    let member = fleet.member(1)?;
    let mut figures = Figures::default();

    println!("creating {} pods with statuses …", arguments.pods);
    member.kubectl()?.run(&["create", "namespace", NAMESPACE]).await?;
    let load = Load::new(NAMESPACE, arguments.pods);
    let pace = load.create_with_statuses(member).await?;
    println!("  {:.0} requests/s", pace.per_second());

    list_limit(member, arguments.pods, &mut figures).await?;
    let pods = all_pods(member).await?;
    encode_rate(&pods, &mut figures)?;
    bulk_limit(&fleet, &pods, &mut figures).await?;
    drop(pods);
    let operator = first_syncs(&fleet, &arguments, &mut figures).await?;
    churn(member, &load, &operator, &mut figures).await?;
    let usage = operator.usage()?;
    figures.set("peak_rss_bytes", usage.peak_memory_bytes as f64);
    figures.set("cpu_seconds", usage.cpu_seconds);
    operator.terminate(Duration::from_secs(30)).await?;

    println!("\n{}", report(&figures, &arguments));
    let path = folder.join("results.json");
    fs::write(&path, serde_json::to_string_pretty(&figures.0)? + "\n").with_context(|| format!("writing {}", path.display()))?;
    println!("figures in {}", path.display());
    Ok(())
}

fn pods_resource() -> Resource {
    Resource { gvk: Gvk::new("", "v1", "Pod"), plural: "pods".into(), namespaced: true }
}

async fn source(member: &ApiServer) -> Result<Source> {
    let collection = Collection { resource: pods_resource(), scope: Scope::All, label_selector: None, field_selector: None };
    Ok(Source::new(member.client().await?, collection))
}

/// The bodies of all list pages.
async fn pages(member: &ApiServer) -> Result<Vec<Bytes>> {
    let source = source(member).await?;
    let mut bodies = Vec::new();
    let mut token = None;
    loop {
        let body = source.list(token.as_deref(), Some(PAGE)).await.map_err(|fault| anyhow::anyhow!("{fault}"))?;
        token = ListPage::parse(&body)?.continue_token;
        bodies.push(body);
        if token.is_none() {
            return Ok(bodies);
        }
    }
}

/// The bare LIST by the client that Fleetdex uses, best of three, and what of it goes over the wire.
async fn list_limit(member: &ApiServer, pods: usize, figures: &mut Figures) -> Result<()> {
    println!("limit 1: the bare paged gzip LIST …");
    let mut best = f64::INFINITY;
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        bodies = pages(member).await?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    let bytes: usize = bodies.iter().map(Bytes::len).sum();
    let wire = wire_bytes(member).await?;
    figures.set("list_seconds", best);
    figures.set("list_requests", bodies.len() as f64);
    figures.set("list_bytes", bytes as f64);
    figures.set("list_wire_bytes", wire as f64);
    figures.set("bytes_per_pod", bytes as f64 / pods as f64);
    figures.set("gzip_ratio", gzip_ratio(bodies.first().context("no page")?)?);
    println!("  {best:.2} s, {} requests, {:.1} MB, {:.1} MB on the wire", bodies.len(), bytes as f64 / 1e6, wire as f64 / 1e6);
    Ok(())
}

/// The bytes of the same list as they come, packed.
async fn wire_bytes(member: &ApiServer) -> Result<usize> {
    let certificate = reqwest::Certificate::from_pem(member.ca_pem().as_bytes())?;
    let client = reqwest::Client::builder().tls_certs_only([certificate]).no_gzip().no_proxy().build()?;
    let mut token = String::new();
    let mut bytes = 0;
    loop {
        let url = format!("{}/api/v1/pods", member.url());
        let query = [("limit", PAGE.to_string()), ("continue", token.clone())];
        let request = client.get(&url).query(&query).bearer_auth(member.token()).header("accept-encoding", "gzip");
        let packed = request.send().await?.error_for_status()?.bytes().await?;
        bytes += packed.len();
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked)?;
        match ListPage::parse(&unpacked)?.continue_token {
            Some(next) => token = next,
            None => return Ok(bytes),
        }
    }
}

/// Every pod as the line that a watch would send.
async fn all_pods(member: &ApiServer) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    for body in pages(member).await? {
        for item in ListPage::parse(&body)?.items {
            // List items lack what a watch event's object has.
            let object = format!(r#"{{"kind":"Pod","apiVersion":"v1",{}"#, item.get().trim_start().trim_start_matches('{'));
            lines.push(format!(r#"{{"type":"ADDED","object":{object}}}"#).into_bytes());
        }
    }
    Ok(lines)
}

fn projector() -> Result<Projector> {
    let resource = pods_resource();
    let fields = kinds::selectable_fields(&resource.gvk).unwrap_or_default();
    Ok(Projector::new(&CLUSTER.parse()?, &resource, &Projection::default(), fields))
}

fn to_write(projector: &Projector, index: &fleetdex::model::IndexName, line: &[u8]) -> Result<Write> {
    let WatchEvent::Added(json) = WatchEvent::parse(line)? else { anyhow::bail!("not an ADDED event") };
    let document = projector.document(&Object::parse(json)?, json, "2026-01-01T00:00:00Z")?;
    Ok(Write { index: index.clone(), id: document.id, version: document.version, body: Some(document.body) })
}

/// Watch line to bulk line on one core.
fn encode_rate(lines: &[Vec<u8>], figures: &mut Figures) -> Result<()> {
    println!("watch line to bulk line, on one core …");
    let projector = projector()?;
    let index = IndexPrefix::default().cluster_alias(&CLUSTER.parse()?);
    let mut best = 0_f64;
    for _ in 0..5 {
        let started = Instant::now();
        for chunk in lines.chunks(500) {
            let writes = chunk.iter().map(|line| to_write(&projector, &index, line)).collect::<Result<Vec<_>>>()?;
            std::hint::black_box(bulk::encode(&writes));
        }
        best = best.max(lines.len() as f64 / started.elapsed().as_secs_f64());
    }
    println!("  {best:.0} objects/s");
    figures.set("encode_objects_per_s_core", best);
    Ok(())
}

fn engine(fleet: &Fleet, prefix: &str) -> Result<(Engine, fleetdex::store::opensearch::OpenSearchService)> {
    let address = fleet.opensearch()?.url().to_owned();
    let settings = Settings {
        addresses: vec![address.clone()],
        basic_auth: None,
        client_certificate: None,
        ca_bundle: None,
        insecure: false,
    };
    let service = connect(&settings)?;
    let fields = kinds::selectable_fields(&pods_resource().gvk).unwrap_or_default();
    let options = EngineOptions {
        prefix: prefix.parse()?,
        settings: IndexSettings { replicas: 0, ..IndexSettings::default() },
        fields: fields.iter().map(|field| field.path.clone()).collect(),
        projection: String::new(),
        owner: "bench".to_owned(),
        address,
    };
    Ok((Engine::new(service.clone(), options), service))
}

/// Raw `_bulk` of encoded documents: the best of several numbers of connections and sizes of batches.
async fn bulk_limit(fleet: &Fleet, lines: &[Vec<u8>], figures: &mut Figures) -> Result<()> {
    println!("limit 2: raw _bulk of encoded documents …");
    let projector = projector()?;
    let cluster = CLUSTER.parse()?;
    let mut best = 0_f64;
    let mut bytes = 0;
    for mebibytes in BATCH_MEBIBYTES {
        for connections in CONNECTIONS {
            let prefix = format!("raw{mebibytes}x{connections}");
            let (engine, service) = engine(fleet, &prefix)?;
            engine.prepare().await?;
            let index = engine.open(&cluster, None, 0).await?.target;
            let writes = lines.iter().map(|line| to_write(&projector, &index, line)).collect::<Result<Vec<_>>>()?;
            let bodies = batches(&writes, mebibytes << 20);
            bytes = bodies.iter().map(|(body, _)| body.len()).sum();
            let started = Instant::now();
            stream::iter(bodies)
                .map(|(body, count)| send_bulk(service.clone(), body, count))
                .buffer_unordered(connections)
                .try_collect::<Vec<()>>()
                .await?;
            let rate = lines.len() as f64 / started.elapsed().as_secs_f64();
            println!("  {connections} × {mebibytes} MiB: {rate:.0} docs/s");
            best = best.max(rate);
            engine.drop_cluster(&cluster).await?;
        }
    }
    figures.set("raw_bulk_docs_per_s", best);
    figures.set("raw_bulk_bytes", bytes as f64);
    Ok(())
}

fn batches(writes: &[Write], limit: usize) -> Vec<(Bytes, usize)> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut size = 0;
    for (position, write) in writes.iter().enumerate() {
        let bytes = bulk::encoded_len(write);
        if size + bytes > limit && position > start {
            batches.push((bulk::encode(&writes[start..position]).body, position - start));
            (start, size) = (position, 0);
        }
        size += bytes;
    }
    batches.push((bulk::encode(&writes[start..]).body, writes.len() - start));
    batches
}

async fn send_bulk(service: fleetdex::store::opensearch::OpenSearchService, body: Bytes, count: usize) -> Result<()> {
    use tower::ServiceExt;
    let request = ::http::Request::post("/_bulk?filter_path=errors,items.*.status")
        .header("content-type", "application/x-ndjson")
        .body(body)?;
    let response = service.oneshot(request).await?;
    ensure!(response.status().is_success(), "bulk: {}", response.status());
    let verdicts = bulk::read_response(response.body(), count)?;
    ensure!(verdicts.iter().all(|verdict| *verdict == bulk::Verdict::Indexed), "a raw bulk item was not indexed");
    Ok(())
}

/// Fleetdex from process start, the registry already applied, to the last document acknowledged. The last operator goes on running.
async fn first_syncs(fleet: &Fleet, arguments: &BenchArgs, figures: &mut Figures) -> Result<Operator> {
    println!("first sync of Fleetdex …");
    let hub = fleet.control_plane().kubectl()?;
    for crd in fleetdex::cli::crd::all() {
        hub.apply(&crd.yaml()?).await?;
    }
    hub.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).await?;
    hub.apply(&Registration::new(fleet.member(1)?, CLUSTER, "default").manifest()).await?;
    let mut seconds = Vec::new();
    let mut last = None;
    for round in 0..arguments.syncs.max(1) {
        hub.run(&["delete", "resourceregistries", "--all", "--wait=false"]).await?;
        if let Some(operator) = last.take() {
            removed(&hub).await?;
            let operator: Operator = operator;
            operator.terminate(Duration::from_secs(30)).await?;
        }
        hub.apply(&registry(fleet, &format!("bench{round}"))?).await?;
        let started = Instant::now();
        let operator = Operator::start(OperatorOptions {
            kubeconfig: fleet.control_plane().kubeconfig(),
            dir: fleet.dir().to_owned(),
            ..OperatorOptions::default()
        })?;
        wait_for_indexed(&operator, arguments.pods as f64).await?;
        let elapsed = started.elapsed().as_secs_f64();
        let usage = operator.usage()?;
        println!(
            "  {elapsed:.2} s, peak memory {:.1} MB, {:.2} CPU seconds",
            usage.peak_memory_bytes as f64 / 1e6,
            usage.cpu_seconds
        );
        figures.set("first_sync_peak_rss_bytes", usage.peak_memory_bytes as f64);
        figures.set("first_sync_cpu_seconds", usage.cpu_seconds);
        figures.set("first_sync_list_requests", operator.metric("fleetdex_lists_total", "").await?);
        seconds.push(elapsed);
        last = Some(operator);
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    figures.set("first_sync_seconds", median);
    figures.set("first_sync_docs_per_s", arguments.pods as f64 / median);
    last.context("no sync was run")
}

fn registry(fleet: &Fleet, prefix: &str) -> Result<String> {
    Ok(json!({
        "apiVersion": "search.karmada.io/v1alpha1",
        "kind": "ResourceRegistry",
        "metadata": { "name": prefix },
        "spec": {
            "targetCluster": { "clusterNames": [CLUSTER] },
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "Pod" }],
            "backendStore": { "openSearch": { "addresses": [fleet.opensearch()?.url()], "indexPrefix": prefix, "numberOfReplicas": 0 } },
        },
    })
    .to_string())
}

async fn removed(hub: &crate::kubectl::Kubectl) -> Result<()> {
    crate::poll::eventually("the registry of the round before is gone", Duration::from_mins(1), || async {
        let names = hub.run(&["get", "resourceregistries", "-o", "name"]).await?;
        ensure!(names.trim().is_empty(), "still there: {names}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

async fn wait_for_indexed(operator: &Operator, count: f64) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < DEADLINE {
        if operator.metric("fleetdex_bulk_items_total", r#"verdict="indexed""#).await.is_ok_and(|indexed| indexed >= count) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    anyhow::bail!("not synced within {} s; its log is beside the fleet's", DEADLINE.as_secs())
}

/// Every pod's status is changed once more, as fast as the apiserver takes it.
async fn churn(member: &ApiServer, load: &Load, operator: &Operator, figures: &mut Figures) -> Result<()> {
    println!("churn: one more status for every pod …");
    let before = operator.metrics().await?;
    let indexed = operator.metric("fleetdex_bulk_items_total", r#"verdict="indexed""#).await?;
    let superseded = operator.metric("fleetdex_watch_events_total", r#"event="modified""#).await?;
    let started = Instant::now();
    let pace = load.patch_statuses(member, 1).await?;
    let expected = superseded + load.pods.len() as f64;
    while operator.metric("fleetdex_watch_events_total", r#"event="modified""#).await? < expected
        || operator.metric("fleetdex_pending_documents", "").await? > 0.0
    {
        ensure!(started.elapsed() < DEADLINE, "churn was not caught up with");
        tokio::time::sleep(LOOK).await;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let written = operator.metric("fleetdex_bulk_items_total", r#"verdict="indexed""#).await? - indexed;
    let after = operator.metrics().await?;
    figures.set("churn_events_per_s", load.pods.len() as f64 / elapsed);
    figures.set("churn_written_per_s", written / elapsed);
    figures.set("churn_offered_per_s", pace.per_second());
    let buckets = histogram_difference(&before, &after, "fleetdex_event_to_ack_seconds");
    figures.set("ack_p50_ms", quantile(&buckets, 0.5) * 1000.0);
    figures.set("ack_p99_ms", quantile(&buckets, 0.99) * 1000.0);
    println!("  {:.0} events/s", figures.get("churn_events_per_s"));
    Ok(())
}

/// Upper bounds and cumulative counts of what a histogram gained between two scrapes.
fn histogram_difference(before: &str, after: &str, name: &str) -> Vec<(f64, f64)> {
    let read = |text: &str| -> Vec<(f64, f64)> {
        let prefix = format!("{name}_bucket{{");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for line in text.lines().filter(|line| line.starts_with(&prefix)) {
            let bound = line
                .split("le=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .map(|bound| bound.parse().unwrap_or(f64::INFINITY));
            let count = line.rsplit(' ').next().and_then(|count| count.parse().ok());
            if let (Some(bound), Some(count)) = (bound, count) {
                match buckets.iter_mut().find(|(known, _): &&mut (f64, f64)| *known == bound) {
                    Some((_, sum)) => *sum += count,
                    None => buckets.push((bound, count)),
                }
            }
        }
        buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        buckets
    };
    let before = read(before);
    let earlier = |bound: f64| before.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count);
    read(after).into_iter().map(|(bound, count)| (bound, count - earlier(bound))).collect()
}

/// A quantile of a histogram, linear within its bucket.
fn quantile(buckets: &[(f64, f64)], quantile: f64) -> f64 {
    let total = buckets.last().map_or(0.0, |(_, count)| *count);
    let wanted = total * quantile;
    let mut lower = (0.0, 0.0);
    for &(bound, count) in buckets {
        if count >= wanted && count > lower.1 {
            let upper = if bound.is_finite() { bound } else { lower.0 };
            return lower.0 + (upper - lower.0) * (wanted - lower.1) / (count - lower.1);
        }
        lower = (bound, count);
    }
    f64::NAN
}

fn report(figures: &Figures, arguments: &BenchArgs) -> String {
    let list = figures.get("list_seconds");
    let bulk = arguments.pods as f64 / figures.get("raw_bulk_docs_per_s");
    let sync = figures.get("first_sync_seconds");
    let bound = 1.5 * list.max(bulk) + 0.5;
    let memory = figures.get("peak_rss_bytes") / 1e6;
    let encode = figures.get("encode_objects_per_s_core");
    let verdict = |holds: bool| if holds { "as expected" } else { "NOT as expected" };
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _written = writeln!(text, "{name:<46}{value}");
    };
    line(
        "pods",
        format!("{} of {:.0} bytes, gzip ratio {:.1}", arguments.pods, figures.get("bytes_per_pod"), figures.get("gzip_ratio")),
    );
    line("bare LIST (limit 1)", format!("{list:.2} s"));
    line("raw _bulk (limit 2)", format!("{:.0} docs/s, {bulk:.2} s for all", figures.get("raw_bulk_docs_per_s")));
    line(
        "first sync",
        format!(
            "{sync:.2} s, {:.2} × the slower limit; at most 1.5 × + 0.5 s = {bound:.2} s: {}",
            sync / list.max(bulk),
            verdict(sync <= bound)
        ),
    );
    line(
        "  LIST requests, bytes on the wire",
        format!("{:.0}, {:.1} MB", figures.get("first_sync_list_requests"), figures.get("list_wire_bytes") / 1e6),
    );
    line(
        "  CPU seconds, peak memory",
        format!("{:.2}, {:.1} MB", figures.get("first_sync_cpu_seconds"), figures.get("first_sync_peak_rss_bytes") / 1e6),
    );
    line(
        "churn",
        format!("{:.0} events/s taken, {:.0} offered", figures.get("churn_events_per_s"), figures.get("churn_offered_per_s")),
    );
    line("event to acknowledged", format!("p50 {:.0} ms, p99 {:.0} ms", figures.get("ack_p50_ms"), figures.get("ack_p99_ms")));
    line("peak memory of all", format!("{memory:.1} MB; at most 80 MB: {}", verdict(memory <= 80.0)));
    line("CPU seconds of all", format!("{:.2}", figures.get("cpu_seconds")));
    line("watch line to bulk line, per core", format!("{encode:.0} objects/s; at least 60000: {}", verdict(encode >= 60_000.0)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_read_within_its_bucket() {
        let buckets = [(0.1, 50.0), (0.2, 100.0), (f64::INFINITY, 100.0)];
        assert!((quantile(&buckets, 0.5) - 0.1).abs() < 1e-9);
        assert!((quantile(&buckets, 0.75) - 0.15).abs() < 1e-9);
    }

    #[test]
    fn only_what_a_histogram_gained_counts() {
        let before = "x_bucket{le=\"1.0\",store=\"a\"} 3\nx_bucket{le=\"+Inf\",store=\"a\"} 4\n";
        let after = "x_bucket{le=\"1.0\",store=\"a\"} 5\nx_bucket{le=\"+Inf\",store=\"a\"} 9\n";
        assert_eq!(histogram_difference(before, after, "x"), [(1.0, 2.0), (f64::INFINITY, 5.0)]);
    }
}
