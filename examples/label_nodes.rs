//! An operator on many clusters, in a hundred lines: every node of every member gets the label
//! `example.com/fleet` with the name that its cluster has in the fleet, and gets it back when
//! it is removed.
//!
//! ```sh
//! cargo run --example label_nodes -- --kubeconfig members.kubeconfig
//! ```
//!
//! The members are the contexts of a kubeconfig. Clusters that are down, and those whose
//! credentials are renewed, need no code here: [`ClusterCache`] tells when one is connected, and
//! its watches come back by themselves.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use fleetdex_clustercache::{
    CacheOptions, ClusterCache, ClusterReadError, ClusterWatch, ObjectChange, ReconcileRequest,
    WorkQueue,
};
use fleetdex_clusters::{
    Clusters, ConnectionTiming,
    connect::Network,
    events::ClusterEvent,
    source::{Loader, contexts, read_kubeconfig},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const LABEL: &str = "example.com/fleet";
/// How long a request that failed waits before it is tried again.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Arguments {
    /// The kubeconfig whose contexts are the members; without it those that kubectl reads.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("info").init();
    let arguments = Arguments::parse();
    let shutdown = CancellationToken::new();
    let loader = Loader::without_control_plane();
    let clusters = Arc::new(Clusters::new(
        loader,
        Arc::new(Network::default()),
        ConnectionTiming::default(),
        shutdown.clone(),
    ));
    let cache = ClusterCache::new(clusters.clone(), CacheOptions::new());
    // Before there are members, so that no connect is missed.
    let mut events = cache.events(&[Duration::from_mins(5)]);
    let path = arguments.kubeconfig.as_deref();
    let kubeconfig = read_kubeconfig(path).await?;
    clusters.set_members(contexts(&kubeconfig, path, &[]).members);

    let queue = WorkQueue::new();
    loop {
        tokio::select! {
            Some(event) = events.next() => observe(&cache, &queue, &event)?,
            request = queue.next() => reconcile(&cache, &queue, request).await,
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    shutdown.cancel();
    clusters.stopped().await;
    Ok(())
}

/// Watches the nodes of a cluster that is connected. The watch is registered once, however often
/// this happens.
fn observe(cache: &ClusterCache, queue: &WorkQueue, event: &ClusterEvent) -> anyhow::Result<()> {
    let cluster = &event.cluster;
    tracing::info!(%cluster, reasons = ?event.reasons, "event");
    if event.reasons.probe_failure {
        tracing::warn!(%cluster, last_answer = ?cache.last_probe_success(cluster), "it does not answer");
    }
    let nodes = ClusterWatch::new("nodes").kind_with_predicate::<Node>(labels_changed);
    if event.reasons.connected {
        match cache.watch(cluster, &nodes, queue) {
            // It was disconnected again meanwhile: there will be another event.
            Ok(()) | Err(fleetdex_clustercache::ClusterWatchError::NotConnected(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Kubelets write the status of their nodes all the time, which is of no interest here.
fn labels_changed(change: &ObjectChange<Node>) -> bool {
    match change {
        ObjectChange::Modified { old, new } => old.labels() != new.labels(),
        ObjectChange::Added(_) | ObjectChange::Resync(_) => true,
        ObjectChange::Deleted(_) => false,
    }
}

async fn reconcile(cache: &ClusterCache, queue: &WorkQueue, request: ReconcileRequest) {
    if let Err(error) = label(cache, &request).await {
        tracing::warn!(?request, error = %fleetdex_core::model::causes(&*error), "a node was not labelled; it is tried again");
        let queue = queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETRY).await;
            queue.add(request);
        });
    }
}

async fn label(
    cache: &ClusterCache,
    request: &ReconcileRequest,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // Once it is connected again, the watch brings everything back.
    let Ok(client) = cache.client(&request.cluster) else {
        return Ok(());
    };
    let node = match client.get::<Node>(None, &request.name).await {
        Ok(Some(node)) => node,
        Ok(None) | Err(ClusterReadError::NotConnected(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let wanted = label_value(request.cluster.as_str());
    if node.labels().get(LABEL) == Some(&wanted) {
        return Ok(());
    }
    let patch = json!({ "metadata": { "labels": { LABEL: wanted } } });
    client
        .all::<Node>()
        .patch(
            &request.name,
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await?;
    tracing::info!(cluster = %request.cluster, node = request.name, "labelled");
    Ok(())
}

/// Names of contexts may hold what labels may not.
fn label_value(cluster: &str) -> String {
    let fits = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    let value: String = cluster.chars().take(63).map(fits).collect();
    value.trim_matches('-').to_owned()
}
