//! Metrics of this process: made once by name and labels, changed from any thread, gathered when somebody asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::family::{HistogramBuckets, Labels, MetricFamily, MetricKind, Sample, SampleValue};

/// Series of one family. What has more, as by a label that never ends, is counted in one series without labels.
pub const MAX_SERIES: usize = 1000;

/// Metrics of this process; clones are the same metrics.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    families: Arc<Mutex<BTreeMap<String, Metrics>>>,
}

#[derive(Debug)]
struct Metrics {
    help: String,
    kind: MetricKind,
    series: Vec<(Labels, Cell)>,
}

#[derive(Clone, Debug)]
enum Cell {
    Number(Number),
    Buckets(Histogram),
}

/// A number that threads change.
#[derive(Clone, Debug, Default)]
struct Number(Arc<AtomicU64>);

impl Number {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    fn add(&self, value: f64) {
        add(&self.0, value);
    }
}

fn add(bits: &AtomicU64, value: f64) {
    let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
    // The function gives a number always, so this cannot fail.
    let _ = bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

/// A number that only grows.
#[derive(Clone, Debug)]
pub struct Counter(Number);

impl Counter {
    /// Adds; what is negative or no number is left out.
    pub fn add(&self, value: f64) {
        if value > 0.0 {
            self.0.add(value);
        }
    }

    /// Adds one.
    pub fn increment(&self) {
        self.0.add(1.0);
    }

    /// Its value.
    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

/// A value of now.
#[derive(Clone, Debug)]
pub struct Gauge(Number);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// Its value.
    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

/// How values are distributed, in buckets that are given once.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bounds: Vec<f64>,
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

impl Histogram {
    /// Counts a value; NaN is left out.
    pub fn observe(&self, value: f64) {
        if value.is_nan() {
            return;
        }
        let Counts { bounds, counts, sum } = self.0.as_ref();
        if let Some(count) = counts.get(bounds.partition_point(|bound| *bound < value)) {
            count.fetch_add(1, Ordering::Relaxed);
            add(sum, value);
        }
    }

    /// What was counted.
    pub fn get(&self) -> HistogramBuckets {
        let Counts { bounds, counts, sum } = self.0.as_ref();
        HistogramBuckets {
            bounds: bounds.clone(),
            counts: counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: f64::from_bits(sum.load(Ordering::Relaxed)),
        }
    }
}

impl Registry {
    /// No metrics.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// A number that only grows; the same one for the same name and labels.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Counter {
        match self.cell(name, help, MetricKind::Counter, labels, || Cell::Number(Number::default())) {
            Cell::Number(number) => Counter(number),
            Cell::Buckets(_) => Counter(Number::default()),
        }
    }

    /// A value of now; the same one for the same name and labels.
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Gauge {
        match self.cell(name, help, MetricKind::Gauge, labels, || Cell::Number(Number::default())) {
            Cell::Number(number) => Gauge(number),
            Cell::Buckets(_) => Gauge(Number::default()),
        }
    }

    /// A distribution with these upper bounds, rising; the same one for the same name and labels.
    pub fn histogram(&self, name: &str, help: &str, labels: &[(&str, &str)], bounds: &[f64]) -> Histogram {
        let new = || {
            let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
            Histogram(Arc::new(Counts { bounds: bounds.to_vec(), counts, sum: AtomicU64::new(0) }))
        };
        match self.cell(name, help, MetricKind::Histogram, labels, || Cell::Buckets(new())) {
            Cell::Buckets(histogram) => histogram,
            Cell::Number(_) => new(),
        }
    }

    /// Forgets a family, as one whose series are no longer true.
    pub fn remove(&self, name: &str) {
        self.families.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// All metrics as they are now, by name.
    pub fn gather(&self) -> Vec<MetricFamily> {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let family = |(name, metrics): (&String, &Metrics)| MetricFamily {
            name: name.clone(),
            help: metrics.help.clone(),
            kind: metrics.kind,
            samples: metrics.series.iter().map(|(labels, cell)| sample(labels, cell)).collect(),
        };
        families.iter().map(family).collect()
    }

    /// The cell of a name and labels. A name belongs to one kind: under another it counts where nobody looks.
    fn cell(
        &self,
        name: &str,
        help: &str,
        kind: MetricKind,
        labels: &[(&str, &str)],
        new: impl FnOnce() -> Cell,
    ) -> Cell {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = families.entry(name.to_string()).or_insert_with(|| Metrics {
            help: help.to_string(),
            kind,
            series: Vec::new(),
        });
        debug_assert_eq!(metrics.kind, kind, "`{name}` is a metric of two kinds");
        if metrics.kind != kind {
            return new();
        }
        let full = metrics.series.len() >= MAX_SERIES;
        let same = |(known, _): &&(Labels, Cell)| {
            known.len() == labels.len()
                && known.iter().zip(labels).all(|((k, v), (name, value))| k == name && v == value)
        };
        if let Some((_, cell)) = metrics.series.iter().find(same) {
            return cell.clone();
        }
        let labels: Labels = match full {
            true => Labels::new(),
            false => labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        };
        if let Some((_, cell)) = metrics.series.iter().find(|(known, _)| full && known.is_empty()) {
            return cell.clone();
        }
        let cell = new();
        metrics.series.push((labels, cell.clone()));
        cell
    }
}

fn sample(labels: &Labels, cell: &Cell) -> Sample {
    let value = match cell {
        Cell::Number(number) => SampleValue::Number(number.get()),
        Cell::Buckets(histogram) => SampleValue::Buckets(histogram.get()),
    };
    Sample { labels: labels.clone(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_and_labels_are_the_same_metric() {
        let registry = Registry::new();
        registry.counter("c_total", "C.", &[("a", "1")]).add(2.0);
        registry.counter("c_total", "C.", &[("a", "1")]).add(3.0);
        registry.counter("c_total", "C.", &[("a", "2")]).increment();
        registry.counter("c_total", "C.", &[("a", "2")]).add(-1.0);
        registry.counter("c_total", "C.", &[("a", "2")]).add(f64::NAN);
        let families = registry.gather();
        let values: Vec<_> = families[0].samples.iter().map(|sample| sample.value.clone()).collect();
        assert_eq!(values, [SampleValue::Number(5.0), SampleValue::Number(1.0)]);
    }

    #[test]
    fn a_value_is_in_the_bucket_up_to_whose_bound_it_reaches() {
        let histogram = Registry::new().histogram("h_seconds", "H.", &[], &[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.5, f64::INFINITY, f64::NAN] {
            histogram.observe(value);
        }
        assert_eq!(histogram.get().counts, [2, 1, 2]);
    }

    #[test]
    fn labels_without_end_share_one_series() {
        let registry = Registry::new();
        for n in 0..2 * MAX_SERIES {
            registry.counter("c_total", "C.", &[("n", &n.to_string())]).increment();
        }
        let families = registry.gather();
        assert_eq!(families[0].samples.len(), MAX_SERIES + 1);
        assert_eq!(families[0].samples[MAX_SERIES].value, SampleValue::Number(MAX_SERIES as f64));
    }

    #[test]
    fn threads_lose_nothing() {
        let registry = Registry::new();
        let counter = registry.counter("c_total", "C.", &[]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.get(), 4000.0);
    }
}
