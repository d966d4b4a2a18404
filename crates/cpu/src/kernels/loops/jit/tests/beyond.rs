//! What is left to the other backend, by instruction set.

use tensor::DType;

use super::super::super::ir::{Binary, Fold, Inst, Lane, Loop, Unary};
use crate::kernels::machine::Machine;

/// Whether a loop has something that there is no machine code for.
pub(super) fn is_beyond(source: &Loop, machine: &Machine) -> bool {
    match machine {
        Machine { avx512: true, .. } | Machine { neon: true, .. } => false,
        Machine { avx2: true, .. } => is_beyond_avx2(source),
        _ => is_beyond_sse2(source),
    }
}

fn is_beyond_avx2(source: &Loop) -> bool {
    let lanes = source.lanes();
    source.insts.iter().any(|inst| match inst {
        Inst::Unary(Unary::LeadingZeros, _) => true,
        Inst::Binary(Binary::ShrA, a, _) => lanes[a.0 as usize] == Lane::I64,
        Inst::Convert { value, target, .. } => matches!(
            (lanes[value.0 as usize], Lane::of(*target)),
            (Lane::I64, Some(Lane::F32)) | (Lane::F32 | Lane::F64, Some(Lane::I64))
        ),
        _ => false,
    })
}

fn is_beyond_sse2(source: &Loop) -> bool {
    let lanes = source.lanes();
    let writes = source.writes.iter().map(|write| write.access.dtype);
    let mut types = source.reads.iter().map(|read| read.dtype).chain(writes);
    lanes.iter().any(|lane| matches!(lane, Lane::F64 | Lane::I64))
        || types.any(|dtype| dtype == DType::F16)
        || source.insts.iter().any(|inst| match inst {
            Inst::Fma(..) => true,
            Inst::Unary(unary, _) => {
                use Unary::*;
                matches!(unary, LeadingZeros | Sin | Cos | Tan | Cbrt)
            }
            Inst::Binary(binary, a, _) => {
                use Binary::*;
                let divides = matches!(binary, Div | DivU | Rem | RemU) && lanes[a.0 as usize] == Lane::I32;
                divides || matches!(binary, Pow | Atan2 | Shl | ShrL | ShrA)
            }
            Inst::Reduce(Fold::Xor, a) => lanes[a.0 as usize] == Lane::Mask,
            Inst::Convert { source, target, .. } => [source, target].contains(&&DType::F16),
            Inst::Round(dtype, _) => *dtype == DType::F16,
            _ => false,
        })
}
