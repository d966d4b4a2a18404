"""A stand-in of the Cloud TPU API v2 (REST) and of the Cloud Quotas API's list, strict as Google's types are.

usage: cloud_tpu_server.py [SETTINGS]

Prints its port, and ends when standard input does. A request with an unknown field, parameter or method is refused with an
error that names it, as Google does. SETTINGS is the JSON of a POST to /admin/settings:

  scale         virtual seconds in a real one (1)
  delays        virtual seconds: accept, queue, provision, suspend, delete
  zone_delays   the same of a zone: {"us-west4-a": {"queue": 4200}} fills a request 70 minutes after everybody forgot it
  stock         chips of a zone; null or nothing: as many as anyone wants
  quota         chips of a zone that may be asked for; dead requests count until they are deleted
  quota_fails_later  the request is accepted, and then FAILED
  expired_says  FAILED, or nothing: a request that nobody filled in time stays as it is
  workers       addresses that workers get, in order; they come back when their node is deleted
  host_keys     keys of every worker's ssh server, as "ssh-ed25519 AAAA...", that guest attributes tell; none: not told
  worker_keys   the same by the address of the worker: {"10.0.0.2": ["ssh-ed25519 AAAA..."]}
  page_size     the most of a list in one answer
  unreachable   zones that lists of all zones say they could not ask

POST /admin/faults   {"method": "POST", "path": regex, "times": 1, "skip": 0} and one of
  "status": "UNAVAILABLE" with "retry_after": seconds, "message", "reason"   refused, nothing done
  "http": 502   the answer of a proxy, not of the API
  "lose": true   done, and the connection closed instead of the answer
  "drop": true   the connection closed, nothing done
  "operation": {"status": "INTERNAL", "message": "..."}   accepted; the operation fails and what it made is gone
  "delay": real seconds before the answer
POST /admin/advance  {"seconds": 4200}
POST /admin/preempt  {"name": "job-1", "how": "PREEMPTED"}   see cloud_tpu_model.py
POST /admin/forget   {"name": "job-1"}   a request disappears, its nodes do not
POST /admin/state    {"name": "job-1", "text": "HIBERNATING"}   a state that came after this client
GET  /admin/record   {"now", "lives", "events", "requests", "operations"}; times in virtual seconds of the epoch. A machine is
                     paid for from `ready` until the first of `lost`, `deleting` and `deleted`; what has no `deleted` is there
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

import cloud_tpu_model as model
from cloud_tpu_model import Refused
from google.cloud.cloudquotas_v1.types import cloudquotas, resources
from google.cloud.location import locations_pb2
from google.cloud.tpu_v2.types import cloud_tpu
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format

COMMON = {"$alt", "alt", "key", "prettyPrint", "$prettyPrint", "quotaUser", "fields", "$.xgafv"}
AREA = r"projects/[a-z0-9:.-]+/locations/[a-z0-9-]+"

lock = threading.RLock()
project = model.Project()
faults, requests = [], []
settings = {"page_size": 500, "unreachable": [], "host_keys": [], "worker_keys": {}}


def parse(body, message):
    try:
        return json_format.Parse(body or b"{}", message)
    except json_format.ParseError as error:
        raise Refused("INVALID_ARGUMENT", f"Invalid JSON payload received. {error}") from None


def known_zone(parent):
    zone = parent.split("/")[3]
    if zone not in model.ZONES:
        raise Refused("INVALID_ARGUMENT", f"Invalid location {zone!r}.")
    return zone


def paged(query, items, response, field):
    """One page of a list; the token is the place of its first item."""
    size = min(int(query.get("pageSize") or 0) or settings["page_size"], settings["page_size"])
    first = int(query.get("pageToken") or 0)
    getattr(response, field).extend(items[first : first + size])
    if first + size < len(items):
        response.next_page_token = str(first + size)
    return response


def in_area(parent, items):
    head, zone = parent.rsplit("/", 1)
    return [i for i in items if i.name.startswith(f"{head}/") and zone in ("-", i.name.split("/")[3])]


# What a method is asked: the time, the name in its path, the query, the body.


def create_node(now, parent, query, body):
    known_zone(parent)
    return project.create_node(now, parent, query.get("nodeId", ""), parse(body, model.Node()))


def list_nodes(now, parent, query, body):
    answer = paged(query, in_area(parent, project.nodes.values()), cloud_tpu.ListNodesResponse.pb()(), "nodes")
    if parent.endswith("/-"):
        answer.unreachable.extend(settings["unreachable"])
    return answer


def get_of(collection):
    def get(now, name, query, body):
        found = getattr(project, collection).get(name)
        if found is None:
            raise Refused("NOT_FOUND", f"Resource '{name}' was not found")
        return found

    return get


def delete_node(now, name, query, body):
    return project.delete_node(now, name)


def guest_attributes(now, name, query, body):
    asked = parse(body, cloud_tpu.GetGuestAttributesRequest.pb()())
    get_of("nodes")(now, name, query, body)
    life = project.node_life[name]
    if project.nodes[name].metadata.get("enable-guest-attributes", "").upper() != "TRUE":
        raise Refused("FAILED_PRECONDITION", f"Guest attributes of {name} are not enabled.")
    workers = [int(worker) for worker in asked.worker_ids] or range(life["hosts"])
    if any(worker >= len(life["addresses"]) for worker in workers):
        raise Refused("INVALID_ARGUMENT", f"{name} has {len(life['addresses'])} workers.")
    keys = [settings["worker_keys"].get(life["addresses"][worker], settings["host_keys"]) for worker in workers]
    if not any(keys):
        raise Refused("NOT_FOUND", f"No guest attributes of {name} at {asked.query_path!r}.")
    answer = cloud_tpu.GetGuestAttributesResponse.pb()()
    for worker_keys in keys:
        one = answer.guest_attributes.add(query_path=asked.query_path)
        for key in worker_keys:
            kind, _, value = key.partition(" ")
            one.query_value.items.add(namespace="hostkeys", key=kind, value=value)
    return answer


def create_queued(now, parent, query, body):
    known_zone(parent)
    asked = parse(body, model.QueuedResource())
    return project.create_queued(now, parent, query.get("queuedResourceId", ""), asked, query.get("requestId", ""))


def list_queued(now, parent, query, body):
    items = in_area(parent, project.queued.values())
    answer = paged(query, items, cloud_tpu.ListQueuedResourcesResponse.pb()(), "queued_resources")
    if parent.endswith("/-"):
        answer.unreachable.extend(settings["unreachable"])
    return answer


def delete_queued(now, name, query, body):
    return project.delete_queued(now, name, query.get("force", "false").lower() == "true")


def list_operations(now, parent, query, body):
    items = in_area(parent, project.operations.values())
    return paged(query, items, operations_pb2.ListOperationsResponse(), "operations")


def cancel_operation(now, name, query, body):
    get_of("operations")(now, name, query, body)
    raise Refused("UNIMPLEMENTED", "Operations of this API cannot be cancelled.")


def list_locations(now, parent, query, body):
    found = [locations_pb2.Location(name=f"{parent}/locations/{z}", location_id=z) for z in model.ZONES]
    return paged(query, found, locations_pb2.ListLocationsResponse(), "locations")


def list_accelerators(now, parent, query, body):
    found = []
    for family in model.ZONES[known_zone(parent)]:
        for size in model.SIZES[family]:
            name = f"{family}-{size}"
            found.append(cloud_tpu.AcceleratorType.pb()(name=f"{parent}/acceleratorTypes/{name}", type_=name))
    return paged(query, found, cloud_tpu.ListAcceleratorTypesResponse.pb()(), "accelerator_types")


def list_runtimes(now, parent, query, body):
    known_zone(parent)
    versions = sorted({f[3] for f in model.FAMILIES.values()})
    found = [cloud_tpu.RuntimeVersion.pb()(name=f"{parent}/runtimeVersions/{v}", version=v) for v in versions]
    return paged(query, found, cloud_tpu.ListRuntimeVersionsResponse.pb()(), "runtime_versions")


def list_quotas(now, parent, query, body):
    """Two quotas of each family, as the TPU API has them: by zone, on demand and spot."""
    found = []
    for family in model.FAMILIES:
        for kind in ("", "preemptible_"):
            quota_id = f"TPU{family.upper()}{'Preemptible' if kind else ''}PerProjectPerZoneForTPUAPI"
            info = resources.QuotaInfo.pb()(
                name=f"{parent}/quotaInfos/{quota_id}",
                quota_id=quota_id,
                metric=f"tpu.googleapis.com/{kind}{family}",
                service="tpu.googleapis.com",
                is_precise=True,
                container_type=1,
                dimensions=["zone"],
            )
            for zone, families in model.ZONES.items():
                if family in families:
                    one = info.dimensions_infos.add(applicable_locations=[zone])
                    one.dimensions["zone"] = zone
                    one.details.value = project.quota.get(zone) or 1024
            found.append(info)
    return paged(query, found, cloudquotas.ListQuotaInfosResponse.pb()(), "quota_infos")


PAGES = {"pageSize", "pageToken"}
METHODS = [
    ("POST", rf"/v2/({AREA})/nodes", {"nodeId"}, create_node),
    ("GET", rf"/v2/({AREA})/nodes", PAGES, list_nodes),
    ("GET", rf"/v2/({AREA}/nodes/[^/:]+)", set(), get_of("nodes")),
    ("DELETE", rf"/v2/({AREA}/nodes/[^/:]+)", set(), delete_node),
    ("POST", rf"/v2/({AREA}/nodes/[^/:]+):getGuestAttributes", set(), guest_attributes),
    ("POST", rf"/v2/({AREA})/queuedResources", {"queuedResourceId", "requestId"}, create_queued),
    ("GET", rf"/v2/({AREA})/queuedResources", PAGES, list_queued),
    ("GET", rf"/v2/({AREA}/queuedResources/[^/:]+)", set(), get_of("queued")),
    ("DELETE", rf"/v2/({AREA}/queuedResources/[^/:]+)", {"requestId", "force"}, delete_queued),
    ("GET", rf"/v2/({AREA})/operations", PAGES | {"filter", "returnPartialSuccess"}, list_operations),
    ("GET", rf"/v2/({AREA}/operations/[^/:]+)", set(), get_of("operations")),
    ("POST", rf"/v2/({AREA}/operations/[^/:]+):cancel", set(), cancel_operation),
    ("GET", r"/v2/(projects/[a-z0-9:.-]+)/locations", PAGES | {"filter"}, list_locations),
    ("GET", rf"/v2/({AREA})/acceleratorTypes", PAGES | {"filter", "orderBy"}, list_accelerators),
    ("GET", rf"/v2/({AREA})/runtimeVersions", PAGES | {"filter", "orderBy"}, list_runtimes),
    ("GET", rf"/v1/({AREA}/services/tpu\.googleapis\.com)/quotaInfos", PAGES, list_quotas),
]


def dispatch(now, method, path, query, body):
    for verb, pattern, parameters, answer in METHODS:
        match = re.fullmatch(pattern, path)
        if match and verb == method:
            unknown = sorted(set(query) - parameters - COMMON)
            if unknown:
                raise Refused(
                    "INVALID_ARGUMENT",
                    f'Invalid JSON payload received. Unknown name "{unknown[0]}": Cannot bind query parameter.',
                )
            if method in ("GET", "DELETE") and body:
                raise Refused("INVALID_ARGUMENT", f"A {method} has no body.")
            return answer(now, match[1], query, body)
    raise Refused("NOT_FOUND", f"No method {method} {path}.")


def render(message, as_numbers):
    """A message as JSON. A state that came after these types is written into what names the resource."""
    written = json_format.MessageToDict(message, use_integers_for_enums=as_numbers)
    pending = [written]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            text = project.state_texts.get(value.get("name"))
            if text and isinstance(value.get("state"), dict):
                value["state"]["state"] = text
            elif text:
                value["state"] = text
            pending.extend(value.values())
    return written


def fail_operation(now, operation, fault):
    """What the operation made is gone; what it was to delete is there."""
    name, why = operation.name, fault["operation"]
    metadata = model.OperationMetadata()
    operation.metadata.Unpack(metadata)
    target, made = metadata.target, metadata.verb == "create"
    error = Refused(why.get("status", "INTERNAL"), why.get("message", "Internal error"))
    project.due = [e for e in project.due if target not in e[3] and name not in e[3]]
    model.heapq.heapify(project.due)
    project.finish(now, name, error=error)
    if made and target in project.nodes:
        project.node_ends(now, target)
    elif made and target in project.queued:
        project.set_queued(now, target, "FAILED", error=error)
    elif target in project.nodes:
        project.nodes[target].state = model.Node.READY
        project.node_life[target]["deleting"] = None
    elif target in project.queued:
        for node in project.nodes_of(target):
            node.state, project.node_life[node.name]["deleting"] = model.Node.READY, None
        project.queued_life[target]["deleting"] = None
        project.set_queued(now, target, "ACTIVE")


def change_settings(change):
    for key, value in change.items():
        if key == "scale":
            project.clock.set(scale=value)
        elif key in ("delays", "stock", "quota"):
            getattr(project, key).update(value)
        elif key in ("zone_delays", "quota_fails_later", "expired_says"):
            setattr(project, key, value)
        elif key == "workers":
            project.addresses = list(value)
        elif key in settings:
            settings[key] = value
        else:
            raise Refused("INVALID_ARGUMENT", f"unknown setting {key!r}")
    now = project.settle()
    for zone in change.get("stock", {}):
        project.retry_waiting(now, zone)
    return {}


def administer(method, path, body):
    """The test's side of it."""
    now = project.settle()
    asked = json.loads(body or b"{}")
    if path == "/admin/settings":
        return change_settings(asked)
    if path == "/admin/faults":
        faults.append({"times": 1, "skip": 0, **asked})
        return {"faults": len(faults)}
    if path == "/admin/advance":
        project.clock.set(advance=asked["seconds"])
        return {"now": project.settle()}
    if path == "/admin/preempt":
        return {"nodes": project.preempt(now, asked["name"], asked.get("how", "PREEMPTED"))}
    if path == "/admin/forget":
        project.forget(now, asked["name"])
        return {}
    if path == "/admin/state":
        names = [n for n in [*project.nodes, *project.queued] if n.split("/")[-1] == asked["name"]]
        project.state_texts.update((n, asked["text"]) for n in names)
        return {"names": names}
    if path == "/admin/record":
        operations = [json_format.MessageToDict(o) for o in project.operations.values()]
        return {"now": now, "lives": project.lives, "events": project.events, "requests": requests, "operations": operations}
    raise Refused("NOT_FOUND", f"No {method} {path}.")


