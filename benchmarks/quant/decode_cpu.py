"""Decode of a 1B-class Llama in 8 and 4 bits: the tpubridge CPU device against llama.cpp, in turns, on the same cores.

usage: python benchmarks/quant/decode_cpu.py [--plugin PATH] [--threads N] [--layers N] [--rounds N] [--formats Q8_0,Q4_0,Q4_K_M]
                                            [--folder DIR] [--json]

Both have the sizes of Llama 3.2 1B and random weights; a token takes the same time whatever the weights are. llama.cpp reads
GGUF files that are written here, block by block as its own quantize tool mixes the types. Ours is a program in JAX, as a
front end writes it: a loop over layers whose int8 or int4 weights are slices of stacked arguments, with a scale for each
column, or for each group of 32 rows beside the formats that have one. Needs jax, and llama-cpp-python and gguf of PyPI.
Linux only: cores are pinned.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY, CONTEXT = 2048, 8192, 32, 8, 64, 128256, 512
KV_WIDTH = KV_HEADS * HEAD_DIM
TOKENS_PER_ROUND = 4
# Weights of a block, its bytes, and where it has scales of f16.
BLOCKS = {"Q8_0": (32, 34, [0]), "Q4_0": (32, 18, [0]), "Q4_K": (256, 144, [0, 2]), "Q6_K": (256, 210, [208])}
MATRICES = {
    "attn_q": (HIDDEN, HIDDEN),
    "attn_k": (KV_WIDTH, HIDDEN),
    "attn_v": (KV_WIDTH, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN),
    "ffn_gate": (FEED_FORWARD, HIDDEN),
    "ffn_up": (FEED_FORWARD, HIDDEN),
    "ffn_down": (HIDDEN, FEED_FORWARD),
}


def say(text):
    """Talk, apart from data."""
    print(text, file=sys.stderr, flush=True)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", default=str(ROOT / "target/release/libcpu_plugin.so"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--formats", default="Q8_0,Q4_0,Q4_K_M")
    parser.add_argument("--folder", help="where the GGUF files are kept; a temporary folder if not given")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def type_of(file_format, matrix, layer, layers):
    """The type of a matrix in a file of a format, as llama.cpp's quantize tool chooses it."""
    if file_format in ("Q8_0", "BF16"):
        return file_format
    if matrix == "token_embd":
        return "Q6_K"
    if file_format == "Q4_0":
        return "Q4_0"
    more_bits = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
    return "Q6_K" if matrix in ("attn_v", "ffn_down") and more_bits else "Q4_K"


