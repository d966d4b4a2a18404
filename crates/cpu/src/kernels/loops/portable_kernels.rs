//! How one operation runs over a tile: a small function for each operation and instruction set, which compilers vectorise.
//!
//! Tiles hold one value of the lane's width for each element; masks are bytes, 0 or 1. Computing kernels are given a
//! count that is a multiple of [`LANES`]; kernels that touch arrays are given the exact count.
#![allow(unsafe_code)]
// Iterators over several slices at once are left as calls by builds that optimise less.
#![allow(clippy::needless_range_loop)]

use std::marker::PhantomData;

use super::super::machine::Machine;

/// Every tile and every uniform cell holds a multiple of this many values.
pub(super) const LANES: usize = 16;

/// `(count, out, a, b, c, extra)`: what `extra` means is up to the kernel.
pub(super) type Kernel = unsafe fn(usize, *mut u8, *const u8, *const u8, *const u8, i64);

/// The instruction set kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// What every machine of the architecture has.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    pub(super) fn of(machine: &Machine) -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            // With AVX-512 there is machine code for nearly all; for the rest a third of these functions is not worth its size.
            if machine.avx2 {
                return Isa::Avx2;
            }
        }
        Isa::Baseline
    }
}

/// What a kernel does, inlined into a function for each instruction set.
pub(super) trait Body {
    /// # Safety
    /// The pointers are valid for `n` values of the types of the body; `out` does not overlap the others.
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, extra: i64);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<B: Body>(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, extra: i64) {
    // SAFETY: the caller's promise is the body's.
    unsafe { B::run::<true>(n, out, a, b, c, extra) }
}

unsafe fn baseline<B: Body>(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, extra: i64) {
    // SAFETY: the caller's promise is the body's.
    unsafe { B::run::<{ cfg!(any(target_feature = "fma", target_arch = "aarch64")) }>(n, out, a, b, c, extra) }
}

/// The kernel of a body for an instruction set the machine has.
pub(super) fn kernel<B: Body>(isa: Isa) -> Kernel {
    match isa {
        Isa::Baseline => baseline::<B>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<B>,
    }
}

/// A function of one value.
pub(super) trait Map1 {
    type A: Copy;
    type O: Copy;
    /// Whether some arguments are left to [`Map1::exact`].
    const FAR: bool = false;
    fn apply<const FMA: bool>(a: Self::A) -> Self::O;
    #[inline(always)]
    fn is_far(_: Self::A) -> bool {
        false
    }
    fn exact(a: Self::A) -> Self::O {
        Self::apply::<false>(a)
    }
}

/// A function of two values.
pub(super) trait Map2 {
    type A: Copy;
    type O: Copy;
    const FAR: bool = false;
    fn apply<const FMA: bool>(a: Self::A, b: Self::A) -> Self::O;
    #[inline(always)]
    fn is_far(_: Self::A, _: Self::A) -> bool {
        false
    }
    fn exact(a: Self::A, b: Self::A) -> Self::O {
        Self::apply::<false>(a, b)
    }
}

/// An associative function of two values with a neutral one.
pub(super) trait Folding {
    type A: Copy;
    const NEUTRAL: Self::A;
    fn fold(a: Self::A, b: Self::A) -> Self::A;
}

/// An element type: how it lies in memory and in a lane.
pub(super) trait Format {
    type Raw: Copy;
    type Lane: Copy;
    fn decode(raw: Self::Raw) -> Self::Lane;
    fn encode(lane: Self::Lane) -> Self::Raw;
}

/// # Safety
/// As for [`Body::run`].
#[inline(always)]
unsafe fn slice<'a, T>(at: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller promises `n` values.
    unsafe { std::slice::from_raw_parts(at.cast(), n) }
}

/// # Safety
/// As for [`Body::run`].
#[inline(always)]
unsafe fn slice_mut<'a, T>(at: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller promises `n` values that nothing else names.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), n) }
}

