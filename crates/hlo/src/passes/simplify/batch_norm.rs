//! The parts batch normalisation is made of.

use tensor::DType;

use crate::ir::{Attr, Attrs, NewOp, OpKind, OpName, TensorType, Type, Value};

use super::{Site, attrs};

/// An operand and its features.
pub(super) struct Batch {
    pub(super) whole: TensorType,
    per_feature: TensorType,
    dtype: DType,
    feature: i64,
    epsilon: f64,
}

impl Batch {
    /// The batch normalisation a site is at.
    pub(super) fn of(site: &Site<'_>) -> Option<Batch> {
        let whole = site.array(site.operand(0))?.clone();
        let dtype = whole.element.plain().filter(|dtype| dtype.is_float())?;
        let feature = site.op().attr("feature_index")?.as_int()?;
        let size = *whole.dims.get(usize::try_from(feature).ok()?)?;
        let Attr::Float(epsilon, _) = site.op().attr("epsilon")? else { return None };
        let epsilon = epsilon.get();
        let per_feature = TensorType::new([size], dtype);
        if !site.op().operands[1..].iter().all(|&value| site.array(value) == Some(&per_feature)) {
            return None;
        }
        Some(Batch { whole, per_feature, dtype, feature, epsilon })
    }

    /// One value for each feature, for every element.
    pub(super) fn spread(&self, site: &mut Site<'_>, value: Value) -> Value {
        let to = attrs([("broadcast_dimensions", Attr::i64s([self.feature]))]);
        site.emit(OpKind::BroadcastInDim, &[value], to, self.whole.clone())
    }

    /// The mean of each feature.
    pub(super) fn mean(&self, site: &mut Site<'_>, value: Value) -> Option<Value> {
        let sizes = &self.whole.dims;
        let others: Vec<i64> = (0..sizes.len() as i64).filter(|&d| d != self.feature).collect();
        let count = others.iter().try_fold(1i64, |count, &d| count.checked_mul(sizes[d as usize]))?;
        let zero = site.emit_filled(&[], self.dtype, 0.0)?;
        let scalar = Type::scalar(self.dtype);
        let region = site.func.add_region();
        let args = [0, 1].map(|_| site.func.add_argument(region, scalar.clone(), None));
        let add = NewOp { operands: args.to_vec(), results: vec![scalar], ..NewOp::new(OpName::Known(OpKind::Add)) };
        let add = site.func.add_op(region, add);
        let sum = site.func.op(add).first_result;
        site.func.add_op(region, NewOp { operands: vec![sum], ..NewOp::new(OpName::Known(OpKind::Return)) });
        let over = attrs([("dimensions", Attr::i64s(others))]);
        let types = [self.per_feature.clone().into()];
        let sum = *site.emit_with_regions(OpKind::Reduce, vec![value, zero], &types, vec![region], over).first()?;
        let count = site.emit_filled(&self.per_feature.dims, self.dtype, count as f64)?;
        Some(site.emit(OpKind::Divide, &[sum, count], Attrs::new(), self.per_feature.clone()))
    }

    /// `(x - mean) / sqrt(variance + epsilon) * scale + offset`.
    pub(super) fn normalised(
        &self,
        site: &mut Site<'_>,
        input: Value,
        scale: Value,
        offset: Value,
        mean: Value,
        variance: Value,
    ) -> Option<Value> {
        let epsilon = site.emit_filled(&self.per_feature.dims, self.dtype, self.epsilon)?;
        let shifted = site.emit(OpKind::Add, &[variance, epsilon], Attrs::new(), self.per_feature.clone());
        let deviation = site.emit(OpKind::Sqrt, &[shifted], Attrs::new(), self.per_feature.clone());
        let [mean, deviation, scale, offset] = [mean, deviation, scale, offset].map(|value| self.spread(site, value));
        let mut value = input;
        for (kind, other) in
            [(OpKind::Subtract, mean), (OpKind::Divide, deviation), (OpKind::Multiply, scale), (OpKind::Add, offset)]
        {
            value = site.emit(kind, &[value, other], Attrs::new(), self.whole.clone());
        }
        Some(value)
    }
}
