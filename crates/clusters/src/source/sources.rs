//! The chosen sources, running.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_telemetry::{Metrics, Readiness};
use kube::Client;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    args::{SourceArgs, SourceKind},
    board::{Board, Feed, Snapshot},
    cluster_api, file, karmada, secrets,
};

/// How long the first answers of the sources are waited for at the start, so that what is read in a moment is not told to be missing.
const PATIENCE: Duration = Duration::from_secs(10);
/// From one look at whether they have answered to the next.
const LOOK: Duration = Duration::from_millis(20);

/// The sources of clusters.
pub struct Sources {
    board: Arc<Board>,
    hub: Client,
    args: SourceArgs,
    begun: Instant,
}

impl Sources {
    /// Nothing is read before [`Self::start`]. `changed` is notified of every change.
    pub fn new(
        hub: Client,
        args: SourceArgs,
        metrics: Arc<Metrics>,
        readiness: Readiness,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            board: Board::new(metrics, readiness, changed),
            hub,
            args,
            begun: Instant::now(),
        }
    }

    /// Starts to follow them, each in a task of its own, so that one that cannot be read delays no other.
    pub fn start(&self, tasks: &mut JoinSet<()>) {
        let chosen: BTreeSet<SourceKind> = self.args.cluster_source.iter().copied().collect();
        for kind in chosen {
            match kind {
                SourceKind::Karmada => {
                    let feed = self.board.feed("Cluster objects of Karmada".to_owned());
                    spawn(tasks, karmada::run(self.hub.clone(), feed));
                }
                SourceKind::ClusterApi => self.start_cluster_api(tasks),
                SourceKind::Secrets => self.start_secrets(tasks),
                SourceKind::Kubeconfig => self.start_file(tasks),
            }
        }
    }

    /// Waits until every source has been read or has failed, but only for some seconds from the start.
    pub async fn settled(&self) {
        while !self.board.is_settled() && self.begun.elapsed() < PATIENCE {
            sleep(LOOK).await;
        }
    }

    /// What is known of the members now.
    pub fn snapshot(&self) -> Snapshot {
        self.board.snapshot()
    }

    /// A number that grows with every change.
    pub fn version(&self) -> u64 {
        self.board.version()
    }

    /// Whether a cluster that is registered several times is indexed under each of its names.
    pub fn allow_same_cluster(&self) -> bool {
        self.args.allow_same_cluster
    }

    fn start_cluster_api(&self, tasks: &mut JoinSet<()>) {
        let namespaces: BTreeSet<String> = self.args.cluster_namespace.iter().cloned().collect();
        let everywhere = namespaces.is_empty().then_some(None);
        for namespace in namespaces.into_iter().map(Some).chain(everywhere) {
            let label = match &namespace {
                Some(namespace) => format!("Cluster API in namespace {namespace}"),
                None => "Cluster API".to_owned(),
            };
            let extent = cluster_api::Extent {
                namespace,
                watch_filter: self.args.cluster_api_watch_filter.clone(),
            };
            spawn(
                tasks,
                cluster_api::run(self.hub.clone(), extent, self.board.feed(label)),
            );
        }
    }

    fn start_secrets(&self, tasks: &mut JoinSet<()>) {
        let mut namespaces: BTreeSet<String> =
            self.args.cluster_namespace.iter().cloned().collect();
        if namespaces.is_empty() {
            namespaces.insert(self.hub.default_namespace().to_owned());
        }
        for namespace in namespaces {
            let feed: Feed = self.board.feed(format!("Secrets in namespace {namespace}"));
            spawn(tasks, secrets::run(self.hub.clone(), namespace, feed));
        }
    }

    fn start_file(&self, tasks: &mut JoinSet<()>) {
        let path = self.args.kubeconfig_clusters.clone();
        let label = match &path {
            Some(path) => format!("kubeconfig {}", path.display()),
            None => "your kubeconfig".to_owned(),
        };
        spawn(
            tasks,
            file::run(
                path,
                self.args.cluster_context.clone(),
                self.board.feed(label),
            ),
        );
    }
}

/// None of them ever ends by itself.
fn spawn(
    tasks: &mut JoinSet<()>,
    source: impl Future<Output = std::convert::Infallible> + Send + 'static,
) {
    tasks.spawn(async move {
        let _never = source.await;
    });
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
