"""Where things live: the device mesh of a run and the mesh axes each named dimension is split over."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rows import AXES, Run, Unreadable

BATCH = ("data", "fsdp", "fsdp_transpose", "expert")

# Mesh axes a dimension may be split over; an axis already used by another dimension of the same array is left out.
# Dimensions are assigned in this order, so `mlp` takes fsdp_transpose before `embed` can.
_RULES: dict[str, tuple[str, ...]] = {
    "batch": BATCH,
    "batch_no_exp": ("data", "fsdp", "fsdp_transpose"),
    "length": ("context",),
    "act_heads": ("tensor",),
    "act_embed": ("tensor",),
    "act_mlp": ("tensor",),
    "act_vocab": ("tensor",),
    "exp_on_fsdp": ("fsdp",),
    "exp": ("expert",),
    "mlp": ("fsdp_transpose", "tensor"),
    "vocab": ("tensor",),
    "heads": ("tensor",),
    "up_proj": ("fsdp_transpose",),
    "embed_moe": ("fsdp", "fsdp_transpose", "context"),
    "embed": ("fsdp", "fsdp_transpose", "context", "expert"),
    "rank": ("fsdp", "fsdp_transpose", "context", "expert"),
    "norm": ("tensor",),
}


class Layout:
    """The mesh of a run over the devices of its slice, and the sharding of arrays by the names of their dimensions."""

    def __init__(self, run: Run, devices: list[Any]) -> None:
        self.mesh = _mesh(run, devices)
        self.sizes = run.mesh
        self.rules = _RULES | run.setting("split")
        self.unsplit: set[str] = set()

    def spec(self, names: tuple[str | None, ...], shape: tuple[int, ...] | None = None) -> PartitionSpec:
        """The partition of an array whose dimensions carry these names."""
        order = [name for name in self.rules if name in names]
        used: set[str] = set()
        chosen: dict[str, tuple[str, ...]] = {}
        for name in order:
            axes = tuple(axis for axis in self.rules[name] if axis not in used and self.sizes[axis] > 1)
            if shape is not None:
                size = shape[names.index(name)]
                if size % math.prod(self.sizes[axis] for axis in axes):
                    self.unsplit.add(f"{name} {size} is not divisible by {'x'.join(axes)}: kept whole")
                    axes = ()
            used.update(axes)
            chosen[name] = axes
        return PartitionSpec(*((chosen.get(name) or None) if name else None for name in names))

    def sharding(self, names: tuple[str | None, ...], shape: tuple[int, ...] | None = None) -> NamedSharding:
        """The sharding of an array whose dimensions carry these names."""
        return NamedSharding(self.mesh, self.spec(names, shape))

    def constrain(self, x: jax.Array, *names: str | None) -> jax.Array:
        """Pins the sharding of an intermediate value."""
        return jax.lax.with_sharding_constraint(x, self.sharding(names))

    def device_ids(self) -> list[int]:
        """Device ids in the order the program numbers its partitions."""
        return [int(device.id) for device in self.mesh.devices.flat]


def _mesh(run: Run, devices: list[Any]) -> Mesh:
    ici = [run.ici[axis] for axis in AXES]
    dcn = [run.dcn[axis] for axis in AXES]
    split = bool(run.setting("allow_split_physical_axes"))
    try:
        if run.slice.num_slices > 1:
            grid = mesh_utils.create_hybrid_device_mesh(ici, dcn, devices, allow_split_physical_axes=split)
        else:
            grid = mesh_utils.create_device_mesh(ici, devices, allow_split_physical_axes=split)
    except (NotImplementedError, ValueError, AssertionError) as error:
        if run.slice.num_slices > 1:
            raise Unreadable(f"no device mesh {ici} x {dcn}: {error}") from error
        try:
            grid = mesh_utils.create_device_mesh(ici, devices, allow_split_physical_axes=True)
            run.approximations.append("device mesh: physical axes had to be split, which the recipe does not ask for")
        except (NotImplementedError, ValueError, AssertionError):
            run.approximations.append("device mesh: devices in libtpu's order, JAX finds no mesh for this torus")
            grid = np.array(devices).reshape(ici)
    return Mesh(grid, AXES)
