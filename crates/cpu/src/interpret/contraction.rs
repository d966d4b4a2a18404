//! Contractions: dot, dot_general with precisions and algorithms, einsum, ragged_dot.

use hlo::dims::{DotAlgorithm, DotDims};
use hlo::{Attr, ElementType, OpKind, TensorType};
use tensor::DType;

use super::context::{Context, Eval};
use super::positions;
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, storage, wrap};
use super::{einsum, quantization};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::Dot => dot,
        OpKind::DotGeneral => dot_general,
        OpKind::Einsum | OpKind::UnaryEinsum => einsum::eval,
        OpKind::ChloRaggedDot => ragged_dot,
        _ => return None,
    })
}

fn dot(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (lhs, rhs) = (context.tensor(0)?, context.tensor(1)?);
    let dims = attributes::dot_dims(context.op, lhs.dims().len())?;
    let element = result_element(context)?;
    Ok(vec![contract(context, lhs, rhs, &dims, &element, None)?.into()])
}

fn dot_general(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let dims = attributes::dot_dims(context.op, context.tensor(0)?.dims().len())?;
    let algorithm = match context.op.attr("algorithm") {
        Some(Attr::DotAlgorithm(algorithm)) => Some(&**algorithm),
        _ => None,
    };
    let element = result_element(context)?;
    Ok(vec![contract(context, context.tensor(0)?, context.tensor(1)?, &dims, &element, algorithm)?.into()])
}

/// Element type written for the first result.
pub(crate) fn result_element(context: &Context<'_, '_>) -> Result<ElementType, Error> {
    match context.result_type(0).as_tensor() {
        Some(ty) => Ok(ty.element.clone()),
        None => Err(Error::Internal("a tensor was expected as result".into())),
    }
}

/// The contraction of two tensors; quantized ones through the reals they stand for.
pub(crate) fn contract(
    context: &Context<'_, '_>,
    lhs: &TensorValue,
    rhs: &TensorValue,
    dims: &DotDims,
    element: &ElementType,
    algorithm: Option<&DotAlgorithm>,
) -> Result<TensorValue, Error> {
    let is_quantized = |e: &ElementType| matches!(e, ElementType::Quantized(_));
    if is_quantized(&lhs.ty.element) || is_quantized(&rhs.ty.element) || is_quantized(element) {
        let (lhs, rhs) = (quantization::expressed(lhs)?, quantization::expressed(rhs)?);
        let real = quantization::expressed_type(element);
        let result = contract(context, &lhs, &rhs, dims, &real, algorithm)?;
        return quantization::stored(&result, element);
    }
    let dtype = storage(element);
    let plan = Plan::new(context, lhs, rhs, dims)?;
    let elements = if dtype.is_complex() {
        let (a, b) = (complexes(&lhs.elements), complexes(&rhs.elements));
        let sum = |(l, r): (usize, usize)| {
            let step = |sum: Complex, (i, j): (usize, usize)| sum.plus(a[i].times(b[j]).rounded(dtype)).rounded(dtype);
            plan.terms(l, r).fold(Complex::default(), step)
        };
        Elements::Complex(plan.each(context, sum)?)
    } else if dtype.is_float() {
        let (a, b) = (floats(&lhs.elements)?, floats(&rhs.elements)?);
        let values = match algorithm {
            Some(algorithm) => by_algorithm(context, &plan, &a, &b, algorithm)?,
            None => plan.sums(context, &a, &b, accumulator(dtype))?,
        };
        Elements::Float(values.into_iter().map(|x| round(dtype, x)).collect())
    } else {
        let (a, b) = (ints(&lhs.elements)?, ints(&rhs.elements)?);
        let sum = |(l, r): (usize, usize)| {
            plan.terms(l, r).fold(0i128, |sum, (i, j)| sum.wrapping_add(a[i].wrapping_mul(b[j])))
        };
        if dtype.is_bool() {
            Elements::Bool(plan.each(context, |pair| sum(pair) != 0)?)
        } else {
            Elements::Int(plan.each(context, |pair| wrap(dtype, sum(pair)))?)
        }
    };
    Ok(TensorValue { ty: TensorType::new(plan.dims, element.clone()), elements })
}

/// Where the operands of every sum lie.
struct Plan {
    dims: Vec<i64>,
    batch: Vec<(usize, usize)>,
    lhs_free: Vec<usize>,
    rhs_free: Vec<usize>,
    contracted: Vec<(usize, usize)>,
}

