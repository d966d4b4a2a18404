"""The layers of a model in the order they run: which are scanned, and what a trip of a scan is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
from jax.ad_checkpoint import checkpoint_policies

from layers import Context, Declared, Layer, Weights, apply, declare
from models import kv_donor, layer_kinds, moe_layers
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


def run_stacks(c: Context, weights: Weights, x: jax.Array, per_layer_inputs: jax.Array | None) -> jax.Array:
    """The hidden state after all layers."""
    stacks = stacks_of(c.run)
    policy = _policy(c.run.remat)
    if not stacks[0].scanned:
        return _unrolled(c, stacks, weights, x, policy, per_layer_inputs)
    for stack in stacks:
        own = {
            i: {name.split(".", 2)[2]: w for name, w in weights.items() if name.startswith(f"{stack.name}.{i}.")}
            for i in range(len(stack.layers))
        }

        def trip(x: jax.Array, w: dict[int, Weights], stack: Stack = stack) -> tuple[jax.Array, None]:
            for i, layer in enumerate(stack.layers):

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
