"""Model FLOPs of one training step by the conventions published measurements use."""

from __future__ import annotations

from dataclasses import dataclass

from models import Model, kv_donor, layer_kinds, moe_layers

# One forward pass and two passes' worth of work backward.
_PASSES = 3


# Attention over the whole square or band; half of that; what a causal mask leaves of each layer's square or band.
CONVENTIONS = ("full", "halved", "causal")


@dataclass(frozen=True)
class StepFlops:
    """FLOPs of a step for the given sequences, split as the conventions split them."""

    weights: float
    attention_full: float
    attention_causal: float

    def total(self, convention: str) -> float:
        """By one of `CONVENTIONS`."""
        attention = {
            "full": self.attention_full,
            "halved": self.attention_full / 2,
            "causal": self.attention_causal,
        }
        return self.weights + attention[convention]

    def nearest(self, published: float) -> str:
        """The convention that comes closest to a published total."""
        return min(CONVENTIONS, key=lambda c: abs(self.total(c) - published))


def step_flops(model: Model, sequences: float, seq: int, parameters: int) -> StepFlops:
    """FLOPs of a step over `sequences` sequences; `parameters` counts only for the 2023 convention of 6 N."""
    tokens = sequences * seq
    if model["family"] == "parallel2023":
        full = 4 * sequences * seq**2 * model["q_heads"] * model["head_dim"] * model["layers"]
        return StepFlops(_PASSES * 2 * parameters * tokens, _PASSES * full, _PASSES * full / 2)
    per_token = 2.0 * model["emb"] * model["vocab"]
    full = causal = 0.0
    for layer, kind in enumerate(layer_kinds(model)):
        weights, scores_full, scores_causal = _attention(model, layer, kind, seq)
        per_token += weights
        full += scores_full * sequences
        causal += scores_causal * sequences
    per_token += _feed_forward(model)
    if model.get("hidden_size_per_layer_input"):
        per_token += 3 * 2.0 * model["layers"] * model["emb"] * model["hidden_size_per_layer_input"]
    return StepFlops(_PASSES * per_token * tokens, _PASSES * full, _PASSES * causal)


def _attention(model: Model, layer: int, kind: str, seq: int) -> tuple[float, float, float]:
    """Projections per token, then scores and values per sequence: all of the square, and what the mask leaves."""
    emb, heads = model["emb"], model["q_heads"]
    if model.get("mla"):
        qk = model["qk_nope_head_dim"] + model["qk_rope_head_dim"]
        v, q_rank, kv_rank = model["v_head_dim"], model.get("q_lora_rank", 0), model["kv_lora_rank"]
        query = emb * q_rank + q_rank * heads * qk if q_rank else emb * heads * qk
        key_value = emb * (kv_rank + model["qk_rope_head_dim"]) + kv_rank * heads * (model["qk_nope_head_dim"] + v)
        full = 2.0 * seq**2 * heads * (qk + v)
        return 2.0 * (query + key_value + emb * heads * v), full, full / 2
    head, kv_heads, kv_count = model["head_dim"], model["kv_heads"], 2
    if kind == "global" and model.get("global_head_dim"):
        head, kv_heads = model["global_head_dim"], model.get("global_num_kv_heads") or kv_heads
        kv_count = 1 if model.get("share_kv_projections") else 2
    if model.get("num_kv_shared_layers") and kv_donor(model, layer) is not None:
        kv_count = 0
    weights = 2.0 * emb * head * (2 * heads + kv_count * kv_heads)
    full = 4.0 * seq**2 * heads * head
    causal = full / 2
    if kind == "local" and model["family"] == "llama4":
        chunk = min(model["chunk_attn_window_size"], seq)
        full = 4.0 * ((seq // chunk) * chunk**2 + (seq % chunk) ** 2) * heads * head
        causal = full / 2
    elif kind == "local":
        window = min(model["window"], seq)
        full = 4.0 * seq * window * heads * head
        causal = 4.0 * (seq * window - 0.5 * window**2) * heads * head
    return weights, full, causal


def _feed_forward(model: Model) -> float:
    """Feed-forward matrices of all layers, per token."""
    emb, matrices = model["emb"], len(model["activations"]) + 1
    routed = model.get("moe_mlp", model["mlp"]) * model.get("experts_per_token", 0)
    shared_width = model["mlp"] if model["family"] == "gemma4" else model.get("moe_mlp", model["mlp"])
    moe = 2.0 * emb * (matrices * (routed + shared_width * model.get("shared_experts", 0)) + model.get("experts", 0))
    dense = 2.0 * emb * matrices * model["mlp"]
    total = sum(moe if is_moe else dense for is_moe in moe_layers(model))
    if model["family"] == "gemma2":
        total *= 2
    if model.get("use_double_wide_mlp"):
        total += dense * model["num_kv_shared_layers"]
    return total
