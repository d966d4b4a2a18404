"""A GPT-2 in JAX, the reference implementation for `nn::models::Gpt2`: the same losses from the same parameters and batches, or its speed.

    gpt_reference.py losses FOLDER      parameters.npz, batches.npz and settings.json in FOLDER; writes losses.json there
    gpt_reference.py speed SETTINGS     settings as JSON on the command line; prints tokens per second as JSON
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def norm(p, x, epsilon):
    x32 = x.astype(jnp.float32)
    mean = x32.mean(-1, keepdims=True)
    variance = jnp.square(x32 - mean).mean(-1, keepdims=True)
    return ((x32 - mean) * jax.lax.rsqrt(variance + epsilon) * p["weight"] + p["bias"]).astype(x.dtype)


def linear(p, x):
    return x @ p["weight"].astype(x.dtype) + p["bias"].astype(x.dtype)


def attention(q, k, v):
    batch, length, heads, size = q.shape
    # In the narrow type and widened then: with preferred_element_type JAX multiplies wide in the backward pass, slowly.
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / np.sqrt(size)
    mask = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1).astype(q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def block(p, x, heads, epsilon, cudnn=False):
    batch, length, width = x.shape
    h = norm(p["attention_norm"], x, epsilon)
    q, k, v = (linear(p["attention"][n], h).reshape(batch, length, heads, -1) for n in ("query", "key", "value"))
    if cudnn:
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
    else:
        mixed = attention(q, k, v)
    mixed = mixed.reshape(batch, length, width)
    x = x + linear(p["attention"]["output"], mixed)
    h = linear(p["feed_forward"]["up"], norm(p["feed_forward_norm"], x, epsilon))
    return x + linear(p["feed_forward"]["down"], jax.nn.gelu(h, approximate=True))


def loss(p, tokens, targets, settings, compute):
    embedding = p["token_embedding"]["weight"]
    x = embedding[tokens].astype(compute)
    x = x + p["position_embedding"]["weight"][: tokens.shape[1]].astype(compute)
    x, _ = jax.lax.scan(lambda x, layer: (block(layer, x, settings["heads"], 1e-5, settings.get("cudnn")), None), x, p["layers"])
    x = norm(p["norm"], x, 1e-5)
    logits = jnp.einsum("btw,vw->btv", x, embedding.astype(compute)).astype(jnp.float32)
    logs = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.take_along_axis(logs, targets[..., None], axis=-1).mean()


def step(state, batch, settings, compute):
    params, first, second, count = state
    value, grads = jax.value_and_grad(loss)(params, *batch, settings, compute)
    if settings.get("clip"):
        length = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
        scale = jnp.where(length <= settings["clip"], 1.0, settings["clip"] / length)
        grads = jax.tree.map(lambda g: g * scale, grads)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
    c1, c2 = 1 - 0.9 ** count.astype(jnp.float32), jnp.sqrt(1 - 0.999 ** count.astype(jnp.float32))
    rate = settings["rate"]
    params = jax.tree.map(lambda p, m, v: p - rate * (m / c1) / (jnp.sqrt(v) / c2 + 1e-8), params, first, second)
    return (params, first, second, count), value


def nested(flat):
    tree = {}
    for path, value in flat.items():
        at = tree
        *words, last = path.split(".")
        for word in words:
            at = at.setdefault(word, {})
        at[last] = jnp.asarray(value)
    return tree


def drawn(settings, vocabulary, positions, width, layers):
    rng = np.random.default_rng(0)
    w = lambda *dims: rng.normal(0, 0.02, dims).astype(np.float32)
    ln = lambda *lead: {"weight": np.ones((*lead, width), np.float32), "bias": np.zeros((*lead, width), np.float32)}
    li = lambda i, o: {"weight": w(layers, i, o), "bias": np.zeros((layers, o), np.float32)}
    params = {
        "token_embedding": {"weight": w(vocabulary, width)},
        "position_embedding": {"weight": w(positions, width)},
        "norm": ln(),
        "layers": {
            "attention_norm": ln(layers),
            "feed_forward_norm": ln(layers),
            "attention": {n: li(width, width) for n in ("query", "key", "value", "output")},
            "feed_forward": {"up": li(width, 4 * width), "down": li(4 * width, width)},
        },
    }
    return jax.tree.map(jnp.asarray, params)


def start(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return (params, zeros, jax.tree.map(jnp.zeros_like, params), jnp.int32(0))


def losses(folder):
    settings = json.load(open(f"{folder}/settings.json"))
    state = start(nested(dict(np.load(f"{folder}/parameters.npz"))))
    batches = np.load(f"{folder}/batches.npz")
    run = jax.jit(lambda state, batch: step(state, batch, settings, jnp.float32))
    values = []
    for tokens, targets in zip(batches["tokens"], batches["targets"]):
        state, value = run(state, (tokens, targets))
        values.append(float(value))
    json.dump(values, open(f"{folder}/losses.json", "w"))


def speed(settings):
    compute = jnp.bfloat16 if settings["precision"] == "mixed" else jnp.float32
    state = start(drawn(settings, settings["vocabulary"], settings["positions"], settings["width"], settings["layers"]))
    run = jax.jit(lambda state, batch: step(state, batch, settings, compute), donate_argnums=0)
    rng = np.random.default_rng(1)
    dims = (settings["batch"], settings["sequence"])
    batches = [tuple(jnp.asarray(rng.integers(0, settings["vocabulary"], dims, np.int32)) for _ in range(2)) for _ in range(4)]
    for n in range(settings.get("warm", 3)):
        state, value = run(state, batches[n % 4])
    value.block_until_ready()
    rounds = []
    for _ in range(settings.get("rounds", 3)):
        started = time.perf_counter()
        for n in range(settings["steps"]):
            state, value = run(state, batches[n % 4])
        value.block_until_ready()
        rounds.append(settings["steps"] * dims[0] * dims[1] / (time.perf_counter() - started))
    print(json.dumps({"tokens_per_second": sorted(rounds)[len(rounds) // 2], "rounds": rounds, "loss": float(value)}))


if __name__ == "__main__":
    if sys.argv[1] == "losses":
        losses(sys.argv[2])
    else:
        speed(json.loads(sys.argv[2]))
