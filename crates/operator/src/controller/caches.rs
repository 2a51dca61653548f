//! `ClusterCache`s: read from whichever of their groups the control plane serves, planned like registries without a store, and told in their
//! status how that goes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_api::cluster_cache::{self, Cache, ClusterCacheStatus, GROUPS};
use fleetdex_core::model::causes;
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

use crate::{FIELD_MANAGER, RegistryView, cache};

/// How long the control plane may take for one status.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The objects of one group.
pub(super) struct Group {
    pub(super) name: &'static str,
    resource: ApiResource,
    objects: Store<Cache>,
}

/// The objects of all groups.
pub(super) struct Caches(Vec<Group>);

/// Names a cache: its group and its name.
pub(super) type CacheName = (&'static str, String);

impl Caches {
    /// Keeps copies of all of them.
    pub(super) fn watch(hub: &Client, changed: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        Self(
            GROUPS
                .into_iter()
                .map(|name| Group::watch(name, hub, changed, tasks))
                .collect(),
        )
    }

    /// Those that are not being deleted.
    pub(super) fn live(&self) -> impl Iterator<Item = (&Group, Arc<Cache>)> {
        let objects = self.0.iter().flat_map(|group| {
            group
                .objects
                .state()
                .into_iter()
                .map(move |cache| (group, cache))
        });
        objects.filter(|(_, cache)| cache.metadata.deletion_timestamp.is_none())
    }

    /// The generation of each.
    pub(super) fn generations(&self) -> BTreeMap<CacheName, Option<i64>> {
        self.live()
            .map(|(group, cache)| ((group.name, cache.name_any()), cache.metadata.generation))
            .collect()
    }

    /// What is to be planned for them.
    pub(super) fn views(&self) -> Vec<RegistryView> {
        self.live()
            .flat_map(|(group, cache)| cache::views(group.name, &cache))
            .collect()
    }
}

impl Group {
    fn watch(
        name: &'static str,
        hub: &Client,
        changed: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let resource = cluster_cache::api_resource(name);
        let writer = reflector::store::Writer::new(resource.clone());
        let objects = writer.as_reader();
        let api = Api::<Cache>::all_with(hub.clone(), &resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let events = reflector::reflector(
            writer,
            events.flat_map(|event| stream::iter(none_where_absent(event))),
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
    pub(super) async fn write(&self, hub: &Client, name: &str, status: &ClusterCacheStatus) {
        let ApiResource {
            api_version, kind, ..
        } = &self.resource;
        let patch = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "status": status });
        let api = Api::<Cache>::all_with(hub.clone(), &self.resource);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let write = async {
            api.patch_status(name, &parameters, &Patch::Apply(&patch))
                .await
        };
        match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(answer))) if answer.is_not_found() => {}
            Ok(Err(error)) => {
                tracing::warn!(cache = name, group = self.name, error = %causes(&error), "cannot write the status of a ClusterCache");
            }
            Err(_) => tracing::warn!(
                cache = name,
                group = self.name,
                "the status of a ClusterCache was not written in time"
            ),
        }
    }
}

/// Where the control plane does not serve the group there are no objects: the CRD was removed, or never installed.
fn none_where_absent(
    event: watcher::Result<watcher::Event<Cache>>,
) -> Vec<watcher::Result<watcher::Event<Cache>>> {
    use watcher::{Error, Event};
    match event {
        Err(
            Error::InitialListFailed(kube::Error::Api(answer))
            | Error::WatchStartFailed(kube::Error::Api(answer)),
        ) if answer.is_not_found() => {
            vec![Ok(Event::Init), Ok(Event::InitDone)]
        }
        event => vec![event],
    }
}
