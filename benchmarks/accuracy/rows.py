"""Reads a measured row and its recipe into one exact description of the run, or says why it cannot be read."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import models
import slices

_RECIPES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recipes.json").read_text())

AXES = ("data", "fsdp", "fsdp_transpose", "context", "tensor", "expert")

# What a recipe leaves unsaid: the defaults of MaxText's base configuration.
DEFAULTS: dict[str, Any] = {
    "max_target_length": 2048,
    "attention": "flash",
    "weight_dtype": "float32",
    "grad_dtype": "float32",
    "mu_dtype": "float32",
    "remat_policy": "full",
    "use_iota_embed": False,
    "sparse_matmul": True,
    "capacity_factor": -1.0,
    "num_vocab_tiling": 1,
    "sa_block": 512,
    "sa_use_fused_bwd_kernel": False,
    "use_custom_sort_vjp": True,
    "scan_layers": True,
    "packed": True,
    "wide_ends": False,
    "recompute_logits": False,
    "split": {},
}

_SAVED_PROJECTIONS = ("query_proj", "key_proj", "value_proj", "qkv_proj", "kv_proj")
_POLICIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "full": ((), ()),
    "minimal": ((*_SAVED_PROJECTIONS, "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"), ()),
    "minimal_with_context": ((*_SAVED_PROJECTIONS, "context", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"), ()),
    "minimal_flash": ((*_SAVED_PROJECTIONS, "context", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"), ()),
    "save_dot_with_context_except_mlp": ((*_SAVED_PROJECTIONS, "context", "out_proj"), ()),
    "save_dot_except_mlpwi": ((*_SAVED_PROJECTIONS, "out_proj", "mlpwo"), ()),
    "save_dot_except_mlp": ((*_SAVED_PROJECTIONS, "out_proj"), ()),
    "save_qkv_proj": (_SAVED_PROJECTIONS, ()),
    "save_out_proj": (("out_proj",), ()),
    "qkv_proj_offloaded": ((), ("query_proj", "key_proj", "value_proj")),
    "minimal_offloaded": ((), (*_SAVED_PROJECTIONS, "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo")),
}

# Tensors a custom policy can name; the row texts abbreviate some.
NAMED = (
    *("decoder_layer_input", "context", "query_proj", "key_proj", "value_proj", "qkv_proj", "kv_proj", "out_proj"),
    *("attention_out", "mla_q", "mla_kv", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"),
)
_SHORT = {
    "layer_input": "decoder_layer_input",
    "q": "query_proj",
    "k": "key_proj",
    "v": "value_proj",
    "out": "out_proj",
}


class Unreadable(ValueError):
    """The row does not say enough, or contradicts itself; the text says which."""


@dataclass(frozen=True)
class Remat:
    """What is kept for the backward pass: on the device, on the host; all else of a layer is rematerialized."""

    policy: str
    save: tuple[str, ...] = ()
    offload: tuple[str, ...] = ()


@dataclass
class Run:
    """One training run, complete enough to be written as a program."""

    id: str
    row: dict[str, Any]
    slice: slices.Slice
    model_name: str
    model: models.Model
    sequences: int
    seq: int
    ici: dict[str, int]
    dcn: dict[str, int]
    remat: Remat
    quantization: str
    settings: dict[str, Any]
    flags: dict[str, Any]
    recipe: str | None
    approximations: list[str] = field(default_factory=list)

    @property
    def mesh(self) -> dict[str, int]:
        """Size of every mesh axis over all slices."""
        return {axis: self.ici[axis] * self.dcn[axis] for axis in AXES}

    def setting(self, name: str) -> Any:
        """A setting of the recipe, else the default."""
        return self.settings.get(name, DEFAULTS.get(name))

    @property
    def sequences_per_chip(self) -> float:
        """Sequences one chip trains on in a step."""
        return self.sequences / self.slice.chips

    @property
    def tokens_per_device(self) -> float:
        """Tokens one JAX device trains on in a step."""
        return self.sequences * self.seq / self.slice.devices


def read(row: dict[str, Any]) -> Run:
    """The run of a row; raises `Unreadable` with the reason."""
    try:
        slice_ = slices.of_row(row)
        key, recipe = _recipe_of(row)
        settings: dict[str, Any] = dict(recipe.get("settings", {}))
        name = re.sub(r"-2dfsdp$", "", settings.get("model_name") or row["model"])
        model, notes = models.find(name, row.get("dims"), row.get("arch", ""))
    except (slices.UnknownSlice, models.UnknownModel) as error:
        raise Unreadable(str(error)) from error
    if model["family"] == "parallel2023" and row["tpu"] == "v4":
        notes.append("2023 runs on v4 used XLA flags of that time; only the one named in the script is kept")
    seq = row.get("seq") or settings.get("max_target_length") or (DEFAULTS["max_target_length"] if key else None)
    if not seq:
        raise Unreadable("the row gives no sequence length and no recipe of it is known")
    sequences = _sequences(row, settings, slice_)
    ici, dcn = _mesh(row, settings, slice_, notes)
    run = Run(
        *(row["id"], row, slice_, name, model, sequences, int(seq), ici, dcn),
        *(_remat(row, settings, model, notes), _quantization(row, settings), settings),
        *(dict(recipe.get("flags", {})), key, notes),
    )
    shards = run.mesh["data"] * run.mesh["fsdp"] * run.mesh["fsdp_transpose"] * run.mesh["expert"]
    if sequences % shards:
        raise Unreadable(f"{sequences} sequences cannot be split over {shards} shards of the batch")
    return run


def _recipe_of(row: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    if "parallel attn+mlp" in row.get("arch", ""):
        key = f"maxtext-2023/{row['tpu']}"
        return (key, _RECIPES[key]) if key in _RECIPES else (None, {})
    for url in (row.get("cfg") or "", row.get("src") or ""):
        path = url.partition("/training/")[2].lower()
        found = [key for key in _RECIPES if path == key.lower() or path.startswith(key.lower() + "/")]
        if found:
            key = max(found, key=len)
            return key, _RECIPES[key]
    return None, {}


def _sequences(row: dict[str, Any], settings: dict[str, Any], slice_: slices.Slice) -> int:
    per_device = row.get("per_device_batch") or settings.get("per_device_batch_size")
    total = per_device * slice_.devices if per_device else row.get("global_batch")
    if not total:
        raise Unreadable("the row gives no batch size and no recipe of it is known")
    if row.get("global_batch") and row["global_batch"] != total:
        raise Unreadable(f"global batch {row['global_batch']} is not {per_device} x {slice_.devices} devices")
    if total != int(total):
        raise Unreadable(f"{total} sequences in a step")
    return int(total)


_MESH_WORD = re.compile(r"(dcn)?[_ ]?(fsdp_transpose|data|fsdp|context|tensor|expert)?[_ ]?(\d+)?(?:dev)?")


def parse_mesh(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes inside a slice and between slices as written; -1 where an axis is named without a size."""
    ici: dict[str, int] = {}
    dcn: dict[str, int] = {}
    for word in re.split(r"\s+x\s+|\+|,", text.lower()):
        word = word.strip()
        match = _MESH_WORD.fullmatch(word)
        if not word or match is None or not (match[1] or match[2]):
            raise Unreadable(f"mesh {text!r}: {word!r} is no axis")
        into = dcn if match[1] else ici
        into[match[2] or "data"] = int(match[3]) if match[3] else -1
    return ici, dcn


