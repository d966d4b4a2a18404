"""The training step of a run: loss, gradient, clipping and Adam, lowered for the devices of its slice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from decoder import declare_stack, run_stacks, stacks_of
from layers import Context, Declared, Weights, rms_norm
from layout import BATCH, Layout
from quantize import COMPUTE, dot_for
from rows import Run

# Source lines would put the folder of these files into the program, and the same program would be another one elsewhere.
jax.config.update("jax_traceback_in_locations_limit", 0)

Batch = dict[str, jax.Array]


@dataclass
class Program:
    """A lowered step and what must be known to compile it."""

    lowered: Any
    parameters: int
    device_ids: list[int]


def declared(run: Run) -> Declared:
    """Shapes and dimension names of all weights of a run."""
    model = run.model
    emb, vocab = model["emb"], model["vocab"]
    out: Declared = {"embedding": ((vocab, emb), ("vocab", "embed")), "final_norm": ((emb,), ("norm",))}
    if not model["tied"]:
        out["unembedding"] = ((emb, vocab), ("embed", "vocab"))
    if model["family"] == "gpt3":
        out["positions"] = ((model["positions"], emb), (None, "embed"))
        out["final_norm_bias"] = ((emb,), ("norm",))
    ple = model.get("hidden_size_per_layer_input")
    if ple:
        wide = model["layers"] * ple
        out["ple_embedding"] = ((model["vocab_size_per_layer_input"], wide), ("vocab", "embed"))
        out["ple_projection"] = ((emb, wide), ("embed", "mlp"))
        out["ple_norm"] = ((ple,), (None,))
    for stack in stacks_of(run):
        out |= declare_stack(run, stack)
    return out


def parameter_count(run: Run) -> int:
    """Weights of the model."""
    return sum(math.prod(shape) for shape, _ in declared(run).values())


def lower(run: Run, devices: list[Any]) -> Program:
    """Traces the step and lowers it for these devices."""
    layout = Layout(run, devices)
    weights = declared(run)
    weight_dtype, mu_dtype = (jnp.dtype(run.setting(name)) for name in ("weight_dtype", "mu_dtype"))
    if "mu_dtype" not in run.settings:
        mu_dtype = weight_dtype
    shardings = {name: layout.sharding(names, shape) for name, (shape, names) in weights.items()}

    def like(dtype: jnp.dtype) -> dict[str, jax.ShapeDtypeStruct]:
        return {
            name: jax.ShapeDtypeStruct(shape, dtype, sharding=shardings[name]) for name, (shape, _) in weights.items()
        }

    count = jax.ShapeDtypeStruct((), jnp.int32, sharding=layout.sharding(()))
    state = {"params": like(weight_dtype), "mu": like(mu_dtype), "nu": like(weight_dtype), "step": count}
    tokens = jax.ShapeDtypeStruct((run.sequences, run.seq), jnp.int32, sharding=layout.sharding(("batch", "length")))
    names = ("inputs", "targets", "positions", "segments", "target_segments")
    batch = {name: tokens for name in names[: None if run.setting("packed") else 2]}
    out_shardings = (jax.tree.map(lambda leaf: leaf.sharding, state), None)
    with jax.set_mesh(layout.mesh):

        def step(state: dict[str, Any], batch: Batch) -> tuple[dict[str, Any], dict[str, jax.Array]]:
            return _step(run, layout, state, batch)

        lowered = jax.jit(step, donate_argnums=(0,), out_shardings=out_shardings).lower(state, batch)
    run.approximations.extend(sorted(layout.unsplit))
    return Program(lowered, parameter_count(run), layout.device_ids())


def _step(run: Run, layout: Layout, state: dict[str, Any], batch: Batch) -> tuple[dict[str, Any], dict[str, jax.Array]]:
    params = state["params"]
    loss, grads = jax.value_and_grad(lambda p: _loss(run, layout, p, batch))(params)
    grads = jax.tree.map(lambda g: g.astype(run.setting("grad_dtype")), grads)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in jax.tree.leaves(grads)))
    clip = jnp.minimum(1.0, 1.0 / norm)
    step = state["step"] + 1
    new: dict[str, dict[str, jax.Array]] = {"params": {}, "mu": {}, "nu": {}}
    for name, p in params.items():
        g = grads[name].astype(jnp.float32) * clip
        mu = 0.9 * state["mu"][name].astype(jnp.float32) + 0.1 * g
        nu = 0.95 * state["nu"][name].astype(jnp.float32) + 0.05 * g * g
        update = (mu / (1 - 0.9**step)) / (jnp.sqrt(nu / (1 - 0.95**step)) + 1e-8) + 0.1 * p.astype(jnp.float32)
        new["params"][name] = (p.astype(jnp.float32) - 3e-5 * update).astype(p.dtype)
        new["mu"][name] = mu.astype(state["mu"][name].dtype)
        new["nu"][name] = nu.astype(state["nu"][name].dtype)
    return {**new, "step": step}, {"loss": loss, "gradient_norm": norm}


def _loss(run: Run, layout: Layout, p: Weights, batch: Batch) -> jax.Array:
    model = run.model
    calibration = str(run.setting("weight_quantization_calibration_method") or "absmax")
    dot = dot_for(run.quantization, calibration)
    positions = batch["positions"] if run.setting("packed") else jnp.arange(run.seq)[None]
    context = Context(run, layout, dot, positions, batch.get("segments"))
    x = _embed(run, p["embedding"], batch["inputs"])
    if model["family"].startswith("gemma"):
        x = x * jnp.asarray(math.sqrt(model["emb"]), COMPUTE)
    if model["family"] == "gpt3":
        x = x + p["positions"].astype(COMPUTE)[positions]
    x = layout.constrain(x, "batch", "length", "act_embed")
    x = run_stacks(context, p, x, _per_layer_inputs(run, p, x, batch["inputs"]))
    if model["family"] == "gpt3":
        wide = x.astype(jnp.float32)
        wide = wide - jnp.mean(wide, -1, keepdims=True)
        x = rms_norm(wide, p["final_norm"]) + p["final_norm_bias"].astype(COMPUTE)
    else:
        x = rms_norm(x, p["final_norm"])
    table = p["embedding"].T if model["tied"] else p["unembedding"]
    counted = batch["target_segments"] != 0 if run.setting("packed") else jnp.ones_like(batch["targets"], bool)
    total = _cross_entropy_sum(run, layout, x, table, batch["targets"], counted)
    return total / (jnp.sum(counted) + 1e-8)


def _embed(run: Run, table: jax.Array, tokens: jax.Array) -> jax.Array:
    """Rows of the embedding: by a matmul with one-hot rows where the recipe asks for it, else by gathering."""
    if run.setting("use_iota_embed") or run.model.get("use_iota_embed"):
        rows = tokens[..., None] == jax.lax.iota(jnp.int32, table.shape[0])
        return jnp.dot(rows.astype(COMPUTE), table.astype(COMPUTE))
    # Gathered in the type of the weights, gradients of the same row are summed in it.
    return table[tokens].astype(COMPUTE) if run.setting("wide_ends") else table.astype(COMPUTE)[tokens]


def _per_layer_inputs(run: Run, p: Weights, x: jax.Array, tokens: jax.Array) -> jax.Array | None:
    width = run.model.get("hidden_size_per_layer_input")
    if not width:
        return None
    shape = (*tokens.shape, run.model["layers"], width)
    looked_up = p["ple_embedding"].astype(COMPUTE)[tokens].reshape(shape)
    projected = jnp.einsum("bse,ew->bsw", x, p["ple_projection"].astype(COMPUTE)).reshape(shape)
    return (looked_up + rms_norm(projected, p["ple_norm"])) * jnp.asarray(2.0**-0.5, COMPUTE)


def _cross_entropy_sum(
    run: Run, layout: Layout, x: jax.Array, table: jax.Array, targets: jax.Array, counted: jax.Array
) -> jax.Array:
    """Sum of the losses of all counted tokens, a part of each sequence at a time where the recipe tiles."""
    cap = run.model.get("final_logits_soft_cap")

    def part(x: jax.Array, targets: jax.Array, counted: jax.Array) -> jax.Array:
        logits = (_wide_logits if run.setting("wide_ends") else _logits)(x, table.astype(COMPUTE))
        if cap:
            logits = jnp.tanh(logits / cap) * cap
        logits = layout.constrain(logits, "batch", "length", "act_vocab")
        return jnp.sum(_cross_entropy(logits, targets) * counted)

    tiles, shards = run.setting("num_vocab_tiling"), layout.sizes["context"]
    if tiles == 1:
        return (jax.checkpoint(part) if run.setting("recompute_logits") else part)(x, targets, counted)

    def split(y: jax.Array) -> jax.Array:
        """Tiles first; each takes an equal share of what every shard of the sequence holds."""
        batch, length = y.shape[:2]
        y = y.reshape(batch, shards, tiles, length // (shards * tiles), *y.shape[2:])
        return jnp.moveaxis(y, 2, 0).reshape(tiles, batch, length // tiles, *y.shape[4:])

    def body(total: jax.Array, one: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        return total + jax.checkpoint(part, prevent_cse=False)(*one), None

    parts = [
        jax.lax.with_sharding_constraint(
            split(y), jax.sharding.NamedSharding(layout.mesh, jax.sharding.PartitionSpec(None, BATCH, "context"))
        )
        for y in (x, targets, counted)
    ]
    return jax.lax.scan(body, jnp.float32(0), tuple(parts))[0]


def _logits(x: jax.Array, table: jax.Array) -> jax.Array:
    return jnp.einsum("bse,ev->bsv", x, table)


@jax.custom_vjp
def _wide_logits(x: jax.Array, table: jax.Array) -> jax.Array:
    """Logits in float32, their gradients in the compute type."""
    return jnp.einsum("bse,ev->bsv", x, table, preferred_element_type=jnp.float32)


_wide_logits.defvjp(
    lambda x, table: (_wide_logits(x, table), (x, table)),
    lambda kept, grad: jax.vjp(_logits, *kept)[1](grad.astype(COMPUTE)),
)


@jax.custom_vjp
def _cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return _cross_entropy_fwd(logits, targets)[0]


def _at_target(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2) == targets[..., None]


def _cross_entropy_fwd(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    wide = logits.astype(jnp.float32)
    highest = wide.max(-1)
    log_sum = jnp.log(jnp.exp(wide - highest[..., None]).sum(-1)) + highest
    return log_sum - jnp.sum(jnp.where(_at_target(logits, targets), wide, 0.0), -1), (logits, targets, log_sum)


def _cross_entropy_bwd(kept: tuple[jax.Array, ...], grad: jax.Array) -> tuple[jax.Array, np.ndarray]:
    logits, targets, log_sum = kept
    share = jnp.exp(logits.astype(jnp.float32) - log_sum[..., None]) - _at_target(logits, targets)
    return (grad[..., None] * share).astype(logits.dtype), np.zeros(targets.shape, jax.dtypes.float0)


_cross_entropy.defvjp(_cross_entropy_fwd, _cross_entropy_bwd)

