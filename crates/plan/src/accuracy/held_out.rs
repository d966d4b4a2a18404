//! How well rows are predicted that the constants were not fitted on: each family in turn is left out, the fitted constants are
//! chosen by the others, and its rows are predicted with those.

use std::collections::BTreeMap;

use chips::{Generation, Slice};
use serde::{Deserialize, Serialize};
use xla::{Executions, HloModule};

use super::Summary;
use crate::machine::{FittedConstants, Machine};
use crate::simulate::simulate;

/// A measured run with its compiled program: what a fit needs.
pub struct FitSample {
    /// Name of the row.
    pub id: String,
    /// Seconds that were measured.
    pub measured_s: f64,
    pub(super) slice: Slice,
    pub(super) devices: Vec<u64>,
    pub(super) module: HloModule,
    pub(super) executions: Executions,
}

/// A row that was predicted with constants chosen without its family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOutRow {
    /// Name of the row.
    pub id: String,
    /// Seconds that were measured.
    pub measured_s: f64,
    /// Seconds predicted.
    pub step_s: f64,
    /// Lower end of the range, from the errors of the other families.
    pub low_s: f64,
    /// Upper end of the range, likewise.
    pub high_s: f64,
}

/// What leaving one family out after the other says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// Rows, by name.
    pub rows: Vec<HeldOutRow>,
    /// Constants that were chosen without a family, by its name.
    pub constants: BTreeMap<String, FittedConstants>,
    /// Constants that all rows together would choose.
    pub all: FittedConstants,
}

impl HeldOutRow {
    /// How far the prediction is off, as a share of the measurement.
    pub fn error(&self) -> f64 {
        self.step_s / self.measured_s - 1.0
    }

    /// Whether the range holds the measurement.
    pub fn is_inside(&self) -> bool {
        (self.low_s..=self.high_s).contains(&self.measured_s)
    }
}

impl HeldOut {
    /// Errors of all rows.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(self.rows.iter().map(HeldOutRow::error))
    }

    /// Share of the rows whose range holds the measurement.
    pub fn coverage(&self) -> f64 {
        self.rows.iter().filter(|row| row.is_inside()).count() as f64 / self.rows.len().max(1) as f64
    }
}

/// The family of models that a row belongs to, by its name.
pub fn family(id: &str) -> &'static str {
    const FAMILIES: [&str; 11] =
        ["llama4", "llama3", "llama2", "gemma4", "gemma3", "gpt-oss", "gpt3", "mixtral", "deepseek", "qwen3", "grok"];
    let id = id.to_lowercase();
    FAMILIES.into_iter().find(|family| id.contains(family)).unwrap_or("maxtext-2023")
}

/// Steps away from a constant, as factors, at which a row's time is looked at.
const FACTORS: [f64; 5] = [0.75, 0.88, 1.0, 1.14, 1.33];
/// Factors a fit may choose: finer, within the same bounds.
const CHOICES: i32 = 24;
/// What a constant costs for leaving its default, in log errors of one row: few rows must not move it far.
const PULL: f64 = 0.15;

/// How a row's time follows the constants: the logarithm of its time at each factor of each constant, less that at none.
struct Response {
    family: &'static str,
    log_ratio: f64,
    /// By constant; `None` where the row does not depend on it.
    curves: Vec<Option<[f64; FACTORS.len()]>>,
}

impl Response {
    fn of(sample: &FitSample) -> Response {
        let at = |constants: &FittedConstants| sample.seconds(constants).max(1e-30).ln();
        let usual = FittedConstants::default();
        let base = at(&usual);
        let curve = |index: usize| {
            if !FittedConstants::concerns(index, sample.slice.generation()) {
                return None;
            }
            let curve = FACTORS.map(|factor| if factor == 1.0 { 0.0 } else { at(&usual.scaled(index, factor)) - base });
            curve.iter().any(|change| change.abs() > 1e-6).then_some(curve)
        };
        Response {
            family: family(&sample.id),
            log_ratio: base - sample.measured_s.ln(),
            curves: (0..FittedConstants::COUNT).map(curve).collect(),
        }
    }

