//! Attention to a paged KV cache on NVIDIA GPUs: each program has some queries of one KV head of one sequence, and reads the sequence's
//! pages where they lie. Where sequences are few, several programs share one's keys, and a second kernel joins what they found.

use std::f32::consts::LOG2_E;

use hlo::{Func, FuncBuilder, Visibility};
use tensor::{DType, Spec};

use super::triton::{Element, Launch, Program, Tile};
use crate::call::tensor_type;
use crate::composites::PagedAttributes;
use crate::error::Error;
use crate::kernels::Request;
use crate::kernels::flash::MASK_VALUE;

const KERNEL: &str = "paged attention on a GPU";
/// Rows of the smallest tile of a matmul.
const TILE: usize = 16;
/// Most queries of one program.
const MOST_QUERIES: usize = 64;
/// Bytes of a block of keys.
const BLOCK_BYTES: usize = 16 << 10;
/// Most keys of a block.
const MOST_KEYS: usize = 64;
/// Programs that keep a GPU busy.
const PROGRAMS: usize = 128;
/// Fewest blocks of keys of a program where several share a sequence's.
const LEAST_BLOCKS: usize = 8;
/// Heads larger than this do not fit into registers.
const LARGEST_HEAD: usize = 256;

/// One call of attention, and how it is cut into programs.
struct Paged {
    sequences: usize,
    kv_heads: usize,
    /// Queries of a KV head.
    rows: usize,
    head: usize,
    /// The next power of two.
    padded_head: usize,
    pages: usize,
    page_size: usize,
    /// Pages that the table has for each sequence.
    table: usize,
    dtype: DType,
    element: Element,
    has_sinks: bool,
    attributes: PagedAttributes,
    /// Queries of a program.
    queries: usize,
    /// Keys of a block.
    keys: usize,
    /// Programs that share the keys of a sequence.
    splits: usize,
}

impl Paged {
    fn read(request: &Request<'_>) -> Result<Paged, Error> {
        let refused = |message: String| Err(Error::Shape { kernel: KERNEL, message });
        let [entries] = request.dims(KERNEL, 1)?;
        let [sequences, kv_heads, rows, head] = request.dims(KERNEL, 4)?;
        let [_, pages, _, page_size, _] = request.dims(KERNEL, 5)?;
        let dtype = request.operands.get(4).map_or(DType::F32, |spec| spec.dtype);
        let Some(element) = Element::of(dtype).filter(|_| matches!(dtype, DType::BF16 | DType::F16 | DType::F32))
        else {
            return refused(format!("it has no {dtype}"));
        };
        if [sequences, kv_heads, rows, head, pages, entries].contains(&0) {
            return refused("a size is 0".into());
        }
        if head > LARGEST_HEAD || page_size < TILE || !page_size.is_power_of_two() {
            return refused(format!("heads of {head} or pages of {page_size}"));
        }
        let of = |operand: usize| request.operands.get(operand);
        let cache = [of(5), of(6)];
        let is_plain =
            |spec: Option<&Spec>| spec.is_some_and(|spec| spec.dtype == dtype && spec.dims.last() == Some(&head));
        if !cache.into_iter().all(is_plain)
            || request.operands.len() > 8
            || of(7).is_some_and(|sinks| sinks.rank() != 2)
        {
            return refused("codes with scales, or values in their keys".into());
        }
        let attributes = PagedAttributes::of(request.attributes);
        if attributes.window == Some(0) || attributes.chunk == Some(0) || rows % attributes.group != 0 {
            return refused("windows or chunks of nothing, or groups that do not divide queries".into());
        }
        let table = entries / sequences;
        let padded_head = head.next_power_of_two().max(TILE);
        let queries = rows.next_power_of_two().clamp(TILE, MOST_QUERIES);
        let keys = (BLOCK_BYTES / (padded_head * dtype.size_bytes())).clamp(TILE, MOST_KEYS).min(page_size);
        let programs = sequences * kv_heads * rows.div_ceil(queries);
        let blocks = table * page_size / keys;
        let splits = PROGRAMS.div_ceil(programs).min(blocks / LEAST_BLOCKS).max(1);
        // The largest power of two: the second kernel has a tile of them.
        let splits = if splits.is_power_of_two() { splits } else { splits.next_power_of_two() / 2 };
        // Positions, places in results and in a page are numbers of 32 bits.
        let results = [kv_heads, splits, rows, head].iter().fold(sequences, |all, &size| all.saturating_mul(size));
        let largest = [table.saturating_mul(page_size), results, page_size.saturating_mul(head), pages];
        if largest.iter().any(|&size| i32::try_from(size).is_err()) {
            return refused("sizes beyond 32 bits".into());
        }
        Ok(Paged {
            sequences,
            kv_heads,
            rows,
            head,
            padded_head,
            pages,
            page_size,
            table,
            dtype,
            element,
            has_sinks: request.operands.len() > 7,
            attributes,
            queries,
            keys,
            splits,
        })
    }

