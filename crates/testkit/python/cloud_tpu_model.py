"""A project's TPUs in memory, with Google's own types: queued resources, nodes, operations, stock, quotas, time and bills.

Time is virtual: `scale` virtual seconds pass in a real one, and `advance` jumps. Whatever is due happens before each request,
with the time at which it was due, so that lives are right to the microsecond however late anyone looks.
"""

import heapq
import importlib.util
import itertools
import re
import sys
import time
import types
import uuid


def without_clients(name):
    """Makes a package of Google's known without what its `__init__` imports: types are half of the time to start."""
    above, _, last = name.rpartition(".")
    package = types.ModuleType(name)
    package.__path__ = [f"{folder}/{last}" for folder in importlib.util.find_spec(above).submodule_search_locations]
    sys.modules[name] = package


without_clients("google.cloud.tpu_v2")
without_clients("google.cloud.cloudquotas_v1")

from google.cloud.tpu_v2.types import cloud_tpu  # noqa: E402
from google.longrunning import operations_pb2  # noqa: E402
from google.protobuf import empty_pb2  # noqa: E402

Node = cloud_tpu.Node.pb()
QueuedResource = cloud_tpu.QueuedResource.pb()
OperationMetadata = cloud_tpu.OperationMetadata.pb()
State = cloud_tpu.QueuedResourceState.State

# google.rpc.Code: its number, HTTP's status and its name.
CODES = {
    "INVALID_ARGUMENT": (3, 400),
    "DEADLINE_EXCEEDED": (4, 504),
    "NOT_FOUND": (5, 404),
    "ALREADY_EXISTS": (6, 409),
    "PERMISSION_DENIED": (7, 403),
    "RESOURCE_EXHAUSTED": (8, 429),
    "FAILED_PRECONDITION": (9, 400),
    "ABORTED": (10, 409),
    "UNIMPLEMENTED": (12, 501),
    "INTERNAL": (13, 500),
    "UNAVAILABLE": (14, 503),
    "UNAUTHENTICATED": (16, 401),
}

# Of each family: what its name counts per chip, chips of a host, chips of the largest single host, its runtime version.
FAMILIES = {
    "v2": (2, 4, 4, "tpu-ubuntu2204-base"),
    "v3": (2, 4, 4, "tpu-ubuntu2204-base"),
    "v4": (2, 4, 4, "tpu-ubuntu2204-base"),
    "v5litepod": (1, 4, 8, "v2-alpha-tpuv5-lite"),
    "v5p": (2, 4, 4, "v2-alpha-tpuv5"),
    "v6e": (1, 4, 8, "v2-alpha-tpuv6e"),
}
SIZES = {
    "v2": (8, 32, 128, 256, 512),
    "v3": (8, 32, 64, 128, 256, 512, 1024, 2048),
    "v4": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    "v5litepod": (1, 4, 8, 16, 32, 64, 128, 256),
    "v5p": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    "v6e": (1, 4, 8, 16, 32, 64, 128, 256),
}
ZONES = {
    "us-central1-a": ("v2", "v3", "v5litepod", "v5p"),
    "us-central2-b": ("v4",),
    "us-east5-a": ("v5p", "v6e"),
    "us-east5-b": ("v6e",),
    "us-west4-a": ("v5litepod",),
    "us-west4-b": ("v5litepod",),
    "europe-west4-a": ("v3", "v6e"),
    "europe-west4-b": ("v5litepod", "v5p"),
    "asia-northeast1-b": ("v6e",),
}
# Virtual seconds; a zone may have its own.
DELAYS = {"accept": 0.2, "queue": 0.2, "provision": 0.5, "suspend": 0.2, "delete": 0.2}
# For how long the same request id is the same request.
REQUEST_ID_SECONDS = 3600
ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")


class Refused(Exception):
    """An error as the API answers it."""

    def __init__(self, status, message, reason=None, metadata=None):
        super().__init__(message)
        self.status, self.message, self.reason, self.metadata = status, message, reason, metadata or {}
        self.code, self.http = CODES[status]


def shape_of(accelerator_type):
    """The chips and the hosts of a slice by its name, or none."""
    family, _, size = accelerator_type.rpartition("-")
    if family not in SIZES or not size.isdigit() or int(size) not in SIZES[family]:
        return None
    per_chip, host, largest, _ = FAMILIES[family]
    chips = int(size) // per_chip
    return max(chips, 1), 1 if chips <= largest else chips // host


