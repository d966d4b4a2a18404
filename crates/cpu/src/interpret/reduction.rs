//! Reductions: reduce, reduce_window, select_and_scatter.

use hlo::{ElementType, OpKind, TensorType};

use super::combine::Combine;
use super::context::{Context, Eval};
use super::convolution::windowed;
use super::positions::{self, Walk};
use super::quantization;
use super::scalar::Scalar;
use super::value::{Elements, InterpreterValue, TensorValue};
use crate::attributes;
use crate::error::Error;

/// Elements that all windows of an op may have together, what lies outside counted: nobody waits for more.
const MAX_WORK: i64 = 1 << 34;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::Reduce => reduce,
        OpKind::ReduceWindow => reduce_window,
        OpKind::SelectAndScatter => select_and_scatter,
        _ => return None,
    })
}

/// A tensor as a region takes its elements: promotion widens, so that only a change of quantization changes numbers.
pub(crate) fn promoted(tensor: &TensorValue, to: &TensorType) -> Result<TensorValue, Error> {
    if tensor.ty.element == to.element {
        return Ok(tensor.clone());
    }
    if matches!(to.element, ElementType::Quantized(_)) {
        return quantization::stored(&quantization::expressed(tensor)?, &to.element);
    }
    Ok(TensorValue {
        ty: TensorType::new(tensor.ty.dims.clone(), to.element.clone()),
        elements: tensor.elements.clone(),
    })
}

/// Inputs and initial values of a variadic reduction, as its region takes them.
fn inputs(context: &Context<'_, '_>, combine: &Combine) -> Result<(Vec<TensorValue>, Vec<Scalar>), Error> {
    let count = context.op.operands.len() / 2;
    let inputs = (0..count)
        .map(|n| promoted(context.tensor(n)?, combine.argument(count + n)?))
        .collect::<Result<Vec<_>, _>>()?;
    let inits = (0..count)
        .map(|n| Ok(Scalar::get(&promoted(context.tensor(count + n)?, combine.argument(n)?)?.elements, 0)))
        .collect::<Result<Vec<_>, Error>>()?;
    match inputs.first() {
        Some(first) if inputs.iter().all(|t| t.dims() == first.dims()) => Ok((inputs, inits)),
        _ => context.fail("inputs must have one shape"),
    }
}

/// Folds the elements at some positions of every input into accumulators; `None` stands for an initial value.
fn fold(
    context: &mut Context<'_, '_>,
    combine: &Combine,
    inputs: &[TensorValue],
    inits: &[Scalar],
    positions: impl Iterator<Item = Option<usize>>,
) -> Result<Vec<Scalar>, Error> {
    let mut accumulators = inits.to_vec();
    if let ([input], [init]) = (inputs, inits) {
        let mut accumulator = *init;
        for at in positions {
            context.run.poll()?;
            let next = at.map_or(*init, |at| Scalar::get(&input.elements, at));
            accumulator = combine.fold(context, accumulator, next)?;
        }
        return Ok(vec![accumulator]);
    }
    for at in positions {
        context.run.poll()?;
        let mut arguments = accumulators;
        match at {
            Some(at) => arguments.extend(inputs.iter().map(|input| Scalar::get(&input.elements, at))),
            None => arguments.extend(inits),
        }
        accumulators = combine.apply(context, &arguments)?;
    }
    Ok(accumulators)
}

/// Result tensors filled with zeros, one for each accumulator of the region.
fn results(
    context: &Context<'_, '_>,
    combine: &Combine,
    count: usize,
    dims: &[i64],
) -> Result<Vec<TensorValue>, Error> {
    let size = positions::count(context, dims)?;
    (0..count)
        .map(|n| {
            let ty = TensorType::new(dims.to_vec(), combine.argument(n)?.element.clone());
            let elements = Scalar::zero(super::value::storage(&ty.element)).repeat(size);
            Ok(TensorValue { ty, elements })
        })
        .collect()
}

fn reduce(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let reduced = attributes::ints(context.op, "dimensions")?;
    let combine = Combine::new(context, 0)?;
    let (inputs, inits) = inputs(context, &combine)?;
    let dims = inputs[0].dims();
    let strides = positions::strides(dims);
    let kept = positions::others(dims.len(), &[&reduced]);
    let mut along = positions::indices(&reduced);
    along.sort_unstable();
    let sizes: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
    let mut results = results(context, &combine, inputs.len(), &sizes)?;
    let inner = positions::offsets(dims, &strides, &along);
    for (at, base) in positions::offsets(dims, &strides, &kept).into_iter().enumerate() {
        let window = inner.iter().map(|offset| Some(base + offset));
        for (result, value) in results.iter_mut().zip(fold(context, &combine, &inputs, &inits, window)?) {
            value.set(&mut result.elements, at)?;
        }
    }
    Ok(results.into_iter().map(InterpreterValue::from).collect())
}

