//! Forms of a matmul with a quantized weight, and which is chosen.

use trace::CompileTarget;

use crate::quant::{ActivationQuant, QuantScheme, kernel};

/// How a matmul with a quantized weight is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatmulForm {
    /// The dot of the codes, then the scale of each channel: no weight is ever written in another type.
    ScaleAfterDot,
    /// A dot for each group, summed with the groups' scales. Compilers write it as one fusion; it costs a result for each group.
    PartialSums,
    /// The same as one op, which TPUs get as a kernel.
    Kernel,
    /// The weight is dequantized first. Compilers write it out, which pays for many rows only.
    Dequantize,
}

/// Rows above which dequantizing costs less than partial sums: level near 128 on v5e and v6e, as compiled by libtpu 0.0.51.
const MOST_ROWS_OF_PARTIAL_SUMS: usize = 96;

/// Smallest group for which partial sums pay: results of `rows` numbers are summed for each group. On the CPU device they never leave
/// a core.
fn smallest_group_of_partial_sums() -> usize {
    match trace::current_target() {
        CompileTarget::Cpu => 16,
        CompileTarget::Any | CompileTarget::Cuda => 32,
    }
}

impl MatmulForm {
    /// The form for so many rows of activations and groups of a channel.
    pub fn of(scheme: &QuantScheme, rows: usize, groups: usize) -> MatmulForm {
        match (groups, scheme.group) {
            (0 | 1, _) => MatmulForm::ScaleAfterDot,
            // Codes of activations have no weight to be dequantized with.
            _ if scheme.activations != ActivationQuant::None => MatmulForm::PartialSums,
            (_, Some(group)) if group < smallest_group_of_partial_sums() => MatmulForm::Dequantize,
            _ if rows <= MOST_ROWS_OF_PARTIAL_SUMS && kernel::takes(scheme) => MatmulForm::Kernel,
            _ if rows <= MOST_ROWS_OF_PARTIAL_SUMS => MatmulForm::PartialSums,
            _ => MatmulForm::Dequantize,
        }
    }

    /// Its name, as `explain` shows it.
    pub const fn name(self) -> &'static str {
        match self {
            MatmulForm::ScaleAfterDot => "scale after dot",
            MatmulForm::PartialSums => "partial sums by group",
            MatmulForm::Kernel => "kernel by group",
            MatmulForm::Dequantize => "dequantize, then dot",
        }
    }
}
