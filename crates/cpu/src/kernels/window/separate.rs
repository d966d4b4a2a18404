//! Folds over windows one dimension after another, on whole rows.
#![allow(unsafe_code)]

use tensor::DType;

use super::{Arrays, ReduceWindow};
use crate::kernels::Cores;
use crate::kernels::loops::ir::Fold;
use crate::kernels::machine::Machine;
use crate::kernels::wide::{WideLoop, wide_loop};

/// An element of the machine, and its folds.
trait Number: Copy + Send + Sync {
    fn of(bits: u64) -> Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}

/// An integer, and its folds by bits.
trait Bits: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn of(bits: u64) -> Self { bits as $ty }
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            #[inline(always)]
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
        }

        impl Bits for $ty {
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}
integers!(i32 i64 u8 u32);

macro_rules! reals {
    ($($ty:ident $bits:ty)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn of(bits: u64) -> Self { $ty::from_bits(bits as $bits) }
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                // Equal numbers differ only where both are zeros: the sign of either remains.
                let least = if self < other { self } else { other };
                let least = if self == other { $ty::from_bits(self.to_bits() | other.to_bits()) } else { least };
                if self.is_nan() { self } else { least }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let most = if self > other { self } else { other };
                let most = if self == other { $ty::from_bits(self.to_bits() & other.to_bits()) } else { most };
                if self.is_nan() { self } else { most }
            }
        }
    )*};
}
reals!(f32 u32 f64 u64);

/// One dimension of a pass: `outer · size · inner` elements become `outer · result · inner`.
#[derive(Clone, Copy, Debug)]
struct Pass {
    outer: usize,
    size: usize,
    inner: usize,
    result: usize,
    window: usize,
    stride: usize,
    dilation: usize,
    low: i64,
}

impl Pass {
    /// The first place of a window that lies inside, and how many do.
    #[inline]
    fn inside(&self, at: usize) -> (usize, usize) {
        let begin = (at * self.stride) as i64 - self.low;
        let first = if begin >= 0 { 0 } else { (-begin) as usize / self.dilation };
        let first = first + usize::from(begin + ((first * self.dilation) as i64) < 0);
        let room = self.size as i64 - begin;
        let end = if room <= 0 { 0 } else { (room as usize).div_ceil(self.dilation).min(self.window) };
        (first.min(end), end - first.min(end))
    }

    #[inline]
    fn row(&self, at: usize, place: usize) -> usize {
        ((at * self.stride) as i64 - self.low + (place * self.dilation) as i64) as usize
    }

    /// Whether every window begins at or before the first element.
    fn is_prefix(&self) -> bool {
        self.dilation == 1 && ((self.result - 1) * self.stride) as i64 - self.low <= 0
    }

    /// Whether every window ends at or behind the last element.
    fn is_suffix(&self) -> bool {
        self.dilation == 1 && self.window as i64 - self.low >= self.size as i64
    }
}

/// Folds; false for rarer types and folds.
///
/// # Safety
/// The arrays are those of the reduction, no dimension of the base is dilated, and the result is not empty.
pub(super) unsafe fn run(reduce: &ReduceWindow, fold: Fold, init: u64, arrays: &Arrays<'_>, cores: &Cores) -> bool {
    use Fold::{And, Max, MaxU, Min, MinU, Or, Product, Sum, Xor};
    let words = (reduce, arrays, cores);
    // The pairs that programs have: each is compiled for every machine.
    // SAFETY: the caller's promise; the element types are those of the arrays.
    unsafe {
        match (reduce.dtypes[0], fold) {
            (DType::F32, Sum) => all(words, f32::of(init), f32::sum),
            (DType::F32, Product) => all(words, f32::of(init), f32::product),
            (DType::F32, Min) => all(words, f32::of(init), Number::min),
            (DType::F32, Max) => all(words, f32::of(init), Number::max),
            (DType::F64, Sum) => all(words, f64::of(init), f64::sum),
            (DType::F64, Min) => all(words, f64::of(init), Number::min),
            (DType::F64, Max) => all(words, f64::of(init), Number::max),
            (DType::I32 | DType::U32, Sum) => all(words, i32::of(init), i32::sum),
            (DType::I32 | DType::U32, Product) => all(words, i32::of(init), i32::product),
            (DType::I32, Min) => all(words, i32::of(init), Number::min),
            (DType::I32, Max) => all(words, i32::of(init), Number::max),
            (DType::U32, MinU) => all(words, u32::of(init), Number::min),
            (DType::U32, MaxU) => all(words, u32::of(init), Number::max),
            (DType::I32 | DType::U32, And) => all(words, i32::of(init), i32::and),
            (DType::I32 | DType::U32, Or) => all(words, i32::of(init), i32::or),
            (DType::I32 | DType::U32, Xor) => all(words, i32::of(init), i32::xor),
            (DType::I64 | DType::U64, Sum) => all(words, i64::of(init), i64::sum),
            (DType::I64, Min) => all(words, i64::of(init), Number::min),
            (DType::I64, Max) => all(words, i64::of(init), Number::max),
            (DType::Bool, And) => all(words, u8::of(init), u8::and),
            (DType::Bool, Or) => all(words, u8::of(init), u8::or),
            _ => return false,
        }
    }
    true
}

