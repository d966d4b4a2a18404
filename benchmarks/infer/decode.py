"""Decode throughput of `tpu serve` beside transformers with a static cache and torch.compile, in turns, on one machine.

    python benchmarks/infer/decode.py --tpu target/release/tpu --device cuda --model 8b --sequences 1,16,128
    python benchmarks/infer/decode.py --tpu target/release/tpu --device cpu --model 1b --sequences 1,16 --threads 2

Both have the same folder of random weights in bf16 and greedy decoding; a token takes the same time whatever the weights are. Ours is
asked over HTTP for so many completions at once, of few and of many tokens: the difference is decoding alone. The peer is a loop over the
compiled forward pass with a static KV cache. Prints a table in Markdown; results are kept in benchmarks/results/infer.md. Needs torch and
transformers.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {
    "1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True),
    "8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=False),
    "tiny": dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4, vocab_size=1024, tie_word_embeddings=True),
}


def say(text):
    """Talk, apart from data."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def make(folder, name, device):
    """A folder of random weights; its model."""
    import torch
    import transformers

    config = transformers.LlamaConfig(**MODELS[name], max_position_embeddings=4096, rope_theta=500000.0)
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    if not (folder / "config.json").exists():
        model.save_pretrained(folder)
    return model.eval()


class Ours:
    """A server of the folder."""

    def __init__(self, options, folder, sequences, length):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [options.tpu, "serve", str(folder), "--port", str(self.port), "--batch", str(max(sequences)), "--max-length", str(length)]
        command += ["--no-warm-up", "--name", "m", "--precision", "bf16", "--tokenizer", "bytes", "--max-waiting", "1000", "-d", options.device]
        environment = dict(os.environ)
        if options.threads:
            environment["TPUBRIDGE_CPU_THREADS"] = str(options.threads)
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if options.quiet else None, env=environment)
        started = time.perf_counter()
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit("tpu serve ended")
            time.sleep(0.2)
        say(f"serving after {time.perf_counter() - started:.1f} s")

    def ask(self, prompt, tokens):
        """One completion."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        if answer.get("usage", {}).get("completion_tokens") != tokens:
            raise SystemExit(f"not {tokens} tokens: {json.dumps(answer)[:500]}")

    def compiled(self):
        """Programs that the server has compiled so far."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith("tpubridge_serve_compiled_programs"))

    def warm(self, *asked):
        """Asks until nothing is compiled for it any more: requests come and go in other orders each time."""
        before = -1
        while before != (now := self.compiled()):
            before = now
            self.seconds(*asked)

    def seconds(self, sequences, prompt_length, tokens, seed):
        """Seconds for so many completions at once."""
        prompts = [[(seed + 7 * n + i * 13) % 250 + 1 for i in range(prompt_length)] for n in range(sequences)]
        with concurrent.futures.ThreadPoolExecutor(sequences) as pool:
            started = time.perf_counter()
            list(pool.map(lambda prompt: self.ask(prompt, tokens), prompts))
            return time.perf_counter() - started

    def close(self):
        """Ends the server."""
        self.process.terminate()
        self.process.wait()


class Peer:
    """transformers with a static cache and a compiled forward pass."""

    def __init__(self, model, compiled):
        import torch

        self.torch, self.model = torch, model
        self.forward = torch.compile(model.forward, mode="reduce-overhead" if model.device.type == "cuda" else "default", fullgraph=True) if compiled else model.forward

    def step_seconds(self, sequences, prompt_length, length, tokens):
        """Seconds of a decode step, the median."""
        import transformers

        torch, model = self.torch, self.model
        synchronize = torch.cuda.synchronize if model.device.type == "cuda" else (lambda: None)
        with torch.inference_mode():
            cache = transformers.StaticCache(config=model.config, max_cache_len=length)
            ids = torch.randint(1, 250, (sequences, prompt_length), device=model.device)
            position = torch.arange(prompt_length, device=model.device)
            out = model(ids, past_key_values=cache, cache_position=position, use_cache=True, logits_to_keep=1)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            times = []
            for n in range(tokens + 8):
                at = torch.tensor([prompt_length + n], device=model.device)
                synchronize()
                started = time.perf_counter()
                if hasattr(torch.compiler, "cudagraph_mark_step_begin"):
                    torch.compiler.cudagraph_mark_step_begin()
                out = self.forward(input_ids=token.clone(), past_key_values=cache, cache_position=at, position_ids=at[None].expand(sequences, 1), use_cache=True)
                token = out.logits[:, -1].argmax(-1, keepdim=True).clone()
                synchronize()
                times.append(time.perf_counter() - started)
        return statistics.median(times[8:])

    def prefill_seconds(self, length):
        """Seconds until a prompt is read, uncompiled: each length would be compiled anew."""
        import transformers

        torch, model = self.torch, self.model
        with torch.inference_mode():
            cache = transformers.StaticCache(config=model.config, max_cache_len=length)
            ids = torch.randint(1, 250, (1, length), device=model.device)
            started = time.perf_counter()
            model(ids, past_key_values=cache, cache_position=torch.arange(length, device=model.device), use_cache=True, logits_to_keep=1).logits[0, -1].argmax().item()
            return time.perf_counter() - started


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--model", default="1b", choices=MODELS)
    parser.add_argument("--sequences", default="1,16")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=128, help="tokens that are timed")
    parser.add_argument("--length", type=int, default=512, help="room of a sequence")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the weights are kept")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--bandwidth", type=float, help="of the memory in bytes a second: the share of it that reading the weights takes")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    sequences = [int(n) for n in options.sequences.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        import torch

        if options.threads:
            torch.set_num_threads(options.threads)
        say("making the model")
        model = make(folder, options.model, options.device)
        inner = [p for name, p in model.named_parameters() if "embed_tokens" not in name or model.config.tie_word_embeddings]
        weights = sum(p.numel() * p.element_size() for p in inner)
        ours = Ours(options, folder, sequences, options.length)
        try:
            peer = None if options.no_peer else Peer(model, not options.no_compile)
            print("| sequences | ours, tokens/s | transformers, tokens/s | ours / transformers | ours, ms a step | share of the bandwidth |\n|---|---|---|---|---|---|")
            for n in sequences:
                say(f"{n} sequences")
                few, many = 8, 8 + options.tokens
                ours.warm(n, options.prompt, many, 1)
                steps, theirs = [], []
                for r in range(options.rounds):
                    compiled = -1
                    # A measurement during which something was compiled is none.
                    while compiled != ours.compiled():
                        compiled = ours.compiled()
                        short = ours.seconds(n, options.prompt, few, 2 + 2 * r)
                        step = (ours.seconds(n, options.prompt, many, 3 + 2 * r) - short) / options.tokens
                    steps.append(step)
                    if peer:
                        theirs.append(peer.step_seconds(n, options.prompt, options.length, options.tokens // 2))
                step = statistics.median(steps)
                other = statistics.median(theirs) if theirs else None
                share = f"{weights / step / options.bandwidth:.2f}" if options.bandwidth else ""
                columns = [n, f"{n / step:.1f}", f"{n / other:.1f}" if other else "", f"{other / step:.2f}" if other else "", f"{1000 * step:.2f}", share]
                print("| " + " | ".join(str(column) for column in columns) + " |", flush=True)
        finally:
            ours.close()


if __name__ == "__main__":
    main()
