"""Convolutions in one to three dimensions with every attribute they have."""

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec

IMAGE, KERNEL = (2, 8, 8, 4), (3, 3, 4, 6)
NHWC = ("NHWC", "HWIO", "NHWC")


def programs() -> list[Program]:
    """All convolution programs."""
    return [*_forms(), *_ranks(), *_types(), *_gradients(), *_patches()]


def _conv(strides=(1, 1), padding="SAME", numbers=NHWC, **options):
    def run(x, w):
        return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **options)

    return run


def _forms() -> list[Program]:
    x, w = spec(IMAGE), spec(KERNEL)
    feature = ["convolution"]
    return [
        Program("conv_same", _conv(), [x, w], feature, generic=True, locations=True),
        Program("conv_valid_strided", _conv((2, 3), "VALID"), [x, w], feature),
        Program("conv_explicit_padding", _conv(padding=[(2, 1), (0, 3)]), [x, w], feature),
        Program("conv_negative_padding", _conv(padding=[(-1, 0), (0, -1)]), [x, w], feature),
        Program(
            "conv_lhs_dilated", _conv(padding=[(1, 1), (0, 2)], lhs_dilation=(2, 1)), [x, w], feature + ["dilation"]
        ),
        Program("conv_rhs_dilated", _conv(rhs_dilation=(1, 2)), [x, w], feature + ["dilation"], generic=True),
        Program(
            "conv_both_dilated",
            _conv(padding=[(1, 1), (0, 2)], lhs_dilation=(2, 2), rhs_dilation=(2, 1)),
            [x, w],
            feature,
        ),
        Program("conv_grouped", _conv(feature_group_count=2), [x, spec((3, 3, 2, 6))], feature + ["groups"]),
        Program("conv_depthwise", _conv(feature_group_count=4), [x, spec((3, 3, 1, 8))], feature + ["groups"]),
        Program("conv_batch_groups", _conv(batch_group_count=2), [x, w], feature + ["groups"], generic=True),
        Program(
            "conv_nchw", _conv(numbers=("NCHW", "OIHW", "NCHW")), [spec((2, 4, 8, 8)), spec((6, 4, 3, 3))], feature
        ),
        Program(
            "conv_odd_numbers",
            _conv(numbers=("CNHW", "WIOH", "HWNC")),
            [spec((4, 2, 8, 8)), spec((3, 4, 6, 3))],
            feature,
        ),
        Program("conv_highest", _conv(precision=lax.Precision.HIGHEST), [x, w], feature + ["precision"]),
        Program(
            "conv_mixed_precision",
            _conv(precision=(lax.Precision.HIGH, lax.Precision.DEFAULT)),
            [x, w],
            feature + ["precision"],
        ),
        Program("conv_transposed", _transposed("SAME"), [x, w], feature + ["transposed"]),
        Program("conv_transposed_valid", _transposed("VALID"), [x, w], feature + ["transposed"]),
        Program("conv_reversed_window", _transposed_kernel, [spec((2, 4, 4, 6)), w], feature + ["transposed"]),
        Program("conv_empty_batch", _conv(), [spec((0, 8, 8, 4)), w], feature + ["zero_size"]),
    ]


def _transposed(padding):
    return lambda x, w: lax.conv_transpose(x, w, (2, 2), padding)


def _transposed_kernel(x, w):
    return lax.conv_transpose(x, w, (2, 2), "SAME", transpose_kernel=True)


def _ranks() -> list[Program]:
    one, three = ("NWC", "WIO", "NWC"), ("NDHWC", "DHWIO", "NDHWC")
    return [
        Program("conv_0d", _conv((), [], ("NC", "IO", "NC")), [spec((2, 4)), spec((4, 6))], ["convolution", "rank0"]),
        Program("conv_1d", _conv((2,), "SAME", one), [spec((2, 16, 4)), spec((3, 4, 6))], ["convolution"]),
        Program("conv_1d_causal", _conv((1,), [(2, 0)], one), [spec((2, 16, 4)), spec((3, 4, 6))], ["convolution"]),
        Program(
            "conv_3d", _conv((1, 2, 1), "SAME", three), [spec((1, 4, 8, 8, 2)), spec((3, 3, 3, 2, 4))], ["convolution"]
        ),
        Program("convolve", lambda x, w: jnp.convolve(x, w, mode="full"), [spec((16,)), spec((3,))], ["convolution"]),
        Program(
            "conv_vmap",
            jax.vmap(_conv(), in_axes=(0, 0)),
            [spec((3, *IMAGE)), spec((3, *KERNEL))],
            ["convolution", "groups"],
        ),
    ]


def _types() -> list[Program]:
    accumulate_int = _conv(preferred_element_type=jnp.int32)
    accumulate_float = _conv(preferred_element_type=jnp.float32)
    return [
        Program(
            "conv_bf16",
            accumulate_float,
            [spec(IMAGE, jnp.bfloat16), spec(KERNEL, jnp.bfloat16)],
            ["convolution", "bfloat16"],
        ),
        Program("conv_int8", accumulate_int, [spec(IMAGE, jnp.int8), spec(KERNEL, jnp.int8)], ["convolution", "int8"]),
        Program(
            "conv_fp8",
            accumulate_float,
            [spec(IMAGE, jnp.float8_e4m3fn), spec(KERNEL, jnp.float8_e4m3fn)],
            ["convolution", "fp8"],
        ),
        Program(
            "conv_complex",
            _conv(),
            [spec(IMAGE, jnp.complex64), spec(KERNEL, jnp.complex64)],
            ["convolution", "complex"],
        ),
    ]


def _gradients() -> list[Program]:
    def loss(options):
        return lambda x, w: jnp.sum(_conv(**options)(x, w) ** 2)

    variants = {
        "plain": ({}, KERNEL),
        "strided": ({"strides": (2, 2)}, KERNEL),
        "grouped": ({"feature_group_count": 2}, (3, 3, 2, 6)),
        "dilated": ({"rhs_dilation": (2, 2)}, KERNEL),
    }
    return [
        Program(
            f"conv_gradient_{n}", jax.grad(loss(o), argnums=(0, 1)), [spec(IMAGE), spec(k)], ["convolution", "grad"]
        )
        for n, (o, k) in variants.items()
    ]


def _patches() -> list[Program]:
    return [
        Program(
            "conv_patches",
            lambda x: lax.conv_general_dilated_patches(x, (3, 3), (2, 2), "SAME"),
            [spec((2, 3, 8, 8))],
            ["convolution"],
        ),
        Program(
            "conv_local",
            lambda x, w: lax.conv_general_dilated_local(x, w, (1, 1), "VALID", (3, 3)),
            [spec((2, 3, 5, 5)), spec((4, 27, 3, 3))],
            ["convolution"],
        ),
    ]
