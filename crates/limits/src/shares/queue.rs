//! Who gets a place next: a fair queue over flows, as a function of values. A flow is a user, or an address.
//!
//! The model is the fair queueing of Kubernetes' API priority and fairness
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>), without its shuffle sharding: there are few flows at a time, so that
//! each has a queue of its own.
//!
//! One rule bounds both places and queues: a flow gets one more while it has fewer than are free. One flow alone takes half of them, two greedy ones
//! leave a quarter, and a flow that has none gets the next free one. No share has to be configured, and none depends on how many flows there are.
//!
//! Guarantees:
//! - never more places are taken than there are;
//! - of the flows that wait, the one with the fewest places gets the next one; among equals, the one that has waited longest;
//! - no flow waits while the rule gives it a place.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use fleetdex_core::planted::{Bug, planted};

/// Places, who has them, and who waits for them.
#[derive(Debug)]
pub struct FairQueue<F> {
    places: usize,
    /// How many may wait.
    room: usize,
    taken: usize,
    waiting: usize,
    flows: HashMap<F, Flow>,
    next_ticket: Ticket,
}

/// Names one that waits. Later ones are larger.
pub type Ticket = u64;

/// What a flow has, and which of its requests wait, in the order of their arrival. A flow with neither is not kept.
#[derive(Debug, Default)]
struct Flow {
    held: usize,
    waiting: VecDeque<Ticket>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has a place.
    Admitted,
    /// It waits.
    Queued(Ticket),
    /// There is no place, and the queue of its flow is full.
    Refused,
}

impl<F: Hash + Eq + Clone> FairQueue<F> {
    /// So many places, and room for so many that wait.
    pub fn new(places: usize, room: usize) -> Self {
        Self {
            places,
            room,
            taken: 0,
            waiting: 0,
            flows: HashMap::new(),
            next_ticket: 0,
        }
    }

