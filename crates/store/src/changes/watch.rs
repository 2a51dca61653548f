//! Watches of one log.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    slice,
    sync::Arc,
};

use ahash::AHashMap;
use fleetdex_core::{
    fuel::{Fuel, MeteredEvaluation, OutOfFuel},
    model::{ClusterName, FleetVersion, NameHash},
    query::{Query, ResourceName},
};

use tokio::task::yield_now;

use super::{
    Change, Event, EventKind, EventObject, Log, WatchError, change::Batch, log::SubscriberKind,
    subscription::LogSubscription,
};
use crate::{StoreError, document::StoredDocument, error::STEPS_PER_CHANGE, query_filter::Filter};

/// Changes to read at once: a fraction of a millisecond, or a few milliseconds if all of them are
/// selected.
const MAX_CHANGES: usize = 256;
/// Bytes of unpacked objects to return at once, and one object more.
pub const MAX_EVENT_BYTES: usize = 64 << 10;

/// Steps that it takes before others have their turn: a fraction of a millisecond, and those of one
/// change more.
const STEPS_AT_ONCE: u64 = 100_000;

/// Follows the changes of the objects that some queries select, each of another resource.
///
/// It reads each change once and holds [`MAX_EVENT_BYTES`] of objects, however many queries there
/// are.
pub struct Watch {
    subscription: LogSubscription,
    /// Events before the log is followed change by change: the newest state of each object.
    start: VecDeque<(u64, EventKind, Arc<StoredDocument>)>,
    /// The number where `start` ends.
    start_end: u64,
    filters: AHashMap<ResourceName, ResourceFilter>,
    /// Hashes of the terms by which changes are found that the queries may select.
    term_hashes: Vec<u64>,
}

/// What is selected of one resource.
struct ResourceFilter {
    /// Only these; empty: all.
    clusters: BTreeSet<ClusterName>,
    filter: Filter,
}

impl Log {
    /// Follows the changes of a query's objects after `after`, the number of a page or an event.
    pub fn watch(self: &Arc<Self>, query: &Query, after: u64) -> Result<Watch, WatchError> {
        let queries = slice::from_ref(query);
        Watch::begin(Arc::clone(self), queries, after, self.bounds.results_lag)
    }

    /// Follows the changes of the objects of several queries, each of another resource, after the
    /// writes in flight whose objects a list may already have shown: a watch must not begin with
    /// less.
    pub async fn watch_settled(
        self: &Arc<Self>,
        queries: &[Query],
        after: u64,
    ) -> Result<Watch, WatchError> {
        self.settle().await;
        Watch::begin(Arc::clone(self), queries, after, self.bounds.results_lag)
    }

    /// The same for a watch over several logs. It begins before what the list has shown of this
    /// log: with the newest state of each object.
    pub async fn watch_behind(
        self: &Arc<Self>,
        queries: &[Query],
        after: u64,
    ) -> Result<Watch, WatchError> {
        self.settle().await;
        Watch::begin(Arc::clone(self), queries, after, true)
    }
}

impl Watch {
    /// `is_behind`: whether it begins before what its client has seen.
    fn begin(
        log: Arc<Log>,
        queries: &[Query],
        after: u64,
        is_behind: bool,
    ) -> Result<Self, WatchError> {
        let mut filters = AHashMap::new();
        for query in queries {
            filters.insert(query.resource.clone(), ResourceFilter::new(query)?);
        }
        let resources = filters.keys().cloned().collect();
        let subscription =
            LogSubscription::new(log, resources, Some(after), SubscriberKind::Watch)?;
        let recent = &subscription.log.recent;
        let hashes = |(resource, filter): (&ResourceName, &ResourceFilter)| {
            recent.term_hashes(resource, &filter.filter)
        };
        let term_hashes = filters.iter().flat_map(hashes).collect();
        let mut watch = Self {
            subscription,
            start: VecDeque::new(),
            start_end: after,
            filters,
            term_hashes,
        };
        if is_behind {
            watch
                .collect_newest_states()
                .map_err(|OutOfFuel| WatchError::TooComplex)?;
        }
        Ok(watch)
    }

