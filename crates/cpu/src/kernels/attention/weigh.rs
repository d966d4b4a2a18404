//! The softmax of a tile of scores that has its queries side by side: every query is a lane, nothing goes across lanes.
#![allow(unsafe_code)]

use crate::kernels::loops::math::{coefficients as c, muladd};
use crate::kernels::machine::Machine;

/// The most queries side by side.
pub(super) const MOST_LANES: usize = 32;

/// What no score lies below, so that the difference to it is a number even where nothing was seen yet.
pub(super) const LEAST: f32 = f32::MIN;

/// Below this `e^x` is 0: its power of two has no place among normal numbers.
const LOW: f32 = -88.0;

/// Which keys a query sees, one for each lane: those from `from` on and before `to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub(super) from: *const i32,
    pub(super) to: *const i32,
}

/// A tile of scores and what is known of its queries. Rows of all arrays have the width of a panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// One row for each key; they become weights.
    pub(super) scores: *mut f32,
    pub(super) keys: usize,
    /// The first of the keys.
    pub(super) first: i32,
    pub(super) scale: f32,
    /// `None` where every query sees every key of the tile.
    pub(super) spans: Option<Spans>,
    /// The largest scaled score of each query so far, and the sum of its weights.
    pub(super) max: *mut f32,
    pub(super) sum: *mut f32,
    /// Sums of weighted values so far.
    pub(super) results: *mut f32,
    pub(super) result_rows: usize,
}

/// Results of one panel of queries, to be divided by the sums of their weights and stored with a query in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    pub(super) results: *const f32,
    pub(super) result_rows: usize,
    pub(super) sum: *const f32,
    pub(super) queries: usize,
    pub(super) out: *mut f32,
    pub(super) out_row: isize,
}

/// How it is done on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weigh {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Panels of 8 and of 16.
    Narrow,
    Plain,
}

impl Weigh {
    /// For panels of `width` columns.
    pub(super) fn new(machine: &Machine, width: usize) -> Option<Weigh> {
        #[cfg(target_arch = "x86_64")]
        {
            if machine.avx512 && width == 32 {
                return Some(Weigh::Avx512);
            }
            if machine.avx2 && width == 16 {
                return Some(Weigh::Avx2);
            }
        }
        let _ = machine;
        match width {
            8 => Some(Weigh::Narrow),
            16 => Some(Weigh::Plain),
            _ => None,
        }
    }

    /// Makes scores to weights `e^(scale·score - max)`, 0 where the query does not see the key, and brings the sums so far
    /// to the new largest score.
    ///
    /// # Safety
    /// The arrays of the tile are readable and writable at this width; the machine is the one of [`Weigh::new`].
    pub(super) unsafe fn weigh(self, tile: &Tile) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Weigh::Avx512 => super::avx512::weigh(tile),
                #[cfg(target_arch = "x86_64")]
                Weigh::Avx2 => avx2::weigh(tile),
                Weigh::Narrow => weigh::<8, { cfg!(target_arch = "aarch64") }>(tile),
                Weigh::Plain => weigh::<16, { cfg!(target_arch = "aarch64") }>(tile),
            }
        }
    }

    /// # Safety
    /// As [`Weigh::weigh`]; `out` is writable for the queries.
    pub(super) unsafe fn finish(self, finish: &Finish) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Weigh::Avx512 => super::avx512::finish(finish),
                #[cfg(target_arch = "x86_64")]
                Weigh::Avx2 => store::<16>(finish),
                Weigh::Narrow => store::<8>(finish),
                Weigh::Plain => store::<16>(finish),
            }
        }
    }

    /// The largest magnitude of a run of numbers; above infinity's where one is NaN. As bits, which are in that order.
    ///
    /// # Safety
    /// The machine is the one of [`Weigh::new`].
    pub(super) unsafe fn largest(self, run: &[u32]) -> u32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise.
            Weigh::Avx512 => unsafe { super::avx512::largest(run) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise.
            Weigh::Avx2 => unsafe { avx2::largest(run) },
            _ => largest(run),
        }
    }
}

