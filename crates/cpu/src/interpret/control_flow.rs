//! Loops, branches, calls, tuples, tokens and what passes values through on one device.

use hlo::{Attr, OpKind};

use super::context::{Context, Eval};
use super::positions::{position, strides};
use super::shape::each_index;
use super::value::{Elements, InterpreterValue, TensorValue, fits};
use crate::attributes;
use crate::error::Error;

/// Values one run may probe.
const MAX_PROBES: usize = 1 << 16;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::While => while_loop,
        K::If => |c| {
            let taken = if c.tensor(0)?.bool()? { 0 } else { 1 };
            c.region(taken, Vec::new())
        },
        K::Case => case,
        K::FuncCall => |c| call(c, "callee"),
        K::Composite => |c| call(c, "decomposition"),
        K::Map => map,
        K::ChloScan => scan,
        K::Tuple => |c| Ok(vec![InterpreterValue::Tuple(c.values()?)]),
        K::GetTupleElement => get_tuple_element,
        K::CreateToken | K::AfterAll => |_| Ok(vec![InterpreterValue::Token]),
        K::AsyncStart => |c| {
            let operands = c.values()?;
            Ok(vec![InterpreterValue::Future(c.region(0, operands)?)])
        },
        K::AsyncDone => |c| match c.value(0)? {
            InterpreterValue::Future(results) => Ok(results.clone()),
            _ => c.fail("the operand is no future"),
        },
        K::OptimizationBarrier
        | K::SdyAllGather
        | K::SdyAllReduce
        | K::SdyAllSlice
        | K::SdyAllToAll
        | K::SdyCollectivePermute
        | K::SdyDataFlowEdge
        | K::SdyFuncDataFlowEdge
        | K::SdyPropagationBarrier
        | K::SdyReduceScatter
        | K::SdyReplicatedToUnreduced
        | K::SdyReshard
        | K::SdyShardedToUnreduced
        | K::SdyShardingConstraint => |c| c.values(),
        K::SdyShardingGroup => |_| Ok(Vec::new()),
        K::SdyManualComputation => super::manual::computation,
        K::SdyNamedComputation => computation,
        K::InterpreterPrint => print,
        K::InterpreterProbe => probe,
        _ => return None,
    })
}

fn while_loop(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let mut state = context.values()?;
    loop {
        let answer = context.region(0, state.clone())?;
        match answer.first() {
            Some(answer) if answer.tensor()?.bool()? => state = context.region(1, state)?,
            Some(_) => return Ok(state),
            None => return context.fail("the condition gives nothing"),
        }
    }
}

/// An index that names no branch takes the last one.
fn case(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let last = context.op.regions.len() - 1;
    let index = context.tensor(0)?.int()?;
    let taken = usize::try_from(index).ok().filter(|&n| n <= last).unwrap_or(last);
    context.region(taken, Vec::new())
}

fn call(context: &mut Context<'_, '_>, attribute: &str) -> Result<Vec<InterpreterValue>, Error> {
    match context.op.attr(attribute) {
        Some(Attr::Symbol(name)) => {
            let operands = context.values()?;
            context.run.call(name, operands)
        }
        _ => context.fail("names no function"),
    }
}

fn map(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let operands = context.values()?;
    let Some(first) = operands.first() else { return context.fail("there are no operands") };
    let dims = first.tensor()?.dims().to_vec();
    for operand in &operands {
        if operand.tensor()?.dims() != dims {
            return context.fail(format!("the operands have sizes {dims:?} and {:?}", operand.tensor()?.dims()));
        }
    }
    let element = context.result_tensor(0)?.element.clone();
    let mut elements: Option<Elements> = None;
    for n in 0..first.tensor()?.elements.len() {
        let arguments = operands.iter().map(|v| Ok(v.tensor()?.at(n).into())).collect::<Result<_, Error>>()?;
        let results = context.region(0, arguments)?;
        let Some(InterpreterValue::Tensor(result)) = results.into_iter().next() else {
            return context.fail("the computation gives nothing");
        };
        match &mut elements {
            None => elements = Some(result.elements),
            Some(elements) => elements.append(&result.elements)?,
        }
    }
    let elements = elements.unwrap_or_else(|| empty(&element));
    Ok(vec![TensorValue::new(dims, element, elements).into()])
}

fn empty(element: &hlo::ElementType) -> Elements {
    super::value::decode(super::value::storage(element), &[])
}

