"""Forms of a matmul with a quantized weight, and of a KV cache, as the TPU compiler makes them: cycles and HBM, beside JAX with qwix.

    python benchmarks/quant/tpu_forms.py --tpu target/debug/tpu --kernel target/debug/examples/kernel
        [--peer-python PYTHON] [--only v5e] [--record FILE] [--out benchmarks/results/quant-tpu.md]

Nothing runs on a device. `w` is the price the compiler gives a fusion, `s` the cycles it counts in the code it generated
(`--xla_jf_dump_static_llo_profile_to`), without waiting for HBM where operands were fetched ahead. Needs `TPUBRIDGE_LIBTPU`; the
peer needs a Python with JAX, libtpu and qwix. `--record` keeps what is finished, so that a second call goes on.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

SLICES = {"v5e": "v5e-1", "v5p": "v5p-8", "v6e": "v6e-1", "7x": "tpu7x-2"}
TOPOLOGIES = {"v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "7x": "tpu7x:2x2x1"}
KERNEL_NAMES = {"v5e": "v5e", "v5p": "v5p", "v6e": "v6e", "7x": "tpu7x"}
SHAPES = [(8, 4096, 4096), (8, 8192, 28672)]
GROUP = 128
# Sequences, KV heads, queries of a head, positions, head size.
CACHE = (8, 8, 4, 4096, 128)


def tensor(dims, dtype):
    return "tensor<" + "".join(f"{d}x" for d in dims) + dtype + ">"


def dot(x, w, m, k, n, out):
    a, b, c = tensor((m, k), x), tensor((k, n), w), tensor((m, n), out)
    return f"  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({a}, {b}) -> {c}\n"


def scaled(m, k, n, codes):
    """The dot of codes, then a scale for each column."""
    f = tensor((m, n), "f32")
    args = f"%x: {tensor((m, k), 'bf16')}, %w: {tensor((k, n), codes)}, %s: {tensor((n,), 'f32')}"
    body = dot("bf16", codes, m, k, n, "f32")
    body += f"  %b = stablehlo.broadcast_in_dim %s, dims = [1] : ({tensor((n,), 'f32')}) -> {f}\n  %o = stablehlo.multiply %y, %b : {f}\n"
    return args, body, f


def dense(m, k, n):
    args = f"%x: {tensor((m, k), 'bf16')}, %w: {tensor((k, n), 'bf16')}"
    f = tensor((m, n), "f32")
    return args, dot("bf16", "bf16", m, k, n, "f32").replace("%y", "%o"), f


def activations(m, k, n, codes, most):
    """Rows of activations in the type of the weight, with a scale each, found as the program runs."""
    x, f, row = tensor((m, k), "bf16"), tensor((m, k), "f32"), tensor((m,), "f32")
    out = tensor((m, n), "f32")
    sums = "f32" if codes.startswith("f") else "i32"
    rounded = "" if codes.startswith("f") else f"  %r = stablehlo.round_nearest_even %q : {f}\n"
    last = "%q" if codes.startswith("f") else "%r"
    a, b, c = tensor((m, k), codes), tensor((k, n), codes), tensor((m, n), sums)
    args = f"%x: {x}, %w: {b}, %s: {tensor((n,), 'f32')}"
    body = f"""  %f = stablehlo.convert %x : ({x}) -> {f}
  %abs = stablehlo.abs %f : {f}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %max = stablehlo.reduce(%abs init: %zero) applies stablehlo.maximum across dimensions = [1] : ({f}, tensor<f32>) -> {row}
  %most = stablehlo.constant dense<{most}> : {row}
  %scale = stablehlo.divide %max, %most : {row}
  %wide = stablehlo.broadcast_in_dim %scale, dims = [0] : ({row}) -> {f}
  %q = stablehlo.divide %f, %wide : {f}
{rounded}  %codes = stablehlo.convert {last} : ({f}) -> {a}
  %y = stablehlo.dot_general %codes, %w, contracting_dims = [1] x [0] : ({a}, {b}) -> {c}
  %d = stablehlo.convert %y : ({c}) -> {out}
  %b = stablehlo.broadcast_in_dim %s, dims = [1] : ({tensor((n,), 'f32')}) -> {out}
  %of_rows = stablehlo.broadcast_in_dim %scale, dims = [0] : ({row}) -> {out}
  %e = stablehlo.multiply %d, %b : {out}
  %o = stablehlo.multiply %e, %of_rows : {out}
