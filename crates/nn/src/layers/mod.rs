//! Layers: structures of parameters with `init` and `apply`.

mod attend;
mod attention;
mod conv;
mod dropout;
mod embedding;
mod feed_forward;
mod flash;
mod fused_norm;
mod linear;
mod moe;
mod norm;
mod recurrent;
mod rope;

pub use attend::{Dropping, Form, Places, Sight, attend, attend_dropping};
pub use attention::{Context, Heads, KeyValues, MultiHeadAttention};
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, average_pool, global_average_pool, max_pool};
pub use dropout::dropout;
pub use embedding::Embedding;
pub use feed_forward::{Activation, FeedForward, GatedFeedForward};
pub use flash::{FLASH, FLASH_BACKWARD};
pub use fused_norm::{RMS_NORM, RMS_NORM_BACKWARD};
pub use linear::{Bias, Linear};
pub(crate) use linear::{STORED_WIDTH, at_use};
pub use moe::{Dispatch, ExpertSizes, MixtureOfExperts, Usage};
pub use norm::{BatchNorm, BatchStatistics, GroupNorm, LayerNorm, RmsNorm};
pub use recurrent::{Gru, Lstm, LstmState};
pub use rope::{Rope, RopeScaling};
