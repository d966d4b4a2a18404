"""Mixtures of experts: grouped matmuls over sorted tokens, or dispatch by einsum with a capacity."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.megablox import common as megablox_common
from jax.sharding import PartitionSpec

from layout import BATCH, Layout
from models import Model
from quantize import COMPUTE, to_fp8
from rows import Run

Weights = dict[str, jax.Array]
Activation = Callable[[list[jax.Array]], jax.Array]
Tiling = tuple[int, int, int]

# The package has a function of the same name as this module.
megablox = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")

_FLOAT8 = jnp.float8_e4m3fn


def _allow_float8() -> None:
    """Megablox checks for bfloat16 and float32 operands only; its kernel is as good for float8."""
    check, select = megablox_common.assert_is_supported_dtype, megablox_common.select_input_dtype

    def checked(dtype: jnp.dtype) -> None:
        if dtype != _FLOAT8:
            check(dtype)

    def selected(lhs: jax.Array, rhs: jax.Array) -> jnp.dtype:
        return lhs.dtype if lhs.dtype == rhs.dtype == _FLOAT8 else select(lhs, rhs)

    megablox_common.assert_is_supported_dtype = checked
    megablox_common.select_input_dtype = selected


_allow_float8()


def route(model: Model, logits: jax.Array, bias: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Weight and index of the experts of each token, the score function as the model has it."""
    count = model["experts_per_token"]
    if model.get("routed_score_func") == "sigmoid":
        scores = jax.nn.sigmoid(logits)
        _, chosen = jax.lax.top_k(scores if bias is None else scores + bias.astype(scores.dtype), count)
        weights = jnp.take_along_axis(scores, chosen, axis=-1)
        weights = weights / weights.sum(-1, keepdims=True) * model.get("routed_scaling_factor", 1.0)
    elif model["family"] == "llama4":
        top, chosen = jax.lax.top_k(logits, count)
        weights = jax.nn.sigmoid(top)
    elif model["family"] in ("deepseek", "qwen3_moe"):
        top, chosen = jax.lax.top_k(jax.nn.softmax(logits, axis=-1), count)
        weights = top / top.sum(-1, keepdims=True) if model.get("norm_topk_prob") else top
    else:
        top, chosen = jax.lax.top_k(logits if bias is None else logits + bias.astype(logits.dtype), count)
        weights = jax.nn.softmax(top, axis=-1)
    return weights.astype(COMPUTE), chosen


def weight_names(run: Run) -> dict[str, tuple[str | None, ...]]:
    """Dimension names of the experts' matrices: split over the experts or over the embedding, as the recipe says."""
    on_fsdp = run.setting("fsdp_shard_on_exp") or run.setting("shard_exp_on_fsdp")
    exp, inner = ("exp_on_fsdp", None) if on_fsdp else ("exp", "embed_moe")
    return {"wi_0": (exp, inner, "mlp"), "wi_1": (exp, inner, "mlp"), "wo": (exp, "mlp", inner)}


