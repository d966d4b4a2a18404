//! Whether a change gains more than the estimate's error.
//!
//! Two estimates of nearly the same program have nearly the same error, which cancels. What does not cancel is the error of what
//! changed: time that went away from one bound, and time that came to another. Its share is that of the estimator on programs nobody
//! tuned it to.

use super::TuneMeasure;
use crate::estimate::Share;

/// The estimator's p90 error on programs that it was not fitted to (`docs/accuracy.md`).
const ERROR: f64 = 0.13;
/// A gain smaller than this share of a step is none.
const LEAST: f64 = 0.005;
/// A program that saves this share of its memory at the same speed is better too.
const LEAST_MEMORY: f64 = 0.05;

/// A program that does not fit may lose this share of its speed on the way to one that does.
const MOST_LOSS: f64 = 0.1;

/// What a change is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) gain_s: f64,
    pub(super) error_s: f64,
    pub(super) is_better: bool,
}

/// Compares two estimates.
pub(super) fn judge(before: &TuneMeasure, after: &TuneMeasure) -> Judgement {
    let gain_s = before.step.seconds - after.step.seconds;
    let error_s = (ERROR * moved(&before.shares, &after.shares)).max(LEAST * before.step.seconds);
    let fits_now = after.fits && !before.fits;
    let is_smaller = after.hbm_bytes as f64 <= before.hbm_bytes as f64 * (1.0 - LEAST_MEMORY);
    let most_loss = if before.fits { LEAST } else { MOST_LOSS };
    let is_as_fast = gain_s >= -most_loss * before.step.seconds;
    let may = after.fits || !before.fits;
    let is_better = may && (gain_s > error_s || fits_now && gain_s > -before.step.seconds || is_smaller && is_as_fast);
    Judgement { gain_s, error_s, is_better }
}

/// Seconds that went away from a bound or came to one.
fn moved(before: &[Share], after: &[Share]) -> f64 {
    let of = |shares: &[Share], share: &Share| {
        shares.iter().filter(|other| other.bound == share.bound).map(|other| other.seconds).sum::<f64>()
    };
    let gone: f64 = before.iter().map(|share| (share.seconds - of(after, share)).abs()).sum();
    let come: f64 = after.iter().filter(|share| of(before, share) == 0.0).map(|share| share.seconds).sum();
    gone + come
}

#[cfg(test)]
mod tests {
    use compile::CompileMode;

    use super::*;
    use crate::estimate::StepTime;
    use crate::op_time::Bound;

    fn measure(matmul: f64, memory: f64, hbm_bytes: u64, fits: bool) -> TuneMeasure {
        let seconds = matmul + memory;
        let share = |bound, seconds: f64| Share { bound, seconds, share: 0.0 };
        TuneMeasure {
            step: StepTime { seconds, low_s: seconds, high_s: seconds },
            hbm_bytes,
            limit_bytes: 100,
            fits,
            mode: CompileMode::Quick,
            shares: vec![share(Bound::Matrix, matmul), share(Bound::Hbm, memory)],
        }
    }

    #[test]
    fn gains_within_the_error_of_what_moved_are_none() {
        let before = measure(0.06, 0.04, 90, true);
        assert!(judge(&before, &measure(0.06, 0.02, 90, true)).is_better);
        // 20 ms less here and 18 ms more there: the estimator cannot tell.
        let unsure = judge(&before, &measure(0.078, 0.02, 90, true));
        assert!(!unsure.is_better && unsure.gain_s > 0.0 && unsure.error_s > unsure.gain_s);
        assert!(!judge(&before, &measure(0.06, 0.0399, 90, true)).is_better);
        assert!(!judge(&before, &measure(0.05, 0.02, 110, false)).is_better, "what fits may not overflow");
    }

    #[test]
    fn memory_counts_too() {
        let before = measure(0.06, 0.04, 90, true);
        assert!(judge(&before, &measure(0.06, 0.04, 80, true)).is_better);
        assert!(!judge(&before, &measure(0.07, 0.04, 80, true)).is_better);
        let too_large = measure(0.06, 0.04, 120, false);
        assert!(judge(&too_large, &measure(0.07, 0.05, 95, true)).is_better);
        // On the way to fitting memory is worth a little time.
        assert!(judge(&too_large, &measure(0.065, 0.04, 110, false)).is_better);
        assert!(!judge(&too_large, &measure(0.08, 0.04, 110, false)).is_better);
    }
}
