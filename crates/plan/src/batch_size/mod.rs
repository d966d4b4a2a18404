//! The best batch of a training step: batches are tried by doubling, then between the largest that fits and the smallest
//! that does not. What a trial is, a measured step or a compilation for a slice, is the caller's.

mod compiled;

use serde::Serialize;

pub use compiled::{BatchPlan, BatchRequest, BatchSplit, DEFAULT_HEADROOM, find_batch_size};

/// Which batches are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchSearch {
    /// The first batch tried; larger and smaller ones follow from it.
    pub first: u64,
    /// Every batch is a multiple of this: parts of accumulated gradients, devices that share a batch.
    pub multiple_of: u64,
    /// No batch above this is tried.
    pub largest: u64,
    /// Trials in all.
    pub max_trials: usize,
    /// When larger batches are not worth trying.
    pub growth: Growth,
}

/// When larger batches are not worth trying.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// They always are: the largest that fits is wanted.
    UntilRefused,
    /// Once two doublings in a row brought less than this share of speed.
    UntilFlat(f64),
}

impl BatchSearch {
    /// From a batch on: at most 16 trials, until memory refuses.
    pub fn from_batch(first: u64) -> BatchSearch {
        BatchSearch { first, multiple_of: 1, largest: 1 << 20, max_trials: 16, growth: Growth::UntilRefused }
    }
}

/// What one batch came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Examples in a step, on all devices together.
    pub batch: u64,
    /// Whether it can be used.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
    /// Device memory it needs, where that is known.
    pub needed_bytes: Option<u64>,
    /// Device memory there is.
    pub limit_bytes: Option<u64>,
    /// Seconds of a step.
    pub step_seconds: Option<f64>,
}

/// Whether a batch can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "why", rename_all = "snake_case")]
pub enum TrialOutcome {
    /// It fits, with the headroom asked for.
    Fits,
    /// Memory does not hold it.
    TooLarge(String),
    /// The compiler gave up on it, though smaller batches went through.
    Failed(String),
}

