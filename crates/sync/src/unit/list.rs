//! Lists a unit: compares the stored documents with what the member shows, and writes only the
//! difference.

use std::sync::Arc;

use bytes::Bytes;
use fleetdex_clusters::watch::{ListPage, ListerWatcher, PageOutcome, Pause, StreamFault};
use fleetdex_core::{
    model::{Document, NameHash, Object, ObjectError, Unit, Version, quoted},
    planted::{Bug, planted},
};
use fleetdex_store::{Extent, MadeBy, StoreError, StoredVersion};
use fleetdex_telemetry::{Traces, traces::within};

use super::{
    end::{Interruption, UnitEnd},
    line::garbled,
    listing::Listing,
    runner::{StepResult, UnitRunner},
};
use crate::{
    progress::{FailureCause, count_selected},
    relist::{ListedAction, StoredDocuments},
    sink::{Wait, indexed_at},
    write_trace::WriteTrace,
};

/// The member's history went back; why this is known.
struct HistoryWentBack(String);

/// Why a page is not handled to its end.
type PageInterruption = Interruption<HistoryWentBack>;

impl UnitRunner {
    /// Reads a list to its end or to the first failure. It fetches the next page while it handles
    /// the current one.
    pub(super) async fn list(
        &mut self,
        continue_token: Option<String>,
        limit: Option<u32>,
    ) -> StepResult {
        let lists = Arc::clone(&self.task.lists);
        let Ok(_permit) = lists.acquire().await else {
            return Ok(Pause::Backoff);
        };
        if continue_token.is_none() {
            self.begin_list().await?;
        }
        let source = PageSource {
            source: self.task.source.clone(),
            traces: self.task.traces.clone(),
            unit: self.task.unit.clone(),
        };
        let mut fetched = source.fetch(continue_token.as_deref(), limit).await?;
        loop {
            let body = &fetched.body;
            self.trace = fetched.trace.take();
            self.task.metrics.list_pages.inc();
            self.task.metrics.list_bytes.inc_by(body.len() as u64);
            let page = ListPage::parse(body)
                .and_then(|page| page.within(limit))
                .map_err(|error| garbled(&error))?;
            let version = page.version;
            let next_token = page.continue_token.clone();
            if self
                .machine
                .page_listed(version, page.continue_token.clone())
                == PageOutcome::Inconsistent
            {
                return Ok(Pause::Backoff);
            }
            self.succeeded();
            if let Some(trace) = &self.trace {
                trace.read(page.items.len());
            }
            let fetch = source.fetch_next(next_token.as_deref(), limit);
            let skipped =
                planted(Bug::SkipLastPage) && next_token.is_none() && self.list.objects > 0;
            let items = if skipped { &[] } else { &*page.items };
            let (next, taken) = tokio::join!(fetch, self.handle_page(items, version));
            match taken {
                Ok(()) => {}
                Err(Interruption::Fault(HistoryWentBack(what))) => {
                    return Ok(self.history_went_back(&what).await?);
                }
                Err(Interruption::End(end)) => return Err(end.into()),
            }
            match next {
                Some(Err(_)) if planted(Bug::PruneOnInterruptedList) => {
                    return Ok(self.complete(version).await?);
                }
                Some(next) => fetched = next?,
                None => return Ok(self.complete(version).await?),
            }
        }
    }

    /// Reads the stored versions. The member is listed only afterwards, because the list has to be
    /// newer.
    async fn begin_list(&mut self) -> Result<(), UnitEnd> {
        self.task.progress.list_started();
        if let Some(enrichment) = &self.task.enrichment {
            enrichment.list_begun();
        }
        // A write in flight could store a document, of an object that the member no longer has,
        // after the stored versions are read.
        for progress in &self.task.predecessors {
            progress.drained().await;
        }
        self.task.progress.drained().await;
        self.list = Listing::default();
        while let Err(interruption) = self.read_known().await {
            let error = match interruption {
                Interruption::Fault(error) => error,
                Interruption::End(end) => return Err(end),
            };
            tracing::debug!(unit = %self.task.unit, %error, "cannot read the stored versions, retrying");
            self.task
                .progress
                .failing(FailureCause::Store, error.reason(), error.to_string());
            let delay = self.next_delay();
            tokio::time::sleep(delay).await;
        }
        Ok(())
    }

