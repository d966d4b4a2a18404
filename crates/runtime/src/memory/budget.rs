//! The budget: what is in use, by whom, and how much there may be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::history::{History, MemoryEvent};
use super::{MemoryError, OutOfBudget};

/// Owners named in an out-of-memory error.
const NAMED_OWNERS: usize = 8;

/// Keeps the books of one device's memory. Clones are the same books.
#[derive(Clone, Debug)]
pub struct MemoryManager {
    books: Arc<Books>,
}

#[derive(Debug)]
struct Books {
    /// Bytes that may be used; `None` where nobody knows.
    limit_bytes: Option<u64>,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    owners: Mutex<HashMap<Arc<str>, Arc<OwnerBooks>>>,
    history: History,
}

#[derive(Debug)]
struct OwnerBooks {
    name: Arc<str>,
    bytes: AtomicU64,
    allocations: AtomicU64,
}

/// Somebody who holds memory: a model, a pool, the inputs of a program.
#[derive(Clone, Debug)]
pub struct Owner {
    books: Arc<OwnerBooks>,
}

impl Owner {
    /// The name.
    pub fn name(&self) -> &str {
        &self.books.name
    }
}

/// What one owner holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerUse {
    /// The owner.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Arrays.
    pub allocations: u64,
}

/// What is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Bytes held by arrays.
    pub used_bytes: u64,
    /// The most that was held at a time.
    pub peak_bytes: u64,
    /// Bytes that may be held.
    pub limit_bytes: Option<u64>,
    /// By owner, largest first.
    pub owners: Vec<OwnerUse>,
}

/// Memory somebody holds; given back when dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    manager: Arc<Books>,
    owner: Arc<OwnerBooks>,
    /// 0 once it was given back.
    bytes: AtomicU64,
}

impl MemoryReservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Gives the memory back before the end.
    pub(crate) fn release(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        let before = self.manager.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.manager.history.add(&self.owner.name, -(bytes as i64), before - bytes);
        self.owner.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.owner.allocations.fetch_sub(1, Ordering::Relaxed);
    }

    /// Who holds them.
    pub fn owner(&self) -> &str {
        &self.owner.name
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.release();
    }
}

impl MemoryManager {
    /// Books with a limit, or without one, and how long they remember what happened.
    pub fn new(limit_bytes: Option<u64>, retention: Duration) -> MemoryManager {
        let books = Books {
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            owners: Mutex::default(),
            history: History::new(retention),
        };
        MemoryManager { books: Arc::new(books) }
    }

