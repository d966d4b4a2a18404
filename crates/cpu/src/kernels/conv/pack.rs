//! The filter in the order the loops read it: for each group panels of output features, window by window.
#![allow(unsafe_code)]

use std::ops::Range;

use super::super::pool::Pool;
use super::Address;
use super::block::{Kernel, Number};
use super::fill;
use super::pixels::Mix;
use super::shape::Problem;

/// Elements of a packed filter whose panels have `cols` columns.
pub(super) fn elements(problem: &Problem, mix: Mix, cols: usize) -> usize {
    match mix {
        Mix::Features => problem.groups * problem.outputs.next_multiple_of(cols) * problem.taps() * problem.inputs,
        Mix::Channels => problem.groups * problem.taps(),
    }
}

/// Packs the filter: panels of the kernel's columns, each `[tap][input feature][column]`; of channels, `[tap][channel]`.
///
/// # Safety
/// The filter is as the problem says, `to` takes [`elements`].
pub(super) unsafe fn pack<T: Number>(
    problem: &Problem,
    mix: Mix,
    kernel: &Kernel<T>,
    filter: *const T,
    to: *mut T,
    pool: Option<&Pool>,
) {
    let (taps, cols) = (problem.taps(), kernel.cols);
    let (filter, to) = (&Address(filter.cast_mut()), &Address(to));
    if mix == Mix::Channels {
        for tap in 0..taps {
            let from = filter.0.cast_const().wrapping_offset(tap_at(problem, tap));
            let place = to.0.wrapping_add(tap * problem.groups);
            // SAFETY: the caller's promise.
            unsafe { fill::copy(kernel, from, [problem.filter.group, 1], place, [1, 1], [problem.groups, 1]) };
        }
        return;
    }
    let panels = problem.outputs.div_ceil(cols);
    let steps = taps * problem.inputs;
    let each = |_: usize, task: usize| {
        let (group, panel) = (task / panels, task % panels);
        // SAFETY: the caller's promise; panels are disjoint.
        unsafe {
            let from = filter.0.cast_const().wrapping_offset(group as isize * problem.filter.group);
            pack_steps(problem, kernel, from, panel, 0..steps, to.0.add(task * steps * cols));
        }
    };
    match pool.filter(|_| elements(problem, mix, cols) > 1 << 14) {
        Some(pool) => pool.run(problem.groups * panels, &each),
        None => (0..problem.groups * panels).for_each(|task| each(0, task)),
    }
}

/// Packs some steps, `tap · input features + feature`, of one panel of a group.
///
/// # Safety
/// `filter` is the group's, and `to` takes the steps.
pub(super) unsafe fn pack_steps<T: Number>(
    problem: &Problem,
    kernel: &Kernel<T>,
    filter: *const T,
    panel: usize,
    steps: Range<usize>,
    to: *mut T,
) {
    let cols = kernel.cols;
    let first = panel * cols;
    let count = cols.min(problem.outputs - first);
    if count < cols {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::write_bytes(to, 0, steps.len() * cols) };
    }
    let filter = filter.wrapping_offset(first as isize * problem.filter.outer);
    let mut step = steps.start;
    while step < steps.end {
        let (tap, feature) = (step / problem.inputs, step % problem.inputs);
        let run = (problem.inputs - feature).min(steps.end - step);
        let from = filter.wrapping_offset(tap_at(problem, tap) + feature as isize * problem.filter.feature);
        let strides = [problem.filter.feature, problem.filter.outer];
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.add((step - steps.start) * cols);
            fill::copy(kernel, from, strides, to, [cols as isize, 1], [run, count]);
        }
        step += run;
    }
}

/// Elements from a filter's start to a tap.
fn tap_at(problem: &Problem, tap: usize) -> isize {
    let [z, y, x] = &problem.axes;
    let (kz, rest) = (tap / (y.taps * x.taps), tap % (y.taps * x.taps));
    z.filter_index(kz) as isize * z.filter_stride
        + y.filter_index(rest / x.taps) as isize * y.filter_stride
        + x.filter_index(rest % x.taps) as isize * x.filter_stride
}
