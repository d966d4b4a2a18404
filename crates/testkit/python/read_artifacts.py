"""Writes NAME.mlir beside every NAME.mlir.bc: the text of exactly the module the portable artifact holds.

usage: read_artifacts.py DIR
"""

import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

from jax._src.interpreters import mlir as jax_mlir  # noqa: E402
from jaxlib.mlir.dialects import stablehlo  # noqa: E402


def main() -> int:
    """Reads each artifact with jaxlib; an unreadable one ends the run with its exception."""
    artifacts = sorted(pathlib.Path(sys.argv[1]).rglob("*.mlir.bc"))
    for artifact in artifacts:
        with jax_mlir.make_ir_context() as context:
            module = stablehlo.deserialize_portable_artifact(context, artifact.read_bytes())
            module.operation.verify()
            artifact.with_suffix("").write_text(str(module))
    print(f"{len(artifacts)} artifacts read", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
