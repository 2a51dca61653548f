//! The streams that run, one task each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::{
    Connection, MemberState,
    watch::{Collection, Source},
};
use fleetdex_core::model::{ClusterName, Projector, StoreName, Unit, hex};
use fleetdex_sync::{
    audit::Audit,
    filter::other_paths,
    outlet::{Filters, Outlet},
    progress::Progress,
    unit::{LISTS_PER_CLUSTER, UnitTask},
};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{Applied, Fleet, ParkedUnit, RunningStore, RunningUnit};
use crate::plan::{StorePlan, Stream, UnitPlan};

/// Where the objects of a unit go, however many registries of the store route them.
fn outlet(unit: &Unit, plan: &UnitPlan, store: &RunningStore, progress: &Progress) -> Outlet {
    let fields = plan.selectable_fields(&unit.resource.gvk);
    let filters = plan
        .routes
        .iter()
        .map(|route| route.filter.clone())
        .collect();
    Outlet {
        pipeline: store.pipeline.clone(),
        projector: Projector::new(
            &unit.cluster,
            &unit.resource,
            &store.plan.projection,
            &fields,
        ),
        filters: Filters::new(&unit.cluster, &unit.resource, filters, &fields, progress),
    }
}

/// Changes with the objects that a stream stores, whoever asked for them, and with what they are found by.
fn plan_hash(unit: &Unit, plan: &UnitPlan) -> String {
    let filters: BTreeSet<String> = plan
        .routes
        .iter()
        .map(|route| format!("{:?}", route.filter))
        .collect();
    // Nothing where there are none, as in the checkpoints of before.
    let fields = if plan.fields.is_empty() {
        String::new()
    } else {
        format!(" {:?}", plan.fields)
    };
    // Releases before these paths were read stored other objects by the same filters.
    let fields_of_kind = plan.selectable_fields(&unit.resource.gvk);
    let reads_paths = !other_paths(
        plan.routes.iter().map(|route| &route.filter),
        &fields_of_kind,
    )
    .is_empty();
    let paths = if reads_paths { " every path" } else { "" };
    let text = format!(
        "{:?} {:?} {filters:?}{fields}{paths}",
        plan.label_selector, plan.field_selector
    );
    hex(&Sha256::digest(text.as_bytes())[..8])
}

impl Fleet {
    pub(super) async fn stop_units(
        &mut self,
        wanted: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        members: &BTreeMap<ClusterName, MemberState>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) -> Vec<Arc<Progress>> {
        let plan = &wanted.plan;
        self.unpark(wanted, stores, lost);
        let mut ending = Vec::new();
        for (stream, running) in &self.units {
            let same_plan = plan.units.get(stream) == Some(&running.plan);
            let goes_on = !running.task.is_finished() && !running.progress.is_broken();
            let connection = members
                .get(&stream.unit.cluster)
                .and_then(|member| member.connection.as_ref());
            let same_connection =
                connection.is_some_and(|connection| connection.id == running.connection);
            let same_store = self.keeps_store(stream, running.epoch, stores, lost);
            let same_reader = wanted.share_of(&stream.store).keeps(&stream.unit.cluster);
            if !(same_plan && same_connection && same_store && same_reader && goes_on) {
                ending.push((stream.clone(), same_plan && same_store && same_reader));
            }
        }
        let mut progresses = Vec::new();
        for (stream, stays) in ending {
            let Some(running) = self.units.remove(&stream) else {
                continue;
            };
            tracing::info!(unit = %stream.unit, store = %stream.store, "stopping a stream");
            running.stop.cancel();
            let RunningUnit {
                plan,
                epoch,
                progress,
                task,
                ..
            } = running;
            if let Err(error) = task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly; it starts again");
            }
            progresses.push(Arc::clone(&progress));
            self.settling
                .push((stream.store.clone(), Arc::clone(&progress)));
            if stays {
                self.parked.insert(
                    stream,
                    ParkedUnit {
                        plan,
                        epoch,
                        progress,
                    },
                );
            }
        }
        progresses
    }

    /// Forgets streams that are no longer wanted like that.
    pub(super) fn unpark(
        &mut self,
        wanted: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) {
        let mut parked = std::mem::take(&mut self.parked);
        parked.retain(|stream, parked| {
            wanted.plan.units.get(stream) == Some(&parked.plan)
                && wanted.share_of(&stream.store).keeps(&stream.unit.cluster)
                && self.keeps_store(stream, parked.epoch, stores, lost)
        });
        self.parked = parked;
    }

    pub(super) fn start_units(
        &mut self,
        wanted: &Applied,
        members: &BTreeMap<ClusterName, MemberState>,
    ) {
        self.settling
            .retain(|(_, progress)| progress.outstanding() > 0);
        for (stream, unit_plan) in &wanted.plan.units {
            if self.units.contains_key(stream)
                || !wanted
                    .share_of(&stream.store)
                    .may_begin(&stream.unit.cluster)
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

    /// Streams of the same cluster and store that have ended. Their scopes may have been others, with the same documents in them.
    pub(super) fn predecessors(&self, stream: &Stream) -> Vec<Arc<Progress>> {
        let of_same = |(store, progress): &&(StoreName, Arc<Progress>)| {
            *store == stream.store && *progress.cluster() == stream.unit.cluster
        };
        self.settling
            .iter()
            .filter(of_same)
            .map(|(_, progress)| Arc::clone(progress))
            .collect()
    }

    pub(super) fn start_unit(&mut self, stream: &Stream, plan: &UnitPlan, connection: &Connection) {
        let Stream { unit, store } = stream;
        let Some(running) = self.stores.get(store) else {
            return;
        };
        let epoch = running.epoch;
        let parked = self
            .parked
            .remove(stream)
            .filter(|parked| parked.plan == *plan && parked.epoch == epoch);
        let progress = match parked {
            Some(parked) => parked.progress,
            None => Progress::new(unit.cluster.clone(), Arc::clone(&self.changed)),
        };
        let outlet = outlet(unit, plan, running, &progress);
        let collection = Collection {
            resource: unit.resource.clone(),
            scope: unit.scope.clone(),
            label_selector: plan.label_selector.clone(),
            field_selector: plan.field_selector.clone(),
        };
        let predecessors = self.predecessors(stream);
        let lists = self.lists.entry((unit.cluster.clone(), store.clone()));
        let lists = lists.or_insert_with(|| Arc::new(Semaphore::new(LISTS_PER_CLUSTER)));
        let stop = CancellationToken::new();
        let audit = Arc::new(Audit {
            unit: unit.clone(),
            source: Source::new(connection.client.clone(), collection),
            outlet: Arc::new(outlet),
            progress: Arc::clone(&progress),
            metrics: self.metrics.unit(&unit.cluster, &unit.resource.gvk),
            permits: self.audits.for_unit(&unit.cluster),
            stop: stop.clone(),
        });
        let task = UnitTask {
            unit: unit.clone(),
            uid: connection.uid.clone(),
            predecessors,
            plan: plan_hash(unit, plan),
            writes_again: !plan.fields.is_empty(),
            is_selective: plan.label_selector.is_some() || plan.field_selector.is_some(),
            source: audit.source.clone(),
            outlet: Arc::clone(&audit.outlet),
            progress: Arc::clone(&progress),
            lists: Arc::clone(lists),
            metrics: audit.metrics.clone(),
            audit: Arc::clone(&audit),
            audit_interval: self.audit_interval,
        };
        tracing::debug!(%unit, %store, "starting a stream");
        let task = AbortOnDropHandle::new(tokio::spawn(task.run(stop.clone())));
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
