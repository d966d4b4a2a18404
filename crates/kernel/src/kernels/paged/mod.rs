//! Attention to a paged KV cache (ragged paged attention): sequences of any lengths, whose keys and values lie in pages anywhere in
//! the cache, with one query each (decode), several (chunked prefill), or none.
//!
//! Pages come from HBM by their numbers in the table, straight from the array of all layers: neither pages nor layers are copied. Codes
//! of a quantized cache are widened in VMEM. In multi-head latent attention (MLA) all heads share one key and value, which is read once.

mod attention;
mod composite;

use chips::Generation;
use tensor::{DType, Spec};

use super::divisor;
use crate::error::Error;
use crate::kernel::is_narrow;
use crate::vmem::tiled_bytes;
pub use attention::attention;
pub use composite::decomposition;
pub(super) use composite::{attention_for, attention_plain};

/// Most positions of a step.
const MOST_POSITIONS: usize = 2048;
/// Most scores of a head in a step.
const SCORES: usize = 1 << 15;
/// The same where all heads of queries share one key and value: there are many queries even of one token.
const SHARED_SCORES: usize = 1 << 17;
/// Most ends of chunks that the queries of a block may have between them.
const MOST_CHUNKS: usize = 16;
/// Share of VMEM that the pages of a step may take.
const PAGES_SHARE: u64 = 4;

/// Shapes and meaning of attention to a paged KV cache.
///
/// Queries are `[sequences, kv_heads, queries, depth]`: of each KV head the queries of all heads of its group, token by token. Keys
/// and values are `[layers, pages, kv_heads, page_size, depth]`, their scales `[layers, pages, kv_heads, page_size]`.
///
/// In multi-head latent attention (MLA) a value is a part of its key: keys have the `rotary` features only that values have not, and
/// queries have `depth` features for values and then `rotary` for keys.
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
    /// Size of a head: features of a value.
    pub depth: usize,
    /// Features of a key that come after those of its value (MLA); `None`: a key has `depth` features of its own.
    pub rotary: Option<usize>,
    /// Layers of the cache.
    pub layers: usize,
    /// Pages of the cache.
    pub pages: usize,
    /// Positions of a page.
    pub page_size: usize,
    /// Pages that the table has for each sequence.
    pub table: usize,
    /// Element type of queries and of the result.
    pub dtype: DType,
    /// Element type of keys and values: that of queries, or codes, which have a scale for each head and position.
    pub codes: DType,
    /// Scores are multiplied by it.
    pub scale: f32,
    /// Sliding window: attention to so many positions, the own one included; `None`: all.
    pub window: Option<usize>,
    /// Attention to positions of the same chunk of so many; `None`: all.
    pub chunk: Option<usize>,
    /// Scores become `cap * tanh(scores / cap)`; `None`: as they are.
    pub soft_cap: Option<f32>,
    /// Whether there are attention sinks.
    pub sinks: AttentionSinks,
}

/// Attention sinks: a score of each head that takes part in the softmax and has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionSinks {
    /// None.
    #[default]
    Absent,
    /// `f32 [kv_heads, group]`.
    Present,
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
        let scores = if self.rotary.is_some() { SHARED_SCORES } else { SCORES };
        let positions = (scores / block.max(1)).clamp(1, MOST_POSITIONS);
        // Everything twice.
        let bytes = 2 * self.page_specs().iter().map(tiled_bytes).sum::<u64>() as usize;
        let room = (generation.spec().memory.vmem_bytes_per_core.value / PAGES_SHARE) as usize;
        (positions / self.page_size.max(1)).min(room / bytes.max(1)).clamp(1, self.table.max(1))
    }

    /// Rows of a tile of queries.
    fn sublanes(&self) -> usize {
        32 / self.dtype.size_bytes().max(1)
    }

    /// Features of a query.
    pub(crate) fn query_depth(&self) -> usize {
        self.depth.saturating_add(self.rotary.unwrap_or(0))
    }

    /// Features that the array of keys has of each.
    pub(crate) fn key_depth(&self) -> usize {
        self.rotary.unwrap_or(self.depth)
    }

    /// Whether keys and values are codes with scales.
    pub(crate) fn has_scales(&self) -> bool {
        self.codes != self.dtype
    }

    pub(crate) fn q_spec(&self) -> Spec {
        Spec::new(self.dtype, [self.sequences, self.kv_heads, self.queries, self.query_depth()])
    }

    pub(crate) fn out_spec(&self) -> Spec {
        Spec::new(self.dtype, [self.sequences, self.kv_heads, self.queries, self.depth])
    }

    pub(crate) fn key_spec(&self) -> Spec {
        Spec::new(self.codes, [self.layers, self.pages, self.kv_heads, self.page_size, self.key_depth()])
    }

    pub(crate) fn value_spec(&self) -> Spec {
        Spec::new(self.codes, [self.layers, self.pages, self.kv_heads, self.page_size, self.depth])
    }

    /// Scales of keys, or of values.
    pub(crate) fn scale_spec(&self) -> Spec {
        Spec::new(DType::F32, [self.layers, self.pages, self.kv_heads, self.page_size])
    }

    /// What a page has: keys, values, and their scales.
    pub(crate) fn page_specs(&self) -> Vec<Spec> {
        let mut all = vec![self.key_spec(), self.value_spec()];
        if self.has_scales() {
            all.extend([self.scale_spec(), self.scale_spec()]);
        }
        for spec in &mut all {
            spec.dims[..2].fill(1);
        }
        all
    }

    /// Most pages that a block of so many queries sees.
    pub(crate) fn seen_pages(&self, block: usize) -> usize {
        let reach = [self.window, self.chunk].into_iter().flatten().min();
        let positions = reach.map(|reach| reach.saturating_add(block / self.group.max(1)));
        positions.map_or(self.table, |positions| self.table.min(positions / self.page_size.max(1) + 2))
    }

    /// Ends of chunks that the queries of a block may have between them.
    fn chunk_ends(&self, block: usize) -> usize {
        self.chunk.map_or(0, |chunk| block.div_ceil(self.group.max(1)).div_ceil(chunk.max(1)))
    }

    fn check(&self, block: usize) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Shape { kernel: "paged attention", message });
        if !matches!(self.dtype, DType::BF16 | DType::F32) || (self.has_scales() && !is_narrow(self.codes)) {
            let (dtype, codes) = (self.dtype, self.codes);
            return refuse(format!("attention of {dtype} to {codes} is not supported; use bf16, f32 or codes"));
        }
        let sizes = [self.sequences, self.kv_heads, self.group, self.queries, self.table, self.layers, self.pages];
        let others = [self.rotary, self.window, self.chunk];
        if sizes.contains(&0) || self.depth == 0 || others.contains(&Some(0)) {
            return refuse("a size is 0".into());
        }
        if !self.page_size.is_multiple_of(128) || self.page_size == 0 {
            return refuse(format!("pages of {} positions are not a multiple of 128", self.page_size));
        }
        if block == 0 || !self.queries.is_multiple_of(block) || !block.is_multiple_of(self.sublanes()) {
            return refuse(format!("blocks of {block} queries do not divide {}, or are not whole tiles", self.queries));
        }
        if self.rotary.is_some() && (self.kv_heads != 1 || !self.depth.is_multiple_of(128)) {
            let (heads, depth) = (self.kv_heads, self.depth);
            return refuse(format!("{heads} KV heads of {depth} with values in their keys: one, of a multiple of 128"));
        }
        if self.chunk_ends(block) > MOST_CHUNKS {
            return refuse(format!("chunks of {} positions", self.chunk.unwrap_or(0)));
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
