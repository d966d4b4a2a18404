"""Exports an unsharded Llama-style training, prefill or decode step from JAX, as a portable artifact.

    python export_step.py FILE [--model tiny|llama3.1-8b] [--step train|prefill|decode] [--sequence N] [--batch N|symbolic]
                               [--remat full|dots|gate|gate_up] [--attention-block N] [--attention-parts N]
                               [--loss-block N]

Global shapes, no shardings: where a program like this should run, and how it is split there, is what `tpu plan` answers.
"""

import argparse
import os
import pathlib
from functools import partial

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
from jax import export, lax
from jax.ad_checkpoint import checkpoint_name

# Embedding, layers, query heads, key and value heads, head size, inner size, vocabulary.
MODELS = {
    "tiny": (256, 2, 4, 2, 64, 512, 1024),
    "llama3.1-8b": (4096, 32, 32, 8, 128, 14336, 128256),
}
# What the forward pass keeps of each layer beside its input, by the names in `layer`; the rest is rematerialized.
REMAT = {
    "full": (),
    "dots": ("dot",),
    "gate": ("dot", "gate"),
    "gate_up": ("dot", "gate", "up"),
}
COMPUTE = jnp.bfloat16


def parameter_shapes(model):
    emb, layers, heads, kv_heads, head, inner, vocabulary = MODELS[model]
    return {
        "embedding": (vocabulary, emb),
        "output": (emb, vocabulary),
        "norm": (emb,),
        "layers": {
            "norm_attention": (layers, emb),
            "norm_inner": (layers, emb),
            "query": (layers, emb, heads, head),
            "key": (layers, emb, kv_heads, head),
            "value": (layers, emb, kv_heads, head),
            "out": (layers, heads, head, emb),
            "gate": (layers, emb, inner),
            "up": (layers, emb, inner),
            "down": (layers, inner, emb),
        },
    }


def norm(x, scale):
    wide = x.astype(jnp.float32)
    normed = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)
    return normed.astype(COMPUTE) * scale.astype(COMPUTE)


def rotate(x, positions):
    half = x.shape[-1] // 2
    frequency = 1.0 / (500000.0 ** (jnp.arange(half, dtype=jnp.float32) / half))
    angle = positions[:, None].astype(jnp.float32) * frequency
    sine, cosine = jnp.sin(angle)[None, :, None, :], jnp.cos(angle)[None, :, None, :]
    a, b = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1).astype(COMPUTE)


def scores_of(query, key, first):
    """Scores of a block of queries that starts at position `first` against all keys."""
    query = query * jnp.asarray(query.shape[-1] ** -0.5, COMPUTE)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", query, key, preferred_element_type=jnp.float32)
    at = first + jnp.arange(query.shape[1])
    return jnp.where(at[:, None] >= jnp.arange(key.shape[1])[None, :], scores, -1e9)


def attend(query, key, value, first):
    """Attention of a block of queries, and the logarithm of the sum that its weights were divided by."""
    scores = scores_of(query, key, first)
    total = jax.nn.logsumexp(scores, -1)
    weights = jnp.exp(scores - total[..., None]).astype(COMPUTE)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, value), total


def attend_backward(query, key, value, first, total, inner, cotangent):
    """Cotangents of a block's queries, keys and values. `inner` is the sum of the result times its cotangent."""
    # The name is what JAX gives to all that is rematerialized, so that it counts as such here too.
    with jax.named_scope("rematted_computation"):
        weights = jnp.exp(scores_of(query, key, first) - total[..., None])
    of_weights = jnp.einsum("bqkgd,bskd->bkgqs", cotangent, value, preferred_element_type=jnp.float32)
    of_scores = weights * (of_weights - inner[..., None]) * query.shape[-1] ** -0.5
    of_scores, weights = of_scores.astype(COMPUTE), weights.astype(COMPUTE)
    of_query = jnp.einsum("bkgqs,bskd->bqkgd", of_scores, key)
    of_key = jnp.einsum("bkgqs,bqkgd->bskd", of_scores, query, preferred_element_type=jnp.float32)
    of_value = jnp.einsum("bkgqs,bqkgd->bskd", weights, cotangent, preferred_element_type=jnp.float32)
    return of_query, of_key, of_value


