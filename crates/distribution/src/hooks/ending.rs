//! The hooks of a set that is being deleted: first those before it in all clusters, then the
//! objects go, then those after it.
//!
//! A hook that fails here is reported, and holds nothing: what a user deletes goes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    advance::{LONGEST_HOOK, StepBegin},
    outcome::HookReport,
    state::{EndingPhase, HookPhase, HookState},
    steps::{HookStep, ReleaseChange, SetHook, hooks_of},
};

/// What decides about the hooks of a set that is being deleted.
#[derive(Clone, Copy, Debug)]
pub struct EndingInputs<'a> {
    /// The hooks; none also if they are not known any more.
    pub hooks: &'a [SetHook],
    /// The clusters that there are.
    pub clusters: &'a BTreeSet<String>,
    /// Whether clusters may still have objects of the set.
    pub has_objects: bool,
    /// What clusters say of their tasks.
    pub reports: &'a BTreeMap<String, HookReport>,
    /// The present.
    pub now: Timestamp,
}

impl HookState {
    /// The state after one look at the clusters of a set that is being deleted.
    #[must_use]
    pub fn next_ending(&self, inputs: &EndingInputs<'_>) -> Self {
        let mut state = self.clone();
        loop {
            let next = match state.ending {
                None => EndingPhase::PreDelete,
                Some(EndingPhase::PreDelete) => {
                    let step = HookStep::pre(ReleaseChange::Delete);
                    if !state.is_over(step, inputs) {
                        state.advance_ending(step, inputs);
                        return state;
                    }
                    EndingPhase::Deleting
                }
                Some(EndingPhase::Deleting) if inputs.has_objects => return state,
                Some(EndingPhase::Deleting) => EndingPhase::PostDelete,
                Some(EndingPhase::PostDelete) => {
                    let step = HookStep::post(ReleaseChange::Delete);
                    if !state.is_over(step, inputs) {
                        state.advance_ending(step, inputs);
                        return state;
                    }
                    EndingPhase::Ended
                }
                Some(EndingPhase::Ended) => return state,
            };
            state.ending = Some(next);
            state.under_way.clear();
            state.ended.clear();
        }
    }

    /// Whether a step is over in all clusters.
    fn is_over(&self, step: HookStep, inputs: &EndingInputs<'_>) -> bool {
        let mut open = self.installed.intersection(inputs.clusters);
        hooks_of(inputs.hooks, step).is_empty() || open.all(|cluster| self.ended.contains(cluster))
    }

    fn advance_ending(&mut self, step: HookStep, inputs: &EndingInputs<'_>) {
        let open = self.installed.intersection(inputs.clusters);
        let open: Vec<String> = open
            .filter(|cluster| !self.ended.contains(*cluster))
            .cloned()
            .collect();
        for cluster in open {
            let report = inputs.reports.get(&cluster);
            let is_over = if self.under_way.contains_key(&cluster) {
                self.proceed(&cluster, inputs.hooks, report, LONGEST_HOOK, inputs.now)
            } else {
                let begun = self.begin_step(&cluster, step, inputs.hooks, inputs.now);
                begun == StepBegin::NoHooks
            };
            let hook = self.under_way.get(&cluster);
            if is_over || hook.is_some_and(|hook| hook.phase == HookPhase::Failed) {
                self.ended.insert(cluster);
            }
        }
    }
}
