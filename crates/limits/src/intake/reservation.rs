//! Reserves memory for one body while it arrives, and aborts a slow body while others wait.

use std::{
    error::Error,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use fleetdex_core::planted::{Bug, planted};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    budget::{Account, HeldBytes, Intake},
    grants::Granted,
    limits::{SMALL, STEP},
    queue::{Demand, MemoryParts},
};

/// Bytes of a body that are not counted, so that probes and most lines of watches do not wait for
/// the pages of others. Each stream and each request has one such body at a time.
pub(super) const UNCOUNTED: usize = 16 << 10;
/// A body that holds memory others wait for has to bring [`PACE`] bytes in this time.
pub const PACE_WINDOW: Duration = Duration::from_secs(5);
/// How long a request waits until its user's other requests return memory: as long as it waits for
/// a place among the requests in flight.
const SHARE_PATIENCE: Duration = Duration::from_secs(15);
/// 256 KiB a second: the largest body takes two minutes.
pub const PACE: usize = 1280 << 10;

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// It is longer than its limit.
    #[error("it is longer than {0} bytes")]
    TooLarge(usize),
    /// All of a request would hold more than one may.
    #[error("one request may hold {0} bytes")]
    RequestTooLarge(usize),
    /// The member's share of the budget is used up.
    #[error("this member has {0} bytes of answers in memory already")]
    ShareExhausted(usize),
    /// It arrived too slowly while others waited for memory.
    #[error("it came with less than {} KiB in {} s while other answers waited for memory", PACE >> 10, PACE_WINDOW.as_secs())]
    Slow,
    /// The connection broke.
    #[error(transparent)]
    Broken(Box<dyn Error + Send + Sync>),
}

impl IntakeError {
    /// What a user reads whose request gets no memory.
    pub fn for_user(&self) -> String {
        match self {
            Self::RequestTooLarge(limit) => format!(
                "one request may hold {} MiB of memory, and this one needs more; request less at a time",
                limit >> 20
            ),
            Self::ShareExhausted(held) => format!(
                "your other requests hold {} MiB of memory; read their responses first, or send fewer at a time",
                held >> 20
            ),
            Self::Slow | Self::TooLarge(_) | Self::Broken(_) => self.to_string(),
        }
    }
}

/// Memory of the budget, returned when this is dropped.
pub struct MemoryReservation {
    intake: Intake,
    /// Bytes that are reserved.
    reserved: usize,
    account: Arc<Account>,
    /// Steps of the budget.
    parts: MemoryParts,
    reserve: Option<Arc<Granted>>,
    pace: Pace,
}

/// Whether what holds memory goes on fast enough while others wait for memory.
struct Pace {
    intake: Intake,
    /// Absent while nothing is held.
    window: Option<PaceWindow>,
}

/// What a body has brought in the current window.
struct PaceWindow {
    end: Instant,
    bytes: usize,
}

impl PaceWindow {
    fn begin() -> Self {
        Self {
            end: Instant::now() + PACE_WINDOW,
            bytes: 0,
        }
    }
}

impl Intake {
    /// A reservation of nothing.
    pub fn reservation(&self) -> MemoryReservation {
        MemoryReservation {
            intake: self.clone(),
            reserved: 0,
            account: self.account.clone().unwrap_or_default(),
            parts: MemoryParts::default(),
            reserve: None,
            pace: Pace {
                intake: self.clone(),
                window: None,
            },
        }
    }
}

impl Pace {
    /// Notes that bytes have arrived, or were sent on. Fails at the end of a window with too few of
    /// them while others wait for memory.
    fn keep(&mut self, bytes: usize) -> Result<(), IntakeError> {
        let Some(window) = &mut self.window else {
            return Ok(());
        };
        window.bytes += bytes;
        if Instant::now() < window.end {
            return Ok(());
        }
        if window.bytes < PACE && self.intake.budget.free.is_waited_for() {
            return Err(IntakeError::Slow);
        }
        self.window = Some(PaceWindow::begin());
        Ok(())
    }
}

