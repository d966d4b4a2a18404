"""Values and derivatives by JAX of the cases that the tests of crates/trace write to a folder.

usage: gradients.py FOLDER

FOLDER/cases.json lists cases, FOLDER has their arrays (exchange.py); results replace them. One process does all cases, and
one compilation several of them, because starting and compiling take most of the time.
"""

import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import exchange
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Matmuls as exact as the type, as on the CPU device of the tests.
jax.config.update("jax_default_matmul_precision", "highest")

UNARY = {
    "abs": jnp.abs,
    "neg": jnp.negative,
    "sign": jnp.sign,
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "logistic": lax.logistic,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erf_inv": lax.erf_inv,
    "lgamma": lax.lgamma,
    "digamma": lax.digamma,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh,
    "atanh": jnp.arctanh,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "round": jnp.round,
    "square": jnp.square,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "softplus": jax.nn.softplus,
}

BINARY = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": jnp.divide,
    "pow": jnp.power,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "atan2": jnp.arctan2,
    "rem": lax.rem,
}

COMPLEX = {"conj": jnp.conj, "real": jnp.real, "imag": jnp.imag}

REDUCTIONS = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod, "mean": jnp.mean}


def parts(z):
    return [jnp.real(z), jnp.imag(z)] if jnp.iscomplexobj(z) else [z]


def window(s, x):
    start = {"max": -jnp.inf, "min": jnp.inf, "sum": 0.0, "mean": 0.0}[s["name"]]
    combine = {"max": lax.max, "min": lax.min, "sum": lax.add, "mean": lax.add}[s["name"]]

    def over(x):
        padding = [tuple(pair) for pair in s["padding"]]
        return lax.reduce_window(x, np.array(start, x.dtype), combine, s["dims"], s["strides"], padding)

    return over(x) / over(jnp.ones_like(x)) if s["name"] == "mean" else over(x)


def convolve(s, x, w):
    spatial = "DHW"[: x.ndim - 2]
    return lax.conv_general_dilated(
        x,
        w,
        s["strides"],
        [tuple(pair) for pair in s["padding"]],
        lhs_dilation=s["input_dilation"],
        rhs_dilation=s["kernel_dilation"],
        dimension_numbers=("N" + spatial + "C", spatial + "IO", "N" + spatial + "C"),
        feature_group_count=s["groups"],
    )


def layer_norm(x, scale, shift):
    centred = x - jnp.mean(x, 1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(centred**2, 1, keepdims=True) + 1e-5) * scale + shift


def embedding_loss(table, out, tokens, targets):
    logits = table[tokens] @ out
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], -1))


def scatter_rows(s, x, updates, rows):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    ways = {"add": lax.scatter_add, "set": lax.scatter, "multiply": lax.scatter_mul}
    ways |= {"maximum": lax.scatter_max, "minimum": lax.scatter_min}
    return ways[s["name"]](x, rows, updates, numbers, unique_indices=s["name"] in ("set", "multiply"))


def multiply_rows(x, updates, rows):
    # One after the other: JAX has no derivative of a product at places that repeat.
    for row, update in zip(rows[:, 0], updates):
        x = x.at[row].multiply(update, unique_indices=True)
    return x


def sort(s, x):
    ordered = jnp.sort(x, s["axis"])
    return ordered if s["order"] == "ascending" else jnp.flip(ordered, s["axis"])


def gather_top_k(x, y):
    weights, places = lax.top_k(x, 3)
    return jax.nn.softmax(weights) * jnp.take_along_axis(y, places, -1)


def definite(x):
    return x @ jnp.swapaxes(x, -1, -2) + x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)


def definite_complex(x, y):
    z = lax.complex(x, y)
    return z @ jnp.conj(jnp.swapaxes(z, -1, -2)) + z.shape[-1] * jnp.eye(z.shape[-1], dtype=z.dtype)


def triangular_solve_complex(s, x, y, b, c):
    return parts(lax.linalg.triangular_solve(
        definite_complex(x, y), lax.complex(b, c), left_side=s["left"], lower=s["lower"], transpose_a=s["transpose"],
        unit_diagonal=s["unit"]))


def triangular_solve(s, x, b):
    return lax.linalg.triangular_solve(
        definite(x), b, left_side=s["left"], lower=s["lower"], transpose_a=s["transpose"], unit_diagonal=s["unit"]
    )


def cell(state, step, weight):
    return jnp.tanh(state @ weight + step)


def scan_recurrent(s, state, steps, weight):
    def step(state, x):
        after = cell(state, x, weight)
        return after, after * 2

    return lax.scan(step, state, steps, reverse=s["reverse"])


def scan_results_only(state, steps, weight):
    def step(state, x):
        after = cell(state, x, weight)
        return after, after

    return lax.scan(step, state, steps)[1]


