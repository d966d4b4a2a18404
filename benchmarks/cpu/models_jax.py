"""What the entries compute, in plain JAX: the same functions are compiled for XLA:CPU and for the tpubridge device."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NHWC = ("NHWC", "HWIO", "NHWC")


def matmul(a, b):
    """Matmul in the arguments' own type."""
    return a @ b


def matmul_int8(a, b):
    """Matmul of bytes, summed in 32 bits."""
    return lax.dot(a, b, preferred_element_type=jnp.int32)


def weight_only(x, weight, scales):
    """A narrow matrix, converted where it is used; scales after the product."""
    product = lax.dot(x, weight.astype(x.dtype), preferred_element_type=jnp.float32)
    return product * scales


def grouped(x, weight, scales):
    """Partial sums by group, times their scales."""
    groups = scales.shape[0]
    rows = x.reshape(x.shape[0], groups, -1)
    matrix = weight.astype(x.dtype).reshape(groups, rows.shape[2], -1)
    numbers = (((2,), (1,)), ((1,), (0,)))
    sums = lax.dot_general(rows, matrix, numbers, preferred_element_type=jnp.float32)
    return (sums * scales[:, None, :]).sum(0)


def w8a8(x, weight, scales):
    """Rows in 8 bits, summed in 32."""
    row_scales = jnp.max(jnp.abs(x), axis=1, keepdims=True) / 127.0
    rows = jnp.clip(jnp.round(x / row_scales), -127, 127).astype(jnp.int8)
    sums = lax.dot(rows, weight, preferred_element_type=jnp.int32)
    return sums.astype(jnp.float32) * row_scales * scales


def gelu_chain(x, scale, bias):
    """Scale, bias, gelu (tanh form)."""
    return jax.nn.gelu(x * scale + bias)


def layer_norm(x, gamma, beta):
    """Normalises the last dimension."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gamma + beta


def conv(x, kernel, stride=1, padding="SAME"):
    """Convolution without bias."""
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=NHWC)


def attention(q, k, v):
    """Causal attention over [batch, heads, length, width]."""
    mask = jnp.tril(jnp.ones((q.shape[2], k.shape[2]), bool))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * np.float32(q.shape[-1] ** -0.5)
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


def heads_of(x, heads):
    """[batch, length, width] to [batch, heads, length, width / heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def joined(x):
    """The inverse of `heads_of`."""
    batch, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def linear(x, parameters):
    """Weights and bias."""
    weights, bias = parameters
    return x @ weights + bias


def feed_forward(x, block):
    """The second half of a transformer block."""
    return x + linear(jax.nn.gelu(linear(layer_norm(x, *block["norm2"]), block["up"])), block["down"])


def transformer(parameters, tokens, heads):
    """Logits of every position."""
    x = parameters["tokens"][tokens] + parameters["positions"][: tokens.shape[1]]
    for block in parameters["blocks"]:
        qkv = linear(layer_norm(x, *block["norm1"]), block["qkv"])
        q, k, v = (heads_of(part, heads) for part in jnp.split(qkv, 3, -1))
        x = feed_forward(x + linear(joined(attention(q, k, v)), block["out"]), block)
    return layer_norm(x, *parameters["norm"]) @ parameters["tokens"].T


def gpt2_decode(parameters, caches, token):
    """Logits of one more token, and the keys and values that it adds to the cache."""
    past = caches[0][0].shape[2]
    x = parameters["tokens"][token] + parameters["positions"][past : past + 1]
    added = []
    for block, (past_k, past_v) in zip(parameters["blocks"], caches):
        qkv = linear(layer_norm(x, *block["norm1"]), block["qkv"])
        q, k, v = (heads_of(part, past_k.shape[1]) for part in jnp.split(qkv, 3, -1))
        added.append((k, v))
        keys, values = jnp.concatenate([past_k, k], 2), jnp.concatenate([past_v, v], 2)
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) * np.float32(q.shape[-1] ** -0.5)
        mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), values)
        x = feed_forward(x + linear(joined(mixed), block["out"]), block)
    return layer_norm(x, *parameters["norm"]) @ parameters["tokens"].T, added


def conv_norm(x, layer, stride=1, padding="SAME"):
    """Convolution and batch normalisation with the stored statistics."""
    x = conv(x, layer["kernel"], stride, padding)
    return (x - layer["mean"]) * lax.rsqrt(layer["variance"] + 1e-5) * layer["gamma"] + layer["beta"]


