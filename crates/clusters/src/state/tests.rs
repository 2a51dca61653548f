//! The checklist of Cluster API's cluster cache, as far as it is decided here. The numbers are those of our checklist; the
//! ones that are missing need a world around them and are tested in `supervisor_tests.rs`, `connect_tests.rs` and `cache`.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn fault(unauthorized: bool) -> Fault {
    let reason = if unauthorized {
        "Unauthorized"
    } else {
        "Unreachable"
    };
    Fault {
        reason,
        message: "it does not answer".into(),
        unauthorized,
    }
}

/// An accessor with a clock of its own.
struct Case {
    accessor: Accessor,
    start: Instant,
    now: Instant,
}

impl Case {
    /// A member that nobody has tried to connect to.
    fn new() -> Self {
        // Far enough from the beginning of the clock for times in the past.
        let start = Instant::now() + Duration::from_hours(1);
        Self {
            accessor: Accessor::default(),
            start,
            now: start,
        }
    }

    fn connected() -> Self {
        let mut case = Self::new();
        case.at(0, Happened::Connected);
        case
    }

    /// Something happens so many seconds after the start, by the middle of every jitter.
    fn at(&mut self, seconds: u32, happened: Happened) -> Next {
        self.now = self.start + seconds * SECOND;
        let at = Moment {
            now: self.now,
            random: 0.5,
        };
        self.accessor.observe(
            happened,
            at,
            &Timing {
                probe_jitter: 0.0,
                ..Timing::default()
            },
        )
    }

    /// Seconds until the next step, as seen now.
    fn wait(&self) -> Option<u64> {
        self.accessor
            .next()
            .wait(self.now)
            .map(|wait| wait.as_secs())
    }

    fn phase(&self) -> Phase {
        self.accessor.phase()
    }

    fn failures(&self) -> u32 {
        self.accessor.health().failures
    }

    fn after(&self, seconds: u32) -> Instant {
        self.start + seconds * SECOND
    }
}

fn failed() -> Happened {
    Happened::ProbeFailed(fault(false))
}

#[test]
fn checklist_1_a_member_out_of_reach_is_left_alone_until_it_changes() {
    let mut case = Case::new();
    assert_eq!(case.at(0, Happened::OutOfReach(fault(false))), Next::Wait);
    assert_eq!(
        (case.phase(), case.wait(), case.failures()),
        (Phase::Disconnected, None, 0)
    );
    assert_eq!(case.accessor.health(), Health::default());
    assert_eq!(case.at(5, Happened::Changed), Next::ConnectNow);
}

#[test]
fn checklist_3_4_5_and_28_a_failed_connect_is_tried_again_after_its_interval_and_not_before() {
    let mut case = Case::new();
    case.at(0, Happened::ConnectStarted);
    let next = case.at(0, Happened::ConnectFailed(fault(false)));
    assert_eq!((case.phase(), case.wait()), (Phase::Disconnected, Some(30)));
    let expected = Health {
        failures: 1,
        last_probe: Some(case.after(0)),
        last_success: None,
        last_connect_failure: Some(case.after(0)),
    };
    assert_eq!(case.accessor.health(), expected);
    for (later, wait) in [(1, 29), (29, 1), (30, 0), (31, 0)] {
        assert_eq!(
            next.wait(case.start + later * SECOND),
            Some(wait * SECOND),
            "after {later} s"
        );
    }
}

#[test]
fn a_failed_connect_keeps_its_reason_while_it_is_tried_again() {
    let mut case = Case::new();
    case.at(0, Happened::ConnectFailed(fault(true)));
    case.at(30, Happened::ConnectStarted);
    assert_eq!(
        (case.phase(), case.accessor.reason()),
        (Phase::Disconnected, "Unauthorized")
    );
}

