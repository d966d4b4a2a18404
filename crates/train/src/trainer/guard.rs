//! Measures of steps under way: read late so that the device is not waited for, and checked before anything is kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

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

/// Steps under way at the same time. Two keep the device busy while the host prepares; a stop waits for all of them.
pub(super) const MAX_IN_FLIGHT: usize = 2;

/// Measures of a step, on the host.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) step: u64,
    pub(super) values: BTreeMap<String, f64>,
}

/// Steps that were dispatched and not yet looked at. The measures of every step are read, so that no state is kept that
/// one of them has spoiled.
#[derive(Default)]
pub(super) struct InFlight {
    steps: VecDeque<(u64, Measures)>,
    /// The first step whose measures are not finite.
    spoiled: Option<Looked>,
    last_end: Option<Instant>,
    step_seconds: Option<f64>,
}

impl InFlight {
    /// A step that was dispatched.
    pub(super) fn push(&mut self, step: u64, measures: Measures) {
        self.steps.push_back((step, measures));
    }

    /// Whether a step must end before one more may be dispatched.
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= MAX_IN_FLIGHT
    }

    /// The first step whose measures are not finite, of those looked at.
    pub(super) fn spoiled(&self) -> Option<&Looked> {
        self.spoiled.as_ref()
    }

    /// Seconds of the second step, once it has ended: the first one may wait for what is made at first use.
    pub(super) fn step_seconds(&self) -> Option<f64> {
        self.step_seconds
    }

    /// Waits for the oldest step; `None` if there is none.
    pub(super) fn look(&mut self) -> Result<Option<Looked>, Error> {
        let Some((step, measures)) = self.steps.pop_front() else { return Ok(None) };
        let looked = Looked { step, values: read(&measures)? };
        let now = Instant::now();
        if let Some(last_end) = self.last_end.replace(now) {
            self.step_seconds.get_or_insert((now - last_end).as_secs_f64());
        }
        if !is_finite(&looked.values) && self.spoiled.is_none() {
            self.spoiled = Some(looked.clone());
        }
        Ok(Some(looked))
    }
}
