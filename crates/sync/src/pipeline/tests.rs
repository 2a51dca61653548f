//! The writer against a store that fails in every way, on a paused clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_trait::async_trait;
use fleetdex_core::model::{Document, IndexPrefix, JsonLine, Version};
use fleetdex_store::{
    StoreError,
    bulk::{Verdict, Write},
    fake::{PreparedReader, PreparedWriter, WriteBatch},
};
use fleetdex_telemetry::Metrics;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::progress::Progress;

type Documents = BTreeMap<Arc<str>, (Version, Option<JsonLine>)>;

/// A store that keeps documents with external versions, and fails on command.
#[derive(Default)]
struct Flaky {
    documents: Mutex<Documents>,
    /// Chance of a failure, in percent.
    failures: u32,
    random: Mutex<Option<StdRng>>,
    in_flight: Mutex<BTreeSet<Arc<str>>>,
    requests: Mutex<usize>,
    /// Until when every request is too large, whatever is in it.
    takes_nothing_until: Mutex<Option<Instant>>,
}

impl Flaky {
    fn new(seed: u64, failures: u32) -> Arc<Self> {
        Arc::new(Self {
            failures,
            random: Mutex::new(Some(StdRng::seed_from_u64(seed))),
            ..Self::default()
        })
    }

    fn roll(&self, sides: u32) -> u32 {
        self.random
            .lock()
            .as_mut()
            .map_or(0, |random| random.random_range(0..sides))
    }

    fn fails(&self) -> bool {
        self.roll(100) < self.failures
    }

    fn apply(&self, write: &Write) -> Verdict {
        let mut documents = self.documents.lock();
        if documents
            .get(&write.document.id)
            .is_some_and(|(version, _)| *version > write.document.version)
        {
            return Verdict::Superseded;
        }
        documents.insert(
            Arc::clone(&write.document.id),
            (write.document.version, write.document.body.clone()),
        );
        if write.document.body.is_some() {
            Verdict::Indexed
        } else {
            Verdict::Deleted
        }
    }
}

#[async_trait]
impl WriteBatch for Flaky {
    async fn write_batch(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        *self.requests.lock() += 1;
        for write in writes {
            assert!(
                self.in_flight.lock().insert(Arc::clone(&write.document.id)),
                "{} is in flight twice",
                write.document.id
            );
        }
        tokio::time::sleep(Duration::from_millis(u64::from(self.roll(50)))).await;
        for write in writes {
            self.in_flight.lock().remove(&write.document.id);
        }
        let too_large = writes.len() > 1
            && writes.iter().any(|write| {
                write
                    .document
                    .body
                    .as_ref()
                    .is_some_and(|body| body.starts_with(b"{\"huge\""))
            });
        if too_large
            || self
                .takes_nothing_until
                .lock()
                .is_some_and(|until| Instant::now() < until)
        {
            return Err(StoreError::TooLarge { bytes: 0 });
        }
        if writes.iter().any(|write| {
            write
                .document
                .body
                .as_ref()
                .is_some_and(|body| body.starts_with(b"{\"verbose\""))
        }) {
            return Err(StoreError::AnswerTooLarge {
                operation: "a bulk request".to_owned(),
                limit: 1,
            });
        }
        if self.fails() {
            // Whether it was applied before the connection broke is not known.
            if self.roll(2) == 0 {
                for write in writes {
                    self.apply(write);
                }
            }
            return Err(StoreError::Unreachable {
                address: "here".to_owned(),
                reason: "cut".to_owned(),
            });
        }
        let verdict = |write: &Write| {
            let refused = write.document.body.as_ref().is_some_and(|body| {
                body.starts_with(b"{\"refused\"") || body.starts_with(b"{\"huge\"")
            });
            match () {
                () if self.fails() => Verdict::Retry("429".to_owned()),
                () if self.fails() => Verdict::Blocked("403".to_owned()),
                () if refused => Verdict::Rejected("mapper_parsing_exception".to_owned()),
                () => self.apply(write),
            }
        };
        Ok(writes.iter().map(verdict).collect())
    }
}

