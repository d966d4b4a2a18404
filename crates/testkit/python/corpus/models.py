"""Whole models: training steps, attention, recurrent, convolutional, mixture of experts, decoding."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec

BF16 = jnp.bfloat16


def programs() -> list[Program]:
    """All model programs."""
    return [
        _mlp_adam(),
        *_transformers(),
        *_attention(),
        *_recurrent(),
        *_convolutional(),
        *_experts(),
        *_sequence_models(),
    ]


def _adam(params, grads, moments, step):
    def update(p, g, m, v):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        corrected = (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)
        return p - 1e-3 * corrected, m, v

    leaves = jax.tree.map(update, params, grads, *moments)
    return tuple(jax.tree.map(lambda t, i=i: t[i], leaves, is_leaf=lambda t: isinstance(t, tuple)) for i in range(3))


def _mlp_adam() -> Program:
    params = {"in": {"w": spec((16, 64)), "b": spec((64,))}, "out": {"w": spec((64, 10)), "b": spec((10,))}}

    def loss(p, x, y):
        hidden = jax.nn.relu(x @ p["in"]["w"] + p["in"]["b"])
        logits = hidden @ p["out"]["w"] + p["out"]["b"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))

    def train(p, m, v, step, x, y):
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return *_adam(p, grads, (m, v), step), value

    arguments = [params, params, params, spec(()), spec((8, 16)), spec((8,), jnp.int32)]
    return Program(
        "model_mlp_adam",
        train,
        arguments,
        ["model", "grad", "donation"],
        jit={"donate_argnums": (0, 1, 2)},
        generic=True,
        locations=True,
    )


def _norm(x, gain):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * gain.astype(x.dtype)


def _causal_attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30)).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def _layer(x, p):
    h = _norm(x, p["ln1"])
    q, k, v = jnp.einsum("bsd,dthk->tbshk", h, p["qkv"].astype(x.dtype))
    x = x + jnp.einsum("bshk,hkd->bsd", _causal_attention(q, k, v), p["out"].astype(x.dtype))
    h = _norm(x, p["ln2"])
    return x + jax.nn.gelu(h @ p["up"].astype(x.dtype)) @ p["down"].astype(x.dtype)


def _transformer_params(layers, width, heads, hidden, vocabulary):
    return {
        "embed": spec((vocabulary, width)),
        "layers": {
            "ln1": spec((layers, width)),
            "ln2": spec((layers, width)),
            "qkv": spec((layers, width, 3, heads, width // heads)),
            "out": spec((layers, heads, width // heads, width)),
            "up": spec((layers, width, hidden)),
            "down": spec((layers, hidden, width)),
        },
    }


def _language_loss(params, tokens, remat):
    x = params["embed"].astype(BF16)[tokens[:, :-1]]
    body = jax.checkpoint(_layer) if remat else _layer
    x, _ = lax.scan(lambda c, p: (body(c, p), None), x, params["layers"])
    logits = (x @ params["embed"].astype(BF16).T).astype(jnp.float32)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1))


def _transformers() -> list[Program]:
    params = _transformer_params(layers=3, width=32, heads=4, hidden=64, vocabulary=101)
    tokens = spec((2, 17), jnp.int32)

    def train(p, m, v, step, t):
        value, grads = jax.value_and_grad(functools.partial(_language_loss, remat=True))(p, t)
        return *_adam(p, grads, (m, v), step), value

    return [
        Program(
            "model_transformer_train",
            train,
            [params, params, params, spec(()), tokens],
            ["model", "scan", "remat", "grad"],
            jit={"donate_argnums": (0, 1, 2)},
            locations=True,
        ),
        Program(
            "model_transformer_loss",
            functools.partial(_language_loss, remat=False),
            [params, tokens],
            ["model", "scan"],
            generic=True,
        ),
        Program(
            "model_transformer_export",
            functools.partial(_language_loss, remat=False),
            [params, tokens],
            ["model", "export"],
            route="export",
        ),
        Program(
            "model_transformer_cpu",
            train,
            [params, params, params, spec(()), tokens],
            ["model", "grad"],
            platform="cpu",
        ),
        Program(
            "model_decode_step",
            _decode_step,
            [spec((2, 32, 4, 8), BF16), spec((2, 32, 4, 8), BF16), spec((2, 4, 8), BF16), spec((), jnp.int32)],
            ["model", "donation"],
            jit={"donate_argnums": (0, 1)},
        ),
        Program(
            "model_vit_block",
            _vision_block,
            [spec((2, 16, 16, 3)), spec((4, 4, 3, 32)), jax.tree.map(lambda s: spec(s.shape[1:]), params["layers"])],
            ["model", "convolution"],
        ),
        Program("model_t5_bias", _relative_bias, [spec((8, 4)), spec((4, 16, 16))], ["model", "gather"]),
        Program("model_sampling", _sample_token, [spec((2, 101)), spec((2,), jnp.uint32)], ["model", "random", "sort"]),
    ]


def _decode_step(keys, values, query, position):
    keys = lax.dynamic_update_slice(keys, query[:, None], (0, position, 0, 0))
    values = lax.dynamic_update_slice(values, query[:, None] * 2, (0, position, 0, 0))
    scores = jnp.einsum("bhd,bshd->bhs", query, keys).astype(jnp.float32)
    scores = jnp.where(jnp.arange(keys.shape[1]) <= position, scores, -jnp.inf)
    return keys, values, jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(scores).astype(values.dtype), values)


def _vision_block(images, patch_kernel, params):
    patches = lax.conv_general_dilated(
        images, patch_kernel, (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    tokens = patches.reshape(patches.shape[0], -1, patches.shape[-1])
    return jnp.mean(_layer(tokens, params), axis=1)


def _relative_bias(table, scores):
    length = scores.shape[-1]
    distance = jnp.arange(length)[:, None] - jnp.arange(length)[None]
    bucket = jnp.minimum(jnp.floor(jnp.log2(jnp.abs(distance) + 1.0)).astype(jnp.int32), 7)
    return scores + jnp.transpose(table[bucket], (2, 0, 1))


def _sample_token(logits, bits):
    top, _ = lax.top_k(logits, 10)
    filtered = jnp.where(logits < top[:, -1:], -jnp.inf, logits / 0.7)
    return jax.random.categorical(jax.random.wrap_key_data(bits), filtered)


def _attention() -> list[Program]:
    q, kv = spec((2, 8, 4, 16), BF16), spec((2, 8, 2, 16), BF16)
    grouped = lambda a, b, c: jax.nn.dot_product_attention(a, b, c, is_causal=True)  # noqa: E731
    return [
        Program("model_attention", _causal_attention, [q, q, q], ["model"]),
        Program(
            "model_attention_gradient",
            jax.grad(lambda a, b, c: _causal_attention(a, b, c).astype(jnp.float32).sum(), argnums=(0, 1, 2)),
            [q, q, q],
            ["model", "grad"],
        ),
        Program("model_attention_grouped", grouped, [q, kv, kv], ["model"]),
        Program("model_rotary", _rotary, [q], ["model"]),
        Program(
            "model_chunked_attention",
            _chunked_attention,
            [spec((16, 8)), spec((16, 8)), spec((16, 8))],
            ["model", "scan"],
        ),
    ]


def _rotary(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1).astype(x.dtype)


def _chunked_attention(q, k, v):
    def step(carry, chunk):
        peak, total, acc = carry
        keys, values = chunk
        scores = q @ keys.T
        new_peak = jnp.maximum(peak, scores.max(-1))
        weights, shrink = jnp.exp(scores - new_peak[:, None]), jnp.exp(peak - new_peak)
        return (new_peak, total * shrink + weights.sum(-1), acc * shrink[:, None] + weights @ values), None

    start = (jnp.full(q.shape[0], -jnp.inf), jnp.zeros(q.shape[0]), jnp.zeros_like(q))
    chunks = (k.reshape(4, 4, 8), v.reshape(4, 4, 8))
    (_, total, acc), _ = lax.scan(step, start, chunks)
    return acc / total[:, None]


def _recurrent() -> list[Program]:
    x, w, u = spec((5, 2, 8)), spec((8, 64)), spec((16, 64))
    return [
        Program("model_lstm", _lstm, [x, w, u], ["model", "scan"]),
        Program(
            "model_lstm_gradient",
            jax.grad(lambda a, b, c: _lstm(a, b, c).sum(), argnums=(1, 2)),
            [x, w, u],
            ["model", "scan", "grad"],
            locations=True,
        ),
        Program("model_gru", _gru, [x, spec((8, 48)), spec((16, 48))], ["model", "scan"]),
    ]


def _lstm(inputs, w, u):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((inputs.shape[1], u.shape[0]))
    return lax.scan(step, (zeros, zeros), inputs)[1]


def _gru(inputs, w, u):
    def step(h, x):
        xr, xz, xn = jnp.split(x @ w, 3, axis=-1)
        hr, hz, hn = jnp.split(h @ u, 3, axis=-1)
        update = jax.nn.sigmoid(xz + hz)
        candidate = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        return (1 - update) * candidate + update * h, None

    return lax.scan(step, jnp.zeros((inputs.shape[1], u.shape[0])), inputs)[0]


def _convolutional() -> list[Program]:
    x, k1, k2, gain = spec((2, 8, 8, 16)), spec((3, 3, 16, 16)), spec((3, 3, 16, 16)), spec((16,))
    gradient = jax.grad(lambda *a: jnp.sum(_residual_block(*a) ** 2), argnums=(1, 2, 3))
    return [
        Program("model_resnet_block", _residual_block, [x, k1, k2, gain], ["model", "convolution"]),
        Program("model_resnet_gradient", gradient, [x, k1, k2, gain], ["model", "convolution", "grad"], generic=True),
        Program("model_unet_upsample", _upsample, [x, k1], ["model", "convolution"]),
    ]


def _residual_block(x, first, second, gain):
    def convolve(v, k):
        return lax.conv_general_dilated(v, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def batch_norm(v):
        mean, var = jnp.mean(v, (0, 1, 2)), jnp.var(v, (0, 1, 2))
        return (v - mean) * lax.rsqrt(var + 1e-5) * gain

    return jax.nn.relu(x + batch_norm(convolve(jax.nn.relu(batch_norm(convolve(x, first))), second)))


def _upsample(x, kernel):
    return jax.nn.silu(lax.conv_transpose(x, kernel, (2, 2), "SAME"))


def _experts() -> list[Program]:
    x, router, up, down = spec((16, 8)), spec((8, 4)), spec((4, 8, 32)), spec((4, 32, 8))
    return [
        Program("model_moe_ragged", _ragged_experts, [x, router, up, down], ["model", "ragged_dot", "sort"]),
        Program(
            "model_moe_ragged_gradient",
            jax.grad(lambda *a: _ragged_experts(*a).sum(), argnums=(2, 3)),
            [x, router, up, down],
            ["model", "ragged_dot", "grad"],
        ),
        Program("model_moe_dense", _dense_experts, [x, router, up, down], ["model", "top_k"]),
    ]


def _ragged_experts(x, router, up, down):
    expert = jnp.argmax(x @ router, axis=-1)
    order = jnp.argsort(expert)
    sizes = jnp.bincount(expert, length=4)
    hidden = jax.nn.silu(lax.ragged_dot(x[order], up, sizes))
    return lax.ragged_dot(hidden, down, sizes)[jnp.argsort(order)]


def _dense_experts(x, router, up, down):
    weights, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    gates = jnp.sum(jax.nn.one_hot(chosen, 4) * weights[..., None], axis=1)
    hidden = jax.nn.silu(jnp.einsum("td,edf->tef", x, up))
    return jnp.einsum("tef,efd,te->td", hidden, down, gates)


def _sequence_models() -> list[Program]:
    return [
        Program(
            "model_state_space", _state_space, [spec((2, 16, 8)), spec((8, 4)), spec((8, 4))], ["model", "cumulative"]
        ),
        Program("model_ctc_like", _alignment, [spec((10, 6))], ["model", "scan"]),
        Program(
            "model_vae",
            _autoencoder,
            [spec((4, 16)), spec((16, 8)), spec((4, 16)), spec((2,), jnp.uint32)],
            ["model", "random"],
        ),
    ]


def _state_space(x, decay, mix):
    a = jnp.broadcast_to(jnp.exp(-jnp.exp(decay)), (*x.shape, decay.shape[-1]))
    b = x[..., None] * mix

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return lax.associative_scan(combine, (a, b), axis=1)[1].sum(-1)


def _alignment(log_probabilities):
    def step(alpha, row):
        shifted = jnp.concatenate([jnp.full((1,), -1e30), alpha[:-1]])
        return jnp.logaddexp(alpha, shifted) + row, None

    start = jnp.full(log_probabilities.shape[1], -1e30).at[0].set(0.0)
    return lax.scan(step, start, log_probabilities)[0][-1]


def _autoencoder(x, encode, decode, bits):
    mean, log_scale = jnp.split(x @ encode, 2, axis=-1)
    noise = jax.random.normal(jax.random.wrap_key_data(bits), mean.shape)
    latent = mean + jnp.exp(log_scale) * noise
    reconstruction = jax.nn.sigmoid(latent @ decode)
    divergence = 0.5 * jnp.sum(jnp.exp(2 * log_scale) + mean**2 - 1 - 2 * log_scale, -1)
    return jnp.mean(jnp.sum((reconstruction - x) ** 2, -1) + divergence)
