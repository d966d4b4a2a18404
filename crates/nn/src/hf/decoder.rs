//! `config.json` of decoders with rotary positions, RMS norms and gated feed-forwards: which of their keys mean which choices.

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::hf::defaults::{Kind, complete};
use crate::hf::rope::RawRope;
use crate::layers::{
    Activation, Bias, Dispatch, ExpertGroups, MlaSizes, RopePairs, RopeScaling, RouterScores, RouterWeights, Routing,
};
use crate::models::{DenseLayers, Experts, GlobalLayers, Head, HeadNorm, LlamaConfig, Norms, Style};

/// Types of models that are read here.
pub(super) const KNOWN: [&str; 10] = [
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gemma3_text",
    "gemma3",
    "deepseek_v2",
    "deepseek_v3",
];

/// Reads a configuration of one of these families.
pub(super) fn read(kind: Kind, value: Value) -> Result<LlamaConfig, Error> {
    let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
    serde_json::from_value::<Raw>(complete(kind, value)?).map_err(malformed)?.understood(kind)
}

/// As the file has it, with what it leaves out.
#[derive(Deserialize)]
struct Raw {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    #[serde(default = "rope_theta")]
    rope_theta: f64,
    rope_scaling: Option<RawRope>,
    rope_parameters: Option<RawRope>,
    original_max_position_embeddings: Option<usize>,
    #[serde(default = "hidden_act")]
    hidden_act: Activation,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    tie_word_embeddings: bool,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    #[serde(default)]
    max_window_layers: usize,
    #[serde(default)]
    sliding_window_pattern: usize,
    layer_types: Option<Vec<String>>,
    rope_local_base_freq: Option<f64>,
    query_pre_attn_scalar: Option<f64>,
    attn_logit_softcapping: Option<f64>,
    final_logit_softcapping: Option<f64>,
    #[serde(default)]
    use_bidirectional_attention: bool,
    #[serde(default)]
    num_local_experts: usize,
    #[serde(default)]
    num_experts: usize,
    #[serde(default)]
    num_experts_per_tok: usize,
    moe_intermediate_size: Option<usize>,
    #[serde(default)]
    norm_topk_prob: bool,
    decoder_sparse_step: Option<usize>,
    moe_layer_freq: Option<usize>,
    #[serde(default)]
    kv_lora_rank: usize,
    q_lora_rank: Option<usize>,
    #[serde(default)]
    qk_nope_head_dim: usize,
    #[serde(default)]
    qk_rope_head_dim: usize,
    #[serde(default)]
    v_head_dim: usize,
    rope_interleave: Option<bool>,
    #[serde(default)]
    n_routed_experts: usize,
    n_shared_experts: Option<usize>,
    first_k_dense_replace: Option<usize>,
    n_group: Option<usize>,
    topk_group: Option<usize>,
    topk_method: Option<String>,
    scoring_func: Option<String>,
    routed_scaling_factor: Option<f64>,
    aux_loss_alpha: Option<f64>,
    #[serde(default)]
    mlp_only_layers: Vec<usize>,
    router_aux_loss_coef: Option<f64>,
    initializer_range: Option<f64>,
}

/// Base of the angles in all families but those that have their own.
fn rope_theta() -> f64 {
    10_000.0
}

/// In all families but those that have their own.
fn hidden_act() -> Activation {
    Activation::Silu
}

/// Attention masks of the layers of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LayerMasks {
    /// Causal.
    Full,
    /// Sliding windows.
    Sliding,
    /// Sliding windows, and full causal attention in the last of every so many layers.
    FullEvery(usize),
}

impl Raw {
    fn understood(self, kind: Kind) -> Result<LlamaConfig, Error> {
        self.refuse_unknown()?;
        let bias = |has_one: bool| if has_one { Bias::Zero } else { Bias::None };
        let (projection_bias, output_bias) = match kind {
            Kind::Qwen2 => (Bias::Zero, Bias::None),
            _ => (bias(self.attention_bias), bias(self.attention_bias)),
        };
        let scaling = self.rope().map_or(Ok(RopeScaling::None), |rope| {
            rope.scaling(self.max_position_embeddings, self.original_max_position_embeddings)
        })?;
        let theta = self.rope().and_then(|rope| rope.rope_theta).unwrap_or(self.rope_theta);
        let (sliding_window, global_every) = match self.layer_masks(kind)? {
            LayerMasks::Full => (None, None),
            LayerMasks::Sliding => (self.sliding_window, None),
            LayerMasks::FullEvery(every) => (self.sliding_window, Some(every)),
        };
        // Where windows have a base of their own, angles within them are not stretched.
        let (rope_theta, rope_scaling) = match self.rope_local_base_freq.filter(|_| sliding_window.is_some()) {
            Some(base) => (base, RopeScaling::None),
            None => (theta, scaling),
        };
        let global_layers = global_every.map(|every| GlobalLayers { every, rope_theta: theta, rope_scaling: scaling });
        let experts = self.experts(kind)?;
        let mla = self.mla(kind);
        Ok(LlamaConfig {
            vocab_size: self.vocab_size,
            hidden_size: self.hidden_size,
            intermediate_size: match experts {
                Some(_) => self.moe_intermediate_size.unwrap_or(self.intermediate_size),
                None => self.intermediate_size,
            },
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            num_key_value_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head_dim: match (mla, self.head_dim) {
                (Some(mla), _) => mla.head_dim(),
                (None, given) => given.unwrap_or(self.hidden_size / self.num_attention_heads.max(1)),
            },
            max_position_embeddings: self.max_position_embeddings,
            rms_norm_eps: self.rms_norm_eps,
            rope_theta,
            rope_scaling,
            hidden_act: self.hidden_act,
            projection_bias,
            output_bias,
            sliding_window,
            global_layers,
            head: if self.tie_word_embeddings { Head::Tied } else { Head::Own },
            experts,
            mla,
            style: self.style(kind, mla),
            initializer_range: self.initializer_range.unwrap_or(0.02),
        })
    }

