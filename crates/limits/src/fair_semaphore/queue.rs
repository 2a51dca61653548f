//! Which request gets the next permit: a fair queue over flows, as a pure state machine. A flow is
//! a user, or an address.
//!
//! The model is the fair queueing of Kubernetes' API priority and fairness
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>), without its
//! shuffle sharding: there are few flows at a time, so each has its own queue.
//!
//! One rule bounds both permits and queues: a flow gets one more while it has fewer than are free.
//! One flow alone takes half of them, two greedy flows leave a quarter, and a flow that has none
//! gets the next free one. No share has to be configured, and none depends on the number of flows.
//!
//! With more flows than permits, most of those that wait have none. In the order of arrival, each
//! would wait for everything that flows with long queues asked for before it. Instead there are
//! rounds, in each of which a flow has a turn of up to [`TURN`] requests. Flows with short queues
//! come first in their round. A flow that begins to wait, and has not begun its turn, belongs to
//! the next round, so that a round ends however many flows arrive.
//!
//! Guarantees:
//! - the permits taken never exceed those that exist;
//! - of the flows that wait, the one with the fewest permits gets the next one; equals take turns;
//! - no flow waits while the rule gives it a permit;
//! - a full queue refuses no flow that has fewer requests in it than another one: the last request
//!   of the flow with the most gives way.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use fleetdex_core::planted::{Bug, planted};

/// Requests of a flow in one turn: about what a list asks of an API server one after the other.
const TURN: u64 = 4;

/// The permits, the flows that hold them, and the requests that wait for them.
#[derive(Debug)]
pub struct FairQueue<F> {
    permits: usize,
    /// How many requests may wait.
    queue_length: usize,
    taken: usize,
    waiting: usize,
    flows: HashMap<F, Flow>,
    next_number: RequestNumber,
    round: u64,
}

/// Names a request that waits. Numbers grow in the order of arrival.
pub type RequestNumber = u64;

/// The permits of a flow, and its requests that wait, in the order of arrival. A flow that has
/// neither is kept while its turn in the round counts.
#[derive(Debug, Default)]
struct Flow {
    held: usize,
    waiting: VecDeque<RequestNumber>,
    /// Requests that waited and were admitted, [`TURN`] of them in each round.
    served: u64,
}

impl Flow {
    /// The round of its next request.
    fn round(&self) -> u64 {
        self.served / TURN
    }

    fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }
}

/// What happens to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has a permit.
    Admitted,
    /// It waits.
    Queued(RequestNumber),
    /// It waits instead of another request, which is refused.
    QueuedInsteadOf {
        /// This one.
        number: RequestNumber,
        /// The other one.
        displaced: RequestNumber,
    },
    /// There is no permit, and the queue of its flow is full.
    Refused,
}

impl<F: Hash + Eq + Clone> FairQueue<F> {
    /// A queue for `permits` permits, in which `queue_length` requests may wait.
    pub fn new(permits: usize, queue_length: usize) -> Self {
        Self {
            permits,
            queue_length,
            taken: 0,
            waiting: 0,
            flows: HashMap::new(),
            next_number: 0,
            round: 0,
        }
    }

