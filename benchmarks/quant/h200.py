"""Quantized matmuls and decode steps on a GPU: our runtime against PyTorch bf16 and torchao, in turns, on one machine.

h200.py SPEED_BINARY PLUGIN.so [--rounds N] [--groups NAME ...] [--schemes NAME ...] [--peers NAME ...] [--json FILE]

SPEED_BINARY is the example `device_speed` of the crate `runtime`, built with --release; PLUGIN.so is JAX's CUDA plugin
(site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so). Needs jax, ml_dtypes, torch and torchao, and a GPU of 40 GB.
`--small` tries everything in small; with PLUGIN `cpu` that needs no GPU and no torchao.

Matmuls are chains of four with weights of their own: squares, or an up and a down projection twice. A figure is the time of one matmul: a
quarter of a chain's, of bursts of chains, each started before the last is done. Weights of both sides are quantized from the same normal
numbers; `error` is the distance from the chain in f32 on the dense weights, relative to its norm. Decode is one step of a model of
Llama 3.2 1B's sizes with 1,024 tokens in the cache. Prints Markdown tables; a form that a side refuses has the reason below its table.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any, Callable

# JAX only writes programs: the GPU is for the two that are measured.
os.environ["JAX_PLATFORMS"] = "cpu"

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "device")]
import peers  # noqa: E402
import programs  # noqa: E402
import run as device  # noqa: E402
from programs import SCHEMES, Scheme  # noqa: E402

device.NAMES.update({"int8": "I8", "float8_e4m3fn": "F8_E4M3"})
NUMPY = {torch.bfloat16: (torch.int16, ml_dtypes.bfloat16), torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn)}
CONTEXT = 1024
# Seconds that a burst takes.
BURST = 0.05
STARTED = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def host(array: torch.Tensor) -> np.ndarray:
    bits, dtype = NUMPY.get(array.dtype, (None, None))
    return array.cpu().numpy() if bits is None else array.view(bits).cpu().numpy().view(dtype)


def quantized(scheme: Scheme, dense: torch.Tensor) -> list[torch.Tensor]:
    """Values and scales of a weight `[..., in, out]`: the largest magnitude of a group is the largest code."""
    if scheme.values is None:
        return [dense]
    inputs = dense.shape[-2]
    apart = dense.float().unflatten(-2, (-1, scheme.group or inputs))
    scales = apart.abs().amax(-2, keepdim=True) / scheme.largest
    codes = (apart / scales).clamp(-scheme.largest, scheme.largest).flatten(-3, -2)
    codes = codes.to(torch.float8_e4m3fn) if scheme.values == programs.FP8 else codes.round().to(torch.int8)
    pair = [codes, scales.squeeze(-2)]
    return [one.transpose(-1, -2).contiguous() for one in pair] if scheme.is_out_in else pair


def stem(name: str) -> str:
    """A name as a word."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


class Group:
    """Cases of one set of weights: programs of ours and peers, each by title (a shape) and name, and what both should find."""

    def __init__(self, folder: pathlib.Path, matmuls: int) -> None:
        self.folder, self.matmuls = folder, matmuls
        self.programs: dict[tuple[str, str], str] = {}
        self.peer_of: dict[tuple[str, str], str] = {}
        self.peers: dict[tuple[str, str], Callable[[], peers.Graph]] = {}
        self.references: dict[str, torch.Tensor] = {}

    def write(self, name: str, arrays: Callable[[], list[torch.Tensor]]) -> str:
        """The file of a name, written if it is not there."""
        path = self.folder / f"{stem(name)}.inputs"
        if not path.exists():
            device.write_safetensors(path, [host(array) for array in arrays()])
        return str(path)

    def add(self, title: str, name: str, peer: str, program: str, files: list[str]) -> None:
        word = stem(f"{title} {name}")
        path = self.folder / f"{word}.mlir"
        path.write_text(program)
        self.programs[title, name] = ",".join([f"{word}={path}", *files])
        self.peer_of[title, name] = peer


def codes_of(name: str) -> str:
    """Schemes with the same answer have the same arrays."""
    return name.replace("w8a8", "w8a16")


