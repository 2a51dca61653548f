//! What answers lack, and what is rebuilt: for answers, for the status, and for other replicas.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_store::Generation;
use fleetdex_sync::{
    audit::Audit,
    progress::{Progress, UnitState},
};
use tokio::time::Instant;

use super::{Applied, Fleet, RunningUnit};
use crate::{
    activation::is_hopeless,
    gaps::{Gap, ShareGaps},
    plan::Stream,
    replicas::ReplicaName,
};

/// What answers lack of a stream that runs.
fn gap(stream: &Stream, progress: &Progress, generation: Option<&Generation>) -> Option<Gap> {
    let resource = ResourceName::from(&stream.unit.resource);
    let is_seen = generation.is_some_and(|generation| generation.answers(&resource));
    match progress.state() {
        UnitState::Failing { reason, .. } => {
            let is_given_up =
                generation.is_some_and(|generation| is_hopeless(progress, generation));
            Some(Gap::Failing {
                reason,
                is_shown: is_seen,
                is_given_up,
            })
        }
        _ if !is_seen || !progress.has_been_synced() => Some(Gap::FirstList),
        _ => None,
    }
}

impl Fleet {
    /// The clusters whose queries are answered from documents of another shape than the plan's, until the next generation is complete.
    pub fn rebuilding(&self) -> BTreeSet<(StoreName, ClusterName)> {
        let pairs = self
            .units
            .keys()
            .map(|stream| (&stream.store, &stream.unit.cluster))
            .collect::<BTreeSet<_>>();
        let rebuilding = pairs
            .into_iter()
            .filter(|(store, cluster)| self.is_rebuilding(store, cluster));
        rebuilding
            .map(|(store, cluster)| (store.clone(), cluster.clone()))
            .collect()
    }

    pub(super) fn is_rebuilding(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let Some(running) = self.stores.get(store) else {
            return false;
        };
        match running.pipeline.open_generation_of(cluster) {
            Some(generation) => generation.replaces.is_some() && !generation.live,
            // It is about to be opened.
            None => running.is_reshaped,
        }
    }

    /// Whether queries of a cluster are answered from the generation that its streams write to, as far as these are in sync.
    pub fn is_live(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let generation = self
            .stores
            .get(store)
            .and_then(|running| running.pipeline.open_generation_of(cluster));
        let Some(generation) = generation.filter(Generation::is_read) else {
            return false;
        };
        let of_cluster = |(stream, _): &(&Stream, &RunningUnit)| {
            stream.store == *store && stream.unit.cluster == *cluster
        };
        let is_seen = |(stream, unit): (&Stream, &RunningUnit)| {
            unit.progress.state() != UnitState::Synced
                || generation.shows(&ResourceName::from(&stream.unit.resource))
        };
        generation.live || self.units.iter().filter(of_cluster).all(is_seen)
    }

    /// Takes note of what the other replicas say of the streams that they read.
    pub fn hear(&mut self, others: Arc<BTreeMap<ReplicaName, ShareGaps>>) {
        self.others = others;
    }

    /// What this replica has to say to the others of the streams that it reads.
    pub fn share_gaps(&self) -> ShareGaps {
        let Some(applied) = &self.applied else {
            return ShareGaps::default();
        };
        let is_own = |stream: &Stream| {
            let is_shared = applied
                .plan
                .stores
                .get(&stream.store)
                .is_some_and(|store| !store.is_embedded());
            is_shared && applied.share.keeps(&stream.unit.cluster)
        };
        ShareGaps::of(self.known.iter().filter(|(stream, _)| is_own(stream)))
    }

    /// What answers lack: streams of the plan whose objects are not all stored yet, or cannot be read now, and why. Of clusters that this replica is
    /// not connected to everything is old, which is not said again for each stream.
    pub fn gaps(&self) -> BTreeMap<Stream, Gap> {
        let is_connected = |cluster: &ClusterName| {
            self.applied.as_ref().is_some_and(|applied| {
                applied
                    .connections
                    .get(cluster)
                    .is_some_and(Option::is_some)
            })
        };
        let lacking = |(stream, gap): (&Stream, &Option<Gap>)| Some((stream.clone(), gap.clone()?));
        let said = |(stream, gap): &(Stream, Gap)| {
            *gap != Gap::Disconnected || is_connected(&stream.unit.cluster)
        };
        self.known.iter().filter_map(lacking).filter(said).collect()
    }

