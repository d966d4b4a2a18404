//! Our paths and the names of families of models.

use crate::hf::layout::{Fused, Layout};

/// Our paths and their names; `*` stands for `weight` or `bias`.
pub(super) type Table = &'static [(&'static str, &'static str, Layout)];

pub(super) const GPT2: Table = &[
    ("token_embedding.weight", "transformer.wte.weight", Layout::Same),
    ("position_embedding.weight", "transformer.wpe.weight", Layout::Same),
    ("norm.*", "transformer.ln_f.*", Layout::Same),
    ("layers.attention_norm.*", "transformer.h.{layer}.ln_1.*", Layout::Same),
    ("layers.attention.query.*", "transformer.h.{layer}.attn.c_attn.*", Layout::Third(0)),
    ("layers.attention.key.*", "transformer.h.{layer}.attn.c_attn.*", Layout::Third(1)),
    ("layers.attention.value.*", "transformer.h.{layer}.attn.c_attn.*", Layout::Third(2)),
    ("layers.attention.output.*", "transformer.h.{layer}.attn.c_proj.*", Layout::Same),
    ("layers.feed_forward_norm.*", "transformer.h.{layer}.ln_2.*", Layout::Same),
    ("layers.feed_forward.up.*", "transformer.h.{layer}.mlp.c_fc.*", Layout::Same),
    ("layers.feed_forward.down.*", "transformer.h.{layer}.mlp.c_proj.*", Layout::Same),
];

pub(super) const LLAMA: Table = &[
    ("token_embedding.weight", "model.embed_tokens.weight", Layout::Same),
    ("norm.*", "model.norm.*", Layout::Same),
    ("lm_head.weight", "lm_head.weight", Layout::Transposed),
    ("lm_head.bias", "lm_head.bias", Layout::Same),
    ("layers.attention_norm.*", "model.layers.{layer}.input_layernorm.*", Layout::Same),
    ("layers.attention.query.weight", "model.layers.{layer}.self_attn.q_proj.weight", Layout::Transposed),
    ("layers.attention.key.weight", "model.layers.{layer}.self_attn.k_proj.weight", Layout::Transposed),
    ("layers.attention.value.weight", "model.layers.{layer}.self_attn.v_proj.weight", Layout::Transposed),
    ("layers.attention.output.weight", "model.layers.{layer}.self_attn.o_proj.weight", Layout::Transposed),
    ("layers.attention.query_norm.weight", "model.layers.{layer}.self_attn.q_norm.weight", Layout::Same),
    ("layers.attention.key_norm.weight", "model.layers.{layer}.self_attn.k_norm.weight", Layout::Same),
    ("layers.attention.query.bias", "model.layers.{layer}.self_attn.q_proj.bias", Layout::Same),
    ("layers.attention.key.bias", "model.layers.{layer}.self_attn.k_proj.bias", Layout::Same),
    ("layers.attention.value.bias", "model.layers.{layer}.self_attn.v_proj.bias", Layout::Same),
    ("layers.attention.output.bias", "model.layers.{layer}.self_attn.o_proj.bias", Layout::Same),
    ("layers.feed_forward_norm.*", "model.layers.{layer}.post_attention_layernorm.*", Layout::Same),
    ("layers.feed_forward.dense.gate.weight", "model.layers.{layer}.mlp.gate_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.up.weight", "model.layers.{layer}.mlp.up_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.down.weight", "model.layers.{layer}.mlp.down_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.gate.bias", "model.layers.{layer}.mlp.gate_proj.bias", Layout::Same),
    ("layers.feed_forward.dense.up.bias", "model.layers.{layer}.mlp.up_proj.bias", Layout::Same),
    ("layers.feed_forward.dense.down.bias", "model.layers.{layer}.mlp.down_proj.bias", Layout::Same),
    // StarCoder 2's.
    ("layers.feed_forward.plain.up.weight", "model.layers.{layer}.mlp.c_fc.weight", Layout::Transposed),
    ("layers.feed_forward.plain.up.bias", "model.layers.{layer}.mlp.c_fc.bias", Layout::Same),
    ("layers.feed_forward.plain.down.weight", "model.layers.{layer}.mlp.c_proj.weight", Layout::Transposed),
    ("layers.feed_forward.plain.down.bias", "model.layers.{layer}.mlp.c_proj.bias", Layout::Same),
];