#[inline(always)]
fn each1<A: Copy, O>(out: &mut [O], a: &[A], f: impl Fn(A) -> O) {
    let n = out.len().min(a.len());
    let (out, a) = (&mut out[..n], &a[..n]);
    for i in 0..n {
        out[i] = f(a[i]);
    }
}

#[inline(always)]
fn each2<A: Copy, B: Copy, O>(out: &mut [O], a: &[A], b: &[B], f: impl Fn(A, B) -> O) {
    let n = out.len().min(a.len()).min(b.len());
    let (out, a, b) = (&mut out[..n], &a[..n], &b[..n]);
    for i in 0..n {
        out[i] = f(a[i], b[i]);
    }
}

#[inline(always)]
fn each3<A: Copy, B: Copy, C: Copy, O>(out: &mut [O], a: &[A], b: &[B], c: &[C], f: impl Fn(A, B, C) -> O) {
    let n = out.len().min(a.len()).min(b.len()).min(c.len());
    let (out, a, b, c) = (&mut out[..n], &a[..n], &b[..n], &c[..n]);
    for i in 0..n {
        out[i] = f(a[i], b[i], c[i]);
    }
}

/// `out[i] = f(a[i])`.
pub(super) struct One<F>(PhantomData<F>);

impl<F: Map1> Body for One<F> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: i64) {
        let n = n & !(LANES - 1);
        // SAFETY: the caller's promise.
        let (out, a) = unsafe { (slice_mut::<F::O>(out, n), slice::<F::A>(a, n)) };
        each1(out, a, |a| F::apply::<FMA>(a));
        if F::FAR && a.iter().fold(false, |any, &a| any | F::is_far(a)) {
            for (out, &a) in out.iter_mut().zip(a).filter(|(_, a)| F::is_far(**a)) {
                *out = F::exact(a);
            }
        }
    }
}

/// `out[i] = f(a[i], b[i])`, where either may be one value for all.
pub(super) struct Two<F, const SPLAT_A: bool, const SPLAT_B: bool>(PhantomData<F>);

impl<F: Map2, const SPLAT_A: bool, const SPLAT_B: bool> Body for Two<F, SPLAT_A, SPLAT_B> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, b: *const u8, _: *const u8, _: i64) {
        let n = n & !(LANES - 1);
        // SAFETY: the caller's promise; a value for all is one value.
        unsafe {
            let out = slice_mut::<F::O>(out, n);
            if SPLAT_A {
                let one = *a.cast::<F::A>();
                each1(out, slice::<F::A>(b, n), |b| F::apply::<FMA>(one, b));
            } else if SPLAT_B {
                let one = *b.cast::<F::A>();
                each1(out, slice::<F::A>(a, n), |a| F::apply::<FMA>(a, one));
            } else {
                let (a, b) = (slice::<F::A>(a, n), slice::<F::A>(b, n));
                each2(out, a, b, |a, b| F::apply::<FMA>(a, b));
                if F::FAR && a.iter().zip(b).fold(false, |any, (&a, &b)| any | F::is_far(a, b)) {
                    for at in 0..n {
                        if F::is_far(a[at], b[at]) {
                            out[at] = F::exact(a[at], b[at]);
                        }
                    }
                }
            }
        }
    }
}

/// `a[i]·b[i] + c[i]` with one rounding.
pub(super) struct Fused<T>(PhantomData<T>);

macro_rules! fused {
    ($type:ty) => {
        impl Body for Fused<$type> {
            #[inline(always)]
            unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, _: i64) {
                let n = n & !(LANES - 1);
                // SAFETY: the caller's promise.
                unsafe {
                    let out = slice_mut::<$type>(out, n);
                    each3(out, slice(a, n), slice(b, n), slice(c, n), |a: $type, b: $type, c: $type| a.mul_add(b, c));
                }
            }
        }
    };
}
fused!(f32);
fused!(f64);

/// `a[i] ? b[i] : c[i]`, where `b` and `c` may each be one value for all.
pub(super) struct Choose<T, const SPLAT_B: bool, const SPLAT_C: bool>(PhantomData<T>);

