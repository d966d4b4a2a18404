"""Gather and scatter in their modes, dynamic slices and updates, sorting and selection by value."""

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec

GATHER_MODES = ["clip", "fill", "wrap"]
SCATTERS = {
    "add": lax.scatter_add,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
    "set": lax.scatter,
    "sub": lax.scatter_sub,
}


def programs() -> list[Program]:
    """All indexing programs."""
    return [*_gathers(), *_scatters(), *_dynamic(), *_ordering()]


def _gathers() -> list[Program]:
    x, i = spec((8, 16)), spec((5,), jnp.int32)
    listed = [
        Program(
            f"take_{mode}",
            lambda v, k, m=mode: jnp.take(v, k, axis=0, mode=m),
            [x, i],
            ["gather"],
            generic=mode == "fill",
        )
        for mode in GATHER_MODES
    ]
    listed += [
        Program("gather_rows", lambda v, k: v[k], [x, i], ["gather"], locations=True),
        Program("gather_columns", lambda v, k: v[:, k], [x, i], ["gather"]),
        Program("gather_pairs", lambda v, a, b: v[a, b], [x, i, i], ["gather"]),
        Program("gather_slices", lambda v, k: v[k, 2:7], [x, i], ["gather"]),
        Program("gather_negative", lambda v: v[-3], [x], ["gather"]),
        Program("gather_strided", lambda v: v[1:7:2, ::-3], [x], ["slice"]),
        Program("gather_int64_index", lambda v, k: v[k], [x, spec((5,), jnp.int64)], ["gather", "int64"], x64=True),
        Program("gather_uint8_index", lambda v, k: v[k], [x, spec((5,), jnp.uint8)], ["gather"]),
        Program(
            "take_along_axis", lambda v, k: jnp.take_along_axis(v, k, axis=1), [x, spec((8, 3), jnp.int32)], ["gather"]
        ),
        Program(
            "gather_batched",
            jax.vmap(lambda v, k: v[k]),
            [spec((3, 8, 4)), spec((3, 5), jnp.int32)],
            ["gather", "batching_dims"],
        ),
        Program(
            "gather_general", _general_gather, [spec((4, 5, 6)), spec((3, 2), jnp.int32)], ["gather"], generic=True
        ),
        Program("gather_sorted_unique", _sorted_gather, [x, i], ["gather"]),
        Program("gather_gradient", jax.grad(lambda v, k: jnp.sum(v[k] ** 2)), [x, i], ["gather", "scatter", "grad"]),
        Program(
            "embedding_lookup", lambda t, k: t[k], [spec((100, 16), jnp.bfloat16), spec((2, 7), jnp.int32)], ["gather"]
        ),
        Program("one_hot", lambda k: jax.nn.one_hot(k, 10), [i], ["gather"]),
        Program("searchsorted", jnp.searchsorted, [spec((16,)), spec((4,))], ["gather", "while"]),
        Program("unravel", lambda k: jnp.unravel_index(k, (3, 4)), [i], ["gather"]),
        Program("diagonal", jnp.diagonal, [spec((5, 5))], ["gather"]),
        Program("select_rows_by_mask", lambda v, m: jnp.nonzero(m, size=4)[0], [x, spec((8,), bool)], ["gather"]),
        Program("unique_fixed", lambda k: jnp.unique(k, size=5), [spec((9,), jnp.int32)], ["sort"]),
    ]
    return listed


def _general_gather(v, starts):
    numbers = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(1,), start_index_map=(1, 2))
    return lax.gather(v, starts, numbers, (4, 1, 3), mode="clip")


def _sorted_gather(v, k):
    return v.at[k].get(indices_are_sorted=True, unique_indices=True, mode="fill", fill_value=-1.0)


def _scatters() -> list[Program]:
    x, i, u = spec((8, 16)), spec((5,), jnp.int32), spec((5, 16))
    listed = []
    for name, scatter in SCATTERS.items():
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        listed.append(
            Program(
                f"scatter_{name}",
                lambda v, k, w, s=scatter, n=numbers: s(v, k, w, n, mode="drop"),
                [x, spec((5, 1), jnp.int32), u],
                ["scatter"],
                generic=name == "add",
                locations=name == "add",
            )
        )
    listed += [
        Program("scatter_at_set", lambda v, k, w: v.at[k].set(w), [x, i, u], ["scatter"]),
        Program("scatter_at_add_flags", _flagged_scatter, [x, i, u], ["scatter"]),
        Program("scatter_at_clip", lambda v, k, w: v.at[k].add(w, mode="clip"), [x, i, u], ["scatter"]),
        Program("scatter_at_multiply", lambda v, k: v.at[k].multiply(3.0), [x, i], ["scatter"]),
        Program("scatter_at_apply", lambda v, k: v.at[k].apply(jnp.tanh), [x, i], ["scatter", "region"]),
        Program("scatter_elements", lambda v, a, b: v.at[a, b].set(0.0), [x, i, i], ["scatter"]),
        Program(
            "scatter_batched",
            jax.vmap(lambda v, k, w: v.at[k].add(w)),
            [spec((3, 8)), spec((3, 5), jnp.int32), spec((3, 5))],
            ["scatter", "batching_dims"],
        ),
        Program(
            "scatter_bf16",
            lambda v, k, w: v.at[k].add(w),
            [spec((8, 4), jnp.bfloat16), i, spec((5, 4), jnp.bfloat16)],
            ["scatter", "bfloat16"],
        ),
        Program("scatter_int", lambda v, k: v.at[k].max(7), [spec((8,), jnp.int32), i], ["scatter"]),
        Program(
            "scatter_gradient",
            jax.grad(lambda v, k, w: jnp.sum(v.at[k].set(w) ** 2), argnums=(0, 2)),
            [x, i, u],
            ["scatter", "grad"],
        ),
        Program("segment_sum", lambda v, k: jax.ops.segment_sum(v, k, 4), [u, i], ["scatter"]),
        Program("segment_max", lambda v, k: jax.ops.segment_max(v, k, 4), [u, i], ["scatter"]),
        Program(
            "scatter_2d_blocks",
            _block_scatter,
            [spec((10, 10)), spec((3, 2), jnp.int32), spec((3, 2, 2))],
            ["scatter"],
            generic=True,
        ),
    ]
    return listed


