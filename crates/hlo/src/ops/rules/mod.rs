//! Shape and type rules that several ops share; an op's file names the clauses they stand for.

pub(crate) mod broadcast;
pub(crate) mod collectives;
pub(crate) mod contraction;
pub(crate) mod control_flow;
pub(crate) mod convolution;
pub(crate) mod dimensions;
pub(crate) mod elements;
pub(crate) mod elementwise;
pub(crate) mod indexing;
pub(crate) mod normalization;
pub(crate) mod padding;
pub(crate) mod quantization;
pub(crate) mod reduction;
pub(crate) mod reshaping;
pub(crate) mod shapes;
pub(crate) mod sharding;
pub(crate) mod spelling;
mod view;
pub(crate) mod window;

use crate::ir::Type;
use crate::ops::def::Violation;

/// The outcome of a constraint check.
pub(crate) type Checked = Result<(), Violation>;

/// The outcome of inference.
pub(crate) type Inferred = Result<Vec<Type>, Violation>;

/// Returns a [`Violation`] of the clause unless the condition holds.
macro_rules! require {
    ($condition:expr, $clause:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::ops::def::Violation::new($clause, format!($($message)+)));
        }
    };
}
pub(crate) use require;

/// The clauses of an op by number: `clauses!("gather": 0 1 2)[2]` is `gather C2`.
macro_rules! clauses {
    ($op:literal: $($number:literal)*) => { [$(concat!($op, " C", $number)),*] };
}
pub(crate) use clauses;
