//! The kernel: one walk over the pages of a sequence with an online softmax, several pages at a time, for all their heads at once.

use chips::Generation;
use tensor::{DType, Spec};

use super::{AttentionSinks, PagedAttention};
use crate::builder::KernelBuilder;
use crate::cost::packed_bytes;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedRhs};
use crate::ir::RefId;
use crate::kernel::{AxisId, CostEstimate, Kernel, Semantics};
use crate::kernels::flash::MASK_VALUE;
use crate::writer::{Val, Writer};

/// Lanes of a vector register.
const LANES: usize = 128;

/// The kernel. Operands: the layer `i32 [1]`, the table of pages `i32 [sequences * table]`, positions filled before the queries and
/// tokens that have queries, both `i32 [sequences]`, queries, keys, values, attention sinks where there are any, scales of keys and of
/// values where they are codes. Result: like the queries, with the features of values; zeros where a sequence has no tokens, and anything
/// for queries beyond its tokens.
pub fn attention(attention: &PagedAttention, block: usize, generation: Generation) -> Result<Kernel, Error> {
    attention.check(block)?;
    let a = attention;
    let (heads, depth) = (a.kv_heads, a.depth);
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
    let q = kernel.input("queries", a.q_spec(), [1, heads, block, a.query_depth()], |m| {
        vec![m.program_id(sequences), m.i32(0), m.program_id(blocks), m.i32(0)]
    });
    let of_pages = |kernel: &mut KernelBuilder, name: &str, array: Spec| -> Vec<RefId> {
        let mut dims = array.dims.clone();
        dims[..2].fill(1);
        let rank = array.rank();
        let first = kernel.input(name, array, dims, |m| place.page(m, 0, [table, layer], rank));
        let others = (1..at_once).map(|n| kernel.input_again(name, first, |m| place.page(m, n, [table, layer], rank)));
        std::iter::once(first).chain(others).collect()
    };
    let keys = of_pages(&mut kernel, "keys", a.key_spec());
    let values = of_pages(&mut kernel, "values", a.value_spec());
    let sinks = (a.sinks == AttentionSinks::Present).then(|| {
        let sizes = [heads, a.group];
        kernel.input("attention sinks", Spec::new(DType::F32, sizes), sizes, |m| vec![m.i32(0), m.i32(0)])
    });
    let scales = a.has_scales().then(|| {
        let of_keys = of_pages(&mut kernel, "scales of keys", a.scale_spec());
        (of_keys, of_pages(&mut kernel, "scales of values", a.scale_spec()))
    });
    let out = kernel.output("attention", a.out_spec(), [1, heads, block, depth], |m| {
        vec![m.program_id(sequences), m.i32(0), m.program_id(blocks), m.i32(0)]
    });
    let maxima = kernel.scratch("maxima", DType::F32, [heads, block, LANES]);
    let sums = kernel.scratch("sums", DType::F32, [heads, block, LANES]);
    let sum = kernel.scratch("accumulator", DType::F32, [heads, block, depth]);
    kernel.cost(cost(a, block));
    // Powers of two: the logarithm's base costs nothing together with the scale. A cap needs the scores themselves.
    let score_scale = if a.soft_cap.is_some() { 1.0 } else { a.scale };
    let factor = std::f32::consts::LOG2_E * score_scale;
    kernel.body(|k| {
        let step = k.program_id(steps);
        let pages = Pages { k, a, q, keys: &keys, values: &values, scales: scales.as_ref() };
        let of_head = |head: usize| Head { k, heads, head };
        k.when(step.equals(0), || {
            for head in (0..heads).map(of_head) {
                // A sink is a score that was there before all keys.
                let first = match sinks {
                    None => k.full(DType::F32, [block, LANES], MASK_VALUE),
                    Some(sinks) => {
                        (place.of_group(k, head.row(sinks, a.group)) * score_scale.recip()).broadcast([block, LANES])
                    }
                };
                head.store(maxima, first);
                head.store(sums, k.full(DType::F32, [block, LANES], if sinks.is_some() { 1.0 } else { 0.0 }));
                head.store(sum, k.zeros(DType::F32, [block, depth]));
            }
        });
        let (first, last) = place.pages(k);
        let begin = step * at_once as i32;
        k.when(place.has_queries(k) & (begin + (at_once as i32 - 1)).at_least(first) & begin.at_most(last), || {
            let visible: Vec<Val<'_>> = (0..at_once).map(|n| place.visible(k, n)).collect();
            for head in (0..heads).map(of_head) {
                let scores = visible.iter().enumerate().map(|(n, visible)| {
                    let scores = pages.scores(&head, block, n);
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
                let wide = now.repeat(a.page_size / LANES);
                let weights: Vec<Val<'_>> = scores.iter().map(|&scores| ((scores - wide) * factor).exp2()).collect();
                head.store(maxima, now);
                let of_keys = weights.iter().copied().reduce(|a, b| a + b).map(|all| all.sum(1));
                let sums_before = head.load(sums, [block, LANES]) * shrink;
                head.store(sums, of_keys.map_or(sums_before, |more| sums_before + more));
                let weighted = weights.iter().enumerate().map(|(n, &weights)| pages.weighted(&head, weights, n));
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

/// Each block of queries reads the pages that it sees.
fn cost(a: &PagedAttention, block: usize) -> CostEstimate {
    let seen = a.seen_pages(block);
    let pairs = (a.sequences * a.kv_heads * a.queries) as u64 * (seen * a.page_size) as u64;
    let page_bytes: u64 = a.page_specs().iter().map(packed_bytes).sum();
    CostEstimate {
        flops: pairs.saturating_mul(2 * (a.query_depth() + a.depth) as u64),
        transcendentals: pairs,
        bytes_accessed: a.q_spec().bytes()
            + a.out_spec().bytes()
            + (a.sequences * (a.queries / block) * seen) as u64 * page_bytes,
    }
}

/// The pages of a step.
struct Pages<'k, 'a> {
    k: &'k Writer,
    a: &'a PagedAttention,
    q: RefId,
    keys: &'a [RefId],
    values: &'a [RefId],
    /// Of keys and of values, where they are codes.
    scales: Option<&'a (Vec<RefId>, Vec<RefId>)>,
}

impl<'k> Pages<'k, '_> {
    /// Scores of the block's queries with the keys of a page, as the matmul gives them.
    fn scores(&self, head: &Head<'k>, block: usize, n: usize) -> Val<'k> {
        let (page, depth) = (self.a.page_size, self.a.depth);
        let part = |first: usize, size: usize, from: RefId| {
            let query = head.load_at(self.q, first, [block, size]);
            self.k.matmul(query, head.load(from, [page, size]).cast(self.a.dtype), TransposedRhs)
        };
        let of_keys = |scores: Val<'k>| match self.scales {
            Some((of_keys, _)) => scores * head.row(of_keys[n], page),
            None => scores,
        };
        match self.a.rotary {
            None => of_keys(part(0, depth, self.keys[n])),
            Some(rotary) => {
                let of_value = part(0, depth, self.values[n]);
                let of_value = match self.scales {
                    Some((_, of_values)) => of_value * head.row(of_values[n], page),
                    None => of_value,
                };
                of_value + of_keys(part(depth, rotary, self.keys[n]))
            }
        }
    }

    /// Sums of the values of a page.
    fn weighted(&self, head: &Head<'k>, weights: Val<'k>, n: usize) -> Val<'k> {
        let (page, depth) = (self.a.page_size, self.a.depth);
        let weights = match self.scales {
            Some((_, of_values)) => weights * head.row(of_values[n], page),
            None => weights,
        };
        let values = head.load(self.values[n], [page, depth]).cast(self.a.dtype);
        self.k.matmul(weights.cast(self.a.dtype), values, Plain)
    }
}

/// The parts of blocks and scratch that are of one head: a matrix each. Without several heads there is no axis of heads.
struct Head<'k> {
    k: &'k Writer,
    heads: usize,
    head: usize,
}

impl<'k> Head<'k> {
    fn at(&self, column: usize) -> Vec<Val<'k>> {
        let (zero, column) = (self.k.i32(0), self.k.i32(column as i32));
        if self.heads == 1 { vec![zero, column] } else { vec![self.k.i32(self.head as i32), zero, column] }
    }

    fn load(&self, from: RefId, sizes: [usize; 2]) -> Val<'k> {
        self.load_at(from, 0, sizes)
    }

    /// From a column on.
    fn load_at(&self, from: RefId, column: usize, [rows, columns]: [usize; 2]) -> Val<'k> {
        match self.heads {
            1 => self.k.load_part(from, &self.at(column), [rows, columns]),
            _ => self.k.load_part(from, &self.at(column), [1, rows, columns]).reshape([rows, columns]),
        }
    }

    /// The row of the head, of a matrix with one for each head.
    fn row(&self, from: RefId, columns: usize) -> Val<'k> {
        self.k.load_part(from, &[self.k.i32(self.head as i32), self.k.i32(0)], [1, columns])
    }

    fn store(&self, to: RefId, value: Val<'k>) {
        let lifted = match (self.heads, &value.dims()[..]) {
            (1, _) => value,
            (_, dims) => value.reshape([&[1], dims].concat()),
        };
        self.k.store_part(to, &self.at(0), lifted);
    }
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
        let mut first = k.i32(0);
        if let Some(window) = within(self.a.window, &self.a) {
            first = ((filled + begin / group - (window - 1)).max(0) / page).min(last);
        }
        if within(self.a.chunk, &self.a).is_some() {
            first = first.max((self.chunk_start(k) / page).min(last));
        }
        (first, last)
    }

    /// Where the chunk begins that the block's first query is in.
    fn chunk_start<'k>(&self, k: &'k Writer) -> Val<'k> {
        let chunk = within(self.a.chunk, &self.a).unwrap_or(i32::MAX);
        (self.filled(k) + self.begin(k) / self.a.group as i32) / chunk * chunk
    }

    /// Of a row `[1, group]` with a number for each head of the group, those of the block's queries: `[block, 1]`.
    fn of_group<'k>(&self, k: &'k Writer, row: Val<'k>) -> Val<'k> {
        let (dims, group) = ([self.block, self.a.group], self.a.group as i32);
        let query = k.iota(dims, 0) + self.begin(k);
        let member = if self.a.group.is_power_of_two() { query & (group - 1) } else { query % group };
        let zeros = k.zeros(DType::F32, dims);
        member.equals(k.iota(dims, 1)).select(row.broadcast(dims), zeros).sum(1)
    }

    /// Where a page of a step lies, by the indices of an array of some axes. Outside of what the queries see it stays the one it was, and
    /// is not fetched again.
    fn page<'k>(&self, k: &'k Writer, n: usize, [table, layer]: [RefId; 2], rank: usize) -> Vec<Val<'k>> {
        let (first, last) = self.pages(k);
        let place = (k.program_id(self.steps) * self.at_once as i32 + n as i32).max(first).min(last);
        let number = k.load_scalar(table, &[k.program_id(self.sequences) * self.a.table as i32 + place]);
        let within = (2..rank).map(|_| k.i32(0));
        [k.load_scalar(layer, &[k.i32(0)]), number].into_iter().chain(within).collect()
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
        let mut mask = key.at_most(query);
        if let Some(window) = within(self.a.window, &self.a) {
            mask = mask & (key + window * group).greater(query);
        }
        if let Some(chunk) = within(self.a.chunk, &self.a) {
            // Queries from the start of a chunk on do not see what is before it.
            let start = (self.chunk_start(k) - self.filled(k)) * group;
            mask = mask & key.at_least(start);
            for n in 1..=self.a.chunk_ends(self.block) as i32 {
                let next = start + n * chunk * group;
                mask = mask & (query.less(next) | key.at_least(next));
            }
        }
        mask
    }
}

/// A window or chunk that leaves room for sums of positions.
fn within(size: Option<usize>, a: &PagedAttention) -> Option<i32> {
    let longest = a.table * a.page_size + a.queries;
    size.map(|size| size.min(longest) as i32)
}