impl<T: Copy, const SPLAT_B: bool, const SPLAT_C: bool> Body for Choose<T, SPLAT_B, SPLAT_C> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, _: i64) {
        let n = n & !(LANES - 1);
        // SAFETY: the caller's promise; a value for all is one value.
        unsafe {
            let (out, mask) = (slice_mut::<T>(out, n), slice::<u8>(a, n));
            match (SPLAT_B, SPLAT_C) {
                (true, true) => {
                    let (b, c) = (*b.cast::<T>(), *c.cast::<T>());
                    each1(out, mask, |m| if m != 0 { b } else { c });
                }
                (true, false) => {
                    let b = *b.cast::<T>();
                    each2(out, mask, slice::<T>(c, n), |m, c| if m != 0 { b } else { c });
                }
                (false, true) => {
                    let c = *c.cast::<T>();
                    each2(out, mask, slice::<T>(b, n), |m, b| if m != 0 { b } else { c });
                }
                (false, false) => {
                    each3(out, mask, slice::<T>(b, n), slice::<T>(c, n), |m, b, c| if m != 0 { b } else { c });
                }
            }
        }
    }
}

/// The first value of `a` in all of `out`.
pub(super) struct Splat<T>(PhantomData<T>);

impl<T: Copy> Body for Splat<T> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: i64) {
        // SAFETY: the caller's promise.
        unsafe { slice_mut::<T>(out, n).fill(*a.cast::<T>()) }
    }
}

/// A value from `extra` in all of `out`, or counting up from it.
pub(super) struct FromExtra<T, const COUNT: bool>(PhantomData<T>);

macro_rules! from_extra {
    ($type:ty) => {
        impl<const COUNT: bool> Body for FromExtra<$type, COUNT> {
            #[inline(always)]
            unsafe fn run<const FMA: bool>(
                n: usize,
                out: *mut u8,
                _: *const u8,
                _: *const u8,
                _: *const u8,
                extra: i64,
            ) {
                let n = n & !(LANES - 1);
                // SAFETY: the caller's promise.
                let out = unsafe { slice_mut::<$type>(out, n) };
                for (at, out) in out.iter_mut().enumerate() {
                    *out = if COUNT { (extra as $type).wrapping_add(at as $type) } else { extra as $type };
                }
            }
        }
    };
}
from_extra!(u8);
from_extra!(i32);
from_extra!(i64);

/// The same bits.
pub(super) struct Copied<T>(PhantomData<T>);

impl<T: Copy> Body for Copied<T> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: i64) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(a.cast::<T>(), out.cast::<T>(), n) }
    }
}

/// Elements of an array into a tile; `extra` is the stride in elements where not `UNIT`.
pub(super) struct Load<F, const UNIT: bool>(PhantomData<F>);

impl<F: Format, const UNIT: bool> Body for Load<F, UNIT> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, extra: i64) {
        // SAFETY: the caller promises `n` elements at this stride.
        unsafe {
            let out = slice_mut::<F::Lane>(out, n);
            if UNIT {
                each1(out, slice::<F::Raw>(a, n), F::decode);
            } else {
                let from = a.cast::<F::Raw>();
                for (at, out) in out.iter_mut().enumerate() {
                    *out = F::decode(*from.offset(at as isize * extra as isize));
                }
            }
        }
    }
}

/// A tile into elements of an array; `extra` is the stride in elements where not `UNIT`.
pub(super) struct Store<F, const UNIT: bool>(PhantomData<F>);

impl<F: Format, const UNIT: bool> Body for Store<F, UNIT> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, extra: i64) {
        // SAFETY: the caller promises `n` elements at this stride.
        unsafe {
            let a = slice::<F::Lane>(a, n);
            if UNIT {
                each1(slice_mut::<F::Raw>(out, n), a, F::encode);
            } else {
                let to = out.cast::<F::Raw>();
                for (at, &a) in a.iter().enumerate() {
                    *to.offset(at as isize * extra as isize) = F::encode(a);
                }
            }
        }
    }
}

/// A tile combined with elements of an array; `extra` is the stride in elements.
pub(super) struct Combine<F>(PhantomData<F>);

