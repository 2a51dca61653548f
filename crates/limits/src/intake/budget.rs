//! The budget of a process, and the share of each member.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::Response;
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use super::{
    grants::{FreeMemory, Granted},
    limits::{MemoryLimits, STEP},
    queue::{MemoryParts, Tag},
};

/// The memory of this process for what others send. Clones share it.
#[derive(Clone)]
pub struct Budget(Arc<BudgetState>);

pub(super) struct BudgetState {
    pub(super) limits: MemoryLimits,
    /// What is free. The holder of the reserve needs no steps.
    pub(super) free: Arc<FreeMemory>,
    shares: Mutex<BTreeMap<String, Weak<HeldBytes>>>,
    /// Bytes that are held now.
    pub(super) held: AtomicUsize,
    /// The most bytes that were held at any time.
    pub(super) peak: AtomicUsize,
}

/// Bytes that one member, user or request holds.
#[derive(Default)]
pub(super) struct HeldBytes {
    bytes: AtomicUsize,
    /// Wakes those that wait for bytes to be returned.
    returned: Notify,
    /// Its place in the queue for memory.
    pub(super) tag: Mutex<Tag>,
}

impl HeldBytes {
    pub(super) fn get(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds bytes, unless all would be more than `limit` then; how many are held already if so.
    pub(super) fn add(&self, bytes: usize, limit: usize) -> Result<(), usize> {
        let added = |held: usize| held.checked_add(bytes).filter(|all| *all <= limit);
        let update = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
        update.map(|_| ())
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.wake();
    }

    /// Has those that wait look again.
    pub(super) fn wake(&self) {
        self.returned.notify_waiters();
    }

    /// Bytes that are returned after this call.
    pub(super) fn returned(&self) -> Notified<'_> {
        self.returned.notified()
    }
}

/// What the reservations of one request have in common.
#[derive(Default)]
pub(super) struct Account {
    pub(super) held: Arc<HeldBytes>,
    /// The reserve, as long as one of them has it.
    pub(super) reserve: Mutex<Weak<Granted>>,
}

impl Budget {
    /// A separate budget.
    pub fn new(limits: MemoryLimits) -> Self {
        Self(Arc::new(BudgetState {
            limits,
            free: FreeMemory::new(MemoryParts {
                shared: limits.shared_steps(),
                small: limits.small / STEP,
                reserve: 1,
            }),
            shares: Mutex::default(),
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }))
    }

    /// The share of a member. While anything holds it, the same name gets the same share.
    pub fn share(&self, member: &str) -> Intake {
        let mut shares = self.0.shares.lock();
        shares.retain(|_, share| share.strong_count() > 0);
        let known = shares.get(member).and_then(Weak::upgrade);
        let share = known.unwrap_or_else(|| {
            let share = Arc::<HeldBytes>::default();
            shares.insert(member.to_owned(), Arc::downgrade(&share));
            share
        });
        Intake {
            budget: Arc::clone(&self.0),
            share,
            account: None,
            gets_reserve: true,
        }
    }

    /// The limits.
    pub fn limits(&self) -> &MemoryLimits {
        &self.0.limits
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// The most bytes that were held at any time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }
}

impl Default for Budget {
    /// The budget of this process for members.
    fn default() -> Self {
        static OF_THIS_PROCESS: LazyLock<Budget> =
            LazyLock::new(|| Budget::new(MemoryLimits::default()));
        OF_THIS_PROCESS.clone()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Budget({} of {} bytes)",
            self.held(),
            self.0.limits.bound()
        )
    }
}

/// Reads bodies of one member within its share of the budget. Clones share it.
#[derive(Clone)]
pub struct Intake {
    pub(super) budget: Arc<BudgetState>,
    pub(super) share: Arc<HeldBytes>,
    /// `None`: each reservation has one of its own.
    pub(super) account: Option<Arc<Account>>,
    pub(super) gets_reserve: bool,
}

impl fmt::Debug for Intake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Intake({} bytes)", self.share.get())
    }
}

impl Intake {
    /// The intake that came with a response; without one, that of the unnamed member.
    pub fn of<B>(response: &Response<B>) -> Self {
        response
            .extensions()
            .get()
            .cloned()
            .unwrap_or_else(|| Budget::default().share(""))
    }

    /// The same for one request, which may hold several reservations at a time: if one of them has
    /// the reserve, the others wait for nothing. Together they hold no more than the reserve. While
    /// other requests of the user hold its share, they wait for a while.
    #[must_use]
    pub fn of_one_request(&self) -> Self {
        Self {
            account: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// The same for what waits until there is room beside the reserve.
    #[must_use]
    pub fn without_reserve(&self) -> Self {
        Self {
            gets_reserve: false,
            ..self.clone()
        }
    }

    /// Whether others wait for memory, and this request holds some of it.
    pub fn is_waited_for(&self) -> bool {
        let account = self.account.as_ref();
        account.is_some_and(|account| account.held.get() > 0) && self.budget.free.is_waited_for()
    }

    /// Whether a reservation of the request has the reserve. Such a request waits for nothing that
    /// others have while they wait for memory: turns, permits.
    pub fn has_reserve(&self) -> bool {
        let account = self.account.as_ref();
        account.is_some_and(|account| account.reserve.lock().strong_count() > 0)
    }

    /// Waits until a reservation of the request has the reserve.
    pub async fn until_it_has_the_reserve(&self) {
        loop {
            let changed = self.share.returned();
            if self.has_reserve() {
                return;
            }
            changed.await;
        }
    }

    /// The limits.
    pub fn limits(&self) -> &MemoryLimits {
        &self.budget.limits
    }

    /// Whether `bytes` leave room for one more page of the largest size, in the share and in the
    /// budget, and nothing waits for memory.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let limits = &self.budget.limits;
        let needed = bytes + limits.page;
        let has_room = |held: usize, all| held.saturating_add(needed) <= all;
        has_room(self.share.get(), limits.share)
            && has_room(self.held(), limits.shared)
            && !self.budget.free.is_waited_for()
    }

    /// Bytes of the whole budget that are held now.
    pub fn held(&self) -> usize {
        self.budget.held.load(Ordering::Relaxed)
    }

    /// The most bytes of the whole budget that were held at any time.
    pub fn peak(&self) -> usize {
        self.budget.peak.load(Ordering::Relaxed)
    }
}