    /// Collects what has changed since, each object once, in the order of the first changes and
    /// with their numbers: a client that continues from one of them has been sent every object that
    /// had changed by then.
    fn collect_newest_states(&mut self) -> Result<(), OutOfFuel> {
        let (batches, newest) = self.subscription.log.all_after(self.subscription.read_to);
        let mut objects: BTreeMap<(ClusterName, String), ObjectHistory> = BTreeMap::new();
        for (sequence, change) in batches
            .iter()
            .flat_map(|batch| numbered(batch, self.subscription.read_to))
        {
            let Some(document) = change
                .document()
                .filter(|document| self.may_select(document))
            else {
                continue;
            };
            let key = (document.origin.cluster.clone(), document.id().into_owned());
            let fuel = Fuel::of(MeteredEvaluation::WatchedChange, STEPS_PER_CHANGE);
            let before = self.selected(change.before.as_ref(), &fuel)?.cloned();
            let after = self.selected(change.after.as_ref(), &fuel)?.cloned();
            let object = objects.entry(key).or_insert_with(|| ObjectHistory {
                first: sequence,
                was_selected: before.is_some(),
                ..ObjectHistory::default()
            });
            object.last = sequence;
            // A list may have shown any of the states.
            object.last_selected = object.now.take().or(before).or(object.last_selected.take());
            object.now = after;
        }
        let mut gone: AHashMap<(ResourceName, NameHash), u64> = AHashMap::new();
        for object in objects.values() {
            if let (None, Some(document)) = (&object.now, &object.last_selected) {
                let last = gone.entry(name_of(document)).or_default();
                *last = object.last.max(*last);
            }
        }
        let mut start: Vec<(u64, EventKind, Arc<StoredDocument>)> = objects
            .into_values()
            .filter_map(ObjectHistory::event)
            .collect();
        for (sequence, kind, document) in &mut start {
            // A client that keys objects by name must see the deletion of an object before a new
            // one of that name. The new object has changed after that, so a client that continues
            // from there does not miss it.
            if *kind != EventKind::Deleted
                && let Some(last) = gone.get(&name_of(document))
            {
                *sequence = (*sequence).max(*last);
            }
        }
        start.sort_by_key(|(sequence, kind, _)| (*sequence, *kind != EventKind::Deleted));
        self.start = start.into();
        self.start_end = newest.max(self.subscription.read_to);
        Ok(())
    }

    /// Number of the last change that has been read, selected or not. Another watch can continue
    /// from there.
    pub fn sequence(&self) -> u64 {
        self.subscription.read_to
    }

    /// The number up to which no change of this log is left to read.
    pub(super) fn reaches_to(&self) -> u64 {
        self.subscription.log.reaches_to(self.subscription.read_to)
    }

    /// The fleet version up to which everything has been read.
    pub fn version(&self) -> FleetVersion {
        self.subscription.version()
    }

