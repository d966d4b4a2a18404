"""Models of well-known families through `.pt2` import: made, checked against PyTorch's answers, and listed by family.

usage: python benchmarks/torch/models.py FOLDER --tpu PATH [--make] [--only REGEX] [--markdown]

Needs the packages of crates/testkit/python/requirements-models.txt and torch. With --make the models are exported first (a few minutes of one core).
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

MAKER = pathlib.Path(__file__).resolve().parents[2] / "crates/testkit/python/torch_models.py"


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--tpu", required=True)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    if args.make:
        subprocess.run([sys.executable, "-B", str(MAKER), args.folder, "--suite", "full", "--only", args.only], check=True)
    listed = json.loads((pathlib.Path(args.folder) / "models.json").read_text())["models"]
    command = [args.tpu, "check", args.folder, "--json"]
    record = json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout)
    verdicts = collections.defaultdict(dict)
    for case in record["cases"]:
        name, *form = pathlib.Path(case["file"]).name.removesuffix(".pt2").split(".")
        verdicts[name]["core" if form else "raw"] = (case["outcome"], case.get("reason", "").splitlines()[:1])
    families = collections.defaultdict(list)
    right, reasons = 0, []
    for name, entry in sorted(listed.items()):
        missing = entry["missing"]
        outcome = {form: verdicts[name].get(form, ("missing", [missing.get(form, "not made")])) for form in ("raw", "core")}
        # What PyTorch itself cannot decompose counts by the form that there is.
        tried = [found for form, found in outcome.items() if form not in missing]
        is_right = bool(tried) and all(found[0] == "passed" for found in tried)
        right += is_right
        families[entry["family"]].append((name, is_right))
        reasons += [f"{name} {form}: {found[0]}: {' '.join(found[1])}" for form, found in outcome.items() if found[0] != "passed"]
    for family, members in sorted(families.items()):
        names = ", ".join(f"`{name}`" if args.markdown else name for name, _ in members)
        good = sum(is_right for _, is_right in members)
        print(f"| {family} | {good} of {len(members)} | {names} |" if args.markdown else f"{family:20} {good} of {len(members)}  {names}")
    print(f"{right} of {len(listed)} models are right")
    for reason in reasons:
        print(reason[:300])


if __name__ == "__main__":
    main()
