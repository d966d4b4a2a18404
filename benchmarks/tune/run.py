"""Exports programs, tunes them, runs before and after in JAX, and writes a table.

python benchmarks/tune/run.py FOLDER --tpu target/release/tpu --jax-python PYTHON --torch-python PYTHON [--only NAME ...]

Everything is left in FOLDER: programs, NAME.json (what `tpu tune --json` printed), NAME.html, NAME.jax.txt. With `--write FILE` a table of
all programs that have been tuned is written.
"""

import argparse
import json
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
PROGRAMS = {
    "gpt2": ("jax", "GPT-2 124M, training step, 8 × 1024, plain attention, AdamW"),
    "llama": ("torch", "Llama with GQA, prefill, 4 layers of 2048, 4096 tokens, eager attention"),
    "llama_train": ("jax", "Llama with GQA, training step, 4 layers of 2048, 2 × 2048, scanned layers, grouped einsums"),
    "llama_mesh": ("jax", "the same, 16 × 2048 on 2 × 4 devices, data and tensor parallelism", "v6e-8"),
    "mixtral": ("jax", "Mixtral, prefill, 4 layers of 2048, 8 experts, 4096 tokens"),
    "mixtral_train": ("jax", "Mixtral, training step, 2 layers of 2048, 8 experts, 2048 tokens, bf16"),
    "mixtral_mesh": ("jax", "Mixtral, prefill, 4 layers of 2048, 8 experts, 16 × 2048 on 2 × 4 devices", "v6e-8"),
    "mixtral_train_mesh": ("jax", "Mixtral, training step, 2 layers of 2048, 8 experts, 16 × 2048 on 2 × 4 devices, bf16", "v6e-8"),
    "deepseek": ("jax", "DeepSeek, prefill, 4 layers of 2048, multi-head latent attention, 2 × 2048"),
    "gemma2": ("jax", "Gemma 2, training step, 4 layers of 2048, soft caps and windows, 2 × 2048, bf16"),
    "vocabulary": ("jax", "vocabulary of 128,256, training step, one layer of 2048, 40 × 4096"),
    "vit": ("torch", "ViT-B/16 of transformers, 32 images of 224, f32"),
    "unet": ("torch", "diffusion U-Net, 2 × 64 × 64 latents, self- and cross-attention, f32"),
}


def export(name, arguments):
    kind = PROGRAMS[name][0]
    ending = "mlir" if kind == "jax" else "pt2"
    paths = [arguments.folder / f"{name}.{ending}", arguments.folder / f"{name}.small.{ending}"]
    for path, size in zip(paths, ("full", "small")):
        if not path.exists():
            python = arguments.jax_python if kind == "jax" else arguments.torch_python
            subprocess.run([python, HERE / f"programs_{kind}.py", name, size, arguments.folder], check=True)
    return paths


def tune(name, arguments):
    file, small = export(name, arguments)
    out = lambda ending: str(arguments.folder / f"{name}.{ending}")
    command = [arguments.tpu, "tune", file, "--check-on", small, "--slice", (*PROGRAMS[name], arguments.slice)[2], "--budget", arguments.budget, "--json"]
    command += ["--out", out("tuned.mlir"), "--out-check", out("small.tuned.mlir"), "--html", out("html")]
    command += ["--no-flags"] if arguments.no_flags else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode > 1:
        raise SystemExit(f"{name}: tpu tune ended with {done.returncode}")
    pathlib.Path(out("json")).write_text(done.stdout)
    # JAX reads StableHLO; archives of PyTorch are translated first.
    before = small
    if small.suffix != ".mlir":
        before = arguments.folder / f"{name}.small.mlir"
        text = subprocess.run([arguments.tpu, "hlo", small, "--print"], check=True, stdout=subprocess.PIPE, text=True).stdout
        before.write_text(text)
    command = [arguments.jax_python, HERE / "run_in_jax.py", before, out("small.tuned.mlir"), "--compile", out("tuned.mlir")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    pathlib.Path(out("jax.txt")).write_text(done.stdout if done.returncode == 0 else f"failed with {done.returncode}\n")


def table(arguments):
    gib = lambda bytes: f"{bytes / 2**30:.2f}"
    lines = [
        "| program | step before, ms | after, ms | faster | HBM before, GiB | after | results moved (allowed) | kept |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    notes = []
    for name, (_, title, *_) in PROGRAMS.items():
        path = arguments.folder / f"{name}.json"
        if not path.exists():
            continue
        record = json.loads(path.read_text())
        before, after = record["before"], record["after"]
        kept = [trial for trial in record["trials"] if trial["outcome"] == "kept"]
        moved = [trial["results"] for trial in kept if trial["results"]]
        worst = max(moved, key=lambda one: one["deviation"], default=None)
        moved = f"{worst['deviation']:.1e} ({worst['tolerance']:.1e})" if worst else "-"
        lines.append(
            f"| {title} | {1e3 * before['step']['seconds']:.2f} | {1e3 * after['step']['seconds']:.2f} | "
            f"{record['speedup']:.2f} × | {gib(before['hbm_bytes'])} | {gib(after['hbm_bytes'])} | {moved} | "
            f"{', '.join(trial['name'] for trial in kept) or 'nothing'} |"
        )
        jax = arguments.folder / f"{name}.jax.txt"
        if jax.exists():
            notes.append(f"- {name}: {jax.read_text().strip()}")
    return "\n".join(lines) + "\n\nIn JAX on its CPU backend:\n\n" + "\n".join(notes) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tpu", default="tpu")
    parser.add_argument("--jax-python", default="python")
    parser.add_argument("--torch-python", default="python")
    parser.add_argument("--slice", default="v6e-1")
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--no-flags", action="store_true", help="leave compiler flags as they are")
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        tune(name, arguments)
    print(table(arguments))
    if arguments.write:
        arguments.write.write_text(table(arguments))
