//! Matrix products.

use tensor::DType;
use trace::{Contraction, Precision, Tensor};

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::{Scalar, cast};

type Answer = Result<Value, Error>;

/// Sums of the last axis of one with an axis of the other; the result has the type of the operands.
fn contracted(a: &Tensor, b: &Tensor, lhs: usize, rhs: usize, batch: usize) -> Tensor {
    let axes: Vec<usize> = (0..batch).collect();
    let contraction = Contraction { lhs_batch: axes.clone(), rhs_batch: axes, lhs_sum: vec![lhs], rhs_sum: vec![rhs] };
    a.dot_general(b, &contraction, a.dtype(), Precision::Default)
}

/// Products of matrices in the last two axes, with vectors and broadcasting as PyTorch has them.
pub(super) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let fits = |a: usize, b: usize| match a == b {
        true => Ok(()),
        false => Err(Error::damaged(format!("a product sums {a} with {b} elements"))),
    };
    match (a.rank(), b.rank()) {
        (0, _) | (_, 0) => Err(Error::damaged("a product of a tensor without axes")),
        (1, 1) => {
            fits(a.dim(0), b.dim(0))?;
            Ok(contracted(a, b, 0, 0, 0))
        }
        (1, _) => Ok(matmul(&a.expand(0), b)?.squeeze(-2)),
        (_, 1) => Ok(matmul(a, &b.expand(-1))?.squeeze(-1)),
        (rank, 2) => {
            fits(a.dim(-1), b.dim(0))?;
            Ok(contracted(a, b, rank - 1, 0, 0))
        }
        (m, n) => {
            fits(a.dim(-1), b.dim(-2))?;
            let rank = m.max(n);
            let lead = |x: &Tensor| [vec![1; rank - x.rank()], x.dims()[..x.rank() - 2].to_vec()].concat();
            let batch: Vec<usize> = lead(a).iter().zip(&lead(b)).map(|(a, b)| if *a == 1 { *b } else { *a }).collect();
            let wide = |x: &Tensor| x.broadcast_to(&[batch.as_slice(), &x.dims()[x.rank() - 2..]].concat());
            Ok(contracted(&wide(a), &wide(b), rank - 1, rank - 2, rank - 2))
        }
    }
}

fn product(call: &mut Call<'_, '_>, other: &str) -> Answer {
    let (a, b, dtype) = (call.subject()?, call.tensor(other)?, call.result_type()?);
    Ok(matmul(&cast(&a, dtype), &cast(&b, dtype))?.into())
}

/// `x @ weight.T + bias`.
fn linear(call: &mut Call<'_, '_>) -> Answer {
    let (x, weight, dtype) = (call.subject()?, call.tensor("weight")?, call.result_type()?);
    let (x, weight) = (cast(&x, dtype), cast(&weight, dtype));
    if x.rank() == 0 || weight.rank() == 0 || x.dim(-1) != weight.dim(-1) {
        return Err(Error::damaged(format!("a linear layer of {} with {}", x.spec(), weight.spec())));
    }
    let last = weight.rank() - 1;
    let y = contracted(&x, &weight, x.rank() - 1, last, 0);
    Ok(match call.optional_tensor("bias")? {
        Some(bias) => y + cast(&bias, dtype),
        None => y,
    }
    .into())
}

/// `beta * self + alpha * a @ b`; with beta 0, what `self` holds does not matter.
fn added(call: &mut Call<'_, '_>, a: &str, b: &str) -> Answer {
    let dtype = call.result_type()?;
    let dims = call.result_dims()?;
    let (beta, alpha) = (call.scalar("beta")?, call.scalar("alpha")?);
    let (beta, alpha) = (beta.unwrap_or(Scalar::Int(1)), alpha.unwrap_or(Scalar::Int(1)));
    let (x, a, b) = (call.subject()?, call.tensor(a)?, call.tensor(b)?);
    let mut y = matmul(&cast(&a, dtype), &cast(&b, dtype))?;
    if alpha.as_f64() != 1.0 {
        y = y * alpha.tensor(dtype);
    }
    if beta.as_f64() == 0.0 {
        return Ok(y.broadcast_to(&dims).into());
    }
    let mut x = cast(&x, dtype);
    if beta.as_f64() != 1.0 {
        x = x * beta.tensor(dtype);
    }
    Ok((x + y).broadcast_to(&dims).into())
}

