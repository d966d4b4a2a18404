//! Loops against their meaning, through every backend and instruction set of this machine.
#![allow(unsafe_code)]

use tensor::{DType, decode_float, encode_float};

use super::ir::{Access, Binary, Compare, Fold, Inst, Lane, Loop, Mode, Reg, Unary, Write};
use super::schedule::{Schedule, Step};
use super::{Body, Ready};
use crate::kernels::Cores;
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;

#[path = "jit/tests/naive.rs"]
#[allow(clippy::duplicate_mod)]
mod naive;

fn cores() -> Cores {
    Cores { machine: Machine::detect(), pool: Pool::new(2) }
}

fn ready(source: &Loop) -> Vec<Ready> {
    let here = Machine::detect();
    let lesser = [Machine::portable(), Machine { avx2: here.avx2, ..Machine::portable() }, here];
    let mut all: Vec<Ready> = lesser.iter().map(|m| Ready::with_body(source.clone(), m, Body::portable)).collect();
    all.push(Ready::new(source.clone(), &here));
    all
}

fn number(dtype: DType, bytes: &[u8]) -> f64 {
    let bits = naive::load(dtype, bytes);
    match Lane::of(dtype) {
        Some(Lane::F64) => f64::from_bits(bits),
        Some(Lane::F32) => f64::from(f32::from_bits(bits as u32)),
        Some(Lane::I32) => f64::from(bits as u32 as i32),
        _ => bits as i64 as f64,
    }
}

/// Elements equal, or within `tolerance` of the larger of 1 and the expected value.
fn compare(source: &Loop, results: &[Vec<u8>], expected: &[Vec<u8>], tolerance: f64) {
    for (n, write) in source.writes.iter().enumerate() {
        let (dtype, size) = (write.access.dtype, write.access.dtype.size_bytes());
        for (at, (a, b)) in results[n].chunks(size).zip(expected[n].chunks(size)).enumerate() {
            let (x, y) = (number(dtype, a), number(dtype, b));
            let tiny = |v: f64| dtype == DType::F32 && v.abs() < f64::from(f32::MIN_POSITIVE);
            let near = (x - y).abs() <= tolerance * y.abs().max(1.0);
            let same = a == b || x.is_nan() && y.is_nan() || tolerance > 0.0 && near || tiny(x) && tiny(y);
            assert!(same, "write {n} element {at}: {x:?} ({a:x?}), expected {y:?} ({b:x?}), {source:?}");
        }
    }
}

/// Runs a loop whole and in boxes, on every backend.
fn check(source: &Loop, reads: &[Vec<u8>], writes: &[Vec<u8>], tolerance: f64) {
    let expected = naive::run(source, reads, writes);
    let cores = cores();
    for ready in ready(source) {
        let sources: Vec<*const u8> = reads.iter().map(|r| r.as_ptr()).collect();
        let mut results = writes.to_vec();
        let targets: Vec<*mut u8> = results.iter_mut().map(|w| w.as_mut_ptr()).collect();
        // SAFETY: the arrays are as large as the accesses say.
        unsafe { ready.run(&sources, &targets, &cores) };
        compare(source, &results, &expected, tolerance);
        let mut results = writes.to_vec();
        let targets: Vec<*mut u8> = results.iter_mut().map(|w| w.as_mut_ptr()).collect();
        let whole_row = ready.whole.schedule.reduces() || source.dims.len() == 1 && source.insts.len() > 4;
        let cut = if whole_row { 0 } else { source.dims.len() - 1 };
        let size = source.dims[cut];
        let middle = if cut == source.dims.len() - 1 && whole_row { size } else { size.div_ceil(2) };
        for part in [0..middle, middle..size] {
            let mut ranges: Vec<_> = source.dims.iter().map(|&d| 0..d).collect();
            ranges[cut] = part;
            // SAFETY: as above.
            unsafe { ready.run_box(&sources, &targets, &ranges) };
        }
        compare(source, &results, &expected, tolerance);
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ x >> 29
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    fn array(&mut self, dtype: DType, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 0.5, -2.5, 1e30, 300.0];
            let value = match self.below(6) {
                0 => special[self.below(special.len())],
                1 => f64::from(self.next() as i32 >> 24) / 2.0,
                _ => f64::from(self.next() as i32) / f64::from(1u32 << 29),
            };
            let bits = if dtype.is_bool() {
                self.next() & 1
            } else if dtype.is_float() {
                encode_float(dtype, value).unwrap()
            } else {
                let bits = match self.below(4) {
                    0 => [0, 1, u64::MAX, 1 << 31, i64::MIN as u64, 0x7fff_ffff, 31, 32, 63, 64][self.below(10)],
                    1 => self.next() % 70,
                    _ => self.next(),
                };
                let unused = 64 - dtype.bits();
                if dtype.is_signed_integer() {
                    ((bits << unused) as i64 >> unused) as u64
                } else {
                    bits << unused >> unused
                }
            };
            bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size_bytes()]);
        }
        bytes
    }

    fn mild(&mut self, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| ((self.next() as i32) as f32 / 1e9).to_le_bytes()).collect()
    }
}

