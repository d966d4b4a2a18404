"""What telemetry costs a training: step time of tiny-gpt on the CPU device with everything on, against everything off.

    python benchmarks/telemetry/run.py --tpu target/release/tpu --pairs 10 --steps 300

On: /metrics scraped every second, OpenTelemetry to a sink in this process, libtpu's metric service, a profiler that nobody
asks, logs as records. Off: none of them. Runs come in pairs, on and off in turn first, so that a machine that grows slower
or faster does so for both. `--with` makes the model smaller for a build that is not optimized. Of each run two figures are
taken: the median over its records of the wall time of a step, and the processor time of the process, all threads included,
over its steps. Threads that only telemetry has are also counted apart, which other load on the machine hardly changes. Of
pairs, the median of the ratio counts, with the interval that holds it in 95 of 100 resamplings. Prints a table in Markdown; results are in benchmarks/results/telemetry.md.
"""

import argparse
import http.server
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import threading
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes everything."""

    protocol_version = "HTTP/1.1"
    requests = bytes_taken = 0

    def do_POST(self):
        Sink.bytes_taken += len(self.rfile.read(int(self.headers["Content-Length"])))
        Sink.requests += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def threads(pid):
    """Nanoseconds on a processor: of the process, threads that have ended included, and of each thread with its name."""
    ticks = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    of_process = (int(ticks[11]) + int(ticks[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    of_threads = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            used = int((task / "schedstat").read_text().split()[0])
            of_threads[task.name] = ((task / "comm").read_text().strip(), used)
        except (OSError, ValueError, IndexError):
            pass  # It has ended.
    return of_process, of_threads


def scrape(folder, pid, is_on, ended, scraped, samples):
    """Every second until the run has ended: asks for the metrics, and looks at the threads once steps are recorded."""
    while not ended.wait(1.0):
        try:
            if (folder / "run/metrics/metrics.jsonl").stat().st_size:
                samples.append(threads(pid))
            if not is_on:
                continue
            address = json.loads((folder / "run/processes/0.json").read_text())["metrics"]
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
                scraped.append(len(answer.read()))
        except (OSError, ValueError, KeyError):
            pass  # It does not answer yet, or no longer.


def one_run(options, cache, sink, is_on):
    """Wall and processor milliseconds of a step."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [options.tpu, "train", str(REPOSITORY / "examples/train/tiny-gpt.toml"), "--folder", "run", "-d", "cpu"]
        for setting in (f"steps={options.steps}", "log_every=10", "save_every=1000000", "eval_every=1000000"):
            command += ["--with", f"train.{setting}"]
        for setting in options.settings:
            command += ["--with", setting]
        if is_on:
            command += ["--metrics", "127.0.0.1:0", "--otlp", sink, "--runtime-metrics", "127.0.0.1:0"]
            command += ["--profiler", "0", "--log-format", "cloud"]
        environment = dict(os.environ, TPUBRIDGE_CACHE=str(cache), TPUBRIDGE_CPU_THREADS=str(options.threads))
        environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        ended, scraped, samples = threading.Event(), [], []
        scraper = threading.Thread(target=scrape, args=(folder, child.pid, is_on, ended, scraped, samples))
        scraper.start()
        said = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        scraper.join()
        if child.returncode != 0:
            raise SystemExit(f"the training failed:\n{said}")
        if is_on and not scraped:
            raise SystemExit("nothing was scraped: give more --steps")
        lines = [json.loads(line) for line in (folder / "run/metrics/metrics.jsonl").read_text().splitlines()]
        records = [line for line in lines if "loss" in line]
        times = [(line["wall_time_seconds"], line["step"]) for line in records]
        steps = [(end - start) / (to - since) for (start, since), (end, to) in zip(times, times[1:])]
        used = 1e3 * (used.ru_utime + used.ru_stime) / options.steps
        return 1e3 * statistics.median(steps), used, samples[0], samples[-1]


def telemetry_share(off, on):
    """Processor time of telemetry's threads over that of all others, in percent.

    They are the threads with names that no run without telemetry has, and those that ended meanwhile, as one does for each
    request. What the training's own threads do for telemetry is not in it.
    """
    usual = {name for run in off for sample in run[2:] for name, _ in sample[1].values()}
    own = ended = total = 0
    for run in on:
        (process_before, before), (process_after, after) = run[2:]
        grown = {task: used - before.get(task, ("", 0))[1] for task, (_, used) in after.items()}
        own += sum(used for task, used in grown.items() if after[task][0] not in usual)
        ended += max(0, process_after - process_before - sum(grown.values()))
        total += process_after - process_before
    return 100.0 * own / (total - own - ended), 100.0 * ended / (total - own - ended)


def interval(ratios):
    """Where the median lies in 95 of 100 resamplings."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tpu", required=True, type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--with", dest="settings", metavar="NAME=VALUE", action="append", default=[], help="as for tpu train")
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sink = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as cache:
        one_run(options, cache, sink, is_on=True)  # Fills the caches.
        off, on = [], []
        for pair in range(options.pairs):
            for is_on in (True, False) if pair % 2 else (False, True):
                (on if is_on else off).append(one_run(options, cache, sink, is_on))
    print(f"{options.pairs} pairs of {options.steps} steps, {options.threads} threads; the sink took {Sink.requests} requests, {Sink.bytes_taken} bytes\n")
    print("| of a step | off | on | more, median of pairs | 95 % interval |\n|---|---:|---:|---:|---:|")
    for place, what in enumerate(("wall time", "processor time")):
        ratios = [100.0 * (after[place] / before[place] - 1.0) for before, after in zip(off, on)]
        low, high = interval(ratios)
        before, after = (statistics.median(run[place] for run in runs) for runs in (off, on))
        print(f"| {what} | {before:.3f} ms | {after:.3f} ms | {statistics.median(ratios):+.2f} % | {low:+.2f} to {high:+.2f} % |")
    own, ended = telemetry_share(off, on)
    print(f"\nthreads of telemetry used {own:.3f} % of what the others used, and threads that ended meanwhile {ended:.3f} %")


if __name__ == "__main__":
    main()
