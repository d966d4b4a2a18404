"""Measures what a training step costs on 8 virtual devices of the CPU plugin against one: `step.py libcpu_plugin.so [--seconds 2]`.

The devices share the cores of one machine, so a step of the same global batch should take as long on 8 as on one. Samples of all
ways to split the step alternate with those of one device. The exit status is 1 where one costs more than --most times one device's.
"""

import argparse
import os
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("plugin")
parser.add_argument("--seconds", type=float, default=2.0, help="for each way")
parser.add_argument("--most", type=float, default=1.15)
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--batch", type=int, default=1024)
parser.add_argument("--partitions", default="together", choices=["together", "apart"], help="who computes what")
parser.add_argument("--clock", default="wall", choices=["wall", "cpu"], help="cpu: what all threads took, on a machine with other work")
args = parser.parse_args()
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax._src import xla_bridge  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

DEVICES = 8
clock = {"wall": time.perf_counter, "cpu": time.process_time}[args.clock]
OPTIONS = {"cpu_device_count": DEVICES, "partitions": args.partitions}
xla_bridge.register_plugin("cpu", library_path=os.path.abspath(args.plugin), options=OPTIONS)


def forward(parameters, x):
    """A residual network of two matmuls a layer."""
    for up, down in zip(parameters["up"], parameters["down"]):
        x = x + jax.nn.gelu(x @ up) @ down
    return x


def loss(parameters, x, y):
    """Mean squared error."""
    return jnp.mean((forward(parameters, x) - y) ** 2)


def step(state, x, y):
    """One step of Adam."""
    value, gradients = jax.value_and_grad(loss)(state["parameters"], x, y)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], gradients)
    parameters = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["parameters"], m, v)
    return {"parameters": parameters, "m": m, "v": v}, value


def manual_step(mesh):
    """The same with the gradients of each device's rows, summed by the program."""

    def local(state, x, y):
        value, gradients = jax.value_and_grad(loss)(state["parameters"], x, y)
        gradients = jax.tree.map(lambda g: jax.lax.pmean(g, "i"), gradients)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], gradients)
        parameters = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["parameters"], m, v)
        return {"parameters": parameters, "m": m, "v": v}, jax.lax.pmean(value, "i")

    return jax.shard_map(local, mesh=mesh, in_specs=(P(), P("i"), P("i")), out_specs=(P(), P()), check_vma=False)


def manual_gradients(mesh):
    """Gradients by a manual computation, the optimizer outside of it."""

    def local(parameters, x, y):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        return jax.lax.pmean(value, "i"), jax.tree.map(lambda g: jax.lax.pmean(g, "i"), gradients)

    local = jax.shard_map(local, mesh=mesh, in_specs=(P(), P("i"), P("i")), out_specs=(P(), P()), check_vma=False)

    def whole(state, x, y):
        value, gradients = local(state["parameters"], x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], gradients)
        parameters = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["parameters"], m, v)
        return {"parameters": parameters, "m": m, "v": v}, value

    return whole


def ways():
    """Name, function, sharding of `up`, of `down`, of the rows."""
    one = Mesh(np.array(jax.devices()[:1]), ("i",))
    mesh = Mesh(np.array(jax.devices()), ("i",))
    on = lambda mesh, *axes: NamedSharding(mesh, P(*axes))
    yield "one device", step, on(one), on(one), on(one)
    yield "data parallel", step, on(mesh), on(mesh), on(mesh, "i")
    yield "fully sharded data parallel", step, on(mesh, "i"), on(mesh, "i"), on(mesh, "i")
    yield "tensor parallel", step, on(mesh, None, "i"), on(mesh, "i"), on(mesh)
    yield "shard_map, whole step", manual_step(mesh), on(mesh), on(mesh), on(mesh, "i")
    yield "shard_map, gradients", manual_gradients(mesh), on(mesh), on(mesh), on(mesh, "i")


class Way:
    """A step, compiled, with its state on its devices."""

    def __init__(self, name, function, up, down, rows):
        generator = np.random.default_rng(0)
        normal = lambda *dims: generator.normal(size=dims).astype(np.float32)
        width, hidden = args.width, 4 * args.width
        weights = [(normal(width, hidden) / width**0.5, normal(hidden, width) / hidden**0.5) for _ in range(args.layers)]
        put = lambda scale: {
            "up": [jax.device_put(scale * w, up) for w, _ in weights],
            "down": [jax.device_put(scale * w, down) for _, w in weights],
        }
        self.name, self.samples, self.values = name, [], []
        self.state = {"parameters": put(1), "m": put(0), "v": put(0)}
        self.x, self.y = (jax.device_put(normal(args.batch, width), rows) for _ in range(2))
        shardings = jax.tree.map(lambda a: a.sharding, self.state)
        self.function = jax.jit(function, donate_argnums=0, out_shardings=(shardings, None))

    def run(self):
        start = clock()
        self.state, value = self.function(self.state, self.x, self.y)
        jax.block_until_ready((self.state, value))
        self.samples.append(clock() - start)
        self.values.append(float(value))


def main():
    """Prints a table in Markdown."""
    all_ways = [Way(*way) for way in ways()]
    for way in all_ways:
        way.run()
        way.samples.clear()
    end = time.perf_counter() + args.seconds * len(all_ways)
    while time.perf_counter() < end or len(all_ways[0].samples) < 3:
        for way in all_ways:
            way.run()
    for way in all_ways:
        np.testing.assert_allclose(way.values[:3], all_ways[0].values[:3], rtol=1e-3, err_msg=way.name)
    least = lambda way: min(way.samples)
    print("| step | fastest ms | median ms | to one device |\n|---|---|---|---|")
    worst = 0.0
    for way in all_ways:
        ratio = least(way) / least(all_ways[0])
        worst = max(worst, ratio)
        print(f"| {way.name} | {1e3 * least(way):.1f} | {1e3 * statistics.median(way.samples):.1f} | {ratio:.2f} |")
    return int(worst > args.most)


sys.exit(main())
