"""Compares two builds of the CPU device in turns: how much slower the second is, in run times and in compile times.

usage: python benchmarks/cpu/compare.py BEFORE.so AFTER.so [--rounds 3] [--threads 1,2] [--seconds 0.25] [--only REGEX]

Entries go in small groups, each through both builds, in an order that changes: a machine that grows slower meanwhile meets both.
Of all rounds the fastest sample counts, and the median of compile times.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GROUP = 8


def run(plugin: str, names: list[str], args: argparse.Namespace) -> dict:
    """What run.py measures of these entries with one build."""
    command = [sys.executable, "-B", str(HERE / "run.py"), "--engines", "ours", "--plugin", plugin, "--no-memory", "--json"]
    command += ["--threads", args.threads, "--seconds", str(args.seconds), "--only", f"^({'|'.join(names)})$"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{plugin}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    listed = subprocess.run([sys.executable, "-B", str(HERE / "run.py"), "--list"], capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split() if re.search(args.only, name)]
    builds = [args.before, args.after]
    times: dict[tuple[str, str, int], float] = {}
    compiles: dict[tuple[str, int], list[float]] = {}
    for turn in range(args.rounds):
        for begin in range(0, len(names), GROUP):
            order = [0, 1] if (turn + begin // GROUP) % 2 == 0 else [1, 0]
            for build in order:
                found = run(builds[build], names[begin : begin + GROUP], args)
                for threads, entries in found["threads"].items():
                    for name, by_engine in entries.items():
                        result = by_engine["ours"]
                        if "failed" in result:
                            raise SystemExit(f"{builds[build]}: {name}: {result['failed']}")
                        key = (threads, name, build)
                        times[key] = min(times.get(key, math.inf), result["least_seconds"])
                        compiles.setdefault((name, build), []).extend(result["compile_seconds"])
            print(f"round {turn + 1} of {args.rounds}: {begin + GROUP} of {len(names)}", file=sys.stderr, flush=True)
    print("| | after to before, geometric mean of times | slowest entry |\n|---|---|---|")
    for threads in args.threads.split(","):
        ratios = {name: times[threads, name, 1] / times[threads, name, 0] for name in names}
        worst = max(ratios, key=ratios.get)
        what = "1 thread" if threads == "1" else f"{threads} threads"
        print(f"| run time, {what} | {mean(list(ratios.values())):.3f} | {worst}: {ratios[worst]:.2f} |")
    ratios = {name: statistics.median(compiles[name, 1]) / statistics.median(compiles[name, 0]) for name in names}
    worst = max(ratios, key=ratios.get)
    print(f"| compile time | {mean(list(ratios.values())):.3f} | {worst}: {ratios[worst]:.2f} |")
    total = [sum(statistics.median(compiles[name, build]) for name in names) for build in (0, 1)]
    print(f"\n{len(names)} entries, {args.rounds} rounds; compile times of all together: {total[0]:.3f} s before, {total[1]:.3f} s after")


if __name__ == "__main__":
    main()
