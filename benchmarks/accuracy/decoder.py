"""The layers of a model in the order they run: which are scanned, and what a trip of a scan is made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_policies
from jax.experimental.layout import Layout as ArrayLayout
from jax.experimental.layout import with_layout_constraint

from layers import Context, Declared, Layer, Weights, apply, declare
from models import Model, kv_donor, layer_kinds, moe_layers
from rows import Remat, Run


@dataclass(frozen=True)
class Stack:
    """`trips` times the layers of one trip; the first of them `inner` times where `inner` is not 1.

    `per_layer` recomputes layer by layer in the backward pass, else all layers of a trip at once.
    """

    name: str
    trips: int
    layers: tuple[Layer, ...]
    inner: int = 1
    per_layer: bool = True
    scanned: bool = True


def stacks_of(run: Run) -> list[Stack]:
    """The stacks of a model, as MaxText scans them."""
    model, family = run.model, run.model["family"]
    kinds, experts = layer_kinds(model), moe_layers(model)
    sharing = _sharing_blocks(model) if family == "gemma4_small" else None
    if sharing is not None:
        return sharing
    if family == "gemma4_small" or not run.setting("scan_layers"):
        wide = model.get("use_double_wide_mlp")
        return [
            Stack(
                f"layer{i}",
                1,
                (Layer(kind, mlp=model["mlp"] * (2 if donor is not None and wide else 1), own_kv=donor is None),),
                scanned=False,
            )
            for i, kind in enumerate(kinds)
            for donor in [kv_donor(model, i)]
        ]
    if family == "gemma4":
        blocks, rest = divmod(len(kinds), 6)
        local, last = Layer("local", moe=experts[0]), Layer("global", moe=experts[0])
        out = [Stack("blocks", blocks, (local, last), inner=5)]
        return out + ([Stack("rest", rest, (local,))] if rest else [])
    cycle = {"gemma2": 2, "gpt_oss": 2, "gemma3": 6, "olmo3": 4, "llama4": 4}.get(family, 1)
    if cycle > 1:
        nope = model.get("nope_layer_interval")
        layers = tuple(
            Layer(kinds[i], rope=not nope or i % nope != nope - 1, moe=experts[i] if family != "gemma2" else False)
            for i in range(cycle)
        )
        blocks, rest = divmod(len(kinds), cycle)
        out = [Stack("blocks", blocks, layers, per_layer=False)]
        return out + ([Stack("rest", 1, layers[:rest], per_layer=False)] if rest else [])
    dense = experts.count(False)
    out = [Stack("dense", dense, (Layer(),))] if dense else []
    return out + ([Stack("moe", len(experts) - dense, (Layer(moe=True),))] if dense < len(experts) else [])


def _sharing_blocks(model: Model) -> list[Stack] | None:
    """Blocks of local layers and a global one, first those with their own keys and values; none if it does not divide so."""
    kinds = layer_kinds(model)
    period = kinds.index("global") + 1
    sharing = model.get("num_kv_shared_layers", 0)
    own = len(kinds) - sharing
    if not own or own % period or sharing % period:
        return None
    wide = model["mlp"] * (2 if model.get("use_double_wide_mlp") else 1)

    def block(name: str, layers: int, mlp: int, *, own_kv: bool) -> Stack:
        pair = tuple(Layer(kind, mlp=mlp, own_kv=own_kv) for kind in ("local", "global"))
        return Stack(name, layers // period, pair, inner=period - 1)

    out = [block("own", own, model["mlp"], own_kv=True)]
    return out + ([block("sharing", sharing, wide, own_kv=False)] if sharing else [])


def declare_stack(run: Run, stack: Stack) -> Declared:
    """Weights of a stack: each layer's, stacked over trips (and inner repetitions) where it is scanned."""
    out: Declared = {}
    for i, layer in enumerate(stack.layers):
        lead: tuple[int, ...] = (stack.trips,) if stack.scanned else ()
        if i == 0 and stack.inner > 1:
            lead = (*lead, stack.inner)
        for name, (shape, names) in declare(run, layer).items():
            out[f"{stack.name}.{i}.{name}"] = ((*lead, *shape), ((None,) * len(lead)) + names)
    return out


def _policy(remat: Remat) -> Callable[..., object] | None:
    if remat.policy == "dots":
        return checkpoint_policies.checkpoint_dots_with_no_batch_dims
    if not remat.save and not remat.offload:
        return None
    return checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=list(remat.save),
        names_which_can_be_offloaded=list(remat.offload),
        offload_src="device",
        offload_dst="pinned_host",
    )


# A vector register's lanes: an array whose last dimension is shorter is padded to it.
_LANES = 128
# Padding of one stack of gradients from which on its layout is pinned; up to that the compiler chooses.
_PADDING_LIMIT_BYTES = 10 << 30


def _padded_gradients(c: Context, stack: Stack) -> frozenset[str]:
    """Weights of a stack whose gradients, kept over all trips with the last dimension minor, are mostly padding."""
    out = set()
    for name, (shape, names) in declare_stack(c.run, stack).items():
        local = c.layout.sharding(names, shape).shard_shape(shape)
        padding = math.prod(local[:-1]) * (-local[-1] % _LANES) * 4
        if stack.scanned and padding > _PADDING_LIMIT_BYTES:
            out.add(name)
    return frozenset(out)