pub(super) const MIXTRAL_EXPERTS: Table = &[
    (
        "layers.feed_forward.experts.router.weight",
        "model.layers.{layer}.block_sparse_moe.gate.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.gate",
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.down",
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.up",
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight",
        Layout::Transposed,
    ),
];

pub(super) const QWEN3_EXPERTS: Table = &[
    ("layers.feed_forward.experts.router.weight", "model.layers.{layer}.mlp.gate.weight", Layout::Transposed),
    (
        "layers.feed_forward.experts.gate",
        "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
        Layout::Transposed,
    ),
    ("layers.feed_forward.experts.up", "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", Layout::Transposed),
    (
        "layers.feed_forward.experts.down",
        "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight",
        Layout::Transposed,
    ),
];

/// Before those of Llama, which has no multi-head latent attention but the same names around it; experts are named as in Qwen 3.
pub(super) const DEEPSEEK: Table = &[
    ("layers.attention.query_down.weight", "model.layers.{layer}.self_attn.q_a_proj.weight", Layout::Transposed),
    ("layers.attention.query_down.bias", "model.layers.{layer}.self_attn.q_a_proj.bias", Layout::Same),
    ("layers.attention.query_norm.weight", "model.layers.{layer}.self_attn.q_a_layernorm.weight", Layout::Same),
    ("layers.attention.kv_down.weight", "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight", Layout::Transposed),
    ("layers.attention.kv_down.bias", "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.bias", Layout::Same),
    ("layers.attention.kv_norm.weight", "model.layers.{layer}.self_attn.kv_a_layernorm.weight", Layout::Same),
    ("layers.attention.kv_up.weight", "model.layers.{layer}.self_attn.kv_b_proj.weight", Layout::Transposed),
    ("layers.feed_forward.experts.router.bias", "model.layers.{layer}.mlp.gate.e_score_correction_bias", Layout::Same),
    ("layers.shared.gate.weight", "model.layers.{layer}.mlp.shared_experts.gate_proj.weight", Layout::Transposed),
    ("layers.shared.up.weight", "model.layers.{layer}.mlp.shared_experts.up_proj.weight", Layout::Transposed),
    ("layers.shared.down.weight", "model.layers.{layer}.mlp.shared_experts.down_proj.weight", Layout::Transposed),
];

/// Queries that come from a compressed vector have another name than those that come from the width.
pub(super) const DEEPSEEK_LOW_QUERY: Table =
    &[("layers.attention.query.weight", "model.layers.{layer}.self_attn.q_b_proj.weight", Layout::Transposed)];

/// Before those of Llama, which has one of these names for another norm.
pub(super) const GEMMA3_NORMS: Table = &[
    ("layers.attention_output_norm.weight", "model.layers.{layer}.post_attention_layernorm.weight", Layout::Same),
    ("layers.feed_forward_norm.weight", "model.layers.{layer}.pre_feedforward_layernorm.weight", Layout::Same),
    ("layers.feed_forward_output_norm.weight", "model.layers.{layer}.post_feedforward_layernorm.weight", Layout::Same),
];

/// Before those of Llama, which has the first of these names for another norm.
pub(super) const OLMO2_NORMS: Table = &[
    ("layers.attention_output_norm.weight", "model.layers.{layer}.post_attention_layernorm.weight", Layout::Same),
    ("layers.feed_forward_output_norm.weight", "model.layers.{layer}.post_feedforward_layernorm.weight", Layout::Same),
];

