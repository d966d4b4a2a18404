//! Matmuls: `out[b] = lhs[b]·rhs[b]` for strided factors, on every instruction set there is a kernel for.
//!
//! A [`MatMul`] says what is multiplied, [`MatMul::plan`] chooses how on a machine, and the [`Plan`] runs any number of
//! times. The result does not depend on which thread computes what.
#![allow(unsafe_code)]

mod ahead;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bits;
#[cfg(target_arch = "x86_64")]
mod block_rows;
#[cfg(target_arch = "x86_64")]
mod block_tiles;
mod blocks;
#[cfg(target_arch = "x86_64")]
mod by_group;
#[cfg(target_arch = "x86_64")]
mod bytes;
#[cfg(target_arch = "x86_64")]
mod digits;
mod drive;
#[cfg(target_arch = "x86_64")]
mod few;
mod grouped;
mod lanes;
mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_bytes;
mod pack;
mod portable;
mod scratch;
#[cfg(target_arch = "x86_64")]
mod skinny;
#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg(target_arch = "x86_64")]
mod sse2_bytes;
#[cfg(test)]
mod tests;
mod thin;
pub(crate) mod tile;

use std::ops::Range;

use tensor::DType;

use super::Cores;
use super::machine::Machine;
use crate::footprint;
use crate::memory::Packing;
use drive::{Cut, Job};
use scratch::Scratch;

/// 16 vectors of 16 f32, rows made columns.
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::transpose;
pub(crate) use blocks::{BlockDecode, BlockMatMul};
pub(crate) use grouped::{Grouped, Scales};
pub(crate) use narrow::is_narrow;

/// A batch of matmuls of an `m × k` and a `k × n` matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MatMul {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) lhs: Operand,
    pub(crate) rhs: Operand,
    pub(crate) out: Target,
}

/// A factor: the element at row `i` and column `j` of matrix `b` is at `i·row_stride + j·col_stride + b·batch_stride`, in
/// elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    /// Only a right factor may have packed bits: with columns side by side, and every row a whole number of bytes.
    pub(crate) packing: Packing,
    pub(crate) row_stride: isize,
    pub(crate) col_stride: isize,
    pub(crate) batch_stride: isize,
}

impl Operand {
    /// Bytes of so many elements.
    fn bytes(&self, elements: isize) -> isize {
        self.packing.bytes(self.dtype, elements)
    }

    /// Whether kernels can read it as it is packed.
    pub(crate) fn is_readable(&self) -> bool {
        let is_whole = |stride: isize| (stride.wrapping_mul(self.dtype.bits() as isize)) % 8 == 0;
        match self.packing {
            Packing::Bytes => true,
            Packing::Bits => {
                narrow::is_byte(self.dtype)
                    && matches!(self.dtype.bits(), 2 | 4)
                    && self.col_stride == 1
                    && is_whole(self.row_stride)
                    && is_whole(self.batch_stride)
            }
        }
    }
}

/// The result: columns are side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) dtype: DType,
    pub(crate) row_stride: isize,
    pub(crate) batch_stride: isize,
}

/// Called with a worker, a matrix of the batch, and the rows and columns of a block that has its final values.
pub(crate) type Finish<'a> = dyn Fn(usize, usize, Range<usize>, Range<usize>) + Sync + 'a;

/// A matmul with its kernel chosen.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    problem: MatMul,
    kernel: Choice,
    cut: Cut,
    /// Whether one row may meet bytes with VNNI.
    vnni: bool,
}

