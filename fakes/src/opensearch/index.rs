//! An index: its documents and tombstones, and the part that searches see.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::{
    document::{self, Analysis, Document, ROUTING, Term},
    mapping::Mapping,
    response::Exception,
    searchable::{Searchable, routing},
    settings::{Changes, Settings},
    version::{Current, Versioning},
};

const DEFAULT_GC_DELETES: Duration = Duration::from_mins(1);
const DEFAULT_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// An index.
#[derive(Debug)]
pub(super) struct Index {
    pub name: String,
    pub uuid: String,
    /// Aliases with their configurations.
    pub aliases: BTreeMap<String, Value>,
    mapping: Arc<Mapping>,
    settings: Settings,
    gc_deletes: Duration,
    refresh_interval: Option<Duration>,
    entries: BTreeMap<Arc<str>, Entry>,
    searchable: Searchable,
    /// The routings of these documents, by their ids.
    routings: BTreeMap<Arc<str>, Arc<str>>,
    /// Writes since the last refresh.
    unrefreshed: Vec<(Instant, Arc<str>, Option<Arc<Document>>)>,
    created: Instant,
    /// The sequence number of the next write.
    sequence: u64,
}

#[derive(Debug)]
enum Entry {
    Live(Arc<Document>),
    /// A tombstone, valid for `gc_deletes`; `at` is `None` if a restart has lost it.
    Deleted {
        version: u64,
        at: Option<Instant>,
    },
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub version: u64,
    /// Counts the writes to the index, from 0.
    pub sequence: u64,
    /// Whether the document existed before.
    pub existed: bool,
    /// Whether it was accepted only because the tombstone of a newer delete was lost or expired.
    pub resurrected: bool,
}

/// The view of an index in a search.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub index: String,
    pub uuid: String,
    pub mapping: Arc<Mapping>,
    pub documents: Searchable,
    pub shards: u64,
}

impl Index {
    /// Creates an empty index.
    pub fn new(
        name: &str,
        uuid: String,
        mapping: Mapping,
        settings: Settings,
        created: Instant,
    ) -> Self {
        let mut index = Self {
            name: name.to_owned(),
            uuid,
            aliases: BTreeMap::new(),
            mapping: Arc::new(mapping),
            settings,
            gc_deletes: DEFAULT_GC_DELETES,
            refresh_interval: None,
            entries: BTreeMap::new(),
            searchable: Searchable::default(),
            routings: BTreeMap::new(),
            unrefreshed: Vec::new(),
            created,
            sequence: 0,
        };
        index.read_settings();
        index
    }

