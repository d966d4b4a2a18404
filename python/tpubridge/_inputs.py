"""Arrays as files that the command reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._command import TpuError
from ._programs import split


def numpy() -> Any:
    """NumPy, or an error that says who needs it."""
    try:
        import numpy as np
    except ImportError as error:
        raise TpuError("NumPy is not installed", "pip install numpy") from error
    return np


def is_path(value: Any) -> bool:
    """Whether a value names a file."""
    return isinstance(value, (str, os.PathLike))


def file(values: Any, path: Path, names: Sequence[str] | None) -> str:
    """The path of a file with arrays: the one that is given, or one that is written. Trees of JAX are flattened as JAX does it."""
    if is_path(values):
        return str(os.fspath(values))
    np = numpy()
    if isinstance(values, Mapping) and all(_is_leaf(each) for each in values.values()):
        arrays = {str(name): _array(np, each) for name, each in values.items()}
    else:
        leaves = _leaves(values)
        # In order: names that sort as numbers do.
        named = names if names is not None and len(names) == len(leaves) else [f"arg{at}" for at in range(len(leaves))]
        arrays = dict(zip(named, (_array(np, each) for each in leaves), strict=True))
    np.savez(path, **arrays)
    return str(path)


def names(program: Any, inputs: Any) -> list[str] | None:
    """What a program of PyTorch calls its inputs, where it says so: `forward`'s parameters."""
    import inspect

    forward = getattr(program, "forward", None)
    arguments, keywords = split(inputs)
    if forward is None or not callable(forward) or hasattr(program, "graph_signature"):
        signature = getattr(program, "graph_signature", None)
        return list(signature.user_inputs) if signature is not None else None
    parameters = [each.name for each in inspect.signature(forward).parameters.values() if each.kind is not each.VAR_KEYWORD]
    return parameters[: len(arguments)] + list(keywords)


def _is_leaf(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, (int, float, bool, complex))


def _leaves(values: Any) -> list[Any]:
    """Leaves in JAX's order: sequences by position, mappings by sorted key."""
    if values is None:
        return []
    if _is_leaf(values):
        return [values]
    if isinstance(values, Mapping):
        return [leaf for key in sorted(values) for leaf in _leaves(values[key])]
    if isinstance(values, (tuple, list)):
        return [leaf for each in values for leaf in _leaves(each)]
    import sys

    if "jax" in sys.modules:
        return list(sys.modules["jax"].tree_util.tree_leaves(values))
    raise TpuError(f"a {type(values).__qualname__} is no array", "give NumPy, JAX or PyTorch arrays")


def _array(np: Any, value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            return np.asarray(value.view(dtype=__import__("torch").uint16).numpy())
    return np.asarray(value)
