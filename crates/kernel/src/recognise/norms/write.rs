//! Writes a norm that was understood as composites, and puts their results in place of its own.

use std::collections::HashMap;

use chips::Generation;
use hlo::{Attrs, Func, OpId, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::super::layout::{Label, Labels, Layout};
use super::super::write::{Decompositions, Writer};
use super::FoundNorm;
use super::forms::{Form, Norm, Weight};
use super::walk::{Source, Walk};
use crate::call::{static_spec, tensor_type};
use crate::composites::{LAYER_NORM, LAYER_NORM_BACKWARD, NormAttributes, RMS_NORM, RMS_NORM_BACKWARD};
use crate::error::Error;
use crate::kernels::norm::FusedNormKind;
use crate::kernels::{self, Make, Request};

/// Rows that kernels take together at least.
const TILE: usize = 8;

/// A value of the program that a composite gives.
#[derive(Clone, Debug)]
struct Given {
    value: Value,
    layout: Layout,
    scale: Weight,
}

/// One call of the forward kernel.
#[derive(Debug)]
struct Forward {
    norm: Norm,
    weight: Weight,
    bias: Vec<Weight>,
    results: Vec<Given>,
}

/// One call of the backward kernel.
#[derive(Debug)]
struct Backward {
    norm: Norm,
    of: Source,
    weight: Weight,
    residual: Option<Source>,
    of_rows: Vec<Given>,
    of_weight: Vec<Given>,
    of_bias: Vec<Given>,
}

/// A norm as it is to be written.
pub(super) struct Plan {
    labels: Labels,
    x: Source,
    dtype: DType,
    rows: Vec<Label>,
    features: Vec<Label>,
    /// Their number, and with rows that were added.
    count: usize,
    padded: usize,
    size: usize,
    columns: Vec<Source>,
    forward: Vec<Forward>,
    backward: Vec<Backward>,
}

/// New ops, in no region yet, and what stands for which value now.
pub(super) struct Written {
    pub(super) replaced: HashMap<Value, Value>,
    pub(super) new: Vec<OpId>,
}

/// Decides how a norm is written; the reason where no kernel takes it.
pub(super) fn plan(
    walk: &mut Walk<'_>,
    leaving: &HashMap<Value, Form>,
    generation: Generation,
) -> Result<Plan, String> {
    let unknown = || "its sizes change".to_owned();
    let func = walk.ops.func;
    let (rows, features) = (walk.labels.leaves(&walk.rows), walk.labels.leaves(&walk.features));
    let size_of = |labels: &Labels, of: &[Label]| of.iter().map(|&label| labels.size(label)).product::<usize>();
    let (count, size) = (size_of(&walk.labels, &rows), size_of(&walk.labels, &features));
    if count < TILE {
        return Err(format!("{count} rows are too few for a kernel"));
    }
    let (mut forward, mut backward) = (Vec::<Forward>::new(), Vec::<Backward>::new());
    let mut values: Vec<(&Value, &Form)> = leaving.iter().collect();
    // The largest parts of gradients first: what else is of them joins.
    values.sort_by_key(|(value, form)| (!matches!(form, Form::OfRows { .. }), **value));
    for (&value, form) in values {
        let layout = match (walk.known.get(&value), walk.totals.get(&value)) {
            (_, Some(total)) => total.layout.clone(),
            (Some(known), None) => known.layout.clone(),
            (None, None) => return Err(unknown()),
        };
        let mut given = Given { value, layout, scale: Weight::ONE };
        match form {
            Form::Rows => {}
            Form::Result { root, weight, bias } => {
                let norm = walk.norm(*root).ok_or_else(unknown)?;
                let same = |one: &&mut Forward| one.norm == norm && one.weight == *weight && one.bias == *bias;
                match forward.iter_mut().find(same) {
                    Some(one) => one.results.push(given),
                    None => {
                        let (weight, bias) = (weight.clone(), bias.clone());
                        forward.push(Forward { norm, weight, bias, results: vec![given] });
                    }
                }
            }
            Form::OfRows { root, of, weight, residual } => {
                let norm = walk.norm(*root).ok_or_else(unknown)?;
                let of = walk.fulls.get(*of).cloned().ok_or_else(unknown)?;
                let same = |one: &&mut Backward| {
                    one.norm == norm && one.of == of && one.weight == *weight && one.residual == *residual
                };
                match backward.iter_mut().find(same) {
                    Some(one) => one.of_rows.push(given),
                    None => backward.push(Backward {
                        norm,
                        of,
                        weight: weight.clone(),
                        residual: residual.clone(),
                        of_rows: vec![given],
                        of_weight: Vec::new(),
                        of_bias: Vec::new(),
                    }),
                }
            }
            Form::OfWeight { root, of, scale } => {
                let norm = walk.norm(*root).ok_or_else(unknown)?;
                let of = walk.fulls.get(*of).cloned().ok_or_else(unknown)?;
                given.scale = scale.clone();
                match backward.iter_mut().find(|one| one.norm == norm && one.of == of) {
                    Some(one) => one.of_weight.push(given),
                    None => backward.push(Backward {
                        norm,
                        of,
                        weight: Weight::ONE,
                        residual: None,
                        of_rows: Vec::new(),
                        of_weight: vec![given],
                        of_bias: Vec::new(),
                    }),
                }
            }
            Form::OfBias { .. } => {}
        }
    }
    // Sums of a gradient are for nothing where the kernel reads it.
    for (&value, form) in leaving {
        let (Form::OfBias { of, scale }, Some(total)) = (form, walk.totals.get(&value)) else { continue };
        let source = walk.fulls.get(*of).ok_or_else(unknown)?;
        let is_its = |one: &&mut Backward| one.norm.kind == FusedNormKind::Layer && one.of == *source;
        if let Some(one) = backward.iter_mut().find(is_its) {
            one.of_bias.push(Given { value, layout: total.layout.clone(), scale: scale.clone() });
        }
    }
    let dtype = static_spec(func.ty(walk.x.0)).ok_or_else(unknown)?.dtype;
    let plan = Plan {
        labels: std::mem::take(&mut walk.labels),
        x: walk.x.clone(),
        dtype,
        rows,
        features,
        count,
        padded: count.next_multiple_of(TILE),
        size,
        columns: walk.columns.clone(),
        forward,
        backward,
    };
    plan.check(func, generation)?;
    Ok(plan)
}

/// An element type that kernels compute in.
fn as_kernels_take(dtype: DType) -> DType {
    if dtype == DType::BF16 { DType::BF16 } else { DType::F32 }
}

/// The narrowest type that has all that values have.
fn widest(func: &Func, values: &[Given]) -> DType {
    let is_narrow = |given: &Given| static_spec(func.ty(given.value)).is_some_and(|spec| spec.dtype == DType::BF16);
    if !values.is_empty() && values.iter().all(is_narrow) { DType::BF16 } else { DType::F32 }
}

impl Plan {
    pub(super) fn found(&self) -> FoundNorm {
        let kinds = self.forward.iter().map(|one| one.norm.kind).chain(self.backward.iter().map(|one| one.norm.kind));
        let kind = match kinds.into_iter().next() {
            Some(FusedNormKind::Layer) => "layer norm",
            _ => "RMS norm",
        };
        FoundNorm {
            description: format!("{kind}, {} rows of {}, {}", self.count, self.size, self.dtype),
            has_forward: !self.forward.is_empty(),
            has_backward: !self.backward.is_empty(),
        }
    }

    /// Whether the kernels can be made.
    fn check(&self, func: &Func, generation: Generation) -> Result<(), String> {
        let spec = |dtype: DType| Spec::new(as_kernels_take(dtype), [self.padded, self.size]);
        let row = Spec::new(DType::F32, [1, self.size]);
        let dtype = |source: &Source| static_spec(func.ty(source.0)).map_or(DType::F32, |spec| spec.dtype);
        let types = std::iter::once(self.dtype).chain(self.backward.iter().map(|one| dtype(&one.of)));
        if let Some(other) = types.into_iter().find(|dtype| !matches!(dtype, DType::F32 | DType::BF16)) {
            return Err(format!("kernels do not compute in {other}"));
        }
        let made = |name: &str, operands: &[Spec], attributes: Attrs| -> Result<(), String> {
            let request = Request { operands, attributes: &attributes, generation };
            match kernels::by_name(name).map(|entry| entry.make) {
                Some(Make::Kernel(make)) => make(&request).map(drop).map_err(|error| error.to_string()),
                _ => Err(format!("no kernel is called {name}")),
            }
        };
        for one in &self.forward {
            let bias = (!one.bias.is_empty()).then(|| row.clone());
            let operands: Vec<Spec> = [spec(self.dtype), row.clone()].into_iter().chain(bias).collect();
            made(forward_name(&one.norm), &operands, self.attributes(&one.norm, widest(func, &one.results)))?;
        }
        for one in &self.backward {
            let mut operands = vec![spec(self.dtype), row.clone(), spec(dtype(&one.of))];
            operands.extend(one.residual.iter().map(|residual| spec(dtype(residual))));
            made(backward_name(&one.norm), &operands, self.attributes(&one.norm, widest(func, &one.of_rows)))?;
        }
        Ok(())
    }

    fn attributes(&self, norm: &Norm, result: DType) -> Attrs {
        let result = (result != self.dtype).then_some(result);
        NormAttributes { epsilon: norm.epsilon, result }.to_attrs()
    }
}

fn forward_name(norm: &Norm) -> &'static str {
    match norm.kind {
        FusedNormKind::Rms => RMS_NORM,
        FusedNormKind::Layer => LAYER_NORM,
    }
}