    fn out(&self) -> Spec {
        Spec::new(self.dtype, [self.sequences, self.kv_heads, self.rows, self.head])
    }

    /// What programs found that share a sequence: sums of values, and the largest score and the sum of weights of each query.
    fn parts(&self) -> [Spec; 3] {
        let Paged { sequences, kv_heads, rows, head, splits, .. } = *self;
        let row = Spec::new(DType::F32, [sequences, kv_heads, splits, rows]);
        [Spec::new(DType::F32, [sequences, kv_heads, splits, rows, head]), row.clone(), row]
    }

    /// The kernel that reads the pages.
    fn attention(&self) -> Program {
        let p = &mut Program::new("paged_attention");
        let i32s: [Tile; 4] = std::array::from_fn(|_| p.argument(DType::I32));
        let [layer, table, filled, tokens] = i32s;
        let [query, keys, values]: [Tile; 3] = std::array::from_fn(|_| p.argument(self.dtype));
        let sinks = self.has_sinks.then(|| p.argument(DType::F32));
        let results = match self.splits {
            1 => vec![p.argument(self.dtype)],
            _ => (0..3).map(|_| p.argument(DType::F32)).collect(),
        };
        let [zero, one, rows, heads] = [0, 1, self.rows, self.kv_heads].map(|n| p.int(n));
        let [group, block, head, splits] = [self.attributes.group, self.keys, self.head, self.splits].map(|n| p.int(n));
        let [x, y, z] = [0, 1, 2].map(|axis| p.program_id(axis));
        let (sequence, split) = (p.div(&z, &splits), p.rem(&z, &splits));
        let at = p.offset(&filled, &sequence);
        let filled = p.load(&at);
        let at = p.offset(&tokens, &sequence);
        let tokens = p.load(&at);
        let layer = p.load(&layer);
        // The queries of this program, and where they stand.
        let width = p.int(self.queries);
        let first = p.mul(&x, &width);
        let range = p.range(self.queries);
        let row = p.add(&first, &range);
        let is_row = p.less(&row, &rows);
        let token = p.div(&row, &group);
        let stands = p.add(&filled, &token);
        let of_head = p.mul(&sequence, &heads);
        let of_head = p.add(&of_head, &y);
        let place = p.range(self.padded_head);
        let place = p.expand(&place, 0);
        let is_place = p.less(&place, &head);
        let at = p.mul(&of_head, &rows);
        let at = p.add(&at, &row);
        let at = p.mul(&at, &head);
        let at = p.expand(&at, 1);
        let at_rows = p.add(&at, &place);
        let is_row = p.expand(&is_row, 1);
        let is_in = p.and(&is_row, &is_place);
        let at = p.offset(&query, &at_rows);
        let query = p.load_where(&at, &is_in);
        // Positions that some of them see: from the first query's window to the last query's place.
        let first_token = p.div(&first, &group);
        let first_stands = p.add(&filled, &first_token);
        let last = p.add(&first, &width);
        let last = p.min(&last, &rows);
        let last = p.sub(&last, &one);
        let last = p.div(&last, &group);
        let last = p.add(&last, &one);
        let last = p.min(&last, &tokens);
        let end = p.add(&filled, &last);
        let room = p.int(self.table * self.page_size);
        let end = p.min(&end, &room);
        let is_there = p.less(&zero, &tokens);
        let end = p.select(&is_there, &end, &zero);
        let mut begin = zero.clone();
        if let Some(window) = self.attributes.window {
            let before = p.int(window - 1);
            let from = p.sub(&first_stands, &before);
            begin = p.max(&zero, &from);
        }
        if let Some(chunk) = self.attributes.chunk {
            let size = p.int(chunk);
            let number = p.div(&first_stands, &size);
            begin = p.mul(&number, &size);
        }
        let mut from = p.div(&begin, &block);
        let less = p.sub(&block, &one);
        let to = p.add(&end, &less);
        let mut to = p.div(&to, &block);
        if self.splits > 1 {
            let count = p.sub(&to, &from);
            let count = p.max(&count, &zero);
            let less = p.sub(&splits, &one);
            let each = p.add(&count, &less);
            let each = p.div(&each, &splits);
            let skipped = p.mul(&split, &each);
            from = p.add(&from, &skipped);
            let until = p.add(&from, &each);
            to = p.min(&to, &until);
        }
        // A sink is a score that was there before all keys; the first of several programs has it.
        let mut top = p.filled(MASK_VALUE, &[self.queries]);
        let mut sum = p.filled(0.0, &[self.queries]);
        if let Some(sinks) = &sinks {
            let member = p.rem(&row, &group);
            let at = p.mul(&y, &group);
            let at = p.add(&at, &member);
            let at = p.offset(sinks, &at);
            let sink = p.load(&at);
            let log2_e = p.float(LOG2_E);
            let sink = p.mul(&sink, &log2_e);
            let is_first = p.equal(&split, &zero);
            top = p.select(&is_first, &sink, &top);
            let whole = p.float(1.0);
            sum = p.select(&is_first, &whole, &sum);
        }
        let out = p.filled(0.0, &[self.queries, self.padded_head]);
        let range = p.range(self.keys);
        let stands = p.expand(&stands, 1);
        let in_block = p.expand(&range, 1);
        let in_block = p.mul(&in_block, &head);
        let in_block = p.add(&in_block, &place);
        let of_table = p.int(self.table);
        let of_table = p.mul(&sequence, &of_table);
        let [pages, page_size] = [self.pages, self.page_size].map(|n| p.int(n));
        let last_page = p.sub(&pages, &one);
        let [out, top, sum] = p.repeat(&from, &to, [out, top, sum], |p, number, [out, top, sum]| {
            let position = p.mul(number, &block);
            let entry = p.div(&position, &page_size);
            let entry = p.add(&of_table, &entry);
            let at = p.offset(&table, &entry);
            let page = p.load(&at);
            let page = p.max(&page, &zero);
            let page = p.min(&page, &last_page);
            let within = p.rem(&position, &page_size);
            // Numbers of the whole cache are more than 32 bits have.
            let [layer, pages, page, heads, y, page_size, within, head] =
                [&layer, &pages, &page, &heads, &y, &page_size, &within, &head].map(|n| p.wide(n));
            let start = p.mul(&layer, &pages);
            let start = p.add(&start, &page);
            let start = p.mul(&start, &heads);
            let start = p.add(&start, &y);
            let start = p.mul(&start, &page_size);
            let start = p.add(&start, &within);
            let start = p.mul(&start, &head);
            let at = p.offset(&keys, &start);
            let at = p.offset(&at, &in_block);
            let key = match self.padded_head == self.head {
                true => p.load(&at),
                false => p.load_where(&at, &is_place),
            };
            let key = p.transpose(&key);
            let zeros = p.filled(0.0, &[self.queries, self.keys]);
            let scores = p.dot(&query, &key, &zeros);
            let scores = self.scored(p, &scores);
            let seen = p.add(&position, &range);
            let is_written = p.less(&seen, &end);
            let is_written_row = p.expand(&is_written, 0);
            let seen = p.expand(&seen, 0);
            let visible = self.visible(p, &stands, &seen);
            let visible = p.and(&visible, &is_written_row);
            let hidden = p.float(MASK_VALUE);
            let scores = p.select(&visible, &scores, &hidden);
            let highest = p.largest(&scores, 1);
            let next = p.max(&top, &highest);
            let shrink = p.sub(&top, &next);
            let shrink = p.exp2(&shrink);
            let next_rows = p.expand(&next, 1);
            let weights = p.sub(&scores, &next_rows);
            let weights = p.exp2(&weights);
            let more = p.sum(&weights, 1);
            let sum = p.mul(&sum, &shrink);
            let sum = p.add(&sum, &more);
            let shrink = p.expand(&shrink, 1);
            let out = p.mul(&out, &shrink);
            let at = p.offset(&values, &start);
            let at = p.offset(&at, &in_block);
            // What nobody wrote yet may be NaN, which a weight of zero does not hide.
            let is_written = p.expand(&is_written, 1);
            let is_value = match self.padded_head == self.head {
                true => is_written,
                false => p.and(&is_written, &is_place),
            };
            let value = p.load_where(&at, &is_value);
            let weights = p.narrowed(&weights, self.element);
            [p.dot(&weights, &value, &out), next, sum]
        });
        self.store(p, &results, [&out, &top, &sum], [&at_rows, &is_in], [&of_head, &split, &row]);
        std::mem::replace(p, Program::new(""))
    }

