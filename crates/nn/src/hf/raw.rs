//! `config.json` of decoders with rotary positions as it is written.

use serde::Deserialize;

use crate::hf::rope::RawRope;
use crate::layers::Activation;

/// As the file has it, with what it leaves out.
#[derive(Deserialize)]
pub(super) struct Raw {
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) intermediate_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) num_key_value_heads: Option<usize>,
    pub(super) head_dim: Option<usize>,
    pub(super) max_position_embeddings: usize,
    pub(super) rms_norm_eps: f64,
    #[serde(default = "rope_theta")]
    pub(super) rope_theta: f64,
    pub(super) rope_scaling: Option<RawRope>,
    pub(super) rope_parameters: Option<RawRope>,
    pub(super) original_max_position_embeddings: Option<usize>,
    pub(super) partial_rotary_factor: Option<f64>,
    #[serde(default = "hidden_act")]
    pub(super) hidden_act: Activation,
    #[serde(default)]
    pub(super) attention_bias: bool,
    #[serde(default)]
    pub(super) mlp_bias: bool,
    #[serde(default)]
    pub(super) tie_word_embeddings: bool,
    pub(super) sliding_window: Option<usize>,
    pub(super) use_sliding_window: Option<bool>,
    #[serde(default)]
    pub(super) max_window_layers: usize,
    #[serde(default)]
    pub(super) sliding_window_pattern: usize,
    pub(super) layer_types: Option<Vec<String>>,
    pub(super) rope_local_base_freq: Option<f64>,
    pub(super) query_pre_attn_scalar: Option<f64>,
    pub(super) attn_logit_softcapping: Option<f64>,
    pub(super) final_logit_softcapping: Option<f64>,
    #[serde(default)]
    pub(super) use_bidirectional_attention: bool,
    #[serde(default)]
    pub(super) num_local_experts: usize,
    #[serde(default)]
    pub(super) num_experts: usize,
    #[serde(default)]
    pub(super) num_experts_per_tok: usize,
    pub(super) moe_intermediate_size: Option<usize>,
    #[serde(default)]
    pub(super) norm_topk_prob: bool,
    pub(super) decoder_sparse_step: Option<usize>,
    pub(super) moe_layer_freq: Option<usize>,
    #[serde(default)]
    pub(super) kv_lora_rank: usize,
    pub(super) q_lora_rank: Option<usize>,
    #[serde(default)]
    pub(super) qk_nope_head_dim: usize,
    #[serde(default)]
    pub(super) qk_rope_head_dim: usize,
    #[serde(default)]
    pub(super) v_head_dim: usize,
    pub(super) rope_interleave: Option<bool>,
    #[serde(default)]
    pub(super) n_routed_experts: usize,
    pub(super) n_shared_experts: Option<usize>,
    pub(super) first_k_dense_replace: Option<usize>,
    pub(super) n_group: Option<usize>,
    pub(super) topk_group: Option<usize>,
    pub(super) topk_method: Option<String>,
    pub(super) scoring_func: Option<String>,
    pub(super) routed_scaling_factor: Option<f64>,
    pub(super) aux_loss_alpha: Option<f64>,
    #[serde(default)]
    pub(super) mlp_only_layers: Vec<usize>,
    pub(super) router_aux_loss_coef: Option<f64>,
    pub(super) initializer_range: Option<f64>,
    // Of Phi, StableLM, StarCoder 2 and GPT-NeoX.
    #[serde(default)]
    pub(super) qk_layernorm: bool,
    #[serde(default)]
    pub(super) use_qkv_bias: bool,
    #[serde(default)]
    pub(super) use_bias: bool,
    #[serde(default)]
    pub(super) use_parallel_residual: bool,
    // Of Cohere, Granite and OLMoE.
    #[serde(default)]
    pub(super) use_qk_norm: bool,
    pub(super) logit_scale: Option<f64>,
    pub(super) embedding_multiplier: Option<f64>,
    pub(super) residual_multiplier: Option<f64>,
    pub(super) attention_multiplier: Option<f64>,
    pub(super) logits_scaling: Option<f64>,
    pub(super) clip_qkv: Option<f64>,
    // Of SmolLM 3 and Llama 4.
    pub(super) no_rope_layers: Option<Vec<u8>>,
    pub(super) no_rope_layer_interval: Option<usize>,
    pub(super) attention_chunk_size: Option<usize>,
    pub(super) attn_temperature_tuning: Option<bool>,
    pub(super) floor_scale: Option<f64>,
    pub(super) attn_scale: Option<f64>,
    pub(super) interleave_moe_layer_step: Option<usize>,
    pub(super) moe_layers: Option<Vec<usize>>,
    pub(super) intermediate_size_mlp: Option<usize>,
    // Of Falcon.
    #[serde(default)]
    pub(super) alibi: bool,
    #[serde(default)]
    pub(super) new_decoder_architecture: bool,
    pub(super) multi_query: Option<bool>,
    pub(super) parallel_attn: Option<bool>,
    pub(super) num_ln_in_parallel_attn: Option<usize>,
    // Of gpt-oss.
    pub(super) swiglu_alpha: Option<f64>,
    pub(super) swiglu_limit: Option<f64>,
}

/// Base of the angles in all families but those that have their own.
fn rope_theta() -> f64 {
    10_000.0
}

/// In all families but those that have their own.
fn hidden_act() -> Activation {
    Activation::Silu
}