"""
    return args, body, out


def partial_sums(m, k, n, codes):
    g = k // GROUP
    x, xs = tensor((m, k), "bf16"), tensor((m, g, GROUP), "bf16")
    w, ws = tensor((k, n), codes), tensor((g, GROUP, n), codes)
    s, parts, out = tensor((g, n), "f32"), tensor((g, m, n), "f32"), tensor((m, n), "f32")
    body = f"""  %xs = stablehlo.reshape %x : ({x}) -> {xs}
  %ws = stablehlo.reshape %w : ({w}) -> {ws}
  %y = stablehlo.dot_general %xs, %ws, batching_dims = [1] x [0], contracting_dims = [2] x [1] : ({xs}, {ws}) -> {parts}
  %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : ({s}) -> {parts}
  %p = stablehlo.multiply %y, %b : {parts}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %o = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : ({parts}, tensor<f32>) -> {out}
"""
    return f"%x: {x}, %w: {w}, %s: {s}", body, out


def dequantized(m, k, n, codes):
    g = k // GROUP
    x, w, s = tensor((m, k), "bf16"), tensor((k, n), codes), tensor((g, n), "f32")
    wide, apart = tensor((k, n), "f32"), tensor((g, GROUP, n), "f32")
    narrow, out = tensor((k, n), "bf16"), tensor((m, n), "f32")
    body = f"""  %f = stablehlo.convert %w : ({w}) -> {wide}
  %a = stablehlo.reshape %f : ({wide}) -> {apart}
  %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : ({s}) -> {apart}
  %p = stablehlo.multiply %a, %b : {apart}
  %r = stablehlo.reshape %p : ({apart}) -> {wide}
  %n = stablehlo.convert %r : ({wide}) -> {narrow}
  %o = stablehlo.dot_general %x, %n, contracting_dims = [1] x [0] : ({x}, {narrow}) -> {out}
"""
    return f"%x: {x}, %w: {w}, %s: {s}", body, out


def attention(codes, is_folded):
    """One query of each head against all positions."""
    b, h, q, s, d = CACHE
    x, kv, sc = tensor((b, h, q, d), "bf16"), tensor((b, h, s, d), codes), tensor((b, h, s), "f32")
    p, pb, out = tensor((b, h, q, s), "f32"), tensor((b, h, q, s), "bf16"), tensor((b, h, q, d), "f32")
    red = tensor((b, h, q), "f32")
    kf, kb = tensor((b, h, s, d), "f32"), tensor((b, h, s, d), "bf16")
    is_plain = codes == "bf16"
    args = f"%q: {x}, %k: {kv}, %v: {kv}" + ("" if is_plain else f", %ks: {sc}, %vs: {sc}")
    body, k, v, of = "", "%k", "%v", kv
    if not is_plain and not is_folded:
        of = kb
        for name, scale in (("k", "ks"), ("v", "vs")):
            body += f"""  %{name}1 = stablehlo.convert %{name} : ({kv}) -> {kf}
  %{name}2 = stablehlo.broadcast_in_dim %{scale}, dims = [0, 1, 2] : ({sc}) -> {kf}
  %{name}3 = stablehlo.multiply %{name}1, %{name}2 : {kf}
  %{name}4 = stablehlo.convert %{name}3 : ({kf}) -> {kb}
