//! Lists: what is stored is compared with what the member shows, and only the difference is written.

use std::sync::Arc;

use bytes::Bytes;
use fleetdex_clusters::watch::{Fault, ListPage, PageOutcome, Pause, Source};
use fleetdex_core::{
    model::{NameHash, Object, ObjectError, Version, quoted},
    planted::{Bug, planted},
};
use fleetdex_store::{Extent, StoreError, Stored};
use serde_json::value::RawValue;

use super::{Running, garbled, indexed_at, listing::Listing};
use crate::{
    outlet::{Deleted, Wait},
    progress::Obstacle,
    relist::{Known, Listed},
};

/// The member's history went back, as this shows.
struct WentBack(String);

impl Running {
    /// Reads one list to its end, or to the first failure: page by page, the next one being fetched while this one is sent on.
    pub(super) async fn list(
        &mut self,
        continue_token: Option<String>,
        limit: Option<u32>,
    ) -> Result<Pause, Fault> {
        let lists = Arc::clone(&self.task.lists);
        let Ok(_permit) = lists.acquire().await else {
            return Ok(Pause::Backoff);
        };
        if continue_token.is_none() {
            self.begin_list().await;
        }
        let source = self.task.source.clone();
        let mut body = source.list(continue_token.as_deref(), limit).await?;
        loop {
            self.task.metrics.lists.inc();
            self.task.metrics.list_bytes.inc_by(body.len() as u64);
            let page = ListPage::parse(&body)
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
            let fetch = fetch_next(&source, next_token.as_deref(), limit);
            let skipped =
                planted(Bug::SkipLastPage) && next_token.is_none() && self.list.objects > 0;
            let items = if skipped { &[] } else { &*page.items };
            let (next, taken) = tokio::join!(fetch, self.take_page(items, version));
            if let Err(WentBack(what)) = taken {
                return Ok(self.went_back(&what).await);
            }
            match next {
                Some(Err(_)) if planted(Bug::PruneOnInterruptedList) => {
                    return Ok(self.complete(version).await);
                }
                Some(next) => body = next?,
                None => return Ok(self.complete(version).await),
            }
        }
    }

    /// Reads what is stored. Until then nothing is asked of the member: what it lists must be newer than that.
    async fn begin_list(&mut self) {
        self.task.progress.list_begins();
        // What is under way could become a document that the member no longer has, after the look at what is stored.
        for progress in &self.task.predecessors {
            progress.drained().await;
        }
        self.task.progress.drained().await;
        self.list = Listing::default();
        while let Err(error) = self.read_known().await {
            tracing::debug!(unit = %self.task.unit, %error, "cannot read the stored versions yet");
            self.task
                .progress
                .failing(Obstacle::Store, error.reason(), error.to_string());
            let delay = self.next_delay();
            tokio::time::sleep(delay).await;
        }
    }

