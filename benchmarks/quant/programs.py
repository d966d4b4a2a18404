"""Programs of quantized matmuls and of a decode step, in the forms that `nn::quant` writes, as StableHLO.

JAX only writes them down. The forms are those of crates/nn/src/quant/tensor.rs: the scale of a channel after the dot, partial sums by group
for few rows, dequantize for many, activations quantized by rows.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

# Rows up to which groups are partial sums: MOST_ROWS_OF_PARTIAL_SUMS of crates/nn/src/quant/form.rs.
MOST_ROWS_OF_PARTIAL_SUMS = 96


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How a weight is quantized, by the name that `tpu quantize` knows."""

    name: str
    # Type of codes; none for a dense weight.
    values: Any = None
    group: int | None = None
    quantizes_rows: bool = False
    # Whether the weight is [out, in] instead of [in, out].
    is_out_in: bool = False

    @property
    def largest(self) -> float:
        """The largest code."""
        return {"int8": 127.0, "int4": 7.0, "float8_e4m3fn": 448.0}[jnp.dtype(self.values).name]


INT4, INT8, FP8 = jnp.int4, jnp.int8, jnp.float8_e4m3fn
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("bf16"),
        Scheme("w8a16", INT8),
        Scheme("w8a16-fp8", FP8),
        Scheme("w4a16", INT4),
        Scheme("w4a16-g128", INT4, group=128),
        Scheme("w8a8", INT8, quantizes_rows=True),
        Scheme("w8a8-fp8", FP8, quantizes_rows=True),
        Scheme("w8a8 [out, in]", INT8, quantizes_rows=True, is_out_in=True),
        Scheme("w8a8-fp8 [out, in]", FP8, quantizes_rows=True, is_out_in=True),
    )
}


def weight_specs(scheme: Scheme, inputs: int, outputs: int, layers: tuple[int, ...] = ()) -> list[Any]:
    """Arrays of one weight: values, then scales."""
    dims = (outputs, inputs) if scheme.is_out_in else (inputs, outputs)
    if scheme.values is None:
        return [jax.ShapeDtypeStruct((*layers, *dims), jnp.bfloat16)]
    groups = 1 if scheme.group is None else inputs // scheme.group
    scales = (outputs, groups) if scheme.is_out_in else (groups, outputs)
    return [jax.ShapeDtypeStruct((*layers, *dims), scheme.values), jax.ShapeDtypeStruct((*layers, *scales), jnp.float32)]


def quantized_rows(x: jax.Array, dtype: Any, largest: float) -> tuple[jax.Array, jax.Array]:
    """Codes of each row, and its scale."""
    wide = x.astype(jnp.float32)
    scales = jnp.max(jnp.abs(wide), axis=-1, keepdims=True) * (1.0 / largest)
    inverse = jnp.where(scales == 0, 0.0, 1.0 / jnp.where(scales == 0, 1.0, scales))
    clamped = jnp.clip(wide * inverse, -largest, largest)
    return (clamped if dtype == FP8 else jnp.round(clamped)).astype(dtype), scales


def matmul(scheme: Scheme, x: jax.Array, weight: list[jax.Array]) -> jax.Array:
    """`x [rows, in]` times a weight, in bf16."""
    dot = lambda a, b, sum_dtype: lax.dot_general(  # noqa: E731
        a, b, (((1,), (1 if scheme.is_out_in else 0,)), ((), ())), preferred_element_type=sum_dtype
    )
    if scheme.values is None:
        return dot(x, weight[0], jnp.bfloat16)
    values, scales = weight
    if scheme.quantizes_rows:
        rows, row_scales = quantized_rows(x, scheme.values, scheme.largest)
        summed = dot(rows, values, jnp.float32 if scheme.values == FP8 else jnp.int32).astype(jnp.float32)
        return (summed * scales.reshape(-1) * row_scales).astype(jnp.bfloat16)
    if scheme.group is None:
        return (dot(x, values.astype(jnp.bfloat16), jnp.float32) * scales.reshape(-1)).astype(jnp.bfloat16)
    groups, outputs = scales.shape
    if x.shape[0] > MOST_ROWS_OF_PARTIAL_SUMS:
        apart = values.astype(jnp.float32).reshape(groups, scheme.group, outputs) * scales[:, None]
        return dot(x, apart.astype(jnp.bfloat16).reshape(values.shape), jnp.bfloat16)
    apart = x.reshape(x.shape[0], groups, scheme.group)
    codes = values.astype(jnp.bfloat16).reshape(groups, scheme.group, outputs)
    parts = lax.dot_general(apart, codes, (((2,), (1,)), ((1,), (0,))), preferred_element_type=jnp.float32)
    return (parts * scales[:, None]).sum(0).astype(jnp.bfloat16)


def text(function: Any, specs: list[Any]) -> str:
    """The program of a function."""
    return jax.jit(function, keep_unused=True).lower(*specs).as_text()


