//! The parts of jobs that one webhook has to answer: those that wait, and those that are under way.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::model::Version;
use tokio::time::Instant;

use super::room::Held;
use crate::breaker::Breaker;

/// The time before a part is asked again after its first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest such time.
const LONGEST_RETRY: Duration = Duration::from_mins(5);

/// What one webhook has to answer about one version of a document.
#[derive(Clone, Debug)]
pub(super) struct Part<P> {
    pub(super) version: Version,
    pub(super) bytes: usize,
    pub(super) payload: P,
    pub(super) failures: u32,
}

/// Where a waiting part waits. The numbers keep the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready(u64),
    Retry(Instant, u64),
    /// Until the call for an older version of the document has ended.
    BehindRunning,
}

#[derive(Debug)]
struct Waiting<P> {
    part: Part<P>,
    place: Place,
}

/// What becomes of a part that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// The webhook is being asked, and its answer is wanted.
    Asking,
    /// The webhook is being asked, and its answer is discarded.
    Outdated,
    /// The final result is being delivered.
    Delivering,
    /// The first failure is being delivered; the part is asked again at this time.
    Postponing(Instant),
    /// The same, and the part is not asked again: it was superseded or cancelled since.
    PostponingLast,
}

#[derive(Debug)]
struct Running<P> {
    part: Part<P>,
    course: Course,
}

/// The parts for one webhook.
#[derive(Debug)]
pub(super) struct Lane<P> {
    pub(super) breaker: Breaker,
    /// Calls under way.
    pub(super) asking: usize,
    pub(super) held: Held,
    waiting: HashMap<Arc<str>, Waiting<P>>,
    ready: BTreeMap<u64, Arc<str>>,
    retries: BTreeMap<(Instant, u64), Arc<str>>,
    retries_held: Held,
    running: HashMap<Arc<str>, Running<P>>,
    last_number: u64,
}

impl<P> Default for Lane<P> {
    fn default() -> Self {
        Self {
            breaker: Breaker::default(),
            asking: 0,
            held: Held::default(),
            waiting: HashMap::new(),
            ready: BTreeMap::new(),
            retries: BTreeMap::new(),
            retries_held: Held::default(),
            running: HashMap::new(),
            last_number: 0,
        }
    }
}

