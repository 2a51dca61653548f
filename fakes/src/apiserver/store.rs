//! The fake etcd: every object with its history, under one revision counter, and the watch cache.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use fleetdex_core::model::Resource;
use tokio::{sync::Notify, time::Instant};

use super::{name::Name, object::Object, status::Status};

/// All objects of all resources.
#[derive(Debug)]
pub(super) struct Etcd {
    /// The newest revision.
    revision: u64,
    /// The compacted revision: older history is gone.
    compacted: u64,
    /// Number of events in the watch cache of a resource.
    cache_capacity: usize,
    tables: BTreeMap<Name, Table>,
}

/// The objects of one resource.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) resource: Resource,
    rows: BTreeMap<Arc<str>, Row>,
    live: usize,
    /// Every change since the compacted revision, oldest first.
    history: VecDeque<Event>,
    /// The watch cache holds the events after this revision.
    cache_floor: u64,
    /// The newest event that the watch cache has dropped.
    newest_dropped: u64,
    /// Notified of every change and of other events that affect running watches.
    pub(super) changed: Arc<Notify>,
}

/// The versions of one object since the compacted revision, oldest first.
#[derive(Debug, Default)]
struct Row {
    states: Vec<State>,
}

#[derive(Debug)]
struct State {
    revision: u64,
    /// `None`: deleted.
    object: Option<Object>,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) revision: u64,
    pub(super) key: Arc<str>,
    pub(super) before: Option<Object>,
    /// `None`: deleted.
    pub(super) after: Option<Object>,
    pub(super) at: Instant,
    /// When watches may send it.
    pub(super) visible_at: Instant,
    /// Whether no watch may ever send it.
    pub(super) is_lost: bool,
}

/// An object at a revision.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) key: Arc<str>,
    pub(super) revision: u64,
    pub(super) object: Object,
}

impl Row {
    fn at(&self, revision: u64) -> Option<&State> {
        self.states
            .iter()
            .rev()
            .find(|state| state.revision <= revision)
    }

    /// Drops versions that cannot be requested any more. Returns whether any version is left.
    fn compact(&mut self, compacted: u64) -> bool {
        let known = self
            .states
            .iter()
            .rposition(|state| state.revision <= compacted)
            .unwrap_or(0);
        self.states.drain(..known);
        let is_gone = self
            .states
            .first()
            .is_some_and(|state| state.object.is_none() && state.revision <= compacted);
        if is_gone {
            self.states.remove(0);
        }
        !self.states.is_empty()
    }
}

impl Etcd {
    pub(super) fn new(resources: Vec<Resource>, cache_capacity: usize, revision: u64) -> Self {
        let tables = resources
            .into_iter()
            .map(|resource| (Name::from(&resource), Table::new(resource)))
            .collect();
        Self {
            revision,
            compacted: 0,
            cache_capacity,
            tables,
        }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (&Name, &Table)> {
        self.tables.iter()
    }

    pub(super) fn table(&self, resource: &Name) -> Result<&Table, Status> {
        self.tables.get(resource).ok_or_else(Status::not_served)
    }

    pub(super) fn table_mut(&mut self, resource: &Name) -> Result<&mut Table, Status> {
        self.tables.get_mut(resource).ok_or_else(Status::not_served)
    }

    /// Writes an object, or deletes it if `None`, at the next revision. Returns the revision.
    pub(super) fn write(
        &mut self,
        resource: &Name,
        key: Arc<str>,
        object: Option<Object>,
        at: Instant,
        visible_at: Instant,
    ) -> Result<u64, Status> {
        let table = self
            .tables
            .get_mut(resource)
            .ok_or_else(Status::not_served)?;
        self.revision += 1;
        table.write(self.revision, key, object, at, visible_at);
        table.bound_cache(self.cache_capacity);
        table.changed.notify_waiters();
        Ok(self.revision)
    }

    /// Compacts the history up to a revision: older lists cannot continue, and watches cannot start
    /// before it.
    pub(super) fn compact(&mut self, revision: u64) {
        self.compacted = revision.min(self.revision).max(self.compacted);
        for table in self.tables.values_mut() {
            table.compact(self.compacted);
        }
    }

    /// Restores the state of a revision, which must not be compacted.
    pub(super) fn restore(&mut self, revision: u64) -> Result<(), Status> {
        if revision < self.compacted || revision > self.revision {
            return Err(Status::expired(format!(
                "revision {revision} is not one that can be restored"
            )));
        }
        self.revision = revision;
        for table in self.tables.values_mut() {
            table.restore(revision);
        }
        self.empty_caches();
        Ok(())
    }

    /// Empties the watch caches, as a restart does.
    pub(super) fn empty_caches(&mut self) {
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.cache_floor = revision;
        }
        self.notify_all();
    }

