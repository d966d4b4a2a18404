//! Sorts and searches against comparisons of whole rows.

use std::cmp::Ordering;

use tensor::DType;

use super::*;
use crate::kernels::Cores;
use crate::kernels::loops::ir::{Compare, Inst, Reg};
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;

fn cores(threads: usize) -> Cores {
    Cores { machine: Machine::detect(), pool: Pool::new(threads) }
}

/// A sequence that looks random and is the same each time.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }
}

fn key(operand: usize, transform: Transform, direction: Direction, nans: Nans) -> Key {
    Key { operand, transform, direction, nans }
}

fn less_f32() -> Program {
    let insts = vec![Inst::Load(0), Inst::Load(1), Inst::Compare(Compare::Lt, Reg(0), Reg(1))];
    Program::new(vec![DType::F32, DType::F32], insts, vec![(DType::Bool, Reg(2))]).unwrap()
}

/// Sorts operands of 4-byte elements and compares with a stable sort of the places of each row.
fn check(
    dims: &[usize],
    dimension: usize,
    dtypes: &[DType],
    (order, comparator): (Option<SortOrder>, Option<Program>),
    operands: &[Vec<u32>],
    before: impl Fn(&[u32], &[u32]) -> Ordering,
) {
    for threads in [1, 3] {
        let sort = Sort::new(dims, dimension, dtypes, order.clone(), comparator.clone()).unwrap();
        let mut results: Vec<Vec<u32>> = operands.iter().map(|v| vec![0; v.len()]).collect();
        let reads: Vec<*const u8> = operands.iter().map(|v| v.as_ptr().cast()).collect();
        let writes: Vec<*mut u8> = results.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        // SAFETY: the vectors have the sizes of the sort.
        unsafe { sort.run(&reads, &writes, &cores(threads)) };
        let inner: usize = dims[dimension + 1..].iter().product();
        for row in 0..operands[0].len() / dims[dimension].max(1) {
            let base = row / inner * inner * dims[dimension] + row % inner;
            let at = |i: usize| base + i * inner;
            let mut places: Vec<usize> = (0..dims[dimension]).map(at).collect();
            let all = |place: usize| operands.iter().map(|v| v[place]).collect::<Vec<_>>();
            places.sort_by(|&a, &b| before(&all(a), &all(b)));
            for (i, place) in places.into_iter().enumerate() {
                let found: Vec<u32> = results.iter().map(|v| v[at(i)]).collect();
                assert_eq!(found, all(place), "{dims:?} along {dimension}: row {row}, element {i}");
            }
        }
    }
}

const REALS: [f32; 12] =
    [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 1e-40, -1e-40, 2.5, -3.5, 7.0];

fn reals(count: usize, seed: u64, with_nan: bool) -> Vec<u32> {
    let mut draws = Draws(seed);
    let mut next = || {
        let draw = draws.next();
        match draw % 8 {
            0 => REALS[(draw >> 8) as usize % REALS.len()].to_bits(),
            1 if with_nan => 0x7f80_0001 | (draw >> 5) as u32,
            _ => ((draw >> 8) as u32 as i32 as f32 / 1e6).to_bits(),
        }
    };
    (0..count).map(|_| next()).collect()
}

fn canonical(bits: u32) -> f32 {
    let x = f32::from_bits(bits);
    if x.is_nan() {
        f32::NAN.abs()
    } else if x == 0.0 {
        0.0
    } else {
        x
    }
}

const SHAPES: [(&[usize], usize); 7] =
    [(&[5], 0), (&[1], 0), (&[0], 0), (&[7, 300], 1), (&[300, 7], 0), (&[3, 40, 5], 1), (&[70_000], 0)];