def fault_for(method, path):
    for fault in faults:
        if fault.get("method", method) == method and re.search(fault.get("path", ""), path):
            if fault["skip"] > 0:
                fault["skip"] -= 1
            elif fault["times"] > 0:
                fault["times"] -= 1
                return fault
    return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, http, content, headers=(), kind="application/json"):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(http)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(data))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, error, headers=()):
        told = {"code": error.http, "message": error.message, "status": error.status}
        if error.reason:
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": error.reason, "domain": "googleapis.com"}
            told["details"] = [{**info, "metadata": error.metadata}]
        self.answer(error.http, {"error": told}, headers)

    def hang_up(self):
        self.close_connection = True
        self.connection.shutdown(2)

    def respond(self):
        method, target = self.command, urlsplit(self.path)
        path, query = unquote(target.path), dict(parse_qsl(target.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path.startswith("/admin/"):
            try:
                with lock:
                    content = administer(method, path, body)
                self.answer(200, content)
            except Refused as error:
                self.refuse(error)
            return
        with lock:
            now = project.settle()
            fault = fault_for(method, path)
            entry = {"time": now, "method": method, "path": path, "query": query, "body": body.decode(errors="replace")}
            entry["fault"] = next((k for k in ("status", "http", "lose", "drop", "operation", "delay") if k in fault), None)
            entry["authorized"] = "Authorization" in self.headers
            requests.append(entry)
            http, content = None, None
            if "status" in fault:
                error = Refused(fault["status"], fault.get("message", "injected"), fault.get("reason"))
                http, content = error.http, error
            elif "http" in fault:
                http, content = fault["http"], b"<html>a proxy is unwell</html>"
            elif "drop" not in fault:
                try:
                    message = dispatch(now, method, path, query, body)
                    if "operation" in fault and isinstance(message, operations_pb2.Operation):
                        fail_operation(now, message, fault)
                    http, content = 200, render(message, query.get("$alt") == "json;enum-encoding=int")
                except Refused as error:
                    http, content = error.http, error
            entry["http"] = http
        if "delay" in fault:
            time.sleep(fault["delay"])
        if "drop" in fault or "lose" in fault:
            self.hang_up()
        elif isinstance(content, Refused):
            self.refuse(content, [("Retry-After", str(fault["retry_after"]))] if "retry_after" in fault else [])
        elif isinstance(content, bytes):
            self.answer(http, content, kind="text/html")
        else:
            self.answer(http, content)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = respond

    def log_message(self, *_):
        pass


def main():
    change_settings(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
