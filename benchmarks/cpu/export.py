"""Writes the models of the CPU benchmark as programs and arguments, for tools that run without Python.

`python benchmarks/cpu/export.py FOLDER` leaves NAME.mlir.bc and NAME.npz, whose arrays are named by position.
"""

import pathlib
import sys

import jax
import numpy as np
from jax import export

import entries
import models_jax


def write(entry: entries.Entry, folder: pathlib.Path) -> None:
    """One model."""
    arguments = entry.arguments(np.random.default_rng(0))
    function = models_jax.FUNCTIONS[entry.function]
    exported = export.export(jax.jit(function), platforms=["tpu"], disabled_checks=[])(*arguments)
    (folder / f"{entry.name}.mlir.bc").write_bytes(exported.mlir_module_serialized)
    leaves = jax.tree_util.tree_leaves(arguments)
    # Arguments the function does not read are not in the program.
    kept = exported.module_kept_var_idx
    np.savez(folder / f"{entry.name}.npz", **{f"{n:04}": np.asarray(leaves[at]) for n, at in enumerate(kept)})


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for entry in entries.ENTRIES:
        if entry.model:
            write(entry, folder)
            print(entry.name)


if __name__ == "__main__":
    main()