#[test]
fn reals_sort_by_their_bits() {
    for (dims, dimension) in SHAPES {
        let values = reals(dims.iter().product(), 1, true);
        let total =
            |direction| SortOrder { keys: vec![key(0, Transform::None, direction, Nans::Ordered)], ties: Ties::Kept };
        let up = |a: &[u32], b: &[u32]| f32::from_bits(a[0]).total_cmp(&f32::from_bits(b[0]));
        check(
            dims,
            dimension,
            &[DType::F32],
            (Some(total(Direction::Ascending)), None),
            std::slice::from_ref(&values),
            up,
        );
        let down = |a: &[u32], b: &[u32]| up(b, a);
        check(dims, dimension, &[DType::F32], (Some(total(Direction::Descending)), None), &[values], down);
    }
}

#[test]
fn canonical_keys_keep_what_they_hide() {
    let order =
        SortOrder { keys: vec![key(0, Transform::Canonical, Direction::Ascending, Nans::Ordered)], ties: Ties::Kept };
    let before = |a: &[u32], b: &[u32]| canonical(a[0]).total_cmp(&canonical(b[0]));
    for (dims, dimension) in SHAPES {
        let count = dims.iter().product();
        let values = reals(count, 2, true);
        check(dims, dimension, &[DType::F32], (Some(order.clone()), None), std::slice::from_ref(&values), before);
        let mut draws = Draws(3);
        let payload = (0..count).map(|_| draws.next() as u32).collect();
        check(dims, dimension, &[DType::F32, DType::I32], (Some(order.clone()), None), &[values, payload], before);
    }
    // Places, as a search for the order of indices has them.
    let values = reals(5000, 4, false);
    let places = (0..5000).collect();
    check(&[5000], 0, &[DType::F32, DType::I32], (Some(order), None), &[values, places], before);
}

#[test]
fn several_keys_decide_one_after_another() {
    for (dims, dimension) in SHAPES {
        let count = dims.iter().product();
        let mut draws = Draws(5);
        let mut few = |n: u64| (0..count).map(|_| (draws.next() % n) as u32).collect::<Vec<u32>>();
        let operands = [few(3), few(4), few(5), few(1000)];
        let plain = |operand, direction| key(operand, Transform::None, direction, Nans::Ordered);
        let keys =
            vec![plain(2, Direction::Descending), plain(0, Direction::Ascending), plain(1, Direction::Ascending)];
        let dtypes = [DType::I32, DType::U32, DType::I32, DType::F32];
        let before = |a: &[u32], b: &[u32]| (b[2], a[0], a[1]).cmp(&(a[2], b[0], b[1]));
        check(dims, dimension, &dtypes, (Some(SortOrder { keys, ties: Ties::Kept }), None), &operands, before);
    }
}

#[test]
fn equals_may_be_reversed() {
    let order =
        SortOrder { keys: vec![key(0, Transform::None, Direction::Ascending, Nans::Ordered)], ties: Ties::Reversed };
    let count = 1000;
    let mut draws = Draws(6);
    let keys: Vec<u32> = (0..count).map(|_| (draws.next() % 7) as u32).collect();
    let places: Vec<u32> = (0..count).map(|n| n * 2).collect();
    let before = |a: &[u32], b: &[u32]| (a[0], b[1]).cmp(&(b[0], a[1]));
    check(&[count as usize], 0, &[DType::U32, DType::U32], (Some(order), None), &[keys, places], before);
}

#[test]
fn comparators_sort_what_has_no_key() {
    let order =
        SortOrder { keys: vec![key(0, Transform::None, Direction::Ascending, Nans::Unordered)], ties: Ties::Kept };
    let before = |a: &[u32], b: &[u32]| canonical(a[0]).total_cmp(&canonical(b[0]));
    for (dims, dimension) in SHAPES {
        let values = reals(dims.iter().product(), 7, false);
        check(dims, dimension, &[DType::F32], (None, Some(less_f32())), std::slice::from_ref(&values), before);
        check(dims, dimension, &[DType::F32], (Some(order.clone()), Some(less_f32())), &[values], before);
    }
    assert!(Sort::new(&[4], 0, &[DType::F32], Some(order), None).is_none(), "rows with NaN need a comparator");
    assert!(Sort::new(&[4], 0, &[DType::F32], None, None).is_none());
    // A comparator that contradicts itself still gives the elements in some order.
    let values = reals(1000, 8, true);
    let sort = Sort::new(&[1000], 0, &[DType::F32], None, Some(less_f32())).unwrap();
    let mut result = vec![0u32; 1000];
    // SAFETY: the vectors have the sizes of the sort.
    unsafe { sort.run(&[values.as_ptr().cast()], &[result.as_mut_ptr().cast()], &cores(1)) };
    let sorted = |mut v: Vec<u32>| {
        v.sort_unstable();
        v
    };
    assert_eq!(sorted(result), sorted(values));
}

