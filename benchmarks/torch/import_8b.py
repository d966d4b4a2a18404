"""Import time and memory: an archive of the size of Llama 3.1 8B with its weights on disk, to a verified program.

usage: python benchmarks/torch/import_8b.py FOLDER --tpu PATH [--layers 32] [--tokens 4096] [--keep] [--rounds 3]

The model is exported without weights (on PyTorch's `meta` device) and saved; records of weights are then written as holes of the file's size, so that the archive takes
16 GB of address space and little disk. Measured are seconds and the largest resident memory of `tpu hlo ARCHIVE` (verified) and `tpu hlo ARCHIVE --out`.
Needs torch and transformers.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import warnings
import zipfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def exported(layers, tokens):
    """The program of a Llama of 8B parameters, without values."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8,
        max_position_embeddings=131072, rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip

    class Logits(torch.nn.Module):
        """Only the logits."""

        def __init__(self):
            super().__init__()
            self.inner = transformers.LlamaForCausalLM(config)

        def forward(self, input_ids):
            return self.inner(input_ids=input_ids, use_cache=False).logits

    with torch.device("meta"):
        model = Logits().to(torch.bfloat16).eval()
        ids = torch.zeros(1, tokens, dtype=torch.int64)
    # Rotary tables are computed: they are no parameters.
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            module.register_buffer(name, torch.ones(buffer.shape, dtype=buffer.dtype, device="meta"), persistent=False)
    with torch.no_grad():
        return torch.export.export(model, (ids,), strict=False)


def write(program, path):
    """An archive as `torch.export.save` writes it, whose weights are holes."""
    import torch
    from torch._export.serde.serialize import serialize

    artifact = serialize(program)
    values = dict(program.state_dict) | {name: value for name, value in program.constants.items() if isinstance(value, torch.Tensor)}
    order = {torch.bfloat16: 13, torch.float32: 7, torch.int64: 5}

    def meta(value):
        return {
            "dtype": order[value.dtype], "sizes": [{"as_int": int(n)} for n in value.shape], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": int(n)} for n in value.stride()], "storage_offset": {"as_int": 0}, "layout": 7,
        }  # fmt: skip

    root, names = path.stem, {"weights": {}, "constants": {}}
    holes = []
    for name, value in values.items():
        kind = "weights" if name in program.state_dict else "constants"
        record = f"{'weight' if kind == 'weights' else 'tensor'}_{len(names[kind])}"
        names[kind][name] = {"path_name": record, "is_param": kind == "weights", "use_pickle": False, "tensor_meta": meta(value)}
        holes.append((f"{root}/data/{kind}/{record}", value.numel() * value.element_size()))
    texts = {
        "archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", "models/model.json": artifact.exported_program,
        "data/weights/model_weights_config.json": json.dumps({"config": names["weights"]}).encode(),
        "data/constants/model_constants_config.json": json.dumps({"config": names["constants"]}).encode(),
    }  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, data in texts.items():
            archive.writestr(f"{root}/{name}", data)
    append_holes(path, holes)
    return sum(size for _, size in holes)


def append_holes(path, holes):
    """Adds records of zeros to a zip without writing them: headers, holes, and a new central directory."""
    with zipfile.ZipFile(path) as archive:
        directory_at, entries = archive.start_dir, archive.infolist()
    with open(path, "r+b") as file:
        file.seek(directory_at)
        kept = file.read()
        file.seek(directory_at)
        file.truncate()
        central, count = b"", len(entries)
        end = kept.rfind(b"PK\x05\x06")
        directory = kept[: kept.rfind(b"PK\x06\x06") if b"PK\x06\x06" in kept else end]
        for name, size in holes:
            at = file.tell()
            extra = struct.pack("<HHQQ", 1, 16, size, size)
            header = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra))
            file.write(header + name.encode() + extra)
            file.seek(size, os.SEEK_CUR)
            extra = struct.pack("<HHQQQ", 1, 24, size, size, at)
            central += struct.pack(
                "<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra), 0, 0, 0, 0, 0xFFFFFFFF
            ) + name.encode() + extra  # fmt: skip
            count += 1
        start = file.tell()
        file.write(directory + central)
        size = file.tell() - start
        file.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, start))
        file.write(struct.pack("<IIQI", 0x07064B50, 0, start + size, 1))
        file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


# A process without torch, since a child's largest memory counts what it had of its parent.
WATCH = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
output = process.stdout.read()
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([time.perf_counter() - started, usage.ru_maxrss * 1024, status, output]))
"""


def run(command):
    """Seconds, the largest resident memory in bytes, and the output of a command."""
    watched = subprocess.run([sys.executable, "-c", WATCH, *command], stdout=subprocess.PIPE, text=True, check=True)
    seconds, memory, status, output = json.loads(watched.stdout)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}:\n{output[:2000]}")
    return seconds, memory, output


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = pathlib.Path(args.folder) / "llama8b.pt2"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        weights = write(exported(args.layers, args.tokens), path)
        print(f"archive: {path.stat().st_size / 1e9:.2f} GB, {weights / 1e9:.2f} GB of weights")
    for title, more in (("verified", []), ("written", ["--out", str(path.with_suffix(".mlirbc"))])):
        found = [run([args.tpu, "hlo", str(path), *more]) for _ in range(args.rounds)]
        seconds, memory, output = min(found)
        print(f"{title}: {seconds:.2f} s, {memory / 1e6:.0f} MB resident; {output.splitlines()[0] if output else ''}")
    if not args.keep:
        path.unlink()
        path.with_suffix(".mlirbc").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
