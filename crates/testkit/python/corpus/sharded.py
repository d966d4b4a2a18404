"""Programs over eight devices: GSPMD and Shardy annotations, manual collectives, donation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from corpus.program import Program, spec


def programs() -> list[Program]:
    """All sharded programs; each partitioned one in Shardy and in GSPMD form."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    shardy = [*_partitioned(mesh), *_collectives(mesh), *_explicit_axes()]
    return [*shardy, *map(_as_gspmd, shardy), *map(_without_sdy, shardy[::3]), *_donation(mesh)]


def _as_gspmd(program: Program) -> Program:
    return dataclasses.replace(
        program, name=f"{program.name}_gspmd", shardy=False, features=[*program.features, "gspmd"]
    )


def _without_sdy(program: Program) -> Program:
    features = [*program.features, "sdy_round_trip"]
    return dataclasses.replace(program, name=f"{program.name}_as_custom_calls", keep_sdy=False, features=features)


def _partitioned(mesh: Mesh) -> list[Program]:
    def on(*axes):
        return NamedSharding(mesh, P(*axes))

    x, w1, w2 = (
        spec((16, 32), sharding=on("data", None)),
        spec((32, 64), sharding=on(None, "model")),
        spec((64, 32), sharding=on("model", None)),
    )
    constrain = lax.with_sharding_constraint
    feature = ["sharding"]
    return [
        Program(
            "shard_ffn",
            lambda v, a, b: jnp.tanh(v @ a) @ b,
            [x, w1, w2],
            feature,
            jit={"out_shardings": on("data", None)},
            generic=True,
            locations=True,
        ),
        Program("shard_constraint", lambda v: constrain(v * 2, on("model", "data")) + 1, [x], feature, generic=True),
        Program("shard_constraint_partial", lambda v: constrain(v * 2, on(P.UNCONSTRAINED, "model")), [x], feature),
        Program(
            "shard_two_axes_one_dim", lambda v: v + 1, [spec((16, 4), sharding=on(("data", "model"), None))], feature
        ),
        Program(
            "shard_two_axes_swapped", lambda v: v + 1, [spec((16, 4), sharding=on(("model", "data"), None))], feature
        ),
        Program("shard_replicated", lambda v: v.sum(), [spec((16, 4), sharding=on())], feature),
        Program(
            "shard_scan",
            lambda v, a: lax.scan(lambda c, m: (constrain(jnp.tanh(c @ m), on("data", None)), None), v, a)[0],
            [x, spec((3, 32, 32), sharding=on(None, None, "model"))],
            feature + ["scan"],
        ),
        Program(
            "shard_train_step", _train_step, [w1, x, spec((16, 64), sharding=on("data", "model"))], feature + ["grad"]
        ),
        Program(
            "shard_gather_table",
            lambda t, i: t[i],
            [spec((64, 8), sharding=on("model", None)), spec((16,), jnp.int32, sharding=on("data"))],
            feature + ["gather"],
        ),
        Program("shard_sort", lambda v: jnp.sort(v, axis=1), [x], feature + ["sort"]),
        Program(
            "shard_auto_layout",
            lambda v: v.T,
            [x],
            feature + ["layout"],
            jit={"in_shardings": (on("data", None),), "out_shardings": on(None, "data")},
        ),
        Program(
            "shard_conv",
            lambda v, k: lax.conv(v, k, (1, 1), "SAME"),
            [spec((8, 3, 8, 8), sharding=on("data")), spec((8, 3, 3, 3), sharding=on("model"))],
            feature + ["convolution"],
        ),
        Program(
            "shard_cond",
            lambda p, v: lax.cond(p, lambda a: constrain(a, on("model")), jnp.sin, v),
            [spec((), bool), x],
            feature + ["case"],
        ),
        Program(
            "shard_rng",
            lambda k: jax.random.normal(jax.random.wrap_key_data(k), (16, 8), out_sharding=None),
            [spec((2,), jnp.uint32, sharding=on())],
            feature + ["random"],
            jit={"out_shardings": on("data", None)},
        ),
    ]


def _train_step(w, x, y):
    loss, gradient = jax.value_and_grad(lambda p: jnp.mean((x @ p - y) ** 2))(w)
    return w - 0.1 * gradient, loss


