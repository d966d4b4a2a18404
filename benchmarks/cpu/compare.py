"""Compares two builds of the CPU device in turns: how much slower the second is, in run times and in compile times.

usage: python benchmarks/cpu/compare.py BEFORE.so AFTER.so [--rounds 3] [--threads 1,2] [--seconds 0.25] [--only REGEX] [--all]

Both builds live in one process, and their samples of an entry alternate: a machine that grows slower meanwhile meets both. Of all
rounds the fastest sample counts, and the median of compile times.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(args: argparse.Namespace) -> dict:
    """What run.py measures of both builds."""
    command = [sys.executable, "-B", str(HERE / "run.py"), "--engines", "ours", "--plugin", args.after, "--before", args.before]
    command += ["--no-memory", "--json", "--threads", args.threads, "--seconds", str(args.seconds), "--only", args.only]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
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
    parser.add_argument("--all", action="store_true", help="say the ratio of every entry on standard error")
    args = parser.parse_args()
    times: dict[tuple[str, str, str], float] = {}
    compiles: dict[tuple[str, str], list[float]] = {}
    for turn in range(args.rounds):
        for threads, entries in run(args)["threads"].items():
            for name, by_engine in entries.items():
                for build, result in by_engine.items():
                    if "failed" in result:
                        raise SystemExit(f"{build}: {name}: {result['failed']}")
                    key = (threads, name, build)
                    times[key] = min(times.get(key, math.inf), result["least_seconds"])
                    compiles.setdefault((name, build), []).extend(result["compile_seconds"])
        print(f"round {turn + 1} of {args.rounds}", file=sys.stderr, flush=True)
    names = sorted({name for _, name, _ in times})
    print("| | after to before, geometric mean of times | slowest entry |\n|---|---|---|")
    for threads in args.threads.split(","):
        ratios = {name: times[threads, name, "ours"] / times[threads, name, "before"] for name in names}
        worst = max(ratios, key=ratios.get)
        if args.all:
            print("\n".join(f"{name} {ratio:.3f}" for name, ratio in sorted(ratios.items(), key=lambda item: -item[1])), file=sys.stderr)
        what = "1 thread" if threads == "1" else f"{threads} threads"
        print(f"| run time, {what} | {mean(list(ratios.values())):.3f} | {worst}: {ratios[worst]:.2f} |")
    ratios = {name: statistics.median(compiles[name, "ours"]) / statistics.median(compiles[name, "before"]) for name in names}
    worst = max(ratios, key=ratios.get)
    print(f"| compile time | {mean(list(ratios.values())):.3f} | {worst}: {ratios[worst]:.2f} |")
    total = [sum(statistics.median(compiles[name, build]) for name in names) for build in ("before", "ours")]
    print(f"\n{len(names)} entries, {args.rounds} rounds; compile times of all together: {total[0]:.3f} s before, {total[1]:.3f} s after")


if __name__ == "__main__":
    main()
