//! Faults: their kinds, their duration, and how often they took effect.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::name::Name;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $(($field:ty))?,)*) => {
        /// A fault. A fault of "a request" affects any request, including probes and discovery.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $name $(($field))?,)*
        }

        /// The kind of a fault, for counting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $($(#[$doc])* $name,)*
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl Fault {
            /// Returns the kind.
            pub fn kind(&self) -> FaultKind {
                match self {
                    $(Self::$name { .. } => FaultKind::$name,)*
                }
            }
        }
    };
}

faults! {
    /// The connection of a request is refused.
    Refuse,
    /// A request never gets a response.
    Hang,
    /// A request gets 429: with the seconds until a retry, or from a proxy without a `Status`.
    Throttle(Option<u32>),
    /// A request gets 500.
    InternalError,
    /// A request gets 503 from a proxy, not from the API.
    Unavailable,
    /// A request gets 504.
    Timeout,
    /// A request gets 401.
    Unauthorized,
    /// A request for this resource gets 403.
    Forbidden(Name),
    /// A write is done, and the connection breaks before its response.
    LoseAnswer,
    /// A list page is truncated, with a connection error or as if it were complete.
    CutList,
    /// A list page is delayed.
    SlowList(Duration),
    /// The request for the second or a later page of a list gets 410.
    ExpireContinue,
    /// A watch request gets HTTP 410.
    ExpireWatch,
    /// A watch ends as soon as it is opened.
    CloseWatch,
    /// A running watch ends, with a connection error or as if it were complete.
    CutWatch,
    /// A running watch ends in the middle of the next line.
    CutLine,
    /// A running watch neither sends anything more nor ends.
    FreezeWatch,
    /// A running watch ends with an `ERROR` of code 500.
    FailWatch,
    /// A change reaches watches late.
    Lag(Duration),
    /// A change is lost in the watch cache: no watch ever sends it.
    Swallow,
    /// After a change, a watch sends an older change of the last minute again.
    Replay,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// For a duration.
    For(Duration),
    /// For a number of strikes: requests or events that it affects.
    Times(u32),
    /// For a number of strikes, after skipping some.
    After {
        /// Number of skipped strikes.
        skip: u32,
        /// Number of strikes after that.
        times: u32,
    },
}

#[derive(Debug)]
struct Active {
    fault: Fault,
    until: Option<Instant>,
    skip: u32,
    left: u32,
}

/// The active faults, and how often each kind took effect.
#[derive(Debug, Default)]
pub(super) struct Faults {
    active: Vec<Active>,
    strikes: BTreeMap<FaultKind, u64>,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault, extent: Extent, now: Instant) {
        let (until, skip, left) = match extent {
            Extent::For(duration) => (Some(now + duration), 0, u32::MAX),
            Extent::Times(times) => (None, 0, times),
            Extent::After { skip, times } => (None, skip, times),
        };
        self.active.push(Active {
            fault,
            until,
            skip,
            left,
        });
    }

    pub(super) fn heal(&mut self) {
        self.active.clear();
    }

    /// Whether no fault is active.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether a fault of a kind is active.
    pub(super) fn is_active(&self, kind: FaultKind) -> bool {
        self.active.iter().any(|active| active.fault.kind() == kind)
    }

    /// Returns the first active fault that `applies`, and counts a strike.
    pub(super) fn strike(
        &mut self,
        now: Instant,
        applies: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        if self.active.is_empty() {
            return None;
        }
        self.active
            .retain(|active| active.left > 0 && active.until.is_none_or(|until| now < until));
        let index = self
            .active
            .iter()
            .position(|active| applies(&active.fault))?;
        let active = &mut self.active[index];
        if active.skip > 0 {
            active.skip -= 1;
            return None;
        }
        active.left -= 1;
        let fault = active.fault.clone();
        self.count(fault.kind());
        Some(fault)
    }

    /// Like [`strike`](Self::strike), for one kind.
    pub(super) fn strikes_as(&mut self, kind: FaultKind, now: Instant) -> bool {
        self.strike(now, |fault| fault.kind() == kind).is_some()
    }

    fn count(&mut self, kind: FaultKind) {
        *self.strikes.entry(kind).or_default() += 1;
    }

    pub(super) fn strikes(&self) -> BTreeMap<FaultKind, u64> {
        self.strikes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fault_skips_strikes_and_expires() {
        let mut faults = Faults::default();
        let strikes = |faults: &mut Faults| faults.strikes_as(FaultKind::Hang, Instant::now());
        faults.inject(
            Fault::Hang,
            Extent::After { skip: 1, times: 2 },
            Instant::now(),
        );
        let struck: Vec<bool> = (0..4).map(|_| strikes(&mut faults)).collect();
        assert_eq!(struck, [false, true, true, false]);
        assert!(faults.is_empty());
        faults.inject(
            Fault::Hang,
            Extent::For(Duration::from_secs(5)),
            Instant::now(),
        );
        assert!(strikes(&mut faults));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!strikes(&mut faults));
        assert_eq!(faults.strikes(), BTreeMap::from([(FaultKind::Hang, 3)]));
    }

    #[test]
    fn a_fault_affects_only_requests_that_it_applies_to() {
        let mut faults = Faults::default();
        let now = Instant::now();
        faults.inject(Fault::Forbidden("pods".into()), Extent::Times(1), now);
        let forbidden =
            |name: &'static str| move |fault: &Fault| *fault == Fault::Forbidden(name.into());
        assert_eq!(faults.strike(now, forbidden("secrets")), None);
        assert!(faults.strike(now, forbidden("pods")).is_some());
        assert_eq!(FaultKind::ALL.len(), 21);
    }
}