def scan_counter(start, xs):
    def step(carry, x):
        total, count = carry
        after = total + x * (count + 1).astype(total.dtype)
        return (after, count + 1), after**2

    (last, _), everything = lax.scan(step, (start, jnp.int32(0)), xs)
    return last, everything


def scan_nested(state, xs):
    def inner(state, row):
        after = jnp.sin(state * row)
        return after, after + row

    def outer(state, rows):
        state, results = lax.scan(inner, state, rows)
        return state, jnp.sum(results, 0)

    return lax.scan(outer, state, xs)


def scan_late(xs):
    return lax.scan(lambda s, x: (s * 0.5 + jnp.exp(x), None), jnp.zeros(3, xs.dtype), xs)[0]


def while_power(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (jnp.int32(0), x))[1]


def cond_in_scan(state, xs):
    def step(state, x):
        after = lax.cond(jnp.sum(x) > 0, lambda s: jnp.sin(s) + x, lambda s: s * jnp.asarray(0.5, s.dtype), state)
        return after, after

    return lax.scan(step, state, xs)


def layers(x, first, second):
    hidden = jnp.tanh(x @ first)
    return jnp.exp(jnp.sin(hidden @ second) + jnp.sum(hidden, 1, keepdims=True))


@jax.custom_vjp
def clipped(x):
    return jnp.exp(x)


clipped.defvjp(lambda x: (jnp.exp(x), jnp.exp(x)), lambda out, ct: (jnp.clip(ct * out, -0.5, 0.5),))


@jax.custom_vjp
def scaled_product(x, y):
    return x * y


scaled_product.defvjp(lambda x, y: (x * y, (x, y)), lambda xy, ct: (ct * xy[1] * 2, ct * xy[0] * 3))


def grad_inside_scan(x, w):
    def step(state, _):
        return state - jax.grad(lambda s: jnp.sum(jnp.sin(s[None] @ w)))(state) * jnp.asarray(0.1, x.dtype), None

    return lax.scan(step, x, None, 3)[0]


def vmap_gradients(weight, xs):
    return jax.vmap(lambda x: jax.grad(lambda w: jnp.sum(jnp.tanh(x[None] @ w) ** 2))(weight))(xs)


def vmap_exponentials(xs):
    one = lambda x: (jax.nn.softmax(x, axis=0), jax.nn.log_softmax(x, axis=0), jax.nn.logsumexp(x, axis=0))
    return jax.vmap(one)(xs)


def scan_blocks(state, weights):
    def block(x, weight):
        centred = x - x.mean(-1, keepdims=True)
        normed = centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + jnp.asarray(1e-3, x.dtype))
        mixed = jax.nn.softmax(normed @ normed.T, axis=-1) @ normed
        return x + jax.nn.gelu((x + mixed) @ weight, approximate=True), None

    return lax.scan(block, state, weights)[0]


def vmap_scan(states, steps, weight):
    def one(state, steps):
        def step(state, x):
            after = jnp.tanh(state @ weight + x)
            return after, after

        return lax.scan(step, state, steps)

    return jax.vmap(one)(states, steps)


def halved(x):
    return lax.while_loop(lambda x: x > 1, lambda x: x * jnp.asarray(0.5, x.dtype), x)


def vmap_convolve(x, w):
    numbers = ("NDC", "DIO", "NDC")
    return jax.vmap(lambda x, w: lax.conv_general_dilated(x, w, (1,), [(0, 0)], dimension_numbers=numbers))(x, w)


