use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const ANSWERED: Contact = Contact::Reached;
const LOST: Contact = Contact::Unreachable { retry_after: None };

fn limits() -> QueueLimits {
    let webhook = Held {
        parts: 8,
        bytes: 80,
    };
    QueueLimits {
        total: Held {
            parts: 20,
            bytes: 200,
        },
        webhook,
        retries: webhook.half(),
        calls: 4,
        calls_of_webhook: 3,
        reserved_calls: 1,
    }
}

fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

fn job(key: &str, number: u64, webhooks: &[&str], bytes: usize) -> EnrichmentJob<u64> {
    EnrichmentJob {
        key: key.into(),
        version: version(number),
        webhooks: webhooks.iter().map(|webhook| (*webhook).into()).collect(),
        bytes,
        payload: number,
    }
}

fn ended(contact: Contact, again: bool) -> Ended {
    (contact, again)
}

fn good() -> Ended {
    ended(ANSWERED, false)
}

fn bad() -> Ended {
    ended(ANSWERED, true)
}

fn begun(schedule: &mut Schedule<u64>, now: Instant) -> Vec<PlannedCall<u64>> {
    std::iter::from_fn(|| schedule.begin(now)).collect()
}

fn names(calls: &[PlannedCall<u64>]) -> Vec<String> {
    calls
        .iter()
        .map(|call| format!("{}:{}", call.webhook, call.key))
        .collect()
}

#[test]
fn webhooks_take_turns_within_their_bounds_and_each_has_a_reserved_call() {
    let now = Instant::now();
    let mut schedule = Schedule::new(limits());
    for key in ["1", "2", "3", "4"] {
        for webhook in ["a", "b", "c"] {
            let key = format!("{webhook}{key}");
            schedule.submit(&job(&key, 1, &[webhook], 1), now).unwrap();
        }
    }
    let first = begun(&mut schedule, now);
    assert_eq!(names(&first), ["a:a1", "b:b1", "c:c1", "a:a2"]);
    schedule.submit(&job("d1", 1, &["d"], 1), now).unwrap();
    assert_eq!(names(&begun(&mut schedule, now)), ["d:d1"], "reserved");
    assert_eq!(schedule.ended(&first[3], &good(), now), NextStep::Deliver);
    assert_eq!(names(&begun(&mut schedule, now)), Vec::<String>::new());
    assert_eq!(schedule.ended(&first[1], &good(), now), NextStep::Deliver);
    assert_eq!(
        names(&begun(&mut schedule, now)),
        ["a:a3", "b:b2"],
        "the last shared call, and the reserved one of b"
    );
}

#[test]
fn a_newer_version_supersedes_a_waiting_one_in_its_place_and_discards_one_under_way() {
    let now = Instant::now();
    let mut schedule = Schedule::new(limits());
    for key in ["x", "y"] {
        assert_eq!(schedule.submit(&job(key, 1, &["a"], 1), now), Ok(0));
    }
    assert_eq!(schedule.submit(&job("x", 2, &["a"], 1), now), Ok(1));
    assert_eq!(
        schedule.submit(&job("x", 1, &["a"], 1), now),
        Ok(1),
        "older"
    );
    let calls = begun(&mut schedule, now);
    assert_eq!(names(&calls), ["a:x", "a:y"]);
    assert_eq!(calls[0].payload, 2);
    assert_eq!(schedule.submit(&job("x", 3, &["a"], 1), now), Ok(1));
    assert!(schedule.begin(now).is_none(), "one version at a time");
    assert_eq!(schedule.ended(&calls[0], &good(), now), NextStep::Discard);
    let next = schedule.begin(now).unwrap();
    assert_eq!(next.payload, 3);
    assert_eq!(schedule.ended(&next, &good(), now), NextStep::Deliver);
    assert_eq!(
        schedule.submit(&job("x", 4, &["a"], 1), now),
        Ok(0),
        "a result that is being delivered counts as delivered"
    );
    assert!(schedule.begin(now).is_none());
    schedule.finished(&next);
    assert_eq!(schedule.begin(now).unwrap().payload, 4);
}

#[test]
fn a_version_that_other_webhooks_answer_supersedes_the_parts_of_the_former_ones() {
    let now = Instant::now();
    let mut schedule = Schedule::new(limits());
    schedule.submit(&job("x", 1, &["a", "b"], 1), now).unwrap();
    assert_eq!(schedule.submit(&job("x", 2, &["b"], 1), now), Ok(2));
    assert_eq!(names(&begun(&mut schedule, now)), ["b:x"]);
}

