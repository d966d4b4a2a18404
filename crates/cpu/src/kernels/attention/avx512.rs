//! The softmax of a tile with AVX-512: two vectors of queries.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::weigh::{Finish, Tile};
use crate::kernels::loops::math::coefficients as c;
use crate::kernels::matmul::transpose;

const LANES: usize = 16;
const WIDTH: usize = 2 * LANES;
/// Keys whose largest scores are found side by side: a maximum waits for the one before it.
const UNROLLED: usize = 4;

/// `e^x` for `x` that is not above 0 by more than a rounding; 0 from about -87.7 down. NaN stays.
#[inline(always)]
fn exp(x: __m512) -> __m512 {
    // SAFETY: callers are compiled for AVX-512.
    unsafe {
        // Of NaN and a number this gives the second.
        let x = _mm512_max_ps(_mm512_set1_ps(-88.0), x);
        let integer = _mm512_set1_ps(c::INTEGER_F32);
        let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E), integer);
        let n = _mm512_sub_ps(shifted, integer);
        let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(c::LN2_HIGH), x);
        let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(c::LN2_LOW), r);
        let mut tail = _mm512_set1_ps(c::EXP[4]);
        for at in (0..4).rev() {
            tail = _mm512_fmadd_ps(tail, r, _mm512_set1_ps(c::EXP[at]));
        }
        let bias = _mm512_set1_epi32(127_i32.wrapping_sub(c::INTEGER_F32.to_bits() as i32));
        let power = _mm512_slli_epi32::<23>(_mm512_add_epi32(_mm512_castps_si512(shifted), bias));
        let power = _mm512_castsi512_ps(power);
        _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), tail, r), power, power)
    }
}

/// # Safety
/// As [`super::weigh::Weigh::weigh`] with panels of 32.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn weigh(tile: &Tile) {
    let nothing = _mm512_set1_ps(f32::NEG_INFINITY);
    let row = |key: usize, v: usize| tile.scores.wrapping_add(key * WIDTH + v * LANES);
    let mut best = [[nothing; 2]; UNROLLED];
    if let Some(spans) = tile.spans {
        for v in 0..2 {
            // SAFETY: one lane for each query.
            let (from, to) = unsafe {
                (
                    _mm512_loadu_si512(spans.from.add(v * LANES).cast()),
                    _mm512_loadu_si512(spans.to.add(v * LANES).cast()),
                )
            };
            for key in 0..tile.keys {
                let at = _mm512_set1_epi32(tile.first + key as i32);
                let seen = _mm512_cmple_epi32_mask(from, at) & _mm512_cmplt_epi32_mask(at, to);
                // SAFETY: a vector of the tile.
                let score = unsafe { _mm512_mask_loadu_ps(nothing, seen, row(key, v)) };
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(row(key, v), score) };
                best[0][v] = _mm512_max_ps(best[0][v], score);
            }
        }
    } else {
        let whole = tile.keys - tile.keys % UNROLLED;
        for key in (0..whole).step_by(UNROLLED) {
            for (u, best) in best.iter_mut().enumerate() {
                for (v, best) in best.iter_mut().enumerate() {
                    // SAFETY: a vector of the tile.
                    *best = _mm512_max_ps(*best, unsafe { _mm512_loadu_ps(row(key + u, v)) });
                }
            }
        }
        for key in whole..tile.keys {
            for (v, best) in best[0].iter_mut().enumerate() {
                // SAFETY: a vector of the tile.
                *best = _mm512_max_ps(*best, unsafe { _mm512_loadu_ps(row(key, v)) });
            }
        }
    }
    let scale = _mm512_set1_ps(tile.scale);
    let (mut max, mut sum, mut factor) = ([nothing; 2], [nothing; 2], [nothing; 2]);
    for v in 0..2 {
        let best = _mm512_max_ps(_mm512_max_ps(best[0][v], best[1][v]), _mm512_max_ps(best[2][v], best[3][v]));
        // SAFETY: one lane for each query.
        unsafe {
            let old = _mm512_loadu_ps(tile.max.add(v * LANES));
            max[v] = _mm512_max_ps(old, _mm512_mul_ps(best, scale));
            factor[v] = exp(_mm512_sub_ps(old, max[v]));
            sum[v] = _mm512_mul_ps(_mm512_loadu_ps(tile.sum.add(v * LANES)), factor[v]);
            _mm512_storeu_ps(tile.max.add(v * LANES), max[v]);
        }
    }
    for key in 0..tile.keys {
        for v in 0..2 {
            // SAFETY: a vector of the tile.
            unsafe {
                let score = _mm512_mul_ps(_mm512_loadu_ps(row(key, v)), scale);
                let weight = exp(_mm512_sub_ps(score, max[v]));
                _mm512_storeu_ps(row(key, v), weight);
                sum[v] = _mm512_add_ps(sum[v], weight);
            }
        }
    }
    for v in 0..2 {
        // SAFETY: one lane for each query.
        unsafe { _mm512_storeu_ps(tile.sum.add(v * LANES), sum[v]) };
    }
    for at in 0..tile.result_rows {
        for v in 0..2 {
            let result = tile.results.wrapping_add(at * WIDTH + v * LANES);
            // SAFETY: a vector of the results.
            unsafe { _mm512_storeu_ps(result, _mm512_mul_ps(_mm512_loadu_ps(result), factor[v])) };
        }
    }
}

/// # Safety
/// As [`super::weigh::Weigh::finish`] with panels of 32.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn finish(finish: &Finish) {
    for v in 0..2 {
        let queries = finish.queries.saturating_sub(v * LANES).min(LANES);
        // SAFETY: one lane for each query of the panel.
        let sum = unsafe { _mm512_loadu_ps(finish.sum.add(v * LANES)) };
        let inverse = _mm512_div_ps(_mm512_set1_ps(1.0), sum);
        for at in (0..finish.result_rows).step_by(LANES) {
            let count = LANES.min(finish.result_rows - at);
            let mut rows = [_mm512_setzero_ps(); LANES];
            for (i, row) in rows.iter_mut().enumerate().take(count) {
                // SAFETY: a vector of the results.
                let result = unsafe { _mm512_loadu_ps(finish.results.add((at + i) * WIDTH + v * LANES)) };
                *row = _mm512_mul_ps(result, inverse);
            }
            let held = ((1u32 << count) - 1) as u16;
            for (i, &row) in transpose(&rows).iter().enumerate().take(queries) {
                let out = finish.out.wrapping_offset((v * LANES + i) as isize * finish.out_row).wrapping_add(at);
                // SAFETY: a query of the output, as far as its row goes.
                unsafe { _mm512_mask_storeu_ps(out, held, row) };
            }
        }
    }
}

/// # Safety
/// The machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn largest(run: &[u32]) -> u32 {
    super::weigh::largest(run)
}
