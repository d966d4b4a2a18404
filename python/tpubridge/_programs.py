"""Programs in the forms Python has them, as files that the command reads."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from ._command import TpuError

#: What the functions of this package take as a program:
#:
#: - a path, of any file that `tpu` reads: StableHLO text or bytecode, `.pt2`, `.onnx`; for `plan` also a training file or `config.json`;
#: - StableHLO as text (`str`) or bytes;
#: - `jax.jit(f).lower(...)`, `jax.jit(f).trace(...)`, `jax.export.export(...)(...)`;
#: - `jax.jit(f)` or a function, with example inputs: it is lowered for TPUs;
#: - a `torch.nn.Module` with example inputs, or a `torch.export.ExportedProgram`.
Program = Union[str, bytes, "os.PathLike[str]", Any]

_BYTECODE = b"ML\xefR"


def is_from(value: Any, package: str) -> bool:
    """Whether a value's class, or one that it is derived from, is of a package; the package need not be installed."""
    return any(kind.__module__.split(".")[0] == package for kind in type(value).__mro__)


def is_torch(program: Any) -> bool:
    """Whether a program is a module or an export of PyTorch."""
    return "torch" in sys.modules and is_from(program, "torch")


def is_text(program: Any) -> bool:
    """Whether a string is a program and no path: only programs have several lines, or begin so."""
    return isinstance(program, str) and ("\n" in program or program.lstrip().startswith(("module", "func.func", "#")))


@contextlib.contextmanager
def staged(program: Program, example_inputs: Any = None) -> Iterator[str]:
    """The path of a program's file; one that was written for it is gone after the `with` block."""
    if isinstance(program, os.PathLike) or (isinstance(program, str) and not is_text(program)):
        yield os.fspath(program)
        return
    with tempfile.TemporaryDirectory(prefix="tpubridge-") as folder:
        yield str(_write(program, example_inputs, Path(folder)))


def _write(program: Program, example_inputs: Any, folder: Path) -> Path:
    if isinstance(program, str):
        program = program.encode()
    if isinstance(program, (bytes, bytearray, memoryview)):
        path = folder / ("program.mlir.bc" if bytes(program[:4]) == _BYTECODE else "program.mlir")
        path.write_bytes(program)
        return path
    if is_torch(program):
        return _write_torch(program, example_inputs, folder / "program.pt2")
    if hasattr(program, "mlir_module_serialized"):
        path = folder / "program.mlir.bc"
        path.write_bytes(program.mlir_module_serialized)
        return path
    path = folder / "program.mlir"
    path.write_text(stablehlo(lowered(program, example_inputs)), encoding="utf-8")
    return path


def lowered(program: Any, example_inputs: Any = None) -> Any:
    """A `jax.stages.Lowered` of a program of JAX."""
    if hasattr(program, "compiler_ir"):
        return program
    if hasattr(program, "lower") and hasattr(program, "jaxpr"):
        return program.lower(lowering_platforms=("tpu",))
    if callable(program) and "jax" in sys.modules:
        if example_inputs is None:
            raise TpuError("a function needs example inputs", "give its arguments: fit(f, (x, y), slice=...)")
        import jax

        function = program if hasattr(program, "trace") else jax.jit(program)
        arguments, keywords = split(example_inputs)
        return function.trace(*arguments, **keywords).lower(lowering_platforms=("tpu",))
    raise TpuError(
        f"a {type(program).__module__}.{type(program).__qualname__} is no program",
        "give a path, StableHLO, jax.jit(f).lower(...), or a torch.nn.Module with example inputs",
    )


def stablehlo(program: Any) -> str:
    """StableHLO of a lowered program, with the names of its arguments."""
    try:
        return str(program.as_text(debug_info=True))
    except TypeError:  # Older than the option.
        return str(program.as_text())


def split(inputs: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Example inputs as arguments by position and by name: a tuple or list of the first, a mapping of the second, or one value."""
    if isinstance(inputs, Mapping):
        return (), inputs
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    return (inputs,), {}


def _write_torch(program: Any, example_inputs: Any, path: Path) -> Path:
    import torch

    if not isinstance(program, torch.export.ExportedProgram):
        if example_inputs is None:
            raise TpuError("a torch.nn.Module needs example inputs", "give them: fit(module, (x,), slice=...)")
        arguments, keywords = split(example_inputs)
        try:
            program = torch.export.export(program, tuple(arguments), dict(keywords))
        except Exception as error:
            raise TpuError(f"torch.export: {error}", "torch.export.export(module, inputs) must work on its own") from error
    torch.export.save(program, path)
    return path
