//! Memory of one device: what is in use, the limit, and who holds most when it is reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_sys::PJRT_Error_Code_RESOURCE_EXHAUSTED;

use super::call::Failure;

/// Buffers named when memory runs out.
const NAMED: usize = 5;

/// What is known about a device's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) bytes_in_use: u64,
    pub(crate) peak_bytes_in_use: u64,
    pub(crate) num_allocs: u64,
    pub(crate) largest_alloc_bytes: u64,
    live: BTreeMap<u64, (u64, Arc<str>)>,
}

/// Accounts for the memory of one device.
#[derive(Debug)]
pub(crate) struct Ledger {
    device: usize,
    limit_bytes: Option<u64>,
    statistics: Mutex<Statistics>,
}

impl Ledger {
    pub(crate) fn new(device: usize, limit_bytes: Option<u64>) -> Arc<Ledger> {
        Arc::new(Ledger { device, limit_bytes, statistics: Mutex::default() })
    }

    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    pub(crate) fn statistics(&self) -> MutexGuard<'_, Statistics> {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the peak.
    pub(crate) fn clear(&self) {
        let mut statistics = self.statistics();
        statistics.peak_bytes_in_use = statistics.bytes_in_use;
        statistics.largest_alloc_bytes = 0;
        statistics.num_allocs = 0;
    }

    /// Takes memory for a buffer. `credit_bytes` are in use but given back by the same step.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        bytes: u64,
        credit_bytes: u64,
        label: Arc<str>,
    ) -> Result<Reservation, Failure> {
        let mut statistics = self.statistics();
        let needed = statistics.bytes_in_use.saturating_sub(credit_bytes).saturating_add(bytes);
        if self.limit_bytes.is_some_and(|limit| needed > limit) {
            return Err(self.exhausted(&statistics, bytes, &label));
        }
        statistics.num_allocs += 1;
        statistics.bytes_in_use += bytes;
        statistics.peak_bytes_in_use = statistics.peak_bytes_in_use.max(needed);
        statistics.largest_alloc_bytes = statistics.largest_alloc_bytes.max(bytes);
        let id = statistics.num_allocs.max(statistics.live.last_key_value().map_or(0, |(id, _)| id + 1));
        statistics.live.insert(id, (bytes, label));
        Ok(Reservation { ledger: self.clone(), id })
    }

    fn exhausted(&self, statistics: &Statistics, bytes: u64, label: &str) -> Failure {
        let mut live: Vec<&(u64, Arc<str>)> = statistics.live.values().collect();
        live.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let named: Vec<String> =
            live.iter().take(NAMED).map(|(bytes, label)| format!("{label} ({bytes} bytes)")).collect();
        let named = if named.is_empty() { "none".to_string() } else { named.join(", ") };
        Failure::new(
            PJRT_Error_Code_RESOURCE_EXHAUSTED,
            format!(
                "out of memory on device {}: {label} needs {bytes} bytes, {} of {} bytes are in use; largest buffers: {named}",
                self.device,
                statistics.bytes_in_use,
                self.limit_bytes.unwrap_or(u64::MAX),
            ),
        )
    }
}

/// Memory that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    id: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut statistics = self.ledger.statistics();
        if let Some((bytes, _)) = statistics.live.remove(&self.id) {
            statistics.bytes_in_use -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_largest_buffers() {
        let ledger = Ledger::new(0, Some(100));
        let small = ledger.reserve(10, 0, "f32[2]".into()).unwrap();
        let _large = ledger.reserve(80, 0, "f32[20]".into()).unwrap();
        let failure = ledger.reserve(20, 0, "f32[5]".into()).unwrap_err();
        assert_eq!(failure.code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
        assert!(
            failure.message.contains("largest buffers: f32[20] (80 bytes), f32[2] (10 bytes)"),
            "{}",
            failure.message
        );
        drop(small);
        let _fits = ledger.reserve(20, 0, "f32[5]".into()).unwrap();
        assert_eq!(ledger.statistics().bytes_in_use, 100);
    }
}
