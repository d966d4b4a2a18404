"""How long a job takes from capacity to its first step, and from a preemption to running again, without the provider's own waits.

Runs the test of real machines in crates/fleet (ssh servers in namespaces, root only), reads the journal it leaves, and prints a table.
    python3 benchmarks/fleet/measure.py > benchmarks/results/fleet.md
"""

import json
import os
import subprocess
import sys
import tempfile

TEST = "real_machines::a_job_on_real_machines_survives_everything_and_leaves_nothing"


def measured():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "journal.json")
        command = ["cargo", "test", "-p", "tpubridge-fleet", "--test", "it", "--", "--exact", TEST]
        done = subprocess.run(command, env={**os.environ, "TPUBRIDGE_FLEET_JOURNAL": path}, stdout=sys.stderr)
        if done.returncode != 0 or not os.path.exists(path):
            sys.exit("the test failed or was skipped")
        with open(path) as file:
            return json.load(file)


def main():
    record = measured()
    state = record["journal"]["state"]
    steps = [int(line.split(" ")[2]) for line in record["losses"].splitlines()]
    print("# Jobs: from capacity to the first step, from a fault to running again")
    print(f"`benchmarks/fleet/measure.py`, {os.cpu_count()} cores, four workers by ssh on this machine, a program of steps of 0.15 s.")
    print("Seconds. The provider of the test takes 0.5 s to make a slice and 0.3 s to delete one; these 0.8 s are in the last column.")
    print("The fault is the moment when machines are killed: finding out is in the last column too.\n")
    print("| attempt | from slices ready to the first step | fault | why it ended | from the fault to the first step after it |")
    print("|---|---|---|---|---|")
    firsts = {a["number"]: min((t for t in steps if t >= a["since_ms"]), default=None) for a in state["ended"]}
    for attempt in state["ended"]:
        first, then = firsts[attempt["number"]], firsts.get(attempt["number"] + 1)
        start = "-" if first is None else f"{(first - attempt['since_ms']) / 1000:.1f}"
        fault = max((f for f in record["faults"] if attempt["since_ms"] <= f[1] <= attempt["ended_ms"]), key=lambda f: f[1], default=None)
        again = "-" if then is None or fault is None else f"{(then - fault[1]) / 1000:.1f}"
        print(f"| {attempt['number']} | {start} | {fault[0] if fault else '-'} | {attempt['why']} | {again} |")


if __name__ == "__main__":
    main()
