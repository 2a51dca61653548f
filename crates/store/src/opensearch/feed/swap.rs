//! Steps that change what queries of a cluster are answered from: what follows from them is told before they are done, or not at all.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::ResourceName,
};
use tokio::time::timeout;

use super::{Feed, LONGEST_FLIGHT, Phase, State, is_seen};
use crate::{
    changes::{Change, Log},
    opensearch::packing::Packing,
};

impl Feed {
    /// A step begins that changes what queries of a cluster are answered from: from `new` on, or from nothing; with `part`, only those about these
    /// resources. Nothing if nobody is interested.
    pub(in crate::opensearch) fn begin_swap(
        &self,
        cluster: &ClusterName,
        new: Option<&IndexName>,
        part: Option<BTreeSet<ResourceName>>,
    ) -> Option<Swap> {
        let mut state = self.0.lock();
        if *self.0.phase.borrow() == Phase::Asleep {
            return None;
        }
        state.swaps += 1;
        if let Some(new) = new {
            state.joining.insert(new.clone(), Vec::new());
        }
        let old = state.live.get(cluster).cloned();
        let is_uncertain = old
            .as_ref()
            .is_some_and(|old| state.unsettled.has_any_of(old));
        let packing = Arc::clone(&state.packing);
        let (step, known) = self.0.log.open_gap();
        let (cluster, new) = (cluster.clone(), new.cloned());
        Some(Swap {
            feed: self.clone(),
            cluster,
            old,
            new,
            part,
            step,
            known,
            packing,
            is_known: !is_uncertain,
            is_done: false,
        })
    }

    /// Says what queries of a cluster are answered from, where nobody had to be told.
    pub(in crate::opensearch) fn end_untold(
        &self,
        cluster: &ClusterName,
        new: Option<&IndexName>,
        part: Option<BTreeSet<ResourceName>>,
    ) {
        let mut state = self.0.lock();
        state.set_live(cluster, new, part);
        // Somebody has become interested since the step began.
        if *self.0.phase.borrow() != Phase::Asleep {
            self.0.log.restart();
        }
    }
}

/// A step that changes what queries of a cluster are answered from.
pub(in crate::opensearch) struct Swap {
    feed: Feed,
    cluster: ClusterName,
    /// What they were answered from, as far as that is known.
    pub(in crate::opensearch) old: Option<IndexName>,
    new: Option<IndexName>,
    /// The resources of it that queries are answered from; absent: all.
    part: Option<BTreeSet<ResourceName>>,
    /// Its number in the log.
    step: u64,
    /// The resources that somebody watches: those whose differences are to be told.
    pub(in crate::opensearch) known: BTreeSet<ResourceName>,
    packing: Arc<Packing>,
    /// Whether everything that changes will have been told.
    is_known: bool,
    is_done: bool,
}

impl Swap {
    /// Waits until everything that was written before is settled.
    pub(in crate::opensearch) async fn settled(&mut self) {
        let under_way = self.feed.0.log.under_way();
        self.is_known &= timeout(LONGEST_FLIGHT, under_way.earlier_end())
            .await
            .is_ok();
    }

    pub(in crate::opensearch) fn packing(&self) -> &Arc<Packing> {
        &self.packing
    }

    pub(in crate::opensearch) fn log(&self) -> &Log {
        &self.feed.0.log
    }

    /// Not everything that changes can be told: who follows will have to list again.
    pub(in crate::opensearch) fn give_up(&mut self) {
        self.is_known = false;
    }

    /// The step is done: queries are answered from what is new.
    pub(in crate::opensearch) fn finish(mut self) {
        let mut state = self.feed.0.lock();
        state.set_live(&self.cluster, self.new.as_ref(), self.part.clone());
        let mut kept = self.end(&mut state);
        kept.retain(|change| is_seen(self.part.as_ref(), change));
        if self.is_known {
            self.feed.0.log.append(&kept);
        } else {
            self.feed.0.log.restart();
        }
        drop(state);
        self.is_done = true;
    }

    fn end(&self, state: &mut State) -> Vec<Change> {
        state.swaps -= 1;
        self.feed.0.log.end_step(self.step);
        self.new
            .as_ref()
            .and_then(|new| state.joining.remove(new))
            .unwrap_or_default()
    }
}

impl Drop for Swap {
    /// What was told has not come about.
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.feed.0.lock();
            self.end(&mut state);
            self.feed.0.log.restart();
        }
    }
}
