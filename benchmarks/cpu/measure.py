"""One pinned process that measures entries; `run.py` starts it and reads one JSON record per line from it.

Each record has an `event`. `stage` says what is about to happen, so that the reader can cut what takes too long; `failed` and
`result` carry answers. A process that dies costs one engine of one entry: the reader starts another for the rest.
"""

import gc
import json
import math
import os
import statistics
import sys
import time
import zlib
from typing import Any

SAMPLE_SECONDS = 0.005
MOST_ROUNDS = 30
# Calls shorter than this get an untimed one before each sample: the engine before may have left its threads spinning and its
# data in the caches.
WARM_BELOW_SECONDS = 0.020
PAUSE_SECONDS = 0.002
MEMORY_CALLS = 3


class Channel:
    """Records for the reader; whatever libraries print goes to stderr instead."""

    def __init__(self) -> None:
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def send(self, event: str, **record: Any) -> None:
        """Writes one record."""
        print(json.dumps({"event": event, **record}), file=self.out, flush=True)


def why(error: BaseException) -> str:
    """The first line of an error, with its kind."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def arguments_of(entry: Any) -> tuple[Any, ...]:
    """The entry's arguments: the same in every process."""
    import numpy as np

    return entry.arguments(np.random.default_rng(zlib.crc32(entry.name.encode())))


def difference(entry: Any, results: list[Any], reference: list[Any]) -> str | None:
    """What is wrong with the results, or nothing. PyTorch may give fewer than JAX does."""
    import numpy as np

    for index, (result, expected) in enumerate(zip(results, reference)):
        if result.shape != expected.shape:
            return f"wrong result {index}: shape {result.shape}, expected {expected.shape}"
        if result.size == 0:
            continue
        kind = np.float64 if expected.size < 1 << 16 or expected.dtype.kind in "iu" else np.float32
        result, expected = result.astype(kind), expected.astype(kind)
        limit = entry.absolute + entry.relative * float(np.max(np.abs(expected)))
        result -= expected
        largest = float(np.max(np.abs(result)))
        if not largest <= limit:
            return f"wrong result {index}: off by {largest:.3g}, allowed {limit:.3g}"
    return None


def sample(call: Any, count: int) -> float:
    """Seconds per call."""
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


class Lane:
    """One engine's samples of one entry."""

    def __init__(self, call: Any, first_seconds: float, cap_seconds: float) -> None:
        self.call, self.cap_seconds = call, cap_seconds
        self.samples: list[float] = []
        self.used_seconds = 0.0
        # The first call is no guide for a short entry (it may touch memory or code for the first time).
        self.seconds = sample(call, 1) if first_seconds < cap_seconds else first_seconds
        if self.seconds < SAMPLE_SECONDS:
            self.seconds = min(self.seconds, sample(call, 3))

    def wants_more(self) -> bool:
        """Whether another sample fits."""
        if len(self.samples) >= MOST_ROUNDS:
            return False
        fewest = 3 if self.seconds < 2 * self.cap_seconds else 1
        return len(self.samples) < fewest or self.used_seconds + self.seconds < self.cap_seconds

    def take(self) -> None:
        """One sample."""
        count = max(1, math.ceil(SAMPLE_SECONDS / self.seconds))
        time.sleep(PAUSE_SECONDS)
        started = time.perf_counter()
        if self.seconds < WARM_BELOW_SECONDS:
            self.call()
        self.samples.append(sample(self.call, count))
        self.used_seconds += time.perf_counter() - started
        self.seconds = statistics.median(self.samples)


