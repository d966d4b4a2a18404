//! Collectives that move or combine plain arrays: processes hand each other their bytes. Others run in the interpreter.
#![allow(unsafe_code)]

use std::sync::Arc;

use hlo::{Attr, OpId, OpKind};
use tensor::{DType, Literal};

use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::interpret::{InterpreterValue, Process, collective_group};
use crate::kernels::loops::ir::Fold;
use crate::lower::block::Lowering;
use crate::lower::region::simple_fold;
use crate::memory::byte_count;
use crate::program::{Kernel, Run};

/// Arrays of fewer bytes are combined by every process; of larger ones each combines a part.
const SHARED_FROM_BYTES: usize = 16 << 10;

pub(crate) fn lower(lowering: &mut Lowering<'_>, id: OpId) -> Result<Option<()>, Error> {
    let func = lowering.func;
    let op = func.op(id);
    let (&[operand], 1) = (&op.operands[..], op.num_results) else { return Ok(None) };
    let dim = |name: &str| op.attr(name).and_then(Attr::as_int).and_then(|dim| usize::try_from(dim).ok());
    let fold = || op.regions.first().and_then(|&region| simple_fold(func, region));
    let (dtype, dims) = lowering.array_type(operand)?;
    let (result_type, result_dims) = lowering.array_type(op.first_result)?;
    let is_supported = |fold: Option<Fold>| fold.filter(|&fold| folded(dtype, fold).is_some());
    let work = match op.kind() {
        Some(OpKind::AllReduce) => is_supported(fold()).map(Exchange::AllReduce),
        Some(OpKind::AllGather) => dim("all_gather_dim").map(Exchange::AllGather),
        Some(OpKind::ReduceScatter) => {
            is_supported(fold()).zip(dim("scatter_dimension")).map(|(fold, dim)| Exchange::ReduceScatter(fold, dim))
        }
        _ => None,
    };
    let along = match work {
        Some(Exchange::AllGather(dim) | Exchange::ReduceScatter(_, dim)) if dim < dims.len() => Some(dim),
        Some(Exchange::AllReduce(_)) => None,
        _ => return Ok(None),
    };
    let same = |d: &usize| along == Some(*d) || dims[*d] == result_dims[*d];
    if result_type != dtype || dims.len() != result_dims.len() || !(0..dims.len()).all(|d| same(&d)) {
        return Ok(None);
    }
    let (Some(work), Some(from_bytes), Some(to_bytes)) =
        (work, byte_count(dtype, &dims), byte_count(dtype, &result_dims))
    else {
        return Ok(None);
    };
    // Rows are what lies together from the dimension on.
    let at = along.unwrap_or(0);
    let row = |dims: &[usize]| dims.get(at..).unwrap_or_default().iter().product::<usize>() * dtype.size_bytes();
    let channel = match op.attr("channel_handle") {
        Some(Attr::Channel(channel)) => channel.handle,
        _ => 0,
    };
    let (from_row, to_row) = (row(&dims), row(&result_dims));
    let name = op.name.as_str().to_string();
    let inputs = vec![lowering.dense_value(operand)?];
    let outputs = vec![lowering.result_slot(op.first_result)?];
    let func = func.name.clone();
    let kernel = Collective { func, op: id, name, channel, work, dtype, from_bytes, to_bytes, from_row, to_row };
    lowering.step(inputs, outputs, kernel);
    Ok(Some(()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    AllReduce(Fold),
    AllGather(usize),
    ReduceScatter(Fold, usize),
}

/// One collective.
struct Collective {
    func: Arc<str>,
    op: OpId,
    name: String,
    channel: i64,
    work: Exchange,
    dtype: DType,
    from_bytes: usize,
    to_bytes: usize,
    from_row: usize,
    to_row: usize,
}

/// Combines the second array into the first, element by element.
type Combine = fn(&mut [u8], &[u8]);

/// What combines arrays of a type; `None` where only the interpreter does.
fn folded(dtype: DType, fold: Fold) -> Option<Combine> {
    macro_rules! each {
        ($ty:ty, $do:expr) => {{
            fn combine(to: &mut [u8], from: &[u8]) {
                const SIZE: usize = size_of::<$ty>();
                let operation: fn($ty, $ty) -> $ty = $do;
                let (to, _) = to.as_chunks_mut::<SIZE>();
                let (from, _) = from.as_chunks::<SIZE>();
                for (to, from) in to.iter_mut().zip(from) {
                    *to = operation(<$ty>::from_le_bytes(*to), <$ty>::from_le_bytes(*from)).to_le_bytes();
                }
            }
            combine as Combine
        }};
    }
    macro_rules! integer {
        ($ty:ty) => {
            match fold {
                Fold::Sum => each!($ty, |a, b| a.wrapping_add(b)),
                Fold::Product => each!($ty, |a, b| a.wrapping_mul(b)),
                Fold::Max | Fold::MaxU => each!($ty, |a, b| a.max(b)),
                Fold::Min | Fold::MinU => each!($ty, |a, b| a.min(b)),
                Fold::And => each!($ty, |a, b| a & b),
                Fold::Or => each!($ty, |a, b| a | b),
                Fold::Xor => each!($ty, |a, b| a ^ b),
            }
        };
    }
    macro_rules! real {
        ($ty:ty) => {
            match fold {
                Fold::Sum => each!($ty, |a, b| a + b),
                Fold::Product => each!($ty, |a, b| a * b),
                Fold::Max => each!($ty, |a, b| if a.is_nan() || a > b { a } else { b }),
                Fold::Min => each!($ty, |a, b| if a.is_nan() || a < b { a } else { b }),
                _ => return None,
            }
        };
    }
    Some(match dtype {
        DType::F32 => real!(f32),
        DType::F64 => real!(f64),
        DType::BF16 if fold == Fold::Sum => {
            each!(u16, |a, b| round(f32::from_bits(u32::from(a) << 16) + f32::from_bits(u32::from(b) << 16)))
        }
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
        DType::Bool if matches!(fold, Fold::And | Fold::Or | Fold::Xor) => integer!(u8),
        _ => return None,
    })
}

/// The nearest bf16, to even.
fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

impl Collective {
    /// The bytes of all members of a group.
    fn meet(
        &self,
        process: &Process,
        run: &Run<'_>,
        group: &[usize],
        bytes: &[u8],
    ) -> Result<Vec<Arc<Literal>>, Error> {
        let literal = Literal::new(DType::U8, [bytes.len()], bytes.to_vec());
        let literal = literal.ok_or_else(|| Error::Internal("bytes of another count".into()))?;
        let brought = vec![InterpreterValue::Stored(Arc::new(literal))];
        let all = process.meet(run.options, &self.name, self.channel, group, brought)?;
        let stored = |values: &Arc<Vec<InterpreterValue>>| match values.first() {
            Some(InterpreterValue::Stored(literal)) => Ok(literal.clone()),
            _ => Err(Error::Internal("a process brought no bytes".into())),
        };
        all.iter().map(stored).collect()
    }

    fn exchange(&self, run: &Run<'_>, from: &[u8], to: &mut [u8]) -> Result<(), Error> {
        let wrong = || {
            let message = "processes bring arrays of other sizes than its type has".to_string();
            Error::Program { op: self.name.clone(), message }
        };
        let group = collective_group(run.module, (&self.func, self.op), run.options, run.process.clone())?;
        let process = match &run.process {
            Some(process) if group.len() > 1 => process,
            _ if from.len() == to.len() => {
                to.copy_from_slice(from);
                return Ok(());
            }
            _ => return Err(wrong()),
        };
        let left = || Error::Internal("a process left its group".into());
        let index = group.iter().position(|&member| member == process.id).ok_or_else(left)?;
        let all = self.meet(process, run, &group, from)?;
        if all.iter().any(|other| other.bytes().len() != from.len()) {
            return Err(wrong());
        }
        match self.work {
            Exchange::AllReduce(fold) => {
                let combine = folded(self.dtype, fold).ok_or_else(wrong)?;
                let reduce = |to: &mut [u8], start: usize| {
                    to.copy_from_slice(&all[0].bytes()[start..start + to.len()]);
                    let end = start + to.len();
                    all[1..].iter().for_each(|other| combine(to, &other.bytes()[start..end]));
                };
                if from.len() < SHARED_FROM_BYTES {
                    reduce(to, 0);
                    return Ok(());
                }
                let elements = from.len() / self.dtype.size_bytes();
                let start = |n: usize| elements * n / group.len() * self.dtype.size_bytes();
                let mut own = vec![0; start(index + 1) - start(index)];
                reduce(&mut own, start(index));
                let parts = self.meet(process, run, &group, &own)?;
                for (n, part) in parts.iter().enumerate() {
                    let place = to.get_mut(start(n)..start(n + 1)).filter(|place| place.len() == part.bytes().len());
                    place.ok_or_else(wrong)?.copy_from_slice(part.bytes());
                }
            }
            Exchange::AllGather(_) => {
                if self.from_row.checked_mul(group.len()) != Some(self.to_row) {
                    return Err(wrong());
                }
                for (n, part) in all.iter().enumerate() {
                    let rows =
                        to.chunks_exact_mut(self.to_row.max(1)).zip(part.bytes().chunks_exact(self.from_row.max(1)));
                    rows.for_each(|(to, from)| to[n * from.len()..(n + 1) * from.len()].copy_from_slice(from));
                }
            }
            Exchange::ReduceScatter(fold, _) => {
                let combine = folded(self.dtype, fold).ok_or_else(wrong)?;
                if self.to_row.checked_mul(group.len()) != Some(self.from_row) {
                    return Err(wrong());
                }
                for (n, part) in all.iter().enumerate() {
                    let rows =
                        to.chunks_exact_mut(self.to_row.max(1)).zip(part.bytes().chunks_exact(self.from_row.max(1)));
                    for (to, from) in rows {
                        let from = &from[index * to.len()..(index + 1) * to.len()];
                        if n == 0 { to.copy_from_slice(from) } else { combine(to, from) }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Kernel for Collective {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(Footprint { reads: vec![self.from_bytes], writes: vec![Written::Whole(self.to_bytes)] })
    }

    fn is_deep(&self) -> bool {
        // It waits for other processes.
        true
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: the slots hold the operand and have room for the result, which do not overlap.
        let (from, to) = unsafe {
            (
                std::slice::from_raw_parts(inputs[0], self.from_bytes),
                std::slice::from_raw_parts_mut(outputs[0], self.to_bytes),
            )
        };
        self.exchange(run, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_combined_by_their_type() {
        let check = |dtype, fold, a: &[u8], b: &[u8], expected: &[u8]| {
            let mut to = a.to_vec();
            folded(dtype, fold).unwrap()(&mut to, b);
            assert_eq!(to, expected, "{dtype} {fold:?}");
        };
        let (one, two, three) = (1f32.to_le_bytes(), 2f32.to_le_bytes(), 3f32.to_le_bytes());
        check(DType::F32, Fold::Sum, &one, &two, &three);
        check(DType::F32, Fold::Max, &f32::NAN.to_le_bytes(), &two, &f32::NAN.to_le_bytes());
        check(DType::F32, Fold::Max, &two, &one, &two);
        // 256 + 1 is halfway between two bf16 numbers, 256 + 3 is too.
        let bf16 = |x: f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
        check(DType::BF16, Fold::Sum, &bf16(256.0), &bf16(1.0), &bf16(256.0));
        check(DType::BF16, Fold::Sum, &bf16(256.0), &bf16(3.0), &bf16(260.0));
        check(DType::U8, Fold::Sum, &[250], &[10], &[4]);
        check(DType::I8, Fold::Min, &[0xff], &[1], &[0xff]);
        assert!(folded(DType::F8E5M2, Fold::Sum).is_none() && folded(DType::F32, Fold::Xor).is_none());
    }
}
