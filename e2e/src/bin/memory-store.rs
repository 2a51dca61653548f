//! What the embedded store takes for each object: fills one in this process from a simulated
//! apiserver in another, and asks it.

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use fleetdex_core::{
    kinds,
    model::{Gvk, Object, Projection, Projector, Resource},
    query::{Query, ResourceName, Selectable},
};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, IndexReader as _, IndexRevision, RevisionStore as _,
    bulk::Write, memory::Memory,
};
use kube::{Client, Config};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// Pods of one page: few, so that what is measured is the store and not the pages.
const PAGE: usize = 100;
/// How often each question is asked.
const QUESTIONS: usize = 200;

/// Fills an embedded store with the pods of the benchmarks, as large and as random, and prints one
/// line of JSON: bytes and times.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many pods there are.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Over how many clusters they are spread.
    #[arg(long, default_value_t = 1)]
    clusters: usize,
}

/// The simulated apiserver, killed when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(objects: usize) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("apiserver");
        let mut command = Command::new(&program);
        command
            .arg(format!("--objects={objects}"))
            .arg("--cached-events=1")
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let ready: serde_json::Value =
            serde_json::from_str(&line).context("reading the address")?;
        Ok(Self {
            child,
            url: ready["url"].as_str().context("no address")?.to_owned(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    metadata: ListMeta,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    next: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let server = Server::start(arguments.objects)?;
    let client = Client::try_from(Config::new(server.url.parse()?))?;
    let memory = Memory::new();
    let before = resident()?;
    let started = Instant::now();
    let revisions = fill(&memory, &client, &arguments).await?;
    let filling = started.elapsed();
    drop(server);
    ensure!(
        memory.len() == arguments.objects,
        "{} of {} objects are stored",
        memory.len(),
        arguments.objects
    );
    let after = resident()?;
    for revision in &revisions {
        memory.activate(revision, &CompleteResources::All).await?;
    }
    let of_selector = ask(&memory, "app.kubernetes.io/name=service-07,tier=batch").await?;
    let of_all = ask(&memory, "").await?;
    let report = json!({
        "objects": arguments.objects,
        "resident_bytes": after,
        "bytes_per_object": (after - before) / arguments.objects as u64,
        "fill_seconds": filling.as_secs_f64(),
        "selector_p50_us": of_selector.0.as_micros(), "selector_p99_us": of_selector.1.as_micros(),
        "all_p50_us": of_all.0.as_micros(), "all_p99_us": of_all.1.as_micros(),
    });
    writeln!(std::io::stdout(), "{report}").context("printing the report")
}

fn pods() -> Resource {
    Resource {
        gvk: Gvk::new("", "v1", "Pod"),
        plural: "pods".into(),
        namespaced: true,
    }
}

async fn fill(
    memory: &Memory,
    client: &Client,
    arguments: &Arguments,
) -> Result<Vec<IndexRevision>> {
    let mut targets = Vec::new();
    for number in 0..arguments.clusters {
        let cluster = format!("member{number}").parse()?;
        let revision = memory.open(&cluster, None, 0).await?;
        let fields = kinds::selectable_fields(&pods().gvk).unwrap_or_default();
        targets.push((
            Projector::new(&cluster, &pods(), &Projection::default(), fields),
            revision,
        ));
    }
    let mut next = String::new();
    for page in 0.. {
        let path = format!("/api/v1/pods?limit={PAGE}&continue={next}");
        let text = client
            .request_text(http::Request::get(path).body(Vec::new())?)
            .await?;
        let list: List<'_> = serde_json::from_str(&text)?;
        let (projector, revision) = &targets[page % targets.len()];
        let write = |item: &&RawValue| {
            let document =
                projector.document(&Object::parse(item.get())?, "2026-01-01T00:00:00Z")?;
            Ok(Write {
                index: revision.target.clone(),
                document,
            })
        };
        let writes: Vec<Write> = list.items.iter().map(write).collect::<Result<_>>()?;
        memory.write(&writes).await?;
        if list.metadata.next.is_empty() {
            break;
        }
        next = list.metadata.next;
    }
    Ok(targets.into_iter().map(|(_, revision)| revision).collect())
}

/// Half of the answers, and all but one of a hundred, took at most these times.
async fn ask(memory: &Memory, labels: &str) -> Result<(Duration, Duration)> {
    let selectable = Selectable::of(&pods().gvk, &[]);
    let query = Query {
        labels: labels.parse()?,
        ..Query::all_of(ResourceName::new("", "pods"), selectable, 50)
    };
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let started = Instant::now();
        let page = memory.search(&query, None).await?;
        times.push(started.elapsed());
        ensure!(
            page.items.len() == 50,
            "only {} objects are selected by {labels:?}",
            page.items.len()
        );
    }
    times.sort_unstable();
    Ok((times[QUESTIONS / 2], times[QUESTIONS * 99 / 100]))
}

/// Resident memory of this process.
fn resident() -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kibibytes.context("no VmRSS")? * 1024)
}
