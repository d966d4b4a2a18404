"""The entries of the CPU benchmark: the name, the arguments as NumPy arrays, and how far two engines may differ.

The functions themselves are in `models_jax.py` and, written as a torch user would write them, in `models_torch.py`; both are
looked up by `Entry.function` and get the same arguments.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing to measure."""

    name: str
    function: str
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]
    # Largest difference allowed, as a part of the largest value of the array, beside `absolute`.
    relative: float = 1e-3
    absolute: float = 1e-5
    # Whole models: peak memory is measured for these.
    model: bool = False
    # The entry in PyTorch keeps its parameters and changes them in place, so its gradients are on.
    training: bool = False


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Random f32 values around zero."""
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(scale)
    return values


def ones(*shape: int) -> np.ndarray:
    """f32 ones."""
    return np.ones(shape, np.float32)


def zeros(*shape: int) -> np.ndarray:
    """f32 zeros."""
    return np.zeros(shape, np.float32)


def tokens(rng: np.random.Generator, vocabulary: int, *shape: int) -> np.ndarray:
    """Random ids."""
    return rng.integers(0, vocabulary, shape, dtype=np.int32)


def matmul(dtype: str, size: int) -> Entry:
    """A square matmul."""

    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        if dtype == "int8":
            return tuple(rng.integers(-128, 128, (size, size), dtype=np.int8) for _ in range(2))
        kind = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[dtype]
        return tuple(normal(rng, size, size).astype(kind) for _ in range(2))

    relative = {"f32": 1e-4, "bf16": 2e-2, "int8": 0.0}[dtype]
    return Entry(f"matmul_{dtype}_{size}", f"matmul_{dtype}", arguments, relative=relative)


NARROW = {"int8": np.int8, "int4": ml_dtypes.int4, "e4m3": ml_dtypes.float8_e4m3fn}


def narrow(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Random values of a narrow type, over its whole range."""
    if dtype == "e4m3":
        return normal(rng, *shape).astype(NARROW[dtype])
    limit = {"int8": 128, "int4": 8}[dtype]
    return rng.integers(-limit, limit, shape, dtype=np.int8).astype(NARROW[dtype])


def weight_only(dtype: str, rows: int, width: int = 4096) -> Entry:
    """bf16 rows times a narrow matrix, with a scale for each column."""

    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        x = normal(rng, rows, width).astype(ml_dtypes.bfloat16)
        return x, narrow(rng, dtype, width, width), normal(rng, 1, width, scale=0.01)

    return Entry(f"weight_{dtype}_{rows}x{width}", "weight_only", arguments, relative=1e-2)


