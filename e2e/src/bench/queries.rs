//! One question to a fleet of ten clusters: asked of Fleetdex, of OpenSearch itself, and of every member. And all objects, page by page.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use fleetdex_core::{
    kinds,
    model::Gvk,
    query::{
        CheckedQuery, Query, ResourceName, Selectable,
        dsl::{self, Paging, PointInTime},
    },
};
use futures::future::try_join_all;
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::figures::Figures;
use super::figures::verdict;
use super::members::Extent;
use super::members::Members;
use super::sizes::DEADLINE;
use super::sizes::Sizes;
use super::times::Times;
use crate::{
    fleet::Fleet,
    http,
    operator::{Operator, OperatorOptions},
    poll::eventually,
    proxy::{Fault, FaultProxy},
};

const NAME: &str = "queries";
const CLUSTERS: usize = 10;
/// Questions before those that count.
const WARM_UP: usize = 20;
/// Applications that pods belong to: each question is about another one.
const APPLICATIONS: usize = 40;
/// Objects of a page of the bare scan: those of a page that the server reads.
const PAGE: usize = 1_000;
/// From this many objects on another selector finds about fifty of them.
const MANY: usize = 100_000;
/// What is added to the way to the members, each way.
const FAR: Duration = Duration::from_millis(50);

/// What an answer may take beyond the bare search, and what one of the embedded store may take.
const SLOWER: f64 = 1.2;
const MORE_MS: f64 = 0.5;
const EMBEDDED_P50_MS: f64 = 1.0;
const EMBEDDED_P99_MS: f64 = 5.0;
/// What reading all objects may take beyond the bare scan, and the memory that it may take.
const SCAN_SLOWER: f64 = 1.3;
const SCAN_BYTES: f64 = 80e6;

/// Measures a fleet of so many pods.
pub async fn measure(
    fleet: &Fleet,
    objects: usize,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    println!("questions to {CLUSTERS} clusters with {objects} pods …");
    let extent = Extent {
        name: NAME,
        members: CLUSTERS,
        kinds: 0,
        pods: objects / CLUSTERS,
    };
    let members = Members::start(fleet, extent).await?;
    members.register(&members.urls, 0).await?;
    members.apply_registry(1).await?;
    members.apply_embedded_registry().await?;
    let operator = Operator::start(OperatorOptions {
        kubeconfig: fleet.control_plane().kubeconfig(),
        dir: fleet.dir().to_owned(),
        ..OperatorOptions::default()
    })?;
    // One stream for each store.
    members.until_watching(&operator, 2 * CLUSTERS).await?;
    let asker = Asker::new(fleet, &operator, objects)?;
    asker.until_all_are_found().await?;
    answers(&asker, &members, sizes, figures).await?;
    // What the embedded store holds is not what reading from OpenSearch takes.
    members.remove_embedded_registry().await?;
    scan(&asker, &operator, figures).await?;
    members.remove_registries().await?;
    operator.terminate(Duration::from_secs(30)).await?;
    members.forget().await
}

/// Asks the same question in several ways.
#[derive(Clone)]
struct Asker<'f> {
    client: Client,
    server: String,
    token: String,
    opensearch: &'f str,
    objects: usize,
}

impl<'f> Asker<'f> {
    fn new(fleet: &'f Fleet, operator: &Operator, objects: usize) -> Result<Self> {
        Ok(Self {
            client: http::plain_client()?,
            server: format!(
                "http://{}/apis/search.fleetdex.io/v1alpha1",
                operator.api_address()
            ),
            token: operator.token()?,
            opensearch: fleet.opensearch()?.url(),
            objects,
        })
    }

    async fn until_all_are_found(&self) -> Result<()> {
        for store in ["opensearch", "cache"] {
            self.until_found(store).await?;
        }
        Ok(())
    }

