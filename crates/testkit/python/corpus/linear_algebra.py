"""Matrix decompositions and solvers, as lowered for TPU and for CPU (LAPACK custom calls)."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
from jax import lax

from corpus.program import Program, spec

BOTH_PLATFORMS = {
    "cholesky": (jnp.linalg.cholesky, [(5, 5)]),
    "cholesky_batched": (jnp.linalg.cholesky, [(3, 5, 5)]),
    "triangular_solve": (lambda a, b: linalg.solve_triangular(a, b, lower=True), [(5, 5), (5, 2)]),
    "qr": (jnp.linalg.qr, [(6, 4)]),
    "qr_complete": (lambda a: jnp.linalg.qr(a, mode="complete"), [(6, 4)]),
    "lu": (linalg.lu, [(5, 5)]),
    "lu_factor": (linalg.lu_factor, [(5, 5)]),
    "solve": (jnp.linalg.solve, [(5, 5), (5, 2)]),
    "inverse": (jnp.linalg.inv, [(5, 5)]),
    "determinant": (jnp.linalg.det, [(5, 5)]),
    "eigh": (jnp.linalg.eigh, [(5, 5)]),
    "svd": (jnp.linalg.svd, [(6, 4)]),
    "schur_complement": (lambda a, b: a - b @ jnp.linalg.solve(a, b), [(4, 4), (4, 4)]),
}

CPU_ONLY = {
    "eig": (jnp.linalg.eig, [(5, 5)]),
    "hessenberg": (linalg.hessenberg, [(5, 5)]),
    "schur": (linalg.schur, [(5, 5)]),
    "tridiagonal": (lambda a: lax.linalg.tridiagonal(a), [(5, 5)]),
}

TPU_ONLY = {
    "expm": (linalg.expm, [(4, 4)]),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], [(6, 4), (6, 2)]),
    "matrix_power": (lambda a: jnp.linalg.matrix_power(a, 5), [(4, 4)]),
    "pinv": (jnp.linalg.pinv, [(5, 3)]),
    "polar": (linalg.polar, [(5, 4)]),
    "cross": (jnp.cross, [(4, 3), (4, 3)]),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, [(6,), (6,), (6,), (6, 2)]),
    "block_diagonal": (linalg.block_diag, [(2, 2), (3, 3)]),
    "toeplitz": (linalg.toeplitz, [(5,)]),
}


def programs() -> list[Program]:
    """All linear-algebra programs."""
    listed = []
    for platform, table in (("tpu", BOTH_PLATFORMS), ("cpu", BOTH_PLATFORMS), ("cpu", CPU_ONLY), ("tpu", TPU_ONLY)):
        for name, (function, shapes) in table.items():
            generic = name in ("cholesky", "triangular_solve", "qr")
            arguments = [spec(s) for s in shapes]
            listed.append(
                Program(f"{name}_{platform}", function, arguments, ["linalg"], platform=platform, generic=generic)
            )
    return listed + _variants()


def _variants() -> list[Program]:
    a, b = spec((5, 5)), spec((5, 2))
    gradients = {
        "cholesky": jnp.linalg.cholesky,
        "solve": lambda m: jnp.linalg.solve(m, jnp.ones(5)),
        "slogdet": lambda m: jnp.linalg.slogdet(m)[1],
    }
    listed = [
        Program(f"{n}_gradient", jax.grad(lambda m, f=f: jnp.sum(f(m))), [a], ["linalg", "grad"])
        for n, f in gradients.items()
    ]
    for name, options in {"upper": {}, "transposed": {"trans": 1}, "unit": {"unit_diagonal": True}}.items():
        solve = lambda m, r, o=options: linalg.solve_triangular(m, r, **o)  # noqa: E731
        listed.append(Program(f"triangular_solve_{name}", solve, [a, b], ["linalg"]))
    right = lambda m, r: lax.linalg.triangular_solve(m, r, left_side=False, conjugate_a=True, transpose_a=True)  # noqa: E731
    listed += [
        Program(
            "triangular_solve_right",
            right,
            [spec((5, 5), jnp.complex64), spec((2, 5), jnp.complex64)],
            ["linalg", "complex"],
        ),
        Program("cholesky_f64", jnp.linalg.cholesky, [spec((5, 5), jnp.float64)], ["linalg", "float64"], x64=True),
        Program("cholesky_complex_cpu", jnp.linalg.cholesky, [spec((5, 5), jnp.complex64)], ["linalg"], platform="cpu"),
        Program(
            "eigh_gradient", jax.grad(lambda m: jnp.linalg.eigh(m)[0].sum()), [a], ["linalg", "grad"], platform="cpu"
        ),
    ]
    return listed
