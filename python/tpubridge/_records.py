"""What the command's records say, as frozen objects: names, types and units are those of `--json`."""

from __future__ import annotations

import dataclasses
import functools
import html as _html
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Answer:
    """What every answer of the command has: the record whole, and how it is shown."""

    #: The record as the command printed it.
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False, kw_only=True)
    _tables: str = field(default="", repr=False, compare=False, kw_only=True)
    _html: str | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        return self._tables.rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        if self._html is None:
            return f"<pre>{_html.escape(str(self))}</pre>"
        # A page of its own, which no style of the notebook reaches and which reaches nothing itself.
        page = _html.escape(self._html, quote=True)
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="100%" height="640" style="border:0"></iframe>'

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML report, or the tables as a page where the command has no report."""
        page = self._html or f"<!doctype html><meta charset=utf-8><pre>{_html.escape(str(self))}</pre>"
        Path(path).write_text(page, encoding="utf-8")


# --- fit -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Whether it fits, by the compiler's own word."""

    fits: bool
    space: str
    needed_bytes: int | None
    limit_bytes: int | None
    operation: str | None
    message: str | None


@dataclass(frozen=True)
class ClassBytes:
    """Bytes of one class of buffers: parameters, optimizer state, activations and so on."""

    class_: str
    bytes: int
    padding_bytes: int
    buffers: int


@dataclass(frozen=True)
class Held:
    """A buffer that fills memory."""

    name: str
    class_: str
    argument: int | None
    shape: str
    bytes: int
    logical_bytes: int
    source: str
    location: str | None


@dataclass(frozen=True)
class Peak:
    """The fullest moment of a step."""

    instruction: str
    computation: str
    source: str
    location: str | None
    temporary_bytes: int
    alive: tuple[Held, ...]


@dataclass(frozen=True)
class Vmem:
    """Memory near the core."""

    used_bytes: int
    capacity_bytes: int


@dataclass(frozen=True)
class Memory:
    """What fills the HBM of one device."""

    limit_bytes: int
    total_bytes: int
    headroom_bytes: int
    classes: tuple[ClassBytes, ...]
    padding_bytes: int
    aliased_bytes: int
    code_bytes: int | None
    host_bytes: int
    vmem: Vmem | None
    peak: Peak | None
    largest: tuple[Held, ...]

    def class_bytes(self, name: str) -> int:
        """Bytes of a class, such as `parameters` or `activations`."""
        return sum(row.bytes for row in self.classes if row.class_ == name)


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step: the best single figure, and the range."""

    seconds: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class Share:
    """Seconds of a step that one thing limits."""

    bound: str
    seconds: float
    share: float


@dataclass(frozen=True)
class Transfer:
    """Transfers beside the core, and how long it waits for them."""

    lane: str
    seconds: float
    exposed_s: float


@dataclass(frozen=True)
class OpTime:
    """One instruction in a step."""

    name: str
    opcode: str
    shape: str
    source: str
    executions: float
    seconds: float
    bound: str
    flops: float
    hbm_bytes: float


@dataclass(frozen=True)
class Estimate:
    """How long a step takes, and where the time goes."""

    slice: str
    devices: int
    step: StepTime
    shares: tuple[Share, ...]
    transfers: tuple[Transfer, ...]
    flops: float
    hfu: float
    mfu: float | None
    tokens_per_s: float | None
    ops: tuple[OpTime, ...]
    sources: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CostTerms:
    """Dollars under one set of terms, such as `on demand`."""

    name: str
    region: str
    date: str
    usd_per_chip_hour: float
    usd_per_hour: float
    usd_per_step: float
    usd_per_million_tokens: float | None
    usd_per_run: float | None


@dataclass(frozen=True)
class Cost:
    """What a step and a run cost."""

    chips: int
    steps: float | None
    hours: float | None
    terms: tuple[CostTerms, ...]
    note: str | None


@dataclass(frozen=True)
class Advice:
    """What would make a program faster or smaller."""

    kind: str
    title: str
    remedy: str
    gain_s: float
    gain_bytes: int
    places: tuple[str, ...]
    can_apply: bool
    verified: bool


@dataclass(frozen=True, repr=False)
class Fit(_Answer):
    """Does a program fit a slice, what fills it, how long is a step, what does it cost."""

    module: str
    slice: str
    devices: int
    partitions: int
    replicas: int
    mode: str
    plugin: str
    cached: bool
    verdict: Verdict
    memory: Memory | None
    estimate: Estimate | None
    cost: Cost | None
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether it fits."""
        return self.verdict.fits

    @property
    def step_s(self) -> float | None:
        """Estimated seconds of a step."""
        return None if self.estimate is None else self.estimate.step.seconds


