"""One decoder layer that covers the published families: its weights, and what it computes."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout as ArrayLayout
from jax.experimental.layout import with_layout_constraint

import moe
from attention import Mask, attend
from layout import Layout
from models import Model
from quantize import COMPUTE, Dot
from rows import Run

Weights = dict[str, jax.Array]
Declared = dict[str, tuple[tuple[int, ...], tuple[str | None, ...]]]


@dataclass(frozen=True)
class Layer:
    """What distinguishes one layer from another."""

    kind: str = "global"
    rope: bool = True
    moe: bool = False
    mlp: int = 0
    own_kv: bool = True


@dataclass(frozen=True)
class Context:
    """What every layer of a step shares."""

    run: Run
    layout: Layout
    dot: Dot
    positions: jax.Array
    segments: jax.Array | None


def head_shape(model: Model, layer: Layer) -> tuple[int, int, bool]:
    """Key heads, head size and whether values are the keys' projection, for this kind of layer."""
    if layer.kind == "global" and model.get("global_head_dim"):
        shared = bool(model.get("share_kv_projections"))
        return model.get("global_num_kv_heads") or model["kv_heads"], model["global_head_dim"], shared
    return model["kv_heads"], model["head_dim"], False


def declare(run: Run, layer: Layer) -> Declared:
    """Shapes and dimension names of the weights of one layer."""
    model = run.model
    emb, out = model["emb"], {}
    out["attn_norm"] = ((emb,), ("norm",))
    if model["family"] != "parallel2023":
        out["ffn_norm"] = ((emb,), ("norm",))
    if model.get("use_post_attn_norm"):
        out["attn_post_norm"] = ((emb,), ("norm",))
    if model.get("use_post_ffw_norm"):
        out["ffn_post_norm"] = ((emb,), ("norm",))
    if model["family"] == "gpt3":
        out["attn_norm_bias"] = out["ffn_norm_bias"] = ((emb,), ("norm",))
    out |= _declare_mla(model) if model.get("mla") else _declare_heads(model, layer)
    out |= _declare_moe(run) if layer.moe else _declare_mlp(model, layer.mlp or model["mlp"], "")
    ple = model.get("hidden_size_per_layer_input")
    if ple:
        out["ple_gate"] = ((emb, ple), ("embed", "mlp"))
        out["ple_out"] = ((ple, emb), ("mlp", "embed"))
        out["ple_norm"] = ((emb,), ("norm",))
    return out


def _declare_heads(model: Model, layer: Layer) -> Declared:
    emb, heads = model["emb"], model["q_heads"]
    kv_heads, head, shared = head_shape(model, layer)
    if model.get("fused_qkv"):
        out: Declared = {"qkv": ((emb, 3, heads, head), ("embed", None, "heads", None))}
        out["qkv_bias"] = ((3, heads, head), (None, "heads", None))
    else:
        out = {"q": ((emb, heads, head), ("embed", "heads", None))}
        for name in ("k", "v")[: 1 if shared else 2] if layer.own_kv else ():
            out[name] = ((emb, kv_heads, head), ("embed", "heads", None))
        if model.get("attention_bias"):
            out |= {f"{name}_bias": (out[name][0][1:], ("heads", None)) for name in tuple(out)}
    out["o"] = ((heads, head, emb), ("heads", None, "embed"))
    if model.get("attention_bias") and model["family"] == "gpt_oss" or model["family"] == "gpt3":
        out["o_bias"] = ((emb,), ("norm",))
    if model.get("attention_sink"):
        out["sinks"] = ((heads,), (None,))
    if _has_qk_norm(model):
        out["q_norm"] = out["k_norm"] = ((head,), (None,))
        if not layer.own_kv:
            del out["k_norm"]
    return out


def _has_qk_norm(model: Model) -> bool:
    return model["family"].startswith(("gemma3", "gemma4")) or bool(model.get("use_qk_norm")) and not model.get("mla")


