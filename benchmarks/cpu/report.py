"""Tables of the CPU benchmark, from the record that `run.py` gathers. Ratios are speeds: above 1, ours is faster."""

import math
import os
import pathlib
import re
import shlex
from typing import Any

MEASURED = ("median_seconds", "least_seconds", "samples", "compile_seconds", "wrong")
TITLES = {"xla": "XLA:CPU", "ours": "ours", "before": "before", "torch": "torch", "torch_compile": "torch.compile"}
GOAL_MEAN, GOAL_LEAST = 1.5, 0.95


def machine() -> str:
    """The CPU, how much of it there is, and memory."""
    facts = pathlib.Path("/proc/cpuinfo").read_text()

    def fact(name: str) -> str:
        match = re.search(rf"^{name}\s*: (.*)$", facts, re.MULTILINE)
        return match[1] if match else "unknown"

    flags = set(fact("flags").split())
    known = [name for name in ["avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"] if name in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{fact('model name')} (model {fact('model')}; {', '.join(known)}), {os.cpu_count()} vCPUs, {memory:.0f} GiB"


def command(argv: list[str]) -> str:
    """The command line, without folders of this machine."""
    words = [pathlib.Path(word).name if os.sep in word else word for word in argv[1:]]
    words = [re.sub(r"^(--plugin=).*/", r"\1", word) for word in words]
    return shlex.join(["benchmarks/cpu/run.py", *words])


def in_threads(threads: str) -> str:
    """A number of threads in words."""
    return f"{threads} thread{'' if threads == '1' else 's'}"


def geometric_mean(values: list[float]) -> float | None:
    """Nothing for no values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def time_text(seconds: float) -> str:
    """Milliseconds with three digits."""
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def cell(measured: dict[str, Any] | None) -> str:
    """Median and, in brackets, the fastest."""
    if measured is None:
        return ""
    if "failed" in measured:
        return "failed"
    text = f"{time_text(measured['median_seconds'])} ({time_text(measured['least_seconds'])})"
    return text + " wrong" if measured["wrong"] else text


def progress(entry: str, row: dict[str, Any]) -> str:
    """One line for the terminal."""
    return f"{entry:24}" + "  ".join(f"{TITLES[name]} {cell(measured)}" for name, measured in row.items())


def memory_progress(entry: str, row: dict[str, Any]) -> str:
    """One line for the terminal."""
    return f"{entry:24}" + "  ".join(f"{TITLES[name]} {memory_cell(measured)}" for name, measured in row.items())


def usable(measured: dict[str, Any] | None) -> bool:
    """Whether a time may be compared: there is one, and its result is right."""
    return measured is not None and "failed" not in measured and not measured["wrong"]


def speed(row: dict[str, Any], faster: str, peers: list[str], key: str) -> float | None:
    """Time of the best peer over the time of `faster`."""
    times = [row[peer][key] for peer in peers if usable(row.get(peer))]
    return min(times) / row[faster][key] if times and usable(row.get(faster)) else None


def ratio_text(ratio: float | None) -> str:
    """Two digits behind the point, or two that say something."""
    return "" if ratio is None else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def ratio_cell(row: dict[str, Any], faster: str, peers: list[str]) -> str:
    """Ratio of medians and, in brackets, of the fastest."""
    median, least = (ratio_text(speed(row, faster, peers, key)) for key in ("median_seconds", "least_seconds"))
    return f"{median} ({least})" if median else ""


# (title, the engine whose speed it is, the peers of which the best counts)
COMPARISONS = [
    ("ours / XLA", "ours", ["xla"]),
    ("ours / best torch", "ours", ["torch", "torch_compile"]),
    ("XLA / best torch", "xla", ["torch", "torch_compile"]),
]


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """An aligned Markdown table."""
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(text.ljust(width) for text, width in zip(cells, widths)) + " |"

    return [line(header), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)]


def times(found: dict[str, Any], threads: str) -> list[str]:
    """Times and ratios with one number of threads, then their means."""
    rows, engines = found["threads"][threads], found["engines"]
    comparisons = [entry for entry in COMPARISONS if entry[1] in engines and set(entry[2]) & set(engines)]
    if "ours" in engines:
        comparisons = [entry for entry in comparisons if entry[1] == "ours"]
    lines, summary = [], []
    for entry, row in rows.items():
        ratios = (ratio_cell(row, name, peers) for _, name, peers in comparisons)
        lines.append([entry, *(cell(row.get(name)) for name in engines), *ratios])
    for title, name, peers in comparisons:
        ratios = {entry: speed(row, name, peers, "median_seconds") for entry, row in rows.items()}
        ratios = {entry: value for entry, value in ratios.items() if value is not None}
        fastest = [speed(row, name, peers, "least_seconds") for row in rows.values()]
        fastest = [value for value in fastest if value is not None]
        if not ratios:
            summary.append(f"- {title}: no entry ran on both.")
            continue
        least = min(ratios, key=ratios.__getitem__)
        goals = name == "ours" and peers == ["xla"]
        summary.append(
            f"- {title}: geometric mean {ratio_text(geometric_mean(list(ratios.values())))} of medians, "
            f"{ratio_text(geometric_mean(fastest))} of the fastest{f' (goal {GOAL_MEAN})' if goals else ''}; "
            f"least {ratio_text(ratios[least])}, {least}"
            f"{f' (goal {GOAL_LEAST})' if goals else ''}; {len(ratios)} of {len(rows)} entries."
        )
    header = ["entry", *(f"{TITLES[name]} ms" for name in engines), *(title for title, _, _ in comparisons)]
    return [f"## {in_threads(threads)}", "", *table(header, lines), "", *summary, ""]


def compile_times(found: dict[str, Any]) -> list[str]:
    """Time of `lowered.compile()` on both platforms of JAX."""
    threads = max(found["threads"], key=int)
    platforms = [name for name in ("xla", "ours") if name in found["engines"]]
    if not platforms:
        return []
    lines, ratios = [], []
    for entry, row in found["threads"][threads].items():
        values = {}
        for name in platforms:
            seconds = sorted(row.get(name, {}).get("compile_seconds") or [])
            if seconds:
                values[name] = seconds[len(seconds) // 2]
        both = len(values) == 2
        if both:
            ratios.append(values["xla"] / values["ours"])
        cells = [time_text(values[name]) if name in values else "" for name in platforms]
        lines.append([entry, *cells, *([f"{ratios[-1]:.1f}" if both else ""] * (len(platforms) == 2))])
    mean = geometric_mean(ratios)
    return [
        f"## Compile time, {in_threads(threads)}, caches off",
        "",
        *table(["entry", *(f"{TITLES[name]} ms" for name in platforms), *["ours / XLA"] * (len(platforms) == 2)], lines),
        "",
        *([f"- ours / XLA: geometric mean {mean:.1f}, least {min(ratios):.1f}.", ""] if mean is not None else []),
    ]


def memory_cell(measured: dict[str, Any] | None) -> str:
    """Mebibytes; in brackets what the device itself counted."""
    if measured is None:
        return ""
    if "failed" in measured:
        return "failed"
    text = f"{measured['peak_bytes'] / 2**20:.0f}"
    device = measured["device_peak_bytes"]
    return text if device is None else f"{text} ({device / 2**20:.0f})"


def memory(found: dict[str, Any]) -> list[str]:
    """Peak memory of the models."""
    rows = {entry: row for entry, row in found["memory"].items() if row}
    if not rows:
        return []
    engines = [name for name in found["engines"] if name != "torch_compile"]
    lines = []
    for entry, row in rows.items():
        pair = [row.get(name, {}).get("peak_bytes") for name in ("xla", "ours")]
        share = f"{pair[1] / pair[0]:.2f}" if all(pair) else ""
        lines.append([entry, *(memory_cell(row.get(name)) for name in engines), share])
    return [
        "## Peak memory of the models",
        "",
        *table(["entry", *(f"{TITLES[name]} MiB" for name in engines), "ours : XLA"], lines),
        "",
        "Growth of the process's resident high-water mark (`VmHWM`) in three calls, over what was resident with the arguments "
        "placed and the program compiled; one process for each cell. In brackets the growth that the device's own memory statistics show, "
        "where it keeps them. torch trains in place; the JAX functions return new parameters.",
        "",
    ]


def failures(found: dict[str, Any]) -> list[str]:
    """What failed or was wrong, with the reason."""
    lines = [f"- {engine} did not run: {reason}" for engine, reason in found["unavailable"].items()]
    for threads, rows in found["threads"].items():
        for entry, row in rows.items():
            for name, measured in row.items():
                reason = measured.get("failed") or measured.get("wrong")
                if reason:
                    lines.append(f"- {entry}, {TITLES[name]}, {in_threads(threads)}: {reason}")
    for entry, row in found["memory"].items():
        for name, measured in row.items():
            reason = measured.get("failed")
            if reason and "failed" not in found["threads"][max(found["threads"], key=int)][entry].get(name, {}):
                lines.append(f"- memory of {entry}, {TITLES[name]}: {reason}")
    return ["## Not counted", "", *lines, ""] if lines else []


def markdown(found: dict[str, Any]) -> str:
    """The whole report."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    ours = found["engine_versions"].get("ours")
    lines = [
        "# The CPU device against XLA:CPU and torch",
        "",
        f"Machine: {found['machine']}. Date: {found['date']}.",
        f"Versions: {versions}{f', plugin: {ours}' if ours else ''}.",
        f"Command: `{found['command']}` ({found['seconds'] / 60:.1f} minutes).",
        "",
        "Times are milliseconds per call with waiting for the result, dispatch included: the median of the samples, the fastest in "
        "brackets. Ratios are speeds, above 1 the first named is faster: of medians, of the fastest in brackets. All engines take "
        "turns in one process that is pinned to as many cores as it has threads.",
        "",
    ]
    for threads in found["threads"]:
        lines += times(found, threads)
    return "\n".join([*lines, *compile_times(found), *memory(found), *failures(found)]).rstrip() + "\n"
