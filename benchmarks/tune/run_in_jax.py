"""Runs a program and its tuned form in JAX on its CPU backend, on the same numbers.

python run_in_jax.py BEFORE.mlir AFTER.mlir [--compile LARGE.mlir], where LARGE is compiled only.
"""

import argparse

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jaxlib import _jax
from jaxlib.mlir import ir


def load(path, backend):
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(open(path).read())
        main = next(op for op in module.body.operations if getattr(op, "name", None) and op.name.value == "main")
        types = [ir.RankedTensorType(ty) for ty in main.type.inputs]
        specs = [(tuple(ty.shape), str(ty.element_type)) for ty in types]
        text = str(module)
    devices = _jax.DeviceList(tuple(backend.local_devices()[:1]))
    return backend.compile_and_load(text.encode(), devices, xla_client.CompileOptions()), specs


def samples(specs, positive):
    random = np.random.default_rng(0)
    types = {"f32": np.float32, "bf16": jax.numpy.bfloat16, "i32": np.int32, "i64": np.int64, "i1": np.bool_}
    for shape, name in specs:
        if name.startswith("i"):
            yield random.integers(0, 2 if name == "i1" else 8, shape).astype(types[name])
        else:
            yield (0.1 * random.uniform(0 if positive else -1, 1, shape)).astype(types[name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--compile")
    paths = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    backend = jax.devices("cpu")[0].client
    programs = [load(path, backend) for path in (paths.before, paths.after)]
    for positive in (False, True):
        results = []
        for program, _ in programs:
            # Each program gets arrays of its own: it may take their memory.
            arguments = [jax.device_put(x) for x in samples(programs[0][1], positive)]
            outs = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
            results.append([np.asarray(out[0]).astype(np.float64) for out in outs])
        if all(np.isfinite(x).all() for x in results[0]):
            break
    worst = max(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30) for a, b in zip(*results) if a.size)
    finite = all(np.isfinite(x).all() for x in results[0] + results[1])
    print(f"{len(results[0])} results of the smaller program, finite: {finite}, moved by at most {worst:.1e} of the largest", end="")
    if paths.compile:
        load(paths.compile, backend)
        print("; the tuned program compiles", end="")
    print()
