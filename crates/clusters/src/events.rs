//! Tells other parts of a program of connects, disconnects and silences of members.
//!
//! Whoever listens slowly, or never, delays nobody and loses nothing that still matters: what happened to one member
//! meanwhile is one event.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fleetdex_core::model::ClusterName;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{connection::Connection, state::Health};

/// Why there is an event. Several things may have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// There is a new connection.
    pub connected: bool,
    /// A connection is gone.
    pub disconnected: bool,
    /// No probe has succeeded for one of the times that were asked for.
    pub probe_failure: bool,
}

/// Something happened to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The member.
    pub cluster: ClusterName,
    /// What happened.
    pub reasons: Reasons,
}

impl Reasons {
    /// What another connection in place of one means.
    pub fn between(before: Option<&Connection>, after: Option<&Connection>) -> Self {
        let other = before != after;
        Self {
            connected: other && after.is_some(),
            disconnected: other && before.is_some(),
            probe_failure: false,
        }
    }

    fn any(self) -> bool {
        self.connected || self.disconnected || self.probe_failure
    }

    fn and(self, other: Self) -> Self {
        Self {
            connected: self.connected || other.connected,
            disconnected: self.disconnected || other.disconnected,
            probe_failure: self.probe_failure || other.probe_failure,
        }
    }
}

/// The events that one listener has not taken yet. Dropped, it hears of nothing any more.
#[derive(Debug)]
pub struct Events {
    subscription: Arc<Subscription>,
}

impl Events {
    /// The next event; `None` when there will be none. Cancel-safe.
    pub async fn next(&mut self) -> Option<ClusterEvent> {
        loop {
            let woken = self.subscription.woken.notified();
            let first = self.subscription.told.lock().waiting.pop_first();
            if let Some((cluster, reasons)) = first {
                return Some(ClusterEvent { cluster, reasons });
            }
            if self.subscription.closed.load(Ordering::Acquire) {
                return None;
            }
            woken.await;
        }
    }
}

#[derive(Debug)]
struct Subscription {
    silences: Vec<Duration>,
    told: Mutex<Told>,
    woken: Notify,
    closed: AtomicBool,
}

/// Both are bounded by the members that there are: one that is removed is forgotten.
#[derive(Debug, Default)]
struct Told {
    last: BTreeMap<ClusterName, Instant>,
    waiting: BTreeMap<ClusterName, Reasons>,
}

impl Subscription {
    fn tell(&self, cluster: &ClusterName, happened: Reasons, health: &Health, now: Instant) {
        let mut told = self.told.lock();
        let last = told.last.get(cluster).copied();
        let silent = self
            .silences
            .iter()
            .any(|silence| health.is_news(*silence, last, now));
        let reasons = Reasons {
            probe_failure: silent,
            ..happened
        };
        if !reasons.any() {
            return;
        }
        told.last.insert(cluster.clone(), now);
        let waiting = told.waiting.entry(cluster.clone()).or_default();
        *waiting = waiting.and(reasons);
        drop(told);
        self.woken.notify_one();
    }
}

/// Where events come from.
#[derive(Debug, Default)]
pub struct Publisher(Mutex<Vec<Weak<Subscription>>>);

impl Publisher {
    /// Events from now on, and one for each of these times that a member is silent.
    pub fn subscribe(&self, silences: &[Duration]) -> Events {
        let subscription = Arc::new(Subscription {
            silences: silences.to_vec(),
            told: Mutex::default(),
            woken: Notify::new(),
            closed: AtomicBool::new(false),
        });
        let mut all = self.0.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&subscription));
        Events { subscription }
    }

    /// Passes on what happened to a member.
    pub fn tell(&self, cluster: &ClusterName, happened: Reasons, health: &Health, now: Instant) {
        for subscription in self.0.lock().iter().filter_map(Weak::upgrade) {
            subscription.tell(cluster, happened, health, now);
        }
    }

    /// A member is none any more. One of the same name later is another one.
    pub fn forget(&self, cluster: &ClusterName) {
        for subscription in self.0.lock().iter().filter_map(Weak::upgrade) {
            let mut told = subscription.told.lock();
            told.last.remove(cluster);
            told.waiting.remove(cluster);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        for subscription in self.0.lock().iter().filter_map(Weak::upgrade) {
            subscription.closed.store(true, Ordering::Release);
            subscription.woken.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const CONNECTED: Reasons = Reasons {
        connected: true,
        disconnected: false,
        probe_failure: false,
    };
    const DISCONNECTED: Reasons = Reasons {
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

        /// Tells of a member that last answered at the start.
        fn tell(&self, seconds: u64, happened: Reasons) {
            let health = Health {
                last_success: Some(self.start),
                ..Health::default()
            };
            self.publisher.tell(
                &"a".parse().unwrap(),
                happened,
                &health,
                self.start + Duration::from_secs(seconds),
            );
        }
    }

    fn taken(events: &mut Events) -> Option<Reasons> {
        events
            .next()
            .now_or_never()
            .flatten()
            .map(|event| event.reasons)
    }

    #[test]
    fn checklist_15_22_and_23_each_listener_hears_once_of_a_connect_and_of_a_disconnect() {
        let case = Case::new();
        let mut listeners = [
            case.publisher.subscribe(&[]),
            case.publisher.subscribe(&[Duration::from_mins(5)]),
        ];
        case.tell(0, CONNECTED);
        // The probe right after it.
        case.tell(0, Reasons::default());
        for listener in &mut listeners {
            assert_eq!((taken(listener), taken(listener)), (Some(CONNECTED), None));
        }
        case.tell(50, DISCONNECTED);
        assert_eq!(listeners.each_mut().map(taken), [Some(DISCONNECTED); 2]);
    }

    #[test]
    fn what_happens_before_anybody_looks_is_one_event() {
        let case = Case::new();
        let mut events = case.publisher.subscribe(&[]);
        case.tell(0, CONNECTED);
        case.tell(1, DISCONNECTED);
        let both = Reasons {
            disconnected: true,
            ..CONNECTED
        };
        assert_eq!((taken(&mut events), taken(&mut events)), (Some(both), None));
    }

    #[test]
    fn checklist_27_each_silence_is_told_once_to_who_asked_for_it() {
        let case = Case::new();
        let mut both = case
            .publisher
            .subscribe(&[Duration::from_secs(50), Duration::from_mins(2)]);
        let mut none = case.publisher.subscribe(&[]);
        let mut heard = Vec::new();
        for seconds in (10..200).step_by(10) {
            case.tell(seconds, Reasons::default());
            if taken(&mut both)
                == Some(Reasons {
                    probe_failure: true,
                    ..Reasons::default()
                })
            {
                heard.push(seconds);
            }
        }
        assert_eq!((heard, taken(&mut none)), (vec![60, 130], None));
    }

    #[test]
    fn checklist_13_a_member_that_is_removed_is_forgotten() {
        let case = Case::new();
        let mut events = case.publisher.subscribe(&[Duration::from_secs(50)]);
        case.tell(60, Reasons::default());
        case.publisher.forget(&"a".parse().unwrap());
        assert_eq!(taken(&mut events), None);
        case.tell(61, Reasons::default());
        assert!(taken(&mut events).is_some_and(|reasons| reasons.probe_failure));
    }

    #[tokio::test]
    async fn the_end_is_told() {
        let case = Case::new();
        let mut events = case.publisher.subscribe(&[]);
        case.tell(0, CONNECTED);
        drop(case);
        assert!(events.next().await.is_some());
        assert_eq!(events.next().await, None);
    }
}
