"""Dots in every batching, contracting, precision and element-type form, and ragged dots."""

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec

NARROW_TYPES = [
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e3m4",
    "int8",
    "uint8",
    "int4",
]

EINSUMS = {
    "batched": ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    "outer": ("i,j->ij", (4,), (5,)),
    "attention_scores": ("bqhd,bkhd->bhqk", (2, 4, 3, 8), (2, 5, 3, 8)),
    "two_contracting": ("aijb,ijc->abc", (2, 3, 4, 5), (3, 4, 6)),
    "transposed_both": ("ji,kj->ik", (4, 3), (5, 4)),
    "inner": ("i,i->", (8,), (8,)),
    "diagonal": ("ii,ij->ij", (4, 4), (4, 4)),
}

ALGORITHMS = ["BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "F32_F32_F32", "F64_F64_F64"]


def programs() -> list[Program]:
    """All contraction programs."""
    return [*_einsums(), *_element_types(), *_precisions(), *_algorithms(), *_ragged()]


def _einsums() -> list[Program]:
    listed = [
        Program(
            f"einsum_{n}",
            lambda a, b, e=e: jnp.einsum(e, a, b),
            [spec(l), spec(r)],
            ["dot_general"],
            generic=n == "batched",
        )
        for n, (e, l, r) in EINSUMS.items()
    ]
    a, b = spec((4, 6)), spec((6, 5))
    listed += [
        Program("dot_matrix_vector", jnp.dot, [a, spec((6,))], ["dot_general"]),
        Program(
            "dot_gradient",
            jax.grad(lambda x, y: jnp.sum(jnp.tanh(x @ y)), argnums=(0, 1)),
            [a, b],
            ["dot_general", "grad"],
        ),
        Program(
            "einsum_three", lambda x, y, z: jnp.einsum("ij,jk,kl->il", x, y, z), [a, b, spec((5, 3))], ["dot_general"]
        ),
        Program(
            "tensordot",
            lambda x, y: jnp.tensordot(x, y, axes=[[0, 2], [1, 0]]),
            [spec((3, 4, 5)), spec((5, 3, 2))],
            ["dot_general"],
        ),
        Program("kron", jnp.kron, [spec((2, 3)), spec((3, 2))], ["dot_general"]),
        Program(
            "dot_empty_contraction", lambda x, y: x @ y, [spec((4, 0)), spec((0, 5))], ["dot_general", "zero_size"]
        ),
        Program("dot_batch_vmap", jax.vmap(jnp.dot, in_axes=(0, None)), [spec((3, 4, 6)), b], ["dot_general"]),
        Program("matmul_jvp", lambda x, y: jax.jvp(jnp.matmul, (x, y), (x, y)), [a, b], ["dot_general", "grad"]),
    ]
    return listed


def _element_types() -> list[Program]:
    listed = []
    for dtype in NARROW_TYPES:
        wide = jnp.int32 if "int" in dtype else jnp.float32
        listed.append(
            Program(
                f"dot_{dtype}",
                lambda a, b, w=wide: lax.dot(a, b, preferred_element_type=w),
                [spec((16, 32), dtype), spec((32, 8), dtype)],
                ["dot_general", dtype],
                generic=dtype == "int4",
            )
        )
    wide_pairs = {"f64": jnp.float64, "complex64": jnp.complex64, "complex128": jnp.complex128, "int32": jnp.int32}
    listed += [
        Program(
            f"dot_{n}", lax.dot, [spec((4, 6), d), spec((6, 5), d)], ["dot_general", n], x64=n in ("f64", "complex128")
        )
        for n, d in wide_pairs.items()
    ]
    mixed = {
        "bf16_int8": (jnp.bfloat16, jnp.int8),
        "fp8_pair": (jnp.float8_e4m3fn, jnp.float8_e5m2),
        "int8_int4": (jnp.int8, jnp.int4),
    }
    listed += [
        Program(f"dot_mixed_{n}", _mixed_dot, [spec((16, 32), l), spec((32, 8), r)], ["dot_general", "mixed"])
        for n, (l, r) in mixed.items()
    ]
    listed.append(
        Program(
            "quantised_matmul",
            _quantised_matmul,
            [spec((16, 32)), spec((32, 8), jnp.int8), spec((8,))],
            ["dot_general", "int8"],
        )
    )
    return listed


def _mixed_dot(a, b):
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)


def _quantised_matmul(x, w, scales):
    magnitude = jnp.max(jnp.abs(x), axis=1, keepdims=True) / 127.0
    quantised = jnp.clip(jnp.round(x / magnitude), -127, 127).astype(jnp.int8)
    dots = lax.dot(quantised, w, preferred_element_type=jnp.int32)
    return dots.astype(jnp.float32) * magnitude * scales


def _precisions() -> list[Program]:
    a, b = spec((8, 16)), spec((16, 4))
    listed = [
        Program(
            f"dot_precision_{p.name.lower()}",
            lambda x, y, p=p: lax.dot(x, y, precision=p),
            [a, b],
            ["dot_general", "precision"],
        )
        for p in lax.Precision
    ]
    pair = (lax.Precision.HIGHEST, lax.Precision.DEFAULT)
    listed.append(
        Program("dot_precision_pair", lambda x, y: lax.dot(x, y, precision=pair), [a, b], ["precision"], generic=True)
    )
    return listed


def _algorithms() -> list[Program]:
    a, b = spec((8, 16)), spec((16, 4))
    return [
        Program(
            f"dot_algorithm_{n.lower()}",
            lambda x, y, n=n: lax.dot(x, y, precision=lax.DotAlgorithmPreset[n]),
            [a, b],
            ["dot_general", "algorithm"],
            x64=n == "F64_F64_F64",
            platform="tpu" if n.startswith("BF16") else "cpu",
            generic=n.endswith("X3"),
        )
        for n in ALGORITHMS
    ]


def _ragged() -> list[Program]:
    x, w, sizes = spec((12, 8)), spec((3, 8, 4)), spec((3,), jnp.int32)
    gradient = jax.grad(lambda a, b, s: jnp.sum(lax.ragged_dot(a, b, s)), argnums=(0, 1))
    return [
        Program("ragged_dot", lax.ragged_dot, [x, w, sizes], ["ragged_dot"]),
        Program("ragged_dot_cpu", lax.ragged_dot, [x, w, sizes], ["ragged_dot"], platform="cpu"),
        Program("ragged_dot_gradient", gradient, [x, w, sizes], ["ragged_dot", "grad"]),
    ]
