//! The matmul on a machine of which nothing is known: arrays the compiler turns into what vectors there are.
#![allow(unsafe_code)]
// Iterators and closures over arrays are left as calls by builds that optimise less: the matmul would take 20 times as long.
#![allow(clippy::needless_range_loop)]

use tensor::DType;

use super::lanes::{Lanes, block_of, kernel_of};
use super::pack;

/// x86-64 has 16 registers of four f32: eight are the block, and it takes what else a step needs.
const LANES: usize = if cfg!(target_arch = "x86_64") { 4 } else { 8 };
const ROWS: usize = 4;

/// An array of `T` as a vector.
pub(super) struct Array<T>(T);

macro_rules! array {
    ($elem:ty, $zero:literal, |$a:ident, $b:ident, $c:ident| $fma:expr, |$x:ident, $y:ident| $sum:expr) => {
        // SAFETY: needs no instruction set.
        unsafe impl Lanes for Array<$elem> {
            type Elem = $elem;
            type Vector = [$elem; LANES];
            const LANES: usize = LANES;

            #[inline(always)]
            fn zero() -> Self::Vector {
                [$zero; LANES]
            }
            #[inline(always)]
            fn splat(value: $elem) -> Self::Vector {
                [value; LANES]
            }
            #[inline(always)]
            fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
                let mut result = c;
                for i in 0..LANES {
                    let ($a, $b, $c) = (a[i], b[i], c[i]);
                    result[i] = $fma;
                }
                result
            }
            #[inline(always)]
            fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector {
                let mut result = a;
                for i in 0..LANES {
                    let ($x, $y) = (a[i], b[i]);
                    result[i] = $sum;
                }
                result
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> Self::Vector {
                // SAFETY: the caller's promise; arrays have the alignment of their elements.
                unsafe { *from.cast() }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $elem, value: Self::Vector) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<Self::Vector>().write(value) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $elem, count: usize) -> Self::Vector {
                let mut lanes = [$zero; LANES];
                for i in 0..count.min(LANES) {
                    // SAFETY: only the first `count` elements are read.
                    lanes[i] = unsafe { *from.add(i) };
                }
                lanes
            }
            #[inline(always)]
            unsafe fn store_part(to: *mut $elem, value: Self::Vector, count: usize) {
                for i in 0..count.min(LANES) {
                    // SAFETY: only the first `count` elements are written.
                    unsafe { to.add(i).write(value[i]) };
                }
            }
        }
    };
}

array!(f32, 0.0, |a, b, c| a * b + c, |x, y| x + y);
array!(f64, 0.0, |a, b, c| a * b + c, |x, y| x + y);
array!(i32, 0, |a, b, c| a.wrapping_mul(b).wrapping_add(c), |x, y| x.wrapping_add(y));

block_of!(block, [], rows: 1 2 3 4);

/// The kernel for sums of f32.
#[cfg(target_arch = "x86_64")]
pub(super) use super::sse2::Sse2F32 as PortableF32;
#[cfg(not(target_arch = "x86_64"))]
pub(super) type PortableF32 = Portable<f32>;

/// The kernel for sums of `T`.
pub(super) struct Portable<T>(T);

#[cfg(not(target_arch = "x86_64"))]
kernel_of!(Portable<f32>, Array<f32>, DType::F32, ROWS, 256, block, pack::pack_f32, pack::round_sums);
kernel_of!(Portable<f64>, Array<f64>, DType::F64, ROWS, 256, block, pack::pack_f64, pack::round_sums);
kernel_of!(Portable<i32>, Array<i32>, DType::I32, ROWS, 256, block, pack::pack_i32, pack::round_sums);
