"""Writes the training rows of a file of measurements as StableHLO programs, each with a record of how to compile it.

usage: export.py FILE OUTDIR [--only ID ...] [--list]

FILE has the form of measured.json. For every row of kind `train`, OUTDIR gets NAME.mlir.bc, the step as the published
run would have compiled it, and NAME.json, the record described in README.md. A row that cannot be read is reported with
the reason. Exit status: 0 all written, 1 some rows could not be, 2 error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
os.environ.setdefault("TPU_LOG_DIR", "disabled")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import flops  # noqa: E402
import rows  # noqa: E402

RECORD_VERSION = 1

# Flags that libtpu 0.0.51 refuses, by name and generations, with what it says.
_REFUSED: list[tuple[str, tuple[str, ...] | None, str]] = [
    (r"xla_tpu_enable_async_collective_fusion", ("v5p", "v6e", "tpu7x", "v4"), "continuation fusion is for v5e only"),
    (r"2a886c8_chip_config_name|xla_sc_disjoint_spmem", None, "no such compile option"),
    (r"xla_tpu_impure_(use_lmr_on_gxc|enable_packed_bf16_math_ops)", None, "no such compile option"),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--only", nargs="+", default=None, metavar="ID")
    parser.add_argument("--list", action="store_true", help="read the rows and print what they are; write nothing")
    arguments = parser.parse_args()
    table = [row for row in json.loads(arguments.file.read_text())["rows"] if row.get("kind") == "train"]
    if arguments.only:
        missing = set(arguments.only) - {row["id"] for row in table}
        if missing:
            print(f"error: no training row {', '.join(sorted(missing))}", file=sys.stderr)
            return 2
        table = [row for row in table if row["id"] in arguments.only]
    arguments.outdir.mkdir(parents=True, exist_ok=True)
    failed = 0
    for row in table:
        try:
            run = rows.read(row)
            if arguments.list:
                print(_line(run))
                continue
            started = time.monotonic()
            write(run, arguments.outdir)
            print(f"{row['id']}: written in {time.monotonic() - started:.0f} s", file=sys.stderr)
        except rows.Unreadable as error:
            failed += 1
            print(f"{row['id']}: not readable: {error}", file=sys.stderr)
        except Exception:  # one row must not keep the others from being written
            failed += 1
            print(f"{row['id']}: cannot be written: {_briefly()}", file=sys.stderr)
    return 1 if failed else 0


def file_name(row_id: str) -> str:
    """A row's id as a file name."""
    return re.sub(r"[^\w.+-]+", "_", row_id)


def write(run: rows.Run, outdir: Path) -> None:
    """Writes the program and the record of a run."""
    import program
    import slices

    lowered = program.lower(run, slices.topology_devices(run.slice))
    stem = file_name(run.id)
    _replace(outdir / f"{stem}.mlir.bc", portable(lowered.lowered))
    _replace(outdir / f"{stem}.json", (json.dumps(record(run, lowered), indent=1) + "\n").encode())


def portable(lowered: Any) -> bytes:
    """The module as portable bytecode, which readers of other versions accept."""
    from jax._src.lib import _jax
    from jax._src.lib.mlir.dialects import hlo

    requirement = hlo.StablehloCompatibilityRequirement.WEEK_4
    version = hlo.get_version_from_compatibility_requirement(requirement)
    with_sdy = True
    return _jax.mlir.serialize_portable_artifact(lowered.compiler_ir("stablehlo"), version, with_sdy)


def record(run: rows.Run, lowered: Any) -> dict[str, Any]:
    """What belongs to the program: how to compile it, what was measured, what differs from the published run."""
    used, dropped = compiler_flags(run)
    counted = flops.step_flops(run.model, run.sequences_per_chip, run.seq, lowered.parameters)
    check = identity(run, counted)
    return {
        "version": RECORD_VERSION,
        "id": run.id,
        "program": f"{file_name(run.id)}.mlir.bc",
        "slice": run.slice.name,
        "num_slices": run.slice.num_slices,
        "chips": run.slice.chips,
        "devices": run.slice.devices,
        "device_ids": lowered.device_ids,
        "mesh": run.mesh,
        "mesh_in_slice": run.ici,
        "mesh_between_slices": run.dcn,
        "flags": used,
        "flags_dropped": dropped,
        "tokens_per_device": run.tokens_per_device,
        "tokens_per_step": run.sequences * run.seq,
        "model": run.model_name,
        "parameters": lowered.parameters,
        "model_flops_per_chip": check["model_flops_per_chip"],
        "flops_convention": check["convention"],
        "flops_identity_error": check["error"],
        "measured": {
            key: run.row[key]
            for key in ("step_s", "tflops_per_chip", "tokens_per_s_per_chip", "mfu", "pairing")
            if run.row.get(key) is not None
        },
        "measured_step_s": check["step_s"],
        "remat": {"policy": run.remat.policy, "save": run.remat.save, "offload": run.remat.offload},
        "quantization": run.quantization,
        "recipe": run.recipe,
        "run": {
            "model": run.model,
            "sequences": run.sequences,
            "sequence": run.seq,
            "mesh_in_slice": run.ici,
            "mesh_between_slices": run.dcn,
            "save": run.remat.save,
            "offload": run.remat.offload,
            "quantization": run.quantization,
            "calibration": run.setting("weight_quantization_calibration_method"),
            "weight_dtype": run.setting("weight_dtype"),
            "capacity_factor": run.setting("capacity_factor"),
        },
        "approximations": approximations(run, check),
    }


