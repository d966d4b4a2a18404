//! Parameters in bf16: arguments of f32 that a program reads in bf16 alone are taken in bf16, so that they need half the
//! memory and are converted once, when they are sent.

use std::sync::Arc;

use hlo::attr::{ALIAS, DONOR};
use hlo::{Attrs, Func, Module, OpId, OpKind, Region, TensorType, Value, Verified};
use tensor::{DType, Literal};

use super::edit::{array_of, emit};
use super::optimizer::Context;
use super::step::RewriteStep;
use crate::error::CompileError;

const NAME: &str = "bf16_parameters";

/// Takes the parameters in bf16 that are converted wherever they are read.
pub(super) fn where_read(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    let mut module = module.into_inner();
    let mut changed = 0;
    if let Some(func) = entry(&mut module) {
        for &argument in context.parameters {
            let Some(value) = wide_argument(func, argument, context) else { continue };
            let conversions = readers(func, value);
            let is_conversion = |&id: &OpId| {
                let op = func.op(id);
                op.kind() == Some(OpKind::Convert) && array_of(func, op.first_result, DType::BF16).is_some()
            };
            if conversions.is_empty() || !conversions.iter().all(is_conversion) {
                continue;
            }
            for &id in &conversions {
                let converted = func.op(id).first_result;
                replace(func, converted, value);
            }
            func.regions.iter_mut().for_each(|region| region.ops.retain(|id| !conversions.contains(id)));
            narrow_argument(func, argument, value);
            changed += 1;
        }
        func.renumber();
    }
    let detail = format!("{changed} of {} parameters are taken in bf16", context.parameters.len());
    Ok((hlo::verify(module)?, RewriteStep::new(NAME, changed, detail)))
}

/// Takes these parameters in bf16, however they are read: they are on the device in bf16.
pub(super) fn always(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    let mut module = module.into_inner();
    let mut changed = 0;
    if let Some(func) = entry(&mut module) {
        for &argument in context.narrow_parameters {
            let Some(value) = wide_argument(func, argument, context) else { continue };
            let Some(ty) = array_of(func, value, DType::F32).map(|ty| TensorType::new(ty.dims.clone(), DType::F32))
            else {
                continue;
            };
            let (body, like) = (Region(0), func.region(Region(0)).ops.first().copied());
            narrow_argument(func, argument, value);
            let Some(like) = like else { continue };
            let widened = emit(func, body, like, OpKind::Convert, &[], Attrs::new(), ty);
            replace(func, value, widened);
            func.regions[0].ops.rotate_right(1);
            let conversion = func.regions[0].ops[0];
            func.op_mut(conversion).operands = vec![value];
            changed += 1;
        }
    }
    let detail = format!("{changed} parameters are on the device in bf16");
    Ok((hlo::verify(module)?, RewriteStep::new("narrow_parameters", changed, detail)))
}

fn entry(module: &mut Module) -> Option<&mut Func> {
    let name = module.entry().map(|func| Arc::clone(&func.name));
    module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref() && func.body == Some(Region(0)))
}

/// The value of an argument of f32 that does not become a result.
fn wide_argument(func: &Func, argument: usize, context: &Context<'_>) -> Option<Value> {
    let attrs = func.input_attrs.get(argument);
    let is_given = attrs.is_some_and(|attrs| attrs.get(ALIAS).is_some() || attrs.get(DONOR).is_some());
    let value = *func.args().get(argument)?;
    array_of(func, value, DType::F32).filter(|_| !is_given && !context.donated.contains(&argument)).map(|_| value)
}

fn narrow_argument(func: &mut Func, argument: usize, value: Value) {
    let dims = func.ty(value).as_tensor().map_or_else(Vec::new, |ty| ty.dims.clone());
    let ty = TensorType::new(dims, DType::BF16);
    func.inputs[argument] = ty.clone().into();
    func.values[value.0 as usize].ty = ty.into();
}

fn readers(func: &Func, value: Value) -> Vec<OpId> {
    func.walk().into_iter().filter(|&id| func.op(id).operands.contains(&value)).collect()
}

fn replace(func: &mut Func, old: Value, new: Value) {
    let operands = func.ops.iter_mut().flat_map(|op| &mut op.operands);
    operands.filter(|operand| **operand == old).for_each(|operand| *operand = new);
}

/// A parameter as a program takes it: rounded to bf16 if it is f32 and the program wants bf16.
pub fn narrowed(literal: &Arc<Literal>, wanted: DType) -> Arc<Literal> {
    if (literal.dtype(), wanted) != (DType::F32, DType::BF16) {
        return Arc::clone(literal);
    }
    let mut bytes = Vec::with_capacity(literal.bytes().len() / 2);
    for element in literal.bytes().chunks_exact(4) {
        let bits = u32::from_le_bytes([element[0], element[1], element[2], element[3]]);
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        // bf16 is the upper half of f32; to nearest, ties to even. A NaN stays one.
        let rounded = if is_nan { bits | 0x0040_0000 } else { bits + 0x7fff + ((bits >> 16) & 1) };
        bytes.extend(((rounded >> 16) as u16).to_le_bytes());
    }
    Literal::new(DType::BF16, literal.dims().to_vec(), bytes).map_or_else(|| Arc::clone(literal), Arc::new)
}

/// What [`narrowed`] was given, without the bits it dropped.
pub fn widened(literal: Literal, wanted: DType) -> Literal {
    if (literal.dtype(), wanted) != (DType::BF16, DType::F32) {
        return literal;
    }
    let bytes = literal.bytes().chunks_exact(2).flat_map(|element| [0, 0, element[0], element[1]]).collect();
    Literal::new(DType::F32, literal.dims().to_vec(), bytes).unwrap_or(literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_agrees_with_the_scalar_conversion() {
        let numbers = [0.0, -0.0, 1.0, 1.001, -3.3333333, 1e-40, 3.4e38, f32::INFINITY, f32::NEG_INFINITY, 1.003_906_2];
        let halves = (0..64).map(|n| f32::from_bits(0x3f80_0000 + n * 0x1001));
        let all: Vec<f32> = numbers.into_iter().chain(halves).collect();
        let bytes = all.iter().flat_map(|x| x.to_le_bytes()).collect();
        let literal = Arc::new(Literal::new(DType::F32, [all.len()], bytes).unwrap());
        let rounded = narrowed(&literal, DType::BF16);
        for (number, found) in all.iter().zip(rounded.bytes().chunks_exact(2)) {
            let expected = tensor::encode_float(DType::BF16, f64::from(*number)).unwrap() as u16;
            assert_eq!(found, expected.to_le_bytes(), "{number}");
        }
        let again = narrowed(&Arc::new(widened((*rounded).clone(), DType::F32)), DType::BF16);
        assert_eq!(again.bytes(), rounded.bytes());
        let nan = Arc::new(Literal::new(DType::F32, [1], f32::NAN.to_le_bytes().to_vec()).unwrap());
        assert!(
            f32::from_bits(
                u32::from(u16::from_le_bytes(narrowed(&nan, DType::BF16).bytes().try_into().unwrap())) << 16
            )
            .is_nan()
        );
        assert_eq!(narrowed(&literal, DType::F32).bytes(), literal.bytes());
    }
}
