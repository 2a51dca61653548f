//! Who gets memory next: a queue that is fair by share, as a pure state machine.
//!
//! The order is that of self-clocked fair queueing (S. J. Golestani, INFOCOM 1994): the tag of a
//! demand is its bytes in steps, after the tag of its share's previous one or after the clock,
//! whichever is later; the lowest tag is next. The clock is the tag of the last one that was
//! served, but no later than any that waits. So a user who wants little goes before the second
//! demand of one who wants much, and each demand is served in the end.
//!
//! Guarantees:
//! - no more is granted than is free;
//! - each part of the budget goes to the demand with the lowest tag of those that may have it, even
//!   if that has to wait until enough is free, so that small demands do not pass large ones for
//!   ever;
//! - what can be granted is granted.

use std::collections::{BTreeSet, HashMap};

/// What one reservation wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Steps of memory.
    pub(super) steps: usize,
    /// Whether it may be steps of the shared part.
    pub(super) of_shared: bool,
    /// Whether it may be steps for small reservations.
    pub(super) of_small: bool,
    /// Whether it may be the reserve instead.
    pub(super) reserve: bool,
}

/// What is free, or granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryParts {
    /// Steps of the shared part.
    pub(super) shared: usize,
    /// Steps for small reservations.
    pub(super) small: usize,
    /// The reserve: 1 or 0.
    pub(super) reserve: usize,
}

impl MemoryParts {
    const RESERVE: Self = Self {
        shared: 0,
        small: 0,
        reserve: 1,
    };

    /// Steps of the shared part.
    fn of_shared(shared: usize) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }

    /// Steps for small reservations.
    fn of_small(small: usize) -> Self {
        Self {
            small,
            ..Self::default()
        }
    }

    /// Adds others.
    pub(super) fn add(&mut self, more: Self) {
        self.shared += more.shared;
        self.small += more.small;
        self.reserve += more.reserve;
    }

    /// Removes so many steps, if there are as many, and returns them.
    pub(super) fn split(&mut self, steps: usize) -> Self {
        let shared = self.shared.min(steps);
        let small = self.small.min(steps - shared);
        self.shared -= shared;
        self.small -= small;
        Self {
            shared,
            small,
            reserve: 0,
        }
    }
}

/// Names a demand that waits.
pub(super) type DemandNumber = u64;

/// The tag of the last demand of a share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tag(u64);

/// The order of demands: those with equal tags in the order of arrival.
type DemandPlace = (u64, DemandNumber);

/// What is free, and the demands that wait.
#[derive(Debug)]
pub(super) struct MemoryQueue {
    free: MemoryParts,
    waiting: HashMap<DemandNumber, (DemandPlace, Demand)>,
    for_shared: BTreeSet<DemandPlace>,
    for_small: BTreeSet<DemandPlace>,
    for_reserve: BTreeSet<DemandPlace>,
    /// The tag of the last demand that was served.
    clock: u64,
    next_number: DemandNumber,
}

impl MemoryQueue {
    /// A queue for what is free.
    pub(super) fn new(free: MemoryParts) -> Self {
        Self {
            free,
            waiting: HashMap::new(),
            for_shared: BTreeSet::new(),
            for_small: BTreeSet::new(),
            for_reserve: BTreeSet::new(),
            clock: 0,
            next_number: 0,
        }
    }

    /// A demand of a share arrives. [`grant`](Self::grant) says what it gets, and when.
    pub(super) fn arrive(&mut self, last: &mut Tag, demand: Demand) -> DemandNumber {
        let number = self.next_number;
        self.next_number += 1;
        last.0 = last.0.max(self.clock).saturating_add(demand.steps as u64);
        let place = (last.0, number);
        for (queue, is_wanted) in [
            (&mut self.for_shared, demand.of_shared),
            (&mut self.for_small, demand.of_small),
            (&mut self.for_reserve, demand.reserve),
        ] {
            if is_wanted {
                queue.insert(place);
            }
        }
        self.waiting.insert(number, (place, demand));
        number
    }

    /// The next demand that gets something, and what. To be called until there is none.
    pub(super) fn grant(&mut self) -> Option<(DemandNumber, MemoryParts)> {
        let first = |queue: &BTreeSet<DemandPlace>| {
            let (_, number) = queue.first()?;
            let (_, demand) = self.waiting.get(number)?;
            Some((*number, demand.steps))
        };
        let (number, granted) = if let Some((number, steps)) = first(&self.for_shared)
            && steps <= self.free.shared
        {
            (number, MemoryParts::of_shared(steps))
        } else if let Some((number, steps)) = first(&self.for_small)
            && steps <= self.free.small
        {
            (number, MemoryParts::of_small(steps))
        } else if let Some((number, _)) = first(&self.for_reserve)
            && self.free.reserve > 0
        {
            (number, MemoryParts::RESERVE)
        } else {
            return None;
        };
        let ((tag, _), _) = self.remove(number)?;
        let waiting = [&self.for_shared, &self.for_small, &self.for_reserve];
        let lowest = waiting.iter().filter_map(|queue| queue.first()).min();
        let served = lowest.map_or(tag, |(lowest, _)| tag.min(*lowest));
        self.clock = self.clock.max(served);
        self.free.shared -= granted.shared;
        self.free.small -= granted.small;
        self.free.reserve -= granted.reserve;
        Some((number, granted))
    }

