"""Writes what Google's xpk makes of eight slices, as data to compare our manifests with.

xpk brings 500 MB of packages, so that ./test does not run this. By hand, in an environment with xpk==1.16.0:
    python crates/testkit/python/export_xpk.py > crates/k8s/tests/data/xpk.json
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

CASES = {
    "v5e-one-host": ["--tpu-type", "v5litepod-8"],
    "v5e-several-hosts": ["--tpu-type", "v5litepod-16"],
    "v5p-one-host": ["--tpu-type", "v5p-8"],
    "v5p-two-slices": ["--tpu-type", "v5p-128", "--num-slices", "2"],
    "v6e-several-hosts": ["--tpu-type", "v6e-64"],
    "v6e-two-slices-spot": ["--tpu-type", "v6e-256", "--num-slices", "2", "--spot"],
    "tpu7x-one-host": ["--tpu-type", "tpu7x-8"],
    "tpu7x-two-slices": ["--tpu-type", "tpu7x-128", "--num-slices", "2"],
}
COMMON = [
    *["workload", "create", "--dry-run", "--skip-validation", "--cluster", "c", "--project", "p", "--zone", "us-east5-a"],
    *["--workload", "job", "--docker-image", "example/image:1", "--command", "python train.py"],
    *["--max-restarts", "10", "--termination-grace-period-seconds", "120"],
]


def manifest(folder: pathlib.Path, words: list[str]) -> dict:
    file = folder / "manifest.yaml"
    xpk = pathlib.Path(sys.executable).parent / "xpk"
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder)}
    command = [str(xpk), *COMMON, "--output-manifest-file", str(file), *words]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    read = yaml.safe_load(file.read_text())
    template = read["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    # A script of xpk's own around the command, which is not compared.
    template["spec"]["containers"][0]["command"] = ["bash"]
    return read


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "bin").mkdir()
    for name in ["gcloud", "kubectl", "docker", "kubectl-kueue", "kubectl-kjob"]:
        stub = folder / "bin" / name
        stub.write_text("#!/bin/sh\nexit 0\n")
        stub.chmod(0o755)
    made = {name: manifest(folder, words) for name, words in CASES.items()}
    print(json.dumps({"xpk": "1.16.0", "cases": made}, separators=(",", ":")))