    /// Scores in powers of two.
    fn scored(&self, p: &mut Program, scores: &Tile) -> Tile {
        let scale = self.attributes.scale;
        let Some(cap) = self.attributes.soft_cap else {
            let scale = p.float(scale * LOG2_E);
            return p.mul(scores, &scale);
        };
        // tanh(x) = 1 - 2 / (exp(2 x) + 1)
        let twice = p.float(2.0 * LOG2_E * scale / cap);
        let power = p.mul(scores, &twice);
        let power = p.exp2(&power);
        let one = p.float(1.0);
        let below = p.add(&power, &one);
        let two = p.float(2.0);
        let part = p.div(&two, &below);
        let tanh = p.sub(&one, &part);
        let cap = p.float(cap * LOG2_E);
        p.mul(&tanh, &cap)
    }

    fn visible(&self, p: &mut Program, stands: &Tile, seen: &Tile) -> Tile {
        let mut visible = p.less_equal(seen, stands);
        if let Some(window) = self.attributes.window {
            let window = p.int(window);
            let back = p.sub(stands, seen);
            let is_near = p.less(&back, &window);
            visible = p.and(&visible, &is_near);
        }
        if let Some(chunk) = self.attributes.chunk {
            let chunk = p.int(chunk);
            let (own, other) = (p.div(stands, &chunk), p.div(seen, &chunk));
            let is_same = p.equal(&own, &other);
            visible = p.and(&visible, &is_same);
        }
        visible
    }

