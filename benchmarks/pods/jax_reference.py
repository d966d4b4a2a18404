"""The training step of each pod of examples/pods written in JAX: same mesh, shardings, remat, precision, optimizer and batch.

    python benchmarks/pods/jax_reference.py NAME SLICE FILE      # TPU: the `tpu` binary

Writes portable StableHLO bytecode. The decoder is the one of benchmarks/accuracy, with JAX's splash attention. Needs jax and libtpu.
"""

from __future__ import annotations

import math
import pathlib
import sys
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/accuracy"))

import export  # noqa: E402  sets JAX's environment before JAX is imported
import rows  # noqa: E402
import slices  # noqa: E402

# Names of our mesh axes where the decoder has others.
AXES = {"model": "tensor", "replica": "data"}

# Where the decoder's own rule, that of MaxText, differs: what is not an expert's stays whole along `expert`, norms and the
# hidden state along `tensor`.
SPLIT = {"embed": ("fsdp",), "embed_moe": ("fsdp",), "norm": (), "act_embed": ()}

# The sizes that a configuration of GPT-2 means where it names none.
GPT2 = {"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}

# The fastest of the Pallas kernel's blocks in benchmarks/kernels.
BLOCK = 1024


def model_of(config: dict[str, Any]) -> dict[str, Any]:
    """A Hugging Face configuration in the words of the decoder."""
    if config["model_type"] == "gpt2":
        config = GPT2 | config
        emb, heads = config["n_embd"], config["n_head"]
        return {
            **{"family": "gpt3", "emb": emb, "q_heads": heads, "kv_heads": heads, "head_dim": emb // heads, "mlp": 4 * emb},
            **{"layers": config["n_layer"], "vocab": config["vocab_size"], "positions": config["n_positions"]},
            **{"activations": ["gelu"], "tied": True, "attention_bias": True},
        }
    emb, heads, mlp = (config[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size"))
    model = {
        **{"emb": emb, "q_heads": heads, "kv_heads": config["num_key_value_heads"], "head_dim": emb // heads, "mlp": mlp},
        **{"layers": config["num_hidden_layers"], "vocab": config["vocab_size"], "activations": ["silu", "linear"]},
        **{"family": "llama2", "tied": config["tie_word_embeddings"]},
    }
    if config["model_type"] == "mixtral":
        experts = {"experts": config["num_local_experts"], "experts_per_token": config["num_experts_per_tok"]}
        model |= {"family": "mixtral", "moe_mlp": mlp, **experts}
    return model


def mesh_of(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes of the decoder's mesh axes inside a slice and between slices."""
    inside, between = dict.fromkeys(rows.AXES, 1), dict.fromkeys(rows.AXES, 1)
    for word in text.split(","):
        name, size = word.split("=")
        into = between if name.startswith("dcn:") else inside
        name = name.removeprefix("dcn:")
        into[AXES.get(name, name)] = int(size)
    return inside, between


def settings_of(config: dict[str, Any], tokens_per_shard: int) -> dict[str, Any]:
    """The decoder's settings for a pod: blocks of the kernel, pieces of the loss, capacity of the experts."""
    run = config["run"]
    blocks = {f"sa_block_{name}": BLOCK for name in ("q", "kv", "q_dkv", "kv_dkv")}
    blocks |= {f"sa_block_{name}": BLOCK // 2 for name in ("kv_compute", "kv_dkv_compute")}
    settings = {**blocks, "sa_use_fused_bwd_kernel": True, "split": SPLIT, "packed": False, "wide_ends": True}
    # The program numbers devices by their place in the mesh, so how the torus is cut does not change it.
    settings["allow_split_physical_axes"] = True
    if "loss_chunk_size" in run:
        settings |= {"recompute_logits": True, "num_vocab_tiling": math.ceil(tokens_per_shard / run["loss_chunk_size"])}
    if "experts" in run:
        settings |= {"sparse_matmul": False, "capacity_factor": run["experts"]["capacity"]}
    return settings


def remat_of(run: dict[str, Any]) -> rows.Remat:
    """What a configuration keeps: each layer's input, on the host where it says so."""
    match run.get("remat"):
        case {"offload": {"host": ["layer_input"]}}:
            return rows.Remat("custom", (), ("decoder_layer_input",))
        case _:
            return rows.Remat("full")


def run_of(name: str, slice_name: str) -> rows.Run:
    """The run that a pod's configuration describes."""
    config = tomllib.loads((ROOT / f"examples/pods/{name}.toml").read_text())
    count, _, one = slice_name.partition("x") if slice_name[0].isdigit() else ("1", "", slice_name)
    inside, between = mesh_of(config["mesh"]["axes"])
    batch, sequence = config["train"]["batch_size"], config["data"]["sequence_length"]
    shards = math.prod(inside[axis] * between[axis] for axis in ("data", "fsdp", "expert"))
    return rows.Run(
        *(name, {}, slices.describe(one, int(count)), name, model_of(config["model"]), batch, sequence, inside, between),
        *(remat_of(config["run"]), "none", settings_of(config, batch * sequence // shards), {}, None),
    )


def main() -> None:
    name, slice_name, out = sys.argv[1:]
    import program

    run = run_of(name, slice_name)
    lowered = program.lower(run, slices.topology_devices(run.slice))
    pathlib.Path(out).write_bytes(export.portable(lowered.lowered))
    print(f"{name}: {lowered.parameters} parameters, {'; '.join(run.approximations) or 'nothing approximated'}", file=sys.stderr)


if __name__ == "__main__":
    main()
