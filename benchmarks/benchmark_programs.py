"""Programs the benchmarks compile: builders of the test references, and a training step whose compile takes tens of seconds."""

import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crates/testkit/python"))

import export_reference as reference  # noqa: E402  (sets libtpu's environment before JAX is imported)
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def decoder_step(place: reference.Place):
    """A decoder's training step: 4 scanned layers of width 1024, remat, Adam, tensor parallel over four chips."""
    layers, width, heads, hidden, vocabulary = 4, 1024, 8, 4096, 16000
    params = {
        "embed": place((vocabulary, width), jnp.float32, "model", None),
        "qkv": place((layers, width, 3, heads, width // heads), jnp.float32, None, None, None, "model", None),
        "out": place((layers, heads, width // heads, width), jnp.float32, None, "model", None, None),
        "up": place((layers, width, hidden), jnp.float32, None, None, "model"),
        "down": place((layers, hidden, width), jnp.float32, None, "model", None),
    }
    tokens = place((4, 513), jnp.int32, None, None)

    def step(p, m, v, t):
        value, grads = jax.value_and_grad(reference.language_loss)(p, t)
        return *reference.adam(p, grads, m, v), value

    return step, [params, params, params, tokens], (0, 1, 2)


_four_chips = functools.partial(reference.Case, topology="v5e:2x2")

CASES = {
    "matmul": _four_chips("matmul", build=reference.matmul),
    "ffn": _four_chips("ffn", build=reference.ffn, mesh={"data": 2, "model": 2}),
    "mlp_adam": _four_chips("mlp_adam", build=reference.mlp_adam),
    "decoder_step": _four_chips("decoder_step", build=decoder_step, mesh={"model": 4}),
}


def lower(name: str):
    """The lowered program of that name, for four v5e chips."""
    return reference.lower_case(CASES[name])[0]
