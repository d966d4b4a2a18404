//! Mixed precision: which layer gets how many bits under a budget of bytes or of error.

use crate::error::Error;

/// Places of the table that the search fills, over all layers.
const MAX_PLACES: usize = 1 << 26;

/// Units that a budget is cut into.
const MAX_UNITS: usize = 1 << 16;

/// One way to quantize a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitsChoice {
    /// Bits of a weight, to tell choices apart.
    pub bits: f64,
    /// Bytes that the layer takes.
    pub bytes: u64,
    /// What it costs in quality; errors of layers are added.
    pub error: f64,
}

/// The ways to quantize a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerChoices {
    /// The layer.
    pub layer: String,
    /// At least one.
    pub choices: Vec<BitsChoice>,
}

/// What must not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Bytes of all layers; the error becomes least.
    Bytes(u64),
    /// The error of all layers; the bytes become least.
    Error(f64),
}

/// A choice for each layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Indices of choices, in the order of the layers.
    pub choices: Vec<usize>,
    /// Bytes of all layers.
    pub bytes: u64,
    /// The error of all layers.
    pub error: f64,
    /// Whether the budget is kept; else this is the assignment that comes nearest to it.
    pub is_within_budget: bool,
}

/// What is counted of a choice.
type Figure = fn(&BitsChoice) -> f64;

/// The best choice for each layer under a budget: exact where the budget's unit, a 65,536th, tells choices apart.
pub fn assign(layers: &[LayerChoices], budget: Budget) -> Result<Assignment, Error> {
    for layer in layers {
        if layer.choices.is_empty() {
            return Err(Error::layer(
                &layer.layer,
                "it has no choices",
                "give each layer a choice, the present one at least",
            ));
        }
        if let Some(choice) = layer.choices.iter().find(|choice| !(choice.error.is_finite() && choice.error >= 0.0)) {
            let message = format!("its error with {} bits is {}", choice.bits, choice.error);
            return Err(Error::layer(&layer.layer, message, "give errors that are finite and not under zero"));
        }
    }
    if matches!(budget, Budget::Error(error) if error.is_nan()) {
        return Err(Error::setting("the budget of error is NaN", "give a number"));
    }
    // What is limited, and what becomes least.
    let (limited, least): (Figure, Figure) = match budget {
        Budget::Bytes(_) => (|choice| choice.bytes as f64, |choice| choice.error),
        Budget::Error(_) => (|choice| choice.error, |choice| choice.bytes as f64),
    };
    let limit = match budget {
        Budget::Bytes(bytes) => bytes as f64,
        Budget::Error(error) => error,
    };
    // The cheapest way, which the others add to; of equal ones the better.
    let order = |a: &BitsChoice, b: &BitsChoice| limited(a).total_cmp(&limited(b)).then(least(a).total_cmp(&least(b)));
    let cheapest: Vec<usize> = layers
        .iter()
        .map(|layer| (0..layer.choices.len()).min_by(|a, b| order(&layer.choices[*a], &layer.choices[*b])).unwrap_or(0))
        .collect();
    let total = |choices: &[usize], of: fn(&BitsChoice) -> f64| -> f64 {
        layers.iter().zip(choices).map(|(layer, choice)| of(&layer.choices[*choice])).sum()
    };
    let slack = limit - total(&cheapest, limited);
    let mut choices = cheapest.clone();
    if slack > 0.0 {
        choices = search(layers, &cheapest, slack, limited, least);
        improve(layers, &mut choices, limit, limited, least);
    }
    let bytes =
        layers.iter().zip(&choices).fold(0u64, |sum, (layer, choice)| sum.saturating_add(layer.choices[*choice].bytes));
    let error = total(&choices, |choice| choice.error);
    Ok(Assignment { is_within_budget: total(&choices, limited) <= limit, choices, bytes, error })
}