def _mesh(
    row: dict[str, Any], settings: dict[str, Any], slice_: slices.Slice, notes: list[str]
) -> tuple[dict[str, int], dict[str, int]]:
    said_ici, said_dcn = parse_mesh(row["mesh"]) if row.get("mesh") else ({}, {})
    recipe = {k: v for k, v in settings.items() if k.endswith("_parallelism")}
    if not said_ici and not recipe:
        raise Unreadable("the row gives no mesh and no recipe of it is known")
    ici = {axis: recipe.get(f"ici_{axis}_parallelism", 1) for axis in AXES}
    dcn = {axis: recipe.get(f"dcn_{axis}_parallelism", 1) for axis in AXES}
    if recipe:
        # MaxText fills what is left inside a slice with fsdp, between slices with data.
        if -1 not in ici.values() and math.prod(ici.values()) != slice_.devices_per_slice:
            ici["fsdp"] = recipe.get("ici_fsdp_parallelism", -1)
    else:
        ici.update(said_ici)
        dcn.update(said_dcn)
    if -1 not in dcn.values() and math.prod(dcn.values()) != slice_.num_slices:
        dcn["data"] = -1
    ici = _filled(ici, slice_.devices_per_slice, "one slice")
    dcn = _filled(dcn, slice_.num_slices, "all slices")
    for said, used in ((said_ici, ici), (said_dcn, dcn)):
        for axis, size in said.items():
            whole = ici[axis] * dcn[axis]
            if recipe and size not in (-1, used[axis], whole):
                notes.append(f"the row says {axis} {size}, the recipe {used[axis]}: the recipe is used")
    return ici, dcn


