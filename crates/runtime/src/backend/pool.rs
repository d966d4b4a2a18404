//! Pools: equal arrays that are made once and handed out again and again; a backend lists them and empties them at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
    name: String,
    spec: Spec,
    arrays: Mutex<Arrays>,
    taken: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Arrays {
    /// Arrays of the pool, those in use included.
    size: usize,
    free: Vec<DeviceArray>,
    /// Nothing is handed out any more, and what is given back is freed.
    is_cleared: bool,
}

/// The pools of a backend. It does not keep them alive: a pool ends with its last clone.
#[derive(Debug, Default)]
pub(crate) struct Pools(Mutex<Vec<Weak<Shared>>>);

impl Pools {
    /// Pools that somebody holds and nobody cleared, in the order they were made.
    fn live(&self) -> Vec<Pool> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut live = Vec::new();
        pools.retain(|pool| {
            let pool = pool.upgrade().map(|shared| Pool { shared }).filter(|pool| !pool.arrays().is_cleared);
            let is_live = pool.is_some();
            live.extend(pool);
            is_live
        });
        live
    }

    fn add(&self, pool: &Pool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&pool.shared));
    }
}

/// How a pool is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolStats {
    /// What the pool is called.
    pub name: String,
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
        let pool = Pool {
            shared: Arc::new(Shared {
                name: name.to_string(),
                spec: spec.clone(),
                arrays: Mutex::new(Arrays { size, free, is_cleared: false }),
                taken: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            }),
        };
        self.pool_list().add(&pool);
        Ok(pool)
    }

    /// The pools of this backend that were not cleared, in the order they were made.
    pub fn pools(&self) -> Vec<Pool> {
        self.pool_list().live()
    }

    /// How the pools of this backend are used, in the order they were made.
    pub fn pool_stats(&self) -> Vec<PoolStats> {
        self.pools().iter().map(Pool::stats).collect()
    }

    /// Clears every pool of this backend, and says how many bytes came back at once.
    pub fn clear_pools(&self) -> u64 {
        self.pools().iter().map(Pool::clear).sum()
    }
}

impl Pool {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Type and shape of its arrays.
    pub fn spec(&self) -> &Spec {
        &self.shared.spec
    }

    /// Takes an array.
    pub fn take(&self) -> Result<DeviceArray, Error> {
        let mut arrays = self.arrays();
        if let Some(array) = arrays.free.pop() {
            self.shared.taken.fetch_add(1, Ordering::Relaxed);
            return Ok(array);
        }
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        let (name, spec) = (self.name(), self.spec());
        let message = match arrays.is_cleared {
            true => format!("the pool {name} of {spec} was cleared; make a new one"),
            false => format!("all {} arrays {spec} of the pool {name} are in use", arrays.size),
        };
        Err(MemoryError::Pool(message).into())
    }

    /// Gives an array back: the one that was taken, or one that a program made of its memory. A cleared pool frees it.
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
        let mut arrays = self.arrays();
        if arrays.free.len() >= arrays.size {
            return refuse(format!("the pool {} has all its {} arrays already", self.name(), arrays.size));
        }
        if arrays.is_cleared {
            arrays.size -= 1;
        } else {
            arrays.free.push(array);
        }
        Ok(())
    }

    /// Frees the arrays that wait to be taken, and says how many bytes that is. Arrays in use are freed when they are given
    /// back or dropped; none is handed out any more.
    pub fn clear(&self) -> u64 {
        let freed = {
            let mut arrays = self.arrays();
            arrays.is_cleared = true;
            arrays.size -= arrays.free.len();
            std::mem::take(&mut arrays.free)
        };
        self.spec().bytes() * freed.len() as u64
    }

    /// How the pool is used.
    pub fn stats(&self) -> PoolStats {
        let (size, free) = {
            let arrays = self.arrays();
            (arrays.size, arrays.free.len())
        };
        let (taken, refused) = (self.shared.taken.load(Ordering::Relaxed), self.shared.refused.load(Ordering::Relaxed));
        let share = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        PoolStats {
            name: self.name().to_string(),
            size,
            free,
            utilization: share((size - free) as f64, size as f64),
            taken,
            hit_rate: share(taken as f64, (taken + refused) as f64),
            bytes: self.spec().bytes() * size as u64,
        }
    }

    fn arrays(&self) -> MutexGuard<'_, Arrays> {
        self.shared.arrays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
