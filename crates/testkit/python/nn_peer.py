"""What PyTorch and transformers make of models, optimizers and recurrent layers: the peer of the tests of `nn` and `infer`.

usage: nn_peer.py (models|answers|newer|embeddings|speech|multimodal|classifiers|clip|optimizers|recurrent|statistics) FOLDER
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file

# What most of the models below have.
SMALL = dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)

FALCON = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, bos_token_id=1,
              eos_token_id=2)

PHI3_LONG = dict(SMALL, max_position_embeddings=96, pad_token_id=0, tie_word_embeddings=False, rope_scaling=dict(
    type="longrope", short_factor=[1.0, 1.05, 1.2, 1.4], long_factor=[1.1, 2.5, 6.0, 12.0]))

MODELS = {
    "gpt2-small": ("gpt2", dict(vocab_size=97, n_positions=40, n_embd=48, n_layer=3, n_head=4), 2, 23),
    "gpt2-124m": ("gpt2", dict(), 1, 24),
    "llama": (
        "llama",
        dict(
            vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=8,
            num_key_value_heads=2, max_position_embeddings=256, rope_theta=10000.0, tie_word_embeddings=False,
            rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=32),
        ),
        2, 70,
    ),
    "llama-tied-bias": (
        "llama",
        dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, head_dim=16, max_position_embeddings=64, tie_word_embeddings=True,
             attention_bias=True, rope_scaling=dict(rope_type="linear", factor=2.0)),
        2, 17,
    ),
    "qwen2": (
        "qwen2",
        dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True),
        2, 17,
    ),
    "mistral": (
        "mistral",
        dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, sliding_window=5, tie_word_embeddings=False),
        2, 21,
    ),
    "mixtral": (
        "mixtral",
        dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, num_local_experts=4, num_experts_per_tok=2,
             sliding_window=None, tie_word_embeddings=False),
        2, 19,
    ),
    "qwen3": (
        "qwen3",
        dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=12, max_position_embeddings=64, tie_word_embeddings=True,
             rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)),
        2, 17,
    ),
    "qwen3-window": (
        "qwen3",
        dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False,
             attention_bias=True, use_sliding_window=True, sliding_window=6, max_window_layers=0),
        2, 17,
    ),
    "qwen3-moe": (
        "qwen3_moe",
        dict(vocab_size=61, hidden_size=32, intermediate_size=96, moe_intermediate_size=24, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64, num_experts=6,
             num_experts_per_tok=3, norm_topk_prob=True, tie_word_embeddings=False),
        2, 18,
    ),
    "qwen3-moe-scores": (
        "qwen3_moe",
        dict(vocab_size=61, hidden_size=32, intermediate_size=96, moe_intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=4, head_dim=8, max_position_embeddings=64, num_experts=4,
             num_experts_per_tok=2, norm_topk_prob=False, tie_word_embeddings=True),
        2, 15,
    ),
    # Two turns of three layers and a rest of two.
    "gemma3": (
        "gemma3_text",
        dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=8, num_attention_heads=4,
             num_key_value_heads=2, head_dim=12, max_position_embeddings=64, sliding_window=5,
             sliding_window_pattern=3, query_pre_attn_scalar=20, rope_theta=1000.0, rope_local_base_freq=100.0,
             rope_scaling=dict(rope_type="linear", factor=4.0)),
        2, 21,
    ),
    # Whole turns only; windows longer than the sequence in one, fewer layers than a turn in the other.
    "gemma3-whole": (
        "gemma3_text",
        dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2,
             num_key_value_heads=1, head_dim=16, max_position_embeddings=64, sliding_window=64,
             sliding_window_pattern=2, query_pre_attn_scalar=16),
        2, 21,
    ),
    "gemma3-short": (
        "gemma3_text",
        dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2,
             num_key_value_heads=1, head_dim=16, max_position_embeddings=64, sliding_window=7,
             query_pre_attn_scalar=16),
        2, 21,
    ),
    "deepseek-v2": (
        "deepseek_v2",
        dict(vocab_size=61, hidden_size=32, intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8,
             qk_rope_head_dim=4, v_head_dim=6, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2,
             first_k_dense_replace=1, topk_method="greedy", max_position_embeddings=64),
        2, 19,
    ),
    "deepseek-v2-groups": (
        "deepseek_v2",
        dict(vocab_size=61, hidden_size=32, intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=4,
             qk_rope_head_dim=4, v_head_dim=12, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
             first_k_dense_replace=0, topk_method="group_limited_greedy", n_group=4, topk_group=2,
             routed_scaling_factor=4.0, max_position_embeddings=64),
        2, 19,
    ),
    "deepseek-v3": (
        "deepseek_v3",
        dict(vocab_size=61, hidden_size=32, intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=5,
             num_attention_heads=4, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=8,
             qk_rope_head_dim=8, v_head_dim=6, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
             first_k_dense_replace=2, n_group=4, topk_group=2, routed_scaling_factor=2.5, attention_bias=True,
             max_position_embeddings=64, tie_word_embeddings=False,
             rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.8,
                               mscale_all_dim=1.2, beta_fast=32, beta_slow=1)),
        2, 23,
    ),
    "gemma": ("gemma", dict(SMALL, head_dim=12), 2, 17),
    "gemma2": (
        "gemma2",
        dict(SMALL, num_hidden_layers=3, head_dim=12, sliding_window=5, query_pre_attn_scalar=20,
             attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
        2, 21,
    ),
    "phi": ("phi", dict(SMALL, num_key_value_heads=4, partial_rotary_factor=0.5, tie_word_embeddings=False), 2, 17),
    "phi3": (
        "phi3",
        dict(SMALL, partial_rotary_factor=0.75, sliding_window=7, tie_word_embeddings=False, pad_token_id=0),
        2, 17,
    ),
    "olmo2": ("olmo2", dict(SMALL, attention_bias=True, tie_word_embeddings=False, pad_token_id=0), 2, 17),
    "olmo3": (
        "olmo3",
        dict(SMALL, num_hidden_layers=5, sliding_window=5, rope_theta=500.0, tie_word_embeddings=False, pad_token_id=0,
             rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)),
        2, 21,
    ),
    "olmoe": (
        "olmoe",
        dict(SMALL, num_key_value_heads=4, num_experts=6, num_experts_per_tok=3, tie_word_embeddings=False, pad_token_id=0),
        2, 17,
    ),
    "gpt-oss": (
        "gpt_oss",
        dict(SMALL, num_hidden_layers=3, head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
             tie_word_embeddings=False,
             rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                               original_max_position_embeddings=16)),
        2, 21,
    ),
    "llama4": (
        "llama4_text",
        dict(SMALL, num_hidden_layers=5, head_dim=8, num_local_experts=4, num_experts_per_tok=1, attention_chunk_size=6,
             floor_scale=4, attn_scale=0.5, tie_word_embeddings=False, pad_token_id=0),
        2, 21,
    ),
    # Experts in every second layer.
    "llama4-interleaved": (
        "llama4_text",
        dict(SMALL, num_hidden_layers=5, head_dim=8, num_local_experts=4, num_experts_per_tok=2, interleave_moe_layer_step=2,
             intermediate_size_mlp=36, attention_chunk_size=6, floor_scale=4, attn_scale=0.5, use_qk_norm=False,
             tie_word_embeddings=False, pad_token_id=0),
        2, 21,
    ),
    "granite": (
        "granite",
        dict(SMALL, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.2, logits_scaling=2.0,
             mlp_bias=True),
        2, 17,
    ),
    "smollm3": ("smollm3", dict(SMALL, num_hidden_layers=5, pad_token_id=0), 2, 17),
    "glm": ("glm", dict(SMALL, head_dim=8, attention_bias=True, tie_word_embeddings=False, pad_token_id=0), 2, 17),
    "glm4": ("glm4", dict(SMALL, head_dim=8, attention_bias=True, tie_word_embeddings=False, pad_token_id=0), 2, 17),
    "cohere": ("cohere", dict(SMALL, logit_scale=0.5), 2, 17),
    "cohere2": ("cohere2", dict(SMALL, num_hidden_layers=5, sliding_window=5, logit_scale=0.5), 2, 21),
    "starcoder2": ("starcoder2", dict(SMALL, sliding_window=5), 2, 21),
    "stablelm": (
        "stablelm",
        dict(SMALL, partial_rotary_factor=0.5, use_qkv_bias=True, tie_word_embeddings=False),
        2, 17,
    ),
    "stablelm-parallel": (
        "stablelm",
        dict(SMALL, partial_rotary_factor=0.5, use_parallel_residual=True, tie_word_embeddings=False),
        2, 17,
    ),
    "gpt-neox": (
        "gpt_neox",
        {name: value for name, value in SMALL.items() if name != "num_key_value_heads"} | dict(rotary_pct=0.5, tie_word_embeddings=False),
        2, 17,
    ),
    # Sequences within the context trained on, and beyond it.
    "phi3-long": ("phi3", dict(PHI3_LONG, original_max_position_embeddings=48), 2, 17),
    "phi3-longer": ("phi3", dict(PHI3_LONG, original_max_position_embeddings=8), 2, 21),
    "falcon": ("falcon", dict(FALCON), 2, 17),
    "falcon-new": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=40), 2, 17),
    "falcon-sequential": (
        "falcon", dict(FALCON, multi_query=False, parallel_attn=False, bias=True, tie_word_embeddings=False), 2, 17,
    ),
}

VISION = dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)

# Models of images, of which the model of text alone answers here.
OF_IMAGES = {
    "gemma3-vision": (
        "gemma3",
        dict(text_config=dict(MODELS["gemma3-whole"][1]), vision_config=dict(VISION), mm_tokens_per_image=4),
        2, 17,
    ),
    "llama4-vision": (
        "llama4",
        dict(text_config=dict(MODELS["llama4"][1]),
             vision_config=dict(VISION, vision_output_dim=16, projector_input_dim=8, projector_output_dim=8)),
        2, 17,
    ),
    "qwen2-vl": (
        "qwen2_vl",
        dict(text_config=dict(MODELS["qwen2"][1], rope_scaling=dict(type="mrope", mrope_section=[1, 1, 2])),
             vision_config=dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, mlp_ratio=2, patch_size=4)),
        2, 17,
    ),
}

GEMMA4 = dict(SMALL, head_dim=8, global_head_dim=16, sliding_window=5, vocab_size_per_layer_input=61, pad_token_id=0)

# Models that a newer version of transformers has.
NEWER = {
    # The last layers share keys and values, and have wider feed-forwards.
    "gemma4": (
        "gemma4_text",
        dict(GEMMA4, num_hidden_layers=7, hidden_size_per_layer_input=6, num_kv_shared_layers=3, use_double_wide_mlp=True,
             final_logit_softcapping=3.0,
             layer_types=[f"{kind}_attention" for kind in "sliding sliding full sliding sliding sliding full".split()]),
        2, 21,
    ),
    # Values are keys where attention is full, of fewer heads.
    "gemma4-keys": (
        "gemma4_text",
        dict(GEMMA4, num_hidden_layers=7, hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1,
             tie_word_embeddings=False, rope_parameters=dict(
                 full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=500.0, factor=2.0),
                 sliding_attention=dict(rope_type="default", rope_theta=100.0))),
        2, 21,
    ),
    "gemma4-experts": (
        "gemma4_text",
        dict(GEMMA4, num_hidden_layers=3, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=4, top_k_experts=2,
             moe_intermediate_size=12),
        2, 17,
    ),
    "gemma4-vision": (
        "gemma4",
        dict(text_config=dict(GEMMA4, num_hidden_layers=2, hidden_size_per_layer_input=6),
             vision_config=dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2,
                                num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=16)),
        2, 17,
    ),
}


def made(name):
    """A model of random weights, and tokens for it."""
    import transformers

    kind, sizes, batch, positions = (MODELS | OF_IMAGES | NEWER)[name]
    reads_images = "text_config" in sizes
    torch.manual_seed(len(name))
    config = transformers.AutoConfig.for_model(kind, **sizes)
    config._attn_implementation = "eager"
    of = transformers.AutoModelForImageTextToText if reads_images else transformers.AutoModelForCausalLM
    model = of.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Biases and norms start at constants, which would hide a mistake in their names.
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif sizes:
                parameter.mul_(4.0)
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.endswith(("e_score_correction_bias", "layer_scalar")):
                buffer.add_(0.2 * torch.randn_like(buffer))
        vocabulary = sizes["text_config"]["vocab_size"] if reads_images else config.vocab_size
        tokens = torch.randint(0, vocabulary, (batch, positions), dtype=torch.int32)
    return model, tokens


def models(folder):
    for name in MODELS:
        model, tokens = made(name)
        with torch.no_grad():
            logits = model(tokens.long()).logits.float()
        place = os.path.join(folder, name)
        # The Llama is saved in shards.
        model.save_pretrained(place, max_shard_size="100KB" if name == "llama" else "5GB")
        save_file({"tokens": tokens.contiguous(), "logits": logits.contiguous()}, os.path.join(place, "peer.safetensors"))


def newer(folder):
    answers(folder, NEWER)


def answers(folder, models=MODELS | OF_IMAGES):
    """Greedy tokens after prompts of several lengths, two of which begin alike, with their log probabilities."""
    names = list(models)
    for name in names:
        # The second begins with other angles than it ends with.
        if name in ("gpt2-124m", "phi3-longer"):
            continue
        model, tokens = made(name)
        first = tokens[0].tolist()
        prompts = [first[:1], first[:9], first[:16], first[:9] + tokens[1, :3].tolist(), tokens[1, :5].tolist()]
        new_tokens = 12
        # The schedule is tested enough: of these only the model is new.
        if name not in MODELS or names.index(name) > names.index("deepseek-v3"):
            prompts, new_tokens = prompts[2:], 8
        lines = []
        for prompt in prompts:
            with torch.no_grad():
                out = model.generate(
                    torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                    max_new_tokens=new_tokens, eos_token_id=None, pad_token_id=0, return_dict_in_generate=True, output_logits=True,
                )
            chosen = out.sequences[0, len(prompt):].tolist()
            numbers = [logits[0].float().log_softmax(-1)[token].item() for logits, token in zip(out.logits, chosen)]
            lines.append({"prompt": prompt, "tokens": chosen, "log_probabilities": numbers})
        place = os.path.join(folder, name)
        model.save_pretrained(place)
        with open(os.path.join(place, "answers.json"), "w") as file:
            json.dump(lines, file)


BERT = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
            max_position_embeddings=24)

# Models, how their hidden states become vectors, and whether these have length 1.
EMBEDDERS = {
    "bert": ("bert", BERT, "cls_token", True),
    "roberta": ("roberta", dict(BERT, type_vocab_size=1), "mean_tokens", False),
    "xlm-roberta": ("xlm-roberta", dict(BERT, type_vocab_size=1, hidden_act="gelu_new"), "mean_tokens", True),
    "distilbert": (
        "distilbert",
        dict(vocab_size=61, dim=32, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=24),
        "max_tokens", False,
    ),
    "modernbert": (
        "modernbert",
        dict(vocab_size=61, hidden_size=32, num_hidden_layers=6, num_attention_heads=4, intermediate_size=40,
             max_position_embeddings=24, local_attention=6, pad_token_id=1, global_rope_theta=100.0,
             local_rope_theta=50.0, reference_compile=False),
        "mean_tokens", True,
    ),
    "qwen3": ("qwen3", dict(MODELS["qwen3"][1]), "lasttoken", True),
}


def embeddings(folder):
    """Vectors of texts, each computed alone, in folders as sentence-transformers writes them."""
    import tokenizers
    import transformers

    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]"] + [f"w{n}" for n in range(57)]
    texts = ["w3 w9", "w50", " ".join(f"w{n * 7 % 57}" for n in range(17)), "w9 w3 other w1 w1"]
    for name, (kind, sizes, pooling, is_normalized) in EMBEDDERS.items():
        torch.manual_seed(len(name))
        config = transformers.AutoConfig.for_model(kind, **sizes)
        config._attn_implementation = "eager"
        model = transformers.AutoModel.from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(4.0) if parameter.ndim > 1 else parameter.add_(0.1 * torch.randn_like(parameter))
        place = os.path.join(folder, name)
        model.save_pretrained(place)
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        tokenizer.save(os.path.join(place, "tokenizer.json"))
        lines = []
        for text in texts:
            tokens = tokenizer.encode(text).ids
            with torch.no_grad():
                states = model(torch.tensor([tokens])).last_hidden_state[0]
            vector = {"cls_token": states[0], "mean_tokens": states.mean(0), "max_tokens": states.max(0).values,
                      "lasttoken": states[-1]}[pooling]
            if is_normalized:
                vector = torch.nn.functional.normalize(vector, dim=0)
            lines.append({"text": text, "tokens": tokens, "vector": vector.tolist()})
        modules = ["Transformer", "Pooling"] + ["Normalize"] * is_normalized
        kinds = [{"idx": n, "name": str(n), "path": f"{n}_{module}" if n else "", "type": f"sentence_transformers.models.{module}"}
                 for n, module in enumerate(modules)]
        os.makedirs(os.path.join(place, "1_Pooling"))
        modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")}
        written = {"modules.json": kinds, "1_Pooling/config.json": {"word_embedding_dimension": 32, **modes},
                   "sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": False}, "answers.json": lines}
        for path, value in written.items():
            with open(os.path.join(place, path), "w") as file:
                json.dump(value, file)


def speech(folder):
    """A small Whisper, two seconds of sound, its features, and greedy tokens after a prefix for each second."""
    import struct

    import transformers

    torch.manual_seed(11)
    config = transformers.WhisperConfig(
        vocab_size=61, num_mel_bins=20, encoder_layers=2, encoder_attention_heads=4, decoder_layers=3, decoder_attention_heads=2,
        decoder_ffn_dim=40, encoder_ffn_dim=48, d_model=32, max_source_positions=50, max_target_positions=24,
        decoder_start_token_id=5, eos_token_id=60, pad_token_id=60, bos_token_id=60, suppress_tokens=[7], begin_suppress_tokens=[8])
    config._attn_implementation = "eager"
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            # Large embeddings, which are the head too, would say each token again.
            else:
                parameter.mul_(2.0 if "embed_" in name else 14.0)
    model.save_pretrained(folder)
    with open(os.path.join(folder, "generation_config.json"), "w") as file:
        json.dump({"decoder_start_token_id": 5, "eos_token_id": 60, "suppress_tokens": [7], "begin_suppress_tokens": [8],
                   "lang_to_id": {"<|en|>": 10, "<|de|>": 11}, "task_to_id": {"transcribe": 12, "translate": 13},
                   "no_timestamps_token_id": 14}, file)
    n = torch.arange(28000) / 16000
    wave = 0.4 * torch.sin(2 * torch.pi * (300 + 900 * n) * n) + 0.05 * torch.randn(28000)
    samples = (wave.clamp(-1, 1) * 32767).round().short()
    data = samples.numpy().tobytes()
    with open(os.path.join(folder, "sound.wav"), "wb") as file:
        file.write(struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16,
                               b"data", len(data)))
        file.write(data)
    extractor = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
    sound = samples.numpy().astype("float32") / 32768
    chunks = []
    for part in (sound[:16000], sound[16000:]):
        features = extractor(part, sampling_rate=16000, return_tensors="pt").input_features
        tokens, prefix = [], [5, 11, 12, 14]
        with torch.no_grad():
            first = model(features, decoder_input_ids=torch.tensor([[5]])).logits[0, -1]
            while len(tokens) < 12:
                logits = model(features, decoder_input_ids=torch.tensor([prefix + tokens])).logits[0, -1]
                logits[[7] if tokens else [7, 8]] = -torch.inf
                token = int(logits.argmax())
                if token == 60:
                    break
                tokens.append(token)
        chunks.append({"tokens": tokens, "language": "de" if first[11] > first[10] else "en"})
    with open(os.path.join(folder, "answers.json"), "w") as file:
        json.dump(chunks, file)


def png(path, pixels):
    """Writes rows of pixels, uint8 [height, width, 3], as a PNG file."""
    import struct
    import zlib

    height, width, _ = pixels.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


# Means and deviations, as the classes of image processors have them.
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
HALF = ([0.5] * 3, [0.5] * 3)
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def images(side, count, means):
    """Pictures of the size that a model takes, and the pixels that it gets of them."""
    pixels = torch.randint(0, 256, (count, side, side, 3), dtype=torch.uint8)
    mean, deviation = (torch.tensor(part, dtype=torch.float64) for part in means)
    values = ((pixels.double() / 255 - mean) / deviation).float()
    return pixels, values.permute(0, 3, 1, 2).contiguous()


def shaken(model, factor=6.0):
    """Parameters as a training would leave them: far from what they begin with."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.mul_(factor)


