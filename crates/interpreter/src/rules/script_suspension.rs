//! When the scripts of a kind are suspended, because too many of their runs reach a limit.
//!
//! Such a run takes about a thousand times as long as another one, in the task of a stream. The
//! count decides, not the time, so that the same objects suspend the same scripts. It is kept for
//! the rules of one kind on one member, so that the objects of a member cost no other member its
//! answers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{InterpretError, Operation, levels::AnsweringLevel, script::ScriptError};

/// What a run that reaches a limit adds to the score of its operation. Every other run takes 1
/// away, so that a script may reach its limits in 1 of 21 runs for ever.
const OVERRUN_SCORE: u32 = 20;
/// The same for a run that reaches the limit of time, which takes 40 times as long as one that
/// reaches another limit.
const TIMEOUT_SCORE: u32 = 5 * OVERRUN_SCORE;
/// The score at which the script is suspended: after 10 such runs at the earliest, which take about
/// 0.25 s together, or 2 of a second.
const MAX_SCORE: u32 = 10 * OVERRUN_SCORE;

/// A script that is not to be run for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspendedScript {
    /// The level that has the script. Of united dependency scripts all are named: a run of one is a
    /// run of all, and none of them answers while they are suspended.
    pub by: AnsweringLevel,
    /// The limit that the script has reached.
    pub limit: ScriptError,
}

impl SuspendedScript {
    /// What an object is said about that the script would have interpreted.
    pub(super) fn error(&self, operation: Operation) -> InterpretError {
        let Self { by, limit } = self;
        let verb = if by.names().len() == 1 { "is" } else { "are" };
        InterpretError(format!(
            "{by} {verb} suspended for {operation}: too many of its runs fail ({limit}); it is tried again within an hour, or when the script is changed"
        ))
    }
}

/// How often the scripts of a kind reach their limits.
#[derive(Debug, Default)]
pub(super) struct OverrunScores(Mutex<BTreeMap<Operation, OverrunScore>>);

#[derive(Debug)]
struct OverrunScore {
    points: u32,
    /// The last one that has reached a limit.
    script: SuspendedScript,
}

impl OverrunScores {
    /// Counts a run that has reached a limit.
    pub(super) fn add(&self, operation: Operation, script: SuspendedScript) {
        let mut scores = self.lock();
        let before = scores.get(&operation).map_or(0, |score| score.points);
        let more = match script.limit {
            ScriptError::OutOfTime => TIMEOUT_SCORE,
            _ => OVERRUN_SCORE,
        };
        let points = MAX_SCORE.min(before + more);
        scores.insert(operation, OverrunScore { points, script });
    }

    /// Counts a run that has not, whether it failed otherwise or not.
    pub(super) fn ended_well(&self, operation: Operation) {
        if let Some(score) = self.lock().get_mut(&operation) {
            score.points = score.points.saturating_sub(1);
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        let scores = self.lock();
        scores.values().any(|score| score.points == MAX_SCORE)
    }

    pub(super) fn exhausted(&self) -> BTreeMap<Operation, SuspendedScript> {
        let scores = self.lock();
        let exhausted = scores.iter().filter(|(_, score)| score.points == MAX_SCORE);
        exhausted
            .map(|(operation, score)| (*operation, score.script.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Operation, OverrunScore>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