impl Plan {
    fn new(context: &Context<'_, '_>, lhs: &TensorValue, rhs: &TensorValue, dims: &DotDims) -> Result<Plan, Error> {
        let (l, r) = (lhs.dims(), rhs.dims());
        let lhs_free = positions::others(l.len(), &[&dims.lhs_batching, &dims.lhs_contracting]);
        let rhs_free = positions::others(r.len(), &[&dims.rhs_batching, &dims.rhs_contracting]);
        let pairs = dims.lhs_batching.iter().zip(&dims.rhs_batching);
        for (&a, &b) in pairs.chain(dims.lhs_contracting.iter().zip(&dims.rhs_contracting)) {
            if l[a as usize] != r[b as usize] {
                return context
                    .fail(format!("dimension {a} of lhs is {}, {b} of rhs is {}", l[a as usize], r[b as usize]));
            }
        }
        let sizes: Vec<i64> = dims
            .lhs_batching
            .iter()
            .map(|&d| l[d as usize])
            .chain(lhs_free.iter().map(|&d| l[d]))
            .chain(rhs_free.iter().map(|&d| r[d]))
            .collect();
        positions::count(context, &sizes)?;
        let (ls, rs) = (positions::strides(l), positions::strides(r));
        let paired = |a: &[i64], b: &[i64]| {
            let left = positions::offsets(l, &ls, &positions::indices(a));
            let right = positions::offsets(r, &rs, &positions::indices(b));
            left.into_iter().zip(right).collect::<Vec<_>>()
        };
        Ok(Plan {
            dims: sizes,
            batch: paired(&dims.lhs_batching, &dims.rhs_batching),
            lhs_free: positions::offsets(l, &ls, &lhs_free),
            rhs_free: positions::offsets(r, &rs, &rhs_free),
            contracted: paired(&dims.lhs_contracting, &dims.rhs_contracting),
        })
    }

    /// For each result in order, where its terms begin.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.batch.iter().flat_map(move |&(bl, br)| {
            self.lhs_free.iter().flat_map(move |&l| self.rhs_free.iter().map(move |&r| (bl + l, br + r)))
        })
    }

    fn terms(&self, l: usize, r: usize) -> impl Iterator<Item = (usize, usize)> {
        self.contracted.iter().map(move |&(kl, kr)| (l + kl, r + kr))
    }

    /// One value for each result in order, unless the caller asks to stop.
    fn each<T>(&self, context: &Context<'_, '_>, value: impl Fn((usize, usize)) -> T) -> Result<Vec<T>, Error> {
        self.pairs().map(|pair| context.run.poll().map(|()| value(pair))).collect()
    }

    fn sums(&self, context: &Context<'_, '_>, a: &[f64], b: &[f64], accumulator: DType) -> Result<Vec<f64>, Error> {
        let sum = |(l, r)| {
            self.terms(l, r).fold(0.0, |sum, (i, j)| round(accumulator, sum + round(accumulator, a[i] * b[j])))
        };
        self.each(context, sum)
    }
}

/// The type sums of products are kept in: XLA adds narrow reals up as f32.
pub(crate) fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The dot an algorithm describes: operands rounded to its types, or split into several numbers of them.
fn by_algorithm(
    context: &Context<'_, '_>,
    plan: &Plan,
    a: &[f64],
    b: &[f64],
    algorithm: &DotAlgorithm,
) -> Result<Vec<f64>, Error> {
    let (parts, kept) = match algorithm.num_primitive_operations {
        3 => (2, 1),
        6 => (3, 2),
        9 => (3, 4),
        _ => (1, 0),
    };
    let (a, b) = (split(a, &algorithm.lhs_precision_type, parts), split(b, &algorithm.rhs_precision_type, parts));
    let sum = storage(&algorithm.accumulation_type);
    let mut total: Option<Vec<f64>> = None;
    // The smallest products first, so that adding the large ones last loses least.
    for order in (0..=kept.min(2 * (parts - 1))).rev() {
        for (i, a) in a.iter().enumerate() {
            if let Some(b) = usize::checked_sub(order, i).and_then(|j| b.get(j)) {
                let part = plan.sums(context, a, b, accumulator(sum))?;
                total = Some(match total {
                    None => part,
                    Some(total) => total.iter().zip(&part).map(|(x, y)| x + y).collect(),
                });
            }
        }
    }
    Ok(total.unwrap_or_default().into_iter().map(|x| round(sum, x)).collect())
}

