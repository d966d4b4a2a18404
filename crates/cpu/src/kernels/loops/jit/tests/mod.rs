//! Compiled loops against their meaning, with every array ending at memory that must not be touched.

use tensor::DType;

use self::naive::load;
use super::super::Rows;
use super::super::ir::{Access, Binary, Compare, Fold, Inst, Lane, Loop, Mode, Reg, Unary, Write};
use super::super::schedule::{Schedule, lane_bytes};
use super::Stores;
use crate::kernels::isa::CpuIsa;
use crate::kernels::machine::Machine;

mod beyond;
mod bounds;
mod naive;
mod random_loops;

const PAGE_BYTES: usize = 4096;

/// Bytes that end where a page without access begins.
struct Guarded {
    map: *mut u8,
    mapped_bytes: usize,
    start: *mut u8,
    bytes: usize,
}

impl Guarded {
    fn new(content: &[u8]) -> Guarded {
        let mapped_bytes = content.len().next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping; its last page is then made inaccessible, the bytes before it are written.
        unsafe {
            let map = libc::mmap(std::ptr::null_mut(), mapped_bytes, access, kind, -1, 0).cast::<u8>();
            assert!(map.cast() != libc::MAP_FAILED);
            let end = map.add(mapped_bytes - PAGE_BYTES);
            assert_eq!(libc::mprotect(end.cast(), PAGE_BYTES, libc::PROT_NONE), 0);
            let start = end.sub(content.len());
            std::ptr::copy_nonoverlapping(content.as_ptr(), start, content.len());
            Guarded { map, mapped_bytes, start, bytes: content.len() }
        }
    }

    fn content(&self) -> Vec<u8> {
        // SAFETY: the bytes are in the accessible part of the mapping, and nothing writes to them now.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }.to_vec()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`.
        unsafe { libc::munmap(self.map.cast(), self.mapped_bytes) };
    }
}

fn machines() -> Vec<Machine> {
    let full = Machine::detect();
    let plain = full.avx512.then_some(Machine { avx512_bf16: false, avx512_fp16: false, ..full });
    let highest = (full.avx512 || full.neon).then_some(full);
    let sse2 = cfg!(target_arch = "x86_64").then(Machine::portable);
    [highest, plain, full.limited_to(CpuIsa::Avx2), sse2].into_iter().flatten().collect()
}

/// Runs the compiled loop; `None` if it is left to the other backend.
fn compiled(source: &Loop, machine: &Machine, reads: &[Vec<u8>], writes: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let schedule = Schedule::new(source);
    let code = super::compile(&schedule, machine, Stores::Streaming)?;
    let reads: Vec<Guarded> = reads.iter().map(|r| Guarded::new(r)).collect();
    let writes: Vec<Guarded> = writes.iter().map(|w| Guarded::new(w)).collect();
    let rank = source.dims.len();
    let count = source.dims[rank - 1];
    let scratch: Vec<Guarded> =
        schedule.slots.iter().map(|&l| Guarded::new(&vec![0; count.next_multiple_of(64) * lane_bytes(l)])).collect();
    let slots: Vec<*mut u8> = scratch.iter().map(|s| s.start).collect();
    let rows = if rank >= 2 { source.dims[rank - 2] } else { 1 };
    let outer = &source.dims[..rank.saturating_sub(2)];
    let row_step = |a: &Access| if rank >= 2 { a.strides[rank - 2] * a.dtype.size_bytes() as isize } else { 0 };
    let read_steps: Vec<isize> = source.reads.iter().map(row_step).collect();
    let write_steps: Vec<isize> = source.writes.iter().map(|w| row_step(&w.access)).collect();
    for block in 0..outer.iter().product::<usize>() {
        let mut index = vec![0i64; rank];
        let mut rest = block;
        for (p, size) in index.iter_mut().zip(outer).rev() {
            *p = (rest % size) as i64;
            rest /= size;
        }
        let start = |a: &Access| {
            let elements: isize = index[..outer.len()].iter().zip(&a.strides).map(|(&p, &s)| p as isize * s).sum();
            (a.offset + elements) * a.dtype.size_bytes() as isize
        };
        let mut read_starts: Vec<*const u8> = source
            .reads
            .iter()
            .zip(&reads)
            .map(|(access, memory)| memory.start.wrapping_offset(start(access)).cast_const())
            .collect();
        let mut write_starts: Vec<*mut u8> = source
            .writes
            .iter()
            .zip(&writes)
            .map(|(w, memory)| memory.start.wrapping_offset(start(&w.access)))
            .collect();
        let mut call = Rows {
            reads: read_starts.as_mut_ptr(),
            writes: write_starts.as_mut_ptr(),
            read_steps: read_steps.as_ptr(),
            write_steps: write_steps.as_ptr(),
            slots: slots.as_ptr(),
            index: index.as_mut_ptr(),
            rows,
            count,
        };
        // SAFETY: arrays as large as the loop's accesses say; the machine has what the code was made for.
        unsafe { code.run(&mut call) };
    }
    Some(writes.iter().map(Guarded::content).collect())
}

