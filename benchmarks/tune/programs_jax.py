"""Programs as users of JAX write them, exported as StableHLO: training steps of a GPT-2, a Llama, a Mixtral (both on one
device and on a mesh), a Gemma 2 and a large vocabulary, and prefills of a Mixtral (likewise) and a DeepSeek.

python programs_jax.py NAME full FOLDER writes NAME.mlir; with small it writes NAME.small.mlir, the same program at sizes that run on a CPU.
"""

import os
import pathlib
import sys

# Devices to name in a mesh.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

GPT2 = {
    "full": dict(layers=12, width=768, heads=12, vocab=50257, batch=8, length=1024),
    "small": dict(layers=2, width=128, heads=2, vocab=256, batch=2, length=128),
}
LLAMA_TRAIN = {
    "full": dict(layers=4, width=2048, heads=32, kv_heads=8, hidden=8192, vocab=32000, batch=2, length=2048),
    "small": dict(layers=2, width=128, heads=4, kv_heads=2, hidden=256, vocab=256, batch=2, length=128),
}
LLAMA_MESH = {
    "full": dict(LLAMA_TRAIN["full"], batch=16),
    "small": dict(LLAMA_TRAIN["small"], batch=8, kv_heads=4, heads=8, length=64),
}
MIXTRAL = {
    "full": dict(layers=4, width=2048, heads=32, kv_heads=8, hidden=7168, experts=8, vocab=32000, batch=1, length=4096),
    "small": dict(layers=2, width=128, heads=4, kv_heads=2, hidden=256, experts=4, vocab=256, batch=1, length=256),
}
MIXTRAL_TRAIN = {
    "full": dict(MIXTRAL["full"], layers=2, length=2048),
    "small": dict(MIXTRAL["small"], length=128),
}
MIXTRAL_ON_MESH = {
    "full": dict(MIXTRAL["full"], batch=16, length=2048),
    "small": dict(MIXTRAL["small"], batch=8, heads=8, kv_heads=4, hidden=512, length=64),
}
MIXTRAL_TRAIN_ON_MESH = {"full": dict(MIXTRAL_ON_MESH["full"], layers=2), "small": MIXTRAL_ON_MESH["small"]}
DEEPSEEK = {
    "full": dict(layers=4, width=2048, heads=16, latent=512, head=128, rotary_head=64, hidden=8192, vocab=32000, batch=2, length=2048),
    "small": dict(layers=2, width=128, heads=2, latent=64, head=32, rotary_head=16, hidden=256, vocab=256, batch=2, length=128),
}
GEMMA2 = {
    "full": dict(pairs=2, width=2048, heads=8, kv_heads=4, hidden=8192, window=512, vocab=32000, batch=2, length=2048),
    "small": dict(pairs=1, width=128, heads=4, kv_heads=2, hidden=256, window=32, vocab=256, batch=2, length=128),
}
VOCABULARY = {
    "full": dict(width=2048, hidden=8192, vocab=128256, batch=40, length=4096),
    "small": dict(width=128, hidden=256, vocab=512, batch=2, length=128),
}


