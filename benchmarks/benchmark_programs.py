"""Programs the benchmarks compile: the builders of the test references, at sizes whose compile takes seconds."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crates/testkit/python"))

import export_reference  # noqa: E402  (sets libtpu's environment before JAX is imported)


def lower(name: str):
    """The lowered program of that name, for four v5e chips."""
    return export_reference.lower(next(c for c in export_reference.cases() if c.name.startswith(f"benchmark_{name}")))
