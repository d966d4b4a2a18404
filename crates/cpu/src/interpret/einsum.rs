//! Einstein summation, with one or two operands.

use std::collections::BTreeMap;

use hlo::{Attr, TensorType};

use super::context::Context;
use super::contraction::{complexes, floats, ints, result_element};
use super::positions::{self, Walk};
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, storage, wrap};
use crate::error::Error;

/// The meaning of `einsum` and `unary_einsum`.
pub(crate) fn eval(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let Some(config) = context.op.attr("einsum_config").and_then(Attr::as_str) else {
        return context.fail("einsum_config must be text");
    };
    let operands: Vec<&TensorValue> =
        (0..context.op.operands.len()).map(|n| context.tensor(n)).collect::<Result<_, _>>()?;
    let Some((inputs, output)) = config.split_once("->") else { return context.fail("einsum_config has no `->`") };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != operands.len() {
        return context.fail(format!("`{config}` does not name {} operands", operands.len()));
    }
    let ranks: Vec<usize> = operands.iter().map(|t| t.dims().len()).collect();
    let ellipsis = inputs.iter().zip(&ranks).map(|(text, rank)| rank.saturating_sub(letters(text))).max().unwrap_or(0);
    let mut sizes: BTreeMap<Label, i64> = BTreeMap::new();
    let mut labels = Vec::new();
    for (text, tensor) in inputs.iter().zip(&operands) {
        let own = tensor.dims().len().saturating_sub(letters(text));
        let list = expand(text, own);
        if list.len() != tensor.dims().len() {
            return context.fail(format!("`{text}` does not fit a tensor of rank {}", tensor.dims().len()));
        }
        for (label, &size) in list.iter().zip(tensor.dims()) {
            if *sizes.entry(*label).or_insert(size) != size {
                return context.fail(format!("`{config}` gives one label two sizes"));
            }
        }
        labels.push(list);
    }
    let result = expand(output, if output.contains("...") { ellipsis } else { 0 });
    let Some(dims) = result.iter().map(|l| sizes.get(l).copied()).collect::<Option<Vec<i64>>>() else {
        return context.fail(format!("`{config}` has a result label that no operand has"));
    };
    positions::count(context, &dims)?;
    let summed: Vec<Label> = sizes.keys().filter(|l| !result.contains(l)).copied().collect();
    let summed_dims: Vec<i64> = summed.iter().map(|l| sizes[l]).collect();
    // How far each operand moves when a result or summed label moves by one.
    let steps = |of: &[Label]| -> Vec<Vec<usize>> {
        labels
            .iter()
            .zip(&operands)
            .map(|(list, tensor)| {
                let strides = positions::strides(tensor.dims());
                of.iter().map(|l| list.iter().zip(&strides).filter(|(m, _)| *m == l).map(|(_, s)| s).sum()).collect()
            })
            .collect()
    };
    let (outer, inner) = (steps(&result), steps(&summed));
    let element = result_element(context)?;
    let dtype = storage(&element);
    let sums = Sums { dims: &dims, summed: &summed_dims, outer, inner };
    let elements = if dtype.is_complex() {
        let values: Vec<Vec<Complex>> = operands.iter().map(|t| complexes(&t.elements)).collect();
        let one = Complex::new(1.0, 0.0);
        let term = |at: &[usize]| at.iter().zip(&values).fold(one, |p, (&i, v)| p.times(v[i]));
        let all = sums.run(context, Complex::default(), |sum: Complex, at| sum.plus(term(at)))?;
        Elements::Complex(all.into_iter().map(|x| x.rounded(dtype)).collect())
    } else if dtype.is_float() {
        let values = operands.iter().map(|t| floats(&t.elements)).collect::<Result<Vec<_>, _>>()?;
        let term = |at: &[usize]| at.iter().zip(&values).map(|(&i, v)| v[i]).product::<f64>();
        let all = sums.run(context, 0.0, |sum, at| sum + term(at))?;
        Elements::Float(all.into_iter().map(|x| round(dtype, x)).collect())
    } else {
        let values = operands.iter().map(|t| ints(&t.elements)).collect::<Result<Vec<_>, _>>()?;
        let term = |at: &[usize]| at.iter().zip(&values).fold(1i128, |p, (&i, v)| p.wrapping_mul(v[i]));
        let all = sums.run(context, 0i128, |sum, at| sum.wrapping_add(term(at)))?;
        if dtype.is_bool() {
            Elements::Bool(all.into_iter().map(|s| s != 0).collect())
        } else {
            Elements::Int(all.into_iter().map(|s| wrap(dtype, s)).collect())
        }
    };
    Ok(vec![TensorValue { ty: TensorType::new(dims, element), elements }.into()])
}

/// The sums of an einsum: sizes of the result and of what is summed, and how far each operand moves with them.
struct Sums<'s> {
    dims: &'s [i64],
    summed: &'s [i64],
    outer: Vec<Vec<usize>>,
    inner: Vec<Vec<usize>>,
}

impl Sums<'_> {
    /// Adds up the terms of each result; a term is given as the positions of its factors.
    fn run<T: Copy>(
        &self,
        context: &Context<'_, '_>,
        zero: T,
        add: impl Fn(T, &[usize]) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut results = Vec::new();
        let mut at = vec![0; self.outer.len()];
        let mut walk = Walk::new(self.dims);
        while let Some(index) = walk.next() {
            context.run.poll()?;
            let bases: Vec<usize> = self.outer.iter().map(|s| positions::position(index, s)).collect();
            let mut sum = zero;
            let mut within = Walk::new(self.summed);
            while let Some(index) = within.next() {
                for (at, (base, steps)) in at.iter_mut().zip(bases.iter().zip(&self.inner)) {
                    *at = base + positions::position(index, steps);
                }
                sum = add(sum, &at);
            }
            results.push(sum);
        }
        Ok(results)
    }
}

/// A label: a letter, or a dimension of the ellipsis counted from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphabetic()).count()
}

fn expand(text: &str, ellipsis: usize) -> Vec<Label> {
    let (before, after) = text.split_once("...").unwrap_or((text, ""));
    let letters = |part: &str| part.chars().filter(|c| c.is_alphabetic()).map(Label::Letter).collect::<Vec<_>>();
    let mut labels = letters(before);
    if text.contains("...") {
        labels.extend((0..ellipsis).rev().map(Label::Ellipsis));
    }
    labels.extend(letters(after));
    labels
}
