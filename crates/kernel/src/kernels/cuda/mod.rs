//! What our composites become on NVIDIA GPUs: calls of cuDNN, or plain ops that XLA's GPU compiler runs faster than what models wrote.

mod attention;
mod cross_entropy;

use hlo::Func;

use crate::composites;
use crate::error::Error;
use crate::kernels::Request;

/// A function of that name in place of a composite.
pub(crate) type MakeFunction = fn(&Request<'_>, &str) -> Result<Func, Error>;

/// What takes the place of a composite; `None` where its decomposition is what should be compiled.
pub(crate) fn by_name(name: &str) -> Option<MakeFunction> {
    Some(match name {
        composites::FLASH => attention::forward,
        composites::FLASH_BACKWARD => attention::backward,
        composites::CROSS_ENTROPY => cross_entropy::forward,
        composites::CROSS_ENTROPY_BACKWARD => cross_entropy::backward,
        _ => return None,
    })
}
