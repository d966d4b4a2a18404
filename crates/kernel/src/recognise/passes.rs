//! Writes the passes of an attention as composites, for one device or as each of a mesh computes its part, and puts their results in
//! place of the matmuls'.

use std::collections::HashMap;

use hlo::dims::AxisRef;
use hlo::{Attrs, Func, Region, Value};
use tensor::{DType, Spec};

use super::conditions::{Conditions, Unseen};
use super::devices::Split;
use super::layout::{Label, Labels, Layout};
use super::manual::Placed;
use super::operands::{gradient_of_mean, mean_of_values, operands};
use super::plan::{Pass, Plan};
use super::site::{Given, Part, Side, Site};
use super::write::{Decompositions, Writer};
use crate::call::static_spec;
use crate::composites::{FLASH, FLASH_BACKWARD, FlashAttributes};
use crate::error::Error;
use crate::kernels::flash::{Causality, Segments};

/// An attention as the device has it that writes it: the whole one, or the part of one of several.
struct Local {
    labels: Labels,
    sides: HashMap<Side, (Value, Layout)>,
    conditions: Conditions,
}

/// What the kernel takes.
struct Arrays {
    q: Value,
    k: Value,
    v: Value,
    others: Vec<Value>,
}

fn internal() -> Error {
    Error::Internal("axes of an attention do not agree".into())
}

impl Plan {
    fn attributes(&self) -> Attrs {
        let a = &self.attention;
        let causal = a.causality == Causality::Causal;
        let density = a.mask.and_then(|mask| mask.density);
        FlashAttributes { causal, window: a.window, scale: a.scale, soft_cap: a.soft_cap, density }.to_attrs()
    }

    fn given(&self, pass: Pass) -> impl Iterator<Item = &Given> {
        self.site.given.iter().filter(move |given| (given.part == Part::Output) == (pass == Pass::Forward))
    }

    /// The attention of one device, as it is in the program.
    fn whole(&self) -> Local {
        let Site { labels, sides, .. } = &self.site;
        Local { labels: labels.clone(), sides: sides.clone(), conditions: self.conditions.clone() }
    }

