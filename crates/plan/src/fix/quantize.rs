//! Quantization: weights that only matmuls read as codes of 8 or 4 bits. What is compiled has the codes and no scales, which are
//! one number for each output: it tells memory and time, and is no program to run.

use std::collections::HashSet;

use compile::Program;
use compile::optimize::inlined_but_kernels;
use hlo::{Attrs, Definition, ElementType, Func, NewOp, Op, OpId, OpKind, OpName, TensorType, Type, Value};
use tensor::DType;

use super::{FixKind, Proposal, Situation, entry};
use crate::error::Error;
use crate::memory::{BufferClass, arguments};
use crate::quality::{INT4_COST, INT8_COST};

/// Smaller weights are left alone: biases, norms, routers.
const LEAST_BYTES: u64 = 1 << 20;

pub(super) fn int8(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    propose(situation, DType::I8, "weights of matmuls in int8", 8, INT8_COST)
}

pub(super) fn int4(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    propose(situation, DType::I4, "weights of matmuls in int4", 4, INT4_COST)
}

fn propose(
    situation: &Situation<'_>,
    code: DType,
    title: &str,
    bits: u32,
    cost: &str,
) -> Result<Option<Proposal>, Error> {
    // A training changes its weights, by less than a code.
    if situation.arguments.iter().any(|argument| argument.class == BufferClass::OptimizerState) {
        return Ok(None);
    }
    let program = Program::from_module(inlined_but_kernels(situation.program.verified())?);
    let classes = arguments(program.module());
    let changed = entry::edit(&program, |func| {
        let mut changed = false;
        for (index, argument) in classes.iter().enumerate() {
            if argument.class == BufferClass::Parameters && argument.replaced_by.is_none() {
                changed |= narrow(func, index, code).is_some();
            }
        }
        changed
    })?;
    let detail = format!(
        "costs quality: {cost}. `tpu quantize FOLDER --bits {bits}` makes such weights, `tpu eval` measures them; tried here without \
         their scales"
    );
    let proposal = situation.proposal(FixKind::Quantization, title, detail);
    Ok(changed.map(|program| Proposal { program: Some(program), is_measurement: true, ..proposal }))
}

/// Makes an argument that only matmuls read one of codes.
fn narrow(func: &mut Func, index: usize, code: DType) -> Option<()> {
    let argument = *func.args().get(index)?;
    let wide = func.ty(argument).as_tensor()?.clone();
    let is_float = matches!(wide.element.plain(), Some(DType::BF16 | DType::F16 | DType::F32));
    let elements = wide.dims.iter().try_fold(1u64, |all, size| all.checked_mul(u64::try_from(*size).ok()?))?;
    let bytes = elements.saturating_mul(wide.element.plain()?.size_bytes() as u64);
    if !is_float || wide.rank() < 2 || wide.encoding.is_some() || bytes < LEAST_BYTES {
        return None;
    }
    let way = Way::of(func, argument)?;
    let coded = |ty: &TensorType| TensorType { element: ElementType::from(code), ..ty.clone() };
    *func.inputs.get_mut(index)? = Type::from(coded(&wide));
    for value in &way.moved {
        let ty = coded(func.ty(*value).as_tensor()?);
        func.values.get_mut(value.0 as usize)?.ty = Type::from(ty);
    }
    for (op, operand) in way.matmuls {
        widen(func, op, operand, wide.element.clone())?;
    }
    Some(())
}

/// Converts an operand of codes before an op that reads it.
fn widen(func: &mut Func, op: OpId, operand: usize, element: ElementType) -> Option<()> {
    let value = *func.op(op).operands.get(operand)?;
    let ty = TensorType { element, ..func.ty(value).as_tensor()?.clone() };
    let region = func.regions.iter().position(|region| region.ops.contains(&op))?;
    let region = hlo::Region(u32::try_from(region).ok()?);
    let convert = NewOp {
        results: vec![Type::from(ty)],
        operands: vec![value],
        attrs: Attrs::new(),
        ..NewOp::new(OpName::Known(OpKind::Convert))
    };
    let id = func.add_op(region, convert);
    let ops = &mut func.regions.get_mut(region.0 as usize)?.ops;
    let (last, place) = (ops.pop()?, ops.iter().position(|other| *other == op)?);
    ops.insert(place, last);
    *func.op_mut(op).operands.get_mut(operand)? = func.op(id).first_result;
    Some(())
}

/// The way of a weight to matmuls.
#[derive(Default)]
struct Way {
    /// The weight itself and what it becomes by moves: slices, loops, reshapes.
    moved: Vec<Value>,
    /// Matmuls that read it, and which operand it is.
    matmuls: Vec<(OpId, usize)>,
}

