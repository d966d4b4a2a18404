"""Loops, branches, calls, and function transformations that leave regions and barriers behind."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec


def programs() -> list[Program]:
    """All control-flow programs."""
    return [*_loops(), *_branches(), *_nesting(), *_transformations(), *_calls()]


def _loops() -> list[Program]:
    x, n = spec((4,)), spec((), jnp.int32)
    return [
        Program(
            "while",
            lambda v: lax.while_loop(lambda c: jnp.sum(c) < 100.0, lambda c: c * 2.0, v),
            [x],
            ["while"],
            generic=True,
            locations=True,
        ),
        Program("while_carries", _while_carries, [x], ["while"]),
        Program("fori_static", lambda v: lax.fori_loop(0, 5, lambda i, c: c + i, v), [x], ["while"]),
        Program("fori_dynamic", lambda v, k: lax.fori_loop(0, k, lambda i, c: c * 1.5, v), [x, n], ["while"]),
        Program(
            "scan",
            lambda v: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(4), v),
            [spec((6, 4))],
            ["while", "scan"],
            generic=True,
        ),
        Program(
            "scan_reverse",
            lambda v: lax.scan(lambda c, r: (c + r, c), jnp.zeros(4), v, reverse=True),
            [spec((6, 4))],
            ["scan"],
        ),
        Program(
            "scan_unrolled",
            lambda v: lax.scan(lambda c, r: (c + r, c), jnp.zeros(4), v, unroll=3),
            [spec((6, 4))],
            ["scan"],
        ),
        Program(
            "scan_length_only",
            lambda v: lax.scan(lambda c, _: (jnp.sin(c), None), v, None, length=10)[0],
            [x],
            ["scan"],
        ),
        Program(
            "scan_gradient",
            jax.grad(lambda v: lax.scan(lambda c, r: (jnp.tanh(c * r), None), jnp.ones(4), v)[0].sum()),
            [spec((6, 4))],
            ["scan", "grad"],
        ),
        Program("map", lambda v: lax.map(lambda r: jnp.sort(r), v), [spec((3, 8))], ["scan"]),
        Program("map_batched", lambda v: lax.map(jnp.sum, v, batch_size=4), [spec((10, 8))], ["scan"]),
        Program("scan_many_carries", _scan_many, [spec((5, 3))], ["scan"]),
        Program(
            "while_vmap", jax.vmap(lambda v: lax.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, v)), [x], ["while"]
        ),
        Program(
            "while_int64_counter",
            lambda v: lax.fori_loop(0, 3, lambda i, c: c + i, v),
            [spec((4,), jnp.float64)],
            ["while", "int64"],
            x64=True,
        ),
    ]


def _while_carries(v):
    def step(carry):
        count, left, (right, flag) = carry
        return count + 1, right, (left + right, ~flag)

    return lax.while_loop(lambda c: c[0] < 7, step, (0, v, (v + 1.0, jnp.array(False))))


def _scan_many(v):
    def step(carry, row):
        a, b, c = carry
        return (b, c, a + row), {"sum": a + b, "product": b * c}

    start = (jnp.zeros(3), jnp.ones(3), jnp.full(3, 2.0))
    return lax.scan(step, start, v)


def _branches() -> list[Program]:
    x, p, k = spec((4,)), spec((), bool), spec((), jnp.int32)
    return [
        Program("cond", lambda c, v: lax.cond(c, jnp.sin, jnp.cos, v), [p, x], ["case"], generic=True, locations=True),
        Program(
            "cond_many_results",
            lambda c, v: lax.cond(c, lambda a: (a, a + 1, 3), lambda a: (-a, a, 4), v),
            [p, x],
            ["case"],
        ),
        Program("cond_constant_branches", lambda c: lax.cond(c, lambda: 1.0, lambda: 2.0), [p], ["case"]),
        Program(
            "switch",
            lambda i, v: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan, lambda a: a], v),
            [k, x],
            ["case"],
            generic=True,
        ),
        Program("switch_one", lambda i, v: lax.switch(i, [jnp.sin], v), [k, x], ["case"]),
        Program(
            "cond_gradient", jax.grad(lambda v: lax.cond(v[0] > 0, jnp.sin, jnp.cos, v).sum()), [x], ["case", "grad"]
        ),
        Program(
            "cond_vmap",
            jax.vmap(lambda c, v: lax.cond(c, jnp.sin, jnp.cos, v)),
            [spec((3,), bool), spec((3, 4))],
            ["select"],
        ),
        Program("piecewise", lambda v: jnp.piecewise(v, [v < 0, v > 1], [0.0, jnp.sin, 2.0]), [x], ["case"]),
        Program("platform_dependent", _by_platform, [x], ["case"], platform="cpu+tpu", route="export"),
    ]


def _by_platform(v):
    return lax.platform_dependent(v, cpu=jnp.sin, tpu=jnp.cos)


def _nesting() -> list[Program]:
    x = spec((4,))
    return [
        Program("nested_while", _nested_while, [x], ["while", "nested"]),
        Program("cond_in_scan", _cond_in_scan, [spec((5, 4))], ["scan", "case", "nested"], generic=True),
        Program(
            "scan_in_cond",
            lambda c, v: lax.cond(c, _tanh_scan, lambda a: a, v),
            [spec((), bool), x],
            ["scan", "case", "nested"],
        ),
        Program("deep_conds", functools.partial(_deep_cond, 12), [x], ["case", "nested"]),
        Program("scan_in_scan_gradient", jax.grad(_double_scan), [spec((3, 4))], ["scan", "nested", "grad"]),
        Program(
            "reduce_in_while",
            lambda v: lax.while_loop(lambda c: jnp.max(c) < 9.0, lambda c: c + jnp.sort(c), v),
            [x],
            ["while", "sort"],
        ),
    ]


def _nested_while(v):
    def inner(_, c):
        return lax.fori_loop(0, 3, lambda j, d: d + j, c)

    return lax.fori_loop(0, 4, inner, v)


def _cond_in_scan(rows):
    def step(carry, row):
        return lax.cond(jnp.sum(row) > 0, lambda: carry + row, lambda: carry - row), carry

    return lax.scan(step, jnp.zeros(4), rows)


def _tanh_scan(v):
    return lax.scan(lambda c, _: (jnp.tanh(c), None), v, None, length=3)[0]


def _deep_cond(depth, v):
    if depth == 0:
        return v
    return lax.cond(v[0] > depth, lambda a: _deep_cond(depth - 1, a * 2), lambda a: a, v)


def _double_scan(rows):
    def outer(carry, row):
        inner = lax.scan(lambda c, e: (c * e, None), 1.0, row)[0]
        return carry + inner, None

    return lax.scan(outer, 0.0, rows)[0]


def _transformations() -> list[Program]:
    x = spec((4, 4))
    return [
        Program(
            "remat",
            jax.grad(lambda v: jax.checkpoint(_two_layers)(v).sum()),
            [x],
            ["remat", "optimization_barrier"],
            generic=True,
        ),
        Program("remat_policy", jax.grad(lambda v: _saved_dots(v).sum()), [x], ["remat", "optimization_barrier"]),
        Program("remat_in_scan", jax.grad(_remat_scan), [x], ["remat", "scan"]),
        Program(
            "optimization_barrier",
            lambda v, w: lax.optimization_barrier((v, w)),
            [x, x],
            ["optimization_barrier"],
            generic=True,
        ),
        Program("custom_jvp", lambda v: jax.jvp(_safe_log, (v,), (v,)), [x], ["custom_jvp"]),
        Program("custom_vjp", jax.grad(lambda v: _clipped(v).sum()), [x], ["custom_vjp"]),
        Program("hessian", jax.hessian(lambda v: jnp.sum(jnp.tanh(v) ** 3)), [spec((3,))], ["grad"]),
        Program("jacobian_forward", jax.jacfwd(jnp.tanh), [spec((3,))], ["grad"]),
        Program("linearize", lambda v: jax.linearize(jnp.sin, v)[1](v), [x], ["grad"]),
        Program("stop_gradient", jax.grad(lambda v: jnp.sum(v * lax.stop_gradient(v))), [x], ["grad"]),
        Program("custom_linear_solve", _conjugate_gradient, [x, spec((4,))], ["while"]),
        Program("custom_root", _square_root, [spec(())], ["while"]),
        Program("associated_vmaps", jax.vmap(jax.vmap(jnp.dot)), [spec((2, 3, 4)), spec((2, 3, 4))], ["vmap"]),
    ]


def _two_layers(v):
    return jnp.tanh(jnp.sin(v @ v) @ v)


def _saved_dots(v):
    return jax.checkpoint(_two_layers, policy=jax.checkpoint_policies.dots_saveable)(v)


def _remat_scan(v):
    body = jax.checkpoint(lambda c, _: (jnp.tanh(c @ v), None))
    return lax.scan(body, v, None, length=4)[0].sum()


@jax.custom_jvp
def _safe_log(v):
    return jnp.log(jnp.maximum(v, 1e-6))


@_safe_log.defjvp
def _safe_log_jvp(primals, tangents):
    (v,), (t,) = primals, tangents
    return _safe_log(v), t / jnp.maximum(v, 1e-6)


@jax.custom_vjp
def _clipped(v):
    return v * 2.0


_clipped.defvjp(lambda v: (v * 2.0, None), lambda _, g: (jnp.clip(g, -1.0, 1.0),))


def _conjugate_gradient(a, b):
    return jax.scipy.sparse.linalg.cg(lambda v: a @ v, b, maxiter=5)[0]


def _square_root(target):
    def newton(function, start):
        return lax.fori_loop(0, 6, lambda _, v: v - function(v) / (2.0 * v), start)

    def tangent_solve(linear, y):
        return y / linear(1.0)

    return lax.custom_root(lambda v: v * v - target, 1.0, newton, tangent_solve)


def _calls() -> list[Program]:
    x = spec((4, 4))
    return [
        Program("nested_jit", lambda v: _square(_square(v)) + _square(v.T), [x], ["call"], generic=True),
        Program(
            "nested_jit_shapes", lambda v: (_square(v), _square(v[0]), _square(v.astype(jnp.bfloat16))), [x], ["call"]
        ),
        Program("inlined_jit", lambda v: jax.jit(jnp.sin, inline=True)(v), [x], ["call"]),
        Program(
            "call_chain",
            lambda v: jax.jit(lambda a: jax.jit(lambda b: jax.jit(jnp.cos)(b) + 1)(a) * 2)(v),
            [x],
            ["call"],
        ),
        Program("named_scopes", _named_scopes, [x], ["call", "locations"], locations=True),
        Program("many_functions", _many_functions, [x], ["call"]),
        Program("many_results", lambda v: tuple(v + i for i in range(40)), [spec((2,))], ["many_results"]),
        Program("many_arguments", lambda *a: sum(a), [spec((2,))] * 120, ["many_arguments"]),
        Program("long_chain", _long_chain, [spec((4,))], ["many_operations"], locations=True),
    ]


@jax.jit
def _square(v):
    return v * v


def _named_scopes(v):
    with jax.named_scope("first layer/β"):
        v = jnp.tanh(v)
    with jax.named_scope('second "quoted"'):
        return jnp.sin(v)


def _many_functions(v):
    for size in range(1, 5):
        v = v + jax.jit(lambda a, s=size: jnp.sum(a[:s]))(v)
    return v


def _long_chain(v):
    for step in range(300):
        v = jnp.sin(v) + step
    return v