    async fn until_found(&self, store: &str) -> Result<()> {
        eventually("all pods are found", DEADLINE, || async {
            let page: Value = serde_json::from_slice(&self.list(store, "limit=1").await?)?;
            let found = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) + 1;
            ensure!(
                found == self.objects as u64,
                "{found} of {} in {store}",
                self.objects
            );
            Ok(())
        })
        .await
    }

    /// A selector that finds about fifty objects.
    fn selector(&self, number: usize) -> String {
        let (application, patch) = (number % APPLICATIONS, number % 11);
        let label = "app.kubernetes.io";
        if self.objects >= MANY {
            let instance = format!("service-{application:02}");
            let two = format!("{label}/instance in ({instance}-0,{instance}-1)");
            return format!(
                "{label}/name=service-{application:02},{label}/version=1.{}.{patch},{two}",
                number % 7
            );
        }
        let versions: Vec<String> = (0..7).map(|minor| format!("1.{minor}.{patch}")).collect();
        format!(
            "{label}/name=service-{application:02},{label}/version in ({})",
            versions.join(",")
        )
    }

    /// A list of the server.
    async fn list(&self, store: &str, query: &str) -> Result<Bytes> {
        let url = format!("{}/search/{store}/api/v1/pods?{query}", self.server);
        self.body(self.client.get(url).bearer_auth(&self.token))
            .await
    }

    async fn ask(&self, whom: Whom<'_>, number: usize) -> Result<Vec<Bytes>> {
        let selector = self.selector(number);
        let query = format!("labelSelector={}", url_encoded(&selector));
        match whom {
            Whom::OpenSearch => {
                let query = Query {
                    labels: selector.parse()?,
                    ..everything()
                };
                let body = dsl::request_body(
                    &CheckedQuery::new(&query)?,
                    &Paging {
                        look_ahead: true,
                        ..Paging::default()
                    },
                );
                let url = format!(
                    "{}/{NAME}/_search?ignore_unavailable=true&allow_no_indices=true",
                    self.opensearch
                );
                Ok(vec![self.body(self.client.post(url).json(&body)).await?])
            }
            Whom::Server(store) => Ok(vec![self.list(store, &query).await?]),
            Whom::Members(urls) => {
                try_join_all(
                    urls.iter().map(|url| {
                        self.body(self.client.get(format!("{url}/api/v1/pods?{query}")))
                    }),
                )
                .await
            }
        }
    }

    async fn body(&self, request: RequestBuilder) -> Result<Bytes> {
        let answer = request.send().await?;
        let code = answer.status();
        let body = answer.bytes().await?;
        ensure!(
            code.is_success(),
            "HTTP {code}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }
}

/// Who is asked.
#[derive(Clone, Copy)]
enum Whom<'a> {
    OpenSearch,
    /// Fleetdex, by the name of the store in its paths.
    Server(&'a str),
    /// Every member, at once.
    Members(&'a [String]),
}

/// How long answers took, and how many objects they had.
#[derive(Default)]
struct Answers {
    times: Times,
    objects: usize,
}

/// Asks all of them by turns, so that what disturbs one disturbs the others.
async fn answers(
    asker: &Asker<'_>,
    members: &Members,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Result<()> {
    let indexed = [
        Whom::OpenSearch,
        Whom::Server("opensearch"),
        Whom::Server("cache"),
    ];
    let before = members.requests().await?;
    let [bare, opensearch, embedded] = by_turns(asker, indexed, sizes.questions).await?;
    let to_members = members.requests().await? - before;
    ensure!(
        bare.objects == opensearch.objects && bare.objects == embedded.objects,
        "answers of different sizes"
    );

    let proxies: Vec<FaultProxy> = members
        .urls
        .iter()
        .map(|url| FaultProxy::start(url))
        .collect::<Result<_>>()?;
    for proxy in &proxies {
        proxy.set(Fault::Delay(FAR));
    }
    let far_urls: Vec<String> = proxies.iter().map(FaultProxy::url).collect();
    let [near] = by_turns(asker, [Whom::Members(&members.urls)], sizes.questions / 4).await?;
    let [far] = by_turns(asker, [Whom::Members(&far_urls)], sizes.questions / 10).await?;

    let each = bare.objects as f64 / sizes.questions as f64;
    let [bare, opensearch, embedded, near, far] =
        [bare, opensearch, embedded, near, far].map(|answers| answers.times);
    let many = if asker.objects >= MANY {
        "query_200k"
    } else {
        "query"
    };
    figures.set(&format!("{many}_objects_per_answer"), each);
    figures.set(&format!("{many}_requests_to_members"), to_members as f64);
    for (times, whom) in [
        (&bare, "bare"),
        (&opensearch, "opensearch"),
        (&embedded, "memory"),
        (&near, "fanout"),
        (&far, "fanout_far"),
    ] {
        times.set(&format!("{many}_{whom}"), figures);
    }
    let within = |part| opensearch.quantile(part) <= SLOWER * bare.quantile(part) + MORE_MS;
    let subject = format!("{each:.0} of {} objects by a selector", asker.objects);
    let text = format!(
        "{}; bare search {}; at most {SLOWER} × + {MORE_MS} ms: {}",
        opensearch.text(),
        bare.text(),
        verdict(within(0.5) && within(0.99))
    );
    tell(figures, &subject, text);
    let holds =
        embedded.quantile(0.5) <= EMBEDDED_P50_MS && embedded.quantile(0.99) <= EMBEDDED_P99_MS;
    let text = format!(
        "{}; at most {EMBEDDED_P50_MS} and {EMBEDDED_P99_MS} ms: {}",
        embedded.text(),
        verdict(holds)
    );
    tell(figures, "  the same of the embedded store", text);
    let text = format!(
        "{}; with a round trip of {} ms more {}",
        near.text(),
        2 * FAR.as_millis(),
        far.text()
    );
    tell(
        figures,
        &format!("  the same by lists of {CLUSTERS} simulated members"),
        text,
    );
    let text = format!(
        "{to_members} in {} questions: {}",
        2 * sizes.questions,
        verdict(to_members == 0)
    );
    tell(figures, "  requests to the members", text);
    Ok(())
}

async fn by_turns<const N: usize>(
    asker: &Asker<'_>,
    whom: [Whom<'_>; N],
    questions: usize,
) -> Result<[Answers; N]> {
    let mut all = std::array::from_fn(|_| Answers::default());
    for number in 0..questions + WARM_UP {
        for (who, answers) in whom.iter().zip(&mut all) {
            let started = Instant::now();
            let bodies = asker.ask(*who, number).await?;
            let elapsed = started.elapsed();
            if number < WARM_UP {
                continue;
            }
            answers.times.push(elapsed.as_secs_f64() * 1000.0);
            for body in bodies {
                answers.objects += objects_of(&body)?;
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

/// All objects in one answer of the server, beside the same pages read from OpenSearch itself.
async fn scan(asker: &Asker<'_>, operator: &Operator, figures: &mut Figures) -> Result<()> {
    operator.terminate(Duration::from_secs(30)).await?;
    // A fresh process: the peak of its memory is not that of the first sync.
    operator.restart()?;
    operator.wait_ready(DEADLINE).await?;
    let asker = Asker {
        token: operator.token()?,
        client: http::plain_client()?,
        ..asker.clone()
    };
    asker.until_found("opensearch").await?;
    let (bare, found) = bare_scan(&asker).await?;
    let started = Instant::now();
    let url = format!("{}/search/opensearch/api/v1/pods", asker.server);
    let mut answer = asker
        .client
        .get(url)
        .bearer_auth(&asker.token)
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
    let many = if asker.objects >= MANY {
        "query_200k"
    } else {
        "query"
    };
    figures.set(&format!("{many}_scan_bare_seconds"), bare);
    figures.set(&format!("{many}_scan_seconds"), seconds);
    figures.set(&format!("{many}_scan_bytes"), bytes as f64);
    figures.set(&format!("{many}_scan_rss_bytes"), peak);
    let holds = seconds <= bare * SCAN_SLOWER && peak <= SCAN_BYTES && found == asker.objects;
    let text = format!(
        "{seconds:.1} s, {:.0} MB in memory; bare scan {bare:.1} s; at most {SCAN_SLOWER} × and {:.0} MB: {}",
        peak / 1e6,
        SCAN_BYTES / 1e6,
        verdict(holds)
    );
    tell(figures, &format!("all {found} objects, page by page"), text);
    Ok(())
}

/// Seconds, and objects, of a scan by the pages that the server reads.
async fn bare_scan(asker: &Asker<'_>) -> Result<(f64, usize)> {
    let started = Instant::now();
    let url = format!(
        "{}/{NAME}/_search/point_in_time?keep_alive=1m",
        asker.opensearch
    );
    let opened: Value = serde_json::from_slice(&asker.body(asker.client.post(url)).await?)?;
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
    let query = everything();
    let checked = CheckedQuery::new(&query)?;
    let mut found = 0;
    loop {
        let body = dsl::request_body(&checked, &paging);
        let answer = asker
            .body(
                asker
                    .client
                    .post(format!("{}/_search", asker.opensearch))
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
    asker
        .body(
            asker
                .client
                .delete(format!("{}/_search/point_in_time", asker.opensearch))
                .json(&body),
        )
        .await?;
    Ok((seconds, found))
}

/// What of a page tells where the next one begins; the objects are read over.
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

fn tell(figures: &mut Figures, subject: &str, text: String) {
    println!("  {subject}: {text}");
    figures.line(subject, text);
}

fn everything() -> Query {
    let pods = Gvk::new("", "v1", "Pod");
    let fields = kinds::selectable_fields(&pods).unwrap_or_default();
    Query::all_of(
        ResourceName::new("", "pods"),
        Selectable::of(&pods, fields),
        PAGE,
    )
}

fn url_encoded(text: &str) -> String {
    let encoded = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(encoded).collect()
}
