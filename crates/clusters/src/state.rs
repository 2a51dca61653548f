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
//! A 401 and a change of the member or of its credentials go back to Connecting at once. A member that nothing here could
//! reach, such as one that nobody has registered an address for, is left alone until it changes.
//!
//! Intervals, limits and what counts as a failure are those of Cluster API's
//! [`clustercache`](https://github.com/kubernetes-sigs/cluster-api/tree/main/controllers/clustercache), whose behaviour is
//! the checklist of the tests. Deliberate differences: connects are spread by a jitter, a change of the credentials is
//! noticed without a failure, and a give-up is followed by the same wait as a failed connect.

use std::time::{Duration, Instant};

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
    /// Up to this part of `probe_interval` is taken away before the first probe of a connection: members that connected
    /// together are not probed together for ever.
    pub probe_jitter: f64,
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
            probe_jitter: 0.2,
        }
    }
}

impl Timing {
    /// The wait before the next connect; `random` is from 0 to 1.
    pub fn connect_wait(&self, random: f64) -> Duration {
        self.connect_retry
            .mul_f64(1.0 + self.connect_jitter * (2.0 * random - 1.0))
    }

    /// The wait before the first probe of a connection; `random` is from 0 to 1.
    pub fn first_probe_wait(&self, random: f64) -> Duration {
        self.probe_interval
            .mul_f64(1.0 - self.probe_jitter * random)
    }
}

/// When something happens, and the chance that decides its jitter.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: Instant,
    /// A number from 0 to 1.
    pub random: f64,
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
    /// No connect makes sense until the member changes.
    OutOfReach(Fault),
    /// A probe succeeded.
    ProbeSucceeded,
    /// A probe failed.
    ProbeFailed(Fault),
    /// The member or its credentials changed: it is connected anew.
    Changed,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Connect at this time, or as soon as it is past.
    Connect(Instant),
    /// Probe at this time, or as soon as it is past.
    Probe(Instant),
    /// Connect as soon as there is time.
    ConnectNow,
    /// Nothing, until the member changes.
    Wait,
}

impl Next {
    /// How long to wait before doing it; nothing if nothing is to be done.
    pub fn wait(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Connect(due) | Self::Probe(due) => Some(due.saturating_duration_since(now)),
            Self::ConnectNow => Some(Duration::ZERO),
            Self::Wait => None,
        }
    }
}

/// What connects and probes have shown of a member. A lost connection forgets none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failed connects and probes in a row.
    pub failures: u32,
    /// When the last connect or probe ended.
    pub last_probe: Option<Instant>,
    /// When the last connect or probe succeeded.
    pub last_success: Option<Instant>,
    /// When the last connect failed, unless one succeeded after it.
    pub last_connect_failure: Option<Instant>,
}

impl Health {
    /// Whether somebody who wants to hear of `silence` without a successful probe is to be told now. Once for each
    /// silence, and not if anything was told meanwhile. A member that never answered is silent from the first attempt on.
    pub fn is_news(&self, silence: Duration, last_told: Option<Instant>, now: Instant) -> bool {
        match self.last_success.map(|success| success + silence) {
            Some(due) => due < now && last_told.is_none_or(|told| told < due),
            None => self.last_probe.is_some() && last_told.is_none(),
        }
    }
}

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accessor {
    phase: Phase,
    fault: Option<Fault>,
    health: Health,
    next: Next,
}

impl Default for Accessor {
    fn default() -> Self {
        Self {
            phase: Phase::Connecting,
            fault: None,
            health: Health::default(),
            next: Next::ConnectNow,
        }
    }
}

impl Accessor {
    /// Where the member stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Unhealthy)
    }

    /// What connects and probes have shown.
    pub fn health(&self) -> Health {
        self.health
    }

    /// What is to be done next.
    pub fn next(&self) -> Next {
        self.next
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
                format!(
                    "{} (failed probe {} of {})",
                    fault.message, self.health.failures, timing.probe_failures
                )
            }
            (Some(fault), _) => fault.message.clone(),
            (None, Phase::Ready) => "the member answers".to_owned(),
            (None, _) => "a connection is being made".to_owned(),
        }
    }

    /// Takes in what happened and says what is to be done. What cannot happen in a phase, such as the end of a probe of
    /// a connection that was given up meanwhile, changes nothing.
    pub fn observe(&mut self, happened: Happened, at: Moment, timing: &Timing) -> Next {
        match happened {
            Happened::ConnectStarted => self.start(),
            Happened::Connected => self.connected(at, timing),
            Happened::ConnectFailed(fault) => self.connect_failed(fault, at, timing),
            Happened::OutOfReach(fault) => self.give_up(fault, Next::Wait),
            Happened::ProbeSucceeded => self.probe_succeeded(at, timing),
            Happened::ProbeFailed(fault) => self.probe_failed(fault, at, timing),
            Happened::Changed => self.changed(),
        }
        self.next
    }

    /// A retry stays Disconnected, with its last fault, until it succeeds: a phase that flips at each attempt would
    /// tell nobody anything.
    fn start(&mut self) {
        if self.phase != Phase::Disconnected && !self.is_connected() {
            self.phase = Phase::Connecting;
        }
    }

    fn connected(&mut self, at: Moment, timing: &Timing) {
        if self.is_connected() {
            return;
        }
        let health = Health {
            last_probe: Some(at.now),
            last_success: Some(at.now),
            ..Health::default()
        };
        let next = Next::Probe(at.now + timing.first_probe_wait(at.random));
        *self = Self {
            phase: Phase::Ready,
            fault: None,
            health,
            next,
        };
    }

    fn connect_failed(&mut self, fault: Fault, at: Moment, timing: &Timing) {
        if self.is_connected() {
            return;
        }
        self.health.last_connect_failure = Some(at.now);
        self.failed(at);
        self.give_up(
            fault,
            Next::Connect(at.now + timing.connect_wait(at.random)),
        );
    }

    fn probe_succeeded(&mut self, at: Moment, timing: &Timing) {
        if !self.is_connected() {
            return;
        }
        let health = Health {
            failures: 0,
            last_probe: Some(at.now),
            last_success: Some(at.now),
            ..self.health
        };
        let next = Next::Probe(at.now + timing.probe_interval);
        *self = Self {
            phase: Phase::Ready,
            fault: None,
            health,
            next,
        };
    }

    fn probe_failed(&mut self, fault: Fault, at: Moment, timing: &Timing) {
        if !self.is_connected() {
            return;
        }
        self.failed(at);
        if fault.unauthorized {
            self.phase = Phase::Connecting;
            self.fault = Some(fault);
            self.next = Next::ConnectNow;
        } else if self.health.failures >= timing.probe_failures {
            self.give_up(
                fault,
                Next::Connect(at.now + timing.connect_wait(at.random)),
            );
        } else {
            self.phase = Phase::Unhealthy;
            self.fault = Some(fault);
            self.next = Next::Probe(at.now + timing.probe_interval);
        }
    }

    fn failed(&mut self, at: Moment) {
        self.health.last_probe = Some(at.now);
        self.health.failures = self.health.failures.saturating_add(1);
    }

    fn give_up(&mut self, fault: Fault, next: Next) {
        self.phase = Phase::Disconnected;
        self.fault = Some(fault);
        self.next = next;
    }

    fn changed(&mut self) {
        self.health.failures = 0;
        self.phase = Phase::Connecting;
        self.fault = None;
        self.next = Next::ConnectNow;
    }
}

#[cfg(test)]
mod tests;
