"""Runs a program and its tuned form in JAX on its CPU backend, on the same numbers.

python run_in_jax.py BEFORE.mlir AFTER.mlir [--compile LARGE.mlir], where LARGE is compiled only.
"""

import argparse
import os
import re

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import _jax
from jaxlib.mlir import ir


def load(path, backend):
    """The program, how its arguments are split (None on one device), and their shapes and types."""
    text = open(path).read()
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        main = next(op for op in functions if op.name.value == "main")
        types = [ir.RankedTensorType(ty) for ty in main.type.inputs]
        specs = [(tuple(ty.shape), str(ty.element_type)) for ty in types]
        text = str(module)
    partitions = int((re.search(r"mhlo.num_partitions = (\d+)", text) or [0, "1"])[1])
    devices = backend.local_devices()[:partitions]
    options = xla_client.CompileOptions()
    options.num_partitions = options.executable_build_options.num_partitions = partitions
    options.executable_build_options.use_spmd_partitioning = partitions > 1
    options.executable_build_options.use_shardy_partitioner = "sdy.mesh" in text
    options.executable_build_options.device_assignment = xla_client.DeviceAssignment.create(np.array([[d.id for d in devices]]))
    program = backend.compile_and_load(text.encode(), _jax.DeviceList(tuple(devices)), options)
    splits = None
    if partitions > 1:
        splits = [GSPMDSharding(devices, split) for split in program.get_parameter_shardings()]
    return program, splits, specs


def samples(specs, positive):
    random = np.random.default_rng(0)
    types = {"f32": np.float32, "bf16": jax.numpy.bfloat16, "i32": np.int32, "i64": np.int64, "ui32": np.uint32, "i1": np.bool_}
    for shape, name in specs:
        if name.startswith(("i", "ui")):
            yield random.integers(0, 2 if name == "i1" else 8, shape).astype(types[name])
        else:
            yield (0.1 * random.uniform(0 if positive else -1, 1, shape)).astype(types[name])


def whole(parts, split):
    """An array from what each device has of it."""
    devices = [part.devices().pop() for part in parts]
    sharding = GSPMDSharding(devices, split)
    counts = sharding.shard_shape((1 << 20,) * parts[0].ndim)
    shape = tuple(size * ((1 << 20) // count) for size, count in zip(parts[0].shape, counts))
    return jax.make_array_from_single_device_arrays(shape, sharding, parts)


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
        for program, splits, _ in programs:
            # Each program gets arrays of its own: it may take their memory.
            wholes = list(samples(programs[0][2], positive))
            arguments = [jax.device_put(x, splits and splits[n]) for n, x in enumerate(wholes)]
            outs = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
            if splits:
                outs = [[whole(parts, split)] for parts, split in zip(outs, program.get_output_shardings())]
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
