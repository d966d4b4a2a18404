//! Sizes that programs are compiled for: a few, so that requests of any length find theirs.

use nn::layers::CacheStart;
use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::Tensor;

use crate::choose::Choice;

/// Tokens drafted at most: what a step writes beyond an answer must lie within the row, or its pages.
pub(crate) const MAX_DRAFT_TOKENS: usize = 15;
/// Positions of a KV cache are multiples of this.
const POSITIONS: usize = 128;
/// Smallest number of tokens that a prefill computes.
pub(crate) const LEAST_PREFILL: usize = 16;
/// Fewest positions that attention reads, where programs are for some numbers of them.
const LEAST_CONTEXT: usize = 256;

/// How sequences lie in the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CacheLayout {
    /// Each in a row of its own.
    Rows,
    /// In so many pages, of which each sequence has those that it needs.
    Pages { pages: usize, page_size: usize },
}

/// For how many positions that attention reads there are programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ContextSizes {
    /// For powers of two: what a program reads is gathered, or all of it is computed with.
    Doubled,
    /// For the longest sequence only: attention reads the pages that a sequence has, where they lie.
    Longest,
}

/// Sizes of an engine's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepSizes {
    /// Sequences at once.
    pub(crate) rows: usize,
    pub(crate) layout: CacheLayout,
    pub(crate) contexts: ContextSizes,
    /// Fewest sequences of a decode step that has more than one: a GPU takes as long for fewer.
    pub(crate) least_batch: usize,
    /// Tokens of the longest sequence.
    pub(crate) max_length: usize,
    /// Most tokens of one prefill.
    pub(crate) chunk: usize,
}

impl StepSizes {
    /// Most positions of a sequence. Of a row: a prefill is filled up beyond its last token, a step with drafts may write more than it
    /// keeps, and the last positions take what nobody reads. In pages only what drafts write comes on top.
    pub(crate) fn positions(&self) -> usize {
        match self.layout {
            CacheLayout::Rows => (self.max_length + self.chunk + 1).next_multiple_of(POSITIONS),
            CacheLayout::Pages { page_size, .. } => {
                (self.max_length + MAX_DRAFT_TOKENS + 1).next_multiple_of(page_size.max(1))
            }
        }
    }

    /// Rows of the KV cache, or its pages, and positions of each.
    pub(crate) fn cache(&self) -> (usize, usize) {
        match self.layout {
            CacheLayout::Rows => (self.rows, self.positions()),
            CacheLayout::Pages { pages, page_size } => (pages, page_size),
        }
    }

    /// Pages that the longest sequence needs; `None` without pages.
    pub(crate) fn pages_of_longest(&self) -> Option<usize> {
        match self.layout {
            CacheLayout::Rows => None,
            CacheLayout::Pages { page_size, .. } => Some(self.positions().div_ceil(page_size.max(1))),
        }
    }

    /// The same with another number of pages.
    pub(crate) fn with_pages(self, pages: usize) -> StepSizes {
        match self.layout {
            CacheLayout::Rows => self,
            CacheLayout::Pages { page_size, .. } => {
                StepSizes { layout: CacheLayout::Pages { pages, page_size }, ..self }
            }
        }
    }

    /// Pages that a program is told of each sequence, where it reads so many positions; `None` without pages.
    pub(crate) fn table(&self, context: usize) -> Option<usize> {
        match self.layout {
            CacheLayout::Rows => None,
            CacheLayout::Pages { page_size, .. } => Some(context.div_ceil(page_size.max(1))),
        }
    }

    /// Where the next `width` tokens of the first rows go: `filled` and `is_active` are of these, and so is the table of their pages.
    /// Rows that are not active are left as they are.
    #[track_caller]
    pub(crate) fn rows_start(
        &self,
        (filled, is_active): (&Tensor, &Tensor),
        (done, width): (usize, usize),
        table: Option<&Tensor>,
        context: usize,
    ) -> CacheStart {
        let number = |number: usize| Tensor::scalar(DType::I32, number as f64);
        match table {
            None => {
                // A place where nobody reads what they write.
                let unread = filled.full_like(self.positions().saturating_sub(done + width) as f64);
                CacheStart::Rows { filled: is_active.select(filled, &unread) + number(done), context }
            }
            Some(table) => CacheStart::Pages {
                filled: filled + &number(done),
                tokens: is_active.cast(DType::I32) * number(width),
                table: table.clone(),
            },
        }
    }

    /// Where the next tokens of one row go; of those that a prefill has, `tokens` are written.
    #[track_caller]
    pub(crate) fn row_start(
        &self,
        row: &Tensor,
        filled: &Tensor,
        tokens: &Tensor,
        table: Option<&Tensor>,
        context: usize,
    ) -> CacheStart {
        match table {
            None => CacheStart::Row { row: row.clone(), filled: filled.clone(), context },
            Some(table) => {
                CacheStart::Pages { filled: filled.expand(0), tokens: tokens.expand(0), table: table.clone() }
            }
        }
    }

    /// The sizes of prefills: powers of two.
    pub(crate) fn prefill(&self, tokens: usize) -> usize {
        tokens.next_power_of_two().max(LEAST_PREFILL).min(self.chunk)
    }

    /// The sizes of prefills that occur, the smallest first.
    pub(crate) fn prefills(&self) -> Vec<usize> {
        doubled(LEAST_PREFILL, self.prefill(self.max_length))
    }

    /// Positions that attention reads, where the longest sequence has so many.
    pub(crate) fn context(&self, positions: usize) -> usize {
        match self.contexts {
            ContextSizes::Doubled => self.history(positions),
            ContextSizes::Longest => self.positions(),
        }
    }

    /// The contexts that occur, the smallest first; steps write up to so many drafts.
    pub(crate) fn all_contexts(&self, drafts: usize) -> Vec<usize> {
        doubled(self.context(1), self.context(self.max_length + drafts))
    }

    /// Tokens that penalties look at, where the longest sequence has so many.
    pub(crate) fn history(&self, tokens: usize) -> usize {
        tokens.next_power_of_two().max(LEAST_CONTEXT).min(self.positions())
    }

    /// Places for rows that a decode step computes, where the last that is needed has this number.
    pub(crate) fn decode_rows(&self, last: usize) -> usize {
        match last {
            0 => 1,
            _ => (last + 1).next_power_of_two().max(self.least_batch).min(self.rows),
        }
    }

    /// The numbers of places that occur, the smallest first.
    pub(crate) fn all_decode_rows(&self) -> Vec<usize> {
        let several = doubled(self.decode_rows(1), self.rows);
        std::iter::once(1).chain(several.into_iter().filter(|&count| count > 1)).collect()
    }
}

/// A size and its doubles, up to the last one.
fn doubled(first: usize, last: usize) -> Vec<usize> {
    let next = |&size: &usize| (size < last).then(|| (size * 2).min(last));
    std::iter::successors(Some(first.max(1).min(last)), next).collect()
}

/// How the tokens of some rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChoiceShape {
    pub(crate) choice: Choice,
    /// Tokens that penalties look at; 0 without.
    pub(crate) history: usize,
    pub(crate) likeliest: usize,
    /// Tokens that a row likes more or less; 0 without.
    pub(crate) biases: usize,
    /// Whether rows may choose some tokens only.
    pub(crate) is_masked: bool,
}

impl ChoiceShape {
    /// The likeliest token of every row, and nothing else.
    pub(crate) const GREEDY: ChoiceShape =
        ChoiceShape { choice: Choice::Greedy, history: 0, likeliest: 0, biases: 0, is_masked: false };
}