    /// Begins what each device computes: a dimension for each axis of every array, as the mesh splits them.
    fn part(&self, split: &Split, writer: &mut Writer<'_>, sides: &[Side]) -> Result<(Local, Vec<Placed>), Error> {
        let labels = &split.whole;
        let mut placed: Vec<Placed> = Vec::new();
        let mut place = |writer: &mut Writer<'_>, value: Value, leaves: &[Label]| {
            let flat = writer.reshaped(value, leaves.iter().map(|&label| labels.size(label)).collect());
            placed.push((flat, leaves.iter().map(|&label| split.axes(label)).collect()));
            flat
        };
        let mut local = Local { labels: split.local(), ..self.whole() };
        let own = |leaves: Vec<Label>| -> Layout { leaves.into_iter().map(|label| vec![label]).collect() };
        local.sides.retain(|side, _| sides.contains(side));
        for side in sides {
            let (value, layout) = local.sides.get_mut(side).ok_or_else(internal)?;
            let leaves = labels.flat(layout);
            *value = place(writer, *value, &leaves);
            *layout = own(leaves);
        }
        for part in local.conditions.parts_mut() {
            let value = writer.told_apart(part);
            let leaves = part.axes(labels);
            part.value = place(writer, value, &leaves);
            part.varies = vec![true; leaves.len()];
            part.layout = own(leaves);
        }
        Ok((local, placed))
    }

    fn arrays(
        &self,
        writer: &mut Writer<'_>,
        decompositions: &mut Decompositions,
        local: &Local,
    ) -> Result<Arrays, Error> {
        let Plan { attention, lengths, .. } = self;
        let side = |side: Side| local.sides.get(&side).ok_or_else(internal);
        let q = writer.entering(&local.labels, side(Side::Queries)?, &self.q_order).ok_or_else(internal)?;
        let k = writer.entering(&local.labels, side(Side::Keys)?, &self.kv_order).ok_or_else(internal)?;
        let v = writer.entering(&local.labels, side(Side::Values)?, &self.v_order).ok_or_else(internal)?;
        let q = writer.enlarged(q, [attention.q_len, attention.depth]);
        let of_keys = [attention.kv_len, attention.depth];
        let (k, v) = (writer.enlarged(k, of_keys), writer.enlarged(v, of_keys));
        let conditions = &local.conditions;
        let mut others =
            operands(writer, decompositions, (&local.labels, conditions), (attention, &self.mask_order), *lengths)?;
        if attention.segments == Segments::Packed && !conditions.has_segments() {
            others.push(writer.segments(attention.batch, attention.q_len, attention.q_len));
            others.push(writer.segments(attention.batch, attention.kv_len, lengths.1));
        }
        Ok(Arrays { q, k, v, others })
    }

    /// The output and the log-sum-exp as the kernel gives them, and the output with what queries get that see no key.
    fn forward(
        &self,
        writer: &mut Writer<'_>,
        decompositions: &mut Decompositions,
        arrays: &Arrays,
    ) -> Result<[Value; 3], Error> {
        let all = [vec![arrays.q, arrays.k, arrays.v], arrays.others.clone()].concat();
        let results = writer.composite(decompositions, FLASH, all, &self.attributes())?;
        let [out, logsumexp] = results[..] else { return Err(internal()) };
        if self.conditions.unseen != Unseen::Mean {
            return Ok([out, logsumexp, out]);
        }
        let text = |name: &str| mean_of_values(name, &self.attention, self.lengths.1);
        let mean = writer.call(decompositions, &text, vec![out, logsumexp, arrays.v])?;
        Ok([out, logsumexp, *mean.first().ok_or_else(internal)?])
    }

    /// The gradients of queries, keys and values.
    fn backward(
        &self,
        writer: &mut Writer<'_>,
        decompositions: &mut Decompositions,
        (local, arrays): (&Local, &Arrays),
        [out, logsumexp]: [Value; 2],
    ) -> Result<[Value; 3], Error> {
        let gradient = local.sides.get(&Side::Gradient).ok_or_else(internal)?;
        let gradient = writer.entering(&local.labels, gradient, &self.out_order).ok_or_else(internal)?;
        let gradient = writer.converted(gradient, self.attention.dtype);
        let gradient = writer.enlarged(gradient, [self.attention.q_len, self.attention.depth]);
        let Arrays { q, k, v, others } = arrays;
        let all = [vec![*q, *k, *v, out, logsumexp, gradient], others.clone()].concat();
        let results = writer.composite(decompositions, FLASH_BACKWARD, all, &self.attributes())?;
        let [dq, dk, dv] = results[..] else { return Err(internal()) };
        if self.conditions.unseen != Unseen::Mean {
            return Ok([dq, dk, dv]);
        }
        let text = |name: &str| gradient_of_mean(name, &self.attention, self.lengths.1);
        let mean = writer.call(decompositions, &text, vec![dv, logsumexp, gradient])?;
        Ok([dq, dk, *mean.first().ok_or_else(internal)?])
    }

    /// A result of the kernel as the program had it.
    fn result(
        &self,
        writer: &mut Writer<'_>,
        labels: &Labels,
        given: &Given,
        (value, layout, like): (Value, &Layout, &Spec),
    ) -> Result<Value, Error> {
        let (order, sizes) = self.order(given.part);
        let real = writer.reduced(value, sizes);
        writer.leaving(labels, real, order, layout, like).ok_or_else(internal)
    }

    /// Axes along which devices have other queries of the same keys: each has a summand of what keys and values get.
    fn summed(&self, split: &Split) -> Vec<AxisRef> {
        let [_, q_heads, rows, _] = &self.q_order;
        let of_queries = q_heads.iter().filter(|label| !self.kv_order[1].contains(label)).chain(rows);
        of_queries.flat_map(|&label| split.axes(label)).collect()
    }

    /// What one device has of results, as it is joined.
    fn returned(
        &self,
        (split, labels): (&Split, &Labels),
        writer: &mut Writer<'_>,
        given: &Given,
        value: Value,
    ) -> Result<Placed, Error> {
        let leaves = labels.flat(&given.layout);
        let flat: Layout = leaves.iter().map(|&label| vec![label]).collect();
        let dtype = static_spec(writer.func.ty(given.value)).ok_or_else(internal)?.dtype;
        let dims: Vec<usize> = leaves.iter().map(|&label| labels.size(label)).collect();
        let value = self.result(writer, labels, given, (value, &flat, &Spec::new(dtype, dims.clone())))?;
        let axes: Vec<Vec<AxisRef>> = leaves.iter().map(|&label| split.axes(label)).collect();
        let summed = self.summed(split);
        if !matches!(given.part, Part::OfKeys | Part::OfValues) || summed.is_empty() {
            return Ok((value, axes));
        }
        Ok((writer.reshaped(value, [vec![1], dims].concat()), [vec![summed], axes].concat()))
    }

    /// A joined result as the program had it.
    fn joined(&self, split: &Split, writer: &mut Writer<'_>, given: &Given, value: Value) -> Result<Value, Error> {
        let like = static_spec(writer.func.ty(given.value)).ok_or_else(internal)?;
        let is_summed = matches!(given.part, Part::OfKeys | Part::OfValues) && !self.summed(split).is_empty();
        let value = if is_summed { writer.sum_of_first(value, DType::F32).ok_or_else(internal)? } else { value };
        Ok(writer.reshaped(value, like.dims))
    }

    /// What the kernel gives beside its results, for the backward pass: sequences and heads by their axes, then the kernel's own.
    fn saved(&self, split: &Split, labels: &Labels) -> (Vec<usize>, Vec<Vec<AxisRef>>) {
        let leaves = [self.out_order[0].as_slice(), &self.out_order[1]].concat();
        let dims = leaves.iter().map(|&label| labels.size(label)).collect();
        (dims, leaves.iter().map(|&label| split.axes(label)).collect())
    }
}