impl<P: Clone> Lane<P> {
    /// Whether nothing waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.retries.keys().next().map(|(at, _)| *at)
    }

    /// The newest version of a document that is to be answered.
    pub(super) fn version(&self, key: &str) -> Option<Version> {
        let waiting = self.waiting.get(key).map(|waiting| waiting.part.version);
        let wanted = |running: &&Running<P>| {
            matches!(running.course, Course::Asking | Course::Postponing(_))
        };
        let running = self.running.get(key).filter(wanted);
        waiting.max(running.map(|running| running.part.version))
    }

    /// What a submitted part would replace.
    pub(super) fn replaceable(&self, key: &str) -> Held {
        self.waiting
            .get(key)
            .map_or_else(Held::default, |waiting| Held::of(waiting.part.bytes))
    }

    /// Takes in a part in place of older ones, which keeps the place in the order of one that
    /// waits. Returns how many it supersedes.
    pub(super) fn submit(&mut self, key: &Arc<str>, part: Part<P>) -> usize {
        let outdated = usize::from(self.discard_running(key));
        self.held += Held::of(part.bytes);
        let Some(older) = self.waiting.remove(key) else {
            self.enqueue(key, part);
            return outdated;
        };
        self.held -= Held::of(older.part.bytes);
        match older.place {
            Place::Ready(_) | Place::BehindRunning => {
                let place = older.place;
                self.waiting
                    .insert(Arc::clone(key), Waiting { part, place });
            }
            Place::Retry(at, number) => {
                self.leave_retries(at, number, older.part.bytes);
                self.enqueue(key, part);
            }
        }
        outdated + 1
    }

    fn enqueue(&mut self, key: &Arc<str>, part: Part<P>) {
        let place = if self.running.contains_key(key) {
            Place::BehindRunning
        } else {
            self.make_ready(key)
        };
        self.waiting
            .insert(Arc::clone(key), Waiting { part, place });
    }

    fn make_ready(&mut self, key: &Arc<str>) -> Place {
        self.last_number += 1;
        self.ready.insert(self.last_number, Arc::clone(key));
        Place::Ready(self.last_number)
    }

    /// Forgets a document. Returns how many parts of it will not be delivered.
    pub(super) fn cancel(&mut self, key: &str) -> usize {
        let outdated = usize::from(self.discard_running(key));
        let Some(waiting) = self.waiting.remove(key) else {
            return outdated;
        };
        self.held -= Held::of(waiting.part.bytes);
        match waiting.place {
            Place::Ready(number) => {
                self.ready.remove(&number);
            }
            Place::Retry(at, number) => self.leave_retries(at, number, waiting.part.bytes),
            Place::BehindRunning => {}
        }
        outdated + 1
    }

    /// Forgets the documents that match. Returns how many parts of them will not be delivered.
    pub(super) fn cancel_matching(&mut self, matches: impl Fn(&str) -> bool) -> usize {
        let keys = self.waiting.keys().chain(self.running.keys());
        let keys: Vec<Arc<str>> = keys.filter(|key| matches(key)).cloned().collect();
        keys.iter().map(|key| self.cancel(key)).sum()
    }

    /// Whether a result about a document, a postponement included, is being delivered.
    pub(super) fn is_delivering(&self, key: &str) -> bool {
        let course = self.running.get(key).map(|running| running.course);
        course.is_some_and(|course| !matches!(course, Course::Asking | Course::Outdated))
    }

    /// Parts whose final result is being delivered.
    pub(super) fn delivering(&self) -> usize {
        let courses = self.running.values().map(|running| running.course);
        courses
            .filter(|course| *course == Course::Delivering)
            .count()
    }

    /// Returns whether a part under way was to be delivered, and now is not.
    fn discard_running(&mut self, key: &str) -> bool {
        let Some(running) = self.running.get_mut(key) else {
            return false;
        };
        let (course, discarded) = match running.course {
            Course::Asking => (Course::Outdated, true),
            Course::Postponing(_) => {
                self.retries_held -= Held::of(running.part.bytes);
                (Course::PostponingLast, true)
            }
            unchanged => (unchanged, false),
        };
        running.course = course;
        discarded
    }

    /// Moves the retries that are due to the others that are ready.
    pub(super) fn promote(&mut self, now: Instant) {
        while self.next_retry().is_some_and(|at| at <= now) {
            self.promote_first();
        }
    }

    /// Makes all retries due, as the webhook is back.
    pub(super) fn promote_all(&mut self) {
        while !self.retries.is_empty() {
            self.promote_first();
        }
    }

    fn promote_first(&mut self) {
        let Some((_, key)) = self.retries.pop_first() else {
            return;
        };
        let place = self.make_ready(&key);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            self.retries_held -= Held::of(waiting.part.bytes);
            waiting.place = place;
        }
    }

    /// Takes the first part that is ready, and begins a call.
    pub(super) fn begin(&mut self) -> Option<(Arc<str>, Part<P>)> {
        let (_, key) = self.ready.pop_first()?;
        let part = self.waiting.remove(&key)?.part;
        self.breaker.begin();
        self.asking += 1;
        let running = Running {
            part: part.clone(),
            course: Course::Asking,
        };
        self.running.insert(Arc::clone(&key), running);
        Some((key, part))
    }

    /// Whether the answer to the call for a document is still wanted.
    pub(super) fn is_wanted(&self, key: &str) -> bool {
        let course = self.running.get(key).map(|running| running.course);
        course == Some(Course::Asking)
    }

    /// The final result is about to be delivered.
    pub(super) fn deliver(&mut self, key: &str) {
        self.set_course(key, Course::Delivering);
    }

    /// Whether a part that failed may wait for another attempt.
    pub(super) fn fits_retries(&self, bytes: usize, most: Held) -> bool {
        self.retries_held.fits(Held::of(bytes), most)
    }

    /// The first failure is about to be delivered; then the part is asked again.
    pub(super) fn postpone(&mut self, key: &str, at: Instant) {
        if let Some(running) = self.running.get(key) {
            self.retries_held += Held::of(running.part.bytes);
        }
        self.set_course(key, Course::Postponing(at));
    }

    /// The part under way is asked again later.
    pub(super) fn retry(&mut self, key: &Arc<str>, at: Instant) {
        self.postpone(key, at);
        self.finish(key);
    }

    fn set_course(&mut self, key: &str, course: Course) {
        if let Some(running) = self.running.get_mut(key) {
            running.course = course;
        }
    }

    fn await_retry(&mut self, key: &Arc<str>, at: Instant) {
        let Some(running) = self.running.remove(key) else {
            return;
        };
        let mut part = running.part;
        part.failures = part.failures.saturating_add(1);
        self.last_number += 1;
        let number = self.last_number;
        self.retries.insert((at, number), Arc::clone(key));
        let place = Place::Retry(at, number);
        self.waiting
            .insert(Arc::clone(key), Waiting { part, place });
    }

    /// The part under way has come to its end, or is asked again if its failure was delivered. One
    /// of a newer version is no longer behind it.
    pub(super) fn finish(&mut self, key: &Arc<str>) {
        match self.running.get(key).map(|running| running.course) {
            Some(Course::Postponing(at)) => self.await_retry(key, at),
            Some(_) => self.end(key),
            None => {}
        }
    }

    fn end(&mut self, key: &Arc<str>) {
        if let Some(running) = self.running.remove(key) {
            self.held -= Held::of(running.part.bytes);
        }
        if self
            .waiting
            .get(key)
            .is_some_and(|waiting| waiting.place == Place::BehindRunning)
        {
            let place = self.make_ready(key);
            if let Some(waiting) = self.waiting.get_mut(key) {
                waiting.place = place;
            }
        }
    }

    fn leave_retries(&mut self, at: Instant, number: u64, bytes: usize) {
        self.retries.remove(&(at, number));
        self.retries_held -= Held::of(bytes);
    }
}

