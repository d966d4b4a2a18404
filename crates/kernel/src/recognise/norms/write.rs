//! Writes a norm that was understood as composites, and puts their results in place of its own.

use std::collections::HashMap;

use chips::Generation;
use hlo::{Attrs, Func, OpId, OpKind, Region, Value};
use tensor::{DType, Spec};

use super::super::devices::{DeviceMesh, Split, SplitBy};
use super::super::layout::{Label, Labels, Layout};
use super::super::on_devices::{OnDevices, passes};
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
    all_rows: usize,
    /// Those of one device, and with rows that were added.
    count: usize,
    padded: usize,
    size: usize,
    columns: Vec<Source>,
    forward: Vec<Forward>,
    backward: Vec<Backward>,
    /// How rows are split over devices.
    split: Option<Split>,
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
    (generation, mesh): (Generation, Option<&DeviceMesh>),
) -> Result<Plan, String> {
    let unknown = || "its sizes change".to_owned();
    let func = walk.ops.func;
    let (rows, features) = (walk.labels.leaves(&walk.rows), walk.labels.leaves(&walk.features));
    let all = (size_of(&walk.labels, &rows), size_of(&walk.labels, &features));
    let split = mesh.map(|mesh| split(mesh, walk, &rows, leaving)).transpose()?;
    let count = split.as_ref().map_or(all.0, |split| size_of(&split.local(), &rows));
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
        all_rows: all.0,
        count,
        padded: count.next_multiple_of(TILE),
        size: all.1,
        split,
        columns: walk.columns.clone(),
        forward,
        backward,
    };
    plan.check(func, generation)?;
    Ok(plan)
}

