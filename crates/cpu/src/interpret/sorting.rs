//! Sorting by a comparator: stable, several operands at once.

use hlo::OpKind;

use super::combine::Combine;
use super::context::{Context, Eval};
use super::positions;
use super::scalar::Scalar;
use super::value::{Elements, InterpreterValue, TensorValue};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    match kind {
        OpKind::Sort => Some(sort),
        _ => None,
    }
}

fn sort(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let compare = Combine::new(context, 0)?;
    let inputs =
        (0..context.op.operands.len()).map(|n| context.tensor(n).cloned()).collect::<Result<Vec<TensorValue>, _>>()?;
    let Some(first) = inputs.first() else { return Ok(Vec::new()) };
    let dims = first.dims().to_vec();
    if inputs.iter().any(|t| t.dims() != dims) {
        return context.fail("inputs must have one shape");
    }
    let dimension = attributes::int_or(context.op, "dimension", -1);
    let along = if dimension < 0 { dimension + dims.len() as i64 } else { dimension } as usize;
    if along >= dims.len() {
        // A scalar has nothing to sort.
        return Ok(inputs.into_iter().map(InterpreterValue::from).collect());
    }
    let strides = positions::strides(&dims);
    let others = positions::others(dims.len(), &[&[along as i64]]);
    let mut order: Vec<usize> = (0..first.elements.len()).collect();
    for base in positions::offsets(&dims, &strides, &others) {
        let row: Vec<usize> = (0..dims[along] as usize).map(|i| base + i * strides[along]).collect();
        let sorted = merge_sort(row.clone(), &mut |a, b| {
            let arguments: Vec<Scalar> = inputs.iter().flat_map(|t| both(&t.elements, a, b)).collect();
            compare.ask(context, &arguments)
        })?;
        row.into_iter().zip(sorted).for_each(|(to, from)| order[to] = from);
    }
    Ok(inputs
        .iter()
        .map(|t| TensorValue { ty: t.ty.clone(), elements: t.elements.pick(order.iter().copied()) }.into())
        .collect())
}

fn both(elements: &Elements, a: usize, b: usize) -> [Scalar; 2] {
    [Scalar::get(elements, a), Scalar::get(elements, b)]
}

/// Sorts stably. The comparator comes from the program: it may contradict itself, and it may fail.
pub(crate) fn merge_sort<T: Copy>(
    items: Vec<T>,
    is_before: &mut impl FnMut(T, T) -> Result<bool, Error>,
) -> Result<Vec<T>, Error> {
    let mut items = items;
    let mut width = 1;
    while width < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
                if is_before(r, l)? {
                    merged.push(r);
                    right = &right[1..];
                } else {
                    merged.push(l);
                    left = &left[1..];
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        items = merged;
        width *= 2;
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_is_stable_and_survives_a_comparator_that_contradicts_itself() {
        let items = vec![(3, 'a'), (1, 'b'), (3, 'c'), (2, 'd'), (1, 'e')];
        let sorted = merge_sort(items.clone(), &mut |a, b| Ok(a.0 < b.0)).unwrap();
        assert_eq!(sorted, [(1, 'b'), (1, 'e'), (2, 'd'), (3, 'a'), (3, 'c')]);
        assert_eq!(merge_sort(items.clone(), &mut |_, _| Ok(true)).unwrap().len(), items.len());
        assert!(merge_sort(items, &mut |_, _| Err(Error::Interrupted)).is_err());
    }
}
