//! Self time of nested events: what is left of an event without the events inside it.
//!
//! Files are nearly in order of time, but not quite: a window of events is sorted as they pass through. A line with
//! fewer events than the window is sorted whole.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Picoseconds since 1970, or since whatever a line counts from.
pub(super) type Picoseconds = i128;

/// An event that has ended.
pub(super) struct Closed<T> {
    pub(super) what: T,
    pub(super) start: Picoseconds,
    pub(super) total_ps: u64,
    pub(super) self_ps: u64,
    /// No event is around it.
    pub(super) is_outermost: bool,
}

struct Event<T> {
    start: Picoseconds,
    end: Picoseconds,
    /// Place in the file: equal events stay in its order.
    index: u64,
    what: T,
}

struct Open<T> {
    event: Event<T>,
    inner_ps: u64,
}

/// A line's events on their way through the window.
pub(super) struct Nest<T> {
    window: usize,
    waiting: BinaryHeap<Event<T>>,
    open: Vec<Open<T>>,
    count: u64,
    latest: Picoseconds,
    /// Events that came later than the window could put right.
    pub(super) out_of_order: u64,
}

/// Events that lie within each other at most; what lies deeper is counted as if it had nothing inside.
const DEEPEST: usize = 4096;

impl<T> Nest<T> {
    pub(super) fn new(window: usize) -> Nest<T> {
        Nest {
            window,
            waiting: BinaryHeap::new(),
            open: Vec::new(),
            count: 0,
            latest: Picoseconds::MIN,
            out_of_order: 0,
        }
    }

    pub(super) fn push(&mut self, start: Picoseconds, length_ps: u64, what: T, ended: &mut impl FnMut(Closed<T>)) {
        self.waiting.push(Event { start, end: start + Picoseconds::from(length_ps), index: self.count, what });
        self.count += 1;
        if self.waiting.len() > self.window
            && let Some(next) = self.waiting.pop()
        {
            self.enter(next, ended);
        }
    }

    /// Ends the line.
    pub(super) fn finish(&mut self, ended: &mut impl FnMut(Closed<T>)) {
        while let Some(next) = self.waiting.pop() {
            self.enter(next, ended);
        }
        while self.close(ended) {}
        self.latest = Picoseconds::MIN;
    }

    fn enter(&mut self, event: Event<T>, ended: &mut impl FnMut(Closed<T>)) {
        if event.start < self.latest {
            self.out_of_order += 1;
        }
        self.latest = self.latest.max(event.start);
        while self.open.last().is_some_and(|top| event.start < top.event.start || event.end > top.event.end) {
            self.close(ended);
        }
        let length = length_ps(&event);
        let is_deepest = self.open.len() >= DEEPEST;
        if let Some(around) = self.open.last_mut() {
            around.inner_ps = around.inner_ps.saturating_add(length);
        }
        if is_deepest {
            let (start, what) = (event.start, event.what);
            return ended(Closed { what, start, total_ps: length, self_ps: length, is_outermost: false });
        }
        self.open.push(Open { event, inner_ps: 0 });
    }

    fn close(&mut self, ended: &mut impl FnMut(Closed<T>)) -> bool {
        let Some(Open { event, inner_ps }) = self.open.pop() else { return false };
        let total_ps = length_ps(&event);
        ended(Closed {
            start: event.start,
            total_ps,
            self_ps: total_ps.saturating_sub(inner_ps),
            is_outermost: self.open.is_empty(),
            what: event.what,
        });
        true
    }
}

fn length_ps<T>(event: &Event<T>) -> u64 {
    u64::try_from(event.end - event.start).unwrap_or(u64::MAX)
}

impl<T> Event<T> {
    /// Earliest first; of those that begin together the longest, which is around the others.
    fn key(&self) -> (Picoseconds, std::cmp::Reverse<Picoseconds>, u64) {
        (self.start, std::cmp::Reverse(self.end), self.index)
    }
}

/// The heap gives the largest first, so the order is turned around.
impl<T> Ord for Event<T> {
    fn cmp(&self, other: &Event<T>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Event<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Event<T> {
    fn eq(&self, other: &Event<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Event<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn self_times(window: usize, events: &[(i128, u64, &'static str)]) -> Vec<(&'static str, u64)> {
        let mut found = Vec::new();
        let mut nest = Nest::new(window);
        let mut ended = |closed: Closed<&'static str>| found.push((closed.what, closed.self_ps));
        for (start, length, name) in events {
            nest.push(*start, *length, *name, &mut ended);
        }
        nest.finish(&mut ended);
        found.sort_unstable();
        found
    }

    #[test]
    fn time_of_inner_events_is_not_counted_twice() {
        let events =
            [(0, 100, "while"), (0, 30, "body"), (5, 10, "dot"), (30, 20, "add"), (100, 5, "next"), (100, 0, "mark")];
        let expected = [("add", 20), ("body", 20), ("dot", 10), ("mark", 0), ("next", 5), ("while", 50)];
        assert_eq!(self_times(100, &events), expected);
        // Hosts write an event when it ends: inner ones first.
        let mut backwards = events;
        backwards.reverse();
        assert_eq!(self_times(100, &backwards), expected);
        assert_eq!(self_times(2, &events), expected);
    }

    #[test]
    fn events_that_only_overlap_are_not_nested() {
        assert_eq!(self_times(10, &[(0, 10, "a"), (5, 10, "b")]), [("a", 10), ("b", 10)]);
    }

    #[test]
    fn very_deep_events_stay_bounded() {
        let mut nest = Nest::new(1);
        let mut total = 0;
        for i in 0..10_000u64 {
            nest.push(i128::from(i), 20_000 - 2 * i, (), &mut |closed: Closed<()>| total += closed.self_ps);
            assert!(nest.open.len() <= DEEPEST);
        }
        nest.finish(&mut |closed| total += closed.self_ps);
        assert!(total >= 20_000);
    }
}
