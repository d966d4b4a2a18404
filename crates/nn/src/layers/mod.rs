//! Layers: structures of parameters with `init` and `apply`.

mod attend;
mod attention;
mod dropout;
mod embedding;
mod feed_forward;
mod linear;
mod norm;
mod rope;

pub use attend::{Form, Places, Sight, attend};
pub use attention::{Context, Heads, KeyValues, MultiHeadAttention};
pub use dropout::dropout;
pub use embedding::Embedding;
pub use feed_forward::{Activation, FeedForward, GatedFeedForward};
pub use linear::{Bias, Linear};
pub use norm::{BatchNorm, BatchStatistics, GroupNorm, LayerNorm, RmsNorm};
pub use rope::{Rope, RopeScaling};