    /// Removes a demand that waits no longer, and what it counts for in the tag of its share.
    /// Returns whether it was waiting; others may get something then.
    pub(super) fn abandon(&mut self, last: &mut Tag, number: DemandNumber) -> bool {
        let Some((_, demand)) = self.remove(number) else {
            return false;
        };
        last.0 = last.0.saturating_sub(demand.steps as u64);
        true
    }

    /// Whether a demand waits for steps of the shared part.
    pub(super) fn waits_for_shared(&self) -> bool {
        !self.for_shared.is_empty()
    }

    /// Something is free again; others may get something then.
    pub(super) fn give_back(&mut self, parts: MemoryParts) {
        self.free.add(parts);
    }

    fn remove(&mut self, number: DemandNumber) -> Option<(DemandPlace, Demand)> {
        let (place, demand) = self.waiting.remove(&number)?;
        for queue in [
            &mut self.for_shared,
            &mut self.for_small,
            &mut self.for_reserve,
        ] {
            queue.remove(&place);
        }
        Some((place, demand))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARED: Demand = Demand {
        steps: 0,
        of_shared: true,
        of_small: false,
        reserve: false,
    };

    fn shared(steps: usize) -> Demand {
        Demand { steps, ..SHARED }
    }

    fn queue(shared: usize, small: usize, reserve: usize) -> MemoryQueue {
        MemoryQueue::new(MemoryParts {
            shared,
            small,
            reserve,
        })
    }

    fn granted(queue: &mut MemoryQueue) -> Vec<DemandNumber> {
        std::iter::from_fn(|| queue.grant().map(|(number, _)| number)).collect()
    }

    #[test]
    fn a_share_that_wants_little_goes_before_the_further_demands_of_others() {
        let mut queue = queue(10, 0, 0);
        let (mut greedy, mut quiet) = (Tag::default(), Tag::default());
        let all: Vec<_> = (0..5)
            .map(|_| queue.arrive(&mut greedy, shared(10)))
            .collect();
        let little = queue.arrive(&mut quiet, shared(1));
        let mut order = Vec::new();
        while let Some((number, parts)) = queue.grant() {
            order.push(number);
            queue.give_back(parts);
        }
        assert_eq!(order, [[little].as_slice(), &all].concat());
    }

    #[test]
    fn a_large_demand_is_not_passed_by_small_ones_for_ever() {
        let mut queue = queue(10, 0, 0);
        let mut shares = [Tag::default(); 32];
        let held = queue.arrive(&mut shares[0], shared(1));
        assert_eq!(granted(&mut queue), [held]);
        let large = queue.arrive(&mut shares[1], shared(10));
        let mut passed = 0;
        for share in &mut shares[2..] {
            queue.arrive(share, shared(1));
            let steps = granted(&mut queue).len();
            queue.give_back(MemoryParts::of_shared(steps));
            passed += steps;
        }
        assert_eq!(passed, 9, "those whose tags are lower");
        queue.give_back(MemoryParts::of_shared(1));
        assert_eq!(granted(&mut queue), [large]);
    }

    #[test]
    fn what_small_demands_get_does_not_delay_those_who_wait_for_the_shared_part() {
        let mut queue = queue(10, 10, 0);
        let (mut greedy, mut quiet) = (Tag::default(), Tag::default());
        for _ in 0..20 {
            queue.arrive(&mut greedy, shared(10));
        }
        assert_eq!(granted(&mut queue), [0]);
        let small = Demand {
            of_small: true,
            ..shared(1)
        };
        let little = queue.arrive(&mut greedy, small);
        assert_eq!(granted(&mut queue), [little]);
        let next = queue.arrive(&mut quiet, shared(5));
        for expected in [1, next] {
            queue.give_back(MemoryParts::of_shared(10));
            assert_eq!(granted(&mut queue), [expected]);
        }
    }

    #[test]
    fn who_gives_up_waiting_is_not_later_the_next_time() {
        let mut queue = queue(10, 0, 0);
        let (mut hasty, mut other) = (Tag::default(), Tag::default());
        assert_eq!(queue.arrive(&mut other, shared(10)), 0);
        assert_eq!(granted(&mut queue), [0]);
        for _ in 0..5 {
            let given_up = queue.arrive(&mut hasty, shared(8));
            assert!(queue.abandon(&mut hasty, given_up));
        }
        queue.arrive(&mut other, shared(9));
        let now = queue.arrive(&mut hasty, shared(8));
        queue.give_back(MemoryParts::of_shared(10));
        assert_eq!(granted(&mut queue), [now]);
    }

    #[test]
    fn what_may_have_several_parts_has_the_first_that_is_free() {
        let mut queue = queue(2, 1, 1);
        let mut share = Tag::default();
        let any = Demand {
            steps: 1,
            of_shared: true,
            of_small: true,
            reserve: true,
        };
        let large = Demand {
            steps: 2,
            of_small: false,
            ..any
        };
        queue.arrive(&mut share, any);
        queue.arrive(&mut share, large);
        queue.arrive(&mut share, any);
        queue.arrive(&mut share, any);
        let parts = std::iter::from_fn(|| queue.grant()).collect::<Vec<_>>();
        let of = |shared, small, reserve| MemoryParts {
            shared,
            small,
            reserve,
        };
        assert_eq!(
            parts,
            [
                (0, of(1, 0, 0)),
                (2, of(0, 1, 0)),
                (1, of(0, 0, 1)),
                (3, of(1, 0, 0))
            ],
            "the large one holds the shared part until it has the reserve"
        );
    }

    #[derive(Clone, Debug)]
    enum QueueStep {
        Arrive(usize, Demand),
        GiveBack(usize),
        Abandon(usize),
    }

    fn demand() -> impl Strategy<Value = Demand> {
        (1_usize..6, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(steps, of_shared, of_small, reserve)| Demand {
                steps,
                of_shared,
                of_small,
                // All want something.
                reserve: reserve || !of_shared && !of_small,
            },
        )
    }

    fn step() -> impl Strategy<Value = QueueStep> {
        prop_oneof![
            4 => (0_usize..4, demand()).prop_map(|(share, demand)| QueueStep::Arrive(share, demand)),
            3 => any::<usize>().prop_map(QueueStep::GiveBack),
            1 => any::<usize>().prop_map(QueueStep::Abandon),
        ]
    }

    proptest! {
        #[test]
        fn what_is_free_is_granted_and_nothing_is_lost(
            free in (5_usize..12, 5_usize..12),
            steps in prop::collection::vec(step(), 0..150),
        ) {
            let all = MemoryParts { shared: free.0, small: free.1, reserve: 1 };
            let mut queue = MemoryQueue::new(all);
            let mut shares = [Tag::default(); 4];
            let mut waiting: Vec<(DemandNumber, Demand)> = Vec::new();
            let mut held: Vec<MemoryParts> = Vec::new();
            for step in steps {
                match step {
                    QueueStep::Arrive(share, demand) => {
                        waiting.push((queue.arrive(&mut shares[share], demand), demand));
                    }
                    QueueStep::GiveBack(which) if !held.is_empty() => {
                        let parts = held.swap_remove(which % held.len());
                        queue.give_back(parts);
                    }
                    QueueStep::Abandon(which) if !waiting.is_empty() => {
                        let (number, _) = waiting.swap_remove(which % waiting.len());
                        prop_assert!(queue.abandon(&mut shares[0], number));
                        prop_assert!(!queue.abandon(&mut shares[0], number));
                    }
                    QueueStep::GiveBack(_) | QueueStep::Abandon(_) => {}
                }
                while let Some((number, parts)) = queue.grant() {
                    let position = waiting.iter().position(|(waiting, _)| *waiting == number).unwrap();
                    let (_, demand) = waiting.swap_remove(position);
                    let has = [
                        demand.of_shared && parts == MemoryParts::of_shared(demand.steps),
                        demand.of_small && parts == MemoryParts::of_small(demand.steps),
                        demand.reserve && parts == MemoryParts::RESERVE,
                    ];
                    prop_assert!(has.contains(&true), "{parts:?} for {demand:?}");
                    held.push(parts);
                }
                let sum = |of: fn(&MemoryParts) -> usize| held.iter().map(of).sum::<usize>();
                prop_assert_eq!(sum(|held| held.shared) + queue.free.shared, all.shared);
                prop_assert_eq!(sum(|held| held.small) + queue.free.small, all.small);
                prop_assert_eq!(sum(|held| held.reserve) + queue.free.reserve, all.reserve);
                prop_assert!(queue.free.reserve == 0 || waiting.iter().all(|(_, demand)| !demand.reserve));
                let first = |of: fn(&Demand) -> bool| {
                    let those = waiting.iter().filter(|(_, demand)| of(demand));
                    let first = those.min_by_key(|(number, _)| queue.waiting[number].0);
                    first.map(|(_, demand)| demand.steps)
                };
                let (of_shared, of_small) = (first(|demand| demand.of_shared), first(|demand| demand.of_small));
                prop_assert!(of_shared.is_none_or(|steps| steps > queue.free.shared), "the first one fits");
                prop_assert!(of_small.is_none_or(|steps| steps > queue.free.small), "the first one fits");
            }
            // Everything that waits gets something in the end.
            while !waiting.is_empty() {
                for parts in held.drain(..) {
                    queue.give_back(parts);
                }
                let before = waiting.len();
                while let Some((number, parts)) = queue.grant() {
                    waiting.retain(|(waiting, _)| *waiting != number);
                    held.push(parts);
                }
                prop_assert!(waiting.len() < before);
            }
            prop_assert!(queue.waiting.is_empty());
            let places = [queue.for_shared, queue.for_small, queue.for_reserve];
            prop_assert!(places.iter().all(BTreeSet::is_empty));
        }
    }
}