pub(super) const PHI: Table = &[
    ("norm.*", "model.final_layernorm.*", Layout::Same),
    ("layers.attention.output.weight", "model.layers.{layer}.self_attn.dense.weight", Layout::Transposed),
    ("layers.attention.output.bias", "model.layers.{layer}.self_attn.dense.bias", Layout::Same),
    ("layers.feed_forward.plain.up.weight", "model.layers.{layer}.mlp.fc1.weight", Layout::Transposed),
    ("layers.feed_forward.plain.up.bias", "model.layers.{layer}.mlp.fc1.bias", Layout::Same),
    ("layers.feed_forward.plain.down.weight", "model.layers.{layer}.mlp.fc2.weight", Layout::Transposed),
    ("layers.feed_forward.plain.down.bias", "model.layers.{layer}.mlp.fc2.bias", Layout::Same),
];

pub(super) const PHI3: Table = &[
    ("layers.attention.query.weight", "model.layers.{layer}.self_attn.qkv_proj.weight", Layout::Rows(Fused::Query)),
    ("layers.attention.key.weight", "model.layers.{layer}.self_attn.qkv_proj.weight", Layout::Rows(Fused::Key)),
    ("layers.attention.value.weight", "model.layers.{layer}.self_attn.qkv_proj.weight", Layout::Rows(Fused::Value)),
];

pub(super) const GATE_UP: Table = &[
    (
        "layers.feed_forward.dense.gate.weight",
        "model.layers.{layer}.mlp.gate_up_proj.weight",
        Layout::Rows(Fused::Half(0)),
    ),
    (
        "layers.feed_forward.dense.up.weight",
        "model.layers.{layer}.mlp.gate_up_proj.weight",
        Layout::Rows(Fused::Half(1)),
    ),
];

pub(super) const GLM4_NORMS: Table = &[
    ("layers.attention_output_norm.weight", "model.layers.{layer}.post_self_attn_layernorm.weight", Layout::Same),
    ("layers.feed_forward_output_norm.weight", "model.layers.{layer}.post_mlp_layernorm.weight", Layout::Same),
];

pub(super) const GPT_OSS: Table = &[
    ("layers.attention.sinks", "model.layers.{layer}.self_attn.sinks", Layout::Same),
    ("layers.feed_forward.experts.router.weight", "model.layers.{layer}.mlp.router.weight", Layout::Transposed),
    ("layers.feed_forward.experts.router.bias", "model.layers.{layer}.mlp.router.bias", Layout::Same),
];

/// Experts of gpt-oss as one tensor for all: rows of gates and of what they let through in turns.
pub(super) const GPT_OSS_EXPERTS: Table = &[
    (
        "layers.feed_forward.experts.gate",
        "model.layers.{layer}.mlp.experts.gate_up_proj",
        Layout::Columns(Fused::InTurns(0)),
    ),
    (
        "layers.feed_forward.experts.up",
        "model.layers.{layer}.mlp.experts.gate_up_proj",
        Layout::Columns(Fused::InTurns(1)),
    ),
    ("layers.feed_forward.experts.down", "model.layers.{layer}.mlp.experts.down_proj", Layout::Same),
    (
        "layers.feed_forward.experts.biases.gate",
        "model.layers.{layer}.mlp.experts.gate_up_proj_bias",
        Layout::Columns(Fused::InTurns(0)),
    ),
    (
        "layers.feed_forward.experts.biases.up",
        "model.layers.{layer}.mlp.experts.gate_up_proj_bias",
        Layout::Columns(Fused::InTurns(1)),
    ),
    ("layers.feed_forward.experts.biases.down", "model.layers.{layer}.mlp.experts.down_proj_bias", Layout::Same),
];

/// Experts of gpt-oss one by one, as the reader of MXFP4 names them.
pub(super) const GPT_OSS_SINGLE_EXPERTS: Table = &[
    (
        "layers.feed_forward.experts.biases.gate",
        "model.layers.{layer}.mlp.experts.{expert}.gate_proj.bias",
        Layout::Same,
    ),
    ("layers.feed_forward.experts.biases.up", "model.layers.{layer}.mlp.experts.{expert}.up_proj.bias", Layout::Same),
    (
        "layers.feed_forward.experts.biases.down",
        "model.layers.{layer}.mlp.experts.{expert}.down_proj.bias",
        Layout::Same,
    ),
];