fn dense(dtype: DType, dims: &[usize]) -> Access {
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for (s, &size) in strides.iter_mut().zip(dims).rev() {
        *s = stride;
        stride *= size as isize;
    }
    Access { dtype, offset: 0, strides }
}

fn stored(access: Access, value: usize) -> Write {
    Write { access, value: Reg(value as u32), mode: Mode::Store }
}

fn check_chain(random: &mut Random, reads: &[DType], insts: &[Inst], target: DType, tolerance: f64) {
    for count in [1, 7, 600] {
        let dims = vec![count];
        let source = Loop {
            reads: reads.iter().map(|&d| dense(d, &dims)).collect(),
            insts: insts.to_vec(),
            writes: vec![stored(dense(target, &dims), insts.len() - 1)],
            dims,
        };
        let contents: Vec<Vec<u8>> = reads.iter().map(|&d| random.array(d, count)).collect();
        check(&source, &contents, &[random.array(target, count)], tolerance);
    }
}

#[test]
fn unary_operations() {
    use Unary::*;
    let mut random = Random(1);
    let reals = [Neg, Abs, Sign, Floor, Ceil, RoundEven, RoundAway, Sqrt];
    let functions = [Rsqrt, Cbrt, Exp, ExpMinusOne, Log, LogPlusOne, Tanh, Logistic, Sin, Cos, Tan, Erf];
    for dtype in [DType::F32, DType::F64] {
        for op in reals {
            check_chain(&mut random, &[dtype], &[Inst::Load(0), Inst::Unary(op, Reg(0))], dtype, 0.0);
        }
        for op in functions {
            let tolerance = if dtype == DType::F32 { 4e-7 } else { 2e-15 };
            check_chain(&mut random, &[dtype], &[Inst::Load(0), Inst::Unary(op, Reg(0))], dtype, tolerance);
        }
        check_chain(&mut random, &[dtype], &[Inst::Load(0), Inst::Unary(IsFinite, Reg(0))], DType::Bool, 0.0);
    }
    for dtype in [DType::I32, DType::I64] {
        for op in [Neg, Abs, Sign, Not, PopCount, LeadingZeros] {
            check_chain(&mut random, &[dtype], &[Inst::Load(0), Inst::Unary(op, Reg(0))], dtype, 0.0);
        }
    }
    check_chain(&mut random, &[DType::Bool], &[Inst::Load(0), Inst::Unary(Not, Reg(0))], DType::Bool, 0.0);
}

