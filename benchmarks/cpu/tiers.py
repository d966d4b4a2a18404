"""One table of several runs that were held to different tiers of instruction sets: python tiers.py RECORD.json...

The records are what `run.py --isa TIER --json` prints. For each entry and tier: milliseconds of the CPU device, and how many
times as fast it is as XLA:CPU held to the same tier.
"""

import json
import math
import pathlib
import sys
from typing import Any


def cell(row: dict[str, Any], peer: str) -> tuple[str, float | None]:
    """Time of the device and its speed against a peer."""
    ours, other = row.get("ours", {}), row.get(peer, {})
    if "median_seconds" not in ours:
        return ours.get("failed", "not run"), None
    time = f"{ours['median_seconds'] * 1e3:.3g}"
    if "median_seconds" not in other:
        return time, None
    return time, other["median_seconds"] / ours["median_seconds"]


def table(records: list[dict[str, Any]], threads: str, peer: str) -> list[str]:
    """Rows for one number of threads."""
    tiers = [record["isa"] or "all" for record in records]
    lines = ["| entry | " + " | ".join(f"{tier} ms | to XLA:CPU" for tier in tiers) + " |"]
    lines.append("|---|" + "---:|---:|" * len(tiers))
    entries = [entry for entry in records[0]["threads"].get(threads, {})]
    ratios: list[list[tuple[float, str]]] = [[] for _ in tiers]
    for entry in entries:
        cells = []
        for column, record in enumerate(records):
            time, ratio = cell(record["threads"].get(threads, {}).get(entry, {}), peer)
            cells += [time, f"{ratio:.2f}" if ratio else ""]
            if ratio:
                ratios[column].append((ratio, entry))
        lines.append(f"| {entry} | " + " | ".join(cells) + " |")
    lines.append("")
    for tier, found in zip(tiers, ratios):
        if found:
            mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
            least, entry = min(found)
            below = sum(ratio < 0.95 for ratio, _ in found)
            lines.append(
                f"- {tier}: geometric mean {mean:.2f}, least {least:.2f} ({entry}), {below} of {len(found)} entries below 0.95."
            )
    return lines


def main() -> int:
    """Prints the tables of the records named on the command line."""
    records = [json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:]]
    if not records:
        print(__doc__, file=sys.stderr)
        return 2
    for threads in records[0]["threads"]:
        print(f"### {threads} thread{'' if threads == '1' else 's'}\n")
        print("\n".join(table(records, threads, "xla")))
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
