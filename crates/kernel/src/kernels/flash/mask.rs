//! The attention mask by blocks: which are masked in whole, in part or not at all, as scalars of a kernel; and masking within a block.

use super::{Causality, FlashAttention, FlashBlockSizes, MASK_VALUE, MaskKind, Segments};
use crate::ir::RefId;
use crate::writer::{Val, Writer};

/// Bounds of a loop over blocks: partly masked, unmasked, partly masked again.
pub(super) struct Iterations<'k> {
    begin: Val<'k>,
    whole_begin: Val<'k>,
    whole_end: Val<'k>,
    end: Val<'k>,
    /// Which of the partly masked stretches can have blocks at all.
    partial: Partial,
}

/// Stretches of partly masked blocks that exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partial {
    None,
    First,
    Last,
    Both,
}

/// Whether an edge of the mask may run through a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Edges {
    /// Nothing is masked.
    Outside,
    /// Something may be masked.
    Inside,
}

/// What a table says of a block of a mask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TableEntry {
    /// Some keys of some queries are masked.
    Partly = 0,
    /// None are.
    Unmasked = 1,
    /// All are.
    Masked = 2,
}

/// Entries for the blocks of a loop.
#[derive(Clone, Copy)]
pub(super) struct Table<'k> {
    entries: RefId,
    begin: Val<'k>,
    stride: i32,
}

impl<'k> Table<'k> {
    /// Entries of a sequence and head from a block of queries and of keys on, for a loop over blocks so far apart.
    pub(super) fn new(
        k: &'k Writer,
        (attention, blocks): (&FlashAttention, &FlashBlockSizes),
        entries: RefId,
        (batch, head): (Val<'k>, Val<'k>),
        (row, column, stride): (Val<'k>, Val<'k>, usize),
    ) -> Table<'k> {
        let (rows, columns) = (attention.q_len / blocks.q.max(1), attention.kv_len / blocks.kv.max(1));
        let mut of = k.i32(0);
        for (size, index) in attention.mask.map_or([(1, batch), (1, head)], |m| [(m.batch, batch), (m.heads, head)]) {
            if size > 1 {
                of = of * size as i32 + index;
            }
        }
        let begin = (of * rows as i32 + row) * columns as i32 + column;
        Table { entries, begin, stride: stride as i32 }
    }
}

/// The order of the axes of scores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Orientation {
    QueriesByKeys,
    KeysByQueries,
}

