//! A curve in bounded memory: neighbours share a bucket once there are many, and a bucket keeps its extremes.

use serde::Serialize;

/// Buckets that are kept at most.
const MAX_BUCKETS: usize = 2048;

/// Points that lie beside each other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    first_step: u64,
    last_step: u64,
    first_time: f64,
    last_time: f64,
    min: f64,
    max: f64,
    sum: f64,
    /// Values that are finite, and all.
    finite: u64,
    count: u64,
}

impl Bucket {
    fn new(step: u64, time: f64, value: f64) -> Bucket {
        let is_finite = value.is_finite();
        Bucket {
            first_step: step,
            last_step: step,
            first_time: time,
            last_time: time,
            min: if is_finite { value } else { f64::INFINITY },
            max: if is_finite { value } else { f64::NEG_INFINITY },
            sum: if is_finite { value } else { 0.0 },
            finite: u64::from(is_finite),
            count: 1,
        }
    }

    fn join(self, next: &Bucket) -> Bucket {
        Bucket {
            first_step: self.first_step,
            last_step: next.last_step,
            first_time: self.first_time,
            last_time: next.last_time,
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            sum: self.sum + next.sum,
            finite: self.finite.saturating_add(next.finite),
            count: self.count.saturating_add(next.count),
        }
    }
}

/// Joins neighbours, so many at a time.
fn joined(buckets: &[Bucket], at_a_time: usize) -> Vec<Bucket> {
    let of =
        |some: &[Bucket]| some.iter().skip(1).fold(some.first().copied(), |sum, next| sum.map(|sum| sum.join(next)));
    buckets.chunks(at_a_time.max(1)).filter_map(of).collect()
}

/// Values of a metric, in the order they were written.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    buckets: Vec<Bucket>,
    /// Points of a full bucket.
    per_bucket: u64,
    newest: f64,
}

/// A curve as the page draws it: columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct DrawnCurve {
    /// The middle of a bucket.
    pub(super) step: Vec<f64>,
    /// Seconds since 1970.
    pub(super) time: Vec<f64>,
    /// The mean of what is finite; `None` where nothing is.
    pub(super) mean: Vec<Option<f64>>,
    /// The extremes. Empty if every bucket is one point.
    pub(super) min: Vec<Option<f64>>,
    pub(super) max: Vec<Option<f64>>,
    /// Places of buckets with values that are not finite.
    pub(super) not_finite: Vec<usize>,
    /// Points in all.
    pub(super) points: u64,
}

impl Curve {
    /// A curve of one point.
    pub(super) fn new(step: u64, time: f64, value: f64) -> Curve {
        Curve { buckets: vec![Bucket::new(step, time, value)], per_bucket: 1, newest: value }
    }

    /// The value that was added last.
    pub(super) fn newest(&self) -> f64 {
        self.newest
    }

    pub(super) fn push(&mut self, step: u64, time: f64, value: f64) {
        self.newest = value;
        let point = Bucket::new(step, time, value);
        if let Some(last) = self.buckets.last_mut().filter(|last| last.count < self.per_bucket) {
            *last = last.join(&point);
            return;
        }
        if self.buckets.len() >= MAX_BUCKETS {
            self.buckets = joined(&self.buckets, 2);
            self.per_bucket = self.per_bucket.saturating_mul(2);
        }
        self.buckets.push(point);
    }

    /// The curve with so many buckets at most.
    pub(super) fn drawn(&self, buckets: usize) -> DrawnCurve {
        let shown = joined(&self.buckets, self.buckets.len().div_ceil(buckets.max(1)));
        let mut drawn = DrawnCurve::default();
        let has_extremes = shown.iter().any(|bucket| bucket.count > 1);
        for (place, bucket) in shown.iter().enumerate() {
            let known = |value: f64| Some(value).filter(|_| bucket.finite > 0).filter(|value| value.is_finite());
            drawn.step.push((bucket.first_step as f64 + bucket.last_step as f64) / 2.0);
            drawn.time.push((bucket.first_time + bucket.last_time) / 2.0);
            drawn.mean.push(known(bucket.sum / bucket.finite as f64));
            if has_extremes {
                drawn.min.push(known(bucket.min));
                drawn.max.push(known(bucket.max));
            }
            if bucket.finite < bucket.count {
                drawn.not_finite.push(place);
            }
            drawn.points = drawn.points.saturating_add(bucket.count);
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_curve_is_drawn_point_by_point() {
        let mut curve = Curve::new(1, 101.0, 3.0);
        for (step, value) in [(2, f64::NAN), (3, 1.0)] {
            curve.push(step, 100.0 + step as f64, value);
        }
        let drawn = curve.drawn(100);
        assert_eq!((drawn.step, drawn.time), (vec![1.0, 2.0, 3.0], vec![101.0, 102.0, 103.0]));
        assert_eq!((drawn.mean, drawn.not_finite, drawn.points), (vec![Some(3.0), None, Some(1.0)], vec![1], 3));
        assert!(drawn.min.is_empty() && drawn.max.is_empty());
    }

    /// Of a million points no spike is lost, no point is counted twice, and the memory is bounded.
    #[test]
    fn a_long_curve_keeps_its_extremes() {
        let value = |n: u64| if n == 777_777 { 1e6 } else { (n % 100) as f64 };
        let mut curve = Curve::new(0, 0.0, value(0));
        for n in 1..1_000_000 {
            curve.push(n, n as f64, value(n));
        }
        assert!(curve.buckets.len() <= MAX_BUCKETS && curve.buckets.capacity() <= 2 * MAX_BUCKETS);
        let drawn = curve.drawn(500);
        assert!((250..=500).contains(&drawn.step.len()), "{}", drawn.step.len());
        assert_eq!(drawn.points, 1_000_000);
        assert_eq!(drawn.max.iter().flatten().copied().fold(0.0, f64::max), 1e6);
        assert!(drawn.min.iter().all(|min| *min == Some(0.0)), "{:?}", drawn.min);
        assert!(drawn.step.is_sorted() && drawn.time.is_sorted());
    }

    #[test]
    fn what_has_no_mean_has_none() {
        let mut curve = Curve::new(1, 0.0, f64::MAX);
        curve.push(2, 0.0, f64::MAX);
        // A sum beyond all numbers has no mean.
        assert_eq!(curve.drawn(0).mean, [None]);
    }
}
