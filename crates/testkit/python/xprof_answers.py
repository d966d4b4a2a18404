"""Prints what XProf says of a profile, as the golden files of crates/operate hold it.

    pip install xprof==2.24.2
    python crates/testkit/python/xprof_answers.py FILE.xplane.pb > crates/operate/tests/data/NAME.xprof.json

XProf writes a cache beside the file, so the file is copied first. Times are in picoseconds, summed over devices.
"""

import json
import pathlib
import shutil
import sys
import tempfile

from xprof.convert import raw_to_tool_data


def ask(file: pathlib.Path, tool: str) -> dict:
    """The answer of one tool, parsed."""
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(file)], tool, {})
    return json.loads(data)


def main() -> None:
    """Asks for the ops and the sums."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / pathlib.Path(sys.argv[1]).name
        shutil.copy(sys.argv[1], file)
        stats = ask(file, "hlo_stats")
        profile = ask(file, "op_profile")
    columns = [column["id"] for column in stats["cols"]]
    rows = [dict(zip(columns, (cell["v"] for cell in row["c"]))) for row in stats["rows"]]
    ops = [
        {
            "program_id": str(row["program_id"]),
            "name": row["hlo_op_name"],
            "category": row["category"],
            "occurrences": round(row["occurrences"]),
            "total_ps": round(row["total_time"] * 1e6),
            "self_ps": round(row["total_self_time"] * 1e6),
        }
        for row in rows
    ]
    root = profile["byProgram"]
    idle = [child for child in root["children"] if child["name"] == "IDLE"]
    answer = {
        "device_ps": round(root["metrics"]["rawTime"]),
        "idle_ps": round(idle[0]["metrics"]["rawTime"]) if idle else 0,
        "flops": root["metrics"]["rawFlops"],
        "ops": ops,
    }
    json.dump(answer, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
