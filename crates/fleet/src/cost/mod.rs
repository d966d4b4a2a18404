//! What jobs cost: planned, so far, for each token, wasted by restarts; and slices that are paid for and do nothing.
//!
//! A [`CostRecord`] is what is known of one job: from the bill of its supervisor ([`CostRecord::of_job`]), or from the folder of
//! a training ([`CostRecord::of_run`]). A [`CostReport`] has a line for each job, sums by label, and the total. Prices are those of `chips`,
//! with their dates; nothing here asks a cloud.
//!
//! ```
//! use fleet::cost::{CostRecord, CostReport};
//!
//! let job = CostRecord { usd: 30.0, wasted_usd: 6.0, tokens: Some(4_000_000), ..CostRecord::new("tiny") };
//! let report = CostReport::new(vec![job.with_label("team", "vision")], Some("team"));
//! assert_eq!(report.jobs[0].usd_per_million_tokens, Some(7.5));
//! assert_eq!((report.groups[0].label.as_str(), report.total.wasted_share), ("vision", Some(0.2)));
//! ```

mod idle;
mod job;
mod run;

use std::collections::BTreeMap;

use serde::Serialize;

pub use idle::{IdleReason, IdleSlice, SliceUse, idle_slices};
pub use run::{RunPrice, RunPriceError};

/// The version of a report.
pub const COST_VERSION: u32 = 1;

/// What is known of the cost of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct CostRecord {
    /// Its name.
    pub job: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it goes on.
    pub is_running: bool,
    /// Times that it was started.
    pub attempts: u64,
    /// What it was to cost, in US dollars.
    pub planned_usd: Option<f64>,
    /// What it has cost so far.
    pub usd: f64,
    /// Of that, what went into work that a restart threw away, and into starting again.
    pub wasted_usd: f64,
    /// What it costs now, for each hour.
    pub usd_per_hour: f64,
    /// Seconds of all slices.
    pub slice_seconds: u64,
    /// Tokens of the steps that were kept.
    pub tokens: Option<u64>,
    /// The share of the time that went into steps that were kept, from 0 to 1.
    pub goodput: Option<f64>,
    /// The date of the price, where one of `chips` was taken.
    pub price_date: Option<String>,
}

impl CostRecord {
    /// A job that has cost nothing yet.
    pub fn new(job: &str) -> CostRecord {
        CostRecord {
            job: job.to_string(),
            labels: BTreeMap::new(),
            is_running: false,
            attempts: 0,
            planned_usd: None,
            usd: 0.0,
            wasted_usd: 0.0,
            usd_per_hour: 0.0,
            slice_seconds: 0,
            tokens: None,
            goodput: None,
            price_date: None,
        }
    }

    /// The same with a label.
    #[must_use]
    pub fn with_label(mut self, name: &str, value: &str) -> CostRecord {
        self.labels.insert(name.to_string(), value.to_string());
        self
    }
}

/// The line of a job, of a label, or of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostSum {
    /// The name of the job, or the value of the label; `total` for all.
    pub label: String,
    /// Labels of the job; empty for several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Jobs that were added up.
    pub jobs: u64,
    /// Of these, those that go on.
    pub running: u64,
    /// Times that they were started.
    pub attempts: u64,
    /// What those with a plan were to cost, in US dollars.
    pub planned_usd: Option<f64>,
    /// What they have cost so far.
    pub usd: f64,
    /// Of that, wasted by restarts.
    pub wasted_usd: f64,
    /// That share, from 0 to 1.
    pub wasted_share: Option<f64>,
    /// What they cost now, for each hour.
    pub usd_per_hour: f64,
    /// Hours of all slices.
    pub slice_hours: f64,
    /// Tokens of the steps that were kept.
    pub tokens: Option<u64>,
    /// Dollars for a million of them, of the jobs whose tokens are known.
    pub usd_per_million_tokens: Option<f64>,
    /// The share of the time that went into steps that were kept, weighed by slice time.
    pub goodput: Option<f64>,
    /// Dates of the prices that were taken from the tables, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub price_dates: Vec<String>,
}

impl CostSum {
    fn of(label: &str, records: &[&CostRecord]) -> CostSum {
        let sum = |value: fn(&CostRecord) -> f64| records.iter().map(|record| value(record)).sum::<f64>();
        let (usd, wasted_usd) = (sum(|record| record.usd), sum(|record| record.wasted_usd));
        let planned: Vec<f64> = records.iter().filter_map(|record| record.planned_usd).collect();
        let counted: Vec<(u64, f64)> = records.iter().filter_map(|record| Some((record.tokens?, record.usd))).collect();
        let tokens = (!counted.is_empty()).then(|| counted.iter().map(|(tokens, _)| tokens).sum::<u64>());
        let counted_usd: f64 = counted.iter().map(|(_, usd)| usd).sum();
        let weighed: Vec<(f64, f64)> =
            records.iter().filter_map(|record| Some((record.goodput?, record.slice_seconds as f64))).collect();
        let weight: f64 = weighed.iter().map(|(_, weight)| weight).sum();
        let goodput = weighed.iter().map(|(goodput, weight)| goodput * weight).sum::<f64>() / weight;
        let mut price_dates: Vec<String> = records.iter().filter_map(|record| record.price_date.clone()).collect();
        price_dates.sort();
        price_dates.dedup();
        CostSum {
            label: label.to_string(),
            labels: if let [one] = records { one.labels.clone() } else { BTreeMap::new() },
            jobs: records.len() as u64,
            running: records.iter().filter(|record| record.is_running).count() as u64,
            attempts: records.iter().map(|record| record.attempts).sum(),
            planned_usd: (!planned.is_empty()).then(|| planned.iter().sum()),
            usd,
            wasted_usd,
            wasted_share: (usd > 0.0).then(|| wasted_usd / usd),
            usd_per_hour: sum(|record| record.usd_per_hour),
            slice_hours: sum(|record| record.slice_seconds as f64) / 3600.0,
            tokens,
            usd_per_million_tokens: tokens.filter(|tokens| *tokens > 0).map(|tokens| counted_usd / tokens as f64 * 1e6),
            goodput: (weight > 0.0).then_some(goodput),
            price_dates,
        }
    }
}

