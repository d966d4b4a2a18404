//! Ops that no TPU program can have: each with what to do instead.

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;

type Answer = Result<Value, Error>;

/// Numbers that PyTorch draws.
pub(super) fn random(_: &mut Call<'_, '_>) -> Answer {
    Err(Error::new(
        "it draws random numbers, and an exported program has no seed",
        "call `model.eval()` before the export, or pass the numbers as an argument",
    ))
}

/// Results whose size is known only when the program runs.
fn sized_by_values(_: &mut Call<'_, '_>) -> Answer {
    Err(Error::new(
        "the size of its result depends on values, and sizes of a TPU program are fixed",
        "use `torch.where` or a mask of fixed size, or compute it before the program",
    ))
}

/// A Python number of what a tensor holds.
fn decided_by_values(_: &mut Call<'_, '_>) -> Answer {
    Err(Error::new(
        "it makes a Python value of what tensors hold, which no TPU program can do",
        "compare with tensor ops, and choose with `torch.where` or `torch.cond`",
    ))
}

pub(super) const RANDOM: Rules = &[
    ("rand", random),
    ("randn", random),
    ("rand_like", random),
    ("randn_like", random),
    ("randint", random),
    ("randint_like", random),
    ("randperm", random),
    ("bernoulli", random),
    ("multinomial", random),
    ("normal", random),
    ("normal_functional", random),
    ("uniform", random),
    ("exponential", random),
    ("geometric", random),
    ("cauchy", random),
    ("log_normal", random),
    ("random", random),
    ("poisson", random),
];

pub(super) const SIZED_BY_VALUES: Rules = &[
    ("nonzero", sized_by_values),
    ("nonzero_numpy", sized_by_values),
    ("argwhere", sized_by_values),
    ("masked_select", sized_by_values),
    ("unique_dim", sized_by_values),
    ("unique_consecutive", sized_by_values),
    ("_unique2", sized_by_values),
    ("bincount", sized_by_values),
];

pub(super) const DECIDED_BY_VALUES: Rules =
    &[("equal", decided_by_values), ("allclose", decided_by_values), ("is_nonzero", decided_by_values)];
