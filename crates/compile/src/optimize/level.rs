//! How far programs are rewritten, and how far their results may move.

/// How far programs are rewritten before they are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Not at all.
    None,
    /// What cannot change results beyond the last bits.
    Conservative,
    /// Also lower precision where sums keep theirs.
    Balanced,
    /// Everything that pays.
    Aggressive,
}

impl Level {
    /// Every level, lowest first.
    pub const ALL: [Level; 4] = [Level::None, Level::Conservative, Level::Balanced, Level::Aggressive];

    /// The word for the level.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Conservative => "conservative",
            Level::Balanced => "balanced",
            Level::Aggressive => "aggressive",
        }
    }

    /// The largest deviation of results that the level may cause in a program of which nothing else is
    /// known. bf16 has 8 significant bits, so a rounded operand is off by up to 2^-9 = 0.002; the bounds of the upper
    /// levels leave room for a few layers of that.
    pub fn tolerance(self) -> f64 {
        match self {
            Level::None => 0.0,
            Level::Conservative => 1e-5,
            Level::Balanced => 0.03,
            Level::Aggressive => 0.06,
        }
    }

    /// The largest deviation that the level may cause in a result that moves by `sensitivity` when the f32 inputs move by half
    /// a unit of bf16. Whoever computes in bf16 cannot be closer than that: the gradient of a ReLU, for one, is all or nothing,
    /// and for sums near zero it hangs on the last bits of the inputs.
    pub fn tolerance_at(self, sensitivity: f64) -> f64 {
        match self {
            Level::None | Level::Conservative => self.tolerance(),
            Level::Balanced | Level::Aggressive => self.tolerance().max(SENSITIVITY_FACTOR * sensitivity),
        }
    }
}

/// A rewrite rounds in every layer, not only at the inputs. Of the exported models, with inputs up to 1 none needs more than 1.5;
/// one with inputs up to 3 needs 2.9.
const SENSITIVITY_FACTOR: f64 = 3.0;