/// `parts` numbers of a type for each value, whose sum is the value as nearly as they can.
fn split(values: &[f64], element: &ElementType, parts: usize) -> Vec<Vec<f64>> {
    let mut rest = values.to_vec();
    (0..parts)
        .map(|_| {
            let part: Vec<f64> = rest.iter().map(|&x| narrow(element, x)).collect();
            rest.iter_mut().zip(&part).for_each(|(x, y)| *x = if y.is_finite() { *x - y } else { 0.0 });
            part
        })
        .collect()
}

fn narrow(element: &ElementType, value: f64) -> f64 {
    if *element != ElementType::Tf32 {
        return round(storage(element), value);
    }
    // TensorFloat-32 keeps 10 of the 23 mantissa bits of an f32, rounding half to even.
    let bits = (value as f32).to_bits();
    if !(value as f32).is_finite() {
        return value;
    }
    let half = 0xfff + ((bits >> 13) & 1);
    f64::from(f32::from_bits(bits.wrapping_add(half) & !0x1fff))
}

pub(crate) fn floats(elements: &Elements) -> Result<Vec<f64>, Error> {
    Ok(match elements {
        Elements::Float(v) => v.clone(),
        Elements::Int(v) => v.iter().map(|&x| x as f64).collect(),
        Elements::Bool(v) => v.iter().map(|&x| f64::from(u8::from(x))).collect(),
        Elements::Complex(_) => return Err(Error::Internal("complex numbers where reals are expected".into())),
    })
}

pub(crate) fn complexes(elements: &Elements) -> Vec<Complex> {
    match elements {
        Elements::Complex(v) => v.clone(),
        Elements::Float(v) => v.iter().map(|&re| Complex { re, im: 0.0 }).collect(),
        Elements::Int(v) => v.iter().map(|&re| Complex { re: re as f64, im: 0.0 }).collect(),
        Elements::Bool(v) => v.iter().map(|&re| Complex { re: f64::from(u8::from(re)), im: 0.0 }).collect(),
    }
}

pub(crate) fn ints(elements: &Elements) -> Result<Vec<i128>, Error> {
    Ok(match elements {
        Elements::Int(v) => v.clone(),
        Elements::Bool(v) => v.iter().map(|&x| i128::from(x)).collect(),
        // A dot of reals into integers: the reals are converted first, toward zero.
        Elements::Float(v) => v.iter().map(|&x| x as i128).collect(),
        Elements::Complex(_) => return Err(Error::Internal("complex numbers where integers are expected".into())),
    })
}