#[test]
fn binary_operations() {
    use Binary::*;
    let mut random = Random(2);
    let mut all = |op: Binary, dtype: DType, tolerance: f64| {
        let lane = Lane::of(dtype).unwrap();
        let bits = match dtype {
            DType::F32 => u64::from(1.5f32.to_bits()),
            DType::F64 => 1.5f64.to_bits(),
            _ => 1,
        };
        let constant = Inst::Const { lane, bits };
        let pair = [dtype, dtype];
        let two = [Inst::Load(0), Inst::Load(1), Inst::Binary(op, Reg(0), Reg(1))];
        check_chain(&mut random, &pair, &two, dtype, tolerance);
        for (a, b) in [(0, 1), (1, 0)] {
            let one = [Inst::Load(0), constant, Inst::Binary(op, Reg(a), Reg(b))];
            check_chain(&mut random, &[dtype], &one, dtype, tolerance);
        }
    };
    for dtype in [DType::F32, DType::F64] {
        for op in [Add, Sub, Mul, Div, Rem, Min, Max] {
            all(op, dtype, 0.0);
        }
        for op in [Pow, Atan2] {
            all(op, dtype, if dtype == DType::F32 { 4e-7 } else { 2e-15 });
        }
    }
    for dtype in [DType::I32, DType::I64] {
        let ops = [Add, Sub, Mul, Div, Rem, Min, Max, DivU, RemU, MinU, MaxU, And, Or, Xor, Shl, ShrL, ShrA];
        for op in ops {
            all(op, dtype, 0.0);
        }
    }
    for op in [And, Or, Xor] {
        all(op, DType::Bool, 0.0);
    }
}

#[test]
fn comparisons_and_choices() {
    use super::ir::Compare::*;
    let mut random = Random(3);
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        let mut ops: Vec<Compare> = vec![Eq, Ne, Lt, Le, Gt, Ge];
        if dtype.is_integer() {
            ops.extend([LtU, LeU, GtU, GeU]);
        }
        let constant = Inst::Const { lane: Lane::of(dtype).unwrap(), bits: 0 };
        for op in ops {
            let two = [Inst::Load(0), Inst::Load(1), Inst::Compare(op, Reg(0), Reg(1))];
            check_chain(&mut random, &[dtype, dtype], &two, DType::Bool, 0.0);
            for (a, b) in [(0, 1), (1, 0)] {
                let one = [Inst::Load(0), constant, Inst::Compare(op, Reg(a), Reg(b))];
                check_chain(&mut random, &[dtype], &one, DType::Bool, 0.0);
            }
        }
        for (a, b) in [(1, 2), (1, 3), (3, 2), (3, 4)] {
            let other = Inst::Const { lane: Lane::of(dtype).unwrap(), bits: 3 };
            let choice =
                [Inst::Load(0), Inst::Load(1), Inst::Load(2), constant, other, Inst::Select(Reg(0), Reg(a), Reg(b))];
            check_chain(&mut random, &[DType::Bool, dtype, dtype], &choice, dtype, 0.0);
        }
    }
    let fused = [Inst::Load(0), Inst::Load(1), Inst::Load(2), Inst::Fma(Reg(0), Reg(1), Reg(2))];
    for dtype in [DType::F32, DType::F64] {
        check_chain(&mut random, &[dtype; 3], &fused, dtype, 0.0);
    }
}

/// The value of one type as another, by way of exact numbers.
fn converted(source: DType, target: DType, bytes: &[u8]) -> Vec<u8> {
    let mut raw = [0; 8];
    raw[..bytes.len()].copy_from_slice(bytes);
    let raw = u64::from_le_bytes(raw);
    let unused = 64 - source.bits();
    let whole = if source.is_bool() {
        i128::from(raw != 0)
    } else if source.is_signed_integer() {
        i128::from((raw << unused) as i64 >> unused)
    } else {
        i128::from(raw << unused >> unused)
    };
    let real = if source.is_float() { decode_float(source, raw).unwrap() } else { whole as f64 };
    let bits = if target.is_bool() {
        u64::from(if source.is_float() { real != 0.0 } else { whole != 0 })
    } else if target.is_integer() && source.is_float() {
        let (low, high) = if target.is_signed_integer() {
            (-(1i128 << (target.bits() - 1)), (1i128 << (target.bits() - 1)) - 1)
        } else {
            (0, (1i128 << target.bits()) - 1)
        };
        (real as i128).clamp(low, high) as u64
    } else if target.is_integer() {
        let unused = 128 - target.bits();
        if target.is_signed_integer() {
            (whole << unused >> unused) as u64
        } else {
            ((whole as u128) << unused >> unused) as u64
        }
    } else if source.is_float() || whole.unsigned_abs() < 1 << 53 {
        encode_float(target, real).unwrap()
    } else if target == DType::F32 {
        u64::from((whole as f32).to_bits())
    } else {
        encode_float(target, whole as f64).unwrap()
    };
    bits.to_le_bytes()[..target.size_bytes()].to_vec()
}

