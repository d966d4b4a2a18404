"""A GPT-2 in PyTorch, the peer of `tpu train` and of gpt_reference.py: prints tokens per second as JSON.

    torch_reference.py SETTINGS      settings as JSON; "compiled" true uses torch.compile
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


def main():
    s = json.loads(sys.argv[1])
    torch.manual_seed(0)
    model = Gpt(s)
    run = torch.compile(model) if s.get("compiled") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=s["rate"], weight_decay=0.0)
    draw = lambda: torch.randint(0, s["vocabulary"], (s["batch"], s["sequence"]))
    batches = [(draw(), draw()) for _ in range(4)]

    def step(n):
        optimizer.zero_grad(set_to_none=True)
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
    print(json.dumps({"tokens_per_second": sorted(rounds)[len(rounds) // 2], "rounds": rounds, "loss": value.item()}))


main()