    /// Brings up to date how far each stream is. What is known of a stream stays known until the replica that reads it says otherwise.
    pub(super) fn note_gaps(&mut self, applied: &Applied) {
        let mut generations: BTreeMap<(&StoreName, ClusterName), Generation> = BTreeMap::new();
        for (name, store) in &self.stores {
            let of_store = store.pipeline.generations().into_iter();
            generations.extend(
                of_store.map(|generation| ((name, generation.cluster.clone()), generation)),
            );
        }
        let mut readers: BTreeMap<&ClusterName, Option<&ReplicaName>> = BTreeMap::new();
        let mut before = std::mem::take(&mut self.known);
        for stream in applied.plan.units.keys() {
            let cluster = &stream.unit.cluster;
            let is_shared = applied
                .plan
                .stores
                .get(&stream.store)
                .is_some_and(|store| !store.is_embedded());
            let reader = readers
                .entry(cluster)
                .or_insert_with(|| applied.share.other_reader(cluster))
                .filter(|_| is_shared);
            let last = before.remove(stream);
            let now = match (reader, self.units.get(stream)) {
                (Some(reader), _) => self
                    .others
                    .get(reader)
                    .and_then(|said| said.get(stream))
                    .cloned()
                    .or(last),
                (None, Some(unit)) => Some(gap(
                    stream,
                    &unit.progress,
                    generations.get(&(&stream.store, cluster.clone())),
                )),
                (None, None) if applied.connections.get(cluster).is_none_or(Option::is_none) => {
                    Some(Some(Gap::Disconnected))
                }
                (None, None) => last,
            };
            let unknown =
                || Some(reader.map_or(Gap::FirstList, |reader| Gap::Unknown(reader.clone())));
            self.known
                .insert(stream.clone(), now.unwrap_or_else(unknown));
        }
        self.note_given_up(applied);
    }

    /// Looks, while something is kept in a former place, of which clusters nothing more will come to the new one.
    pub(super) fn note_given_up(&mut self, applied: &Applied) {
        if applied.old.is_empty() {
            self.given_up.clear();
            return;
        }
        self.given_up
            .retain(|of_store, _| applied.plan.scopes.contains_key(of_store));
        let mut settled: BTreeMap<(&StoreName, &ClusterName), bool> = BTreeMap::new();
        for (stream, gap) in &self.known {
            let is_settled = matches!(
                gap,
                None | Some(Gap::Failing {
                    is_given_up: true,
                    ..
                })
            );
            *settled
                .entry((&stream.store, &stream.unit.cluster))
                .or_insert(true) &= is_settled;
        }
        for ((store, cluster), _) in settled.into_iter().filter(|(_, is_settled)| *is_settled) {
            let of_store = (store.clone(), cluster.clone());
            if applied
                .plan
                .scopes
                .get(&of_store)
                .is_some_and(|coverage| coverage.certain)
            {
                self.given_up.entry(of_store).or_insert_with(Instant::now);
            }
        }
    }

    /// The progress of a stream that runs, or ran until its member was lost.
    pub fn progress(&self, stream: &Stream) -> Option<&Progress> {
        let running = self.units.get(stream).map(|running| &*running.progress);
        running.or_else(|| self.parked.get(stream).map(|parked| &*parked.progress))
    }

    /// The streams whose objects have not all been written yet with the fields of their definitions: those fields are nothing to ask for.
    pub fn unfilled(&self) -> BTreeSet<Stream> {
        let running = self
            .units
            .iter()
            .map(|(stream, unit)| (stream, &unit.plan, &unit.progress));
        let parked = self
            .parked
            .iter()
            .map(|(stream, unit)| (stream, &unit.plan, &unit.progress));
        let unfilled = running
            .chain(parked)
            .filter(|(_, plan, progress)| !plan.fields.is_empty() && !progress.has_been_synced());
        unfilled.map(|(stream, ..)| stream.clone()).collect()
    }

    /// What compares the documents of a running stream with its objects.
    pub fn audit(&self, stream: &Stream) -> Option<&Arc<Audit>> {
        self.units.get(stream).map(|running| &running.audit)
    }

    /// Every running stream.
    pub fn streams(&self) -> impl Iterator<Item = (&Stream, &Progress)> {
        self.units
            .iter()
            .map(|(stream, running)| (stream, &*running.progress))
    }
}