/// Passes over each item of the leading dimensions, which are independent of each other.
///
/// # Safety
/// As for [`run`], of elements `T`.
unsafe fn all<T: Number>(
    (reduce, arrays, cores): (&ReduceWindow, &Arrays<'_>, &Cores),
    init: T,
    fold: impl Fn(T, T) -> T + Copy + Sync,
) {
    let (window, rank) = (&reduce.window, reduce.window.dims.len());
    let leading = window.leading().min(rank.saturating_sub(1));
    let items: usize = window.dims[..leading].iter().product();
    let (from_size, to_size): (usize, usize) =
        (window.dims[leading..].iter().product(), reduce.result[leading..].iter().product());
    let mut passes = Vec::new();
    // The innermost dimension last: it is the only one whose rows are not whole vectors, and has least left to do then.
    for d in (leading..rank).filter(|&d| !window.is_trivial(d)) {
        passes.push(Pass {
            outer: reduce.result[leading..d].iter().product(),
            size: window.dims[d],
            inner: window.dims[d + 1..].iter().product(),
            result: reduce.result[d],
            window: window.window[d],
            stride: window.strides[d],
            dilation: window.window_dilations[d],
            low: window.padding[d].0,
        });
    }
    if passes.is_empty() {
        let size = from_size;
        passes.push(Pass { outer: 1, size, inner: 1, result: size, window: 1, stride: 1, dilation: 1, low: 0 });
    }
    let largest = passes[..passes.len() - 1].iter().map(|p| p.outer * p.result * p.inner).max().unwrap_or(0);
    let work = items * from_size.max(to_size);
    let tasks = if work < 1 << 13 { 1 } else { items.min(4 * cores.pool.threads()) };
    cores.pool.run(tasks, &|_, task| {
        let mut memory = [Vec::new(), Vec::new()];
        for item in items * task / tasks..items * (task + 1) / tasks {
            // SAFETY: item `item` of the operand and of the result, which only this task writes.
            let (from, to) = unsafe {
                let from = arrays.read(0).cast::<T>().add(item * from_size);
                let to = arrays.write(0).cast::<T>().add(item * to_size);
                (std::slice::from_raw_parts(from, from_size), std::slice::from_raw_parts_mut(to, to_size))
            };
            for buffer in &mut memory {
                buffer.resize(largest, init);
            }
            let [first, second] = &mut memory;
            let (mut here, mut there) = (first, second);
            for (n, pass) in passes.iter().enumerate() {
                let is_last = n + 1 == passes.len();
                let source: &[T] = if n == 0 { from } else { here };
                let count = pass.outer * pass.result * pass.inner;
                let target: &mut [T] = if is_last { &mut *to } else { &mut there[..count] };
                walk(pass, source, target, init, fold, &cores.machine);
                std::mem::swap(&mut here, &mut there);
            }
            wide_loop(&cores.machine, FoldWith { to, init, fold });
        }
    });
}

/// Folds elements into others, those of `from` so far apart; compiled for each machine, and small for that.
#[inline(never)]
fn fold_in<T: Number>(to: &mut [T], from: &[T], stride: usize, fold: impl Fn(T, T) -> T, machine: &Machine) {
    wide_loop(machine, FoldIn { to, from, stride, fold });
}

/// What [`fold_in`] does.
struct FoldIn<'a, T, F> {
    to: &'a mut [T],
    from: &'a [T],
    stride: usize,
    fold: F,
}

impl<T: Number, F: Fn(T, T) -> T> WideLoop for FoldIn<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let FoldIn { to, from, stride, fold } = self;
        match stride {
            1 => to.iter_mut().zip(from).for_each(|(to, &x)| *to = fold(*to, x)),
            2 => to.iter_mut().zip(from.chunks(2)).for_each(|(to, x)| *to = fold(*to, x[0])),
            stride => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &x)| *to = fold(*to, x)),
        }
    }
}

/// Folds every element with one value.
struct FoldWith<'a, T, F> {
    to: &'a mut [T],
    init: T,
    fold: F,
}

impl<T: Number, F: Fn(T, T) -> T> WideLoop for FoldWith<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let FoldWith { to, init, fold } = self;
        to.iter_mut().for_each(|x| *x = fold(init, *x));
    }
}

