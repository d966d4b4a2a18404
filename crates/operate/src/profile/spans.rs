//! Sets of time spans: how much time is covered, and how much two sets have in common, in bounded memory.

use super::nest::Picoseconds;

/// Spans of time, joined where they touch or overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    list: Vec<(Picoseconds, Picoseconds)>,
    is_sorted: bool,
    /// Gaps up to this long were closed to stay within memory.
    pub(super) closed_gap_ps: Picoseconds,
}

/// Spans kept at most.
const MOST: usize = 1 << 20;

impl Spans {
    pub(super) fn add(&mut self, start: Picoseconds, length_ps: u64) {
        if length_ps == 0 {
            return;
        }
        let end = start + Picoseconds::from(length_ps);
        match self.list.last_mut() {
            Some(last) if start >= last.0 && start <= last.1 => last.1 = last.1.max(end),
            Some(last) => {
                self.is_sorted &= start > last.1;
                self.list.push((start, end));
            }
            None => {
                self.is_sorted = true;
                self.list.push((start, end));
            }
        }
        if self.list.len() >= MOST {
            self.join();
            let mut gap = self.closed_gap_ps.max(500);
            while self.list.len() >= MOST / 2 {
                gap *= 2;
                self.close_gaps(gap);
                self.closed_gap_ps = gap;
            }
        }
    }

    /// Sorts and joins.
    fn join(&mut self) {
        if !self.is_sorted {
            self.list.sort_unstable();
            self.is_sorted = true;
        }
        self.close_gaps(0);
    }

    fn close_gaps(&mut self, gap: Picoseconds) {
        self.list.dedup_by(|next, kept| {
            let is_near = next.0 - kept.1 <= gap;
            if is_near {
                kept.1 = kept.1.max(next.1);
            }
            is_near
        });
    }

    /// Time covered.
    pub(super) fn total_ps(&mut self) -> u128 {
        self.join();
        self.list.iter().map(|(start, end)| (end - start).unsigned_abs()).sum()
    }

    /// Time covered by both.
    pub(super) fn common_ps(&mut self, other: &mut Spans) -> u128 {
        self.join();
        other.join();
        let (mut a, mut b, mut total) = (0, 0, 0);
        while let (Some(x), Some(y)) = (self.list.get(a), other.list.get(b)) {
            let (start, end) = (x.0.max(y.0), x.1.min(y.1));
            total += (end - start).max(0).unsigned_abs();
            if x.1 <= y.1 {
                a += 1;
            } else {
                b += 1;
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(i128, u64)]) -> Spans {
        let mut spans = Spans::default();
        list.iter().for_each(|(start, length)| spans.add(*start, *length));
        spans
    }

    #[test]
    fn overlaps_count_once() {
        assert_eq!(spans(&[(0, 10), (5, 10), (30, 5), (20, 2), (21, 3)]).total_ps(), 15 + 4 + 5);
        assert_eq!(spans(&[]).total_ps(), 0);
        let (mut a, mut b) = (spans(&[(0, 10), (20, 10)]), spans(&[(25, 10), (5, 10)]));
        assert_eq!(a.common_ps(&mut b), 5 + 5);
    }

    #[test]
    fn too_many_spans_are_joined() {
        let mut many = Spans::default();
        for i in 0..3 * MOST as i128 {
            many.add(i * 3000, 1000);
            assert!(many.list.len() < MOST);
        }
        assert!(many.closed_gap_ps > 0);
        assert!(many.total_ps() >= 3 * MOST as u128 * 1000);
    }
}
