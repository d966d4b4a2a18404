"""Exports experts, losses and norms over several devices as JAX writes them, for the tests: python export.py FOLDER."""

import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

BF16 = jnp.bfloat16


def spec(*dims, dtype=BF16):
    return jax.ShapeDtypeStruct(dims, dtype)


def experts(p, x):
    """The two best of all experts, weighed by one-hot vectors."""
    count = p["gate"].shape[-1]
    probabilities, chosen = jax.lax.top_k(jax.nn.softmax((x @ p["gate"]).astype(jnp.float32)), 2)
    probabilities = (probabilities / probabilities.sum(-1, keepdims=True)).astype(x.dtype)
    weight = (jax.nn.one_hot(chosen, count, dtype=x.dtype) * probabilities[..., None]).sum(-2)
    up = jax.nn.silu(jnp.einsum("btd,edf->btef", x, p["w1"])) * jnp.einsum("btd,edf->btef", x, p["w3"])
    return jnp.einsum("btef,efd,bte->btd", up, p["w2"], weight)


def capacity(p, x, slots=40):
    """As MaxText writes experts with a capacity."""
    count = p["gate"].shape[-1]
    softmax = jax.nn.softmax((x @ p["gate"]).astype(jnp.float32))
    probabilities, chosen = jax.lax.top_k(softmax, 2)
    batch, length, choices = chosen.shape
    weights = (jax.nn.one_hot(chosen, count) * probabilities[..., None]).sum(2)
    mask = jax.nn.one_hot(chosen, count, dtype=jnp.int32)
    position = jnp.cumsum(mask.reshape(batch, length * choices, count), 1).reshape(batch, length, choices, count)
    position = mask * position
    kept = mask * (position <= slots)
    weights = weights * kept.sum(2)
    place = (position * kept).sum(2)
    combine = (weights[..., None] * jax.nn.one_hot(place, slots + 1, dtype=jnp.int32))[..., 1:].astype(x.dtype)
    dispatch = combine.astype(bool).astype(x.dtype)
    slotted = jnp.einsum("bsd,bsec->ebcd", x, dispatch)
    up = jax.nn.silu(jnp.einsum("ebcd,edf->ebcf", slotted, p["w1"])) * jnp.einsum("ebcd,edf->ebcf", slotted, p["w3"])
    return jnp.einsum("ebcd,bsec->bsd", jnp.einsum("ebcf,efd->ebcd", up, p["w2"]), combine)


def mixture(form, hidden, layers=1, batch=4, length=64, width=128, count=4):
    def loss(params, x):
        for p in params:
            x = x + form(p, x)
        return (x.astype(jnp.float32) ** 2).mean()

    one = dict(gate=spec(width, count), w1=spec(count, width, hidden), w3=spec(count, width, hidden), w2=spec(count, hidden, width))
    return jax.value_and_grad(loss, (0, 1)), ([one] * layers, spec(batch, length, width))


def of_mixture(sizes, tokens, columns, rows, layers=1):
    """Shardings of a mixture: of tokens, of the matrices that widen, and of those that narrow."""
    one = dict(gate=P(), w1=columns, w3=columns, w2=rows)
    return sizes, ([one] * layers, tokens)


def losses(take):
    """A vocabulary of 1024 and 8 × 128 rows of 64."""

    def loss(head, x, labels):
        logits = (x @ head).astype(jnp.float32)
        return take(logits, labels).mean()

    return jax.value_and_grad(loss, (0, 1)), (spec(64, 1024), spec(8, 128, 64), spec(8, 128, dtype=jnp.int32))


def log_softmax(logits, labels):
    return -(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, logits.shape[-1])).sum(-1)


def logsumexp(logits, labels):
    """All positions but the last, a mask."""
    logits, labels = logits[:, :-1], labels[:, 1:]
    picked = (logits * jax.nn.one_hot(labels, logits.shape[-1])).sum(-1)
    return jnp.where(labels > 3, jax.nn.logsumexp(logits, -1) - picked, 0)


