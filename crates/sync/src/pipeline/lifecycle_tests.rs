//! Opens stores and index revisions, on a paused clock.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use fleetdex_core::model::ClusterName;
use fleetdex_store::{
    IndexWriter,
    fake::{PreparedReader, PreparedWriter},
    memory::Memory,
};
use fleetdex_telemetry::Metrics;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::*;

/// Opens the embedded store after some failures.
#[derive(Default)]
struct OpenAfterFailures {
    memory: Memory,
    failures: u32,
    attempts: AtomicU32,
    credentials_changed: AtomicBool,
}

#[async_trait]
impl OpenStore for OpenAfterFailures {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        if self.attempts.fetch_add(1, Ordering::Relaxed) < self.failures {
            return Err(Unavailable {
                reason: "Unreachable",
                message: "connection refused".to_owned(),
            });
        }
        self.credentials_changed.store(false, Ordering::Relaxed);
        Ok(Arc::new(self.memory.clone()).into())
    }

    async fn changed(&self) -> bool {
        self.credentials_changed.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl OpenStore for Arc<PreparedWriter> {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        Ok(OpenedStore {
            writer: Arc::clone(self) as Arc<dyn IndexWriter>,
            reader: Arc::new(PreparedReader::default()),
        })
    }

    async fn changed(&self) -> bool {
        false
    }
}

fn idle_pipeline() -> Pipeline {
    let name: StoreName = "main".parse().unwrap();
    Pipeline::new(
        name.clone(),
        PipelineLimits::default(),
        WriteFence::OPEN,
        Metrics::new().store(&name),
        Arc::default(),
    )
}

