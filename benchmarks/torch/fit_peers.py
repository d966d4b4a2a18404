"""HBM and step estimate of `tpu fit model.pt2` beside the same model exported through PyTorch/XLA and written in JAX.

usage: python benchmarks/torch/fit_peers.py FOLDER --tpu PATH --torch-python PYTHON --jax-python PYTHON [--slice v6e-1 ...] [--only REGEX] [--full]
       [--markdown FILE]

For each model FOLDER gets NAME.pt2 (torch.export), NAME.torch_xla.mlir.bc (PyTorch/XLA's exporter over the same archive), NAME.jax.mlir (plain JAX, the
same shapes and types) and the records of `tpu fit`. What is there is not made again. Every program is made and read in a process of its own. Needs
TPUBRIDGE_LIBTPU; --torch-python has torch, torch_xla and transformers (crates/testkit/python/requirements-torch.txt), --jax-python has jax. No TPU.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

# Model, type, batch, tokens of a sequence or pixels of a side.
MODELS = {
    "gpt2": ("GPT-2 small, 12 layers of 768", "bf16", 8, 512),
    "llama": ("Llama, one layer of 4096, 8 KV heads, vocabulary 32,000", "bf16", 4, 1024),
    "vit": ("ViT-B/16", "bf16", 32, 224),
    "bert": ("BERT base", "f32", 16, 256),
    "resnet50": ("ResNet-50", "f32", 64, 224),
}
FORMS = {"pt2": "{}.pt2", "torch_xla": "{}.torch_xla.mlir.bc", "jax": "{}.jax.mlir"}
TITLES = {"pt2": "`model.pt2`", "torch_xla": "PyTorch/XLA", "jax": "JAX"}


def torch_model(name):
    """The module, and example inputs."""
    import torch
    import transformers as hf

    from torch import nn
    from torch.nn import functional as F

    class Picked(nn.Module):
        """One tensor of a model's answer."""

        def __init__(self, inner, field):
            super().__init__()
            self.inner, self.field = inner, field

        def forward(self, x):
            return getattr(self.inner(x), self.field)

    # Decoders are written here: those of transformers 4.57 do not serialize with the PyTorch that PyTorch/XLA needs.
    class Gpt2Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (12, 64)).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, -1))
            x = x + self.output(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self, width=768):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(50257, width), nn.Embedding(1024, width)
            self.layers, self.norm = nn.Sequential(*(Gpt2Layer(width) for _ in range(12))), nn.LayerNorm(width)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            return self.norm(self.layers(x)) @ self.tokens.weight.T

    class LlamaLayer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.RMSNorm(4096, 1e-6), nn.RMSNorm(4096, 1e-6)
            of = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
            self.query, self.key, self.value, self.output = of(4096, 4096), of(4096, 1024), of(4096, 1024), of(4096, 4096)
            self.gate, self.up, self.down = of(4096, 14336), of(4096, 14336), of(14336, 4096)

        def forward(self, x, cos, sin):
            heads = lambda x: x.unflatten(-1, (-1, 128)).transpose(1, 2)
            turned = lambda x: x * cos + torch.cat([-x[..., 64:], x[..., :64]], -1) * sin
            inside = self.norm_1(x)
            q, k, v = turned(heads(self.query(inside))), turned(heads(self.key(inside))), heads(self.value(inside))
            x = x + self.output(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2))
            inside = self.norm_2(x)
            return x + self.down(F.silu(self.gate(inside)) * self.up(inside))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.layer, self.norm = nn.Embedding(32000, 4096), LlamaLayer(), nn.RMSNorm(4096, 1e-6)
            self.head = nn.Linear(4096, 32000, bias=False)

        def forward(self, ids):
            x = self.tokens(ids)
            angles = torch.arange(ids.shape[1], dtype=torch.float32)[:, None] * 10000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float32) / 128)
            cos, sin = (torch.cat([angle] * 2, -1).to(x.dtype) for angle in (angles.cos(), angles.sin()))
            return self.head(self.norm(self.layer(x, cos, sin)))

    _, dtype, batch, size = MODELS[name]
    torch.set_default_dtype({"bf16": torch.bfloat16, "f32": torch.float32}[dtype])
    ids, pixels = torch.zeros(batch, size, dtype=torch.int64), torch.zeros(batch, 3, size, size)
    made = {
        "gpt2": lambda: (Gpt2(), ids),
        "llama": lambda: (Llama(), ids),
        "vit": lambda: (Picked(hf.ViTForImageClassification(hf.ViTConfig(num_labels=1000)), "logits"), pixels),
        "bert": lambda: (Picked(hf.BertModel(hf.BertConfig(), add_pooling_layer=False), "last_hidden_state"), ids),
        "resnet50": lambda: (Picked(hf.ResNetForImageClassification(hf.ResNetConfig(num_labels=1000)), "logits"), pixels),
    }
    model, x = made[name]()
    return model.eval(), (x,)


