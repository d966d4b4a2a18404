"""Compiles programs for TPU slices through jax.jit and writes them with JAX's own memory_analysis() figures.

usage: export_reference.py OUTDIR

For each case: NAME.mlir (the text JAX lowered and compiled) and NAME.mlir.bc (portable artifact of the same
module), and one entry of reference.json with the topology, its create options, the partitioning and the figures.
"""

import dataclasses
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

# Importing this sets libtpu's environment, so it comes before JAX.
from reference_memory import describe_topology, memory_figures, shardy_partitioner

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

BF16 = jnp.bfloat16

# `place(shape, dtype, *axes)` makes one abstract argument on the case's devices.
Place = Callable[..., jax.ShapeDtypeStruct]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program on a slice. `build(place)` gives the function, its arguments and the donated positions."""

    name: str
    topology: str
    build: Callable[[Place], tuple[Callable[..., Any], list[Any], tuple[int, ...]]]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    mesh: dict[str, int] = dataclasses.field(default_factory=dict)
    shardy: bool = True
    # Mesh axes of the single result; None leaves its sharding to the partitioner.
    result_axes: tuple[str | None, ...] | None = None


def matmul(place: Place):
    """A bf16 matmul, the smallest program with real MXU code."""
    return (lambda x, w: x @ w), [place((4096, 4096), BF16), place((4096, 2048), BF16)], ()


def ffn(place: Place):
    """Two matmuls with the hidden axis sharded."""
    arguments = [
        place((16384, 4096), BF16, "data", None),
        place((4096, 16384), BF16, None, "model"),
        place((16384, 4096), BF16, "model", None),
    ]
    return (lambda x, up, down: jnp.tanh(x @ up) @ down), arguments, ()


def donation(place: Place):
    """An update in place of one large and one small buffer."""
    return (
        (lambda state, count, x: (state * 0.9 + x, count + 1)),
        [place((1024, 1024)), place((), jnp.int32), place((1024, 1024))],
        (0, 1),
    )


def mlp_adam(place: Place):
    """A two-layer perceptron's training step with Adam."""
    params = {"up": place((256, 1024)), "down": place((1024, 128))}

    def loss(p, x, y):
        return jnp.mean((jax.nn.relu(x @ p["up"]) @ p["down"] - y) ** 2)

    def step(p, m, v, x, y):
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return *adam(p, grads, m, v), value

    return step, [params, params, params, place((64, 256)), place((64, 128))], (0, 1, 2)