class Clock:
    """Virtual time, in seconds of the epoch."""

    def __init__(self):
        self.offset, self.scale, self.since = time.time(), 1.0, time.monotonic()

    def now(self):
        return self.offset + (time.monotonic() - self.since) * self.scale

    def set(self, scale=None, advance=0.0):
        self.offset, self.since = self.now() + advance, time.monotonic()
        if scale is not None:
            self.scale = float(scale)


class Project:
    """Everything that is there, and the record of everything that was."""

    def __init__(self):
        self.clock = Clock()
        self.delays, self.zone_delays = dict(DELAYS), {}
        self.stock, self.quota, self.quota_fails_later = {}, {}, False
        self.expired_says = "FAILED"
        self.addresses, self.external = [], False
        self.nodes, self.queued, self.operations = {}, {}, {}
        self.state_texts, self.node_life, self.queued_life, self.lives, self.events = {}, {}, {}, [], []
        self.request_ids = {}
        self.due, self.order = [], itertools.count()
        self.ids, self.last_address = itertools.count(1001), itertools.count(2)

    # Time.

    def at(self, when, what, *arguments):
        heapq.heappush(self.due, (when, next(self.order), what, arguments))

    def after(self, now, zone, delay, what, *arguments):
        seconds = self.zone_delays.get(zone, {}).get(delay, self.delays[delay])
        self.at(now + seconds, what, *arguments)

    def settle(self):
        """Lets everything happen that is due."""
        now = self.clock.now()
        while self.due and self.due[0][0] <= now:
            when, _, what, arguments = heapq.heappop(self.due)
            what(when, *arguments)
        return now

    def note(self, now, name, state):
        self.events.append({"time": now, "name": name, "state": state})

    # Stock and quota.

    def used(self, zone, kind):
        """Chips that count: nodes with machines for the stock; whatever is not deleted, dead or alive, for the quota."""
        if kind == "stock":
            held = [n for n in self.nodes.values() if zone_of(n.name) == zone and self.node_life[n.name]["holds"]]
            return sum(shape_of(n.accelerator_type)[0] for n in held)
        chips = sum(chips_of(q) for q in self.queued.values() if zone_of(q.name) == zone)
        lone = [n for n in self.nodes.values() if zone_of(n.name) == zone and not n.queued_resource]
        return chips + sum(shape_of(n.accelerator_type)[0] for n in lone)

    def fits(self, zone, kind, chips):
        limit = getattr(self, kind).get(zone)
        return limit is None or self.used(zone, kind) + chips <= limit

    def over_quota(self, zone):
        return Refused(
            "RESOURCE_EXHAUSTED",
            f"Quota limit 'TPUPerProjectPerZoneForTPUAPI' has been exceeded. Limit: {self.quota[zone]} in zone {zone}.",
        )

    # Operations.

    def operation(self, now, target, verb):
        zone, project = zone_of(target), target.split("/")[1]
        name = f"projects/{project}/locations/{zone}/operations/operation-{uuid.uuid4()}"
        made = operations_pb2.Operation(name=name)
        metadata = OperationMetadata(target=target, verb=verb, api_version="v2")
        stamp(metadata.create_time, now)
        made.metadata.Pack(metadata)
        self.operations[name] = made
        return made

    def finish(self, now, name, result=None, error=None):
        operation = self.operations[name]
        if operation.done:
            return
        operation.done = True
        metadata = OperationMetadata()
        operation.metadata.Unpack(metadata)
        stamp(metadata.end_time, now)
        operation.metadata.Pack(metadata)
        if error is not None:
            operation.error.code, operation.error.message = error.code, error.message
        else:
            operation.response.Pack(result if result is not None else empty_pb2.Empty())

    # Nodes.

    def check_node(self, zone, node, node_id):
        if not ID.fullmatch(node_id):
            raise Refused("INVALID_ARGUMENT", f"Invalid node id {node_id!r}: it must match {ID.pattern}.")
        if node.accelerator_type and node.HasField("accelerator_config"):
            raise Refused("INVALID_ARGUMENT", "Only one of accelerator_type and accelerator_config may be set.")
        family = node.accelerator_type.rpartition("-")[0]
        if shape_of(node.accelerator_type) is None or family not in ZONES[zone]:
            raise Refused("INVALID_ARGUMENT", f"Accelerator type {node.accelerator_type!r} was not found in zone {zone}.")
        if node.runtime_version not in {f[3] for f in FAMILIES.values()} | {"tpu-ubuntu2204-base"}:
            raise Refused("INVALID_ARGUMENT", f"Runtime version {node.runtime_version!r} was not found.")
        for key, value in node.labels.items():
            if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
                raise Refused("INVALID_ARGUMENT", f"Invalid label {key!r}: {value!r}.")
        if len(node.labels) > 64:
            raise Refused("INVALID_ARGUMENT", "More than 64 labels.")
        for disk in node.data_disks:
            if not re.fullmatch(r"projects/[^/]+/zones/[^/]+/disks/[^/]+", disk.source_disk):
                raise Refused("INVALID_ARGUMENT", f"Invalid source disk {disk.source_disk!r}.")
            if disk.mode == 1 and shape_of(node.accelerator_type)[1] > 1:
                raise Refused("INVALID_ARGUMENT", "A disk of several hosts must be READ_ONLY.")
        scheduling = node.scheduling_config
        if scheduling.preemptible + scheduling.spot + scheduling.reserved > 1:
            raise Refused("INVALID_ARGUMENT", "Only one of preemptible, reserved and spot may be set.")

    def add_node(self, now, name, asked, queued_resource=""):
        node = Node()
        node.CopyFrom(asked)
        node.name, node.state, node.id = name, Node.CREATING, next(self.ids)
        node.api_version, node.queued_resource = Node.V2, queued_resource
        node.health = 0
        stamp(node.create_time, now)
        chips, hosts = shape_of(node.accelerator_type)
        spot = node.scheduling_config.spot or node.scheduling_config.preemptible
        if queued_resource:
            spot = self.queued[queued_resource].HasField("spot")
            node.scheduling_config.spot = spot
        life = {"kind": "node", "name": name, "zone": zone_of(name), "accelerator_type": node.accelerator_type, "chips": chips,
                "hosts": hosts, "spot": spot, "labels": dict(node.labels), "queued_resource": queued_resource, "created": now,
                "ready": None, "lost": None, "deleting": None, "deleted": None, "holds": True, "addresses": []}
        self.nodes[name], self.node_life[name] = node, life
        self.lives.append(life)
        self.note(now, name, "CREATING")
        return node

    def node_ready(self, now, name):
        node = self.nodes.get(name)
        if node is None or node.state != Node.CREATING:
            return
        life = self.node_life[name]
        node.state, node.health, life["ready"] = Node.READY, Node.HEALTHY, now
        for _ in range(life["hosts"]):
            address = self.addresses.pop(0) if self.addresses else None
            life["addresses"].append(address)
            endpoint = node.network_endpoints.add(port=8470)
            number = next(self.last_address)
            endpoint.ip_address = address or f"10.128.{number // 256 % 256}.{number % 256}"
            if node.network_config.enable_external_ips:
                endpoint.access_config.external_ip = address or f"203.0.113.{number % 256}"
        self.note(now, name, "READY")

    def node_ends(self, now, name):
        node = self.nodes.pop(name, None)
        if node is not None:
            life = self.node_life.pop(name)
            life["deleted"], life["holds"] = now, False
            self.addresses.extend(a for a in life["addresses"] if a)
            self.state_texts.pop(name, None)
            self.note(now, name, "deleted")
            self.retry_waiting(now, zone_of(name))

    def node_deleted(self, now, name, life, operation):
        if self.node_life.get(name) is life:
            self.node_ends(now, name)
        self.finish(now, operation)

    def node_deleting(self, now, name):
        node = self.nodes.get(name)
        if node is not None and node.state != Node.DELETING:
            node.state = Node.DELETING
            self.node_life[name]["deleting"] = now
            self.note(now, name, "DELETING")

    def create_node(self, now, parent, node_id, asked):
        zone, name = parent.split("/")[3], f"{parent}/nodes/{node_id}"
        self.check_node(zone, asked, node_id)
        if name in self.nodes:
            raise Refused("ALREADY_EXISTS", f"Resource '{name}' already exists")
        chips = shape_of(asked.accelerator_type)[0]
        if not self.fits(zone, "quota", chips):
            raise self.over_quota(zone)
        operation = self.operation(now, name, "create")
        if not self.fits(zone, "stock", chips):
            error = Refused("RESOURCE_EXHAUSTED", f'There is no more capacity in the zone "{zone}"; you can try in another zone.')
            self.after(now, zone, "accept", self.finish, operation.name, None, error)
            return operation
        self.add_node(now, name, asked)
        self.after(now, zone, "provision", self.lone_ready, name, self.node_life[name], operation.name)
        return operation

    def lone_ready(self, now, name, life, operation):
        if self.node_life.get(name) is life:
            self.node_ready(now, name)
            self.finish(now, operation, self.nodes[name])
        else:
            self.finish(now, operation, error=Refused("ABORTED", f"Resource '{name}' was deleted"))

    def delete_node(self, now, name):
        node = self.nodes.get(name)
        if node is None:
            raise Refused("NOT_FOUND", f"Resource '{name}' was not found")
        if node.state == Node.DELETING:
            raise Refused("FAILED_PRECONDITION", f"Resource '{name}' is being deleted")
        operation = self.operation(now, name, "delete")
        self.node_deleting(now, name)
        self.after(now, zone_of(name), "delete", self.node_deleted, name, self.node_life[name], operation.name)
        queued = self.queued.get(node.queued_resource)
        if queued is not None and queued.state.state == State.ACTIVE:
            self.suspend(now, queued.name, "USER")
        return operation

    # Queued resources.

    def set_queued(self, now, name, state, initiator="SERVICE", error=None):
        queued = self.queued[name]
        queued.state.Clear()
        queued.state.state = State[state]
        queued.state.state_initiator = cloud_tpu.QueuedResourceState.StateInitiator[initiator]
        field = {"WAITING_FOR_RESOURCES": None}.get(state, state.lower() + "_data")
        if field:
            getattr(queued.state, field).SetInParent()
        if error is not None:
            queued.state.failed_data.error.code, queued.state.failed_data.error.message = error.code, error.message
        self.note(now, name, state)

    def create_queued(self, now, parent, queued_id, asked, request_id):
        zone, name = parent.split("/")[3], f"{parent}/queuedResources/{queued_id}"
        if request_id:
            try:
                is_right = uuid.UUID(request_id).int != 0
            except ValueError:
                is_right = False
            if not is_right:
                raise Refused("INVALID_ARGUMENT", f"Invalid request id {request_id!r}: it must be a UUID.")
            before = self.request_ids.get((name, request_id))
            if before and now - before[0] < REQUEST_ID_SECONDS:
                return self.operations[before[1]]
        if not ID.fullmatch(queued_id):
            raise Refused("INVALID_ARGUMENT", f"Invalid queued resource id {queued_id!r}: it must match {ID.pattern}.")
        if not asked.tpu.node_spec:
            raise Refused("INVALID_ARGUMENT", "tpu.node_spec must not be empty.")
        for spec in asked.tpu.node_spec:
            if spec.parent != parent:
                raise Refused("INVALID_ARGUMENT", f"tpu.node_spec.parent {spec.parent!r} is not {parent!r}.")
            many = spec.multislice_params
            if spec.HasField("multislice_params") and not 2 <= many.node_count <= 256:
                raise Refused("INVALID_ARGUMENT", f"multislice_params.node_count is {many.node_count}, not 2 to 256.")
            if spec.node.scheduling_config.spot and not asked.HasField("spot"):
                raise Refused("INVALID_ARGUMENT", "A spot node needs a spot queued resource.")
            if spec.node.scheduling_config.reserved and asked.HasField("spot"):
                raise Refused("INVALID_ARGUMENT", "A reserved node in a spot queued resource.")
        for node_id, spec in node_ids(asked, queued_id):
            self.check_node(zone, spec.node, node_id)
            if f"{parent}/nodes/{node_id}" in self.nodes:
                raise Refused("ALREADY_EXISTS", f"Resource '{parent}/nodes/{node_id}' already exists")
        if asked.reservation_name and not re.fullmatch(r"projects/[^/]+/locations/[^/]+/reservations/[^/]+", asked.reservation_name):
            raise Refused("INVALID_ARGUMENT", f"Invalid reservation name {asked.reservation_name!r}.")
        if name in self.queued:
            raise Refused("ALREADY_EXISTS", f"Resource '{name}' already exists")
        fits = self.fits(zone, "quota", chips_of(asked))
        if not fits and not self.quota_fails_later:
            raise self.over_quota(zone)
        queued = QueuedResource()
        queued.CopyFrom(asked)
        queued.name = name
        stamp(queued.create_time, now)
        self.queued[name] = queued
        life = {"kind": "queued_resource", "name": name, "zone": zone, "created": now, "ready": None, "lost": None,
                "deleting": None, "deleted": None, "nodes": len(node_ids(asked, queued_id))}
        self.queued_life[name] = life
        self.lives.append(life)
        self.set_queued(now, name, "CREATING", "USER")
        operation = self.operation(now, name, "create")
        if request_id:
            self.request_ids[name, request_id] = (now, operation.name)
        self.after(now, zone, "accept", self.accept, name, life, operation.name, fits)
        until = valid_until(queued, now)
        if until is not None:
            self.at(until, self.expire, name, life)
        return operation

    def is_same(self, name, life):
        """Not one of the same name that came after it."""
        return self.queued_life.get(name) is life

    def accept(self, now, name, life, operation, fits):
        if not self.is_same(name, life) or self.queued[name].state.state != State.CREATING:
            return
        if not fits:
            self.set_queued(now, name, "FAILED", error=self.over_quota(zone_of(name)))
        else:
            self.set_queued(now, name, "ACCEPTED")
            start = max(now, valid_after(self.queued[name]) or now)
            self.after(start, zone_of(name), "queue", self.provision, name, life)
        self.finish(now, operation, self.queued[name])

    def provision(self, now, name, life):
        queued = self.queued.get(name)
        if not self.is_same(name, life) or queued.state.state not in (State.ACCEPTED, State.WAITING_FOR_RESOURCES):
            return
        if life.get("expired"):
            return
        zone = zone_of(name)
        if not self.fits(zone, "stock", chips_of(queued)):
            if queued.state.state != State.WAITING_FOR_RESOURCES:
                self.set_queued(now, name, "WAITING_FOR_RESOURCES")
            return
        self.set_queued(now, name, "PROVISIONING")
        for node_id, spec in node_ids(queued, name.split("/")[-1]):
            node = self.add_node(now, f"{spec.parent}/nodes/{node_id}", spec.node, name)
            node.multislice_node = spec.HasField("multislice_params")
        self.after(now, zone, "provision", self.activate, name, life)

    def retry_waiting(self, now, zone):
        waiting = [q for q in self.queued.values() if zone_of(q.name) == zone and q.state.state == State.WAITING_FOR_RESOURCES]
        for queued in waiting:
            self.provision(now, queued.name, self.queued_life[queued.name])

    def activate(self, now, name, life):
        if not self.is_same(name, life) or self.queued[name].state.state != State.PROVISIONING:
            return
        for node in self.nodes_of(name):
            self.node_ready(now, node.name)
        life["ready"] = now
        self.set_queued(now, name, "ACTIVE")

    def expire(self, now, name, life):
        queued = self.queued.get(name)
        waits = (State.CREATING, State.ACCEPTED, State.WAITING_FOR_RESOURCES)
        if not self.is_same(name, life) or queued.state.state not in waits:
            return
        life["expired"] = True
        if self.expired_says == "FAILED":
            late = Refused("DEADLINE_EXCEEDED", "The queued resource was not provisioned before its valid-until time.")
            self.set_queued(now, name, "FAILED", error=late)

    def suspend(self, now, name, initiator):
        self.set_queued(now, name, "SUSPENDING", initiator)
        self.queued_life[name]["lost"] = now
        self.after(now, zone_of(name), "suspend", self.suspended, name, self.queued_life[name], initiator)

    def suspended(self, now, name, life, initiator):
        if not self.is_same(name, life) or self.queued[name].state.state != State.SUSPENDING:
            return
        for node in self.nodes_of(name):
            self.node_ends(now, node.name)
        self.set_queued(now, name, "SUSPENDED", initiator)

    def nodes_of(self, name):
        return [n for n in self.nodes.values() if n.queued_resource == name]

    def delete_queued(self, now, name, force):
        queued = self.queued.get(name)
        if queued is None:
            raise Refused("NOT_FOUND", f"Resource '{name}' was not found")
        state = State(queued.state.state)
        still = (State.ACCEPTED, State.WAITING_FOR_RESOURCES, State.FAILED, State.SUSPENDED)
        if state in (State.DELETING, State.CREATING):
            raise Refused("FAILED_PRECONDITION", f"Queued resource '{name}' is {state.name} and cannot be deleted now.")
        if not force and state not in still and self.nodes_of(name):
            raise Refused("FAILED_PRECONDITION", f"Queued resource '{name}' is {state.name} and has nodes: use force.")
        operation = self.operation(now, name, "delete")
        self.set_queued(now, name, "DELETING", "USER")
        self.queued_life[name]["deleting"] = now
        for node in self.nodes_of(name):
            self.node_deleting(now, node.name)
        self.after(now, zone_of(name), "delete", self.queued_ends, name, self.queued_life[name], operation.name)
        return operation

    def queued_ends(self, now, name, life, operation):
        if self.is_same(name, life):
            for node in self.nodes_of(name):
                self.node_ends(now, node.name)
            del self.queued[name]
            self.queued_life.pop(name)["deleted"] = now
            self.state_texts.pop(name, None)
            self.note(now, name, "deleted")
        self.finish(now, operation)

    # What befalls a slice.

    def preempt(self, now, name, how):
        """`name` ends in the id of a node or a queued resource. `how`: PREEMPTED, or another state that the nodes then have,
        `silent` (everything says READY, the machines are gone), `vanish` (nodes are not there, the request says ACTIVE),
        `suspend` (the request is suspended, and nodes say READY until they are deleted)."""
        nodes = [n for n in self.nodes.values() if name in (n.name.split("/")[-1], n.queued_resource.split("/")[-1])]
        if not nodes:
            raise Refused("NOT_FOUND", f"no node of {name}")
        for node in nodes:
            life = self.node_life[node.name]
            life["lost"], life["holds"] = life["lost"] or now, False
            if how == "vanish":
                self.node_ends(now, node.name)
            elif how not in ("silent", "suspend"):
                node.state = Node.State.Value(how)
                self.note(now, node.name, how)
        for queued in {n.queued_resource for n in nodes if n.queued_resource in self.queued}:
            self.queued_life[queued]["lost"] = now
            if how in ("PREEMPTED", "suspend") and self.queued[queued].state.state == State.ACTIVE:
                self.suspend(now, queued, "SERVICE")
        return [n.name for n in nodes]


    def forget(self, now, name):
        """The request is gone, and its nodes are there."""
        for queued in [q for q in self.queued if q.split("/")[-1] == name]:
            del self.queued[queued]
            self.queued_life.pop(queued)["deleted"] = now


