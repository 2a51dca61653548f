//! Gaps: points of a log across which only some resources are tracked.

use std::{collections::BTreeSet, time::Duration};

use fleetdex_core::{
    planted::{Bug, planted},
    query::ResourceName,
};

use super::{Log, state::LogGap};

/// Gaps to remember; a watch from before the oldest one has to list again. Clusters come and go
/// rarely.
pub(super) const GAPS: usize = 64;
/// How long a resource stays tracked after it was listed, or after a watch of it ended: the next
/// watch usually follows.
pub(super) const BETWEEN_WATCHES: Duration = Duration::from_secs(5);
impl Log {
    /// Opens a gap for a step that changes query results. Returns its number, for
    /// [`Log::end_step`], and the resources that are still tracked across it: those that are
    /// watched now or are about to be. A watch of any other resource from before the gap gets
    /// [`TooOld`](super::TooOld) and has to list again.
    ///
    /// Until the step ends, other replicas read no change after the gap: a list of theirs may not
    /// show it yet, but would carry a version that includes it.
    pub(crate) fn open_gap(&self) -> (u64, BTreeSet<ResourceName>) {
        let mut state = self.state.lock();
        state
            .asked
            .retain(|_, since| since.elapsed() < BETWEEN_WATCHES);
        let followed = state
            .subscribers
            .values()
            .flat_map(|subscriber| &*subscriber.resources);
        let known: BTreeSet<ResourceName> = followed.chain(state.asked.keys()).cloned().collect();
        let number = self.sequence.take(1);
        state.gaps.push_back(LogGap {
            number,
            known: known.clone(),
        });
        if state.gaps.len() > GAPS
            && let Some(oldest) = state.gaps.pop_front()
        {
            state.start = state.start.max(oldest.number);
        }
        state.steps.insert(number);
        self.newest.send_replace(number);
        (number, known)
    }

    /// Ends a step: query results show what it added, or the log has restarted.
    pub(crate) fn end_step(&self, number: u64) {
        self.state.lock().steps.remove(&number);
        // Wakes the replicas that wait for it although there is no new number.
        self.newest.send_modify(|_| {});
    }

    /// Marks the changes of a resource up to now as incomplete: its watches end and have to list
    /// again. Returns the number from which on changes are complete.
    ///
    /// Where query results lag, the number becomes visible only after a refresh, although nothing
    /// is added here: the missing changes may not be in the results yet, and a list without them
    /// would stay wrong.
    pub fn lose(&self, resource: &ResourceName) -> u64 {
        let mut state = self.state.lock();
        let number = self.sequence.take(1);
        state.lost.insert(resource.clone(), number);
        self.newest.send_replace(number);
        if !self.bounds.results_lag || planted(Bug::ListBeforeRefresh) {
            self.show(number);
        }
        number
    }
}