def transformer(place: Place):
    """A small language model's training step: scan over layers, remat, Adam, data and tensor parallel."""
    layers, width, heads, hidden, vocabulary = 2, 256, 4, 512, 1024
    params = {
        "embed": place((vocabulary, width), jnp.float32, "model", None),
        "qkv": place((layers, width, 3, heads, width // heads), jnp.float32, None, None, None, "model", None),
        "out": place((layers, heads, width // heads, width), jnp.float32, None, "model", None, None),
        "up": place((layers, width, hidden), jnp.float32, None, None, "model"),
        "down": place((layers, hidden, width), jnp.float32, None, "model", None),
    }
    tokens = place((8, 129), jnp.int32, "data", None)

    def step(p, m, v, t):
        value, grads = jax.value_and_grad(language_loss)(p, t)
        return *adam(p, grads, m, v), value

    return step, [params, params, params, tokens], (0, 1, 2)


def adam(params, grads, first, second):
    """One Adam update of every parameter."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, first, second


def language_loss(params, tokens):
    """Next-token loss of a decoder whose layers are scanned and rematerialized."""
    x = params["embed"].astype(BF16)[tokens[:, :-1]]
    stacked = {name: params[name] for name in ("qkv", "out", "up", "down")}
    x, _ = lax.scan(lambda c, p: (jax.checkpoint(_transformer_layer)(c, p), None), x, stacked)
    logits = (x @ params["embed"].astype(BF16).T).astype(jnp.float32)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1))


def _transformer_layer(x, p):
    p = jax.tree.map(lambda w: w.astype(BF16), p)
    q, k, v = jnp.einsum("bsd,dthk->tbshk", x, p["qkv"])
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30)).astype(BF16)
    x = x + jnp.einsum("bhqs,bshk,hkd->bqd", weights, v, p["out"])
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def cases() -> list[Case]:
    """Every generation, GSPMD and Shardy over 4, 16 and 256 devices, donation and training steps."""
    megacore = {"chip_config_name": "megacore"}
    one_chip = {"chips_per_host_bounds": [1, 1, 1]}
    torus = {"wrap": [True, True, False]}
    listed = [
        Case("matmul_v2", "v2:2x2", matmul),
        Case("matmul_v3", "v3:2x2", matmul),
        Case("matmul_v4", "v4:2x2x1", matmul, megacore),
        Case("matmul_v5e", "v5e:2x2", matmul),
        Case("matmul_v5p", "v5p:2x2x1", matmul),
        Case("matmul_v6e", "v6e:2x2", matmul),
        Case("matmul_tpu7x", "tpu7x:2x2x1", matmul),
        Case("donation_v5e_one_chip", "v5e:1x1", donation, one_chip),
        Case("mlp_adam_v5e", "v5e:2x2", mlp_adam),
        Case("transformer_v6e", "v6e:2x2", transformer, mesh={"data": 2, "model": 2}),
    ]
    for name, topology, options, data, model in (
        ("4", "v5e:2x2", {}, 2, 2),
        ("16", "v5e:4x4", {}, 4, 4),
        ("256", "v5e:16x16", torus, 16, 16),
    ):
        case = functools.partial(
            Case, topology=topology, build=ffn, options=options, mesh={"data": data, "model": model}
        )
        listed += [case(f"ffn_{name}_shardy", shardy=True), case(f"ffn_{name}_gspmd", shardy=False)]
        listed.append(case(f"ffn_{name}_gspmd_fixed_result", shardy=False, result_axes=("data", None)))
    return listed


def lower_case(case: Case):
    """Lowers one case for its devices; gives what JAX lowered and the arguments."""
    devices = describe_topology(case.topology, case.options).devices
    function, arguments, donated = case.build(_placement(case, devices))
    function.__name__ = case.name
    with shardy_partitioner(case.shardy):
        return jax.jit(function, donate_argnums=donated, **_result_sharding(case, devices)).lower(*arguments), arguments


def compile_case(case: Case, outdir: pathlib.Path) -> dict[str, Any]:
    """Lowers and compiles one case, writes its module, and returns its entry."""
    devices = describe_topology(case.topology, case.options).devices
    lowered, arguments = lower_case(case)
    with shardy_partitioner(case.shardy):
        started = time.monotonic()
        compiled = lowered.compile()
        seconds = time.monotonic() - started
    module = lowered.compiler_ir("stablehlo")
    (outdir / f"{case.name}.mlir").write_text(str(module))
    (outdir / f"{case.name}.mlir.bc").write_bytes(_portable_artifact(module))
    partitions = int(np.prod(list(case.mesh.values()), dtype=int)) if case.mesh else 1
    return {
        "name": case.name,
        "file": f"{case.name}.mlir",
        "bytecode": f"{case.name}.mlir.bc",
        "topology": case.topology,
        "options": case.options,
        "num_partitions": partitions,
        "device_ids": [d.id for d in devices[:partitions]],
        # JAX lets the partitioner choose the sharding of results the program leaves open, never of arguments.
        "propagate_to_parameters": [False] * len(jax.tree.leaves(arguments)),
        "propagate_to_outputs": [case.result_axes is None] * len(jax.tree.leaves(lowered.out_info)),
        "shardy": case.shardy,
        "memory": memory_figures(compiled.memory_analysis()),
        "compile_seconds": round(seconds, 3),
    }


def _placement(case: Case, devices: list[Any]) -> Place:
    if not case.mesh:
        single = SingleDeviceSharding(devices[0])
        return lambda shape, dtype=jnp.float32, *axes: jax.ShapeDtypeStruct(shape, dtype, sharding=single)
    mesh = _mesh(case, devices)
    return lambda shape, dtype=jnp.float32, *axes: jax.ShapeDtypeStruct(
        shape, dtype, sharding=NamedSharding(mesh, P(*axes))
    )


def _result_sharding(case: Case, devices: list[Any]) -> dict[str, Any]:
    if case.result_axes is None:
        return {}
    return {"out_shardings": NamedSharding(_mesh(case, devices), P(*case.result_axes))}


def _mesh(case: Case, devices: list[Any]) -> Mesh:
    # Device ids in order, so that partition i is device i whoever compiles the module.
    return Mesh(np.array(devices).reshape(tuple(case.mesh.values())), tuple(case.mesh))


def _portable_artifact(module: ir.Module) -> bytes:
    with jax_mlir.make_ir_context():
        # Serialisation rewrites its module in place, so it works on a copy.
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        return _jax.mlir.serialize_portable_artifact(copy, stablehlo.get_current_version(), True)


def main() -> int:
    """Compiles every case; a failure ends the run with its exception."""
    outdir = pathlib.Path(sys.argv[1])
    outdir.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    entries = [compile_case(case, outdir) for case in cases()]
    (outdir / "reference.json").write_text(json.dumps({"version": 1, "cases": entries}, indent=1))
    print(f"{len(entries)} reference programs, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
