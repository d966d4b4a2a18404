//! Counters of a cache: kept in memory by a process, added up on disk across processes.

use serde::{Deserialize, Serialize};

/// How a cache has been used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Answers found.
    pub hits: u64,
    /// Answers not found.
    pub misses: u64,
    /// Entries dropped to stay within a bound.
    pub evictions: u64,
    /// Entries that could not be read and were treated as misses.
    pub unreadable: u64,
    /// Compile seconds that hits saved.
    pub seconds_saved: f64,
}

impl Stats {
    /// Hits among all look-ups, from 0 to 1; 0 when there were none.
    pub fn hit_rate(&self) -> f64 {
        let lookups = self.hits + self.misses;
        if lookups == 0 { 0.0 } else { self.hits as f64 / lookups as f64 }
    }

    pub(crate) fn add(&mut self, other: &Stats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.evictions += other.evictions;
        self.unreadable += other.unreadable;
        self.seconds_saved += other.seconds_saved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_rate_of_an_unused_cache_is_zero() {
        assert_eq!(Stats::default().hit_rate(), 0.0);
        assert_eq!(Stats { hits: 3, misses: 1, ..Stats::default() }.hit_rate(), 0.75);
    }
}
