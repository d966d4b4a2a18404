//! Shardy ops: sharding decisions inside a program.

pub(super) mod all_gather;
pub(super) mod all_reduce;
pub(super) mod all_slice;
pub(super) mod all_to_all;
pub(super) mod collective_permute;
pub(super) mod constant;
pub(super) mod data_flow_edge;
pub(super) mod func_data_flow_edge;
pub(super) mod manual_computation;
pub(super) mod named_computation;
pub(super) mod propagation_barrier;
pub(super) mod reduce_scatter;
pub(super) mod replicated_to_unreduced;
pub(super) mod reshard;
pub(super) mod return_;
pub(super) mod sharded_to_unreduced;
pub(super) mod sharding_constraint;
pub(super) mod sharding_group;