def zone_of(name):
    return name.split("/")[3]


def chips_of(queued):
    specs = node_ids(queued, "x")
    return sum(shape_of(spec.node.accelerator_type)[0] for _, spec in specs if shape_of(spec.node.accelerator_type))


def node_ids(queued, queued_id):
    """The nodes' ids, with what is asked of each."""
    ids = []
    for spec in queued.tpu.node_spec:
        if spec.HasField("multislice_params"):
            prefix = spec.multislice_params.node_id_prefix or queued_id
            ids += [(f"{prefix}-{n}", spec) for n in range(spec.multislice_params.node_count)]
        else:
            ids.append((spec.node_id, spec))
    return ids


def seconds_of(message):
    return message.seconds + message.nanos / 1e9


def valid_until(queued, now):
    policy = queued.queueing_policy
    kind = policy.WhichOneof("start_timing_constraints")
    if kind == "valid_until_duration":
        return now + seconds_of(policy.valid_until_duration)
    if kind == "valid_until_time":
        return seconds_of(policy.valid_until_time)
    if kind == "valid_interval":
        return seconds_of(policy.valid_interval.end_time)
    return None


def valid_after(queued):
    policy = queued.queueing_policy
    kind = policy.WhichOneof("start_timing_constraints")
    if kind == "valid_after_duration":
        return seconds_of(queued.create_time) + seconds_of(policy.valid_after_duration)
    if kind == "valid_after_time":
        return seconds_of(policy.valid_after_time)
    if kind == "valid_interval":
        return seconds_of(policy.valid_interval.start_time)
    return None


def stamp(timestamp, now):
    timestamp.seconds, timestamp.nanos = int(now), int(now % 1 * 1e6) * 1000
