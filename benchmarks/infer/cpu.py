"""Decode and prefill of a 1B-class Llama on CPUs: `tpu serve` beside llama.cpp and transformers, in turns, on the same cores.

    python benchmarks/infer/cpu.py --tpu target/release/tpu --llama-python PATH --threads 2 --folder FOLDER

All have random weights of one size; a token takes the same time whatever the weights are. In bf16 ours and transformers read one folder
and llama.cpp a BF16 file; in 8 and 4 bits ours and llama.cpp read the same GGUF file. A step of decoding is timed with so many sequences
whose prompts are in the cache, prefill with one prompt; ours is asked over HTTP, and a step is the difference of long and short answers.
`--llama-python` is a Python with llama-cpp-python and gguf; this one needs torch and transformers. Results are kept in
benchmarks/results/infer.md.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

FORMATS = ["BF16", "Q8_0", "Q4_K_M"]


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--llama-python", help="a Python with llama-cpp-python and gguf; without it transformers is the only peer")
    parser.add_argument("--folder", required=True, help="where the weights are kept")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--sequences", default="1,16")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt before decoding")
    parser.add_argument("--prefill", type=int, default=512, help="tokens of the prompt whose reading is timed")
    parser.add_argument("--tokens", type=int, default=16, help="steps of decoding that are timed")
    parser.add_argument("--length", type=int, default=1024, help="room of a sequence")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--llama-worker", metavar="FILE", help=argparse.SUPPRESS)
    return parser.parse_args()


class LlamaWorker:
    """llama.cpp on one file, in this process."""

    def __init__(self, path, threads, length, sequences):
        import llama_cpp

        self.lib = llama_cpp
        llama_cpp.llama_backend_init()
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp does not read {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = length * sequences, 2048, 512
        params.n_seq_max, params.n_threads, params.n_threads_batch = sequences, threads, threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)

    def run(self, rows):
        """Decodes rows of (tokens, first position, sequence); logits of the last token of each."""
        batch = self.lib.llama_batch_init(sum(len(tokens) for tokens, _, _ in rows), 0, 1)
        n = 0
        for tokens, start, sequence in rows:
            for i, token in enumerate(tokens):
                batch.token[n], batch.pos[n], batch.n_seq_id[n] = token, start + i, 1
                batch.seq_id[n][0], batch.logits[n] = sequence, i + 1 == len(tokens)
                n += 1
        batch.n_tokens = n
        if self.lib.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama.cpp does not run the batch")
        self.lib.llama_get_logits_ith(self.context, n - 1)[0]
        self.lib.llama_batch_free(batch)

    def clear(self):
        """Empties the cache."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def prefill_seconds(self, length):
        """Seconds until a prompt is read."""
        self.clear()
        started = time.perf_counter()
        self.run([([i % 250 + 1 for i in range(length)], 0, 0)])
        return time.perf_counter() - started

    def step_seconds(self, sequences, prompt, tokens):
        """Seconds of a decode step, the median."""
        self.clear()
        for sequence in range(sequences):
            self.run([([i % 250 + 1 for i in range(prompt)], 0, sequence)])
        times = []
        for n in range(tokens):
            started = time.perf_counter()
            self.run([([1], prompt + n, sequence) for sequence in range(sequences)])
            times.append(time.perf_counter() - started)
        return statistics.median(times)


