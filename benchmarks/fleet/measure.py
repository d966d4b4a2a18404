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
    print("# Jobs: from capacity to the first step, from a preemption to running again")
    print(f"`benchmarks/fleet/measure.py`, {os.cpu_count()} cores, four workers by ssh on this machine, a program of steps of 0.15 s.")
    print("Seconds; waits of the provider are not in them. A worker that does not answer is given 20 s before it counts as dead.\n")
    print("| attempt | from slices ready to all running | to the first step | why it ended | from that to deleted or asked again |")
    print("|---|---|---|---|---|")
    worst = 0.0
    for attempt in state["ended"]:
        running = attempt["running_ms"]
        if running is None:
            continue
        first = min((at for at in steps if at >= attempt["since_ms"]), default=running)
        start, stop = (first - attempt["since_ms"]) / 1000, (attempt["ended_ms"] - attempt["stopping_ms"]) / 1000
        worst = max(worst, start)
        print(f"| {attempt['number']} | {(running - attempt['since_ms']) / 1000:.1f} | {start:.1f} | {attempt['why']} | {stop:.1f} |")
    print(f"\nThe longest time from capacity to the first step: {worst:.1f} s.")


if __name__ == "__main__":
    main()
