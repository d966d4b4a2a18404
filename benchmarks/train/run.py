"""Training speed of `tpu train` beside JAX and PyTorch on the same machine, in turns.

    python benchmarks/train/run.py --tpu target/release/tpu --device cpu --model tiny --jax PYTHON --torch PYTHON
    python benchmarks/train/run.py --tpu target/release/tpu --device cuda --model gpt2-124m --jax PYTHON --torch PYTHON
    python benchmarks/train/run.py --tpu target/release/tpu --model tiny --torch PYTHON --busy 10

On a GPU JAX has cuDNN's attention, and PyTorch autocast to bf16, flash attention and fused AdamW, with the vocabulary as it is and
padded. With --busy N every peer also runs beside N processes that never rest: how much slower it is then. Prints a table in Markdown; results are kept in benchmarks/results/train.md. Peers whose interpreter is not given are left out.
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
    "llama-1b": dict(vocabulary=128256, positions=4096, width=2048, inner=8192, layers=16, heads=32, kv_heads=8, batch=2, sequence=4096, steps=10, precision="mixed"),
}


def model(s):
    if "kv_heads" in s:
        return f"""
[model]
model_type = "llama"
vocab_size = {s["vocabulary"]}
hidden_size = {s["width"]}
intermediate_size = {s["inner"]}
num_hidden_layers = {s["layers"]}
num_attention_heads = {s["heads"]}
num_key_value_heads = {s["kv_heads"]}
max_position_embeddings = {s["positions"]}
rope_theta = 500000.0
tie_word_embeddings = true
"""
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
"""


def config(s):
    return f"""{model(s)}
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
    reference = str(HERE.parents[1] / "crates/testkit/python/gpt_reference.py")
    peers = {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "train.toml"
        file.write_text(config(s))
        peers["tpu train"] = lambda: run([args.tpu, "train", str(file), "-d", args.device, "--json"])
        if args.jax and "kv_heads" not in s:
            platform = {"JAX_PLATFORMS": "cpu"} if args.device == "cpu" else {}
            cudnn = {"cudnn": args.device == "cuda"}
            given = json.dumps({**s, **cudnn})
            peers["JAX, cuDNN attention" if args.device == "cuda" else "JAX"] = lambda: run([args.jax, reference, "speed", given], platform)
        torch = lambda **more: run([args.torch, str(HERE / "torch_reference.py"), json.dumps({**s, "device": args.device, **more})])
        if args.torch and args.device == "cpu":
            peers["PyTorch eager"] = torch
        if args.torch and not args.eager:
            peers["PyTorch compiled"] = lambda: torch(compiled=True)
        if args.torch and args.device == "cuda" and s["vocabulary"] % 64:
            peers["PyTorch compiled, padded vocabulary"] = lambda: torch(compiled=True, padded=True)
        seen = {name: [] for name in peers}
        crowded = {name: [] for name in peers}
        mfu, peaks = None, {}
        for _ in range(args.rounds):
            for name, peer in peers.items():
                record = peer()
                seen[name].append(record["tokens_per_second"])
                mfu = record.get("mfu") or mfu
                peaks[name] = record.get("peak_bytes") or record.get("peak_memory_bytes")
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
    if any(peaks.values()):
        print("\nMemory, GiB: " + ", ".join(f"{name} {peak / 2**30:.1f}" for name, peak in peaks.items() if peak))
    if mfu:
        print(f"\nMFU {mfu * 100:.1f} % (attention not halved, bf16 peak of the data sheet)")


main()
