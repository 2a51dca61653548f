//! Limits the open connections of a port and shares them among addresses. Pure.
//!
//! A connection is busy while it has a request of an authenticated caller whose response is being
//! read. It is idle otherwise: after half a request, between requests, without authentication, or
//! while the client does not read. New connections evict idle ones, so that a flood of idle
//! connections never blocks a probe.
//!
//! Guarantees for a port with a limit of `limit`:
//! - at most `limit` connections are open, and at most half of them (rounded up) from one address;
//! - a busy connection is never evicted;
//! - an address without a connection gets one while there is room, or evicts an idle connection
//!   of any other address.

use std::{cmp::Reverse, collections::HashMap, hash::Hash};

/// Counts the open connections of each address.
#[derive(Debug)]
pub struct ConnectionLimiter<A> {
    limit: usize,
    total: usize,
    by_address: HashMap<A, usize>,
}

/// The decision about a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<K> {
    /// There is room for it.
    Admitted,
    /// It takes the place of this idle connection.
    Evicts(K),
    /// There is no room for it.
    Refused,
}

impl<A: Hash + Eq + Clone> ConnectionLimiter<A> {
    /// Room for `limit` connections.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            total: 0,
            by_address: HashMap::new(),
        }
    }

    /// Decides about a new connection from `address`. `idle` yields the idle connections, their
    /// addresses and since when they are idle; it is read only when there is no room. The caller
    /// [releases](Self::release) an evicted connection at once.
    ///
    /// Evicts the connection that has been idle longest, of the address with the most
    /// connections.
    pub fn admit<K, T: Ord>(
        &mut self,
        address: &A,
        idle: impl Iterator<Item = (K, A, T)>,
    ) -> Admission<K> {
        let same = self.count(address);
        if same < self.limit.saturating_sub(self.total) {
            self.add(address);
            return Admission::Admitted;
        }
        let candidates = idle.filter(|(_, of, _)| self.count(of) > same || of == address);
        // The address with the most connections first, then the longest idle connection.
        let address_rank = |of: &A| (self.count(of), of == address);
        let victim =
            candidates.max_by(|(_, left, left_idle_since), (_, right, right_idle_since)| {
                (address_rank(left), Reverse(left_idle_since))
                    .cmp(&(address_rank(right), Reverse(right_idle_since)))
            });
        let Some((victim, _, _)) = victim else {
            return Admission::Refused;
        };
        self.add(address);
        Admission::Evicts(victim)
    }

    /// Forgets a connection from `address` that has ended.
    pub fn release(&mut self, address: &A) {
        let Some(count) = self.by_address.get_mut(address) else {
            return;
        };
        *count -= 1;
        self.total -= 1;
        if *count == 0 {
            self.by_address.remove(address);
        }
    }

    fn add(&mut self, address: &A) {
        *self.by_address.entry(address.clone()).or_default() += 1;
        self.total += 1;
    }

    fn count(&self, address: &A) -> usize {
        self.by_address.get(address).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An open connection: its number, its address, and whether it is busy.
    type Connection = (usize, u8, bool);

    /// The first connection has been idle longest.
    fn idle(open: &[Connection]) -> impl Iterator<Item = (usize, u8, usize)> {
        open.iter()
            .filter(|(_, _, is_busy)| !is_busy)
            .map(|(number, address, _)| (*number, *address, *number))
    }

    #[test]
    fn a_flood_from_one_address_evicts_its_own_connections_only() {
        let mut connections = ConnectionLimiter::new(8);
        let mut open: Vec<Connection> = Vec::new();
        for number in 0..100 {
            match connections.admit(&0, idle(&open)) {
                Admission::Admitted => {}
                Admission::Evicts(victim) => {
                    assert_eq!(
                        victim,
                        open.remove(0).0,
                        "the one that has been idle longest"
                    );
                    connections.release(&0);
                }
                Admission::Refused => panic!("an idle one of the same address has to go"),
            }
            open.push((number, 0, false));
        }
        assert_eq!(open.len(), 4);
        assert_eq!(connections.admit(&1, idle(&open)), Admission::Admitted);
    }

    #[test]
    fn idle_connections_of_many_addresses_do_not_block_a_new_address() {
        let mut connections = ConnectionLimiter::new(4);
        let open: Vec<Connection> = (0..4)
            .map(|number| (number, u8::try_from(number).unwrap(), false))
            .collect();
        for (_, address, _) in &open {
            assert_eq!(connections.admit(address, idle(&open)), Admission::Admitted);
        }
        assert_eq!(connections.admit(&9, idle(&open)), Admission::Evicts(0));
    }

    proptest! {
        #[test]
        fn connections_are_shared_after_any_sequence_of_events(limit in 1_usize..12, steps in prop::collection::vec((0_u8..6, any::<usize>(), 0_u8..8), 0..300)) {
            let mut connections = ConnectionLimiter::new(limit);
            let mut open: Vec<Connection> = Vec::new();
            for (number, (address, which, action)) in steps.into_iter().enumerate() {
                let chosen = if open.is_empty() { None } else { Some(which % open.len()) };
                match (action, chosen) {
                    (0, Some(at)) => connections.release(&open.remove(at).1),
                    (1 | 2, Some(at)) => open[at].2 = !open[at].2,
                    _ => {
                        let same = open.iter().filter(|open| open.1 == address).count();
                        let others_idle = open.iter().any(|(_, of, is_busy)| *of != address && !is_busy);
                        match connections.admit(&address, idle(&open)) {
                            Admission::Admitted => open.push((number, address, false)),
                            Admission::Evicts(victim) => {
                                let at = open.iter().position(|(known, _, _)| *known == victim).unwrap();
                                let (_, of, is_busy) = open.remove(at);
                                prop_assert!(!is_busy);
                                connections.release(&of);
                                open.push((number, address, false));
                            }
                            Admission::Refused => prop_assert!(same > 0 || (open.len() == limit && !others_idle)),
                        }
                    }
                }
                prop_assert!(open.len() <= limit);
                prop_assert_eq!(connections.total, open.len());
                for address in 0..6 {
                    let count = open.iter().filter(|open| open.1 == address).count();
                    prop_assert!(count <= limit.div_ceil(2), "one address has more than half");
                }
            }
        }
    }
}
