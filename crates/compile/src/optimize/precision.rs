//! In which types a model computes.

/// In which type a model computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Parameters and arithmetic in bfloat16, with islands in f32 where sums would lose too much.
    Bf16,
    /// Everything as the program has it.
    F32,
    /// Parameters in f32, arithmetic in bfloat16.
    Mixed,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Precision; 3] = [Precision::Bf16, Precision::F32, Precision::Mixed];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::F32 => "f32",
            Precision::Mixed => "mixed",
        }
    }
}