def written(place, answers, processor):
    for path, value in {"answers.json": answers, "preprocessor_config.json": processor}.items():
        with open(os.path.join(place, path), "w") as file:
            json.dump(value, file)


def multimodal(folder):
    """Small LLaVAs, pictures, and greedy tokens after prompts with none, one and two of them."""
    import tokenizers
    import transformers

    tower = dict(hidden_size=24, intermediate_size=36, num_hidden_layers=3, num_attention_heads=4, image_size=12, patch_size=4)
    text = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=96, bos_token_id=1, eos_token_id=2)
    cases = {
        "clip": (dict(tower, model_type="clip_vision_model", projection_dim=16), dict(text, model_type="llama"), {}, CLIP),
        "siglip": (dict(tower, model_type="siglip_vision_model"), dict(text, model_type="qwen2", tie_word_embeddings=True),
                   dict(vision_feature_select_strategy="full", vision_feature_layer=-1, multimodal_projector_bias=False), HALF),
    }
    for number, (name, (tower, text, more, means)) in enumerate(cases.items()):
        torch.manual_seed(20 + number)
        config = transformers.LlavaConfig(vision_config=tower, text_config=text, image_token_index=60, **more)
        config._attn_implementation = "eager"
        model = transformers.LlavaForConditionalGeneration(config).eval()
        shaken(model)
        place = os.path.join(folder, name)
        model.save_pretrained(place)
        pixels, values = images(12, 2, means)
        for n, picture in enumerate(pixels):
            png(os.path.join(place, f"{n}.png"), picture)
        words = {"[unk]": 0, "<s>": 1, "</s>": 2, **{f"w{n}": n for n in range(3, 60)}, "<image>": 60}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[unk]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        tokenizer.add_special_tokens(["<image>"])
        tokenizer.save(os.path.join(place, "tokenizer.json"))
        template = ("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
                    "{% if p.type == 'image' %}<image> {% else %}{{ p.text }} {% endif %}{% endfor %}{% endif %}{% endfor %}")
        with open(os.path.join(place, "tokenizer_config.json"), "w") as file:
            json.dump(dict(chat_template=template), file)
        each = 9
        answers = []
        for text_of, used in (("w5 w6 w7", []), ("w5 <image> w6 w7", [0]), ("w5 <image> w6 w7", [1]),
                              ("<image> w9 <image> w10", [0, 1]), ("w5 <image> w6 w7 w8 w9", [0])):
            prompt = [token for word in text_of.split() for token in [words[word]] * (each if word == "<image>" else 1)]
            tokens = []
            with torch.no_grad():
                while len(tokens) < 8:
                    given = dict(pixel_values=values[used]) if used else {}
                    logits = model(input_ids=torch.tensor([prompt + tokens]), **given).logits[0, -1]
                    tokens.append(int(logits.argmax()))
            answers.append(dict(text=text_of, images=used, prompt=prompt, tokens=tokens))
        kind = "CLIPImageProcessor" if name == "clip" else "SiglipImageProcessor"
        size = dict(size=dict(shortest_edge=12), crop_size=12) if name == "clip" else dict(size=dict(height=12, width=12))
        written(place, answers, dict(image_processor_type=kind, **size))


