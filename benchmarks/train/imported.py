"""Losses and time of imported PyTorch programs in `tpu train` beside PyTorch's own training: same data, same optimizer.

    TORCH_PYTHON benchmarks/train/imported.py --tpu target/release/tpu [--model gpt2-small] [--steps 50] [--threads 2]

Run it with a Python that has PyTorch and transformers. For each model it exports the archive, trains it with PyTorch, and trains the
archive with `tpu train` on one device, on eight virtual ones (`--mesh data=4,model=2`), and with layers unrolled. Prints a table in
Markdown: the largest difference of a loss, seconds of a step, seconds until the first step.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "crates/testkit/python"))
import train_torch  # noqa: E402

NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
ADAMW = {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01}
SGD = {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 1e-4, "momentum": 0.9}
MODELS = {
    "gpt2-tiny": dict(kind="gpt2", vocab_size=256, n_positions=64, n_embd=64, n_layer=4, n_head=4, **NO_DROPOUT),
    "gpt2-small": dict(kind="gpt2", vocab_size=2048, n_positions=128, n_embd=256, n_layer=8, n_head=8, **NO_DROPOUT),
    "gpt2-deep": dict(kind="gpt2", vocab_size=256, n_positions=64, n_embd=64, n_layer=32, n_head=4, **NO_DROPOUT),
    "gpt2-124m": dict(kind="gpt2", vocab_size=50257, n_positions=256, n_embd=768, n_layer=12, n_head=12, **NO_DROPOUT),
    "resnet-20": dict(kind="resnet", widths=[16, 32, 64], depths=[3, 3, 3], classes=10),
    "resnet-56": dict(kind="resnet", widths=[16, 32, 64], depths=[9, 9, 9], classes=10),
}
BATCH = 8


def write_task(folder: pathlib.Path, name: str, steps: int) -> dict:
    """Data and description of a model."""
    sizes, draw = MODELS[name], numpy.random.default_rng(0)
    if sizes["kind"] == "gpt2":
        # A chain with something to learn: most tokens follow from the one before.
        rows, length = steps * BATCH, sizes["n_positions"]
        tokens = numpy.zeros((rows, length + 1), numpy.int64)
        tokens[:, 0] = draw.integers(0, sizes["vocab_size"], rows)
        for at in range(1, length + 1):
            free = draw.integers(0, sizes["vocab_size"], rows)
            tokens[:, at] = numpy.where(draw.random(rows) < 0.7, (tokens[:, at - 1] * 5 + 7) % sizes["vocab_size"], free)
        arrays = {"input_ids": tokens[:, :-1].astype("int32"), "targets": tokens[:, 1:].astype("int32")}
    else:
        labels = draw.integers(0, 10, steps * BATCH)
        images = draw.standard_normal((steps * BATCH, 3, 32, 32)).astype("float32")
        images[numpy.arange(len(labels)), 0, labels, :] += 2.0
        arrays = {"images": images, "labels": labels}
    numpy.savez(folder / f"{name}.batches.npz", **arrays)
    how = ADAMW if sizes["kind"] == "gpt2" else SGD
    task = dict(model=sizes, steps=steps, dialect="raw", arrays=list(arrays), **how)
    (folder / f"{name}.json").write_text(json.dumps(task))
    settings = "\n".join(f"{key} = {value!r}" for key, value in how.items() if key != "optimizer")
    (folder / f"{name}.toml").write_text(
        f'[model]\nprogram = "{name}.pt2"\n[data]\nkind = "arrays"\nfiles = ["{name}.batches.npz"]\nshuffle = false\n'
        f'validation_fraction = 0.0\n[optimizer]\nname = "{how["optimizer"]}"\n{settings}\n'
        f"[train]\nsteps = {steps}\nbatch_size = {BATCH}\nlog_every = 1\n"
    )
    return task


def trained(tpu: str, folder: pathlib.Path, name: str, form: str, options: list[str]) -> tuple[list[float], float, float]:
    """Losses of `tpu train`, seconds of a step, and seconds before the first."""
    run = folder / f"{name}-{form}"
    command = [tpu, "train", str(folder / f"{name}.toml"), "--folder", str(run), "--device", "cpu", "--json", *options]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    whole = time.monotonic() - started
    lines = [json.loads(line) for path in (run / "metrics").glob("*.jsonl") for line in path.read_text().splitlines()]
    steps = sorted((line for line in lines if "loss" in line), key=lambda line: line["step"])
    seconds = sorted(line["step_seconds"] for line in steps[1:] if "step_seconds" in line)
    step = seconds[len(seconds) // 2] if seconds else json.loads(done.stdout)["step_seconds"]
    return [line["loss"] for line in steps], step, whole - step * len(steps)


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--model", action="append", choices=list(MODELS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    args = parser.parse_args()
    forms = {"loops": [], "mesh data=4,model=2": ["--mesh", "data=4,model=2"], "unrolled": ["--with", "model.scan_layers=false"]}
    print("| model | form | largest difference of a loss | step | start | PyTorch's step |\n|---|---|---|---|---|---|")
    for name in args.model or ["gpt2-small", "resnet-20"]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            task = write_task(folder, name, args.steps)
            train_torch.torch.set_num_threads(args.threads)
            torch_step = train_torch.export(folder, name, task)
            wanted = json.loads((folder / f"{name}.losses.json").read_text())
            for form, options in forms.items():
                losses, step, start = trained(args.tpu, folder, name, form.split()[0], options)
                assert len(losses) == len(wanted), (len(losses), len(wanted))
                far = max(abs(a - b) / abs(b) for a, b in zip(losses, wanted))
                print(
                    f"| {name} | {form} | {far:.1e} | {step * 1e3:.1f} ms | {start:.1f} s | {torch_step * 1e3:.1f} ms |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
