//! What it costs to read data where it is not: a bucket's place against a slice's zone.
//!
//! List prices of the first terabyte, without discounts: what a warning needs, not what an invoice says.

use serde::Serialize;

use crate::source::{EGRESS, EGRESS_CONTINENTS};

/// Who keeps a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BucketCloud {
    /// Google Cloud Storage.
    Google,
    /// Amazon S3.
    Amazon,
}

/// The price of reading one decimal gigabyte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EgressPrice {
    /// US dollars for a gigabyte (10⁹ bytes); 0 where it is free.
    pub usd_per_gb: f64,
    /// Why, as in `another continent`.
    pub why: &'static str,
    /// The month the price was read, ISO 8601.
    pub date: &'static str,
    /// Where it was read.
    pub source: &'static str,
}

const fn price(usd_per_gb: f64, why: &'static str, date: &'static str, source: &'static str) -> EgressPrice {
    EgressPrice { usd_per_gb, why, date, source }
}

const SAME_REGION: EgressPrice = price(0.0, "the same region", "2026-05", EGRESS);
const IN_DUAL_REGION: EgressPrice = price(0.0, "a region of the dual-region", "2026-05", EGRESS);
const SAME_CONTINENT: EgressPrice = price(0.02, "another place on the same continent", "2026-05", EGRESS);
const OTHER_CONTINENT: EgressPrice = price(0.12, "another continent", "2023-12", EGRESS_CONTINENTS);
const WITH_AUSTRALIA: EgressPrice =
    price(0.19, "another continent, and one is Australia", "2023-12", EGRESS_CONTINENTS);
const FROM_AMAZON: EgressPrice = price(0.09, "out of Amazon's cloud", "2026-05", EGRESS);

/// Dual-regions with their regions.
const DUAL_REGIONS: [(&str, [&str; 2]); 3] = [
    ("nam4", ["us-central1", "us-east1"]),
    ("eur4", ["europe-north1", "europe-west4"]),
    ("asia1", ["asia-northeast1", "asia-northeast2"]),
];

/// Continents by the begin of their regions; the first of each is also the name of a multi-region.
const CONTINENTS: [&[&str]; 7] = [
    &["us", "northamerica", "nam"],
    &["eu", "europe", "eur"],
    &["asia"],
    &["australia"],
    &["southamerica"],
    &["me"],
    &["africa"],
];

impl EgressPrice {
    /// The price of reading from a bucket at a location, such as `US-CENTRAL1`, `EU`, `NAM4` or `us-east-1`, in a Google zone,
    /// such as `us-central2-b`. `None` where one of them is not known.
    pub fn between(cloud: BucketCloud, location: &str, zone: &str) -> Option<EgressPrice> {
        let zone = zone.to_ascii_lowercase();
        let (region, letter) = zone.rsplit_once('-')?;
        if letter.len() != 1 || !region.contains('-') {
            return None;
        }
        let there = continent(region)?;
        if cloud == BucketCloud::Amazon {
            return Some(FROM_AMAZON);
        }
        let location = location.to_ascii_lowercase();
        if location == region {
            return Some(SAME_REGION);
        }
        if DUAL_REGIONS.iter().any(|(name, regions)| *name == location && regions.contains(&region)) {
            return Some(IN_DUAL_REGION);
        }
        let here = continent(&location)?;
        Some(match () {
            () if here == there => SAME_CONTINENT,
            () if [here, there].contains(&AUSTRALIA) => WITH_AUSTRALIA,
            () => OTHER_CONTINENT,
        })
    }

    /// US dollars for so many bytes.
    pub fn usd(&self, bytes: u64) -> f64 {
        self.usd_per_gb * bytes as f64 / 1e9
    }
}

/// Place of Australia among the continents.
const AUSTRALIA: usize = 3;

fn continent(location: &str) -> Option<usize> {
    let word = location.split('-').next()?.trim_end_matches(|c: char| c.is_ascii_digit());
    CONTINENTS.iter().position(|names| names.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_prices() {
        let check = |location: &str, zone: &str, expected: Option<f64>| {
            let found = EgressPrice::between(BucketCloud::Google, location, zone);
            assert_eq!(found.map(|price| price.usd_per_gb), expected, "{location} {zone}");
        };
        check("US-CENTRAL1", "us-central1-a", Some(0.0));
        check("us-central1", "us-central2-b", Some(0.02));
        check("NAM4", "us-east1-d", Some(0.0));
        check("NAM4", "us-east5-a", Some(0.02));
        // A multi-region is not free on its own continent.
        check("US", "us-east5-a", Some(0.02));
        check("NORTHAMERICA-NORTHEAST1", "us-east5-a", Some(0.02));
        check("EU", "europe-west4-b", Some(0.02));
        check("EUR4", "europe-west4-a", Some(0.0));
        check("EU", "us-east5-a", Some(0.12));
        check("ASIA1", "us-east5-a", Some(0.12));
        check("AUSTRALIA-SOUTHEAST1", "us-east5-a", Some(0.19));
        check("us-central1", "australia-southeast1-a", Some(0.19));
        // What is not known has no price.
        check("moon-north1", "us-east5-a", None);
        check("us-central1", "us-central1", None);
        check("us-central1", "", None);
        let amazon = EgressPrice::between(BucketCloud::Amazon, "us-east-1", "us-east5-a").unwrap();
        assert_eq!((amazon.usd(10_000_000_000), amazon.date), (0.9, "2026-05"));
    }
}
