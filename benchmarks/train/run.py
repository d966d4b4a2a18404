"""Training speed of `tpu train` beside JAX and PyTorch on the same machine, in turns.

    python benchmarks/train/run.py --tpu target/release/tpu --device cpu --model tiny --jax PYTHON --torch PYTHON
    python benchmarks/train/run.py --tpu target/release/tpu --device cuda --model gpt2-124m --jax PYTHON
    python benchmarks/train/run.py --tpu target/release/tpu --model tiny --torch PYTHON --busy 10

With --busy N every peer also runs beside N processes that never rest: how much slower it is then. Prints a table in Markdown; results are kept in benchmarks/results/train.md. Peers whose interpreter is not given are left out.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {
    "tiny": dict(vocabulary=256, positions=256, width=128, layers=4, heads=4, batch=16, sequence=128, steps=30, precision="f32"),
    "gpt2-124m": dict(vocabulary=50257, positions=1024, width=768, layers=12, heads=12, batch=16, sequence=1024, steps=20, precision="mixed"),
}


def config(s):
    return f"""
[model]
model_type = "gpt2"
vocab_size = {s["vocabulary"]}
n_positions = {s["positions"]}
n_embd = {s["width"]}
n_layer = {s["layers"]}
n_head = {s["heads"]}
embd_pdrop = 0.0
resid_pdrop = 0.0
attn_pdrop = 0.0
[run]
precision = "{s["precision"]}"
[data]
kind = "synthetic"
sequence_length = {s["sequence"]}
[optimizer]
name = "adamw"
learning_rate = {s["rate"]}
[train]
steps = {2 * s["steps"]}
batch_size = {s["batch"]}
max_grad_norm = {s["clip"]}
log_every = {s["steps"]}
"""


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def beside(busy, peer):
    """What a peer reports while `busy` processes never rest."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        return peer()
    finally:
        for other in others:
            other.kill()
            other.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jax")
    parser.add_argument("--torch")
    parser.add_argument("--busy", type=int, default=0, help="also run beside this many processes that never rest")
    parser.add_argument("--eager", action="store_true", help="leave out torch.compile, which compiles for minutes beside busy processes")
    args = parser.parse_args()
    s = {**MODELS[args.model], "rate": 1e-3, "clip": 1.0, "rounds": 1}
    settings = json.dumps(s)
    reference = str(HERE.parents[1] / "crates/testkit/python/gpt_reference.py")
    peers = {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "train.toml"
        file.write_text(config(s))
        peers["tpu train"] = lambda: run([args.tpu, "train", str(file), "-d", args.device, "--json"])
        if args.jax:
            platform = {"JAX_PLATFORMS": "cpu"} if args.device == "cpu" else {}
            peers["JAX"] = lambda: run([args.jax, reference, "speed", settings], platform)
        if args.torch:
            peers["PyTorch eager"] = lambda: run([args.torch, str(HERE / "torch_reference.py"), settings])
        if args.torch and not args.eager:
            compiled = json.dumps({**s, "compiled": True})
            peers["PyTorch compiled"] = lambda: run([args.torch, str(HERE / "torch_reference.py"), compiled])
        seen = {name: [] for name in peers}
        crowded = {name: [] for name in peers}
        mfu = None
        for _ in range(args.rounds):
            for name, peer in peers.items():
                record = peer()
                seen[name].append(record["tokens_per_second"])
                mfu = record.get("mfu") or mfu
                if args.busy:
                    crowded[name].append(beside(args.busy, peer)["tokens_per_second"])
    ours = statistics.median(seen["tpu train"])
    print(f"{args.model} on {args.device}, batch {s['batch']} of {s['sequence']} tokens, {s['precision']}, {args.rounds} rounds in turns\n")
    print("| | tokens/s, median | fastest | `tpu train` to it |\n|---|---|---|---|")
    for name, rates in seen.items():
        middle = statistics.median(rates)
        print(f"| {name} | {middle:.0f} | {max(rates):.0f} | {ours / middle:.3f} |")
    if args.busy:
        print(f"\nBeside {args.busy} processes that never rest, {os.cpu_count()} cores:\n")
        print("| | tokens/s, median | times slower than alone |\n|---|---|---|")
        for name, rates in crowded.items():
            middle = statistics.median(rates)
            print(f"| {name} | {middle:.0f} | {statistics.median(seen[name]) / middle:.1f} |")
    if mfu:
        print(f"\nMFU {mfu * 100:.1f} % (attention not halved, bf16 peak of the data sheet)")


main()
