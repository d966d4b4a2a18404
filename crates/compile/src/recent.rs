//! A bounded memory of the most recently used values.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, as many as the capacity. A use stamps a value; the smallest stamp leaves first.
#[derive(Debug)]
pub struct Recent<K, V> {
    capacity: usize,
    clock: u64,
    entries: HashMap<K, (u64, V)>,
}

impl<K: Copy + Eq + Hash, V: Clone> Recent<K, V> {
    /// None yet, of at most so many.
    pub fn new(capacity: usize) -> Self {
        Recent { capacity, clock: 0, entries: HashMap::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The value of a key, which is the most recent from now on.
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let (stamp, value) = self.entries.get_mut(key)?;
        *stamp = self.clock;
        Some(value.clone())
    }

    /// Keeps a value and answers how many left to make room.
    pub fn put(&mut self, key: K, value: V) -> u64 {
        if self.capacity == 0 {
            return 0;
        }
        self.clock += 1;
        self.entries.insert(key, (self.clock, value));
        let mut evicted = 0;
        while self.entries.len() > self.capacity {
            let Some(oldest) = self.entries.iter().min_by_key(|(_, (stamp, _))| *stamp).map(|(key, _)| *key) else {
                break;
            };
            self.entries.remove(&oldest);
            evicted += 1;
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_leaves() {
        let mut recent = Recent::new(2);
        assert_eq!((recent.put("a", 1), recent.put("b", 2)), (0, 0));
        assert_eq!(recent.get(&"a"), Some(1));
        assert_eq!(recent.put("c", 3), 1);
        assert_eq!((recent.get(&"a"), recent.get(&"b"), recent.get(&"c")), (Some(1), None, Some(3)));
    }

    #[test]
    fn capacity_zero_keeps_nothing() {
        let mut recent = Recent::new(0);
        assert_eq!(recent.put("a", 1), 0);
        assert_eq!((recent.get(&"a"), recent.len()), (None, 0));
    }
}
