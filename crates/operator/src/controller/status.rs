//! Writes the status of registries, their finalizers and their events.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use fleetdex_api::registry::{FINALIZER, OpenSearch, ResourceRegistry, ResourceRegistryStatus};
use fleetdex_clusters::Phase;
use fleetdex_core::model::{ClusterName, Unit, causes};
use fleetdex_sync::{pipeline::Pipeline, progress::Progress};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource as _, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::Action,
        events::{Event, EventType},
    },
};
use serde_json::json;

use super::{
    left_places::old_place,
    reconciler::{ReconcileError, Reconciler, STATUS_INTERVAL, State, registry_view},
};
use crate::{
    FIELD_MANAGER,
    members::Members,
    plan::{RegistryPlan, Stream, plan},
    replicas::{
        Share,
        report::{cluster_key, stream_key},
    },
    status::{Access, Inputs, MemberHealth, is_news, status},
};

pub(super) fn phases(
    status: &ResourceRegistryStatus,
) -> BTreeSet<(&str, fleetdex_api::registry::Phase, &str)> {
    status
        .clusters
        .iter()
        .map(|cluster| {
            (
                cluster.name.as_str(),
                cluster.phase,
                cluster.message.as_str(),
            )
        })
        .collect()
}

pub(super) fn access(config: &OpenSearch) -> Access {
    let named = |reference: &Option<fleetdex_api::registry::SecretReference>| {
        reference
            .as_ref()
            .is_some_and(|reference| !reference.name.is_empty() || !reference.namespace.is_empty())
    };
    let is_anonymous = !named(&config.secret_ref) && !named(&config.client_cert_secret_ref);
    if is_anonymous {
        Access::Anonymous
    } else {
        Access::Authenticated
    }
}

pub(super) fn member_health(members: &Members, cluster: &ClusterName) -> Option<MemberHealth> {
    let state = members.states.get(cluster)?;
    let ready =
        state.connection.is_some() && matches!(state.phase, Phase::Ready | Phase::Unhealthy);
    let note = members.notes.get(cluster).cloned();
    Some(MemberHealth {
        ready,
        reason: Cow::Borrowed(state.reason),
        message: state.message.clone(),
        note,
    })
}

/// The sources that a registry may find more clusters in: none if it names its clusters and all of them have been found.
pub(super) fn unread<'m>(
    members: &'m Members,
    registry: &ResourceRegistry,
    plan: &RegistryPlan,
) -> &'m [String] {
    let all_found =
        !registry.spec.target_cluster.cluster_names.is_empty() && plan.not_found.is_empty();
    if all_found { &[] } else { &members.unread }
}