# --- explain -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RooflineOp:
    """An operation under the machine's roof."""

    name: str
    source: str
    seconds: float
    intensity: float | None
    flops_per_s: float
    share_of_roof: float
    bound: str


@dataclass(frozen=True)
class Roofline:
    """A program under the machine's roof."""

    intensity: float
    machine_intensity: float
    compute_bound_batch: Mapping[str, int | None]
    peak_flops_per_s: float
    hbm_bytes_per_s: float
    reached_flops_per_s: float
    ops: tuple[RooflineOp, ...]


@dataclass(frozen=True)
class Fix:
    """A change that was tried with the compiler to make a program fit."""

    kind: str
    title: str
    detail: str
    fits: bool
    slice: str
    hbm_bytes: int | None
    limit_bytes: int | None
    step_s: float | None
    options: tuple[str, ...]
    changes_program: bool


@dataclass(frozen=True, repr=False)
class Explanation(_Answer):
    """Why a program does not fit or is slow, and what to change."""

    fit: Fit
    roofline: Roofline | None
    fixes: tuple[Fix, ...]

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What would make it faster, most first."""
        return self.fit.advice


# --- plan ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a plan takes for all tokens of the goal, or for a million of them."""

    seconds: float
    usd: float | None


@dataclass(frozen=True)
class PlannedStep:
    """A slice, a mesh and a batch that the compiler accepts, with what they take."""

    slice: str
    chips: int
    sharding: Any
    batch: int
    tokens_per_step: float
    precision: str
    flags: str
    windowed_einsum: Any
    confidence: str
    step: StepTime
    rough_step_s: float
    mfu: float
    hfu: float
    tokens_per_s: float
    tokens_per_s_per_chip: float
    hbm_bytes: int
    hbm_limit_bytes: int
    usd_per_chip_hour: float | None
    outcome: Outcome
    is_met: bool
    is_on_frontier: bool
    remat: Any = None
    types: Any = None


@dataclass(frozen=True)
class Refused:
    """A candidate that does not fit or does not compile."""

    candidate: str
    why: str


@dataclass(frozen=True, repr=False)
class Plan(_Answer):
    """Where to run a program: plans, the best first."""

    is_met: bool
    shortfall: tuple[str, ...]
    recommended: PlannedStep | None
    next: str | None
    goal: Mapping[str, float | None]
    facts: Mapping[str, Any]
    considered: int
    compiled: int
    plans: tuple[PlannedStep, ...]
    loads: tuple[Mapping[str, Any], ...]
    refused: tuple[Refused, ...]
    wall_s: float
    notes: tuple[str, ...]


# --- compile -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one device, in bytes, as the compiler says."""

    limit: int
    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    constants: int | None
    code: int | None
    peak: int | None
    total: int
    host_temporaries: int | None


@dataclass(frozen=True)
class Collective:
    """One kind of collective over a step."""

    kind: str
    instructions: int
    executions: int
    bytes: int
    group_size: int


@dataclass(frozen=True)
class BufferBytes:
    """A large buffer."""

    instruction: str
    shape: str
    bytes: int
    source: str | None


@dataclass(frozen=True)
class Report:
    """What the compiler says of a program."""

    module: str
    slice: str
    topology: str
    devices: int
    replicas: int
    partitions: int
    mode: str
    plugin: str
    memory: DeviceMemory
    dot_flops: float | None
    compiler_flops: float | None
    bytes_accessed: float | None
    collectives: tuple[Collective, ...]
    largest_buffers: tuple[BufferBytes, ...]
    executable_bytes: int | None
    fingerprint: str | None
    compile_seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class OutOfMemory:
    """Which memory is too small."""

    space: str
    needed_bytes: int | None
    available_bytes: int | None
    message: str


