//! The streams of the plan: those that run, and those whose member is not connected.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::{Connection, MemberState};
use fleetdex_core::model::ClusterName;
use fleetdex_sync::{audit::Audit, progress::Progress};

use super::{
    applied::AppliedPlan,
    draining_writers::DrainingWriters,
    stores::{RunningStores, StoreChanges},
    stream_starter::{NewStream, RunningStream, StreamContext, StreamStarter, StreamState},
};
use crate::plan::{StreamKey, StreamPlan};

pub(super) struct RunningStreams {
    starter: StreamStarter,
    running: BTreeMap<StreamKey, RunningStream>,
    /// Streams of the plan whose member is not connected. Their progress still counts in the
    /// status.
    disconnected: BTreeMap<StreamKey, StreamState>,
}

fn connection<'m>(
    members: &'m BTreeMap<ClusterName, MemberState>,
    cluster: &ClusterName,
) -> Option<&'m Connection> {
    members.get(cluster)?.connection.as_ref()
}

impl RunningStreams {
    pub(super) fn new(context: StreamContext) -> Self {
        Self {
            starter: StreamStarter::new(context),
            running: BTreeMap::new(),
            disconnected: BTreeMap::new(),
        }
    }

    /// Stops the streams that the new plan no longer has or changes, those whose connection or
    /// store was replaced, and those that have failed. Returns their progress: their last writes
    /// may be unacknowledged.
    pub(super) async fn stop_changed(
        &mut self,
        desired: &AppliedPlan,
        stores: &StoreChanges,
        members: &BTreeMap<ClusterName, MemberState>,
        draining: &mut DrainingWriters,
    ) -> Vec<Arc<Progress>> {
        let is_planned = |stream: &StreamKey, state: &StreamState| {
            desired.plan.streams.get(stream) == Some(&state.plan)
                && stores.keep(stream, state.epoch)
                && desired
                    .assignment_for(&stream.store)
                    .may_keep(&stream.unit.cluster)
        };
        self.disconnected
            .retain(|stream, state| is_planned(stream, state));
        let mut stopped = Vec::new();
        for (stream, is_planned) in self.ending(members, is_planned) {
            let Some(running) = self.running.remove(&stream) else {
                continue;
            };
            tracing::debug!(unit = %stream.unit, store = %stream.store, "stopping a stream");
            running.stop.cancel();
            if let Err(error) = running.task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly; it is restarted");
            }
            stopped.push(Arc::clone(&running.state.progress));
            draining.add(&stream.store, Arc::clone(&running.state.progress));
            if is_planned {
                self.disconnected.insert(stream, running.state);
            }
        }
        stopped
    }

    /// The running streams that end, and whether each stays in the plan as it is, so that its
    /// progress is kept until its member is connected again.
    fn ending(
        &self,
        members: &BTreeMap<ClusterName, MemberState>,
        is_planned: impl Fn(&StreamKey, &StreamState) -> bool,
    ) -> Vec<(StreamKey, bool)> {
        let mut ending = Vec::new();
        for (stream, running) in &self.running {
            let is_planned = is_planned(stream, &running.state);
            let has_connection = connection(members, &stream.unit.cluster)
                .is_some_and(|connection| connection.id == running.connection);
            if !(is_planned && has_connection && !running.has_ended()) {
                ending.push((stream.clone(), is_planned));
            }
        }
        ending
    }

    /// Starts the streams of the plan that are assigned to this replica and whose member is
    /// connected.
    pub(super) fn start(
        &mut self,
        desired: &AppliedPlan,
        stores: &RunningStores,
        members: &BTreeMap<ClusterName, MemberState>,
        draining: &mut DrainingWriters,
    ) {
        draining.forget_acknowledged();
        for (key, plan) in &desired.plan.streams {
            let assignment = desired.assignment_for(&key.store);
            if self.running.contains_key(key) || !assignment.may_start(&key.unit.cluster) {
                continue;
            }
            let connection = connection(members, &key.unit.cluster);
            let Some((connection, store)) = connection.zip(stores.get(&key.store)) else {
                continue;
            };
            let resumed = self
                .disconnected
                .remove(key)
                .filter(|state| state.plan == *plan && state.epoch == store.epoch);
            let started = self.starter.start(NewStream {
                key,
                plan,
                connection,
                store,
                resumed: resumed.map(|state| state.progress),
                predecessors: draining.predecessors(key),
            });
            self.running.insert(key.clone(), started);
        }
    }

    /// Whether a stream cannot continue.
    pub(super) fn have_ended(&self) -> bool {
        self.running.values().any(RunningStream::has_ended)
    }

    /// The progress of a stream that runs, or that ran until its member was disconnected.
    pub(super) fn progress(&self, stream: &StreamKey) -> Option<&Progress> {
        self.running_progress(stream)
            .or_else(|| Some(&*self.disconnected.get(stream)?.progress))
    }

    /// The progress of a stream that runs.
    pub(super) fn running_progress(&self, stream: &StreamKey) -> Option<&Progress> {
        Some(&*self.running.get(stream)?.state.progress)
    }

    pub(super) fn audit(&self, stream: &StreamKey) -> Option<&Arc<Audit>> {
        self.running.get(stream).map(|running| &running.audit)
    }

    /// Every running stream.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&StreamKey, &Progress)> {
        let running = self.running.iter();
        running.map(|(stream, running)| (stream, &*running.state.progress))
    }

    /// The plan of every running stream.
    pub(super) fn plans(&self) -> impl Iterator<Item = (&StreamKey, &StreamPlan)> {
        let running = self.running.iter();
        running.map(|(stream, running)| (stream, &running.state.plan))
    }

    /// The streams whose objects have not all been written yet with the fields of their
    /// definitions.
    pub(super) fn missing_fields(&self) -> BTreeSet<StreamKey> {
        let running = self.running.iter();
        let running = running.map(|(stream, running)| (stream, &running.state));
        let missing = running.chain(&self.disconnected).filter(|(_, state)| {
            !state.plan.fields.is_empty() && !state.progress.has_been_synced()
        });
        missing.map(|(stream, _)| stream.clone()).collect()
    }

    /// Stops every stream.
    pub(super) async fn shut_down(&mut self) {
        for running in self.running.values() {
            running.stop.cancel();
        }
        for (stream, running) in std::mem::take(&mut self.running) {
            if let Err(error) = running.task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly");
            }
        }
    }

    /// Aborts every stream at once.
    pub(super) fn abort(&mut self) {
        self.running.clear();
    }
}