def _collectives(mesh: Mesh) -> list[Program]:
    def case(name, body, in_specs, out_specs, shapes, dtype=jnp.float32, **options):
        mapped = jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False, **options)
        return Program(
            f"collective_{name}",
            mapped,
            [spec(s, dtype) for s in shapes],
            ["shard_map", "collective"],
            generic=name in ("psum", "ppermute"),
        )

    d, m = P("data"), P("model")
    shape = [(16, 8)]
    ring = [(i, (i + 1) % 4) for i in range(4)]
    return [
        case("psum", lambda v: lax.psum(v, "model"), m, P(), shape),
        case("psum_both", lambda v: lax.psum(v, ("data", "model")), P(("data", "model")), P(), shape),
        case("psum_int", lambda v: lax.psum(v, "data"), d, P(), shape, jnp.int32),
        case("pmax_pmin", lambda v: (lax.pmax(v, "model"), lax.pmin(v, "data")), m, (P(), P()), shape),
        case("pmean", lambda v: lax.pmean(v, "data"), d, P(), shape, jnp.bfloat16),
        case("psum_groups", lambda v: lax.psum(v, "model", axis_index_groups=[[0, 1], [2, 3]]), m, m, shape),
        case("all_gather", lambda v: lax.all_gather(v, "model"), m, P(None, None), shape),
        case("all_gather_tiled", lambda v: lax.all_gather(v, "model", axis=1, tiled=True), m, m, shape),
        case("ppermute", lambda v: lax.ppermute(v, "model", ring), m, m, shape),
        case("all_to_all", lambda v: lax.all_to_all(v, "model", 1, 0, tiled=True), m, m, shape),
        case("all_to_all_stacked", lambda v: lax.all_to_all(v.reshape(4, 4, 2), "model", 0, 1), m, m, [(16, 8)]),
        case(
            "psum_scatter",
            lambda v: lax.psum_scatter(v, "model", scatter_dimension=1, tiled=True),
            P(),
            P(None, "model"),
            shape,
        ),
        case("axis_index", lambda v: v + lax.axis_index("model"), m, m, shape),
        case("axis_index_two", lambda v: v + lax.axis_index(("data", "model")), m, m, shape),
        # Only the GPU lowering of this primitive exists.
        dataclasses.replace(
            case("broadcast", lambda v: lax.pbroadcast(v, ("model",), 2), m, m, shape), platform="cuda"
        ),
        case(
            "manual_ring_matmul", _ring_matmul, (P("model", None), P(None, None)), P("model", None), [(16, 8), (8, 8)]
        ),
        case("gradient", jax.grad(lambda v: lax.psum(jnp.sum(v**2), "data")), d, d, shape),
        case("partly_manual", lambda v: lax.psum(v, "data"), d, P(), shape, axis_names={"data"}),
        case(
            "while_inside", lambda v: lax.fori_loop(0, 3, lambda _, c: lax.ppermute(c, "model", ring), v), m, m, shape
        ),
        _ragged_all_to_all(mesh),
    ]


def _ring_matmul(x, w):
    def step(_, carry):
        block, total = carry
        return lax.ppermute(block, "model", [(i, (i + 1) % 4) for i in range(4)]), total + block @ w

    return lax.fori_loop(0, 4, step, (x, jnp.zeros_like(x)))[1]


def _ragged_all_to_all(mesh: Mesh) -> Program:
    def body(v, out, sizes):
        return lax.ragged_all_to_all(v, out, sizes, sizes, sizes, sizes, axis_name="model")

    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=(P("model"), P("model"), P()), out_specs=P("model"), check_vma=False
    )
    return Program(
        "collective_ragged_all_to_all",
        mapped,
        [spec((16, 4)), spec((16, 4)), spec((4,), jnp.int32)],
        ["shard_map", "collective"],
    )


def _explicit_axes() -> list[Program]:
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)

    def on(*axes):
        return NamedSharding(mesh, P(*axes))

    a, b = spec((16, 32), sharding=on("x", None)), spec((32, 64), sharding=on(None, "y"))
    return [
        Program("explicit_matmul", lambda v, w: jnp.tanh(v @ w), [a, b], ["sharding", "explicit"], mesh=mesh),
        Program(
            "explicit_reshard",
            lambda v: jax.sharding.reshard(v, P(None, "y")) * 2,
            [a],
            ["sharding", "explicit"],
            mesh=mesh,
        ),
        Program(
            "explicit_einsum",
            lambda v, w: jnp.einsum("ij,jk->ik", v, w, out_sharding=P("x", "y")),
            [a, b],
            ["sharding", "explicit"],
            mesh=mesh,
        ),
    ]


def _donation(mesh: Mesh) -> list[Program]:
    x = spec((8, 8))
    sharded = spec((8, 8), sharding=NamedSharding(mesh, P("data")))
    donate = {"jit": {"donate_argnums": (0,)}}
    return [
        Program("donate_alias", lambda v, w: v + w, [x, x], ["donation"], generic=True, **donate),
        Program(
            "donate_many", lambda v, w: (v + 1, w * 2), [x, spec((3,))], ["donation"], jit={"donate_argnums": (0, 1)}
        ),
        Program("donate_unmatched", lambda v: v.astype(jnp.bfloat16), [x], ["donation"], **donate),
        Program("donate_sharded", lambda v, w: v + w, [sharded, sharded], ["donation", "sharding"], **donate),
        Program("donate_sharded_auto", lambda v: v @ v, [sharded], ["donation", "sharding"], **donate),
    ]
