"""Prints the licences of every crate that the command and the CPU plugin are built from, with the texts the crates carry."""

import json
import pathlib
import subprocess
import sys

PROGRAMS = ("tpubridge-cli", "tpubridge-cpu-plugin")
TEXTS = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "UNLICENSE*")


def linked_packages(root, target):
    """The packages that end up in the programs: normal dependencies, for one target, without our own."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    own = set(metadata["workspace_members"])
    pending = [member for member in own if packages[member]["name"] in PROGRAMS]
    if len(pending) != len(PROGRAMS):
        sys.exit(f"error: the workspace lacks one of the packages {', '.join(PROGRAMS)}")
    seen = set(pending)
    while pending:
        for dependency in nodes[pending.pop()]["deps"]:
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                pending.append(dependency["pkg"])
    return sorted((packages[package] for package in seen - own), key=lambda p: (p["name"], p["version"]))


def main():
    root, target = sys.argv[1:]
    packages = linked_packages(root, target)
    print("tpubridge contains code of these crates, each under the licence beside it. Their texts follow, each once.\n")
    texts = {}
    for package in packages:
        print(f"{package['name']} {package['version']}  {package['license'] or package['license_file']}")
        folder = pathlib.Path(package["manifest_path"]).parent
        for path in sorted({path for pattern in TEXTS for path in folder.glob(pattern) if path.is_file()}):
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            texts.setdefault(text, []).append(f"{package['name']} {package['version']}: {path.name}")
    for text, owners in texts.items():
        print("\n" + "=" * 80)
        print("\n".join(owners))
        print("=" * 80 + "\n" + text)


main()
