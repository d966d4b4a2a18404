"""Google's own Cloud TPU client against a stand-in: creates, lists and deletes, and prints what it saw as JSON.

usage: cloud_tpu_client.py PORT
"""

import json
import sys

from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuRestTransport

PARENT = "projects/test/locations/us-west4-a"


def main():
    transport = TpuRestTransport(host=f"127.0.0.1:{sys.argv[1]}", credentials=AnonymousCredentials(), url_scheme="http")
    client = tpu_v2.TpuClient(transport=transport)
    seen = {}

    node = tpu_v2.Node(accelerator_type="v5litepod-16", runtime_version="v2-alpha-tpuv5-lite", labels={"made": "google"})
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=PARENT, node_id="peer", node=node)
    queued = tpu_v2.QueuedResource(tpu={"node_spec": [spec]}, spot={})
    made = client.create_queued_resource(parent=PARENT, queued_resource=queued, queued_resource_id="peer").result(timeout=30)
    seen["queued"] = made.name
    states = set()
    while "ACTIVE" not in states:
        states.add(client.get_queued_resource(name=made.name).state.state.name)
    seen["active"] = True
    seen["listed"] = [q.name for q in client.list_queued_resources(parent=PARENT)]
    there = client.get_node(name=f"{PARENT}/nodes/peer")
    seen["node"] = [there.state.name, len(there.network_endpoints), dict(there.labels), there.scheduling_config.spot]

    single = client.create_node(parent=PARENT, node_id="single", node=node).result(timeout=30)
    seen["single"] = single.state.name
    seen["nodes"] = sorted(n.name.split("/")[-1] for n in client.list_nodes(parent=PARENT))
    seen["types"] = [t.type_ for t in client.list_accelerator_types(parent=PARENT)]
    seen["zones"] = len(client.list_locations({"name": "projects/test"}).locations)

    for what, ask in {
        "again": lambda: client.create_node(parent=PARENT, node_id="single", node=node),
        "unforced": lambda: client.delete_queued_resource(name=made.name),
        "unknown": lambda: client.get_node(name=f"{PARENT}/nodes/none"),
    }.items():
        try:
            ask()
        except exceptions.GoogleAPICallError as error:
            seen[what] = type(error).__name__

    client.delete_node(name=single.name).result(timeout=30)
    force = tpu_v2.DeleteQueuedResourceRequest(name=made.name, force=True)
    client.delete_queued_resource(request=force).result(timeout=30)
    seen["left"] = len(list(client.list_nodes(parent=PARENT))) + len(list(client.list_queued_resources(parent=PARENT)))
    json.dump(seen, sys.stdout)


main()