#[test]
fn conversions() {
    let mut random = Random(4);
    let types: Vec<DType> = DType::ALL.iter().copied().filter(|d| !d.is_complex()).collect();
    for &source in &types {
        for &target in &types {
            let count = 37;
            let input = random.array(source, count);
            let expected: Vec<u8> =
                input.chunks(source.size_bytes()).flat_map(|e| converted(source, target, e)).collect();
            let program = Loop {
                dims: vec![count],
                reads: vec![dense(source, &[count])],
                insts: vec![Inst::Load(0), Inst::Convert { value: Reg(0), source, target }],
                writes: vec![stored(dense(target, &[count]), 1)],
            };
            for ready in ready(&program) {
                let mut result = vec![0u8; expected.len()];
                // SAFETY: the arrays have `count` elements.
                unsafe { ready.run(&[input.as_ptr()], &[result.as_mut_ptr()], &cores_of_one()) };
                let size = target.size_bytes();
                for (at, (a, b)) in result.chunks(size).zip(expected.chunks(size)).enumerate() {
                    let nan = |bytes: &[u8]| {
                        let mut raw = [0; 8];
                        raw[..size].copy_from_slice(bytes);
                        decode_float(target, u64::from_le_bytes(raw)).is_some_and(f64::is_nan)
                    };
                    let from = &input[at * source.size_bytes()..][..source.size_bytes()];
                    assert!(a == b || nan(a) && nan(b), "{source} {from:x?} to {target}: {a:x?}, expected {b:x?}");
                }
            }
        }
    }
}

fn cores_of_one() -> Cores {
    Cores { machine: Machine::detect(), pool: Pool::new(1) }
}

fn softmax(rows: usize, count: usize) -> Loop {
    let dims = vec![rows, count];
    Loop {
        reads: vec![dense(DType::F32, &dims)],
        insts: vec![
            Inst::Load(0),
            Inst::Reduce(Fold::Max, Reg(0)),
            Inst::Binary(Binary::Sub, Reg(0), Reg(1)),
            Inst::Unary(Unary::Exp, Reg(2)),
            Inst::Reduce(Fold::Sum, Reg(3)),
            Inst::Binary(Binary::Div, Reg(3), Reg(4)),
        ],
        writes: vec![stored(dense(DType::F32, &dims), 5)],
        dims,
    }
}

fn layer_norm(rows: usize, count: usize) -> Loop {
    let dims = vec![rows, count];
    let constant = |x: f32| Inst::Const { lane: Lane::F32, bits: u64::from(x.to_bits()) };
    Loop {
        reads: vec![
            dense(DType::F32, &dims),
            Access { dtype: DType::F32, offset: 0, strides: vec![0, 1] },
            Access { dtype: DType::F32, offset: 0, strides: vec![0, 1] },
        ],
        insts: vec![
            Inst::Load(0),
            Inst::Reduce(Fold::Sum, Reg(0)),
            constant(1.0 / count as f32),
            Inst::Binary(Binary::Mul, Reg(1), Reg(2)),
            Inst::Binary(Binary::Sub, Reg(0), Reg(3)),
            Inst::Binary(Binary::Mul, Reg(4), Reg(4)),
            Inst::Reduce(Fold::Sum, Reg(5)),
            Inst::Binary(Binary::Mul, Reg(6), Reg(2)),
            constant(1e-5),
            Inst::Binary(Binary::Add, Reg(7), Reg(8)),
            Inst::Unary(Unary::Rsqrt, Reg(9)),
            Inst::Binary(Binary::Mul, Reg(4), Reg(10)),
            Inst::Load(1),
            Inst::Binary(Binary::Mul, Reg(11), Reg(12)),
            Inst::Load(2),
            Inst::Binary(Binary::Add, Reg(13), Reg(14)),
        ],
        writes: vec![stored(dense(DType::F32, &dims), 15)],
        dims,
    }
}

