//! Pools: equal arrays that are made once and handed out again and again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tensor::Spec;

use crate::backend::{Backend, DeviceArray};
use crate::error::Error;
use crate::memory::MemoryError;

/// Equal arrays on a device. Clones are the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spec: Spec,
    size: usize,
    free: Mutex<Vec<DeviceArray>>,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// How a pool is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolStats {
    /// Arrays of the pool.
    pub size: usize,
    /// Arrays that wait to be taken.
    pub free: usize,
    /// Share of the arrays that are in use.
    pub utilization: f64,
    /// Arrays taken so far.
    pub taken: u64,
    /// Share of the requests that found an array.
    pub hit_rate: f64,
    /// Bytes of all arrays.
    pub bytes: u64,
}

impl Backend {
    /// Makes a pool of arrays with unspecified contents.
    pub fn create_pool(&self, name: &str, spec: &Spec, size: usize) -> Result<Pool, Error> {
        let owner = self.memory().owner(&format!("pool {name}"));
        let free = (0..size).map(|_| self.uninitialized(&owner, spec)).collect::<Result<Vec<_>, _>>()?;
        let (taken, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Pool { shared: Arc::new(Shared { spec: spec.clone(), size, free: Mutex::new(free), taken, refused }) })
    }
}

impl Pool {
    /// Type and shape of its arrays.
    pub fn spec(&self) -> &Spec {
        &self.shared.spec
    }

    /// Takes an array.
    pub fn take(&self) -> Result<DeviceArray, Error> {
        match self.free().pop() {
            Some(array) => {
                self.shared.taken.fetch_add(1, Ordering::Relaxed);
                Ok(array)
            }
            None => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                let (size, spec) = (self.shared.size, &self.shared.spec);
                Err(MemoryError::Pool(format!("all {size} arrays {spec} of the pool are in use")).into())
            }
        }
    }

    /// Gives an array back: the one that was taken, or one that a program made of its memory.
    pub fn give_back(&self, array: DeviceArray) -> Result<(), Error> {
        let refuse = |message: String| Err(MemoryError::Pool(message).into());
        if array.spec() != self.spec() {
            return refuse(format!("an array {} does not belong into a pool of {}", array.spec(), self.spec()));
        }
        if array.is_deleted()? {
            return refuse(
                "an array whose memory a program took cannot be given back; give back the program's result".into(),
            );
        }
        let mut free = self.free();
        if free.len() >= self.shared.size {
            return refuse(format!("the pool has all its {} arrays already", self.shared.size));
        }
        free.push(array);
        Ok(())
    }

    /// How the pool is used.
    pub fn stats(&self) -> PoolStats {
        let free = self.free().len();
        let (taken, refused) = (self.shared.taken.load(Ordering::Relaxed), self.shared.refused.load(Ordering::Relaxed));
        let share = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        PoolStats {
            size: self.shared.size,
            free,
            utilization: share((self.shared.size - free) as f64, self.shared.size as f64),
            taken,
            hit_rate: share(taken as f64, (taken + refused) as f64),
            bytes: self.shared.spec.bytes() * self.shared.size as u64,
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<DeviceArray>> {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
