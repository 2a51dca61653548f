//! The behaviour of Cluster API's `clustercache`, by number of our checklist, as far as this state
//! machine decides it. The other numbers are tested in `supervisor/tests.rs`, `connect/tests.rs`
//! and the crate `clustercache`.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn fault(unauthorized: bool) -> MemberFault {
    let reason = if unauthorized {
        "Unauthorized"
    } else {
        "Unreachable"
    };
    MemberFault {
        reason,
        message: "it does not answer".into(),
        unauthorized,
    }
}

/// A connection state with its own clock.
struct Case {
    state: ConnectionState,
    start: Instant,
    now: Instant,
}

impl Case {
    /// A member before the first connect.
    fn new() -> Self {
        // Far enough from the beginning of the clock for times in the past.
        let start = Instant::now() + Duration::from_hours(1);
        Self {
            state: ConnectionState::default(),
            start,
            now: start,
        }
    }

    fn connected() -> Self {
        let mut case = Self::new();
        case.at(0, ConnectionEvent::Connected);
        case
    }

    /// Applies an event so many seconds after the start, with the mean of every jitter.
    fn at(&mut self, seconds: u32, event: ConnectionEvent) -> NextAction {
        self.now = self.start + seconds * SECOND;
        let at = ClockReading {
            now: self.now,
            random: 0.5,
        };
        self.state.observe(
            event,
            at,
            &ConnectionTiming {
                probe_jitter: 0.0,
                ..ConnectionTiming::default()
            },
        )
    }

    /// Seconds from now until the next action.
    fn wait(&self) -> Option<u64> {
        self.state.next().wait(self.now).map(|wait| wait.as_secs())
    }

    fn phase(&self) -> ConnectionPhase {
        self.state.phase()
    }

    fn failures(&self) -> u32 {
        self.state.health().failures
    }

    fn after(&self, seconds: u32) -> Instant {
        self.start + seconds * SECOND
    }
}

fn failed() -> ConnectionEvent {
    ConnectionEvent::ProbeFailed(fault(false))
}

#[test]
fn checklist_1_an_unreachable_member_is_not_retried_until_it_changes() {
    let mut case = Case::new();
    assert_eq!(
        case.at(0, ConnectionEvent::Unreachable(fault(false))),
        NextAction::Wait
    );
    assert_eq!(
        (case.phase(), case.wait(), case.failures()),
        (ConnectionPhase::Disconnected, None, 0)
    );
    assert_eq!(case.state.health(), ConnectionHealth::default());
    assert_eq!(case.at(5, ConnectionEvent::Changed), NextAction::ConnectNow);
}

#[test]
fn checklist_3_4_5_and_28_a_failed_connect_is_retried_after_its_interval() {
    let mut case = Case::new();
    case.at(0, ConnectionEvent::ConnectStarted);
    let next = case.at(0, ConnectionEvent::ConnectFailed(fault(false)));
    assert_eq!(
        (case.phase(), case.wait()),
        (ConnectionPhase::Disconnected, Some(30))
    );
    let expected = ConnectionHealth {
        failures: 1,
        last_probe: Some(case.after(0)),
        last_success: None,
        last_connect_failure: Some(case.after(0)),
    };
    assert_eq!(case.state.health(), expected);
    for (later, wait) in [(1, 29), (29, 1), (30, 0), (31, 0)] {
        assert_eq!(
            next.wait(case.start + later * SECOND),
            Some(wait * SECOND),
            "after {later} s"
        );
    }
}

#[test]
fn a_failed_connect_keeps_its_reason_during_the_retry() {
    let mut case = Case::new();
    case.at(0, ConnectionEvent::ConnectFailed(fault(true)));
    case.at(30, ConnectionEvent::ConnectStarted);
    assert_eq!(
        (case.phase(), case.state.reason()),
        (ConnectionPhase::Disconnected, "Unauthorized")
    );
}