def identity(run: rows.Run, counted: flops.StepFlops) -> dict[str, Any]:
    """Compares model FLOPs with the published rate; the step time comes from the row, else from the rate."""
    rate = run.row.get("tflops_per_chip")
    step = run.row.get("step_s")
    tokens = run.row.get("tokens_per_s_per_chip")
    text = str(run.row.get("flops_convention") or "").lower()
    said = "full" if re.search(r"not halved|non-causal", text) else "causal" if "halved" in text else None
    # Tokens per second are published with more digits than the step time.
    seconds = run.sequences_per_chip * run.seq / tokens if tokens else step
    if rate and seconds:
        convention = counted.nearest(rate * 1e12 * seconds)
        error = counted.total(convention) / (rate * 1e12 * seconds) - 1
    else:
        convention, error = said or "causal", None
    total = counted.total(convention)
    return {
        "convention": convention,
        "said": said,
        "model_flops_per_chip": total,
        "error": error,
        "step_s": step or seconds or (total / (rate * 1e12) if rate else None),
    }


def compiler_flags(run: rows.Run) -> tuple[dict[str, Any], dict[str, str]]:
    """The recipe's compiler flags that libtpu still takes, and why it does not take the others."""
    used: dict[str, Any] = {}
    dropped: dict[str, str] = {}
    for name, value in run.flags.items():
        why = [
            reason
            for pattern, where, reason in _REFUSED
            if re.match(pattern, name) and (where is None or run.row["tpu"] in where) and (where is None or value is not False)
        ]
        if why:
            dropped[name] = why[0]
        else:
            used[name] = value
    return used, dropped


def approximations(run: rows.Run, check: dict[str, Any]) -> list[str]:
    """How the program differs from what the published run compiled."""
    family, out = run.model["family"], list(run.approximations)
    out.append("our own JAX program, not MaxText's: same shapes, shardings, kernels and policies, other code")
    out.append("compiled by libtpu 0.0.51, not by the compiler of the measurement's date")
    if run.setting("use_tokamax_splash"):
        out.append("JAX's splash attention instead of tokamax's, with the recipe's block sizes")
    if run.setting("use_tokamax_gmm") and run.model.get("experts"):
        out.append("JAX's megablox grouped matmul instead of tokamax's")
    if family == "parallel2023" and run.row.get("attention") in (None, "?"):
        out.append("the row does not say which attention was used: dot-product attention")
    if run.model.get("experts") and run.setting("sparse_matmul") and run.mesh["expert"] > 1:
        out.append("experts' weights are gathered over the expert axis, where the run moved tokens")
    if run.quantization == "int8":
        out.append("int8 matmuls round to nearest in the backward pass, where AQT rounds stochastically")
    if run.quantization == "fp8":
        out.append("float8 by our own rule (one scale per tensor, e4m3 forward, e5m2 gradients), not Qwix")
    if family in ("gemma4", "gemma4_small"):
        out.append("blocks of local layers and a global one are scanned, not unrolled")
    if any(run.setting(name) for name in ("moe_fsdp_use_two_stage_all_gather", "dense_fsdp_use_two_stage_all_gather")):
        out.append("weights are gathered in one stage, not two")
    if run.recipe is None:
        out.append("no recipe known: block sizes, precision of the optimizer and compiler flags are the defaults")
    if check["said"] == "full" and check["convention"] != "full" or check["said"] == "causal" and check["convention"] == "full":
        out.append(f"the row's FLOP convention is {check['said']}, its figures fit {check['convention']}")
    return out


def _briefly() -> str:
    """The error being handled, with the innermost line of ours; all of it where TRACE is set."""
    if os.environ.get("TRACE"):
        return traceback.format_exc()
    _, error, trace = sys.exc_info()
    ours = [f for f in traceback.extract_tb(trace) if Path(f.filename).parent == Path(__file__).parent][-1]
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} ({Path(ours.filename).name}:{ours.lineno})"


def _line(run: rows.Run) -> str:
    mesh = " x ".join(f"{axis}{size}" for axis, size in run.mesh.items() if size > 1)
    return f"{run.id}: {run.model_name} on {run.slice.name}, {run.sequences} x {run.seq}, {mesh}, {run.remat.policy}"


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".partial")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


if __name__ == "__main__":
    sys.exit(main())
