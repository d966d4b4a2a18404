//! Sizes and choices of the Llama family.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::norm::DecoderNorm;
use crate::error::Error;
use crate::fused::Fused;
use crate::layers::{
    Activation, AttentionMask, Bias, Dispatch, Gating, Heads, LayerNorm, LongRope, MlaSizes, RmsNorm, RopePairs,
    RopeScaling, Routing,
};
use crate::models::Family;

/// The longest repeating layer pattern: each of its layers is a part of the program of its own.
const MAX_PATTERN: usize = 64;

/// Mixture of experts (MoE) instead of one feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experts {
    /// Experts of a layer.
    pub count: usize,
    /// Experts per token.
    pub chosen: usize,
    /// How they are chosen and weighted.
    #[serde(default)]
    pub routing: Routing,
    /// Width inside the shared expert, a feed-forward that every position goes through beside its experts.
    #[serde(default)]
    pub shared: Option<usize>,
    /// First dense layers, if there are: a feed-forward instead of experts.
    #[serde(default)]
    pub dense: Option<DenseLayers>,
    /// Layers with experts among layers without, if not all have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<InterleavedExperts>,
    /// Coefficient of the load-balancing (auxiliary) loss.
    pub load_balancing_loss: f64,
    /// How tokens are dispatched to experts.
    #[serde(default)]
    pub dispatch: Dispatch,
    /// Whether matmuls of experts have a bias.
    #[serde(default)]
    pub bias: Bias,
    /// How gates of experts meet what they let through.
    #[serde(default)]
    pub gating: Gating,
}

/// Layers with experts among layers without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterleavedExperts {
    /// The last of every so many layers has experts.
    pub every: usize,
    /// Width inside the feed-forward of the others.
    pub inner: usize,
}

/// First dense layers, without experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenseLayers {
    /// How many.
    pub count: usize,
    /// Width inside their feed-forward.
    pub inner: usize,
}

/// Sizes of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlamaConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width.
    pub hidden_size: usize,
    /// Width inside the feed-forward, or inside an expert.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values; fewer than heads of queries are grouped-query attention (GQA).
    pub num_key_value_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Longest sequence trained on.
    pub max_position_embeddings: usize,
    /// Of the norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// How angles are stretched.
    #[serde(default)]
    pub rope_scaling: RopeScaling,
    /// LongRoPE, instead of `rope_scaling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_rope: Option<LongRope>,
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Whether queries, keys and values have a bias.
    pub projection_bias: Bias,
    /// Whether the output of attention has a bias.
    pub output_bias: Bias,
    /// Sliding window: positions a query attends to, itself included; all before it if absent.
    pub sliding_window: Option<usize>,
    /// Layers with full causal attention among layers with sliding windows, if there are.
    #[serde(default)]
    pub global_layers: Option<GlobalLayers>,
    /// Whether the LM head is the embedding (tied).
    pub head: Head,
    /// Experts, if there are.
    pub experts: Option<Experts>,
    /// Sizes of multi-head latent attention (MLA), if that is what layers have.
    #[serde(default)]
    pub mla: Option<MlaSizes>,
    /// What is done otherwise than in Llama.
    #[serde(default)]
    pub style: Style,
    /// Standard deviation of initial weights.
    pub initializer_range: f64,
}

/// Layers with full causal attention among layers with sliding windows, with rotary angles of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GlobalLayers {
    /// The last of every so many layers is one.
    pub every: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// How angles are stretched.
    #[serde(default)]
    pub rope_scaling: RopeScaling,
    /// What queries and keys know of positions.
    #[serde(default)]
    pub positions: GlobalPositions,
}

/// What queries and keys of layers with full causal attention know of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GlobalPositions {
    /// Rotary positions.
    #[default]
    Rotary,
    /// Nothing but the mask (NoPE).
    None,
    /// Nothing but the mask, and queries grow with their position: `1 + scale * ln(1 + floor((position + 1) / floor))`.
    Grown {
        /// The scale (`attn_scale`).
        scale: f64,
        /// The floor (`floor_scale`).
        floor: f64,
    },
}

