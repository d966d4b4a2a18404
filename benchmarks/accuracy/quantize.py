"""Matmuls of activations with weights in bfloat16, int8 (as AQT trains) or float8 (as Qwix trains)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

Dot = Callable[[str, jax.Array, jax.Array], jax.Array]

COMPUTE = jnp.bfloat16

_E4M3_MAX = 448.0
_E5M2_MAX = 57344.0


def dot_for(quantization: str, calibration: str) -> Dot:
    """The matmul `einsum(spec, activation, weight)` with the gradient rule of a precision."""
    if quantization == "int8":
        return _int8_dot
    if quantization == "fp8":
        return functools.partial(_fp8_dot, calibration)
    return lambda spec, x, w: jnp.einsum(spec, x, w.astype(COMPUTE))


def _terms(spec: str) -> tuple[str, str, str]:
    operands, out = spec.split("->")
    a, b = operands.split(",")
    return a, b, out


def _gradients(spec: str) -> tuple[str, str]:
    a, b, out = _terms(spec)
    return f"{out},{b}->{a}", f"{a},{out}->{b}"


def _int8(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Integers and the scale per remaining index: absolute maximum over the contracted dimensions."""
    scale = jnp.max(jnp.abs(x), axis=axes, keepdims=True).astype(jnp.float32) / 127.0
    return jnp.round(x.astype(jnp.float32) / jnp.maximum(scale, 1e-30)).astype(jnp.int8), scale


def _int8_einsum(spec: str, x: jax.Array, y: jax.Array) -> jax.Array:
    a, b, out = _terms(spec)
    contracted = set(a) & set(b) - set(out)
    qx, sx = _int8(x, tuple(i for i, c in enumerate(a) if c in contracted))
    qy, sy = _int8(y, tuple(i for i, c in enumerate(b) if c in contracted))
    dot = jnp.einsum(spec, qx, qy, preferred_element_type=jnp.int32).astype(jnp.float32)

    def spread(scale: jax.Array, term: str) -> jax.Array:
        scale = jnp.squeeze(scale, tuple(i for i, c in enumerate(term) if c in contracted))
        kept = [c for c in term if c not in contracted]
        order = sorted(range(len(kept)), key=lambda i: out.index(kept[i]))
        scale = jnp.transpose(scale, order)
        return jnp.expand_dims(scale, tuple(i for i, c in enumerate(out) if c not in kept))

    return (dot * spread(sx, a) * spread(sy, b)).astype(COMPUTE)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _int8_dot(spec: str, x: jax.Array, w: jax.Array) -> jax.Array:
    return _int8_einsum(spec, x, w.astype(COMPUTE))


def _int8_fwd(spec: str, x: jax.Array, w: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _int8_dot(spec, x, w), (x, w)


def _int8_bwd(spec: str, kept: tuple[jax.Array, jax.Array], grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, w = kept
    to_x, to_w = _gradients(spec)
    return _int8_einsum(to_x, grad, w.astype(COMPUTE)), _int8_einsum(to_w, x, grad).astype(w.dtype)


_int8_dot.defvjp(_int8_fwd, _int8_bwd)


def _scale(x: jax.Array, calibration: str, largest: float) -> jax.Array:
    """One scale per tensor: `fixed,-A,A` knows it beforehand, `absmax` looks."""
    if calibration.startswith("fixed"):
        return jnp.float32(float(calibration.split(",")[-1]) / largest)
    return jnp.maximum(jnp.max(jnp.abs(x)).astype(jnp.float32) / largest, 1e-30)


def to_fp8(x: jax.Array, calibration: str) -> tuple[jax.Array, jax.Array]:
    """A forward operand as e4m3 and its scale."""
    scale = _scale(x, calibration, _E4M3_MAX)
    scaled = x.astype(jnp.float32) / scale
    return jnp.clip(scaled, -_E4M3_MAX, _E4M3_MAX).astype(jnp.float8_e4m3fn), scale


def gradient_to_fp8(grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A gradient as e5m2 and its scale."""
    scale = _scale(grad, "absmax", _E5M2_MAX)
    return (grad.astype(jnp.float32) / scale).astype(jnp.float8_e5m2), scale


def _scaled(spec: str, x: jax.Array, y: jax.Array, scale: jax.Array) -> jax.Array:
    return (jnp.einsum(spec, x, y, preferred_element_type=jnp.float32) * scale).astype(COMPUTE)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _fp8_dot(calibration: str, spec: str, x: jax.Array, w: jax.Array) -> jax.Array:
    return _fp8_fwd(calibration, spec, x, w)[0]


def _fp8_fwd(calibration: str, spec: str, x: jax.Array, w: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    qx, sx = to_fp8(x, calibration)
    qw, sw = to_fp8(w.astype(COMPUTE), calibration)
    return _scaled(spec, qx, qw, sx * sw), (qx, sx, qw, sw, jnp.zeros((), w.dtype))


def _fp8_bwd(
    calibration: str, spec: str, kept: tuple[jax.Array, ...], grad: jax.Array
) -> tuple[jax.Array, jax.Array]:
    del calibration
    qx, sx, qw, sw, like = kept
    to_x, to_w = _gradients(spec)
    qg, sg = gradient_to_fp8(grad)
    return _scaled(to_x, qg, qw, sg * sw), _scaled(to_w, qx, qg, sx * sg).astype(like.dtype)


_fp8_dot.defvjp(_fp8_fwd, _fp8_bwd)