    /// How angles are stretched: what older files say counts, as in transformers.
    fn rope(&self) -> Option<&RawRope> {
        self.rope_scaling.as_ref().or(self.rope_parameters.as_ref())
    }

    fn style(&self, kind: Kind, mla: Option<MlaSizes>) -> Style {
        match kind {
            // Scores grow with the angles' factor, as in the code that the models were published with.
            Kind::DeepSeek2 | Kind::DeepSeek3 => Style {
                score_scale: mla.map(|mla| {
                    let grown = self.rope().map_or(1.0, RawRope::score_growth);
                    grown / (mla.head_dim() as f64).sqrt()
                }),
                ..Style::default()
            },
            Kind::Qwen3 | Kind::Qwen3Moe => Style { head_norm: HeadNorm::Rms, ..Style::default() },
            Kind::Gemma3 => Style {
                head_norm: HeadNorm::Rms,
                norms: Norms::Around,
                norm_offset: 1.0,
                embedding_scale: (self.hidden_size as f64).sqrt(),
                score_scale: self.query_pre_attn_scalar.map(|scalar| scalar.sqrt().recip()),
            },
            _ => Style::default(),
        }
    }

    fn refuse_unknown(&self) -> Result<(), Error> {
        let unknown = [
            (self.mlp_bias, "feed-forwards with a bias (mlp_bias)"),
            (!self.mlp_only_layers.is_empty(), "layers without experts among others (mlp_only_layers)"),
            (self.decoder_sparse_step.unwrap_or(1) != 1, "experts in some layers only (decoder_sparse_step)"),
            (self.moe_layer_freq.unwrap_or(1) != 1, "experts in some layers only (moe_layer_freq)"),
            (self.attn_logit_softcapping.is_some(), "scores under a soft cap (attn_logit_softcapping)"),
            (self.final_logit_softcapping.is_some(), "logits under a soft cap (final_logit_softcapping)"),
            (self.use_bidirectional_attention, "attention to later positions (use_bidirectional_attention)"),
        ];
        match unknown.iter().find(|(is_asked, _)| *is_asked) {
            Some((_, what)) => Err(Error::config(format!("{what} are not supported"))),
            None => Ok(()),
        }
    }

    fn mla(&self, kind: Kind) -> Option<MlaSizes> {
        matches!(kind, Kind::DeepSeek2 | Kind::DeepSeek3).then(|| MlaSizes {
            q_lora_rank: self.q_lora_rank,
            kv_lora_rank: self.kv_lora_rank,
            qk_nope_head_dim: self.qk_nope_head_dim,
            qk_rope_head_dim: self.qk_rope_head_dim,
            v_head_dim: self.v_head_dim,
            pairs: if self.rope_interleave.unwrap_or(true) { RopePairs::Neighbours } else { RopePairs::Halves },
        })
    }

    fn experts(&self, kind: Kind) -> Result<Option<Experts>, Error> {
        let count = match kind {
            Kind::Mixtral => self.num_local_experts,
            Kind::Qwen3Moe => self.num_experts,
            Kind::DeepSeek2 | Kind::DeepSeek3 => self.n_routed_experts,
            _ => return Ok(None),
        };
        let is_deepseek = matches!(kind, Kind::DeepSeek2 | Kind::DeepSeek3);
        let inner = self.moe_intermediate_size.unwrap_or(self.intermediate_size);
        let first = self.first_k_dense_replace.filter(|count| is_deepseek && *count > 0);
        Ok(Some(Experts {
            count,
            chosen: self.num_experts_per_tok,
            routing: self.routing(kind)?,
            shared: self
                .n_shared_experts
                .filter(|count| is_deepseek && *count > 0)
                .map(|count| count.saturating_mul(inner)),
            dense: first.map(|count| DenseLayers { count, inner: self.intermediate_size }),
            load_balancing_loss: match kind {
                Kind::DeepSeek2 => self.aux_loss_alpha.unwrap_or(0.001),
                // Balanced by the router's bias.
                Kind::DeepSeek3 => 0.0,
                _ => self.router_aux_loss_coef.unwrap_or(0.001),
            },
            dispatch: Dispatch::Grouped,
        }))
    }

