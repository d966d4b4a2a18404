"""Plan, compile and run JAX and PyTorch programs for Google TPUs, with the `tpu` command that this package brings.

>>> import tpubridge as tb
>>> fits = tb.chips("v6e-16")
>>> fits.slice.chips
16

Every function takes a program in any of the forms that `Program` lists, runs `tpu`, and returns a frozen object with the figures of its
record. Objects print as the command's tables and show themselves as its HTML report in a notebook.
"""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from ._bundle import load
from ._calls import chips, compile, explain, fit, plan, run
from ._command import TpuError, command_path, libtpu_path
from ._programs import Program
from ._records import (
    Advice,
    BufferBytes,
    Chips,
    ClassBytes,
    Collective,
    Compilation,
    Cost,
    CostTerms,
    DeviceMemory,
    Estimate,
    Explanation,
    Fit,
    Fix,
    Generation,
    Held,
    Memory,
    OpTime,
    Outcome,
    OutOfMemory,
    Peak,
    Plan,
    PlannedStep,
    Refused,
    Report,
    Result,
    Roofline,
    RooflineOp,
    Run,
    Share,
    Slice,
    StepTime,
    Timing,
    Transfer,
    Verdict,
    Vmem,
)

try:
    __version__ = _version("tpubridge")
except _PackageNotFoundError:  # The folder is on the path without being installed.
    __version__ = "0"

__all__ = [
    "Advice",
    "BufferBytes",
    "Chips",
    "ClassBytes",
    "Collective",
    "Compilation",
    "Cost",
    "CostTerms",
    "DeviceMemory",
    "Estimate",
    "Explanation",
    "Fit",
    "Fix",
    "Generation",
    "Held",
    "Memory",
    "OpTime",
    "OutOfMemory",
    "Outcome",
    "Peak",
    "Plan",
    "PlannedStep",
    "Program",
    "Refused",
    "Report",
    "Result",
    "Roofline",
    "RooflineOp",
    "Run",
    "Share",
    "Slice",
    "StepTime",
    "Timing",
    "TpuError",
    "Transfer",
    "Verdict",
    "Vmem",
    "chips",
    "command_path",
    "compile",
    "explain",
    "fit",
    "libtpu_path",
    "load",
    "plan",
    "run",
]
