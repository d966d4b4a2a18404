"""Programs that move data: reshape, transpose, pad, slice, concatenate, broadcast, and dynamic shapes."""

import jax
import jax.numpy as jnp
from jax import export, lax

from corpus.program import Program, spec


def programs() -> list[Program]:
    """All shape programs."""
    return [*_static(), *_padding(), *_joining(), *_transforms(), *_polymorphic(), *_artifact_versions()]


def _static() -> list[Program]:
    x = spec((2, 3, 4))
    return [
        Program("reshape", lambda v: jnp.reshape(v, (6, 4)), [x], ["reshape"], generic=True),
        Program("reshape_to_scalar", lambda v: v.reshape(()), [spec((1, 1))], ["reshape"]),
        Program("transpose", lambda v: lax.transpose(v, (2, 0, 1)), [x], ["transpose"], generic=True),
        Program("broadcast", lambda v: lax.broadcast(v, (5,)), [x], ["broadcast"]),
        Program(
            "broadcast_in_dim",
            lambda v: lax.broadcast_in_dim(v, (4, 2, 3), (1, 2)),
            [spec((2, 3))],
            ["broadcast"],
            generic=True,
        ),
        Program("broadcast_expand", lambda v: jnp.broadcast_to(v, (3, 7, 4)), [spec((1, 4))], ["broadcast"]),
        Program("reverse", lambda v: lax.rev(v, (0, 2)), [x], ["reverse"]),
        Program("squeeze", lambda v: lax.squeeze(v, (0, 2)), [spec((1, 3, 1, 4))], ["reshape"]),
        Program("slice", lambda v: lax.slice(v, (0, 1, 0), (2, 3, 4), (1, 1, 2)), [x], ["slice"], generic=True),
        Program(
            "iota",
            lambda: (lax.iota(jnp.int32, 8), lax.broadcasted_iota(jnp.bfloat16, (3, 4), 1)),
            [],
            ["iota"],
            generic=True,
        ),
        Program("iota_complex", lambda: jnp.arange(4, dtype=jnp.complex64), [], ["iota"]),
        Program(
            "eye_tri", lambda: (jnp.eye(4), jnp.tril(jnp.ones((3, 3))), jnp.triu(jnp.ones((3, 3)), 1)), [], ["iota"]
        ),
        Program("linspace", lambda a: jnp.linspace(a, 1.0, 9), [spec(())], ["iota"]),
        Program("meshgrid", lambda a, b: jnp.meshgrid(a, b), [spec((3,)), spec((4,))], ["broadcast"]),
        Program("moveaxis", lambda v: jnp.moveaxis(v, 0, -1), [x], ["transpose"]),
        Program("rot90", jnp.rot90, [spec((3, 4))], ["reverse"]),
        Program("flip_int4", lambda v: jnp.flip(v), [spec((8,), jnp.int4)], ["reverse", "int4"]),
        Program("expand_dims", lambda v: jnp.expand_dims(v, (0, 3)), [x], ["broadcast"]),
    ]


def _padding() -> list[Program]:
    x = spec((4, 5))
    return [
        Program("pad_edges", lambda v: lax.pad(v, 0.0, [(1, 2, 0), (0, 1, 0)]), [x], ["pad"], generic=True),
        Program("pad_negative", lambda v: lax.pad(v, 0.0, [(-1, 0, 0), (0, -2, 0)]), [x], ["pad"]),
        Program("pad_interior", lambda v: lax.pad(v, 1.5, [(0, 0, 2), (1, 1, 1)]), [x], ["pad"]),
        Program("pad_interior_negative", lambda v: lax.pad(v, 0.0, [(-1, -1, 1), (2, -3, 2)]), [x], ["pad"]),
        Program(
            "pad_int", lambda v, p: lax.pad(v, p, [(1, 1, 0)]), [spec((5,), jnp.int8), spec((), jnp.int8)], ["pad"]
        ),
        Program("pad_reflect", lambda v: jnp.pad(v, 2, mode="reflect"), [x], ["pad", "concatenate"]),
        Program("pad_wrap", lambda v: jnp.pad(v, ((1, 2), (2, 1)), mode="wrap"), [x], ["pad", "concatenate"]),
        Program("pad_linear_ramp", lambda v: jnp.pad(v, 2, mode="linear_ramp"), [x], ["pad"]),
        Program(
            "pad_gradient",
            jax.grad(lambda v: jnp.sum(lax.pad(v, 0.0, [(1, 2, 1), (0, -1, 0)]) ** 2)),
            [x],
            ["pad", "grad"],
        ),
    ]


def _joining() -> list[Program]:
    x = spec((2, 3))
    return [
        Program(
            "concatenate",
            lambda a, b, c: lax.concatenate([a, b, c], 0),
            [x, spec((1, 3)), x],
            ["concatenate"],
            generic=True,
        ),
        Program("concatenate_one", lambda a: lax.concatenate([a], 1), [x], ["concatenate"]),
        Program(
            "concatenate_empty",
            lambda a, b: jnp.concatenate([a, b], 1),
            [x, spec((2, 0))],
            ["concatenate", "zero_size"],
        ),
        Program("stack", lambda a, b: jnp.stack([a, b], axis=1), [x, x], ["concatenate"]),
        Program("split", lambda v: jnp.split(v, [2, 5], axis=1), [spec((3, 8))], ["slice"]),
        Program("split_equal", lambda v: lax.split(v, (2, 2, 4), axis=1), [spec((3, 8))], ["slice"]),
        Program("tile", lambda v: jnp.tile(v, (2, 3)), [x], ["broadcast"]),
        Program("repeat", lambda v: jnp.repeat(v, 3, axis=0), [x], ["broadcast"]),
        Program(
            "repeat_dynamic",
            lambda v, n: jnp.repeat(v, n, axis=0, total_repeat_length=7),
            [x, spec((2,), jnp.int32)],
            ["gather"],
        ),
        Program("roll", lambda v: jnp.roll(v, 1, axis=1), [x], ["concatenate"]),
        Program("concatenate_many", lambda *a: jnp.concatenate(a), [spec((1,))] * 40, ["concatenate"]),
        Program("block", lambda a: jnp.block([[a, a], [a, a]]), [x], ["concatenate"]),
    ]