    /// The logarithm of predicted over measured time with factors on all constants; effects add up.
    fn error(&self, factors: &[f64; FittedConstants::COUNT]) -> f64 {
        let changes =
            self.curves.iter().zip(factors).filter_map(|(curve, factor)| Some(between(curve.as_ref()?, *factor)));
        self.log_ratio + changes.sum::<f64>()
    }
}

/// A curve at a factor, on straight lines between the points.
fn between(curve: &[f64; FACTORS.len()], factor: f64) -> f64 {
    let above = FACTORS.iter().position(|at| *at >= factor).unwrap_or(FACTORS.len() - 1).max(1);
    let (from, to) = (FACTORS[above - 1].ln(), FACTORS[above].ln());
    let share = ((factor.ln() - from) / (to - from)).clamp(0.0, 1.0);
    curve[above - 1] + (curve[above] - curve[above - 1]) * share
}

/// The factors that make the sum of absolute log errors least, one constant after the other.
fn fit(responses: &[&Response]) -> [f64; FittedConstants::COUNT] {
    let mut factors = [1.0; FittedConstants::COUNT];
    let cost = |factors: &[f64; FittedConstants::COUNT]| {
        let errors: f64 = responses.iter().map(|response| response.error(factors).abs()).sum();
        errors + PULL * factors.iter().map(|factor| factor.ln().abs()).sum::<f64>()
    };
    let (first, last) = (FACTORS[0].ln(), FACTORS[FACTORS.len() - 1].ln());
    for _ in 0..8 {
        for index in 0..FittedConstants::COUNT {
            let choices = (0..=CHOICES).map(|n| (first + (last - first) * f64::from(n) / f64::from(CHOICES)).exp());
            let with = |choice: f64| {
                let mut tried = factors;
                tried[index] = choice;
                (cost(&tried), choice)
            };
            let best = choices
                .map(with)
                .fold((cost(&factors), factors[index]), |best, next| if next.0 < best.0 { next } else { best });
            factors[index] = best.1;
        }
    }
    factors
}

impl FitSample {
    /// The step with some constants.
    fn seconds(&self, constants: &FittedConstants) -> f64 {
        let machine = Machine::with_constants(&self.slice, constants);
        simulate(&self.module, &self.executions, &machine, &self.devices).seconds
    }
}