def blocks(rng, kind, rows, columns):
    """Random weights of a type, as bytes by row."""
    import numpy as np

    if kind == "BF16":
        return (rng.standard_normal((rows, columns), np.float32) * 0.02).view(np.uint8).reshape(rows, columns, 4)[..., 2:].reshape(rows, -1)
    weights, size, scales = BLOCKS[kind]
    data = rng.integers(0, 256, (rows * columns // weights, size), dtype=np.uint8)
    scale = np.frombuffer(np.float16(0.002).tobytes(), np.uint8)
    for at in scales:
        data[:, at : at + 2] = scale
    return data.reshape(rows, -1)


def write_gguf(path, file_format, layers):
    """A model with random weights."""
    import gguf
    import numpy as np

    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")

    def add(name, kind, rows, columns):
        writer.add_tensor(name, blocks(rng, kind, rows, columns), raw_dtype=gguf.GGMLQuantizationType[kind])

    add("token_embd.weight", type_of(file_format, "token_embd", 0, layers), VOCABULARY, HIDDEN)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    for layer in range(layers):
        for name, (rows, columns) in MATRICES.items():
            add(f"blk.{layer}.{name}.weight", type_of(file_format, name, layer, layers), rows, columns)
        for name in ["attn_norm", "ffn_norm"]:
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """llama.cpp on one file."""

    def __init__(self, path, threads):
        import llama_cpp

        self.lib = llama_cpp
        llama_cpp.llama_backend_init()
        quiet = llama_cpp.llama_log_callback(lambda *_: None)
        self.quiet = quiet
        llama_cpp.llama_log_set(quiet, None)
        model_params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), model_params)
        if not self.model:
            raise SystemExit(f"llama.cpp does not read {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_threads, params.n_threads_batch = CONTEXT, CONTEXT, threads, threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.tokens = (llama_cpp.llama_token * 1)(1)

    def restart(self):
        """Half of the context is filled, as on our side."""
        memory = self.lib.llama_get_memory(self.context)
        self.lib.llama_memory_clear(memory, True)
        prompt = (self.lib.llama_token * (CONTEXT // 2))(*([1] * (CONTEXT // 2)))
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(prompt, CONTEXT // 2)) != 0:
            raise SystemExit("llama.cpp does not run the prompt")

    def token(self):
        """Decodes one token, with its logits."""
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(self.tokens, 1)) != 0:
            raise SystemExit("llama.cpp does not run a token")
        self.lib.llama_get_logits(self.context)[0]

    def close(self):
        """Frees the model."""
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)


def decode_step(parameters, caches, token, position):
    """Logits of one token and the caches after it. `parameters` has stacked weights, each a pair of values and scales."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    half = HEAD_DIM // 2
    frequencies = 500000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = position.astype(jnp.float32) * frequencies
    cosine, sine = jnp.cos(angles), jnp.sin(angles)

    def linear(x, weight):
        values, scales = weight
        if scales.shape[0] == 1:
            return lax.dot(x, values.astype(x.dtype), preferred_element_type=jnp.float32) * scales
        groups = scales.shape[0]
        rows = x.reshape(x.shape[0], groups, -1)
        matrix = values.astype(x.dtype).reshape(groups, rows.shape[2], -1)
        sums = lax.dot_general(rows, matrix, (((2,), (1,)), ((1,), (0,))), preferred_element_type=jnp.float32)
        return (sums * scales[:, None, :]).sum(0)

    def norm(x, weight):
        scale = lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5)
        return (x * scale * weight).astype(jnp.bfloat16)

    def rotate(x):
        low, high = x[..., :half], x[..., half:]
        return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)

    def layer(x, inputs):
        weights, keys, values = inputs
        hidden = norm(x, weights["attn_norm"])
        query = rotate(linear(hidden, weights["attn_q"]).reshape(KV_HEADS, HEADS // KV_HEADS, HEAD_DIM))
        key = rotate(linear(hidden, weights["attn_k"]).reshape(1, KV_HEADS, HEAD_DIM))
        value = linear(hidden, weights["attn_v"]).reshape(1, KV_HEADS, HEAD_DIM)
        keys = lax.dynamic_update_slice(keys, key.astype(keys.dtype), (position, 0, 0))
        values = lax.dynamic_update_slice(values, value.astype(values.dtype), (position, 0, 0))
        scores = jnp.einsum("hgd,thd->hgt", query.astype(keys.dtype), keys, preferred_element_type=jnp.float32)
        scores = jnp.where(jnp.arange(CONTEXT) <= position, scores * HEAD_DIM**-0.5, -1e30)
        weighed = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
        mixed = jnp.einsum("hgt,thd->hgd", weighed, values, preferred_element_type=jnp.float32)
        x = x + linear(mixed.reshape(1, HIDDEN).astype(jnp.bfloat16), weights["attn_output"])
        hidden = norm(x, weights["ffn_norm"])
        gate, up = linear(hidden, weights["ffn_gate"]), linear(hidden, weights["ffn_up"])
        x = x + linear((jax.nn.silu(gate) * up).astype(jnp.bfloat16), weights["ffn_down"])
        return x, (keys, values)

    table, table_scales = parameters["embedding"]
    x = table[token].astype(jnp.float32) * table_scales[token][:, None]
    x, caches = lax.scan(layer, x, (parameters["layers"], *caches))
    return linear(norm(x, parameters["output_norm"]), parameters["lm_head"]), caches


class Ours:
    """The decode program on the tpubridge CPU device."""

    def __init__(self, bits, group, layers):
        import jax
        import jax.numpy as jnp
        import ml_dtypes
        import numpy as np

        self.jax = jax
        rng = np.random.default_rng(0)

        def matrix(rows, columns, bits, stacked=True):
            shape = (layers, rows, columns) if stacked else (rows, columns)
            limit = 1 << (bits - 1)
            values = rng.integers(-limit, limit, shape, dtype=np.int8)
            groups = rows // group if group and stacked else 1
            scales = np.full((*shape[:-2], groups, columns), 0.002, np.float32)
            return values.astype(ml_dtypes.int4) if bits == 4 else values, scales

        stacked = {name: matrix(columns, rows, bits) for name, (rows, columns) in MATRICES.items()}
        for name in ["attn_norm", "ffn_norm"]:
            stacked[name] = np.ones((layers, HIDDEN), np.float32)
        table = rng.integers(-128, 128, (VOCABULARY, HIDDEN), dtype=np.int8)
        parameters = {
            "layers": stacked,
            "embedding": (table, np.full(VOCABULARY, 0.002, np.float32)),
            "lm_head": matrix(HIDDEN, VOCABULARY, 8, stacked=False),
            "output_norm": np.ones(HIDDEN, np.float32),
        }
        cache = np.zeros((layers, CONTEXT, KV_HEADS, HEAD_DIM), ml_dtypes.bfloat16)
        self.parameters = jax.block_until_ready(jax.device_put(parameters))
        self.caches = jax.device_put((cache, cache.copy()))
        self.one = jnp.ones(1, jnp.int32)
        self.restart()
        self.compiled = jax.jit(decode_step).lower(self.parameters, self.caches, self.one, self.position()).compile()

    def restart(self):
        """Half of the context is filled."""
        self.at = CONTEXT // 2

    def position(self):
        """The position of the next token, on the device."""
        import numpy as np

        return self.jax.device_put(np.int32(self.at))

    def token(self):
        """Decodes one token, with its logits."""
        logits, self.caches = self.compiled(self.parameters, self.caches, self.one, self.position())
        self.jax.block_until_ready(logits)
        self.at += 1


def rate(engine):
    """Tokens a second over a few tokens."""
    started = time.perf_counter()
    for _ in range(TOKENS_PER_ROUND):
        engine.token()
    return TOKENS_PER_ROUND / (time.perf_counter() - started)


def main():
    """Measures each format."""
    options = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"tpubridge_cpu:{options.plugin}"
    os.environ["JAX_PLATFORMS"] = "tpubridge_cpu"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary)
        records = []
        for file_format in options.formats.split(","):
            path = folder / f"{file_format}-{options.layers}.gguf"
            if not path.exists():
                say(f"writing {path.name}")
                write_gguf(path, file_format, options.layers)
            forms = {"Q8_0": [(8, None)], "Q4_0": [(4, None), (4, 32)], "Q4_K_M": [(4, None), (4, 32)]}[file_format]
            for bits, group in forms:
                llama, ours = LlamaCpp(path, options.threads), Ours(bits, group, options.layers)
                rates = {"llama.cpp": [], "ours": []}
                for engine in (llama, ours):
                    engine.restart()
                    rate(engine)
                for number in range(options.rounds):
                    pair = [("llama.cpp", llama), ("ours", ours)]
                    for name, engine in pair if number % 2 else pair[::-1]:
                        rates[name].append(rate(engine))
                llama.close()
                middle = {name: statistics.median(values) for name, values in rates.items()}
                fastest = {name: max(values) for name, values in rates.items()}
                form = f"int{bits}" + (f", groups of {group}" if group else ", by column")
                records.append(
                    {
                        "format": file_format,
                        "ours": form,
                        "threads": options.threads,
                        "tokens_per_second": middle,
                        "fastest": fastest,
                        "ratio": middle["ours"] / middle["llama.cpp"],
                    }
                )
                say(f"{file_format}, {form}: {middle['llama.cpp']:.2f} and {middle['ours']:.2f} tokens/s")
    if options.json:
        print(json.dumps({"version": 1, "records": records}, indent=1))
        return
    print("| llama.cpp | ours | llama.cpp tokens/s | ours tokens/s | ours / llama.cpp |")
    print("|---|---|---|---|---|")
    for record in records:
        middle, fastest = record["tokens_per_second"], record["fastest"]
        cells = [f"{middle[name]:.2f} ({fastest[name]:.2f})" for name in ("llama.cpp", "ours")]
        ratio = f"{record['ratio']:.2f} ({fastest['ours'] / fastest['llama.cpp']:.2f})"
        print(f"| {record['format']} | {record['ours']} | {cells[0]} | {cells[1]} | {ratio} |")


if __name__ == "__main__":
    main()
