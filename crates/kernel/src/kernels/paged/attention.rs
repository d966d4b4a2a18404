//! The kernel: one walk over the pages of a sequence with an online softmax, several pages at a time, for all their heads at once.

use chips::Generation;
use tensor::DType;

use super::PagedAttention;
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedRhs};
use crate::ir::RefId;
use crate::kernel::{AxisId, CostEstimate, Kernel, Semantics};
use crate::kernels::flash::MASK_VALUE;
use crate::writer::{Val, Writer};

/// Lanes of a vector register.
const LANES: usize = 128;

/// The kernel. Operands: the layer `i32 [1]`, the table of pages `i32 [sequences * table]`, positions filled before the queries and
/// tokens that have queries, both `i32 [sequences]`, queries, keys, values. Result: like the queries; zeros where a sequence has no
/// tokens, and anything for queries beyond its tokens.
pub fn attention(attention: &PagedAttention, block: usize, generation: Generation) -> Result<Kernel, Error> {
    attention.check(block)?;
    let a = attention;
    let (heads, depth, page) = (a.kv_heads, a.depth, a.page_size);
    let mut kernel = KernelBuilder::new("paged_attention", generation);
    let sequences = kernel.grid(a.sequences, Semantics::Parallel);
    let blocks = kernel.grid(a.queries / block, Semantics::Parallel);
    let at_once = a.pages_at_once(block, generation);
    let count = a.table.div_ceil(at_once);
    let steps = kernel.grid(count, Semantics::Arbitrary);
    let layer = kernel.prefetch("layer", [1]);
    let table = kernel.prefetch("table of pages", [a.sequences * a.table]);
    let filled = kernel.prefetch("positions filled", [a.sequences]);
    let tokens = kernel.prefetch("tokens", [a.sequences]);
    let place = Place { a: a.clone(), block, at_once, sequences, blocks, steps, filled, tokens };
    let q_block = [1, heads, block, depth];
    let q = kernel.input("queries", a.q_spec(), q_block, |m| {
        vec![m.program_id(sequences), m.i32(0), m.program_id(blocks), m.i32(0)]
    });
    let mut kv = |name: &str| -> Vec<RefId> {
        let first = kernel.input(name, a.kv_spec(), [1, 1, heads, page, depth], |m| place.page(m, 0, table, layer));
        let others = (1..at_once).map(|n| kernel.input_again(name, first, |m| place.page(m, n, table, layer)));
        std::iter::once(first).chain(others).collect()
    };
    let (keys, values) = (kv("keys"), kv("values"));
    let out = kernel.output("attention", a.q_spec(), q_block, |m| {
        vec![m.program_id(sequences), m.i32(0), m.program_id(blocks), m.i32(0)]
    });
    let maxima = kernel.scratch("maxima", DType::F32, [heads, block, LANES]);
    let sums = kernel.scratch("sums", DType::F32, [heads, block, LANES]);
    let sum = kernel.scratch("accumulator", DType::F32, [heads, block, depth]);
    let pairs = (a.sequences * heads * a.queries) as u64 * (a.table * page) as u64;
    kernel.cost(CostEstimate {
        flops: pairs.saturating_mul(4 * depth as u64),
        transcendentals: pairs,
        // Each block of queries reads the pages.
        bytes_accessed: 2 * a.q_spec().bytes()
            + 2 * (a.sequences * (a.queries / block) * a.table) as u64 * page_bytes(a),
    });
    // Powers of two: the logarithm's base costs nothing together with the scale. A cap needs the scores themselves.
    let factor = std::f32::consts::LOG2_E * if a.soft_cap.is_some() { 1.0 } else { a.scale };
    kernel.body(|k| {
        let step = k.program_id(steps);
        let of_head = |head: usize| Head { k, heads, head };
        k.when(step.equals(0), || {
            for head in (0..heads).map(of_head) {
                head.store(maxima, k.full(DType::F32, [block, LANES], MASK_VALUE));
                head.store(sums, k.zeros(DType::F32, [block, LANES]));
                head.store(sum, k.zeros(DType::F32, [block, depth]));
            }
        });
        let (first, last) = place.pages(k);
        let begin = step * at_once as i32;
        k.when(place.has_queries(k) & (begin + (at_once as i32 - 1)).at_least(first) & begin.at_most(last), || {
            let visible: Vec<Val<'_>> = (0..at_once).map(|n| place.visible(k, n)).collect();
            for head in (0..heads).map(of_head) {
                let query = head.load(q, [block, depth]);
                let scores = keys.iter().zip(&visible).map(|(&key, visible)| {
                    let scores = k.matmul(query, head.load(key, [page, depth]), TransposedRhs);
                    let scores = match a.soft_cap {
                        Some(cap) => (scores * (a.scale / cap)).tanh() * cap,
                        None => scores,
                    };
                    visible.select(scores, MASK_VALUE)
                });
                let scores: Vec<Val<'_>> = scores.collect();
                // Across lanes only once for all pages.
                let highest = scores.iter().copied().reduce(|a, b| a.max(b)).map(|all| all.maximum(1));
                let before = head.load(maxima, [block, LANES]);
                let now = highest.map_or(before, |highest| before.max(highest));
                let shrink = ((before - now) * factor).exp2();
                let wide = now.repeat(page / LANES);
                let weights: Vec<Val<'_>> = scores.iter().map(|&scores| ((scores - wide) * factor).exp2()).collect();
                head.store(maxima, now);
                let of_keys = weights.iter().copied().reduce(|a, b| a + b).map(|all| all.sum(1));
                let sums_before = head.load(sums, [block, LANES]) * shrink;
                head.store(sums, of_keys.map_or(sums_before, |more| sums_before + more));
                let weighted = weights
                    .iter()
                    .zip(&values)
                    .map(|(weights, &value)| k.matmul(weights.cast(a.dtype), head.load(value, [page, depth]), Plain));
                let kept = head.load(sum, [block, depth]) * fitted(shrink, depth);
                let weighted = weighted.reduce(|a, b| a + b);
                head.store(sum, weighted.map_or(kept, |weighted| kept + weighted));
            }
        });
        k.when(step.equals(count as i32 - 1), || {
            for head in (0..heads).map(of_head) {
                // A sequence without tokens saw nothing.
                let sees = head.load(maxima, [block, LANES]).greater(MASK_VALUE / 2.0);
                let inverse = k.full(DType::F32, [block, LANES], 1.0) / head.load(sums, [block, LANES]);
                let result = head.load(sum, [block, depth]) * fitted(sees.select(inverse, 0.0), depth);
                head.store(out, result.cast(a.dtype));
            }
        });
    })
}