/// The right matrices of a plan in its kernel's order.
#[derive(Debug)]
pub(crate) struct Packed {
    start: *const u8,
    /// The memory at `start`, where it is not lent.
    _own: Option<Scratch>,
    /// Bytes from one matrix of the batch to the next; 0 when there is one for all.
    batch_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    #[cfg(target_arch = "x86_64")]
    AmxBf16,
    #[cfg(target_arch = "x86_64")]
    AmxSignedSigned,
    #[cfg(target_arch = "x86_64")]
    AmxSignedUnsigned,
    #[cfg(target_arch = "x86_64")]
    AmxUnsignedSigned,
    #[cfg(target_arch = "x86_64")]
    AmxUnsignedUnsigned,
    #[cfg(target_arch = "x86_64")]
    VnniSignedSigned,
    #[cfg(target_arch = "x86_64")]
    VnniSignedUnsigned,
    #[cfg(target_arch = "x86_64")]
    VnniUnsignedSigned,
    #[cfg(target_arch = "x86_64")]
    VnniUnsignedUnsigned,
    #[cfg(target_arch = "x86_64")]
    Avx512Signed,
    #[cfg(target_arch = "x86_64")]
    Avx512Unsigned,
    #[cfg(target_arch = "x86_64")]
    Avx2Signed,
    #[cfg(target_arch = "x86_64")]
    Avx2Unsigned,
    #[cfg(target_arch = "x86_64")]
    Sse2Words,
    #[cfg(target_arch = "x86_64")]
    Avx512F32,
    #[cfg(target_arch = "x86_64")]
    Avx512F64,
    #[cfg(target_arch = "x86_64")]
    Avx2F32,
    #[cfg(target_arch = "x86_64")]
    Avx2F64,
    #[cfg(target_arch = "aarch64")]
    NeonDotSignedSigned,
    #[cfg(target_arch = "aarch64")]
    NeonDotSignedUnsigned,
    #[cfg(target_arch = "aarch64")]
    NeonDotUnsignedSigned,
    #[cfg(target_arch = "aarch64")]
    NeonDotUnsignedUnsigned,
    #[cfg(target_arch = "aarch64")]
    NeonWords,
    #[cfg(target_arch = "aarch64")]
    NeonF32,
    #[cfg(target_arch = "aarch64")]
    NeonF64,
    PortableF32,
    PortableF64,
    PortableI32,
}

