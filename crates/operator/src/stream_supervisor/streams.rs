//! The running streams, one task each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::{
    Connection, MemberState,
    watch::{Collection, ListerWatcher},
};
use fleetdex_core::model::{ClusterName, Projector, StoreName, Unit};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_limits::poll_time::LongestPoll;
use fleetdex_sync::{
    audit::Audit,
    enrichment::UnitEnrichment,
    progress::Progress,
    sink::{Filters, Sink},
    unit::{LISTS_PER_CLUSTER, UnitTask},
};
use fleetdex_telemetry::metrics::TaskKind;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Applied, DisconnectedUnit, RunningStore, RunningUnit, StreamSupervisor,
    identity::{plan_hash, rules_hash},
};
use crate::plan::{StorePlan, StreamKey, StreamPlan};

/// Where the objects of a unit go, however many registries of the store route them.
fn sink(unit: &Unit, plan: &StreamPlan, store: &RunningStore, progress: &Progress) -> Sink {
    let fields = plan.selectable_fields(&unit.resource.gvk);
    let filters = plan
        .routes
        .iter()
        .map(|route| route.filter.clone())
        .collect();
    let projector = Projector::new(
        &unit.cluster,
        &unit.resource,
        &store.plan.projection,
        &fields,
    );
    let projector = match &plan.rules {
        Some(rules) => projector.interpreted_by(Arc::new(rules.clone())),
        None => projector,
    };
    let projector = match rules_hash(plan, plan.rules.as_ref()) {
        Some(hash) => projector.made_by(&hash),
        None => projector,
    };
    Sink {
        pipeline: store.pipeline.clone(),
        projector,
        filters: Filters::new(&unit.cluster, &unit.resource, filters, &fields, progress)
            .counting(plan.routes_of_selections()),
    }
}

/// What the member lists and watches for a stream.
fn collection(unit: &Unit, plan: &StreamPlan) -> Collection {
    Collection {
        resource: unit.resource.clone(),
        scope: unit.scope.clone(),
        label_selector: plan.label_selector.clone(),
        field_selector: plan.field_selector.clone(),
    }
}

