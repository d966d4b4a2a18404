"""Custom calls, host callbacks, composites, tokens, memory spaces, layouts, and Pallas TPU kernels."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback, pallas as pl
from jax.experimental.layout import Format, Layout
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import SingleDeviceSharding

from corpus.program import Program, spec


def programs() -> list[Program]:
    """All programs that reach outside plain StableHLO arithmetic."""
    return [*_custom_calls(), *_callbacks(), *_composites(), *_memories(), *_kernels(), *_exports()]


def _custom_calls() -> list[Program]:
    x = spec((4, 8))
    result = jax.ShapeDtypeStruct((4, 8), jnp.float32)
    plain = jax.ffi.ffi_call("example_target", result)
    pair = jax.ffi.ffi_call("example_pair", (result, jax.ShapeDtypeStruct((), jnp.int32)), has_side_effect=True)
    aliased = jax.ffi.ffi_call("example_aliased", result, input_output_aliases={0: 0})
    layouts = jax.ffi.ffi_call("example_layouts", result, input_layouts=[(0, 1)], output_layouts=(1, 0))
    legacy = jax.ffi.ffi_call(
        "example_legacy", result, custom_call_api_version=1, legacy_backend_config='opaque \x01 "bytes"'
    )
    attributes = {
        "scale": np.float32(0.5),
        "name": "text",
        "axes": np.array([1, 2], np.int64),
        "flag": True,
        "count": 3,
    }
    return [
        Program("custom_call_plain", plain, [x], ["custom_call"], generic=True),
        Program("custom_call_attributes", lambda v: plain(v, **attributes), [x], ["custom_call"], generic=True),
        Program("custom_call_tuple", pair, [x], ["custom_call"]),
        Program("custom_call_aliased", aliased, [x], ["custom_call"], generic=True),
        Program("custom_call_layouts", layouts, [x], ["custom_call"]),
        Program("custom_call_legacy", legacy, [x], ["custom_call"], generic=True),
        Program(
            "custom_call_vmap",
            jax.vmap(jax.ffi.ffi_call("rowwise", jax.ShapeDtypeStruct((8,), jnp.float32), vmap_method="broadcast_all")),
            [x],
            ["custom_call"],
        ),
    ]


def _callbacks() -> list[Program]:
    x = spec((4,))
    shape = jax.ShapeDtypeStruct((4,), jnp.float32)
    host = {"platform": "cpu"}
    return [
        Program("callback_pure", lambda v: jax.pure_callback(np.sin, shape, v), [x], ["callback"], **host),
        Program("callback_io", lambda v: io_callback(np.sin, shape, v), [x], ["callback"], **host),
        Program(
            "callback_io_ordered",
            lambda v: io_callback(np.sin, shape, v, ordered=True),
            [x],
            ["callback", "token"],
            generic=True,
            **host,
        ),
        Program("callback_print", _print_twice, [x], ["callback", "token"], **host),
        Program("callback_in_scan", _scan_with_callback, [x], ["callback", "token", "scan"], **host),
    ]


def _print_twice(v):
    jax.debug.print("value {}", v, ordered=True)
    jax.debug.print("again {}", v.sum(), ordered=True)
    return v


def _scan_with_callback(v):
    def step(carry, _):
        jax.debug.print("carry {}", carry, ordered=True)
        return carry + 1, None

    return lax.scan(step, v, None, length=3)[0]


def _composites() -> list[Program]:
    x = spec((4, 8))
    return [
        Program("composite", lambda v: _scaled_tanh(v, scale=2.0), [x], ["composite"], generic=True),
        Program("composite_two_results", _moments, [x], ["composite"]),
        Program("composite_nested", _outer_composite, [x], ["composite"]),
        Program(
            "composite_attributes",
            functools.partial(_decorated, dims=np.array([1, 2]), label='a "b"'),
            [x],
            ["composite"],
        ),
    ]


@functools.partial(lax.composite, name="example.scaled_tanh", version=3)
def _scaled_tanh(v, *, scale):
    return jnp.tanh(v) * scale


@functools.partial(lax.composite, name="example.moments")
def _moments(v):
    return jnp.mean(v), jnp.var(v)


@functools.partial(lax.composite, name="example.outer")
def _outer_composite(v):
    return _scaled_tanh(v, scale=0.5) + 1


@functools.partial(lax.composite, name="example.decorated")
def _decorated(v, *, dims, label):
    del dims, label
    return v * 3


def _memories() -> list[Program]:
    x = spec((8, 128))
    device = jax.devices()[0]
    pinned = SingleDeviceSharding(device, memory_kind="pinned_host")
    on_device = SingleDeviceSharding(device, memory_kind="device")
    column_major = Format(Layout((1, 0)), on_device)
    rows = Format(Layout((0, 1)), on_device)
    return [
        Program("offload_result", lambda v: v * 2, [x], ["memory_space"], jit={"out_shardings": pinned}),
        Program(
            "offload_argument",
            lambda v: jax.device_put(v, on_device) + 1,
            [spec((8, 128), sharding=pinned)],
            ["memory_space"],
        ),
        Program(
            "offload_middle",
            lambda v: jax.device_put(jax.device_put(v + 1, pinned), on_device) * 2,
            [x],
            ["memory_space"],
            generic=True,
        ),
        Program("offload_activations", jax.grad(_offloaded_loss), [spec((128, 128))], ["memory_space", "remat"]),
        Program(
            "layout_modes", lambda v: v.T, [x], ["layout"], jit={"in_shardings": column_major, "out_shardings": rows}
        ),
        Program(
            "layout_auto",
            lambda v: v.T,
            [x],
            ["layout"],
            jit={"in_shardings": Format(Layout.AUTO), "out_shardings": Format(Layout.AUTO)},
        ),
        Program(
            "layout_constraint",
            lambda v: jax.experimental.layout.with_layout_constraint(v * 2, Layout((1, 0))) + 1,
            [x],
            ["layout", "custom_call"],
        ),
        Program("compute_on_host", _host_compute, [x], ["compute_on"]),
        Program("xla_metadata", _tagged, [x], ["frontend_attributes"], generic=True),
    ]


def _offloaded_loss(v):
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["hidden"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    @functools.partial(jax.checkpoint, policy=policy)
    def layer(a):
        hidden = checkpoint_name(jnp.sin(a @ a), "hidden")
        return jnp.tanh(hidden @ a)

    return layer(v).sum()


def _host_compute(v):
    from jax.experimental.compute_on import compute_on

    @compute_on("device_host")
    @jax.jit
    def doubled(a):
        return a * 2

    return doubled(v) + 1


def _tagged(v):
    from jax.experimental.xla_metadata import set_xla_metadata

    with set_xla_metadata(example_key="value", number=7):
        return jnp.sin(v) + 1


def _kernels() -> list[Program]:
    x = spec((256, 256))
    return [
        Program("pallas_add_one", _pallas_add_one, [x], ["pallas", "custom_call"]),
        Program(
            "pallas_matmul",
            _pallas_matmul,
            [spec((256, 512), jnp.bfloat16), spec((512, 256), jnp.bfloat16)],
            ["pallas", "custom_call"],
            generic=True,
        ),
        Program(
            "pallas_in_scan",
            lambda v: lax.scan(lambda c, _: (_pallas_add_one(c), None), v, None, length=3)[0],
            [x],
            ["pallas", "scan"],
        ),
        Program("flash_attention", _flash_attention, [spec((1, 2, 256, 128))] * 3, ["pallas", "custom_call"]),
    ]


def _pallas_add_one(v):
    def kernel(source, target):
        target[...] = source[...] + 1.0

    block = pl.BlockSpec((128, 128), lambda i, j: (i, j))
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(v.shape, v.dtype), grid=(2, 2), in_specs=[block], out_specs=block
    )(v)


def _pallas_matmul(a, b):
    def kernel(left, right, out, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(left[...], right[...], preferred_element_type=jnp.float32)
        out[...] = total[...].astype(out.dtype)

    size = 128
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype),
        grid=(a.shape[0] // size, b.shape[1] // size, a.shape[1] // size),
        in_specs=[
            pl.BlockSpec((size, size), lambda i, j, k: (i, k)),
            pl.BlockSpec((size, size), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((size, size), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((size, size), jnp.float32)],
    )(a, b)


def _flash_attention(q, k, v):
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    return flash_attention(q, k, v, causal=True)


def _exports() -> list[Program]:
    x = spec((4, 8))
    route = {"route": "export"}
    return [
        Program("export_mlp", lambda v, w: jnp.tanh(v @ w), [x, spec((8, 3))], ["export"], locations=True, **route),
        Program("export_two_platforms", lambda v: lax.cumsum(v, axis=1), [x], ["export"], platform="cpu+tpu", **route),
        Program(
            "export_static_while",
            lambda v: lax.fori_loop(0, 3, lambda i, c: c + i, v),
            [x],
            ["export", "while"],
            **route,
        ),
        Program("export_donated", lambda v: v + 1, [x], ["export", "donation"], jit={"donate_argnums": (0,)}, **route),
    ]
