"""Element-by-element programs: every unary, binary and ternary operation, over every element type."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from corpus.program import Program, spec

FLOAT_UNARY = {
    "abs": lax.abs,
    "neg": lax.neg,
    "sign": lax.sign,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "exp": lax.exp,
    "exp2": lax.exp2,
    "expm1": lax.expm1,
    "log": lax.log,
    "log1p": lax.log1p,
    "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt,
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "asin": lax.asin,
    "acos": lax.acos,
    "atan": lax.atan,
    "sinh": lax.sinh,
    "cosh": lax.cosh,
    "tanh": lax.tanh,
    "asinh": lax.asinh,
    "acosh": lax.acosh,
    "atanh": lax.atanh,
    "logistic": lax.logistic,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erf_inv": lax.erf_inv,
    "lgamma": lax.lgamma,
    "digamma": lax.digamma,
    "bessel_i0e": lax.bessel_i0e,
    "bessel_i1e": lax.bessel_i1e,
    "is_finite": lax.is_finite,
    "square": lax.square,
    "i0": jnp.i0,
    "sinc": jnp.sinc,
    "isnan": jnp.isnan,
    "isinf": jnp.isinf,
    "frexp": jnp.frexp,
    "modf": jnp.modf,
    "nan_to_num": jnp.nan_to_num,
    "ndtri": special.ndtri,
    "log_ndtr": special.log_ndtr,
    "entr": special.entr,
}

FLOAT_BINARY = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "pow": lax.pow,
    "max": lax.max,
    "min": lax.min,
    "atan2": lax.atan2,
    "nextafter": lax.nextafter,
    "igamma": lax.igamma,
    "igammac": lax.igammac,
    "igamma_grad_a": lax.igamma_grad_a,
    "zeta": lax.zeta,
    "polygamma": lax.polygamma,
    "logaddexp": jnp.logaddexp,
    "hypot": jnp.hypot,
    "fmod": jnp.fmod,
    "floor_divide": jnp.floor_divide,
    "copysign": jnp.copysign,
    "heaviside": jnp.heaviside,
    "xlogy": special.xlogy,
}

COMPARISONS = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}

INTEGER_UNARY = {"not": lax.bitwise_not, "popcount": lax.population_count, "clz": lax.clz}

INTEGER_BINARY = {
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "int_div": lax.div,
    "int_rem": lax.rem,
    "gcd": jnp.gcd,
    "lcm": jnp.lcm,
    "mulhi": lax.mulhi,
}

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "softplus": jax.nn.softplus,
    "hard_swish": jax.nn.hard_swish,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "mish": jax.nn.mish,
    "glu": jax.nn.glu,
    "relu6": jax.nn.relu6,
    "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False),
    "standardize": jax.nn.standardize,
}

ELEMENT_TYPES = [
    "float64",
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
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int64",
    "int32",
    "int16",
    "int8",
    "int4",
    "int2",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "uint4",
    "uint2",
    "complex64",
    "complex128",
    "bool",
]

WIDE = ("float64", "int64", "uint64", "complex128")


def programs() -> list[Program]:
    """All elementwise programs."""
    return [*_float_operations(), *_integer_operations(), *_complex_operations(), *_element_types(), *_mixtures()]


def _float_operations() -> list[Program]:
    x = spec((4, 8))
    listed = [
        Program(f"unary_{n}", f, [x], ["elementwise"], generic=n in ("tanh", "erf_inv")) for n, f in FLOAT_UNARY.items()
    ]
    listed += [Program(f"binary_{n}", f, [x, x], ["elementwise"], generic=n == "add") for n, f in FLOAT_BINARY.items()]
    listed += [Program(f"compare_{n}", f, [x, x], ["compare"], generic=n == "lt") for n, f in COMPARISONS.items()]
    listed += [
        Program(f"activation_{n}", f, [x], ["elementwise"], locations=n == "gelu_tanh") for n, f in ACTIVATIONS.items()
    ]
    listed += [
        Program(f"round_{mode.name.lower()}", lambda v, mode=mode: lax.round(v, mode), [x], ["elementwise"])
        for mode in lax.RoundingMethod
    ]
    listed += [
        Program(f"grad_{n}", jax.grad(lambda v, f=FLOAT_UNARY[n]: jnp.sum(f(v))), [x], ["grad"])
        for n in ("tanh", "logistic", "cbrt", "erf_inv", "lgamma", "asin", "rsqrt")
    ]
    for dtype in ("bfloat16", "float16", "float64"):
        v = spec((16,), dtype)
        wide = dtype in WIDE
        listed.append(Program(f"tanh_{dtype}", lax.tanh, [v], ["elementwise", dtype], x64=wide))
        listed.append(Program(f"erf_{dtype}", lax.erf, [v], ["elementwise", dtype], x64=wide))
        listed.append(Program(f"lgamma_{dtype}", lax.lgamma, [v], ["elementwise", dtype], x64=wide))
    return listed


def _integer_operations() -> list[Program]:
    x, u = spec((4, 8), jnp.int32), spec((4, 8), jnp.uint8)
    listed = [Program(f"integer_{n}", f, [x], ["integer"]) for n, f in INTEGER_UNARY.items()]
    listed += [Program(f"integer_{n}", f, [x, x], ["integer"]) for n, f in INTEGER_BINARY.items()]
    listed += [Program(f"unsigned_{n}", COMPARISONS[n], [u, u], ["compare", "uint8"]) for n in ("lt", "ge")]
    listed += [
        Program(f"predicate_{n}", INTEGER_BINARY[n], [spec((8,), bool)] * 2, ["bool"]) for n in ("and", "or", "xor")
    ]
    listed += [
        Program(f"integer_pow_{p}", lambda v, p=p: lax.integer_pow(v, p), [spec((8,))], ["elementwise"])
        for p in (-3, 2, 7)
    ]
    return listed


def _complex_operations() -> list[Program]:
    c, x = spec((4, 8), jnp.complex64), spec((4, 8))
    unary = {
        "real": lax.real,
        "imag": lax.imag,
        "conj": lax.conj,
        "abs": lax.abs,
        "exp": lax.exp,
        "log": lax.log,
        "sqrt": lax.sqrt,
        "tanh": lax.tanh,
        "sign": lax.sign,
        "angle": jnp.angle,
        "log1p": lax.log1p,
        "asin": lax.asin,
        "sin": lax.sin,
        "acosh": lax.acosh,
        "rsqrt": lax.rsqrt,
    }
    listed = [Program(f"complex_{n}", f, [c], ["complex"]) for n, f in unary.items()]
    listed += [
        Program(f"complex_{n}", f, [c, c], ["complex"])
        for n, f in {"mul": lax.mul, "div": lax.div, "pow": lax.pow}.items()
    ]
    listed.append(Program("complex_make", lax.complex, [x, x], ["complex"]))
    listed.append(Program("complex_compare", lax.eq, [c, c], ["complex", "compare"]))
    return listed


def _element_types() -> list[Program]:
    listed = []
    for dtype in ELEMENT_TYPES:
        to_float = Program(
            f"convert_from_{dtype}", lambda v: v.astype(jnp.float32), [spec((3, 5), dtype)], ["convert", dtype]
        )
        if dtype.startswith("complex"):
            to_float = Program(f"convert_from_{dtype}", lambda v: v.real, [spec((3, 5), dtype)], ["convert", dtype])
        from_float = Program(
            f"convert_to_{dtype}", lambda v, d=dtype: lax.convert_element_type(v, d), [spec((3, 5))], ["convert", dtype]
        )
        listed += [_widened(to_float, dtype), _widened(from_float, dtype)]
    return listed


def _widened(program: Program, dtype: str) -> Program:
    return Program(program.name, program.function, program.arguments, program.features, x64=dtype in WIDE)


def _mixtures() -> list[Program]:
    x, i = spec((4, 8)), spec((4, 8), jnp.int32)
    mask = spec((4, 8), bool)
    return [
        Program("clamp", lambda v: lax.clamp(-1.0, v, 1.0), [x], ["elementwise"], generic=True),
        Program("clamp_full", lax.clamp, [x, x, x], ["elementwise"]),
        Program("select", lax.select, [mask, x, x], ["elementwise"], generic=True),
        Program("select_scalar", lax.select, [spec((), bool), x, x], ["elementwise"]),
        Program("select_many", lambda w, a, b, c: lax.select_n(w, a, b, c), [i, x, x, x], ["elementwise"]),
        Program("betainc", lax.betainc, [x, x, x], ["elementwise"]),
        Program("where_gradient", jax.grad(lambda v: jnp.where(v > 0, v, 0.1 * v).sum()), [x], ["grad"]),
        Program("reduce_precision", lambda v: lax.reduce_precision(v, 5, 10), [x], ["elementwise"], generic=True),
        Program("bitcast_same", lambda v: lax.bitcast_convert_type(v, jnp.int32), [x], ["bitcast"]),
        Program("bitcast_narrow", lambda v: lax.bitcast_convert_type(v, jnp.int8), [x], ["bitcast"]),
        Program(
            "bitcast_widen",
            lambda v: lax.bitcast_convert_type(v, jnp.float32),
            [spec((4, 2), jnp.bfloat16)],
            ["bitcast"],
        ),
        Program(
            "bitcast_int4", lambda v: lax.bitcast_convert_type(v, jnp.int4), [spec((4,), jnp.int8)], ["bitcast", "int4"]
        ),
        Program("scalar_polynomial", lambda v: 3.0 * v**3 - 2.0 * v + 1.0, [spec(())], ["scalar"]),
        Program("empty_array", lambda v: v * 2, [spec((0, 3))], ["zero_size"]),
        Program("no_arguments", lambda: jnp.arange(5.0), [], ["no_arguments"]),
        Program("no_results", lambda v: (), [x], ["no_results"]),
        Program("unused_argument", lambda v, w: v + 1, [x, i], ["unused"], jit={"keep_unused": True}),
        Program("returned_argument", lambda v, w: (w, v), [x, i], ["passthrough"]),
        Program("same_result_twice", lambda v: (v + 1, v + 1), [x], ["passthrough"]),
        Program("nested_results", lambda v: {"a": [v, (v + 1,)], 'b\n"quoted"': v}, [x], ["result_info"]),
        Program("rank_eight", lambda v: v + v, [spec((1, 2, 1, 2, 1, 2, 1, 2))], ["rank"]),
        Program("copy", jnp.copy, [x], ["copy"]),
        Program("int8_saturating_scale", _int8_requantize, [spec((4, 8), jnp.int8), spec(())], ["int8"]),
        Program("polyval", jnp.polyval, [spec((5,)), x], ["elementwise"]),
        Program("interp", jnp.interp, [spec((7,)), spec((9,)), spec((9,))], ["elementwise"]),
    ]


def _int8_requantize(values, scale):
    widened = values.astype(jnp.int32).astype(jnp.float32) * scale
    return jnp.clip(jnp.round(widened), -128, 127).astype(jnp.int8)
