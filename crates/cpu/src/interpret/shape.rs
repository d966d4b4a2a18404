//! Ops that place elements without computing: constants, reshapes, broadcasts, slices, padding.

use hlo::{Attr, OpKind};
use tensor::DType;

use super::context::{Context, Eval};
use super::convert;
use super::positions::{Walk, position, strides};
use super::value::{Complex, Elements, InterpreterValue, TensorValue, storage, wrap};
use crate::attributes;
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::Constant | K::ChloConstant | K::SdyConstant => constant,
        K::Iota => |c| Ok(vec![iota(c, &c.result_tensor(0)?.dims)?.into()]),
        K::Broadcast => broadcast,
        K::BroadcastInDim => |c| {
            let along = attributes::ints(c.op, "broadcast_dimensions")?;
            broadcast_in_dim(c, &c.result_tensor(0)?.dims, &along)
        },
        K::Reshape => |c| reshape(c, &c.result_tensor(0)?.dims),
        K::Transpose => transpose,
        K::Slice => |c| {
            let [start, limit, step] =
                ["start_indices", "limit_indices", "strides"].map(|name| attributes::ints(c.op, name));
            slice(c, &start?, &limit?, &step?)
        },
        K::DynamicSlice => dynamic_slice,
        K::DynamicUpdateSlice => dynamic_update_slice,
        K::Concatenate => concatenate,
        K::Pad => |c| {
            let names = ["edge_padding_low", "edge_padding_high", "interior_padding"];
            let [low, high, interior] = names.map(|name| attributes::ints(c.op, name));
            pad(c, &low?, &high?, &interior?)
        },
        K::Reverse => reverse,
        _ => return None,
    })
}

fn constant(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    match context.op.attr("value") {
        Some(Attr::Dense(dense)) => {
            context.count(&dense.ty.dims)?;
            let mut tensor = TensorValue::from_dense(dense)?;
            // A quantized constant may be written with its stored integers.
            tensor.ty.element = context.result_tensor(0)?.element.clone();
            Ok(vec![tensor.into()])
        }
        _ => context.fail("the value is not dense"),
    }
}

/// Every element the index along one dimension.
pub(crate) fn iota(context: &Context<'_, '_>, dims: &[i64]) -> Result<TensorValue, Error> {
    context.count(dims)?;
    let along = attributes::int(context.op, "iota_dimension")? as usize;
    if along >= dims.len() {
        return context.fail(format!("there is no dimension {along} of sizes {dims:?}"));
    }
    let element = context.result_tensor(0)?.element.clone();
    let dtype = storage(&element);
    let indices = each_index(dims, |index| i128::from(index[along]));
    let elements = if dtype.is_integer() {
        Elements::Int(indices.map(|n| wrap(dtype, n)).collect())
    } else if let Some(part) = dtype.complex_part() {
        Elements::Complex(indices.map(|n| Complex { re: convert::from_int(part, n), im: 0.0 }).collect())
    } else {
        Elements::Float(indices.map(|n| convert::from_int(dtype, n)).collect())
    };
    Ok(TensorValue::new(dims, element, elements))
}

/// For every index of a shape in row-major order, what `f` makes of it.
pub(crate) fn each_index<T>(dims: &[i64], mut f: impl FnMut(&[i64]) -> T) -> impl Iterator<Item = T> {
    let mut walk = Walk::new(dims);
    std::iter::from_fn(move || walk.next().map(&mut f))
}

fn broadcast(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let mut dims = attributes::ints(context.op, "broadcast_sizes")?;
    let operand = context.tensor(0)?;
    let leading = dims.len();
    dims.extend(operand.dims());
    let along: Vec<i64> = (leading..dims.len()).map(|d| d as i64).collect();
    broadcast_in_dim(context, &dims, &along)
}

/// Operand 0 spread over `dims`, its dimension `d` along result dimension `along[d]`.
pub(crate) fn broadcast_in_dim(
    context: &Context<'_, '_>,
    dims: &[i64],
    along: &[i64],
) -> Result<Vec<InterpreterValue>, Error> {
    let element = &context.result_tensor(0)?.element;
    let tensor = spread(context, context.tensor(0)?, dims, along)?;
    // The quantization axis is the result's own.
    Ok(vec![TensorValue::new(dims, element.clone(), tensor.elements).into()])
}

