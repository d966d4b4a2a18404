//! Padding: contracting sizes of matmuls filled with zeros up to a multiple of the MXU, where that pays.
//!
//! Zeros add nothing to a sum, so results stay the same. Rows and columns of the result are left alone: the TPU compiler
//! tiles them itself and takes a padding of them out again, cycle for cycle.

use hlo::{Attr, Attrs, Dense, Func, Op, OpId, OpKind, Region, TensorType, Value, Verified};

use super::edit::{definition, emit, visit_ops};
use super::optimizer::Context;
use super::step::RewriteStep;
use super::target::TargetInfo;
use crate::error::CompileError;

const NAME: &str = "pad_matmuls";

/// Sizes the compiler rounds to without being told, in elements: the lanes of a vector register.
const NATIVE_MULTIPLE: u64 = 128;

pub(super) fn run(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    let Some(edge) = context.target.mxu_edge.map(u64::from).filter(|&edge| edge > 0) else {
        return Ok((module, RewriteStep::new(NAME, 0, "the device has no matrix unit of a known size")));
    };
    if context.is_partitioned {
        return Ok((module, RewriteStep::new(NAME, 0, "sizes on one device are known only after partitioning")));
    }
    let mut module = module.into_inner();
    let (mut changed, mut does_not_pay) = (0, 0);
    for func in &mut module.funcs {
        let readers = readers(func);
        visit_ops(func, |func, region, id| {
            let Some(matmul) = Matmul::of(func, func.op(id)) else { return };
            if matmul.size.is_multiple_of(edge) {
                return;
            }
            let Some(padded) = matmul.size.checked_next_multiple_of(edge) else { return };
            if saved_seconds(func, func.op(id), &matmul, padded, context.target, &readers) <= 0.0 {
                does_not_pay += 1;
                return;
            }
            for (operand, dim) in [(0, matmul.lhs), (1, matmul.rhs)] {
                let value = func.op(id).operands[operand];
                if let Some(value) = pad(func, region, id, value, dim, padded) {
                    func.op_mut(id).operands[operand] = value;
                }
            }
            changed += 1;
        });
    }
    let detail = format!("{changed} matmuls padded to multiples of {edge}; {does_not_pay} would not gain");
    Ok((hlo::verify(module)?, RewriteStep::new(NAME, changed, detail)))
}

/// A matmul that contracts one dimension.
struct Matmul {
    /// The dimension in the left operand.
    lhs: usize,
    /// The dimension in the right operand.
    rhs: usize,
    /// Its size.
    size: u64,
}

impl Matmul {
    fn of(func: &Func, op: &Op) -> Option<Matmul> {
        if op.kind() != Some(OpKind::DotGeneral) {
            return None;
        }
        let Some(Attr::Dot(dims)) = op.attr("dot_dimension_numbers") else { return None };
        let (&[lhs], &[rhs]) = (&dims.lhs_contracting[..], &dims.rhs_contracting[..]) else { return None };
        let (lhs, rhs) = (usize::try_from(lhs).ok()?, usize::try_from(rhs).ok()?);
        let of_floats = |value: Value| {
            let ty = func.ty(value).as_tensor()?;
            let is_plain = ty.element.plain()?.is_float() && ty.encoding.is_none() && ty.num_elements()? > 0;
            is_plain.then_some(ty)
        };
        let &[left, right] = &op.operands[..] else { return None };
        of_floats(right)?;
        Some(Matmul { lhs, rhs, size: u64::try_from(*of_floats(left)?.dims.get(lhs)?).ok()? })
    }
}

/// Seconds that padding saves, by what is known of the device. A matmul that is not padded loses a share of its time; a
/// padded one multiplies zeros, and its operands are written once more, unless they are constants or can be padded while
/// they are computed.
fn saved_seconds(func: &Func, op: &Op, matmul: &Matmul, padded: u64, target: &TargetInfo, readers: &[u32]) -> f64 {
    let (Some(flops), Some(bandwidth)) = (target.bf16_flops, target.memory_bytes_per_s) else { return 0.0 };
    let native = matmul.size.next_multiple_of(NATIVE_MULTIPLE);
    let matmul_seconds = hlo::cost::op_flops(func, op) / flops;
    let zeros = padded as f64 / native as f64 - 1.0;
    let moved: f64 = op.operands.iter().map(|&value| padding_bytes(func, value, matmul.size, padded, readers)).sum();
    matmul_seconds * (target.ragged_loss - zeros) - moved / bandwidth
}

fn padding_bytes(func: &Func, value: Value, size: u64, padded: u64, readers: &[u32]) -> f64 {
    let Some(ty) = func.ty(value).as_tensor() else { return 0.0 };
    let elements = ty.num_elements().unwrap_or(0) as f64;
    let bytes = elements * ty.element.plain().map_or(0.0, |dtype| f64::from(dtype.bits()) / 8.0);
    let more = bytes * (padded as f64 / size as f64 - 1.0);
    let op = definition(func, value);
    match op.and_then(Op::kind) {
        Some(OpKind::Constant) => 0.0,
        Some(kind) if hlo::cost::fuses_elementwise(kind) && readers.get(value.0 as usize) == Some(&1) => more,
        _ => 2.0 * bytes + more,
    }
}

/// How many ops read each value.
fn readers(func: &Func) -> Vec<u32> {
    let mut readers = vec![0; func.values.len()];
    func.ops.iter().flat_map(|op| &op.operands).for_each(|value| readers[value.0 as usize] += 1);
    readers
}

/// The value with zeros behind it along one dimension.
fn pad(func: &mut Func, region: Region, like: OpId, value: Value, dim: usize, size: u64) -> Option<Value> {
    let ty = func.ty(value).as_tensor()?.clone();
    let dtype = ty.element.plain()?;
    let scalar = TensorType::new(Vec::new(), dtype);
    let mut attrs = Attrs::new();
    attrs.set("value", Attr::Dense(std::sync::Arc::new(Dense::splat(scalar.clone(), &vec![0; dtype.size_bytes()])?)));
    let (mut dims, mut high) = (ty.dims.clone(), vec![0; ty.rank()]);
    let padded = i64::try_from(size).ok()?;
    high[dim] = padded.checked_sub(*dims.get(dim)?)?;
    dims[dim] = padded;
    let zero = emit(func, region, like, OpKind::Constant, &[], attrs, scalar);
    let mut attrs = Attrs::new();
    attrs.set("edge_padding_low", Attr::i64s(vec![0; ty.rank()]));
    attrs.set("edge_padding_high", Attr::i64s(high));
    attrs.set("interior_padding", Attr::i64s(vec![0; ty.rank()]));
    Some(emit(func, region, like, OpKind::Pad, &[value, zero], attrs, TensorType::new(dims, dtype)))
}