#[test]
fn the_first_failure_is_delivered_and_later_ones_are_not_until_there_is_an_answer() {
    let mut now = Instant::now();
    let mut schedule = Schedule::new(limits());
    schedule.submit(&job("x", 1, &["a"], 1), now).unwrap();
    let next_steps = [bad(), bad(), bad(), good()].map(|result| {
        now += Duration::from_mins(10);
        let call = schedule.begin(now).unwrap();
        let next_step = schedule.ended(&call, &result, now);
        if next_step != NextStep::Discard {
            schedule.finished(&call);
        }
        next_step
    });
    assert_eq!(
        next_steps,
        [
            NextStep::Postpone,
            NextStep::Discard,
            NextStep::Discard,
            NextStep::Deliver
        ]
    );
    assert_eq!(schedule.held(), Held::default());
}

#[test]
fn attempts_are_further_and_further_apart_and_no_more_than_five_minutes() {
    for (failures, longest) in [
        (0, 1),
        (1, 2),
        (5, 32),
        (9, 300),
        (40, 300),
        (u32::MAX, 300),
    ] {
        let delay = retry_delay(failures, None);
        assert!(
            delay <= Duration::from_secs(longest),
            "{failures}: {delay:?}"
        );
        assert!(
            delay * 2 >= Duration::from_secs(longest),
            "{failures}: {delay:?}"
        );
    }
    let asked = Duration::from_secs(70);
    assert_eq!(retry_delay(0, Some(asked)), asked);
}

#[test]
fn a_document_that_fails_is_given_up_when_there_is_no_room_for_it_to_wait() {
    let now = Instant::now();
    let mut schedule = Schedule::new(limits());
    let mut next_steps = Vec::new();
    for key in 0..8 {
        schedule
            .submit(&job(&key.to_string(), 1, &["a"], 10), now)
            .unwrap();
        let call = schedule.begin(now).unwrap();
        next_steps.push(schedule.ended(&call, &bad(), now));
        schedule.finished(&call);
    }
    assert_eq!(next_steps[..4], [NextStep::Postpone; 4]);
    assert_eq!(next_steps[4..], [NextStep::Deliver; 4]);
    assert_eq!(schedule.held(), limits().retries);
}

#[test]
fn documents_wait_without_a_call_while_the_breaker_is_open_and_all_follow_when_it_closes() {
    let mut now = Instant::now();
    let mut schedule = Schedule::new(limits());
    for round in 0..5 {
        schedule
            .submit(&job(&format!("lost{round}"), 1, &["a"], 1), now)
            .unwrap();
        let call = schedule.begin(now).unwrap();
        schedule.ended(&call, &ended(LOST, true), now);
        schedule.finished(&call);
    }
    assert!(!schedule.permits("a", now));
    schedule.submit(&job("x", 1, &["a"], 1), now).unwrap();
    assert!(schedule.begin(now).is_none());
    now = schedule.next_wake(now).unwrap();
    assert!(schedule.permits("a", now), "it may be probed");
    let probe = begun(&mut schedule, now + Duration::from_millis(1));
    assert_eq!(probe.len(), 1, "one probe");
    now += Duration::from_millis(1);
    assert!(!schedule.permits("a", now));
    assert_eq!(schedule.ended(&probe[0], &good(), now), NextStep::Deliver);
    schedule.finished(&probe[0]);
    assert!(schedule.permits("a", now));
    let calls = begun(&mut schedule, now);
    assert_eq!(calls.len(), limits().calls_of_webhook);
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole_and_room_is_there_when_half_is_free() {
    let now = Instant::now();
    let mut schedule = Schedule::new(limits());
    schedule
        .submit(&job("giant", 1, &["a"], 9999), now)
        .unwrap();
    let refused = schedule.submit(&job("x", 1, &["a", "b"], 1), now);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the queue for interpreter webhook a has no room: 1 objects with 9999 bytes wait"
    );
    assert_eq!(schedule.held().parts, 1);
    assert!(!schedule.has_room(&["a".into()]) && !schedule.has_room(&["b".into()]));
    schedule.submit(&job("giant", 2, &["a"], 10), now).unwrap();
    assert!(schedule.has_room(&["a".into()]));
    for key in 0..7 {
        schedule
            .submit(&job(&key.to_string(), 1, &["a"], 1), now)
            .unwrap();
    }
    assert!(!schedule.has_room(&["a".into()]) && schedule.has_room(&["b".into()]));
    assert!(schedule.submit(&job("7", 1, &["a"], 1), now).is_err());
    assert!(schedule.submit(&job("7", 1, &["b"], 1), now).is_ok());
    assert!(
        schedule.submit(&job("6", 2, &["a"], 1), now).is_ok(),
        "in place of another"
    );
}