/// Evaluates an expression with `$K` as the kernel of a choice.
macro_rules! with_kernel {
    ($choice:expr, $K:ident => $body:expr) => {
        match $choice {
            #[cfg(target_arch = "x86_64")]
            Choice::AmxBf16 => {
                type $K = amx::Amx<amx::Bf16>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::AmxSignedSigned => {
                type $K = amx::Amx<amx::SignedSigned>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::AmxSignedUnsigned => {
                type $K = amx::Amx<amx::SignedUnsigned>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::AmxUnsignedSigned => {
                type $K = amx::Amx<amx::UnsignedSigned>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::AmxUnsignedUnsigned => {
                type $K = amx::Amx<amx::UnsignedUnsigned>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::VnniSignedSigned => {
                type $K = bytes::Vnni<true, true>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::VnniSignedUnsigned => {
                type $K = bytes::Vnni<true, false>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::VnniUnsignedSigned => {
                type $K = bytes::Vnni<false, true>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::VnniUnsignedUnsigned => {
                type $K = bytes::Vnni<false, false>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512Signed => {
                type $K = bytes::Words512<true>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512Unsigned => {
                type $K = bytes::Words512<false>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2Signed => {
                type $K = bytes::Words256<true>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2Unsigned => {
                type $K = bytes::Words256<false>;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Sse2Words => {
                type $K = sse2_bytes::Words128;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512F32 => {
                type $K = avx512::Avx512F32;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512F64 => {
                type $K = avx512::Avx512F64;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2F32 => {
                type $K = avx2::Avx2F32;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2F64 => {
                type $K = avx2::Avx2F64;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonDotSignedSigned => {
                type $K = neon_bytes::NeonDot<true, true>;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonDotSignedUnsigned => {
                type $K = neon_bytes::NeonDot<true, false>;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonDotUnsignedSigned => {
                type $K = neon_bytes::NeonDot<false, true>;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonDotUnsignedUnsigned => {
                type $K = neon_bytes::NeonDot<false, false>;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonWords => {
                type $K = neon_bytes::NeonWords;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonF32 => {
                type $K = neon::NeonF32;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonF64 => {
                type $K = neon::NeonF64;
                $body
            }
            Choice::PortableF32 => {
                type $K = portable::PortableF32;
                $body
            }
            Choice::PortableF64 => {
                type $K = portable::Portable<f64>;
                $body
            }
            Choice::PortableI32 => {
                type $K = portable::Portable<i32>;
                $body
            }
        }
    };
}

/// Multiplications below which a second thread costs more than it brings.
const WORTH_A_THREAD: usize = 1 << 17;

impl MatMul {
    /// Whether there is a kernel for these types: f32, f64 and i32 alike; bf16 or f16 factors with a result of their type or
    /// f32; integers of up to a byte in any mix with an i32 result; f32, bf16 or f16 on the left of [`is_narrow`] with a
    /// result of any of these three.
    pub(crate) fn is_supported(lhs: DType, rhs: DType, out: DType) -> bool {
        let is_wide = |dtype: DType| matches!(dtype, DType::F32 | DType::BF16 | DType::F16);
        match (lhs, rhs) {
            (DType::F32 | DType::F64 | DType::I32, _) if lhs == rhs => rhs == out,
            (DType::BF16 | DType::F16, _) if lhs == rhs => out == lhs || out == DType::F32,
            _ if is_wide(lhs) => is_narrow(rhs) && is_wide(out),
            _ => narrow::is_byte(lhs) && narrow::is_byte(rhs) && out == DType::I32,
        }
    }

    /// Chooses how to compute this on a machine. The types are such that [`MatMul::is_supported`].
    pub(crate) fn plan(self, machine: &Machine) -> Plan {
        debug_assert!(MatMul::is_supported(self.lhs.dtype, self.rhs.dtype, self.out.dtype), "{self:?}");
        let kernel = choose(self.lhs.dtype, self.rhs.dtype, machine);
        let cut = with_kernel!(kernel, K => Cut::new::<K>(&self));
        Plan { problem: self, kernel, cut, vnni: machine.avx512 && machine.avx512_vnni }
    }

    /// Bytes of the left factor up to the last one that is read, with its first element `offset` bytes from the start.
    pub(crate) fn lhs_reads(&self, offset: isize) -> Option<usize> {
        self.reads(&self.lhs, offset, [self.m, self.k])
    }

    /// The same of the right factor.
    pub(crate) fn rhs_reads(&self, offset: isize) -> Option<usize> {
        self.reads(&self.rhs, offset, [self.k, self.n])
    }

    fn reads(&self, factor: &Operand, offset: isize, [rows, cols]: [usize; 2]) -> Option<usize> {
        let strides = [(self.batch, factor.batch_stride), (rows, factor.row_stride), (cols, factor.col_stride)];
        match factor.packing {
            Packing::Bytes => footprint::reach_from(offset, strides, factor.dtype.size_bytes()),
            Packing::Bits if !factor.is_readable() => None,
            Packing::Bits => footprint::reach_bits(offset, strides, factor.dtype.bits() as usize),
        }
    }

    /// Bytes of the result, which is written without a gap; `None` where there are gaps.
    pub(crate) fn out_writes(&self) -> Option<usize> {
        let strides = [(self.batch, self.out.batch_stride), (self.m, self.out.row_stride), (self.n, 1)];
        footprint::cover(strides, self.out.dtype.size_bytes())
    }

    /// Multiplications of one matrix of the batch.
    fn size(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k.max(1))
    }
}

fn choose(lhs: DType, rhs: DType, machine: &Machine) -> Choice {
    #[cfg(target_arch = "x86_64")]
    {
        if narrow::is_byte(lhs) {
            return choose_bytes(lhs.is_signed_integer(), rhs.is_signed_integer(), machine);
        }
        if machine.amx && lhs == DType::BF16 {
            return Choice::AmxBf16;
        }
        if machine.avx512 {
            match lhs {
                DType::F64 => return Choice::Avx512F64,
                DType::F32 | DType::BF16 | DType::F16 => return Choice::Avx512F32,
                _ => {}
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    if machine.avx2 {
        match lhs {
            DType::F64 => return Choice::Avx2F64,
            DType::F32 | DType::BF16 | DType::F16 => return Choice::Avx2F32,
            _ => {}
        }
    }
    #[cfg(target_arch = "aarch64")]
    if machine.neon {
        match lhs {
            _ if narrow::is_byte(lhs) => {
                return choose_bytes(lhs.is_signed_integer(), rhs.is_signed_integer(), machine);
            }
            DType::F64 => return Choice::NeonF64,
            DType::F32 | DType::BF16 | DType::F16 => return Choice::NeonF32,
            _ => {}
        }
    }
    match lhs {
        dtype if dtype.is_integer() => Choice::PortableI32,
        DType::F64 => Choice::PortableF64,
        _ => Choice::PortableF32,
    }
}

/// The kernel for factors of bytes.
#[cfg(target_arch = "aarch64")]
fn choose_bytes(left_is_signed: bool, right_is_signed: bool, machine: &Machine) -> Choice {
    match (left_is_signed, right_is_signed) {
        _ if !machine.dotprod => Choice::NeonWords,
        (true, true) => Choice::NeonDotSignedSigned,
        (true, false) => Choice::NeonDotSignedUnsigned,
        (false, true) => Choice::NeonDotUnsignedSigned,
        (false, false) => Choice::NeonDotUnsignedUnsigned,
    }
}

/// The kernel for factors of bytes.
#[cfg(target_arch = "x86_64")]
fn choose_bytes(left_is_signed: bool, right_is_signed: bool, machine: &Machine) -> Choice {
    let by_signs = |choices: [Choice; 4]| choices[2 * usize::from(!left_is_signed) + usize::from(!right_is_signed)];
    if machine.amx {
        return by_signs([
            Choice::AmxSignedSigned,
            Choice::AmxSignedUnsigned,
            Choice::AmxUnsignedSigned,
            Choice::AmxUnsignedUnsigned,
        ]);
    }
    if machine.avx512 && machine.avx512_vnni {
        return by_signs([
            Choice::VnniSignedSigned,
            Choice::VnniSignedUnsigned,
            Choice::VnniUnsignedSigned,
            Choice::VnniUnsignedUnsigned,
        ]);
    }
    match (machine.avx512, machine.avx2, right_is_signed) {
        (true, _, true) => Choice::Avx512Signed,
        (true, _, false) => Choice::Avx512Unsigned,
        (_, true, true) => Choice::Avx2Signed,
        (_, true, false) => Choice::Avx2Unsigned,
        _ => Choice::Sse2Words,
    }
}

impl Plan {
    /// Computes the batch. `finish` is called once for each block of the results when its final values are stored, by the
    /// thread that stored them; the blocks tile the results.
    ///
    /// # Safety
    /// The pointers are to matrices as the problem says, the results overlapping nothing else; `packed` is from
    /// [`Plan::pack_rhs`] of an equal plan with the same right matrices (`rhs` is then not read). The machine is one the
    /// plan was made for.
    pub(crate) unsafe fn run(
        &self,
        lhs: *const u8,
        rhs: *const u8,
        out: *mut u8,
        packed: Option<&Packed>,
        finish: Option<&Finish<'_>>,
        cores: &Cores,
    ) {
        let problem = &self.problem;
        let threads = cores.pool.threads();
        let whole = problem.size().saturating_mul(problem.batch);
        let base = Base { lhs, rhs, out, packed, finish };
        if threads == 1 || whole < 2 * WORTH_A_THREAD {
            for batch in 0..problem.batch {
                // SAFETY: the caller's promise.
                unsafe { self.run_matrix(&base, batch, 1, &in_order) };
            }
        } else if problem.batch >= 4 * threads
            || problem.batch > 1 && (problem.batch.is_multiple_of(threads) || problem.size() < 2 * WORTH_A_THREAD)
        {
            let parts = problem.batch.min(8 * threads);
            let base = &base;
            cores.pool.run(parts, &|worker, part| {
                let in_order = |count: usize, task: &(dyn Fn(usize, usize) + Sync)| {
                    for index in 0..count {
                        task(worker, index);
                    }
                };
                for batch in problem.batch * part / parts..problem.batch * (part + 1) / parts {
                    // SAFETY: the caller's promise; matrices of the batch do not overlap.
                    unsafe { self.run_matrix(base, batch, 1, &in_order) };
                }
            });
        } else {
            for batch in 0..problem.batch {
                // SAFETY: the caller's promise.
                unsafe { self.run_matrix(&base, batch, threads, &|count, task| cores.pool.run(count, task)) };
            }
        }
    }

    /// What is multiplied.
    pub(crate) fn problem(&self) -> &MatMul {
        &self.problem
    }

    /// Whether the right matrices are worth packing once for many runs: a few rows read them best as they are, and narrow
    /// elements would grow.
    pub(crate) fn gains_by_packing(&self) -> bool {
        let MatMul { m, lhs, rhs, .. } = &self.problem;
        *m > 4 && rhs.packing == Packing::Bytes && rhs.dtype.size_bytes() == lhs.dtype.size_bytes()
    }

    /// Computes `rows` rows of one matrix on the calling thread. `lhs` and `out` are to the first of these rows, `rhs` to
    /// its matrix; `packed` comes with the number of the matrix in the batch.
    ///
    /// # Safety
    /// As [`Plan::run`], for this part.
    pub(crate) unsafe fn run_rows(
        &self,
        rows: usize,
        lhs: *const u8,
        rhs: *const u8,
        out: *mut u8,
        packed: Option<(&Packed, usize)>,
    ) {
        let packed = packed.map(|(packed, batch)| packed.matrix(batch));
        let (problem, cut, vnni) = (&self.problem, self.cut, self.vnni);
        let job = Job { problem, cut, vnni, rows, lhs, rhs, out, packed, finish: None, threads: 1 };
        // SAFETY: the caller's promise.
        unsafe { self.run_job(&job, &in_order) };
    }

    /// The right matrices in the kernel's order, for any number of runs.
    ///
    /// # Safety
    /// `rhs` is to matrices as the problem says.
    pub(crate) unsafe fn pack_rhs(&self, rhs: *const u8) -> Packed {
        let (count, bytes) = self.packed_size();
        let own = Scratch::new(bytes * count);
        for batch in 0..count {
            // SAFETY: the caller's promise; this much was allocated.
            unsafe { self.pack_matrix(rhs, own.at(), batch, 0, 1) };
        }
        Packed { start: own.at::<u8>().cast_const(), _own: Some(own), batch_bytes: self.batch_bytes() }
    }

    /// As [`Plan::pack_rhs`], into memory that is lent, by the calling thread.
    ///
    /// # Safety
    /// As [`Plan::pack_rhs_into`]; the memory outlives the result.
    pub(crate) unsafe fn pack_rhs_at(&self, rhs: *const u8, to: *mut u8) -> Packed {
        for batch in 0..self.packed_size().0 {
            // SAFETY: the caller's promise.
            unsafe { self.pack_matrix(rhs, to, batch, 0, 1) };
        }
        // SAFETY: packed above.
        unsafe { self.packed_at(to) }
    }

    /// Bytes of all right matrices in the kernel's order; `None` if more than there can be.
    pub(crate) fn packed_bytes(&self) -> Option<usize> {
        let (count, bytes) = self.packed_size();
        bytes.checked_mul(count)
    }

    /// As [`Plan::pack_rhs`], into memory that is lent, by all threads.
    ///
    /// # Safety
    /// `rhs` is to matrices as the problem says; `to` takes [`Plan::packed_bytes`], at a multiple of 64.
    pub(crate) unsafe fn pack_rhs_into(&self, rhs: *const u8, to: *mut u8, cores: &Cores) {
        let (count, bytes) = self.packed_size();
        let parts = if bytes < WORTH_A_THREAD { 1 } else { 4 * cores.pool.threads() };
        let base = Base { lhs: rhs, rhs, out: to, packed: None, finish: None };
        let base = &base;
        cores.pool.run(count * parts, &|_, task| {
            // SAFETY: the caller's promise; parts do not overlap.
            unsafe { self.pack_matrix(base.rhs, base.out, task / parts, task % parts, parts) };
        });
    }

    /// What [`Plan::pack_rhs_into`] left at `start`.
    ///
    /// # Safety
    /// The memory is that of an equal plan's packed matrices, and outlives the result.
    pub(crate) unsafe fn packed_at(&self, start: *const u8) -> Packed {
        Packed { start, _own: None, batch_bytes: self.batch_bytes() }
    }

    /// How many right matrices are packed, and the bytes of each.
    fn packed_size(&self) -> (usize, usize) {
        let problem = &self.problem;
        let count = if problem.rhs.batch_stride == 0 { problem.batch.min(1) } else { problem.batch };
        let bytes = with_kernel!(self.kernel, K => drive::whole_bytes::<K>(problem));
        (count, bytes.checked_next_multiple_of(64).unwrap_or(usize::MAX))
    }

    /// Bytes from one packed matrix to the next; 0 when there is one for all.
    fn batch_bytes(&self) -> usize {
        let (count, bytes) = self.packed_size();
        if count > 1 { bytes } else { 0 }
    }

    /// Packs one part of one matrix.
    ///
    /// # Safety
    /// As [`Plan::pack_rhs_into`]; nobody else packs this part.
    unsafe fn pack_matrix(&self, rhs: *const u8, to: *mut u8, batch: usize, part: usize, parts: usize) {
        let problem = &self.problem;
        let from = step(rhs, &problem.rhs, batch);
        let to = to.wrapping_add(self.packed_size().1 * batch);
        // SAFETY: the caller's promise; each matrix has its own bytes.
        unsafe { with_kernel!(self.kernel, K => drive::pack_whole::<K>(problem, from, to, part, parts)) };
    }

    /// # Safety
    /// As [`Plan::run`], for one matrix of the batch.
    unsafe fn run_matrix(&self, base: &Base<'_>, batch: usize, threads: usize, tasks: drive::Tasks<'_>) {
        let problem = &self.problem;
        let finish = |worker: usize, rows: Range<usize>, cols: Range<usize>| {
            if let Some(finish) = base.finish {
                finish(worker, batch, rows, cols);
            }
        };
        let job = Job {
            problem,
            cut: self.cut,
            vnni: self.vnni,
            rows: problem.m,
            lhs: step(base.lhs, &problem.lhs, batch),
            rhs: step(base.rhs, &problem.rhs, batch),
            out: base
                .out
                .wrapping_offset(problem.out.batch_stride * batch as isize * problem.out.dtype.size_bytes() as isize),
            packed: base.packed.map(|packed| packed.matrix(batch)),
            finish: base.finish.is_some().then_some(&finish),
            threads,
        };
        // SAFETY: the caller's promise.
        unsafe { self.run_job(&job, tasks) };
    }

    /// # Safety
    /// As [`drive::drive`].
    unsafe fn run_job(&self, job: &Job<'_>, tasks: drive::Tasks<'_>) {
        if job.rows == 0 || self.problem.n == 0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if matches!(self.kernel, Choice::Avx512F32 | Choice::AmxBf16) {
            // SAFETY: the caller's promise; these kernels are chosen for machines with AVX-512 and sums in f32.
            if unsafe { skinny::drive(job, tasks) } {
                return;
            }
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise; the machine has tiles.
        if self.kernel == Choice::AmxBf16 && unsafe { few::drive(job, tasks) } {
            return;
        }
        // SAFETY: the caller's promise; the vectors are those of the kernel, which was chosen for the machine.
        let is_done = unsafe {
            match self.kernel {
                #[cfg(target_arch = "x86_64")]
                Choice::Avx2F32 => thin::drive(job, tasks, thin::Vectors::Avx2),
                #[cfg(target_arch = "aarch64")]
                Choice::NeonF32 => thin::drive(job, tasks, thin::Vectors::Neon),
                Choice::PortableF32 => thin::drive(job, tasks, thin::Vectors::Portable),
                _ => false,
            }
        };
        if is_done {
            return;
        }
        // SAFETY: the caller's promise; the kernel was chosen for the machine.
        unsafe { with_kernel!(self.kernel, K => drive::drive::<K>(job, tasks)) }
    }
}

// SAFETY: it only reads its memory, which it owns or whose lender promised that it stays.
unsafe impl Send for Packed {}
// SAFETY: as above.
unsafe impl Sync for Packed {}

impl Packed {
    fn matrix(&self, batch: usize) -> *const u8 {
        self.start.wrapping_add(self.batch_bytes * batch)
    }
}

/// What [`Plan::run`] was called with.
struct Base<'a> {
    lhs: *const u8,
    rhs: *const u8,
    out: *mut u8,
    packed: Option<&'a Packed>,
    finish: Option<&'a Finish<'a>>,
}

// SAFETY: the pointers are to matrices that outlive the run; threads write disjoint parts of the results.
unsafe impl Sync for Base<'_> {}

/// Runs tasks on the calling thread.
fn in_order(count: usize, task: &(dyn Fn(usize, usize) + Sync)) {
    for index in 0..count {
        task(0, index);
    }
}

/// The address of a matrix of the batch.
fn step(from: *const u8, factor: &Operand, batch: usize) -> *const u8 {
    from.wrapping_offset(factor.bytes(factor.batch_stride * batch as isize))
}
