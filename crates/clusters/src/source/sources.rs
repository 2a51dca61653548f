//! Runs the selected sources of clusters.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_telemetry::{Metrics, Readiness};
use kube::Client;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    aggregator::{MemberAggregator, MemberSnapshot, SourceWriter},
    args::{SourceArgs, SourceKind},
    cluster_api, karmada, kubeconfig_file, secrets,
};

/// Longest wait at the start for the first list of every source, so that clusters that are about to
/// be listed are not reported as missing.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two checks of whether the sources have reported.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The sources of clusters.
pub struct Sources {
    aggregator: Arc<MemberAggregator>,
    control_plane: Client,
    args: SourceArgs,
    started: Instant,
}

impl Sources {
    /// Nothing is read before [`Self::start`]. `changed` is notified of every change.
    pub fn new(
        control_plane: Client,
        args: SourceArgs,
        metrics: Arc<Metrics>,
        readiness: Readiness,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            aggregator: MemberAggregator::new(metrics, readiness, changed),
            control_plane,
            args,
            started: Instant::now(),
        }
    }

    /// Starts every source in a task of its own, so that a source that fails delays no other.
    pub fn start(&self, tasks: &mut JoinSet<()>) {
        let chosen: BTreeSet<SourceKind> = self.args.cluster_source.iter().copied().collect();
        for kind in chosen {
            match kind {
                SourceKind::Karmada => {
                    let writer = self
                        .aggregator
                        .add_source("Cluster objects of Karmada".to_owned());
                    spawn(tasks, karmada::run(self.control_plane.clone(), writer));
                }
                SourceKind::ClusterApi => self.start_cluster_api(tasks),
                SourceKind::Secrets => self.start_secrets(tasks),
                SourceKind::Kubeconfig => self.start_file(tasks),
            }
        }
    }

    /// Waits until every source has been listed or has failed, at most 10 seconds from the start.
    pub async fn wait_for_initial_sync(&self) {
        while !self.aggregator.has_every_source_reported()
            && self.started.elapsed() < INITIAL_SYNC_TIMEOUT
        {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The members that are known now.
    pub fn snapshot(&self) -> MemberSnapshot {
        self.aggregator.snapshot()
    }

    /// A number that grows with every change.
    pub fn version(&self) -> u64 {
        self.aggregator.version()
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
            let scope = cluster_api::ClusterApiScope {
                namespace,
                watch_filter: self.args.cluster_api_watch_filter.clone(),
            };
            spawn(
                tasks,
                cluster_api::run(
                    self.control_plane.clone(),
                    scope,
                    self.aggregator.add_source(label),
                ),
            );
        }
    }

    fn start_secrets(&self, tasks: &mut JoinSet<()>) {
        let mut namespaces: BTreeSet<String> =
            self.args.cluster_namespace.iter().cloned().collect();
        if namespaces.is_empty() {
            namespaces.insert(self.control_plane.default_namespace().to_owned());
        }
        for namespace in namespaces {
            let writer: SourceWriter = self
                .aggregator
                .add_source(format!("Secrets in namespace {namespace}"));
            spawn(
                tasks,
                secrets::run(self.control_plane.clone(), namespace, writer),
            );
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
            kubeconfig_file::run(
                path,
                self.args.cluster_context.clone(),
                self.aggregator.add_source(label),
            ),
        );
    }
}

/// Spawns a source, which never ends by itself.
fn spawn(
    tasks: &mut JoinSet<()>,
    source: impl Future<Output = std::convert::Infallible> + Send + 'static,
) {
    tasks.spawn(async move {
        let _never = source.await;
    });
}

#[cfg(test)]
mod tests;