/// How far two lanes are apart, in units in the last place for reals.
fn distance(dtype: DType, a: u64, b: u64) -> u64 {
    let line = |bits: i64| if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits };
    match dtype {
        DType::F64 => {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            if x.is_nan() && y.is_nan() { 0 } else { line(a as i64).abs_diff(line(b as i64)) }
        }
        _ if dtype.is_float() => {
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            let line = |bits: u32| {
                if bits >> 31 == 1 { i64::from(i32::MIN) - i64::from(bits as i32) } else { i64::from(bits) }
            };
            // Kernels run with denormals flushed to zero.
            let both_tiny = x.abs() < f32::MIN_POSITIVE && y.abs() < f32::MIN_POSITIVE;
            if x.is_nan() && y.is_nan() || both_tiny && x != y { 0 } else { line(a as u32).abs_diff(line(b as u32)) }
        }
        _ => a.abs_diff(b),
    }
}

/// Compiles and runs a loop on every machine and compares with its meaning, to `ulps` units.
fn check(source: &Loop, reads: &[Vec<u8>], writes: &[Vec<u8>], ulps: u64) {
    let expected = naive::run(source, reads, writes);
    for machine in machines() {
        let Some(results) = compiled(source, &machine, reads, writes) else {
            assert!(beyond::is_beyond(source, &machine), "not compiled for {machine:?}: {source:?}");
            continue;
        };
        for (n, write) in source.writes.iter().enumerate() {
            let (dtype, size) = (write.access.dtype, write.access.dtype.size_bytes());
            for (at, (a, b)) in results[n].chunks(size).zip(expected[n].chunks(size)).enumerate() {
                let (a, b) = (load(dtype, a), load(dtype, b));
                let apart = distance(dtype, a, b);
                assert!(
                    apart <= ulps,
                    "write {n} element {at} of {dtype:?}: {a:#x} ({}), expected {b:#x} ({}), {source:?}",
                    f32::from_bits(a as u32),
                    f32::from_bits(b as u32),
                );
            }
        }
    }
}

/// A small generator of pseudo-random numbers.
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

    /// An element with the usual and the special values of its type.
    fn element(&mut self, dtype: DType) -> Vec<u8> {
        let size = dtype.size_bytes();
        if dtype.is_bool() {
            return vec![(self.next() & 1) as u8];
        }
        if dtype.is_float() {
            let special =
                [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e30, 300.0];
            let value = match self.below(8) {
                0 => special[self.below(special.len())],
                1 => (self.next() as i32 >> 20) as f64 / 4.0,
                _ => (self.next() as i32) as f64 / (1u64 << 29) as f64,
            };
            return match dtype {
                DType::F64 => value.to_le_bytes().to_vec(),
                DType::F32 => (value as f32).to_le_bytes().to_vec(),
                _ => tensor::encode_float(dtype, value).unwrap().to_le_bytes()[..size].to_vec(),
            };
        }
        let bits = match self.below(4) {
            0 => [0, 1, u64::MAX, 1 << 31, i64::MIN as u64, 0x7fff_ffff, 3, 31, 32, 63, 64][self.below(11)],
            1 => self.next() % 70,
            _ => self.next(),
        };
        let bits = match dtype.bits() {
            width @ (2 | 4) if dtype.is_signed_integer() => ((bits << (64 - width)) as i64 >> (64 - width)) as u64,
            width @ (2 | 4) => bits & ((1 << width) - 1),
            _ => bits,
        };
        bits.to_le_bytes()[..size].to_vec()
    }

    fn array(&mut self, dtype: DType, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(dtype)).collect()
    }
}

