"""The engines that are compared. Each makes an entry ready to run; all live in one process.

xla            XLA:CPU of the installed JAX
ours           the tpubridge CPU device, loaded into the same JAX as a second platform
before         an earlier build of it, as a third; only where it is named
torch          torch, eager
torch_compile  torch.compile with its default compiler
"""

import dataclasses
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any

from entries import Entry

NAMES = ["xla", "ours", "torch", "torch_compile"]
BUILDS = {"ours": "tpubridge_cpu", "before": "tpubridge_cpu_before"}
# What holds each engine to a tier: the CPU device, XLA's compiler, torch's own kernels, oneDNN and MKL. XLA's libraries of
# kernels (YNNPACK, oneDNN, Eigen) look at the CPU themselves: `hold.c` hides the instruction sets from them.
TIERS = {
    "portable": ("SSE4_2", "default", "SSE41", "SSE4_2"),
    "avx2": ("AVX2", "avx2", "AVX2", "AVX2"),
    "avx512": ("AVX512", "avx512", "AVX512_CORE", "AVX512"),
    "vnni": ("AVX512", "avx512", "AVX512_CORE_VNNI", "AVX512"),
    "amx": ("", "", "", ""),
}


def limits(tier: str, folder: str) -> dict[str, str]:
    """Variables of the environment that hold the engines to a tier; what they name is built in a folder."""
    if not tier:
        return {}
    xla, aten, onednn, mkl = TIERS[tier]
    held = {"TPUBRIDGE_CPU_ISA": tier}
    if xla:
        held["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={xla}".strip()
        held["ATEN_CPU_CAPABILITY"] = aten
        held["ONEDNN_MAX_CPU_ISA"] = onednn
        held["MKL_ENABLE_INSTRUCTIONS"] = mkl
        library = f"{folder}/hold.so"
        source = pathlib.Path(__file__).with_name("hold.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, str(source)], check=True)
        held["LD_PRELOAD"], held["HELD_ISA"] = library, tier
    return held


class Missing(Exception):
    """An engine that this interpreter or machine does not have; the text says what to install or build."""


@dataclasses.dataclass
class Ready:
    """An entry made ready on one engine."""

    # Runs the entry once and returns when the result is there.
    call: Callable[[], Any]
    # Seconds of each compile; empty where it is not measured.
    compile_seconds: list[float]


class JaxEngine:
    """One of the platforms of a JAX process."""

    def __init__(self, platform: str) -> None:
        import jax

        self.jax = jax
        self.device = jax.devices(platform)[0]

    def version(self) -> str:
        """What compiled and ran the entries."""
        return " ".join(self.device.client.platform_version.split())

    def prepare(self, entry: Entry, arguments: tuple[Any, ...], compiles: int) -> Ready:
        """Places the arguments and compiles, `compiles` times for the clock; the last result is used."""
        import models_jax

        jax, function = self.jax, models_jax.FUNCTIONS[entry.function]
        placed = jax.block_until_ready(jax.device_put(arguments, self.device))
        seconds = []
        for _ in range(compiles):
            # A new function each time: `compile` answers a known one from memory.
            lowered = jax.jit(lambda *values: function(*values)).lower(*placed)
            started = time.perf_counter()
            compiled = lowered.compile()
            seconds.append(time.perf_counter() - started)
        return Ready(lambda: jax.block_until_ready(compiled(*placed)), seconds)

    def arrays(self, result: Any) -> list[Any]:
        """Results as NumPy arrays."""
        import numpy as np

        return [np.asarray(leaf) for leaf in self.jax.tree.leaves(result)]

    def memory(self) -> dict[str, int]:
        """The device's own account of its memory, where it keeps one."""
        return self.device.memory_stats() or {}


class TorchEngine:
    """torch, eager or compiled."""

    def __init__(self, threads: int, compiled: str) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.torch = torch
        self.wrap = {"eager": lambda f: f, "inductor": lambda f: torch.compile(f, dynamic=False)}[compiled]

    def version(self) -> str:
        """What ran the entries."""
        return self.torch.__version__

    def prepare(self, entry: Entry, arguments: tuple[Any, ...], compiles: int) -> Ready:
        """Builds the entry in PyTorch, which compiles in the first call."""
        import models_torch

        self.torch.compiler.reset()
        self.torch.set_grad_enabled(entry.training)
        call = models_torch.BUILDERS[entry.function](arguments, self.wrap)
        return Ready(call, [])

    def arrays(self, result: Any) -> list[Any]:
        """Results as NumPy arrays."""
        from torch.utils import _pytree

        torch = self.torch
        leaves = [leaf.detach() for leaf in _pytree.tree_leaves(result)]
        return [(leaf.float() if leaf.dtype == torch.bfloat16 else leaf).numpy() for leaf in leaves]

    def memory(self) -> dict[str, int]:
        """torch keeps no account of host memory."""
        return {}


def configure(names: list[str], plugins: dict[str, str]) -> None:
    """Settings that must be there before JAX is first imported; `plugins` has the library of each build."""
    builds = {name: plugins[name] for name in BUILDS if name in names and pathlib.Path(plugins[name]).exists()}
    platforms = [BUILDS[name] for name in builds]
    if "xla" in names or not platforms:
        platforms.insert(0, "cpu")
    os.environ.pop("PJRT_NAMES_AND_LIBRARY_PATHS", None)
    if os.environ.get("HELD_ISA") == "portable":
        # jaxlib is built for AVX and refuses a CPU without it. This one has it: what is hidden is for those who look.
        import jaxlib.cpu_feature_guard

        jaxlib.cpu_feature_guard.check_cpu_features = lambda: None
    if builds:
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = ",".join(f"{BUILDS[name]}:{path}" for name, path in builds.items())
    os.environ["JAX_PLATFORMS"] = ",".join(platforms)
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def absent(name: str, plugins: dict[str, str]) -> str | None:
    """Why this interpreter cannot run an engine, or nothing."""
    module = "jax" if name == "xla" or name in BUILDS else "torch"
    if importlib.util.find_spec(module) is None:
        return f"{module} is not installed in this interpreter"
    if name in BUILDS and not pathlib.Path(plugins[name]).exists():
        return "no plugin library: cargo build --release -p tpubridge-cpu-plugin, or --plugin PATH"
    return None


def load(name: str, threads: int, plugins: dict[str, str]) -> JaxEngine | TorchEngine:
    """Starts one engine."""
    reason = absent(name, plugins)
    if reason is not None:
        raise Missing(reason)
    if name == "xla" or name in BUILDS:
        return JaxEngine(BUILDS.get(name, "cpu"))
    return TorchEngine(threads, "eager" if name == "torch" else "inductor")


def versions() -> dict[str, str]:
    """Installed packages that take part."""
    found = {}
    for package in ["jax", "jaxlib", "torch", "numpy"]:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
