//! Sizes of padded dimensions.

use crate::ir::DYNAMIC;

/// `size + low + max(size - 1, 0) * interior + high`; unknown when `size` is, `None` when it is negative or overflows.
pub(crate) fn padded(size: i64, low: i64, high: i64, interior: i64) -> Option<i64> {
    if size == DYNAMIC {
        return Some(DYNAMIC);
    }
    let holes = size.saturating_sub(1).max(0).checked_mul(interior)?;
    size.checked_add(holes)?.checked_add(low)?.checked_add(high).filter(|&padded| padded >= 0)
}