/// Before those of Gemma 3, whose norms it has, and of Llama.
pub(super) const GEMMA4: Table = &[
    ("per_layer.embedding.weight", "model.embed_tokens_per_layer.weight", Layout::Same),
    ("per_layer.projection.weight", "model.per_layer_model_projection.weight", Layout::Transposed),
    ("per_layer.norm.weight", "model.per_layer_projection_norm.weight", Layout::Same),
    ("layers.scale", "model.layers.{layer}.layer_scalar", Layout::Same),
    ("layers.dense.gate.weight", "model.layers.{layer}.mlp.gate_proj.weight", Layout::Transposed),
    ("layers.dense.up.weight", "model.layers.{layer}.mlp.up_proj.weight", Layout::Transposed),
    ("layers.dense.down.weight", "model.layers.{layer}.mlp.down_proj.weight", Layout::Transposed),
    ("layers.per_layer.input_gate.weight", "model.layers.{layer}.per_layer_input_gate.weight", Layout::Transposed),
    ("layers.per_layer.projection.weight", "model.layers.{layer}.per_layer_projection.weight", Layout::Transposed),
    ("layers.per_layer.norm.weight", "model.layers.{layer}.post_per_layer_input_norm.weight", Layout::Same),
    ("layers.beside.experts.router.weight", "model.layers.{layer}.router.proj.weight", Layout::Transposed),
    ("layers.beside.experts.inputs.router_scale", "model.layers.{layer}.router.scale", Layout::Same),
    ("layers.beside.experts.inputs.expert_scale", "model.layers.{layer}.router.per_expert_scale", Layout::Same),
    (
        "layers.beside.experts.inputs.norm.weight",
        "model.layers.{layer}.pre_feedforward_layernorm_2.weight",
        Layout::Same,
    ),
    ("layers.beside.experts.gate", "model.layers.{layer}.experts.gate_up_proj", Layout::Rows(Fused::Half(0))),
    ("layers.beside.experts.up", "model.layers.{layer}.experts.gate_up_proj", Layout::Rows(Fused::Half(1))),
    ("layers.beside.experts.down", "model.layers.{layer}.experts.down_proj", Layout::Transposed),
    (
        "layers.beside.dense_output_norm.weight",
        "model.layers.{layer}.post_feedforward_layernorm_1.weight",
        Layout::Same,
    ),
    ("layers.beside.output_norm.weight", "model.layers.{layer}.post_feedforward_layernorm_2.weight", Layout::Same),
];

pub(super) const LLAMA4: Table = &[
    // Layers without experts among others.
    ("layers.feed_forward.dense.gate.weight", "model.layers.{layer}.feed_forward.gate_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.up.weight", "model.layers.{layer}.feed_forward.up_proj.weight", Layout::Transposed),
    ("layers.feed_forward.dense.down.weight", "model.layers.{layer}.feed_forward.down_proj.weight", Layout::Transposed),
    (
        "layers.feed_forward.experts.router.weight",
        "model.layers.{layer}.feed_forward.router.weight",
        Layout::Transposed,
    ),
    (
        "layers.feed_forward.experts.gate",
        "model.layers.{layer}.feed_forward.experts.gate_up_proj",
        Layout::Columns(Fused::Half(0)),
    ),
    (
        "layers.feed_forward.experts.up",
        "model.layers.{layer}.feed_forward.experts.gate_up_proj",
        Layout::Columns(Fused::Half(1)),
    ),
    ("layers.feed_forward.experts.down", "model.layers.{layer}.feed_forward.experts.down_proj", Layout::Same),
    (
        "layers.shared.gate.weight",
        "model.layers.{layer}.feed_forward.shared_expert.gate_proj.weight",
        Layout::Transposed,
    ),
    ("layers.shared.up.weight", "model.layers.{layer}.feed_forward.shared_expert.up_proj.weight", Layout::Transposed),
    (
        "layers.shared.down.weight",
        "model.layers.{layer}.feed_forward.shared_expert.down_proj.weight",
        Layout::Transposed,
    ),
];

