//! How far programs are rewritten.

use crate::config::Setting;

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
}

impl Setting for Level {
    fn read(text: &str) -> Result<Self, String> {
        let found = Level::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| Level::ALL.map(Level::name).join(", "))
    }

    fn show(&self) -> String {
        self.name().to_string()
    }
}