def norms(p, x):
    def rms(x, scale):
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale

    def layer(x, scale, bias):
        wide = x.astype(jnp.float32)
        mean = wide.mean(-1, keepdims=True)
        variance = ((wide - mean) ** 2).mean(-1, keepdims=True)
        return ((wide - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias).astype(x.dtype)

    x = x + rms(x, p["rms"]) @ p["first"]
    x = x + layer(x, p["scale"], p["bias"]) @ p["second"]
    return (x.astype(jnp.float32) ** 2).mean()


NORMS = (
    dict(rms=spec(128), scale=spec(128, dtype=jnp.float32), bias=spec(128, dtype=jnp.float32), first=spec(128, 128), second=spec(128, 128)),
    spec(4, 64, 128),
)
OF_NORMS = (dict(rms=P(), scale=P(), bias=P(), first=P(None, "model"), second=P("model", None)), P("data", None, None))

TWO_FOUR = dict(data=2, model=4)
TENSOR = of_mixture(TWO_FOUR, P("data"), P(None, None, "model"), P(None, "model", None))
EXPERT = of_mixture(dict(data=2, expert=4), P("data"), P("expert"), P("expert"))
ALL_AXES = dict(data=2, expert=2, model=2)
PROGRAMS = {
    "experts_tensor": (mixture(experts, 512), TENSOR),
    "experts_expert": (mixture(experts, 256), EXPERT),
    "experts_fsdp": (mixture(experts, 256, batch=8), of_mixture(dict(data=8), P("data"), P(None, "data"), P(None, None, "data"))),
    "experts_all_axes": (
        mixture(experts, 256),
        of_mixture(ALL_AXES, P(("data", "expert")), P("expert", None, "model"), P("expert", "model", None)),
    ),
    "experts_two_layers": (mixture(experts, 512, 2), of_mixture(TWO_FOUR, P("data"), P(None, None, "model"), P(None, "model", None), 2)),
    "experts_whole": (mixture(experts, 256, batch=3, length=40), of_mixture(dict(data=8), P(), P(None, "data"), P(None, None, "data"))),
    "experts_too_few": (mixture(experts, 256, batch=8, length=1), of_mixture(dict(data=8), P("data"), P(None, "data"), P(None, None, "data"))),
    "capacity_tensor": (mixture(capacity, 512), TENSOR),
    "capacity_expert": (mixture(capacity, 128), EXPERT),
    "loss_vocabulary": ((losses(log_softmax)), (TWO_FOUR, (P(None, "model"), P("data"), P("data")))),
    "loss_rows": ((losses(logsumexp)), (dict(data=4, model=2), (P("model", None), P("data"), P("data")))),
    "loss_masked": ((losses(logsumexp)), (TWO_FOUR, (P(None, "model"), P("data"), P("data")))),
    "norms": ((jax.value_and_grad(norms, (0, 1)), NORMS), (TWO_FOUR, OF_NORMS)),
}
FOR_GSPMD = ["experts_tensor", "experts_expert", "capacity_tensor", "loss_vocabulary", "norms"]


def export(name, path):
    (function, arguments), (sizes, specs) = PROGRAMS[name]
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(*sizes.values()), tuple(sizes))
    shardings = jax.tree.map(lambda one: NamedSharding(mesh, one), specs, is_leaf=lambda x: isinstance(x, P))
    whole = NamedSharding(mesh, P())
    step = jax.jit(function, in_shardings=shardings, out_shardings=(whole, shardings[:2]))
    path.write_text(step.lower(*arguments).as_text())


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for name in PROGRAMS:
        export(name, folder / f"{name}.mlir")
    jax.config.update("jax_use_shardy_partitioner", False)
    for name in FOR_GSPMD:
        export(name, folder / f"{name}_gspmd.mlir")
