//! What a step, a million tokens and a whole run cost, by the terms a slice is rented under.

use chips::{PriceKind, Slice};
use serde::Serialize;

use crate::error::Error;

/// Which price counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tariff {
    /// Region; without it the cheapest one for each of the terms.
    pub region: Option<String>,
    /// US dollars for one chip for one hour, in place of the published prices.
    pub usd_per_chip_hour: Option<f64>,
}

/// How long a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RunLength {
    /// Not said.
    #[default]
    Unknown,
    /// Steps.
    Steps(f64),
    /// Tokens.
    Tokens(f64),
}

/// What a step is, to be paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BilledStep {
    /// Seconds.
    pub seconds: f64,
    /// Tokens that all devices together work through, where known.
    pub tokens: Option<f64>,
}

/// What a program costs on a slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunCost {
    /// Chips that are paid for.
    pub chips: u32,
    /// Steps of the run, where its length is known.
    pub steps: Option<f64>,
    /// Hours of the run, where its length is known.
    pub hours: Option<f64>,
    /// One line for each of the terms that have a price.
    pub terms: Vec<Terms>,
    /// Why there is no price, where there is none.
    pub note: Option<String>,
}

/// Dollars under one set of terms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Terms {
    /// As in `on demand`.
    pub name: &'static str,
    /// Region of the price; `any` where its source names none.
    pub region: String,
    /// The day or month the price was read; empty for the caller's own.
    pub date: String,
    /// US dollars for one chip for one hour.
    pub usd_per_chip_hour: f64,
    /// US dollars for the slice for one hour.
    pub usd_per_hour: f64,
    /// US dollars for one step.
    pub usd_per_step: f64,
    /// US dollars for a million tokens, where a step's tokens are known.
    pub usd_per_million_tokens: Option<f64>,
    /// US dollars for the run, where its length is known.
    pub usd_per_run: Option<f64>,
}

const KINDS: [(PriceKind, &str); 4] = [
    (PriceKind::OnDemand, "on demand"),
    (PriceKind::Spot, "spot"),
    (PriceKind::Committed1Year, "committed 1 year"),
    (PriceKind::Committed3Years, "committed 3 years"),
];

impl RunCost {
    /// The cost of a step and of a run on a slice.
    pub fn of(slice: &Slice, step: BilledStep, run: RunLength, tariff: &Tariff) -> Result<RunCost, Error> {
        let steps = steps(run, step.tokens)?;
        let chips = slice.chips();
        let terms = |name, usd_per_chip_hour: f64, region: &str, date: &str| {
            let usd_per_hour = usd_per_chip_hour * f64::from(chips);
            let usd_per_step = usd_per_hour / 3600.0 * step.seconds;
            Terms {
                name,
                region: region.to_string(),
                date: date.to_string(),
                usd_per_chip_hour,
                usd_per_hour,
                usd_per_step,
                usd_per_million_tokens: step.tokens.map(|tokens| usd_per_step / tokens * 1e6),
                usd_per_run: steps.map(|steps| usd_per_step * steps),
            }
        };
        let (list, note) = match tariff.usd_per_chip_hour {
            Some(usd) => (vec![terms("as given", usd, tariff.region.as_deref().unwrap_or("any"), "")], None),
            None => {
                tariff.check(slice)?;
                let price = |(kind, name)| {
                    let price = slice.spec().price(kind, tariff.region.as_deref())?;
                    Some(terms(name, price.usd_per_chip_hour, price.region, price.date))
                };
                let list: Vec<Terms> = KINDS.into_iter().filter_map(price).collect();
                let none = format!("no price of {} is published; give one with --price", slice.generation());
                let note = list.is_empty().then_some(none);
                (list, note)
            }
        };
        Ok(RunCost { chips, steps, hours: steps.map(|steps| steps * step.seconds / 3600.0), terms: list, note })
    }
}

