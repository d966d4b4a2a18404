//! Measures of steps under way: read late so that the device is not waited for, and checked before anything is kept.

use std::collections::BTreeMap;

use runtime::TreeArrays;

use super::Measures;
use crate::error::Error;

/// The scalars of a step, on the host.
pub(super) fn read(measures: &Measures) -> Result<BTreeMap<String, f64>, Error> {
    let scalars = measures.to_literals()?.into_iter().filter_map(|(name, literal)| {
        let dtype = literal.dtype();
        let mut bits = [0; 8];
        let bytes = literal.bytes();
        bits.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let value = match dtype.is_float() {
            true => tensor::decode_float(dtype, u64::from_le_bytes(bits))?,
            false => i64::from_le_bytes(bits) as f64,
        };
        Some((name, value))
    });
    Ok(scalars.collect())
}

/// Whether every scalar is a number.
pub(super) fn is_finite(values: &BTreeMap<String, f64>) -> bool {
    values.values().all(|value| value.is_finite())
}