def make_pt2(name, path):
    """`torch.export` of the module."""
    import torch

    model, inputs = torch_model(name)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, inputs), path)


def make_torch_xla(name, path):
    """PyTorch/XLA's StableHLO of the same program."""
    os.environ["PJRT_DEVICE"] = "CPU"
    import torch
    from torch_xla.stablehlo import exported_program_to_stablehlo

    # The exporter keeps weights beside the program as NumPy arrays, which have no bf16: only their bits are wanted.
    as_numpy = torch.Tensor.numpy
    torch.Tensor.numpy = lambda self, *args, **options: as_numpy(self.view(torch.int16) if self.dtype == torch.bfloat16 else self, *args, **options)
    model, inputs = torch_model(name)
    with torch.no_grad():
        graph = exported_program_to_stablehlo(torch.export.export(model, inputs))
    pathlib.Path(path).write_bytes(graph.get_stablehlo_bytecode())


def make_jax(name, path):
    """The same model in plain JAX: weights `[in, out]`, images with channels last, layers one after the other."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    _, dtype, batch, size = MODELS[name]
    dtype = {"bf16": jnp.bfloat16, "f32": jnp.float32}[dtype]
    weight = lambda *dims: jax.ShapeDtypeStruct(dims, dtype)
    linear = lambda inputs, outputs: {"kernel": weight(inputs, outputs), "bias": weight(outputs)}
    norm = lambda width: {"scale": weight(width), "bias": weight(width)}

    def layer_norm(x, p, epsilon=1e-5):
        x = x.astype(jnp.float32)
        centered = x - x.mean(-1, keepdims=True)
        normal = centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + epsilon)
        return (normal * p["scale"] + p["bias"]).astype(dtype)

    def rms_norm(x, scale):
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)).astype(dtype) * scale

    def apply(x, p):
        return x @ p["kernel"] + p["bias"]

    def attention(q, k, v, is_causal):
        return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal).reshape(*q.shape[:2], -1)

    def gelu(x):
        # PyTorch's formula; JAX's own has erfc, for which the compiler writes the inputs and a mask to HBM.
        return x * (jax.lax.erf(x * 2**-0.5) + 1) * 0.5

    def heads(x, p, count):
        return apply(x, p).reshape(*x.shape[:2], count, -1)

    width = 768
    block = {"norm_1": norm(width), "norm_2": norm(width), "output": linear(width, width), "up": linear(width, 4 * width), "down": linear(4 * width, width)}
    parts = {"query": linear(width, width), "key": linear(width, width), "value": linear(width, width)}

    def gpt2(p, ids):
        x = p["tokens"][ids] + p["positions"][: ids.shape[1]]
        for layer in p["layers"]:
            q, k, v = jnp.split(apply(layer_norm(x, layer["norm_1"]), layer["qkv"]), 3, axis=-1)
            mixed = attention(*(part.reshape(*part.shape[:2], 12, 64) for part in (q, k, v)), True)
            x = x + apply(mixed, layer["output"])
            x = x + apply(jax.nn.gelu(apply(layer_norm(x, layer["norm_2"]), layer["up"]), approximate=True), layer["down"])
        return layer_norm(x, p["norm"]) @ p["tokens"].T

    def llama(p, ids):
        x = p["tokens"][ids]
        angles = jnp.arange(ids.shape[1])[:, None] * 10000.0 ** (-jnp.arange(0, 128, 2) / 128)
        cos, sin = (jnp.concatenate([f(angles)] * 2, -1).astype(dtype)[:, None] for f in (jnp.cos, jnp.sin))
        turned = lambda x: x * cos + jnp.concatenate([-x[..., 64:], x[..., :64]], -1) * sin
        for layer in p["layers"]:
            inside = rms_norm(x, layer["norm_1"])
            q, k, v = ((inside @ layer[part]).reshape(*x.shape[:2], -1, 128) for part in ("query", "key", "value"))
            x = x + attention(turned(q), turned(k), v, True) @ layer["output"]
            inside = rms_norm(x, layer["norm_2"])
            x = x + (jax.nn.silu(inside @ layer["gate"]) * (inside @ layer["up"])) @ layer["down"]
        return rms_norm(x, p["norm"]) @ p["head"]

    def vit(p, pixels):
        x = jax.lax.conv_general_dilated(pixels, p["patches"]["kernel"], (16, 16), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = (x + p["patches"]["bias"]).reshape(batch, -1, width)
        x = jnp.concatenate([jnp.broadcast_to(p["class"], (batch, 1, width)), x], 1) + p["positions"]
        for layer in p["layers"]:
            inside = layer_norm(x, layer["norm_1"], 1e-12)
            x = x + apply(attention(*(heads(inside, layer[part], 12) for part in ("query", "key", "value")), False), layer["output"])
            x = x + apply(gelu(apply(layer_norm(x, layer["norm_2"], 1e-12), layer["up"])), layer["down"])
        return apply(layer_norm(x, p["norm"], 1e-12)[:, 0], p["head"])

    def bert(p, ids):
        x = layer_norm(p["tokens"][ids] + p["positions"][: ids.shape[1]] + p["types"][0], p["norm"], 1e-12)
        for layer in p["layers"]:
            mixed = attention(*(heads(x, layer[part], 12) for part in ("query", "key", "value")), False)
            x = layer_norm(x + apply(mixed, layer["output"]), layer["norm_1"], 1e-12)
            x = layer_norm(x + apply(gelu(apply(x, layer["up"])), layer["down"]), layer["norm_2"], 1e-12)
        return x

    conv = lambda size, inputs, outputs: {"kernel": weight(size, size, inputs, outputs), **{part: weight(outputs) for part in ("scale", "bias", "mean", "var")}}

    def normed(x, p, stride=1):
        x = jax.lax.conv_general_dilated(x, p["kernel"], (stride, stride), [(p["kernel"].shape[0] // 2,) * 2] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (x - p["mean"]) * (jax.lax.rsqrt(p["var"] + 1e-5) * p["scale"]) + p["bias"]

    stages = [(64, 256, 3), (128, 512, 4), (256, 1024, 6), (512, 2048, 3)]

    def bottleneck(inputs, inner, outputs, is_first):
        made = {"one": conv(1, inputs, inner), "two": conv(3, inner, inner), "three": conv(1, inner, outputs)}
        return made | ({"shortcut": conv(1, inputs, outputs)} if is_first else {})

    def resnet50(p, pixels):
        x = jax.nn.relu(normed(pixels, p["stem"], 2))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
        for number, stage in enumerate(p["stages"]):
            for place, layer in enumerate(stage):
                stride = 2 if number > 0 and place == 0 else 1
                y = jax.nn.relu(normed(x, layer["one"]))
                y = normed(jax.nn.relu(normed(y, layer["two"], stride)), layer["three"])
                x = jax.nn.relu(y + (normed(x, layer["shortcut"], stride) if "shortcut" in layer else x))
        return apply(x.mean((1, 2)), p["head"])

    of_llama = {"query": weight(4096, 4096), "key": weight(4096, 1024), "value": weight(4096, 1024), "output": weight(4096, 4096)}
    of_llama |= {"gate": weight(4096, 14336), "up": weight(4096, 14336), "down": weight(14336, 4096), "norm_1": weight(4096), "norm_2": weight(4096)}
    ids, pixels = jax.ShapeDtypeStruct((batch, size), jnp.int32), weight(batch, size, size, 3)
    vocabulary = {"gpt2": 50257, "bert": 30522}
    table = lambda: {"tokens": weight(vocabulary[name], width), "norm": norm(width)}
    blocks, inputs = [], 64
    for inner, outputs, count in stages:
        blocks.append([bottleneck(inputs, inner, outputs, True)] + [bottleneck(outputs, inner, outputs, False)] * (count - 1))
        inputs = outputs
    made = {
        "gpt2": lambda: (gpt2, table() | {"positions": weight(1024, width), "layers": [block | {"qkv": linear(width, 3 * width)}] * 12}, ids),
        "llama": lambda: (llama, {"tokens": weight(32000, 4096), "layers": [of_llama], "norm": weight(4096), "head": weight(4096, 32000)}, ids),
        "vit": lambda: (vit, {"patches": {"kernel": weight(16, 16, 3, width), "bias": weight(width)}, "class": weight(1, 1, width), "positions": weight(1, 197, width),
                              "layers": [block | parts] * 12, "norm": norm(width), "head": linear(width, 1000)}, pixels),
        "bert": lambda: (bert, table() | {"positions": weight(512, width), "types": weight(2, width), "layers": [block | parts] * 12}, ids),
        "resnet50": lambda: (resnet50, {"stem": conv(7, 3, 64), "stages": blocks, "head": linear(2048, 1000)}, pixels),
    }  # fmt: skip
    function, params, inputs = made[name]()
    lowered = jax.jit(function).trace(params, inputs).lower(lowering_platforms=("tpu",))
    pathlib.Path(path).write_text(lowered.as_text(debug_info=True))


def fitted(args, folder, name, form, slice_name):
    """The record of `tpu fit`, kept in a file."""
    kept = folder / f"{name}.{form}.{slice_name}{'.full' if args.full else ''}.json"
    if not kept.exists():
        command = [args.tpu, "fit", str(folder / FORMS[form].format(name)), "--slice", slice_name, "--json", "--plugin", os.environ["TPUBRIDGE_LIBTPU"], *(["--full"] if args.full else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr.strip()[-600:])
        kept.write_text(done.stdout)
    return json.loads(kept.read_text())


def main():
    """The command line."""
    if sys.argv[1:2] == ["--make"]:
        form, name, path = sys.argv[2:5]
        return {"pt2": make_pt2, "torch_xla": make_torch_xla, "jax": make_jax}[form](name, path)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--jax-python", required=True)
    parser.add_argument("--slice", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for slice_name in args.slice or ["v6e-1", "v5e-1"]:
        lines += ["", f"## {slice_name}", "", "| model | type | program | HBM, MiB | to JAX | step, ms | to JAX |", "|---|---|---|---:|---:|---:|---:|"]
        for name, (title, dtype, _, _) in MODELS.items():
            if not re.search(args.only, name):
                continue
            found = {}
            for form in FORMS:
                path = args.folder / FORMS[form].format(name)
                python = args.jax_python if form == "jax" else args.torch_python
                try:
                    if not path.exists():
                        # Under another name until it is whole; PyTorch asks for the extension.
                        part = path.with_name(f"part.{path.name}")
                        subprocess.run([python, "-B", __file__, "--make", form, name, str(part)], check=True, capture_output=True, text=True)
                        part.rename(path)
                    record = fitted(args, args.folder, name, form, slice_name)
                    found[form] = (record["verdict"]["needed_bytes"] / 2**20, record["estimate"]["step"]["seconds"] * 1e3)
                except (RuntimeError, subprocess.CalledProcessError) as error:
                    print(f"{name} {form}: {error} {getattr(error, 'stderr', '') or ''}"[-1500:], file=sys.stderr)
            for form, (bytes_, step) in found.items():
                base = found.get("jax")
                ratio = lambda n: f"{(found[form][n] / base[n] - 1):+.1%}" if base and form != "jax" else ""
                lines.append(f"| {title} | {dtype} | {TITLES[form]} | {bytes_:.1f} | {ratio(0)} | {step:.3f} | {ratio(1)} |")
                print(lines[-1], flush=True)
    if args.markdown:
        args.markdown.write_text("\n".join(lines).lstrip("\n") + "\n")


if __name__ == "__main__":
    main()