def measure_entry(channel: Channel, entry: Any, engines: dict[str, Any], skip: set[str], options: dict[str, Any]) -> None:
    """All engines on one entry, round-robin."""
    arguments = arguments_of(entry)
    lanes: dict[str, Lane] = {}
    compile_seconds: dict[str, list[float]] = {}
    reference, wrong = None, {}
    for name, engine in engines.items():
        if name in skip:
            continue
        try:
            channel.send("stage", entry=entry.name, engine=name, stage="compile")
            ready = engine.prepare(entry, arguments, options["compiles"])
            if name == "torch_compile":
                results = engine.arrays(ready.call())
            channel.send("stage", entry=entry.name, engine=name, stage="first call")
            started = time.perf_counter()
            result = ready.call()
            first_seconds = time.perf_counter() - started
            if name != "torch_compile":
                results = engine.arrays(result)
            del result
            channel.send("stage", entry=entry.name, engine=name, stage="measure")
            if reference is None:
                reference = results
            else:
                wrong[name] = difference(entry, results, reference)
            lanes[name] = Lane(ready.call, first_seconds, options["seconds"])
            compile_seconds[name] = ready.compile_seconds
        except Exception as error:  # Whatever an engine raises is its answer for this entry.
            channel.send("failed", entry=entry.name, engine=name, reason=why(error))
    del reference
    gc.collect()
    gc.disable()
    names, turn = list(lanes), 0
    while active := [name for name in names if lanes[name].wants_more()]:
        # Every round starts with another engine, so that none always follows the same one.
        for name in active[turn % len(active) :] + active[: turn % len(active)]:
            lanes[name].take()
        turn += 1
    gc.enable()
    for name, lane in lanes.items():
        channel.send(
            "result",
            entry=entry.name,
            engine=name,
            median_seconds=statistics.median(lane.samples),
            least_seconds=min(lane.samples),
            samples=len(lane.samples),
            compile_seconds=compile_seconds[name],
            wrong=wrong.get(name),
        )
    channel.send("entry_done", entry=entry.name)


def status_bytes(field: str) -> int:
    """A field of this process's status, in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in the process status")


def settle() -> None:
    """Gives freed memory back and starts a new high-water mark."""
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def measure_memory(channel: Channel, entry: Any, name: str, engine: Any) -> None:
    """Peak of resident memory over what it was with the arguments placed and the program compiled."""
    channel.send("stage", entry=entry.name, engine=name, stage="compile")
    ready = engine.prepare(entry, arguments_of(entry), 1)
    settle()
    before, account = status_bytes("VmRSS"), engine.memory().get("bytes_in_use")
    channel.send("stage", entry=entry.name, engine=name, stage="first call")
    for _ in range(MEMORY_CALLS):
        result = ready.call()
        channel.send("stage", entry=entry.name, engine=name, stage="first call")
    del result
    peak = engine.memory().get("peak_bytes_in_use")
    device = None if account is None or peak is None else peak - account
    channel.send(
        "memory", entry=entry.name, engine=name, peak_bytes=status_bytes("VmHWM") - before, device_peak_bytes=device
    )


def main() -> None:
    """`measure.py OPTIONS`, a JSON object that `run.py` writes."""
    options = json.loads(sys.argv[1])
    os.sched_setaffinity(0, options["cpus"])
    threads = len(options["cpus"])
    # Before the libraries are imported: they read it once.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    channel = Channel()
    import engines as known
    from entries import ENTRIES

    known.configure(options["engines"], options["plugins"])
    entries = {entry.name: entry for entry in ENTRIES}
    engines = {}
    for name in options["engines"]:
        channel.send("stage", entry=None, engine=name, stage="load")
        try:
            engines[name] = known.load(name, threads, options["plugins"])
            channel.send("loaded", engine=name, version=engines[name].version())
        except Exception as error:
            channel.send("unavailable", engine=name, reason=str(error) if isinstance(error, known.Missing) else why(error))
    if options["task"] == "memory":
        for name, engine in engines.items():
            measure_memory(channel, entries[options["entries"][0]], name, engine)
        return
    for name in options["entries"]:
        measure_entry(channel, entries[name], engines, set(options["skip"].get(name, [])), options)


if __name__ == "__main__":
    main()