def layer_norm(x, scale, bias):
    x = x.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return ((x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias).astype(jnp.bfloat16)


def gpt2(layers, width, heads, vocab, batch, length):
    """One step of training: unrolled layers, attention by einsum and softmax, AdamW."""

    def init():
        zeros = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
        block = lambda: dict(
            ln1=zeros(width), ln1b=zeros(width), qkv=zeros(width, 3 * width), out=zeros(width, width),
            ln2=zeros(width), ln2b=zeros(width), up=zeros(width, 4 * width), down=zeros(4 * width, width),
        )
        return dict(
            wte=zeros(vocab, width), wpe=zeros(length, width), blocks=[block() for _ in range(layers)],
            lnf=zeros(width), lnfb=zeros(width),
        )

    def attention(p, x):
        b, t, _ = x.shape
        qkv = x @ p["qkv"].astype(x.dtype)
        q, k, v = (y.reshape(b, t, heads, width // heads) for y in jnp.split(qkv, 3, -1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(width // heads).astype(x.dtype)
        mask = jnp.tril(jnp.ones((t, t), bool))
        scores = jnp.where(mask, scores.astype(jnp.float32), jnp.finfo(jnp.float32).min)
        weights = jax.nn.softmax(scores, -1).astype(x.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, width)
        return y @ p["out"].astype(x.dtype)

    def loss(params, tokens):
        x = (params["wte"][tokens] + params["wpe"]).astype(jnp.bfloat16)
        for p in params["blocks"]:
            x = x + attention(p, layer_norm(x, p["ln1"], p["ln1b"]))
            h = layer_norm(x, p["ln2"], p["ln2b"])
            x = x + jax.nn.gelu(h @ p["up"].astype(x.dtype)) @ p["down"].astype(x.dtype)
        x = layer_norm(x, params["lnf"], params["lnfb"])
        logits = (x @ params["wte"].T.astype(x.dtype)).astype(jnp.float32)
        labels = jnp.roll(tokens, -1, 1)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
        return -picked.mean()

    def step(params, m, v, tokens):
        value, gradient = jax.value_and_grad(loss)(params, tokens)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, v, gradient)
        new = jax.tree.map(lambda p, m, v: p - 3e-4 * (m / (jnp.sqrt(v) + 1e-3) + 0.1 * p), params, m, v)
        return new, m, v, value

    params = init()
    return jax.jit(step), (params, params, params, jax.ShapeDtypeStruct((batch, length), jnp.int32))


def rms_norm(x, scale):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def rotary(x):
    d, t = x.shape[-1], x.shape[1]
    angles = jnp.arange(t)[:, None] * (10000.0 ** (-jnp.arange(0, d, 2) / d))
    sin, cos = jnp.sin(angles)[None, :, None], jnp.cos(angles)[None, :, None]
    a, b = jnp.split(x.astype(jnp.float32), 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def mixtral_layers(layers, width, heads, kv_heads, hidden, experts, vocab, batch, length):
    """Layers scanned, GQA by jnp.repeat, top-2 experts by one-hot weights over all of them."""
    head = width // heads
    spec = lambda *dims: jax.ShapeDtypeStruct((layers, *dims), jnp.bfloat16)
    stacked = dict(
        ln1=spec(width), q=spec(width, heads * head), kv=spec(width, 2 * kv_heads * head), o=spec(heads * head, width),
        ln2=spec(width), gate=spec(width, experts), w1=spec(experts, width, hidden), w3=spec(experts, width, hidden),
        w2=spec(experts, hidden, width),
    )

    def layer(x, p):
        b, t, _ = x.shape
        h = rms_norm(x, p["ln1"])
        q = rotary((h @ p["q"]).reshape(b, t, heads, head))
        k, v = (y.reshape(b, t, kv_heads, head) for y in jnp.split(h @ p["kv"], 2, -1))
        k, v = (jnp.repeat(y, heads // kv_heads, axis=2) for y in (rotary(k), v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * head**-0.5
        visible = jnp.arange(t)[:, None] >= jnp.arange(t)[None, :]
        weights = jax.nn.softmax(jnp.where(visible, scores, -1e30), -1).astype(x.dtype)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, width) @ p["o"]
        h = rms_norm(x, p["ln2"])
        probabilities, chosen = jax.lax.top_k(jax.nn.softmax((h @ p["gate"]).astype(jnp.float32)), 2)
        probabilities = (probabilities / probabilities.sum(-1, keepdims=True)).astype(x.dtype)
        weight = (jax.nn.one_hot(chosen, experts, dtype=x.dtype) * probabilities[..., None]).sum(-2)
        up = jax.nn.silu(jnp.einsum("btd,edf->btef", h, p["w1"])) * jnp.einsum("btd,edf->btef", h, p["w3"])
        return x + jnp.einsum("btef,efd,bte->btd", up, p["w2"], weight), None

    def hidden_states(embedding, stacked, final, tokens):
        x, _ = jax.lax.scan(layer, embedding[tokens], stacked)
        return rms_norm(x, final)

    embedding = jax.ShapeDtypeStruct((vocab, width), jnp.bfloat16)
    final = jax.ShapeDtypeStruct((width,), jnp.bfloat16)
    return hidden_states, (embedding, stacked, final, jax.ShapeDtypeStruct((batch, length), jnp.int32))


def mixtral(**sizes):
    """Prefill: the logits of the last token."""
    hidden_states, arguments = mixtral_layers(**sizes)
    return jax.jit(lambda embedding, *rest: hidden_states(embedding, *rest)[:, -1] @ embedding.T), arguments


def mixtral_step(**sizes):
    """One step of training and its arguments: bf16 weights, plain gradient descent."""
    hidden_states, arguments = mixtral_layers(**sizes)

    def loss(params, tokens):
        logits = (hidden_states(*params, tokens) @ params[0].T).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.roll(tokens, -1, 1)[..., None], -1).mean()

    def step(params, tokens):
        value, gradient = jax.value_and_grad(loss)(params, tokens)
        return jax.tree.map(lambda p, g: (p - 1e-3 * g).astype(p.dtype), params, gradient), value

    return step, (arguments[:3], arguments[3])


def mixtral_train(**sizes):
    step, arguments = mixtral_step(**sizes)
    return jax.jit(step), arguments


def mixtral_shardings():
    """Shardings of parameters, of tokens and of what is whole: data parallelism over 2, and tensor parallelism over 4 devices."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    columns, rows = P(None, None, "model"), P(None, "model", None)
    stacked = dict(
        ln1=P(), q=columns, kv=columns, o=rows, ln2=P(), gate=P(), w1=P(None, None, None, "model"),
        w3=P(None, None, None, "model"), w2=P(None, None, "model", None),
    )
    params = jax.tree.map(lambda spec: NamedSharding(mesh, spec), (P("model"), stacked, P()), is_leaf=lambda x: isinstance(x, P))
    return params, NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


def mixtral_mesh(**sizes):
    """Prefill on 2 × 4 devices."""
    hidden_states, arguments = mixtral_layers(**sizes)
    params, batch, _ = mixtral_shardings()
    prefill = lambda embedding, *rest: hidden_states(embedding, *rest)[:, -1] @ embedding.T
    return jax.jit(prefill, in_shardings=(*params, batch), out_shardings=batch), arguments


def mixtral_train_mesh(**sizes):
    """One step of training on 2 × 4 devices."""
    step, arguments = mixtral_step(**sizes)
    params, batch, whole = mixtral_shardings()
    return jax.jit(step, in_shardings=(params, batch), out_shardings=(params, whole)), arguments


def llama_step(layers, width, heads, kv_heads, hidden, vocab, batch, length):
    """One step of training and its arguments: layers scanned, GQA by grouped einsums, momentum."""
    head, group = width // heads, heads // kv_heads
    spec = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    params = dict(
        embed=spec(vocab, width), final=spec(width), head=spec(width, vocab),
        layers=dict(
            ln1=spec(layers, width), q=spec(layers, width, heads * head), kv=spec(layers, width, 2 * kv_heads * head),
            o=spec(layers, heads * head, width), ln2=spec(layers, width), gate=spec(layers, width, hidden),
            up=spec(layers, width, hidden), down=spec(layers, hidden, width),
        ),
    )

    def layer(x, p):
        b, t, _ = x.shape
        p = jax.tree.map(lambda w: w.astype(x.dtype), p)
        h = rms_norm(x, p["ln1"])
        q = rotary((h @ p["q"]).reshape(b, t, heads, head)).reshape(b, t, kv_heads, group, head)
        k, v = (y.reshape(b, t, kv_heads, head) for y in jnp.split(h @ p["kv"], 2, -1))
        scores = jnp.einsum("bqkgd,bskd->bkgqs", q, rotary(k)).astype(jnp.float32) / head**0.5
        visible = jnp.arange(t)[:, None] >= jnp.arange(t)[None, :]
        weights = jax.nn.softmax(jnp.where(visible, scores, -1e30), -1).astype(x.dtype)
        x = x + jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(b, t, width) @ p["o"]
        h = rms_norm(x, p["ln2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], None

    def loss(params, tokens):
        x, _ = jax.lax.scan(layer, params["embed"][tokens].astype(jnp.bfloat16), params["layers"])
        logits = (rms_norm(x, params["final"].astype(x.dtype)) @ params["head"].astype(x.dtype)).astype(jnp.float32)
        labels = jnp.roll(tokens, -1, 1)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()

    def step(params, momentum, tokens):
        value, gradient = jax.value_and_grad(loss)(params, tokens)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum), momentum, value

    return step, (params, params, jax.ShapeDtypeStruct((batch, length), jnp.int32))


def llama_train(**sizes):
    step, arguments = llama_step(**sizes)
    return jax.jit(step), arguments


def llama_mesh(**sizes):
    """The same on 2 × 4 devices: data parallelism, and tensor parallelism as in Megatron."""
    step, arguments = llama_step(**sizes)
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    columns, rows = P(None, None, "model"), P(None, "model", None)
    specs = dict(
        embed=P("model"), final=P(), head=P(None, "model"),
        layers=dict(ln1=P(), q=columns, kv=columns, o=rows, ln2=P(), gate=columns, up=columns, down=rows),
    )
    state = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda x: isinstance(x, P))
    batch, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    return jax.jit(step, in_shardings=(state, state, batch), out_shardings=(state, state, whole)), arguments


def llama_gspmd(**sizes):
    """The same, written for GSPMD."""
    jax.config.update("jax_use_shardy_partitioner", False)
    return llama_mesh(**sizes)


def deepseek(layers, width, heads, latent, head, rotary_head, hidden, vocab, batch, length):
    """Prefill with multi-head latent attention: rotary features of keys that all heads share, values of fewer features than keys."""
    spec = lambda *dims: jax.ShapeDtypeStruct((layers, *dims), jnp.bfloat16)
    stacked = dict(
        ln1=spec(width), q=spec(width, heads, head + rotary_head), latent=spec(width, latent + rotary_head), kv_norm=spec(latent),
        kv=spec(latent, heads, 2 * head), o=spec(heads, head, width), ln2=spec(width), gate=spec(width, hidden),
        up=spec(width, hidden), down=spec(hidden, width),
    )

    def layer(x, p):
        b, t, _ = x.shape
        h = rms_norm(x, p["ln1"])
        q, q_rotary = jnp.split(jnp.einsum("btd,dhk->bthk", h, p["q"]), [head], -1)
        compressed, k_rotary = jnp.split(h @ p["latent"], [latent], -1)
        k, v = jnp.split(jnp.einsum("btr,rhk->bthk", rms_norm(compressed, p["kv_norm"]), p["kv"]), 2, -1)
        shared = jnp.broadcast_to(rotary(k_rotary[:, :, None]), (b, t, heads, rotary_head))
        q, k = jnp.concatenate([q, rotary(q_rotary)], -1), jnp.concatenate([k, shared], -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * (head + rotary_head) ** -0.5
        scores = scores + jnp.triu(jnp.full((t, t), -jnp.inf), 1)
        weights = jax.nn.softmax(scores, -1).astype(x.dtype)
        x = x + jnp.einsum("bqhd,hdo->bqo", jnp.einsum("bhqk,bkhd->bqhd", weights, v), p["o"])
        h = rms_norm(x, p["ln2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], None

    def prefill(embedding, stacked, tokens):
        x, _ = jax.lax.scan(layer, embedding[tokens], stacked)
        return x[:, -1] @ embedding.T

    embedding = jax.ShapeDtypeStruct((vocab, width), jnp.bfloat16)
    return jax.jit(prefill), (embedding, stacked, jax.ShapeDtypeStruct((batch, length), jnp.int32))


def gemma2(pairs, width, heads, kv_heads, hidden, window, vocab, batch, length):
    """One step of training: a local layer and a global one in turns, soft caps of scores and logits, norms around each block, remat."""
    head, group = width // heads, heads // kv_heads
    spec = lambda *dims: jax.ShapeDtypeStruct((pairs, 2, *dims), jnp.bfloat16)
    stacked = dict(
        ln1=spec(width), q=spec(width, heads * head), kv=spec(width, 2 * kv_heads * head), o=spec(heads * head, width),
        after1=spec(width), ln2=spec(width), gate=spec(width, hidden), up=spec(width, hidden), down=spec(hidden, width),
        after2=spec(width),
    )

    def attention(p, x, seen):
        b, t, _ = x.shape
        q = rotary((x @ p["q"]).reshape(b, t, heads, head)).reshape(b, t, kv_heads, group, head) * head**-0.5
        k, v = (y.reshape(b, t, kv_heads, head) for y in jnp.split(x @ p["kv"], 2, -1))
        scores = jnp.einsum("bqkgd,bskd->bkgqs", q, rotary(k), preferred_element_type=jnp.float32)
        scores = 50 * jnp.tanh(scores / 50)
        weights = jax.nn.softmax(jnp.where(seen, scores, -2.3819763e38), -1).astype(x.dtype)
        return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(b, t, width) @ p["o"]

    @jax.checkpoint
    def pair(x, both):
        apart = jnp.arange(x.shape[1])[:, None] - jnp.arange(x.shape[1])
        for n, seen in enumerate([(apart >= 0) & (apart < window), apart >= 0]):
            p = jax.tree.map(lambda w: w[n], both)
            x = x + rms_norm(attention(p, rms_norm(x, 1 + p["ln1"]), seen), 1 + p["after1"])
            h = rms_norm(x, 1 + p["ln2"])
            x = x + rms_norm((jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], 1 + p["after2"])
        return x, None

    def loss(params, tokens):
        x, _ = jax.lax.scan(pair, params["embed"][tokens] * jnp.bfloat16(width**0.5), params["layers"])
        logits = (rms_norm(x, 1 + params["final"]) @ params["embed"].T).astype(jnp.float32)
        logits = 30 * jnp.tanh(logits / 30)
        picked = jnp.take_along_axis(logits, jnp.roll(tokens, -1, 1)[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - picked).mean()

    def step(params, tokens):
        value, gradient = jax.value_and_grad(loss)(params, tokens)
        return jax.tree.map(lambda p, g: (p - 1e-2 * g).astype(p.dtype), params, gradient), value

    own = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.bfloat16)
    params = dict(embed=own(vocab, width), final=own(width), layers=stacked)
    return jax.jit(step), (params, jax.ShapeDtypeStruct((batch, length), jnp.int32))


def vocabulary(width, hidden, vocab, batch, length):
    """One step of training in which logits fill the memory: one layer, a tied embedding, logsumexp less the label's logit."""
    spec = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    params = dict(embed=spec(vocab, width), up=spec(width, hidden), down=spec(hidden, width))

    def loss(params, tokens):
        x = params["embed"][tokens].astype(jnp.bfloat16)
        x = x + jax.nn.gelu(x @ params["up"].astype(x.dtype)) @ params["down"].astype(x.dtype)
        logits = (x @ params["embed"].T.astype(x.dtype)).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, jnp.roll(tokens, -1, 1)[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - picked).mean()

    def step(params, tokens):
        value, gradient = jax.value_and_grad(loss)(params, tokens)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradient), value

    return jax.jit(step), (params, jax.ShapeDtypeStruct((batch, length), jnp.int32))


PROGRAMS = {
    "deepseek": (deepseek, DEEPSEEK),
    "gemma2": (gemma2, GEMMA2),
    "gpt2": (gpt2, GPT2),
    "llama_gspmd": (llama_gspmd, LLAMA_MESH),
    "llama_mesh": (llama_mesh, LLAMA_MESH),
    "llama_train": (llama_train, LLAMA_TRAIN),
    "mixtral": (mixtral, MIXTRAL),
    "mixtral_mesh": (mixtral_mesh, MIXTRAL_ON_MESH),
    "mixtral_train": (mixtral_train, MIXTRAL_TRAIN),
    "mixtral_train_mesh": (mixtral_train_mesh, MIXTRAL_TRAIN_ON_MESH),
    "vocabulary": (vocabulary, VOCABULARY),
}

if __name__ == "__main__":
    name, size, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    make, sizes = PROGRAMS[name]
    function, arguments = make(**sizes[size])
    path = folder / (f"{name}.mlir" if size == "full" else f"{name}.{size}.mlir")
    path.write_text(function.lower(*arguments).as_text())