    async fn read_known(&mut self) -> Result<(), Interruption<StoreError>> {
        let store = self.task.sink.pipeline.store.opened().await;
        let projector = &self.task.sink.projector;
        let mut known = StoredDocuments::new(projector.id_prefix());
        let visit = &mut |stored: StoredVersion<'_>| {
            let name =
                (!stored.name.is_empty()).then(|| projector.name(stored.namespace, stored.name));
            known.add(stored.id, stored.version, name);
        };
        let extent = Extent::of(&self.task.unit);
        store.visit_versions(&self.revision, &extent, visit).await?;
        // What is stored is known only now: a visit refreshes the index.
        self.task.check_rules_of_documents(&self.revision).await?;
        let rules_hash = self.task.rules_hash.as_deref();
        // What a webhook says of an object is asked for when it is written.
        let asks_webhook = self.task.enrichment.is_some() && rules_hash.is_some();
        if self.writes_again && !asks_webhook {
            let other_rules = rules_hash.map_or(MadeBy::AnyRules, MadeBy::OtherRules);
            self.writes_again = store
                .has_documents_made_by(&self.revision, &extent, &other_rules)
                .await?;
        }
        self.list.stored = known;
        Ok(())
    }

    /// Parses each object once. The page itself is only split into raw objects, so that no more
    /// than one parsed object is in memory.
    async fn handle_page(
        &mut self,
        items: &[&str],
        version: Version,
    ) -> Result<(), PageInterruption> {
        let now = indexed_at();
        for item in items {
            match Object::parse_any(item) {
                Ok((object, unfit)) => {
                    self.handle_listed(&object, unfit, &now, version).await?;
                }
                Err(error) => {
                    self.list.unidentified += 1;
                    self.skip(&error);
                }
            }
        }
        Ok(())
    }

    async fn handle_listed(
        &mut self,
        object: &Object<'_>,
        unfit: Option<ObjectError>,
        now: &str,
        list_version: Version,
    ) -> Result<(), PageInterruption> {
        let sink = Arc::clone(&self.task.sink);
        let (id, name) = (sink.projector.id(object.uid()), sink.name(object));
        if !sink.filters.selects(object) {
            if let Some(version) = self.list.stored.remove_unselected(&id) {
                // At its own version: the object still exists and may be selected again unchanged.
                self.delete(id, version, Some(name)).await;
            }
            return Ok(());
        }
        self.list.objects += 1;
        let selections = sink.filters.selections_of(object);
        count_selected(&mut self.list.selected, &selections, true);
        match self.list.stored.listed(&id, object.version()) {
            ListedAction::Unchanged if !self.writes_again => {
                self.task.metrics.unchanged.inc();
            }
            ListedAction::Unchanged | ListedAction::Update => {
                self.index(object, unfit, name, now, Wait::ForRoom).await?;
            }
            ListedAction::Create => {
                self.delete_namesakes(name, list_version).await?;
                self.index(object, unfit, name, now, Wait::ForRoom).await?;
            }
            ListedAction::HistoryWentBack => {
                let name = quoted(object.name());
                return Err(Interruption::Fault(HistoryWentBack(format!(
                    "a later resourceVersion of {name} is stored than a list shows"
                ))));
            }
        }
        Ok(())
    }

    /// Deletes the documents of the name of an object that is not stored: their objects were
    /// deleted before it was created. Clients that keep objects by name have to receive the changes
    /// in this order.
    async fn delete_namesakes(
        &mut self,
        name: NameHash,
        list_version: Version,
    ) -> Result<(), PageInterruption> {
        if planted(Bug::DeleteNamesakesLast) {
            return Ok(());
        }
        for (id, stored) in self.list.stored.remove_namesakes(name) {
            if stored > list_version {
                let what = later_than_list(stored, list_version);
                return Err(Interruption::Fault(HistoryWentBack(what)));
            }
            // At its own version: if a member shows two objects of one name, both can be stored.
            self.delete(id, stored, Some(name)).await;
        }
        Ok(())
    }

    async fn delete(&self, id: Arc<str>, version: Version, name: Option<NameHash>) {
        if let Some(enrichment) = &self.task.enrichment {
            enrichment.cancel_and_wait(&id).await;
        }
        self.write(Document::deletion(id, version), name, Wait::ForRoom)
            .await;
    }

    /// Ends a complete list: deletes the documents that it does not show. The watch begins next.
    async fn complete(&mut self, version: Version) -> Result<Pause, UnitEnd> {
        if let Some(stored) = self.list.stored.latest_unlisted()
            && stored > version
        {
            return self
                .history_went_back(&later_than_list(stored, version))
                .await;
        }
        self.task.sink.filters.list_complete();
        let mut selected = self.task.sink.filters.no_counts();
        if !selected.is_empty() {
            let counted = self.list.selected.iter();
            Arc::make_mut(&mut selected)
                .extend(counted.map(|(id, count)| (Arc::clone(id), *count)));
        }
        self.task.progress.set_objects(self.list.objects, selected);
        self.task.progress.set_skipped(self.list.unidentified);
        let stored = std::mem::take(&mut self.list).stored;
        self.delete_unlisted(stored, version).await;
        self.writes_again = false;
        if let Some(reason) = self.relist.take() {
            self.task.metrics.relisted(reason);
        }
        self.task.progress.reached(version);
        Ok(Pause::None)
    }

    async fn delete_unlisted(&self, stored: StoredDocuments, list_version: Version) {
        let unlisted = stored.into_unlisted();
        if unlisted.is_empty() {
            return;
        }
        tracing::info!(unit = %self.task.unit, documents = unlisted.len(), "deleting documents that a complete list does not show");
        for (id, stored, name) in unlisted {
            // A deleted object never comes back with its UID, so the later version also keeps out
            // late duplicates of older writes. An object that the member only left out may come
            // back unchanged.
            let version = if self.task.is_selective {
                stored
            } else {
                list_version
            };
            self.delete(id, version, name).await;
        }
    }
}

fn later_than_list(stored: Version, list: Version) -> String {
    format!("a document of resourceVersion {stored} is stored, and the member is at {list}")
}

/// Requests the pages of a unit, each with a trace of its own.
struct PageSource {
    source: ListerWatcher,
    traces: Traces,
    unit: Unit,
}

struct FetchedPage {
    body: Bytes,
    trace: Option<WriteTrace>,
}

impl PageSource {
    async fn fetch(
        &self,
        token: Option<&str>,
        limit: Option<u32>,
    ) -> Result<FetchedPage, StreamFault> {
        let trace = WriteTrace::of_page(&self.traces, &self.unit);
        let span = trace.as_ref().map(|trace| trace.span().clone());
        match within(span, self.source.list(token, limit)).await {
            Ok(body) => Ok(FetchedPage { body, trace }),
            Err(fault) => {
                if let Some(trace) = trace {
                    trace.span().fail(fault.kind.reason());
                }
                Err(fault)
            }
        }
    }

    async fn fetch_next(
        &self,
        token: Option<&str>,
        limit: Option<u32>,
    ) -> Option<Result<FetchedPage, StreamFault>> {
        match token {
            Some(token) => Some(self.fetch(Some(token), limit).await),
            None => None,
        }
    }
}
