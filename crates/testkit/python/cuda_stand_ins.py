"""Writes empty stand-ins for the CUDA libraries that PyTorch's wheel links against and never calls on a CPU.

usage: cuda_stand_ins.py TORCH_LIB_DIR

The wheel's NVIDIA dependencies are about 2.5 GB to download and 5 GB on disk; exporting a model needs none of
their code, only that the loader finds every library, symbol version and address-taken function. Each stand-in
function traps, so a call that does reach one cannot pass unnoticed. The CUDA runtime itself stays real.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

REAL_LIBRARIES = {"libcudart.so.12"}
CUDA_LIBRARY = re.compile(r"\(NEEDED\).*\[(lib(?:cu|nccl|nvshmem|nvJitLink)[^\]]*)\]")
VERSION_FILE = re.compile(r"File: (\S+)")
VERSION_NAME = re.compile(r"Name: (\S+)  Flags")
VERSIONED_SYMBOL = re.compile(r"UND (\w+)@(\S+)")
# These libraries have no symbol versions, so their functions are told apart by prefix; one stand-in holds them all.
PLAIN_SYMBOL = re.compile(r"UND ((?:nccl|curand|cuFile|cusparseLt)\w+)$", re.MULTILINE)
PLAIN_LIBRARY = "libnccl.so.2"


def main() -> int:
    """Writes one stand-in per missing library into the folder PyTorch loads its own libraries from."""
    folder = pathlib.Path(sys.argv[1])
    listings = [_readelf(library) for library in sorted(folder.glob("lib*.so*"))]
    needed = {name for listing in listings for name in CUDA_LIBRARY.findall(listing)} - REAL_LIBRARIES
    missing = sorted(name for name in needed if not (folder / name).exists())
    versions = _versioned_symbols(listings)
    plain = sorted({symbol for listing in listings for symbol in PLAIN_SYMBOL.findall(listing)})
    for name in missing:
        _write_stand_in(folder / name, versions.get(name, {}), plain if name == PLAIN_LIBRARY else [])
    print(f"{len(missing)} CUDA libraries replaced by stand-ins", file=sys.stderr)
    return 0


def _readelf(library: pathlib.Path) -> str:
    command = ["readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", str(library)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _versioned_symbols(listings: list[str]) -> dict[str, dict[str, set[str]]]:
    """Library -> symbol version -> functions, as the listed libraries require them."""
    required: dict[str, dict[str, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for listing in listings:
        library_of = _version_owners(listing)
        for symbol, version in VERSIONED_SYMBOL.findall(listing):
            if version in library_of:
                required[library_of[version]][version].add(symbol)
    return required


def _version_owners(listing: str) -> dict[str, str]:
    owners, library = {}, ""
    for line in listing.splitlines():
        if file := VERSION_FILE.search(line):
            library = file[1]
        elif library and (name := VERSION_NAME.search(line)):
            owners[name[1]] = library
    return owners


def _write_stand_in(target: pathlib.Path, versions: dict[str, set[str]], plain: list[str]) -> None:
    symbols = [*plain, *(symbol for group in versions.values() for symbol in sorted(group))]
    with tempfile.TemporaryDirectory() as work:
        source, script = pathlib.Path(work, "stand_in.c"), pathlib.Path(work, "versions")
        source.write_text("".join(f"void {symbol}(void) {{ __builtin_trap(); }}\n" for symbol in symbols))
        script.write_text(
            "".join(f"{v} {{ global: {' '.join(f'{s};' for s in sorted(g))} }};\n" for v, g in versions.items())
        )
        flags = [f"-Wl,--version-script={script}"] if versions else []
        command = ["cc", "-shared", "-fPIC", "-o", str(target), f"-Wl,-soname,{target.name}", *flags, str(source)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