@jax.custom_vjp
def _dense_gradient(w: jax.Array) -> jax.Array:
    """The weight itself; its gradient is laid out with the last but one dimension minor."""
    return w


def _dense_gradient_bwd(_: None, grad: jax.Array) -> tuple[jax.Array]:
    order = (*range(grad.ndim - 2), grad.ndim - 1, grad.ndim - 2)
    return (with_layout_constraint(grad, ArrayLayout(major_to_minor=order)),)


_dense_gradient.defvjp(lambda w: (w, None), _dense_gradient_bwd)


def run_stacks(c: Context, weights: Weights, x: jax.Array, per_layer_inputs: jax.Array | None) -> jax.Array:
    """The hidden state after all layers."""
    stacks = stacks_of(c.run)
    policy = _policy(c.run.remat)
    if not stacks[0].scanned:
        return _unrolled(c, stacks, weights, x, policy, per_layer_inputs)
    if c.run.model["family"] == "gemma4_small":
        return _scanned_sharing(c, stacks, weights, x, policy, per_layer_inputs)
    for stack in stacks:
        own = {
            i: {name.split(".", 2)[2]: w for name, w in weights.items() if name.startswith(f"{stack.name}.{i}.")}
            for i in range(len(stack.layers))
        }

        padded = _padded_gradients(c, stack)
        if padded:
            names = ", ".join(sorted(name.rsplit(".", 1)[1] for name in padded))
            c.run.approximations.append(f"layout of the gradients of {names} pinned: left free, they are mostly padding")

        def trip(
            x: jax.Array, w: dict[int, Weights], stack: Stack = stack, padded: frozenset[str] = padded
        ) -> tuple[jax.Array, None]:
            for i, layer in enumerate(stack.layers):
                w[i] = {n: _dense_gradient(v) if f"{stack.name}.{i}.{n}" in padded else v for n, v in w[i].items()}

                def one(x: jax.Array, w: Weights, layer: Layer = layer) -> jax.Array:
                    return apply(c, layer, w, x)[0]

                if stack.per_layer and len(stack.layers) > 1:
                    one = jax.checkpoint(one, policy=policy, prevent_cse=False)
                if i == 0 and stack.inner > 1:
                    x, _ = jax.lax.scan(lambda x, w, one=one: (one(x, w), None), x, w[i])
                else:
                    x = one(x, w[i])
            return x, None

        if not stack.per_layer or len(stack.layers) == 1:
            trip = jax.checkpoint(trip, policy=policy, prevent_cse=False)
        x, _ = jax.lax.scan(trip, x, own)
    return x


def _scanned_sharing(
    c: Context,
    stacks: list[Stack],
    weights: Weights,
    x: jax.Array,
    policy: Callable[..., object] | None,
    per_layer_inputs: jax.Array | None,
) -> jax.Array:
    """Blocks of local layers and a global one; later stacks use the keys and values of the last of each kind before them."""
    donated: tuple[object, object] = (None, None)
    done = 0
    for stack in stacks:
        period = stack.inner + 1
        mine = None
        if per_layer_inputs is not None:
            layers = stack.trips * period
            mine = jnp.moveaxis(per_layer_inputs[:, :, done : done + layers], 2, 0)
            mine = mine.reshape(stack.trips, period, *mine.shape[1:])
            done += layers
        own = tuple(
            {name.split(".", 2)[2]: w for name, w in weights.items() if name.startswith(f"{stack.name}.{i}.")}
            for i in range(2)
        )

        def trip(x, xs, stack=stack, donated=donated):  # noqa: ANN001, ANN202
            (local_w, global_w), mine = xs

            def one(x, w, kv, mine, layer):  # noqa: ANN001, ANN202
                return apply(c, layer, w, x, kv, mine)

            local, last = (
                jax.checkpoint(functools.partial(one, layer=layer), policy=policy, prevent_cse=False)
                for layer in stack.layers
            )
            inputs = mine[:-1] if mine is not None else None
            x, local_kv = jax.lax.scan(lambda x, one: local(x, one[0], donated[0], one[1]), x, (local_w, inputs))
            x, global_kv = last(x, global_w, donated[1], mine[-1] if mine is not None else None)
            kept = (jax.tree.map(lambda y: y[-1], local_kv), global_kv) if stack.layers[0].own_kv else None
            return x, kept

        x, kept = jax.lax.scan(trip, x, (own, mine))
        if kept is not None:
            donated = jax.tree.map(lambda y: y[-1], kept)
    return x


def _unrolled(
    c: Context,
    stacks: list[Stack],
    weights: Weights,
    x: jax.Array,
    policy: Callable[..., object] | None,
    per_layer_inputs: jax.Array | None,
) -> jax.Array:
    donated: dict[int, tuple[jax.Array, jax.Array]] = {}
    for i, stack in enumerate(stacks):
        own = {n.split(".", 2)[2]: w for n, w in weights.items() if n.startswith(f"{stack.name}.0.")}
        donor = kv_donor(c.run.model, i) if c.run.model.get("num_kv_shared_layers") else None
        mine = per_layer_inputs[:, :, i] if per_layer_inputs is not None else None

        def one(x, w, kv, mine, layer=stack.layers[0]):  # noqa: ANN001, ANN202
            return apply(c, layer, w, x, kv, mine)

        one = jax.checkpoint(one, policy=policy, prevent_cse=True)
        x, kv = one(x, own, donated.get(donor) if donor is not None else None, mine)
        donated[i] = kv
    return x
