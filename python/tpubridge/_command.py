"""Finds the `tpu` command, runs it, shows its progress, and turns its errors into exceptions."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._progress import Progress

#: Seconds that the command has to end itself after an interrupt: it ends the compiler's process first.
_GRACE_S = 10.0


class TpuError(Exception):
    """The command refused or failed: what it said, and what helps."""

    def __init__(self, message: str, hint: str | None = None, exit_code: int = 2) -> None:
        super().__init__(message, hint, exit_code)
        #: What went wrong, with its causes.
        self.message = message
        #: What to do about it, where that is known.
        self.hint = hint
        #: The command's exit code; negative for a signal.
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


@dataclass(frozen=True)
class Answer:
    """What the command printed."""

    record: dict[str, Any]
    tables: str
    html: str | None


def command_path() -> Path:
    """The `tpu` command: `$TPUBRIDGE_TPU`, the one that was installed with this package, or the one on the path."""
    name = os.environ.get("TPUBRIDGE_TPU")
    if name:
        return Path(name)
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"), os.path.dirname(sys.executable)]
    # `pip install --target FOLDER` puts scripts beside the package.
    schemes.append(str(Path(__file__).resolve().parent.parent / "bin"))
    for folder in schemes:
        found = Path(folder) / "tpu"
        if found.is_file() and os.access(found, os.X_OK):
            return found
    on_path = shutil.which("tpu")
    if on_path:
        return Path(on_path)
    raise TpuError("the `tpu` command is not installed", "install the wheel of tpubridge again, or set TPUBRIDGE_TPU")


def plugin_path() -> Path:
    """The CPU device's library: `$TPUBRIDGE_CPU_PLUGIN`, or the one in this package."""
    name = os.environ.get("TPUBRIDGE_CPU_PLUGIN")
    return Path(name) if name else Path(__file__).resolve().parent / "libcpu_plugin.so"


def libtpu_path() -> Path | None:
    """The TPU compiler: `$TPU_LIBRARY_PATH`, or the installed `libtpu` package; `None` leaves the search to the command."""
    name = os.environ.get("TPU_LIBRARY_PATH")
    if name:
        return Path(name)
    found = importlib.util.find_spec("libtpu")
    folders = list(found.submodule_search_locations or []) if found else []
    libraries = [Path(folder) / "libtpu.so" for folder in folders]
    return next((library for library in libraries if library.is_file()), None)


def environment() -> dict[str, str]:
    """What the command finds in its environment: ours, and where libtpu is."""
    libtpu = libtpu_path()
    return dict(os.environ) | ({"TPU_LIBRARY_PATH": str(libtpu)} if libtpu else {})


def ask(arguments: Sequence[str], *, doing: str, html: bool = False) -> Answer:
    """Runs the command for its record, its tables and, if asked for, its page. Exit codes 0 and 1 are answers."""
    with tempfile.TemporaryDirectory(prefix="tpubridge-") as folder:
        tables, page = Path(folder, "tables.txt"), Path(folder, "page.html")
        line = [str(command_path()), "--json", "--tables", str(tables), "--progress", "--log-format", "json", *arguments]
        line += ["--html", str(page)] if html else []
        output = _run(line, doing)
        try:
            record = json.loads(output)
        except ValueError as error:
            raise TpuError(f"the command printed no record: {error}", f"is {line[0]} of this version?") from error
        text = tables.read_text(encoding="utf-8") if tables.exists() else ""
        return Answer(record, text, page.read_text(encoding="utf-8") if page.exists() else None)


def _run(line: list[str], doing: str) -> str:
    """Standard output of the command; what it says on standard error is shown as progress, or becomes the error."""
    try:
        child = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment())
    except OSError as error:
        raise TpuError(f"cannot start {line[0]}: {error}") from error
    said = _Said()
    with Progress(doing) as progress:
        listener = threading.Thread(target=said.listen, args=(child.stderr, progress), daemon=True)
        listener.start()
        try:
            assert child.stdout is not None
            output = child.stdout.read().decode("utf-8", "replace")
            code = child.wait()
        except BaseException:
            _end(child)
            raise
        finally:
            listener.join(timeout=_GRACE_S)
    # The answer may be no, which has a record too; an error has none.
    if code in (0, 1) and output.strip():
        return output
    raise said.error(code)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class _Said:
    """What the command said on standard error."""

    def __init__(self) -> None:
        self.message: str | None = None
        self.hint: str | None = None
        self.lines: list[str] = []

    def listen(self, stream: Any, progress: Progress) -> None:
        for raw in stream:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            fields = _fields(line)
            if fields is None:
                # Bounded: a compiler's chatter has no end.
                self.lines = [*self.lines[-40:], line]
            elif fields.get("progress") is True:
                progress.step(str(fields.get("message", "")), fields.get("done"), fields.get("of"))
            elif fields.get("level") == "ERROR":
                self.message, self.hint = str(fields.get("message", "")), fields.get("hint")

    def error(self, code: int) -> TpuError:
        if self.message is not None:
            return TpuError(self.message, self.hint, code)
        # Errors of the command line itself are text.
        text = "\n".join(self.lines).strip().removeprefix("error: ")
        if code < 0:
            text = f"the command was ended by {signal.Signals(-code).name}" + (f": {text}" if text else "")
        return TpuError(text or f"the command failed with exit code {code}", None, code)


def _fields(line: str) -> dict[str, Any] | None:
    """A record of the log as one level of fields; nothing for a line that is none."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    inner = record.get("fields")
    return record | inner if isinstance(inner, dict) else record
