//! Decides when a member is probed, disconnected and reconnected: a state machine without clock or
//! I/O.
//!
//! ```text
//! Connecting ──connected──> Ready <──probe ok──> Unhealthy (1 .. failures-1 failed probes in a row)
//!    ▲   │                    │                      │
//!    │   └─connect failed──┐  └──probe: 401 ─────────┤
//!    │                     ▼                         │ failures-th failed probe in a row
//!    └──after a while── Disconnected <───────────────┘
//! ```
//!
//! A 401 and a change of the member or of its credentials lead to Connecting at once. A member that
//! cannot be connected at all, such as one without an address, is not retried until it changes.
//!
//! Intervals, limits and what counts as a failure are those of Cluster API's
//! [`clustercache`](https://github.com/kubernetes-sigs/cluster-api/tree/main/controllers/clustercache);
//! the tests check its behaviour. Deliberate differences: connects have a jitter, a change of the
//! credentials takes effect without a failure, and a disconnect is followed by the same wait as a
//! failed connect.

use std::time::{Duration, Instant};

use crate::connection_timing::ConnectionTiming;

/// The phase of a member's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionPhase {
    /// The first connect, or one after a change, has not ended.
    Connecting,
    /// The member answers probes.
    Ready,
    /// Connected, but the last probes failed.
    Unhealthy,
    /// Not connected; another attempt follows.
    Disconnected,
}

/// Why a member is not connected or not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFault {
    /// The reason for a condition, in CamelCase.
    pub reason: &'static str,
    /// What failed, where, and what to do.
    pub message: String,
    /// Whether the member refused the credentials.
    pub unauthorized: bool,
}

/// The time of an event, and the random number for its jitter.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// The time.
    pub now: Instant,
    /// A random number between 0 and 1.
    pub random: f64,
}

/// An event of a member's connection.
#[derive(Clone, Debug)]
pub enum ConnectionEvent {
    /// A connect started.
    ConnectStarted,
    /// A connect succeeded.
    Connected,
    /// A connect failed.
    ConnectFailed(MemberFault),
    /// A connect cannot succeed until the member changes.
    Unreachable(MemberFault),
    /// A probe succeeded.
    ProbeSucceeded,
    /// A probe failed.
    ProbeFailed(MemberFault),
    /// The member or its credentials changed, so that it has to be reconnected.
    Changed,
}

/// The next action for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Connect at this time, or at once if it has passed.
    Connect(Instant),
    /// Probe at this time, or at once if it has passed.
    Probe(Instant),
    /// Connect at once.
    ConnectNow,
    /// Wait until the member changes.
    Wait,
}

impl NextAction {
    /// The time until the action is due; `None` if there is nothing to do.
    pub fn wait(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Connect(due) | Self::Probe(due) => Some(due.saturating_duration_since(now)),
            Self::ConnectNow => Some(Duration::ZERO),
            Self::Wait => None,
        }
    }
}

/// The results of a member's connects and probes. They survive a disconnect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionHealth {
    /// Failed connects and probes in a row.
    pub failures: u32,
    /// When the last connect or probe ended.
    pub last_probe: Option<Instant>,
    /// When the last connect or probe succeeded.
    pub last_success: Option<Instant>,
    /// When the last connect failed, unless one succeeded after it.
    pub last_connect_failure: Option<Instant>,
}

impl ConnectionHealth {
    /// Whether to report now that no probe has succeeded for `threshold`. It is reported once per
    /// outage, and not if another event was sent after the threshold had passed. A member that
    /// never answered fails from the first attempt on.
    pub fn is_probe_failure_due(
        &self,
        threshold: Duration,
        last_event: Option<Instant>,
        now: Instant,
    ) -> bool {
        match self.last_success.map(|success| success + threshold) {
            Some(due) => due < now && last_event.is_none_or(|event| event < due),
            None => self.last_probe.is_some() && last_event.is_none(),
        }
    }
}

/// The state of one member's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionState {
    phase: ConnectionPhase,
    fault: Option<MemberFault>,
    health: ConnectionHealth,
    next: NextAction,
}

impl Default for ConnectionState {
    fn default() -> Self {
        Self {
            phase: ConnectionPhase::Connecting,
            fault: None,
            health: ConnectionHealth::default(),
            next: NextAction::ConnectNow,
        }
    }
}

impl ConnectionState {
    /// The phase of the connection.
    pub fn phase(&self) -> ConnectionPhase {
        self.phase
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        matches!(
            self.phase,
            ConnectionPhase::Ready | ConnectionPhase::Unhealthy
        )
    }

    /// The results of connects and probes.
    pub fn health(&self) -> ConnectionHealth {
        self.health
    }

