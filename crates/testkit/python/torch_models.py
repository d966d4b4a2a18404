"""Models of well-known families in tiny sizes with random weights, exported by `torch.export` as exported and decomposed, and what they answer.

usage: torch_models.py OUTDIR [--suite quick|full] [--only REGEX]

For each model NAME: NAME.pt2 (as exported), NAME.core.pt2 (after `run_decompositions()`) and NAME.0.npz with `input.<argument>` and `output.<index>`.
OUTDIR/models.json says of each what family it is of, and why a form is missing. `quick` is what the tests run; `full` needs torchvision, diffusers and
transformers 5 too, and says of each model that cannot be built why.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}
DECODER = TEXT | {"num_key_value_heads": 2, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = DECODER | {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "patch_size": 8}

# Name: family, whether the tests run it, and what builds the model and its inputs.
MODELS = {}


def model(family, quick=False):
    """Adds a builder under its name."""

    def add(build):
        MODELS[build.__name__] = (family, quick, build)
        return build

    return add


class Picked(nn.Module):
    """A model of Hugging Face: only the tensors of its answer that are wanted."""

    def __init__(self, inner, *fields, **fixed):
        super().__init__()
        self.inner, self.fields, self.fixed = inner, fields, fixed

    def forward(self, **inputs):
        answer = self.inner(**inputs, **self.fixed)
        return tuple(getattr(answer, field) for field in self.fields)


def ids(*shape):
    """Token ids."""
    return torch.randint(3, 99, shape)


def text(class_name, config_name, field="logits", config=None, mask=True, **fixed):
    """A model over token ids, the second row padded."""
    import transformers

    made = getattr(transformers, config_name)(**(config or DECODER))
    built = getattr(transformers, class_name)(made)
    inputs = {"input_ids": ids(2, 12)}
    if mask:
        inputs["attention_mask"] = torch.ones(2, 12, dtype=torch.int64)
        inputs["attention_mask"][1, 8:] = 0
    return Picked(built, field, **fixed), inputs


def image(class_name, config_name, field="last_hidden_state", config=None, size=32):
    """A model over images."""
    import transformers

    built = getattr(transformers, class_name)(getattr(transformers, config_name)(**(config or VISION)))
    return Picked(built, field), {"pixel_values": torch.randn(2, 3, size, size)}


def decoders():
    """Causal language models."""
    uncached = {"use_cache": False}
    plain = {
        "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 99}),
        "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER),
        "mistral": ("MistralForCausalLM", "MistralConfig", DECODER | {"sliding_window": 8}),
        "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER),
        "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", DECODER | {"head_dim": 8}),
        "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", DECODER | {"head_dim": 8, "sliding_window": 8}),
        "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", DECODER | {"head_dim": 8, "sliding_window": 8}),
        "phi3": ("Phi3ForCausalLM", "Phi3Config", DECODER),
        "opt": ("OPTForCausalLM", "OPTConfig", TEXT | {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 32}),
        "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT | {"max_position_embeddings": 32}),
        "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", DECODER),
        "granite": ("GraniteForCausalLM", "GraniteConfig", DECODER),
        "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", DECODER),
    }
    for name, (class_name, config_name, config) in plain.items():
        make = lambda class_name=class_name, config_name=config_name, config=config: text(  # noqa: E731
            class_name, config_name, config=config, **uncached
        )
        make.__name__ = name
        model("decoder", quick=name in ("gpt2", "llama", "gemma2"))(make)
    experts = {
        "mixtral": ("MixtralForCausalLM", "MixtralConfig", EXPERTS | {"num_local_experts": 4}),
        "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", EXPERTS | {"shared_expert_intermediate_size": 32}),
        "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", EXPERTS | {"head_dim": 8}),
        "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", EXPERTS),
        "deepseek_v3": (
            "DeepseekV3ForCausalLM",
            "DeepseekV3Config",
            EXPERTS
            | {
                "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 16,
                "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4,
            },
        ),
    }  # fmt: skip
    for name, (class_name, config_name, config) in experts.items():
        make = lambda class_name=class_name, config_name=config_name, config=config: text(  # noqa: E731
            class_name, config_name, config=config, **uncached
        )
        make.__name__ = name
        model("mixture of experts")(make)
    encoders = {
        "bert": ("BertModel", "BertConfig", TEXT | {"max_position_embeddings": 32}),
        "roberta": ("RobertaModel", "RobertaConfig", TEXT | {"max_position_embeddings": 32}),
        "distilbert": ("DistilBertModel", "DistilBertConfig", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99}),
        "albert": ("AlbertModel", "AlbertConfig", TEXT | {"embedding_size": 16, "max_position_embeddings": 32}),
        "electra": ("ElectraModel", "ElectraConfig", TEXT | {"embedding_size": 16, "max_position_embeddings": 32}),
        "mpnet": ("MPNetModel", "MPNetConfig", TEXT | {"max_position_embeddings": 32}),
    }
    for name, (class_name, config_name, config) in encoders.items():
        make = lambda class_name=class_name, config_name=config_name, config=config: text(  # noqa: E731
            class_name, config_name, "last_hidden_state", config
        )
        make.__name__ = name
        model("encoder", quick=name == "bert")(make)


decoders()


@model("state space")
def mamba():
    """A state-space model, scanned step by step."""
    config = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99, "state_size": 8}
    return text("MambaForCausalLM", "MambaConfig", config=config, mask=False, use_cache=False)


def translation(class_name, config_name, config):
    """A model of an encoder and a decoder."""
    import transformers

    built = getattr(transformers, class_name)(getattr(transformers, config_name)(**config))
    inputs = {"input_ids": ids(2, 10), "decoder_input_ids": ids(2, 6)}
    return Picked(built, "logits", use_cache=False), inputs


@model("encoder-decoder", quick=True)
def t5():
    """T5: relative positions in buckets."""
    config = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99, "pad_token_id": 0, "decoder_start_token_id": 0}
    return translation("T5ForConditionalGeneration", "T5Config", config)


SEQUENCES = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "vocab_size": 99, "max_position_embeddings": 64, "pad_token_id": 0, "decoder_start_token_id": 1, "forced_eos_token_id": 2,
}  # fmt: skip


@model("encoder-decoder")
def bart():
    """BART."""
    return translation("BartForConditionalGeneration", "BartConfig", SEQUENCES)


@model("encoder-decoder")
def marian():
    """Marian: sinusoidal positions."""
    return translation("MarianMTModel", "MarianConfig", SEQUENCES)


@model("speech", quick=True)
def whisper():
    """Whisper: convolutions over a spectrogram."""
    import transformers

    own = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 16, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.WhisperConfig(**(SEQUENCES | own))
    built = transformers.WhisperForConditionalGeneration(config)
    return Picked(built, "logits", use_cache=False), {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": ids(2, 6)}


def speech(class_name, config_name):
    """A model over a waveform."""
    import transformers

    config = TEXT | {"conv_dim": (16, 16), "conv_kernel": (5, 3), "conv_stride": (4, 2), "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
    built = getattr(transformers, class_name)(getattr(transformers, config_name)(**config))
    return Picked(built, "last_hidden_state"), {"input_values": torch.randn(2, 400)}


@model("speech")
def wav2vec2():
    """wav2vec 2.0: weight norm over positions."""
    return speech("Wav2Vec2Model", "Wav2Vec2Config")


@model("speech")
def hubert():
    """HuBERT."""
    return speech("HubertModel", "HubertConfig")


@model("speech")
def audio_spectrogram_transformer():
    """AST."""
    import transformers

    own = {"num_mel_bins": 16, "max_length": 32, "patch_size": 8, "frequency_stride": 4, "time_stride": 4}
    config = transformers.ASTConfig(**({key: value for key, value in VISION.items() if key not in ("image_size", "patch_size")} | own))
    return Picked(transformers.ASTModel(config), "last_hidden_state"), {"input_values": torch.randn(2, 32, 16)}


@model("vision")
def hf_vit():
    """ViT of Hugging Face."""
    return image("ViTModel", "ViTConfig")


@model("vision")
def dinov2():
    """DINOv2."""
    return image("Dinov2Model", "Dinov2Config", config={key: value for key, value in VISION.items() if key != "intermediate_size"})


@model("vision")
def beit():
    """BEiT: relative positions."""
    return image("BeitModel", "BeitConfig", config=VISION | {"use_relative_position_bias": True})


@model("vision")
def segformer():
    """SegFormer: attention over reduced maps."""
    config = {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16}
    return image("SegformerForSemanticSegmentation", "SegformerConfig", "logits", config)


@model("vision")
def clip():
    """CLIP: text and images."""
    import transformers

    config = transformers.CLIPConfig(text_config=TEXT | {"max_position_embeddings": 32}, vision_config=VISION, projection_dim=16)
    inputs = {"input_ids": ids(2, 8), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Picked(transformers.CLIPModel(config), "logits_per_image", "text_embeds", "image_embeds"), inputs


def pictures(build, size=64, quick=False, name=None):
    """A model of torchvision over two images."""

    def make():
        torch.manual_seed(5)
        return build(), {"x": torch.randn(2, 3, size, size)}

    make.__name__ = name
    model("torchvision", quick)(make)


def vision_families():
    """Families of torchvision: small members, or their classes with fewer layers."""
    from torchvision import models as tv

    pictures(lambda: tv.ResNet(tv.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10), name="resnet_basic", quick=True)
    pictures(lambda: tv.ResNet(tv.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10, groups=4, width_per_group=8), name="resnext")
    pictures(lambda: tv.squeezenet1_1(num_classes=10), name="squeezenet")
    pictures(lambda: tv.mobilenet_v2(num_classes=10, width_mult=0.35), name="mobilenet_v2")
    pictures(lambda: tv.mobilenet_v3_small(num_classes=10), name="mobilenet_v3")
    pictures(lambda: tv.shufflenet_v2_x0_5(num_classes=10), name="shufflenet")
    pictures(lambda: tv.mnasnet0_5(num_classes=10), name="mnasnet")
    pictures(lambda: tv.efficientnet_b0(num_classes=10), name="efficientnet")
    pictures(lambda: tv.DenseNet(8, (2, 2, 2, 2), 16, num_classes=10), name="densenet")
    pictures(lambda: tv.regnet_y_400mf(num_classes=10), name="regnet")
    pictures(lambda: tv.vgg.VGG(tv.vgg.make_layers([8, "M", 16, "M", 512, "M"], batch_norm=True), num_classes=10), 32, name="vgg")
    pictures(lambda: tv.googlenet(num_classes=10, aux_logits=False, init_weights=False), name="googlenet")
    blocks = [tv.convnext.CNBlockConfig(16, 32, 1), tv.convnext.CNBlockConfig(32, None, 1)]
    pictures(lambda: tv.ConvNeXt(blocks, num_classes=10), name="convnext")
    pictures(lambda: tv.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), 32, name="vit")
    pictures(lambda: tv.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10), 32, name="swin")
    pictures(lambda: tv.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10, block=tv.swin_transformer.SwinTransformerBlockV2,
             downsample_layer=tv.swin_transformer.PatchMergingV2), 32, name="swin_v2")  # fmt: skip
    pictures(lambda: tv.MaxVit((32, 32), 8, 4, [16], [1], 8, 0.0, num_classes=10), 32, name="maxvit")

    def segmentation(build, name):
        class Segmented(nn.Module):
            """The one answer of a dictionary."""

            def __init__(self):
                super().__init__()
                self.inner = build()

            def forward(self, x):
                return self.inner(x)["out"]

        pictures(Segmented, name=name)

    segmentation(lambda: tv.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), "lraspp")
    segmentation(lambda: tv.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), "deeplabv3")


class Recurrent(nn.Module):
    """An embedding, a recurrent layer in both directions, a head."""

    def __init__(self, kind):
        super().__init__()
        self.embed, self.head = nn.Embedding(99, 16), nn.Linear(32, 7)
        self.layer = getattr(nn, kind)(16, 16, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, tokens):
        states, _ = self.layer(self.embed(tokens))
        return self.head(states), states.amax(1)


@model("recurrent", quick=True)
def lstm():
    """LSTM."""
    return Recurrent("LSTM"), {"tokens": ids(2, 7)}


@model("recurrent")
def gru():
    """GRU."""
    return Recurrent("GRU"), {"tokens": ids(2, 7)}


@model("recurrent")
def rnn():
    """A plain recurrent layer."""
    return Recurrent("RNN"), {"tokens": ids(2, 7)}


@model("recurrent")
def lstm_cells():
    """A loop of `LSTMCell` in Python."""

    class Cells(nn.Module):
        """One step after another."""

        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(8, 12)

        def forward(self, x):
            hidden, memory = torch.zeros(2, 12), torch.zeros(2, 12)
            for step in range(5):
                hidden, memory = self.cell(x[:, step], (hidden, memory))
            return hidden, memory

    return Cells(), {"x": torch.randn(2, 5, 8)}


@model("torch.nn", quick=True)
def transformer():
    """`nn.Transformer`: encoder and decoder."""
    built = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)
    return built, {"src": torch.randn(2, 9, 32), "tgt": torch.randn(2, 5, 32)}


@model("diffusion", quick=True)
def unet_block():
    """What U-Nets of diffusion are made of: time embeddings, group norm, attention over pixels, skips, resampling."""

    class Block(nn.Module):
        """A residual block with a time embedding, and attention over pixels."""

        def __init__(self, inputs, width):
            super().__init__()
            self.first, self.second = nn.GroupNorm(4, inputs), nn.GroupNorm(4, width)
            self.into, self.out = nn.Conv2d(inputs, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
            self.time, self.skip = nn.Linear(32, width), nn.Conv2d(inputs, width, 1)
            self.norm, self.attention = nn.GroupNorm(4, width), nn.MultiheadAttention(width, 2, batch_first=True)

        def forward(self, x, time):
            y = self.into(F.silu(self.first(x))) + self.time(F.silu(time))[:, :, None, None]
            y = self.out(F.silu(self.second(y))) + self.skip(x)
            rows = self.norm(y).flatten(2).transpose(1, 2)
            mixed = self.attention(rows, rows, rows, need_weights=False)[0]
            return y + mixed.transpose(1, 2).reshape(y.shape)

    class UNet(nn.Module):
        """Down, middle, up."""

        def __init__(self):
            super().__init__()
            self.enter, self.leave = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
            self.down, self.middle, self.up = Block(16, 16), Block(16, 32), Block(48, 16)
            self.smaller = nn.Conv2d(16, 16, 3, stride=2, padding=1)

        def forward(self, x, time):
            angles = time[:, None] * torch.exp(torch.arange(16) * -0.5)
            embedded = torch.cat([angles.sin(), angles.cos()], dim=-1)
            kept = self.down(self.enter(x), embedded)
            middle = F.interpolate(self.middle(self.smaller(kept), embedded), scale_factor=2.0, mode="nearest")
            return self.leave(self.up(torch.cat([middle, kept], dim=1), embedded))

    return UNet(), {"x": torch.randn(2, 3, 16, 16), "time": torch.tensor([3.0, 17.0])}


def diffusion(class_name, config, inputs, field="sample"):
    """A model of diffusers."""
    import diffusers

    return Picked(getattr(diffusers, class_name)(**config), field), inputs


@model("diffusion")
def unet_2d():
    """The unconditional U-Net of diffusers."""
    config = {
        "sample_size": 16, "block_out_channels": (16, 32), "norm_num_groups": 8, "layers_per_block": 1, "attention_head_dim": 8,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }  # fmt: skip
    return diffusion("UNet2DModel", config, {"sample": torch.randn(2, 3, 16, 16), "timestep": torch.tensor([3, 17])})


@model("diffusion")
def unet_2d_condition():
    """Stable Diffusion's U-Net."""
    config = {
        "sample_size": 16, "block_out_channels": (16, 32), "norm_num_groups": 8, "layers_per_block": 1, "attention_head_dim": 8, "cross_attention_dim": 24,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }  # fmt: skip
    inputs = {"sample": torch.randn(2, 4, 16, 16), "timestep": torch.tensor([3, 17]), "encoder_hidden_states": torch.randn(2, 5, 24)}
    return diffusion("UNet2DConditionModel", config, inputs)


