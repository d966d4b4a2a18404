//! Random bits: the counter-based generators, bit for bit as XLA computes them.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::Cores;
use super::wide::{WideLoop, wide_loop};
use crate::footprint::{Footprint, Written, product};

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// Threefry-2x32, 20 rounds.
    ThreeFry,
    /// Philox-4x32, 10 rounds.
    Philox,
}

/// Bits for an array, and the state after them.
#[derive(Clone, Debug)]
pub(crate) struct RandomBits {
    algorithm: Algorithm,
    state: DType,
    state_len: usize,
    dtype: DType,
    count: usize,
    /// Of narrow Threefry bits: the array is `outer · size · inner`, and the middle dimension takes the two halves of each
    /// block at its even and odd places.
    split: [usize; 3],
}

/// Blocks a task makes at once: as many as vectors of the widest machine hold several times over.
const BATCH: usize = 64;

/// Blocks of an array. It is only made for arrays as [`RandomBits::run`] has them, of blocks that no one else puts.
struct Put<'a> {
    bits: &'a RandomBits,
    key: [u32; 2],
    counter: u128,
    batches: Range<usize>,
    /// Of the whole array.
    blocks: usize,
    out: *mut u8,
}

impl WideLoop for Put<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Put { bits, key, counter, batches, blocks, out } = self;
        for batch in batches {
            let first = batch * BATCH;
            let taken = BATCH.min(blocks - first);
            // SAFETY: blocks below their number fill elements of the array, each block its own.
            unsafe {
                match bits.algorithm {
                    Algorithm::ThreeFry => bits.put_threefry(key, counter as u64, first, taken, out),
                    Algorithm::Philox => bits.put_philox(key, counter, first, taken, out),
                }
            }
        }
    }
}

struct Out(*mut u8);
// SAFETY: threads write different elements.
unsafe impl Sync for Out {}

impl RandomBits {
    /// Bits of `dtype`; `None` for states and types that XLA does not know.
    pub(crate) fn new(
        algorithm: Algorithm,
        state: DType,
        state_len: usize,
        dims: &[usize],
        dtype: DType,
    ) -> Option<RandomBits> {
        let words = match state {
            DType::U64 | DType::I64 => state_len,
            DType::U32 | DType::I32 => state_len.div_ceil(2),
            _ => return None,
        };
        let fits = match algorithm {
            Algorithm::ThreeFry => words == 2,
            Algorithm::Philox => words == 2 || words == 3,
        };
        let count = product(dims)?;
        if !fits || dtype.is_bool() || dtype.is_complex() || (dtype.bits() < 8) {
            return None;
        }
        // The first even dimension, or else the longest.
        let even = dims.iter().position(|d| d.is_multiple_of(2));
        let longest = (0..dims.len()).rev().max_by_key(|&d| dims[d]);
        let split = match even.or(longest) {
            Some(d) => [dims[..d].iter().product(), dims[d], dims[d + 1..].iter().product()],
            None => [1, 1, 1],
        };
        Some(RandomBits { algorithm, state, state_len, dtype, count, split })
    }
}