impl StreamSupervisor {
    /// Stops the streams that the new plan no longer has or changes, those whose connection or
    /// store was replaced, and those that have failed. Returns their progress: their last writes
    /// may be unacknowledged.
    pub(super) async fn stop_units(
        &mut self,
        desired: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        members: &BTreeMap<ClusterName, MemberState>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) -> Vec<Arc<Progress>> {
        self.drop_stale_disconnected(desired, stores, lost);
        let ending = self.ending_units(desired, stores, members, lost);
        let mut progresses = Vec::new();
        for (stream, is_planned) in ending {
            let Some(running) = self.units.remove(&stream) else {
                continue;
            };
            tracing::debug!(unit = %stream.unit, store = %stream.store, "stopping a stream");
            running.stop.cancel();
            let RunningUnit {
                plan,
                epoch,
                progress,
                task,
                ..
            } = running;
            if let Err(error) = task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly; it is restarted");
            }
            progresses.push(Arc::clone(&progress));
            self.draining
                .push((stream.store.clone(), Arc::clone(&progress)));
            if is_planned {
                self.disconnected.insert(
                    stream,
                    DisconnectedUnit {
                        plan,
                        epoch,
                        progress,
                    },
                );
            }
        }
        progresses
    }

    /// The running streams that end, and whether each stays in the plan as it is, so that its
    /// progress is kept until its member is connected again.
    fn ending_units(
        &self,
        desired: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        members: &BTreeMap<ClusterName, MemberState>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) -> Vec<(StreamKey, bool)> {
        let mut ending = Vec::new();
        for (stream, running) in &self.units {
            let same_plan = desired.plan.streams.get(stream) == Some(&running.plan);
            let is_running = !running.task.is_finished() && !running.progress.is_broken();
            let connection = members
                .get(&stream.unit.cluster)
                .and_then(|member| member.connection.as_ref());
            let same_connection =
                connection.is_some_and(|connection| connection.id == running.connection);
            let same_store = self.is_store_unchanged(stream, running.epoch, stores, lost);
            let same_reader = desired
                .assignment_for(&stream.store)
                .may_keep(&stream.unit.cluster);
            let is_planned = same_plan && same_store && same_reader;
            if !(is_planned && same_connection && is_running) {
                ending.push((stream.clone(), is_planned));
            }
        }
        ending
    }

    /// Forgets the disconnected streams that the new plan changes or no longer has.
    fn drop_stale_disconnected(
        &mut self,
        desired: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) {
        let mut disconnected = std::mem::take(&mut self.disconnected);
        disconnected.retain(|stream, disconnected| {
            desired.plan.streams.get(stream) == Some(&disconnected.plan)
                && desired
                    .assignment_for(&stream.store)
                    .may_keep(&stream.unit.cluster)
                && self.is_store_unchanged(stream, disconnected.epoch, stores, lost)
        });
        self.disconnected = disconnected;
    }

    /// Starts the streams of the plan that are assigned to this replica and whose member is
    /// connected.
    pub(super) fn start_units(
        &mut self,
        desired: &Applied,
        members: &BTreeMap<ClusterName, MemberState>,
    ) {
        self.draining
            .retain(|(_, progress)| progress.outstanding() > 0);
        for (stream, unit_plan) in &desired.plan.streams {
            if self.units.contains_key(stream)
                || !desired
                    .assignment_for(&stream.store)
                    .may_start(&stream.unit.cluster)
            {
                continue;
            }
            let Some(connection) = members
                .get(&stream.unit.cluster)
                .and_then(|member| member.connection.as_ref())
            else {
                continue;
            };
            self.start_unit(stream, unit_plan, connection);
        }
    }

    /// Ended streams of the same cluster and store. Their scopes may differ, and still contain the
    /// same documents.
    fn predecessors(&self, stream: &StreamKey) -> Vec<Arc<Progress>> {
        let of_same = |(store, progress): &&(StoreName, Arc<Progress>)| {
            *store == stream.store && *progress.cluster() == stream.unit.cluster
        };
        self.draining
            .iter()
            .filter(of_same)
            .map(|(_, progress)| Arc::clone(progress))
            .collect()
    }

    fn start_unit(&mut self, stream: &StreamKey, plan: &StreamPlan, connection: &Connection) {
        let StreamKey { unit, store } = stream;
        let Some(running) = self.stores.get(store) else {
            return;
        };
        let epoch = running.epoch;
        let resumed = self
            .disconnected
            .remove(stream)
            .filter(|disconnected| disconnected.plan == *plan && disconnected.epoch == epoch);
        let progress = resumed.map_or_else(
            || {
                let progress = Progress::new(unit.cluster.clone(), Arc::clone(&self.changed));
                self.metrics.measure_lag(&progress);
                progress
            },
            |disconnected| disconnected.progress,
        );
        let sink = sink(unit, plan, running, &progress);
        let collection = collection(unit, plan);
        let predecessors = self.predecessors(stream);
        let lists = self.lists.entry((unit.cluster.clone(), store.clone()));
        let lists = lists.or_insert_with(|| Arc::new(Semaphore::new(LISTS_PER_CLUSTER)));
        let stop = CancellationToken::new();
        let audit = Arc::new(Audit {
            unit: unit.clone(),
            source: ListerWatcher::new(connection.client.clone(), collection),
            sink: Arc::new(sink),
            progress: Arc::clone(&progress),
            metrics: self.metrics.unit(&unit.cluster, &unit.resource.gvk),
            permits: self.audits.for_unit(&unit.cluster),
            stop: stop.clone(),
        });
        self.streams_started += 1;
        let enrichment = plan.rules.as_ref().zip(self.webhooks.as_ref());
        let enrichment = enrichment.and_then(|(rules, access)| {
            let prefix = format!("{} {store} {unit} ", self.streams_started);
            UnitEnrichment::new(rules, access, &audit.sink, &progress, prefix)
        });
        let written_status = plan.rules.as_ref().and_then(KindRules::of_written_status);
        let task = UnitTask {
            unit: unit.clone(),
            uid: connection.uid.clone(),
            predecessors,
            plan: plan_hash(unit, plan, connection.address()),
            rules_hash: rules_hash(plan, plan.rules.as_ref()),
            written_status_hash: written_status.and_then(|rules| rules_hash(plan, Some(&rules))),
            is_selective: plan.label_selector.is_some() || plan.field_selector.is_some(),
            source: audit.source.clone(),
            sink: Arc::clone(&audit.sink),
            progress: Arc::clone(&progress),
            rules: plan.rules.clone(),
            enrichment,
            lists: Arc::clone(lists),
            metrics: audit.metrics.clone(),
            traces: self.traces.clone(),
            audit: Arc::clone(&audit),
            audit_interval: self.audit_interval,
            stop: stop.clone(),
        };
        tracing::debug!(%unit, %store, "starting a stream");
        let longest = LongestPoll::new(self.metrics.longest_poll(TaskKind::Stream));
        let task = AbortOnDropHandle::new(tokio::spawn(longest.of(task.run())));
        let running = RunningUnit {
            plan: plan.clone(),
            connection: connection.id,
            epoch,
            progress,
            audit,
            stop,
            task,
        };
        self.units.insert(stream.clone(), running);
    }
}
