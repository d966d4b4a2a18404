"""The shipped configurations of pods, compiled for their slices by the real TPU compiler, as a table.

    python benchmarks/pods/run.py [--out docs/pods.md] [--full] [--jax PYTHON]

Each configuration of examples/pods is written as a program for its mesh (`tpu train --export`), compiled (`tpu compile`), and
asked about (`tpu fit`). A collective that a strategy promises and the compiled program does not have ends the run with an error.
Several slices need the whole compiler, which takes minutes: only with --full. With --jax, a Python that has jax and libtpu, each
step is also written in JAX (jax_reference.py) and both are compiled in the same way. TPU: the `tpu` binary; default: target/release/tpu.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 1 << 30

# Configuration, slice, and the collectives its strategy promises: one of each set must be there.
PODS = [
    ("gpt2-124m", "v5e-4", [{"all-reduce", "reduce-scatter"}]),
    ("llama-3.1-8b", "v6e-16", [{"all-gather"}, {"reduce-scatter", "all-reduce"}]),
    ("llama-3.1-70b", "v5p-128", [{"all-gather"}, {"reduce-scatter", "all-reduce"}]),
    ("mixtral-8x7b", "v5p-64", [{"all-to-all"}, {"all-gather"}]),
]
MANY = [("llama-3.1-405b", "2xv6e-256", [{"all-gather"}, {"reduce-scatter", "all-reduce"}])]
# Settings that both programs are compiled with; collective matmul changes what programs split by fsdp become.
SETTINGS = {"default": [], "off": ["--set", "collective_matmul=off"]}
ATTENTION = ("flash", "splash")
# What names of our kernels begin with.
KERNELS = ("flash", "cross_entropy", "rms_norm", "gmm")


def run(tpu: str, *args: str) -> str:
    done = subprocess.run([tpu, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tpu {' '.join(args)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def row(tpu: str, name: str, slice_: str, promised: list[set[str]], folder: str, more: list[str]) -> str:
    program = f"{folder}/{name}.mlir"
    run(tpu, "train", str(ROOT / f"examples/pods/{name}.toml"), "--export", program)
    mode = [] if slice_.startswith("2x") else ["--quick"]
    compiled = json.loads(run(tpu, "compile", program, "--slice", slice_, "--json", *mode, *more))
    fit = json.loads(run(tpu, "fit", program, "--slice", slice_, "--json", *more, *([] if mode else ["--full"])))
    report, estimate = compiled["report"], fit["estimate"]
    kinds: dict[str, int] = {}
    for collective in report["collectives"]:
        kinds[collective["kind"]] = kinds.get(collective["kind"], 0) + collective["executions"]
    for wanted in promised:
        if not wanted & kinds.keys():
            sys.exit(f"{name}: none of {sorted(wanted)} is in the compiled program, only {sorted(kinds)}")
    names = {op["name"].split(".")[0] for op in estimate["ops"]}
    kernels = sorted(name for name in names if any(name.startswith(word) for word in KERNELS))
    if not any("flash" in kernel for kernel in kernels):
        sys.exit(f"{name}: the flash kernel is not in the compiled program")
    verdict = fit["verdict"]
    collectives = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return (
        f"| {name} | {slice_} | {verdict['needed_bytes'] / GIB:.1f} of {verdict['limit_bytes'] / GIB:.1f} |"
        f" {estimate['step']['seconds']:.3f} | {estimate['hfu'] * 100:.1f} % | {', '.join(kernels)} | {collectives} |"
    )


def judged(tpu: str, program: str, slice_: str, more: list[str]) -> tuple[float, float, float]:
    """GiB of a device, seconds of a step, and those of them outside of attention kernels."""
    fit = json.loads(run(tpu, "fit", program, "--slice", slice_, "--json", *more))
    step = fit["estimate"]["step"]["seconds"]
    kernels = sum(op["seconds"] for op in fit["estimate"]["ops"] if any(word in op["name"] for word in ATTENTION))
    return fit["verdict"]["needed_bytes"] / GIB, step, step - kernels


def beside_reference(
    tpu: str, python: str, name: str, slice_: str, folder: str, settings: dict[str, list[str]], more: list[str]
) -> list[str]:
    """Our step and its reference in JAX under each setting; one row where the setting changes neither."""
    reference = f"{folder}/{name}-jax.mlir.bc"
    written = subprocess.run(
        [python, str(ROOT / "benchmarks/pods/jax_reference.py"), name, slice_, reference],
        env=os.environ | {"TPU": tpu}, capture_output=True, text=True,
    )
    if written.returncode != 0:
        sys.exit(f"the reference of {name} cannot be written:\n{written.stderr[-2000:]}")
    pairs = {}
    for setting, options in settings.items():
        ours, theirs = (judged(tpu, program, slice_, options + more) for program in (f"{folder}/{name}.mlir", reference))
        pairs[setting] = ours, theirs
    if len(pairs) > 1 and pairs["default"] == pairs["off"]:
        pairs = {"either": pairs["off"]}
    best = min(pairs, key=lambda setting: sum(step for _, step, _ in pairs[setting]))
    rows = []
    for setting, (ours, theirs) in pairs.items():
        cells = [f"{a:.{n}f} | {b:.{n}f} | {a / b:.2f}" for a, b, n in zip(ours, theirs, (1, 3, 3), strict=True)]
        rows.append(f"| {name} | {setting}{' (better)' * (setting == best and len(pairs) > 1)} | {' | '.join(cells)} |")
    return rows


REFERENCE = """
## Beside a reference implementation in JAX

