//! Checks that self-testing programs end in.

pub(super) mod expect_almost_eq;
pub(super) mod expect_almost_eq_const;
pub(super) mod expect_close;
pub(super) mod expect_eq;
pub(super) mod expect_eq_const;
pub(super) mod expect_serialized_eq;