    /// A request of a flow arrives.
    pub fn arrive(&mut self, flow: &F) -> Arrival {
        let (held, queued) = self
            .flows
            .get(flow)
            .map_or((0, 0), |known| (known.held, known.waiting.len()));
        // Requests of the flow that wait already come first.
        if queued == 0 && (held < self.free() || planted(Bug::TakeAllPlaces) && self.free() > 0) {
            self.flows.entry(flow.clone()).or_default().held += 1;
            self.taken += 1;
            return Arrival::Admitted;
        }
        let mut displaced = None;
        if queued >= self.queue_length - self.waiting {
            displaced = self.displace(queued + 2);
            if displaced.is_none() {
                return Arrival::Refused;
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        let flow = self.flows.entry(flow.clone()).or_default();
        let has_begun_its_turn = flow.served > self.round * TURN;
        if flow.waiting.is_empty() && !has_begun_its_turn {
            flow.served = (self.round + 1) * TURN;
        }
        flow.waiting.push_back(number);
        self.waiting += 1;
        match displaced {
            None => Arrival::Queued(number),
            Some(displaced) => Arrival::QueuedInsteadOf { number, displaced },
        }
    }

    /// Removes the last request of the flow with the most requests that wait, if it has `least`.
    fn displace(&mut self, least: usize) -> Option<RequestNumber> {
        let flows = self.flows.values_mut();
        let most = flows.max_by_key(|flow| (flow.waiting.len(), flow.waiting.back().copied()))?;
        if most.waiting.len() < least {
            return None;
        }
        let number = most.waiting.pop_back();
        self.waiting -= usize::from(number.is_some());
        number
    }

    /// A request of a flow returns its permit. Returns the requests that get one now, in order.
    pub fn leave(&mut self, flow: &F) -> Vec<RequestNumber> {
        if let Some(known) = self.flows.get_mut(flow).filter(|known| known.held > 0) {
            known.held -= 1;
            self.taken -= 1;
        }
        self.remove_if_empty(flow);
        let mut admitted = Vec::new();
        while let Some(number) = self.admit_next() {
            admitted.push(number);
        }
        admitted
    }

    /// Removes a request of a flow from the queue. Returns whether it was waiting.
    pub fn abandon(&mut self, flow: &F, number: RequestNumber) -> bool {
        let position = self
            .flows
            .get(flow)
            .and_then(|known| known.waiting.binary_search(&number).ok());
        let Some((known, position)) = self.flows.get_mut(flow).zip(position) else {
            return false;
        };
        known.waiting.remove(position);
        self.waiting -= 1;
        self.remove_if_empty(flow);
        self.end_rounds_if_none_waits();
        true
    }

    fn free(&self) -> usize {
        self.permits - self.taken
    }

    fn admit_next(&mut self) -> Option<RequestNumber> {
        let free = self.free();
        let waiting = self
            .flows
            .values_mut()
            .filter_map(|flow| Some((*flow.waiting.front()?, flow)));
        let (number, flow) = waiting
            .min_by_key(|(number, flow)| (flow.held, flow.round(), flow.waiting.len(), *number))?;
        if flow.held >= free {
            return None;
        }
        flow.waiting.pop_front();
        flow.held += 1;
        // Rounds that it missed while it had more permits than others are not made up for.
        flow.served = flow.served.max(self.round * TURN);
        let round = flow.round();
        flow.served += 1;
        self.taken += 1;
        self.waiting -= 1;
        if round > self.round {
            self.round = round;
            self.flows
                .retain(|_, flow| !flow.is_empty() || flow.served > round * TURN);
        }
        self.end_rounds_if_none_waits();
        Some(number)
    }

    fn remove_if_empty(&mut self, flow: &F) {
        let begun = self.round * TURN;
        if self
            .flows
            .get(flow)
            .is_some_and(|known| known.is_empty() && known.served <= begun)
        {
            self.flows.remove(flow);
        }
    }

    /// Turns count while others wait for theirs.
    fn end_rounds_if_none_waits(&mut self) {
        if self.waiting > 0 {
            return;
        }
        self.round = 0;
        self.flows.retain(|_, flow| {
            flow.served = 0;
            !flow.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn admitted(queue: &mut FairQueue<&'static str>, flow: &'static str, count: usize) -> usize {
        (0..count)
            .filter(|_| queue.arrive(&flow) == Arrival::Admitted)
            .count()
    }

    #[test]
    fn one_flow_takes_half_and_each_further_one_half_of_the_rest() {
        let mut queue = FairQueue::new(200, 0);
        let taken = ["a", "b", "c", "d", "e"].map(|flow| admitted(&mut queue, flow, 1_000));
        assert_eq!(taken, [100, 50, 25, 13, 6]);
        assert_eq!(admitted(&mut queue, "quiet", 1), 1);
    }

    #[test]
    fn one_permit_goes_to_the_first_request() {
        let mut queue = FairQueue::new(1, 1);
        assert_eq!(queue.arrive(&"a"), Arrival::Admitted);
        assert_eq!(
            [queue.arrive(&"b"), queue.arrive(&"c")],
            [Arrival::Queued(0), Arrival::Refused]
        );
        assert_eq!(queue.leave(&"a"), [0]);
        assert_eq!(queue.leave(&"b"), [0; 0]);
        assert!(queue.flows.is_empty());
    }

    #[test]
    fn a_flow_with_few_permits_goes_before_a_flow_with_a_long_queue() {
        let mut queue = FairQueue::new(4, 100);
        assert_eq!(admitted(&mut queue, "noisy", 40), 2);
        assert_eq!(admitted(&mut queue, "other", 2), 1);
        assert_eq!(admitted(&mut queue, "third", 1), 1);
        let Arrival::Queued(quiet) = queue.arrive(&"quiet") else {
            panic!("there is no permit")
        };
        assert_eq!(
            queue.leave(&"noisy"),
            [quiet],
            "though others have waited longer"
        );
    }

    #[test]
    fn among_more_flows_than_permits_long_queues_do_not_delay_short_ones() {
        let mut queue = FairQueue::new(1, 1_000);
        assert_eq!(queue.arrive(&"first"), Arrival::Admitted);
        for _ in 0..100 {
            for flow in ["a", "b"] {
                assert!(matches!(queue.arrive(&flow), Arrival::Queued(_)));
            }
        }
        let mut flow = "first";
        let turn = usize::try_from(TURN).unwrap();
        let mut served = Vec::new();
        // One request after the other.
        let mut quiet = None;
        while served.len() < 10 * turn {
            if quiet.is_none() {
                let Arrival::Queued(number) = queue.arrive(&"quiet") else {
                    panic!("there is no permit")
                };
                quiet = Some(number);
            }
            let [number] = queue.leave(&flow)[..] else {
                panic!("all wait")
            };
            if quiet == Some(number) {
                flow = "quiet";
                quiet = None;
            } else {
                flow = if number % 2 == 0 { "a" } else { "b" };
            }
            served.push(flow);
        }
        // In each round it has its turn before the others.
        let quiet = ["quiet"].repeat(turn);
        assert_eq!(served[..turn], quiet, "{served:?}");
        assert_eq!(served[3 * turn..4 * turn], quiet, "{served:?}");
        let of = |flow| served.iter().filter(|served| **served == flow).count();
        assert!(of("a") >= 3 * turn && of("b") >= 3 * turn, "{served:?}");
    }

    #[test]
    fn a_flow_with_two_requests_does_not_wait_for_all_flows_that_come_after_it() {
        let mut queue = FairQueue::new(1, 1_000);
        assert_eq!(queue.arrive(&0), Arrival::Admitted);
        let office = u32::MAX;
        let numbers = [queue.arrive(&office), queue.arrive(&office)];
        let mut flows: HashMap<RequestNumber, u32> = numbers
            .iter()
            .map(|arrival| match arrival {
                Arrival::Queued(number) => (*number, office),
                _ => panic!("there is no permit"),
            })
            .collect();
        let (mut flow, mut served) = (0, 0);
        for other in 1..100 {
            let Arrival::Queued(number) = queue.arrive(&other) else {
                panic!("there is no permit")
            };
            flows.insert(number, other);
            let [number] = queue.leave(&flow)[..] else {
                panic!("all wait")
            };
            flow = flows[&number];
            served += usize::from(flow == office);
            // Those that wait, the one with the permit, and those whose turns count in two rounds.
            assert!(queue.flows.len() <= 8, "{}", queue.flows.len());
        }
        assert_eq!(served, 2);
    }

    /// What a flow does. The numbers choose among the requests that exist.
    #[derive(Clone, Debug)]
    enum QueueStep {
        Arrive(u16),
        Leave(usize),
        Abandon(usize),
    }

    fn step() -> impl Strategy<Value = QueueStep> {
        prop_oneof![
            4 => (0_u16..6).prop_map(QueueStep::Arrive),
            3 => any::<usize>().prop_map(QueueStep::Leave),
            1 => any::<usize>().prop_map(QueueStep::Abandon),
        ]
    }

    /// The same queue as plain lists: the flows that hold permits, and those that wait, in the
    /// order of arrival.
    #[derive(Default)]
    struct QueueModel {
        permits: usize,
        held: Vec<u16>,
        waiting: BTreeMap<RequestNumber, u16>,
        /// How often the second flow got a permit while the first waited, and both had as many.
        passed: BTreeMap<(u16, u16), u64>,
    }

    impl QueueModel {
        fn held_by(&self, flow: u16) -> usize {
            self.held.iter().filter(|held| **held == flow).count()
        }

        fn is_admissible(&self, flow: u16) -> bool {
            self.held_by(flow) < self.permits - self.held.len()
        }

        fn queued_by(&self, flow: u16) -> usize {
            self.waiting
                .values()
                .filter(|waiting| **waiting == flow)
                .count()
        }
    }

    proptest! {
        #[test]
        fn permits_are_shared_fairly_after_any_steps(
            permits in 1_usize..12,
            queue_length in 0_usize..12,
            steps in prop::collection::vec(step(), 0..400),
        ) {
            let mut queue = FairQueue::new(permits, queue_length);
            let mut model = QueueModel { permits, ..QueueModel::default() };
            for step in steps {
                match step {
                    QueueStep::Arrive(flow) => {
                        let (queued, may_wait) = (model.queued_by(flow), model.queued_by(flow) < queue_length - model.waiting.len());
                        let most = (0..6).map(|flow| model.queued_by(flow)).max().unwrap();
                        match queue.arrive(&flow) {
                            Arrival::QueuedInsteadOf { number, displaced } => {
                                prop_assert!(!may_wait && (queued > 0 || !model.is_admissible(flow)));
                                let of = model.waiting.remove(&displaced).unwrap();
                                model.passed.retain(|(waiting, _), _| *waiting != of);
                                prop_assert_eq!(model.queued_by(of) + 1, most, "another flow has more");
                                prop_assert!(queued + 1 < most);
                                prop_assert!(model.waiting.iter().all(|(number, waiting)| *waiting != of || *number < displaced), "a later one of the flow stays");
                                model.waiting.insert(number, flow);
                            }
                            Arrival::Admitted => {
                                prop_assert!(queued == 0 && model.is_admissible(flow));
                                model.held.push(flow);
                            }
                            Arrival::Queued(number) => {
                                prop_assert!(may_wait && (queued > 0 || !model.is_admissible(flow)));
                                model.waiting.insert(number, flow);
                            }
                            Arrival::Refused => prop_assert!(!may_wait && queued + 1 >= most && (queued > 0 || !model.is_admissible(flow))),
                        }
                    }
                    QueueStep::Leave(which) if !model.held.is_empty() => {
                        let flow = model.held.swap_remove(which % model.held.len());
                        for number in queue.leave(&flow) {
                            let flow = model.waiting[&number];
                            let fewest = model.waiting.values().map(|waiting| model.held_by(*waiting)).min();
                            prop_assert_eq!(fewest, Some(model.held_by(flow)), "another flow has less");
                            prop_assert!(model.is_admissible(flow));
                            let first = model.waiting.iter().find(|(_, waiting)| **waiting == flow);
                            let first = first.map(|(first, _)| *first);
                            prop_assert_eq!(first, Some(number), "another one of the flow has waited longer");
                            let others = model.waiting.values().copied().filter(|waiting| *waiting != flow);
                            let equals: BTreeSet<u16> =
                                others.filter(|waiting| Some(model.held_by(*waiting)) == fewest).collect();
                            for equal in equals {
                                let passed = model.passed.entry((equal, flow)).or_default();
                                *passed += 1;
                                // The rest of a turn, one more, and one that it had missed.
                                prop_assert!(*passed <= 2 * TURN + 1, "{} times", passed);
                            }
                            model.passed.retain(|(waiting, _), _| *waiting != flow);
                            model.waiting.remove(&number);
                            model.held.push(flow);
                        }
                    }
                    QueueStep::Abandon(which) if !model.waiting.is_empty() => {
                        let number = *model.waiting.keys().nth(which % model.waiting.len()).unwrap();
                        let flow = model.waiting.remove(&number).unwrap();
                        model.passed.retain(|(waiting, _), _| *waiting != flow);
                        prop_assert!(queue.abandon(&flow, number));
                        prop_assert!(!queue.abandon(&flow, number));
                    }
                    QueueStep::Leave(_) | QueueStep::Abandon(_) => {}
                }
                prop_assert!(model.held.len() <= permits);
                prop_assert_eq!(queue.taken, model.held.len());
                prop_assert_eq!(queue.waiting, model.waiting.len());
                for flow in 0..6 {
                    prop_assert!(model.held_by(flow) <= permits.div_ceil(2), "one flow has more than half");
                    prop_assert!(model.queued_by(flow) == 0 || !model.is_admissible(flow), "a flow waits although it could be admitted");
                }
            }
            for flow in std::mem::take(&mut model.held) {
                for number in queue.leave(&flow) {
                    model.held.push(model.waiting.remove(&number).unwrap());
                }
            }
            while let Some(flow) = model.held.pop() {
                for number in queue.leave(&flow) {
                    model.held.push(model.waiting.remove(&number).unwrap());
                }
            }
            prop_assert!(model.waiting.is_empty() && queue.flows.is_empty(), "all requests are admitted in the end, and no flow is left");
        }
    }
}