    pub(super) fn notify_all(&self) {
        for table in self.tables.values() {
            table.changed.notify_waiters();
        }
    }

    /// Makes delayed events visible to watches at once.
    pub(super) fn make_all_visible(&mut self, now: Instant) {
        for event in self
            .tables
            .values_mut()
            .flat_map(|table| table.history.iter_mut())
        {
            event.visible_at = event.visible_at.min(now);
        }
        self.notify_all();
    }
}

impl Table {
    fn new(resource: Resource) -> Self {
        let (rows, history, changed) = (BTreeMap::new(), VecDeque::new(), Arc::default());
        Self {
            resource,
            rows,
            live: 0,
            history,
            cache_floor: 0,
            newest_dropped: 0,
            changed,
        }
    }

    fn write(
        &mut self,
        revision: u64,
        key: Arc<str>,
        object: Option<Object>,
        at: Instant,
        visible_at: Instant,
    ) {
        let row = self.rows.entry(key.clone()).or_default();
        let before = row.states.last().and_then(|state| state.object.clone());
        row.states.push(State {
            revision,
            object: object.clone(),
        });
        self.live += usize::from(object.is_some());
        self.live -= usize::from(before.is_some());
        self.history.push_back(Event {
            revision,
            key,
            before,
            after: object,
            at,
            visible_at,
            is_lost: false,
        });
    }

    fn bound_cache(&mut self, capacity: usize) {
        if let Some(first) = self.history.len().checked_sub(capacity) {
            let floor = self
                .history
                .get(first)
                .map_or(0, |event| event.revision - 1);
            self.cache_floor = self.cache_floor.max(floor);
            let last_dropped = first.checked_sub(1).and_then(|last| self.history.get(last));
            self.newest_dropped = last_dropped
                .map_or(0, |event| event.revision)
                .max(self.newest_dropped);
        }
    }

    fn compact(&mut self, compacted: u64) {
        self.cache_floor = self.cache_floor.max(compacted);
        while let Some(event) = self
            .history
            .pop_front_if(|event| event.revision <= compacted)
        {
            self.newest_dropped = self.newest_dropped.max(event.revision);
            let is_empty = self
                .rows
                .get_mut(&event.key)
                .is_some_and(|row| !row.compact(compacted));
            if is_empty {
                self.rows.remove(&event.key);
            }
        }
    }

    fn restore(&mut self, revision: u64) {
        while let Some(event) = self.history.pop_back_if(|event| event.revision > revision) {
            let Some(row) = self.rows.get_mut(&event.key) else {
                continue;
            };
            row.states.retain(|state| state.revision <= revision);
            if row.states.is_empty() {
                self.rows.remove(&event.key);
            }
        }
        self.newest_dropped = self.newest_dropped.min(revision);
        self.live = self
            .rows
            .values()
            .filter(|row| {
                row.states
                    .last()
                    .is_some_and(|state| state.object.is_some())
            })
            .count();
    }

    /// Returns the current version of an object, unless it is deleted.
    pub(super) fn get(&self, key: &str) -> Option<(u64, &Object)> {
        let state = self.rows.get(key)?.states.last()?;
        Some((state.revision, state.object.as_ref()?))
    }

    /// Returns the objects under a prefix from a key on, at a revision, in key order.
    pub(super) fn scan(
        &self,
        prefix: &str,
        from: &str,
        revision: u64,
    ) -> impl Iterator<Item = (&Arc<str>, u64, &Object)> {
        let start = if from > prefix { from } else { prefix };
        let rows = self
            .rows
            .range::<str, _>((Bound::Included(start), Bound::Unbounded));
        rows.take_while(move |(key, _)| key.starts_with(prefix))
            .filter_map(move |(key, row)| {
                let state = row.at(revision)?;
                Some((key, state.revision, state.object.as_ref()?))
            })
    }

    /// Returns the current number of objects.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Returns the first revision at which watches can start.
    pub(super) fn cache_floor(&self) -> u64 {
        self.cache_floor
    }

    /// Returns the revision of the newest change; 0 without a change.
    pub(super) fn newest(&self) -> u64 {
        self.history
            .back()
            .map_or(0, |event| event.revision)
            .max(self.newest_dropped)
    }

    /// Whether the watch cache has dropped changes after a revision, so that a watch at it has
    /// missed them.
    pub(super) fn has_dropped_after(&self, revision: u64) -> bool {
        revision < self.newest_dropped
    }

    /// Returns the changes after a revision, oldest first.
    pub(super) fn after(&mut self, revision: u64) -> impl Iterator<Item = &mut Event> {
        let first = self
            .history
            .partition_point(|event| event.revision <= revision);
        self.history.range_mut(first..)
    }