/// A dense access to the whole iteration space.
fn dense(dtype: DType, dims: &[usize]) -> Access {
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for (s, &size) in strides.iter_mut().zip(dims).rev() {
        *s = stride;
        stride *= size as isize;
    }
    Access { dtype, offset: 0, strides }
}

fn along(dtype: DType, strides: &[isize]) -> Access {
    Access { dtype, offset: 0, strides: strides.to_vec() }
}

fn stored(access: Access, value: u32) -> Write {
    Write { access, value: Reg(value), mode: Mode::Store }
}

/// One dense write of the last instruction, dense reads, all in one dimension.
fn elementwise(count: usize, reads: &[DType], insts: &[Inst], target: DType) -> Loop {
    let dims = vec![count];
    Loop {
        reads: reads.iter().map(|&d| dense(d, &dims)).collect(),
        insts: insts.to_vec(),
        writes: vec![stored(dense(target, &dims), insts.len() as u32 - 1)],
        dims,
    }
}

fn check_elementwise(random: &mut Random, count: usize, reads: &[DType], insts: &[Inst], target: DType, ulps: u64) {
    let source = elementwise(count, reads, insts, target);
    let contents: Vec<Vec<u8>> = reads.iter().map(|&d| random.array(d, count)).collect();
    check(&source, &contents, &[random.array(target, count)], ulps);
}

const REALS: [DType; 2] = [DType::F32, DType::F64];
const INTEGERS: [DType; 2] = [DType::I32, DType::I64];

#[test]
fn unary_operations() {
    use Unary::*;
    let mut random = Random(1);
    for op in [Neg, Abs, Sign, Floor, Ceil, RoundEven, RoundAway, Sqrt, Rsqrt] {
        for dtype in REALS {
            let ulps = u64::from(op == Rsqrt);
            check_elementwise(&mut random, 333, &[dtype], &[Inst::Load(0), Inst::Unary(op, Reg(0))], dtype, ulps);
        }
    }
    for op in [Neg, Abs, Sign, Not, PopCount, LeadingZeros] {
        for dtype in INTEGERS {
            check_elementwise(&mut random, 333, &[dtype], &[Inst::Load(0), Inst::Unary(op, Reg(0))], dtype, 0);
        }
    }
    for dtype in REALS {
        check_elementwise(&mut random, 99, &[dtype], &[Inst::Load(0), Inst::Unary(IsFinite, Reg(0))], DType::Bool, 0);
    }
    check_elementwise(&mut random, 99, &[DType::Bool], &[Inst::Load(0), Inst::Unary(Not, Reg(0))], DType::Bool, 0);
}

#[test]
fn functions() {
    use Unary::*;
    let mut random = Random(2);
    for (op, ulps) in [(Exp, 2), (ExpMinusOne, 3), (Log, 2), (LogPlusOne, 2), (Tanh, 3), (Logistic, 3), (Erf, 3)] {
        let insts = [Inst::Load(0), Inst::Unary(op, Reg(0))];
        check_elementwise(&mut random, 5000, &[DType::F32], &insts, DType::F32, ulps);
    }
    for (op, ulps) in [(Exp, 2), (Log, 2), (Logistic, 3)] {
        let insts = [Inst::Load(0), Inst::Unary(op, Reg(0))];
        check_elementwise(&mut random, 2000, &[DType::F64], &insts, DType::F64, ulps);
    }
    for op in [Sin, Cos, Tan, Cbrt] {
        let insts = [Inst::Load(0), Inst::Unary(op, Reg(0))];
        check_elementwise(&mut random, 5000, &[DType::F32], &insts, DType::F32, 1);
        // Arguments of every size.
        let source = elementwise(20_000, &[DType::F32], &insts, DType::F32);
        let content: Vec<u8> = (0..20_000).flat_map(|_| (random.next() as u32).to_le_bytes()).collect();
        check(&source, &[content], &[vec![0; 80_000]], 1);
    }
    for op in [Binary::Pow, Binary::Atan2] {
        let insts = [Inst::Load(0), Inst::Load(1), Inst::Binary(op, Reg(0), Reg(1))];
        check_elementwise(&mut random, 20_000, &[DType::F32; 2], &insts, DType::F32, 1);
    }
}