#[test]
fn rows_are_walked_in_phases() {
    let schedule = Schedule::new(&softmax(4, 100));
    assert_eq!(schedule.phases.len(), 3);
    assert_eq!(schedule.slots, [Lane::F32]);
    let computes = |phase: usize, op: Unary| {
        let is = |s: &&Step| matches!(s, Step::Compute(r) if matches!(schedule.insts[r.0 as usize], Inst::Unary(o, _) if o == op));
        schedule.phases[phase].steps.iter().filter(is).count()
    };
    assert_eq!([0, 1, 2].map(|p| computes(p, Unary::Exp)), [0, 1, 0]);
    let schedule = Schedule::new(&layer_norm(4, 100));
    assert_eq!((schedule.phases.len(), schedule.slots.len()), (3, 0));
    let mut random = Random(5);
    for (rows, count) in [(1, 1), (3, 5), (2, 1000), (37, 64), (5, 1029)] {
        let out = vec![0; rows * count * 4];
        check(&softmax(rows, count), &[random.mild(rows * count)], std::slice::from_ref(&out), 1e-6);
        let arrays = [random.mild(rows * count), random.mild(count), random.mild(count)];
        check(&layer_norm(rows, count), &arrays, &[out], 3e-5);
    }
}

#[test]
fn a_write_may_take_the_place_of_a_read() {
    let source = softmax(9, 333);
    let mut random = Random(6);
    let input = random.mild(9 * 333);
    let expected = naive::run(&source, std::slice::from_ref(&input), std::slice::from_ref(&input));
    for ready in ready(&source) {
        assert!(ready.in_place_ok(0, 0));
        let mut memory = input.clone();
        let at = memory.as_mut_ptr();
        // SAFETY: the loop allows one array for both.
        unsafe { ready.run(&[at], &[at], &cores()) };
        compare(&source, &[memory], &expected, 1e-6);
    }
    let mut source = layer_norm(4, 10);
    source.writes.push(stored(dense(DType::F32, &[4, 10]), 4));
    let ready = Ready::new(source, &Machine::detect());
    assert!(!ready.in_place_ok(1, 0));
    assert!(ready.in_place_ok(0, 0));
}

#[test]
fn strides_broadcasts_and_positions() {
    let mut random = Random(7);
    for _ in 0..60 {
        let rank = 1 + random.below(4);
        let dims: Vec<usize> = (0..rank).map(|_| [1, 2, 3, 5, 8, 17, 40][random.below(7)]).collect();
        let points: usize = dims.iter().product();
        // Four reads: dense, permuted, broadcast along some dimensions, reversed along the row.
        let mut permuted = dense(DType::F32, &dims);
        if rank > 1 {
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(random.below(rank), random.below(rank));
            let mut stride = 1;
            for &dim in &order {
                permuted.strides[dim] = stride;
                stride *= dims[dim] as isize;
            }
        }
        let mut broadcast = dense(DType::F32, &dims);
        for dim in 0..rank {
            if random.below(2) == 0 {
                broadcast.strides[dim] = 0;
            }
        }
        let mut reversed = dense(DType::F32, &dims);
        reversed.offset = dims[rank - 1] as isize - 1;
        reversed.strides[rank - 1] = -1;
        let mut insts = vec![
            Inst::Load(0),
            Inst::Load(1),
            Inst::Load(2),
            Inst::Load(3),
            Inst::Binary(Binary::Add, Reg(0), Reg(1)),
            Inst::Binary(Binary::Mul, Reg(4), Reg(2)),
            Inst::Binary(Binary::Sub, Reg(5), Reg(3)),
        ];
        let mut value = 6;
        if random.below(2) == 0 {
            for dim in 0..rank {
                insts.push(Inst::Index { lane: Lane::I32, dim: dim as u32 });
                insts.push(Inst::Convert {
                    value: Reg(insts.len() as u32 - 1),
                    source: DType::I32,
                    target: DType::F32,
                });
                insts.push(Inst::Binary(Binary::Add, Reg(value), Reg(insts.len() as u32 - 1)));
                value = insts.len() as u32 - 1;
            }
        }
        let mut target = dense(DType::F32, &dims);
        if random.below(3) == 0 {
            target = permuted.clone();
        }
        let source = Loop {
            reads: vec![dense(DType::F32, &dims), permuted, broadcast, reversed],
            insts,
            writes: vec![stored(target, value as usize)],
            dims,
        };
        let reads: Vec<Vec<u8>> = (0..4).map(|_| random.mild(points)).collect();
        check(&source, &reads, &[vec![0; points * 4]], 0.0);
    }
}