    /// Waits for the next events. Cancel safe.
    pub async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            let events = if self.subscription.read_to < self.start_end {
                self.start_events()
            } else {
                self.batch_events().await?
            };
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    fn start_events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut bytes = 0;
        while events.len() < MAX_CHANGES && bytes < MAX_EVENT_BYTES {
            let Some((sequence, kind, document)) = self.start.pop_front() else {
                break;
            };
            self.subscription.move_to(sequence);
            let version = self.subscription.log.sequence().version(sequence);
            let object = EventObject::new(document, version);
            bytes += object.bytes();
            events.push(Event {
                sequence,
                kind,
                object: Arc::new(object),
            });
        }
        if self.start.is_empty() {
            self.subscription.move_to(self.start_end);
        }
        events
    }

    /// The events of some changes of the next batch, which count as read.
    async fn batch_events(&mut self) -> Result<Vec<Event>, StoreError> {
        self.subscription.mark_seen();
        let batch = self
            .subscription
            .log
            .all_changes_after(&self.subscription.resources, self.subscription.read_to)
            .map_err(|_| StoreError::Expired)?;
        let Some(batch) = batch else {
            self.subscription.changed().await;
            return Ok(Vec::new());
        };
        let (positions, mut read_to) = self.next_positions(&batch);
        let mut events = Vec::new();
        let (mut bytes, mut steps) = (0, 0);
        for position in positions {
            let fuel = Fuel::of(MeteredEvaluation::WatchedChange, STEPS_PER_CHANGE);
            let event = self.event(&batch, position, &fuel)?;
            steps += fuel.used();
            bytes += event.as_ref().map_or(0, |event| event.object.bytes());
            events.extend(event);
            if bytes >= MAX_EVENT_BYTES || steps >= STEPS_AT_ONCE {
                read_to = batch.first + position as u64;
                break;
            }
        }
        self.subscription.move_to(read_to);
        if steps >= STEPS_AT_ONCE && events.is_empty() {
            yield_now().await;
        }
        Ok(events)
    }

    /// The positions of the changes to read now, and the number up to which no others need to be
    /// read.
    fn next_positions(&self, batch: &Batch) -> (Vec<usize>, u64) {
        let skipped = skipped(batch, self.subscription.read_to);
        let found = self
            .subscription
            .log
            .recent
            .positions(batch, &self.term_hashes);
        let mut positions: Vec<usize> = match found {
            Some(found) => found
                .into_iter()
                .map(|position| position as usize)
                .filter(|position| *position >= skipped)
                .collect(),
            None => (skipped..batch.changes.len())
                .take(MAX_CHANGES + 1)
                .collect(),
        };
        let mut read_to = batch.last();
        if positions.len() > MAX_CHANGES {
            positions.truncate(MAX_CHANGES);
            read_to = batch.first + positions.last().map_or(0, |last| *last as u64);
        }
        (positions, read_to)
    }

    fn event(
        &self,
        batch: &Batch,
        position: usize,
        fuel: &Fuel,
    ) -> Result<Option<Event>, StoreError> {
        let Some(change) = batch.changes.get(position) else {
            return Ok(None);
        };
        let selected = |document| {
            self.selected(document, fuel)
                .map_err(|OutOfFuel| StoreError::TooComplex)
        };
        let before = selected(change.before.as_ref())?;
        let after = selected(change.after.as_ref())?;
        let (kind, document) = match (before, after) {
            (None, None) => return Ok(None),
            (None, Some(new)) => (EventKind::Added, new),
            (Some(_), Some(new)) => (EventKind::Modified, new),
            (Some(old), None) => (EventKind::Deleted, old),
        };
        let sequence = batch.first + position as u64;
        let log = &self.subscription.log;
        let object = log.recent.object(sequence, kind == EventKind::Deleted, || {
            EventObject::new(Arc::clone(document), log.sequence().version(sequence))
        });
        Ok(Some(Event {
            sequence,
            kind,
            object,
        }))
    }

    fn may_select(&self, document: &StoredDocument) -> bool {
        let filter = self.filters.get(&document.origin.resource);
        filter.is_some_and(|filter| filter.has_cluster_of(document))
    }

    /// The document, if there is one and it is selected.
    fn selected<'d>(
        &self,
        document: Option<&'d Arc<StoredDocument>>,
        fuel: &Fuel,
    ) -> Result<Option<&'d Arc<StoredDocument>>, OutOfFuel> {
        let Some(document) = document else {
            return Ok(None);
        };
        let is_selected = match self.filters.get(&document.origin.resource) {
            Some(filter) => filter.selects(document, fuel)?,
            None => false,
        };
        Ok(is_selected.then_some(document))
    }
}

impl ResourceFilter {
    fn new(query: &Query) -> Result<Self, WatchError> {
        Ok(Self {
            clusters: query.clusters.iter().cloned().collect(),
            filter: Filter::new(query)?,
        })
    }

    fn has_cluster_of(&self, document: &StoredDocument) -> bool {
        self.clusters.is_empty() || self.clusters.contains(&document.origin.cluster)
    }

    fn selects(&self, document: &StoredDocument, fuel: &Fuel) -> Result<bool, OutOfFuel> {
        if !self.has_cluster_of(document) {
            return Ok(false);
        }
        self.filter.matches(document, fuel)
    }
}

/// The combined changes of an object.
#[derive(Default)]
struct ObjectHistory {
    /// Number of the first change.
    first: u64,
    /// Number of the last change.
    last: u64,
    was_selected: bool,
    /// The last selected state before the last change.
    last_selected: Option<Arc<StoredDocument>>,
    /// The current state, if it is selected.
    now: Option<Arc<StoredDocument>>,
}

impl ObjectHistory {
    fn event(self) -> Option<(u64, EventKind, Arc<StoredDocument>)> {
        let kind = match (&self.now, self.was_selected) {
            (Some(_), true) => EventKind::Modified,
            (Some(_), false) => EventKind::Added,
            (None, _) => EventKind::Deleted,
        };
        Some((self.first, kind, self.now.or(self.last_selected)?))
    }
}

/// The object's resource, and a hash of its name in all clusters.
fn name_of(document: &StoredDocument) -> (ResourceName, NameHash) {
    let name = NameHash::new(
        document.origin.cluster.as_str(),
        document.namespace(),
        document.name(),
    );
    (document.origin.resource.clone(), name)
}

/// How many changes of a batch are up to a number.
fn skipped(batch: &Batch, after: u64) -> usize {
    usize::try_from((after + 1).saturating_sub(batch.first)).unwrap_or(usize::MAX)
}

/// The changes of a batch after a number.
pub(super) fn numbered(batch: &Batch, after: u64) -> impl Iterator<Item = (u64, &Change)> {
    (batch.first..)
        .zip(&batch.changes)
        .skip(skipped(batch, after))
}