#[inline(always)]
pub(super) fn largest(run: &[u32]) -> u32 {
    run.iter().fold(0, |most, bits| most.max(bits & 0x7fff_ffff))
}

/// `e^x` for `x` that is not above 0 by more than a rounding; 0 from about -87.7 down. NaN stays.
#[inline(always)]
fn exp<const FMA: bool>(x: f32) -> f32 {
    let x = if x < LOW { LOW } else { x };
    let shifted = muladd::<FMA>(x, std::f32::consts::LOG2_E, c::INTEGER_F32);
    let n = shifted - c::INTEGER_F32;
    let r = muladd::<FMA>(n, -c::LN2_HIGH, x);
    let r = muladd::<FMA>(n, -c::LN2_LOW, r);
    let mut tail = c::EXP[4];
    for at in (0..4).rev() {
        tail = muladd::<FMA>(tail, r, c::EXP[at]);
    }
    let power = shifted.to_bits().wrapping_sub(c::INTEGER_F32.to_bits()).wrapping_add(127) << 23;
    let power = f32::from_bits(power);
    muladd::<FMA>(muladd::<FMA>(r * r, tail, r), power, power)
}

/// # Safety
/// As [`Weigh::weigh`] with a width of `W`.
#[inline(always)]
unsafe fn weigh<const W: usize, const FMA: bool>(tile: &Tile) {
    let row = |key: usize| tile.scores.wrapping_add(key * W).cast::<[f32; W]>();
    // SAFETY: arrays of one row each.
    let (max, sum) = unsafe { (&mut *tile.max.cast::<[f32; W]>(), &mut *tile.sum.cast::<[f32; W]>()) };
    let mut best = [f32::NEG_INFINITY; W];
    for key in 0..tile.keys {
        // SAFETY: a row of the tile.
        let scores = unsafe { &mut *row(key) };
        if let Some(spans) = tile.spans {
            // SAFETY: arrays of one row each.
            let (from, to) = unsafe { (&*spans.from.cast::<[i32; W]>(), &*spans.to.cast::<[i32; W]>()) };
            let at = tile.first + key as i32;
            for v in 0..W {
                scores[v] = if from[v] <= at && at < to[v] { scores[v] } else { f32::NEG_INFINITY };
            }
        }
        for v in 0..W {
            best[v] = if scores[v] > best[v] { scores[v] } else { best[v] };
        }
    }
    let mut factor = [0.0; W];
    for v in 0..W {
        let scaled = best[v] * tile.scale;
        let new = if scaled > max[v] { scaled } else { max[v] };
        factor[v] = exp::<FMA>(max[v] - new);
        max[v] = new;
        sum[v] *= factor[v];
    }
    for key in 0..tile.keys {
        // SAFETY: a row of the tile.
        let scores = unsafe { &mut *row(key) };
        for v in 0..W {
            scores[v] = exp::<FMA>(scores[v] * tile.scale - max[v]);
            sum[v] += scores[v];
        }
    }
    for at in 0..tile.result_rows {
        // SAFETY: a row of the results.
        let results = unsafe { &mut *tile.results.wrapping_add(at * W).cast::<[f32; W]>() };
        for v in 0..W {
            results[v] *= factor[v];
        }
    }
}

/// # Safety
/// As [`Weigh::finish`] with a width of `W`.
unsafe fn store<const W: usize>(finish: &Finish) {
    for query in 0..finish.queries.min(W) {
        let out = finish.out.wrapping_offset(query as isize * finish.out_row);
        // SAFETY: one element for each query; rows of the results and of the output.
        unsafe {
            let inverse = 1.0 / *finish.sum.add(query);
            for at in 0..finish.result_rows {
                *out.add(at) = *finish.results.add(at * W + query) * inverse;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The same compiled for AVX2.
    use super::Tile;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn weigh(tile: &Tile) {
        // SAFETY: the caller's promise.
        unsafe { super::weigh::<16, true>(tile) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn largest(run: &[u32]) -> u32 {
        super::largest(run)
    }
}