/// What families do otherwise than Llama, which is the default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Style {
    /// Whether queries and keys are normed.
    pub head_norm: HeadNorm,
    /// Where the norms of a layer are.
    pub norms: Norms,
    /// Added to the weights of all norms: 1 where weights are kept as what they differ from it.
    pub norm_offset: f64,
    /// What embeddings are multiplied by before the layers.
    pub embedding_scale: f64,
    /// Factor of the attention scores before the softmax; `1 / sqrt(head_dim)` if absent.
    pub score_scale: Option<f64>,
    /// Soft cap of the attention scores.
    pub score_soft_cap: Option<f64>,
    /// Whether each head has an attention sink.
    pub sinks: Bias,
    /// The kind of norms before, after and behind layers.
    pub norm_kind: DecoderNormKind,
    /// How attention and feed-forward are added.
    pub residual: ResidualForm,
    /// What results of attention and feed-forward are multiplied by before they are added.
    pub residual_scale: f64,
    /// The kind of feed-forwards.
    pub feed_forward: FeedForwardKind,
    /// Whether feed-forwards have biases.
    pub feed_forward_bias: Bias,
    /// Features of a head with rotary positions; all if absent.
    pub rotary_dim: Option<usize>,
    /// Which features rotary positions turn together.
    pub rope_pairs: RopePairs,
    /// What the sliding window means.
    pub window: WindowKind,
    /// What logits are multiplied by.
    pub logit_scale: f64,
    /// Soft cap of the logits.
    pub logit_soft_cap: Option<f64>,
    /// Whether the LM head has a bias.
    pub head_bias: Bias,
    /// Whose names tensors have in files, where the other choices do not tell.
    pub family: Option<Family>,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            head_norm: HeadNorm::None,
            norms: Norms::Before,
            norm_offset: 0.0,
            embedding_scale: 1.0,
            score_scale: None,
            score_soft_cap: None,
            sinks: Bias::None,
            norm_kind: DecoderNormKind::Rms,
            residual: ResidualForm::Sequential,
            residual_scale: 1.0,
            feed_forward: FeedForwardKind::Gated,
            feed_forward_bias: Bias::None,
            rotary_dim: None,
            rope_pairs: RopePairs::Halves,
            window: WindowKind::Sliding,
            logit_scale: 1.0,
            logit_soft_cap: None,
            head_bias: Bias::None,
            family: None,
        }
    }
}

/// The kind of norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecoderNormKind {
    /// Root mean square.
    Rms,
    /// Mean and deviation, with a bias.
    Layer,
    /// Mean and deviation, without a bias.
    LayerWithoutBias,
}

/// How attention and feed-forward of a layer are added to what comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResidualForm {
    /// One after the other.
    Sequential,
    /// Both read what comes in, each through its norm.
    Parallel,
    /// Both read what comes in through one norm.
    ParallelOneNorm,
}

/// The kind of feed-forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedForwardKind {
    /// Three matmuls: a gate through the activation (SwiGLU).
    Gated,
    /// Two matmuls with the activation between them.
    Plain,
}

/// What the sliding window of a layer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// So many positions up to the query's.
    Sliding,
    /// Positions in the query's chunk of so many (`attention_chunk_size`).
    Chunk,
}

/// Whether queries and keys are normed, before rotary positions if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadNorm {
    /// They are not.
    None,
    /// Head by head, by their root mean square.
    Rms,
    /// All heads together, by their root mean square.
    RmsOfAllHeads,
    /// Head by head, by their root mean square, without a weight, after rotary positions and where there are any.
    AfterRotary,
}

/// Where attention and feed-forward have norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Norms {
    /// Before each.
    Before,
    /// Before each, and of what each adds.
    Around,
    /// Of what each adds.
    After,
}

/// Where logits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// A weight of their own.
    Own,
    /// The embedding.
    Tied,
}

impl LlamaConfig {
    /// Numbers of heads.
    pub fn heads(&self) -> Heads {
        Heads { num_heads: self.num_attention_heads, num_kv_heads: self.num_key_value_heads, head_dim: self.head_dim }
    }

    /// Features of a head with rotary positions.
    pub(super) fn rotary(&self) -> usize {
        self.mla.map_or(self.style.rotary_dim.unwrap_or(self.head_dim), |mla| mla.qk_rope_head_dim)
    }