#[test]
fn reductions_and_combinations() {
    let mut random = Random(8);
    let folds = |dtype: DType| -> Vec<Fold> {
        match Lane::of(dtype) {
            Some(Lane::F32 | Lane::F64) => vec![Fold::Sum, Fold::Product, Fold::Min, Fold::Max],
            Some(Lane::Mask) => vec![Fold::And, Fold::Or, Fold::Xor],
            _ => vec![
                Fold::Sum,
                Fold::Product,
                Fold::Min,
                Fold::Max,
                Fold::MinU,
                Fold::MaxU,
                Fold::And,
                Fold::Or,
                Fold::Xor,
            ],
        }
    };
    for dtype in [DType::F32, DType::F64, DType::I32, DType::U32, DType::I64, DType::Bool] {
        for fold in folds(dtype) {
            for dims in [vec![3, 1], vec![1, 70], vec![4, 129], vec![2, 3, 700]] {
                let rank = dims.len();
                let points: usize = dims.iter().product();
                let (count, outer) = (dims[rank - 1], points / dims[rank - 1]);
                let mut per_row = dense(dtype, &dims[..rank - 1]);
                per_row.strides.push(0);
                let mut columns = Access { dtype, offset: 0, strides: vec![0; rank] };
                columns.strides[rank - 1] = 1;
                let total = Access { dtype, offset: 0, strides: vec![0; rank] };
                let source = Loop {
                    reads: vec![dense(dtype, &dims)],
                    insts: vec![Inst::Load(0), Inst::Reduce(fold, Reg(0))],
                    writes: vec![
                        stored(per_row, 1),
                        Write { access: columns, value: Reg(0), mode: Mode::Combine(fold) },
                        Write { access: total, value: Reg(1), mode: Mode::Combine(fold) },
                    ],
                    dims: dims.clone(),
                };
                let input = if dtype == DType::F32 { random.mild(points) } else { random.array(dtype, points) };
                let tolerance = if dtype.is_float() { 1e-4 } else { 0.0 };
                let size = dtype.size_bytes();
                let ones = |n: usize| -> Vec<u8> {
                    let one = match dtype {
                        DType::F32 => u64::from(1f32.to_bits()),
                        DType::F64 => 1f64.to_bits(),
                        _ => 1,
                    };
                    (0..n).flat_map(|_| one.to_le_bytes()[..size].to_vec()).collect()
                };
                check(&source, &[input], &[ones(outer), ones(count), ones(1)], tolerance);
            }
        }
    }
}

#[test]
fn large_loops_are_shared() {
    let mut random = Random(9);
    // One row, few rows, many columns combined, one long reduction.
    for dims in [vec![100_003], vec![2, 50_001], vec![3000, 7], vec![300, 301]] {
        let points: usize = dims.iter().product();
        let rank = dims.len();
        let mut columns = Access { dtype: DType::F32, offset: 0, strides: vec![0; rank] };
        columns.strides[rank - 1] = 1;
        let mut source = Loop {
            reads: vec![dense(DType::F32, &dims)],
            insts: vec![Inst::Load(0), Inst::Binary(Binary::Mul, Reg(0), Reg(0))],
            writes: vec![stored(dense(DType::F32, &dims), 1)],
            dims: dims.clone(),
        };
        let input = random.mild(points);
        check(&source, std::slice::from_ref(&input), &[vec![0; points * 4]], 0.0);
        source.writes = vec![Write { access: columns, value: Reg(1), mode: Mode::Combine(Fold::Sum) }];
        let count = dims[rank - 1];
        check(&source, std::slice::from_ref(&input), &[vec![0; count * 4]], 1e-4);
        let mut per_row = dense(DType::F32, &dims[..rank - 1]);
        per_row.strides.push(0);
        source.insts.push(Inst::Reduce(Fold::Sum, Reg(1)));
        source.insts.push(Inst::Unary(Unary::Sqrt, Reg(2)));
        source.writes = vec![stored(per_row, 3), stored(dense(DType::F32, &dims), 1)];
        check(&source, &[input], &[vec![0; points / count * 4], vec![0; points * 4]], 1e-4);
    }
}