/// Writes the composites; what stands for which value now.
pub(super) fn write(
    func: &mut Func,
    region: Region,
    plan: &Plan,
    decompositions: &mut Decompositions,
) -> Result<Vec<(Value, Value)>, Error> {
    match &plan.split {
        None => write_whole(func, region, plan, decompositions),
        Some(split) => write_parts(func, region, (plan, split), decompositions),
    }
}

fn write_whole(
    func: &mut Func,
    region: Region,
    plan: &Plan,
    decompositions: &mut Decompositions,
) -> Result<Vec<(Value, Value)>, Error> {
    let mut replaced = Vec::new();
    let local = plan.whole();
    let mut writer = Writer::new(&mut *func, region);
    let arrays = plan.arrays(&mut writer, decompositions, &local)?;
    let [out, logsumexp, given_out] = plan.forward(&mut writer, decompositions, &arrays)?;
    let mut results = |writer: &mut Writer<'_>, pass: Pass, values: &dyn Fn(Part) -> Value| {
        for given in plan.given(pass) {
            let like = static_spec(writer.func.ty(given.value)).ok_or_else(internal)?;
            let value = plan.result(writer, &local.labels, given, (values(given.part), &given.layout, &like))?;
            replaced.push((given.value, value));
        }
        Ok::<(), Error>(())
    };
    results(&mut writer, Pass::Forward, &|_| given_out)?;
    writer.place(plan.forward);
    if let Some(backward) = plan.backward {
        let mut writer = Writer::new(&mut *func, region);
        let gradients = plan.backward(&mut writer, decompositions, (&local, &arrays), [out, logsumexp])?;
        results(&mut writer, Pass::Backward, &|part| gradient_of(part, gradients))?;
        writer.place(backward);
    }
    Ok(replaced)
}

fn gradient_of(part: Part, [dq, dk, dv]: [Value; 3]) -> Value {
    match part {
        Part::OfKeys => dk,
        Part::OfValues => dv,
        Part::OfQueries | Part::Output => dq,
    }
}