    /// The next action.
    pub fn next(&self) -> NextAction {
        self.next
    }

    /// The reason for the phase, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match (&self.fault, self.phase) {
            (Some(fault), _) => fault.reason,
            (None, ConnectionPhase::Ready) => "Ready",
            (None, _) => "Connecting",
        }
    }

    /// A message that explains the phase.
    pub fn message(&self, timing: &ConnectionTiming) -> String {
        match (&self.fault, self.phase) {
            (Some(fault), ConnectionPhase::Unhealthy) => {
                format!(
                    "{} (failed probe {} of {})",
                    fault.message, self.health.failures, timing.probe_failures
                )
            }
            (Some(fault), _) => fault.message.clone(),
            (None, ConnectionPhase::Ready) => "the member answers".to_owned(),
            (None, _) => "connecting to the member".to_owned(),
        }
    }

    /// Applies an event and returns the next action. An event that cannot happen in the current
    /// phase, such as the result of a probe of a connection that has been closed, changes nothing.
    pub fn observe(
        &mut self,
        event: ConnectionEvent,
        at: ClockReading,
        timing: &ConnectionTiming,
    ) -> NextAction {
        match event {
            ConnectionEvent::ConnectStarted => self.start(),
            ConnectionEvent::Connected => self.connected(at, timing),
            ConnectionEvent::ConnectFailed(fault) => self.connect_failed(fault, at, timing),
            ConnectionEvent::Unreachable(fault) => self.disconnect(fault, NextAction::Wait),
            ConnectionEvent::ProbeSucceeded => self.probe_succeeded(at, timing),
            ConnectionEvent::ProbeFailed(fault) => self.probe_failed(fault, at, timing),
            ConnectionEvent::Changed => self.changed(),
        }
        self.next
    }

    /// A retry stays Disconnected, with its last fault, until it succeeds: a phase that changes at
    /// each attempt would carry no information.
    fn start(&mut self) {
        if self.phase != ConnectionPhase::Disconnected && !self.is_connected() {
            self.phase = ConnectionPhase::Connecting;
        }
    }

    fn connected(&mut self, at: ClockReading, timing: &ConnectionTiming) {
        if self.is_connected() {
            return;
        }
        let health = ConnectionHealth {
            last_probe: Some(at.now),
            last_success: Some(at.now),
            ..ConnectionHealth::default()
        };
        let next = NextAction::Probe(at.now + timing.first_probe_wait(at.random));
        *self = Self {
            phase: ConnectionPhase::Ready,
            fault: None,
            health,
            next,
        };
    }

    fn connect_failed(&mut self, fault: MemberFault, at: ClockReading, timing: &ConnectionTiming) {
        if self.is_connected() {
            return;
        }
        self.health.last_connect_failure = Some(at.now);
        self.failed(at);
        self.disconnect(
            fault,
            NextAction::Connect(at.now + timing.reconnect_backoff(at.random)),
        );
    }

    fn probe_succeeded(&mut self, at: ClockReading, timing: &ConnectionTiming) {
        if !self.is_connected() {
            return;
        }
        let health = ConnectionHealth {
            failures: 0,
            last_probe: Some(at.now),
            last_success: Some(at.now),
            ..self.health
        };
        let next = NextAction::Probe(at.now + timing.probe_interval);
        *self = Self {
            phase: ConnectionPhase::Ready,
            fault: None,
            health,
            next,
        };
    }

    fn probe_failed(&mut self, fault: MemberFault, at: ClockReading, timing: &ConnectionTiming) {
        if !self.is_connected() {
            return;
        }
        self.failed(at);
        if fault.unauthorized {
            self.phase = ConnectionPhase::Connecting;
            self.fault = Some(fault);
            self.next = NextAction::ConnectNow;
        } else if self.health.failures >= timing.probe_failures {
            self.disconnect(
                fault,
                NextAction::Connect(at.now + timing.reconnect_backoff(at.random)),
            );
        } else {
            self.phase = ConnectionPhase::Unhealthy;
            self.fault = Some(fault);
            self.next = NextAction::Probe(at.now + timing.probe_interval);
        }
    }

    fn failed(&mut self, at: ClockReading) {
        self.health.last_probe = Some(at.now);
        self.health.failures = self.health.failures.saturating_add(1);
    }

    fn disconnect(&mut self, fault: MemberFault, next: NextAction) {
        self.phase = ConnectionPhase::Disconnected;
        self.fault = Some(fault);
        self.next = next;
    }

    fn changed(&mut self) {
        self.health.failures = 0;
        self.phase = ConnectionPhase::Connecting;
        self.fault = None;
        self.next = NextAction::ConnectNow;
    }
}

#[cfg(test)]
mod tests;
