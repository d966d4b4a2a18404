"""Writes a corpus of StableHLO programs exported from JAX, as text and as portable-artifact bytecode.

usage: export_corpus.py OUTDIR [--only SUBSTRING]

For each program NAME:
  NAME.mlir          pretty text of exactly the module in NAME.mlir.bc
  NAME.mlir.bc       portable artifact (VHLO bytecode)
  NAME.lowered.mlir  the text JAX lowered, where serialisation changed it (chlo legalised, defaults dropped)
  NAME.generic.mlir  generic op form, for a subset
  NAME.loc.mlir      pretty text with locations, for a subset
and index.json with name, files, platform, partitions and features of each.
"""

import argparse
import json
import os
import pathlib
import sys
import time
import traceback

VIRTUAL_DEVICES = 8


def _prepare_environment() -> None:
    # JAX reads these once, at import.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={VIRTUAL_DEVICES}"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


_prepare_environment()

import jax  # noqa: E402

from corpus import constants, control_flow, contractions, convolutions, elementwise, indexing, interop  # noqa: E402
from corpus import linear_algebra, models, random_numbers, reductions, shapes, sharded  # noqa: E402
from corpus.program import Forms, Program, export_forms  # noqa: E402

FAMILIES = (
    elementwise,
    reductions,
    convolutions,
    contractions,
    indexing,
    shapes,
    control_flow,
    linear_algebra,
    random_numbers,
    constants,
    sharded,
    interop,
    models,
)

# Programs this JAX cannot export: name -> reason. Anything else that fails is an error.
KNOWN_EXCLUSIONS: dict[str, str] = {}

MINIMUM_PROGRAMS = 330


def main() -> int:
    """Exports every program; the exit status is 1 when one fails without a known reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--only", default="", help="export only programs whose name contains this")
    options = parser.parse_args()

    # File names without folders keep the output the same wherever the checkout is.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    options.outdir.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    entries, failures = _export_all(_all_programs(options.only), options.outdir)
    _write_atomically(options.outdir / "index.json", json.dumps({"version": 1, "programs": entries}, indent=1).encode())
    print(f"{len(entries)} programs, {failures} failed, {time.monotonic() - started:.0f} s", file=sys.stderr)
    too_few = not options.only and len(entries) < MINIMUM_PROGRAMS
    if too_few:
        print(f"error: fewer than {MINIMUM_PROGRAMS} programs", file=sys.stderr)
    return 1 if failures or too_few else 0


def _all_programs(only: str) -> list[Program]:
    programs = [program for family in FAMILIES for program in family.programs()]
    names = [program.name for program in programs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"program names used twice: {repeated}")
    return [program for program in programs if only in program.name]


def _export_all(programs: list[Program], outdir: pathlib.Path) -> tuple[list[dict], int]:
    entries, failures = [], 0
    for program in programs:
        try:
            forms = export_forms(program)
        except Exception as error:  # noqa: BLE001 - any failure of JAX is reported by name
            if program.name in KNOWN_EXCLUSIONS:
                print(f"excluded {program.name}: {KNOWN_EXCLUSIONS[program.name]}", file=sys.stderr)
                continue
            failures += 1
            print(f"FAILED {program.name}: {_last_line(error)}", file=sys.stderr)
            continue
        entries.append(_write_program(program, forms, outdir))
    return entries, failures


def _write_program(program: Program, forms: Forms, outdir: pathlib.Path) -> dict:
    files = {"text": f"{program.name}.mlir", "bytecode": f"{program.name}.mlir.bc"}
    contents = {files["text"]: forms.pretty.encode(), files["bytecode"]: forms.bytecode}
    optional = {
        "lowered": forms.lowered if forms.lowered != forms.pretty else None,
        "generic": forms.generic,
        "loc": forms.located,
    }
    for form, text in optional.items():
        if text is not None:
            files[form] = f"{program.name}.{form}.mlir"
            contents[files[form]] = text.encode()
    for file, content in contents.items():
        _write_atomically(outdir / file, content)
    return {
        "name": program.name,
        "files": files,
        "platform": program.platform,
        "num_partitions": forms.partitions,
        "shardy": program.shardy,
        "features": list(program.features),
    }


def _write_atomically(path: pathlib.Path, content: bytes) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _last_line(error: Exception) -> str:
    lines = [line for line in traceback.format_exception_only(error) if not line.startswith("---")]
    return " ".join(" ".join(lines).split())[:600]


if __name__ == "__main__":
    sys.exit(main())