Written by `python benchmarks/pods/run.py --jax PYTHON`, which for each pod does `tpu train examples/pods/NAME.toml --export ours.mlir`,
`PYTHON benchmarks/pods/jax_reference.py NAME SLICE jax.mlir.bc`, and for both `tpu fit FILE --slice SLICE`, without and with
`--set collective_matmul=off`; the one on two slices with `--full`, as it is. The better setting is the one in which both steps together take less.

| configuration | collective matmul | HBM, GiB: ours | reference | ratio | step, s: ours | reference | ratio | outside attention, s: ours | reference | ratio |
|---|---|---|---|---|---|---|---|---|---|---|
"""

DIFFERENCES = """
The same in both: mesh and order of devices, shardings of parameters, optimizer and batch, a scan over layers that keeps nothing but each
layer's input, float32 parameters and moments, bfloat16 matmuls, float32 logits that the backward pass recomputes where the
configuration has `loss_chunk_size`, gradients of the embedding summed in float32, AdamW, clipping, donated state, no packed sequences.
Both have the same number of parameters.

What differs:

- The reference's attention is JAX's splash kernel with blocks of 1024 and its fused backward kernel. `tpu fit` prices kernels by the shapes
  they are given, not by their code, and not alike: ours by half of the scores, splash by the blocks its mask leaves. The last three columns
  leave attention kernels out; their code is compared in `docs/kernel-cycles.md`.
- The reference's weights of heads have an axis for heads, ours are matrices; the reference scales norms in bfloat16, ours in float32.
- On v6e ours computes logits and loss in kernels; the reference holds the logits of a piece.
- Ours tells the compiler where gathered weights and gradients lie, the reference only where activations do.
- Experts: the reference sends tokens by matmuls with masks, which the compiler partitions; ours gathers rows and sends them by explicit
  all-to-alls, and leaves the matmuls between them to the partitioner. Both give an expert 1.25 times its share of a sequence. Ours weighs
  rows before the last matmul, so that the backward pass does not recompute it; the reference weighs what comes back.
  Ours also has the load-balancing loss.
- The reference's schedule of the learning rate is constant.
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=str(ROOT / "docs/pods.md"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--jax", metavar="PYTHON", help="also compare with the steps written in JAX by this Python")
    parser.add_argument("more", nargs="*", help="further options of tpu compile and tpu fit, after --")
    args = parser.parse_args()
    tpu = os.environ.get("TPU", str(ROOT / "target/release/tpu"))
    pods = PODS + (MANY if args.full else [])
    with tempfile.TemporaryDirectory() as folder:
        rows, references = [], []
        for pod in pods:
            rows.append(row(tpu, *pod, folder, args.more))
            print(rows[-1], flush=True)
            if args.jax:
                # Several slices need the whole compiler, minutes for each program.
                settings = SETTINGS if pod in PODS else {"default": ["--full"]}
                beside = beside_reference(tpu, args.jax, pod[0], pod[1], folder, settings, args.more)
                print("\n".join(beside), flush=True)
                references += beside
    text = (
        "# Shipped pods, compiled\n\nWritten by `python benchmarks/pods/run.py`: each configuration of `examples/pods` as our own front"
        " end writes its training step for its mesh,\ncompiled by libtpu on a machine without a TPU. Every strategy's collectives and the"
        " attention kernel are checked to be there.\n\n"
        "| configuration | slice | HBM of a device, GiB | step, s (estimate) | HFU | kernels | collectives of a step |\n"
        "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    if not args.full:
        text += "\n`llama-3.1-405b` on two slices needs the whole compiler: `--full`.\n"
    if references:
        text += REFERENCE + "\n".join(references) + "\n" + DIFFERENCES
    pathlib.Path(args.out).write_text(text)


if __name__ == "__main__":
    main()
