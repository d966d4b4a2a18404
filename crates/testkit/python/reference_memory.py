"""Compiles StableHLO files for TPU topologies with JAX's compile-only client and prints the memory figures.

usage: reference_memory.py CASES.json

CASES.json is a list of {"file", "topology", "options", "num_partitions", "shardy"}: `file` is text or bytecode,
relative to the list; `options` are the topology's create options. Optional: "propagate_to_parameters" and
"propagate_to_outputs", lists of booleans. Prints {"version": 1, "cases"}:
the same list with "memory" and "compile_seconds" added to each case, as in export_reference.py's reference.json.
"""

import contextlib
import json
import os
import pathlib
import sys
import time
from typing import Any

LIBTPU_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    # Off Google Cloud the plugin would poll the metadata server for minutes.
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_LOG_DIR": "disabled",
}

os.environ.update(LIBTPU_ENVIRONMENT)

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.interpreters import mlir as jax_mlir  # noqa: E402
from jax._src.lib import xla_client  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402
from jaxlib.mlir.dialects import stablehlo  # noqa: E402

MEMORY_FIGURES = {
    "argument_bytes": "argument_size_in_bytes",
    "output_bytes": "output_size_in_bytes",
    "alias_bytes": "alias_size_in_bytes",
    "temp_bytes": "temp_size_in_bytes",
    "generated_code_bytes": "generated_code_size_in_bytes",
    "peak_bytes": "peak_memory_in_bytes",
    "host_argument_bytes": "host_argument_size_in_bytes",
    "host_output_bytes": "host_output_size_in_bytes",
    "host_alias_bytes": "host_alias_size_in_bytes",
    "host_temp_bytes": "host_temp_size_in_bytes",
    "host_generated_code_bytes": "host_generated_code_size_in_bytes",
}


def describe_topology(name: str, options: dict[str, Any]) -> topologies.TopologyDescription:
    """The compile-only devices of a TPU slice; needs libtpu, not a TPU."""
    return topologies.get_topology_desc(name, "tpu", **options)


def memory_figures(stats: Any) -> dict[str, int]:
    """JAX's CompiledMemoryStats as plain numbers."""
    return {name: getattr(stats, attribute) for name, attribute in MEMORY_FIGURES.items()}


@contextlib.contextmanager
def shardy_partitioner(enabled: bool):
    """Chooses the partitioner for what is lowered inside."""
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", enabled)
    try:
        yield
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def compile_file(case: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """One case with its memory figures and the seconds its compilation took."""
    devices = describe_topology(case["topology"], case["options"]).devices[: case["num_partitions"]]
    content = (folder / case["file"]).read_bytes()
    with jax_mlir.make_ir_context() as context:
        module = _read_module(content, context)
        started = time.monotonic()
        device_list = xla_client.DeviceList(tuple(devices))
        executable = devices[0].client.compile(module, device_list, _compile_options(case, devices))
        seconds = time.monotonic() - started
    return case | {
        "memory": memory_figures(executable.get_compiled_memory_stats()),
        "compile_seconds": round(seconds, 3),
    }


def _read_module(content: bytes, context: ir.Context) -> ir.Module:
    if content.startswith(b"ML\xefR"):
        return stablehlo.deserialize_portable_artifact(context, content)
    return ir.Module.parse(content)


def _compile_options(case: dict[str, Any], devices: list[Any]) -> xla_client.CompileOptions:
    partitions = case["num_partitions"]
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, partitions
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, partitions
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = case["shardy"]
    build.allow_spmd_sharding_propagation_to_parameters = case.get("propagate_to_parameters", [False])
    build.allow_spmd_sharding_propagation_to_output = case.get("propagate_to_outputs", [False])
    assignment = np.array([[device.id for device in devices]], np.int32)
    options.device_assignment = build.device_assignment = xla_client.DeviceAssignment.create(assignment)
    return options


def main() -> int:
    """Compiles every case of the list; a failed compilation ends the run with its exception."""
    path = pathlib.Path(sys.argv[1])
    cases = json.loads(path.read_text())
    compiled = [compile_file(case, path.parent) for case in cases]
    print(json.dumps({"version": 1, "cases": compiled}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
