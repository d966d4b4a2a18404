//! Ops without a kernel: the reference interpreter runs this one op on copies of its operands.
#![allow(unsafe_code)]

use std::sync::Arc;

use hlo::{OpId, TensorType, Type};

use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::interpret::{self, InterpreterValue, TensorValue, decode, encode, storage};
use crate::kernels::machine::KeepDenormals;
use crate::lower::block::{Lowering, captures};
use crate::memory::byte_count;
use crate::program::{Kernel, Run};

/// One op, interpreted.
struct Interpreted {
    func: Arc<str>,
    op: OpId,
    name: String,
    /// Operands and captured values, with the types they have here.
    inputs: Vec<(hlo::Value, Type, usize)>,
    /// Bytes of each result.
    outputs: Vec<usize>,
}

pub(crate) fn lower(lowering: &mut Lowering<'_>, id: OpId) -> Result<(), Error> {
    let func = lowering.func;
    let op = func.op(id);
    let too_large = || Error::Exhausted(format!("an array of {} is too large", op.name.as_str()));
    let mut values = op.operands.clone();
    values.extend(captures(func, op));
    values.sort_unstable();
    values.dedup();
    let (mut inputs, mut slots) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    for value in values {
        let slot = lowering.dense_value(value)?;
        let (dtype, dims) = lowering.array_type(value)?;
        inputs.push((value, func.ty(value).clone(), byte_count(dtype, &dims).ok_or_else(too_large)?));
        slots.push(slot);
    }
    let (mut outputs, mut results) = (Vec::new(), Vec::new());
    for value in op.results() {
        let (dtype, dims) = lowering.array_type(value)?;
        outputs.push(byte_count(dtype, &dims).ok_or_else(too_large)?);
        results.push(lowering.result_slot(value)?);
    }
    let name = op.name.as_str().to_string();
    lowering.step(slots, results, Interpreted { func: func.name.clone(), op: id, name, inputs, outputs });
    Ok(())
}

/// A tensor of a static type from its bytes.
pub(crate) fn tensor(ty: &TensorType, bytes: &[u8]) -> TensorValue {
    TensorValue { ty: ty.clone(), elements: decode(storage(&ty.element), bytes) }
}

impl Kernel for Interpreted {
    fn name(&self) -> String {
        format!("interpret {}", self.name)
    }

    fn is_deep(&self) -> bool {
        true
    }

    fn footprint(&self) -> Option<Footprint> {
        let writes = self.outputs.iter().copied().map(Written::Whole).collect();
        Some(Footprint { reads: self.inputs.iter().map(|(_, _, bytes)| *bytes).collect(), writes })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let _keep = KeepDenormals::new();
        let mut values = Vec::with_capacity(self.inputs.len());
        for ((value, ty, bytes), &pointer) in self.inputs.iter().zip(inputs) {
            let operand = match ty {
                Type::Tensor(ty) => {
                    // SAFETY: the slot holds this many bytes of the operand.
                    let bytes = unsafe { std::slice::from_raw_parts(pointer, *bytes) };
                    InterpreterValue::Tensor(tensor(ty, bytes))
                }
                _ => InterpreterValue::Token,
            };
            values.push((*value, operand));
        }
        let (op, draws) = ((&*self.func, self.op), run.steps());
        let results = interpret::evaluate(run.module, op, values, run.options, run.process.clone(), draws)?;
        if results.len() != self.outputs.len() {
            let (got, want) = (results.len(), self.outputs.len());
            return Err(Error::Internal(format!("{} gave {got} results, not {want}", self.name)));
        }
        for ((result, &bytes), &pointer) in results.iter().zip(&self.outputs).zip(outputs) {
            let encoded = match result {
                InterpreterValue::Tensor(tensor) => encode(tensor.dtype(), &tensor.elements),
                _ => Vec::new(),
            };
            if encoded.len() != bytes {
                // Sizes that are operands need not be those of the type.
                let message = format!("its result has {} bytes, where its type has {bytes}", encoded.len());
                return Err(Error::Program { op: self.name.to_string(), message });
            }
            // SAFETY: the slot has room for the result, and the bytes come from memory of their own.
            unsafe { std::ptr::copy_nonoverlapping(encoded.as_ptr(), pointer, bytes) };
        }
        Ok(())
    }
}
