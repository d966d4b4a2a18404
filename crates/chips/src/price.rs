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
    /// Google Cloud region, `us-central1`, or another cloud's, `aws us-east-1`; `any` where the source names none.
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

/// The lowest price under given terms: in `region`, or of all where `region` is `None`.
pub(crate) fn lowest<'a>(prices: &'a [Price], kind: PriceKind, region: Option<&str>) -> Option<&'a Price> {
    prices
        .iter()
        .filter(|p| p.kind == kind && region.is_none_or(|r| p.region == r || p.region == "any"))
        .min_by(|a, b| a.usd_per_chip_hour.total_cmp(&b.usd_per_chip_hour))
}

impl Price {
    pub(crate) const fn catalog(region: &'static str, kind: PriceKind, usd_per_chip_hour: f64) -> Self {
        Self { region, kind, usd_per_chip_hour, date: "2026-08-22", source: crate::source::CATALOG }
    }
}