def sparse(run: Run, layout: Layout, w: Weights, x: jax.Array, gate: jax.Array, act: Activation) -> jax.Array:
    """Every device sorts its own tokens by expert and multiplies them with all experts' gathered weights."""
    tensor = "tensor" if layout.sizes["tensor"] > 1 else None
    tokens = PartitionSpec(BATCH, "context", None)
    up, down = PartitionSpec(None, None, tensor), PartitionSpec(None, tensor, None)
    names = [name for name in ("wi_0", "wi_1", "wo", "bi_0", "bi_1", "bo", "gate_bias") if name in w]
    specs = {"wi_0": up, "wi_1": up, "wo": down, "bi_0": PartitionSpec(None, tensor), "bi_1": PartitionSpec(None, tensor)}
    fp8 = run.quantization == "fp8"
    calibration = str(run.setting("weight_quantization_calibration_method") or "absmax")
    if fp8 and calibration.startswith("fixed"):
        # The scale is known without looking, so shards are quantized first and gathered in one byte each.
        specs |= {name: layout.spec(names_, w[name].shape) for name, names_ in weight_names(run).items() if name in w}
    gathers = {name: _gathered_axes(specs[name]) if name in specs else () for name in ("wi_0", "wi_1", "wo")}

    @functools.partial(
        jax.shard_map,
        mesh=layout.mesh,
        in_specs=(tokens, tokens, *(specs.get(name, PartitionSpec()) for name in names)),
        out_specs=tokens,
        check_vma=False,
    )
    def local(x: jax.Array, gate: jax.Array, *kernels: jax.Array) -> jax.Array:
        k = dict(zip(names, kernels, strict=True))
        batch, length, emb = x.shape
        weights, chosen = route(run.model, gate, k.get("gate_bias"))
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat)
        back = jnp.argsort(order)
        per_token = run.model["experts_per_token"]
        repeated = jnp.repeat(x.reshape(-1, emb), per_token, axis=0)
        gather = _gather_sorted if run.setting("use_custom_sort_vjp") else (lambda y, to, _: jnp.take(y, to, axis=0))
        rows = gather(repeated, order, back)
        sizes = jnp.bincount(flat, length=run.model["experts"]).astype(jnp.int32)
        matmul = functools.partial(_grouped, run, fp8, calibration)
        experts = flat[order]
        hidden = []
        for i in range(len(run.model["activations"])):
            h = matmul("wi", gathers[f"wi_{i}"], rows, k[f"wi_{i}"], sizes)
            if f"bi_{i}" in k:
                h = h + k[f"bi_{i}"][experts]
            hidden.append(checkpoint_name(h, f"mlpwi_{i}"))
        out = matmul("wo", gathers["wo"], act(hidden), k["wo"], sizes)
        if tensor:
            out = jax.lax.psum(out, tensor)
        if "bo" in k:
            out = out + k["bo"][experts]
        out = checkpoint_name(out, "mlpwo")
        out = gather(out, back, order).reshape(-1, per_token, emb)
        precision = COMPUTE if run.setting("float32_weight_sum") is False else jnp.float32
        mixed = jnp.einsum("tke,tk->te", out.astype(precision), weights.reshape(-1, per_token).astype(precision))
        return mixed.astype(COMPUTE).reshape(batch, length, emb)

    return local(x, gate, *(w[name].astype(COMPUTE) for name in names))