#[test]
fn every_width_has_keys() {
    fn one<T: Copy + Default + Ord + std::fmt::Debug>(dtype: DType, of: impl Fn(u64) -> T) {
        for count in [1, 100, 1000, 40_000] {
            let mut draws = Draws(9);
            let values: Vec<T> = (0..count).map(|_| of(draws.next() << 20 | draws.next())).collect();
            let order = SortOrder {
                keys: vec![key(0, Transform::None, Direction::Ascending, Nans::Ordered)],
                ties: Ties::Kept,
            };
            let sort = Sort::new(&[count], 0, &[dtype, dtype], Some(order.clone()), None).unwrap();
            let alone = Sort::new(&[count], 0, &[dtype], Some(order), None).unwrap();
            let mut results = vec![vec![T::default(); count]; 3];
            let writes: Vec<*mut u8> = results.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
            let read = values.as_ptr().cast();
            // SAFETY: the vectors have the sizes of the sorts.
            unsafe {
                sort.run(&[read, read], &writes[..2], &cores(2));
                alone.run(&[read], &writes[2..], &cores(2));
            }
            let mut expected = values.clone();
            expected.sort();
            results.iter().for_each(|result| assert_eq!(result, &expected, "{dtype}"));
        }
    }
    one(DType::I8, |x| x as i8);
    one(DType::U8, |x| x as u8);
    one(DType::Bool, |x| x as u8 & 1);
    one(DType::I16, |x| x as i16);
    one(DType::U32, |x| x as u32);
    one(DType::I64, |x| x as i64);
    one(DType::U64, |x| x);
}

#[test]
fn the_largest_are_found() {
    for (rows, length, k) in
        [(1, 1, 1), (3, 50, 50), (5, 2000, 7), (2, 9000, 4000), (4, 10, 0), (0, 5, 2), (300, 40, 3)]
    {
        for dtype in [DType::F32, DType::I32, DType::U32] {
            let mut draws = Draws(10);
            let mut values = reals(rows * length, 11, true);
            values.iter_mut().filter(|_| draws.next().is_multiple_of(3)).for_each(|v| *v %= 5);
            let top = TopK::new(rows, length, k, dtype).unwrap();
            let (mut best, mut places) = (vec![0u32; rows * k], vec![0i32; rows * k]);
            // SAFETY: the vectors have the sizes of the search.
            unsafe { top.run(values.as_ptr().cast(), best.as_mut_ptr().cast(), places.as_mut_ptr(), &cores(2)) };
            for row in 0..rows {
                let row_values = &values[row * length..][..length];
                let mut order: Vec<usize> = (0..length).collect();
                order.sort_by(|&a, &b| {
                    let (a, b) = (row_values[a], row_values[b]);
                    match dtype {
                        DType::F32 => f32::from_bits(b).total_cmp(&f32::from_bits(a)),
                        DType::I32 => (b as i32).cmp(&(a as i32)),
                        _ => b.cmp(&a),
                    }
                });
                for n in 0..k {
                    assert_eq!(places[row * k + n] as usize, order[n], "{rows} {length} {k} {dtype}");
                    assert_eq!(best[row * k + n], row_values[order[n]]);
                }
            }
        }
    }
    assert!(TopK::new(1, 2, 3, DType::F32).is_none());
    assert!(TopK::new(1, 2, 1, DType::C64).is_none());
}
