//! Answers that are remembered for a short time.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// Values that live equally long, so that the oldest is always the next to go. Bounded: beyond the bound the oldest goes early.
#[derive(Debug)]
pub struct Expiring<K, V> {
    lifetime: Duration,
    capacity: usize,
    values: HashMap<K, (Instant, V)>,
    /// Keys in the order of their times; one that was renewed is in it again, with its newer time.
    order: VecDeque<(Instant, K)>,
}

impl<K: Hash + Eq + Clone, V: Clone> Expiring<K, V> {
    /// Room for `capacity` values.
    pub fn new(lifetime: Duration, capacity: usize) -> Self {
        Self { lifetime, capacity, values: HashMap::new(), order: VecDeque::new() }
    }

    /// The value, if it is not too old.
    pub fn get(&self, key: &K) -> Option<V> {
        let (at, value) = self.values.get(key)?;
        (at.elapsed() < self.lifetime).then(|| value.clone())
    }

    /// Remembers a value from now on.
    pub fn insert(&mut self, key: K, value: V) {
        let now = Instant::now();
        while let Some((at, _)) = self.order.front() {
            let is_over = now.duration_since(*at) >= self.lifetime || self.order.len() >= self.capacity;
            if !is_over {
                break;
            }
            self.remove_oldest();
        }
        self.order.push_back((now, key.clone()));
        self.values.insert(key, (now, value));
    }

    fn remove_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else { return };
        if self.values.get(&key).is_some_and(|(newest, _)| *newest == at) {
            self.values.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_too_old_is_forgotten_and_what_was_renewed_is_not() {
        let mut known = Expiring::new(Duration::from_secs(10), 8);
        known.insert("a", 1);
        known.insert("b", 1);
        tokio::time::advance(Duration::from_secs(9)).await;
        known.insert("a", 2);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((known.get(&"a"), known.get(&"b")), (Some(2), None));
        known.insert("c", 3);
        assert_eq!((known.get(&"a"), known.values.len(), known.order.len()), (Some(2), 2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_kept_than_there_is_room_for() {
        let mut known = Expiring::new(Duration::from_secs(10), 4);
        for number in 0..100 {
            known.insert(number % 7, number);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(known.values.len() <= 4 && known.order.len() <= 4, "{known:?}");
        assert_eq!(known.get(&(99 % 7)), Some(99));
    }
}