def max_pool(x, size, stride, padding):
    """Largest of each window."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)


def resnet50(parameters, x):
    """Logits of pictures."""
    x = jax.nn.relu(conv_norm(x, parameters["stem"], 2, ((3, 3), (3, 3))))
    x = max_pool(x, 3, 2, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for block in parameters["blocks"]:
        # The first block of every stage but the first halves the picture, in its 3 x 3 convolution.
        first = "shortcut" in block
        stride = 2 if first and x.shape[-1] > 64 else 1
        y = jax.nn.relu(conv_norm(x, block["conv1"]))
        y = jax.nn.relu(conv_norm(y, block["conv2"], stride, ((1, 1), (1, 1))))
        y = conv_norm(y, block["conv3"])
        x = jax.nn.relu(y + (conv_norm(x, block["shortcut"], stride, "VALID") if first else x))
    return linear(x.mean((1, 2)), parameters["dense"])


def lstm(input_weights, state_weights, bias, sequence):
    """Every hidden state of an LSTM over a time-major sequence."""
    width = state_weights.shape[0]
    projected = sequence @ input_weights + bias

    def cell(carry, projection):
        hidden, memory = carry
        i, f, g, o = jnp.split(projection + hidden @ state_weights, 4, -1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
        return (hidden, memory), hidden

    start = jnp.zeros((sequence.shape[1], width))
    return lax.scan(cell, (start, start), projected)[1]


def cross_entropy(logits, labels):
    """Mean of the negative log-likelihood."""
    likelihood = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -likelihood.mean()


def adam(parameters, gradients, first, second, step):
    """One step of Adam with the usual constants."""
    rate, decay1, decay2 = 1e-3, 0.9, 0.999
    step = step + 1
    count = step.astype(jnp.float32)
    correct1, correct2 = 1 - decay1**count, 1 - decay2**count
    first = jax.tree.map(lambda m, g: decay1 * m + (1 - decay1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: decay2 * v + (1 - decay2) * g * g, second, gradients)
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * (m / correct1) / (jnp.sqrt(v / correct2) + 1e-8), parameters, first, second
    )
    return parameters, first, second, step


def train_with_adam(loss, parameters, first, second, step, inputs, labels):
    """Loss, then the new parameters and state."""
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, labels)
    return value, *adam(parameters, gradients, first, second, step)


def transformer_loss(parameters, tokens, labels):
    """Loss of the small decoder."""
    return cross_entropy(transformer(parameters, tokens, heads=4), labels)


def mlp_loss(parameters, x, labels):
    """Loss of the perceptron."""
    for layer in parameters[:-1]:
        x = jax.nn.relu(linear(x, layer))
    return cross_entropy(linear(x, parameters[-1]), labels)


def convnet_loss(parameters, x, labels):
    """Loss of the small convolutional network."""
    for index, (kernel, bias) in enumerate(parameters["convs"]):
        x = jax.nn.relu(conv(x, kernel) + bias)
        if index > 0:
            x = max_pool(x, 2, 2, "VALID")
    return cross_entropy(linear(x.reshape(x.shape[0], -1), parameters["dense"]), labels)


def train_convnet(parameters, x, labels):
    """Loss, then the new parameters: plain gradient descent."""
    value, gradients = jax.value_and_grad(convnet_loss)(parameters, x, labels)
    return value, jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients)


FUNCTIONS: dict[str, Any] = {
    "matmul_f32": matmul,
    "matmul_bf16": matmul,
    "matmul_int8": matmul_int8,
    "weight_only": weight_only,
    "grouped": grouped,
    "w8a8": w8a8,
    "gelu_chain": gelu_chain,
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "layer_norm": layer_norm,
    "sum_axis0": lambda x: x.sum(0),
    "sum_axis1": lambda x: x.sum(1),
    "sum_all": lambda x: x.sum(),
    "transpose": lambda x: x.T,
    "transpose_heads": lambda x: x.transpose(0, 2, 1, 3),
    "conv3x3": conv,
    "gather": lambda table, ids: table[ids],
    "scatter_add": lambda table, ids, updates: table.at[ids].add(updates),
    "sort": jnp.sort,
    "argsort": lambda x: jnp.argsort(x, axis=-1),
    "attention": attention,
    "gpt2_prefill": functools.partial(transformer, heads=12),
    "gpt2_decode": gpt2_decode,
    "resnet50": resnet50,
    "lstm": lstm,
    "train_transformer": functools.partial(train_with_adam, transformer_loss),
    "train_mlp": functools.partial(train_with_adam, mlp_loss),
    "train_convnet": train_convnet,
}
