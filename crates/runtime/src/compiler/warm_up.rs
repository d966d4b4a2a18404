//! Compiling ahead: a list of programs on several threads, so that none compiles while someone waits for its results.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use compile::{CacheUse, Program};

use super::Compiler;
use crate::error::Error;

/// A program of a warm-up that is done.
#[derive(Debug)]
pub struct WarmUpStep<'a> {
    /// The program's name.
    pub program: &'a str,
    /// Programs done, this one included.
    pub done: usize,
    /// Programs in all.
    pub total: usize,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub error: Option<&'a Error>,
}

/// What a warm-up did.
#[derive(Debug, Default)]
pub struct WarmUp {
    /// Programs compiled.
    pub compiled: u64,
    /// Programs loaded from the cache on disk.
    pub loaded: u64,
    /// Programs that were ready before.
    pub ready: u64,
    /// Programs that could not be compiled, by position, and why.
    pub failed: Vec<(usize, Error)>,
}

impl Compiler {
    /// Compiles programs ahead, or loads them from the cache on disk, on several threads. A program that fails does not
    /// stop the others.
    ///
    /// What is compiled stays as long as the configuration's `cache_max_size` lets it.
    pub fn warm_up(
        &self,
        programs: &[Arc<Program>],
        threads: NonZeroUsize,
        progress: &(dyn Fn(WarmUpStep<'_>) + Sync),
    ) -> WarmUp {
        let before = self.stats();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failed = Mutex::new(Vec::new());
        let work = || {
            while let Some((index, program)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, programs.get(index)?)))
            {
                let started = Instant::now();
                let result = self.compile(program, &[], CacheUse::ReadWrite);
                let error = result.err();
                progress(WarmUpStep {
                    program: program.name(),
                    done: done.fetch_add(1, Ordering::Relaxed) + 1,
                    total: programs.len(),
                    took: started.elapsed(),
                    error: error.as_ref(),
                });
                if let Some(error) = error {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).push((index, error));
                }
            }
        };
        std::thread::scope(|scope| {
            // This thread works too: a machine without room for another one still warms up.
            for n in 1..threads.get().min(programs.len()) {
                let spawned = std::thread::Builder::new().name(format!("tpubridge-warm-{n}")).spawn_scoped(scope, work);
                if spawned.is_err() {
                    break;
                }
            }
            work();
        });
        let after = self.stats();
        let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.sort_by_key(|(index, _)| *index);
        WarmUp {
            compiled: after.compilations - before.compilations,
            loaded: after.loaded - before.loaded,
            ready: after.hits - before.hits,
            failed,
        }
    }
}
