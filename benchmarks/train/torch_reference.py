"""Language models in PyTorch, the peers of `tpu train`: a GPT-2 or a Llama; prints tokens per second and memory as JSON.

    torch_reference.py SETTINGS      settings as JSON; "compiled" true uses torch.compile, "device" "cuda" a GPU

On a GPU at PyTorch's best settings: bf16 by autocast where the precision is mixed, flash attention, fused AdamW; "padded" true
pads the vocabulary to a multiple of 64.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projected, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.projected(self.attention_norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.feed_forward_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(s["vocabulary"], s["width"]), nn.Embedding(s["positions"], s["width"])
        self.layers = nn.ModuleList(Block(s["width"], s["heads"]) for _ in range(s["layers"]))
        self.norm = nn.LayerNorm(s["width"])

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def rotated(x, cosine, sine):
    low, high = x.chunk(2, -1)
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)


class LlamaBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads, self.kv_heads, self.size = s["heads"], s["kv_heads"], s["width"] // s["heads"]
        width, kv_width, inner = s["width"], s["kv_heads"] * self.size, s["inner"]
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.attention_norm, self.feed_forward_norm = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.query, self.key, self.value, self.output = linear(width, width), linear(width, kv_width), linear(width, kv_width), linear(width, width)
        self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)

    def forward(self, x, cosine, sine):
        batch, length, width = x.shape
        h = self.attention_norm(x)
        q = rotated(self.query(h).view(batch, length, self.heads, -1).transpose(1, 2), cosine, sine)
        k = rotated(self.key(h).view(batch, length, self.kv_heads, -1).transpose(1, 2), cosine, sine)
        v = self.value(h).view(batch, length, self.kv_heads, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        h = self.feed_forward_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.tokens = nn.Embedding(s["vocabulary"], s["width"])
        self.layers = nn.ModuleList(LlamaBlock(s) for _ in range(s["layers"]))
        self.norm = nn.RMSNorm(s["width"], 1e-5)
        half = s["width"] // s["heads"] // 2
        angles = torch.arange(s["sequence"])[:, None] * 500000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        # In the type of activations from here on, as autocast would only do inside of matmuls.
        if torch.is_autocast_enabled(tokens.device.type):
            x = x.bfloat16()
        cosine, sine = self.cosine.to(x.dtype), self.sine.to(x.dtype)
        for layer in self.layers:
            x = layer(x, cosine, sine)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    s = json.loads(sys.argv[1])
    device = s.get("device", "cpu")
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    words = s["vocabulary"]
    if s.get("padded"):
        s["vocabulary"] = -(-words // 64) * 64
    model = (Llama if "kv_heads" in s else Gpt)(s).to(device)
    for weight in (p for p in model.parameters() if p.dim() == 2):
        nn.init.normal_(weight, std=0.02)
    run = torch.compile(model) if s.get("compiled") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=s["rate"], weight_decay=0.0, fused=device == "cuda")
    draw = lambda: torch.randint(0, words, (s["batch"], s["sequence"])).to(device)
    batches = [(draw(), draw()) for _ in range(4)]
    narrow = torch.autocast(device, torch.bfloat16, enabled=s["precision"] == "mixed")

    def step(n):
        optimizer.zero_grad(set_to_none=True)
        with narrow:
            value = run(*batches[n % 4])
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), s["clip"])
        optimizer.step()
        return value

    for n in range(s.get("warm", 3)):
        step(n).item()
    rounds = []
    for _ in range(s.get("rounds", 3)):
        started = time.perf_counter()
        for n in range(s["steps"]):
            value = step(n)
        value.item()
        rounds.append(s["steps"] * s["batch"] * s["sequence"] / (time.perf_counter() - started))
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else None
    print(json.dumps({"tokens_per_second": sorted(rounds)[len(rounds) // 2], "rounds": rounds, "loss": value.item(), "peak_bytes": memory}))


main()