    fn routing(&self, kind: Kind) -> Result<Routing, Error> {
        let is_normed = match kind {
            Kind::Mixtral => true,
            // Its own code never does.
            Kind::DeepSeek2 if self.norm_topk_prob => {
                return Err(Error::config("norm_topk_prob of deepseek_v2 is not supported"));
            }
            _ => self.norm_topk_prob,
        };
        let weights = if is_normed { RouterWeights::Normalized } else { RouterWeights::Scores };
        let groups = |best: usize| match (self.n_group, self.topk_group) {
            (Some(count), Some(chosen)) if count > 1 => Some(ExpertGroups { count, chosen, best }),
            _ => None,
        };
        let scale = self.routed_scaling_factor.unwrap_or(1.0);
        let unknown =
            |what: &str, name: &str| Err(Error::config(format!("{what} `{name}` of experts is not supported")));
        match kind {
            Kind::DeepSeek2 => match (self.topk_method.as_deref().unwrap_or("greedy"), self.scoring_func.as_deref()) {
                (_, Some(other)) if other != "softmax" => unknown("scoring_func", other),
                ("greedy", _) => Ok(Routing { weights, scale, ..Routing::default() }),
                ("group_limited_greedy", _) => Ok(Routing { weights, scale, groups: groups(1), ..Routing::default() }),
                (other, _) => unknown("topk_method", other),
            },
            Kind::DeepSeek3 => match (self.topk_method.as_deref(), self.scoring_func.as_deref()) {
                (Some(other), _) if other != "noaux_tc" => unknown("topk_method", other),
                (_, Some(other)) if other != "sigmoid" => unknown("scoring_func", other),
                _ => Ok(Routing { scores: RouterScores::Sigmoid, weights, scale, groups: groups(2) }),
            },
            _ => Ok(Routing { weights, ..Routing::default() }),
        }
    }

    fn layer_masks(&self, kind: Kind) -> Result<LayerMasks, Error> {
        let layers = self.num_hidden_layers;
        if self.sliding_window.is_none() {
            return Ok(LayerMasks::Full);
        }
        let is_qwen = matches!(kind, Kind::Qwen2 | Kind::Qwen3 | Kind::Qwen3Moe);
        if is_qwen && self.use_sliding_window != Some(true) {
            return Ok(LayerMasks::Full);
        }
        if let Some(types) = &self.layer_types {
            return layer_masks_of(types, layers);
        }
        match kind {
            Kind::Llama => Ok(LayerMasks::Full),
            Kind::Mistral | Kind::Mixtral if self.use_sliding_window.unwrap_or(true) => Ok(LayerMasks::Sliding),
            Kind::Qwen2 | Kind::Qwen3 => match self.max_window_layers {
                0 => Ok(LayerMasks::Sliding),
                from if from >= layers => Ok(LayerMasks::Full),
                from => Err(Error::config(format!(
                    "sliding windows from layer {from} of {layers} on (max_window_layers) are not supported; only in all layers or in none"
                ))),
            },
            Kind::Qwen3Moe => Ok(LayerMasks::Sliding),
            Kind::Gemma3 => match self.sliding_window_pattern {
                0 => Err(Error::config("sliding_window_pattern is 0")),
                1 => Ok(LayerMasks::Full),
                every if every > layers => Ok(LayerMasks::Sliding),
                every => Ok(LayerMasks::FullEvery(every)),
            },
            _ => Ok(LayerMasks::Full),
        }
    }
}

/// What the types of layers that a file lists say of all.
fn layer_masks_of(types: &[String], layers: usize) -> Result<LayerMasks, Error> {
    if types.len() != layers {
        return Err(Error::config(format!("layer_types lists {} layers, but the model has {layers}", types.len())));
    }
    let mut is_full = Vec::with_capacity(types.len());
    for name in types {
        is_full.push(match name.as_str() {
            "full_attention" => true,
            "sliding_attention" => false,
            other => return Err(Error::config(format!("layers of type `{other}` (layer_types) are not supported"))),
        });
    }
    match is_full.iter().position(|is_full| *is_full) {
        None => Ok(LayerMasks::Sliding),
        Some(0) if is_full.iter().all(|is_full| *is_full) => Ok(LayerMasks::Full),
        Some(first)
            if first > 0 && is_full.iter().enumerate().all(|(n, full)| *full == ((n + 1) % (first + 1) == 0)) =>
        {
            Ok(LayerMasks::FullEvery(first + 1))
        }
        Some(_) => Err(Error::config(
            "layer_types is no regular order: the last of every so many layers must be the one with full_attention",
        )),
    }
}
