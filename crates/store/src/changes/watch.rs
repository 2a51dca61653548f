//! Those who follow a log.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use ahash::AHashMap;
use fleetdex_core::{
    model::{ClusterName, FleetVersion, NameHash},
    query::{Query, ResourceName},
};

use super::{
    Change, Event, EventKind, Log, Shown, WatchError, change::Batch, log::FollowerKind,
    place::Place,
};
use crate::{StoreError, document::Document, filter::Filter, packed::Unpacker};

/// Changes that are looked at in one go: a fraction of a millisecond, a few when all of them are wanted.
const LOOK: usize = 256;
/// Bytes of the objects that are told in one go, and one object more: whoever is slow holds no more than that.
const LOOK_BYTES: usize = 512 << 10;

/// Follows the changes of what a query selects.
pub struct Watch {
    place: Place,
    /// What comes before the log is followed change by change: the newest state of each object.
    start: VecDeque<(u64, EventKind, Arc<Document>)>,
    /// Where that ends.
    start_end: u64,
    resource: ResourceName,
    /// Only these; empty: all.
    clusters: BTreeSet<ClusterName>,
    filter: Filter,
    /// By what changes are found that it may select.
    handles: Vec<u64>,
}

impl Log {
    /// Follows the changes of what a query selects, from the one after `after`: a number that came with an answer or an event.
    pub fn watch(self: &Arc<Self>, query: &Query, after: u64) -> Result<Watch, WatchError> {
        Watch::new(Arc::clone(self), query, after)
    }

    /// The same, once everything is settled that an answer may have shown already: a watch must not begin with less.
    pub async fn watch_settled(
        self: &Arc<Self>,
        query: &Query,
        after: u64,
    ) -> Result<Watch, WatchError> {
        self.settle().await;
        self.watch(query, after)
    }

    /// The same for a watch over several logs, which begins before what the answer has shown of this one: with the newest state of each object.
    pub async fn watch_behind(
        self: &Arc<Self>,
        query: &Query,
        after: u64,
    ) -> Result<Watch, WatchError> {
        self.settle().await;
        Watch::behind(Arc::clone(self), query, after)
    }
}

impl Watch {
    pub(super) fn new(log: Arc<Log>, query: &Query, after: u64) -> Result<Self, WatchError> {
        let lags = log.answers_lag();
        Self::begin(log, query, after, lags)
    }

    /// One that begins before what its client has seen.
    pub(super) fn behind(log: Arc<Log>, query: &Query, after: u64) -> Result<Self, WatchError> {
        Self::begin(log, query, after, true)
    }

    fn begin(
        log: Arc<Log>,
        query: &Query,
        after: u64,
        is_behind: bool,
    ) -> Result<Self, WatchError> {
        let filter = Filter::new(query)?;
        let place = Place::take(log, &query.resource, Some(after), FollowerKind::Watch)?;
        let (resource, clusters) = (
            query.resource.clone(),
            query.clusters.iter().cloned().collect(),
        );
        let handles = place.log().recent().handles(&resource, &filter);
        let start = VecDeque::new();
        let mut watch = Self {
            place,
            start,
            start_end: after,
            resource,
            clusters,
            filter,
            handles,
        };
        if is_behind {
            watch.collect_start();
        }
        Ok(watch)
    }

    /// What has changed since, each object once, in the order of the first changes and with their numbers: who goes on from one of them has been
    /// told of all objects that had changed by then.
    fn collect_start(&mut self) {
        let (batches, newest) = self.place.log().all_after(self.place.after());
        let mut objects: BTreeMap<(ClusterName, String), Summary> = BTreeMap::new();
        for (sequence, change) in batches
            .iter()
            .flat_map(|batch| numbered(batch, self.place.after()))
        {
            let Some(document) = change
                .document()
                .filter(|document| self.may_select(document))
            else {
                continue;
            };
            let key = (document.origin.cluster.clone(), document.id().into_owned());
            let of = |document: &Option<Arc<Document>>| {
                document.clone().filter(|document| self.selects(document))
            };
            let before = of(&change.before);
            let object = objects.entry(key).or_insert_with(|| Summary {
                first: sequence,
                was_selected: before.is_some(),
                ..Summary::default()
            });
            object.last = sequence;
            // An answer may have shown any of the states.
            object.last_selected = object.now.take().or(before).or(object.last_selected.take());
            object.now = of(&change.after);
        }
        let mut gone: AHashMap<NameHash, u64> = AHashMap::new();
        for object in objects.values() {
            if let (None, Some(document)) = (&object.now, &object.last_selected) {
                let last = gone.entry(name_of(document)).or_default();
                *last = object.last.max(*last);
            }
        }
        let mut start: Vec<(u64, EventKind, Arc<Document>)> =
            objects.into_values().filter_map(Summary::event).collect();
        for (sequence, kind, document) in &mut start {
            // Not before what had its name is gone, for whoever holds objects by their names. The object has changed after that: nobody who goes on from
            // there misses it.
            if *kind != EventKind::Deleted
                && let Some(last) = gone.get(&name_of(document))
            {
                *sequence = (*sequence).max(*last);
            }
        }
        start.sort_by_key(|(sequence, kind, _)| (*sequence, *kind != EventKind::Deleted));
        self.start = start.into();
        self.start_end = newest.max(self.place.after());
    }

    /// Number of the last change that has been looked at, selected or not: from there another watch can go on.
    pub fn sequence(&self) -> u64 {
        self.place.after()
    }

    /// The number up to which no change of this log is left to be looked at.
    pub(super) fn reaches_to(&self) -> u64 {
        self.place.log().reaches_to(self.place.after())
    }

