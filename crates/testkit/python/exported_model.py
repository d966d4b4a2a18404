"""The mean loss that transformers has for a Hugging Face folder that tpubridge wrote.

    python exported_model.py FOLDER TEXT SEQUENCE WINDOWS

The text is taken byte by byte, in windows of so many tokens that do not overlap, each predicting one more. Prints the loss in nats.
"""
import sys

import torch
from transformers import AutoModelForCausalLM

folder, text, sequence, windows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
model, loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
assert not loaded["missing_keys"] and not loaded["unexpected_keys"], loaded
tokens = torch.tensor(list(open(text, "rb").read()))
rows = torch.stack([tokens[start:start + sequence + 1] for start in range(0, windows * sequence, sequence)])
with torch.no_grad():
    logits = model.eval()(rows[:, :-1]).logits.float()
print(torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), rows[:, 1:].reshape(-1)).item())
