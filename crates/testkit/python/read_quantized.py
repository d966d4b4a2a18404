"""Reads quantized models that tpubridge wrote, with the tools that define their formats, and writes what they make of them.

    python read_quantized.py (FOLDER|FILE.gguf DENSE.safetensors)...

A folder is of compressed-tensors, a file of the `gguf` package. Where a folder has the configuration of a whole model
(`architectures`), transformers loads it, and the logits of some tokens are written too.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file


def compressed(folder):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.utils.match import match_name

    config = QuantizationConfig.model_validate(json.loads((folder / "config.json").read_text())["quantization_config"])
    tensors = load_file(folder / "model.safetensors")
    modules = {name.removesuffix(".weight_scale") for name in tensors if name.endswith(".weight_scale")}
    dense = {}
    for name, value in tensors.items():
        if name.rsplit(".", 1)[0] not in modules:
            dense[name] = value
    for module in modules:
        # Patterns before classes.
        schemes = sorted(config.config_groups.values(), key=lambda scheme: "Linear" in scheme.targets)
        scheme = next(scheme for scheme in schemes
                      if any(match_name(module, target) or target == "Linear" for target in scheme.targets))
        parts = {name.removeprefix(module + "."): value for name, value in tensors.items()
                 if name.rsplit(".", 1)[0] == module}
        compressor = BaseCompressor.get_value_from_registry(scheme.format)
        needed = set(compressor.compression_param_names(scheme))
        assert needed <= set(parts), (module, needed - set(parts))
        dense[f"{module}.weight"] = compressor.decompress(parts, scheme)["weight"]
    return dense


def gguf_file(path):
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(path)
    dense = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        dense[tensor.name] = torch.from_numpy(np.array(values, dtype=np.float32)).reshape(
            [int(size) for size in reversed(tensor.shape)])
    counts = {key: field.contents() for key, field in reader.fields.items() if key.startswith(("llama.", "general."))}
    print(json.dumps(counts, default=str))
    return dense


def logits(folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.arange(1, 13).reshape(1, 12) * 7 % 96).logits[0].float()


if __name__ == "__main__":
    for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
        source = pathlib.Path(source)
        found = gguf_file(source) if source.suffix == ".gguf" else compressed(source)
        if source.is_dir() and "architectures" in json.loads((source / "config.json").read_text()):
            found["logits"] = logits(source)
        save_file({name: value.contiguous() for name, value in found.items()}, target)
