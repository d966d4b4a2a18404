//! Threads that wait for work: fork, join, nothing in between.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::machine::FlushDenormals;
use crate::recorder::{self, Tag};

/// How long a thread that waits looks without yielding: longer than the serial work between two kernels of one program.
const SPIN: Duration = Duration::from_micros(50);

/// How long a thread that waits yields before it sleeps, if yielding is quick: longer than what a caller does between two
/// programs, short enough that an idle process takes no processor time.
const YIELD: Duration = Duration::from_millis(1);

/// A yield that takes longer than this went to another process: the machine is busy, and the worker may wait for long.
const SLOW_YIELD: Duration = Duration::from_micros(100);

/// A task: called with the worker that runs it and the number of the task.
type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A fixed set of threads that run jobs together with the caller. Dropping it joins them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// `OPEN` while a job may be joined, the number of workers inside it below that bit, a count of jobs above it.
    state: AtomicU64,
    /// Set by the caller that owns `job`.
    taken: AtomicBool,
    /// Valid from the moment `OPEN` is set until the last worker has left and the caller returns.
    job: UnsafeCell<Option<Job>>,
    /// For each worker, the next of the tasks that are its own; reset with the job. A worker that is done takes from the
    /// others.
    shares: Vec<Share>,
    /// The first panic of a task of the current job.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    /// Whether the caller sleeps until the last worker has left its job.
    caller_sleeps: AtomicBool,
    left: Condvar,
    stop: AtomicBool,
}

// SAFETY: `job` is written only by the caller that holds `taken` while no worker is inside, and read only by workers
// that have entered; the entry and the exit go through `state`, with acquire and release order.
unsafe impl Sync for Shared {}
// SAFETY: the pointers in `job` are to things that are Sync and outlive the job.
unsafe impl Send for Shared {}

#[derive(Clone, Copy)]
struct Job {
    task: *const Task<'static>,
    count: usize,
    /// The step it is for, where a profile is recorded.
    tag: Option<Tag>,
}

/// A counter on a pair of cache lines of its own: processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Share {
    next: AtomicUsize,
}

const OPEN: u64 = 1 << 16;
const INSIDE: u64 = OPEN - 1;
const EPOCH: u64 = OPEN << 1;

thread_local! {
    /// The worker this thread is, while it runs a task of some pool.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Pool {
    /// A pool of `threads` threads, the caller of [`Pool::run`] counted. Fewer where the system gives fewer.
    pub(crate) fn new(threads: usize) -> Pool {
        let threads = threads.clamp(1, INSIDE as usize);
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            taken: AtomicBool::new(false),
            job: UnsafeCell::new(None),
            shares: (0..threads).map(|_| Share::default()).collect(),
            panic: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            caller_sleeps: AtomicBool::new(false),
            left: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let mut workers = Vec::new();
        for worker in 1..threads {
            let shared = Arc::clone(&shared);
            match std::thread::Builder::new().name(format!("cpu-{worker}")).spawn(move || shared.work(worker)) {
                Ok(handle) => workers.push(handle),
                Err(_) => break,
            }
        }
        Pool { shared, workers }
    }

    /// The most tasks that run at the same time. Workers are numbered below this.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs tasks `0..count`, each once, and returns when all are done. The caller is worker 0.
    ///
    /// A worker begins with its own even share of the tasks, so that the same part of an array is met by the same
    /// processor from one job to the next, and takes from the others' when that is done.
    ///
    /// A worker's number is its own among the tasks of this job only. Called inside a task, or while another thread's
    /// job has the workers, it runs the tasks on the calling thread. The first panic of a task is raised here again;
    /// tasks not yet begun are then left out.
    pub(crate) fn run(&self, count: usize, task: &Task<'_>) {
        let nested = WORKER.get();
        if count <= 1 || self.workers.is_empty() || nested.is_some() || !self.shared.take() {
            let worker = nested.unwrap_or(0);
            for index in 0..count {
                task(worker, index);
            }
            return;
        }
        self.shared.lead(count, task);
    }
}