#[test]
fn checklist_6_7_and_8_a_connect_counts_as_a_probe_and_the_next_probe_follows_after_the_interval() {
    let mut case = Case::new();
    case.at(0, ConnectionEvent::ConnectFailed(fault(false)));
    let next = case.at(30, ConnectionEvent::Connected);
    assert_eq!(
        (case.phase(), case.wait()),
        (ConnectionPhase::Ready, Some(10))
    );
    assert_eq!(next.wait(case.start + 33 * SECOND), Some(7 * SECOND));
    let fresh = ConnectionHealth {
        last_probe: Some(case.after(30)),
        last_success: Some(case.after(30)),
        ..ConnectionHealth::default()
    };
    assert_eq!(case.state.health(), fresh);

    case.at(40, ConnectionEvent::ProbeSucceeded);
    let expected = ConnectionHealth {
        last_probe: Some(case.after(40)),
        last_success: Some(case.after(40)),
        ..ConnectionHealth::default()
    };
    assert_eq!((case.state.health(), case.wait()), (expected, Some(10)));
}

#[test]
fn checklist_9_and_35_refused_credentials_are_a_failure_and_reconnect_at_once() {
    let mut case = Case::connected();
    assert_eq!(
        case.at(10, ConnectionEvent::ProbeFailed(fault(true))),
        NextAction::ConnectNow
    );
    assert_eq!(
        (case.phase(), case.failures(), case.wait()),
        (ConnectionPhase::Connecting, 1, Some(0))
    );
    assert_eq!(case.state.health().last_success, Some(case.after(0)));
    // Credentials that are refused again wait for the usual retry.
    case.at(10, ConnectionEvent::ConnectFailed(fault(true)));
    assert_eq!(
        (case.phase(), case.failures(), case.wait()),
        (ConnectionPhase::Disconnected, 2, Some(30))
    );
}

#[test]
fn checklist_10_11_36_and_37_the_fifth_failed_probe_in_a_row_disconnects() {
    let mut case = Case::connected();
    for failures in 1..5 {
        case.at(10 * failures, failed());
        assert_eq!(
            (case.phase(), case.failures(), case.wait()),
            (ConnectionPhase::Unhealthy, failures, Some(10))
        );
    }
    assert!(
        case.state
            .message(&ConnectionTiming::default())
            .ends_with("(failed probe 4 of 5)")
    );
    case.at(50, failed());
    assert_eq!(
        (case.phase(), case.failures(), case.wait()),
        (ConnectionPhase::Disconnected, 5, Some(30))
    );
}

#[test]
fn checklist_12_and_38_a_successful_probe_resets_the_failures() {
    let mut case = Case::connected();
    case.at(10, failed());
    case.at(20, failed());
    case.at(30, ConnectionEvent::ProbeSucceeded);
    assert_eq!((case.phase(), case.failures()), (ConnectionPhase::Ready, 0));
    case.at(40, failed());
    assert_eq!(
        (case.phase(), case.failures()),
        (ConnectionPhase::Unhealthy, 1)
    );
}

#[test]
fn checklist_17_to_20_the_next_action_waits_for_the_rest_of_its_interval() {
    let start = Instant::now();
    // Unlike in Cluster API, every action has the time at which it is due, so the first one is due
    // at once.
    assert_eq!(
        ConnectionState::default().next().wait(start),
        Some(Duration::ZERO)
    );
    for (ago, interval, wait) in [(5, 20, 15), (20, 20, 0), (60, 20, 0)] {
        let due = start + interval * SECOND;
        assert_eq!(
            NextAction::Probe(due).wait(start + ago * SECOND),
            Some(wait * SECOND),
            "{ago} s ago, every {interval} s"
        );
        assert_eq!(
            NextAction::Connect(due).wait(start + ago * SECOND),
            Some(wait * SECOND)
        );
    }
}

#[test]
fn checklist_21_one_action_is_due_at_a_time_and_none_only_for_an_unreachable_member() {
    // In Cluster API it is the least of several waits, and ten seconds if there are none.
    let mut case = Case::connected();
    assert!(matches!(case.state.next(), NextAction::Probe(_)));
    case.at(10, ConnectionEvent::Unreachable(fault(false)));
    assert_eq!(case.state.next().wait(case.now), None);
}