impl RandomBits {
    /// What it touches: the state, the next state and the bits.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let state = self.state_len.checked_mul(self.state.size_bytes())?;
        let bits = product(&[self.count, self.dtype.size_bytes()])?;
        Some(Footprint { reads: vec![state], writes: vec![Written::Whole(state), Written::Whole(bits)] })
    }

    /// Draws: `next_state` is the state after the bits.
    ///
    /// # Safety
    /// `state` and `next_state` point to the state's elements, `bits` to the array; what is written overlaps nothing.
    pub(crate) unsafe fn run(&self, state: *const u8, next_state: *mut u8, bits: *mut u8, cores: &Cores) {
        let is_wide = matches!(self.state, DType::U64 | DType::I64);
        let mut words = [0u64; 3];
        for n in 0..self.state_len {
            // SAFETY: element `n` of the state.
            unsafe {
                if is_wide {
                    words[n] = state.cast::<u64>().add(n).read();
                } else {
                    words[n / 2] |= u64::from(state.cast::<u32>().add(n).read()) << (n % 2 * 32);
                    // The odd word at the end stands for both halves.
                    if n.is_multiple_of(2) && n + 1 == self.state_len {
                        words[n / 2] |= words[n / 2] << 32;
                    }
                }
            }
        }
        let key = [words[0] as u32, (words[0] >> 32) as u32];
        let is_double = self.dtype.bits() == 64;
        let [outer, size, inner] = self.split;
        let blocks = match self.algorithm {
            Algorithm::ThreeFry if is_double => self.count,
            Algorithm::ThreeFry => outer * size.div_ceil(2) * inner,
            Algorithm::Philox => self.count.div_ceil(if is_double { 2 } else { 4 }),
        };
        let out = Out(bits);
        let has_third = self.words() > 2;
        let counter = match (self.algorithm, has_third) {
            (Algorithm::ThreeFry, _) => u128::from(words[1]),
            (Algorithm::Philox, false) => u128::from(words[1]) | u128::from(words[0]) << 64,
            (Algorithm::Philox, true) => u128::from(words[1]) | u128::from(words[2]) << 64,
        };
        let batches = blocks.div_ceil(BATCH);
        let tasks = if self.count < 1 << 14 { batches.min(1) } else { batches.min(4 * cores.pool.threads()) };
        let out = &out;
        cores.pool.run(tasks, &|_, task| {
            let (begin, end) = (batches * task / tasks, batches * (task + 1) / tasks);
            wide_loop(&cores.machine, Put { bits: self, key, counter, batches: begin..end, blocks, out: out.0 });
        });
        let end = counter.wrapping_add(blocks as u128);
        words[1] = end as u64;
        if self.algorithm == Algorithm::Philox && has_third {
            words[2] = (end >> 64) as u64;
        }
        for n in 0..self.state_len {
            // SAFETY: element `n` of the state.
            unsafe {
                if is_wide {
                    next_state.cast::<u64>().add(n).write(words[n]);
                } else {
                    next_state.cast::<u32>().add(n).write((words[n / 2] >> (n % 2 * 32)) as u32);
                }
            }
        }
    }

    /// State words of 64 bits.
    fn words(&self) -> usize {
        match self.state {
            DType::U64 | DType::I64 => self.state_len,
            _ => self.state_len.div_ceil(2),
        }
    }

    /// # Safety
    /// `out` is the array; blocks `first..first + taken` are of it.
    #[inline(always)]
    unsafe fn put_threefry(&self, key: [u32; 2], start: u64, first: usize, taken: usize, out: *mut u8) {
        let (a, b) = threefry(key, start.wrapping_add(first as u64));
        let width = self.dtype.size_bytes();
        let [_, size, inner] = self.split;
        // SAFETY: the elements of the blocks are of the array.
        unsafe {
            if width == 8 {
                for n in 0..taken {
                    out.cast::<u64>().add(first + n).write(u64::from(a[n]) | u64::from(b[n]) << 32);
                }
                return;
            }
            if inner == 1 && size.is_multiple_of(2) {
                let mut both = [0u32; 2 * BATCH];
                for n in 0..BATCH {
                    both[2 * n] = a[n];
                    both[2 * n + 1] = b[n];
                }
                put(width, out, 2 * first, &both[..2 * taken]);
                return;
            }
            let half = size.div_ceil(2);
            let (mut place, mut pair) = (first % inner, first / inner);
            let mut done = 0;
            while done < taken {
                let run = (inner - place).min(taken - done);
                let (o, h) = (pair / half, pair % half);
                let to = (o * size + 2 * h) * inner + place;
                put(width, out, to, &a[done..done + run]);
                if 2 * h + 1 < size {
                    put(width, out, to + inner, &b[done..done + run]);
                }
                done += run;
                place = 0;
                pair += 1;
            }
        }
    }

    /// # Safety
    /// `out` is the array; blocks `first..first + taken` are of it.
    #[inline(always)]
    unsafe fn put_philox(&self, key: [u32; 2], counter: u128, first: usize, taken: usize, out: *mut u8) {
        let x = philox(key, counter.wrapping_add(first as u128));
        let width = self.dtype.size_bytes();
        let mut words = [0u32; 4 * BATCH];
        for n in 0..BATCH {
            for (part, x) in x.iter().enumerate() {
                words[4 * n + part] = x[n];
            }
        }
        // SAFETY: the elements of the blocks are of the array; the last block may have too many.
        unsafe {
            if width == 8 {
                let count = (2 * taken).min(self.count - 2 * first);
                for n in 0..count {
                    let bits = u64::from(words[2 * n]) | u64::from(words[2 * n + 1]) << 32;
                    out.cast::<u64>().add(2 * first + n).write(bits);
                }
            } else {
                let count = (4 * taken).min(self.count - 4 * first);
                put(width, out, 4 * first, &words[..count]);
            }
        }
    }
}