    fn read_settings(&mut self) {
        // "-1" keeps tombstones for ever.
        self.gc_deletes = self
            .settings
            .duration("gc_deletes", DEFAULT_GC_DELETES)
            .unwrap_or(Duration::MAX);
        self.refresh_interval = self
            .settings
            .duration("refresh_interval", DEFAULT_REFRESH_INTERVAL);
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Changes settings.
    pub fn configure(&mut self, changes: &Changes, now: Instant) {
        self.apply_refreshes(now);
        self.settings.apply(changes);
        self.read_settings();
    }

    /// Extends the mapping. Existing documents keep their terms.
    pub fn extend_mapping(&mut self, update: &Value) -> Result<(), Exception> {
        self.mapping = Arc::new(self.mapping.merge(update)?);
        Ok(())
    }

    /// Returns the block of writes, as status and reason of an exception.
    pub fn write_block(&self) -> Option<(u16, &'static str)> {
        if self.settings.is_set("blocks.write") {
            return Some(super::blocks::WRITE);
        }
        if self.settings.is_set("blocks.read_only") {
            return Some((403, "FORBIDDEN/5/index read-only (api)"));
        }
        self.metadata_block()
    }

    /// Returns the block that also applies to changes of mapping and aliases.
    pub fn metadata_block(&self) -> Option<(u16, &'static str)> {
        self.settings
            .is_set("blocks.read_only_allow_delete")
            .then_some(super::blocks::FLOOD_STAGE)
    }

    /// Stores a document.
    pub fn index(
        &mut self,
        id: &str,
        routing: Option<&str>,
        source: &[u8],
        versioning: Versioning,
        now: Instant,
    ) -> Result<Written, Exception> {
        let (id, written) = self.accept(id, versioning, now)?;
        let mut analysis = self.analyse(&id, source)?;
        if let Some(routing) = routing {
            let term = Term::Text(routing.into());
            analysis.terms.insert(ROUTING.into(), vec![term]);
        }
        self.sequence += 1;
        let document = Arc::new(Document {
            id: Arc::clone(&id),
            version: written.version,
            sequence: written.sequence,
            source: analysis.source,
            terms: analysis.terms,
            ignored: analysis.ignored,
        });
        self.entries
            .insert(Arc::clone(&id), Entry::Live(Arc::clone(&document)));
        self.unrefreshed.push((now, id, Some(document)));
        Ok(written)
    }

    fn analyse(&mut self, id: &str, source: &[u8]) -> Result<Analysis, Exception> {
        let mut analysis = document::analyse(&self.mapping, id, source)?;
        while !analysis.added.is_empty() {
            let added = serde_json::json!({ "properties": analysis.added });
            self.extend_mapping(&added)?;
            analysis = document::analyse(&self.mapping, id, source)?;
        }
        Ok(analysis)
    }

    /// Deletes a document and stores a tombstone, even if the document does not exist.
    pub fn delete(
        &mut self,
        id: &str,
        versioning: Versioning,
        now: Instant,
    ) -> Result<Written, Exception> {
        let (id, written) = self.accept(id, versioning, now)?;
        self.sequence += 1;
        self.entries.insert(
            Arc::clone(&id),
            Entry::Deleted {
                version: written.version,
                at: Some(now),
            },
        );
        self.unrefreshed.push((now, id, None));
        Ok(written)
    }

    /// Returns the current state of an id.
    fn current(&self, id: &str, now: Instant) -> Current {
        match self.entries.get(id) {
            None => Current::default(),
            Some(Entry::Live(document)) => Current {
                version: Some(document.version),
                sequence: Some(document.sequence),
                forgotten: None,
            },
            Some(Entry::Deleted { version, at })
                if at.is_some_and(|at| now.duration_since(at) <= self.gc_deletes) =>
            {
                Current {
                    version: Some(*version),
                    ..Current::default()
                }
            }
            Some(Entry::Deleted { version, .. }) => Current {
                forgotten: Some(*version),
                ..Current::default()
            },
        }
    }

    /// Checks a write for a version conflict. Returns the stored id and the result.
    fn accept(
        &self,
        id: &str,
        versioning: Versioning,
        now: Instant,
    ) -> Result<(Arc<str>, Written), Exception> {
        let current = self.current(id, now);
        let version = versioning.next(&current).map_err(|reason| {
            Exception::new(
                409,
                "version_conflict_engine_exception",
                format!("[{id}]: version conflict, {reason}"),
            )
            .with("index", self.name.as_str())
            .with("shard", "0")
            .with("index_uuid", self.uuid.as_str())
        })?;
        let stored = self
            .entries
            .get_key_value(id)
            .map_or_else(|| Arc::from(id), |(stored, _)| Arc::clone(stored));
        let written = Written {
            version,
            sequence: self.sequence,
            existed: current.sequence.is_some(),
            resurrected: current
                .forgotten
                .is_some_and(|forgotten| forgotten > version),
        };
        Ok((stored, written))
    }

    /// Returns a document, refreshed or not.
    pub fn get(&self, id: &str) -> Option<&Arc<Document>> {
        match self.entries.get(id)? {
            Entry::Live(document) => Some(document),
            Entry::Deleted { .. } => None,
        }
    }

    /// Returns every document, refreshed or not.
    pub fn documents(&self) -> impl Iterator<Item = &Arc<Document>> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::Live(document) => Some(document),
            Entry::Deleted { .. } => None,
        })
    }

    /// Returns the documents that searches find until the next refresh.
    pub fn searchable_documents(&self) -> impl Iterator<Item = &Arc<Document>> {
        self.searchable.iter()
    }

    /// Makes all writes visible to searches.
    pub fn refresh(&mut self) {
        let all = self.unrefreshed.len();
        self.make_searchable(all);
    }

    /// Applies the periodic refreshes since the last call.
    fn apply_refreshes(&mut self, now: Instant) {
        let Some(interval) = self.refresh_interval.filter(|interval| !interval.is_zero()) else {
            return;
        };
        let age = now.duration_since(self.created).as_nanos();
        let since_refresh = age % interval.as_nanos();
        let refreshed = |at: &Instant| now.duration_since(*at).as_nanos() > since_refresh;
        let count = self
            .unrefreshed
            .iter()
            .take_while(|(at, _, _)| refreshed(at))
            .count();
        self.make_searchable(count);
    }

    fn make_searchable(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        for (_, id, document) in self.unrefreshed.drain(..count) {
            if let Some(routing) = self.routings.remove(&id) {
                self.searchable.remove(&routing, &id);
            }
            if let Some(document) = document {
                self.routings.insert(id, routing(&document));
                self.searchable.insert(document);
            }
        }
    }

    /// Returns the current view of searches.
    pub fn view(&mut self, now: Instant) -> View {
        self.apply_refreshes(now);
        View {
            index: self.name.clone(),
            uuid: self.uuid.clone(),
            mapping: Arc::clone(&self.mapping),
            documents: self.searchable.clone(),
            shards: self.shards(),
        }
    }

    /// Returns the number of primary shards.
    pub fn shards(&self) -> u64 {
        self.settings.number("number_of_shards", 1)
    }

    /// Returns the number of copies of each shard. Only the first copy has a node.
    pub fn copies(&self) -> u64 {
        1 + self.settings.number("number_of_replicas", 1)
    }

    /// Restarts the node: acknowledged writes stay and searches see them; tombstones are lost.
    pub fn restart(&mut self) {
        for entry in self.entries.values_mut() {
            if let Entry::Deleted { at, .. } = entry {
                *at = None;
            }
        }
        self.refresh();
    }

    /// Returns the names of the aliases.
    pub fn alias_names(&self) -> BTreeSet<String> {
        self.aliases.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::opensearch::settings;

    fn index(settings: &Value) -> Index {
        let mut read = Settings::default();
        read.apply(&settings::read(settings).unwrap());
        Index::new(
            "i",
            "uuid".to_owned(),
            Mapping::new(&json!({})).unwrap(),
            read,
            Instant::now(),
        )
    }

    fn put(index: &mut Index, version: u64) -> Result<Written, u16> {
        index
            .index(
                "a",
                None,
                b"{}",
                Versioning::ExternalGte(version),
                Instant::now(),
            )
            .map_err(|exception| exception.status)
    }

    fn delete(index: &mut Index, version: u64) -> Result<Written, u16> {
        index
            .delete("a", Versioning::ExternalGte(version), Instant::now())
            .map_err(|exception| exception.status)
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_version_is_rejected_and_an_equal_version_is_not() {
        let mut index = index(&json!({}));
        assert!(!put(&mut index, 5).unwrap().existed);
        assert!(put(&mut index, 5).unwrap().existed);
        assert_eq!(put(&mut index, 4), Err(409));
        assert_eq!(delete(&mut index, 4), Err(409));
        assert!(delete(&mut index, 6).unwrap().existed);
        assert!(!delete(&mut index, 6).unwrap().existed);
        assert_eq!(put(&mut index, 5), Err(409));
        assert!(!put(&mut index, 6).unwrap().existed);
    }

    #[tokio::test(start_paused = true)]
    async fn after_gc_deletes_an_older_write_restores_a_deleted_document() {
        let mut index = index(&json!({ "gc_deletes": "3s" }));
        put(&mut index, 10).unwrap();
        delete(&mut index, 20).unwrap();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(put(&mut index, 15), Err(409));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(put(&mut index, 15).unwrap().resurrected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_loses_tombstones_and_refreshes_acknowledged_writes() {
        let mut index = index(&json!({ "refresh_interval": "-1" }));
        put(&mut index, 10).unwrap();
        delete(&mut index, 20).unwrap();
        index.restart();
        assert!(put(&mut index, 15).unwrap().resurrected);
        assert!(index.view(Instant::now()).documents.iter().next().is_none());
        index.restart();
        assert_eq!(index.view(Instant::now()).documents.iter().count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn searches_see_a_write_after_the_next_refresh() {
        let mut index = index(&json!({ "refresh_interval": "5s" }));
        tokio::time::advance(Duration::from_secs(6)).await;
        put(&mut index, 1).unwrap();
        tokio::time::advance(Duration::from_millis(3_900)).await;
        assert!(index.view(Instant::now()).documents.iter().next().is_none());
        assert!(index.get("a").is_some());
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(index.view(Instant::now()).documents.iter().count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_does_not_change() {
        let mut index = index(&json!({}));
        put(&mut index, 1).unwrap();
        index.refresh();
        let before = index.view(Instant::now());
        delete(&mut index, 2).unwrap();
        index.refresh();
        assert_eq!(before.documents.iter().count(), 1);
        assert!(index.view(Instant::now()).documents.iter().next().is_none());
    }
}