def classifiers(folder):
    """A small ViT and a small ConvNeXt, pictures, and their logits."""
    import transformers

    labels = {str(n): f"kind {n}" for n in range(5)}
    vit = transformers.ViTConfig(hidden_size=24, intermediate_size=36, num_hidden_layers=3, num_attention_heads=4, image_size=12,
                                 patch_size=4, id2label=labels)
    convnext = transformers.ConvNextConfig(hidden_sizes=[8, 12, 16], depths=[1, 2, 1], image_size=32, num_stages=3, id2label=labels)
    for number, (name, config, kind, means) in enumerate((("vit", vit, transformers.ViTForImageClassification, HALF),
                                                          ("convnext", convnext, transformers.ConvNextForImageClassification, IMAGENET))):
        torch.manual_seed(30 + number)
        config._attn_implementation = "eager"
        model = kind(config).eval()
        shaken(model)
        place = os.path.join(folder, name)
        model.save_pretrained(place)
        pixels, values = images(config.image_size, 3, means)
        for n, picture in enumerate(pixels):
            png(os.path.join(place, f"{n}.png"), picture)
        with torch.no_grad():
            logits = model(values).logits
        side = config.image_size
        size = dict(size=dict(height=side, width=side)) if name == "vit" else dict(
            size=dict(shortest_edge=side), crop_pct=1.0, image_mean=IMAGENET[0], image_std=IMAGENET[1])
        processor = dict(image_processor_type="ViTImageProcessor" if name == "vit" else "ConvNextImageProcessor", **size)
        written(place, torch.softmax(logits, -1).tolist(), processor)


