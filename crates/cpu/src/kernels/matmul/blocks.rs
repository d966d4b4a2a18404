//! Matmuls with a right factor of [`BlockFormat`]: codes and scales are read where they lie, once, and become numbers in registers.
//!
//! With AVX-512 VNNI a few rows are fixed-point numbers of two or three digits, as in `digits`; with AMX more rows of bf16 meet blocks as
//! tiles. Other machines make one row of the factor floats at a time. With many rows, some outputs at a time become a dense factor.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::{BlockFormat, DType};

use super::super::Cores;
use super::super::machine::Machine;
#[cfg(target_arch = "x86_64")]
use super::block_rows::Thin;
#[cfg(target_arch = "x86_64")]
use super::block_tiles::Tall;
use super::pack::{self, Strip, bf16_bits, f16_bits};
use super::scratch::{Loan, Slot};
use super::{MatMul, Operand, Target};
use crate::footprint::{Footprint, Written, product};
use crate::memory::Packing;

/// Outputs of a task are a multiple of this.
const UNIT: usize = 32;
/// Rows up to which blocks are read as they are.
pub(super) const FEW_ROWS: usize = 32;
/// Outputs that are dense at a time: enough for the matmul's own blocks, few enough for the caches. Fewer in tests.
const PANEL: usize = if cfg!(test) { 128 } else { 512 };

/// `x [m, k]` times the blocks of `[n, k]`, in f32: `[m, n]`.
#[derive(Clone, Debug)]
pub(crate) struct BlockMatMul {
    pub(super) format: BlockFormat,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Type of `x`.
    pub(super) dtype: DType,
    machine: Machine,
}

/// Where all lies.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) x: *const u8,
    pub(super) blocks: *const u8,
    pub(super) out: *mut f32,
}

// SAFETY: addresses of arrays that outlive the run; tasks write disjoint outputs.
unsafe impl Sync for Places {}

impl BlockMatMul {
    /// `None` where inputs are no whole blocks, or `x` is of another type.
    pub(crate) fn new(
        format: BlockFormat,
        [m, n, k]: [usize; 3],
        dtype: DType,
        machine: &Machine,
    ) -> Option<BlockMatMul> {
        format.row_bytes(k)?;
        let is_float = matches!(dtype, DType::F32 | DType::BF16 | DType::F16);
        is_float.then_some(BlockMatMul { format, m, n, k, dtype, machine: *machine })
    }

