//! Which blocks of keys a block of queries sees, in whole or in part, as scalars of a kernel.

use super::{Attention, Causality, HIDDEN};
use crate::writer::{Val, Writer};

/// Bounds of the loops over blocks of keys: partly visible at the window's edge, wholly visible, partly visible at the diagonal.
pub(super) struct Rounds<'k> {
    pub(super) begin: Val<'k>,
    pub(super) whole_begin: Val<'k>,
    pub(super) whole_end: Val<'k>,
    pub(super) end: Val<'k>,
}

/// Position of the first key that stands beside the first query.
pub(super) fn offset(attention: &Attention) -> i32 {
    match attention.causality {
        Causality::Full => 0,
        Causality::Causal => (attention.kv_len - attention.q_len) as i32,
    }
}

/// Rounds over `count` blocks of `block` keys from `kv_begin` for `rows` queries whose first stands at `q_begin` (of keys).
pub(super) fn rounds<'k>(
    k: &'k Writer,
    attention: &Attention,
    (q_begin, rows): (Val<'k>, usize),
    (kv_begin, block, count): (Val<'k>, usize, usize),
) -> Rounds<'k> {
    let (block, count) = (block as i32, count as i32);
    let inside = |blocks: Val<'k>| blocks.max(0).min(count);
    if attention.causality == Causality::Full {
        let (begin, end) = (k.i32(0), k.i32(count));
        return Rounds { begin, whole_begin: begin, whole_end: end, end };
    }
    // Distances are made positive before division, which rounds toward zero.
    let to_first = q_begin - kv_begin;
    let last = to_first + (rows as i32 - 1);
    let end = inside((last + block).max(0) / block);
    let whole_end = inside((to_first + 1).max(0) / block);
    let (begin, whole_begin) = match attention.window {
        None => (k.i32(0), k.i32(0)),
        Some(window) => {
            let window = i32::try_from(window).unwrap_or(i32::MAX / 2);
            let begin = inside((to_first - (window - 1)).max(0) / block).min(end);
            let whole_begin = inside((last - (window - 1) + (block - 1)).max(0) / block);
            (begin, whole_begin.max(begin).min(end))
        }
    };
    Rounds { begin, whole_begin, whole_end: whole_end.max(whole_begin).min(end), end }
}

/// Scores (keys by queries) with what is not visible hidden. `ahead` is how far the first query stands after the first key.
pub(super) fn hide<'k>(
    k: &'k Writer,
    attention: &Attention,
    scores: Val<'k>,
    ahead: Val<'k>,
    same_segment: Option<Val<'k>>,
) -> Val<'k> {
    let mut visible = same_segment;
    let mut also = |more: Val<'k>| visible = Some(visible.map_or(more, |visible| visible & more));
    if attention.causality == Causality::Causal {
        // Key minus query, in the block's own positions.
        let apart = k.iota(scores.dims(), 0) - k.iota(scores.dims(), 1);
        also(apart.at_most(ahead));
        if let Some(window) = attention.window {
            also(apart.greater(ahead - i32::try_from(window).unwrap_or(i32::MAX / 2)));
        }
    }
    match visible {
        Some(visible) => visible.select(scores, HIDDEN),
        None => scores,
    }
}

/// The block of keys a step needs: itself, or the nearest one that is visible, so that nothing is fetched in vain.
pub(super) fn seen_block<'k>(
    _: &'k Writer,
    attention: &Attention,
    (row, rows): (Val<'k>, usize),
    (column, columns): (Val<'k>, usize),
) -> Val<'k> {
    if attention.causality == Causality::Full {
        return column;
    }
    let first = row * rows as i32 + offset(attention);
    let last_block = (first + (rows as i32 - 1)) / columns as i32;
    let seen = column.min(last_block);
    match attention.window {
        None => seen,
        Some(window) => {
            let window = i32::try_from(window).unwrap_or(i32::MAX / 2);
            seen.max((first - (window - 1)).max(0) / columns as i32)
        }
    }
}
