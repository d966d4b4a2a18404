"""Static cycles of kernels of crates/kernel: flash attention and attention to pages beside the Pallas kernels of the installed JAX,
the loss and the norm by their blocks.

    python benchmarks/kernels/run.py --tpu target/debug/tpu --kernel target/debug/examples/kernel
        [--only v5e,4096,ours-fwd] [--only blocks] [--only paged] [--only grouped] [--only codes] [--record FILE] [--out docs/kernel-cycles.md]

Nothing runs on a device: the TPU compiler simulates the code it generated (`--xla_jf_dump_static_llo_profile_to`). Needs
`TPUBRIDGE_LIBTPU` and a Python with JAX and libtpu; for vLLM's kernel `TPU_INFERENCE`, the folder `tpu_inference` of that package.
A simulation takes minutes at 8192 positions; `--record` keeps what is finished, so that a second call goes on.
"""

import argparse
import base64
import functools
import glob
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

# One head: cycles grow with heads evenly, and so does the time to count them.
HEADS, DEPTH, SCALE = 1, 128, 0.088
GENERATIONS = ["v5e", "v6e"]
LENGTHS = [4096, 8192]
# Largest blocks the Pallas kernels were fastest with among 512 and 1024; ours are the defaults of the crate.
PALLAS_BLOCK = 1024
KINDS = ["ours-fwd", "ours-bwd", "flash-fwd", "flash-bwd"]
# Attention to pages, one token of each sequence: sequences, positions of each and of a page. Heads of Llama 3 8B.
PAGED = [(4, 2048, 128), (4, 2048, 256), (16, 1024, 128), (16, 1024, 256)]
KV_HEADS, GROUP = 8, 4
# Whose kernels are beside ours.
PEERS = ["jax", "vllm"]
# Other forms of pages: int8 codes with scales, and the latent vectors of DeepSeek 3, whose 128 heads share them, on one chip of eight and whole.
FORMS = {"int8": ("paged-int8", KV_HEADS, GROUP), "mla16": ("paged-mla", 1, 16), "mla128": ("paged-mla", 1, 128)}
FORM_SIZES = [(4, 2048, 256), (16, 1024, 256)]
# Kernels counted with several blocks: sizes as `examples/kernel` takes them, and blocks; the first are the defaults.
BLOCKS = {
    "loss-fwd": ("2048,2048,4096", ["1024,512", "2048,512", "512,512", "1024,256"]),
    "loss-bwd": ("1024,2048,2048", ["1024,256", "512,512", "512,256", "256,256"]),
    "norm-fwd": ("2048,4096", ["256", "128", "64"]),
    "norm-bwd": ("2048,4096", ["128", "64", "32"]),
}
# Grouped matmuls: type of the matrices; rows, inner size, columns, groups, rows expected in groups; tiles of the size that is usual in training.
GROUPED = [
    ("bf16", "4096,2048,7168,8,4096", "512,1024,1024"),
    ("bf16", "4096,4096,1536,64,4096", "512,1024,768"),
    ("bf16", "2048,2048,768,16,2048", "512,1024,768"),
    ("i8", "512,6144,2560,20,64", "512,1024,640"),
    ("f8E4M3FN", "512,6144,2560,20,64", "512,1024,640"),
]
# Experts of Qwen3 Coder 480B on one device of eight, 64 sequences in decode: types of rows and matrices, and generations that multiply the last one
# as it is. Beside rows in bf16 the matrices are widened.
CODES = [("f8E4M3FN", ["tpu7x"]), ("i8", ["v5e", "v5p", "v6e"])]
CODES_SIZES = ["512,6144,2560,20,64", "512,2560,6144,20,64"]
# Of `tpu chips`: bytes that HBM brings to a device in a cycle.
HBM_BYTES_PER_CYCLE = {"v5e": 819 / 1.5, "v5p": 2765 / 1.75, "v6e": 1640 / 1.75, "tpu7x": 3690 / 2.2}
CODES_KINDS = {"widened": "{0}", "codes": "{0}.{0}"}
# With twice the vocabulary: the difference is free of what a kernel loads before its first step and stores after its last.
LONGER = {"loss-fwd": "2048,2048,8192", "loss-bwd": "1024,2048,4096"}
# The matmul of the loss by itself, as the compiler writes it.
MATMUL = """func.func @main(%x: tensor<2048x2048xbf16>, %w: tensor<4096x2048xbf16>) -> tensor<4096x2048xf32> {
  %y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [1] : (tensor<4096x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<4096x2048xf32>
  return %y : tensor<4096x2048xf32>
}
"""


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