#[test]
fn more_webhooks_than_a_fleet_has_are_refused_and_idle_ones_forgotten() {
    let now = Instant::now();
    let wide = Held {
        parts: 10_000,
        bytes: 10_000,
    };
    let mut schedule = Schedule::new(QueueLimits {
        total: wide,
        ..limits()
    });
    let submit = |schedule: &mut Schedule<u64>, webhook: usize| {
        let webhook = format!("{webhook:04}");
        schedule.submit(&job(&webhook, 1, &[&webhook], 1), now)
    };
    for webhook in 0..WEBHOOKS {
        submit(&mut schedule, webhook).unwrap();
    }
    submit(&mut schedule, WEBHOOKS).unwrap_err();
    let call = schedule.begin(now).unwrap();
    schedule.ended(&call, &good(), now);
    schedule.finished(&call);
    submit(&mut schedule, WEBHOOKS).unwrap();
    assert_eq!(schedule.lanes.len(), WEBHOOKS);
}

#[test]
fn cancelled_documents_are_not_asked_about_and_a_webhook_that_is_gone_leaves_nothing() {
    let now = Instant::now();
    let mut schedule = Schedule::new(limits());
    schedule
        .submit(&job("c1/x", 1, &["a", "b"], 1), now)
        .unwrap();
    let running = schedule.begin(now).unwrap();
    schedule.submit(&job("c1/y", 1, &["a"], 1), now).unwrap();
    schedule
        .submit(&job("c2/y", 1, &["a", "b"], 1), now)
        .unwrap();
    assert_eq!(schedule.cancel_matching(|key| key.starts_with("c1/")), 3);
    assert_eq!(schedule.cancel("c1/x"), 0, "again");
    assert_eq!(schedule.retain_webhooks(|webhook| webhook == "a"), 1);
    assert_eq!(schedule.ended(&running, &bad(), now), NextStep::Discard);
    assert_eq!(names(&begun(&mut schedule, now)), ["a:c2/y"]);
}

/// What a test does to a schedule.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        key: u8,
        version: u64,
        webhooks: u8,
        bytes: usize,
    },
    Cancel(u8),
    Retain(u8),
    Begin,
    End {
        call: usize,
        result: u8,
    },
    Finish(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_u8..6, 1_u64..40, 0_u8..8, 0_usize..40).prop_map(|(key, version, webhooks, bytes)| Step::Submit { key, version, webhooks, bytes }),
        1 => (0_u8..6).prop_map(Step::Cancel),
        1 => (0_u8..8).prop_map(Step::Retain),
        6 => Just(Step::Begin),
        6 => (0_usize..8, 0_u8..6).prop_map(|(call, result)| Step::End { call, result }),
        4 => (0_usize..8).prop_map(Step::Finish),
        2 => (0_u64..120).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..300)
}

/// A schedule with what is known of it from outside.
struct Observed {
    schedule: Schedule<u64>,
    now: Instant,
    asking: Vec<PlannedCall<u64>>,
    delivering: Vec<PlannedCall<u64>>,
    submitted: usize,
    discarded: usize,
    delivered: BTreeSet<(Arc<str>, u64)>,
    postponed: BTreeSet<(Arc<str>, u64)>,
    /// The newest accepted submission of each key.
    newest: BTreeMap<Arc<str>, u64>,
    submissions: u64,
}

impl Observed {
    fn new() -> Self {
        Self {
            schedule: Schedule::new(limits()),
            now: Instant::now(),
            asking: Vec::new(),
            delivering: Vec::new(),
            submitted: 0,
            discarded: 0,
            delivered: BTreeSet::new(),
            postponed: BTreeSet::new(),
            newest: BTreeMap::new(),
            submissions: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Submit {
                key,
                version,
                webhooks,
                bytes,
            } => self.submit(key, version, webhooks, bytes),
            Step::Cancel(key) => {
                self.discarded += self.schedule.cancel(&key.to_string());
                self.newest.remove(key.to_string().as_str());
            }
            Step::Retain(webhooks) => {
                let kept = chosen(webhooks);
                self.discarded += self.schedule.retain_webhooks(|id| kept.contains(&id));
            }
            Step::Begin => {
                if let Some(call) = self.schedule.begin(self.now) {
                    self.asking.push(call);
                }
            }
            Step::End { call, result } if call < self.asking.len() => self.end(call, result),
            Step::Finish(call) if call < self.delivering.len() => {
                let call = self.delivering.swap_remove(call);
                self.schedule.finished(&call);
            }
            Step::Wait(seconds) => self.now += Duration::from_secs(seconds),
            Step::End { .. } | Step::Finish(_) => {}
        }
    }

