"""Runs JAX on a PJRT plugin and compares what it computes with NumPy: `jax_client.py LIBRARY [DEVICES]`.

Every check prints one line, `ok NAME`, `skipped NAME: reason` or `FAILED NAME: reason`; the exit status is 1 if one
failed.
"""

import os
import sys
import traceback

LIBRARY = sys.argv[1]
DEVICES = int(sys.argv[2]) if len(sys.argv) > 2 else 1
# Under this name the plugin takes the place of XLA:CPU, and JAX lowers programs for it as for XLA:CPU.
PLATFORM = "cpu"
os.environ["JAX_PLATFORMS"] = PLATFORM

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax._src import xla_bridge  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

xla_bridge.register_plugin(PLATFORM, library_path=LIBRARY, options={"cpu_device_count": DEVICES})

CHECKS = []


def check(function):
    """Registers a check."""
    CHECKS.append(function)
    return function


def several_devices(function):
    """Marks a check that one device cannot show."""
    function.needs_several_devices = True
    return function


def close(actual, expected, tolerance=1e-5):
    """Fails unless the arrays agree."""
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


def training_data():
    """A line with noise that NumPy made, so that no backend is involved."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(64, 4)).astype(np.float32)
    weights = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    return inputs, inputs @ weights + 0.25


@check
def devices():
    assert len(jax.devices()) == DEVICES
    assert jax.devices()[0].platform == PLATFORM
    assert jax.devices()[0].memory_stats()["bytes_in_use"] >= 0


@check
def training_loop():
    inputs, targets = training_data()
    parameters = {"w": jnp.zeros(4), "b": jnp.zeros(())}

    def loss(parameters, inputs, targets):
        return jnp.mean((inputs @ parameters["w"] + parameters["b"] - targets) ** 2)

    @jax.jit
    def step(parameters, inputs, targets):
        value, gradient = jax.value_and_grad(loss)(parameters, inputs, targets)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient), value

    w, b = np.zeros(4, np.float32), np.float32(0)
    for _ in range(30):
        parameters, value = step(parameters, inputs, targets)
        error = inputs @ w + b - targets
        expected = np.mean(error**2)
        w, b = w - 0.1 * 2 * inputs.T @ error / len(error), b - 0.1 * 2 * np.mean(error)
        close(value, expected, 1e-4)
    close(parameters["w"], w, 1e-4)
    close(parameters["b"], b, 1e-4)


@check
def two_layers_with_adam():
    inputs, targets = training_data()
    keys = jax.random.split(jax.random.key(0), 2)
    parameters = [jax.random.normal(keys[0], (4, 16)) / 2, jax.random.normal(keys[1], (16,)) / 4]

    def loss(parameters):
        return jnp.mean((jax.nn.gelu(inputs @ parameters[0]) @ parameters[1] - targets) ** 2)

    @jax.jit
    def step(parameters, m, v, t):
        value, g = jax.value_and_grad(loss)(parameters)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        update = lambda p, m, v: p - 0.05 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return jax.tree.map(update, parameters, m, v), m, v, value

    m = v = jax.tree.map(jnp.zeros_like, parameters)
    values = []
    for t in range(1, 31):
        parameters, m, v, value = step(parameters, m, v, float(t))
        values.append(float(value))
    assert values[-1] < values[0] / 4, values


@check
def vmap_over_a_batch():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    b = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    close(jax.vmap(lambda x, y: jnp.tanh(x @ y / 50))(a, b), np.tanh(a @ b / 50))


@check
def scan_and_its_gradient():
    def total(x):
        carry, ys = jax.lax.scan(lambda c, x: (c * 0.5 + x, c), jnp.float32(0), x)
        return carry + ys.sum()

    x = np.arange(1, 6, dtype=np.float32)
    carry, sum_ = np.float32(0), np.float32(0)
    for value in x:
        sum_ += carry
        carry = carry * 0.5 + value
    close(jax.jit(total)(x), carry + sum_)
    step = 1e-2
    numeric = [(total(x + step * e) - total(x - step * e)) / (2 * step) for e in np.eye(5, dtype=np.float32)]
    close(jax.grad(total)(x), np.array(numeric), 1e-2)


@check
def control_flow():
    collatz = lambda n: jax.lax.while_loop(
        lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)
    )[1]
    assert int(jax.jit(collatz)(27)) == 111
    pick = jax.jit(lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x))
    for i, function in enumerate([np.sin, np.cos, np.exp]):
        close(pick(i, jnp.float32(0.5)), function(0.5))


@check
def random_numbers():
    # Threefry gives the same bits on every backend.
    bits = jax.random.bits(jax.random.key(42), (4,), "uint32")
    again = jax.random.bits(jax.random.key(42), (4,), "uint32")
    assert np.array_equal(bits, again)
    sample = np.asarray(jax.random.normal(jax.random.key(1), (4000,)))
    assert abs(sample.mean()) < 0.06 and abs(sample.std() - 1) < 0.05
    permutation = np.asarray(jax.random.permutation(jax.random.key(2), 50))
    assert sorted(permutation) == list(range(50))


@check
def element_types():
    for dtype in ["int8", "uint8", "int16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64", "bool"]:
        x = jnp.arange(8).astype(dtype)
        assert x.dtype == dtype
        expected = np.arange(8).astype(np.asarray(x).dtype)
        assert np.array_equal(np.asarray(x), expected), dtype
        assert np.array_equal(np.asarray(jnp.concatenate([x, x[::-1]])), np.concatenate([expected, expected[::-1]])), dtype


@check
def numpy_functions():
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    close(jnp.sort(x, axis=1), np.sort(x, axis=1))
    close(jnp.cumsum(x, axis=0), np.cumsum(x, axis=0))
    close(jnp.einsum("ij,kj->ik", x, x), x @ x.T, 1e-4)
    close(jnp.fft.fft(x).real, np.fft.fft(x).real, 1e-4)
    close(x[jnp.array([3, 1])], x[[3, 1]])
    close(jnp.asarray(x).at[1, 2].add(5.0)[1, 2], x[1, 2] + 5)
    close(jnp.linalg.cholesky(x @ x.T + 5 * np.eye(5, dtype=np.float32)), np.linalg.cholesky(x @ x.T + 5 * np.eye(5)), 1e-3)
    close(jax.nn.softmax(x), np.exp(x) / np.exp(x).sum(-1, keepdims=True))


@check
def convolution():
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    w = np.ones((1, 1, 3, 3), np.float32)
    expected = np.array([[x[0, 0, i : i + 3, j : j + 3].sum() for j in range(3)] for i in range(3)])
    close(jax.lax.conv(x, w, (1, 1), "VALID")[0, 0], expected)


@check
def strided_host_arrays():
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(np.asarray(jnp.asarray(x.T) + 0), x.T)
    assert np.array_equal(np.asarray(jax.device_put(x[::-1, ::2])), x[::-1, ::2])


@check
def errors_reach_python():
    huge = jax.jit(lambda: jnp.zeros((1 << 20, 1 << 20), jnp.float32) + 1)
    try:
        jax.block_until_ready(huge())
    except Exception as error:  # JAX's own class differs between versions.
        assert "RESOURCE_EXHAUSTED" in str(error) or "too large" in str(error) or "elements" in str(error), error
        return
    raise AssertionError("a tensor of 2^40 elements was made")


@check
def queries_of_a_compiled_program():
    compiled = jax.jit(lambda x: x @ x).lower(jnp.ones((8, 8))).compile()
    assert compiled.cost_analysis()["flops"] >= 2 * 8**3
    assert compiled.memory_analysis().argument_size_in_bytes == 256
    close(compiled(jnp.ones((8, 8))), np.full((8, 8), 8.0))


@check
def many_in_flight():
    step = jax.jit(lambda x: x * 1.5 + 1)
    x, expected = jnp.ones(16), np.ones(16, np.float32)
    for _ in range(200):
        x, expected = step(x), np.minimum(expected * 1.5 + 1, np.finfo(np.float32).max)
        if expected[0] > 1e6:
            x, expected = x / 1e6, expected / 1e6
    close(x, expected, 1e-3)


@check
@several_devices
def sharded_jit():
    mesh = Mesh(np.array(jax.devices()).reshape(DEVICES // 2, 2), ("data", "model"))
    x = np.random.default_rng(2).normal(size=(DEVICES * 2, 12)).astype(np.float32)
    w = np.random.default_rng(3).normal(size=(12, 6)).astype(np.float32)
    xs = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data", None)))
    ws = jax.device_put(w, NamedSharding(mesh, PartitionSpec(None, "model")))
    y = jax.jit(lambda x, w: jnp.tanh(x @ w))(xs, ws)
    close(y, np.tanh(x @ w), 1e-4)
    out = NamedSharding(mesh, PartitionSpec("data", "model"))
    y = jax.jit(lambda x, w: jnp.tanh(x @ w), out_shardings=out)(xs, ws)
    assert y.sharding.is_equivalent_to(out, 2)
    close(y, np.tanh(x @ w), 1e-4)
    y = jax.jit(lambda x, w: jax.lax.with_sharding_constraint(x @ w, out))(xs, ws)
    assert y.sharding.is_equivalent_to(out, 2), y.sharding
    close(y, x @ w, 1e-4)


@check
@several_devices
def results_are_split_as_arguments_are():
    mesh = Mesh(np.array(jax.devices()).reshape(DEVICES // 2, 2), ("data", "model"))
    named = lambda *axes: NamedSharding(mesh, PartitionSpec(*axes))
    x = np.random.default_rng(4).normal(size=(DEVICES * 2, 12)).astype(np.float32)
    w = np.random.default_rng(5).normal(size=(12, 6)).astype(np.float32)
    xs, ws = jax.device_put(x, named("data", None)), jax.device_put(w, named(None, "model"))

    def has(function, arguments, expected, sharding):
        result = jax.jit(function)(*arguments)
        assert result.sharding.is_equivalent_to(sharding, result.ndim), (result.sharding, sharding)
        close(result, expected, 1e-4)

    has(lambda x, w: jnp.tanh(x @ w), (xs, ws), np.tanh(x @ w), named("data", "model"))
    has(lambda x: x.T, (xs,), x.T, named(None, "data"))
    has(lambda x: x.sum(1), (xs,), x.sum(1), named("data"))
    has(lambda x: x.sum(0), (xs,), x.sum(0), named())
    has(lambda x: x.reshape(DEVICES // 2, 4, 12), (xs,), x.reshape(DEVICES // 2, 4, 12), named("data"))
    has(lambda x: jnp.concatenate([x, x], 1), (xs,), np.concatenate([x, x], 1), named("data"))
    double = lambda x: jax.lax.fori_loop(0, 3, lambda _, y: 2 * y, x)
    has(double, (xs,), 8 * x, named("data"))
    # The argument that nobody placed goes where the other one is.
    has(lambda x, y: x + y, (xs, x), 2 * x, named("data"))


@check
@several_devices
def partial_sums_at_the_edge():
    mesh = jax.make_mesh((DEVICES,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = np.arange(DEVICES * 4, dtype=np.float32).reshape(4, DEVICES)
    y = np.arange(DEVICES * 2, dtype=np.float32).reshape(DEVICES, 2)
    with jax.set_mesh(mesh):
        xs = jax.device_put(x, PartitionSpec(None, "i"))
        ys = jax.device_put(y, PartitionSpec("i", None))
        partial = jax.jit(lambda x, y: jnp.einsum("ab,bc->ac", x, y, out_sharding=PartitionSpec(unreduced={"i"})))(xs, ys)
        for n, shard in enumerate(partial.addressable_shards):
            close(shard.data, x[:, n : n + 1] @ y[n : n + 1])
        close(jax.jit(lambda p: jax.reshard(p, PartitionSpec()))(partial), x @ y)


@check
@several_devices
def programs_of_one_device():
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), PartitionSpec("i"))
    x = jax.device_put(np.ones((DEVICES * 2, 3), np.float32), rows)
    text = lambda function: jax.jit(function).lower(x).compile().as_text()
    assert "all-reduce" in text(lambda x: x.max(0))
    assert "all-gather" in text(lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(rows.mesh, PartitionSpec())))
    numbered = text(lambda x: jnp.sin(x) + jax.lax.broadcasted_iota(np.float32, x.shape, 0))
    assert "all-" not in numbered and f"[{DEVICES * 2},3]" not in numbered, numbered


@check
@several_devices
def sharded_training_step():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    inputs, targets = training_data()
    split = NamedSharding(mesh, PartitionSpec("data"))
    w = jax.device_put(np.zeros(4, np.float32), NamedSharding(mesh, PartitionSpec()))
    loss = lambda w, x, y: jnp.mean((x @ w - y) ** 2)
    step = jax.jit(lambda w, x, y: w - 0.1 * jax.grad(loss)(w, x, y))
    xs, ys = jax.device_put(inputs, split), jax.device_put(targets, split)
    expected = np.zeros(4, np.float32)
    for _ in range(5):
        w = step(w, xs, ys)
        expected = expected - 0.2 * inputs.T @ (inputs @ expected - targets) / len(targets)
    close(w, expected, 1e-4)


@check
@several_devices
def replicated_collectives():
    x = np.arange(DEVICES * 3, dtype=np.float32).reshape(DEVICES, 3)
    close(jax.pmap(lambda x: x - jax.lax.pmean(x, "i"), axis_name="i")(x), x - x.mean(0))


@check
@several_devices
def shard_map_collectives():
    mesh = Mesh(np.array(jax.devices()), ("i",))
    x = np.arange(DEVICES * 3, dtype=np.float32).reshape(DEVICES, 3)
    spec = PartitionSpec("i")
    rotate = lambda x: jax.lax.ppermute(x, "i", [(n, (n + 1) % DEVICES) for n in range(DEVICES)]) + jax.lax.psum(x, "i")
    y = jax.jit(jax.shard_map(rotate, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    close(y, np.roll(x, 1, axis=0) + x.sum(0))


@check
@several_devices
def nested_shard_maps():
    mesh = Mesh(np.array(jax.devices()).reshape(2, DEVICES // 2), ("a", "b"))
    x = np.arange(DEVICES * 2, dtype=np.float32)
    a, b = PartitionSpec("a"), PartitionSpec("b")
    inner = jax.shard_map(lambda x: jax.lax.psum(x, "b"), in_specs=b, out_specs=PartitionSpec(), axis_names={"b"})
    outer = lambda x: inner(x) + jax.lax.axis_index("a")
    y = jax.jit(jax.shard_map(outer, mesh=mesh, in_specs=a, out_specs=a, axis_names={"a"}))(x)
    halves = x.reshape(2, DEVICES // 2, 2).sum(1) + np.arange(2)[:, None]
    close(y, halves.reshape(-1))


def main():
    failed = 0
    only = os.environ.get("JAX_CLIENT_ONLY")
    for function in CHECKS:
        if only and function.__name__ not in only.split(","):
            continue
        if DEVICES < 2 and hasattr(function, "needs_several_devices"):
            print(f"skipped {function.__name__}: it needs several devices", flush=True)
            continue
        try:
            function()
            print(f"ok {function.__name__}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED {function.__name__}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            traceback.print_exc()
    return 1 if failed else 0


sys.exit(main())
