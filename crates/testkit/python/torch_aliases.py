"""Random programs of views and in-place ops, exported as they are, with PyTorch's results: what is written through one name is seen through all others.

usage: torch_aliases.py FOLDER [--count N] [--seed N]

Writes program_N.pt2 and program_N.0.npz; run them with `tpu check FOLDER`. Needs torch and numpy.
"""

import argparse
import pathlib
import random
import warnings

import numpy as np
import torch
from torch import nn

# Ops that give a view of their argument, or a copy where strides say so.
VIEWS = [
    ("x.t()", lambda x: x.dim() == 2),
    ("x.transpose(0, -1)", lambda x: x.dim() >= 2),
    ("x[1:]", lambda x: x.dim() >= 1 and x.shape[0] > 2),
    ("x[:, ::2]", lambda x: x.dim() >= 2 and x.shape[1] > 2),
    ("x[0]", lambda x: x.dim() >= 2),
    ("x[..., -1]", lambda x: x.dim() >= 2),
    ("x.unsqueeze(1)", lambda x: x.dim() < 4),
    ("x.squeeze()", lambda x: x.dim() > 1),
    ("x.reshape(-1)", lambda x: x.dim() > 1),
    ("x.flatten()", lambda x: x.dim() > 1),
    ("x.reshape(x.shape[0], 1, *x.shape[1:])", lambda x: 1 <= x.dim() < 4),
    ("x.reshape(2, -1)", lambda x: x.numel() % 2 == 0 and x.dim() < 4),
    ("x.view(x.shape[0], 2, -1)", lambda x: x.dim() == 2 and x.shape[1] % 2 == 0 and x.is_contiguous()),
    ("x.diagonal()", lambda x: x.dim() == 2),
    ("x.unfold(0, 2, 2)", lambda x: x.dim() >= 1 and x.shape[0] >= 2 and x.dim() < 4),
    ("x.narrow(0, 0, 2)", lambda x: x.dim() >= 1 and x.shape[0] > 2),
    ("x.chunk(2, 0)[1]", lambda x: x.dim() >= 1 and x.shape[0] >= 2),
    ("x.split([1, x.shape[0] - 1], 0)[1]", lambda x: x.dim() >= 1 and x.shape[0] >= 2),
    ("x.tensor_split(2, 0)[0]", lambda x: x.dim() >= 1 and x.shape[0] >= 2),
    ("x.unbind(0)[-1]", lambda x: x.dim() >= 2),
    ("x.movedim(0, -1)", lambda x: x.dim() >= 2),
    ("x.permute(*range(x.dim() - 1, -1, -1))", lambda x: x.dim() >= 2),
    ("x.contiguous()", lambda x: True),
    ("x.to(torch.float32)", lambda x: True),
    ("x.detach()", lambda x: True),
    ("x.clone()", lambda x: True),
    ("x.view_as(x)", lambda x: True),
    ("x.ravel()", lambda x: x.dim() > 1),
    ("F.dropout(x, 0.5, False)", lambda x: True),
    ("x.view(torch.int32).view(torch.float32)", lambda x: x.dim() >= 1),
    ("torch.atleast_2d(x)", lambda x: x.dim() < 2),
    ("x.expand(2, *x.shape)[0]", lambda x: x.dim() < 3),
    ("torch.abs(x)", lambda x: True),
]

# Statements that write.
WRITES = [
    "x.add_(1.5)",
    "x.mul_(-0.5)",
    "x.fill_(0.25)",
    "x.zero_()",
    "x.clamp_(-1.0, 1.0)",
    "x.copy_(torch.ones_like(x) * 3.0)",
    "x.neg_()",
    "x.masked_fill_(x > 0.5, 2.0)",
    "x.sub_(x * 0.5)",
    "x.relu_()",
    "torch.add(x, 1.0, out=x)",
    "x[..., :1] = 7.0",
    "x.sigmoid_()",
]


def program(seed):
    """The source of a forward, chosen by the numbers of a seed and tried on a sample."""
    choose = random.Random(seed)
    scope = {"torch": torch, "F": torch.nn.functional}
    sample = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7 - 1
    values, lines = {"a": sample.clone() + 0.0}, ["a = given + 0.0"]
    for step in range(choose.randint(4, 10)):
        source = choose.choice(sorted(values))
        if choose.random() < 0.55:
            fitting = [text for text, fits in VIEWS if fits(values[source])]
            text = choose.choice(fitting)
            name = f"v{step}"
            values[name] = eval(text, scope, {"x": values[source]})  # noqa: S307: our own text
            lines.append(f"x = {source}; {name} = {text}")
        else:
            text = choose.choice(WRITES)
            try:
                exec(text, scope, {"x": values[source]})  # noqa: S102
            except RuntimeError:
                continue
            lines.append(f"x = {source}; {text}")
    lines.append("return (" + " ".join(f"{name} * 1.0," for name in sorted(values)) + ")")
    return lines


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    refused = 0
    for number in range(args.count):
        lines = program(args.seed + number)
        body = "\n".join(f"    {line}" for line in lines)
        scope = {"torch": torch, "F": torch.nn.functional}
        exec(f"def forward(self, given):\n{body}\n", scope)  # noqa: S102: our own text
        made = type("Program", (nn.Module,), {"forward": scope["forward"]})()
        given = torch.randn(4, 6, generator=torch.Generator().manual_seed(number))
        answers = made(given.clone())
        try:
            exported = torch.export.export(made, (given.clone(),), strict=False)
            torch.export.save(exported, folder / f"program_{number}.pt2")
        except Exception as error:  # noqa: BLE001: what PyTorch cannot export is counted
            refused += 1
            print(f"program_{number}: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
            continue
        (folder / f"program_{number}.py.txt").write_text(body)
        kept = {"input.given": given} | {f"output.{n}": answer for n, answer in enumerate(answers)}
        np.savez(folder / f"program_{number}.0.npz", **{key: np.asarray(value.detach()) for key, value in kept.items()})
    print(f"{args.count - refused} programs, {refused} that PyTorch does not export")


if __name__ == "__main__":
    main()
