//! Faults: what can go wrong, for how long, and how often it did.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::name::Name;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $(($field:ty))?,)*) => {
        /// What can go wrong. Everything that is said to strike "a request" strikes any request, probes and discovery too.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $name $(($field))?,)*
        }

        /// The kinds of faults, to count them by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $($(#[$doc])* $name,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl Fault {
            /// Its kind.
            pub fn kind(&self) -> FaultKind {
                match self {
                    $(Self::$name { .. } => FaultKind::$name,)*
                }
            }
        }
    };
}

faults! {
    /// A request finds nobody listening.
    Refuse,
    /// A request is not answered, ever.
    Hang,
    /// A request is answered 429; with the seconds after which to try again, or by a proxy that says nothing in the body.
    Throttle(Option<u32>),
    /// A request is answered 500.
    InternalError,
    /// A request is answered 503 by a proxy, not by the API.
    Unavailable,
    /// A request is answered 504.
    Timeout,
    /// A request is answered 401.
    Unauthorized,
    /// A request for this resource is answered 403.
    Forbidden(Name),
    /// A list page breaks off in the middle, with an error or as if it were complete.
    CutList,
    /// A list page comes late.
    SlowList(Duration),
    /// The second or a later page of a list is answered 410.
    ExpireContinue,
    /// A watch is answered HTTP 410.
    ExpireWatch,
    /// A watch ends as soon as it is opened.
    CloseWatch,
    /// A running watch breaks off, with an error or as if it had ended.
    CutWatch,
    /// A running watch breaks off in the middle of a line, as soon as it has one to send.
    CutLine,
    /// A running watch neither sends anything more nor ends.
    FreezeWatch,
    /// A running watch ends with an `ERROR` of code 500.
    FailWatch,
    /// A change reaches the watches late.
    Lag(Duration),
    /// A change that a watch waits for is lost in the watch cache: no watch ever sees it.
    Swallow,
    /// After a change, a watch sees an older one again, of the last minute.
    Replay,
}

/// How long a fault stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// For a time.
    For(Duration),
    /// For so many strikes.
    Times(u32),
    /// For so many strikes, after sparing some.
    After {
        /// How many are spared.
        skip: u32,
        /// How many strike then.
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

/// The faults that are on, and the tally of those that struck.
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

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether a fault of a kind may strike.
    pub(super) fn is_active(&self, kind: FaultKind) -> bool {
        self.active.iter().any(|active| active.fault.kind() == kind)
    }

    /// The first active fault that `applies`, which thereby strikes.
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

    /// As [`strike`](Self::strike), for one kind.
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
    async fn faults_spare_strike_and_pass() {
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
    fn a_fault_strikes_only_where_it_applies() {
        let mut faults = Faults::default();
        let now = Instant::now();
        faults.inject(Fault::Forbidden("pods".into()), Extent::Times(1), now);
        let forbidden =
            |name: &'static str| move |fault: &Fault| *fault == Fault::Forbidden(name.into());
        assert_eq!(faults.strike(now, forbidden("secrets")), None);
        assert!(faults.strike(now, forbidden("pods")).is_some());
        assert_eq!(FaultKind::ALL.len(), 20);
    }
}
