"""Reads every *.mlir file under a folder with jaxlib's own MLIR parser and verifier.

usage: check_parse.py DIR

Prints one JSON object per file ({"file", "ok"} and "error" where it failed); exit status 1 when any failed.
Programs keep their own dialects: stablehlo, chlo, func, sdy, mhlo and whatever else jaxlib registers.
"""

import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

from jax._src.interpreters import mlir as jax_mlir  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402


def main() -> int:
    """Checks all files; the exit status is 1 when one does not parse or verify."""
    folder = pathlib.Path(sys.argv[1])
    files = sorted(folder.rglob("*.mlir"))
    if not files:
        print(f"error: no .mlir file under {folder}", file=sys.stderr)
        return 1
    context = jax_mlir.make_ir_context()
    failures = 0
    for file in files:
        error = _parse_error(file, context)
        failures += error is not None
        print(
            json.dumps(
                {"file": str(file.relative_to(folder)), "ok": error is None} | ({"error": error} if error else {})
            )
        )
    print(f"{len(files)} files, {failures} failed", file=sys.stderr)
    return 1 if failures else 0


def _parse_error(file: pathlib.Path, context: ir.Context) -> str | None:
    try:
        with context:
            ir.Module.parse(file.read_bytes()).operation.verify()
    except (ir.MLIRError, ValueError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
