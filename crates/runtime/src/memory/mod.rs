//! Device memory: who holds how much, within a budget, so that the device is never asked for more than it has.
//!
//! Every array of a backend holds a [`MemoryReservation`] of an [`Owner`]. A request past the budget is refused before the device
//! sees it, with the largest owners named.

mod budget;
mod history;

pub use budget::{MemoryManager, MemoryReservation, MemoryUse, Owner, OwnerUse};
pub use history::MemoryEvent;

use std::fmt;

use tensor::Spec;

/// What is wrong with a request for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// The budget does not allow it.
    OutOfMemory(OutOfBudget),
    /// A pool was used wrongly, or is empty.
    Pool(String),
    /// An array was used after a program took its memory.
    Taken(Spec),
}

/// A request past the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfBudget {
    /// For whom.
    pub owner: String,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that may be used.
    pub limit_bytes: u64,
    /// Who holds the most, largest first.
    pub largest: Vec<OwnerUse>,
}

impl MemoryError {
    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            MemoryError::OutOfMemory(_) => {
                "use a smaller batch, drop or donate arrays earlier, raise `memory_fraction`, or use a larger device"
                    .into()
            }
            MemoryError::Pool(_) => "give buffers back to the pool they came from, or make a larger pool".into(),
            MemoryError::Taken(_) => "use the program's result, or give the array with `Input::Keep`".into(),
        }
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::OutOfMemory(error) => error.fmt(f),
            MemoryError::Pool(message) => f.write_str(message),
            MemoryError::Taken(spec) => write!(f, "an array {spec} was used after a program took its memory"),
        }
    }
}

impl fmt::Display for OutOfBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} asked for {} bytes of device memory; {} of {} are in use",
            self.owner, self.requested_bytes, self.used_bytes, self.limit_bytes
        )?;
        self.largest.iter().try_for_each(|owner| {
            write!(f, "\n  {}: {} bytes in {} arrays", owner.name, owner.bytes, owner.allocations)
        })
    }
}

impl std::error::Error for MemoryError {}