/// Groups of rows of the left operand, each by its own part of the right one (chlo.ragged_dot).
fn ragged_dot(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let Some(Attr::RaggedDot(dims)) = context.op.attr("ragged_dot_dimension_numbers") else {
        return Err(Error::Internal("ragged_dot without dimension numbers".into()));
    };
    let (lhs, rhs, sizes) = (context.tensor(0)?, context.tensor(1)?, context.tensor(2)?);
    let element = result_element(context)?;
    let &[ragged] = &dims.lhs_ragged[..] else { return context.fail("there must be one ragged dimension") };
    let groups = ints(&sizes.elements)?;
    let count = *sizes.dims().last().unwrap_or(&0);
    let dot = &dims.dot;
    if dot.lhs_batching.contains(&ragged) {
        // Ragged along a batch dimension: every batch still meets its own part of rhs.
        return Ok(vec![contract(context, lhs, rhs, dot, &element, None)?.into()]);
    }
    let is_contracting = dot.lhs_contracting.contains(&ragged);
    let rows = lhs.dims()[ragged as usize];
    let ls = positions::strides(lhs.dims());
    let batches: i64 = dot.lhs_batching.iter().map(|&d| lhs.dims()[d as usize]).product();
    if groups.len() as i64 != count && groups.len() as i64 != batches.saturating_mul(count) {
        return context.fail("group_sizes must have one row, or one for each batch");
    }
    // For every position of lhs, the group of its row.
    let group_of = |position: usize| -> Option<i64> {
        let row = (position / ls[ragged as usize]) as i64 % rows.max(1);
        let batch = dot.lhs_batching.iter().fold(0i64, |at, &d| {
            let size = lhs.dims()[d as usize];
            at * size + (position / ls[d as usize]) as i64 % size.max(1)
        });
        let first = if groups.len() as i64 == count { 0 } else { batch * count };
        let mut end = 0i128;
        (0..count).find(|g| {
            end += groups[(first + g) as usize];
            i128::from(row) < end
        })
    };
    let owner: Vec<Option<i64>> = (0..lhs.elements.len()).map(group_of).collect();
    let masked = |group: i64| -> Result<TensorValue, Error> {
        let mut part = lhs.clone();
        let zero = super::scalar::Scalar::zero(lhs.dtype());
        for (position, owner) in owner.iter().enumerate() {
            if *owner != Some(group) {
                zero.set(&mut part.elements, position)?;
            }
        }
        Ok(part)
    };
    let Some(ty) = context.result_type(0).as_tensor() else { return context.fail("the result is no tensor") };
    let size = positions::count(context, &ty.dims)?;
    let zeros = super::scalar::Scalar::zero(storage(&element)).repeat(size);
    let mut total = TensorValue { ty: TensorType::new(ty.dims.clone(), element.clone()), elements: zeros };
    let mut parts = Vec::new();
    for group in 0..count {
        let lhs = masked(group)?;
        if is_contracting {
            parts.push(contract(context, &lhs, rhs, dot, &element, None)?.elements);
            continue;
        }
        let &[along] = &dims.rhs_group[..] else { return context.fail("there must be one group dimension") };
        let (rhs, dot) = without(rhs, dot, along, group);
        // Every row belongs to one group at most, so the sum picks it.
        add(&mut total, &contract(context, &lhs, &rhs, &dot, &element, None)?)?;
    }
    if !parts.is_empty() {
        total.elements = join(parts.iter())?;
    }
    Ok(vec![total.into()])
}

/// `rhs` at one index of its group dimension, that dimension dropped.
fn without(rhs: &TensorValue, dot: &DotDims, along: i64, index: i64) -> (TensorValue, DotDims) {
    let strides = positions::strides(rhs.dims());
    let kept = positions::others(rhs.dims().len(), &[&[along]]);
    let base = index as usize * strides[along as usize];
    let offsets = positions::offsets(rhs.dims(), &strides, &kept);
    let dims: Vec<i64> = kept.iter().map(|&d| rhs.dims()[d]).collect();
    let shift = |list: &[i64]| list.iter().map(|&d| if d > along { d - 1 } else { d }).collect();
    let dot =
        DotDims { rhs_batching: shift(&dot.rhs_batching), rhs_contracting: shift(&dot.rhs_contracting), ..dot.clone() };
    let elements = rhs.elements.pick(offsets.into_iter().map(|o| base + o));
    (TensorValue { ty: TensorType::new(dims, rhs.ty.element.clone()), elements }, dot)
}

/// Elements one after another.
pub(crate) fn join<'e>(mut parts: impl Iterator<Item = &'e Elements>) -> Result<Elements, Error> {
    let Some(first) = parts.next() else { return Err(Error::Internal("nothing to join".into())) };
    let mut joined = first.clone();
    for part in parts {
        match (&mut joined, part) {
            (Elements::Bool(a), Elements::Bool(b)) => a.extend(b),
            (Elements::Int(a), Elements::Int(b)) => a.extend(b),
            (Elements::Float(a), Elements::Float(b)) => a.extend(b),
            (Elements::Complex(a), Elements::Complex(b)) => a.extend(b),
            _ => return Err(Error::Internal("elements of different kinds".into())),
        }
    }
    Ok(joined)
}

fn add(total: &mut TensorValue, part: &TensorValue) -> Result<(), Error> {
    let dtype: DType = total.dtype();
    if total.elements.len() != part.elements.len() {
        return Err(Error::Internal("a part of a ragged dot does not fit the whole".into()));
    }
    for at in 0..part.elements.len() {
        let (a, b) = (super::scalar::Scalar::get(&total.elements, at), super::scalar::Scalar::get(&part.elements, at));
        let Some(sum) = super::scalar::binary(OpKind::Add, dtype, a, b) else {
            return Err(Error::Internal("elements that cannot be added".into()));
        };
        sum.set(&mut total.elements, at)?;
    }
    Ok(())
}
