//! A pool of OpenSearch servers that fleets of this process reuse, because a start takes half a
//! minute of processor time.
//!
//! One fleet at a time uses a server, gets it empty, and may stop, block and fill it.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;

use super::{
    dir::{FleetDir, scratch_folder},
    opensearch::{OpenSearchKind, OpenSearchServer, SHORT_LIVED_JAVA},
    process::Guard,
};

static IDLE: Mutex<Vec<Arc<Server>>> = Mutex::new(Vec::new());

/// A server with a guard, a scratch folder and a folder for its log. It stops when it is dropped.
#[derive(Debug)]
struct Server {
    kind: OpenSearchKind,
    opensearch: OpenSearchServer,
    _guard: Guard,
    _dir: FleetDir,
}

/// A server for one fleet. Dropping it returns the server to the pool, unless the test failed.
#[derive(Debug)]
pub(super) struct PooledOpenSearch {
    server: Arc<Server>,
    is_used: bool,
}

impl PooledOpenSearch {
    /// Takes an idle server of this kind, or starts one without waiting for it and stops all but
    /// one of the idle servers of another kind.
    pub(super) fn begin(kind: OpenSearchKind) -> Result<Self> {
        if let Some(server) = take(kind) {
            return Ok(Self {
                server,
                is_used: true,
            });
        }
        stop_all_but_one();
        let server = Server::spawn(kind)?;
        Ok(Self {
            server,
            is_used: false,
        })
    }

    /// Waits until the server answers and is empty. Replaces one that cannot be emptied.
    pub(super) async fn wait_ready(&mut self) -> Result<()> {
        if self.is_used {
            let Err(error) = empty(self).await else {
                return Ok(());
            };
            eprintln!("OpenSearch cannot be reused; another one is started: {error:#}");
            self.server = Server::spawn(self.server.kind)?;
            self.is_used = false;
        }
        self.server.opensearch.wait_ready().await
    }
}

impl Deref for PooledOpenSearch {
    type Target = OpenSearchServer;

    fn deref(&self) -> &OpenSearchServer {
        &self.server.opensearch
    }
}

impl Drop for PooledOpenSearch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            idle().push(Arc::clone(&self.server));
        }
    }
}

impl Server {
    fn spawn(kind: OpenSearchKind) -> Result<Arc<Self>> {
        let dir = FleetDir::claim_of("opensearch")?;
        let scratch = scratch_folder()?;
        let guard = Guard::start(std::slice::from_ref(&scratch))?;
        let opensearch =
            OpenSearchServer::spawn(kind, SHORT_LIVED_JAVA, &dir.path, &scratch, guard.group())?;
        Ok(Arc::new(Self {
            kind,
            opensearch,
            _guard: guard,
            _dir: dir,
        }))
    }
}

/// Undoes what a fleet may have left: a stopped or paused server, settings, indices, templates,
/// points in time, repositories of snapshots.
async fn empty(server: &OpenSearchServer) -> Result<()> {
    if !server.process().resume_if_running()? {
        server.restart().await?;
    }
    let client = server.client()?;
    let defaults = json!({ "persistent": { "*": null }, "transient": { "*": null } });
    client.put("_cluster/settings", &defaults).await?;
    // All indices except that of the security plugin.
    for path in [
        "_search/point_in_time/_all",
        "_snapshot/*",
        "*,-.*?expand_wildcards=all",
        "_index_template/*",
    ] {
        let answer = client.send(Method::DELETE, path, None).await?;
        let is_gone = (200..300).contains(&answer.status) || answer.status == 404;
        ensure!(is_gone, "DELETE {path}: {answer:?}");
    }
    let left = client.get("_cluster/state/metadata?filter_path=metadata.indices.*.state,metadata.index_template.index_template.*.index_patterns").await?;
    let indices = left["metadata"]["indices"].as_object();
    let is_empty = indices.is_none_or(|all| all.keys().all(|name| name.starts_with('.')))
        && left["metadata"]["index_template"].is_null();
    ensure!(is_empty, "this is left: {left}");
    Ok(())
}

fn take(kind: OpenSearchKind) -> Option<Arc<Server>> {
    let mut idle = idle();
    let found = idle.iter().position(|server| server.kind == kind)?;
    Some(idle.swap_remove(found))
}

/// One stays, so that alternating tests of two kinds do not start a server each time.
fn stop_all_but_one() {
    let mut idle = idle();
    let stays = idle.len().min(1);
    let surplus = idle.split_off(stays);
    drop(idle);
    drop(surplus);
}

fn idle() -> MutexGuard<'static, Vec<Arc<Server>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
