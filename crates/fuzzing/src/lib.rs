//! Tests only: programs made at random or by mutation, and what judges a run of them.
//!
//! `bounded` and `broad` make valid programs, `mutate` makes hostile ones of them and of written ones, `oracle` compiles and
//! runs each on the CPU device and compares. The tests of this crate, the command `fuzz-programs` and the targets in `fuzz/`
//! all come here.
//!
//! ```
//! let bench = fuzzing::Bench::new();
//! let subject = fuzzing::bounded(fuzzing::Numbers::new(7));
//! assert!(matches!(bench.judge(&subject), fuzzing::FuzzVerdict::Agreed(_)));
//! ```

mod agreement;
mod bounded;
mod broad;
mod campaign;
mod mutate;
mod numbers;
mod oracle;
mod seeds;
pub mod targets;

pub use bounded::generate as bounded;
pub use broad::generate as broad;
pub use campaign::{Campaign, Tally};
pub use mutate::mutate;
pub use numbers::Numbers;
pub use oracle::{Agreed, Allowed, Bench, FuzzVerdict, Subject};
pub use seeds::read as read_seeds;
