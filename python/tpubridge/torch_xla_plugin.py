"""The CPU device for PyTorch/XLA, which finds this module by the entry point `torch_xla.plugins`: `PJRT_DEVICE=TPUBRIDGE_CPU`."""

from __future__ import annotations

import os
from typing import Any

from torch_xla.experimental import plugins

from ._command import plugin_path

#: What PyTorch/XLA calls the device.
DEVICE = "TPUBRIDGE_CPU"


class CpuDevice(plugins.DevicePlugin):  # type: ignore[misc]
    """The device as PyTorch/XLA asks about it."""

    def __init__(self) -> None:
        super().__init__()
        if os.environ.get("PJRT_DEVICE") == DEVICE:
            # PyTorch/XLA hands HLO to a device unless it is told otherwise; this one reads StableHLO.
            os.environ.setdefault("XLA_STABLEHLO_COMPILE", "1")

    def library_path(self) -> str:
        """The library."""
        return str(plugin_path())

    def physical_chip_count(self) -> int:
        """One: the CPU."""
        return 1

    def client_create_options(self) -> dict[str, Any]:
        """Nothing but what the environment says."""
        return {}