impl Shared {
    fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Publishes a job, takes part in it, and waits for the workers that joined it. The caller holds `taken`.
    fn lead(&self, count: usize, task: &Task<'_>) {
        for (worker, share) in self.shares.iter().enumerate() {
            // Ordered before the job's publication, and no worker is inside.
            share.next.store(self.first_of(worker, count), Ordering::Relaxed);
        }
        // SAFETY: the lifetime is erased for storage only: this function does not return before every worker that could
        // have read the pointer has left the job.
        let task = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        let job = Job { task, count, tag: recorder::tag() };
        // SAFETY: this thread holds `taken` and the state is not open: nobody else reads or writes the job.
        unsafe { *self.job.get() = Some(job) };
        self.state.fetch_add(EPOCH | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock_sleep());
            self.wake.notify_all();
        }

        self.take_part(0, job);

        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        self.wait_for_workers();
        let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.taken.store(false, Ordering::Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Returns when no worker is inside the job.
    ///
    /// A worker that was preempted by another process is scheduled sooner if this thread sleeps: one that only yields stays
    /// runnable, uses up its own CPU time, and is late for the next job.
    fn wait_for_workers(&self) {
        let is_done = || self.state.load(Ordering::SeqCst) & INSIDE == 0;
        let mut waiting = Waiting::new();
        while !is_done() && waiting.looks_again() {}
        if is_done() {
            return;
        }
        let mut guard = self.lock_sleep();
        self.caller_sleeps.store(true, Ordering::SeqCst);
        // A worker that leaves after this load sees that the caller sleeps, and takes the lock before it notifies.
        while !is_done() {
            guard = self.left.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_sleeps.store(false, Ordering::SeqCst);
    }

    /// A worker leaves the job.
    fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::SeqCst);
        if before & INSIDE == 1 && self.caller_sleeps.load(Ordering::SeqCst) {
            drop(self.lock_sleep());
            self.left.notify_one();
        }
    }

    /// The first task of a worker's share of `count`.
    fn first_of(&self, worker: usize, count: usize) -> usize {
        let threads = self.shares.len();
        // Without the product of the two, which may not fit.
        count / threads * worker + (count % threads) * worker / threads
    }

    /// Runs tasks of the job until none is left: those of this worker's share, then what is left of the others'.
    fn take_part(&self, worker: usize, job: Job) {
        WORKER.set(Some(worker));
        let start = job.tag.map(|_| Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller of `lead` keeps `task` alive until this worker has left the job.
            let task = unsafe { &*job.task };
            let threads = self.shares.len();
            for owner in (worker..threads).chain(0..worker) {
                let end = self.first_of(owner + 1, job.count);
                let next = &self.shares[owner].next;
                while next.load(Ordering::Relaxed) < end {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= end {
                        break;
                    }
                    task(worker, index);
                }
            }
        }));
        WORKER.set(None);
        if let Some((tag, start)) = job.tag.zip(start) {
            recorder::shared_step(tag, start);
        }
        if let Err(payload) = outcome {
            for (owner, share) in self.shares.iter().enumerate() {
                // No wrap: each worker adds at most once more after this store.
                share.next.store(self.first_of(owner + 1, job.count), Ordering::Relaxed);
            }
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }

    /// The life of a worker.
    fn work(&self, worker: usize) {
        let _mode = FlushDenormals::new();
        let mut seen = 0;
        while let Some(job) = self.join(&mut seen) {
            self.take_part(worker, job);
            self.leave();
        }
    }

    /// Waits for a job other than the one `seen` and enters it. `None` when the pool is dropped.
    fn join(&self, seen: &mut u64) -> Option<Job> {
        let mut waiting = Waiting::new();
        loop {
            let state = self.state.load(Ordering::SeqCst);
            let epoch = state & !(OPEN | INSIDE);
            if state & OPEN != 0 && epoch != *seen {
                if self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    *seen = epoch;
                    // SAFETY: entered while open, so the job was published and stays until this worker leaves.
                    return unsafe { *self.job.get() };
                }
                continue;
            }
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            if waiting.looks_again() {
                continue;
            }
            let guard = self.lock_sleep();
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            // A job published after this load sees the sleeper and takes the lock before it notifies.
            let idle = self.state.load(Ordering::SeqCst) & OPEN == 0
                || self.state.load(Ordering::SeqCst) & !(OPEN | INSIDE) == *seen;
            if idle && !self.stop.load(Ordering::SeqCst) {
                drop(self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner));
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            waiting = Waiting::new();
        }
    }

    fn lock_sleep(&self) -> MutexGuard<'_, ()> {
        self.sleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait that is short if all goes well.