/// A tensor spread over `dims`, its dimension `d` along result dimension `along[d]`.
pub(crate) fn spread(
    context: &Context<'_, '_>,
    tensor: &TensorValue,
    dims: &[i64],
    along: &[i64],
) -> Result<TensorValue, Error> {
    context.count(dims)?;
    let sizes = tensor.dims();
    let own = strides(sizes);
    let mut step = vec![0; dims.len()];
    for (d, &to) in along.iter().enumerate() {
        let to = to as usize;
        match (sizes.get(d), dims.get(to)) {
            (Some(1), Some(_)) => {}
            (Some(size), Some(want)) if size == want => step[to] = own[d],
            _ => return context.fail(format!("sizes {sizes:?} do not spread along {along:?} of {dims:?}")),
        }
    }
    let elements = tensor.elements.pick(each_index(dims, |index| position(index, &step)));
    Ok(TensorValue::new(dims, tensor.ty.element.clone(), elements))
}

/// Operand 0 with other sizes.
pub(crate) fn reshape(context: &Context<'_, '_>, dims: &[i64]) -> Result<Vec<InterpreterValue>, Error> {
    let operand = context.tensor(0)?;
    // Only `reshape` of a tensor with unknown sizes leaves one here: what remains is its size.
    let mut dims = dims.to_vec();
    if dims.contains(&hlo::DYNAMIC) {
        let known: i64 = dims.iter().filter(|&&d| d != hlo::DYNAMIC).product();
        if known > 0 && dims.iter().filter(|&&d| d == hlo::DYNAMIC).count() == 1 {
            let rest = operand.elements.len() as i64 / known;
            dims.iter_mut().filter(|d| **d == hlo::DYNAMIC).for_each(|d| *d = rest);
        }
    }
    if context.count(&dims)? != operand.elements.len() {
        return context.fail(format!("sizes {:?} do not hold the elements of {dims:?}", operand.dims()));
    }
    let element = context.result_tensor(0)?.element.clone();
    Ok(vec![TensorValue::new(dims, element, operand.elements.clone()).into()])
}

fn transpose(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let order = attributes::ints(context.op, "permutation")?;
    let operand = context.tensor(0)?;
    let own = strides(operand.dims());
    let dims: Vec<i64> = order.iter().map(|&d| operand.dims()[d as usize]).collect();
    let step: Vec<usize> = order.iter().map(|&d| own[d as usize]).collect();
    let elements = operand.elements.pick(each_index(&dims, |index| position(index, &step)));
    Ok(vec![TensorValue::new(dims, context.result_tensor(0)?.element.clone(), elements).into()])
}

/// Elements of operand 0 from `start` to before `limit` by `step`.
pub(crate) fn slice(
    context: &Context<'_, '_>,
    start: &[i64],
    limit: &[i64],
    step: &[i64],
) -> Result<Vec<InterpreterValue>, Error> {
    let operand = context.tensor(0)?;
    one_each(context, operand.dims().len(), &[start, limit, step])?;
    for d in 0..operand.dims().len() {
        if !(0 <= start[d] && start[d] <= limit[d] && limit[d] <= operand.dims()[d] && step[d] > 0) {
            return context.fail(format!(
                "the slice {}:{}:{} of dimension {d} is not within its size {}",
                start[d],
                limit[d],
                step[d],
                operand.dims()[d]
            ));
        }
    }
    let dims: Vec<i64> = (0..start.len())
        .map(|d| (limit[d] - start[d]).div_euclid(step[d]) + i64::from((limit[d] - start[d]) % step[d] != 0))
        .collect();
    let own = strides(operand.dims());
    let first = position(start, &own);
    let by: Vec<usize> = own.iter().zip(step).map(|(&s, &n)| s.saturating_mul(n as usize)).collect();
    let elements = operand.elements.pick(each_index(&dims, |index| first + position(index, &by)));
    Ok(vec![TensorValue::new(dims, context.result_tensor(0)?.element.clone(), elements).into()])
}

/// Lists that may be operands of unknown length must have one number for each dimension.
fn one_each(context: &Context<'_, '_>, rank: usize, lists: &[&[i64]]) -> Result<(), Error> {
    match lists.iter().find(|list| list.len() != rank) {
        Some(list) => context.fail(format!("{} numbers for {rank} dimensions", list.len())),
        None => Ok(()),
    }
}

/// Start indices from operand `first` on, moved so that `sizes` fit into `dims`.
fn starts(context: &Context<'_, '_>, first: usize, dims: &[i64], sizes: &[i64]) -> Result<Vec<i64>, Error> {
    let written = context.op.operands.len() - first;
    if written != dims.len() || sizes.len() != dims.len() {
        return context.fail(format!("{written} start indices for {} dimensions", dims.len()));
    }
    (0..dims.len())
        .map(|d| {
            let most = dims[d] - sizes[d];
            if most < 0 {
                return context
                    .fail(format!("a slice of {} does not fit into dimension {d} of size {}", sizes[d], dims[d]));
            }
            Ok(context.tensor(first + d)?.int()?.clamp(0, most))
        })
        .collect()
}

