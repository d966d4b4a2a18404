"""Programs as users of PyTorch write them, exported by torch.export: a Llama with GQA, a ViT and a diffusion U-Net.

python programs_torch.py NAME full FOLDER writes NAME.pt2; with small it writes NAME.small.pt2, the same program at sizes that run on
a CPU. One program a process: a second export finds what the first one left behind.
"""

import pathlib
import sys

import torch
from torch import nn
import torch.nn.functional as F

LLAMA = {
    "full": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=4, num_attention_heads=32, length=4096),
    "small": dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=8, length=256),
}
VIT = {
    "full": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, image=224, batch=32),
    "small": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image=224, batch=1),
}
UNET = {
    "full": dict(channels=(320, 640), heads=8, size=64, batch=2),
    "small": dict(channels=(64, 128), heads=2, size=16, batch=1),
}


class LlamaLayer(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_attention_heads, num_key_value_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head = num_attention_heads, num_key_value_heads, hidden_size // num_attention_heads
        linear = lambda inner, outer: nn.Linear(inner, outer, bias=False)
        self.q, self.o = linear(hidden_size, hidden_size), linear(hidden_size, hidden_size)
        self.k, self.v = (linear(hidden_size, self.kv_heads * self.head) for _ in range(2))
        self.gate, self.up = linear(hidden_size, intermediate_size), linear(hidden_size, intermediate_size)
        self.down = linear(intermediate_size, hidden_size)
        self.norm1, self.norm2 = RmsNorm(hidden_size), RmsNorm(hidden_size)

    def forward(self, x, cos, sin, mask):
        b, t, width = x.shape
        h = self.norm1(x)
        split = lambda y, heads: y.view(b, t, heads, self.head).transpose(1, 2)
        q, k, v = split(self.q(h), self.heads), split(self.k(h), self.kv_heads), split(self.v(h), self.kv_heads)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        group = self.heads // self.kv_heads
        k, v = (y[:, :, None].expand(b, self.kv_heads, group, t, self.head).reshape(b, self.heads, t, self.head) for y in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head**-0.5 + mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        x = x + self.o(torch.matmul(weights, v).transpose(1, 2).reshape(b, t, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Llama(nn.Module):
    """Prefill with eager attention, as transformers writes it: repeated keys, an added mask, softmax in f32."""

    def __init__(self, length, num_hidden_layers, hidden_size, num_attention_heads, vocab_size=32000, **sizes):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, hidden_size)
        layer = lambda: LlamaLayer(hidden_size=hidden_size, num_attention_heads=num_attention_heads, **sizes)
        self.layers = nn.ModuleList(layer() for _ in range(num_hidden_layers))
        self.norm, self.head = RmsNorm(hidden_size), nn.Linear(hidden_size, vocab_size, bias=False)
        size = hidden_size // num_attention_heads
        self.register_buffer("frequencies", 500000.0 ** (-torch.arange(0, size, 2).float() / size))

    def forward(self, tokens):
        x = self.embed(tokens)
        t = tokens.shape[1]
        angles = torch.arange(t).float()[:, None] * self.frequencies.float()
        cos, sin = (torch.cat((y, y), dim=-1).to(x.dtype)[None, None] for y in (angles.cos(), angles.sin()))
        mask = torch.full((t, t), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)[None, None]
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.head(self.norm(x[:, -1:]))


def llama(length, **sizes):
    return Llama(length, num_key_value_heads=sizes["num_attention_heads"] // 4, **sizes).to(torch.bfloat16).eval(), (
        torch.zeros(1, length, dtype=torch.long),
    )


def vit(image, batch, **config):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(image_size=image, patch_size=16, attn_implementation="eager", hidden_dropout_prob=0.0,
                       attention_probs_dropout_prob=0.0, **config)
    model = ViTForImageClassification(config).eval()

    class Classify(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            return self.model(pixels).logits

    return Classify(), (torch.zeros(batch, 3, image, image),)


class ResBlock(nn.Module):
    def __init__(self, inner, outer, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(time, outer)
        self.norm2, self.conv2 = nn.GroupNorm(32, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads = heads
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.k, self.v = nn.Linear(context, width, bias=False), nn.Linear(context, width, bias=False)

    def forward(self, x, context):
        b, n, width = x.shape
        split = lambda y: y.reshape(b, -1, self.heads, width // self.heads).permute(0, 2, 1, 3).flatten(0, 1)
        q, k, v = split(self.q(x)), split(self.k(context)), split(self.v(context))
        weights = (torch.einsum("bid,bjd->bij", q, k) * (width // self.heads) ** -0.5).softmax(dim=-1)
        y = torch.einsum("bij,bjd->bid", weights, v)
        return self.out(y.reshape(b, self.heads, n, -1).permute(0, 2, 1, 3).reshape(b, n, width))


class Transformer(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.norm, self.inward, self.outward = nn.GroupNorm(32, width), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself, self.text = Attention(width, width, heads), Attention(width, context, heads)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.inward(self.norm(x)).reshape(b, c, h * w).permute(0, 2, 1)
        z = self.norms[0](y)
        y = y + self.itself(z, z)
        y = y + self.text(self.norms[1](y), context)
        value, gate = self.up(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.down(value * F.gelu(gate))
        return x + self.outward(y.permute(0, 2, 1).reshape(b, c, h, w))


class UNet(nn.Module):
    """Two levels, residual blocks with time, self- and cross-attention at each, as in latent diffusion."""

    def __init__(self, channels, heads, context=768):
        super().__init__()
        a, b = channels
        time = 4 * a
        self.time = nn.Sequential(nn.Linear(a, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, a, 3, padding=1)
        self.down1, self.down1a = ResBlock(a, a, time), Transformer(a, context, heads)
        self.shrink = nn.Conv2d(a, a, 3, stride=2, padding=1)
        self.down2, self.down2a = ResBlock(a, b, time), Transformer(b, context, heads)
        self.middle = ResBlock(b, b, time)
        self.up2, self.up2a = ResBlock(2 * b, b, time), Transformer(b, context, heads)
        self.grow = nn.Conv2d(b, a, 3, padding=1)
        self.up1, self.up1a = ResBlock(2 * a, a, time), Transformer(a, context, heads)
        self.norm, self.last = nn.GroupNorm(32, a), nn.Conv2d(a, 4, 3, padding=1)

    def forward(self, latents, time, context):
        t = self.time(time)
        one = self.down1a(self.down1(self.first(latents), t), context)
        two = self.down2a(self.down2(self.shrink(one), t), context)
        x = self.middle(two, t)
        x = self.up2a(self.up2(torch.cat([x, two], 1), t), context)
        x = self.grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up1a(self.up1(torch.cat([x, one], 1), t), context)
        return self.last(F.silu(self.norm(x)))


def unet(channels, heads, size, batch):
    inputs = (torch.zeros(batch, 4, size, size), torch.zeros(batch, channels[0]), torch.zeros(batch, 77, 768))
    return UNet(channels, heads).eval(), inputs


PROGRAMS = {"llama": (llama, LLAMA), "vit": (vit, VIT), "unet": (unet, UNET)}

if __name__ == "__main__":
    name, size, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    make, sizes = PROGRAMS[name]
    model, arguments = make(**sizes[size])
    path = folder / (f"{name}.pt2" if size == "full" else f"{name}.{size}.pt2")
    with torch.no_grad():
        torch.export.save(torch.export.export(model, arguments), path)
