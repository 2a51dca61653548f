//! When a member is probed, given up and reconnected: a state machine without clock or I/O.
//!
//! ```text
//! Connecting ──connected──> Ready <──probe ok──> Unhealthy (1 .. failures-1 failed probes in a row)
//!    ▲   │                    │                      │
//!    │   └─connect failed──┐  └──probe: 401 ─────────┤
//!    │                     ▼                         │ failures-th failed probe in a row
//!    └──after a while── Disconnected <───────────────┘
//! ```
//!
//! A 401 and a change of the member or of its credentials go back to Connecting at once.

use std::time::Duration;

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A connection is being made.
    Connecting,
    /// The member answers.
    Ready,
    /// Connected, but the last probes failed.
    Unhealthy,
    /// There is no connection; another attempt follows.
    Disconnected,
}

/// Why a member is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// One CamelCase word.
    pub reason: &'static str,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// Whether the member refused the credentials.
    pub unauthorized: bool,
}

/// Intervals and limits. The defaults are those of Cluster API's cluster cache, whose users know them.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Time between probes.
    pub probe_interval: Duration,
    /// Longest wait for a probe, and for every other small request.
    pub request_timeout: Duration,
    /// Longest wait for discovery.
    pub discovery_timeout: Duration,
    /// Failed probes in a row after which the connection is given up.
    pub probe_failures: u32,
    /// Time from a failed connect to the next.
    pub connect_retry: Duration,
    /// Up to this part of `connect_retry` is added or taken away, so that members do not come back all at once.
    pub connect_jitter: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(10),
            request_timeout: Duration::from_secs(5),
            discovery_timeout: Duration::from_secs(10),
            probe_failures: 5,
            connect_retry: Duration::from_secs(30),
            connect_jitter: 0.2,
        }
    }
}

impl Timing {
    /// The wait before the next connect; `random` is from 0 to 1.
    pub fn connect_wait(&self, random: f64) -> Duration {
        self.connect_retry.mul_f64(1.0 + self.connect_jitter * (2.0 * random - 1.0))
    }
}

/// What happened to a member.
#[derive(Clone, Debug)]
pub enum Happened {
    /// A connect began.
    ConnectStarted,
    /// A connect succeeded.
    Connected,
    /// A connect failed.
    ConnectFailed(Fault),
    /// A probe succeeded.
    ProbeSucceeded,
    /// A probe failed.
    ProbeFailed(Fault),
    /// The member or its credentials changed: nothing that was seen counts any more.
    Changed,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Connect now.
    Connect,
    /// Connect after [`Timing::connect_wait`].
    ConnectLater,
    /// Probe after [`Timing::probe_interval`].
    Probe,
}

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accessor {
    phase: Phase,
    failures: u32,
    fault: Option<Fault>,
}

impl Default for Accessor {
    fn default() -> Self {
        Self { phase: Phase::Connecting, failures: 0, fault: None }
    }
}