#[test]
fn boxes_of_whole_rows_are_one_run() {
    let mut random = Random(11);
    let dims = vec![3, 1, 5, 7];
    let points: usize = dims.iter().product();
    let source = Loop {
        reads: vec![dense(DType::F32, &dims)],
        insts: vec![Inst::Load(0), Inst::Unary(Unary::Neg, Reg(0))],
        writes: vec![stored(dense(DType::F32, &dims), 1)],
        dims,
    };
    let input = random.mild(points);
    for ready in ready(&source) {
        let run = |ranges: [std::ops::Range<usize>; 4]| {
            let mut result = vec![0u8; points * 4];
            // SAFETY: the arrays are as large as the accesses say.
            unsafe { ready.run_box(&[input.as_ptr()], &[result.as_mut_ptr()], &ranges) };
            for (at, (a, b)) in input.chunks(4).zip(result.chunks(4)).enumerate() {
                let inside = ranges[0].contains(&(at / 35))
                    && ranges[2].contains(&(at / 7 % 5))
                    && ranges[3].contains(&(at % 7));
                let expected = if inside { (-f32::from_le_bytes(a.try_into().unwrap())).to_le_bytes() } else { [0; 4] };
                assert_eq!(b, expected, "element {at} of {ranges:?}");
            }
            ready.run_of(&ranges)
        };
        assert_eq!(run([0..3, 0..1, 0..5, 0..7]), Some(0..105));
        assert_eq!(run([1..3, 0..1, 0..5, 0..7]), Some(35..105));
        assert_eq!(run([1..2, 0..1, 2..4, 0..7]), Some(49..63));
        assert_eq!(run([2..3, 0..1, 4..5, 3..6]), Some(101..104));
        assert_eq!(run([0..2, 0..1, 2..4, 0..7]), None);
        assert_eq!(run([0..1, 0..1, 2..4, 1..7]), None);
    }
}

#[test]
fn rows_are_walked_side_by_side() {
    let mut random = Random(10);
    for dtype in [DType::F32, DType::I32] {
        for dims in [vec![64, 33], vec![16, 5], vec![2, 128, 65], vec![34, 40], vec![36, 140], vec![35, 40]] {
            let (rank, points) = (dims.len(), dims.iter().product::<usize>());
            let (count, rows) = (dims[rank - 1], points / dims[rank - 1]);
            let mut columns = Access { dtype, offset: 0, strides: vec![0; rank] };
            columns.strides[rank - 1] = 1;
            let mut per_row = dense(dtype, &dims[..rank - 1]);
            per_row.strides.push(0);
            let input = |random: &mut Random, n: usize| {
                if dtype == DType::F32 { random.mild(n) } else { random.array(dtype, n) }
            };
            let arrays = [input(&mut random, points), input(&mut random, count)];
            let zeros = |n: usize| vec![0; n * 4];
            let tolerance = if dtype == DType::F32 { 1e-4 } else { 0.0 };
            for fold in [Fold::Sum, Fold::Max] {
                let combined = |access: &Access, value: u32| Write {
                    access: access.clone(),
                    value: Reg(value),
                    mode: Mode::Combine(fold),
                };
                // All rows read the second array; the reduction of a row goes on after the row.
                let source = Loop {
                    reads: vec![dense(dtype, &dims), columns.clone()],
                    insts: vec![
                        Inst::Load(0),
                        Inst::Load(1),
                        Inst::Binary(Binary::Sub, Reg(0), Reg(1)),
                        Inst::Reduce(fold, Reg(2)),
                        Inst::Unary(Unary::Neg, Reg(3)),
                    ],
                    writes: vec![stored(per_row.clone(), 4), combined(&columns, 2), stored(dense(dtype, &dims), 2)],
                    dims: dims.clone(),
                };
                check(&source, &arrays, &[zeros(rows), zeros(count), zeros(points)], tolerance);
                let only_columns = Loop { writes: vec![combined(&columns, 2)], ..source.clone() };
                check(&only_columns, &arrays, &[zeros(count)], tolerance);
                let only_rows = Loop { writes: vec![stored(per_row.clone(), 3)], ..source.clone() };
                check(&only_rows, &arrays, &[zeros(rows)], tolerance);
                let is_grouped = super::streams::side_by_side(&only_columns).is_some();
                assert_eq!(is_grouped, dims[rank - 2] % 2 == 0);
            }
        }
    }
    // A long row in equal parts, which are walked so.
    for dims in [vec![1 << 17], vec![3, 1 << 17]] {
        let points: usize = dims.iter().product();
        let rank = dims.len();
        let mut per_row = dense(DType::F32, &dims[..rank - 1]);
        per_row.strides.push(0);
        let source = Loop {
            reads: vec![dense(DType::F32, &dims)],
            insts: vec![Inst::Load(0), Inst::Binary(Binary::Mul, Reg(0), Reg(0)), Inst::Reduce(Fold::Sum, Reg(1))],
            writes: vec![stored(dense(DType::F32, &dims), 1), stored(per_row, 2)],
            dims: dims.clone(),
        };
        let input = random.mild(points);
        check(&source, &[input], &[vec![0; points * 4], vec![0; points / dims[rank - 1] * 4]], 1e-4);
    }
}