# The function of each case: it takes the settings, then the arrays.
PEERS = {
    "unary": lambda s, x: UNARY[s["name"]](x),
    "binary": lambda s, x, y: BINARY[s["name"]](x, y),
    "clamp": lambda s, low, x, high: lax.clamp(low, x, high),
    "select": lambda s, x, y, p: jnp.where(p, x, y),
    "guarded_log": lambda s, x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1)), 0),
    "stop_gradient": lambda s, x: x * lax.stop_gradient(jnp.sin(x)),
    "used_twice": lambda s, x: [jnp.sin(x) ** 2, jnp.sin(x) + x],
    "unused_input": lambda s, x, y: jnp.exp(x),
    "constant_result": lambda s, x: [jnp.exp(x), jnp.ones(2, x.dtype)],
    "complex": lambda s, x, y: parts((UNARY | COMPLEX)[s["name"]](lax.complex(x, y))),
    "complex_arithmetic": lambda s, x, y: parts(
        lax.complex(x, y) * lax.complex(y, -x) + lax.complex(y, -x) / (lax.complex(x, y) + 3)
    ),
    "cast": lambda s, x: (x.astype(s["to"]) * 3).astype(x.dtype),
    "cast_integer": lambda s, x: x * x.astype(jnp.int32).astype(x.dtype),
    "reduce_precision": lambda s, x: lax.reduce_precision(x, 5, 3),
    "reshape": lambda s, x: jnp.reshape(x, s["dims"]),
    "transpose": lambda s, x: jnp.transpose(x, s["order"]),
    "reverse": lambda s, x: lax.rev(x, s["axes"]),
    "concat": lambda s, *xs: jnp.concatenate(xs, s["axis"]),
    "concat_twice": lambda s, x: jnp.concatenate([x, x], 0),
    "stack": lambda s, *xs: jnp.stack(xs, s["axis"]),
    "split": lambda s, x: jnp.split(x, 3, 1),
    "expand_squeeze": lambda s, x: [x[None], jnp.squeeze(x, 1)],
    "tril": lambda s, x: jnp.tril(x, s["offset"]),
    "at": lambda s, x: x[:, 2],
    "broadcast": lambda s, x: lax.broadcast_in_dim(x, s["dims"], s["along"]),
    "broadcast_turned": lambda s, x: lax.broadcast_in_dim(x.T, (3, 4, 2), (0, 2)),
    "slice": lambda s, x: lax.slice(x, s["starts"], s["limits"], s["strides"]),
    "pad": lambda s, x, value: lax.pad(x, value, list(zip(s["low"], s["high"], s["interior"]))),
    "reduce": lambda s, x: REDUCTIONS[s["name"]](x, axis=tuple(s["axes"])),
    "softmax": lambda s, x: jax.nn.softmax(x, s["axis"]),
    "log_softmax": lambda s, x: jax.nn.log_softmax(x, s["axis"]),
    "log_sum_exp": lambda s, x: jax.nn.logsumexp(x, s["axis"]),
    "layer_norm": lambda s, x, scale, shift: layer_norm(x, scale, shift),
    "cumulative": lambda s, x: getattr(lax, s["name"])(x, s["axis"]),
    "window": window,
    "matmul": lambda s, x, y: jnp.matmul(x, y),
    "einsum": lambda s, x, y: jnp.einsum(s["equation"], x, y),
    "einsum_wide": lambda s, x, y: lax.dot(
        x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), preferred_element_type=jnp.float32
    ),
    "dot_general": lambda s, x, y: lax.dot_general(x, y, (s["sum"], s["batch"])),
    "convolve": convolve,
    "take": lambda s, x, i: jnp.take(x, i, s["axis"]),
    "take_along": lambda s, x, i: jnp.take_along_axis(x, i, s["axis"]),
    "dynamic_slice": lambda s, x, i, j: lax.dynamic_slice(x, (i, j), s["sizes"], allow_negative_indices=False),
    "dynamic_slice_in": lambda s, x, i: lax.dynamic_slice_in_dim(x, i, 2, 1),
    "dynamic_update": lambda s, x, y, i, j: lax.dynamic_update_slice(x, y, (i, j), allow_negative_indices=False),
    "embedding_loss": lambda s, *xs: embedding_loss(*xs),
    "one_hot": lambda s, x, i: x * jax.nn.one_hot(i, 3, dtype=x.dtype),
    "scatter_rows": scatter_rows,
    "multiply_rows": lambda s, x, updates, rows: multiply_rows(x, updates, rows),
    "sort": sort,
    "sort_together": lambda s, x, y: lax.sort((x, y), dimension=1, num_keys=1),
    "by_argsort": lambda s, x, y: jnp.take_along_axis(y, jnp.argsort(x, 1), 1),
    "top_k": lambda s, x: lax.top_k(x, s["k"])[0],
    "by_argmax": lambda s, x: jnp.take_along_axis(x, jnp.argmax(x, 1, keepdims=True), 1),
    "gather_top_k": lambda s, x, y: gather_top_k(x, y),
    "cholesky": lambda s, x: lax.linalg.cholesky(definite(x)),
    "cholesky_raw": lambda s, x: lax.linalg.cholesky(x),
    "triangular_solve": triangular_solve,
    "cholesky_complex": lambda s, x, y: parts(lax.linalg.cholesky(definite_complex(x, y))),
    "cholesky_raw_complex": lambda s, x, y: parts(lax.linalg.cholesky(lax.complex(x, y))),
    "triangular_solve_complex": triangular_solve_complex,
    "fft": lambda s, x, y: parts(lax.fft(lax.complex(x, y), s["name"], s["lengths"])),
    "rfft": lambda s, x: (lambda z: [*parts(z), jnp.abs(z)])(lax.fft(x, "RFFT", s["lengths"])),
    "irfft": lambda s, x, y: lax.fft(lax.complex(x, y), "IRFFT", s["lengths"]),
    "scan_recurrent": scan_recurrent,
    "scan_results_only": lambda s, *xs: scan_results_only(*xs),
    "scan_blocks": lambda s, state, weights: scan_blocks(state, weights),
    "scan_of_length": lambda s, x: lax.scan(lambda c, _: (jnp.sin(c) + c, None), x, None, 4)[0],
    "scan_counter": lambda s, *xs: scan_counter(*xs),
    "scan_nested": lambda s, *xs: scan_nested(*xs),
    "scan_late": lambda s, x: scan_late(x),
    "scan_crossed": lambda s, x, y: lax.scan(lambda c, _: ((jnp.sin(c[1]), c[0] * c[1]), None), (x, y), None, 3)[0],
    "while_power": lambda s, x: while_power(x),
    "while_halving": lambda s, x: halved(x),
    "cond": lambda s, x, y, p: lax.cond(p, lambda x: jnp.sin(x) * y, lambda x: x**2, x),
    "switch": lambda s, x, y, i: lax.switch(
        i, [lambda x, y: x * y, lambda x, y: jnp.exp(x), lambda x, y: jnp.ones(3, y.dtype)], x, y
    ),
    "cond_in_scan": lambda s, *xs: cond_in_scan(*xs),
    "layers": lambda s, *xs: layers(*xs),
    "custom_clipped": lambda s, x: clipped(x),
    "custom_in_scan": lambda s, x, y: lax.scan(lambda c, r: (scaled_product(c, r), None), x, y)[0],
    "grad_inside": lambda s, x: jax.grad(lambda x: jnp.sum(jnp.sin(x) * x**2))(x),
    "jvp_inside": lambda s, x, t: jax.jvp(lambda x: jnp.sin(x) * x, (x,), (t,)),
    "grad_of_grad_inside": lambda s, x: jax.grad(
        lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(jnp.exp(x) * x**2))(x) ** 2)
    )(x),
    "grad_inside_scan": lambda s, *xs: grad_inside_scan(*xs),
    "vmap_gradients": lambda s, *xs: vmap_gradients(*xs),
    "vmap_exponentials": lambda s, xs: vmap_exponentials(xs),
    "vmap_axes": lambda s, x, w, y: jax.vmap(lambda x, w, y: (w @ x) * y, in_axes=(1, None, 0))(x, w, y),
    "vmap_twice": lambda s, x, y: jax.vmap(lambda x: jax.vmap(lambda y: jnp.sin(jnp.sum(x * y)))(y))(x),
    "vmap_scan": lambda s, *xs: vmap_scan(*xs),
    "vmap_cond": lambda s, x: jax.vmap(lambda x: lax.cond(jnp.sum(x) > 0, jnp.sin, jnp.square, x))(x),
    "vmap_while": lambda s, x: jax.vmap(halved)(x),
    "vmap_convolve": lambda s, x, w: vmap_convolve(x, w),
    "vmap_take": lambda s, x, i: jax.vmap(lambda x, i: jnp.take(x, i, 0))(x, i),
}


