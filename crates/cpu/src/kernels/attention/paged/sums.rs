//! What a task of paged attention keeps of its queries, and the loops of its online softmax.
#![allow(unsafe_code)]

use tensor::DType;

use super::{PagedShape, Task};
use crate::kernels::loops::math::{exp_f32, tanh_f32};
use crate::kernels::wide::WideLoop;

/// Scores of some keys, weights in the type of the values, sums.
#[derive(Default)]
pub(super) struct Sums {
    /// Scores, then weights.
    pub(super) scores: Vec<f32>,
    /// The weights as `bf16`, where the values are.
    rounded: Vec<u16>,
    /// Weighted values of some keys, and of all so far.
    part: Vec<f32>,
    all: Vec<f32>,
    /// The largest score of each query so far, the sum of its weights, and what earlier sums are multiplied by.
    max: Vec<f32>,
    sum: Vec<f32>,
    factor: Vec<f32>,
}

impl Sums {
    /// Room for so many queries and keys; nothing was seen yet.
    pub(super) fn fit(&mut self, count: usize, keys: usize, shape: &PagedShape) {
        let grow = |vector: &mut Vec<f32>, size: usize| {
            if vector.len() < size {
                vector.resize(size, 0.0);
            }
        };
        grow(&mut self.scores, count * keys);
        grow(&mut self.part, count * shape.depth);
        grow(&mut self.all, count * shape.depth);
        for vector in [&mut self.max, &mut self.sum, &mut self.factor] {
            grow(vector, count);
        }
        if shape.dtype == DType::BF16 && self.rounded.len() < count * keys {
            self.rounded.resize(count * keys, 0);
        }
        self.all[..count * shape.depth].fill(0.0);
        self.sum[..count].fill(0.0);
        self.max[..count].fill(f32::MIN);
    }

    /// The weights in the type of the values, and where the weighted values go.
    pub(super) fn weights(&mut self, dtype: DType) -> (*const u8, &mut [f32]) {
        let weights = match dtype {
            DType::BF16 => self.rounded.as_ptr().cast::<u8>(),
            _ => self.scores.as_ptr().cast::<u8>(),
        };
        (weights, &mut self.part)
    }

    /// A score without a value.
    pub(super) fn add_sink(&mut self, row: usize, depth: usize, sink: f32) {
        let most = self.max[row].max(sink);
        let factor = (self.max[row] - most).exp();
        self.sum[row] = self.sum[row] * factor + (sink - most).exp();
        self.all[row * depth..(row + 1) * depth].iter_mut().for_each(|sum| *sum *= factor);
    }
}

/// Makes the scores of so many keys from `base` on to weights, 0 where a query does not see the key.
pub(super) struct Weigh<'a> {
    pub(super) sums: &'a mut Sums,
    pub(super) task: &'a Task<'a>,
    pub(super) keys: usize,
    pub(super) base: usize,
}

impl WideLoop for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Weigh { sums, task, keys, base } = self;
        let shape = task.shape;
        for row in 0..task.count {
            let scores = &mut sums.scores[row * keys..(row + 1) * keys];
            let seen = task.seen(row);
            let within = |key: usize| key.clamp(base, base + keys) - base;
            let (begin, end) = (within(seen.start), within(seen.end));
            for score in &mut scores[begin..end] {
                *score *= shape.scale;
            }
            if let Some(cap) = shape.soft_cap {
                for score in &mut scores[begin..end] {
                    *score = cap * tanh_f32::<true>(*score / cap);
                }
            }
            // Whole rows make whole vectors; what is not seen has no part in the largest and no weight.
            scores[..begin].fill(f32::NEG_INFINITY);
            scores[end..].fill(f32::NEG_INFINITY);
            let most = largest(scores).max(sums.max[row]);
            sums.factor[row] = exp_f32::<true>(sums.max[row] - most);
            sums.max[row] = most;
            for score in scores.iter_mut() {
                *score = exp_f32::<true>(*score - most);
            }
            scores[..begin].fill(0.0);
            scores[end..].fill(0.0);
            sums.sum[row] = sums.sum[row] * sums.factor[row] + total(scores);
            if shape.dtype == DType::BF16 {
                let rounded = &mut sums.rounded[row * keys..(row + 1) * keys];
                for (rounded, score) in rounded.iter_mut().zip(scores.iter()) {
                    *rounded = to_bf16(*score);
                }
            }
        }
    }
}

