"""Constants of every element type and size: splats, lists, hexadecimal blobs, NaNs and infinities."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from corpus.program import Program

LISTED_TYPES = [
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e3m4",
    "float8_e4m3",
    "int32",
    "int16",
    "int8",
    "int4",
    "uint32",
    "uint16",
    "uint8",
    "uint4",
    "complex64",
    "bool",
    "int2",
    "uint2",
    "float4_e2m1fn",
    "float8_e8m0fnu",
]


def programs() -> list[Program]:
    """All constant programs."""
    return [*_listed(), *_wide(), *_special_values(), *_sizes()]


def _constant(name, array, **options) -> Program:
    return Program(f"constant_{name}", lambda: jnp.asarray(array), [], ["constant"], **options)


def _listed() -> list[Program]:
    values = np.array([[0, 1, -1, 1], [1, 0, 1, -1]])
    listed = []
    for dtype in LISTED_TYPES:
        source = np.abs(values) if dtype.startswith(("u", "bool", "float8_e8m0")) else values
        listed.append(
            _constant(f"list_{dtype}", source.astype(jnp.dtype(dtype)), generic=dtype in ("int4", "complex64", "bool"))
        )
        listed.append(_constant(f"splat_{dtype}", np.ones((3, 5)).astype(jnp.dtype(dtype))))
    return listed


def _wide() -> list[Program]:
    values = np.array([0.1, -2.5e300, 1e-310, 3.0])
    return [
        _constant("list_float64", values, x64=True),
        _constant("list_int64", np.array([2**63 - 1, -(2**63), 0, -1]), x64=True),
        _constant("list_uint64", np.array([2**64 - 1, 0, 7], np.uint64), x64=True),
        _constant("list_complex128", values + 1j * values[::-1], x64=True),
    ]


def _special_values() -> list[Program]:
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 3.4028235e38, 0.1], np.float32)
    payload = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    return [
        _constant("special_f32", odd),
        _constant("nan_payloads", payload),
        _constant("special_bf16", odd.astype(ml_dtypes.bfloat16)),
        _constant("special_f16", np.array([np.nan, np.inf, -np.inf, -0.0, 6e-8], np.float16)),
        _constant("special_fp8", np.array([np.nan, 448.0, -0.0, 0.001953125], ml_dtypes.float8_e4m3fn)),
        _constant("special_e5m2", np.array([np.nan, np.inf, -np.inf, -0.0], ml_dtypes.float8_e5m2)),
        _constant("special_complex", np.array([complex(np.nan, np.inf), complex(-0.0, -np.inf)], np.complex64)),
        _constant("splat_nan", np.full((3,), np.nan, np.float32)),
        _constant("splat_negative_infinity", np.full((3,), -np.inf, ml_dtypes.bfloat16)),
        _constant("splat_negative_zero", np.full((3,), -0.0, np.float32)),
        _constant("scalar_true", np.array(True)),
        _constant("scalar_complex", np.array(1 - 2j, np.complex64)),
        _constant("special_f64", np.array([np.nan, np.inf, 5e-324, 1.7976931348623157e308]), x64=True),
        _constant("integer_limits", np.array([2**31 - 1, -(2**31)], np.int32)),
        _constant("decimal_digits", np.array([0.1, 1 / 3, 1e10, 1e-10, 123456.789, 16777217.0], np.float32)),
    ]


def _sizes() -> list[Program]:
    ramp = np.arange(64 * 1024, dtype=np.float32).reshape(256, 256) * 0.37 - 5.0
    return [
        _constant("empty", np.zeros((0,), np.float32)),
        _constant("empty_rank3", np.zeros((2, 0, 3), np.int32)),
        _constant("nested_lists", np.arange(2 * 3 * 4, dtype=np.int32).reshape(2, 3, 4)),
        _constant("hundred_floats", (np.arange(100, dtype=np.float32) / 7.0)),
        _constant("hundred_bools", (np.arange(100) % 3 == 0)),
        _constant("big_f32", ramp, generic=True),
        _constant("big_bf16", ramp.astype(ml_dtypes.bfloat16)),
        _constant("big_int8", (np.arange(4096) % 251).astype(np.int8)),
        _constant("big_int4", (np.arange(4096) % 15 - 7).astype(ml_dtypes.int4)),
        _constant("big_uint4", (np.arange(3001) % 16).astype(ml_dtypes.uint4)),
        _constant("big_bool", (np.arange(5003) % 7 < 3)),
        _constant("big_complex", (np.arange(3000) * (1 - 0.5j)).astype(np.complex64)),
        _constant("big_fp8", (np.arange(4096) % 17 - 8).astype(ml_dtypes.float8_e5m2)),
        _constant("big_int64", np.arange(2000) * 10**15, x64=True),
        _constant("big_splat", np.full((1024, 1024), 0.25, np.float32)),
        _constant("big_int32", np.arange(5000, dtype=np.int32) - 2500),
        _constant("big_f64", np.arange(2000) / 3.0, x64=True),
        _constant("big_f16", (np.arange(2000) / 3.0).astype(np.float16)),
        _constant("megabyte", np.sin(np.arange(512 * 1024, dtype=np.float32))),
    ]