def solve(case, x, k, t, c):
    """Values and derivatives of one case by name."""
    peer = PEERS[case["peer"]]
    # JAX wants what never changes to be hashable.
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in case["settings"].items()}

    def f(*x):
        return jax.tree.leaves(peer(settings, *x, *k))

    results = {}

    def put(name, arrays):
        results.update({f"{name}{n}": array for n, array in enumerate(arrays)})

    def pulled(*x):
        return jax.vjp(f, *x)[1](list(c))

    put("value", f(*x))
    if case["cotangents"]:
        put("gradient", pulled(*x))
    if case["tangents"]:
        put("tangent", jax.jvp(f, x, t)[1])
    if case["second"]:
        put("second_backward", jax.vjp(pulled, *x)[1](t))
        put("second_forward", jax.jvp(pulled, x, t)[1])
    return results


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = json.loads((folder / "cases.json").read_text())
    arrays = exchange.read(folder)
    results = {}
    together = 24
    for first in range(0, len(cases), together):
        numbers = range(first, min(first + together, len(cases)))

        def group(at, name):
            return tuple(jnp.asarray(arrays[f"{at}_{name}{n}"]) for n in range(cases[at]["counts"][name]))

        given = [tuple(group(at, name) for name in "xktc") for at in numbers]

        def solve_all(given):
            return [solve(cases[at], *arguments) for at, arguments in zip(numbers, given)]

        # Compiled for the sake of speed of the compiler, not of the code.
        options = {
            "xla_backend_optimization_level": 0,
            "xla_llvm_disable_expensive_passes": True,
            "xla_cpu_use_fusion_emitters": False,
            "xla_cpu_parallel_codegen_split_count": 1,
        }
        for at, solved in zip(numbers, jax.jit(solve_all, compiler_options=options)(given)):
            for name, array in solved.items():
                results[f"{at}_{name}"] = array
    exchange.write(folder, results)


if __name__ == "__main__":
    main()
