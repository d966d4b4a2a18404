//! Flash attention: scores are computed block by block and never written to HBM.

mod backward;
mod composite;
mod forward;
mod mask;

use chips::Generation;
use tensor::{DType, Spec};

pub use super::PassDirection;
use super::divisor;
use crate::error::Error;
use crate::writer::Val;
pub use backward::backward;
pub(super) use composite::{BACKWARD_MASK, FORWARD_MASK, backward_for, backward_plain, forward_for, forward_plain};
pub use composite::{decomposition, decomposition_of_gradient, mask_for};
pub use forward::forward;

/// Whether attention is causal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Causality {
    /// Every position.
    #[default]
    Full,
    /// Positions up to its own; the last query is at the last key.
    Causal,
}

/// Whether sequences are packed, with a segment id for each position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segments {
    /// One sequence.
    #[default]
    One,
    /// Segment ids are operands; attention does not cross segments.
    Packed,
}

/// An array that says which keys queries attend to, or that is added to the scores: `[batch, heads, queries, keys]`, where batch, heads
/// and, if it is added, queries may be 1, which is the same for all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashMask {
    /// `i8`: keys are masked where it is 0. `bf16` or `f32`: it is added to the scaled scores.
    pub dtype: DType,
    /// Sequences it tells apart.
    pub batch: usize,
    /// Heads of queries it tells apart.
    pub heads: usize,
    /// Queries it tells apart.
    pub queries: usize,
    /// The share of pairs in blocks that are not masked in whole, where that is known: what a call is said to cost.
    pub density: Option<f32>,
}

/// What a mask does to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskKind {
    /// It keeps some of them.
    Keeps,
    /// It is added to them, its own for each query.
    Added,
    /// It is added to them, the same for all queries.
    AddedByKey,
}

impl FlashMask {
    pub(super) fn kind(&self) -> MaskKind {
        match self.queries {
            _ if self.dtype == DType::I8 => MaskKind::Keeps,
            1 => MaskKind::AddedByKey,
            _ => MaskKind::Added,
        }
    }
}

/// Shapes and meaning of one attention.
///
/// Queries are `[batch, q_heads, q_len, depth]`, keys and values `[batch, kv_heads, kv_len, depth]`.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashAttention {
    /// Sequences.
    pub batch: usize,
    /// Heads of queries, a multiple of the KV heads (grouped-query attention, GQA).
    pub q_heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Queries.
    pub q_len: usize,
    /// Keys.
    pub kv_len: usize,
    /// Size of a head.
    pub depth: usize,
    /// Element type of queries, keys and values.
    pub dtype: DType,
    /// Scores are multiplied by it.
    pub scale: f32,
    /// Soft cap: a scaled score becomes `cap * tanh(score / cap)`, before masks.
    pub soft_cap: Option<f32>,
    /// Whether later positions are masked.
    pub causality: Causality,
    /// Sliding window: attention to so many positions, the own one included; `None`: all. Only with [`Causality::Causal`].
    pub window: Option<usize>,
    /// Whether sequences are packed.
    pub segments: Segments,
    /// A mask of its own, beside the others.
    pub mask: Option<FlashMask>,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashBlockSizes {
    /// Queries of one step.
    pub q: usize,
    /// Keys of one step, in VMEM.
    pub kv_major: usize,
    /// Keys of one iteration of the loop within a step.
    pub kv: usize,
}

impl FlashBlockSizes {
    /// The sizes that the compiler's static estimate prefers (`docs/kernel-cycles.md`), as far as they divide the lengths.
    pub fn preferred(
        attention: &FlashAttention,
        generation: Generation,
        pass: PassDirection,
    ) -> Option<FlashBlockSizes> {
        // Scores of larger blocks leave no room for anything else in the memory of v4.
        let (q_most, kv_most) = match (generation, pass) {
            (Generation::V4, PassDirection::Backward) if attention.mask.is_some() => (256, 128),
            (Generation::V4, _) => (256, 256),
            (Generation::V6e, PassDirection::Forward) => (1024, 512),
            _ => (512, 512),
        };
        let q = divisor(attention.q_len, 128, q_most)?;
        let kv = divisor(attention.kv_len, 128, kv_most)?;
        // Keys and values, twice each, take a quarter of the memory at most.
        let vmem_bytes = generation.spec().memory.vmem_bytes_per_core.value as usize;
        let row_bytes = 4 * attention.depth.max(128) * attention.dtype.size_bytes();
        let row_bytes = row_bytes + attention.mask.map_or(0, |mask| 2 * mask.queries.min(q) * mask.dtype.size_bytes());
        let kv_major = divisor(attention.kv_len, kv, (vmem_bytes / 4 / row_bytes.max(1)).max(kv))?;
        Some(FlashBlockSizes { q, kv_major, kv })
    }
}