/// What jobs cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostReport {
    /// Version of the report.
    pub version: u32,
    /// A line for each job, the most expensive first.
    pub jobs: Vec<CostSum>,
    /// A line for each value of the label that was asked for, the most expensive first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<CostSum>,
    /// All of them.
    pub total: CostSum,
    /// Slices that are paid for and do nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleSlice>,
}

/// Jobs without the label that was asked for are under this name.
pub const NO_LABEL: &str = "(none)";

impl CostReport {
    /// Adds jobs up, by a label where one is asked for.
    pub fn new(records: Vec<CostRecord>, by: Option<&str>) -> CostReport {
        let mut by_value: BTreeMap<&str, Vec<&CostRecord>> = BTreeMap::new();
        if let Some(name) = by {
            for record in &records {
                let value = record.labels.get(name).map_or(NO_LABEL, String::as_str);
                by_value.entry(value).or_default().push(record);
            }
        }
        let mut jobs: Vec<CostSum> = records.iter().map(|record| CostSum::of(&record.job, &[record])).collect();
        let mut groups: Vec<CostSum> = by_value
            .iter()
            .map(|(value, records)| CostSum { labels: BTreeMap::new(), ..CostSum::of(value, records) })
            .collect();
        for lines in [&mut jobs, &mut groups] {
            lines.sort_by(|a, b| b.usd.total_cmp(&a.usd).then_with(|| a.label.cmp(&b.label)));
        }
        let total = CostSum { labels: BTreeMap::new(), ..CostSum::of("total", &records.iter().collect::<Vec<_>>()) };
        CostReport { version: COST_VERSION, jobs, groups, total, idle: Vec::new() }
    }

    /// The same with slices that do nothing.
    #[must_use]
    pub fn with_idle(mut self, idle: Vec<IdleSlice>) -> CostReport {
        self.idle = idle;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, team: &str, usd: f64, wasted_usd: f64) -> CostRecord {
        CostRecord { usd, wasted_usd, ..CostRecord::new(name) }.with_label("team", team)
    }

    #[test]
    fn jobs_are_added_up_by_label() {
        let records = vec![
            CostRecord {
                planned_usd: Some(20.0),
                tokens: Some(2_000_000),
                goodput: Some(0.5),
                slice_seconds: 3600,
                attempts: 3,
                price_date: Some("2026-08-22".into()),
                ..job("a", "vision", 10.0, 2.5)
            },
            CostRecord {
                is_running: true,
                usd_per_hour: 8.0,
                tokens: Some(6_000_000),
                goodput: Some(0.9),
                slice_seconds: 3 * 3600,
                attempts: 1,
                price_date: Some("2026-08-22".into()),
                ..job("b", "text", 30.0, 0.0)
            },
            // Nothing is known of its tokens: it does not make those of others dearer.
            CostRecord { slice_seconds: 60, ..job("c", "vision", 60.0, 30.0) },
            CostRecord { usd: 1.0, ..CostRecord::new("d") },
        ];
        let report = CostReport::new(records, Some("team"));
        let names = |lines: &[CostSum]| lines.iter().map(|line| line.label.clone()).collect::<Vec<_>>();
        assert_eq!(names(&report.jobs), ["c", "b", "a", "d"]);
        assert_eq!(names(&report.groups), ["vision", "text", NO_LABEL]);
        let vision = &report.groups[0];
        assert_eq!((vision.usd, vision.wasted_usd, vision.jobs, vision.running), (70.0, 32.5, 2, 0));
        assert_eq!((vision.planned_usd, vision.usd_per_million_tokens), (Some(20.0), Some(5.0)));
        let total = &report.total;
        assert_eq!((total.usd, total.usd_per_hour, total.tokens), (101.0, 8.0, Some(8_000_000)));
        assert_eq!((total.usd_per_million_tokens, total.attempts, total.running), (Some(5.0), 4, 1));
        assert_eq!(total.goodput, Some((0.5 + 3.0 * 0.9) / 4.0));
        assert_eq!(
            (total.wasted_share, total.price_dates.as_slice()),
            (Some(32.5 / 101.0), &["2026-08-22".to_string()][..])
        );
    }

    #[test]
    fn nothing_costs_nothing() {
        let report = CostReport::new(Vec::new(), Some("team"));
        assert_eq!((report.total.usd, report.total.wasted_share, report.total.goodput), (0.0, None, None));
        assert!(report.jobs.is_empty() && report.groups.is_empty());
        let free = CostReport::new(vec![CostRecord { tokens: Some(0), ..CostRecord::new("a") }], None);
        assert_eq!((free.jobs[0].usd_per_million_tokens, free.jobs[0].wasted_share), (None, None));
        assert!(!serde_json::to_string(&free).unwrap().contains("groups"));
    }
}
