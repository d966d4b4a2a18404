"""Dimensions of published models by name, and the aliases under which measurements name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Model = dict[str, Any]

_TABLE: dict[str, Model] = json.loads((Path(__file__).parent / "models.json").read_text())

# Names used in published tables, where they are not the name of the public configuration.
ALIASES = {
    "deepseek-v3": "deepseek3-671b",
    "gemma4-2b": "gemma4-e2b",
    "gemma4-4b": "gemma4-e4b",
    "llama4-scout-17b-16e": "llama4-17b-16e",
    "llama4-maverick-17b-128e": "llama4-17b-128e",
}

# What a dense decoder is when a row gives dimensions and no known name: pre-norm, SiLU-gated, untied.
_DENSE: Model = {"family": "llama2", "activations": ["silu", "linear"], "tied": False}

# MaxText before 2024-02-14: one norm, attention and a ReLU MLP side by side, embedding used twice.
_PARALLEL_2023: Model = {"family": "parallel2023", "activations": ["relu"], "tied": True}

_DIMS = ("emb", "layers", "q_heads", "kv_heads", "head_dim", "mlp", "vocab")


class UnknownModel(ValueError):
    """The row names no known model and gives no dimensions."""


def find(name: str, dims: dict[str, int] | None, arch: str) -> tuple[Model, list[str]]:
    """The model of a row: its table entry, overridden by the row's own dimensions, and what had to be assumed."""
    notes: list[str] = []
    known = _TABLE.get(ALIASES.get(name.lower(), name.lower()))
    if "parallel attn+mlp" in arch:
        base = dict(_PARALLEL_2023)
    elif known is not None:
        base = dict(known)
    elif dims:
        base = dict(_DENSE)
        notes.append(f"model {name!r} is not in the table: taken as a dense SiLU-gated decoder of the row's dimensions")
    else:
        raise UnknownModel(f"model {name!r} is not in models.json and the row has no dims")
    base.update(dims or {})
    missing = [key for key in _DIMS if key not in base]
    if missing:
        raise UnknownModel(f"model {name!r}: no value for {', '.join(missing)}")
    return base, notes


def layer_kinds(model: Model) -> list[str]:
    """For each layer `global` or `local`: whether attention sees the whole sequence or a window of it."""
    layers, family = model["layers"], model["family"]
    if family in ("gemma3", "gemma4"):
        period, is_global = 6, lambda i: i % 6 == 5
    elif family == "gemma4_small":
        period = 5 if model["layers"] == 35 else 6
        is_global = lambda i: i % period == period - 1  # noqa: E731
    elif family in ("gemma2", "gpt_oss"):
        is_global = lambda i: i % 2 == 1  # noqa: E731
    elif family == "olmo3":
        is_global = lambda i: i % 4 == 3  # noqa: E731
    elif family == "llama4":
        interval = model["nope_layer_interval"]
        is_global = lambda i: i % interval == interval - 1  # noqa: E731
    else:
        is_global = lambda i: True  # noqa: E731
    # The table counts a local and a global layer of gemma2 as one.
    count = layers * 2 if family == "gemma2" else layers
    return ["global" if is_global(i) else "local" for i in range(count)]


def kv_donor(model: Model, layer: int) -> int | None:
    """The earlier layer whose keys and values this layer of a small gemma4 uses, if it has none of its own."""
    kinds = layer_kinds(model)
    first_shared = len(kinds) - model.get("num_kv_shared_layers", 0)
    if layer < first_shared:
        return None
    return max(i for i in range(first_shared) if kinds[i] == kinds[layer])


def moe_layers(model: Model) -> list[bool]:
    """For each layer whether its feed-forward part is a mixture of experts."""
    if model.get("experts", 1) <= 1:
        return [False] * model["layers"]
    dense_first = model.get("first_num_dense_layers", 0)
    step = model.get("interleave_moe_layer_step", 1)
    return [i >= dense_first and i % step == step - 1 for i in range(model["layers"])]
