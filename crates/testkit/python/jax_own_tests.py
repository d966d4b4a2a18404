"""Runs JAX's own tests on XLA:CPU and on a PJRT plugin, and compares: `jax_own_tests.py TESTS LIBRARY RESULTS`.

TESTS is a checkout of JAX at the version that is installed: its `tests` folder and its `pyproject.toml`. LIBRARY is the
plugin, which takes the place of JAX's own CPU device: it is registered under the name `cpu`. RESULTS keeps, for each
platform and test file, one line of JSON for each test, so that an interrupted run goes on where it was, and the report.

A test file runs in processes of its own, several at a time with `--jobs`, each on its own cores. A test that ends its
process, or that takes longer than the limit, is recorded as such, and the tests after it run in a new process. The interpreter that runs this script needs `pytest`,
`absl-py` and what JAX's tests import, such as `hypothesis`.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time

FILES = [
    "nn_test",
    "lax_control_flow_test",
    "linalg_test",
    "lax_numpy_einsum_test",
    "lax_numpy_setops_test",
    "lax_numpy_ufuncs_test",
    "lax_numpy_vectorize_test",
    "lax_numpy_operators_test",
    "lax_numpy_reducers_test",
    "lax_numpy_indexing_test",
    "random_test",
    "random_lax_test",
    "lax_test",
    "lax_numpy_test",
    "fft_test",
    "image_test",
    "lax_autodiff_test",
    "lax_vmap_test",
    "lax_vmap_op_test",
    "lax_scipy_test",
    "lax_scipy_sparse_test",
    "lax_scipy_special_functions_test",
    "lax_scipy_spectral_dac_test",
    "scipy_fft_test",
    "scipy_ndimage_test",
    "scipy_signal_test",
    "scipy_stats_test",
    "scipy_optimize_test",
    "scipy_spatial_test",
    "sparse_test",
    "sparse_bcoo_bcsr_test",
    "export_test",
    "api_test",
    "dtypes_test",
    "ann_test",
    "svd_test",
    "qdwh_test",
    "eigh_test",
    "custom_linear_solve_test",
    "jet_test",
    "ode_test",
    "stax_test",
    "optimizers_test",
    "polynomial_test",
    "batching_test",
    "custom_api_test",
    "checkify_test",
]

# Platforms compared: the one that says which tests count, and the one under test.
BASELINE, PLUGIN = "xla_cpu", "plugin"

# A process that has run many tests holds much memory in JAX's caches.
TESTS_PER_PROCESS = 300

# A process takes seconds to start.
LEAST_TESTS_PER_PROCESS = 40

# Seconds a process may take to import and collect.
START_SECONDS = 300


class Recorder:
    """A pytest plugin that runs chosen tests and reports each as a line of JSON."""

    def __init__(self, todo, pipe):
        self.todo = None if todo is None else set(todo)
        self.pipe = pipe
        self.stages = []

    def say(self, **record):
        os.write(self.pipe, (json.dumps(record) + "\n").encode())

    def pytest_collection_modifyitems(self, items):
        if self.todo is None:
            self.say(collected=[item.nodeid for item in items])
            items[:] = []
        else:
            items[:] = [item for item in items if item.nodeid in self.todo]

    def pytest_runtest_logstart(self, nodeid):
        self.stages = []
        self.say(start=nodeid)

    def pytest_runtest_logreport(self, report):
        self.stages.append(report)

    def pytest_runtest_logfinish(self, nodeid):
        outcome = "passed"
        for report in self.stages:
            if report.outcome != "passed" and outcome != "failed":
                outcome = report.outcome
        reason = next((reason_of(r) for r in self.stages if r.outcome != "passed"), "")
        self.say(test=nodeid, outcome=outcome, seconds=round(sum(r.duration for r in self.stages), 3), reason=reason)


def reason_of(report):
    """The first line of what went wrong, or why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    # An assertion about arrays says how far apart they are only further down.
    kept = lines[:1] + [line for line in lines[1:] if re.match(r"(Mismatched|Max (absolute|relative))", line)]
    return " | ".join(kept)[:600]


def child(arguments):
    """Runs in a process of its own: `--child TESTS FILE PIPE`, the tests' ids on standard input."""
    import pytest

    tests, file, pipe = arguments
    todo = json.load(sys.stdin)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", tests, "--no-header", "--tb=short"]
    os.chdir(tests)
    pytest.main([*options, f"tests/{file}.py"], plugins=[Recorder(todo, int(pipe))])


