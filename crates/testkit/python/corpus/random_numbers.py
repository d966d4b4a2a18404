"""Random number programs: threefry, rbg and the generators' own bit operation, and distributions."""

import jax
import jax.numpy as jnp
from jax import lax

from corpus.program import Program, spec

DISTRIBUTIONS = {
    "normal": lambda k: jax.random.normal(k, (4, 3)),
    "uniform": lambda k: jax.random.uniform(k, (4,), minval=-1.0),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (8,)),
    "categorical": lambda k: jax.random.categorical(k, jnp.zeros((3, 5))),
    "gamma": lambda k: jax.random.gamma(k, 2.0, (3,)),
    "permutation": lambda k: jax.random.permutation(k, 10),
    "truncated_normal": lambda k: jax.random.truncated_normal(k, -1.0, 1.0, (4,)),
    "randint": lambda k: jax.random.randint(k, (5,), 0, 100),
    "bits8": lambda k: jax.random.bits(k, (5,), jnp.uint8),
    "split_fold": lambda k: jax.random.fold_in(jax.random.split(k, 3)[1], 7),
    "gumbel": lambda k: jax.random.gumbel(k, (4,)),
    "normal_bf16": lambda k: jax.random.normal(k, (4,), jnp.bfloat16),
    "poisson": lambda k: jax.random.poisson(k, 3.0, (4,)),
    "choice": lambda k: jax.random.choice(k, 10, (3,), replace=False),
    "dropout": lambda k: jnp.where(jax.random.bernoulli(k, 0.9, (4, 4)), 1.0 / 0.9, 0.0),
}


def programs() -> list[Program]:
    """All random-number programs."""
    return [*_distributions(), *_generators()]


def _distributions() -> list[Program]:
    raw = spec((2,), jnp.uint32)
    return [
        Program(
            f"random_{n}",
            lambda bits, f=f: _raw(f(jax.random.wrap_key_data(bits))),
            [raw],
            ["random"],
            locations=n == "normal",
        )
        for n, f in DISTRIBUTIONS.items()
    ]


def _raw(value):
    return jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value


def _generators() -> list[Program]:
    state = spec((4,), jnp.uint32)
    algorithms = {
        "threefry": lax.RandomAlgorithm.RNG_THREE_FRY,
        "philox": lax.RandomAlgorithm.RNG_PHILOX,
        "default": lax.RandomAlgorithm.RNG_DEFAULT,
    }
    listed = [
        Program(
            f"rng_bits_{n}",
            lambda s, a=a: lax.rng_bit_generator(s, (4, 3), algorithm=a),
            [state],
            ["rng_bit_generator"],
            generic=n == "philox",
        )
        for n, a in algorithms.items()
    ]
    listed += [
        Program(f"rng_bits_{d}", lambda s, d=d: lax.rng_bit_generator(s, (8,), dtype=d), [state], ["rng_bit_generator"])
        for d in ("uint8", "uint16")
    ]
    listed += [
        Program("rng_uniform", lambda: lax.rng_uniform(0.0, 1.0, (4,)), [], ["rng"], generic=True),
        Program("rng_uniform_int", lambda a, b: lax.rng_uniform(a, b, (4,)), [spec((), jnp.int32)] * 2, ["rng"]),
        _implementation("rbg"),
        _implementation("unsafe_rbg"),
        Program(
            "random_typed_key", lambda s: jax.random.normal(jax.random.key(s), (3,)), [spec((), jnp.int32)], ["random"]
        ),
    ]
    return listed


def _implementation(name: str) -> Program:
    def run(bits):
        key = jax.random.wrap_key_data(bits, impl=name)
        first, second = jax.random.split(key)
        return jax.random.normal(first, (5,)), jax.random.bits(second, (3,))

    return Program(f"random_{name}", run, [spec((4,), jnp.uint32)], ["random", "rng_bit_generator"])