pub(super) const GPT_NEOX: Table = &[
    ("token_embedding.weight", "gpt_neox.embed_in.weight", Layout::Same),
    ("norm.*", "gpt_neox.final_layer_norm.*", Layout::Same),
    ("lm_head.weight", "embed_out.weight", Layout::Transposed),
    ("layers.attention_norm.*", "gpt_neox.layers.{layer}.input_layernorm.*", Layout::Same),
    ("layers.feed_forward_norm.*", "gpt_neox.layers.{layer}.post_attention_layernorm.*", Layout::Same),
    ("layers.attention.query.*", "gpt_neox.layers.{layer}.attention.query_key_value.*", Layout::Rows(Fused::Query)),
    ("layers.attention.key.*", "gpt_neox.layers.{layer}.attention.query_key_value.*", Layout::Rows(Fused::Key)),
    ("layers.attention.value.*", "gpt_neox.layers.{layer}.attention.query_key_value.*", Layout::Rows(Fused::Value)),
    ("layers.attention.output.weight", "gpt_neox.layers.{layer}.attention.dense.weight", Layout::Transposed),
    ("layers.attention.output.bias", "gpt_neox.layers.{layer}.attention.dense.bias", Layout::Same),
    ("layers.feed_forward.plain.up.weight", "gpt_neox.layers.{layer}.mlp.dense_h_to_4h.weight", Layout::Transposed),
    ("layers.feed_forward.plain.up.bias", "gpt_neox.layers.{layer}.mlp.dense_h_to_4h.bias", Layout::Same),
    ("layers.feed_forward.plain.down.weight", "gpt_neox.layers.{layer}.mlp.dense_4h_to_h.weight", Layout::Transposed),
    ("layers.feed_forward.plain.down.bias", "gpt_neox.layers.{layer}.mlp.dense_4h_to_h.bias", Layout::Same),
];

pub(super) const FALCON: Table = &[
    ("token_embedding.weight", "transformer.word_embeddings.weight", Layout::Same),
    ("norm.*", "transformer.ln_f.*", Layout::Same),
    ("lm_head.weight", "lm_head.weight", Layout::Transposed),
    ("layers.attention.query.*", "transformer.h.{layer}.self_attention.query_key_value.*", Layout::Rows(Fused::Query)),
    ("layers.attention.key.*", "transformer.h.{layer}.self_attention.query_key_value.*", Layout::Rows(Fused::Key)),
    ("layers.attention.value.*", "transformer.h.{layer}.self_attention.query_key_value.*", Layout::Rows(Fused::Value)),
    ("layers.attention.output.weight", "transformer.h.{layer}.self_attention.dense.weight", Layout::Transposed),
    ("layers.attention.output.bias", "transformer.h.{layer}.self_attention.dense.bias", Layout::Same),
    ("layers.feed_forward.plain.up.weight", "transformer.h.{layer}.mlp.dense_h_to_4h.weight", Layout::Transposed),
    ("layers.feed_forward.plain.up.bias", "transformer.h.{layer}.mlp.dense_h_to_4h.bias", Layout::Same),
    ("layers.feed_forward.plain.down.weight", "transformer.h.{layer}.mlp.dense_4h_to_h.weight", Layout::Transposed),
    ("layers.feed_forward.plain.down.bias", "transformer.h.{layer}.mlp.dense_4h_to_h.bias", Layout::Same),
];

pub(super) const FALCON_ONE_NORM: Table = &[
    ("layers.attention_norm.*", "transformer.h.{layer}.input_layernorm.*", Layout::Same),
    ("layers.feed_forward_norm.*", "transformer.h.{layer}.post_attention_layernorm.*", Layout::Same),
];

