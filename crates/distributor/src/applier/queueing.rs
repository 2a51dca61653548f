//! What of a member is looked at next: what a plan, its kinds or its watch say anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::Resource;
use fleetdex_distribution::{
    desired::write_order,
    template_name::{KindName, TemplateName},
};
use tokio::time::Instant;

use super::ConnectedMember;
use crate::{
    control_plane::resource_of,
    published::{DesiredCluster, PublishedPlan},
};

impl ConnectedMember<'_> {
    pub(super) fn set_plan(&mut self, plan: Arc<PublishedPlan>) {
        if Arc::ptr_eq(&plan, &self.plan) {
            return;
        }
        let desired = plan.clusters.get(self.cluster.as_str()).cloned();
        let desired = desired.unwrap_or_default();
        let before = std::mem::replace(&mut self.desired, desired);
        self.plan = plan;
        self.follow();
        let desired = Arc::clone(&self.desired);
        if !Arc::ptr_eq(&before, &desired) {
            self.queue_changes(&before, &desired);
        }
        // What becomes of leftovers may be another thing now.
        for kind in &self.desired.kinds {
            let leftovers = self.desired.others_of(self.copies.names(kind));
            self.queue
                .extend(leftovers.into_iter().map(|name| (write_order(&name), name)));
        }
        for (name, message) in &desired.conflicts {
            self.not_applied(name, message.clone());
        }
        self.report_absent();
    }

    /// What is to be looked at because the plan says something else of it.
    fn queue_changes(&mut self, before: &DesiredCluster, desired: &DesiredCluster) {
        self.wanted = desired.count();
        let (changed, gone) = desired.changes_since(before);
        for name in changed {
            self.queue.insert((write_order(name), name.clone()));
            self.retries.forget(name);
            self.repairs.forget(name);
            self.applied.remove(name);
        }
        for name in gone {
            self.queue.insert((write_order(name), name.clone()));
            self.applied.remove(name);
        }
    }

    pub(super) fn set_discovery(&mut self) {
        let state = self.context.clusters.state(self.cluster);
        let discovery = state.and_then(|state| state.discovery).unwrap_or_default();
        if Arc::ptr_eq(&discovery, &self.discovery) {
            return;
        }
        self.discovery = discovery;
        self.follow();
    }

    /// Follows the kinds of which there are objects, as far as the member serves them.
    fn follow(&mut self) {
        let served: BTreeMap<KindName, Resource> = self
            .desired
            .kinds
            .iter()
            .filter_map(|kind| Some((kind.clone(), resource_of(&self.discovery, kind)?)))
            .collect();
        let changed: BTreeSet<KindName> = self.copies.follow(&served).into_iter().collect();
        self.queue_kinds(&changed);
    }

    fn queue_kinds(&mut self, kinds: &BTreeSet<KindName>) {
        if kinds.is_empty() {
            return;
        }
        let is_of = |name: &&TemplateName| kinds.contains(&name.kind_name());
        let desired = self.desired.objects.keys();
        let desired = desired.filter(is_of).cloned();
        let copies = kinds.iter().flat_map(|kind| self.copies.names(kind));
        let names: BTreeSet<TemplateName> = desired.chain(copies).collect();
        self.queue
            .extend(names.into_iter().map(|name| (write_order(&name), name)));
    }

    pub(super) fn take_names(&mut self) {
        let replaced = self.copies.take_replaced();
        if !replaced.is_empty() {
            self.forget_versions(&replaced);
        }
        let now = Instant::now();
        self.unanswered.retain(|_, until| *until > now);
        self.written_until.retain(|_, until| *until > now);
        self.queue_kinds(&replaced);
        if !replaced.is_empty() || self.absences_at.is_some_and(|at| at <= now) {
            self.report_absent();
        }
        let names = self.copies.look_again.take();
        let due = self.retries.take_due();
        self.queue.extend(
            names
                .into_iter()
                .chain(due)
                .map(|name| (write_order(&name), name)),
        );
    }

    /// Versions of a server that was restored begin again.
    fn forget_versions(&mut self, kinds: &BTreeSet<KindName>) {
        self.written
            .retain(|name, _| !kinds.contains(&name.kind_name()));
        for (name, applied) in &mut self.applied {
            if kinds.contains(&name.kind_name()) {
                applied.version = 0;
            }
        }
    }
}