#[test]
fn chains_of_many_types_are_stored_and_kept() {
    let mut random = Random(10);
    for _ in 0..60 {
        let dims = vec![1 + random.below(4), 1 + random.below(90)];
        let points: usize = dims.iter().product();
        let types = [DType::I32, DType::U32, DType::I8, DType::I16, DType::U8];
        let reads: Vec<Access> = (0..4)
            .map(|_| {
                let mut access = dense(types[random.below(types.len())], &dims);
                if random.below(4) == 0 {
                    access.strides[random.below(2)] = 0;
                }
                access
            })
            .collect();
        let mut insts: Vec<Inst> = (0..4).map(Inst::Load).collect();
        let ops = [Binary::Add, Binary::Xor, Binary::MinU, Binary::Div, Binary::Sub, Binary::Shl, Binary::RemU];
        for _ in 0..random.below(14) {
            let any = |random: &mut Random| Reg(random.below(insts.len()) as u32);
            let (a, b) = (any(&mut random), any(&mut random));
            let program = Loop { dims: dims.clone(), reads: reads.clone(), insts: insts.clone(), writes: Vec::new() };
            insts.push(match random.below(6) {
                0 if !program.uniform()[a.0 as usize] => Inst::Reduce(Fold::Sum, a),
                1 => Inst::Round(DType::I8, a),
                _ => Inst::Binary(ops[random.below(ops.len())], a, b),
            });
        }
        let writes: Vec<Write> = (0..1 + random.below(4))
            .map(|_| stored(dense(types[random.below(types.len())], &dims), random.below(insts.len())))
            .collect();
        let contents: Vec<Vec<u8>> = reads.iter().map(|r| random.array(r.dtype, points)).collect();
        let before: Vec<Vec<u8>> = writes.iter().map(|w| vec![0xa5; points * w.access.dtype.size_bytes()]).collect();
        let source = Loop { dims, reads, insts, writes };
        check(&source, &contents, &before, 0.0);
        check_in_place(&source, &contents, &before);
    }
}

/// Every pair of a read and a write that may be one array, as one array.
fn check_in_place(source: &Loop, contents: &[Vec<u8>], before: &[Vec<u8>]) {
    let expected = naive::run(source, contents, before);
    let cores = cores_of_one();
    for ready in ready(source) {
        for (read, write) in (0..contents.len()).flat_map(|r| (0..before.len()).map(move |w| (r, w))) {
            if !ready.in_place_ok(read, write) {
                continue;
            }
            let mut results = before.to_vec();
            results[write] = contents[read].clone();
            let mut sources: Vec<*const u8> = contents.iter().map(|r| r.as_ptr()).collect();
            let targets: Vec<*mut u8> = results.iter_mut().map(|w| w.as_mut_ptr()).collect();
            sources[read] = targets[write];
            // SAFETY: the arrays are as large as the accesses say; the loop allows the pair.
            unsafe { ready.run(&sources, &targets, &cores) };
            compare(source, &results, &expected, 0.0);
        }
    }
}
