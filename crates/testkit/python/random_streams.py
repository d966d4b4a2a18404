"""Random numbers by JAX under the names that the tests of crates/trace use.

usage: random_streams.py FOLDER
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import exchange
import jax
import jax.numpy as jnp
import numpy as np

SEED = 42
LOGITS = np.array([[0.1, 2.0, -1.0, 0.5], [3.0, 0.0, 0.0, 1.0], [-1.0, -1.0, 0.0, 0.0]], np.float32)


def main():
    key = jax.random.key(SEED)
    raw = jax.random.key_data
    streams = {
        "key": raw(key),
        "key_of_scalar": raw(jax.random.key(jnp.int32(-7))),
        "split": raw(jax.random.split(key, 5)),
        "fold_in": raw(jax.random.fold_in(key, 7)),
        "fold_in_twice": raw(jax.random.fold_in(jax.random.fold_in(key, 1), 0xFFFFFFFF)),
        "uniform": jax.random.uniform(key, (1000,)),
        "uniform_between": jax.random.uniform(key, (3, 100), minval=-2.0, maxval=6.0),
        "uniform_bf16": jax.random.uniform(key, (7, 31), jnp.bfloat16),
        "uniform_bf16_between": jax.random.uniform(key, (200,), jnp.bfloat16, minval=-1.0, maxval=1.0),
        "uniform_f16": jax.random.uniform(key, (200,), jnp.float16),
        "uniform_scalar": jax.random.uniform(key, ()),
        "normal": jax.random.normal(key, (50, 40)),
        "normal_bf16": jax.random.normal(key, (500,), jnp.bfloat16),
        "truncated_normal": jax.random.truncated_normal(key, -2.0, 2.0, (1000,)),
        "truncated_normal_uneven": jax.random.truncated_normal(key, -0.5, 3.0, (1000,)),
        "bernoulli": jax.random.bernoulli(key, 0.3, (1000,)),
        "gumbel": jax.random.gumbel(key, (500,)),
        "categorical": jax.vmap(lambda k: jax.random.categorical(k, LOGITS))(jax.random.split(key, 50)),
        "permutation": jax.random.permutation(key, 1000),
        "permutation_of_many": jax.random.permutation(key, 3000),
        "randint": jax.random.randint(key, (1000,), -5, 1000),
        "randint_wide": jax.random.randint(key, (1000,), -2000000000, 2000000000),
        "randint_u8": jax.random.randint(key, (1000,), 0, 256, jnp.uint8),
        "randint_i16": jax.random.randint(key, (1000,), -100, 30000, jnp.int16),
        "dropout_in_scan": jax.lax.scan(
            lambda c, k: (c + jax.random.uniform(k, (3,)), jax.random.bits(k, (2,))),
            jnp.zeros(3),
            jax.random.split(key, 4),
        )[1],
    }
    for bits in (8, 16, 32):
        streams[f"bits_{bits}"] = jax.random.bits(key, (5, 33), f"uint{bits}")
    with jax.enable_x64(True):
        streams["bits_64"] = jax.random.bits(key, (5, 33), "uint64")
        streams["key_of_64_bits"] = raw(jax.random.key(np.int64(0x1234_5678_9ABC_DEF0)))
        streams["uniform_f64"] = jax.random.uniform(key, (100,), jnp.float64)
    exchange.write(sys.argv[1], streams)


if __name__ == "__main__":
    main()
