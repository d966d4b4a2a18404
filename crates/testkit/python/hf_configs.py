"""Configurations as transformers' own classes read them: the peer of crates/nn's reader of `config.json`.

    python hf_configs.py crates/nn/tests/data/hf_configs.json

Each case has what a file gives and what the class makes of it, every field with its value. Needs transformers alone,
no torch: `pip install transformers==5.22.2`.
"""
import json
import sys

import transformers

ROTARY = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
YARN = dict(type="yarn", factor=4.0, original_max_position_embeddings=16)
WINDOWS = ["sliding_attention", "full_attention"] * 2
# Multi-head latent attention and experts in groups.
LATENT = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, num_hidden_layers=5, kv_lora_rank=16,
              qk_rope_head_dim=8)

CASES = {
    "gpt2": [
        dict(n_embd=48, n_head=4),
        dict(hidden_size=48, num_attention_heads=4, num_hidden_layers=3, max_position_embeddings=40),
        dict(n_inner=100, activation_function="relu", torch_dtype="float32"),
    ],
    "llama": [
        dict(ROTARY, num_key_value_heads=None, head_dim=None),
        dict(ROTARY, rope_theta=500000.0, rope_scaling=LLAMA3, torch_dtype="bfloat16"),
        dict(ROTARY, rope_parameters=dict(LLAMA3, rope_theta=500000.0, original_max_position_embeddings=512)),
        dict(ROTARY, rope_scaling=dict(YARN, rope_type="yarn"), attention_bias=True, tie_word_embeddings=True),
        dict(hidden_act="gelu", rms_norm_eps=1e-5, rope_scaling=None, dtype="bfloat16"),
    ],
    "mistral": [
        dict(ROTARY, sliding_window=None),
        dict(num_attention_heads=16, rope_theta=1000000.0),
        dict(sliding_window=512, head_dim=64),
    ],
    "mixtral": [
        dict(ROTARY, num_experts=4),
        dict(num_local_experts=4, num_experts_per_tok=1, sliding_window=128),
        dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0), router_aux_loss_coef=0.02),
    ],
    "qwen2": [
        dict(ROTARY, num_key_value_heads=None),
        dict(ROTARY, use_sliding_window=True, max_window_layers=0),
        dict(ROTARY, sliding_window=16, layer_types=WINDOWS),
        dict(tie_word_embeddings=True, rope_theta=1000000.0),
    ],
    "qwen3": [
        dict(ROTARY),
        dict(ROTARY, use_sliding_window=True, sliding_window=16, layer_types=WINDOWS),
        dict(head_dim=64, rope_scaling=YARN, attention_bias=True),
    ],
    "qwen3_moe": [
        dict(ROTARY, num_experts=4, num_experts_per_tok=2),
        dict(ROTARY, num_local_experts=16, norm_topk_prob=True, moe_intermediate_size=32, head_dim=16),
        dict(use_sliding_window=True, mlp_only_layers=None),
    ],
    "gemma3_text": [
        dict(hidden_size=128, num_hidden_layers=8, sliding_window=16, sliding_window_pattern=4),
        dict(num_hidden_layers=6, rope_theta=500000.0, rope_local_base_freq=5000.0),
        dict(num_hidden_layers=6, rope_scaling=dict(rope_type="linear", factor=8.0), use_bidirectional_attention=None),
        dict(num_hidden_layers=4, layer_types=WINDOWS, rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=2.0, rope_theta=300000.0), sliding_attention=None)),
        dict(query_pre_attn_scalar=168, hidden_activation="relu", tie_word_embeddings=False),
    ],
    "gemma3": [
        dict(text_config=None),
        dict(text_config=dict(num_hidden_layers=12, hidden_size=256, model_type="gemma3_text"),
             tie_word_embeddings=False),
    ],
    "deepseek_v2": [
        dict(LATENT, num_experts_per_tok=2, q_lora_rank=None),
        dict(LATENT, num_experts_per_tok=2, first_k_dense_replace=1, topk_method="group_limited_greedy", n_group=4,
             topk_group=2, num_experts=16),
        dict(num_experts_per_tok=6, rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=0.707)),
    ],
    "deepseek_v3": [
        dict(LATENT, num_local_experts=32),
        dict(LATENT, first_k_dense_replace=0, n_shared_experts=2, norm_topk_prob=False, routed_scaling_factor=1.0),
        dict(rope_parameters=dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, mscale=1.0,
                                  mscale_all_dim=1.0, beta_fast=32, beta_slow=1, rope_theta=10000.0)),
    ],
    "gemma": [dict(ROTARY, hidden_act="gelu")],
    "gemma2": [dict(ROTARY, final_logit_softcapping=None, sliding_window=16)],
    "phi": [dict(ROTARY, partial_rotary_factor=0.25, rope_theta=1000.0)],
    "phi3": [dict(ROTARY, sliding_window=16, tie_word_embeddings=True)],
    "olmo2": [dict(ROTARY, rope_theta=500000.0)],
    "olmo3": [dict(ROTARY, num_hidden_layers=8, sliding_window=16)],
    "olmoe": [dict(ROTARY, num_local_experts=4, num_experts_per_tok=2)],
    "gpt_oss": [dict(ROTARY, num_experts=4, num_experts_per_tok=2, rope_theta=1000.0)],
    "llama4_text": [dict(ROTARY, num_hidden_layers=8, no_rope_layers=[], attn_temperature_tuning=False)],
    "llama4": [dict(text_config=dict(ROTARY, attention_chunk_size=None), tie_word_embeddings=False)],
    "granite": [dict(ROTARY, logits_scaling=8.0, embedding_multiplier=12.0, attention_multiplier=0.01)],
    "smollm3": [dict(ROTARY, no_rope_layer_interval=2)],
    "glm": [dict(ROTARY, attention_bias=False)],
    "glm4": [dict(ROTARY, head_dim=32)],
    "cohere": [dict(ROTARY, logit_scale=1.0)],
    "cohere2": [dict(ROTARY, sliding_window_pattern=2)],
    "starcoder2": [dict(ROTARY, use_bias=False, norm_epsilon=1e-6)],
    "stablelm": [dict(ROTARY, use_parallel_residual=True, partial_rotary_factor=0.5)],
    "gpt_neox": [dict(ROTARY, num_key_value_heads=None, rotary_pct=0.5, rotary_emb_base=1000.0)],
}


def main(path):
    cases = []
    for model_type, several in CASES.items():
        for given in [{}, *several]:
            # What a class does to its input stays out of the file.
            read = transformers.AutoConfig.for_model(model_type, **json.loads(json.dumps(given)))
            full = json.loads(json.dumps(read.to_dict(), default=str))
            for name in ("id2label", "label2id", "vision_config", "_name_or_path"):
                full.pop(name, None)
            cases.append(dict(given=dict(model_type=model_type, **given), full=full))
    with open(path, "w") as file:
        file.write('{"transformers": %s, "cases": [\n' % json.dumps(transformers.__version__))
        file.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