    fn submit(&mut self, key: u8, number: u64, webhooks: u8, bytes: usize) {
        let webhooks = chosen(webhooks);
        self.submissions += 1;
        let submission = EnrichmentJob {
            payload: self.submissions,
            ..job(&key.to_string(), number, &webhooks, bytes)
        };
        let lanes = self.schedule.lanes.values();
        let known = lanes.filter_map(|lane| lane.version(&submission.key)).max();
        let before = self.schedule.held();
        match self.schedule.submit(&submission, self.now) {
            Ok(superseded) => {
                self.submitted += webhooks.len();
                self.discarded += superseded;
                if known <= Some(submission.version) {
                    self.newest.insert(submission.key, self.submissions);
                }
            }
            Err(_) => assert_eq!(self.schedule.held(), before),
        }
    }

    fn end(&mut self, call: usize, result: u8) {
        let call = self.asking.swap_remove(call);
        let ended = match result {
            0 | 1 => good(),
            2 => bad(),
            3 => ended(LOST, true),
            4 => ended(LOST, false),
            _ => ended(Contact::NotCalled, true),
        };
        let part = (Arc::clone(&call.webhook), call.payload);
        let next_step = self.schedule.ended(&call, &ended, self.now);
        if next_step != NextStep::Discard {
            let newest = self.newest.get(&call.key);
            assert_eq!(newest, Some(&call.payload), "outdated: {call:?}");
        }
        match next_step {
            NextStep::Deliver => {
                assert!(self.delivered.insert(part), "delivered twice: {call:?}");
                self.delivering.push(call);
            }
            NextStep::Postpone => {
                assert!(self.postponed.insert(part), "postponed twice: {call:?}");
                self.delivering.push(call);
            }
            NextStep::Discard => {}
        }
    }

    fn check(&self) {
        let under_way = self.asking.iter().chain(&self.delivering);
        let parts: Vec<_> = under_way.map(|call| (&call.webhook, &call.key)).collect();
        let distinct: BTreeSet<_> = parts.iter().collect();
        assert_eq!(parts.len(), distinct.len(), "two versions at a time");
        for (webhook, lane) in &self.schedule.lanes {
            lane.check();
            let bounds = limits().webhook;
            assert!(
                lane.held.parts <= 1
                    || lane.held.parts <= bounds.parts && lane.held.bytes <= bounds.bytes.max(40),
                "{webhook}: {:?}",
                lane.held
            );
            assert!(lane.asking <= limits().calls_of_webhook);
        }
        assert!(self.asking.len() <= limits().calls + 3 * limits().reserved_calls);
    }

    /// Answers everything that is left.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            while !self.delivering.is_empty() {
                self.take(&Step::Finish(0));
            }
            while !self.asking.is_empty() {
                self.end(0, 0);
            }
            self.take(&Step::Begin);
            if self.asking.is_empty() && self.delivering.is_empty() {
                match self.schedule.next_wake(self.now) {
                    Some(wake) => self.now = wake,
                    None => break,
                }
            }
        }
    }
}

fn chosen(webhooks: u8) -> Vec<&'static str> {
    let all = ["a", "b", "c"];
    let is_chosen = |(index, _): &(usize, &&str)| webhooks & (1 << index) != 0;
    let chosen = all.iter().enumerate().filter(is_chosen);
    chosen.map(|(_, webhook)| *webhook).collect()
}

proptest! {
    #[test]
    fn every_part_is_delivered_superseded_or_cancelled_within_the_bounds(steps in steps()) {
        let mut observed = Observed::new();
        for step in &steps {
            observed.take(step);
            observed.check();
        }
        observed.drain();
        prop_assert_eq!(observed.schedule.held(), Held::default());
        prop_assert_eq!(observed.submitted, observed.delivered.len() + observed.discarded);
        prop_assert_eq!(observed.schedule.asking, 0);
    }
}
