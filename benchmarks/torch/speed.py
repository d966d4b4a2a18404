"""Speed of imported models on the CPU device against PyTorch, eager and `torch.compile`: interleaved, the same threads, the same archive.

usage: python benchmarks/torch/speed.py --tpu PATH [--threads 2] [--rounds 5] [--seconds 1.0] [--only REGEX] [--no-compile] [--json FILE]

Each round times one after the other: eager, compiled, and `tpu run MODEL.pt2 --bench` in a process of its own. What is compared is the median over rounds of
the median call. Needs torch, torchvision, transformers and diffusers (crates/testkit/python/requirements-models.txt), a C++ compiler for `torch.compile`, and a
`tpu` that was built with --release.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from torch import nn

TEXT = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048, "vocab_size": 8192}


class Picked(nn.Module):
    """One tensor of a model's answer."""

    def __init__(self, inner, field, **fixed):
        super().__init__()
        self.inner, self.field, self.fixed = inner, field, fixed

    def forward(self, **inputs):
        return getattr(self.inner(**inputs, **self.fixed), self.field)


def images(name, size=224, batch=1, **options):
    """A model of torchvision."""
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **options), {"x": torch.randn(batch, 3, size, size)}


def tokens(class_name, config_name, field, length=128, batch=1, **config):
    """A model of transformers over token ids."""
    import transformers

    made = getattr(transformers, config_name)(**(TEXT | config))
    fixed = {"use_cache": False} if field == "logits" else {}
    ids = torch.randint(3, 8000, (batch, length))
    return Picked(getattr(transformers, class_name)(made), field, **fixed), {"input_ids": ids}


def unet():
    """Stable Diffusion's U-Net, narrow."""
    import diffusers

    built = diffusers.UNet2DConditionModel(
        sample_size=32, block_out_channels=(64, 128), norm_num_groups=8, layers_per_block=2, attention_head_dim=8, cross_attention_dim=128,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    inputs = {"sample": torch.randn(1, 4, 32, 32), "timestep": torch.tensor([17]), "encoder_hidden_states": torch.randn(1, 16, 128)}
    return Picked(built, "sample"), inputs


class Lstm(nn.Module):
    """A two-layer LSTM over 64 steps."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(256, 256, num_layers=2, batch_first=True), nn.Linear(256, 100)

    def forward(self, x):
        return self.head(self.layer(x)[0])


MODELS = {
    "resnet18": lambda: images("resnet18"),
    "resnet50": lambda: images("resnet50"),
    "mobilenet_v3": lambda: images("mobilenet_v3_large"),
    "convnext_tiny": lambda: images("convnext_tiny"),
    "vit_b_16": lambda: images("vit_b_16"),
    "bert": lambda: tokens("BertModel", "BertConfig", "last_hidden_state"),
    "gpt2": lambda: tokens("GPT2LMHeadModel", "GPT2Config", "logits", n_embd=512, n_layer=4, n_head=8, n_positions=256),
    "llama": lambda: tokens("LlamaForCausalLM", "LlamaConfig", "logits", num_key_value_heads=4),
    "unet_2d_condition": unet,
    "lstm": lambda: (Lstm(), {"x": torch.randn(4, 64, 256)}),
}


def timed(call, seconds):
    """The median call of as many as fit."""
    samples, started = [], time.perf_counter()
    while time.perf_counter() - started < seconds or len(samples) < 3:
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


def ours(args, archive, inputs):
    """The median call of the CPU device."""
    command = [args.tpu, "run", str(archive), "--inputs", str(inputs), "--device", "cpu", "--bench", "--seconds", str(args.seconds), "--json"]
    environment = os.environ | {"TPUBRIDGE_CPU_THREADS": str(args.threads)}
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False, text=True)
    if found.returncode != 0:
        raise RuntimeError(found.stderr.strip().splitlines()[0] if found.stderr.strip() else "tpu run failed")
    return json.loads(found.stdout)["bench"]["median_seconds"]


def measure(args, name, folder):
    """Seconds of each engine: the median over rounds."""
    torch.manual_seed(1)
    model, inputs = MODELS[name]()
    model = model.eval()
    with torch.no_grad():
        exported = torch.export.export(model, (), inputs, strict=False)
        archive, given = folder / f"{name}.pt2", folder / f"{name}.0.npz"
        torch.export.save(exported, archive)
        answer = model(**inputs)
        names = zip(exported.graph_signature.user_inputs, inputs.values(), strict=True)
        np.savez(given, **{f"input.{own}": np.asarray(value) for own, value in names}, **{"output.0": np.asarray(answer)})
        checked = subprocess.run([args.tpu, "check", str(archive)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        if checked.returncode != 0:
            print(f"{name}: {checked.stdout.strip()}", file=sys.stderr)
        engines = {"eager": lambda: timed(lambda: model(**inputs), args.seconds)}
        if not args.no_compile:
            compiled = torch.compile(model)
            compiled(**inputs)
            engines["compile"] = lambda: timed(lambda: compiled(**inputs), args.seconds)
        engines["ours"] = lambda: ours(args, archive, given)
        model(**inputs)
        rounds = {engine: [] for engine in engines}
        for _ in range(args.rounds):
            for engine, call in engines.items():
                rounds[engine].append(call())
    archive.unlink()
    return {engine: statistics.median(samples) for engine, samples in rounds.items()}


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    results = {}
    print(f"{'model':20} {'eager ms':>10} {'compile ms':>10} {'ours ms':>10} {'x eager':>8} {'x compile':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            if not re.search(args.only, name):
                continue
            try:
                found = results[name] = measure(args, name, pathlib.Path(folder))
            except Exception as error:  # noqa: BLE001: one model that fails does not end the others
                print(f"{name:20} {type(error).__name__}: {str(error).splitlines()[0][:120]}")
                continue
            cells = [f"{found[engine] * 1e3:10.2f}" if engine in found else f"{'-':>10}" for engine in ("eager", "compile", "ours")]
            ratio = [f"{found[engine] / found['ours']:.2f}" if engine in found else "-" for engine in ("eager", "compile")]
            print(f"{name:20} {' '.join(cells)} {ratio[0]:>8} {ratio[1]:>9}", flush=True)
    for engine in ("eager", "compile"):
        ratios = [found[engine] / found["ours"] for found in results.values() if engine in found]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"geometric mean against {engine}: {mean:.2f} x over {len(ratios)} models")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"torch": torch.__version__, "threads": args.threads, "seconds": results}, indent=1))


if __name__ == "__main__":
    main()
