"""Measures `tpu compile` against JAX's own compile, and the answer from the cache. Interleaved, one machine, one run.

usage: .venv/bin/python benchmarks/bridge.py [--rounds N] [--tpu PATH]

Needs the environment `./test` makes (.venv) and a release build (`cargo build --release`).
Prints a Markdown table; `benchmarks/results/bridge.md` keeps the last one.

overhead: wall time of `tpu compile --no-cache` (process start to exit: reading, verifying, child process, compiler, report)
          against the time JAX spends in `lowered.compile()` for the same program, topology and flags.
outside:  the part of that wall time that is not the compiler's own: process start, reading, verifying, loading libtpu, report.
hit:      wall time of a second identical `tpu compile` and the size of the executable it answers with.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "crates/testkit/python"))

# One program per process and round, so that neither side reuses anything of an earlier compile.
JAX_SIDE = """
import json, sys, time
sys.path.insert(0, {python_path!r})
import benchmark_programs
name, out = sys.argv[1:]
lowered = benchmark_programs.lower(name)
open(out, "w").write(lowered.as_text())
started = time.perf_counter()
compiled = lowered.compile()
print(json.dumps({{"seconds": time.perf_counter() - started}}))
"""

PROGRAMS = {"matmul": "v5e-4", "ffn": "v5e-4", "mlp_adam": "v5e-4", "decoder_step": "v5e-4"}


def jax_compile(name: str, program: pathlib.Path) -> float:
    """Seconds JAX needs to compile; writes the program it compiled."""
    code = JAX_SIDE.format(python_path=str(ROOT / "benchmarks"))
    done = subprocess.run([sys.executable, "-c", code, name, str(program)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])["seconds"]


def tpu_compile(tpu: str, program: pathlib.Path, slice_name: str, *options: str) -> tuple[float, dict]:
    """Wall seconds of the command and its record."""
    command = [tpu, "compile", str(program), "--slice", slice_name, "--json", *options]
    started = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - started, json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tpu", default=str(ROOT / "target/release/tpu"))
    args = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        print(f"Machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores. Date: {time.strftime('%Y-%m-%d')}.")
        print(f"Command: `benchmarks/bridge.py --rounds {args.rounds}` (median of the rounds, fastest in brackets).\n")
        print("| program | slice | JAX compile s | `tpu compile` s | ratio | outside s | executable MB | second `tpu compile` ms |")
        print("|---|---|---|---|---|---|---|---|")
        for name, slice_name in PROGRAMS.items():
            program = work / f"{name}.mlir"
            jax_seconds, tpu_seconds, outside = [], [], []
            for _ in range(args.rounds):
                jax_seconds.append(jax_compile(name, program))
                wall, record = tpu_compile(args.tpu, program, slice_name, "--no-cache")
                tpu_seconds.append(wall)
                outside.append(wall - record["report"]["compile_seconds"])
            cache = ["--cache-dir", str(work / "cache")]
            tpu_compile(args.tpu, program, slice_name, *cache)
            hits = []
            for _ in range(max(5, args.rounds)):
                seconds, record = tpu_compile(args.tpu, program, slice_name, *cache)
                assert record["cached"], "the second compile must be a hit"
                hits.append(seconds)
            # Both statistics: the compiler's own time varies much between runs, and one of them alone can flatter.
            ours, theirs = statistics.median(tpu_seconds), statistics.median(jax_seconds)
            best_ours, best_theirs = min(tpu_seconds), min(jax_seconds)
            megabytes = record["report"]["executable_bytes"] / 1e6
            hit = statistics.median(hits) * 1e3
            print(
                f"| {name} | {slice_name} | {theirs:.2f} ({best_theirs:.2f}) | {ours:.2f} ({best_ours:.2f}) "
                f"| {ours / theirs:.3f} ({best_ours / best_theirs:.3f}) | {statistics.median(outside):.2f} "
                f"| {megabytes:.1f} | {hit:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
