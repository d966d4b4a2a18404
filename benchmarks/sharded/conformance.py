"""Runs JAX's own tests of sharded programs on 8 devices of a PJRT plugin, and counts those that pass on XLA:CPU too.

usage: python benchmarks/sharded/conformance.py TESTS --plugin libcpu_plugin.so [--files shard_map_test,pjit_test,array_test]
       [--every 1] [--only REGEX] [--out FOLDER] [--goal 97]

TESTS is the folder `tests` of JAX's repository at the tag of the installed version. Outcomes are written as FOLDER/ours.json, and
those of XLA:CPU, which runs only what failed on the plugin, as FOLDER/xla.json. A test that ends the process or takes over two
minutes has failed. The exit status is 1 where fewer percent pass than the goal.
"""

import argparse
import json
import os
import pathlib
import re
import select
import subprocess
import sys

DEVICES = 8
TEST_SECONDS = 120
FILES = "shard_map_test,pjit_test,array_test"


def child(tests: str, file: str, plugin: str, wanted: dict) -> None:
    """Runs one file's tests, a line before and a line after each."""
    import unittest

    os.environ["JAX_PLATFORMS"] = "cpu"
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, tests)
    if plugin:
        from jax._src import xla_bridge

        xla_bridge.register_plugin("cpu", library_path=plugin, options={"cpu_device_count": DEVICES})
    from absl import flags
    from jax._src import config

    config.parse_flags_with_absl()
    flags.FLAGS(["conformance"])
    import importlib

    module = importlib.import_module(file)
    if hasattr(module, "setUpModule"):
        module.setUpModule()
    from jax._src import test_util

    def tell(**line) -> None:
        print(json.dumps(line), file=out, flush=True)

    class Result(unittest.TestResult):
        def startTest(self, test) -> None:
            super().startTest(test)
            self.outcome, self.reason = "passed", ""
            tell(begin=test.id())

        def addError(self, test, error) -> None:
            self.outcome, self.reason = "failed", self._exc_info_to_string(error, test)[-4000:]

        addFailure = addError

        def addSkip(self, test, reason) -> None:
            self.outcome, self.reason = "skipped", reason

        def addSubTest(self, test, subtest, error) -> None:
            if error is not None:
                self.addError(test, error)

        def stopTest(self, test) -> None:
            super().stopTest(test)
            tell(test=test.id(), outcome=self.outcome, reason=self.reason)

    def leaves(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from leaves(test)
            else:
                yield test

    chosen = leaves(test_util.JaxTestLoader().loadTestsFromModule(module))
    chosen = [test for test in chosen if re.search(wanted["only"], test.id())][:: wanted["every"]]
    if wanted["names"] is not None:
        chosen = [test for test in chosen if test.id() in wanted["names"]]
    chosen = [test for test in chosen if test.id() not in wanted["done"]]
    unittest.TestSuite(chosen).run(Result())
    tell(done=True)
    os._exit(0)


def run(args: argparse.Namespace, file: str, plugin: str, names: list[str] | None) -> dict[str, dict]:
    """Outcomes by test; the process is started again after a test that ended it."""
    found: dict[str, dict] = {}
    while True:
        command = [sys.executable, "-B", __file__, args.tests, "--child", file, "--plugin", plugin]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        wanted = {"only": args.only, "every": args.every, "names": names, "done": list(found)}
        process.stdin.write(json.dumps(wanted).encode())
        process.stdin.close()
        running, done, why = None, False, "the process ended"
        while True:
            # In slices: a machine that stops all processes for a while does not count against a test.
            ready = any(select.select([process.stdout], [], [], 1)[0] for _ in range(TEST_SECONDS))
            line = process.stdout.readline() if ready else b""
            if not ready:
                why = f"over {TEST_SECONDS} s"
            if not line:
                break
            record = json.loads(line)
            if "begin" in record:
                running = record["begin"]
            elif "test" in record:
                found[record["test"]] = {"outcome": record["outcome"], "reason": record["reason"]}
                running = None
            else:
                done = True
        process.kill()
        process.wait()
        if running is not None:
            found[running] = {"outcome": "failed", "reason": why}
        elif done:
            return found
        else:
            raise SystemExit(f"{file}: no test ran: {' '.join(command)}")


def main() -> int:
    """Prints one line for each file and each test that differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests")
    parser.add_argument("--plugin", default="")
    parser.add_argument("--files", default=FILES)
    parser.add_argument("--every", type=int, default=1, help="take every n-th test")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", default=".")
    parser.add_argument("--goal", type=float, default=97.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.tests, args.child, args.plugin, json.load(sys.stdin))
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    files = args.files.split(",")

    ours, xla = {}, {}
    for file in files:
        found = run(args, file, args.plugin, None)
        ours |= found
        (out / "ours.json").write_text(json.dumps(ours, indent=1))
        failed = [name for name, outcome in found.items() if outcome["outcome"] == "failed"]
        xla |= run(args, file, "", failed) if failed else {}
        (out / "xla.json").write_text(json.dumps(xla, indent=1))
    total = passed = 0
    print("| tests | pass on XLA:CPU | of them on the plugin |\n|---|---|---|")
    for file in files:
        good = [name for name in ours if name.startswith(f"{file}.") and ours[name]["outcome"] == "passed"]
        bad = [name for name in xla if name.startswith(f"{file}.") and xla[name]["outcome"] == "passed"]
        total, passed = total + len(good) + len(bad), passed + len(good)
        print(f"| {file} | {len(good) + len(bad)} | {len(good)} |")
    percent = 100 * passed / max(total, 1)
    print(f"| all | {total} | {passed} ({percent:.1f} %) |\n")
    for name in (name for name, outcome in xla.items() if outcome["outcome"] == "passed"):
        last = (ours[name]["reason"].strip().splitlines() or [""])[-1]
        print(f"failed {name}: {last[:200]}")
    return int(percent < args.goal)


if __name__ == "__main__":
    sys.exit(main())
