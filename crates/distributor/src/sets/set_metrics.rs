//! The metrics of rollouts.

use std::collections::BTreeMap;

use fleetdex_distribution::{
    plan::{DistributionInputs, selected_clusters},
    rollout::{RolloutPhase, RolloutState},
};
use fleetdex_telemetry::metrics::{DistributionMetrics, RolloutCount, SetPhase};

use super::set_state::SetState;

/// Counts sets and their rollouts. When it is dropped, another replica counts them.
pub struct SetMetrics(pub DistributionMetrics);

impl Drop for SetMetrics {
    fn drop(&mut self) {
        self.0.forget_rollouts();
    }
}

impl SetMetrics {
    /// Counts the sets of a plan.
    pub fn count<'s>(&self, sets: impl Iterator<Item = &'s SetState>, inputs: &DistributionInputs) {
        let mut counts: BTreeMap<SetPhase, RolloutCount> = BTreeMap::new();
        for set in sets {
            let state = set.rollout.state();
            let count = counts.entry(phase(state, set.has_waves())).or_default();
            count.sets += 1;
            count.waiting_clusters += state.map_or(0, |state| waiting(set, state, inputs));
        }
        self.0.set_rollouts(&counts);
    }
}

fn phase(state: Option<&RolloutState>, has_waves: bool) -> SetPhase {
    match state.map(|state| state.phase) {
        None => SetPhase::Pending,
        Some(RolloutPhase::Paused) => SetPhase::Paused,
        Some(RolloutPhase::Failed) if has_waves => SetPhase::Failed,
        Some(RolloutPhase::Progressing | RolloutPhase::Failed) => SetPhase::Progressing,
        Some(RolloutPhase::Complete) => SetPhase::Complete,
        Some(RolloutPhase::Undone) => SetPhase::Undone,
    }
}

/// How many clusters a rollout has not reached that goes on.
fn waiting(set: &SetState, state: &RolloutState, inputs: &DistributionInputs) -> usize {
    if matches!(state.phase, RolloutPhase::Complete | RolloutPhase::Undone) {
        return 0;
    }
    let placement = set.placement();
    let clusters = selected_clusters(inputs, &placement);
    clusters
        .filter(|cluster| !state.reaches(&cluster.name))
        .count()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn sets_count_by_their_phase_and_fail_only_with_waves() {
        let state = |phase| RolloutState {
            phase,
            ..RolloutState::new("sha256:1", Timestamp::UNIX_EPOCH)
        };
        for (known, has_waves, expected) in [
            (None, true, SetPhase::Pending),
            (Some(RolloutPhase::Progressing), true, SetPhase::Progressing),
            (Some(RolloutPhase::Paused), true, SetPhase::Paused),
            (Some(RolloutPhase::Failed), true, SetPhase::Failed),
            (Some(RolloutPhase::Failed), false, SetPhase::Progressing),
            (Some(RolloutPhase::Complete), true, SetPhase::Complete),
            (Some(RolloutPhase::Undone), false, SetPhase::Undone),
        ] {
            let known = known.map(state);
            assert_eq!(phase(known.as_ref(), has_waves), expected, "{known:?}");
        }
    }
}