def _filled(sizes: dict[str, int], devices: int, what: str) -> dict[str, int]:
    open_axes = [axis for axis, size in sizes.items() if size == -1]
    rest = math.prod(size for size in sizes.values() if size != -1)
    if len(open_axes) > 1 or devices % rest:
        raise Unreadable(f"mesh {sizes} does not divide the {devices} devices of {what}")
    if open_axes:
        sizes = {**sizes, open_axes[0]: devices // rest}
    if math.prod(sizes.values()) != devices:
        raise Unreadable(f"mesh {sizes} does not cover the {devices} devices of {what}")
    return sizes


def parse_remat(text: str) -> Remat | None:
    """The policy a row's text describes, `None` where it only refers to a recipe."""
    text = re.sub(r"\(.*?\)", "", text.lower()).strip()
    head = re.split(r"[,;]", text)[0].strip()
    if head in _POLICIES:
        save, offload = _POLICIES[head]
        return Remat(head, save, offload)
    if text in ("same", "custom", ""):
        return None
    match = re.match(r"(?:custom:\s*)?(offload|save)\s+([\w, ]+?)(?:\s+(?:to host|on device|only))?(?:;.*)?$", text)
    if match is None:
        raise Unreadable(f"remat {text!r} is not understood")
    names = tuple(_SHORT.get(word, word) for word in re.split(r"[,\s]+", match[2].strip()) if word)
    unknown = [name for name in names if name not in NAMED]
    if unknown:
        raise Unreadable(f"remat {text!r}: no tensor is called {', '.join(unknown)}")
    if match[1] == "offload":
        return Remat("custom", () if "decoder_layer_input" in names else ("decoder_layer_input",), names)
    return Remat("custom", tuple(dict.fromkeys(("decoder_layer_input", *names))), ())


def _remat(row: dict[str, Any], settings: dict[str, Any], model: models.Model, notes: list[str]) -> Remat:
    said = parse_remat(row["remat"]) if row.get("remat") else None
    policy = settings.get("remat_policy")
    if model["family"] == "parallel2023" and said and said.policy == "minimal":
        return Remat("dots")
    if policy is None:
        if said is None:
            raise Unreadable(f"remat {row.get('remat')!r} refers to a recipe that is not known")
        return said
    if policy == "custom":
        where = {name: settings.get(name, "remat") for name in NAMED}
        where["decoder_layer_input"] = settings.get("decoder_layer_input", "device")
        used = Remat(
            "custom",
            tuple(name for name, place in where.items() if place == "device"),
            tuple(name for name, place in where.items() if place == "offload"),
        )
    elif policy in _POLICIES:
        used = Remat(policy, *_POLICIES[policy])
    else:
        raise Unreadable(f"remat policy {policy!r} of the recipe is not known")
    if said and (set(said.offload) != set(used.offload) or not set(said.save) <= set(used.save)):
        notes.append(f"the row says remat {row['remat']!r}, the recipe {used}: the recipe is used")
    return used


def _quantization(row: dict[str, Any], settings: dict[str, Any]) -> str:
    said = str(row.get("precision") or "").lower()
    if settings.get("quantization") == "int8" or (not settings and "int8" in said):
        return "int8"
    if settings.get("quantization") == "fp8_full" or (not settings and said.startswith("fp8")):
        return "fp8"
    if settings.get("quantization"):
        raise Unreadable(f"quantization {settings['quantization']!r} is not known")
    if said and not re.match(r"bf16|bfloat16|int8|fp8", said):
        raise Unreadable(f"precision {said!r} is not understood")
    if not settings.get("quantization") and re.match(r"int8|fp8", said):
        raise Unreadable(f"precision {said!r}, but the recipe {settings.get('model_name')} quantizes nothing")
    return "none"