def counted(options, generation, text):
    """Cycles of a program's ops, but for copies of what is given back in place."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "kernel.mlir")
        with open(program, "w") as out:
            out.write(text)
        env = dict(environment(folder), TPU_LIBRARY_PATH=os.environ["TPUBRIDGE_LIBTPU"])
        # The smallest slice; some are named by their cores.
        smallest = {"v5p": 8, "tpu7x": 2}.get(generation, 1)
        command = [options.tpu, "compile", program, "--slice", f"{generation}-{smallest}", "--no-cache"]
        command += ["--compilation-timeout-seconds", "7200"]
        # Where the profile itself finds no room the compilation ends with an error, the cycles being counted already.
        failed = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode
        cycles = sum(n for name, n in simulated(folder).items() if not name.startswith("copy"))
        if not cycles:
            raise subprocess.CalledProcessError(failed, command)
        return cycles


def printed(options, *arguments):
    return subprocess.run([options.kernel, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout


def ours(options, generation, length, which):
    return counted(options, generation, printed(options, f"flash-{which}", generation, str(length)))


def rewritten(text, change):
    """A program whose kernel has another text."""
    body = re.search(r"body\\22: \\22([A-Za-z0-9+/=]+)\\22", text).group(1)
    kernel = change(base64.b64decode(body).decode())
    return text.replace(body, base64.b64encode(kernel.encode()).decode())


def with_constants(text, values):
    """Our kernel with numbers in the place of what it reads from tables: the simulation has no data, and reads zeros."""

    def change(kernel):
        for memory, value in enumerate(values):
            kernel = re.sub(rf"(%\w+) = memref\.load %memory{memory}\[[^\n]*", rf"\1 = arith.constant {value} : i32", kernel)
        return kernel

    return rewritten(text, change)


def paged(options, generation, sizes, kind):
    """Cycles of attention to pages; every sequence has all of its positions."""
    sequences, positions, page = sizes
    if kind not in PEERS:
        name, heads, group = FORMS.get(kind, ("paged", KV_HEADS, GROUP))
        given = f"{sequences},{heads},{group},1,{positions // page},{page}"
        # The layer, a page, positions filled, and tokens.
        return counted(options, generation, with_constants(printed(options, name, generation, given), [0, 0, positions - 1, 1]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--compile", f"paged-{kind}", generation, ",".join(map(str, sizes))]
        subprocess.run(command, env=environment(folder), check=True, stdout=subprocess.DEVNULL)
        cycles = sum(n for name, n in simulated(folder).items() if "paged" in name)
        if not cycles:
            raise subprocess.CalledProcessError(0, command)
        return cycles


def tables(sizes, tile, is_expected):
    """Group and tile of an entry of the tables of visits, as code. Every entry is a group of its own, in order, and after the last group that one
    again, which is the worst case; or entries are those of the rows that are expected, one for each group and tile, and the others have no group."""
    rows, _, _, groups, expected = map(int, sizes.split(","))
    in_rows = rows // tile
    at = "\\1.at = arith.index_cast \\2 : index to i32\n"
    number = lambda name, value: f"\\1.{name} = arith.constant {value} : i32\n"
    group = at + number("most", groups - 1) + "\\1{0} = arith.minsi \\1.at, \\1.most : i32"
    tile = at + number("n", "{1}") + "\\1.m = arith.muli \\1.at, \\1.n : i32\n" + number("all", "{2}")
    tile += "\\1{0} = arith.divsi \\1.m, \\1.all : i32"
    if not is_expected:
        return [group.format(""), tile.format("", in_rows, in_rows + groups)]
    of_rows = -(-expected // (rows // in_rows))
    visits = of_rows + groups - 1
    chosen = "\n" + number("visits", visits) + "\\1.is = arith.cmpi slt, \\1.at, \\1.visits : i32\n"
    chosen += "\\1 = arith.select \\1.is, \\1.own, \\1.other : i32"
    later = "\n" + number("skipped", visits - of_rows) + "\\1.past = arith.subi \\1.at, \\1.skipped : i32\n" + number("end", in_rows - 1)
    later += "\\1.other = arith.minsi \\1.past, \\1.end : i32"
    none = "\n" + number("other", groups).rstrip("\n")
    return [group.format(".own") + none + chosen, tile.format(".own", of_rows, visits) + later + chosen]


def grouped(options, generation, dtype, sizes, tiles, is_expected=False):
    """Cycles of a grouped matmul and its tiles; `None`: the crate's own."""
    given = [options.kernel, f"grouped-{dtype}", generation, sizes, *([tiles] if tiles else [])]
    done = subprocess.run(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, text=True)
    tiles = ",".join(re.findall(r"\d+", done.stderr))
    code = tables(sizes, int(tiles.split(",")[0]), is_expected)

    def change(kernel):
        for memory, value in enumerate(code):
            kernel = re.sub(rf"(%\w+) = memref\.load %memory{memory}\[([^\]]*)\][^\n]*", value, kernel)
        return kernel

    return counted(options, generation, rewritten(done.stdout, change)), tiles


