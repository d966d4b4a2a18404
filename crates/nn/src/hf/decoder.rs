//! `config.json` of decoders with rotary positions: which of their keys mean which choices.

use serde_json::Value;

use crate::error::Error;
use crate::hf::defaults::{Kind, complete};
use crate::hf::masks::LayerMasks;
use crate::hf::raw::Raw;
use crate::hf::rope::RawRope;
use crate::layers::{
    Activation, Bias, Dispatch, ExpertGroups, Gating, MlaSizes, RopePairs, RopeScaling, RouterScores, RouterWeights,
    Routing, WeightedSide,
};
use crate::models::{DenseLayers, Experts, GlobalLayers, GlobalPositions, Head, InterleavedExperts, LlamaConfig};

/// Types of models that are read here.
pub(super) const KNOWN: [&str; 30] = [
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "deepseek_v2",
    "deepseek_v3",
    "phi",
    "phi3",
    "olmo2",
    "olmo3",
    "olmoe",
    "gpt_oss",
    "llama4_text",
    "llama4",
    "granite",
    "smollm3",
    "glm",
    "glm4",
    "cohere",
    "cohere2",
    "starcoder2",
    "stablelm",
    "gpt_neox",
    "falcon",
];

/// Reads a configuration of one of these families.
pub(super) fn read(kind: Kind, value: Value) -> Result<LlamaConfig, Error> {
    let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
    serde_json::from_value::<Raw>(complete(kind, value)?).map_err(malformed)?.understood(kind)
}

