//! Sizes that an axis does not divide, as 50,257 words of a vocabulary: padded with zeros where matmuls read them, split, and the padding
//! cut off behind. Arguments and results keep their sizes.

use std::sync::Arc;

use compile::Program;
use compile::optimize::inlined_but_kernels;
use hlo::{Attr, Attrs, Dense, Func, NewOp, OpId, OpKind, OpName, Region, TensorType, Type, Value};

use super::annotated::{Annotated, AxisSpec, MeshAxes};
use super::layout::Ground;
use crate::memory::BufferClass;
use crate::search::argument_bytes;
use crate::search::flow::{Flow, UseKind};
use crate::tune::change::{Attempt, Changed};

pub(super) const REASON: &str =
    "a size that an axis does not divide leaves its matmuls whole on every device; padded with zeros they are split";

/// Weights smaller than this are not worth a split.
const SMALL_BYTES: u64 = 1 << 20;

/// A dimension of a weight that is padded and split over an axis where matmuls read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Padding {
    pub(super) name: String,
    mesh: MeshAxes,
    argument: usize,
    dim: usize,
    axis: usize,
}

/// Large weights whole along an axis of tensor parallelism that does not divide one of their sizes.
pub(super) fn paddings(ground: &Ground) -> Vec<Padding> {
    let annotated = &ground.annotated;
    let mut all = Vec::new();
    for (argument, ty) in ground.types.iter().enumerate() {
        let is_weight = ground.arguments.get(argument).is_some_and(|it| it.class == BufferClass::Parameters);
        let Some(tensor) = ty.as_tensor().filter(|_| is_weight && argument_bytes(ty) >= SMALL_BYTES) else { continue };
        let spec = ground.spec(argument);
        for axis in ground.tensor_axes().into_iter().filter(|axis| !spec.iter().flatten().any(|used| used == axis)) {
            let parts = annotated.parts(&[axis]);
            // Only the size that stands in the way: another one may be split as it is.
            let odd = (0..tensor.rank()).filter(|dim| tensor.dims[*dim] % parts != 0 && tensor.dims[*dim] > 64 * parts);
            let name = &annotated.axes[axis].0;
            all.extend(odd.map(|dim| Padding {
                name: format!(
                    "{} padded to {} and split over {name}",
                    tensor.dims[dim],
                    multiple(tensor.dims[dim], parts)
                ),
                mesh: annotated.axes.clone(),
                argument,
                dim,
                axis,
            }));
        }
    }
    all
}

fn multiple(size: i64, parts: i64) -> i64 {
    size.saturating_add(parts - 1) / parts * parts
}

/// A program with one weight padded and split.
pub(super) fn apply(program: &Program, padding: &Padding) -> Attempt {
    let annotated = match Annotated::read(program, Some(&padding.mesh)) {
        Ok(annotated) => annotated,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut module = inlined_but_kernels(program.verified())?.into_inner();
    let name = module.entry().map(|func| func.name.clone());
    let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref()) else {
        return Ok(Err("there is no entry function".into()));
    };
    let size =
        func.inputs.get(padding.argument).and_then(Type::as_tensor).and_then(|ty| ty.dims.get(padding.dim)).copied();
    let Some(size) = size.filter(|_| padding.axis < annotated.axes.len()) else {
        return Ok(Err("the program has other arguments".into()));
    };
    let padded = multiple(size, annotated.parts(&[padding.axis]));
    let matmuls = pad(func, &annotated, padding, (size, padded));
    if matmuls == 0 {
        return Ok(Err("no matmul reads that weight".into()));
    }
    func.renumber();
    let detail = format!(
        "{matmuls} matmuls with {size} columns or rows have {padded}, a part on each device; the rest is cut off behind them"
    );
    Ok(Ok(Changed { program: Program::from_module(hlo::verify(module)?), detail }))
}

