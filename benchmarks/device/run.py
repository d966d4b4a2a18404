"""Programs through our runtime against JAX on the same PJRT plugin, in turns, on one machine.

run.py SPEED_BINARY PLUGIN.so [--rounds N]

SPEED_BINARY is the example `device_speed` of the crate `runtime`, built with --release. Prints a Markdown table: medians over
all rounds and the ratio ours / JAX, the largest difference of results, and what a call costs beside the plugin's own work.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cpu"))
import entries  # noqa: E402
import models_jax  # noqa: E402

Case = tuple[Callable[..., Any], list[Any]]


def matmul_8192() -> Case:
    """A square matmul in bf16."""
    keys = jax.random.split(jax.random.key(0), 2)
    return jnp.matmul, [jax.random.normal(key, (8192, 8192), jnp.bfloat16) for key in keys]


def gpt2_forward() -> Case:
    """GPT-2 small in bf16 on 8 sequences of 1024 tokens: logits of every position."""
    rng = np.random.default_rng(0)
    parameters = entries.transformer_parameters(rng, 12, 768, 50257, 1024)
    leaves, tree = jax.tree.flatten(parameters)
    leaves = [jnp.asarray(leaf, jnp.bfloat16) for leaf in leaves]
    tokens = jnp.asarray(rng.integers(0, 50257, (8, 1024)), jnp.int32)

    def forward(tokens: jax.Array, *leaves: jax.Array) -> jax.Array:
        return models_jax.transformer(jax.tree.unflatten(tree, leaves), tokens, heads=12)

    return forward, [tokens, *leaves]


def add_4() -> Case:
    """As little work as there is."""
    return jnp.add, [jnp.arange(4, dtype=jnp.float32), jnp.ones(4, jnp.float32)]


CASES = {"matmul_8192": matmul_8192, "gpt2_forward": gpt2_forward, "add_4": add_4}
NAMES = {"bfloat16": "BF16", "float32": "F32", "int32": "I32"}


def write_safetensors(path: pathlib.Path, arrays: list[Any]) -> None:
    """Arrays by position."""
    header, parts, at = {}, [], 0
    for index, array in enumerate(arrays):
        host = np.asarray(array)
        data = host.tobytes()
        header[str(index)] = {"dtype": NAMES[host.dtype.name], "shape": host.shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_first(path: pathlib.Path) -> np.ndarray:
    """The first array of a file, as f32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])["0"]
    start, end = (8 + length + at for at in entry["data_offsets"])
    dtype = {"BF16": jnp.bfloat16, "F32": np.float32}[entry["dtype"]]
    return np.frombuffer(data[start:end], dtype).reshape(entry["shape"]).astype(np.float32)


def jax_seconds(how: str, compiled: Any, inputs: list[Any], count: int) -> list[float]:
    """As the measurements of the same names in `device_speed`."""
    jax.block_until_ready(compiled(*inputs))
    seconds = []
    if how == "burst":
        started = time.perf_counter()
        for _ in range(count):
            last = compiled(*inputs)
        jax.block_until_ready(last)
        return [(time.perf_counter() - started) / count]
    for _ in range(count):
        started = time.perf_counter()
        result = compiled(*inputs)
        if how == "dispatch":
            seconds.append(time.perf_counter() - started)
            jax.block_until_ready(result)
        else:
            jax.block_until_ready(result)
            seconds.append(time.perf_counter() - started)
    return seconds


class Refused(Exception):
    """Our process could not run a program."""


class Ours:
    """The process of our runtime."""

    def __init__(self, binary: str, device: str, programs: list[str]) -> None:
        environment = dict(os.environ)
        libraries = [folder for entry in sys.path for folder in glob.glob(f"{entry}/nvidia/*/lib")]
        environment["LD_LIBRARY_PATH"] = ":".join([*libraries, environment.get("LD_LIBRARY_PATH", "")])
        self.process = subprocess.Popen(
            [binary, device, *programs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.device = self.answer().removeprefix("ready ")

    def answer(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"our process ended with {self.process.wait()}")
        return line.strip()

    def ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        if answer.startswith("refused"):
            raise Refused(answer.removeprefix("refused "))
        return answer

    def seconds(self, how: str, name: str, count: int) -> list[float]:
        return [float(word) for word in self.ask(f"{how} {name} {count}").split()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("plugin", help="the plugin that JAX uses too, or `cpu` to try the script")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, pathlib.Path(folder))


def measure(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    compiled, inputs, programs = {}, {}, []
    for name in arguments.cases:
        function, inputs[name] = CASES[name]()
        lowered = jax.jit(function).lower(*inputs[name])
        (folder / f"{name}.mlir").write_text(lowered.as_text())
        write_safetensors(folder / f"{name}.inputs", inputs[name])
        programs.append(f"{name}={folder}/{name}.mlir,{folder}/{name}.inputs")
        compiled[name] = lowered.compile()
    ours = Ours(arguments.binary, arguments.plugin, programs)
    print(f"{ours.device}; JAX {jax.__version__} on {jax.devices()[0].device_kind}; {arguments.rounds} rounds in turns\n")
    print("| program | measured | tpubridge, us | JAX, us | ratio | least ratio of a round | most |")
    print("|---|---|---|---|---|---|---|")
    plans = [(name, how, 200 if name == "add_4" else 20) for name in arguments.cases for how in ("single", "burst")]
    plans += [("add_4", "dispatch", 1000)] if "add_4" in arguments.cases else []
    for name, how, count in plans:
        mine, theirs, ratios = [], [], []
        for turn in range(arguments.rounds):
            both: dict[str, list[float]] = {}
            for who in ("ours", "jax") if turn % 2 == 0 else ("jax", "ours"):
                if who == "ours":
                    both[who] = ours.seconds(how, name, count)
                else:
                    both[who] = jax_seconds(how, compiled[name], inputs[name], count)
            ratios.append(statistics.median(both["ours"]) / statistics.median(both["jax"]))
            mine += both["ours"]
            theirs += both["jax"]
        a, b = statistics.median(mine) * 1e6, statistics.median(theirs) * 1e6
        print(f"| {name} | {how} | {a:.1f} | {b:.1f} | {a / b:.3f} | {min(ratios):.3f} | {max(ratios):.3f} |", flush=True)
    print()
    for name in arguments.cases:
        ours.ask(f"result {name} {folder}/{name}.out")
        found = read_first(folder / f"{name}.out")
        expected = np.asarray(jax.tree.leaves(compiled[name](*inputs[name]))[0]).astype(np.float32)
        difference = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)
        print(f"results of {name}: largest difference {difference:.1e} of the largest element")
    if "add_4" in arguments.cases:
        pairs = [
            (ours.seconds("dispatch", "add_4", 1000), ours.seconds("bare", "add_4", 1000))
            for _ in range(arguments.rounds)
        ]
        whole, bare = (statistics.median([x for pair in pairs for x in pair[at]]) * 1e6 for at in (0, 1))
        print(f"a call through the backend {whole:.2f} us, the plugin's entry point alone {bare:.2f} us, ours {whole - bare:.2f} us")


if __name__ == "__main__":
    main()
