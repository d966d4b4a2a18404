"""The functions of the package: each runs one command of `tpu`."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from . import _bundle, _inputs
from ._command import TpuError, ask
from ._programs import Program, is_torch, staged
from ._records import Chips, Compilation, Explanation, Fit, Generation, Plan, Run, Slice, decode

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CompilerOptions(TypedDict, total=False):
    """Options of the compiler, as `tpu compile --help` explains them."""

    partitions: int
    replicas: int
    devices: Sequence[int]
    partitioner: str
    optimization_level: str
    memory_fitting_level: str
    flags: Mapping[str, object]
    compilation_timeout_seconds: float
    memory_limit: float
    no_cache: bool
    refresh: bool
    plugin: str | os.PathLike[str]
    cache_dir: str | os.PathLike[str]


class StepOptions(CompilerOptions, total=False):
    """Options of `fit` and `explain`, as `tpu fit --help` explains them."""

    full: bool
    batch: int
    tokens: float | str
    model_flops: float | str
    steps: float | str
    total_tokens: float | str
    region: str
    price: float | str


class PlanOptions(TypedDict, total=False):
    """Options of `plan`, as `tpu plan --help` explains them."""

    sequence_length: int
    step: str
    precision: Sequence[str]
    weights: Sequence[str]
    kv_cache: Sequence[str]
    tokens: float | str
    deadline: str
    budget: float | str
    slices: Sequence[str]
    generations: Sequence[str]
    batch: str
    batch_size: Sequence[int]
    price: str
    region: str
    compiles: int
    time: str
    jobs: int
    confirm: bool
    out: str | os.PathLike[str]
    job: str | os.PathLike[str]
    flags: Mapping[str, object]
    plugin: str | os.PathLike[str]
    cache_dir: str | os.PathLike[str]


#: Options that the command takes once for each value; others take their values with commas between them.
_REPEATED = {"flags": "--flag"}


def _arguments(options: Mapping[str, Any], known: type) -> list[str]:
    """Options as the command takes them; one that it does not have is a `TypeError` with those that are meant."""
    line: list[str] = []
    names = _names(known)
    for name, value in options.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=2)
            raise TypeError(f"there is no option {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(option)
        elif name in _REPEATED:
            line += [each for key, to in value.items() for each in (_REPEATED[name], f"{key}={_text(to)}")]
        elif isinstance(value, (list, tuple)):
            line.append(f"{option}={','.join(map(_text, value))}")
        else:
            line.append(f"{option}={_text(value)}")
    return line


def _names(known: type) -> list[str]:
    return [name for kind in known.__mro__ for name in vars(kind).get("__annotations__", {})] or list(known.__annotations__)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def fit(program: Program, example_inputs: Any = None, *, slice: str, **options: Unpack[StepOptions]) -> Fit:
    """Does a program fit a slice, what fills it, how long is a step, what does it cost. No TPU is needed.

    `program` is anything of `tpubridge.Program`; a function or a `torch.nn.Module` needs `example_inputs`, a tuple of its arguments.
    Raises `TpuError` where the compiler refuses the program for another reason than its size.
    """
    line = _arguments(options, StepOptions)
    with staged(program, example_inputs) as path:
        answer = ask(["fit", path, f"--slice={slice}", *line], doing="fit", html=True)
    return decode(Fit, answer.record, record=answer.record, _tables=answer.tables, _html=answer.html)


def explain(
    program: Program,
    example_inputs: Any = None,
    *,
    slice: str,
    trials: bool = True,
    top: int = 8,
    apply: str | os.PathLike[str] | None = None,
    **options: Unpack[StepOptions],
) -> Explanation:
    """Why a program does not fit or is slow, and what to change.

    Without `trials` nothing but the program itself is compiled. `apply` is a file for the program with the first change applied.
    """
    line = _arguments(options, StepOptions) + [f"--top={top}"]
    line += [] if trials else ["--no-trials"]
    line += [f"--apply={os.fspath(apply)}"] if apply is not None else []
    with staged(program, example_inputs) as path:
        answer = ask(["explain", path, f"--slice={slice}", *line], doing="explain", html=True)
    inner = decode(Fit, answer.record["fit"], record=answer.record["fit"], _tables=answer.tables, _html=answer.html)
    return decode(Explanation, answer.record, fit=inner, record=answer.record, _tables=answer.tables, _html=answer.html)


def plan(program: Program, example_inputs: Any = None, **options: Unpack[PlanOptions]) -> Plan:
    """Which slice, mesh, sharding and batch, for a deadline and a budget.

    Beside programs this takes the path of a training file (TOML) or of the `config.json` of a Hugging Face model.
    """
    line = _arguments(options, PlanOptions)
    with staged(program, example_inputs) as path:
        answer = ask(["plan", path, *line], doing="plan")
    return decode(Plan, answer.record, record=answer.record, _tables=answer.tables)


def compile(
    program: Program,
    example_inputs: Any = None,
    *,
    slice: str,
    out: str | os.PathLike[str] | None = None,
    quick: bool = False,
    **options: Unpack[CompilerOptions],
) -> Compilation:
    """Compiles for a slice with the real TPU compiler.

    `out` gets the executable: of a program of JAX a bundle that `load` reads on a machine with the TPU, of others what the compiler wrote.
    """
    line = _arguments(options, CompilerOptions) + (["--quick"] if quick else [])
    signature = _bundle.signature(program, example_inputs) if out is not None else None
    with tempfile.TemporaryDirectory(prefix="tpubridge-") as folder, staged(program, example_inputs) as path:
        executable = Path(folder, "executable")
        line += [f"--out={executable}"] if out is not None else []
        answer = ask(["compile", path, f"--slice={slice}", *line], doing="compile")
        compiled = decode(Compilation, answer.record, record=answer.record, _tables=answer.tables)
        if out is not None and executable.exists():
            target = {"slice": slice, "plugin": compiled.report.plugin if compiled.report else "", "key": compiled.key}
            _bundle.write(Path(out), executable.read_bytes(), signature, target)
    return compiled


def run(
    program: Program,
    inputs: Any = None,
    *,
    device: str | None = None,
    expect: Any = None,
    tolerance: float | None = None,
    bench: bool = False,
    seconds: float = 2.0,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
) -> Run:
    """Runs a program on the best device there is, or on `device`: `cpu`, `cuda`, `tpu`, or a plugin's path.

    `inputs` are its arguments: a tuple in order, a mapping by name, or the path of an `.npz`, `.npy` or `.safetensors` file; without
    them they are made up from `seed`. `expect` has the results that are expected, in the same forms. Needs NumPy.
    """
    numpy = _inputs.numpy()
    with tempfile.TemporaryDirectory(prefix="tpubridge-") as name:
        folder = Path(name)
        out = folder / "outputs.npz"
        line = [f"--out={out}", f"--seed={seed}"]
        line += [f"--device={device}"] if device is not None else []
        line += [f"--tolerance={tolerance}"] if tolerance is not None else []
        line += ["--bench", f"--seconds={seconds}"] if bench else []
        line += [each for key, value in (settings or {}).items() for each in ("--set", f"{key}={_text(value)}")]
        arguments = None if _inputs.is_path(inputs) else inputs
        with staged(program, arguments) as path:
            if inputs is not None:
                by_name = _inputs.names(program, inputs) if is_torch(program) else None
                line.append(f"--inputs={_inputs.file(inputs, folder / 'inputs.npz', by_name)}")
            if expect is not None:
                line.append(f"--expect={_inputs.file(expect, folder / 'expected.npz', None)}")
            answer = ask(["run", path, *line], doing="run")
        outputs: dict[str, Any] = {}
        if out.exists():
            with numpy.load(out) as arrays:
                outputs = {each: arrays[each] for each in arrays.files}
    return decode(Run, answer.record, outputs=outputs, record=answer.record, _tables=answer.tables)


def chips(name: str | None = None, *, slices: bool = False) -> Chips:
    """Generations of TPUs; one of them, with its slices if asked for; or one slice.

    >>> import tpubridge as tb
    >>> v5e = tb.chips("v5e").generations[0]
    >>> v5e.bf16_tflops, v5e.hbm_bytes_per_chip // 2**30
    (197.0, 16)
    >>> [each.name for each in tb.chips("v5e", slices=True).slices][:3]
    ['v5litepod-1', 'v5litepod-4', 'v5litepod-8']
    """
    line = ["chips"] + ([name] if name else []) + (["--slices"] if slices else [])
    answer = ask(line, doing="chips")
    record = answer.record
    if "gpu" in record:
        raise TpuError(f"{name} is a GPU", "`tpu chips compare` sets it against TPUs")
    generations = record.get("generations") or ([record["generation"]] if "generation" in record else [])
    listed = record.get("slices") or ([record["slice"]] if "slice" in record else [])
    return Chips(
        generations=tuple(Generation._of(each) for each in generations),
        slices=tuple(decode(Slice, each, record=each) for each in listed),
        record=record,
        _tables=answer.tables,
    )