impl Trial {
    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.outcome == TrialOutcome::Fits
    }

    /// Examples per second; `None` for a batch that does not fit.
    pub fn examples_per_second(&self) -> Option<f64> {
        let seconds = self.step_seconds.filter(|seconds| *seconds > 0.0 && self.fits())?;
        Some(self.batch as f64 / seconds)
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchSizes {
    /// Every batch tried, smallest first.
    pub trials: Vec<Trial>,
    /// The largest batch that fits.
    pub largest: Option<u64>,
    /// The smallest batch as fast as any, within a hundredth.
    pub fastest: Option<u64>,
    /// Why larger batches were not tried.
    pub ended: SearchEnd,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// Memory refuses larger batches.
    Memory,
    /// Larger batches bring no speed.
    Flat,
    /// The largest batch of the question was reached.
    Largest,
    /// No trials were left.
    Trials,
}

/// Two batches are as fast as each other within this share.
const SAME_SPEED: f64 = 0.01;
/// The gap between what fits and what does not is closed to this part of the batch.
const CLOSE_ENOUGH: u64 = 8;

/// Tries batches until the largest that fits and the fastest are known. An error of a trial ends the search.
pub fn search_batch_sizes<E>(
    search: &BatchSearch,
    trial: &mut dyn FnMut(u64) -> Result<Trial, E>,
) -> Result<BatchSizes, E> {
    let unit = search.multiple_of.max(1);
    let whole = |batch: u64| (batch / unit).max(1).saturating_mul(unit);
    let top = whole(search.largest);
    let mut trials: Vec<Trial> = Vec::new();
    let (mut fits, mut refused): (Option<u64>, Option<u64>) = (None, None);
    let mut next = Some(whole(search.first).min(top));
    let mut ended = SearchEnd::Trials;
    while let Some(batch) = next {
        if trials.len() >= search.max_trials.max(1) {
            ended = SearchEnd::Trials;
            break;
        }
        let result = trial(batch)?;
        if result.fits() {
            fits = fits.max(Some(batch));
        } else {
            refused = Some(refused.map_or(batch, |least| least.min(batch)));
        }
        trials.push(result);
        trials.sort_by_key(|trial| trial.batch);
        next = match (fits, refused) {
            (Some(_), None) if is_flat(&trials, search.growth) => {
                ended = SearchEnd::Flat;
                None
            }
            (Some(most), None) if most >= top => {
                ended = SearchEnd::Largest;
                None
            }
            (Some(most), None) => Some(whole(most.saturating_mul(2)).min(top)),
            (None, Some(least)) => {
                ended = SearchEnd::Memory;
                (least > unit).then(|| whole(least / 2))
            }
            (Some(most), Some(least)) => {
                ended = SearchEnd::Memory;
                let middle = whole(most + (least - most) / 2);
                (middle > most && least - most > most / CLOSE_ENOUGH).then_some(middle)
            }
            (None, None) => None,
        };
    }
    Ok(BatchSizes { fastest: fastest(&trials), largest: fits, trials, ended })
}

/// Whether the last two steps up brought less than they should.
fn is_flat(trials: &[Trial], growth: Growth) -> bool {
    let Growth::UntilFlat(share) = growth else { return false };
    let rates: Vec<f64> = trials.iter().filter_map(Trial::examples_per_second).collect();
    let Some([first, second, third]) = rates.last_chunk::<3>() else { return false };
    second.max(*third) < first * (1.0 + share)
}

fn fastest(trials: &[Trial]) -> Option<u64> {
    let best = trials.iter().filter_map(Trial::examples_per_second).fold(0.0, f64::max);
    let is_as_fast = |trial: &&Trial| trial.examples_per_second().is_some_and(|rate| rate >= best * (1.0 - SAME_SPEED));
    trials.iter().find(is_as_fast).map(|trial| trial.batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that holds `room` examples and whose steps take `fixed` seconds and one for each example.
    fn search(options: &BatchSearch, room: u64, fixed: f64) -> (BatchSizes, Vec<u64>) {
        let mut tried = Vec::new();
        let found = search_batch_sizes(options, &mut |batch| {
            tried.push(batch);
            let outcome = if batch <= room { TrialOutcome::Fits } else { TrialOutcome::TooLarge("full".into()) };
            let step_seconds = Some(fixed + batch as f64);
            Ok::<_, ()>(Trial { batch, outcome, needed_bytes: None, limit_bytes: None, step_seconds })
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn doubling_then_halving_the_gap_finds_what_fits() {
        let (found, tried) = search(&BatchSearch::from_batch(4), 100, 1000.0);
        assert_eq!(tried, [4, 8, 16, 32, 64, 128, 96, 112, 104]);
        assert_eq!((found.largest, found.fastest, found.ended), (Some(96), Some(96), SearchEnd::Memory));
        // From above.
        let (found, tried) = search(&BatchSearch::from_batch(64), 5, 1000.0);
        assert_eq!(tried, [64, 32, 16, 8, 4, 6, 5]);
        assert_eq!(found.largest, Some(5));
    }

    #[test]
    fn batches_keep_their_multiple() {
        let options = BatchSearch { multiple_of: 6, ..BatchSearch::from_batch(7) };
        let (found, tried) = search(&options, 40, 1000.0);
        assert_eq!(tried, [6, 12, 24, 48, 36, 42]);
        assert_eq!(found.largest, Some(36));
    }

    #[test]
    fn nothing_fits_or_everything_does() {
        let (found, tried) = search(&BatchSearch::from_batch(3), 0, 1.0);
        assert_eq!((found.largest, found.fastest, tried.as_slice()), (None, None, &[3, 1][..]));
        let (found, _) = search(&BatchSearch { largest: 50, ..BatchSearch::from_batch(1) }, 1 << 40, 1000.0);
        assert_eq!((found.largest, found.ended), (Some(50), SearchEnd::Largest));
        let (found, tried) = search(&BatchSearch { max_trials: 3, ..BatchSearch::from_batch(1) }, 1 << 40, 1.0);
        assert_eq!((found.largest, found.ended, tried.len()), (Some(4), SearchEnd::Trials, 3));
        // Absurd questions end.
        let all =
            BatchSearch { first: u64::MAX, multiple_of: u64::MAX, largest: u64::MAX, ..BatchSearch::from_batch(1) };
        assert_eq!(search(&all, u64::MAX, 1.0).0.ended, SearchEnd::Largest);
        assert_eq!(search(&BatchSearch { first: 0, multiple_of: 0, max_trials: 0, ..all }, 9, 1.0).1, [1]);
    }

    #[test]
    fn flat_speed_ends_the_search_and_the_smallest_of_equals_is_named() {
        let options = BatchSearch { growth: Growth::UntilFlat(0.05), ..BatchSearch::from_batch(1) };
        let (found, tried) = search(&options, 1 << 40, 4.0);
        assert_eq!((tried.last(), found.ended), (Some(&256), SearchEnd::Flat));
        // 256 gives 0.985 of a second's example, 128 gives 0.97: only 256 is within a hundredth.
        assert_eq!(found.fastest, Some(256));
        let (found, _) = search(&options, 1 << 40, 0.001);
        assert_eq!((found.fastest, found.largest), (Some(1), Some(4)));
    }
}
