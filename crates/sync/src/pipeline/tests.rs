//! The writer against a store that fails in every way, on a paused clock.

use std::time::Duration;

use fleetdex_core::{
    model::{ClusterName, IndexPrefix, JsonLine, Version},
    query::{
        Cursor, GroupKey, Groups, Page, Query, Relative, Relatives, ResourceName, merge::PlacedPage,
    },
};
use fleetdex_store::{Extent, Generation, Visit, bulk::Verdict, changes::Log};
use fleetdex_telemetry::Metrics;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::progress::Progress;

type Documents = BTreeMap<Arc<str>, (Version, Option<JsonLine>)>;

/// A store that keeps documents with external versions, and fails as it is told.
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
            .get(&write.id)
            .is_some_and(|(version, _)| *version > write.version)
        {
            return Verdict::Superseded;
        }
        documents.insert(Arc::clone(&write.id), (write.version, write.body.clone()));
        if write.body.is_some() {
            Verdict::Indexed
        } else {
            Verdict::Deleted
        }
    }
}

#[async_trait]
impl Store for Flaky {
    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn lost(&self, _: &[Generation]) -> Result<BTreeSet<ClusterName>, StoreError> {
        Ok(BTreeSet::new())
    }

    async fn open(
        &self,
        cluster: &ClusterName,
        _: Option<&str>,
        _: u64,
    ) -> Result<Generation, StoreError> {
        Ok(Generation::first(&IndexPrefix::default(), cluster))
    }

    async fn activate(&self, _: &Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn show(&self, _: &Generation, _: &BTreeSet<ResourceName>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn generations(&self) -> Result<Vec<Generation>, StoreError> {
        Ok(Vec::new())
    }

    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        *self.requests.lock() += 1;
        for write in writes {
            assert!(
                self.in_flight.lock().insert(Arc::clone(&write.id)),
                "{} is in flight twice",
                write.id
            );
        }
        tokio::time::sleep(Duration::from_millis(u64::from(self.roll(50)))).await;
        for write in writes {
            self.in_flight.lock().remove(&write.id);
        }
        let too_large = writes.len() > 1
            && writes.iter().any(|write| {
                write
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
            let refused = write.body.as_ref().is_some_and(|body| {
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

    async fn visit_versions(
        &self,
        _: &Generation,
        _: &Extent,
        _: Visit<'_>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn rejected(&self, _: &Generation, _: &Extent) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(Vec::new())
    }

    async fn checkpoints(&self, _: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        Ok(None)
    }

    async fn save_checkpoints(&self, _: &[Checkpoints]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_generation(&self, _: &Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn retire(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_cluster(&self, _: &ClusterName) -> Result<(), StoreError> {
        Ok(())
    }

    async fn search(&self, _: &Query, _: Option<&Cursor>) -> Result<Page, StoreError> {
        Ok(Page::default())
    }

    async fn relatives(&self, _: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        Ok(BTreeSet::new())
    }

    async fn first_page(&self, _: &Query) -> Result<(Page, u64), StoreError> {
        Ok((Page::default(), 1))
    }

    async fn placed_page(&self, _: &Query, _: Option<&Cursor>) -> Result<PlacedPage, StoreError> {
        Ok(PlacedPage::default())
    }

    async fn open_view(&self, _: &Query) -> Result<String, StoreError> {
        Ok("view".to_owned())
    }

    async fn moment(&self, _: &ResourceName) -> Result<u64, StoreError> {
        Ok(1)
    }

    async fn changes(&self) -> Result<Arc<Log>, StoreError> {
        Ok(Log::of_a_test())
    }

    async fn aggregate(&self, _: &Query, _: &[GroupKey], _: usize) -> Result<Groups, StoreError> {
        Ok(Groups::default())
    }
}

struct Open(Arc<Flaky>);

#[async_trait]
impl OpenStore for Open {
    async fn open(&self) -> Result<Arc<dyn Store>, Unavailable> {
        Ok(Arc::clone(&self.0) as Arc<dyn Store>)
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
        Limits::default(),
        Fence::OPEN,
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
            id: id.into(),
            version: version.to_string().parse().unwrap(),
            body: body.map(JsonLine::new),
        };
        self.pipeline.room().await;
        self.pipeline.submit(write, None, self.progress.ticket());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_up_as_one_that_does_not() {
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
async fn a_document_that_is_refused_gets_a_fallback_and_its_mates_are_stored() {
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
async fn a_request_that_is_too_large_is_split_until_the_one_document_is_found() {
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
async fn a_document_of_which_the_store_says_too_much_holds_up_no_other() {
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
async fn what_cannot_be_made_smaller_is_kept_until_the_limit_is_lifted() {
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
        running.pipeline.availability(),
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
async fn what_is_submitted_before_the_stop_is_written_before_the_end() {
    let store = Flaky::new(3, 10);
    let running = run(&store);
    for id in 0..500 {
        running
            .submit(&format!("id{id}"), 1, Some("{}".to_owned()))
            .await;
    }
    running.pipeline.opened().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    running.cancel.cancel();
    running.task.await.unwrap();
    assert_eq!(store.documents.lock().len(), 500);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_before_the_end_is_given_up_so_that_nobody_waits_for_it() {
    let store = Flaky::new(1, 0);
    let running = run(&store);
    *store.takes_nothing_until.lock() = Some(Instant::now() + Duration::from_hours(1));
    running.submit("a", 1, Some("{}".to_owned())).await;
    running.submit("b", 1, None).await;
    running.pipeline.opened().await;
    running.cancel.cancel();
    running.task.await.unwrap();
    // The pipeline is still held here.
    assert_eq!(running.progress.outstanding(), 0);
    assert!(running.progress.is_broken() && running.pipeline.is_idle());
}

#[tokio::test(start_paused = true)]
async fn there_is_no_room_while_too_much_is_pending() {
    // Not opened: nothing is taken out.
    let name: StoreName = "test".parse().unwrap();
    let changed = Arc::new(Notify::new());
    let pipeline = Pipeline::new(
        name.clone(),
        Limits::default(),
        Fence::OPEN,
        Metrics::new().store(&name),
        Arc::clone(&changed),
    );
    let progress = Progress::new("member1".parse().unwrap(), changed);
    let index = IndexPrefix::default().cluster_alias(progress.cluster());
    let mebibyte = JsonLine::new(vec![b' '; 1 << 20]);
    let mut submitted = 0;
    while pipeline.has_room() {
        let write = Write {
            index: index.clone(),
            id: format!("id{submitted}").into(),
            version: "1".parse().unwrap(),
            body: Some(mebibyte.clone()),
        };
        pipeline.submit(write, None, progress.ticket());
        submitted += 1;
    }
    assert_eq!(submitted, Limits::default().pending_bytes >> 20);
    let waiting = tokio::time::timeout(Duration::from_mins(1), pipeline.room()).await;
    assert!(waiting.is_err());
}