class Known:
    """What a kernel reads from a table, as constants."""

    def __init__(self, table, value):
        self.shape, self.value = table.shape, value

    def __getitem__(self, at):
        import jax.numpy as jnp

        return jnp.asarray(self.value(at), jnp.int32)


def paged_peer(name):
    """The module of a peer's kernel; of vLLM's package only what the kernel needs, since the rest wants TPUs and PyTorch."""
    if name == "jax":
        return importlib.import_module("jax.experimental.pallas.ops.tpu.ragged_paged_attention.kernel")
    folder = pathlib.Path(os.environ["TPU_INFERENCE"])
    parts = ["tpu_inference", "kernels", "ragged_paged_attention", "v2"]
    for n in range(len(parts)):
        package = types.ModuleType(".".join(parts[: n + 1]))
        package.__path__ = [str(folder.joinpath(*parts[1 : n + 1]))]
        sys.modules[package.__name__] = package
    return importlib.import_module(".".join([*parts, "kernel"]))


def compile_paged(generation, sizes, peer):
    """A peer's kernel with its own blocks for these sizes."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import topologies
    from jax.experimental.pallas.ops.tpu.ragged_paged_attention import tuned_block_sizes

    kernel = paged_peer(peer)
    sequences, positions, page = map(int, sizes.split(","))
    version = {"v5e": 5, "v6e": 6}[generation]
    tuned_block_sizes.get_tpu_version = lambda: version
    tuned_block_sizes.get_device_name = lambda num_devices=None: f"TPU v{version}"
    plain = kernel.ragged_paged_attention_kernel

    def known(kv_lens, pages, cu_q_lens, buffers, num_seqs, *rest, **options):
        kv_lens, pages = Known(kv_lens, lambda at: positions), Known(pages, lambda at: 0)
        cu_q_lens, num_seqs = Known(cu_q_lens, lambda at: at), Known(num_seqs, lambda at: sequences)
        return plain(kv_lens, pages, cu_q_lens, buffers, num_seqs, *rest, **options)

    kernel.ragged_paged_attention_kernel = known
    device = topologies.get_topology_desc(platform="tpu", topology_name=f"{generation}:2x2").devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    of = lambda dtype, *dims: jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)
    count = positions // page
    arguments = [
        of(jnp.bfloat16, sequences, KV_HEADS * GROUP, DEPTH),
        of(jnp.bfloat16, sequences * count, page, 2 * KV_HEADS, DEPTH),
        of(jnp.int32, sequences),
        of(jnp.int32, sequences, count),
        of(jnp.int32, sequences + 1),
        of(jnp.int32, 1),
    ]
    attend = functools.partial(kernel.ragged_paged_attention, sm_scale=SCALE, vmem_limit_bytes=64 << 20)
    with jax.set_mesh(jax.sharding.Mesh([device], ("x",))):
        jax.jit(attend).trace(*arguments).lower(lowering_platforms=("tpu",)).compile()


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
        "# Static cycles of kernels",
        "Cycles the TPU compiler (libtpu) counts for the code it generated, without a device; nothing here was measured on one.",
        "Written by `benchmarks/kernels/run.py`.",
        "",
        "## Flash attention",
        "Causal, bf16, one head of 128, one sequence.",
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
        "",
        "## Attention to pages",
        f"bf16, {KV_HEADS} KV heads of {DEPTH} with {GROUP} heads each, one token of each sequence (decode), all sequences of one length.",
        "`ragged`: JAX's ragged paged attention with the blocks that it has for these sizes; `vLLM`: the second version of its kernel (tpu-inference 0.32.0),",
        "which takes the same blocks. Lengths and numbers of pages are constants in the code that is counted, ours and theirs: the simulation has no data. On",
        "v5e it counts nothing of theirs. vLLM's third version, which also writes the cache, compiles, but the simulation stops: on v6e at additions of",
        "16 bits, on v5e at its copies.",
        "",
        "| TPU | sequences | positions | page | ours | ragged | vLLM | ours / ragged | ours / vLLM |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for generation in GENERATIONS:
        for sizes in PAGED:
            cells = [record.get(f"{generation},{'x'.join(map(str, sizes))},paged-{kind}") for kind in ["ours", *PEERS]]
            shown = [f"{n:,}" if n else "not counted" for n in cells]
            shown += [f"{cells[0] / n:.2f}" if cells[0] and n else "-" for n in cells[1:]]
            lines.append(f"| {generation} | " + " | ".join(map(str, sizes)) + " | " + " | ".join(shown) + " |")
    lines += [
        "",
        "Other forms of pages, by our kernel: `int8` is a KV cache of codes with a scale for each head and position; `MLA` the latent vectors of DeepSeek 3,",
        "512 features and 64 rotary ones, which all heads of queries share. The installed JAX has no kernel for MLA.",
        "",
        "| form | heads of queries | sequences | positions | page | " + " | ".join(GENERATIONS) + " |",
        "|---|---|---|---|---|" + "---|" * len(GENERATIONS),
    ]
    for kind, (name, heads, group) in FORMS.items():
        for sizes in FORM_SIZES:
            cells = [record.get(f"{generation},{'x'.join(map(str, sizes))},paged-{kind}") for generation in GENERATIONS]
            shown = " | ".join(f"{n:,}" if n else "not counted" for n in cells)
            form = "MLA" if heads == 1 else "int8"
            lines.append(f"| {form} | {heads * group} | " + " | ".join(map(str, sizes)) + f" | {shown} |")
    lines += [
        "",
        "## Tiles of grouped matmuls",
        "Rows in bf16. Sizes: rows, inner size, columns, groups, and rows that groups have together. Tiles: rows, inner size, columns. Those of 512 rows were used",
        "for all sizes before; the crate's own depend on rows and groups. The tables of visits are constants: every entry multiplies, each a group of its own while",
        "there are groups, which is the worst case.",
        "",
        "| matrices | sizes | TPU | tiles of 512 | cycles | own tiles | cycles | own / 512 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for dtype, sizes, usual in GROUPED:
        for generation in GENERATIONS:
            both = [record.get(f"{generation},{sizes.replace(',', 'x')},grouped-{dtype}-{which}") for which in ["usual", "own"]]
            shown = [f"{tiles} | {n:,}" if n else "- | not counted" for n, tiles in [cell or (None, None) for cell in both]]
            ratio = f"{both[1][0] / both[0][0]:.2f}" if all(both) else "-"
            lines.append(f"| {dtype} | {sizes} | {generation} | {shown[0]} | {shown[1]} | {ratio} |")
    lines += [
        "",
        "## Grouped matmuls of codes",
        "Experts of Qwen3 Coder 480B, 20 on a device, 64 sequences in decode: 512 rows at most, 64 expected. Entries of the tables of visits are those of",
        "the expected rows, the others have no group. `widened`: rows in bf16, matrices widened in VMEM. `codes`: rows in the type of the matrices, which",
        "are multiplied as they are, and a scale for each column. `HBM`: cycles in which HBM brings the matrices at its full rate, over those of `codes`. The",
        "simulation does not wait for HBM as long: above 1 a device waits for HBM, not for the kernel.",
        "",
        "| matrices | TPU | sizes | tiles | widened | tiles | codes | codes / widened | HBM |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for dtype, generations in CODES:
        for generation in generations:
            for sizes in CODES_SIZES:
                both = [record.get(f"{generation},{sizes.replace(',', 'x')},grouped-{dtype}-{kind}") for kind in CODES_KINDS]
                shown = " | ".join(f"{tiles} | {n:,}" if n else "- | not counted" for n, tiles in [cell or (None, None) for cell in both])
                ratio = f"{both[1][0] / both[0][0]:.2f}" if all(both) else "-"
                _, inner, columns, groups, _ = map(int, sizes.split(","))
                hbm = inner * columns * groups / HBM_BYTES_PER_CYCLE[generation]
                hbm = f"{hbm / both[1][0]:.2f}" if both[1] else "-"
                lines.append(f"| {dtype} | {generation} | {sizes} | {shown} | {ratio} | {hbm} |")
    lines += [
        "",
        "## Blocks of the loss and the norm",
        "bf16, weights of norms f32. Sizes: rows, depth and vocabulary of the loss; rows and size of the norm. Blocks: rows and vocabulary;",
        "rows. The backward pass of the loss gives both gradients, three matmuls. Those in bold are the crate's own.",
        "",
        "| kernel | sizes | blocks | " + " | ".join(GENERATIONS) + " |",
        "|---|---|---|" + "---|" * len(GENERATIONS),
    ]
    of = lambda generation, kind, blocks: record.get(f"{generation},{kind},{blocks.replace(',', 'x')}")
    cell = lambda n: f"{n:,}" if n else "not counted"
    for kind, (sizes, choices) in BLOCKS.items():
        for blocks in choices:
            cells = [cell(of(generation, kind, blocks)) for generation in GENERATIONS]
            shown = f"**{blocks}**" if blocks == choices[0] else blocks
            lines.append(f"| {kind} | {sizes} | {shown} | " + " | ".join(cells) + " |")
    matmuls = [of(generation, "matmul", "-") for generation in GENERATIONS]
    lines.append("| the matmul alone | 2048,2048,4096 | the compiler's | " + " | ".join(map(cell, matmuls)) + " |")
    shares = []
    for generation, matmul in zip(GENERATIONS, matmuls):
        passes = {kind: (of(generation, kind, BLOCKS[kind][1][0]), of(generation, kind, "longer")) for kind in LONGER}
        if matmul and all(all(pair) for pair in passes.values()):
            more = {kind: longer - short for kind, (short, longer) in passes.items()}
            # The backward pass has three matmuls of a quarter of the size.
            forward, backward = matmul / more["loss-fwd"], 0.75 * matmul / more["loss-bwd"]
            shares.append(f"{generation}: {forward:.2f} forward, {backward:.2f} backward")
    share = "Share of the rate of the matmul alone that the loss reaches, by the extra cycles of twice the vocabulary: "
    lines += ["", share + "; ".join(shares) + "."]
    with open(out, "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    if sys.argv[1:2] == ["--compile"]:
        if sys.argv[2].startswith("paged-"):
            return compile_paged(sys.argv[3], sys.argv[4], sys.argv[2].removeprefix("paged-"))
        return compile_pallas(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--record", default="kernels.json")
    parser.add_argument("--out", default="docs/kernel-cycles.md")
    options = parser.parse_args()
    record = json.load(open(options.record)) if os.path.exists(options.record) else {}
    attention = [f"{g},{n},{kind}" for n in LENGTHS for g in GENERATIONS for kind in KINDS]
    blocks = [f"{g},{kind},{b.replace(',', 'x')}" for kind, (_, all) in BLOCKS.items() for b in all for g in GENERATIONS]
    blocks += [f"{g},matmul,-" for g in GENERATIONS]
    blocks += [f"{g},{kind},longer" for kind in LONGER for g in GENERATIONS]
    pages = [f"{g},{'x'.join(map(str, sizes))},paged-{kind}" for g in GENERATIONS for sizes in PAGED for kind in ["ours", *PEERS]]
    pages += [f"{g},{'x'.join(map(str, sizes))},paged-{kind}" for g in GENERATIONS for kind in FORMS for sizes in FORM_SIZES]
    matmuls = [f"{g},{s.replace(',', 'x')},grouped-{t}-{which}" for t, s, _ in GROUPED for g in GENERATIONS for which in ["usual", "own"]]
    codes = [f"{g},{s.replace(',', 'x')},grouped-{t}-{kind}" for t, all in CODES for g in all for s in CODES_SIZES for kind in CODES_KINDS]
    groups = {"blocks": blocks, "paged": pages, "grouped": matmuls, "codes": codes}
    wanted = options.only or attention + ["paged", "grouped", "codes", "blocks"]
    for key in [key for given in wanted for key in groups.get(given, [given])]:
        if key in record:
            continue
        generation, length, kind = key.split(",")
        try:
            if kind.startswith("paged-"):
                cycles = paged(options, generation, tuple(map(int, length.split("x"))), kind.removeprefix("paged-"))
            elif kind.startswith("grouped-"):
                _, dtype, which = kind.split("-")
                sizes = length.replace("x", ",")
                usual = {(t, s): tiles for t, s, tiles in GROUPED}.get((dtype, sizes))
                types = CODES_KINDS.get(which, "{0}").format(dtype)
                cycles = grouped(options, generation, types, sizes, usual if which == "usual" else None, which in CODES_KINDS)
            elif length == "matmul":
                cycles = counted(options, generation, MATMUL)
            elif length in BLOCKS:
                is_longer = kind == "longer"
                sizes = LONGER[length] if is_longer else BLOCKS[length][0]
                chosen = BLOCKS[length][1][0] if is_longer else kind.replace("x", ",")
                cycles = counted(options, generation, printed(options, length, generation, sizes, chosen))
            elif kind.startswith("ours"):
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