def _gathered_axes(spec: PartitionSpec) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Dimensions of a weight and the mesh axes to gather them over; tensor shards stay apart."""
    out = []
    for dimension, axes in enumerate(spec):
        found = tuple(a for a in ((axes,) if isinstance(axes, str) else axes or ()) if a != "tensor")
        if found:
            out.append((dimension, found))
    return tuple(out)


@jax.custom_vjp
def _gather_sorted(x: jax.Array, order: jax.Array, back: jax.Array) -> jax.Array:
    """Rows in another order, with the gradient gathered back instead of scattered."""
    del back
    return jnp.take(x, order, axis=0)


_gather_sorted.defvjp(
    lambda x, order, back: (jnp.take(x, order, axis=0), back),
    lambda back, grad: (jnp.take(grad, back, axis=0), None, None),
)


def _tiling(run: Run, which: str, pass_: str, m: int, k: int, n: int) -> Tiling:
    """Tile of a grouped matmul as the recipe says, for rows, contraction and columns."""

    def size(name: str, default: int) -> int:
        return int(run.settings.get(f"{which}_tile_{pass_}_{name}") or run.settings.get(f"tile_{name}") or default)

    def fitted(name: str, whole: int) -> int:
        """A tile is the whole dimension or a multiple of the 128 lanes.

        Tokamax chooses one by halving the dimension, so that nothing is computed beyond it.
        """
        tile = size(name, 1024)
        half = whole
        while half > tile and half % 256 == 0:
            half //= 2
        if run.setting("use_tokamax_gmm") and size(name, 0) == 0 and half <= tile and whole % tile:
            return half
        return whole if tile >= whole or tile % 128 else tile

    tile_m = math.gcd(size("batch_seq", 512), m)
    return tile_m, fitted("embed_dim", k), fitted("mlp_dim", n)


def _grouped(
    run: Run,
    fp8: bool,
    calibration: str,
    which: str,
    gathers: tuple[tuple[int, tuple[str, ...]], ...],
    x: jax.Array,
    w: jax.Array,
    sizes: jax.Array,
) -> jax.Array:
    """Rows of each group times the matrix of that group, gathered over these axes first."""
    (m, k), n = x.shape, w.shape[2]
    for dimension, axes in gathers:
        n *= math.prod(run.mesh[axis] for axis in axes) if dimension == 2 else 1
    forward, to_x, to_w = (
        _tiling(run, which, "fwd", m, k, n),
        _tiling(run, which, "dlhs", m, n, k),
        _tiling(run, which, "drhs", m, k, n),
    )

    def multiply(x: jax.Array, w: jax.Array, sizes: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        scale = jnp.float32(1)
        if fp8:
            x, sx = to_fp8(x, calibration)
            w, sw = to_fp8(w, calibration)
            for dimension, axes in gathers:
                w = jax.lax.all_gather(w, axes, axis=dimension, tiled=True)
            scale = sx * sw
            out = megablox.gmm(x, w, sizes, jnp.float32, forward)
            return (out * scale).astype(COMPUTE), (x, sx, w, sw, sizes)
        return megablox.gmm(x, w, sizes, COMPUTE, forward), (x, scale, w, scale, sizes)

    @jax.custom_vjp
    def run_matmul(x: jax.Array, w: jax.Array, sizes: jax.Array) -> jax.Array:
        return multiply(x, w, sizes)[0]

    def backward(kept: tuple[jax.Array, ...], grad: jax.Array) -> tuple[jax.Array, jax.Array, None]:
        x, sx, w, sw, sizes = kept
        if not fp8:
            dx = megablox.gmm(grad, w, sizes, COMPUTE, to_x, transpose_rhs=True)
            return dx, megablox.tgmm(x.swapaxes(0, 1), grad, sizes, COMPUTE, to_w), None
        # Both operands of the kernel must be of one type: gradients are e4m3 here too.
        g, sg = to_fp8(grad, "absmax")
        dx = megablox.gmm(g, w, sizes, jnp.float32, to_x, transpose_rhs=True)
        dw = megablox.tgmm(x.swapaxes(0, 1), g, sizes, jnp.float32, to_w)
        dw = (dw * sx * sg).astype(COMPUTE)
        for dimension, axes in reversed(gathers):
            dw = jax.lax.psum_scatter(dw, axes, scatter_dimension=dimension, tiled=True)
        return (dx * sg * sw).astype(COMPUTE), dw, None

    run_matmul.defvjp(multiply, backward)
    return run_matmul(x, w, sizes)


def dropping(run: Run, layout: Layout, w: Weights, x: jax.Array, gate: jax.Array, act: Activation) -> jax.Array:
    """Each expert takes at most its capacity of every sequence; tokens go there and back by matmuls with masks."""
    model = run.model
    experts, per_token, length = model["experts"], model["experts_per_token"], x.shape[1]
    factor = run.setting("capacity_factor")
    capacity = int(max(math.ceil(length * per_token / experts) * factor, factor))
    weights, chosen = route(model, gate, w.get("gate_bias"))
    taken = jax.nn.one_hot(chosen, experts, dtype=jnp.int32)
    fused = taken.reshape(x.shape[0], -1, experts)
    place = (jnp.cumsum(fused, axis=1) * fused).reshape(*taken.shape)
    inside = taken * (place <= capacity)
    slot = jax.nn.one_hot(jnp.sum(place * inside, axis=-2) - 1, capacity, dtype=COMPUTE)
    expert_weight = jnp.sum(weights[..., None] * inside, axis=-2)
    dispatch = layout.constrain(slot * (jnp.sum(inside, axis=-2) > 0)[..., None], "batch", "length", None, None)
    combine = (expert_weight[..., None] * dispatch).astype(COMPUTE)
    sent = layout.constrain(jnp.einsum("bsm,bsec->ebcm", x, dispatch), "exp", "batch_no_exp", None, "act_embed")
    hidden = []
    for i in range(len(model["activations"])):
        h = jnp.einsum("ebcm,emh->ebch", sent, w[f"wi_{i}"].astype(COMPUTE))
        hidden.append(checkpoint_name(layout.constrain(h, "exp", "batch_no_exp", None, "act_mlp"), f"mlpwi_{i}"))
    out = jnp.einsum("ebch,ehm->ebcm", act(hidden), w["wo"].astype(COMPUTE))
    out = checkpoint_name(layout.constrain(out, "exp", "batch_no_exp", None, "act_embed"), "mlpwo")
    return jnp.einsum("ebcm,bsec->bsm", out, combine)