def once(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function, called at most once."""
    return functools.cache(function)


def chain_group(all_rows: list[int], inner: int, outer: int, wanted: argparse.Namespace, folder: pathlib.Path, where: str) -> Group:
    group = Group(folder, 4)
    sizes = [(inner, outer), (outer, inner)] * 2
    dense = [(torch.randn(size, device=where) * size[0] ** -0.5).bfloat16() for size in sizes]
    files = {
        name: group.write(codes_of(name), lambda name=name: [array for one in dense for array in quantized(SCHEMES[name], one)])
        for name in wanted.schemes
    }
    weights = {
        name: once(lambda name=name: [peers.weight(name, one) for one in dense]) for name in peers.SCHEMES if name in wanted.peers
    }
    for rows in all_rows:
        title = f"{rows} x {inner} x {outer}"
        x = torch.randn(rows, inner, device=where).bfloat16()
        y = x
        for one in dense:
            y = (y.float() @ one.float()).bfloat16()
        group.references[title] = y.float()
        state = group.write(title, lambda x=x: [x])
        for name, file in files.items():
            group.add(title, name, name.split(" ")[0], programs.chain(SCHEMES[name], rows, sizes), [state, file])
        for name, made in weights.items():
            group.peers[title, name] = lambda name=name, made=made, x=x: peers.chain(name, made(), x)
    return group


def decode_group(all_rows: list[int], llama: programs.Llama, wanted: argparse.Namespace, folder: pathlib.Path, where: str) -> Group:
    group = Group(folder, 1)
    normal = lambda *dims: torch.randn(dims, device=where)  # noqa: E731
    dense = [(normal(llama.layers, *size) * size[0] ** -0.5).bfloat16() for size in llama.linears]
    head = (normal(llama.hidden, llama.vocab) * llama.hidden**-0.5).bfloat16()
    angle = torch.arange(llama.head // 2, device=where) * 0.1
    ones = lambda *dims: torch.ones(dims, device=where, dtype=torch.bfloat16)  # noqa: E731
    cases = [(name, "scan") for name in wanted.schemes if not SCHEMES[name].is_out_in]
    cases += [(name, "unrolled") for name in wanted.unrolled]
    files = {}
    for name, form in cases:

        def leaves(scheme: Scheme = SCHEMES[name], form: str = form) -> list[torch.Tensor]:
            stacks = [leaf for one in dense for leaf in quantized(scheme, one)]
            if form == "unrolled":
                stacks = [leaf[index] for index in range(llama.layers) for leaf in stacks]
            return stacks + quantized(scheme, head)

        files[name, form] = group.write(f"{codes_of(name)} {form}", leaves)
    weights = {
        name: once(lambda name=name: peers.decode_weights(name, llama, dense, head))
        for name in peers.SCHEMES
        if name in wanted.peers
    }
    for rows in all_rows:
        title = f"decode, batch {rows}"
        cache = (llama.layers, rows, llama.kv_heads, CONTEXT, llama.head)
        state = {
            "x": normal(rows, llama.hidden).bfloat16(),
            "keys": normal(*cache).bfloat16(),
            "values": normal(*cache).bfloat16(),
            "cos": angle.cos(),
            "sin": angle.sin(),
            "norm_1": ones(llama.layers, llama.hidden),
            "norm_2": ones(llama.layers, llama.hidden),
            "last_norm": ones(llama.hidden),
        }
        first = group.write(title, lambda state=state: list(state.values()))
        for (name, form), file in files.items():
            program = programs.decode(llama, SCHEMES[name], rows, CONTEXT, form == "scan")
            group.add(title, f"{name}, {form}", name, program, [first, file])
        for name, made in weights.items():
            group.peers[title, name] = lambda name=name, made=made, state=state: peers.decode(name, llama, made(), state)
    return group


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found.float() - expected).norm() / expected.norm()).item()


class Asked:
    """Our process."""

    def __init__(self, arguments: argparse.Namespace, group: Group) -> None:
        self.process = device.Ours(arguments.binary, arguments.plugin, list(group.programs.values()))
        self.words = {case: program.split("=")[0] for case, program in group.programs.items()}

    def burst(self, case: tuple[str, str], count: int) -> float:
        return self.process.seconds("burst", self.words[case], count)[0]

    def result(self, case: tuple[str, str], path: pathlib.Path, where: str) -> torch.Tensor:
        self.process.ask(f"result {self.words[case]} {path}")
        return torch.from_numpy(device.read_first(path)).to(where)

    def end(self) -> None:
        self.process.process.stdin.close()
        self.process.process.wait()


def measure(arguments: argparse.Namespace, group: Group, where: str) -> list[dict[str, Any]]:
    """Times and errors of a group: medians over rounds in which everybody has a turn."""
    started = time.monotonic()
    asked = Asked(arguments, group)
    say(f"{len(group.programs)} programs of ours ready in {time.monotonic() - started:.1f} s")
    # By side, title and name.
    turns: dict[tuple[str, str, str], Callable[[int], float]] = {}
    results: dict[tuple[str, str, str], torch.Tensor] = {}
    refused: dict[tuple[str, str, str], str] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for case in group.programs:
        key = ("ours", *case)
        try:
            results[key] = asked.result(case, group.folder / "result", where)
            turn = turns[key] = lambda count, case=case: asked.burst(case, count)
            counts[key] = burst_count(turn)
            say(f"{', '.join(case)}: {turn(counts[key]) / group.matmuls * 1e6:.1f} us")
        except device.Refused as why:
            refused[key] = str(why)
            say(f"{', '.join(case)}: refused: {str(why)[:600]}")
    for case in group.peers if where == "cuda" else []:
        key = ("peer", *case)
        if time.monotonic() - STARTED > arguments.seconds:
            refused[key] = "not measured: the time was over"
            continue
        started = time.monotonic()
        try:
            graph = group.peers[case]()
            turn = turns[key] = graph.burst
            counts[key] = burst_count(turn)
            results[key] = graph.result.clone()
            found = f"{turn(counts[key]) / group.matmuls * 1e6:.1f} us"
        except Exception as why:  # noqa: BLE001
            turns.pop(key, None)
            found = refused[key] = f"{type(why).__name__}: {' '.join(str(why).split())[:400]}"
        say(f"{', '.join(case)}: PyTorch ready in {time.monotonic() - started:.1f} s: {found}")
    times: dict[tuple[str, str, str], list[float]] = {key: [] for key in turns}
    for index in range(arguments.rounds):
        for key in list(turns) if index % 2 == 0 else list(turns)[::-1]:
            times[key].append(turns[key](counts[key]) / group.matmuls)
    asked.end()
    records = []
    for title in dict.fromkeys(title for title, _ in group.programs):
        of_title = {key: value for key, value in results.items() if key[1] == title}
        reference = group.references.get(title, of_title.get(("peer", title, "bf16")))
        if reference is None:
            reference = next(iter(of_title.values()))
        records.append(
            {
                "title": title,
                "peer_of": {name: peer for (at, name), peer in group.peer_of.items() if at == title},
                "seconds": {f"{side} / {name}": values for (side, at, name), values in times.items() if at == title},
                "errors": {f"{key[0]} / {key[2]}": error(value, reference.float()) for key, value in of_title.items()},
                "refused": {f"{side} / {name}": why for (side, at, name), why in refused.items() if at == title},
            }
        )
    return records


def burst_count(turn: Callable[[int], float]) -> int:
    """Runs of a burst."""
    return max(3, min(2000, int(BURST / turn(3))))


def table(record: dict[str, Any]) -> str:
    """The group as Markdown."""
    median = {key: statistics.median(values) for key, values in record["seconds"].items()}
    cell = lambda value, form: "" if value is None else format(value, form)  # noqa: E731
    base_ours = next((median[key] for key in median if key.startswith("ours / bf16")), None)
    base_peer = median.get("peer / bf16")
    ratio = lambda a, b: None if a is None or b is None else a / b  # noqa: E731
    lines = [
        f"\n## {record['title']}\n",
        "| weights | tpubridge, us | PyTorch, us | ours / theirs | ours over PyTorch bf16 | theirs over it | error | theirs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, peer in record["peer_of"].items():
        mine, theirs = median.get(f"ours / {name}"), median.get(f"peer / {peer}")
        micro = [None if value is None else value * 1e6 for value in (mine, theirs)]
        lines.append(
            f"| {name} | {cell(micro[0], '.1f') or 'refused'} | {cell(micro[1], '.1f')} | {cell(ratio(mine, theirs), '.2f')} "
            f"| {cell(ratio(base_peer or base_ours, mine), '.2f')} | {cell(ratio(base_peer, theirs), '.2f')} "
            f"| {cell(record['errors'].get(f'ours / {name}'), '.4f')} | {cell(record['errors'].get(f'peer / {peer}'), '.4f')} |"
        )
    lines += [f"\n{key}: {why[:400]}" for key, why in record["refused"].items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("plugin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", nargs="*", default=["4096", "8192", "rows", "decode"])
    parser.add_argument("--schemes", nargs="*", default=list(SCHEMES), help="of our programs")
    parser.add_argument("--peers", nargs="*", default=peers.SCHEMES, help="schemes of PyTorch and torchao")
    parser.add_argument("--unrolled", nargs="*", default=["bf16", "w8a16", "w4a16"], help="schemes of decode steps without a scan too")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 32], help="rows of matmuls with 8192 x 28672")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32], help="batches of decode steps")
    parser.add_argument("--quick-peers", action="store_true", help="peers without torchao's search in all directions; plain decode steps")
    parser.add_argument("--seconds", type=float, default=1e9, help="after so long, peers that are not yet compiled are left out")
    parser.add_argument("--small", action="store_true", help="sizes for a trial")
    parser.add_argument("--json", type=pathlib.Path, help="file that every figure is added to")
    arguments = parser.parse_args()
    peers.searches_all = peers.tunes_decode = not arguments.quick_peers
    where = "cuda" if torch.cuda.is_available() and arguments.plugin != "cpu" else "cpu"
    llama = programs.Llama(2, 256, 4, 2, 64, 512, 1024) if arguments.small else programs.LLAMA_1B
    shapes = {"4096": ([4096], 4096, 4096), "8192": ([8192], 8192, 8192), "rows": (arguments.rows, 8192, 28672)}
    if arguments.small:
        shapes = {name: ([min(one, 128) for one in rows], 256, 512) for name, (rows, *_) in shapes.items()}
    kind = torch.cuda.get_device_name() if where == "cuda" else "cpu"
    print(f"{kind}; PyTorch {torch.__version__}, torchao {peers.VERSION}; {arguments.rounds} rounds in turns", flush=True)
    for name in arguments.groups:
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            if name in shapes:
                group = chain_group(*shapes[name], arguments, pathlib.Path(folder), where)
            else:
                group = decode_group(arguments.batches, llama, arguments, pathlib.Path(folder), where)
            say(f"{name}: inputs written")
            records = measure(arguments, group, where)
        for record in records:
            print(table(record), flush=True)
            if arguments.json:
                with arguments.json.open("a") as file:
                    file.write(json.dumps({"group": name, **record}) + "\n")
        del group
        if where == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