class Platform:
    """One side of the comparison."""

    def __init__(self, name, library, arguments):
        self.name = name
        self.arguments = arguments
        self.environment = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")
        for name in ["XLA_FLAGS", "PJRT_NAMES_AND_LIBRARY_PATHS"]:
            self.environment.pop(name, None)
        if library:
            self.environment["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"cpu:{library}"
        self.folder = pathlib.Path(arguments.results) / self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.writing = threading.Lock()
        cores, jobs = sorted(os.sched_getaffinity(0)), arguments.jobs
        each = max(1, len(cores) // jobs)
        self.free_cores = queue.SimpleQueue()
        for job in range(jobs):
            first = job * each % len(cores)
            self.free_cores.put(cores[first : first + each])

    def collect(self, file):
        """The ids of a file's tests."""
        stored = self.folder / f"{file}.collected.json"
        if not stored.exists():
            records = list(self.process(file, None))
            ids = next((record["collected"] for record in records if "collected" in record), None)
            if ids is None:
                raise SystemExit(f"{file} cannot be collected on {self.name}; see {self.folder / file}.log")
            stored.write_text(json.dumps(ids))
        return json.loads(stored.read_text())

    def results(self, file):
        """What is known of a file's tests; the newest record of a test counts."""
        stored = self.folder / f"{file}.jsonl"
        lines = stored.read_text().splitlines() if stored.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("}")]
        return {record["test"]: record for record in records}

    def chunks(self, file, wanted):
        """Those of the wanted tests that have no result yet, as many at a time as one process runs."""
        done = self.results(file)
        todo = [test for test in wanted if test not in done]
        share = -(-len(todo) // self.arguments.jobs)
        size = min(TESTS_PER_PROCESS, max(LEAST_TESTS_PER_PROCESS, share))
        return [(file, todo[start : start + size]) for start in range(0, len(todo), size)]

    def run(self, file, todo):
        """Runs tests of one file, in a new process after each one that is lost."""
        while todo:
            finished = set()
            for record in self.process(file, todo):
                if "test" in record:
                    finished.add(record["test"])
                    with self.writing, open(self.folder / f"{file}.jsonl", "a") as out:
                        print(json.dumps(record), file=out)
            if not finished:
                print(f"{file}: no test ran; see {self.folder / file}.log", file=sys.stderr)
                return
            todo = [test for test in todo if test not in finished]
        print(f"{self.name} {file}: a part is done", file=sys.stderr)

    def run_all(self, chunks):
        """Runs chunks, `--jobs` at a time; the longest first, so that none is left alone at the end."""
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            list(pool.map(lambda chunk: self.run(*chunk), sorted(chunks, key=lambda chunk: -len(chunk[1]))))

    def process(self, file, todo):
        """The records of one process. Ends with it, or with a test that takes too long."""
        ours, theirs = os.pipe()
        # JAX does not tell a plugin how many devices a file asks for.
        text = pathlib.Path(self.arguments.tests, "tests", f"{file}.py").read_text()
        asked = re.search(r"request_cpu_devices\((\d+)\)", text)
        environment = dict(self.environment, TPUBRIDGE_CPU_DEVICE_COUNT=asked[1] if asked else "1")
        with open(self.folder / f"{file}.log", "ab") as log:
            command = [sys.executable, __file__, "--child", self.arguments.tests, file, str(theirs)]
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[theirs], env=environment
            )
        os.close(theirs)
        # Thread pools of processes on the same cores would fight.
        cores = self.free_cores.get()
        os.sched_setaffinity(worker.pid, cores)
        worker.stdin.write(json.dumps(todo).encode())
        worker.stdin.close()
        buffer, current, deadline = b"", None, time.monotonic() + START_SECONDS
        try:
            while True:
                left = deadline - time.monotonic()
                ready = left > 0 and select.select([ours], [], [], left)[0]
                if not ready:
                    if current:
                        yield self.lost(current, "timeout", f"took longer than {self.arguments.timeout} s")
                    return
                chunk = os.read(ours, 1 << 16)
                if not chunk:
                    break
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    record = json.loads(line)
                    current = record.get("start")
                    deadline = time.monotonic() + (self.arguments.timeout if current else START_SECONDS)
                    yield record
            status = worker.wait()
            if current:
                yield self.lost(current, "crashed", f"the process ended with status {status}")
        finally:
            worker.kill()
            worker.wait()
            self.free_cores.put(cores)
            os.close(ours)

    @staticmethod
    def lost(test, outcome, reason):
        return {"test": test, "outcome": outcome, "seconds": 0, "reason": reason}


def kind_of(record):
    """A reason without the numbers and names that differ from test to test."""
    reason = record["reason"].split(" | ")[0] or record["outcome"]
    reason = re.sub(r"tensor<[^>]*>", "tensor<..>", reason)
    reason = re.sub(r"0x[0-9a-f]+|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", reason)
    return reason[:160]


def report(baseline, plugin, files):
    """The table, and below it the failures by reason."""
    lines = []
    rows, reasons = [], collections.defaultdict(list)
    for file in files:
        expected = [test for test, record in baseline.results(file).items() if record["outcome"] == "passed"]
        actual = plugin.results(file)
        counts = collections.Counter(actual[test]["outcome"] if test in actual else "not run" for test in expected)
        rows.append((file, len(expected), counts))
        for test in expected:
            if test in actual and actual[test]["outcome"] != "passed":
                reasons[kind_of(actual[test])].append((test, actual[test]))
    rows.append(("all", sum(row[1] for row in rows), sum((row[2] for row in rows), collections.Counter())))
    others = ["failed", "skipped", "timeout", "crashed", "not run"]
    lines.append(f"| file | passed on XLA:CPU | of these passed here | % | {' | '.join(others)} |")
    lines.append("|---|" + "---:|" * (3 + len(others)))
    for file, total, counts in rows:
        percent = f"{100 * counts['passed'] / total:.1f}" if total else "-"
        rest = " | ".join(str(counts[name]) for name in others)
        lines.append(f"| {file} | {total} | {counts['passed']} | {percent} | {rest} |")
    for reason, tests in sorted(reasons.items(), key=lambda item: -len(item[1])):
        lines.append(f"\n{len(tests)} x {reason}")
        for test, record in tests:
            lines.append(f"  {test.removeprefix('tests/')}  [{record['outcome']}] {record['reason'][:200]}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", help="a checkout of JAX's tests")
    parser.add_argument("library", help="the plugin")
    parser.add_argument("results", help="a folder for the results")
    parser.add_argument("--files", help="test files without their ending, separated by commas", default=",".join(FILES))
    parser.add_argument("--only", choices=[BASELINE, PLUGIN, "report"], help="do only this part")
    parser.add_argument("--match", default="", help="a regular expression: run only tests whose id it matches")
    parser.add_argument("--every", type=int, default=1, help="run only every so many-th test of those")
    parser.add_argument("--again", choices=["failing", "all"], help="forget these results of the plugin first")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--timeout", type=int, default=120, help="seconds a test may take")
    arguments = parser.parse_args()
    arguments.tests = os.path.abspath(arguments.tests)
    # Leave by the way that also ends the worker.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    files = arguments.files.split(",")
    baseline = Platform(BASELINE, None, arguments)
    plugin = Platform(PLUGIN, os.path.abspath(arguments.library), arguments)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        wanted = dict(zip(files, pool.map(lambda file: chosen(baseline.collect(file), arguments), files)))
    if arguments.only in (None, BASELINE):
        baseline.run_all([chunk for file in files for chunk in baseline.chunks(file, wanted[file])])
    if arguments.only in (None, PLUGIN):
        chunks = []
        for file in files:
            known = baseline.results(file)
            # Where the baseline is not complete, what it has not run may pass there.
            open_here = [test for test in wanted[file] if test not in known or known[test]["outcome"] == "passed"]
            if arguments.again:
                forget(plugin, file, set(open_here), arguments.again)
            chunks += plugin.chunks(file, open_here)
        plugin.run_all(chunks)
    text = report(baseline, plugin, files)
    (pathlib.Path(arguments.results) / "report.md").write_text(text)
    print(text, end="")


def chosen(tests, arguments):
    """The tests the command line asks for."""
    return [test for test in tests if re.search(arguments.match, test)][:: arguments.every]


def forget(plugin, file, wanted, which):
    """Drops results of the wanted tests, so that they run again."""
    kept = [
        record
        for test, record in plugin.results(file).items()
        if test not in wanted or (which == "failing" and record["outcome"] == "passed")
    ]
    stored = plugin.folder / f"{file}.jsonl"
    stored.write_text("".join(json.dumps(record) + "\n" for record in kept))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
    else:
        main()