impl<F: Folding> Body for Combine<F> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, extra: i64) {
        // SAFETY: the caller promises `n` elements at this stride.
        unsafe {
            let a = slice::<F::A>(a, n);
            if extra == 1 {
                let out = slice_mut::<F::A>(out, n);
                for i in 0..n {
                    out[i] = F::fold(out[i], a[i]);
                }
            } else {
                let to = out.cast::<F::A>();
                for (at, &a) in a.iter().enumerate() {
                    let to = to.offset(at as isize * extra as isize);
                    *to = F::fold(*to, a);
                }
            }
        }
    }
}

/// Partial results of a reduction: enough for several vectors of any machine, so that sums do not wait for each other.
/// The number is the same for all instruction sets, and so is the order of sums.
pub(super) const PARTIALS: usize = 64;

/// Neutral values in all partial results.
pub(super) struct FoldStart<F>(PhantomData<F>);

impl<F: Folding> Body for FoldStart<F> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(_: usize, out: *mut u8, _: *const u8, _: *const u8, _: *const u8, _: i64) {
        // SAFETY: the caller's promise.
        unsafe { slice_mut::<F::A>(out, PARTIALS).fill(F::NEUTRAL) }
    }
}

/// `n` values folded into the partial results; `n` is exact.
pub(super) struct Fold<F>(PhantomData<F>);

impl<F: Folding> Body for Fold<F> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(n: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: i64) {
        // SAFETY: the caller's promise.
        let (out, a) = unsafe { (&mut *out.cast::<[F::A; PARTIALS]>(), slice::<F::A>(a, n)) };
        let (blocks, rest) = a.as_chunks::<PARTIALS>();
        // Without wide vectors half of the registers hold what is folded at a time, of four or of eight bytes.
        match (FMA, size_of::<F::A>()) {
            (true, _) => fold_groups::<F, PARTIALS>(out, blocks),
            (false, 8) => fold_groups::<F, { PARTIALS / 4 }>(out, blocks),
            (false, _) => fold_groups::<F, { PARTIALS / 2 }>(out, blocks),
        }
        for i in 0..rest.len() {
            out[i] = F::fold(out[i], rest[i]);
        }
    }
}

/// Blocks folded into the partial results, `GROUP` of them at a time.
#[inline(always)]
fn fold_groups<F: Folding, const GROUP: usize>(out: &mut [F::A; PARTIALS], blocks: &[[F::A; PARTIALS]]) {
    for first in (0..PARTIALS).step_by(GROUP) {
        let mut partial = [F::NEUTRAL; GROUP];
        partial.copy_from_slice(&out[first..first + GROUP]);
        for block in blocks {
            let block = &block[first..first + GROUP];
            for i in 0..GROUP {
                partial[i] = F::fold(partial[i], block[i]);
            }
        }
        out[first..first + GROUP].copy_from_slice(&partial);
    }
}

/// The first `WIDTH` values folded with as many after them.
#[inline(always)]
fn fold_halves<F: Folding, const WIDTH: usize>(partial: &mut [F::A; PARTIALS]) {
    for i in 0..WIDTH {
        partial[i] = F::fold(partial[i], partial[WIDTH + i]);
    }
}

/// The partial results folded to one, in all lanes of a uniform cell.
pub(super) struct FoldEnd<F>(PhantomData<F>);

impl<F: Folding> Body for FoldEnd<F> {
    #[inline(always)]
    unsafe fn run<const FMA: bool>(_: usize, out: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: i64) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut partial = *a.cast::<[F::A; PARTIALS]>();
            fold_halves::<F, { PARTIALS / 2 }>(&mut partial);
            fold_halves::<F, { PARTIALS / 4 }>(&mut partial);
            fold_halves::<F, { PARTIALS / 8 }>(&mut partial);
            fold_halves::<F, { PARTIALS / 16 }>(&mut partial);
            fold_halves::<F, { PARTIALS / 32 }>(&mut partial);
            fold_halves::<F, { PARTIALS / 64 }>(&mut partial);
            slice_mut::<F::A>(out, LANES).fill(partial[0]);
        }
    }
}
