//! Ops that are steps of their own: one file for each family, and the interpreter for the rest.

pub(crate) mod attention;
mod blocks;
mod collective;
pub(crate) mod contraction;
pub(crate) mod control;
mod convolution;
pub(crate) mod copy;
pub(crate) mod fallback;
mod fourier;
pub(crate) mod grouped;
pub(crate) mod indexing;
mod manual;
pub(crate) mod movement;
pub(crate) mod packing;
mod paged;
mod partitions;
mod random;
mod routine;
mod sorting;
mod windows;

use hlo::{OpId, OpKind};

pub(crate) use paged::PAGED_ATTENTION;

use super::block::Lowering;
use crate::error::Error;
use crate::program::Slot;

/// Makes steps of one op. An op that has no kernel for its types or attributes runs in the interpreter.
pub(crate) fn lower(lowering: &mut Lowering<'_>, id: OpId) -> Result<(), Error> {
    use OpKind as K;
    let op = lowering.func.op(id);
    let done = match op.kind() {
        Some(K::Reduce) if lowering.grouped.ends_at(id).is_some() => match lowering.grouped.ends_at(id) {
            Some(dot) => grouped::lower(lowering, op, dot),
            None => Ok(None),
        },
        Some(K::While) => control::repeat(lowering, op).map(Some),
        Some(K::If | K::Case) => control::choose(lowering, op).map(Some),
        Some(K::SdyManualComputation) if lowering.partitions.is_some() => partitions::computation(lowering, op),
        Some(K::SdyManualComputation) => manual::computation(lowering, op),
        Some(K::AllReduce | K::AllGather | K::ReduceScatter) => collective::lower(lowering, id),
        Some(K::CreateToken | K::AfterAll) => lowering.result_slot(op.first_result).map(|_| Some(())),
        Some(K::DotGeneral | K::Dot) => contraction::dot(lowering, id),
        Some(K::Composite) if blocks::is_known(op) => blocks::lower(lowering, op),
        Some(K::Composite) => paged::attention(lowering, op),
        Some(K::Convolution) => convolution::convolution(lowering, op),
        Some(K::Concatenate) => movement::concatenate(lowering, op),
        Some(K::Pad) => movement::pad(lowering, op),
        Some(K::DynamicSlice) => movement::dynamic_slice(lowering, op),
        Some(K::DynamicUpdateSlice) => movement::dynamic_update_slice(lowering, op),
        Some(K::Gather) => indexing::gather(lowering, op),
        Some(K::Scatter) => indexing::scatter(lowering, op),
        Some(K::Sort) => sorting::sort(lowering, op),
        Some(K::ChloTopK) => sorting::top_k(lowering, op),
        Some(K::Reduce) => sorting::reduce(lowering, op),
        Some(K::ReduceWindow) => windows::reduce_window(lowering, op),
        Some(K::SelectAndScatter) => windows::select_and_scatter(lowering, op),
        Some(K::RngBitGenerator) => random::bits(lowering, op),
        Some(K::Fft) => fourier::fft(lowering, op),
        _ => Ok(None),
    }?;
    match done {
        Some(()) => Ok(()),
        None => fallback::lower(lowering, id),
    }
}

/// Slots that hold the operands of an op, dense.
fn dense_operands(lowering: &mut Lowering<'_>, op: &hlo::Op) -> Result<Vec<Slot>, Error> {
    op.operands.iter().map(|&value| lowering.dense_value(value)).collect()
}
