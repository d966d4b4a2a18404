//! Sizes that programs are compiled for: a few, so that requests of any length find theirs.

use crate::choose::Choice;

/// Positions of a KV cache are multiples of this.
const POSITIONS: usize = 128;
/// Smallest number of tokens that a prefill computes.
pub(crate) const LEAST_PREFILL: usize = 16;
/// Fewest positions that attention reads.
pub(crate) const LEAST_CONTEXT: usize = 256;
/// Sizes of an engine's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepSizes {
    /// Rows of the KV cache.
    pub(crate) rows: usize,
    /// Tokens of the longest sequence.
    pub(crate) max_length: usize,
    /// Most tokens of one prefill.
    pub(crate) chunk: usize,
}

impl StepSizes {
    /// Positions of a row: a prefill is filled up beyond its last token, a step with drafts may write more than it keeps, and the
    /// last positions take what nobody reads.
    pub(crate) fn positions(&self) -> usize {
        (self.max_length + self.chunk + 1).next_multiple_of(POSITIONS)
    }

    /// The sizes of prefills: powers of two.
    pub(crate) fn prefill(&self, tokens: usize) -> usize {
        tokens.next_power_of_two().max(LEAST_PREFILL).min(self.chunk)
    }

    /// Positions that attention reads, where the longest sequence has so many.
    pub(crate) fn context(&self, positions: usize) -> usize {
        positions.next_power_of_two().max(LEAST_CONTEXT).min(self.positions())
    }

    /// Rows that a decode step computes, where the last that is needed has this number.
    pub(crate) fn decode_rows(&self, last: usize) -> usize {
        (last + 1).next_power_of_two().min(self.rows)
    }

    /// Where rows that others read nothing of write so many tokens.
    pub(crate) fn unread(&self, tokens: usize) -> usize {
        self.positions().saturating_sub(tokens)
    }
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