def _flagged_scatter(v, k, w):
    return v.at[k].add(w, indices_are_sorted=True, unique_indices=True, mode="promise_in_bounds")


def _block_scatter(v, starts, blocks):
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1)
    )
    return lax.scatter_add(v, starts, blocks, numbers)


def _dynamic() -> list[Program]:
    x, k = spec((8, 16)), spec((), jnp.int32)
    return [
        Program(
            "dynamic_slice",
            lambda v, a, b: lax.dynamic_slice(v, (a, b), (3, 4)),
            [x, k, k],
            ["dynamic_slice"],
            generic=True,
        ),
        Program(
            "dynamic_slice_in_dim", lambda v, a: lax.dynamic_slice_in_dim(v, a, 2, axis=1), [x, k], ["dynamic_slice"]
        ),
        Program(
            "dynamic_index", lambda v, a: lax.dynamic_index_in_dim(v, a, 0, keepdims=False), [x, k], ["dynamic_slice"]
        ),
        Program(
            "dynamic_update_slice",
            lambda v, w, a: lax.dynamic_update_slice(v, w, (a, 0)),
            [x, spec((2, 16)), k],
            ["dynamic_update_slice"],
            generic=True,
        ),
        Program(
            "dynamic_update_constant_start",
            lambda v, w: lax.dynamic_update_slice(v, w, (2, 3)),
            [x, spec((2, 2))],
            ["dynamic_update_slice"],
        ),
        Program(
            "dynamic_update_index",
            lambda v, w, a: lax.dynamic_update_index_in_dim(v, w, a, 0),
            [x, spec((16,)), k],
            ["dynamic_update_slice"],
        ),
        Program(
            "kv_cache_update",
            _cache_update,
            [spec((2, 32, 4, 8), jnp.bfloat16), spec((2, 1, 4, 8), jnp.bfloat16), k],
            ["dynamic_update_slice"],
            jit={"donate_argnums": (0,)},
        ),
        Program(
            "dynamic_slice_gradient",
            jax.grad(lambda v, a: jnp.sum(lax.dynamic_slice(v, (a, a), (2, 2)))),
            [x, k],
            ["dynamic_slice", "grad"],
        ),
        Program(
            "dynamic_slice_vmap",
            jax.vmap(lambda v, a: lax.dynamic_slice_in_dim(v, a, 2), in_axes=(None, 0)),
            [spec((8,)), spec((3,), jnp.int32)],
            ["gather"],
        ),
        Program("roll_dynamic", lambda v, a: jnp.roll(v, a, axis=1), [x, k], ["dynamic_slice"]),
    ]


def _cache_update(cache, entry, position):
    return lax.dynamic_update_slice(cache, entry, (0, position, 0, 0))


def _ordering() -> list[Program]:
    x, i = spec((4, 16)), spec((4, 16), jnp.int32)
    return [
        Program("sort", lambda v: lax.sort(v), [x], ["sort"], generic=True, locations=True),
        Program("sort_axis0_stable", lambda v: lax.sort(v, dimension=0, is_stable=True), [x], ["sort"]),
        Program("sort_unstable", lambda v: lax.sort(v, is_stable=False), [x], ["sort"]),
        Program(
            "sort_key_value", lambda a, b: lax.sort((a, b), num_keys=1), [x, i], ["sort", "variadic"], generic=True
        ),
        Program("sort_two_keys", lambda a, b, c: lax.sort((a, b, c), num_keys=2), [i, x, x], ["sort", "variadic"]),
        Program("sort_bf16", lambda v: jnp.sort(v), [spec((32,), jnp.bfloat16)], ["sort", "bfloat16"]),
        Program("sort_complex", lambda v: jnp.sort(v), [spec((8,), jnp.complex64)], ["sort", "complex"]),
        Program("sort_descending", lambda v: jnp.sort(v, descending=True), [x], ["sort"]),
        Program("argsort", lambda v: jnp.argsort(v, axis=0), [x], ["sort"]),
        Program("lexsort", lambda a, b: jnp.lexsort((a, b)), [spec((9,)), spec((9,), jnp.int32)], ["sort"]),
        Program("sort_gradient", jax.grad(lambda v: jnp.sum(jnp.sort(v) * jnp.arange(16.0))), [x], ["sort", "grad"]),
        Program("top_k", lambda v: lax.top_k(v, 3), [x], ["top_k"], generic=True),
        Program("top_k_int", lambda v: lax.top_k(v, 3), [i], ["top_k"]),
        Program("top_k_gradient", jax.grad(lambda v: lax.top_k(v, 3)[0].sum()), [x], ["top_k", "grad"]),
        Program(
            "approx_max_k", lambda v: lax.approx_max_k(v, 4, recall_target=0.9), [spec((2, 256))], ["approx_top_k"]
        ),
        Program(
            "approx_min_k_cpu", lambda v: lax.approx_min_k(v, 4), [spec((2, 256))], ["approx_top_k"], platform="cpu"
        ),
        Program("partition", lambda v: jnp.partition(v, 5), [x], ["top_k"]),
        Program("argpartition", lambda v: jnp.argpartition(v, 5), [x], ["top_k"]),
    ]
