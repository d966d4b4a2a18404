"""Has PyTorch export small models to ONNX, with its own answers: `export_onnx_models.py FOLDER PACKAGES`.

`NAME.onnx` with `NAME.0.npz` beside it (`input.*`, `output.*`), as `tpu check` takes them. PACKAGES is where `onnx` is installed, which the
exporter needs.
"""

import pathlib
import site
import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FOLDER = pathlib.Path(sys.argv[1])
site.addsitedir(sys.argv[2])
warnings.filterwarnings("ignore")


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, bidirectional=True)
        self.gru = nn.GRU(32, 12)
        self.rnn = nn.RNN(12, 6)

    def forward(self, x):
        y, (hidden, cell) = self.lstm(x)
        z, last = self.gru(y)
        return z, hidden, cell, last, self.rnn(z)[0]


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 16, 3, 2, 1)
        self.group = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.slope = nn.PReLU(8)

    def forward(self, x):
        h = self.norm(self.first(x))
        d = functional.silu(self.group(self.down(h)))
        wide = functional.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        other = functional.interpolate(d, size=(13, 9), mode="bicubic", align_corners=True)
        pooled = functional.avg_pool2d(d, 3, 2, 1), functional.max_pool2d(h, 3, 2, 1, ceil_mode=True)
        return torch.cat([h, self.slope(self.up(d)), wide], 1), other, *pooled


class Called(nn.Module):
    """A model of transformers, called in its own way."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


def save(name, model, inputs, names, open_axes=None):
    model = model.eval()
    with torch.no_grad():
        outputs = model(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    options = {"dynamo": False, "opset_version": 17, "input_names": names, "dynamic_axes": open_axes}
    torch.onnx.export(model, inputs, FOLDER / f"{name}.onnx", **options)
    arrays = {f"input.{own}": value.numpy() for own, value in zip(names, inputs)}
    arrays |= {f"output.{n}": value.numpy() for n, value in enumerate(outputs)}
    np.savez(FOLDER / f"{name}.0.npz", **arrays)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    save("recurrent", Recurrent(), (torch.randn(5, 3, 8),), ["x"], {"x": {0: "time", 1: "batch"}})
    save("images", Images(), (torch.randn(2, 3, 16, 16),), ["x"], {"x": {0: "batch"}})

    import transformers

    ids = torch.randint(0, 90, (2, 7))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "attn_implementation": "eager"}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=99, **sizes))
    axes = {0: "batch", 1: "sequence"}
    bert = Called(bert, lambda model, ids, mask: model(ids, attention_mask=mask)[0])
    save("bert", bert, (ids, torch.ones_like(ids)), ["ids", "mask"], {"ids": axes, "mask": axes})
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes))
    save("vit", Called(vit, lambda model, x: model(x)[0]), (torch.randn(2, 3, 32, 32),), ["x"])
    config = transformers.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    save("swin", Called(transformers.SwinModel(config), lambda model, x: model(x)[0]), (torch.randn(1, 3, 32, 32),), ["x"])
    config = transformers.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    t5 = Called(
        transformers.T5ForConditionalGeneration(config),
        lambda model, ids, decoded: model(input_ids=ids, decoder_input_ids=decoded, use_cache=False)[0],
    )
    save("t5", t5, (ids, ids[:, :4]), ["ids", "decoded"])


main()
