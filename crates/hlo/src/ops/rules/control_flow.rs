//! Branches and loops.

use crate::ir::Type;
use crate::ops::def::OpView;

use super::{Checked, Inferred, require, shapes, spelling};

/// Branches take nothing and return the same types; the results are what is known of either.
///
/// Clauses: no arguments, same outputs.
pub(crate) fn branches(op: &OpView<'_>, clauses: [&'static str; 2]) -> Inferred {
    let mut outputs = Vec::with_capacity(op.regions.len());
    for n in 0..op.regions.len() {
        let inputs = op.region_inputs(n)?;
        require!(inputs.is_empty(), clauses[0], "branch {n} takes {} arguments, 0 expected", inputs.len());
        outputs.push(op.region_outputs(n)?);
    }
    let Some((first, rest)) = outputs.split_first() else { return Ok(Vec::new()) };
    for (n, other) in rest.iter().enumerate() {
        require!(
            first.len() == other.len() && first.iter().zip(other).all(|(a, b)| shapes::types_agree(a, b)),
            clauses[1],
            "branch 0 returns {}, branch {} returns {}",
            spelling::types(first.iter().copied()),
            n + 1,
            spelling::types(other.iter().copied())
        );
    }
    let column = |n: usize| -> Vec<&Type> { outputs.iter().map(|types| types[n]).collect() };
    Ok((0..first.len()).filter_map(|n| shapes::join(&column(n))).collect())
}

/// The operand that chooses a branch is a scalar of that type.
pub(crate) fn selector(op: &OpView<'_>, dtype: tensor::DType, clause: &'static str) -> Checked {
    let ty = op.tensor(0)?;
    require!(
        ty.rank() == 0 && ty.element.plain() == Some(dtype),
        clause,
        "operand 0 must be tensor<{dtype}>, is {}",
        spelling::tensor(ty)
    );
    Ok(())
}
