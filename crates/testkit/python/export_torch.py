"""Writes PyTorch models as StableHLO text and bytecode, through PyTorch/XLA's own exporter.

usage: export_torch.py OUTDIR

For each model NAME: NAME.lowered.mlir (PyTorch/XLA's text) and NAME.mlir.bc (its portable artifact), plus index.json,
and cases.json for reference_memory.py. NAME.mlir, the text of exactly what the artifact holds, is added by
read_artifacts.py.
"""

import json
import os
import pathlib
import sys

# PyTorch/XLA reads this when it is imported; without it, it looks for a TPU.
os.environ["PJRT_DEVICE"] = "CPU"

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch_xla.stablehlo import exported_program_to_stablehlo  # noqa: E402


class ConvNet(nn.Module):
    """Two convolutions with batch norm and pooling, then a classifier."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, groups=4),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classify = nn.Linear(16, 10)

    def forward(self, images):
        return self.classify(self.features(images).flatten(1))


class Recurrent(nn.Module):
    """An LSTM cell stepped by hand, and a GRU cell."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(8, 16), nn.GRUCell(16, 16)

    def forward(self, inputs):
        h = inputs.new_zeros(inputs.shape[1], 16)
        c, g = h, h
        for step in inputs:
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
        return g, c


class Lstm(nn.Module):
    """PyTorch's fused LSTM layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(8, 16, num_layers=2, batch_first=True)

    def forward(self, inputs):
        outputs, (hidden, _) = self.layer(inputs)
        return outputs, hidden


class Embedded(nn.Module):
    """Token and position embeddings with layer norm."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions, self.norm = nn.Embedding(100, 32), nn.Embedding(16, 32), nn.LayerNorm(32)

    def forward(self, ids):
        return self.norm(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))


class Attention(nn.Module):
    """Causal scaled dot product attention over heads."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (part.view(*x.shape[:2], 4, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class NarrowCompute(nn.Module):
    """Float32 weights, bfloat16 arithmetic."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 16))

    def forward(self, x):
        return torch.tanh(x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16)).float()


class Integers(nn.Module):
    """Index arithmetic: sort, top-k, gather, scatter, cumulative sums and masks."""

    def forward(self, scores, ids):
        values, chosen = torch.topk(scores, 3)
        ordered, order = torch.sort(ids, dim=-1, descending=True)
        counts = torch.zeros(4, 10, dtype=ids.dtype).scatter_add(1, ids, torch.ones_like(ids))
        picked = torch.gather(scores, 1, ids)
        return values, chosen, ordered, order, counts, torch.cumsum(picked, 1), torch.where(ids > 3, picked, -1.0)


def models() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Model and example inputs by name."""
    mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1))
    return {
        "torch_mlp": (mlp, (torch.ones(2, 8),)),
        "torch_bf16_compute": (NarrowCompute(), (torch.ones(2, 8),)),
        "torch_conv_net": (ConvNet(), (torch.ones(2, 3, 16, 16),)),
        "torch_transformer_layer": (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (torch.ones(2, 6, 32),)),
        "torch_recurrent_cells": (Recurrent(), (torch.ones(4, 2, 8),)),
        "torch_lstm": (Lstm(), (torch.ones(2, 5, 8),)),
        "torch_embedding": (Embedded(), (torch.zeros(2, 7, dtype=torch.int64),)),
        "torch_attention": (Attention(), (torch.ones(2, 6, 32),)),
        "torch_integers": (Integers(), (torch.ones(4, 10), torch.zeros(4, 6, dtype=torch.int64))),
    }


def main() -> int:
    """Exports every model; any failure ends the run with its exception."""
    outdir = pathlib.Path(sys.argv[1])
    outdir.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    entries = [_export(name, model, inputs, outdir) for name, (model, inputs) in models().items()]
    (outdir / "index.json").write_text(json.dumps({"version": 1, "programs": entries}, indent=1))
    (outdir / "cases.json").write_text(json.dumps([_reference_case(entry) for entry in entries], indent=1))
    print(f"{len(entries)} PyTorch models", file=sys.stderr)
    return 0


def _export(name: str, model: nn.Module, inputs: tuple[torch.Tensor, ...], outdir: pathlib.Path) -> dict:
    with torch.no_grad():
        program = torch.export.export(model.eval(), inputs)
    graph = exported_program_to_stablehlo(program)
    files = {"text": f"{name}.mlir", "bytecode": f"{name}.mlir.bc", "lowered": f"{name}.lowered.mlir"}
    (outdir / files["lowered"]).write_text(graph.get_stablehlo_text())
    (outdir / files["bytecode"]).write_bytes(graph.get_stablehlo_bytecode())
    return {
        "name": name,
        "files": files,
        "platform": "tpu",
        "num_partitions": 1,
        "shardy": False,
        "features": ["torch"],
    }


def _reference_case(entry: dict) -> dict:
    place = {"topology": "v5e:2x2", "options": {}, "num_partitions": 1, "device_ids": [0], "shardy": False}
    return {"name": entry["name"], "file": entry["files"]["text"], "bytecode": entry["files"]["bytecode"]} | place


if __name__ == "__main__":
    sys.exit(main())
