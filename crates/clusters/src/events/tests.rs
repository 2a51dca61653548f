use futures::FutureExt;

use super::*;

const CONNECTED: EventReasons = EventReasons {
    connected: true,
    disconnected: false,
    probe_failure: false,
};
const DISCONNECTED: EventReasons = EventReasons {
    connected: false,
    disconnected: true,
    probe_failure: false,
};

struct Case {
    publisher: Publisher,
    start: Instant,
}

impl Case {
    fn new() -> Self {
        Self {
            publisher: Publisher::default(),
            start: Instant::now() + Duration::from_hours(1),
        }
    }

    /// Publishes for a member that last answered at the start.
    fn publish(&self, seconds: u64, change: EventReasons) {
        let health = ConnectionHealth {
            last_success: Some(self.start),
            ..ConnectionHealth::default()
        };
        self.publisher.publish(
            &"a".parse().unwrap(),
            change,
            &health,
            self.start + Duration::from_secs(seconds),
        );
    }
}

fn next(events: &mut ClusterEvents) -> Option<EventReasons> {
    events
        .next()
        .now_or_never()
        .flatten()
        .map(|event| event.reasons)
}

#[test]
fn checklist_15_22_and_23_each_subscriber_gets_one_event_per_connect_and_disconnect() {
    let case = Case::new();
    let mut subscribers = [
        case.publisher.subscribe(&[]),
        case.publisher.subscribe(&[Duration::from_mins(5)]),
    ];
    case.publish(0, CONNECTED);
    // The first probe after the connect.
    case.publish(0, EventReasons::default());
    for subscriber in &mut subscribers {
        assert_eq!(
            (next(subscriber), next(subscriber)),
            (Some(CONNECTED), None)
        );
    }
    case.publish(50, DISCONNECTED);
    assert_eq!(subscribers.each_mut().map(next), [Some(DISCONNECTED); 2]);
}

#[test]
fn pending_events_of_a_member_are_merged() {
    let case = Case::new();
    let mut events = case.publisher.subscribe(&[]);
    case.publish(0, CONNECTED);
    case.publish(1, DISCONNECTED);
    let both = EventReasons {
        disconnected: true,
        ..CONNECTED
    };
    assert_eq!((next(&mut events), next(&mut events)), (Some(both), None));
}

#[test]
fn checklist_27_each_probe_failure_threshold_is_reported_once_to_its_subscriber() {
    let case = Case::new();
    let mut both = case
        .publisher
        .subscribe(&[Duration::from_secs(50), Duration::from_mins(2)]);
    let mut none = case.publisher.subscribe(&[]);
    let mut reported = Vec::new();
    for seconds in (10..200).step_by(10) {
        case.publish(seconds, EventReasons::default());
        if next(&mut both)
            == Some(EventReasons {
                probe_failure: true,
                ..EventReasons::default()
            })
        {
            reported.push(seconds);
        }
    }
    assert_eq!((reported, next(&mut none)), (vec![60, 130], None));
}

#[test]
fn checklist_13_pending_events_of_a_removed_member_are_dropped() {
    let case = Case::new();
    let mut events = case.publisher.subscribe(&[Duration::from_secs(50)]);
    case.publish(60, EventReasons::default());
    case.publisher.forget(&"a".parse().unwrap());
    assert_eq!(next(&mut events), None);
    case.publish(61, EventReasons::default());
    assert!(next(&mut events).is_some_and(|reasons| reasons.probe_failure));
}

#[tokio::test]
async fn the_stream_ends_when_the_publisher_is_dropped() {
    let case = Case::new();
    let mut events = case.publisher.subscribe(&[]);
    case.publish(0, CONNECTED);
    drop(case);
    assert!(events.next().await.is_some());
    assert_eq!(events.next().await, None);
}