/// Dynamic programming over layers and over units of what the budget leaves beyond the cheapest choices; costs are
/// rounded up to units, so that the budget is kept.
fn search(
    layers: &[LayerChoices],
    cheapest: &[usize],
    slack: f64,
    limited: fn(&BitsChoice) -> f64,
    least: fn(&BitsChoice) -> f64,
) -> Vec<usize> {
    let units = MAX_UNITS.min(MAX_PLACES / layers.len().max(1)).max(1);
    // More than all choices can take need not be told apart.
    let most: f64 = layers
        .iter()
        .zip(cheapest)
        .map(|(layer, cheapest)| {
            let extra = layer.choices.iter().map(|choice| limited(choice) - limited(&layer.choices[*cheapest]));
            extra.fold(0.0, f64::max)
        })
        .sum();
    let slack = slack.min(most);
    // A unit of one byte is exact.
    let unit = (slack / units as f64).max(f64::MIN_POSITIVE);
    let unit = if slack.fract() == 0.0 && slack <= units as f64 && most.fract() == 0.0 { 1.0 } else { unit };
    let places = ((slack / unit).floor() as usize).min(units) + 1;
    let mut best = vec![0.0f64; places];
    let mut picked: Vec<Vec<u8>> = Vec::with_capacity(layers.len());
    let cost = |layer: &LayerChoices, choice: usize, cheapest: usize| -> usize {
        let extra = limited(&layer.choices[choice]) - limited(&layer.choices[cheapest]);
        // As a number of units it is at most the largest of the type.
        (extra / unit).ceil() as usize
    };
    for (layer, cheapest) in layers.iter().zip(cheapest) {
        let mut next = vec![f64::INFINITY; places];
        let mut pick = vec![0u8; places];
        for (choice, values) in layer.choices.iter().enumerate().take(usize::from(u8::MAX) + 1) {
            let cost = cost(layer, choice, *cheapest);
            for place in cost.min(places)..places {
                let value = best[place - cost] + least(values);
                if value < next[place] {
                    (next[place], pick[place]) = (value, choice as u8);
                }
            }
        }
        best = next;
        picked.push(pick);
    }
    let mut choices = cheapest.to_vec();
    let mut place = places - 1;
    for (number, layer) in layers.iter().enumerate().rev() {
        let choice = usize::from(picked[number][place]);
        choices[number] = choice;
        place = place.saturating_sub(cost(layer, choice, cheapest[number]));
    }
    choices
}

