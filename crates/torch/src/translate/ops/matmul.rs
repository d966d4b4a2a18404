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

/// Names for the axes that `...` stands for, counted from the last.
fn ellipsis(count: usize) -> Vec<char> {
    (0..count).rev().filter_map(|n| char::from_u32(0xE000 + n as u32)).collect()
}

/// The names of an operand's axes.
fn term(text: &str, rank: usize) -> Option<Vec<char>> {
    let Some((before, after)) = text.split_once("...") else {
        return (text.chars().count() == rank && !text.contains('.')).then(|| text.chars().collect());
    };
    let own = before.chars().count() + after.chars().count();
    let hidden = rank.checked_sub(own).filter(|count| *count < 64)?;
    Some(before.chars().chain(ellipsis(hidden)).chain(after.chars()).collect())
}

/// Operands two by two, in the order that they come.
fn einsum(call: &mut Call<'_, '_>) -> Answer {
    let equation: String = call.text("equation").unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
    let dtype = call.result_type()?;
    let tensors: Vec<Tensor> = call.all_tensors("tensors")?.iter().map(|tensor| cast(tensor, dtype)).collect();
    let wrong = || Error::damaged(format!("the equation `{equation}`"));
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs.to_string(), Some(output.to_string())),
        None => (equation.clone(), None),
    };
    let texts: Vec<&str> = inputs.split(',').collect();
    if texts.len() != tensors.len() || tensors.is_empty() {
        return Err(wrong());
    }
    let named = texts.iter().zip(&tensors).map(|(text, tensor)| term(text, tensor.rank()));
    let mut terms: Vec<Vec<char>> = named.collect::<Option<_>>().ok_or_else(wrong)?;
    let hidden =
        terms.iter().flatten().filter(|c| **c >= '\u{E000}').map(|c| *c as usize - 0xE000 + 1).max().unwrap_or(0);
    let output: Vec<char> = match output {
        Some(output) => match output.split_once("...") {
            Some((before, after)) => before.chars().chain(ellipsis(hidden)).chain(after.chars()).collect(),
            None => output.chars().collect(),
        },
        None => {
            let all: Vec<char> = terms.concat();
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|c| *c < '\u{E000}' && all.iter().filter(|o| *o == c).count() == 1)
                .collect();
            once.sort_unstable();
            [ellipsis(hidden), once].concat()
        }
    };
    // Axes of size 1 stand for axes of any size: they are dropped where another operand has the name.
    let mut values = Vec::new();
    for (names, tensor) in terms.iter_mut().zip(&tensors) {
        let (own, value) = diagonals(std::mem::take(names), tensor.clone()).ok_or_else(wrong)?;
        *names = own;
        values.push(value);
    }
    let size = |c: char, terms: &[Vec<char>], values: &[Tensor]| {
        let sizes =
            terms.iter().zip(values).flat_map(|(names, value)| names.iter().copied().zip(value.dims().to_vec()));
        sizes.filter(|(own, _)| *own == c).map(|(_, size)| size).max().unwrap_or(1)
    };
    for n in 0..terms.len() {
        for axis in (0..terms[n].len()).rev() {
            let (c, own) = (terms[n][axis], values[n].dims()[axis]);
            let most = size(c, &terms, &values);
            if own == 1 && most > 1 {
                values[n] = values[n].squeeze(axis as isize);
                terms[n].remove(axis);
            } else if own != most {
                return Err(wrong());
            }
        }
    }
    let mut values = values.into_iter();
    let (mut names, mut value) = (terms.remove(0), values.next().ok_or_else(wrong)?);
    for next in values {
        let own = terms.remove(0);
        let later: Vec<char> = terms.concat();
        let is_kept = |c: &char| output.contains(c) || later.contains(c);
        // What only one side has and nobody needs is summed first.
        (names, value) = summed(names, value, |c| own.contains(c) || is_kept(c));
        let (own, next) = summed(own, next, |c| names.contains(c) || is_kept(c));
        let result: Vec<char> =
            names.iter().chain(own.iter().filter(|c| !names.contains(c))).copied().filter(is_kept).collect();
        // Names that a product of two knows: letters in the order that they come.
        let mut known: Vec<char> = names.clone();
        known.extend(own.iter().filter(|c| !names.contains(c)));
        if known.len() > 52 {
            return Err(wrong());
        }
        let letter = |c: &char| {
            let n = known.iter().position(|own| own == c).unwrap_or(0) as u8;
            char::from(if n < 26 { b'a' + n } else { b'A' + n - 26 })
        };
        let text = |names: &[char]| names.iter().map(letter).collect::<String>();
        value = value.einsum_as(&format!("{},{}->{}", text(&names), text(&own), text(&result)), &next, dtype);
        names = result;
    }
    let (names, value) = summed(names, value, |c| output.contains(c));
    let order: Option<Vec<usize>> = output.iter().map(|c| names.iter().position(|own| own == c)).collect();
    Ok(value.transpose(&order.ok_or_else(wrong)?).into())
}

