"""Prints the time of each op in a Chrome trace of TPUs, as the golden files of crates/operate hold it.

    python crates/testkit/python/trace_totals.py FILE.trace.json.gz > crates/operate/tests/data/NAME.totals.json

Only the lines "XLA Ops" count, with the device's own clock; ops inside others are taken out of the self time. Of the
ops the forty with most self time are kept, and the sums of all. Needs nothing but Python.
"""

import collections
import gzip
import json
import sys


def main() -> None:
    """Adds up."""
    events = json.load(gzip.open(sys.argv[1]))["traceEvents"]
    lines = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "XLA Ops"
    }
    totals = collections.defaultdict(lambda: [0, 0, 0])
    device_ps = 0
    for line in sorted(lines):
        spans = sorted(
            (
                (int(event["args"]["device_offset_ps"]), int(event["args"]["device_duration_ps"]), event["name"])
                for event in events
                if event.get("ph") == "X" and (event["pid"], event["tid"]) == line
            ),
            key=lambda span: (span[0], -span[1]),
        )
        device_ps += max(start + length for start, length, _ in spans) - spans[0][0]
        around = []
        for start, length, name in spans:
            while around and start + length > around[-1][0]:
                around.pop()
            if around:
                totals[around[-1][1]][2] -= length
            around.append((start + length, name))
            total = totals[name]
            total[0] += 1
            total[1] += length
            total[2] += length
    ops = sorted(totals.items(), key=lambda item: (-item[1][2], item[0]))
    answer = {
        "device_ps": device_ps,
        "self_ps": sum(total[2] for total in totals.values()),
        "distinct": len(ops),
        "ops": [
            {"name": name, "occurrences": count, "total_ps": total, "self_ps": own}
            for name, (count, total, own) in ops[:40]
        ],
    }
    json.dump(answer, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