#[test]
fn binary_operations() {
    use Binary::*;
    let mut random = Random(3);
    let check_all = |random: &mut Random, ops: &[Binary], dtype: DType| {
        for &op in ops {
            let insts = [Inst::Load(0), Inst::Load(1), Inst::Binary(op, Reg(0), Reg(1))];
            check_elementwise(random, 500, &[dtype; 2], &insts, dtype, 0);
        }
    };
    for dtype in REALS {
        check_all(&mut random, &[Add, Sub, Mul, Div, Min, Max], dtype);
    }
    let integer = [Add, Sub, Mul, Min, Max, MinU, MaxU, And, Or, Xor, Shl, ShrL, ShrA];
    for dtype in INTEGERS {
        check_all(&mut random, &integer, dtype);
    }
    check_all(&mut random, &[Div, Rem, DivU, RemU], DType::I32);
    check_all(&mut random, &[And, Or, Xor], DType::Bool);
    for dtype in REALS {
        for bits in [0.0f64, -0.0, 3.5] {
            let bits = if dtype == DType::F64 { bits.to_bits() } else { u64::from((bits as f32).to_bits()) };
            let constant = Inst::Const { lane: Lane::of(dtype).unwrap(), bits };
            for op in [Min, Max, Sub, Div] {
                for (a, b) in [(0, 1), (1, 0)] {
                    let insts = [Inst::Load(0), constant, Inst::Binary(op, Reg(a), Reg(b))];
                    check_elementwise(&mut random, 100, &[dtype], &insts, dtype, 0);
                }
            }
        }
    }
    // Division of 32-bit integers in vectors of half the length.
    let insts = [
        Inst::Load(0),
        Inst::Load(1),
        Inst::Binary(Div, Reg(0), Reg(1)),
        Inst::Convert { value: Reg(2), source: DType::I32, target: DType::I64 },
    ];
    check_elementwise(&mut random, 100, &[DType::I32; 2], &insts, DType::I64, 0);
}

#[test]
fn comparisons_and_selections() {
    use Compare::*;
    let mut random = Random(4);
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        let ordered = [Eq, Ne, Lt, Le, Gt, Ge];
        let ops = if dtype.is_float() { &ordered[..] } else { &[Eq, Ne, Lt, Le, Gt, Ge, LtU, LeU, GtU, GeU] };
        for &op in ops {
            let insts =
                [Inst::Load(0), Inst::Load(1), Inst::Compare(op, Reg(0), Reg(1)), Inst::Select(Reg(2), Reg(0), Reg(1))];
            check_elementwise(&mut random, 200, &[dtype; 2], &insts, dtype, 0);
            check_elementwise(&mut random, 200, &[dtype; 2], &insts[..3], DType::Bool, 0);
        }
        let insts = [Inst::Load(0), Inst::Load(1), Inst::Load(2), Inst::Fma(Reg(0), Reg(1), Reg(2))];
        if dtype.is_float() {
            check_elementwise(&mut random, 200, &[dtype; 3], &insts, dtype, 0);
        }
    }
    let insts = [Inst::Load(0), Inst::Load(1), Inst::Load(2), Inst::Select(Reg(0), Reg(1), Reg(2))];
    check_elementwise(&mut random, 200, &[DType::Bool; 3], &insts, DType::Bool, 0);
    for bits in [0, 1] {
        let insts = [Inst::Load(0), Inst::Const { lane: Lane::Mask, bits }, Inst::Binary(Binary::Xor, Reg(0), Reg(1))];
        check_elementwise(&mut random, 50, &[DType::Bool], &insts, DType::Bool, 0);
    }
}

