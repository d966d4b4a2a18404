//! Batch normalisation: inference, training and gradient.

use hlo::{Attr, OpKind, TensorType};
use tensor::DType;

use super::context::{Context, Eval};
use super::contraction::floats;
use super::positions;
use super::value::{Elements, InterpreterValue, TensorValue, round};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::BatchNormInference => inference,
        OpKind::BatchNormTraining => training,
        OpKind::BatchNormGrad => gradient,
        _ => return None,
    })
}

/// An operand split by feature.
struct Batch {
    ty: TensorType,
    dtype: DType,
    values: Vec<f64>,
    /// Positions of each feature's elements.
    features: Vec<Vec<usize>>,
    epsilon: f64,
}

impl Batch {
    fn new(context: &Context<'_, '_>) -> Result<Batch, Error> {
        let operand = context.tensor(0)?;
        let feature = attributes::int(context.op, "feature_index")?;
        let Some(Attr::Float(epsilon, _)) = context.op.attr("epsilon") else {
            return Err(Error::Internal("batch normalisation without epsilon".into()));
        };
        let strides = positions::strides(operand.dims());
        let (Some(&stride), Some(&size)) = (strides.get(feature as usize), operand.dims().get(feature as usize)) else {
            return context.fail(format!("the operand has no dimension {feature}"));
        };
        let inner = positions::offsets(operand.dims(), &strides, &positions::others(strides.len(), &[&[feature]]));
        let features = (0..size as usize).map(|f| inner.iter().map(|at| at + f * stride).collect()).collect();
        let ty = TensorType::new(operand.dims().to_vec(), operand.ty.element.clone());
        Ok(Batch { ty, dtype: operand.dtype(), values: floats(&operand.elements)?, features, epsilon: epsilon.get() })
    }

    /// Operand `n`: one value for each feature.
    fn per_feature(&self, context: &Context<'_, '_>, n: usize) -> Result<Vec<f64>, Error> {
        let values = floats(&context.tensor(n)?.elements)?;
        match values.len() == self.features.len() {
            true => Ok(values),
            false => {
                context.fail(format!("operand {n} has {} elements for {} features", values.len(), self.features.len()))
            }
        }
    }

    fn whole(&self, values: Vec<f64>) -> InterpreterValue {
        TensorValue { ty: self.ty.clone(), elements: self.rounded(values) }.into()
    }

    fn one_each(&self, values: Vec<f64>) -> InterpreterValue {
        let ty = TensorType::new(vec![values.len() as i64], self.ty.element.clone());
        TensorValue { ty, elements: self.rounded(values) }.into()
    }

    fn rounded(&self, values: Vec<f64>) -> Elements {
        Elements::Float(values.into_iter().map(|x| round(self.dtype, x)).collect())
    }

    fn normalised(&self, scale: &[f64], offset: &[f64], mean: &[f64], variance: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.values.len()];
        for (f, places) in self.features.iter().enumerate() {
            let deviation = (variance[f] + self.epsilon).sqrt();
            for &at in places {
                out[at] = (self.values[at] - mean[f]) / deviation * scale[f] + offset[f];
            }
        }
        out
    }
}

fn inference(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let batch = Batch::new(context)?;
    let [scale, offset, mean, variance] = [1, 2, 3, 4].map(|n| batch.per_feature(context, n));
    let out = batch.normalised(&scale?, &offset?, &mean?, &variance?);
    Ok(vec![batch.whole(out)])
}

fn training(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let batch = Batch::new(context)?;
    let (scale, offset) = (batch.per_feature(context, 1)?, batch.per_feature(context, 2)?);
    let average = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        let each = batch.features.iter().enumerate();
        each.map(|(f, places)| places.iter().map(|&at| of(f, at)).sum::<f64>() / places.len() as f64).collect()
    };
    let mean = average(&|_, at| batch.values[at]);
    let variance = average(&|f, at| (batch.values[at] - mean[f]).powi(2));
    let out = batch.normalised(&scale, &offset, &mean, &variance);
    Ok(vec![batch.whole(out), batch.one_each(mean), batch.one_each(variance)])
}

fn gradient(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let batch = Batch::new(context)?;
    let [scale, mean, variance] = [1, 2, 3].map(|n| batch.per_feature(context, n));
    let (scale, mean, variance) = (scale?, mean?, variance?);
    let grad = floats(&context.tensor(4)?.elements)?;
    if grad.len() != batch.values.len() {
        return context.fail("grad_output does not fit the operand");
    }
    let mut out = vec![0.0; grad.len()];
    let (mut grad_scale, mut grad_offset) = (Vec::new(), Vec::new());
    for (f, places) in batch.features.iter().enumerate() {
        let count = places.len() as f64;
        let deviation = (variance[f] + batch.epsilon).sqrt();
        let centred = |at: usize| batch.values[at] - mean[f];
        let offset: f64 = places.iter().map(|&at| grad[at]).sum();
        let weighted: f64 = places.iter().map(|&at| grad[at] * centred(at)).sum();
        for &at in places {
            let slope = count * grad[at] - offset - weighted * centred(at) / (variance[f] + batch.epsilon);
            out[at] = scale[f] / deviation / count * slope;
        }
        grad_scale.push(weighted / deviation);
        grad_offset.push(offset);
    }
    Ok(vec![batch.whole(out), batch.one_each(grad_scale), batch.one_each(grad_offset)])
}