def clip(folder):
    """A small CLIP, pictures and texts, and the vectors of both."""
    import tokenizers
    import transformers

    torch.manual_seed(40)
    tower = dict(hidden_size=24, intermediate_size=36, num_hidden_layers=3, num_attention_heads=4, image_size=12, patch_size=4)
    text = dict(vocab_size=64, hidden_size=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=2,
                max_position_embeddings=16, bos_token_id=61, eos_token_id=63)
    config = transformers.CLIPConfig(text_config=text, vision_config=tower, projection_dim=16)
    config._attn_implementation = "eager"
    model = transformers.CLIPModel(config).eval()
    shaken(model)
    model.save_pretrained(folder)
    words = {"[unk]": 0, **{f"w{n}": n for n in range(1, 61)}, "<s>": 61, "</s>": 63}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[unk]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A </s>",
                                                                        special_tokens=[("<s>", 61), ("</s>", 63)])
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    pixels, values = images(12, 2, CLIP)
    for n, picture in enumerate(pixels):
        png(os.path.join(folder, f"{n}.png"), picture)
    texts = ["w5 w6 w7", "w9", "w1 w2 w3 w4 w5 w6"]
    unit = lambda vector: (vector / vector.norm()).tolist()
    with torch.no_grad():
        of_texts = [unit(model.get_text_features(input_ids=torch.tensor([tokenizer.encode(text).ids]))[0]) for text in texts]
        of_images = [unit(vector) for vector in model.get_image_features(pixel_values=values)]
    written(folder, dict(texts=[dict(text=text, vector=vector) for text, vector in zip(texts, of_texts)], images=of_images),
            dict(image_processor_type="CLIPImageProcessor", size=dict(shortest_edge=12), crop_size=12))


