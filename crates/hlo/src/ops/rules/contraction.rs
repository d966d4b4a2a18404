//! Dimensions of tensor contractions.

use crate::ir::TensorType;
use crate::ir::dims::DotDims;
use crate::ops::def::Violation;

use super::{dimensions, require, shapes};

/// Shape of a contraction; `c` holds the clauses C1 to C10 of `dot_general`.
pub(crate) fn infer(
    c: &[&'static str; 11],
    lhs: &TensorType,
    rhs: &TensorType,
    dims: &DotDims,
) -> Result<TensorType, Violation> {
    let DotDims { lhs_batching: lb, rhs_batching: rb, lhs_contracting: lc, rhs_contracting: rc } = dims;
    require!(lb.len() == rb.len(), c[1], "{} batching dimensions of lhs, {} of rhs", lb.len(), rb.len());
    require!(lc.len() == rc.len(), c[2], "{} contracting dimensions of lhs, {} of rhs", lc.len(), rc.len());
    dimensions::unique(c[3], "lhs batching and contracting dimensions", lb.iter().chain(lc).copied())?;
    dimensions::unique(c[4], "rhs batching and contracting dimensions", rb.iter().chain(rc).copied())?;
    dimensions::in_range(c[5], "lhs_batching_dimensions", lb, lhs.rank())?;
    dimensions::in_range(c[6], "lhs_contracting_dimensions", lc, lhs.rank())?;
    dimensions::in_range(c[7], "rhs_batching_dimensions", rb, rhs.rank())?;
    dimensions::in_range(c[8], "rhs_contracting_dimensions", rc, rhs.rank())?;
    for (clause, lefts, rights) in [(c[9], lb, rb), (c[10], lc, rc)] {
        for (&l, &r) in lefts.iter().zip(rights) {
            let (a, b) = (lhs.dims[l as usize], rhs.dims[r as usize]);
            require!(shapes::dims_agree(a, b), clause, "lhs dim {l} is {a}, rhs dim {r} is {b}");
        }
    }
    let mut sizes = Vec::new();
    let mut bounds = Vec::new();
    let mut keep = |ty: &TensorType, dim: usize| {
        sizes.push(ty.dims[dim]);
        bounds.push(shapes::bound(ty, dim));
    };
    lb.iter().for_each(|&d| keep(lhs, d as usize));
    for (ty, batching, contracting) in [(lhs, lb, lc), (rhs, rb, rc)] {
        for dim in 0..ty.rank() {
            if !batching.contains(&(dim as i64)) && !contracting.contains(&(dim as i64)) {
                keep(ty, dim);
            }
        }
    }
    Ok(shapes::bounded(sizes, bounds, lhs.element.clone()))
}