#[test]
fn conversions() {
    use DType::*;
    let mut random = Random(5);
    let types = [Bool, I2, I4, I8, I16, I32, I64, U2, U4, U8, U16, U32, U64, BF16, F16, F32, F64];
    for source in types {
        check_elementwise(&mut random, 100, &[source], &[Inst::Load(0)], source, 0);
        for target in types {
            let narrow = matches!(target, BF16 | F16);
            if narrow && (source == F64 || source.bits() == 64) {
                continue;
            }
            let convert = Inst::Convert { value: Reg(0), source, target };
            check_elementwise(&mut random, 300, &[source], &[Inst::Load(0), convert], target, 0);
        }
    }
    for dtype in [I2, I4, I8, I16, U2, U4, U8, U16, BF16, F16] {
        let lane = if dtype.is_float() { F32 } else { I32 };
        check_elementwise(&mut random, 300, &[lane], &[Inst::Load(0), Inst::Round(dtype, Reg(0))], lane, 0);
    }
    for (from, to) in [(F32, I32), (I32, F32), (F64, I64), (I64, F64)] {
        check_elementwise(&mut random, 50, &[from], &[Inst::Load(0), Inst::Bitcast(Reg(0))], to, 0);
    }
}

#[test]
fn tails() {
    let mut random = Random(6);
    for count in 1..=140 {
        let insts = [Inst::Load(0), Inst::Load(1), Inst::Binary(Binary::Add, Reg(0), Reg(1))];
        check_elementwise(&mut random, count, &[DType::F32; 2], &insts, DType::F32, 0);
        check_elementwise(&mut random, count, &[DType::BF16; 2], &insts, DType::BF16, 0);
        let insts = [Inst::Load(0), Inst::Convert { value: Reg(0), source: DType::I8, target: DType::F64 }];
        check_elementwise(&mut random, count, &[DType::I8], &insts, DType::F64, 0);
    }
}

#[test]
fn strides_and_broadcasts() {
    let mut random = Random(7);
    let (rows, count) = (5, 37);
    for dtype in [DType::F32, DType::I32, DType::F64, DType::I64] {
        // A transposed, a reversed and a spread read, a row and a column; the result spread and offset.
        let mut reversed = along(dtype, &[count, -1]);
        reversed.offset = count - 1;
        let mut spread = along(dtype, &[3 * count, 3]);
        spread.offset = 2;
        let source = Loop {
            dims: vec![rows as usize, count as usize],
            reads: vec![
                along(dtype, &[1, rows]),
                reversed,
                along(dtype, &[0, 1]),
                along(dtype, &[1, 0]),
                along(dtype, &[0, 0]),
            ],
            insts: vec![
                Inst::Load(0),
                Inst::Load(1),
                Inst::Load(2),
                Inst::Load(3),
                Inst::Load(4),
                Inst::Binary(Binary::Sub, Reg(0), Reg(1)),
                Inst::Binary(Binary::Mul, Reg(5), Reg(2)),
                Inst::Binary(Binary::Add, Reg(6), Reg(3)),
                Inst::Binary(Binary::Max, Reg(7), Reg(4)),
            ],
            writes: vec![stored(spread, 8)],
        };
        let elements = (rows * count) as usize;
        let reads = [elements, elements, count as usize, rows as usize, 1].map(|n| random.array(dtype, n));
        check(&source, &reads, &[random.array(dtype, 3 * elements)], 0);
    }
    for dtype in [DType::Bool, DType::I8, DType::U8, DType::I16, DType::U16, DType::BF16, DType::F16] {
        let dims = vec![3, 21];
        let source = Loop {
            reads: vec![along(dtype, &[1, 0])],
            insts: vec![Inst::Load(0)],
            writes: vec![stored(dense(dtype, &dims), 0), stored(along(dtype, &[1, 0]), 0)],
            dims,
        };
        check(&source, &[random.array(dtype, 3)], &[random.array(dtype, 63), random.array(dtype, 3)], 0);
    }
}

#[test]
fn positions() {
    let mut random = Random(8);
    for (lane, dtype) in [(Lane::I32, DType::I32), (Lane::I64, DType::I64)] {
        let dims = vec![2, 3, 4, 41];
        let mut insts: Vec<Inst> = (0..4).map(|dim| Inst::Index { lane, dim }).collect();
        insts.push(Inst::Const { lane, bits: 100 });
        let mut sum = 0;
        for dim in 1..4 {
            insts.push(Inst::Binary(Binary::Mul, Reg(sum), Reg(4)));
            insts.push(Inst::Binary(Binary::Add, Reg(insts.len() as u32 - 1), Reg(dim)));
            sum = insts.len() as u32 - 1;
        }
        let source = Loop { reads: vec![], writes: vec![stored(dense(dtype, &dims), sum)], insts, dims };
        check(&source, &[], &[random.array(dtype, 2 * 3 * 4 * 41)], 0);
    }
}

