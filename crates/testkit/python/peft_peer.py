"""PEFT's adapters: made for our reader, and ours read by PEFT.

usage: peft_peer.py (make|read) FOLDER
"""

import os
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

SIZES = {
    "gpt2": (
        lambda: GPT2LMHeadModel(GPT2Config(vocab_size=61, n_positions=32, n_embd=32, n_layer=2, n_head=4, attn_implementation="eager")),
        ["c_attn", "c_fc"],
    ),
    "llama": (
        lambda: LlamaForCausalLM(
            LlamaConfig(
                vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False,
            )
        ),
        ["q_proj", "v_proj", "down_proj"],
    ),
}


def tokens():
    return (torch.arange(2 * 12).reshape(2, 12) * 7) % 61


def logits(model):
    model.eval()
    with torch.no_grad():
        return model(tokens()).logits.float().contiguous()


def make(folder):
    torch.manual_seed(5)
    for name, (model, targets) in SIZES.items():
        base = model()
        home = os.path.join(folder, name)
        base.save_pretrained(os.path.join(home, "base"))
        # The scale differs from that of the test, and is by the root of the rank.
        config = LoraConfig(r=4, lora_alpha=6, use_rslora=True, target_modules=targets, lora_dropout=0.1, task_type="CAUSAL_LM")
        found = {"tokens": tokens().to(torch.int32), "base": logits(base)}
        adapted = get_peft_model(base, config)
        for key, value in adapted.named_parameters():
            if "lora_B" in key:
                torch.nn.init.normal_(value, std=0.2)
        adapted.save_pretrained(os.path.join(home, "adapter"))
        save_file(found | {"adapted": logits(adapted)}, os.path.join(home, "theirs.safetensors"))


def read(folder):
    for name in SIZES:
        home = os.path.join(folder, name)
        base = AutoModelForCausalLM.from_pretrained(os.path.join(home, "base"), torch_dtype=torch.float32)
        merged = AutoModelForCausalLM.from_pretrained(os.path.join(home, "merged"), torch_dtype=torch.float32)
        adapted = PeftModel.from_pretrained(base, os.path.join(home, "ours"))
        save_file({"adapted": logits(adapted), "merged": logits(merged)}, os.path.join(home, "read.safetensors"))


if __name__ == "__main__":
    {"make": make, "read": read}[sys.argv[1]](sys.argv[2])
