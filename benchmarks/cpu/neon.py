#!/usr/bin/env python3
"""Instructions that programs take on AArch64, counted under QEMU: neon.py [--repeat BINARY] [--qemu QEMU]

There is no time in this: an emulated CPU has none worth reporting. Each program runs so many times, then twice as many times
more, and what the counts differ by is what the runs between them took. The tier `portable` is what AArch64 ran before there
was machine code for its loops: the interpreter of loops, and the portable matmul of bytes.

Needs what `scripts/aarch64-tests` needs, a QEMU with plugins (Debian 12's `qemu-user`), and a C compiler.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = "aarch64-unknown-linux-gnu"

GELU = """func.func @main(%x: tensor<16384xf32>) -> tensor<16384xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<16384xf32>
  %one = stablehlo.constant dense<1.0> : tensor<16384xf32>
  %a = stablehlo.constant dense<0.044715> : tensor<16384xf32>
  %b = stablehlo.constant dense<0.797884583> : tensor<16384xf32>
  %0 = stablehlo.multiply %x, %x : tensor<16384xf32>
  %1 = stablehlo.multiply %0, %x : tensor<16384xf32>
  %2 = stablehlo.multiply %1, %a : tensor<16384xf32>
  %3 = stablehlo.add %x, %2 : tensor<16384xf32>
  %4 = stablehlo.multiply %3, %b : tensor<16384xf32>
  %5 = stablehlo.tanh %4 : tensor<16384xf32>
  %6 = stablehlo.add %5, %one : tensor<16384xf32>
  %7 = stablehlo.multiply %6, %half : tensor<16384xf32>
  %8 = stablehlo.multiply %7, %x : tensor<16384xf32>
  return %8 : tensor<16384xf32>
}"""

SOFTMAX = """func.func @main(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<64xf32>) -> tensor<64x256xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<64x256xf32>
  %3 = stablehlo.exponential %2 : tensor<64x256xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x256xf32>, tensor<f32>) -> tensor<64xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<64xf32>) -> tensor<64x256xf32>
  %6 = stablehlo.divide %3, %5 : tensor<64x256xf32>
  return %6 : tensor<64x256xf32>
}"""

LAYER_NORM = """func.func @main(%x: tensor<64x768xf32>, %g: tensor<768xf32>, %b: tensor<768xf32>) -> tensor<64x768xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %count = stablehlo.constant dense<768.0> : tensor<64xf32>
  %small = stablehlo.constant dense<1.0e-5> : tensor<64xf32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x768xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = stablehlo.divide %0, %count : tensor<64xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<64xf32>) -> tensor<64x768xf32>
  %3 = stablehlo.subtract %x, %2 : tensor<64x768xf32>
  %4 = stablehlo.multiply %3, %3 : tensor<64x768xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x768xf32>, tensor<f32>) -> tensor<64xf32>
  %6 = stablehlo.divide %5, %count : tensor<64xf32>
  %7 = stablehlo.add %6, %small : tensor<64xf32>
  %8 = stablehlo.rsqrt %7 : tensor<64xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<64xf32>) -> tensor<64x768xf32>
  %10 = stablehlo.multiply %3, %9 : tensor<64x768xf32>
  %11 = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<768xf32>) -> tensor<64x768xf32>
  %12 = stablehlo.multiply %10, %11 : tensor<64x768xf32>
  %13 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<768xf32>) -> tensor<64x768xf32>
  %14 = stablehlo.add %12, %13 : tensor<64x768xf32>
  return %14 : tensor<64x768xf32>
}"""

INT8 = """func.func @main(%a: tensor<512x512xi8>, %b: tensor<512x512xi8>) -> tensor<512x512xi32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<512x512xi8>, tensor<512x512xi8>) -> tensor<512x512xi32>
  return %0 : tensor<512x512xi32>
}"""

# Name, program, elements or multiplications of a run, how often it runs.
PROGRAMS = [
    ("gelu (tanh), 16384", GELU, 16384, 20),
    ("softmax, 64 x 256", SOFTMAX, 64 * 256, 20),
    ("layer norm, 64 x 768", LAYER_NORM, 64 * 768, 20),
    ("int8 matmul, 512³", INT8, 512**3, 2),
]


def build() -> pathlib.Path:
    """The example that repeats a program, for AArch64."""
    linker = ["--config", f'target.{TARGET}.linker="aarch64-linux-gnu-gcc"']
    command = ["cargo", "build", "--release", "--locked", "--target", TARGET, "-p", "tpubridge-cpu", "--example", "repeat"]
    subprocess.run(command + linker, cwd=ROOT, check=True)
    return ROOT / "target" / TARGET / "release/examples/repeat"


def count(command: list[str]) -> int:
    """Instructions of a command under the plugin."""
    result = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"^instructions (\d+)$", result.stderr, re.MULTILINE)
    if result.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}\n{result.stderr}")
    return int(found.group(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=pathlib.Path, help="the example `repeat`, already built for AArch64")
    parser.add_argument("--qemu", default="qemu-aarch64", help="a QEMU that takes plugins")
    parser.add_argument("--root", default="/usr/aarch64-linux-gnu", help="where the C library of AArch64 is")
    args = parser.parse_args()
    binary = args.repeat or build()
    with tempfile.TemporaryDirectory() as folder:
        plugin = pathlib.Path(folder) / "count.so"
        source = pathlib.Path(__file__).with_name("count_instructions.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(plugin), str(source)], check=True)
        print("| program | `portable` | `neon`, Cortex-A57 (no dot products) | `neon`, all features | portable to neon |")
        print("|---|---:|---:|---:|---:|")
        for name, program, size, runs in PROGRAMS:
            path = pathlib.Path(folder) / "program.mlir"
            path.write_text(program)
            cells = []
            for tier, cpu in [("portable", "max"), ("neon", "cortex-a57"), ("neon", "max")]:
                start = [args.qemu, "-cpu", cpu, "-L", args.root, "-plugin", str(plugin), str(binary), str(path)]
                few, many = (count([*start, str(n), tier]) for n in (runs, 3 * runs))
                cells.append((many - few) / (2 * runs) / size)
            print(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + f" | {cells[0] / cells[2]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