@model("diffusion")
def autoencoder_kl():
    """Stable Diffusion's autoencoder: the decoder's answer for the mode of the latent."""
    config = {"block_out_channels": (16, 32), "norm_num_groups": 8, "latent_channels": 4, "sample_size": 16,
              "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}  # fmt: skip
    return diffusion("AutoencoderKL", config, {"sample": torch.randn(1, 3, 16, 16)})


@model("diffusion")
def dit():
    """A diffusion transformer."""
    config = {"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 4, "num_layers": 2, "sample_size": 8, "patch_size": 2,
              "norm_num_groups": 4, "num_embeds_ada_norm": 10}  # fmt: skip
    inputs = {"hidden_states": torch.randn(2, 4, 8, 8), "timestep": torch.tensor([3, 17]), "class_labels": torch.tensor([1, 2])}
    return diffusion("DiTTransformer2DModel", config, inputs)


def write(folder, name, build):
    """Writes both forms of a model and its answer; gives reasons for what is missing."""
    torch.manual_seed(11)
    built, inputs = build()
    built = built.eval()
    spread(built)
    with torch.no_grad():
        answers = torch.utils._pytree.tree_leaves(built(**inputs))
        exported = torch.export.export(built, (), inputs, strict=False)
    torch.export.save(exported, folder / f"{name}.pt2")
    answers = [answer for answer in answers if isinstance(answer, torch.Tensor)]
    kept = {f"input.{own}": value for own, value in zip(exported.graph_signature.user_inputs, inputs.values(), strict=True)}
    kept |= {f"output.{n}": answer for n, answer in enumerate(answers)}
    np.savez(folder / f"{name}.0.npz", **{key: np.asarray(value.detach()) for key, value in kept.items()})
    try:
        torch.export.save(exported.run_decompositions(), folder / f"{name}.core.pt2")
    except Exception as error:  # noqa: BLE001: some programs cannot be decomposed by PyTorch itself
        return {"core": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    return {}


def spread(module):
    """Norms and biases that are not their initial ones and zeros, so that they count."""
    generator = torch.Generator().manual_seed(17)
    with torch.no_grad():
        for own, value in list(module.named_parameters()) + list(module.named_buffers()):
            if not value.is_floating_point():
                continue
            if own.endswith("running_var"):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
            elif value.ndim == 1 and (own.endswith(("bias", "running_mean")) or bool((value == value.flatten()[0]).all())):
                value.add_(torch.randn(value.shape, generator=generator) * 0.1)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--suite", choices=["quick", "full"], default="quick")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    unbuilt = {}
    try:
        vision_families()
    except ImportError as error:
        unbuilt["torchvision"] = str(error)
    listed = folder / "models.json"
    made = json.loads(listed.read_text())["models"] if args.only and listed.exists() else {}
    for name, (family, quick, build) in MODELS.items():
        if not re.search(args.only, name) or (args.suite == "quick" and not quick):
            continue
        try:
            made[name] = {"family": family, "missing": write(folder, name, build)}
        except Exception as error:  # noqa: BLE001: what PyTorch itself cannot export is listed
            if args.suite == "quick":
                raise
            made[name] = {"family": family, "missing": {"raw": f"{type(error).__name__}: {error}".splitlines()[0][:200]}}
        print(name, made[name]["missing"] or "", file=sys.stderr, flush=True)
    listed.write_text(json.dumps({"models": made, "unbuilt": unbuilt}, indent=1))


if __name__ == "__main__":
    main()