/// Pads every matmul that has the size, if one of them reads the weight; how many there are.
fn pad(func: &mut Func, annotated: &Annotated, padding: &Padding, (size, padded): (i64, i64)) -> usize {
    let flow = Flow::of(func);
    let given = annotated.arguments.get(padding.argument).cloned().flatten();
    let rank = func.inputs[padding.argument].as_tensor().map_or(0, |ty| ty.rank());
    let given: AxisSpec = given.unwrap_or_else(|| vec![Vec::new(); rank]);
    // Where the weight itself is read: the operand, and what each of its dimensions is.
    let reads: Vec<(OpId, usize, Vec<Option<usize>>)> = (flow.uses.iter())
        .filter(|site| site.kind == UseKind::Matmul && site.origin.argument == padding.argument)
        .map(|site| (site.op, site.operand, site.origin.dims.clone()))
        .collect();
    if reads.is_empty() {
        return 0;
    }
    let sites: Vec<(Region, OpId)> = func
        .regions
        .iter()
        .enumerate()
        .flat_map(|(n, data)| data.ops.iter().map(move |id| (Region(n as u32), *id)))
        .filter(|(_, id)| func.op(*id).kind() == Some(OpKind::DotGeneral))
        .collect();
    let mut count = 0;
    for (region, id) in sites {
        let Some(plan) = Plan::of(func, id, size) else { continue };
        for operand in 0..2 {
            for &dim in &plan.operands[operand] {
                let value = func.op(id).operands[operand];
                let Some(mut value) = padded_value(func, region, id, value, dim, (size, padded)) else { continue };
                let read = reads
                    .iter()
                    .find(|(op, at, dims)| *op == id && *at == operand && dims.get(dim) == Some(&Some(padding.dim)));
                if let Some((_, _, dims)) = read {
                    let of = |(at, origin): (usize, &Option<usize>)| match (at == dim, origin) {
                        (true, _) => vec![padding.axis],
                        (false, Some(origin)) => given.get(*origin).cloned().unwrap_or_default(),
                        (false, None) => Vec::new(),
                    };
                    let spec: AxisSpec = dims.iter().enumerate().map(of).collect();
                    value = constrained(func, region, id, value, annotated.constraint(&spec));
                }
                func.op_mut(id).operands[operand] = value;
            }
        }
        for &dim in &plan.results {
            cut_off(func, region, id, dim, padded);
        }
        count += 1;
    }
    count
}

/// Dimensions of a matmul that have the size.
struct Plan {
    operands: [Vec<usize>; 2],
    results: Vec<usize>,
}

impl Plan {
    fn of(func: &Func, id: OpId, size: i64) -> Option<Plan> {
        let op = func.op(id);
        let Some(Attr::Dot(dims)) = op.attr("dot_dimension_numbers") else { return None };
        let &[left, right] = &op.operands[..] else { return None };
        let (left, right) = (func.ty(left).as_tensor()?, func.ty(right).as_tensor()?);
        let with_size = |ty: &TensorType| (0..ty.rank()).filter(|dim| ty.dims[*dim] == size).collect::<Vec<usize>>();
        let operands = [with_size(left), with_size(right)];
        // Batches of that size are something else.
        let batches = [&dims.lhs_batching, &dims.rhs_batching];
        let is_batch = |operand: usize| operands[operand].iter().any(|dim| batches[operand].contains(&(*dim as i64)));
        if operands.iter().all(Vec::is_empty) || is_batch(0) || is_batch(1) {
            return None;
        }
        let result = func.ty(op.first_result).as_tensor()?;
        Some(Plan { operands, results: with_size(result) })
    }
}

/// Puts an op before another one; its result.
fn before(func: &mut Func, region: Region, at: OpId, mut op: NewOp) -> Value {
    op.loc = func.op(at).loc.clone();
    let id = func.add_op(region, op);
    let ops = &mut func.regions[region.0 as usize].ops;
    ops.pop();
    let place = ops.iter().position(|other| *other == at).unwrap_or(ops.len());
    ops.insert(place, id);
    func.op(id).first_result
}

fn constrained(func: &mut Func, region: Region, at: OpId, value: Value, op: NewOp) -> Value {
    let results = vec![func.ty(value).clone()];
    before(func, region, at, NewOp { operands: vec![value], results, ..op })
}

/// The value with zeros behind it along one dimension; the same value where nothing is missing.
fn padded_value(
    func: &mut Func,
    region: Region,
    at: OpId,
    value: Value,
    dim: usize,
    (size, padded): (i64, i64),
) -> Option<Value> {
    if size == padded {
        return Some(value);
    }
    let ty = func.ty(value).as_tensor()?.clone();
    let dtype = ty.element.plain()?;
    let scalar = TensorType::new(Vec::new(), dtype);
    let zero = Dense::splat(scalar.clone(), &vec![0; dtype.size_bytes()])?;
    let mut constant = NewOp::new(OpName::Known(OpKind::Constant));
    constant.attrs.set("value", Attr::Dense(Arc::new(zero)));
    constant.results = vec![Type::Tensor(Arc::new(scalar))];
    let zero = before(func, region, at, constant);
    let (mut dims, mut high) = (ty.dims.clone(), vec![0; ty.rank()]);
    (dims[dim], high[dim]) = (padded, padded - size);
    let mut op = NewOp::new(OpName::Known(OpKind::Pad));
    op.operands = vec![value, zero];
    op.attrs.set("edge_padding_low", Attr::i64s(vec![0; ty.rank()]));
    op.attrs.set("edge_padding_high", Attr::i64s(high));
    op.attrs.set("interior_padding", Attr::i64s(vec![0; ty.rank()]));
    op.results = vec![Type::Tensor(Arc::new(TensorType::new(dims, dtype)))];
    Some(before(func, region, at, op))
}