fn dynamic_slice(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let sizes = attributes::ints(context.op, "slice_sizes")?;
    let start = starts(context, 1, context.tensor(0)?.dims(), &sizes)?;
    let limit: Vec<i64> = start.iter().zip(&sizes).map(|(a, b)| a + b).collect();
    slice(context, &start, &limit, &vec![1; sizes.len()])
}

fn dynamic_update_slice(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (operand, update) = (context.tensor(0)?, context.tensor(1)?);
    let start = starts(context, 2, operand.dims(), update.dims())?;
    let own = strides(operand.dims());
    let first = position(&start, &own);
    let mut result = operand.clone();
    let mut walk = Walk::new(update.dims());
    let mut from = 0;
    while let Some(index) = walk.next() {
        result.elements.set(first + position(index, &own), &update.elements, from)?;
        from += 1;
    }
    Ok(vec![result.into()])
}

fn concatenate(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let along = attributes::int(context.op, "dimension")? as usize;
    let parts = (0..context.op.operands.len()).map(|n| context.tensor(n)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = parts.first() else { return context.fail("there is nothing to concatenate") };
    let mut dims = first.dims().to_vec();
    dims[along] = 0;
    for part in &parts {
        let mut want = part.dims().to_vec();
        let size = std::mem::replace(&mut want[along], dims[along]);
        if want != dims {
            return context.fail(format!("sizes {:?} do not continue {dims:?}", part.dims()));
        }
        dims[along] = dims[along].saturating_add(size);
    }
    context.count(&dims)?;
    // Where each element of the result lies in the operands laid one after another.
    let outer: usize = dims[..along].iter().map(|&d| d as usize).product();
    let mut all = first.elements.clone();
    let mut begins = vec![0];
    for part in &parts[1..] {
        begins.push(all.len());
        all.append(&part.elements)?;
    }
    let runs: Vec<usize> = parts.iter().map(|p| p.elements.len() / outer.max(1)).collect();
    let elements = all.pick((0..outer).flat_map(|o| (0..parts.len()).map(move |p| (o, p))).flat_map(|(o, p)| {
        let begin = begins[p] + o * runs[p];
        begin..begin + runs[p]
    }));
    Ok(vec![TensorValue::new(dims, context.result_tensor(0)?.element.clone(), elements).into()])
}

/// Operand 0 padded with operand 1; negative edges cut.
pub(crate) fn pad(
    context: &Context<'_, '_>,
    low: &[i64],
    high: &[i64],
    interior: &[i64],
) -> Result<Vec<InterpreterValue>, Error> {
    let (operand, fill) = (context.tensor(0)?, context.tensor(1)?);
    let sizes = operand.dims();
    one_each(context, sizes.len(), &[low, high, interior])?;
    let padded = |d: usize| {
        let between = interior[d].checked_mul((sizes[d] - 1).max(0))?;
        sizes[d].checked_add(between)?.checked_add(low[d])?.checked_add(high[d])
    };
    let Some(dims) = (0..sizes.len()).map(padded).collect::<Option<Vec<_>>>() else {
        return context.fail("the padded sizes overflow");
    };
    if interior.iter().any(|&n| n < 0) {
        return context.fail(format!("interior padding {interior:?} is negative"));
    }
    context.count(&dims)?;
    let own = strides(sizes);
    let source = each_index(&dims, |index| {
        let mut at = 0;
        for d in 0..index.len() {
            let (moved, step) = (i128::from(index[d]) - i128::from(low[d]), i128::from(interior[d]) + 1);
            if moved < 0 || moved % step != 0 || moved / step >= i128::from(sizes[d]) {
                return None;
            }
            at += (moved / step) as usize * own[d];
        }
        Some(at)
    });
    let elements = operand.elements.pick_or(&fill.elements, source)?;
    Ok(vec![TensorValue::new(dims, context.result_tensor(0)?.element.clone(), elements).into()])
}

fn reverse(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let turned = attributes::ints(context.op, "dimensions")?;
    let operand = context.tensor(0)?;
    let (dims, own) = (operand.dims(), strides(operand.dims()));
    let source = each_index(dims, |index| {
        (0..index.len())
            .map(|d| if turned.contains(&(d as i64)) { dims[d] - 1 - index[d] } else { index[d] } as usize * own[d])
            .sum()
    });
    Ok(vec![TensorValue { ty: operand.ty.clone(), elements: operand.elements.pick(source) }.into()])
}

/// A rank-0 `i32`.
pub(crate) fn scalar_i32(value: i64) -> TensorValue {
    TensorValue::new([], DType::I32, Elements::Int(vec![wrap(DType::I32, i128::from(value))]))
}