impl Tariff {
    /// Refuses a price that is none, and a region without one, before anything is compiled.
    pub fn check(&self, slice: &Slice) -> Result<(), Error> {
        if let Some(usd) = self.usd_per_chip_hour {
            return positive("the price of a chip-hour", usd).map(drop);
        }
        let prices = &slice.spec().prices;
        let Some(region) = &self.region else { return Ok(()) };
        if prices.is_empty() || prices.iter().any(|price| price.region == region) {
            return Ok(());
        }
        let mut known: Vec<String> =
            prices.iter().filter(|price| price.region != "any").map(|price| price.region.to_string()).collect();
        known.sort();
        known.dedup();
        Err(Error::UnknownRegion { region: region.clone(), generation: slice.generation().to_string(), known })
    }
}

/// Steps of a run.
fn steps(run: RunLength, tokens: Option<f64>) -> Result<Option<f64>, Error> {
    match run {
        RunLength::Unknown => Ok(None),
        RunLength::Steps(steps) => positive("the number of steps", steps).map(Some),
        RunLength::Tokens(total) => {
            let total = positive("the number of tokens", total)?;
            let tokens = tokens.ok_or(Error::TokensUnknown)?;
            Ok(Some((total / tokens).ceil()))
        }
    }
}

pub(crate) fn positive(what: &'static str, given: f64) -> Result<f64, Error> {
    if given > 0.0 && given.is_finite() { Ok(given) } else { Err(Error::NotPositive { what, given }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(name: &str) -> Slice {
        name.parse().unwrap()
    }

    #[test]
    fn dollars_follow_from_hours() {
        let step = BilledStep { seconds: 2.0, tokens: Some(1000.0) };
        let tariff = Tariff { usd_per_chip_hour: Some(1.8), ..Tariff::default() };
        let cost = RunCost::of(&slice("v5e-4"), step, RunLength::Tokens(1_000_000.0), &tariff).unwrap();
        assert_eq!((cost.chips, cost.steps), (4, Some(1000.0)));
        let terms = &cost.terms[0];
        // 4 chips at 1.8 dollars an hour are 0.002 dollars a second.
        assert!((terms.usd_per_step - 0.004).abs() < 1e-12);
        assert!((terms.usd_per_million_tokens.unwrap() - 4.0).abs() < 1e-9);
        assert!((terms.usd_per_run.unwrap() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn published_prices_by_region() {
        let step = BilledStep { seconds: 1.0, tokens: None };
        let at = |region: Option<&str>, name: &str| {
            let tariff = Tariff { region: region.map(str::to_string), ..Tariff::default() };
            RunCost::of(&slice(name), step, RunLength::Unknown, &tariff)
        };
        let cost = at(Some("europe-west4"), "v5e-4").unwrap();
        let spec = slice("v5e-4").spec().price(PriceKind::OnDemand, Some("europe-west4")).unwrap().usd_per_chip_hour;
        assert_eq!((cost.terms[0].name, cost.terms[0].usd_per_chip_hour), ("on demand", spec));
        assert!(!cost.terms[0].date.is_empty() && cost.terms.iter().any(|terms| terms.name == "spot"));
        match at(Some("mars-north1"), "v5e-4") {
            Err(error @ Error::UnknownRegion { .. }) => assert!(error.remedy().contains("us-west4"), "{error}"),
            other => panic!("{other:?}"),
        }
        let unpriced = at(None, "tpu7x-8").unwrap();
        assert!(unpriced.terms.is_empty() && unpriced.note.unwrap().contains("no price"));
    }

    #[test]
    fn what_is_not_positive_is_refused() {
        let step = BilledStep { seconds: 1.0, tokens: None };
        let cost = |run, usd| {
            let tariff = Tariff { usd_per_chip_hour: usd, ..Tariff::default() };
            tariff.check(&slice("v5e-4")).and_then(|()| RunCost::of(&slice("v5e-4"), step, run, &tariff))
        };
        assert!(matches!(cost(RunLength::Steps(0.0), None), Err(Error::NotPositive { .. })));
        assert!(matches!(cost(RunLength::Unknown, Some(-1.0)), Err(Error::NotPositive { .. })));
        assert!(matches!(cost(RunLength::Tokens(1e9), None), Err(Error::TokensUnknown)));
    }
}
