//! One query over ten clusters, sent to Fleetdex, to OpenSearch itself, and to every member; and a
//! scan of all objects, page by page.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use axum::{Router, routing::get};
use bytes::Bytes;
use fleetdex_core::query::CheckedQuery;
use fleetdex_store::opensearch::dsl::{self, Paging, PointInTime};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::{
    figures::{Figures, verdict},
    first_view,
    members::{Members, MembersSpec},
    query_client::{LARGE_FLEET, NAME, QueryClient, Target, WARM_UP, all_pods, report_line},
    search,
    sizes::{DEADLINE, Sizes},
    steps,
    times::Times,
};
use crate::{
    fleet::Fleet,
    http,
    operator::{Operator, OperatorOptions},
    proxy::{Fault, FaultProxy},
};

const CLUSTERS: usize = 10;
/// Audits list members, who are to receive no request because of a query.
const NO_AUDITS: &str = "--audit-interval=0";
/// Latency added towards distant members, each way.
const ADDED_LATENCY: Duration = Duration::from_millis(50);

/// The limit of a query: its ratio to the bare search and to sending the answer once more,
/// together.
const MAX_RATIO: f64 = 1.4;
/// Limits of the embedded store: its ratio to a server that has the answer ready, and the latency
/// that one of a hundred may exceed. What the rest is: docs/adr/0018.
const EMBEDDED_MAX_RATIO: f64 = 6.0;
const EMBEDDED_P99_MS: f64 = 8.0;
/// Limits of a scan: ratio to the bare scan, and memory. Pages of memory that are free are returned
/// after 10 ms, while several pages of objects of 5 MB are read and sent: docs/adr/0018.
const SCAN_MAX_RATIO: f64 = 1.3;
const SCAN_MAX_BYTES: f64 = 130e6;

/// Measures a fleet of `objects` pods.
pub async fn measure(
    fleet: &Fleet,
    objects: usize,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    println!("queries over {CLUSTERS} clusters with {objects} pods …");
    let spec = MembersSpec {
        name: NAME,
        members: CLUSTERS,
        kinds: 0,
        pods: objects / CLUSTERS,
    };
    let members = Members::start(fleet, spec).await?;
    members.register(&members.urls, 0).await?;
    members.apply_registry(1).await?;
    members.apply_embedded_registry().await?;
    let operator = Operator::start(OperatorOptions {
        arguments: vec![NO_AUDITS.to_owned()],
        ..OperatorOptions::of(fleet)
    })?;
    // One stream per store.
    members.until_watching(&operator, 2 * CLUSTERS).await?;
    let query_client = QueryClient::new(fleet, &operator, objects)?;
    query_client.until_all_are_found().await?;
    responses(&query_client, &members, sizes, figures).await?;
    // The memory of the embedded store must not count towards the scan.
    members.remove_embedded_registry().await?;
    search::measure(&query_client, sizes.queries, figures).await?;
    first_view::measure(&operator, objects, figures).await?;
    steps::measure(&query_client, &operator, figures).await?;
    scan(&query_client, &operator, figures).await?;
    members.remove_registries().await?;
    operator.terminate(Duration::from_secs(30)).await?;
    members.unregister().await
}

/// Latencies of responses, and their number of objects.
#[derive(Default)]
struct Responses {
    times: Times,
    objects: usize,
}