/// Carries a state along one dimension; each step sees one slice of every input.
fn scan(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let along = attributes::int(context.op, "dimension")? as usize;
    let operands = context.values()?;
    let inputs = match context.op.attr("operandSegmentSizes") {
        Some(Attr::DenseArray(_, sizes)) => sizes.first().map_or(0, |&n| n as usize),
        _ => operands.len() / 2,
    };
    let (inputs, carries) = operands.split_at(inputs.min(operands.len()));
    let mut carries = carries.to_vec();
    let outputs = (context.op.num_results as usize).saturating_sub(carries.len());
    let length = match inputs.first() {
        Some(input) => input.tensor()?.dims().get(along).copied().unwrap_or(0),
        None => attributes::int(context.op, "scan_dim_size")?,
    };
    for input in inputs {
        if input.tensor()?.dims().get(along) != Some(&length) {
            return context.fail(format!("the inputs do not all have {length} steps"));
        }
    }
    context.count(&[length])?;
    let mut steps: Vec<i64> = (0..length).collect();
    if attributes::flag(context.op, "is_reverse") {
        steps.reverse();
    }
    let mut slices: Vec<Vec<TensorValue>> = vec![Vec::new(); outputs];
    for &step in &steps {
        let mut arguments = inputs
            .iter()
            .map(|v| v.tensor().map(|t| slice_at(t, along, step).into()))
            .collect::<Result<Vec<InterpreterValue>, Error>>()?;
        arguments.append(&mut carries);
        let mut results = context.region(0, arguments)?;
        carries = results.split_off(outputs.min(results.len()));
        for (to, result) in slices.iter_mut().zip(results) {
            to.push(result.tensor()?.clone());
        }
    }
    if attributes::flag(context.op, "is_reverse") {
        slices.iter_mut().for_each(|s| s.reverse());
    }
    let mut results = Vec::new();
    for (n, slices) in slices.iter().enumerate() {
        let ty = context.result_tensor(n)?;
        let mut dims = slices.first().map_or_else(|| ty.dims.clone(), |s| s.dims().to_vec());
        match slices.first() {
            Some(_) => dims.insert(along, length),
            None => dims[along] = 0,
        }
        results.push(stack(context, slices, dims, along, &ty.element)?.into());
    }
    results.append(&mut carries);
    Ok(results)
}

/// The slice at an index of one dimension, which it loses.
fn slice_at(tensor: &TensorValue, along: usize, at: i64) -> TensorValue {
    let mut dims = tensor.dims().to_vec();
    let mut steps = strides(&dims);
    dims.remove(along);
    let first = steps.remove(along) * at as usize;
    let elements = tensor.elements.pick(each_index(&dims, |index| first + position(index, &steps)));
    TensorValue::new(dims, tensor.ty.element.clone(), elements)
}

/// Slices side by side along a new dimension.
fn stack(
    context: &Context<'_, '_>,
    slices: &[TensorValue],
    dims: Vec<i64>,
    along: usize,
    element: &hlo::ElementType,
) -> Result<TensorValue, Error> {
    context.count(&dims)?;
    let mut all = empty(element);
    for slice in slices {
        all.append(&slice.elements)?;
    }
    let mut laid = dims.clone();
    let length = laid.remove(along);
    let each = strides(&laid);
    let size = all.len() / length.max(1) as usize;
    let elements = all.pick(each_index(&dims, |index| {
        let mut inner = index.to_vec();
        let step = inner.remove(along);
        step as usize * size + position(&inner, &each)
    }));
    Ok(TensorValue::new(dims, element.clone(), elements))
}

fn get_tuple_element(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let index = attributes::int(context.op, "index")? as usize;
    match context.value(0)? {
        InterpreterValue::Tuple(values) if index < values.len() => Ok(vec![values[index].clone()]),
        _ => context.fail(format!("there is no element {index}")),
    }
}

/// A computation written for the devices of a mesh, where the mesh is this one device.
pub(crate) fn computation(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let operands = context.values()?;
    let func = context.frame.func;
    if let Some(&region) = context.op.regions.first() {
        let fit = func.region(region).args.iter().zip(&operands).all(|(&arg, value)| fits(value, func.ty(arg)));
        if !fit {
            return Err(Error::Unsupported { what: "a computation split over several devices".into() });
        }
    }
    context.region(0, operands)
}

fn print(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    if let Some(print) = context.run.options.print {
        let tensor = context.tensor(0)?;
        let bytes = super::value::encode(tensor.dtype(), &tensor.elements);
        if let Some(dense) = hlo::Dense::from_elements(tensor.ty.clone(), bytes) {
            print(&hlo::text::print_attr(&Attr::Dense(dense.into())));
        }
    }
    Ok(Vec::new())
}

/// Records a value under a name, for `check.expect_serialized_eq`.
fn probe(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let tensor = context.tensor(0)?.clone();
    let id = context.op.attr("probe_id").and_then(Attr::as_str).unwrap_or_default().to_string();
    if context.run.probes.len() >= MAX_PROBES {
        return Err(Error::Exhausted(format!("more than {MAX_PROBES} values were probed")));
    }
    context.run.probes.push((id, tensor.clone()));
    Ok(vec![tensor.into()])
}
