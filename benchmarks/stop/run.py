"""Time from a request to stop to a durable checkpoint, of `tpu train` in one process and in four.

    python benchmarks/stop/run.py --tpu target/release/tpu --runs 5

Each run trains until a checkpoint is there, sends SIGTERM to the last process, and waits. Two times are taken from the signal:
until the newest manifest is in the folder (durable), and until all processes have ended. The state is checked by the
next run, which resumes from it. Prints a table in Markdown; results are kept in benchmarks/results/stop.md.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

CONFIG = """
[model]
model_type = "llama"
vocab_size = {vocabulary}
hidden_size = {width}
intermediate_size = {inner}
num_hidden_layers = {layers}
num_attention_heads = 8
num_key_value_heads = 4
max_position_embeddings = 64
rms_norm_eps = 1e-5
rope_theta = 10000.0
hidden_act = "silu"
[data]
kind = "synthetic"
sequence_length = 32
[optimizer]
name = "adamw"
learning_rate = 1e-3
[train]
steps = 1000000
batch_size = 8
log_every = 1
save_every = 20
"""

SIZES = {
    "small": dict(vocabulary=256, width=64, inner=128, layers=2),
    "medium": dict(vocabulary=2048, width=256, inner=512, layers=4),
}


def manifests(folder):
    """Manifests with the time they were written at. Folders come and go meanwhile."""
    while True:
        try:
            return {path: path.stat().st_mtime_ns for path in folder.glob("run/checkpoints/step-*/manifest-*.json")}
        except FileNotFoundError:
            pass


def one_run(tpu, folder, processes):
    """Starts, waits for a checkpoint of this run, stops; seconds until durable and until all ended, and what the run says."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [tpu, "train", "llama.toml", "--folder", "run", "-d", "cpu", "--json", "--mesh", "fsdp=4"]
    environment = dict(os.environ, TPUBRIDGE_CPU_THREADS="1")
    before = set(manifests(folder))
    children = []
    for number in range(processes):
        several = ["--processes", str(processes), "--process-id", str(number), "--coordinator", f"127.0.0.1:{port}"]
        arguments = command + (several if processes > 1 else [])
        children.append(
            subprocess.Popen(arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
    try:
        while not set(manifests(folder)) - before:
            if any(child.poll() is not None for child in children):
                raise SystemExit("a process ended before its first checkpoint")
            time.sleep(0.01)
        # Between two saves, as most notices come.
        time.sleep(0.3)
        asked = time.time_ns()
        children[-1].send_signal(signal.SIGTERM)
        outputs = [child.communicate(timeout=300)[0] for child in children]
        ended = time.time_ns()
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
    codes = [child.returncode for child in children]
    if set(codes) != {75}:
        raise SystemExit(f"exit codes {codes}")
    record = json.loads(outputs[0])
    durable = max(manifests(folder).values())
    return (durable - asked) / 1e9, (ended - asked) / 1e9, record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpu", required=True, type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    tpu = str(options.tpu.resolve())
    print("| model | parameters | processes | step | until durable | until all ended | announced |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, size in SIZES.items():
        for processes in (1, 4):
            with tempfile.TemporaryDirectory() as path:
                folder = pathlib.Path(path)
                (folder / "llama.toml").write_text(CONFIG.format(**size))
                runs = [one_run(tpu, folder, processes) for _ in range(options.runs)]
            durable, ended = (sorted(run[place] for run in runs) for place in (0, 1))
            spread = lambda times: f"{statistics.median(times):.2f} s ({times[0]:.2f} to {times[-1]:.2f})"
            step = statistics.median(run[2]["step_seconds"] for run in runs)
            announced = statistics.median(run[2].get("stop_seconds", 0) for run in runs)
            parameters = runs[0][2]["parameters"]
            print(
                f"| {name} | {parameters:,} | {processes} | {step * 1e3:.0f} ms | {spread(durable)} | {spread(ended)} | {announced:.2f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
