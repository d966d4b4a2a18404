//! Composites of matrices in blocks, as llama.cpp's files have them.
#![allow(unsafe_code)]

use hlo::{Attr, Op};
use tensor::{BlockFormat, DType};

use super::dense_operands;
use super::routine::Routine;
use crate::error::Error;
use crate::kernels::matmul::{BlockDecode, BlockMatMul};
use crate::lower::block::Lowering;

fn name(op: &Op) -> &str {
    op.attr("name").and_then(Attr::as_str).unwrap_or_default()
}

/// Whether a composite is one of these by its name.
pub(crate) fn is_known(op: &Op) -> bool {
    [BlockFormat::MATMUL, BlockFormat::DECODE].contains(&name(op))
}

pub(crate) fn lower(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let format = match op.attr("composite_attributes") {
        Some(Attr::Dict(attrs)) => attrs.get(BlockFormat::ATTRIBUTE).and_then(Attr::as_str),
        _ => None,
    };
    let Some(format) = format.and_then(BlockFormat::from_name) else { return Ok(None) };
    let [operands, results] = [op.operands.clone(), op.results().collect()]
        .map(|values| values.into_iter().map(|value| lowering.array_type(value)).collect::<Result<Vec<_>, Error>>());
    let (operands, results) = (operands?, results?);
    match (name(op), operands.as_slice(), results.as_slice()) {
        (BlockFormat::MATMUL, [(dtype, x), (DType::U8, blocks)], [(DType::F32, out)]) => {
            let (&[m, k], &[n, bytes]) = (x.as_slice(), blocks.as_slice()) else { return Ok(None) };
            if out[..] != [m, n] || format.row_bytes(k) != Some(bytes) {
                return Ok(None);
            }
            let Some(plan) = BlockMatMul::new(format, [m, n, k], *dtype, lowering.machine) else { return Ok(None) };
            let inputs = dense_operands(lowering, op)?;
            let result = lowering.result_slot(op.first_result)?;
            let call = Routine::new("matmul of blocks", plan.footprint(), move |reads, writes, cores| {
                // SAFETY: operands and result have the shapes of the plan.
                unsafe { plan.run(reads[0], reads[1], writes[0].cast(), cores) }
            });
            lowering.step(inputs, vec![result], call);
        }
        (BlockFormat::DECODE, [(DType::U8, blocks)], [(dtype, out)]) => {
            let (&[n, bytes], &[rows, k]) = (blocks.as_slice(), out.as_slice()) else { return Ok(None) };
            if rows != n || format.row_bytes(k) != Some(bytes) {
                return Ok(None);
            }
            let Some(plan) = BlockDecode::new(format, n, k, *dtype, lowering.machine) else { return Ok(None) };
            let inputs = dense_operands(lowering, op)?;
            let result = lowering.result_slot(op.first_result)?;
            let call = Routine::new("decode blocks", plan.footprint(), move |reads, writes, cores| {
                // SAFETY: as above.
                unsafe { plan.run(reads[0], writes[0], cores) }
            });
            lowering.step(inputs, vec![result], call);
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}