    fn store(
        &self,
        p: &mut Program,
        results: &[Tile],
        [out, top, sum]: [&Tile; 3],
        [at_rows, is_in]: [&Tile; 2],
        [of_head, split, row]: [&Tile; 3],
    ) {
        match results {
            [result] => {
                let divided = self.divided(p, out, sum, 1);
                let divided = p.narrowed(&divided, self.element);
                let at = p.offset(result, at_rows);
                p.store_where(&at, &divided, is_in);
            }
            [outs, tops, sums] => {
                let [splits, rows, head] = [self.splits, self.rows, self.head].map(|n| p.int(n));
                let at = p.mul(of_head, &splits);
                let at = p.add(&at, split);
                let at = p.mul(&at, &rows);
                let at_row = p.add(&at, row);
                let is_row = p.less(row, &rows);
                for (result, value) in [(tops, top), (sums, sum)] {
                    let at = p.offset(result, &at_row);
                    p.store_where(&at, value, &is_row);
                }
                let place = p.range(self.padded_head);
                let place = p.expand(&place, 0);
                let at = p.mul(&at_row, &head);
                let at = p.expand(&at, 1);
                let at = p.add(&at, &place);
                let at = p.offset(outs, &at);
                p.store_where(&at, out, is_in);
            }
            _ => {}
        }
    }