/// Writes the low bits of words as elements of 1, 2 or 4 bytes.
///
/// # Safety
/// The array has the elements from `at` on, as many as there are words.
#[inline(always)]
unsafe fn put(width: usize, out: *mut u8, at: usize, words: &[u32]) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            1 => words.iter().enumerate().for_each(|(n, &x)| out.add(at + n).write(x as u8)),
            2 => words.iter().enumerate().for_each(|(n, &x)| out.cast::<u16>().add(at + n).write(x as u16)),
            _ => std::ptr::copy_nonoverlapping(words.as_ptr(), out.cast::<u32>().add(at), words.len()),
        }
    }
}

/// Blocks of consecutive counters. One straight line for each block, which the compiler makes vectors of.
#[inline(always)]
fn threefry(key: [u32; 2], start: u64) -> ([u32; BATCH], [u32; BATCH]) {
    let (mut left, mut right) = ([0u32; BATCH], [0u32; BATCH]);
    for n in 0..BATCH {
        let counter = start.wrapping_add(n as u64);
        [left[n], right[n]] = threefry_block(key, [counter as u32, (counter >> 32) as u32]);
    }
    (left, right)
}

/// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
#[inline(always)]
fn threefry_block(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let schedule = [key[0], key[1], 0x1BD1_1BDA ^ key[0] ^ key[1]];
    let [mut a, mut b] = [counter[0].wrapping_add(schedule[0]), counter[1].wrapping_add(schedule[1])];
    macro_rules! rounds {
        ($($group:literal: $($rotation:literal)*;)*) => {$(
            $(
                a = a.wrapping_add(b);
                b = b.rotate_left($rotation) ^ a;
            )*
            a = a.wrapping_add(schedule[$group % 3]);
            b = b.wrapping_add(schedule[($group + 1) % 3]).wrapping_add($group);
        )*};
    }
    rounds! {
        1: 13 15 26 6;
        2: 17 29 16 24;
        3: 13 15 26 6;
        4: 17 29 16 24;
        5: 13 15 26 6;
    }
    [a, b]
}

/// Blocks of consecutive counters.
#[inline(always)]
fn philox(key: [u32; 2], start: u128) -> [[u32; BATCH]; 4] {
    let (low, high) = (start as u64, (start >> 64) as u64);
    let mut out = [[0u32; BATCH]; 4];
    for n in 0..BATCH {
        let here = low.wrapping_add(n as u64);
        let above = high.wrapping_add(u64::from(here < low));
        let x = philox_block(key, [here as u32, (here >> 32) as u32, above as u32, (above >> 32) as u32]);
        out[0][n] = x[0];
        out[1][n] = x[1];
        out[2][n] = x[2];
        out[3][n] = x[3];
    }
    out
}

/// Philox-4x32 with 10 rounds, of the same paper.
#[inline(always)]
fn philox_block(key: [u32; 2], mut x: [u32; 4]) -> [u32; 4] {
    let [mut k0, mut k1] = key;
    macro_rules! rounds {
        ($($round:literal)*) => {$(
            let _ = $round;
            let (p0, p1) = (u64::from(x[0]) * 0xD251_1F53, u64::from(x[2]) * 0xCD9E_8D57);
            x = [(p1 >> 32) as u32 ^ x[1] ^ k0, p1 as u32, (p0 >> 32) as u32 ^ x[3] ^ k1, p0 as u32];
            k0 = k0.wrapping_add(0x9E37_79B9);
            k1 = k1.wrapping_add(0xBB67_AE85);
        )*};
    }
    rounds!(1 2 3 4 5 6 7 8 9 10);
    let _ = (k0, k1);
    x
}

#[cfg(test)]
mod tests;
