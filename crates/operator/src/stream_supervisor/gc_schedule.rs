//! Garbage collection of the stores: when it runs, and whether it is done.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::StoreName;
use fleetdex_replicas::Assignment;
use fleetdex_sync::progress::Progress;
use tokio::sync::Notify;

use super::{
    draining_writers::DrainingWriters,
    gc_task::{GcScope, GcTask},
    stores::{RunningStores, StoreChanges},
};
use crate::garbage_collection::{Naming, Retention};

pub(super) struct GcSchedule {
    tasks: BTreeMap<StoreName, GcTask>,
    interval: Option<Duration>,
    changed: Arc<Notify>,
}

impl GcSchedule {
    pub(super) fn new(interval: Option<Duration>, changed: Arc<Notify>) -> Self {
        Self {
            tasks: BTreeMap::new(),
            interval,
            changed,
        }
    }

    /// Deletes what a store need not retain, unless that is done or under way. `stopped` are
    /// streams whose last writes have to be acknowledged before.
    pub(super) fn collect(
        &mut self,
        name: &StoreName,
        stores: &RunningStores,
        (retention, assignment): (Retention, Assignment),
        stopped: &[Arc<Progress>],
        draining: &mut DrainingWriters,
    ) {
        let Some(pipeline) = stores.pipeline(name) else {
            return;
        };
        for (cluster, retained) in &retention.clusters {
            if let Some(retained) = retained {
                pipeline
                    .checkpoints
                    .tracker
                    .retain(cluster, &retained.units);
            }
        }
        let mut after = Vec::new();
        if let Some(task) = self.tasks.get(name) {
            let scope = &task.scope;
            if scope.retention == retention && scope.assignment == assignment && stopped.is_empty()
            {
                return;
            }
            for progress in task.cancel() {
                draining.add(name, progress);
            }
            // The task that is cancelled here may not have waited for all of its streams.
            let before = scope.after.iter();
            after.extend(
                before
                    .filter(|progress| progress.outstanding() > 0)
                    .cloned(),
            );
        }
        after.extend(stopped.iter().cloned());
        let scope = GcScope {
            retention,
            assignment,
            after,
        };
        let task = GcTask::start(pipeline, scope, stores, &self.changed);
        self.tasks.insert(name.clone(), task);
    }

    /// Aborts the collections of stores that close: they write by connections that close with
    /// these, and by settings of before.
    pub(super) fn abort_closed(&mut self, changes: &StoreChanges) {
        self.tasks.retain(|name, _| changes.keep_open(name));
    }

    /// Repeats garbage collection in the interval of audits: a write that was in flight for long
    /// may bring back a deleted document, and audits compare only what is selected.
    pub(super) fn repeat(&mut self, stores: &RunningStores) {
        let Some(interval) = self.interval else {
            return;
        };
        for (name, task) in &mut self.tasks {
            let is_due = task
                .done_at()
                .is_some_and(|done| done.elapsed() >= interval);
            if let Some(pipeline) = stores.pipeline(name).filter(|_| is_due) {
                let scope = GcScope {
                    after: Vec::new(),
                    ..task.scope.clone()
                };
                *task = GcTask::start(pipeline, scope, stores, &self.changed);
            }
        }
    }

    /// Whether a store contains only what the applied plan retains.
    pub(super) fn is_done(&self, store: &StoreName) -> bool {
        self.tasks.get(store).is_some_and(|task| {
            let retention = &task.scope.retention;
            let is_waiting = retention.naming == Naming::Former && retention.is_waiting();
            task.done_at().is_some() && !is_waiting
        })
    }

    /// Whether a former location is empty.
    pub(super) fn is_emptied(&self, store: &StoreName) -> bool {
        let task = self.tasks.get(store);
        task.is_some_and(|task| task.scope.retention.naming == Naming::Former)
            && self.is_done(store)
    }

    /// Whether a store has a collection, which may have ended.
    #[cfg(test)]
    pub(super) fn has_task(&self, store: &StoreName) -> bool {
        self.tasks.contains_key(store)
    }

    /// Cancels every collection, and waits until all have ended.
    pub(super) async fn shut_down(&mut self) {
        for task in std::mem::take(&mut self.tasks).into_values() {
            task.end().await;
        }
    }

    /// Aborts every collection at once.
    pub(super) fn abort(&mut self) {
        self.tasks.clear();
    }
}
