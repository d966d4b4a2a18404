//! Gradients that every device computed from its part of a batch, made the same on all of them.

use std::panic::Location;

use tensor::DType;

use crate::line;
use crate::ops::collective::{Over, Reduction, all_reduced};
use crate::tensor::Tensor;
use crate::tree::Tree;

/// How many exchanges gradients take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// One for each tensor. Compilers for TPUs and GPUs join small ones themselves.
    #[default]
    EachTensor,
    /// One for each element type: all tensors of a type travel as one. Fewer, larger messages, for the price of a copy.
    EachType,
}

/// Combines gradients over the devices along mesh axes, inside [`shard_map`](crate::shard_map): afterwards they are the same
/// on all of them. Gradients of losses that are means over a device's examples want [`Reduction::Mean`].
///
/// Without a mesh, or where the axes have one device, the gradients as they are.
#[track_caller]
#[must_use]
pub fn sync_gradients<T: Tree>(gradients: &T, over: impl Over, reduction: Reduction, exchange: Exchange) -> T {
    let _line = line::of(Location::caller());
    let names = over.names();
    let leaves = gradients.leaves();
    let mut combined = leaves.clone();
    match exchange {
        Exchange::EachTensor => {
            for leaf in &mut combined {
                *leaf = all_reduced(leaf, &names, reduction);
            }
        }
        Exchange::EachType => {
            let mut types: Vec<DType> = Vec::new();
            for leaf in &leaves {
                if !types.contains(&leaf.dtype()) {
                    types.push(leaf.dtype());
                }
            }
            for dtype in types {
                let members: Vec<usize> = (0..leaves.len()).filter(|&n| leaves[n].dtype() == dtype).collect();
                let flat = |&n: &usize| leaves[n].reshape(&[leaves[n].num_elements()]);
                let joined = Tensor::concat(&members.iter().map(flat).collect::<Vec<_>>(), 0);
                let total = all_reduced(&joined, &names, reduction);
                let mut start = 0;
                for n in members {
                    let end = start + leaves[n].num_elements();
                    combined[n] = total.slice(0, start..end).reshape(leaves[n].dims());
                    start = end;
                }
            }
        }
    }
    gradients.with_leaves(combined)
}