def chain(scheme: Scheme, rows: int, sizes: list[tuple[int, int]]) -> str:
    """Matmuls of `[rows, in]`, each with the result of the one before."""
    count = 1 if scheme.values is None else 2

    def program(x: jax.Array, *weights: jax.Array) -> jax.Array:
        for index in range(len(sizes)):
            x = matmul(scheme, x, list(weights[index * count : (index + 1) * count]))
        return x

    specs = [jax.ShapeDtypeStruct((rows, sizes[0][0]), jnp.bfloat16)]
    for size in sizes:
        specs += weight_specs(scheme, *size)
    return text(program, specs)


@dataclasses.dataclass(frozen=True)
class Llama:
    """Sizes of a model."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    vocab: int

    @property
    def linears(self) -> list[tuple[int, int]]:
        """Query, key, value, output, gate, up, down: inputs and outputs."""
        wide, narrow = self.heads * self.head, self.kv_heads * self.head
        attention = [(self.hidden, wide), (self.hidden, narrow), (self.hidden, narrow), (wide, self.hidden)]
        return [*attention, (self.hidden, self.inner), (self.hidden, self.inner), (self.inner, self.hidden)]


LLAMA_1B = Llama(layers=16, hidden=2048, heads=32, kv_heads=8, head=64, inner=8192, vocab=128256)


def norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(jnp.bfloat16) * weight


def rotated(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(jnp.bfloat16)


def layer(llama: Llama, scheme: Scheme, x: jax.Array, keys: jax.Array, values: jax.Array, around: tuple, leaves: list) -> tuple:
    """One layer on the next token, whose key and value take the last place of the cache. They are results of their own."""
    cos, sin, norm_1, norm_2 = around
    count = 1 if scheme.values is None else 2
    weight = lambda index: leaves[index * count : (index + 1) * count]  # noqa: E731
    rows, context = x.shape[0], keys.shape[2]
    normed = norm(x, norm_1)
    q, k, v = (matmul(scheme, normed, weight(index)) for index in range(3))
    q = rotated(q.reshape(rows, llama.kv_heads, -1, llama.head), cos, sin)
    k = rotated(k.reshape(rows, llama.kv_heads, llama.head), cos, sin)
    v = v.reshape(rows, llama.kv_heads, llama.head)
    score = lambda spec, a, b: jnp.einsum(spec, a, b, preferred_element_type=jnp.float32) * llama.head**-0.5  # noqa: E731
    is_last = lax.broadcasted_iota(jnp.int32, (1, 1, 1, context), 3) == context - 1
    scores = jnp.where(is_last, score("bkgd,bkd->bkg", q, k)[..., None], score("bkgd,bksd->bkgs", q, keys))
    probabilities = jax.nn.softmax(scores, axis=-1)
    old = jnp.where(is_last, 0.0, probabilities).astype(jnp.bfloat16)
    mixed = jnp.einsum("bkgs,bksd->bkgd", old, values, preferred_element_type=jnp.float32)
    mixed = mixed + probabilities[..., -1:] * v[:, :, None].astype(jnp.float32)
    x = x + matmul(scheme, mixed.astype(jnp.bfloat16).reshape(rows, -1), weight(3))
    normed = norm(x, norm_2)
    gate, up = matmul(scheme, normed, weight(4)), matmul(scheme, normed, weight(5))
    x = x + matmul(scheme, jax.nn.silu(gate) * up, weight(6))
    return x, k, v


def decode(llama: Llama, scheme: Scheme, rows: int, context: int, is_scan: bool) -> str:
    """A decode step: hidden states of a token to logits. Inputs: state, caches, cos, sin, norms; then weights by leaf (scan) or by layer."""
    leaf_count = 7 * (1 if scheme.values is None else 2)

    def program(x: jax.Array, keys: jax.Array, values: jax.Array, cos: jax.Array, sin: jax.Array, *rest: jax.Array) -> tuple:
        norm_1, norm_2, last_norm, *weights = rest
        head_at = leaf_count if is_scan else leaf_count * llama.layers
        leaves, head = weights[:head_at], weights[head_at:]

        def step(x: jax.Array, xs: tuple) -> tuple:
            keys, values, norm_1, norm_2, leaves = xs
            x, k, v = layer(llama, scheme, x, keys, values, (cos, sin, norm_1, norm_2), leaves)
            return x, (k, v)

        if is_scan:
            x, new = lax.scan(step, x, (keys, values, norm_1, norm_2, leaves))
        else:
            made = []
            for index in range(llama.layers):
                mine = leaves[index * leaf_count : (index + 1) * leaf_count]
                x, pair = step(x, (keys[index], values[index], norm_1[index], norm_2[index], mine))
                made.append(pair)
            new = tuple(jnp.stack(part) for part in zip(*made))
        return matmul(scheme, norm(x, last_norm), head), *new

    bf16 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.bfloat16)  # noqa: E731
    cache = bf16(llama.layers, rows, llama.kv_heads, context, llama.head)
    angle = jax.ShapeDtypeStruct((llama.head // 2,), jnp.float32)
    norms = [bf16(llama.layers, llama.hidden)] * 2 + [bf16(llama.hidden)]
    specs = [bf16(rows, llama.hidden), cache, cache, angle, angle, *norms]
    for _ in range(1 if is_scan else llama.layers):
        for size in llama.linears:
            specs += weight_specs(scheme, *size, (llama.layers,) if is_scan else ())
    return text(program, specs + weight_specs(scheme, llama.hidden, llama.vocab))