def _declare_mla(model: Model) -> Declared:
    emb, heads, kv_rank, rope = model["emb"], model["q_heads"], model["kv_lora_rank"], model["qk_rope_head_dim"]
    nope, v, q_rank = model["qk_nope_head_dim"], model["v_head_dim"], model.get("q_lora_rank", 0)
    out: Declared = {
        "kv_a": ((emb, kv_rank + rope), ("embed", None)),
        "kv_a_norm": ((kv_rank,), ("norm",)),
        "kv_b": ((kv_rank, heads, nope + v), ("rank", "heads", None)),
        "o": ((heads, v, emb), ("heads", None, "embed")),
    }
    if q_rank:
        out["q_a"] = ((emb, q_rank), ("embed", None))
        out["q_a_norm"] = ((q_rank,), ("norm",))
        out["q_b"] = ((q_rank, heads, nope + rope), ("rank", "heads", None))
    else:
        out["q"] = ((emb, heads, nope + rope), ("embed", "heads", None))
    return out


def _declare_mlp(model: Model, width: int, prefix: str) -> Declared:
    emb = model["emb"]
    out: Declared = {f"{prefix}wi_{i}": ((emb, width), ("embed", "mlp")) for i in range(len(model["activations"]))}
    out[f"{prefix}wo"] = ((width, emb), ("mlp", "embed"))
    if model["family"] == "gpt3":
        out["bi_0"] = ((width,), ("mlp",))
        out["bo"] = ((emb,), ("norm",))
    return out


def _declare_moe(run: Run) -> Declared:
    model = run.model
    emb, experts, width = model["emb"], model["experts"], model.get("moe_mlp", model["mlp"])
    names = moe.weight_names(run)
    out: Declared = {"gate": ((emb, experts), ("embed", None))}
    for i in range(len(model["activations"])):
        out[f"wi_{i}"] = ((experts, emb, width), names[f"wi_{i}"])
        if model.get("mlp_bias"):
            out[f"bi_{i}"] = ((experts, width), (None, None))
    out["wo"] = ((experts, width, emb), names["wo"])
    if model.get("mlp_bias"):
        out["bo"] = ((experts, emb), (None, None))
    if model.get("routed_bias"):
        out["gate_bias"] = ((experts,), (None,))
    if model.get("shared_experts"):
        shared = model["mlp"] if model["family"] == "gemma4" else width
        out |= _declare_mlp(model, shared * model["shared_experts"], "shared_")
        if model["family"] == "gemma4":
            out |= {f"moe_norm_{i}": ((emb,), ("norm",)) for i in range(3)}
            out["router_scale"] = ((emb,), ("norm",))
    return out