/// Refuses windows of more elements than can be looked at one by one.
fn bounded_work(places: &[i64], window: &[i64]) -> Result<(), Error> {
    let work = places.iter().chain(window).try_fold(1i64, |all, &size| all.checked_mul(size));
    if work.is_none_or(|work| work > MAX_WORK) {
        let what = format!("windows of {window:?} at {places:?} places are too many elements for the interpreter");
        return Err(Error::Exhausted(what));
    }
    Ok(())
}

fn reduce_window(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let op = context.op;
    let combine = Combine::new(context, 0)?;
    let (inputs, inits) = inputs(context, &combine)?;
    let dims = inputs[0].dims().to_vec();
    let rank = dims.len();
    let window = attributes::ints_or(op, "window_dimensions", rank, 1)?;
    let stride = attributes::ints_or(op, "window_strides", rank, 1)?;
    let base_dilation = attributes::ints_or(op, "base_dilations", rank, 1)?;
    let window_dilation = attributes::ints_or(op, "window_dilations", rank, 1)?;
    let padding = attributes::padding(op, rank)?;
    let sizes = (0..rank)
        .map(|d| windowed(dims[d], window[d], stride[d], padding[d], base_dilation[d], window_dilation[d]))
        .collect::<Option<Vec<_>>>();
    let Some(sizes) = sizes else { return context.fail("the window overflows") };
    bounded_work(&sizes, &window)?;
    let mut results = results(context, &combine, inputs.len(), &sizes)?;
    let strides = positions::strides(&dims);
    let mut walk = Walk::new(&sizes);
    let mut at = 0;
    while let Some(index) = walk.next() {
        let mut inside = Walk::new(&window);
        let coordinate = |place: &[i64], d: usize| {
            let low = i128::from(index[d]) * i128::from(stride[d]) - i128::from(padding[d].0);
            let here = low + i128::from(place[d]) * i128::from(window_dilation[d]);
            let dilation = i128::from(base_dilation[d]);
            (here >= 0 && here % dilation == 0 && here / dilation < i128::from(dims[d])).then(|| here / dilation)
        };
        let found = std::iter::from_fn(|| inside.next().map(|place| locate(|d| coordinate(place, d), &strides)));
        for (result, value) in results.iter_mut().zip(fold(context, &combine, &inputs, &inits, found)?) {
            value.set(&mut result.elements, at)?;
        }
        at += 1;
    }
    Ok(results.into_iter().map(InterpreterValue::from).collect())
}

/// Position of the element whose coordinates a function gives; `None` where one lies outside.
fn locate(coordinate: impl Fn(usize) -> Option<i128>, strides: &[usize]) -> Option<usize> {
    strides.iter().enumerate().try_fold(0usize, |sum, (d, stride)| Some(sum + coordinate(d)? as usize * stride))
}

fn select_and_scatter(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let op = context.op;
    let (select, scatter) = (Combine::new(context, 0)?, Combine::new(context, 1)?);
    let operand = context.tensor(0)?.clone();
    let source = promoted(context.tensor(1)?, scatter.argument(1)?)?;
    let init = Scalar::get(&promoted(context.tensor(2)?, scatter.argument(0)?)?.elements, 0);
    let dims = operand.dims();
    let rank = dims.len();
    let window = attributes::ints_or(op, "window_dimensions", rank, 1)?;
    let stride = attributes::ints_or(op, "window_strides", rank, 1)?;
    let padding = attributes::padding(op, rank)?;
    bounded_work(source.dims(), &window)?;
    let strides = positions::strides(dims);
    let mut elements: Elements = init.repeat(positions::count(context, dims)?);
    let mut walk = Walk::new(source.dims());
    let mut at = 0;
    while let Some(index) = walk.next() {
        context.run.poll()?;
        let mut selected: Option<(usize, Scalar)> = None;
        let mut inside = Walk::new(&window);
        while let Some(place) = inside.next() {
            context.run.poll()?;
            let position = locate(
                |d| {
                    let low = i128::from(index[d]) * i128::from(stride[d]) - i128::from(padding[d].0);
                    let here = low + i128::from(place[d]);
                    (here >= 0 && here < i128::from(dims[d])).then_some(here)
                },
                &strides,
            );
            let Some(position) = position else { continue };
            let value = Scalar::get(&operand.elements, position);
            selected = match selected {
                Some((kept, best)) if select.ask(context, &[best, value])? => Some((kept, best)),
                _ => Some((position, value)),
            };
        }
        if let Some((position, _)) = selected {
            let value = Scalar::get(&source.elements, at);
            scatter.fold(context, Scalar::get(&elements, position), value)?.set(&mut elements, position)?;
        }
        at += 1;
    }
    let ty = TensorType::new(dims.to_vec(), scatter.argument(0)?.element.clone());
    Ok(vec![TensorValue { ty, elements }.into()])
}
