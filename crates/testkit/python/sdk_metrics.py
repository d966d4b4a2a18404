"""Prints what libtpu's own SDK reads of the metric service on this machine, as JSON: metrics by name, and core states."""

import json
import os

# The SDK would ask a metadata server that is not there, 30 times for each key.
os.environ["TPU_SKIP_MDS_QUERY"] = "1"

from libtpu import sdk  # noqa: E402

told = {name: sdk.tpumonitoring.get_metric(name).data() for name in sdk.tpumonitoring.list_supported_metrics()}
print(json.dumps(told))