struct RunningPipeline {
    pipeline: Pipeline,
    opener: Arc<OpenAfterFailures>,
    cancel: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl RunningPipeline {
    fn new(failures: u32) -> Self {
        let pipeline = idle_pipeline();
        let opener = Arc::new(OpenAfterFailures {
            failures,
            ..OpenAfterFailures::default()
        });
        let cancel = CancellationToken::new();
        let run = pipeline.clone().run(
            Arc::clone(&opener) as Arc<dyn OpenStore>,
            cancel.clone(),
            Duration::from_secs(1),
        );
        Self {
            task: AbortOnDropHandle::new(tokio::spawn(run)),
            pipeline,
            opener,
            cancel,
        }
    }

    fn attempts(&self) -> u32 {
        self.opener.attempts.load(Ordering::Relaxed)
    }
}

fn member() -> ClusterName {
    "member1".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn opening_a_store_is_retried_until_it_succeeds() {
    let running = RunningPipeline::new(4);
    assert!(running.pipeline.store.availability().is_none());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(matches!(
        running.pipeline.store.availability(),
        Some(Err(Unavailable {
            reason: "Unreachable",
            ..
        }))
    ));
    assert!(running.pipeline.store.writer().is_none());
    running.pipeline.store.opened().await;
    assert_eq!(running.attempts(), 5);
    assert_eq!(running.pipeline.store.availability(), Some(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_pipeline_stops_opening_its_store() {
    let running = RunningPipeline::new(u32::MAX);
    tokio::time::sleep(Duration::from_mins(1)).await;
    running.cancel.cancel();
    running.task.await.unwrap();
    assert!(running.pipeline.store.writer().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_store_is_opened_again_when_its_credentials_change() {
    let running = RunningPipeline::new(0);
    running.pipeline.store.opened().await;
    running
        .opener
        .credentials_changed
        .store(true, Ordering::Relaxed);
    let begin = Instant::now();
    while running.attempts() == 1 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(begin.elapsed() < Duration::from_mins(1));
    }
    assert_eq!(running.pipeline.store.availability(), Some(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn units_of_a_cluster_share_one_index_revision() {
    let running = RunningPipeline::new(0);
    let pipeline = &running.pipeline;
    let cluster = member();
    let (first, second) = tokio::join!(
        pipeline.revisions.open(&cluster, Some("a")),
        pipeline.revisions.open(&cluster, Some("a")),
    );
    assert_eq!(first.unwrap().id, second.unwrap().id);
    assert_eq!(pipeline.revisions.clusters(), [member()]);
    assert!(pipeline.checkpoints.tracker.is_open(&member()));
    pipeline.revisions.forget(&member());
    assert!(
        pipeline.revisions.clusters().is_empty()
            && !pipeline.checkpoints.tracker.is_open(&member())
    );
}

#[tokio::test(start_paused = true)]
async fn a_replaced_index_revision_is_followed_by_one_with_a_higher_number() {
    let running = RunningPipeline::new(0);
    let pipeline = &running.pipeline;
    let first = pipeline.revisions.open(&member(), None).await.unwrap();
    assert!(pipeline.revisions.replacement_delay(&member()).is_zero());
    pipeline.revisions.replace(&first, "its etcd was restored");
    assert!(pipeline.revisions.have_lost_clusters());
    assert_eq!(pipeline.revisions.take_lost_clusters(), [member()].into());
    assert!(
        !pipeline.revisions.have_lost_clusters()
            && pipeline.revisions.of_cluster(&member()).is_none()
    );
    assert!(!pipeline.revisions.replacement_delay(&member()).is_zero());
    // The revision is not in use any more.
    pipeline.revisions.replace(&first, "its etcd was restored");
    pipeline.revisions.report_lost(&first.target, "it is gone");
    assert!(!pipeline.revisions.have_lost_clusters());
    let second = pipeline.revisions.open(&member(), None).await.unwrap();
    assert!(second.number > first.number && second.id != first.id);
}

#[tokio::test(start_paused = true)]
async fn a_lost_index_restarts_the_units_of_its_cluster_only() {
    let running = RunningPipeline::new(0);
    let pipeline = &running.pipeline;
    let lost = pipeline.revisions.open(&member(), None).await.unwrap();
    let other: ClusterName = "member2".parse().unwrap();
    pipeline.revisions.open(&other, None).await.unwrap();
    pipeline.revisions.report_lost(&lost.target, "it is gone");
    assert_eq!(pipeline.revisions.take_lost_clusters(), [member()].into());
    assert_eq!(pipeline.revisions.clusters(), [other]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_waits_only_when_its_uid_changes_repeatedly() {
    let running = RunningPipeline::new(0);
    let pipeline = &running.pipeline;
    for uid in ["a", "b"] {
        assert!(pipeline.revisions.identity_delay(&member(), uid).is_zero());
        pipeline.revisions.open(&member(), Some(uid)).await.unwrap();
    }
    assert!(pipeline.revisions.identity_delay(&member(), "b").is_zero());
    assert!(!pipeline.revisions.identity_delay(&member(), "c").is_zero());
}

#[tokio::test(start_paused = true)]
async fn an_index_revision_whose_stream_has_ended_is_opened_before_garbage_is_collected() {
    let pipeline = idle_pipeline();
    let opens_after = Arc::new(Notify::new());
    let store = Arc::new(PreparedWriter::opening_after(Arc::clone(&opens_after)));
    let run = pipeline.clone().run(
        Arc::new(store),
        CancellationToken::new(),
        Duration::from_secs(1),
    );
    let _task = AbortOnDropHandle::new(tokio::spawn(run));
    let (cluster, second) = (member(), Duration::from_secs(1));
    let opening = pipeline.revisions.open(&cluster, None);
    assert!(tokio::time::timeout(second, opening).await.is_err());
    pipeline.revisions.forget(&cluster);
    let ended = pipeline.revisions.openings_ended();
    tokio::pin!(ended);
    let is_pending = tokio::time::timeout(second, ended.as_mut()).await.is_err();
    assert!(is_pending);
    opens_after.notify_one();
    ended.await;
    // It is not opened for anything that comes later.
    assert!(
        pipeline.revisions.clusters().is_empty() && !pipeline.checkpoints.tracker.is_open(&cluster)
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_cluster_that_is_synced_moves_to_another_index() {
    let running = RunningPipeline::new(0);
    let pipeline = &running.pipeline;
    let revision = pipeline.revisions.open(&member(), None).await.unwrap();
    assert!(pipeline.revisions.movable().is_empty());
    pipeline.revisions.set_synced([member()].into());
    assert_eq!(pipeline.revisions.movable(), [revision]);
}
