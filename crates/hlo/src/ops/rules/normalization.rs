//! Batch normalization.

use crate::ir::Type;
use crate::ops::def::{OpView, Violation};

use super::elements::{self, Elements};
use super::{dimensions, shapes};

/// Which operands are whole tensors and which hold one number for each feature.
pub(crate) struct BatchNorm {
    /// Whole tensors; the first is `operand`.
    pub(crate) whole: &'static [usize],
    /// Operands of one number for each feature, with the clause on their size.
    pub(crate) per_feature: &'static [(usize, &'static str)],
    /// Input clauses by operand.
    pub(crate) inputs: &'static [&'static str],
    /// Range of `feature_index`.
    pub(crate) feature_index: &'static str,
    /// Same element type.
    pub(crate) element: &'static str,
    /// Same shape of the whole tensors.
    pub(crate) shape: &'static str,
    /// Results after the first, which have one number for each feature.
    pub(crate) per_feature_results: usize,
}

impl BatchNorm {
    /// The result types.
    pub(crate) fn infer(&self, op: &OpView<'_>) -> Result<Vec<Type>, Violation> {
        let operand = op.tensor(self.whole[0])?;
        let feature = dimensions::index(self.feature_index, "feature_index", op.int("feature_index")?, operand.rank())?;
        for n in 0..op.operands.len() {
            shapes::same_element(self.element, ("operand", operand), (&format!("operand {n}"), op.tensor(n)?))?;
        }
        for &n in &self.whole[1..] {
            shapes::same_shape(self.shape, ("operand", operand), (&format!("operand {n}"), op.tensor(n)?))?;
        }
        let size = operand.dims[feature];
        for &(n, clause) in self.per_feature {
            elements::rank(op, n, 1, self.inputs[n])?;
            let ty = op.tensor(n)?;
            super::require!(
                shapes::dims_agree(ty.dims[0], size),
                clause,
                "operand {n} has {} elements, dim {feature} of the operand is {size}",
                ty.dims[0]
            );
        }
        let vector = shapes::bounded(vec![size], vec![shapes::bound(operand, feature)], operand.element.clone());
        let mut types = vec![op.operands[self.whole[0]].clone()];
        types.resize(1 + self.per_feature_results, vector.into());
        Ok(types)
    }

    /// Element types of the operands.
    pub(crate) fn check(&self, op: &OpView<'_>) -> Result<(), Violation> {
        for (n, clause) in self.inputs.iter().enumerate() {
            elements::operand(op, n, Elements::FLOAT_QUANTIZED, clause)?;
        }
        Ok(())
    }
}
