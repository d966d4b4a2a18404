"""Says where libtpu puts one look-up of rows by its default flags, without a TPU: `TOPOLOGY,ROWS,SIZE,IDS,TYPE[,FLAG=VALUE...]` each.

JAX 0.10.2 cannot print a program in which SparseCores run something: the printer stops at an instruction of an asynchronous call. That is what
tells the two apart here.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

TYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def place(topology, rows, size, ids, dtype, flags):
    device = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]
    mesh = jax.sharding.Mesh(np.array([device]), ("x",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    look_up = jax.jit(
        lambda table, ids: jnp.take(table, ids, axis=0, mode="clip") * 2, in_shardings=(whole, whole), out_shardings=whole
    )
    shapes = jax.ShapeDtypeStruct((rows, size), TYPES[dtype]), jax.ShapeDtypeStruct((ids,), jnp.int32)
    compiled = look_up.trace(*shapes).lower().compile(compiler_options=flags or None)
    try:
        compiled.as_text()
    except jax.errors.JaxRuntimeError as error:
        if "async-update instruction" not in str(error):
            raise
        return "SparseCores"
    return "TensorCore"


for case in sys.argv[1:]:
    topology, rows, size, ids, dtype, *flags = case.split(",")
    flags = dict(flag.split("=") for flag in flags)
    print(case, place(topology, int(rows), int(size), int(ids), dtype, flags), flush=True)
