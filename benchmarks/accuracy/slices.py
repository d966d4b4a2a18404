"""Slices and their devices: names as the `tpu` command takes them, figures from that command, devices from libtpu."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any


class UnknownSlice(ValueError):
    """No slice of that name."""


@dataclass(frozen=True)
class Slice:
    """One slice, or several equal ones joined by the data-centre network."""

    name: str
    num_slices: int
    chips: int
    devices: int
    libtpu: dict[str, Any]

    @property
    def devices_per_slice(self) -> int:
        """JAX devices of one slice."""
        return self.devices // self.num_slices


def tpu_command() -> str:
    """The `tpu` binary: $TPU, else on the path."""
    found = os.environ.get("TPU") or shutil.which("tpu")
    if not found:
        raise UnknownSlice("the tpu command is not found: build it, then set TPU=path/to/tpu or put it on the path")
    return found


def of_row(row: dict[str, Any]) -> Slice:
    """The slice of a measurement: its `slice` text, the generation where that has none, and the number of slices."""
    text = re.sub(r"\(.*\)", "", str(row.get("slice") or "")).strip().lower()
    count = re.match(r"(\d+)\s*x\s*(?=[a-z])", text)
    slices = int(row.get("slices") or (count and count[1]) or 1)
    text = text[count.end() :] if count else text
    generation = row["tpu"].lower()
    if not text:
        raise UnknownSlice("the row names no slice")
    if re.fullmatch(r"\d+(x\d+)+", text):
        smallest_first = "x".join(sorted(text.split("x"), key=int))
        text = f"{generation}:{smallest_first}"
    found = describe(text, slices)
    if row.get("chips") and found.chips != row["chips"]:
        raise UnknownSlice(f"{found.name} has {found.chips} chips, the row says {row['chips']}")
    return found


@functools.cache
def describe(name: str, slices: int) -> Slice:
    """What the `tpu` command says about a slice."""
    full = f"{slices}x{name}" if slices > 1 else name
    done = subprocess.run([tpu_command(), "chips", full, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnknownSlice(f"{full}: {done.stderr.strip()}")
    record = json.loads(done.stdout)["slice"]
    return Slice(record["name"], record["num_slices"], record["chips"], record["devices"], record["libtpu"])


def topology_devices(slice_: Slice) -> list[Any]:
    """The JAX devices of a slice, described by libtpu without any being present."""
    from jax.experimental import topologies

    request = slice_.libtpu
    described = topologies.get_topology_desc(
        platform="tpu",
        topology_name=request["name"],
        chip_config_name=request["chip_config_name"],
        chips_per_host_bounds=tuple(request["chips_per_host_bounds"]),
        num_slices=request["num_slices"],
        wrap=tuple(request["wrap"]),
    )
    return list(described.devices)