    async fn read_known(&mut self) -> Result<(), StoreError> {
        let store = self.task.outlet.pipeline.opened().await;
        let projector = &self.task.outlet.projector;
        let mut known = Known::new(projector.id_prefix());
        let visit = &mut |stored: Stored<'_>| {
            let name =
                (!stored.name.is_empty()).then(|| projector.name(stored.namespace, stored.name));
            known.add(stored.id, stored.version, name);
        };
        store
            .visit_versions(&self.generation, &Extent::of(&self.task.unit), visit)
            .await?;
        self.list.known = known;
        Ok(())
    }

    async fn take_page(&mut self, items: &[&RawValue], version: Version) -> Result<(), WentBack> {
        let now = indexed_at();
        for item in items {
            let json = item.get();
            match Object::parse_any(json) {
                Ok((object, unfit)) => {
                    self.take_listed(&object, unfit, json, &now, version)
                        .await?;
                }
                Err(error) => {
                    self.list.unread += 1;
                    self.skip(&error);
                }
            }
        }
        Ok(())
    }

    async fn take_listed(
        &mut self,
        object: &Object<'_>,
        unfit: Option<ObjectError>,
        json: &str,
        now: &str,
        list_version: Version,
    ) -> Result<(), WentBack> {
        let outlet = Arc::clone(&self.task.outlet);
        let (id, name) = (outlet.projector.id(object.uid()), outlet.name(object));
        if !outlet.wants(object) {
            if let Some(version) = self.list.known.unwanted(&id) {
                // At its own version: the object is still there, and must be able to come back as it is.
                self.delete(Deleted {
                    id,
                    version,
                    name: Some(name),
                })
                .await;
            }
            return Ok(());
        }
        self.list.objects += 1;
        match self.list.known.listed(&id, object.version()) {
            Listed::Same if !self.writes_again => drop(self.task.metrics.unchanged.inc()),
            Listed::Same | Listed::Write => {
                self.index(object, unfit, json, now, Wait::ForRoom).await;
            }
            Listed::New => {
                self.delete_namesakes(name, list_version).await?;
                self.index(object, unfit, json, now, Wait::ForRoom).await;
            }
            Listed::WentBack => {
                let name = quoted(object.name());
                return Err(WentBack(format!(
                    "a later resourceVersion of {name} is stored than a list shows"
                )));
            }
        }
        Ok(())
    }

    /// Deletes what is stored under the name of an object that is not: objects that were deleted before that one was made. Whoever keeps objects by
    /// their names has to hear of it in this order.
    async fn delete_namesakes(
        &mut self,
        name: NameHash,
        list_version: Version,
    ) -> Result<(), WentBack> {
        if planted(Bug::DeleteNamesakesLast) {
            return Ok(());
        }
        for (id, stored) in self.list.known.namesakes(name) {
            if stored > list_version {
                return Err(WentBack(later_than_list(stored, list_version)));
            }
            // At its own version: should a member show two objects of one name, both can be stored.
            self.delete(Deleted {
                id,
                version: stored,
                name: Some(name),
            })
            .await;
        }
        Ok(())
    }

    async fn delete(&self, deleted: Deleted) {
        self.task
            .outlet
            .delete(
                &self.task.progress,
                &self.generation.target,
                deleted,
                Wait::ForRoom,
            )
            .await;
    }

    /// The list shows everything there is: documents that it does not hold are deleted, then the watch begins.
    async fn complete(&mut self, version: Version) -> Pause {
        if let Some(stored) = self.list.known.latest_absent()
            && stored > version
        {
            return self.went_back(&later_than_list(stored, version)).await;
        }
        self.task.outlet.list_complete();
        self.task.progress.set_objects(self.list.objects);
        self.task.progress.set_skipped(self.list.unread);
        let known = std::mem::take(&mut self.list).known;
        self.delete_absent(known, version).await;
        self.writes_again = false;
        if let Some(reason) = self.relist.take() {
            self.task.metrics.relisted(reason);
        }
        self.task.progress.reached(version);
        Pause::None
    }

    async fn delete_absent(&self, known: Known, list_version: Version) {
        let absent = known.into_absent();
        if absent.is_empty() {
            return;
        }
        tracing::info!(unit = %self.task.unit, documents = absent.len(), "deleting documents that a complete list does not hold");
        for (id, stored, name) in absent {
            // An object that is gone never comes back with its UID, so a late duplicate of an older write may well be kept out.
            // One that the member only left out may come back as it is.
            let version = if self.task.is_selective {
                stored
            } else {
                list_version
            };
            self.delete(Deleted { id, version, name }).await;
        }
    }
}

fn later_than_list(stored: Version, list: Version) -> String {
    format!("a document of resourceVersion {stored} is stored, and the member is at {list}")
}

async fn fetch_next(
    source: &Source,
    token: Option<&str>,
    limit: Option<u32>,
) -> Option<Result<Bytes, Fault>> {
    match token {
        Some(token) => Some(source.list(Some(token), limit).await),
        None => None,
    }
}