impl Way {
    /// `None` where anything but matmuls reads it.
    fn of(func: &Func, argument: Value) -> Option<Way> {
        let mut way = Way::default();
        let (mut seen, mut left) = (HashSet::from([argument]), vec![(argument, Width::Codes)]);
        let mut is_read = false;
        while let Some((value, width)) = left.pop() {
            if width == Width::Codes {
                way.moved.push(value);
            }
            for id in func.walk() {
                let op = func.op(id);
                for operand in (0..op.operands.len()).filter(|n| op.operands[*n] == value) {
                    for next in way.step(func, id, operand, width)? {
                        if seen.insert(next.0) {
                            left.push(next);
                        }
                    }
                    is_read |= op.kind() == Some(OpKind::DotGeneral);
                }
            }
        }
        is_read.then_some(way)
    }

    /// Where an operand goes on to; `None` where that is neither a matmul nor a move.
    fn step(&mut self, func: &Func, id: OpId, operand: usize, width: Width) -> Option<Vec<(Value, Width)>> {
        let op = func.op(id);
        match op.kind()? {
            OpKind::DotGeneral => {
                if width == Width::Codes {
                    self.matmuls.push((id, operand));
                }
                Some(Vec::new())
            }
            OpKind::Slice | OpKind::Reshape | OpKind::Transpose => Some(vec![(op.first_result, width)]),
            OpKind::DynamicSlice if operand == 0 => Some(vec![(op.first_result, width)]),
            OpKind::OptimizationBarrier => Some(vec![(op.results().nth(operand)?, width)]),
            OpKind::Convert => Some(vec![(op.first_result, Width::Floats)]),
            OpKind::While => in_loop(func, op, operand).map(|values| values.into_iter().map(|v| (v, width)).collect()),
            // A loop hands it on, which was seen where it was entered.
            OpKind::Return => match func.value(*op.operands.get(operand)?).definition {
                Definition::Argument(_, number) if number as usize == operand => Some(Vec::new()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What a value on the way is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// Codes, in the rewritten program.
    Codes,
    /// Converted by the program itself.
    Floats,
}

/// A value that a loop hands from round to round unchanged: inside it and after it.
fn in_loop(func: &Func, op: &Op, operand: usize) -> Option<Vec<Value>> {
    let &[condition, body] = &op.regions[..] else { return None };
    let last = *func.region(body).ops.last()?;
    let handed_on = *func.op(last).operands.get(operand)?;
    if func.value(handed_on).definition != Definition::Argument(body, u32::try_from(operand).ok()?) {
        return None;
    }
    let mut values = vec![op.results().nth(operand)?];
    for region in [condition, body] {
        values.push(*func.region(region).args.get(operand)?);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowed(text: &str) -> Option<String> {
        let program = Program::from_module(hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap());
        let mut is_changed = false;
        let edited = entry::edit(&program, |func| {
            is_changed = narrow(func, 0, DType::I8).is_some();
            is_changed
        });
        edited.unwrap().map(|program| hlo::text::print(program.module()))
    }

    #[test]
    fn weights_of_loops_stay_codes_until_the_matmul() {
        let text = "func.func @main(%w: tensor<4x512x512xbf16>, %x: tensor<2x512xbf16>) -> tensor<2x512xbf16> {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %four = stablehlo.constant dense<4> : tensor<i32>
            %0:3 = stablehlo.while(%i = %zero, %a = %w, %y = %x) : tensor<i32>, tensor<4x512x512xbf16>, tensor<2x512xbf16>
            cond {
              %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %one = stablehlo.constant dense<1> : tensor<i32>
              %j = stablehlo.add %i, %one : tensor<i32>
              %s = stablehlo.dynamic_slice %a, %i, %zero, %zero, sizes = [1, 512, 512]
                : (tensor<4x512x512xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x512x512xbf16>
              %r = stablehlo.reshape %s : (tensor<1x512x512xbf16>) -> tensor<512x512xbf16>
              %p = stablehlo.dot_general %y, %r, contracting_dims = [1] x [0]
                : (tensor<2x512xbf16>, tensor<512x512xbf16>) -> tensor<2x512xbf16>
              stablehlo.return %j, %a, %p : tensor<i32>, tensor<4x512x512xbf16>, tensor<2x512xbf16>
            }
            return %0#2 : tensor<2x512xbf16>
          }";
        let found = narrowed(text).unwrap();
        assert!(!found.contains("4x512x512xbf16") && !found.contains("1x512x512xbf16"), "{found}");
        assert!(found.contains("(tensor<512x512xi8>) -> tensor<512x512xbf16>"), "{found}");
    }

    #[test]
    fn what_is_read_otherwise_is_left_alone() {
        let with = |op: &str| {
            format!(
                "func.func @main(%w: tensor<1024x1024xf32>, %x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {{
                   %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
                     : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
                   %1 = stablehlo.add %0, {op} : tensor<1024x1024xf32>
                   return %1 : tensor<1024x1024xf32>
                 }}"
            )
        };
        assert!(narrowed(&with("%x")).is_some());
        assert!(narrowed(&with("%w")).is_none(), "its values are added");
    }
}
