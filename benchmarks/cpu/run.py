"""Measures the tpubridge CPU device against XLA:CPU and torch: interleaved in one process per number of threads.

usage: python benchmarks/cpu/run.py [--only REGEX] [--engines xla,ours,torch,torch_compile] [--threads 1,2]
                                    [--plugin PATH] [--before PATH] [--isa TIER] [--seconds S] [--no-memory] [--json] [--write]

See README.md in this folder for what is measured and how to make the environment.
"""

import argparse
import collections
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

# No `__pycache__` in the repository; the measuring processes get -B.
sys.dont_write_bytecode = True

import engines  # noqa: E402
import report  # noqa: E402
from entries import ENTRIES  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# torch.compile calls a C++ compiler and is slow to start; nothing is said about its compile time.
STAGE_SECONDS = {"load": 120.0, "compile": 300.0, "measure": 300.0}
# torch.compile starts with a run of its own, and its peak would be of the compiler.
MEMORY_ENGINES = ["xla", "ours", "torch"]


def say(text: str) -> None:
    """Talk, apart from data."""
    print(text, file=sys.stderr, flush=True)


class Child:
    """One measuring process, read with a limit on every stage."""

    def __init__(self, options: dict[str, Any], first_call_seconds: float, verbose: bool) -> None:
        self.first_call_seconds = first_call_seconds
        # A session of its own: torch.compile starts helpers, which must end with it.
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "measure.py"), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def records(self):
        """Yields records; the last is `ended` with a reason if the process was cut or died."""
        stage, entry, engine = "load", None, None
        while True:
            limit = self.first_call_seconds if stage == "first call" else STAGE_SECONDS[stage]
            try:
                line = self.lines.get(timeout=limit)
            except queue.Empty:
                self.stop()
                yield {"event": "ended", "entry": entry, "engine": engine, "reason": f"too slow: {stage} over {limit:.0f} s"}
                return
            if line is None:
                code = self.process.wait()
                if code != 0:
                    how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                    yield {"event": "ended", "entry": entry, "engine": engine, "reason": f"died in {stage}: {how}"}
                return
            record = json.loads(line)
            if record["event"] == "stage":
                stage, entry, engine = record["stage"], record["entry"], record["engine"]
            elif record["event"] == "failed":
                stage = "measure"
            yield record

    def stop(self) -> None:
        """Ends the process and its helpers."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def measure_times(args: argparse.Namespace, names: list[str], threads: int, compiles: int, found: dict[str, Any]) -> None:
    """Runs every entry with a number of threads; a process that ends early is followed by one for the rest."""
    cpus = sorted(os.sched_getaffinity(0))[-threads:]
    table = found["threads"][str(threads)]
    skip: dict[str, list[str]] = collections.defaultdict(list)
    wanted, left = list(args.engines), list(names)
    while left:
        options = {
            "task": "time", "cpus": cpus, "engines": wanted, "plugins": args.plugins, "entries": left, "skip": skip,
            "seconds": args.seconds, "compiles": compiles,
        }  # fmt: skip
        child = Child(options, args.first_call_seconds, args.verbose)
        try:
            for record in child.records():
                event, entry, engine = record["event"], record.get("entry"), record.get("engine")
                if event == "loaded":
                    found["engine_versions"][engine] = record["version"]
                elif event == "unavailable":
                    found["unavailable"][engine] = record["reason"]
                    wanted.remove(engine)
                elif event == "failed":
                    table[entry][engine] = {"failed": record["reason"]}
                elif event == "result":
                    table[entry][engine] = {key: record[key] for key in report.MEASURED}
                elif event == "entry_done":
                    left.remove(entry)
                    say(f"{report.in_threads(str(threads))}  {report.progress(entry, table[entry])}")
                elif event == "ended" and entry is None:
                    found["unavailable"][engine] = record["reason"]
                    wanted.remove(engine)
                elif event == "ended":
                    table[entry][engine] = {"failed": record["reason"]}
                    skip[entry].append(engine)
                    say(f"{entry}: {engine}: {record['reason']}")
        finally:
            child.stop()
        if not wanted:
            return


def measure_memory(args: argparse.Namespace, names: list[str], found: dict[str, Any]) -> None:
    """Peak memory of the models, one process for each engine and entry."""
    cpus = sorted(os.sched_getaffinity(0))[-max(args.threads) :]
    models = [entry.name for entry in ENTRIES if entry.model and entry.name in names]
    for entry in models:
        for engine in MEMORY_ENGINES:
            if engine not in args.engines or engine in found["unavailable"]:
                continue
            timed = found["threads"][str(max(args.threads))].get(entry, {}).get(engine, {})
            if "failed" in timed:
                found["memory"][entry][engine] = timed
                continue
            options = {"task": "memory", "cpus": cpus, "engines": [engine], "plugins": args.plugins, "entries": [entry]}
            child = Child(options, args.first_call_seconds, args.verbose)
            try:
                for record in child.records():
                    if record["event"] == "memory":
                        keys = ("peak_bytes", "device_peak_bytes")
                        found["memory"][entry][engine] = {key: record[key] for key in keys}
                    elif record["event"] in ("unavailable", "ended"):
                        found["memory"][entry][engine] = {"failed": record["reason"]}
            finally:
                child.stop()
        say("memory  " + report.memory_progress(entry, found["memory"][entry]))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="entries whose name contains a match")
    parser.add_argument("--engines", default=",".join(engines.NAMES), help="which to run, separated by commas")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, separated by commas")
    parser.add_argument("--plugin", default=str(ROOT / "target/release/libcpu_plugin.so"), help="the device's library")
    parser.add_argument("--before", default="", metavar="PATH", help="the library of an earlier build, measured beside it")
    parser.add_argument("--isa", default="", choices=["", *engines.TIERS], help="hold the engines to a tier of instruction sets")
    parser.add_argument("--seconds", type=float, default=2.0, help="most time for one engine on one entry")
    parser.add_argument("--first-call-seconds", type=float, default=20.0, help="a call that takes longer is cut")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure peak memory too")
    parser.add_argument("--json", action="store_true", help="print one JSON record instead of tables")
    parser.add_argument("--write", action="store_true", help="replace benchmarks/results/cpu.md")
    parser.add_argument("--list", action="store_true", help="print the names of the entries and stop")
    parser.add_argument("--verbose", action="store_true", help="show what the engines print")
    args = parser.parse_args()
    args.engines = args.engines.split(",")
    args.threads = [int(threads) for threads in args.threads.split(",")]
    unknown = [name for name in args.engines if name not in engines.NAMES]
    if unknown:
        parser.error(f"unknown engine {unknown[0]}; known: {', '.join(engines.NAMES)}")
    available = len(os.sched_getaffinity(0))
    if max(args.threads) > available or min(args.threads) < 1:
        parser.error(f"--threads must be between 1 and {available} on this machine")
    args.plugins = {"ours": str(pathlib.Path(args.plugin).resolve()), "before": str(pathlib.Path(args.before).resolve())}
    # The reference comes first: others are compared with it.
    args.engines.sort(key=engines.NAMES.index)
    if args.before:
        args.engines.append("before")
    return args


def main() -> int:
    """Exit status 0 if every engine that was asked for ran, 1 if one is missing, 2 for a wrong command line."""
    args = parse()
    names = [entry.name for entry in ENTRIES if re.search(args.only, entry.name)]
    if args.list or not names:
        print("\n".join(names or ["no entry matches"]))
        return 0 if names else 2
    folder = tempfile.TemporaryDirectory()
    # The measuring processes inherit these.
    os.environ.update(engines.limits(args.isa, folder.name))
    started = time.perf_counter()
    found: dict[str, Any] = {
        "version": 1,
        "date": time.strftime("%Y-%m-%d"),
        "machine": report.machine(),
        "command": report.command(sys.argv),
        "isa": args.isa,
        "engines": args.engines,
        "versions": engines.versions(),
        "engine_versions": {},
        "unavailable": {},
        "threads": {str(threads): {name: {} for name in names} for threads in args.threads},
        "memory": {name: {} for name in names},
    }
    for threads in args.threads:
        # Compile time is of interest once: where the compilers may use most threads.
        measure_times(args, names, threads, 3 if threads == max(args.threads) else 1, found)
    if args.memory:
        measure_memory(args, names, found)
    found["seconds"] = time.perf_counter() - started
    for engine, reason in found["unavailable"].items():
        say(f"{engine} did not run: {reason}")
    text = report.markdown(found)
    if args.write:
        (ROOT / "benchmarks/results/cpu.md").write_text(text)
    print(json.dumps(found, indent=1) if args.json else text)
    return 1 if found["unavailable"] else 0


if __name__ == "__main__":
    sys.exit(main())