struct Waiting {
    turns: u32,
    since: Option<Instant>,
}

impl Waiting {
    fn new() -> Waiting {
        Waiting { turns: 0, since: None }
    }

    /// Waits a few cycles, and lets other processes run when it has been called for longer than [`SPIN`]. False when it is
    /// time to sleep.
    fn looks_again(&mut self) -> bool {
        const TURNS_BETWEEN_CLOCKS: u32 = 16;
        std::hint::spin_loop();
        self.turns += 1;
        if self.turns < TURNS_BETWEEN_CLOCKS {
            return true;
        }
        self.turns = 0;
        let now = Instant::now();
        let waited = now - *self.since.get_or_insert(now);
        if waited < SPIN {
            return true;
        }
        std::thread::yield_now();
        waited < YIELD && now.elapsed() < SLOW_YIELD
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.lock_sleep());
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its tasks; there is nothing to report here.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every task of `jobs` jobs of `count` tasks runs once, on a worker that exists.
    fn check(threads: usize, jobs: usize, count: usize) {
        let pool = Pool::new(threads);
        for _ in 0..jobs {
            let runs: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            pool.run(count, &|worker, task| {
                assert!(worker < pool.threads());
                runs[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(runs.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [0, 1, 2, 3, 5] {
            for count in [0, 1, 2, 7, 100] {
                check(threads, 50, count);
            }
        }
    }

    #[test]
    fn a_caller_that_sleeps_is_woken_by_the_last_worker() {
        let pool = Pool::new(3);
        for _ in 0..20 {
            let runs = AtomicUsize::new(0);
            pool.run(30, &|worker, _| {
                if worker > 0 {
                    std::thread::sleep(YIELD * 3);
                }
                runs.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(runs.load(Ordering::Relaxed), 30);
        }
    }

    #[test]
    fn panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(3);
        for bad in [0, 5, 9] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(10, &|_, task| {
                    if task == bad {
                        panic!("task {task}")
                    }
                });
            }));
            let payload = caught.expect_err("the panic is raised again");
            assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some(format!("task {bad}").as_str()));
        }
        let ran = AtomicUsize::new(0);
        pool.run(4, &|_, _| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ran.into_inner(), 4);
    }

    #[test]
    fn nested_run_stays_on_its_worker() {
        let pool = Pool::new(2);
        let ran = AtomicUsize::new(0);
        pool.run(4, &|outer, _| {
            pool.run(3, &|inner, _| {
                assert_eq!(inner, outer);
                ran.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(ran.into_inner(), 12);
    }

    #[test]
    fn callers_share_a_pool() {
        let pool = Pool::new(2);
        let ran = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        pool.run(5, &|_, _| {
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(ran.into_inner(), 1500);
    }

    #[test]
    fn workers_flush_denormals() {
        let pool = Pool::new(2);
        let _mode = FlushDenormals::new();
        pool.run(8, &|_, _| {
            let half = std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5);
            assert!(half == 0.0 || !cfg!(target_arch = "x86_64"));
        });
    }
}
