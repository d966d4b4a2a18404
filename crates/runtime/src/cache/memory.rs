//! The in-memory level: the most recently used entries, bounded in number.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::Entry;
use super::key::Key;

/// Least-recently-used entries. A use stamps the entry; the smallest stamp leaves first.
#[derive(Debug)]
pub(crate) struct Memory {
    capacity: usize,
    clock: u64,
    entries: HashMap<Key, (u64, Arc<Entry>)>,
}

impl Memory {
    pub(crate) fn new(capacity: usize) -> Self {
        Memory { capacity, clock: 0, entries: HashMap::new() }
    }

    pub(crate) fn get(&mut self, key: &Key) -> Option<Arc<Entry>> {
        self.clock += 1;
        let (stamp, entry) = self.entries.get_mut(key)?;
        *stamp = self.clock;
        Some(Arc::clone(entry))
    }

    /// Adds an entry and returns how many left to make room.
    pub(crate) fn put(&mut self, key: Key, entry: Arc<Entry>) -> u64 {
        self.clock += 1;
        self.entries.insert(key, (self.clock, entry));
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

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry::tests::entry;

    #[test]
    fn the_least_recently_used_leaves() {
        let key = |n: &str| entry(n).parts.key();
        let mut memory = Memory::new(2);
        assert_eq!(memory.put(key("a"), Arc::new(entry("a"))), 0);
        assert_eq!(memory.put(key("b"), Arc::new(entry("b"))), 0);
        assert!(memory.get(&key("a")).is_some());
        assert_eq!(memory.put(key("c"), Arc::new(entry("c"))), 1);
        assert!(memory.get(&key("b")).is_none());
        assert!(memory.get(&key("a")).is_some() && memory.get(&key("c")).is_some());
    }

    #[test]
    fn capacity_zero_keeps_nothing() {
        let mut memory = Memory::new(0);
        memory.put(entry("a").parts.key(), Arc::new(entry("a")));
        assert!(memory.get(&entry("a").parts.key()).is_none());
    }
}