impl<'k> Iterations<'k> {
    /// Writes the loops; only blocks with edges inside are compared position by position. A table says which blocks a mask hides.
    pub(super) fn run(
        self,
        k: &'k Writer,
        attention: &FlashAttention,
        table: Option<Table<'k>>,
        iteration: impl Fn(Val<'k>, Edges),
    ) {
        let each = |from, to, edges: Edges| {
            k.for_each(from, to, &[], |n, _| {
                iteration(n, edges);
                Vec::new()
            });
        };
        if let Some(table) = table {
            k.for_each(self.begin, self.end, &[], |n, _| {
                let entry = k.load_scalar(table.entries, &[table.begin + n * table.stride]);
                k.when(entry.differs(TableEntry::Masked as i32), || {
                    if attention.segments == Segments::Packed {
                        return iteration(n, Edges::Inside);
                    }
                    let mut is_whole = entry.equals(TableEntry::Unmasked as i32);
                    if matches!(self.partial, Partial::First | Partial::Both) {
                        is_whole = is_whole & n.at_least(self.whole_begin);
                    }
                    if matches!(self.partial, Partial::Last | Partial::Both) {
                        is_whole = is_whole & n.less(self.whole_end);
                    }
                    k.when(is_whole, || iteration(n, Edges::Outside));
                    k.when(!is_whole, || iteration(n, Edges::Inside));
                });
                Vec::new()
            });
            return;
        }
        let keeps = attention.mask.is_some_and(|mask| mask.kind() == MaskKind::Keeps);
        if attention.segments == Segments::Packed || keeps {
            return each(self.begin, self.end, Edges::Inside);
        }
        if matches!(self.partial, Partial::First | Partial::Both) {
            each(self.begin, self.whole_begin, Edges::Inside);
        }
        each(self.whole_begin, self.whole_end, Edges::Outside);
        if matches!(self.partial, Partial::Last | Partial::Both) {
            each(self.whole_end, self.end, Edges::Inside);
        }
    }
}

/// Position (of keys) of the first query.
pub(super) fn offset(attention: &FlashAttention) -> i32 {
    match attention.causality {
        Causality::Full => 0,
        Causality::Causal => (attention.kv_len - attention.q_len) as i32,
    }
}

/// A window that leaves room for sums of positions.
fn window(attention: &FlashAttention) -> Option<i32> {
    attention.window.map(|window| i32::try_from(window).unwrap_or(i32::MAX).min(i32::MAX / 4))
}

/// Iterations over `count` blocks of `block` keys from `kv_begin`, for `rows` queries from position `q_begin`.
pub(super) fn key_iterations<'k>(
    k: &'k Writer,
    attention: &FlashAttention,
    (q_begin, rows): (Val<'k>, usize),
    (kv_begin, block, count): (Val<'k>, usize, usize),
) -> Iterations<'k> {
    let (block, count) = (block as i32, count as i32);
    if attention.causality == Causality::Full {
        return all(k, count);
    }
    // Numerators are made positive before division, which rounds toward zero.
    let blocks = |keys: Val<'k>| (keys.max(0) / block).min(count);
    let first = q_begin - kv_begin;
    let last = first + (rows as i32 - 1);
    let end = blocks(last + block);
    let (begin, whole_begin, partial) = match window(attention) {
        None => (k.i32(0), k.i32(0), Partial::Last),
        Some(window) => (blocks(first - (window - 1)), blocks(last - (window - 1) + (block - 1)), Partial::Both),
    };
    ordered([begin, whole_begin, blocks(first + 1), end], partial)
}

/// Iterations over `count` blocks of `block` queries, the first at position [`offset`], for `rows` keys from `kv_begin`.
pub(super) fn query_iterations<'k>(
    k: &'k Writer,
    attention: &FlashAttention,
    (kv_begin, rows): (Val<'k>, usize),
    (block, count): (usize, usize),
) -> Iterations<'k> {
    let (block, count) = (block as i32, count as i32);
    if attention.causality == Causality::Full {
        return all(k, count);
    }
    let blocks = |queries: Val<'k>| (queries.max(0) / block).min(count);
    let first = kv_begin - offset(attention);
    let last = first + (rows as i32 - 1);
    let (whole_end, end, partial) = match window(attention) {
        None => (k.i32(count), k.i32(count), Partial::First),
        Some(window) => (blocks(first + window), blocks(last + window + (block - 1)), Partial::Both),
    };
    ordered([blocks(first), blocks(last + (block - 1)), whole_end, end], partial)
}

fn all(k: &Writer, count: i32) -> Iterations<'_> {
    let (begin, end) = (k.i32(0), k.i32(count));
    Iterations { begin, whole_begin: begin, whole_end: end, end, partial: Partial::None }
}

fn ordered([begin, whole_begin, whole_end, end]: [Val<'_>; 4], partial: Partial) -> Iterations<'_> {
    let begin = begin.min(end);
    let whole_begin = whole_begin.max(begin).min(end);
    Iterations { begin, whole_begin, whole_end: whole_end.max(whole_begin).min(end), end, partial }
}

/// Masked scores. `ahead` is how far the block's first query is after its first key; `conditions` are what else is to hold.
pub(super) fn masked<'k>(
    k: &'k Writer,
    attention: &FlashAttention,
    (scores, orientation): (Val<'k>, Orientation),
    ahead: Val<'k>,
    conditions: [Option<Val<'k>>; 2],
) -> Val<'k> {
    let mut mask = None;
    let mut also = |more: Val<'k>| mask = Some(mask.map_or(more, |mask: Val<'k>| mask & more));
    conditions.into_iter().flatten().for_each(&mut also);
    if attention.causality == Causality::Causal {
        let (keys, queries) = match orientation {
            Orientation::QueriesByKeys => (1, 0),
            Orientation::KeysByQueries => (0, 1),
        };
        // Key minus query, counted within the block.
        let apart = k.iota(scores.dims(), keys) - k.iota(scores.dims(), queries);
        also(apart.at_most(ahead));
        if let Some(window) = window(attention) {
            also(apart.greater(ahead - window));
        }
    }
    match mask {
        Some(mask) => mask.select(scores, MASK_VALUE),
        None => scores,
    }
}

/// The block of keys a step needs: itself, or the nearest one that is not masked, so that nothing is fetched in vain.
pub(super) fn unmasked_block<'k>(
    attention: &FlashAttention,
    (row, rows): (Val<'k>, usize),
    (column, columns): (Val<'k>, usize),
) -> Val<'k> {
    if attention.causality == Causality::Full {
        return column;
    }
    let first = row * rows as i32 + offset(attention);
    let unmasked = column.min((first + (rows as i32 - 1)) / columns as i32);
    match window(attention) {
        None => unmasked,
        Some(window) => unmasked.max((first - (window - 1)).max(0) / columns as i32),
    }
}