"""
        k, v = "%k4", "%v4"
    body += f"  %s0 = stablehlo.dot_general %q, {k}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({x}, {of}) -> {p}\n"
    scores, probs = "%s0", "%n"
    if is_folded:
        body += f"  %f0 = stablehlo.broadcast_in_dim %ks, dims = [0, 1, 3] : ({sc}) -> {p}\n  %s1 = stablehlo.multiply %s0, %f0 : {p}\n"
        scores = "%s1"
    body += f"""  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %max = stablehlo.reduce({scores} init: %low) applies stablehlo.maximum across dimensions = [3] : ({p}, tensor<f32>) -> {red}
  %mb = stablehlo.broadcast_in_dim %max, dims = [0, 1, 2] : ({red}) -> {p}
  %t = stablehlo.subtract {scores}, %mb : {p}
  %e = stablehlo.exponential %t : {p}
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : ({p}, tensor<f32>) -> {red}
  %sb = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2] : ({red}) -> {p}
  %n = stablehlo.divide %e, %sb : {p}
"""
    if is_folded:
        body += f"  %f1 = stablehlo.broadcast_in_dim %vs, dims = [0, 1, 3] : ({sc}) -> {p}\n  %n1 = stablehlo.multiply %n, %f1 : {p}\n"
        probs = "%n1"
    body += f"""  %pb = stablehlo.convert {probs} : ({p}) -> {pb}
  %o = stablehlo.dot_general %pb, {v}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : ({pb}, {of}) -> {out}
"""
    return args, body, out


MATMULS = {
    "bf16": lambda *shape: dense(*shape),
    "i8, scale after dot": lambda *shape: scaled(*shape, "i8"),
    "i4, scale after dot": lambda *shape: scaled(*shape, "i4"),
    "fp8 e4m3, scale after dot": lambda *shape: scaled(*shape, "f8E4M3FN"),
    "fp4, scale after dot": lambda *shape: scaled(*shape, "f4E2M1FN"),
    "W8A8 int8": lambda *shape: activations(*shape, "i8", 127.0),
    "W8A8 fp8": lambda *shape: activations(*shape, "f8E4M3FN", 448.0),
    "i8 group 128, partial sums": lambda *shape: partial_sums(*shape, "i8"),
    "i4 group 128, partial sums": lambda *shape: partial_sums(*shape, "i4"),
    "i4 group 128, kernel": "i4",
    "i8 group 128, kernel": "i8",
    "fp8 group 128, kernel": "f8E4M3FN",
    "i4 group 128, dequantize": lambda *shape: dequantized(*shape, "i4"),
}
CACHES = {
    "bf16": ("bf16", False),
    "i8, scales folded": ("i8", True),
    "fp8, scales folded": ("f8E4M3FN", True),
    "i4, scales folded": ("i4", True),
    "i8, dequantized": ("i8", False),
}
# Forms of the larger shape.
LARGE = ["bf16", "i8, scale after dot", "i4, scale after dot", "i4 group 128, partial sums", "i4 group 128, kernel", "i4 group 128, dequantize"]
# The same by qwix: type of weights, type of activations, tile.
PEERS = {
    "i8, scale after dot": ("int8", None, None),
    "i4, scale after dot": ("int4", None, None),
    "fp8 e4m3, scale after dot": ("float8_e4m3fn", None, None),
    "W8A8 int8": ("int8", "int8", None),
    "W8A8 fp8": ("float8_e4m3fn", "float8_e4m3fn", None),
    "i4 group 128, partial sums": ("int4", None, GROUP),
}
# KV caches by qwix: the type of keys and values, with a scale for each head and position.
CACHE_PEERS = {"i8, scales folded": "int8", "fp8, scales folded": "float8_e4m3fn", "i4, scales folded": "int4"}


def environment(folder):
    flags = f"--xla_jf_dump_static_llo_profile_to={folder}" if folder else ""
    return dict(
        os.environ,
        TPU_SKIP_MDS_QUERY="1",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        JAX_PLATFORMS="cpu",
        TPU_LOG_DIR="disabled",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_ACCELERATOR_TYPE="v5litepod-4",
        TPU_LIBRARY_PATH=os.environ["TPUBRIDGE_LIBTPU"],
        LIBTPU_INIT_ARGS=flags,
    )


def cycles_of(folder):
    """Cycles of each op that was counted."""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.textproto")):
        text = open(path).read()
        cycles, name = re.search(r"estimated_cycles: (\d+)", text), re.search(r'hlo_op_name: "([^"]*)"', text)
        if cycles and name:
            found[name.group(1)] = int(cycles.group(1))
    return found


def simulated(cycles, ops):
    """Cycles of a program, copies to fast memory not counted; none where an op was not counted, on which counting ended."""
    return sum(cycles[op] for op in ops) if ops and all(op in cycles for op in ops) else None


def ops_of(hlo):
    """Names of the ops of a program that compute."""
    kinds = "fusion|custom-call|convolution|dot|reduce|reduce-window|convert|transpose|multiply|add"
    return re.findall(rf"^\s+(?:ROOT )?%?([\w.\-]+) = [^=]*? (?:{kinds})\(", entry_of(hlo), re.MULTILINE)


def entry_of(hlo):
    return hlo[hlo.index("\nENTRY") if "\nENTRY" in hlo else 0 :]


def read_hlo(hlo, weight):
    """The compiler's price, and whether an op writes the weight in a wider type."""
    entry = entry_of(hlo)
    # Not the counted cycles, which stand beside it where there are any.
    priced = sum(int(n) for n in re.findall(r'"window_config":\{[^{}]*"estimated_cycles":"(\d+)"', entry))
    elements = lambda dims: eval(dims.replace(",", "*") or "1")
    made = re.findall(r"= (?:\()?(bf16|f32)\[([\d,]+)\]\S* (?!parameter)", entry)
    wide = any(elements(dims) == weight for _, dims in made) if weight else False
    return priced, wide