#[test]
fn checklist_24_to_27_a_probe_failure_is_reported_once_and_not_after_a_later_event() {
    let start = Instant::now();
    let now = start + 3600 * SECOND;
    let ago = |seconds: u32| Some(start + (3600 - seconds) * SECOND);
    let health = |success| ConnectionHealth {
        last_success: success,
        ..ConnectionHealth::default()
    };
    for (number, success, last_event, threshold, due) in [
        (24, ago(60), ago(40), 21, true),
        (25, ago(60), ago(39), 21, false),
        (26, ago(60), ago(40), 61, false),
        (27, ago(60), ago(40), 5, false),
        (27, ago(60), ago(40), 30, true),
        (27, ago(60), ago(40), 120, false),
    ] {
        assert_eq!(
            health(success).is_probe_failure_due(threshold * SECOND, last_event, now),
            due,
            "{number}: {threshold} s"
        );
    }
    let never = ConnectionHealth {
        last_probe: ago(0),
        ..ConnectionHealth::default()
    };
    assert!(never.is_probe_failure_due(300 * SECOND, None, now));
    assert!(!never.is_probe_failure_due(300 * SECOND, ago(1), now));
    assert!(
        !ConnectionHealth::default().is_probe_failure_due(300 * SECOND, None, now),
        "nothing was tried yet"
    );
}

#[test]
fn checklist_30_and_39_late_events_change_nothing() {
    let mut connected = Case::connected();
    let before = connected.state.clone();
    connected.at(5, ConnectionEvent::Connected);
    connected.at(5, ConnectionEvent::ConnectStarted);
    connected.at(5, ConnectionEvent::ConnectFailed(fault(false)));
    assert_eq!(connected.state, before);

    let mut disconnected = Case::new();
    disconnected.at(0, ConnectionEvent::ConnectFailed(fault(false)));
    let before = disconnected.state.clone();
    disconnected.at(5, ConnectionEvent::ProbeSucceeded);
    disconnected.at(5, ConnectionEvent::ProbeFailed(fault(true)));
    assert_eq!(disconnected.state, before);
}

#[test]
fn checklist_34_a_disconnect_keeps_the_times_of_probes() {
    let mut case = Case::connected();
    for probe in 1..=5 {
        case.at(10 * probe, failed());
    }
    let expected = ConnectionHealth {
        failures: 5,
        last_probe: Some(case.after(50)),
        last_success: Some(case.after(0)),
        last_connect_failure: None,
    };
    assert_eq!(case.state.health(), expected);
}

#[test]
fn a_change_reconnects_at_once_and_resets_failures_but_keeps_times() {
    let mut case = Case::connected();
    case.at(10, failed());
    assert_eq!(
        case.at(11, ConnectionEvent::Changed),
        NextAction::ConnectNow
    );
    assert_eq!(
        (case.phase(), case.failures(), case.state.reason()),
        (ConnectionPhase::Connecting, 0, "Connecting")
    );
    assert_eq!(case.state.health().last_success, Some(case.after(0)));
}

fn event() -> impl Strategy<Value = ConnectionEvent> {
    prop_oneof![
        Just(ConnectionEvent::ConnectStarted),
        Just(ConnectionEvent::Connected),
        Just(ConnectionEvent::ProbeSucceeded),
        Just(ConnectionEvent::Changed),
        any::<bool>().prop_map(|unauthorized| ConnectionEvent::ConnectFailed(fault(unauthorized))),
        any::<bool>().prop_map(|unauthorized| ConnectionEvent::ProbeFailed(fault(unauthorized))),
        Just(ConnectionEvent::Unreachable(fault(false))),
    ]
}

proptest! {
    #[test]
    fn waits_stay_within_their_jitter(random in 0.0..=1.0_f64) {
        let timing = ConnectionTiming::default();
        let connect = timing.reconnect_backoff(random).as_secs_f64();
        prop_assert!((24.0 - 1e-6..=36.0 + 1e-6).contains(&connect));
        let probe = timing.first_probe_wait(random).as_secs_f64();
        prop_assert!((8.0 - 1e-6..=10.0 + 1e-6).contains(&probe));
    }

    #[test]
    fn checklist_16_whatever_happens_the_next_step_fits_the_phase(
        history in prop::collection::vec((event(), 0_u32..60, 0.0..=1.0_f64), 0..40),
    ) {
        let timing = ConnectionTiming::default();
        let mut state = ConnectionState::default();
        let mut now = Instant::now();
        for (what, seconds, random) in history {
            now += seconds * SECOND;
            let next = state.observe(what, ClockReading { now, random }, &timing);
            prop_assert_eq!(matches!(next, NextAction::Probe(_)), state.is_connected());
            // No action is due later than a connect with the largest jitter.
            prop_assert!(next.wait(now).is_none_or(|wait| wait <= timing.reconnect_backoff(1.0)));
            prop_assert!(state.health().failures == 0 || state.phase() != ConnectionPhase::Ready);
            prop_assert!(state.health().last_success <= state.health().last_probe);
        }
    }
}