def lion(parameters, learning_rate, beta1, beta2, decay):
    momenta = [torch.zeros_like(parameter) for parameter in parameters]

    def step():
        with torch.no_grad():
            for parameter, momentum in zip(parameters, momenta):
                direction = (beta1 * momentum + (1 - beta1) * parameter.grad).sign()
                parameter.sub_(learning_rate * (direction + decay * parameter))
                momentum.mul_(beta2).add_(parameter.grad, alpha=1 - beta2)

    return step


def optimizers(folder):
    steps = 6
    # A matrix that is tall, one that is wide, and a vector.
    shapes = [(6, 4), (3, 8), (5,)]
    generator = torch.Generator().manual_seed(3)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    grads = [[torch.randn(shape, generator=generator) * 0.5 for shape in shapes] for _ in range(steps)]
    makers = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1).step,
        "sgd-momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01).step,
        "sgd-nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True).step,
        "adam": lambda p: torch.optim.Adam(p, lr=0.05).step,
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.9, 0.95), weight_decay=0.1).step,
        "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.05, weight_decay=0.02).step,
        "lion": lambda p: lion(p, 0.02, 0.9, 0.99, 0.1),
        # Torch's matrices are [out, in], ours [in, out]; its Muon takes matrices only.
        "muon": lambda p: torch.optim.Muon(p, lr=0.05, weight_decay=0.1).step,
    }
    tensors = {}
    for n, tensor in enumerate(start):
        tensors[f"start.{n}"] = tensor
        for step in range(steps):
            tensors[f"grad.{step}.{n}"] = grads[step][n]
    for name, make in makers.items():
        turned = name == "muon"
        turn = lambda t: t.T.contiguous() if turned else t.clone()
        count = 2 if turned else len(shapes)
        parameters = [torch.nn.Parameter(turn(tensor)) for tensor in start[:count]]
        step = make(parameters)
        for at in range(steps):
            for parameter, grad in zip(parameters, grads[at]):
                parameter.grad = turn(grad)
            step()
        for n, parameter in enumerate(parameters):
            tensors[f"{name}.{n}"] = turn(parameter.detach())
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(folder, "optimizers.safetensors"))