@dataclass(frozen=True, repr=False)
class Compilation(_Answer):
    """A program compiled for a slice, or why it does not fit."""

    fits: bool
    cached: bool = False
    key: str | None = None
    wall_seconds: float | None = None
    headroom_bytes: int | None = None
    miss: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    report: Report | None = None
    slice: str | None = None
    out_of_memory: OutOfMemory | None = None


# --- run -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What a result looks like."""

    name: str
    shape: str
    least: float | None
    greatest: float | None
    mean: float | None
    not_finite: int
    first: tuple[float | None, ...]


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, over many."""

    runs: int
    median_seconds: float
    p10_seconds: float
    p90_seconds: float
    flops: float | None
    flops_per_second: float | None
    bytes: float | None
    bytes_per_second: float | None
    fraction_of_peak: float | None


@dataclass(frozen=True, repr=False)
class Run(_Answer):
    """What a program computed, and on what."""

    device: str
    platform: str
    chosen: str
    compile_seconds: float
    results: tuple[Result, ...]
    comparison: Mapping[str, Any] | None = None
    bench: Timing | None = None
    #: The results as NumPy arrays, by name.
    outputs: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def agrees(self) -> bool | None:
        """Whether the results are the expected ones; `None` where none were expected."""
        return None if self.comparison is None else bool(self.comparison["agrees"])


# --- chips ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generation:
    """A generation of TPUs, for one chip."""

    name: str
    devices_per_chip: int
    bf16_tflops: float
    int8_tops: float | None
    fp8_tflops: float | None
    hbm_bytes_per_chip: int
    usable_hbm_bytes_per_device: int
    hbm_gb_per_s: float
    vmem_bytes_per_core: int
    pod_chips: int
    #: The smallest batch, in tokens, at which a matmul with bf16 weights from HBM is compute bound.
    compute_bound_batch: int
    #: Everything with its sources.
    record: Mapping[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def _of(record: Mapping[str, Any]) -> Generation:
        cores, rates, memory, network = (record[part] for part in ("cores", "rates", "memory", "network"))
        return Generation(
            name=record["generation"],
            devices_per_chip=cores["devices_per_chip"]["value"],
            bf16_tflops=rates["bf16_tflops"]["value"],
            int8_tops=rates["int8_tops"]["value"],
            fp8_tflops=rates["fp8_tflops"]["value"],
            hbm_bytes_per_chip=memory["hbm_bytes_per_chip"]["value"],
            usable_hbm_bytes_per_device=memory["usable_hbm_bytes_per_device"]["value"],
            hbm_gb_per_s=memory["hbm_gb_per_s"]["value"],
            vmem_bytes_per_core=memory["vmem_bytes_per_core"]["value"],
            pod_chips=network["pod_chips"]["value"],
            compute_bound_batch=record["compute_bound_batch"]["bf16"],
            record=record,
        )


@dataclass(frozen=True)
class Slice:
    """A slice of a generation."""

    name: str
    generation: str
    topology: str
    num_slices: int
    chips: int
    cores: int
    devices: int
    hosts: int
    usable_hbm_bytes_per_device: int
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class Chips(_Answer):
    """Generations, and slices where one was asked for."""

    generations: tuple[Generation, ...] = ()
    slices: tuple[Slice, ...] = ()

    @property
    def slice(self) -> Slice:
        """The slice that was asked for."""
        if len(self.slices) != 1:
            raise ValueError("no single slice was asked for, as in chips('v6e-16')")
        return self.slices[0]


# --- decoding ------------------------------------------------------------------------------------------------------------


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def decode(kind: type[_T], record: Mapping[str, Any], /, **more: Any) -> _T:
    """A dataclass from an object of the same fields. Fields that only the object has are in `record` of the whole answer."""
    given = dict(more)
    for name, hint in _fields(typing.cast(Any, kind)).items():
        # `class` is a word of Python's.
        key = name.removesuffix("_")
        if name in given or name.startswith("_") or key not in record:
            continue
        given[name] = _value(hint, record[key])
    return kind(**given)


def _value(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [each for each in arguments if each is not type(None)]
        return None if value is None else _value(inner[0], value)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_value(arguments[0], each) for each in value)
        return tuple(_value(each, part) for each, part in zip(arguments, value, strict=True))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        extra = {"record": value} if "record" in _fields(hint) else {}
        return decode(hint, value, **extra)
    return float(value) if hint is float and isinstance(value, int) else value
