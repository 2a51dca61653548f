//! Responses that clients read slowly are cut while others wait for memory. The objects of a page
//! hold their memory themselves.

use fleetdex_core::query::{Hit, Requester};
use fleetdex_limits::{
    intake::{Intake, Pace},
    request::{SMALL_PAGE_BYTES, UserRequest},
};

use crate::{http::limits::no_memory, request::api_error::ApiError};

/// The pace at which the pages of one response are sent.
pub(super) struct SendingPace {
    /// `None` for the operator's own queries, which are not counted.
    of_request: Option<Intake>,
    /// Of the page that is being sent, unless it is small.
    of_page: Option<Pace>,
}

impl SendingPace {
    /// Of the request that this task works for.
    pub(super) fn of(requester: &Requester) -> Self {
        Self::within(match requester {
            Requester::User(_) => Some(UserRequest::current().memory().clone()),
            Requester::Operator => None,
        })
    }

    fn within(of_request: Option<Intake>) -> Self {
        Self {
            of_request,
            of_page: None,
        }
    }

    /// Whether the page after the current one may be read already: there is room for about `bytes`
    /// and one more page of any size.
    pub(super) fn may_read_ahead(&self, bytes: usize) -> bool {
        let is_small = bytes <= SMALL_PAGE_BYTES;
        let has_room = |intake: &Intake| is_small || intake.has_room_for(bytes);
        self.of_request.as_ref().is_none_or(has_room)
    }

    /// Notes that a page of `bytes` begins to be sent.
    pub(super) fn begin_page(&mut self, bytes: usize) {
        let of_request = self.of_request.as_ref();
        let large = of_request.filter(|_| bytes > SMALL_PAGE_BYTES);
        self.of_page = large.map(Intake::pace);
    }

    /// Records that the client has read `bytes` of the page since the last call. An error if that
    /// is too slow while others wait.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), ApiError> {
        let kept = self
            .of_page
            .as_mut()
            .map_or(Ok(()), |pace| pace.keep(bytes));
        kept.map_err(|error| no_memory(&error))
    }
}

/// Bytes of the texts of objects.
pub(super) fn bytes_of(page: &[Hit]) -> usize {
    page.iter().map(|hit| hit.object.get().len()).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetdex_limits::intake::{Budget, MemoryLimits, MemoryReservation};
    use tokio::time::sleep;

    use super::*;

    const MIB: usize = 1 << 20;
    const PAGE: usize = 32 * MIB;

    const LIMITS: MemoryLimits = MemoryLimits {
        page: PAGE,
        line: 0,
        answer: PAGE,
        refusal: 0,
        small: 0,
        request: 0,
        share: 64 * MIB,
        shared: 192 * MIB,
    };

    /// A list that sends a page.
    async fn list(budget: &Budget, user: &str, bytes: usize) -> (SendingPace, MemoryReservation) {
        let intake = budget.share(user);
        let mut memory = intake.reservation();
        memory.grow(bytes).await.unwrap();
        let mut pace = SendingPace::within(Some(intake));
        pace.begin_page(bytes);
        (pace, memory)
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_read_ahead_only_where_another_one_has_room_beside_it() {
        let budget = Budget::new(LIMITS);
        let (pace, first) = list(&budget, "mallory", 20 * MIB).await;
        assert!(!pace.may_read_ahead(13 * MIB));
        assert!(pace.may_read_ahead(12 * MIB));
        let (_, ahead) = list(&budget, "mallory", 12 * MIB).await;
        assert!(!pace.may_read_ahead(MIB));
        assert!(pace.may_read_ahead(SMALL_PAGE_BYTES));
        let (other, _) = list(&budget, "alice", MIB).await;
        assert!(other.may_read_ahead(PAGE - MIB));
        drop((first, ahead));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_the_store_was_slow_does_not_count_against_the_client() {
        let budget = Budget::new(LIMITS);
        let (mut pace, _first) = list(&budget, "mallory", PAGE).await;
        let mut others = Vec::new();
        for name in ["a", "a", "b", "b", "c", "c"] {
            others.push(list(&budget, name, PAGE).await);
        }
        let waiting = budget.share("d");
        let waiting = tokio::spawn(async move { waiting.reservation().grow(PAGE).await });
        sleep(Duration::from_mins(1)).await;
        pace.begin_page(PAGE);
        sleep(Duration::from_secs(1)).await;
        pace.keep(1).unwrap();
        sleep(Duration::from_secs(5)).await;
        pace.keep(1).unwrap_err();
        drop(others);
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slowly_read_lists_are_cut_while_others_wait_for_memory() {
        let budget = Budget::new(LIMITS);
        let mut slow = Vec::new();
        for number in 0..7 {
            slow.push(list(&budget, &format!("user{}", number / 2), PAGE).await);
        }
        assert_eq!(budget.held(), LIMITS.bound());
        for _ in 0..60 {
            sleep(Duration::from_secs(1)).await;
            for (pace, _) in &mut slow {
                pace.keep(64 << 10).unwrap();
            }
        }
        let other = budget.share("other");
        let waits = tokio::spawn(async move { other.reservation().grow(PAGE).await });
        while !waits.is_finished() {
            sleep(Duration::from_secs(1)).await;
            slow.retain_mut(|(pace, _)| pace.keep(64 << 10).is_ok());
        }
        waits.await.unwrap().unwrap();
        assert!(slow.len() < 7);
    }
}