    /// Sums of values by sums of weights; a query that saw nothing gives zeros.
    fn divided(&self, p: &mut Program, out: &Tile, sum: &Tile, axis: usize) -> Tile {
        let least = p.float(f32::MIN_POSITIVE);
        let sum = p.max(sum, &least);
        let sum = p.expand(&sum, axis);
        p.div(out, &sum)
    }

    /// The kernel that joins what programs found that share a sequence: one program for each query.
    fn joined(&self) -> Program {
        let p = &mut Program::new("paged_attention_join");
        let [outs, tops, sums]: [Tile; 3] = std::array::from_fn(|_| p.argument(DType::F32));
        let result = p.argument(self.dtype);
        let [x, y, z] = [0, 1, 2].map(|axis| p.program_id(axis));
        let [rows, heads, head, splits] = [self.rows, self.kv_heads, self.head, self.splits].map(|n| p.int(n));
        let of_head = p.mul(&z, &heads);
        let of_head = p.add(&of_head, &y);
        let split = p.range(self.splits);
        let at = p.mul(&of_head, &splits);
        let at = p.add(&at, &split);
        let at = p.mul(&at, &rows);
        let at = p.add(&at, &x);
        let [top, sum] = [&tops, &sums].map(|all| {
            let at = p.offset(all, &at);
            p.load(&at)
        });
        let highest = p.largest(&top, 0);
        let share = p.sub(&top, &highest);
        let share = p.exp2(&share);
        let sum = p.mul(&sum, &share);
        let sum = p.sum(&sum, 0);
        let place = p.range(self.padded_head);
        let is_place = p.less(&place, &head);
        let at = p.mul(&at, &head);
        let at = p.expand(&at, 1);
        let places = p.expand(&place, 0);
        let at = p.add(&at, &places);
        let at = p.offset(&outs, &at);
        let is_places = p.expand(&is_place, 0);
        let out = p.load_where(&at, &is_places);
        let share = p.expand(&share, 1);
        let out = p.mul(&out, &share);
        let out = p.sum(&out, 0);
        let least = p.float(f32::MIN_POSITIVE);
        let sum = p.max(&sum, &least);
        let out = p.div(&out, &sum);
        let out = p.narrowed(&out, self.element);
        let at = p.mul(&of_head, &rows);
        let at = p.add(&at, &x);
        let at = p.mul(&at, &head);
        let at = p.add(&at, &place);
        let at = p.offset(&result, &at);
        p.store_where(&at, &out, &is_place);
        std::mem::replace(p, Program::new(""))
    }
}

/// [`PAGED_ATTENTION`](crate::composites::PAGED_ATTENTION).
pub(super) fn attention(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let paged = Paged::read(request)?;
    let mut function = FuncBuilder::new(name);
    function.visibility(Visibility::Private);
    let operands: Vec<_> = request.operands.iter().map(|spec| function.arg(tensor_type(spec))).collect();
    let grid = [paged.rows.div_ceil(paged.queries), paged.kv_heads, paged.sequences * paged.splits];
    let launch = Launch { grid, warps: 4, stages: 3 };
    let program = paged.attention();
    let out = if paged.splits == 1 {
        let [out] = program.call(&mut function, launch, &operands, [paged.out()], &[])?;
        out
    } else {
        let parts = program.call(&mut function, launch, &operands, paged.parts(), &[])?;
        let launch = Launch { grid: [paged.rows, paged.kv_heads, paged.sequences], warps: 2, stages: 1 };
        let [out] = paged.joined().call(&mut function, launch, &parts, [paged.out()], &[])?;
        out
    };
    Ok(function.finish(&[out]))
}
