//! The memory of what is parsed for one merged object.

use fleetdex_core::model::value_size;
use fleetdex_limits::{intake::MemoryReservation, request::UserRequest};
use serde_json::Value;

use crate::{api_error::ApiError, limits::grow, read::across_kinds::TIMEOUT};

/// What a merged object may take besides its text. That of a thousand clusters with a status of 5
/// kB takes a fifth.
const MERGE_BYTES: usize = 64 << 20;
/// An object is in memory at most this often: as it was parsed, and either as rules read it or as a
/// result.
const COPIES: usize = 2;

/// What is parsed for one merged object.
pub(super) struct MergeMemory {
    /// How many objects may be parsed at a time.
    pub(super) concurrency: usize,
    used: usize,
    reservation: MemoryReservation,
}

impl MergeMemory {
    /// Memory for objects that take as much as `sizes` when they are parsed, of which the first one
    /// is kept, and `concurrency` others are parsed at a time; if that is too much, one at a time.
    pub(super) async fn new(sizes: &[usize], concurrency: usize) -> Result<Self, ApiError> {
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
        let mut memory = Self {
            concurrency,
            used: of(concurrency),
            reservation: UserRequest::current().memory().reservation(),
        };
        memory.reserve().await.map(|()| memory)
    }

    /// Counts what a member reports. It is in memory twice: by itself, and in what all members
    /// report.
    pub(super) async fn keep(&mut self, status: Option<&Value>) -> Result<(), ApiError> {
        self.used += COPIES * status.map_or(0, value_size);
        self.reserve().await
    }

    async fn reserve(&mut self) -> Result<(), ApiError> {
        if self.used > MERGE_BYTES {
            return Err(ApiError::Unprocessable(format!(
                "the object of all clusters takes more than {} MiB of memory when it is parsed; name fewer clusters, or get it from each",
                MERGE_BYTES >> 20
            )));
        }
        grow(&mut self.reservation, self.used, TIMEOUT).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn large_objects_are_parsed_one_at_a_time_and_larger_ones_not_at_all() {
        let concurrency = async |sizes: &[usize]| {
            let memory = MergeMemory::new(sizes, 4).await;
            memory.map(|memory| memory.concurrency)
        };
        assert_eq!(concurrency(&[MIB; 500]).await, Ok(4));
        assert_eq!(concurrency(&[8 * MIB; 500]).await, Ok(1));
        assert_eq!(concurrency(&[]).await, Ok(4));
        let refused = concurrency(&[MIB, 32 * MIB]).await.unwrap_err();
        assert_eq!(refused.code(), 422);
        insta::assert_snapshot!(refused, @"the object of all clusters takes more than 64 MiB of memory when it is parsed; name fewer clusters, or get it from each");
    }

    #[tokio::test]
    async fn the_reports_of_members_count_while_they_are_kept() {
        let mut memory = MergeMemory::new(&[MIB; 2], 4).await.unwrap();
        let status = json!(vec![json!({"": 1}); 10_000]);
        let mut kept = 0;
        while memory.keep(Some(&status)).await.is_ok() {
            kept += 1;
        }
        assert!((2..10).contains(&kept), "{kept}");
        assert!(memory.keep(None).await.is_err());
    }
}
