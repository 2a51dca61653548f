//! Swaps: steps that change which revision answers the queries of a cluster. The differences are
//! logged before a swap is done, or watches have to list again.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::ResourceName,
};
use tokio::time::timeout;

use super::{
    Feed, FeedPhase, MAX_IN_FLIGHT, is_visible, log_documents::DocumentPacking, state::FeedState,
};
use crate::changes::Change;

impl Feed {
    /// Begins a swap of the queries of a cluster to `new`, or to nothing; with
    /// `complete_resources`, only of queries about these. `None` if the feed is inactive.
    pub(crate) fn begin_swap(
        &self,
        cluster: &ClusterName,
        new: Option<&IndexName>,
        complete_resources: Option<BTreeSet<ResourceName>>,
    ) -> Option<RevisionSwap> {
        let mut state = self.0.state.lock();
        if *self.0.phase.borrow() == FeedPhase::Inactive {
            return None;
        }
        state.swaps += 1;
        if let Some(new) = new {
            state.pending.insert(new.clone(), Vec::new());
        }
        let old = state.live.get(cluster).cloned();
        let is_uncertain = old
            .as_ref()
            .is_some_and(|old| state.unacknowledged.has_any_of(old));
        let packing = Arc::clone(&state.packing);
        let (step, tracked) = self.0.log.open_gap();
        let (cluster, new) = (cluster.clone(), new.cloned());
        Some(RevisionSwap {
            feed: self.clone(),
            cluster,
            old,
            new,
            complete_resources,
            step,
            tracked,
            packing,
            is_complete: !is_uncertain,
            is_done: false,
        })
    }

    /// Records what answers the queries of a cluster after a swap that the feed did not track.
    /// Neither does it record the batches for `new` that are in flight now.
    pub(crate) fn end_untracked(
        &self,
        cluster: &ClusterName,
        new: Option<&IndexName>,
        complete_resources: Option<BTreeSet<ResourceName>>,
    ) {
        let mut state = self.0.state.lock();
        state.set_live(cluster, new, complete_resources);
        // The feed was started after the swap began.
        if *self.0.phase.borrow() != FeedPhase::Inactive {
            self.0.restart(&mut state);
        }
    }
}

/// A step that changes which revision answers the queries of a cluster.
pub(crate) struct RevisionSwap {
    pub(super) feed: Feed,
    cluster: ClusterName,
    /// The write alias of the revision that answered them, if known.
    pub(crate) old: Option<IndexName>,
    new: Option<IndexName>,
    /// The resources of `new` that queries see; absent: all.
    complete_resources: Option<BTreeSet<ResourceName>>,
    /// The number of its gap in the log.
    step: u64,
    /// The resources that are watched, whose differences are logged.
    pub(crate) tracked: BTreeSet<ResourceName>,
    pub(super) packing: Arc<DocumentPacking>,
    /// Whether every difference of these has been logged; if not, subscribers will have to list
    /// again.
    pub(crate) is_complete: bool,
    is_done: bool,
}

impl RevisionSwap {
    /// Waits for the writes in flight.
    pub(crate) async fn wait_for_writes(&mut self) {
        let in_flight = &self.feed.0.log.in_flight;
        self.is_complete &= timeout(MAX_IN_FLIGHT, in_flight.wait_for_earlier())
            .await
            .is_ok();
    }

    /// Ends the swap: queries are answered from `new`.
    pub(crate) fn finish(mut self) {
        let mut state = self.feed.0.state.lock();
        state.set_live(
            &self.cluster,
            self.new.as_ref(),
            self.complete_resources.clone(),
        );
        let mut later = self.end(&mut state);
        later.retain(|change| is_visible(self.complete_resources.as_ref(), change));
        if self.is_complete {
            self.feed.0.log.append(&later);
        } else {
            self.feed.0.log.restart();
        }
        drop(state);
        self.is_done = true;
    }

    fn end(&self, state: &mut FeedState) -> Vec<Change> {
        state.swaps -= 1;
        self.feed.0.log.end_step(self.step);
        self.new
            .as_ref()
            .and_then(|new| state.pending.remove(new))
            .unwrap_or_default()
    }
}

impl Drop for RevisionSwap {
    /// The logged differences have not come about.
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.feed.0.state.lock();
            self.end(&mut state);
            self.feed.0.log.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fleetdex_core::{
        model::{Document, Gvk, IndexPrefix},
        query::{Query, Selectable},
    };
    use http::{Request, Response};
    use tokio::time::sleep;
    use tower::{service_fn, util::BoxCloneSyncService};

    use super::*;
    use crate::{
        bulk::{Verdict, Write},
        changes::Sequence,
        opensearch::{
            connection::{client::Client, responses::ResponseBudget},
            feed::REFRESH_INTERVAL,
            indices::refresh::Refresher,
        },
    };

    /// A feed whose refreshes succeed.
    fn feed() -> Feed {
        let service = BoxCloneSyncService::new(service_fn(|_: Request<Bytes>| async {
            Ok(Response::new(Bytes::from_static(
                br#"{"_shards":{"failed":0}}"#,
            )))
        }));
        let feed = Feed::new(Sequence::default());
        feed.refresh_with(Refresher {
            client: Client::new(service, ResponseBudget::default(), String::new()),
            alias: IndexPrefix::default().all(),
        });
        feed
    }

    #[tokio::test(start_paused = true)]
    async fn no_list_is_watched_from_before_the_end_of_writes_that_a_swap_left_unrecorded() {
        let feed = feed();
        let cluster: ClusterName = "a".parse().unwrap();
        let target = IndexPrefix::default().write_alias(&cluster, 1);
        let pods = ResourceName::new("", "pods");
        let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
        let query = Query::all_of(pods.clone(), selectable, 10);
        let can_watch = async || {
            let listed = feed.visible_sequence(&pods).await;
            feed.0.log.watch(&query, listed).is_ok()
        };
        // Without a client the feed does not track the swap. Then the first one lists.
        assert!(feed.begin_swap(&cluster, Some(&target), None).is_none());
        assert!(can_watch().await);
        let deletion = Write {
            index: target.clone(),
            document: Document::deletion("v1/Pod/a".into(), "7".parse().unwrap()),
        };
        let batch = feed.begin_batch(std::slice::from_ref(&deletion));
        assert!(batch.tracked.is_empty());
        feed.end_untracked(&cluster, Some(&target), None);
        assert!(
            !can_watch().await,
            "the list may show what is being deleted"
        );
        batch
            .settle(&[deletion], &[Verdict::Deleted], Vec::new())
            .await;
        sleep(REFRESH_INTERVAL).await;
        assert!(can_watch().await);
    }
}