    /// The version of the fleet up to which everything has been looked at.
    pub fn version(&self) -> FleetVersion {
        self.place.version()
    }

    /// The next events; waits for them. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            let events = if self.place.after() < self.start_end {
                self.start_events()?
            } else {
                self.batch_events().await?
            };
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    fn start_events(&mut self) -> Result<Vec<Event>, StoreError> {
        let mut unpacker = Unpacker::new();
        let mut events = Vec::new();
        let mut bytes = 0;
        while events.len() < LOOK && bytes < LOOK_BYTES {
            let Some((sequence, kind, document)) = self.start.pop_front() else {
                break;
            };
            self.place.move_to(sequence);
            let object = Shown::new(
                document.hit(&mut unpacker)?,
                self.place.log().sequence().version(sequence),
            );
            bytes += object.bytes();
            events.push(Event {
                sequence,
                kind,
                object: Arc::new(object),
            });
        }
        if self.start.is_empty() {
            self.place.move_to(self.start_end);
        }
        Ok(events)
    }

    /// The events of some changes of the next batch, which count as looked at.
    async fn batch_events(&mut self) -> Result<Vec<Event>, StoreError> {
        self.place.look();
        let batch = self
            .place
            .log()
            .all_changes_after(&self.resource, self.place.after())
            .map_err(|_| StoreError::Expired)?;
        let Some(batch) = batch else {
            self.place.news().await;
            return Ok(Vec::new());
        };
        let (positions, mut looked_at) = self.next_positions(&batch);
        let mut events = Vec::new();
        let mut bytes = 0;
        for position in positions {
            let event = self.event(&batch, position)?;
            bytes += event.as_ref().map_or(0, |event| event.object.bytes());
            events.extend(event);
            if bytes >= LOOK_BYTES {
                looked_at = batch.first + position as u64;
                break;
            }
        }
        self.place.move_to(looked_at);
        Ok(events)
    }

    /// The positions of changes that are to be looked at now, and the number up to which no others have to be.
    fn next_positions(&self, batch: &Batch) -> (Vec<usize>, u64) {
        let skipped = skipped(batch, self.place.after());
        let found = self.place.log().recent().positions(batch, &self.handles);
        let mut positions: Vec<usize> = match found {
            Some(found) => found
                .into_iter()
                .map(|position| position as usize)
                .filter(|position| *position >= skipped)
                .collect(),
            None => (skipped..batch.changes.len()).take(LOOK + 1).collect(),
        };
        let mut looked_at = batch.last();
        if positions.len() > LOOK {
            positions.truncate(LOOK);
            looked_at = batch.first + positions.last().map_or(0, |last| *last as u64);
        }
        (positions, looked_at)
    }

    fn event(&self, batch: &Batch, position: usize) -> Result<Option<Event>, StoreError> {
        let Some(change) = batch.changes.get(position) else {
            return Ok(None);
        };
        let before = change
            .before
            .as_ref()
            .filter(|document| self.selects(document));
        let after = change
            .after
            .as_ref()
            .filter(|document| self.selects(document));
        let (kind, document) = match (before, after) {
            (None, None) => return Ok(None),
            (None, Some(new)) => (EventKind::Added, new),
            (Some(_), Some(new)) => (EventKind::Modified, new),
            (Some(old), None) => (EventKind::Deleted, old),
        };
        let sequence = batch.first + position as u64;
        let unpack = || {
            Ok(Shown::new(
                document.hit(&mut Unpacker::new())?,
                self.place.log().sequence().version(sequence),
            ))
        };
        let object =
            self.place
                .log()
                .recent()
                .shown(sequence, kind == EventKind::Deleted, unpack)?;
        Ok(Some(Event {
            sequence,
            kind,
            object,
        }))
    }

    fn may_select(&self, document: &Document) -> bool {
        let origin = &document.origin;
        let is_of_cluster = self.clusters.is_empty() || self.clusters.contains(&origin.cluster);
        is_of_cluster && origin.resource == self.resource
    }

    fn selects(&self, document: &Document) -> bool {
        self.may_select(document) && self.filter.matches(document)
    }
}

/// What became of an object in several changes.
#[derive(Default)]
struct Summary {
    /// Number of the first one.
    first: u64,
    /// Number of the last one.
    last: u64,
    was_selected: bool,
    /// As it was when it was selected last, before the last change.
    last_selected: Option<Arc<Document>>,
    /// As it is now, if it is selected.
    now: Option<Arc<Document>>,
}

impl Summary {
    fn event(self) -> Option<(u64, EventKind, Arc<Document>)> {
        let kind = match (&self.now, self.was_selected) {
            (Some(_), true) => EventKind::Modified,
            (Some(_), false) => EventKind::Added,
            (None, _) => EventKind::Deleted,
        };
        Some((self.first, kind, self.now.or(self.last_selected)?))
    }
}

/// The name of an object among those of its resource, in all clusters.
fn name_of(document: &Document) -> NameHash {
    NameHash::new(
        document.origin.cluster.as_str(),
        document.namespace(),
        document.name(),
    )
}

/// How many changes of a batch are not after a number.
fn skipped(batch: &Batch, after: u64) -> usize {
    usize::try_from((after + 1).saturating_sub(batch.first)).unwrap_or(usize::MAX)
}

/// The changes of a batch after a number.
pub(super) fn numbered(batch: &Batch, after: u64) -> impl Iterator<Item = (u64, &Change)> {
    (batch.first..)
        .zip(&batch.changes)
        .skip(skipped(batch, after))
}
