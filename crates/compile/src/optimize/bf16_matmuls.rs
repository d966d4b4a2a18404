//! Matmuls in bf16: dots and convolutions of f32 take bf16 operands and still sum in f32.
//!
//! Everything else keeps its type, so softmax, norms, reductions and losses stay in f32. So does a matmul whose author
//! asked for more: a precision above the default, or an algorithm.

use hlo::{Attr, Func, Keyword, Op, OpKind, Verified};
use tensor::DType;

use super::edit::{Narrower, array_of, is_narrow_already, visit_ops};
use super::optimizer::Context;
use super::step::RewriteStep;
use crate::error::CompileError;

const NAME: &str = "bf16_matmuls";

pub(super) fn run(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    let Some(min_reuse) = context.target.bf16_min_reuse else {
        return Ok((module, RewriteStep::new(NAME, 0, "the device is not faster in bf16")));
    };
    let mut module = module.into_inner();
    let (mut changed, mut asked_for_more, mut too_small, mut convolutions) = (0, 0, 0, 0);
    for func in &mut module.funcs {
        // Ids in program order: regions are visited outer before inner.
        func.renumber();
        let mut narrower = Narrower::of(func);
        visit_ops(func, |func, region, id| {
            let op = func.op(id);
            if !is_f32_matmul(func, op) {
                return;
            }
            if !has_default_precision(op) {
                asked_for_more += 1;
                return;
            }
            if op.kind() == Some(OpKind::Convolution) && !context.target.gains_from_bf16_convolutions {
                convolutions += 1;
                return;
            }
            if reuse(func, op) < min_reuse {
                too_small += 1;
                return;
            }
            let operands = op.operands.clone();
            let operands = operands.into_iter().map(|value| narrower.narrow(func, region, id, value)).collect();
            func.op_mut(id).operands = operands;
            changed += 1;
        });
    }
    let mut detail = format!("{changed} matmuls take bf16 and accumulate in f32");
    let left = [
        (asked_for_more, "ask for more precision"),
        (too_small, "are too small to gain"),
        (convolutions, "are convolutions, which do not gain here"),
    ];
    for (count, why) in left {
        if count > 0 {
            detail += &format!("; {count} {why}");
        }
    }
    Ok((hlo::verify(module)?, RewriteStep::new(NAME, changed, detail)))
}

/// Whether an op is a matmul of f32 with a sum in f32.
fn is_f32_matmul(func: &Func, op: &Op) -> bool {
    matches!(op.kind(), Some(OpKind::DotGeneral | OpKind::Convolution))
        && op.operands.iter().copied().chain(op.results()).all(|value| array_of(func, value, DType::F32).is_some())
}

fn has_default_precision(op: &Op) -> bool {
    let is_default = match op.attr("precision_config") {
        Some(Attr::Array(words)) => words.iter().all(|word| *word == Attr::Keyword(Keyword::PrecisionDefault)),
        _ => true,
    };
    is_default && op.attr("algorithm").is_none()
}

/// How often each element that must be converted enters a matmul.
fn reuse(func: &Func, op: &Op) -> f64 {
    let multiplications = hlo::cost::op_flops(func, op) / 2.0;
    let wide = op.operands.iter().filter(|&&value| !is_narrow_already(func, value));
    let converted: u64 = wide.filter_map(|&value| func.ty(value).as_tensor()?.num_elements()).sum();
    multiplications / converted.max(1) as f64
}
