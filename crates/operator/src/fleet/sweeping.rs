//! Sweeps of the stores: when they begin, what they leave, and whether they are done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_store::KindExtent;
use fleetdex_sync::{checkpoints::UnitKey, pipeline::Pipeline, progress::Progress};

use super::{Applied, Fleet, RunningStore, sweep_task::Sweeping};
use crate::{
    plan::{Coverage, Extent as Namespaces, Plan, Stream},
    sweep::{Kept, Wanted},
};

pub(super) fn pipelines(
    stores: &BTreeMap<StoreName, RunningStore>,
    names: Option<&BTreeSet<StoreName>>,
) -> Vec<Pipeline> {
    let running = names
        .into_iter()
        .flatten()
        .filter_map(|name| stores.get(name));
    running.map(|store| store.pipeline.clone()).collect()
}

pub(super) fn wanted(
    plan: &Plan,
    store: &StoreName,
    replaced: &BTreeSet<Stream>,
    knows_all_members: bool,
) -> Wanted {
    let mut units: BTreeMap<&ClusterName, BTreeSet<UnitKey>> = BTreeMap::new();
    for stream in plan.units.keys().filter(|stream| stream.store == *store) {
        units
            .entry(&stream.unit.cluster)
            .or_default()
            .insert(UnitKey::from(&stream.unit));
    }
    let mut leaving: BTreeMap<&ClusterName, Vec<KindExtent>> = BTreeMap::new();
    for Stream { unit, .. } in replaced.iter().filter(|stream| stream.store == *store) {
        leaving
            .entry(&unit.cluster)
            .or_default()
            .push(KindExtent::of(unit));
    }
    let of_store = plan.scopes.iter().filter(|((name, _), _)| name == store);
    let kept = of_store.map(|((_, cluster), coverage)| {
        let units = units.remove(cluster).unwrap_or_default();
        let kinds = extents(coverage)
            .into_iter()
            .chain(leaving.remove(cluster).unwrap_or_default())
            .collect();
        (
            cluster.clone(),
            coverage.certain.then_some(Kept { kinds, units }),
        )
    });
    // A store that no registry names any more is emptied whoever the members are.
    let others_stay = !knows_all_members && plan.stores.contains_key(store);
    Wanted {
        clusters: kept.collect(),
        others_stay,
        neighbours: None,
    }
}

fn extents(coverage: &Coverage) -> Vec<KindExtent> {
    let mut extents = Vec::new();
    for (gvk, namespaces) in &coverage.kinds {
        let extent = |namespace| KindExtent {
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            namespace,
        };
        match namespaces {
            Namespaces::All => extents.push(extent(None)),
            Namespaces::Namespaces(names) => {
                extents.extend(names.iter().cloned().map(Some).map(extent));
            }
        }
    }
    extents
}

impl Fleet {
    /// Sweeps again now and then: a write that was long under way may bring back what a sweep has deleted, and audits only look at what
    /// is wanted.
    pub(super) fn sweep_again(&mut self) {
        let Some(interval) = self.audit_interval else {
            return;
        };
        for (name, sweeping) in &mut self.sweeps {
            let is_due = sweeping
                .done_at()
                .is_some_and(|done| done.elapsed() >= interval);
            if let Some(store) = self.stores.get(name).filter(|_| is_due) {
                let (wanted, share) = (sweeping.wanted.clone(), sweeping.share.clone());
                let neighbours = pipelines(&self.stores, wanted.neighbours.as_ref());
                *sweeping = Sweeping::start(
                    &store.pipeline,
                    wanted,
                    neighbours,
                    share,
                    Vec::new(),
                    &self.changed,
                );
            }
        }
    }

    /// Removes what no registry wants any more. `stopped` are streams whose last writes have to be in the store before.
    pub(super) fn sweep(&mut self, applied: &Applied, stopped: &[Arc<Progress>]) {
        for (name, store) in &self.stores {
            let share = applied.share_of(name);
            let wanted = match applied.old.plan(name) {
                Some(old) => self.wanted_of_old(applied, name, old),
                None => wanted(&applied.plan, name, &self.replaced, self.knows_all_members),
            };
            for (cluster, kept) in &wanted.clusters {
                if let Some(kept) = kept {
                    store.pipeline.checkpoints().retain(cluster, &kept.units);
                }
            }
            let sweeping = self.sweeps.entry(name.clone()).or_default();
            let is_same = sweeping.wanted == wanted && sweeping.share == share;
            if sweeping.task.is_some() && is_same && stopped.is_empty() {
                continue;
            }
            sweeping.stop.cancel();
            let deletes = std::mem::take(&mut *sweeping.deletes.lock());
            self.settling
                .extend(deletes.into_iter().map(|progress| (name.clone(), progress)));
            // A sweep that is given up here has perhaps not waited for all of its streams.
            let unsettled = sweeping
                .after
                .iter()
                .filter(|progress| progress.outstanding() > 0);
            let after: Vec<Arc<Progress>> = unsettled.chain(stopped).cloned().collect();
            let neighbours = pipelines(&self.stores, wanted.neighbours.as_ref());
            *sweeping = Sweeping::start(
                &store.pipeline,
                wanted,
                neighbours,
                share,
                after,
                &self.changed,
            );
        }
    }

    /// Whether a store holds nothing but what the applied plan wants of it.
    pub fn is_swept(&self, store: &StoreName) -> bool {
        self.sweeps.get(store).is_some_and(|sweep| {
            let is_waiting = sweep.wanted.neighbours.is_some() && sweep.wanted.is_waiting();
            sweep.done_at().is_some() && !is_waiting
        })
    }
}
