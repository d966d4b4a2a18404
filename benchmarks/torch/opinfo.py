"""PyTorch's own op tests (OpInfo) as ground truth for `.pt2` import: samples are exported with their results and gradients, and `tpu check` runs them.

usage: python benchmarks/torch/opinfo.py make FOLDER [--only REGEX] [--samples N] [--jobs N]
       python benchmarks/torch/opinfo.py count FOLDER --tpu PATH [--only REGEX] [--json FILE] [--all]
       python benchmarks/torch/opinfo.py core --tpu PATH

`make` writes, for sample N of an op in a type, OP_TYPE_N.pt2 as exported, OP_TYPE_N.core.pt2 after `run_decompositions()`, and the calls
OP_TYPE_N.0.npz (results) and OP_TYPE_N.1.npz (gradients). `count` checks the folder once and counts samples by op, forward and backward; samples that
need an op without a rule are listed apart, since we do not claim it. `core` compares the table of `tpu check --ops` with PyTorch's list of Core ATen.
Needs torch, expecttest, numpy and scipy.
"""

import argparse
import collections
import json
import multiprocessing
import pathlib
import re
import subprocess
import sys
import warnings

sys.dont_write_bytecode = True

# Types of samples, and how many of the samples of an op are taken of each, as parts of --samples.
TYPES = {"float32": 1.0, "int64": 0.34, "bool": 0.2, "bfloat16": 0.34, "uint8": 0.2}
# Samples of an op in f32 that are written decomposed too.
DECOMPOSED = 3
# Of the reason that a sample has no archive, so many characters.
LONGEST_REASON = 160


def slug(text):
    """A name that is safe in files, and has neither dots nor dashes: those separate a case from its forms."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def op_infos(only):
    """The entries of PyTorch's table whose names match."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [info for info in op_db if re.search(only, name_of(info))]


