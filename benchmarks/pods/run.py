"""The shipped configurations of pods, compiled for their slices by the real TPU compiler, as a table.

    python benchmarks/pods/run.py [--out docs/pods.md] [--full]     # TPU: the `tpu` binary; default: target/release/tpu

Each configuration of examples/pods is written as a program for its mesh (`tpu train --export`), compiled (`tpu compile`), and
asked about (`tpu fit`). A collective that a strategy promises and the compiled program does not have ends the run with an error.
Several slices need the whole compiler, which takes an hour: only with --full.
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
    kernels = sorted({op["name"].split(".")[0] for op in estimate["ops"] if "flash" in op["name"]})
    if not kernels:
        sys.exit(f"{name}: the flash kernel is not in the compiled program")
    verdict = fit["verdict"]
    collectives = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return (
        f"| {name} | {slice_} | {verdict['needed_bytes'] / GIB:.1f} of {verdict['limit_bytes'] / GIB:.1f} |"
        f" {estimate['step']['seconds']:.3f} | {estimate['hfu'] * 100:.1f} % | {', '.join(kernels)} | {collectives} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=str(ROOT / "docs/pods.md"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("more", nargs="*", help="further options of tpu compile and tpu fit, after --")
    args = parser.parse_args()
    tpu = os.environ.get("TPU", str(ROOT / "target/release/tpu"))
    pods = PODS + (MANY if args.full else [])
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for pod in pods:
            rows.append(row(tpu, *pod, folder, args.more))
            print(rows[-1], flush=True)
    text = (
        "# Shipped pods, compiled\n\nWritten by `python benchmarks/pods/run.py`: each configuration of `examples/pods` as our own front"
        " end writes its training step for its mesh,\ncompiled by libtpu on a machine without a TPU. Every strategy's collectives and the"
        " attention kernel are checked to be there.\n\n"
        "| configuration | slice | HBM of a device, GiB | step, s (estimate) | HFU | kernels | collectives of a step |\n"
        "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    if not args.full:
        text += "\n`llama-3.1-405b` on two slices needs the whole compiler: `--full`.\n"
    pathlib.Path(args.out).write_text(text)


if __name__ == "__main__":
    main()
