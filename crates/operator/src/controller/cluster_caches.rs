//! `ClusterCache` objects: read from each of their API groups that the control plane serves, and
//! planned like registries without a store. Their statuses show the progress.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_crds::cluster_cache::{Cache, ClusterCacheStatus, GROUPS, api_resource};
use futures::{StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::ApiResource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};

use crate::{FIELD_MANAGER, RegistryView, cluster_cache};

/// How long the control plane may take to write one status.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The `ClusterCache` objects of one API group.
pub(super) struct CacheGroup {
    pub(super) name: &'static str,
    resource: ApiResource,
    objects: Store<Cache>,
}

/// The `ClusterCache` objects of all API groups.
pub(super) struct ClusterCaches(Vec<CacheGroup>);

/// The API group and the name of a cache.
pub(super) type ClusterCacheName = (&'static str, String);

impl ClusterCaches {
    /// Starts one reflector for each group.
    pub(super) fn watch(
        control_plane: &Client,
        changed: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        Self(
            GROUPS
                .into_iter()
                .map(|name| CacheGroup::watch(name, control_plane, changed, tasks))
                .collect(),
        )
    }

    /// The caches that are not being deleted.
    pub(super) fn live(&self) -> impl Iterator<Item = (&CacheGroup, Arc<Cache>)> {
        let objects = self.0.iter().flat_map(|group| {
            group
                .objects
                .state()
                .into_iter()
                .map(move |cache| (group, cache))
        });
        objects.filter(|(_, cache)| cache.metadata.deletion_timestamp.is_none())
    }

    /// The `metadata.generation` of each.
    pub(super) fn generations(&self) -> BTreeMap<ClusterCacheName, Option<i64>> {
        self.live()
            .map(|(group, cache)| ((group.name, cache.name_any()), cache.metadata.generation))
            .collect()
    }

    /// The registries that stand for them in a plan.
    pub(super) fn views(&self) -> Vec<RegistryView> {
        self.live()
            .flat_map(|(group, cache)| cluster_cache::views(group.name, &cache))
            .collect()
    }
}

impl CacheGroup {
    fn watch(
        name: &'static str,
        control_plane: &Client,
        changed: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let resource = api_resource(name);
        let writer = reflector::store::Writer::new(resource.clone());
        let objects = writer.as_reader();
        let api = Api::<Cache>::all_with(control_plane.clone(), &resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let events = reflector::reflector(
            writer,
            events.flat_map(|event| stream::iter(empty_if_not_served(event))),
        );
        let changed = Arc::clone(changed);
        tasks.spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(_) => changed.notify_one(),
                    Err(error) => tracing::warn!(group = name, error = %causes(&error), "cannot watch ClusterCache objects"),
                }
            }
        });
        Self {
            name,
            resource,
            objects,
        }
    }

    /// Writes the status of one of its objects.
    pub(super) async fn write(
        &self,
        control_plane: &Client,
        name: &str,
        status: &ClusterCacheStatus,
    ) {
        let ApiResource {
            api_version, kind, ..
        } = &self.resource;
        let patch = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "status": status });
        let api = Api::<Cache>::all_with(control_plane.clone(), &self.resource);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let write = async {
            api.patch_status(name, &parameters, &Patch::Apply(&patch))
                .await
        };
        match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {}
            Ok(Err(error)) => {
                tracing::warn!(cache = name, group = self.name, error = %causes(&error), "cannot write the status of a ClusterCache");
            }
            Err(_) => tracing::warn!(
                cache = name,
                group = self.name,
                "timed out writing the status of a ClusterCache"
            ),
        }
    }
}

/// A group that the control plane does not serve has no objects: its CRD was removed, or never
/// installed.
fn empty_if_not_served(
    event: watcher::Result<watcher::Event<Cache>>,
) -> Vec<watcher::Result<watcher::Event<Cache>>> {
    use watcher::{Error, Event};
    match event {
        Err(
            Error::InitialListFailed(kube::Error::Api(status))
            | Error::WatchStartFailed(kube::Error::Api(status)),
        ) if status.is_not_found() => {
            vec![Ok(Event::Init), Ok(Event::InitDone)]
        }
        event => vec![event],
    }
}