/// Adds the weighted values that lie in `part`.
pub(super) struct AddPart<'a> {
    pub(super) sums: &'a mut Sums,
    pub(super) count: usize,
    pub(super) depth: usize,
}

impl WideLoop for AddPart<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let AddPart { sums, count, depth } = self;
        for row in 0..count {
            let factor = sums.factor[row];
            let part = &sums.part[row * depth..(row + 1) * depth];
            let all = &mut sums.all[row * depth..(row + 1) * depth];
            for (all, part) in all.iter_mut().zip(part) {
                *all = all.mul_add(factor, *part);
            }
        }
    }
}

/// Values of the first keys of a page, in their type.
pub(super) enum Values<'a> {
    Float(&'a [f32]),
    Bf16(&'a [u16]),
}

impl Values<'_> {
    /// # Safety
    /// So many elements of this type are there.
    pub(super) unsafe fn new(at: *const u8, elements: usize, dtype: DType) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match dtype {
                DType::BF16 => Values::Bf16(std::slice::from_raw_parts(at.cast(), elements)),
                _ => Values::Float(std::slice::from_raw_parts(at.cast(), elements)),
            }
        }
    }
}

/// Adds values, weighted one by one.
pub(super) struct AddValues<'a> {
    pub(super) sums: &'a mut Sums,
    pub(super) count: usize,
    pub(super) depth: usize,
    /// Weights of each query.
    pub(super) keys: usize,
    pub(super) values: Values<'a>,
}

impl WideLoop for AddValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let AddValues { sums, count, depth, keys, values } = self;
        for row in 0..count {
            let factor = sums.factor[row];
            let all = &mut sums.all[row * depth..(row + 1) * depth];
            for sum in all.iter_mut() {
                *sum *= factor;
            }
            let weights = &sums.scores[row * keys..(row + 1) * keys];
            match values {
                Values::Float(values) => add_weighted(all, weights, values, |value| *value),
                Values::Bf16(values) => add_weighted(all, weights, values, |value| from_bf16(*value)),
            }
        }
    }
}

/// Divides the sums by those of the weights, and stores them.
pub(super) struct Store<'a> {
    pub(super) sums: &'a Sums,
    pub(super) count: usize,
    pub(super) shape: &'a PagedShape,
    /// Rows of the task's own.
    pub(super) out: *mut u8,
}

impl WideLoop for Store<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Store { sums, count, shape, out } = self;
        let depth = shape.depth;
        for (row, total) in sums.sum.iter().enumerate().take(count) {
            let inverse = if *total == 0.0 { 0.0 } else { 1.0 / total };
            let results = &sums.all[row * depth..(row + 1) * depth];
            let out = out.wrapping_add(row * depth * shape.dtype.size_bytes());
            // SAFETY: a row of the output that is this task's own.
            unsafe {
                if shape.dtype == DType::BF16 {
                    for (n, result) in results.iter().enumerate() {
                        *out.cast::<u16>().add(n) = to_bf16(result * inverse);
                    }
                } else {
                    for (n, result) in results.iter().enumerate() {
                        *out.cast::<f32>().add(n) = result * inverse;
                    }
                }
            }
        }
    }
}

/// Adds rows of values, each times its weight.
#[inline(always)]
fn add_weighted<T>(sums: &mut [f32], weights: &[f32], values: &[T], number: impl Fn(&T) -> f32) {
    for (values, weight) in values.chunks_exact(sums.len()).zip(weights) {
        if *weight != 0.0 {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = weight.mul_add(number(value), *sum);
            }
        }
    }
}

/// The largest of some numbers, lane by lane so that vectors find it; NaN stays.
#[inline(always)]
fn largest(numbers: &[f32]) -> f32 {
    let mut most = [f32::MIN; 16];
    let chunks = numbers.chunks_exact(16);
    let rest = chunks.remainder().iter().copied().fold(f32::MIN, larger);
    for chunk in chunks {
        for (most, number) in most.iter_mut().zip(chunk) {
            *most = larger(*most, *number);
        }
    }
    most.iter().copied().fold(rest, larger)
}

#[inline(always)]
fn larger(most: f32, number: f32) -> f32 {
    if number <= most { most } else { number }
}

/// The sum of some numbers, lane by lane.
#[inline(always)]
fn total(numbers: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let chunks = numbers.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum += number;
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[inline(always)]
fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest, to even where there are two; NaN stays.
#[inline(always)]
fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if number.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded }
}
