//! Metrics as plain data: families of samples, as a registry gathers them or another process told them.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, from the start of its process.
    Counter,
    /// A value of now.
    Gauge,
    /// How values are distributed.
    Histogram,
}

/// Names and values of labels, in the order they are written.
pub type Labels = Vec<(String, String)>;

/// Counts of values up to bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramBuckets {
    /// Upper bounds, rising, without the infinite one.
    pub bounds: Vec<f64>,
    /// Values in each bucket, not cumulated; one more than bounds.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: f64,
}

impl HistogramBuckets {
    /// Values in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value below which this share of values lies, taken as evenly spread within a bucket; `None` without values.
    ///
    /// The open buckets at both ends have no width: their only bound is the answer.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = share.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0.0;
        for (n, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if below + count as f64 >= rank {
                let (low, high) = (n.checked_sub(1).and_then(|n| self.bounds.get(n)), self.bounds.get(n));
                return match (low, high) {
                    (Some(low), Some(high)) => Some(low + (high - low) * (rank - below) / count as f64),
                    (low, high) => high.or(low).copied(),
                };
            }
            below += count as f64;
        }
        None
    }
}

/// A value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValue {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a histogram.
    Buckets(HistogramBuckets),
}

/// One series of a family at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What tells it from others of the family.
    pub labels: Labels,
    /// Its value.
    pub value: SampleValue,
}

/// All series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// By Prometheus' conventions: units at the end, `_total` for counters.
    pub name: String,
    /// One sentence.
    pub help: String,
    /// What they are.
    pub kind: MetricKind,
    /// The series.
    pub samples: Vec<Sample>,
}

impl MetricFamily {
    /// A family without series.
    pub fn new(name: impl Into<String>, help: impl Into<String>, kind: MetricKind) -> MetricFamily {
        MetricFamily { name: name.into(), help: help.into(), kind, samples: Vec::new() }
    }

    /// With one more number.
    pub fn push(&mut self, labels: Labels, value: f64) {
        self.samples.push(Sample { labels, value: SampleValue::Number(value) });
    }
}

/// A name that Prometheus takes, from one that somebody else chose: `hlo.queue.size` becomes `hlo_queue_size`.
pub fn metric_name(from: &str) -> String {
    let mut name: String = from
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' })
        .collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_in_their_buckets() {
        let buckets = HistogramBuckets { bounds: vec![1.0, 2.0, 4.0], counts: vec![0, 10, 10, 0], sum: 45.0 };
        assert_eq!(buckets.quantile(0.5), Some(2.0));
        assert_eq!(buckets.quantile(0.75), Some(3.0));
        assert_eq!(buckets.quantile(1.0), Some(4.0));
        let open = HistogramBuckets { bounds: vec![1.0], counts: vec![0, 3], sum: 30.0 };
        assert_eq!(open.quantile(0.5), Some(1.0));
        assert_eq!(HistogramBuckets { bounds: vec![1.0], counts: vec![0, 0], sum: 0.0 }.quantile(0.5), None);
    }

    #[test]
    fn foreign_names_become_metric_names() {
        assert_eq!(metric_name("hlo.queue.size.gauge"), "hlo_queue_size_gauge");
        assert_eq!(metric_name("7x/Duty%"), "_7x_duty_");
        assert_eq!(metric_name(""), "_");
    }
}