pub(super) const FALCON_TWO_NORMS: Table = &[
    ("layers.attention_norm.*", "transformer.h.{layer}.ln_attn.*", Layout::Same),
    ("layers.feed_forward_norm.*", "transformer.h.{layer}.ln_mlp.*", Layout::Same),
];

pub(super) const BERT: Table = &[
    ("token_embedding.weight", "embeddings.word_embeddings.weight", Layout::Same),
    ("position_embedding.weight", "embeddings.position_embeddings.weight", Layout::Same),
    ("type_embedding.weight", "embeddings.token_type_embeddings.weight", Layout::Same),
    ("embedding_norm.*", "embeddings.LayerNorm.*", Layout::Same),
    ("layers.attention.query.weight", "encoder.layer.{layer}.attention.self.query.weight", Layout::Transposed),
    ("layers.attention.query.bias", "encoder.layer.{layer}.attention.self.query.bias", Layout::Same),
    ("layers.attention.key.weight", "encoder.layer.{layer}.attention.self.key.weight", Layout::Transposed),
    ("layers.attention.key.bias", "encoder.layer.{layer}.attention.self.key.bias", Layout::Same),
    ("layers.attention.value.weight", "encoder.layer.{layer}.attention.self.value.weight", Layout::Transposed),
    ("layers.attention.value.bias", "encoder.layer.{layer}.attention.self.value.bias", Layout::Same),
    ("layers.attention.output.weight", "encoder.layer.{layer}.attention.output.dense.weight", Layout::Transposed),
    ("layers.attention.output.bias", "encoder.layer.{layer}.attention.output.dense.bias", Layout::Same),
    ("layers.attention_norm.*", "encoder.layer.{layer}.attention.output.LayerNorm.*", Layout::Same),
    ("layers.feed_forward.up.weight", "encoder.layer.{layer}.intermediate.dense.weight", Layout::Transposed),
    ("layers.feed_forward.up.bias", "encoder.layer.{layer}.intermediate.dense.bias", Layout::Same),
    ("layers.feed_forward.down.weight", "encoder.layer.{layer}.output.dense.weight", Layout::Transposed),
    ("layers.feed_forward.down.bias", "encoder.layer.{layer}.output.dense.bias", Layout::Same),
    ("layers.feed_forward_norm.*", "encoder.layer.{layer}.output.LayerNorm.*", Layout::Same),
];

/// Before those of BERT, which has the same names for embeddings.
pub(super) const DISTILBERT: Table = &[
    ("layers.attention.query.weight", "transformer.layer.{layer}.attention.q_lin.weight", Layout::Transposed),
    ("layers.attention.query.bias", "transformer.layer.{layer}.attention.q_lin.bias", Layout::Same),
    ("layers.attention.key.weight", "transformer.layer.{layer}.attention.k_lin.weight", Layout::Transposed),
    ("layers.attention.key.bias", "transformer.layer.{layer}.attention.k_lin.bias", Layout::Same),
    ("layers.attention.value.weight", "transformer.layer.{layer}.attention.v_lin.weight", Layout::Transposed),
    ("layers.attention.value.bias", "transformer.layer.{layer}.attention.v_lin.bias", Layout::Same),
    ("layers.attention.output.weight", "transformer.layer.{layer}.attention.out_lin.weight", Layout::Transposed),
    ("layers.attention.output.bias", "transformer.layer.{layer}.attention.out_lin.bias", Layout::Same),
    ("layers.attention_norm.*", "transformer.layer.{layer}.sa_layer_norm.*", Layout::Same),
    ("layers.feed_forward.up.weight", "transformer.layer.{layer}.ffn.lin1.weight", Layout::Transposed),
    ("layers.feed_forward.up.bias", "transformer.layer.{layer}.ffn.lin1.bias", Layout::Same),
    ("layers.feed_forward.down.weight", "transformer.layer.{layer}.ffn.lin2.weight", Layout::Transposed),
    ("layers.feed_forward.down.bias", "transformer.layer.{layer}.ffn.lin2.bias", Layout::Same),
    ("layers.feed_forward_norm.*", "transformer.layer.{layer}.output_layer_norm.*", Layout::Same),
];