/// Leaves one family out after the other. Takes a score of simulations for each row.
pub fn leave_one_out(samples: &[FitSample], mut progress: impl FnMut(&str)) -> HeldOut {
    let responses: Vec<Response> = samples
        .iter()
        .enumerate()
        .map(|(index, sample)| {
            progress(&format!("{} of {}, {}", index + 1, samples.len(), sample.id));
            Response::of(sample)
        })
        .collect();
    let without = |family: &str| fit(&responses.iter().filter(|other| other.family != family).collect::<Vec<_>>());
    let usual = FittedConstants::default();
    let chosen = |factors: [f64; FittedConstants::COUNT]| {
        factors.iter().enumerate().fold(usual, |constants, (index, factor)| constants.scaled(index, *factor))
    };
    let mut constants: BTreeMap<String, FittedConstants> = BTreeMap::new();
    for response in &responses {
        if !constants.contains_key(response.family) {
            progress(&format!("without {}", response.family));
            constants.insert(response.family.into(), chosen(without(response.family)));
        }
    }
    let mut rows: Vec<(&'static str, HeldOutRow)> = samples
        .iter()
        .zip(&responses)
        .map(|(sample, response)| {
            let step_s = sample.seconds(&constants[response.family]);
            let row = HeldOutRow {
                id: sample.id.clone(),
                measured_s: sample.measured_s,
                step_s,
                low_s: step_s,
                high_s: step_s,
            };
            (response.family, row)
        })
        .collect();
    let ratios: Vec<(&'static str, f64)> =
        rows.iter().map(|(family, row)| (*family, row.measured_s / row.step_s)).collect();
    for (family, row) in &mut rows {
        let others = ratios.iter().filter(|(other, _)| other != family).map(|(_, ratio)| *ratio);
        let (low, high) = p10_to_p90(others);
        (row.low_s, row.high_s) = (row.step_s * low, row.step_s * high);
    }
    let mut rows: Vec<HeldOutRow> = rows.into_iter().map(|(_, row)| row).collect();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    HeldOut { rows, constants, all: chosen(fit(&responses.iter().collect::<Vec<_>>())) }
}

/// Measured over predicted time of rows that were held out: one in ten is below, one in ten above.
pub fn p10_to_p90(ratios: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut ratios: Vec<f64> = ratios.into_iter().filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let Some(last) = ratios.len().checked_sub(1) else { return (1.0, 1.0) };
    let at = |share: f64| {
        // Ranks as of a sample that stands for more: a little further out than its own.
        let place = (share * (last as f64 + 2.0) - 1.0).clamp(0.0, last as f64);
        let (below, above) = (ratios[place.floor() as usize], ratios[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    (at(0.1), at(0.9))
}

/// Whether a generation has constants of its own among the fitted ones.
impl FittedConstants {
    fn concerns(index: usize, generation: Generation) -> bool {
        match index {
            0 => !matches!(generation, Generation::V6e | Generation::Tpu7x),
            1 | 3 => generation == Generation::V6e,
            2 => generation == Generation::Tpu7x,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_families() {
        for (id, expected) in [
            ("recipe-Llama3.1-8B-MaxText/v6e-8", "llama3"),
            ("recipe-v5p-Llama4-Scout-17B-16E-Maxtext", "llama4"),
            ("ironwood-gpt-oss-120b/8k-bf16-tpu7x-4x4x4", "gpt-oss"),
            ("recipe-v5p-GPT3-175B-MaxText", "gpt3"),
            ("maxtext-logs-deepseek2-16b-v5p-8", "deepseek"),
            ("maxtext-v5e-2023-16b-1x", "maxtext-2023"),
        ] {
            assert_eq!(family(id), expected, "{id}");
        }
    }

    /// Rows whose time is inversely proportional to one constant, all 10 % too fast but those of one family.
    #[test]
    fn a_fit_finds_what_most_rows_want() {
        let row = |family: &'static str, log_ratio: f64| Response {
            family,
            log_ratio,
            curves: (0..FittedConstants::COUNT)
                .map(|index| (index == 1).then(|| FACTORS.map(|factor| -factor.ln())))
                .collect(),
        };
        let rows: Vec<Response> =
            (0..6).map(|n| row(if n < 4 { "a" } else { "b" }, if n < 4 { -0.1 } else { 0.1 })).collect();
        let of = |left_out: &str| fit(&rows.iter().filter(|row| row.family != left_out).collect::<Vec<_>>())[1];
        assert!(of("b") < 0.93 && of("a") > 1.05, "{} {}", of("b"), of("a"));
        assert_eq!(fit(&[]), [1.0; FittedConstants::COUNT]);
        assert_eq!(between(&[-2.0, -1.0, 0.0, 1.0, 2.0], 1.33), 2.0);
        assert_eq!(between(&[-2.0, -1.0, 0.0, 1.0, 2.0], 0.5), -2.0);
    }

    #[test]
    fn ranges_hold_eight_of_ten() {
        let ratios: Vec<f64> = (0..101).map(|n| 0.5 + f64::from(n) / 100.0).collect();
        let (low, high) = p10_to_p90(ratios.iter().copied());
        let inside = ratios.iter().filter(|ratio| (low..=high).contains(*ratio)).count();
        assert!((78..=84).contains(&inside), "{inside}");
        assert_eq!(p10_to_p90([]), (1.0, 1.0));
    }
}