#[test]
fn checklist_6_7_and_8_a_connect_counts_as_a_probe_and_the_next_one_comes_after_its_interval() {
    let mut case = Case::new();
    case.at(0, Happened::ConnectFailed(fault(false)));
    let next = case.at(30, Happened::Connected);
    assert_eq!((case.phase(), case.wait()), (Phase::Ready, Some(10)));
    assert_eq!(next.wait(case.start + 33 * SECOND), Some(7 * SECOND));
    let fresh = Health {
        last_probe: Some(case.after(30)),
        last_success: Some(case.after(30)),
        ..Health::default()
    };
    assert_eq!(case.accessor.health(), fresh);

    case.at(40, Happened::ProbeSucceeded);
    let expected = Health {
        last_probe: Some(case.after(40)),
        last_success: Some(case.after(40)),
        ..Health::default()
    };
    assert_eq!((case.accessor.health(), case.wait()), (expected, Some(10)));
}

#[test]
fn checklist_9_and_35_refused_credentials_are_a_failure_and_reconnect_at_once() {
    let mut case = Case::connected();
    assert_eq!(
        case.at(10, Happened::ProbeFailed(fault(true))),
        Next::ConnectNow
    );
    assert_eq!(
        (case.phase(), case.failures(), case.wait()),
        (Phase::Connecting, 1, Some(0))
    );
    assert_eq!(case.accessor.health().last_success, Some(case.after(0)));
    // Those that are still refused wait like everybody.
    case.at(10, Happened::ConnectFailed(fault(true)));
    assert_eq!(
        (case.phase(), case.failures(), case.wait()),
        (Phase::Disconnected, 2, Some(30))
    );
}

#[test]
fn checklist_10_11_36_and_37_the_fifth_failed_probe_in_a_row_gives_the_connection_up() {
    let mut case = Case::connected();
    for failures in 1..5 {
        case.at(10 * failures, failed());
        assert_eq!(
            (case.phase(), case.failures(), case.wait()),
            (Phase::Unhealthy, failures, Some(10))
        );
    }
    assert!(
        case.accessor
            .message(&Timing::default())
            .ends_with("(failed probe 4 of 5)")
    );
    case.at(50, failed());
    assert_eq!(
        (case.phase(), case.failures(), case.wait()),
        (Phase::Disconnected, 5, Some(30))
    );
}

#[test]
fn checklist_12_and_38_one_good_probe_forgets_the_failures() {
    let mut case = Case::connected();
    case.at(10, failed());
    case.at(20, failed());
    case.at(30, Happened::ProbeSucceeded);
    assert_eq!((case.phase(), case.failures()), (Phase::Ready, 0));
    case.at(40, failed());
    assert_eq!((case.phase(), case.failures()), (Phase::Unhealthy, 1));
}

#[test]
fn checklist_17_to_20_what_is_due_waits_for_the_rest_of_its_interval() {
    let start = Instant::now();
    // Here every step carries the time at which it is due, so one that was never done is due at once.
    assert_eq!(Accessor::default().next().wait(start), Some(Duration::ZERO));
    for (ago, interval, wait) in [(5, 20, 15), (20, 20, 0), (60, 20, 0)] {
        let due = start + interval * SECOND;
        assert_eq!(
            Next::Probe(due).wait(start + ago * SECOND),
            Some(wait * SECOND),
            "{ago} s ago, every {interval} s"
        );
        assert_eq!(
            Next::Connect(due).wait(start + ago * SECOND),
            Some(wait * SECOND)
        );
    }
}

#[test]
fn checklist_21_one_thing_is_due_at_a_time_and_nothing_only_where_nothing_can_be_done() {
    // There it is the least of several waits, and ten seconds where there are none.
    let mut case = Case::connected();
    assert!(matches!(case.accessor.next(), Next::Probe(_)));
    case.at(10, Happened::OutOfReach(fault(false)));
    assert_eq!(case.accessor.next().wait(case.now), None);
}

