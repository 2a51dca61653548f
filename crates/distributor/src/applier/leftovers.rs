//! What a member has and shall not have: deleted, released, or reported to be gone.

use std::sync::Arc;

use fleetdex_distribution::{
    desired::write_order,
    plan::LeftoverFate,
    template_name::{KindName, TemplateName},
};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::time::Instant;

use super::{CONCURRENT_REQUESTS, ConnectedMember, Done, SETTLED};
use crate::control_plane::resource_of;

impl<'c> ConnectedMember<'c> {
    /// Reports what this member may have had and has not. What was sent over the connection before
    /// may still arrive for some time.
    pub(super) fn report_absent(&mut self) {
        let (board, cluster) = (&self.context.board, self.cluster.as_str());
        let awaited = board.awaited(cluster);
        self.absences_at = None;
        if awaited.is_empty() {
            return;
        }
        let earliest = self.since + SETTLED;
        if earliest > Instant::now() {
            self.absences_at = Some(earliest);
            return;
        }
        for name in awaited {
            if let Some(until) = self.may_arrive_until(&name) {
                self.absences_at = Some(until);
                continue;
            }
            let kind = name.kind_name();
            // Not by what is followed: this plan may have kinds that are not followed yet.
            let is_served = resource_of(&self.discovery, &kind).is_some();
            // Of a group that does not answer now nothing is known.
            let knows_group =
                !self.discovery.served.is_empty() && !self.discovery.unknown.contains(&kind.0);
            let is_known = self.copies.knows(&kind) || (knows_group && !is_served);
            if is_known && self.copies.get(&name).is_none() {
                board.report_absent(&name, cluster);
            }
        }
    }

    /// Until when a write of an object may still arrive; `None`: none can.
    fn may_arrive_until(&self, name: &TemplateName) -> Option<Instant> {
        let now = Instant::now();
        let is_busy = self.busy.contains(&(write_order(name), name.clone()));
        if is_busy {
            return Some(now + SETTLED);
        }
        // One that was deleted at once never comes in the version that was written.
        let times = [self.unanswered.get(name), self.written_until.get(name)];
        let latest = times.into_iter().flatten().max().copied();
        latest.filter(|until| *until > now)
    }

    pub(super) fn look_at_leftover(
        &mut self,
        name: &TemplateName,
        kind: &KindName,
    ) -> Option<BoxFuture<'c, Done>> {
        let Some(copy) = self.copies.get(name) else {
            self.deletions.remove(name);
            if self.desired.conflicts.contains_key(name) {
                return None;
            }
            if self.copies.knows(kind) {
                self.accepted.remove(name);
                self.repairs.forget(name);
                self.retries.forget(name);
                self.report_absent();
            }
            return None;
        };
        let fate = self.fate(name);
        if fate == LeftoverFate::Deleted && !copy.is_being_deleted {
            self.deletions.add(name, &copy.uid);
        } else {
            self.deletions.remove(name);
        }
        if fate != LeftoverFate::Released {
            return None;
        }
        let resource = self.copies.resource(kind)?.clone();
        let applying = self.applying(resource);
        let name = name.clone();
        Some(
            async move {
                let released = applying.release(&name, &copy).await;
                Done::Removed(name, released)
            }
            .boxed(),
        )
    }

    /// Deletes what is left over, unless the brake holds.
    pub(super) fn delete_leftovers(&mut self) {
        if !self.copies.knows_all() || !self.plan.is_complete {
            return;
        }
        let total = self.copies.count();
        let (brake, released) = (self.plan.brake, Arc::clone(&self.plan.released));
        let Some(decision) = self.deletions.decide(brake, total, &released) else {
            return;
        };
        let held = &self.context.held_deletions;
        held.set(self.cluster, decision.held, total);
        self.deleting.extend(decision.free);
    }

    /// Deletes what may go, as far as requests may be sent.
    pub(super) fn start_deletions(&mut self) {
        while !self.deleting.is_empty()
            && self.busy.len() < CONCURRENT_REQUESTS
            && self.knows_everything()
            && let Some((name, uid)) = self.deleting.pop_first()
        {
            let key = (write_order(&name), name.clone());
            let kind = name.kind_name();
            // It may belong there again.
            let is_left = !self.desired.objects.contains_key(&name)
                && self.fate(&name) == LeftoverFate::Deleted
                && !self.busy.contains(&key);
            // One that has changed since may have been released, or unmarked by a user.
            let copy = self.copies.get(&name).filter(|copy| copy.uid == uid);
            let resource = self.copies.resource(&kind).cloned().filter(|_| is_left);
            let (Some(resource), Some(copy)) = (resource, copy) else {
                self.queue.insert(key);
                continue;
            };
            self.busy.insert(key);
            let client = self.applying(resource).client;
            let version = Some(copy.version).filter(|version| *version > 0);
            self.running.push(
                async move {
                    let deleted = client.delete(&name, &uid, version).await;
                    Done::Removed(name, deleted)
                }
                .boxed(),
            );
        }
    }

    /// Whether everything is known now that a deletion depends on.
    fn knows_everything(&self) -> bool {
        let plan = self.context.published.borrow();
        plan.is_complete && self.copies.knows_all() && self.context.objects.is_complete()
    }

    /// What becomes of a copy.
    fn fate(&self, name: &TemplateName) -> LeftoverFate {
        if !self.plan.is_complete || self.plan.unwritten.contains(name) {
            return LeftoverFate::Stays;
        }
        self.plan.leftovers.fate(self.cluster.as_str(), name)
    }
}