def _transforms() -> list[Program]:
    x, c = spec((4, 16)), spec((4, 8, 8), jnp.complex64)
    return [
        Program("fft", jnp.fft.fft, [spec((4, 16), jnp.complex64)], ["fft"], generic=True),
        Program("ifft2", jnp.fft.ifft2, [c], ["fft"]),
        Program("rfft", jnp.fft.rfft, [x], ["fft"]),
        Program("irfft", lambda v: jnp.fft.irfft(v, 16), [spec((4, 9), jnp.complex64)], ["fft"]),
        Program("fftn_3d", jnp.fft.fftn, [c], ["fft"]),
        Program("fft_f64", jnp.fft.rfft, [spec((4, 16), jnp.float64)], ["fft", "float64"], x64=True),
        Program("fft_gradient", jax.grad(lambda v: jnp.sum(jnp.abs(jnp.fft.rfft(v)) ** 2)), [x], ["fft", "grad"]),
        Program("fftshift", jnp.fft.fftshift, [x], ["concatenate"]),
        Program("dct", lambda v: jax.scipy.fft.dct(v), [x], ["fft"]),
        Program("image_resize", lambda v: jax.image.resize(v, (8, 8, 3), "bilinear"), [spec((4, 4, 3))], ["resize"]),
        Program(
            "image_resize_nearest", lambda v: jax.image.resize(v, (8, 8, 3), "nearest"), [spec((4, 4, 3))], ["resize"]
        ),
        Program("map_coordinates", _sample, [spec((8, 8)), spec((2, 5))], ["gather"]),
    ]


def _sample(image, coordinates):
    return jax.scipy.ndimage.map_coordinates(image, list(coordinates), order=1)


def _symbolic(text: str, dtype=jnp.float32):
    return spec(export.symbolic_shape(text), dtype)


def _polymorphic() -> list[Program]:
    def case(name, function, arguments, platform="tpu", **options):
        return Program(
            f"poly_{name}",
            function,
            arguments,
            ["dynamic_shape", "export"],
            platform=platform,
            route="export",
            **options,
        )

    b = _symbolic("b, 4")
    scope = export.SymbolicScope()
    pair = [spec(export.symbolic_shape(s, scope=scope)) for s in ("m, k", "k, n")]
    return [
        case("add", lambda v: v + 1.0, [b], generic=True),
        case("reshape", lambda v: v.reshape((-1,)), [b], generic=True),
        case("matmul", lambda x, y: x @ y, pair),
        case("concatenate", lambda v: jnp.concatenate([v, v], axis=0), [b]),
        case("softmax", lambda v: jax.nn.softmax(v, axis=0), [b]),
        case("iota", lambda v: jnp.arange(v.shape[0]) + v.shape[0], [b]),
        case("pad", lambda v: jnp.pad(v, ((1, 2), (0, 0))), [b]),
        case("slice", lambda v: v[1:, ::2], [_symbolic("b + 2, 4")]),
        case("gather", lambda v, i: v[i], [b, spec((3,), jnp.int32)]),
        case("dynamic_slice", lambda v: lax.dynamic_slice_in_dim(v, 1, 2), [_symbolic("b + 3, 4")]),
        case("conv", lambda v, w: lax.conv(v, w, (1, 1), "SAME"), [_symbolic("b, 3, h, h"), spec((4, 3, 3, 3))]),
        case("reduce_window", lambda v: lax.reduce_window(v, 0.0, lax.add, (2, 1), (2, 1), "SAME"), [b]),
        case("scan", lambda v: lax.scan(lambda c, r: (c + r, c), jnp.zeros(4), v), [b]),
        case("constraint", lambda v: v * 2, [_symbolic("b, 2*b")]),
        case("cpu_and_tpu", lambda v: jnp.tanh(v), [b], platform="cpu+tpu"),
        case("random", lambda k, v: jax.random.normal(k, v.shape), [spec((2,), jnp.uint32), b]),
        case("broadcast", lambda v: jnp.broadcast_to(v[:, None], (v.shape[0], 3, 4)), [b]),
        case("sort", lambda v: jnp.sort(v, axis=0), [b]),
        case("floordiv", lambda v: v.reshape((v.shape[0] // 2, 8)), [_symbolic("2*b, 4")]),
        case("gradient", jax.grad(lambda v: jnp.sum(jnp.tanh(v) ** 2)), [b]),
    ]


def _artifact_versions() -> list[Program]:
    """The same function written as older portable artifacts."""

    def run(x, w):
        return jax.nn.softmax(jnp.tanh(x @ w), axis=-1)

    arguments = [spec((4, 8)), spec((8, 3))]
    return [
        Program(
            f"artifact_{v.replace('.', '_')}", run, arguments, ["artifact_version"], artifact_version=v, locations=True
        )
        for v in ("0.9.0", "0.14.0", "1.0.0", "1.8.0", "1.13.0")
    ]