#[test]
fn checklist_24_to_27_a_silence_is_told_once_and_not_if_anything_was_told_meanwhile() {
    let start = Instant::now();
    let now = start + 3600 * SECOND;
    let ago = |seconds: u32| Some(start + (3600 - seconds) * SECOND);
    let health = |success| Health {
        last_success: success,
        ..Health::default()
    };
    for (number, success, told, silence, news) in [
        (24, ago(60), ago(40), 21, true),
        (25, ago(60), ago(39), 21, false),
        (26, ago(60), ago(40), 61, false),
        (27, ago(60), ago(40), 5, false),
        (27, ago(60), ago(40), 30, true),
        (27, ago(60), ago(40), 120, false),
    ] {
        assert_eq!(
            health(success).is_news(silence * SECOND, told, now),
            news,
            "{number}: {silence} s"
        );
    }
    let never = Health {
        last_probe: ago(0),
        ..Health::default()
    };
    assert!(never.is_news(300 * SECOND, None, now));
    assert!(!never.is_news(300 * SECOND, ago(1), now));
    assert!(
        !Health::default().is_news(300 * SECOND, None, now),
        "nothing was tried yet"
    );
}

#[test]
fn checklist_30_and_39_what_comes_too_late_changes_nothing() {
    let mut connected = Case::connected();
    let before = connected.accessor.clone();
    connected.at(5, Happened::Connected);
    connected.at(5, Happened::ConnectStarted);
    connected.at(5, Happened::ConnectFailed(fault(false)));
    assert_eq!(connected.accessor, before);

    let mut disconnected = Case::new();
    disconnected.at(0, Happened::ConnectFailed(fault(false)));
    let before = disconnected.accessor.clone();
    disconnected.at(5, Happened::ProbeSucceeded);
    disconnected.at(5, Happened::ProbeFailed(fault(true)));
    assert_eq!(disconnected.accessor, before);
}

#[test]
fn checklist_34_a_lost_connection_forgets_no_time() {
    let mut case = Case::connected();
    for probe in 1..=5 {
        case.at(10 * probe, failed());
    }
    let expected = Health {
        failures: 5,
        last_probe: Some(case.after(50)),
        last_success: Some(case.after(0)),
        last_connect_failure: None,
    };
    assert_eq!(case.accessor.health(), expected);
}

#[test]
fn a_change_reconnects_at_once_and_forgets_failures_but_no_time() {
    let mut case = Case::connected();
    case.at(10, failed());
    assert_eq!(case.at(11, Happened::Changed), Next::ConnectNow);
    assert_eq!(
        (case.phase(), case.failures(), case.accessor.reason()),
        (Phase::Connecting, 0, "Connecting")
    );
    assert_eq!(case.accessor.health().last_success, Some(case.after(0)));
}

fn happened() -> impl Strategy<Value = Happened> {
    prop_oneof![
        Just(Happened::ConnectStarted),
        Just(Happened::Connected),
        Just(Happened::ProbeSucceeded),
        Just(Happened::Changed),
        any::<bool>().prop_map(|unauthorized| Happened::ConnectFailed(fault(unauthorized))),
        any::<bool>().prop_map(|unauthorized| Happened::ProbeFailed(fault(unauthorized))),
        Just(Happened::OutOfReach(fault(false))),
    ]
}

proptest! {
    #[test]
    fn waits_stay_within_their_jitter(random in 0.0..=1.0_f64) {
        let timing = Timing::default();
        let connect = timing.connect_wait(random).as_secs_f64();
        prop_assert!((24.0 - 1e-6..=36.0 + 1e-6).contains(&connect));
        let probe = timing.first_probe_wait(random).as_secs_f64();
        prop_assert!((8.0 - 1e-6..=10.0 + 1e-6).contains(&probe));
    }

    #[test]
    fn checklist_16_whatever_happens_the_next_step_fits_the_phase(
        history in prop::collection::vec((happened(), 0_u32..60, 0.0..=1.0_f64), 0..40),
    ) {
        let timing = Timing::default();
        let mut accessor = Accessor::default();
        let mut now = Instant::now();
        for (what, seconds, random) in history {
            now += seconds * SECOND;
            let next = accessor.observe(what, Moment { now, random }, &timing);
            prop_assert_eq!(matches!(next, Next::Probe(_)), accessor.is_connected());
            // Nothing is ever further away than a late connect.
            prop_assert!(next.wait(now).is_none_or(|wait| wait <= timing.connect_wait(1.0)));
            prop_assert!(accessor.health().failures == 0 || accessor.phase() != Phase::Ready);
            prop_assert!(accessor.health().last_success <= accessor.health().last_probe);
        }
    }
}
