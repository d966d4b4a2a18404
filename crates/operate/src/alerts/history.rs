//! Values of a series over a window of time, in bounded memory.

use std::collections::VecDeque;

/// Values that are kept at most; closer ones are left out.
const MAX_POINTS: usize = 1024;

/// Values before a median says something.
const MIN_POINTS: usize = 8;

/// Values and when they were, in seconds.
#[derive(Debug)]
pub(super) struct History<T> {
    window_seconds: f64,
    points: VecDeque<(f64, T)>,
}

impl<T: Copy> History<T> {
    pub(super) fn new(window_seconds: f64) -> History<T> {
        History { window_seconds, points: VecDeque::new() }
    }

    /// Adds a value of now. A clock that went back begins anew.
    pub(super) fn push(&mut self, now: f64, value: T) {
        let apart = self.window_seconds / MAX_POINTS as f64;
        match self.points.back() {
            Some((last, _)) if *last > now => self.points.clear(),
            Some((last, _)) if now - last < apart => return,
            _ => {}
        }
        self.points.push_back((now, value));
        // One point before the window stays, so that what is measured spans all of it.
        while self.points.get(1).is_some_and(|(second, _)| now - second > self.window_seconds)
            || self.points.len() > MAX_POINTS + 2
        {
            self.points.pop_front();
        }
    }

    /// The oldest value, and when it was.
    pub(super) fn oldest(&self) -> Option<(f64, T)> {
        self.points.front().copied()
    }
}

impl History<f64> {
    /// The median, once there are enough values.
    pub(super) fn median(&self) -> Option<f64> {
        let mut values: Vec<f64> = self.points.iter().map(|(_, value)| *value).filter(|v| v.is_finite()).collect();
        if values.len() < MIN_POINTS {
            return None;
        }
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_and_the_memory_are_bounded() {
        let mut history = History::new(100.0);
        for n in 0..1_000_000 {
            history.push(f64::from(n) * 0.01, f64::from(n));
        }
        assert!(history.points.len() <= MAX_POINTS + 2);
        let (oldest, _) = history.oldest().unwrap();
        assert!((9899.0..9900.0).contains(&oldest), "{oldest}");
        history.push(5.0, 1.0);
        assert_eq!(history.oldest(), Some((5.0, 1.0)));
    }

    #[test]
    fn the_median_needs_values_and_passes_over_those_that_are_not_finite() {
        let mut history = History::new(100.0);
        for n in 0..7 {
            history.push(f64::from(n), f64::from(n));
        }
        history.push(7.0, f64::NAN);
        assert_eq!(history.median(), None);
        history.push(8.0, 100.0);
        assert_eq!(history.median(), Some(4.0));
    }
}
