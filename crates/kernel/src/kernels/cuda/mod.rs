//! What our composites become on NVIDIA GPUs: calls of cuDNN, kernels of our own, or plain ops that XLA's GPU compiler runs faster than
//! what models wrote.

mod attention;
mod cross_entropy;
mod logits;
mod paged;
mod triton;

use crate::composites;
use crate::kernels::MakeFunction;

/// What takes the place of a composite; `None` where its decomposition is what should be compiled.
pub(crate) fn by_name(name: &str) -> Option<MakeFunction> {
    Some(match name {
        composites::FLASH => attention::forward,
        composites::FLASH_BACKWARD => attention::backward,
        composites::PAGED_ATTENTION => paged::attention,
        composites::CROSS_ENTROPY => cross_entropy::forward,
        composites::CROSS_ENTROPY_BACKWARD => cross_entropy::backward,
        _ => return None,
    })
}
