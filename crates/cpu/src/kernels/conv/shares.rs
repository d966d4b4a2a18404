//! Convolutions whose input features are shared out: a large window with few outputs, as in the gradient of a filter.
//!
//! Cut by outputs, threads would wait for each other after every block of the window. Here each has its own features and sums
//! of its own, which are added at the end.
#![allow(unsafe_code)]

use super::super::Cores;
use super::block::Number;
use super::scratch::{Loan, Piece};
use super::shape::Problem;
use super::{Address, WORTH_A_THREAD};

/// The sums of all shares stay below this, a part of L2.
const SUMS_BYTES: usize = 512 << 10;

/// Into how many shares a problem is cut; one where it is not worth it. The output is dense.
pub(super) fn shares<T>(problem: &Problem, threads: usize) -> usize {
    let outputs = outputs(problem);
    let is_large = problem.taps() >= 4 * problem.pixels() && problem.size() >= 2 * WORTH_A_THREAD;
    let shares = (2 * threads).min(problem.inputs);
    let sums = outputs.saturating_mul(shares).saturating_mul(size_of::<T>());
    if threads > 1 && shares >= threads && is_large && sums <= SUMS_BYTES { shares } else { 1 }
}

fn outputs(problem: &Problem) -> usize {
    [problem.groups, problem.batch, problem.pixels(), problem.outputs].into_iter().fold(1, usize::saturating_mul)
}

/// Computes the shares by `convolve`, which is called with a problem, its input, filter and output, and adds them.
///
/// # Safety
/// The arrays are as the problem says, and the output is written without a gap. `convolve` computes a problem when its arrays
/// are as it says.
pub(super) unsafe fn run<T: Number>(
    problem: &Problem,
    shares: usize,
    [input, filter]: [*const T; 2],
    output: *mut T,
    cores: &Cores,
    convolve: &(dyn Fn(&Problem, *const T, *const T, *mut T) + Sync),
) {
    let outputs = outputs(problem);
    let mut sums = Loan::take::<T>(Piece::Sums, outputs * (shares - 1));
    let (sums, input, filter, out) =
        (Address(sums.at::<T>()), Address(input.cast_mut()), Address(filter.cast_mut()), Address(output));
    let (sums, input, filter, out) = (&sums, &input, &filter, &out);
    // The first share's sums are the output.
    let own = |share: usize| match share {
        0 => out.0,
        _ => sums.0.wrapping_add((share - 1) * outputs),
    };
    cores.pool.run(shares, &|_, share| {
        let features = problem.inputs * share / shares..problem.inputs * (share + 1) / shares;
        let first = features.start as isize;
        let input = input.0.wrapping_offset(first * problem.input.feature);
        let filter = filter.0.wrapping_offset(first * problem.filter.feature);
        convolve(&Problem { inputs: features.len(), ..problem.clone() }, input, filter, own(share));
    });
    for share in 1..shares {
        let part = own(share);
        for at in 0..outputs {
            // SAFETY: all shares are computed; both places are among their sums.
            unsafe { output.add(at).write((*output.add(at)).plus(*part.add(at))) };
        }
    }
}
