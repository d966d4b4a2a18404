"""StableHLO programs exported from JAX, one module per op family, each with a `programs()` list."""