#[test]
fn reductions() {
    use Fold::*;
    let mut random = Random(9);
    let cases: [(DType, &[Fold]); 5] = [
        (DType::F32, &[Min, Max]),
        (DType::F64, &[Min, Max]),
        (DType::I32, &[Sum, Product, Min, Max, MinU, MaxU, And, Or, Xor]),
        (DType::I64, &[Sum, Product, Min, Max, MinU, MaxU, And, Or, Xor]),
        (DType::Bool, &[And, Or, Xor]),
    ];
    for count in [1, 2, 15, 16, 17, 63, 64, 65, 200] {
        for (dtype, folds) in cases {
            for &fold in folds {
                let dims = vec![6, count];
                let source = Loop {
                    reads: vec![dense(dtype, &dims)],
                    insts: vec![Inst::Load(0), Inst::Reduce(fold, Reg(0))],
                    writes: vec![stored(along(dtype, &[1, 0]), 1)],
                    dims,
                };
                // Zeros of either sign are equal here; NaN in some rows only.
                let mut content = random.array(dtype, 6 * count);
                if dtype.is_float() && count < 20 {
                    let quiet = |bytes: &mut [u8]| {
                        if load(dtype, bytes) << 1 == 0 || bytes.iter().all(|b| *b == 0) {
                            bytes.fill(0);
                        }
                    };
                    content.chunks_mut(dtype.size_bytes()).for_each(quiet);
                }
                let zeros_plain = |bytes: &mut [u8]| {
                    let last = bytes.len() - 1;
                    if dtype.is_float() && bytes[..last].iter().all(|b| *b == 0) && bytes[last] == 0x80 {
                        bytes[last] = 0;
                    }
                };
                content.chunks_mut(dtype.size_bytes()).for_each(zeros_plain);
                check(&source, &[content], &[random.array(dtype, 6)], 0);
            }
        }
    }
}

#[test]
fn division_by_one_value() {
    // Elements of every size by divisors of every size, one for each row; and by constants.
    let mut random = Random(14);
    let (rows, count) = (200, 100);
    let dims = vec![rows, count];
    let source = Loop {
        reads: vec![dense(DType::F32, &dims), along(DType::F32, &[1, 0])],
        insts: vec![Inst::Load(0), Inst::Load(1), Inst::Binary(Binary::Div, Reg(0), Reg(1))],
        writes: vec![stored(dense(DType::F32, &dims), 2)],
        dims,
    };
    let any = |random: &mut Random| {
        let bits = match random.below(3) {
            0 => random.next() as u32,
            _ => (random.next() as u32 & 0x8fff_ffff) | 0x3800_0000,
        };
        // Denormals are flushed where kernels run.
        if f32::from_bits(bits).is_subnormal() { [0; 4] } else { bits.to_le_bytes() }
    };
    for _ in 0..5 {
        let reads: Vec<Vec<u8>> =
            [rows * count, rows].map(|n| (0..n).flat_map(|_| any(&mut random)).collect()).into_iter().collect();
        check(&source, &reads, &[vec![0; rows * count * 4]], 0);
    }
    for divisor in [3.0f32, 0.5, -8.0, 1e-20, 0.0, f32::INFINITY, f32::NAN, 1.0e38] {
        let constant = Inst::Const { lane: Lane::F32, bits: u64::from(divisor.to_bits()) };
        let insts = [Inst::Load(0), constant, Inst::Binary(Binary::Div, Reg(0), Reg(1))];
        check_elementwise(&mut random, 300, &[DType::F32], &insts, DType::F32, 0);
    }
}

