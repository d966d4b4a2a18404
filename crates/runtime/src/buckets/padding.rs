//! Arrays on the host grown to a bucket's sizes, and cut back to the sizes that were asked for.

use tensor::{DType, Literal, encode_float};

/// The bytes of one element of a number, as near as its type has it.
pub(super) fn element(dtype: DType, number: f64) -> Option<Vec<u8>> {
    let width = dtype.size_bytes();
    if let Some(part) = dtype.complex_part() {
        let real = element(part, number)?;
        return Some(real.into_iter().chain(vec![0; width / 2]).collect());
    }
    let bits = if dtype.is_float() { encode_float(dtype, number)? } else { number as i64 as u64 };
    bits.to_le_bytes().get(..width).map(<[u8]>::to_vec)
}

/// The array with these sizes, each at least its own, the rest filled with one element. `None` where the sizes do not fit or
/// the bytes cannot be counted.
pub(crate) fn pad(literal: &Literal, dims: &[usize], fill: &[u8]) -> Option<Literal> {
    let width = literal.dtype().size_bytes();
    if fill.len() != width || !holds(dims, literal.dims()) {
        return None;
    }
    let count = dims.iter().try_fold(1usize, |count, &size| count.checked_mul(size))?;
    let total = count.checked_mul(width)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(total).ok()?;
    if fill.iter().all(|&byte| byte == 0) {
        bytes.resize(total, 0);
    } else {
        (0..count).for_each(|_| bytes.extend_from_slice(fill));
    }
    for (small, large, length) in rows(literal.dims(), dims, width) {
        bytes[large..large + length].copy_from_slice(&literal.bytes()[small..small + length]);
    }
    Literal::new(literal.dtype(), dims, bytes)
}

/// The leading part of an array, of sizes that are at most its own.
pub(crate) fn cut(literal: &Literal, dims: &[usize]) -> Option<Literal> {
    if !holds(literal.dims(), dims) {
        return None;
    }
    let width = literal.dtype().size_bytes();
    let mut bytes = Vec::with_capacity(dims.iter().product::<usize>() * width);
    for (_, large, length) in rows(dims, literal.dims(), width) {
        bytes.extend_from_slice(&literal.bytes()[large..large + length]);
    }
    Literal::new(literal.dtype(), dims, bytes)
}

fn holds(large: &[usize], small: &[usize]) -> bool {
    large.len() == small.len() && large.iter().zip(small).all(|(large, small)| large >= small)
}

/// Byte offsets of equal runs in an array and in a larger one whose leading part it is, and their length.
fn rows(small: &[usize], large: &[usize], width: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    // Trailing dimensions of equal size are one run.
    let shared = small.iter().zip(large).rev().take_while(|(small, large)| small == large).count();
    let outer = small.len().saturating_sub(shared + 1);
    let run: usize = small[outer.min(small.len())..].iter().product::<usize>() * width;
    let pitch: usize = large[outer.min(large.len())..].iter().product::<usize>() * width;
    let counts: Vec<usize> = small[..outer.min(small.len())].to_vec();
    let sizes: Vec<usize> = large[..outer.min(large.len())].to_vec();
    let total: usize = if run == 0 { 0 } else { counts.iter().product() };
    (0..total).map(move |n| {
        let (mut rest, mut flat, mut stride) = (n, 0, 1);
        for (&count, &size) in counts.iter().zip(&sizes).rev() {
            flat += rest % count * stride;
            (rest, stride) = (rest / count, stride * size);
        }
        (n * run, flat * pitch, run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(dims: &[usize]) -> Literal {
        let count: usize = dims.iter().product();
        Literal::new(DType::U8, dims, (1..=count as u8).collect()).unwrap()
    }

    #[test]
    fn rows_go_to_their_places() {
        let padded = pad(&counted(&[2, 2]), &[3, 4], &[9]).unwrap();
        assert_eq!(padded.bytes(), [1, 2, 9, 9, 3, 4, 9, 9, 9, 9, 9, 9]);
        assert_eq!(pad(&counted(&[]), &[], &[0]).unwrap(), counted(&[]));
        assert_eq!(pad(&counted(&[0, 2]), &[1, 2], &[7]).unwrap().bytes(), [7, 7]);
    }

    #[test]
    fn cutting_undoes_padding() {
        for (small, large) in [
            (vec![2, 3, 2], vec![4, 5, 2]),
            (vec![2, 3, 2], vec![2, 3, 5]),
            (vec![1, 1, 1], vec![3, 2, 4]),
            (vec![2, 0, 2], vec![2, 1, 3]),
            (vec![5], vec![8]),
        ] {
            let padded = pad(&counted(&small), &large, &[200]).unwrap();
            assert_eq!(padded.bytes().iter().filter(|&&byte| byte != 200).count(), small.iter().product::<usize>());
            assert_eq!(cut(&padded, &small).unwrap(), counted(&small), "{small:?} in {large:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(pad(&counted(&[4]), &[3], &[0]).is_none());
        assert!(pad(&counted(&[4]), &[4, 4], &[0]).is_none());
        assert!(pad(&counted(&[4]), &[usize::MAX], &[0]).is_none());
        assert!(cut(&counted(&[4]), &[5]).is_none());
    }

    #[test]
    fn numbers_become_elements() {
        assert_eq!(element(DType::F32, -1.0), Some((-1f32).to_le_bytes().to_vec()));
        assert_eq!(element(DType::I16, -2.0), Some((-2i16).to_le_bytes().to_vec()));
        assert_eq!(element(DType::BF16, 1.0), Some(vec![0x80, 0x3f]));
        assert_eq!(element(DType::C64, 1.0).map(|bytes| bytes.len()), Some(8));
    }
}