    /// First layers without experts.
    pub fn num_dense_layers(&self) -> usize {
        self.experts.and_then(|experts| experts.dense).map_or(0, |dense| dense.count)
    }

    /// Layers without experts among those that have them.
    pub fn num_interleaved_dense_layers(&self) -> usize {
        let every = self.experts.and_then(|experts| experts.interleaved).map_or(1, |layers| layers.every.max(1));
        self.num_hidden_layers - self.num_hidden_layers / every
    }

    /// Neighbouring layers of equal form, of those that are stacked as `layers`, and whether they have experts.
    pub(super) fn segments(&self) -> Vec<(Range<usize>, bool)> {
        let layers = self.num_hidden_layers.saturating_sub(self.num_dense_layers());
        let Some(InterleavedExperts { every, .. }) = self.experts.and_then(|experts| experts.interleaved) else {
            return vec![(0..layers, self.experts.is_some())];
        };
        let of_one = |start: usize| {
            let last = (start + every - 1).min(layers);
            let dense = (start < last).then_some((start..last, false));
            dense.into_iter().chain((last < layers).then_some((last..last + 1, true)))
        };
        (0..layers).step_by(every.max(1)).flat_map(of_one).collect()
    }

    /// Length of the repeating layer pattern: after so many layers the attention masks repeat.
    pub(crate) fn pattern(&self) -> usize {
        self.global_layers.map_or(1, |layers| layers.every)
    }

    /// The attention mask of the layer at this place of the pattern.
    pub(super) fn mask(&self, place: usize) -> AttentionMask {
        match self.global_layers {
            Some(_) if place + 1 == self.pattern() => AttentionMask::Causal,
            _ => match (self.sliding_window, self.style.window) {
                (None, _) => AttentionMask::Causal,
                (Some(size), WindowKind::Sliding) => AttentionMask::SlidingWindow(size),
                (Some(size), WindowKind::Chunk) => AttentionMask::Chunk(size),
            },
        }
    }

    /// Whether a layer is two halves, each with one RMS norm before it and nothing behind it, as in Llama.
    pub fn has_plain_layers(&self) -> bool {
        let Style { norms, norm_offset, norm_kind, residual, feed_forward, feed_forward_bias, .. } = self.style;
        norms == Norms::Before
            && norm_offset == 0.0
            && norm_kind == DecoderNormKind::Rms
            && residual == ResidualForm::Sequential
            && feed_forward == FeedForwardKind::Gated
            && feed_forward_bias == Bias::None
            && self.style.residual_scale == 1.0
            && self.style.embedding_scale == 1.0
    }

    /// Matmuls of a feed-forward.
    pub fn feed_forward_matmuls(&self) -> usize {
        match self.style.feed_forward {
            FeedForwardKind::Gated => 3,
            FeedForwardKind::Plain => 2,
        }
    }

    /// A norm of layers.
    #[track_caller]
    pub(super) fn norm(&self, fused: Fused) -> DecoderNorm {
        let layer = LayerNorm::init(self.hidden_size, self.rms_norm_eps);
        match self.style.norm_kind {
            DecoderNormKind::Rms => DecoderNorm::Rms(self.rms_norm(self.hidden_size).with_fused(fused)),
            DecoderNormKind::Layer => DecoderNorm::Layer(layer),
            DecoderNormKind::LayerWithoutBias => DecoderNorm::Layer(LayerNorm { bias: None, ..layer }),
        }
    }

