//! Memory for the large pages of answers that are being sent: a bound for each user, and one for all. While others wait for memory, an answer that its
//! client takes slowly is cut short.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use fleetdex_core::query::Requester;
use fleetdex_limits::intake::{Budget, Hold, Limits, ReadError};
use tokio::time::timeout;

use super::status::ApiError;

/// Pages of at most so many bytes are not counted: there are no more of them than requests in flight.
pub(super) const SMALL_PAGE_BYTES: usize = 512 << 10;
/// The longest page of usual objects; a longer one counts as one of this length.
const PAGE_BYTES: usize = 32 << 20;
/// How long a page waits for memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the pages of one user may hold, and those of all, beside one more page.
const LIMITS: Limits = Limits {
    page: PAGE_BYTES,
    line: 0,
    answer: PAGE_BYTES,
    refusal: 0,
    share: 64 << 20,
    shared: 192 << 20,
};

/// Memory for the page of one answer at a time.
pub(super) struct PageMemory {
    budget: Budget,
    /// Nobody for what this program does by itself, which is not counted.
    user: Option<Arc<str>>,
    hold: Option<Hold>,
}

impl PageMemory {
    /// Memory of this process.
    pub(super) fn of(requester: &Requester) -> Self {
        static OF_THIS_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::new(LIMITS));
        let user = match requester {
            Requester::User(name) => Some(Arc::clone(name)),
            Requester::Operator => None,
        };
        Self {
            budget: OF_THIS_PROCESS.clone(),
            user,
            hold: None,
        }
    }

    /// Gives back the memory of the page before, and takes that for a page of so many bytes.
    pub(super) async fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.hold = None;
        let Some(user) = self.user.as_deref().filter(|_| bytes > SMALL_PAGE_BYTES) else {
            return Ok(());
        };
        let mut hold = self.budget.share(user).hold();
        let taken = timeout(PATIENCE, hold.grow(bytes))
            .await
            .map_err(|_| ApiError::Timeout(PATIENCE.as_secs()))?;
        taken.map_err(|error| refused(&error))?;
        self.hold = Some(hold);
        Ok(())
    }

    /// The client has taken so many bytes of the page since the last call. An error if that is slow, and others wait.
    pub(super) fn keep_pace(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.hold
            .as_mut()
            .map_or(Ok(()), |hold| hold.keep_pace(bytes))
            .map_err(|error| refused(&error))
    }
}

fn refused(error: &ReadError) -> ApiError {
    match error {
        ReadError::Crowded(bytes) => ApiError::Busy(format!(
            "{bytes} bytes of answers that you have asked for are not read yet; read those first, or ask for fewer objects at a time"
        )),
        ReadError::Slow => ApiError::Busy(
            "the answer was read too slowly while others waited for memory".to_owned(),
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
            hold: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pages_of_one_user_have_a_bound_and_small_ones_are_not_counted() {
        let budget = Budget::new(LIMITS);
        let [mut first, mut second, mut third] = [(); 3].map(|()| memory(&budget, "mallory"));
        first.take(32 * MIB).await.unwrap();
        second.take(31 * MIB).await.unwrap();
        let refused = third.take(2 * MIB).await.unwrap_err();
        insta::assert_snapshot!(refused, @"66060288 bytes of answers that you have asked for are not read yet; read those first, or ask for fewer objects at a time; try again");
        third.take(SMALL_PAGE_BYTES).await.unwrap();
        memory(&budget, "alice").take(32 * MIB).await.unwrap();
        second.take(MIB).await.unwrap();
        third.take(31 * MIB).await.unwrap();
        drop([first, second, third]);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_that_are_taken_slowly_give_way_to_those_that_wait_for_memory() {
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
        let mut kept = slow.len();
        while !waits.is_finished() {
            sleep(Duration::from_secs(1)).await;
            slow.retain_mut(|list| list.keep_pace(64 << 10).is_ok());
            kept = kept.min(slow.len());
        }
        waits.await.unwrap().unwrap();
        assert!(kept < 7);
    }
}