/// An operand whose axes have different names: of axes with the same name, the diagonal.
fn diagonals(mut names: Vec<char>, mut value: Tensor) -> Option<(Vec<char>, Tensor)> {
    while let Some((a, b)) =
        (0..names.len()).flat_map(|b| (0..b).map(move |a| (a, b))).find(|(a, b)| names[*a] == names[*b])
    {
        if value.dims()[a] != value.dims()[b] {
            return None;
        }
        let is_on = Tensor::iota(DType::I32, value.dims(), a).equals(&Tensor::iota(DType::I32, value.dims(), b));
        value = is_on.select(&value, &value.zeros_like()).sum(&[b]);
        names.remove(b);
    }
    Some((names, value))
}

fn summed(names: Vec<char>, value: Tensor, keep: impl Fn(&char) -> bool) -> (Vec<char>, Tensor) {
    let axes: Vec<usize> = (0..names.len()).filter(|axis| !keep(&names[*axis])).collect();
    let left = names.into_iter().filter(|c| keep(c)).collect();
    let value = if axes.is_empty() { value } else { value.sum(&axes) };
    (left, value)
}

/// Rows grouped by expert, each group with the matrix of its expert: `offs` are the ends of groups.
fn grouped(call: &mut Call<'_, '_>, weight: &str) -> Answer {
    let (x, weight, ends) = (call.subject()?, call.tensor(weight)?, call.tensor("offs")?);
    let dtype = call.result_type()?;
    if (x.rank(), weight.rank(), ends.rank()) != (2, 3, 1) || weight.dim(0) != ends.dim(0) || x.dim(1) != weight.dim(1)
    {
        return Err(call.unsupported("a grouped matmul of other shapes"));
    }
    if call.has("bias") {
        return Err(call.unsupported("a grouped matmul with a bias"));
    }
    let ends = ends.cast(DType::I32);
    let groups = ends.dim(0);
    let starts = Tensor::concat(&[Tensor::zeros(DType::I32, &[1]), ends.slice(0, 0..groups.saturating_sub(1))], 0);
    Ok(nn::layers::grouped_matmul(&cast(&x, dtype), &cast(&weight, dtype), &(ends - starts)).into())
}

/// `beta * self + alpha * vec1 ⊗ vec2`.
fn add_outer(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let (a, b) = (cast(&call.tensor("vec1")?, dtype), cast(&call.tensor("vec2")?, dtype));
    let outer = a.expand(-1) * b.expand(0);
    scaled_sum(call, &x, outer, dtype)
}

/// `beta * self + alpha * Σ batch1 @ batch2`.
fn add_batches(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let (a, b) = (call.tensor("batch1")?, call.tensor("batch2")?);
    if a.rank() != 3 || b.rank() != 3 {
        return Err(Error::damaged("batches of matrices have three axes"));
    }
    let sum = matmul(&cast(&a, dtype), &cast(&b, dtype))?.sum(&[0]);
    scaled_sum(call, &x, sum, dtype)
}