/// Queries the targets in turn, so that disturbances affect all of them.
async fn responses(
    query_client: &QueryClient<'_>,
    members: &Members,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    let answer = query_client.send(Target::Server("cache"), 0).await?;
    let copy = Copies::serve(answer.concat().into()).await?;
    let indexed = [
        Target::OpenSearch,
        Target::Server("opensearch"),
        Target::Server("cache"),
        Target::Copy(&copy.url),
    ];
    let before = members.requests().await?;
    let [bare, opensearch, embedded, copied] =
        interleaved(query_client, indexed, sizes.queries).await?;
    let to_members = members.requests().await? - before;
    ensure!(
        bare.objects == opensearch.objects && bare.objects == embedded.objects,
        "responses with different numbers of objects"
    );

    let proxies: Vec<FaultProxy> = members
        .urls
        .iter()
        .map(|url| FaultProxy::start(url))
        .collect::<Result<_>>()?;
    for proxy in &proxies {
        proxy.set(Fault::Delay(ADDED_LATENCY));
    }
    let far_urls: Vec<String> = proxies.iter().map(FaultProxy::url).collect();
    let [near] = interleaved(
        query_client,
        [Target::Members(&members.urls)],
        sizes.queries / 4,
    )
    .await?;
    let [far] = interleaved(
        query_client,
        [Target::Members(&far_urls)],
        sizes.queries / 10,
    )
    .await?;

    let each = bare.objects as f64 / sizes.queries as f64;
    let [bare, opensearch, embedded, copied, near, far] =
        [bare, opensearch, embedded, copied, near, far].map(|responses| responses.times);
    let many = if query_client.objects >= LARGE_FLEET {
        "query_200k"
    } else {
        "query"
    };
    figures.set(&format!("{many}_objects_per_answer"), each);
    figures.set(&format!("{many}_requests_to_members"), to_members as f64);
    for (times, target) in [
        (&bare, "bare"),
        (&opensearch, "opensearch"),
        (&embedded, "memory"),
        (&copied, "copy"),
        (&near, "fanout"),
        (&far, "fanout_far"),
    ] {
        times.set(&format!("{many}_{target}"), figures);
    }
    let limit = |part| MAX_RATIO * (bare.quantile(part) + copied.quantile(part));
    let within = |part| opensearch.quantile(part) <= limit(part);
    let subject = format!(
        "{each:.0} of {} objects by a selector",
        query_client.objects
    );
    let text = format!(
        "{}; bare search {}, a ready answer {}; at most {MAX_RATIO} × both together: {}",
        opensearch.text(),
        bare.text(),
        copied.text(),
        verdict(within(0.5) && within(0.99))
    );
    report_line(figures, &subject, text);
    let holds = embedded.quantile(0.5) <= EMBEDDED_MAX_RATIO * copied.quantile(0.5)
        && embedded.quantile(0.99) <= EMBEDDED_P99_MS;
    let text = format!(
        "{}; p50 at most {EMBEDDED_MAX_RATIO} × a ready answer, p99 {EMBEDDED_P99_MS} ms: {}",
        embedded.text(),
        verdict(holds)
    );
    report_line(figures, "  the same of the embedded store", text);
    let text = format!(
        "{}; with a round trip of {} ms more {}",
        near.text(),
        2 * ADDED_LATENCY.as_millis(),
        far.text()
    );
    let subject = format!("  the same by lists of {CLUSTERS} simulated members");
    report_line(figures, &subject, text);
    let text = format!(
        "{to_members} in {} queries: {}",
        2 * sizes.queries,
        verdict(to_members == 0)
    );
    report_line(figures, "  requests to the members", text);
    Ok(())
}

/// A server that answers every request with the same bytes: what sending an answer takes.
struct Copies {
    url: String,
    _task: AbortOnDropHandle<()>,
}

impl Copies {
    async fn serve(answer: Bytes) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let router = Router::new().route("/", get(async move || answer.clone()));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the server of copies has ended: {error}");
            }
        });
        Ok(Self {
            url,
            _task: AbortOnDropHandle::new(task),
        })
    }
}