def ours(options, generation, text, weight):
    """Compiled once with the cycles counted and once for its memory; a third time where counting does not end well."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "form.mlir")
        open(program, "w").write(text)
        command = [options.tpu, "compile", program, "--slice", SLICES[generation], "--no-cache", "--compilation-timeout-seconds", "400"]
        run = lambda env, *more: subprocess.run(command + list(more), env=env, capture_output=True, text=True)
        hlo = run(environment(folder), "--emit", "hlo")
        plain = environment("")
        if hlo.returncode:
            hlo = run(plain, "--emit", "hlo")
        found["s"] = simulated(cycles_of(folder), ops_of(hlo.stdout))
        report = run(plain, "--json")
        if report.returncode or hlo.returncode:
            print(report.stderr[-400:], hlo.stderr[-400:], file=sys.stderr)
            return found
        memory = json.loads(report.stdout)["report"]["memory"]
        found["w"], found["wide"] = read_hlo(hlo.stdout, weight)
        found["temporaries"] = memory["temporaries"]
        found["moved"] = memory["arguments"] + memory["outputs"] + 2 * memory["temporaries"]
    return found


def peer(options, generation, form, shape):
    command = [options.peer_python, __file__, "--compile", form, generation, *map(str, shape)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, env=environment(folder), capture_output=True, text=True)
        cycles = cycles_of(folder)
    done = subprocess.run(command, env=environment(""), capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-600:], file=sys.stderr)
        return {}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {"s": simulated(cycles, found.pop("ops")), **found}


def compile_peer(form, generation, m, k, n):
    import jax.numpy as jnp
    import qwix

    weights, activations, tile = PEERS[form]
    groups = k // tile if tile else 1

    def multiply(x, codes, scales):
        weight = qwix.QArray(codes, scales)
        if activations:
            x = qwix.quantize(x, activations, channelwise_axes=[0])
        return qwix.dot_general(x, weight, (((1,), (0,)), ((), ())))

    compile_jax(generation, multiply, [((m, k), jnp.bfloat16), ((k, n), jnp.dtype(weights)), ((groups, n), jnp.float32)], k * n)


def compile_cache_peer(form, generation):
    import jax
    import jax.numpy as jnp
    import qwix

    b, h, q, s, d = CACHE

    def attend(x, keys, values, key_scales, value_scales):
        batch = ((0, 1), (0, 1))
        scores = qwix.dot_general(x, qwix.QArray(keys, key_scales), (((3,), (3,)), batch), preferred_element_type=jnp.float32)
        probabilities = jax.nn.softmax(scores, axis=-1).astype(jnp.bfloat16)
        return qwix.dot_general(probabilities, qwix.QArray(values, value_scales), (((3,), (2,)), batch), preferred_element_type=jnp.float32)

    codes, scales = ((b, h, s, d), jnp.dtype(CACHE_PEERS[form])), ((b, h, s, 1), jnp.float32)
    compile_jax(generation, attend, [((b, h, q, d), jnp.bfloat16), codes, codes, scales, scales], b * h * s * d)


def compile_jax(generation, function, operands, weight):
    import jax
    from jax.experimental import topologies

    device = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[generation]).devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    specs = [jax.ShapeDtypeStruct(dims, dtype, sharding=sharding) for dims, dtype in operands]
    compiled = jax.jit(function).trace(*specs).lower(lowering_platforms=("tpu",)).compile()
    text = compiled.as_text()
    priced, wide = read_hlo(text, weight)
    memory = compiled.memory_analysis()
    moved = memory.argument_size_in_bytes + memory.output_size_in_bytes + 2 * memory.temp_size_in_bytes
    print(json.dumps({"ops": ops_of(text), "w": priced, "wide": wide, "temporaries": memory.temp_size_in_bytes, "moved": moved}))


def program(args, body, out):
    return f"func.func @main({args}) -> {out} {{\n{body}  return %o : {out}\n}}\n"


def kernel_text(options, generation, codes, shape):
    sizes = ",".join(map(str, shape + (GROUP,)))
    command = [options.kernel, f"quantized-{codes}", KERNEL_NAMES[generation], sizes]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def report(record, out):
    generations = list(SLICES)
    lines = [
        "# Quantized matmuls on TPUs",
        "What the TPU compiler (libtpu 0.0.51) makes of each form, without a device; written by `benchmarks/quant/tpu_forms.py` on 17 November 2026.",
        "",
        "- `s`: cycles counted in the generated code. Operands that were fetched ahead of the op are not waited for.",
        "  The kernel fetches its own, so its cycles include that.",
        "- `w`: the compiler's own price of the fusions. Kernels have none. It leaves out the conversion of narrow operands.",
        "- HBM: MiB of operands and results, and twice that of temporaries, which are written and read.",
        "- **copy**: the weight is written in a wider type.",
        "- The floor is the time to read the operands at 86 % of the published bandwidth, in cycles. A step takes the larger of both.",
        "- The count aborts on some fusions: a cell has no `s` where an op was not counted. `-` did not compile.",
        "- qwix: JAX 0.10 with qwix 0.1.8, the same shapes. A weight of its alone is dequantized before the dot, and so are groups and KV caches.",
        "- The weight of the large shape does not fit into fast memory: its `w` includes the time to fetch it, its `s` does not.",
        "",
    ]
    peak = {"v5e": (819e9, 1.5e9), "v5p": (2765e9, 1.75e9), "v6e": (1638e9, 1.75e9), "7x": (3690e9, 1.9e9)}
    shown = lambda n: f"{n / 1e3:.1f} k" if n else "-"
    def cell(found, form):
        if not found:
            return "-"
        both = [f"{shown(found.get(key))} {key}" for key in ("s", "w") if found.get(key)]
        return ", ".join(both) + (" **copy**" if found.get("wide") and form != "bf16" else "")
    for m, k, n in SHAPES:
        lines += [f"## {m} x {k} x {n}", "", "| form | HBM, MiB | " + " | ".join(generations) + " |", "|---|---|" + "---|" * len(generations)]
        for form in MATMULS if (m, k, n) == SHAPES[0] else LARGE:
            rows = [record.get(f"{g}|{m}x{k}x{n}|{form}", {}) for g in generations]
            if not any(rows):
                continue
            moved = next((f"{row['moved'] / 2**20:.1f}" for row in rows if row.get("moved")), "-")
            lines.append(f"| {form} | {moved} | " + " | ".join(cell(row, form) for row in rows) + " |")
            if form in PEERS:
                rows = [record.get(f"{g}|{m}x{k}x{n}|qwix {form}", {}) for g in generations]
                if any(rows):
                    moved = next((f"{row['moved'] / 2**20:.1f}" for row in rows if row.get("moved")), "-")
                    lines.append(f"| the same by qwix | {moved} | " + " | ".join(cell(row, form) for row in rows) + " |")
        floors = [f"{k * n / 2 / (0.86 * peak[g][0]) * peak[g][1] / 1e3:.1f} k" for g in generations]
        lines.append("| floor of 4 bits | | " + " | ".join(floors) + " |")
        lines.append("")
        ratios = []
        for g in generations:
            ours_, per_channel = (record.get(f"{g}|{m}x{k}x{n}|{form}", {}) for form in ("i4 group 128, kernel", "i4, scale after dot"))
            base = per_channel.get("s") or per_channel.get("w")
            if ours_.get("s") and base:
                ratios.append(f"{g} {ours_['s'] / base:.2f} ({'s' if per_channel.get('s') else 'w'})")
        if ratios:
            lines += ["The kernel's cycles over those of the scale after the dot, by `s`, or `w` where `s` could not be counted: " + ", ".join(ratios) + ".", ""]
    b, h, q, s, d = CACHE
    if not any("|cache|" in key for key in record):
        open(out, "w").write("\n".join(lines).rstrip("\n") + "\n")
        return
    lines += [f"## KV cache: {b} sequences, {h} heads of {d} with {q} queries each, {s} positions", "", "| form | HBM, MiB | " + " | ".join(generations) + " |", "|---|---|" + "---|" * len(generations)]
    for form in CACHES:
        rows = [record.get(f"{g}|cache|{form}", {}) for g in generations]
        moved = next((f"{row['moved'] / 2**20:.1f}" for row in rows if row.get("moved")), "-")
        lines.append(f"| {form} | {moved} | " + " | ".join(cell(row, form) for row in rows) + " |")
        rows = [record.get(f"{g}|cache|qwix {form}", {}) for g in generations]
        if any(rows):
            moved = next((f"{row['moved'] / 2**20:.1f}" for row in rows if row.get("moved")), "-")
            lines.append(f"| the same by qwix | {moved} | " + " | ".join(cell(row, form) for row in rows) + " |")
    open(out, "w").write("\n".join(lines) + "\n")


def main():
    if sys.argv[1:2] == ["--compile"]:
        form, generation, *shape = sys.argv[2:]
        return compile_peer(form, generation, *map(int, shape)) if shape else compile_cache_peer(form, generation)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--peer-python")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--record", default="quant-tpu.json")
    parser.add_argument("--out", default="benchmarks/results/quant-tpu.md")
    options = parser.parse_args()
    record = json.load(open(options.record)) if os.path.exists(options.record) else {}

    def keep(key, make):
        if key in record:
            return
        record[key] = make()
        print(key, record[key], flush=True)
        json.dump(record, open(options.record, "w"), indent=1)

    generations = options.only or list(SLICES)
    for shape in SHAPES:
        size = "x".join(map(str, shape))
        for form, make in MATMULS.items():
            if shape != SHAPES[0] and form not in LARGE:
                continue
            for generation in generations:
                text = (lambda: kernel_text(options, generation, make, shape)) if isinstance(make, str) else (lambda: program(*make(*shape)))
                keep(f"{generation}|{size}|{form}", lambda: ours(options, generation, text(), shape[1] * shape[2]))
                if form in PEERS and options.peer_python:
                    keep(f"{generation}|{size}|qwix {form}", lambda: peer(options, generation, form, shape))
        report(record, options.out)
    for form, (codes, is_folded) in CACHES.items():
        b, h, _, s, d = CACHE
        for generation in generations:
            keep(f"{generation}|cache|{form}", lambda: ours(options, generation, program(*attention(codes, is_folded)), b * h * s * d))
            if form in CACHE_PEERS and options.peer_python:
                keep(f"{generation}|cache|qwix {form}", lambda: peer(options, generation, form, ()))
    report(record, options.out)


if __name__ == "__main__":
    main()