/// Scores of masked keys.
pub(crate) const MASK_VALUE: f32 = -0.7 * f32::MAX;

/// A query whose largest score is no larger sees no key, where a mask is added to scores.
pub(crate) const BLIND_BELOW: f32 = -5e8;

/// Blocks that a table may have: it lies in SMEM.
const MAX_TABLE: usize = 1 << 15;

impl FlashAttention {
    pub(crate) fn q_spec(&self) -> Spec {
        Spec::new(self.dtype, [self.batch, self.q_heads, self.q_len, self.depth])
    }

    pub(crate) fn kv_spec(&self) -> Spec {
        Spec::new(self.dtype, [self.batch, self.kv_heads, self.kv_len, self.depth])
    }

    /// One number for each query, as dense rows.
    pub(crate) fn rows_spec(&self) -> Spec {
        Spec::new(DType::F32, [self.batch, self.q_heads, 1, self.q_len])
    }

    /// The mask as it is given.
    pub(crate) fn mask_spec(&self) -> Option<Spec> {
        let mask = self.mask?;
        Some(Spec::new(mask.dtype, [mask.batch, mask.heads, mask.queries, self.kv_len]))
    }

    /// How many blocks a mask has, where a table says which of them are masked in whole or not at all.
    pub(super) fn table(&self, blocks: &FlashBlockSizes) -> Option<usize> {
        let mask = self.mask.filter(|mask| mask.kind() == MaskKind::Keeps)?;
        let count = mask.batch * mask.heads * (self.q_len / blocks.q.max(1)) * (self.kv_len / blocks.kv.max(1));
        (count <= MAX_TABLE).then_some(count)
    }

    /// What scores are multiplied by before a mask is added or they are capped and after it, and the largest score of a query that sees
    /// no key.
    pub(super) fn scales(&self) -> (Option<f32>, f32, f32) {
        match self.mask.map(|mask| mask.kind()) {
            Some(MaskKind::Added | MaskKind::AddedByKey) => (Some(self.scale), 1.0, BLIND_BELOW),
            _ if self.soft_cap.is_some() => (Some(self.scale), 1.0, MASK_VALUE / 2.0),
            _ => (None, self.scale, MASK_VALUE / 2.0),
        }
    }