def by_head_and_block(of_block, query, key, value, block, first, *rows):
    """Calls `of_block` for one head of keys and one block of queries at a time. `rows` are other values of queries."""
    batch, length = query.shape[:2]
    blocks = lambda x: jnp.moveaxis(x.reshape(batch, length // block, block, *x.shape[2:]), 1, 0)
    starts = first + jnp.arange(length // block) * block

    def of_head(_, state):
        (key, value), rows = (tuple(x[:, :, None] for x in part) for part in state)
        return None, of_block(key, value, starts, *(blocks(x) for x in rows))

    split = lambda *arrays: tuple(jnp.moveaxis(x, 2, 0) for x in arrays)
    return lax.scan(of_head, None, (split(key, value), split(query, *rows)))[1]


def whole(blocks):
    """Heads and blocks of queries in one array again."""
    heads, count, batch, block = blocks.shape[:4]
    return jnp.moveaxis(blocks, (0, 1), (3, 1)).reshape(batch, count * block, heads, *blocks.shape[5:])


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def attention(query, key, value, block, parts):
    """Causal attention, one head of keys and one block of queries at a time, nothing of the scores kept.

    Small enough a block stays in vector memory between the matmuls, as it would in a kernel. Each of `parts` of the
    sequence reads only the keys up to its own end.
    """
    return attention_forward(query, key, value, block, parts)[0]


def attention_forward(query, key, value, block, parts):
    batch, sequence, heads, head = query.shape
    kv_heads = key.shape[2]
    part = sequence // parts
    block = min(block, part)
    grouped = query.reshape(batch, sequence, kv_heads, heads // kv_heads, head)

    def of_block(key, value, starts, rows):
        step = lambda _, row: (None, attend(row[0], key, value, row[1]))
        out, total = lax.scan(step, None, (rows, starts))[1]
        return out, jnp.moveaxis(total, -1, 2)

    outs, totals = [], []
    for at in range(parts):
        end = (at + 1) * part
        out, total = by_head_and_block(
            of_block, grouped[:, at * part : end], key[:, :end], value[:, :end], block, at * part
        )
        outs.append(whole(out))
        totals.append(whole(total))
    out = checkpoint_name(jnp.concatenate(outs, 1).reshape(query.shape), "dot")
    total = checkpoint_name(jnp.concatenate(totals, 1), "dot")
    return out, (query, key, value, out, total)


def attention_backward(block, parts, kept, cotangent):
    query, key, value, out, total = kept
    batch, sequence, heads, head = query.shape
    kv_heads = key.shape[2]
    part = sequence // parts
    block = min(block, part)
    group = lambda x: x.reshape(batch, sequence, kv_heads, heads // kv_heads, head)
    inner = jnp.sum(group(out).astype(jnp.float32) * group(cotangent), -1)

    def of_block(key, value, starts, rows, out_rows, totals, inners):
        def step(sums, row):
            query, cotangent, total, inner, first = row
            moved = lambda x: jnp.moveaxis(x, 1, -1)
            of_query, of_key, of_value = attend_backward(
                query, key, value, first, moved(total), moved(inner), cotangent
            )
            return (sums[0] + of_key, sums[1] + of_value), of_query

        zeros = jnp.zeros(key.shape, jnp.float32)
        return lax.scan(step, (zeros, zeros), (rows, out_rows, totals, inners, starts))

    of_queries = []
    of_key, of_value = jnp.zeros(key.shape, jnp.float32), jnp.zeros(value.shape, jnp.float32)
    for at in range(parts):
        end = (at + 1) * part
        rows = slice(at * part, end)
        (key_part, value_part), of_query = by_head_and_block(
            of_block,
            group(query)[:, rows],
            key[:, :end],
            value[:, :end],
            block,
            at * part,
            group(cotangent)[:, rows],
            total[:, rows],
            inner[:, rows],
        )
        of_queries.append(whole(of_query))
        heads_last = lambda x: jnp.moveaxis(x[:, :, :, 0], 0, 2)
        of_key = of_key.at[:, :end].add(heads_last(key_part))
        of_value = of_value.at[:, :end].add(heads_last(value_part))
    of_query = jnp.concatenate(of_queries, 1).reshape(query.shape)
    return of_query, of_key.astype(COMPUTE), of_value.astype(COMPUTE)


attention.defvjp(attention_forward, attention_backward)


def cast(w):
    return jax.tree.map(lambda leaf: leaf.astype(COMPUTE), w)


def layer(x, w, block, parts):
    w = cast(w)
    positions = jnp.arange(x.shape[1])
    h = norm(x, w["norm_attention"])
    query = checkpoint_name(jnp.einsum("bse,ehd->bshd", h, w["query"]), "dot")
    key = checkpoint_name(jnp.einsum("bse,ehd->bshd", h, w["key"]), "dot")
    value = checkpoint_name(jnp.einsum("bse,ehd->bshd", h, w["value"]), "dot")
    context = attention(rotate(query, positions), rotate(key, positions), value, block, parts)
    x = x + checkpoint_name(jnp.einsum("bshd,hde->bse", context, w["out"]), "dot")
    h = norm(x, w["norm_inner"])
    gate = checkpoint_name(jnp.einsum("bse,ef->bsf", h, w["gate"]), "gate")
    up = checkpoint_name(jnp.einsum("bse,ef->bsf", h, w["up"]), "up")
    return x + jnp.einsum("bsf,fe->bse", jax.nn.silu(gate) * up, w["down"])


def cross_entropy(x, output, targets, block):
    """Sum over tokens, a block of the sequence at a time, so that logits of the whole batch never exist at once."""
    batch, sequence, emb = x.shape
    block = min(block, sequence)

    @partial(jax.checkpoint, prevent_cse=False)
    def of_block(x, targets):
        logits = jnp.einsum("bse,ev->bsv", x, output.astype(COMPUTE)).astype(jnp.float32)
        chosen = lax.broadcasted_iota(jnp.int32, logits.shape, 2) == targets[..., None]
        return jnp.sum(jax.nn.logsumexp(logits, -1) - jnp.sum(jnp.where(chosen, logits, 0.0), -1))

    if block == sequence:
        return of_block(x, targets)
    split = lambda v: jnp.moveaxis(v.reshape(batch, sequence // block, block, *v.shape[2:]), 1, 0)
    total, _ = lax.scan(lambda sum, part: (sum + of_block(*part), None), 0.0, (split(x), split(targets)))
    return total


def loss(parameters, tokens, targets, remat, block, parts, loss_block):
    x = parameters["embedding"].astype(COMPUTE)[tokens]
    policy = jax.checkpoint_policies.save_only_these_names(*REMAT[remat])
    body = jax.checkpoint(lambda x, w: (layer(x, w, block, parts), None), policy=policy, prevent_cse=False)
    x, _ = lax.scan(body, x, parameters["layers"])
    x = norm(x, parameters["norm"])
    return cross_entropy(x, parameters["output"], targets, loss_block) / tokens.size


def train_step(state, tokens, targets, **options):
    """One step of Adam."""
    parameters, first, second, count = state
    value, gradients = jax.value_and_grad(loss)(parameters, tokens, targets, **options)
    count = count + 1
    rate, decay_first, decay_second = 3e-4, 0.9, 0.95
    first = jax.tree.map(lambda m, g: decay_first * m + (1 - decay_first) * g, first, gradients)
    second = jax.tree.map(lambda v, g: decay_second * v + (1 - decay_second) * g * g, second, gradients)
    scale = rate * jnp.sqrt(1 - decay_second**count) / (1 - decay_first**count)
    move = lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8)
    return (jax.tree.map(move, parameters, first, second), first, second, count), value


def serve_step(parameters, cache, tokens, position):
    """The next tokens of each sequence of the batch, which start at `position` of a cache of keys and values."""
    positions = position + jnp.arange(tokens.shape[1])
    x = parameters["embedding"].astype(COMPUTE)[tokens]

    def body(x, layer_state):
        w, keys, values = layer_state
        w = cast(w)
        h = norm(x, w["norm_attention"])
        query = rotate(jnp.einsum("bse,ehd->bshd", h, w["query"]), positions)
        key = rotate(jnp.einsum("bse,ehd->bshd", h, w["key"]), positions)
        keys = lax.dynamic_update_slice_in_dim(keys, key, position, 1)
        values = lax.dynamic_update_slice_in_dim(values, jnp.einsum("bse,ehd->bshd", h, w["value"]), position, 1)
        batch, count, heads, head = query.shape
        grouped = query.reshape(batch, count, keys.shape[2], heads // keys.shape[2], head)
        context = attend(grouped, keys, values, position)[0].reshape(batch, count, heads, head)
        x = x + jnp.einsum("bshd,hde->bse", context, w["out"])
        h = norm(x, w["norm_inner"])
        inner = jax.nn.silu(jnp.einsum("bse,ef->bsf", h, w["gate"])) * jnp.einsum("bse,ef->bsf", h, w["up"])
        return x + jnp.einsum("bsf,fe->bse", inner, w["down"]), (keys, values)

    x, cache = lax.scan(body, x, (parameters["layers"], *cache))
    logits = jnp.einsum("bse,ev->bsv", norm(x[:, -1:], parameters["norm"]), parameters["output"].astype(COMPUTE))
    return logits, cache


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=pathlib.Path)
    options.add_argument("--model", choices=MODELS, default="tiny")
    options.add_argument("--step", choices=["train", "prefill", "decode"], default="train")
    options.add_argument("--sequence", type=int, default=256)
    options.add_argument("--batch", default="symbolic")
    options.add_argument("--remat", choices=REMAT, default="full")
    options.add_argument("--attention-block", type=int, default=1024)
    options.add_argument("--attention-parts", type=int, default=1)
    options.add_argument("--loss-block", type=int, default=2048)
    options = options.parse_args()

    symbolic = options.batch == "symbolic"
    batch = export.symbolic_shape("b")[0] if symbolic else int(options.batch)
    shapes = parameter_shapes(options.model)
    is_shape = lambda leaf: isinstance(leaf, tuple)
    arrays = lambda dtype: jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, dtype), shapes, is_leaf=is_shape)
    if options.step == "train":
        attention = dict(block=options.attention_block, parts=options.attention_parts)
        step = partial(train_step, remat=options.remat, loss_block=options.loss_block, **attention)
        count = jax.ShapeDtypeStruct((), jnp.int32)
        tokens = jax.ShapeDtypeStruct((batch, options.sequence), jnp.int32)
        arguments = ((arrays(jnp.float32), arrays(jnp.float32), arrays(jnp.float32), count), tokens, tokens)
        donated = (0,)
    else:
        _, layers, _, kv_heads, head, _, _ = MODELS[options.model]
        step = serve_step
        cache = jax.ShapeDtypeStruct((layers, batch, options.sequence, kv_heads, head), COMPUTE)
        tokens = jax.ShapeDtypeStruct((batch, 1 if options.step == "decode" else options.sequence), jnp.int32)
        arguments = (arrays(COMPUTE), (cache, cache), tokens, jax.ShapeDtypeStruct((), jnp.int32))
        donated = (1,)
    exported = export.export(jax.jit(step, donate_argnums=donated), platforms=["tpu"])(*arguments)
    options.file.write_bytes(exported.mlir_module_serialized)


main()
