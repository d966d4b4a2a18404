"""Losses of a small GPT trained in few bits, beside bf16, on the text of this repository.

    python benchmarks/train/low_precision.py --tpu target/release/tpu [--steps 1000] [--jobs 1] [--only fp8,int8]

Every run has the same model, data, seed and schedule; only what the first column says differs. Runs share the machine `--jobs` at a
time, each on its own cores. Prints a table in Markdown; results are kept in benchmarks/results/low-precision-training.md.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import queue
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
MIXED = 'run.precision="mixed"'
FP8, INT8 = 'run.precision="fp8"', 'run.precision="int8"'
RUNS = {
    "bf16 (`mixed`)": [MIXED],
    "fp8, current scaling": [FP8],
    "fp8, delayed scaling": [FP8, 'run.matmul.scaling="delayed"'],
    "int8": [INT8],
    "int8, backward pass too": [INT8, 'run.matmul.backward="quantized"'],
    "QAT w8a8": [MIXED, 'run.qat="w8a8"'],
    "QAT w4a16-g32": [MIXED, 'run.qat="w4a16-g32"'],
    "Adam moments in int8": [MIXED, 'optimizer.moment_dtype="int8"'],
    "Adam moments in bf16": [MIXED, 'optimizer.moment_dtype="bf16"'],
    "fp8, current scaling, channels": [FP8, 'run.matmul.granularity="channel"'],
    "bf16, another seed": [MIXED, "train.seed=1"],
    "f32": ['run.precision="f32"'],
}


def corpus(folder):
    """The documents and sources of this repository as one text."""
    names = sorted(REPOSITORY.glob("docs/**/*.md")) + sorted(REPOSITORY.glob("crates/*/src/**/*.rs"))
    path = folder / "text.txt"
    with path.open("w", encoding="utf-8") as out:
        for name in names:
            out.write(name.read_text(encoding="utf-8", errors="ignore"))
    return path


def training(arguments, text):
    return f"""
[model]
model_type = "gpt2"
vocab_size = 256
n_positions = {arguments.sequence}
n_embd = {arguments.width}
n_layer = {arguments.layers}
n_head = {arguments.width // 64}
embd_pdrop = 0.0
resid_pdrop = 0.0
attn_pdrop = 0.0
[data]
kind = "text"
files = ["{text}"]
tokenizer = "bytes"
sequence_length = {arguments.sequence}
validation_fraction = 0.02
[optimizer]
name = "adamw"
learning_rate = {{ kind = "cosine", peak_value = 1e-3, warmup_steps = 100, total_steps = {arguments.steps}, end_value = 1e-4 }}
weight_decay = {{ rate = 0.1, except = ["norm", "bias", "embedding"] }}
[train]
steps = {arguments.steps}
batch_size = {arguments.batch}
max_grad_norm = 1.0
log_every = 50
eval_every = {arguments.steps}
eval_batches = 64
"""


def run(arguments, folder, shares, name):
    """What a training of these settings reports, on a share of the cores that no other has."""
    own = shares.get()
    command = ["taskset", "-c", ",".join(map(str, own)), arguments.tpu, "train", str(folder / "training.toml"), "--json", "-d", arguments.device]
    command += [word for change in RUNS[name] for word in ("--with", change)]
    begin = time.time()
    done = subprocess.run(command, capture_output=True, text=True)
    shares.put(own)
    if done.returncode != 0:
        return name, {"error": done.stderr[-400:]}
    record = json.loads(done.stdout[done.stdout.index("{") :])
    record["wall"] = time.time() - begin
    print(name, record["evaluation"]["loss"], f"{record['wall']:.0f} s", flush=True)
    return name, record


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--only", help="words, with commas between them: runs whose name has one of them")
    arguments = parser.parse_args()
    words = (arguments.only or "").split(",")
    names = [name for name in RUNS if any(word in name for word in words)]
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // arguments.jobs)
    shares = queue.SimpleQueue()
    for n in range(arguments.jobs):
        shares.put(cores[n * each :][:each] or cores)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = corpus(folder)
        (folder / "training.toml").write_text(training(arguments, text))
        print(f"{text.stat().st_size} bytes of text; {platform.processor() or platform.machine()}, {os.cpu_count()} cores", flush=True)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            jobs = [pool.submit(run, arguments, folder, shares, name) for name in names]
            results = dict(job.result() for job in jobs)
    base = next((r["evaluation"]["loss"] for r in results.values() if "evaluation" in r), None)
    print("\n| training | validation loss | to the first | training loss, last step | ms a step |\n|---|---|---|---|---|")
    for name, record in results.items():
        if "error" in record:
            print(f"| {name} | failed: {record['error']!r} | | | |")
            continue
        loss = record["evaluation"]["loss"]
        print(f"| {name} | {loss:.4f} | {100 * (loss / base - 1):+.2f} % | {record['loss']:.4f} | {1000 * record['step_seconds']:.0f} |")


if __name__ == "__main__":
    main()
