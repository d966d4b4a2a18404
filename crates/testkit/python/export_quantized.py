"""Small models quantized by the tools that define the formats, with the numbers these tools make of them again.

    python export_quantized.py FOLDER [CASE...]

Each case is a folder with `config.json` and weights as the tool packs them (or one `.gguf` file), and `expected.safetensors`:
every dense parameter as the tool dequantizes it, in the type it gives, with `tokens` and the `logits` that transformers has
for the dense parameters. Where a tool cannot be installed without a GPU or a compiler, the packing is written here from
the format's description; the case says so.
"""
import importlib.util
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HIDDEN, FEED_FORWARD, VOCABULARY = 64, 160, 96


def small_llama(hidden=HIDDEN, feed_forward=FEED_FORWARD, seed=0):
    """A Llama with random weights, its configuration and its parameters."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=feed_forward, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=64, tie_word_embeddings=False,
        rope_theta=10000.0, rms_norm_eps=1e-5, initializer_range=0.2)
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return config, {name: value.detach().clone() for name, value in model.state_dict().items()}


def is_quantized(name):
    return name.endswith("_proj.weight")


def finish(folder, config, quantization, tensors, expected):
    """Writes a case; `expected` has the dense parameters."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = config.to_dict() if config is not None else {}
    settings["architectures"] = ["LlamaForCausalLM"]
    settings.pop("dtype", None)
    if quantization is not None:
        settings["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(settings, indent=1))
    if tensors is not None:
        save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    expected = {name: value.contiguous() for name, value in expected.items()}
    if config is not None:
        model = LlamaForCausalLM(config).float().eval()
        model.load_state_dict({name: value.float() for name, value in expected.items()})
        tokens = torch.arange(1, 13).reshape(1, 12) * 7 % VOCABULARY
        with torch.no_grad():
            expected["logits"] = model(tokens).logits[0].contiguous()
        expected["tokens"] = tokens[0].to(torch.int32).contiguous()
    save_file(expected, folder / "expected.safetensors")


# compressed-tensors

def blocks_of(weight, strategy, size, block):
    """Largest and smallest value of every block, as scales lie."""
    if strategy == "tensor":
        parts = weight.reshape(1, -1)
        return parts.amin(-1), parts.amax(-1)
    if strategy == "channel":
        return weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    if strategy in ("group", "tensor_group"):
        parts = weight.reshape(weight.shape[0], -1, size)
        return parts.amin(-1), parts.amax(-1)
    rows, columns = block
    down, across = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    low, high = torch.zeros(down, across), torch.zeros(down, across)
    for i in range(down):
        for j in range(across):
            part = weight[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]
            low[i, j], high[i, j] = part.min(), part.max()
    return low, high


def compressed(weight, args, layout, scale_dtype, pack=None):
    """Parts of one weight as the compressor of compressed-tensors writes them, and what it reads from them."""
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    settings = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=settings)
    low, high = blocks_of(weight, args["strategy"], args.get("group_size"), args.get("block_structure"))
    state = {"weight": weight.to(torch.float32)}
    if layout == "nvfp4-pack-quantized":
        largest = torch.maximum(high, -low)
        state["weight_global_scale"] = (448.0 * 6.0 / weight.abs().max()).reshape(1).float()
        state["weight_scale"] = (largest / 6.0 * state["weight_global_scale"]).to(torch.float8_e4m3fn).float()
    elif layout.startswith("mx"):
        largest = torch.maximum(high, -low)
        top = {4: 2, 6: 2, 8: 8}[args["num_bits"]]
        state["weight_scale"] = 2.0 ** (torch.floor(torch.log2(largest)) - top)
    else:
        scale, zero = calculate_qparams(low, high, settings)
        state["weight_scale"] = scale.to(scale_dtype)
        state["weight_zero_point"] = zero
    compressor = BaseCompressor.get_value_from_registry(layout)
    if "weight_zero_point" in state and not state["weight_zero_point"].dtype.is_floating_point:
        state["weight_zero_point"] = state["weight_zero_point"].to(torch.int8)
    elif "weight_zero_point" in state:
        state.pop("weight_zero_point")
    state["weight"] = state["weight"].to(scale_dtype if layout.startswith(("nvfp4", "mx")) else torch.float32)
    parts = compressor.compress(dict(state), scheme)
    dense = compressor.decompress(dict(parts), scheme)["weight"]
    return parts, dense


