//! Shardy ops: sharding decisions inside a program.

pub(super) mod manual_computation;
pub(super) mod propagation_barrier;
pub(super) mod reshard;
pub(super) mod return_;
pub(super) mod sharding_constraint;
pub(super) mod sharding_group;