    /// What it reads, `x` first, and writes.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let x = product(&[self.m, self.k, self.dtype.size_bytes()])?;
        let blocks = product(&[self.n, self.row_bytes()])?;
        let written = product(&[self.m, self.n, size_of::<f32>()])?;
        Some(Footprint { reads: vec![x, blocks], writes: vec![Written::Whole(written)] })
    }

    /// Bytes of an output's row.
    pub(super) fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.k).unwrap_or(0)
    }

    /// # Safety
    /// The pointers are to dense arrays as [`BlockMatMul::footprint`] says, the result overlapping nothing else. The machine is the
    /// one of [`BlockMatMul::new`].
    pub(crate) unsafe fn run(&self, x: *const u8, blocks: *const u8, out: *mut f32, cores: &Cores) {
        let places = Places { x, blocks, out };
        if self.m > FEW_ROWS {
            // SAFETY: the caller's promise.
            return unsafe { self.run_panels(&places, cores) };
        }
        #[cfg(target_arch = "x86_64")]
        {
            if self.machine.amx && Tall::takes(self) {
                // SAFETY: the caller's promise; the machine has tiles.
                return unsafe { Tall::run(self, &places, cores) };
            }
            if self.machine.avx512 && self.machine.avx512_vnni && Thin::takes(self) {
                // SAFETY: the caller's promise; the machine has VNNI.
                return unsafe { Thin::run(self, &places, cores) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_rows(&places, 0..self.m, cores) }
    }

    /// Many rows: outputs become a dense factor of the rows' type, some at a time.
    ///
    /// # Safety
    /// As [`BlockMatMul::run`].
    unsafe fn run_panels(&self, places: &Places, cores: &Cores) {
        let BlockMatMul { format, m, n, k, dtype, machine } = *self;
        let row_bytes = k * dtype.size_bytes();
        let most = PANEL.min(n.max(1));
        let loan = Loan::take(Slot::Panel, most * row_bytes);
        for first in (0..n).step_by(most) {
            let outputs = most.min(n - first);
            let decode = BlockDecode { format, n: outputs, k, dtype, machine };
            let factor = |row_stride: usize, col_stride: usize| Operand {
                dtype,
                packing: Packing::Bytes,
                row_stride: row_stride as isize,
                col_stride: col_stride as isize,
                batch_stride: 0,
            };
            let out = Target { dtype: DType::F32, row_stride: n as isize, batch_stride: 0 };
            let dense = MatMul { batch: 1, m, n: outputs, k, lhs: factor(k, 1), rhs: factor(1, k), out };
            // SAFETY: rows of the factor, and the loan has room for them as floats; columns of the result.
            unsafe {
                decode.run(places.blocks.add(first * self.row_bytes()), loan.at(), cores);
                let (rhs, to) = (loan.at::<u8>().cast_const(), places.out.add(first).cast());
                dense.plan(&machine).run(places.x, rhs, to, None, None, cores);
            }
        }
    }

    /// Some rows, with each row of the factor as floats.
    ///
    /// # Safety
    /// As [`BlockMatMul::run`].
    pub(super) unsafe fn run_rows(&self, places: &Places, rows: Range<usize>, cores: &Cores) {
        let loan = Loan::take(Slot::Shared, rows.len() * self.k * size_of::<f32>());
        for (n, row) in rows.clone().enumerate() {
            // SAFETY: the loan has room for every row.
            unsafe { self.widen(places, row, loan.at::<f32>().add(n * self.k)) };
        }
        let x = Numbers(loan.at());
        let first = rows.start;
        tasks(self.n, cores, &|outputs| {
            let own = Loan::take(Slot::Sums, self.k * size_of::<f32>());
            for output in outputs {
                // SAFETY: a row of the factor; the loans have room; outputs are this task's own.
                unsafe {
                    let bytes = self.row_bytes();
                    let blocks = std::slice::from_raw_parts(places.blocks.add(output * bytes), bytes);
                    std::ptr::write_bytes(own.at::<f32>(), 0, self.k);
                    let weights = std::slice::from_raw_parts_mut(own.at::<f32>(), self.k);
                    decode(self.machine, self.format, blocks, weights);
                    for n in 0..rows.len() {
                        let x = std::slice::from_raw_parts(x.at().add(n * self.k), self.k);
                        *places.out.add((first + n) * self.n + output) = dot(self.machine, x, weights);
                    }
                }
            }
        });
    }

    /// A row of `x` as f32.
    ///
    /// # Safety
    /// As [`BlockMatMul::run`]; `to` takes `k` numbers.
    pub(super) unsafe fn widen(&self, places: &Places, row: usize, to: *mut f32) {
        let strip = Strip {
            dtype: self.dtype,
            packing: Packing::Bytes,
            at: places.x.wrapping_add(row * self.k * self.dtype.size_bytes()),
            lane: self.k as isize,
            step: 1,
            lanes: 1,
            steps: self.k,
        };
        // SAFETY: the caller's promise.
        unsafe { pack::pack_f32(&strip, 1, to) }
    }
}

/// Numbers that tasks read.
#[derive(Clone, Copy)]
pub(super) struct Numbers(pub(super) *const f32);

// SAFETY: an address of memory that tasks read only.
unsafe impl Sync for Numbers {}

impl Numbers {
    pub(super) fn at(&self) -> *const f32 {
        self.0
    }
}

/// Runs a task for each part of the outputs.
pub(super) fn tasks(outputs: usize, cores: &Cores, task: &(dyn Fn(Range<usize>) + Sync)) {
    let threads = cores.pool.threads();
    let units = outputs.div_ceil(UNIT);
    let parts = if threads == 1 { 1 } else { (4 * threads).min(units) };
    cores.pool.run(parts, &|_, part| {
        task(units * part / parts * UNIT..(units * (part + 1) / parts * UNIT).min(outputs));
    });
}

/// Blocks `[n, bytes]` as floats `[n, k]`.
#[derive(Clone, Debug)]
pub(crate) struct BlockDecode {
    format: BlockFormat,
    n: usize,
    k: usize,
    dtype: DType,
    machine: Machine,
}

impl BlockDecode {
    /// `None` where rows are no whole blocks, or are to be of another type.
    pub(crate) fn new(format: BlockFormat, n: usize, k: usize, dtype: DType, machine: &Machine) -> Option<BlockDecode> {
        format.row_bytes(k)?;
        let is_float = matches!(dtype, DType::F32 | DType::BF16 | DType::F16);
        is_float.then_some(BlockDecode { format, n, k, dtype, machine: *machine })
    }

    /// What it reads and writes.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let read = product(&[self.n, self.format.row_bytes(self.k)?])?;
        let written = product(&[self.n, self.k, self.dtype.size_bytes()])?;
        Some(Footprint { reads: vec![read], writes: vec![Written::Whole(written)] })
    }

    /// # Safety
    /// The pointers are to dense arrays as [`BlockDecode::footprint`] says, not overlapping. The machine is the one of
    /// [`BlockDecode::new`].
    pub(crate) unsafe fn run(&self, blocks: *const u8, out: *mut u8, cores: &Cores) {
        let bytes = self.format.row_bytes(self.k).unwrap_or(0);
        let places = &Places { x: blocks, blocks, out: out.cast() };
        tasks(self.n, cores, &|rows| {
            let own = Loan::take(Slot::Sums, self.k * size_of::<f32>());
            for row in rows {
                // SAFETY: a row of blocks and of the result, which is this task's own; the loan has room for one.
                unsafe {
                    let blocks = std::slice::from_raw_parts(places.blocks.add(row * bytes), bytes);
                    let to = places.out.cast::<u8>().add(row * self.k * self.dtype.size_bytes());
                    let wide = if self.dtype == DType::F32 { to.cast() } else { own.at::<f32>() };
                    std::ptr::write_bytes(wide, 0, self.k);
                    let wide = std::slice::from_raw_parts_mut(wide, self.k);
                    decode(self.machine, self.format, blocks, wide);
                    if self.dtype != DType::F32 {
                        std::ptr::write_bytes(to, 0, 2 * self.k);
                        let to = std::slice::from_raw_parts_mut(to.cast::<u16>(), self.k);
                        narrow(self.machine, self.dtype, wide, to);
                    }
                }
            }
        });
    }
}