def name_of(info):
    """`add`, `div.floor_rounding`: an op and its variant."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def make_op(job):
    """All samples of one op; gives what was written and what could not be exported."""
    name, folder, samples = job
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    written, refused = [], []
    for info in op_infos("^" + re.escape(name) + "$"):
        for type_name, part in TYPES.items():
            dtype = getattr(torch, type_name)
            if dtype not in info.dtypes:
                continue
            wanted = max(1, round(samples * part))
            for number, sample in enumerate(samples_of(info, dtype, wanted)):
                case = f"{slug(name)}_{type_name}_{number}"
                try:
                    is_decomposed = type_name == "float32" and number < DECOMPOSED
                    reason = make_sample(info, sample, dtype, pathlib.Path(folder) / case, is_decomposed)
                except Exception as error:  # noqa: BLE001: whatever export raises is a reason
                    reason = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_REASON]
                if reason:
                    refused.append((name, case, reason))
                else:
                    written.append((name, case))
    return name, written, refused


def samples_of(info, dtype, wanted):
    """Some samples of an op, spread over all that there are."""
    import torch

    torch.manual_seed(7)
    needs_grad = dtype == torch.float32 and info.supports_autograd
    try:
        every = list(info.sample_inputs("cpu", dtype, requires_grad=needs_grad))
    except Exception:  # noqa: BLE001: a table's entry that fails here has no samples
        return []
    count = len(every)
    return every if count <= wanted else [every[n * count // wanted] for n in range(wanted)]


def make_sample(info, sample, dtype, path, is_decomposed):
    """Writes one sample; gives a reason where there is nothing to write."""
    import numpy as np
    import torch
    from torch.utils import _pytree as pytree

    values, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [n for n, value in enumerate(values) if isinstance(value, torch.Tensor)]
    if not places:
        return "it takes no tensors"
    if any(values[n].layout != torch.strided or values[n].is_complex() for n in places):
        return "its tensors are sparse or complex"
    if sum(values[n].numel() for n in places) > 1 << 20:
        return "its tensors are large"
    # NumPy has no bf16: the program takes f32 and converts.
    is_narrow = dtype == torch.bfloat16
    narrow = [is_narrow and values[n].dtype == dtype for n in places]

    class Program(torch.nn.Module):
        """The op, and a loss that weighs every element of its results differently."""

        weights = []

        def results(self, tensors):
            filled = list(values)
            for place, tensor, is_converted in zip(places, tensors, narrow, strict=True):
                filled[place] = tensor.to(dtype) if is_converted else tensor.clone()
            first, args, kwargs = pytree.tree_unflatten(filled, spec)
            leaves = pytree.tree_leaves(info.op(first, *args, **kwargs))
            return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

        def forward(self, *tensors):
            leaves = self.results(tensors)
            if not self.weights:
                return tuple(leaves)
            parts = [(leaf * weight).sum() for leaf, weight in zip(leaves, self.weights, strict=True) if weight is not None]
            return (sum(parts[1:], parts[0]), *leaves)

    given = [values[n].detach() for n in places]
    given = [tensor.to(torch.float32) if is_converted else tensor for tensor, is_converted in zip(given, narrow, strict=True)]
    # A view that several elements share, or of a larger storage, is a plain tensor in a file.
    given = [tensor.clone(memory_format=torch.contiguous_format) for tensor in given]
    program = Program()
    torch.manual_seed(1)
    with torch.no_grad():
        plain = program.results(given)
    torch.manual_seed(2)
    with torch.no_grad():
        again = program.results(given)
    if any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(plain, again, strict=True)):
        return "its results are random"
    if not plain:
        return "it gives no tensors"
    if any(leaf.layout != torch.strided or leaf.is_complex() for leaf in plain):
        return "its results are sparse or complex"
    leaves = [tensor.clone().requires_grad_(values[n].requires_grad) for n, tensor in zip(places, given, strict=True)]
    results = program.results(leaves)
    if any(result.requires_grad for result in results):
        generator = torch.Generator().manual_seed(3)
        program.weights = [
            torch.rand(result.shape, generator=generator) + 0.5 if result.requires_grad else None for result in results
        ]
    exported = torch.export.export(program, tuple(given), strict=False)
    torch.export.save(exported, path.with_suffix(".pt2"))
    names = exported.graph_signature.user_inputs
    kept = {f"input.{name}": tensor for name, tensor in zip(names, given, strict=True)}
    answers = program(*[tensor.clone() for tensor in given])
    wide = [answer.to(torch.float32) if answer.dtype == torch.bfloat16 else answer for answer in answers]
    save = lambda suffix, arrays: np.savez(  # noqa: E731
        path.with_suffix(suffix), **{key: np.asarray(value.detach().resolve_neg().resolve_conj()) for key, value in arrays.items()}
    )
    # The loss sums what may cancel: its parts are compared.
    first = 1 if program.weights else 0
    save(".0.npz", kept | {f"output.{n}": answer for n, answer in enumerate(wide) if n >= first})
    if program.weights:
        loss = program(*leaves)[0]
        wanted = [(name, leaf) for name, leaf in zip(names, leaves, strict=True) if leaf.requires_grad]
        found = torch.autograd.grad(loss, [leaf for _, leaf in wanted], allow_unused=True)
        grads = {
            f"grad.{name}": torch.zeros_like(leaf) if grad is None else grad
            for (name, leaf), grad in zip(wanted, found, strict=True)
        }
        save(".1.npz", kept | grads)
    if not is_decomposed:
        return None
    try:
        torch.export.save(exported.run_decompositions(), path.with_suffix(".core.pt2"))
    except Exception:  # noqa: BLE001: some programs cannot be decomposed; the plain form is checked
        pass
    return None


def make(args):
    """Writes all samples, in processes of their own."""
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted({name_of(info) for info in op_infos(args.only)})
    jobs = [(name, str(folder), args.samples) for name in names]
    written, refused = [], []
    # Processes are renewed: what export keeps in memory grows.
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=40) as pool:
        for done, (name, new, without) in enumerate(pool.imap_unordered(make_op, jobs), 1):
            written += new
            refused += without
            if done % 50 == 0:
                print(f"{done} of {len(jobs)} ops, {len(written)} samples", file=sys.stderr, flush=True)
    (folder / "made.json").write_text(json.dumps({"written": sorted(written), "refused": sorted(refused)}, indent=1))
    print(f"{len(names)} ops: {len(written)} samples written, {len(refused)} not exported")


def count(args):
    """Checks the folder, and counts by op."""
    folder = pathlib.Path(args.folder)
    # While samples are still made there is no list: then the file's name stands for the op.
    listed = folder / "made.json"
    ops = {case: name for name, case in json.loads(listed.read_text())["written"]} if listed.exists() else {}
    command = [args.tpu, "check", str(folder), "--json"] + (["--filter", args.only] if args.only != "" else [])
    record = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    counts = collections.defaultdict(collections.Counter)
    reasons = []
    for case in record["cases"]:
        stem = pathlib.Path(case["file"]).name.split(".")
        form = "core" if "core" in stem else "raw"
        way = "backward" if case["function"].endswith(".1") else "forward"
        reason = case.get("reason", "")
        outcome = case["outcome"] if "has no translation" not in reason else "unclaimed"
        outcome = "random" if "draws random numbers" in reason or "depends on values" in reason else outcome
        counts[ops.get(stem[0], re.sub(r"_[a-z0-9]+_\d+$", "", stem[0]))][form, way, outcome] += 1
        if outcome == "failed" or (args.all and outcome == "unclaimed"):
            reasons.append((".".join(stem[:-1]), way, reason.splitlines()[0][:300]))
    print(f"{'op':44} {'raw':>11} {'raw grad':>11} {'core':>11} {'core grad':>11}")
    total = collections.Counter()
    for name, found in sorted(counts.items()):
        cells = []
        for form in ("raw", "core"):
            for way in ("forward", "backward"):
                passed, failed = found[form, way, "passed"], found[form, way, "failed"]
                total[form, way, "passed"] += passed
                total[form, way, "failed"] += failed
                total[form, way, "unclaimed"] += found[form, way, "unclaimed"] + found[form, way, "random"]
                cells.append(f"{passed}/{passed + failed}" if passed + failed else "-")
        if args.all or any(key[2] == "failed" for key in found):
            print(f"{name:44} " + " ".join(f"{cell:>11}" for cell in cells))
    for case, way, reason in reasons:
        print(f"{case} {way}: {reason}")
    for form in ("raw", "core"):
        for way in ("forward", "backward"):
            passed, failed = total[form, way, "passed"], total[form, way, "failed"]
            share = 100.0 * passed / max(1, passed + failed)
            print(f"{form} {way}: {passed} of {passed + failed} samples ({share:.2f} %); {total[form, way, 'unclaimed']} need ops without a rule")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({name: {" ".join(key): n for key, n in found.items()} for name, found in counts.items()}, indent=1))


def core(args):
    """Ops that PyTorch tags as Core ATen and that have no rule."""
    import torch

    listed = set(subprocess.run([args.tpu, "check", "--ops"], stdout=subprocess.PIPE, check=True, text=True).stdout.split())
    tagged = set()
    for packet_name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, packet_name)
        if hasattr(packet, "overloads"):
            tags = [getattr(packet, overload).tags for overload in packet.overloads()]
            if any(torch.Tag.core in tag for tag in tags):
                tagged.add(packet_name)
    missing = sorted(tagged - listed)
    print(f"{len(tagged)} ops are Core ATen; {len(tagged) - len(missing)} have a rule")
    for name in missing:
        print(name)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("folder")
    making.add_argument("--only", default="")
    making.add_argument("--samples", type=int, default=8)
    making.add_argument("--jobs", type=int, default=2)
    counting = commands.add_parser("count")
    counting.add_argument("folder")
    counting.add_argument("--tpu", required=True)
    counting.add_argument("--only", default="")
    counting.add_argument("--json")
    counting.add_argument("--all", action="store_true")
    comparing = commands.add_parser("core")
    comparing.add_argument("--tpu", required=True)
    args = parser.parse_args()
    {"make": make, "count": count, "core": core}[args.command](args)


if __name__ == "__main__":
    main()
