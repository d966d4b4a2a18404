"""Progress of long work: a bar of tqdm where that is installed, else a line on a terminal's standard error."""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from types import TracebackType
from typing import Any

#: Set to `off`, nothing is shown.
VARIABLE = "TPUBRIDGE_PROGRESS"


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """Shows what is being done from the first step to the end of the `with` block."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._started = time.monotonic()
        self._bar: Any = None
        self._total: int | None = None
        self._wanted = os.environ.get(VARIABLE) != "off"
        self._terminal = sys.stderr is not None and hasattr(sys.stderr, "isatty") and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif self._wanted and self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self, what: str, done: int | None = None, of: int | None = None) -> None:
        """Says what is being done now, and how much of all is done."""
        if not self._wanted or not (self._terminal or in_notebook()):
            return
        bar = self._tqdm(of)
        if bar is not None:
            bar.set_description_str(f"{self._doing}: {what}"[:100], refresh=False)
            if done is not None:
                bar.n = done
            bar.refresh()
        else:
            seconds = time.monotonic() - self._started
            start, end = ("\r\x1b[K", "") if self._terminal else ("", "\n")
            sys.stderr.write(f"{start}{self._doing}: {what} … {seconds:.1f} s{end}")
            sys.stderr.flush()

    def _tqdm(self, of: int | None) -> Any:
        """The bar, made anew when the total becomes known; nothing without tqdm."""
        if self._bar is not None and of == self._total:
            return self._bar
        if self._bar is not None and of is None:
            return self._bar
        try:
            with warnings.catch_warnings():
                # Without widgets it writes text, which is fine.
                warnings.simplefilter("ignore")
                tqdm = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            return None
        if self._bar is not None:
            self._bar.close()
        self._total = of
        shape = "{desc} {bar} {n_fmt}/{total_fmt} [{elapsed}]" if of is not None else "{desc} [{elapsed}]"
        self._bar = tqdm(total=of, bar_format=shape, leave=False)
        return self._bar
