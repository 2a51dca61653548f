//! Fuel: how much an evaluation may do that depends on data from outside.
//!
//! A request or an object has one counter, which everything that is evaluated for it takes from. An
//! evaluation without fuel ends with an error, never with a part of its result.

use std::cell::Cell;

/// Bytes of text that are compared or copied in one step.
const BYTES_PER_STEP: usize = 16;

/// The steps that a request or an object may still take.
///
/// A step is one value that is looked at, one comparison or one copy, with 16 bytes of its text;
/// each further 16 bytes are one step more.
#[derive(Clone, Debug)]
pub struct Fuel {
    left: Cell<u64>,
    capacity: u64,
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
        }
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
        let filled = self.left.get().saturating_add(steps);
        self.left.set(filled.min(self.capacity));
    }

    /// The steps that were taken and not added again.
    pub fn used(&self) -> u64 {
        self.capacity - self.left.get()
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
    fn it_is_not_filled_beyond_its_beginning() {
        let fuel = Fuel::new(10);
        fuel.take(8).unwrap();
        fuel.refill(5);
        assert_eq!(fuel.used(), 3);
        fuel.refill(usize::MAX);
        assert_eq!(fuel.used(), 0);
    }
}
