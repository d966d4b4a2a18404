"""Every entry in PyTorch, written as a torch user would: modules, fused attention, channels_last, fused optimizers.

Each builder gets the entry's NumPy arguments and `wrap`, which is `torch.compile` or nothing, and returns a function without
arguments that runs the entry once. Its results are the first of those that the JAX function returns.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def tensor(array: Any) -> torch.Tensor:
    """A tensor of its own; ids become 64-bit, as torch wants them."""
    array = np.asarray(array)
    if array.dtype == np.int32:
        return torch.from_numpy(array.astype(np.int64))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def pictures(array: np.ndarray) -> torch.Tensor:
    """NHWC data as a channels_last tensor."""
    return tensor(array).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


def kernel(array: np.ndarray) -> torch.Tensor:
    """An HWIO kernel as a channels_last tensor."""
    return tensor(array).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def plain(function):
    """A builder for a function of plain tensors."""

    def build(arguments, wrap):
        tensors = [tensor(argument) for argument in arguments]
        wrapped = wrap(function)
        return lambda: wrapped(*tensors)

    return build


def matmul(a, b):
    return a @ b


def matmul_int8(a, b):
    return torch._int_mm(a, b)


def gelu_chain(x, scale, bias):
    return F.gelu(x * scale + bias, approximate="tanh")


def softmax(x):
    return F.softmax(x, dim=-1)


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta)


def sum_axis0(x):
    return x.sum(0)


def sum_axis1(x):
    return x.sum(1)


def sum_all(x):
    return x.sum()


def transpose(x):
    return x.t().contiguous()


def transpose_heads(x):
    return x.permute(0, 2, 1, 3).contiguous()


def gather(table, ids):
    return F.embedding(ids, table)


def scatter_add(table, ids, updates):
    return table.index_add(0, ids, updates)


def sort(x):
    return torch.sort(x).values


def argsort(x):
    return torch.argsort(x, dim=-1, stable=True)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def conv3x3(arguments, wrap):
    x, weights = pictures(arguments[0]), kernel(arguments[1])
    convolve = wrap(lambda x, weights: F.conv2d(x, weights, padding=1).permute(0, 2, 3, 1))
    return lambda: convolve(x, weights)


def linear(parameters) -> nn.Linear:
    """A layer with the given weights ([inputs, outputs]) and bias."""
    weights, bias = parameters
    layer = nn.Linear(*weights.shape)
    layer.weight.data, layer.bias.data = tensor(weights.T), tensor(bias)
    return layer


def norm(parameters) -> nn.LayerNorm:
    """A layer norm with the given scale and shift."""
    gamma, beta = parameters
    layer = nn.LayerNorm(gamma.shape[0])
    layer.weight.data, layer.bias.data = tensor(gamma), tensor(beta)
    return layer


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, parameters, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = norm(parameters["norm1"]), norm(parameters["norm2"])
        self.qkv, self.out = linear(parameters["qkv"]), linear(parameters["out"])
        self.up, self.down = linear(parameters["up"]), linear(parameters["down"])

    def forward(self, x, past=None):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, -1)
        )
        added = (k, v)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), added


class Transformer(nn.Module):
    """A decoder with tied embeddings."""

    def __init__(self, parameters, heads: int):
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(tensor(parameters["tokens"]), freeze=False)
        self.positions = nn.Embedding.from_pretrained(tensor(parameters["positions"]), freeze=False)
        self.blocks = nn.ModuleList(Block(block, heads) for block in parameters["blocks"])
        self.norm = norm(parameters["norm"])

    def forward(self, tokens, caches=None):
        first = 0 if caches is None else caches[0][0].shape[2]
        x = self.tokens(tokens) + self.positions(torch.arange(first, first + tokens.shape[1]))
        added = []
        for index, block in enumerate(self.blocks):
            x, pair = block(x, None if caches is None else caches[index])
            added.append(pair)
        return F.linear(self.norm(x), self.tokens.weight), added


def gpt2_prefill(arguments, wrap):
    parameters, tokens = arguments
    model, ids = wrap(Transformer(parameters, heads=12).eval()), tensor(tokens)
    return lambda: model(ids)[0]


def gpt2_decode(arguments, wrap):
    parameters, caches, token = arguments
    model, ids = wrap(Transformer(parameters, heads=12).eval()), tensor(token)
    pairs = [(tensor(k), tensor(v)) for k, v in caches]
    return lambda: model(ids, pairs)


class ConvNorm(nn.Module):
    """Convolution and batch normalisation."""

    def __init__(self, parameters, stride: int = 1):
        super().__init__()
        weights = kernel(parameters["kernel"])
        outputs, inputs, size, _ = weights.shape
        self.conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
        self.conv.weight.data = weights
        self.norm = nn.BatchNorm2d(outputs)
        self.norm.weight.data, self.norm.bias.data = tensor(parameters["gamma"]), tensor(parameters["beta"])
        self.norm.running_mean, self.norm.running_var = tensor(parameters["mean"]), tensor(parameters["variance"])

    def forward(self, x):
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, parameters, stride: int):
        super().__init__()
        self.conv1, self.conv2 = ConvNorm(parameters["conv1"]), ConvNorm(parameters["conv2"], stride)
        self.conv3 = ConvNorm(parameters["conv3"])
        self.shortcut = ConvNorm(parameters["shortcut"], stride) if "shortcut" in parameters else nn.Identity()

    def forward(self, x):
        y = self.conv3(F.relu(self.conv2(F.relu(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet50(nn.Module):
    """The whole network."""

    def __init__(self, parameters):
        super().__init__()
        self.stem = ConvNorm(parameters["stem"], 2)
        blocks = parameters["blocks"]
        strides = [2 if "shortcut" in block and index > 0 else 1 for index, block in enumerate(blocks)]
        self.blocks = nn.Sequential(*(Bottleneck(block, stride) for block, stride in zip(blocks, strides)))
        self.dense = linear(parameters["dense"])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.dense(self.blocks(x).mean((2, 3)))


def resnet50(arguments, wrap):
    parameters, x = arguments
    model, images = wrap(ResNet50(parameters).eval().to(memory_format=torch.channels_last)), pictures(x)
    return lambda: model(images)


def lstm(arguments, wrap):
    input_weights, state_weights, bias, sequence = arguments
    layer = nn.LSTM(input_weights.shape[0], state_weights.shape[0]).eval()
    layer.weight_ih_l0.data, layer.weight_hh_l0.data = tensor(input_weights.T), tensor(state_weights.T)
    layer.bias_ih_l0.data, layer.bias_hh_l0.data = tensor(bias), torch.zeros(bias.shape[0])
    run, x = wrap(layer), tensor(sequence)
    return lambda: run(x)[0]


def training(model, loss, optimizer, wrap):
    """A function that takes one step of training and returns the loss."""
    compute = wrap(loss)

    def step():
        optimizer.zero_grad()
        value = compute(model)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def train_transformer(arguments, wrap):
    parameters, _, _, _, tokens, labels = arguments
    model, ids, targets = Transformer(parameters, heads=4), tensor(tokens), tensor(labels).flatten()

    def loss(model):
        return F.cross_entropy(model(ids)[0].flatten(0, 1), targets)

    return training(model, loss, torch.optim.Adam(model.parameters(), fused=True), wrap)


def train_mlp(arguments, wrap):
    parameters, _, _, _, x, labels = arguments
    layers = [linear(layer) for layer in parameters]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    inputs, targets = tensor(x), tensor(labels)

    def loss(model):
        return F.cross_entropy(model(inputs), targets)

    return training(model, loss, torch.optim.Adam(model.parameters(), fused=True), wrap)


class ConvNet(nn.Module):
    """Three convolutions, two poolings."""

    def __init__(self, parameters):
        super().__init__()
        self.convs = nn.ModuleList()
        for weights, bias in parameters["convs"]:
            conv = nn.Conv2d(weights.shape[2], weights.shape[3], 3, padding=1)
            conv.weight.data, conv.bias.data = kernel(weights), tensor(bias)
            self.convs.append(conv)
        self.dense = linear(parameters["dense"])

    def forward(self, x):
        for index, conv in enumerate(self.convs):
            x = F.relu(conv(x))
            if index > 0:
                x = F.max_pool2d(x, 2)
        # Flattened in NHWC order, as the dense weights are.
        return self.dense(x.permute(0, 2, 3, 1).flatten(1))


def train_convnet(arguments, wrap):
    parameters, x, labels = arguments
    model = ConvNet(parameters).to(memory_format=torch.channels_last)
    inputs, targets = pictures(x), tensor(labels)

    def loss(model):
        return F.cross_entropy(model(inputs), targets)

    return training(model, loss, torch.optim.SGD(model.parameters(), lr=0.01), wrap)


BUILDERS: dict[str, Any] = {
    "matmul_f32": plain(matmul),
    "matmul_bf16": plain(matmul),
    "matmul_int8": plain(matmul_int8),
    "gelu_chain": plain(gelu_chain),
    "softmax": plain(softmax),
    "layer_norm": plain(layer_norm),
    "sum_axis0": plain(sum_axis0),
    "sum_axis1": plain(sum_axis1),
    "sum_all": plain(sum_all),
    "transpose": plain(transpose),
    "transpose_heads": plain(transpose_heads),
    "conv3x3": conv3x3,
    "gather": plain(gather),
    "scatter_add": plain(scatter_add),
    "sort": plain(sort),
    "argsort": plain(argsort),
    "attention": plain(attention),
    "gpt2_prefill": gpt2_prefill,
    "gpt2_decode": gpt2_decode,
    "resnet50": resnet50,
    "lstm": lstm,
    "train_transformer": train_transformer,
    "train_mlp": train_mlp,
    "train_convnet": train_convnet,
}