    /// A request of a flow arrives.
    pub fn arrive(&mut self, flow: &F) -> Arrival {
        let (held, queued) = self
            .flows
            .get(flow)
            .map_or((0, 0), |known| (known.held, known.waiting.len()));
        // Those of the flow that wait already come first.
        if queued == 0 && (held < self.free() || planted(Bug::TakeAllPlaces) && self.free() > 0) {
            self.flows.entry(flow.clone()).or_default().held += 1;
            self.taken += 1;
            return Arrival::Admitted;
        }
        if queued >= self.room - self.waiting {
            return Arrival::Refused;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.flows
            .entry(flow.clone())
            .or_default()
            .waiting
            .push_back(ticket);
        self.waiting += 1;
        Arrival::Queued(ticket)
    }

    /// A request of a flow gives its place back; those that get one now, in order.
    pub fn leave(&mut self, flow: &F) -> Vec<Ticket> {
        if let Some(known) = self.flows.get_mut(flow).filter(|known| known.held > 0) {
            known.held -= 1;
            self.taken -= 1;
        }
        self.forget_if_empty(flow);
        let mut admitted = Vec::new();
        while let Some(ticket) = self.admit_next() {
            admitted.push(ticket);
        }
        admitted
    }

    /// A request of a flow waits no longer; whether it did.
    pub fn abandon(&mut self, flow: &F, ticket: Ticket) -> bool {
        let position = self
            .flows
            .get(flow)
            .and_then(|known| known.waiting.binary_search(&ticket).ok());
        let Some((known, position)) = self.flows.get_mut(flow).zip(position) else {
            return false;
        };
        known.waiting.remove(position);
        self.waiting -= 1;
        self.forget_if_empty(flow);
        true
    }

    fn free(&self) -> usize {
        self.places - self.taken
    }

    fn admit_next(&mut self) -> Option<Ticket> {
        let free = self.free();
        let waiting = self
            .flows
            .values_mut()
            .filter_map(|flow| Some((flow.held, *flow.waiting.front()?, flow)));
        let (held, ticket, flow) = waiting.min_by_key(|(held, ticket, _)| (*held, *ticket))?;
        if held >= free {
            return None;
        }
        flow.waiting.pop_front();
        flow.held += 1;
        self.taken += 1;
        self.waiting -= 1;
        Some(ticket)
    }

    fn forget_if_empty(&mut self, flow: &F) {
        if self
            .flows
            .get(flow)
            .is_some_and(|known| known.held == 0 && known.waiting.is_empty())
        {
            self.flows.remove(flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn one_place_is_for_whoever_comes_first() {
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
    fn a_flow_with_little_goes_before_a_flow_with_a_long_queue() {
        let mut queue = FairQueue::new(4, 100);
        assert_eq!(admitted(&mut queue, "noisy", 40), 2);
        assert_eq!(admitted(&mut queue, "other", 2), 1);
        assert_eq!(admitted(&mut queue, "third", 1), 1);
        let Arrival::Queued(quiet) = queue.arrive(&"quiet") else {
            panic!("there is no place")
        };
        assert_eq!(
            queue.leave(&"noisy"),
            [quiet],
            "though others have waited longer"
        );
    }

    /// What a flow does. The numbers choose among what there is.
    #[derive(Clone, Debug)]
    enum Step {
        Arrive(u16),
        Leave(usize),
        Abandon(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u16..6).prop_map(Step::Arrive),
            3 => any::<usize>().prop_map(Step::Leave),
            1 => any::<usize>().prop_map(Step::Abandon),
        ]
    }

    /// The same with lists: who has places, and who waits in order of arrival.
    #[derive(Default)]
    struct Model {
        places: usize,
        held: Vec<u16>,
        waiting: BTreeMap<Ticket, u16>,
    }

    impl Model {
        fn held_by(&self, flow: u16) -> usize {
            self.held.iter().filter(|held| **held == flow).count()
        }

        fn is_admissible(&self, flow: u16) -> bool {
            self.held_by(flow) < self.places - self.held.len()
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
        fn places_are_shared_fairly_whatever_happens(places in 1_usize..12, room in 0_usize..12, steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = FairQueue::new(places, room);
            let mut model = Model { places, ..Model::default() };
            for step in steps {
                match step {
                    Step::Arrive(flow) => {
                        let (queued, has_room) = (model.queued_by(flow), model.queued_by(flow) < room - model.waiting.len());
                        match queue.arrive(&flow) {
                            Arrival::Admitted => {
                                prop_assert!(queued == 0 && model.is_admissible(flow));
                                model.held.push(flow);
                            }
                            Arrival::Queued(ticket) => {
                                prop_assert!(has_room && (queued > 0 || !model.is_admissible(flow)));
                                model.waiting.insert(ticket, flow);
                            }
                            Arrival::Refused => prop_assert!(!has_room && (queued > 0 || !model.is_admissible(flow))),
                        }
                    }
                    Step::Leave(which) if !model.held.is_empty() => {
                        let flow = model.held.swap_remove(which % model.held.len());
                        for ticket in queue.leave(&flow) {
                            let flow = model.waiting[&ticket];
                            let fewest = model.waiting.values().map(|waiting| model.held_by(*waiting)).min();
                            prop_assert_eq!(fewest, Some(model.held_by(flow)), "another flow has less");
                            let first = model.waiting.iter().find(|(_, waiting)| Some(model.held_by(**waiting)) == fewest);
                            prop_assert_eq!(first.map(|(first, _)| *first), Some(ticket), "another one has waited longer");
                            prop_assert!(model.is_admissible(flow));
                            model.waiting.remove(&ticket);
                            model.held.push(flow);
                        }
                    }
                    Step::Abandon(which) if !model.waiting.is_empty() => {
                        let ticket = *model.waiting.keys().nth(which % model.waiting.len()).unwrap();
                        let flow = model.waiting.remove(&ticket).unwrap();
                        prop_assert!(queue.abandon(&flow, ticket));
                        prop_assert!(!queue.abandon(&flow, ticket));
                    }
                    Step::Leave(_) | Step::Abandon(_) => {}
                }
                prop_assert!(model.held.len() <= places);
                prop_assert_eq!(queue.taken, model.held.len());
                prop_assert_eq!(queue.waiting, model.waiting.len());
                for flow in 0..6 {
                    prop_assert!(model.held_by(flow) <= places.div_ceil(2), "one flow has more than half");
                    prop_assert!(model.queued_by(flow) == 0 || !model.is_admissible(flow), "a flow waits for nothing");
                }
            }
            for flow in std::mem::take(&mut model.held) {
                for ticket in queue.leave(&flow) {
                    model.held.push(model.waiting.remove(&ticket).unwrap());
                }
            }
            while let Some(flow) = model.held.pop() {
                for ticket in queue.leave(&flow) {
                    model.held.push(model.waiting.remove(&ticket).unwrap());
                }
            }
            prop_assert!(model.waiting.is_empty() && queue.flows.is_empty(), "all are served in the end, and nothing is kept");
        }
    }
}
