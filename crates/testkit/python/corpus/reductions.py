"""Reductions, windows over arrays, scans along an axis, and pooling with its gradients."""

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec

NUMPY_REDUCTIONS = {
    "sum": jnp.sum,
    "prod": jnp.prod,
    "max": jnp.max,
    "min": jnp.min,
    "mean": jnp.mean,
    "var": jnp.var,
    "std": jnp.std,
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "median": jnp.median,
    "ptp": jnp.ptp,
    "nanmean": jnp.nanmean,
    "count_nonzero": jnp.count_nonzero,
    "logsumexp": jax.scipy.special.logsumexp,
}

CUMULATIVE = {
    "cumsum": lax.cumsum,
    "cumprod": lax.cumprod,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
    "cumlogsumexp": lax.cumlogsumexp,
}


def programs() -> list[Program]:
    """All reduction programs."""
    return [*_reduce(), *_windows(), *_cumulative(), *_pooling()]


def _reduce() -> list[Program]:
    x = spec((4, 6, 8))
    listed = [
        Program(f"reduce_{n}", lambda v, f=f: f(v, axis=1), [x], ["reduce"], generic=n in ("sum", "argmax"))
        for n, f in NUMPY_REDUCTIONS.items()
    ]
    listed += [
        Program("reduce_sum_all", jnp.sum, [x], ["reduce"]),
        Program("reduce_sum_keepdims", lambda v: jnp.sum(v, axis=(0, 2), keepdims=True), [x], ["reduce"]),
        Program("reduce_sum_bf16", jnp.sum, [spec((64,), jnp.bfloat16)], ["reduce", "bfloat16"]),
        Program(
            "reduce_sum_int8_wide", lambda v: jnp.sum(v, dtype=jnp.int32), [spec((64,), jnp.int8)], ["reduce", "int8"]
        ),
        Program("reduce_all_any", lambda m: (jnp.all(m, 0), jnp.any(m, 1)), [spec((4, 4), bool)], ["reduce", "bool"]),
        Program("reduce_bitwise", _bitwise_reductions, [spec((4, 8), jnp.uint32)], ["reduce"]),
        Program(
            "reduce_variadic",
            _sum_and_max,
            [spec((4, 8)), spec((4, 8))],
            ["reduce", "variadic"],
            generic=True,
            locations=True,
        ),
        Program("reduce_custom_body", _saturating_sum, [spec((4, 8))], ["reduce", "region"], generic=True),
        Program(
            "reduce_complex", lambda v: (jnp.sum(v), jnp.prod(v)), [spec((8,), jnp.complex64)], ["reduce", "complex"]
        ),
        Program("reduce_sum_gradient", jax.grad(lambda v: jnp.sum(jnp.max(v, axis=0))), [spec((4, 4))], ["grad"]),
        Program(
            "reduce_weighted_average",
            lambda v, w: jnp.average(v, axis=0, weights=w),
            [spec((4, 4)), spec((4, 4))],
            ["reduce"],
        ),
        Program("percentile", lambda v: jnp.percentile(v, 30.0, axis=0), [spec((9, 3))], ["reduce", "sort"]),
        Program("histogram", lambda v: jnp.histogram(v, bins=8)[0], [spec((32,))], ["reduce", "scatter"]),
        Program("bincount", lambda v: jnp.bincount(v, length=10), [spec((32,), jnp.int32)], ["scatter"]),
        Program("norms", lambda v: (jnp.linalg.norm(v), jnp.linalg.norm(v, 1, axis=0)), [spec((4, 4))], ["reduce"]),
    ]
    return listed


def _bitwise_reductions(v):
    zero, ones = jnp.uint32(0), jnp.uint32(0xFFFFFFFF)
    return (
        lax.reduce(v, ones, lax.bitwise_and, [0]),
        lax.reduce(v, zero, lax.bitwise_or, [1]),
        lax.reduce(v, zero, lax.bitwise_xor, [0, 1]),
    )


def _sum_and_max(a, b):
    def combine(left, right):
        return left[0] + right[0], jnp.maximum(left[1], right[1])

    return lax.reduce((a, b), (0.0, -jnp.inf), combine, [1])


def _saturating_sum(v):
    return lax.reduce(v, 0.0, lambda a, b: jnp.minimum(a + b, 100.0), [0])


