//! Rewrites of programs before they are compiled, by level.

mod level;

pub use level::Level;