impl Reconciler {
    pub(super) async fn set_finalizer(
        &self,
        registry: &ResourceRegistry,
        present: bool,
    ) -> Result<(), ReconcileError> {
        let name = registry.name_any();
        let others = registry
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned();
        let finalizers: Vec<String> = others
            .chain(present.then(|| FINALIZER.to_owned()))
            .collect();
        // The resource version keeps a finalizer that somebody else adds meanwhile.
        let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": registry.resource_version() } });
        let api = Api::<ResourceRegistry>::all(self.context.hub.clone());
        match api
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            // A newer version of it is on its way here.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            Err(source) => Err(ReconcileError::Write {
                name,
                source: Box::new(source),
            }),
        }
    }

    pub(super) async fn write_status(
        &self,
        state: &mut State,
        registry: &ResourceRegistry,
        members: &Members,
    ) -> Result<Action, ReconcileError> {
        let name = registry.name_any();
        let Some(applied) = state.fleet.plan() else {
            return Ok(Action::await_change());
        };
        let alone;
        let registry_plan = match applied.registries.get(&name) {
            Some(plan) => plan,
            None => {
                alone = plan(&[registry_view(registry)], &[]);
                match alone.registries.get(&name) {
                    Some(plan) => plan,
                    None => return Ok(Action::await_change()),
                }
            }
        };
        let before = registry.status.clone().unwrap_or_default();
        let fleet = &state.fleet;
        let store = registry_plan
            .store
            .as_ref()
            .and_then(|store| fleet.pipeline(store))
            .and_then(Pipeline::availability);
        let store_plan = registry_plan
            .store
            .as_ref()
            .and_then(|store| applied.stores.get(store));
        let access = store_plan
            .and_then(|plan| plan.config.as_ref())
            .map_or(Access::Embedded, access);
        let now = Timestamp::now();
        let share = registry_plan
            .store
            .as_ref()
            .map_or(Share::Whole, |store| fleet.share_of(store));
        let reports = Arc::clone(&self.reports.lock());
        let of_other =
            |cluster: &ClusterName| share.other_reader(cluster).map(|name| reports.get(name));
        let health = |cluster: &ClusterName| match of_other(cluster) {
            Some(report) => report.and_then(|report| report.health.get(cluster.as_str()).cloned()),
            None => member_health(members, cluster),
        };
        let live = |cluster: &ClusterName| {
            registry_plan
                .store
                .as_ref()
                .is_some_and(|store| match of_other(cluster) {
                    Some(report) => report
                        .is_some_and(|report| report.live.contains(&cluster_key(store, cluster))),
                    None => fleet.is_live(store, cluster),
                })
        };
        let progress = |unit: &Unit| {
            let stream = Stream {
                unit: unit.clone(),
                store: registry_plan.store.clone()?,
            };
            match of_other(&unit.cluster) {
                Some(report) => report?.units.get(&stream_key(&stream)).cloned(),
                None => fleet.progress(&stream).map(Progress::view),
            }
        };
        let sought = |unit: &Unit| {
            let stream = Stream {
                unit: unit.clone(),
                store: registry_plan.store.clone()?,
            };
            let unit_plan = applied.units.get(&stream)?;
            Some(unit_plan.sought_by(&name, &unit.resource.gvk))
        };
        let places = state
            .places
            .get(&registry.uid().unwrap_or_default())
            .cloned()
            .unwrap_or_default();
        let old = places
            .iter()
            .filter_map(|place| old_place(fleet, registry_plan, &name, place))
            .collect();
        let new = status(&Inputs {
            stores: places.clone(),
            old,
            plan: registry_plan,
            store,
            access,
            health: &health,
            unread: unread(members, registry, registry_plan),
            live: &live,
            progress: &progress,
            sought: &|unit| sought(unit).unwrap_or_default(),
            generation: registry.metadata.generation,
            before: &before.conditions,
            now,
        });
        self.write_if_new(state, registry, &before, new).await
    }

    /// Writes a status that says something new; one in which only counts have changed no more than once a second.
    async fn write_if_new(
        &self,
        state: &mut State,
        registry: &ResourceRegistry,
        before: &ResourceRegistryStatus,
        new: ResourceRegistryStatus,
    ) -> Result<Action, ReconcileError> {
        let name = registry.name_any();
        if !is_news(&new, before) {
            state.written.remove(&name);
            return Ok(Action::await_change());
        }
        let only_counts = new.conditions == before.conditions && phases(&new) == phases(before);
        if let Some((_, written_at)) = state.written.get(&name)
            && only_counts
            && written_at.elapsed() < STATUS_INTERVAL
        {
            return Ok(Action::requeue(STATUS_INTERVAL));
        }
        self.patch_status(registry, &new).await?;
        self.announce(registry, before, &new).await;
        state.written.insert(name, (new, std::time::Instant::now()));
        Ok(Action::await_change())
    }

    pub(super) async fn patch_status(
        &self,
        registry: &ResourceRegistry,
        status: &ResourceRegistryStatus,
    ) -> Result<(), ReconcileError> {
        let name = registry.name_any();
        let patch = json!({
            "apiVersion": ResourceRegistry::api_version(&()),
            "kind": ResourceRegistry::kind(&()),
            "metadata": { "name": name },
            "status": status,
        });
        let api = Api::<ResourceRegistry>::all(self.context.hub.clone());
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match api
            .patch_status(&name, &parameters, &Patch::Apply(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
            Err(source) => Err(ReconcileError::Write {
                name,
                source: Box::new(source),
            }),
        }
    }

    /// An event when a registry becomes ready or ceases to be.
    pub(super) async fn announce(
        &self,
        registry: &ResourceRegistry,
        before: &ResourceRegistryStatus,
        after: &ResourceRegistryStatus,
    ) {
        use fleetdex_api::condition::find;
        let Some(ready) = find(&after.conditions, "Ready") else {
            return;
        };
        let unchanged = find(&before.conditions, "Ready")
            .is_some_and(|old| old.status == ready.status && old.reason == ready.reason);
        if unchanged || ready.reason == "Syncing" || ready.reason == "Connecting" {
            return;
        }
        let event = Event {
            type_: if ready.status == "True" {
                EventType::Normal
            } else {
                EventType::Warning
            },
            reason: ready.reason.clone(),
            note: Some(ready.message.chars().take(1_000).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let reference: ObjectReference = registry.object_ref(&());
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(error = %causes(&error), "cannot write an Event");
        }
    }
}