def _windows() -> list[Program]:
    x = spec((2, 9, 9, 3))
    listed = []
    for padding in ("SAME", "VALID"):
        listed.append(
            Program(
                f"window_sum_{padding.lower()}",
                lambda v, p=padding: lax.reduce_window(v, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), p),
                [x],
                ["reduce_window"],
                generic=padding == "SAME",
            )
        )
    listed += [
        Program(
            "window_max",
            lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
            [x],
            ["reduce_window"],
        ),
        Program(
            "window_min",
            lambda v: lax.reduce_window(v, jnp.inf, lax.min, (1, 2, 2, 1), (1, 1, 1, 1), "SAME"),
            [x],
            ["reduce_window"],
        ),
        Program("window_dilated", _dilated_window, [x], ["reduce_window", "dilation"], generic=True),
        Program("window_explicit_padding", _padded_window, [x], ["reduce_window", "padding"]),
        Program(
            "window_variadic", _variadic_window, [spec((8,)), spec((8,), jnp.int32)], ["reduce_window", "variadic"]
        ),
        Program(
            "window_int",
            lambda v: lax.reduce_window(v, 1, lax.mul, (3,), (1,), "SAME"),
            [spec((8,), jnp.int32)],
            ["reduce_window"],
        ),
    ]
    return listed


def _dilated_window(v):
    return lax.reduce_window(
        v, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 2, 1), window_dilation=(1, 3, 2, 1)
    )


def _padded_window(v):
    return lax.reduce_window(v, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), [(0, 0), (2, 1), (0, 2), (0, 0)])


def _variadic_window(values, indices):
    def larger(a, b):
        keep = a[0] >= b[0]
        return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])

    return lax.reduce_window((values, indices), (-jnp.inf, 0), larger, (2,), (2,), "VALID")


def _cumulative() -> list[Program]:
    x = spec((4, 16))
    listed = [Program(n, lambda v, f=f: f(v, axis=1), [x], ["cumulative"]) for n, f in CUMULATIVE.items()]
    listed += [
        Program("cumsum_reverse", lambda v: lax.cumsum(v, axis=0, reverse=True), [x], ["cumulative"]),
        Program("cummax_gradient", jax.grad(lambda v: lax.cummax(v, axis=1).sum()), [x], ["cumulative", "grad"]),
        Program("cumprod_gradient", jax.grad(lambda v: lax.cumprod(v, axis=1).sum()), [x], ["cumulative", "grad"]),
        Program("associative_scan", lambda v: lax.associative_scan(jnp.multiply, v, axis=1), [x], ["cumulative"]),
        Program("linear_recurrence", _linear_recurrence, [x, x], ["cumulative"]),
    ]
    return listed


def _linear_recurrence(decay, inputs):
    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return lax.associative_scan(combine, (decay, inputs), axis=1)[1]


def _pooling() -> list[Program]:
    x = spec((2, 8, 8, 3))
    return [
        Program("max_pool", _max_pool, [x], ["reduce_window", "pool"]),
        Program(
            "max_pool_gradient",
            jax.grad(lambda v: _max_pool(v).sum()),
            [x],
            ["select_and_scatter", "grad"],
            generic=True,
            locations=True,
        ),
        Program(
            "max_pool_same_gradient", jax.grad(lambda v: _max_pool_same(v).sum()), [x], ["select_and_scatter", "grad"]
        ),
        Program("avg_pool_gradient", jax.grad(lambda v: _average_pool(v).sum()), [x], ["pad", "grad"]),
        Program("max_pool_tangent", _max_pool_jvp, [x, x], ["select_and_gather", "grad"]),
        Program(
            "max_pool_1d",
            lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (1, 4, 1), (1, 4, 1), "SAME"),
            [spec((2, 17, 3))],
            ["pool"],
        ),
        Program("min_pool_gradient", jax.grad(lambda v: _min_pool(v).sum()), [x], ["select_and_scatter", "grad"]),
    ]


def _max_pool(v):
    return lax.reduce_window(v, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _max_pool_same(v):
    return lax.reduce_window(v, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def _min_pool(v):
    return lax.reduce_window(v, jnp.inf, lax.min, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")


def _average_pool(v):
    return lax.reduce_window(v, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4.0


def _max_pool_jvp(v, tangent):
    return jax.jvp(_max_pool, (v,), (tangent,))
