//! The servers without Fleetdex: lists with the same client, and `_bulk` of encoded documents with
//! the same index template.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use fleetdex_clusters::watch::{Collection, ListPage, ListerWatcher, WatchEvent};
use fleetdex_core::{
    kinds,
    model::{
        Gvk, IndexName, IndexPrefix, Interpret as _, InterpretationLevel, Object, Projection,
        Projector, Resource, Scope,
    },
};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_store::{
    CompleteResources, IndexRevision, RevisionStore as _,
    bulk::{self, Write},
    opensearch::{Engine, EngineOptions, OpenSearchService},
};

use super::sizes::CLUSTER;
use crate::{engine, fleet::Fleet};

/// Objects per page.
pub const PAGE: u32 = 500;

/// The listed resource.
fn pods() -> Resource {
    Resource {
        gvk: Gvk::new("", "v1", "Pod"),
        plural: "pods".into(),
        namespaced: true,
    }
}

/// The bodies of all list pages.
pub async fn pages(client: kube::Client) -> Result<Vec<Bytes>> {
    let collection = Collection {
        resource: pods(),
        scope: Scope::All,
        label_selector: None,
        field_selector: None,
    };
    let source = ListerWatcher::new(client, collection);
    let mut bodies = Vec::new();
    let mut token = None;
    loop {
        let body = source
            .list(token.as_deref(), Some(PAGE))
            .await
            .map_err(|fault| anyhow::anyhow!("{fault}"))?;
        token = ListPage::parse(&body)?.continue_token;
        // A body holds a part of the intake budget while it exists; these are copied because they
        // are retained.
        bodies.push(Bytes::copy_from_slice(&body));
        if token.is_none() {
            return Ok(bodies);
        }
    }
}

