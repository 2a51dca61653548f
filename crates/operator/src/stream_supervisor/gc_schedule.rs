//! Garbage collection of the stores: when it runs, and whether it is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::StoreName;
use fleetdex_sync::{pipeline::Pipeline, progress::Progress};

use super::{
    Applied, RunningStore, StreamSupervisor, gc_task::GcTask, retention::planned_retention,
};
use crate::garbage_collection::{Naming, Retention};

fn pipelines(
    stores: &BTreeMap<StoreName, RunningStore>,
    names: &BTreeSet<StoreName>,
) -> Vec<Pipeline> {
    let running = names.iter().filter_map(|name| stores.get(name));
    running.map(|store| store.pipeline.clone()).collect()
}

impl StreamSupervisor {
    /// Repeats garbage collection in the interval of audits: a write that was in flight for long
    /// may bring back a deleted document, and audits compare only what is selected.
    pub(super) fn repeat_gc(&mut self) {
        let Some(interval) = self.audit_interval else {
            return;
        };
        for (name, gc_task) in &mut self.gc_tasks {
            let is_due = gc_task
                .done_at()
                .is_some_and(|done| done.elapsed() >= interval);
            if let Some(store) = self.stores.get(name).filter(|_| is_due) {
                let (retention, assignment) =
                    (gc_task.retention.clone(), gc_task.assignment.clone());
                let same_prefix_stores = pipelines(&self.stores, &retention.same_prefix_stores);
                *gc_task = GcTask::start(
                    &store.pipeline,
                    retention,
                    same_prefix_stores,
                    assignment,
                    Vec::new(),
                    &self.changed,
                );
            }
        }
    }

    /// Deletes what no registry selects any more. `stopped` are streams whose last writes have to
    /// be acknowledged before.
    pub(super) fn collect_garbage(&mut self, applied: &Applied, stopped: &[Arc<Progress>]) {
        for (name, store) in &self.stores {
            let assignment = applied.assignment_for(name);
            let retention = match applied.former_locations.plan(name) {
                Some(former) => self.former_retention(applied, name, former),
                None => {
                    let planned = planned_retention(
                        &applied.plan,
                        name,
                        &self.replaced,
                        self.knows_all_members,
                    );
                    match applied.leaving.get(name) {
                        Some(leaving) if !applied.plan.stores.contains_key(name) => Retention {
                            naming: Naming::Leaving,
                            same_prefix_stores: applied.stores_of_prefix(leaving, Naming::Leaving),
                            ..planned
                        },
                        _ => planned,
                    }
                }
            };
            for (cluster, retained) in &retention.clusters {
                if let Some(retained) = retained {
                    store
                        .pipeline
                        .checkpoints()
                        .retain(cluster, &retained.units);
                }
            }
            let gc_task = self.gc_tasks.entry(name.clone()).or_default();
            let is_same = gc_task.retention == retention && gc_task.assignment == assignment;
            if gc_task.task.is_some() && is_same && stopped.is_empty() {
                continue;
            }
            gc_task.stop.cancel();
            let pending_deletes = std::mem::take(&mut *gc_task.pending_deletes.lock());
            self.draining.extend(
                pending_deletes
                    .into_iter()
                    .map(|progress| (name.clone(), progress)),
            );
            // The task that is cancelled here may not have waited for all of its streams.
            let unacknowledged = gc_task
                .after
                .iter()
                .filter(|progress| progress.outstanding() > 0);
            let after: Vec<Arc<Progress>> = unacknowledged.chain(stopped).cloned().collect();
            let same_prefix_stores = pipelines(&self.stores, &retention.same_prefix_stores);
            *gc_task = GcTask::start(
                &store.pipeline,
                retention,
                same_prefix_stores,
                assignment,
                after,
                &self.changed,
            );
        }
    }

    /// Whether a store contains only what the applied plan retains.
    pub fn is_gc_done(&self, store: &StoreName) -> bool {
        self.gc_tasks.get(store).is_some_and(|task| {
            let is_waiting = task.retention.naming == Naming::Former && task.retention.is_waiting();
            task.done_at().is_some() && !is_waiting
        })
    }
}