    /// Returns the changes up to a revision, newest first.
    pub(super) fn before(&self, revision: u64) -> impl Iterator<Item = &Event> {
        let end = self
            .history
            .partition_point(|event| event.revision <= revision);
        self.history.range(..end).rev()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::{
        super::{identity::Identity, resource::usual},
        *,
    };

    fn etcd() -> Etcd {
        Etcd::new(usual(), 3, 1)
    }

    fn pods() -> Name {
        Name::from("pods")
    }

    fn put(etcd: &mut Etcd, key: &str, uid: &str) -> u64 {
        let identity = Identity {
            uid: uid.into(),
            ..Identity::default()
        };
        let object = Object::from_value(
            key,
            &identity,
            Map::from_iter([("spec".to_owned(), json!({}))]),
        );
        let now = Instant::now();
        etcd.write(&pods(), key.into(), Some(object), now, now)
            .unwrap()
    }

    fn remove(etcd: &mut Etcd, key: &str) -> u64 {
        let now = Instant::now();
        etcd.write(&pods(), key.into(), None, now, now).unwrap()
    }

    fn objects_at(etcd: &Etcd, prefix: &str, revision: u64) -> Vec<String> {
        let table = etcd.table(&pods()).unwrap();
        table
            .scan(prefix, "", revision)
            .map(|(key, revision, object)| format!("{key}@{revision} {}", object.identity().uid))
            .collect()
    }

    #[test]
    fn every_revision_returns_its_objects_in_key_order() {
        let mut etcd = etcd();
        let first = put(&mut etcd, "web/b", "1");
        put(&mut etcd, "web-2/a", "2");
        put(&mut etcd, "web/a", "3");
        remove(&mut etcd, "web/b");
        let last = put(&mut etcd, "web/b", "4");
        assert_eq!(objects_at(&etcd, "", first), ["web/b@2 1"]);
        assert_eq!(
            objects_at(&etcd, "", last),
            ["web-2/a@3 2", "web/a@4 3", "web/b@6 4"]
        );
        assert_eq!(objects_at(&etcd, "web/", last - 1), ["web/a@4 3"]);
        let table = etcd.table(&pods()).unwrap();
        assert_eq!(
            table.scan("", "web/a\0", last).count(),
            1,
            "a continued list begins after its last key"
        );
        assert_eq!(table.live(), 3);
    }

    #[test]
    fn compaction_drops_old_versions_and_deleted_objects_only() {
        let mut etcd = etcd();
        put(&mut etcd, "a/old", "1");
        put(&mut etcd, "a/gone", "2");
        remove(&mut etcd, "a/gone");
        let changed = put(&mut etcd, "a/old", "1");
        etcd.compact(changed);
        assert_eq!(objects_at(&etcd, "", changed), ["a/old@5 1"]);
        let table = etcd.table(&pods()).unwrap();
        assert_eq!(
            (
                table.rows.len(),
                table.rows["a/old"].states.len(),
                table.history.len()
            ),
            (1, 1, 0)
        );
        assert_eq!(table.cache_floor(), changed);
        etcd.compact(1_000);
        assert_eq!(etcd.compacted(), changed, "the future cannot be compacted");
    }

    #[test]
    fn a_restore_brings_back_the_objects_and_the_counter_of_its_revision() {
        let mut etcd = etcd();
        put(&mut etcd, "a/kept", "1");
        let point = put(&mut etcd, "a/deleted", "2");
        remove(&mut etcd, "a/deleted");
        put(&mut etcd, "a/kept", "1");
        put(&mut etcd, "a/new", "3");
        etcd.restore(point).unwrap();
        assert_eq!(etcd.revision(), point);
        assert_eq!(
            objects_at(&etcd, "", point),
            ["a/deleted@3 2", "a/kept@2 1"]
        );
        assert_eq!(etcd.table(&pods()).unwrap().live(), 2);
        assert_eq!(put(&mut etcd, "a/other", "4"), point + 1);
        etcd.compact(point);
        assert!(etcd.restore(point - 1).is_err());
    }

    #[test]
    fn the_watch_cache_keeps_the_newest_events_and_a_restart_empties_it() {
        let mut etcd = etcd();
        let revisions: Vec<u64> = (0..5).map(|_| put(&mut etcd, "a/a", "1")).collect();
        assert_eq!(etcd.table(&pods()).unwrap().cache_floor(), revisions[1]);
        let later: Vec<u64> = etcd
            .table_mut(&pods())
            .unwrap()
            .after(revisions[3])
            .map(|event| event.revision)
            .collect();
        assert_eq!(later, [revisions[4]]);
        etcd.empty_caches();
        assert_eq!(etcd.table(&pods()).unwrap().cache_floor(), etcd.revision());
    }
}
