//! Lists of dimension numbers: in range, unique, sorted.

use super::{Checked, require};

/// Every number is in `[0, rank)`.
pub(crate) fn in_range(clause: &'static str, name: &str, numbers: &[i64], rank: usize) -> Checked {
    for &number in numbers {
        require!(
            usize::try_from(number).is_ok_and(|n| n < rank),
            clause,
            "{name} holds {number}, which is not in [0, {rank})"
        );
    }
    Ok(())
}

/// One number is in `[0, rank)`; returns it as an index.
pub(crate) fn index(
    clause: &'static str,
    name: &str,
    number: i64,
    rank: usize,
) -> Result<usize, crate::ops::def::Violation> {
    match usize::try_from(number) {
        Ok(n) if n < rank => Ok(n),
        _ => Err(crate::ops::def::Violation::new(clause, format!("{name} is {number}, which is not in [0, {rank})"))),
    }
}

/// No number appears twice.
pub(crate) fn unique(clause: &'static str, name: &str, numbers: impl IntoIterator<Item = i64>) -> Checked {
    let mut seen = std::collections::HashSet::new();
    for number in numbers {
        require!(seen.insert(number), clause, "{number} appears twice in {name}");
    }
    Ok(())
}

/// Numbers do not decrease.
pub(crate) fn sorted(clause: &'static str, name: &str, numbers: &[i64]) -> Checked {
    require!(numbers.is_sorted(), clause, "{name} {numbers:?} is not sorted");
    Ok(())
}

/// A list has the expected length.
pub(crate) fn count(clause: &'static str, name: &str, have: usize, want: usize) -> Checked {
    require!(have == want, clause, "{name} has {have} elements, {want} expected");
    Ok(())
}
