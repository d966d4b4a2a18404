//! In which types a model computes.

/// In which type a model computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputePrecision {
    /// Parameters and arithmetic in bfloat16, with islands in f32 where sums would lose too much.
    Bf16,
    /// Everything as the program has it.
    F32,
    /// Parameters in f32, arithmetic in bfloat16.
    Mixed,
}

impl ComputePrecision {
    /// Every precision.
    pub const ALL: [ComputePrecision; 3] = [ComputePrecision::Bf16, ComputePrecision::F32, ComputePrecision::Mixed];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            ComputePrecision::Bf16 => "bf16",
            ComputePrecision::F32 => "f32",
            ComputePrecision::Mixed => "mixed",
        }
    }
}
