"""Perplexity of every method and width on a model: `tpu quantize` for each, one after the other, as a table in Markdown.

    python benchmarks/quant/quality.py FOLDER --calibration FILE --data FILE [--tpu target/release/tpu] [--tokenizer bytes]
        [--only REGEX] [--samples 128] [--windows 200] [--device cpu]

FOLDER is a dense Hugging Face folder of the Llama family. The text of --data is not seen by calibration. The first row is the
dense model. A folder of each result is written to a temporary folder and removed. Results are in benchmarks/results/quant-quality.md.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

# Scheme and method, or bits and method.
ROWS = [
    ("w8a16", "rtn"),
    ("w8a8", "rtn"),
    ("w8a8", "smoothquant"),
    ("w8a16-fp8", "rtn"),
    ("w8a8-fp8", "rtn"),
    ("w4a16", "rtn"),
    ("w4a16", "rotate"),
    ("w4a16", "gptq"),
    ("w4a16", "awq"),
    ("w4a16", "rotate-gptq"),
    ("w4a8", "rtn"),
    ("w4a8", "gptq"),
    ("w4a8", "rotate-gptq"),
    ("w4a16-g128", "rtn"),
    ("w4a16-g128", "gptq"),
    ("w4a16-g128", "rotate-gptq"),
    ("3", "rtn"),
    ("3", "gptq"),
    ("3", "rotate-gptq"),
    ("2", "rtn"),
    ("2", "gptq"),
    ("2", "rotate-gptq"),
    ("w2a16-g64", "gptq"),
    ("w2a16-g64", "rotate-gptq"),
    ("2", "codebook"),
]


def main() -> None:
    """Prints the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--calibration", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tpu", default="target/release/tpu")
    parser.add_argument("--tokenizer")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", default="128")
    parser.add_argument("--windows", default="200")
    parser.add_argument("--sequence", default="512")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    common = ["--json", "-d", args.device, "--windows", args.windows, "--sequence", args.sequence]
    common += ["--tokenizer", args.tokenizer] if args.tokenizer else []
    dense = json.loads(subprocess.run([args.tpu, "eval", args.folder, "--data", args.data, *common], capture_output=True, text=True, check=True).stdout)
    print("| scheme | method | bits a weight | perplexity | more | accuracy kept | seconds |")
    print("|---|---|---:|---:|---:|---:|---:|")
    print(f"| dense | | 16 | {dense['perplexity']:.4f} | | | |", flush=True)
    for scheme, method in ROWS:
        if not re.search(args.only, f"{scheme} {method}"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "quantized"
            width = ["--bits", scheme] if scheme.isdigit() else ["--scheme", scheme]
            command = [args.tpu, "quantize", args.folder, "--out", str(out), *width, "--method", method]
            command += ["--calibration", args.calibration, "--data", args.data, "--samples", args.samples, *common]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode not in (0, 1):
                print(f"| {scheme} | {method} | refused: {done.stderr.strip().splitlines()[0]} | | | | |", flush=True)
                continue
            found = json.loads(done.stdout)
            more = found["after"]["perplexity"] / dense["perplexity"] - 1
            seconds = sum(layer["seconds"] for layer in found["layers"])
            name = f"{scheme} bits" if scheme.isdigit() else scheme
            print(
                f"| {name} | {method} | {found['bits_per_weight']:.2f} | {found['after']['perplexity']:.4f} | {more:+.2%} "
                f"| {found['accuracy_kept']:.2%} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
