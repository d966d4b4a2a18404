"""Compiles exported programs with the real compiler, first phase only, and tables fit, memory and the FLOPs identity.

usage: verify.py OUTDIR [--only ID ...] [--plugin LIBTPU] [--limit SECONDS]

Writes OUTDIR/NAME.quick.json, the compiler's report, and OUTDIR/STATUS.md, one line per program found there.
Exit status: 0 all fit and match, 1 some do not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from slices import tpu_command

GIB = 2**30
IDENTITY_TOLERANCE = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--only", nargs="+", default=None, metavar="ID")
    parser.add_argument("--plugin", default=None)
    parser.add_argument("--limit", type=int, default=900, help="seconds one compile may take")
    arguments = parser.parse_args()
    for record in _records(arguments.outdir):
        if arguments.only is None or record["id"] in arguments.only:
            compile_quickly(record, arguments.outdir, arguments.plugin, arguments.limit)
            _write_status(arguments.outdir)
            print(_line(record, arguments.outdir), file=sys.stderr)
    return 0 if all(_is_good(record, arguments.outdir) for record in _records(arguments.outdir)) else 1


def _records(outdir: Path) -> list[dict[str, Any]]:
    found = [path for path in sorted(outdir.glob("*.json")) if not path.name.endswith(".quick.json")]
    return [json.loads(path.read_text()) for path in found]


def flag_text(name: str, value: Any) -> str:
    """A compiler flag as the command line takes it."""
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def compile_quickly(record: dict[str, Any], outdir: Path, plugin: str | None, limit: int) -> None:
    """Runs the first phase of the compiler and keeps its report."""
    program = outdir / record["program"]
    command = [tpu_command(), "compile", str(program), "--slice", record["slice"], "--quick", "--json"]
    command += ["--devices", ",".join(map(str, record["device_ids"]))]
    command += ["--compilation-timeout-seconds", str(limit)]
    command += ["--plugin", plugin] if plugin else []
    for name, value in record["flags"].items():
        command += ["--flag", flag_text(name, value)]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = {
        "status": done.returncode,
        "wall_seconds": round(time.monotonic() - started, 1),
        "report": json.loads(done.stdout) if done.stdout.strip().startswith("{") else None,
        "message": done.stderr.strip()[-2000:],
    }
    _report_path(record, outdir).write_text(json.dumps(report, indent=1) + "\n")


def _report_path(record: dict[str, Any], outdir: Path) -> Path:
    return outdir / record["program"].replace(".mlir.bc", ".quick.json")


def _report(record: dict[str, Any], outdir: Path) -> dict[str, Any] | None:
    path = _report_path(record, outdir)
    return json.loads(path.read_text()) if path.exists() else None


def _is_good(record: dict[str, Any], outdir: Path) -> bool:
    report = _report(record, outdir)
    error = record["flops_identity_error"]
    return report is not None and report["status"] == 0 and (error is None or abs(error) <= IDENTITY_TOLERANCE)


def _line(record: dict[str, Any], outdir: Path) -> str:
    report, error = _report(record, outdir), record["flops_identity_error"]
    identity = "no step time" if error is None else f"{error:+.3%} {record['flops_convention']}"
    if report is None:
        return f"| {record['id']} | {record['slice']} | {identity} | | | | not compiled |"
    memory = ((report["report"] or {}).get("report") or {}).get("memory")
    used = f"{memory['total'] / GIB:.2f} of {memory['limit'] / GIB:.2f}" if memory else "?"
    host = f"{(memory.get('host_temporaries') or 0) / GIB:.1f}" if memory else ""
    said = report["message"].splitlines() or ["failed"]
    verdict = "fits" if report["status"] == 0 else said[0]
    return f"| {record['id']} | {record['slice']} | {identity} | {report['wall_seconds']} | {used} | {host} | {verdict} |"


def _write_status(outdir: Path) -> None:
    head = "| row | slice | FLOPs identity | quick compile s | HBM GiB of limit | host GiB | verdict |\n"
    lines = [_line(record, outdir) for record in _records(outdir)]
    (outdir / "STATUS.md").write_text(head + "|---|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
