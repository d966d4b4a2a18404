"""Exports small programs with symbolic sizes from JAX, each with a line that says what its arguments are.

    python export_symbolic.py FOLDER
"""

import os
import pathlib
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
from jax import export, lax

FLOAT, INT = jnp.float32, jnp.int32
SPELLED = {FLOAT: "f32", INT: "i32"}


def without_locations(text):
    """Drops `loc(…)`, whose parentheses nest, and the lines that name locations."""
    kept = []
    for line in text.splitlines():
        if line.startswith("#loc"):
            continue
        while (match := re.search(r" ?loc\(", line)) is not None:
            depth, at, quoted = 1, match.end(), False
            while depth:
                if line[at] == '"':
                    quoted = not quoted
                elif not quoted:
                    depth += {"(": 1, ")": -1}.get(line[at], 0)
                at += 1
            line = line[: match.start()] + line[at:]
        kept.append(line)
    return "\n".join(kept) + "\n"


def attention(q, k, v):
    scores = jnp.einsum("btd,bsd->bts", q, k) / 4.0
    seen = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), -1)
    return jnp.einsum("bts,bsd->btd", weights, v)


def column_sums(x):
    def add(i, total):
        return total + lax.dynamic_index_in_dim(x, i, 1, keepdims=False)

    return lax.fori_loop(0, x.shape[1], add, jnp.zeros((x.shape[0],)))


def branches(p, x):
    return lax.cond(p > 0, lambda: x * 2, lambda: jnp.concatenate([x[:1], x[1:] * 3]))


# Name, function, sizes the golden file is made for, arguments.
PROGRAMS = [
    ("mlp", lambda x, w, c: jax.nn.relu(x @ w + c), "b=3", [(FLOAT, "b,16"), (FLOAT, "16,8"), (FLOAT, "8")]),
    ("attention", attention, "b=2 t=5", [(FLOAT, "b,t,8")] * 3),
    (
        "embed",
        lambda tokens, table: jnp.take(table, tokens, axis=0) + jnp.arange(tokens.shape[1], dtype=FLOAT)[None, :, None],
        "b=2 t=5",
        [(INT, "b,t"), (FLOAT, "32,8")],
    ),
    ("mean", lambda x: x.reshape(-1, x.shape[-1]).mean(0) * x.shape[0], "b=2 t=5", [(FLOAT, "b,t,4")]),
    ("last", lambda x: x[:, -1, :], "b=2 t=5", [(FLOAT, "b,t,4")]),
    ("window", lambda x, i: lax.dynamic_slice(x, (i, 0), (x.shape[0] // 2, 4)), "b=3", [(FLOAT, "2*b,4"), (INT, "")]),
    ("loop", column_sums, "b=2 t=5", [(FLOAT, "b,t")]),
    ("branch", branches, "b=3", [(INT, ""), (FLOAT, "b,4")]),
    ("pad", lambda x: jnp.pad(x, ((0, x.shape[0]), (1, 2))), "b=3", [(FLOAT, "b,4")]),
    ("cumsum", lambda x: jnp.cumsum(x, axis=1), "b=2 t=5", [(FLOAT, "b,t")]),
    ("sort", lambda x: jnp.sort(x, axis=-1), "b=2 t=5", [(FLOAT, "b,t")]),
    (
        "convolution",
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        "b=2 t=5",
        [(FLOAT, "b,t,4"), (FLOAT, "3,4,6")],
    ),
    ("top_k", lambda x: lax.top_k(x, 2), "b=3", [(FLOAT, "b,8")]),
    ("halves", lambda x: x.reshape(x.shape[0] // 2, 2, 4).sum(1), "b=3", [(FLOAT, "2*b,4")]),
    ("differences", lambda x: x[2:] - x[:-2], "b=6", [(FLOAT, "b,3")]),
    ("scan", lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.zeros((4,)), x), "t=5", [(FLOAT, "t,4")]),
    ("pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "VALID"), "b=2 t=5", [(FLOAT, "b,t")]),
    (
        "gradient",
        lambda x, w: jax.grad(lambda w: jnp.mean(jax.nn.gelu(x @ w) ** 2))(w),
        "b=3",
        [(FLOAT, "b,4"), (FLOAT, "4,3")],
    ),
]
CONSTRAINTS = {"differences": ("b>=4", "mod(b,2)==0")}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, function, sizes, arguments in PROGRAMS:
        scope = export.SymbolicScope(CONSTRAINTS.get(name, ()))
        specs = [jax.ShapeDtypeStruct(export.symbolic_shape(dims, scope=scope), dtype) for dtype, dims in arguments]
        function.__name__ = name
        program = without_locations(export.export(jax.jit(function))(*specs).mlir_module())
        spelled = " ".join(f"{SPELLED[dtype]}[{dims}]" for dtype, dims in arguments)
        (folder / f"{name}.mlir").write_text(f"// {sizes}: {spelled}\n{program}")


main()