def grouped(rows: int, group: int = 128, width: int = 4096) -> Entry:
    """bf16 rows times an int4 matrix, with a scale for each group of a column."""

    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        x = normal(rng, rows, width).astype(ml_dtypes.bfloat16)
        return x, narrow(rng, "int4", width, width), normal(rng, width // group, width, scale=0.01)

    return Entry(f"grouped_int4_{rows}x{width}", "grouped", arguments, relative=1e-2)


def w8a8(rows: int, width: int = 4096) -> Entry:
    """f32 rows made int8 by their largest magnitude, times an int8 matrix."""

    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        return normal(rng, rows, width), narrow(rng, "int8", width, width), normal(rng, 1, width, scale=0.01)

    return Entry(f"w8a8_{rows}x{width}", "w8a8", arguments, relative=1e-2)


def gelu(name: str, rows: int, columns: int) -> Entry:
    """A scale and a bias per column, then gelu."""
    return Entry(
        f"gelu_{name}", "gelu_chain", lambda rng: (normal(rng, rows, columns), normal(rng, columns), normal(rng, columns))
    )


def square(name: str, function: str, **limits: float) -> Entry:
    """A function of one 4096 x 4096 array."""
    return Entry(name, function, lambda rng: (normal(rng, 4096, 4096),), **limits)


def attention(name: str, length: int) -> Entry:
    """Causal attention, 12 heads of 64."""
    return Entry(name, "attention", lambda rng: tuple(normal(rng, 1, 12, length, 64) for _ in range(3)))


def transformer_parameters(
    rng: np.random.Generator, layers: int, width: int, vocabulary: int, positions: int
) -> dict[str, Any]:
    """Parameters of a decoder with tied embeddings."""

    def block() -> dict[str, Any]:
        return {
            "norm1": (ones(width), zeros(width)),
            "qkv": (normal(rng, width, 3 * width, scale=0.02), zeros(3 * width)),
            "out": (normal(rng, width, width, scale=0.02), zeros(width)),
            "norm2": (ones(width), zeros(width)),
            "up": (normal(rng, width, 4 * width, scale=0.02), zeros(4 * width)),
            "down": (normal(rng, 4 * width, width, scale=0.02), zeros(width)),
        }

    return {
        "tokens": normal(rng, vocabulary, width, scale=0.02),
        "positions": normal(rng, positions, width, scale=0.01),
        "norm": (ones(width), zeros(width)),
        "blocks": [block() for _ in range(layers)],
    }


def gpt2_prefill(rng: np.random.Generator) -> tuple[Any, ...]:
    """GPT-2 small on a prompt of 128."""
    return transformer_parameters(rng, 12, 768, 50257, 1024), tokens(rng, 50257, 1, 128)


def gpt2_decode(rng: np.random.Generator) -> tuple[Any, ...]:
    """GPT-2 small on one token after 512."""
    caches = [(normal(rng, 1, 12, 512, 64), normal(rng, 1, 12, 512, 64)) for _ in range(12)]
    return transformer_parameters(rng, 12, 768, 50257, 1024), caches, tokens(rng, 50257, 1, 1)


RESNET50_STAGES = [(64, 3), (128, 4), (256, 6), (512, 3)]


def resnet50_parameters(rng: np.random.Generator) -> dict[str, Any]:
    """Parameters of ResNet-50; kernels are HWIO."""

    def conv(size: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
        return {
            "kernel": normal(rng, size, size, inputs, outputs, scale=(2.0 / (size * size * inputs)) ** 0.5),
            "gamma": ones(outputs),
            "beta": normal(rng, outputs, scale=0.1),
            "mean": normal(rng, outputs, scale=0.1),
            "variance": np.abs(normal(rng, outputs, scale=0.1)) + np.float32(1.0),
        }

    stem, blocks, width = conv(7, 3, 64), [], 64
    for stage, (inner, count) in enumerate(RESNET50_STAGES):
        for index in range(count):
            block = {"conv1": conv(1, width, inner), "conv2": conv(3, inner, inner), "conv3": conv(1, inner, 4 * inner)}
            # Small, as trained networks have it; otherwise the values double in every block.
            block["conv3"]["gamma"] *= np.float32(0.2)
            if index == 0:
                block["shortcut"] = conv(1, width, 4 * inner)
            blocks.append(block)
            width = 4 * inner
    return {"stem": stem, "blocks": blocks, "dense": (normal(rng, width, 1000, scale=0.02), zeros(1000))}


def resnet50(batch: int) -> Entry:
    """ResNet-50, inference."""
    return Entry(
        f"resnet50_b{batch}",
        "resnet50",
        lambda rng: (resnet50_parameters(rng), normal(rng, batch, 224, 224, 3)),
        relative=2e-3,
        model=True,
    )


def lstm(rng: np.random.Generator) -> tuple[Any, ...]:
    """An LSTM layer: weights for input and state, bias, and a sequence that is time-major."""
    return (
        normal(rng, 256, 1024, scale=0.06),
        normal(rng, 256, 1024, scale=0.06),
        normal(rng, 1024, scale=0.06),
        normal(rng, 128, 32, 256),
    )


def with_adam(parameters: Any) -> tuple[Any, ...]:
    """Parameters, both moments and the step count as they are in the middle of a training run.

    From all-zero moments the first step divides rounding noise by its own size, which no two engines agree on.
    """
    return parameters, like(parameters, 0.0), like(parameters, 1e-4), np.int32(100)


def like(tree: Any, value: float) -> Any:
    """The same structure, every element one value."""
    if isinstance(tree, dict):
        return {key: like(item, value) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(like(item, value) for item in tree)
    return np.full_like(tree, value)


def transformer_training(rng: np.random.Generator) -> tuple[Any, ...]:
    """A decoder of 4 layers, 256 wide, and a batch of 8 x 128."""
    parameters = transformer_parameters(rng, 4, 256, 512, 128)
    return *with_adam(parameters), tokens(rng, 512, 8, 128), tokens(rng, 512, 8, 128)


def mlp_training(rng: np.random.Generator) -> tuple[Any, ...]:
    """A perceptron 784-512-512-10 and a batch of 128."""
    sizes = [784, 512, 512, 10]
    parameters = [(normal(rng, a, b, scale=a**-0.5), zeros(b)) for a, b in zip(sizes[:-1], sizes[1:])]
    return *with_adam(parameters), normal(rng, 128, 784), tokens(rng, 10, 128)


def convnet_training(rng: np.random.Generator) -> tuple[Any, ...]:
    """Three convolutions with two poolings between, and a batch of 32 pictures of 32 x 32."""
    parameters = {
        "convs": [(normal(rng, 3, 3, a, b, scale=(2 / (9 * a)) ** 0.5), zeros(b)) for a, b in [(3, 32), (32, 32), (32, 64)]],
        "dense": (normal(rng, 8 * 8 * 64, 10, scale=0.02), zeros(10)),
    }
    return parameters, normal(rng, 32, 32, 32, 3), tokens(rng, 10, 32)


def embedding(rng: np.random.Generator) -> tuple[Any, ...]:
    """The embedding table of GPT-2 small and 8192 ids."""
    return normal(rng, 50257, 768), tokens(rng, 50257, 8192)


ENTRIES = [
    *(matmul(dtype, size) for dtype in ["f32", "bf16", "int8"] for size in [256, 512, 1024, 2048]),
    Entry("matvec_4096", "matmul_f32", lambda rng: (normal(rng, 1, 4096), normal(rng, 4096, 4096))),
    *(weight_only(dtype, rows) for dtype in ["int8", "int4", "e4m3"] for rows in [1, 4, 8, 32]),
    *(grouped(rows) for rows in [1, 8]),
    *(w8a8(rows) for rows in [1, 32, 512]),
    gelu("16k", 128, 128),
    gelu("1m", 1024, 1024),
    gelu("16m", 4096, 4096),
    square("softmax_4096x4096", "softmax"),
    Entry("softmax_1024x256", "softmax", lambda rng: (normal(rng, 1024, 256),)),
    Entry("layer_norm_4096x4096", "layer_norm", lambda rng: (normal(rng, 4096, 4096), normal(rng, 4096), normal(rng, 4096))),
    Entry("layer_norm_1024x768", "layer_norm", lambda rng: (normal(rng, 1024, 768), normal(rng, 768), normal(rng, 768))),
    square("sum_axis0_4096", "sum_axis0"),
    square("sum_axis1_4096", "sum_axis1"),
    # The sum of 16M values around zero is itself near zero; engines add in different orders.
    square("sum_all_4096", "sum_all", absolute=2.0),
    square("transpose_4096", "transpose", relative=0.0, absolute=0.0),
    Entry("transpose_heads", "transpose_heads", lambda rng: (normal(rng, 8, 128, 12, 64),), relative=0.0, absolute=0.0),
    Entry("conv3x3_64_56_b8", "conv3x3", lambda rng: (normal(rng, 8, 56, 56, 64), normal(rng, 3, 3, 64, 64, scale=0.05))),
    Entry("gather_50257x768", "gather", embedding, relative=0.0, absolute=0.0),
    Entry("scatter_add_50257x768", "scatter_add", lambda rng: (*embedding(rng), normal(rng, 8192, 768))),
    Entry("sort_1m", "sort", lambda rng: (normal(rng, 1 << 20),), relative=0.0, absolute=0.0),
    Entry("argsort_1000x1000", "argsort", lambda rng: (normal(rng, 1000, 1000),), relative=0.0, absolute=0.0),
    attention("attention_1k", 1024),
    attention("attention_4k", 4096),
    Entry("gpt2_prefill_b1_s128", "gpt2_prefill", gpt2_prefill, model=True),
    Entry("gpt2_decode_past512", "gpt2_decode", gpt2_decode, model=True),
    resnet50(1),
    resnet50(8),
    Entry("lstm_b32_t128_h256", "lstm", lstm, model=True),
    Entry("train_transformer", "train_transformer", transformer_training, absolute=1e-4, model=True, training=True),
    Entry("train_mlp", "train_mlp", mlp_training, absolute=1e-4, model=True, training=True),
    Entry("train_convnet", "train_convnet", convnet_training, absolute=1e-4, model=True, training=True),
]
