//! What was allocated and freed, for as long as the configuration keeps it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Events that are kept at most, whatever their age.
const MAX_EVENTS: usize = 1 << 16;

/// Something that happened to memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEvent {
    /// Seconds since the books were opened.
    pub seconds: f64,
    /// Who.
    pub owner: Arc<str>,
    /// Bytes taken, or given back if negative.
    pub bytes: i64,
    /// Bytes in use afterwards.
    pub used_bytes: u64,
}

/// Events, oldest first.
#[derive(Debug)]
pub(super) struct History {
    opened: Instant,
    retention: Duration,
    events: Mutex<VecDeque<MemoryEvent>>,
}

impl History {
    pub(super) fn new(retention: Duration) -> History {
        History { opened: Instant::now(), retention, events: Mutex::default() }
    }

    pub(super) fn add(&self, owner: &Arc<str>, bytes: i64, used_bytes: u64) {
        let seconds = self.opened.elapsed().as_secs_f64();
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_old(&mut events, seconds);
        events.push_back(MemoryEvent { seconds, owner: Arc::clone(owner), bytes, used_bytes });
    }

    pub(super) fn read(&self) -> Vec<MemoryEvent> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_old(&mut events, self.opened.elapsed().as_secs_f64());
        events.iter().cloned().collect()
    }

    fn forget_old(&self, events: &mut VecDeque<MemoryEvent>, now: f64) {
        let oldest = now - self.retention.as_secs_f64();
        while events.len() >= MAX_EVENTS || events.front().is_some_and(|event| event.seconds < oldest) {
            events.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_events_are_forgotten() {
        let short = History::new(Duration::ZERO);
        let owner: Arc<str> = "someone".into();
        short.add(&owner, 1, 1);
        short.add(&owner, 2, 3);
        assert!(short.read().is_empty());
        let long = History::new(Duration::from_secs(3600));
        for n in 0..MAX_EVENTS + 10 {
            long.add(&owner, n as i64, 0);
        }
        let events = long.read();
        assert!(events.len() < MAX_EVENTS + 1);
        assert_eq!(events.last().unwrap().bytes, (MAX_EVENTS + 9) as i64);
    }
}