#[cfg(test)]
impl<P> Lane<P> {
    /// Fails unless what the lane counts is what it has.
    pub(super) fn check(&self) {
        let mut retries_held = Held::default();
        let mut held = Held::default();
        let (mut ready, mut retries) = (0, 0);
        for (key, waiting) in &self.waiting {
            held += Held::of(waiting.part.bytes);
            match waiting.place {
                Place::Ready(number) => {
                    assert_eq!(self.ready.get(&number), Some(key));
                    ready += 1;
                }
                Place::Retry(at, number) => {
                    assert_eq!(self.retries.get(&(at, number)), Some(key));
                    retries_held += Held::of(waiting.part.bytes);
                    retries += 1;
                }
                Place::BehindRunning => assert!(self.running.contains_key(key)),
            }
        }
        for running in self.running.values() {
            held += Held::of(running.part.bytes);
            if let Course::Postponing(_) = running.course {
                retries_held += Held::of(running.part.bytes);
            }
        }
        assert_eq!((ready, retries), (self.ready.len(), self.retries.len()));
        assert_eq!((held, retries_held), (self.held, self.retries_held));
    }
}

/// The time until the next attempt after so many failures. Half of it is jitter, so that what
/// failed together is not asked together again.
pub(super) fn retry_delay(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = FIRST_RETRY.saturating_mul(1 << failures.min(16));
    let longest = doubled.min(LONGEST_RETRY);
    longest
        .mul_f64(0.5 + 0.5 * fastrand::f64())
        .max(retry_after.unwrap_or_default())
}
