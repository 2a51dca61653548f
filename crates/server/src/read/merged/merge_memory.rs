//! Counts what is parsed for one merged object. A turn to merge objects is the right to
//! [`MERGE_BYTES`], so that nothing waits for memory while it has some.

use fleetdex_core::model::value_size;
use serde_json::Value;

use crate::{read::interpreters::MERGE_BYTES, request::api_error::ApiError};

/// An object is in memory at most this often: as it was parsed, and either as rules read it or as a
/// result.
const COPIES: usize = 2;

/// What is parsed for one merged object.
#[derive(Debug)]
pub(super) struct MergeMemory {
    /// How many objects may be parsed at a time.
    pub(super) concurrency: usize,
    used: usize,
}

impl MergeMemory {
    /// Memory for objects that take as much as `sizes` when they are parsed, of which the first one
    /// is kept, and `concurrency` others are parsed at a time; if that is too much, one at a time.
    pub(super) fn new(sizes: &[usize], concurrency: usize) -> Result<Self, ApiError> {
        let mut descending = sizes.to_vec();
        descending.sort_unstable_by(|left, right| right.cmp(left));
        let of = |concurrency: usize| {
            let others: usize = descending.iter().take(concurrency).sum();
            let first = sizes.first().copied().unwrap_or_default();
            COPIES * (first + others)
        };
        // Half of the memory is for what members report.
        let concurrency = if of(concurrency) > MERGE_BYTES / 2 {
            1
        } else {
            concurrency
        };
        let memory = Self {
            concurrency,
            used: of(concurrency),
        };
        memory.check().map(|()| memory)
    }

    /// Counts what a member reports. It is in memory twice: by itself, and in what all members
    /// report.
    pub(super) fn keep(&mut self, status: Option<&Value>) -> Result<(), ApiError> {
        self.used += COPIES * status.map_or(0, value_size);
        self.check()
    }

    fn check(&self) -> Result<(), ApiError> {
        if self.used <= MERGE_BYTES {
            return Ok(());
        }
        Err(ApiError::Unprocessable(format!(
            "the object of all clusters takes more than {} MiB of memory when it is parsed; name fewer clusters, or get it from each",
            MERGE_BYTES >> 20
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn large_objects_are_parsed_one_at_a_time_and_larger_ones_not_at_all() {
        let concurrency =
            |sizes: &[usize]| MergeMemory::new(sizes, 4).map(|memory| memory.concurrency);
        assert_eq!(concurrency(&[MIB; 500]), Ok(4));
        assert_eq!(concurrency(&[8 * MIB; 500]), Ok(1));
        assert_eq!(concurrency(&[]), Ok(4));
        let refused = concurrency(&[MIB, 64 * MIB]).unwrap_err();
        assert_eq!(refused.code(), 422);
        insta::assert_snapshot!(refused, @"the object of all clusters takes more than 128 MiB of memory when it is parsed; name fewer clusters, or get it from each");
    }

    #[test]
    fn the_reports_of_members_count_while_they_are_kept() {
        let mut memory = MergeMemory::new(&[MIB; 2], 4).unwrap();
        let status = json!(vec![json!({"": 1}); 10_000]);
        let kept = (0..100)
            .take_while(|_| memory.keep(Some(&status)).is_ok())
            .count();
        assert!((5..20).contains(&kept), "{kept}");
        assert!(memory.keep(None).is_err());
    }
}