def recurrent(folder):
    torch.manual_seed(5)
    x = torch.randn(3, 7, 5)
    tensors = {"x": x}
    for name, layer in (("lstm", torch.nn.LSTM(5, 6, batch_first=True)), ("gru", torch.nn.GRU(5, 6, batch_first=True))):
        with torch.no_grad():
            tensors[f"{name}.out"] = layer(x)[0]
        for ours, theirs in (("input", "ih"), ("recurrent", "hh")):
            tensors[f"{name}.{ours}.weight"] = getattr(layer, f"weight_{theirs}_l0").detach().T
            tensors[f"{name}.{ours}.bias"] = getattr(layer, f"bias_{theirs}_l0").detach()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(folder, "recurrent.safetensors"))


class SmallResNet(torch.nn.Module):
    """A stem, a block of two convolutions whose shortcut is a third, a mean over the image, a head."""

    def __init__(self):
        super().__init__()
        conv = lambda a, b, size, stride: torch.nn.Conv2d(a, b, size, stride, padding=size // 2, bias=False)
        shapes = {"stem": (2, 4, 3, 1), "blocks.0.path.0": (4, 4, 3, 1), "blocks.0.path.1": (4, 4, 3, 1)}
        self.places = list(shapes)
        self.convs = torch.nn.ModuleList([conv(*shape) for shape in shapes.values()])
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(shape[1]) for shape in shapes.values()])
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        at = lambda n, x: self.norms[n](self.convs[n](x))
        x = at(0, x).relu()
        x = (at(2, at(1, x).relu()) + x).relu()
        return self.head(x.mean((2, 3)))


