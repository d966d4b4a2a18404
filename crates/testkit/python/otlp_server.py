"""A strict OpenTelemetry collector: decodes with OpenTelemetry's own messages, and lists everything that is not right.

usage: otlp_server.py [BUSY]

Prints its port, and ends when standard input does. The first BUSY requests are answered 503 with `Retry-After: 0`, and what
they hold does not count. GET answers what came as JSON: errors, resources, metrics, spans, logs.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace
from opentelemetry.proto.metrics.v1 import metrics_pb2

CUMULATIVE = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
REQUESTS = {
    "/v1/metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    "/v1/traces": (trace.ExportTraceServiceRequest, trace.ExportTraceServiceResponse),
    "/v1/logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
}

lock = threading.Lock()
busy = int(sys.argv[1]) if len(sys.argv) > 1 else 0
told = {"requests": 0, "busy": 0, "errors": [], "headers": [], "resources": [], "metrics": {}, "spans": [], "logs": []}


def check(is_right, what):
    if not is_right:
        told["errors"].append(what)


def check_known(message, where):
    """No field that the messages do not have, at any depth."""
    check(len(UnknownFieldSet(message)) == 0, f"unknown fields in {where}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                check_known(one, f"{where}.{field.name}")


def attributes(of, where):
    keys = [pair.key for pair in of]
    check(len(set(keys)) == len(keys), f"{where}: an attribute twice in {keys}")
    check(all(keys), f"{where}: an attribute without a name")
    known = {}
    for pair in of:
        kind = pair.value.WhichOneof("value")
        check(kind is not None, f"{where}: {pair.key} has no value")
        known[pair.key] = getattr(pair.value, kind) if kind else None
    return known


def hear_metric(metric, resource):
    where = f"metric {metric.name}"
    check(metric.name and metric.description, f"{where}: no name or description")
    kind = metric.WhichOneof("data")
    check(kind in ("gauge", "sum", "histogram"), f"{where}: kind {kind}")
    data = getattr(metric, kind)
    if kind != "gauge":
        check(data.aggregation_temporality == CUMULATIVE, f"{where}: not cumulative")
    if kind == "sum":
        check(data.is_monotonic, f"{where}: a counter that may fall")
    for point in data.data_points:
        labels = attributes(point.attributes, where)
        key = metric.name + json.dumps(labels, sort_keys=True)
        before = told["metrics"].get(key)
        check(point.time_unix_nano > 0, f"{where}: no time")
        if kind != "gauge":
            check(0 < point.start_time_unix_nano <= point.time_unix_nano, f"{where}: starts after it ends")
        if before:
            check(before["time"] <= point.time_unix_nano, f"{where}: goes back in time")
            check(before["start"] == point.start_time_unix_nano, f"{where}: another start")
        if kind == "histogram":
            check(len(point.bucket_counts) == len(point.explicit_bounds) + 1, f"{where}: buckets and bounds")
            check(sum(point.bucket_counts) == point.count, f"{where}: count is not that of the buckets")
            check(list(point.explicit_bounds) == sorted(set(point.explicit_bounds)), f"{where}: bounds do not rise")
            check(point.HasField("sum"), f"{where}: no sum")
            value = point.count
        else:
            check(point.WhichOneof("value") == "as_double", f"{where}: no value")
            value = point.as_double
        if before and kind != "gauge":
            check(before["value"] <= value, f"{where}: a counter fell")
        told["metrics"][key] = {
            "name": metric.name, "kind": kind, "unit": metric.unit, "labels": labels, "value": value,
            "start": point.start_time_unix_nano, "time": point.time_unix_nano,
        }


def hear_span(span, resource):
    where = f"span {span.name}"
    check(len(span.trace_id) == 16 and any(span.trace_id), f"{where}: trace id")
    check(len(span.span_id) == 8 and any(span.span_id), f"{where}: span id")
    check(len(span.parent_span_id) in (0, 8), f"{where}: parent id")
    check(0 < span.start_time_unix_nano <= span.end_time_unix_nano, f"{where}: times")
    check(span.kind == 1 and span.name, f"{where}: kind or name")
    told["spans"].append({
        "name": span.name, "trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(),
        "start": span.start_time_unix_nano, "end": span.end_time_unix_nano, "error": span.status.code == 2,
        "attributes": attributes(span.attributes, where),
    })


def hear_log(record, resource):
    where = f"log {record.body.string_value}"
    check(record.time_unix_nano > 0 and record.observed_time_unix_nano > 0, f"{where}: times")
    check(1 <= record.severity_number <= 24 and record.severity_text, f"{where}: severity")
    check(record.body.WhichOneof("value") == "string_value", f"{where}: body")
    check(len(record.trace_id) in (0, 16) and len(record.span_id) in (0, 8), f"{where}: ids")
    told["logs"].append({
        "severity": record.severity_text, "body": record.body.string_value, "trace": record.trace_id.hex(),
        "span": record.span_id.hex(), "attributes": attributes(record.attributes, where),
    })


def hear(request):
    for of_resource in next(iter(request.ListFields()))[1]:
        resource = attributes(of_resource.resource.attributes, "resource")
        if resource not in told["resources"]:
            told["resources"].append(resource)
        check(resource.get("service.name"), "no service.name")
        scopes = next(value for field, value in of_resource.ListFields() if field.name.startswith("scope_"))
        for scope in scopes:
            check(scope.scope.name, "a scope without a name")
            for field, records in scope.ListFields():
                listener = {"metrics": hear_metric, "spans": hear_span, "log_records": hear_log}.get(field.name)
                for record in records if listener else []:
                    listener(record, resource)


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            told["requests"] += 1
            if told["busy"] < busy:
                told["busy"] += 1
                return self.answer(503, b"", {"Retry-After": "0"})
            check(self.headers["Content-Type"] == "application/x-protobuf", "content type")
            told["headers"] = {name.lower(): value for name, value in self.headers.items()}
            kinds = REQUESTS.get(self.path)
            if kinds is None:
                told["errors"].append(f"path {self.path}")
                return self.answer(404, b"", {})
            request = kinds[0]()
            try:
                request.ParseFromString(body)
                check_known(request, kinds[0].__name__)
                hear(request)
            except Exception as error:  # pylint: disable=broad-except
                told["errors"].append(f"{self.path}: {type(error).__name__}: {error}")
            self.answer(200, kinds[1]().SerializeToString(), {"Content-Type": "application/x-protobuf"})

    def do_GET(self):
        # The client reads to the end of the connection.
        self.close_connection = True
        with lock:
            body = json.dumps({**told, "metrics": list(told["metrics"].values())})
            self.answer(200, body.encode(), {"Connection": "close"})

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