impl Accessor {
    /// Where the member stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Failed connects and probes in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// One CamelCase word for why it stands there.
    pub fn reason(&self) -> &'static str {
        match (&self.fault, self.phase) {
            (Some(fault), _) => fault.reason,
            (None, Phase::Ready) => "Ready",
            (None, _) => "Connecting",
        }
    }

    /// Why it stands there.
    pub fn message(&self, timing: &Timing) -> String {
        match (&self.fault, self.phase) {
            (Some(fault), Phase::Unhealthy) => {
                format!("{} (failed probe {} of {})", fault.message, self.failures, timing.probe_failures)
            }
            (Some(fault), _) => fault.message.clone(),
            (None, Phase::Ready) => "the member answers".to_owned(),
            (None, _) => "a connection is being made".to_owned(),
        }
    }

    /// Takes in what happened and says what is to be done.
    pub fn observe(&mut self, happened: Happened, timing: &Timing) -> Next {
        match happened {
            Happened::ConnectStarted => self.start(),
            Happened::Connected | Happened::ProbeSucceeded => self.succeed(),
            Happened::ConnectFailed(fault) => self.fail(fault, Phase::Disconnected, Next::ConnectLater),
            Happened::ProbeFailed(fault) if fault.unauthorized => self.fail(fault, Phase::Connecting, Next::Connect),
            Happened::ProbeFailed(fault) if self.failures + 1 >= timing.probe_failures => {
                self.fail(fault, Phase::Disconnected, Next::ConnectLater)
            }
            Happened::ProbeFailed(fault) => self.fail(fault, Phase::Unhealthy, Next::Probe),
            Happened::Changed => {
                *self = Self::default();
                Next::Connect
            }
        }
    }

    /// A retry stays Disconnected, with its last fault, until it succeeds: a phase that flips at each attempt would
    /// tell nobody anything.
    fn start(&mut self) -> Next {
        if self.phase != Phase::Disconnected {
            self.phase = Phase::Connecting;
        }
        Next::Connect
    }

    fn succeed(&mut self) -> Next {
        *self = Self { phase: Phase::Ready, failures: 0, fault: None };
        Next::Probe
    }

    fn fail(&mut self, fault: Fault, phase: Phase, next: Next) -> Next {
        *self = Self { phase, failures: self.failures.saturating_add(1), fault: Some(fault) };
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(unauthorized: bool) -> Fault {
        let reason = if unauthorized { "Unauthorized" } else { "Unreachable" };
        Fault { reason, message: "it does not answer".into(), unauthorized }
    }

    fn connected() -> Accessor {
        let mut accessor = Accessor::default();
        accessor.observe(Happened::Connected, &Timing::default());
        accessor
    }

    fn observe(accessor: &mut Accessor, happened: Happened) -> (Phase, Next) {
        let next = accessor.observe(happened, &Timing::default());
        (accessor.phase(), next)
    }

    #[test]
    fn a_new_member_is_connecting_and_becomes_ready() {
        let mut accessor = Accessor::default();
        assert_eq!((accessor.phase(), accessor.reason()), (Phase::Connecting, "Connecting"));
        assert_eq!(observe(&mut accessor, Happened::ConnectStarted), (Phase::Connecting, Next::Connect));
        assert_eq!(observe(&mut accessor, Happened::Connected), (Phase::Ready, Next::Probe));
        assert_eq!(accessor.reason(), "Ready");
    }

    #[test]
    fn a_failed_connect_is_tried_again_later_and_keeps_its_reason_meanwhile() {
        let mut accessor = Accessor::default();
        let failed = Happened::ConnectFailed(fault(true));
        assert_eq!(observe(&mut accessor, failed), (Phase::Disconnected, Next::ConnectLater));
        assert_eq!(observe(&mut accessor, Happened::ConnectStarted), (Phase::Disconnected, Next::Connect));
        assert_eq!(accessor.reason(), "Unauthorized");
    }

    #[test]
    fn the_fifth_failed_probe_in_a_row_gives_the_connection_up() {
        let mut accessor = connected();
        for failures in 1..5 {
            let failed = Happened::ProbeFailed(fault(false));
            assert_eq!(observe(&mut accessor, failed), (Phase::Unhealthy, Next::Probe));
            assert_eq!(accessor.failures(), failures);
        }
        assert!(accessor.message(&Timing::default()).ends_with("(failed probe 4 of 5)"));
        let failed = Happened::ProbeFailed(fault(false));
        assert_eq!(observe(&mut accessor, failed), (Phase::Disconnected, Next::ConnectLater));
    }

    #[test]
    fn one_good_probe_forgets_the_failures() {
        let mut accessor = connected();
        observe(&mut accessor, Happened::ProbeFailed(fault(false)));
        observe(&mut accessor, Happened::ProbeFailed(fault(false)));
        assert_eq!(observe(&mut accessor, Happened::ProbeSucceeded), (Phase::Ready, Next::Probe));
        observe(&mut accessor, Happened::ProbeFailed(fault(false)));
        assert_eq!(accessor.failures(), 1);
    }

    #[test]
    fn refused_credentials_reconnect_at_once() {
        let mut accessor = connected();
        let failed = Happened::ProbeFailed(fault(true));
        assert_eq!(observe(&mut accessor, failed), (Phase::Connecting, Next::Connect));
        let failed = Happened::ConnectFailed(fault(true));
        assert_eq!(observe(&mut accessor, failed), (Phase::Disconnected, Next::ConnectLater));
    }

    #[test]
    fn a_change_reconnects_at_once() {
        let mut accessor = connected();
        observe(&mut accessor, Happened::ProbeFailed(fault(false)));
        assert_eq!(observe(&mut accessor, Happened::Changed), (Phase::Connecting, Next::Connect));
        assert_eq!(accessor, Accessor::default());
    }

    proptest! {
        #[test]
        fn the_wait_before_a_connect_stays_within_its_jitter(random in 0.0..=1.0_f64) {
            let wait = Timing::default().connect_wait(random).as_secs_f64();
            prop_assert!((24.0 - 1e-6..=36.0 + 1e-6).contains(&wait));
        }
    }
}
