//! Memory for the large pages of responses that are being sent: limited for each user, and for all.
//! While others wait for memory, responses that clients read slowly are cut.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use fleetdex_core::query::Requester;
use fleetdex_limits::intake::{Budget, IntakeError, MemoryLimits, MemoryReservation};
use tokio::time::timeout;

use crate::request::api_error::ApiError;

/// Pages of up to this size are not counted: there are at most two of them for each request in
/// flight.
pub(super) const SMALL_PAGE_BYTES: usize = 512 << 10;
/// The largest page of usual objects; a larger one counts as this size.
const PAGE_BYTES: usize = 32 << 20;
/// How long a page waits for memory.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The memory for the pages of one user, and of all users, beside one more page.
const LIMITS: MemoryLimits = MemoryLimits {
    page: PAGE_BYTES,
    line: 0,
    answer: PAGE_BYTES,
    refusal: 0,
    share: 64 << 20,
    shared: 192 << 20,
};

/// The memory of one response, for one page at a time.
pub(super) struct PageMemory {
    budget: Budget,
    /// `None` for the operator's own queries, which are not counted.
    user: Option<Arc<str>>,
    reservation: Option<MemoryReservation>,
}

impl PageMemory {
    /// Memory of the process's budget.
    pub(super) fn of(requester: &Requester) -> Self {
        static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::new(LIMITS));
        let user = match requester {
            Requester::User(name) => Some(Arc::clone(name)),
            Requester::Operator => None,
        };
        Self {
            budget: BUDGET.clone(),
            user,
            reservation: None,
        }
    }

    /// Memory for the page after the current one, if there is room for about `bytes` and one more
    /// page of any size.
    pub(super) fn ahead(&self, bytes: usize) -> Option<Self> {
        let share = |user: &Arc<str>| self.budget.share(user);
        let is_small = bytes <= SMALL_PAGE_BYTES;
        let has_room = |user: &Arc<str>| is_small || share(user).has_room_for(bytes);
        self.user.as_ref().is_none_or(has_room).then(|| Self {
            budget: self.budget.clone(),
            user: self.user.clone(),
            reservation: None,
        })
    }

    /// Releases the memory of a page that was sent.
    pub(super) fn release(&mut self) {
        self.reservation = None;
    }

    /// Notes that the page begins to be sent.
    pub(super) fn begin_sending(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.restart_pace();
        }
    }

    /// Releases the memory of the previous page, and reserves memory for a page of `bytes`.
    pub(super) async fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.release();
        let Some(user) = self.user.as_deref().filter(|_| bytes > SMALL_PAGE_BYTES) else {
            return Ok(());
        };
        let mut reservation = self.budget.share(user).reservation();
        let taken = timeout(TIMEOUT, reservation.grow(bytes))
            .await
            .map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))?;
        taken.map_err(|error| refused(&error))?;
        self.reservation = Some(reservation);
        Ok(())
    }

    /// Records that the client has read `bytes` of the page since the last call. An error if that
    /// is too slow while others wait.
    pub(super) fn keep_pace(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.reservation
            .as_mut()
            .map_or(Ok(()), |reservation| reservation.keep_pace(bytes))
            .map_err(|error| refused(&error))
    }
}

fn refused(error: &IntakeError) -> ApiError {
    match error {
        IntakeError::ShareExhausted(bytes) => ApiError::Busy(format!(
            "{bytes} bytes of your responses are unread; read those first, or request fewer objects at a time"
        )),
        IntakeError::Slow => ApiError::Busy(
            "the response was read too slowly while others waited for memory".to_owned(),
        ),
        other => ApiError::Busy(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const MIB: usize = 1 << 20;

    fn memory(budget: &Budget, user: &str) -> PageMemory {
        PageMemory {
            budget: budget.clone(),
            user: Some(user.into()),
            reservation: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pages_of_one_user_are_limited_and_small_pages_are_not_counted() {
        let budget = Budget::new(LIMITS);
        let [mut first, mut second, mut third] = [(); 3].map(|()| memory(&budget, "mallory"));
        first.take(32 * MIB).await.unwrap();
        second.take(31 * MIB).await.unwrap();
        let refused = third.take(2 * MIB).await.unwrap_err();
        insta::assert_snapshot!(refused, @"66060288 bytes of your responses are unread; read those first, or request fewer objects at a time; try again");
        third.take(SMALL_PAGE_BYTES).await.unwrap();
        memory(&budget, "alice").take(32 * MIB).await.unwrap();
        second.take(MIB).await.unwrap();
        third.take(31 * MIB).await.unwrap();
        drop([first, second, third]);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_read_ahead_only_where_another_one_has_room_beside_it() {
        let budget = Budget::new(LIMITS);
        let mut first = memory(&budget, "mallory");
        first.take(20 * MIB).await.unwrap();
        assert!(first.ahead(13 * MIB).is_none());
        let mut ahead = first.ahead(12 * MIB).unwrap();
        ahead.take(12 * MIB).await.unwrap();
        assert!(first.ahead(MIB).is_none());
        assert!(first.ahead(SMALL_PAGE_BYTES).is_some());
        memory(&budget, "mallory").take(32 * MIB).await.unwrap();
        first = ahead;
        assert_eq!(budget.held(), 12 * MIB);

        // The time in which the store was slow does not count against the client.
        sleep(Duration::from_mins(1)).await;
        first.begin_sending();
        let mut others = Vec::new();
        for name in ["a", "a", "b", "b", "c", "c"] {
            let mut other = memory(&budget, name);
            other.take(32 * MIB).await.unwrap();
            others.push(other);
        }
        let mut waiting = memory(&budget, "d");
        let waiting = tokio::spawn(async move { waiting.take(32 * MIB).await });
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
            list.take(32 * MIB).await.unwrap();
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
        let waits = tokio::spawn(async move { other.take(32 * MIB).await });
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
