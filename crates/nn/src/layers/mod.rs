//! Layers: structures of parameters with `init` and `apply`.

mod attend;
mod attention;
mod conv;
mod embedding;
mod feed_forward;
mod flash;
mod fused_norm;
mod kv_cache;
mod linear;
mod mla;
mod moe;
mod norm;
mod norm_with_statistics;
mod paged;
mod recurrent;
mod rope;
mod shared_kv;

pub use crate::dropout::dropout;
pub use attend::{AttentionImpl, AttentionMask, AttentionOptions, Positions, attend, attend_with};
pub use attention::{Context, Heads, MultiHeadAttention};
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, average_pool, global_average_pool, max_pool};
pub use embedding::{Embedding, EmbeddingLookup};
pub use feed_forward::{Activation, FeedForward, GatedFeedForward};
pub use kv_cache::{CachePosition, CacheStart, KvCache, KvCacheDType};
pub use linear::{Bias, Linear};
pub use mla::{MlaSizes, MultiHeadLatentAttention};
pub use moe::{
    Dispatch, ExpertBiases, ExpertGroups, ExpertInputs, ExpertSizes, ExpertStack, Gating, MixtureOfExperts,
    RouterScores, RouterWeights, Routing, Usage, WeightedSide, grouped_matmul,
};
pub use norm::{BatchNorm, BatchStatistics, GroupNorm, LayerNorm, RmsNorm};
pub use recurrent::{Gru, Lstm, LstmState};
pub use rope::{LongRope, Rope, RopePairs, RopeScaling, YarnBounds};
pub use shared_kv::{KvSource, SharedKvAttention};
