"""Goodput of jobs by Google's calculator (ml-goodput-measurement), from the log entries of its own recorder.

Reads a JSON list of jobs, each a list of entries, from standard input; prints a list of records: seconds of each part.
Nothing is asked of Google: the calculator gets a logger that has the entries, and stand-ins for the clients that it imports
and does not use here. Of NumPy and SciPy it needs three functions of lists.
"""

import json
import statistics
import sys
import tempfile
import types
from unittest import mock


def median_abs_deviation(values):
    middle = statistics.median(values)
    return statistics.median([abs(value - middle) for value in values])


CLIENTS = "google google.api_core google.cloud google.cloud.logging google.cloud.storage google.cloud.monitoring_v3"
for name in f"{CLIENTS} requests tensorboardX urllib3 urllib3.util urllib3.util.retry".split():
    sys.modules[name] = mock.MagicMock()
sys.modules["numpy"] = types.SimpleNamespace(mean=statistics.fmean, median=statistics.median)
stats = types.SimpleNamespace(median_abs_deviation=median_abs_deviation)
sys.modules["scipy"] = types.SimpleNamespace(stats=stats)

from ml_goodput_measurement.src import goodput  # noqa: E402
from ml_goodput_measurement.src.goodput_utils import BadputType, GoodputType  # noqa: E402


class Log:
    def __init__(self, entries):
        self.entries = entries

    def read_cloud_logging_entries(self, *_, **__):
        return self.entries, (None, None)


def measure(number, entries, folder):
    name = f"job-{number}"
    calculator = goodput.GoodputCalculator(name, "log", cloud_logger=Log(entries), cache_dir=folder)
    calculator.get_job_goodput(include_badput_breakdown=True)
    details = calculator.get_job_goodput_details()
    badput = dict(details["badput_time"])
    custom = badput.pop(BadputType.CUSTOM_BADPUT_EVENTS, {})
    parts = {kind.name: seconds for kind, seconds in badput.items()}
    parts.update({f"CUSTOM_{kind}": seconds for kind, seconds in custom.items()})
    parts["PRODUCTIVE"] = details["goodput_time"][GoodputType.TOTAL]
    parts["ELAPSED"] = details["total_elapsed_time"]
    parts["DISRUPTIONS"] = details["disruption_count"]
    return parts


with tempfile.TemporaryDirectory() as folder:
    print(json.dumps([measure(number, entries, folder) for number, entries in enumerate(json.load(sys.stdin))]))
