//! Decides which of the members that report the same cluster UID are indexed. Pure.

use fleetdex_core::model::ClusterName;
use jiff::Timestamp;

use super::super::{
    super::{connection_state::ConnectionPhase, shared::MemberState},
    history::IdentityVerdict,
};

/// The note on two members that were both indexed as one cluster before.
const BOTH_ESTABLISHED: &str =
    "both were indexed before, and they cannot be distinguished now: remove one of the two";

/// A member whose cluster UID several members report. Established members sort first, then older
/// registrations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) is_new: bool,
    pub(super) age: RegistrationAge,
    pub(super) reachability: Reachability,
}

/// Sorts registrations by age, the oldest first: those of unknown age are last, and names break
/// ties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RegistrationAge {
    pub(super) is_unknown: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) name: ClusterName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reachability {
    Connected,
    /// The first attempt to connect has not ended.
    Unknown,
    Disconnected,
}

/// The decision on a candidate. The numbers are positions of candidates before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CandidateOutcome {
    /// It is indexed beside these candidates, for the given reasons.
    Indexed(Vec<(usize, String)>),
    /// It waits until it has been compared with this candidate.
    Waits(usize),
    /// It is the same cluster as this candidate.
    Refused(usize),
}

impl RegistrationAge {
    pub(super) fn of(state: &MemberState) -> Self {
        let created = state.member.created;
        Self {
            is_unknown: created.is_none(),
            created,
            name: state.member.name.clone(),
        }
    }
}

impl Reachability {
    pub(super) fn of(state: &MemberState) -> Self {
        match (&state.connection, state.phase) {
            (Some(_), _) => Self::Connected,
            (None, ConnectionPhase::Disconnected) => Self::Disconnected,
            (None, _) => Self::Unknown,
        }
    }
}

/// Decides on candidates, in their order. `established_known`: whether it is known which of them
/// are established; until then none is refused.
pub(super) fn outcomes(
    candidates: &[Candidate],
    established_known: bool,
    verdict: impl Fn(usize, usize) -> Option<IdentityVerdict>,
) -> Vec<CandidateOutcome> {
    let mut outcomes: Vec<CandidateOutcome> = Vec::with_capacity(candidates.len());
    for (position, candidate) in candidates.iter().enumerate() {
        let mut outcome = CandidateOutcome::Indexed(Vec::new());
        let earlier = outcomes
            .iter()
            .enumerate()
            .filter(|(_, outcome)| matches!(outcome, CandidateOutcome::Indexed(_)));
        for (first, _) in earlier {
            let found = verdict(first, position);
            let decided = match (found, candidates[first].reachability) {
                (Some(IdentityVerdict::Same), _) if !candidate.is_new => {
                    add_difference(&mut outcome, first, BOTH_ESTABLISHED.to_owned())
                }
                (None, _) if !candidate.is_new => None,
                (Some(IdentityVerdict::Same), _) if established_known => {
                    Some(CandidateOutcome::Refused(first))
                }
                (Some(IdentityVerdict::Different(why)), _) => {
                    add_difference(&mut outcome, first, why)
                }
                (None, _) if candidate.reachability != Reachability::Connected => None,
                (None, Reachability::Disconnected) => add_difference(
                    &mut outcome,
                    first,
                    "they cannot be compared while one is not connected".to_owned(),
                ),
                (Some(IdentityVerdict::Same), _)
                | (None, Reachability::Connected | Reachability::Unknown) => {
                    Some(CandidateOutcome::Waits(first))
                }
            };
            if let Some(decided) = decided {
                outcome = decided;
                break;
            }
        }
        outcomes.push(outcome);
    }
    outcomes
}

/// Notes a difference; returns `None`, as it decides nothing.
fn add_difference(
    outcome: &mut CandidateOutcome,
    first: usize,
    why: String,
) -> Option<CandidateOutcome> {
    if let CandidateOutcome::Indexed(differences) = outcome {
        differences.push((first, why));
    }
    None
}