/// Spends what rounding to units has left: the change that gains most, as long as one fits.
fn improve(
    layers: &[LayerChoices],
    choices: &mut [usize],
    limit: f64,
    limited: fn(&BitsChoice) -> f64,
    least: fn(&BitsChoice) -> f64,
) {
    let mut used: f64 = layers.iter().zip(&*choices).map(|(layer, choice)| limited(&layer.choices[*choice])).sum();
    // Each change gains, so that no choice comes back; the bound is for gains that rounding makes.
    for _ in 0..layers.len().saturating_mul(8) {
        let mut best: Option<(f64, usize, usize)> = None;
        for (number, layer) in layers.iter().enumerate() {
            let now = &layer.choices[choices[number]];
            for (index, choice) in layer.choices.iter().enumerate() {
                let gain = least(now) - least(choice);
                let fits = used - limited(now) + limited(choice) <= limit;
                if gain > 0.0 && fits && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, number, index));
                }
            }
        }
        let Some((_, number, index)) = best else { return };
        let layer = &layers[number];
        used += limited(&layer.choices[index]) - limited(&layer.choices[choices[number]]);
        choices[number] = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::random::Random;

    fn layers(count: usize, seed: u64) -> Vec<LayerChoices> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|n| {
                let (size, sensitivity) = (100 + random.below(900), random.uniform() + 0.01);
                let choices = [2.0, 3.0, 4.0, 8.0].map(|bits: f64| BitsChoice {
                    bits,
                    bytes: (size as f64 * bits) as u64,
                    error: sensitivity * 4f64.powf(-bits) * (1.0 + random.uniform()),
                });
                LayerChoices { layer: format!("layers.{n}"), choices: choices.to_vec() }
            })
            .collect()
    }

    fn brute_force(layers: &[LayerChoices], budget: Budget) -> Option<(f64, f64)> {
        let mut best: Option<(f64, f64)> = None;
        for number in 0..4usize.pow(layers.len() as u32) {
            let picked = layers.iter().enumerate().map(|(n, layer)| &layer.choices[number / 4usize.pow(n as u32) % 4]);
            let (bytes, error) = picked.fold((0.0, 0.0), |(b, e), choice| (b + choice.bytes as f64, e + choice.error));
            let (limited, least, limit) = match budget {
                Budget::Bytes(limit) => (bytes, error, limit as f64),
                Budget::Error(limit) => (error, bytes, limit),
            };
            if limited <= limit && best.is_none_or(|(_, most)| least < most) {
                best = Some((limited, least));
            }
        }
        best
    }

    #[test]
    fn assignments_equal_brute_force() {
        for seed in 0..20 {
            let layers = layers(6, seed);
            let least: u64 = layers.iter().map(|layer| layer.choices[0].bytes).sum();
            for share in [1.0, 1.2, 1.7, 2.5, 4.0, 9.0] {
                let budget = Budget::Bytes((least as f64 * share) as u64);
                let found = assign(&layers, budget).unwrap();
                let (_, error) = brute_force(&layers, budget).unwrap();
                assert!(found.is_within_budget && (found.error / error - 1.0).abs() < 1e-9, "{seed} {share}");
            }
            for limit in [1.0, 0.1, 0.01, 0.001] {
                let found = assign(&layers, Budget::Error(limit)).unwrap();
                match brute_force(&layers, Budget::Error(limit)) {
                    Some((_, bytes)) => {
                        assert!(found.is_within_budget && found.bytes as f64 <= bytes * 1.001, "{seed} {limit}");
                    }
                    None => assert!(!found.is_within_budget),
                }
            }
        }
    }

    #[test]
    fn large_models_keep_their_budget() {
        let mut layers = layers(600, 1);
        layers.iter_mut().flat_map(|layer| &mut layer.choices).for_each(|choice| choice.bytes *= 1_000_003);
        let all: u64 = layers.iter().map(|layer| layer.choices[3].bytes).sum();
        let found = assign(&layers, Budget::Bytes(all / 2)).unwrap();
        assert!(found.is_within_budget && found.bytes <= all / 2 && found.bytes > all / 2 - all / 1000);
        // Better than the same bits everywhere.
        let four: f64 = layers.iter().map(|layer| layer.choices[2].error).sum();
        assert!(found.error < four, "{} and {four}", found.error);
    }

    #[test]
    fn budgets_that_cannot_be_kept_give_the_nearest() {
        let layers = layers(3, 1);
        let found = assign(&layers, Budget::Bytes(1)).unwrap();
        assert_eq!((found.choices, found.is_within_budget), (vec![0, 0, 0], false));
        assert!(assign(&layers, Budget::Error(-1.0)).is_ok_and(|found| !found.is_within_budget));
        assert!(assign(&layers, Budget::Error(f64::INFINITY)).is_ok_and(|found| found.is_within_budget));
        assert!(assign(&layers, Budget::Error(f64::NAN)).is_err());
        assert!(assign(&[], Budget::Bytes(0)).is_ok_and(|found| found.is_within_budget));
        let empty = LayerChoices { layer: "a".into(), choices: vec![] };
        assert_eq!(assign(&[empty], Budget::Bytes(0)).unwrap_err().to_string(), "layer `a`: it has no choices");
        let nan = BitsChoice { bits: 4.0, bytes: 1, error: f64::NAN };
        assert!(assign(&[LayerChoices { layer: "a".into(), choices: vec![nan] }], Budget::Bytes(9)).is_err());
    }
}
