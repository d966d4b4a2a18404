//! What a chip-hour costs, where and when that was read.

use serde::Serialize;

/// The terms a chip is rented under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceKind {
    /// Pay as you go.
    OnDemand,
    /// Preemptible capacity; the price moves.
    Spot,
    /// Committed use for one year.
    Committed1Year,
    /// Committed use for three years.
    Committed3Years,
}

/// One published price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Google Cloud region, `us-central1`; `any` where the source names none.
    pub region: &'static str,
    /// Terms.
    pub kind: PriceKind,
    /// US dollars for one chip (not core) for one hour.
    pub usd_per_chip_hour: f64,
    /// The day or month the price was read, ISO 8601; empty for an override.
    pub date: &'static str,
    /// Where it was read.
    pub source: &'static str,
}

impl Price {
    pub(crate) const fn catalog(region: &'static str, kind: PriceKind, usd_per_chip_hour: f64) -> Self {
        Self { region, kind, usd_per_chip_hour, date: "2026-08-22", source: crate::source::CATALOG }
    }
}