async fn interleaved<const N: usize>(
    query_client: &QueryClient<'_>,
    target: [Target<'_>; N],
    queries: usize,
) -> Result<[Responses; N]> {
    let mut all = std::array::from_fn(|_| Responses::default());
    for number in 0..queries + WARM_UP {
        for (who, responses) in target.iter().zip(&mut all) {
            let started = Instant::now();
            let bodies = query_client.send(*who, number).await?;
            let elapsed = started.elapsed();
            if number < WARM_UP {
                continue;
            }
            responses.times.push(elapsed.as_secs_f64() * 1000.0);
            for body in bodies {
                responses.objects += objects_of(&body)?;
            }
        }
    }
    Ok(all)
}

/// The objects of a list, or the hits of a search.
fn objects_of(body: &[u8]) -> Result<usize> {
    let answer: Value = serde_json::from_slice(body).context("reading an answer")?;
    let objects = answer["items"]
        .as_array()
        .or_else(|| answer["hits"]["hits"].as_array());
    objects.map(Vec::len).context("an answer without objects")
}

/// All objects in one response of Fleetdex, beside the same pages read from OpenSearch itself.
async fn scan(
    query_client: &QueryClient<'_>,
    operator: &Operator,
    figures: &mut Figures,
) -> Result<()> {
    operator.terminate(Duration::from_secs(30)).await?;
    // A new process, whose peak memory does not include the first sync.
    operator.restart()?;
    operator.wait_ready(DEADLINE).await?;
    let query_client = QueryClient {
        token: operator.token()?,
        client: http::plain_client(None)?,
        ..query_client.clone()
    };
    query_client.until_found("opensearch").await?;
    let (bare, found) = bare_scan(&query_client).await?;
    let started = Instant::now();
    let url = format!("{}/search/opensearch/api/v1/pods", query_client.server);
    let mut answer = query_client
        .client
        .get(url)
        .bearer_auth(&query_client.token)
        .timeout(DEADLINE)
        .send()
        .await?
        .error_for_status()?;
    let mut bytes = 0;
    while let Some(chunk) = answer.chunk().await? {
        bytes += chunk.len();
    }
    let seconds = started.elapsed().as_secs_f64();
    let peak = operator.usage()?.peak_memory_bytes as f64;
    let many = if query_client.objects >= LARGE_FLEET {
        "query_200k"
    } else {
        "query"
    };
    figures.set(&format!("{many}_scan_bare_seconds"), bare);
    figures.set(&format!("{many}_scan_seconds"), seconds);
    figures.set(&format!("{many}_scan_bytes"), bytes as f64);
    figures.set(&format!("{many}_scan_rss_bytes"), peak);
    let holds =
        seconds <= bare * SCAN_MAX_RATIO && peak <= SCAN_MAX_BYTES && found == query_client.objects;
    let text = format!(
        "{seconds:.1} s, {:.0} MB in memory; bare scan {bare:.1} s; at most {SCAN_MAX_RATIO} × and {:.0} MB: {}",
        peak / 1e6,
        SCAN_MAX_BYTES / 1e6,
        verdict(holds)
    );
    report_line(figures, &format!("all {found} objects, page by page"), text);
    Ok(())
}

/// Seconds and number of objects of a scan with the server's page size.
async fn bare_scan(query_client: &QueryClient<'_>) -> Result<(f64, usize)> {
    let started = Instant::now();
    let url = format!(
        "{}/{NAME}/_search/point_in_time?keep_alive=1m",
        query_client.opensearch
    );
    let opened: Value =
        serde_json::from_slice(&query_client.body(query_client.client.post(url)).await?)?;
    let id = opened["pit_id"]
        .as_str()
        .context("no point in time")?
        .to_owned();
    let mut paging = Paging {
        point_in_time: Some(PointInTime {
            id,
            keep_alive: "1m".to_owned(),
        }),
        ..Paging::default()
    };
    let query = all_pods();
    let checked = CheckedQuery::new(&query)?;
    let mut found = 0;
    loop {
        let body = dsl::request_body(&checked, &paging);
        let answer = query_client
            .body(
                query_client
                    .client
                    .post(format!("{}/_search", query_client.opensearch))
                    .json(&body),
            )
            .await?;
        let page: Page = serde_json::from_slice(&answer)?;
        let Some(last) = page.hits.hits.last() else {
            break;
        };
        found += page.hits.hits.len();
        paging.after.clone_from(&last.sort);
    }
    let seconds = started.elapsed().as_secs_f64();
    let body = json!({ "pit_id": [paging.point_in_time.context("no point in time")?.id] });
    query_client
        .body(
            query_client
                .client
                .delete(format!("{}/_search/point_in_time", query_client.opensearch))
                .json(&body),
        )
        .await?;
    Ok((seconds, found))
}

/// The sort values that the next page starts after; objects are skipped.
#[derive(Deserialize)]
struct Page {
    hits: Hits,
}

#[derive(Deserialize)]
struct Hits {
    hits: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    sort: Vec<Value>,
}
