//! Compares a revision with the one it replaces, and logs the differences before the aliases are
//! swapped.

use std::{collections::VecDeque, time::Duration};

use fleetdex_core::{
    model::{Document, IndexName, JsonLine, document_id},
    query::{Requester, ResourceName},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::RevisionSwap;
use crate::{
    StoreError,
    bulk::Write,
    changes::Change,
    opensearch::{
        connection::responses::{Purpose, fewer},
        dsl::of_resource,
        engine::Engine,
        read::{
            contexts::KEEP_ALIVE, points_in_time::OpenPointInTime, search_response::RawHit,
            versions::by_name,
        },
    },
};

/// Documents to read at a time from each index: two megabytes of usual ones.
const PAGE: usize = 500;
/// Bytes of documents to compare at a time.
const PAGE_BYTES: usize = 16 << 20;
/// How long one swap waits in all for slow watches; after that they have to list again.
const PATIENCE: Duration = Duration::from_secs(20);

/// How many of the sort keys are the name of the object.
const NAME_KEYS: usize = 2;

/// The documents of a resource in one index, ordered by name.
struct ResourceReader<'e> {
    engine: &'e Engine,
    index: &'e IndexName,
    pit: Option<OpenPointInTime>,
    query: Value,
    after: Option<Vec<Value>>,
    page: VecDeque<RawHit<JsonLine>>,
    /// Documents to request.
    size: usize,
    is_at_end: bool,
}

impl Engine {
    /// Logs the differences between two indices, of the tracked resources. `between` returns the
    /// old and the new index of each resource; equal ones have no differences.
    pub(crate) async fn log_all_differences<'i>(
        &'i self,
        swap: &mut RevisionSwap,
        between: impl Fn(&ResourceName) -> (Option<&'i IndexName>, Option<&'i IndexName>),
    ) {
        let deadline = Instant::now() + PATIENCE;
        for resource in swap.tracked.clone() {
            let (old, new) = between(&resource);
            if old == new {
                continue;
            }
            let mut readers = [old, new]
                .map(|index| index.map(|index| ResourceReader::new(self, index, &resource)));
            let logged = self.diff_resource(swap, &mut readers, deadline).await;
            for reader in readers.iter_mut().flatten() {
                reader.close().await;
            }
            if let Err(error) = logged {
                tracing::warn!(resource = %resource.plural, %error, "cannot log the differences of a revision; watches have to list again");
                swap.is_complete = false;
                return;
            }
        }
    }

    async fn diff_resource(
        &self,
        swap: &RevisionSwap,
        readers: &mut [Option<ResourceReader<'_>>; 2],
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let [old, new] = readers;
        let mut pairs = Vec::new();
        let (mut last_name, mut bytes) = (None, 0);
        loop {
            let left = next_sort_key(old.as_mut()).await?;
            let right = next_sort_key(new.as_mut()).await?;
            let (from_old, from_new) = match (&left, &right) {
                (None, None) => return self.log_differences(swap, pairs, deadline).await,
                (Some(left), Some(right)) => (left <= right, right <= left),
                (left, right) => (left.is_some(), right.is_some()),
            };
            let before = old
                .as_mut()
                .filter(|_| from_old)
                .and_then(ResourceReader::take);
            let after = new
                .as_mut()
                .filter(|_| from_new)
                .and_then(ResourceReader::take);
            // Documents of one name are logged together, unless a member shows more of them than
            // there can be.
            let name = if from_old { left } else { right }
                .map(|key| key.into_iter().take(NAME_KEYS).collect::<Vec<_>>());
            let is_full =
                |factor: usize| pairs.len() >= factor * PAGE || bytes >= factor * PAGE_BYTES;
            if is_full(1) && name != last_name || is_full(2) {
                self.log_differences(swap, std::mem::take(&mut pairs), deadline)
                    .await?;
                bytes = 0;
            }
            bytes += [&before, &after]
                .into_iter()
                .flatten()
                .filter_map(|write| write.document.body.as_ref())
                .map(|body| body.len())
                .sum::<usize>();
            last_name = name;
            pairs.push((before, after));
        }
    }

    async fn log_differences(
        &self,
        swap: &RevisionSwap,
        pairs: Vec<(Option<Write>, Option<Write>)>,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let (old, new): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let old = swap.packing.pack_some(old).await;
        let new = swap.packing.pack_some(new).await;
        let mut changes = Vec::new();
        for (before, after) in old.into_iter().zip(new) {
            let is_same = before
                .as_ref()
                .zip(after.as_ref())
                .is_some_and(|(old, new)| old.equals(new.version, new.fingerprint));
            if !is_same && (before.is_some() || after.is_some()) {
                changes.push(Change { before, after });
            }
        }
        // A client that keys objects by name must get the deletion of an object before a new one of
        // that name.
        changes.sort_by_key(|change| change.after.is_some());
        let (log, patience) = (
            &swap.feed.0.log,
            deadline.saturating_duration_since(Instant::now()),
        );
        log.wait_for_room(&changes, patience).await;
        log.append(&changes);
        Ok(())
    }
}

/// The sort key of the next document.
async fn next_sort_key(
    reader: Option<&mut ResourceReader<'_>>,
) -> Result<Option<Vec<String>>, StoreError> {
    let Some(reader) = reader else {
        return Ok(None);
    };
    if reader.page.is_empty() && !reader.is_at_end {
        reader.read().await?;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(reader
        .page
        .front()
        .map(|hit| hit.sort.iter().map(text).collect()))
}

impl<'e> ResourceReader<'e> {
    fn new(engine: &'e Engine, index: &'e IndexName, resource: &ResourceName) -> Self {
        let query = json!({ "bool": { "filter": of_resource(resource) } });
        Self {
            engine,
            index,
            pit: None,
            query,
            after: None,
            page: VecDeque::new(),
            size: PAGE,
            is_at_end: false,
        }
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let pit = match self.pit.take() {
            Some(pit) => pit,
            None => {
                self.engine
                    .open_pit(self.index.as_str(), false, &Requester::Operator)
                    .await?
            }
        };
        let mut body = json!({
            "size": self.size,
            "pit": { "id": pit.id, "keep_alive": KEEP_ALIVE },
            "query": self.query,
            "sort": by_name(),
            "version": true,
            "track_total_hits": false,
        });
        if let Some(after) = &self.after {
            body["search_after"] = json!(after);
        }
        let pit = self.pit.insert(pit);
        let answer = loop {
            match self
                .engine
                .run_search(Purpose::Upkeep, "/_search".to_owned(), &body)
                .await
            {
                Err(StoreError::AnswerTooLarge { .. }) if let Some(less) = fewer(self.size) => {
                    self.size = less;
                    body["size"] = less.into();
                }
                other => break other?,
            }
        };
        pit.renamed(answer.pit_id);
        self.is_at_end = answer.hits.hits.len() < self.size;
        self.after = answer.hits.hits.last().map(|hit| hit.sort.clone());
        self.page = answer.hits.hits.into();
        Ok(())
    }

    /// The next document, as a write of it.
    fn take(&mut self) -> Option<Write> {
        let hit = self.page.pop_front()?;
        // Every version is a positive integer.
        let version = hit.version?.to_string().parse().ok()?;
        Some(Write {
            index: self.index.clone(),
            document: Document {
                id: document_id(&hit.id).into(),
                version,
                body: hit.source,
                is_partial: false,
            },
        })
    }

    async fn close(&mut self) {
        if let Some(pit) = self.pit.take() {
            pit.close().await;
        }
    }
}
