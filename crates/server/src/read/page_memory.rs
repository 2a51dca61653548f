//! Memory for the pages of responses that are being sent. While others wait for memory, responses
//! that clients read slowly are cut.

use std::time::Duration;

use fleetdex_core::query::{Hit, Requester};
use fleetdex_limits::{
    intake::{Intake, MemoryReservation, Pace},
    request::UserRequest,
};
use tokio::time::timeout;

use crate::{http::limits::no_memory, request::api_error::ApiError};

/// Pages of up to this size of the embedded store are not counted: there are at most two of them
/// for each request in flight.
pub(super) const SMALL_PAGE_BYTES: usize = 64 << 10;
/// How long a page waits for memory.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The memory of one response, for one page at a time.
pub(super) struct PageMemory {
    /// `None` for the operator's own queries, which are not counted.
    of_request: Option<Intake>,
    /// That of objects of the embedded store. Those of OpenSearch have theirs.
    reservation: Option<MemoryReservation>,
    /// Of the page that is being sent, unless it is small.
    pace: Option<Pace>,
}

impl PageMemory {
    /// Memory of the request that this task works for.
    pub(super) fn of(requester: &Requester) -> Self {
        Self::within(match requester {
            Requester::User(_) => Some(UserRequest::current().memory().clone()),
            Requester::Operator => None,
        })
    }

    fn within(of_request: Option<Intake>) -> Self {
        Self {
            of_request,
            reservation: None,
            pace: None,
        }
    }

    /// Memory for the page after the current one, if there is room for about `bytes` and one more
    /// page of any size.
    pub(super) fn ahead(&self, bytes: usize) -> Option<Self> {
        let is_small = bytes <= SMALL_PAGE_BYTES;
        let has_room = |intake: &Intake| is_small || intake.has_room_for(bytes);
        let of_request = self.of_request.clone();
        let may_read = of_request.as_ref().is_none_or(has_room);
        may_read.then(|| Self::within(of_request))
    }

    /// Releases the memory of a page that was sent.
    pub(super) fn release(&mut self) {
        self.reservation = None;
        self.pace = None;
    }

    /// Notes that the page begins to be sent.
    pub(super) fn begin_sending(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.restart();
        }
    }

    /// Releases the memory of the previous page, and reserves memory for a page.
    pub(super) async fn take(&mut self, page: &[Hit]) -> Result<(), ApiError> {
        let uncounted = page.iter().filter(|hit| !hit.memory.is_held());
        let uncounted = uncounted.map(|hit| hit.object.get().len()).sum();
        self.take_bytes(bytes_of(page), uncounted).await
    }

    async fn take_bytes(&mut self, bytes: usize, uncounted: usize) -> Result<(), ApiError> {
        self.release();
        let Some(intake) = self
            .of_request
            .as_ref()
            .filter(|_| bytes > SMALL_PAGE_BYTES)
        else {
            return Ok(());
        };
        if uncounted > SMALL_PAGE_BYTES {
            let mut reservation = intake.reservation();
            let taken = timeout(TIMEOUT, reservation.grow(uncounted)).await;
            taken
                .map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))?
                .map_err(|error| no_memory(&error))?;
            self.reservation = Some(reservation);
        }
        self.pace = Some(intake.pace());
        Ok(())
    }

    /// Records that the client has read `bytes` of the page since the last call. An error if that
    /// is too slow while others wait.
    pub(super) fn keep_pace(&mut self, bytes: usize) -> Result<(), ApiError> {
        let kept = self.pace.as_mut().map_or(Ok(()), |pace| pace.keep(bytes));
        kept.map_err(|error| no_memory(&error))
    }
}

/// Bytes of the texts of objects.
pub(super) fn bytes_of(page: &[Hit]) -> usize {
    page.iter().map(|hit| hit.object.get().len()).sum()
}

#[cfg(test)]
mod tests {
    use fleetdex_limits::intake::{Budget, MemoryLimits};
    use tokio::time::sleep;

    use super::*;