fn scaled_sum(call: &mut Call<'_, '_>, x: &Tensor, mut y: Tensor, dtype: DType) -> Answer {
    let dims = call.result_dims()?;
    let (beta, alpha) = (call.scalar("beta")?, call.scalar("alpha")?);
    let (beta, alpha) = (beta.unwrap_or(Scalar::Int(1)), alpha.unwrap_or(Scalar::Int(1)));
    if dtype == DType::Bool {
        let y = if alpha.as_f64() == 0.0 { y.zeros_like() } else { y };
        let x = cast(x, dtype).broadcast_to(&dims);
        return Ok(if beta.as_f64() == 0.0 { y } else { x.or(&y) }.into());
    }
    if alpha.as_f64() != 1.0 {
        y = y * alpha.tensor(dtype);
    }
    if beta.as_f64() == 0.0 {
        return Ok(y.broadcast_to(&dims).into());
    }
    let x = cast(x, dtype);
    let x = if beta.as_f64() == 1.0 { x } else { x * beta.tensor(dtype) };
    Ok((x + y).broadcast_to(&dims).into())
}

/// Sums over the last axes of both.
fn inner(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (call.subject()?, call.tensor("other")?, call.result_type()?);
    let (a, b) = (cast(&a, dtype), cast(&b, dtype));
    if a.rank() == 0 || b.rank() == 0 {
        return Ok((a * b).into());
    }
    if a.dim(-1) != b.dim(-1) {
        return Err(Error::damaged(format!("a product of {} with {}", a.spec(), b.spec())));
    }
    Ok(contracted(&a, &b, a.rank() - 1, b.rank() - 1, 0).into())
}

fn tensordot(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (call.subject()?, call.tensor("other")?, call.result_type()?);
    let axes = |values: Vec<i64>, rank: usize| {
        values.into_iter().map(|axis| crate::translate::call::in_rank(axis, rank)).collect::<Result<Vec<_>, _>>()
    };
    let (lhs, rhs) = (axes(call.ints("dims_self")?, a.rank())?, axes(call.ints("dims_other")?, b.rank())?);
    let (mut a, mut b) = (cast(&a, dtype), cast(&b, dtype));
    // An axis of size 1 on one side is summed on the other.
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let (mut sum_a, mut sum_b) = (Vec::new(), Vec::new());
    for (l, r) in lhs.iter().zip(&rhs) {
        match (a.dims().get(*l), b.dims().get(*r)) {
            (Some(x), Some(y)) if x == y => {
                left.push(*l);
                right.push(*r);
            }
            (Some(1), Some(_)) | (Some(_), Some(1)) => {
                sum_a.push(*l);
                sum_b.push(*r);
            }
            _ => return Err(Error::damaged(format!("a product of {} with {}", a.spec(), b.spec()))),
        }
    }
    if !sum_a.is_empty() {
        let without = |axes: &[usize], gone: &[usize]| -> Vec<usize> {
            axes.iter().map(|axis| axis - gone.iter().filter(|other| *other < axis).count()).collect()
        };
        (left, right) = (without(&left, &sum_a), without(&right, &sum_b));
        (a, b) = (a.sum(&sum_a), b.sum(&sum_b));
    }
    let contraction = Contraction { lhs_sum: left, rhs_sum: right, ..Contraction::default() };
    Ok(a.dot_general(&b, &contraction, dtype, Precision::Default).into())
}

fn kron(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (call.subject()?, call.tensor("other")?, call.result_type()?);
    let rank = a.rank().max(b.rank());
    let pad = |x: &Tensor| [vec![1; rank - x.rank()], x.dims().to_vec()].concat();
    let (own, other) = (pad(&a), pad(&b));
    let left: Vec<usize> = own.iter().flat_map(|size| [*size, 1]).collect();
    let right: Vec<usize> = other.iter().flat_map(|size| [1, *size]).collect();
    let dims: Vec<usize> = own.iter().zip(&other).map(|(a, b)| a * b).collect();
    let (a, b) = (cast(&a, dtype).reshape(&left), cast(&b, dtype).reshape(&right));
    Ok(if dtype == DType::Bool { a.and(&b) } else { a * b }.reshape(&dims).into())
}

