//! Fourier transforms.
#![allow(unsafe_code)]

use hlo::{Keyword, Op};

use super::dense_operands;
use super::routine::Routine;
use crate::attributes;
use crate::error::Error;
use crate::kernels::fourier::{Fourier, Transform};
use crate::lower::block::Lowering;

pub(crate) fn fft(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let kind = match attributes::keyword(op, "fft_type")? {
        Keyword::Fft => Transform::Fft,
        Keyword::Ifft => Transform::Ifft,
        Keyword::Rfft => Transform::Rfft,
        Keyword::Irfft => Transform::Irfft,
        _ => return Ok(None),
    };
    // On x86-64 transforms are for machines with AVX only; elsewhere the interpreter does them.
    if cfg!(target_arch = "x86_64") && !lowering.machine.avx2 {
        return Ok(None);
    }
    let lengths: Vec<usize> = attributes::ints(op, "fft_length")?.iter().map(|&n| n as usize).collect();
    let (dtype, dims) = lowering.array_type(op.operands[0])?;
    let Some(plan) = Fourier::new(kind, &dims, &lengths, dtype) else { return Ok(None) };
    let inputs = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    let call = Routine::new("fft", plan.footprint(), move |reads, writes, cores| {
        // SAFETY: operand and result have the shapes of the plan.
        unsafe { plan.run(reads[0], writes[0], cores) }
    });
    lowering.step(inputs, vec![result], call);
    Ok(Some(()))
}