pub(super) const MODERNBERT: Table = &[
    ("token_embedding.weight", "embeddings.tok_embeddings.weight", Layout::Same),
    ("embedding_norm.*", "embeddings.norm.*", Layout::Same),
    ("norm.*", "final_norm.*", Layout::Same),
    ("layers.attention_norm.*", "layers.{layer}.attn_norm.*", Layout::Same),
    ("layers.attention.query.*", "layers.{layer}.attn.Wqkv.*", Layout::Rows(Fused::Query)),
    ("layers.attention.key.*", "layers.{layer}.attn.Wqkv.*", Layout::Rows(Fused::Key)),
    ("layers.attention.value.*", "layers.{layer}.attn.Wqkv.*", Layout::Rows(Fused::Value)),
    ("layers.attention.output.weight", "layers.{layer}.attn.Wo.weight", Layout::Transposed),
    ("layers.attention.output.bias", "layers.{layer}.attn.Wo.bias", Layout::Same),
    ("layers.feed_forward_norm.*", "layers.{layer}.mlp_norm.*", Layout::Same),
    ("layers.feed_forward.gate.*", "layers.{layer}.mlp.Wi.*", Layout::Rows(Fused::Half(0))),
    ("layers.feed_forward.up.*", "layers.{layer}.mlp.Wi.*", Layout::Rows(Fused::Half(1))),
    ("layers.feed_forward.down.weight", "layers.{layer}.mlp.Wo.weight", Layout::Transposed),
    ("layers.feed_forward.down.bias", "layers.{layer}.mlp.Wo.bias", Layout::Same),
];