def statistics(folder):
    tensors = {}
    for parts in (1, 2):
        torch.manual_seed(9)
        model = SmallResNet()
        for place, conv, norm in zip(model.places, model.convs, model.norms):
            tensors[f"params.{place}.convolution.kernel"] = conv.weight.detach().permute(2, 3, 1, 0).clone()
            tensors[f"params.{place}.norm.norm.weight"] = norm.weight.detach().clone()
            tensors[f"params.{place}.norm.norm.bias"] = norm.bias.detach().clone()
        tensors["params.head.weight"] = model.head.weight.detach().T.clone()
        tensors["params.head.bias"] = model.head.bias.detach().clone()
        step = torch.optim.SGD(model.parameters(), lr=0.1)
        for n in range(5):
            images = 1.5 * torch.randn(8, 2, 6, 6) + 0.5 * n
            labels = torch.randint(0, 3, (8,))
            tensors[f"images.{n}"], tensors[f"labels.{n}"] = images.permute(0, 2, 3, 1), labels.int()
            step.zero_grad()
            for image, label in zip(images.chunk(parts), labels.chunk(parts)):
                (torch.nn.functional.cross_entropy(model(image), label) / parts).backward()
            step.step()
        for n, norm in enumerate(model.norms):
            tensors[f"parts{parts}.carried.{n}.mean"] = norm.running_mean
            tensors[f"parts{parts}.carried.{n}.variance"] = norm.running_var
        with torch.no_grad():
            tensors[f"parts{parts}.logits"] = model.eval()(images)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(folder, "statistics.safetensors"))


if __name__ == "__main__":
    torch.set_num_threads(2)
    {"models": models, "answers": answers, "newer": newer, "embeddings": embeddings, "speech": speech, "multimodal": multimodal, "classifiers": classifiers, "clip": clip, "optimizers": optimizers, "recurrent": recurrent, "statistics": statistics}[sys.argv[1]](sys.argv[2])
