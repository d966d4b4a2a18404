//! Sizes and choices of Gemma 4.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::layers::{Activation, Bias, Heads, KvSource, RopeScaling};
use crate::models::Head;

/// Sizes of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gemma4Config {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width.
    pub hidden_size: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Attention of layers with sliding windows.
    pub sliding: Gemma4Attention,
    /// Attention of layers that see all positions before.
    pub full: Gemma4Attention,
    /// For each layer whether it sees all positions before; others have sliding windows.
    pub is_full: Vec<bool>,
    /// Sliding window: positions a query attends to, itself included.
    pub sliding_window: usize,
    /// The last layers, which have keys and values of the last layer of their kind before them.
    pub num_kv_shared_layers: usize,
    /// Whether feed-forwards of these have twice the width inside.
    pub has_wide_shared_layers: bool,
    /// Whether layers that see all positions have keys as values.
    pub has_keys_as_values: bool,
    /// Inputs of each layer from the tokens (per-layer embeddings), if there are.
    pub per_layer_input: Option<PerLayerSizes>,
    /// Experts beside the feed-forward of each layer, if there are.
    pub experts: Option<Gemma4Experts>,
    /// Longest sequence trained on.
    pub max_position_embeddings: usize,
    /// Of the norms.
    pub rms_norm_eps: f64,
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Whether projections of attention have a bias.
    pub attention_bias: Bias,
    /// Soft cap of the logits.
    pub logit_soft_cap: Option<f64>,
    /// Whether the LM head is the embedding (tied).
    pub head: Head,
    /// The token whose per-layer embedding stands for that of an image.
    pub pad_token: u32,
    /// Standard deviation of initial weights.
    pub initializer_range: f64,
}

/// What attention of one kind of layers has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gemma4Attention {
    /// Heads of keys and values.
    pub num_key_value_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// How angles are stretched, and which features are turned.
    pub rope_scaling: RopeScaling,
}

/// Sizes of per-layer embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerLayerSizes {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width in each layer.
    pub width: usize,
}

/// Sizes of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gemma4Experts {
    /// Experts of a layer.
    pub count: usize,
    /// Experts per token.
    pub chosen: usize,
    /// Width inside an expert.
    pub inner: usize,
}

/// What layers of one form have alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayerKind {
    pub(super) is_full: bool,
    pub(super) is_shared: bool,
}

impl Gemma4Config {
    /// Layers.
    pub fn num_layers(&self) -> usize {
        self.is_full.len()
    }

    /// Layers with keys and values of their own: those of the KV cache.
    pub fn num_cached_layers(&self) -> usize {
        self.num_layers().saturating_sub(self.num_kv_shared_layers)
    }

    /// Attention of a kind of layers.
    pub fn attention(&self, is_full: bool) -> &Gemma4Attention {
        if is_full { &self.full } else { &self.sliding }
    }

    /// Heads of a kind of layers.
    pub(super) fn heads(&self, is_full: bool) -> Heads {
        let Gemma4Attention { num_key_value_heads, head_dim, .. } = *self.attention(is_full);
        Heads { num_heads: self.num_attention_heads, num_kv_heads: num_key_value_heads, head_dim }
    }

    /// Heads of the KV cache: as many and as large as any layer needs.
    pub(super) fn cached_heads(&self) -> Heads {
        let (one, other) = (self.heads(false), self.heads(true));
        Heads {
            num_heads: self.num_attention_heads,
            num_kv_heads: one.num_kv_heads.max(other.num_kv_heads),
            head_dim: one.head_dim.max(other.head_dim),
        }
    }

    pub(super) fn kind(&self, layer: usize) -> LayerKind {
        LayerKind {
            is_full: self.is_full.get(layer).copied().unwrap_or(true),
            is_shared: layer >= self.num_cached_layers(),
        }
    }

    /// Where keys and values of layers come from.
    pub(super) fn kv_source(&self, kind: LayerKind) -> KvSource {
        match kind {
            LayerKind { is_shared: true, .. } => KvSource::Earlier,
            LayerKind { is_full: true, .. } if self.has_keys_as_values => KvSource::KeysAsValues,
            _ => KvSource::Own,
        }
    }