    /// An RMS norm of the style, of so many features.
    #[track_caller]
    pub(super) fn rms_norm(&self, width: usize) -> RmsNorm {
        let norm = RmsNorm::init(width, self.rms_norm_eps);
        if self.style.norm_offset == 0.0 { norm } else { norm.with_offset(self.style.norm_offset) }
    }

    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<LlamaConfig, Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} is 0")));
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let (heads, keys) = (self.num_attention_heads, self.num_key_value_heads);
            return Err(Error::config(format!(
                "num_attention_heads {heads} is not a multiple of num_key_value_heads {keys}"
            )));
        }
        if self.rotary() == 0 || !self.rotary().is_multiple_of(2) {
            return Err(Error::config(format!(
                "heads of {} features cannot have rotary positions: the number must be even",
                self.rotary()
            )));
        }
        if let Some(long) = &self.long_rope {
            let pairs = self.rotary() / 2;
            let is_usable = |factors: &[f64]| {
                factors.len() == pairs && factors.iter().all(|factor| factor.is_finite() && *factor > 0.0)
            };
            if !is_usable(&long.short_factor) || !is_usable(&long.long_factor) || self.global_layers.is_some() {
                return Err(Error::config(format!(
                    "longrope has no short_factor and long_factor of {pairs} positive numbers each, or is for some layers only"
                )));
            }
        }
        if let Some(mla) = &self.mla
            && [mla.kv_lora_rank, mla.qk_nope_head_dim, mla.v_head_dim, mla.q_lora_rank.unwrap_or(1)].contains(&0)
        {
            return Err(Error::config("kv_lora_rank, q_lora_rank, qk_nope_head_dim or v_head_dim is 0"));
        }
        if let Some(groups) = self.experts.and_then(|experts| experts.routing.groups)
            && let Some(experts) = &self.experts
            && (groups.count == 0
                || !experts.count.is_multiple_of(groups.count)
                || groups.chosen == 0
                || groups.chosen > groups.count
                || groups.best == 0
                || groups.best > experts.count / groups.count
                || groups.chosen * (experts.count / groups.count) < experts.chosen)
        {
            let (all, groups, of) = (experts.count, groups.count, groups.chosen);
            return Err(Error::config(format!(
                "{of} of {groups} groups of {all} experts cannot be chosen (topk_group, n_group)"
            )));
        }
        if self.num_dense_layers() >= self.num_hidden_layers && self.num_dense_layers() > 0 {
            return Err(Error::config("no layer has experts (first_k_dense_replace)"));
        }
        if self.num_dense_layers() > 0 && self.global_layers.is_some() {
            return Err(Error::config(
                "first dense layers (first_k_dense_replace) together with a sliding window pattern are not supported",
            ));
        }
        if let Some(interleaved) = self.experts.and_then(|experts| experts.interleaved) {
            let (every, layers) = (interleaved.every, self.num_hidden_layers);
            if !(2..=layers).contains(&every) || interleaved.inner == 0 || self.num_dense_layers() > 0 {
                return Err(Error::config(format!(
                    "one of every {every} of {layers} layers has experts, and the others feed-forwards of width {}",
                    interleaved.inner
                )));
            }
        }
        if let Some(layers) = &self.global_layers
            && !(2..=MAX_PATTERN).contains(&layers.every)
        {
            let every = layers.every;
            return Err(Error::config(format!(
                "one of every {every} layers has full attention; patterns of 2 to {MAX_PATTERN} layers are supported"
            )));
        }
        if self.sliding_window == Some(0) {
            return Err(Error::config("sliding_window is 0"));
        }
        if self.rotary() > self.head_dim && self.mla.is_none() {
            return Err(Error::config(format!(
                "{} of {} features of a head have rotary positions (partial_rotary_factor)",
                self.rotary(),
                self.head_dim
            )));
        }
        let scales = [
            ("the scale of embeddings", self.style.embedding_scale),
            ("the scale of scores", self.style.score_scale.unwrap_or(1.0)),
            ("the scale of residuals", self.style.residual_scale),
            ("the scale of logits", self.style.logit_scale),
            ("the soft cap of scores", self.style.score_soft_cap.unwrap_or(1.0)),
            ("the soft cap of logits", self.style.logit_soft_cap.unwrap_or(1.0)),
        ];
        if let Some((name, scale)) = scales.iter().find(|(_, scale)| !(scale.is_finite() && *scale > 0.0)) {
            return Err(Error::config(format!("{name} is {scale}")));
        }
        if let Some(experts) = &self.experts
            && (experts.chosen == 0 || experts.chosen > experts.count)
        {
            return Err(Error::config(format!(
                "num_experts_per_tok is {}, but there are {} experts",
                experts.chosen, experts.count
            )));
        }
        Ok(self)
    }
}
