"""Streams data from a bucket on this machine: as training data, by the raw client, and by curl, in turns.

    cargo build --release -p tpubridge-data --example stream_bucket
    python benchmarks/data/run.py target/release/examples/stream_bucket --gigabytes 10 --rounds 3 --folder /tmp/stream

Each round takes the three in another order. All write to the same disk; the server sends from the page cache. Prints a table for
benchmarks/results/data-streaming.md.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

OBJECT_BYTES = 2_000_000_000


def measure(mode: str, program: str, folder: Path, port: int, objects: int, cache_bytes: int) -> dict:
    """One way of reading all objects once."""
    for left in ("raw", "cache", "curl"):
        shutil.rmtree(folder / left, ignore_errors=True)
        (folder / left).unlink(missing_ok=True) if (folder / left).is_file() else None
    os.sync()
    if mode == "curl":
        started = time.perf_counter()
        for n in range(objects):
            # As many connections as the others have, each a range.
            part = -(-OBJECT_BYTES // 8)
            urls = [f"http://127.0.0.1:{port}/bucket/{n}.bin"] * 8
            runs = [
                subprocess.Popen(
                    ["curl", "-sf", "-o", str(folder / f"curl.{at}"), "-r", f"{at * part}-{min(OBJECT_BYTES, (at + 1) * part) - 1}", url]
                )
                for at, url in enumerate(urls)
            ]
            if any(run.wait() for run in runs):
                sys.exit("curl failed")
        seconds = time.perf_counter() - started
        for at in range(8):
            (folder / f"curl.{at}").unlink(missing_ok=True)
        return {"mode": mode, "bytes": objects * OBJECT_BYTES, "seconds": seconds, "memory": "-"}
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "CACHE_MAX_BYTES": str(cache_bytes),
    }
    addresses = [f"s3://bucket/{n}.bin" for n in range(objects)]
    done = subprocess.run([program, mode, str(folder), *addresses], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{mode}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--gigabytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/stream"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    source = options.folder / "source.bin"
    if not source.exists() or source.stat().st_size != OBJECT_BYTES:
        with open(source, "wb") as file:
            for _ in range(OBJECT_BYTES // 1_000_000):
                file.write(os.urandom(1_000_000))
    objects = max(1, options.gigabytes * 1_000_000_000 // OBJECT_BYTES)
    server_program = Path(__file__).with_name("bucket_server.py")
    server = subprocess.Popen(
        [sys.executable, str(server_program), str(source)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    port = int(server.stdout.readline())
    modes = ["data", "raw", "curl"]
    found = {mode: [] for mode in modes}
    for n in range(options.rounds):
        for mode in modes[n % 3 :] + modes[: n % 3]:
            one = measure(mode, options.program, options.folder, port, objects, 2 * OBJECT_BYTES)
            one["rate"] = one["bytes"] / one["seconds"] / 1e6
            found[mode].append(one)
            print(f"round {n + 1}, {mode}: {one['rate']:.0f} MB/s, {one['memory']}", file=sys.stderr)
    server.stdin.close()
    server.wait()
    print("| way | MB/s, each round | median | of the raw client | most memory |")
    print("|---|---|---|---|---|")
    median = {mode: statistics.median(one["rate"] for one in found[mode]) for mode in modes}
    for mode in modes:
        rates = ", ".join(f"{one['rate']:.0f}" for one in found[mode])
        memory = max((one["memory"] for one in found[mode]), key=lambda text: int(text.split()[0]) if text != "-" else 0)
        print(f"| {mode} | {rates} | {median[mode]:.0f} | {median[mode] / median['raw']:.2f} | {memory} |")


if __name__ == "__main__":
    main()
