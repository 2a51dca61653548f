//! Caches whose values expire.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// A bounded cache of values with the same lifetime. When it is full, the oldest value is evicted.
#[derive(Debug)]
pub struct ExpiringCache<K, V> {
    lifetime: Duration,
    capacity: usize,
    values: HashMap<K, (Instant, V)>,
    /// Keys in the order of insertion; a renewed one is in it again, with its newer time.
    order: VecDeque<(Instant, K)>,
}

impl<K: Hash + Eq + Clone, V: Clone> ExpiringCache<K, V> {
    /// A cache of at most `capacity` values.
    pub fn new(lifetime: Duration, capacity: usize) -> Self {
        Self {
            lifetime,
            capacity,
            values: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// The value, unless it has expired.
    pub fn get(&self, key: &K) -> Option<V> {
        self.get_with_age(key).map(|(value, _)| value)
    }

    /// The value and how old it is, unless it has expired.
    fn get_with_age(&self, key: &K) -> Option<(V, Duration)> {
        let (at, value) = self.values.get(key)?;
        let age = at.elapsed();
        (age < self.lifetime).then(|| (value.clone(), age))
    }

    /// Inserts or renews a value.
    pub fn insert(&mut self, key: K, value: V) {
        let now = Instant::now();
        self.expire(now);
        while self.order.len() >= self.capacity {
            self.remove_oldest();
        }
        self.order.push_back((now, key.clone()));
        self.values.insert(key, (now, value));
    }

    fn expire(&mut self, now: Instant) {
        while self
            .order
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) >= self.lifetime)
        {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else {
            return;
        };
        let newest = self.values.get(&key);
        if newest.is_some_and(|(newest, _)| *newest == at) {
            self.values.remove(&key);
        }
    }
}

/// An [`ExpiringCache`] that several owners share. When it is full, the oldest value of the owner
/// with the most values is evicted.
#[derive(Debug)]
pub struct PerOwnerExpiringCache<O, K, V> {
    lifetime: Duration,
    capacity: usize,
    by_owner: HashMap<O, ExpiringCache<K, V>>,
}

impl<O: Hash + Eq, K: Hash + Eq + Clone, V: Clone> PerOwnerExpiringCache<O, K, V> {
    /// A cache of at most `capacity` values of all owners together.
    pub fn new(lifetime: Duration, capacity: usize) -> Self {
        Self {
            lifetime,
            capacity,
            by_owner: HashMap::new(),
        }
    }

    /// An owner's value and how old it is, unless it has expired.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, owner: &Q, key: &K) -> Option<(V, Duration)>
    where
        O: Borrow<Q>,
    {
        self.by_owner.get(owner)?.get_with_age(key)
    }

    /// Inserts or renews a value of an owner.
    pub fn insert(&mut self, owner: O, key: K, value: V) {
        if self.len() >= self.capacity {
            let now = Instant::now();
            self.by_owner.retain(|_, values| {
                values.expire(now);
                !values.order.is_empty()
            });
        }
        let (lifetime, capacity) = (self.lifetime, self.capacity);
        self.by_owner
            .entry(owner)
            .or_insert_with(|| ExpiringCache::new(lifetime, capacity))
            .insert(key, value);
        while self.len() > self.capacity {
            let caches = self.by_owner.values_mut();
            if let Some(most) = caches.max_by_key(|values| values.order.len()) {
                most.remove_oldest();
            }
        }
    }

    fn len(&self) -> usize {
        let caches = self.by_owner.values();
        caches.map(|values| values.order.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_expire_unless_they_are_renewed() {
        let mut known = ExpiringCache::new(Duration::from_secs(10), 8);
        known.insert("a", 1);
        known.insert("b", 1);
        tokio::time::advance(Duration::from_secs(9)).await;
        known.insert("a", 2);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((known.get(&"a"), known.get(&"b")), (Some(2), None));
        known.insert("c", 3);
        assert_eq!(
            (known.get(&"a"), known.values.len(), known.order.len()),
            (Some(2), 2, 2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_never_exceeds_its_capacity() {
        let mut known = ExpiringCache::new(Duration::from_secs(10), 4);
        for number in 0..100 {
            known.insert(number % 7, number);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(
            known.values.len() <= 4 && known.order.len() <= 4,
            "{known:?}"
        );
        assert_eq!(known.get(&(99 % 7)), Some(99));
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_with_many_values_evicts_only_its_own() {
        let mut known = PerOwnerExpiringCache::new(Duration::from_secs(10), 8);
        for number in 0..3 {
            known.insert("quiet", number, number);
        }
        for number in 0..100 {
            known.insert("noisy", number, number);
        }
        let young = |value| Some((value, Duration::ZERO));
        assert!((0..3).all(|number| known.get("quiet", &number) == young(number)));
        assert_eq!(
            (
                known.len(),
                known.get("noisy", &99),
                known.get("noisy", &94)
            ),
            (8, young(99), None)
        );
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(known.get("quiet", &1), Some((1, Duration::from_secs(9))));
        tokio::time::advance(Duration::from_secs(1)).await;
        known.insert("late", 0, 0);
        assert_eq!(
            (known.len(), known.by_owner.len()),
            (1, 1),
            "expired values take no room"
        );
    }
}
