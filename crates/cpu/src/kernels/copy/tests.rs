//! Copies against loops over single elements.

use tensor::DType;

use super::shapes::{DynamicSlice, DynamicUpdateSlice, Pad};
use super::*;
use crate::kernels::pool::Pool;

/// A generator of the same numbers on every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

/// This machine with all, fewer, and none of its instruction sets; one thread and several.
pub(crate) fn all_cores() -> Vec<Cores> {
    let full = Machine::detect();
    let otherwise = Machine { stores_near: !full.stores_near, ..full };
    let machines = [full, otherwise, Machine { avx2: full.avx2, ..otherwise }, Machine::portable()];
    machines.into_iter().zip([3, 1, 1, 2]).map(|(machine, n)| Cores { machine, pool: Pool::new(n) }).collect()
}

/// Every index of a shape in row-major order.
pub(crate) fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in dims {
        all = all.into_iter().flat_map(|index| (0..size).map(move |i| [&index[..], &[i]].concat())).collect();
    }
    all
}

pub(crate) fn position(index: &[usize], dims: &[usize]) -> usize {
    index.iter().zip(dims).fold(0, |at, (&i, &size)| at * size + i)
}

fn count(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// The array whose element at each index is that of `from` at the place `source` gives, or that of `otherwise`.
fn picked(
    dims: &[usize],
    width: usize,
    from: &[u8],
    otherwise: &[u8],
    source: impl Fn(&[usize]) -> Option<usize>,
) -> Vec<u8> {
    indices(dims)
        .iter()
        .flat_map(|index| source(index).map_or(otherwise, |at| &from[at * width..(at + 1) * width]).to_vec())
        .collect()
}

fn check(what: &str, cores: &[Cores], expected: &[u8], run: impl Fn(*mut u8, &Cores)) {
    for cores in cores {
        // Arrays of the program are aligned; streamed stores count on it.
        let mut room = vec![0xa5u8; expected.len() + 128];
        let start = room.as_ptr().align_offset(64);
        let to = &mut room[start..start + expected.len() + 64];
        run(to.as_mut_ptr(), cores);
        assert!(to[..expected.len()] == *expected, "{what} on {:?}", cores.machine);
        assert!(to[expected.len()..].iter().all(|&byte| byte == 0xa5), "{what} wrote past the end");
    }
}

fn check_transpose(dims: &[usize], permutation: &[usize], width: usize, cores: &[Cores]) {
    let from = Numbers(1).bytes(count(dims) * width);
    let result: Vec<usize> = permutation.iter().map(|&p| dims[p]).collect();
    let expected = picked(&result, width, &from, &[], |index| {
        let mut at = vec![0; dims.len()];
        permutation.iter().zip(index).for_each(|(&p, &i)| at[p] = i);
        Some(position(&at, dims))
    });
    let plan = shapes::transpose(dims, permutation, width);
    let streamed = Plan { store: Store::Streaming, ..plan.clone() };
    check(&format!("transpose {dims:?} by {permutation:?} of {width}"), cores, &expected, |to, cores| {
        // SAFETY: both arrays have the planned shape.
        unsafe { plan.run(from.as_ptr(), to, cores) }
    });
    check(&format!("streamed transpose {dims:?} by {permutation:?} of {width}"), cores, &expected, |to, cores| {
        // SAFETY: as above.
        unsafe { streamed.run(from.as_ptr(), to, cores) }
    });
}

#[test]
fn transposes() {
    let cores = all_cores();
    for width in [1, 2, 4, 8, 16] {
        for (rows, columns) in [(1, 7), (7, 1), (0, 5), (3, 50), (50, 3), (4, 4), (17, 33), (64, 64), (65, 130)] {
            check_transpose(&[rows, columns], &[1, 0], width, &cores);
        }
        check_transpose(&[2, 5, 3, 17], &[0, 2, 1, 3], width, &cores);
        check_transpose(&[2, 5, 3, 17], &[0, 2, 3, 1], width, &cores);
        check_transpose(&[2, 5, 3, 17], &[3, 2, 1, 0], width, &cores);
        check_transpose(&[3, 20, 2, 2, 21], &[0, 4, 3, 2, 1], width, &cores);
        check_transpose(&[2; 11], &[10, 1, 8, 3, 6, 5, 4, 7, 2, 9, 0], width, &cores);
    }
    check_transpose(&[], &[], 4, &cores);
    check_transpose(&[300, 290], &[1, 0], 4, &cores);
    check_transpose(&[4, 40000], &[1, 0], 2, &cores);
    check_transpose(&[40000, 4], &[1, 0], 2, &cores);
    check_transpose(&[3, 64, 4, 200], &[0, 2, 1, 3], 2, &cores);
}

#[test]
fn slices_and_reversals() {
    let cores = all_cores();
    let mut numbers = Numbers(2);
    for case in 0..150 {
        let (rank, width) = (numbers.below(4) + usize::from(case % 10 != 0), [1, 2, 4, 8, 16][case % 5]);
        let dims: Vec<usize> = (0..rank).map(|_| numbers.below(9)).collect();
        let from = numbers.bytes(count(&dims) * width);
        let starts: Vec<usize> = dims.iter().map(|&size| numbers.below(size + 1)).collect();
        let limits: Vec<usize> = (0..rank).map(|d| starts[d] + numbers.below(dims[d] - starts[d] + 1)).collect();
        let steps: Vec<usize> = (0..rank).map(|_| 1 + numbers.below(3)).collect();
        let sizes: Vec<usize> = (0..rank).map(|d| (limits[d] - starts[d]).div_ceil(steps[d])).collect();
        let expected = picked(&sizes, width, &from, &[], |index| {
            let at: Vec<usize> = (0..rank).map(|d| starts[d] + index[d] * steps[d]).collect();
            Some(position(&at, &dims))
        });
        let plan = shapes::slice(&dims, &starts, &limits, &steps, width);
        check(&format!("slice {dims:?} {starts:?} {limits:?} {steps:?}"), &cores, &expected, |to, cores| {
            // SAFETY: both arrays have the planned shape.
            unsafe { plan.run(from.as_ptr(), to, cores) }
        });
        let reversed: Vec<usize> = (0..rank).filter(|_| numbers.below(2) == 0).collect();
        let expected = picked(&dims, width, &from, &[], |index| {
            let turned = |d: usize| if reversed.contains(&d) { dims[d] - 1 - index[d] } else { index[d] };
            Some(position(&(0..rank).map(turned).collect::<Vec<_>>(), &dims))
        });
        let plan = shapes::reverse(&dims, &reversed, width);
        check(&format!("reverse {dims:?} along {reversed:?}"), &cores, &expected, |to, cores| {
            // SAFETY: both arrays have the planned shape.
            unsafe { plan.run(from.as_ptr(), to, cores) }
        });
        // What is read backwards can as well be written backwards.
        let mut to_side = Side::dense(&dims);
        for &d in &reversed {
            to_side.offset += to_side.strides[d] * (dims[d] as isize - 1).max(0);
            to_side.strides[d] = -to_side.strides[d];
        }
        let plan = Plan::new(&dims, &Side::dense(&dims), &to_side, width);
        check(&format!("write reversed {dims:?} along {reversed:?}"), &cores, &expected, |to, cores| {
            // SAFETY: both arrays have the planned shape.
            unsafe { plan.run(from.as_ptr(), to, cores) }
        });
    }
}

#[test]
fn broadcasts() {
    let cores = all_cores();
    for width in [1, 2, 4, 8, 16] {
        for (operand, along, result) in [
            (&[][..], &[][..], &[5, 7][..]),
            (&[7], &[1], &[5, 7]),
            (&[5], &[0], &[5, 7]),
            (&[1, 7], &[0, 1], &[5, 7]),
            (&[5, 3], &[0, 2], &[5, 4, 3]),
            (&[3, 5], &[2, 0], &[5, 4, 3]),
            (&[0], &[0], &[0, 4]),
            (&[], &[], &[40, 3000]),
            (&[300], &[1], &[150, 300]),
        ] {
            let from = Numbers(3).bytes(count(operand) * width);
            let expected = picked(result, width, &from, &[], |index| {
                let at = |d: usize| if operand[d] == 1 { 0 } else { index[along[d]] };
                Some(position(&(0..operand.len()).map(at).collect::<Vec<_>>(), operand))
            });
            let plan = shapes::broadcast_in_dim(operand, along, result, width);
            let streamed = Plan { store: Store::Streaming, ..plan.clone() };
            check(&format!("broadcast {operand:?} to {result:?} of {width}"), &cores, &expected, |to, cores| {
                // SAFETY: both arrays have the planned shape.
                unsafe { plan.run(from.as_ptr(), to, cores) }
            });
            check(
                &format!("streamed broadcast {operand:?} to {result:?} of {width}"),
                &cores,
                &expected,
                |to, cores| {
                    // SAFETY: as above.
                    unsafe { streamed.run(from.as_ptr(), to, cores) }
                },
            );
        }
    }
}

#[test]
fn pads() {
    let cores = all_cores();
    let mut numbers = Numbers(4);
    for case in 0..300 {
        let (rank, width) = (numbers.below(4), [1, 2, 4, 8, 16][case % 5]);
        let dims: Vec<usize> = (0..rank).map(|_| numbers.below(6)).collect();
        let mut draw =
            |span: usize, least: i64| (0..rank).map(|_| numbers.below(span) as i64 + least).collect::<Vec<_>>();
        let (low, high, interior) = (draw(7, -3), draw(7, -3), draw(3, 0));
        let interior = if case % 2 == 0 { vec![0; rank] } else { interior };
        let padded = |d: usize| dims[d] as i64 + interior[d] * (dims[d] as i64 - 1).max(0) + low[d] + high[d];
        let plan = Pad::new(&dims, &low, &high, &interior, width);
        let Some(result) = (0..rank).map(|d| usize::try_from(padded(d)).ok()).collect::<Option<Vec<_>>>() else {
            assert!(plan.is_none());
            continue;
        };
        let (from, value) = (numbers.bytes(count(&dims) * width), numbers.bytes(width));
        let expected = picked(&result, width, &from, &value, |index| {
            let mut at = vec![0; rank];
            for d in 0..rank {
                let (moved, step) = (index[d] as i64 - low[d], interior[d] + 1);
                if moved < 0 || moved % step != 0 || moved / step >= dims[d] as i64 {
                    return None;
                }
                at[d] = (moved / step) as usize;
            }
            Some(position(&at, &dims))
        });
        let plan = plan.unwrap();
        check(&format!("pad {dims:?} {low:?} {high:?} {interior:?}"), &cores, &expected, |to, cores| {
            // SAFETY: the arrays have the planned shapes.
            unsafe { plan.run(from.as_ptr(), value.as_ptr(), to, cores) }
        });
    }
    assert!(Pad::new(&[2], &[i64::MAX], &[i64::MAX], &[0], 4).is_none());
    assert!(Pad::new(&[2], &[i64::MIN], &[0], &[0], 4).is_none());
    assert!(Pad::new(&[2], &[0], &[0], &[-1], 4).is_none());
}

#[test]
fn dynamic_slices_are_clamped() {
    let cores = all_cores();
    let (dims, sizes) = ([5usize, 7], [2usize, 3]);
    let from = Numbers(5).bytes(35 * 4);
    for start in [[0i64, 0], [3, 4], [-9, 9], [i64::MIN, i64::MAX], [4, 1]] {
        let at = [start[0].clamp(0, 3) as usize, start[1].clamp(0, 4) as usize];
        let expected =
            picked(&sizes, 4, &from, &[], |index| Some(position(&[at[0] + index[0], at[1] + index[1]], &dims)));
        let pointers = [start.as_ptr().cast::<u8>(), start[1..].as_ptr().cast::<u8>()];
        let plan = DynamicSlice::new(&dims, &sizes, DType::I64, 4).unwrap();
        check(&format!("dynamic slice at {start:?}"), &cores, &expected, |to, cores| {
            // SAFETY: the arrays have the planned shapes, and there are two indices.
            unsafe { plan.run(from.as_ptr(), &pointers, to, cores) }
        });
        let update = Numbers(6).bytes(6 * 4);
        let expected: Vec<u8> = picked(&dims, 4, &[&from[..], &update[..]].concat(), &[], |index| {
            let within = (0..2).all(|d| (at[d]..at[d] + sizes[d]).contains(&index[d]));
            let from_update = || 35 + position(&[index[0] - at[0], index[1] - at[1]], &sizes);
            Some(if within { from_update() } else { position(index, &dims) })
        });
        let plan = DynamicUpdateSlice::new(&dims, &sizes, DType::I64, 4).unwrap();
        check(&format!("dynamic update at {start:?}"), &cores, &expected, |to, cores| {
            // SAFETY: the arrays have the planned shapes, and there are two indices.
            unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
                plan.run(update.as_ptr(), &pointers, to, cores);
            }
        });
    }
    assert!(DynamicSlice::new(&[3], &[4], DType::I32, 4).is_none());
    assert!(DynamicSlice::new(&[3], &[2], DType::F32, 4).is_none());
}

#[test]
fn unsigned_indices_beyond_i64_are_large() {
    let index = u64::MAX;
    let start = index::Start::new(&[9], &[2], DType::U64).unwrap();
    // SAFETY: one index for one dimension.
    assert_eq!(unsafe { start.element(&[(&raw const index).cast()]) }, 7);
}

#[test]
fn hostile_sizes_do_nothing() {
    let cores = all_cores();
    let plan = shapes::transpose(&[0, usize::MAX, usize::MAX], &[2, 1, 0], 16);
    check("an empty array of huge sizes", &cores, &[], |to, cores| {
        // SAFETY: there is nothing to copy.
        unsafe { plan.run(std::ptr::null(), to, cores) }
    });
}