def apply(
    c: Context,
    layer: Layer,
    w: Weights,
    x: jax.Array,
    shared_kv: tuple[jax.Array, jax.Array] | None = None,
    per_layer_input: jax.Array | None = None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The layer's output, and its keys and values for layers that have none of their own."""
    model = c.run.model
    x = keep(c, c.layout.constrain(x, "batch", "length", "act_embed"), "decoder_layer_input")
    h = _norm(model, x, w, "attn_norm")
    attended, kv = _mla(c, w, h) if model.get("mla") else _heads(c, layer, w, h, shared_kv)
    if "attn_post_norm" in w:
        attended = _norm(model, attended, w, "attn_post_norm")
    attended = c.layout.constrain(attended, "batch", "length", "act_embed")
    if model["family"] == "parallel2023":
        return c.layout.constrain(x + attended + _mlp(c, w, h, ""), "batch", "length", "act_embed"), kv
    x = x + attended
    h = _norm(model, x, w, "ffn_norm")
    y = _moe(c, w, h, x) if layer.moe else _mlp(c, w, h, "")
    if "ffn_post_norm" in w:
        y = _norm(model, y, w, "ffn_post_norm")
    x = x + c.layout.constrain(y, "batch", "length", "act_embed")
    if per_layer_input is not None:
        gate = jax.nn.gelu(c.dot("bse,ep->bsp", x, w["ple_gate"]))
        x = x + _norm(model, c.dot("bsp,pe->bse", gate * per_layer_input, w["ple_out"]), w, "ple_norm")
    return c.layout.constrain(x, "batch", "length", "act_embed"), kv


def keep(c: Context, x: jax.Array, name: str) -> jax.Array:
    """Names a value for the rematerialisation policy.

    The layout of what goes to the host is pinned: left free, the compiler gives the stack of all layers one layout in
    the forward loop and another in the backward loop, and brings it back to the device whole to convert it.
    """
    if name in c.run.remat.offload and x.ndim == 3:
        x = with_layout_constraint(x, ArrayLayout(major_to_minor=tuple(range(x.ndim))))
    return checkpoint_name(x, name)


def rms_norm(x: jax.Array, scale: jax.Array | None = None) -> jax.Array:
    """Root-mean-square norm in float32, scaled in the compute type."""
    wide = x.astype(jnp.float32)
    y = (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(COMPUTE)
    return y if scale is None else y * scale.astype(COMPUTE)


def _norm(model: Model, x: jax.Array, w: Weights, name: str) -> jax.Array:
    if model["family"] != "gpt3":
        return rms_norm(x, w[name])
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, -1, keepdims=True)
    variance = jnp.mean(jnp.square(wide), -1, keepdims=True) - jnp.square(mean)
    y = ((wide - mean) * jax.lax.rsqrt(variance + 1e-5)).astype(COMPUTE)
    return y * w[name].astype(COMPUTE) + w[f"{name}_bias"].astype(COMPUTE)


def _rope(x: jax.Array, positions: jax.Array, share: float = 1.0) -> jax.Array:
    """Rotates the first `share` of every head by the token's position."""
    turned = int(x.shape[-1] * share)
    half = turned // 2
    angle = positions[..., None].astype(jnp.float32) / 10000.0 ** (jnp.arange(half, dtype=jnp.float32) / half)
    sin, cos = jnp.sin(angle)[:, :, None, :], jnp.cos(angle)[:, :, None, :]
    a, b = jnp.split(x[..., :turned].astype(jnp.float32), 2, -1)
    out = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(COMPUTE)
    return out if turned == x.shape[-1] else jnp.concatenate([out, x[..., turned:]], -1)


def _heads(
    c: Context, layer: Layer, w: Weights, h: jax.Array, shared_kv: tuple[jax.Array, jax.Array] | None
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    model, run = c.run.model, c.run

    def project(name: str) -> jax.Array:
        y = c.dot("bse,ehd->bshd", h, w[name])
        return y + w[f"{name}_bias"].astype(COMPUTE) if f"{name}_bias" in w else y

    if model.get("fused_qkv"):
        qkv = keep(c, c.dot("bse,ethd->bsthd", h, w["qkv"]) + w["qkv_bias"].astype(COMPUTE), "qkv_proj")
        q, k, v = (qkv[:, :, i] for i in range(3))
    else:
        q = project("q")
        k = project("k") if shared_kv is None else None
        v = (project("v") if "v" in w else k) if shared_kv is None else None
    if "q_norm" in w:
        q = rms_norm(q, w["q_norm"])
        k = rms_norm(k, w["k_norm"]) if k is not None else None
    if model["family"].startswith("gemma4") and v is not None:
        v = rms_norm(v)
    if layer.rope and not model.get("positions"):
        share = model.get("global_rope_proportion", 1.0) if layer.kind == "global" else 1.0
        q = _rope(q, c.positions, share)
        k = _rope(k, c.positions, share) if k is not None else None
    if shared_kv is not None:
        k, v = shared_kv
    q = c.layout.constrain(keep(c, q, "query_proj"), "batch", "length", "act_heads", None)
    k, v = keep(c, k, "key_proj"), keep(c, v, "value_proj")
    local = layer.kind == "local"
    mask = Mask(
        window=model.get("window") if local else None,
        chunk=model.get("chunk_attn_window_size") if local else None,
    )
    out = attend(run, c.layout, mask, q, k, v, c.segments, w.get("sinks"))
    out = c.layout.constrain(keep(c, out, "context"), "batch", "length", "act_heads", None)
    out = c.dot("bshd,hde->bse", checkpoint_name(out, "attention_out"), w["o"])
    if "o_bias" in w:
        out = out + w["o_bias"].astype(COMPUTE)
    return keep(c, out, "out_proj"), (k, v)


def _mla(c: Context, w: Weights, h: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    model = c.run.model
    nope, rank = model["qk_nope_head_dim"], model["kv_lora_rank"]
    if "q_a" in w:
        low = keep(c, rms_norm(c.dot("bse,er->bsr", h, w["q_a"]), w["q_a_norm"]), "mla_q")
        q = c.dot("bsr,rhd->bshd", low, w["q_b"])
    else:
        q = c.dot("bse,ehd->bshd", h, w["q"])
    q = jnp.concatenate([q[..., :nope], _rope(q[..., nope:], c.positions)], -1)
    low = c.dot("bse,er->bsr", h, w["kv_a"])
    rotated = _rope(low[:, :, None, rank:], c.positions)
    low = keep(c, rms_norm(low[..., :rank], w["kv_a_norm"]), "mla_kv")
    kv = c.dot("bsr,rhd->bshd", low, w["kv_b"])
    k = jnp.concatenate([kv[..., :nope], jnp.broadcast_to(rotated, (*kv.shape[:3], rotated.shape[-1]))], -1)
    q = c.layout.constrain(keep(c, q, "query_proj"), "batch", "length", "act_heads", None)
    k, v = keep(c, k, "key_proj"), keep(c, kv[..., nope:], "value_proj")
    out = attend(c.run, c.layout, Mask(), q, k, v, c.segments)
    out = c.layout.constrain(keep(c, out, "context"), "batch", "length", "act_heads", None)
    out = c.dot("bshd,hde->bse", checkpoint_name(out, "attention_out"), w["o"])
    return keep(c, out, "out_proj"), (k, v)


def _activate(model: Model, hidden: list[jax.Array]) -> jax.Array:
    if model.get("mlp_activations_limit"):
        limit = model["mlp_activations_limit"]
        gate, up = jnp.minimum(hidden[0], limit), jnp.clip(hidden[1], -limit, limit)
        return gate * jax.nn.sigmoid(1.702 * gate) * (up + 1)
    functions = {"silu": jax.nn.silu, "gelu": jax.nn.gelu, "relu": jax.nn.relu, "linear": lambda y: y}
    out = functions[model["activations"][0]](hidden[0])
    for name, h in zip(model["activations"][1:], hidden[1:], strict=True):
        out = out * functions[name](h)
    return out


def _mlp(c: Context, w: Weights, h: jax.Array, prefix: str) -> jax.Array:
    hidden = []
    for i in range(len(c.run.model["activations"])):
        y = c.dot("bse,ef->bsf", h, w[f"{prefix}wi_{i}"])
        if not prefix and "bi_0" in w:
            y = y + w["bi_0"].astype(COMPUTE)
        hidden.append(keep(c, y, f"mlpwi_{i}"))
    g = c.layout.constrain(_activate(c.run.model, hidden), "batch", "length", "act_mlp")
    out = c.dot("bsf,fe->bse", g, w[f"{prefix}wo"])
    if not prefix and "bo" in w:
        out = out + w["bo"].astype(COMPUTE)
    return keep(c, out, "mlpwo")


def _moe(c: Context, w: Weights, h: jax.Array, before_norm: jax.Array) -> jax.Array:
    run, model = c.run, c.run.model
    gemma = model["family"] == "gemma4"
    shared = _mlp(c, w, h, "shared_") if model.get("shared_experts") else None
    routed_input, gate_input = h, h
    if gemma:
        shared = rms_norm(shared, w["moe_norm_0"])
        routed_input = rms_norm(before_norm, w["moe_norm_1"])
        gate_input = rms_norm(before_norm) * w["router_scale"].astype(COMPUTE)
    gate = jnp.einsum("bse,en->bsn", gate_input, w["gate"].astype(COMPUTE), preferred_element_type=jnp.float32)
    dropless = run.setting("sparse_matmul")
    experts = {name: w[name] for name in w if name.startswith(("wi_", "wo", "bi_", "bo", "gate_bias"))}
    act = lambda hidden: _activate(model, hidden)  # noqa: E731
    routed = (moe.sparse if dropless else moe.dropping)(run, c.layout, experts, routed_input, gate, act)
    if gemma:
        routed = rms_norm(routed, w["moe_norm_2"])
    return routed if shared is None else routed + shared