fn backward_name(norm: &Norm) -> &'static str {
    match norm.kind {
        FusedNormKind::Rms => RMS_NORM_BACKWARD,
        FusedNormKind::Layer => LAYER_NORM_BACKWARD,
    }
}

struct NormWriter<'a, 'b> {
    writer: Writer<'a>,
    plan: &'b Plan,
    replaced: HashMap<Value, Value>,
}

/// Writes the composites of a norm.
pub(super) fn write(
    func: &mut Func,
    region: Region,
    plan: &Plan,
    decompositions: &mut Decompositions,
) -> Result<Written, Error> {
    let wrong = || Error::Internal("axes of a norm do not agree".into());
    let results: Vec<DType> = plan.forward.iter().map(|one| widest(func, &one.results)).collect();
    let of_rows: Vec<DType> = plan.backward.iter().map(|one| widest(func, &one.of_rows)).collect();
    let mut this = NormWriter { writer: Writer::new(func, region), plan, replaced: HashMap::new() };
    let x = this.entering(&plan.x).ok_or_else(wrong)?;
    for (one, result) in plan.forward.iter().zip(results) {
        let mut operands = vec![x, this.weight(&one.weight).ok_or_else(wrong)?];
        if !one.bias.is_empty() {
            operands.push(this.sum(&one.bias).ok_or_else(wrong)?);
        }
        let attributes = plan.attributes(&one.norm, result);
        let made = this.writer.composite(decompositions, forward_name(&one.norm), operands, &attributes)?;
        this.give(&one.results, *made.first().ok_or_else(wrong)?).ok_or_else(wrong)?;
    }
    for (one, result) in plan.backward.iter().zip(of_rows) {
        let weight = this.weight(&one.weight).ok_or_else(wrong)?;
        let mut operands = vec![x, weight, this.entering(&one.of).ok_or_else(wrong)?];
        if let Some(residual) = &one.residual {
            operands.push(this.entering(residual).ok_or_else(wrong)?);
        }
        let attributes = plan.attributes(&one.norm, result);
        let made = this.writer.composite(decompositions, backward_name(&one.norm), operands, &attributes)?;
        for (given, result) in [&one.of_rows, &one.of_weight, &one.of_bias].into_iter().zip(&made) {
            this.give(given, *result).ok_or_else(wrong)?;
        }
    }
    let replaced = this.replaced;
    Ok(Written { replaced, new: this.writer.finish() })
}