/// Defines a function by the instructions that a machine has.
macro_rules! by_machine {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) $(-> $result:ty)? = $plain:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The machine is this one.
        unsafe fn $name(machine: Machine, $($arg: $ty),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn wide($($arg: $ty),*) $(-> $result)? {
                    $plain($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                fn narrow($($arg: $ty),*) $(-> $result)? {
                    $plain($($arg),*)
                }
                // SAFETY: the machine has the instructions.
                unsafe {
                    if machine.avx512 {
                        return wide($($arg),*);
                    }
                    if machine.avx2 {
                        return narrow($($arg),*);
                    }
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = machine;
            $plain($($arg),*)
        }
    };
}

by_machine! {
    /// Blocks as floats.
    decode(format: BlockFormat, blocks: &[u8], to: &mut [f32]) = decoded
}

by_machine! {
    /// The sum of products.
    dot(x: &[f32], weights: &[f32]) -> f32 = products
}

by_machine! {
    /// Floats in 16 bits.
    narrow(dtype: DType, from: &[f32], to: &mut [u16]) = narrowed
}

#[inline(always)]
fn decoded(format: BlockFormat, blocks: &[u8], to: &mut [f32]) {
    format.decode(blocks, to);
}

#[inline(always)]
fn products(x: &[f32], weights: &[f32]) -> f32 {
    // Blocks have a multiple of 32 elements.
    let mut sums = [0.0f32; 32];
    for (x, weights) in x.chunks_exact(32).zip(weights.chunks_exact(32)) {
        for ((sum, x), weight) in sums.iter_mut().zip(x).zip(weights) {
            *sum += x * weight;
        }
    }
    sums.iter().sum()
}

#[inline(always)]
fn narrowed(dtype: DType, from: &[f32], to: &mut [u16]) {
    if dtype == DType::BF16 {
        for (from, to) in from.iter().zip(to) {
            *to = bf16_bits(*from);
        }
    } else {
        for (from, to) in from.iter().zip(to) {
            *to = f16_bits(*from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::pool::Pool;
    use super::super::tests::machines;
    use super::*;

    /// Numbers below a limit, the same in every run.
    struct Drawn(u32);

    impl Drawn {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) % limit
        }

        /// Blocks with scales of about a hundredth.
        fn blocks(&mut self, format: BlockFormat, count: usize) -> Vec<u8> {
            let mut bytes: Vec<u8> = (0..count * format.bytes()).map(|_| self.below(256) as u8).collect();
            for block in bytes.chunks_mut(format.bytes()) {
                let at = if format == BlockFormat::Q6K { 208 } else { 0 };
                block[at + 1] = 0x20 | block[at + 1] & 0x80;
                if format == BlockFormat::Q4K {
                    block[3] = 0x24;
                }
            }
            bytes
        }
    }

    /// A matmul by every kernel against sums in f64, relative to the largest input and the weights' magnitudes.
    fn check(format: BlockFormat, [m, n, k]: [usize; 3], dtype: DType) {
        let mut drawn = Drawn((m * 31 + n * 7 + k) as u32);
        let blocks = drawn.blocks(format, n * k / format.elements());
        let mut weights = vec![0.0; n * k];
        format.decode(&blocks, &mut weights);
        let x: Vec<u8> = (0..m * k)
            .flat_map(|_| {
                let number = drawn.below(2001) as f32 / 500.0 - 2.0;
                match dtype {
                    DType::F32 => number.to_le_bytes().to_vec(),
                    DType::BF16 => bf16_bits(number).to_le_bytes().to_vec(),
                    _ => f16_bits(number).to_le_bytes().to_vec(),
                }
            })
            .collect();
        let number = |bytes: &[u8]| {
            let mut bits = [0; 8];
            bits[..bytes.len()].copy_from_slice(bytes);
            match dtype {
                DType::F32 => f64::from(f32::from_bits(u64::from_le_bytes(bits) as u32)),
                _ => tensor::decode_float(dtype, u64::from_le_bytes(bits)).unwrap(),
            }
        };
        let numbers: Vec<f64> = x.chunks_exact(dtype.size_bytes()).map(number).collect();
        let mut expected = Vec::with_capacity(m * n);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let row = &weights[j * k..][..k];
            let product: f64 = row.iter().enumerate().map(|(p, w)| numbers[i * k + p] * f64::from(*w)).sum();
            let all: f64 = row.iter().map(|w| f64::from(w.abs())).sum();
            expected.push((product, all));
        }
        for machine in machines() {
            // Rows of 16 bits have 16 bits as fixed-point numbers; dense factors and those of tiles have the rows' type.
            let is_rounded = m > FEW_ROWS || machine.amx && m > 4;
            let most = match dtype {
                DType::F32 => 2e-6,
                DType::BF16 if is_rounded => 1e-3,
                _ if is_rounded => 1e-4,
                _ => 6e-5,
            };
            let work = BlockMatMul::new(format, [m, n, k], dtype, &machine).unwrap();
            for threads in [1, 2] {
                let cores = Cores { machine, pool: Pool::new(threads) };
                let mut out = vec![f32::NAN; m * n];
                // SAFETY: arrays of the sizes that the work has.
                unsafe { work.run(x.as_ptr(), blocks.as_ptr(), out.as_mut_ptr(), &cores) };
                for (at, (out, (product, all))) in out.iter().zip(&expected).enumerate() {
                    let off = (f64::from(*out) - product).abs() / all;
                    assert!(off < most, "{format:?} [{m}, {n}, {k}] {dtype} at {at}: off by {off:e}, {machine:?}");
                }
            }
        }
    }

    #[test]
    fn matmuls_read_blocks_as_they_are() {
        for format in BlockFormat::ALL {
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                for m in [1, 2, 3, 4, 5, 17, 33] {
                    check(format, [m, 37, 512], dtype);
                }
            }
            check(format, [16, 65, 768], DType::BF16);
            check(format, [1, 1, format.elements()], DType::BF16);
            check(format, [9, 3, 5 * format.elements()], DType::BF16);
        }
        // More outputs than are dense at a time.
        check(BlockFormat::Q4K, [33, 133, 512], DType::BF16);
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let (format, n, k) = (BlockFormat::Q4K, 33, 256);
        let blocks = Drawn(3).blocks(format, n);
        let mut x = vec![1.0f32; 2 * k];
        x[k + 5] = f32::NAN;
        for machine in machines() {
            let work = BlockMatMul::new(format, [2, n, k], DType::F32, &machine).unwrap();
            let cores = Cores { machine, pool: Pool::new(1) };
            let mut out = vec![0.0f32; 2 * n];
            // SAFETY: arrays of the sizes that the work has.
            unsafe { work.run(x.as_ptr().cast(), blocks.as_ptr(), out.as_mut_ptr(), &cores) };
            assert!(out[..n].iter().all(|y| y.is_finite()) && out[n..].iter().all(|y| y.is_nan()), "{machine:?}");
        }
    }

    #[test]
    fn decoding_gives_the_numbers_that_blocks_stand_for() {
        for format in BlockFormat::ALL {
            let (n, k) = (5, 3 * format.elements());
            let blocks = Drawn(9).blocks(format, 3 * n);
            let mut expected = vec![0.0; n * k];
            format.decode(&blocks, &mut expected);
            for machine in machines() {
                let cores = Cores { machine, pool: Pool::new(2) };
                let mut wide = vec![0.0f32; n * k];
                let mut half = vec![0u16; n * k];
                let work = |dtype| BlockDecode::new(format, n, k, dtype, &machine).unwrap();
                // SAFETY: arrays of the sizes that the work has.
                unsafe {
                    work(DType::F32).run(blocks.as_ptr(), wide.as_mut_ptr().cast(), &cores);
                    work(DType::BF16).run(blocks.as_ptr(), half.as_mut_ptr().cast(), &cores);
                }
                assert_eq!(wide, expected, "{format:?} {machine:?}");
                assert!(half.iter().zip(&expected).all(|(a, b)| *a == bf16_bits(*b)), "{format:?} {machine:?}");
            }
        }
    }

    #[test]
    fn what_is_no_whole_block_is_not_taken() {
        let machine = Machine::detect();
        for k in [0, 1, 31, 33, 255] {
            for format in BlockFormat::ALL {
                assert!(BlockMatMul::new(format, [1, 1, k], DType::F32, &machine).is_none());
                assert!(BlockDecode::new(format, 1, k, DType::F32, &machine).is_none());
            }
        }
        assert!(BlockMatMul::new(BlockFormat::Q8_0, [1, 1, 32], DType::F64, &machine).is_none());
    }
}
