"""XProf as a reader of profiles and as a client of a profiler.

usage: xprof_client.py read FILE                       prints what XProf's tools say of a profile, as JSON
       xprof_client.py capture ADDRESS FOLDER MS       asks a profiler, as JAX's collect_profile does
       xprof_client.py monitor ADDRESS                 prints what a profiler says of its program
"""

import json
import pathlib
import shutil
import sys
import tempfile

from xprof.convert import _pywrap_profiler_plugin, raw_to_tool_data


def rows(table: dict) -> list[dict]:
    """Rows of one of XProf's tables, by column."""
    columns = [column["id"] for column in table["cols"]]
    return [dict(zip(columns, (cell and cell.get("v") for cell in row["c"]))) for row in table["rows"]]


def read(path: str) -> dict:
    """What the tools say. XProf writes a cache beside the file, so the file is copied first."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / pathlib.Path(path).name
        shutil.copy(path, file)

        def ask(tool: str):
            data, _ = raw_to_tool_data.xspace_to_tool_data([str(file)], tool, {})
            return json.loads(data)

        steps = rows(ask("input_pipeline_analyzer")[1])
        ops = rows(ask("hlo_stats"))
        framework = rows(ask("framework_op_stats")[0])
        profile = ask("op_profile")
        overview = ask("overview_page")
        trace = ask("trace_viewer")["traceEvents"]
        memory = ask("memory_profile")
    names = {event["args"]["name"] for event in trace if event.get("name") in ("process_name", "thread_name")}
    step_ms = [float(step["tooltip"].split("Step time = ")[1].split(" ms")[0]) for step in steps]
    return {
        "step_ms": step_ms,
        "ops": sorted({op["hlo_op_name"] for op in ops}),
        "categories": sorted({op["category"] for op in ops}),
        "self_us": sum(op["total_self_time"] for op in ops),
        "scopes": sorted({op["operation"] for op in framework}),
        "op_profile_ps": profile["byProgram"]["metrics"]["rawTime"],
        "overview_rows": len(overview[0]["rows"]),
        "lines": sorted(names),
        "launches": len(memory["hloModules"]),
    }


def main() -> None:
    """Does what the first argument says."""
    match sys.argv[1:]:
        case ["read", path]:
            print(json.dumps(read(path)))
        case ["capture", address, folder, milliseconds]:
            levels = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 1}
            _pywrap_profiler_plugin.trace(address, folder, "", True, int(milliseconds), 3, levels)
        case ["monitor", address]:
            print(_pywrap_profiler_plugin.monitor(address, 100, 1, True))
        case _:
            sys.exit(__doc__)


main()