/// Gives a matmul's result the padded size, and its readers the part that was there before.
fn cut_off(func: &mut Func, region: Region, id: OpId, dim: usize, padded: i64) {
    let result = func.op(id).first_result;
    let Some(ty) = func.ty(result).as_tensor().cloned().filter(|ty| ty.dims[dim] != padded) else { return };
    let mut wide = ty.clone();
    wide.dims[dim] = padded;
    func.values[result.0 as usize].ty = Type::Tensor(Arc::new(wide));
    let mut attrs = Attrs::new();
    attrs.set("start_indices", Attr::i64s(vec![0; ty.rank()]));
    attrs.set("limit_indices", Attr::i64s(ty.dims.clone()));
    attrs.set("strides", Attr::i64s(vec![1; ty.rank()]));
    let op = NewOp { results: vec![Type::Tensor(Arc::new(ty))], attrs, ..NewOp::new(OpName::Known(OpKind::Slice)) };
    let slice = func.add_op(region, NewOp { loc: func.op(id).loc.clone(), ..op });
    let part = func.op(slice).first_result;
    for reader in &mut func.ops {
        reader.operands.iter_mut().filter(|operand| **operand == result).for_each(|operand| *operand = part);
    }
    func.op_mut(slice).operands = vec![result];
    let ops = &mut func.regions[region.0 as usize].ops;
    ops.pop();
    let place = ops.iter().position(|other| *other == id).map_or(ops.len(), |at| at + 1);
    ops.insert(place, slice);
}

#[cfg(test)]
mod tests {
    use runtime::Backend;
    use runtime::config::{Config, Mode, Target};
    use runtime::optimize::compare_programs;
    use tensor::Literal;

    use super::*;

    /// A training step on 2 × 4 devices with 1001 words, which every device has whole.
    const STEP: &str = include_str!("../../../tests/data/odd_vocabulary_step.mlir");

    #[test]
    fn an_odd_vocabulary_is_split() {
        let program = Program::read(STEP.as_bytes().to_vec()).unwrap();
        let ground = Ground::of(&program, None).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        let all = paddings(&ground);
        assert_eq!(
            all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["1001 padded to 1004 and split over model"]
        );
        let small = STEP.replace("1024", "64").replace("512", "32");
        let program = Program::read(small.into_bytes()).unwrap();
        let changed = apply(&program, &all[0]).unwrap().unwrap_or_else(|reason| panic!("{reason}"));
        assert!(changed.detail.starts_with("3 matmuls"), "forward, and two gradients: {}", changed.detail);
        let printed = hlo::text::print(changed.program.module());
        assert!(printed.contains("<@mesh, [{}, {\"model\"}]> : tensor<32x1004xf32>"), "{printed}");
        let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
        let sample = |(seed, ty): (usize, &Type)| {
            let ty = ty.as_tensor().unwrap();
            let dims: Vec<usize> = ty.dims.iter().map(|&size| size as usize).collect();
            let count: usize = dims.iter().product();
            let is_float = ty.element.plain().unwrap().is_float();
            let number = |n: usize| 0.1 * ((n * 7 + seed * 13) as f32 * 0.37).sin();
            let literal = match is_float {
                true => Literal::from_slice(&(0..count).map(number).collect::<Vec<f32>>(), dims),
                false => Literal::from_slice(&(0..count).map(|n| (n * 37 % 1001) as i32).collect::<Vec<i32>>(), dims),
            };
            Arc::new(literal.unwrap())
        };
        let samples: Vec<Arc<Literal>> =
            program.module().entry().unwrap().inputs.iter().enumerate().map(sample).collect();
        let moved = compare_programs(&backend, &program, &changed.program, &samples).unwrap();
        assert!(moved.iter().all(|result| result.is_finite && result.deviation <= 1e-4), "{moved:?}");
        assert_eq!(moved.len(), 7);
    }
}
