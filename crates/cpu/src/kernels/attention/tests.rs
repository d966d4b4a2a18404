//! Attention by tiles and by rows against sums in f64, on every path this machine has.

use tensor::DType;

use super::*;
use crate::kernels::Cores;
use crate::kernels::loops::ir::{Access, Binary, Compare, Fold, Inst, Lane, Loop, Mode, Reg, Unary, Write};
use crate::kernels::matmul::{Operand, Target};
use crate::kernels::pool::Pool;
use crate::memory::Packing;

fn machines() -> Vec<Machine> {
    let full = Machine::detect();
    let avx2 = Machine { amx: false, avx512: false, avx512_bf16: false, ..full };
    vec![full, avx2, Machine::portable()]
}

/// How the heads of an array lie in memory.
#[derive(Clone, Copy, Debug)]
enum Heads {
    Apart,
    /// `[rows, heads, width]`.
    Between,
}

#[derive(Clone, Debug)]
struct Case {
    batch: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    results: usize,
    scale: f32,
    /// A query sees keys from its own number less the first on, up to its own number plus the second.
    window: Option<(i64, i64)>,
    hiding: Hiding,
    outside: f32,
    heads: Heads,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Case {
    fn new(batch: usize, queries: usize, keys: usize, depth: usize, results: usize) -> Case {
        let numbers = |count: usize, seed: u32| {
            let mut state = seed.wrapping_mul(2_654_435_761) | 1;
            let mut next = move || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            (0..count).map(|_| next()).collect::<Vec<f32>>()
        };
        Case {
            batch,
            queries,
            keys,
            depth,
            results,
            scale: 0.5,
            window: None,
            hiding: Hiding::Replaced,
            outside: -1e9,
            heads: Heads::Apart,
            q: numbers(batch * queries * depth, 1),
            k: numbers(batch * keys * depth, 2),
            v: numbers(batch * keys * results, 3),
        }
    }

    fn strides(&self, rows: usize, width: usize) -> (usize, usize) {
        match self.heads {
            Heads::Apart => (rows * width, width),
            Heads::Between => (width, self.batch * width),
        }
    }

    fn at(&self, array: &[f32], rows: usize, width: usize, [b, row, col]: [usize; 3]) -> f64 {
        let (batch, stride) = self.strides(rows, width);
        f64::from(array[b * batch + row * stride + col])
    }

    fn sees(&self, query: usize, key: usize) -> bool {
        self.window.is_none_or(|(back, on)| {
            let (query, key) = (query as i64, key as i64);
            query - back <= key && key <= query + on
        })
    }

    fn seen(&self) -> Option<Vec<Range<u32>>> {
        let (back, on) = self.window?;
        let keys = self.keys as i64;
        let run = |query: i64| (query - back).clamp(0, keys) as u32..(query + on + 1).clamp(0, keys) as u32;
        Some((0..self.queries as i64).map(run).collect())
    }

    fn problems(&self) -> (MatMul, MatMul) {
        let operand = |rows: usize, width: usize| {
            let (batch, row) = self.strides(rows, width);
            Operand {
                dtype: DType::F32,
                packing: Packing::Bytes,
                row_stride: row as isize,
                col_stride: 1,
                batch_stride: batch as isize,
            }
        };
        let (lhs, keys) = (operand(self.queries, self.depth), operand(self.keys, self.depth));
        let rhs = Operand { row_stride: 1, col_stride: keys.row_stride, ..keys };
        let target = |rows: usize, width: usize| Target {
            dtype: DType::F32,
            row_stride: width as isize,
            batch_stride: (rows * width) as isize,
        };
        let out = target(self.queries, self.keys);
        let weights = Operand {
            dtype: DType::F32,
            packing: Packing::Bytes,
            row_stride: self.keys as isize,
            col_stride: 1,
            batch_stride: (self.queries * self.keys) as isize,
        };
        let scores = MatMul { batch: self.batch, m: self.queries, n: self.keys, k: self.depth, lhs, rhs, out };
        let values = MatMul {
            batch: self.batch,
            m: self.queries,
            n: self.results,
            k: self.keys,
            lhs: weights,
            rhs: operand(self.keys, self.results),
            out: target(self.queries, self.results),
        };
        (scores, values)
    }

    fn code(&self) -> Loop {
        let strides = vec![(self.queries * self.keys) as isize, self.keys as isize, 1];
        let access = Access { dtype: DType::F32, offset: 0, strides };
        let real = |value: f32| Inst::Const { lane: Lane::F32, bits: u64::from(value.to_bits()) };
        let whole = |value: i64| Inst::Const { lane: Lane::I32, bits: u64::from(value as i32 as u32) };
        let (back, on) = self.window.unwrap_or((1 << 20, 1 << 20));
        let insts = vec![
            Inst::Load(0),
            real(self.scale),
            Inst::Binary(Binary::Mul, Reg(0), Reg(1)),
            Inst::Index { lane: Lane::I32, dim: 1 },
            Inst::Index { lane: Lane::I32, dim: 2 },
            whole(back),
            Inst::Binary(Binary::Sub, Reg(3), Reg(5)),
            whole(on),
            Inst::Binary(Binary::Add, Reg(3), Reg(7)),
            Inst::Compare(Compare::Le, Reg(6), Reg(4)),
            Inst::Compare(Compare::Le, Reg(4), Reg(8)),
            Inst::Binary(Binary::And, Reg(9), Reg(10)),
            real(self.outside),
            real(0.0),
            Inst::Select(Reg(11), Reg(13), Reg(12)),
            match self.hiding {
                Hiding::Replaced => Inst::Select(Reg(11), Reg(2), Reg(12)),
                Hiding::Added => Inst::Binary(Binary::Add, Reg(2), Reg(14)),
            },
            Inst::Reduce(Fold::Max, Reg(15)),
            Inst::Binary(Binary::Sub, Reg(15), Reg(16)),
            Inst::Unary(Unary::Exp, Reg(17)),
            Inst::Reduce(Fold::Sum, Reg(18)),
            Inst::Binary(Binary::Div, Reg(18), Reg(19)),
        ];
        let write = Write { access: access.clone(), value: Reg(20), mode: Mode::Store };
        Loop { dims: vec![self.batch, self.queries, self.keys], reads: vec![access], insts, writes: vec![write] }
    }

    fn expected(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for b in 0..self.batch {
            for query in 0..self.queries {
                let score = |key: usize| {
                    let sees = self.sees(query, key);
                    if !sees && self.hiding == Hiding::Replaced {
                        return f64::from(self.outside);
                    }
                    let factor = |p: usize| {
                        self.at(&self.q, self.queries, self.depth, [b, query, p])
                            * self.at(&self.k, self.keys, self.depth, [b, key, p])
                    };
                    let score = (0..self.depth).map(factor).sum::<f64>() * f64::from(self.scale);
                    // A number that hides swallows the score it is added to.
                    if sees { score } else { f64::from(score as f32 + self.outside) }
                };
                let scores: Vec<f64> = (0..self.keys).map(score).collect();
                let max = scores
                    .iter()
                    .fold(f64::NEG_INFINITY, |a, &b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) });
                let weights: Vec<f64> = scores.iter().map(|score| f64::from((score - max).exp() as f32)).collect();
                let total: f64 = weights.iter().sum();
                for c in 0..self.results {
                    let value = |key: usize| self.at(&self.v, self.keys, self.results, [b, key, c]);
                    out.push(weights.iter().enumerate().map(|(key, w)| w / total * value(key)).sum());
                }
            }
        }
        out
    }

    /// Runs it with and without tiles; `tiles` says whether they may be refused.
    fn check(&self, tiles: Tiling) {
        let expected = self.expected();
        for machine in machines() {
            let (scores, values) = self.problems();
            let softmax = Softmax {
                scale: self.scale,
                mask: self.seen().map(|seen| Mask { seen, hiding: self.hiding, outside: self.outside }),
            };
            let tiled = Tiled::new(&scores, &values, softmax, &machine);
            assert!(tiled.is_some() || tiles == Tiling::Perhaps, "{:?}", (self.queries, self.keys));
            for (tiled, threads) in [(tiled, 2), (None, 1)] {
                let cores = Cores { machine, pool: Pool::new(threads) };
                let ready = Ready::new(self.code(), &machine);
                let attention = Attention::new(scores.clone(), values.clone(), ready, vec![None], tiled, &machine);
                let mut out = vec![7.0f32; expected.len()];
                let arrays = Arrays {
                    left: self.q.as_ptr().cast(),
                    right: self.k.as_ptr().cast(),
                    values: self.v.as_ptr().cast(),
                    others: &[],
                    out: out.as_mut_ptr().cast(),
                };
                // SAFETY: the arrays have the sizes of the case.
                unsafe { attention.run(&arrays, &cores) };
                for (n, (&got, &wanted)) in out.iter().zip(&expected).enumerate() {
                    let is_near = (f64::from(got) - wanted).abs()
                        <= 2e-5 * f64::from(self.scale.max(1.0)) * (1.0 + wanted.abs())
                        || got.is_nan() && wanted.is_nan()
                        || f64::from(got) == wanted;
                    assert!(is_near, "element {n}: {got} for {wanted}, {machine:?}, {threads} threads");
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tiling {
    Surely,
    Perhaps,
}

#[test]
fn odd_sizes() {
    for (queries, keys, depth, results) in
        [(16, 16, 1, 1), (33, 40, 5, 7), (70, 300, 17, 33), (64, 700, 64, 64), (130, 130, 65, 12), (100, 450, 3, 100)]
    {
        for window in [None, Some((1 << 20, 0)), Some((20, 0)), Some((5, 9)), Some((1 << 20, 300))] {
            let case = Case { window, ..Case::new(3, queries, keys, depth, results) };
            case.check(Tiling::Perhaps);
            Case { hiding: Hiding::Added, heads: Heads::Between, ..case }.check(Tiling::Perhaps);
        }
    }
}

#[test]
fn hidden_rows_are_the_programs() {
    // The first queries see nothing at all: the weights of a row that is hidden are all the same, or NaN.
    for outside in [-1e9, f32::NEG_INFINITY] {
        let case = Case { window: Some((-3, 10)), outside, ..Case::new(2, 40, 40, 8, 8) };
        case.check(Tiling::Perhaps);
    }
}

#[test]
fn what_is_hidden_may_weigh() {
    // Scores near the number that hides: hidden keys have a part in the result.
    for outside in [-1.0, -60.0, -1e9] {
        let mut case = Case { window: Some((1 << 20, 0)), outside, scale: 30.0, ..Case::new(1, 50, 60, 4, 8) };
        case.check(Tiling::Surely);
        Case { hiding: Hiding::Added, ..case.clone() }.check(Tiling::Surely);
        case.q.iter_mut().for_each(|x| *x = 1e4 * x.abs());
        case.k.iter_mut().for_each(|x| *x = -1e4 * x.abs());
        case.check(Tiling::Surely);
    }
}

#[test]
fn what_is_no_number_stays() {
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38] {
        let seen =
            [(None, Hiding::Replaced), (Some((1 << 20, 0)), Hiding::Replaced), (Some((1 << 20, 0)), Hiding::Added)];
        for (window, hiding) in seen {
            let case = Case { window, hiding, ..Case::new(2, 40, 300, 8, 16) };
            for place in [0, 100, 8 * 290] {
                let mut values = case.clone();
                values.v[2 * place] = odd;
                values.check(Tiling::Surely);
                let mut keys = case.clone();
                keys.k[place] = odd;
                if odd != 3e38 {
                    keys.check(Tiling::Surely);
                }
            }
            let mut queries = case.clone();
            queries.q[9] = odd;
            if odd != 3e38 {
                queries.check(Tiling::Surely);
            }
        }
    }
}

#[test]
fn parts_tile_the_panels() {
    let case = Case { window: Some((1 << 20, 0)), ..Case::new(1, 500, 500, 4, 4) };
    let (scores, values) = case.problems();
    let softmax =
        Softmax { scale: 1.0, mask: case.seen().map(|seen| Mask { seen, hiding: Hiding::Replaced, outside: -1e9 }) };
    let tiled = Tiled::new(&scores, &values, softmax, &Machine::detect()).expect("a shape with tiles");
    for least in [0, 1, 2, 3, 7, 100] {
        let parts = tiled.parts(least);
        assert_eq!(parts.first().map(|part| part.start), Some(0));
        assert_eq!(parts.last().map(|part| part.end), Some(tiled.panels()));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
