"""Exports small models with torch.export and trains them with PyTorch itself: what tpu's trainings are compared with.

usage: train_torch.py export FOLDER     FOLDER has NAME.json: what to make of which batches
       train_torch.py check FOLDER      loads every NAME.safetensors into its model and says the loss of the first batch

NAME.json: {"model": {...}, "optimizer": "adamw" | "sgd", "learning_rate": .., "weight_decay": .., "momentum": .., "steps": ..,
"dialect": "raw" | "functional" | "decomposed", "arrays": [input, target]}. NAME.batches.npz has the arrays of all steps, one after
the other. Written: NAME.pt2, NAME.losses.json, NAME.trained.npz (the state dict after the last step).
"""

import json
import pathlib
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A residual block of two convolutions, written as torchvision writes it: in place."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network for small images."""

    def __init__(self, widths: list[int], depths: list[int], classes: int, dropout: float = 0.0):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        inputs, layers = widths[0], []
        for n, (width, depth) in enumerate(zip(widths, depths)):
            strides = [1 if n == 0 else 2] + [1] * (depth - 1)
            blocks = [Block(inputs if b == 0 else width, width, stride) for b, stride in enumerate(strides)]
            layers.append(nn.Sequential(*blocks))
            inputs = width
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images):
        x = self.relu(self.bn1(self.conv1(images)))
        for layer in self.layers:
            x = layer(x)
        return self.fc(self.dropout(x.mean((2, 3))))


def gpt2(sizes: dict) -> nn.Module:
    """Hugging Face's GPT-2; its masks are made without vmap, which torch.export cannot save."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.integrations.executorch import sdpa_mask_without_vmap
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_MASK_ATTENTION_FUNCTIONS.register("sdpa_without_vmap", sdpa_mask_without_vmap)
    ALL_ATTENTION_FUNCTIONS.register("sdpa_without_vmap", ALL_ATTENTION_FUNCTIONS["sdpa"])
    config = GPT2Config(**sizes, use_cache=False)
    config._attn_implementation = "sdpa_without_vmap"
    return GPT2LMHeadModel(config)


def made(sizes: dict) -> nn.Module:
    """The model of a description, with the same weights every time."""
    torch.manual_seed(0)
    sizes = dict(sizes)
    kind = sizes.pop("kind")
    model = gpt2(sizes) if kind == "gpt2" else ResNet(**sizes)
    return model.train()


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy over the last axis."""
    result = model(inputs)
    logits = getattr(result, "logits", result)
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten().long())


def export(folder: pathlib.Path, name: str, task: dict) -> float:
    """Exports and trains one model; seconds of a step."""
    model = made(task["model"])
    arrays = numpy.load(folder / f"{name}.batches.npz")
    inputs, targets = (torch.from_numpy(arrays[array]).chunk(task["steps"]) for array in task["arrays"])
    if task["model"]["kind"] == "gpt2":
        inputs = [tokens.long() for tokens in inputs]
        program = torch.export.export(model, (), {"input_ids": inputs[0]}, strict=False)
    else:
        program = torch.export.export(model, (inputs[0],), dynamic_shapes={"images": {0: torch.export.Dim("batch")}})
    if task["dialect"] == "functional":
        program = program.run_decompositions({})
    elif task["dialect"] == "decomposed":
        program = program.run_decompositions()
    torch.export.save(program, str(folder / f"{name}.pt2"))
    rates = {"lr": task["learning_rate"], "weight_decay": task["weight_decay"]}
    if task["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), momentum=task["momentum"], **rates)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **rates)
    # The export ran the model once, which may have moved running statistics.
    model.load_state_dict(made(task["model"]).state_dict())
    losses, seconds = [], []
    for batch, target in zip(inputs, targets):
        started = time.monotonic()
        optimizer.zero_grad()
        loss = loss_of(model, batch, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.monotonic() - started)
    (folder / f"{name}.losses.json").write_text(json.dumps(losses))
    trained = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    numpy.savez(folder / f"{name}.trained.npz", **trained)
    return sorted(seconds)[len(seconds) // 2]


def check(folder: pathlib.Path, name: str, task: dict) -> None:
    """Loads trained weights into the model, every name of them, and prints the loss of the first batch."""
    from safetensors.torch import load_file

    if not (folder / f"{name}.safetensors").exists():
        return
    model = made(task["model"])
    model.load_state_dict(load_file(folder / f"{name}.safetensors"), strict=True)
    arrays = numpy.load(folder / f"{name}.batches.npz")
    inputs, targets = (torch.from_numpy(arrays[array]).chunk(task["steps"])[0] for array in task["arrays"])
    if task["model"]["kind"] == "gpt2":
        inputs = inputs.long()
    with torch.no_grad():
        print(json.dumps({"name": name, "loss": loss_of(model.eval(), inputs, targets).item()}))


def main() -> int:
    """One thing to do with every description of a folder."""
    doing, folder = {"export": export, "check": check}[sys.argv[1]], pathlib.Path(sys.argv[2])
    # The models are small: threads would mostly wait for each other.
    torch.set_num_threads(1)
    for path in sorted(folder.glob("*.json")):
        if path.name.count(".") == 1:
            doing(folder, path.stem, json.loads(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