/// How rows are split over devices.
fn split(mesh: &DeviceMesh, walk: &Walk<'_>, rows: &[Label], leaving: &HashMap<Value, Form>) -> Result<Split, String> {
    let mut arrays = vec![(walk.x.0, walk.x.1.clone())];
    let mut values: Vec<Value> = leaving.keys().copied().collect();
    values.sort_unstable();
    let known = values.into_iter().filter_map(|value| Some((value, walk.known.get(&value)?.layout.clone())));
    arrays.extend(known);
    let arrays: Vec<SplitBy<'_>> =
        arrays.iter().map(|(value, layout)| SplitBy { value: *value, layout, free: rows }).collect();
    mesh.split_by(&walk.labels, &arrays).ok_or_else(|| "no axis of the mesh splits the rows of a norm".into())
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
        let devices = self.split.as_ref().map_or_else(String::new, Split::on_each_device);
        FoundNorm {
            description: format!("{kind}, {} rows of {}, {}{devices}", self.all_rows, self.size, self.dtype),
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

    /// Results and what they are computed from, of each call.
    fn items(&self) -> Vec<(Vec<Value>, Vec<Value>)> {
        let columns = |weight: &Weight| -> Vec<Value> {
            weight.columns.iter().filter_map(|&(n, _)| Some(self.columns.get(n)?.0)).collect()
        };
        let values = |given: &[Given]| given.iter().map(|given| given.value).collect::<Vec<_>>();
        let forward = self.forward.iter().map(|one| {
            let weights = std::iter::once(&one.weight).chain(&one.bias).flat_map(columns);
            (values(&one.results), weights.chain([self.x.0]).collect())
        });
        let backward = self.backward.iter().map(|one| {
            let given = [&one.of_rows, &one.of_weight, &one.of_bias];
            let scales = given.into_iter().flatten().map(|given| &given.scale);
            let weights = std::iter::once(&one.weight).chain(scales).flat_map(columns);
            let others = one.residual.iter().map(|source| source.0).chain([self.x.0, one.of.0]);
            (given.into_iter().flat_map(|given| values(given)).collect(), weights.chain(others).collect())
        });
        forward.chain(backward).collect()
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
    devices: OnDevices<'b>,
}

/// Writes the composites of a norm.
pub(super) fn write(
    func: &mut Func,
    region: Region,
    plan: &Plan,
    decompositions: &mut Decompositions,
) -> Result<Written, Error> {
    let results: Vec<DType> = plan.forward.iter().map(|one| widest(func, &one.results)).collect();
    let of_rows: Vec<DType> = plan.backward.iter().map(|one| widest(func, &one.of_rows)).collect();
    let passes = passes(func, &plan.items());
    let mut order: Vec<usize> = (0..passes.len()).collect();
    order.sort_by_key(|&n| passes[n]);
    let writer = Writer::new(func, region);
    let devices = OnDevices::new(&writer, plan.split.as_ref(), &plan.labels);
    let mut this = NormWriter { writer, plan, devices };
    for n in order {
        this.devices.turn_to(&mut this.writer, passes[n]);
        match (plan.forward.get(n).zip(results.get(n)), n.checked_sub(plan.forward.len())) {
            (Some((one, &result)), _) => this.forward(one, result, decompositions)?,
            (None, at) => {
                let one = at.and_then(|at| plan.backward.get(at).zip(of_rows.get(at))).ok_or_else(wrong)?;
                this.backward(one.0, *one.1, decompositions)?;
            }
        }
    }
    let replaced = this.devices.end(&mut this.writer)?;
    Ok(Written { replaced, new: this.writer.finish() })
}

fn wrong() -> Error {
    Error::Internal("axes of a norm do not agree".into())
}

impl NormWriter<'_, '_> {
    fn forward(&mut self, one: &Forward, result: DType, decompositions: &mut Decompositions) -> Result<(), Error> {
        let plan = self.plan;
        let mut operands = vec![self.entering(&plan.x)?, self.weight(&one.weight)?];
        if !one.bias.is_empty() {
            operands.push(self.sum(&one.bias)?);
        }
        let attributes = plan.attributes(&one.norm, result);
        let made = self.writer.composite(decompositions, forward_name(&one.norm), operands, &attributes)?;
        self.give(&one.results, *made.first().ok_or_else(wrong)?)
    }

    fn backward(&mut self, one: &Backward, result: DType, decompositions: &mut Decompositions) -> Result<(), Error> {
        let plan = self.plan;
        let mut operands = vec![self.entering(&plan.x)?, self.weight(&one.weight)?, self.entering(&one.of)?];
        if let Some(residual) = &one.residual {
            operands.push(self.entering(residual)?);
        }
        let attributes = plan.attributes(&one.norm, result);
        let made = self.writer.composite(decompositions, backward_name(&one.norm), operands, &attributes)?;
        for (given, result) in [&one.of_rows, &one.of_weight, &one.of_bias].into_iter().zip(&made) {
            self.give(given, *result)?;
        }
        Ok(())
    }

    /// What this device has of an array, in an order.
    fn ordered(&mut self, source: &Source, order: &[Vec<Label>]) -> Result<Value, Error> {
        let own = self.devices.enter(&mut self.writer, source.0, &source.1)?;
        self.writer.entering(self.devices.labels(), &(own, source.1.clone()), order).ok_or_else(wrong)
    }

    /// An array of rows as kernels take it; rows that are added are zeros.
    fn entering(&mut self, source: &Source) -> Result<Value, Error> {
        let plan = self.plan;
        let value = self.ordered(source, &[plan.rows.clone(), plan.features.clone()])?;
        let dtype = static_spec(self.writer.func.ty(value)).ok_or_else(wrong)?.dtype;
        let value = self.writer.converted(value, as_kernels_take(dtype));
        Ok(self.writer.padded(value, 0, (0, plan.padded - plan.count), 0))
    }

    fn row(&self) -> Spec {
        Spec::new(DType::F32, [1, self.plan.size])
    }

    fn two(&mut self, kind: OpKind, a: Value, b: Value) -> Result<Value, Error> {
        let row = tensor_type(&self.row());
        self.writer.op(kind, vec![a, b], Attrs::new(), vec![row]).first().copied().ok_or_else(wrong)
    }

    fn number(&mut self, number: f64) -> Result<Value, Error> {
        let row = self.row();
        self.writer.splat(&row, &(number as f32).to_le_bytes()).ok_or_else(wrong)
    }

    /// A number for every feature, as a row.
    fn weight(&mut self, weight: &Weight) -> Result<Value, Error> {
        let plan = self.plan;
        let mut product: Option<Value> = None;
        for &(column, power) in &weight.columns {
            let source = plan.columns.get(column).ok_or_else(wrong)?;
            let value = self.ordered(source, &[Vec::new(), plan.features.clone()])?;
            let is_alone = weight.columns.len() == 1 && power == 1 && weight.factor == 1.0;
            let dtype = static_spec(self.writer.func.ty(value)).ok_or_else(wrong)?.dtype;
            if is_alone {
                return Ok(self.writer.converted(value, as_kernels_take(dtype)));
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
            Some(product) if weight.factor == 1.0 => Ok(product),
            Some(product) => {
                let number = self.number(weight.factor)?;
                self.two(OpKind::Multiply, product, number)
            }
            None => self.number(weight.factor),
        }
    }

    fn sum(&mut self, of: &[Weight]) -> Result<Value, Error> {
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
        sum.ok_or_else(wrong)
    }

    /// Puts a result of a composite in place of values of the program.
    fn give(&mut self, given: &[Given], result: Value) -> Result<(), Error> {
        let plan = self.plan;
        let spec = |this: &Self, value: Value| static_spec(this.writer.func.ty(value)).ok_or_else(wrong);
        let is_of_rows = spec(self, result)?.dims.first() == Some(&plan.padded);
        for given in given {
            let (value, order, summed) = if is_of_rows {
                let value = self.writer.cut(result, 0, 0..plan.count);
                (value, [plan.rows.clone(), plan.features.clone()], Vec::new())
            } else {
                let scaled = match given.scale == Weight::ONE {
                    true => result,
                    false => {
                        let scale = self.weight(&given.scale)?;
                        let scale = self.writer.converted(scale, DType::F32);
                        self.two(OpKind::Multiply, result, scale)?
                    }
                };
                (scaled, [Vec::new(), plan.features.clone()], self.devices.axes_of(&plan.rows))
            };
            let labels = self.devices.labels();
            let dims: Vec<usize> = given.layout.iter().map(|of| size_of(labels, of)).collect();
            // Summands stay as wide as they are until they are summed.
            let dtype = spec(self, if summed.is_empty() { given.value } else { value })?.dtype;
            let like = Spec::new(dtype, dims);
            let value = self.writer.leaving(labels, value, &order, &given.layout, &like).ok_or_else(wrong)?;
            self.devices.give(&mut self.writer, given.value, (value, &given.layout), &summed)?;
        }
        Ok(())
    }
}

fn size_of(labels: &Labels, of: &[Label]) -> usize {
    labels.leaves(of).iter().map(|&label| labels.size(label)).product()
}