fn walk<T: Number>(pass: &Pass, from: &[T], to: &mut [T], init: T, fold: impl Fn(T, T) -> T + Copy, machine: &Machine) {
    if pass.size == 0 || pass.inner == 0 {
        to.fill(init);
        return;
    }
    let (from_size, to_size) = (pass.size * pass.inner, pass.result * pass.inner);
    for outer in 0..pass.outer {
        let from = &from[outer * from_size..][..from_size];
        let to = &mut to[outer * to_size..][..to_size];
        match pass.inner {
            1 if pass.is_prefix() => scan(pass, from, to, init, fold),
            1 if pass.is_suffix() => scan_back(pass, from, to, init, fold),
            1 => slide(pass, from, to, init, fold, machine),
            _ => rows(pass, from, to, init, fold, machine),
        }
    }
}

/// Windows that grow from the first element on.
fn scan<T: Number>(pass: &Pass, from: &[T], to: &mut [T], init: T, fold: impl Fn(T, T) -> T + Copy) {
    let (mut taken, mut sum) = (0, init);
    for (at, to) in to.iter_mut().enumerate() {
        let (first, count) = pass.inside(at);
        let end = if count == 0 { 0 } else { pass.row(at, first + count - 1) + 1 };
        while taken < end {
            sum = if taken == 0 { from[0] } else { fold(sum, from[taken]) };
            taken += 1;
        }
        *to = sum;
    }
}

/// Windows that shrink towards the last element.
fn scan_back<T: Number>(pass: &Pass, from: &[T], to: &mut [T], init: T, fold: impl Fn(T, T) -> T + Copy) {
    let size = from.len();
    let (mut begin, mut sum) = (size, init);
    for at in (0..to.len()).rev() {
        let (first, count) = pass.inside(at);
        let wanted = if count == 0 { size } else { pass.row(at, first) };
        while begin > wanted {
            begin -= 1;
            sum = if begin + 1 == size { from[begin] } else { fold(from[begin], sum) };
        }
        to[at] = sum;
    }
}

/// Windows along contiguous elements: the windows that lie inside, place by place; the others one by one.
fn slide<T: Number>(
    pass: &Pass,
    from: &[T],
    to: &mut [T],
    init: T,
    fold: impl Fn(T, T) -> T + Copy,
    machine: &Machine,
) {
    let whole = |at: usize| pass.inside(at) == (0, pass.window);
    let begin = (0..to.len()).find(|&at| whole(at)).unwrap_or(to.len());
    let end = (begin..to.len()).rev().find(|&at| whole(at)).map_or(begin, |at| at + 1);
    for at in (0..begin).chain(end..to.len()) {
        let (first, count) = pass.inside(at);
        let mut places = (first..first + count).map(|place| from[pass.row(at, place)]);
        to[at] = places.next().map_or(init, |first| places.fold(first, fold));
    }
    if begin == end {
        return;
    }
    let inside = &mut to[begin..end];
    let place = |place: usize| &from[pass.row(begin, place)..];
    inside.iter_mut().zip(place(0).iter().step_by(pass.stride)).for_each(|(to, &x)| *to = x);
    for n in 1..pass.window {
        fold_in(inside, place(n), pass.stride, fold, machine);
    }
}

/// Windows of whole rows of `inner` elements.
fn rows<T: Number>(pass: &Pass, from: &[T], to: &mut [T], init: T, fold: impl Fn(T, T) -> T + Copy, machine: &Machine) {
    let inner = pass.inner;
    let (is_prefix, is_suffix) = (pass.is_prefix(), pass.is_suffix());
    let row = |n: usize| &from[n * inner..][..inner];
    // Of windows that grow or shrink, each adds to its neighbour's; only the rows the neighbour lacks are folded in.
    let order = |n: usize| if is_suffix && !is_prefix { pass.result - 1 - n } else { n };
    let mut done: Option<(usize, std::ops::Range<usize>)> = None;
    for n in 0..pass.result {
        let at = order(n);
        let (first, count) = pass.inside(at);
        if count == 0 {
            to[at * inner..][..inner].fill(init);
            continue;
        }
        let range = pass.row(at, first)..pass.row(at, first + count - 1) + 1;
        let neighbour = if is_prefix || is_suffix { done.take() } else { None };
        match neighbour {
            Some((other, had)) => {
                let more = if is_prefix { had.end..range.end } else { range.start..had.start };
                to.copy_within(other * inner..(other + 1) * inner, at * inner);
                let out = &mut to[at * inner..][..inner];
                more.for_each(|n| fold_in(out, row(n), 1, fold, machine));
            }
            None => {
                let out = &mut to[at * inner..][..inner];
                out.copy_from_slice(row(range.start));
                range.clone().step_by(pass.dilation).skip(1).for_each(|n| fold_in(out, row(n), 1, fold, machine));
            }
        }
        done = Some((at, range));
    }
}