    /// Scores as masks meet them: where one is added, or they are capped, they are scaled before.
    pub(super) fn before_masks<'k>(&self, scores: Val<'k>) -> Val<'k> {
        match (self.soft_cap, self.scales().0) {
            (Some(cap), _) => (scores * (self.scale / cap)).tanh() * cap,
            (None, Some(scale)) => scores * scale,
            (None, None) => scores,
        }
    }

    /// Exponentials and the like for each pair of positions.
    fn transcendentals(&self) -> u64 {
        1 + u64::from(self.soft_cap.is_some())
    }

    /// Bytes of the mask that are read for all heads.
    pub(super) fn mask_bytes(&self) -> u64 {
        let Some((mask, spec)) = self.mask.zip(self.mask_spec()) else { return 0 };
        let times = (self.batch / mask.batch.max(1)) * (self.q_heads / mask.heads.max(1));
        spec.bytes().saturating_mul(times as u64)
    }

    /// Heads of queries for each KV head.
    pub(crate) fn group(&self) -> usize {
        self.q_heads / self.kv_heads.max(1)
    }

    fn check(&self, blocks: &FlashBlockSizes) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Shape { kernel: "flash attention", message });
        if self.kv_heads == 0 || !self.q_heads.is_multiple_of(self.kv_heads) {
            return refuse(format!("{} heads are not a multiple of {} KV heads", self.q_heads, self.kv_heads));
        }
        if !matches!(self.dtype, DType::BF16 | DType::F32) {
            return refuse(format!("attention of {} is not supported; use bf16 or f32", self.dtype));
        }
        if self.window.is_some() && self.causality == Causality::Full || self.window == Some(0) {
            return refuse("a sliding window must be at least 1 and needs causal attention".into());
        }
        if self.causality == Causality::Causal && self.kv_len < self.q_len {
            return refuse(format!(
                "causal attention of {} queries to {} keys: there must be at least as many keys as queries",
                self.q_len, self.kv_len
            ));
        }
        if self.soft_cap.is_some_and(|cap| !(cap.is_finite() && cap > 0.0)) {
            return refuse("a soft cap must be above 0".into());
        }
        if let Some(mask) = self.mask {
            let is_one_or = |size: usize, all: usize| size == 1 || size == all;
            let is_shaped = is_one_or(mask.batch, self.batch) && is_one_or(mask.heads, self.q_heads);
            let is_typed = match mask.dtype {
                DType::I8 => mask.queries == self.q_len,
                DType::BF16 | DType::F32 => is_one_or(mask.queries, self.q_len),
                _ => false,
            };
            if !is_shaped || !is_typed {
                return refuse(format!(
                    "a mask of {} [{}, {}, {}, …] for {} × {} heads and {} queries",
                    mask.dtype, mask.batch, mask.heads, mask.queries, self.batch, self.q_heads, self.q_len
                ));
            }
        }
        if i32::try_from(self.q_len.saturating_add(self.kv_len)).is_err() {
            return refuse("sequences are too long".into());
        }
        let divides = |name: &str, block: usize, length: usize| {
            if block == 0 || !length.is_multiple_of(block) {
                return refuse(format!("blocks of {block} {name} do not divide {length}"));
            }
            Ok(())
        };
        divides("queries", blocks.q, self.q_len)?;
        divides("keys in VMEM", blocks.kv_major, self.kv_len)?;
        divides("keys", blocks.kv, blocks.kv_major)?;
        for (name, block) in [("queries", blocks.q), ("keys", blocks.kv)] {
            if !block.is_multiple_of(128) {
                return refuse(format!("blocks of {block} {name} are not a multiple of 128"));
            }
        }
        Ok(())
    }

    /// Pairs of positions whose scores are computed, about: unmasked ones, and with a window all of the blocks that have any.
    pub(crate) fn computed_pairs(&self, blocks: &FlashBlockSizes) -> u64 {
        let (q, kv) = (self.q_len as u64, self.kv_len as u64);
        let seen = match (self.causality, self.window) {
            (Causality::Full, _) => q.saturating_mul(kv),
            (Causality::Causal, None) => q.saturating_mul(kv) - q.saturating_mul(q.saturating_sub(1)) / 2,
            (Causality::Causal, Some(window)) => {
                let (of_queries, of_keys) = (blocks.q as u64, blocks.kv.max(1) as u64);
                let seen = (window as u64).saturating_add(of_queries.saturating_sub(1));
                q.saturating_mul(kv.min(seen.div_ceil(of_keys).saturating_mul(of_keys)))
            }
        };
        let pairs = seen.saturating_mul((self.batch * self.q_heads) as u64);
        match self.mask.and_then(|mask| mask.density) {
            Some(share) => (pairs as f64 * f64::from(share.clamp(0.0, 1.0))) as u64,
            None => pairs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_costs_the_blocks_it_touches() {
        let attention = FlashAttention {
            batch: 2,
            q_heads: 4,
            kv_heads: 2,
            q_len: 8192,
            kv_len: 8192,
            depth: 128,
            dtype: DType::BF16,
            scale: 1.0,
            soft_cap: None,
            causality: Causality::Causal,
            window: Some(1024),
            segments: Segments::One,
            mask: None,
        };
        let blocks = FlashBlockSizes { q: 512, kv_major: 2048, kv: 512 };
        assert_eq!(attention.computed_pairs(&blocks), 8 * 8192 * 1536);
        assert_eq!(
            FlashAttention { window: Some(1 << 20), ..attention.clone() }.computed_pairs(&blocks),
            8 * 8192 * 8192
        );
        let causal = FlashAttention { window: None, ..attention.clone() };
        assert_eq!(causal.computed_pairs(&blocks), 8 * (8192 * 8193 / 2));
        let full = FlashAttention { window: None, causality: Causality::Full, ..attention };
        assert_eq!(full.computed_pairs(&blocks), 8 * 8192 * 8192);
    }
}
