//! The deletions of one member that are pending.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_distribution::{
    brake::{BRAKE_WINDOW, DeletionBrake},
    template_name::TemplateName,
};
use tokio::time::Instant;

/// Deletions wait until no other one has come for so long: what one change deletes comes object by
/// object.
const SETTLE: Duration = Duration::from_millis(500);
/// They wait no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often held ones are looked at again: time goes by in which others count.
const HELD_AGAIN: Duration = Duration::from_secs(1);

/// What is left over in a member.
#[derive(Default)]
pub struct PendingDeletions {
    pending: BTreeMap<TemplateName, Arc<str>>,
    /// Since when something is pending about which nothing was decided.
    since: Option<Instant>,
    due: Option<Instant>,
    recent: VecDeque<Instant>,
    is_any_held: bool,
}

/// What is deleted now, and what is held.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeletionDecision {
    /// Deleted now: objects with their UIDs.
    pub free: Vec<(TemplateName, Arc<str>)>,
    /// Held by the brake.
    pub held: BTreeSet<TemplateName>,
}

impl PendingDeletions {
    /// An object with a UID is left over.
    pub fn add(&mut self, name: &TemplateName, uid: &Arc<str>) {
        let before = self.pending.insert(name.clone(), Arc::clone(uid));
        if before.as_ref() == Some(uid) {
            return;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        self.due = Some((now + SETTLE).min(since + LONGEST_WAIT));
    }

    /// An object is gone, or belongs there again.
    pub fn remove(&mut self, name: &TemplateName) {
        self.pending.remove(name);
        if self.pending.is_empty() && !self.is_any_held {
            self.since = None;
            self.due = None;
        }
    }

    /// When something is to be decided.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Decides about everything that is pending, when it is time. `total`: the copies in the
    /// member, `released`: what is let go although it was held.
    pub fn decide(
        &mut self,
        brake: DeletionBrake,
        total: usize,
        released: &BTreeSet<TemplateName>,
    ) -> Option<DeletionDecision> {
        let now = Instant::now();
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        while let Some(time) = self.recent.front()
            && time.elapsed() >= BRAKE_WINDOW
        {
            self.recent.pop_front();
        }
        let unreleased = self.pending.keys().filter(|name| !released.contains(*name));
        let holds = brake.holds(unreleased.count(), self.recent.len(), total)
            && !planted(Bug::DistributionIgnoresBrake);
        let pending = std::mem::take(&mut self.pending).into_iter();
        let (free, held): (BTreeMap<_, _>, BTreeMap<_, _>) =
            pending.partition(|(name, _)| !holds || released.contains(name));
        let counted = free.keys().filter(|name| !released.contains(*name)).count();
        self.recent.extend(std::iter::repeat_n(now, counted));
        self.since = None;
        self.due = (!held.is_empty()).then_some(now + HELD_AGAIN);
        let decision = DeletionDecision {
            free: free.into_iter().collect(),
            held: held.keys().cloned().collect(),
        };
        self.pending = held;
        let was_any_held = std::mem::replace(&mut self.is_any_held, !decision.held.is_empty());
        (was_any_held || decision != DeletionDecision::default()).then_some(decision)
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_distribution::template_name::NameParts;
    use tokio::time::sleep;

    use super::*;

    fn name(number: usize) -> TemplateName {
        TemplateName::from(NameParts {
            name: format!("a{number:02}"),
            ..NameParts::default()
        })
    }

    fn decided(
        deletions: &mut PendingDeletions,
        total: usize,
        released: &[TemplateName],
    ) -> Option<(usize, usize)> {
        let released = released.iter().cloned().collect();
        let decision = deletions.decide(DeletionBrake::default(), total, &released)?;
        Some((decision.free.len(), decision.held.len()))
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_that_come_one_by_one_are_one_change() {
        let mut deletions = PendingDeletions::default();
        assert_eq!(deletions.due(), None);
        for number in 0..40 {
            deletions.add(&name(number), &"u".into());
            assert_eq!(decided(&mut deletions, 100, &[]), None);
            sleep(Duration::from_millis(100)).await;
        }
        sleep(SETTLE).await;
        assert_eq!(decided(&mut deletions, 100, &[]), Some((0, 40)));
        // Nothing changes while nothing is let go.
        sleep(HELD_AGAIN).await;
        assert_eq!(decided(&mut deletions, 100, &[]), Some((0, 40)));
        let released: Vec<TemplateName> = (0..35).map(name).collect();
        sleep(HELD_AGAIN).await;
        // Five are few, and are free with them.
        assert_eq!(decided(&mut deletions, 100, &released), Some((40, 0)));
        assert_eq!(deletions.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_of_the_last_minute_count() {
        let mut deletions = PendingDeletions::default();
        for number in 0..10 {
            deletions.add(&name(number), &"u".into());
        }
        sleep(SETTLE).await;
        assert_eq!(decided(&mut deletions, 20, &[]), Some((10, 0)));
        deletions.add(&name(10), &"u".into());
        sleep(SETTLE).await;
        assert_eq!(decided(&mut deletions, 10, &[]), Some((0, 1)));
        sleep(BRAKE_WINDOW).await;
        assert_eq!(decided(&mut deletions, 10, &[]), Some((1, 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_belongs_there_again_is_not_deleted_and_not_held() {
        let mut deletions = PendingDeletions::default();
        for number in 0..20 {
            deletions.add(&name(number), &"u".into());
        }
        sleep(SETTLE).await;
        assert_eq!(decided(&mut deletions, 20, &[]), Some((0, 20)));
        for number in 0..20 {
            deletions.remove(&name(number));
        }
        sleep(HELD_AGAIN).await;
        assert_eq!(decided(&mut deletions, 20, &[]), Some((0, 0)));
        assert_eq!(deletions.due(), None);
    }
}