class LlamaCpp:
    """llama.cpp on one file, in a child."""

    def __init__(self, options, path):
        command = [options.llama_python, __file__, "--tpu", "-", "--folder", "-", "--llama-worker", str(path)]
        command += ["--threads", str(options.threads), "--length", str(options.length), "--sequences", options.sequences]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, name, *values):
        """One measurement."""
        self.process.stdin.write(json.dumps([name, *values]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("llama.cpp ended")
        return json.loads(line)

    def close(self):
        """Ends the child."""
        self.process.stdin.close()
        self.process.wait()


def serve_llama(options):
    """Answers measurements on standard input."""
    worker = LlamaWorker(options.llama_worker, options.threads, options.length, max(int(n) for n in options.sequences.split(",")))
    for line in sys.stdin:
        name, *values = json.loads(line)
        print(json.dumps(getattr(worker, name)(*values)), flush=True)


def write_gguf(options, path, file_format):
    """A GGUF file of random weights."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import decode_cpu; decode_cpu.write_gguf(sys.argv[2], sys.argv[3], 16)"
    place = pathlib.Path(__file__).resolve().parent.parent / "quant"
    subprocess.run([options.llama_python, "-c", code, str(place), str(path), file_format], check=True)


class Ours:
    """`tpu serve` of a folder or a file."""

    def __init__(self, options, path, decode):
        self.server = decode.Ours(options, path, [int(n) for n in options.sequences.split(",")], options.length)
        self.seed = 0

    def seconds(self, sequences, prompt, tokens):
        """Seconds of so many answers at once, to prompts that were not read before."""
        self.seed += 1
        return self.server.seconds(sequences, prompt, tokens, 17 * self.seed)

    def prefill_seconds(self, length):
        """Seconds until the first token."""
        return self.seconds(1, length, 1)

    def step_seconds(self, sequences, prompt, tokens):
        """Seconds of a decode step."""
        few = self.seconds(sequences, prompt, 2)
        return (self.seconds(sequences, prompt, 2 + tokens) - few) / tokens


def main():
    """Measures and prints."""
    options = arguments()
    if options.llama_worker:
        serve_llama(options)
        return
    import decode
    import torch

    options.device, options.quiet = "cpu", False
    torch.set_num_threads(options.threads)
    folder = pathlib.Path(options.folder)
    sequences = [int(n) for n in options.sequences.split(",")]
    print("| weights | measured | ours | llama.cpp | transformers | ours / best |\n|---|---|---|---|---|---|")
    for file_format in options.formats.split(","):
        engines = {}
        try:
            path = folder / f"{file_format}.gguf"
            if options.llama_python:
                if not path.exists():
                    write_gguf(options, path, file_format)
                engines["llama.cpp"] = LlamaCpp(options, path)
            if file_format == "BF16":
                model = decode.make(folder / "bf16", "1b", "cpu")
                engines["transformers"] = decode.Peer(model, not options.no_compile)
            engines = {"ours": Ours(options, folder / "bf16" if file_format == "BF16" else path, decode)} | engines
            report(options, file_format, engines, sequences)
        finally:
            if "ours" in engines:
                engines["ours"].server.close()
            if "llama.cpp" in engines:
                engines["llama.cpp"].close()


def report(options, file_format, engines, sequences):
    """Rows of one format."""
    import decode

    def prefill(name, engine):
        if name == "llama.cpp":
            return engine.ask("prefill_seconds", options.prefill)
        return engine.prefill_seconds(options.prefill)

    def step(count):
        def measure(name, engine):
            if name == "llama.cpp":
                return engine.ask("step_seconds", count, options.prompt, options.tokens)
            if name == "transformers":
                return engine.step_seconds(count, options.prompt, options.length, options.tokens)
            return engine.step_seconds(count, options.prompt, options.tokens)

        return measure

    measured = [(f"prefill of {options.prefill}", options.prefill, prefill)]
    measured += [(f"decode, {n} sequence{'s' if n > 1 else ''}", n, step(n)) for n in sequences]
    for title, tokens, measure in measured:
        decode.say(f"{file_format}: {title}")
        for name, engine in engines.items():
            measure(name, engine)
        times = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name, engine in engines.items():
                times[name].append(measure(name, engine))
        rates = {name: tokens / statistics.median(values) for name, values in times.items()}
        best = max((rate for name, rate in rates.items() if name != "ours"), default=None)
        cells = [f"{rates[name]:.1f}" if name in rates else "" for name in ["ours", "llama.cpp", "transformers"]]
        print(f"| {file_format} | {title}, tokens/s | {' | '.join(cells)} | {rates['ours'] / best:.2f} |" if best else f"| {file_format} | {title} | {' | '.join(cells)} | |", flush=True)


main()
