//! Custom calls this device knows by name, ops that need a host, and a clear refusal of everything else.

use hlo::{Attr, OpKind};

use super::check;
use super::context::{Context, Eval};
use super::positions::{position, strides};
use super::shape::each_index;
use super::value::{InterpreterValue, TensorValue, fits};
use super::{linear_algebra, sorting, sparse};
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::CustomCall => custom_call,
        _ => return None,
    })
}

fn custom_call(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let target = context.op.attr("call_target_name").and_then(Attr::as_str).unwrap_or_default();
    if let Some(check) = check::custom_call(target).filter(|_| context.op.operands.len() == 2) {
        return check(context);
    }
    if let Some(factorization) = linear_algebra::custom_call(target) {
        return factorization(context);
    }
    if let Some(matmul) = sparse::custom_call(target) {
        return matmul(context);
    }
    match target {
        "ApproxTopK" => approx_top_k(context),
        "shape_assertion" => shape_assertion(context),
        // Annotations for a partitioner or a layout assignment: nothing to do on one device.
        "Sharding"
        | "SPMDFullToShardShape"
        | "SPMDShardToFullShape"
        | "annotate_device_placement"
        | "LayoutConstraint"
        | "MoveToDevice"
        | "MoveToHost"
        | "xla.sdy.FuncResultSharding" => identity(context, target),
        _ if is_host_callback(target) => {
            Err(Error::Unsupported { what: format!("custom call @{target}, which calls back into the host program") })
        }
        _ => Err(Error::Unsupported { what: format!("custom call @{target}") }),
    }
}

/// What an exporter of symbolic sizes asks of them; its message has `{n}` where operand `n + 1` goes.
fn shape_assertion(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    if context.tensor(0)?.bool()? {
        return Ok(Vec::new());
    }
    let message = context.op.attr("error_message").and_then(Attr::as_str).unwrap_or("a shape assertion fails");
    let mut message = message.to_string();
    for n in 1..context.op.operands.len() {
        message = message.replace(&format!("{{{}}}", n - 1), &context.tensor(n)?.int()?.to_string());
    }
    context.fail(message)
}

/// The first elements along a dimension in the order of a comparator. All of them are right, whatever recall is asked.
fn approx_top_k(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let inputs = context.op.operands.len() / 2;
    let tensors = (0..inputs).map(|n| context.tensor(n).cloned()).collect::<Result<Vec<TensorValue>, _>>()?;
    let (Some(Attr::Dict(config)), Some(Attr::Array(called)), Some(first)) =
        (context.op.attr("mhlo.backend_config"), context.op.attr("called_computations"), tensors.first())
    else {
        return context.fail("ApproxTopK lacks its configuration, its comparator or its operands");
    };
    let (Some(along), [Attr::Symbol(comparator)]) = (config.get("reduction_dim").and_then(Attr::as_int), &called[..])
    else {
        return context.fail("ApproxTopK names no dimension or no comparator");
    };
    let dims = first.dims().to_vec();
    let mut kept = context.result_tensor(0)?.dims.clone();
    let rank = dims.len() as i64;
    let along = if along < 0 { along + rank } else { along };
    let fits = (0..rank).contains(&along) && kept.len() == dims.len() && tensors.iter().all(|t| t.dims() == dims);
    if !fits || !(0..=dims[along as usize]).contains(&kept[along as usize]) {
        return context.fail(format!("ApproxTopK of sizes {dims:?} gives sizes {kept:?}"));
    }
    let along = along as usize;
    let k = std::mem::replace(&mut kept[along], 1) as usize;
    let steps = strides(&dims);
    let mut rows = Vec::new();
    for base in each_index(&kept, |index| position(index, &steps)) {
        let row = (0..dims[along] as usize).map(|n| base + n * steps[along]).collect();
        let sorted = sorting::merge_sort(row, &mut |a, b| {
            let arguments = tensors.iter().flat_map(|t| [t.at(a).into(), t.at(b).into()]).collect();
            let answer = context.run.call(comparator, arguments)?;
            answer.first().ok_or_else(|| Error::Internal("a comparator returned nothing".into()))?.tensor()?.bool()
        })?;
        rows.push(sorted);
    }
    kept[along] = k as i64;
    context.count(&kept)?;
    // Rows are numbered by the indices of the other dimensions.
    let mut others = kept.clone();
    others[along] = 1;
    let number = strides(&others);
    let source: Vec<usize> = each_index(&kept, |index| {
        let row: usize = (0..index.len()).filter(|&d| d != along).map(|d| index[d] as usize * number[d]).sum();
        rows[row][index[along] as usize]
    })
    .collect();
    let pick =
        |t: &TensorValue| TensorValue::new(kept.clone(), t.ty.element.clone(), t.elements.pick(source.iter().copied()));
    Ok(tensors.iter().map(|t| pick(t).into()).collect())
}

fn identity(context: &Context<'_, '_>, target: &str) -> Result<Vec<InterpreterValue>, Error> {
    let values = context.values()?;
    let fit = values.len() == context.op.num_results as usize
        && values.iter().enumerate().all(|(n, value)| fits(value, context.result_type(n)));
    if fit {
        Ok(values)
    } else {
        Err(Error::Unsupported { what: format!("custom call @{target} over several devices") })
    }
}

fn is_host_callback(target: &str) -> bool {
    target.contains("callback")
}