pub(super) const WHISPER: Table = &[
    (
        "encoder.layers.attention.query.weight",
        "model.encoder.layers.{layer}.self_attn.q_proj.weight",
        Layout::Transposed,
    ),
    ("encoder.layers.attention.query.bias", "model.encoder.layers.{layer}.self_attn.q_proj.bias", Layout::Same),
    ("encoder.layers.attention.key.weight", "model.encoder.layers.{layer}.self_attn.k_proj.weight", Layout::Transposed),
    (
        "encoder.layers.attention.value.weight",
        "model.encoder.layers.{layer}.self_attn.v_proj.weight",
        Layout::Transposed,
    ),
    ("encoder.layers.attention.value.bias", "model.encoder.layers.{layer}.self_attn.v_proj.bias", Layout::Same),
    (
        "encoder.layers.attention.output.weight",
        "model.encoder.layers.{layer}.self_attn.out_proj.weight",
        Layout::Transposed,
    ),
    ("encoder.layers.attention.output.bias", "model.encoder.layers.{layer}.self_attn.out_proj.bias", Layout::Same),
    ("encoder.layers.attention_norm.*", "model.encoder.layers.{layer}.self_attn_layer_norm.*", Layout::Same),
    ("encoder.layers.feed_forward.up.weight", "model.encoder.layers.{layer}.fc1.weight", Layout::Transposed),
    ("encoder.layers.feed_forward.up.bias", "model.encoder.layers.{layer}.fc1.bias", Layout::Same),
    ("encoder.layers.feed_forward.down.weight", "model.encoder.layers.{layer}.fc2.weight", Layout::Transposed),
    ("encoder.layers.feed_forward.down.bias", "model.encoder.layers.{layer}.fc2.bias", Layout::Same),
    ("encoder.layers.feed_forward_norm.*", "model.encoder.layers.{layer}.final_layer_norm.*", Layout::Same),
    ("encoder.norm.*", "model.encoder.layer_norm.*", Layout::Same),
    (
        "decoder.layers.attention.query.weight",
        "model.decoder.layers.{layer}.self_attn.q_proj.weight",
        Layout::Transposed,
    ),
    ("decoder.layers.attention.query.bias", "model.decoder.layers.{layer}.self_attn.q_proj.bias", Layout::Same),
    ("decoder.layers.attention.key.weight", "model.decoder.layers.{layer}.self_attn.k_proj.weight", Layout::Transposed),
    (
        "decoder.layers.attention.value.weight",
        "model.decoder.layers.{layer}.self_attn.v_proj.weight",
        Layout::Transposed,
    ),
    ("decoder.layers.attention.value.bias", "model.decoder.layers.{layer}.self_attn.v_proj.bias", Layout::Same),
    (
        "decoder.layers.attention.output.weight",
        "model.decoder.layers.{layer}.self_attn.out_proj.weight",
        Layout::Transposed,
    ),
    ("decoder.layers.attention.output.bias", "model.decoder.layers.{layer}.self_attn.out_proj.bias", Layout::Same),
    ("decoder.layers.attention_norm.*", "model.decoder.layers.{layer}.self_attn_layer_norm.*", Layout::Same),
    (
        "decoder.layers.cross_attention.query.weight",
        "model.decoder.layers.{layer}.encoder_attn.q_proj.weight",
        Layout::Transposed,
    ),
    (
        "decoder.layers.cross_attention.query.bias",
        "model.decoder.layers.{layer}.encoder_attn.q_proj.bias",
        Layout::Same,
    ),
    (
        "decoder.layers.cross_attention.key.weight",
        "model.decoder.layers.{layer}.encoder_attn.k_proj.weight",
        Layout::Transposed,
    ),
    (
        "decoder.layers.cross_attention.value.weight",
        "model.decoder.layers.{layer}.encoder_attn.v_proj.weight",
        Layout::Transposed,
    ),
    (
        "decoder.layers.cross_attention.value.bias",
        "model.decoder.layers.{layer}.encoder_attn.v_proj.bias",
        Layout::Same,
    ),
    (
        "decoder.layers.cross_attention.output.weight",
        "model.decoder.layers.{layer}.encoder_attn.out_proj.weight",
        Layout::Transposed,
    ),
    (
        "decoder.layers.cross_attention.output.bias",
        "model.decoder.layers.{layer}.encoder_attn.out_proj.bias",
        Layout::Same,
    ),
    ("decoder.layers.cross_attention_norm.*", "model.decoder.layers.{layer}.encoder_attn_layer_norm.*", Layout::Same),
    ("decoder.layers.feed_forward.up.weight", "model.decoder.layers.{layer}.fc1.weight", Layout::Transposed),
    ("decoder.layers.feed_forward.up.bias", "model.decoder.layers.{layer}.fc1.bias", Layout::Same),
    ("decoder.layers.feed_forward.down.weight", "model.decoder.layers.{layer}.fc2.weight", Layout::Transposed),
    ("decoder.layers.feed_forward.down.bias", "model.decoder.layers.{layer}.fc2.bias", Layout::Same),
    ("decoder.layers.feed_forward_norm.*", "model.decoder.layers.{layer}.final_layer_norm.*", Layout::Same),
    ("decoder.norm.*", "model.decoder.layer_norm.*", Layout::Same),
    ("encoder.first.kernel", "model.encoder.conv1.weight", Layout::Kernel),
    ("encoder.first.bias", "model.encoder.conv1.bias", Layout::Same),
    ("encoder.second.kernel", "model.encoder.conv2.weight", Layout::Kernel),
    ("encoder.second.bias", "model.encoder.conv2.bias", Layout::Same),
    ("encoder.position_embedding", "model.encoder.embed_positions.weight", Layout::Same),
    ("decoder.token_embedding.weight", "model.decoder.embed_tokens.weight", Layout::Same),
    ("decoder.position_embedding.weight", "model.decoder.embed_positions.weight", Layout::Same),
];
