//! Counts the writes of the registry by a watch of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use fleetdex_crds::registry::ResourceRegistry;
use futures::{StreamExt, TryStreamExt};
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
};
use tokio_util::task::AbortOnDropHandle;

use crate::fleet::Fleet;

/// How long the watch may last: the longest that kube's client asks for.
const WATCH_SECONDS: u32 = 290;

/// The writes of all registries until now.
#[derive(Clone, Copy, Debug)]
pub struct CountedWrites {
    pub writes: u64,
    /// Of the objects as they were after each.
    pub bytes: u64,
}

/// Follows the registries.
#[derive(Debug)]
pub struct StatusWrites {
    writes: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl StatusWrites {
    pub async fn follow(fleet: &Fleet) -> Result<Self> {
        let api: Api<ResourceRegistry> = Api::all(fleet.control_plane().client().await?);
        let list = api
            .list(&kube::api::ListParams::default())
            .await
            .context("listing registries")?;
        let mut version = list.metadata.resource_version.unwrap_or_default();
        let (writes, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (written, length) = (Arc::clone(&writes), Arc::clone(&bytes));
        let task = async move {
            loop {
                let parameters = WatchParams::default().timeout(WATCH_SECONDS);
                let Ok(events) = api.watch(&parameters, &version).await else {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                };
                let mut events = events.boxed();
                while let Ok(Some(event)) = events.try_next().await {
                    let (WatchEvent::Modified(registry) | WatchEvent::Added(registry)) = event
                    else {
                        continue;
                    };
                    version = registry
                        .metadata
                        .resource_version
                        .clone()
                        .unwrap_or_default();
                    written.fetch_add(1, Ordering::Relaxed);
                    let json = serde_json::to_vec(&registry).map_or(0, |json| json.len());
                    length.fetch_add(json as u64, Ordering::Relaxed);
                }
            }
        };
        Ok(Self {
            writes,
            bytes,
            _task: AbortOnDropHandle::new(tokio::spawn(task)),
        })
    }

    pub fn count(&self) -> CountedWrites {
        CountedWrites {
            writes: self.writes.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