impl NormWriter<'_, '_> {
    /// An array of rows as kernels take it; rows that are added are zeros.
    fn entering(&mut self, source: &Source) -> Option<Value> {
        let plan = self.plan;
        let order = [plan.rows.clone(), plan.features.clone()];
        let value = self.writer.entering(&plan.labels, source, &order)?;
        let dtype = static_spec(self.writer.func.ty(value))?.dtype;
        let value = self.writer.converted(value, as_kernels_take(dtype));
        Some(self.writer.padded(value, 0, (0, plan.padded - plan.count), 0))
    }

    fn row(&self) -> Spec {
        Spec::new(DType::F32, [1, self.plan.size])
    }

    fn two(&mut self, kind: OpKind, a: Value, b: Value) -> Option<Value> {
        let row = tensor_type(&self.row());
        self.writer.op(kind, vec![a, b], Attrs::new(), vec![row]).first().copied()
    }

    fn number(&mut self, number: f64) -> Option<Value> {
        let row = self.row();
        self.writer.splat(&row, &(number as f32).to_le_bytes())
    }

    /// A number for every feature, as a row.
    fn weight(&mut self, weight: &Weight) -> Option<Value> {
        let plan = self.plan;
        let mut product: Option<Value> = None;
        for &(column, power) in &weight.columns {
            let source = plan.columns.get(column)?;
            let value = self.writer.entering(&plan.labels, source, &[Vec::new(), plan.features.clone()])?;
            let is_alone = weight.columns.len() == 1 && power == 1 && weight.factor == 1.0;
            let dtype = static_spec(self.writer.func.ty(value))?.dtype;
            if is_alone {
                return Some(self.writer.converted(value, as_kernels_take(dtype)));
            }
            let value = self.writer.converted(value, DType::F32);
            for _ in 0..power.unsigned_abs() {
                product = Some(match (product, power > 0) {
                    (Some(so_far), true) => self.two(OpKind::Multiply, so_far, value)?,
                    (Some(so_far), false) => self.two(OpKind::Divide, so_far, value)?,
                    (None, true) => value,
                    (None, false) => {
                        let one = self.number(1.0)?;
                        self.two(OpKind::Divide, one, value)?
                    }
                });
            }
        }
        match product {
            Some(product) if weight.factor == 1.0 => Some(product),
            Some(product) => {
                let number = self.number(weight.factor)?;
                self.two(OpKind::Multiply, product, number)
            }
            None => self.number(weight.factor),
        }
    }