/// Every pod as the line that a watch would send.
pub async fn watch_lines(client: kube::Client) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    for body in pages(client).await? {
        for item in ListPage::parse(&body)?.items {
            // List items lack what a watch event's object has.
            let object = format!(
                r#"{{"kind":"Pod","apiVersion":"v1",{}"#,
                item.trim_start().trim_start_matches('{')
            );
            lines.push(format!(r#"{{"type":"ADDED","object":{object}}}"#).into_bytes());
        }
    }
    Ok(lines)
}

/// The projector of documents, as Fleetdex configures it; `level`: by which rules objects are
/// interpreted.
pub fn projector(level: InterpretationLevel) -> Result<Projector> {
    let resource = pods();
    let fields = kinds::selectable_fields(&resource.gvk).unwrap_or_default();
    let projector = Projector::new(&CLUSTER.parse()?, &resource, &Projection::default(), fields);
    Ok(match RuleSet::default().of_kind(&resource, true, level) {
        Some(rules) => projector.interpreted_by(Arc::new(rules)),
        None => projector,
    })
}

/// Encodes the lines of a watch as bodies of `_bulk`; how many in a second.
pub fn encode(projector: &Projector, lines: &[Vec<u8>]) -> Result<f64> {
    let index = IndexPrefix::default().cluster_alias(&CLUSTER.parse()?);
    let started = Instant::now();
    for chunk in lines.chunks(500) {
        let writes = chunk
            .iter()
            .map(|line| to_write(projector, &index, line))
            .collect::<Result<Vec<_>>>()?;
        std::hint::black_box(bulk::encode(&writes));
    }
    Ok(lines.len() as f64 / started.elapsed().as_secs_f64())
}

/// Applies the built-in rules to the objects of the lines of a watch, each as soon as it is parsed;
/// to how many in a second of that alone.
pub fn interpret(lines: &[Vec<u8>]) -> Result<f64> {
    let rules = RuleSet::default()
        .of_kind(&pods(), true, InterpretationLevel::BuiltIn)
        .context("no rules")?;
    let mut spent = Duration::ZERO;
    for line in lines {
        let object = Object::parse(added(line)?)?;
        let tree = object.tree("v1", "Pod", rules.reads());
        let started = Instant::now();
        std::hint::black_box(rules.interpret(&tree));
        spent += started.elapsed();
    }
    Ok(lines.len() as f64 / spent.as_secs_f64())
}

/// The object of an `ADDED` event.
fn added(line: &[u8]) -> Result<&str> {
    match WatchEvent::parse(line)? {
        WatchEvent::Added(json) => Ok(json),
        _ => anyhow::bail!("not an ADDED event"),
    }
}

/// The write that Fleetdex derives from a line of a watch.
pub fn to_write(projector: &Projector, index: &IndexName, line: &[u8]) -> Result<Write> {
    let object = Object::parse(added(line)?)?;
    let document = projector.document(&object, "2026-01-01T00:00:00Z")?;
    Ok(Write {
        index: index.clone(),
        document,
    })
}

/// An index as Fleetdex creates it, for raw writes. A clone is the same index.
#[derive(Clone)]
pub struct Target {
    engine: Engine,
    service: OpenSearchService,
    revision: IndexRevision,
}

impl Target {
    /// Creates the index.
    pub async fn open(fleet: &Fleet, prefix: &str) -> Result<Self> {
        let (engine, service) = engine(fleet, prefix)?;
        engine.prepare().await?;
        let revision = engine.open(&CLUSTER.parse()?, None, 0).await?;
        Ok(Self {
            engine,
            service,
            revision,
        })
    }

    /// The writes of these lines to this index.
    pub fn writes(&self, lines: &[Vec<u8>]) -> Result<Vec<Write>> {
        let projector = projector(InterpretationLevel::All)?;
        lines
            .iter()
            .map(|line| to_write(&projector, &self.revision.target, line))
            .collect()
    }

    /// Its name.
    pub fn index(&self) -> &str {
        self.revision.target.as_str()
    }

    /// Sends a body of `count` writes; fails unless each is indexed or superseded by a newer
    /// version.
    pub async fn send(&self, body: Bytes, count: usize) -> Result<()> {
        use tower::ServiceExt;
        let request = ::http::Request::post("/_bulk?filter_path=errors,items.*.status")
            .header("content-type", "application/x-ndjson")
            .body(body)?;
        let response = self.service.clone().oneshot(request).await?;
        ensure!(
            response.status().is_success(),
            "bulk: {}",
            response.status()
        );
        let verdicts = bulk::read_response(response.body(), count)?;
        let stored = |verdict: &bulk::Verdict| {
            matches!(verdict, bulk::Verdict::Indexed | bulk::Verdict::Superseded)
        };
        ensure!(
            verdicts.iter().all(stored),
            "a raw bulk item was not indexed"
        );
        Ok(())
    }

    /// Makes the index visible to queries, as Fleetdex does when it is complete.
    pub async fn activate(&self) -> Result<()> {
        self.engine
            .activate(&self.revision, &CompleteResources::All)
            .await
            .context("activating an index of the benchmark")
    }

    /// Deletes the index.
    pub async fn remove(self) -> Result<()> {
        self.engine
            .drop_cluster(&self.revision.cluster)
            .await
            .context("removing an index of the benchmark")
    }
}

fn engine(fleet: &Fleet, prefix: &str) -> Result<(Engine, OpenSearchService)> {
    let server = fleet.opensearch()?;
    let service = engine::service(server)?;
    let fields = kinds::selectable_fields(&pods().gvk).unwrap_or_default();
    let fields = fields.iter().map(|field| field.path.clone()).collect();
    let options = EngineOptions {
        fields,
        ..engine::options(server, prefix, 1)?
    };
    Ok((Engine::new(service.clone(), options), service))
}

/// Ranges of batches of at most `limit` bytes; a larger write is a batch of its own.
pub fn batches(writes: &[Write], limit: usize) -> Vec<std::ops::Range<usize>> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut size = 0;
    for (position, write) in writes.iter().enumerate() {
        let bytes = bulk::encoded_len(write);
        if size + bytes > limit && position > start {
            batches.push(start..position);
            (start, size) = (position, 0);
        }
        size += bytes;
    }
    batches.push(start..writes.len());
    batches
}
