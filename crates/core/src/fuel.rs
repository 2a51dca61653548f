//! Fuel: how much an evaluation may do that depends on data from outside.
//!
//! A request or an object has one counter, which everything that is evaluated for it takes from. An
//! evaluation without fuel ends with an error, never with a part of its result. What share of the
//! steps evaluations take is counted for the whole process ([`MeteredEvaluation`]).

use std::cell::Cell;

mod evaluation;

pub use evaluation::{MeteredEvaluation, SHARE_BOUNDS, StepShares};

/// Bytes of text that are compared or copied in one step.
const BYTES_PER_STEP: usize = 16;

/// The steps that a request or an object may still take.
///
/// A step is one value that is looked at, one comparison or one copy, with 16 bytes of its text;
/// each further 16 bytes are one step more.
#[derive(Debug)]
pub struct Fuel {
    left: Cell<u64>,
    capacity: u64,
    /// The most that was taken before steps were added.
    most_used: Cell<u64>,
    /// What counts the share that was taken.
    evaluation: Option<MeteredEvaluation>,
}

/// An evaluation needs more steps than its request or object has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too complex: it takes more steps than one request or object may take")]
pub struct OutOfFuel;

impl Fuel {
    /// So many steps.
    pub const fn new(steps: u64) -> Self {
        Self {
            left: Cell::new(steps),
            capacity: steps,
            most_used: Cell::new(0),
            evaluation: None,
        }
    }

    /// So many steps for one evaluation. Counts the share of them that was taken at most, once it
    /// is dropped, unless nothing was taken.
    pub const fn of(evaluation: MeteredEvaluation, steps: u64) -> Self {
        let mut fuel = Self::new(steps);
        fuel.evaluation = Some(evaluation);
        fuel
    }

    /// No bound, for the machine of the person who wrote what is evaluated.
    pub const fn unbounded() -> Self {
        Self::new(u64::MAX)
    }

    /// Takes steps, before they are made. Fails and takes nothing if there are fewer.
    pub fn take(&self, steps: usize) -> Result<(), OutOfFuel> {
        let steps = u64::try_from(steps).map_err(|_| OutOfFuel)?;
        self.left
            .set(self.left.get().checked_sub(steps).ok_or(OutOfFuel)?);
        Ok(())
    }

    /// Takes the steps of a text of so many bytes that is compared or copied.
    pub fn take_text(&self, bytes: usize) -> Result<(), OutOfFuel> {
        self.take(1 + bytes / BYTES_PER_STEP)
    }

    /// Adds steps for further data, up to the number at the beginning. So an answer of any length
    /// is bounded by the length of its data.
    pub fn refill(&self, steps: usize) {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.most_used.set(self.most_used());
        let filled = self.left.get().saturating_add(steps);
        self.left.set(filled.min(self.capacity));
    }

    /// The steps that were taken and not added again.
    pub fn used(&self) -> u64 {
        self.capacity - self.left.get()
    }

    fn most_used(&self) -> u64 {
        self.most_used.get().max(self.used())
    }
}

impl Clone for Fuel {
    /// The same steps, for an evaluation of its own.
    fn clone(&self) -> Self {
        Self {
            left: self.left.clone(),
            most_used: Cell::new(0),
            capacity: self.capacity,
            evaluation: self.evaluation,
        }
    }
}

impl Drop for Fuel {
    fn drop(&mut self) {
        if let Some(evaluation) = self.evaluation
            && self.most_used() > 0
        {
            evaluation.count(self.most_used(), self.capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_too_little_for_takes_nothing() {
        let fuel = Fuel::new(10);
        assert_eq!(fuel.take(7), Ok(()));
        assert_eq!(fuel.take(4), Err(OutOfFuel));
        assert_eq!(fuel.take(3), Ok(()));
        assert_eq!((fuel.take(1), fuel.used()), (Err(OutOfFuel), 10));
    }

    #[test]
    fn a_text_takes_a_step_for_each_sixteen_bytes() {
        let fuel = Fuel::new(100);
        for (bytes, steps) in [(0, 1), (15, 1), (16, 2), (100, 7)] {
            let before = fuel.used();
            fuel.take_text(bytes).unwrap();
            assert_eq!(fuel.used() - before, steps);
        }
    }

    #[test]
    fn the_largest_share_of_an_evaluation_is_counted_once() {
        let counted = || MeteredEvaluation::Patch.shares();
        let before = counted();
        let fuel = Fuel::of(MeteredEvaluation::Patch, 1000);
        for steps in [400, 20, 30] {
            fuel.take(steps).unwrap();
            fuel.refill(900);
        }
        assert_eq!(counted().count(), before.count());
        drop(fuel);
        drop(Fuel::of(MeteredEvaluation::Patch, 10));
        let after = counted();
        assert_eq!(after.count(), before.count() + 1);
        assert!((after.sum - before.sum - 0.4).abs() < 1e-6);
        let of_bucket = |shares: &StepShares| shares.buckets[6];
        assert_eq!(of_bucket(&after), of_bucket(&before) + 1, "0.3 to 0.5");
    }

    #[test]
    fn it_is_not_filled_beyond_its_beginning() {
        let fuel = Fuel::new(10);
        fuel.take(8).unwrap();
        fuel.refill(5);
        assert_eq!(fuel.used(), 3);
        fuel.refill(usize::MAX);
        assert_eq!(fuel.used(), 0);
    }
}