    /// The layer of the KV cache that a layer reads: its own, or the last of its kind that has one.
    pub(super) fn cached_layer(&self, layer: usize) -> Option<usize> {
        let kind = self.kind(layer);
        if !kind.is_shared {
            return Some(layer);
        }
        self.is_full.get(..self.num_cached_layers())?.iter().rposition(|is_full| *is_full == kind.is_full)
    }

    /// Width inside the feed-forward of a kind of layers.
    pub fn inner(&self, layer: usize) -> usize {
        let is_wide = self.has_wide_shared_layers && self.kind(layer).is_shared;
        self.intermediate_size * if is_wide { 2 } else { 1 }
    }

    /// Neighbouring layers of equal form.
    pub(super) fn segments(&self) -> Vec<Range<usize>> {
        let mut starts: Vec<usize> =
            (0..self.num_layers()).filter(|&layer| layer == 0 || self.kind(layer) != self.kind(layer - 1)).collect();
        starts.push(self.num_layers());
        starts.windows(2).map(|ends| ends[0]..ends[1]).collect()
    }

    /// Weights of matmuls that a token passes in the layers.
    pub fn active_layer_weights(&self) -> usize {
        let width = self.hidden_size;
        let of = |layer: usize| {
            let kind = self.kind(layer);
            let Heads { num_heads, num_kv_heads, head_dim } = self.heads(kind.is_full);
            let projections = match self.kv_source(kind) {
                KvSource::Own => 2,
                KvSource::KeysAsValues => 1,
                KvSource::Earlier => 0,
            };
            let attention = width * head_dim * (2 * num_heads + projections * num_kv_heads);
            let experts = self.experts.map_or(0, |experts| 3 * width * experts.chosen * experts.inner);
            let per_layer = self.per_layer_input.map_or(0, |sizes| 3 * width * sizes.width);
            attention + 3 * width * self.inner(layer) + experts + per_layer
        };
        (0..self.num_layers()).map(of).sum()
    }

    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<Gemma4Config, Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_layers()),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.sliding.num_key_value_heads),
            ("num_global_key_value_heads", self.full.num_key_value_heads),
            ("head_dim", self.sliding.head_dim),
            ("global_head_dim", self.full.head_dim),
            ("sliding_window", self.sliding_window),
            ("vocab_size_per_layer_input", self.per_layer_input.map_or(1, |sizes| sizes.vocab_size)),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} is 0")));
        }
        for kind in [&self.sliding, &self.full] {
            if !self.num_attention_heads.is_multiple_of(kind.num_key_value_heads) {
                return Err(Error::config(format!(
                    "num_attention_heads {} is not a multiple of {} heads of keys",
                    self.num_attention_heads, kind.num_key_value_heads
                )));
            }
            if !kind.head_dim.is_multiple_of(2) {
                return Err(Error::config(format!(
                    "heads of {} features cannot have rotary positions: the number must be even",
                    kind.head_dim
                )));
            }
        }
        if let Some(layer) = (0..self.num_layers()).find(|&layer| self.cached_layer(layer).is_none()) {
            return Err(Error::config(format!(
                "layer {layer} of {} shares keys and values with no layer before it (num_kv_shared_layers {})",
                self.num_layers(),
                self.num_kv_shared_layers
            )));
        }
        if let Some(experts) = &self.experts
            && (experts.chosen == 0 || experts.chosen > experts.count || experts.inner == 0)
        {
            return Err(Error::config(format!(
                "top_k_experts is {}, but there are {} experts of width {}",
                experts.chosen, experts.count, experts.inner
            )));
        }
        if let Some(cap) = self.logit_soft_cap.filter(|cap| !(cap.is_finite() && *cap > 0.0)) {
            return Err(Error::config(format!("the soft cap of logits is {cap}")));
        }
        Ok(self)
    }
}