/// `x1 W x2 + bias`.
fn bilinear(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, weight) = (call.tensor("input1")?, call.tensor("input2")?, call.tensor("weight")?);
    let dtype = call.result_type()?;
    let (lead, dims) = (a.num_elements() / a.dim(-1).max(1), call.result_dims()?);
    let (a, b) = (cast(&a, dtype).reshape(&[lead, a.dim(-1)]), cast(&b, dtype).reshape(&[lead, b.dim(-1)]));
    let half = a.einsum_as("ni,oij->noj", &cast(&weight, dtype), dtype);
    let y = half.einsum_as("noj,nj->no", &b, dtype).reshape(&dims);
    Ok(match call.optional_tensor("bias")? {
        Some(bias) => y + cast(&bias, dtype),
        None => y,
    }
    .into())
}

/// The cross product along an axis of three.
fn cross(call: &mut Call<'_, '_>, default: i64) -> Answer {
    let (a, b, dtype) = (call.subject()?, call.tensor("other")?, call.result_type()?);
    let dims = call.result_dims()?;
    let (a, b) = (cast(&a, dtype).broadcast_to(&dims), cast(&b, dtype).broadcast_to(&dims));
    let axis = match call.has("dim") {
        true => call.axis("dim", -1, dims.len())?,
        false if default < 0 => crate::translate::call::in_rank(default, dims.len())?,
        false => dims.iter().position(|size| *size == 3).ok_or_else(|| Error::damaged("no axis of three"))?,
    };
    if dims.get(axis) != Some(&3) {
        return Err(Error::damaged("a cross product of an axis that is not of three"));
    }
    let axis = axis as isize;
    let turned = |x: &Tensor, first: usize| {
        let parts: Vec<Tensor> = (0..3).map(|n| x.slice(axis, (first + n) % 3..(first + n) % 3 + 1)).collect();
        Tensor::concat(&parts, axis)
    };
    Ok((&turned(&a, 1) * &turned(&b, 2) - &turned(&a, 2) * &turned(&b, 1)).into())
}

fn vecdot(call: &mut Call<'_, '_>) -> Answer {
    let name = if call.has("y") { ("x", "y") } else { ("self", "other") };
    let (a, b, dtype) = (call.tensor(name.0)?, call.tensor(name.1)?, call.result_type()?);
    let product = cast(&a, dtype) * cast(&b, dtype);
    let axis = call.axis("dim", -1, product.rank())?;
    Ok(product.sum(&[axis]).into())
}

fn multi_dot(call: &mut Call<'_, '_>) -> Answer {
    let (tensors, dtype) = (call.all_tensors("tensors")?, call.result_type()?);
    let mut tensors = tensors.iter().map(|tensor| cast(tensor, dtype));
    let first = tensors.next().ok_or_else(|| Error::damaged("a product of nothing"))?;
    tensors.try_fold(first, |sofar, next| matmul(&sofar, &next)).map(Value::from)
}

pub(super) const RULES: Rules = &[
    ("matmul", |c| product(c, "other")),
    ("mm", |c| product(c, "mat2")),
    ("bmm", |c| product(c, "mat2")),
    ("mv", |c| product(c, "vec")),
    ("dot", |c| product(c, "tensor")),
    ("linalg_matmul", |c| product(c, "other")),
    ("linear", linear),
    ("addmm", |c| added(c, "mat1", "mat2")),
    ("baddbmm", |c| added(c, "batch1", "batch2")),
    ("addmv", |c| added(c, "mat", "vec")),
    ("einsum", einsum),
    ("outer", |c| {
        let (a, b, dtype) = (c.subject()?, c.tensor("vec2")?, c.result_type()?);
        Ok((cast(&a, dtype).expand(-1) * cast(&b, dtype).expand(0)).into())
    }),
    ("inner", inner),
    ("vdot", |c| product(c, "other")),
    ("linalg_vecdot", vecdot),
    ("tensordot", tensordot),
    ("kron", kron),
    ("bilinear", bilinear),
    ("cross", |c| cross(c, 0)),
    ("linalg_cross", |c| cross(c, -1)),
    ("addr", add_outer),
    ("addbmm", add_batches),
    ("linalg_multi_dot", multi_dot),
    ("transformers.grouped_mm_fallback", |c| grouped(c, "weight")),
    ("_grouped_mm", |c| grouped(c, "mat2")),
];
