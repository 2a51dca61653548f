//! Which connections a port keeps: shared among addresses, and given to the living. A function of values.
//!
//! A connection is idle unless a request of a known caller is under way on it whose answer is taken: one that has sent half a request is, and so is one that is
//! kept alive for the next request, that is not authenticated, or that does not read. Idle connections make room: a flood of them cannot keep a probe
//! out, whoever sends it.
//!
//! Guarantees, for a port with room for `limit`:
//! - never more than `limit` are kept, and never more than half of them (rounded up) of one address;
//! - a connection that is busy is never ended for another one;
//! - an address that has none gets one while there is room, or an idle connection of any other address.

use std::{cmp::Reverse, collections::HashMap, hash::Hash};

/// Counts the connections of each address.
#[derive(Debug)]
pub struct Connections<A> {
    limit: usize,
    total: usize,
    by_address: HashMap<A, usize>,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<K> {
    /// There is room.
    Free,
    /// This one is ended for it.
    InsteadOf(K),
    /// There is no room.
    Refused,
}

impl<A: Hash + Eq + Clone> Connections<A> {
    /// Room for so many.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            total: 0,
            by_address: HashMap::new(),
        }
    }

    /// A connection from an address arrives. `idle` are the idle connections with their addresses and since when they are idle; they are only looked at
    /// when there is no room. The connection that is ended instead has to [leave](Self::leave) at once.
    ///
    /// It is one of the address that has the most connections, and of these the one that has been idle longest.
    pub fn arrive<K, T: Ord>(
        &mut self,
        address: &A,
        idle: impl Iterator<Item = (K, A, T)>,
    ) -> Admission<K> {
        let same = self.of(address);
        if same < self.limit.saturating_sub(self.total) {
            self.enter(address);
            return Admission::Free;
        }
        let candidates = idle.filter(|(_, of, _)| self.of(of) > same || of == address);
        let rank = |of: &A| (self.of(of), of == address);
        let victim = candidates.max_by(|(_, one, early), (_, other, late)| {
            (rank(one), Reverse(early)).cmp(&(rank(other), Reverse(late)))
        });
        let Some((victim, _, _)) = victim else {
            return Admission::Refused;
        };
        self.enter(address);
        Admission::InsteadOf(victim)
    }

    /// A connection from an address has ended.
    pub fn leave(&mut self, address: &A) {
        let Some(count) = self.by_address.get_mut(address) else {
            return;
        };
        *count -= 1;
        self.total -= 1;
        if *count == 0 {
            self.by_address.remove(address);
        }
    }

    fn enter(&mut self, address: &A) {
        *self.by_address.entry(address.clone()).or_default() += 1;
        self.total += 1;
    }

    fn of(&self, address: &A) -> usize {
        self.by_address.get(address).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One that is kept: its number, its address, and whether it is busy.
    type Kept = (usize, u8, bool);

    /// Whoever came first has been idle longest.
    fn idle(kept: &[Kept]) -> impl Iterator<Item = (usize, u8, usize)> {
        kept.iter()
            .filter(|(_, _, is_busy)| !is_busy)
            .map(|(number, address, _)| (*number, *address, *number))
    }

    #[test]
    fn a_flood_from_one_address_ends_its_own_connections_and_lets_others_in() {
        let mut connections = Connections::new(8);
        let mut kept: Vec<Kept> = Vec::new();
        for number in 0..100 {
            match connections.arrive(&0, idle(&kept)) {
                Admission::Free => {}
                Admission::InsteadOf(victim) => {
                    assert_eq!(
                        victim,
                        kept.remove(0).0,
                        "the one that has been idle longest"
                    );
                    connections.leave(&0);
                }
                Admission::Refused => panic!("an idle one of the same address has to go"),
            }
            kept.push((number, 0, false));
        }
        assert_eq!(kept.len(), 4);
        assert_eq!(connections.arrive(&1, idle(&kept)), Admission::Free);
    }

    #[test]
    fn many_addresses_with_idle_connections_do_not_keep_a_new_one_out() {
        let mut connections = Connections::new(4);
        let kept: Vec<Kept> = (0..4)
            .map(|number| (number, u8::try_from(number).unwrap(), false))
            .collect();
        for (_, address, _) in &kept {
            assert_eq!(connections.arrive(address, idle(&kept)), Admission::Free);
        }
        assert_eq!(connections.arrive(&9, idle(&kept)), Admission::InsteadOf(0));
    }

    proptest! {
        #[test]
        fn connections_are_shared_whatever_happens(limit in 1_usize..12, steps in prop::collection::vec((0_u8..6, any::<usize>(), 0_u8..8), 0..300)) {
            let mut connections = Connections::new(limit);
            let mut kept: Vec<Kept> = Vec::new();
            for (number, (address, which, action)) in steps.into_iter().enumerate() {
                let place = if kept.is_empty() { None } else { Some(which % kept.len()) };
                match (action, place) {
                    (0, Some(place)) => connections.leave(&kept.remove(place).1),
                    (1 | 2, Some(place)) => kept[place].2 = !kept[place].2,
                    _ => {
                        let same = kept.iter().filter(|kept| kept.1 == address).count();
                        let others_idle = kept.iter().any(|(_, of, is_busy)| *of != address && !is_busy);
                        match connections.arrive(&address, idle(&kept)) {
                            Admission::Free => kept.push((number, address, false)),
                            Admission::InsteadOf(victim) => {
                                let at = kept.iter().position(|(known, _, _)| *known == victim).unwrap();
                                let (_, of, is_busy) = kept.remove(at);
                                prop_assert!(!is_busy);
                                connections.leave(&of);
                                kept.push((number, address, false));
                            }
                            Admission::Refused => prop_assert!(same > 0 || (kept.len() == limit && !others_idle)),
                        }
                    }
                }
                prop_assert!(kept.len() <= limit);
                prop_assert_eq!(connections.total, kept.len());
                for address in 0..6 {
                    let count = kept.iter().filter(|kept| kept.1 == address).count();
                    prop_assert!(count <= limit.div_ceil(2), "one address has more than half");
                }
            }
        }
    }
}