/// Values without specials, so that sums in another order stay near.
fn mild(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| ((random.next() as i32) as f32 / (1u32 << 30) as f32).to_le_bytes()).collect()
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
    let real = |value: f32| Inst::Const { lane: Lane::F32, bits: u64::from(value.to_bits()) };
    Loop {
        reads: vec![dense(DType::F32, &dims), along(DType::F32, &[0, 1]), along(DType::F32, &[0, 1])],
        insts: vec![
            Inst::Load(0),
            Inst::Reduce(Fold::Sum, Reg(0)),
            real(1.0 / count as f32),
            Inst::Binary(Binary::Mul, Reg(1), Reg(2)),
            Inst::Binary(Binary::Sub, Reg(0), Reg(3)),
            Inst::Binary(Binary::Mul, Reg(4), Reg(4)),
            Inst::Reduce(Fold::Sum, Reg(5)),
            Inst::Binary(Binary::Mul, Reg(6), Reg(2)),
            real(1e-5),
            Inst::Binary(Binary::Add, Reg(7), Reg(8)),
            Inst::Unary(Unary::Rsqrt, Reg(9)),
            Inst::Binary(Binary::Mul, Reg(4), Reg(10)),
            Inst::Load(1),
            Inst::Load(2),
            Inst::Fma(Reg(11), Reg(12), Reg(13)),
        ],
        writes: vec![stored(dense(DType::F32, &dims), 14)],
        dims,
    }
}

#[test]
fn phases() {
    let mut random = Random(10);
    for (rows, count) in [(1, 1), (3, 7), (2, 64), (4, 100), (3, 257)] {
        let zero = vec![0; rows * count * 4];
        let read = mild(&mut random, rows * count);
        check(&softmax(rows, count), std::slice::from_ref(&read), std::slice::from_ref(&zero), 8);
        let (scale, shift) = (mild(&mut random, count), mild(&mut random, count));
        if count > 1 {
            check_near(&layer_norm(rows, count), &[read, scale, shift], &[zero], 1e-5);
        }
    }
}

/// As [`check`], to an absolute difference of f32 results.
fn check_near(source: &Loop, reads: &[Vec<u8>], writes: &[Vec<u8>], difference: f32) {
    let expected = naive::run(source, reads, writes);
    for machine in machines() {
        let Some(results) = compiled(source, &machine, reads, writes) else {
            assert!(beyond::is_beyond(source, &machine), "not compiled for {machine:?}: {source:?}");
            continue;
        };
        for (result, expected) in results.iter().zip(&expected) {
            for (a, b) in result.chunks(4).zip(expected.chunks(4)) {
                let [a, b] = [a, b].map(|bytes| f32::from_bits(load(DType::F32, bytes) as u32));
                assert!((a - b).abs() <= difference, "{a} {b} {source:?}");
            }
        }
    }
}

#[test]
fn combined_columns_and_totals() {
    let mut random = Random(11);
    for dtype in [DType::I32, DType::I64, DType::F32, DType::Bool] {
        for fold in [Fold::Sum, Fold::Max, Fold::Or] {
            let exact = if dtype.is_bool() { fold == Fold::Or } else { fold != Fold::Or };
            if !exact || (dtype == DType::F32 && fold == Fold::Sum) {
                continue;
            }
            let dims = vec![2, 4, 33];
            let source = Loop {
                reads: vec![dense(dtype, &dims)],
                insts: vec![Inst::Load(0), Inst::Reduce(fold, Reg(0))],
                writes: vec![
                    Write { access: along(dtype, &[0, 0, 1]), value: Reg(0), mode: Mode::Combine(fold) },
                    Write { access: along(dtype, &[1, 0, 0]), value: Reg(1), mode: Mode::Combine(fold) },
                ],
                dims,
            };
            let fill = [random.array(dtype, 33), random.array(dtype, 2)];
            check(&source, &[random.array(dtype, 2 * 4 * 33)], &fill, 0);
        }
    }
}

#[test]
fn many_registers_and_arrays() {
    // More values alive than registers, more arrays than address registers, more masks than mask registers.
    let mut random = Random(12);
    for dtype in [DType::F32, DType::F64, DType::Bool, DType::I32] {
        for count in [5, 50] {
            let arrays = 40;
            let mut insts: Vec<Inst> = (0..arrays).map(Inst::Load).collect();
            let op = if dtype.is_bool() { Binary::Xor } else { Binary::Sub };
            let mut sum = 0;
            for n in (1..arrays).rev() {
                insts.push(Inst::Binary(op, Reg(sum), Reg(n)));
                sum = insts.len() as u32 - 1;
            }
            if dtype.is_float() {
                for n in 0..arrays - 2 {
                    insts.push(Inst::Fma(Reg(n), Reg(n + 1), Reg(sum)));
                    sum = insts.len() as u32 - 1;
                }
            }
            check_elementwise(&mut random, count, &vec![dtype; arrays as usize], &insts, dtype, 0);
        }
    }
}