struct Open(Arc<Flaky>);

#[async_trait]
impl OpenStore for Open {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        let batches = Arc::clone(&self.0) as Arc<dyn WriteBatch>;
        Ok(OpenedStore {
            writer: Arc::new(PreparedWriter::writing_to(batches)),
            reader: PreparedReader::with(Vec::new()),
        })
    }

    async fn changed(&self) -> bool {
        false
    }
}

struct Running {
    pipeline: Pipeline,
    progress: Arc<Progress>,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn run(store: &Arc<Flaky>) -> Running {
    let name: StoreName = "test".parse().unwrap();
    let changed = Arc::new(Notify::new());
    let pipeline = Pipeline::new(
        name.clone(),
        PipelineLimits::default(),
        WriteFence::OPEN,
        Metrics::new().store(&name),
        Arc::clone(&changed),
    );
    let cancel = CancellationToken::new();
    let task = tokio::spawn(pipeline.clone().run(
        Arc::new(Open(Arc::clone(store))),
        cancel.clone(),
        Duration::from_mins(1),
    ));
    Running {
        pipeline,
        progress: Progress::new("member1".parse().unwrap(), changed),
        cancel,
        task,
    }
}

impl Running {
    async fn submit(&self, id: &str, version: u64, body: Option<String>) {
        let index = IndexPrefix::default().cluster_alias(self.progress.cluster());
        let write = Write {
            index,
            document: Document {
                id: id.into(),
                version: version.to_string().parse().unwrap(),
                body: body.map(JsonLine::new),
                is_partial: false,
            },
        };
        self.pipeline.queue.wait_for_room().await;
        self.pipeline
            .queue
            .submit(write, None, self.progress.ticket());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_ends_with_the_same_documents() {
    for seed in 0..20 {
        let mut stored = Vec::new();
        for failures in [0, 20] {
            let store = Flaky::new(seed, failures);
            let running = run(&store);
            let mut random = StdRng::seed_from_u64(seed);
            for version in 1..=400_u64 {
                let body = (random.random_range(0..4) > 0).then(|| format!("{{\"v\":{version}}}"));
                running
                    .submit(&format!("id{}", random.random_range(0..60)), version, body)
                    .await;
            }
            running.progress.drained().await;
            stored.push(store.documents.lock().clone());
        }
        assert_eq!(stored[0], stored[1], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_document_gets_a_fallback_and_the_others_are_stored() {
    let store = Flaky::new(1, 0);
    let running = run(&store);
    running
        .submit("good1", 1, Some("{\"kind\":\"Pod\"}".to_owned()))
        .await;
    running
        .submit(
            "bad",
            2,
            Some(
                "{\"refused\":1,\"cluster\":\"member1\",\"metadata\":{\"name\":\"x\"}}".to_owned(),
            ),
        )
        .await;
    running
        .submit("good2", 3, Some("{\"kind\":\"Pod\"}".to_owned()))
        .await;
    running.progress.drained().await;
    let documents = store.documents.lock().clone();
    assert_eq!(documents.len(), 3);
    let body = documents[&Arc::from("bad")].1.clone().unwrap();
    assert!(String::from_utf8_lossy(&body).contains("\"rejected\":\"mapper_parsing_exception\""));
    assert_eq!(running.progress.rejected(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_large_is_split_until_the_document_is_found() {
    let store = Flaky::new(1, 0);
    let running = run(&store);
    for id in 0..100 {
        let body = if id == 37 {
            "{\"huge\":1,\"cluster\":\"member1\"}"
        } else {
            "{\"kind\":\"Pod\"}"
        };
        running
            .submit(&format!("id{id}"), 1, Some(body.to_owned()))
            .await;
    }
    running.progress.drained().await;
    assert_eq!(store.documents.lock().len(), 100);
    assert_eq!(running.progress.rejected(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_document_with_a_response_that_is_too_large_does_not_block_others() {
    let store = Flaky::new(1, 0);
    let running = run(&store);
    for id in 0..100 {
        let body = if id == 37 {
            "{\"verbose\":1,\"cluster\":\"member1\"}"
        } else {
            "{\"kind\":\"Pod\"}"
        };
        running
            .submit(&format!("id{id}"), 1, Some(body.to_owned()))
            .await;
    }
    running.progress.drained().await;
    assert_eq!(store.documents.lock().len(), 100);
    assert_eq!(running.progress.rejected(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_fallback_is_retried_until_the_limit_is_lifted() {
    let store = Flaky::new(1, 0);
    let running = run(&store);
    *store.takes_nothing_until.lock() = Some(Instant::now() + Duration::from_mins(1));
    running.submit("deleted", 1, None).await;
    running
        .submit(
            "written",
            1,
            Some(
                "{\"kind\":\"Pod\",\"cluster\":\"member1\",\"metadata\":{\"uid\":\"u\"}}"
                    .to_owned(),
            ),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(running.progress.outstanding(), 2);
    assert!(matches!(
        running.pipeline.store.availability(),
        Some(Err(Unavailable {
            reason: "Refused",
            ..
        }))
    ));
    running.progress.drained().await;
    assert_eq!(store.documents.lock().len(), 2);
    assert!(!running.progress.is_broken());
}

#[tokio::test(start_paused = true)]
async fn pending_writes_are_written_before_the_pipeline_ends() {
    let store = Flaky::new(3, 10);
    let running = run(&store);
    for id in 0..500 {
        running
            .submit(&format!("id{id}"), 1, Some("{}".to_owned()))
            .await;
    }
    running.pipeline.store.opened().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    running.cancel.cancel();
    running.task.await.unwrap();
    assert_eq!(store.documents.lock().len(), 500);
}

#[tokio::test(start_paused = true)]
async fn writes_that_miss_the_drain_deadline_are_dropped() {
    let store = Flaky::new(1, 0);
    let running = run(&store);
    *store.takes_nothing_until.lock() = Some(Instant::now() + Duration::from_hours(1));
    running.submit("a", 1, Some("{}".to_owned())).await;
    running.submit("b", 1, None).await;
    running.pipeline.store.opened().await;
    running.cancel.cancel();
    running.task.await.unwrap();
    // The pipeline is still held here.
    assert_eq!(running.progress.outstanding(), 0);
    assert!(running.progress.is_broken() && running.pipeline.queue.is_idle());
}

#[tokio::test(start_paused = true)]
async fn there_is_no_room_while_too_many_bytes_are_pending() {
    // Not opened: nothing is taken out.
    let name: StoreName = "test".parse().unwrap();
    let changed = Arc::new(Notify::new());
    let pipeline = Pipeline::new(
        name.clone(),
        PipelineLimits::default(),
        WriteFence::OPEN,
        Metrics::new().store(&name),
        Arc::clone(&changed),
    );
    let progress = Progress::new("member1".parse().unwrap(), changed);
    let index = IndexPrefix::default().cluster_alias(progress.cluster());
    let mebibyte = JsonLine::new(vec![b' '; 1 << 20]);
    let mut submitted = 0;
    while pipeline.queue.has_room() {
        let write = Write {
            index: index.clone(),
            document: Document {
                id: format!("id{submitted}").into(),
                version: "1".parse().unwrap(),
                body: Some(mebibyte.clone()),
                is_partial: false,
            },
        };
        pipeline.queue.submit(write, None, progress.ticket());
        submitted += 1;
    }
    assert_eq!(submitted, PipelineLimits::default().pending_bytes >> 20);
    let waiting =
        tokio::time::timeout(Duration::from_mins(1), pipeline.queue.wait_for_room()).await;
    assert!(waiting.is_err());
}