/// As [`write`], where each device computes its own sequences and heads.
fn write_parts(
    func: &mut Func,
    region: Region,
    (plan, split): (&Plan, &Split),
    decompositions: &mut Decompositions,
) -> Result<Vec<(Value, Value)>, Error> {
    let sides = [Side::Queries, Side::Keys, Side::Values, Side::Gradient];
    let mut replaced = Vec::new();
    let mut writer = Writer::new(&mut *func, region);
    let (mut local, placed) = plan.part(split, &mut writer, &sides[..3])?;
    let (arguments, outside) = writer.begin_on_device(split, placed)?;
    local.take(&sides[..3], &arguments)?;
    let arrays = plan.arrays(&mut writer, decompositions, &local)?;
    let [out, logsumexp, given_out] = plan.forward(&mut writer, decompositions, &arrays)?;
    let mut results: Vec<Placed> = Vec::new();
    for given in plan.given(Pass::Forward) {
        results.push(plan.returned((split, &local.labels), &mut writer, given, given_out)?);
    }
    let a = &plan.attention;
    let rows: Vec<AxisRef> = plan.out_order[2].iter().flat_map(|&label| split.axes(label)).collect();
    let (dims, axes) = plan.saved(split, &local.labels);
    if plan.backward.is_some() {
        let out = writer.reshaped(out, [dims.as_slice(), &[a.q_len, a.depth]].concat());
        results.push((out, [axes.as_slice(), &[rows.clone(), Vec::new()]].concat()));
        let logsumexp = writer.reshaped(logsumexp, [dims.as_slice(), &[a.q_len]].concat());
        results.push((logsumexp, [axes.as_slice(), std::slice::from_ref(&rows)].concat()));
    }
    let wholes = writer.end_on_device(split, outside, results)?;
    for (given, &whole) in plan.given(Pass::Forward).zip(&wholes) {
        replaced.push((given.value, plan.joined(split, &mut writer, given, whole)?));
    }
    writer.place(plan.forward);
    let Some(backward) = plan.backward else { return Ok(replaced) };
    let [.., out, logsumexp] = wholes[..] else { return Err(internal()) };
    let mut writer = Writer::new(&mut *func, region);
    let (mut local, mut placed) = plan.part(split, &mut writer, &sides)?;
    placed.push((out, [axes.as_slice(), &[rows.clone(), Vec::new()]].concat()));
    placed.push((logsumexp, [axes.as_slice(), &[rows]].concat()));
    let (arguments, outside) = writer.begin_on_device(split, placed)?;
    let [arguments @ .., out, logsumexp] = &arguments[..] else { return Err(internal()) };
    local.take(&sides, arguments)?;
    let arrays = plan.arrays(&mut writer, decompositions, &local)?;
    let out = writer.reshaped(*out, vec![a.batch, a.q_heads, a.q_len, a.depth]);
    let logsumexp = writer.reshaped(*logsumexp, vec![a.batch, a.q_heads, 1, a.q_len]);
    let gradients = plan.backward(&mut writer, decompositions, (&local, &arrays), [out, logsumexp])?;
    let mut results: Vec<Placed> = Vec::new();
    for given in plan.given(Pass::Backward) {
        let value = gradient_of(given.part, gradients);
        results.push(plan.returned((split, &local.labels), &mut writer, given, value)?);
    }
    let wholes = writer.end_on_device(split, outside, results)?;
    for (given, whole) in plan.given(Pass::Backward).zip(wholes) {
        replaced.push((given.value, plan.joined(split, &mut writer, given, whole)?));
    }
    writer.place(backward);
    Ok(replaced)
}

impl Local {
    /// Has arguments in place of arrays, in the order of [`Plan::part`].
    fn take(&mut self, sides: &[Side], arguments: &[Value]) -> Result<(), Error> {
        let mut arguments = arguments.iter();
        let mut next = || arguments.next().copied().ok_or_else(internal);
        for side in sides {
            self.sides.get_mut(side).ok_or_else(internal)?.0 = next()?;
        }
        for part in self.conditions.parts_mut() {
            part.value = next()?;
        }
        Ok(())
    }
}