impl MemoryReservation {
    /// The next bytes of the body that this is for; `None` at its end. Cancel-safe.
    pub async fn next<B>(&mut self, body: &mut B) -> Result<Option<Bytes>, IntakeError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        loop {
            let frame = match &self.pace.window {
                None => body.frame().await,
                Some(window) => match timeout_at(window.end, body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        self.pace.keep(0)?;
                        continue;
                    }
                },
            };
            let Some(frame) = frame else { return Ok(None) };
            let Ok(data) = frame
                .map_err(|error| IntakeError::Broken(error.into()))?
                .into_data()
            else {
                continue;
            };
            self.pace.keep(data.len())?;
            return Ok(Some(data));
        }
    }

    /// Waits until at least `bytes` are reserved, but for no more than the largest body has.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), IntakeError> {
        if self.has(bytes) {
            return Ok(());
        }
        let budget = Arc::clone(&self.intake.budget);
        let largest = budget.limits.reserve().next_multiple_of(STEP);
        let desired = bytes.next_multiple_of(STEP).min(largest);
        let more = desired.saturating_sub(self.reserved);
        if more == 0 {
            return Ok(());
        }
        // From here on they are returned even if the wait is cancelled.
        let account = Arc::clone(&self.account);
        let of_request = Claim::new(&account.held, more, largest)
            .map_err(|_| IntakeError::RequestTooLarge(largest))?;
        let of_share = self.claim_of_share(more).await?;
        if self.reserve.is_none() {
            let demand = Demand {
                steps: more / STEP,
                of_shared: true,
                of_small: desired <= SMALL,
                reserve: self.intake.gets_reserve,
            };
            let granted = budget.free.grant(&self.intake.share.tag, demand).await;
            if granted.is_reserve() {
                self.keep_reserve(granted);
            } else {
                self.parts.add(granted.take());
            }
        }
        of_request.keep();
        of_share.keep();
        self.reserved = desired;
        self.pace.window = Some(PaceWindow::begin());
        let held = budget.held.fetch_add(more, Ordering::Relaxed) + more;
        budget.peak.fetch_max(held, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of the share. A request waits until its user's other requests return theirs. If it
    /// holds a part itself, it may get the reserve meanwhile, so that requests of one user do not
    /// wait for each other; otherwise the reserve is for those whose share has room. What is no
    /// request is refused at once.
    async fn claim_of_share(&mut self, bytes: usize) -> Result<Claim, IntakeError> {
        let (share, budget) = (
            Arc::clone(&self.intake.share),
            Arc::clone(&self.intake.budget),
        );
        let holds_a_part = self.account.held.get() > bytes;
        let end = Instant::now() + SHARE_PATIENCE;
        // The bytes are asked for once there is room in the share.
        let only_reserve = Demand {
            steps: 0,
            of_shared: false,
            of_small: false,
            reserve: true,
        };
        let mut reserve = pin!(budget.free.grant(&share.tag, only_reserve));
        loop {
            let returned = share.returned();
            self.take_reserve_of_request();
            let limit = match self.reserve {
                Some(_) => usize::MAX,
                None => budget.limits.share,
            };
            let exhausted = match Claim::new(&share, bytes, limit) {
                Ok(claim) => return Ok(claim),
                Err(held) => IntakeError::ShareExhausted(held),
            };
            if self.intake.account.is_none() {
                return Err(exhausted);
            }
            tokio::select! {
                biased;
                () = returned => {}
                reserve = &mut reserve, if holds_a_part && self.intake.gets_reserve => self.keep_reserve(reserve),
                () = sleep_until(end) => return Err(exhausted),
            }
        }
    }

    /// Shares the reserve, if another reservation of the request has it.
    fn take_reserve_of_request(&mut self) {
        if self.reserve.is_none() {
            self.reserve = self.account.reserve.lock().upgrade();
        }
    }

    fn keep_reserve(&mut self, reserve: Granted) {
        let reserve = Arc::new(reserve);
        *self.account.reserve.lock() = Arc::downgrade(&reserve);
        self.reserve = Some(reserve);
        // Others of the request that wait for the share need it no longer.
        self.intake.share.wake();
    }

    /// Returns what is more than `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let kept = bytes.next_multiple_of(STEP);
        let less = self.reserved.saturating_sub(kept);
        if less == 0 {
            return;
        }
        // What is in the reserve leaves it with the last of its request.
        let returned = self.parts.split(less / STEP);
        self.intake.budget.free.give_back(returned);
        self.reserved = kept;
        self.count_less(less);
    }

    fn count_less(&self, bytes: usize) {
        self.account.held.subtract(bytes);
        self.intake.share.subtract(bytes);
        self.intake.budget.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether `bytes` need no more than is reserved.
    pub fn has(&self, bytes: usize) -> bool {
        bytes <= UNCOUNTED || bytes <= self.reserved
    }

    /// Whether anything is reserved.
    pub fn holds_any(&self) -> bool {
        self.reserved > 0
    }

    /// Returns everything, so that the reservation can grow again from nothing.
    pub fn release(&mut self) {
        if self.reserved > 0 {
            *self = self.intake.reservation();
        }
    }

    /// Bytes that keep the reservation until they are dropped.
    pub fn attach_to(self, bytes: Vec<u8>) -> Bytes {
        if self.reserved == 0 || bytes.is_empty() {
            return bytes.into();
        }
        Bytes::from_owner(ReservedBytes {
            bytes,
            _reservation: self,
        })
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if planted(Bug::BudgetNotGivenBack) {
            return;
        }
        self.count_less(self.reserved);
        self.intake.budget.free.give_back(self.parts);
    }
}

/// A part of a share or an account, returned unless it becomes part of a reservation.
struct Claim {
    of: Arc<HeldBytes>,
    bytes: usize,
}

impl Claim {
    /// A claim, unless more than `limit` would be held with it; how much is held already if so.
    fn new(of: &Arc<HeldBytes>, bytes: usize, limit: usize) -> Result<Self, usize> {
        of.add(bytes, limit)?;
        let of = Arc::clone(of);
        Ok(Self { of, bytes })
    }

    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.of.subtract(self.bytes);
        }
    }
}

/// The owner behind [`Bytes`] of a body.
struct ReservedBytes {
    bytes: Vec<u8>,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
