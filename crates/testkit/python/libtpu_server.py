"""A stand-in for libtpu's metric service, with Google's own messages (tpu-info) and gRPC's own server.

usage: libtpu_server.py MODE...

Serves one host for each mode, prints their ports on one line, and ends when standard input does. Modes:

  new      lists its metrics; ordinals of devices are texts; 8 devices, duty cycle of each
  old      cannot list; ordinals are numbers; no status of cores
  v3       8 devices of 4 chips: the duty cycle is told of chips
  slow     lists, and answers one metric never
  partial  lists more than it tells: some fail, one by one
  garbage  answers bytes that are no messages, between good ones
  ahead    as new, with a clock two hours ahead
  empty    lists nothing
"""

import sys
import threading
import time
from concurrent import futures

import grpc
from tpu_info.proto import tpu_metric_service_pb2 as service

PACKAGE = "tpu.monitoring.runtime.RuntimeMetricService"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
USAGE = "tpu.runtime.hbm.memory.usage.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
QUEUE = "hlo.queue.size.gauge"
TIMING = "hlo.execution.timing.distribution.microseconds"
LATENCY = "megascale.dcn_transfer_latencies.microsecond.cumulative.distribution"
UPTIME = "tpu.runtime.uptime.seconds.gauge"
FUTURE = "tpu.future.metric.nobody.knows"
GIB = 1 << 30


class Host:
    def __init__(self, mode):
        self.mode = mode
        self.ended = threading.Event()

    def now(self):
        return int(time.time()) + (7200 if self.mode == "ahead" else 0)

    def names(self):
        if self.mode == "empty":
            return []
        names = [TOTAL, USAGE, DUTY, QUEUE, TIMING, LATENCY, UPTIME, FUTURE]
        return names + (["tpu.broken.1", "tpu.broken.2"] if self.mode == "partial" else [])

    def metric(self, name):
        metric = service.TPUMetric(name=name)

        def add(**of):
            value = metric.metrics.add()
            value.timestamp.seconds = self.now()
            return value

        def device(value, n):
            value.attribute.key = "device-id"
            value.attribute.value.int_attr = n

        def core(value, n):
            ordinal = value.attribute.value.kvlist_attr.attributes.add(key="device_ordinal")
            if self.mode == "old":
                ordinal.value.int_attr = n
            else:
                ordinal.value.string_attr = str(n)
            kind = value.attribute.value.kvlist_attr.attributes.add(key="core_type")
            kind.value.string_attr = "TENSOR_CORE"

        def distribution(value, counts):
            told = value.distribution
            told.count, told.mean = sum(counts), 1500.0
            told.bucket_options.exponential_buckets.num_finite_buckets = 20
            told.bucket_options.exponential_buckets.scale = 1000.0
            told.bucket_options.exponential_buckets.growth_factor = 2.0
            told.bucket_counts.extend(counts)

        if name in (TOTAL, USAGE):
            for n in range(8):
                value = add()
                device(value, n)
                value.gauge.as_int = 16 * GIB if name == TOTAL else n * GIB
        elif name == DUTY:
            for n in range(4 if self.mode == "v3" else 8):
                value = add()
                device(value, n)
                value.gauge.as_double = 10.0 * (n + 1)
        elif name == QUEUE:
            for n in range(8):
                value = add()
                core(value, n)
                value.gauge.as_int = n
        elif name == TIMING:
            for n in range(8):
                value = add()
                core(value, n)
                distribution(value, [0, 10, 10])
        elif name == LATENCY:
            value = add()
            size = value.attribute.value.kvlist_attr.attributes.add(key="buffer-size")
            size.value.string_attr = "8MB+"
            distribution(value, [0, 0, 4])
        elif name == UPTIME:
            add().gauge.as_int = 77
        elif name == FUTURE:
            add().gauge.as_string = "a text of the future"
        else:
            return None
        return metric

    def get(self, request, context):
        name = service.MetricRequest.FromString(request).metric_name
        if self.mode == "slow" and name == LATENCY:
            self.ended.wait()
        if self.mode == "garbage" and name in (USAGE, QUEUE):
            return b"\xff\xff\xff\xff garbage"
        if self.mode == "old" and name in (LATENCY, FUTURE):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such metric")
        metric = self.metric(name)
        if metric is None:
            context.abort(grpc.StatusCode.INTERNAL, f"{name} is broken")
        answer = service.MetricResponse(metric=metric).SerializeToString()
        if self.mode == "garbage":
            # Fields that nobody knows, of every kind.
            answer += b"\x98\x3f\x01\xa2\x3f\x03abc\xa9\x3f12345678"
        return answer

    def list(self, request, context):
        if self.mode == "old":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
        listed = service.ListSupportedMetricsResponse()
        for name in self.names():
            listed.supported_metric.add(metric_name=name)
        return listed.SerializeToString()

    def status(self, request, context):
        if self.mode == "old":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
        if self.mode == "garbage":
            return b"\x12\xff"
        status = service.GetTpuRuntimeStatusResponse(host_name=f"host-{self.mode}")
        for n in range(8):
            core = status.core_states[n]
            core.core_id.global_core_id = n
            core.core_id.chip_id = n
            core.core_id.core_on_chip.type = 1
            core.program_fingerprint = b"\xab\xcd"
            core.launch_id = 42
            core.sequencer_info.add(sequencer_type=1, pc=7, tag=3, run_id=9, hlo_location="fusion.1")
        return status.SerializeToString()

    def serve(self):
        handlers = {
            "GetRuntimeMetric": self.get,
            "ListSupportedMetrics": self.list,
            "GetTpuRuntimeStatus": self.status,
        }
        # Without serializers: answers are bytes, so that they can be wrong.
        handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in handlers.items()}
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PACKAGE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return server, port


def main():
    hosts = [Host(mode) for mode in sys.argv[1:]]
    served = [host.serve() for host in hosts]
    print(*(port for _, port in served), flush=True)
    sys.stdin.read()
    for host in hosts:
        host.ended.set()
    for server, _ in served:
        server.stop(0)


main()