def compressed_case(folder, args, layout, scale_dtype=torch.bfloat16, inputs=None, extra=None):
    config, model = small_llama()
    tensors, expected = {}, {}
    for name, weight in model.items():
        if is_quantized(name):
            module = name.removesuffix(".weight")
            parts, expected[name] = compressed(weight, args, layout, scale_dtype)
            tensors.update({f"{module}.{part}": value for part, value in parts.items()})
            if inputs is not None and inputs.get("dynamic") is False:
                tensors[f"{module}.input_scale"] = torch.tensor([0.0625])
        else:
            tensors[name] = expected[name] = weight.to(scale_dtype)
    quantization = {
        "quant_method": "compressed-tensors", "format": layout, "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": args, "input_activations": inputs}},
        "ignore": ["lm_head"], "kv_cache_scheme": None, **(extra or {})}
    finish(folder, config, quantization, tensors, expected)


def integers(bits, strategy, **more):
    return {"num_bits": bits, "type": "int", "symmetric": True, "strategy": strategy, **more}


def floats(bits, strategy, **more):
    return {"num_bits": bits, "type": "float", "symmetric": True, "strategy": strategy, **more}


DYNAMIC = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
STATIC = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}


def pack_by_word(codes, bits, axis):
    """The packing of compressed-tensors before October 2025: a whole number of values in each word. Written from the
    description of the format: the tool has dropped it."""
    codes = codes.numpy().astype(np.int64) + (1 << (bits - 1))
    if axis == 0:
        codes = codes.T
    each = 32 // bits
    words = np.zeros((codes.shape[0], -(-codes.shape[1] // each)), np.int64)
    for column in range(codes.shape[1]):
        words[:, column // each] |= codes[:, column] << (column % each * bits)
    words = words.astype(np.uint32).view(np.int32)
    return torch.from_numpy(np.ascontiguousarray(words.T if axis == 0 else words))


def by_word_case(folder, bits):
    """As `compressed_case`, asymmetric and by groups, in the older packing."""
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    args = integers(bits, "group", group_size=32, symmetric=False)
    config, model = small_llama()
    tensors, expected = {}, {}
    for name, weight in model.items():
        if is_quantized(name):
            module = name.removesuffix(".weight")
            parts, expected[name] = compressed(weight, args, "pack-quantized", torch.float16)
            zeros_shape = torch.Size((weight.shape[0], weight.shape[1] // 32))
            codes = unpack_from_int32(parts["weight_packed"], bits, weight.shape)
            zeros = unpack_from_int32(parts["weight_zero_point"], bits, zeros_shape, packed_dim=0)
            parts["weight_packed"] = pack_by_word(codes, bits, 1)
            parts["weight_zero_point"] = pack_by_word(zeros, bits, 0)
            tensors.update({f"{module}.{part}": value for part, value in parts.items()})
        else:
            tensors[name] = expected[name] = weight.half()
    quantization = {"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"group_0": {"targets": ["Linear"], "weights": args}}, "ignore": ["lm_head"]}
    finish(folder, config, quantization, tensors, expected)


def act_order_case(folder):
    """Groups by g_idx: the tool has dropped them, so columns are put in order here and the tool is asked for the rest."""
    args = integers(4, "group", group_size=32)
    config, model = small_llama()
    tensors, expected = {}, {}
    for name, weight in model.items():
        if is_quantized(name):
            module = name.removesuffix(".weight")
            order = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(1))
            back = torch.argsort(order)
            from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
            parts, dense = compressed(weight[:, order], args, "pack-quantized", torch.bfloat16)
            codes = unpack_from_int32(parts["weight_packed"], 4, weight.shape)
            parts["weight_packed"] = pack_to_int32(codes[:, back].contiguous(), 4)
            parts["weight_g_idx"] = (back // 32).to(torch.int32)
            expected[name] = dense[:, back]
            tensors.update({f"{module}.{part}": value for part, value in parts.items()})
        else:
            tensors[name] = expected[name] = weight.bfloat16()
    quantization = {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
                    "config_groups": {"group_0": {"targets": ["Linear"], "weights": dict(args, actorder="group")}}}
    finish(folder, config, quantization, tensors, expected)


def mixed_case(folder):
    """Two groups of modules, by pattern and by class."""
    config, model = small_llama()
    tensors, expected = {}, {}
    four, eight = integers(4, "group", group_size=32), integers(8, "channel")
    for name, weight in model.items():
        if is_quantized(name):
            module = name.removesuffix(".weight")
            args, layout = (eight, "int-quantized") if "down_proj" in name else (four, "pack-quantized")
            parts, expected[name] = compressed(weight, args, layout, torch.float32)
            tensors.update({f"{module}.{part}": value for part, value in parts.items()})
        else:
            tensors[name] = expected[name] = weight
    quantization = {
        "quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["lm_head", "re:.*norm"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": four, "format": "pack-quantized"},
                          "group_1": {"targets": ["re:.*down_proj"], "weights": eight, "format": "int-quantized"}}}
    finish(folder, config, quantization, tensors, expected)


# GPTQ

def module_file(package, path, name):
    """One file of a package whose other files need what is not installed."""
    folder = pathlib.Path(importlib.util.find_spec(package).origin).parent
    specification = importlib.util.spec_from_file_location(name, folder / path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def gptq_case(folder, bits, group_size, symmetric=True, act_order=False, version="gptq"):
    """Packed by AutoGPTQ's own layer, and dequantized by it: it multiplies with the identity. Version 2 stores zero points
    as they are; AutoGPTQ writes version 1, so they are packed once more here."""
    linear = module_file("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py", "qlinear_cuda").QuantLinear
    config, model = small_llama()
    tensors, expected = {}, {}
    for name, weight in model.items():
        if not is_quantized(name):
            tensors[name] = expected[name] = weight.half()
            continue
        outputs, inputs = weight.shape
        size = inputs if group_size == -1 else group_size
        order = torch.randperm(inputs, generator=torch.Generator().manual_seed(2)) if act_order else torch.arange(inputs)
        group_of = torch.argsort(order) // size
        levels = 2 ** bits - 1
        parts = weight[:, order].reshape(outputs, -1, size)
        if symmetric:
            scales = parts.abs().amax(-1) * 2 / levels
            zeros = torch.full_like(scales, (levels + 1) // 2)
        else:
            low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
            scales = (high - low) / levels
            # A zero point of 0 is less than version 1 can say.
            zeros = torch.round(-low / scales).clamp(1, levels)
        scales = scales.half().float()
        spread_scales, spread_zeros = scales[:, group_of], zeros[:, group_of]
        codes = torch.clamp(torch.round(weight / spread_scales) + spread_zeros, 0, levels)
        dense = torch.nn.Linear(inputs, outputs, bias=False)
        dense.weight.data = (codes - spread_zeros) * spread_scales
        layer = linear(bits, size, inputs, outputs, False)
        layer.pack(dense, scales.clone(), zeros.clone(), group_of.to(torch.int32))
        layer.scales = layer.scales.half()
        expected[name] = layer(torch.eye(inputs).half()).T
        module = name.removesuffix(".weight")
        tensors[f"{module}.qweight"], tensors[f"{module}.scales"] = layer.qweight, layer.scales
        tensors[f"{module}.g_idx"] = layer.g_idx.to(torch.int32)
        tensors[f"{module}.qzeros"] = layer.qzeros
        if version == "gptq_v2":
            stored = zeros.T.to(torch.int64).numpy()
            words = np.zeros((stored.shape[0], outputs * bits // 32), np.int64)
            for column in range(outputs):
                words[:, column * bits // 32] |= stored[:, column] << (column * bits % 32)
            tensors[f"{module}.qzeros"] = torch.from_numpy(words.astype(np.uint32).view(np.int32))
    quantization = {"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": act_order,
                    "sym": symmetric, "checkpoint_format": version, "true_sequential": True}
    finish(folder, config, quantization, tensors, expected)


# AWQ

def awq_case(folder):
    """Packed here from the description of AutoAWQ's `gemm` layout (it needs a GPU's packages); dequantized by the reader of
    AWQ in compressed-tensors."""
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    order, size = [0, 2, 4, 6, 1, 3, 5, 7], 32

    def words_of(codes):
        words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.int64)
        for nibble, output in enumerate(order):
            words |= codes[:, output::8].astype(np.int64) << (4 * nibble)
        return torch.from_numpy(words.astype(np.uint32).view(np.int32))

    config, model = small_llama()
    tensors, expected = {}, {}
    scheme = QuantizationScheme(
        targets=["Linear"], weights=QuantizationArgs(**integers(4, "group", group_size=size, symmetric=False)))
    converter = AutoAWQConverter(bits=4, group_size=size)
    for name, weight in model.items():
        if not is_quantized(name):
            tensors[name] = expected[name] = weight.half()
            continue
        module = name.removesuffix(".weight")
        outputs, inputs = weight.shape
        parts = weight.reshape(outputs, -1, size)
        low, high = parts.amin(-1), parts.amax(-1)
        scales = ((high - low) / 15).half().float()
        zeros = torch.round(-low / scales).clamp(0, 15)
        codes = torch.clamp(torch.round(parts / scales[..., None]) + zeros[..., None], 0, 15).reshape(outputs, inputs)
        packed = {f"{module}.qweight": words_of(codes.T.numpy()), f"{module}.qzeros": words_of(zeros.T.numpy()),
                  f"{module}.scales": scales.T.half().contiguous()}
        tensors.update(packed)
        parts = converter.process({key: value.clone() for key, value in packed.items()})
        parts = {key.removeprefix(module + "."): value for key, value in parts.items()}
        compressor = BaseCompressor.get_value_from_registry("pack-quantized")
        expected[name] = compressor.decompress(parts, scheme)["weight"]
    quantization = {"quant_method": "awq", "bits": 4, "group_size": size, "zero_point": True, "version": "gemm",
                    "modules_to_not_convert": None}
    finish(folder, config, quantization, tensors, expected)


# fp8

def fp8_case(folder, block, exponents=False):
    """Weights as DeepSeek keeps them. No package that runs without a GPU dequantizes them; weight times scale is two lines."""
    config, model = small_llama()
    tensors, expected = {}, {}
    for name, weight in model.items():
        if not is_quantized(name):
            tensors[name] = expected[name] = weight.bfloat16()
            continue
        module = name.removesuffix(".weight")
        low, high = blocks_of(weight, "block" if block else "tensor", None, block)
        scales = torch.maximum(high, -low) / 448
        if exponents:
            scales = 2.0 ** torch.ceil(torch.log2(scales))
        spread = scales
        if block:
            spread = scales.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
            spread = spread[:weight.shape[0], :weight.shape[1]]
        codes = (weight / spread).to(torch.float8_e4m3fn)
        expected[name] = (codes.float() * spread).bfloat16()
        tensors[name] = codes
        stored = scales.to(torch.float8_e8m0fnu) if exponents else scales
        tensors[f"{module}.{'weight_scale_inv' if block else 'weight_scale'}"] = stored
    quantization = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"}
    if block:
        quantization["weight_block_size"] = list(block)
    if exponents:
        quantization["scale_fmt"] = "ue8m0"
    finish(folder, config, quantization, tensors, expected)


# bitsandbytes

def bitsandbytes_case(folder, kind, nested=False, dtype=torch.bfloat16):
    """Quantized and dequantized by the functions its layers call."""
    import bitsandbytes.functional as functional

    # Its CPU code reads rows that are no multiple of a block wrongly; blocks run over the flat matrix.
    config, model = small_llama(feed_forward=192)
    tensors, expected = {}, {}
    for name, weight in model.items():
        if not is_quantized(name):
            tensors[name] = expected[name] = weight.to(dtype)
            continue
        module = name.removesuffix(".weight")
        if kind == "int8":
            codes, largest, _ = functional.int8_vectorwise_quant(weight.half())
            tensors[name], tensors[f"{module}.SCB"] = codes, largest
            tensors[f"{module}.weight_format"] = torch.tensor(0, dtype=torch.uint8)
            expected[name] = functional.int8_vectorwise_dequant(codes, largest)
            continue
        codes, state = functional.quantize_4bit(
            weight.to(dtype), blocksize=64, quant_type=kind, compress_statistics=nested)
        tensors[name] = codes
        tensors.update({f"{name}.{part}": value for part, value in state.as_dict(packed=True).items()})
        expected[name] = functional.dequantize_4bit(codes, state)
    quantization = {"quant_method": "bitsandbytes", "load_in_8bit": kind == "int8", "load_in_4bit": kind != "int8",
                    "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}
    finish(folder, config, quantization, tensors, expected)


# gpt-oss

def experts_case(folder):
    """Experts of gpt-oss in MXFP4, dequantized by transformers."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    torch.manual_seed(3)
    experts, width, hidden = 3, 64, 96
    tensors, expected = {}, {}
    start = "model.layers.0.mlp.experts"
    for projection, rows, columns in (("gate_up_proj", 2 * hidden, width), ("down_proj", width, hidden)):
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
        scales = torch.randint(118, 130, (experts, rows, columns // 32), dtype=torch.uint8)
        bias = torch.randn(experts, rows).bfloat16()
        tensors[f"{start}.{projection}_blocks"], tensors[f"{start}.{projection}_scales"] = blocks, scales
        tensors[f"{start}.{projection}_bias"] = bias
        # By input, then output.
        dense = convert_moe_packed_tensors(blocks, scales).transpose(1, 2)
        for expert in range(experts):
            names = {"gate_proj": slice(0, None, 2), "up_proj": slice(1, None, 2)}
            for name, part in (names if projection == "gate_up_proj" else {"down_proj": slice(None)}).items():
                expected[f"{start}.{expert}.{name}.weight"] = dense[expert, part]
                expected[f"{start}.{expert}.{name}.bias"] = bias[expert, part]
    finish(folder, None, {"quant_method": "mxfp4"}, tensors, expected)


# GGUF

def interleaved(weight, heads):
    """Rows of each head as llama.cpp's converter puts them for the architecture `llama`: halves in turns."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def back(weight, heads):
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def random_blocks(kind, shape, seed):
    """Blocks of types that the `gguf` package reads but does not write: any bytes, with scales that are numbers."""
    import gguf

    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rows = np.random.default_rng(seed).integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
    scale = np.frombuffer(np.float16(0.0123).tobytes(), np.uint8)
    places = {"Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [size - 2]}.get(kind.name, [])
    for place in places:
        rows[:, :, place:place + 2] = scale
    return rows.reshape(shape[0], -1)


def gguf_case(folder, matrices, embedding=None):
    """A file of the `gguf` package, its tensors dequantized by it."""
    import gguf

    config, model = small_llama(hidden=256, feed_forward=512)
    folder.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"token {number}" for number in range(VOCABULARY)])
    writer.add_token_scores([float(-number) for number in range(VOCABULARY)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = {"embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm", "q_proj": "attn_q",
             "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate",
             "up_proj": "ffn_up", "down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    expected = {}
    for number, (name, weight) in enumerate(model.items()):
        own = next(theirs for part, theirs in names.items() if part in name)
        if "layers." in name:
            own = f"blk.{name.split('.')[2]}.{own}"
        count = next((count for part, count in heads.items() if part in name), None)
        values = weight.numpy()
        if count:
            values = interleaved(values, count)
        kind = gguf.GGMLQuantizationType.F32
        if values.ndim == 2:
            kind = gguf.GGMLQuantizationType[embedding if embedding and not is_quantized(name) else matrices]
        if kind.name in ("Q4_K", "Q5_K", "Q6_K"):
            data = random_blocks(kind, values.shape, number)
        else:
            data = gguf.quants.quantize(values, kind)
        writer.add_tensor(f"{own}.weight", data, raw_dtype=kind)
        dense = data if kind.name in ("F16", "F32") else gguf.quants.dequantize(data, kind)
        dense = torch.from_numpy(np.array(back(dense, count) if count else dense))
        expected[name] = dense.bfloat16() if kind.name == "BF16" else dense
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    finish(folder, config, None, None, expected)


# Codebooks

def aqlm_case(folder, codebooks, bits):
    """Random codes, dequantized by AQLM's own function."""
    from aqlm.utils import _dequantize_weight, pack_int_data, unpack_int_data

    config, model = small_llama()
    generator = torch.Generator().manual_seed(5)
    tensors, expected = {}, {}
    for name, weight in model.items():
        if not is_quantized(name):
            tensors[name] = expected[name] = weight.half()
            continue
        module = name.removesuffix(".weight")
        outputs, inputs = weight.shape
        codes = torch.randint(0, 2 ** bits, (outputs, inputs // 8, codebooks), generator=generator)
        vectors = (torch.randn(codebooks, 2 ** bits, 1, 8, generator=generator) * 0.2).half()
        scales = (torch.rand(outputs, 1, 1, 1, generator=generator) + 0.5).half()
        tensors[f"{module}.codes"] = pack_int_data(codes.clone(), bits)
        tensors[f"{module}.codebooks"], tensors[f"{module}.scales"] = vectors, scales
        expected[name] = _dequantize_weight(unpack_int_data(tensors[f"{module}.codes"], bits), vectors, scales)
    quantization = {"quant_method": "aqlm", "nbits_per_codebook": bits, "num_codebooks": codebooks,
                    "in_group_size": 8, "out_group_size": 1, "linear_weights_not_to_quantize": ["lm_head.weight"]}
    finish(folder, config, quantization, tensors, expected)


def vptq_case(folder, residual):
    """Random indices, packed and dequantized by VPTQ's own functions."""
    import types

    # Only the programs beside its functions use these.
    for absent in ("sentence_transformers", "sentence_transformers.SentenceTransformer"):
        sys.modules.setdefault(absent, types.ModuleType(absent)).SentenceTransformer = object
    from vptq.ops.quant_gemm import dequant
    from vptq.utils.pack import pack_index

    config, model = small_llama()
    generator = torch.Generator().manual_seed(6)
    tensors, expected, layers = {}, {}, {}
    vector, entries, more = 6, 256, 16 if residual else -1
    for name, weight in model.items():
        if not is_quantized(name):
            tensors[name] = expected[name] = weight.bfloat16()
            continue
        module = name.removesuffix(".weight")
        outputs, inputs = weight.shape
        padding = -outputs % vector
        shape = (1, (outputs + padding) // vector, inputs)

        def indices(count):
            return torch.randint(0, count, shape, generator=generator).to(torch.uint16)

        def vectors(count):
            return (torch.randn(1, count * vector, generator=generator) * 0.2).bfloat16()

        first, second = indices(entries), indices(more) if residual else None
        packed = pack_index(first, 8, second, 4 if residual else 0)
        order = torch.randperm(inputs, generator=generator).to(torch.uint16).view(torch.int16)
        scale, bias = torch.rand(inputs, generator=generator).bfloat16(), torch.randn(inputs, generator=generator).bfloat16()
        centroids, residuals = vectors(entries), vectors(more) if residual else None
        parts = {"indices": packed, "centroids.weight": centroids, "res_centroids.weight": residuals, "perm": order,
                 "weight_scale": scale, "weight_bias": bias}
        tensors.update({f"{module}.{part}": value for part, value in parts.items() if value is not None})
        expected[name] = dequant(
            packed, centroids.view(1, entries, vector), None, None, None,
            residuals.view(1, more, vector) if residual else None, order, scale, bias, True, False, residual, True, True,
            entries, -1, more, padding, 0, 1, inputs, 0, vector, -1)
        layers[module] = {
            "in_features": inputs, "out_features": outputs, "vector_lens": [-1, vector], "num_centroids": [-1, entries],
            "num_res_centroids": [-1, more], "group_num": 1, "group_size": inputs, "outlier_size": 0,
            "indices_as_float": False, "enable_norm": True, "enable_perm": True, "is_indice_packed": True, "bias": False}
    finish(folder, config, {"quant_method": "vptq", "config_for_layers": layers}, tensors, expected)


def cases():
    """Every case by name, with what makes it."""
    group = dict(group_size=32)
    found = {
        "compressed-int8-channel": lambda to: compressed_case(to, integers(8, "channel"), "int-quantized", inputs=DYNAMIC),
        "compressed-int8-asymmetric": lambda to: compressed_case(
            to, integers(8, "channel", symmetric=False), "int-quantized", torch.float32, inputs=DYNAMIC),
        "compressed-int8-group": lambda to: compressed_case(to, integers(8, "group", **group), "naive-quantized"),
        "compressed-fp8-channel": lambda to: compressed_case(to, floats(8, "channel"), "float-quantized", inputs=DYNAMIC),
        "compressed-fp8-static": lambda to: compressed_case(
            to, floats(8, "tensor"), "float-quantized", torch.float32, inputs=STATIC),
        "compressed-fp8-block": lambda to: compressed_case(
            to, floats(8, "block", block_structure=[128, 128]), "float-quantized", torch.float32),
        "compressed-int4-channel": lambda to: compressed_case(to, integers(4, "channel"), "pack-quantized", torch.float16),
        "compressed-int4-channel-asymmetric": lambda to: compressed_case(
            to, integers(4, "channel", symmetric=False), "pack-quantized", torch.float16),
        "compressed-act-order": act_order_case,
        "compressed-mixed": mixed_case,
        "compressed-nvfp4": lambda to: compressed_case(
            to, floats(4, "tensor_group", group_size=16), "nvfp4-pack-quantized"),
        "compressed-mxfp4": lambda to: compressed_case(to, floats(4, "group", **group), "mxfp4-pack-quantized"),
        "compressed-mxfp6": lambda to: compressed_case(to, floats(6, "group", **group), "mxfp6-pack-quantized"),
        "compressed-mxfp8": lambda to: compressed_case(
            to, floats(8, "group", scale_dtype="torch.uint8", **group), "mxfp8-quantized"),
        "gptq-4-act-order": lambda to: gptq_case(to, 4, 32, symmetric=False, act_order=True),
        "gptq-4-channel": lambda to: gptq_case(to, 4, -1),
        "gptq-4-v2": lambda to: gptq_case(to, 4, 32, symmetric=False, version="gptq_v2"),
        "gptq-3-asymmetric": lambda to: gptq_case(to, 3, 32, symmetric=False),
        "awq-4": awq_case,
        "fp8-block": lambda to: fp8_case(to, (128, 128)),
        "fp8-block-exponents": lambda to: fp8_case(to, (32, 32), exponents=True),
        "bitsandbytes-int8": lambda to: bitsandbytes_case(to, "int8"),
        "bitsandbytes-nf4": lambda to: bitsandbytes_case(to, "nf4"),
        "bitsandbytes-nf4-half": lambda to: bitsandbytes_case(to, "nf4", dtype=torch.float16),
        "bitsandbytes-nf4-double": lambda to: bitsandbytes_case(to, "nf4", nested=True, dtype=torch.float32),
        "bitsandbytes-fp4-double": lambda to: bitsandbytes_case(to, "fp4", nested=True),
        "gpt-oss": experts_case,
        "fp8-tensor": lambda to: fp8_case(to, None),
    }
    for bits in (2, 3, 4, 5, 6, 7, 8):
        found[f"compressed-int{bits}-group"] = found.get(f"compressed-int{bits}-group") or (
            lambda to, bits=bits: compressed_case(to, integers(bits, "group", **group), "pack-quantized"))
        found[f"compressed-int{bits}-group-asymmetric"] = lambda to, bits=bits: compressed_case(
            to, integers(bits, "group", symmetric=False, **group), "pack-quantized")
    for kind in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "Q5_K"):
        found[f"gguf-{kind}"] = lambda to, kind=kind: gguf_case(to, kind)
    found["gguf-Q4_K"] = lambda to: gguf_case(to, "Q4_K", embedding="Q6_K")
    found["aqlm-1x12"] = lambda to: aqlm_case(to, 1, 12)
    found["aqlm-2x8"] = lambda to: aqlm_case(to, 2, 8)
    found["vptq"] = lambda to: vptq_case(to, False)
    found["vptq-residual"] = lambda to: vptq_case(to, True)
    for bits in (3, 5, 6, 7):
        found[f"compressed-int{bits}-by-word"] = lambda to, bits=bits: by_word_case(to, bits)
    for bits in (2, 3, 4, 8):
        found[f"gptq-{bits}"] = lambda to, bits=bits: gptq_case(to, bits, 32)
    return found


if __name__ == "__main__":
    target, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    for case, make in cases().items():
        if not wanted or case in wanted:
            make(target / case)