/// The parts of blocks and scratch that are of one head: a matrix each. Without several heads there is no axis of heads.
struct Head<'k> {
    k: &'k Writer,
    heads: usize,
    head: usize,
}

impl<'k> Head<'k> {
    fn at(&self) -> Vec<Val<'k>> {
        let zero = || self.k.i32(0);
        if self.heads == 1 { vec![zero(), zero()] } else { vec![self.k.i32(self.head as i32), zero(), zero()] }
    }

    fn load(&self, from: RefId, [rows, columns]: [usize; 2]) -> Val<'k> {
        match self.heads {
            1 => self.k.load_part(from, &self.at(), [rows, columns]),
            _ => self.k.load_part(from, &self.at(), [1, rows, columns]).reshape([rows, columns]),
        }
    }

    fn store(&self, to: RefId, value: Val<'k>) {
        let lifted = match (self.heads, &value.dims()[..]) {
            (1, _) => value,
            (_, dims) => value.reshape([&[1], dims].concat()),
        };
        self.k.store_part(to, &self.at(), lifted);
    }
}

/// Bytes of the keys or values of a page.
fn page_bytes(a: &PagedAttention) -> u64 {
    (a.kv_heads * a.page_size * a.depth * a.dtype.size_bytes()) as u64
}

/// A number for each row, over as many lanes as a row of the result has.
fn fitted(rows: Val<'_>, depth: usize) -> Val<'_> {
    if depth.is_multiple_of(LANES) { rows.repeat(depth / LANES) } else { rows.maximum(1) }
}

/// Where a step is.
struct Place {
    a: PagedAttention,
    block: usize,
    /// Pages of a step.
    at_once: usize,
    sequences: AxisId,
    blocks: AxisId,
    steps: AxisId,
    filled: RefId,
    tokens: RefId,
}

impl Place {
    /// The first of the block's queries.
    fn begin<'k>(&self, k: &'k Writer) -> Val<'k> {
        k.program_id(self.blocks) * self.block as i32
    }

    fn filled<'k>(&self, k: &'k Writer) -> Val<'k> {
        k.load_scalar(self.filled, &[k.program_id(self.sequences)])
    }

    /// Queries of the sequence.
    fn queries<'k>(&self, k: &'k Writer) -> Val<'k> {
        k.load_scalar(self.tokens, &[k.program_id(self.sequences)]) * self.a.group as i32
    }

    /// Whether the block has queries of the sequence.
    fn has_queries<'k>(&self, k: &'k Writer) -> Val<'k> {
        self.begin(k).less(self.queries(k))
    }

    /// The first and the last page, by their places in the table, that the block's queries see.
    fn pages<'k>(&self, k: &'k Writer) -> (Val<'k>, Val<'k>) {
        let (group, page) = (self.a.group as i32, self.a.page_size as i32);
        let (begin, filled) = (self.begin(k), self.filled(k));
        let end = (begin + self.block as i32).min(self.queries(k));
        let last = ((filled + (end - 1).max(0) / group) / page).min(self.a.table as i32 - 1);
        let first = match window(&self.a) {
            None => k.i32(0),
            Some(window) => ((filled + begin / group - (window - 1)).max(0) / page).min(last),
        };
        (first, last)
    }

    /// Where a page of a step lies. Outside of what the queries see it stays the one it was, and is not fetched again.
    fn page<'k>(&self, k: &'k Writer, n: usize, table: RefId, layer: RefId) -> Vec<Val<'k>> {
        let (first, last) = self.pages(k);
        let place = (k.program_id(self.steps) * self.at_once as i32 + n as i32).max(first).min(last);
        let number = k.load_scalar(table, &[k.program_id(self.sequences) * self.a.table as i32 + place]);
        vec![k.load_scalar(layer, &[k.i32(0)]), number, k.i32(0), k.i32(0), k.i32(0)]
    }

    /// Which keys of a page of the step the queries of the block see. Query `n` is of token `n / group`: key `j` after the first token
    /// is not after it if `j * group <= n`.
    fn visible<'k>(&self, k: &'k Writer, n: usize) -> Val<'k> {
        let dims = [self.block, self.a.page_size];
        let group = self.a.group as i32;
        let query = k.iota(dims, 0) + self.begin(k);
        let page = k.program_id(self.steps) * self.at_once as i32 + n as i32;
        let first = page * self.a.page_size as i32 - self.filled(k);
        let key = (k.iota(dims, 1) + first) * group;
        let mask = key.at_most(query);
        match window(&self.a) {
            None => mask,
            Some(window) => mask & (key + window * group).greater(query),
        }
    }
}

/// A window that leaves room for sums of positions.
fn window(a: &PagedAttention) -> Option<i32> {
    let longest = a.table * a.page_size + a.queries;
    a.window.map(|window| window.min(longest) as i32)
}