impl Raw {
    fn understood(self, kind: Kind) -> Result<LlamaConfig, Error> {
        self.refuse_unknown(kind)?;
        let bias = |has_one: bool| if has_one { Bias::Zero } else { Bias::None };
        let (projection_bias, output_bias) = match kind {
            Kind::Qwen2 => (Bias::Zero, Bias::None),
            Kind::Phi => (Bias::Zero, Bias::Zero),
            Kind::Phi3 => (Bias::None, Bias::None),
            Kind::Glm | Kind::Glm4 => (bias(self.attention_bias), Bias::None),
            Kind::StableLm => (bias(self.use_qkv_bias), Bias::None),
            Kind::Starcoder2 | Kind::Falcon => (bias(self.use_bias), bias(self.use_bias)),
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
        let local_base = match kind {
            // Windows of OLMo 3 have the same base.
            Kind::Olmo3 => Some(self.rope_local_base_freq.unwrap_or(theta)),
            _ => self.rope_local_base_freq,
        };
        // Where windows have a base of their own, angles within them are not stretched.
        let (rope_theta, rope_scaling) = match local_base.filter(|_| sliding_window.is_some()) {
            Some(base) => (base, RopeScaling::None),
            None => (theta, scaling),
        };
        let without = match kind {
            Kind::SmolLm3 | Kind::Llama4 => self.layers_without_positions()?,
            _ => None,
        };
        let (sliding_window, global_every) = match kind {
            Kind::SmolLm3 => (None, without),
            Kind::Llama4 => {
                self.check_chunks(without)?;
                (self.attention_chunk_size, without)
            }
            Kind::Cohere2 if sliding_window.is_none() => {
                return Err(Error::config(
                    "a cohere2 without sliding windows, and so without positions, is not supported",
                ));
            }
            _ => (sliding_window, global_every),
        };
        let positions = match kind {
            Kind::SmolLm3 | Kind::Cohere2 => GlobalPositions::None,
            Kind::Llama4 if self.attn_temperature_tuning.unwrap_or(true) => GlobalPositions::Grown {
                scale: self.attn_scale.unwrap_or(0.1),
                floor: self.floor_scale.unwrap_or(8192.0),
            },
            Kind::Llama4 => GlobalPositions::None,
            _ => GlobalPositions::Rotary,
        };
        let global_layers =
            global_every.map(|every| GlobalLayers { every, rope_theta: theta, rope_scaling: scaling, positions });
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
            num_key_value_heads: match kind {
                Kind::Falcon => self.falcon_groups(),
                _ => self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            },
            head_dim: match (mla, self.head_dim) {
                (Some(mla), _) => mla.head_dim(),
                (None, given) => given.unwrap_or(self.hidden_size / self.num_attention_heads.max(1)),
            },
            max_position_embeddings: self.max_position_embeddings,
            rms_norm_eps: self.rms_norm_eps,
            rope_theta,
            rope_scaling,
            long_rope: match self.rope() {
                Some(rope) => rope.long(self.max_position_embeddings, self.original_max_position_embeddings)?,
                None => None,
            },
            hidden_act: match (kind, self.hidden_act) {
                // What older files call so is the approximation.
                (Kind::Gemma, Activation::Gelu) => Activation::GeluTanh,
                (_, given) => given,
            },
            projection_bias,
            output_bias,
            sliding_window,
            global_layers,
            head: if self.tie_word_embeddings { Head::Tied } else { Head::Own },
            experts,
            mla,
            style: self.style(kind, mla)?,
            initializer_range: self.initializer_range.unwrap_or(0.02),
        })
    }

    /// How angles are stretched: what older files say counts, as in transformers.
    pub(super) fn rope(&self) -> Option<&RawRope> {
        self.rope_scaling.as_ref().or(self.rope_parameters.as_ref())
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
            Kind::Mixtral | Kind::GptOss | Kind::Llama4 => self.num_local_experts,
            Kind::Qwen3Moe | Kind::Olmoe => self.num_experts,
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
            shared: match kind {
                Kind::Llama4 => Some(inner),
                _ => self
                    .n_shared_experts
                    .filter(|count| is_deepseek && *count > 0)
                    .map(|count| count.saturating_mul(inner)),
            },
            interleaved: if kind == Kind::Llama4 { self.interleaved_experts()? } else { None },
            dense: first.map(|count| DenseLayers { count, inner: self.intermediate_size }),
            load_balancing_loss: match kind {
                Kind::DeepSeek2 => self.aux_loss_alpha.unwrap_or(0.001),
                // Balanced by the router's bias.
                Kind::DeepSeek3 => 0.0,
                _ => self.router_aux_loss_coef.unwrap_or(0.001),
            },
            dispatch: Dispatch::Grouped,
            bias: if kind == Kind::GptOss { Bias::Zero } else { Bias::None },
            gating: match kind {
                Kind::GptOss => Gating::Clamped {
                    limit: self.swiglu_limit.unwrap_or(7.0),
                    alpha: self.swiglu_alpha.unwrap_or(1.702),
                },
                _ => Gating::Product,
            },
        }))
    }

    /// Which layers of Llama 4 have experts; `None` where all have.
    fn interleaved_experts(&self) -> Result<Option<InterleavedExperts>, Error> {
        let layers = self.num_hidden_layers;
        let every = match &self.moe_layers {
            None => self.interleave_moe_layer_step.unwrap_or(1),
            Some(listed) => {
                let every = listed.first().map_or(0, |first| first.saturating_add(1));
                let is_regular = every > 0 && listed.iter().copied().eq((every - 1..layers).step_by(every));
                if !is_regular {
                    return Err(Error::config(
                        "moe_layers is no regular order: the last of every so many layers must be the one with experts",
                    ));
                }
                every
            }
        };
        match every {
            0 => Err(Error::config("interleave_moe_layer_step is 0")),
            1 => Ok(None),
            every => Ok(Some(InterleavedExperts { every, inner: self.intermediate_size_mlp.unwrap_or(16_384) })),
        }
    }

    fn routing(&self, kind: Kind) -> Result<Routing, Error> {
        let is_normed = match kind {
            Kind::Mixtral | Kind::GptOss => true,
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
                _ => Ok(Routing {
                    scores: RouterScores::Sigmoid,
                    weights,
                    scale,
                    groups: groups(2),
                    ..Routing::default()
                }),
            },
            Kind::GptOss => Ok(Routing { scores: RouterScores::SoftmaxWithBias, weights, ..Routing::default() }),
            Kind::Llama4 => Ok(Routing {
                scores: RouterScores::SigmoidWithoutBias,
                weights: RouterWeights::Scores,
                side: WeightedSide::Inputs,
                ..Routing::default()
            }),
            _ => Ok(Routing { weights, ..Routing::default() }),
        }
    }
}
