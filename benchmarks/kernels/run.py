"""Static cycles of flash attention: kernels of crates/kernel beside the Pallas kernels of the installed JAX.

    python benchmarks/kernels/run.py --tpu target/debug/tpu --kernel target/debug/examples/kernel
        [--only v5e,4096,ours-fwd] [--record FILE] [--out docs/kernel-cycles.md]

Nothing runs on a device: the TPU compiler simulates the code it generated (`--xla_jf_dump_static_llo_profile_to`). Needs
`TPUBRIDGE_LIBTPU` and a Python with JAX and libtpu. A simulation takes minutes at 8192 positions; `--record` keeps what is
finished, so that a second call goes on.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

# One head: cycles grow with heads evenly, and so does the time to count them.
HEADS, DEPTH, SCALE = 1, 128, 0.088
GENERATIONS = ["v5e", "v6e"]
LENGTHS = [4096, 8192]
# Largest blocks the Pallas kernels were fastest with among 512 and 1024; ours are the defaults of the crate.
PALLAS_BLOCK = 1024
KINDS = ["ours-fwd", "ours-bwd", "flash-fwd", "flash-bwd"]


def environment(folder):
    return dict(
        os.environ,
        TPU_SKIP_MDS_QUERY="1",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        JAX_PLATFORMS="cpu",
        TPU_LOG_DIR="disabled",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_ACCELERATOR_TYPE="v5litepod-4",
        LIBTPU_INIT_ARGS=f"--xla_jf_dump_static_llo_profile_to={folder}",
    )


def simulated(folder):
    """Cycles by name of the op."""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.textproto")):
        cycles = re.search(r"estimated_cycles: (\d+)", open(path).read())
        name = re.search(r'hlo_op_name: "([^"]*)"', open(path).read())
        if cycles and name:
            found[name.group(1)] = int(cycles.group(1))
    return found


def ours(options, generation, length, which):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "kernel.mlir")
        with open(program, "w") as out:
            subprocess.run([options.kernel, f"flash-{which}", generation, str(length)], stdout=out, check=True)
        env = dict(environment(folder), TPU_LIBRARY_PATH=os.environ["TPUBRIDGE_LIBTPU"])
        command = [options.tpu, "compile", program, "--slice", f"{generation}-1", "--no-cache"]
        command += ["--compilation-timeout-seconds", "7200"]
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        cycles = simulated(folder)
        return sum(cycles.values())


def pallas(generation, length, kind):
    """In a process of its own: flags of libtpu are read once."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--compile", kind, generation, str(length)]
        subprocess.run(command, env=environment(folder), check=True, stdout=subprocess.DEVNULL)
        cycles = simulated(folder)
        backward = kind.endswith("bwd")
        names = ("bwd", "dq", "dkv")
        chosen = {
            name: n
            for name, n in cycles.items()
            if ("flash" in name or "mha" in name) and any(part in name for part in names) == backward
        }
        return sum(chosen.values())


def compile_pallas(kind, generation, length):
    import jax
    import jax.numpy as jnp
    from jax.experimental import topologies
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    device = topologies.get_topology_desc(platform="tpu", topology_name=f"{generation}:2x2").devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    b = PALLAS_BLOCK
    sizes = flash.BlockSizes(
        block_q=b, block_k_major=b, block_k=b, block_b=1,
        block_q_major_dkv=b, block_k_major_dkv=b, block_k_dkv=b, block_q_dkv=b,
        block_k_major_dq=b, block_k_dq=b, block_q_dq=b,
    )
    attend = lambda q, k, v: flash.flash_attention(q, k, v, causal=True, sm_scale=SCALE, block_sizes=sizes)
    shape = (1, HEADS, length, DEPTH)
    function = attend
    if kind.endswith("bwd"):
        total = lambda q, k, v: attend(q, k, v).astype(jnp.float32).sum()
        function = jax.grad(total, argnums=(0, 1, 2))
    arguments = [jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)] * 3
    with jax.set_mesh(jax.sharding.Mesh([device], ("x",))):
        jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",)).compile()


def report(record, out):
    lines = [
        "# Static cycles of flash attention",
        "Cycles the TPU compiler (libtpu) counts for the code it generated, without a device; nothing here was measured on one.",
        "Causal, bf16, one head of 128, one sequence. Written by `benchmarks/kernels/run.py`.",
        f"`flash`: JAX's Pallas flash attention, blocks of {PALLAS_BLOCK}, its backward pass being two kernels.",
        "",
        "| pass | TPU | positions | ours | flash | ours / flash |",
        "|---|---|---|---|---|---|",
    ]
    for which in ["fwd", "bwd"]:
        for generation in GENERATIONS:
            for length in LENGTHS:
                cells = [record.get(f"{generation},{length},{kind}-{which}") for kind in ["ours", "flash"]]
                shown = [f"{n:,}" if n else "not counted" for n in cells]
                ratio = lambda n: f"{cells[0] / n:.2f}" if cells[0] and n else "-"
                name = {"fwd": "forward", "bwd": "backward"}[which]
                lines.append(f"| {name} | {generation} | {length} | {shown[0]} | {shown[1]} | {ratio(cells[1])} |")
    lines += [
        "",
        "JAX's splash attention cannot be counted this way: on v5e the simulation stops at the copies of its tables (`Unsupported DMA",
        "direction: 10`), on v6e it reads the tables as zeros and skips every block.",
    ]
    with open(out, "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    if sys.argv[1:2] == ["--compile"]:
        return compile_pallas(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--record", default="kernels.json")
    parser.add_argument("--out", default="docs/kernel-cycles.md")
    options = parser.parse_args()
    record = json.load(open(options.record)) if os.path.exists(options.record) else {}
    wanted = options.only or [f"{g},{n},{kind}" for n in LENGTHS for g in GENERATIONS for kind in KINDS]
    for key in wanted:
        if key in record:
            continue
        generation, length, kind = key.split(",")
        try:
            if kind.startswith("ours"):
                cycles = ours(options, generation, int(length), kind.removeprefix("ours-"))
            else:
                cycles = pallas(generation, int(length), kind)
        except subprocess.CalledProcessError as error:
            print(f"{key}: {error}", file=sys.stderr)
            continue
        print(f"{key}: {cycles}", flush=True)
        record[key] = cycles
        with open(options.record, "w") as file:
            json.dump(record, file, indent=1)
        report(record, options.out)
    report(record, options.out)


if __name__ == "__main__":
    main()