    fn sum(&mut self, of: &[Weight]) -> Option<Value> {
        if let [only] = of {
            return self.weight(only);
        }
        let mut sum: Option<Value> = None;
        for weight in of {
            let value = self.weight(weight)?;
            let value = self.writer.converted(value, DType::F32);
            sum = Some(match sum {
                Some(so_far) => self.two(OpKind::Add, so_far, value)?,
                None => value,
            });
        }
        sum
    }

    /// Puts a result of a composite in place of values of the program.
    fn give(&mut self, given: &[Given], result: Value) -> Option<()> {
        let plan = self.plan;
        let is_of_rows = static_spec(self.writer.func.ty(result))?.dims.first() == Some(&plan.padded);
        for given in given {
            let like = static_spec(self.writer.func.ty(given.value))?;
            let (value, order) = if is_of_rows {
                (self.writer.cut(result, 0, 0..plan.count), [plan.rows.clone(), plan.features.clone()])
            } else {
                let scaled = match given.scale == Weight::ONE {
                    true => result,
                    false => {
                        let scale = self.weight(&given.scale)?;
                        let scale = self.writer.converted(scale, DType::F32);
                        self.two(OpKind::Multiply, result, scale)?
                    }
                };
                (scaled, [Vec::new(), plan.features.clone()])
            };
            let value = self.writer.leaving(&plan.labels, value, &order, &given.layout, &like)?;
            self.replaced.insert(given.value, value);
        }
        Some(())
    }
}
