//! Attention to a paged KV cache (ragged paged attention): sequences of any lengths, whose keys and values lie in pages anywhere in
//! the cache, with one query each (decode), several (chunked prefill), or none.
//!
//! Pages come from HBM by their numbers in the table, straight from the array of all layers: neither pages nor layers are copied.

mod attention;
mod composite;

use chips::Generation;
use tensor::{DType, Spec};

use super::divisor;
use crate::error::Error;
pub use attention::attention;
pub use composite::decomposition;
pub(super) use composite::{attention_for, attention_plain};

/// Most positions of a step.
const MOST_POSITIONS: usize = 2048;
/// Most scores of a head in a step.
const SCORES: usize = 1 << 15;
/// Share of VMEM that the pages of a step may take.
const PAGES_SHARE: u64 = 4;

/// Shapes and meaning of attention to a paged KV cache.
///
/// Queries are `[sequences, kv_heads, queries, depth]`: of each KV head the queries of all heads of its group, token by token. Keys
/// and values are `[layers, pages, kv_heads, page_size, depth]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PagedAttention {
    /// Sequences.
    pub sequences: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Heads of queries for each KV head (grouped-query attention, GQA).
    pub group: usize,
    /// Queries of each KV head: tokens times `group`, filled up.
    pub queries: usize,
    /// Size of a head.
    pub depth: usize,
    /// Layers of the cache.
    pub layers: usize,
    /// Pages of the cache.
    pub pages: usize,
    /// Positions of a page.
    pub page_size: usize,
    /// Pages that the table has for each sequence.
    pub table: usize,
    /// Element type of queries, keys and values.
    pub dtype: DType,
    /// Scores are multiplied by it.
    pub scale: f32,
    /// Sliding window: attention to so many positions, the own one included; `None`: all.
    pub window: Option<usize>,
    /// Scores become `cap * tanh(scores / cap)`; `None`: as they are.
    pub soft_cap: Option<f32>,
}

impl PagedAttention {
    /// Queries of one step: as many as fit into registers well, and divide them.
    pub fn preferred_block(&self, generation: Generation) -> Option<usize> {
        let most = if generation == Generation::V4 { 128 } else { 256 };
        divisor(self.queries, self.sublanes(), most)
    }

    /// Pages that a step of the kernel has for a block of queries: many for few queries, whose matmuls wait for each other, and no more
    /// than fit beside everything else.
    pub(crate) fn pages_at_once(&self, block: usize, generation: Generation) -> usize {
        let positions = (SCORES / block.max(1)).clamp(1, MOST_POSITIONS);
        // Keys and values, each twice.
        let bytes = self.kv_heads * self.page_size * self.depth * self.dtype.size_bytes() * 4;
        let room = (generation.spec().memory.vmem_bytes_per_core.value / PAGES_SHARE) as usize;
        (positions / self.page_size.max(1)).min(room / bytes.max(1)).clamp(1, self.table.max(1))
    }

    /// Rows of a tile of queries.
    fn sublanes(&self) -> usize {
        32 / self.dtype.size_bytes().max(1)
    }

    pub(crate) fn q_spec(&self) -> Spec {
        Spec::new(self.dtype, [self.sequences, self.kv_heads, self.queries, self.depth])
    }

    pub(crate) fn kv_spec(&self) -> Spec {
        Spec::new(self.dtype, [self.layers, self.pages, self.kv_heads, self.page_size, self.depth])
    }

    fn check(&self, block: usize) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Shape { kernel: "paged attention", message });
        if !matches!(self.dtype, DType::BF16 | DType::F32) {
            return refuse(format!("attention of {} is not supported; use bf16 or f32", self.dtype));
        }
        let sizes = [self.sequences, self.kv_heads, self.group, self.queries, self.table, self.layers, self.pages];
        if sizes.contains(&0) || self.window == Some(0) {
            return refuse("a size is 0".into());
        }
        if !self.page_size.is_multiple_of(128) || self.page_size == 0 {
            return refuse(format!("pages of {} positions are not a multiple of 128", self.page_size));
        }
        if block == 0 || !self.queries.is_multiple_of(block) || !block.is_multiple_of(self.sublanes()) {
            return refuse(format!("blocks of {block} queries do not divide {}, or are not whole tiles", self.queries));
        }
        // Positions and queries are compared after a multiplication by the group.
        let positions = self.table.checked_mul(self.page_size).and_then(|n| n.checked_add(self.queries));
        let compared = positions.and_then(|n| n.checked_mul(4 * self.group));
        let entries = self.table.checked_mul(self.sequences);
        if [compared, entries].iter().any(|n| n.and_then(|n| i32::try_from(n).ok()).is_none()) {
            return refuse("sequences are too long".into());
        }
        Ok(())
    }
}
