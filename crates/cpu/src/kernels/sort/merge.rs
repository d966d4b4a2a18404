//! Sorting by a comparator that may contradict itself: bottom-up merging never reads outside whatever it answers.
#![allow(unsafe_code)]

use tensor::DType;

use crate::kernels::scalar::{self, Program};

/// Places of a row's elements in sorted order: element `i` lies at `base + i·stride`.
///
/// # Safety
/// `reads` are operands of the given types that have the row.
pub(super) unsafe fn sort(
    comparator: &Program,
    dtypes: &[DType],
    reads: &[*const u8],
    base: usize,
    stride: usize,
    length: usize,
) -> Vec<u32> {
    let values: Vec<Vec<u64>> = (dtypes.iter().zip(reads).enumerate())
        .map(|(operand, (&dtype, &read))| {
            if !comparator.reads(2 * operand) && !comparator.reads(2 * operand + 1) {
                return Vec::new();
            }
            // SAFETY: the row is the caller's.
            (0..length).map(|i| unsafe { scalar::load(dtype, read, base + i * stride) }).collect()
        })
        .collect();
    let mut registers = comparator.registers();
    let mut arguments = vec![0; 2 * dtypes.len()];
    let mut is_before = |a: u32, b: u32| {
        for (sides, values) in arguments.chunks_exact_mut(2).zip(&values) {
            if !values.is_empty() {
                sides[0] = values[a as usize];
                sides[1] = values[b as usize];
            }
        }
        comparator.ask(&mut registers, &arguments)
    };
    let mut items: Vec<u32> = (0..length as u32).collect();
    let mut merged: Vec<u32> = Vec::with_capacity(length);
    let mut width = 1;
    while width < length {
        merged.clear();
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
                if is_before(r, l) {
                    merged.push(r);
                    right = &right[1..];
                } else {
                    merged.push(l);
                    left = &left[1..];
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut items, &mut merged);
        width *= 2;
    }
    items
}
