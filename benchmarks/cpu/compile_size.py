"""Compile time on the CPU device by a program's size: a decoder written out layer by layer, forward and as a training step.

    python benchmarks/cpu/compile_size.py --tpu target/release/tpu --layers 10,25,50,100

JAX writes the programs, `tpu run --json` compiles and times them; the least of some runs. Results are kept in benchmarks/results/cpu.md.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import jax
import jax.numpy as jnp

WIDTH, HEADS, BATCH, LENGTH = 64, 4, 2, 32


def layer(weights, x):
    """Attention and a feed-forward, each behind a norm."""
    qkv, out, up, down, first, second = weights

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    q, k, v = (part.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS) for part in jnp.split(norm(x, first) @ qkv, 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ out
    return x + jax.nn.gelu(norm(x, second) @ up) @ down


def loss(weights, x):
    """A number at the end of all layers."""
    for one in weights:
        x = layer(one, x)
    return jnp.mean(x * x)


def step(weights, means, squares, x):
    """A training step with AdamW."""
    value, gradients = jax.value_and_grad(loss)(weights, x)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, squares, gradients)
    weights = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * p), weights, means, squares)
    return weights, means, squares, value


def programs(layers):
    """Both programs as text."""
    sizes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), (WIDTH,), (WIDTH,)]
    weights = [tuple(jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes) for _ in range(layers)]
    x = jax.ShapeDtypeStruct((BATCH, LENGTH, WIDTH), jnp.float32)
    yield jax.jit(loss).lower(weights, x).as_text()
    yield jax.jit(step, donate_argnums=(0, 1, 2)).lower(weights, weights, weights, x).as_text()


def main():
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--layers", default="10,25,50,100")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    print("| layers | forward ms | per layer | training step ms | per layer |\n|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "program.mlir"
        for layers in map(int, args.layers.split(",")):
            cells = [str(layers)]
            for text in programs(layers):
                file.write_text(text)
                command = [args.tpu, "run", str(file), "-d", "cpu", "--json"]
                runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(args.runs)]
                least = 1000 * min(run["compile_seconds"] for run in runs)
                cells += [f"{least:.1f}", f"{least / layers:.2f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


main()