/// Operands two by two, in the order that they come.
fn einsum(call: &mut Call<'_, '_>) -> Answer {
    let equation: String = call.text("equation").unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
    let dtype = call.result_type()?;
    let tensors: Vec<Tensor> = call.all_tensors("tensors")?.iter().map(|tensor| cast(tensor, dtype)).collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs.to_string(), Some(output.to_string())),
        None => (equation.clone(), None),
    };
    let mut terms: Vec<Vec<char>> = inputs.split(',').map(|term| term.chars().collect()).collect();
    if terms.len() != tensors.len() || terms.is_empty() || equation.contains('.') {
        return Err(call.unsupported(format!("the equation `{equation}`")));
    }
    let output: Vec<char> = match output {
        Some(output) => output.chars().collect(),
        None => {
            let all: Vec<char> = terms.concat();
            let mut once: Vec<char> =
                all.iter().copied().filter(|c| all.iter().filter(|o| *o == c).count() == 1).collect();
            once.sort_unstable();
            once
        }
    };
    let mut tensors = tensors.into_iter();
    let (mut names, mut value) = match tensors.next() {
        Some(first) => unique(call, terms.remove(0), first)?,
        None => return Err(Error::damaged("an equation without tensors")),
    };
    for next in tensors {
        let (own, next) = unique(call, terms.remove(0), next)?;
        let later: Vec<char> = terms.concat();
        let is_kept = |c: &char| output.contains(c) || later.contains(c);
        // What only one side has and nobody needs is summed first.
        (names, value) = summed(names, value, |c| own.contains(c) || is_kept(c));
        let (own, next) = summed(own, next, |c| names.contains(c) || is_kept(c));
        let result: Vec<char> =
            names.iter().chain(own.iter().filter(|c| !names.contains(c))).copied().filter(is_kept).collect();
        let text = |names: &[char]| names.iter().collect::<String>();
        value = value.einsum_as(&format!("{},{}->{}", text(&names), text(&own), text(&result)), &next, dtype);
        names = result;
    }
    let (names, value) = summed(names, value, |c| output.contains(c));
    let order: Option<Vec<usize>> = output.iter().map(|c| names.iter().position(|own| own == c)).collect();
    let order = order.ok_or_else(|| Error::damaged(format!("the equation `{equation}`")))?;
    Ok(value.transpose(&order).into())
}

/// An operand whose axes have different names.
fn unique(call: &Call<'_, '_>, names: Vec<char>, value: Tensor) -> Result<(Vec<char>, Tensor), Error> {
    let repeated = names.iter().enumerate().any(|(n, c)| names.iter().take(n).any(|o| o == c));
    if repeated || names.len() != value.rank() {
        return Err(call.unsupported(format!("the operand `{}` of an equation", names.iter().collect::<String>())));
    }
    Ok((names, value))
}

fn summed(names: Vec<char>, value: Tensor, keep: impl Fn(&char) -> bool) -> (Vec<char>, Tensor) {
    let axes: Vec<usize> = (0..names.len()).filter(|axis| !keep(&names[*axis])).collect();
    let left = names.into_iter().filter(|c| keep(c)).collect();
    let value = if axes.is_empty() { value } else { value.sum(&axes) };
    (left, value)
}

/// Rows grouped by expert, each group with the matrix of its expert: `offs` are the ends of groups.
fn grouped(call: &mut Call<'_, '_>) -> Answer {
    let (x, weight, ends) = (call.subject()?, call.tensor("weight")?, call.tensor("offs")?);
    let dtype = call.result_type()?;
    if (x.rank(), weight.rank(), ends.rank()) != (2, 3, 1) || weight.dim(0) != ends.dim(0) {
        return Err(call.unsupported("a grouped product of other shapes"));
    }
    let (rows, experts) = (x.dim(0), weight.dim(0));
    // The expert of a row: how many groups end at or before it.
    let row = Tensor::iota(DType::I32, &[rows, experts], 0);
    let ended = row.greater_equal(&ends.cast(DType::I32).broadcast_to(&[rows, experts]));
    let expert = ended.cast(DType::I32).sum(&[1]);
    let chosen = expert.one_hot(experts, dtype);
    let all = cast(&x, dtype).einsum_as("rk,ekn->ren", &cast(&weight, dtype), dtype);
    Ok(all.einsum_as("ren,re->rn", &chosen, dtype).into())
}

pub(super) const RULES: Rules = &[
    ("matmul", |c| product(c, "other")),
    ("mm", |c| product(c, "mat2")),
    ("bmm", |c| product(c, "mat2")),
    ("mv", |c| product(c, "vec")),
    ("dot", |c| product(c, "tensor")),
    ("linear", linear),
    ("addmm", |c| added(c, "mat1", "mat2")),
    ("baddbmm", |c| added(c, "batch1", "batch2")),
    ("addmv", |c| added(c, "mat", "vec")),
    ("einsum", einsum),
    ("outer", |c| {
        let (a, b, dtype) = (c.subject()?, c.tensor("vec2")?, c.result_type()?);
        Ok((cast(&a, dtype).expand(-1) * cast(&b, dtype).expand(0)).into())
    }),
    ("transformers.grouped_mm_fallback", grouped),
];
