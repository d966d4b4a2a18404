"""The same matmuls and decode step in PyTorch and torchao: compiled with max-autotune, run as CUDA graphs."""

from __future__ import annotations

import time
from typing import Any, Callable

import torch
import torch.nn.functional as F

try:
    import torchao
    from torchao.quantization import (
        Float8DynamicActivationFloat8WeightConfig,
        Float8WeightOnlyConfig,
        Int4WeightOnlyConfig,
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        PerRow,
        quantize_,
    )

    VERSION = torchao.__version__
    # By the scheme of ours that it stands beside.
    CONFIGS: dict[str, Callable[[], Any]] = {
        "w8a16": Int8WeightOnlyConfig,
        "w8a16-fp8": Float8WeightOnlyConfig,
        "w4a16-g128": lambda: Int4WeightOnlyConfig(group_size=128, int4_packing_format="tile_packed_to_4d"),
        "w8a8": Int8DynamicActivationInt8WeightConfig,
        "w8a8-fp8": lambda: Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
    }
except ImportError as missing:
    VERSION, CONFIGS = f"none ({missing})", {}

SCHEMES = ["bf16", *CONFIGS]

# Schemes that max-autotune is left off for: with it, int8 weights took 1.2 s for a matmul of 8192 (PyTorch 2.11, torchao 0.18).
PLAIN = ["w8a16"]
# Whether Inductor searches by coordinate descent in all directions, as torchao asks it to: a minute or more for a matmul.
searches_all = True
# Whether max-autotune is used for decode steps too.
tunes_decode = True


def weight(scheme: str, dense: torch.Tensor) -> torch.Tensor:
    """A weight `[out, in]` for `F.linear`, of a dense `[in, out]`."""
    outputs, inputs = dense.shape[1], dense.shape[0]
    linear = torch.nn.Linear(inputs, outputs, bias=False, device="meta", dtype=torch.bfloat16)
    linear.weight = torch.nn.Parameter(dense.t().contiguous(), requires_grad=False)
    if scheme != "bf16":
        quantize_(linear, CONFIGS[scheme]())
    return linear.weight


class Graph:
    """A function without arguments as a CUDA graph."""

    def __init__(self, function: Callable[[], torch.Tensor]) -> None:
        # Keeps the weights, which the graph only points to.
        self.function = function
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.result = function()

    def burst(self, count: int) -> float:
        """Seconds of a replay, many started before the last is waited for."""
        self.graph.replay()
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(count):
            self.graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / count


def compiled(function: Callable, scheme: str, rows: int, tunes: bool = True) -> Callable:
    config = torch._inductor.config
    # With one row, this setting also makes Inductor read int8 weights as they are.
    config.coordinate_descent_tuning = searches_all or (scheme in PLAIN and rows == 1)
    config.coordinate_descent_check_all_directions = searches_all
    mode = "max-autotune-no-cudagraphs" if tunes and scheme not in PLAIN else "default"
    return torch.compile(function, mode=mode, dynamic=False)


def pair(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return F.linear(F.linear(x, first), second)


def chain(scheme: str, weights: list[torch.Tensor], x: torch.Tensor) -> Graph:
    """Linear layers one after the other, compiled in pairs."""
    torch._dynamo.reset()
    fast = compiled(pair, scheme, x.shape[0])

    def function() -> torch.Tensor:
        y = x
        for index in range(0, len(weights), 2):
            y = fast(y, weights[index], weights[index + 1])
        return y

    return Graph(function)


def norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x.float(), (x.shape[-1],), eps=1e-5).to(torch.bfloat16) * scale


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(torch.bfloat16)


Layers = list[list[torch.Tensor]]


def decode_weights(scheme: str, llama: Any, dense: list[torch.Tensor], head: torch.Tensor) -> tuple[Layers, torch.Tensor]:
    """Weights of a model, with query, key and value as one."""
    layers = []
    for index in range(llama.layers):
        q, k, v, *others = [stack[index] for stack in dense]
        layers.append([weight(scheme, torch.cat([q, k, v], 1)), *(weight(scheme, one) for one in others)])
    return layers, weight(scheme, head)


def decode(scheme: str, llama: Any, weights: tuple[Layers, torch.Tensor], state: dict[str, torch.Tensor]) -> Graph:
    """A decode step with a cache that is written in place and PyTorch's attention. A layer is compiled once."""
    torch._dynamo.reset()
    head = weights[1]
    names = ("keys", "values", "norm_1", "norm_2")
    layers = [(*leaves, *(state[name][index].clone() for name in names)) for index, leaves in enumerate(weights[0])]
    wide, narrow = llama.heads * llama.head, llama.kv_heads * llama.head

    def layer(x, qkv, output, gate, up, down, keys, values, norm_1, norm_2, cos, sin):  # noqa: ANN001, ANN202
        rows = x.shape[0]
        q, k, v = F.linear(norm(x, norm_1), qkv).split([wide, narrow, narrow], dim=-1)
        q = rotated(q.view(rows, llama.heads, 1, llama.head), cos, sin)
        keys[:, :, -1] = rotated(k.view(rows, llama.kv_heads, llama.head), cos, sin)
        values[:, :, -1] = v.view(rows, llama.kv_heads, llama.head)
        mixed = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        x = x + F.linear(mixed.reshape(rows, wide), output)
        normed = norm(x, norm_2)
        return x + F.linear(F.silu(F.linear(normed, gate)) * F.linear(normed, up), down)

    rows = state["x"].shape[0]
    fast_layer = compiled(layer, scheme, rows, tunes_decode)
    fast_head = compiled(lambda x, scale, head: F.linear(norm(x, scale), head), scheme, rows, tunes_decode)

    def step() -> torch.Tensor:
        x = state["x"]
        for arguments in layers:
            x = fast_layer(x, *arguments, state["cos"], state["sin"])
        return fast_head(x, state["last_norm"], head)

    return Graph(step)