    /// Bytes that may be used.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.books.limit_bytes
    }

    /// The owner of a name.
    pub fn owner(&self, name: &str) -> Owner {
        let mut owners = self.books.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(books) = owners.get(name) {
            return Owner { books: Arc::clone(books) };
        }
        // Owners that hold nothing and that nobody can use any more would pile up otherwise.
        owners.retain(|_, owner| Arc::strong_count(owner) > 1 || owner.bytes.load(Ordering::Relaxed) > 0);
        let name: Arc<str> = name.into();
        let books = OwnerBooks { name: Arc::clone(&name), bytes: AtomicU64::new(0), allocations: AtomicU64::new(0) };
        let books = Arc::new(books);
        owners.insert(name, Arc::clone(&books));
        Owner { books }
    }

    /// Takes memory for an owner, or says who holds it.
    pub fn reserve(&self, owner: &Owner, bytes: u64) -> Result<MemoryReservation, MemoryError> {
        let limit = self.books.limit_bytes.unwrap_or(u64::MAX);
        self.reserve_within(owner, bytes, limit)
    }

    /// Takes memory for several arrays of an owner, or for none. The caller gives back `given_bytes` at once when it has
    /// them, so that much more than the limit may be held for a moment.
    pub(crate) fn reserve_all(
        &self,
        owner: &Owner,
        sizes: &[u64],
        given_bytes: u64,
    ) -> Result<Vec<MemoryReservation>, MemoryError> {
        let limit = self.books.limit_bytes.unwrap_or(u64::MAX).saturating_add(given_bytes);
        sizes.iter().map(|bytes| self.reserve_within(owner, *bytes, limit)).collect()
    }

    fn reserve_within(&self, owner: &Owner, bytes: u64, limit: u64) -> Result<MemoryReservation, MemoryError> {
        let take = |used: u64| used.checked_add(bytes).filter(|total| *total <= limit);
        let before = self.books.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let before = before.map_err(|used_bytes| self.refusal(owner, bytes, used_bytes))?;
        self.books
            .peak_bytes
            .fetch_max((before + bytes).min(self.limit_bytes().unwrap_or(u64::MAX)), Ordering::Relaxed);
        self.books.history.add(&owner.books.name, bytes as i64, before + bytes);
        owner.books.bytes.fetch_add(bytes, Ordering::Relaxed);
        owner.books.allocations.fetch_add(1, Ordering::Relaxed);
        let (manager, owner) = (Arc::clone(&self.books), Arc::clone(&owner.books));
        Ok(MemoryReservation { manager, owner, bytes: AtomicU64::new(bytes) })
    }

    /// Bytes in use now.
    pub fn used_bytes(&self) -> u64 {
        self.books.used_bytes.load(Ordering::Relaxed)
    }

    /// What was taken and given back, oldest first, as far back as is remembered.
    pub fn history(&self) -> Vec<MemoryEvent> {
        self.books.history.read()
    }

    /// What is in use now.
    pub fn in_use(&self) -> MemoryUse {
        let owners = self.books.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut owners: Vec<OwnerUse> = owners
            .values()
            .map(|owner| OwnerUse {
                name: owner.name.to_string(),
                bytes: owner.bytes.load(Ordering::Relaxed),
                allocations: owner.allocations.load(Ordering::Relaxed),
            })
            .filter(|owner| owner.allocations > 0)
            .collect();
        owners.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        MemoryUse {
            used_bytes: self.books.used_bytes.load(Ordering::Relaxed),
            peak_bytes: self.books.peak_bytes.load(Ordering::Relaxed),
            limit_bytes: self.books.limit_bytes,
            owners,
        }
    }

    fn refusal(&self, owner: &Owner, requested_bytes: u64, used_bytes: u64) -> MemoryError {
        let mut largest = self.in_use().owners;
        largest.truncate(NAMED_OWNERS);
        MemoryError::OutOfMemory(OutOfBudget {
            owner: owner.name().to_string(),
            requested_bytes,
            used_bytes,
            limit_bytes: self.books.limit_bytes.unwrap_or(u64::MAX),
            largest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_past_the_budget_names_the_largest_owners() {
        let memory = MemoryManager::new(Some(100), Duration::from_secs(60));
        let (model, inputs) = (memory.owner("model"), memory.owner("inputs"));
        let kept = memory.reserve(&model, 60).unwrap();
        let _also = memory.reserve(&inputs, 30).unwrap();
        let Err(MemoryError::OutOfMemory(error)) = memory.reserve(&inputs, 11) else { panic!("past the budget") };
        assert_eq!((error.used_bytes, error.limit_bytes), (90, 100));
        let names: Vec<&str> = error.largest.iter().map(|owner| owner.name.as_str()).collect();
        assert_eq!(names, ["model", "inputs"]);
        drop(kept);
        assert!(memory.reserve(&inputs, 70).is_ok());
        assert_eq!(memory.in_use().peak_bytes, 100);
        assert!(memory.reserve(&inputs, u64::MAX).is_err());
        let events: Vec<(i64, u64)> = memory.history().iter().map(|event| (event.bytes, event.used_bytes)).collect();
        assert_eq!(events, [(60, 60), (30, 90), (-60, 30), (70, 100), (-70, 30)]);
    }

    #[test]
    fn owners_that_hold_nothing_are_forgotten() {
        let memory = MemoryManager::new(None, Duration::from_secs(60));
        for n in 0..1000 {
            memory.owner(&format!("owner {n}"));
        }
        assert!(memory.books.owners.lock().unwrap().len() <= 2);
    }
}