    const MIB: usize = 1 << 20;

    const LIMITS: MemoryLimits = MemoryLimits {
        page: 32 * MIB,
        line: 0,
        answer: 32 * MIB,
        refusal: 0,
        small: 0,
        request: 0,
        share: 64 * MIB,
        shared: 192 * MIB,
    };

    fn memory(budget: &Budget, user: &str) -> PageMemory {
        PageMemory::within(Some(budget.share(user)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_pages_of_one_user_are_limited_and_small_pages_are_not_counted() {
        let budget = Budget::new(LIMITS);
        let [mut first, mut second, mut third] = [(); 3].map(|()| memory(&budget, "mallory"));
        first.take_bytes(32 * MIB, 32 * MIB).await.unwrap();
        second.take_bytes(31 * MIB, 31 * MIB).await.unwrap();
        let refused = third.take_bytes(2 * MIB, 2 * MIB).await.unwrap_err();
        insta::assert_snapshot!(refused, @"your other requests hold 63 MiB of memory; read their responses first, or send fewer at a time; try again");
        third
            .take_bytes(SMALL_PAGE_BYTES, SMALL_PAGE_BYTES)
            .await
            .unwrap();
        memory(&budget, "alice")
            .take_bytes(32 * MIB, 32 * MIB)
            .await
            .unwrap();
        second.take_bytes(MIB, MIB).await.unwrap();
        third.take_bytes(31 * MIB, 31 * MIB).await.unwrap();
        drop([first, second, third]);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_read_ahead_only_where_another_one_has_room_beside_it() {
        let budget = Budget::new(LIMITS);
        let mut first = memory(&budget, "mallory");
        first.take_bytes(20 * MIB, 20 * MIB).await.unwrap();
        assert!(first.ahead(13 * MIB).is_none());
        let mut ahead = first.ahead(12 * MIB).unwrap();
        ahead.take_bytes(12 * MIB, 12 * MIB).await.unwrap();
        assert!(first.ahead(MIB).is_none());
        assert!(first.ahead(SMALL_PAGE_BYTES).is_some());
        memory(&budget, "mallory")
            .take_bytes(32 * MIB, 32 * MIB)
            .await
            .unwrap();
        first = ahead;
        assert_eq!(budget.held(), 12 * MIB);

        // The time in which the store was slow does not count against the client.
        sleep(Duration::from_mins(1)).await;
        first.begin_sending();
        let mut others = Vec::new();
        for name in ["a", "a", "b", "b", "c", "c"] {
            let mut other = memory(&budget, name);
            other.take_bytes(32 * MIB, 32 * MIB).await.unwrap();
            others.push(other);
        }
        let mut waiting = memory(&budget, "d");
        let waiting = tokio::spawn(async move { waiting.take_bytes(32 * MIB, 32 * MIB).await });
        sleep(Duration::from_secs(1)).await;
        first.keep_pace(1).unwrap();
        drop((first, others));
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slowly_read_lists_are_cut_while_others_wait_for_memory() {
        let budget = Budget::new(LIMITS);
        let mut slow = Vec::new();
        for number in 0..7 {
            let mut list = memory(&budget, &format!("user{}", number / 2));
            list.take_bytes(32 * MIB, 32 * MIB).await.unwrap();
            slow.push(list);
        }
        assert_eq!(budget.held(), LIMITS.bound());
        for _ in 0..60 {
            sleep(Duration::from_secs(1)).await;
            for list in &mut slow {
                list.keep_pace(64 << 10).unwrap();
            }
        }
        let mut other = memory(&budget, "other");
        let waits = tokio::spawn(async move { other.take_bytes(32 * MIB, 32 * MIB).await });
        let mut left = slow.len();
        while !waits.is_finished() {
            sleep(Duration::from_secs(1)).await;
            slow.retain_mut(|list| list.keep_pace(64 << 10).is_ok());
            left = left.min(slow.len());
        }
        waits.await.unwrap().unwrap();
        assert!(left < 7);
    }
}
