//! Dimensions and element types of tensor contractions.

use std::collections::BTreeMap;

use crate::ir::dims::DotDims;
use crate::ir::{DYNAMIC, TensorType};
use crate::ops::def::Violation;

use super::{Checked, dimensions, elements, require, shapes, spelling};

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

/// Factors and sums are all complex or all real: no contraction converts between the two. Widths may differ.
pub(crate) fn same_field(clause: &'static str, types: [&TensorType; 3]) -> Checked {
    if types.into_iter().any(elements::is_quantized) {
        return Ok(());
    }
    let is_complex = |ty: &TensorType| ty.element.plain().map(|dtype| dtype.is_complex());
    let [lhs, rhs, result] = types;
    require!(
        is_complex(lhs).is_some() && is_complex(lhs) == is_complex(rhs) && is_complex(lhs) == is_complex(result),
        clause,
        "lhs is {}, rhs is {}, the result is {}: all must be complex or none",
        spelling::tensor(lhs),
        spelling::tensor(rhs),
        spelling::tensor(result)
    );
    Ok(())
}

/// An Einstein summation such as `ab,bc->ac`: every label has one size, and the result has those of its labels.
///
/// What `...` stands for is left to the run.
pub(crate) fn einsum(clause: &'static str, config: &str, operands: &[&TensorType], result: &TensorType) -> Checked {
    let config: String = config.chars().filter(|c| !c.is_whitespace()).collect();
    let Some((inputs, output)) = config.split_once("->") else {
        return Err(Violation::new(clause, format!("einsum_config \"{config}\" has no `->`")));
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    dimensions::count(clause, "einsum_config", inputs.len(), operands.len())?;
    if config.contains("...") {
        return Ok(());
    }
    let mut sizes: BTreeMap<char, i64> = BTreeMap::new();
    for (labels, ty) in inputs.iter().zip(operands) {
        require!(labels.chars().count() == ty.rank(), clause, "\"{labels}\" does not fit {}", spelling::tensor(ty));
        for (label, &size) in labels.chars().zip(&ty.dims) {
            let known = sizes.entry(label).or_insert(size);
            require!(shapes::dims_agree(*known, size), clause, "label {label} has sizes {known} and {size}");
            if *known == DYNAMIC {
                *known = size;
            }
        }
    }
    let mut want = Vec::with_capacity(result.rank());
    for label in output.chars() {
        match sizes.get(&label) {
            Some(&size) => want.push(size),
            None => return Err(Violation::new(clause, format!("no operand has the label {label}"))),
        }
    }
    shapes::same_dims(clause, ("the summation", &want), ("result", &result.dims))
}
